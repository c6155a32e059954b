/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of storage/posix share: the brick, its objects, and descriptors of them. */
#ifndef STRATUS_POSIX_H
#define STRATUS_POSIX_H
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "born.h"
#include "change-time.h"
#include "xlator.h"

/* ---- the brick ---- */

enum { DIRECTORY_CACHE = 1024, INDEX = 1 << 14, INDEX_LOCKS = 64, GATES = 256, MUTEXES = 256, KEY_SIZE = 32, KEYS = 2 };
enum { KERNEL_HANDLE_MAX = 64 };
#define PRIVATE_DIRECTORY ".stratus"

struct key {
	uint32_t id; /* 0: none */
	uint8_t bytes[KEY_SIZE];
	struct evp_mac_ctx_st *started; /* has the key, volume, brick, tenant and access point in it already */
};
/* Compounds pass alone, other changes together. */
struct gate {
	pthread_mutex_t lock;
	struct task_cond changed;
	unsigned inside;    /* plain changes under way */
	unsigned compounds; /* that wait or hold it */
	bool alone;
};
/* The directories used of late, with an open descriptor each; a clock hand chooses who goes. */
struct directory_cache {
	pthread_mutex_t lock; /* taken before an object's */
	struct object *ring[DIRECTORY_CACHE];
	unsigned hand, count;
	unsigned places; /* in use: fewer than DIRECTORY_CACHE where the process may not open many files */
};
/* From the kernel's handle to the object, for all that is in memory: saves opening it and reading its identity. */
struct handle_index {
	pthread_mutex_t lock[INDEX_LOCKS]; /* one for each 64th bucket; taken before an object's */
	struct object *bucket[INDEX];
};
/* Descriptors that a thread of their own closes (posix-closing.c). */
enum { CLOSING_MAX = 1024 };
struct closing_one {
	int fd;
	uint64_t came_ns;
};
struct closing {
	pthread_mutex_t lock;
	pthread_cond_t came, closed;
	pthread_t thread;
	struct closing_one ring[CLOSING_MAX];
	unsigned most;	      /* at a time */
	uint64_t taken, done; /* so many have come, and were closed */
	atomic_uint waiting;  /* the difference, for who has not got the lock */
	unsigned hurried;     /* so many wait until all are closed */
	bool started, ending;
	bool asleep, gathering; /* until there is one; until they are old or many */
};
struct brick {
	char *directory, *volume_text, *brick_text, *floor_text; /* options */
	int64_t format, inodes_kept;
	bool direct_io; /* live */
	struct gfid volume, id;
	double floor_percent;
	uint64_t floor_bytes;
	int root_fd, private_fd, staging_fd, lock_fd;
	struct inode *root;
	pthread_rwlock_t key_lock;
	struct key key[KEYS]; /* the newest first */
	int mount;	      /* the root's mount id: what lies on another isn't ours */
	struct directory_cache cache;
	struct handle_index index;
	struct gate gate[GATES];
	pthread_mutex_t compound_lock; /* guards the list of compounds under way */
	struct compound_run *compound;
	atomic_uint compounds;
	pthread_mutex_t tail_lock[MUTEXES], name_lock[MUTEXES], identity_lock[MUTEXES], time_lock[MUTEXES],
		making_lock[MUTEXES];
	atomic_uint_fast64_t staged;
	atomic_uint_fast64_t room_checked_ns; /* see brick_room() */
	atomic_int_fast64_t room;
	atomic_uint_fast64_t opens, handles_opened, adopted, repaired, forged, refused_full;
	atomic_uint open_files, open_directories;
	atomic_uint_fast64_t syncs; /* of the whole brick */
	atomic_uint_fast64_t tails_mended, tails_odd, tails_first;
	atomic_uint_fast64_t tail_told_ns; /* the last line in the log about one */
	struct closing closing;
};
enum { FORMAT_AUTO, FORMAT_NEVER };

static inline struct brick *brick_of(const struct xlator *x)
{
	return x->private;
}
/* 0 or -errno of a system call's result; safe in functions that wait. */
static inline int result(long value)
{
	return value < 0 ? -errno_now() : 0;
}
/* 0 while the space above the floor is enough for so many bytes more, else -ENOSPC. Half of what the floor leaves is for who makes members of a set equal. */
int brick_room(struct brick *, struct request *, uint64_t bytes);
uint64_t brick_floor(const struct brick *, uint64_t total_bytes);

/* posix-closing.c: what closing a removed object's last descriptor frees comes behind the answers. */
void closing_init(struct closing *);
void closing_end(struct closing *); /* when all are closed */
/* Takes over a descriptor of an object that has no name any more. It is closed within a fifth of a second. False: too many wait already, and it is the caller's to close, when he has
 * given back his locks: who removes faster than the disk frees goes at the disk's pace, and nobody else. */
bool close_late(struct brick *, int fd);
/* For who got ENOSPC; *tries is 0 at first. True: he tries again, for all are closed that had come before: what they held is free. Lets another thread have the
 * loop, if it waits. */
bool close_now(struct brick *, unsigned *tries);

/* posix-format.c: the private directory. */
int format_check(struct brick *, bool *fresh, struct problem *); /* changes nothing */
int format_open(struct brick *, struct problem *);		 /* formats a fresh one; takes the lock */
void format_close(struct brick *);
int format_put(struct brick *, const char *name, const char *text, size_t size); /* durable, all or nothing */
int format_get(struct brick *, const char *name, char *text, size_t size);	 /* length or -errno */

/* posix-wire.c: how objects are named to clients. */
int keys_create(struct brick *);
int keys_open(struct brick *, struct problem *);
int keys_rotate(struct brick *);
void keys_close(struct brick *);
int posix_inode_handle(struct xlator *, struct inode *, void *bytes, size_t *size);
int posix_tenant_handle(struct xlator *, const struct bearer *, struct inode *, void *bytes, size_t *size);
int posix_tenant_from_handle(struct xlator *, const struct bearer *, const void *bytes, size_t size, struct inode **);
int posix_inode_from_handle(struct xlator *, const void *bytes, size_t size, struct inode **);

/* ---- objects: what the brick knows of an inode, and descriptors of it (posix-handle.c, posix-object.c) ---- */

struct kernel_handle {
	int32_t type;
	uint32_t size;
	uint8_t bytes[KERNEL_HANDLE_MAX];
};
struct descriptor {
	int fd;
	atomic_uint refs;
};
enum acl_state { ACL_UNKNOWN, ACL_NONE, ACL_SOME };
/* TAIL_ASK for good once a header was set: then what was asked before doesn't count. */
enum tail_state { TAIL_UNKNOWN, TAIL_PLAIN, TAIL_ASK };
struct object {
	pthread_mutex_t lock; /* guards handle, kept, opens, acl_changes, born_from, born_syncs */
	struct kernel_handle handle;
	atomic_uint_fast64_t ino;
	struct gfid gfid;
	struct object *next;	    /* in the index */
	atomic_uint_fast64_t birth; /* ns since the epoch; of the identity: the same on every replica */
	struct change_time changed; /* guarded by the brick's time_lock of its number */
	atomic_uint_fast64_t seen;  /* name_hash() of the name under which the identity was last checked; 0: not yet */
	struct descriptor *kept;    /* a directory in the cache, or a file that is open */
	unsigned opens;		    /* files that made `kept` stay */
	int place;		    /* in the cache, or -1; guarded by the cache's lock */
	atomic_bool used;	    /* since the clock hand passed */
	atomic_bool privileged;	    /* may have S_ISUID or S_ISGID */
	atomic_int acl;		    /* enum acl_state; written with the lock held */
	unsigned acl_changes;	    /* so that what was read before one is not kept */
	uint64_t born_from;	    /* sealed pages from there on are younger than each sync; see posix-tail.c */
	uint64_t born_syncs;	    /* as many syncs of the brick there were then */
	bool mended;		    /* its length was mended when it was first seen */
	atomic_int tail;	    /* enum tail_state: is it a sealed file? */
};
/* A descriptor for the time of one operation. */
struct hold {
	int fd;
	bool path; /* O_PATH: xattrs and mode go through /proc/self/fd */
	bool lent; /* belongs to an open file of the caller's */
	struct descriptor *kept;
};
#define HOLD_NONE                                                                                                              \
	{                                                                                                                      \
		.fd = -1                                                                                                       \
	}
#define cleanup_hold __attribute__((cleanup(hold_end)))
#define cleanup_fd   __attribute__((cleanup(fd_close)))
void fd_close(int *);
struct descriptor *descriptor_create(int fd); /* takes the fd over, also when it fails (NULL) */
struct descriptor *descriptor_ref(struct descriptor *);
void descriptor_unref(struct descriptor *);

struct object *object_of(const struct xlator *, struct inode *); /* NULL: this brick never saw it */
void object_index(struct brick *, struct object *);
void object_unindex(struct brick *, struct object *);
void object_forget(struct xlator *, struct inode *, void *slot);
void object_opened(struct object *, struct descriptor *);
void object_closed(struct object *);
/* -ESTALE when the object is gone. */
int hold_inode(struct xlator *, struct inode *, struct hold *);
/* The same through the open file, if there is one. */
int hold_open(struct xlator *, struct inode *, struct file *, struct hold *);
void hold_end(struct hold *);
int hold_stat(const struct hold *, struct statx *);
struct hold_path {
	char text[32];
};
const char *hold_path(const struct hold *, struct hold_path *); /* leads to the object itself, symbolic link or not */
int hold_mode(const struct hold *, mode_t);
int hold_owner(const struct hold *, uid_t, gid_t);
ssize_t hold_getxattr(const struct hold *, const char *name, void *value, size_t size);
int hold_setxattr(const struct hold *, const char *name, const void *value, size_t size, int flags);
int hold_removexattr(const struct hold *, const char *name);
ssize_t hold_listxattr(const struct hold *, char *names, size_t size);

/* One name in a directory, as O_PATH, never through a symbolic link or into another mount. A descriptor or -errno. */
int name_open(int directory, const char *name);
int kernel_handle_of(int fd, struct kernel_handle *);
int kernel_handle_root(struct brick *, struct kernel_handle *); /* notes the mount, too */
/* The same for a name in a directory; -EXDEV when it leads into another mount. */
int kernel_handle_named(struct brick *, int directory, const char *name, struct kernel_handle *);
bool kernel_handles_equal(const struct kernel_handle *, const struct kernel_handle *);
int kernel_handle_open(struct brick *, const struct kernel_handle *, int flags);
/* Opens what the object is once more, with open(2) flags; a descriptor or -errno. */
int object_reopen(struct xlator *, struct inode *, int flags);
void directory_drop(struct xlator *, struct inode *); /* it was removed: closes the descriptor kept */

void attr_fill(struct xlator *, struct inode *, const struct statx *, struct attr *);
int attr_of(struct xlator *, struct inode *, const struct hold *, struct attr *);
/* Does it have an ACL? Asked once. */
void acl_learn(struct object *, const struct hold *, bool directory);
void acl_none(struct object *);	   /* it is new and has none */
void acl_changed(struct object *); /* called before one is set, and after; after one is removed */
/* The inode with that gfid for the object behind the descriptor. -EEXIST: another living object goes by that gfid. */
int object_attach(struct xlator *, const struct hold *, const struct statx *, const struct gfid *, struct time birth,
		  struct inode **);
struct inode *object_in_memory(struct xlator *, const struct hold *); /* a reference to its inode, if it is known here */
/* Whatever stands under that name: its inode and attributes; gives it an identity if it has none. */
int object_find(struct xlator *, int directory, struct inode *parent, const char *name, struct inode **, struct attr *);

/* ---- the last page of a sealed file (posix-tail.c) ---- */

#define TAIL_OLD UINT64_MAX /* born_from: none is */
/* An object that nobody can change yet, as it was not in memory: what a power cut left of its end is put right. True: its length is another one now. */
bool tail_mend(struct xlator *, const struct hold *, const struct statx *, const struct gfid *);
/* Must the page in which the file ends be on the disk before the file is as long as `end`? 1: up to *edge, by tail_first; 0; -errno. */
int tail_goes_first(struct xlator *, struct inode *, const struct hold *, uint64_t end, uint64_t *edge);
int tail_first(struct xlator *, struct inode *, int fd, uint64_t edge);
void tail_header_set(struct object *, const char *name); /* before that attribute is set: is it the header? */
void tail_synced(struct xlator *, struct inode *);	 /* before a sync of the file begins, and after a write that is one */

/* ---- identity (posix-identity.c; doc/disk-format.md) ---- */

enum { IDENTITY_MAX = 1024 };
struct identity {
	size_t size;
	uint8_t bytes[IDENTITY_MAX];
};
#define IDENTITY_XATTR "trusted.sfs"
void identity_make(struct identity *, const struct gfid *, struct time birth);
void identity_add(struct identity *, const struct gfid *parent, const char *name);    /* unless it is there */
bool identity_remove(struct identity *, const struct gfid *parent, const char *name); /* false: not there */
void identity_forget_links(struct identity *);
bool identity_has(const struct identity *, const struct gfid *parent, const char *name);
unsigned identity_links(const struct identity *);
bool identity_is_full(const struct identity *); /* it has more links than there is room for */
/* Each link in turn: *at is 0 at first. */
struct identity_link {
	struct gfid parent;
	uint8_t length, kept; /* of the name, and of what is here of it */
	const uint8_t *name;
};
bool identity_next(const struct identity *, size_t *at, struct identity_link *);
void identity_gfid(const struct identity *, struct gfid *);
struct time identity_birth(const struct identity *);
int identity_read(const struct hold *, struct identity *); /* -ENODATA; -EIO when it makes no sense */
int identity_write(const struct hold *, const struct identity *, int flags);
struct link_name {
	const struct gfid *parent;
	const char *name;
};
/* A name comes (`added`) or goes (`removed`); either may be NULL. Nothing comes only while the object has other names (not yet gone, or gone
 * just now). -errno (-ENOSPC): nothing is changed. 1: neither, for `removed` is the last that is listed.
 * Two names may be noted alike, for there may be two directories of one gfid for a while: a heal that does not find the first makes the
 * second, and deletes the first later. So the same name is listed once more, but not if this may be the second note of it. */
enum noting { NOTE_FIRST, NOTE_AGAIN };
int identity_note(struct xlator *, const struct hold *, const struct link_name *removed, const struct link_name *added,
		  enum noting);
/* The same, after it came or went: what fails is logged, for it is a hint. */
void identity_change(struct xlator *, struct request *, const struct hold *, const struct link_name *removed,
		     const struct link_name *added, enum noting);
int identity_set_birth(struct xlator *, const struct hold *, struct time birth);
bool internal_xattr(const char *name);
/* The link's name, of which the identity may have kept the beginning only; false: it is not found. May read the directory. */
bool link_name_whole(struct xlator *, const struct hold *, uint64_t ino, const struct identity_link *, char name[256]);
/* posix-location.c: what the brick tells for LOCATION_XATTR (location.h). */
int posix_location(struct request *, struct xlator *, struct inode *, struct blob *value);
/* posix-links.c */
/* The object h was found under that name. Does its identity, as `read`, not list it (a crash came before the note; it was moved or linked
 * behind our back)? Then it is put right. What fails is left: it is a hint. */
void links_repair(struct xlator *, const struct hold *h, const struct statx *, const struct identity *read,
		  struct inode *parent, const char *name);
int posix_inode_links(struct xlator *, struct inode *, struct blob *links);
int posix_sync(struct xlator *);
void posix_reread(struct xlator *, const struct file *, uint64_t offset, uint64_t length);

/* ---- names (posix-namespace.c) ---- */

uint64_t name_hash(const struct link_name *); /* never 0 */
struct names_locked {
	pthread_mutex_t *first, *second;
};
/* Keeps (parent, name) pairs from being changed by others until names_unlock. b may be NULL. Never held across a wait. */
void names_lock(struct names_locked *, struct brick *, const struct link_name *a, const struct link_name *b);
void names_unlock(struct names_locked *);
#define cleanup_names __attribute__((cleanup(names_unlock)))
/* Checks the loc's parent and name and holds the parent; `private_error` is the answer for the brick's own directory. */
int parent_hold(struct xlator *, const struct loc *, int private_error, struct hold *parent);
/* What making a name in it has failed with, in which case nothing is made: -ESTALE, if the directory was removed after it was held, as it is for who comes later. File
 * systems tell that in several ways (ext4: EPERM for an O_TMPFILE, ENOENT for other names). */
int parent_error(const struct hold *parent, int err);
/* The object of that name has just that gfid: 1, or 0 if another has, or none. -errno: it can't be read. */
int name_is(struct xlator *, const struct hold *parent, const char *name, const struct gfid *);

/* ---- creation (posix-make.c) and inherited ACLs (posix-acl.c) ---- */

struct making {
	const struct loc *loc;
	const struct gfid *gfid;
	mode_t mode, umask;
	dev_t rdev;
	const char *target; /* of a symbolic link */
	int open_flags;	    /* of the descriptor for a regular file */
	struct born born;   /* object_make fills it from the request */
};
/* Makes the object, whole or not at all. *fd (may be NULL): the descriptor of a regular file, for the caller. */
int object_make(struct request *, struct xlator *, struct making *, struct inode **, struct attr *, int *fd);
/* Takes S_ISGID from the mode where Linux would: a group-executable file of a group the caller isn't in. */
int sgid_check(struct request *, gid_t, mode_t *);

enum { ACL_BYTES_MAX = 4096 };
struct acl {
	size_t size; /* 0: none */
	uint8_t bytes[ACL_BYTES_MAX];
};
int acl_default(const struct hold *directory, struct acl *);
/* Turns the parent's default ACL into the access ACL of an object made with *mode, which becomes the object's mode.
 * acl->size becomes 0 when the mode says it all. POSIX 1003.1e draft 17, 23.1.5. -EIO when it makes no sense. */
int acl_inherit(struct acl *, mode_t *mode);
#define ACL_ACCESS  "system.posix_acl_access"
#define ACL_DEFAULT "system.posix_acl_default"

/* ---- times that requests bring (posix-time.c); all do nothing when there is none ---- */

/* After a change of the object: its mtime. */
int time_bring(struct request *, struct xlator *, struct inode *, const struct hold *);
int time_bring_file(struct request *, struct xlator *, struct file *);
void time_forget(struct xlator *, struct object *); /* another object has its place: of that no change is known */
int time_be_born(struct request *, struct xlator *, struct inode *,
		 const struct hold *);				   /* the request's time is that of birth */
int time_birth(struct request *, const struct hold *made);	   /* atime and mtime of a new object */
void time_born(struct request *, struct xlator *, struct inode *); /* it is in memory now */
/* What a setattr says of times; also with none, when it changes the size. */
int time_set(struct request *, struct xlator *, struct inode *, const struct setattr *, const struct hold *);

/* ---- open files (posix-io.c, posix-dir.c) ---- */

struct opened {
	struct descriptor *descriptor;
	atomic_int buffered; /* for requests that O_DIRECT can't do: a second descriptor, or -1 */
	uint64_t ino;	     /* no other object has it while this one is open */
	bool direct, writable, readable, directory;
	pthread_mutex_t lock; /* guards the descriptor's own offset, and what follows */
	char *entries;	      /* of a directory: what getdents64 gave and readdir has not yet returned */
	size_t filled, at;
	uint64_t next; /* offset of the entry at `at` */
};
/* Makes the file and its state; takes the fd over in any case. */
int opened_create(struct xlator *, struct inode *, uint32_t flags, int fd, struct file **);
struct opened *opened_of(const struct xlator *, struct file *);
/* 0; -EBADF: it is not open here; -ESTALE: it is of an object that was removed, and its gfid is another's by now (it was made again). */
int opened_check(const struct xlator *, struct file *);
void opened_forget(struct xlator *, struct file *, void *slot);
/* Which flags of open(2) reach the brick's file system. */
int open_flags(const struct brick *, uint32_t flags); /* O_DIRECT only with option direct-io */
int open_truncate(struct request *, struct xlator *, struct inode *);
/* A write or truncation by an ordinary user takes setuid and setgid away. */
int privileges_drop(struct xlator *, struct inode *, const struct hold *);

/* ---- compound (posix-compound.c), and the handlers (brick_, as posix_fallocate belongs to libc) ---- */

struct passage {
	struct gate *first, *second;
};
/* For each change outside a compound: waits while a compound is at one of the inodes (b may be NULL). */
int passage_enter(struct passage *, struct request *, struct xlator *, const struct inode *a, const struct inode *b);
void passage_leave(struct passage *);
#define cleanup_passage __attribute__((cleanup(passage_leave)))

#define X(op) int brick_##op(struct request *, struct xlator *, const struct op##_in *, struct op##_out *);
FOPS(X)
#undef X
#endif
