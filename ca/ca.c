/* SPDX-License-Identifier: Apache-2.0 */
/* The authority's directory: ca.key (0600), ca.pem, registry, crl.pem. ca.pem is made last: what has none is not an authority yet. */
#include "ca.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "parts.h"
#include "path.h"

enum { PEM_MAX = 1 << 20 };

int crypto_problem(struct problem *p, const char *what)
{
	unsigned long code = ERR_peek_error(); /* the first is the cause */
	const char *why = ERR_reason_error_string(code);

	ERR_clear_error();
	return problem_set(p, EIO, "%s: %s", what, why ? why : "out of memory");
}

char *ca_path(const char *directory, const char *name)
{
	return path_format("%s/%s", directory, name);
}

/* ---- reading ---- */

static X509 *parse_certificate(const char *pem)
{
	BIO *text = BIO_new_mem_buf(pem, -1);
	X509 *c = text ? PEM_read_bio_X509(text, NULL, NULL, NULL) : NULL;

	BIO_free(text);
	return c;
}

static int no_password(char *text, int size, int writing, void *arg)
{
	(void)text, (void)size, (void)writing, (void)arg;
	return 0;
}

static EVP_PKEY *read_key(const char *directory, struct problem *p)
{
	cleanup_path char *path = ca_path(directory, "ca.key");
	FILE *file = fopen(path, "re");
	EVP_PKEY *key = NULL;

	if (!file) {
		problem_set(p, errno, "can't read %s: %m", path);
		return NULL;
	}
	key = PEM_read_PrivateKey(file, NULL, no_password, NULL);
	fclose(file);
	if (!key)
		crypto_problem(p, "the authority's ca.key is no unencrypted private key");
	return key;
}

static int read_files(struct authority *a, struct problem *p)
{
	cleanup_path char *path = ca_path(a->directory, "ca.pem");
	size_t size;

	a->pem = path_read(path, PEM_MAX, &size, p);
	if (!a->pem)
		return -EIO;
	a->certificate = parse_certificate(a->pem);
	if (!a->certificate)
		return crypto_problem(p, "the authority's ca.pem is no certificate");
	a->key = read_key(a->directory, p);
	if (!a->key)
		return -EIO;
	if (!X509_check_private_key(a->certificate, a->key)) {
		ERR_clear_error();
		return problem_set(p, EINVAL, "%s/ca.key is not the key of the certificate ca.pem there", a->directory);
	}
	return registry_read(a, p);
}

/* -ENOENT: there is no such directory. */
static int lock_directory(const char *directory, struct problem *p)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0 && !TEMP_FAILURE_RETRY(flock(fd, LOCK_EX)))
		return fd;
	if (fd >= 0)
		close(fd);
	return problem_set(p, errno, "can't use the authority in %s: %m%s", directory,
			   errno == ENOENT ? "; `stratus ca init` makes one" : "");
}

int authority_open(const char *directory, struct authority **opened, struct problem *p)
{
	cleanup_path char *file = ca_path(directory, "ca.pem");
	struct authority *a = calloc(1, sizeof *a);
	int err = a ? 0 : -ENOMEM;

	if (err)
		return err;
	a->directory = path_format("%s", directory);
	a->lock = lock_directory(directory, p);
	if (a->lock < 0)
		err = a->lock;
	else if (access(file, F_OK))
		err = problem_set(p, ENOENT, "there is no authority in %s: `stratus ca init` makes one", directory);
	else
		err = read_files(a, p);
	if (err)
		authority_close(a);
	else
		*opened = a;
	return err;
}

void authority_close(struct authority *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->count; i++) {
		free(a->issued[i].uri);
		free(a->issued[i].names);
	}
	free(a->issued);
	X509_free(a->certificate);
	EVP_PKEY_free(a->key);
	free(a->pem);
	free(a->directory);
	if (a->lock >= 0)
		close(a->lock);
	free(a);
}

const struct issued *authority_list(const struct authority *a, size_t *count)
{
	*count = a->count;
	return a->issued;
}

/* ---- making ---- */

static int check_new_name(const char *name, struct problem *p)
{
	for (const char *at = name; *at; at++)
		if ((unsigned char)*at < ' ' || (unsigned char)*at > '~')
			return problem_set(p, EINVAL, "the name of an authority is of visible ASCII characters and blanks");
	return *name && strlen(name) <= 64 ? 0 : problem_set(p, EINVAL, "the name of an authority has 1 to 64 characters");
}

/* The key of an init that was cut short has signed nothing: it does. */
static EVP_PKEY *own_key(const char *directory, struct problem *p)
{
	cleanup_path char *path = ca_path(directory, "ca.key"), *pem = NULL;
	EVP_PKEY *key;

	if (!access(path, F_OK))
		return read_key(directory, p);
	key = key_make();
	pem = key ? key_pem(key) : NULL;
	if (!pem)
		crypto_problem(p, "can't make a key");
	else
		path_write_mode(path, pem, strlen(pem), 0600, p);
	if (pem)
		OPENSSL_cleanse(pem, strlen(pem));
	if (!p->text[0])
		return key;
	EVP_PKEY_free(key);
	return NULL;
}

static int make(struct authority *a, const char *name, unsigned days, struct problem *p)
{
	cleanup_path char *path = ca_path(a->directory, "ca.pem");
	int err;

	a->key = own_key(a->directory, p);
	if (!a->key)
		return -EIO;
	a->certificate = authority_certificate(a->key, name, days);
	a->pem = a->certificate ? certificate_pem(a->certificate) : NULL;
	if (!a->pem)
		return crypto_problem(p, "can't make the authority's certificate");
	err = registry_create(a->directory, p);
	if (!err)
		err = registry_read(a, p);
	if (!err)
		err = list_write(a, p);
	return err ? err : path_write(path, a->pem, strlen(a->pem), p);
}

int authority_init(const char *directory, const char *name, unsigned days, bool *made, struct problem *p)
{
	cleanup_path char *file = ca_path(directory, "ca.pem");
	struct authority *a;
	int err = check_new_name(name, p);

	*made = false;
	if (err)
		return err;
	path_make_parents(directory);
	err = path_make_directory(directory, 0700, p);
	a = err ? NULL : calloc(1, sizeof *a);
	if (!a)
		return err ? err : -ENOMEM;
	a->directory = path_format("%s", directory);
	a->lock = lock_directory(directory, p);
	if (a->lock < 0) {
		err = a->lock;
	} else if (access(file, F_OK)) {
		err = make(a, name, days, p);
		*made = !err;
	} else {
		err = read_files(a, p);
	}
	authority_close(a);
	return err;
}

/* ---- revoking ---- */

int authority_revoke(struct authority *a, const char *serial, bool *already, struct problem *p)
{
	const struct issued *one = registry_find(a, serial);
	int err = 0;

	if (!one)
		return problem_set(p, ENOENT,
				   "no certificate with the serial number %s was issued by the authority in %s: "
				   "`stratus cert list` has them",
				   serial, a->directory);
	*already = one->revoked;
	if (!*already)
		err = registry_add(a, p, "revoked %s %lld", serial, (long long)time(NULL));
	return err ? err : list_write(a, p);
}

/* "AB:CD:..." and "abcd...": as it stands in the registry. */
static bool parse_serial(const char *text, char serial[CA_SERIAL_TEXT])
{
	size_t digits = 0;

	for (; *text; text++) {
		if (*text == ':' && digits)
			continue;
		if (!isxdigit((unsigned char)*text) || digits == CA_SERIAL_TEXT - 1)
			return false;
		serial[digits++] = (char)tolower((unsigned char)*text);
	}
	serial[digits] = '\0';
	return digits == CA_SERIAL_TEXT - 1;
}

static int serial_of(const struct authority *a, X509 *c, const char *path, char serial[CA_SERIAL_TEXT], struct problem *p)
{
	EVP_PKEY *key = X509_get0_pubkey(a->certificate);
	BIGNUM *number;
	char *text;
	bool fits;

	if (X509_verify(c, key) != 1) {
		ERR_clear_error();
		return problem_set(p, EINVAL, "%s was not issued by the authority in %s", path, a->directory);
	}
	number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(c), NULL);
	text = number ? BN_bn2hex(number) : NULL;
	fits = text && parse_serial(text, serial);
	OPENSSL_free(text);
	BN_free(number);
	return fits ? 0 : problem_set(p, EINVAL, "%s has a serial number that `stratus cert` does not give", path);
}

int authority_serial(const struct authority *a, const char *text, char serial[CA_SERIAL_TEXT], struct problem *p)
{
	size_t size;
	char *pem;
	X509 *c;
	int err;

	if (parse_serial(text, serial))
		return 0;
	if (access(text, F_OK))
		return problem_set(p, ENOENT, "'%.200s' is neither a serial number (%d hexadecimal digits) nor a file", text,
				   CA_SERIAL_TEXT - 1);
	pem = path_read(text, PEM_MAX, &size, p);
	if (!pem)
		return -EIO;
	c = parse_certificate(pem);
	free(pem);
	if (!c) {
		ERR_clear_error();
		return problem_set(p, EINVAL, "%s is no certificate in PEM", text);
	}
	err = serial_of(a, c, text, serial, p);
	X509_free(c);
	return err;
}

/* ---- what a process needs, in a directory ---- */

static bool is_there(const char *directory, const char *name)
{
	cleanup_path char *path = ca_path(directory, name);

	return !access(path, F_OK);
}

/* 0: there is none, 1: it has ours, too, 2: it has ours and nothing else. */
static int trust(const struct authority *a, const char *directory, struct problem *p)
{
	cleanup_path char *path = ca_path(directory, "ca.pem"), *pem = NULL;
	size_t size;

	if (access(path, F_OK))
		return 0;
	pem = path_read(path, PEM_MAX, &size, p);
	if (!pem)
		return -EIO;
	if (!strcmp(pem, a->pem))
		return 2;
	return strstr(pem, a->pem)
		       ? 1
		       : problem_set(p, EEXIST,
				     "%s is of another authority: add the new one's ca.pem to it, or name another --out", path);
}

int authority_check_place(const struct authority *a, const char *directory, bool replace, struct problem *p)
{
	int known;

	if (!replace && (is_there(directory, "key.pem") || is_there(directory, "cert.pem")))
		return problem_set(
			p, EEXIST,
			"%s has a certificate already: --replace puts a new one in its place, --out DIR writes elsewhere",
			directory);
	known = trust(a, directory, p);
	return known < 0 ? known : 0;
}

/* A list that others have put together with another authority's is left alone. */
static int install_trust(const struct authority *a, const char *directory, struct problem *p)
{
	cleanup_path char *to = ca_path(directory, "ca.pem"), *list = ca_path(directory, "crl.pem");
	cleanup_path char *own = ca_path(a->directory, "crl.pem");
	int known = trust(a, directory, p), err = known < 0 ? known : 0;
	size_t size;
	char *text;

	if (!err && !known)
		err = path_write(to, a->pem, strlen(a->pem), p);
	if (err || known == 1)
		return err;
	text = path_read(own, 64 * PEM_MAX, &size, p);
	err = text ? path_write(list, text, size, p) : -EIO;
	free(text);
	return err;
}

int authority_install(const struct authority *a, const struct pems *pems, const char *directory, bool replace,
		      struct problem *p)
{
	cleanup_path char *key = ca_path(directory, "key.pem"), *certificate = ca_path(directory, "cert.pem");
	int err;

	path_make_parents(directory);
	err = path_make_directory(directory, 0755, p);
	if (!err)
		err = authority_check_place(a, directory, replace, p);
	if (!err)
		err = install_trust(a, directory, p);
	if (!err)
		err = path_write_mode(key, pems->key, strlen(pems->key), 0600, p);
	return err ? err : path_write(certificate, pems->certificate, strlen(pems->certificate), p);
}
