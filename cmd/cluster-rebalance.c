/* SPDX-License-Identifier: Apache-2.0 */
/* `cluster rebalance start|pause|stop|status VOLUME`: what is wanted is noted in the store, so that whoever leads goes on with it; the answer, as JSON, is what
 * the store says, and from the server that leads how far it is.
 *
 * A document "rebalance/VOLUME": "state" (running, as long as it is wanted; paused: who moves keeps his place; stopped; done; failed), and what cluster/dht said when it ended: "version",
 * "moved", "left", "problem", "files", "bytes", "copied", "failed", "skipped-...", of how many "subvolumes", and of which "numbers" (an older version's document
 * has none: they are the first); "begun": see cluster-rebalance.h. */
#include "cluster-rebalance.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-fleet.h"
#include "cluster.h"
#include "json.h"
#include "log.h"
#include "path.h"
#include "store.h"

/* ---- what the store says ---- */

int rebalance_read(const char *volume, json_t **document, uint64_t *version)
{
	cleanup_path char *key = path_format("rebalance/%s", volume);
	struct blob value = { 0 };
	int err = store_get(cluster_store(), key, &value, version);

	*document = err ? NULL : json_loadb(value.bytes, value.size, 0, NULL);
	free(value.bytes);
	return err == -ENOENT ? 0 : err;
}

int rebalance_write(const char *volume, json_t *document, uint64_t version)
{
	cleanup_path char *key = path_format("rebalance/%s", volume), *text = json_dumps(document, 0);
	struct blob value = { .size = text ? strlen(text) : 0, .bytes = text };

	return text ? store_replace(cluster_store(), key, version, &value) : -ENOMEM;
}

bool rebalance_is(const json_t *document, const char *state)
{
	return !strcmp(json_text(document, "state"), state);
}

static json_t *list_of(uint64_t numbers)
{
	json_t *list = json_array();

	for (int i = 0; i < SPEC_SUBVOLUMES_MAX; i++)
		if (numbers >> i & 1)
			json_array_append_new(list, json_integer(i));
	return list;
}

static uint64_t first_numbers(size_t count)
{
	return count < SPEC_SUBVOLUMES_MAX ? (UINT64_C(1) << count) - 1 : UINT64_MAX;
}

uint64_t rebalance_numbers(const json_t *document)
{
	json_t *list = json_object_get(document, "numbers"), *one;
	uint64_t numbers = 0;
	size_t i;

	if (!list)
		return first_numbers((size_t)json_number(document, "subvolumes"));
	json_array_foreach(list, i, one)
	{
		json_int_t number = json_integer_value(one);

		numbers |= number >= 0 && number < SPEC_SUBVOLUMES_MAX ? UINT64_C(1) << number : 0;
	}
	return numbers;
}

json_int_t rebalance_begun(const json_t *document)
{
	return json_number(document, "begun");
}

json_t *rebalance_document(const char *state, uint64_t numbers, json_int_t begun, const json_t *told)
{
	static const char *const kept[] = { "version", "moved",	 "left",    "problem", "files",	      "bytes",
					    "copied",  "failed", "through", "tenants", "tenants-done" };
	json_t *document = json_pack("{s:s, s:i, s:o, s:I}", "state", state, "subvolumes", __builtin_popcountll(numbers),
				     "numbers", list_of(numbers), "begun", begun),
	       *value;
	const char *key;

	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
		if (json_object_get(told, kept[i]))
			json_object_set(document, kept[i], json_object_get(told, kept[i]));
	json_object_foreach((json_t *)told, key, value) if (!strncmp(key, "skipped-", 8) || !strncmp(key, "stays-", 6))
		json_object_set(document, key, value);
	return document;
}

/* ---- how it stands ---- */

/* Over which subvolumes names are spread, a mask, as far as the store knows; 0: not when they are moving. */
static uint64_t spread_over(const struct spec *s, const json_t *document)
{
	if (!document)
		return first_numbers(spec_began_with(s)) << s->began_at;
	return rebalance_is(document, "done") ? rebalance_numbers(document) : 0;
}

static const char *state_of(const struct spec *s, const json_t *document, bool here)
{
	uint64_t spread = spread_over(s, document);

	if (here && rebalance_is(document, "stopped"))
		return "stopping";
	if (s->leaving && rebalance_is(document, "done")) /* it is about to be taken out */
		return "running";
	if (!document || (spread && spread != spec_numbers(s)))
		return "idle";
	return json_text(document, "state");
}

static json_t *leaving_bricks(const struct spec *s)
{
	json_t *list = json_array();
	size_t set = spec_set_size(s);

	for (size_t i = s->leaver * set; i < (s->leaver + 1) * set; i++) {
		cleanup_path char *name = path_format("%s:%s", s->brick[i].server_name, s->brick[i].directory);

		json_array_append_new(list, json_string(name));
	}
	return list;
}

static bool is_under_way(const json_t *document)
{
	return rebalance_is(document, "running") || rebalance_is(document, "paused");
}

/* How it stands: what the store says, and as long as it runs what is told here. */
static json_t *describe(const struct spec *s, const json_t *document, json_t *told)
{
	json_t *all = document ? json_copy((json_t *)document) : json_object();
	uint64_t spread = spread_over(s, document);

	if (told && is_under_way(document))
		json_object_update(all, told);
	if (s->stopped && rebalance_is(document, "running"))
		json_object_set_new(all, "problem", json_string("the volume is stopped"));
	if (s->leaving)
		json_object_set_new(all, "leaving", leaving_bricks(s));
	json_object_set_new(all, "volume", json_string(s->volume));
	json_object_set_new(all, "state", json_string(state_of(s, document, told)));
	json_object_set_new(all, "here", json_boolean(told != NULL));
	json_object_set_new(all, "leads", json_boolean(store_leads(cluster_store())));
	json_object_set_new(all, "subvolumes", json_integer((json_int_t)spec_subvolumes(s)));
	json_object_set_new(all, "spread-over", spread ? json_integer(__builtin_popcountll(spread)) : json_null());
	json_object_set_new(all, "numbers", spread ? list_of(spread) : json_null());
	return all;
}

static int answer(const struct spec *s, FILE *to)
{
	json_t *document, *told, *all;
	uint64_t version;
	int err = rebalance_read(s->volume, &document, &version);

	if (err)
		return err;
	told = movers_told(s->volume);
	all = describe(s, document, told);
	json_dumpf(all, to, 0);
	json_decref(all);
	json_decref(told);
	json_decref(document);
	return 0;
}

static int replace_document(const struct spec *s, json_t *document, uint64_t version, struct problem *p)
{
	int err = rebalance_write(s->volume, document, version);

	if (err == -ESTALE)
		return problem_set(p, ESTALE,
				   "somebody else has started or stopped it in the meantime: look at it and try again");
	return cluster_commit_problem(err, p);
}

/* The same goes on, or stands still: so whoever is at it keeps his place. */
static int set_state(const struct spec *s, const json_t *document, const char *state, uint64_t version, struct problem *p)
{
	json_t *wanted = json_copy((json_t *)document);
	int err;

	json_object_set_new(wanted, "state", json_string(state));
	err = replace_document(s, wanted, version, p);
	json_decref(wanted);
	return err;
}

static int begin(const struct spec *s, uint64_t spec_version, const json_t *document, uint64_t version, struct problem *p)
{
	json_t *wanted;
	bool goes_on; /* with the tenants that had not had their turn */
	int err;

	if (s->stopped)
		return problem_set(p, EBUSY, "volume %s is stopped: `stratus volume start %s` first", s->volume, s->volume);
	if (rebalance_is(document, "running") || spec_subvolumes(s) == 1)
		return 0;
	if (rebalance_is(document, "paused") && rebalance_numbers(document) == spec_numbers(s))
		return set_state(s, document, "running", version, p);
	goes_on = s->has_tenants && rebalance_is(document, "stopped") && rebalance_numbers(document) == spec_numbers(s);
	wanted = rebalance_document("running", spec_numbers(s), (json_int_t)spec_version, goes_on ? document : NULL);
	json_object_del(wanted, "problem");
	err = replace_document(s, wanted, version, p);
	json_decref(wanted);
	return err;
}

static int end(const struct spec *s, const json_t *document, uint64_t version, struct problem *p)
{
	json_t *told, *wanted;
	int err;

	if (!is_under_way(document))
		return 0;
	told = movers_told(s->volume);
	/* Who is still at what was before that tells of tenants that are done, and were not for this. */
	wanted = rebalance_document("stopped", spec_numbers(s), rebalance_begun(document),
				    rebalance_begun(told) == rebalance_begun(document) ? told : NULL);
	err = replace_document(s, wanted, version, p);
	json_decref(wanted);
	json_decref(told);
	return err;
}

static int hold(const struct spec *s, const json_t *document, uint64_t version, struct problem *p)
{
	if (!rebalance_is(document, "running"))
		return 0;
	if (s->has_tenants) /* who leads next would not know in whose tree a layout is half written, whose names wait for it */
		return problem_set(
			p, EOPNOTSUPP,
			"the rebalance of volume %s, which has tenants, can't be paused: `stratus rebalance stop %s` ends it, and a start goes on "
			"with the tenants that are left",
			s->volume, s->volume);
	return set_state(s, document, "paused", version, p);
}

static int change(const struct spec *s, uint64_t spec_version, const char *verb, struct problem *p)
{
	json_t *document;
	uint64_t version;
	int err = rebalance_read(s->volume, &document, &version);

	if (!err)
		err = !strcmp(verb, "start")   ? begin(s, spec_version, document, version, p)
		      : !strcmp(verb, "pause") ? hold(s, document, version, p)
					       : end(s, document, version, p);
	json_decref(document);
	return err;
}

int cluster_rebalance_command(int words, char **word, FILE *out, struct problem *p)
{
	const char *verb = words == 4 ? word[2] : "";
	bool changes = !strcmp(verb, "start") || !strcmp(verb, "pause") || !strcmp(verb, "stop");
	uint64_t version;
	const struct spec *s;
	int err;

	if (!changes && strcmp(verb, "status"))
		return problem_set(p, EINVAL, "cluster rebalance takes start, pause, stop or status, and a volume");
	err = cluster_spec(word[3], &s, &version, p);
	if (!err && changes)
		err = change(s, version, verb, p);
	if (!err)
		err = answer(s, out);
	cluster_spec_release(s);
	return err;
}

json_t *cluster_rebalance_brief(const char *volume)
{
	static const char *const members[] = { "state", "problem", "leaving" };
	json_t *document = NULL, *told, *whole, *brief = NULL;
	const struct spec *s;
	struct problem ignored = { "" };
	uint64_t version;

	if (cluster_spec(volume, &s, &version, &ignored) || rebalance_read(volume, &document, &version)) {
		cluster_spec_release(s);
		return NULL;
	}
	told = movers_told(volume);
	whole = describe(s, document, told);
	if (strcmp(json_text(whole, "state"), "idle") && strcmp(json_text(whole, "state"), "done"))
		brief = json_object();
	for (size_t i = 0; brief && i < sizeof members / sizeof *members; i++)
		if (json_object_get(whole, members[i]))
			json_object_set(brief, members[i], json_object_get(whole, members[i]));
	json_decref(whole);
	json_decref(told);
	json_decref(document);
	cluster_spec_release(s);
	return brief;
}

bool cluster_rebalance_pending(const struct spec *s)
{
	json_t *document;
	uint64_t version;
	int err = rebalance_read(s->volume, &document, &version);
	bool pending = !err && !s->leaving && spread_over(s, document) != spec_numbers(s);

	json_decref(document);
	return pending;
}

int cluster_rebalance_check_removal(const struct spec *s, uint64_t went, struct problem *p)
{
	json_t *document;
	uint64_t version;
	int err = rebalance_read(s->volume, &document, &version);
	uint64_t spread = err ? 0 : spread_over(s, document);
	bool has_new = !err && s->leaving && s->has_tenants && fleet_lacks(s, document);

	json_decref(document);
	if (err)
		return cluster_commit_problem(err, p);
	if (spread && !(spread & went) && has_new) /* who came at the last moment may have names there */
		return problem_set(p, EAGAIN, "a tenant has come meanwhile, whose names are moved first");
	if (spread && !(spread & went))
		return 0;
	return problem_set(
		p, EBUSY,
		"bricks of volume %s that have names, or are to have them, can't be removed at once: `stratus brick remove` has them "
		"emptied first",
		s->volume);
}

int cluster_rebalance_must_end(const char *volume, struct problem *p)
{
	return problem_set(
		p, EBUSY,
		"names of volume %s are still to move to what was added last: `stratus rebalance start --wait %s` first",
		volume, volume);
}

int cluster_rebalance_check(const char *volume, struct problem *p)
{
	json_t *document;
	uint64_t version;
	int err = rebalance_read(volume, &document, &version);

	if (!err && document && !rebalance_is(document, "done"))
		err = cluster_rebalance_must_end(volume, p);
	json_decref(document);
	return err;
}
