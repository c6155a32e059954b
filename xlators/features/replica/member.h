/* SPDX-License-Identifier: Apache-2.0 */
/* features/replica's parts: the member's place in the view, sessions with their notes, tokens, what is pending, and the index.
 * See doc/replication.md. */
#ifndef STRATUS_MEMBER_H
#define STRATUS_MEMBER_H
#include <openssl/evp.h>

#include "identity.h"
#include "replica.h"

/* ---- sets of gfids ---- */
struct gfid_set {
	struct gfid *slot; /* open addressing; a null gfid is free, gfid_gone was removed */
	size_t room, used, count;
};
bool gfid_set_has(const struct gfid_set *, const struct gfid *);
int gfid_set_add(struct gfid_set *, const struct gfid *); /* 1: new, 0: was there, -ENOMEM */
bool gfid_set_remove(struct gfid_set *, const struct gfid *);
/* The next member at or after slot *cursor, which moves behind it. NULL: none is left. */
const struct gfid *gfid_set_next(const struct gfid_set *, size_t *cursor);
void gfid_set_free(struct gfid_set *);

/* ---- the index (index.c) ---- */

/* What changed since which generation. In memory one entry for each object; on disk a file for each generation, to which the first
 * change of an object in it is appended. */
enum { INDEX_HANDLE_MAX = 128, INDEX_ENTRIES_MAX = 1 << 20 };
struct index_entry {
	struct gfid gfid;
	uint32_t type; /* S_IFMT bits, 0: not known */
	uint64_t generation;
	uint64_t named; /* the last generation in which it is on disk as a name, too */
	uint8_t handle_size;
	uint8_t *handle; /* the leaf's, by which the object is found again; may be NULL */
	uint32_t next;	 /* in the bucket: place + 1 */
};
struct index {
	char *directory;
	int directory_fd, file_fd;
	int names_fd;	     /* of the directory that has the names of this generation; -1: there is none */
	off_t length;	     /* of the file: what is behind is of a record that was cut */
	uint64_t disk;	     /* chosen at random when the directory was new */
	uint64_t generation; /* now */
	uint64_t floor;	     /* changes of generations up to this may be missing */
	uint64_t synced;     /* all changes of generations up to this are on disk */
	uint64_t
		unnamed; /* of generations up to this a power cut may have taken what tells of directories; UINT64_MAX: of any */
	struct index_entry *entry;
	uint32_t *bucket;
	size_t count, room, buckets;
	uint32_t compactions;	 /* how often entries changed their places */
	pthread_mutex_t writing; /* the state file; taken after member.lock, by who has both */
	uint64_t distrusted;	 /* how often it was said that nothing is synced; guarded by `writing` */
};
int index_open(struct index *, const char *directory, struct problem *);
void index_close(struct index *);
/* Enters the object. 0; -errno: it can't be written, so the change must not be done. `leaf` may be NULL (no handle). */
int index_touch(struct index *, const struct gfid *, uint32_t type, struct xlator *leaf, struct inode *);
/* The same for what has just been made: under that gfid there may have been another, of which nothing is left but its handle. */
int index_made(struct index *, const struct gfid *, uint32_t type, struct xlator *leaf, struct inode *);
/* Names in that directory, which has been entered, are about to change: it is entered so that no power cut takes that and leaves the change. */
int index_names_change(struct index *, const struct gfid *);
int index_begin(struct index *, uint64_t generation); /* a new file */
int index_distrust(struct index *);		      /* durably: nothing counts as synced */
/* In three steps, for disks are slow: with the lock, without it, with it again. What is listed up to `floor` is forgotten. */
struct index_state {
	uint64_t synced, floor, generation, distrusted;
};
struct index_state index_plan(struct index *, uint64_t synced, uint64_t floor); /* neither becomes lower */
int index_store(struct index *, const struct index_state *); /* durably; -ECANCELED: it was distrusted meanwhile */
void index_apply(struct index *, const struct index_state *);
void index_remove_files(struct index *, const struct index_state *); /* without the lock again */
const struct index_entry *index_find(const struct index *, const struct gfid *);
/* A name that was found at the start; -ENOMEM. */
int index_load_named(struct index *, const struct gfid *, uint64_t generation, const uint8_t *handle, size_t size);

/* index-names.c: a directory `names.GENERATION` beside the file of that generation, with a symlink for each directory whose names changed in it. */
bool names_generation(const char *name, uint64_t *generation);
bool names_exist(const struct index *, uint64_t generation);
int names_open(const struct index *, uint64_t generation, bool make); /* a descriptor, or -errno */
int names_add(struct index *, struct index_entry *);
int names_load(struct index *, uint64_t generation);
void names_remove(const struct index *, uint64_t generation);

/* ---- notes, sessions, tokens ---- */

/* A change of a tenant's client that this member's disk failed at, or has not ended: the coordinator asks the others whether they did it. */
struct failed_change {
	uint64_t at_ns; /* when it failed last; 0: none */
	struct note note;
};
/* What all clients of a tenant have here, and what they have caused: see tenants.c. Kept for a while after the last of them has gone. */
struct tenant {
	char name[IDENTITY_NAME + 1]; /* "": only who moves what it has is here */
	struct gfid id;		      /* of its tree; zeros where features/cloud is not above */
	unsigned sessions, tokens, notes, stuck;
	unsigned visitors;     /* sessions whose directories move in its tree: its own, and those of who moves what it has */
	unsigned left;	       /* by the last count: what only a new view tidies up */
	uint64_t suspected_ns; /* when its word of a member was passed on last */
	uint64_t tidied_ns;    /* when a view last tidied up after it */
	uint64_t pause_ns;     /* so long after that it is not a reason for another */
	uint64_t refused_ns;   /* when the log last said that it has too much */
	uint64_t kept_ns,
		kept_at_ns; /* in its tree: how long clients of access points have kept the rename token from who waited, and when that was so */
	bool returned; /* one of its clients wants to attach that may not in this view: it waits for the next */
	struct failed_change failed;
	struct tenant *next;
};

enum { FAILED_KEPT = 16 };
struct session { /* of an afr, known by its id in all epochs */
	uint8_t id[16];
	uint64_t tag;		     /* of the id */
	const struct client *client; /* through which it is attached, or NULL */
	struct tenant *tenant;	     /* whose it is; NULL: no tenant's */
	struct tenant *tree;	     /* in whose tree it is; NULL: in the whole brick */
	struct gfid access;	     /* the access point by which its client came; zeros: none */
	bool owned;		     /* a client has attached it: it is no other tenant's, or access point's, from then on */
	uint64_t attached;	     /* epoch */
	uint64_t settled;
	struct kept_note *first, *last; /* in order of arrival */
	uint64_t newest;		/* the highest sequence of a note that there was */
	unsigned notes;
	uint64_t gone_ns;  /* since when it has no client */
	uint64_t asked_ns; /* since when it is asked to settle, and has settled nothing; 0: it is not */
	unsigned tokens;
	unsigned waits;			/* for tokens: it is in their queues */
	struct hold *oldest, *youngest; /* tokens as they were granted */
	bool shares;			/* it knows tokens that are to read only */
	uint64_t failed[FAILED_KEPT];	/* the last that failed, and had not come here, in that epoch: should they come late */
	unsigned failed_count;		/* of all */
	uint64_t failed_epoch;
	struct session *next;
};
struct kept_note {
	struct session *session;
	struct kept_note *next, *before; /* of the session */
	struct kept_note *all_next, **all_link;
	struct kept_note *same_next, **same_link; /* in the bucket of session and sequence */
	struct kept_note *by[NOTE_OBJECTS];	  /* next in the bucket of that object's gfid */
	struct kept_note **by_link[NOTE_OBJECTS]; /* what points to it there */
	struct inode *inode[NOTE_OBJECTS]; /* references, so that the coordinator finds what is to be recovered; may be NULL */
	bool orphan;			   /* nobody will settle it: the coordinator must */
	bool recovering;		   /* until the coordinator resolves it */
	bool failed;			   /* its client has given it up: it may be done at some members only */
	bool repeated;			   /* it is done, and its client has sent it once more, in this view */
	bool resolved;
	bool waits; /* it is done but for what others sync of its file, which may take long */
	uint64_t begun_ns;
	struct note note; /* last: only as many objects as it has */
};
struct token_wait {
	struct session *session;
	uint64_t number;
	bool goes_on; /* before those that don't */
	struct token_wait *next;
};
struct hold { /* that a session has a token */
	struct token *token;
	struct session *session;    /* NULL: token.own is not in use */
	uint64_t number;	    /* with which it was asked for last */
	struct hold *next;	    /* of the token */
	struct hold *older, *newer; /* of the session */
};
struct token {
	struct gfid gfid;
	struct tenant *tree; /* of the rename token: in whose tree directories move; NULL: for who has all of them */
	struct hold *holds;  /* if it is not shared there is one at most */
	struct hold own;     /* one of them, so that who changes needs no memory */
	bool shared;	     /* those who have it only read */
	uint64_t lower_ns;   /* when who has it was asked last to share it */
	struct token_wait *first, *last;
	uint64_t recalled_ns; /* since when it is asked back; 0: it isn't */
	uint64_t waited_ns;   /* when somebody last looked whether it is free */
	uint64_t told_ns;     /* when those who have it were asked last */
	bool stuck;
	struct tenant *stuck_by; /* whose client does not give it back; NULL: no tenant's */
	struct token *next;
};
/* What one client can make a brick remember. */
enum {
	NOTE_BUCKETS = 4096,
	TOKEN_ROOM = 4096,
	NOTES_MAX = 1 << 18,
	TOKENS_MAX = 1 << 18,
	PENDING_MAX = 1 << 22,
	SESSIONS_MAX = 64,
	LOST_KEPT = 64,
	SYNC_QUEUES = 512
};

/* What a disk did not keep (losses.c). */
struct losses {
	struct gfid gfid[LOST_KEPT];
	unsigned count; /* in all: above LOST_KEPT it may be any object */
};
struct file_sync { /* under way, on the stack of its caller */
	struct gfid gfid;
	uint64_t number;
	struct kept_note *note; /* of the change that it is, or NULL */
	struct file_sync *before, *next;
};
struct sync_queue { /* in the order in which they began */
	struct file_sync *first, *last;
	struct task_cond over; /* one of them is */
	unsigned waits;	       /* for that */
};

struct member {
	/* options */
	char *state_dir, *secret_file;
	int64_t number, set;
	uint64_t token_timeout_ms;
	int64_t tenant_sessions, tenant_tokens, tenant_changes;

	struct xlator *x, *leaf;
	uint8_t secret[REPLICA_SECRET_SIZE];
	EVP_MAC_CTX *voucher;			    /* keyed with it */
	uint64_t incarnation, boot;		    /* of the process, of the machine */
	uint64_t since;				    /* the epoch from which on this process knows what became of changes */
	_Atomic(const struct client *) coordinator; /* who has proved that it knows the secret, last */
	atomic_uint noted;			    /* notes in all: reads need not look when there is none */
	pthread_mutex_t lock;			    /* guards what follows; never held across a wait */
	struct task_cond event;			    /* something that somebody may wait for */
	struct view view;			    /* epoch 0: not active since the start */
	uint64_t lease_until_ns;
	uint64_t
		believed_ns; /* when a session was last allowed to let others believe; from the start, for what was before is not known */
	uint64_t grant_from_ns;	 /* no token is granted before, nor is seen what was recovered and is not settled */
	uint64_t go_on_until_ns; /* after a start of all members anew: until then tokens are for what was under way before */
	uint64_t prune;		 /* what changed up to this generation need not be listed: all members have synced it */
	bool frozen, writable;
	bool changes_wait;    /* until a recovery has ended; it is not writable meanwhile */
	atomic_bool unproven; /* it serves no reads, as it may differ from the first */
	uint64_t coming;      /* epoch, for which it is frozen */
	unsigned running[2];  /* changes and heals under way, by the parity of the generation in which they began */
	uint64_t active_ns;   /* since when it is in this view */
	struct session *sessions;
	struct tenant *tenants;
	struct kept_note *notes, *bucket[NOTE_BUCKETS], *numbered[NOTE_BUCKETS]; /* all; by object; by session and sequence */
	struct kept_note *staged;						 /* for the coming epoch (all_next) */
	unsigned recovering,
		hidden;	      /* so many of the notes are; and of these so many may give any object a name (note_hides) */
	struct token **token; /* buckets: a power of 2, as many as there are tokens at least */
	size_t token_room;
	unsigned tokens, stuck;
	struct gfid_set pending, healed; /* healed: when all is pending */
	bool all_pending;
	struct gfid_set again; /* became pending since the list was asked for last: what is healed now may lack it */
	/* Struck off the list at a member that is BACK though they could not be made equal, for nobody knows a name of them: if they are here, in a
	 * directory that is not healed yet or in the limbo, nothing may be copied from them. */
	struct gfid_set unhealed;
	/* Pending, but changed nevertheless: a large file is healed in pieces, between which it is written. */
	struct gfid_set follows;
	struct gfid_set staged_pending;
	bool staged_all;
	/* Removed by healing while somebody may have them open: what happened to them elsewhere did not happen here. */
	struct gfid_set dead;
	size_t dead_at; /* where the sweep goes on */
	/* Made by a recovery that has not ended: they may lack their contents yet. Known in the view that made them, and those that follow it. */
	struct gfid_set half_made;
	uint32_t suspects, reason[REPLICAS_MAX];
	uint8_t (*fenced)[16]; /* ids of sessions that do not come back in this view (departing.c) */
	unsigned fenced_count;
	unsigned departing_from; /* where the next look begins */
	uint32_t doubted;	 /* members of which tenants say what others' word would be enough for */
	struct index index;
	/* Its disk did not keep what was acknowledged here, or may not have: nothing that is done here counts as synced until all that was not has been healed. */
	bool unsynced;
	struct losses lost; /* objects of which that was told at a sync, since */
	struct losses
		in_doubt; /* what a sync of all may have been about, when it told that: of these the next process knows no more than that */
	struct sync_queue syncs[SYNC_QUEUES]; /* that are under way, by gfid: of single files, and of all (no gfid) */
	uint64_t syncs_begun;
	/* What the next process is to know (losses-mark.c). Both count; it knows all of it if they are the same. */
	uint64_t mark_wanted, mark_done;
	bool marking;	     /* that is just being changed */
	bool mark_is_of_any; /* the file there says that it may be any object */
	int mark_error;	     /* with which the last try failed, or 0 */
	struct task_cond marked;
	unsigned tasks; /* of ours: stop waits for them */
	bool stopping;
	bool leaving; /* the process is going to end; the coordinator is told with the lease, */
	bool needed;  /* and says that the set can't do without it */
	uint64_t changes, skipped, refused, waits, recalls;
};
/* An answer of a sync that tells of a disk which has not kept what was written before. */
static inline bool disk_lost_something(int err)
{
	return err == -EIO || err == -ENOSPC || err == -EDQUOT || err == -EROFS;
}
static inline struct member *member_of(const struct xlator *x)
{
	return x->private;
}
static inline void unlock_member(struct member **m)
{
	pthread_mutex_unlock(&(*m)->lock);
}
static inline struct member *member_locked(const struct xlator *x)
{
	struct member *m = x->private;

	pthread_mutex_lock(&m->lock);
	return m;
}
#define cleanup_member __attribute__((cleanup(unlock_member)))

/* ---- losses.c: none of the first four with member.lock held ---- */

/* Makes all durable that was done here. *whole: what was done before, since the member was last healed, is so, too. May block. */
int member_sync(struct member *, bool *whole);
/* As FOP_fsync of what is below; -EIO also of what has lost something before, since the member was last healed. */
int member_fsync(struct member *, struct request *, const struct fsync_in *, struct fsync_out *);
/* For who makes members equal. Of a directory only what the disk says now counts: names are in the journal, and what comes late is there all the same. */
int member_heal_fsync(struct member *, struct request *, const struct fsync_in *, struct fsync_out *);
/* As FOP_write of what is below to a file that was opened with O_DSYNC, which is a sync, too. What says that there is no room (ENOSPC, EDQUOT) is mostly of a write that was not begun, and
 * tells of no loss. `note`: of that change, which stays. */
int member_write_durably(struct member *, struct request *, struct kept_note *note, const struct write_in *,
			 struct write_out *);
void losses_forget(struct member *); /* with the lock held: it is to be healed of all of it */
bool losses_have(const struct losses *, const struct gfid *);
bool losses_add(struct losses *, const struct gfid *); /* true: that is new */

/* losses-mark.c: by a file, for the process that follows */
void losses_begin(struct member *); /* at the start: what the process before has left to be known */
/* What has been lost by now, or is forgotten, is known to who follows when it returns; if that fails the next call tries it again. Not with member.lock held; may block. */
void losses_mark(struct member *);

/* All with member.lock held. */
enum member_state member_state(const struct member *);
/* 0, or -EVIEW: no lease, or its state is below. */
int member_serves(const struct member *, enum member_state at_least);
bool member_pending(const struct member *, const struct gfid *);
bool member_dead(const struct member *, const struct gfid *);
int member_add_pending(struct member *, const struct gfid *);

/* sessions.c; with the lock held */
struct session *session_by_id(struct member *, const uint8_t id[16], bool make);
/* That many are attached through the client. */
unsigned sessions_of_client(const struct member *, const struct client *);
/* Who asks, as the stamp says: attached in this epoch, or NULL. */
struct session *session_of(struct member *, const struct request *);
void session_settle(struct member *, struct session *, uint64_t settled);
void session_fail(struct member *, struct session *, uint64_t sequence); /* whether it has come or not */
bool session_has_failed(const struct member *, const struct session *, uint64_t sequence);
void session_orphan(struct member *, struct session *); /* its client is gone: what it holds goes with the epoch */
void session_detach(struct member *, struct session *); /* it has ended as it should */
struct kept_note *note_find(const struct member *, const struct session *, uint64_t sequence);
/* A note of the session; NULL: no memory. */
struct kept_note *note_add(struct member *, struct session *, const struct note *);
void note_remove(struct member *, struct kept_note *);
void notes_drop_all(struct member *);
void note_recovers(struct member *, struct kept_note *, bool); /* from here on, or not any more */
void note_keep_inodes(struct member *, struct kept_note *);
void note_free(struct kept_note *);
int staged_add(struct member *, const struct note *); /* for the epoch to come */
void staged_drop(struct member *);
/* The first note on the object that satisfies: of another session than `not_of` (NULL: any), failed, in recovery, or recovered
 * and not to be seen yet. `name` NULL: anything of the object; else, of a directory, that name. */
struct kept_note *note_on(struct member *, const struct gfid *, const char *name, const struct session *not_of);
/* One that must be recovered first. */
bool note_blocks(struct member *, const struct gfid *);
bool note_recovering(struct member *, const struct gfid *); /* one that is being recovered just now */
/* What only a new view tidies up: notes that nobody will settle, and sessions that ended with tokens. */
unsigned orphans(const struct member *); /* of tenants: nothing */
/* Changes that are done here, and that their clients have sent once more in this view: others may not be able to do them. */
unsigned repeated(const struct member *);

/* tenants.c; with the lock held */
/* Whose it is that asks, and in whose tree: the provider's process that moves what a tenant has is nobody's, in that tenant's tree. */
struct owner {
	struct tenant *tenant, *tree; /* NULL: nobody's, the whole brick */
	struct gfid access;	      /* zeros: all of the tree */
};
int owner_of(struct member *, const struct request *, struct owner *); /* 0 or -ENOMEM */
/* 0, or why the session can't be attached by one of that owner. */
int tenant_admits(struct member *, const struct session *, const struct owner *);
void session_belongs(struct session *, const struct owner *);
void session_leaves(struct session *); /* it is about to be freed */
bool tenant_notes_full(struct member *, const struct session *);
bool tenant_tokens_full(struct member *, const struct session *);
bool tenant_tokens_many(const struct member *, const struct session *); /* so many that it gets no more but for changes */
bool tenant_tokens_over(const struct member *, const struct session *); /* so many that some are asked back */
struct session *tenant_greedy(struct member *, struct session *);	/* of its tenant, the one with most tokens */
void tenant_suspects(struct member *, struct tenant *, uint32_t members);
/* It failed here, as the status says. `full`: the disk has no room for anything. */
void tenant_failed(struct session *, const struct note *, int status, bool full);
const struct note *tenant_failure(const struct member *, const uint8_t session[16], uint64_t sequence);
unsigned tenants_left(struct member *, bool charge); /* of those that may have a view made; charge: it is being made */
void tenants_tell(struct member *, struct lease_reply *);
void tenants_sweep(struct member *, bool all);

/* tokens.c */
/* goes_on: for a change that was sent in an earlier view, perhaps. It goes before others, and waits less after a start of all members anew. */
int token_acquire(struct member *, struct request *, uint64_t epoch, uint64_t number, const struct gfid *, bool goes_on);
bool token_grant_new(struct member *, struct session *, const struct gfid *);		 /* lock held */
bool token_try(struct member *, struct session *, uint64_t number, const struct gfid *); /* lock held; if it is free */
/* Lock held; if nobody changes by it. *has: who should be asked to share it. */
enum share token_share(struct member *, struct session *, uint64_t number, const struct gfid *, const struct client **has);
void token_lower(struct member *, struct session *, uint64_t number, const struct gfid *); /* lock held; it is kept to read */
void ask_to_share(struct member *, const struct client *, const struct gfid *);		   /* without the lock */
/* lock held; not if it was asked for again, with a higher number */
void token_release(struct member *, struct session *, uint64_t number, const struct gfid *);
void tokens_drop(struct member *, struct session *); /* lock held; NULL: all */
unsigned tokens_stuck(const struct member *);
bool session_sticks(const struct session *); /* it has a token that it was asked for, and has not given back in time */

/* departing.c; with the lock held */
unsigned departing(const struct member *); /* tenants' sessions that are away and hold others up */
bool session_keeps_readers(const struct member *, const struct session *);	 /* others have waited long for it to settle */
bool session_may_attach(struct member *, const uint8_t id[16], struct tenant *); /* false: not in this view any more */
void fences_drop(struct member *);

/* voucher.c */
int voucher_begin(struct member *, struct problem *);
int voucher_make(struct xlator *, const struct bearer *, const struct gfid *, uint8_t voucher[VOUCHER_SIZE]);
/* Of who asks, and of no other bearer. */
bool voucher_is_good(struct member *, const struct request *, const struct gfid *, const uint8_t voucher[VOUCHER_SIZE]);
/* A directory is to have a limit: with the number of it, which is the same at all members of the set, and which no client can choose. It is of this change, whenever that is sent. */
int limit_set(struct request *, struct xlator *, const struct replica_stamp *, const struct setxattr_in *,
	      struct setxattr_out *);

/* own.c: what the member does of its own accord (REPLICA_OWN) */
/* With the lock held. Nobody else can tell that the disk takes no changes: a client that comes for the first time gets no session here (features/cloud makes its tree before), and who heals only tries again.
 * So the member asks the coordinator to leave it out. */
void suspect_self(struct member *, int err);
int own_call(struct request *, struct xlator *, enum fop, const struct replica_stamp *, const void *in, void *out);

/* gate.c */
/* With the lock held. Enters what the change touches in the index, before it is done; and once more what was made, which has a handle only then. */
int touch(struct member *, const struct note *);
void touch_made(struct member *, enum fop, const void *out);
void no_longer_running(struct member *, unsigned parity);
any_fop gate_any;
/* For gate.c and gate-reads.c: how long one waits for what is under way before he asks, and in all. */
enum { SETTLE_ASK_NS = 50000000, READ_WAIT_NS = 10000000000 };

/* gate-reads.c */
any_fop gate_read;
bool is_hidden_name(const struct loc *); /* of the member's own, which clients do not see */
int member_verb(struct request *, struct xlator *, const struct replica_in *, struct replica_out *); /* verbs.c */
void dead_sweep(struct member *);     /* lock held: forgets some of those that nobody has open any more */
void sessions_sweep(struct member *); /* lock held: forgets those of which nothing is left */
#endif
