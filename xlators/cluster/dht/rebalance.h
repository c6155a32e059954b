/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the rebalancer of cluster/dht: the steps and commands (rebalance.c), layouts and the roots of those that come (rebalance-join.c), names that are moved
 * (rebalance-moves.c), files that are brought home (rebalance-files.c), a subvolume that is to leave (rebalance-leave.c, rebalance-look.c), and what leads to its directories
 * (rebalance-lead.c), directories that have grown large (widen.c). All requests are root's. */
#ifndef STRATUS_DHT_REBALANCE_H
#define STRATUS_DHT_REBALANCE_H
#include <string.h>

#include "dht.h"

#define REBALANCE_ASK_NS 30000000000u

enum { PROBLEM = 512 };
enum rebalance_state { IDLE, RUNNING, DONE, STOPPED };
/* What the subvolume that is to go still has, as the last look at it found. `unsaid`: directories of the `directories` that have moved, but for what leads to them. */
struct stays {
	bool looked;
	uint64_t names, files, directories, unsaid, records;
	uint64_t open;	/* files that have gone, but not long ago, or somebody has them open since before that */
	char what[160]; /* the first of them, but for those, in words; "": none */
	unsigned idle;	/* looks in a row since which nothing got less */
};
/* Of the step that is under way: names that are to move, or all that is walked over. */
struct progress {
	uint64_t done, all; /* all: about; 0: nobody knows */
	uint64_t began_ns;
};
struct rebalance {
	struct dht *d;
	struct inode *dir;    /* whose names are moved: a reference, of the task */
	pthread_mutex_t lock; /* guards what follows */
	struct task_cond changed;
	enum rebalance_state state;
	bool widens;	      /* large directories; else the root, until all of it is where it is to be */
	bool stopping, hurry; /* hurry: the graph is to end */
	bool paused;	      /* nothing more is begun, what is known of the way stays, until it is started again */
	uint64_t paused_ns;   /* since when */
	unsigned waiters;     /* for its end */
	struct task *task;
	const char *step;
	uint64_t moved, left;
	struct progress progress;
	/* Of files: those that were brought home and what they have, those that stay (by enum bring), those that could not be; bytes copied. */
	uint64_t files, file_bytes, skipped[BRINGS], failed, bytes;
	struct stays stays;
	uint64_t turn_ns;  /* when more may be copied */
	unsigned bringers; /* tasks that do it */
	int gave; /* 1 + a subvolume that was to leave, and does no more, while what leads to directories that it gave away is set right; 0: who leaves */
	bool again; /* a file was brought that has other names, which lead to it by where it was */
	char problem[PROBLEM];
};

/* What it waits for; returns err. It is told in the log once. */
int rebalance_problem(struct rebalance *, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));
void rebalance_step(struct rebalance *, const char *);
void rebalance_count(struct rebalance *, uint64_t moved, uint64_t left);
/* The step has `all` to deal with, or what was said of it before was too little; so much more of it is done. */
void rebalance_expect(struct rebalance *, uint64_t all);
void rebalance_advance(struct rebalance *, uint64_t more);
bool rebalance_stops(struct rebalance *);
/* Before the next thing is begun, in its task: waits while it is paused, and writes layouts that are half written. false: it is to stop. */
bool rebalance_goes_on(struct rebalance *);
bool rebalance_is_paused(struct rebalance *);
bool rebalance_pause(struct rebalance *, uint64_t ms); /* false: it is to stop */
void rebalance_ask(struct rebalance *, struct request *, uint64_t ns);
static inline const char *subvolume_name(const struct rebalance *r, int child)
{
	return r->d->x->child[child]->name;
}

void rebalance_no_problem(struct rebalance *);
/* All is looked at once more. With the lock held. */
static inline void rebalance_forget_skipped(struct rebalance *r)
{
	memset(r->skipped, 0, sizeof(r->skipped));
	r->failed = 0;
}
/* What its members have, who get the newest. -EAGAIN: one has a later one by now; *now NULL: the directory is whole. */
int layout_now(struct rebalance *, const struct spread **now);
/* Until the directory's names are where that layout, in which they move, has them, and all say so. */
int move_and_settle(struct rebalance *, const struct layout *);

/* ---- widen.c: directories that have grown large are given more subvolumes, until it is to stop ---- */
void widen_run(struct rebalance *);
/* Those that are told of now, in the calling task. */
void widen_once(struct dht *);

/* A reference in r->dir, of the directory that has a shard there, and where it is at home. -ESTALE: nobody knows of it (any more). */
int directory_find(struct request *, struct rebalance *, const struct gfid *, int child, int *home);
/* The directory of a side, a reference, as that subvolume knows it, by its path, or in `away`. -ESTALE */
int directory_at(struct request *, struct dht *, const struct side *, struct inode **dir);
/* Shards of r->dir at those that come to it. */
int make_shards(struct request *, struct rebalance *, const struct layout *);
/* The shard there, if it is empty, has no layout, and says that the directory is at home at `home`, where it has gone. */
void shard_drop(struct request *, struct dht *, const struct gfid *, int child, int home);

/* ---- rebalance-join.c ---- */
/* The shards of those that come get owner, mode and ACL of the one at home. */
int copy_shards(struct rebalance *, const struct layout *);
/* The home; where that comes itself, one that has had names. */
int home_until(const struct layout *);
/* To all members at once. -EAGAIN: one has a later one. */
int layout_push(struct rebalance *, const struct layout *);
/* r->dir: its home has known it by the same handle, so it can tell. */
bool directory_has_gone(struct rebalance *, int home);
/* At the home first, so there is one that counts. All, or it is not 0. (Where names come to be may have it before all where they come from: who makes one there has
 * heard by the same version that it is not where it was.) */
int layout_write(struct rebalance *, const struct layout *);

/* Those that left get the settled layout, too, so that who asks them hears of it. Who dies before that, or does not reach one, is nobody whom clients wait for; but
 * who empties a subvolume sees to it that this one has it (layout_tell). */
void tell_leavers(struct rebalance *, const struct layout *moving, const struct layout *settled);
/* To that one, which may be none of its members. -EAGAIN: it has a later one. */
int layout_tell(struct rebalance *, const struct layout *, int child);

/* ---- rebalance-leave.c: the subvolume that is to leave the volume ---- */
/* One round; the root's names have left it. 0: it is empty, and stays so; -EAGAIN: not yet; -ECANCELED: it is to stop. */
int empty_leaver(struct rebalance *);
/* Nothing is begun: each member of a directory that stands in `away` there has the directory's newest layout; and, if it is not paused, names that move by that have done so,
 * and what led to those that have gone leads on. Else the first error. */
int complete_directories(struct rebalance *, int child);
static inline int leaver_of(const struct rebalance *r)
{
	return (int)r->d->leaving;
}
static inline int given_by(const struct rebalance *r)
{
	return r->gave ? r->gave - 1 : leaver_of(r);
}

/* ---- leaves.c; r->dir is the root ---- */
/* From now on all roots say who leaves; or that nobody does: it is empty. */
int leaver_say(struct rebalance *);
int leaver_unsay(struct rebalance *);
/* What is half written of directories that one has given away which was to leave, and does no more, is completed; `unsay`: then no root says so any more, as far as they answer. */
int leavers_complete(struct rebalance *, bool unsay);

/* ---- rebalance-lead.c ---- */
/* The name leads to a directory: if that was there, and has moved, the name leads to where it is at home from now on. 0 also where there is nothing to do, or the name is
 * in use. */
int lead_home(struct rebalance *, struct inode *dir, const char *name, int child);
/* The same of the name, wherever it is, of a directory of the one that is to leave, as far as what that says of it leads there. */
void lead_gone(struct rebalance *, const struct gfid *);
/* What the shard there says. -ENODATA: it has no layout. */
int layout_at(struct request *, struct dht *, int child, struct inode *dir, struct layout *);

/* ---- rebalance-moves.c ---- */
/* Until no name that is to be elsewhere is there, or can come back. -ECANCELED: it is to stop. */
int clear_sources(struct rebalance *, const struct layout *);
/* A little; what holds names in the directory there for long is ended. */
void wait_for_marks(struct rebalance *, int child, struct patience *);

/* ---- rebalance-files.c ---- */
/* Once over all that there is. -ECANCELED: it is to stop; else of a directory that could not be read. */
int bring_files(struct rebalance *);
#endif
