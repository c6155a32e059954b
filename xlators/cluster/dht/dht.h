/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht's parts: which subvolume an operation is for (dht.c), the root as all of them have it (root.c), its listing (list.c); files that
 * are elsewhere than their names (away.c, away-names.c), the directories for them (hidden.c), when that is wanted (space.c), and who ends what others began
 * with them (sweep.c); renames over two subvolumes (across.c), what is written down of them (intent.c), who ends those (takeover.c); directories
 * that are elsewhere (parents.c); how the layout of the root is learnt (learn.c), what is done while it changes (transition.c), and who changes
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
enum { SUBVOLUMES_MAX = 64 };

/* A layout of the root. A member's id is the number of the child. */
struct spread {
	struct layout layout;
	uint64_t members;      /* a mask of children */
	bool lacks;	       /* the graph lacks a member */
	bool grows;	       /* the graph has subvolumes that are not in it */
	struct layout grown;   /* in which these get their part */
	struct spread *before; /* that was known before it */
};

/* The room at a subvolume, as it was a moment ago. */
struct space {
	atomic_bool known;
	atomic_uint blocks, least; /* percent of its blocks that are free; the same, or of its inodes if that is less */
	atomic_uint_fast64_t bytes;
};
struct hidden;

struct dht {
	int64_t log_size;  /* option: places that an open root remembers */
	double min_free;   /* option: percent; 0: all files are where their names are */
	double lean;	   /* option: points of the room; 0: directories do not care */
	int64_t scatter;   /* option: one directory in so many is made elsewhere; 0: none */
	uint64_t sweep_ms; /* option */
	int64_t initial;   /* option: subvolumes that the volume began with; 0: all */

	struct xlator *x;
	_Atomic(struct spread *) spread;
	atomic_uint_fast64_t
		agreed; /* those that were found to go by it, or by one before it: they are what the graph has there */
	atomic_uint_fast64_t misplaced_told_ns; /* when it was told that a brick refuses names of the root */
	atomic_uint_fast64_t down;   /* those that have not said that they are up, or have said that they are down since */
	atomic_bool strays;	     /* that there is something in the wrong root was told */
	atomic_bool differ;	     /* that the roots' owners or modes differ was told */
	struct task_lock changing;   /* of the root's attributes, by this client */
	atomic_uint_fast64_t across; /* operations over several subvolumes that were refused */
	atomic_uint_fast64_t put_away, followed, ended, renamed_across, taken_over;
	atomic_uint_fast64_t has_hidden; /* subvolumes where .stratus.dht was seen */

	struct space space[SUBVOLUMES_MAX];
	atomic_uint_fast64_t space_seen_ns;
	atomic_bool space_scarce; /* a subvolume has little more than it should keep free, or less */

	pthread_mutex_t lock; /* guards what follows */
	struct hidden *hidden[SUBVOLUMES_MAX];
	bool stopping, sweeping;
	struct task *sweeper;
	struct task_cond changed;
	struct rebalance *rebalance; /* NULL: it was never asked for */
};

static inline bool is_root(const struct inode *inode)
{
	return inode && gfid_equal(&inode->gfid, &gfid_root);
}

static inline uint64_t all_of(const struct dht *d)
{
	return d->x->children < SUBVOLUMES_MAX ? (1ull << d->x->children) - 1 : UINT64_MAX;
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

/* Those that have said that they are up, and not that they are down since; all, if none has. */
uint64_t present_of(struct dht *);
/* A reference on the root; NULL: no memory. */
struct inode *root_of(struct dht *);
/* The subvolume has the object (NULL: none), found in place, or by a pointer. -EIO: another one has it, too; that is told. */
int note_place(struct dht *, struct inode *, int child, bool away);
/* The subvolume that has the name, or is to have it. */
int subvolume_of_name(struct request *, struct dht *, const struct loc *, enum fop, int *child);
/* The subvolume that has the object, which is not the root; they are asked if it is not known. */
int subvolume_of(struct request *, struct dht *, struct inode *, int *child);

/* ---- learn.c ---- */
int spread_start(struct dht *); /* -ENOMEM */
void spread_finish(struct dht *);
/* *now: what the subvolumes have; it is followed from now on. *least: the lowest version that a member of it has, of those that answer. -errno and
 * *silent: that one does not; -1: the graph lacks one. */
int layout_ask_all(struct request *, struct dht *, const struct spread **now, uint64_t *least, int *silent);
/* The newest that is known; it stays until the graph ends. */
const struct spread *spread_of(struct dht *);
/* Who has that name of the root; while names are moved: who had it before, and has it still if it is there, and who is to have it. */
struct owners {
	int from, to;
};
struct owners root_owners(struct dht *, const char *name);
/* The one that is to have it. It may be none that the graph has: then -EIO is to be answered. */
int root_owner(struct dht *, const char *name);
int subvolume_lacking(struct dht *); /* -EIO, told in the log */
/* The name may stand there. */
bool is_at_home(struct dht *, const char *name, int child);
/* The subvolume has a part of the root; another one may be in the graph, for a layout to come or one that was. */
bool is_member(struct dht *, int child);
/* As present_of, of members. */
uint64_t members_present(struct dht *);
/* Attaches PLACE, with the version of the root's layout besides: the one that the request said before, else the newest. (Only the first one of a request
 * can fail.) */
int place_say(struct request *, struct dht *, const struct place *);
/* Before an operation is begun (again): with the newest, and nothing else. */
int place_say_newest(struct request *, struct dht *);
/* The one that the request says. */
const struct spread *spread_said(const struct request *, struct dht *);
struct owners owners_said(const struct request *, struct dht *, const char *name);
/* What an operation needs that was refused with ELAYOUT: begun before it, and asked after each refusal. 0: it is to be done again; -EIO, told in the
 * log: there is no other layout to go by. */
struct learning {
	uint64_t version;
	unsigned tries, doubts;
};
void learning_begin(struct dht *, struct learning *);
int layout_learn(const struct request *, struct dht *, struct learning *);
/* Asks the subvolumes that can be reached (unless `anew`: those that were never found to agree) whether they go by the layout that is known here, and
 * learns. -EIO: they don't. Leaves PLACE attached. */
int layout_check(struct request *, struct dht *, bool anew);

/* ---- transition.c: names that are being moved from one subvolume to another ---- */
enum { NOT_MOVING = 1 };
/* The operation, if such a name is in it, and needs another way than by the subvolume that is to have the name: else NOT_MOVING. */
int call_moving(struct request *, struct dht *, enum fop, const void *in, void *out);

/* ---- dht.c ---- */
/* The operation as the subvolume does it that has the name. */
int call_at(struct request *, struct dht *, enum fop, const void *in, void *out, int owner);
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

/* ---- hidden.c ---- */
enum { AWAY_DIRS = 256, WORK_DIRS = 16, HIDDEN_NAME = 80 };
/* What a pointer is called in `work`: new.PGFID, it has no name yet; del.PGFID, it has none any more, or is about to lose it; end.PGFID.FRESH,
 * somebody finds out which of these, and ends it. */
enum work { WORK_NEW, WORK_DEL };
/* Where a pointer leads. */
struct aim {
	struct gfid gfid, pgfid; /* of the object; of the pointer itself */
	int child;
	bool dir; /* the object is a directory: it has one name, by its own gfid, whatever pointer leads to it */
};
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
static inline unsigned work_of(const struct gfid *pgfid)
{
	return pgfid->bytes[0] % WORK_DIRS;
}

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

/* What the name leads to: *out is that of the object under the anchor. -ENOENT: nothing stands there (any more). */
int look_at_anchor(struct request *, struct dht *, const struct aim *, struct lookup_out *out);
/* From what a lookup says of a pointer. -EIO: there is no such subvolume. */
int aim_of(struct dht *, const struct lookup_out *, struct aim *);
/* A pointer of that name, owned as the object `inode` is, and its anchor; `synced`: that is on disk then. */
int pointer_prepare(struct request *, struct dht *, int child, const struct loc *, const struct aim *, struct inode *,
		    const struct attr *of, bool synced);
/* As root: the anchor goes. A directory stays. */
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
/* The marks: of the names, MARK_MOVES, MARK_GOES. */
enum { SIDE_MOVES = 2, SIDE_GOES = 3, MARKS = 4 };
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
	bool moves;	     /* gives a directory another parent */
	struct side side[2]; /* the record is where the first is */
};
/* The directory that goes, if one does. */
static inline const struct aim *leaver(const struct intent *it)
{
	return &it->side[it->sides - 1].goes;
}
static inline bool has_mark(const struct intent *it, int n)
{
	return n < it->sides || (n == SIDE_MOVES && it->moves) || (n == SIDE_GOES && !gfid_is_null(&leaver(it)->gfid));
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
/* The record of that name at that subvolume. -EINVAL: it makes no sense. As the caller. */
int intent_read(struct request *, struct dht *, int home, const char *name, struct intent *);
/* What the record of that intent is called now: id, state and attempt of *it. -ENOENT: there is none. */
int intent_find(struct request *, struct dht *, int home, const struct gfid *id, struct intent *it);
/* -EFENCED: somebody has taken it over. */
int intent_stands(struct request *, struct dht *, const struct intent *);
int intent_becomes(struct request *, struct dht *, struct intent *, enum intent_state);
int intent_take_over(struct request *, struct dht *, struct intent *);
int intent_remove(struct request *, struct dht *, const struct intent *);
/* -EMARKED: another intent holds it. */
int side_mark(struct request *, struct dht *, const struct intent *, int n);
/* The mark is still there, and on disk, with what was done at that subvolume before. -EFENCED */
int side_confirm(struct request *, struct dht *, const struct intent *, int n);
int side_unmark(struct request *, struct dht *, const struct intent *, int n);
int mark_remove(struct request *, struct dht *, int child, struct inode *parent, const struct mark *);
/* One step, under the mark of that side: what waits gets the name, or what has the name waits then. As the caller. -EFENCED; -ESTALE, -ENOENT,
 * -EEXIST: it is not as it was. */
struct step_in {
	bool arrives;
	struct gfid moved, other; /* what is moved; what changes places with it (null: nothing is there) */
};
int side_step(struct request *, struct dht *, const struct intent *, int n, const struct step_in *);
/* The directory that is to go, if there is one. -ENOTEMPTY, -ESTALE (it is not where it was), -EFENCED. As root. */
int leaver_remove(struct request *, struct dht *, const struct intent *);
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
int waits_remove(struct request *, struct dht *, const struct intent *, int n); /* 0 also if it is not there */
int waits_parse(const char *name, struct gfid *id);				/* -EINVAL: it is not called w.ID.N */

/* ---- across.c ---- */
/* rename(2) between names at different subvolumes; at one, of directories in different trees, or behind pointers.  */
int rename_across(struct request *, struct dht *, const struct rename_in *, const int child[2]);
/* The name of the root comes from the one to the other subvolume; what had it stays where it is. 0 also if it is not there (any more). -EEXIST: it is at
 * both. As root. */
int name_move(struct request *, struct dht *, const char *name, int from, int to);
/* The directory, which is at that subvolume: -ENOTEMPTY. What is in it has no say in that, so as root. -EAGAIN: it has gone. */
int directory_is_empty(struct request *, struct dht *, int at, struct inode *);
/* rmdir(2) of a name that leads to a pointer. */
int rmdir_away(struct request *, struct dht *, const struct unlink_in *, int owner);

/* ---- parents.c: of directories that are away. As root. ---- */
/* Nobody has given it another pointer since it was made. */
int parent_is_first(struct request *, struct dht *, const struct aim *, bool *yes);
/* A directory that is being made, of which nobody else knows, says that its pointer will be in that one. */
int parent_say_first(struct request *, struct dht *, int child, struct inode *made, int owner, const struct gfid *parent);
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
/* Removes the marks of the names. 0 also where they have gone, or others hold them; and (as in a take over) if their directories have. */
int intent_unmark(struct request *, struct dht *, const struct intent *, bool gone);
/* The same, after what is decided stands where it is to stand: then the record says so. */
int intent_let_go(struct request *, struct dht *, struct intent *, bool gone);
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
/* Ends what has stood in that directory of `work` under that name for long. 0: it has ended; 1: it has another name, and is to be looked at again
 * later. -EINVAL: it is none of these, or makes no sense. The request is to be root's, with PLACE. */
int work_end(struct request *, struct dht *, int child, struct inode *dir, const char *name);
int sweep_start(struct dht *); /* -ENOMEM */
void sweep_stop(struct dht *); /* waits for its end */

/* ---- root.c: what is asked of the root itself ---- */
/* Owner, mode and so on as all have them; the latest times; sizes and link counts of those that are present, summed. */
int root_getattr(struct request *, struct dht *, struct attr *);
/* Any fop but those on names and statfs, for which the root is the object. */
int root_fop(struct request *, struct dht *, enum fop, const void *in, void *out);
int dht_statfs(struct request *, struct xlator *, const struct statfs_in *, struct statfs_out *);

/* ---- location.c: where an object is, and why (location.h) ---- */
int dht_location(struct request *, struct dht *, const struct getxattr_in *, struct getxattr_out *);

/* ---- fsck.c: looks at all subvolumes and puts right what is not as doc/distribution.md has it ---- */
/* "[repair] [wait=MS]": writes what was found, as fsck.h tells. -EINVAL: not understood. */
int fsck_command(struct dht *, int argc, char **argv, FILE *);

/* ---- list.c: an open root ---- */
struct wide; /* slot of the file: the subvolumes' own files, and the log of places */
int root_opendir(struct request *, struct dht *, struct opendir_out *);
int root_readdir(struct request *, struct dht *, const struct readdir_in *, struct readdir_out *);
int root_release(struct request *, struct dht *, struct file *);
/* The subvolume's own file of an open root; opened there as the request's user if it isn't yet. A reference in *at. */
int wide_at(struct request *, struct dht *, struct file *, int child, struct file **at);
void wide_free(struct wide *);
#endif
