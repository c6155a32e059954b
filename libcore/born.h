/* SPDX-License-Identifier: Apache-2.0 */
/* The extension BORN_WITH of create, mknod, mkdir and symlink: extended attributes that the leaf sets before the object has its name, so a
 * crash never leaves the name without them. If one can't be set nothing is made. What exists already (create without O_EXCL) gets none. */
#ifndef STRATUS_BORN_H
#define STRATUS_BORN_H
#include "request.h"

enum { BORN_EXTENSION = 5, BORN_EXTENSION_VERSION = 1, BORN_MAX = 8, BORN_BYTES_MAX = 4096 };

struct born_xattr {
	const char *name;  /* 1 to 255 bytes */
	const void *value; /* may be NULL if it has no bytes */
	uint32_t size;
};
struct born {
	unsigned count; /* 0: the request has no such extension */
	struct born_xattr xattr[BORN_MAX];
};

/* What the request makes is born with these, and with nothing that was said before. n 0: with none. -EINVAL: a bad or double name, too
 * many; -E2BIG: too large; -ENOMEM. */
int born_attach(struct request *, const struct born_xattr *, unsigned n);
/* What the request says, borrowed from it. It may have come from anywhere: -EINVAL if it makes no sense, -EOPNOTSUPP of another version. */
int born_of(const struct request *, struct born *);
/* Bytes of names and values. */
uint64_t born_bytes(const struct born *);
#endif
