/* SPDX-License-Identifier: Apache-2.0 */
/* TLS between two streams of one process: who is refused reads why, and what was said before. */
#include "tls-test.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

static struct {
	char why[200];
	unsigned broken;
	bool lingers;
} end;

static void note_end(struct stream *s, const char *why)
{
	if (!end.broken++) {
		snprintf(end.why, sizeof(end.why), "%s", why ? why : "closed");
		end.lingers = stream_linger(s);
	}
}

/* The server refuses one who has come through the handshake by its own lights, and has sent a word after it. */
static void refuse_one(struct pair *c, struct tls *client, struct tls *server)
{
	struct iovec one = { "x", 1 };

	memset(&end, 0, sizeof(end));
	join(c, client, server);
	c->server.broken = c->client.broken = note_end;
	for (int i = 0; i < 20 && !end.broken; i++) {
		transport_tls.send(&c->client, &one, 1);
		c->server.watch.ready(&c->server.watch, EPOLLIN);
	}
	assert_int_equal(end.broken, 1);
	assert_memory_equal(end.why, "TLS: ", 5);
	assert_non_null(strstr(end.why, "certificate"));
	assert_true(end.lingers);
}

static ssize_t send_much(struct stream *s, unsigned size)
{
	static char much[60000];
	struct iovec one = { much, size };
	ssize_t n;

	pthread_mutex_lock(&s->lock);
	n = transport_tls.send(s, &one, 1);
	pthread_mutex_unlock(&s->lock);
	return n;
}

static void reads_why(struct stream *s)
{
	char byte;
	struct iovec one = { &byte, 1 };

	assert_int_equal(transport_tls.receive(s, &one, 1), -1);
	assert_int_equal(errno, EPROTO);
	assert_non_null(strstr(s->trouble, "alert unknown ca"));
}

/* It trusts the server, but is not trusted. */
static struct tls *stranger_create(void)
{
	authority("other");
	tenant_certificate("other", "acme", "stranger");
	run("cp %s/ca/ca.pem %s/ca/crl.pem %s/stranger", top, top, top);
	return use("stranger", false);
}

/* However much more it says before it reads; and then the server hears that it says too much, or that it has gone. */
static void who_is_refused_may_go_on_and_reads_why(void **state)
{
	struct tls *server = use("server", true), *stranger = stranger_create();
	int large = 1 << 20;
	struct pair c;

	(void)state;
	for (int too_much = 0; too_much < 2; too_much++) {
		refuse_one(&c, stranger, server);
		assert_int_equal(setsockopt(c.client.watch.fd, SOL_SOCKET, SO_SNDBUF, &large, sizeof(large)), 0);
		for (int k = 0; k < 10; k++) {
			assert_int_equal(send_much(&c.client, 1000), 1000);
			c.server.watch.ready(&c.server.watch, EPOLLIN);
		}
		if (too_much)
			assert_int_equal(send_much(&c.client, 60000), 60000);
		assert_int_equal(end.broken, 1);
		reads_why(&c.client);
		if (!too_much)
			shutdown(c.client.watch.fd, SHUT_RDWR);
		for (int k = 0; k < 40 && end.broken < 2; k++)
			c.server.watch.ready(&c.server.watch, EPOLLIN);
		assert_int_equal(end.broken, 2);
		part(&c);
	}
	tls_destroy(stranger);
	tls_destroy(server);
}

/* It notices by a send that failed: what was said before is not forgotten over that. */
static void who_cannot_send_reads_what_was_said_before(void **state)
{
	struct tls *server = use("server", true), *stranger = stranger_create();
	struct pair c;

	(void)state;
	refuse_one(&c, stranger, server);
	stream_close(&c.server);
	memset(&end, 0, sizeof(end));
	while (send_much(&c.client, 1000) > 0)
		;
	assert_true(errno == EPIPE || errno == ECONNRESET);
	c.client.watch.ready(&c.client.watch, EPOLLIN | EPOLLHUP);
	assert_int_equal(end.broken, 1);
	assert_non_null(strstr(end.why, "alert unknown ca"));
	assert_false(end.lingers); /* nobody waits for the other */
	part(&c);
	tls_destroy(stranger);
	tls_destroy(server);
}

static void look(struct stream *s)
{
	struct pollfd p = { s->watch.fd, POLLIN, 0 };

	if ((!s->dead || s->lingers) && poll(&p, 1, 0) > 0)
		s->watch.ready(&s->watch, p.revents & (POLLIN | POLLHUP | POLLERR));
}

/* Data, too. */
static void what_came_before_a_send_failed_is_received(void **state)
{
	struct tls *server = use("server", true), *client = use("client", false);
	char bytes[4] = "";
	struct iovec three = { "abc", 3 }, room = { bytes, 3 };
	struct pair c;

	(void)state;
	join(&c, client, server);
	assert_true(talk(&c));
	assert_int_equal(transport_tls.send(&c.server, &three, 1), 3);
	stream_close(&c.server);
	while (send_much(&c.client, 1000) > 0)
		;
	assert_int_equal(transport_tls.receive(&c.client, &room, 1), 3);
	assert_string_equal(bytes, "abc");
	part(&c);
	tls_destroy(client);
	tls_destroy(server);
}

/* By TCP, whoever's turn it is, and however much the client has said before the server looks: it closes at once, or waits for the client to go. */
static void whoever_is_refused_says_why(void **state)
{
	struct tls *server = use("server", true), *stranger = stranger_create();
	const char *given = getenv("TEST_SEED");
	unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
	struct pair c;

	(void)state;
	printf("TEST_SEED=%u\n", seed);
	for (int i = 0; i < 200; i++) {
		bool closed = false, at_once = rand_r(&seed) % 2;

		memset(&end, 0, sizeof(end));
		join_by_tcp(&c, stranger, server);
		c.server.broken = c.client.broken = note_end;
		while (!c.client.dead) {
			unsigned turn = rand_r(&seed) % 4;

			if (turn == 0)
				look(&c.client);
			else if (turn == 1 && !closed)
				look(&c.server);
			else if (turn == 2)
				stream_send(&c.client, (char[100]){ 0 }, 100, NULL, 0);
			if (c.server.dead && at_once && !closed) {
				stream_close(&c.server);
				closed = true;
			}
		}
		assert_int_equal(end.broken, 2);
		assert_non_null(strstr(c.client.trouble, "alert unknown ca"));
		stream_close(&c.client);
		if (!closed)
			stream_close(&c.server);
	}
	tls_destroy(stranger);
	tls_destroy(server);
}

const struct CMUnitTest refused_tests[] = {
	cmocka_unit_test_setup_teardown(who_is_refused_may_go_on_and_reads_why, set_up, tear_down),
	cmocka_unit_test_setup_teardown(who_cannot_send_reads_what_was_said_before, set_up, tear_down),
	cmocka_unit_test_setup_teardown(what_came_before_a_send_failed_is_received, set_up, tear_down),
	cmocka_unit_test_setup_teardown(whoever_is_refused_says_why, set_up, tear_down),
};
const unsigned refused_tests_count = sizeof(refused_tests) / sizeof(refused_tests[0]);
