/* SPDX-License-Identifier: Apache-2.0 */
/* What the test's leaf shows to the test: found by dlsym(..., "leaf"). It outlives the graphs, as a disk would. */
#ifndef STRATUS_TEST_LEAF_H
#define STRATUS_TEST_LEAF_H
#include <stdatomic.h>

#include "xlator.h"

enum { LEAF_OBJECTS = 64, LEAF_SIZE = 2 << 20, LEAF_LOCKS = 16 };
struct leaf_object {
	struct gfid gfid;
	mode_t type;
	char name[64]; /* empty: unlinked */
	bool used;
	unsigned opens; /* files of the leaf that are open */
	size_t size;
	char *data;
};
struct leaf {
	pthread_mutex_t lock;
	struct leaf_object object[LEAF_OBJECTS];
	struct lock held[LEAF_LOCKS];		/* type 0 (F_RDLCK) with owner 0: none */
	const struct file *through[LEAF_LOCKS]; /* not references */
	atomic_uint writes, appends, creates, opens, gone, lock_waits, reclaims, setlks, renames, groups, calls;
	atomic_bool hold;    /* writes wait here, after they were counted; renames, after they were done */
	atomic_bool crowded; /* writes are held back before, as a crowd, until this is no more or they are to hurry */
	atomic_uint crowd;   /* those that are */
};
extern struct leaf leaf;
#endif
