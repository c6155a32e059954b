/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/coordinator's parts: what it knows of the members, the register that holds the view, changes of the view, recovery, and
 * the healing of members that come back. See doc/replication.md. */
#ifndef STRATUS_COORDINATOR_H
#define STRATUS_COORDINATOR_H
#include "heal.h"
#include "lacking-limit.h"

#define SYNC_NS 30000000000ull /* a sync that takes longer goes on at the member, and the next one is the sooner done */

struct gfid_list { /* objects that may differ */
	struct gfid *gfid;
	size_t count, room;
	bool all; /* more than a list can tell */
};
struct coordinator;
struct remote_member {
	struct coordinator *c;
	int number;
	atomic_bool leasing; /* its task runs */
	/* guarded by coordinator.lock */
	bool known; /* has answered since this process started */
	struct lease_reply last;
	uint64_t heard_ns;     /* when the last answer came */
	uint64_t asked_ns;     /* when it was asked first after it had been silent for half a lease; 0: it was not */
	uint64_t clock_at_ns;  /* when the answer came that last.clock is from */
	uint64_t lease_end_ns; /* it may believe until then that it has a lease */
	bool leaving;	       /* no more leases in this view */
	bool stepped_down;
	bool hurry; /* the next lease message is due now */
	uint64_t leased_epoch;
	bool needed;			/* it is going to end, but there are too few without it */
	bool broken;			/* did not do what a new view or a recovery asked of it */
	bool failed;			/* its disk did not do a tenant's change that others did */
	uint64_t out_since_ns, wait_ns; /* it may come back after so long; grows when it comes and goes */
	unsigned workers;
	bool healing, heal_stop; /* a task heals it; it is to end */
	unsigned slow_syncs;	 /* in a row it could not sync in time for another to be IN */
	bool syncing;		 /* healed, and its disk is being synced */
	bool demote; /* it is to be BACK with that list, for it was found to differ, or is to be healed as a whole */
	struct gfid_list differs; /* kept until it has been healed and is IN */
	bool added;		  /* to that list, since the member was told of it */
	bool healthy;		  /* BACK, and nothing is pending any more */
	uint64_t held_epoch;	  /* it synced when nothing more could be acknowledged in that view */
	bool holding;		  /* a task has it sync its disk for that, in the view of this epoch: */
	uint64_t holding_epoch;
	uint64_t hold_again_ns; /* its disk did not do that: it is asked again then */
	uint64_t healed, heal_started_ns, heal_total;
};
/* What is left to do after a start of all members anew, or after the return of one that was away and had everything; stored with the view. */
struct owed {
	bool scrub;    /* until one has come to its end */
	bool recovery; /* until it is done: of the members that are IN only the first has everything */
	bool held; /* it has that on its disk, and nothing has been acknowledged since. (A view of a version before that: perhaps not) */
	bool unlisted; /* with `scrub`: names may differ in directories that no list told of */
};
enum { FINDINGS_MAX = 64 };
struct finding {
	int member;
	char *path;
};
struct scrub {
	bool running, stop, repairs;
	struct heal *look; /* by which it compares, while it runs */
	uint64_t objects, differences, errors, started_ns, ended_ns;
	int status; /* how the last one ended */
	struct finding finding[FINDINGS_MAX];
	unsigned findings;
	/* References on what differs, until the next scrub: bricks that were started anew find it by nothing but the name, and healing has
	 * only the gfid. */
	struct inode **kept;
	size_t kepts, kept_room;
};
/* What members that are IN lack, as the coordinator has found by asking them. */
enum { LACKS_MAX = 64 };
struct lack {
	int member;
	struct inode *directory; /* a reference */
};
/* Tenants' clients that went without a word, and what they left is alike at all members: see departing.c. */
struct departures {
	struct heal ask;   /* the task's that asks members: changes nothing */
	bool looking;	   /* its task runs */
	uint64_t next_ns;  /* when the next may */
	uint64_t since_ns; /* since when members tell of some that hold others up; 0: they do not */
	uint64_t freed;	   /* so many have been freed without a view */
};
struct lacking {
	struct heal look;	      /* the task's that looks: changes nothing */
	bool looking;		      /* it runs */
	uint64_t next_ns;	      /* when the next may */
	struct lack found[LACKS_MAX]; /* to be made equal with the next view */
	unsigned count;
	struct lacking_limit limit;
};
/* Changes that are not known to be everywhere, of all members. */
struct union_note {
	struct note note;
	int32_t status[REPLICAS_MAX]; /* at each member; NOTE_UNKNOWN: it has none, or it has not ended */
	uint64_t value[REPLICAS_MAX];
	bool has[REPLICAS_MAX];
	int truth;	   /* the member to which the others are made equal */
	atomic_uint equal; /* a mask of those that have been, in this recovery */
	atomic_uint
		doubted; /* and of those whose notes say that they do not know, for another change of the same object was recovered first */
	bool waits; /* in recovery: for what another note is about */
	struct union_note *next, *same_number;
};
enum { NUMBERED = 4096 };
struct coordinator {
	/* options */
	char *volume, *state_file, *secret_file;
	bool arbiter;
	uint64_t lease_ms, first_answer_ms, heartbeat_ms, sync_ms, cold_wait_ms;
	int64_t heal_tasks, scrub_rate;
	uint64_t heal_bandwidth, heal_piece;

	struct xlator *x;
	struct heal heal;
	struct gfid session; /* that takes tokens */
	int members;
	uint64_t started_ns;
	atomic_bool stopping;
	pthread_mutex_t lock; /* guards what follows */
	struct task_cond changed;
	unsigned tasks;
	struct gfid_list held;	 /* objects whose tokens are asked for or held here: each by one task */
	struct gfid_list wanted; /* of these: what a client has asked for since */
	struct task_cond let_go; /* one of them is no more */
	struct remote_member member[REPLICAS_MAX];
	struct view view; /* active; epoch 0: none yet */
	bool writable, deposed, unrecovered;
	bool changes_wait;   /* it is not writable, but will be when the recovery has ended */
	bool goes_on;	     /* the recovery that is owed has failed for so long that changes go on without it */
	uint64_t failing_ns; /* since when recoveries have failed; 0: the last one has not */
	bool lost;	     /* there is no view where it should be, but members tell of one */
	bool deciding;	     /* a view is being made, or recovered */
	bool tidying;	     /* a task empties the limbos */
	struct view base;    /* as the register had it at the start */
	uint64_t quorum_lost_ns;
	uint64_t failed_epoch; /* of the last change of view that failed */
	unsigned spared;       /* so often the first did not do its part while a recovery was owed, and was tried again */
	uint64_t limbo_epoch;  /* in which the limbos were emptied last */
	uint64_t last_view_ns;
	uint64_t tenants_view_ns; /* the last that was made for what tenants' clients had left */
	uint64_t generation, generation_ns;
	struct lacking lacking;
	struct departures departures;
	struct scrub scrub;
	uint64_t owed_pause_ns; /* so long after a scrub the next one begins that is owed */
	struct owed owed;
	uint64_t
		compared_epoch; /* in this view an owed scrub has found no difference, though perhaps something that can't be read */
	uint64_t views, recovered;
	char why[160]; /* the last change of view */
	/* The main task's alone. */
	uint64_t stored;	 /* epoch in the register */
	uint64_t version;	 /* of the register's value */
	int read_err;		 /* why the register could not be read: told once */
	struct owed stored_owed; /* as the register has it */
	unsigned failed_syncs;	 /* mask: as the first of a recovery that is owed its disk failed at a sync */
	unsigned slow_firsts;	 /* so often in a row the first did not sync in time before a recovery */
	uint64_t go_on_ns,
		go_on_end_ns; /* until then clients go on with what was under way before a start of all members anew; and at most, with the views that came since */
	struct union_note *notes; /* of the last change of view */
	unsigned tenants_failed;  /* so many recoveries in a row could not make a tenant's objects equal */
	struct gfid_list missed;  /* directories that no list told of, and a recovery needs: until one has come to its end */
	struct inode *
		*missed_kept; /* a reference on each, or NULL: so that who has it knows it by its gfid in the next view, too */
	struct union_note *numbered[NUMBERED]; /* the same, by session and sequence */
};

static inline uint64_t coordinator_lease_ns(const struct coordinator *c)
{
	return c->lease_ms * 1000000;
}

/* register.c: where the view is kept, and what is owed. May block: never with the lock held. */
int register_read(struct coordinator *, struct view *, struct owed *, uint64_t *version); /* -ENOENT: none yet */
int register_write(struct coordinator *, const struct view *, struct owed, uint64_t version);
const char *register_place(const struct coordinator *); /* what people call it */
bool register_leads(void);				/* this process may still decide for the cluster */
uint64_t register_handover_ns(void); /* so long after another has begun to lead, the one before it may not know yet */

/* lease.c */
void lease_task(void *member);
bool member_live(const struct coordinator *, int); /* lock held: has answered within a lease's time */
/* Lock held: it had the time and did not answer. If neither: we were the ones that stood still, or have just been started. */
bool member_silent(const struct coordinator *, int);
uint64_t members_synced(const struct coordinator *); /* the least of all */

/* backlog.c. -errno; the rest of the answer, gfids, is in *rest (unless NULL). The caller frees answer->bytes in any case. */
int pending_ask(struct coordinator *, int member, uint64_t *count, bool *all, struct blob *answer, struct unpack *rest);

/* union.c */
int list_add(struct gfid_list *, const struct gfid *); /* -ENOMEM */
/* Adds the one to the other. Where memory is short, the other tells of all. */
void list_add_all(struct gfid_list *to, const struct gfid_list *from);
void list_free(struct gfid_list *);
void list_sort_unique(struct gfid_list *);
/* Adds what changed at the member after that generation; list->all: it does not know of all that did. */
int list_index(struct coordinator *, int member, uint64_t above, struct gfid_list *);
/* All work on coordinator.notes, the union. */
int notes_collect(struct coordinator *, int member);	   /* adds those of the member */
void notes_forgotten(struct coordinator *, int member);	   /* it was started anew: it may have done any of them */
void notes_of_away(struct coordinator *, unsigned others); /* members come back that were away while the others went on */
/* Adds all that may differ after a cold start. *failed: the member that could not tell, if there is an error; else it is left as it was or any. */
int notes_of_indexes(struct coordinator *, const struct view *next, int *failed);
/* A recovery found that it must be made equal, too: noted with the next change of view. Nothing is added if it is noted already. */
int missed_add(struct coordinator *, const struct gfid *directory,
	       struct inode *); /* the inode (NULL: not known) is borrowed */
void missed_clear(struct coordinator *);
int notes_of_missed(struct coordinator *, const struct view *next);
unsigned notes_send(struct coordinator *, unsigned members); /* to whom: who took them all */
void notes_free(struct coordinator *);

/* view.c */
/* Makes the view the active one. 0, or why it could not be; members that failed are marked broken. */
int view_change(struct coordinator *, struct view *next, bool cold, const char *why);

/* Has those that are left sync their disks, where so many are missing that nothing can be acknowledged. */
void few_hold(struct coordinator *);

/* decide.c */
/* Lock held, and only by the main task: whether changes may be made, if there is a quorum or not. */
void tell_writable(struct coordinator *, bool quorum);
void decide(struct coordinator *);
/* Nothing of that is under way, nor due for members that are going to end. Before this one does: the next coordinator can't know so soon that they have stepped down, and
 * a view that is broken off leaves members frozen until it is there. */
bool decided(struct coordinator *);
/* The view is lost, and that member has everything: it is IN by it, and the others are healed as a whole. -EALREADY: none is lost;
 * -ENOTCONN: it does not answer; -EINVAL: it can't be; -EAGAIN: members may still serve in the view that was lost. */
int view_begin(struct coordinator *, int member);
void member_waits_longer(struct remote_member *); /* lock held: it comes and goes, and is taken back later each time */

/* recover.c */
/* Makes what the notes touch equal at all members, and resolves them. */
int recover(struct coordinator *);

/* departing.c */
void departing_look(struct coordinator *); /* starts a task, if there is reason to */
/* Lock held: some hold others up, and it is not known yet whether a view is needed for that. */
bool departing_waits(const struct coordinator *);

/* lacking.c */
void lacking_look(struct coordinator *);	 /* starts a task, if there is reason to */
bool lacking_is_due(const struct coordinator *); /* lock held: something was found, and may be made equal by now */
/* What was found at members that stay IN in the view to come is made equal by its recovery. Before that view is made. */
void lacking_take_all(struct coordinator *, const struct view *next);
void lacking_forget(struct coordinator *);

/* backlog.c */
void healers_start(struct coordinator *); /* one for each member that is BACK and has none */
void healers_stop(struct coordinator *);  /* waits */
int coordinator_spawn(struct coordinator *, task_fn *, void *arg);
void coordinator_task_ends(struct coordinator *);
/* A verb to one member, without and with an answer. */
int tell_member(struct coordinator *, int member, enum replica_verb, struct pack *more);
int ask_member(struct coordinator *, int member, enum replica_verb, struct pack *more, struct blob *answer, uint64_t deadline);
/* The same to all in the mask at once, each with its own copy; mask of those that answered 0. */
unsigned tell_members(struct coordinator *, unsigned mask, enum replica_verb, const struct pack *more, uint64_t timeout_ns);

/* What backlog.c and scrub.c share: tokens of the coordinator's own session, in that view. A token is one task's from a session_acquire()
 * that returned 0 to session_release(). */
int session_attach(struct coordinator *, const struct view *);
int session_acquire(struct coordinator *, const struct view *, const struct gfid *, bool (*stop)(void *), void *arg);
/* True: a client has asked for it meanwhile. */
bool session_release(struct coordinator *, const struct view *, const struct gfid *);
void session_recalled(struct coordinator *, const struct gfid *);

/* scrub.c: compares all members, object by object. */
int scrub_start(struct coordinator *, bool repair); /* -EALREADY: one runs */
void scrub_owed(struct coordinator *);		    /* starts it, if it is owed and can be done */
void scrub_stop(struct coordinator *);		    /* nor is one owed any more */
void scrub_halt(struct coordinator *);		    /* the one that runs ends soon */
void scrub_free(struct scrub *);

/* status.c */
void coordinator_dump(struct xlator *, FILE *);
int coordinator_command(struct xlator *, int argc, char **argv, FILE *);
#endif
