/* SPDX-License-Identifier: Apache-2.0 */
/* What brings changes into a store: a log. It decides when a change is committed; the store keeps the state that follows. */
#ifndef STRATUS_STORE_BACKEND_H
#define STRATUS_STORE_BACKEND_H
#include <pthread.h>

#include "state.h"

struct problem;
struct log_type {
	int (*commit)(struct store *, const struct store_change *, size_t count);
	void (*close)(struct store *);
	bool (*leads)(struct store *);	   /* NULL: always */
	bool (*replayed)(struct store *);  /* NULL: always */
	void (*hand_over)(struct store *); /* NULL: there is nobody to take it */
	/* NULL: it has one member, for ever */
	int (*add)(struct store *, const char *name, const char *address, struct problem *);
	int (*remove)(struct store *, const char *name, struct problem *);
	size_t (*members)(struct store *, struct store_member *, size_t max);
	bool (*trouble)(struct store *, char *text, size_t size); /* NULL: there is nobody to have it with */
};
struct store {
	pthread_mutex_t lock; /* all that follows; short, never across I/O */
	pthread_cond_t changed;
	struct state state; /* committed */
	uint64_t turns;	    /* how often who leads has changed */
	bool failed, woken;
	const struct log_type *type;
	void *log; /* the log's own */
};
struct store *store_create(const struct log_type *);	      /* empty; NULL: memory is short */
void store_publish(struct store *, struct state *next);	      /* the committed state is another now; takes what it holds */
int store_make_directory(const char *path, struct problem *); /* if it is not there; it is there after a crash, too */
#endif
