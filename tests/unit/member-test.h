/* SPDX-License-Identifier: Apache-2.0 */
/* A member whose coordinator and client is the test: what the files of member-test share. */
#ifndef STRATUS_MEMBER_TEST_H
#define STRATUS_MEMBER_TEST_H
#include "test-tasks.h"
#include "test.h"

#include <errno.h>

#include "dht/place.h"
#include "replica.h"
#include "tree.h"

#define LEASE_NS  60000000000ull
#define ON_MEMORY " type debug/memory\n"
#define ON_POSIX                                                                                                               \
	" type storage/posix\n option volume-id 6d6a1f70-0d3c-4c1d-9a65-3d1a7c1f4b01\n"                                        \
	" option brick-id 0f0e0d0c-0b0a-4908-8706-050403020100\n option free-space-floor 0\n option directory "

extern struct tree tree;
extern int failures;
extern struct client coordinator, client, stranger; /* two sessions of clients */
extern const uint8_t session[16], strangers[16];
extern struct view view;
extern uint64_t sequence;
extern uint64_t generation, prune; /* as leases say */
extern bool unproven, unwritable, changes_wait;
extern const char *below;      /* volumes that the leaf is on */
extern unsigned set_number;    /* after the next reopen() */
extern uint32_t anew;	       /* members that are told all that they lack, as the next view says */
extern unsigned other_members; /* of the view beside this one, which are IN as far as it knows */

void on(const char *leaf, task_fn *);
const char *state_path(const char *name); /* in the state directory; good until the next call */
int reopen(void);			  /* the brick is started anew, on what it keeps beside the leaf */

/* As the coordinator. Takes what `more` holds. */
void pack_secret(struct pack *); /* and the epoch: what each call of the coordinator begins with */
int tell(enum replica_verb, uint64_t epoch, struct pack *more, struct blob *answer);
int lease(struct lease_reply *);
int change_view(
	const struct note *under_way); /* the next one, of this member alone. `under_way` is recovered in it; NULL: nothing */
/* In that view it is BACK, and that object is pending. */
int come_back(const struct gfid *pending);
int freeze(void); /* for the next view */
int resolve(struct note *);

/* As a client. */
int say(struct client *, uint32_t verb, struct pack *);
int attach(struct client *, const uint8_t id[16]);
/* With what PLACE says of names, or NULL. */
int call(struct client *from, const struct replica_stamp *, const struct place *, enum fop, const void *in, void *out);
int change(uint64_t number, enum fop, const void *in, void *out);
struct inode *root(void);
int make(const char *name, struct file **);
int make_as(const char *name, const struct gfid *, struct file **);
int drop(const char *name, struct note *); /* *n: its note */
int put(uint64_t number, struct file *);
int look(void); /* for "f" */
int settle(uint64_t up_to);
/* A note of the session's next change, as if it had been done here; that of which PLACE tells so, or nothing (NULL). Until the next call. */
struct note *note_with(enum fop, const void *in, const struct gfid *first, const struct gfid *second);

/* member-test-tenants.c */
extern const struct CMUnitTest tenants[];
extern const unsigned tenants_count;

/* member-test-guards.c */
extern const struct CMUnitTest guards[];
extern const unsigned guards_count;
bool is_listed(const struct gfid *, uint64_t above); /* by the member, as changed in a generation above that */

/* member-test-losses.c */
extern const struct CMUnitTest losses[];
extern const unsigned losses_count;

/* member-test-tokens.c */
extern const struct CMUnitTest tokens[];
extern const unsigned tokens_count;

/* member-test-departing.c */
extern const struct CMUnitTest departures[];
extern const unsigned departures_count;

/* member-test-points.c */
extern const struct CMUnitTest points[];
extern const unsigned points_count;

/* member-test-trees.c */
extern const struct CMUnitTest trees[];
extern const unsigned trees_count;
#endif
