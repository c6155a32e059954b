/* SPDX-License-Identifier: Apache-2.0 */
/* What may be wrong with one object, as it is met. Clients go on meanwhile, so all of it is looked at again. */
#include "fsck.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- suspects ---- */

static void suspect_free(struct suspect *s)
{
	free(s->path);
	free(s->more);
	free(s->next);
}

void suspects_clear(struct suspects *list)
{
	for (size_t i = 0; i < list->count; i++)
		suspect_free(&list->at[i]);
	free(list->at);
	*list = (struct suspects){ 0 };
}

/* Without the directory: that may be renamed between two looks. */
static uint64_t key_of(const struct suspect *s)
{
	const char *name = strrchr(s->path, '/') ? strrchr(s->path, '/') + 1 : s->path;
	uint64_t number[2] = { (uint64_t)s->trouble << 32 | (uint32_t)s->child, s->mark.hash };
	uint64_t key = XXH3_64bits(number, sizeof(number));

	if (s->trouble == TROUBLE_TWICE) /* the first look does not know where the other is */
		return XXH3_64bits_withSeed(&s->own, sizeof(s->own), s->trouble);
	key = XXH3_64bits_withSeed(&s->own, sizeof(s->own), key);
	key = XXH3_64bits_withSeed(&s->aim.gfid, sizeof(s->aim.gfid), key);
	return s->trouble == TROUBLE_MARK ? key : XXH3_64bits_withSeed(name, strlen(name), key);
}

int suspect_add(struct fsck *f, struct suspect s, char *path)
{
	struct suspects *list = &f->now;

	s.path = path;
	if (path && list->count == list->room) {
		size_t room = list->room ? 2 * list->room : 16;
		struct suspect *more = realloc(list->at, room * sizeof(*more));

		list->at = more ? more : list->at;
		list->room = more ? room : list->room;
	}
	if (!path || list->count == list->room) {
		suspect_free(&s);
		return -ENOMEM;
	}
	s.key = key_of(&s);
	list->at[list->count++] = s;
	return 0;
}

/* ---- directories ---- */

int intent_is_gone(struct fsck *f, const struct gfid *id, bool *gone)
{
	struct intent it;
	int err = -ENOENT;

	for (int child = 0; child < f->d->x->children && err == -ENOENT; child++) {
		if (!has_subvolume(f->d, (uint64_t)child))
			continue;
		err = fsck_ask(f);
		if (!err)
			err = intent_find(f->rq, f->d, child, id, &it);
	}
	*gone = err == -ENOENT;
	return err == -ENOENT ? 0 : err;
}

static int judge_mark(struct fsck *f, int child, struct inode *dir, const char *path, uint64_t hash)
{
	struct suspect s = { .trouble = TROUBLE_MARK, .child = child };
	bool gone = false;
	int err = fsck_ask(f);

	if (!err)
		err = mark_of(f->rq, f->d, child, dir, hash, &s.mark);
	if (!err)
		err = intent_is_gone(f, &s.mark.intent, &gone);
	s.own = s.mark.intent;
	if (err || !gone)
		return err == -ENODATA || err == -ESTALE || err == -ENOENT ? 0 : err;
	return suspect_add(f, s, strdup(path));
}

int judge_directory(struct fsck *f, int child, struct inode *dir, const char *path)
{
	struct listxattr_in in = { .inode = dir };
	struct listxattr_out out = { 0 };
	const char *at = NULL;
	uint64_t hash;
	int err = fsck_ask(f);

	if (!err)
		err = listxattr_on(f->rq, f->d->x->child[child], &in, &out);
	while (!err && (at = blob_next_name(&out.names, at)))
		if (is_mark(at, &hash))
			err = judge_mark(f, child, dir, path, hash);
	fop_out_clear(FOP_listxattr, &out);
	return err == -EOPNOTSUPP ? 0 : err;
}

/* ---- pointers ---- */

/* *next: where what is left of a file that was moved leads; else -1. */
static int look_under_anchor(struct fsck *f, const struct aim *aim, bool directory, int *next)
{
	struct away a = { .gfid = aim->gfid, .pgfid = aim->pgfid, .directory = directory };
	cleanup_inode struct inode *dir = NULL;
	struct lookup_out out = { 0 };
	char path[AWAY_PATH];
	const char *name;
	int err = fsck_find(f, aim->child, away_path(&a, path), &dir, &name);

	*next = -1;
	if (!err)
		err = fsck_lookup(f, aim->child, dir, name, &out);
	if (!err)
		err = gfid_equal(&out.inode->gfid, &aim->gfid) && !(out.attr.flags & ATTR_POINTER);
	if (out.attr.flags & ATTR_POINTER && !directory && has_subvolume(f->d, out.attr.rdev))
		*next = (int)out.attr.rdev;
	fop_out_clear(FOP_lookup, &out);
	return err == -ENOENT || err == -ESTALE ? 0 : err;
}

/* A file that was made away since `away` was listed has an anchor that is not known. */
int look_where_it_leads(struct fsck *f, const struct aim *aim, bool directory)
{
	struct aim there = *aim;
	int next, err = look_under_anchor(f, aim, directory, &next);

	if (err || next < 0 || next == aim->child)
		return err;
	there.child = next;
	return look_under_anchor(f, &there, directory, &next);
}

static bool leads_to(const struct away *a, const struct suspect *s)
{
	return a && a->child == s->aim.child && gfid_equal(&a->gfid, &s->aim.gfid) && a->directory == S_ISDIR(s->type);
}

int judge_pointer(struct fsck *f, const struct spot *spot)
{
	const struct dirent_plus *e = spot->entry;
	struct suspect s = { .trouble = TROUBLE_POINTER,
			     .child = spot->child,
			     .type = e->attr.mode & S_IFMT,
			     .own = e->inode->gfid,
			     .aim = { e->attr.gfid, e->inode->gfid, (int)e->attr.rdev } };
	struct away *a = away_find(f, S_ISDIR(s.type) ? &s.aim.gfid : &s.own, s.aim.child);
	int err = 0;

	f->counts.pointers++;
	away_meet(f, a); /* also if it is elsewhere: then it is the pointer that has to be put right */
	if (leads_to(a, &s) && (!a->leads_on || away_next(f, a)))
		return 0;
	if (has_subvolume(f->d, e->attr.rdev))
		err = look_where_it_leads(f, &s.aim, S_ISDIR(s.type));
	f->incomplete |= err == -EMARKED; /* the object is being moved with its names */
	if (err == -EMARKED)
		return 0;
	if (err < 0)
		return fsck_problem(f, err, "%s can't be asked for what /%s leads to: %s", f->d->x->child[s.aim.child]->name,
				    spot->path, error_text(err));
	return err ? 0 : suspect_add(f, s, spot_path(spot));
}

/* ---- what makes no sense ---- */

/* The next xattr of ours that makes no sense, at *at or behind; NULL: none. */
static char *broken_xattr(struct fsck *f, int child, struct inode *inode, const struct blob *names)
{
	const char *at = NULL;
	char *broken = NULL;

	while (!broken && (at = blob_next_name(names, at))) {
		struct getxattr_in in = { .inode = inode, .name = at };
		struct getxattr_out out = { 0 };
		struct layout layout;
		struct pointer p;
		uint32_t leaver;
		struct mark m;

		if (strncmp(at, DHT_XATTR, sizeof(DHT_XATTR) - 1) != 0 || getxattr_on(f->rq, f->d->x->child[child], &in, &out))
			continue;
		if (!strcmp(at, DHT_POINTER_XATTR)  ? pointer_decode(out.value.bytes, out.value.size, &p)
		    : !strcmp(at, DHT_LAYOUT_XATTR) ? layout_decode(out.value.bytes, out.value.size, &layout)
		    : !strcmp(at, DHT_LEAVES_XATTR) ? leaves_decode(out.value.bytes, out.value.size, &leaver)
						    : is_mark(at, &m.hash) && mark_decode(out.value.bytes, out.value.size, &m))
			broken = strdup(at);
		fop_out_clear(FOP_getxattr, &out);
	}
	return broken;
}

/* Takes the path. 1: one of them makes no sense. */
static int judge_xattrs(struct fsck *f, int child, struct inode *inode, char *path)
{
	struct suspect s = { .trouble = TROUBLE_XATTR, .child = child, .type = inode->type, .own = inode->gfid };
	struct listxattr_in in = { .inode = inode };
	struct listxattr_out out = { 0 };
	struct away *a = away_find(f, &s.own, child);
	int err = listxattr_on(f->rq, f->d->x->child[child], &in, &out);

	if (!err)
		s.more = broken_xattr(f, child, inode, &out.names);
	fop_out_clear(FOP_listxattr, &out);
	if (!s.more) {
		free(path);
		return err == -EOPNOTSUPP ? 0 : err;
	}
	f->incomplete |= S_ISDIR(s.type);
	away_meet(f, a); /* it tells where the pointer is to lead */
	err = suspect_add(f, s, path);
	return err ? err : 1;
}

int judge_root(struct fsck *f, int child)
{
	cleanup_inode struct inode *root = root_of(f->d);
	char *path = strdup("");
	int err = root && path ? 0 : -ENOMEM;

	fsck_ask_raw(f);
	if (!err)
		err = judge_xattrs(f, child, root, path);
	else
		free(path);
	if (err < 0)
		fsck_problem(f, err, "%s can't be asked for the root's xattrs: %s", f->d->x->child[child]->name,
			     error_text(err));
	return err < 0 ? err : 0;
}

int judge_broken(struct fsck *f, const struct spot *spot)
{
	struct lookup_out out = { 0 };
	int err;

	fsck_ask_raw(f);
	err = fsck_lookup(f, spot->child, spot->dir, spot->entry->name, &out);
	if (!err) {
		err = judge_xattrs(f, spot->child, out.inode, spot_path(spot));
		err = err ? err : -EIO; /* it is not that */
	}
	fop_out_clear(FOP_lookup, &out);
	if (err < 0 && err != -ENOENT && err != -ESTALE)
		return fsck_problem(f, err, "/%s%s%s can't be looked up at %s: %s", spot->path, *spot->path ? "/" : "",
				    spot->entry->name, f->d->x->child[spot->child]->name, error_text(err));
	return 1;
}

/* ---- what is under way ---- */

static enum trouble trouble_of(struct fsck *f, const char *name, int *err)
{
	struct intent it;
	struct gfid id;
	bool gone;

	*err = 0;
	if (!intent_parse(name, &it) || !work_parse(name, &id))
		return TROUBLE_UNENDED;
	if (!growing_parse(name, &id)) {
		*err = shards_grow(f, &id);
		return TROUBLES;
	}
	if (waits_parse(name, &id))
		return TROUBLE_UNKNOWN;
	*err = intent_is_gone(f, &id, &gone);
	return gone ? TROUBLE_WAITS : TROUBLES;
}

/* What is left of a file that was moved, for those who have it open, and the copy of one that is being moved, whose name is marked. The same object stands elsewhere, too. */
static bool is_of_moved_file(struct fsck *f, const struct spot *spot)
{
	const char *name = spot->entry->name;
	struct intent it;
	struct gfid gfid;
	struct mark m;

	if (!kept_parse(name, &gfid))
		return intent_parse(name, &it);
	return name[0] == 'c' && name[1] == '.' && !gfid_parse(name + 2, &gfid) && !fsck_ask(f) &&
	       !mark_of(f->rq, f->d, spot->child, spot->dir, mark_hash(name), &m);
}

int judge_work(struct fsck *f, const struct spot *spot)
{
	const struct dirent_plus *e = spot->entry;
	struct suspect s = { .child = spot->child, .type = e->attr.mode & S_IFMT, .own = e->inode->gfid };
	struct away *a = NULL;
	int err;

	if (is_of_moved_file(f, spot))
		return PASS;
	if (e->attr.flags & ATTR_POINTER) {
		s.aim = (struct aim){ e->attr.gfid, e->inode->gfid, (int)e->attr.rdev };
		a = away_find(f, S_ISDIR(s.type) ? &s.aim.gfid : &s.own, s.aim.child);
	}
	away_meet(f, a);
	if (!a && wanted_meet(f, spot))
		return -ENOMEM;
	s.trouble = trouble_of(f, e->name, &err);
	if (err)
		return fsck_problem(f, err, "the records of intents can't be read: %s", error_text(err));
	return s.trouble == TROUBLES ? 0 : suspect_add(f, s, spot_path(spot));
}
