/* SPDX-License-Identifier: Apache-2.0 */
/* Is a specification one that may be committed? */
#ifndef STRATUS_CLUSTER_CHECK_H
#define STRATUS_CLUSTER_CHECK_H
#include <stdbool.h>

struct problem;
struct spec;
struct volgen_files;
/* `before`: the one that it replaces; of a new volume its volume is NULL. Bricks that have none get ports. `force`: a brick is replaced whatever the others of its set have. `files`: what it is as volfiles, the caller's to free. */
int cluster_check(struct spec *, const struct spec *before, bool force, struct volgen_files *files, struct problem *);
#endif
