/* SPDX-License-Identifier: Apache-2.0 */
/* How often the view is changed because a member lacks a directory. */
#include "lacking-limit.h"

#define DIRECTORY_NS 60000000000ull
#define PAUSE_MIN_NS 1000000000ull
#define PAUSE_MAX_NS 16000000000ull
#define QUIET_NS     60000000000ull

bool lacking_may_take(const struct lacking_limit *l, const struct gfid *directory, uint64_t now)
{
	unsigned kept = l->taken < LACKS_KEPT ? l->taken : LACKS_KEPT;

	for (unsigned i = 0; i < kept; i++)
		if (gfid_equal(&l->directory[i], directory) && now < l->taken_ns[i] + DIRECTORY_NS)
			return false;
	return kept < LACKS_KEPT || now >= l->taken_ns[l->taken % LACKS_KEPT] + DIRECTORY_NS;
}

void lacking_take(struct lacking_limit *l, const struct gfid *directory, uint64_t now)
{
	l->directory[l->taken % LACKS_KEPT] = *directory;
	l->taken_ns[l->taken++ % LACKS_KEPT] = now;
}

bool lacking_may_view(const struct lacking_limit *l, uint64_t now)
{
	return !l->pause_ns || now >= l->view_ns + l->pause_ns;
}

void lacking_view(struct lacking_limit *l, uint64_t now)
{
	uint64_t longer = l->pause_ns * 2 < PAUSE_MAX_NS ? l->pause_ns * 2 : PAUSE_MAX_NS;

	l->pause_ns = l->pause_ns && now < l->view_ns + l->pause_ns + QUIET_NS ? longer : PAUSE_MIN_NS;
	l->view_ns = now;
}
