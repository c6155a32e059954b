/* SPDX-License-Identifier: Apache-2.0 */
/* test/asks: passes all, and remembers who the last request was said to be of. Its private data is this. */
#ifndef ASKS_H
#define ASKS_H
#include "xlator.h"

struct asks {
	uid_t uid, root;
	gid_t gid, group;
	int32_t group_count;
	bool tenants, administers;
	uint32_t looked; /* how names were looked for last: flags of the stamp (replica.h) */
};
#endif
