/* SPDX-License-Identifier: Apache-2.0 */
/* Names: lookup, unlink, rmdir, rename and link, with the identity xattr kept up to date. */
#include <stdio.h>

#include "posix.h"

/* ---- locks on names: an operation and its note in the identity are one, for others that use the same name ---- */

uint64_t name_hash(const struct link_name *n)
{
	uint64_t hash = 14695981039346656037u; /* FNV-1a */

	for (const char *c = n->name; *c; c++)
		hash = (hash ^ (uint8_t)*c) * 1099511628211u;
	for (int i = 0; i < 16; i++)
		hash = (hash ^ n->parent->bytes[i]) * 1099511628211u;
	return hash ? hash : 1;
}

static pthread_mutex_t *name_mutex(struct brick *b, const struct link_name *n)
{
	return &b->name_lock[(name_hash(n) >> 32) % MUTEXES];
}

void names_lock(struct names_locked *l, struct brick *b, const struct link_name *one, const struct link_name *two)
{
	pthread_mutex_t *m = name_mutex(b, one), *n = two ? name_mutex(b, two) : m;

	l->first = m < n ? m : n;
	l->second = m == n ? NULL : m < n ? n : m;
	pthread_mutex_lock(l->first);
	if (l->second)
		pthread_mutex_lock(l->second);
}

void names_unlock(struct names_locked *l)
{
	if (l->second)
		pthread_mutex_unlock(l->second);
	if (l->first)
		pthread_mutex_unlock(l->first);
	l->first = l->second = NULL;
}

/* ---- helpers ---- */

int parent_hold(struct xlator *x, const struct loc *loc, int private_error, struct hold *parent)
{
	int err;

	if (!loc->parent || !loc->name)
		return -EINVAL;
	err = name_check(loc->name);
	if (err)
		return err;
	if (!S_ISDIR(loc->parent->type))
		return -ENOTDIR;
	if (loc->parent == brick_of(x)->root && !strcmp(loc->name, PRIVATE_DIRECTORY))
		return private_error;
	return hold_inode(x, loc->parent, parent);
}

int parent_error(const struct hold *parent, int err)
{
	struct statx st;

	if ((err != -ENOENT && err != -EPERM) || parent->fd < 0 || hold_stat(parent, &st))
		return err;
	return st.stx_nlink ? err : -ESTALE;
}

/* What was found under a name: 1, 0, -errno. */
static int found_is(const struct hold *h, const struct gfid *gfid)
{
	int err = h->fd < 0 ? h->fd : 0;
	struct identity identity;
	struct gfid found;

	if (!err)
		err = identity_read(h, &identity);
	if (err) /* nothing has the name, or what was put there behind our back */
		return err == -ENOENT || err == -EXDEV || err == -ENODATA ? 0 : err;
	identity_gfid(&identity, &found);
	return gfid_equal(&found, gfid);
}

int name_is(struct xlator *x, const struct hold *parent, const char *name, const struct gfid *gfid)
{
	cleanup_hold struct hold h = { .fd = name_open(parent->fd, name), .path = true };

	(void)x;
	return found_is(&h, gfid);
}

static int loc_is(struct xlator *x, const struct hold *parent, const struct loc *loc, const struct inode *inode)
{
	return inode ? name_is(x, parent, loc->name, &inode->gfid) : 0;
}

/* Nothing must keep an object in memory, and a directory open, that was removed. */
static void drop_removed(struct xlator *x, const struct hold *h)
{
	cleanup_inode struct inode *inode = object_in_memory(x, h);

	if (!inode || inode == brick_of(x)->root)
		return;
	inode_unkeep(inode);
	if (S_ISDIR(inode->type))
		directory_drop(x, inode);
}

static bool has_others(const struct hold *h)
{
	struct statx st;

	return h->fd >= 0 && !hold_stat(h, &st) && !S_ISDIR(st.stx_mode) && st.stx_nlink > 1;
}

/* What an object of several names lists nobody would correct by looking up a name that is gone. So a name is taken from the list before it goes;
 * if that is where we crash, a lookup by the name puts it back (links_repair). True: it was taken out. */
static bool leave_out(struct xlator *x, const struct hold *h, const struct link_name *name)
{
	return has_others(h) && !identity_note(x, h, name, NULL, NOTE_FIRST);
}

/* Perhaps: whoever has it open asks for it by its handle, which is not to be taken for that of something gone (kernel_handle_open). (Of a file that is open the
 * descriptor is kept.) There is little to free of a directory. */
static bool is_open_directory(struct xlator *x, const struct statx *st)
{
	return S_ISDIR(st->stx_mode) && atomic_load(&brick_of(x)->open_directories);
}

/* The name is gone from the object. If it was the last one, the file system frees the blocks when the descriptor is closed; nobody need wait
 * for that. Others may be left though it seemed the last: one was made meanwhile. */
static void note_removal(struct xlator *x, struct request *rq, struct hold *h, const struct link_name *removed, bool left_out)
{
	struct statx st;

	if (hold_stat(h, &st))
		return;
	if (!S_ISDIR(st.stx_mode) && st.stx_nlink > 0) {
		identity_change(x, rq, h, left_out ? NULL : removed, NULL, NOTE_FIRST); /* there may be room for all now */
		return;
	}
	drop_removed(x, h);
	if (is_open_directory(x, &st) || !close_late(brick_of(x), h->fd))
		return; /* it is closed when the names are unlocked */
	*h = (struct hold)HOLD_NONE;
}

/* ---- lookup ---- */

static int revalidate(struct xlator *x, struct inode *inode, struct lookup_out *out)
{
	cleanup_hold struct hold h = HOLD_NONE;
	int err = hold_inode(x, inode, &h);

	if (!err)
		err = attr_of(x, inode, &h, &out->attr);
	if (!err)
		out->inode = inode_ref(inode);
	return err;
}

int brick_lookup(struct request *rq, struct xlator *x, const struct lookup_in *in, struct lookup_out *out)
{
	cleanup_hold struct hold parent = HOLD_NONE;
	int err;

	(void)rq;
	if (!in->loc.name)
		return in->loc.inode ? revalidate(x, in->loc.inode, out) : -EINVAL;
	err = parent_hold(x, &in->loc, -ENOENT, &parent);
	return err ? err : object_find(x, parent.fd, in->loc.parent, in->loc.name, &out->inode, &out->attr);
}

/* ---- removal ---- */

/* The object is held over the removal, to see what is left of it. */
static int remove_name(struct request *rq, struct xlator *x, const struct loc *loc, int flags)
{
	struct link_name removed = { loc->parent ? &loc->parent->gfid : NULL, loc->name };
	cleanup_hold struct hold parent = HOLD_NONE, victim = HOLD_NONE;
	cleanup_names struct names_locked locked = { NULL, NULL };
	int err = parent_hold(x, loc, -ENOENT, &parent), meant = 1;
	bool left_out;

	if (err)
		return err;
	names_lock(&locked, brick_of(x), &removed, NULL);
	victim = (struct hold){ .fd = name_open(parent.fd, loc->name), .path = true };
	if (loc->inode)
		meant = found_is(&victim, &loc->inode->gfid);
	if (meant < 0)
		return meant;
	if (rq->resent && !meant) /* it went with the first try, and the name may be another's by now */
		return time_bring(rq, x, loc->parent, &parent);
	if (victim.fd >= 0 && !meant)
		return -ESTALE; /* another object has the name than the caller decided on */
	left_out = leave_out(x, &victim, &removed);
	err = victim.fd < 0 ? victim.fd : result(unlinkat(parent.fd, loc->name, flags));
	if (err && left_out)
		identity_change(x, rq, &victim, NULL, &removed, NOTE_FIRST);
	if (!err)
		note_removal(x, rq, &victim, &removed, left_out);
	if (err == -ENOENT && rq->resent)
		err = 0;
	return err ? err : time_bring(rq, x, loc->parent, &parent);
}

int brick_unlink(struct request *rq, struct xlator *x, const struct unlink_in *in, struct unlink_out *out)
{
	cleanup_passage struct passage passage = { NULL, NULL };
	int err = passage_enter(&passage, rq, x, in->loc.parent, NULL);

	(void)out;
	return err ? err : remove_name(rq, x, &in->loc, 0);
}

int brick_rmdir(struct request *rq, struct xlator *x, const struct rmdir_in *in, struct rmdir_out *out)
{
	cleanup_passage struct passage passage = { NULL, NULL };
	int err = passage_enter(&passage, rq, x, in->loc.parent, NULL);

	(void)out;
	return err ? err : remove_name(rq, x, &in->loc, AT_REMOVEDIR);
}

/* ---- rename ---- */

/* 1, 0, -errno. */
static int same_object(const struct hold *a, const struct hold *b)
{
	struct statx s, t;
	int err;

	if (a->fd < 0 || b->fd < 0)
		return 0;
	err = hold_stat(a, &s);
	if (!err)
		err = hold_stat(b, &t);
	return err ? err : s.stx_ino == t.stx_ino;
}

/* Was it done by the first try? Then the new name is the moved object's, and the old one isn't. 1, 0, -errno. */
static int moved_before(struct xlator *x, const struct rename_in *in, const struct hold *from, const struct hold *to)
{
	int there = loc_is(x, to, &in->to, in->from.inode), here;

	if (there <= 0)
		return there;
	here = loc_is(x, from, &in->from, in->from.inode);
	if (here)
		return here < 0 ? here : 0;
	return in->flags & RENAME_EXCHANGE ? loc_is(x, from, &in->from, in->to.inode) : 1;
}

struct moving {
	struct link_name was, is;
	struct hold moved, other;		  /* fd < 0: there is none */
	bool moved_noted, other_noted, other_out; /* before the move */
	enum noting noting;			  /* after it */
};

static void moving_clear(struct moving *m)
{
	hold_end(&m->moved);
	hold_end(&m->other);
}

/* A repair may have come in between the early note and the move, and found that the name leads nowhere. */
static void note_one(struct xlator *x, struct request *rq, struct moving *m, const struct hold *h, bool noted,
		     const struct link_name *was, const struct link_name *is)
{
	identity_change(x, rq, h, noted ? NULL : was, is, noted ? NOTE_AGAIN : m->noting);
}

/* What has another name now lists it. */
static void note_move(struct xlator *x, struct request *rq, struct moving *m, bool exchanged)
{
	note_one(x, rq, m, &m->moved, m->moved_noted, &m->was, &m->is);
	if (m->other.fd >= 0 && exchanged)
		note_one(x, rq, m, &m->other, m->other_noted, &m->is, &m->was);
	else if (m->other.fd >= 0)
		note_removal(x, rq, &m->other, &m->is, m->other_out);
}

/* The first try may have ended before its note. */
static int note_again(struct xlator *x, struct request *rq, const struct rename_in *in, const struct hold *from,
		      const struct hold *to, struct moving *m)
{
	bool exchanged = in->flags & RENAME_EXCHANGE;

	m->noting = NOTE_AGAIN;
	m->moved = (struct hold){ .fd = name_open(to->fd, in->to.name), .path = true };
	if (exchanged)
		m->other = (struct hold){ .fd = name_open(from->fd, in->from.name), .path = true };
	if (m->moved.fd >= 0)
		note_move(x, rq, m, exchanged);
	return 0;
}

/* An object of several names is noted before it moves: then there is room for it, or nothing is done. */
static int note_early(struct xlator *x, struct moving *m, bool exchange)
{
	int err = 0;

	m->moved_noted = has_others(&m->moved);
	if (m->moved_noted)
		err = identity_note(x, &m->moved, &m->was, &m->is, NOTE_FIRST);
	m->other_noted = !err && exchange && has_others(&m->other);
	if (m->other_noted)
		err = identity_note(x, &m->other, &m->is, &m->was, NOTE_FIRST);
	if (err && m->other_noted && m->moved_noted)
		identity_note(x, &m->moved, &m->is, &m->was, NOTE_FIRST);
	return err;
}

static void take_back_notes(struct xlator *x, struct request *rq, struct moving *m)
{
	if (m->moved_noted)
		identity_change(x, rq, &m->moved, &m->is, &m->was, NOTE_FIRST);
	if (m->other_noted)
		identity_change(x, rq, &m->other, &m->was, &m->is, NOTE_FIRST);
	if (m->other_out)
		identity_change(x, rq, &m->other, NULL, &m->is, NOTE_FIRST);
}

static int move_and_note(struct xlator *x, struct request *rq, const struct rename_in *in, const struct hold *from,
			 const struct hold *to, struct moving *m)
{
	int same = same_object(&m->moved, &m->other);
	bool changes = m->moved.fd >= 0 && !same; /* two names of one object stay as they are */
	bool exchange = in->flags & RENAME_EXCHANGE;
	int err = same < 0 ? same : changes ? note_early(x, m, exchange) : 0;

	if (err)
		return err;
	m->other_out = changes && !exchange && leave_out(x, &m->other, &m->is);
	err = result(renameat2(from->fd, in->from.name, to->fd, in->to.name, in->flags));
	if (!err && changes)
		note_move(x, rq, m, exchange);
	if (err && changes)
		take_back_notes(x, rq, m);
	return err;
}

/* A name that can't be looked at is not one that is not there. (EXDEV: another file system is mounted there.) */
static int unreadable(const struct hold *h)
{
	return h->fd >= 0 || h->fd == -ENOENT || h->fd == -EXDEV ? 0 : h->fd;
}

/* Do the names stand for what the caller decided on? 0, -ESTALE if not, or another -errno. Who says what is to be replaced wants nothing else
 * done, also if that has gone. */
static int check_moving(const struct rename_in *in, const struct moving *m)
{
	int meant = in->from.inode ? found_is(&m->moved, &in->from.inode->gfid) : 1;

	if (meant > 0 && in->to.inode && m->other.fd < 0)
		meant = 0;
	else if (meant > 0 && in->to.inode)
		meant = found_is(&m->other, &in->to.inode->gfid);
	return meant < 0 ? meant : meant ? 0 : -ESTALE;
}

static int move(struct request *rq, struct xlator *x, const struct rename_in *in, const struct hold *from,
		const struct hold *to)
{
	__attribute__((cleanup(moving_clear))) struct moving m = { .was = { &in->from.parent->gfid, in->from.name },
								   .is = { &in->to.parent->gfid, in->to.name },
								   .moved = HOLD_NONE,
								   .other = HOLD_NONE };
	cleanup_names struct names_locked locked = { NULL, NULL };
	int err, before = 0;

	names_lock(&locked, brick_of(x), &m.was, &m.is);
	if (rq->resent)
		before = moved_before(x, in, from, to);
	if (before)
		return before < 0 ? before : note_again(x, rq, in, from, to, &m);
	m.moved = (struct hold){ .fd = name_open(from->fd, in->from.name), .path = true };
	m.other = (struct hold){ .fd = name_open(to->fd, in->to.name), .path = true };
	err = unreadable(&m.moved);
	if (!err)
		err = unreadable(&m.other);
	/* Without the old name the first try has been here: whatever has the new one by now is no reason to say otherwise. */
	if (!err && m.moved.fd >= 0)
		err = check_moving(in, &m);
	if (err)
		return err;
	err = move_and_note(x, rq, in, from, to, &m);
	/* The caller has seen the old name before: the first try moved it. */
	return err == -ENOENT && rq->resent && !in->from.inode && m.other.fd >= 0 ? 0 : err;
}

int brick_rename(struct request *rq, struct xlator *x, const struct rename_in *in, struct rename_out *out)
{
	cleanup_passage struct passage passage = { NULL, NULL };
	cleanup_hold struct hold from = HOLD_NONE, to = HOLD_NONE;
	int err = passage_enter(&passage, rq, x, in->from.parent, in->to.parent);

	(void)out;
	if (!err && (in->flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE)))
		err = -EINVAL;
	if (!err)
		err = parent_hold(x, &in->from, -ENOENT, &from);
	if (!err)
		err = parent_hold(x, &in->to, -EPERM, &to);
	if (!err)
		err = parent_error(&to, move(rq, x, in, &from, &to));
	if (!err)
		err = time_bring(rq, x, in->from.parent, &from);
	return err || in->to.parent == in->from.parent ? err : time_bring(rq, x, in->to.parent, &to);
}

/* ---- link ---- */

static int add_name(struct request *rq, struct xlator *x, const struct link_in *in, const struct hold *parent,
		    const struct hold *object)
{
	struct link_name added = { &in->loc.parent->gfid, in->loc.name };
	cleanup_names struct names_locked locked = { NULL, NULL };
	int err, there;
	bool made;

	names_lock(&locked, brick_of(x), &added, NULL);
	err = result(linkat(object->fd, "", parent->fd, in->loc.name, AT_EMPTY_PATH));
	made = !err;
	if (err == -EEXIST && rq->resent) {
		there = loc_is(x, parent, &in->loc, in->inode);
		if (there) /* by the first try, which may have ended before its note */
			err = there < 0 ? there : 0;
	}
	if (!err)
		err = identity_note(x, object, NULL, &added, made ? NOTE_FIRST : NOTE_AGAIN);
	if (err && made)
		unlinkat(parent->fd, in->loc.name, 0);
	return err;
}

int brick_link(struct request *rq, struct xlator *x, const struct link_in *in, struct link_out *out)
{
	cleanup_passage struct passage passage = { NULL, NULL };
	cleanup_hold struct hold parent = HOLD_NONE, object = HOLD_NONE;
	int err = passage_enter(&passage, rq, x, in->inode, in->loc.parent);

	if (!err)
		err = parent_hold(x, &in->loc, -EPERM, &parent);
	if (!err && S_ISDIR(in->inode ? in->inode->type : 0))
		err = -EPERM;
	if (!err)
		err = hold_inode(x, in->inode, &object);
	if (!err)
		err = brick_room(brick_of(x), rq, 0);
	if (!err)
		err = parent_error(&parent, add_name(rq, x, in, &parent, &object));
	if (!err)
		err = time_bring(rq, x, in->loc.parent, &parent);
	if (!err) {
		err = attr_of(x, in->inode, &object, &out->attr);
		err = err == -ESTALE ? -EIO : err; /* it is made, which that would deny */
	}
	return err;
}
