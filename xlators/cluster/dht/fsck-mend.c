/* SPDX-License-Identifier: Apache-2.0 */
/* Puts right what was found. All is looked at once more just before; no object loses its last name, and what is done is such that a run that ends half
 * way leaves what the next one finds. */
#include "fsck.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct mend {
	struct fsck *f;
	const struct suspect *s;
	char **told;
	struct inode *dir; /* of its name; a reference */
	const char *name;
	struct lookup_out found; /* what has that now */
};

static enum mended tell(struct mend *m, enum mended how, const char *format, ...) __attribute__((format(printf, 3, 4)));

static enum mended tell(struct mend *m, enum mended how, const char *format, ...)
{
	va_list args;

	free(*m->told);
	va_start(args, format);
	if (vasprintf(m->told, format, args) < 0)
		*m->told = NULL;
	va_end(args);
	return how;
}

static bool has_gone(int err)
{
	return err == -ENOENT || err == -ESTALE || err == -EFENCED || err == -ENODATA;
}

/* What a step that failed means. */
static enum mended failed(struct mend *m, int err, const char *what)
{
	if (has_gone(err))
		return MEND_GONE;
	return tell(m, MEND_LEFT, "%s: %s; run it again", what,
		    err == -EMARKED ? "another client is renaming it just now" : error_text(err));
}

static struct xlator *child_of(const struct mend *m)
{
	return m->f->d->x->child[m->s->child];
}

static int open_name(struct mend *m, const char *path, int child)
{
	int err = fsck_find(m->f, child, path, &m->dir, &m->name);

	return err ? err : fsck_lookup(m->f, child, m->dir, m->name, &m->found);
}

static void close_name(struct mend *m)
{
	inode_unref(m->dir);
	m->dir = NULL;
	fop_out_clear(FOP_lookup, &m->found);
	m->found = (struct lookup_out){ 0 };
}

/* The name, which is to be that object's or pointer's. */
static int remove_name(struct mend *m, int child)
{
	struct unlink_in in = { .loc = { .parent = m->dir, .name = m->name } };
	struct unlink_out out = { 0 };
	int err = fsck_ask_pointers(m->f, &m->found.inode->gfid);

	/* an rmdir_in is the same */
	return err ? err
		   : fop_call(m->f->rq, m->f->d->x->child[child], S_ISDIR(m->found.attr.mode) ? FOP_rmdir : FOP_unlink, &in,
			      &out);
}

/* ---- what is away ---- */

static enum mended rescue(struct mend *m, int child)
{
	char text[GFID_TEXT];
	int err = rescue_object(m->f, child, m->found.inode);

	if (err)
		return failed(m, err, "it can't be given a name in /" LOST);
	err = remove_name(m, child);
	if (err)
		return failed(m, err, "it has a name in /" LOST ", but could not be taken away");
	return tell(m, MEND_DONE, "it is /" LOST "/%s now", gfid_text(&m->found.inode->gfid, text));
}

static enum mended settle(struct mend *m, int child)
{
	int err;

	if (!S_ISDIR(m->found.attr.mode) && m->found.attr.nlink < 2)
		return rescue(m, child);
	err = remove_name(m, child);
	if (err == -ENOTEMPTY || err == -EEXIST)
		return tell(m, MEND_LEFT,
			    "it is not empty: copy what is in it from the brick to a mount, and remove it on the brick");
	if (err)
		return failed(m, err, "it can't be removed");
	return tell(m, MEND_DONE,
		    S_ISDIR(m->found.attr.mode) ? "it was empty, and was removed" : "it was removed: the file has other names");
}

/* A name in `away` without a pointer. */
static enum mended mend_away(struct mend *m)
{
	int err = open_name(m, m->s->path, m->s->child);

	if (!err && !gfid_equal(&m->found.inode->gfid, &m->s->own))
		err = -ENOENT;
	if (!err && !fsck_was_before(m->f, m->s))
		return MEND_AGAIN;
	return err ? failed(m, err, "it can't be looked at") : settle(m, m->s->child);
}

/* If somebody needs it, it is not empty; or its home leaves the volume. */
static enum mended mend_shard(struct mend *m)
{
	struct rmdir_in in = { 0 };
	struct rmdir_out out = { 0 };
	bool shard = true, moves = false;
	int err;

	if (m->s->mark.hash == SHARD_MISSING)
		return tell(m, MEND_LEFT, "the names that were in it are lost, unless that brick is an older copy: restore it");
	err = fsck_same_layout(m->f);
	if (err)
		return tell(m, MEND_LEFT, "the layout of the root changes: run it again");
	err = open_name(m, m->s->path, m->s->child);
	if (!err && !gfid_equal(&m->found.inode->gfid, &m->s->own))
		err = -ENOENT;
	if (!err && !fsck_was_before(m->f, m->s))
		return MEND_AGAIN;
	if (!err)
		err = is_shard(m->f, m->s->child, m->found.inode, &shard, &moves);
	if (!err && (!shard || moves)) /* one began to empty its home meanwhile */
		err = -ENOENT;
	in.loc = (struct loc){ .parent = m->dir, .name = m->name };
	if (!err)
		err = place_say(m->f->rq, m->f->d,
				&(struct place){ .flags = PLACE_SHARD | PLACE_HERE, .expected = { m->s->own } });
	if (!err)
		err = rmdir_on(m->f->rq, child_of(m), &in, &out);
	if (err == -ENOTEMPTY || err == -EEXIST)
		return tell(m, MEND_LEFT, "names are in it: find out where they belong, and move them by hand");
	return err ? failed(m, err, "it can't be removed") : tell(m, MEND_DONE, "it was empty, and was removed");
}

/* ---- what is under way ---- */

static enum mended mend_unended(struct mend *m)
{
	int err = open_name(m, m->s->path, m->s->child);

	if (!err)
		err = fsck_ask(m->f);
	if (!err)
		err = work_end(m->f->rq, m->f->d, m->s->child, m->dir, m->name);
	if (err == -EINVAL)
		return tell(m, MEND_LEFT, "it makes no sense: remove it on the brick when nothing else is found");
	if (err < 0)
		return failed(m, err, "it can't be ended");
	return err ? MEND_AGAIN : tell(m, MEND_DONE, "it was ended");
}

/* The object whose anchor it has keeps a name. */
static enum mended drop_anchor_of(struct mend *m, const struct aim *aim)
{
	struct mend of = { .f = m->f, .s = m->s, .told = m->told };
	struct away a = { .gfid = aim->gfid, .pgfid = aim->pgfid };
	char path[AWAY_PATH];
	int err = open_name(&of, away_path(&a, path), aim->child);
	enum mended how = MEND_GONE;

	if (!err && !gfid_equal(&of.found.inode->gfid, &aim->gfid))
		err = -ENOENT;
	if (err)
		how = failed(m, err, "its anchor can't be looked at");
	else
		how = settle(&of, aim->child);
	close_name(&of);
	return how;
}

static enum mended remove_waiting(struct mend *m)
{
	int err = remove_name(m, m->s->child);

	if (err)
		return failed(m, err, "it can't be removed");
	return *m->told ? MEND_DONE : tell(m, MEND_DONE, "it was removed");
}

/* Its anchor first: else nobody would know of that. */
static enum mended mend_waits(struct mend *m)
{
	bool gone = false;
	struct aim aim;
	struct gfid id;
	int err = open_name(m, m->s->path, m->s->child);

	if (!err && (waits_parse(m->name, &id) || !gfid_equal(&m->found.inode->gfid, &m->s->own)))
		err = -ENOENT;
	if (!err)
		err = intent_is_gone(m->f, &id, &gone);
	if (err || !gone)
		return failed(m, err ? err : -ENOENT, "it can't be looked at");
	if (!(m->found.attr.flags & ATTR_POINTER))
		return S_ISDIR(m->found.attr.mode)
			       ? tell(m, MEND_LEFT,
				      "it is a directory, and no pointer leads to it: copy what is in it from the brick to a mount")
			       : settle(m, m->s->child);
	err = aim_of(m->f->d, &m->found, &aim);
	if (err)
		return failed(m, err, "it leads nowhere");
	/* What leads to a directory may be one of several, of which the others have names. */
	if (!S_ISDIR(m->found.attr.mode) && m->found.attr.nlink < 2 && drop_anchor_of(m, &aim) == MEND_LEFT)
		return MEND_LEFT;
	return remove_waiting(m);
}

/* ---- marks, and what makes no sense ---- */

/* The object at the path, not its name: a reference in m->found. */
static int open_object(struct mend *m)
{
	if (*m->s->path)
		return open_name(m, m->s->path, m->s->child);
	m->found.inode = root_of(m->f->d);
	return m->found.inode ? 0 : -ENOMEM;
}

static enum mended mend_mark(struct mend *m)
{
	struct mark now;
	bool gone = false;
	int err = open_object(m);

	if (!err)
		err = fsck_ask(m->f);
	if (!err)
		err = mark_of(m->f->rq, m->f->d, m->s->child, m->found.inode, m->s->mark.hash, &now);
	if (!err && !gfid_equal(&now.intent, &m->s->mark.intent))
		err = -ENOENT;
	if (!err)
		err = intent_is_gone(m->f, &now.intent, &gone);
	if (!err && !gone)
		err = -ENOENT;
	if (!err)
		err = fsck_ask(m->f);
	if (!err)
		err = mark_remove(m->f->rq, m->f->d, m->s->child, m->found.inode, &now);
	return err ? failed(m, err, "it can't be removed") : tell(m, MEND_DONE, "the mark was removed");
}

/* As heals ask: bricks judge nothing then. */
static int open_raw(struct mend *m)
{
	int err = *m->s->path ? fsck_find(m->f, m->s->child, m->s->path, &m->dir, &m->name) : open_object(m);

	fsck_ask_raw(m->f);
	if (!err && m->dir)
		err = fsck_lookup(m->f, m->s->child, m->dir, m->name, &m->found);
	if (!err && !gfid_equal(&m->found.inode->gfid, &m->s->own))
		err = -ENOENT;
	return err;
}

static int set_pointer(struct mend *m, const struct away *a)
{
	uint8_t bytes[POINTER_SIZE];
	struct setxattr_in in = { .inode = m->found.inode, .name = DHT_POINTER_XATTR, .value = { POINTER_SIZE, bytes } };
	struct setxattr_out out = { 0 };
	int err = fsck_ask_pointers(m->f, NULL);

	pointer_encode(&(struct pointer){ a->child, a->gfid }, bytes);
	return err ? err : setxattr_on(m->f->rq, child_of(m), &in, &out);
}

static enum mended mend_pointer_value(struct mend *m)
{
	struct away *a = away_find(m->f, &m->s->own, m->s->child);
	char text[512], own[GFID_TEXT];
	struct unlink_in in = { .loc = { .parent = m->dir, .name = m->name } };
	struct unlink_out out = { 0 };
	int err;

	if (S_ISDIR(m->s->type))
		return tell(m, MEND_LEFT, "it is a directory: find out what it led to, and remove it on the brick");
	if (a) {
		err = set_pointer(m, a);
		return err ? failed(m, err, "it can't be set right")
			   : tell(m, MEND_DONE, "it leads to %s now, where its anchor is", m->f->d->x->child[a->child]->name);
	}
	snprintf(text, sizeof(text),
		 "The pointer %s at %s said nothing that could be understood, and no anchor is called by it.\n",
		 gfid_text(&m->s->own, own), child_of(m)->name);
	err = rescue_text(m->f, m->s, text);
	fsck_ask_raw(m->f);
	if (!err)
		err = unlink_on(m->f->rq, child_of(m), &in, &out);
	return err ? failed(m, err, "it can't be removed")
		   : tell(m, MEND_DONE, "it was removed, and /" LOST " has a text of it");
}

static enum mended mend_xattr(struct mend *m)
{
	struct removexattr_in in = { .name = m->s->more };
	struct removexattr_out out = { 0 };
	uint64_t hash;
	int err = open_raw(m);

	if (err)
		return failed(m, err, "it can't be looked at");
	if (!strcmp(m->s->more, DHT_POINTER_XATTR))
		return mend_pointer_value(m);
	if (!is_mark(m->s->more, &hash))
		return tell(m, MEND_LEFT, "remove the xattr on the brick, and start that again");
	in.inode = m->found.inode;
	err = removexattr_on(m->f->rq, child_of(m), &in, &out);
	return err ? failed(m, err, "it can't be removed") : tell(m, MEND_DONE, "it was removed: it holds nothing");
}

/* ---- pointers ---- */

static bool is_as_found(const struct mend *m)
{
	const struct lookup_out *now = &m->found;

	return now->attr.flags & ATTR_POINTER && gfid_equal(&now->inode->gfid, &m->s->own) &&
	       gfid_equal(&now->attr.gfid, &m->s->aim.gfid) && (int)now->attr.rdev == m->s->aim.child;
}

/* Its anchor is at another subvolume, or of another object. */
static enum mended lead_to_anchor(struct mend *m, const struct away *a)
{
	struct aim aim = { a->gfid, m->s->own, a->child };
	int there = look_where_it_leads(m->f, &aim, a->directory);
	int err = there > 0 ? set_pointer(m, a) : there ? there : -ENOENT;

	return err ? failed(m, err, "it can't be set right")
		   : tell(m, MEND_DONE, "it leads to %s now, where its anchor is", m->f->d->x->child[a->child]->name);
}

static int add_anchor(struct mend *m, const struct away *a, struct inode *object)
{
	cleanup_inode struct inode *dir = NULL;
	struct aim aim = { a->gfid, a->pgfid, a->child };
	char name[HIDDEN_NAME];
	struct link_in in = { .inode = object, .loc = { .name = anchor_name(&aim, name) } };
	struct link_out out = { 0 };
	int err = fsck_ask(m->f);

	if (!err)
		err = away_dir(m->f->rq, m->f->d, a->child, &a->gfid, true, &dir);
	in.loc.parent = dir;
	if (!err)
		err = link_on(m->f->rq, m->f->d->x->child[a->child], &in, &out);
	return err;
}

/* The object has other names: the walk has met one. */
static enum mended lead_to_object(struct mend *m, const struct wanted *w)
{
	struct mend of = { .f = m->f, .s = m->s, .told = m->told };
	struct away a = { .gfid = m->s->aim.gfid, .pgfid = m->s->own, .child = (uint8_t)w->child[0] };
	int err = open_name(&of, w->path[0], w->child[0]);

	if (!err && (!gfid_equal(&of.found.inode->gfid, &w->gfid) || of.found.attr.flags & ATTR_POINTER))
		err = -EAGAIN;
	if (!err && (of.found.attr.mode & S_IFMT) != m->s->type)
		err = -EIO;
	if (!err)
		err = add_anchor(m, &a, of.found.inode);
	if (!err && a.child != m->s->aim.child)
		err = set_pointer(m, &a);
	close_name(&of);
	return err ? failed(m, err == -ENOENT ? -EAGAIN : err, "its object was found, but can't be given an anchor")
		   : tell(m, MEND_DONE, "its object was found at %s, and has an anchor again",
			  m->f->d->x->child[a.child]->name);
}

/* Without a word to the brick's layout, as heals ask: that may have a directory moved only by who holds its names. */
static int move_away(struct mend *of, int child, const struct gfid *gfid)
{
	cleanup_inode struct inode *dir = NULL;
	struct aim aim = { .gfid = *gfid, .child = child };
	struct away a = { .gfid = *gfid, .directory = true };
	char path[AWAY_PATH];
	struct rename_in in = { .from = { .parent = of->dir, .name = of->name }, .flags = RENAME_NOREPLACE };
	struct rename_out out = { 0 };
	int err = fsck_ask(of->f);

	if (!err)
		err = away_dir(of->f->rq, of->f->d, child, &aim.gfid, true, &dir);
	in.to = (struct loc){ .parent = dir, .name = strrchr(away_path(&a, path), '/') + 1 };
	fsck_ask_raw(of->f);
	return err ? err : rename_on(of->f->rq, of->f->d->x->child[child], &in, &out);
}

/* The directory waits in `work` for a rename whose record has gone; so does nobody else move it. */
static enum mended lead_to_directory(struct mend *m, const struct wanted *w)
{
	struct mend of = { .f = m->f, .s = m->s, .told = m->told };
	struct away a = { .gfid = m->s->aim.gfid, .child = (uint8_t)w->child[0], .directory = true };
	struct gfid id;
	bool gone = false;
	int err = open_name(&of, w->path[0], w->child[0]);

	if (!err && (!S_ISDIR(of.found.attr.mode) || !gfid_equal(&of.found.inode->gfid, &w->gfid) || waits_parse(of.name, &id)))
		err = -EAGAIN;
	if (!err)
		err = intent_is_gone(m->f, &id, &gone);
	if (!err && !gone)
		err = -ENOENT;
	if (!err)
		err = parent_say_first(m->f->rq, m->f->d, w->child[0], of.found.inode, m->s->child, &m->dir->gfid);
	if (!err || err == -EFENCED) /* it says one already, in a later turn */
		err = move_away(&of, w->child[0], &w->gfid);
	if (!err && a.child != m->s->aim.child)
		err = set_pointer(m, &a);
	close_name(&of);
	return err ? failed(m, err, "its directory waits in " DHT_HIDDEN "/work, but can't be put where it belongs")
		   : tell(m, MEND_DONE, "its directory was waiting in " DHT_HIDDEN "/work, and is away again");
}

static enum mended lay_down(struct mend *m)
{
	char *text, gfid[GFID_TEXT], own[GFID_TEXT];
	const struct suspect *s = m->s;
	bool known = s->aim.child >= 0 && has_subvolume(m->f->d, (uint64_t)s->aim.child);
	int err, n = asprintf(&text,
			      "/%s at %s was a pointer (%s) to %s at subvolume %d%s%s, where nothing of it is any more.\n",
			      s->path, child_of(m)->name, gfid_text(&s->own, own), gfid_text(&s->aim.gfid, gfid), s->aim.child,
			      known ? ", " : "", known ? m->f->d->x->child[s->aim.child]->name : "");

	err = n < 0 ? -ENOMEM : rescue_text(m->f, s, text);
	if (n >= 0)
		free(text);
	if (err)
		return failed(m, err, "a text of it can't be written to /" LOST);
	err = remove_name(m, s->child);
	return err ? failed(m, err, "it can't be removed")
		   : tell(m, MEND_DONE, "it was removed, and /" LOST " has a text of it");
}

static enum mended mend_pointer(struct mend *m)
{
	bool directory = S_ISDIR(m->s->type);
	const struct away *a = away_find(m->f, directory ? &m->s->aim.gfid : &m->s->own, m->s->aim.child);
	const struct wanted *w = wanted_find(m->f, &m->s->aim.gfid);
	int err = open_name(m, m->s->path, m->s->child);

	if (!err && !is_as_found(m))
		err = -ENOENT;
	if (!err && m->s->aim.child >= 0 && has_subvolume(m->f->d, (uint64_t)m->s->aim.child)) {
		err = look_where_it_leads(m->f, &m->s->aim, directory);
		err = err > 0 ? -ENOENT : err;
	}
	if (err)
		return failed(m, err, "it can't be looked at");
	if (a && a->directory == directory && !a->leads_on)
		return lead_to_anchor(m, a);
	if (w && w->path[1])
		return tell(m, MEND_LEFT, "its object is at two subvolumes: remove one of these first");
	if (!w || !w->path[0])
		return lay_down(m);
	return directory ? lead_to_directory(m, w) : lead_to_object(m, w);
}

/* ---- names of the root ---- */

/* Another name that belongs to where it stands. */
static int name_here(struct mend *m, char name[NAME_MAX + 1])
{
	char gfid[GFID_TEXT];
	int n = 0;

	gfid_text(&m->s->own, gfid);
	do {
		snprintf(name, NAME_MAX + 1, "%.*s.fsck-%s", NAME_MAX - 64, m->s->path, gfid);
		if (n)
			snprintf(name + strlen(name), 16, ".%d", n);
	} while (root_owner(m->f->d, name) != m->s->child && ++n < 1 << 16);
	return root_owner(m->f->d, name) == m->s->child ? 0 : -ENXIO;
}

static enum mended rename_here(struct mend *m)
{
	char name[NAME_MAX + 1];
	struct rename_in in = { .from = { .parent = m->dir, .name = m->name },
				.to = { .parent = m->dir, .name = name },
				.flags = RENAME_NOREPLACE };
	struct rename_out out = { 0 };
	int err = name_here(m, name);

	if (err)
		return tell(m, MEND_LEFT, "no names belong to this subvolume: move it by hand");
	err = fsck_ask_pointers(m->f, &m->s->own);
	if (!err)
		err = rename_on(m->f->rq, child_of(m), &in, &out);
	return err ? failed(m, err, "it can't be renamed") : tell(m, MEND_DONE, "it is called /%s now", name);
}

/* If the same object has the name where that belongs, or stands elsewhere, too, nobody knows which one is right. */
static enum mended mend_stray(struct mend *m)
{
	struct wanted *w = wanted_find(m->f, &m->s->own);
	struct lookup_out owner = { 0 };
	bool same = w && w->path[1];
	int err = fsck_same_layout(m->f);

	if (err)
		return tell(m, MEND_LEFT, "the layout of the root changes: run it again");
	err = open_name(m, m->s->path, m->s->child);
	if (!err && !gfid_equal(&m->found.inode->gfid, &m->s->own))
		err = -ENOENT;
	if (err)
		return failed(m, err, "it can't be looked at");
	err = fsck_lookup(m->f, root_owner(m->f->d, m->name), m->dir, m->name, &owner);
	same |= !err && gfid_equal(&owner.inode->gfid, &m->s->own);
	fop_out_clear(FOP_lookup, &owner);
	if (same)
		return tell(m, MEND_LEFT,
			    "a copy of it is where its name belongs: compare both, and remove this one on the brick");
	if (err && err != -ENOENT)
		return failed(m, err, "the subvolume to which it belongs can't be asked");
	return rename_here(m);
}

/* ---- all ---- */

static enum mended mend_one(struct mend *m)
{
	switch (m->s->trouble) {
	case TROUBLE_UNENDED:
		return mend_unended(m);
	case TROUBLE_WAITS:
		return mend_waits(m);
	case TROUBLE_MARK:
		return mend_mark(m);
	case TROUBLE_XATTR:
		return mend_xattr(m);
	case TROUBLE_POINTER:
		return mend_pointer(m);
	case TROUBLE_SHARD:
		return mend_shard(m);
	case TROUBLE_AWAY:
		return mend_away(m);
	case TROUBLE_STRAY:
		return mend_stray(m);
	case TROUBLE_TWICE:
		return tell(m, MEND_LEFT, "compare both, and remove one on its brick");
	default:
		return tell(m, MEND_LEFT, "remove it on the brick, if nobody needs it");
	}
}

enum mended fsck_mend(struct fsck *f, const struct suspect *s, char **told)
{
	struct mend m = { .f = f, .s = s, .told = told };
	enum mended how = mend_one(&m);

	close_name(&m);
	return how;
}
