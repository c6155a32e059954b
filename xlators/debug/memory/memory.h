/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of debug/memory share: the brick and its objects. */
#ifndef STRATUS_MEMORY_H
#define STRATUS_MEMORY_H
#include <pthread.h>
#include <sys/stat.h>

#include "change-time.h"
#include "xlator.h"

struct entry {
	char *name;
	struct object *object;
	uint64_t cookie; /* rises with each entry made: the offset of readdir */
	struct entry *next;
};
struct pair { /* an extended attribute */
	char *name;
	struct blob value;
	struct pair *next;
};
struct object {
	struct attr attr;
	char *data; /* bytes of a file, or the target of a link */
	struct entry *entry;
	struct pair *xattr;
	struct change_time changed;
	unsigned known;	     /* inodes whose slots point here */
	struct object *next; /* in the table's bucket */
};
enum { BUCKETS = 1024 };
struct memory {
	uint64_t limit;
	pthread_mutex_t lock; /* guards all below; taken before inode locks; inodes are never let go under it */
	struct object *bucket[BUCKETS];
	uint64_t bytes, objects, cookie;
};

static inline void memory_unlock_at(struct memory **p)
{
	pthread_mutex_unlock(&(*p)->lock);
}
/* For a variable that is cleanup_unlock. The handlers and what is in the translator's table take the lock; all else below is
 * called with it. */
static inline struct memory *memory_lock(struct xlator *x)
{
	struct memory *p = x->private;

	pthread_mutex_lock(&p->lock);
	return p;
}
#define cleanup_unlock __attribute__((cleanup(memory_unlock_at)))

/* ---- memory-objects.c ---- */
struct object *memory_object_new(struct memory *, const struct gfid *, mode_t); /* without a name yet; NULL: no memory */
void memory_object_free(struct memory *, struct object *);
/* Take one out of its list and free it. */
void memory_pair_free(struct pair **);
void memory_entry_free(struct entry **);
/* The object of that gfid that has a name, or else the one that only open files keep. */
struct object *memory_bearer(struct memory *, const struct gfid *);
struct object *memory_object_of(struct xlator *, struct inode *); /* NULL: there is none */
/* The object's inode, which is the caller's, and its attributes. 0 or -ENOMEM. */
int memory_give(struct xlator *, struct object *, struct inode **, struct attr *);
void memory_be_born(const struct request *, struct object *);	       /* made again, at the request's time */
void memory_touch(struct request *, struct object *);		       /* the contents have changed: ctime and mtime */
void memory_drop_link(struct memory *, struct object *);	       /* it may be freed */
void memory_forget_inode(struct xlator *, struct inode *, void *slot); /* in the translator's table */

/* ---- memory-names.c ---- */
/* A new object with its first name. -EEXIST: *made is what has the name, NULL if the gfid is in use instead. */
int memory_make(struct request *, struct xlator *, const struct loc *, const struct gfid *, mode_t, struct object **made);
int memory_inode_links(struct xlator *, struct inode *, struct blob *); /* in the translator's table */

/* ---- memory-attrs.c ---- */
int memory_born(const struct request *, struct object *); /* it gets the attributes that the request says */

/* ---- memory-files.c ---- */
int memory_resize(struct request *, struct memory *, struct object *, uint64_t size); /* -ENOSPC above the limit */

/* ---- the handlers, of which some fops have none ---- */
#define X(op) int memory_##op(struct request *, struct xlator *, const struct op##_in *, struct op##_out *);
FOPS(X)
#undef X
#endif
