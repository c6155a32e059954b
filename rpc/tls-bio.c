/* SPDX-License-Identifier: Apache-2.0 */
#include "tls-bio.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "buffer.h"

/* Bulk goes in batches that fill a buffer of 256 KiB with whole records (of 16 KiB and 22 bytes): it stays in a CPU's own cache, and a system call,
 * with the wakeup of the other end, costs little beside it. Who has shown no bulk gets a small buffer: a crowd of those costs little memory. */
enum { RECORD = 16384 + 22, BATCH = 15 * RECORD, SMALL = 16384 };

struct half { /* bytes [from, to) of a buffer, which there is only while there are any */
	struct buffer *bytes;
	size_t from, to;
};
struct bottom {
	int fd, err; /* err: of the send that failed, for good */
	struct half in, out;
	size_t receive; /* so much at once: a receive that fills its buffer makes the next one's large */
	bool drained;	/* the last brought little: another one would bring nothing */
	atomic_uint_fast64_t *receives, *sends;
};

static int create(BIO *b)
{
	struct bottom *o = calloc(1, sizeof(*o));

	BIO_set_data(b, o);
	BIO_set_init(b, o != NULL);
	return o != NULL;
}

static void clear(struct half *h)
{
	buffer_unref(h->bytes);
	*h = (struct half){ NULL };
}

static int destroy(BIO *b)
{
	struct bottom *o = b ? BIO_get_data(b) : NULL;

	if (o) {
		clear(&o->in);
		clear(&o->out);
	}
	free(o);
	return 1;
}

static size_t held(const struct half *h)
{
	return h->to - h->from;
}

/* ---- sending ---- */

static void send_gathered(struct bottom *o)
{
	struct half *h = &o->out;

	while (!o->err && held(h)) {
		ssize_t n = send(o->fd, h->bytes->data + h->from, held(h), MSG_DONTWAIT | MSG_NOSIGNAL);

		atomic_fetch_add_explicit(o->sends, 1, memory_order_relaxed);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0)
			o->err = -errno;
		else
			h->from += n;
	}
	clear(h);
}

/* Room for `more` bytes behind what is there, a larger buffer if need be. */
static bool make_room(struct half *h, size_t more)
{
	size_t size = h->to + more <= SMALL ? SMALL : BATCH;
	struct buffer *b;

	if (h->bytes && h->to + more <= h->bytes->size)
		return true;
	if (h->bytes && h->bytes->size == BATCH)
		return false;
	b = buffer_create(size);
	if (!b)
		return false;
	if (h->bytes)
		memcpy(b->data, h->bytes->data, h->to);
	buffer_unref(h->bytes);
	h->bytes = b;
	return true;
}

static int put(BIO *b, const char *bytes, int size)
{
	struct bottom *o = BIO_get_data(b);
	struct half *h = &o->out;

	BIO_clear_retry_flags(b);
	if (h->to + size > BATCH)
		send_gathered(o);
	if (!o->err && !make_room(h, size) && !h->bytes)
		o->err = -ENOMEM;
	if (o->err) {
		errno = -o->err;
		return -1;
	}
	if ((size_t)size > h->bytes->size - h->to)
		size = (int)(h->bytes->size - h->to);
	if (!size) { /* the socket is full, too */
		BIO_set_retry_write(b);
		errno = EAGAIN;
		return -1;
	}
	memcpy(h->bytes->data + h->to, bytes, size);
	h->to += size;
	return size;
}

/* ---- receiving ---- */

static ssize_t receive(struct bottom *o)
{
	struct half *h = &o->in;
	ssize_t n;

	if (o->drained) {
		errno = EAGAIN;
		return -1;
	}
	h->bytes = buffer_create(o->receive);
	if (!h->bytes) {
		errno = ENOMEM;
		return -1;
	}
	n = recv(o->fd, h->bytes->data, o->receive, MSG_DONTWAIT);
	atomic_fetch_add_explicit(o->receives, 1, memory_order_relaxed);
	if (n <= 0) {
		clear(h); /* errno stays: free(3) keeps it */
		return n;
	}
	h->to = n;
	o->drained = n < SMALL;
	o->receive = (size_t)n == o->receive ? BATCH : n < SMALL ? SMALL : o->receive;
	return n;
}

static int get(BIO *b, char *bytes, int size)
{
	struct bottom *o = BIO_get_data(b);
	struct half *h = &o->in;
	ssize_t n = held(h) ? 1 : receive(o);

	BIO_clear_retry_flags(b);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(b);
	if (n == 0)
		BIO_set_flags(b, BIO_FLAGS_IN_EOF);
	if (n <= 0)
		return (int)n;
	if ((size_t)size > held(h))
		size = (int)held(h);
	memcpy(bytes, h->bytes->data + h->from, size);
	h->from += size;
	if (!held(h))
		clear(h);
	return size;
}

/* ---- as OpenSSL wants it ---- */

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

BIO *tls_bio_create(int fd, atomic_uint_fast64_t *receives, atomic_uint_fast64_t *sends)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	BIO *b;

	pthread_once(&once, make_method);
	b = method ? BIO_new(method) : NULL;
	if (b) {
		struct bottom *o = BIO_get_data(b);

		o->fd = fd;
		o->receive = SMALL;
		o->receives = receives;
		o->sends = sends;
	}
	return b;
}

void tls_bio_begin(BIO *b)
{
	struct bottom *o = BIO_get_data(b);

	o->drained = false;
}

int tls_bio_flush(BIO *b)
{
	struct bottom *o = BIO_get_data(b);

	send_gathered(o);
	return o->err;
}

size_t tls_bio_holds(BIO *b)
{
	const struct bottom *o = BIO_get_data(b);

	return held(&o->out);
}

bool tls_bio_pending(BIO *b)
{
	const struct bottom *o = BIO_get_data(b);

	return held(&o->in) > 0;
}
