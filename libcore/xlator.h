/* SPDX-License-Identifier: Apache-2.0 */
/* What the author of a translator includes: see doc/translator-tutorial.md. */
#ifndef STRATUS_XLATOR_H
#define STRATUS_XLATOR_H
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <stdlib.h>
#include <string.h>

#include "fop.h"
#include "inode.h"
#include "log.h"
#include "option.h"
#include "request.h"
#include "task.h"

#define STRATUS_API_VERSION 1

/* A handler returns 0 or -errno. What `in` lends is borrowed until it returns; `out` is all zeros when it is called, and what
 * it holds on success is the caller's (of a readdir also the names, which are malloc'ed; fop_out_clear frees all); on failure it must be left empty.
 * An inode, a file, the data or the target that the fop gives must be there on success: fop_call answers -EIO for who forgets it, or returns
 * a positive number, and the log says who that was.
 * -ECANCELED from something that waits, or from a child, means that the caller does not want the answer any more: undo what is half done, and return it as it is. */
typedef int any_fop(struct request *, struct xlator *, enum fop, const void *in, void *out);

/* What travels upward, from a brick to the client or from a child to its parents. */
enum event_kind {
	EVENT_CHILD_UP,	  /* the child can be asked */
	EVENT_CHILD_DOWN, /* the child can't be reached (requests wait, or fail) */
	EVENT_LOCK_LOST,  /* inode, lock.owner: the brick gave the lock up (session ended, or grace period missed) */
	EVENT_STALE_FILE, /* inode: an open file could not be reopened after a restart */
	EVENT_RECALL, /* event_gfid: the token (doc/replication.md), or lease (doc/leases.md), of that object is wanted by somebody else */
	EVENT_SETTLE,	  /* somebody waits to hear that the changes under way have come to all replicas */
	EVENT_VIEW,	  /* the replica set has another view */
	EVENT_DISBELIEVE, /* inode: what was believed of it (believe_ms) may be wrong from the return of event_up on */
	EVENT_KINDS
};
struct event {
	enum event_kind kind;
	struct inode *inode;	     /* borrowed, or NULL */
	const struct client *client; /* to whom, on a server; NULL: to all */
	struct lock lock;
};
/* The gfid of an EVENT_RECALL, whose object need not be known: in lock.start and lock.end, big-endian words, so that the wire's order of bytes is one on all
 * machines. Nobody reads or writes these in another way. */
void event_set_gfid(struct event *, const struct gfid *);
struct gfid event_gfid(const struct event *);

enum { HANDLE_SIZE_MAX = 128 };

/* What a caller may believe of an object without asking again. Moments are numbers that rise; 0 is before all. */
enum believe {
	BELIEVE_ATTR, /* its attributes, as they were learnt after the moment; for what has other names than the one it was found by: not */
	BELIEVE_META, /* mode, owner and ACL */
	BELIEVE_NAME, /* one name of the directory, or that there is none such; what this client itself does to names, the caller knows */
	BELIEVE_NAMES, /* all names of the directory, this client's own changes included */
	BELIEVE_ATTR_LATE, /* as BELIEVE_ATTR; who is told takes them in somewhat later, and could not be told in between that they have changed */
};

struct bearer {		    /* whom handles are bound to */
	struct gfid tenant; /* zeros: of none */
	struct gfid access; /* its access point; zeros: none, all of the tree */
};
enum { VOUCHER_SIZE = 16 }; /* see vouch() */
struct xlator_type {
	unsigned api;	/* STRATUS_API_VERSION */
	bool shareable; /* an unchanged instance moves to the new graph in a graph switch (protocol/client) */
	bool front;	/* it brings requests in and nobody calls it (mount/fuse, protocol/server): what stands below it must
			       handle every fop, or the graph does not load */
	/* It has locks at several bricks, which are given back in an order: before the file through which they are held is released, not by it. */
	bool orders_locks;
	const char *name; /* "debug/trace" */
	const char *summary;
	const struct option *options;	/* ended by a NULL name; may be NULL */
	size_t private_size;		/* of x->private, zeroed, filled from the options before init */
	int min_children, max_children; /* max -1: any number; 0,0 means none (a leaf); most have 1,1 */
	int (*load)(void);		/* once per library, before the first instance; 0 or -errno */
	void (*unload)(void);
	/* Checks options and takes resources, but does nothing that others can see; errors as a sentence in *problem. */
	int (*init)(struct xlator *, struct problem *);
	/* Before anything starts: takes what other programs may have taken (a port), so that a start which can't succeed has
	 * changed nothing yet. Undone by stop. */
	int (*claim)(struct xlator *, struct problem *);
	/* The graph below is ready; may connect, listen, mount. In a task or on a plain thread. */
	int (*start)(struct xlator *, struct problem *);
	/* The process is going to end, in good order: tells others who count on it, so that they need not find out. Called again and again, for some seconds
	 * at most, until it returns true: nothing is left to wait for. Never waits; what is asked of it is served as before. */
	bool (*retire)(struct xlator *);
	void (*stop)(
		struct xlator
			*); /* undoes claim and start, even if only the first was done: no new upward events after it returns */
	void (*finish)(struct xlator *); /* undoes init */
	/* A live option was changed (the field already has its new value). */
	void (*reconfigure)(struct xlator *, const struct option *);
	/* An event from a child; without one it goes to all parents. */
	void (*notify)(struct xlator *, struct xlator *from, const struct event *);
	/* It moves to a new graph, whose translators have not seen what it told the old one's: it tells its state again
	 * (EVENT_CHILD_UP or _DOWN), as that graph starts, and when it has moved. For those that are shareable. */
	void (*announce)(struct xlator *);
	/* The object goes, or the translator: frees what its slot had. On whatever thread or task gave the last reference back, so it never waits, and
	 * calls no fop. Who gave it back may hold locks: this takes none that anybody of the translator holds while he gives an inode or a file back
	 * (a pthread mutex would wait for itself). It may give others back. */
	void (*forget_inode)(struct xlator *, struct inode *, void *slot);
	void (*forget_file)(struct xlator *, struct file *, void *slot);
	/* In a graph that takes the place of one with a translator of this name and type, before anybody calls it: what `old` has kept in the file is its own from
	 * now on. Requests that are under way in the old graph may be using it still. False: it stays there, and goes with that graph. Without one nothing is taken on. */
	bool (*inherit_file)(struct xlator *, const struct xlator *old, struct file *, void *slot);
	void (*client_gone)(struct xlator *, const struct client *); /* on a server: the session has ended for good */
	/* On a server that has restarted: the client has asked for all that it held before. */
	void (*client_reclaimed)(struct xlator *, const struct client *);
	/* Facts for `stratus dump`: print lines "key: value" (two blanks in front) to the stream. */
	void (*dump)(struct xlator *, FILE *);
	/* A command from `stratus ctl TARGET XLATOR WORDS...`; writes its answer to the stream; -EINVAL: not understood. */
	int (*command)(struct xlator *, int argc, char **argv, FILE *);
	/* Leaves only: the opaque, unforgeable name by which protocol/server tells a client of the object. *size: room in `bytes`
	 * (HANDLE_SIZE_MAX is enough), then bytes used. -ENOBUFS, -ESTALE. */
	int (*inode_handle)(struct xlator *, struct inode *, void *bytes, size_t *size);
	/* The way back: a reference in *inode; -ESTALE when forged, foreign or gone (that may also show in the fop only, for an
	 * object that is in memory); another -errno when that can't be told. May block, never waits. */
	int (*inode_from_handle)(struct xlator *, const void *bytes, size_t size, struct inode **inode);
	/* Leaves only: the same two with a name that is bound to its bearer, too: it is stale to anybody else, and so is a name without a
	 * bearer, or of another one, to him. Leaves that have none can't have tenants above them. */
	int (*tenant_handle)(struct xlator *, const struct bearer *, struct inode *, void *bytes, size_t *size);
	int (*tenant_from_handle)(struct xlator *, const struct bearer *, const void *bytes, size_t size, struct inode **inode);
	/* In a replica set: what shows to all its members that a client of the tenant, or of its access point, was told of the object with that gfid by one of them
	 * (doc/tenants.md, T8). protocol/server has it behind the handle, for such clients. 0 or -ENOMEM. */
	int (*vouch)(struct xlator *, const struct bearer *, const struct gfid *, uint8_t voucher[VOUCHER_SIZE]);
	/* Leaves only, at clients of such a set: what came with the object. -ENODATA: it is not known here. */
	int (*voucher)(struct xlator *, struct inode *, uint8_t voucher[VOUCHER_SIZE]);
	/* On a server: may this client be here? 0, or -EACCES, or why it can't be told. With `root`, in a task, when it comes: what is its root (a
	 * reference), and whom its handles are bound to. (When one more of its connections comes the client has its root already, which stays.) Without, at any time while it is here: never waits. */
	int (*admit)(struct xlator *, const struct client *, struct inode **root, struct bearer *);
	/* In a replica set, for what stands below features/replica: this member decides about limits, in the view of that epoch; 0: it does not, now. Told before a change of that
	 * view is let through, and before the member stops for another one. Never waits. */
	void (*decides)(struct xlator *, uint64_t epoch);
	/* Leaves only: makes durable all that was done before. 0 or -errno. May block. */
	int (*sync)(struct xlator *);
	/* Leaves only, and optional: what is read of that part of the file from now on is what the disk has, also where it did not take what is in memory; but what is yet to be written
	 * there is read as it will be. length 0: to the end. May block. */
	void (*reread)(struct xlator *, const struct file *, uint64_t offset, uint64_t length);
	/* Leaves only: the names of the object as far as it tells of them, as packed by u32 count, then for each the parent's gfid, u8
	 * length, name (integers big-endian). The caller frees links->bytes. -ESTALE, -ENOMEM, -EIO. */
	int (*inode_links)(struct xlator *, struct inode *, struct blob *links);
	/* See believe_ms() below; with no inode: the moment that is now. */
	uint64_t (*believe)(struct xlator *, struct inode *, enum believe, uint64_t since);
	any_fop *any; /* every operation without its own handler */
#define X(op) int (*op)(struct request *, struct xlator *, const struct op##_in *, struct op##_out *);
	FOPS(X)
#undef X
};

struct graph;
struct xlator {
	const struct xlator_type *type;
	char *name; /* as in the volfile */
	void *private;
	struct xlator **child;
	int children;
	struct xlator **parent;
	int parents;
	struct graph *graph;
	struct inode_table *inodes; /* of the graph's side: gfids become inodes here */
	struct option_value *given; /* as the volfile gave them */
	size_t given_count;
	struct xlator *handler[FOP_COUNT]; /* for each fop the first one, here or below, that handles it */
	void *library;
	bool ready, started;	 /* init, start have succeeded */
	_Atomic uint64_t broken; /* fops (bits) whose answer was none: it has been told */
};

/* Each module defines:  const struct xlator_type xlator_type = { .api = STRATUS_API_VERSION, .name = ..., ... };
 * and XLATOR_MODULE once, which stamps the build. */
extern const struct xlator_type xlator_type __attribute__((visibility("default")));
#define XLATOR_MODULE __attribute__((visibility("default"))) const unsigned xlator_api_version = STRATUS_API_VERSION;

/* Calls the first translator, from `to` downward, that handles the fop. */
int fop_call(struct request *, struct xlator *to, enum fop, const void *in, void *out);
/* For `.any` handlers: passes on to the only child. */
static inline int fop_pass(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	return fop_call(rq, x->child[0], fop, in, out);
}
/* The typed forms, one per fop:  int read_on(rq, child, &in, &out)  */
#define X(op)                                                                                                                  \
	static inline int op##_on(struct request *rq, struct xlator *to, const struct op##_in *in, struct op##_out *out)       \
	{                                                                                                                      \
		return fop_call(rq, to, FOP_##op, in, out);                                                                    \
	}
FOPS(X)
#undef X

/* For how many ms what was learnt of the inode since that moment may be believed without asking, unless EVENT_DISBELIEVE comes: nobody else
 * changes it in that time. 0: not at all. An object's attributes may also be changed through the directory that has its name, which must
 * be asked for BELIEVE_NAME too. Asks the first translator from `to` downward that can tell; nobody: 0. */
uint64_t believe_ms(struct xlator *to, struct inode *, enum believe, uint64_t since);
uint64_t moment_now(struct xlator *to); /* 0: nothing is ever to be believed */

/* Tells the parents (each in turn, on the caller's thread or task; handlers must be quick or spawn a task). */
void event_up(struct xlator *from, const struct event *);

/* ---- fan-out: one fop to several children at once ----
 * The call owns copies of `in` and space for each `out`, so an answer that comes after the caller has gone does no harm. */
struct fanout;
/* Starts the fop on each child whose bit is set in `mask` (bit i: child i), each as a task. NULL when memory is short. */
struct fanout *fanout_start(struct request *, struct xlator *, enum fop, const void *in, uint64_t mask);
/* Waits until `successes` children have succeeded, or all have answered, or the deadline is past. Number that succeeded so far. */
int fanout_wait(struct fanout *, int successes, uint64_t deadline_ns);
/* The answer of child i: its out (borrowed) with *err 0; NULL with *err -errno, or -EINPROGRESS while it is under way. */
const void *fanout_out(const struct fanout *, int child, int *err);
/* Moves the out of child i to the caller (who then owns its contents). */
int fanout_take(struct fanout *, int child, void *out);
void fanout_cancel(struct fanout *); /* cancels those under way */
/* The caller goes. `late` (may be NULL) is called, on a task, for each answer that comes later. */
void fanout_leave(struct fanout *, void (*late)(struct xlator *, int child, int err, const void *out));
void fanout_drop(struct fanout *); /* cancels and leaves; NULL: nothing */
#endif
