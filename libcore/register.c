/* SPDX-License-Identifier: Apache-2.0 */
/* The pointer to the register that this process has, if any. */
#include <stdatomic.h>
#include <stddef.h>

#include "register.h"

static _Atomic(const struct cluster_register *) here;

void cluster_register_set(const struct cluster_register *r)
{
	atomic_store(&here, r);
}

const struct cluster_register *cluster_register_get(void)
{
	return atomic_load(&here);
}
