/* SPDX-License-Identifier: Apache-2.0 */
/* A store that servers share: each sees what was committed, one leads, and a majority is enough. */
#include "store-servers.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "fop.h"
#include "log.h"

/* A file open-NUMBER: it has another name when it is ended. */
static bool writes_a_segment(void)
{
	DIR *list = opendir(server[0].directory);
	bool found = false;
	struct dirent *d;

	assert_non_null(list);
	while ((d = readdir(list)))
		found |= !strcmp(d->d_name, "open-1");
	closedir(list);
	return found;
}

static void one_server_alone_leads_and_keeps_what_it_committed(void **state)
{
	(void)state;
	open_server(0, false);
	assert_true(eventually(somebody_leads));
	assert_int_equal(commit(0, 0, "one"), 0);
	assert_int_equal(commit(0, 0, "two"), -ESTALE);
	assert_int_equal(commit(0, 1, "two"), 0);
	close_server(0);
	open_server(0, false);
	assert_true(eventually(somebody_leads));
	reaches_all(2, "two");
	assert_int_equal(commit(0, 2, "three"), 0);
}

/* Who opened it would end the segments that are being written, also if it then can't listen. */
static void a_directory_has_one_process_and_who_comes_second_touches_nothing(void **state)
{
	struct problem p = { "" };
	struct store *second = NULL;

	(void)state;
	open_server(0, false);
	assert_true(eventually(somebody_leads));
	assert_int_equal(commit(0, 0, "one"), 0);
	assert_true(eventually(writes_a_segment));
	assert_int_equal(store_open_shared(server[0].directory, "s0", server[0].address, false, use_tls ? &server[0].tls : NULL,
					   &second, &p),
			 -EBUSY);
	assert_null(second);
	assert_non_null(strstr(p.text, "stop the other stratusd"));
	assert_true(writes_a_segment());
	assert_int_equal(commit(0, 1, "two"), 0);
}

static void what_is_committed_reaches_all_and_only_the_leader_commits(void **state)
{
	struct store_member member[8];
	unsigned voters = 0;

	(void)state;
	begin_three();
	assert_int_equal(commit_at_last(0, "one"), 0);
	reaches_all(1, "one");
	assert_int_equal(commit((leader() + 1) % SERVERS, 1, "two"), -EREMOTE);
	reaches_all(1, "one");
	assert_int_equal(store_members(server[0].store, member, 8), SERVERS);
	for (int i = 0; i < SERVERS; i++)
		voters += member[i].votes;
	assert_int_equal(voters, SERVERS);
}

static void when_the_leader_goes_another_one_leads(void **state)
{
	int first, second;

	(void)state;
	begin_three();
	first = leader();
	assert_int_equal(commit(first, 0, "one"), 0);
	close_server(first);
	assert_true(eventually(somebody_leads));
	second = leader();
	assert_int_not_equal(first, second);
	assert_int_equal(commit(second, 0, "lost"), -ESTALE); /* it has all that was committed before */
	assert_int_equal(commit(second, 1, "two"), 0);
	open_server(first, true);
	reaches_all(2, "two"); /* who comes back catches up */
}

static int former; /* who has led */

static bool another_leads(void)
{
	return leader() >= 0 && leader() != former;
}

/* On a busy machine the heir may not be heard in time. */
static bool it_hands_over(void)
{
	store_hand_over(server[former].store);
	return another_leads();
}

/* Nothing is wrong with the first, so nobody else is elected but by its will. */
static void who_hands_over_does_not_lead_any_more_and_another_one_does(void **state)
{
	(void)state;
	begin_three();
	assert_true(eventually(somebody_leads));
	former = leader();
	assert_int_equal(commit(former, 0, "one"), 0);
	assert_true(eventually(it_hands_over));
	assert_false(store_leads(server[former].store));
	assert_int_equal(commit_at_last(1, "two"), 0);
	assert_true(eventually(another_leads));
	close_server(former);
	reaches_all(2, "two");
}

static void who_has_nobody_to_hand_over_to_just_ends(void **state)
{
	(void)state;
	begin_three();
	assert_true(eventually(somebody_leads));
	former = leader();
	for (int i = 0; i < SERVERS; i++)
		if (i != former)
			close_server(i);
	store_hand_over(server[former].store);
	assert_false(store_leads(server[former].store));
	close_server(former);
	for (int i = 0; i < SERVERS; i++)
		open_server(i, true);
	assert_true(eventually(somebody_leads));
}

static bool nobody_leads(void)
{
	return leader() < 0;
}

static void without_a_majority_nothing_is_committed(void **state)
{
	int first;

	(void)state;
	begin_three();
	first = leader();
	assert_int_equal(commit(first, 0, "one"), 0);
	reaches_all(1, "one");
	for (int i = 0; i < SERVERS; i++)
		if (i != first)
			close_server(i);
	assert_true(commit(first, 1, "two") < 0);
	reaches_all(1, "one"); /* accepted is not served */
	assert_true(eventually(nobody_leads));
	for (int i = 0; i < SERVERS; i++)
		if (i != first)
			open_server(i, true);
	assert_true(eventually(somebody_leads));
}

static void a_server_that_was_long_away_catches_up_by_snapshot(void **state)
{
	uint64_t version = 0;
	char value[16];

	(void)state;
	begin_three();
	close_server(2);
	for (; version < 900; version++) { /* more than the log keeps */
		snprintf(value, sizeof value, "%d", (int)version);
		assert_int_equal(commit_at_last(version, value), 0);
	}
	open_server(2, true);
	reaches_all(version, "899");
}

static bool third_has_replayed(void)
{
	return store_replayed(server[2].store);
}

static void who_starts_again_says_when_it_knows_what_it_knew(void **state)
{
	(void)state;
	begin_three();
	for (int i = 0; i < 20; i++)
		assert_int_equal(commit_at_last(i, "one"), 0);
	reaches_all(20, "one");
	assert_true(eventually(third_has_replayed));
	for (int i = 0; i < SERVERS; i++)
		close_server(i);
	open_server(2, true);
	assert_false(third_has_replayed()); /* nobody tells it how much of its log is committed */
	open_server(0, true);
	open_server(1, true);
	assert_true(eventually(third_has_replayed));
	assert_int_equal(store_version(server[2].store, "volume/a"), 20);
}

static void a_member_can_go(void **state)
{
	struct problem p = { "" };
	int first;

	(void)state;
	begin_three();
	first = leader();
	assert_int_equal(store_remove(server[first].store, server[(first + 1) % SERVERS].name, &p), 0);
	close_server((first + 1) % SERVERS);
	assert_int_equal(store_remove(server[first].store, "stranger", &p), -ENOENT);
	assert_int_equal(commit(first, 0, "one"), 0);
	reaches_all(1, "one");
	close_server((first + 2) % SERVERS); /* one of two: no majority */
	assert_true(commit(first, 1, "two") < 0);
}

static void a_full_store_refuses_on_all_servers_and_goes_on(void **state)
{
	char large[3000];

	(void)state;
	memset(large, 'x', sizeof large - 1);
	large[sizeof large - 1] = '\0';
	begin_three();
	assert_int_equal(commit_at_last(0, "one"), 0);
	store_size_max = 2000;
	assert_int_equal(commit(leader(), 1, large), -E2BIG);
	reaches_all(1, "one");
	assert_int_equal(commit_at_last(1, "two"), 0);
	reaches_all(2, "two");
	store_size_max = STORE_SIZE_MAX;
}

/* And who was away while there were many gets them: they are more than the log keeps. */
static void documents_as_large_as_can_be_reach_all(void **state)
{
	enum { COMMITS = 24 };
	char *large = malloc(STORE_VALUE_MAX + 1);

	(void)state;
	memset(large, 'x', STORE_VALUE_MAX);
	large[STORE_VALUE_MAX] = '\0';
	begin_three();
	for (uint64_t version = 0; version < COMMITS; version++) {
		if (version == 2) {
			reaches_all(version, large);
			close_server(2);
		}
		large[0] = (char)('a' + version);
		assert_int_equal(commit_at_last(version, large), 0);
	}
	open_server(2, true);
	reaches_all(COMMITS, large);
	free(large);
}

static unsigned open_files(void)
{
	DIR *list = opendir("/proc/self/fd");
	unsigned count = 0;

	while (readdir(list))
		count++;
	closedir(list);
	return count;
}

static void a_store_that_can_not_start_leaves_nothing_open(void **state)
{
	struct problem p = { "" };
	struct store *none = NULL;
	unsigned before, port;
	int taken = listener(&port);
	char address[32];

	(void)state;
	snprintf(address, sizeof address, "127.0.0.1:%u", port);
	before = open_files();
	assert_true(store_open_shared(server[1].directory, "s1", address, true, use_tls ? &server[1].tls : NULL, &none, &p) <
		    0);
	assert_null(none);
	assert_true(*p.text);
	assert_int_equal(open_files(), before);
	assert_true(store_open_shared("/proc/no/such", "s1", server[1].address, true, use_tls ? &server[1].tls : NULL, &none,
				      &p) < 0);
	assert_int_equal(open_files(), before);
	close(taken);
}

int main(void)
{
#ifdef __SANITIZE_THREAD__ /* libraft and libuv are not built for it, so it sees races where they wait for each other */
	printf("[  SKIPPED ] store-raft-test: libraft can't be watched by ThreadSanitizer\n");
	return 77;
#endif
	const struct CMUnitTest tests[] = {
		TEST(a_directory_has_one_process_and_who_comes_second_touches_nothing),
		TEST(one_server_alone_leads_and_keeps_what_it_committed),
		TEST(what_is_committed_reaches_all_and_only_the_leader_commits),
		TEST(when_the_leader_goes_another_one_leads),
		TEST(who_hands_over_does_not_lead_any_more_and_another_one_does),
		TEST(who_has_nobody_to_hand_over_to_just_ends),
		TEST(without_a_majority_nothing_is_committed),
		TEST(a_server_that_was_long_away_catches_up_by_snapshot),
		TEST(who_starts_again_says_when_it_knows_what_it_knew),
		TEST(a_member_can_go),
		TEST(a_full_store_refuses_on_all_servers_and_goes_on),
		TEST(documents_as_large_as_can_be_reach_all),
		TEST(a_store_that_can_not_start_leaves_nothing_open),
		SECURE(one_server_alone_leads_and_keeps_what_it_committed),
		SECURE(what_is_committed_reaches_all_and_only_the_leader_commits),
		SECURE(when_the_leader_goes_another_one_leads),
		SECURE(who_hands_over_does_not_lead_any_more_and_another_one_does),
		SECURE(a_server_that_was_long_away_catches_up_by_snapshot),
		SECURE(documents_as_large_as_can_be_reach_all),
		SECURE(a_store_that_can_not_start_leaves_nothing_open),
	};

	signal(SIGPIPE, SIG_IGN); /* as stratusd does */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
