/* SPDX-License-Identifier: Apache-2.0 */
/* For afr-test: a read or a write of `file` that another task does, and how far a write has come. */
#ifndef STRATUS_AFR_TEST_DOING_H
#define STRATUS_AFR_TEST_DOING_H
#include "afr-test.h"

struct doing {
	int err;
	atomic_bool done;
};

static inline void write_data(void *arg)
{
	struct doing *d = arg;

	d->err = tree_write(&tree, file, 0, "data", 4);
	atomic_store(&d->done, true);
}

static inline void read_data(void *arg)
{
	struct doing *d = arg;
	struct buffer *data = NULL;

	d->err = tree_read(&tree, file, 0, 4, &data);
	buffer_unref(data);
	atomic_store(&d->done, true);
}

static inline bool is_written_at(int i)
{
	struct getattr_in in = { .inode = file->inode };
	struct getattr_out out = { 0 };

	return !tree_call(&tree, locks[i], FOP_getattr, &in, &out) && out.attr.size == 4;
}
#endif
