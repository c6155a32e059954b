/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and certificates. The keys are ECDSA with P-256: the one kind that every TLS 1.3 library must have (RFC 8446, section 9.1), and
 * that hardware modules and FIPS builds have, too, which is not so of Ed25519. */
#include <arpa/inet.h>
#include <errno.h>
#include <openssl/bn.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"
#include "path.h"

enum { DAY_S = 86400, SERIAL_BYTES = (CA_SERIAL_TEXT - 1) / 2, SKEW_S = 300 /* clocks that are slow */ };

EVP_PKEY *key_make(void)
{
	return EVP_EC_gen("P-256");
}

static char *take_pem(BIO *text, int written)
{
	char *bytes;
	long size = BIO_get_mem_data(text, &bytes);
	char *copy = written == 1 ? strndup(bytes, size) : NULL;

	BIO_free(text);
	return copy;
}

char *key_pem(EVP_PKEY *key)
{
	BIO *text = BIO_new(BIO_s_secmem());

	return text ? take_pem(text, PEM_write_bio_PrivateKey(text, key, NULL, NULL, 0, NULL, NULL)) : NULL;
}

char *certificate_pem(X509 *certificate)
{
	BIO *text = BIO_new(BIO_s_mem());

	return text ? take_pem(text, PEM_write_bio_X509(text, certificate)) : NULL;
}

void pems_free(struct pems *p)
{
	if (p->key)
		OPENSSL_cleanse(p->key, strlen(p->key));
	free(p->key);
	free(p->certificate);
	*p = (struct pems){ NULL };
}

/* ---- the parts of a certificate ---- */

/* Random, so that nothing has to be counted: 127 bits, never 0 (RFC 5280, section 4.1.2.2). */
static int put_serial(X509 *c, char text[CA_SERIAL_TEXT])
{
	unsigned char bytes[SERIAL_BYTES];
	BIGNUM *number;
	int ok;

	if (RAND_bytes(bytes, sizeof bytes) != 1)
		return -EIO;
	bytes[0] = (bytes[0] & 0x7f) | 0x40; /* as many digits each time */
	for (size_t i = 0; i < sizeof bytes; i++)
		sprintf(text + 2 * i, "%02x", bytes[i]);
	number = BN_bin2bn(bytes, sizeof bytes, NULL);
	ok = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(c));
	BN_free(number);
	return ok ? 0 : -ENOMEM;
}

static int put_names(X509 *c, const char *name, X509 *issuer)
{
	X509_NAME *own = X509_get_subject_name(c);

	return X509_NAME_add_entry_by_txt(own, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1, 0) &&
			       X509_set_issuer_name(c, issuer ? X509_get_subject_name(issuer) : own)
		       ? 0
		       : -ENOMEM;
}

static int put_times(X509 *c, time_t since, time_t until)
{
	return ASN1_TIME_set(X509_getm_notBefore(c), since) && ASN1_TIME_set(X509_getm_notAfter(c), until) ? 0 : -ENOMEM;
}

struct extension {
	int kind;
	const char *value;
};

static int put_extensions(X509 *c, X509 *issuer, const struct extension *e)
{
	X509V3_CTX context;

	X509V3_set_ctx(&context, issuer, c, NULL, NULL, 0);
	for (; e->kind; e++) {
		X509_EXTENSION *one = X509V3_EXT_conf_nid(NULL, &context, e->kind, e->value);
		int ok = one && X509_add_ext(c, one, -1);

		X509_EXTENSION_free(one);
		if (!ok)
			return -ENOMEM;
	}
	return 0;
}

static int put_name(GENERAL_NAMES *names, int type, const void *bytes, int size)
{
	GENERAL_NAME *one = GENERAL_NAME_new();
	ASN1_STRING *value = ASN1_STRING_type_new(type == GEN_IPADD ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);

	if (!one || !value || !ASN1_STRING_set(value, bytes, size) || !sk_GENERAL_NAME_push(names, one)) {
		GENERAL_NAME_free(one);
		ASN1_STRING_free(value);
		return -ENOMEM;
	}
	GENERAL_NAME_set0_value(one, type, value);
	return 0;
}

static int put_host(GENERAL_NAMES *names, const char *host)
{
	struct in6_addr address;

	if (inet_pton(AF_INET, host, &address) == 1)
		return put_name(names, GEN_IPADD, &address, 4);
	if (inet_pton(AF_INET6, host, &address) == 1)
		return put_name(names, GEN_IPADD, &address, 16);
	return put_name(names, GEN_DNS, host, strlen(host));
}

static int put_alternative_names(X509 *c, const struct subject *s)
{
	GENERAL_NAMES *names = GENERAL_NAMES_new();
	int err = names ? put_name(names, GEN_URI, s->uri, strlen(s->uri)) : -ENOMEM;

	for (size_t i = 0; i < s->hosts && !err; i++)
		err = put_host(names, s->host[i]);
	if (!err && X509_add1_ext_i2d(c, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) != 1)
		err = -ENOMEM;
	GENERAL_NAMES_free(names);
	return err;
}

/* ---- certificates ---- */

X509 *authority_certificate(EVP_PKEY *key, const char *name, unsigned days)
{
	static const struct extension extensions[] = {
		{ NID_basic_constraints, "critical,CA:TRUE,pathlen:0" },
		{ NID_key_usage, "critical,keyCertSign,cRLSign" },
		{ NID_subject_key_identifier, "hash" },
		{ 0 },
	};
	X509 *c = X509_new();
	char serial[CA_SERIAL_TEXT];
	time_t now = time(NULL);

	if (c && X509_set_version(c, X509_VERSION_3) && !put_serial(c, serial) && !put_names(c, name, NULL) &&
	    !put_times(c, now - SKEW_S, now + (time_t)days * DAY_S) && X509_set_pubkey(c, key) &&
	    !put_extensions(c, c, extensions) && X509_sign(c, key, EVP_sha256()))
		return c;
	X509_free(c);
	return NULL;
}

/* Servers are each other's clients. */
static X509 *leaf(const struct authority *a, const struct subject *s, EVP_PKEY *key, time_t since, time_t until,
		  char serial[CA_SERIAL_TEXT])
{
	const struct extension extensions[] = {
		{ NID_basic_constraints, "critical,CA:FALSE" },
		{ NID_key_usage, "critical,digitalSignature" },
		{ NID_ext_key_usage, s->hosts ? "serverAuth,clientAuth" : "clientAuth" },
		{ NID_subject_key_identifier, "hash" },
		{ NID_authority_key_identifier, "keyid" },
		{ 0 },
	};
	X509 *c = X509_new();

	if (c && X509_set_version(c, X509_VERSION_3) && !put_serial(c, serial) && !put_names(c, s->name, a->certificate) &&
	    !put_times(c, since, until) && X509_set_pubkey(c, key) && !put_extensions(c, a->certificate, extensions) &&
	    !put_alternative_names(c, s) && X509_sign(c, a->key, EVP_sha256()))
		return c;
	X509_free(c);
	return NULL;
}

static time_t time_of(const ASN1_TIME *t)
{
	struct tm tm;

	return ASN1_TIME_to_tm(t, &tm) ? timegm(&tm) : 0;
}

/* No certificate outlives its authority. */
static int choose_end(const struct authority *a, unsigned days, time_t now, time_t *until, struct problem *p)
{
	time_t end = time_of(X509_get0_notAfter(a->certificate));

	*until = now + (time_t)(days ? days : CA_DAYS_LEAF) * DAY_S;
	if (end <= now)
		return problem_set(
			p, EINVAL,
			"the authority in %s has expired: make a new one with `stratus ca init` in another directory",
			a->directory);
	if (days && *until > end)
		return problem_set(p, EINVAL, "the authority itself ends in %lld days: take no more than these",
				   (long long)(end - now) / DAY_S);
	if (*until > end)
		*until = end;
	return 0;
}

static char *names_of(const struct subject *s)
{
	char *all = path_format("%s", s->hosts ? s->host[0] : s->name);

	for (size_t i = 1; i < s->hosts; i++) {
		char *more = path_format("%s,%s", all, s->host[i]);

		free(all);
		all = more;
	}
	return all;
}

int authority_issue(struct authority *a, const struct subject *s, unsigned days, struct pems *made, char serial[CA_SERIAL_TEXT],
		    struct problem *p)
{
	time_t now = time(NULL), until;
	int err = choose_end(a, days, now, &until, p);
	cleanup_path char *names = names_of(s);
	EVP_PKEY *key;
	X509 *c;

	*made = (struct pems){ NULL };
	if (err)
		return err;
	key = key_make();
	c = key ? leaf(a, s, key, now - SKEW_S, until, serial) : NULL;
	if (c)
		*made = (struct pems){ certificate_pem(c), key_pem(key) };
	if (!made->certificate || !made->key)
		err = crypto_problem(p, "can't make the certificate");
	else
		err = registry_add(a, p, "issued %s %lld %lld %s %s", serial, (long long)now, (long long)until, s->uri, names);
	X509_free(c);
	EVP_PKEY_free(key);
	if (err)
		pems_free(made);
	return err;
}
