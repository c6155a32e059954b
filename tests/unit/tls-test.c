/* SPDX-License-Identifier: Apache-2.0 */
/* TLS between two streams of one process: who the peer is, who is refused, and what changes when files change. */
#include "test.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ca.h"
#include "log.h"
#include "path.h"
#include "task.h"
#include "tls.h"

static char top[64];

/* ---- certificates ---- */

static char *file(const char *directory, const char *name)
{
	return path_format("%s/%s/%s", top, directory, name);
}

static void authority(const char *name)
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

static void server_certificate(const char *ca, const char *out)
{
	struct problem p = { "" };
	struct subject s;

	assert_int_equal(subject_server(&s, "localhost", &p), 0);
	certify(ca, &s, out);
}

static void tenant_certificate(const char *ca, const char *name, const char *out)
{
	struct problem p = { "" };
	struct subject s;

	assert_int_equal(subject_named(&s, "tenant", name, &p), 0);
	certify(ca, &s, out);
}

static void run(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	assert_int_equal(system(text), 0);
}

/* Revokes the certificate in the directory `whose`, and gives the list to `where`. */
static void revoke_at(const char *ca, const char *whose, const char *where)
{
	cleanup_path char *directory = path_format("%s/%s", top, ca), *path = file(whose, "cert.pem");
	struct problem p = { "" };
	struct authority *a;
	char serial[CA_SERIAL_TEXT];
	bool already;

	assert_int_equal(authority_open(directory, &a, &p), 0);
	assert_int_equal(authority_serial(a, path, serial, &p), 0);
	assert_int_equal(authority_revoke(a, serial, &already, &p), 0);
	authority_close(a);
	run("cp %s/%s/crl.pem %s/%s/crl.pem", top, ca, top, where);
}

static struct tls *use(const char *directory, bool server)
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

struct pair {
	struct stream client, server;
};

static void join_by(struct pair *c, const int ends[2], struct tls *client, struct tls *server)
{
	assert_int_equal(stream_open(&c->client, &transport_tls, ends[0], 1024, 0), 0);
	assert_int_equal(stream_open(&c->server, &transport_tls, ends[1], 1024, 0), 0);
	assert_int_equal(tls_begin(&c->client, client, "localhost"), 0);
	assert_int_equal(tls_begin(&c->server, server, NULL), 0);
}

static void join(struct pair *c, struct tls *client, struct tls *server)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	join_by(c, ends, client, server);
}

static void join_by_tcp(struct pair *c, struct tls *client, struct tls *server)
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

/* A byte each way, and with it the handshake. */
static bool talk(struct pair *c)
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

static void part(struct pair *c)
{
	stream_close(&c->client);
	stream_close(&c->server);
	pthread_mutex_destroy(&c->client.lock);
	pthread_mutex_destroy(&c->server.lock);
}

static bool meet(struct tls *client, struct tls *server)
{
	struct pair c;
	bool done;

	join(&c, client, server);
	done = talk(&c);
	part(&c);
	return done;
}

/* The files are looked at twice a second. */
static bool changes(struct tls *t, uint64_t before)
{
	for (int i = 0; i < 12000 && tls_look(t) == before; i++)
		usleep(10000);
	return tls_look(t) != before;
}

static bool comes_true(bool (*fn)(struct tls *, struct tls *), struct tls *client, struct tls *server)
{
	bool yes = false;

	for (int i = 0; i < 12000 && !(yes = fn(client, server)); i++)
		usleep(10000);
	return yes;
}

static int set_up(void **state)
{
	(void)state;
	test_directory(top, sizeof(top), "stratus-tls");
	authority("ca");
	server_certificate("ca", "server");
	tenant_certificate("ca", "acme", "client");
	return 0;
}

static int tear_down(void **state)
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

static void who_is_revoked_is_refused_also_while_connected(void **state)
{
	struct tls *server = use("server", true), *client = use("client", false), *other;
	struct pair one, two;
	uint64_t before = tls_look(server);

	(void)state;
	tenant_certificate("ca", "other", "other");
	other = use("other", false);
	join(&one, client, server);
	join(&two, other, server);
	assert_true(talk(&one) && talk(&two));
	assert_false(stream_is_refused(&one.server, server));
	revoke_at("ca", "client", "server");
	assert_true(changes(server, before));
	assert_true(stream_is_refused(&one.server, server));
	assert_false(stream_is_refused(&two.server, server));
	assert_false(meet(client, server));
	assert_true(meet(other, server));
	part(&one);
	part(&two);
	tls_destroy(other);
	tls_destroy(client);
	tls_destroy(server);
}

/* ---- who is refused reads why ---- */

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

/* The certificate in the directory `whose` gets so few seconds, and the authority's name anew. */
static void end_soon(const char *ca, const char *whose, long seconds)
{
	cleanup_path char *path = file(whose, "cert.pem"), *secret = file(ca, "ca.key");
	FILE *from = fopen(path, "r"), *key_file = fopen(secret, "r"), *to;
	X509 *certificate = PEM_read_X509(from, NULL, NULL, NULL);
	EVP_PKEY *key = PEM_read_PrivateKey(key_file, NULL, NULL, NULL);

	assert_non_null(certificate);
	assert_non_null(key);
	assert_non_null(X509_gmtime_adj(X509_getm_notAfter(certificate), seconds));
	assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
	fclose(from);
	fclose(key_file);
	to = fopen(path, "w");
	assert_int_equal(PEM_write_X509(to, certificate), 1);
	fclose(to);
	X509_free(certificate);
	EVP_PKEY_free(key);
}

/* Of two the one that ends later stays known, and ends in its turn. */
static void who_expires_is_refused_also_while_connected(void **state)
{
	struct tls *server = use("server", true), *clients[2];
	static const char *const names[] = { "first", "second" };
	struct pair c[2];
	uint64_t before;

	(void)state;
	for (int i = 0; i < 2; i++) {
		tenant_certificate("ca", names[i], names[i]);
		end_soon("ca", names[i], 4 + 3 * i);
		clients[i] = use(names[i], false);
		join(&c[i], clients[i], server);
		assert_true(talk(&c[i]));
		assert_false(stream_is_refused(&c[i].server, server));
	}
	before = tls_look(server);
	assert_true(changes(server, before));
	assert_true(stream_is_refused(&c[0].server, server));
	assert_false(stream_is_refused(&c[1].server, server));
	assert_false(meet(clients[0], server));
	before = tls_look(server);
	assert_true(changes(server, before));
	assert_true(stream_is_refused(&c[1].server, server));
	for (int i = 0; i < 2; i++) {
		part(&c[i]);
		tls_destroy(clients[i]);
	}
	tls_destroy(server);
}

static void a_server_that_is_revoked_is_left(void **state)
{
	struct tls *server = use("server", true), *client = use("client", false);
	uint64_t before = tls_look(client);
	struct pair c;

	(void)state;
	join(&c, client, server);
	assert_true(talk(&c));
	revoke_at("ca", "server", "client");
	assert_true(changes(client, before));
	assert_true(stream_is_refused(&c.client, client));
	assert_false(meet(client, server));
	part(&c);
	tls_destroy(client);
	tls_destroy(server);
}

/* Connections that are there go on; new ones have the new certificate. */
static void a_certificate_is_replaced_without_a_restart(void **state)
{
	struct tls *server = use("server", true), *client = use("client", false);
	uint64_t before = tls_look(client);
	struct pair c;

	(void)state;
	join(&c, client, server);
	assert_true(talk(&c));
	revoke_at("ca", "server", "client"); /* so it shows which one the server has */
	assert_true(changes(client, before));
	assert_false(meet(client, server));
	server_certificate("ca", "server");
	assert_true(comes_true(meet, client, server));
	assert_false(stream_is_refused(&c.server, server));
	part(&c);
	tls_destroy(client);
	tls_destroy(server);
}

static void bad_files_change_nothing(void **state)
{
	struct tls *server = use("server", true), *client = use("client", false);

	(void)state;
	authority("other");
	log_set_level(LOG_ERROR);
	for (int i = 0; i < 4; i++) {
		static const char *const harm[] = { "cp %s/client/key.pem %s/server/key.pem",
						    "rm -f %s/server/crl.pem; true %s", "echo none >%s/server/ca.pem; true %s",
						    "cp %s/other/crl.pem %s/server/crl.pem" };

		run("rm -rf %s/kept && cp -rp %s/server %s/kept", top, top, top);
		run(harm[i], top, top);
		for (int k = 0; k < 12; k++) {
			assert_true(meet(client, server));
			usleep(100000);
		}
		run("rm -rf %s/server && cp -rp %s/kept %s/server", top, top, top);
	}
	tls_destroy(client);
	tls_destroy(server);
}

/* Descriptors run out for some looks: the files are there all the same, and do not change again. */
static void what_could_not_be_read_for_a_while_is_read_then(void **state)
{
	struct tls *server = use("server", true);
	uint64_t before = tls_look(server);
	struct rlimit limit, none;

	(void)state;
	log_set_level(LOG_ERROR);
	revoke_at("ca", "client", "server");
	getrlimit(RLIMIT_NOFILE, &limit);
	none = (struct rlimit){ 0, limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (int i = 0; i < 250; i++) { /* five looks or so: it fails at each */
		assert_int_equal(tls_look(server), before);
		usleep(10000);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_true(changes(server, before));
	tls_destroy(server);
}

static void a_list_that_comes_later_is_in_force_then_and_does_not_go_with_its_file(void **state)
{
	cleanup_path char *certificate = file("server", "cert.pem"), *key = file("server", "key.pem");
	cleanup_path char *authorities = file("server", "ca.pem"), *revoked = file("server", "crl.pem");
	struct tls_files f = { certificate, key, authorities, revoked };
	struct tls *server, *client = use("client", false);
	struct problem p = { "" };
	uint64_t before;

	(void)state;
	log_set_level(LOG_ERROR);
	run("rm %s", revoked);
	assert_null(tls_create(&f, true, &p)); /* who says that there is one must have it */
	assert_non_null(strstr(p.text, "crl.pem"));
	f.may_lack_list = true;
	p.text[0] = 0;
	server = tls_create(&f, true, &p);
	assert_string_equal(p.text, "");
	before = tls_look(server);
	assert_true(meet(client, server));
	revoke_at("ca", "client", "server");
	assert_true(changes(server, before));
	assert_false(meet(client, server));
	run("rm %s", revoked);
	for (int i = 0; i < 15; i++) {
		assert_false(meet(client, server));
		usleep(100000);
	}
	tls_destroy(server);
	tls_destroy(client);
}

static void other_authorities_end_what_is_connected(void **state)
{
	struct tls *server = use("server", true), *client = use("client", false);
	uint64_t before = tls_look(server);
	struct pair c;

	(void)state;
	authority("other");
	join(&c, client, server);
	assert_true(talk(&c));
	run("cd %s && rm server/crl.pem && cat other/crl.pem ca/crl.pem >server/crl.pem && cp other/ca.pem server/ca.pem && "
	    "cat ca/ca.pem >>server/ca.pem",
	    top);
	assert_true(changes(server, before));
	assert_true(stream_is_refused(&c.server, server)); /* it may come back */
	assert_true(meet(client, server));
	part(&c);
	tls_destroy(client);
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
		cmocka_unit_test_setup_teardown(who_is_refused_may_go_on_and_reads_why, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_cannot_send_reads_what_was_said_before, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_came_before_a_send_failed_is_received, set_up, tear_down),
		cmocka_unit_test_setup_teardown(whoever_is_refused_says_why, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_is_revoked_is_refused_also_while_connected, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_expires_is_refused_also_while_connected, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_server_that_is_revoked_is_left, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_certificate_is_replaced_without_a_restart, set_up, tear_down),
		cmocka_unit_test_setup_teardown(bad_files_change_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_could_not_be_read_for_a_while_is_read_then, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_list_that_comes_later_is_in_force_then_and_does_not_go_with_its_file, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(other_authorities_end_what_is_connected, set_up, tear_down),
	};

	signal(SIGPIPE, SIG_IGN); /* as in every process of StratusFS */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
