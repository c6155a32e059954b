/* SPDX-License-Identifier: Apache-2.0 */
/* The disk of the simulator, outside of all nodes. It has two states: `live`, what a running machine sees, and `base`, what was
 * durable at the last sync. Between them lies the log of all changes: a power cut makes a new state of the base and a random
 * part of the log. */
#include <sys/stat.h>

#include "disk.h"

enum { BUCKETS = 256 };
struct disk_state {
	struct disk_object *bucket[BUCKETS];
};
struct change {
	struct disk_change c; /* owns what it points to */
	uint64_t transaction;
	bool synced; /* data: by an fsync of its file */
	bool lost;   /* data: could not be written */
	struct change *next;
};
struct disk {
	unsigned member;
	struct disk_state live, base;
	struct change *first, *last;
	uint64_t transaction, durable; /* the last one; up to which metadata is durable */
	uint64_t survived;	       /* the last power cut: metadata before that one */
	uint64_t serials, cookies;
	bool was_cut;
	struct disk_errors errors; /* of all files */
	uint32_t seen;		   /* of these, by the process that runs */
	struct disk_faults faults;
};
static struct disk *disks[BRICKS_MAX];

/* ---- objects ---- */

static struct disk_object **bucket_of(struct disk_state *s, const struct gfid *g)
{
	return &s->bucket[(g->bytes[15] ^ g->bytes[3]) % BUCKETS];
}

static struct disk_object *object_find(struct disk_state *s, const struct gfid *g)
{
	struct disk_object *o = *bucket_of(s, g);

	while (o && !gfid_equal(&o->attr.gfid, g))
		o = o->next;
	return o;
}

static void pair_free(struct disk_pair **at)
{
	struct disk_pair *p = *at;

	*at = p->next;
	free(p->name);
	free(p->value.bytes);
	free(p);
}

static void entry_free(struct disk_entry **at)
{
	struct disk_entry *e = *at;

	*at = e->next;
	free(e->name);
	free(e);
}

static void object_free(struct disk_state *s, struct disk_object *o)
{
	struct disk_object **at = bucket_of(s, &o->attr.gfid);

	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	while (o->xattr)
		pair_free(&o->xattr);
	while (o->entry)
		entry_free(&o->entry);
	free(o->data);
	free(o);
}

static void state_clear(struct disk_state *s)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		while (s->bucket[i])
			object_free(s, s->bucket[i]);
}

static char *copy_bytes(const void *bytes, size_t size)
{
	char *copy = malloc(size + 1);

	if (size)
		memcpy(copy, bytes, size);
	copy[size] = '\0';
	return copy;
}

static struct disk_object *object_copy(const struct disk_object *o)
{
	struct disk_object *copy = malloc(sizeof(*copy));
	struct disk_entry **e = &copy->entry;
	struct disk_pair **x = &copy->xattr;

	*copy = *o;
	copy->data = o->data ? copy_bytes(o->data, o->attr.size) : NULL;
	for (const struct disk_entry *from = o->entry; from; from = from->next, e = &(*e)->next) {
		*e = malloc(sizeof(**e));
		**e = *from;
		(*e)->name = strdup(from->name);
	}
	*e = NULL;
	for (const struct disk_pair *from = o->xattr; from; from = from->next, x = &(*x)->next) {
		*x = malloc(sizeof(**x));
		**x = (struct disk_pair){ strdup(from->name),
					  { from->value.size, copy_bytes(from->value.bytes, from->value.size) },
					  NULL };
	}
	*x = NULL;
	return copy;
}

static void state_copy(struct disk_state *to, const struct disk_state *from)
{
	state_clear(to);
	for (unsigned i = 0; i < BUCKETS; i++) {
		struct disk_object **at = &to->bucket[i];

		for (const struct disk_object *o = from->bucket[i]; o; o = o->next, at = &(*at)->next)
			*at = object_copy(o);
		*at = NULL;
	}
}

/* ---- changes ---- */

static void set_size(struct disk_object *o, uint64_t size)
{
	char *data = realloc(o->data, size + 1);

	if (size > o->attr.size)
		memset(data + o->attr.size, 0, size - o->attr.size);
	o->data = data;
	o->attr.size = size;
}

static void apply_write(struct disk_object *o, const struct disk_change *c)
{
	if (c->offset + c->size > o->attr.size)
		set_size(o, c->offset + c->size);
	if (c->size)
		memcpy(o->data + c->offset, c->bytes, c->size);
}

static void apply_enter(struct disk_object *o, const struct disk_change *c)
{
	struct disk_entry **at = &o->entry;

	while (*at && strcmp((*at)->name, c->name))
		at = &(*at)->next;
	if (!*at) {
		*at = calloc(1, sizeof(**at));
		(*at)->name = strdup(c->name);
		(*at)->cookie = c->offset;
	}
	(*at)->gfid = c->other;
}

static void apply_leave(struct disk_object *o, const struct disk_change *c)
{
	for (struct disk_entry **at = &o->entry; *at; at = &(*at)->next)
		if (!strcmp((*at)->name, c->name)) {
			entry_free(at);
			return;
		}
}

static void apply_xattr(struct disk_object *o, const struct disk_change *c)
{
	struct disk_pair **at = &o->xattr;

	while (*at && strcmp((*at)->name, c->name))
		at = &(*at)->next;
	if (*at)
		pair_free(at);
	if (c->kind == CHANGE_XATTR) { /* in its old place: the order is not to tell replicas apart */
		struct disk_pair *p = malloc(sizeof(*p));

		*p = (struct disk_pair){ strdup(c->name), { (uint32_t)c->size, copy_bytes(c->bytes, c->size) }, *at };
		*at = p;
	}
}

static void apply_attr(struct disk_object *o, const struct attr *a)
{
	uint64_t size = o->attr.size;

	o->attr = *a;
	o->attr.size = size; /* goes with the data */
}

static void apply_new(struct disk_state *s, const struct disk_change *c)
{
	struct disk_object *o = object_find(s, &c->gfid);
	struct disk_object **bucket = bucket_of(s, &c->gfid);

	if (o)
		object_free(s, o);
	o = calloc(1, sizeof(*o));
	o->attr = c->attr;
	o->serial = c->offset;
	o->data = c->bytes ? copy_bytes(c->bytes, c->size) : NULL;
	o->next = *bucket;
	*bucket = o;
}

static void apply(struct disk_state *s, const struct disk_change *c)
{
	struct disk_object *o = c->kind == CHANGE_NEW ? NULL : object_find(s, &c->gfid);

	if (c->kind == CHANGE_NEW)
		apply_new(s, c);
	if (!o)
		return;
	switch (c->kind) {
	case CHANGE_NEW:
		break;
	case CHANGE_FREE:
		if (o->serial == c->offset)
			object_free(s, o);
		break;
	case CHANGE_ENTER:
		apply_enter(o, c);
		break;
	case CHANGE_LEAVE:
		apply_leave(o, c);
		break;
	case CHANGE_ATTR:
		apply_attr(o, &c->attr);
		break;
	case CHANGE_XATTR:
	case CHANGE_NO_XATTR:
		apply_xattr(o, c);
		break;
	case CHANGE_SIZE:
		set_size(o, c->size);
		break;
	case CHANGE_WRITE:
		apply_write(o, c);
		break;
	}
}

void disk_change(struct disk *d, const struct disk_change *c)
{
	struct change *k = malloc(sizeof(*k));

	*k = (struct change){ .c = *c, .transaction = d->transaction };
	if (c->name)
		k->c.name = strdup(c->name);
	if (c->bytes)
		k->c.bytes = copy_bytes(c->bytes, c->size);
	if (d->last)
		d->last->next = k;
	else
		d->first = k;
	d->last = k;
	apply(&d->live, &k->c);
}

void disk_commit(struct disk *d)
{
	d->transaction++;
}

uint64_t disk_serial(struct disk *d)
{
	return ++d->serials;
}

uint64_t disk_cookie(struct disk *d)
{
	return ++d->cookies;
}

struct disk_object *disk_find(struct disk *d, const struct gfid *g)
{
	return object_find(&d->live, g);
}

void disk_each(struct disk *d, void (*fn)(struct disk_object *, void *), void *arg)
{
	struct disk_object *next;

	for (unsigned i = 0; i < BUCKETS; i++)
		for (struct disk_object *o = d->live.bucket[i]; o; o = next) {
			next = o->next;
			fn(o, arg);
		}
}

/* ---- what can't be written ---- */

struct lacking {
	struct disk *disk;
	const struct disk_object *found;
};

static bool is_data(const struct disk_change *c)
{
	return c->kind == CHANGE_WRITE;
}

static void errors_add(struct disk_errors *e)
{
	e->count++;
	e->told = false;
}

static int errors_told(struct disk_errors *e, uint32_t *seen)
{
	if (*seen == e->count)
		return 0;
	*seen = e->count;
	e->told = true;
	return -EIO;
}

uint32_t disk_errors_seen(const struct disk_errors *e)
{
	return e->count - !(e->told || !e->count);
}

/* The kernel keeps it in memory as if it had been written. */
static bool loses(struct disk *d, struct change *k)
{
	struct disk_object *o = object_find(&d->live, &k->c.gfid);
	char text[GFID_TEXT];

	if (!o || !chance_of(CHANCE_DISK, d->faults.loses))
		return false;
	k->lost = o->lost = true;
	errors_add(&o->errors);
	errors_add(&d->errors);
	trace("the disk of brick %u loses %llu bytes at %llu of %.8s", d->member, (unsigned long long)k->c.size,
	      (unsigned long long)k->c.offset, gfid_text(&k->c.gfid, text));
	return true;
}

/* On its own, and nobody has been told yet. */
void disk_write_back(struct disk *d, const struct gfid *g)
{
	for (struct change *k = d->first; k; k = k->next)
		if (is_data(&k->c) && gfid_equal(&k->c.gfid, g) && !k->synced && !k->lost)
			loses(d, k);
}

/* The size is there, the bytes are not. */
static void apply_as_written(struct disk_state *s, const struct change *k)
{
	struct disk_object *o = k->lost ? object_find(s, &k->c.gfid) : NULL;

	if (!k->lost)
		apply(s, &k->c);
	else if (o && k->c.offset + k->c.size > o->attr.size)
		set_size(o, k->c.offset + k->c.size);
}

static bool is_of_contents(const struct disk_change *c)
{
	return c->kind == CHANGE_NEW || c->kind == CHANGE_FREE || c->kind == CHANGE_SIZE || c->kind == CHANGE_WRITE;
}

/* What the disk has of a file, and what is still to be written. The bytes are the caller's; there may be less of them than the file is long. */
static char *as_read(struct disk *d, const struct gfid *g, uint64_t *size)
{
	const struct disk_object *base = object_find(&d->base, g);
	struct disk_state s = { 0 };
	struct disk_object *o;
	char *bytes;

	if (base)
		*bucket_of(&s, g) = object_copy(base);
	if (base)
		(*bucket_of(&s, g))->next = NULL;
	for (const struct change *k = d->first; k; k = k->next)
		if (is_of_contents(&k->c) && gfid_equal(&k->c.gfid, g))
			apply_as_written(&s, k);
	o = object_find(&s, g);
	*size = o ? o->attr.size : 0;
	bytes = copy_bytes(o ? o->data : NULL, *size);
	state_clear(&s);
	return bytes;
}

/* Parts of it that were written once more are on the disk. */
static bool still_lacks(struct disk *d, struct disk_object *o)
{
	uint64_t size;
	char *bytes = o->lost ? as_read(d, &o->attr.gfid, &size) : NULL;

	if (bytes)
		o->lost = size != o->attr.size || (size && memcmp(bytes, o->data, size));
	free(bytes);
	return o->lost;
}

static void note_lacking(struct disk_object *o, void *arg)
{
	struct lacking *l = arg;

	if (o->attr.nlink && still_lacks(l->disk, o) && !l->found) /* what has no name a crash takes anyway */
		l->found = o;
}

const struct disk_object *disk_lacks(struct disk *d)
{
	struct lacking l = { d, NULL };

	disk_each(d, note_lacking, &l);
	return l.found;
}

void disk_reread(struct disk *d, const struct gfid *g)
{
	struct disk_object *o = object_find(&d->live, g);
	char text[GFID_TEXT], *bytes;
	uint64_t size;

	if (!o || !still_lacks(d, o))
		return;
	bytes = as_read(d, g, &size);
	if (o->attr.size)
		memset(o->data, 0, o->attr.size);
	memcpy(o->data, bytes, size < o->attr.size ? size : o->attr.size);
	free(bytes);
	o->lost = false;
	trace("what brick %u has lost of %.8s it has forgotten", d->member, gfid_text(g, text));
}

/* ---- what is durable ---- */

static void drop_first(struct disk *d)
{
	struct change *k = d->first;

	d->first = k->next;
	if (!d->first)
		d->last = NULL;
	free((char *)k->c.name);
	free((char *)k->c.bytes);
	free(k);
}

static void all_durable(struct disk *d)
{
	while (d->first) {
		apply_as_written(&d->base, d->first);
		drop_first(d);
	}
	d->durable = d->transaction;
}

/* As a file system with a journal does it: the journal up to here becomes durable, and the file's own data. */
int disk_fsync(struct disk *d, const struct gfid *g, uint32_t *seen)
{
	struct disk_object *o = object_find(&d->live, g);

	for (struct change *k = d->first; k; k = k->next)
		if (is_data(&k->c) && gfid_equal(&k->c.gfid, g) && !k->synced && !k->lost)
			k->synced = !loses(d, k);
	d->durable = d->transaction;
	return o ? errors_told(&o->errors, seen) : 0;
}

void disk_opened(struct disk *d)
{
	d->seen = disk_errors_seen(&d->errors);
}

int disk_sync(struct disk *d)
{
	for (struct change *k = d->first; k; k = k->next)
		if (is_data(&k->c) && !k->synced && !k->lost)
			loses(d, k);
	all_durable(d);
	return errors_told(&d->errors, &d->seen);
}

static void free_orphan(struct disk_object *o, void *arg)
{
	struct disk *d = arg;

	if (!o->attr.nlink)
		disk_change(d, &(struct disk_change){ .kind = CHANGE_FREE, .gfid = o->attr.gfid, .offset = o->serial });
}

void disk_forget_orphans(struct disk *d)
{
	disk_each(d, free_orphan, d);
	disk_commit(d);
}

uint64_t disk_transaction(const struct disk *d)
{
	return d->transaction;
}

uint64_t disk_survived(const struct disk *d)
{
	return d->survived;
}

bool disk_was_cut(const struct disk *d)
{
	return d->was_cut;
}

/* Metadata: up to some transaction that is not before what was synced. Data: what was synced, and of the rest whatever had been
 * written back. */
void disk_power_cut(struct disk *d)
{
	uint64_t until = chance_between(CHANCE_DISK, d->durable, d->transaction);
	unsigned part = (unsigned)chance_below(CHANCE_DISK, 1000001), lost = 0;

	while (d->first) {
		const struct change *k = d->first;
		bool there = is_data(&k->c) ? k->synced || chance_of(CHANCE_DISK, part) : k->transaction < until;

		if (there)
			apply_as_written(&d->base, k);
		lost += !there || k->lost;
		drop_first(d);
	}
	d->durable = d->transaction;
	d->was_cut = true;
	d->errors = (struct disk_errors){ 0 };
	state_copy(&d->live, &d->base);
	d->survived = until;
	trace("the disk of brick %u forgets %u changes", d->member, lost);
	disk_forget_orphans(d);
	all_durable(d);
	if (verbose)
		disk_print(d, stderr);
}

static void make_root(struct disk *d)
{
	struct disk_change c = { .kind = CHANGE_NEW, .gfid = gfid_root };

	c.attr = (struct attr){ .gfid = gfid_root, .mode = S_IFDIR | 0755, .nlink = 2, .blksize = 4096 };
	c.attr.mtime.sec = c.attr.atime.sec = c.attr.ctime.sec = c.attr.btime.sec = 1700000000;
	c.offset = disk_serial(d);
	disk_change(d, &c);
	disk_commit(d);
	all_durable(d);
}

void disk_replace(struct disk *d)
{
	all_durable(d);
	state_clear(&d->live);
	state_clear(&d->base);
	make_root(d);
}

struct disk *disk_create(unsigned member)
{
	struct disk *d = calloc(1, sizeof(*d));

	d->member = member;
	disks[member] = d;
	make_root(d);
	return d;
}

struct disk *disk_of(unsigned member)
{
	return disks[member];
}

struct disk_faults *disk_faults(struct disk *d)
{
	return &d->faults;
}

unsigned disk_member(const struct disk *d)
{
	return d->member;
}
