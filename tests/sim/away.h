/* SPDX-License-Identifier: Apache-2.0 */
/* Several subvolumes: files that are away. */
#ifndef STRATUS_SIM_AWAY_H
#define STRATUS_SIM_AWAY_H
#include "sim.h"

/* Of what work.c makes each second object has its gfid in this xattr from its first moment; with several subvolumes each one, for then it tells who
 * made what has another gfid. */
#define BIRTHMARK "trusted.dht.newborn"
enum { SWEEP_ROUNDS = 3, SWEPT_DIRS = 16 };
struct disk_object;

/* At a brick: it was done. */
void away_note(struct request *, enum fop, const void *in);
/* It names a pointer that is under way, or an anchor, or changes a mark. */
bool away_concerns(int fop, const void *in);
/* It needs room that is kept for pointers. */
bool away_refuses(struct request *, enum fop, const void *in);
void away_room(struct statfs *, const struct disk_faults *); /* takes away what they take */
/* The gfid that its maker chose. */
struct gfid away_birth(const struct gfid *);
/* So far: pointers made, files made away, ends of what others began, and anchors left for fsck. */
bool away_is_shard(const struct disk_object *, const char *path);
unsigned away_shards(void); /* parts of wide directories that were there in the end */
void away_counts(unsigned *pointers, unsigned *objects, unsigned *ends, unsigned *late, unsigned *renames);
unsigned away_begun(void); /* records of renames over several subvolumes, at each member */
unsigned away_steps(void); /* with which files are brought home, at each member */
bool away_is_pointer(const struct disk_object *);
bool away_is_hidden(const char *path); /* below .stratus.dht, or itself */
bool away_is_frame(const char *path);  /* one of the directories there that are no objects of the tree */
/* So long until all has been swept. */
static inline unsigned away_sweep_ms(void)
{
	return SWEEP_ROUNDS * SWEPT_DIRS * plan.subvolumes * plan.sweep_ms;
}
#endif
