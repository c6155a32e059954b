/* SPDX-License-Identifier: Apache-2.0 */
/* The real leaf, `--leaf posix`: storage/posix on a directory for each brick, beneath that of the run. */
#ifndef STRATUS_SIM_LEAF_H
#define STRATUS_SIM_LEAF_H
#include "disk.h"

enum { LEAF_PATH = 160 };
extern const struct xlator_type sim_shaky_type;
/* "the volumes below the replica": what a brick's volfile begins with; the last one is called `disk`. */
void leaf_volfile(FILE *to, unsigned member);
void leaf_create(unsigned member);
void leaf_replace(unsigned member); /* by an empty one */
void leaf_crash(unsigned member);   /* closes what the dead process had open there */
void leaf_hurt(unsigned member);    /* what it notes of names need not be right until they are looked up by a fresh process */
bool leaf_owns(const char *path);   /* it is on the disk of some brick */
/* Before a brick's disk is made durable: it takes a while, and may fail. 0 or -errno. */
int leaf_sync(void);
void leaf_spend(uint64_t ns);	  /* a shielded sleep */
void leaf_latency(struct disk *); /* as long as its faults make it; the machine may crash in it */

char *leaf_path(unsigned member, char path[LEAF_PATH]);
/* When all machines are down: is each brick sound in itself, as it is, or at least once each name was looked up by a fresh process? Then
 * fills the model's disks for compare.c. */
void leaf_check_all(void);

/* ---- scan.c ---- */
/* Fills the model's disk of that member with what the directory has. */
void leaf_scan(unsigned member);
/* Identities agree with the names, and nothing is left over. */
void leaf_check(unsigned member);
/* In a task: each name, in a graph of nothing but the brick. */
void leaf_look_up_all(unsigned member, struct graph *);
#endif
