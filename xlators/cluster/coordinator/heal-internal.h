/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of healing share. */
#ifndef STRATUS_HEAL_INTERNAL_H
#define STRATUS_HEAL_INTERNAL_H
#include "heal.h"

/* ---- heal.c: asking a member ---- */

#define HEAL_CALL_NS 5000000000ull  /* so long a member may take for one answer */
#define HEAL_SYNC_NS 30000000000ull /* and to sync a directory: its disk may have much to write before that */

/* The fop at that member, with the stamp of a heal in the epoch of now. */
int heal_call(struct heal *, struct request *, int member, enum fop, const void *in, void *out);
/* The same, as if it were done at that time. */
int heal_call_at(struct heal *, struct request *, int member, enum fop, const void *in, void *out, const struct time *);
/* With that time, unless the brick knows better what the directory's mtime is (TIME_KEPT). */
int heal_call_kept(struct heal *, struct request *, int member, enum fop, const void *in, void *out, const struct time *);
/* Whoever calls two members and is told of -EIO alone does not know whose it was. */
static inline void heal_note_failed(struct heal *h, int member, int err)
{
	if (err == -EIO)
		atomic_fetch_or(&h->failed, 1u << member);
}
static inline bool is_gone(int err)
{
	return err == -ENOENT || err == -ESTALE;
}
enum {
	LIST_PLUS = 1,	  /* with inodes and attributes; the listing may leave them out of what vanishes or is being changed */
	LIST_IF_THERE = 2 /* 0 also if the directory has gone */
};
/* What the member's directory names, entry by entry, in a listing that is open meanwhile. `each` borrows the entry, but may take its name
 * (and leaves NULL) or give it the inode that was left out (a reference). What it returns ends the listing and is returned, unless 0.
 * -ENOENT, -ESTALE: the directory has gone. */
int directory_list(struct heal *, struct request *, int member, struct inode *directory, unsigned flags,
		   int (*each)(void *arg, struct dirent_plus *), void *arg);

/* ---- heal-find.c: an object at one member ---- */

struct thing {
	struct inode *inode; /* a reference; can be used at the member */
	struct attr attr;
};
void thing_clear(struct thing *);
#define cleanup_thing __attribute__((cleanup(thing_clear)))
/* What stands under the name. -ENOENT also when the directory has gone. */
int thing_lookup(struct heal *, struct request *, int at, struct inode *directory, const char *name, struct thing *);
/* As heal_find. -ENOENT: it is not there under any name that it has at `from`. -EAGAIN: a directory that names it at `from` is not in
 * its place, so it may be there. -ENOLINK: not all of its names are told. */
int thing_find(struct heal *, struct request *, const struct gfid *, int from, int at, struct thing *);
/* Of what thing_find() gives: it is not there, so far as can be told. */
static inline bool not_found(int err)
{
	return err == -ENOENT || err == -EAGAIN || err == -ENOLINK;
}
/* The same without looking along names of another member: only where the member itself knows it. */
int thing_known(struct heal *, struct request *, const struct gfid *, int at, struct thing *);
/* The same for a file that the member keeps only because somebody has it open: no name leads there. */
int thing_nameless(struct heal *, struct request *, const struct gfid *, int at, struct thing *);

struct link_told {
	struct gfid parent;
	char name[256];
};
struct links_told {
	uint32_t count;
	struct link_told *link;
};
#define cleanup_links __attribute__((cleanup(links_clear)))
void links_clear(struct links_told *);
/* The names that the member tells of the object. -ENOENT: it can't find it. */
int links_ask(struct heal *, struct request *, const struct gfid *, int at, struct links_told *);
/* The same of a directory; if need be all the member's directories are looked through for it. */
int place_ask(struct heal *, struct request *, const struct gfid *, int at, struct links_told *);
/* Looks for the directory in all directories of the member, from the root down. `t` may be NULL. -ENOENT: it is not there. */
int directory_search(struct heal *, struct request *, const struct gfid *, int at, struct link_told *, struct thing *t);
/* Looks for anything below `top`. *in: the directory that names it, a reference. */
int search_below(struct heal *, struct request *, const struct gfid *, int at, struct inode *top, struct inode **in,
		 char name[256]);

/* ---- heal-meta.c, heal-data.c: what an object is, save its names ---- */

/* Objects that were made at `to` and are to be made whole. */
struct made_list {
	uint32_t count, room;
	struct gfid *gfid;
};
/* One object as two members have it. */
struct pair {
	struct heal *h;
	struct request *rq;
	int from, to;
	struct inode *inode; /* can be used at both */
	struct attr source, target;
	bool changed; /* something at `to`, so its times are others by now */
	bool taken;   /* a name may have been taken from it at `to` */
	struct made_list
		*made; /* of a directory: what is made there is listed here; NULL: found() is told of all that is named anew */
};
static inline bool same_time(const struct time *a, const struct time *b)
{
	return a->sec == b->sec && a->nsec == b->nsec;
}
/* A creation that was undone at one member, and sent again, may have been done twice, at two times. */
int birth_heal(struct pair *, struct inode *, const struct time *from, const struct time *to);
int pair_meta(struct pair *);  /* birth, owner, xattrs, mode, and last the times */
int pair_times(struct pair *); /* only these */
int pair_data(struct pair *, uint64_t start, uint64_t end);

/* ---- heal-names.c: what a directory names ---- */

/* Both directories' names made equal; the directories' own times are the caller's. */
int pair_names(struct pair *directory);

/* ---- heal-sync.c ---- */

/* A name was taken from the directory at that member: it is synced in the end, if the heal syncs. -ENOMEM. */
int note_taken(struct heal *, int at, struct inode *directory);
/* The same of a pair of directories, where one was. Is given what became of the names, and returns that; or its own error. */
int pair_note_taken(struct pair *directory, int err);

/* ---- heal-links.c ---- */

/* Keeps the inode in memory, if it is of a file with several names and such are kept. */
void link_keep(struct heal *, struct inode *, const struct attr *);

/* ---- heal-place.c: one name ---- */

/* What has the name at `to` goes to the limbo, if it is that object. */
int name_move_away(struct pair *directory, const char *name, const struct gfid *);
/* What has the name at `from` gets it at `to`, where nothing has it. */
int name_place(struct pair *directory, const char *name);

/* ---- heal-limbo.c ---- */

/* From looking what a name stands for to its rename: a rename takes whatever has the name by then, and other heals give names, too. Not for one
 * who is between the two already. */
void move_begin(struct heal *, int at);
void move_end(struct heal *, int at);

/* The directory at that member. */
int limbo_find(struct heal *, struct request *, int at, struct inode **);
int limbo_open(struct heal *, struct request *, int at, struct inode **); /* made if it is not there */
/* Moves it there under the text of its gfid. 0 also when the name had gone. Between move_begin() and move_end(). */
int limbo_take(struct heal *, struct request *, int at, struct inode *directory, const char *name, const struct thing *);
/* Moves it out of there to the name. -ENOENT: it is not there. */
int limbo_give(struct heal *, struct request *, int at, const struct gfid *, const struct loc *);
/* The same for what lies somewhere below: a directory went there with all that it named. */
int limbo_dig(struct heal *, struct request *, int at, const struct gfid *, const struct loc *);
/* That name in that directory is of what the purge leaves, or of the log. */
bool limbo_keeps(const struct inode *directory, const char *name);
/* It is not deleted with the rest, ever. -ENOENT: it is not there. */
int limbo_keep(struct heal *, struct request *, int at, const struct gfid *);

/* ---- heal-undo.c ---- */

#define LOG "log" /* in the limbo */

/* Before a name changes: `was` is what it stands for, NULL: nothing. Does nothing where no log is kept. */
int log_name_was(struct heal *, struct request *, int at, const struct gfid *directory, const char *name,
		 const struct gfid *was);
/* The same for a name that is to be given to what is there already. -EEXIST: it stands for something. */
int log_was_free(struct heal *, struct request *, int at, const struct loc *);
#endif
