/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of heal-test share: the members, what is done to them, and what is to be healed. */
#ifndef STRATUS_HEAL_TEST_H
#define STRATUS_HEAL_TEST_H
#include "test.h"

#include <stdatomic.h>
#include <stdio.h>

#include "heal.h"
#include "tree.h"

enum { MEMBERS = 3, PATH_ROOM = 4096 };

/* ---- heal-test.c ---- */
extern struct tree tree;
extern struct xlator *member[MEMBERS];
extern bool on_disk; /* the members are storage/posix, else debug/memory */
extern atomic_int failures;
extern uint64_t seed; /* of the round */
#define FAIL(...) (fprintf(stderr, __VA_ARGS__), fprintf(stderr, "\n"), failures++)

/* ---- heal-test-change.c ---- */
void chance_begin(uint64_t seed); /* the same numbers follow each time */
uint32_t chance(uint32_t below);

/* As the notes of changes that were under way have it: names, not whole directories. */
struct names {
	bool on;
	size_t count;
	struct name_note {
		struct gfid directory;
		char name[256];
	} note[1000];
};
extern struct names names;

enum {
	MKDIR,
	FILE_,
	SYMLINK,
	FIFO,
	DEVICE,
	WRITE,
	TRUNCATE,
	PUNCH,
	CHMOD,
	CHOWN,
	UTIMES,
	XATTR,
	ACL,
	LINK,
	RENAME,
	UNLINK,
	RMDIR,
	REMOVE,
	KINDS
};
/* What is done at every member of a mask: the same, with the same gfid. */
struct change {
	int kind;
	char a[PATH_ROOM], b[PATH_ROOM];
	struct gfid gfid;
	uint64_t offset;
	uint32_t size, number;
	char byte;
};
extern uint64_t change_clock;		      /* the time of the next change */
void change_begin(int at);		      /* calls through the tree go to that member, at the time of changes */
int change_at(int at, const struct change *); /* 0 or -errno */
/* A change by chance at each member of the mask; noted: what it touches is to be healed. */
void change_some(unsigned mask, bool noted);
bool path_add(char *path, const char *name); /* false: the path would be too long */

/* ---- heal-test-compare.c ---- */
/* All names of the directory at that member, sorted; for fop_out_clear(). */
void members_list(int at, const char *path, struct readdir_out *);
/* What that member names, all of it, is remembered; later each of these names must stand for the same object again. */
void names_remember(int at);
void names_check(int at);
void members_compare(const char *path); /* at all members, with all below; fails where they differ */

/* ---- heal-test-queue.c ---- */
extern struct heal heal;
extern unsigned faults; /* each that many-th call of a heal fails at every member; 0: none */
/* For each round. walk: children of each directory are to be healed, too. */
void queue_begin(bool walk);
void queue_drop(void); /* what is left in it */
void queue_end(void);
void queue_finish(void); /* after the last */
/* `parent`, which may be NULL, is kept in memory until the object has been healed. */
void queue_add_below(const struct gfid *, struct inode *parent);
void queue_add(const struct gfid *);
void queue_note(void); /* what is in the queue is what each member will be healed of */
/* Heals so many of what was noted at member 1, as a recovery does it, undoes that, and empties the limbo; a task_fn. */
extern unsigned undo_after;
void queue_heal_some_and_undo(void *);
void queue_heal_all(void *); /* heals all members but the first, by that; a task_fn */

/* ---- heal-test-race.c: what others do at a member while it is healed, and what no list tells of; task_fns ---- */
void race_directory_goes_to_the_limbo(void *), race_name_changes_hands(void *);
void missed_directories_are_told(void *), lacking_directories_are_told(void *), what_is_taken_is_synced(void *);
#endif
