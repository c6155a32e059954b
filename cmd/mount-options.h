/* SPDX-License-Identifier: Apache-2.0 */
/* The -o options of a mount: some are for mount(8), some for the kernel, the rest for mount/fuse. */
#ifndef STRATUS_MOUNT_OPTIONS_H
#define STRATUS_MOUNT_OPTIONS_H
#include "graph.h"

struct mount_options {
	struct option_value *given; /* for the top volume */
	size_t count;
	char *log, *log_level;	/* log=FILE, log-level=LEVEL */
	char *key, *key_secret; /* key=FILE, key-secret=FILE */
};
/* tls-dir=DIR is for the process: see tls_dir_use(). */
/* Takes "a,b=c,..."; may be called again for more. `sloppy`: unknown ones are passed over. -EINVAL and a sentence. */
int mount_options_parse(struct mount_options *, const char *text, bool sloppy, struct problem *);
/* Gives the volfile's top volume the mount point and the options; adds a mount/fuse on top where there is none. */
int mount_options_apply(const struct mount_options *, const char *directory, struct volfile *, struct problem *);
void mount_options_free(struct mount_options *);
#endif
