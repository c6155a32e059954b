/* SPDX-License-Identifier: Apache-2.0 */
/* The extension HELD of a change (write, setattr, fallocate, setxattr): it is good only while its client's session holds a lock, and features/locks looks at
 * that as it does the change. So what is late, or is sent again in a session that did not get the lock back, is refused instead of done over what others have
 * written under that lock. */
#ifndef STRATUS_HELD_H
#define STRATUS_HELD_H
#include "request.h"

/* What it says was not so, and nothing was done. One of the numbers that request.h keeps; never seen by an application. */
#define ENOTHELD 4104

enum { HELD_EXTENSION = 9, HELD_EXTENSION_VERSION = 1 };

/* A POSIX lock for writing on all of these bytes, as it was taken with that pid: who gives it another one each time he takes it tells by that which time is meant. */
struct held_mark {
	uint64_t owner, start, end; /* the last byte is in it */
	uint32_t pid;
};

/* Takes the place of what was said before. -ENOMEM: with nothing said. */
int held_attach(struct request *, const struct held_mark *);
void held_detach(struct request *);
/* 1: there is one; 0: none. It may have come from anywhere: -EINVAL if it makes no sense, -EOPNOTSUPP of another version. */
int held_of(const struct request *, struct held_mark *);
#endif
