/* SPDX-License-Identifier: Apache-2.0 */
/* Goes through the status from the servers down to the members of replica sets. */
#include "status-check.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ending.h"
#include "json.h"
#include "path.h"
#include "set.h"

#define N JSON_INTEGER_FORMAT

static void __attribute__((format(printf, 2, 3))) wrong(json_t *list, const char *format, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) >= 0)
		json_array_append_new(list, json_string(text));
	va_end(args);
	free(text);
}

static bool is(const json_t *object, const char *member, const char *text)
{
	return !strcmp(json_text(object, member), text);
}

/* ": because" */
static char *because(const json_t *object)
{
	const char *problem = json_text(object, "problem");

	return path_format("%s%s", *problem ? ": " : "", problem);
}

/* ---- servers ---- */

static void check_self(const json_t *self, const char *version, json_t *list)
{
	if (!is(self, "version", version))
		wrong(list, "server %s: its stratusd is of version %s, but version %s is installed: start it anew",
		      json_text(self, "name"), json_text(self, "version"), version);
}

/* One that keeps its store alone has no address there, and leads nobody. */
static void check_servers(const json_t *servers, json_t *list)
{
	bool shared = false, led = false;
	json_t *s;
	size_t i;

	json_array_foreach((json_t *)servers, i, s)
	{
		if (is(s, "state", "waiting")) {
			wrong(list, "server %s waits to be taken in: `stratus server add %s %s`, on the server that leads",
			      json_text(s, "name"), json_text(s, "name"), json_text(s, "address"));
			continue;
		}
		shared |= *json_text(s, "address");
		led |= json_is_true(json_object_get(s, "leads"));
		if (is(s, "state", "down"))
			wrong(list, "server %s at %s: it is down, or can't be reached", json_text(s, "name"),
			      json_text(s, "address"));
		else if (json_is_false(json_object_get(s, "votes")))
			wrong(list, "server %s at %s: it does not vote yet", json_text(s, "name"), json_text(s, "address"));
	}
	if (shared && !led)
		wrong(list, "no server leads that is known here: nothing can be changed, and no replica set gets another view");
}

static void check_certificates(const json_t *certificates, int64_t now, json_t *list)
{
	json_t *one;
	size_t i;

	json_array_foreach((json_t *)certificates, i, one)
	{
		if (*json_text(one, "problem") || json_is_true(json_object_get(one, "near"))) {
			cleanup_path char *sentence = ending_sentence(one, now);

			wrong(list, "%s", sentence);
		}
	}
}

/* ---- bricks ---- */

/* As df(1) counts: of what is used and what can be. A file system that makes inodes as it needs them has neither. */
static void check_room(const json_t *v, const json_t *b, const char *what, unsigned full_percent, json_t *list)
{
	cleanup_path char *used_name = path_format("%s-used", what), *free_name = path_format("%s-free", what);
	double used = (double)json_number(b, used_name), left = (double)json_number(b, free_name);
	double share = used + left > 0 ? 100 * used / (used + left) : 0;
	unsigned percent = (unsigned)share + ((unsigned)share < share); /* upwards */

	if (used + left > 0 && percent >= full_percent)
		wrong(list, "volume %s: %s %s:%s: %u %% of its file system's %s are used", json_text(v, "name"),
		      json_text(b, "name"), json_text(b, "server"), json_text(b, "directory"), percent, what);
}

static void check_brick(const json_t *v, const json_t *b, unsigned full_percent, json_t *list)
{
	bool down = is(b, "state", "down");
	cleanup_path char *why = because(b);

	if (down || *why)
		wrong(list, "volume %s: %s %s:%s is %s%s", json_text(v, "name"), json_text(b, "name"), json_text(b, "server"),
		      json_text(b, "directory"), down ? "down" : json_text(b, "state"), why);
	if (json_is_true(json_object_get(b, "read-only")))
		wrong(list, "volume %s: %s %s:%s: its file system is read-only: the kernel's log may say why",
		      json_text(v, "name"), json_text(b, "name"), json_text(b, "server"), json_text(b, "directory"));
	check_room(v, b, "bytes", full_percent, list);
	check_room(v, b, "inodes", full_percent, list);
}

/* ---- replica sets: `first` is the number of the set's first brick ---- */

static void check_member(const json_t *v, const json_t *b, const json_t *m, json_t *list)
{
	json_int_t eta = json_number(m, "eta_seconds");
	cleanup_path char *ready = eta > 0 ? path_format(", ready in about %" N " s", eta) : path_format("%s", "");
	cleanup_path char *who = path_format("volume %s: %s %s:%s", json_text(v, "name"), json_text(b, "name"),
					     json_text(b, "server"), json_text(b, "directory"));

	if (!json_is_true(json_object_get(m, "answers")))
		wrong(list, "%s does not answer", who);
	else if (json_is_true(json_object_get(m, "all_pending")))
		wrong(list, "%s is healed as a whole%s", who, ready);
	else if (json_number(m, "pending") > 0)
		wrong(list, "%s is behind: %" N " objects are still to heal%s", who, json_number(m, "pending"), ready);
	else if (!is(m, "state", "in"))
		wrong(list, "%s is not in its set", who);
	else if (json_is_true(json_object_get(m, "to_heal")))
		wrong(list, "%s is to be healed", who);
}

static void check_set(const json_t *v, const json_t *set, size_t first, json_t *list)
{
	json_t *members = json_object_get(set, "members"), *bricks = json_object_get(v, "bricks"), *member;
	const char *name = json_text(v, "name"), *from = json_text(json_array_get(bricks, first), "name");
	size_t i;

	if (*json_text(set, "problem"))
		wrong(list, "volume %s: the coordinator of the replica set from %s on does not run: %s", name, from,
		      json_text(set, "problem"));
	if (!members)
		return;
	if (!json_is_true(json_object_get(set, "writable")))
		wrong(list, "volume %s: the replica set from %s on can't be written: %s (%s)", name, from, set_state(set),
		      json_text(set, "why"));
	if (json_is_true(json_object_get(set, "recovery_owed")))
		wrong(list, "volume %s: the replica set from %s on is being recovered: its members may differ", name, from);
	json_array_foreach(members, i, member) check_member(v, json_array_get(bricks, first + i), member, list);
}

static void check_sets(const json_t *v, json_t *list)
{
	json_t *sets = json_object_get(v, "sets"), *set = json_object_get(v, "set");
	size_t i;

	if (json_is_object(set))
		check_set(v, set, 0, list);
	json_array_foreach(sets, i, set) if (json_is_object(set))
		check_set(v, set, i * (size_t)json_number(v, "replica"), list);
}

/* ---- volumes ---- */

static void check_rebalance(const json_t *v, json_t *list)
{
	const json_t *r = json_object_get(v, "rebalance");
	const char *name = json_text(v, "name");
	cleanup_path char *why = because(r);

	if (is(r, "state", "failed"))
		wrong(list, "volume %s: moving names has failed%s; see `stratus rebalance status %s`", name, why, name);
	else if (is(r, "state", "running") && *why)
		wrong(list, "volume %s: moving names waits%s; see `stratus rebalance status %s`", name, why, name);
	else if (json_is_false(json_object_get(v, "balanced")) && !is(r, "state", "running") && !is(r, "state", "paused") &&
		 !is(r, "state", "stopping") && !is(r, "state", "stopped"))
		wrong(list,
		      "volume %s: bricks were added and do not have their part of the names: `stratus rebalance start %s`",
		      name, name);
}

/* One that was stopped by somebody is not wrong. */
static void check_volume(const json_t *v, unsigned full_percent, json_t *list)
{
	json_t *b;
	size_t i;

	if (*json_text(v, "problem"))
		wrong(list, "volume %s: %s", json_text(v, "name"), json_text(v, "problem"));
	json_array_foreach(json_object_get(v, "bricks"), i, b) check_brick(v, b, full_percent, list);
	if (json_is_true(json_object_get(v, "started"))) {
		check_sets(v, list);
		check_rebalance(v, list);
	}
}

json_t *status_check(const json_t *all, unsigned full_percent, const char *version, int64_t now)
{
	json_t *list = json_array(), *v;
	size_t i;

	check_self(json_object_get(all, "self"), version, list);
	check_servers(json_object_get(all, "servers"), list);
	if (*json_text(all, "trouble"))
		wrong(list, "%s", json_text(all, "trouble"));
	check_certificates(json_object_get(all, "certificates"), now, list);
	json_array_foreach(json_object_get(all, "volumes"), i, v) check_volume(v, full_percent, list);
	return list;
}
