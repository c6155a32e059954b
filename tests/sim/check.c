/* SPDX-License-Identifier: Apache-2.0 */
/* Is the history one that a single tree could have given? The search of Wing and Gong (1993), with the memory of states already seen that
 * Lowe (2017) adds, apart for each register: the names as one, each block and the length of each file, each xattr, each mode. */
#include <linux/falloc.h>

#include "away.h"
#include "history.h"

enum { STEPS_MAX = 3000000 };

/* ---- the search ---- */

struct entry {
	const struct operation *op;
	uint64_t call, ret;
	bool optional;	/* may have been done at any later time, or never */
	bool reads;	/* leaves the state as it is */
	unsigned index; /* the model's own: READDIR's name */
};
struct model {
	const char *name;
	size_t state_size;
	/* False: it can't have happened in this state with this outcome. */
	bool (*apply)(const struct entry *, void *state);
};
struct seen {
	struct seen *next;
	uint64_t hash;
	uint8_t key[];
};
enum { SEEN_BUCKETS = 1 << 14, STATE_MAX = 1024 };
struct search {
	const struct model *model;
	struct entry *entry;
	unsigned count, left; /* left: that must still be placed */
	uint8_t *placed;
	struct seen *seen[SEEN_BUCKETS];
	uint64_t steps;
	unsigned best; /* the most that could be placed */
	unsigned *stuck;
	bool undecided;
};

static uint64_t hash_bytes(uint64_t h, const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		h = (h ^ bytes[i]) * 0x100000001b3u;
	return h ^ h >> 29;
}

/* True if this was seen before; else it is from now on. */
static bool seen_before(struct search *s, const void *state)
{
	size_t bits = (s->count + 7) / 8, size = bits + s->model->state_size;
	uint8_t key[512 + STATE_MAX];
	struct seen **bucket;
	uint64_t hash;

	memset(key, 0, bits);
	for (unsigned i = 0; i < s->count; i++)
		key[i / 8] |= (uint8_t)(s->placed[i] << i % 8);
	memcpy(key + bits, state, s->model->state_size);
	hash = hash_bytes(14695981039346656037u, key, size);
	bucket = &s->seen[hash % SEEN_BUCKETS];
	for (struct seen *k = *bucket; k; k = k->next)
		if (k->hash == hash && !memcmp(k->key, key, size))
			return true;
	struct seen *k = malloc(sizeof(*k) + size);

	k->next = *bucket;
	k->hash = hash;
	memcpy(k->key, key, size);
	*bucket = k;
	return false;
}

/* Only what was called before the first of those that remain was answered can be next. */
static uint64_t horizon(const struct search *s)
{
	uint64_t first = UINT64_MAX;

	for (unsigned i = 0; i < s->count; i++)
		if (!s->placed[i] && !s->entry[i].optional && s->entry[i].ret < first)
			first = s->entry[i].ret;
	return first;
}

/* A read that fits can always be placed at once. Returns how many were, with their numbers in `list`. */
static unsigned place_reads(struct search *s, void *state, unsigned *list)
{
	unsigned placed = 0;
	bool more = true;

	while (more) {
		uint64_t until = horizon(s);

		more = false;
		for (unsigned i = 0; i < s->count && s->entry[i].call < until; i++) {
			const struct entry *e = &s->entry[i];

			if (s->placed[i] || e->optional || !e->reads || !s->model->apply(e, state))
				continue;
			s->placed[i] = 1;
			s->left--;
			list[placed++] = i;
			more = true;
		}
	}
	return placed;
}

static void note_best(struct search *s)
{
	unsigned placed = 0;

	for (unsigned i = 0; i < s->count; i++)
		placed += !s->entry[i].optional && s->placed[i];
	if (placed < s->best && s->best)
		return;
	s->best = placed;
	*s->stuck = UINT32_MAX;
	for (unsigned i = 0; i < s->count; i++)
		if (!s->placed[i] && !s->entry[i].optional &&
		    (*s->stuck == UINT32_MAX || s->entry[i].ret < s->entry[*s->stuck].ret))
			*s->stuck = i;
}

static bool search_from(struct search *s, const void *state);

static bool try_entry(struct search *s, unsigned i, const void *state)
{
	uint8_t next[STATE_MAX] __attribute__((aligned(8)));
	bool found, must = !s->entry[i].optional;

	memcpy(next, state, s->model->state_size);
	if (!s->model->apply(&s->entry[i], next))
		return false;
	if (!must && !memcmp(next, state, s->model->state_size))
		return false; /* of no use here */
	s->placed[i] = 1;
	s->left -= must;
	found = search_from(s, next);
	s->placed[i] = 0;
	s->left += must;
	return found;
}

static bool search_from(struct search *s, const void *state)
{
	unsigned *reads = malloc((s->count + 1) * sizeof(*reads));
	unsigned count = place_reads(s, (void *)state, reads);
	uint64_t until = horizon(s);
	bool found = !s->left;

	if (!found)
		note_best(s);
	if (++s->steps > STEPS_MAX)
		s->undecided = true;
	if (!found && !s->undecided && !seen_before(s, state))
		for (int optional = 0; optional < 2 && !found; optional++)
			for (unsigned i = 0; i < s->count && !found && s->entry[i].call < until && !s->undecided; i++)
				if (!s->placed[i] && s->entry[i].optional == optional && !s->entry[i].reads)
					found = try_entry(s, i, state);
	for (unsigned i = 0; i < count && !found; i++) {
		s->placed[reads[i]] = 0;
		s->left++;
	}
	free(reads);
	return found || s->undecided;
}

static int by_call(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return x->call != y->call ? (x->call < y->call ? -1 : 1) : (x->index > y->index) - (x->index < y->index);
}

static void explain(const struct search *s, unsigned stuck, const char *what)
{
	char text[512] = "?", line[512];

	if (stuck < s->count)
		operation_print(s->entry[stuck].op, text, sizeof(text));
	sim_fail("not linearizable: %s: no order explains %s", what, text);
	for (unsigned i = 0; verbose && i < s->count; i++) {
		operation_print(s->entry[i].op, line, sizeof(line));
		fprintf(stderr, "    %s%s\n", s->entry[i].optional ? "(perhaps) " : "", line);
	}
}

static unsigned undecided;

static void check_entries(const struct model *m, struct entry *entry, unsigned count, const void *initial, const char *what)
{
	uint8_t state[STATE_MAX] __attribute__((aligned(8))) = { 0 };
	unsigned stuck = UINT32_MAX;
	static struct search s;

	s = (struct search){ .model = m, .entry = entry, .count = count, .stuck = &stuck };
	qsort(entry, count, sizeof(*entry), by_call);
	s.placed = calloc(count + 1, 1);
	for (unsigned i = 0; i < count; i++)
		s.left += !entry[i].optional;
	memcpy(state, initial, m->state_size);
	if (count > 4000)
		sim_fail("%s: too long a history to be checked", what);
	else if (!search_from(&s, state))
		explain(&s, stuck, what);
	undecided += s.undecided;
	for (unsigned i = 0; i < SEEN_BUCKETS; i++)
		for (struct seen *k = s.seen[i], *next; k; k = next) {
			next = k->next;
			free(k);
		}
	free(s.placed);
}

unsigned check_undecided(void)
{
	return undecided;
}

/* ---- objects by number ---- */

enum { OBJECTS_MAX = 2000, DIRS_MAX = 80 };
static struct {
	struct gfid gfid[OBJECTS_MAX];
	bool directory[OBJECTS_MAX], there[OBJECTS_MAX]; /* there: in the end it still has a name */
	unsigned count;
	unsigned dir[DIRS_MAX], dirs; /* objects that are directories */
} objects;

static unsigned object_number(const struct gfid *g) /* 0: none */
{
	if (gfid_is_null(g))
		return 0;
	for (unsigned i = 0; i < objects.count; i++)
		if (gfid_equal(&objects.gfid[i], g))
			return i + 1;
	return 0;
}

/* What was never made has nothing in it. */
static void add_object(const struct gfid *g, bool directory, bool made)
{
	if (object_number(g) || objects.count == OBJECTS_MAX)
		return;
	objects.gfid[objects.count] = *g;
	objects.directory[objects.count++] = directory;
	if (!directory || !made)
		return;
	if (objects.dirs == DIRS_MAX)
		sim_fail("too many directories for the checker");
	else
		objects.dir[objects.dirs++] = objects.count;
}

static int dir_number(const struct gfid *g)
{
	unsigned n = object_number(g);

	for (unsigned i = 0; i < objects.dirs; i++)
		if (objects.dir[i] == n)
			return (int)i;
	return -1;
}

static void collect_objects(void)
{
	add_object(&gfid_root, true, true);
	for (unsigned i = 0; operation_at(i); i++) {
		const struct operation *o = operation_at(i);

		if (o->what == OP_MAKE || o->what == OP_OPEN)
			add_object(&o->object, S_ISDIR(o->type), !o->err || operation_unknown(o));
		if (o->final && o->what == OP_LOOKUP && object_number(&o->object))
			objects.there[object_number(&o->object) - 1] = true;
	}
}

static bool is_directory(unsigned object)
{
	return object && objects.directory[object - 1];
}

/* ---- names ---- */

struct tree { /* which object each name of each directory stands for */
	uint16_t name[DIRS_MAX][NAMES];
};

static bool linked(const struct tree *t, unsigned object)
{
	for (unsigned d = 0; d < objects.dirs; d++)
		for (unsigned n = 0; n < NAMES; n++)
			if (t->name[d][n] == object)
				return true;
	return object == 1;
}

static bool alive(const struct tree *t, int dir)
{
	return dir >= 0 && linked(t, objects.dir[dir]);
}

static bool empty(const struct tree *t, unsigned object)
{
	for (unsigned d = 0; d < objects.dirs; d++)
		for (unsigned n = 0; n < NAMES && objects.dir[d] == object; n++)
			if (t->name[d][n])
				return false;
	return true;
}

/* Is the directory `object` the one with number `dir`, or above it? */
static bool contains(const struct tree *t, unsigned object, int dir)
{
	unsigned at = objects.dir[dir];

	for (unsigned depth = 0; depth < DIRS_MAX; depth++) {
		unsigned above = 0;

		if (at == object)
			return true;
		for (unsigned d = 0; d < objects.dirs && !above; d++)
			for (unsigned n = 0; n < NAMES; n++)
				if (t->name[d][n] == at)
					above = objects.dir[d];
		if (!above)
			return false;
		at = above;
	}
	return false;
}

/* Which errors the state explains; none: it must succeed. */
struct verdict {
	int error[8];
	unsigned errors;
};

static void may_fail(struct verdict *v, bool when, int error)
{
	if (when)
		v->error[v->errors++] = error;
}

static bool agrees(const struct verdict *v, const struct operation *o)
{
	for (unsigned i = 0; i < v->errors; i++)
		if (v->error[i] == -o->err)
			return true;
	return !o->err && !v->errors;
}

/* An anchor is there before its name, and goes after it, or with a sweep: while it is there who still has an object that lost its last name may give it
 * another. */
static bool bears_anchor(const struct operation *link)
{
	return plan.subvolumes > 1 && (!link->err || operation_unknown(link));
}

static bool apply_make(const struct operation *o, struct tree *t, int dir)
{
	struct verdict v = { .errors = 0 };
	uint16_t *at = &t->name[dir < 0 ? 0 : dir][o->name];
	unsigned object = object_number(&o->object);

	may_fail(&v, !alive(t, dir), ENOENT);
	may_fail(&v, dir >= 0 && *at, EEXIST);
	if (o->what == OP_LINK) {
		may_fail(&v, is_directory(object), EPERM);
		may_fail(&v, !linked(t, object) && !bears_anchor(o), ENOENT);
	}
	if (operation_unknown(o) ? v.errors : !agrees(&v, o))
		return false;
	if (!v.errors)
		*at = (uint16_t)object;
	return true;
}

static bool apply_open(const struct operation *o, struct tree *t, int dir)
{
	struct verdict v = { .errors = 0 };
	uint16_t *at = &t->name[dir < 0 ? 0 : dir][o->name];
	unsigned object = object_number(&o->object);

	may_fail(&v, !alive(t, dir), ENOENT);
	may_fail(&v, dir >= 0 && is_directory(*at), EISDIR);
	if (dir >= 0 && *at && !v.errors && (o->err == -EEXIST || o->err == -ELOOP))
		return true; /* a symbolic link: the model does not tell it from a file */
	if (operation_unknown(o) ? v.errors || *at : !agrees(&v, o))
		return false;
	if (v.errors)
		return true;
	if (*at)
		return object_number(&o->found[0]) == *at;
	if (!operation_unknown(o) && object_number(&o->found[0]) != object)
		return false;
	*at = (uint16_t)object;
	return true;
}

static bool apply_remove(const struct operation *o, struct tree *t, int dir)
{
	struct verdict v = { .errors = 0 };
	uint16_t *at = &t->name[dir < 0 ? 0 : dir][o->name];
	bool directory = dir >= 0 && is_directory(*at);

	may_fail(&v, !alive(t, dir) || !*at, ENOENT);
	may_fail(&v, o->what == OP_UNLINK && directory, EISDIR);
	may_fail(&v, o->what == OP_RMDIR && dir >= 0 && *at && !directory, ENOTDIR);
	may_fail(&v, o->what == OP_RMDIR && directory && !empty(t, *at), ENOTEMPTY);
	if (operation_unknown(o) ? v.errors : !agrees(&v, o))
		return false;
	if (!v.errors)
		*at = 0;
	return true;
}

static bool apply_rename(const struct operation *o, struct tree *t, int dir)
{
	struct verdict v = { .errors = 0 };
	int dir2 = dir_number(&o->dir2);
	uint16_t *from = &t->name[dir < 0 ? 0 : dir][o->name], *to = &t->name[dir2 < 0 ? 0 : dir2][o->name2];
	bool same = dir >= 0 && dir2 >= 0 && *from && *from == *to;

	may_fail(&v, !alive(t, dir) || !alive(t, dir2) || !*from, ENOENT);
	may_fail(&v, dir2 >= 0 && *to && o->value, EEXIST);
	if (dir >= 0 && dir2 >= 0 && !same) {
		bool moved = is_directory(*from), there = is_directory(*to);

		may_fail(&v, moved && contains(t, *from, dir2), EINVAL);
		may_fail(&v, there && contains(t, *to, dir), ENOTEMPTY);
		may_fail(&v, *to && there && *from && !moved, EISDIR);
		may_fail(&v, *to && !there && moved, ENOTDIR);
		may_fail(&v, there && !empty(t, *to), ENOTEMPTY);
	}
	if (operation_unknown(o) ? v.errors : !agrees(&v, o))
		return false;
	if (v.errors || same)
		return true;
	*to = *from;
	*from = 0;
	return true;
}

static bool apply_lookup(const struct operation *o, const struct tree *t, int dir, unsigned name, const struct gfid *found)
{
	unsigned there = alive(t, dir) ? t->name[dir][name] : 0;

	if (o->err)
		return o->err == -ENOENT && !there;
	return there == object_number(found);
}

/* A file has as many links as names. Those to what is open and has none are told by some members, and by others that it is stale. */
static bool apply_count(const struct operation *o, const struct tree *t)
{
	unsigned object = object_number(&o->object), count = 0;

	for (unsigned d = 0; d < objects.dirs; d++)
		for (unsigned n = 0; n < NAMES; n++)
			count += t->name[d][n] == object;
	return count == o->blocks;
}

static bool apply_names(const struct entry *e, void *state)
{
	const struct operation *o = e->op;
	int dir = dir_number(&o->dir);

	switch (o->what) {
	case OP_LOOKUP:
		return apply_lookup(o, state, dir, o->name, &o->object);
	case OP_READDIR:
		return apply_lookup(o, state, dir, e->index, &o->found[e->index]);
	case OP_MAKE:
	case OP_LINK:
		return apply_make(o, state, dir);
	case OP_OPEN:
		return apply_open(o, state, dir);
	case OP_UNLINK:
	case OP_RMDIR:
		return apply_remove(o, state, dir);
	case OP_RENAME:
		return apply_rename(o, state, dir);
	case OP_STAT:
		return apply_count(o, state);
	default:
		return false;
	}
}

static bool of_names(const struct operation *o)
{
	if (o->what == OP_STAT)
		return plan.layout && !o->err && o->blocks && object_number(&o->object) &&
		       !is_directory(object_number(&o->object));
	return o->what <= OP_READDIR;
}

static void add_entry(struct entry *list, unsigned *count, const struct operation *o, unsigned index)
{
	bool changes = operation_changes(o), unknown = operation_unknown(o);

	if (unknown && !changes)
		return;
	list[(*count)++] = (struct entry){ .op = o,
					   .call = o->call,
					   .ret = unknown ? UINT64_MAX : o->ret,
					   .optional = unknown,
					   .reads = !changes || (o->err && !unknown),
					   .index = index };
}

/* Refused before anything was done: cluster/dht does not rename over several subvolumes yet. */
static bool was_across(const struct operation *o)
{
	bool may = plan.subvolumes > 1 && (!gfid_equal(&o->dir, &o->dir2) || gfid_equal(&o->dir, &gfid_root));

	return o->what == OP_RENAME && o->err == -EXDEV && may;
}

unsigned operations_across(void)
{
	unsigned count = 0;

	for (unsigned i = 0; operation_at(i); i++)
		count += was_across(operation_at(i));
	return count;
}

/* Listings do not wait for a rename over several subvolumes: they may show what it takes back, when its client has died, or another was in its way. */
static bool may_show_steps(const struct operation *o, unsigned name)
{
	for (unsigned i = 0; plan.subvolumes > 1 && operation_at(i); i++) {
		const struct operation *r = operation_at(i);
		bool meanwhile = r->call < o->ret && (operation_unknown(r) || r->ret > o->call);

		if (r->what != OP_RENAME || !meanwhile)
			continue;
		if ((gfid_equal(&r->dir, &o->dir) && r->name == name) || (gfid_equal(&r->dir2, &o->dir) && r->name2 == name))
			return true;
	}
	return false;
}

static void check_names(struct entry *list)
{
	const struct model model = { "names", objects.dirs * sizeof(uint16_t[NAMES]), apply_names };
	struct tree initial = { 0 };
	unsigned count = 0;

	for (unsigned i = 0; operation_at(i); i++) {
		const struct operation *o = operation_at(i);

		for (unsigned n = 0; o->what == OP_READDIR && n < NAMES; n++)
			if (!may_show_steps(o, n))
				add_entry(list, &count, o, n);
		if (of_names(o) && o->what != OP_READDIR && !was_across(o))
			add_entry(list, &count, o, 0);
	}
	check_entries(&model, list, count, &initial, "names");
}

/* ---- registers: a number ---- */

static const struct operation *writer_of(unsigned object, uint64_t value);

/* The block is among those that the operation may touch. */
static bool covers(const struct operation *o, unsigned block)
{
	unsigned blocks = o->what == OP_COPY && !operation_unknown(o) ? (unsigned)(o->size / BLOCK) : o->blocks;

	return block >= o->block && block - o->block < blocks;
}

static bool zeroes(const struct operation *o)
{
	return o->value & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE);
}

static bool is_copied_to(const struct gfid *object)
{
	for (unsigned i = 0; operation_at(i); i++)
		if (operation_at(i)->what == OP_COPY && gfid_equal(&operation_at(i)->object, object))
			return true;
	return false;
}

/* For certain it changed the block before `copy` began, and began after `writer` had ended. */
static bool between(const struct operation *o, const struct operation *writer, const struct operation *copy, unsigned block)
{
	bool changes =
		o->what == OP_TRUNCATE ? o->block <= block : (o->what == OP_WRITE || o->what == OP_APPEND) && o->block == block;

	return changes && !o->err && gfid_equal(&o->object, &copy->from) && writer->ret < o->call && o->ret < copy->call;
}

/* May the source have had that value when it was copied? What is not a plain write there is not gone into. */
static bool may_be_copied(const struct operation *copy, unsigned block, uint64_t value)
{
	unsigned source = object_number(&copy->from), at = copy->from_block + (block - copy->block);
	const struct operation *w = value && source ? writer_of(source - 1, value) : NULL;

	if (!w)
		return !value || is_copied_to(&copy->from);
	if (w->call > copy->ret || (w->block != at && w->block != UINT32_MAX))
		return is_copied_to(&copy->from);
	for (unsigned i = 0; operation_at(i); i++)
		if (between(operation_at(i), w, copy, at))
			return is_copied_to(&copy->from); /* it may have come back */
	return true;
}

enum { COPIED_SHIFT = 63 };
static const uint64_t copied = 1ull << COPIED_SHIFT; /* state of a block: the lower bits have the number of the copy */

static bool apply_block(const struct entry *e, void *state)
{
	const struct operation *o = e->op;
	uint64_t *v = state;

	switch (o->what) {
	case OP_WRITE:
	case OP_APPEND:
		*v = o->value;
		return true;
	case OP_TRUNCATE:
		if (o->block <= e->index)
			*v = 0;
		return true;
	case OP_COPY:
		*v = copied | o->number;
		return true;
	case OP_ALLOCATE:
		*v = 0;
		return true;
	case OP_READ:
		if (*v & copied)
			return may_be_copied(operation_at((unsigned)*v), e->index, o->values[e->index]);
		return *v == o->values[e->index];
	default:
		return false;
	}
}

static bool touches_block(const struct operation *o, unsigned block)
{
	switch (o->what) {
	case OP_WRITE:
		return o->block == block;
	case OP_APPEND:
		return operation_unknown(o) || o->block == block;
	case OP_TRUNCATE:
		return o->block <= block;
	case OP_COPY:
		return covers(o, block);
	case OP_ALLOCATE:
		return zeroes(o) && covers(o, block);
	case OP_READ:
		return true;
	default:
		return false;
	}
}

/* The index: so many blocks were copied; SOURCE: it is the source's length. */
enum { SOURCE = 1000 };

static bool apply_size_copy(const struct entry *e, uint64_t *size)
{
	const struct operation *o = e->op;
	uint64_t end = (o->block + e->index) * BLOCK, read_to = o->from_block * BLOCK + o->size;

	if (e->index != SOURCE) {
		if (e->index && *size < end)
			*size = end;
		return true;
	}
	return o->size == o->blocks * BLOCK ? *size >= read_to : o->size ? *size == read_to : *size <= read_to;
}

static bool apply_size_allocate(const struct operation *o, uint64_t *size)
{
	uint64_t end = (o->block + o->blocks) * BLOCK;

	if (!(o->value & FALLOC_FL_KEEP_SIZE) && *size < end)
		*size = end;
	return true;
}

static bool apply_size(const struct entry *e, void *state)
{
	const struct operation *o = e->op;
	uint64_t *v = state;

	switch (o->what) {
	case OP_WRITE:
		if (*v < (o->block + 1) * BLOCK)
			*v = (o->block + 1) * BLOCK;
		return true;
	case OP_APPEND:
		if (!operation_unknown(o) && *v != o->block * BLOCK)
			return false;
		*v += BLOCK;
		return true;
	case OP_TRUNCATE:
		*v = o->block * BLOCK;
		return true;
	case OP_COPY:
		return apply_size_copy(e, v);
	case OP_ALLOCATE:
		return apply_size_allocate(o, v);
	case OP_READ:
	case OP_STAT:
		return *v == o->size;
	default:
		return false;
	}
}

static bool apply_mode(const struct entry *e, void *state)
{
	uint64_t *v = state;

	if (e->op->what == OP_STAT)
		return *v == e->op->value;
	*v = e->op->value;
	return true;
}

static bool apply_xattr(const struct entry *e, void *state)
{
	const struct operation *o = e->op;
	uint64_t *v = state;

	if (o->err == -ENODATA)
		return !*v;
	if (o->what == OP_GETXATTR)
		return *v == o->value;
	if (o->what == OP_REMOVEXATTR && !*v)
		return false;
	*v = o->what == OP_SETXATTR ? o->value : 0;
	return true;
}

static const struct model block_model = { "block", 8, apply_block };
static const struct model size_model = { "size", 8, apply_size };
static const struct model mode_model = { "mode", 8, apply_mode };
static const struct model xattr_model = { "xattr", 8, apply_xattr };

static bool belongs(const struct model *m, const struct operation *o, unsigned index)
{
	if (m == &block_model)
		return touches_block(o, index);
	if (m == &size_model)
		return o->what >= OP_WRITE && o->what <= OP_STAT;
	if (m == &mode_model)
		return o->what == OP_STAT || o->what == OP_CHMOD;
	return o->what >= OP_SETXATTR && o->what <= OP_REMOVEXATTR && o->name == index;
}

/* One that was not answered may have copied any number of blocks. */
static void add_size_copies(struct entry *list, unsigned *count, const struct operation *o, bool source)
{
	bool unknown = operation_unknown(o);

	if (o->err && !unknown)
		return;
	if (source) {
		if (unknown)
			return;
		add_entry(list, count, o, SOURCE);
		list[*count - 1].reads = true;
		return;
	}
	for (unsigned k = unknown ? 1 : (unsigned)(o->size / BLOCK); k <= (unknown ? o->blocks : o->size / BLOCK); k++)
		add_entry(list, count, o, k);
}

static void check_register(const struct model *m, struct entry *list, unsigned object, unsigned index, uint64_t initial)
{
	unsigned count = 0;
	char what[64], gfid[GFID_TEXT];

	for (unsigned i = 0; operation_at(i); i++) {
		const struct operation *o = operation_at(i);
		bool no_answer = o->err && !operation_unknown(o) && o->err != -ENODATA; /* nothing learned, nothing done */

		if (m == &size_model && o->what == OP_COPY) {
			if (gfid_equal(&o->object, &objects.gfid[object]))
				add_size_copies(list, &count, o, false);
			if (gfid_equal(&o->from, &objects.gfid[object]))
				add_size_copies(list, &count, o, true);
		} else if (gfid_equal(&o->object, &objects.gfid[object]) && belongs(m, o, index) && !no_answer) {
			add_entry(list, &count, o, index);
		}
	}
	if (!count)
		return;
	gfid_text(&objects.gfid[object], gfid);
	snprintf(what, sizeof(what), "%s %u of %.8s", m->name, index, gfid);
	check_entries(m, list, count, &initial, what);
}

/* ---- only what was synced: after all members have lost their power ---- */

static const struct operation *writer_of(unsigned object, uint64_t value)
{
	for (unsigned i = 0; operation_at(i); i++) {
		const struct operation *o = operation_at(i);

		if ((o->what == OP_WRITE || o->what == OP_APPEND) && o->value == value &&
		    gfid_equal(&o->object, &objects.gfid[object]))
			return o;
	}
	return NULL;
}

/* Some change of the block that came after `writer` (NULL: any) was synced before the power was cut. */
static const struct operation *newer_synced(unsigned object, unsigned block, const struct operation *writer)
{
	for (unsigned i = 0; operation_at(i); i++) {
		const struct operation *f = operation_at(i);

		if (f->what != OP_FSYNC || f->err || f->ret == UINT64_MAX || f->ret_ns > nemesis_cut_all() ||
		    !gfid_equal(&f->object, &objects.gfid[object]))
			continue;
		for (unsigned k = 0; k < i; k++) {
			const struct operation *w = operation_at(k);

			if ((w->what == OP_WRITE || w->what == OP_APPEND) && !w->err && w->block == block && w->ret < f->call &&
			    !nemesis_cut_between(w->call_ns, f->ret_ns) && gfid_equal(&w->object, &f->object) &&
			    (!writer || writer->ret < w->call))
				return w;
		}
	}
	return NULL;
}

/* Or made anew otherwise than by a write. */
static bool truncated_after(unsigned object, unsigned block, const struct operation *w)
{
	for (unsigned i = 0; operation_at(i); i++) {
		const struct operation *o = operation_at(i);

		bool there = o->what == OP_TRUNCATE ? o->block <= block
						    : (o->what == OP_COPY || o->what == OP_ALLOCATE) && covers(o, block);

		if (there && o->ret > w->call && gfid_equal(&o->object, &objects.gfid[object]))
			return true;
	}
	return false;
}

static void check_synced_read(const struct operation *o)
{
	unsigned object = object_number(&o->object);

	for (unsigned b = 0; object && b < BLOCKS_MAX; b++) {
		const struct operation *writer = o->values[b] ? writer_of(object - 1, o->values[b]) : NULL, *lost;
		char text[512];

		if (o->values[b] && !writer && is_copied_to(&o->object))
			continue;
		if (o->values[b] && !writer) {
			sim_fail("a block has contents that nobody wrote: %llu", (unsigned long long)o->values[b]);
			return;
		}
		lost = newer_synced(object - 1, b, writer);
		if (!lost || truncated_after(object - 1, b, lost))
			continue;
		operation_print(lost, text, sizeof(text));
		sim_fail("synced, and lost in the power cut: %s", text);
	}
}

static void check_synced(void)
{
	for (unsigned i = 0; operation_at(i); i++) {
		const struct operation *o = operation_at(i);

		if (o->final && o->what == OP_READ && !o->err)
			check_synced_read(o);
	}
}

/* ---- objects that have another gfid than their makers chose ---- */

/* Of what one operation made at most one object is ever seen. */
static void give_birth(struct gfid *g)
{
	static struct {
		struct gfid birth, seen;
	} known[OBJECTS_MAX];
	static unsigned count;
	struct gfid birth = away_birth(g);
	unsigned i = 0;
	char text[GFID_TEXT];

	while (i < count && !gfid_equal(&known[i].birth, &birth))
		i++;
	if (i < count && !gfid_equal(&known[i].seen, g))
		sim_fail("there are two objects of what was to be %.8s", gfid_text(&birth, text));
	if (i == count && count < OBJECTS_MAX) {
		known[count].birth = birth;
		known[count++].seen = *g;
	}
	*g = birth;
}

static void give_births(void)
{
	for (unsigned i = 0; operation_at(i); i++) {
		struct operation *o = operation_at(i);
		bool chosen = o->what == OP_MAKE || o->what == OP_OPEN;

		if (!chosen && !gfid_is_null(&o->object))
			give_birth(&o->object);
		if (!gfid_is_null(&o->from))
			give_birth(&o->from);
		for (unsigned n = 0; n < NAMES; n++)
			if (!gfid_is_null(&o->found[n]))
				give_birth(&o->found[n]);
	}
}

void check_history(void)
{
	struct entry *list = calloc((size_t)operations_count() * NAMES + 1, sizeof(*list));

	if (plan.subvolumes > 1)
		give_births();
	collect_objects();
	if (nemesis_cut_all()) {
		check_synced();
		return;
	}
	check_names(list);
	for (unsigned i = 0; i < objects.count && !sim_failure(); i++) {
		if (!objects.there[i] && (plan.ignore_unlinked || (plan.posix && objects.directory[i])))
			continue; /* a directory that is gone nobody heals: who has it open sees what some member still has */
		for (unsigned b = 0; b < BLOCKS_MAX; b++)
			check_register(&block_model, list, i, b, 0);
		check_register(&size_model, list, i, 0, 0);
		check_register(&mode_model, list, i, 0, objects.directory[i] ? 0755 : 0644);
		check_register(&xattr_model, list, i, 0, 0);
		check_register(&xattr_model, list, i, 1, 0);
	}
	free(list);
}
