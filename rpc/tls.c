/* SPDX-License-Identifier: Apache-2.0 */
/* A stream's bytes through OpenSSL. Its objects are not for two threads at once: reading takes the stream's lock, too. */
#include "tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tls {
	SSL_CTX *context;
	bool server;
};

/* ---- the files ---- */

static const char *reason(void)
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

static int read_files(SSL_CTX *c, const struct tls_files *f, struct problem *p)
{
	SSL_CTX_set_default_passwd_cb(c, no_password);
	if (SSL_CTX_use_certificate_chain_file(c, f->certificate) != 1)
		return problem_set(p, EINVAL, "option tls-certificate: can't use %s: %s", f->certificate, reason());
	if (SSL_CTX_use_PrivateKey_file(c, f->key, SSL_FILETYPE_PEM) != 1 &&
	    ERR_GET_REASON(ERR_peek_error()) == X509_R_KEY_VALUES_MISMATCH)
		return problem_set(p, EINVAL, "option tls-key: %s is not the key of the certificate %s", f->key,
				   f->certificate);
	if (SSL_CTX_check_private_key(c) != 1)
		return problem_set(p, EINVAL, "option tls-key: can't use %s: %s; it must be an unencrypted PEM file", f->key,
				   reason());
	if (SSL_CTX_load_verify_file(c, f->authorities) != 1)
		return problem_set(p, EINVAL, "option tls-authorities: can't use %s: %s", f->authorities, reason());
	return 0;
}

static int check_given(const struct tls_files *f, struct problem *p)
{
	const char *missing = !*f->certificate	 ? "tls-certificate"
			      : !*f->key	 ? "tls-key"
			      : !*f->authorities ? "tls-authorities"
						 : NULL;

	return missing ? problem_set(p, EINVAL, "transport tls needs the option %s, a PEM file", missing) : 0;
}

static void set_rules(SSL_CTX *c, const struct tls_files *f, bool server)
{
	SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION);
	SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	/* What a full socket refused is offered again from the stream's queue: the same bytes at another address. */
	SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
	if (server) {
		SSL_CTX_set_num_tickets(c, 0);
		SSL_CTX_set_client_CA_list(c, SSL_load_client_CA_file(f->authorities));
	}
}

struct tls *tls_create(const struct tls_files *f, bool server, struct problem *p)
{
	struct tls *t;

	if (check_given(f, p))
		return NULL;
	ERR_clear_error();
	t = calloc(1, sizeof(*t));
	if (t)
		t->context = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
	if (!t || !t->context) {
		problem_set(p, ENOMEM, "OpenSSL can't make a context: %s", reason());
	} else if (!read_files(t->context, f, p)) {
		t->server = server;
		set_rules(t->context, f, server);
		return t;
	}
	tls_destroy(t);
	return NULL;
}

void tls_destroy(struct tls *t)
{
	if (!t)
		return;
	SSL_CTX_free(t->context); /* counts the connections that use it */
	free(t);
}

/* ---- a connection ---- */

static int expect_host(SSL *ssl, const char *host)
{
	struct in6_addr address;
	bool numeric = inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;

	if (numeric)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host);
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, host) && SSL_set_tlsext_host_name(ssl, host);
}

int tls_begin(struct stream *s, struct tls *t, const char *host)
{
	SSL *ssl = SSL_new(t->context);

	if (!ssl || !SSL_set_fd(ssl, s->watch.fd) || (host && !expect_host(ssl, host))) {
		SSL_free(ssl);
		return -ENOMEM;
	}
	if (t->server)
		SSL_set_accept_state(ssl);
	else
		SSL_set_connect_state(ssl);
	s->session = ssl;
	return 0;
}

/* After a call that failed: -1 with errno as readv(2) and writev(2) have it, or 0: the peer has closed. */
static ssize_t failed(struct stream *s, bool sending)
{
	SSL *ssl = s->session;
	int kind = SSL_get_error(ssl, 0), saved = errno;
	long verdict = SSL_get_verify_result(ssl);

	if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
		if (sending)
			s->send_waits_for_read = kind == SSL_ERROR_WANT_READ;
		errno = EAGAIN;
		return -1;
	}
	if (kind == SSL_ERROR_ZERO_RETURN)
		return 0;
	if (kind == SSL_ERROR_SYSCALL || ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
		errno = saved ? saved : ECONNRESET; /* the end without a goodbye, as when a process is killed */
		return -1;
	}
	snprintf(s->trouble, sizeof(s->trouble), "TLS: %s",
		 verdict != X509_V_OK ? X509_verify_cert_error_string(verdict) : reason());
	errno = EPROTO;
	return -1;
}

/* Calls fn for the pieces one after the other until one fails. */
static ssize_t each_piece(struct stream *s, const struct iovec *iov, int count, bool sending)
{
	size_t total = 0, done, n;

	ERR_clear_error();
	errno = 0;
	for (int i = 0; i < count; i++)
		for (done = 0; done < iov[i].iov_len; done += n) {
			char *at = (char *)iov[i].iov_base + done;
			size_t size = iov[i].iov_len - done;

			if (!(sending ? SSL_write_ex(s->session, at, size, &n) : SSL_read_ex(s->session, at, size, &n)))
				return total ? (ssize_t)total : failed(s, sending);
			total += n;
		}
	return total;
}

static ssize_t tls_receive(struct stream *s, const struct iovec *iov, int count)
{
	ssize_t n;

	pthread_mutex_lock(&s->lock);
	n = each_piece(s, iov, count, false);
	pthread_mutex_unlock(&s->lock);
	return n;
}

/* The lock is held. */
static ssize_t tls_send(struct stream *s, const struct iovec *iov, int count)
{
	return each_piece(s, iov, count, true);
}

/* Bytes that have come and been decrypted, of which epoll knows nothing. */
static bool tls_pending(struct stream *s)
{
	bool some;

	pthread_mutex_lock(&s->lock);
	some = SSL_pending(s->session) > 0;
	pthread_mutex_unlock(&s->lock);
	return some;
}

static void tls_close(struct stream *s)
{
	if (s->session) {
		if (!s->trouble[0] && SSL_is_init_finished(s->session))
			SSL_shutdown(s->session); /* says so; does not wait for the answer */
		SSL_free(s->session);
	}
	ERR_clear_error();
	s->session = NULL;
	close(s->watch.fd);
	s->watch.fd = -1;
}

const struct transport transport_tls = { "tls", tls_receive, tls_send, tls_close, tls_pending };
