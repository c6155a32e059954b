/* SPDX-License-Identifier: Apache-2.0 */
/* Where an object is: at which subvolume, and by the hash of which name of the root. The names come from the paths that the bricks tell. */
#include "dht.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "location.h"

static void add_subvolume(const struct dht *d, int child, struct location *to)
{
	location_line(to, "subvolume", "%d %s", child, d->x->child[child]->name);
	location_line(to, "of", "%d", __builtin_popcountll(all_of(d)));
}

static void add_weights(struct dht *d, struct location *to)
{
	const struct layout *l = &spread_of(d)->layout;
	char text[SUBVOLUMES_MAX * 6 + 1] = "";
	size_t n = 0;

	for (int i = 0; i < d->x->children; i++) {
		const struct layout_member *m = layout_find(l, (uint32_t)i);

		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%u", i ? " " : "", m ? m->weight : 0);
	}
	location_line(to, "weights", "%s", text);
}

struct told_names { /* those of the root that were told; there is room for no more */
	uint64_t key[64];
	unsigned count;
};

static bool is_told(const struct told_names *t, uint64_t key)
{
	for (unsigned i = 0; i < t->count; i++)
		if (t->key[i] == key)
			return true;
	return t->count == sizeof(t->key) / sizeof(*t->key);
}

static void add_name(struct dht *d, const char *name, struct told_names *t, struct location *to)
{
	uint64_t key = layout_key(&gfid_root, name);

	if (is_told(t, key))
		return;
	t->key[t->count++] = key;
	location_line(to, "name", "%016llx %d %s", (unsigned long long)key, root_owner(d, name), name);
}

/* Each name of the root once, though members of a set tell the same. */
static void add_names(struct dht *d, struct blob *told, struct location *to)
{
	char *at = told->bytes, *value;
	struct told_names names = { .count = 0 };
	const char *key;
	bool away = false;

	while ((value = location_next(&at, (char *)told->bytes + told->size, &key))) {
		if (strcmp(key, "path") || *value != '/')
			continue;
		value[1 + strcspn(value + 1, "/")] = '\0';
		if (!strcmp(value + 1, DHT_HIDDEN))
			away = true;
		else if (!name_check(value + 1))
			add_name(d, value + 1, &names, to);
	}
	if (away)
		location_line(to, "away", "yes");
}

static int locate_one(struct request *rq, struct dht *d, const struct getxattr_in *in, int child, struct location *to)
{
	struct getxattr_out told = { 0 };
	int err = getxattr_on(rq, d->x->child[child], in, &told);

	if (err)
		return err;
	add_subvolume(d, child, to);
	add_weights(d, to);
	location_add(to, &told.value);
	add_names(d, &told.value, to);
	fop_out_clear(FOP_getxattr, &told);
	return 0;
}

/* Also of those that are down: protocol/client answers for them. */
static int locate_root(struct request *rq, struct dht *d, const struct getxattr_in *in, struct location *to)
{
	struct fanout *f = fanout_start(rq, d->x, FOP_getxattr, in, all_of(d));

	if (!f)
		return -ENOMEM;
	fanout_wait(f, d->x->children, rq->deadline_ns);
	for (int i = 0; i < d->x->children; i++) {
		const struct getxattr_out *told;
		int err;

		if (!has_subvolume(d, (uint64_t)i))
			continue;
		add_subvolume(d, i, to);
		told = fanout_out(f, i, &err);
		if (told)
			location_add(to, &told->value);
		else
			location_line(to, "error", "%d", -fanout_error(rq, err));
	}
	fanout_drop(f);
	return 0;
}

int dht_location(struct request *rq, struct dht *d, const struct getxattr_in *in, struct getxattr_out *out)
{
	struct location to = { 0 };
	int child, err;

	if (is_root(in->inode)) {
		err = locate_root(rq, d, in, &to);
	} else {
		err = layout_check(rq, d, true);
		if (!err)
			err = subvolume_of(rq, d, in->inode, &child);
		if (!err)
			err = locate_one(rq, d, in, child, &to);
	}
	if (!err)
		return location_end(&to, &out->value);
	free(to.text);
	return err;
}

/* ---- of directories of names that are renamed over two subvolumes ---- */

static int first_path(struct blob *told, char *path, size_t room)
{
	char *at = told->bytes, *value;
	const char *key;
	bool up_to_date = true; /* members of a set that are not IN may have it elsewhere */

	while ((value = location_next(&at, (char *)told->bytes + told->size, &key))) {
		if (!strcmp(key, "member"))
			up_to_date = strstr(value, " in");
		if (strcmp(key, "path") || *value != '/' || !up_to_date)
			continue;
		if (strlen(value) >= room)
			return -EXDEV;
		memcpy(path, value, strlen(value) + 1);
		return 0;
	}
	return -EAGAIN; /* it changed while it was looked at */
}

int side_find_path(struct request *rq, struct dht *d, struct side *s, struct inode *dir)
{
	struct getxattr_in in = { .inode = dir, .name = LOCATION_XATTR };
	struct getxattr_out out = { 0 };
	struct who user;
	int err;

	if (is_root(dir))
		return 0;
	user = become_root(rq);
	err = getxattr_on(rq, d->x->child[s->child], &in, &out);
	become(rq, user);
	if (!err)
		err = first_path(&out.value, s->path, sizeof(s->path));
	fop_out_clear(FOP_getxattr, &out);
	if (err == -EXDEV || err == -EAGAIN)
		return 0;
	return err == -ENODATA || err == -EOPNOTSUPP ? -EXDEV : err;
}

int path_at(struct request *rq, struct dht *d, int child, const struct gfid *gfid, char path[PATH_MAX])
{
	cleanup_inode struct inode *root = root_of(d);
	char text[GFID_TEXT], name[sizeof(DHT_PATH_XATTR) + GFID_TEXT];
	struct getxattr_in in = { .inode = root, .name = name };
	struct getxattr_out out = { 0 };
	int err = root ? 0 : -ENOMEM;

	snprintf(name, sizeof(name), DHT_PATH_XATTR "%s", gfid_text(gfid, text));
	if (!err)
		err = getxattr_on(rq, d->x->child[child], &in, &out);
	if (!err)
		err = first_path(&out.value, path, PATH_MAX);
	fop_out_clear(FOP_getxattr, &out);
	return err == -ENODATA || err == -EOPNOTSUPP ? -EXDEV : err;
}

int step_down(struct request *rq, struct xlator *child, struct inode **dir, const char *name)
{
	struct lookup_in in = { .loc = { .parent = *dir, .name = name } };
	struct lookup_out out = { 0 };
	int err = lookup_on(rq, child, &in, &out);

	if (!err && (!S_ISDIR(out.attr.mode) || out.attr.flags & ATTR_POINTER))
		err = -ENOENT;
	if (!err) {
		inode_unref(*dir);
		*dir = inode_ref(out.inode);
	}
	fop_out_clear(FOP_lookup, &out);
	return err;
}

/* What stands there, whatever the layout says by now: the path is of when the record was written, and a name of the root may have moved. */
static int walk_down(struct request *rq, struct dht *d, const struct side *s, char *path, struct inode **dir)
{
	char *rest = path;
	const char *name;
	int err;

	*dir = root_of(d);
	if (!*dir)
		return -ENOMEM;
	err = place_say(rq, d, &(struct place){ .flags = PLACE_HERE });
	while (!err && (name = strsep(&rest, "/"))) {
		if (*name)
			err = name_check(name) ? -ESTALE : step_down(rq, d->x->child[s->child], dir, name);
	}
	place_say(rq, d, &(struct place){ 0 });
	return !err && !gfid_equal(&(*dir)->gfid, &s->parent) ? -ESTALE : err;
}

/* By the path that was written down, or, if the directory or one above it was moved since, by that which it has now. */
static int walk_to(struct request *rq, struct dht *d, const struct side *s, struct inode **dir)
{
	char *path = malloc(PATH_MAX);
	int err = path ? 0 : -ENOMEM;

	if (err)
		return err;
	memcpy(path, s->path, sizeof(s->path));
	err = walk_down(rq, d, s, path, dir);
	if (err == -ENOENT || err == -ENOTDIR || err == -ESTALE) {
		inode_unref(*dir);
		*dir = NULL;
		err = path_at(rq, d, s->child, &s->parent, path);
		if (!err)
			err = walk_down(rq, d, s, path, dir);
	}
	free(path);
	return err == -ENOENT || err == -ENOTDIR || err == -EXDEV ? -ESTALE : err;
}

int side_find(struct request *rq, struct dht *d, const struct side *s, struct inode **dir)
{
	struct lookup_in in = { 0 };
	struct lookup_out out = { 0 };
	int err = 0;

	*dir = in.loc.inode = side_parent(d, &s->parent);
	if (!*dir)
		return -ENOMEM;
	if (!is_root(*dir))
		err = lookup_on(rq, d->x->child[s->child], &in, &out);
	fop_out_clear(FOP_lookup, &out);
	if (err != -ESTALE && err != -ENOENT)
		return err;
	inode_unref(*dir); /* nothing has told this client of it yet */
	*dir = NULL;
	return walk_to(rq, d, s, dir);
}
