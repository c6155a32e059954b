/* SPDX-License-Identifier: Apache-2.0 */
/* Asks for the status until the set's coordinator hears from the brick. The server of the brick makes its directory a second or so after
 * the commit, so the coordinator's first attempts fail, and are no failure of the command. */
#include "brick-wait.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cluster-client.h"
#include "json.h"
#include "log.h"

enum { ASK_MS = 500, WAIT_MS = 120000, TELL_MS = 5000 };

static const json_t *find_volume(const json_t *all, const char *name)
{
	json_t *v;
	size_t i;

	json_array_foreach(json_object_get(all, "volumes"), i, v) if (!strcmp(json_text(v, "name"), name)) return v;
	return NULL;
}

/* Its number among the bricks that there are; as many as there are if it is none of them. */
static size_t number_of(const json_t *v, const char *brick)
{
	json_t *bricks = json_object_get(v, "bricks"), *b;
	size_t server, i;

	json_array_foreach(bricks, i, b)
	{
		server = strlen(json_text(b, "server"));
		if (!strncmp(json_text(b, "server"), brick, server) && brick[server] == ':' &&
		    !strcmp(json_text(b, "directory"), brick + server + 1))
			return i;
	}
	return json_array_size(bricks);
}

/* "": it is in service. What is told is of the status, and lives as long. */
static const char *what_lacks(const json_t *v, const char *brick)
{
	size_t number = number_of(v, brick), replica = (size_t)json_number(v, "replica");
	const json_t *one = json_object_get(v, "set"), *set, *b = json_array_get(json_object_get(v, "bricks"), number), *member;

	if (!b || !replica)
		return "it is not put into effect here yet";
	if (*json_text(b, "problem"))
		return json_text(b, "problem");
	set = one ? one : json_array_get(json_object_get(v, "sets"), number / replica);
	if (*json_text(set, "problem"))
		return json_text(set, "problem");
	member = json_array_get(json_object_get(set, "members"), number % replica);
	return json_is_true(json_object_get(member, "answers")) ? "" : "its replica set does not hear from it yet";
}

static int look(const struct process *keeper, const char *volume, const char *brick, char *lacks, size_t size,
		struct problem *p)
{
	json_t *all = NULL;
	int err = keeper_ask(keeper, "cluster status", NULL, &all, p);
	const json_t *v = err ? NULL : find_volume(all, volume);

	if (!err && !v)
		err = problem_set(p, ENOENT, "volume %s is gone", volume);
	if (!err)
		snprintf(lacks, size, "%s",
			 json_is_true(json_object_get(v, "started")) ? what_lacks(v, brick)
								     : ""); /* stopped: nothing is served */
	json_decref(all);
	return err;
}

int brick_wait(const struct process *keeper, const char *program, const char *volume, const char *brick, struct problem *p)
{
	char lacks[400] = "", told[400] = "";

	for (unsigned ms = 0; ms < WAIT_MS; ms += ASK_MS) {
		int err = look(keeper, volume, brick, lacks, sizeof lacks, p);

		if (err || !*lacks)
			return err;
		if (ms % TELL_MS == TELL_MS - ASK_MS && strcmp(lacks, told))
			fprintf(stderr, "%s: waiting for %s: %s\n", program, brick, lacks);
		if (ms % TELL_MS == TELL_MS - ASK_MS)
			memcpy(told, lacks, sizeof told);
		usleep(ASK_MS * 1000);
	}
	return problem_set(
		p, ETIMEDOUT,
		"committed, but %s is not in service after %d s: %.300s; stratusd tries again, `stratus status` tells when it is",
		brick, WAIT_MS / 1000, lacks);
}
