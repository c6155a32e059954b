/* SPDX-License-Identifier: Apache-2.0 */
/* What the leader of a cluster decides by itself, without bricks: who may take bricks out that leave, what is noted when names are to move no more, who is heard of soft
 * limits; and which tenants have their turn (cluster-test-fleet.c). */
#include "cluster-test.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-rebalance.h"
#include "cluster-soft-speakers.h"
#include "cluster.h"
#include "fop.h"
#include "path.h"
#include "store.h"

enum { FIRST_ID = SPEC_TENANT_BASE, IDS = SPEC_TENANT_IDS };

/* ---- a store with one document, one specification, and one who moves names ---- */

static char *kept;
static struct spec spec;
static json_t *mover;

struct store *cluster_store(void)
{
	return NULL;
}

bool store_leads(struct store *s)
{
	(void)s;
	return true;
}

int store_get(struct store *s, const char *key, struct blob *value, uint64_t *version)
{
	(void)s;
	*version = 1;
	if (strncmp(key, "rebalance/", strlen("rebalance/")) != 0 || !kept)
		return -ENOENT;
	*value = (struct blob){ (uint32_t)strlen(kept), strdup(kept) };
	return 0;
}

int store_replace(struct store *s, const char *key, uint64_t version, const struct blob *value)
{
	(void)s, (void)key, (void)version;
	free(kept);
	kept = strndup(value->bytes, value->size);
	return 0;
}

uint64_t store_version(struct store *s, const char *key)
{
	(void)s, (void)key;
	return 1;
}

int cluster_spec(const char *volume, const struct spec **s, uint64_t *version, struct problem *p)
{
	(void)volume, (void)p;
	*s = &spec;
	*version = 9;
	return 0;
}

void cluster_spec_release(const struct spec *s)
{
	(void)s;
}

int cluster_commit_problem(int err, struct problem *p)
{
	return err ? problem_set(p, -err, "%s", error_text(err)) : 0;
}

json_t *movers_told(const char *volume)
{
	(void)volume;
	return json_incref(mover);
}

void spec_make(struct spec *s, size_t tenants)
{
	static const char *const bricks[] = { "alpha:/b0", "alpha:/b1", "alpha:/b2" };
	struct problem p = { "" };

	if (spec_init("photos", bricks, 3, &(struct spec_form){ .tenants = true }, s, &p))
		fail_msg("%s", p.text);
	s->leaving = true;
	s->leaver = 0;
	s->tenant = calloc(tenants, sizeof(*s->tenant));
	s->tenants = tenants;
	assert_non_null(s->tenant);
	for (size_t i = 0; i < tenants; i++) {
		s->tenant[i].name = path_format("t%zu", i);
		s->tenant[i].base = FIRST_ID + (unsigned)i * IDS;
		gfid_create(&s->tenant[i].id);
	}
	s->tenant_base = FIRST_ID + (unsigned)tenants * IDS;
}

static void keep(const char *state, unsigned through)
{
	free(kept);
	kept = path_format("{\"state\": \"%s\", \"subvolumes\": 2, \"numbers\": [1, 2], \"begun\": 5, \"through\": %u}", state,
			   through);
}

static void let_go(void)
{
	free(kept);
	kept = NULL;
	spec_free(&spec);
}

/* ---- who takes a leaver out ---- */

static int removal(uint64_t went, struct problem *p)
{
	*p = (struct problem){ "" };
	return cluster_rebalance_check_removal(&spec, went, p);
}

/* Whether by itself, or somebody by a specification without these bricks: all names of all tenants have left them. */
static void a_leaver_is_taken_out_when_no_tenant_is_left_who_has_names_there(void **state)
{
	struct problem p;

	(void)state;
	spec_make(&spec, 2);
	keep("running", FIRST_ID + 2 * IDS);
	assert_int_equal(removal(1, &p), -EBUSY);
	keep("done", FIRST_ID + IDS); /* the second one came when names had moved */
	assert_int_equal(removal(1, &p), -EAGAIN);
	assert_non_null(strstr(p.text, "a tenant has come meanwhile"));
	keep("done", FIRST_ID + 2 * IDS);
	assert_int_equal(removal(1, &p), 0);
	assert_int_equal(removal(2, &p), -EBUSY); /* that one has names */
	let_go();
}

/* ---- rebalance start, pause, stop ---- */

/* The document after it, and what is told. */
static json_t *told_to(const char *verb, json_t **answer)
{
	char *words[] = { (char *)"cluster", (char *)"rebalance", (char *)verb, (char *)"photos" }, *said = NULL;
	struct problem p = { "" };
	size_t size;
	FILE *f = open_memstream(&said, &size);

	if (cluster_rebalance_command(4, words, f, &p))
		fail_msg("%s", p.text);
	fclose(f);
	if (answer)
		*answer = json_loads(said, 0, NULL);
	free(said);
	return json_loads(kept, 0, NULL);
}

static const char *state_in(const json_t *o)
{
	return json_string_value(json_object_get(o, "state"));
}

/* So whoever is at it is not taken for one of another rebalance, and keeps his place. */
static void what_is_paused_is_the_same_when_it_goes_on(void **state)
{
	json_t *document, *answer;

	(void)state;
	spec_make(&spec, 2);
	spec.has_tenants = false;
	keep("running", FIRST_ID + IDS);
	mover = json_pack("{s:s, s:i, s:i}", "state", "running", "begun", 5, "moved", 7);
	document = told_to("pause", &answer);
	assert_string_equal(state_in(document), "paused");
	assert_string_equal(state_in(answer), "paused");
	assert_int_equal(json_integer_value(json_object_get(answer, "moved")), 7);
	assert_int_equal(json_integer_value(json_object_get(document, "begun")), 5);
	json_decref(answer);
	json_decref(document);
	document = told_to("pause", NULL);
	assert_string_equal(state_in(document), "paused");
	json_decref(document);
	free(kept);
	kept = path_format("{\"state\": \"paused\", \"subvolumes\": 3, \"numbers\": [0, 1, 2], \"begun\": 5, \"through\": 9}");
	document = told_to("start", NULL);
	assert_string_equal(state_in(document), "running");
	assert_int_equal(json_integer_value(json_object_get(document, "begun")), 5);
	assert_int_equal(json_integer_value(json_object_get(document, "through")), 9);
	json_decref(document);
	keep("paused", 0);
	document = told_to("stop", NULL);
	assert_string_equal(state_in(document), "stopped");
	json_decref(document);
	keep("done", 0);
	document = told_to("pause", NULL); /* nothing is under way */
	assert_string_equal(state_in(document), "done");
	json_decref(document);
	json_decref(mover);
	mover = NULL;
	let_go();
}

/* Else one of them would wait for a layout that is half written for as long as the pause lasts. */
static void a_volume_with_tenants_is_not_paused(void **state)
{
	char *words[] = { (char *)"cluster", (char *)"rebalance", (char *)"pause", (char *)"photos" };
	struct problem p = { "" };
	json_t *document;

	(void)state;
	spec_make(&spec, 2);
	keep("running", 0);
	assert_int_equal(cluster_rebalance_command(4, words, stderr, &p), -EOPNOTSUPP);
	assert_non_null(strstr(p.text, "rebalance stop photos"));
	document = json_loads(kept, 0, NULL);
	assert_string_equal(state_in(document), "running");
	json_decref(document);
	let_go();
}

static json_t *stopped_while(json_int_t begun)
{
	json_t *document;

	keep("running", 0);
	mover = json_pack("{s:s, s:I, s:i, s:i, s:i}", "state", "running", "begun", begun, "through", FIRST_ID + 2 * IDS,
			  "tenants-done", 2, "moved", 7);
	document = told_to("stop", NULL);
	json_decref(mover);
	mover = NULL;
	return document;
}

static void what_was_done_for_another_rebalance_is_not_noted_when_one_is_stopped(void **state)
{
	json_t *own, *before;

	(void)state;
	spec_make(&spec, 2);
	own = stopped_while(5);
	assert_string_equal(json_string_value(json_object_get(own, "state")), "stopped");
	assert_int_equal(json_integer_value(json_object_get(own, "through")), FIRST_ID + 2 * IDS);
	before = stopped_while(4); /* who is still at that: nobody's names have left the leaver yet */
	assert_string_equal(json_string_value(json_object_get(before, "state")), "stopped");
	assert_null(json_object_get(before, "through"));
	assert_null(json_object_get(before, "tenants-done"));
	assert_int_equal(json_integer_value(json_object_get(before, "begun")), 5);
	json_decref(own);
	json_decref(before);
	let_go();
}

/* ---- soft limits ---- */

static void as_many_are_heard_of_soft_limits_as_of_allotments(void **state)
{
	enum { MOST = 4096 }; /* PEERS_MAX of cluster-allot-lead.c */
	char name[ALLOT_UNIT_NAME + 1];

	(void)state;
	for (int i = 0; i < MOST; i++) {
		snprintf(name, sizeof(name), "server%d", i);
		assert_non_null(speaker_need(name, ""));
	}
	assert_null(speaker_need("one more", ""));
	for (int i = 0; i < MOST; i++) {
		snprintf(name, sizeof(name), "server%d", i);
		assert_string_equal(speaker_find(name)->name, name);
	}
	speakers_forget();
	assert_null(speaker_find("server0"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_leaver_is_taken_out_when_no_tenant_is_left_who_has_names_there),
		cmocka_unit_test(what_is_paused_is_the_same_when_it_goes_on),
		cmocka_unit_test(a_volume_with_tenants_is_not_paused),
		cmocka_unit_test(what_was_done_for_another_rebalance_is_not_noted_when_one_is_stopped),
		cmocka_unit_test(as_many_are_heard_of_soft_limits_as_of_allotments),
		cmocka_unit_test(whose_old_records_are_waited_for_is_not_put_off),
		cmocka_unit_test(who_gets_no_further_makes_room_and_ends_all_the_same),
		cmocka_unit_test(who_could_not_be_begun_is_waited_for_no_longer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
