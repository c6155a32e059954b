/* SPDX-License-Identifier: Apache-2.0 */
/* One name: out of the way, or into its place. */
#include "heal-internal.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif
enum { STEPS_UP = 1000 };

static int move_away(struct pair *p, const char *name, const struct gfid *gfid)
{
	cleanup_thing struct thing t = { 0 };
	int err = thing_lookup(p->h, p->rq, p->to, p->inode, name, &t);

	if (err == -ENOENT)
		return 0; /* another heal has moved it meanwhile */
	if (!err && !gfid_equal(&t.inode->gfid, gfid))
		return -EAGAIN; /* and put another there; or it has just been found to be a copy, and the member gave it an identity of its own */
	return err ? err : limbo_take(p->h, p->rq, p->to, p->inode, name, &t);
}

int name_move_away(struct pair *p, const char *name, const struct gfid *gfid)
{
	int err;

	p->changed = p->taken = true;
	move_begin(p->h, p->to);
	err = move_away(p, name, gfid);
	move_end(p->h, p->to);
	return err;
}

/* ---- what the member has already ---- */

static int add_link(struct pair *p, const struct loc *place, struct inode *inode)
{
	struct link_in in = { .inode = inode, .loc = *place };
	struct link_out out = { 0 };
	int err = log_was_free(p->h, p->rq, p->to, place);

	return err ? err : heal_call(p->h, p->rq, p->to, FOP_link, &in, &out);
}

/* The directory by which the member names something. */
static int find_parent(struct pair *p, const struct gfid *gfid, struct thing *parent)
{
	int err = thing_find(p->h, p->rq, gfid, p->from, p->to, parent);
	struct link_told place;

	if (err != -ENOENT && err != -EAGAIN && err != -ENOLINK)
		return err;
	return directory_search(p->h, p->rq, gfid, p->to, &place, parent);
}

static int move_from(struct pair *p, const struct loc *place, struct inode *inode, struct inode *parent, const char *name)
{
	cleanup_thing struct thing t = { 0 };
	struct rename_in in = { .from = { parent, inode, name }, .to = *place, .flags = RENAME_NOREPLACE };
	struct rename_out out = { 0 };
	int err = thing_lookup(p->h, p->rq, p->to, parent, name, &t);

	if (!err && t.inode != inode)
		err = -ENOENT;
	if (!err)
		err = log_name_was(p->h, p->rq, p->to, &parent->gfid, name, &inode->gfid);
	if (!err)
		err = log_was_free(p->h, p->rq, p->to, place);
	return err ? err : heal_call(p->h, p->rq, p->to, FOP_rename, &in, &out);
}

static int move_link(struct pair *p, const struct loc *place, struct inode *inode, const struct link_told *old)
{
	cleanup_thing struct thing parent = { 0 };
	int err = find_parent(p, &old->parent, &parent);

	if (err)
		return err;
	move_begin(p->h, p->to);
	err = move_from(p, place, inode, parent.inode, old->name);
	move_end(p->h, p->to);
	return err ? err : note_taken(p->h, p->to, parent.inode);
}

/* A directory that stands elsewhere: it has one name only. If it is not there any more another heal has just moved it to the limbo. -ENOENT:
 * nobody knows where. */
static int move_directory(struct pair *p, const struct loc *place, struct inode *inode)
{
	cleanup_links struct links_told links = { 0 };
	int err = place_ask(p->h, p->rq, &inode->gfid, p->to, &links);

	if (!err)
		err = -ENOENT;
	for (uint32_t i = 0; i < links.count && err == -ENOENT; i++)
		err = move_link(p, place, inode, &links.link[i]);
	return err == -ENOENT ? limbo_give(p->h, p->rq, p->to, &inode->gfid, place) : err;
}

/* It is at the member under another name. What that name is for is the business of whoever heals its directory. */
static int place_known(struct pair *p, const struct loc *place, const struct thing *source)
{
	cleanup_thing struct thing t = { 0 };
	int along = source->attr.nlink > 1 && !S_ISDIR(source->attr.mode) ? p->from : -1;
	int err = thing_find(p->h, p->rq, &source->inode->gfid, along, p->to, &t);

	if (!err && t.inode != source->inode)
		err = -EIO;
	if (err) /* if nobody tells more of its other names, it can't wait for them */
		return err == -ENOLINK ? -ENOENT : err;
	return S_ISDIR(t.inode->type) ? move_directory(p, place, t.inode) : add_link(p, place, t.inode);
}

static int place_found(struct pair *p, const struct loc *place, const struct thing *source)
{
	int err = limbo_give(p->h, p->rq, p->to, &source->inode->gfid, place);

	return err == -ENOENT ? place_known(p, place, source) : err;
}

static bool same_link(const struct links_told *a, const struct links_told *b)
{
	return a->count && b->count && gfid_equal(&a->link[0].parent, &b->link[0].parent) &&
	       !strcmp(a->link[0].name, b->link[0].name);
}

static int take_link(struct pair *p, const struct gfid *gfid, const struct link_told *l)
{
	cleanup_thing struct thing parent = { 0 }, t = { 0 };
	int err = find_parent(p, &l->parent, &parent);

	if (err)
		return err;
	move_begin(p->h, p->to);
	err = thing_lookup(p->h, p->rq, p->to, parent.inode, l->name, &t);
	if (!err && !gfid_equal(&t.inode->gfid, gfid))
		err = -EAGAIN;
	if (!err)
		err = limbo_take(p->h, p->rq, p->to, parent.inode, l->name, &t);
	move_end(p->h, p->to);
	return err ? err : note_taken(p->h, p->to, parent.inode);
}

/* The directory lies below what is to be placed in it. So some directory on the way up has another place at `from`: it goes to the
 * limbo until that is made. (Whoever heals the directory that names it at `from` finds it there.) */
static int step_aside(struct pair *p)
{
	struct gfid up = p->inode->gfid;

	for (int i = 0; i < STEPS_UP; i++) {
		cleanup_links struct links_told there = { 0 }, should = { 0 };
		int err = place_ask(p->h, p->rq, &up, p->to, &there);

		if (!err)
			err = place_ask(p->h, p->rq, &up, p->from, &should);
		if (err == -ENOENT && there.count) /* it has no place at `from`, so it may go */
			err = 0;
		if (!err && !there.count)
			err = -EAGAIN;
		if (err)
			return err;
		if (!same_link(&there, &should))
			return take_link(p, &up, &there.link[0]);
		up = there.link[0].parent;
	}
	return -EAGAIN;
}

/* ---- what is new: born when the source was ---- */

static int make_link(struct pair *p, const struct loc *place, const struct thing *source)
{
	struct readlink_in in = { .inode = source->inode };
	struct readlink_out target = { 0 };
	struct symlink_out out = { 0 };
	int err = heal_call(p->h, p->rq, p->from, FOP_readlink, &in, &target);

	if (err)
		return err;
	struct symlink_in make = { .loc = *place, .gfid = source->inode->gfid, .target = target.target };

	err = heal_call_at(p->h, p->rq, p->to, FOP_symlink, &make, &out, &source->attr.btime);
	fop_out_clear(FOP_symlink, &out);
	fop_out_clear(FOP_readlink, &target);
	return err;
}

static int make_directory(struct pair *p, const struct loc *place, const struct thing *source)
{
	struct mkdir_in in = { .loc = *place, .gfid = source->inode->gfid, .mode = source->attr.mode & 07777 };
	struct mkdir_out out = { 0 };
	int err = heal_call_at(p->h, p->rq, p->to, FOP_mkdir, &in, &out, &source->attr.btime);

	fop_out_clear(FOP_mkdir, &out);
	return err;
}

static int make_node(struct pair *p, const struct loc *place, const struct thing *source)
{
	struct mknod_in in = {
		.loc = *place, .gfid = source->inode->gfid, .mode = source->attr.mode, .rdev = source->attr.rdev
	};
	struct mknod_out out = { 0 };
	int err = heal_call_at(p->h, p->rq, p->to, FOP_mknod, &in, &out, &source->attr.btime);

	fop_out_clear(FOP_mknod, &out);
	return err;
}

static int remember_made(struct made_list *l, const struct gfid *gfid)
{
	uint32_t room = l->room ? l->room * 2 : 16;
	struct gfid *grown = l->count < l->room ? l->gfid : realloc(l->gfid, room * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	if (l->count == l->room)
		l->room = room;
	l->gfid = grown;
	l->gfid[l->count++] = *gfid;
	return 0;
}

static int make(struct pair *p, const struct loc *place, const struct thing *source)
{
	int err = p->made ? remember_made(p->made, &source->inode->gfid) : 0;

	if (!err && p->h->logs_made)
		err = log_was_free(p->h, p->rq, p->to, place);
	if (err)
		return err;
	if (S_ISLNK(source->attr.mode))
		return make_link(p, place, source);
	return S_ISDIR(source->attr.mode) ? make_directory(p, place, source) : make_node(p, place, source);
}

/* ---- all ---- */

static int place(struct pair *p, const char *name, const struct thing *source)
{
	struct loc loc = { .parent = p->inode, .name = name };
	int err = place_found(p, &loc, source);

	if (err == -EINVAL && S_ISDIR(source->attr.mode)) {
		err = step_aside(p);
		if (!err)
			err = place_found(p, &loc, source);
	}
	if (!err && p->made && p->h->cold)
		return remember_made(p->made, &source->inode->gfid);
	err = err == -ENOENT ? make(p, &loc, source) : err;
	if (err == -EEXIST) /* it is there already: where it was, in a directory that went to the limbo as a whole? */
		err = limbo_dig(p->h, p->rq, p->to, &source->inode->gfid, &loc) ? -EEXIST : 0;
	return err;
}

/* Another heal was faster with the same? */
static bool is_placed(struct pair *p, const char *name, const struct thing *source)
{
	cleanup_thing struct thing t = { 0 };

	return !thing_lookup(p->h, p->rq, p->to, p->inode, name, &t) && t.inode == source->inode;
}

static int tell(struct pair *p, const struct thing *source)
{
	if (p->made || !p->h->found)
		return 0;
	return p->h->found(p->h, p->to, &source->inode->gfid);
}

/* Two heals may come to make the same object under two names: the slower one finds it the next time. The member can't be trusted to refuse the
 * second, for it knows only the gfids that it has in memory. */
struct placing {
	struct gfid gfid;
	int at;
	struct placing *next;
};

static bool placing_begin(struct heal *h, struct placing *own)
{
	struct placing *other;

	pthread_mutex_lock(&h->links_lock);
	other = h->placing;
	while (other && (other->at != own->at || !gfid_equal(&other->gfid, &own->gfid)))
		other = other->next;
	if (!other) {
		own->next = h->placing;
		h->placing = own;
	}
	pthread_mutex_unlock(&h->links_lock);
	return !other;
}

static void placing_end(struct heal *h, struct placing *own)
{
	struct placing **at = &h->placing;

	pthread_mutex_lock(&h->links_lock);
	while (*at != own)
		at = &(*at)->next;
	*at = own->next;
	pthread_mutex_unlock(&h->links_lock);
}

static int place_alone(struct pair *p, const char *name, const struct thing *source)
{
	struct placing own = { source->inode->gfid, p->to, NULL };
	int err;

	if (!placing_begin(p->h, &own))
		return -EAGAIN;
	err = place(p, name, source);
	placing_end(p->h, &own);
	return err;
}

/* Another heal, or a client, was faster. */
static int why_not(struct pair *p, const struct thing *source, int err)
{
	cleanup_thing struct thing there = { 0 };

	if (err == -EIO)
		return thing_find(p->h, p->rq, &source->inode->gfid, p->from, p->to, &there) ? err : -EAGAIN;
	return is_gone(err) || err == -EEXIST ? -EAGAIN : err;
}

int name_place(struct pair *p, const char *name)
{
	cleanup_thing struct thing source = { 0 };
	int err = thing_lookup(p->h, p->rq, p->from, p->inode, name, &source);

	if (err)
		return err == -ENOENT ? 0 : err;
	err = tell(p, &source);
	if (err)
		return err;
	p->changed = true;
	link_keep(p->h, source.inode, &source.attr);
	err = place_alone(p, name, &source);
	if (err && is_placed(p, name, &source))
		err = 0;
	return err ? why_not(p, &source, err) : tell(p, &source);
}
