/* SPDX-License-Identifier: Apache-2.0 */
/* Renames over two subvolumes that do not get to their end: who does one dies, or loses an answer, at any of its messages, and others end it. */
#ifndef STRATUS_HALF_WAY_H
#define STRATUS_HALF_WAY_H
#include "dht-tree.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE	 2
#endif
#define SWEEPS "option sweep-interval 10ms"

struct scene {
	const char *what;
	int (*build)(const char *a, const char *b,
		     const char *c); /* a at the first subvolume that is there, b at the next, c at the one after that */
	/* What a and b say before: the file's text; "/" and the text of the file `in` in the directory, "/" of an empty one; NULL: nothing is there. */
	const char *from, *to;
	unsigned flags;
	bool below, beside;  /* a and b are in directories there; both at one subvolume */
	bool removes, makes; /* no rename: a is removed by rmdir(2); is made by mkdir(2) */
};
bool there(const char *path);
bool says(const char *path, const char *what);
int put_directory(const char *path, const char *text); /* "": an empty one */
void clear_away(const char *path);
bool nothing_is_under_way(void); /* in the end */
/* The rename from a to b that was cut off is done by others, or taken back, in a while. */
bool gets_whole(const struct scene *, const char *a, const char *b, bool *done);
/* Each scene as often as it has messages: before and after them the tree is as it was, or as it is to be. */
void play_dying(const struct scene *, unsigned count);
void play_lost_answers(const struct scene *, unsigned count);
/* Each change is asked for twice, as if the brick had been lost between doing it and answering: that is done once. */
void play_again(const struct scene *, unsigned count);
/* Nobody dies, and no answer is lost; but who does it stays before each of its messages until others have ended what it began: it is done all the same. */
void play_slow(const struct scene *, unsigned count);
#endif
