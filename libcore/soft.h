/* SPDX-License-Identifier: Apache-2.0 */
/* Soft limits of tenants whose bricks are at several servers, or in several replica sets: since when all together have more than the limit (doc/usage.md, "Soft limits over several servers", S1 to S5).
 * Here is the protocol, without any I/O: what a server tells of what it charges, and how the one that leads the cluster adds that up. Of a replica set the member tells it that decides about limits
 * there, in its view: what is said here of servers is so of these. */
#ifndef STRATUS_SOFT_H
#define STRATUS_SOFT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allot.h"

/* Since when there has been more than the soft limit, in seconds since the epoch; 0: there is not. */
struct over {
	uint32_t bytes, inodes;
};
static inline bool is_since(struct over o)
{
	return o.bytes || o.inodes;
}

/* ---- the document of a tenant in the cluster store ---- */

enum { SOFT_TEXT_MAX = 64 };
struct soft_doc {
	struct over over;
	bool told[2]; /* that there are more bytes, more inodes: it is told again only after there were clearly less */
};
int soft_parse(const char *text, size_t size, struct soft_doc *); /* -EINVAL: it is none */
size_t soft_print(const struct soft_doc *, char text[SOFT_TEXT_MAX]);

/* ---- what a server says: what has changed, until it is heard ---- */

struct soft_said {
	uint64_t base;
	struct amount now, peak; /* charged when this is sent; the most since what was heard of it before this */
	struct over carried;	 /* since when it had more than the limit when all bricks were here; 0: not known */
	uint64_t ask;		 /* something waits to grow: is it less by now? 0: nothing does */
};
struct soft_own {
	uint64_t base;
	struct amount now, peak, fresh; /* fresh: the most since `mark` was sent */
	struct amount sent;
	uint64_t mark; /* the first message that says so; 0: nobody knows of it */
	bool heard;
	struct over over; /* of all servers, as the store has it; if `carried`, and nobody has heard it, as it was here */
	bool carried, changed;
	uint64_t version; /* of the document that was applied */
	uint64_t asked, answered;
};
struct soft_list { /* of a pool, by base */
	struct soft_own *at;
	size_t count;
	uint64_t asks;	       /* so many things have waited */
	uint64_t confirmed_ns; /* what is known here was so then, in the whole cluster; 0: nothing was confirmed yet */
};
struct soft_own *soft_find(const struct soft_list *, uint64_t base);
/* NULL: memory is short. A new one begins with `over`. */
struct soft_own *soft_need(struct soft_list *, uint64_t base, struct amount now, struct over over);
void soft_drop(struct soft_list *, uint64_t base);
void soft_note(struct soft_own *, struct amount now); /* so much is charged here from now on */
bool soft_say(struct soft_own *, uint64_t number,
	      struct soft_said *);		   /* in the message of that number; false: there is nothing new */
void soft_heard(struct soft_own *, uint64_t upto); /* messages up to there were */
void soft_unheard(struct soft_own *);		   /* nothing was, by who decides now */
void soft_apply(struct soft_own *, const struct soft_doc *, uint64_t version); /* NULL: there is none */
/* Growth by that has to wait: it has been too much for longer than the grace, or nobody can tell. */
bool soft_holds(const struct soft_list *, const struct soft_own *, struct amount more, uint64_t grace_s, uint64_t now_ns,
		uint64_t now_s);
/* At a member of a set that does not decide: who does may come to hold what grows, by what is known here. */
bool soft_may_hold(const struct soft_list *, const struct soft_own *, uint64_t grace_s, uint64_t now_ns);

/* ---- who decides ---- */

struct soft_unit {	  /* a server, or a replica set */
	uint64_t process; /* its process, or that of who decides there, in one view, by a random number */
	uint64_t session; /* which one of those that were begun with it; 0: none */
	uint64_t upto;	  /* its messages up to there were taken */
	uint64_t heard;	  /* the last of our ticks that it had heard when it sent that */
	uint64_t term;	  /* of a set: in which view that decides; */
	uint64_t epoch;	  /* and which the store has: only by that anything is known */
	bool away;
};
struct soft_row {		 /* what a server has of a tenant */
	uint64_t session, began; /* in which it told that; in which it was when the count began */
	struct amount now, most; /* most: since the count began */
	struct over carried;
	uint64_t ask, ask_from, answered; /* ask_from: a count that begins at that tick, or later, answers it */
	uint64_t ask_in;		  /* the last message that said so */
};
struct soft_sum {      /* a tenant */
	uint64_t tick; /* when the count that is under way began; 0: none is */
	struct soft_row *row;
	bool is_urgent; /* something waits for the count */
};
/* Whether who says that decides for the set in the view that the store has (S5); of a server both are 0. */
bool soft_decides(const struct soft_unit *, uint64_t term);
/* Whether the message is one to be taken: of the session, and newer than others. With another process another one begins (`fresh`): all is to be said again, when it has heard of that. Who does not
 * decide is not heard. */
bool soft_hear(struct soft_unit *, uint64_t term, uint64_t process, uint64_t session, uint64_t number, uint64_t heard,
	       uint64_t fresh);
void soft_renew(
	struct soft_unit *); /* the next message begins another session: of some of what was said nothing is known any more */
void soft_take(struct soft_row *, const struct soft_unit *, const struct soft_said *, uint64_t tick);
/* What becomes of the document. tick: no server has heard that one. is_first: the tenant never had a document. True: *doc has changed. */
bool soft_judge(struct soft_sum *, const struct soft_unit *const *unit, size_t units, struct amount soft, uint64_t tick,
		uint32_t now_s, bool is_first, struct soft_doc *doc);
struct amount soft_total(const struct soft_sum *, const struct soft_unit *const *unit, size_t units);
#endif
