/* SPDX-License-Identifier: Apache-2.0 */
/* Are the disks of all members the same? Looked at directly, not through any translator. */
#include "away.h"
#include "leaf.h"

enum { LIMBO_GFID = 3 }; /* 15 zeros and a 3: the directory of what the coordinator moves out of the way */

struct side {
	struct disk *disk;
	unsigned member;
	bool arbiter;
};

static bool same_time(const struct time *a, const struct time *b)
{
	return a->sec == b->sec && a->nsec == b->nsec;
}

static void differ(const struct side *a, const struct side *b, const char *path, const char *what, const char *more)
{
	sim_fail("bricks %u and %u differ: %s of %s%s%s", a->member, b->member, what, *path ? path : "/", *more ? ": " : "",
		 more);
}

static const struct disk_pair *pair_find(const struct disk_object *o, const char *name)
{
	const struct disk_pair *x = o->xattr;

	while (x && strcmp(x->name, name))
		x = x->next;
	return x;
}

/* The name of one that b lacks, or has with another value; NULL: there is none. */
static const char *pair_beyond(const struct disk_object *a, const struct disk_object *b)
{
	for (const struct disk_pair *x = a->xattr; x; x = x->next) {
		const struct disk_pair *y = pair_find(b, x->name);

		if (!y || y->value.size != x->value.size || memcmp(x->value.bytes, y->value.bytes, x->value.size))
			return x->name;
	}
	return NULL;
}

/* See BIRTHMARK. */
static bool has_birthmark(const struct disk_object *o, const char *path)
{
	struct gfid g = away_birth(&o->attr.gfid);
	const struct disk_pair *x = pair_find(o, BIRTHMARK);

	if (plan_leaves() && plan.lossy) /* fsck may have made it */
		return true;
	if (plan_leaves() && S_ISDIR(o->attr.mode) && away_is_hidden(path) &&
	    !away_is_pointer(o)) /* it may have been made anew by who gave it another home */
		return true;
	if (away_is_pointer(o) || away_is_frame(path) || away_is_shard(o, path) || strstr(path, "/g."))
		return !x;
	if (gfid_equal(&g, &gfid_root) || !(g.bytes[0] & 1 || plan.subvolumes > 1))
		return !x;
	return x && x->value.size == sizeof(g.bytes) && !memcmp(x->value.bytes, g.bytes, sizeof(g.bytes));
}

static void compare_objects(const struct side *a, const struct side *b, const struct disk_object *x,
			    const struct disk_object *y, const char *path)
{
	const struct attr *p = &x->attr, *q = &y->attr;
	bool data = !a->arbiter && !b->arbiter && S_ISREG(p->mode);
	char more[128];

	if (!gfid_equal(&p->gfid, &q->gfid))
		differ(a, b, path, "gfid", "");
	else if (p->mode != q->mode || p->uid != q->uid || p->gid != q->gid || p->rdev != q->rdev)
		differ(a, b, path, "mode or owner", "");
	else if (p->nlink != q->nlink)
		differ(a, b, path, "number of links", "");
	else if (data && p->size != q->size) {
		snprintf(more, sizeof(more), "%llu and %llu", (unsigned long long)p->size, (unsigned long long)q->size);
		differ(a, b, path, "size", more);
	} else if ((data || S_ISLNK(p->mode)) && p->size && memcmp(x->data, y->data, p->size))
		differ(a, b, path, "data", "");
	else if (pair_beyond(x, y) || pair_beyond(y, x))
		differ(a, b, path, "xattrs", pair_beyond(x, y) ?: pair_beyond(y, x));
	else if (!has_birthmark(x, path))
		sim_fail("%s has not what it was born with", path);
	else if (!same_time(&p->mtime, &q->mtime)) {
		snprintf(more, sizeof(more), "%lld.%09u and %lld.%09u", (long long)p->mtime.sec, p->mtime.nsec,
			 (long long)q->mtime.sec, q->mtime.nsec);
		differ(a, b, path, "mtime", more);
	} else if (!same_time(&p->btime, &q->btime)) {
		snprintf(more, sizeof(more), "%lld.%09u and %lld.%09u", (long long)p->btime.sec, p->btime.nsec,
			 (long long)q->btime.sec, q->btime.nsec);
		differ(a, b, path, "time of birth", more);
	}
}

static const struct disk_entry *entry_find(const struct disk_object *dir, const char *name)
{
	const struct disk_entry *e = dir->entry;

	while (e && strcmp(e->name, name))
		e = e->next;
	return e;
}

static void compare_at(const struct side *, const struct side *, const struct disk_entry *, const struct disk_entry *,
		       const char *);

static void compare_dirs(const struct side *a, const struct side *b, const struct disk_object *x, const struct disk_object *y,
			 const char *path)
{
	char below[1024];

	for (const struct disk_entry *e = x->entry; e && !sim_failure(); e = e->next) {
		snprintf(below, sizeof(below), "%s/%s", path, e->name);
		if (liar_owns(below) && entry_find(y, e->name))
			continue;
		if (!entry_find(y, e->name))
			sim_fail("brick %u has %s, brick %u does not", a->member, below, b->member);
		else
			compare_at(a, b, e, entry_find(y, e->name), below);
	}
	for (const struct disk_entry *e = y->entry; e && !sim_failure(); e = e->next)
		if (!entry_find(x, e->name))
			sim_fail("brick %u has %s/%s, brick %u does not", b->member, path, e->name, a->member);
}

static void compare_at(const struct side *a, const struct side *b, const struct disk_entry *e, const struct disk_entry *f,
		       const char *path)
{
	const struct disk_object *x = disk_find(a->disk, &e->gfid), *y = disk_find(b->disk, &f->gfid);

	if (!x || !y) {
		sim_fail("a name without an object: %s", path);
		return;
	}
	compare_objects(a, b, x, y, path);
	if (S_ISDIR(x->attr.mode) && S_ISDIR(y->attr.mode) && !sim_failure())
		compare_dirs(a, b, x, y, path);
}

static void print_object(struct disk *d, const struct gfid *g, const char *name, int depth, FILE *to)
{
	const struct disk_object *o = disk_find(d, g);
	char text[GFID_TEXT];

	if (!o)
		return;
	fprintf(to, "    %*s%s %.8s mode %o links %u size %llu mtime %lld.%09u\n", depth * 2, "", name, gfid_text(g, text),
		o->attr.mode, o->attr.nlink, (unsigned long long)o->attr.size, (long long)o->attr.mtime.sec,
		o->attr.mtime.nsec);
	if (S_ISREG(o->attr.mode) && o->attr.size) {
		fprintf(to, "    %*s ", depth * 2, "");
		for (uint64_t at = 0; at + 8 <= o->attr.size; at += 64) {
			uint64_t v;

			memcpy(&v, o->data + at, 8);
			fprintf(to, " %llu", (unsigned long long)v);
		}
		fputc('\n', to);
	}
	for (const struct disk_entry *e = o->entry; e; e = e->next)
		print_object(d, &e->gfid, e->name, depth + 1, to);
}

void disk_print(struct disk *d, FILE *to)
{
	fprintf(to, "disk of brick %u:\n", disk_member(d));
	print_object(d, &gfid_root, "/", 0, to);
}

static const struct disk_object *limbo_of(unsigned member)
{
	struct gfid limbo = { { [15] = LIMBO_GFID } };
	const struct disk_object *o = disk_find(disk_of(member), &limbo);

	return o && o->attr.nlink ? o : NULL;
}

bool disks_have_limbos(void)
{
	for (unsigned i = 0; i < bricks_count(); i++)
		if (limbo_of(i))
			return true;
	return false;
}

/* Nothing may be left there, not even itself. */
static void check_limbo(unsigned member)
{
	const struct disk_object *o = limbo_of(member);

	if (o)
		sim_fail("brick %u still has a limbo%s", member, o->entry ? ", with something in it" : "");
}

/* A single one is compared with itself: it, too, must have what it was born with. */
static void check_set(unsigned from)
{
	struct disk_entry root = { .name = (char *)"/", .gfid = gfid_root };
	struct side first = { disk_of(from), from, false };

	for (unsigned i = plan.members > 1; i < plan.members && !sim_failure(); i++) {
		struct side other = { disk_of(from + i), from + i, plan.arbiter && i == plan.members - 1 };

		compare_at(&first, &other, &root, &root, "");
	}
}

void check_replicas(void)
{
	for (unsigned i = 0; i < bricks_count(); i++)
		check_limbo(i);
	for (unsigned i = 0; i < plan.subvolumes; i++)
		check_set(i * plan.members);
}

/* ---- what no recovery may lose ---- */

enum { NAMED_MAX = 256 };
struct named {
	unsigned count;
	struct gfid gfid[NAMED_MAX];
};
static struct named before;

static bool is_named(const struct named *n, const struct gfid *g)
{
	for (unsigned i = 0; i < n->count; i++)
		if (gfid_equal(&n->gfid[i], g))
			return true;
	return false;
}

/* What has a name on that disk; in the limbo it has none. */
static void list_named(struct disk *d, const struct gfid *g, struct named *n)
{
	struct gfid limbo = { { [15] = LIMBO_GFID } };
	const struct disk_object *o = disk_find(d, g);

	if (!o || is_named(n, g) || gfid_equal(g, &limbo) || n->count == NAMED_MAX)
		return;
	n->gfid[n->count++] = *g;
	for (const struct disk_entry *e = o->entry; e; e = e->next)
		list_named(d, &e->gfid, n);
}

void named_remember(void)
{
	unsigned left = 0;

	for (unsigned i = 0; i < plan.members && plan.posix; i++)
		leaf_scan(i);
	before.count = 0;
	list_named(disk_of(0), &gfid_root, &before);
	for (unsigned i = 1; i < plan.members; i++) {
		struct named here = { 0 };

		list_named(disk_of(i), &gfid_root, &here);
		left = 0;
		for (unsigned k = 0; k < before.count; k++)
			if (is_named(&here, &before.gfid[k]))
				before.gfid[left++] = before.gfid[k];
		before.count = left;
	}
}

void named_check(void)
{
	struct named here = { 0 };
	char text[GFID_TEXT];

	if (plan.posix)
		leaf_scan(0);
	list_named(disk_of(0), &gfid_root, &here);
	for (unsigned i = 0; i < before.count; i++)
		if (!is_named(&here, &before.gfid[i]))
			sim_fail("lost by recoveries, and had a name on all disks: %s", gfid_text(&before.gfid[i], text));
}
