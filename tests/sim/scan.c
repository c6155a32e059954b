/* SPDX-License-Identifier: Apache-2.0 */
/* What a real brick's directory has, read past storage/posix: for compare.c, and is it sound in itself? */
#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "leaf.h"

enum { IDENTITY_MAX = 1024, AT_GFID = 2, AT_BIRTH = 18, AT_LINKS = 26, LINK_HEAD = 18, OBJECTS = 4096, VALUE_MAX = 65536 };
enum { FULL = 1 }; /* the flag of an identity that has no room for all links */

struct name {
	struct gfid parent;
	char text[256];
	bool noted;
	struct name *next;
};
struct found {
	struct gfid gfid;
	uint64_t ino;
	struct stat st;
	char path[512];
	uint8_t identity[IDENTITY_MAX];
	size_t identity_size;
	struct name *names; /* as they came */
	struct inode *inode;
};
struct scan {
	unsigned member, count;
	size_t root; /* length of its path */
	struct found object[OBJECTS];
};

/* ---- reading ---- */

static struct found *found_of(struct scan *s, const struct gfid *g)
{
	for (unsigned i = 0; i < s->count; i++)
		if (gfid_equal(&s->object[i].gfid, g))
			return &s->object[i];
	return NULL;
}

static void add_name(struct found *o, const struct gfid *parent, const char *text)
{
	struct name **at = &o->names;

	while (*at)
		at = &(*at)->next;
	*at = calloc(1, sizeof(**at));
	(*at)->parent = *parent;
	snprintf((*at)->text, sizeof((*at)->text), "%s", text);
}

static struct found *add_found(struct scan *s, const struct gfid *parent, const char *name, const char *path)
{
	struct found *o = &s->object[s->count], *known;
	ssize_t size = lgetxattr(path, "trusted.sfs", o->identity, IDENTITY_MAX);

	if (s->count == OBJECTS - 1 || lstat(path, &o->st) || size < AT_LINKS) {
		sim_fail("brick %u: %s has no identity", s->member, path + s->root);
		return NULL;
	}
	o->identity_size = (size_t)size;
	o->ino = o->st.st_ino;
	memcpy(o->gfid.bytes, o->identity + AT_GFID, 16);
	known = found_of(s, &o->gfid);
	if (known && known->ino != o->ino) {
		sim_fail("brick %u: %s and %s are two objects of one gfid", s->member, known->path + s->root, path + s->root);
		return NULL;
	}
	if (!known) {
		snprintf(o->path, sizeof(o->path), "%s", path);
		s->count++;
	}
	known = known ? known : o;
	if (name)
		add_name(known, parent, name);
	return known == o ? o : NULL;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_shown(const struct dirent *e)
{
	return strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
}

static void read_below(struct scan *s, const struct gfid dir, const char *path)
{
	struct dirent **list;
	int count = scandir(path, &list, is_shown, by_name);

	for (int i = 0; i < count; i++) {
		char below[512];
		struct found *o = NULL;

		if (!(gfid_equal(&dir, &gfid_root) && !strcmp(list[i]->d_name, ".stratus")) &&
		    snprintf(below, sizeof(below), "%s/%s", path, list[i]->d_name) < (int)sizeof(below))
			o = add_found(s, &dir, list[i]->d_name, below);
		if (o && S_ISDIR(o->st.st_mode))
			read_below(s, o->gfid, below);
		free(list[i]);
	}
	if (count >= 0)
		free(list);
}

static void read_all(struct scan *s, unsigned member)
{
	char path[LEAF_PATH];

	leaf_path(member, path);
	*s = (struct scan){ .member = member, .root = strlen(path) };
	if (add_found(s, NULL, NULL, path))
		read_below(s, gfid_root, path);
}

static void forget(struct scan *s)
{
	for (unsigned i = 0; i < s->count; i++)
		for (struct name *n = s->object[i].names, *next; n; n = next) {
			next = n->next;
			free(n);
		}
	s->count = 0;
}

/* ---- into the model's disk ---- */

static struct time time_of(const struct timespec *t)
{
	return (struct time){ t->tv_sec, (uint32_t)t->tv_nsec };
}

static struct attr attr_of(const struct found *o)
{
	uint64_t birth;

	memcpy(&birth, o->identity + AT_BIRTH, 8);
	birth = gfid_equal(&o->gfid, &gfid_root) ? 0 : be64toh(birth); /* each root was born when its brick was made */
	return (struct attr){ .gfid = o->gfid,
			      .mode = o->st.st_mode,
			      .nlink = (uint32_t)o->st.st_nlink,
			      .uid = o->st.st_uid,
			      .gid = o->st.st_gid,
			      .rdev = o->st.st_rdev,
			      .mtime = time_of(&o->st.st_mtim),
			      .btime = time_of_ns(birth) };
}

static void put_data(struct disk *d, const struct found *o)
{
	char *bytes = malloc((size_t)o->st.st_size + 1);
	int fd = open(o->path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : pread(fd, bytes, (size_t)o->st.st_size, 0);

	if (n != o->st.st_size)
		sim_fail("can't read %s", o->path);
	else if (n)
		disk_change(d,
			    &(struct disk_change){ .kind = CHANGE_WRITE, .gfid = o->gfid, .bytes = bytes, .size = (size_t)n });
	if (fd >= 0)
		close(fd);
	free(bytes);
}

static void put_xattrs(struct disk *d, const struct found *o)
{
	static char names[VALUE_MAX], value[VALUE_MAX];
	ssize_t size = llistxattr(o->path, names, sizeof(names));

	for (const char *name = names; size > 0 && name < names + size; name += strlen(name) + 1) {
		ssize_t n = lgetxattr(o->path, name, value, sizeof(value));

		if (n >= 0 && strncmp(name, "trusted.s", 9) && strncmp(name, "security.", 9))
			disk_change(d, &(struct disk_change){ .kind = CHANGE_XATTR,
							      .gfid = o->gfid,
							      .name = name,
							      .bytes = value,
							      .size = (size_t)n });
	}
}

static void put_object(struct disk *d, const struct found *o)
{
	struct disk_change c = { .kind = CHANGE_NEW, .gfid = o->gfid, .attr = attr_of(o), .offset = disk_serial(d) };
	char target[PATH_MAX];
	ssize_t n = S_ISLNK(o->st.st_mode) ? readlink(o->path, target, sizeof(target)) : 0;

	if (S_ISLNK(o->st.st_mode) && n >= 0) {
		c.bytes = target;
		c.size = c.attr.size = (size_t)n;
	}
	disk_change(d, &c);
	if (S_ISREG(o->st.st_mode))
		put_data(d, o);
	put_xattrs(d, o);
}

static void put_names(struct disk *d, const struct found *o)
{
	for (const struct name *n = o->names; n; n = n->next)
		disk_change(d, &(struct disk_change){ .kind = CHANGE_ENTER,
						      .gfid = n->parent,
						      .other = o->gfid,
						      .name = n->text,
						      .offset = disk_cookie(d) });
}

static struct scan scan;

void leaf_scan(unsigned member)
{
	struct disk *d = disk_of(member);

	read_all(&scan, member);
	disk_replace(d);
	for (unsigned i = 0; i < scan.count; i++)
		put_object(d, &scan.object[i]);
	for (unsigned i = 0; i < scan.count; i++)
		put_names(d, &scan.object[i]);
	disk_sync(d);
	forget(&scan);
}

/* ---- is it sound? ---- */

static const char *text_of(const struct found *o, const struct scan *s)
{
	return o->path[s->root] ? o->path + s->root : "/";
}

static struct name *name_of(struct found *o, const uint8_t *link)
{
	struct name *n = o->names;

	while (n && (memcmp(n->parent.bytes, link, 16) || strlen(n->text) != link[16] ||
		     memcmp(n->text, link + LINK_HEAD, link[17])))
		n = n->next;
	return n;
}

/* Each name is in the identity, once, and no other is. A name in a directory that is gone nobody can tell from a right one. */
static void check_names(struct scan *s, struct found *o)
{
	size_t at = AT_LINKS;

	for (; at + LINK_HEAD <= o->identity_size; at += LINK_HEAD + o->identity[at + 17]) {
		const uint8_t *link = o->identity + at;
		struct name *n = name_of(o, link);
		struct gfid parent;

		memcpy(parent.bytes, link, 16);
		if (n && n->noted)
			sim_fail("brick %u: the identity of %s lists its name %s twice", s->member, text_of(o, s), n->text);
		else if (n)
			n->noted = true;
		else if (found_of(s, &parent))
			sim_fail("brick %u: the identity of %s lists a name that it has not: %.*s", s->member, text_of(o, s),
				 link[17], (const char *)link + LINK_HEAD);
	}
	if (at != o->identity_size)
		sim_fail("brick %u: the identity of %s makes no sense", s->member, text_of(o, s));
	for (const struct name *n = o->names; n; n = n->next)
		if (!n->noted && !(o->identity[1] & FULL))
			sim_fail("brick %u: the identity of %s does not list its name %s", s->member, text_of(o, s), n->text);
}

static void check_private(struct scan *s)
{
	char path[LEAF_PATH + 32];
	struct dirent **list;
	int count;

	leaf_path(s->member, path);
	strcat(path, "/.stratus/staging");
	count = scandir(path, &list, is_shown, by_name);
	if (count)
		sim_fail("brick %u: something is left in .stratus/staging", s->member);
}

void leaf_check(unsigned member)
{
	read_all(&scan, member);
	for (unsigned i = 0; i < scan.count && !sim_failure(); i++)
		check_names(&scan, &scan.object[i]);
	check_private(&scan);
	forget(&scan);
}

/* ---- each name is looked up ---- */

/* But those in a directory that was not looked up yet. */
static void look_up(struct graph *g, struct scan *s, struct found *o, const struct name *n)
{
	struct found *parent = found_of(s, &n->parent);
	struct lookup_in in = { .loc = { .parent = parent ? parent->inode : NULL, .name = (char *)n->text } };
	struct lookup_out out = { 0 };
	struct request rq;
	int err;

	if (!in.loc.parent)
		return;
	request_init(&rq, g, 0);
	err = fop_call(&rq, g->top, FOP_lookup, &in, &out);
	request_finish(&rq);
	if (err || !gfid_equal(&out.inode->gfid, &o->gfid))
		sim_fail("brick %u, started anew: %s is not found under its name %s: %s", s->member, text_of(o, s), n->text,
			 err ? strerror(-err) : "another gfid");
	else if (!o->inode)
		o->inode = inode_ref(out.inode);
	if (!err)
		inode_unref(out.inode);
}

void leaf_look_up_all(unsigned member, struct graph *g)
{
	read_all(&scan, member);
	if (scan.count)
		scan.object[0].inode = inode_get(g->top->inodes, &gfid_root, S_IFDIR);
	for (unsigned pass = 0; pass < 2; pass++) /* the second knows all directories */
		for (unsigned i = 1; i < scan.count && !sim_failure(); i++)
			for (const struct name *n = scan.object[i].names; n && !sim_failure(); n = n->next)
				look_up(g, &scan, &scan.object[i], n);
	for (unsigned i = 0; i < scan.count; i++)
		inode_unref_at(&scan.object[i].inode);
	forget(&scan);
}
