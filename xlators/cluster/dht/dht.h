/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht's parts: which subvolume an operation is for (dht.c), the root and wide directories as all of them have them (root.c), their listing (list.c); files that
 * are elsewhere than their names (away.c, away-names.c), the directories for them (hidden.c), when that is wanted (space.c), and who ends what others began
 * with them (sweep.c); files that are brought home (migrate.c, migrate-copy.c, migrate-end.c), and who had them open (follow.c); renames over two subvolumes
 * (across.c), what is written down of them (intent.c), who ends those (takeover.c); directories that are elsewhere (parents.c), and such as are at several
 * subvolumes (shards.c); how layouts are learnt (learn.c), what is done while it changes (transition.c), and who changes
 * it (rebalance.c). */
#ifndef STRATUS_DHT_H
#define STRATUS_DHT_H
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#include "layout.h"
#include "place.h"
#include "xlator.h"

/* A mask of subvolumes is one word. */
enum { SUBVOLUMES_MAX = 64, MOVED_HASHES = 1024 };

/* A layout of the root, or of another directory that is at several subvolumes. A member's id is the number of the child. */
struct spread {
	struct layout layout;
	uint64_t members;      /* a mask of children */
	bool lacks;	       /* the graph lacks a member */
	bool grows;	       /* the graph has subvolumes that are not in it */
	struct layout grown;   /* in which these get their part, when it is settled */
	bool weighs;	       /* a member is to have another weight */
	struct layout weighed; /* in which one has, when it is settled */
	bool shrinks;	       /* a member is to leave the volume, and others have a part, too */
	struct layout shrunk;  /* in which it gives its own to them, when it is settled */
	struct spread *before; /* that was known before it */
};
/* Of a directory that is at several subvolumes: the root; in the inode's slot of any other one that has grown wide. */
struct shards {
	_Atomic(struct spread *) spread; /* the newest that is known */
	atomic_uint_fast64_t reached;	 /* subvolumes whose shards were looked up: requests can name them */
	atomic_int home;		 /* where its name leads, or led: a shard of it is there */
	atomic_bool away;		 /* by a pointer */
};

/* The room at a subvolume, as it was a moment ago. */
struct space {
	atomic_bool known;
	atomic_uint blocks, least; /* percent of its blocks that are free; the same, or of its inodes if that is less */
	atomic_uint_fast64_t bytes;
};
struct hidden;

struct dht {
	int64_t log_size;	       /* option: places that an open root remembers */
	double min_free;	       /* option: percent; 0: all files are where their names are */
	double lean;		       /* option: points of the room; 0: directories do not care */
	int64_t scatter;	       /* option: one directory in so many is made elsewhere; 0: none */
	uint64_t sweep_ms;	       /* option */
	uint64_t rate;		       /* option: bytes a second; 0: no limit */
	int64_t parallel;	       /* option */
	int64_t leaving;	       /* option: this subvolume is to go; -1: none is */
	char *weights;		       /* option: of the subvolumes, by number; "": as they are */
	int64_t initial, initial_from; /* options: so many subvolumes have the names as long as there is no layout; 0: all */

	uint16_t weight[SUBVOLUMES_MAX]; /* what `weights` says; 0: nothing */
	uint64_t absent; /* a mask of children that only keep the place of a subvolume that has left (cluster/absent) */

	struct xlator *x;
	struct shards root;
	atomic_uint_fast64_t
		agreed; /* those that were found to go by it, or by one before it: they are what the graph has there */
	atomic_bool lacking_told;		/* that one leaves which the graph lacks */
	atomic_uint_fast64_t misplaced_told_ns; /* when it was told that a brick refuses names of the root */
	atomic_uint_fast64_t down;     /* those that have not said that they are up, or have said that they are down since */
	atomic_bool strays;	       /* that there is something in the wrong root was told */
	atomic_bool differ;	       /* that the owners or modes of shards differ was told */
	struct task_lock changing;     /* of the attributes of a directory with several shards, by this client */
	atomic_uint_fast64_t across;   /* operations over several subvolumes that were refused */
	atomic_uint_fast64_t asked_ns; /* when those above began to read what they would believe */
	atomic_uint_fast64_t moved
		[MOVED_HASHES]; /* of objects of one hash: the moment before one was last found elsewhere; what is older is not believed */
	atomic_uint_fast64_t put_away, followed, ended, renamed_across, taken_over, brought;
	atomic_uint_fast64_t has_hidden; /* subvolumes where .stratus.dht was seen */

	struct space space[SUBVOLUMES_MAX];
	atomic_uint_fast64_t space_seen_ns;
	atomic_bool space_scarce; /* a subvolume has little more than it should keep free, or less */

	pthread_mutex_t lock; /* guards what follows */
	struct hidden *hidden[SUBVOLUMES_MAX];
	bool stopping, sweeping;
	struct task *sweeper;
	struct owed *owed; /* marks that this client may have left over, the oldest first */
	unsigned owed_count;
	struct task_cond changed;
	struct rebalance *rebalance, *widener; /* NULL: it was never asked for */
};

static inline bool is_root(const struct inode *inode)
{
	return inode && gfid_equal(&inode->gfid, &gfid_root);
}

static inline uint64_t all_of(const struct dht *d)
{
	return (d->x->children < SUBVOLUMES_MAX ? (1ull << d->x->children) - 1 : UINT64_MAX) & ~d->absent;
}

/* The graph has it. Ids come from disks, too. */
static inline bool has_subvolume(const struct dht *d, uint64_t id)
{
	return id < (uint64_t)d->x->children && all_of(d) >> id & 1;
}

static inline bool has_leaver(const struct dht *d)
{
	return d->leaving >= 0;
}

/* What the operation ends with if a branch of a fan-out was not waited for: its deadline has come, or it was interrupted. */
static inline int fanout_error(const struct request *rq, int err)
{
	if (err != -EINPROGRESS)
		return err;
	return rq->deadline_ns && clock_ns() >= rq->deadline_ns ? -ETIMEDOUT : -ECANCELED;
}

/* It tells of the subvolume, which others may do without, not of the request. */
static inline bool unreached(int err)
{
	return err == -ENOTCONN || err == -EIO || err == -ETIMEDOUT || err == -EINPROGRESS;
}

/* From now on nothing is believed of it that was asked for before: what vouches for it is about to be another subvolume, which was not asked, and so
 * recalls nothing. */
void place_doubted(struct dht *, const struct inode *);
/* Those that have said that they are up, and not that they are down since; all, if none has. */
uint64_t present_of(struct dht *);
/* NULL: the directory is whole, as far as is known. */
struct shards *shards_of(struct dht *, const struct inode *);
static inline bool is_spread(struct dht *d, const struct inode *inode)
{
	return inode && shards_of(d, inode) != NULL;
}
/* Where it is; -1: that is not known. */
int place_known(struct dht *, const struct inode *);
/* A reference on the root; NULL: no memory. */
struct inode *root_of(struct dht *);
/* The subvolume has the object (NULL: none), found in place, or by a pointer. -EIO: another one has it, too; that is told. */
int note_place(struct dht *, struct inode *, int child, bool away);
void place_moved(struct dht *, struct inode *, int child); /* it is there now */
/* The subvolume that has the name, or is to have it. */
int subvolume_of_name(struct request *, struct dht *, const struct loc *, enum fop, int *child);
/* The subvolume that has the object, which is not the root; they are asked if it is not known. */
int subvolume_of(struct request *, struct dht *, struct inode *, int *child);
enum { ANY = -1 }; /* nothing but the root was named so far */
struct route {
	struct request *rq;
	struct dht *d;
	int child;
};
/* The subvolume that an object, a name, or all that an operation names must be at. -EXDEV: it is not one. */
int route_inode(struct route *, struct inode *);
int route_loc(struct route *, const struct loc *, enum fop);
int route(struct route *, enum fop, const void *in);
/* What came is where it came from. */
int note_out(struct dht *, enum fop, void *out, int child, bool away);
bool known_away(struct dht *, struct inode *);			    /* it was found by a pointer */
uint64_t moment_of(const struct dht *);				    /* that is now, for all subvolumes */
atomic_uint_fast64_t *moved_of(struct dht *, const struct inode *); /* when an object that is hashed alike was moved */
struct shards *in_slot(void *slot);				    /* of an inode; NULL: a number is there, or nothing */

/* ---- shards.c ---- */
/* From now on the directory has some, at first by that layout, if it had none. -ENOMEM. */
int shards_make(struct dht *, struct inode *, int home, const struct layout *);
void shards_free(struct shards *);
/* *child is where a shard is; then where its directory is at home. -EIO: the graph lacks that. */
int home_of_shard(struct request *, struct dht *, struct inode *dir, int *child);
/* What an operation is about that names no name; NULL: it names one, or nothing. */
struct inode *object_asked(enum fop, const void *in);
/* What one subvolume has answered (err): of a directory that has more shards it is made what all of them say. -ELAYOUT: the operation is to be begun again. */
int answer_completed(struct request *, struct dht *, enum fop, const void *in, void *out, int err);

/* ---- learn.c ---- */
int spread_start(struct dht *);						/* -ENOMEM */
int spread_adopt(struct dht *, struct shards *, const struct layout *); /* if it is newer. -ENOMEM */
void spreads_free(struct shards *);
/* The newest that is known of the root; it stays until the graph ends. */
const struct spread *spread_of(struct dht *);
/* The same of any directory; NULL: it is whole. It stays as long as the inode. */
const struct spread *spread_in(struct dht *, const struct inode *dir);
/* *now: what the subvolumes have; it is followed from now on; NULL: the directory is whole. *least: the lowest version that a member of it has, of those that
 * answer. -errno and *silent: that one does not; -1: the graph lacks one. Of the root all are asked, of another directory its members. */
int layout_ask_all(struct request *, struct dht *, struct inode *dir, const struct spread **now, uint64_t *least, int *silent);
/* Its shards that were not looked up yet are, as far as they can be reached. */
void shards_reach(struct request *, struct dht *, struct inode *dir);
/* The same of one, which is needed. -ESTALE: it is not there. */
int shard_reach(struct request *, struct dht *, struct inode *dir, int child);
/* Who has that name of such a directory; while names are moved: who had it before, and has it still if it is there, and who is to have it. */
struct owners {
	int from, to;
};
struct owners owners_in(struct dht *, const struct inode *dir, const char *name);
/* The one that is to have that name of the root. It may be none that the graph has: then -EIO is to be answered. */
int root_owner(struct dht *, const char *name);
int subvolume_lacking(struct dht *); /* -EIO, told in the log */
/* The name may stand there. */
bool is_at_home(struct dht *, const struct inode *dir, const char *name, int child);
/* The subvolume has a part of the root; another one may be in the graph, for a layout to come or one that was. */
bool is_member(struct dht *, int child);
/* The volume is to be without it: nothing new is put there, and what is there goes elsewhere (rebalance-leave.c). */
bool is_leaving(const struct dht *, int child);
uint64_t leaving_of(const struct dht *); /* a mask */
/* While another one leaves, what is at that one can wait. */
static inline bool can_stay(const struct dht *d, int child)
{
	return has_leaver(d) && !is_leaving(d, child);
}
/* As present_of, of members: of the root, of a directory. */
uint64_t members_present(struct dht *);
uint64_t members_present_in(struct dht *, const struct inode *dir);
/* Attaches PLACE, with the versions of layouts besides: those that the request said before, else the root's newest. (Only the first one of a request
 * can fail.) */
int place_say(struct request *, struct dht *, const struct place *);
/* Before an operation is begun (again): with the root's newest, and nothing else. */
int place_say_newest(struct request *, struct dht *);
/* The same, with those of the directories that the operation is about, whose shards are reached then. */
int place_say_for(struct request *, struct dht *, enum fop, const void *in);
/* Of one directory (and the root). */
int place_say_in(struct request *, struct dht *, struct inode *dir);
/* The layout that the request says of the directory; NULL: that is whole. */
const struct spread *spread_said(const struct request *, struct dht *, const struct inode *dir);
struct owners owners_said(const struct request *, struct dht *, const struct inode *dir, const char *name);
/* What an operation needs that was refused with ELAYOUT: begun before it, and asked after each refusal. 0: it is to be done again; -EIO, told in the
 * log: there is no other layout to go by. `fop` and `in` are borrowed; NULL: it is of the root. */
struct learning {
	struct inode *dir[2]; /* whose layouts may be others */
	unsigned dirs;
	uint64_t version[2];
	unsigned tries, doubts;
};
void learning_begin(struct dht *, struct learning *, enum fop, const void *in);
int layout_learn(const struct request *, struct dht *, struct learning *);
/* Another layout is known of one of them than before. */
bool learning_has_learnt(struct dht *, const struct learning *);
/* Another layout of the directory than is known, if there is one. */
int learn_newer(const struct request *, struct dht *, struct inode *dir);
/* The directory was known to be at one of these subvolumes, and has been found at the other: `child` if it has a shard there by its newest layout; else `known`, if it has one there:
 * then it was asked for at the other before it left; else its home. -EEXIST: it has no layout that says so. */
int directory_now(struct dht *, struct inode *dir, int known, int child);
/* The same of one that nobody has looked up by its name: it has a shard there. */
int learn_there(struct request *, struct dht *, struct inode *dir, int child);
/* A brick says that the directory has shards. */
int learn_wide(const struct request *, struct dht *, struct inode *dir);
/* Asks the subvolumes that can be reached (unless `anew`: those that were never found to agree) whether they go by the root's layout that is known here, and
 * learns. -EIO: they don't. Leaves PLACE attached. */
int layout_check(struct request *, struct dht *, bool anew);
/* leaves.c: of a subvolume that leaves no layout tells; the root of `child` does. -ENXIO: there is one that the graph lacks, so what is not found may be there. */
int leaver_is_known(struct request *, struct dht *, int child);
int leaver_said(struct request *, struct dht *, int child,
		int64_t *leaver); /* by that root; -1: nobody. -EINVAL: what it says makes no sense */
/* That, and layout_check anew. */
int knows_all(struct request *, struct dht *, int child);

/* ---- transition.c: names that are being moved from one subvolume to another ---- */
enum { NOT_MOVING = 1 };
/* The operation, if such a name is in it, and needs another way than by the subvolume that is to have the name: else NOT_MOVING. */
int call_moving(struct request *, struct dht *, enum fop, const void *in, void *out);

/* ---- dht.c ---- */
/* The operation as the subvolume does it that has the name. */
int call_at(struct request *, struct dht *, enum fop, const void *in, void *out, int owner);
/* A request as those above send it: placed, waited for, placed anew by what is learnt. */
int dht_any(struct request *, struct xlator *, enum fop, const void *in, void *out);
/* Opens what has the name there. -ENOENT; -EEXIST: it was not to be there. */
int open_at(struct request *, struct dht *, const struct create_in *, struct create_out *, int owner);
/* rename(2) of names that are (to be) at two subvolumes. */
int call_across(struct request *, struct dht *, const struct rename_in *, const int child[2]);

/* ---- rebalance.c (rebalance.h): gives subvolumes that came to the volume their part of the names ---- */
struct rebalance;
/* "start", "stop", "status". -EINVAL: not understood. */
int rebalance_command(struct dht *, int argc, char **argv, FILE *);
void rebalance_stop(struct dht *); /* waits for its end */
void rebalance_free(struct dht *);
/* g.GFID in `work`: a directory that is given more subvolumes. -EINVAL: it is not called so. */
int growing_parse(const char *name, struct gfid *);

/* ---- hidden.c ---- */
enum { AWAY_DIRS = 256 };
/* What a pointer is called in `work`: new.PGFID, it has no name yet; del.PGFID, it has none any more, or is about to lose it; end.PGFID.FRESH,
 * somebody finds out which of these, and ends it. */
enum work { WORK_NEW, WORK_DEL };
/* Where a pointer leads. */
struct aim {
	struct gfid gfid, pgfid; /* of the object; of the pointer itself */
	int child;
	bool dir; /* the object is a directory: it has one name, by its own gfid, whatever pointer leads to it */
};
/* What is left of a file that was moved, by whatever name: it has the file's own gfid. */
static inline bool is_stub(const struct aim *aim)
{
	return gfid_equal(&aim->gfid, &aim->pgfid);
}
/* The directory at that subvolume for away objects of such gfids, or for work; with `makes` it is made if it is missing. A reference in *dir;
 * as root, whoever asks. -ENOENT. */
int away_dir(struct request *, struct dht *, int child, const struct gfid *, bool makes, struct inode **dir);
int work_dir(struct request *, struct dht *, int child, unsigned number, bool makes, struct inode **dir);
/* What was known of them is not so any more. Gives back all references. */
void hidden_forget(struct dht *, int child);
const char *anchor_name(const struct aim *, char name[HIDDEN_NAME]);
const char *work_name(enum work, const struct gfid *pgfid, char name[HIDDEN_NAME]);
const char *end_name(const struct gfid *pgfid, char name[HIDDEN_NAME]); /* another one each time */
int work_parse(const char *name, struct gfid *pgfid);			/* -EINVAL: none of these */

struct who {
	uid_t uid;
	gid_t gid;
	int32_t group_count;
};
struct who become_root(struct request *); /* who it was */
void become(struct request *, struct who);

/* ---- space.c ---- */
/* Where a new file is to be made whose name belongs to that subvolume. */
int place_for_new(struct request *, struct dht *, int owner, const struct gfid *);
/* Where a new directory is to be made whose name belongs to that subvolume. */
int place_for_directory(struct request *, struct dht *, int owner, const struct gfid *);
/* The same as the first when there was no room left; -1: nowhere. */
int place_when_full(struct request *, struct dht *, int owner, const struct gfid *);

/* ---- away.c: all of it with PLACE attached to the request. `owner`, or *child at first: the subvolume that has the name. ---- */
/* *child: where the object is. */
int away_lookup(struct request *, struct dht *, const struct lookup_in *, struct lookup_out *, int *child);
int away_open(struct request *, struct dht *, const struct create_in *, struct create_out *, int *child);
/* A listing tells of pointers what it tells of names that have gone since: the name, type and gfid of the object. */
void away_entries(struct dirents *);
/* create or mknod of a file, or mkdir, the object at *child, with a gfid of its own. -EOPNOTSUPP: it can't be made so, but where its name is (its directory
 * hands on an ACL, there is no room, it is not reached). */
int away_make(struct request *, struct dht *, enum fop, const void *in, void *out, int owner, int *child);
/* The object is at `child`. -EPERM: of a directory. */
int away_link(struct request *, struct dht *, const struct link_in *, struct link_out *, int owner, int child);
/* Of a pointer that has such a name in `work`, as root; -ENOENT, -ESTALE: it has not (any more).
 * new.: it gets no other any more, so its anchor goes, and that name. */
int away_end_new(struct request *, struct dht *, int child, const struct aim *);
/* del., or w. of no intent: becomes end., which is looked at later: what was under way is done or undone by then. */
int away_fence(struct request *, struct dht *, int child, struct inode *dir, const char *name, const struct aim *);
/* end.: if it is the only name, the anchor goes first. */
int away_end(struct request *, struct dht *, int child, struct inode *dir, const char *name, const struct aim *);
/* What a pointer's name leads to; *nlink: names it has. A reference in *pointer. -EINVAL: it is no pointer. */
int pointer_look(struct request *, struct dht *, int child, struct inode *dir, const char *name, struct inode **pointer,
		 uint32_t *nlink, struct aim *);

/* From what a lookup says of a pointer. -EIO: there is no such subvolume. */
int aim_of(struct dht *, const struct lookup_out *, struct aim *);
/* A pointer of that name, owned as the object `inode` is, and its anchor; `synced`: that is on disk then. */
int pointer_prepare(struct request *, struct dht *, int child, const struct loc *, const struct aim *, struct inode *,
		    const struct attr *of, bool synced);
/* Of a directory, as root: what has the name, a pointer with that gfid, is replaced by another one that leads to `aim`. */
int pointer_replace(struct request *, struct dht *, int child, const struct loc *, const struct gfid *old, const struct aim *,
		    const struct attr *of);
/* new.PGFID there, owned as the object is, and its anchor, which is on disk then. */
int pointer_make(struct request *, struct dht *, int child, const struct aim *, struct inode *, const struct attr *of);

/* ---- anchors.c: of what pointers lead to ---- */
/* *out is that of the object under the anchor. -ENOENT: nothing stands there (any more); -EMARKED: it is just being moved, with other names. */
int look_at_anchor(struct request *, struct dht *, const struct aim *, struct lookup_out *out);
/* The same; *child: where it is, or was asked for last. */
int object_look(struct request *, struct dht *, const struct aim *, struct lookup_out *out, int *child);
/* What has the anchor, also if that is a stub, or the copy of what is being moved. */
int anchor_look(struct request *, struct dht *, const struct aim *, struct lookup_out *out);
/* One for the object, which is there; as root. -EMARKED, -EPOINTER: it is moved. */
int anchor_add(struct request *, struct dht *, const struct aim *, struct inode *, struct link_out *);
/* Its directory, or another one, is on disk; as root. */
int anchor_sync(struct request *, struct dht *, const struct aim *);
int directory_sync(struct request *, struct dht *, int child, struct inode *dir);
/* The name, of whatever kind. 0 also if it has gone. */
int remove_at(struct request *, struct xlator *child, const struct loc *);
/* As root: what the pointer leads to loses the name by which it does. -EMARKED: later. (A directory is removed only if it was made for this pointer, and is empty.) */
int drop_target(struct request *, struct dht *, const struct aim *);
/* The same, but a directory stays. */
int drop_anchor(struct request *, struct dht *, const struct aim *);

/* From now on pointers themselves are meant, or not. (Only the first PLACE of a request can fail.) */
int mean_pointers(struct request *, struct dht *, bool yes);
/* The same, and of the names that are given the first must stand for this, the second for that, or anything (NULL). */
int mean_these(struct request *, struct dht *, const struct gfid *first, const struct gfid *second);
/* The name as its owner has it: what stands there, its type, and *aim if it is a pointer, which is in *pointer then (a reference). -ENOENT. */
int look_at_name(struct request *, struct dht *, int child, const struct loc *, struct inode **pointer, struct aim *,
		 struct gfid *, bool *dir);
/* The name `from`, which is to be the pointer's (else -ENOENT, -ESTALE), becomes `to`. */
int rename_pointer(struct request *, struct dht *, int child, const struct aim *, const struct loc *from, const struct loc *to);
/* The pointer has lost the name that counted, to this client: its anchor goes, then what it is called in `work`. As far as they can be reached;
 * the sweep does the rest (sweep.c). */
void end_now(struct request *, struct dht *, int child, const struct aim *);

/* ---- away-names.c ---- */
/* The pointer, which is to be replaced, gets the name del.PGFID beside its own. -EAGAIN: it has just gone. */
int pointer_prepare_removal(struct request *, struct dht *, int child, struct inode *pointer, const struct aim *);
int away_unlink(struct request *, struct dht *, const struct unlink_in *, int owner);
/* Both names at that subvolume. -EWIDE: of directories, which that one alone can't judge. */
int away_rename(struct request *, struct dht *, const struct rename_in *, int child);

/* ---- intent.c: what is to be done to two names, as it is written down, and the marks that hold them. As root, whoever asks. ---- */
enum { SIDE_PATH = 1024 };
enum arrival { ARRIVES_NOTHING, ARRIVES_POINTER, ARRIVES_LINK, ARRIVES_DIRECTORY /* a pointer to one */ };
struct side { /* one of the names */
	int child;
	struct gfid parent;
	char name[NAME_MAX + 1];
	char path[SIDE_PATH]; /* of the directory there, for clients that have not seen it; the root's is "" */
	uint8_t arrival;      /* what is to have the name */
	struct aim aim;	      /* of that: the pointer, or just the object */
	/* A directory that goes for good; gfid null: none. That it has gone decides. pgfid null: it had the name, and waits; else it is away. */
	struct aim goes;
};
/* The record's first letter: what arrives is being made, and the names marked; all are marked, and steps may have been taken, which are to be
 * taken back; all are done; of directories: they stand where they are to stand; none is done (any more). */
enum intent_state { INTENT_PREPARED = 'p', INTENT_OPEN = 'i', INTENT_DECIDED = 'd', INTENT_SETTLED = 's', INTENT_UNDONE = 'u' };
/* The marks: of the names, MARK_MOVES, MARK_GOES; of a file that is brought home also that of the copy; then MARK_DYING of each shard of a wide directory that goes. */
enum { SIDE_MOVES = 2, SIDE_GOES = 3, SIDE_COPY = 4, SIDE_DYING = 5, MARKS_MOST = SIDE_DYING + SUBVOLUMES_MAX };
/* What stands at the name when it has arrived. */
static inline const struct gfid *arrival_gfid(const struct side *s)
{
	return s->arrival == ARRIVES_LINK ? &s->aim.gfid : &s->aim.pgfid;
}
struct intent {
	struct gfid id, file; /* file: the record's own gfid */
	uint32_t attempt;
	enum intent_state state;
	int sides;	     /* 2; of rmdir 1 */
	bool of_directories; /* which older clients know nothing of */
	int moves;	     /* gives a directory another parent: 1 + the subvolume that has MARK_MOVES for it; 0: does not */
	unsigned shards;     /* of the directory that goes, if it is wide: then the record decides, and they go after that */
	int shard[SUBVOLUMES_MAX];
	uint64_t version; /* of its layout, by which these are all */
	/* Brings a file home (migrate.c): the one name, and in its aim the file, where it is, and the pointer. Older clients leave it alone. */
	bool of_file;
	bool several;	     /* which has, or had, several names: which older clients leave alone, too */
	uint32_t marked;     /* not 0: the attempt that the marks say, though the record says a later one */
	struct side side[2]; /* the record is where the first is */
};
static inline uint32_t attempt_of(const struct intent *it)
{
	return it->marked ? it->marked : it->attempt;
}
/* The directory that goes, if one does. */
static inline const struct aim *leaver(const struct intent *it)
{
	return &it->side[it->sides - 1].goes;
}
static inline bool has_mark(const struct intent *it, int n)
{
	return n < it->sides || (n == SIDE_MOVES && it->moves) ||
	       (n == SIDE_GOES && !gfid_is_null(&leaver(it)->gfid) && !it->shards) || n >= SIDE_DYING;
}
/* Numbers of marks are lower. */
static inline int marks_end_of(const struct intent *it)
{
	return SIDE_DYING + (int)it->shards;
}
struct mark_place {
	int child;
	struct gfid parent;
	const char *name;
};
struct mark_place mark_place(const struct intent *, int n);
/* Whether a directory arrives there, from the other name or behind another pointer. */
static inline bool moves_directory(const struct intent *it, int n)
{
	return n < it->sides && it->side[n].arrival == ARRIVES_DIRECTORY;
}
/* Writes down by what path others find the directory; if that is too long, they ask the subvolume (path_at). */
int side_find_path(struct request *, struct dht *, struct side *, struct inode *dir);
/* Where the directory of that gfid stands at the subvolume. -ESTALE: nowhere; -EAGAIN: it can't be told now; -EXDEV: nor at
 * all. As root. */
int path_at(struct request *, struct dht *, int child, const struct gfid *, char path[PATH_MAX]);
/* From *dir to the directory that has this name there, which takes its place; -ENOENT: there is none, or a pointer. */
int step_down(struct request *, struct xlator *child, struct inode **dir, const char *name);
/* The directory, as that subvolume has it: a reference in *dir. -ESTALE: it was removed, or has been moved since. As root. */
int side_find(struct request *, struct dht *, const struct side *, struct inode **dir);
/* The directory of `work` at that side, a reference, which has what waits for the name, or what had it: w.ID.N. */
int side_dir(struct request *, struct dht *, const struct intent *, int n, struct inode **dir);
const char *side_name(const struct intent *, int n, char name[HIDDEN_NAME]);
struct inode *side_parent(struct dht *, const struct gfid *); /* a reference; NULL: no memory */
int intent_parse(const char *name, struct intent *);	      /* -EINVAL: it is no record's */
const char *intent_name(const struct intent *, char name[HIDDEN_NAME]);
int intent_write(struct request *, struct dht *, struct intent *);
/* The record of that name at that subvolume. -EINVAL: it makes no sense; -ENXIO: but for a subvolume that the graph lacks, of which it tells. As the caller. */
int intent_read(struct request *, struct dht *, int home, const char *name, struct intent *);
/* What the record of that intent is called now: id, state and attempt of *it. -ENOENT: there is none. */
int intent_find(struct request *, struct dht *, int home, const struct gfid *id, struct intent *it);
/* How the one that had its record there, and was taken over, ended. -ENODATA: the subvolume does not know. */
int intent_ended(struct request *, struct dht *, int home, const struct gfid *id, enum intent_state *);
/* -EFENCED: somebody has taken it over. */
int intent_stands(struct request *, struct dht *, const struct intent *);
int intent_becomes(struct request *, struct dht *, struct intent *, enum intent_state);
int intent_renew(struct request *, struct dht *, struct intent *); /* a later attempt of the same */
int intent_take_over(struct request *, struct dht *, struct intent *);
int intent_remove(struct request *, struct dht *, const struct intent *);
/* -EMARKED: another intent holds it. */
int side_mark(struct request *, struct dht *, const struct intent *, int n);
/* The mark is still there, and on disk, with what was done at that subvolume before. -EFENCED */
int side_confirm(struct request *, struct dht *, const struct intent *, int n);
/* The mark of another name, or of what has no name, in that directory, or on that file. */
int mark_put(struct request *, struct dht *, const struct intent *, int child, struct inode *, const char *name,
	     uint32_t flags);
int side_unmark(struct request *, struct dht *, const struct intent *, int n);
int mark_remove(struct request *, struct dht *, int child, struct inode *parent, const struct mark *);
/* One step, under the mark of that side: what waits gets the name, or what has the name waits then. As the caller. -EFENCED; -ESTALE, -ENOENT,
 * -EEXIST: it is not as it was. */
struct step_in {
	bool arrives;
	struct gfid moved, other; /* what is moved; what changes places with it (null: nothing is there) */
};
int side_step(struct request *, struct dht *, const struct intent *, int n, const struct step_in *);
/* The directory that is to go, if there is one; of a wide one its shard at home. -ENOTEMPTY, -ESTALE (it is not where it was), -EFENCED. As root. */
int leaver_remove(struct request *, struct dht *, const struct intent *);
/* The other shards of a wide one, as far as they are there. As root. */
int shards_remove(struct request *, struct dht *, const struct intent *);
/* A reference on the shard that has that mark, so that it is known; NULL: it is not there. As root. */
int dying_find(struct request *, struct dht *, const struct intent *, int n, struct inode **dir);
/* A reference on it, so that it is known; NULL: it is not there. As root, with its names fenced. */
int leaver_find(struct request *, struct dht *, const struct intent *, struct inode **dir);
/* It was removed by this intent. */
int leaver_has_gone(struct request *, struct dht *, const struct intent *, bool *gone);
/* What stands at the name, or waits for it; gfid null: nothing. As the caller. */
struct standing {
	struct gfid gfid;
	bool points;
	mode_t type;
	struct aim aim; /* if it points */
};
int name_look(struct request *, struct dht *, const struct intent *, int n, struct standing *);
int waits_look(struct request *, struct dht *, const struct intent *, int n, struct standing *);
/* The name, under its mark, if it stands for that. As the caller. */
int name_remove(struct request *, struct dht *, const struct intent *, int n, const struct gfid *);
/* That object. 0 also if nothing is there. */
int waits_remove(struct request *, struct dht *, const struct intent *, int n, const struct gfid *);
int waits_parse(const char *name, struct gfid *id); /* -EINVAL: it is not called w.ID.N */

/* ---- across.c ---- */
/* rename(2) between names at different subvolumes; at one, of directories in different trees, or behind pointers.  */
int rename_across(struct request *, struct dht *, const struct rename_in *, const int child[2]);
/* The name of the directory comes from the one to the other subvolume; what had it stays where it is. 0 also if it is not there (any more). -EEXIST: it is
 * at both. As root. */
int name_move(struct request *, struct dht *, struct inode *dir, const char *name, int from, int to);
/* The directory, which is at that subvolume: -ENOTEMPTY. What is in it has no say in that, so as root. -EAGAIN: it has gone. */
int directory_is_empty(struct request *, struct dht *, int at, struct inode *);
/* rmdir(2) of a name that leads to a pointer. */
int rmdir_away(struct request *, struct dht *, const struct unlink_in *, int owner);

/* ---- migrate.c, migrate-copy.c, migrate-end.c: files that stand elsewhere than their names are brought home ("Migration"). As root. ---- */
/* Counts what is copied, and slows it down. 1: it is to be asked once more, for 0 bytes; -ECANCELED: it is to stop. */
struct throttle {
	int (*pass)(void *arg, uint64_t bytes);
	void *arg;
};
/* Why a file stays where it is. */
enum bring {
	BROUGHT,
	BROUGHT_NAMES, /* and it has other names, which lead to it by where it was */
	BRING_LED,     /* it was brought by another of its names: so this one leads to there now */
	BRING_NOTHING,
	BRING_KIND,
	BRING_LINKS,
	BRING_LOCKED,
	BRING_CHANGES,
	BRING_RECENT,
	BRING_FULL,
	BRING_BUSY,
	BRING_WIDE,
	BRINGS
};
/* The file behind the pointer that has this name at the subvolume. One of these, or -errno. *bytes: that it has. */
int file_bring(struct request *, struct dht *, const struct loc *, int owner, const struct throttle *, uint64_t *bytes);
/* The same of a name of the root; tells what became of it. */
int bring_command(struct dht *, const char *name, FILE *to);
/* The copy's name, in the directory of `work` for the file's gfid; those of a file that was moved (kept_name), and of its stub, in that for the mover's id. */
const char *copy_name(const struct gfid *, char name[HIDDEN_NAME]);
const char *stub_name(const struct gfid *mover, char name[HIDDEN_NAME]);
int kept_parse(const char *name, struct gfid *mover); /* either of the last two. -EINVAL */
/* Data, xattrs and attributes, from the file to its copy, which is empty or has part of them. */
int copy_data(struct request *, struct dht *, const struct intent *, struct inode *, const struct throttle *);
int copy_rest(struct request *, struct dht *, const struct intent *, struct inode *);
/* A directory's own xattrs, but ACLs, from its old home to the new one, which has no others then. */
int copy_home(struct request *, struct dht *, struct inode *dir, int from, int to);
/* ---- migrate-names.c: of a file with several names, each of which leads to it by an anchor. As root. ---- */
struct anchors { /* of one object at one subvolume: the gfids of their pointers */
	struct gfid *pointer;
	unsigned count, room;
	struct gfid object;
	int err;
};
int anchors_read(struct request *, struct dht *, int child, const struct gfid *object, struct anchors *);
void anchors_clear(struct anchors *);
/* Where the file is, and where its copy is, none of its anchors comes or goes, or is looked up, but by the intent. -EMARKED */
int anchors_hold(struct request *, struct dht *, const struct intent *);
int anchors_let_go(struct request *, struct dht *, const struct intent *);
/* All of these but that of the name for the copy, as steps of the intent; on disk then. */
int anchors_copy(struct request *, struct dht *, const struct intent *, struct inode *copy, const struct anchors *);
/* Those of the copy, as steps. *left: some were there, and that they have gone is not on disk. */
int anchors_undo(struct request *, struct dht *, const struct intent *);
int anchors_left(struct request *, struct dht *, const struct intent *, bool *left);
/* The name, with that pointer, leads to where the file has been moved: it gets another pointer, to there. BRING_LED; BRING_BUSY; -errno. */
int name_lead(struct request *, struct dht *, const struct loc *, int owner, struct inode *pointer, const struct aim *);

/* Where a file stands that is called so. -ENOENT. */
int hidden_find(struct request *, struct dht *, int child, struct inode *dir, const char *name, struct inode **found);
/* What was decided; or nothing was, and what was made goes. With its marks set. */
int bring_finish(struct request *, struct dht *, struct intent *);
int bring_undo(struct request *, struct dht *, struct intent *);
/* Of an intent that is to be ended by another: takes it over, and does one of these. */
int bring_end(struct request *, struct dht *, struct intent *);
/* What decides: the file, which is frozen, is a stub from then on. -EFENCED */
int stub_set(struct request *, struct dht *, const struct intent *, struct inode *file);
/* What the file says there of where it is. -ENODATA: it is no pointer. */
int stub_read(struct request *, struct dht *, int child, struct inode *, struct pointer *);
int kept_read(struct request *, struct dht *, int child, struct inode *,
	      struct pointer *); /* where its stub is. -ENODATA: it has none */
/* A member of the set says in that line of the file's location something else than 0, or does not tell, or can't be asked; `not_out`: one that is out need not. */
bool told_by_any(struct request *, struct dht *, int child, struct inode *, const char *line, bool not_out);
/* k.ID or s.ID, which has stood there for long. 0: it has gone; 1: it is to stay; -errno. */
int kept_end(struct request *, struct dht *, int child, struct inode *dir, const char *name);
/* A file that was moved has that name yet. (Who removed it may have died before what the file says of it had gone: that goes then.) True if it can't be told. */
bool kept_stays(struct request *, struct dht *, int child, struct inode *);

/* ---- follow.c: files that were moved while they were in use ---- */
/* The request says that a file which it names is elsewhere: 0: by now it is known where, -EAGAIN: in a moment; else that is the answer. */
int follow_moved(struct request *, struct dht *, enum fop, const void *in, int err);
/* Where the file is that was found at `child`, and is known to be at `known`; if that can't be asked, where it was found. -EEXIST: at both. */
int place_now(struct dht *, struct inode *, int known, int child);
/* `in` with the subvolume's own files, if they were opened anew there: a copy in `room`, or itself. */
enum { IN_ROOM = 512 };
int files_at(struct request *, struct dht *, enum fop, const void **in, void *room, int child);
void note_opened(struct dht *, struct file *, int child);
/* In a graph that has taken the other's place: what was opened at subvolumes that are others now is opened anew. */
void followed_inherit(const struct xlator *, const struct xlator *old, void *slot);
/* After EBADF: some were taken to be open where they are now, and were not. They are opened anew next time. */
bool files_were_elsewhere(struct dht *, enum fop, const void *in);
int follow_release(struct request *, struct dht *, struct file *);
void followed_free(void *slot);

/* ---- parents.c: of directories that are away. As root. ---- */
/* Nobody has given it another pointer since it was made. */
int parent_is_first(struct request *, struct dht *, const struct aim *, bool *yes);
/* A directory that is being made, of which nobody else knows, says that its pointer will be in that one. */
int parent_say_first(struct request *, struct dht *, int child, struct inode *made, int owner, const struct gfid *parent);
/* What the directory's shard in `away` there says; turn 0: nothing yet. */
int parent_look(struct request *, struct dht *, int child, const struct gfid *dir, struct parent *);
/* No pointer leads to the directory's shard at `from` any more, nor will: it says from now on that the one at `to` is at home. 0 also if it said so before. */
int parent_leads_on(struct request *, struct dht *, const struct gfid *dir, int from, int to);
/* The directory's pointer, in `above` at `owner`, leads from now on to its shard at `to`, where it is at home, and no more to the one at `from`. */
int parent_changes_home(struct request *, struct dht *, const struct gfid *dir, int from, int to, int owner,
			const struct gfid *above);
/* What was moved stands where it is to stand, and says below which directory. Under the intent's marks, when it is decided. */
int intent_settle(struct request *, struct dht *, const struct intent *);
/* -EINVAL: a directory that arrived is, or is above, the one that it arrived in. To be asked when it has left its old name, under the mark of
 * SIDE_MOVES. */
int check_no_circle(struct request *, struct dht *, const struct intent *);

/* ---- takeover.c ---- */
/* A pause for who was told EMARKED. What a client has died over is ended after a while. Not 0: no more of it. */
struct patience {
	uint64_t since_ns, taken_over_ns;
	unsigned pause_ms;
};
int marks_wait(struct request *, struct dht *, struct patience *, enum fop, const void *in);
/* The same for who wants to set a mark in that directory. */
int marks_wait_to_mark(struct request *, struct dht *, struct patience *, int child, struct inode *dir);
/* The mark, if its intent is not there. -EMARKED: it is. */
int mark_end_left_over(struct request *, struct dht *, int child, struct inode *dir, uint64_t hash);
void marks_sweep(struct request *, struct dht *, int child, struct inode *dir); /* all of a directory that are so */
/* Removes the marks of the names. 0 also where they have gone, or others hold them; and (as in a take over) if their directories have. */
int intent_unmark(struct request *, struct dht *, const struct intent *, bool gone);
/* The same, after what is decided stands where it is to stand: then the record says so. */
int intent_let_go(struct request *, struct dht *, struct intent *, bool gone);
/* It could not be taken over to its end: what was marked meanwhile goes when others have ended it, for where a name is not used nobody would ever meet
 * that. Now, or in a sweep. */
void marks_drop(struct request *, struct dht *, const struct intent *);
/* -EBUSY: the intent is still there. */
int marks_drop_now(struct request *, struct dht *, const struct intent *);
/* Takes the record of that name over, and ends what it tells of. */
int intent_end(struct request *, struct dht *, int home, const char *name);
/* What was decided: victims go, then the record. */
int intent_finish(struct request *, struct dht *, const struct intent *);
/* No step was taken, or all were taken back: what waits for a name goes, then the record. */
int intent_forgo(struct request *, struct dht *, struct intent *);
/* The directory's mark of that hash. -ENODATA; -EINVAL: it makes no sense. */
int mark_of(struct request *, struct dht *, int child, struct inode *dir, uint64_t hash, struct mark *);

/* ---- sweep.c ---- */
/* Tells of all that is in a directory of `work`. The request is to be root's. */
typedef void meet_entries(struct request *, void *arg, struct inode *dir, const struct dirents *);
int work_list(struct request *, struct dht *, int child, unsigned number, meet_entries *, void *arg);
/* The same of `away`, or any directory, with flags as of readdir. */
int away_list(struct request *, struct dht *, int child, unsigned number, uint32_t flags, meet_entries *, void *arg);
int directory_list(struct request *, struct dht *, int child, struct inode *, uint32_t flags, meet_entries *, void *arg);
/* Ends what has stood in that directory of `work` under that name for long. 0: it has ended; 1: it has another name, and is to be looked at again
 * later. -EINVAL: it is none of these, or makes no sense. The request is to be root's, with PLACE. */
int work_end(struct request *, struct dht *, int child, struct inode *dir, const char *name);
/* What has stood anywhere in `work` for as long as it takes. `pause` waits, and says whether it goes on. -ENOMEM */
int sweep_all(struct dht *, bool (*pause)(void *arg, uint64_t ms), void *arg);
/* The same, of intents alone: returns as soon as all are gone that were there. */
int sweep_records(struct dht *, bool (*pause)(void *arg, uint64_t ms), void *arg);
/* The marks of that attempt go as soon as others have ended the intent. Of very many the oldest are left to who meets them. */
void marks_owe(struct dht *, const struct intent *);
int sweep_start(struct dht *); /* -ENOMEM */
void sweep_stop(struct dht *); /* waits for its end */

/* ---- root.c: what is asked of the root itself, or of another directory that is at several subvolumes ---- */
/* Owner, mode and so on as all have them; the latest times; sizes and link counts of those that are present, summed. */
int shards_getattr(struct request *, struct dht *, struct inode *dir, struct attr *);
/* Any fop but those on names and statfs, for which the directory is the object. */
int shards_fop(struct request *, struct dht *, struct inode *dir, enum fop, const void *in, void *out);
int dht_statfs(struct request *, struct xlator *, const struct statfs_in *, struct statfs_out *);

/* ---- location.c: where an object is, and why (location.h) ---- */
int dht_location(struct request *, struct dht *, const struct getxattr_in *, struct getxattr_out *);

/* ---- quota.c ---- */
/* QUOTA_XATTR, and that of a number: all bricks have theirs. */
int dht_quota(struct request *, struct xlator *, const struct getxattr_in *, struct getxattr_out *);
/* What df(1) is to show below a directory with a limit, of what it shows elsewhere. */
void quota_show(struct request *, struct xlator *, struct inode *, struct statfs *);

/* ---- fsck.c: looks at all subvolumes and puts right what is not as doc/distribution.md has it ---- */
/* "[repair] [wait=MS]": writes what was found, as fsck.h tells. -EINVAL: not understood. */
int fsck_command(struct dht *, int argc, char **argv, FILE *);

/* ---- list.c: an open directory that is at several subvolumes, or may come to be ---- */
struct wide; /* slot of the file: the subvolumes' own files, and the log of places */
int wide_opendir(struct request *, struct dht *, struct inode *dir, struct opendir_out *);
int wide_readdir(struct request *, struct dht *, const struct readdir_in *, struct readdir_out *);
int wide_release(struct request *, struct dht *, struct file *);
/* A batch of a directory that is whole: what was told is not to be told again where it goes, if the directory grows wide before the end. */
void whole_listed(struct dht *, const struct readdir_in *, const struct dirents *, int child);
/* The subvolume's own file of such an open directory; opened there as the request's user if it isn't yet. A reference in *at. */
int wide_at(struct request *, struct dht *, struct file *, int child, struct file **at);
void wide_free(struct wide *);
/* The listing goes on in a graph that has taken the other's place (inherit_file). */
void wide_inherit(const struct xlator *, const struct xlator *old, void *slot);
#endif
