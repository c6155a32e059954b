/* SPDX-License-Identifier: Apache-2.0 */
/* Which subvolume a name of a directory belongs to: layouts, how they change, and their form on disk. Pure functions, no I/O; used by
 * cluster/dht at clients and features/layout at bricks, which must agree to the last bit (doc/distribution.md).
 *
 * The function is weighted rendezvous hashing (Thaler, Ravishankar: A name-based mapping scheme for rendezvous, 1996) with the weights put
 * in as for straw2 buckets (Weil: CRUSH, in Ceph since 2015): each member draws a number u in (0, 1] by the hash of name and member, and the
 * least -log(u) / weight wins. A member that comes takes names and gives none, one that goes gives its own and takes none; among the
 * others nothing moves. */
#ifndef STRATUS_LAYOUT_H
#define STRATUS_LAYOUT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inode.h"

/* 256 members of 8 bytes, with marks and ACLs, fit the 4 KiB that ext4 has for attributes. A directory of 10^9 entries has 4 million
 * at each of them. The volume may have more subvolumes than that. */
enum { LAYOUT_MEMBERS_MAX = 256, LAYOUT_HEAD_SIZE = 16, LAYOUT_MEMBER_SIZE = 8 };
enum { LAYOUT_SIZE_MAX = LAYOUT_HEAD_SIZE + LAYOUT_MEMBERS_MAX * LAYOUT_MEMBER_SIZE };

struct layout_member {
	uint32_t id;	 /* of the subvolume: chosen once, never used for another one */
	uint16_t weight; /* its share of the names; 0: it has none yet (moving) */
	uint16_t next;	 /* what its share is to become; the same, unless moving. 0: it leaves */
};
struct layout {
	uint64_t
		version; /* rises with each change; 0 is the layout of a directory that has none written: all is where it stands */
	uint32_t home; /* the member that owns the layout and the directory's attributes */
	bool moving;   /* names are being moved from where the weights want them to where `next` does */
	unsigned count;
	struct layout_member member[LAYOUT_MEMBERS_MAX]; /* by rising id */
};

/* Of a name in a directory: what the functions below take. The same on all machines. Names under which programs write what they rename
 * when it is whole have the key of the name that it gets, so the rename stays at one subvolume: ".NAME.Ab12Cd" (rsync), and NAME followed
 * by ~, .tmp, .new, .part or .lock. */
uint64_t layout_key(const struct gfid *directory, const char *name);
/* Of an object as a whole: where its home may be. */
uint64_t layout_key_object(const struct gfid *);

/* The best of n members for the key, by weight; by `next` if asked so. Members of no weight are not considered; NULL if all are. */
const struct layout_member *member_best(const struct layout_member *, unsigned n, uint64_t key, bool next);
/* The `want` best of the n for the key, best first, as indexes; fewer if fewer have weight. The first k of them do not depend on
 * `want`, so a directory that widens keeps what it has. n * want steps. */
unsigned members_rank(const struct layout_member *, unsigned n, uint64_t key, unsigned want, unsigned *index);

/* All names at one subvolume. */
void layout_single(struct layout *, uint32_t id);
/* That of the root of a volume that began with so many (1 to LAYOUT_MEMBERS_MAX), until one is written: members from, from + 1, ..., equal weights;
 * the first is the home. */
void layout_implied(struct layout *, uint32_t from, unsigned count);
/* Who has the name; while names are moved: who had it before, and who is to have it. Never NULL. */
const struct layout_member *layout_owner(const struct layout *, uint64_t key);
const struct layout_member *layout_owner_next(const struct layout *, uint64_t key);
const struct layout_member *layout_find(const struct layout *, uint32_t id); /* NULL: no member */
/* While names are moved: can some move away from the member? Each member is a source or a sink and never both, so a listing that reads
 * sources first misses nothing. */
bool layout_is_source(const struct layout *, const struct layout_member *);

/* The four kinds of change. Each begins a transition: version + 1, moving. -EBUSY: in a transition already; -EINVAL: no change, or it is
 * not one of these; -E2BIG: too many members. Nothing is changed then. */
int layout_grow(struct layout *, const struct layout_member *more,
		unsigned n); /* members that are new; `next` is not looked at */
int layout_shrink(struct layout *, const uint32_t *ids, unsigned n,
		  uint32_t home); /* members that leave; the home may move to one that stays */
int layout_replace(struct layout *, const struct layout_member *by); /* all leave, and this one comes, and is the home */
int layout_weigh(struct layout *, uint32_t id, uint16_t weight);     /* another weight for one member */
/* All names are where they are to be: version + 1, and who has left is forgotten. */
void layout_settle(struct layout *);

/* What the rest relies on: limits, order, and that the transition is one of the four kinds. */
bool layout_sound(const struct layout *);

/* On disk and on the wire: u8 format 1, u8 flags (1: moving), u16 count, u64 version, u32 home, then for each member u32 id, u16 weight,
 * u16 next; big-endian. Size; the layout must be sound. */
size_t layout_encode(const struct layout *, uint8_t bytes[LAYOUT_SIZE_MAX]);
/* Bytes from anywhere. -EINVAL: not a sound layout, or not all of it. */
int layout_decode(const void *bytes, size_t size, struct layout *);
#endif
