/* SPDX-License-Identifier: Apache-2.0 */
/* Inside features/layout: what is known of objects and the gates of directories (known.c), the judgement of names (names.c), marks of them
 * (marks.c), and directories that get another parent (trees.c). */
#ifndef STRATUS_SHARD_H
#define STRATUS_SHARD_H
#include "layout.h"
#include "place.h"
#include "xlator.h"

struct checks {
	int64_t subvolume;		 /* option: the number of this one in layouts and pointers */
	int64_t initial;		 /* option: subvolumes that the volume began with; 0: not known */
	struct layout implied;		 /* of those: the root's, while it has none on disk */
	struct gfid self;		 /* of this process' translator: who counts */
	atomic_uint_fast64_t root_marks; /* changes of marks of names of the root */
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
	bool points;
	struct pointer pointer;
	struct layout *layout; /* NULL: it has none, and is whole */
	unsigned marks;
	struct mark *mark; /* of names in it */
};
/* What a request needs to know of an object. */
struct facts {
	bool points, wide, marked; /* names in it are */
	uint64_t version;	   /* of its layout */
	bool goes;		   /* it is marked as one that is to go, and nothing else: by `by` */
	struct mark by;
	struct pointer pointer;
};

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

/* ---- marks.c ---- */
/* Those of a directory, from its xattrs. */
int marks_read(struct request *, struct xlator *, struct inode *, struct known *, bool *has_layout, bool *has_pointer);
/* May a request of that intent (of none) do something with the name? With the lock held. *ours: the mark is the intent's. */
int mark_judge(const struct known *, const struct place *, const char *name, bool *ours);
/* Is it of that request's intent, and attempt? */
bool mark_is_of(const struct mark *, const struct place *);
/* The change of a mark, by itself; *done: nothing is to be changed. -EMARKED, -EFENCED. */
int mark_may_change(struct request *, struct xlator *, const struct place *, enum fop, struct inode *, const void *in,
		    bool *done);
/* The xattr that is changed is a mark. */
bool changes_mark(enum fop, const void *in);

/* What counts as a change of marks of the root's names. */
bool changes_root_mark(enum fop fop, const struct inode *, const void *in);
/* DHT_MARKS_XATTR. For root. */
bool asks_marks(enum fop fop, const void *in);
int marks_tell(struct request *, struct xlator *, const struct getxattr_in *, struct getxattr_out *);

/* ---- trees.c ---- */
/* -EWIDE: one of the two directories is below one that is away, and the other is not. */
int trees_compare(struct request *, struct xlator *, struct inode *, struct inode *);
/* DHT_PATH_XATTR. For root. */
bool asks_path(enum fop, const void *in);
int path_tell(struct request *, struct xlator *, const struct getxattr_in *, struct getxattr_out *);
/* DHT_PARENT_XATTR: to a later turn only, -EFENCED; *done: it says so already. Any other xattr passes. */
int parent_may_change(struct request *, struct xlator *, enum fop, struct inode *, const void *in, bool *done);

/* ---- names.c ---- */
bool names_fop(enum fop, const void *in);
int names_judge(struct request *, struct xlator *, const struct place *, enum fop, const void *in, void *out);
/* Counts it. */
int refused(struct xlator *, int err);
#endif
