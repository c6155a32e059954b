/* SPDX-License-Identifier: Apache-2.0 */
/* A request: who asks, until when, for which graph, and where it is just now. */
#ifndef STRATUS_REQUEST_H
#define STRATUS_REQUEST_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "inode.h"

struct graph;
struct task;
struct xlator;
struct request;

/* What the brick answers when its decision depends on the caller's supplementary groups and they were not sent:
 * protocol/client loads them (request_groups) and asks again. Never seen by an application. */
#define ENEEDGROUPS 4100
/* A graph switch cancelled a wait in the old graph: mount/fuse asks again in the new one. Never seen by an application. */
#define ERESTARTGRAPH 4101
/* A member of a replica set whose account's limit is near (LIMITS_ASK): nothing is done before the set's first member has decided. Never seen by an application. */
#define EASKFIRST 4102
/* What EDQUOT is in a set (LIMITS_FIRST, LIMITS_DECIDED): the limit refused it, and nothing of it was done. cluster/afr tells applications EDQUOT. */
#define EOVERLIMIT 4103
/* The last of the numbers that are kept for such errors (4110 and on: xlators/cluster/replica.h; 4120 and on: xlators/cluster/dht/place.h). */
#define ELAST 4125
/* What an error is called, for people, as by strerror: of the numbers above, which are all for a moment, that it is to be tried again. `err` may be negative. */
const char *error_text(int err);
static inline bool error_is_ours(int err)
{
	return err >= ENEEDGROUPS || err <= -ENEEDGROUPS;
}

/* One who holds locks and open files: on a server, a client's session. Translators key what they keep by it. */
struct client {
	uint8_t id[16];	      /* chosen by the client at start */
	uint64_t incarnation; /* rises when the session had to be made anew */
	const char *name;     /* for logs: host:port or "local" */
	const char *identity; /* who it is by its certificate, as a URI; NULL: nobody has vouched for it */
	struct gfid
		acts_for; /* it says that it moves what this tenant has: features/cloud judges whether it may. Zeros: it does not */
	struct gfid root; /* the directory that it knows as gfid_root, from when it was admitted; zeros: it was not yet */
	_Atomic uint64_t alone_since_ns; /* since when it has no connection, though it may come back; 0: it has one */
	atomic_uint refs;
};

/* Something that one translator tells another beside the fop: declared by number in extension.def, typed by its
 * version. Who does not know an optional one ignores it; a critical one that nobody knows fails the request with
 * -EOPNOTSUPP. */
struct extension {
	uint32_t type, version;
	bool critical;
	uint32_t size;
	void *bytes; /* owned by the request */
	struct extension *next;
};

#define TIME_KEPT (1ull << 63) /* see request.time_ns */

/* What features/usage does about an account's limit, as features/replica above it tells (doc/usage.md, "In a replica set"). */
enum limits_rule {
	LIMITS_ALONE,	/* no replica: what is above the limit is refused */
	LIMITS_FIRST,	/* the set's first member: so it is here, too, and that decides */
	LIMITS_ASK,	/* another one: what may be too much is to be asked of the first, before anything is done */
	LIMITS_DECIDED, /* another one: the first has decided; only what is far above the limit is refused */
	LIMITS_HEAL	/* whoever makes members equal: nothing is refused */
};

/* What a translator keeps of a request that it has let in where only so many are at a time. */
struct admission {
	/* Told when one below begins (on) and ends to wait for other clients: meanwhile the request does not count. Neither waits nor fails. */
	void (*aside)(struct admission *, bool on);
};

enum { TRAIL_MAX = 16 };
struct trail { /* one translator on the way of the request */
	_Atomic(const struct xlator *) at;
	atomic_int fop;
};

struct request {
	uint64_t id; /* unique in the mount's life; the same in the server's log */
	uid_t uid;
	gid_t gid;
	uid_t root; /* who has root's powers beside uid 0: below features/cloud the root of the tenant that asks. 0: nobody else */
	struct gfid
		tree; /* below features/cloud: the directory that is the root of all for the tenant that asks; zeros: for who asks gfid_root is */
	struct gfid
		access;	 /* below features/cloud: the access point by which who asks has come to that tree; zeros: none. Then */
	struct gfid top; /* is the directory that he knows as gfid_root, for all of the tree is not his */
	enum limits_rule limits;
	bool administers; /* below features/cloud: who asks has the certificate of the tenant's own administrator */
	bool moves;	  /* below features/cloud: who asks is the provider's, and moves names and files of the tenant */
	pid_t pid;
	int32_t group_count;  /* -1: not known yet, ask request_groups() */
	gid_t *groups;	      /* owned; in any order, see request_in_group() */
	uint8_t groups_asked; /* how often request_in_group() walked them: at last it sorts them */
	uint64_t lock_owner;
	uint64_t deadline_ns; /* monotonic; 0: none */
	uint64_t born_ns;
	/* Since the epoch: what mtime of what it changes becomes, and birth of what it makes; 0: the clock. With TIME_KEPT added to it, mtime
	 * stays as the change before left it, if the leaf knows of one: else somebody's change would be undone that came just before. */
	uint64_t time_ns;
	uint64_t
		moment; /* what is answered was read after it (believe_ms), and what was made was nobody else's before; 0: not told. A translator may advance it */
	bool resent;	/* the first try may have been done: creation that finds its own gfid is a success */
	bool untouched; /* the leaf had no room for it, and saw so before it changed anything. For who has cleared it before */
	bool made;	/* the leaf has made an object for it, also if it failed after that. For who has cleared it before */
	struct client *client; /* NULL for the process's own doings */
	struct graph *graph;
	atomic_uint depth; /* how many translators it is in just now; the outermost are in trail */
	struct task *task;
	struct extension *extensions, *reply_extensions;
	/* Gives the groups (malloc'ed) or -errno; may be NULL (then request_groups says -ENEEDGROUPS). */
	int (*load_groups)(struct request *, gid_t **groups);
	/* Told when a translator begins (on) and ends to hold the request back, before anything was done for it; `crowded`: so many are held
	 * for whoever asks that no more of his should be taken in. May be NULL. */
	void (*held)(struct request *, bool on, bool crowded);
	struct admission *admission;   /* of who has let it in, and bounds how many are; NULL: nobody does. A copy has none */
	atomic_bool hurry;	       /* it is not to be held back any more: set before its task is woken */
	struct request *next, *prev;   /* in the list of those in flight */
	struct trail trail[TRAIL_MAX]; /* last: request_init does not clear it */
};

/* Storage is the caller's. Enters the request in the process's list of requests in flight. Takes no reference on client;
 * the caller keeps it. id 0: a new one. */
void request_init(struct request *, struct graph *, uint64_t id);
static inline bool request_is_root(const struct request *rq)
{
	return rq->uid == 0 || rq->uid == rq->root;
}
/* May what is there be what a first try of the request has made, which wanted that type? That it is sent again, and whose gfid it has, the client says: it may mean another's
 * object, or what is no file. */
static inline bool request_may_have_made(const struct request *rq, mode_t wanted, mode_t found, uid_t owner)
{
	return (found & S_IFMT) == (wanted & S_IFMT) && (request_is_root(rq) || owner == rq->uid);
}
/* Who asks is a tenant, and what he says of others' objects is to be believed in his own tree only. */
static inline bool request_is_tenants(const struct request *rq)
{
	return !gfid_is_null(&rq->tree);
}
/* Of the tree he has a part: what is above and beside it is not there for him. */
static inline bool request_is_confined(const struct request *rq)
{
	return !gfid_is_null(&rq->access);
}
/* Who asks may administer the tenant whose tree this is, and nobody else's. */
static inline bool request_is_tenants_admin(const struct request *rq)
{
	return request_is_tenants(rq) && rq->administers;
}
/* The provider moves what the tenant has whose tree this is: that is neither refused for the tenant's limits nor one of his requests, and he who asks may know what concerns the
 * brick. */
static inline bool request_is_movers(const struct request *rq)
{
	return request_is_tenants(rq) && rq->moves;
}
/* It begins (on), or ends, to wait for what other clients do, whose time is not the storage's. Both in its own task, and in pairs. */
static inline void request_aside(struct request *rq, bool on)
{
	if (rq->admission)
		rq->admission->aside(rq->admission, on);
}
/* The directory that who asks knows as gfid_root. */
static inline const struct gfid *request_top(const struct request *rq)
{
	return request_is_confined(rq) ? &rq->top : request_is_tenants(rq) ? &rq->tree : &gfid_root;
}
/* As who asks calls the object that has this gfid here. */
static inline const struct gfid *request_gfid(const struct request *rq, const struct gfid *gfid)
{
	return gfid_equal(gfid, request_top(rq)) ? &gfid_root : gfid;
}
void request_finish(struct request *);
/* Number of supplementary groups in *groups (owned by the request), or -errno; -ENEEDGROUPS if they must come from the
 * client. */
int request_groups(struct request *, const gid_t **groups);
/* 1 if the caller is in the group, with his gid or a supplementary one; 0 if not; or -errno as request_groups(). Many questions cost
 * little: it may sort the request's groups. */
int request_in_group(struct request *, gid_t);
const struct extension *request_extension(const struct request *, uint32_t type);
int request_extend(struct extension **list, uint32_t type, uint32_t version, bool critical, const void *, uint32_t size);
void request_retract(struct request *, uint32_t type); /* takes back all of that type */
bool request_extended_twice(
	const struct extension *); /* another of its type follows it: from the network they come as they like */
void extensions_free(struct extension **list);
struct request *request_copy(const struct request *); /* on the heap, for a fan-out's branch; request_free */
void request_free(struct request *);

/* Calls fn for each request in flight, under the list's lock. */
void requests_each(void (*fn)(const struct request *, void *arg), void *arg);
size_t requests_in_flight(void);
#endif
