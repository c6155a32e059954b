/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a volfile again while its graph runs. */
#ifndef STRATUS_RELOAD_H
#define STRATUS_RELOAD_H
#include "graph.h"

/* Reads the file of `started` (from which the graph was made) again and changes the live options that differ from
 * `live`, which becomes the new text. What needs a restart is left as it is and named in the sentence: -EBUSY. A file
 * with a mistake changes nothing: -EINVAL. */
int reload_live_options(struct graph *, const struct volfile *started, struct volfile *live, struct problem *);
#endif
