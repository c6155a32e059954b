/* SPDX-License-Identifier: Apache-2.0 */
/* Finding an object at a member: where it is known, or along the names that another member tells. */
#include "heal-internal.h"

enum { WAY_MAX = 256 /* directories on the way up that the member does not know */ };

void thing_clear(struct thing *t)
{
	inode_unref(t->inode);
	t->inode = NULL;
}

void links_clear(struct links_told *l)
{
	free(l->link);
	*l = (struct links_told){ 0 };
}

/* Takes what the lookup gave. */
static int thing_take(struct lookup_out *out, struct thing *t)
{
	if (!out->inode || !out->attr.nlink) {
		inode_unref(out->inode);
		return -ENOENT; /* only who has it open keeps it; a directory, too */
	}
	*t = (struct thing){ out->inode, out->attr };
	return 0;
}

int thing_lookup(struct heal *h, struct request *rq, int at, struct inode *directory, const char *name, struct thing *t)
{
	struct lookup_in in = { .loc = { .parent = directory, .name = name } };
	struct lookup_out out = { 0 };
	int err = heal_call(h, rq, at, FOP_lookup, &in, &out);

	return err == -ESTALE ? -ENOENT : err ? err : thing_take(&out, t);
}

/* The inode is in memory; the member has perhaps told of it before. */
static int revalidate(struct heal *h, struct request *rq, int at, struct inode *inode, struct thing *t)
{
	struct lookup_in in = { .loc = { .inode = inode } };
	struct lookup_out out = { 0 };
	int err = heal_call(h, rq, at, FOP_lookup, &in, &out);

	if (err)
		return is_gone(err) ? -ENOENT : err;
	if (out.inode != inode) {
		inode_unref(out.inode);
		return -ENOENT;
	}
	return thing_take(&out, t);
}

/* ---- asking where the member knows it ---- */

static int ask(struct heal *h, struct request *rq, const struct gfid *gfid, int at, struct replica_out *out)
{
	struct pack more = { 0 };
	int err;

	pack_gfid(&more, gfid);
	err = heal_verb(h, rq, at, REPLICA_FIND, NULL, &more, out);
	if (!err && (!out->inode || !gfid_equal(&out->inode->gfid, gfid))) {
		fop_out_clear(FOP_replica, out);
		return -EIO;
	}
	return is_gone(err) ? -ENOENT : err;
}

int thing_known(struct heal *h, struct request *rq, const struct gfid *gfid, int at, struct thing *t)
{
	bool root = gfid_equal(gfid, &gfid_root);
	cleanup_inode struct inode *inode = root ? inode_get(h->x->inodes, gfid, S_IFDIR) : inode_find(h->x->inodes, gfid);
	struct replica_out out = { 0 };
	int err = inode ? revalidate(h, rq, at, inode, t) : -ENOENT;

	if (err != -ENOENT || root)
		return root && err == -ENOENT ? -EIO : err;
	err = ask(h, rq, gfid, at, &out);
	if (!err)
		err = revalidate(h, rq, at, out.inode, t);
	fop_out_clear(FOP_replica, &out);
	return err;
}

int thing_nameless(struct heal *h, struct request *rq, const struct gfid *gfid, int at, struct thing *t)
{
	struct lookup_out out = { 0 };
	struct replica_out found = { 0 };
	struct lookup_in in = { 0 };
	int err = ask(h, rq, gfid, at, &found);

	if (err)
		return err;
	in.loc.inode = found.inode;
	err = heal_call(h, rq, at, FOP_lookup, &in, &out);
	if (!err && (out.inode != found.inode || out.attr.nlink || !S_ISREG(out.attr.mode)))
		err = -ENOENT;
	if (!err)
		*t = (struct thing){ inode_ref(out.inode), out.attr };
	fop_out_clear(FOP_lookup, &out);
	fop_out_clear(FOP_replica, &found);
	return is_gone(err) ? -ENOENT : err;
}

static int unpack_links(const struct blob *blob, struct links_told *links)
{
	struct unpack u = unpack_blob(blob);
	uint32_t count = unpack_u32(&u);

	if (u.failed || count > blob->size / 17)
		return -EIO;
	links->link = calloc(count + 1, sizeof(*links->link));
	if (!links->link)
		return -ENOMEM;
	for (; links->count < count && !u.failed; links->count++) {
		struct link_told *l = &links->link[links->count];

		l->parent = unpack_gfid(&u);
		unpack_bytes(&u, l->name, unpack_u8(&u));
		u.failed |= name_check(l->name) < 0;
	}
	return u.failed ? -EIO : 0;
}

/* The member has told of it, but has it neither in use nor on its list: then it goes by what it told. */
static int ask_names(struct heal *h, struct request *rq, const struct gfid *gfid, int at, struct replica_out *out)
{
	cleanup_inode struct inode *inode = inode_find(h->x->inodes, gfid);
	int err = inode ? heal_verb(h, rq, at, REPLICA_LINKS, inode, NULL, out) : -ENOENT;

	return is_gone(err) || err == -EXDEV || err == -EOPNOTSUPP ? -ENOENT : err;
}

int links_ask(struct heal *h, struct request *rq, const struct gfid *gfid, int at, struct links_told *links)
{
	struct replica_out out = { 0 };
	int err = ask(h, rq, gfid, at, &out);

	if (err == -ENOENT)
		err = ask_names(h, rq, gfid, at, &out);
	if (!err)
		err = unpack_links(&out.data, links);
	if (err)
		links_clear(links);
	fop_out_clear(FOP_replica, &out);
	return err;
}

/* ---- from the root down ---- */

/* For a directory that the member has, but can't find by its gfid: nobody uses it, and it did not change of late. And for what lies somewhere
 * in the limbo. */
struct search {
	struct heal *h;
	struct request *rq;
	int at;
	bool any; /* not only directories */
	const struct gfid *gfid;
	struct link_told *link;
	size_t count, room;
	struct inode **left;	 /* directories not yet looked into: references */
	struct inode *directory; /* that is looked into */
};

static int put(struct search *s, struct inode *directory)
{
	if (s->count == s->room) {
		size_t room = s->room ? 2 * s->room : 64;
		struct inode **grown = realloc(s->left, room * sizeof(struct inode *));

		if (!grown)
			return -ENOMEM;
		s->left = grown;
		s->room = room;
	}
	s->left[s->count++] = inode_ref(directory);
	return 0;
}

/* 1: it is that. */
static int look_at(void *search, struct dirent_plus *e)
{
	struct search *s = search;
	cleanup_thing struct thing t = { 0 };
	struct inode *inode;
	int err;

	if (e->type && !S_ISDIR(e->type) && !(s->any && gfid_equal(&e->gfid, s->gfid)))
		return 0;
	err = e->inode ? 0 : thing_lookup(s->h, s->rq, s->at, s->directory, e->name, &t);
	if (err)
		return err == -ENOENT ? 0 : err;
	inode = e->inode ? e->inode : t.inode;
	if (!gfid_equal(&inode->gfid, s->gfid))
		return S_ISDIR(inode->type) ? put(s, inode) : 0;
	s->link->parent = s->directory->gfid;
	snprintf(s->link->name, sizeof(s->link->name), "%s", e->name);
	return 1;
}

/* *in: the directory that names it. */
static int search(struct search *s, struct inode *top, struct inode **in)
{
	int err = put(s, top);

	while (!err && s->count) {
		inode_unref_at(in);
		*in = s->directory = s->left[--s->count];
		err = directory_list(s->h, s->rq, s->at, *in, LIST_PLUS | LIST_IF_THERE, look_at, s);
	}
	while (s->count)
		inode_unref(s->left[--s->count]);
	free(s->left);
	return err > 0 ? 0 : err ? err : -ENOENT;
}

int directory_search(struct heal *h, struct request *rq, const struct gfid *gfid, int at, struct link_told *link,
		     struct thing *t)
{
	struct search s = { .h = h, .rq = rq, .at = at, .gfid = gfid, .link = link };
	cleanup_inode struct inode *in = NULL;
	cleanup_thing struct thing root = { 0 };
	int err = thing_known(h, rq, &gfid_root, at, &root);

	if (!err)
		err = search(&s, root.inode, &in);
	if (!err && t)
		err = thing_lookup(h, rq, at, in, link->name, t);
	if (!err && t && !gfid_equal(&t->inode->gfid, gfid)) {
		thing_clear(t);
		err = -ENOENT;
	}
	return err;
}

int search_below(struct heal *h, struct request *rq, const struct gfid *gfid, int at, struct inode *top, struct inode **in,
		 char name[256])
{
	struct link_told link = { 0 };
	struct search s = { .h = h, .rq = rq, .at = at, .any = true, .gfid = gfid, .link = &link };
	int err = search(&s, top, in);

	memcpy(name, link.name, sizeof(link.name));
	return err;
}

/* ---- along names ---- */

struct rung {
	struct gfid gfid;
	char name[256];
};
struct way { /* from an object up to a directory that is known */
	uint32_t count;
	struct rung step[WAY_MAX];
};

static bool was_there(const struct way *w, const struct gfid *gfid)
{
	for (uint32_t i = 0; i < w->count; i++)
		if (gfid_equal(&w->step[i].gfid, gfid))
			return true;
	return false;
}

int place_ask(struct heal *h, struct request *rq, const struct gfid *gfid, int at, struct links_told *links)
{
	int err = links_ask(h, rq, gfid, at, links);

	if (err != -ENOENT)
		return err;
	links->link = calloc(1, sizeof(*links->link));
	if (!links->link)
		return -ENOMEM;
	err = directory_search(h, rq, gfid, at, links->link, NULL);
	links->count = !err;
	return err;
}

/* One step up: *gfid becomes its parent, as `from` tells. -ENOLINK: it does not tell. */
static int go_up(struct heal *h, struct request *rq, struct gfid *gfid, int from, struct way *w)
{
	cleanup_links struct links_told links = { 0 };
	int err = from < 0 ? -ENOENT : place_ask(h, rq, gfid, from, &links);

	if (err && err != -ENOENT)
		return err;
	if (!links.count || w->count == WAY_MAX || was_there(w, gfid))
		return -ENOLINK;
	w->step[w->count].gfid = *gfid;
	memcpy(w->step[w->count++].name, links.link[0].name, sizeof(links.link[0].name));
	*gfid = links.link[0].parent;
	return 0;
}

static int go_down(struct heal *h, struct request *rq, int at, const struct way *w, struct thing *t)
{
	int err = 0;

	for (uint32_t i = w->count; i-- && !err;) {
		cleanup_thing struct thing directory = *t;

		*t = (struct thing){ 0 };
		err = thing_lookup(h, rq, at, directory.inode, w->step[i].name, t);
		if (!err && !gfid_equal(&t->inode->gfid, &w->step[i].gfid))
			err = -ENOENT;
	}
	return err == -ENOTDIR ? -ENOENT : err;
}

/* A directory: it has one name. -EAGAIN: it is not where it should be; -ENOENT: at `from` it went out of the way for good. */
static int find_directory(struct heal *h, struct request *rq, const struct gfid *gfid, int from, int at, struct thing *t)
{
	struct way *w = malloc(sizeof(*w));
	struct gfid up = *gfid;
	int err = w ? 0 : -ENOMEM;
	bool gone = false;

	if (w)
		w->count = 0;
	while (!err && !gfid_equal(&up, &gfid_limbo) && (err = thing_known(h, rq, &up, at, t)) == -ENOENT)
		err = go_up(h, rq, &up, from, w);
	if (!err && t->inode)
		err = go_down(h, rq, at, w, t);
	else if (!err)
		gone = true;
	if (err)
		thing_clear(t);
	free(w);
	return gone ? -ENOENT : err == -ENOENT ? -EAGAIN : err;
}

static int find_link(struct heal *h, struct request *rq, const struct gfid *gfid, int from, int at, const struct link_told *l,
		     struct thing *t)
{
	cleanup_thing struct thing parent = { 0 };
	int err = find_directory(h, rq, &l->parent, from, at, &parent);

	if (!err)
		err = thing_lookup(h, rq, at, parent.inode, l->name, t);
	if (!err && !gfid_equal(&t->inode->gfid, gfid)) {
		thing_clear(t);
		err = -ENOENT;
	}
	return err == -ENOTDIR ? -ENOENT : err;
}

/* Along the names that `from` tells. *told: it knows the object. */
static int find_by_links(struct heal *h, struct request *rq, const struct gfid *gfid, int from, int at, struct thing *t,
			 bool *told)
{
	cleanup_links struct links_told links = { 0 };
	int one, err = links_ask(h, rq, gfid, from, &links);

	*told = !err;
	if (err)
		return err;
	err = links.count ? -ENOENT : -ENOLINK;
	for (uint32_t i = 0; i < links.count && err; i++) {
		if (gfid_equal(&links.link[i].parent, &gfid_limbo)) /* out of the way, for good: that is no name */
			continue;
		one = find_link(h, rq, gfid, from, at, &links.link[i], t);
		if (!not_found(one))
			return one;
		if (one == -EAGAIN || err == -ENOENT)
			err = one;
	}
	return err;
}

bool heal_adrift(struct heal *h, struct request *rq, const struct gfid *gfid, int at)
{
	cleanup_thing struct thing t = { 0 };
	cleanup_links struct links_told links = { 0 };

	if (thing_known(h, rq, gfid, at, &t))
		return false;
	return links_ask(h, rq, gfid, at, &links) || !links.count;
}

/* The directory, or one above it. */
static bool in_limbo(struct heal *h, struct request *rq, const struct gfid *directory, int at)
{
	struct gfid up = *directory;

	for (int i = 0; i < WAY_MAX && !gfid_equal(&up, &gfid_root); i++) {
		cleanup_links struct links_told links = { 0 };

		if (gfid_equal(&up, &gfid_limbo))
			return true;
		if (links_ask(h, rq, &up, at, &links) || !links.count)
			return false;
		up = links.link[0].parent;
	}
	return false;
}

bool heal_named(struct heal *h, struct request *rq, const struct gfid *gfid, int at)
{
	cleanup_thing struct thing t = { 0 };
	cleanup_links struct links_told links = { 0 };
	int err = thing_known(h, rq, gfid, at, &t);

	if (err)
		return err != -ENOENT;
	if (links_ask(h, rq, gfid, at, &links) || !links.count)
		return true;
	for (uint32_t i = 0; i < links.count; i++)
		if (!in_limbo(h, rq, &links.link[i].parent, at))
			return true;
	return false;
}

/* Bricks that were started anew may not know what they have: then any other's names show the way. */
int thing_find(struct heal *h, struct request *rq, const struct gfid *gfid, int from, int at, struct thing *t)
{
	int one, err = thing_known(h, rq, gfid, at, t);
	bool told = false;

	if (err != -ENOENT || from < 0)
		return err;
	err = find_by_links(h, rq, gfid, from, at, t, &told);
	for (int i = 0; i < h->x->children && err == -ENOENT && !told; i++) {
		if (i == from || i == at)
			continue;
		one = find_by_links(h, rq, gfid, i, at, t, &told);
		err = told ? one : err;
	}
	return err;
}

int heal_above(struct heal *h, struct request *rq, const struct gfid *gfid, int at,
	       int (*each)(void *arg, struct inode *directory), void *arg)
{
	cleanup_links struct links_told links = { 0 };
	int err = gfid_equal(gfid, &gfid_root) ? 0 : place_ask(h, rq, gfid, at, &links);

	for (uint32_t i = 0; i < links.count && !err; i++) {
		cleanup_thing struct thing above = { 0 };

		err = find_directory(h, rq, &links.link[i].parent, at, at, &above);
		if (!err)
			err = each(arg, above.inode);
		err = not_found(err) ? 0 : err;
	}
	return err == -ENOENT ? 0 : err;
}

int heal_find(struct heal *h, struct request *rq, const struct gfid *gfid, int from, int at, struct inode **inode)
{
	struct thing t = { 0 };
	int err = thing_find(h, rq, gfid, from, at, &t);

	*inode = t.inode;
	return not_found(err) ? -ENOENT : err;
}
