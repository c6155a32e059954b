/* SPDX-License-Identifier: Apache-2.0 */
/* What the servers have agreed on, for translators: small values by key, replaced by compare and set. The program that has
 * a cluster store sets the register before it starts a graph; without one there is none, and a translator that needs to
 * remember something uses a file of its own.
 *
 * cluster/coordinator keeps the view of its volume under "view/VOLUME". What that begins with is for others, too: REGISTER_VIEW (4 bytes), the view's epoch (8 bytes), both big-endian. */
#ifndef STRATUS_REGISTER_H
#define STRATUS_REGISTER_H
#include <stdbool.h>
#include <stdint.h>

struct blob;
enum { REGISTER_VIEW = 0x53565731 /* "SVW1" */ };
int register_view_epoch(const struct blob *, uint64_t *epoch); /* -EINVAL: it is no view */
/* Keys are KIND/NAME of letters, digits, '-', '_' and '.'. A key's versions are 1, 2, 3...; only what is committed, durable and
 * agreed on is ever seen. Both calls wait for a disk, later for other servers: they are for pool threads and threads of
 * one's own, not for tasks on a shard. */
struct cluster_register {
	/* The value (value->bytes: malloc'ed, the caller's) and its version. -ENOENT if there is none: *version is then what
	 * replace() wants, 0 if there never was one. -EIO: the store can't be reached; nothing is known. */
	int (*get)(const char *key, struct blob *value, uint64_t *version);
	/* Puts the value in place of that version; it has version + 1 then, durably. -ESTALE: the version is another by now, and
	 * nothing was changed. Any other error: it is not known whether it was changed; get() tells. */
	int (*replace)(const char *key, uint64_t version, const struct blob *value);
	/* Whether this process may still decide for the cluster, as far as it knows. Does not wait. NULL: always. */
	bool (*leads)(void);
	/* So long after another process began to lead, this one may not know it yet. */
	uint64_t handover_ns;
};
void cluster_register_set(const struct cluster_register *); /* NULL: none any more */
const struct cluster_register *cluster_register_get(void);
#endif
