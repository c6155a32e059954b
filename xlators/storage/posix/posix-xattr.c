/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes and POSIX ACLs; those that belong to the brick are hidden. */
#include <limits.h>
#include <linux/limits.h>
#include <sys/xattr.h>

#include "location.h"
#include "posix.h"

enum { SMALL = 1024 };

/* Did the first try of this request set just this? */
static bool set_before(struct request *rq, const struct setxattr_in *in, const struct hold *h)
{
	void *now = rq->resent && in->value.size <= XATTR_SIZE_MAX ? malloc(in->value.size + 1) : NULL;
	bool same = now && hold_getxattr(h, in->name, now, in->value.size + 1) == (ssize_t)in->value.size &&
		    !memcmp(now, in->value.bytes ? in->value.bytes : "", in->value.size);

	free(now);
	return same;
}

/* Who sets the ACL of a file of a group that isn't his takes S_ISGID away, as with chmod. */
static int acl_was_set(struct request *rq, struct xlator *x, struct inode *inode, const char *name, const struct hold *h)
{
	struct object *o = object_of(x, inode);
	struct statx st;
	mode_t mode;
	int err;

	if (strcmp(name, ACL_ACCESS) || request_is_root(rq) || S_ISDIR(inode->type) || !o || !atomic_load(&o->privileged))
		return 0;
	err = hold_stat(h, &st);
	mode = err ? 0 : st.stx_mode & 07777;
	if (!err)
		err = sgid_check(rq, st.stx_gid, &mode);
	return err || mode == (st.stx_mode & 07777) ? err : hold_mode(h, mode);
}

static bool is_acl(const char *name)
{
	return !strcmp(name, ACL_ACCESS) || !strcmp(name, ACL_DEFAULT);
}

/* A part is left for the volume's own names, which other translators set; but by root of a volume without tenants. So comes who brings a file to another brick, and names that
 * could be listed there, from before there was a bound, must find room here. */
static size_t names_most(const struct request *rq)
{
	enum { OURS = 16384 }; /* and what several requests set at one moment, which do not see each other */

	return !request_is_tenants(rq) && request_is_root(rq) ? XATTR_LIST_MAX : XATTR_LIST_MAX - OURS;
}

/* listxattr(2) tells no list of names that is longer than XATTR_LIST_MAX (xattr(7)), though some file systems keep more: nobody could copy, count, or heal the object any
 * more. */
static int names_room(const struct request *rq, const struct hold *h, const char *name)
{
	ssize_t size;

	if (rq->limits == LIMITS_HEAL || request_is_movers(rq) || (strncmp(name, "user.", 5) && strncmp(name, "security.", 9)))
		return 0;
	size = hold_listxattr(h, NULL, 0);
	if (size >= 0 ? (size_t)size + strlen(name) + 1 <= names_most(rq) : size != -E2BIG)
		return 0;
	return hold_getxattr(h, name, NULL, 0) == -ENODATA ? -ENOSPC : 0;
}

int brick_setxattr(struct request *rq, struct xlator *x, const struct setxattr_in *in, struct setxattr_out *out)
{
	cleanup_passage struct passage passage = { NULL, NULL };
	cleanup_hold struct hold h = HOLD_NONE;
	int err = passage_enter(&passage, rq, x, in->inode, NULL);

	(void)out;
	if (!in->name || (in->flags & ~(XATTR_CREATE | XATTR_REPLACE)))
		return err ? err : -EINVAL;
	if (internal_xattr(in->name))
		return err ? err : -EPERM;
	if (!err)
		err = hold_inode(x, in->inode, &h);
	if (!err)
		err = brick_room(brick_of(x), rq, in->value.size);
	if (!err)
		err = names_room(rq, &h, in->name);
	if (is_acl(in->name))
		acl_changed(object_of(x, in->inode));
	tail_header_set(object_of(x, in->inode), in->name);
	if (!err)
		err = hold_setxattr(&h, in->name, in->value.bytes ? in->value.bytes : "", in->value.size, (int)in->flags);
	rq->untouched |= err == -ENOSPC;
	if (is_acl(in->name))
		acl_changed(object_of(x, in->inode));
	if (err == -EEXIST && set_before(rq, in, &h))
		err = 0;
	return err ? err : acl_was_set(rq, x, in->inode, in->name, &h);
}

int brick_removexattr(struct request *rq, struct xlator *x, const struct removexattr_in *in, struct removexattr_out *out)
{
	cleanup_passage struct passage passage = { NULL, NULL };
	cleanup_hold struct hold h = HOLD_NONE;
	int err = passage_enter(&passage, rq, x, in->inode, NULL);

	(void)out;
	if (!err)
		err = !in->name ? -EINVAL : internal_xattr(in->name) ? -EPERM : hold_inode(x, in->inode, &h);
	if (!err)
		err = hold_removexattr(&h, in->name);
	if (!err && is_acl(in->name))
		acl_changed(object_of(x, in->inode));
	return err == -ENODATA && rq->resent ? 0 : err;
}

/* Reads what may grow in between, with first a small and then the largest buffer; name NULL: the list of names. */
static int fetch(const struct hold *h, const char *name, struct blob *blob)
{
	static const size_t rooms[] = { SMALL, XATTR_SIZE_MAX };
	ssize_t n = -ERANGE;

	for (size_t i = 0; i < 2 && n == -ERANGE; i++) {
		void *bytes = malloc(rooms[i]);

		if (!bytes)
			return -ENOMEM;
		n = name ? hold_getxattr(h, name, bytes, rooms[i]) : hold_listxattr(h, bytes, rooms[i]);
		if (n < 0)
			free(bytes);
		else
			*blob = (struct blob){ (uint32_t)n, bytes };
	}
	return n < 0 ? (int)n : 0;
}

int brick_getxattr(struct request *rq, struct xlator *x, const struct getxattr_in *in, struct getxattr_out *out)
{
	cleanup_hold struct hold h = HOLD_NONE;
	int err = !in->name ? -EINVAL : internal_xattr(in->name) ? -ENODATA : hold_inode(x, in->inode, &h);

	if (!err && is_location(in->name))
		return posix_location(rq, x, in->inode, &out->value);
	return err ? err : fetch(&h, in->name, &out->value);
}

static void hide_internal(struct blob *names)
{
	char *list = names->bytes;
	uint32_t kept = 0, length;

	for (uint32_t at = 0; at < names->size; at += length) {
		length = (uint32_t)strnlen(list + at, names->size - at) + 1;
		if (length > names->size - at)
			break;
		if (internal_xattr(list + at))
			continue;
		memmove(list + kept, list + at, length);
		kept += length;
	}
	names->size = kept;
}

int brick_listxattr(struct request *rq, struct xlator *x, const struct listxattr_in *in, struct listxattr_out *out)
{
	cleanup_hold struct hold h = HOLD_NONE;
	int err = hold_inode(x, in->inode, &h);

	(void)rq;
	if (!err)
		err = fetch(&h, NULL, &out->names);
	if (!err)
		hide_internal(&out->names);
	return err;
}
