/* SPDX-License-Identifier: Apache-2.0 */
/* TLS between two streams of one process: who the peer is, and what goes between them. */
#include "tls-test.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ca.h"
#include "path.h"
#include "task.h"

char top[64];

/* ---- certificates ---- */

char *file(const char *directory, const char *name)
{
	return path_format("%s/%s/%s", top, directory, name);
}

void authority(const char *name)
{
	cleanup_path char *directory = path_format("%s/%s", top, name);
	struct problem p = { "" };
	bool made;

	assert_int_equal(authority_init(directory, "Test", 100, &made, &p), 0);
}

static void certify(const char *ca, struct subject *s, const char *out)
{
	cleanup_path char *directory = path_format("%s/%s", top, ca), *to = path_format("%s/%s", top, out);
	struct problem p = { "" };
	struct authority *a;
	struct pems pems;
	char serial[CA_SERIAL_TEXT];

	assert_int_equal(authority_open(directory, &a, &p), 0);
	assert_int_equal(authority_issue(a, s, 0, &pems, serial, &p), 0);
	assert_int_equal(authority_install(a, &pems, to, true, &p), 0);
	authority_close(a);
	pems_free(&pems);
	subject_free(s);
}

void server_certificate(const char *ca, const char *out)
{
	struct problem p = { "" };
	struct subject s;

	assert_int_equal(subject_server(&s, "localhost", &p), 0);
	certify(ca, &s, out);
}

void tenant_certificate(const char *ca, const char *name, const char *out)
{
	struct problem p = { "" };
	struct subject s;

	assert_int_equal(subject_named(&s, "tenant", name, &p), 0);
	certify(ca, &s, out);
}

void run(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	assert_int_equal(system(text), 0);
}

struct tls *use(const char *directory, bool server)
{
	cleanup_path char *certificate = file(directory, "cert.pem"), *key = file(directory, "key.pem");
	cleanup_path char *authorities = file(directory, "ca.pem"), *revoked = file(directory, "crl.pem");
	struct problem p = { "" };
	struct tls *t = tls_create(&(struct tls_files){ certificate, key, authorities, revoked }, server, &p);

	assert_string_equal(p.text, "");
	assert_non_null(t);
	return t;
}

/* ---- connections ---- */

static void join_by(struct pair *c, const int ends[2], struct tls *client, struct tls *server)
{
	assert_int_equal(stream_open(&c->client, &transport_tls, ends[0], 1024, 0), 0);
	assert_int_equal(stream_open(&c->server, &transport_tls, ends[1], 1024, 0), 0);
	assert_int_equal(tls_begin(&c->client, client, "localhost"), 0);
	assert_int_equal(tls_begin(&c->server, server, NULL), 0);
}

void join(struct pair *c, struct tls *client, struct tls *server)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	join_by(c, ends, client, server);
}

void join_by_tcp(struct pair *c, struct tls *client, struct tls *server)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), ends[2] = { socket(AF_INET, SOCK_STREAM, 0) };
	socklen_t size = sizeof(at);

	assert_int_equal(bind(listener, (struct sockaddr *)&at, size), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
	assert_int_equal(connect(ends[0], (struct sockaddr *)&at, size), 0);
	ends[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	assert_true(ends[1] >= 0);
	assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	close(listener);
	join_by(c, ends, client, server);
}

bool talk(struct pair *c)
{
	char byte = 'x';
	struct iovec one = { &byte, 1 };
	bool asked = false, heard = false, told = false, done = false;

	for (int i = 0; i < 20 && !done; i++) {
		asked = asked || transport_tls.send(&c->client, &one, 1) == 1;
		heard = heard || transport_tls.receive(&c->server, &one, 1) == 1;
		told = told || (heard && transport_tls.send(&c->server, &one, 1) == 1);
		done = transport_tls.receive(&c->client, &one, 1) == 1;
	}
	return done;
}

void part(struct pair *c)
{
	stream_close(&c->client);
	stream_close(&c->server);
	pthread_mutex_destroy(&c->client.lock);
	pthread_mutex_destroy(&c->server.lock);
}

bool meet(struct tls *client, struct tls *server)
{
	struct pair c;
	bool done;

	join(&c, client, server);
	done = talk(&c);
	part(&c);
	return done;
}

int set_up(void **state)
{
	(void)state;
	test_directory(top, sizeof(top), "stratus-tls");
	authority("ca");
	server_certificate("ca", "server");
	tenant_certificate("ca", "acme", "client");
	return 0;
}

int tear_down(void **state)
{
	(void)state;
	run("rm -rf %s", top);
	return 0;
}

/* ---- the tests ---- */

static void the_peer_is_known_by_its_uri(void **state)
{
	struct tls *server = use("server", true), *client = use("client", false);
	char uri[64], small[20];
	struct pair c;

	(void)state;
	join(&c, client, server);
	assert_int_equal(stream_identity(&c.server, uri, sizeof(uri)), -ENOENT); /* not yet */
	assert_true(talk(&c));
	assert_int_equal(stream_identity(&c.server, uri, sizeof(uri)), 0);
	assert_string_equal(uri, "stratus:tenant/acme");
	assert_int_equal(stream_identity(&c.server, small, sizeof("stratus:tenant/acme")), 0);
	assert_int_equal(stream_identity(&c.server, small, sizeof("stratus:tenant/acme") - 1), -EBADMSG);
	assert_int_equal(stream_identity(&c.client, uri, sizeof(uri)), 0);
	assert_string_equal(uri, "stratus:server");
	part(&c);
	tls_destroy(server);
	tls_destroy(client);
}

/* A certificate with these alternative names, which is its own authority. */
static void self_signed(const char *names)
{
	cleanup_path char *path = file("odd", "cert.pem"), *key_path = file("odd", "key.pem");
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *c = X509_new();
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names);
	FILE *to;

	run("rm -rf %s/odd; mkdir %s/odd", top, top);
	assert_non_null(e);
	X509_set_version(c, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(c), 1);
	X509_gmtime_adj(X509_getm_notBefore(c), 0);
	X509_gmtime_adj(X509_getm_notAfter(c), 3600);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1, 0);
	X509_set_issuer_name(c, X509_get_subject_name(c));
	X509_set_pubkey(c, key);
	X509_add_ext(c, e, -1);
	assert_true(X509_sign(c, key, EVP_sha256()));
	to = fopen(path, "w");
	PEM_write_X509(to, c);
	fclose(to);
	to = fopen(key_path, "w");
	PEM_write_PrivateKey(to, key, NULL, NULL, 0, NULL, NULL);
	fclose(to);
	run("cp %s %s/odd/ca.pem", path, top);
	X509_EXTENSION_free(e);
	X509_free(c);
	EVP_PKEY_free(key);
}

/* The identity that such a certificate has, or -EACCES: the client does not take it for the server's. */
static int identity_with(const char *names, char *uri, size_t size)
{
	cleanup_path char *certificate = NULL, *key = NULL, *authorities = NULL;
	struct problem p = { "" };
	struct tls *client, *server;
	struct tls_files f;
	struct pair c;
	int err;

	self_signed(names);
	certificate = file("odd", "cert.pem");
	key = file("odd", "key.pem");
	authorities = file("odd", "ca.pem");
	f = (struct tls_files){ certificate, key, authorities };
	client = tls_create(&f, false, &p);
	server = tls_create(&f, true, &p);
	assert_string_equal(p.text, "");
	join(&c, client, server);
	err = talk(&c) ? stream_identity(&c.server, uri, size) : -EACCES;
	part(&c);
	tls_destroy(client);
	tls_destroy(server);
	return err;
}

static void an_identity_is_one_of_a_known_form(void **state)
{
	char uri[64];

	(void)state;
	assert_int_equal(identity_with("DNS:localhost", uri, sizeof(uri)), -ENOENT);
	assert_int_equal(identity_with("DNS:localhost,URI:https://a/", uri, sizeof(uri)), -ENOENT);
	assert_int_equal(identity_with("DNS:localhost,URI:xstratus:admin", uri, sizeof(uri)), -ENOENT);
	assert_int_equal(identity_with("DNS:localhost,URI:https://a/,URI:stratus:admin", uri, sizeof(uri)), 0);
	assert_string_equal(uri, "stratus:admin");
	assert_int_equal(identity_with("DNS:localhost,URI:stratus:tenant/a,URI:stratus:tenant/b", uri, sizeof(uri)), -EBADMSG);
	assert_int_equal(identity_with("DNS:localhost,URI:stratus:admin,URI:stratus:admin", uri, sizeof(uri)), -EBADMSG);
	assert_int_equal(identity_with("DNS:localhost,URI:stratus:tenant/a b", uri, sizeof(uri)), -EBADMSG);
	assert_int_equal(identity_with("DNS:localhost,URI:stratus:tenant/a/admin", uri, sizeof(uri)), 0);
	assert_string_equal(uri, "stratus:tenant/a/admin");
	assert_int_equal(identity_with("DNS:localhost,URI:stratus:tenant/a/access/b", uri, sizeof(uri)), 0);
	assert_string_equal(uri, "stratus:tenant/a/access/b");
	assert_int_equal(identity_with("DNS:localhost,URI:stratus:tenant/a/b", uri, sizeof(uri)), -EBADMSG);
	assert_int_equal(identity_with("DNS:localhost,URI:stratus:tenant/a/admin/", uri, sizeof(uri)), -EBADMSG);
	assert_int_equal(identity_with("DNS:localhost,URI:stratus:tenant/a/access/b/c", uri, sizeof(uri)), -EBADMSG);
	assert_int_equal(identity_with("DNS:localhost,URI:stratus:administrator", uri, sizeof(uri)), -EBADMSG);
}

/* RFC 9525, section 6.3: also where there is no other name. */
static void the_common_name_is_no_name_of_a_host(void **state)
{
	char uri[64];

	(void)state;
	assert_int_equal(identity_with("URI:stratus:server", uri, sizeof(uri)), -EACCES);
	assert_int_equal(identity_with("DNS:other,URI:stratus:server", uri, sizeof(uri)), -EACCES);
}

static void a_plain_stream_has_no_identity(void **state)
{
	struct stream s;
	char uri[64];
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_int_equal(stream_open(&s, &transport_tcp, ends[0], 1024, 0), 0);
	assert_int_equal(stream_identity(&s, uri, sizeof(uri)), -ENOENT);
	stream_close(&s);
	pthread_mutex_destroy(&s.lock);
	close(ends[1]);
}

enum { STREAMED = (1 << 20) + 30000 };

static ssize_t send_from(struct stream *s, char *bytes, size_t at)
{
	size_t first = at < STREAMED / 2 ? STREAMED / 2 - at : 0; /* what was refused is offered again, with the same ends */
	struct iovec rest[] = { { bytes + at, first }, { bytes + at + first, STREAMED - at - first } };
	ssize_t n = transport_tls.send(s, rest, at < STREAMED ? 2 : 0);

	return n < 0 ? 0 : n;
}

static ssize_t receive_at(struct stream *s, char *bytes, size_t at, size_t most)
{
	struct iovec room = { bytes + at, most < STREAMED - at ? most : STREAMED - at };
	ssize_t n = transport_tls.receive(s, &room, 1);

	return n < 0 ? 0 : n;
}

/* What was taken and stayed behind is not forgotten, though there is no more to send; and is told of. */
static void what_a_full_socket_did_not_take_goes_out_later(void **state)
{
	struct tls *client = use("client", false), *server = use("server", true);
	char *out = malloc(STREAMED), *in = calloc(1, STREAMED);
	size_t sent = 0, come = 0;
	int little = 8192;
	bool held = false;
	struct pair c;

	(void)state;
	for (int i = 0; i < STREAMED; i++)
		out[i] = (char)(i * 2654435761u >> 24);
	join(&c, client, server);
	assert_true(talk(&c));
	assert_int_equal(setsockopt(c.client.watch.fd, SOL_SOCKET, SO_SNDBUF, &little, sizeof(little)), 0);
	for (int i = 0; i < 100000 && come < STREAMED; i++) {
		size_t before = come;

		if (sent < STREAMED || transport_tls.unsent(&c.client))
			sent += send_from(&c.client, out, sent);
		held |= sent == STREAMED && transport_tls.unsent(&c.client);
		come += receive_at(&c.server, in, come, 1 + i * 37 % 5000);
		assert_true(come > before || sent < STREAMED || transport_tls.unsent(&c.client) ||
			    transport_tls.pending(&c.server));
	}
	assert_int_equal(come, STREAMED);
	assert_true(held);
	assert_int_equal(transport_tls.unsent(&c.client), 0);
	assert_memory_equal(in, out, STREAMED);
	part(&c);
	free(in);
	free(out);
	tls_destroy(client);
	tls_destroy(server);
}

/* 13 records and their heads: 26 receives if each is asked for alone. A pair of local sockets has on one end at once what the other was given. Who
 * has shown no bulk lately has a small buffer, so the first of bulk takes two. */
static void bulk_takes_one_call(void **state)
{
	enum { BULK = 200 << 10 };
	static const struct {
		unsigned size, receives;
	} message[] = { { BULK, 2 }, { BULK, 1 }, { 5000, 1 }, { BULK, 2 } };
	struct tls *client = use("client", false), *server = use("server", true);
	char head[100] = "head", *out = calloc(1, BULK), *in = malloc(BULK);
	int large = 4 << 20;
	struct pair c;

	(void)state;
	join(&c, client, server);
	assert_int_equal(setsockopt(c.client.watch.fd, SOL_SOCKET, SO_SNDBUF, &large, sizeof(large)), 0);
	assert_true(talk(&c));
	for (unsigned i = 0; i < sizeof(message) / sizeof(*message); i++) {
		unsigned size = message[i].size;
		struct iovec from[] = { { head, sizeof(head) }, { out, size } },
			     to[] = { { head, sizeof(head) }, { in, size } };
		uint64_t sends = c.client.sends, receives = c.server.receives;

		memset(out, 'a' + i, size);
		assert_int_equal(transport_tls.send(&c.client, from, 2), sizeof(head) + size);
		assert_int_equal(c.client.sends - sends, 1);
		assert_int_equal(transport_tls.receive(&c.server, to, 2), sizeof(head) + size);
		assert_int_equal(c.server.receives - receives, message[i].receives);
		assert_memory_equal(in, out, size);
		assert_false(transport_tls.pending(&c.server));
	}
	part(&c);
	free(in);
	free(out);
	tls_destroy(client);
	tls_destroy(server);
}

/* Who asks for more than a small message does not ask the socket a second time. */
static void a_small_message_takes_one_call(void **state)
{
	struct tls *client = use("client", false), *server = use("server", true);
	char in[4096];
	struct iovec small = { "small", 5 }, room = { in, sizeof(in) };
	struct pair c;

	(void)state;
	join(&c, client, server);
	assert_true(talk(&c));
	for (int i = 0; i < 3; i++) {
		uint64_t receives = c.server.receives;

		assert_int_equal(transport_tls.send(&c.client, &small, 1), 5);
		assert_int_equal(transport_tls.receive(&c.server, &room, 1), 5);
		assert_int_equal(c.server.receives - receives, 1);
	}
	part(&c);
	tls_destroy(client);
	tls_destroy(server);
}

static void another_authority_and_another_use_are_refused(void **state)
{
	struct tls *server = use("server", true), *stranger, *played;

	(void)state;
	authority("other");
	tenant_certificate("other", "acme", "stranger");
	stranger = use("stranger", false);
	assert_false(meet(stranger, server));
	played = use("client", true); /* a client's certificate cannot be a server's */
	tls_destroy(stranger);
	stranger = use("client", false);
	assert_false(meet(stranger, played));
	assert_true(meet(stranger, server));
	tls_destroy(stranger);
	tls_destroy(played);
	tls_destroy(server);
}

static void what_the_transport_has_taken_waits_for_the_socket_all_the_same(void **state)
{
	struct tls *client = use("client", false), *server = use("server", true);
	char record[1000] = "", in[4096];
	atomic_size_t together = 0;
	int little = 8192;
	struct pair c;

	(void)state;
	join(&c, client, server);
	assert_true(talk(&c));
	assert_int_equal(setsockopt(c.client.watch.fd, SOL_SOCKET, SO_SNDBUF, &little, sizeof(little)), 0);
	stream_count_queued(&c.client, &together);
	while (!transport_tls.unsent(&c.client))
		assert_int_equal(stream_send(&c.client, record, sizeof(record), NULL, 0), 0);
	assert_true(stream_queued(&c.client) >= transport_tls.unsent(&c.client));
	assert_int_equal(stream_queued(&c.client), together);
	for (int i = 0; i < 10000 && stream_queued(&c.client); i++) {
		receive_at(&c.server, in, 0, sizeof(in));
		c.client.watch.ready(&c.client.watch, EPOLLOUT);
	}
	assert_int_equal(transport_tls.unsent(&c.client), 0);
	assert_int_equal(together, 0);
	part(&c);
	tls_destroy(client);
	tls_destroy(server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_peer_is_known_by_its_uri, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_identity_is_one_of_a_known_form, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_common_name_is_no_name_of_a_host, set_up, tear_down),
		cmocka_unit_test(a_plain_stream_has_no_identity),
		cmocka_unit_test_setup_teardown(what_a_full_socket_did_not_take_goes_out_later, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_the_transport_has_taken_waits_for_the_socket_all_the_same, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(bulk_takes_one_call, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_small_message_takes_one_call, set_up, tear_down),
		cmocka_unit_test_setup_teardown(another_authority_and_another_use_are_refused, set_up, tear_down),
	};
	int failed;

	signal(SIGPIPE, SIG_IGN); /* as in every process of StratusFS */
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	failed += _cmocka_run_group_tests("refused", refused_tests, refused_tests_count, NULL, NULL);
	return failed + _cmocka_run_group_tests("changed", changed_tests, changed_tests_count, NULL, NULL);
}
