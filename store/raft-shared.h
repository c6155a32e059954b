/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the log that servers share have in common: raft.c opens it and runs its loop, raft-machine.c applies what was
 * committed, raft-jobs.c asks for changes, raft-lead.c knows who leads, raft-strangers.c keeps out who is no member. */
#ifndef STRATUS_RAFT_SHARED_H
#define STRATUS_RAFT_SHARED_H
#include <pthread.h>
#include <raft.h>
#include <raft/uv.h>
#include <stdatomic.h>

#include "backend.h"
#include "raft-greeting.h"
#include "raft-mark.h"

enum { MEMBERS = 16 };

/* When a member was heard from last. */
struct heard {
	raft_id id;
	uint64_t ns;
	bool answered; /* since this server leads */
};
/* Entries are on their way to a member. */
struct busy {
	raft_id id;
	unsigned requests;
};
struct job;
struct shared {
	struct store *store;
	char *directory, *name, *address;
	const struct tls_files *tls; /* NULL: none; the caller's, while it is opened */
	bool joins;
	bool is_old; /* store_is_old, when it was opened */
	raft_id id;
	uv_loop_t loop;
	uv_async_t wake;
	uv_timer_t tick;
	struct raft_uv_transport transport;
	struct raft_io io;
	struct raft_fsm fsm;
	struct raft raft;
	raft_index began_with; /* the end of the log when it was opened */
	struct raft_transfer
		transfer; /* on the loop only; libraft uses it until what it sends has gone, which may be after that has ended */
	struct raft_barrier barrier;
	bool barrier_pending, barrier_is_old, told;	/* on the loop only */
	size_t entry_bytes;				/* so, too: of the largest of late */
	int made;					/* how far set_up() came */
	int claimed;					/* the directory, locked: it is ours */
	struct raft_mark mark;				/* on the loop only */
	struct raft_configuration committed;		/* so, too: the last list of members that was committed, */
	raft_index committed_since;			/* and its index; 0: none is known */
	raft_index applied;				/* so, too: and on this disk */
	struct heard heard[MEMBERS];			/* so, too: in the order of member[], as long as it leads */
	uint8_t cluster[CLUSTER_ID];			/* so, too: zeros: it has none yet */
	bool cluster_is_committed, cluster_is_proposed; /* so, too */
	unsigned silent_ticks;				/* so, too: since it heard from the cluster that it waits for */
	uint64_t cluster_refused_ns;			/* so, too: when the state did not take it; 0: it has not been tried */
	struct raft_apply proposal;
	uint64_t warned_ns[2 * REFUSALS + 2]; /* so, too: of strangers, by what is told */
	int (*start_io)(struct raft_io *, unsigned, raft_io_tick_cb, raft_io_recv_cb); /* the backend's */
	int (*send_io)(struct raft_io *, struct raft_io_send *, const struct raft_message *, raft_io_send_cb); /* so, too */
	struct busy busy[MEMBERS]; /* on the loop only */
	raft_io_recv_cb receive;   /* libraft's */
	bool listens;		   /* so, too: `heard` goes on from the tick before */
	pthread_t thread;
	bool running;
	pthread_mutex_t lock; /* below store.lock is none of these: never both */
	pthread_cond_t progress;
	struct job *first, **last;
	bool closing, leads, replayed;
	bool unproved;	     /* it stood still: whether it leads is asked anew */
	atomic_bool retired; /* it is going to end, and does not lead any more, whatever libraft thinks */
	uint64_t ticked_ns;  /* when the last tick was: what is known of the lead is from then */
	struct store_member member[MEMBERS];
	size_t members;
	char trouble[1024]; /* with another server */
	uint64_t trouble_ns;
};

uint64_t now_ns(void); /* of a clock that only goes forward */

/* ---- raft-machine.c ---- */
void machine_init(struct shared *);
void machine_bound_log(struct shared *, size_t bytes); /* an entry has so many */

/* ---- raft-jobs.c: the changes of struct log_type, and those who wait for them ---- */
int shared_commit(struct store *, const struct store_change *, size_t count);
int shared_add(struct store *, const char *name, const char *address, struct problem *);
int shared_remove(struct store *, const char *name, struct problem *);
void shared_hand_over(struct store *);
int shared_check_address(const char *address, struct problem *);
void shared_start_jobs(struct shared *); /* on the loop: those that were queued */

/* ---- raft-lead.c ---- */
bool shared_leads(struct store *);
bool shared_replayed(struct store *);
size_t shared_members(struct store *, struct store_member *, size_t max);
bool shared_is_broken(
	struct shared *); /* libraft gave up when it could not write or apply: it takes part in nothing any more */
/* What follows on the loop only. */
void shared_note_members(struct shared *);
void shared_note_applied(struct shared *);
raft_id shared_heir(struct shared *); /* who is to lead after this one; 0: nobody is there */
void shared_tick(uv_timer_t *);

/* ---- raft-cluster.c: which cluster it is. On the loop, or before it runs. ---- */
int cluster_load(struct shared *, struct problem *);  /* what the file says, if there is a log */
int cluster_begin(struct shared *, struct problem *); /* a new cluster: makes an id */
void cluster_forget_if_empty(struct shared *);	      /* without a log it belongs to none */
void cluster_forget_if_silent(struct shared *);	      /* each tick: nor where who led it has gone before there was a log */
void cluster_learn(struct shared *);		      /* looks whether the committed state has one */
void cluster_propose(struct shared *);		      /* this one leads: commits one, if there is none */
int cluster_take(struct shared *, const uint8_t id[CLUSTER_ID]); /* notes it */
char *cluster_text(const uint8_t id[CLUSTER_ID], char text[2 * CLUSTER_ID + 1]);
bool cluster_of_state(const struct state *, uint8_t id[CLUSTER_ID]); /* false: it has none */

/* ---- raft-members.c. On the loop. ---- */
void members_keep(struct shared *);		    /* each tick, and before what may bring another list */
raft_term log_term_of(struct shared *, raft_index); /* of the entry with that index; 0: it is not in the log */
/* Before libraft sees them. False: they must wait, it must not see them; they come again, when this one has noticed that it does not lead any more. */
bool members_take_back(struct shared *, const struct raft_append_entries *);

/* ---- raft-strangers.c ---- */
extern const struct wire_peers strangers_peers; /* its arg: the struct shared */
bool shared_trouble(struct store *, char *text, size_t size);
const char *strangers_judge(
	struct shared *, const struct raft_message *); /* NULL, or a word for what can't be, so that libraft must not see it */
void strangers_watch(struct shared *);		       /* what the backend receives comes by there; before raft_init() */

/* ---- raft-send.c ---- */
void send_bound(struct shared *); /* before raft_init() */
#endif
