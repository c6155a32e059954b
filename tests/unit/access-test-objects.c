/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks in access-test, and objects that are the same on both sides. */
#include "access-test.h"

#include <grp.h>
#include <linux/posix_acl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

unsigned dice(unsigned sides)
{
	return rand_r(&seed) / 7 % sides;
}

const gid_t all_groups[GROUPS] = { 2001, 2002, 2003 };

struct caller caller_any(void)
{
	struct caller c = { .uid = (uid_t[]){ 1001, 1001, 1002, 1003, 0 }[dice(5)], .gid = 2000 + dice(4) };

	for (int i = 0; i < 3; i++)
		if (dice(3) == 0)
			c.groups[c.count++] = all_groups[i];
	return c;
}

void caller_become(struct tree *t, const struct caller *c)
{
	t->uid = c->uid;
	t->gid = c->gid;
	t->groups = c->groups;
	t->group_count = c->count;
}

void caller_become_for_good(const struct caller *c)
{
	umask(0);
	if (setgroups(c->count, c->groups) || setresgid(c->gid, c->gid, c->gid) || setresuid(c->uid, c->uid, c->uid))
		_exit(255);
}

/* ---- objects ---- */

static void acl_add(struct object *o, uint16_t tag, uint16_t perm, uint32_t id)
{
	uint8_t *at = o->acl + o->acl_size;

	memcpy(at, &tag, 2);
	memcpy(at + 2, &perm, 2);
	memcpy(at + 4, &id, 4);
	o->acl_size += 8;
}

static void any_acl(struct object *o)
{
	memcpy(o->acl, "\2\0\0\0", 4);
	o->acl_size = 4;
	acl_add(o, ACL_USER_OBJ, dice(8), -1);
	if (dice(2))
		acl_add(o, ACL_USER, dice(8), 1002);
	acl_add(o, ACL_GROUP_OBJ, dice(8), -1);
	if (dice(2))
		acl_add(o, ACL_GROUP, dice(8), 2001);
	if (dice(2))
		acl_add(o, ACL_GROUP, dice(8), 2002);
	acl_add(o, ACL_MASK, dice(3) ? 7 : dice(8), -1);
	acl_add(o, ACL_OTHER, dice(8), -1);
}

struct object object_any(const char *path, mode_t type)
{
	struct object o = { .mode = type | (dice(2) ? dice(01000) : 0777 & ~dice(01000) & ~dice(01000)) };

	snprintf(o.path, sizeof(o.path), "%s", path);
	o.uid = 1001 + dice(2);
	o.gid = 2001 + dice(2);
	if (dice(4) == 0)
		o.mode |= S_ISGID;
	if (dice(3) == 0)
		o.mode |= type == S_IFDIR ? S_ISVTX : S_ISUID;
	if (dice(3) == 0)
		any_acl(&o);
	return o;
}

/* The ACL changes the mode: what the kernel made of it is what the memory gets. */
void object_make(struct tree *t, struct object *o)
{
	struct tree root = *t;
	struct setattr set = { .valid = SET_MODE | SET_UID | SET_GID };
	struct stat st;
	int err = S_ISDIR(o->mode) ? mkdir(o->path, 0700) : mknod(o->path, S_IFREG | 0600, 0);

	root.at = tree_find(t, "memory");
	root.uid = 0;
	CHECK(!err && !chown(o->path, o->uid, o->gid) && !chmod(o->path, o->mode & 07777));
	CHECK(!o->acl_size || !setxattr(o->path, "system.posix_acl_access", o->acl, o->acl_size, 0));
	CHECK(!stat(o->path, &st));
	CHECK(!(S_ISDIR(o->mode) ? tree_mkdir(&root, o->path, 0700) : tree_mknod(&root, o->path, S_IFREG | 0600, 0)));
	set.uid = o->uid;
	set.gid = o->gid;
	CHECK(!tree_setattr(&root, o->path, &set));
	set = (struct setattr){ .valid = SET_MODE, .mode = st.st_mode & 07777 };
	CHECK(!tree_setattr(&root, o->path, &set));
	CHECK(!o->acl_size || !tree_setxattr(&root, o->path, "system.posix_acl_access", o->acl, o->acl_size, 0));
}

const char *object_text(const struct object *o)
{
	static char text[400];
	int n = snprintf(text, sizeof(text), "%s %o %u:%u", o->path, o->mode, o->uid, o->gid);

	for (size_t i = 4; i < o->acl_size; i += 8)
		n += snprintf(text + n, sizeof(text) - n, " acl(%x,%d,%u)", o->acl[i], o->acl[i + 2],
			      *(const uint32_t *)(o->acl + i + 4));
	return text;
}

const char *caller_text(const struct caller *c)
{
	static char text[100];
	int n = snprintf(text, sizeof(text), "%u:%u", c->uid, c->gid);

	for (int i = 0; i < c->count; i++)
		n += snprintf(text + n, sizeof(text) - n, ",%u", c->groups[i]);
	return text;
}
