/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of directories (doc/usage.md): each is of one brick, with all that it holds. So that brick answers; here its path is made that of the mount, the lists of all bricks
 * become one, and df(1) shows the limit. */
#include "dht.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "location.h"
#include "quota.h"

/* ---- paths: a directory that is away is called as its pointer is ---- */

struct lift {
	struct request *rq;
	struct dht *d;
	int child;	    /* who tells */
	char *path, *above; /* PATH_MAX each */
	struct gfid top;
	char name[NAME_MAX + 1];
};

static void take_pointer(struct request *rq, void *arg, struct inode *dir, const struct dirents *list)
{
	struct lift *l = arg;

	(void)rq, (void)dir;
	for (uint32_t i = 0; i < list->count && !*l->name; i++) {
		const struct dirent_plus *e = &list->entry[i];

		if (e->attr.flags & ATTR_POINTER && gfid_equal(&e->attr.gfid, &l->top))
			snprintf(l->name, sizeof(l->name), "%s", e->name);
	}
}

/* In the directory in which it says that it is. */
static int find_pointer(struct lift *l, const struct parent *p)
{
	struct side there = { .child = (int)p->subvolume, .parent = p->gfid };
	cleanup_inode struct inode *dir = NULL;
	int err = side_find(l->rq, l->d, &there, &dir);

	*l->name = '\0';
	if (!err)
		err = place_say(l->rq, l->d, &(struct place){ .flags = PLACE_HERE });
	if (!err)
		err = directory_list(l->rq, l->d, there.child, dir, READDIR_PLUS, take_pointer, l);
	place_say(l->rq, l->d, &(struct place){ 0 });
	return err ? err : *l->name ? 0 : -EAGAIN;
}

/* The rest of the path, if it is in a directory that is away: l->top. */
static const char *below_away(struct lift *l)
{
	static const char away[] = "/" DHT_HIDDEN "/away/XX/d.";
	char text[GFID_TEXT];

	if (strncmp(l->path, away, strlen(away) - 5) != 0 || strlen(l->path) < strlen(away) + GFID_TEXT - 1)
		return NULL;
	snprintf(text, sizeof(text), "%s", l->path + strlen(away));
	return gfid_parse(text, &l->top) ? NULL : l->path + strlen(away) + GFID_TEXT - 1;
}

/* From a tree to that in which its pointer is. 1: it was the root's. */
static int lift_once(struct lift *l)
{
	const char *rest = below_away(l);
	struct parent p;
	char *path;
	int err;

	if (!rest)
		return 1;
	err = parent_look(l->rq, l->d, l->child, &l->top, &p);
	if (!err)
		err = p.turn && has_subvolume(l->d, p.subvolume) ? find_pointer(l, &p) : -EAGAIN;
	*l->above = '\0';
	if (!err && !gfid_equal(&p.gfid, &gfid_root))
		err = path_at(l->rq, l->d, (int)p.subvolume, &p.gfid, l->above);
	if (!err && strlen(l->above) + 1 + strlen(l->name) + strlen(rest) >= PATH_MAX)
		err = -ENAMETOOLONG;
	if (err)
		return err;
	path = l->above;
	sprintf(path + strlen(path), "/%s%s", l->name, rest);
	l->above = l->path;
	l->path = path;
	l->child = (int)p.subvolume;
	return 0;
}

/* One that can't be found just now is not told. */
static void tell_path(struct request *rq, struct dht *d, int child, const char *path, struct location *to)
{
	enum { TREES_MAX = 256 };
	struct who user = become_root(rq);
	struct lift l = { .rq = rq, .d = d, .child = child, .path = malloc(PATH_MAX), .above = malloc(PATH_MAX) };
	int err = l.path && l.above && strlen(path) < PATH_MAX ? 0 : -ENOMEM;

	if (!err)
		strcpy(l.path, path);
	for (int i = 0; i < TREES_MAX && !err; i++)
		err = lift_once(&l);
	if (err == 1)
		location_line(to, "path", "%s", l.path);
	free(l.path);
	free(l.above);
	become(rq, user);
}

/* ---- telling ---- */

/* As the mount has it, what the brick has told. */
static int retell(struct request *rq, struct dht *d, int child, struct blob *value)
{
	char *at = value->bytes, *end = at + value->size, *line;
	struct location to = { 0 };
	const char *key;

	while ((line = location_next(&at, end, &key))) {
		if (!strcmp(key, "number"))
			location_line(&to, key, "%llu", strtoull(line, NULL, 10) + (unsigned long long)child * QUOTA_NUMBERS);
		else if (!strcmp(key, "id"))
			location_line(&to, key, "%d.%s", child, line);
		else if (!strcmp(key, "path"))
			tell_path(rq, d, child, line, &to);
		else
			location_line(&to, key, "%s", line);
	}
	free(value->bytes);
	*value = (struct blob){ 0 };
	return location_end(&to, value);
}

/* The next one at that brick, from that number of it on. */
static int ask_next(struct request *rq, struct dht *d, int child, unsigned long number, struct getxattr_out *out)
{
	cleanup_inode struct inode *root = root_of(d);
	char name[sizeof(QUOTA_XATTR) + 24];
	struct getxattr_in in = { .inode = root, .name = name };
	int err = root ? place_say(rq, d, &(struct place){ .flags = PLACE_HERE }) : -ENOMEM;

	snprintf(name, sizeof(name), QUOTA_XATTR ".%lu", number);
	if (!err)
		err = getxattr_on(rq, d->x->child[child], &in, out);
	place_say(rq, d, &(struct place){ 0 });
	return err ? err : retell(rq, d, child, &out->value);
}

/* Of a list that can't be whole nothing is told. */
static int tell_next(struct request *rq, struct dht *d, const char *from, struct getxattr_out *out)
{
	char *end;
	unsigned long number = strtoul(from, &end, 10);
	int err = -ENODATA;

	if (end == from || *end)
		return -EOPNOTSUPP;
	for (unsigned long i = number / QUOTA_NUMBERS; i < (unsigned long)d->x->children && err == -ENODATA; i++)
		if (has_subvolume(d, i))
			err = ask_next(rq, d, (int)i, i == number / QUOTA_NUMBERS ? number % QUOTA_NUMBERS : 0, out);
	return err;
}

int dht_quota(struct request *rq, struct xlator *x, const struct getxattr_in *in, struct getxattr_out *out)
{
	const char *more = in->name + strlen(QUOTA_XATTR);
	struct dht *d = x->private;
	int child, err;

	if (*more)
		return tell_next(rq, d, more + 1, out);
	err = dht_any(rq, x, FOP_getxattr, in, out);
	if (err || is_root(in->inode))
		return err;
	if (is_spread(d, in->inode)) /* it was given to that one when another left */
		child = (int)spread_in(d, in->inode)->layout.home;
	else
		err = subvolume_of(rq, d, in->inode, &child);
	if (!err)
		err = retell(rq, d, child, &out->value);
	if (err)
		fop_out_clear(FOP_getxattr, out);
	return err;
}

/* ---- df ---- */

struct limited {
	uint64_t bytes, inodes, bytes_limit, inodes_limit;
};

static void take_line(struct limited *l, const char *key, const char *value)
{
	const struct {
		const char *key;
		uint64_t *number;
	} numbers[] = { { "bytes", &l->bytes },
			{ "inodes", &l->inodes },
			{ "bytes-limit", &l->bytes_limit },
			{ "inodes-limit", &l->inodes_limit } };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!strcmp(key, numbers[i].key))
			*numbers[i].number = strtoull(value, NULL, 10);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t left(uint64_t limit, uint64_t used)
{
	return limit > used ? limit - used : 0;
}

/* The smaller one, as features/usage shows it on a volume of one brick. */
static void show(const struct limited *l, struct statfs *s)
{
	if (l->bytes_limit) {
		uint64_t blocks = l->bytes_limit / s->frsize, free = left(l->bytes_limit, l->bytes) / s->frsize;

		s->bfree = blocks < s->blocks ? free : smaller(s->bfree, free);
		s->bavail = smaller(s->bavail, free);
		s->blocks = smaller(s->blocks, blocks);
	}
	if (l->inodes_limit) {
		uint64_t free = left(l->inodes_limit, l->inodes);

		s->ffree = s->files ? smaller(s->ffree, free) : free;
		s->files = s->files ? smaller(s->files, l->inodes_limit) : l->inodes_limit;
	}
}

void quota_show(struct request *rq, struct xlator *x, struct inode *inode, struct statfs *s)
{
	struct getxattr_in in = { .inode = inode, .name = QUOTA_XATTR };
	struct getxattr_out out = { 0 };
	struct limited l = { 0 };
	const char *key;
	char *at, *value;

	if (!s->frsize || dht_any(rq, x, FOP_getxattr, &in, &out))
		return;
	at = out.value.bytes;
	while ((value = location_next(&at, (char *)out.value.bytes + out.value.size, &key)))
		take_line(&l, key, value);
	show(&l, s);
	fop_out_clear(FOP_getxattr, &out);
}
