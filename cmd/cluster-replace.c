/* SPDX-License-Identifier: Apache-2.0 */
/* May this brick of a replica set be replaced now? Its coordinator tells who has everything. The last one that has is not given up, nor one of two while a third is being healed: the set
 * could not be written to, and one more loss would be that of what was acknowledged. */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "cluster.h"
#include "json.h"
#include "log.h"
#include "store.h"

enum { ASK_MS = 100, SETTLE_MS = 3000 };

static bool says(const json_t *member, const char *what)
{
	return json_is_true(json_object_get(member, what));
}

static bool has_everything(const json_t *m)
{
	return !strcmp(json_text(m, "state"), "in") && says(m, "answers") && !says(m, "all_pending") && !says(m, "healing") &&
	       !says(m, "to_heal") && !json_number(m, "pending");
}

static bool any_answers(const json_t *set)
{
	bool any = false;
	json_t *m;
	size_t i;

	json_array_foreach(json_object_get(set, "members"), i, m) any |= says(m, "answers");
	return any;
}

/* A coordinator that was just started has not heard from anybody yet, and has no view. */
static json_t *ask(const char *volume, size_t number)
{
	json_t *set = cluster_set_status(volume, number);

	for (unsigned ms = 0; ms < SETTLE_MS && set && (!any_answers(set) || !json_number(set, "epoch")); ms += ASK_MS) {
		json_decref(set);
		usleep(ASK_MS * 1000);
		set = cluster_set_status(volume, number);
	}
	return set;
}

static int not_known(const struct spec *before, size_t brick, struct problem *p)
{
	if (!store_leads(cluster_store()))
		return cluster_commit_problem(-EREMOTE, p);
	if (before->stopped)
		return problem_set(
			p, EBUSY,
			"whether another brick has all that brick%zu of volume %s has is not known while that is stopped: `stratus volume start %s` "
			"first, or --force",
			brick, before->volume, before->volume);
	return problem_set(
		p, EBUSY,
		"whether another brick has all that brick%zu of volume %s has is not known, for the coordinator of its set does not run: "
		"`stratus status` tells why; then try again, or --force",
		brick, before->volume);
}

static int judge(const struct spec *before, size_t brick, const json_t *set, struct problem *p)
{
	size_t size = spec_set_size(before), first = brick - brick % size, sources = 0, lacks = before->bricks;
	const json_t *members = json_object_get(set, "members");
	bool owed = says(set, "recovery_owed");

	if (says(set, "scrub_owed") && json_number(set, "first") == (json_int_t)(brick - first))
		return problem_set(
			p, EBUSY,
			"brick%zu of volume %s can't be replaced now: after a power cut it may alone have what was acknowledged last, until what changed of late "
			"has been compared; wait until `stratus status` does not tell of that any more (--force does not wait)",
			brick, before->volume);

	for (size_t i = 0; i < size; i++) {
		bool has = has_everything(json_array_get(members, i)) && !owed;

		if (first + i == brick)
			continue;
		sources += has && !(before->arbiter && i == size - 1);
		lacks = has ? lacks : first + i;
	}
	if (!sources)
		return problem_set(
			p, EBUSY,
			"brick%zu of volume %s can't be replaced now: no other brick of its replica set has all of its files; wait until `stratus heal "
			"status %s` tells that one is in, with 0 pending (--force gives up what this brick alone has)",
			brick, before->volume, before->volume);
	if (lacks < before->bricks && has_everything(json_array_get(members, brick - first)))
		return problem_set(
			p, EBUSY,
			"brick%zu of volume %s can't be replaced now: brick%zu of the same replica set does not have all files; wait until `stratus heal "
			"status %s` tells that it is in, with 0 pending, or replace that one first (--force does not wait)",
			brick, before->volume, lacks, before->volume);
	return 0;
}

int cluster_check_replaced(const struct spec *before, size_t brick, struct problem *p)
{
	json_t *set = before->stopped ? NULL : ask(before->volume, brick / spec_set_size(before));
	int err = set ? judge(before, brick, set, p) : not_known(before, brick, p);

	json_decref(set);
	return err;
}
