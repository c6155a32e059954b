/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus status --check`: nothing is said of what is well, and a sentence of each thing that is not. */
#include "status-check.h"

#include <string.h>

#include "json.h"
#include "path.h"
#include "test.h"

#define NOW 1800000000

/* A cluster of two servers, seen from the one that leads, with a replica set; all is well. Each test changes something in it. */
static const char well[] =
	"{'self': {'name': 'alpha', 'version': '1', 'pid': 7},"
	" 'servers': [{'name': 'alpha', 'address': '10.0.0.1:1', 'state': 'up', 'leads': true, 'votes': true},"
	"             {'name': 'beta', 'address': '10.0.0.2:1', 'state': 'up', 'leads': false, 'votes': true}],"
	" 'certificates': [{'role': 'own', 'file': '/c.pem', 'begins': 0, 'ends': 1900000000, 'near': false}],"
	" 'volumes': [{'name': 'photos', 'started': true, 'replica': 2,"
	"   'bricks': [{'name': 'brick0', 'server': 'alpha', 'directory': '/a', 'state': 'serving', 'bytes-used': 500,"
	"               'bytes-free': 500, 'inodes-used': 0, 'inodes-free': 0},"
	"              {'name': 'brick1', 'server': 'beta', 'directory': '/b', 'state': 'elsewhere'}],"
	"   'set': {'writable': true, 'changes_wait': false, 'why': 'x', 'recovery_owed': false, 'members': ["
	"     {'state': 'in', 'answers': true, 'pending': 0, 'all_pending': false, 'healing': false, 'to_heal': false, 'eta_seconds': -1},"
	"     {'state': 'in', 'answers': true, 'pending': 0, 'all_pending': false, 'healing': false, 'to_heal': false, 'eta_seconds': -1}]}}]}";

static json_t *cluster(void)
{
	cleanup_path char *text = path_format("%s", well);
	json_t *all;

	for (char *c = text; *c; c++)
		*c = *c == '\'' ? '"' : *c;
	all = json_loads(text, 0, NULL);
	assert_non_null(all);
	return all;
}

static json_t *server(json_t *all, size_t i)
{
	return json_array_get(json_object_get(all, "servers"), i);
}

static json_t *volume(json_t *all)
{
	return json_array_get(json_object_get(all, "volumes"), 0);
}

static json_t *brick(json_t *all, size_t i)
{
	return json_array_get(json_object_get(volume(all), "bricks"), i);
}

static json_t *set(json_t *all)
{
	return json_object_get(volume(all), "set");
}

static json_t *member(json_t *all, size_t i)
{
	return json_array_get(json_object_get(set(all), "members"), i);
}

/* Just this; NULL: nothing. Takes `all`. */
static void says(json_t *all, const char *sentence)
{
	json_t *list = status_check(all, 90, "1", NOW);

	assert_int_equal(json_array_size(list), sentence ? 1 : 0);
	if (sentence)
		assert_string_equal(json_string_value(json_array_get(list, 0)), sentence);
	json_decref(list);
	json_decref(all);
}

static void a_brick_that_takes_no_changes_is_wrong(void **state)
{
	json_t *all = cluster();

	(void)state;
	json_object_set_new(brick(all, 0), "read-only", json_true());
	says(all, "volume photos: brick0 alpha:/a: its file system is read-only: the kernel's log may say why");
}

static void of_what_is_well_nothing_is_said(void **state)
{
	json_t *all = cluster();

	(void)state;
	says(cluster(), NULL);
	/* as one sees it that does not lead, and hears from nobody but who does */
	json_object_set_new(server(all, 1), "leads", json_true());
	json_object_set_new(server(all, 0), "leads", json_false());
	json_object_set_new(server(all, 0), "state", json_string("unknown"));
	json_object_set_new(volume(all), "set", json_null());
	says(all, NULL);
	all = cluster(); /* alone */
	json_array_remove(json_object_get(all, "servers"), 1);
	json_object_del(server(all, 0), "address");
	json_object_del(server(all, 0), "leads");
	json_object_del(server(all, 0), "votes");
	says(all, NULL);
}

static void servers_are_looked_at(void **state)
{
	json_t *all = cluster();

	(void)state;
	json_object_set_new(server(all, 1), "state", json_string("down"));
	says(all, "server beta at 10.0.0.2:1: it is down, or can't be reached");
	all = cluster();
	json_object_set_new(server(all, 1), "votes", json_false());
	says(all, "server beta at 10.0.0.2:1: it does not vote yet");
	all = cluster();
	json_object_set_new(server(all, 0), "leads", json_false());
	says(all, "no server leads that is known here: nothing can be changed, and no replica set gets another view");
	all = cluster();
	json_object_set_new(json_object_get(all, "self"), "version", json_string("0"));
	says(all, "server alpha: its stratusd is of version 0, but version 1 is installed: start it anew");
}

static void trouble_with_another_server_is_told(void **state)
{
	json_t *all = cluster();

	(void)state;
	json_object_set_new(all, "trouble", json_string("the server at 10.0.0.3:1 is of another cluster"));
	says(all, "the server at 10.0.0.3:1 is of another cluster");
}

static void certificates_are_looked_at(void **state)
{
	json_t *all = cluster(), *one = json_array_get(json_object_get(all, "certificates"), 0);

	(void)state;
	json_object_set_new(one, "near", json_true());
	says(all,
	     "the certificate /c.pem ends on 2030-03-17 17:46 UTC, in 1157 days: have another one issued and put it there before; "
	     "it is used without a restart");
	all = cluster();
	one = json_array_get(json_object_get(all, "certificates"), 0);
	json_object_set_new(one, "problem", json_string("there is none"));
	says(all, "there is none");
}

static void bricks_are_looked_at(void **state)
{
	json_t *all = cluster();

	(void)state;
	json_object_set_new(brick(all, 0), "state", json_string("down"));
	json_object_set_new(brick(all, 0), "problem", json_string("no disk"));
	says(all, "volume photos: brick0 alpha:/a is down: no disk");
	all = cluster();
	json_object_set_new(brick(all, 0), "bytes-free", json_integer(62));
	says(all, NULL);
	all = cluster();
	json_object_set_new(brick(all, 0), "bytes-free", json_integer(61));
	says(all, "volume photos: brick0 alpha:/a: 90 % of its file system's bytes are used");
	all = cluster();
	json_object_set_new(brick(all, 0), "inodes-used", json_integer(100));
	says(all, "volume photos: brick0 alpha:/a: 100 % of its file system's inodes are used");
}

static void members_are_looked_at(void **state)
{
	json_t *all = cluster();

	(void)state;
	json_object_set_new(member(all, 1), "answers", json_false());
	says(all, "volume photos: brick1 beta:/b does not answer");
	all = cluster();
	json_object_set_new(member(all, 1), "state", json_string("back"));
	json_object_set_new(member(all, 1), "pending", json_integer(5));
	json_object_set_new(member(all, 1), "eta_seconds", json_integer(9));
	says(all, "volume photos: brick1 beta:/b is behind: 5 objects are still to heal, ready in about 9 s");
	all = cluster();
	json_object_set_new(member(all, 1), "all_pending", json_true());
	says(all, "volume photos: brick1 beta:/b is healed as a whole");
	all = cluster();
	json_object_set_new(member(all, 1), "state", json_string("back"));
	says(all, "volume photos: brick1 beta:/b is not in its set");
	all = cluster();
	json_object_set_new(set(all), "writable", json_false());
	says(all, "volume photos: the replica set from brick0 on can't be written: read only (x)");
	all = cluster();
	json_object_set_new(set(all), "recovery_owed", json_true());
	says(all, "volume photos: the replica set from brick0 on is being recovered: its members may differ");
	all = cluster();
	json_object_set_new(volume(all), "set", json_pack("{s:s}", "problem", "no view"));
	says(all, "volume photos: the coordinator of the replica set from brick0 on does not run: no view");
	all = cluster(); /* who is stopped by somebody is not wrong */
	json_object_set_new(volume(all), "started", json_false());
	json_object_set_new(set(all), "writable", json_false());
	says(all, NULL);
}

static void the_moving_of_names_is_looked_at(void **state)
{
	static const char *const spared[] = { "running", "paused", "stopping", "stopped" };
	json_t *all = cluster();

	(void)state;
	json_object_set_new(volume(all), "balanced", json_false());
	says(all, "volume photos: bricks were added and do not have their part of the names: `stratus rebalance start photos`");
	for (size_t i = 0; i < sizeof(spared) / sizeof(*spared); i++) {
		all = cluster();
		json_object_set_new(volume(all), "balanced", json_false());
		json_object_set_new(volume(all), "rebalance", json_pack("{s:s}", "state", spared[i]));
		says(all, NULL);
	}
	all = cluster();
	json_object_set_new(volume(all), "rebalance", json_pack("{s:s, s:s}", "state", "running", "problem", "brick1 is away"));
	says(all, "volume photos: moving names waits: brick1 is away; see `stratus rebalance status photos`");
	all = cluster();
	json_object_set_new(volume(all), "rebalance", json_pack("{s:s, s:s}", "state", "failed", "problem", "no room"));
	says(all, "volume photos: moving names has failed: no room; see `stratus rebalance status photos`");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_what_is_well_nothing_is_said), cmocka_unit_test(a_brick_that_takes_no_changes_is_wrong),
		cmocka_unit_test(servers_are_looked_at),	   cmocka_unit_test(trouble_with_another_server_is_told),
		cmocka_unit_test(certificates_are_looked_at),	   cmocka_unit_test(bricks_are_looked_at),
		cmocka_unit_test(members_are_looked_at),	   cmocka_unit_test(the_moving_of_names_is_looked_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
