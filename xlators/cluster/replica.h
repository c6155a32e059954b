/* SPDX-License-Identifier: Apache-2.0 */
/* What cluster/afr, features/replica and cluster/coordinator say to each other (doc/replication.md): the verbs of the fop `replica`,
 * and how their arguments are packed into its blob. Integers are big-endian. */
#ifndef STRATUS_REPLICA_H
#define STRATUS_REPLICA_H
#include "xlator.h"

#ifdef STRATUS_MUTANTS /* in tests/sim only: a deliberate mistake, if it is the chosen one */
#include "mutant.h"
#else
#define MUTANT(name) false
#endif

enum { REPLICAS_MAX = 8, REPLICA_SECRET_SIZE = 32, NOTE_OBJECTS = 4, REPLICA_BLOB_MAX = 60000 };

/* Errors that no application sees. */
enum {
	EVIEW = 4110,	 /* another epoch, no lease, frozen, or not attached: fetch the view and try again */
	EPENDING = 4111, /* a member that is BACK: the object is pending, the change was skipped */
	ENOTDONE = 4113, /* asked with REPLICA_ASK: the change was not done here */
	ENOROOM = 4114,	 /* told with REPLICA_ROOM: ENOSPC, and nothing of the change was done */
	EUNSYNCED =
		4115, /* told with REPLICA_UNSYNCED: a write with O_DSYNC was not done, for of that file the member syncs nothing more (EIO) */
	ERECOVERING = 4112, /* the object is being recovered, or a token was not free in time: try again soon */
};

enum member_state { MEMBER_OUT, MEMBER_BACK, MEMBER_IN };
struct view {
	uint64_t epoch;	 /* 0: none yet */
	uint8_t members; /* of the set */
	uint8_t arbiter; /* index of the member without data, or REPLICAS_MAX */
	uint8_t state[REPLICAS_MAX];
	uint8_t order[REPLICAS_MAX];	    /* indexes, by seniority: the first that is IN is the truth in a recovery */
	uint64_t incarnation[REPLICAS_MAX]; /* of the brick's process, as it was taken in; 0: none */
	uint64_t disk[REPLICAS_MAX];	    /* of its disk, as it was taken in: an empty one in its place has another */
	uint64_t boot[REPLICAS_MAX];	    /* of its machine's start, as it was taken in; 0: not known. Only in the register */
	uint32_t
		away; /* without a quorum, bit i: member i is not IN, but had all that was acknowledged. Only in the register */
	/* Only in a tenant's cluster/afr: the members want a voucher with each gfid, and call his root otherwise: this is that gfid's gfid_spread. */
	bool tenant;
	uint8_t root;
};
/* The member that grants the token of the object. -1: nobody is IN. */
int view_granter(const struct view *, const struct gfid *);
uint8_t gfid_spread(const struct gfid *);			     /* all of the gfid that decides which that is */
int view_first(const struct view *);				     /* the most senior IN member with data; -1 */
unsigned view_mask(const struct view *, enum member_state at_least); /* bit i: member i */
bool view_has_quorum(const struct view *);

/* 64 hexadecimal digits of a file. */
int secret_read(const char *path, uint8_t secret[REPLICA_SECRET_SIZE], struct problem *);

/* The rename token of the set, asked for as the token of this gfid (15 zeros and a 2). */
extern const struct gfid gfid_rename_token;
/* In an EVENT_RECALL of a token lock.owner is 0, or: the token may be kept to read. */
enum { RECALL_TO_SHARE = 1 };
enum share { SHARE_NONE, SHARE_ALL, SHARE_READ }; /* nothing; the token; to read only, as others may have it */

/* What shows to all members of a set that one of them has told the tenant of an object: a keyed MAC. It follows each gfid that a tenant's session names in
 * ACQUIRE, DIRECTORY, UNLINKED, TRY, SHARE, SKIP and NAMES (doc/tenants.md, T8); any will do with the root's gfid, and with the rename token's in ACQUIRE. */
enum replica_verb {
	/* From clients. */
	REPLICA_ATTACH = 1, /* session id -> reply_view. Binds the connection's session to that id in the brick's epoch */
	REPLICA_DETACH,	    /* epoch, settled: the session ends, with nothing under way: its tokens are free */
	REPLICA_ACQUIRE,    /* epoch, number, gfid, goes on (a byte, or nothing) ; -ERECOVERING: not within a second */
	REPLICA_RELEASE,    /* epoch, settled, number, gfids: not those that were asked for with a higher number: it is late */
	REPLICA_SETTLE,	    /* epoch, settled */
	REPLICA_SUSPECT,    /* epoch, mask of members, reason (errno) */
	REPLICA_FAILED,	    /* epoch, sequence: it failed, perhaps half done: to be recovered */
	REPLICA_LINKS,	    /* `inode` -> names of the object there (see REPLICA_FIND) */
	REPLICA_DIRECTORY,  /* gfid -> inode, names: of a directory; -ENOENT: not known here, or no directory */
	REPLICA_UNLINKED,   /* gfid -> inode: of an object in use that has no name any more; -ENOENT */
	REPLICA_TRY, /* epoch, number, gfids -> for each a byte: 1, the session has the token now, for nobody else had it or waits for it */
	REPLICA_BELIEVE, /* epoch: the session lets others believe what it reads under its tokens; -EVIEW: it must not */
	REPLICA_OUTCOME, /* epoch, sequence: of a change sent in an earlier epoch -> note_outcome, value, epoch since which all is known */
	REPLICA_SKIP,  /* epoch, gfids: to a BACK member: could not be sent to it, so these are pending */
	REPLICA_NAMES, /* gfid -> names of the object (see REPLICA_FIND), if the member can find it by that; -ENOENT */
	REPLICA_SHARE, /* as TRY, by who can read under a token that others have to read -> for each a byte, enum share. ACQUIRE gives up what it gave to read */
	REPLICA_LOWER, /* as RELEASE, but the session keeps it, to read */
	/* From the coordinator; each begins with the set's secret and an epoch. */
	REPLICA_LEASE = 64,  /* lease_call -> lease_reply */
	REPLICA_FREEZE,	     /* view to come -> nothing once no change is under way; -EVIEW: it is not for this process */
	REPLICA_NOTES,	     /* index of the first -> notes (as many as fit; none: the end) */
	REPLICA_ADD_NOTES,   /* notes: of the union, for the epoch to come */
	REPLICA_ADD_PENDING, /* flag: all ; gfids */
	REPLICA_ACTIVATE, /* view, mask of members that were away, flag: changes that were under way go on, mask of members that are BACK and have been told of all that they have not
			      * synced ; members become what it says, in that epoch */
	REPLICA_RESOLVE,  /* notes, with what became of them: recovered */
	REPLICA_INDEX,	  /* above generation, cursor -> flag: overflowed, next cursor, gfids with types */
	REPLICA_PENDING,  /* cursor -> count, flag: all, gfids */
	REPLICA_STRIKE,	  /* flags; gfids: no longer pending -> count: of those that are, for a change was skipped meanwhile */
	REPLICA_FIND,	  /* gfid -> inode, links (see pack_links): where the brick knows it. -ENOENT: it can't find it */
	REPLICA_LOSE,	  /* gfid: if the object has no name here, what is left of it does not count any more: nobody gets it */
	REPLICA_DISTRUST, /* nothing: when it starts anew, all of it counts as not synced; while it is frozen */
	REPLICA_FOLLOW, /* gfid, under its token: its data and attributes are changed from now on though it is pending, and what was skipped
			 * before does not count */
	REPLICA_SYNC, /* nothing, or the process's incarnation (-EVIEW: it is another): returns when all that was done there is durable */
	REPLICA_CHECKSUM, /* `inode`; offset, length -> 16 bytes (XXH3-128 of the bytes; those past the end count as none) */
	REPLICA_DID,	  /* session, sequence -> nothing, or that change's note: what it was, and what became of it here */
	REPLICA_REPEATED, /* nothing -> notes of changes that were done there and sent once more in this view, as many as fit */
	REPLICA_DEPARTING, /* nothing -> ids of tenants' sessions that are away and hold others up: some of them, in turn */
	REPLICA_DEPART, /* session, depart_step, settled -> but for FREE: flag: it is away here; settled, its notes. See doc/tenants.md, T14 */
};
/* ASK: what has it left? FENCE: the same, and it does not come back in this view. FREE: all members have done the same, so what it left goes. */
enum depart_step { DEPART_ASK, DEPART_FENCE, DEPART_FREE };

/* Of STRIKE. REST: nothing is pending but what is listed. GONE: the objects could not be made equal, for nobody knows a name of them. */
enum { STRIKE_REST = 1, STRIKE_GONE = 2 };

/* A session whose call of BELIEVE was answered by all members that are IN or BACK may for PROOF_MS, from when it was sent, let its users believe for BELIEF_MS
 * what it reads of objects whose tokens it holds. A member that comes into a new view grants no token until BELIEF_WAIT_MS after the
 * last such call. What is more in it than the sum of the other two is for clocks, and for who takes an answer late. */
enum { BELIEF_MS = 600, BELIEF_PROOF_MS = 400, BELIEF_WAIT_MS = 1200 };

/* The directory in the root in which the coordinator keeps what it moves out of the way; nobody else sees it. Its gfid is 15 zeros and a 3. */
#define LIMBO ".stratus.limbo"
extern const struct gfid gfid_limbo;
/* The directory in the root that has the tenants' trees (features/cloud): 15 zeros and a 2. */
extern const struct gfid gfid_tenants;

/* ---- the extension REPLICA of a change (rpc/extension.def) ---- */
enum { REPLICA_EXTENSION = 4, REPLICA_EXTENSION_VERSION = 2 };
enum {
	REPLICA_HEAL = 1,
	REPLICA_READ = 2,
	REPLICA_ASK = 4,
	REPLICA_DOUBT = 8,
	REPLICA_DECIDED = 16,
	REPLICA_OWN = 32,
	REPLICA_ROOM = 64,
	REPLICA_UNSYNCED = 128
};
struct replica_stamp {
	uint64_t epoch;
	uint64_t sequence; /* of the change in its session; 0 for reads and heals */
	uint64_t settled;  /* all changes of the session up to this have been answered by all */
	uint64_t time;	   /* ns since the epoch: what mtime becomes; 0: the brick's clock */
	uint32_t flags;
	/* REPLICA_HEAL: from the coordinator; REPLICA_READ: no change, also at a member that is BACK; REPLICA_ASK: only if it was done before;
	 * REPLICA_DOUBT: it may have been done before, and nobody can tell; REPLICA_DECIDED: the first member has answered to it, so a limit refuses it no more;
	 * REPLICA_OWN: each member does it by itself, of its own accord: the trees of tenants. No client may say that; REPLICA_ROOM: who sends it knows ENOROOM (members of
	 * before that, which do not know the flag, answer ENOSPC); REPLICA_UNSYNCED: who sends it knows EUNSYNCED (others are told EIO) */
	uint64_t session; /* which one, where a connection has several (a change of graphs): session_tag; 0: whichever */
};
uint64_t session_tag(const uint8_t session[16]);
bool session_is_nobody(const uint8_t session[16]);		  /* the coordinator's own notes, after a cold start */
int stamp_attach(struct request *, const struct replica_stamp *); /* -ENOMEM; replaces one that is there */
bool stamp_of(const struct request *, struct replica_stamp *);	  /* false: none, or malformed */
/* In the answer of the granter to the making of an object: the session has its token. */
void granted_attach(struct request *);
bool granted_of(const struct request *);

/* ---- notes ---- */
enum note_kind { NOTE_DATA = 1, NOTE_META, NOTE_NAME, NOTE_NEW };
struct note_object {
	uint8_t kind;
	struct gfid gfid;    /* NAME: the directory's; NEW: of the object that is made */
	uint64_t start, end; /* DATA: bytes, end not included; UINT64_MAX: to the end of the file */
	char name[256];	     /* NAME */
};
enum { NOTE_UNKNOWN = 1 }; /* status of a change that has not ended */
struct note {
	uint8_t session[16];
	uint64_t sequence;
	uint32_t fop;
	int32_t status; /* 0 or -errno, at the member that tells; after RESOLVE: 0 done, -ECANCELED not done, -ENOSPC not done as a whole, -EIO unknown */
	uint64_t value; /* bytes written or copied */
	bool resolved;	/* the coordinator has made all members equal: status says how */
	bool tenants;	/* by a tenant's client, which may have sent others something else */
	uint32_t objects;
	struct note_object object[NOTE_OBJECTS];
};
/* What became of a change, as a member knows it. */
enum note_outcome {
	OUTCOME_NONE, /* there is no note of it */
	OUTCOME_DONE,
	OUTCOME_NOT_DONE,
	OUTCOME_UNKNOWN, /* who could tell has been started anew since */
};
/* What the change touches; 0, or -EOPNOTSUPP for a fop that is no change. Session, sequence and status are left alone. */
int note_of(enum fop, const void *in, struct note *);
/* And, as META, the objects that its request says are to have the names which an unlink or rename takes (PLACE, of cluster/dht). All members are told
 * the same. */
void note_expect(struct note *, const struct request *);
/* That object is in the note only because its names change. They are ordered and made equal with their directories; the object itself stays
 * as it is. */
bool note_only_names(const struct note *, unsigned object);
/* It takes a name from something of which it does not tell: whoever undoes it may give the name back to any object. */
bool note_hides(const struct note *);
/* It has the same number of the same client, whatever became of it. */
bool note_same(const struct note *, const struct note *);
/* And it is of the same names and bytes; but for_arbiter: which bytes does not matter. */
bool note_alike(const struct note *, const struct note *, bool for_arbiter);

/* ---- packing ---- */
struct pack { /* a growing blob */
	uint8_t *bytes;
	uint32_t size, room;
	bool failed; /* memory was short: all that follows does nothing */
};
void pack_u8(struct pack *, uint8_t);
void pack_u32(struct pack *, uint32_t);
void pack_u64(struct pack *, uint64_t);
void pack_bytes(struct pack *, const void *, size_t);
void pack_gfid(struct pack *, const struct gfid *);
void pack_view(struct pack *, const struct view *);
void pack_note(struct pack *, const struct note *);
/* Moves the bytes to the blob (the receiver frees them); -ENOMEM. */
int pack_end(struct pack *, struct blob *);
void pack_free(struct pack *);
struct unpack { /* reads past the end give zeros and set `failed` */
	const uint8_t *at, *end;
	bool failed;
};
struct unpack unpack_blob(const struct blob *);
uint8_t unpack_u8(struct unpack *);
uint32_t unpack_u32(struct unpack *);
uint64_t unpack_u64(struct unpack *);
void unpack_bytes(struct unpack *, void *, size_t);
struct gfid unpack_gfid(struct unpack *);
void unpack_view(struct unpack *, struct view *); /* checked: counts, states, order */
void unpack_note(struct unpack *, struct note *);
bool unpack_more(const struct unpack *); /* something is left, and nothing failed */

/* A list of the names of an object: u32 count, then parent gfid, u8 length, name. */

struct reply_view { /* of ATTACH */
	struct view view;
	bool serving;  /* has a lease, and is IN or BACK */
	bool writable; /* a quorum is there */
};
void pack_reply_view(struct pack *, const struct reply_view *);
void unpack_reply_view(struct unpack *, struct reply_view *);

struct lease_call {
	uint64_t epoch;
	uint64_t clock;	     /* the brick's, as its last answer told it; 0: none yet */
	uint64_t lease_ns;   /* from that time; 0: step down */
	uint64_t generation; /* to begin, if the brick is below */
	uint64_t prune;	     /* index files up to this may go */
	bool writable;
	bool unproven; /* it may differ from the first where nobody knows, until a scrub that is owed ends: it serves no reads */
	bool changes_wait; /* it is not writable only until a recovery has ended */
	bool needed;	   /* it has said that it is going to end, and the set can't do without it */
};
void pack_lease_call(struct pack *, const struct lease_call *);
void unpack_lease_call(struct unpack *, struct lease_call *);
enum { FAILURES_TOLD = 4 };
struct lease_reply {
	uint64_t clock, incarnation;
	uint64_t disk;
	uint64_t epoch; /* the brick's; 0: not active since it started */
	uint64_t generation, synced;
	uint32_t suspects; /* mask, told by clients in this epoch; of itself it says so when its file system is read-only */
	uint32_t reason[REPLICAS_MAX];
	uint32_t orphans; /* notes of sessions that ended, or that failed */
	uint32_t stuck;	  /* tokens that were not given back in time */
	uint64_t pending; /* count; UINT64_MAX: all */
	uint64_t index, notes, tokens;
	uint64_t space, free; /* bytes */
	uint64_t boot;	      /* of the machine (runtime_boot); 0: not known. The first bricks did not tell */
	/* Of tenants, whose word is not enough (doc/tenants.md, T9). The first bricks did not tell: */
	uint32_t tenants_left; /* as `orphans` and `stuck`, of those that may have a view made */
	uint32_t doubted;      /* mask: these are to be asked whether they are well */
	uint32_t failures; /* changes that this member's disk failed at, or has not ended for long: REPLICA_DID tells which */
	struct failure_told {
		uint8_t session[16];
		uint64_t sequence;
	} failure[FAILURES_TOLD];
	uint32_t repeated;  /* changes that were done there and sent once more in this view. Nor this */
	uint32_t departing; /* tenants' sessions that are away and hold others up. Nor this */
	/* After a power cut its list may lack directories whose names changed in generations up to this; UINT64_MAX: in any, as where it does not tell. */
	uint64_t unnamed;
	uint32_t unsynced; /* its disk did not keep what was acknowledged. Nor this */
	uint32_t leaving;  /* its process is going to end: the set goes on without it, if it can. Nor this */
};
void pack_lease_reply(struct pack *, const struct lease_reply *);
void unpack_lease_reply(struct unpack *, struct lease_reply *);
#endif
