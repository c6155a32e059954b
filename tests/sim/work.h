/* SPDX-License-Identifier: Apache-2.0 */
/* Inside what clients do: workers (work.c), what they do with names (work-names.c), and with files and xattrs (work-files.c). */
#ifndef STRATUS_SIM_WORK_H
#define STRATUS_SIM_WORK_H
#include "history.h"
#include "place.h"

/* Not for translators, which find what the simulator exports. */
#pragma GCC visibility push(hidden)
enum { FILES_KEPT = 3, OBJECTS_KEPT = 5 };
struct worker {
	struct node *node;
	unsigned life, number;
	struct graph *graph;
	struct inode *root, *object[OBJECTS_KEPT];
	struct file *file[FILES_KEPT];
	struct operation *current;
	const struct place *place; /* said with the next call, or NULL */
	enum fop fop;		   /* the one under way, since when; 0: none */
	uint64_t since_ns;
	bool ended, keeps; /* keeps: see keep.c */
};
extern struct work {
	struct worker *worker[1024];
	unsigned workers, left, running;
	uint64_t values, quorum_since;
	bool begun, final_done;
} work;

uint64_t pick(uint64_t limit);
int call(struct worker *w, enum fop fop, const void *in, void *out);
struct operation *begin(struct worker *w, enum what what);
int end(struct worker *w, int err);
void keep_object(struct worker *w, struct inode *inode);
void release(struct worker *w, struct file *file);
void keep_file(struct worker *w, struct file *file);
struct inode *some_object(struct worker *w, mode_t type);

/* ---- work-names.c ---- */
int lookup(struct worker *w, struct inode *dir, unsigned name, struct inode **found);
struct inode *some_directory(struct worker *w);
unsigned some_name(void);
void do_lookup(struct worker *w);
void do_create(struct worker *w);
void do_mkdir(struct worker *w);
void do_symlink(struct worker *w);
void do_unlink(struct worker *w);
void do_rmdir(struct worker *w);
void do_rename(struct worker *w);
void do_link(struct worker *w);
int list_directory(struct worker *w, struct inode *dir);
void do_readdir(struct worker *w);

/* ---- work-files.c ---- */
void do_write(struct worker *w);
void do_append(struct worker *w);
void do_copy(struct worker *w);
void do_allocate(struct worker *w);
int read_file(struct worker *w, struct file *file);
void do_read(struct worker *w);
void do_fsync(struct worker *w);
void do_truncate(struct worker *w);
void do_chmod(struct worker *w);
int stat_object(struct worker *w, struct inode *object);
void do_stat(struct worker *w);
int get_xattr(struct worker *w, struct inode *object, unsigned name);
void do_xattr(struct worker *w);

/* ---- keep.c ---- */
void keeper_run(struct worker *w); /* until the work is done */
void keepers_check(struct worker *w);
bool keepers_name(unsigned n,
		  char name[32]); /* one after the other, those that they use in the root; false: there are no more */
#pragma GCC visibility pop
#endif
