/* SPDX-License-Identifier: Apache-2.0 */
/* How the bringing home of a file ends: done, or undone, by who began it or by others; and what is left for those who had the file open when it was moved, its
 * stub (s.ID, where it was) and a name (k.ID, where it is). */
#include "dht.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/xattr.h>

#include "location.h"

enum { TRIES = 8 }; /* at what each power cut of a subvolume may undo */

/* ---- names ---- */

static const char *named(char kind, const struct gfid *gfid, char name[HIDDEN_NAME])
{
	char text[GFID_TEXT];

	snprintf(name, HIDDEN_NAME, "%c.%s", kind, gfid_text(gfid, text));
	return name;
}

const char *copy_name(const struct gfid *gfid, char name[HIDDEN_NAME])
{
	return named('c', gfid, name);
}

const char *stub_name(const struct gfid *mover, char name[HIDDEN_NAME])
{
	return named('s', mover, name);
}

int kept_parse(const char *name, struct gfid *mover)
{
	return (*name == 'k' || *name == 's') && name[1] == '.' ? gfid_parse(name + 2, mover) : -EINVAL;
}

int hidden_find(struct request *rq, struct dht *d, int child, struct inode *dir, const char *name, struct inode **found)
{
	struct lookup_in in = { .loc = { .parent = dir, .name = name } };
	struct lookup_out out = { 0 };
	int err = place_say(rq, d, &(struct place){ .flags = PLACE_POINTER }); /* also if its anchors are held */

	*found = NULL;
	if (!err)
		err = lookup_on(rq, d->x->child[child], &in, &out);
	if (!err)
		*found = inode_ref(out.inode);
	fop_out_clear(FOP_lookup, &out);
	place_say(rq, d, &(struct place){ 0 });
	return err;
}

static bool is_absent(int err)
{
	return err == -ENOENT || err == -ESTALE;
}

/* In `work`, by a name of that id. */
static int find_in_work(struct request *rq, struct dht *d, int child, const struct gfid *id, const char *name,
			struct inode **found)
{
	cleanup_inode struct inode *dir = NULL;
	int err = work_dir(rq, d, child, work_of(id), false, &dir);

	*found = NULL;
	return err ? err : hidden_find(rq, d, child, dir, name, found);
}

/* Does the name stand for that object? For who asks with what the request says. */
static int stands(struct request *rq, struct dht *d, int child, struct inode *dir, const char *name, const struct gfid *gfid,
		  bool *yes)
{
	struct lookup_in in = { .loc = { .parent = dir, .name = name } };
	struct lookup_out out = { 0 };
	int err = lookup_on(rq, d->x->child[child], &in, &out);

	*yes = !err && gfid_equal(&out.inode->gfid, gfid);
	fop_out_clear(FOP_lookup, &out);
	return is_absent(err) ? 0 : err;
}

/* That object, by that name; as a step of an intent, or (NULL) not. 0 also if it has gone: that is looked at first, for a replica set takes the refusal for a failure,
 * and recovers the directory. */
static int remove_hidden(struct request *rq, struct dht *d, int child, struct inode *dir, const char *name,
			 const struct gfid *gfid, const struct intent *it)
{
	struct unlink_in in = { .loc = { .parent = dir, .name = name } };
	struct unlink_out out = { 0 };
	struct place p = { .flags = PLACE_POINTER, .expected = { *gfid } };
	bool there = false;
	int err;

	if (it) {
		p.intent = it->id;
		p.attempt = attempt_of(it);
	}
	err = place_say(rq, d, &p);
	if (!err)
		err = stands(rq, d, child, dir, name, gfid, &there);
	if (!err && there)
		err = unlink_on(rq, d->x->child[child], &in, &out);
	place_say(rq, d, &(struct place){ 0 });
	return is_absent(err) ? 0 : err;
}

/* ---- the parts of it ---- */

struct parts { /* references; NULL: not there */
	struct inode *parent, *dir, *file, *copy;
};

static void parts_clear(struct parts *p)
{
	inode_unref(p->parent);
	inode_unref(p->dir);
	inode_unref(p->file);
	inode_unref(p->copy);
}
#define cleanup_parts __attribute__((cleanup(parts_clear)))

/* Under its anchor, or as a stub that has lost that. */
static int find_file(struct request *rq, struct dht *d, const struct intent *it, struct inode **file)
{
	cleanup_inode struct inode *away = NULL;
	const struct aim *aim = &it->side[0].aim;
	char name[HIDDEN_NAME];
	int err = away_dir(rq, d, aim->child, &aim->gfid, false, &away);

	if (!err)
		err = hidden_find(rq, d, aim->child, away, anchor_name(aim, name), file);
	if (is_absent(err))
		err = find_in_work(rq, d, aim->child, &it->id, stub_name(&it->id, name), file);
	return is_absent(err) ? 0 : err;
}

/* By its name, which is marked. NULL: that has gone, or is another's by now. */
static int find_unnamed(struct request *rq, struct dht *d, const struct intent *it, struct inode *dir, struct inode **copy)
{
	const struct side *s = &it->side[0];
	char name[HIDDEN_NAME];
	struct lookup_in in = { .loc = { .parent = dir, .name = copy_name(&s->aim.gfid, name) } };
	struct lookup_out out = { 0 };
	int err = place_say(rq, d, &(struct place){ .intent = it->id, .attempt = attempt_of(it) });

	*copy = NULL;
	if (!err)
		err = lookup_on(rq, d->x->child[s->child], &in, &out);
	if (!err)
		*copy = inode_ref(out.inode);
	fop_out_clear(FOP_lookup, &out);
	place_say(rq, d, &(struct place){ 0 });
	return is_absent(err) || err == -EFENCED ? 0 : err;
}

/* By the name that it was to get, which is marked. NULL: that stands for something else. */
static int find_named(struct request *rq, struct dht *d, const struct intent *it, struct inode *parent, struct inode **copy)
{
	const struct side *s = &it->side[0];
	struct lookup_in in = { .loc = { .parent = parent, .name = s->name } };
	struct lookup_out out = { 0 };
	int err = place_say(rq, d, &(struct place){ .intent = it->id, .attempt = attempt_of(it) });

	if (!err)
		err = lookup_on(rq, d->x->child[s->child], &in, &out);
	if (!err && gfid_equal(&out.inode->gfid, &s->aim.gfid))
		*copy = inode_ref(out.inode);
	fop_out_clear(FOP_lookup, &out);
	place_say(rq, d, &(struct place){ 0 });
	return is_absent(err) || err == -EFENCED ? 0 : err;
}

/* By that, or by the name that it keeps; or by its name, if a power cut has taken the one that it keeps. */
static int find_copy(struct request *rq, struct dht *d, const struct intent *it, struct parts *p)
{
	char name[HIDDEN_NAME];
	int err = find_unnamed(rq, d, it, p->dir, &p->copy);

	if (!err && !p->copy)
		err = find_in_work(rq, d, it->side[0].child, &it->id, kept_name(&it->id, name), &p->copy);
	err = is_absent(err) ? 0 : err;
	if (!err && !p->copy && p->parent && it->state == INTENT_DECIDED && !MUTANT("seek-no-name"))
		err = find_named(rq, d, it, p->parent, &p->copy);
	return err;
}

static int find_parts(struct request *rq, struct dht *d, const struct intent *it, struct parts *p)
{
	const struct side *s = &it->side[0];
	int err = side_find(rq, d, s, &p->parent);

	if (is_absent(err)) /* with the directory its name has gone */
		err = 0;
	if (!err)
		err = work_dir(rq, d, s->child, work_of(&s->aim.gfid), true, &p->dir);
	return err ? err : find_file(rq, d, it, &p->file);
}

/* A mark is another's, or who has it is not there: so it was let go. */
static int or_gone(int err)
{
	return is_absent(err) || err == -EMARKED ? 0 : err;
}

static int mark_parts(struct request *rq, struct dht *d, const struct intent *it, struct parts *p)
{
	const struct side *s = &it->side[0];
	char name[HIDDEN_NAME];
	int err = p->parent ? or_gone(side_mark(rq, d, it, 0)) : 0;

	if (!err)
		err = or_gone(mark_put(rq, d, it, s->child, p->dir, copy_name(&s->aim.gfid, name), 0));
	if (!err && p->file)
		err = or_gone(side_mark(rq, d, it, SIDE_GOES));
	if (!err && it->several)
		err = or_gone(anchors_hold(rq, d, it));
	if (!err)
		err = find_copy(rq, d, it, p);
	if (!err && p->copy)
		err = or_gone(side_mark(rq, d, it, SIDE_COPY));
	return err;
}

static int or_not_ours(int err)
{
	return is_absent(err) || err == -EFENCED ? 0 : err;
}

static int let_go_of_names(struct request *rq, struct dht *d, const struct intent *it, const struct parts *p)
{
	const struct side *s = &it->side[0];
	char name[HIDDEN_NAME];
	struct mark m = { mark_hash(copy_name(&s->aim.gfid, name)), it->id, attempt_of(it), 0 };
	int err = or_not_ours(mark_remove(rq, d, s->child, p->dir, &m));

	if (!err && it->several)
		err = anchors_let_go(rq, d, it);
	if (!err && p->parent)
		err = or_not_ours(side_unmark(rq, d, it, 0));
	return err ? err : intent_remove(rq, d, it);
}

/* What the file, or its copy, says of where it is. -ENODATA: it is no pointer. */
static int read_stub(struct request *rq, struct dht *d, int child, struct inode *inode, const char *name, struct pointer *p)
{
	struct getxattr_in in = { .inode = inode, .name = (char *)name };
	struct getxattr_out out = { 0 };
	int err = place_say(rq, d, &(struct place){ .flags = PLACE_POINTER });

	if (!err)
		err = getxattr_on(rq, d->x->child[child], &in, &out);
	place_say(rq, d, &(struct place){ 0 });
	if (!err)
		err = pointer_decode(out.value.bytes, out.value.size, p) ? -EIO : 0;
	if (!err && !has_subvolume(d, p->subvolume))
		err = -EIO;
	fop_out_clear(FOP_getxattr, &out);
	return err;
}

int stub_read(struct request *rq, struct dht *d, int child, struct inode *inode, struct pointer *p)
{
	return read_stub(rq, d, child, inode, DHT_POINTER_XATTR, p);
}

int kept_read(struct request *rq, struct dht *d, int child, struct inode *inode, struct pointer *p)
{
	return read_stub(rq, d, child, inode, DHT_KEPT_XATTR, p);
}

/* ---- the stub ---- */

int stub_set(struct request *rq, struct dht *d, const struct intent *it, struct inode *file)
{
	const struct side *s = &it->side[0];
	uint8_t bytes[STUB_SIZE];
	struct setxattr_in in = { .inode = file, .name = DHT_POINTER_XATTR, .value = { STUB_SIZE, bytes } };
	struct setxattr_out out = { 0 };
	int err = place_say(rq, d, &(struct place){ .flags = PLACE_POINTER, .intent = it->id, .attempt = attempt_of(it) });

	stub_encode(&(struct pointer){ (uint32_t)s->child, s->aim.gfid, it->id }, bytes);
	if (!err)
		err = setxattr_on(rq, d->x->child[s->aim.child], &in, &out);
	place_say(rq, d, &(struct place){ 0 });
	return err;
}

/* 0 also if it is none. */
static int pointer_clear(struct request *rq, struct dht *d, const struct intent *it, int child, struct inode *inode)
{
	struct removexattr_in in = { .inode = inode, .name = (char *)DHT_POINTER_XATTR };
	struct removexattr_out out = { 0 };
	int err = place_say(rq, d, &(struct place){ .flags = PLACE_POINTER, .intent = it->id, .attempt = attempt_of(it) });

	if (!err)
		err = removexattr_on(rq, d->x->child[child], &in, &out);
	place_say(rq, d, &(struct place){ 0 });
	return err == -ENODATA ? 0 : err;
}

/* ---- undone ---- */

static int remove_copy(struct request *rq, struct dht *d, const struct intent *it, const struct parts *p)
{
	cleanup_inode struct inode *dir = NULL;
	const struct side *s = &it->side[0];
	char name[HIDDEN_NAME];
	int err = work_dir(rq, d, s->child, work_of(&it->id), true, &dir);

	if (!err)
		err = remove_hidden(rq, d, s->child, dir, kept_name(&it->id, name), &s->aim.gfid, NULL);
	if (!err && it->several)
		err = anchors_undo(rq, d, it);
	if (!err)
		err = or_not_ours(remove_hidden(rq, d, s->child, p->dir, copy_name(&s->aim.gfid, name), &s->aim.gfid, it));
	return err;
}

/* On disk, before the marks go and the record: nobody else would remove it. The power may have brought it back before that, so it is looked at. */
static int remove_copy_surely(struct request *rq, struct dht *d, const struct intent *it, const struct parts *p)
{
	const struct side *s = &it->side[0];
	cleanup_inode struct inode *copy = NULL;
	char name[HIDDEN_NAME];
	bool stands = true;
	int err = 0;

	for (int tries = 0; !err && stands; tries++) {
		err = tries < TRIES ? remove_copy(rq, d, it, p) : -EIO;
		if (err || MUTANT("trust-steps"))
			break;
		err = or_not_ours(or_gone(mark_put(rq, d, it, s->child, p->dir, copy_name(&s->aim.gfid, name), XATTR_REPLACE)));
		if (!err)
			err = find_unnamed(rq, d, it, p->dir, &copy);
		stands = copy;
		inode_unref(copy);
		copy = NULL;
		if (!err && !stands && it->several)
			err = anchors_left(rq, d, it, &stands);
	}
	return err;
}

static int undo(struct request *rq, struct dht *d, const struct intent *it, const struct parts *p)
{
	int err = remove_copy_surely(rq, d, it, p);

	if (!err) /* also of what has lost its anchor */
		err = or_not_ours(side_unmark(rq, d, it, SIDE_GOES));
	return err ? err : let_go_of_names(rq, d, it, p);
}

int bring_undo(struct request *rq, struct dht *d, struct intent *it)
{
	cleanup_parts struct parts p = { 0 };
	int err = find_parts(rq, d, it, &p);

	return err ? err : undo(rq, d, it, &p);
}

/* ---- decided ---- */

/* After a power cut it may have both. */
static int drop_anchor_of_stub(struct request *rq, struct dht *d, const struct intent *it, struct inode *away)
{
	const struct aim *aim = &it->side[0].aim;
	char name[HIDDEN_NAME];

	return remove_hidden(rq, d, aim->child, away, anchor_name(aim, name), &aim->gfid, it->several ? it : NULL);
}

/* Held anchors change by steps only. */
static int say_put(struct request *rq, struct dht *d, const struct intent *it)
{
	struct place p = { .flags = PLACE_POINTER, .expected = { it->side[0].aim.gfid } };

	if (it->several) {
		p.intent = it->id;
		p.attempt = attempt_of(it);
	}
	return place_say(rq, d, &p);
}

/* Nobody finds the stub by the pointer any more; and by that name it is not taken for the file. */
static int put_stub(struct request *rq, struct dht *d, const struct intent *it, struct inode *away)
{
	cleanup_inode struct inode *work = NULL;
	const struct aim *aim = &it->side[0].aim;
	char from[HIDDEN_NAME], to[HIDDEN_NAME];
	struct rename_in in = { .from = { .parent = away, .name = anchor_name(aim, from) },
				.to.name = stub_name(&it->id, to),
				.flags = RENAME_NOREPLACE };
	struct rename_out out = { 0 };
	int err = work_dir(rq, d, aim->child, work_of(&it->id), true, &work);

	in.to.parent = work;
	if (!err)
		err = say_put(rq, d, it);
	if (!err)
		err = rename_on(rq, d->x->child[aim->child], &in, &out);
	place_say(rq, d, &(struct place){ 0 });
	if (err == -EEXIST)
		err = drop_anchor_of_stub(rq, d, it, away);
	return or_not_ours(err);
}

/* On disk: nobody would end a stub that has its anchor again after a power cut. */
static int confirm_stub(struct request *rq, struct dht *d, const struct intent *it, const struct parts *p)
{
	return p->file ? or_not_ours(side_confirm(rq, d, it, SIDE_GOES)) : 0;
}

/* The power may have gone before that was on disk, and what was confirmed after it does not tell: so it is looked at. */
static int put_stub_surely(struct request *rq, struct dht *d, const struct intent *it, const struct parts *p)
{
	const struct aim *aim = &it->side[0].aim;
	cleanup_inode struct inode *away = NULL, *anchored = NULL;
	char name[HIDDEN_NAME];
	bool stands = true;
	int err = away_dir(rq, d, aim->child, &aim->gfid, true, &away);

	for (int tries = 0; !err && stands; tries++) {
		err = tries < TRIES ? put_stub(rq, d, it, away) : -EIO;
		if (!err)
			err = confirm_stub(rq, d, it, p);
		if (err || MUTANT("trust-steps"))
			break;
		err = hidden_find(rq, d, aim->child, away, anchor_name(aim, name), &anchored);
		stands = !err;
		inode_unref(anchored);
		anchored = NULL;
		err = is_absent(err) ? 0 : err;
	}
	return err;
}

static int rename_copy(struct request *rq, struct dht *d, const struct intent *it, const struct parts *p)
{
	const struct side *s = &it->side[0];
	char name[HIDDEN_NAME];
	struct rename_in in = { .from = { .parent = p->dir, .name = copy_name(&s->aim.gfid, name) },
				.to = { .parent = p->parent, .name = s->name } };
	struct rename_out out = { 0 };
	int err = place_say(rq, d,
			    &(struct place){ .flags = PLACE_POINTER,
					     .expected = { s->aim.gfid, s->aim.pgfid },
					     .intent = it->id,
					     .attempt = attempt_of(it) });

	if (!err)
		err = rename_on(rq, d->x->child[s->child], &in, &out);
	place_say(rq, d, &(struct place){ 0 });
	return err;
}

/* After a power cut it may have no name but the one that it keeps. */
static int name_copy_again(struct request *rq, struct dht *d, const struct intent *it, const struct parts *p)
{
	char name[HIDDEN_NAME];
	struct link_in in = { .inode = p->copy, .loc = { .parent = p->dir, .name = copy_name(&it->side[0].aim.gfid, name) } };
	struct link_out out = { 0 };
	int err = place_say(rq, d, &(struct place){ .flags = PLACE_POINTER, .intent = it->id, .attempt = attempt_of(it) });

	if (!err)
		err = link_on(rq, d->x->child[it->side[0].child], &in, &out);
	place_say(rq, d, &(struct place){ 0 });
	return err == -EEXIST ? 0 : err;
}

/* The copy gets the name, and the pointer that had it goes. */
static int give_name(struct request *rq, struct dht *d, const struct intent *it, const struct parts *p)
{
	const struct side *s = &it->side[0];
	char name[HIDDEN_NAME];
	struct standing now;
	int err = p->parent ? name_look(rq, d, it, 0, &now) : -EIO;

	if (err)
		return err;
	if (gfid_equal(&now.gfid, &s->aim.gfid)) /* by an earlier try; after a power cut it may have both */
		return or_not_ours(remove_hidden(rq, d, s->child, p->dir, copy_name(&s->aim.gfid, name), &s->aim.gfid, it));
	err = rename_copy(rq, d, it, p);
	if (is_absent(err) && !MUTANT("seek-no-name")) {
		err = name_copy_again(rq, d, it, p);
		if (!err)
			err = rename_copy(rq, d, it, p);
	}
	if (is_absent(err)) { /* an earlier try may have done it */
		err = name_look(rq, d, it, 0, &now);
		err = err ? err : gfid_equal(&now.gfid, &s->aim.gfid) ? 0 : -EIO;
	}
	return err;
}

/* From now on it is the file. */
static int open_up(struct request *rq, struct dht *d, const struct intent *it, struct inode *copy)
{
	int err = pointer_clear(rq, d, it, it->side[0].child, copy);

	if (!err)
		place_moved(d, copy, it->side[0].child);
	return err;
}

static void tell_changed(struct dht *d, const struct parts *p)
{
	struct event e = { .kind = EVENT_DISBELIEVE, .inode = p->parent };

	if (p->parent)
		event_up(d->x, &e);
}

/* The copy got its name, and became the file, by an earlier try: since then it may have lost that name, or the directory has gone. */
static int has_opened_up(struct request *rq, struct dht *d, const struct intent *it, struct inode *copy, bool *yes)
{
	struct pointer p;
	int err = stub_read(rq, d, it->side[0].child, copy, &p);

	*yes = err == -ENODATA;
	return *yes ? 0 : err;
}

/* It has lost the name again, with the power, and is the file already. */
static int give_name_again(struct request *rq, struct dht *d, const struct intent *it, const struct parts *p)
{
	cleanup_inode struct inode *unnamed = NULL;
	int err = MUTANT("trust-steps") ? 0 : find_unnamed(rq, d, it, p->dir, &unnamed);

	for (int tries = 0; !err && unnamed; tries++) {
		err = tries < TRIES ? give_name(rq, d, it, p) : -EIO;
		if (!err)
			err = or_not_ours(side_confirm(rq, d, it, SIDE_COPY));
		inode_unref(unnamed);
		unnamed = NULL;
		if (!err)
			err = find_unnamed(rq, d, it, p->dir, &unnamed);
	}
	return err;
}

/* That it is the file is said even if it is: one member of a set may say so, and the others not, after a power cut of all. */
static int take_the_place(struct request *rq, struct dht *d, const struct intent *it, const struct parts *p)
{
	bool done;
	int err = has_opened_up(rq, d, it, p->copy, &done);

	if (!err && !done)
		err = give_name(rq, d, it, p);
	if (!err)
		err = open_up(rq, d, it, p->copy);
	if (!err)
		err = give_name_again(rq, d, it, p);
	return err ? err : or_not_ours(side_unmark(rq, d, it, SIDE_COPY));
}

static int finish(struct request *rq, struct dht *d, const struct intent *it, const struct parts *p)
{
	int err = put_stub_surely(rq, d, it, p);

	if (!err && !p->copy) {
		log_error(d->x, NULL, "the copy of \"%s\", which was decided to be the file, is not there", it->side[0].name);
		err = -EIO;
	}
	if (!err)
		err = take_the_place(rq, d, it, p);
	if (!err)
		tell_changed(d, p);
	return err ? err : let_go_of_names(rq, d, it, p);
}

int bring_finish(struct request *rq, struct dht *d, struct intent *it)
{
	cleanup_parts struct parts p = { 0 };
	int err = find_parts(rq, d, it, &p);

	if (!err)
		err = find_copy(rq, d, it, &p);
	return err ? err : finish(rq, d, it, &p);
}

/* ---- by others ---- */

/* After a power cut of all members of a set what one of them says is not yet what all will say: so that is said to all. */
static int settle_stub(struct request *rq, struct dht *d, const struct intent *it, struct inode *file, bool decided)
{
	return decided ? stub_set(rq, d, it, file) : pointer_clear(rq, d, it, it->side[0].aim.child, file);
}

static int judge_open(struct request *rq, struct dht *d, struct intent *it, const struct parts *p)
{
	struct pointer stub = { 0 };
	int err = p->file ? stub_read(rq, d, it->side[0].aim.child, p->file, &stub) : -EIO;
	bool none = err == -ENODATA, decided = !err && gfid_equal(&stub.mover, &it->id);

	if (!p->file)
		log_error(d->x, NULL, "the file \"%s\" was being moved, and is not at %s any more: its copy is left as it is",
			  it->side[0].name, d->x->child[it->side[0].aim.child]->name);
	err = none || decided ? settle_stub(rq, d, it, p->file, decided) : err;
	return err ? err : intent_becomes(rq, d, it, decided ? INTENT_DECIDED : INTENT_UNDONE);
}

/* Marks that were set anew keep its owner from doing more. */
int bring_end(struct request *rq, struct dht *d, struct intent *it)
{
	cleanup_parts struct parts p = { 0 };
	int err = find_parts(rq, d, it, &p);

	if (!err)
		err = intent_take_over(rq, d, it);
	if (err)
		return err;
	err = mark_parts(rq, d, it, &p);
	if (!err)
		err = intent_stands(rq, d, it);
	if (!err && it->state == INTENT_OPEN)
		err = judge_open(rq, d, it, &p);
	if (err) {
		marks_drop(rq, d, it);
		return err;
	}
	return it->state == INTENT_DECIDED ? finish(rq, d, it, &p) : undo(rq, d, it, &p);
}

/* ---- what is left for those who had it open ---- */

bool told_by_any(struct request *rq, struct dht *d, int child, struct inode *inode, const char *line, bool not_out)
{
	struct getxattr_in in = { .inode = inode, .name = (char *)LOCATION_XATTR };
	struct getxattr_out out = { 0 };
	unsigned members = 0, told = 0;
	bool yes = false, counts = true;
	const char *key;
	char *at, *value;
	int err = place_say(rq, d, &(struct place){ .flags = PLACE_POINTER });

	if (!err)
		err = getxattr_on(rq, d->x->child[child], &in, &out);
	place_say(rq, d, &(struct place){ 0 });
	if (err)
		return true;
	for (at = out.value.bytes; (value = location_next(&at, (char *)out.value.bytes + out.value.size, &key));) {
		if (!strcmp(key, "member")) {
			counts = !not_out || !strstr(value, " out");
			members += counts;
		}
		told += counts && !strcmp(key, line);
		yes |= counts && (!strcmp(key, "error") || (!strcmp(key, line) && strcmp(value, "0")));
	}
	fop_out_clear(FOP_getxattr, &out);
	return yes || !told || told < members;
}

static bool is_under_way(struct request *rq, struct dht *d, int home, const struct gfid *id)
{
	struct intent it;

	return intent_find(rq, d, home, id, &it) != -ENOENT;
}

static int kept_forget(struct request *rq, struct dht *d, int child, struct inode *inode)
{
	struct removexattr_in in = { .inode = inode, .name = (char *)DHT_KEPT_XATTR };
	struct removexattr_out out = { 0 };
	int err = removexattr_on(rq, d->x->child[child], &in, &out);

	return err == -ENODATA ? 0 : err;
}

/* The name first, for it is not counted as long as it is there. (What a client of the version before has made bricks don't count as long as the xattr is there: that
 * first, and the name counts for a moment. Also if it has gone: of a set whose members all lost their power perhaps at one only.) */
static int name_end(struct request *rq, struct dht *d, int child, struct inode *dir, const char *name, const struct gfid *id,
		    struct inode *inode)
{
	cleanup_inode struct inode *stub = NULL;
	struct pointer p = { 0 };
	char of_stub[HIDDEN_NAME];
	int err = read_stub(rq, d, child, inode, DHT_KEPT_XATTR, &p);

	if (is_under_way(rq, d, child, id))
		return 1;
	if (!err)
		err = find_in_work(rq, d, (int)p.subvolume, id, stub_name(id, of_stub), &stub);
	if (err != -ENODATA && !is_absent(err))
		return err ? err : 1;
	err = gfid_is_null(&p.mover) ? kept_forget(rq, d, child, inode) : 0;
	if (!err)
		err = remove_hidden(rq, d, child, dir, name, &inode->gfid, NULL);
	if (!err && !gfid_is_null(&p.mover))
		kept_forget(rq, d, child, inode); /* it may have been its last name; and what is left says nothing */
	return err;
}

bool kept_stays(struct request *rq, struct dht *d, int child, struct inode *inode)
{
	cleanup_inode struct inode *found = NULL;
	char name[HIDDEN_NAME];
	struct pointer p;
	int err = kept_read(rq, d, child, inode, &p);

	if (err || gfid_is_null(&p.mover))
		return err != -ENODATA;
	err = find_in_work(rq, d, child, &p.mover, kept_name(&p.mover, name), &found);
	return !is_absent(err) || kept_forget(rq, d, child, inode);
}

/* Pointers lead to it still. */
static bool has_anchors(struct request *rq, struct dht *d, int child, struct inode *stub)
{
	struct getattr_in in = { .inode = stub };
	struct getattr_out out = { 0 };
	int err = mean_pointers(rq, d, true);

	if (!err)
		err = getattr_on(rq, d->x->child[child], &in, &out);
	mean_pointers(rq, d, false);
	return err || out.attr.nlink > 1;
}

static int stub_end(struct request *rq, struct dht *d, int child, struct inode *dir, const char *name, const struct gfid *id,
		    struct inode *stub)
{
	cleanup_inode struct inode *work = NULL;
	char kept[HIDDEN_NAME];
	struct pointer p;
	int err = stub_read(rq, d, child, stub, &p);

	if (err)
		return err;
	if (is_under_way(rq, d, (int)p.subvolume, id) || has_anchors(rq, d, child, stub) ||
	    (S_ISREG(stub->type) && told_by_any(rq, d, child, stub, OPENED_LINE, false)))
		return 1;
	err = remove_hidden(rq, d, child, dir, name, &stub->gfid, NULL);
	if (!err && !work_dir(rq, d, (int)p.subvolume, work_of(id), false, &work)) /* what that can't do now a sweep does */
		kept_end(rq, d, (int)p.subvolume, work, kept_name(id, kept));
	return err;
}

int kept_end(struct request *rq, struct dht *d, int child, struct inode *dir, const char *name)
{
	cleanup_inode struct inode *inode = NULL;
	struct gfid id;
	int err = kept_parse(name, &id);

	if (!err)
		err = hidden_find(rq, d, child, dir, name, &inode);
	if (!err && S_ISDIR(inode->type))
		err = -EINVAL;
	if (err)
		return err;
	return *name == 's' ? stub_end(rq, d, child, dir, name, &id, inode) : name_end(rq, d, child, dir, name, &id, inode);
}
