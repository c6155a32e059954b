/* SPDX-License-Identifier: Apache-2.0 */
/* Inside features/locks: who holds and who waits, and the durable list of clients that hold locks. */
#ifndef LOCKS_H
#define LOCKS_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "identity.h"
#include "xlator.h"

struct party { /* whose lock it is */
	struct lock_client *client;
	uint64_t owner;
};
struct held { /* a granted range */
	struct party party;
	struct lock lock;
	uint64_t incarnation;	 /* of the client's session that took it */
	const struct file *file; /* the open file it was taken through last; compared, never followed */
	struct held *next;
};
struct waiter { /* on the stack of the task that waits */
	struct held want;
	struct held *spare[2]; /* what the grant will use up, so that it can't fail */
	struct lock_inode *at;
	struct task *task;
	int result;		    /* -EINPROGRESS until granted or given up by another */
	struct waiter *next, *prev; /* of the inode, in order of arrival */
	struct waiter *client_next, *client_prev;
	uint64_t seen;		   /* the last search for a deadlock that has come to it */
	struct waiter *queue_next; /* in that search */
};
struct pin { /* on the stack of the task that does a change with HELD: as long as it does, the lock is nobody else's, even if it is given back meanwhile */
	struct held held;
	struct lock_inode *at;
	struct pin *next;
};
struct lock_inode {	      /* slot of an inode; made by its first lock */
	struct inode *inode;  /* borrowed */
	struct held *held[2]; /* by enum lock_kind; ranges of one party never overlap, nor touch with the same type */
	uint64_t held_count;  /* of both kinds */
	struct waiter *waiter, *last_waiter;
	uint64_t waiting;
	struct pin *pin;
	uint64_t pins;
	struct waiter *grant;  /* something was given back: from this one on they are still to be looked at. Or NULL */
	uint64_t grant_number; /* of what was given back last */
	struct lock_inode *grant_next, *grant_prev; /* of those with `grant` */
	struct lock_inode *next, *prev;
};
struct lock_tenant { /* what all clients of one tenant have together */
	char name[IDENTITY_NAME + 1];
	uint64_t locks; /* with those that are waited for */
	struct lock_tenant *next;
};
enum reclaim_state { NOT_EXPECTED, EXPECTED, RECLAIMING };
struct lock_client {
	uint8_t id[16];
	struct lock_tenant *tenant; /* NULL: of none, or it has not come since the start */
	char *identity;		    /* of a tenant's: who it is. NULL as the other is */
	uint64_t locks;
	unsigned users; /* requests that work with it */
	unsigned waiting;
	struct waiter *waiter; /* on all inodes */
	bool recorded;	       /* there is a durable record; see locks-grace.c */
	uint64_t ended;	       /* sessions with a lower incarnation have ended */
	bool obsolete;	       /* the record is of an earlier session, of which nothing is left to get back */
	enum reclaim_state reclaim;
	struct lock_client *next;
};
struct locks {
	char *state_dir;
	uint64_t grace_ms;
	int64_t max_locks;
	pthread_mutex_t turn; /* to take `lock`; taken before it, see locks_take_in_turn */
	pthread_mutex_t lock; /* guards all below and all structs above; short */
	struct lock_client *client;
	struct lock_tenant *tenant; /* as many as there are tenants: they stay */
	struct lock_inode *inode;
	struct lock_inode *granting, *last_granting; /* with somebody who is still to be looked at, by grant_number */
	uint64_t grants;			     /* the last grant_number */
	uint64_t searches;			     /* for deadlocks */
	uint64_t started_ns;
	uint64_t grace_end_ns; /* 0: no grace period (any more) */
	unsigned expected;     /* clients that aren't done with their reclaims */
	bool sweeping;	       /* one task is ending the grace period */
	struct task_cond grace_over;
	pthread_mutex_t records; /* serialises work in the directory; taken before `lock` */
	uint64_t granted, waited, deadlocks, lost, not_held, paused;
	atomic_uint_fast64_t lost_told_ns; /* when the log was told of one */
};

/* ---- locks-range.c: work on lists; the lock is held ---- */
/* The first lock in the way of `want`, or NULL. */
struct held *held_conflict(const struct lock_inode *, const struct held *want);
/* True if the party holds all of the range with that type already. */
bool held_covers(const struct lock_inode *, const struct held *want);
/* So many more locks there are with that than without, at most: none, if the party has it, or one in whose place it comes. */
enum { ADDS_MOST = 2 }; /* it is of another type than what is left on both sides of it */
unsigned held_adds(const struct lock_inode *, const struct held *want);
/* True if the party holds some of the range. */
bool held_gives_back(const struct lock_inode *, const struct held *want);
/* True if so many more locks, and one more who waits (`waits`), would make too much work of each that is given back. */
bool held_too_many(const struct lock_inode *, unsigned adds, bool waits);
/* True if the party has bytes of the range for writing that it then has for reading only: others may read then, too. */
bool held_lowers(const struct lock_inode *, const struct held *want);
/* True if the party has a lock of which the range is the middle, so that two would be left of it. */
bool held_splits(const struct lock_inode *, const struct held *want);
/* Takes the range away from its party's locks and, unless it unlocks, gives it the new type. Takes what it uses from spare. */
void held_apply(struct lock_inode *, const struct held *want, struct held *spare[2]);
/* Takes away all locks of the kind for which `match` is true. Number taken. */
unsigned held_drop(struct lock_inode *, enum lock_kind, bool (*match)(const struct held *, const void *), const void *);
/* Would waiting for `me` close a circle of POSIX locks? */
bool waits_for_itself(struct locks *, struct waiter *me);

/* ---- locks.c ---- */
/* Takes p->lock, after those who have had to wait for it. A mutex alone goes to who is awake: mostly to who has just let it go. */
static inline void locks_take_in_turn(struct locks *p)
{
	pthread_mutex_lock(&p->turn);
	pthread_mutex_lock(&p->lock);
	pthread_mutex_unlock(&p->turn);
}

/* Takes p->lock; who finds it free needs no turn. */
static inline void locks_take(struct locks *p)
{
	if (pthread_mutex_trylock(&p->lock))
		locks_take_in_turn(p);
}

/* Something was given back: whoever can have its lock now gets it here; the lock is held, but for a moment now and then where that is much work. In those moments
 * other tasks run, if the caller is one and `yields`: it holds nothing then that others wait for. */
void grant_waiters(struct locks *, struct lock_inode *, bool yields);

/* ---- locks-held.c: changes that are good only while a lock is held (held.h) ---- */
int locks_write(struct request *, struct xlator *, const struct write_in *, struct write_out *);
int locks_setattr(struct request *, struct xlator *, const struct setattr_in *, struct setattr_out *);
int locks_fallocate(struct request *, struct xlator *, const struct fallocate_in *, struct fallocate_out *);
int locks_setxattr(struct request *, struct xlator *, const struct setxattr_in *, struct setxattr_out *);

/* ---- locks-grace.c: clients, and what of them survives a restart ---- */
/* The client with that id, made if it is new and `make`; the caller gives it back with client_put. */
struct lock_client *client_get(struct locks *, const struct client *, bool make);
void client_put(struct xlator *, struct lock_client *); /* NULL is fine */
/* So many more locks that it holds or waits for; the lock is held. */
void client_count(struct lock_client *, int more);
void client_free_all(struct locks *);
int record_write(struct xlator *, struct lock_client *);   /* durable when it returns 0 */
void record_remove(struct xlator *, struct lock_client *); /* unless another request uses the client, or it holds locks */
int grace_start(struct xlator *, struct problem *);
/* Waits until new locks may be granted. -ECANCELED; -EAGAIN past the deadline. */
int grace_wait(struct xlator *, uint64_t deadline_ns);
/* The client reclaims, or (false) is done with that; the lock is held. */
void grace_note(struct locks *, struct lock_client *, bool reclaims);
/* The client gets no more of its locks back, and others need not wait for it; the lock is held. */
void grace_done(struct locks *, struct lock_client *);
#endif
