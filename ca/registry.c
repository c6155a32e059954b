/* SPDX-License-Identifier: Apache-2.0 */
/* The registry: one line for each certificate that was issued or revoked, and for each revocation list.
 *
 *   issued SERIAL SINCE UNTIL URI NAMES        times are seconds since 1970
 *   revoked SERIAL WHEN
 *   list NUMBER WHEN
 *
 * A line counts when its newline is there: what a crash has cut off is taken away before the next one is added. The line is on
 * the disk before what it tells of leaves the process, so nothing is out there that can't be listed and revoked. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/bn.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "parts.h"
#include "path.h"

enum { REGISTRY_MAX = 64 << 20 };

int registry_create(const char *directory, struct problem *p)
{
	cleanup_path char *path = ca_path(directory, "registry");
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return problem_set(p, errno, "can't make %s: %m", path);
	close(fd);
	return 0;
}

struct issued *registry_find(const struct authority *a, const char *serial)
{
	for (size_t i = 0; i < a->count; i++)
		if (!strcmp(a->issued[i].serial, serial))
			return &a->issued[i];
	return NULL;
}

/* ---- reading ---- */

static int take_issued(struct authority *a, const char *line)
{
	struct issued *grown = realloc(a->issued, (a->count + 1) * sizeof *grown), *one;
	long long since, until;

	if (!grown)
		return -ENOMEM;
	a->issued = grown;
	one = &grown[a->count];
	*one = (struct issued){ "" };
	if (sscanf(line, "issued %32s %lld %lld %ms %ms", one->serial, &since, &until, &one->uri, &one->names) != 5) {
		free(one->uri);
		free(one->names);
		return -EINVAL;
	}
	one->since = since;
	one->until = until;
	a->count++;
	return 0;
}

static int take_revoked(struct authority *a, const char *line)
{
	char serial[CA_SERIAL_TEXT];
	long long when;
	struct issued *one;

	if (sscanf(line, "revoked %32s %lld", serial, &when) != 2 || !(one = registry_find(a, serial)))
		return -EINVAL;
	one->revoked = when;
	return 0;
}

static int take_line(struct authority *a, const char *line)
{
	if (!strncmp(line, "issued ", 7))
		return take_issued(a, line);
	if (!strncmp(line, "revoked ", 8))
		return take_revoked(a, line);
	return sscanf(line, "list %lu ", &a->lists) == 1 ? 0 : -EINVAL;
}

int registry_read(struct authority *a, struct problem *p)
{
	cleanup_path char *path = ca_path(a->directory, "registry");
	size_t size;
	cleanup_path char *text = path_read(path, REGISTRY_MAX, &size, p);
	unsigned number = 0;
	char *end;

	if (!text)
		return -EIO;
	for (char *line = text; (end = strchr(line, '\n')); line = end + 1) {
		number++;
		*end = '\0';
		if (take_line(a, line))
			return problem_set(p, EINVAL, "%s:%u: this line is damaged: restore the registry from a backup", path,
					   number);
	}
	return 0;
}

/* ---- adding ---- */

/* Where the last complete line ends. */
static off_t whole_lines(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	char last;

	while (size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n')
		size--;
	return size;
}

static int add_line(int fd, const char *line)
{
	off_t end = whole_lines(fd);
	ssize_t size = strlen(line);

	if (end < 0 || ftruncate(fd, end) || pwrite(fd, line, size, end) != size || fsync(fd))
		return -(errno ? errno : EIO);
	return 0;
}

int registry_add(struct authority *a, struct problem *p, const char *format, ...)
{
	cleanup_path char *path = ca_path(a->directory, "registry"), *line = NULL, *text = NULL;
	va_list args;
	int fd, err;

	va_start(args, format);
	err = vasprintf(&text, format, args) < 0 ? -ENOMEM : 0;
	va_end(args);
	if (err) {
		text = NULL;
		return problem_set(p, ENOMEM, "out of memory");
	}
	line = path_format("%s\n", text);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	errno = fd < 0 ? errno : 0;
	err = fd < 0 ? -errno : add_line(fd, line);
	if (fd >= 0)
		close(fd);
	if (err)
		return problem_set(p, -err, "can't write %s: %s; nothing was issued or revoked", path, strerror(-err));
	return take_line(a, text);
}

/* ---- the revocation list (RFC 5280, section 5) ---- */

static int put_revoked(X509_CRL *list, const struct issued *one)
{
	X509_REVOKED *entry = X509_REVOKED_new();
	ASN1_TIME *when = ASN1_TIME_set(NULL, one->revoked);
	BIGNUM *number = NULL;
	ASN1_INTEGER *serial = BN_hex2bn(&number, one->serial) ? BN_to_ASN1_INTEGER(number, NULL) : NULL;
	int ok = entry && when && serial && X509_REVOKED_set_serialNumber(entry, serial) &&
		 X509_REVOKED_set_revocationDate(entry, when) && X509_CRL_add0_revoked(list, entry);

	if (!ok)
		X509_REVOKED_free(entry);
	ASN1_INTEGER_free(serial);
	ASN1_TIME_free(when);
	BN_free(number);
	return ok ? 0 : -ENOMEM;
}

static int put_extensions(X509_CRL *list, const struct authority *a, unsigned long number)
{
	ASN1_INTEGER *value = ASN1_INTEGER_new();
	X509V3_CTX context;
	X509_EXTENSION *key_id;
	int ok;

	X509V3_set_ctx(&context, a->certificate, NULL, NULL, list, 0);
	key_id = X509V3_EXT_conf_nid(NULL, &context, NID_authority_key_identifier, "keyid");
	ok = value && key_id && ASN1_INTEGER_set_uint64(value, number) &&
	     X509_CRL_add1_ext_i2d(list, NID_crl_number, value, 0, 0) && X509_CRL_add_ext(list, key_id, -1);
	ASN1_INTEGER_free(value);
	X509_EXTENSION_free(key_id);
	return ok ? 0 : -ENOMEM;
}

/* It is good until the authority ends: one who forgets to make lists anew must not find all servers closed one day. */
static int put_times(X509_CRL *list, const struct authority *a, time_t now)
{
	ASN1_TIME *time = ASN1_TIME_set(NULL, now);
	int ok = time && X509_CRL_set1_lastUpdate(list, time) &&
		 X509_CRL_set1_nextUpdate(list, X509_get0_notAfter(a->certificate));

	ASN1_TIME_free(time);
	return ok ? 0 : -ENOMEM;
}

static int list_fill(X509_CRL *list, const struct authority *a, time_t now)
{
	int err = X509_CRL_set_version(list, X509_CRL_VERSION_2) &&
				  X509_CRL_set_issuer_name(list, X509_get_subject_name(a->certificate))
			  ? put_times(list, a, now)
			  : -ENOMEM;

	for (size_t i = 0; i < a->count && !err; i++)
		if (a->issued[i].revoked)
			err = put_revoked(list, &a->issued[i]);
	if (!err)
		err = put_extensions(list, a, a->lists);
	if (!err && (!X509_CRL_sort(list) || !X509_CRL_sign(list, a->key, EVP_sha256())))
		err = -ENOMEM;
	return err;
}

int list_write(struct authority *a, struct problem *p)
{
	cleanup_path char *path = ca_path(a->directory, "crl.pem");
	time_t now = time(NULL);
	X509_CRL *list;
	BIO *text;
	char *bytes;
	long size;
	int err = registry_add(a, p, "list %lu %lld", a->lists + 1, (long long)now);

	if (err)
		return err;
	list = X509_CRL_new();
	text = BIO_new(BIO_s_mem());
	if (!list || !text || list_fill(list, a, now) || !PEM_write_bio_X509_CRL(text, list)) {
		err = crypto_problem(p, "can't make the revocation list");
	} else {
		size = BIO_get_mem_data(text, &bytes);
		err = path_write(path, bytes, size, p);
	}
	X509_CRL_free(list);
	BIO_free(text);
	return err;
}
