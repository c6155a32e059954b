/* SPDX-License-Identifier: Apache-2.0 */
/* Is the history one that a single tree could have given? Looked at apart: the names as one (check-names.c), each block and the length of each file, each
 * xattr, each mode. */
#include <linux/falloc.h>

#include "away.h"
#include "check.h"

/* ---- objects by number ---- */

struct objects objects;

unsigned object_number(const struct gfid *g)
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
		if (unknown || (o->size < o->blocks * BLOCK && plan.subvolumes > 1))
			return; /* or a disk was full on the way */
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

/* A write of the block that is durable by itself. */
static bool is_durable(const struct operation *o, unsigned object, unsigned block)
{
	return o->durable && o->block == block && !o->err && o->ret != UINT64_MAX && o->ret_ns <= nemesis_cut_all() &&
	       !nemesis_cut_between(o->call_ns, o->ret_ns) && gfid_equal(&o->object, &objects.gfid[object]);
}

/* Some change of the block that came after `writer` (NULL: any) was synced before the power was cut. */
static const struct operation *newer_synced(unsigned object, unsigned block, const struct operation *writer)
{
	for (unsigned i = 0; operation_at(i); i++) {
		const struct operation *f = operation_at(i);

		if (is_durable(f, object, block) && (!writer || writer->ret < f->call))
			return f;
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
		struct gfid *const said[] = { &o->dir, &o->dir2, &o->from, chosen ? &o->from : &o->object };

		for (unsigned n = 0; n < sizeof(said) / sizeof(*said); n++)
			if (!gfid_is_null(said[n]))
				give_birth(said[n]);
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
