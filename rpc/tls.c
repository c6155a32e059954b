/* SPDX-License-Identifier: Apache-2.0 */
/* A stream's bytes through OpenSSL. Its objects are not for two threads at once: reading takes the stream's lock, too. */
#include "tls.h"

#include <openssl/err.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tls-bio.h"
#include "tls-context.h"

/* ---- a connection ---- */

int tls_begin(struct stream *s, struct tls *t, const char *host)
{
	bool server;
	SSL *ssl = tls_session(t, s->expired, &server);
	BIO *socket = ssl ? tls_bio_create(s->watch.fd, &s->receives, &s->sends) : NULL;

	if (!socket || (host && !tls_expect_host(ssl, host))) {
		BIO_free(socket);
		SSL_free(ssl);
		return -ENOMEM;
	}
	SSL_set_bio(ssl, socket, socket);
	if (server)
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
	s->alerted = !(SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN); /* that is set by the peer's alert, too */
	snprintf(s->trouble, sizeof(s->trouble), "TLS: %s", tls_trouble(ssl));
	errno = EPROTO;
	return -1;
}

/* Calls fn for the pieces one after the other until one fails. */
static ssize_t each_piece(struct stream *s, const struct iovec *iov, int count, bool sending)
{
	size_t total = 0, done, n;

	ERR_clear_error();
	errno = 0;
	tls_bio_begin(SSL_get_rbio(s->session));
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

/* The lock is held. What was gathered goes out, whatever came of it: of what failed the alert, too. Without success nothing else counts
 * of what is sent; of what was received all does that has come before, an alert above all. */
static ssize_t flushed(struct stream *s, ssize_t n, bool sending)
{
	int saved = errno, err = tls_bio_flush(SSL_get_wbio(s->session));
	bool counts = err && (n < 0 ? saved == EAGAIN : sending);

	errno = counts ? -err : saved;
	return counts ? -1 : n;
}

static ssize_t tls_receive(struct stream *s, const struct iovec *iov, int count)
{
	ssize_t n;

	pthread_mutex_lock(&s->lock);
	n = flushed(s, each_piece(s, iov, count, false), false);
	pthread_mutex_unlock(&s->lock);
	return n;
}

/* The lock is held. Nothing is taken before what was taken last has gone to the socket. */
static ssize_t tls_send(struct stream *s, const struct iovec *iov, int count)
{
	ssize_t n = flushed(s, 0, true);

	if (n < 0)
		return n;
	if (tls_bio_holds(SSL_get_wbio(s->session))) {
		errno = EAGAIN;
		return -1;
	}
	return flushed(s, each_piece(s, iov, count, true), true);
}

/* The lock is held. Sent, as far as the stream knows, but not yet taken by the socket. */
static size_t tls_unsent(struct stream *s)
{
	return s->session ? tls_bio_holds(SSL_get_wbio(s->session)) : 0;
}

/* Bytes that have come, of which epoll knows nothing. */
static bool tls_pending(struct stream *s)
{
	bool some;

	pthread_mutex_lock(&s->lock);
	some = SSL_has_pending(s->session) > 0 || tls_bio_pending(SSL_get_rbio(s->session));
	pthread_mutex_unlock(&s->lock);
	return some;
}

/* For who has no time for stream_linger(): what has come already is not left unread. */
static void drop_what_came(int fd)
{
	char ignored[4096];

	shutdown(fd, SHUT_WR);
	for (int i = 0; i < 16 && recv(fd, ignored, sizeof(ignored), MSG_DONTWAIT) > 0; i++)
		;
}

static void tls_close(struct stream *s)
{
	if (s->session) {
		if (!s->trouble[0] && SSL_is_init_finished(s->session))
			SSL_shutdown(s->session); /* says so; does not wait for the answer */
		tls_bio_flush(SSL_get_wbio(s->session));
		SSL_free(s->session);
	}
	if (s->alerted)
		drop_what_came(s->watch.fd);
	ERR_clear_error();
	s->session = NULL;
	close(s->watch.fd);
	s->watch.fd = -1;
}

int stream_identity(struct stream *s, char *uri, size_t size)
{
	int err = -ENOENT;

	pthread_mutex_lock(&s->lock);
	if (s->transport == &transport_tls && s->session)
		err = tls_identity(s->session, uri, size);
	pthread_mutex_unlock(&s->lock);
	return err;
}

bool stream_is_refused(struct stream *s, struct tls *t)
{
	bool yes;

	pthread_mutex_lock(&s->lock);
	yes = s->transport == &transport_tls && s->session && tls_refuses(t, s->session);
	pthread_mutex_unlock(&s->lock);
	return yes;
}

const struct transport transport_tls = { "tls", tls_receive, tls_send, tls_close, tls_pending, tls_unsent };
