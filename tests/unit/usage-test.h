/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of features/usage share: a brick with two accounts, acme and globex, what has been charged, and what is there. */
#ifndef USAGE_TEST_H
#define USAGE_TEST_H
#include "test.h"
#include "test-check.h"
#include "test-tasks.h"

#include "tree.h"

enum { BASE_A = 100000, BASE_B = 200000, COUNT = 1000, OWNERS = 3 };
extern const uint32_t owner[OWNERS]; /* a user of nobody, of acme, of globex */

extern struct tree tree;
extern int limit_bytes, limit_inodes; /* of acme, from the next open_tree on */
extern const char *failing;	      /* the fops that "fails" makes fail, when it is told to */
extern int slow_ms;		      /* listings take so long: much happens during a recount */
extern bool in_set;		      /* the brick is a member of a replica set, from the next open_tree on */
extern uint64_t seed;

struct sums {
	int64_t bytes[OWNERS], inodes[OWNERS];
};

int setup(void **);
int teardown(void **);
void open_tree(void);

struct sums walk(void); /* counts what is on the brick */
int64_t number_after(const char *text, const char *name, const char *key);
void tell(const char *word, const char *more, char **text); /* a command to the translator; free(*text) */
bool is_exact(void);
void expect_equal(void);	       /* charged is what is there, to accounts and to directories with limits */
const char *path_in(const char *name); /* "brick": the brick; "ledger". Good until three more were asked for */
/* A process that works on the brick is killed, as often as it says, at moments left to chance; what the next one has is exact in the end, and as it expects. Forks: before there are threads. */
void kill_at_work(int times, void (*work)(uint64_t random), void (*expect)(void));
/* One of several users of acme: one of 150 files in the directory is made longer or shorter, or removed, which is rare. What came of making or writing; else 0. */
int change_one(struct tree *, const char *directory, uint64_t *random);
void set_failure(const char *option, const char *value); /* of "fails" */
void grow(void *offset);
int mkdir_as(const char *path, const struct gfid *);
void hold_tell(const char *word, const char *what); /* a command to debug/hold */
bool hold_has(int many);			    /* that it keeps */
int births_run(void);				    /* usage-test-births.c */
int taking_run(void);				    /* usage-test-taking.c */
#endif
