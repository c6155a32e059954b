/* SPDX-License-Identifier: Apache-2.0 */
/* A mount with a key: encryption/crypt right below mount/fuse, whatever the volfile is. */
#ifndef STRATUS_SEALED_H
#define STRATUS_SEALED_H
#include "graph.h"

/* What the volfile says of its mount's options for the kernel and of who may use it is dropped: set-uid programs and devices on it are files that
 * the provider can choose the owner and mode of. nosuid and nodev take their place, unless the command line says otherwise. */
void sealed_options(struct volfile *);
/* Puts it there. -EPERM and a sentence: the graph is one in which something could pass it by. */
int sealed_graph(struct volfile *, const char *key_file, struct problem *);
#endif
