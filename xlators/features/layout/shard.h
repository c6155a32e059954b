/* SPDX-License-Identifier: Apache-2.0 */
/* Inside features/layout: what is known of objects and the gates of directories (known.c), the judgement of names (names.c), marks of them
 * (marks.c), names that have gone while they move (taken.c), what tenants may say (tenants.c), directories that get another parent (trees.c), files that are moved (files.c), and directories
 * that have grown large (grown.c). */
#ifndef STRATUS_SHARD_H
#define STRATUS_SHARD_H
#include "layout.h"
#include "place.h"
#include "xlator.h"

/* Directories in which names are made, by their gfids; of two at the same place the one that was used last is known. And those that have grown large, to be told. */
struct grown {
	pthread_mutex_t lock; /* guards what follows */
	struct made {
		struct gfid gfid;
		unsigned names, allowed; /* since they were counted; until they are counted again */
	} * made;			 /* MADE of them; NULL: no memory */
	struct gfid candidate[CANDIDATES_MAX];
	unsigned candidates;
};
enum { MADE = 4096, COUNTERS = 4096, ENDED = 1024 };

/* Intents that were taken over and whose records have gone; of two at the same place the later one is known. */
struct ended {
	pthread_mutex_t lock; /* guards what follows */
	struct {
		struct gfid id, top; /* of the tenant's root */
		char state;
	} intent[ENDED];
};

struct checks {
	int64_t subvolume;     /* option: the number of this one in layouts and pointers */
	int64_t initial;       /* option: subvolumes that the volume began with; 0: not known */
	int64_t initial_from;  /* option: the first of them */
	int64_t widen_at;      /* option: names of a directory here, of which it is told that they are many; 0: of none */
	bool leaving;	       /* option */
	uint64_t reopen_ms;    /* option */
	struct layout implied; /* of those: the root's, while it has none on disk */
	struct gfid self;      /* of this process' translator: who counts */
	atomic_uint_fast64_t mark_changes[COUNTERS]; /* changes of marks, by directories' gfids; several may share one */
	struct grown grown;
	struct ended ended;
	atomic_uint_fast64_t file_changes; /* of all files */
	uint64_t started_ns;
	atomic_uint_fast64_t elsewhere, pointers, wide, moved, marked, changes;
	struct task_lock moving; /* held while a directory gets another parent: trees stay as they are */
};

/* In an inode's slot. The gate: requests for names of the directory pass together, a change of what its xattrs say passes alone. So what a
 * request was judged by holds until it is done. */
struct known {
	pthread_mutex_t lock; /* guards all of it */
	struct task_cond changed;
	unsigned inside, waiting; /* requests that passed together; those that want to be alone */
	bool alone;
	unsigned changes; /* so that what was read before one is not kept */
	bool read;	  /* what follows is what the xattrs say */
	int broken;	  /* 0, or -EIO: they make no sense */
	bool points, kept;
	struct gfid keeper; /* of the name that is not counted; null: any */
	bool shard;	    /* it is one of a directory whose home is elsewhere */
	struct pointer pointer;
	uint64_t version; /* of a file: number of its last change, or of when it came to be known */
	unsigned lockers; /* of a file: requests for locks that are under way */
	unsigned opened;  /* of a file: how often it is open */
	unsigned taken;	  /* of a directory: names that were taken from it (taken.c); they wrap around */
	unsigned on_disk; /* as many of them are */
	unsigned taking;  /* requests that may be taking one just now */
	bool syncing;
	struct layout *layout; /* NULL: it has none, and is whole */
	unsigned marks;
	struct mark *mark; /* of names in it */
};
/* What a request needs to know of an object. */
struct facts {
	bool points, wide, moving, marked; /* marked: names in it are */
	bool shard;			   /* its home is elsewhere */
	bool kept;			   /* a name of it is not counted, that of `keeper` */
	struct gfid keeper;
	uint64_t version; /* of its layout */
	uint32_t home;	  /* by it */
	bool goes;	  /* it is marked as one that is to go, dies, or is being moved, and nothing else: by `by` */
	struct mark by;
	struct pointer pointer;
};

/* The root of the volume, or of the tenant that asks. */
static inline bool is_top(const struct request *rq, const struct inode *inode)
{
	return gfid_equal(&inode->gfid, request_top(rq));
}

/* ---- tenants.c ---- */
/* What a tenant's client writes of ours must make sense, for it would be complained of each time it is read, and be said with PLACE (NULL: without): -EINVAL, -EPERM. */
int tenant_may_say(struct request *, const struct place *, enum fop, const void *in);
/* -EOPNOTSUPP to tenants' clients: what tells of all that is done at the brick is for those who move names and data, of tenants too. -EPERM: not root. */
int for_the_brick(const struct request *);

/* ---- known.c ---- */
struct known *known_of(struct xlator *, struct inode *); /* NULL: no memory */
void known_free(struct known *);
/* It was made, or made anew under the same gfid: what was known is of another object. */
void known_forget(struct xlator *, struct inode *);
/* `attr` (may be NULL) saves asking for what can't be a pointer. -EIO: its xattrs make no sense. */
int facts_of(struct request *, struct xlator *, struct inode *, const struct attr *, struct facts *);
/* For one who is in its gate, while its xattrs stay as they are: on success the lock is held, and they have been read. */
int known_locked(struct request *, struct xlator *, struct inode *, struct known *);
/* Runs a change of the object's xattrs (setxattr, removexattr) alone, and makes it durable: see P1 in doc/distribution.md. A mark is set and
 * removed only by whose it is, as `place` (NULL: heal) tells: -EMARKED, -EFENCED. */
int change_alone(struct request *, struct xlator *, const struct place *, enum fop, struct inode *, const void *in, void *out);
/* Not every user may read trusted.*, and it is not he who wants to know. The value is the caller's. */
int read_xattr(struct request *, struct xlator *, struct inode *, const char *name, struct blob *value);
int complain(struct xlator *, const struct inode *, const char *name);

/* Through an open file, as root: a directory or a regular file. */
int sync_opened(struct request *, struct xlator *, struct inode *);

/* Passes the gate of one alone; known_leave. -ETIMEDOUT, -ECANCELED. */
int known_enter(struct known *, uint64_t deadline_ns);
void known_leave(struct known *);

struct inside {
	struct known *first, *second, *victim;
	struct inode *kept; /* a reference: of the victim, which may be known to nobody else when it has gone */
};
/* Passes the gates of one or two directories (b may be NULL, or a). -ENOMEM, -ETIMEDOUT, -ECANCELED. */
int inside_enter(struct inside *, struct request *, struct xlator *, struct inode *a, struct inode *b);
/* Passes that of a directory which is to go, too, without waiting: -EMARKED. */
int inside_enter_victim(struct inside *, struct xlator *, struct inode *);
void inside_leave(struct inside *);
#define cleanup_inside __attribute__((cleanup(inside_leave)))

/* ---- kept.c ---- */
/* Of an object whose facts say that a name is not counted: that it is not. What an answer says of it was so at one moment. */
void kept_leave_out(struct request *, struct xlator *, struct inode *, const struct facts *, struct attr *);

/* ---- marks.c ---- */
/* Those of a directory, from its xattrs. */
struct ours { /* what else the object has */
	bool layout, pointer, kept, parent;
};
int marks_read(struct request *, struct xlator *, struct inode *, struct known *, struct ours *);
/* May a request of that intent (of none) do something with the name (`looks`: just look it up)? With the lock held. *ours: the mark is the intent's. */
int mark_judge(const struct known *, const struct place *, const char *name, bool looks, bool *ours);
/* Is it of that request's intent, and attempt? */
bool mark_is_of(const struct mark *, const struct place *);
/* The change of a mark, by itself; *done: nothing is to be changed. -EMARKED, -EFENCED. */
int mark_may_change(struct request *, struct xlator *, const struct place *, enum fop, struct inode *, const void *in,
		    bool *done);
/* The xattr that is changed is a mark. */
bool changes_mark(enum fop, const void *in);

/* Of the directory. It outlives what is known of that: an inode may be forgotten between two requests. */
atomic_uint_fast64_t *mark_changes_of(struct checks *, const struct gfid *);
/* No name may come to be there for a request of that intent (of none). With the lock held. */
bool is_dying(const struct known *, const struct place *);
/* A record is about to be removed: how its intent ended is remembered, for who began it, and was slow. */
void ended_note(struct request *, struct xlator *, const struct place *, const struct unlink_in *);
/* DHT_ENDED_XATTR. For root. */
bool asks_ended(const struct request *, enum fop, const void *in);
int ended_tell(struct request *, struct xlator *, const struct getxattr_in *, struct getxattr_out *);
/* DHT_MARKS_XATTR. For root. */
bool asks_marks(enum fop fop, const void *in);
int marks_tell(struct request *, struct xlator *, const struct getxattr_in *, struct getxattr_out *);

/* ---- taken.c: names that move away, and are taken (removed, renamed) where they were. Inside the gate, or of one who waits for nothing ---- */
void taking_begin(struct known *);
void taking_end(struct known *, bool taken); /* `taken`: or who knows */
/* That what was taken up to now has gone is on disk when this returns 0. Those who come together share one fsync; if nothing was taken since the last one there is none. */
int taken_sync(struct request *, struct xlator *, struct inode *directory);
/* Alone in the gate: the directory was synced, or that failed. */
void taken_synced(struct known *, int err);

/* ---- trees.c ---- */
/* -EWIDE: one of the two directories is below one that is away, and the other is not. */
int trees_compare(struct request *, struct xlator *, struct inode *, struct inode *);
/* DHT_PATH_XATTR. For root. */
bool asks_path(const struct request *, enum fop, const void *in);
int path_tell(struct request *, struct xlator *, const struct getxattr_in *, struct getxattr_out *);
/* DHT_PARENT_XATTR: to a later turn only, -EFENCED; *done: it says so already. Any other xattr passes. */
int parent_may_change(struct request *, struct xlator *, enum fop, struct inode *, const void *in, bool *done);

/* ---- files.c: regular files that are, or may be, moved to another subvolume ---- */
/* The file that the operation changes, or locks; NULL: none. */
struct inode *file_changed(enum fop, const void *in);
/* The operation, judged and counted: -EMARKED while it is being moved, but for who moves it; -EMOVED, -EFENCED. */
int file_change(struct request *, struct xlator *, const struct place *, enum fop, const void *in, void *out, struct inode *);
void file_counted(struct xlator *, struct inode *); /* a change that nobody judges */
/* The change of a pointer by an intent: -EFENCED if it does not move the file (any more). */
int stub_may_change(struct request *, struct xlator *, const struct place *, struct inode *, const void *in);
/* DHT_CHANGES_XATTR. For root. */
bool asks_changes(enum fop, const void *in);
int changes_tell(struct request *, struct xlator *, const struct getxattr_in *, struct getxattr_out *);
/* OPENED_LINE and LOCKED_LINE, behind what others tell of its location. */
int file_tell(struct request *, struct xlator *, struct inode *, struct blob *told);
void file_opened(struct xlator *, struct file *);
void file_closed(struct xlator *, struct file *);
/* ---- grown.c ---- */
void grown_init(struct grown *);
void grown_finish(struct grown *);
/* A name was made in the directory: now and then they are counted. */
void grown_count(struct request *, struct xlator *, struct inode *directory);
/* DHT_CANDIDATES_XATTR. For root. */
bool asks_candidates(const struct request *, enum fop, const void *in);
int candidates_tell(struct request *, struct xlator *, struct getxattr_out *);

/* ---- names.c ---- */
bool names_fop(enum fop, const void *in);
int names_judge(struct request *, struct xlator *, const struct place *, enum fop, const void *in, void *out);
/* Counts it. */
int refused(struct xlator *, int err);
#endif
