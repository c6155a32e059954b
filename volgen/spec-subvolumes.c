/* SPDX-License-Identifier: Apache-2.0 */
/* The subvolumes of a volume: sets, or bricks that stand for themselves. A subvolume's number is its place in the list of bricks; that of one that has left is
 * kept as long as there are others behind it. */
#include <errno.h>

#include "log.h"
#include "path.h"
#include "volgen.h"

#define bad(s, line, format, ...) problem_set(p, EINVAL, "%s:%u: " format, (s)->path, (line), ##__VA_ARGS__)

size_t spec_set_size(const struct spec *s)
{
	return s->replica ? s->replica : 1;
}

size_t spec_places(const struct spec *s)
{
	return s->bricks / spec_set_size(s);
}

bool spec_has_subvolume(const struct spec *s, size_t number)
{
	return number < spec_places(s) && !s->brick[number * spec_set_size(s)].gone;
}

uint64_t spec_numbers(const struct spec *s)
{
	uint64_t mask = 0;

	for (size_t i = 0; i < SPEC_SUBVOLUMES_MAX; i++)
		mask |= spec_has_subvolume(s, i) ? UINT64_C(1) << i : 0;
	return mask;
}

uint64_t spec_staying(const struct spec *s)
{
	return spec_numbers(s) & ~(s->leaving ? UINT64_C(1) << s->leaver : 0);
}

size_t spec_subvolumes(const struct spec *s)
{
	size_t count = 0;

	for (size_t i = 0; i < spec_places(s); i++)
		count += spec_has_subvolume(s, i);
	return count;
}

size_t spec_began_with(const struct spec *s)
{
	return s->began ? s->began : spec_places(s); /* where it is not said none has left */
}

bool spec_is_spread(const struct spec *s)
{
	return spec_subvolumes(s) > 1 || s->began;
}

bool spec_has_leases(const struct spec *s)
{
	return !s->replica && (s->has_tenants || spec_is_spread(s));
}

bool spec_has_no_number(const struct spec *s, size_t number)
{
	return !number && spec_began_with(s) == 1 && !s->says_began_at;
}

char *spec_set_name(const struct spec *s, size_t number)
{
	return spec_has_no_number(s, number) ? path_format("%s", s->volume) : path_format("%s:%zu", s->volume, number);
}

/* ---- what must hold ---- */

static int check_replica(const struct spec *s, struct problem *p)
{
	if (s->arbiter && s->replica != 3)
		return bad(s, 1, "'arbiter: true' needs 'replica: 3': two bricks with data and the arbiter");
	if (s->replica && s->bricks % s->replica)
		return bad(s, 1, "'replica: %u' needs %u bricks, not %zu; several sets a multiple of that", s->replica,
			   s->replica, s->bricks);
	if (spec_places(s) > SPEC_SUBVOLUMES_MAX)
		return bad(s, 1, "%zu %s: a volume has at most %d in this version", spec_places(s),
			   s->replica ? "replica sets" : "bricks without replicas", SPEC_SUBVOLUMES_MAX);
	return 0;
}

/* Sets leave as a whole. And behind the last one nothing keeps a place: a number there is as one that never was. */
static int check_gone(const struct spec *s, struct problem *p)
{
	size_t set = spec_set_size(s);

	for (size_t i = 0; i < s->bricks; i++)
		if (s->brick[i].gone != s->brick[i - i % set].gone)
			return bad(
				s, s->brick[i].line,
				"bricks %zu to %zu are one replica set, and some are 'gone: true': all of a set are, or none",
				i - i % set, i - i % set + set - 1);
	if (s->brick[s->bricks - 1].gone)
		return bad(s, s->brick[s->bricks - 1].line,
			   "the last in the list is 'gone: true': it keeps no place there, leave it out");
	if (spec_subvolumes(s) < spec_places(s) && !s->began)
		return bad(s, 1,
			   "a brick is 'gone: true', and 'began-with' is not said: take it from the specification before");
	return 0;
}

static int check_began(const struct spec *s, struct problem *p)
{
	if (s->began > spec_places(s))
		return bad(s, 1, "'began-with: %u' says more than the volume has: %zu %s", s->began, spec_places(s),
			   s->replica ? "replica sets" : "bricks without replicas");
	if (s->says_began_at && !s->began)
		return bad(s, 1, "'began-at' needs 'began-with'");
	for (size_t i = 0; i < s->began; i++)
		if (!spec_has_subvolume(s, s->began_at + i))
			return bad(s, 1,
				   "'began-with: %u' and 'began-at: %u' name subvolume %zu, which the volume does not have",
				   s->began, s->began_at, s->began_at + i);
	return 0;
}

static int check_leaving(struct spec *s, struct problem *p)
{
	if (s->leaving && s->leaver == SIZE_MAX)
		s->leaver = spec_places(s) - 1;
	if (s->leaving && spec_subvolumes(s) < 2)
		return bad(s, 1, "'leaving' says that a subvolume is to go, and the volume has no other: remove it");
	if (s->leaving && !spec_has_subvolume(s, s->leaver))
		return bad(s, 1,
			   "'leaving: %zu' names a subvolume that the volume does not have: take one that it has, or remove it",
			   s->leaver);
	return 0;
}

int spec_check_subvolumes(struct spec *s, struct problem *p)
{
	int err = check_replica(s, p);

	if (!err)
		err = check_gone(s, p);
	if (!err)
		err = check_began(s, p);
	return err ? err : check_leaving(s, p);
}
