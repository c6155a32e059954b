/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an object has an ACL; and the one that it inherits: for objects that are staged, where the kernel can't know the parent. */
#include <endian.h>

#include "posix.h"

static bool has(const struct hold *h, const char *name)
{
	ssize_t n = hold_getxattr(h, name, NULL, 0);

	return n != -ENODATA && n != -EOPNOTSUPP;
}

void acl_learn(struct object *o, const struct hold *h, bool directory)
{
	unsigned changes;
	bool some;

	if (atomic_load(&o->acl) != ACL_UNKNOWN)
		return;
	pthread_mutex_lock(&o->lock);
	changes = o->acl_changes;
	pthread_mutex_unlock(&o->lock);
	some = has(h, ACL_ACCESS) || (directory && has(h, ACL_DEFAULT));
	pthread_mutex_lock(&o->lock);
	if (o->acl_changes == changes)
		atomic_store(&o->acl, some ? ACL_SOME : ACL_NONE);
	pthread_mutex_unlock(&o->lock);
}

void acl_none(struct object *o)
{
	pthread_mutex_lock(&o->lock);
	if (!o->acl_changes)
		atomic_store(&o->acl, ACL_NONE);
	pthread_mutex_unlock(&o->lock);
}

void acl_changed(struct object *o)
{
	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	o->acl_changes++;
	atomic_store(&o->acl, ACL_UNKNOWN);
	pthread_mutex_unlock(&o->lock);
}

/* The xattr's form (linux/posix_acl_xattr.h), little-endian. */
struct acl_entry {
	uint16_t tag, permissions;
	uint32_t id;
};
enum { ACL_HEAD = 4, ACL_VERSION = 2 };
enum { USER_OBJ = 0x01, USER = 0x02, GROUP_OBJ = 0x04, GROUP = 0x08, MASK = 0x10, OTHER = 0x20 };

int acl_default(const struct hold *directory, struct acl *acl)
{
	ssize_t n = hold_getxattr(directory, ACL_DEFAULT, acl->bytes, sizeof acl->bytes);

	acl->size = n > 0 ? (size_t)n : 0;
	return n == -ENODATA || n == -EOPNOTSUPP || n >= 0 ? 0 : (int)n;
}

/* The entry of that tag has at most these permissions, and then the mode has at most the entry's. */
static void meet(struct acl *acl, size_t at, unsigned shift, mode_t *mode)
{
	struct acl_entry e;

	memcpy(&e, acl->bytes + at, sizeof e);
	mode_t both = le16toh(e.permissions) & (*mode >> shift) & 7;

	e.permissions = htole16((uint16_t)both);
	memcpy(acl->bytes + at, &e, sizeof e);
	*mode = (*mode & ~(mode_t)(7u << shift)) | both << shift;
}

int acl_inherit(struct acl *acl, mode_t *mode)
{
	size_t user = 0, group = 0, mask = 0, other = 0;
	bool named = false;
	uint32_t version;

	memcpy(&version, acl->bytes, sizeof version);
	if (acl->size < ACL_HEAD || le32toh(version) != ACL_VERSION || (acl->size - ACL_HEAD) % sizeof(struct acl_entry))
		return -EIO;
	for (size_t at = ACL_HEAD; at < acl->size; at += sizeof(struct acl_entry)) {
		uint16_t tag;

		memcpy(&tag, acl->bytes + at, sizeof tag);
		switch (le16toh(tag)) {
		case USER_OBJ:
			user = at;
			break;
		case GROUP_OBJ:
			group = at;
			break;
		case MASK:
			mask = at;
			break;
		case OTHER:
			other = at;
			break;
		default:
			named = true;
		}
	}
	if (!user || !group || !other)
		return -EIO;
	meet(acl, user, 6, mode);
	meet(acl, mask ? mask : group, 3, mode);
	meet(acl, other, 0, mode);
	if (!mask && !named)
		acl->size = 0;
	return 0;
}
