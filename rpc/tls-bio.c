/* SPDX-License-Identifier: Apache-2.0 */
#include "tls-bio.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* So much stays in a CPU's own cache while it is gathered; sending more at once saves little. */
enum { GATHERED = 4 * (16384 + 64) }; /* four records of full size */

struct gathered {
	int fd, err; /* err: of the send that failed, for good */
	size_t from, to;
	char *bytes; /* GATHERED of them, while there are any */
};

static int create(BIO *b)
{
	struct gathered *g = calloc(1, sizeof(*g));

	BIO_set_data(b, g);
	BIO_set_init(b, g != NULL);
	return g != NULL;
}

static int destroy(BIO *b)
{
	struct gathered *g = b ? BIO_get_data(b) : NULL;

	if (g)
		free(g->bytes);
	free(g);
	return 1;
}

static void send_gathered(struct gathered *g)
{
	while (!g->err && g->from < g->to) {
		ssize_t n = send(g->fd, g->bytes + g->from, g->to - g->from, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0)
			g->err = -errno;
		else
			g->from += n;
	}
	free(g->bytes);
	g->bytes = NULL;
	g->from = g->to = 0;
}

static int put(BIO *b, const char *bytes, int size)
{
	struct gathered *g = BIO_get_data(b);

	BIO_clear_retry_flags(b);
	if (g->to + size > GATHERED)
		send_gathered(g);
	if (!g->err && !g->bytes && !(g->bytes = malloc(GATHERED)))
		g->err = -ENOMEM;
	if (g->err) {
		errno = -g->err;
		return -1;
	}
	if ((size_t)size > GATHERED - g->to)
		size = GATHERED - g->to;
	if (!size) { /* the socket is full, too */
		BIO_set_retry_write(b);
		errno = EAGAIN;
		return -1;
	}
	memcpy(g->bytes + g->to, bytes, size);
	g->to += size;
	return size;
}

static int get(BIO *b, char *bytes, int size)
{
	struct gathered *g = BIO_get_data(b);
	ssize_t n = recv(g->fd, bytes, size, MSG_DONTWAIT);

	BIO_clear_retry_flags(b);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(b);
	if (n == 0)
		BIO_set_flags(b, BIO_FLAGS_IN_EOF);
	return (int)n;
}

static long control(BIO *b, int command, long number, void *more)
{
	(void)number;
	(void)more;
	if (command == BIO_CTRL_EOF)
		return BIO_test_flags(b, BIO_FLAGS_IN_EOF) != 0;
	return command == BIO_CTRL_FLUSH; /* it waits for tls_bio_flush */
}

static BIO_METHOD *method;

static void make_method(void)
{
	method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
	if (!method)
		return;
	BIO_meth_set_create(method, create);
	BIO_meth_set_destroy(method, destroy);
	BIO_meth_set_write(method, put);
	BIO_meth_set_read(method, get);
	BIO_meth_set_ctrl(method, control);
}

BIO *tls_bio_create(int fd)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	BIO *b;

	pthread_once(&once, make_method);
	b = method ? BIO_new(method) : NULL;
	if (b)
		((struct gathered *)BIO_get_data(b))->fd = fd;
	return b;
}

int tls_bio_flush(BIO *b)
{
	struct gathered *g = BIO_get_data(b);

	send_gathered(g);
	return g->err;
}

bool tls_bio_holds(BIO *b)
{
	const struct gathered *g = BIO_get_data(b);

	return g->from < g->to;
}
