/* SPDX-License-Identifier: Apache-2.0 */
/* Inside mount/fuse: a mount, its descriptors (one per shard), and a request of the kernel on its way through the graph. */
#ifndef FUSE_INTERNAL_H
#define FUSE_INTERNAL_H
#include "fuse-kernel.h"
#include "graph.h"
#include "xlator.h"

/* What is done before a reply is seen by who serves the request that follows it, on whatever shard: the kernel orders them. The
 * thread sanitizer has to be told. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define ordered_before(mount) __tsan_release(mount)
#define ordered_after(mount)  __tsan_acquire(mount)
#else
#define ordered_before(mount) ((void)(mount))
#define ordered_after(mount)  ((void)(mount))
#endif

struct ask;
struct fuse_session;

enum data_cache { DATA_CACHE_OFF, DATA_CACHE_AUTO };
enum allow_other { ALLOW_OTHER_AUTO, ALLOW_OTHER_ON, ALLOW_OTHER_OFF };

struct fuse_private { /* of one translator instance */
	char *mountpoint, *fsname, *mount_options;
	int64_t allow_other, data_cache, busy_poll_us;
	bool default_permissions, readonly, selinux, acl, believe;
	uint64_t attribute_timeout_ms, entry_timeout_ms, request_timeout_ms, max_write;
	atomic_int sealed;   /* fuse-sealed.c */
	struct mount *mount; /* from start on; guarded by mounts_lock (fuse-switch.c), and may have ended: see mount_use */
};

/* A shard's way to the kernel. Its lock is short and guards `top`. */
struct device {
	struct watch watch; /* first: the callback gets its address */
	struct mount *mount;
	struct shard *shard;
	int fd;
	struct buffer *buffer; /* to read the next request into; NULL: the last one took it */
	pthread_mutex_t lock;
	struct xlator *top;		 /* mount/fuse of the active graph */
	int hope;			 /* how likely it is that one more request waits */
	int vain;			 /* how often it was woken for nothing, less how often not */
	atomic_bool watched;		 /* changed under mount.watch_lock */
	atomic_ulong reads, empty_reads; /* written by the loop only */
};

/* What was fetched of a directory, batch by batch in the brick's order. */
struct batch {
	struct dirents entries;
	uint64_t cookie;    /* of the brick, where it begins */
	uint64_t since;	    /* moment at which it was asked for */
	bool without_nodes; /* it was given away, and holds no references any more */
};
struct listing {
	struct batch *batch;
	unsigned batches;
	uint32_t entries;      /* of all batches */
	atomic_uint *gathered; /* of the mount, where they are counted */
	uint64_t begun_ns;     /* when the first was asked for */
	bool whole;	       /* from the start to the end, and each batch asked for at a known moment */
	bool untold;	       /* the kernel has heard of names without what they stand for */
	bool again;	       /* it is not read for the first time */
};

/* An open file or directory as the kernel knows it (fh). */
struct handle {
	struct file *file;
	uint64_t since; /* moment at which it was opened, if it is worth keeping: see fuse-keep.c */
	uint32_t flags, uid, gid;
	atomic_bool locked;	    /* a lock was set through it */
	struct handle *next, *prev; /* in the mount's list */
	struct task_lock lock;	    /* directories: guards what follows */
	struct listing listing;
	unsigned batch; /* not yet given away: from entry [at] of this one on */
	uint32_t at;
	uint64_t cookie; /* of the brick, where that begins */
	bool fetched;	 /* it has told places of its own, which those of another open directory must not be taken for */
};

/* Whole listings that nobody reads now, the oldest first: see fuse-dir.c. */
enum { KEPT_LISTINGS = 8 };
struct kept_listing {
	struct gfid directory;
	struct listing listing;
};

/* Files that nobody has open any more, but were opened to be read a moment ago: see fuse-keep.c. */
enum { KEPT_FILES = 64 };
struct kept_file {
	struct file *file;
	uint32_t flags, uid, gid; /* as it was opened, and by whom */
	uint64_t since;		  /* when, as a moment */
	uint64_t until_ns;	  /* 0: it is of no use any more */
};
struct keep {
	pthread_mutex_t lock; /* short; guards what follows */
	struct kept_file file[KEPT_FILES];
	unsigned count;
	bool sweeping; /* a task looks what has been kept for long */
	struct releasing *releasing;
	atomic_ulong again;
};

/* What is known of a file that was looked at lately: see fuse-known.c. */
enum { KNOWN_NAME = 64 }; /* longer names are asked for */
struct known {
	struct gfid gfid;
	uint64_t since;	       /* moment; 0: nothing is known */
	uint64_t taught;       /* the moment from which on others have not changed it; not after `since` */
	struct attr attr;      /* as of `since`; but for size and type only if not size_only */
	bool size_only;	       /* it was written from here since its attributes were told */
	bool unasked;	       /* it was made from here, and nobody has looked at it yet: what is written to it is not kept */
	struct gfid directory; /* in which its name was at the moment `named` */
	uint64_t named;
	char name[KNOWN_NAME];	/* with its 0; "": it is not known here */
	unsigned long renames;	/* of the mount, then */
	struct buffer *content; /* all of it, or NULL */
	uint64_t writing;	/* number of the write that is under way; 0: none */
	unsigned long recasts;	/* of a copy that a write has: as the mount's were */
	unsigned long number;	/* and which of the file's writes it is */
	uint64_t used_ns;
};
enum { KNOWN_FILES = 512 };
struct knowledge {
	pthread_mutex_t lock; /* short; guards what follows */
	struct known *file;   /* by the hash of the gfid */
	struct gfid *by_name; /* of what was found by a name last, by the hash of that and of its directory */
	size_t content;	      /* bytes, of all */
	uint64_t writes;
	atomic_ulong renames;		  /* names that this mount has taken away, or begun to */
	atomic_ulong recasts, recasting;  /* changes of files from here that are no plain writes: all, and under way */
	atomic_ulong reads, looks, names; /* answered from it */
};

/* Names that directories have, for those that they have not: see fuse-names.c. */
struct listed {
	struct gfid gfid;
	uint64_t since; /* the moment at which it was listed; 0: none */
	bool good;	/* nothing was added meanwhile that is missing here */
	uint32_t count;
	uint64_t *hash; /* of each name, in order */
};
enum { LISTED_DIRECTORIES = 256 };
struct names {
	pthread_mutex_t lock;			     /* short; guards what follows */
	struct listed directory[LISTED_DIRECTORIES]; /* by the hash of the gfid */
	uint32_t count;				     /* names of all */
	atomic_ulong absent;			     /* answered from it */
};

enum { BUCKETS = 256 };
struct bucket { /* requests in flight, by the kernel's number; the lock is short */
	pthread_mutex_t lock;
	struct ask *first;
};

/* A thread to whose call ESTALE was answered: see fuse-gone.c. */
enum { TOLD_STALE = 64, TOLD_STALE_NS = 2000000000 };
struct told_stale {
	uint32_t pid;
	uint64_t ns;	  /* 0: nobody */
	struct gfid gone; /* null, or the directory for which it was then told ENOENT */
};

/* A kernel mount. It outlives graphs: see fuse-switch.c. */
struct mount {
	char *path;
	struct mount *next;
	bool retired; /* as next guarded by mounts_lock (fuse-switch.c): it is to end, and no newer graph takes it */
	struct fuse_session *session; /* libfuse's: mounts and unmounts, no more */
	int fd;			      /* libfuse's; the devices have their own */
	struct xlator anchor;	      /* whose inode slots survive a graph switch: struct node_state */
	struct inode *root;
	struct client client;
	struct device *device;
	unsigned devices;
	pthread_mutex_t watch_lock;
	bool unwatching; /* for good; guarded by watch_lock */
	bool cloned;
	bool believes;		    /* the kernel can be told that names are no longer to be believed: see fuse-believe.c */
	uint32_t minor, open_flags; /* FOPEN_* of regular files */
	uint64_t features;	    /* FUSE_* of INIT, agreed with the kernel */
	size_t max_write;
	atomic_bool gone;	  /* the kernel has let go of us */
	atomic_uint users;	  /* asks and tasks that use the mount */
	atomic_ulong known;	  /* inodes known to the kernel */
	atomic_ulong asked;	  /* requests that became tasks */
	atomic_ulong disbelieved; /* how often something was */
	atomic_uint older_graphs; /* that have not ended; nothing is believed until then */
	struct bucket bucket[BUCKETS];
	pthread_mutex_t handles_lock;
	struct handle *handles;
	pthread_mutex_t kept_lock; /* short; guards the two that follow */
	struct kept_listing kept[KEPT_LISTINGS];
	unsigned kept_count;
	atomic_uint gathered;	   /* entries of all listings, those of open directories, too */
	atomic_ulong listed_again; /* how often one was used */
	struct keep keep;
	struct knowledge knowledge;
	struct names names;
	atomic_ulong stale;	   /* answers of ESTALE */
	pthread_mutex_t told_lock; /* short; guards told_stale */
	struct told_stale told_stale[TOLD_STALE];
};

/* In the inode's slot of mount->anchor. */
struct node_state {
	atomic_uint opens;   /* handles */
	atomic_bool locked;  /* a POSIX lock was set: from then on each close tells the brick */
	atomic_uint adding;  /* names that are being added to it from here */
	atomic_uint writing; /* writes from here that are under way, and all that have begun */
	atomic_ulong writes;
	/* Moments (believe_ms) at which this was learnt of it; 0: it wasn't. */
	atomic_ulong plain;	 /* it has no ACL */
	atomic_ulong asked;	 /* its mode, and whether it has an ACL, was asked for */
	atomic_ulong searchable; /* a directory that everybody may search */
	atomic_ulong readable;	 /* everybody may read it */
	atomic_ulong sized;	 /* a file's size, which is: (or SIZE_IS_NOTED) */
	atomic_ulong size;
	/* What the kernel was told last to believe: attributes as of that moment; mount.disbelieved then. */
	atomic_ulong told, told_count;
	atomic_ulong told_ns; /* when that was, by the clock */
	atomic_ulong new_ns;  /* when it was told of it without having it: what is told before it has taken that in is lost */
};

struct operation {
	const char *name;
	int (*serve)(struct ask *); /* 0 if it has replied; -errno: to be replied */
	uint16_t size;		    /* of the fixed part of the argument */
	uint8_t names;		    /* strings after it */
	bool waits;		    /* may wait for as long as another client likes */
};

/* A request of the kernel: made by the loop, served and freed by a task. */
struct ask {
	struct request rq;
	struct device *device;
	struct mount *mount;
	struct xlator *top; /* written under device->lock */
	const struct operation *op;
	struct task *task;
	struct ask *next; /* in the bucket */
	bool restart;	  /* bucket's lock: cancelled by a graph switch */
	bool interrupted; /* bucket's lock: cancelled by a signal */
	bool replied;
	unsigned long renames; /* of the mount, when it began */
	uint64_t asked;	       /* when attributes that are known here were asked for, after their name; 0: with it */
	struct buffer *data;   /* what a WRITE brings */
	struct fuse_in_header head;
	size_t size;
	char arg[] __attribute__((aligned(8))); /* what follows the header, ended by a 0 */
};
static inline const struct fuse_private *ask_options(const struct ask *a)
{
	return a->top->private;
}
static inline struct xlator *ask_child(const struct ask *a)
{
	return a->top->child[0];
}

/* ---- fuse-mount.c ---- */
int mount_create(struct xlator *, struct problem *);
void mount_destroy(struct mount *); /* unmounts, waits for what is under way, frees */

/* ---- fuse-loop.c ---- */
int devices_open(struct mount *, struct xlator *top, struct problem *);
int devices_watch(struct mount *);
void device_unwatch(struct device *); /* on its loop */
void devices_unwatch(struct mount *); /* after it no new request is read; not on a shard's loop */
void devices_close(struct mount *);
enum { DATA_AT = 4096, WRITE_HEAD = sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in) };

/* ---- fuse-ask.c ---- */
/* Answers with bytes. -errno if the kernel did not take it: what the answer gave must be taken back. */
int reply(struct ask *, const void *bytes, size_t size);
int reply_done(struct ask *, int err); /* with nothing; err, if that is not 0 */
void reply_error(struct device *, uint64_t unique, int err);
/* The kernel shall ask for the attributes again. Takes none of the kernel's locks that wait for us, so a shard may send it. */
void notify_attributes(struct device *, uint64_t nodeid);
void notify_names(struct device *); /* it shall ask for each name again. Takes no lock */
void ask_start(struct device *, const struct fuse_in_header *, size_t size);

/* ---- fuse-node.c: inodes and open files, as the kernel numbers them ---- */
struct inode *node(const struct mount *, uint64_t nodeid);
uint64_t node_id(const struct mount *, const struct inode *);
void node_remember(struct mount *, struct inode *);		    /* the kernel is told once more */
void node_forget(struct mount *, struct inode *, uint64_t nlookup); /* taken back, or forgotten by the kernel */
void nodes_forget_all(struct mount *, struct inode_table *);
struct node_state *node_state(struct mount *, struct inode *); /* NULL: nothing is kept of it */
struct handle *handle_create(struct mount *, struct file *);   /* takes over the reference; NULL: it is dropped */
bool opened_to_write(struct mount *, const struct inode *);    /* by some program of this mount */
void handle_destroy(struct mount *, struct handle *);
void attr_fill(struct fuse_attr *, const struct attr *);
void statx_fill(struct fuse_statx *, const struct attr *); /* the same, and the birth if it is known */
void entry_keep_for_now(struct ask *, struct fuse_entry_out *, struct inode *);
struct node_state *node_state_make(struct mount *, struct inode *);

/* ---- fuse-believe.c ---- */
uint64_t ask_moment(const struct ask *); /* 0: nothing will be believed */
/* Lets the kernel believe the name, and the attributes, if they may be believed. The directory was asked for the name at that moment. Without
 * inode: that there is none such; without attributes: the name alone. */
void believe_entry(struct ask *, struct fuse_entry_out *, const struct loc *, struct inode *, const struct attr *,
		   uint64_t since);
/* It was made from here, and nobody else could change it before that moment; 0: that is not known. The kernel is told nothing. */
void believe_made(struct ask *, const struct loc *, struct inode *, const struct attr *, uint64_t moment);
/* Before it is said that it is done: names that everybody may reach must be asked for again where not everybody may any more. */
void mode_set(struct ask *, struct inode *, mode_t);
void search_denied(struct ask *, struct inode *directory);		       /* perhaps: it was given an ACL */
void name_moved(struct ask *, struct inode *from_directory, struct inode *to); /* it is believed as it was before */
/* For how long the names of a listing may be believed that was asked for at that moment; and the same as above for one of them. */
uint64_t believe_listing(struct ask *, struct inode *directory, uint64_t since);
void believe_listed(struct ask *, struct fuse_entry_out *, struct inode *, const struct attr *, uint64_t since, uint64_t ms);
bool believe_plain(struct ask *, struct inode *);		 /* it has no ACL */
bool believe_told(const struct ask *, struct inode *);		 /* what the kernel was told of its attributes still holds */
bool believe_end(struct ask *, struct inode *, uint64_t offset); /* the file ends there, or before */
bool believe_searchable(struct ask *, struct inode *directory);	 /* everybody may search it */
bool believe_readable(struct ask *, struct inode *);		 /* everybody may read it */
bool believed(const struct ask *, struct inode *, enum believe, uint64_t since);
void disbelieve(struct mount *, struct inode *); /* NULL: all */
void forget_all(struct mount *);		 /* files, names and listings that are kept */

/* Is there something to tell of what was listed some time ago? Not if the kernel has heard of it lately, or if it may have changed. */
bool believe_worth(struct ask *, struct inode *, const struct attr *, uint64_t since);

/* ---- fuse-keep.c: files that were read and closed stay open for a moment ---- */
bool keep_worth(const struct inode *, uint32_t flags); /* may such a file be kept when it is closed? */
/* One that was opened so, by the same user, when everybody could read it, as now; a reference, and when it was opened. NULL: there is none. */
struct file *keep_take(struct ask *, struct inode *, uint32_t flags, uint64_t *since);
struct file *keep_put(
	struct ask *,
	const struct handle *);	  /* a reference to what is to be released now instead, this or another one; or NULL */
void keep_cancel(struct mount *); /* what is being released */
void keep_forget(struct mount *, const struct inode *); /* those of that inode, or all, go soon */
void keep_sweep(struct mount *);			/* there is something that goes after a while */
unsigned keep_count(struct mount *);
void keep_end(struct mount *);

/* ---- fuse-known.c: attributes and contents of small files, as long as nobody else may have changed them ---- */
void known_attr(struct ask *, struct inode *directory, const char *name, struct inode *, const struct attr *,
		uint64_t since); /* looked up, or made */
void known_made(struct ask *, const struct loc *, struct inode *, const struct attr *, uint64_t since);
void known_again(struct ask *, struct inode *, const struct attr *, uint64_t since); /* asked for without a name */
bool known_getattr(struct ask *, struct inode *, struct attr *);
/* What that name stands for, a reference, and since which moment that is so; of the attributes the request tells (asked). NULL: ask. */
struct inode *known_lookup(struct ask *, struct inode *directory, const char *name, struct attr *, uint64_t *since);
struct buffer *known_read(struct ask *, struct inode *, uint64_t offset, uint32_t size); /* NULL: ask */
/* A read below that is about to begin. Without since what it brings is not kept. */
struct reading {
	uint64_t since;
	unsigned long writes; /* of the file, that had begun */
};
struct reading known_reading(struct ask *, struct inode *, uint64_t offset, uint32_t size);
void known_content(struct ask *, struct inode *, const struct reading *, const void *bytes, size_t size);
/* Around each write, of a file that is open here: it is counted between the two. */
struct known known_write_begins(struct ask *, const struct write_in *); /* no since: it is not followed */
void known_written(struct ask *, struct known *, const struct write_in *, uint32_t written);
void known_recast_begins(struct mount *, bool does); /* around all else that changes what is in a file, if it does */
void known_recast_ends(struct mount *, bool does);
void known_rename(struct mount *); /* before and after a name is taken away, or a further one is made */
bool known_sweep(struct mount *);  /* true: something is left */
void known_forget(struct mount *);
void known_end(struct mount *);

/* ---- fuse-names.c: names that a directory that was listed, or made here, does not have ---- */
void names_learn(struct ask *, struct inode *directory, const struct listing *);
void names_none(struct ask *, struct inode *directory,
		uint64_t since); /* at that moment it had none, and nobody else could change that */
void name_begins(struct ask *, struct inode *directory, const char *); /* around whatever adds a name */
void name_ends(struct ask *, struct inode *directory);
uint64_t name_absent(struct ask *, struct inode *directory, const char *); /* since that moment; 0: ask */
void names_forget(struct mount *);

/* ---- fuse-dir.c ---- */
void listing_let_go(struct mount *, struct handle *); /* perhaps it is kept for a while */
void listings_forget(struct mount *);

/* Without an inode: zeros. */
void entry_fill(const struct ask *, struct fuse_entry_out *, const struct inode *, const struct attr *);

/* ---- fuse-gone.c ---- */
/* What is to be answered for the error: of a directory that has been removed meanwhile, as was told to the thread once already, ENOENT. */
int gone_error(struct ask *, int err);

/* ---- fuse-sealed.c ---- */
/* -ENOKEY: the volume is encrypted, and nobody below has its key. 0: it is not, or did not answer; then who asks first finds out. */
int sealed_look(struct xlator *, struct problem *);
int sealed_check(struct ask *);
bool is_mark(const struct inode *,
	     const char *xattr); /* which says that a volume is encrypted: nobody sets it through a mount */

/* ---- fuse-interrupt.c ---- */
void ask_enter(struct ask *);
void ask_leave(struct ask *);
void interrupt(struct device *, uint64_t unique);
void asks_cancel(struct mount *); /* all of them, and releases */

/* ---- fuse-switch.c ---- */
/* Waits in the graph of `old` are cancelled; their tasks ask again in the new one. */
struct mount *mount_take(struct xlator *); /* the live mount of that mount point, now served by x; or NULL */
void mount_publish(struct mount *, struct xlator *);
struct mount *mount_retire(
	struct xlator *); /* the mount that x served, which nobody takes any more; NULL: it serves none (now) */
/* By who is no request of the kernel: the mount of x, which stays until it is let go. NULL: there is none, or it ends. */
struct mount *mount_use(struct xlator *);
void mount_let_go(struct mount *);
void mount_ends(struct mount *); /* from here on nobody uses it who did not before */
void ask_acquire(struct ask *);	 /* the active graph, with a reference */
void ask_release(struct ask *);
bool ask_again(struct ask *, int err);
void unmounted(struct device *);

/* ---- the operations ---- */
#define OPERATIONS(X)                                                                                                          \
	X(lookup)                                                                                                              \
	X(getattr)                                                                                                             \
	X(setattr)                                                                                                             \
	X(readlink)                                                                                                            \
	X(symlink)                                                                                                             \
	X(mknod)                                                                                                               \
	X(mkdir)                                                                                                               \
	X(unlink)                                                                                                              \
	X(rmdir)                                                                                                               \
	X(rename)                                                                                                              \
	X(link) X(open) X(read) X(write) X(statfs) X(release) X(fsync) X(setxattr) X(getxattr) X(listxattr) X(removexattr)     \
		X(flush) X(opendir) X(readdir) X(readdirplus) X(getlk) X(setlk) X(access) X(create) X(fallocate) X(rename2)    \
			X(lseek) X(copy_file_range) X(statx)
#define X(op) int serve_##op(struct ask *);
OPERATIONS(X)
#undef X
void flock_drop(struct ask *, struct file *, uint64_t owner);
#endif
