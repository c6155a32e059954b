/* SPDX-License-Identifier: Apache-2.0 */
/* TLS between two streams of one process: certificates are revoked, expire, and are replaced, and files change, while they are connected. */
#include "tls-test.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ca.h"
#include "log.h"
#include "path.h"

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

static void why_refused(const char *ca, const char *name, struct tls *server, char *why, size_t size)
{
	struct tls *client;
	struct pair c;

	tenant_certificate(ca, name, name);
	end_soon(ca, name, -86400);
	client = use(name, false);
	join(&c, client, server);
	assert_false(talk(&c));
	snprintf(why, size, "%s", c.server.trouble);
	part(&c);
	tls_destroy(client);
}

/* But not who says so himself. */
static void whose_certificate_has_expired_is_told(void **state)
{
	struct tls *server = use("server", true);
	char why[400];

	(void)state;
	why_refused("ca", "late", server, why, sizeof(why));
	assert_non_null(strstr(why, "TLS: the certificate of stratus:tenant/late has expired on 2"));
	authority("others");
	why_refused("others", "liar", server, why, sizeof(why));
	assert_memory_equal(why, "TLS: ", 5);
	assert_null(strstr(why, "liar"));
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

const struct CMUnitTest changed_tests[] = {
	cmocka_unit_test_setup_teardown(who_is_revoked_is_refused_also_while_connected, set_up, tear_down),
	cmocka_unit_test_setup_teardown(who_expires_is_refused_also_while_connected, set_up, tear_down),
	cmocka_unit_test_setup_teardown(whose_certificate_has_expired_is_told, set_up, tear_down),
	cmocka_unit_test_setup_teardown(a_server_that_is_revoked_is_left, set_up, tear_down),
	cmocka_unit_test_setup_teardown(a_certificate_is_replaced_without_a_restart, set_up, tear_down),
	cmocka_unit_test_setup_teardown(bad_files_change_nothing, set_up, tear_down),
	cmocka_unit_test_setup_teardown(what_could_not_be_read_for_a_while_is_read_then, set_up, tear_down),
	cmocka_unit_test_setup_teardown(a_list_that_comes_later_is_in_force_then_and_does_not_go_with_its_file, set_up,
					tear_down),
	cmocka_unit_test_setup_teardown(other_authorities_end_what_is_connected, set_up, tear_down),
};
const unsigned changed_tests_count = sizeof(changed_tests) / sizeof(changed_tests[0]);
