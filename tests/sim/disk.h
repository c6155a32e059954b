/* SPDX-License-Identifier: Apache-2.0 */
/* What a simulated disk is made of, for its translator and for who compares disks. */
#ifndef STRATUS_SIM_DISK_H
#define STRATUS_SIM_DISK_H
#include "change-time.h"
#include "sim.h"

struct disk_entry {
	char *name;
	struct gfid gfid;
	uint64_t cookie;
	struct disk_entry *next;
};
struct disk_pair { /* an extended attribute */
	char *name;
	struct blob value;
	struct disk_pair *next;
};
/* Of what could not be written, as Linux counts it (errseq_t, Documentation/core-api/errseq.rst): who looks is told if there has been one since he looked last, or opened the
 * file; who opens it is told of one that nobody has been told of. */
struct disk_errors {
	uint32_t count;
	bool told;
};
struct disk_object {
	struct attr attr; /* nlink 0: only open files keep it */
	uint64_t serial;  /* part of its handle: another object with this gfid is not the same */
	char *data;	  /* bytes of a file, or the target of a link */
	struct disk_entry *entry;
	struct disk_pair *xattr;
	struct change_time changed; /* as in storage/posix; of the machine's memory, in truth */
	struct disk_errors errors;
	bool lost; /* some of what it has in memory was to be written, could not be, and counts as written */
	struct disk_object *next;
};
/* The smallest changes. Those between two commits come to the disk together or not at all, but for data. */
enum change_kind {
	CHANGE_NEW,   /* attr, offset: serial, bytes: target */
	CHANGE_FREE,  /* offset: serial */
	CHANGE_ENTER, /* name, other, offset: cookie */
	CHANGE_LEAVE, /* name */
	CHANGE_ATTR,  /* attr; the size in it does not count */
	CHANGE_XATTR, /* name, bytes */
	CHANGE_NO_XATTR,
	CHANGE_SIZE, /* size */
	CHANGE_WRITE /* offset, bytes */
};
struct disk_change {
	enum change_kind kind;
	struct gfid gfid, other;
	const char *name;
	const void *bytes;
	uint64_t offset, size;
	struct attr attr;
};
void disk_change(struct disk *, const struct disk_change *);
void disk_commit(struct disk *);
bool disk_has_dropped(
	unsigned member); /* an object went for another one of the same gfid: no file system does that, and nobody was told */
bool disk_was_cut(const struct disk *); /* off its power, once */
uint64_t disk_serial(struct disk *);
uint64_t disk_cookie(struct disk *);
unsigned disk_member(const struct disk *);
struct disk_object *disk_find(struct disk *, const struct gfid *);
void disk_each(struct disk *, void (*)(struct disk_object *, void *), void *); /* fn may free the object */
/* Both are told of errors since `seen`, which is brought up to date: -EIO. */
int disk_fsync(struct disk *, const struct gfid *, uint32_t *seen);
uint32_t disk_errors_seen(const struct disk_errors *); /* of who opens it now */
void disk_opened(struct disk *);		       /* by a process that begins: for disk_sync() */
void disk_write_back(struct disk *,
		     const struct gfid *);	      /* on its own: while the disk loses something, that may be of this file */
void disk_reread(struct disk *, const struct gfid *); /* what counts as written comes from the disk */
#endif
