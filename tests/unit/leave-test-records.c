/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht, while a subvolume leaves: renames that are under way, and their records. */
#include "leave-test.h"

#include "place.h"

/* ---- what is under way meanwhile ---- */

/* Nobody sweeps. */
#define LEAVES_UNSWEPT(name, id)                                                                                               \
	static void name##_(void *arg);                                                                                        \
	static void name(void **state)                                                                                         \
	{                                                                                                                      \
		(void)state;                                                                                                   \
		run(name##_, " option leaving " id "\n option sweep-interval 1h\n", "256M");                                   \
	}                                                                                                                      \
	static void name##_(void *arg __attribute__((unused)))

static struct {
	char a[64], b[64];
	int err;
	atomic_bool over;
} slow;

static void rename_slowly(void *arg)
{
	enum { OPENED = 24 };

	(void)arg;
	stay_before(OPENED);
	slow.err = tree_rename(&tree, slow.a, slow.b, 0);
	cut_end();
	slow.over = true;
}

/* Its number is what the record has where nothing arrives. */
LEAVES_UNSWEPT(a_rename_among_the_others_does_not_hold_up_the_first, "0")
{
	snprintf(slow.a, sizeof(slow.a), "%s", name_at(1, "a"));
	snprintf(slow.b, sizeof(slow.b), "%s", name_at(2, "b"));
	slow.over = false;
	CHECK_INT(put(slow.a, "text"), 0);
	CHECK_INT(task_spawn(NULL, rename_slowly, NULL), 0);
	while (!stays() && !slow.over)
		task_sleep_ms(1);
	CHECK(!slow.over && census().work > 0);
	CHECK_INT(command("dht", "rebalance", "start"), 0);
	CHECK(says("dht", "step records\n")); /* nothing is left there */
	stay_no_more();
	while (!slow.over)
		task_sleep_ms(1);
	CHECK_INT(slow.err, 0);
	CHECK(reads(slow.b, "text") && !links(slow.a));
	CHECK(says("dht", "state done"));
}

static struct {
	struct inode *dir; /* of `work`, at subvolume 1 */
	char name[2][64];
	atomic_bool stop, over;
} flips;

static bool find_record_in(const char *work)
{
	struct dirents list = { 0 };
	struct file *dir = NULL;
	bool found = false;

	if (tree_opendir(&tree, work, &dir))
		return false;
	if (!tree_readdir(&tree, dir, &list))
		for (uint32_t i = 0; i < list.count; i++)
			if (list.entry[i].name[0] == 'p' && list.entry[i].name[1] == '.') {
				snprintf(flips.name[0], sizeof(flips.name[0]), "%s", list.entry[i].name);
				found = true;
			}
	fop_out_clear(FOP_readdir, &list);
	tree_release(&tree, dir);
	return found;
}

static bool find_record(void)
{
	char work[64];
	bool found = false;

	at("m1");
	for (unsigned k = 0; k < 16 && !found; k++) {
		snprintf(work, sizeof(work), DHT_HIDDEN "/work/%x", k);
		found = find_record_in(work);
	}
	found = found && !tree_walk(&tree, work, &flips.dir);
	at("dht");
	snprintf(flips.name[1], sizeof(flips.name[1]), "%.*s9", (int)strlen(flips.name[0]) - 1, flips.name[0]);
	return found;
}

/* Who dies when the record is written, and nothing else is. */
static bool record_that_leads_to(int child)
{
	const char *a = name_at(1, "a"), *b = name_at(child, "b");
	unsigned sent = 1;
	bool found = false;

	if (put(a, "text"))
		return false;
	for (unsigned messages = 1; !found && sent >= messages; messages++) {
		cut_after(messages, false);
		tree_rename(&tree, a, b, 0);
		sent = cut_end();
		found = find_record();
	}
	return found;
}

static void flip_on_and_on(void *arg)
{
	struct xlator *x = tree_find(&tree, "m1");
	struct request rq;

	(void)arg;
	request_init(&rq, x->graph, 0);
	for (unsigned i = 0; !flips.stop; i++) {
		struct rename_in in = { .from = { .parent = flips.dir, .name = flips.name[i % 2] },
					.to = { .parent = flips.dir, .name = flips.name[(i + 1) % 2] } };
		struct rename_out out = { 0 };

		if (rename_on(&rq, x, &in, &out))
			failures++;
		task_yield();
	}
	request_finish(&rq);
	flips.over = true;
}

static bool is_seen(void)
{
	bool missed = false, seen = false;

	failures += command("dht", "rebalance", "start") != 0;
	for (int i = 0; i < 20000 && !missed && !seen && !failures; i++) {
		failures += command("dht", "rebalance", "status") != 0;
		missed = strstr(told, "step records\n") || strstr(told, "state done");
		seen = strstr(told, "stays-records 1\n");
		task_sleep_ms(1);
	}
	failures += command("dht", "rebalance", "stop") != 0;
	return seen;
}

/* Else nobody could end it when that has left: what it names would not be there. */
LEAVES_UNSWEPT(a_record_that_goes_on_meanwhile_is_seen, "3")
{
	enum { ROUNDS = 20 };

	CHECK(record_that_leads_to(LEAVER));
	others_go_on(true);
	flips.stop = flips.over = false;
	CHECK_INT(task_spawn(NULL, flip_on_and_on, NULL), 0);
	for (int i = 0; i < ROUNDS && !failures; i++)
		CHECK(is_seen());
	flips.stop = true;
	while (!flips.over)
		task_sleep_ms(1);
	others_go_on(false);
	inode_unref(flips.dir);
}

const struct CMUnitTest records[] = {
	cmocka_unit_test(a_rename_among_the_others_does_not_hold_up_the_first),
	cmocka_unit_test(a_record_that_goes_on_meanwhile_is_seen),
};
const unsigned records_count = sizeof(records) / sizeof(records[0]);
