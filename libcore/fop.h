/* SPDX-License-Identifier: Apache-2.0 */
/* The file operations: the types of their fields, and what is generated from fops.def. */
#ifndef STRATUS_FOP_H
#define STRATUS_FOP_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "buffer.h"
#include "inode.h"
#include "request.h"

struct loc {
	struct inode *parent; /* may be NULL when inode is given */
	struct inode *inode;  /* may be NULL when parent and name are given: not looked up yet, or to be made */
	const char *name;     /* one component, at most 255 bytes, never "", ".", ".." and without '/' */
};
struct time {
	int64_t sec;
	uint32_t nsec;
};
struct attr {
	struct gfid gfid;
	uint32_t mode; /* type and permissions */
	uint32_t nlink, uid, gid;
	uint64_t rdev, size, blocks; /* blocks of 512 */
	uint32_t blksize;
	struct time atime, mtime, ctime, btime;
	uint32_t flags;
};
enum {			/* attr.flags */
       ATTR_NO_ACL = 1, /* it has no POSIX ACL for sure, neither of its own nor to pass on */
       ATTR_POINTER =
	       2, /* features/layout to cluster/dht: it only says where the object is: gfid is that one's, rdev its subvolume */
       ATTR_WIDE = 4 /* the same: a directory that has a layout to fetch, or is one's shard */
};
enum { /* setattr.valid */
       SET_MODE = 1,
       SET_UID = 2,
       SET_GID = 4,
       SET_SIZE = 8,
       SET_ATIME = 16,
       SET_MTIME = 32,
       SET_ATIME_NOW = 64,
       SET_MTIME_NOW = 128,
       SET_KILL_PRIV = 256, /* drop setuid, setgid and capabilities: with SIZE, or alone (chown to nobody else) */
       SET_BIRTH =
	       512 /* the time of the request (request.time_ns), if it brings one, is that of the object's birth: for replicas */
};
struct setattr {
	uint32_t valid, mode, uid, gid;
	uint64_t size;
	struct time atime, mtime;
};
struct blob {
	uint32_t size;
	void *bytes;
};
enum { READDIR_PLUS = 1 };
enum { WRITE_APPEND = 1, WRITE_KILL_PRIV = 2 };
struct dirent_plus {
	uint64_t next_offset; /* where to go on after this entry */
	struct gfid gfid;     /* null when not known (no READDIR_PLUS) */
	uint32_t type;	      /* S_IFMT bits */
	char *name;	      /* malloc'ed */
	struct inode *inode;  /* READDIR_PLUS, may be NULL: the entry vanished */
	struct attr attr;     /* if inode */
};
/* The list and its names are malloc'ed by who answers, and freed by the caller (fop_out_clear); who takes an entry out frees its name and gives its
 * inode back. */
struct dirents {
	uint32_t count;
	bool end; /* nothing follows */
	struct dirent_plus *entry;
};
struct statfs {
	uint64_t bsize, frsize, blocks, bfree, bavail, files, ffree, namemax;
};
enum lock_kind { LOCK_POSIX, LOCK_FLOCK };
struct lock {
	uint32_t kind;	     /* enum lock_kind */
	uint32_t type;	     /* F_RDLCK, F_WRLCK, F_UNLCK */
	uint64_t start, end; /* inclusive; end UINT64_MAX: to the end of the file */
	uint64_t owner;
	uint32_t pid;
	uint32_t wait;	  /* 1: wait until it is free */
	uint32_t reclaim; /* 1: the client held it before the brick restarted */
};

/* compound: each step may carry a condition, checked just before it. In a step, an inode or file that is NULL means what the
 * last step before it gave. All run under one lock of the brick (see doc/compound.md for what a crash leaves). */
enum condition_kind { IF_NOTHING, IF_SIZE, IF_XATTR, IF_NO_XATTR, IF_EXISTS, IF_ABSENT };
struct condition {
	uint32_t kind;
	struct inode *inode; /* SIZE, XATTR, NO_XATTR: of whom (NULL: the last result) */
	struct loc loc;	     /* EXISTS, ABSENT */
	uint64_t size;
	char *name; /* XATTR */
	struct blob value;
};
struct step {
	struct condition condition; /* not true: the compound stops here with -ECANCELED */
	uint32_t fop;		    /* not compound, setlk or getlk */
	void *in;		    /* struct OP_in */
};
struct steps {
	uint32_t count; /* at most COMPOUND_MAX */
	struct step *step;
};
enum { COMPOUND_MAX = 16 };
struct result {
	uint32_t fop;
	int32_t status;
	void *out; /* struct OP_out, NULL unless status is 0 */
};
struct results {
	uint32_t count; /* steps tried; the last may have failed */
	struct result *result;
};

#include "fop-types.h" /* generated: enum fop, struct OP_in and OP_out, FOPS(X), the typed calls */

enum field_kind {
	FIELD_LOC,
	FIELD_INODE,
	FIELD_FILE,
	FIELD_U32,
	FIELD_U64,
	FIELD_MODE,
	FIELD_GFID,
	FIELD_STRING,
	FIELD_BLOB,
	FIELD_ATTR,
	FIELD_SETATTR,
	FIELD_BUFFER,
	FIELD_DIRENTS,
	FIELD_STATFS,
	FIELD_LOCK,
	FIELD_STEPS,
	FIELD_RESULTS
};
struct field {
	const char *name;
	enum field_kind kind;
	size_t offset;
};
enum { FOP_MUTATES = 1, FOP_IDEMPOTENT = 2, FOP_WAITS = 4, FOP_OPTIONAL = 8 };
struct fop_info {
	const char *name, *summary;
	unsigned flags;
	size_t in_size, out_size;
	const struct field *in, *out; /* ended by name NULL */
};
extern const struct fop_info fop_info[FOP_COUNT]; /* by enum fop; index 0 is unused (name NULL) */
const char *fop_name(int fop);
int fop_by_name(const char *name); /* or -1 */

/* Deep copies: references for inodes, files and buffers; strings, blobs and lists are duplicated. -ENOMEM. */
int fop_in_copy(int fop, void *to, const void *from);
void fop_in_clear(int fop, void *in);	/* releases what fop_in_copy (or a decoder) made; not what a caller lent */
void fop_out_clear(int fop, void *out); /* releases all that a fop gave; safe on zeros, and twice */
int fop_out_copy(int fop, void *to, const void *from);
/* One line for traces: "lookup parent=... name=x". Returns the length it would need. */
size_t fop_in_print(int fop, const void *in, char *text, size_t size);
size_t fop_out_print(int fop, const void *out, char *text, size_t size);
/* Of a list of names, each ended by a 0 (listxattr_out): the one after `at`, which is one of them, the first one after NULL. NULL: there are no more, or it is not ended. */
const char *blob_next_name(const struct blob *names, const char *at);
/* Only those stay in the list, in their order, that `keep` wants. */
void blob_keep_names(struct blob *names, bool (*keep)(const void *arg, const char *name), const void *arg);
/* The name is one that a directory entry may have (see struct loc). 0, -EINVAL, -ENAMETOOLONG. */
int name_check(const char *name);
#endif
