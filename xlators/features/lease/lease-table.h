/* SPDX-License-Identifier: Apache-2.0 */
/* Who was told of which object lately, and what is being changed. */
#ifndef STRATUS_LEASE_TABLE_H
#define STRATUS_LEASE_TABLE_H
#include <pthread.h>
#include <stdatomic.h>

#include "lease.h"

enum { TABLE_SHARDS = 64, SHARD_BUCKETS = 64 };

/* Who was told of an object. Clients by bits: two may have the same one, and are told of recalls together if they are of one tenant; of a tenant's
 * objects no other tenant is told anything. */
struct told {
	uint64_t bits;
	uint32_t root; /* the tenant's (request.root); 0: the provider's clients only */
};
struct entry {
	struct gfid gfid; /* null: free */
	struct told told;
};
struct lessee {
	uint64_t number; /* of the client; 0: it has none */
	uint32_t root;
};
struct entries {
	struct entry *at;
	unsigned size, used; /* size: a power of 2, or 0 */
};
/* Changes of all objects of one hash. A client's own ones do not matter to it. */
struct changes {
	unsigned running;
	uint64_t by;		       /* whose are running; MANY */
	uint64_t last_by, last, other; /* who made the last change, and when; when somebody else made one before */
};
struct shard_of {
	pthread_mutex_t lock;
	struct entries now, before; /* since `began_ns`, and in the LEASE_KEPT_MS before */
	uint64_t began_ns;
	struct changes changes[SHARD_BUCKETS];
};
struct lease_table {
	atomic_uint_fast64_t time; /* rises with the begin and the end of each change */
	struct shard_of shard[TABLE_SHARDS];
};

void table_init(struct lease_table *);
void table_free(struct lease_table *);
static inline uint64_t table_time(struct lease_table *t)
{
	return atomic_load(&t->time);
}
/* The client (a number above 0) may believe what was read of the object since that time. false: somebody else changes or has changed it, another tenant was
 * told of it (the provider has moved it), or there is no memory for it. */
bool table_lease(struct lease_table *, const struct gfid *, struct lessee, uint64_t since);
/* A change by that client (0: one that has no number) begins; those who may believe something of the object. */
struct told table_change(struct lease_table *, const struct gfid *, uint64_t client);
/* The others have released it. While it is changed. */
void table_clear(struct lease_table *, const struct gfid *, uint64_t client);
void table_changed(struct lease_table *, const struct gfid *, uint64_t client);
size_t table_count(struct lease_table *);
static inline uint64_t client_bit(uint64_t client)
{
	return client ? 1ull << client % 64 : 0;
}
#endif
