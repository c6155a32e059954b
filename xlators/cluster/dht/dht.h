/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht's parts: which subvolume an operation is for (dht.c), the root as all of them have it (root.c), its listing (list.c). */
#ifndef STRATUS_DHT_H
#define STRATUS_DHT_H
#include <fcntl.h>

#include "layout.h"
#include "place.h"
#include "xlator.h"

/* A mask of subvolumes is one word. */
enum { SUBVOLUMES_MAX = 64 };

struct dht {
	int64_t log_size; /* option: places that an open root remembers */

	struct xlator *x;
	struct layout root;	     /* all subvolumes, with equal weights; a member's id is the number of the child */
	atomic_uint_fast64_t down;   /* those that have not said that they are up, or have said that they are down since */
	atomic_bool strays;	     /* that there is something in the wrong root was told */
	atomic_bool differ;	     /* that the roots' owners or modes differ was told */
	struct task_lock changing;   /* of the root's attributes, by this client */
	atomic_uint_fast64_t across; /* operations over several subvolumes that were refused */
};

static inline bool is_root(const struct inode *inode)
{
	return inode && gfid_equal(&inode->gfid, &gfid_root);
}

static inline uint64_t all_of(const struct dht *d)
{
	return d->x->children < SUBVOLUMES_MAX ? (1ull << d->x->children) - 1 : UINT64_MAX;
}

/* What the operation ends with if a branch of a fan-out was not waited for: its deadline has come, or it was interrupted. */
static inline int fanout_error(const struct request *rq, int err)
{
	if (err != -EINPROGRESS)
		return err;
	return rq->deadline_ns && clock_ns() >= rq->deadline_ns ? -ETIMEDOUT : -ECANCELED;
}

/* It tells of the subvolume, which others may do without, not of the request. */
static inline bool unreached(int err)
{
	return err == -ENOTCONN || err == -EIO || err == -ETIMEDOUT || err == -EINPROGRESS;
}

/* Those that have said that they are up, and not that they are down since; all, if none has. */
uint64_t present_of(struct dht *);
/* A reference on the root; NULL: no memory. */
struct inode *root_of(struct dht *);
/* The subvolume that has, or is to have, that name of the root. */
int root_owner(const struct dht *, const char *name);
/* The subvolume has the object (NULL: none). -EIO: another one has it, too; that is told. */
int note_place(struct dht *, struct inode *, int child);
/* The subvolume that has the object, which is not the root; they are asked if it is not known. */
int subvolume_of(struct request *, struct dht *, struct inode *, int *child);

/* ---- root.c: what is asked of the root itself ---- */
/* Owner, mode and so on as all have them; the latest times; sizes and link counts of those that are present, summed. */
int root_getattr(struct request *, struct dht *, struct attr *);
/* Any fop but those on names, listings and statfs, for which the root is the object. */
int root_fop(struct request *, struct dht *, enum fop, const void *in, void *out);
int dht_statfs(struct request *, struct xlator *, const struct statfs_in *, struct statfs_out *);

/* ---- location.c: where an object is, and why (location.h) ---- */
int dht_location(struct request *, struct dht *, const struct getxattr_in *, struct getxattr_out *);

/* ---- list.c: an open root ---- */
struct wide; /* slot of the file: the subvolumes' own files, and the log of places */
int root_opendir(struct request *, struct dht *, struct opendir_out *);
int root_readdir(struct request *, struct dht *, const struct readdir_in *, struct readdir_out *);
int root_release(struct request *, struct dht *, struct file *);
/* The subvolume's own file of an open root; opened there as the request's user if it isn't yet. A reference in *at. */
int wide_at(struct request *, struct dht *, struct file *, int child, struct file **at);
void wide_free(struct wide *);
#endif
