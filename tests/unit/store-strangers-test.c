/* SPDX-License-Identifier: Apache-2.0 */
/* A store that servers share takes nothing from who is no member, of another cluster, or has lost its log, nor bytes that can't be. */
#include "store-servers.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ca.h"
#include "fop.h"
#include "log.h"
#include "path.h"
#include "raft-greeting.h"

static bool stranger_has_it(void)
{
	struct blob b;
	uint64_t version;
	int err = store_get(server[2].store, "volume/a", &b, &version);

	if (!err)
		free(b.bytes);
	return !err;
}

static void is_kept_out(const char *what)
{
	for (int i = 0; i < 150; i++) { /* the leader calls it each second */
		if (stranger_has_it())
			fail_msg("%s gets the log", what);
		usleep(20000);
	}
	close_server(2);
}

/* One whose log is lost. */
static void comes_back_as_new(int i)
{
	int err = -EREMOTE;

	for (int tries = 0; tries < 20 && (err == -EREMOTE || err == -EIO); tries++) {
		struct problem p = { "" };

		assert_true(eventually(somebody_leads));
		err = store_remove(server[leader()].store, server[i].name, &p);
	}
	assert_true(!err || err == -ENOENT);
	if (!server[i].store)
		open_server(i, true);
	for (err = -EREMOTE; err == -EREMOTE;) {
		struct problem p = { "" };

		assert_true(eventually(somebody_leads));
		err = store_add(server[leader()].store, server[i].name, server[i].address, &p);
	}
	assert_int_equal(err, 0);
}

/* The leader has been told to take it in: the log is to be sent there. */
static void who_is_no_server_gets_nothing_of_the_log(void **state)
{
	cleanup_path char *command = path_format("rm -rf %s", server[2].directory);
	struct problem p = { "" };
	struct subject who;

	(void)state;
	log_set_level(LOG_ERROR);
	begin_three();
	assert_int_equal(commit_at_last(0, "one"), 0);
	reaches_all(1, "one");
	close_server(2);
	assert_int_equal(system(command), 0);
	assert_int_equal(subject_named(&who, "client", "s2", &p), 0);
	certify(2, &who);
	open_server(2, true);
	is_kept_out("a client's certificate");
	certify_server(2, "127.0.0.2");
	open_server(2, true);
	is_kept_out("another host's certificate");
	use_tls = false;
	open_server(2, true);
	use_tls = true;
	is_kept_out("a server without TLS");
	assert_int_equal(commit_at_last(1, "two"), 0);
	certify_server(2, "127.0.0.1");
	comes_back_as_new(2);
	reaches_all(2, "two");
}

/* ---- of which cluster ---- */

static int told_server;
static const char *told_text;

static bool is_told(void)
{
	char text[1024];

	return store_trouble(server[told_server].store, text, sizeof text) && strstr(text, told_text);
}

static void is_told_to(int i, const char *text)
{
	told_server = i;
	told_text = text;
	if (!eventually(is_told))
		fail_msg("server %d is not told: %s", i, text);
}

static void lose(int i)
{
	cleanup_path char *command = path_format("rm -rf %s", server[i].directory);

	close_server(i);
	assert_int_equal(system(command), 0);
}

/* It can have had an answer in an election, or have acknowledged something, that it does not know of any more. */
static void a_voter_that_lost_its_log_is_not_taken_for_that_voter(void **state)
{
	int leads;

	(void)state;
	begin_three();
	assert_int_equal(commit_at_last(0, "one"), 0);
	lose(2);
	open_server(2, true);
	assert_true(eventually(somebody_leads));
	leads = leader();
	is_told_to(2, "takes this one, s2, for a member that votes, but there is no log");
	is_told_to(leads, "is a member that votes, but has no log any more");
	for (int i = 0; i < 100; i++, usleep(20000))
		assert_false(stranger_has_it());
	close_server(1 - leads); /* with its vote there would be a majority */
	assert_true(commit(leads, 1, "two") < 0);
	assert_false(stranger_has_it());
	open_server(1 - leads, true);
	assert_true(eventually(somebody_leads));
	close_server(2);
	comes_back_as_new(2);
	assert_true(eventually(stranger_has_it));
}

/* Whichever of the two it is. */
static bool who_calls_is_told(void)
{
	bool yes = false;

	told_text = "takes nothing from this one";
	for (told_server = 0; told_server < 2; told_server++)
		yes |= is_told();
	return yes;
}

static bool own_cluster_goes_on(void)
{
	return store_leads(server[2].store);
}

static void who_begins_another_cluster_is_refused_on_both_sides(void **state)
{
	cleanup_path char *command = path_format("rm -rf %s", server[2].directory);

	(void)state;
	begin_three();
	assert_int_equal(commit_at_last(0, "one"), 0);
	close_server(2);
	assert_int_equal(system(command), 0);
	open_server(2, false);
	is_told_to(2, "takes this one, s2, for a member of its cluster");
	assert_true(eventually(who_calls_is_told));
	assert_false(stranger_has_it());
	assert_true(eventually(own_cluster_goes_on));
}

/* Also with a joiner's flag: what it has of another cluster keeps it out. */
static void who_was_of_another_cluster_is_refused_with_join_too(void **state)
{
	(void)state;
	open_server(2, false);
	assert_true(eventually(somebody_leads));
	assert_int_equal(commit(2, 0, "other"), 0);
	close_server(2);
	open_server(0, false);
	assert_true(eventually(somebody_leads));
	open_server(2, true);
	assert_int_equal(store_version(server[0].store, "volume/a"), 0);
	{
		struct problem p = { "" };

		assert_true(store_add(server[0].store, server[2].name, server[2].address, &p) < 0);
		assert_non_null(strstr(p.text, "another cluster"));
	}
	is_told_to(2, "but this one is of another cluster");
	assert_int_equal(commit_at_last(0, "one"), 0);
}

static bool all_have_an_id(void)
{
	for (int i = 0; i < SERVERS; i++) {
		cleanup_path char *file = path_format("%s/cluster", server[i].directory);

		if (server[i].store && access(file, R_OK))
			return false;
	}
	return true;
}

static char *id_of(int i)
{
	cleanup_path char *file = path_format("%s/cluster", server[i].directory);
	FILE *from = fopen(file, "r");
	static char text[SERVERS][64];

	assert_non_null(from);
	assert_non_null(fgets(text[i], sizeof text[i], from));
	fclose(from);
	return text[i];
}

static void all_have_the_same_id(void)
{
	assert_true(eventually(all_have_an_id));
	assert_string_equal(id_of(0), id_of(1));
	assert_string_equal(id_of(0), id_of(2));
}

static void a_cluster_has_one_id_for_ever(void **state)
{
	char first[64];

	(void)state;
	begin_three();
	all_have_the_same_id();
	strcpy(first, id_of(0));
	for (int i = 0; i < SERVERS; i++)
		close_server(i);
	for (int i = 0; i < SERVERS; i++)
		open_server(i, i > 0);
	assert_int_equal(commit_at_last(0, "one"), 0);
	all_have_the_same_id();
	assert_string_equal(first, id_of(2));
}

/* Server by server, as a release is brought in: each talks with those that know of no ids. */
static void a_cluster_of_an_older_release_goes_on_and_gets_an_id(void **state)
{
	int version = 0;

	(void)state;
	store_is_old = true;
	begin_three();
	assert_int_equal(commit_at_last(version++, "old"), 0);
	for (int i = SERVERS; i--;) {
		cleanup_path char *file = path_format("%s/cluster", server[i].directory);

		assert_int_equal(access(file, F_OK), -1);
		close_server(i);
		store_is_old = false;
		open_server(i, true);
		store_is_old = true;
		assert_int_equal(commit_at_last(version++, "mixed"), 0);
		reaches_all(version, "mixed");
	}
	store_is_old = false;
	all_have_the_same_id();
}

/* ---- every byte of it is hostile ---- */

static void put_word(uint8_t **at, uint64_t word)
{
	word = htole64(word);
	memcpy(*at, &word, sizeof word);
	*at += sizeof word;
}

static int reach(int i)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_port = htons((uint16_t)atoi(strchr(server[i].address, ':') + 1));
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	return fd;
}

/* As an older release greets, in the name of a member. */
static void say_to(int i, const char *name, size_t claimed, const uint8_t *bytes, size_t size)
{
	uint8_t hello[48] = { 0 }, *at = hello;
	int fd = reach(i);

	put_word(&at, 1);
	put_word(&at, store_member_id(name));
	put_word(&at, claimed);
	strcpy((char *)at, server[1].address);
	send(fd, hello, sizeof hello, MSG_NOSIGNAL);
	send(fd, bytes, size, MSG_NOSIGNAL);
	usleep(50000);
	close(fd);
}

enum { APPEND = 1, SNAPSHOT = 5, COMMAND = 1, CHANGE = 3 };

static size_t append_of(uint8_t *to, uint64_t term, uint64_t before, uint64_t claimed, uint64_t kind, uint64_t length)
{
	uint8_t *at = to;

	put_word(&at, APPEND);
	put_word(&at, 8 * 8);
	put_word(&at, term);
	put_word(&at, before);
	put_word(&at, before ? 1 : 0);
	put_word(&at, 1); /* committed */
	put_word(&at, claimed);
	put_word(&at, term); /* of the one entry that is there */
	put_word(&at, kind | length << 32);
	put_word(&at, 0);
	memset(at, 0xff, 64);
	return (size_t)(at - to) + 64;
}

static size_t snapshot_of(uint8_t *to, uint64_t term, uint64_t members_size, uint64_t size)
{
	uint8_t *at = to;

	put_word(&at, SNAPSHOT);
	put_word(&at, 12 * 8);
	put_word(&at, term);
	put_word(&at, 1000000); /* the last index */
	put_word(&at, 1);
	put_word(&at, 1);
	put_word(&at, members_size);
	memset(at, 0, 128);
	*at = 1; /* one member */
	at[1] = 1;
	at[9] = 7;
	strcpy((char *)at + 17, "127.0.0.1:1");
	at[29] = 1;
	at += 32;
	put_word(&at, size);
	put_word(&at, 0);
	return 2 * 8 + 12 * 8 + 64;
}

static void bytes_that_can_not_be_harm_nobody(void **state)
{
	uint8_t bytes[512];
	int first;

	(void)state;
	log_set_level(LOG_ERROR);
	begin_three();
	assert_int_equal(commit_at_last(0, "one"), 0);
	first = leader();
	memset(bytes, 0xff, sizeof bytes);
	say_to(first, "s1", 1ull << 40, bytes, 0);
	say_to(first, "s1", 24, bytes, sizeof bytes);
	for (int i = 0; i < SERVERS; i++) {
		const char *name = server[(i + 1) % SERVERS].name;

		for (uint64_t term = 1; term < 4; term++) { /* one of them is the leader's own */
			say_to(i, name, 24, bytes, append_of(bytes, term, 0, 1u << 28, COMMAND, 8));
			say_to(i, name, 24, bytes, append_of(bytes, term, 0, 1, COMMAND, 0));
			say_to(i, name, 24, bytes, append_of(bytes, term, 0, 1, COMMAND, 13));
			say_to(i, name, 24, bytes, append_of(bytes, term, 1ull << 63, 1, COMMAND, 8));
			say_to(i, name, 24, bytes, append_of(bytes, term, 0, 0, COMMAND, 8));
			say_to(i, name, 24, bytes, snapshot_of(bytes, term, 1ull << 40, 8));
			say_to(i, name, 24, bytes, snapshot_of(bytes, term, 32, 1ull << 40));
			say_to(i, name, 24, bytes, snapshot_of(bytes, term, 32, 8));
		}
		say_to(i, name, 24, bytes, append_of(bytes, 3, 1, 1, CHANGE, 8));
		say_to(i, "stranger", 24, bytes, snapshot_of(bytes, 1, 32, 64));
	}
	assert_int_equal(commit_at_last(1, "two"), 0);
	reaches_all(2, "two");
}

static int stranger;
static uint8_t heartbeat[7 * 8]; /* which leaves the log as it is: empty */

/* It forgets that soon, so it hears it again each time that it is looked at. */
static bool third_has_an_id(void)
{
	cleanup_path char *file = path_format("%s/cluster", server[2].directory);

	return send(stranger, heartbeat, sizeof heartbeat, MSG_NOSIGNAL) == sizeof heartbeat && !access(file, R_OK);
}

static void one_message_of_another_cluster_keeps_nobody_from_the_own_one(void **state)
{
	struct hello h = { .id = store_member_id("stranger"), .card = { .given = true, .cluster = { 1 } } };
	uint8_t hello[HELLO_MAX], *at = heartbeat;
	struct problem p = { "" };
	size_t size;

	(void)state;
	open_server(2, true);
	strcpy(h.address, server[1].address);
	size = hello_encode(&h, false, hello);
	put_word(&at, APPEND);
	put_word(&at, 5 * 8);
	put_word(&at, 1); /* the term */
	for (unsigned i = 0; i < 4; i++)
		put_word(&at, 0);
	stranger = reach(2);
	assert_int_equal(send(stranger, hello, size, MSG_NOSIGNAL), size);
	assert_true(eventually(third_has_an_id));
	open_server(0, false);
	assert_true(eventually(somebody_leads));
	if (store_add(server[0].store, server[2].name, server[2].address, &p))
		fail_msg("%s", p.text);
	close(stranger);
	assert_int_equal(commit_at_last(0, "one"), 0);
	reaches_all(1, "one");
}

int main(void)
{
#ifdef __SANITIZE_THREAD__ /* libraft and libuv are not built for it, so it sees races where they wait for each other */
	printf("[  SKIPPED ] store-strangers-test: libraft can't be watched by ThreadSanitizer\n");
	return 77;
#endif
	const struct CMUnitTest tests[] = {
		TEST(a_voter_that_lost_its_log_is_not_taken_for_that_voter),
		TEST(who_begins_another_cluster_is_refused_on_both_sides),
		TEST(who_was_of_another_cluster_is_refused_with_join_too),
		TEST(a_cluster_has_one_id_for_ever),
		TEST(a_cluster_of_an_older_release_goes_on_and_gets_an_id),
		TEST(bytes_that_can_not_be_harm_nobody),
		TEST(one_message_of_another_cluster_keeps_nobody_from_the_own_one),
		SECURE(a_voter_that_lost_its_log_is_not_taken_for_that_voter),
		SECURE(who_begins_another_cluster_is_refused_on_both_sides),
		SECURE(who_was_of_another_cluster_is_refused_with_join_too),
		SECURE(a_cluster_has_one_id_for_ever),
		SECURE(a_cluster_of_an_older_release_goes_on_and_gets_an_id),
		SECURE(who_is_no_server_gets_nothing_of_the_log),
	};

	signal(SIGPIPE, SIG_IGN); /* as stratusd does */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
