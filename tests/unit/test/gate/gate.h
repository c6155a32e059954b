/* SPDX-License-Identifier: Apache-2.0 */
/* test/gate: lets everybody in, as features/cloud does its tenants, and tells what it was told of who came. Its private data is this. */
#ifndef STRATUS_TEST_GATE_H
#define STRATUS_TEST_GATE_H
#include <stdatomic.h>

#include "xlator.h"

struct gate {
	atomic_bool refuses;   /* those who are in: their sessions end */
	atomic_bool holds;     /* getattr waits while this is so, whoever cancels it */
	atomic_uint held;      /* those that do */
	atomic_uint came;      /* how many connections */
	pthread_mutex_t guard; /* of what follows */
	struct gfid root;      /* of the last that came: what its session has for a root, as the server told; zeros: nothing */
};
#endif
