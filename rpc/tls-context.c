/* SPDX-License-Identifier: Apache-2.0 */
/* The files of TLS: read, checked, and read again when they have changed. Connections with the same files share what was made of
 * them. A file that is bad when it is read again changes nothing but the log.
 *
 * Locks: `all` for the list of what is shared; `looking`, which nobody waits for, is held while files are read; `lock` for what is
 * in force, never across I/O. */
#include "tls-context.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "identity.h"
#include "log.h"

enum { CERTIFICATE, KEY, AUTHORITIES, REVOKED, FILES };
enum { LOOK_NS = 500000000 };
/* The fastest where CPUs have AES; the others are for who insists on them. */
#define CIPHERS "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

struct stamp { /* a file is another one if any of these differs */
	struct timespec changed;
	off_t size;
	ino_t inode;
};
struct context { /* what was made of the files at one time */
	SSL_CTX *ssl;
	STACK_OF(X509_CRL) * lists;
	struct stamp stamp[FILES];
};
struct tls {
	struct tls *next; /* both guarded by `all` */
	unsigned references;
	char *path[FILES];
	bool server, may_lack_list;
	pthread_mutex_t looking;  /* guards the two that follow */
	struct stamp seen[FILES]; /* at the last look */
	bool told;		  /* that these are bad */
	atomic_uint_fast64_t looked_ns, generation;
	pthread_mutex_t lock; /* guards what follows */
	struct context now;
	uintptr_t epoch;		/* rises with other authorities; each SSL_CTX has that of its time */
	atomic_int_least64_t first_end; /* when the first of the peers' certificates ends, by time(2); changed under the lock */
};

static pthread_mutex_t all = PTHREAD_MUTEX_INITIALIZER;
static struct tls *first;

/* ---- reading ---- */

const char *tls_reason(void)
{
	unsigned long code = ERR_peek_error(); /* the first is the cause */
	const char *text = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);

	return text ? text : "not what it should be";
}

/* A key with a password would make OpenSSL ask for it on the terminal. */
static int no_password(char *text, int size, int writing, void *arg)
{
	(void)text, (void)size, (void)writing, (void)arg;
	return 0;
}

static int read_own(SSL_CTX *c, char *const *path, struct problem *p)
{
	SSL_CTX_set_default_passwd_cb(c, no_password);
	if (SSL_CTX_use_certificate_chain_file(c, path[CERTIFICATE]) != 1)
		return problem_set(p, EINVAL, "option tls-certificate: can't use %s: %s", path[CERTIFICATE], tls_reason());
	if (SSL_CTX_use_PrivateKey_file(c, path[KEY], SSL_FILETYPE_PEM) != 1 &&
	    ERR_GET_REASON(ERR_peek_error()) == X509_R_KEY_VALUES_MISMATCH)
		return problem_set(p, EINVAL, "option tls-key: %s is not the key of the certificate %s", path[KEY],
				   path[CERTIFICATE]);
	if (SSL_CTX_check_private_key(c) != 1)
		return problem_set(p, EINVAL, "option tls-key: can't use %s: %s; it must be an unencrypted PEM file", path[KEY],
				   tls_reason());
	if (SSL_CTX_load_verify_file(c, path[AUTHORITIES]) != 1)
		return problem_set(p, EINVAL, "option tls-authorities: can't use %s: %s", path[AUTHORITIES], tls_reason());
	return 0;
}

/* Several authorities may have the same name: an old and a new one, say. */
static bool is_of_authority(X509_CRL *list, X509_STORE *store)
{
	STACK_OF(X509_OBJECT) *objects = X509_STORE_get0_objects(store);
	bool found = false;

	for (int i = 0; i < sk_X509_OBJECT_num(objects) && !found; i++) {
		X509 *c = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(objects, i));

		found = c && !X509_NAME_cmp(X509_get_subject_name(c), X509_CRL_get_issuer(list)) &&
			X509_CRL_verify(list, X509_get0_pubkey(c)) == 1;
	}
	return found;
}

static int take_list(struct context *c, X509_CRL *list, X509_STORE *store, char *const *path, struct problem *p)
{
	if (!is_of_authority(list, store)) {
		X509_CRL_free(list);
		return problem_set(p, EINVAL, "option tls-revoked: %s has a list that none of the authorities in %s has signed",
				   path[REVOKED], path[AUTHORITIES]);
	}
	if (!sk_X509_CRL_push(c->lists, list)) {
		X509_CRL_free(list);
		return problem_set(p, ENOMEM, "out of memory");
	}
	return X509_STORE_add_crl(store, list) ? 0 : problem_set(p, ENOMEM, "out of memory");
}

/* All lists of the file: each of the authorities needs one from then on. */
static int read_lists(struct context *c, char *const *path, struct problem *p)
{
	X509_STORE *store = SSL_CTX_get_cert_store(c->ssl);
	BIO *file = BIO_new_file(path[REVOKED], "r");
	X509_CRL *list;
	int err = 0;

	while (file && !err && (list = PEM_read_bio_X509_CRL(file, NULL, NULL, NULL)))
		err = take_list(c, list, store, path, p);
	if (!err && (!sk_X509_CRL_num(c->lists) || ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE))
		err = problem_set(p, EINVAL, "option tls-revoked: can't use %s: %s", path[REVOKED], tls_reason());
	BIO_free(file);
	ERR_clear_error();
	return err ? err : X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK) ? 0 : -ENOMEM;
}

static int certificate_identity(const X509 *, char *uri, size_t size);

static void say_expired(X509 *certificate, char text[TLS_TROUBLE])
{
	char uri[IDENTITY_TEXT], date[32] = "?";
	struct tm end;

	if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) == 1)
		strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", &end);
	if (X509_check_ca(certificate))
		snprintf(
			text, TLS_TROUBLE,
			"the authority of the other side's certificate has expired on %s: it needs a certificate of another one",
			date);
	else if (!certificate_identity(certificate, uri, sizeof(uri)))
		snprintf(text, TLS_TROUBLE, "the certificate of %s has expired on %s: it needs another one", uri, date);
	else
		snprintf(text, TLS_TROUBLE, "the other side's certificate has expired on %s: it needs another one", date);
}

/* Only here it can be found out whose it is: a session has no certificate of a peer that it refuses. OpenSSL looks at the times after the signatures, so what it says of its owner is true. */
static int note_expired(int good, X509_STORE_CTX *c)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(c, SSL_get_ex_data_X509_STORE_CTX_idx());
	X509 *certificate = X509_STORE_CTX_get_current_cert(c);
	char *text = ssl ? SSL_get_app_data(ssl) : NULL;

	if (!good && text && certificate && X509_STORE_CTX_get_error(c) == X509_V_ERR_CERT_HAS_EXPIRED)
		say_expired(certificate, text);
	return good;
}

static void set_rules(SSL_CTX *c, char *const *path, bool server)
{
	SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION);
	SSL_CTX_set_ciphersuites(c, CIPHERS);
	SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, note_expired);
	/* What a full socket refused is offered again from the stream's queue: the same bytes at another address. */
	SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
	if (server) {
		SSL_CTX_set_num_tickets(c, 0);
		SSL_CTX_set_client_CA_list(c, SSL_load_client_CA_file(path[AUTHORITIES]));
	}
}

static void context_free(struct context *c)
{
	SSL_CTX_free(c->ssl); /* counts the connections that use it */
	sk_X509_CRL_pop_free(c->lists, X509_CRL_free);
	*c = (struct context){ NULL };
}

/* A list that was in force once does not go with its file. */
static bool wants_list(const struct tls *t)
{
	const char *path = t->path[REVOKED];

	return *path && !(t->may_lack_list && sk_X509_CRL_num(t->now.lists) <= 0 && access(path, F_OK) && errno == ENOENT);
}

static int context_make(const struct tls *t, struct context *c, struct problem *p)
{
	int err;

	ERR_clear_error();
	c->ssl = SSL_CTX_new(t->server ? TLS_server_method() : TLS_client_method());
	c->lists = sk_X509_CRL_new_null();
	if (!c->ssl || !c->lists)
		err = problem_set(p, ENOMEM, "OpenSSL can't make a context: %s", tls_reason());
	else
		err = read_own(c->ssl, t->path, p);
	if (!err && wants_list(t))
		err = read_lists(c, t->path, p);
	if (!err)
		set_rules(c->ssl, t->path, t->server);
	else
		context_free(c);
	ERR_clear_error();
	return err;
}

/* ---- reading again ---- */

static void look_at(char *const *path, struct stamp *stamp)
{
	struct stat st;

	memset(stamp, 0, FILES * sizeof(*stamp));
	for (int i = 0; i < FILES; i++)
		if (*path[i] && !stat(path[i], &st))
			stamp[i] = (struct stamp){ st.st_mtim, st.st_size, st.st_ino };
}

static bool same(const struct stamp *a, const struct stamp *b)
{
	return a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec && a->size == b->size &&
	       a->inode == b->inode;
}

static bool all_same(const struct stamp *a, const struct stamp *b)
{
	bool yes = true;

	for (int i = 0; i < FILES; i++)
		yes &= same(&a[i], &b[i]);
	return yes;
}

/* Takes what `c` has. */
static void put_in_force(struct tls *t, struct context *c)
{
	struct context before;
	bool others, lists;

	pthread_mutex_lock(&t->lock);
	before = t->now;
	others = !same(&before.stamp[AUTHORITIES], &c->stamp[AUTHORITIES]);
	lists = !same(&before.stamp[REVOKED], &c->stamp[REVOKED]);
	t->epoch += others;
	SSL_CTX_set_app_data(c->ssl, (void *)t->epoch);
	t->now = *c;
	pthread_mutex_unlock(&t->lock);
	if (before.ssl && (others || lists))
		atomic_fetch_add(&t->generation, 1);
	context_free(&before);
}

/* Files are replaced one after the other: who looks in between finds a key without its certificate, and says nothing unless it is so
 * at the next look, too. It is tried at each look: what failed may have been memory, or descriptors, and not the files. */
static void look_again(struct tls *t)
{
	struct context c = { NULL };
	struct problem p = { "" };
	bool settled;

	look_at(t->path, c.stamp);
	if (all_same(c.stamp, t->now.stamp)) {
		t->told = false;
		return;
	}
	settled = all_same(c.stamp, t->seen);
	memcpy(t->seen, c.stamp, sizeof(t->seen));
	t->told = t->told && settled;
	if (!context_make(t, &c, &p)) {
		put_in_force(t, &c);
		t->told = false;
		log_info(NULL, NULL, "the files of TLS were read again: %s and those with it", t->path[CERTIFICATE]);
	} else if (settled && !t->told) {
		t->told = true;
		log_error(NULL, NULL, "%s; what was read before stays in force", p.text);
	}
}

/* One ends now: each connection is to be asked, and those whose end is to come are known again by that. */
static void look_at_ends(struct tls *t)
{
	int64_t now = time(NULL);

	if (now < atomic_load(&t->first_end))
		return;
	pthread_mutex_lock(&t->lock);
	if (now >= atomic_load(&t->first_end)) {
		atomic_store(&t->first_end, INT64_MAX);
		atomic_fetch_add(&t->generation, 1);
	}
	pthread_mutex_unlock(&t->lock);
}

uint64_t tls_look(struct tls *t)
{
	uint64_t now = clock_ns();

	look_at_ends(t);

	if (now - atomic_load(&t->looked_ns) >= LOOK_NS && !pthread_mutex_trylock(&t->looking)) {
		atomic_store(&t->looked_ns, now);
		look_again(t);
		pthread_mutex_unlock(&t->looking);
	}
	return atomic_load(&t->generation);
}

uint64_t tls_generation(struct tls *t)
{
	return atomic_load(&t->generation);
}

/* ---- life ---- */

static int check_given(const struct tls_files *f, struct problem *p)
{
	const char *missing = !*f->certificate	 ? "tls-certificate"
			      : !*f->key	 ? "tls-key"
			      : !*f->authorities ? "tls-authorities"
						 : NULL;

	return missing ? problem_set(p, EINVAL, "transport tls needs the option %s, a PEM file", missing) : 0;
}

static void tls_free(struct tls *t)
{
	context_free(&t->now);
	for (int i = 0; i < FILES; i++)
		free(t->path[i]);
	pthread_mutex_destroy(&t->looking);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static struct tls *make(const char *const *path, bool server, bool may_lack_list, struct problem *p)
{
	struct tls *t = calloc(1, sizeof(*t));
	struct context c = { NULL };
	bool memory = t;

	if (t) {
		t->references = 1;
		t->server = server;
		t->may_lack_list = may_lack_list;
		atomic_store(&t->first_end, INT64_MAX);
		pthread_mutex_init(&t->looking, NULL);
		pthread_mutex_init(&t->lock, NULL);
		for (int i = 0; i < FILES; i++)
			memory = (t->path[i] = strdup(path[i])) && memory;
	}
	if (memory) {
		look_at(t->path, c.stamp); /* first: what changes while it is read is read again */
		atomic_store(&t->looked_ns, clock_ns());
		if (!context_make(t, &c, p)) {
			put_in_force(t, &c);
			return t;
		}
	} else {
		problem_set(p, ENOMEM, "out of memory");
	}
	if (t)
		tls_free(t);
	return NULL;
}

static struct tls *find(const char *const *path, bool server, bool may_lack_list)
{
	for (struct tls *t = first; t; t = t->next) {
		bool equal = t->server == server && t->may_lack_list == may_lack_list;

		for (int i = 0; i < FILES && equal; i++)
			equal = !strcmp(t->path[i], path[i]);
		if (equal)
			return t;
	}
	return NULL;
}

struct tls *tls_create(const struct tls_files *f, bool server, struct problem *p)
{
	const char *const path[FILES] = { f->certificate, f->key, f->authorities, f->revoked ? f->revoked : "" };
	struct tls *t;

	if (check_given(f, p))
		return NULL;
	pthread_mutex_lock(&all);
	t = find(path, server, f->may_lack_list);
	if (t) {
		t->references++;
	} else if ((t = make(path, server, f->may_lack_list, p))) {
		t->next = first;
		first = t;
	}
	pthread_mutex_unlock(&all);
	return t;
}

void tls_destroy(struct tls *t)
{
	struct tls **at = &first;

	if (!t)
		return;
	pthread_mutex_lock(&all);
	if (--t->references) {
		pthread_mutex_unlock(&all);
		return;
	}
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	pthread_mutex_unlock(&all);
	tls_free(t);
}

/* ---- for connections ---- */

SSL *tls_session(struct tls *t, char text[TLS_TROUBLE], bool *server)
{
	SSL *ssl;

	tls_look(t);
	pthread_mutex_lock(&t->lock);
	ssl = SSL_new(t->now.ssl);
	pthread_mutex_unlock(&t->lock);
	*server = t->server;
	*text = '\0';
	if (ssl)
		SSL_set_app_data(ssl, text);
	return ssl;
}

static bool is_listed(STACK_OF(X509_CRL) * lists, X509 *certificate)
{
	X509_REVOKED *entry;
	bool found = false;

	for (int i = 0; i < sk_X509_CRL_num(lists) && !found; i++)
		found = X509_CRL_get0_by_cert(sk_X509_CRL_value(lists, i), &entry, certificate) == 1;
	return found;
}

/* Seconds since 1970; what can't be told has ended. */
static int64_t end_of(const X509 *certificate)
{
	struct tm end;

	return ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) == 1 ? timegm(&end) : 0;
}

/* The peer's certificate, or an authority's between it and the one that is trusted, whichever ends first; INT64_MAX: there is none yet. */
static int64_t end_of_peer(SSL *ssl)
{
	X509 *certificate = SSL_get0_peer_certificate(ssl);
	STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
	int64_t end = certificate ? end_of(certificate) : INT64_MAX;

	for (int i = 0; certificate && i < sk_X509_num(chain); i++) {
		int64_t one = end_of(sk_X509_value(chain, i));

		end = one < end ? one : end;
	}
	return end;
}

bool tls_refuses(struct tls *t, SSL *ssl)
{
	X509 *certificate = SSL_get0_peer_certificate(ssl);
	int64_t end = end_of_peer(ssl);
	bool yes;

	pthread_mutex_lock(&t->lock);
	yes = end <= time(NULL) || SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)) != (void *)t->epoch ||
	      (certificate && is_listed(t->now.lists, certificate));
	if (!yes && end < atomic_load(&t->first_end))
		atomic_store(&t->first_end, end);
	pthread_mutex_unlock(&t->lock);
	return yes;
}

bool tls_expect_host(SSL *ssl, const char *host)
{
	struct in6_addr address;
	bool numeric = inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;

	if (numeric)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host);
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	return SSL_set1_host(ssl, host) && SSL_set_tlsext_host_name(ssl, host);
}

/* ---- the peer's name ---- */

/* Also a second name is looked at: which of them counts would be anybody's guess. */
static int take_uri(const GENERAL_NAMES *names, char *uri, size_t size)
{
	static const char scheme[] = "stratus:";
	struct identity ignored;
	int found = -ENOENT;

	for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
		const char *text = name->type == GEN_URI ? (const char *)ASN1_STRING_get0_data(name->d.ia5) : "";
		size_t length = name->type == GEN_URI ? ASN1_STRING_length(name->d.ia5) : 0;

		if (length < strlen(scheme) || memcmp(text, scheme, strlen(scheme)))
			continue;
		if (!found || length >= size || memchr(text, '\0', length))
			return -EBADMSG;
		memcpy(uri, text, length);
		uri[length] = 0;
		found = identity_parse(uri, &ignored);
		if (found)
			return found;
	}
	return found;
}

static int certificate_identity(const X509 *certificate, char *uri, size_t size)
{
	int critical, err;
	GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, &critical, NULL);

	if (!names) /* -1: there are none; else the extension stands there twice, or can't be read */
		return critical == -1 ? -ENOENT : -EBADMSG;
	err = take_uri(names, uri, size);
	GENERAL_NAMES_free(names);
	return err;
}

int tls_identity(const SSL *ssl, char *uri, size_t size)
{
	const X509 *certificate = SSL_is_init_finished(ssl) ? SSL_get0_peer_certificate(ssl) : NULL;

	return certificate ? certificate_identity(certificate, uri, size) : -ENOENT;
}

const char *tls_trouble(const SSL *ssl)
{
	long verdict = SSL_get_verify_result(ssl);
	const char *text = SSL_get_app_data(ssl);

	return verdict == X509_V_OK ? tls_reason() : *text ? text : X509_verify_cert_error_string(verdict);
}
