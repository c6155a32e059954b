/* SPDX-License-Identifier: Apache-2.0 */
/* What `stratus fsck` does inside cluster/dht: looks at all subvolumes (fsck-walk.c) for what is not as it should be (fsck-look.c, fsck-judge.c),
 * some times, for clients go on meanwhile; what has stood still is found (fsck.c), and put right (fsck-mend.c, fsck-rescue.c).
 *
 * Its answer is lines as those of location.h. Each that is "finding WHAT" begins one of:
 *
 *   finding WHAT        the words of trouble_names
 *   subvolume NAME
 *   path PATH           there
 *   gfid GFID           of what stands there
 *   says SENTENCE
 *   done SENTENCE       it was put right so; or
 *   next SENTENCE       it was not: what is to be done by hand, or why it could not be done
 *
 * Then come  directories N, files N, pointers N, away N  of the last look; or
 *
 *   problem SENTENCE    not all could be looked at, and nothing is known of the volume as a whole
 */
#ifndef STRATUS_DHT_FSCK_H
#define STRATUS_DHT_FSCK_H
#include "dht.h"

/* In the order in which they are put right: what ends an intent may end the others' cause. */
enum trouble {
	TROUBLE_UNENDED, /* an intent, or a pointer in `work`, that nobody ends */
	TROUBLE_WAITS,	 /* w.ID.N of an intent that is not there */
	TROUBLE_MARK,	 /* a mark of one that is not there */
	TROUBLE_XATTR,	 /* trusted.dht.* that makes no sense */
	TROUBLE_POINTER, /* what it leads to is not there under its anchor */
	TROUBLE_SHARD,	 /* a part of a wide directory that its layout does not name, or names and is not there */
	TROUBLE_AWAY,	 /* what stands in `away`, and no pointer leads to it */
	TROUBLE_STRAY,	 /* a name of the root at a subvolume to which it does not belong */
	TROUBLE_TWICE,	 /* one file at two subvolumes */
	TROUBLE_UNKNOWN, /* a name in .stratus.dht that nobody has given */
	TROUBLES
};

/* Something that may be wrong; gfids and numbers as far as there are some. */
struct suspect {
	enum trouble trouble;
	int child;
	mode_t type;
	struct gfid own; /* of what stands there; of the intent */
	struct aim aim;	 /* what a pointer or an anchor's name tells */
	struct mark mark;
	char *path; /* from the subvolume's root, without the first "/" */
	char *more; /* a second path, or an xattr's name; or NULL */
	uint64_t key;
	char *next; /* why it was not put right, or NULL */
};
struct suspects {
	struct suspect *at;
	size_t count, room;
};
void suspects_clear(struct suspects *);

/* A name in `away`, which stands for what it tells. By rising pgfid, so pointers find theirs. */
struct away {
	struct gfid gfid, pgfid; /* a directory's pgfid is its gfid: it has a single pointer */
	uint8_t child;
	bool directory, seen; /* seen: its pointer was */
	bool leads_on;	      /* of a stub: the file was moved, with all its names, and has the same anchor there: */
	uint8_t next;
};
/* Objects of which all places are wanted. By rising gfid. */
struct wanted {
	struct gfid gfid;
	int child[2];
	char *path[2]; /* of the first, and of one at another subvolume */
};
/* A directory at several subvolumes, or one that is about to come to more (then home is -1). */
struct broad {
	struct gfid gfid;
	int home;
	uint64_t shards; /* a mask of subvolumes */
};
struct counts {
	uint64_t directories, files, pointers;
};
struct fsck {
	struct dht *d;
	struct request *rq;
	const struct spread *spread; /* by which names of the root are judged */
	FILE *to;
	bool repairs;
	uint64_t wait_ms; /* between looks */
	uint64_t
		emptied; /* a mask of those that leave the volume, or are given names again: what is at home there is in motion */

	/* one look */
	struct away *away;
	size_t aways, away_room;
	struct broad *broad;
	size_t broads;
	struct suspects now;
	struct counts counts;
	bool incomplete; /* a directory could not be read: what is in it is not known */
	/* from one look to the next */
	struct suspects kept;
	struct wanted *wanted;
	size_t wanteds;
	uint64_t *filter[2]; /* gfids that were seen, perhaps: at subvolumes looked at before, and at this one */
	unsigned looks;
	/* from one round to the next */
	uint64_t *before; /* keys of what had no pointer in the last one, by rising number */
	size_t befores;
	char *problem;
};

/* Why not all could be looked at; the first counts. Returns err. */
int fsck_problem(struct fsck *, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The bricks go still by the layout by which all was judged. */
int fsck_same_layout(struct fsck *);
/* The next requests: as root, for a while, about what pointers lead to (not judged by the brick's layout: fsck_raw). */
int fsck_ask(struct fsck *);
int fsck_ask_pointers(struct fsck *, const struct gfid *expected);
void fsck_ask_raw(struct fsck *);
/* out is to be zeros. */
int fsck_lookup(struct fsck *, int child, struct inode *dir, const char *name, struct lookup_out *out);

/* ---- fsck-walk.c ---- */
enum { PASS, DESCEND };
/* What a walk meets: an entry of the directory, which is looked up if the listing did not. DESCEND: what is in it, too. -errno ends the walk. */
struct spot {
	int child;
	struct inode *dir;
	const char *path; /* of the directory */
	struct dirent_plus *entry;
};
typedef int visit_fn(struct fsck *, const struct spot *);
/* Also the directory itself goes to `enters` (may be NULL), and each that is gone into. */
typedef int enter_fn(struct fsck *, int child, struct inode *dir, const char *path);
int fsck_walk(struct fsck *, int child, struct inode *top, const char *path, enter_fn *enters, visit_fn *visit);
char *spot_path(const struct spot *); /* malloc'ed; NULL: no memory */
/* The directory in which the path ends, a reference, and its last name, which is a part of `path`. */
int fsck_find(struct fsck *, int child, const char *path, struct inode **dir, const char **name);

/* ---- fsck-look.c ---- */
/* One look at all, for what may be wrong: f->now. -errno: not all could be looked at. */
int fsck_look(struct fsck *);
/* NULL: none. That of the subvolume, if there are several. */
struct away *away_find(struct fsck *, const struct gfid *pgfid, int child);
/* Where the file is now of which that is what is left, it has the same anchor. NULL: no. */
struct away *away_next(struct fsck *, const struct away *stub);
void away_meet(struct fsck *, struct away *);			/* its pointer was met; NULL: nothing is known */
struct wanted *wanted_find(struct fsck *, const struct gfid *); /* NULL */
int wanted_meet(struct fsck *, const struct spot *);		/* notes where it is, if it is wanted. -ENOMEM */
void wanted_clear(struct fsck *);
enum { AWAY_PATH = HIDDEN_NAME + 32 };
const char *away_path(const struct away *, char path[AWAY_PATH]);

/* ---- fsck-judge.c ---- */
/* Takes the path, and s.more. -ENOMEM, also if the path is NULL. */
int suspect_add(struct fsck *, struct suspect s, char *path);
int judge_directory(struct fsck *, int child, struct inode *dir, const char *path);
int judge_pointer(struct fsck *, const struct spot *);
/* If the root's xattrs make no sense nothing can be asked of that subvolume. */
int judge_root(struct fsck *, int child);
/* What the listing could not tell of. 1: it was judged, or has gone. */
int judge_broken(struct fsck *, const struct spot *);
int judge_work(struct fsck *, const struct spot *);
/* No subvolume has the record. */
int intent_is_gone(struct fsck *, const struct gfid *id, bool *gone);

/* 1: what it leads to is there under its anchor; 0: it is not. */
int look_where_it_leads(struct fsck *, const struct aim *, bool directory);

/* ---- fsck-shards.c ---- */
enum { SHARD_MISSING = 1 };			     /* mark.hash of the suspect, which has no mark */
int shards_meet(struct fsck *, const struct spot *); /* of a wide directory, what its layout says is kept */
int shards_grow(struct fsck *, const struct gfid *); /* it is about to come to more subvolumes */
int judge_shards(struct fsck *);		     /* when all were met */
/* *moves: nobody needs to look at it, for who empties a subvolume does. */
int is_shard(struct fsck *, int child, struct inode *dir, bool *yes, bool *moves);
/* The next requests change names in that directory, as one does who knows its layout. */
int fsck_say_layout(struct fsck *, int child, struct inode *dir);

/* ---- fsck-mend.c ---- */
enum mended {
	MEND_LEFT, /* *told: what is to be done by hand, or why it could not be done */
	MEND_DONE, /* *told: how */
	MEND_GONE, /* it is not as it was any more: others have put it right */
	MEND_AGAIN /* one half; the rest when it has stood still again */
};
bool fsck_was_before(const struct fsck *, const struct suspect *);
enum mended fsck_mend(struct fsck *, const struct suspect *, char **told);

/* ---- fsck-rescue.c: /lost+found of the volume, made by what dht itself does for applications ---- */
#define LOST "lost+found"
/* One more name for what is at that subvolume. */
int rescue_object(struct fsck *, int child, struct inode *);
/* A text of a pointer that goes. */
int rescue_text(struct fsck *, const struct suspect *, const char *text);
#endif
