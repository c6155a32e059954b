/* SPDX-License-Identifier: Apache-2.0 */
/* A change under way at this client: what change.c, answers.c and earlier.c share. */
#ifndef STRATUS_AFR_CHANGE_H
#define STRATUS_AFR_CHANGE_H
#include "afr.h"

enum { OBJECTS = 4, SPANS = 5 };

/* What it touches. */
struct plan {
	struct object *object[OBJECTS]; /* sorted by gfid, each once: for tokens */
	unsigned objects;
	bool rename_token;
	struct object *spanned[SPANS];
	struct span span[SPANS];
	unsigned spans;
	struct inode *expected[2]; /* references: nobody else need keep them */
};

struct changing {
	struct afr *a;
	struct request *rq;
	enum fop fop;
	const void *in;
	void *out;
	struct plan plan;
	struct note note;
	struct flight *flight;
	uint64_t deadline, time;
	uint64_t pinned;   /* epoch of the tokens that are held; 0: none are */
	uint64_t sent;	   /* epoch in which it was sent last; 0: it was not yet, or is known not to be done */
	uint64_t recalled; /* afr.recalled when it was sent last */
	bool in_doubt;	   /* it may have been done, and nobody can tell */
	unsigned tries, differed;
	unsigned not_yet;	       /* so often in a row members would not do it yet */
	bool retrying, clean;	       /* clean: it failed, and nothing of it is done anywhere */
	bool doubted;		       /* nothing is believed of what it touches since it was sent in an earlier view */
	const struct write_in *append; /* its place is chosen when the token is there */
	struct write_in placed;
	struct file **collect; /* create: the members' files */
	struct meant {
		const struct loc *loc; /* NULL: nothing more is meant */
		const struct inode *inode;
	} meant[2]; /* what was seen under names, and must stand there when the tokens are held; without inode: nothing */
	bool other; /* it does not, and nothing was done */
};

/* plan.c: adds to the plan, which is empty at first. 0 or -errno. */
int plan_of(struct afr *, enum fop, const void *in, struct plan *);
int plan_name(struct afr *, struct plan *, const struct loc *);
int plan_all(struct afr *, struct plan *, struct inode *); /* all of its data and attributes */
int plan_change(struct changing *);			   /* what its fop touches, and what the request expects under names */

/* All members' open files belong to ours. */
void changing_collect(struct changing *, const struct view *, struct fan *);
/* What one of the members in the mask answered becomes the answer. */
int changing_take(struct changing *, const struct view *, struct fan *, unsigned done);

/* Whether it is sent, and perhaps done: if not, this client's own reads need not wait for it. */
void changing_under_way(struct changing *, bool yes);

enum outcome {
	DONE,	 /* acknowledged */
	ALIKE,	 /* all refuse, for the same reason */
	AGAIN,	 /* soon, or in another view */
	SUSPECT, /* some can't; the others could do without them */
	FAILED,	 /* too many can't */
	DIFFER	 /* they are not the same any more */
};

struct answers {
	unsigned done, suspect, full, other, view, soon, over,
		asks; /* masks of members; over: the limit; asks: of the first, whether there is room */
	int error;    /* of one that failed */
	int first;    /* the error of the most senior that failed otherwise */
};

/* answers.c: of all members to whom it was sent. */
enum outcome answers_judge(struct afr *, const struct view *, struct fan *, const struct note *, struct answers *);
int answers_same_error(const struct view *, struct fan *); /* of all IN members; 0: it differs, or they were not reached */
bool answer_may_be_done(int err);			   /* a member that gives this error may have done it all the same */

/* limit.c: near the limit of an account */
/* Those who are to be asked at once. */
unsigned limit_asks(struct changing *, const struct view *);
/* When they have answered: the others, if the first has decided. */
void limit_decided(struct changing *, const struct view *, struct fan *, const struct replica_stamp *);

/* held.c: with HELD */
/* Members that are told to have refused it have not got the lock. */
void lock_refused(struct changing *, const struct view *, struct fan *);

/* earlier.c: what became of it in an earlier view. *over: that is the answer. Else it is to be sent, or to be asked for again. */
int earlier(struct changing *, const struct view *, bool *over);
#endif
