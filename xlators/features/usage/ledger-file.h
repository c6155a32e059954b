/* SPDX-License-Identifier: Apache-2.0 */
/* How the ledger stands in its file, for ledger.c and ledger-dirs.c.
 *
 *   head | rows of bank 0 | rows of bank 1 | notes | directories that have a limit
 *
 * A file of version 1 ends with the notes: it is made longer. */
#ifndef LEDGER_FILE_H
#define LEDGER_FILE_H
#include "usage.h"

#define MAGIC "SFSUSAGE"
enum { VERSION = 2, ORDER = 0x01020304 };
/* A row is an account's, or from ACCOUNTS_MAX on a directory's. The places of the index are at most half full. */
enum { ROWS = ACCOUNTS_MAX + DIRS_MAX, DIR_PLACES = 2 * DIRS_MAX };

struct pending { /* what rows and a note are to become */
	uint32_t row[2];
	struct amount after[2];
	int32_t note;
	uint32_t note_row;
	struct amount note_after;
};
struct pending_dirs {
	uint32_t number[2]; /* plus 1; 0: none */
	struct amount after[2];
	uint64_t note_dir;
};
struct ledger_file {
	char magic[8];
	uint32_t version, order; /* of bytes: as the machine has them */
	uint64_t boot, counted_at;
	uint32_t owed, clean, bank, rows;
	uint32_t unnoted;	    /* changes under way for which there was no note: a crash in them means a recount */
	_Atomic uint32_t half_done; /* `pending` and `pending_dirs` are to be done */
	struct pending pending;
	struct row row[2][ACCOUNTS_MAX];
	struct note note[NOTES];
	/* Since version 2: */
	struct pending_dirs pending_dirs;
	uint64_t note_dir[NOTES]; /* by what directory's limit the object of the note is held */
	uint32_t dirs_known;	  /* no directory has a limit but those that stand here */
	uint32_t replicated;	  /* 1: charged as in a replica set. 0 was here before that was */
	struct dir dir[DIRS_MAX];
};
enum { LEDGER_SIZE_1 = offsetof(struct ledger_file, pending_dirs) };

static inline struct amount plus(struct amount a, struct amount b)
{
	return (struct amount){ a.bytes + b.bytes, a.inodes + b.inodes };
}

static inline struct amount minus(struct amount a, struct amount b)
{
	return (struct amount){ a.bytes - b.bytes, a.inodes - b.inodes };
}

static inline struct amount kept(const struct entry *e)
{
	return e->orphan ? (struct amount){ 0 } : e->amount;
}

/* Without a limit, too, numbers must stay numbers. */
static inline bool is_over(int64_t limit, int64_t used, int64_t claimed, int64_t more)
{
	limit = limit ? limit : INT64_MAX / 2;
	return more > 0 && (more > limit || used + claimed > limit - more);
}

/* ---- ledger.c ---- */

/* At a member of a replica set that is not the first: from where that is asked, and up to where is done what it has decided. 0: there is no limit. */
struct amount limit_near(const struct ledger *, struct amount limit);
struct amount limit_beyond(const struct ledger *, struct amount limit);

/* ---- ledger-dirs.c; all with the ledger's lock held ---- */

void dirs_index(struct ledger *); /* when the file has been opened; needs no lock yet */
/* The row of what has that id; 0, which is nobody's, if nothing has. */
uint32_t dirs_row(const struct ledger *, uint64_t id);
int dirs_need(struct ledger *, uint64_t id, uint32_t account); /* as ledger_dir_need */
struct pending_dirs dirs_after(const struct ledger *, const struct entry *from, const struct entry *to);
void dirs_move_orphan(struct ledger *, const struct entry *from, const struct entry *to);
void dirs_moved(struct ledger *, const struct entry *from, const struct entry *to); /* for readings */
void dirs_count(struct ledger *, uint64_t id, struct amount more);		    /* in the sum of a recount */
size_t dirs_many(const struct ledger *);
void dirs_read(const struct ledger *, struct reading *); /* as many as those */
#endif
