/* SPDX-License-Identifier: Apache-2.0 */
/* The pointer to the register that this process has, if any; and what others may know of a view. */
#include "register.h"

#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "fop.h"

static _Atomic(const struct cluster_register *) here;

void cluster_register_set(const struct cluster_register *r)
{
	atomic_store(&here, r);
}

const struct cluster_register *cluster_register_get(void)
{
	return atomic_load(&here);
}

int register_view_epoch(const struct blob *value, uint64_t *epoch)
{
	uint32_t magic;
	uint64_t number;

	if (value->size < sizeof(magic) + sizeof(number))
		return -EINVAL;
	memcpy(&magic, value->bytes, sizeof(magic));
	memcpy(&number, (const char *)value->bytes + sizeof(magic), sizeof(number));
	if (be32toh(magic) != REGISTER_VIEW)
		return -EINVAL;
	*epoch = be64toh(number);
	return 0;
}
