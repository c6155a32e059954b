/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/afr's parts: the view as the client knows it, objects with their tokens and spans, calls to several members, open files.
 * See doc/replication.md. */
#ifndef STRATUS_AFR_H
#define STRATUS_AFR_H
#include "replica.h"

enum { ENAMELESS = 4200 }; /* inside of afr: the member can't find the object, for it has no name any more */
enum { SOON_MS = 10 };	   /* until it is tried again */

/* ---- objects ---- */

enum token_state { TOKEN_NONE, TOKEN_ASKED, TOKEN_HELD, TOKEN_RETURNING };
enum touch { TOUCH_ANY, TOUCH_META };
enum span_kind { SPAN_DATA, SPAN_NAME, SPAN_ALL };
struct span { /* of an object, under change by this client; on the stack of the task */
	enum span_kind kind;
	uint64_t start, end; /* bytes, end not included; of a name: its hash, twice */
	struct span *next;
	uint64_t sent; /* when it was sent, as object.sent counts; 0: it is not under way yet */
};
struct opened;
struct held_lock {
	struct lock lock;
	const struct opened *through; /* NULL: it was given back */
	unsigned lost; /* bit i: member i has told that it gave it up; also where it has been brought again since */
};
struct holder {		/* who may have locks through a file: */
	struct lock of; /* its kind and owner */
	struct opened *through;
	unsigned at; /* bit i: at member i */
};
struct brings { /* what members are brought of locks: how often that has begun, and how much of it goes on */
	unsigned begun[REPLICAS_MAX], going[REPLICAS_MAX];
};
struct object {		     /* slot of an inode; afr.rename_token has none */
	struct inode *inode; /* borrowed: whose slot it is. NULL: the rename token */
	atomic_uint known;   /* bit i: child i can be asked for it by this inode */
	atomic_bool met;     /* a member has shown it since this graph began */
	atomic_uint lost;    /* bit i: it had no name any more when child i was asked, and was not there; in that epoch: */
	atomic_uint_fast64_t lost_epoch;
	pthread_mutex_t lock; /* guards what follows; never held across a wait */
	struct task_cond changed;
	struct inode *parent; /* reference: where it was seen last, with the name; may be out of date */
	char *name;
	enum token_state token;
	bool shared;	/* it is held to read only: others may have it, too, and nobody changes the object */
	uint64_t epoch; /* of the token */
	unsigned pins;	/* changes that use the token just now */
	bool recalled;	/* no more pins: it goes back when the last is gone */
	bool contended; /* it was asked back once: it is never tried for again, only taken for a change */
	struct span *spans;
	uint64_t sent;	   /* how many changes were sent */
	uint64_t undone;   /* afr.undone when one failed last that may have been done somewhere */
	unsigned retrying; /* changes that are sent anew: reads wait for them */
	bool size_known;   /* while the token is held */
	uint64_t size;
	/* Moments: see believe.c. */
	uint64_t gained;     /* when the token came */
	uint64_t touched[2]; /* when this client last changed it: data, attributes, names; mode, owner, xattrs */
	uint64_t gaps;	     /* afr.gaps when the token came */
	unsigned walked;     /* how often a name in it was looked up, or it was asked for, without the token, since: */
	uint64_t walked_ns;
	uint64_t taken_late_ns; /* when somebody last was told to believe what is taken in later: a listing, attributes */
	struct held_lock *held; /* POSIX and flock locks, as they were taken and given up */
	unsigned helds;
	struct holder *holder;
	unsigned holders;
	struct opened *locked; /* open files through which something was locked */
	struct brings brings;
	unsigned leaving; /* owners that are giving all back */
	unsigned losses;  /* how often a member told of one that it gave up */
	bool locked_ever;
	atomic_bool unsynced; /* some member may not sync it any more: that is looked at before it is written with O_DSYNC */
};

/* ---- open files ---- */

struct seen_entry {	 /* of a listing: what was returned */
	uint64_t cookie; /* of the member, to go on after it */
	uint64_t hash;	 /* of the name */
};
struct opened { /* slot of a file */
	struct task_lock opening;
	pthread_mutex_t lock;	       /* guards what follows */
	struct file *at[REPLICAS_MAX]; /* the members' */
	unsigned unlike;	       /* bit i: other locks than ours may be held through it at member i */
	unsigned being_opened;	       /* bit i: at member i, which is brought the locks just now */
	bool bringing;		       /* a task brings them there */
	bool closed;
	struct file *
		file; /* borrowed: that of the slot, once something was locked through it; this and the next the object's lock guards */
	struct opened *next_locked; /* of the inode */
	/* of a directory */
	struct task_lock listing;
	int lister; /* the member that lists, or -1 */
	struct seen_entry *seen;
	uint64_t seen_count, seen_room;
	uint64_t cookie;  /* where `lister` goes on */
	uint64_t since;	  /* so many of `seen` earlier listers gave */
	uint64_t *before; /* hashes of the names before, sorted: `since` of them */
};

/* ---- the translator ---- */

enum read_policy { READ_HASH, READ_LOCAL, READ_LEAST };
struct flight { /* a change under way, in order of sequence */
	uint64_t sequence;
	struct flight *next, *prev;
};
enum { KNOWN_DIRECTORIES = 256 };
struct known_directory {	  /* see known.c */
	struct gfid parent, gfid; /* gfid 0: the name was changed, and not looked at since */
	uint64_t name;		  /* its hash */
	uint64_t since;		  /* a moment: it was seen after it */
};
struct afr {
	/* options */
	int64_t policy;
	bool arbiter;
	uint64_t member_timeout_ms, max_wait_ms;

	struct xlator *x;
	uint8_t session[16];
	int members, arbiter_at; /* REPLICAS_MAX: none */
	struct object rename_token;
	struct task_lock refreshing;
	atomic_uint_fast64_t undone; /* changes that failed, when they may have been done somewhere */
	atomic_uint up;		     /* children that are connected */
	atomic_uint abandoned;	     /* changes that failed, and not all members know it: one may do them yet */
	atomic_uint local;	     /* children on this machine */
	atomic_int outstanding[REPLICAS_MAX];
	atomic_uint_fast64_t unproven_ns[REPLICAS_MAX]; /* it refused to be read then */
	atomic_uint_fast64_t near_ns;	/* until then the first member is asked first for what adds to an account's charge */
	atomic_uint_fast64_t unread_ns; /* when it was last told that who alone may be read does not answer */
	pthread_mutex_t lock;		/* guards what follows */
	struct task_cond changed;	/* the view did, or a member went down */
	bool root_known;
	uint8_t root[VOUCHER_SIZE]; /* of the members that are in use, a tenant's: root_agrees() */
	struct view view;
	bool stale;
	uint64_t sequence;			       /* the last given */
	struct flight flights;			       /* ring */
	uint64_t told;				       /* settled, as all members know it */
	uint64_t last_ns;			       /* when a change ended last */
	uint64_t proved_ns, proved_epoch, gaps_proved; /* of the last BELIEVE that all members granted: when it was sent */
	uint64_t gaps;				       /* connections lost: a brick may have ended the session */
	bool proving;
	bool settling, stopping;
	unsigned tasks;
	uint64_t asked;			      /* for tokens: the number of the last request */
	struct gfid *leaving;		      /* tokens of objects that were forgotten: they go back together */
	unsigned leaving_count, leaving_sent; /* sent: so many, the first, are on their way */
	bool leaves;
	struct gfid *lowering; /* others want to read under the tokens of these */
	unsigned lowering_count;
	bool lowers;
	struct known_directory known[KNOWN_DIRECTORIES];
	struct suspicion {
		uint64_t told_ns;
		int err;
	} suspicion[REPLICAS_MAX]; /* what the log has been told of each member last */
	uint64_t changes, retries, acquired, released, lowered, recalled, suspected, failed, resolves, views;
};
static inline struct afr *afr_of(const struct xlator *x)
{
	return x->private;
}

/* view.c */
/* The view, fetched if it is not known or out of date. -EIO: none could be had until the deadline. */
int afr_view(struct afr *, uint64_t deadline, struct view *);
uint64_t afr_deadline(const struct afr *, const struct request *); /* the request's, or after max-wait */
void afr_view_stale(struct afr *, uint64_t epoch);		   /* somebody refused that epoch */
/* The others may not be read, and those that may have not answered `since` then: after some seconds that is told, and they are left out, as
 * they are if a change does not reach them. */
void afr_unread(struct afr *, const struct view *, unsigned lost, uint64_t since);
void afr_unproven(struct afr *, int member); /* it serves no reads: others are asked before it for a while */
int afr_reader(struct afr *, const struct view *, const struct inode *, bool data, unsigned not_those); /* -1: none */
/* A verb to one child, with a deadline of its own. `more` is freed. *answer (may be NULL) is the caller's. */
int afr_ask(struct afr *, int child, enum replica_verb, struct inode *, struct pack *more, uint64_t deadline,
	    struct replica_out *);
int afr_verb(struct afr *, int child, enum replica_verb, struct inode *, struct pack *more, uint64_t deadline,
	     struct blob *answer);
unsigned afr_tell(struct afr *, unsigned mask, enum replica_verb, const struct pack *); /* to several at once; who answered 0 */
void afr_detach(struct afr *);
int afr_spawn(struct afr *, task_fn *, void *arg);
/* Starts a task of which there is one at a time, with `a` as argument. *running, which a->lock guards, tells of it; the task sets it to false in the end.
 * -EALREADY: it runs; else it can't be started, and *running is false. */
bool afr_stops(struct afr *); /* its graph ends: nothing is waited for any more */
int afr_spawn_single(struct afr *a, bool *running, task_fn *);
/* For what nobody asked for: as nobody in particular, within member-timeout. */
void own_request(struct afr *, struct request *);
void afr_task_ends(struct afr *);

/* voucher.c: for a tenant's clients (doc/tenants.md, T8); for others nothing is packed. */
void pack_named(struct afr *, struct pack *, const struct gfid *); /* the gfid, and its voucher as far as there is one */
/* The same; the object is looked for at the child if no member has shown it yet. */
void pack_found(struct afr *, struct pack *, struct inode *, int child);
bool voucher_known(struct afr *, const struct gfid *);
bool is_tenants(struct afr *); /* by the view that it has */
/* An access point's directory is found by its path at each member, when a session begins there: a member that shows another one than those that are in use is
 * not used (false), and the log says so. It is asked for with each member that a tenant's client attaches to, and with each that comes back. */
bool root_agrees(struct afr *, int child);
void afr_child_changed(struct xlator *, int child, bool connected);

/* believe.c */
void moments_begin(void); /* with each graph: later than any of an instance of this module that was unloaded */
uint64_t afr_moment(void);
uint64_t afr_believe(struct xlator *, struct inode *, enum believe, uint64_t since);
/* With the object's lock held. */
void object_gained(struct afr *, struct object *);
void object_touched(struct object *, enum touch);
/* Nobody else has changed names in it since that moment, or can before this client has given its token back. */
bool object_names_hold(struct afr *, struct object *, uint64_t since);
/* Takes the tokens of the directory and of what it lists, as far as nobody changes by them. True: what was listed must be read again to be believed. */
bool afr_take_listed(struct afr *, struct inode *directory, const struct dirents *);
/* Before a token is given back: nobody believes any more what was read under it. Waits a moment, perhaps. */
void afr_disbelieve(struct afr *, struct object *);
void afr_doubt(struct afr *, struct object *); /* a change of it failed, perhaps half done */

/* known.c */
void directory_seen(struct afr *, const struct inode *parent, const char *name, const struct inode *, uint64_t since);
void directory_changed(struct afr *, const struct loc *); /* after each change of what the name of a directory stands for */
struct inode *directory_known(struct afr *, const struct loc *); /* a reference; NULL: it must be looked up */
/* It was seen under the name under a token of the parent that has been here since. */
bool directory_stands(struct afr *, const struct loc *, const struct inode *directory);

/* flight.c */
void flight_begin(struct afr *, struct flight *);
void flight_end(struct afr *, struct flight *);
uint64_t flights_settled(struct afr *);
void afr_settle_now(struct afr *);
/* For a change that failed half done: until all members know, and the flight with it is over. Takes the flight (malloc'ed) over. */
void flight_abandon(struct afr *, struct flight *, uint64_t epoch);

/* object.c */
struct object *object_of(struct afr *, struct inode *); /* made if new; NULL: no memory */
void object_free(struct object *);
void object_init(struct object *, struct inode *);
/* It has that name now; NULL: nothing is known of it. */
void object_named(struct afr *, struct inode *, struct inode *parent, const char *name);
void object_seen(struct afr *, struct inode *, int child, struct inode *parent, const char *name);
struct inode *object_parent(struct afr *, struct inode *); /* a reference; NULL: none is known */
enum { STEPS_MAX = 10000 };				   /* up a tree, at most */
/* Forgets what was locked by that owner, or through that file; with the lock held. */
void object_drop_locks(struct object *, uint32_t kind, uint64_t owner, const struct opened *through);
/* The same of the lock's owner within its range; true if there is something that reaches into it from outside. */
bool object_drop_covered(struct object *, const struct lock *);

/* span.c: of several objects at once */
/* Waits until nothing that collides is being changed. -EIO: not in time; -ECANCELED. */
int spans_lock(struct object **, struct span *, unsigned count, uint64_t deadline);
void spans_unlock(struct object **, struct span *, unsigned count);
void spans_sent(struct object **, struct span *, unsigned count,
		bool); /* the change is under way; or it is known that it is not done */
void spans_undone(struct afr *, struct object **, unsigned count); /* it failed, and members may have done it */
/* Waits until those changes have ended that collide with what was looked at, and are under way now. -EIO: not in time. -EAGAIN: one that was
 * undone since afr.undone was `before`. */
int spans_settled(struct object *, const struct span *seen, uint64_t before, uint64_t deadline);
bool spans_collide(struct object *, const struct span *); /* with one that is locked */
/* Some change of it is under way, or was undone since. */
bool spans_any(struct object *, uint64_t before);

/* token.c */
/* Has the token of this epoch until token_unpin(); asks for it if need be. -EVIEW, -ENOTCONN, -ETIMEDOUT: with another view perhaps; -EIO: not in
 * time; -ERECOVERING. */
int token_pin(struct afr *, struct object *, uint64_t epoch, uint64_t deadline);
void token_unpin(struct afr *, struct object *);
void flights_known(struct afr *); /* waits until no member can do yet what has failed: nobody else changes that before */
bool token_want(struct afr *, struct object *, uint64_t epoch); /* false: it is here, or on its way, or others want it, too */
void token_wanted(struct afr *, struct object *, uint64_t epoch, enum share got);
uint64_t token_given(struct afr *, struct inode *,
		     uint64_t epoch); /* with the answer to the making of it: that moment; 0: it was not taken */
void token_recalled(struct afr *, struct object *);
/* Somebody wants to read what this client has the token of: by and by, if it does not change it just now. */
void token_lowered(struct afr *, const struct gfid *);
/* The token of an object that is not known here, or not any more. */
void token_leaves(struct afr *, const struct gfid *, uint64_t epoch);
/* For what is asked of a granter, a member that may be slow. */
#define VERB_NS 5000000000ull

/* resolve.c */
/* Makes the inode known to the child. -ESTALE: it can't be found there; -ENOENT: it has no name any more. */
int object_resolve(struct afr *, struct inode *, int child);
/* What has no name any more, at a child that could not find it. -ENOENT: it is not there, or does not count there; -ERECOVERING: it is, and is
 * to be asked for again; -ESTALE: it is, but can't be used. */
int object_absent(struct afr *, struct inode *, int child);

/* call.c */
struct member_result {
	int status; /* for the caller: -ETIMEDOUT if it had not answered */
	bool asked, done;
	bool granted; /* see granted_of */
	int answered; /* by the branch */
	union any_out {
		struct lookup_out lookup;
		struct open_out open;
		struct create_out create;
		struct setattr_out setattr;
		struct link_out link;
		struct write_out write;
		struct copy_range_out copy_range;
		struct statfs_out statfs;
		struct getlk_out getlk;
		struct getxattr_out getxattr;
		struct readdir_out readdir;
		struct seek_out seek;
		struct replica_out replica;
	} out;
};
struct fan;
/* The fop at each member of the mask, with that member's own files and inodes, stamped (epoch 0: not). Returns when all have
 * answered or left the view `epoch`; fan_free by the caller. NULL: no memory. */
struct fan *fan_call(struct afr *, struct request *, unsigned mask, enum fop, const void *in, const struct replica_stamp *);
/* Asks those, who were not asked, or have answered, once more, with another stamp; their answers take the place of the first ones. */
void fan_again(struct fan *, struct request *, unsigned mask, const struct replica_stamp *);
struct member_result *fan_result(struct fan *, int member);
void fan_free(struct fan *);
/* The same at one, in this task. */
int one_call(struct afr *, struct request *, int member, enum fop, const void *in, void *out, const struct replica_stamp *);

/* change.c */
uint64_t name_hash(const char *);
int afr_change(struct request *, struct xlator *, enum fop, const void *in, void *out);
void afr_suspect(struct afr *, const struct view *, unsigned members, int err); /* reports them */
bool afr_quorum_without(const struct view *, unsigned gone);
/* Until there is another view than that, but for a moment only: the caller repeats the report then. */
void afr_leave_view(struct afr *, uint64_t epoch, uint64_t deadline);
int afr_write(struct request *, struct xlator *, const struct write_in *, struct write_out *);
int afr_copy_range(struct request *, struct xlator *, const struct copy_range_in *, struct copy_range_out *);
int afr_rename(struct request *, struct xlator *, const struct rename_in *, struct rename_out *);
int afr_rmdir(struct request *, struct xlator *, const struct rmdir_in *, struct rmdir_out *);

int afr_create(struct request *, struct xlator *, const struct create_in *, struct create_out *);

/* room.c */
int afr_statfs(struct request *, struct xlator *, const struct statfs_in *, struct statfs_out *);

/* read.c */
int afr_read(struct request *, struct xlator *, enum fop, const void *in, void *out);
/* What a request looks at. A member may show what others have not done yet, and what comes to nothing in the end: so the answer waits until
 * what was under way when it came has ended; and where that failed it is asked for again. */
struct look {
	struct inode *inode; /* borrowed; NULL: nothing that we change */
	struct span span;
	uint64_t undone; /* before */
};
struct look look_at(struct afr *, struct inode *, enum span_kind, uint64_t start, uint64_t end);
/* 0: the answer holds; -EAGAIN: it may not; -EIO: not known in time. */
int look_holds(struct afr *, const struct look *, uint64_t deadline);
/* As afr_read; *member tells who answered. */
int afr_read_at(struct request *, struct xlator *, enum fop, const void *in, void *out, int *member);
/* It is not the request's fault: another member may answer, or this one soon. */
bool afr_elsewhere(int err);

/* location.c: as afr_read, but where the object is (location.h) all members tell. */
int afr_getxattr(struct request *, struct xlator *, const struct getxattr_in *, struct getxattr_out *);

/* file.c */
int afr_open(struct request *, struct xlator *, const struct open_in *, struct open_out *);
int afr_opendir(struct request *, struct xlator *, const struct opendir_in *, struct opendir_out *);
int afr_release(struct request *, struct xlator *, const struct release_in *, struct release_out *);
int afr_fsync(struct request *, struct xlator *, const struct fsync_in *, struct fsync_out *);
/* If it is open with O_DSYNC: as that says. */
int afr_sync_written(struct request *, struct xlator *, struct file *);
/* The same, if a member may be unable to: before it is written, so that nothing is done that has to be recovered. */
int afr_sync_doubtful(struct request *, struct xlator *, struct file *);
void file_unsynced(struct afr *, struct file *, bool yes);
int afr_readdir(struct request *, struct xlator *, const struct readdir_in *, struct readdir_out *);
/* An open file with the members' own, which it takes over; NULL: no memory (they are let go). */
struct file *opened_create(struct afr *, struct inode *, uint32_t flags, struct file *const at[REPLICAS_MAX]);
void opened_free(struct opened *);
void files_close(struct afr *, struct request *, struct file *const at[REPLICAS_MAX]); /* those of the members */
void file_forget(struct afr *, struct file *, int member, const struct file *its);     /* that one is stale */
struct opened *opened_of(struct afr *, struct file *);
unsigned opened_unlike(struct opened *);
void opened_set_unlike(struct opened *, int member, bool is);
void file_alike(struct afr *, struct file *, int member); /* tries to bring its locks to the member, if that has it open */
/* The member's own file; opened there if it isn't yet. A reference in *at. */
int file_at(struct afr *, struct file *, int member, struct file **at);
/* ---- locks ---- */

int afr_flush(struct request *, struct xlator *, const struct flush_in *, struct flush_out *);
int afr_setlk(struct request *, struct xlator *, const struct setlk_in *, struct setlk_out *);
/* A member has given a lock up. What is above hears of it when others may have it. */
void lock_lost_at(struct afr *, int member, const struct event *);
/* held.c: the change is good only while a lock is held, and one of these members has given that up. */
bool lock_given_up(struct afr *, const struct request *, enum fop, const void *in, unsigned members);
/* brought.c: what is held through the file, to the member's own of it. -errno: it has not got all. */
int locks_bring(struct afr *, struct file *, struct file *at, int member);
void locks_end(struct afr *, struct file *, struct opened *); /* it is closed */
#endif
