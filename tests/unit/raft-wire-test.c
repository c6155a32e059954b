/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of a store, on a loop of the test's own. */
#include "test.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "free-port.h"
#include "log.h"
#include "raft-wire.h"

enum { SELF = 1, PEERS = 256, ALL_S = 300 };

static uv_loop_t loop;
static struct raft_uv_transport transport;
static char address[32];
static struct uv_stream_s *inner[PEERS]; /* what libraft would read */
static unsigned inners, accepts;
static int last_fd;	/* that was accepted */
static unsigned passed; /* messages */
static bool is_full, is_closed;

/* In place of libc's. */
int accept4(int fd, struct sockaddr *from, socklen_t *size, int flags)
{
	accepts++;
	if (!is_full)
		return last_fd = (int)syscall(SYS_accept4, fd, from, size, flags);
	errno = EMFILE;
	return -1;
}

/* ---- who decides ---- */

static void card(void *arg, raft_id called, struct card *c)
{
	(void)arg, (void)called;
	*c = (struct card){ .given = true };
}

static enum refusal greeted(void *arg, const struct hello *h)
{
	(void)arg, (void)h;
	return REFUSED_NOT;
}

static bool passes(void *arg, const struct card *c, unsigned type)
{
	(void)arg, (void)c, (void)type;
	passed++;
	return true;
}

static void told(void *arg, raft_id called, const char *where, const struct answer *a)
{
	(void)arg, (void)called, (void)where, (void)a;
}

static void cluster(void *arg, uint8_t id[CLUSTER_ID])
{
	(void)arg;
	memset(id, 0, CLUSTER_ID);
}

static void accepted(struct raft_uv_transport *t, raft_id id, const char *from, struct uv_stream_s *stream)
{
	(void)t, (void)id, (void)from;
	assert_true(inners < PEERS);
	inner[inners++] = stream;
}

/* ---- the wire ---- */

static int begin(void **state)
{
	static const struct wire_peers peers = {
		.card = card, .greeted = greeted, .passes = passes, .told = told, .cluster = cluster
	};
	struct problem p = { "" };

	(void)state;
	log_set_level(LOG_ERROR);
	inners = accepts = passed = 0;
	is_full = is_closed = false;
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(raft_wire_init(&transport, &loop, NULL, &peers, &p), 0);
	snprintf(address, sizeof address, "127.0.0.1:%u", free_port());
	assert_int_equal(transport.init(&transport, SELF, address), 0);
	assert_int_equal(transport.listen(&transport, accepted), 0);
	return 0;
}

static void closed(struct raft_uv_transport *t)
{
	(void)t;
	is_closed = true;
}

static void free_stream(uv_handle_t *stream)
{
	raft_free(stream);
}

static int end(void **state)
{
	(void)state;
	transport.close(&transport, closed);
	for (unsigned i = 0; i < inners; i++)
		uv_close((uv_handle_t *)inner[i], free_stream);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_true(is_closed);
	raft_wire_close(&transport);
	return uv_loop_close(&loop);
}

/* ---- who calls ---- */

static int reach(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_port = htons((uint16_t)atoi(strchr(address, ':') + 1));
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	return fd;
}

static int call(raft_id id)
{
	struct hello h = { .id = id, .address = "127.0.0.1:1" };
	uint8_t bytes[HELLO_MAX];
	size_t size = hello_encode(&h, false, bytes);
	int fd = reach();

	assert_int_equal(send(fd, bytes, size, MSG_NOSIGNAL), size);
	return fd;
}

static void run_until_accepted(unsigned count)
{
	while (inners < count)
		uv_run(&loop, UV_RUN_ONCE);
}

/* Without a descriptor for who knocks the loop does what else there is to do, and lets it in later. */
static void who_knocks_while_no_descriptor_is_left_does_not_keep_the_loop_busy(void **state)
{
	enum { TURNS = 1000 };
	int fd = call(2);

	(void)state;
	is_full = true;
	while (!accepts)
		uv_run(&loop, UV_RUN_ONCE);
	for (unsigned i = 0; i < TURNS; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
	assert_true(accepts < TURNS / 2);
	is_full = false;
	run_until_accepted(1);
	close(fd);
}

static void heartbeat(int fd)
{
	uint64_t words[7] = { htole64(RAFT_IO_APPEND_ENTRIES), htole64(5 * 8), htole64(1) };
	unsigned before = passed;

	assert_int_equal(send(fd, words, sizeof words, MSG_NOSIGNAL), sizeof words);
	while (passed == before)
		uv_run(&loop, UV_RUN_ONCE);
}

static bool has_ended(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

	return !n || (n < 0 && errno == ECONNRESET); /* what it said was not all read */
}

static unsigned ended(const int *fd, unsigned count)
{
	unsigned n = 0;

	for (unsigned i = 0; i < count; i++)
		n += has_ended(fd[i]);
	return n;
}

static void close_all(const int *fd, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		close(fd[i]);
}

/* So many call, as servers of which each has an id `apart` above that of the one before, and so many are left, of which the first is one. It speaks when each comes, or once. */
static void the_first_stays(unsigned calls, unsigned apart, bool once, unsigned kept)
{
	int fd[128];

	for (unsigned i = 0; i < calls; i++) {
		fd[i] = call(2 + i * apart);
		run_until_accepted(i + 1);
		if (!i || !once)
			heartbeat(fd[0]);
	}
	while (ended(fd, calls) < calls - kept)
		uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(ended(fd, calls), calls - kept);
	assert_false(has_ended(fd[0]));
	assert_false(has_ended(fd[calls - 1]));
	close_all(fd, calls);
}

/* Of a server that lost its network again and again the other side does not know that they have ended. */
static void of_one_server_s_connections_few_are_kept_and_not_the_silent_ones(void **state)
{
	(void)state;
	the_first_stays(12, 0, false, 4);
}

static void of_many_servers_connections_so_many_are_kept_and_not_the_silent_ones(void **state)
{
	(void)state;
	the_first_stays(100, 1, false, 64);
}

/* However long ago: two who follow have nothing to say to each other. */
static void who_has_spoken_is_not_driven_out_by_who_only_says_to_be_that_server(void **state)
{
	(void)state;
	the_first_stays(12, 0, true, 4);
}

static unsigned lines_of(const char *path)
{
	FILE *from = fopen(path, "r");
	unsigned lines = 0;
	int c;

	assert_non_null(from);
	while ((c = fgetc(from)) != EOF)
		lines += c == '\n';
	fclose(from);
	return lines;
}

static void strangers_fill_no_log(void **state)
{
	enum { CALLS = 50 };
	char directory[64], path[80];

	(void)state;
	test_directory(directory, sizeof directory, "raft-wire");
	snprintf(path, sizeof path, "%s/log", directory);
	assert_int_equal(log_open(path), 0);
	log_set_level(LOG_WARNING);
	for (unsigned i = 0; i < CALLS; i++) {
		static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
		int fd = reach();

		assert_int_equal(send(fd, http, sizeof http, MSG_NOSIGNAL), sizeof http);
		while (!has_ended(fd))
			uv_run(&loop, UV_RUN_ONCE);
		close(fd);
	}
	assert_in_range(lines_of(path), 1, CALLS / 2); /* the test may take more than a minute */
	assert_int_equal(test_remove(directory), 0);
}

/* ---- whom this one calls ---- */

static struct uv_stream_s *outgoing;

static void dialled(struct raft_uv_connect *request, struct uv_stream_s *stream, int status)
{
	(void)request;
	assert_int_equal(status, 0);
	outgoing = stream;
}

static void notices_silence(int fd)
{
	int keepalive = 0;
	unsigned patience_ms = 0;
	socklen_t size = sizeof keepalive;

	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &keepalive, &size), 0);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, &size), 0);
	assert_true(keepalive);
	assert_in_range(patience_ms, 1, 60000);
}

/* So a machine that is gone is called anew within a minute, not after the quarter of an hour in which TCP sends again. */
static void connections_without_tls_notice_that_the_other_machine_is_gone(void **state)
{
	struct raft_uv_connect request;
	uv_os_fd_t fd;

	(void)state;
	outgoing = NULL;
	assert_int_equal(transport.connect(&transport, &request, SELF, address, dialled), 0);
	while (!outgoing || !inners)
		uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(uv_fileno((uv_handle_t *)outgoing, &fd), 0);
	notices_silence(fd);
	notices_silence(last_fd);
	uv_close((uv_handle_t *)outgoing, free_stream);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(of_one_server_s_connections_few_are_kept_and_not_the_silent_ones),
		TEST(of_many_servers_connections_so_many_are_kept_and_not_the_silent_ones),
		TEST(who_has_spoken_is_not_driven_out_by_who_only_says_to_be_that_server),
		TEST(connections_without_tls_notice_that_the_other_machine_is_gone),
		TEST(strangers_fill_no_log),
		TEST(who_knocks_while_no_descriptor_is_left_does_not_keep_the_loop_busy),
	};

	alarm(ALL_S); /* a test that waits in vain has failed */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
