/* SPDX-License-Identifier: Apache-2.0 */
/* Names, all of them as one object: what each operation may tell of a tree, and makes of it. */
#include "away.h"
#include "check.h"

static bool is_directory(unsigned object)
{
	return object && objects.directory[object - 1];
}

static int dir_number(const struct gfid *g)
{
	unsigned n = object_number(g);

	for (unsigned i = 0; i < objects.dirs; i++)
		if (objects.dir[i] == n)
			return (int)i;
	return -1;
}

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

/* Whether there was room for it, or a border on the way, is not looked at. */
static bool found_no_room(const struct operation *o)
{
	return (plan.limit && o->err == -EDQUOT) || (plan.quotas && o->err == -EXDEV);
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

	if (found_no_room(o) && !operation_unknown(o))
		return true;
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

/* Listings do not wait for a rename over several subvolumes: they may show what it takes back, when its client has died, or another was in its way. */
static bool may_show_steps(const struct operation *o, unsigned name)
{
	/* It may be moved by one who finds then that it has gone; but what is there is listed. */
	if (gfid_equal(&o->dir, &gfid_root) && !gfid_is_null(&o->found[name]) && grow_moves(name, o->call_ns, o->ret_ns))
		return true;
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

void check_names(struct entry *list)
{
	const struct model model = { "names", objects.dirs * sizeof(uint16_t[NAMES]), apply_names };
	struct tree initial = { 0 };
	unsigned count = 0;

	for (unsigned i = 0; operation_at(i); i++) {
		const struct operation *o = operation_at(i);

		for (unsigned n = 0; o->what == OP_READDIR && n < NAMES; n++)
			if (!may_show_steps(o, n))
				add_entry(list, &count, o, n);
		if (of_names(o) && o->what != OP_READDIR)
			add_entry(list, &count, o, 0);
		if (o->what <= OP_RENAME && operation_may_repeat(o))
			add_entry(list, &count, o, 0);
	}
	check_entries(&model, list, count, &initial, "names");
}
