/* SPDX-License-Identifier: Apache-2.0 */
/* A store that servers share: each sees what was committed, one leads, and a majority is enough. */
#include "test.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <unistd.h>

#include "ca.h"
#include "fop.h"
#include "log.h"
#include "path.h"
#include "store.h"
#include "tls.h"

enum { SERVERS = 3, PATIENCE_MS = 30000 };

static char top[48];
static struct server {
	struct store *store;
	char name[8], directory[64], address[32];
	struct tls_files tls;
} server[SERVERS];
static bool use_tls;

static int listener(unsigned *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, size), 0);
	assert_int_equal(listen(fd, 1), 0);
	getsockname(fd, (struct sockaddr *)&a, &size);
	*port = ntohs(a.sin_port);
	return fd;
}

static unsigned free_port(void)
{
	unsigned port;

	close(listener(&port));
	return port;
}

static void open_server(int i, bool join)
{
	struct problem p = { "" };
	struct server *s = &server[i];
	int err = store_open_shared(s->directory, s->name, s->address, join, use_tls ? &s->tls : NULL, &s->store, &p);

	assert_string_equal(p.text, "");
	assert_int_equal(err, 0);
}

static void close_server(int i)
{
	store_close(server[i].store);
	server[i].store = NULL;
}

static bool eventually(bool (*is_so)(void))
{
	for (int ms = 0; ms < PATIENCE_MS; ms += 20) {
		if (is_so())
			return true;
		usleep(20000);
	}
	return false;
}

static int leader(void)
{
	for (int i = 0; i < SERVERS; i++)
		if (server[i].store && store_leads(server[i].store))
			return i;
	return -1;
}

static bool somebody_leads(void)
{
	return leader() >= 0;
}

static int commit(int i, uint64_t version, const char *value)
{
	struct blob b = { .size = strlen(value), .bytes = (void *)value };

	return store_replace(server[i].store, "volume/a", version, &b);
}

/* By whoever leads. On a busy machine another one may lead before it is done: then nobody knows whether it was (-EIO), and it is tried again. */
static int commit_at_last(uint64_t version, const char *value)
{
	bool unknown = false;
	int err = -EREMOTE;

	for (int tries = 0; tries < 20 && (err == -EREMOTE || err == -EIO); tries++) {
		int first = eventually(somebody_leads) ? leader() : -1;

		err = first < 0 ? -EREMOTE : commit(first, version, value);
		unknown |= err == -EIO;
	}
	return err == -ESTALE && unknown ? 0 : err;
}

static uint64_t wanted_version;
static const char *wanted_value;

static bool all_have_it(void)
{
	bool all = true;

	for (int i = 0; i < SERVERS; i++) {
		struct blob b;
		uint64_t version;

		if (!server[i].store)
			continue;
		all &= !store_get(server[i].store, "volume/a", &b, &version) && version == wanted_version &&
		       !strcmp(b.bytes, wanted_value);
		free(b.bytes);
	}
	return all;
}

static void reaches_all(uint64_t version, const char *value)
{
	wanted_version = version;
	wanted_value = value;
	assert_true(eventually(all_have_it));
}

static int begin(void **state)
{
	(void)state;
	test_directory(top, sizeof(top), "store-raft");
	for (int i = 0; i < SERVERS; i++) {
		struct server *s = &server[i];

		snprintf(s->name, sizeof s->name, "s%d", i);
		snprintf(s->directory, sizeof s->directory, "%s/%d", top, i);
		snprintf(s->address, sizeof s->address, "127.0.0.1:%u", free_port());
	}
	return 0;
}

static int end(void **state)
{
	char command[100];

	(void)state;
	for (int i = 0; i < SERVERS; i++)
		if (server[i].store)
			close_server(i);
	snprintf(command, sizeof command, "rm -rf %s", top);
	return system(command);
}

/* ---- with certificates ---- */

static void certify(int i, struct subject *who)
{
	cleanup_path char *ca = path_format("%s/ca", top), *out = path_format("%s/tls%d", top, i);
	struct problem p = { "" };
	struct authority *a;
	struct pems pems;
	char serial[CA_SERIAL_TEXT];

	assert_int_equal(authority_open(ca, &a, &p), 0);
	assert_int_equal(authority_issue(a, who, 0, &pems, serial, &p), 0);
	assert_int_equal(authority_install(a, &pems, out, true, &p), 0);
	authority_close(a);
	pems_free(&pems);
	subject_free(who);
}

static void certify_server(int i, const char *host)
{
	struct problem p = { "" };
	struct subject who;

	assert_int_equal(subject_server(&who, host, &p), 0);
	certify(i, &who);
}

static int begin_secure(void **state)
{
	struct problem p = { "" };
	cleanup_path char *ca = NULL;
	bool made;

	begin(state);
	ca = path_format("%s/ca", top);
	assert_int_equal(authority_init(ca, "Test", 10, &made, &p), 0);
	for (int i = 0; i < SERVERS; i++) {
		certify_server(i, "127.0.0.1");
		server[i].tls =
			(struct tls_files){ path_format("%s/tls%d/cert.pem", top, i), path_format("%s/tls%d/key.pem", top, i),
					    path_format("%s/tls%d/ca.pem", top, i), path_format("%s/tls%d/crl.pem", top, i) };
	}
	use_tls = true;
	return 0;
}

static int end_secure(void **state)
{
	for (int i = 0; i < SERVERS; i++) {
		free((char *)server[i].tls.certificate);
		free((char *)server[i].tls.key);
		free((char *)server[i].tls.authorities);
		free((char *)server[i].tls.revoked);
	}
	use_tls = false;
	return end(state);
}

static void begin_three(void)
{
	struct problem p = { "" };

	open_server(0, false);
	assert_true(eventually(somebody_leads));
	for (int i = 1; i < SERVERS; i++) {
		open_server(i, true);
		if (store_add(server[0].store, server[i].name, server[i].address, &p))
			fail_msg("%s", p.text);
	}
}

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

/* As an older release greets, in the name of a member. */
static void say_to(int i, const char *name, size_t claimed, const uint8_t *bytes, size_t size)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	uint8_t hello[48] = { 0 }, *at = hello;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_port = htons((uint16_t)atoi(strchr(server[i].address, ':') + 1));
	put_word(&at, 1);
	put_word(&at, store_member_id(name));
	put_word(&at, claimed);
	strcpy((char *)at, server[1].address);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
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

int main(void)
{
#ifdef __SANITIZE_THREAD__ /* libraft and libuv are not built for it, so it sees races where they wait for each other */
	printf("[  SKIPPED ] store-raft-test: libraft can't be watched by ThreadSanitizer\n");
	return 77;
#endif
#define SECURE(f) cmocka_unit_test_setup_teardown(f, begin_secure, end_secure)
#define TEST(f)	  cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(a_directory_has_one_process_and_who_comes_second_touches_nothing),
		TEST(one_server_alone_leads_and_keeps_what_it_committed),
		TEST(what_is_committed_reaches_all_and_only_the_leader_commits),
		TEST(when_the_leader_goes_another_one_leads),
		TEST(without_a_majority_nothing_is_committed),
		TEST(a_server_that_was_long_away_catches_up_by_snapshot),
		TEST(who_starts_again_says_when_it_knows_what_it_knew),
		TEST(a_member_can_go),
		TEST(a_full_store_refuses_on_all_servers_and_goes_on),
		TEST(a_voter_that_lost_its_log_is_not_taken_for_that_voter),
		TEST(who_begins_another_cluster_is_refused_on_both_sides),
		TEST(who_was_of_another_cluster_is_refused_with_join_too),
		TEST(a_cluster_has_one_id_for_ever),
		TEST(a_cluster_of_an_older_release_goes_on_and_gets_an_id),
		TEST(bytes_that_can_not_be_harm_nobody),
		TEST(documents_as_large_as_can_be_reach_all),
		TEST(a_store_that_can_not_start_leaves_nothing_open),
		SECURE(one_server_alone_leads_and_keeps_what_it_committed),
		SECURE(what_is_committed_reaches_all_and_only_the_leader_commits),
		SECURE(when_the_leader_goes_another_one_leads),
		SECURE(a_server_that_was_long_away_catches_up_by_snapshot),
		SECURE(documents_as_large_as_can_be_reach_all),
		SECURE(a_store_that_can_not_start_leaves_nothing_open),
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
