/* SPDX-License-Identifier: Apache-2.0 */
/* In place of raft.c where libraft is not there. */
#include <errno.h>

#include "log.h"
#include "store.h"

int store_open_shared(const char *directory, const char *name, const char *address, bool join, const struct tls_files *tls,
		      struct store **opened, struct problem *p)
{
	(void)directory, (void)name, (void)address, (void)join, (void)tls, (void)opened;
	return problem_set(
		p, ENOTSUP,
		"this stratusd was built without libraft, so its store can't be shared: install libraft-dev and build "
		"again, or leave --cluster out");
}

uint64_t store_member_id(const char *name)
{
	(void)name;
	return 0; /* there are no members */
}
