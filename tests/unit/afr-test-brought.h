/* SPDX-License-Identifier: Apache-2.0 */
/* Of afr-test: locks that a member is brought while something else is done with them. */
#ifndef STRATUS_AFR_TEST_BROUGHT_H
#define STRATUS_AFR_TEST_BROUGHT_H
#include "afr-test.h"

struct doing {
	int result;
	atomic_bool done;
};
void await(struct doing *);
int flush(struct file *through, uint64_t owner);
void come_back(struct doing *write, char *fop);
void is_free_at(int i, struct inode *);
bool is_held_at(int i, struct file *its);
void connection(int i, enum event_kind);
#endif
