/* SPDX-License-Identifier: Apache-2.0 */
/* What the clients did and saw, and in which order it may have happened. */
#ifndef STRATUS_SIM_HISTORY_H
#define STRATUS_SIM_HISTORY_H
#include "sim.h"

enum { BLOCK = 64, BLOCKS_MAX = 24, NAMES = 6, OPEN_END = -1 };
extern const char *names[NAMES]; /* "d0", "d1" for directories, too */

enum what {
	OP_LOOKUP, /* dir, name -> object */
	OP_MAKE,   /* dir, name, object: create (exclusive), mkdir, symlink */
	OP_OPEN,   /* dir, name, object: create, not exclusive -> found */
	OP_UNLINK, /* dir, name */
	OP_RMDIR,
	OP_LINK,     /* object, dir, name */
	OP_RENAME,   /* dir, name, dir2, name2; value: of RENAME_NOREPLACE */
	OP_READDIR,  /* dir -> found[] by name */
	OP_WRITE,    /* object, block, value */
	OP_APPEND,   /* object, value -> block */
	OP_TRUNCATE, /* object, block: number of blocks */
	OP_COPY,     /* from, from_block, object, block, blocks -> size: bytes copied */
	OP_ALLOCATE, /* object, block, blocks, value: mode of fallocate */
	OP_READ,     /* object -> values, size */
	OP_STAT,     /* object -> size, value: mode, blocks: links */
	OP_CHMOD,    /* object, value */
	OP_SETXATTR, /* object, name, value */
	OP_GETXATTR,
	OP_REMOVEXATTR,
	OP_FSYNC, /* object */
	OPS
};
extern const char *const what_text[OPS];
struct operation {
	enum what what;
	mode_t type; /* MAKE: of the object */
	unsigned number, worker;
	uint64_t call, ret; /* positions in the order of all events; ret UINT64_MAX: never answered */
	uint64_t call_ns, ret_ns;
	int err;
	struct gfid dir, dir2, object, from, found[NAMES];
	unsigned name, name2, block, from_block, blocks;
	uint64_t value, size; /* size: bytes */
	uint64_t values[BLOCKS_MAX];
	bool final;
	bool durable; /* WRITE, APPEND: by O_DSYNC, when it was answered */
};
/* Appends one that begins now. It stays where it is. */
struct operation *operation_begin(enum what, unsigned worker);
void operation_end(struct operation *, int err);
struct operation *operation_at(unsigned number); /* NULL: there are no more */
void operation_print(const struct operation *, char *text, size_t size);
/* It says nothing about whether it was done. */
bool operation_unknown(const struct operation *);
/* A single brick that was started anew keeps no answers: what is sent again there may be told as done that was not, or be done twice, the second time to what
 * another client has made meanwhile. */
bool operation_may_repeat(const struct operation *);
bool operation_changes(const struct operation *);
#endif
