/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of cluster/dht share: a volume over four bricks in memory that can be made to fail. */
#ifndef STRATUS_DHT_TREE_H
#define STRATUS_DHT_TREE_H
#include "test-check.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "layout.h"
#include "moments.h"
#include "test-tasks.h"
#include "tree.h"

enum { SUBVOLUMES = 4 };
extern struct tree tree;
extern int failures;

/* m0 to m3 in memory (of so many bytes: "256M"), l0 to l3 above them that hold to layouts, e0 to e3 with which they fail, c0 to c3 with which the
 * client dies, dht above these. fn runs in a task. */
void run(task_fn *fn, const char *options, const char *limit);
extern unsigned initial;	 /* subvolumes with which the volume began; the others have no names */
extern unsigned gone;		 /* so many, the first ones, have left it: only their places are there */
extern unsigned widen_at;	 /* names of a directory at a brick */
extern const char *more_volumes; /* beside dht; at("dht") is where fn begins */

#define PROPERTY_WITH(name, options, limit)                                                                                    \
	static void name##_(void *arg);                                                                                        \
	static void name(void **state)                                                                                         \
	{                                                                                                                      \
		(void)state;                                                                                                   \
		run(name##_, options, limit);                                                                                  \
	}                                                                                                                      \
	static void name##_(void *arg __attribute__((unused)))
#define PROPERTY(name) PROPERTY_WITH(name, "", "256M")

void at(const char *volume);					   /* whom to call from now on */
void set_option(int child, const char *option, const char *value); /* of eN */
void let_fail(int child, const char *fops, const char *why);
void let_work(int child);
/* At which of the bricks there is something called so; -1: at none, -2: at several. */
int holder(const char *path);
/* The subvolume to which a name of the root belongs, and such a name (in one of four buffers). */
int owner(const char *name);
const char *name_at(int child, const char *prefix);

/* As by hand: no client is asked. */
int put_layout(int child, const struct layout *);

struct census {
	unsigned anchors, work; /* names below .stratus.dht, at all bricks */
	unsigned kept;		/* of files that were moved */
};
struct census census(void);
bool settles(unsigned anchors); /* the sweep leaves so many, and nothing under way */
/* A file with that text, made or opened. */
int put(const char *path, const char *text);
bool reads(const char *path, const char *text);
unsigned links(const char *path); /* 0: it is not there */
bool same_file(const char *a, const char *b);
/* This task can send so many messages more, then it is cut off from all bricks; `done`: the next one is done, but not answered. */
void cut_after(unsigned messages, bool done);
void lose_answer(unsigned messages); /* only that of the message after so many */
void ask_again(void); /* each change of this task's is asked for twice, the answer to the first is lost with the session */
void end_meanwhile(unsigned times); /* before this task opens an intent others have ended it */
void fence_take_over(
	void); /* this task takes an intent over, is taken over itself at once (as attempt 9), and can send one message more */
/* The next thing of that kind is lost, for the power went at its brick: 'a', an anchor; 'i', 'd', that the record of a rename across became that; 'k', the name that the copy of a
 * file keeps which is brought home; 'p', that a directory was put away. */
void forget(char kind);
void stay_before(unsigned messages); /* after so many messages this task waits, until another one says stay_no_more() */
void count_from_rename_of(
	char kind); /* after one of these: not after so many, but before the next rename from a name of that kind ('c', a copy) */
bool stays(void);   /* it does so now */
void stay_no_more(void);
unsigned cut_end(void);		      /* it can again. How many it has tried to send */
void all_die_after(unsigned changes); /* by all tasks; then none reaches any brick. 0: they do again */
unsigned changes_tried(void);	      /* since then */
void others_go_on(bool);	      /* each message gives other tasks a turn */
void directories_fail(bool);	      /* but for the root: none can be opened */
/* A debug/hold among more_volumes: a command to it; whether requests of that fop ("": of any) are parked there, or come to be in a while. */
void hold_tell(const char *volume, const char *command, const char *what);
bool hold_has(const char *volume, const char *fop);
void lock_elsewhere(bool); /* files are locked at a member of their replica sets, and not at the one that is read from */
#endif
