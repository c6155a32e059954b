/* SPDX-License-Identifier: Apache-2.0 */
/* The authority: what it issues is listed and good for what it is for, what it revokes is on the list, and a crash at any line of
 * the registry loses neither. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ca.h"
#include "log.h"
#include "path.h"

static char directory[64];

static int set_up(void **state)
{
	bool made;
	struct problem p = { "" };

	(void)state;
	test_directory(directory, sizeof(directory), "stratus-ca");
	assert_int_equal(authority_init(directory, "Test", 100, &made, &p), 0);
	assert_true(made);
	return 0;
}

static int tear_down(void **state)
{
	cleanup_path char *command = path_format("rm -rf %s", directory);

	(void)state;
	return system(command);
}

static X509 *certificate_of(const char *pem)
{
	BIO *text = BIO_new_mem_buf(pem, -1);
	X509 *c = PEM_read_bio_X509(text, NULL, NULL, NULL);

	BIO_free(text);
	assert_non_null(c);
	return c;
}

static X509_CRL *read_list(void)
{
	cleanup_path char *path = path_format("%s/crl.pem", directory);
	FILE *file = fopen(path, "r");
	X509_CRL *list;

	assert_non_null(file);
	list = PEM_read_X509_CRL(file, NULL, NULL, NULL);
	fclose(file);
	assert_non_null(list);
	return list;
}

static X509 *read_authority(void)
{
	cleanup_path char *path = path_format("%s/ca.pem", directory);
	struct problem p = { "" };
	size_t size;
	cleanup_path char *pem = path_read(path, 1 << 20, &size, &p);

	return certificate_of(pem);
}

/* As a handshake would judge it, with the revocation list. */
static int verdict(const char *pem, int purpose)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *context = X509_STORE_CTX_new();
	X509 *c = certificate_of(pem), *authority = read_authority();
	X509_CRL *list = read_list();
	int code;

	X509_STORE_add_cert(store, authority);
	X509_STORE_add_crl(store, list);
	X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_X509_STRICT);
	X509_STORE_CTX_init(context, store, c, NULL);
	X509_STORE_CTX_set_purpose(context, purpose);
	X509_verify_cert(context);
	code = X509_STORE_CTX_get_error(context);
	X509_STORE_CTX_free(context);
	X509_STORE_free(store);
	X509_CRL_free(list);
	X509_free(authority);
	X509_free(c);
	return code;
}

static void issue(const struct subject *s, struct pems *pems, char serial[CA_SERIAL_TEXT])
{
	struct problem p = { "" };
	struct authority *a;

	assert_int_equal(authority_open(directory, &a, &p), 0);
	assert_int_equal(authority_issue(a, s, 0, pems, serial, &p), 0);
	authority_close(a);
}

static void put_on_list(const char *serial, bool expected)
{
	struct problem p = { "" };
	struct authority *a;
	bool already;

	assert_int_equal(authority_open(directory, &a, &p), 0);
	assert_int_equal(authority_revoke(a, serial, &already, &p), 0);
	assert_int_equal(already, expected);
	authority_close(a);
}

/* ---- the tests ---- */

static void a_server_can_serve_and_a_client_cannot(void **state)
{
	struct problem p = { "" };
	struct subject server, client;
	struct pems of_server, of_client;
	char serial[CA_SERIAL_TEXT];
	X509 *c;

	(void)state;
	assert_int_equal(subject_server(&server, "alpha.example,10.0.0.1,::1", &p), 0);
	assert_int_equal(subject_named(&client, "tenant", "acme", &p), 0);
	issue(&server, &of_server, serial);
	issue(&client, &of_client, serial);
	assert_int_equal(verdict(of_server.certificate, X509_PURPOSE_SSL_SERVER), X509_V_OK);
	assert_int_equal(verdict(of_server.certificate, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
	assert_int_equal(verdict(of_client.certificate, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
	assert_int_equal(verdict(of_client.certificate, X509_PURPOSE_SSL_SERVER), X509_V_ERR_INVALID_PURPOSE);
	c = certificate_of(of_server.certificate);
	assert_int_equal(X509_check_host(c, "alpha.example", 0, 0, NULL), 1);
	assert_int_equal(X509_check_ip_asc(c, "10.0.0.1", 0), 1);
	assert_int_equal(X509_check_ip_asc(c, "::1", 0), 1);
	assert_int_equal(X509_check_host(c, "beta.example", 0, 0, NULL), 0);
	X509_free(c);
	subject_free(&server);
	pems_free(&of_server);
	pems_free(&of_client);
}

static void what_is_revoked_is_refused_and_stays_so(void **state)
{
	struct problem p = { "" };
	struct subject s;
	struct pems one, other;
	char first[CA_SERIAL_TEXT], second[CA_SERIAL_TEXT];

	(void)state;
	assert_int_equal(subject_named(&s, "client", "one", &p), 0);
	issue(&s, &one, first);
	issue(&s, &other, second);
	assert_string_not_equal(first, second);
	put_on_list(first, false);
	assert_int_equal(verdict(one.certificate, X509_PURPOSE_SSL_CLIENT), X509_V_ERR_CERT_REVOKED);
	assert_int_equal(verdict(other.certificate, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
	put_on_list(first, true);
	put_on_list(second, false);
	assert_int_equal(verdict(one.certificate, X509_PURPOSE_SSL_CLIENT), X509_V_ERR_CERT_REVOKED);
	assert_int_equal(verdict(other.certificate, X509_PURPOSE_SSL_CLIENT), X509_V_ERR_CERT_REVOKED);
	pems_free(&one);
	pems_free(&other);
}

static unsigned long list_number(void)
{
	X509_CRL *list = read_list();
	ASN1_INTEGER *number = X509_CRL_get_ext_d2i(list, NID_crl_number, NULL, NULL);
	unsigned long value = ASN1_INTEGER_get(number);

	ASN1_INTEGER_free(number);
	X509_CRL_free(list);
	return value;
}

static void each_list_has_a_greater_number(void **state)
{
	struct problem p = { "" };
	struct subject s;
	struct pems pems;
	char serial[CA_SERIAL_TEXT];
	unsigned long before = list_number();

	(void)state;
	assert_int_equal(subject_named(&s, "client", "one", &p), 0);
	issue(&s, &pems, serial);
	put_on_list(serial, false);
	assert_true(list_number() > before);
	pems_free(&pems);
}

static void an_authority_is_never_overwritten(void **state)
{
	struct problem p = { "" };
	X509 *before = read_authority(), *after;
	bool made;

	(void)state;
	assert_int_equal(authority_init(directory, "Other", 10, &made, &p), 0);
	assert_false(made);
	after = read_authority();
	assert_int_equal(X509_cmp(before, after), 0);
	X509_free(before);
	X509_free(after);
}

/* All files but ca.pem, which is written last: the same key goes on. */
static void an_init_that_was_cut_short_is_finished(void **state)
{
	cleanup_path char *path = path_format("%s/ca.pem", directory);
	struct problem p = { "" };
	struct authority *a;
	X509 *before = read_authority(), *after;
	bool made;

	(void)state;
	assert_int_equal(unlink(path), 0);
	assert_int_equal(authority_open(directory, &a, &p), -ENOENT);
	assert_non_null(strstr(p.text, "stratus ca init"));
	p.text[0] = 0;
	assert_int_equal(authority_init(directory, "Test", 10, &made, &p), 0);
	assert_true(made);
	after = read_authority();
	assert_int_equal(EVP_PKEY_eq(X509_get0_pubkey(before), X509_get0_pubkey(after)), 1);
	X509_free(before);
	X509_free(after);
}

/* What a crash leaves of the last line is not read, and goes when the next is added; no whole line is lost. */
static void a_line_that_is_cut_off_does_not_count(void **state)
{
	cleanup_path char *path = path_format("%s/registry", directory);
	struct problem p = { "" };
	struct subject s;
	struct pems pems;
	char serial[CA_SERIAL_TEXT];
	struct authority *a;
	size_t count;
	FILE *file;

	(void)state;
	assert_int_equal(subject_named(&s, "client", "one", &p), 0);
	issue(&s, &pems, serial);
	pems_free(&pems);
	file = fopen(path, "a");
	fprintf(file, "issued 0123456789abcdef0123");
	fclose(file);
	issue(&s, &pems, serial);
	pems_free(&pems);
	assert_int_equal(authority_open(directory, &a, &p), 0);
	assert_string_equal(authority_list(a, &count)[1].serial, serial);
	assert_int_equal(count, 2);
	authority_close(a);
}

static void a_damaged_registry_is_not_used(void **state)
{
	cleanup_path char *path = path_format("%s/registry", directory);
	struct problem p = { "" };
	struct authority *a;
	FILE *file = fopen(path, "a");

	(void)state;
	fprintf(file, "revoked 0123456789abcdef0123456789abcdef 5\n");
	fclose(file);
	assert_int_equal(authority_open(directory, &a, &p), -EINVAL);
	assert_non_null(strstr(p.text, "registry:2: "));
}

static void bad_names_are_refused(void **state)
{
	static const char *const hosts[] = { "", "a,,b", "*.example", "a b", "-a", "a..b", "10.0.0.256", "a:1", "a\n" };
	static const char *const points[] = { "", "a", "/b", "a/", "a/b/c", "a//b", "a/.b" };
	static const char *const names[] = { "", "a/b", "a b", ".a", "-a", "\xc3\xa4" };
	static const char *const uris[] = { "",
					    "stratus:",
					    "stratus:server",
					    "stratus:admin/x",
					    "stratus:tenant/",
					    "stratus:tenant/a/",
					    "stratus:tenant/a/b",
					    "stratus:tenant/a/b/c",
					    "stratus:tenant/a/access/b/c",
					    "stratus:tenant/a/admin/b",
					    "stratus:client/a/b",
					    "https://example.org/",
					    "stratus:tenant/a b" };
	struct problem p;
	struct subject s;

	(void)state;
	for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
		p = (struct problem){ "" };
		assert_int_equal(subject_server(&s, hosts[i], &p), -EINVAL);
		subject_free(&s);
	}
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		assert_int_equal(subject_named(&s, "client", names[i], &p), -EINVAL);
	for (size_t i = 0; i < sizeof uris / sizeof *uris; i++)
		assert_int_equal(subject_uri(&s, uris[i], &p), -EINVAL);
	for (size_t i = 0; i < sizeof points / sizeof *points; i++)
		assert_int_equal(subject_access(&s, points[i], &p), -EINVAL);
	assert_int_equal(subject_tenant_admin(&s, "a/b", &p), -EINVAL);
	assert_int_equal(subject_uri(&s, "stratus:tenant/acme/access/photos", &p), 0);
	assert_string_equal(s.uri, "stratus:tenant/acme/access/photos");
	assert_string_equal(s.name, "photos");
	assert_int_equal(subject_access(&s, "acme/web", &p), 0);
	assert_string_equal(s.uri, "stratus:tenant/acme/access/web");
	assert_int_equal(subject_tenant_admin(&s, "acme", &p), 0);
	assert_string_equal(s.uri, "stratus:tenant/acme/admin");
	assert_string_equal(s.name, "acme");
}

static void keys_are_their_owners_alone(void **state)
{
	cleanup_path char *out = path_format("%s/out", directory), *key = path_format("%s/key.pem", out);
	cleanup_path char *ca = path_format("%s/ca.key", directory);
	struct problem p = { "" };
	struct subject s;
	struct pems pems;
	struct authority *a;
	char serial[CA_SERIAL_TEXT];
	struct stat st;

	(void)state;
	assert_int_equal(subject_named(&s, "admin", "one", &p), 0);
	issue(&s, &pems, serial);
	assert_int_equal(authority_open(directory, &a, &p), 0);
	assert_int_equal(authority_install(a, &pems, out, false, &p), 0);
	assert_int_equal(authority_install(a, &pems, out, false, &p), -EEXIST);
	p.text[0] = 0;
	assert_int_equal(authority_install(a, &pems, out, true, &p), 0);
	authority_close(a);
	assert_int_equal(stat(key, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(stat(ca, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	pems_free(&pems);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_server_can_serve_and_a_client_cannot, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_revoked_is_refused_and_stays_so, set_up, tear_down),
		cmocka_unit_test_setup_teardown(each_list_has_a_greater_number, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_authority_is_never_overwritten, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_init_that_was_cut_short_is_finished, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_line_that_is_cut_off_does_not_count, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_damaged_registry_is_not_used, set_up, tear_down),
		cmocka_unit_test_setup_teardown(keys_are_their_owners_alone, set_up, tear_down),
		cmocka_unit_test(bad_names_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
