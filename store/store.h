/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster store: what the servers must agree on. Small documents by key, each with a version, changed by compare and
 * set, all or nothing. What store_get() gives is committed: durable, and never taken back. doc/cluster.md describes it. */
#ifndef STRATUS_STORE_H
#define STRATUS_STORE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct blob;
struct problem;
struct store;
struct tls_files;
/* Keys: KIND/NAME, each of letters, digits, '-', '_' and '.'. */
enum { STORE_KEY_MAX = 128, STORE_VALUE_MAX = 8 << 20, STORE_SIZE_MAX = 256 << 20 };

/* Opens the store that lies in the directory, or begins an empty one there; the directory is made. One process at a time:
 * -EBUSY. A damaged file is never overwritten: -EINVAL. */
int store_open(const char *directory, struct store **, struct problem *);
void store_close(struct store *); /* nobody uses it any more */

/* value->bytes: malloc'ed, the caller's, with a NUL behind it. -ENOENT: *version is the one that a change must name to make the
 * document, 0 if there never was one. */
int store_get(struct store *, const char *key, struct blob *value, uint64_t *version);
uint64_t store_version(struct store *,
		       const char *key); /* of the document; one that is gone has one, too; 0: there never was one */
/* The keys that begin so, sorted, NULL-ended, as one piece of memory. NULL: memory is short. */
char **store_keys(struct store *, const char *prefix);

struct store_change {
	const char *key;
	uint64_t version;	  /* the one it replaces; it has version + 1 then */
	const struct blob *value; /* NULL: removes it. The version goes on counting if it comes back. */
};
/* All changes at once. -EREMOTE: another server leads, and nothing was changed. -ESTALE: one document has another version, and nothing was changed; -EINVAL: a key or size that can't be;
 * -E2BIG: the store is full. After any other error it is not known whether they were made; a store of one server then refuses
 * (-EIO) all that follows until it is opened anew. */
int store_commit(struct store *, const struct store_change *, size_t count);
int store_replace(struct store *, const char *key, uint64_t version, const struct blob *value);

/* ---- several servers ---- */
/* Opens, or begins, a store that servers share by Raft (Ongaro, Ousterhout 2014; the library is libraft). `address`: where the others
 * reach this one, as IPv4 ADDRESS:PORT. `tls`: the files by which servers know each other (rpc/tls.h); NULL: whoever reaches the address
 * can change the store, so it must be on a network that only servers are on. `join`: a new member, which waits until the others add it; else a new store begins with this one alone.
 * -ENOTSUP: built without libraft. */
int store_open_shared(const char *directory, const char *name, const char *address, bool join, const struct tls_files *tls,
		      struct store **, struct problem *);
/* Whether this server leads: it alone commits changes, and it has applied all that was committed before. */
bool store_leads(struct store *);
/* Whether it knows again all that it knew before it was closed or killed: a shared store learns from the others how much of that is committed, and is older until then. */
bool store_replayed(struct store *);
/* Before store_close(): from now on this server does not count as leading, and another one that is up takes the lead at once. Returns when it has; when it has not within a second
 * or two, which can be asked for once more, and is over with store_close(), too; at once if this one does not lead, or nobody else was heard of late. */
void store_hand_over(struct store *);
/* One server at a time, by the one that leads. Returns when the cluster has agreed on it. */
int store_add(struct store *, const char *name, const char *address, struct problem *);
int store_remove(struct store *, const char *name, struct problem *);
struct store_member {
	uint64_t id; /* store_member_id() of its name */
	char address[64];
	bool leads, votes, up, answered; /* up, and whether it has answered since that leads: known to the leader only */
};
size_t store_members(struct store *, struct store_member *, size_t max); /* 0: the store is one server's alone */
uint64_t store_member_id(const char *name);
/* Has another server refused this one, or this one another, in the last seconds? The text says why, and what to do. */
bool store_trouble(struct store *, char *text, size_t size);

uint64_t store_index(struct store *); /* rises by one with each commit */
/* Waits until the index is above `after`, or who leads has changed, or the time is over, or store_wake(); the index. */
uint64_t store_wait(struct store *, uint64_t after, unsigned ms);
void store_wake(struct store *); /* ends all waits, also those to come: before store_close() */

/* For tests of crashes: called at each step of a commit, if set ("write", "rename", "sync", "publish": what comes next). */
extern void (*store_step)(const char *next);
/* For tests of a full store: STORE_SIZE_MAX otherwise. The same on all servers. */
extern size_t store_size_max;
/* For tests of mixed versions: a shared store that is opened then knows no ids of clusters, as before there were any. */
extern bool store_is_old;
#endif
