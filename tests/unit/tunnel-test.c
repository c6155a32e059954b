/* SPDX-License-Identifier: Apache-2.0 */
/* Tunnels carry bytes both ways unharmed, whoever is slow; refuse who has no certificate, and say so; and are kept open by nobody who
 * does not greet. */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ca.h"
#include "halter.h"
#include "log.h"
#include "path.h"
#include "tunnel.h"

enum { PATIENCE_MS = 20000, BIG = 8 << 20, CROWD = 600, MESSAGE = 100, MESSAGES = 40 };

static char top[64];
static struct sockaddr_in address;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { /* what the callbacks have said */
	int accepted, connected;
	unsigned count;
	char identity[TUNNEL_IDENTITY], why[200];
} said;

/* ---- certificates ---- */

static void certify(const char *ca, const char *out, bool is_server)
{
	cleanup_path char *directory = path_format("%s/%s", top, ca), *to = path_format("%s/%s", top, out);
	struct problem p = { "" };
	struct authority *a;
	struct subject s;
	struct pems pems;
	char serial[CA_SERIAL_TEXT];
	bool made;

	assert_int_equal(authority_init(directory, "Test", 10, &made, &p), 0);
	assert_int_equal(authority_open(directory, &a, &p), 0);
	if (is_server)
		assert_int_equal(subject_server(&s, "127.0.0.1", &p), 0);
	else
		assert_int_equal(subject_named(&s, "client", out, &p), 0);
	assert_int_equal(authority_issue(a, &s, 0, &pems, serial, &p), 0);
	assert_int_equal(authority_install(a, &pems, to, true, &p), 0);
	authority_close(a);
	pems_free(&pems);
	subject_free(&s);
}

static struct tunnels *use(const char *directory)
{
	cleanup_path char *c = path_format("%s/%s/cert.pem", top, directory), *k = path_format("%s/%s/key.pem", top, directory);
	cleanup_path char *a = path_format("%s/%s/ca.pem", top, directory), *r = path_format("%s/%s/crl.pem", top, directory);
	struct problem p = { "" };
	struct tunnels *t = tunnels_create(&(struct tls_files){ c, k, a, r }, &p);

	assert_string_equal(p.text, "");
	return t;
}

static int set_up(void **state)
{
	(void)state;
	test_directory(top, sizeof(top), "stratus-tunnel");
	certify("ca", "server", true);
	certify("ca", "client", false);
	said.accepted = said.connected = 0;
	said.count = 0;
	return 0;
}

static int tear_down(void **state)
{
	cleanup_path char *command = path_format("rm -rf %s", top);

	(void)state;
	return system(command);
}

/* ---- both ends ---- */

static void accepted(void *arg, int fd, const struct tunnel_peer *peer)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	said.accepted = fd;
	said.count++;
	strcpy(said.identity, peer->identity);
	pthread_mutex_unlock(&lock);
}

static void connected(void *arg, int fd, const struct tunnel_peer *peer, const char *why)
{
	(void)arg, (void)peer;
	pthread_mutex_lock(&lock);
	said.connected = fd;
	snprintf(said.why, sizeof(said.why), "%s", fd < 0 ? why : "");
	pthread_mutex_unlock(&lock);
}

static int await(const int *what)
{
	int value = 0;

	for (int ms = 0; ms < PATIENCE_MS && !value; ms += 5) {
		pthread_mutex_lock(&lock);
		value = *what;
		pthread_mutex_unlock(&lock);
		if (!value)
			usleep(5000);
	}
	assert_int_not_equal(value, 0);
	return value;
}

static struct tunnels *serve(const char *directory)
{
	struct tunnels *t = use(directory);
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(fd, 1024), 0);
	getsockname(fd, (struct sockaddr *)&address, &size);
	assert_int_equal(tunnels_listen(t, fd, accepted, NULL), 0);
	return t;
}

static int dial(struct tunnels *t, const char *host)
{
	said.connected = 0;
	assert_int_equal(tunnels_connect(t, (struct sockaddr *)&address, sizeof(address), host, connected, NULL), 0);
	return await(&said.connected);
}

/* ---- bytes ---- */

static unsigned char byte_at(size_t i)
{
	return (unsigned char)(i * 31 + i / 251);
}

/* Writes and reads as much as goes. */
static size_t push(int fd, size_t from)
{
	unsigned char part[5000];
	size_t n = BIG - from < sizeof(part) ? BIG - from : sizeof(part);
	ssize_t done;

	for (size_t i = 0; i < n; i++)
		part[i] = byte_at(from + i);
	done = n ? send(fd, part, n, MSG_NOSIGNAL) : 0;
	return from + (done > 0 ? done : 0);
}

static size_t pull(int fd, size_t have)
{
	unsigned char part[7000];
	ssize_t n = recv(fd, part, sizeof(part), 0);

	for (ssize_t i = 0; i < n; i++)
		if (part[i] != byte_at(have + i))
			fail_msg("byte %zu is changed", have + i);
	return have + (n > 0 ? n : 0);
}

static void exchange(int a, int b)
{
	size_t sent[2] = { 0 }, got[2] = { 0 };
	struct pollfd both[] = { { .fd = a }, { .fd = b } };

	while (got[0] < BIG || got[1] < BIG) {
		for (int i = 0; i < 2; i++)
			both[i].events = POLLIN | (sent[i] < BIG ? POLLOUT : 0);
		assert_true(poll(both, 2, PATIENCE_MS) > 0);
		for (int i = 0; i < 2; i++) {
			if (both[i].revents & POLLOUT)
				sent[i] = push(both[i].fd, sent[i]);
			if (both[i].revents & POLLIN)
				got[i] = pull(both[i].fd, got[i]);
		}
	}
}

static void ends(int fd)
{
	struct pollfd one = { .fd = fd, .events = POLLIN };
	char byte;

	assert_int_equal(poll(&one, 1, PATIENCE_MS), 1);
	assert_true(recv(fd, &byte, 1, 0) <= 0);
}

/* ---- descriptors ---- */

static atomic_uint accepts;
static atomic_bool is_full; /* no descriptor is left for who comes */

/* In place of libc's. */
int accept4(int fd, struct sockaddr *from, socklen_t *size, int flags)
{
	accepts++;
	if (!is_full)
		return (int)syscall(SYS_accept4, fd, from, size, flags);
	errno = EMFILE;
	return -1;
}

/* Each wakes the tunnels' thread. */
static void go_round(int a, int b, unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		struct pollfd one = { .fd = b, .events = POLLIN };
		char byte = 'x';

		assert_int_equal(send(a, &byte, 1, MSG_NOSIGNAL), 1);
		assert_int_equal(poll(&one, 1, PATIENCE_MS), 1);
		assert_int_equal(recv(b, &byte, 1, 0), 1);
	}
}

/* ---- the tests ---- */

static void who_comes_while_no_descriptor_is_left_does_not_keep_the_thread_busy(void **state)
{
	enum { TIMES = 100 };
	struct tunnels *server = serve("server"), *client = use("client");
	int mine = dial(client, "127.0.0.1"), theirs = await(&said.accepted);
	unsigned before;

	(void)state;
	is_full = true;
	before = accepts;
	said.connected = said.accepted = 0;
	assert_int_equal(tunnels_connect(client, (struct sockaddr *)&address, sizeof(address), "127.0.0.1", connected, NULL),
			 0);
	while (accepts == before)
		go_round(mine, theirs, 1);
	go_round(mine, theirs, TIMES);
	assert_true(accepts - before < TIMES / 2);
	is_full = false;
	close(await(&said.connected));
	close(await(&said.accepted));
	close(mine);
	close(theirs);
	tunnels_destroy(client);
	tunnels_destroy(server);
}

static void bytes_go_both_ways_and_the_end_comes_after_them(void **state)
{
	struct tunnels *server = serve("server"), *client = use("client");
	int mine = dial(client, "127.0.0.1"), theirs = await(&said.accepted);
	size_t have = 0;

	(void)state;
	assert_string_equal(said.identity, "stratus:client/client");
	exchange(mine, theirs);
	assert_int_equal(push(mine, 0), 5000);
	close(mine);
	while (have < 5000) {
		struct pollfd one = { .fd = theirs, .events = POLLIN };

		assert_int_equal(poll(&one, 1, PATIENCE_MS), 1);
		have = pull(theirs, have);
	}
	ends(theirs);
	close(theirs);
	tunnels_destroy(client);
	tunnels_destroy(server);
}

/* Each is a record of its own: the tunnel has taken the one before. */
static void send_messages(int fd, unsigned count)
{
	char message[MESSAGE] = "";
	int queued;

	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(send(fd, message, MESSAGE, MSG_NOSIGNAL), MESSAGE);
		do
			assert_int_equal(ioctl(fd, SIOCOUTQ, &queued), 0);
		while (queued && !usleep(100));
	}
}

/* What TLS took in with what came before it no event tells of. */
static void what_comes_in_many_records_at_once_comes_whole(void **state)
{
	struct tunnels *server = serve("server"), *client = use("client");
	struct halter h;
	int mine, theirs;

	(void)state;
	halter_start(&h, ntohs(address.sin_port));
	address.sin_port = htons(h.port);
	mine = dial(client, "127.0.0.1");
	theirs = await(&said.accepted);
	atomic_store(&h.keep[UP], true);
	send_messages(mine, MESSAGES);
	atomic_store(&h.keep[UP], false);
	for (size_t have = 0; have < MESSAGES * MESSAGE;) {
		struct pollfd one = { .fd = theirs, .events = POLLIN };
		char part[4096];
		ssize_t n;

		if (poll(&one, 1, PATIENCE_MS) != 1)
			fail_msg("%zu bytes have come", have);
		n = recv(theirs, part, sizeof(part), 0);
		assert_true(n > 0);
		have += n;
	}
	close(mine);
	close(theirs);
	tunnels_destroy(client);
	tunnels_destroy(server);
	halter_stop(&h);
}

static void who_is_not_the_one_that_was_called_is_left(void **state)
{
	struct tunnels *server = serve("server"), *client = use("client");

	(void)state;
	assert_true(dial(client, "127.0.0.2") < 0);
	assert_non_null(strstr(said.why, "IP address mismatch"));
	tunnels_destroy(server);
	server = serve("client"); /* a client's certificate */
	assert_true(dial(client, "127.0.0.1") < 0);
	assert_non_null(strstr(said.why, "purpose"));
	tunnels_destroy(server);
	assert_true(dial(client, "127.0.0.1") < 0); /* nobody listens */
	assert_string_equal(said.why, "Connection refused");
	tunnels_destroy(client);
}

/* By TLS 1.3 it hears of it only after its own handshake. */
static void another_authority_s_client_does_not_get_in(void **state)
{
	struct tunnels *server = serve("server"), *stranger;
	cleanup_path char *copy = path_format("cp %s/ca/ca.pem %s/ca/crl.pem %s/stranger/", top, top, top);
	int mine;

	(void)state;
	certify("other", "stranger", false);
	assert_int_equal(system(copy), 0);
	log_set_level(LOG_ERROR);
	stranger = use("stranger");
	mine = dial(stranger, "127.0.0.1");
	if (mine > 0) {
		ends(mine);
		close(mine);
	}
	assert_int_equal(said.count, 0);
	tunnels_destroy(stranger);
	tunnels_destroy(server);
}

static void revoke_the_client(void)
{
	cleanup_path char *directory = path_format("%s/ca", top), *file = path_format("%s/client/cert.pem", top);
	cleanup_path char *copy = path_format("cp %s/ca/crl.pem %s/server/crl.pem", top, top);
	struct problem p = { "" };
	struct authority *a;
	char serial[CA_SERIAL_TEXT];
	bool already;

	assert_int_equal(authority_open(directory, &a, &p), 0);
	assert_int_equal(authority_serial(a, file, serial, &p), 0);
	assert_int_equal(authority_revoke(a, serial, &already, &p), 0);
	authority_close(a);
	assert_int_equal(system(copy), 0);
}

static void who_is_revoked_is_cut_off(void **state)
{
	struct tunnels *server = serve("server"), *client = use("client");
	int mine = dial(client, "127.0.0.1"), theirs = await(&said.accepted);

	(void)state;
	log_set_level(LOG_ERROR);
	revoke_the_client();
	ends(theirs);
	ends(mine);
	close(mine);
	close(theirs);
	tunnels_destroy(client);
	tunnels_destroy(server);
}

static void who_is_revoked_during_the_handshake_does_not_get_in(void **state)
{
	struct tunnels *server = serve("server"), *client = use("client");
	int mine = dial(client, "127.0.0.1"), theirs = await(&said.accepted), late;
	struct halter h;

	(void)state;
	log_set_level(LOG_ERROR);
	halter_start(&h, ntohs(address.sin_port));
	address.sin_port = htons(h.port);
	atomic_store(&h.keep[UP], true);
	late = dial(client, "127.0.0.1"); /* its own half is done */
	assert_true(late > 0);
	revoke_the_client();
	ends(theirs); /* the server has read the list, and looked at all */
	atomic_store(&h.keep[UP], false);
	ends(late);
	assert_int_equal(said.count, 1);
	close(late);
	close(mine);
	close(theirs);
	tunnels_destroy(client);
	tunnels_destroy(server);
	halter_stop(&h);
}

static void who_does_not_greet_keeps_nobody_out(void **state)
{
	struct tunnels *server = serve("server"), *client = use("client");
	int crowd[CROWD], mine, closed = 0;

	(void)state;
	for (int i = 0; i < CROWD; i++) {
		crowd[i] = socket(AF_INET, SOCK_STREAM, 0);
		assert_int_equal(connect(crowd[i], (struct sockaddr *)&address, sizeof(address)), 0);
	}
	mine = dial(client, "127.0.0.1");
	assert_true(mine > 0);
	await(&said.accepted);
	for (int i = 0; i < CROWD; i++) {
		struct pollfd one = { .fd = crowd[i], .events = POLLIN };

		closed += poll(&one, 1, 0);
		close(crowd[i]);
	}
	assert_in_range(closed, CROWD - 300, CROWD); /* the oldest have made way */
	close(said.accepted);
	close(mine);
	tunnels_destroy(client);
	tunnels_destroy(server);
}

/* Who has dialled is told, once, whatever becomes of it. */
static void the_end_tells_who_still_waits(void **state)
{
	struct tunnels *client = use("client");
	socklen_t size = sizeof(address);
	int silent = socket(AF_INET, SOCK_STREAM, 0);

	(void)state;
	address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_int_equal(bind(silent, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(silent, 1), 0);
	getsockname(silent, (struct sockaddr *)&address, &size);
	said.connected = 0;
	assert_int_equal(tunnels_connect(client, (struct sockaddr *)&address, size, "127.0.0.1", connected, NULL), 0);
	tunnels_destroy(client);
	assert_true(said.connected < 0);
	close(silent);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(who_comes_while_no_descriptor_is_left_does_not_keep_the_thread_busy),
		TEST(bytes_go_both_ways_and_the_end_comes_after_them),
		TEST(what_comes_in_many_records_at_once_comes_whole),
		TEST(who_is_not_the_one_that_was_called_is_left),
		TEST(another_authority_s_client_does_not_get_in),
		TEST(who_is_revoked_is_cut_off),
		TEST(who_is_revoked_during_the_handshake_does_not_get_in),
		TEST(who_does_not_greet_keeps_nobody_out),
		TEST(the_end_tells_who_still_waits),
	};

	signal(SIGPIPE, SIG_IGN); /* as in every process of StratusFS */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
