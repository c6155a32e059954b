/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of features/usage share: the ledger on the brick's disk, and what is charged for an object. doc/usage.md has the argument. */
#ifndef STRATUS_USAGE_H
#define STRATUS_USAGE_H
#include <pthread.h>
#include <stdatomic.h>

#include "allot.h"
#include "quota.h"
#include "soft.h"
#include "xlator.h"

enum { ACCOUNTS_MAX = 65536, NOTES = 8192, NO_NOTE = -1, CHARGE_UNIT = 4096 };
enum { FURTHER_NAME = 512 };			  /* in a replica set: of an object that has more than one */
enum { DIRS_MAX = 16384, DIRS_OF_ACCOUNT = 256 }; /* directories that have limits: on the brick, and of one account */
/* Longer than that no file is: so sums stay numbers. */
#define LENGTH_MAX     ((uint64_t)1 << 60)
#define RESERVED_XATTR "trusted.usage.end" /* u64, big-endian: blocks are reserved up to there, beyond the file's length */
/* By what directory's limit it is held: that one's number, u64, big-endian. The directory itself has the limits after that: bytes, inodes. */
#define DIR_XATTR QUOTA_TAG_XATTR
#define OWN_XATTR "trusted.usage." /* nobody above has these */

static inline bool amounts_equal(struct amount a, struct amount b)
{
	return a.bytes == b.bytes && a.inodes == b.inodes;
}

/* ---- accounts.c: whose an owner's objects are ---- */

struct range { /* user ids base ... base + count - 1 belong to one account */
	uint64_t base, count;
	struct amount limit; /* 0: none */
	struct amount soft;  /* so much is a warning; 0: none */
	uint64_t grace;	     /* seconds above it after which it is as hard as the limit; 0: never */
	uint32_t row;
	char name[65];
};
struct ranges {
	char *text; /* of which they were made; NULL: of none */
	size_t count;
	struct range *range; /* by base */
};
/* "NAME BASE COUNT [BYTES [INODES [SOFT_BYTES [SOFT_INODES [GRACE]]]]]", the next after a comma. -EINVAL and the sentence; -ENOMEM. Of a text that differs in few rows from that of
 * `before` (or NULL) only these are read. */
int ranges_parse(const char *text, const struct ranges *before, struct ranges *, struct problem *);
const struct range *range_of(const struct ranges *, uint32_t uid); /* NULL: nobody's */
void ranges_free(struct ranges *);

/* ---- ledger.c: the counters, and what is being changed, in a mapped file that outlives the process ---- */

struct row { /* an account: the first is of what is nobody's */
	uint64_t base;
	struct amount amount;
	struct over over; /* in the first bank: since when it has had more than the soft limit */
};
/* An object that may be changed just now. The counters have `charged` of it, whatever it is by now. */
struct note {
	_Atomic uint32_t state; /* enum note_state; the first, which is stored last */
	uint32_t row;
	struct amount charged;
	struct gfid gfid;
	uint32_t handle_size, parent_size;
	uint8_t handle[HANDLE_SIZE_MAX]; /* of the object */
	uint8_t parent[HANDLE_SIZE_MAX]; /* while it is made: of its parent, in which it has the name */
	char name[256];
};
/* A directory that has a limit. */
struct dir {
	_Atomic uint64_t id;	 /* its number, below 2^63; 0: there is none */
	struct amount amount[2]; /* what it and all below it is charged, in each bank */
	struct amount limit;	 /* 0: none */
	uint32_t account;	 /* the row of whom it belonged to when it got a limit */
	uint32_t handle_size;	 /* 0: in a replica set: only what is below has been met, or is left */
	uint8_t handle[HANDLE_SIZE_MAX];
};
enum note_state { NOTE_FREE, NOTE_OBJECT, NOTE_BIRTH };

/* What the charge of an object follows from. */
struct extent {
	uint64_t size;	     /* its length; of a directory in a replica set that of an empty one */
	uint64_t links;	     /* in a replica set: how many names it has beyond the first */
	uint64_t reserved;   /* the end of what is reserved beyond it, or 0 */
	uint64_t xattrs;     /* bytes of names and values */
	uint64_t dir;	     /* by its tag; 0: none */
	bool is_top;	     /* it is that directory itself, */
	struct amount limit; /* with these */
};
struct amount charge_amount(const struct extent *);

struct hold {			      /* of an account */
	struct amount limit, claimed; /* by changes under way: what they may add */
	struct amount orphans;	    /* files without a name that are open: they go with the process, so they are in no ledger */
	atomic_uint_fast64_t begun; /* changes; only ever compared */
	struct amount soft;
	uint64_t grace;
	bool fresh;   /* of a directory: it has no charge of itself yet */
	bool told[2]; /* that it has more than the soft limit of bytes, of inodes */
};

/* An object on this brick, by its handle (XXH3, 128 bits): gfids are chosen by clients, and may be alike. */
struct key {
	uint64_t high, low; /* both 0: not known yet */
};
struct seen { /* of a recount: what is in its sum, or was walked */
	struct key *at;
	size_t size, used;
	bool failed; /* there was no memory for one: the sum is wrong */
};
struct ledger {
	pthread_mutex_t lock; /* guards all; taken after a charge's */
	int fd;
	struct ledger_file *file; /* mapped */
	struct ranges ranges;
	atomic_bool counting;	  /* a recount is under way: */
	struct seen seen, walked; /* walked: directories */
	struct amount *sum;	  /* by row */
	struct charge *owner[NOTES];
	unsigned hand;
	bool doubted;	     /* since it has begun the counters have become doubtful */
	bool unmet;	     /* it has met what a directory holds that has not been met before */
	struct hold *hold;   /* by row; after the accounts the directories */
	uint16_t *dir_place; /* where a directory is in the file, plus 1, by its number */
	size_t dirs;
	uint64_t opened_ns;	   /* tells this time of it from others */
	pthread_mutex_t soft_lock; /* of soft.c; taken before the pool's */
	int64_t near;		   /* in a replica set: bytes below a limit from where the first member is asked */
	struct pool *pool;   /* of the volume's other bricks here, with whom its limits hold together; NULL: it stands alone */
	struct ledger *next; /* in it */
};
/* Maps the file, made if it is not there, and ends a change of the counters that a crash has cut off. *owed: it must be recounted. */
/* replicated: it is charged as in a replica set; if it was not before, a recount is owed, and the notes are dropped. */
int ledger_open(struct ledger *, const char *path, bool replicated, bool *owed, struct problem *);
void ledger_close(struct ledger *, bool clean); /* clean: all that it tells of is on the disk */
/* The accounts are these from now on (taken over). -ENOSPC: more than ACCOUNTS_MAX have ever been charged. */
int ledger_ranges(struct ledger *, struct ranges *);
uint32_t ledger_row(struct ledger *, uint32_t uid);
struct amount ledger_amount(struct ledger *, uint32_t row);
uint64_t ledger_base(struct ledger *, uint32_t row); /* with what its account begins */
/* A change of what the row is charged for has begun, and is noted (or counted as one without a note). */
void ledger_begins(struct ledger *, uint32_t row);
/* What is charged to an account for objects that have names; `begun` is another number if a change has begun since, and only if `busy` is false was none under
 * way. So between two readings with one number, the first not busy, nothing of the account was changed. */
struct reading {
	struct range range; /* count 0: of what is nobody's */
	uint64_t dir;	    /* not 0: it is of this directory, not of an account */
	uint32_t row;
	struct amount amount;
	uint64_t begun;
	bool busy;
};
/* One for each account, malloc'ed, the first of what is nobody's, then one for each directory with a limit, all of one moment. -ENOMEM */
int ledger_read(struct ledger *, struct reading **, size_t *count);
/* What is charged for one object. */
struct entry {
	uint32_t row;
	struct amount amount;
	bool orphan;
	uint64_t dir; /* whose limit holds it, too; one that has none (any more) counts for nothing */
};
/* The object that the note is of (NO_NOTE: none) is charged so instead of so, all or nothing, also if the process is killed meanwhile. */
void ledger_move(struct ledger *, int note, const struct key *, const struct entry *from, const struct entry *to);
/* True: the row's account has a soft limit, or had more than one that is none any more; *range is of it. */
bool ledger_has_soft(struct ledger *, uint32_t row, struct range *);
/* What the account that begins with that user id has, without claims, since when more than it should; told becomes true where it is. */
struct amount ledger_used(struct ledger *, uint64_t base, struct over *, bool told[2]);
void ledger_set_over(struct ledger *, uint64_t base, struct over, const bool told[2]);
struct over ledger_over(struct ledger *, uint32_t row);
bool ledger_row_at(struct ledger *, size_t number, uint32_t *row);	/* of each account; false: there are no more */
int ledger_note(struct ledger *, struct charge *, const struct note *); /* its number, or NO_NOTE: all are in use */
void ledger_unnote(struct ledger *, int note);
void ledger_note_born(struct ledger *, int note, const struct note *); /* what was made has that handle from now on */
struct note *ledger_notes(struct ledger *);			       /* at start, while nobody changes anything */
uint64_t ledger_note_dir(struct ledger *, int note);
/* So much may come to be charged. -EDQUOT: that would be more than the account may have. -EAGAIN: it has a limit, and others of the pool are not there; or this server's allotment
 * is too small: pool_wait().
 * -EASKFIRST: the limit is near, and another member of the set decides (LIMITS_ASK). last: of what is kept free in a pool, too. */
int ledger_claim(struct ledger *, uint32_t row, struct amount, bool last, enum limits_rule);
void ledger_unclaim(struct ledger *, uint32_t row, struct amount);
/* True: the account of that user has a limit, of which so much is left, and so much of that is for any use. In a pool it is this ledger's part of each: all parts together are
 * the whole. */
bool ledger_left(struct ledger *, uint32_t uid, struct amount *limit, struct amount *left, struct amount *usable);
/* What the account that begins with that user id may have, and what of it is kept free here; as it was, if there is no such account. */
void ledger_limit(struct ledger *, uint64_t base, struct amount *limit, struct amount *keep);
/* What the account that begins with that user id has, and claims. */
struct amount ledger_taken(struct ledger *, uint64_t base);
void ledger_unnoted(struct ledger *, int more); /* so many changes without a note have begun, or (-1) ended */
void ledger_owe(struct ledger *);		/* the counters may be wrong: see recount_owe() */
bool ledger_owes(struct ledger *);
uint64_t ledger_counted_at(struct ledger *); /* seconds since the epoch; 0: never */
int ledger_count_begin(struct ledger *);
/* Of a recount: that is charged for an object of which a change begins. It is in the sum from now on, though nobody meet it any more. */
void ledger_seen(struct ledger *, const struct key *, const struct entry *);
bool ledger_walks(struct ledger *, const struct key *); /* the directory is walked now; false: it was before, or is to be */
size_t ledger_seen_count(struct ledger *);
bool ledger_count_end(struct ledger *, bool whole); /* the sums count from now on; not whole, or false: they are dropped */
int ledger_sync(struct ledger *);		    /* to the disk. -EIO */

/* ---- ledger-dirs.c: directories with a limit. One that is not there (any more) has none, and is charged nothing. ---- */

uint64_t ledger_dir_new(void);				 /* a number that was never used */
int ledger_dir_add(struct ledger *, const struct dir *); /* with nothing charged; one that is there stays. -ENOSPC: too many */
/* In a replica set: an object of that account has the tag, so there is a row, be the directory known or not. -ENOSPC */
int ledger_dir_need(struct ledger *, uint64_t id, uint32_t account);
/* The directory is gone, or its limit. In a replica set the row stays as long as something has the tag. */
void ledger_dir_gone(struct ledger *, uint64_t id);
/* In a replica set: one more may get a limit. -EDQUOT. The first member decides; others, who are told so by a client, take as many again and no more, so that no tenant fills the table for others. */
int ledger_dir_room(struct ledger *, uint32_t account, enum limits_rule);
void ledger_dir_settled(struct ledger *, uint64_t id); /* what it is itself has been charged: until then it is busy */
void ledger_dir_limit(struct ledger *, uint64_t id, struct amount);
void ledger_dir_drop(struct ledger *, uint64_t id);
size_t ledger_dirs(struct ledger *);		     /* how many there are */
bool ledger_dir_lives(struct ledger *, uint64_t id); /* or may: */
/* False: some may be missing that have their attribute; whoever meets one adds it, and after a whole recount none is missing. */
bool ledger_dirs_known(struct ledger *);
bool ledger_dir_read(struct ledger *, uint64_t id, struct dir *, struct amount *used);
/* The next from *number on, which goes behind it; false: there is none. */
bool ledger_dir_next(struct ledger *, uint32_t *number, struct dir *, struct amount *used);
void ledger_dir_begins(struct ledger *, uint64_t id);				     /* as ledger_begins */
int ledger_dir_claim(struct ledger *, uint64_t id, struct amount, enum limits_rule); /* -EDQUOT; -EASKFIRST as ledger_claim */
void ledger_dir_unclaim(struct ledger *, uint64_t id, struct amount);

/* ---- pool.c ---- */

int pool_join(struct ledger *, const char *name, unsigned bricks);     /* -ENOMEM */
void pool_resize(struct ledger *, unsigned bricks);		       /* the volume has another number of them now */
int pool_join_set(struct ledger *, const char *name, const char *set); /* as a member of that replica set of the volume */
/* It has bricks at so many servers, or so many replica sets: if there are several each keeps to its allotment (allot.h). */
void pool_spread(struct ledger *, unsigned servers);
bool pool_has_allotments(const struct ledger *);
void pool_doubt(struct ledger *);	    /* before limits change */
bool pool_is_of_set(const struct ledger *); /* there are allotments, and it is a set that has one */
/* This member decides about limits in its set, in the view of that epoch (0: it does not, now). What it was allotted when it did so before counts no more. */
void pool_decides(struct ledger *, uint64_t epoch);
bool pool_has_decider(struct ledger *); /* of a set: it is this member */
/* Between pool_enter and pool_exit: what the set may have, as far as this member knows. */
struct amount pool_known(struct ledger *, uint64_t base);
/* Between pool_enter and pool_exit: false: nothing may grow, for this server has not taken up its allotment. */
bool pool_may(struct ledger *, uint64_t base, struct amount limit, struct amount *may);
/* Between them, too: of the limit, for df. stops: what of it is a soft limit, of which nothing is allotted. */
struct amount pool_server_share(struct ledger *, uint64_t base, struct amount limit, struct amount stops);
struct amount pool_keeps(const struct ledger *, struct amount kept);
/* What is to grow, and can't, waits until it was asked for, and answered; the number of that, 0: there are no allotments. pool_unwait ends that. */
uint64_t pool_wait(struct ledger *, uint64_t base, struct amount more);
enum pool_answer { POOL_SILENT, POOL_HEARD /* somebody decides, and has not yet */, POOL_REFUSED };
/* Of what does not fit though it was granted (others were faster) it is asked again: the number changes. */
enum pool_answer pool_answer(struct ledger *, uint64_t base, uint64_t *number);
void pool_unwait(struct ledger *, uint64_t base, struct amount more);
struct soft_list *pool_soft(struct ledger *); /* of soft limits over several servers; NULL: there are none */
void pool_leave(struct ledger *);	      /* if it is in one */
/* What the others have of that account, and claim; it does not become more before pool_exit. False: they are not all there. */
bool pool_enter(struct ledger *, uint64_t base, struct amount *others);
void pool_exit(struct ledger *);
struct amount pool_share(struct ledger *, struct amount whole); /* between pool_enter and pool_exit */
void pool_each(struct ledger *, void (*fn)(struct ledger *, void *),
	       void *arg); /* so, too: of each that is there, this one among them */

/* ---- charge.c ---- */

/* What is known of an object that is, or was, changed: in its inode's slot. */
struct charge {
	pthread_mutex_t lock;
	struct gfid gfid;
	struct key key;
	bool known;	/* what follows is */
	bool born;	/* its note is that of its birth */
	bool orphan;	/* has no name, but is open: charged until it is forgotten */
	bool doubtful;	/* nobody knows what it has become: it is forgotten when no change of it is under way, */
	bool forgotten; /* as it is by now, or it was never learnt since; else what is not known has gone */
	int note;
	struct task_cond changed;
	bool alone;	      /* whoever changes it does so alone */
	unsigned waiting;     /* for being alone: nobody else begins */
	unsigned unnoted;     /* changes under way that have none */
	unsigned users;	      /* changes under way; the note stays while there are any */
	uint64_t turn;	      /* rises each time it is settled */
	struct extent extent; /* as it was settled last */
	uint32_t row;
	uint64_t dir; /* as the counters have it; the tag of one that lives no more counts for nothing */
	struct amount charged;
};
/* A change of the object begins: it is noted. Each begin needs an end. 0 or -errno (-ESTALE: it is gone). */
int charge_begin(struct request *, struct xlator *, struct inode *, struct charge **);
/* The same for who has begun with another object: does not wait for who waits for being alone, who may wait for that one. */
int charge_begin_another(struct request *, struct xlator *, struct inode *, struct charge **);
/* The same, and nobody else changes it meanwhile: for what makes it smaller, or changes whose it is, so that no growth under way has counted on
 * what is no more. Who holds one so begins no other. */
int charge_begin_alone(struct request *, struct xlator *, struct inode *, struct charge **);
/* It is to be made under that name. *inode: a reference, for charge_end. -EEXIST: the gfid is another's. */
int charge_begin_birth(struct request *, struct xlator *, const struct loc *, const struct gfid *, mode_t type, struct inode **,
		       struct charge **);
/* The change has been done, or has failed: what is charged becomes what the object is now. */
void charge_end(struct request *, struct xlator *, struct inode *, struct charge *);
/* Nothing was born: what has that name, or that gfid, was there before, and is charged already. */
void charge_end_unborn(struct xlator *, struct inode *, struct charge *);
void charge_end_unchanged(struct xlator *, struct charge *);				/* nothing that counts was changed */
int charge_relearn(struct request *, struct xlator *, struct inode *, struct charge *); /* its xattrs were changed */
void charge_forget(struct xlator *, struct inode *, void *slot);
struct extent charge_extent(struct charge *); /* as it is just now */
/* Settles it, and counts it in if a recount is under way. */
int charge_count(struct request *, struct xlator *, struct inode *);
/* By what directory's limit it is held, once that is learnt; 0: none. */
int charge_dir(struct request *, struct xlator *, struct inode *, uint64_t *id);
/* The same, of one whose change has begun; and outside, where it has its name: of the directory itself that is 0. */
uint64_t charge_dir_now(struct xlator *, struct charge *);
uint32_t charge_row(struct charge *); /* the account's that it is charged to */
uint64_t charge_dir_outside(struct xlator *, struct charge *);
/* What there is, read anew; its length is not. -ESTALE: it is gone. */
int charge_look(struct request *, struct xlator *, struct inode *, struct extent *);
int charge_key(struct xlator *, struct inode *, struct key *); /* of one that was counted. -ESTALE */
int charges_recover(struct xlator *);			       /* after a crash: what was noted is charged as it is now */
/* Instead, where that can't be done: all is counted anew, and a note that stayed would be settled once more after that. */
void charges_forget(struct xlator *);

/* ---- quota.c: nobody may have more than his account's limit ---- */

/* What a change may add to what is charged, kept free for it while it is under way. Zeros: nothing. */
struct claim {
	uint32_t row;
	struct amount amount;
	uint64_t dir; /* of its limit, too */
	struct amount dir_amount;
};
enum { DIRECTORY_SLACK = 4 * CHARGE_UNIT }; /* by so much a directory may grow when it gets one name */
/* 0 or -EDQUOT. What the provider's own processes do (who is in no account: healing, moving) is never refused. */
int claim_growth(struct request *, struct xlator *, struct charge *, const struct extent *then, struct claim *);
/* It is given to another account, and is then so. */
int claim_given(struct request *, struct xlator *, struct charge *, uint32_t row, const struct extent *then, struct claim *);
/* last: see ledger_claim. */
int claim_more(struct request *, struct xlator *, struct charge *, uint64_t bytes, bool last, struct claim *);
int claim_birth(struct request *, struct xlator *, const struct extent *born, bool last, struct claim *);
/* So cluster/dht calls what it puts aside (doc/distribution.md). Who calls files of his own so has what is kept free used up by them. */
bool is_put_aside(const char *name);
void claim_end(struct xlator *, struct claim *);
int usage_statfs(struct request *, struct xlator *, const struct statfs_in *, struct statfs_out *);

/* ---- soft.c ---- */

/* After what the row is charged has changed: notes, and tells, whether its account has come to be above a soft limit, or below it. The translator is for the log. */
void soft_check(struct ledger *, const struct xlator *, uint32_t row);
void soft_check_all(struct ledger *, const struct xlator *); /* limits, or what is there, may have changed */
/* At a member of a replica set that does not decide: who does may come to refuse growth. */
bool soft_asks(struct ledger *, uint32_t row);
/* Over several servers, or sets: whether the row's account may have that now. What has to wait gets a number (0 before). */
enum soft_answer { SOFT_PASSES, SOFT_WAITS, SOFT_REFUSED };
enum soft_answer soft_may(struct ledger *, uint32_t row, struct amount more, uint64_t *number);

/* ---- recount.c ---- */

int recount_start(
	struct xlator
		*); /* in a task of its own; -EBUSY: there is one, which does not wait any longer if it was to begin later */
/* The counters may be wrong, for a disk has failed in a look: they are not exact from now on, until all is counted anew, which begins soon. */
void recount_owe(struct xlator *);
void recount_stop(struct xlator *);
/* A name begins to be taken away, by a rename or a removal, and that is settled: what is moved may go from where is to be walked yet to where was walked, and what is removed is not met,
 * and is in the counters. The recount waits for those that began before it. */
unsigned recount_taking_begins(struct xlator *);
void recount_taking_ends(struct xlator *, unsigned);
void recount_moved(struct xlator *, struct inode *); /* a directory is to have another parent */

/* ---- dirs.c: limits of directories ---- */

/* What the request makes is held by this limit (0: by none): the attribute is added to what it is born with, until dirs_unborn. *changed: it was. -EPERM: who asks
 * has said what is not for him to say. */
int dirs_born(struct request *, uint64_t id, bool *changed);
void dirs_unborn(struct request *);
bool is_own_xattr(const char *name);
/* So cluster/dht says that an object, or names of a directory, are at another brick, where nobody would know of the limit. What a limit holds never is. */
bool leads_elsewhere(const char *name);
/* quota.h says what these are, and which errors there are. */
int dirs_set(struct request *, struct xlator *, const struct setxattr_in *);
int dirs_remove(struct request *, struct xlator *, const struct removexattr_in *);
int dirs_tell(struct request *, struct xlator *, const struct getxattr_in *, struct blob *value);
int dirs_find(struct request *, struct xlator *, const struct getxattr_in *, struct blob *value);
bool dirs_is_seen(struct request *, struct xlator *,
		  const struct dir *); /* it is not above what a client of an access point sees */
void dirs_print(struct xlator *, FILE *, bool json);
/* What has a tag, by who has learnt that. With the charge's lock held. */
void dirs_met(struct xlator *, struct inode *, const struct extent *, uint32_t account);
/* A tag by whoever makes members equal, of what has none, or another; value NULL: it is taken away. */
int dirs_heal(struct request *, struct xlator *, struct inode *, const struct blob *value);
void dirs_check(struct request *, struct xlator *); /* at start: those that went with the last process are dropped */

/* ---- usage.c ---- */

struct usage {
	char *ledger_path, *accounts, *pool, *set;	    /* options */
	int64_t pool_bricks, pool_servers, pool_sets, near; /* too */
	bool replicated;				    /* it is in a set */
	atomic_bool first;				    /* it decided about the last change of a client that it saw */
	struct ledger ledger;
	pthread_mutex_t lock; /* guards what follows */
	struct task_cond changed;
	bool counting;	      /* there is a task for it, */
	bool walking, missed; /* which is at it; not all that was moved could be noted */
	bool hurry, stopping;
	uint64_t took_ns, ended_ns; /* the last one; the task's */
	unsigned turn, taking[2];   /* renames and removals under way; of even turns and odd ones */
	struct task *counter;	    /* of the recount */
	struct inode **moved;	    /* directories that a recount looks at in the end */
	size_t moved_count;
	atomic_uint_fast64_t settled, unnoted, recovered, refused;
	atomic_bool lonely; /* it was told that other bricks are missing, or nobody who decides */
};
static inline struct usage *usage_of(const struct xlator *x)
{
	return x->private;
}
int usage_setattr(struct request *, struct xlator *, const struct setattr_in *, struct setattr_out *);
struct xlator *usage_leaf(struct xlator *);						 /* what names objects by handles */
uint32_t usage_handle(struct xlator *, struct inode *, uint8_t handle[HANDLE_SIZE_MAX]); /* its size; 0: there is none */

/* ---- usage-names.c ---- */

/* What has the name, if the caller has not said it: *found is a reference, NULL if nothing has. */
int usage_find(struct request *, struct xlator *, const struct loc *, struct inode **found);
int usage_mknod(struct request *, struct xlator *, const struct mknod_in *, struct mknod_out *);
int usage_mkdir(struct request *, struct xlator *, const struct mkdir_in *, struct mkdir_out *);
int usage_symlink(struct request *, struct xlator *, const struct symlink_in *, struct symlink_out *);
int usage_create(struct request *, struct xlator *, const struct create_in *, struct create_out *);
int usage_link(struct request *, struct xlator *, const struct link_in *, struct link_out *);
int usage_unlink(struct request *, struct xlator *, const struct unlink_in *, struct unlink_out *);
int usage_rmdir(struct request *, struct xlator *, const struct rmdir_in *, struct rmdir_out *);
int usage_rename(struct request *, struct xlator *, const struct rename_in *, struct rename_out *);

/* ---- tell.c ---- */

int usage_command(struct xlator *, int argc, char **argv, FILE *out);
void usage_dump(struct xlator *, FILE *out);
#endif
