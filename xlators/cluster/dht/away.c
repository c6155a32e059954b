/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are not where their names are: a pointer has the name, and the object stands at another subvolume under a name that no mount
 * shows, its anchor. Each pointer has one, from before its name came until after that went (D7 in doc/distribution.md). */
#include "dht.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "born.h"

enum { TRIES = 8 };

int mean_pointers(struct request *rq, struct dht *d, bool yes)
{
	return place_say(rq, d, &(struct place){ .flags = yes ? PLACE_POINTER : 0 });
}

int mean_these(struct request *rq, struct dht *d, const struct gfid *first, const struct gfid *second)
{
	struct place p = { .flags = PLACE_POINTER };

	p.expected[0] = first ? *first : p.expected[0];
	p.expected[1] = second ? *second : p.expected[1];
	return place_say(rq, d, &p);
}

/* ---- reading pointers ---- */

int aim_of(struct dht *d, const struct lookup_out *out, struct aim *aim)
{
	char text[GFID_TEXT];

	*aim = (struct aim){ out->attr.gfid, out->inode->gfid, (int)out->attr.rdev, S_ISDIR(out->attr.mode) };
	if (has_subvolume(d, out->attr.rdev))
		return 0;
	log_error(d->x, NULL, "%s is at subvolume %llu, and there are %d here: the volume file is older than the file",
		  gfid_text(&aim->gfid, text), (unsigned long long)out->attr.rdev, d->x->children);
	return -EIO;
}

int pointer_look(struct request *rq, struct dht *d, int child, struct inode *dir, const char *name, struct inode **pointer,
		 uint32_t *nlink, struct aim *aim)
{
	struct lookup_in in = { .loc = { .parent = dir, .name = name } };
	struct lookup_out out = { 0 };
	int err = lookup_on(rq, d->x->child[child], &in, &out);

	*pointer = NULL;
	if (!err && !(out.attr.flags & ATTR_POINTER))
		err = -EINVAL;
	if (!err)
		err = aim_of(d, &out, aim);
	if (!err) {
		*pointer = inode_ref(out.inode);
		*nlink = out.attr.nlink;
	}
	fop_out_clear(FOP_lookup, &out);
	return err;
}

int look_at_name(struct request *rq, struct dht *d, int child, const struct loc *loc, struct inode **pointer, struct aim *aim,
		 struct gfid *gfid, bool *dir)
{
	struct lookup_in in = { .loc = { .parent = loc->parent, .name = loc->name } };
	struct lookup_out out = { 0 };
	int err = lookup_on(rq, d->x->child[child], &in, &out);
	bool points = !err && out.attr.flags & ATTR_POINTER;

	*pointer = NULL;
	if (!err) {
		*gfid = out.inode->gfid;
		*dir = S_ISDIR(out.attr.mode);
	}
	if (points)
		err = aim_of(d, &out, aim);
	if (points && !err)
		*pointer = inode_ref(out.inode);
	fop_out_clear(FOP_lookup, &out);
	return err;
}

static int leads_nowhere(struct dht *d, const struct aim *aim)
{
	char text[GFID_TEXT];

	log_error(d->x, NULL,
		  "the file %s is not at %s, where its name says that it is: it was lost, or that brick is an older copy",
		  gfid_text(&aim->gfid, text), d->x->child[aim->child]->name);
	return -EIO;
}

/* *out is what the owner of the name says: if that is a pointer, it becomes what is said where the object is. -EAGAIN: not there; to be
 * asked again, unless it is the second time that it is `*last` (may be null at first). */
static int follow(struct request *rq, struct dht *d, struct lookup_out *out, int *child, struct gfid *last)
{
	struct lookup_out there = { 0 };
	uint64_t moment = rq->moment;
	struct aim aim;
	int err, at;

	if (!(out->attr.flags & ATTR_POINTER))
		return 0;
	err = aim_of(d, out, &aim);
	at = aim.child;
	if (!err)
		err = object_look(rq, d, &aim, &there, &at);
	fop_out_clear(FOP_lookup, out);
	memset(out, 0, sizeof(*out));
	rq->moment = moment; /* of the name: what was asked later says nothing of it */
	if (err == -ENOENT || err == -ESTALE) {
		bool again = gfid_equal(last, &aim.pgfid);

		*last = aim.pgfid;
		return again ? leads_nowhere(d, &aim) : -EAGAIN;
	}
	*out = there;
	*child = at;
	return err;
}

int away_lookup(struct request *rq, struct dht *d, const struct lookup_in *in, struct lookup_out *out, int *child)
{
	int owner = *child, err = -EAGAIN;
	struct gfid last = { { 0 } };

	for (int tries = 0; err == -EAGAIN && tries < TRIES; tries++) {
		err = lookup_on(rq, d->x->child[owner], in, out);
		if (!err)
			err = follow(rq, d, out, child, &last);
	}
	if (err != -EAGAIN)
		return err;
	log_error(d->x, rq,
		  "a lookup ends with EIO: the name \"%s\" at %s led to something else each time, and never to what was there",
		  in->loc.name ? in->loc.name : "", d->x->child[owner]->name);
	return -EIO;
}

void away_entries(struct dirents *list)
{
	for (uint32_t i = 0; i < list->count; i++) {
		struct dirent_plus *e = &list->entry[i];

		bool points = e->attr.flags & ATTR_POINTER && !MUTANT("list-pointers");

		if (!points && !(e->attr.flags & ATTR_WIDE))
			continue;
		inode_unref(e->inode);
		e->inode = NULL; /* who wants attributes looks it up: of a wide directory they are those of all shards */
		if (points)
			e->gfid = e->attr.gfid;
		e->attr = (struct attr){ 0 };
	}
}

/* ---- pointers that have no name yet, or none any more ---- */

static struct born_xattr pointing(const struct aim *aim, uint8_t bytes[POINTER_SIZE])
{
	pointer_encode(&(struct pointer){ .subvolume = (uint32_t)aim->child, .gfid = aim->gfid }, bytes);
	return (struct born_xattr){ DHT_POINTER_XATTR, bytes, POINTER_SIZE };
}

/* Of the object's type, so that a plain listing tells it. */
static int make_typed(struct request *rq, struct xlator *child, const struct loc *loc, const struct aim *aim, mode_t type,
		      struct inode **pointer)
{
	struct mknod_in node = { .loc = *loc, .gfid = aim->pgfid, .mode = type };
	struct symlink_in link = { .loc = *loc, .gfid = aim->pgfid, .target = (char *)"-" };
	struct mkdir_in dir = { .loc = *loc, .gfid = aim->pgfid, .mode = 0700 }; /* its owner may give it another parent */
	struct mknod_out out = { 0 };						 /* a symlink_out, a mkdir_out is the same */
	int err = S_ISLNK(type)	  ? symlink_on(rq, child, &link, (struct symlink_out *)&out)
		  : S_ISDIR(type) ? mkdir_on(rq, child, &dir, (struct mkdir_out *)&out)
				  : mknod_on(rq, child, &node, &out);

	*pointer = err ? NULL : inode_ref(out.inode);
	fop_out_clear(FOP_mknod, &out);
	return err;
}

static int make_pointer_at(struct request *rq, struct dht *d, int child, const struct loc *loc, const struct aim *aim,
			   mode_t type, struct inode **pointer)
{
	uint8_t bytes[POINTER_SIZE];
	struct born_xattr x = pointing(aim, bytes);
	int err = born_attach(rq, &x, 1);

	if (!err)
		err = make_typed(rq, d->x->child[child], loc, aim, type, pointer);
	born_attach(rq, NULL, 0);
	if (err == -ESTALE)
		hidden_forget(d, child);
	return err;
}

/* new.PGFID at the subvolume that has the name, owned by the user: a sticky directory goes by that. */
static int make_pointer(struct request *rq, struct dht *d, int child, const struct aim *aim, mode_t type,
			struct inode **pointer)
{
	cleanup_inode struct inode *dir = NULL;
	char name[HIDDEN_NAME];
	struct loc loc = { .name = work_name(WORK_NEW, &aim->pgfid, name) };
	int err = work_dir(rq, d, child, work_of(&aim->pgfid), true, &dir);

	loc.parent = dir;
	return err ? err : make_pointer_at(rq, d, child, &loc, aim, type, pointer);
}

int rename_pointer(struct request *rq, struct dht *d, int child, const struct aim *aim, const struct loc *from,
		   const struct loc *to)
{
	struct rename_in in = { .from = *from, .to = *to, .flags = RENAME_NOREPLACE };
	struct rename_out out = { 0 };
	int err = mean_these(rq, d, &aim->pgfid, NULL);

	if (!err)
		err = rename_on(rq, d->x->child[child], &in, &out);
	mean_pointers(rq, d, false);
	return err;
}

/* As the user, who must be allowed to make the name. -EEXIST, ... */
static int give_name(struct request *rq, struct dht *d, int child, const struct aim *aim, const struct loc *loc)
{
	cleanup_inode struct inode *dir = NULL;
	char name[HIDDEN_NAME];
	struct loc from = { .name = work_name(WORK_NEW, &aim->pgfid, name) };
	struct loc to = { .parent = loc->parent, .name = loc->name };
	int err = work_dir(rq, d, child, work_of(&aim->pgfid), true, &dir);

	from.parent = dir;
	return err ? err : rename_pointer(rq, d, child, aim, &from, &to);
}

static int drop_work(struct request *rq, struct dht *d, int child, const struct aim *aim, const char *name)
{
	cleanup_inode struct inode *work = NULL;
	struct loc here = { .name = name };
	int err = work_dir(rq, d, child, work_of(&aim->pgfid), false, &work);

	here.parent = work;
	if (!err && is_stub(aim) && !MUTANT("fence-stubs")) /* it goes only for who says that he means it */
		err = mean_these(rq, d, &aim->pgfid, NULL);
	return err ? err : remove_at(rq, d->x->child[child], &here);
}

void end_now(struct request *rq, struct dht *d, int child, const struct aim *aim)
{
	struct who user = become_root(rq);
	char del[HIDDEN_NAME];

	mean_pointers(rq, d, true);
	if (MUTANT("forget-del"))
		drop_work(rq, d, child, aim, work_name(WORK_DEL, &aim->pgfid, del));
	if (!drop_anchor(rq, d, aim))
		drop_work(rq, d, child, aim, work_name(WORK_DEL, &aim->pgfid, del));
	mean_pointers(rq, d, false);
	become(rq, user);
}

/* What the pointer, which is called so, was made for goes, and it with that. A directory may have grown wide before it got a name, where its subvolume is to leave
 * the volume: all parts of it go, by an intent of its own, which takes the pointer, too. */
static int end_both(struct request *rq, struct dht *d, int child, const struct aim *aim, const char *name)
{
	cleanup_inode struct inode *dir = NULL;
	struct unlink_in in = { .loc = { .name = name } };
	int err = drop_target(rq, d, aim);

	if (!err)
		return drop_work(rq, d, child, aim, name);
	if (err != -EWIDE || MUTANT("keep-wide"))
		return err;
	if (present_of(d) != all_of(d)) /* one of its parts may be there: who removes them waits for nobody */
		return -ENOTCONN;
	mean_pointers(rq, d, false);
	err = work_dir(rq, d, child, work_of(&aim->pgfid), false, &dir);
	in.loc.parent = dir;
	if (!err)
		err = rmdir_away(rq, d, &in, child);
	return err == -ENOENT || err == -ESTALE
		       ? -EAGAIN
		       : err; /* somebody else ends it just now, which is not to say that there was no such pointer */
}

/* Whether the pointer, a reference, has no name but that one. Such a name is never made twice: so if it is still there at the second look, it was
 * among those that were counted at the first. */
static int is_last_name(struct request *rq, struct dht *d, int child, struct inode *dir, const char *name,
			struct inode **pointer, bool *last)
{
	cleanup_inode struct inode *second = NULL;
	uint32_t nlink, ignored;
	struct aim aim;
	int err = pointer_look(rq, d, child, dir, name, pointer, &nlink, &aim);

	if (!err)
		err = pointer_look(rq, d, child, dir, name, &second, &ignored, &aim);
	*last = !err && (nlink == 1 || aim.dir || MUTANT("end-any")); /* a directory has one name */
	return err;
}

/* It has no name at all: 0. */
static int has_ended(struct request *rq, struct dht *d, int child, struct inode *pointer)
{
	struct getattr_in in = { .inode = pointer };
	struct getattr_out out = { 0 };
	int err = getattr_on(rq, d->x->child[child], &in, &out);

	return err == -ESTALE || err == -ENOENT || (!err && !out.attr.nlink) ? 0 : err ? err : -EBUSY;
}

/* `in`: where it is called so; NULL: where pointers of its gfid are. */
static int rename_to_end(struct request *rq, struct dht *d, int child, struct inode *in, const char *name,
			 const struct aim *aim, char own[HIDDEN_NAME])
{
	cleanup_inode struct inode *dir = NULL;
	struct loc from = { .name = name }, to = { .name = end_name(&aim->pgfid, own) };
	int err = work_dir(rq, d, child, work_of(&aim->pgfid), in, &dir);

	from.parent = in ? in : dir;
	to.parent = dir;
	return err ? err : rename_pointer(rq, d, child, aim, &from, &to);
}

int away_fence(struct request *rq, struct dht *d, int child, struct inode *dir, const char *name, const struct aim *aim)
{
	char own[HIDDEN_NAME];

	return rename_to_end(rq, d, child, dir, name, aim, own);
}

int away_end_new(struct request *rq, struct dht *d, int child, const struct aim *aim)
{
	char new[HIDDEN_NAME], own[HIDDEN_NAME];
	int err =
		MUTANT("end-unfenced") ? 0 : rename_to_end(rq, d, child, NULL, work_name(WORK_NEW, &aim->pgfid, new), aim, own);

	if (MUTANT("end-unfenced"))
		work_name(WORK_NEW, &aim->pgfid, own);
	mean_pointers(rq, d, true);
	if (!err)
		err = end_both(rq, d, child, aim, own);
	mean_pointers(rq, d, false);
	return err;
}

/* It was one of several names: those that counted then may have gone since, and who took them counts on ours. */
static int end_spare(struct request *rq, struct dht *d, int child, struct inode *pointer, const char *name,
		     const struct aim *aim)
{
	struct getattr_in in = { .inode = pointer };
	struct getattr_out out = { 0 };
	int err = drop_work(rq, d, child, aim, name);

	if (!err && !getattr_on(rq, d->x->child[child], &in, &out) && !out.attr.nlink) /* it will never have one again */
		err = drop_anchor(rq, d, aim);
	return err; /* if nothing is known of it any more, its anchor may be left over: better than to lose what has a name */
}

int away_end(struct request *rq, struct dht *d, int child, struct inode *dir, const char *name, const struct aim *aim)
{
	cleanup_inode struct inode *pointer = NULL;
	bool last = false;
	int err = mean_pointers(rq, d, true);

	if (!err)
		err = is_last_name(rq, d, child, dir, name, &pointer, &last);
	if (!err && !last)
		err = end_spare(rq, d, child, pointer, name, aim);
	if (!err && last)
		err = end_both(rq, d, child, aim, name);
	mean_pointers(rq, d, false);
	return err;
}

/* A directory that grew wide without a name, and whose pointer has gone, gets one again, to be ended with it. */
static void end_without_pointer(struct request *rq, struct dht *d, int child, const struct aim *aim)
{
	cleanup_inode struct inode *pointer = NULL;
	struct aim again = *aim;

	gfid_create(&again.pgfid);
	if (!make_pointer(rq, d, child, &again, S_IFDIR, &pointer))
		away_end_new(rq, d, child, &again); /* else a sweep does */
}

/* Nobody gave new.PGFID away but a sweep, which found it old: then the anchor may have come after it looked for that. Or it was given its name,
 * and only the answer was lost. A sweep may itself have to wait, for a brick or a set that is away: it is waited for as for a name that is marked. */
static int after_sweep(struct request *rq, struct dht *d, int child, struct inode *pointer, const struct aim *aim)
{
	enum { WAIT_MS = 30000, PAUSE_MS = 50 };
	uint64_t until = clock_ns() + WAIT_MS * 1000000ull;
	int err, ended = 0;
	bool first = true;

	if (rq->deadline_ns && rq->deadline_ns < until)
		until = rq->deadline_ns;
	mean_pointers(rq, d, true);
	while ((err = has_ended(rq, d, child, pointer)) == -EBUSY && clock_ns() < until)
		task_sleep_ms(PAUSE_MS);
	if (!err && aim->dir) /* or it was given its name, and since then another pointer leads to the directory */
		ended = parent_is_first(rq, d, aim, &first);
	if (!err && !ended && first && drop_target(rq, d, aim) == -EWIDE)
		end_without_pointer(rq, d, child, aim);
	mean_pointers(rq, d, false);
	return err;
}

/* It got no name, or nobody knows whether it did. What the caller is told: `err`, but that a sweep has taken new.PGFID is nobody's business: then
 * -EAGAIN, or -EIO if that sweep is at it for longer than the request has time. */
static int give_up(struct request *rq, struct dht *d, int child, struct inode *pointer, const struct aim *aim, int err)
{
	struct who user = become_root(rq);
	bool swept;
	int ended;

	task_shield(true);
	ended = away_end_new(rq, d, child, aim);
	swept = ended == -ENOENT || ended == -ESTALE;
	if (swept)
		ended = after_sweep(rq, d, child, pointer, aim);
	task_shield(false);
	become(rq, user);
	if (!swept || (err != -ENOENT && err != -ESTALE) || MUTANT("tell-swept"))
		return err;
	if (!ended)
		return -EAGAIN;
	log_error(d->x, rq,
		  "a name gets nothing, which ends with EIO: a sweep of %s has been at what was made for it for too long",
		  d->x->child[child]->name);
	return -EIO;
}

/* ---- making ---- */

/* What the new file takes from its directory: whether the group, or an ACL; a directory may take S_ISGID, too. */
static int inherited(struct request *rq, struct dht *d, int child, struct inode *parent, bool dir, gid_t *gid, bool *more)
{
	struct getattr_in in = { .inode = parent };
	struct getattr_out out = { 0 };
	struct getxattr_in in_acl = { .inode = parent, .name = "system.posix_acl_default" };
	struct getxattr_out out_acl = { 0 };
	int err = getattr_on(rq, d->x->child[child], &in, &out);

	*more = dir && out.attr.mode & S_ISGID;
	*gid = out.attr.mode & S_ISGID ? (gid_t)out.attr.gid : rq->gid;
	if (err || out.attr.flags & ATTR_NO_ACL)
		return err;
	err = getxattr_on(rq, d->x->child[child], &in_acl, &out_acl);
	*more |= !err && out_acl.value.size;
	fop_out_clear(FOP_getxattr, &out_acl);
	return err == -ENODATA || err == -EOPNOTSUPP ? 0 : err;
}

/* What the caller's object is to be born with, off the request and back: it is not for what is made on the way. */
static struct extension *born_off(struct request *rq)
{
	struct extension **at = &rq->extensions, *born;

	while (*at && (*at)->type != BORN_EXTENSION)
		at = &(*at)->next;
	born = *at;
	if (born)
		*at = born->next;
	return born;
}

static void born_on(struct request *rq, struct extension *born)
{
	if (!born || MUTANT("lose-born"))
		return;
	born->next = rq->extensions;
	rq->extensions = born;
}

static int make_at(struct request *rq, struct xlator *child, const struct loc *loc, const struct gfid *gfid, enum fop fop,
		   const void *in, void *out)
{
	struct create_in create;
	struct mknod_in mknod;
	struct mkdir_in mkdir;

	if (fop == FOP_create) {
		create = *(const struct create_in *)in;
		create.loc = *loc;
		create.gfid = *gfid;
		create.flags |= O_EXCL;
		return create_on(rq, child, &create, out);
	}
	if (fop == FOP_mkdir) {
		mkdir = *(const struct mkdir_in *)in;
		mkdir.loc = *loc;
		mkdir.gfid = *gfid;
		return mkdir_on(rq, child, &mkdir, out);
	}
	mknod = *(const struct mknod_in *)in;
	mknod.loc = *loc;
	mknod.gfid = *gfid;
	return mknod_on(rq, child, &mknod, out);
}

/* The object under its anchor, by the caller's create, mknod or mkdir: as the user, whose it is then. */
static int make_object(struct request *rq, struct dht *d, const struct aim *aim, enum fop fop, const void *in, gid_t gid,
		       struct extension *born, void *out)
{
	cleanup_inode struct inode *dir = NULL;
	char name[HIDDEN_NAME];
	struct loc loc = { .name = anchor_name(aim, name) };
	gid_t own = rq->gid;
	int err = away_dir(rq, d, aim->child, &aim->gfid, true, &dir);

	if (err)
		return err;
	loc.parent = dir;
	rq->gid = gid;
	born_on(rq, born);
	err = make_at(rq, d->x->child[aim->child], &loc, &aim->gfid, fop, in, out);
	born_off(rq);
	rq->gid = own;
	if (err == -ESTALE)
		hidden_forget(d, aim->child);
	return err;
}

static void forget_object(struct request *rq, struct dht *d, const struct aim *aim, enum fop fop, void *out)
{
	struct release_in in = { .file = fop == FOP_create ? ((struct create_out *)out)->file : NULL };
	struct release_out released = { 0 };

	if (in.file)
		release_on(rq, d->x->child[aim->child], &in, &released);
	fop_out_clear((int)fop, out);
	memset(out, 0, fop_info[fop].out_size);
}

/* Where one of them is full or can't be reached, the file can still be made where its name is. */
static int not_here(int err)
{
	return err == -ENOSPC || err == -EDQUOT || unreached(err) ? -EOPNOTSUPP : err;
}

static int make_bare(struct request *rq, struct dht *d, enum fop fop, const void *in, struct extension *born, void *out,
		     int owner, int *child)
{
	const struct loc *loc = in; /* first in all */
	struct aim aim = { .child = *child, .dir = fop == FOP_mkdir };
	cleanup_inode struct inode *pointer = NULL;
	bool more;
	gid_t gid;
	int err = inherited(rq, d, owner, loc->parent, aim.dir, &gid, &more);

	if (err || more)
		return err ? err : -EOPNOTSUPP;
	gfid_create(&aim.gfid); /* not the caller's: if this fails, that may be used where the name is */
	gfid_create(&aim.pgfid);
	err = make_pointer(rq, d, owner, &aim, aim.dir ? S_IFDIR : S_IFREG, &pointer);
	if (err)
		return not_here(err);
	err = not_here(make_object(rq, d, &aim, fop, in, gid, born, out));
	if (!err && aim.dir) {
		err = not_here(parent_say_first(rq, d, aim.child, ((struct mkdir_out *)out)->inode, owner, &loc->parent->gfid));
		if (err)
			forget_object(rq, d, &aim, fop, out);
	}
	if (!err) {
		err = give_name(rq, d, owner, &aim, loc);
		if (err)
			forget_object(rq, d, &aim, fop, out);
	}
	return err ? give_up(rq, d, owner, pointer, &aim, err) : 0;
}

int away_make(struct request *rq, struct dht *d, enum fop fop, const void *in, void *out, int owner, int *child)
{
	struct extension *born = born_off(rq);
	int err = -EAGAIN;

	for (int tries = 0; err == -EAGAIN && tries < TRIES; tries++)
		err = make_bare(rq, d, fop, in, born, out, owner, child);
	born_on(rq, born); /* the file may still be made where its name is */
	return err == -EAGAIN ? -EMARKED : err;
}

/* create of a name that leads to a pointer: what is there is opened. */
int away_open(struct request *rq, struct dht *d, const struct create_in *in, struct create_out *out, int *child)
{
	struct lookup_in look = { .loc = { .parent = in->loc.parent, .name = in->loc.name } };
	struct lookup_out found = { 0 };
	struct open_in open = { .flags = in->flags & ~(uint32_t)(O_CREAT | O_EXCL) };
	struct open_out opened = { 0 };
	int err = in->flags & O_EXCL ? -EEXIST : away_lookup(rq, d, &look, &found, child);

	if (err)
		return err;
	open.inode = found.inode;
	err = S_ISREG(found.attr.mode)	 ? open_on(rq, d->x->child[*child], &open, &opened)
	      : S_ISDIR(found.attr.mode) ? -EISDIR
					 : -ESTALE; /* the kernel looks again */
	if (err) {
		fop_out_clear(FOP_lookup, &found);
		return err;
	}
	*out = (struct create_out){ .inode = found.inode, .file = opened.file, .attr = found.attr };
	if (in->flags & O_TRUNC)
		out->attr.size = out->attr.blocks = 0;
	return 0;
}

/* ---- links ---- */

/* The pointer belongs to whom the object belongs to. One to a device is one itself (of number 0), which only root may make, and gives away. */
static void become_owner(struct request *rq, const struct attr *of)
{
	if (S_ISBLK(of->mode) || S_ISCHR(of->mode))
		return;
	rq->uid = of->uid;
	rq->gid = of->gid;
}

static int give_away(struct request *rq, struct dht *d, int child, struct inode *pointer, const struct attr *of)
{
	struct setattr_in in = { .inode = pointer, .set = { .valid = SET_UID | SET_GID, .uid = of->uid, .gid = of->gid } };
	struct setattr_out out = { 0 };
	struct who user;
	int err;

	if (!S_ISBLK(of->mode) && !S_ISCHR(of->mode))
		return 0;
	user = become_root(rq);
	err = mean_pointers(rq, d, true);
	if (!err)
		err = setattr_on(rq, d->x->child[child], &in, &out);
	mean_pointers(rq, d, false);
	become(rq, user);
	return err;
}

static int make_owned(struct request *rq, struct dht *d, int owner, const struct aim *aim, const struct attr *of,
		      struct inode **pointer)
{
	struct who user = become_root(rq);
	int err;

	become_owner(rq, of);
	err = make_pointer(rq, d, owner, aim, of->mode & S_IFMT, pointer);
	become(rq, user);
	return err ? err : give_away(rq, d, owner, *pointer, of);
}

int pointer_prepare(struct request *rq, struct dht *d, int child, const struct loc *loc, const struct aim *aim,
		    struct inode *inode, const struct attr *of, bool synced)
{
	cleanup_inode struct inode *pointer = NULL;
	struct who user = become_root(rq);
	struct link_out out = { 0 };
	int err;

	become_owner(rq, of);
	err = make_pointer_at(rq, d, child, loc, aim, of->mode & S_IFMT, &pointer);
	become(rq, user);
	if (!err)
		err = give_away(rq, d, child, pointer, of);
	if (err || aim->dir)
		return err;
	err = anchor_add(rq, d, aim, inode, &out);
	return err || !synced ? err : anchor_sync(rq, d, aim);
}

int pointer_make(struct request *rq, struct dht *d, int child, const struct aim *aim, struct inode *inode,
		 const struct attr *of)
{
	cleanup_inode struct inode *pointer = NULL;
	struct lookup_out found = { 0 };
	struct link_out out = { 0 };
	int err = make_owned(rq, d, child, aim, of, &pointer);

	if (!err)
		err = anchor_add(rq, d, aim, inode, &out);
	if (!err)
		err = anchor_sync(rq, d, aim);
	if (!err) /* which the power may have taken before that */
		err = look_at_anchor(rq, d, aim, &found);
	fop_out_clear(FOP_lookup, &found);
	return err;
}

int pointer_replace(struct request *rq, struct dht *d, int child, const struct loc *loc, const struct gfid *old,
		    const struct aim *aim, const struct attr *of)
{
	cleanup_inode struct inode *pointer = NULL, *dir = NULL;
	char name[HIDDEN_NAME];
	struct rename_in in = { .from.name = work_name(WORK_NEW, &aim->pgfid, name), .to = *loc };
	struct rename_out out = { 0 };
	int err = make_owned(rq, d, child, aim, of, &pointer);

	if (!err)
		err = work_dir(rq, d, child, work_of(&aim->pgfid), true, &dir);
	in.from.parent = dir;
	if (!err)
		err = mean_these(rq, d, &aim->pgfid, old);
	if (!err)
		err = rename_on(rq, d->x->child[child], &in, &out);
	mean_pointers(rq, d, true);
	if (err && !unreached(err))
		drop_work(rq, d, child, aim, in.from.name);
	mean_pointers(rq, d, false);
	return err;
}

/* What features/access asks of who links where name and object are at one subvolume: here root gives the object its anchor, and the user names a
 * pointer. */
static int may_link(struct request *rq, struct dht *d, int child, struct inode *inode, const struct attr *of)
{
	struct access_in in = { .inode = inode, .mask = R_OK | W_OK };
	struct access_out out;
	int err;

	if (S_ISDIR(of->mode))
		return -EPERM;
	if (request_is_root(rq) || of->uid == rq->uid)
		return 0;
	if (!S_ISREG(of->mode) || of->mode & S_ISUID || (of->mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP))
		return -EPERM;
	err = access_on(rq, d->x->child[child], &in, &out);
	return err == -EACCES ? -EPERM : err == -EOPNOTSUPP ? 0 : err;
}

static int link_once(struct request *rq, struct dht *d, const struct link_in *in, struct link_out *out, int owner, int child)
{
	struct getattr_in look = { .inode = in->inode };
	struct getattr_out of = { 0 };
	struct aim aim = { .gfid = in->inode->gfid, .child = child };
	cleanup_inode struct inode *pointer = NULL;
	int err = getattr_on(rq, d->x->child[child], &look, &of);

	if (!err)
		err = may_link(rq, d, child, in->inode, &of.attr);
	gfid_create(&aim.pgfid);
	if (!err)
		err = make_owned(rq, d, owner, &aim, &of.attr, &pointer);
	if (err)
		return err;
	if (MUTANT("anchor-after-name"))
		err = give_name(rq, d, owner, &aim, &in->loc);
	if (!err)
		err = anchor_add(rq, d, &aim, in->inode, out);
	if (!err && !MUTANT("anchor-after-name"))
		err = give_name(rq, d, owner, &aim, &in->loc);
	return err ? give_up(rq, d, owner, pointer, &aim, err) : 0;
}

int away_link(struct request *rq, struct dht *d, const struct link_in *in, struct link_out *out, int owner, int child)
{
	int err = -EAGAIN;

	for (int tries = 0; err == -EAGAIN && tries < TRIES; tries++)
		err = link_once(rq, d, in, out, owner, child);
	return err == -EAGAIN ? -EMARKED
			      : err; /* sweeps are faster: it is tried for as long as a name is waited for that is marked */
}
