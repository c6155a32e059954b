/* SPDX-License-Identifier: Apache-2.0 */
/* Allotments: what one server may let be charged of a limit that several servers hold together (doc/usage.md, "Over several servers"). Here is the arithmetic and the
 * protocol, without any I/O: who holds an allotment (features/usage, by the pool of a volume), who decides (stratusd where the cluster's leader is), and the
 * document of a tenant in the cluster store, through which alone an allotment ever rises. */
#ifndef STRATUS_ALLOT_H
#define STRATUS_ALLOT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amount {
	int64_t bytes, inodes;
};
static inline struct amount amount_sum(struct amount a, struct amount b)
{
	return (struct amount){ a.bytes + b.bytes, a.inodes + b.inodes };
}

/* ---- the document ---- */

enum { ALLOT_UNIT_NAME = 64, ALLOT_UNITS_MAX = 32, ALLOT_TEXT_MAX = 6144 };
/* Of one unit: the pool of a server, or a replica set, of whose members that enforces it which decides about limits there. */
struct allot_unit {
	char name[ALLOT_UNIT_NAME + 1];
	uint64_t incarnation; /* which took it up last */
	uint64_t since;	      /* the document's version in which that did */
	uint64_t heard;	      /* what that has given up so far, by number, is not in `may` any more */
	uint64_t
		term; /* of a replica set: the epoch of the view in which it decides; a later one decides instead, never an earlier one */
	struct amount may;
};
struct allot_doc {
	struct allot_unit unit[ALLOT_UNITS_MAX];
	size_t units;
};
/* -EINVAL: it is none. */
int allot_parse(const char *text, size_t size, struct allot_doc *);
size_t allot_print(const struct allot_doc *, char text[ALLOT_TEXT_MAX]); /* its length */
struct allot_unit *allot_find(struct allot_doc *, const char *name);
struct amount allot_total(const struct allot_doc *);

/* ---- what a unit says: all of it each time, so it may be lost, repeated, or overtaken ---- */

enum { ALLOT_BYTES = 1, ALLOT_INODES = 2 };
struct allot_said {
	char unit[ALLOT_UNIT_NAME + 1];
	uint64_t incarnation, term;
	uint64_t seen; /* the document's version that it has applied; 0: there is none, or none any more, and */
	uint64_t gone; /* this is the version of what is gone (0: there never was one) */
	unsigned
		kinds; /* ALLOT_BYTES, ALLOT_INODES: what is limited there, as far as is known there; of others nothing is said */
	struct amount taken; /* charged and claimed */
	uint64_t gift;	     /* how often it has given something up; the last time: */
	bool capped;	     /* it enforces no more than this until the document has heard of that number */
	struct amount cap;
	uint64_t round;	     /* of what it wants; 0: nothing */
	struct amount wants; /* to have so much in all */
};

/* What is too long for one message goes on in the next: all of these together are a *turn*. So what others need has been looked at, and what could be given is said, up to what had been looked at before a turn that has ended. */
struct allot_turn {
	size_t skip, total; /* so many of all were said; what there was when that was */
	uint64_t looked;    /* what others need up to there has been looked at; */
	uint64_t before;    /* what had been before the turn; */
	uint64_t done;	    /* and that, with the message that ends it; else 0 */
	uint64_t part;	    /* of the turn, from 0 */
};
/* The message is of those from the result on, of that many there are now. */
size_t allot_turn_begin(struct allot_turn *, size_t total);
/* It got as far as there. Returns its part; `done` is what it is now. */
uint64_t allot_turn_end(struct allot_turn *, size_t upto);
void allot_turn_fail(struct allot_turn *); /* nobody has answered: it begins anew */
/* At who decides, for each that says: false: a part of the turn was lost, or not all of it taken, so what it says to be done is not known to be. */
bool allot_turn_heard(uint64_t *parts, uint64_t part, bool taken);

/* ---- who decides ---- */

/* A limit of 0 is none: then nothing is allotted, and nothing compared. Where something else is limited, as far as is known there, than `limit` has, nothing is heard of until that is known there: what is not limited grows
 * as it likes, and is not said (A1). */
bool allot_knows(const struct allot_said *, struct amount limit);
/* Whether it is of who decides in the view that the store had of the set, by its epoch, at some moment after it was said; 0: the unit is a server. Of nobody else is anything to be taken, or a document begun with it (A8). */
bool allot_speaks(const struct allot_said *, uint64_t epoch);
/* Takes what was said into the document, whose next version will be `next`. True: it has changed. *heard: false if it says what is too old, or of a unit that has to take up the
 * document anew: it is to say so again. (Who decided for a set in an earlier view is heard, and
 * nothing of that taken.) */
bool allot_take(struct allot_doc *, uint64_t next, const struct allot_said *, struct amount limit, bool *heard);
/* Gives the unit what it wants, as far as there is something that nobody has, and some more, so that it need not ask again soon. True: it got something. */
bool allot_grant(struct allot_doc *, const char *unit, struct amount wants, struct amount limit, size_t units);
/* A new document, when all units have said what they have, after the version that is gone: `said` is of each of them. False: one has not seen that it is gone, or does not know of the limit. */
bool allot_begin(struct allot_doc *, uint64_t gone, const struct allot_said *said, size_t units, struct amount limit);

/* ---- who holds one ---- */

struct allot_own {
	uint64_t
		incarnation; /* never used before: so it is known that nothing grew by an earlier one since the document names it */
	uint64_t term;	     /* of a replica set: the view in which this member decides about limits, or did; */
	bool silent;	     /* it does not (now): it says nothing, lets nothing grow, and only knows what the store has */
	bool left_out;	     /* nor does it, though nobody told it so: the document has a later view's */
	uint64_t seen, gone; /* as above */
	bool doubted;  /* the limit may have been none meanwhile: the store is to be looked at anew before anything grows */
	bool taken_up; /* the document names our incarnation: before that nothing grows */
	struct amount may, total;
	size_t units;	      /* of the document; 0: this one is not among them */
	unsigned number;      /* and which of them it is, */
	struct amount before; /* and what those before it may have */
	uint64_t gift;	      /* the last number; its cap holds while `capped` */
	bool capped;
	struct amount cap;
	uint64_t asked, sent, decided; /* rounds: the last that somebody waits for, that was said, that was answered, */
	uint64_t refused;	       /* that was not granted */
	uint64_t last_heard_ns;	       /* that somebody decides */
	struct amount waiting;	       /* what is claimed and can't be had yet */
	bool is_needed;		       /* others need room: it is to be taken up, so that it can be given */
};
/* In a replica set: this member decides from now on, in that view (0: it does not decide any more, or yet), by an incarnation of its own: so what it, or another one, was told for an earlier view lets nothing
 * grow. Who waits here waits on. */
void allot_decides(struct allot_own *, uint64_t incarnation, uint64_t term);
/* The document as the store has it now; NULL: there is none, and `version` is of what is gone. */
void allot_apply(struct allot_own *, const struct allot_doc *, uint64_t version, const char *unit);
/* What may be charged here, of a tenant of that limit: no more than that may come to be there. False: nothing may grow now. */
bool allot_may(const struct allot_own *, struct amount limit, struct amount *may);
/* Others need so much: gives what is free, half of it at most if that is enough. `keep`: stays free here. */
void allot_give(struct allot_own *, struct amount taken, struct amount keep, struct amount limit, struct amount need);
/* Gives back all that is free, if more is allotted than the limit is; or is to be taken up for that, though nothing is to grow here. */
void allot_shrink(struct allot_own *, struct amount taken, struct amount limit);
/* False: there is nothing to say. */
bool allot_say(struct allot_own *, const char *unit, struct amount taken, struct amount keep, struct amount limit,
	       struct allot_said *);
/* The round of that incarnation was answered in that version of the document: what was wanted is granted in that, or can't be had. */
void allot_answered(struct allot_own *, uint64_t incarnation, uint64_t round, uint64_t version, bool granted);

/* ---- the pools of this process, for stratusd ---- */

struct soft_list;
struct allot_pool {
	const char *name; /* the volume's id */
	const char *unit; /* the replica set, of which it is one member; NULL: the unit is the server */
	void *pool;
	/* With the pool's lock held: calls fn for the tenant whose ids begin with base, whose allotment is remembered from then on (NULL: there is no such tenant,
	 * or no limit). */
	void (*with)(void *pool, uint64_t base,
		     void (*fn)(struct allot_own *, struct amount taken, struct amount keep, struct amount limit, void *),
		     void *arg);
	size_t (*list)(void *pool, uint64_t *base, size_t max); /* of those that are remembered */
	uint64_t (*term)(void *pool); /* of a set: the view in which this member decides, 0: it does not */
	/* Calls fn with the pool's lock held, and puts into effect what has `changed` (soft.h). */
	void (*with_soft)(void *pool, void (*fn)(struct soft_list *, void *), void *arg);
	struct allot_pool *next;
};
void allot_pool_add(struct allot_pool *);
void allot_pool_remove(struct allot_pool *); /* returns when nobody is at it any more */
void allot_each_pool(void (*fn)(struct allot_pool *, void *), void *arg);
bool allot_with(const char *pool, uint64_t base,
		void (*fn)(struct allot_own *, struct amount taken, struct amount keep, struct amount limit, void *),
		void *arg);
/* The same, for the members of one unit, or of all others. (Of a server there is one unit for a volume.) */
void allot_with_unit(const char *pool, const char *unit, bool others, uint64_t base,
		     void (*fn)(struct allot_own *, struct amount taken, struct amount keep, struct amount limit, void *),
		     void *arg);
/* Somebody waits: whoever asks for allotments is to do so now. */
void allot_wake(void);
void allot_set_waker(void (*fn)(void)); /* NULL: nobody asks, so nothing of a limit over several servers can be had */
bool allot_is_asked(void);
#endif
