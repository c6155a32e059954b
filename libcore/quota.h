/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of a directory, as features/usage has it (doc/usage.md): an extended attribute that no brick has. Who may administer sets it to "BYTES INODES" (decimal; 0: none) or
 * removes it. Who has an object may ask what holds that; listxattr(2) does not name it. ENODATA: nothing does.
 *
 * The value is lines as those of location.h:
 *
 *   number N        of the next one of all, with the name QUOTA_XATTR.N (ENODATA: there are no more)
 *   bytes N         that the directory and all below it are charged
 *   inodes N
 *   bytes-limit N   0: none
 *   inodes-limit N
 *   exact yes|no    no: until a recount has ended the two above may be wrong
 *   id NUMBER       which no other limit has, nor will have, 16 digits of 0 to f; on several bricks BRICK.NUMBER
 *   path PATH       of the directory, from the root of the mount
 *
 * Errors of setting it: EPERM: who asks is not the administrator; ENOTDIR; EINVAL: no such numbers, or the root of all; EEXIST: it is below one with a limit; ENOTEMPTY;
 * EBUSY: the directory is on its way to another brick; ENOSPC, in a replica set EDQUOT: there are as many as there may be; EOPNOTSUPP: the volume keeps no accounts. */
#ifndef STRATUS_QUOTA_H
#define STRATUS_QUOTA_H
#include <stdbool.h>
#include <string.h>

#define QUOTA_XATTR "system.stratus.quota"
/* On the brick: the tag by which an object is held (doc/usage.md, D1). Only who makes members of a replica set equal says it, or sees it above features/usage. */
#define QUOTA_TAG_XATTR "trusted.usage.quota"
/* Read from a tenant's root by the brick's own process, with the number of a limit behind it: the handle (xlator.h, inode_handle) of the directory that has it. ENODATA: none of that
 * tenant has. */
#define QUOTA_DIRECTORY_XATTR "trusted.usage.directory."
/* Those of one brick have lower numbers; of several bricks each has so many, and cluster/dht counts them on from one to the next. */
enum { QUOTA_NUMBERS = 1 << 20 };

static inline bool is_quota(const char *name)
{
	size_t length = sizeof(QUOTA_XATTR) - 1;

	return name && !strncmp(name, QUOTA_XATTR, length) && (!name[length] || name[length] == '.');
}
#endif
