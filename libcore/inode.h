/* SPDX-License-Identifier: Apache-2.0 */
/* Inodes (objects in memory, found by gfid), open files, and the slots in which translators keep what they know of them. */
#ifndef STRATUS_INODE_H
#define STRATUS_INODE_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct gfid {
	uint8_t bytes[16]; /* random, chosen at creation, the same on every replica; the root's is 15 zeros and a 1 */
};
extern const struct gfid gfid_root;
void gfid_create(struct gfid *); /* a fresh random one */
bool gfid_equal(const struct gfid *, const struct gfid *);
bool gfid_is_null(const struct gfid *);
#define GFID_TEXT 37
const char *gfid_text(const struct gfid *, char text[GFID_TEXT]); /* 8-4-4-4-12 hex digits */
int gfid_parse(const char *text, struct gfid *);
/* For tables: all its bits are good. Under a secret key of the process, so that who chooses gfids can't choose places; never stored nor told. */
uint64_t gfid_hash(const struct gfid *);
void gfid_hash_key(const uint64_t word[2]); /* for a process that is to run the same again, before it has a table */
uint64_t gfid_ino(const struct gfid *);	    /* a 64-bit inode number for stat(2); the root's is 1 */

struct xlator;
struct inode_table;
struct slot; /* what one translator keeps in an inode or a file */

struct slots {
	struct slot *first;
};

struct inode {
	struct gfid gfid;
	_Atomic mode_t type; /* S_IFMT bits; 0: nobody has said it yet; then it never changes */
	atomic_uint refs;
	atomic_uint_fast64_t nlookup; /* mount/fuse: how often the kernel has been told */
	pthread_mutex_t lock;	      /* short; guards slots; never held across a wait */
	struct slots slots;
	struct inode_table *table;
	struct inode *next; /* in the table's bucket */
	struct inode *idle_next, *idle_prev;
	bool idle, unkept;
};

struct inode_table *inode_table_create(void);
void inode_table_destroy(struct inode_table *); /* all inodes must be gone; else the log names some, and it aborts */
/* The inode of that gfid, made if new; a reference for the caller. NULL when memory is short. If the gfid is known with
 * another type, NULL too (a lying peer). Type 0: whoever asks has only the gfid, and takes it for none; the first who knows better says so. */
struct inode *inode_get(struct inode_table *, const struct gfid *, mode_t type);
/* The same if it is known, else NULL. */
struct inode *inode_find(struct inode_table *, const struct gfid *);
struct inode *inode_ref(struct inode *);
void inode_unref(struct inode *); /* the last one frees it and its slots (destructors run) */
void inode_unref_at(struct inode **);
#define cleanup_inode __attribute__((cleanup(inode_unref_at)))
/* Up to `count` inodes that nobody refers to stay known, least recently used first out (a server's cache). Default 0. */
void inode_table_keep(struct inode_table *, size_t count);
/* The object is gone for good: its inode does not stay known once nobody refers to it. */
void inode_unkeep(struct inode *);
size_t inode_table_count(struct inode_table *);
/* Calls fn with a reference held for each inode; fn may take its own. */
void inode_table_each(struct inode_table *, void (*fn)(struct inode *, void *arg), void *arg);

/* An open file or directory. */
struct file {
	struct inode *inode; /* reference */
	uint32_t flags;	     /* open(2) */
	uint32_t uid;	     /* who opened it */
	uint64_t number;     /* unique in the process, for logs and dumps */
	atomic_uint refs;
	pthread_mutex_t lock; /* short; guards slots */
	struct slots slots;
	struct file *next, *prev; /* all files of the process */
};
struct file *file_create(struct inode *, uint32_t flags); /* takes its own reference on the inode */
struct file *file_ref(struct file *);
struct file *file_ref_live(
	struct file
		*); /* NULL: the last reference is gone, and those that have a slot are being told. For one who hears of that */
void file_unref(struct file *);
void file_unref_at(struct file **);
#define cleanup_file __attribute__((cleanup(file_unref_at)))
size_t file_count(void);

/* Slots. One pointer per (object, translator). Destroyed by xlator_type.forget_inode / forget_file when the object goes
 * or the translator is destroyed. set returns -ENOMEM or -EEXIST (one is there: the other thread won).
 * What a slot has stays for as long as one holds the object (also over a wait: `in` lends its objects until the handler returns), unless the
 * translator itself takes it out. Where threads change it, it has a lock of its own: this list's is let go before the pointer is returned. */
void *inode_slot(struct inode *, const struct xlator *);
int inode_slot_set(struct inode *, const struct xlator *, void *value);
void *inode_slot_take(struct inode *, const struct xlator *); /* removes it without the destructor */
void *file_slot(struct file *, const struct xlator *);
int file_slot_set(struct file *, const struct xlator *, void *value);
void *file_slot_take(struct file *, const struct xlator *);
/* Calls fn with a reference held for each open file of the process. */
void files_each(void (*fn)(struct file *, void *arg), void *arg);
/* For graph.c: what `old` keeps in files becomes the other one's, as far as that takes it on (inherit_file). */
void slots_inherit(struct xlator *, const struct xlator *old);
/* For graph.c: removes and destroys all slots of a translator that goes. */
void slots_purge(struct inode_table *, const struct xlator *);
#endif
