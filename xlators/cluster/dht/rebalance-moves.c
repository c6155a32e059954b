/* SPDX-License-Identifier: Apache-2.0 */
/* Moving names: what has one stays where it is, behind a pointer. */
#include "rebalance.h"

#include <errno.h>
#include <string.h>

enum { PAUSE_MS = 20 };
#define MOVE_NS	 60000000000u
#define CLOSE_NS 5000000000u

struct pass {
	struct rebalance *r;
	int child;
	bool counts; /* and moves none */
	uint64_t found;
	int err; /* of a name that can't be moved: the others are moved all the same */
};

/* Who holds the name may have died; and of one that nobody asks for nobody else would find that out. */
static int move_waiting(struct request *rq, struct rebalance *r, const char *name, struct owners o)
{
	struct lookup_in in = { .loc = { .parent = r->dir, .name = name } };
	struct patience p = { 0 };
	int err = 0;

	do {
		if (!err || err == -EMARKED)
			err = place_say_in(rq, r->d, r->dir);
		if (!err)
			err = name_move(rq, r->d, r->dir, name, o.from, o.to);
	} while (err == -EMARKED && !rebalance_stops(r) && !marks_wait(rq, r->d, &p, FOP_lookup, &in));
	return err;
}

static const char *why(int err)
{
	return err == -EMARKED ? "it is being renamed" : error_text(err);
}

/* Each file system has such a one in its root, which stays as long as it is empty. (`stratus fsck` of the volume uses that name, too.) */
static bool is_file_systems_own(struct pass *p, const char *name)
{
	struct lookup_in in = { .loc = { .parent = p->r->dir, .name = name } };
	struct lookup_out out = { 0 };
	struct request rq;
	bool own = false;

	if (!is_root(p->r->dir) || strcmp(name, "lost+found") != 0)
		return false;
	rebalance_ask(p->r, &rq, REBALANCE_ASK_NS);
	if (!place_say(&rq, p->r->d, &(struct place){ 0 }) && !lookup_on(&rq, p->r->d->x->child[p->child], &in, &out))
		own = S_ISDIR(out.attr.mode) && !(out.attr.flags & ATTR_POINTER) &&
		      !directory_is_empty(&rq, p->r->d, p->child, out.inode);
	fop_out_clear(FOP_lookup, &out);
	request_finish(&rq);
	return own;
}

/* Its object was lost with the power of where it was; or both had gone, and the power took back only that the name had. */
static bool leads_to_nothing(struct pass *p, const char *name)
{
	cleanup_inode struct inode *pointer = NULL;
	struct loc loc = { .parent = p->r->dir, .name = name };
	struct lookup_out out = { 0 };
	struct gfid gfid;
	struct request rq;
	struct aim aim;
	bool dir;
	int err;

	rebalance_ask(p->r, &rq, REBALANCE_ASK_NS);
	err = place_say_in(&rq, p->r->d, p->r->dir);
	if (!err)
		err = look_at_name(&rq, p->r->d, p->child, &loc, &pointer, &aim, &gfid, &dir);
	if (!err && pointer)
		err = look_at_anchor(&rq, p->r->d, &aim, &out);
	fop_out_clear(FOP_lookup, &out);
	request_finish(&rq);
	return pointer && err == -ENOENT;
}

static int move_one(struct pass *p, const char *name, struct owners o)
{
	struct rebalance *r = p->r;
	struct request rq;
	int err;

	rebalance_ask(r, &rq, MOVE_NS);
	err = move_waiting(&rq, r, name, o);
	request_finish(&rq);
	rebalance_count(r, !err, p->found);
	if (err == -ELAYOUT) /* another one was faster */
		return -EAGAIN;
	if (err == -EEXIST && is_file_systems_own(p, name)) {
		p->found--;
		return 0;
	}
	if (err == -EEXIST)
		return rebalance_problem(
			r, err,
			"\"%s\" is at %s and at %s: `stratus fsck` may tell which one is to stay; rename or remove the other",
			name, subvolume_name(r, o.from), subvolume_name(r, o.to));
	if (err == -EIO && leads_to_nothing(p, name))
		return rebalance_problem(r, err,
					 "\"%s\" at %s leads to nothing: `stratus fsck` may find what it led to, or remove it",
					 name, subvolume_name(r, o.from));
	return err ? rebalance_problem(r, err, "\"%s\" can't be moved from %s to %s: %s", name, subvolume_name(r, o.from),
				       subvolume_name(r, o.to), why(err))
		   : 0;
}

static void move_those_of(struct pass *p, const struct dirents *list)
{
	for (uint32_t i = 0; i < list->count && rebalance_goes_on(p->r); i++) {
		struct owners o = owners_in(p->r->d, p->r->dir, list->entry[i].name);
		int err;

		if (o.from != p->child || o.to == p->child || (is_root(p->r->dir) && !strcmp(list->entry[i].name, DHT_HIDDEN)))
			continue;
		p->found++;
		if (p->counts)
			continue;
		rebalance_advance(p->r, 1);
		err = move_one(p, list->entry[i].name, o);
		p->err = err ? err : p->err;
	}
}

/* One operation at the source, as one that knows the newest layout. */
static int ask_source(struct pass *p, enum fop fop, const void *in, void *out)
{
	struct request rq;
	int err;

	rebalance_ask(p->r, &rq, REBALANCE_ASK_NS);
	err = place_say_in(&rq, p->r->d, p->r->dir);
	if (!err)
		err = fop_call(&rq, p->r->d->x->child[p->child], fop, in, out);
	request_finish(&rq);
	return err;
}

static int read_batch(struct pass *p, struct file *file, uint64_t *offset, struct readdir_out *out)
{
	struct readdir_in in = { .file = file, .offset = *offset, .size = 64 << 10 };
	int err = ask_source(p, FOP_readdir, &in, out);

	if (!err && out->entries.count)
		*offset = out->entries.entry[out->entries.count - 1].next_offset;
	return err;
}

static int open_source(struct pass *p, struct file **file)
{
	struct opendir_in in = { .inode = p->r->dir };
	struct opendir_out out = { 0 };
	int err = ask_source(p, FOP_opendir, &in, &out);

	*file = out.file;
	return err;
}

static void close_source(struct pass *p, struct file *file)
{
	struct release_in in = { .file = file };
	struct release_out out = { 0 };
	struct request rq;

	rebalance_ask(p->r, &rq, CLOSE_NS);
	task_shield(true); /* it may have been cancelled */
	release_on(&rq, p->r->d->x->child[p->child], &in, &out);
	task_shield(false);
	request_finish(&rq);
	file_unref(file);
}

/* All names that stand there and are to be elsewhere. */
static int pass_over(struct pass *p)
{
	struct file *file;
	uint64_t offset = 0;
	bool end = false;
	int err = open_source(p, &file);

	if (err)
		return err;
	while (!err && !end && rebalance_goes_on(p->r)) {
		struct readdir_out out = { 0 };

		err = read_batch(p, file, &offset, &out);
		end = err || out.entries.end || !out.entries.count;
		if (!err)
			move_those_of(p, &out.entries);
		fop_out_clear(FOP_readdir, &out);
	}
	close_source(p, file);
	return err ? err : rebalance_stops(p->r) ? -ECANCELED : p->err;
}

/* What the brick says of marks in the directory: it is another text if any was set or removed since, or if it is another brick of the set that says it.
 * *none: there are none, but of what is no name. */
static int ask_marks(struct pass *p, char text[MARKS_TEXT], bool *none)
{
	struct getxattr_in in = { .inode = p->r->dir, .name = DHT_MARKS_XATTR };
	struct getxattr_out out = { 0 };
	int err = ask_source(p, FOP_getxattr, &in, &out);

	if (!err)
		snprintf(text, MARKS_TEXT, "%.*s", (int)out.value.size, (const char *)out.value.bytes);
	*none = !err && !strncmp(text, "0 ", 2);
	if (err == -ESTALE) { /* they are being changed */
		text[0] = '\0';
		err = 0;
	}
	fop_out_clear(FOP_getxattr, &out);
	return err;
}

/* Who set them may have died: of a name that nobody asks for nobody else would find that out. */
void wait_for_marks(struct rebalance *r, int child, struct patience *patience)
{
	struct request rq;

	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	if (!place_say_in(&rq, r->d, r->dir))
		marks_wait_to_mark(&rq, r->d, patience, child, r->dir);
	request_finish(&rq);
}

/* 0: no name that is to be elsewhere is there, or can come back. A name that is marked may not be listed, and come back when its intent is taken back: so
 * there must be none while the listing is read. -EAGAIN: not yet. */
static int clear_source(struct rebalance *r, int child, struct patience *patience)
{
	struct pass p = { .r = r, .child = child };
	char before[MARKS_TEXT], after[MARKS_TEXT];
	bool none, none_after;
	int err = ask_marks(&p, before, &none);

	if (!err)
		err = pass_over(&p);
	if (!err)
		err = ask_marks(&p, after, &none_after);
	if (err)
		return err;
	if (p.found)
		return -EAGAIN;
	if (!none)
		wait_for_marks(r, child, patience);
	return MUTANT("settle-marked") || (none && !strcmp(before, after)) ? 0 : -EAGAIN;
}

/* So that it can be told how long it will take; what can't be listed now is not counted. */
static void count_names(struct rebalance *r, const struct layout *l)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < l->count && !rebalance_stops(r); i++) {
		struct pass p = { .r = r, .child = (int)l->member[i].id, .counts = true };

		if (layout_is_source(l, &l->member[i]) && !pass_over(&p))
			all += p.found;
	}
	rebalance_expect(r, all);
}

/* Of all of them: what is not there in one stays so. */
int clear_sources(struct rebalance *r, const struct layout *l)
{
	int worst = 0;

	if (!r->widens)
		count_names(r, l);
	for (unsigned i = 0; i < l->count && !rebalance_stops(r); i++) {
		struct patience patience = { 0 };
		int err;

		if (!layout_is_source(l, &l->member[i]))
			continue;
		do
			err = MUTANT("settle-early") ? 0 : clear_source(r, (int)l->member[i].id, &patience);
		while (err == -EAGAIN && rebalance_pause(r, PAUSE_MS));
		worst = err ? err : worst;
	}
	return rebalance_stops(r) ? -ECANCELED : worst;
}
