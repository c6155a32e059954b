/* SPDX-License-Identifier: Apache-2.0 */
/* Records over a non-blocking descriptor: one receive for all that has come, bulk straight into its buffer, one send. */
#include "stream.h"

#include <sys/epoll.h>
#include <sys/socket.h>

/* A receive takes AHEAD bytes beyond the record that has begun: enough for many small ones. While large bulk parts come, it takes
 * AHEAD_BULK instead: about a head, so that the bulk itself lands in its buffer and not here, to be copied. */
enum { AHEAD = 16384, AHEAD_BULK = 256, ROUNDS = 8, TURNS = 8, TURN_BYTES = 1 << 20, LINGER = 65536, LAST_FRAGMENT = 1 << 31 };

struct outgoing {
	struct outgoing *next;
	size_t sent, total;
	uint32_t size;
	unsigned count;
	struct buffer *buffer[COMPOUND_MAX];
	char head[];
};

void record_free(struct record *r)
{
	if (!r)
		return;
	buffer_unref(r->bulk);
	free(r);
}

/* ---- reading ---- */

static uint32_t word_at(const char *bytes, unsigned at)
{
	uint32_t word;

	memcpy(&word, bytes + 4 * at, 4);
	return ntohl(word);
}

/* All words of the RPC header that never differ. */
static const char *header_fault(const char *h)
{
	if (word_at(h, WORD_TYPE)) {
		for (unsigned i = 2; i < REPLY_WORDS; i++)
			if (word_at(h, i))
				return "a reply that is no success";
		return NULL;
	}
	if (word_at(h, CALL_RPC_VERSION) != 2 || word_at(h, CALL_PROGRAM) != WIRE_PROGRAM)
		return "not a call of this program";
	if (word_at(h, CALL_VERSION) != WIRE_VERSION)
		return "another version of the protocol";
	for (unsigned i = 6; i < CALL_WORDS; i++)
		if (word_at(h, i))
			return "credentials of another kind than AUTH_NONE";
	return NULL;
}

static struct record *record_make(uint32_t size, uint32_t bulk)
{
	struct record *r = malloc(sizeof(*r) + size);

	if (!r)
		return NULL;
	r->next = NULL;
	r->size = size;
	r->bulk = bulk ? buffer_create(bulk) : NULL;
	if (bulk && !r->bulk) {
		free(r);
		return NULL;
	}
	return r;
}

/* Looks at the head of the next record. 1: it has begun; 0: more bytes needed; -1: *why. */
static int begin(struct stream *s, const char *in, uint32_t have, const char **why)
{
	uint32_t mark, size, words, bulk;

	if (have < 4)
		return 0;
	mark = word_at(in, 0);
	size = mark & ~LAST_FRAGMENT;
	*why = "a record of more than one fragment";
	if (!(mark & LAST_FRAGMENT))
		return -1;
	*why = "a record of forbidden size";
	if (size < 4 * REPLY_BODY || size > s->max_size + s->max_bulk)
		return -1;
	if (have < 12)
		return 0;
	*why = "neither call nor reply";
	if (word_at(in, 2) > 1)
		return -1;
	words = word_at(in, 2) ? REPLY_WORDS : CALL_WORDS;
	*why = "a record too short for its head";
	if (size < 4 * (words + 1))
		return -1;
	if (have < 4 * (words + 2))
		return 0;
	if ((*why = header_fault(in + 4)))
		return -1;
	bulk = word_at(in, words + 1);
	*why = "a bulk part of forbidden size";
	if (bulk > s->max_bulk || bulk > size - 4 * (words + 1) || size - bulk > s->max_size || (size - bulk) % 4)
		return -1;
	*why = "out of memory";
	s->part = record_make(size - bulk, bulk);
	s->part_size = s->part_bulk = 0;
	s->ahead = bulk >= AHEAD ? AHEAD_BULK : AHEAD;
	return s->part ? 1 : -1;
}

static uint32_t part_bulk_missing(const struct stream *s)
{
	return (s->part->bulk ? s->part->bulk->size : 0) - s->part_bulk;
}

/* Moves `size` bytes, or as many as the record still lacks. */
static uint32_t fill(struct stream *s, const char *bytes, uint32_t size)
{
	struct record *r = s->part;
	uint32_t words = r->size - s->part_size < size ? r->size - s->part_size : size, bulk;

	memcpy((char *)r->word + s->part_size, bytes, words);
	s->part_size += words;
	bulk = part_bulk_missing(s) < size - words ? part_bulk_missing(s) : size - words;
	if (bulk)
		memcpy(r->bulk->data + s->part_bulk, bytes + words, bulk);
	s->part_bulk += bulk;
	return words + bulk;
}

static size_t bytes_of(const struct record *r)
{
	return r->size + (r->bulk ? r->bulk->size : 0);
}

static bool complete(struct stream *s)
{
	if (s->part_size < s->part->size || part_bulk_missing(s))
		return false;
	*s->came_end = s->part;
	s->came_end = &s->part->next;
	s->came_bytes += bytes_of(s->part);
	s->part = NULL;
	return true;
}

/* Makes records of what is in the input buffer. False: garbage. */
static bool parse(struct stream *s, const char **why)
{
	uint32_t at = 0;
	int got = 0;

	for (;;) {
		if (!s->part) {
			got = begin(s, s->in + at, s->in_size - at, why);
			if (got <= 0)
				break;
			at += 4;
		}
		at += fill(s, s->in + at, s->in_size - at);
		if (!complete(s))
			break;
	}
	s->in_size -= at;
	memmove(s->in, s->in + at, s->in_size);
	return got >= 0;
}

/* What a receive may fill: the rest of the record that has begun, then what is ahead. */
static int room(struct stream *s, struct iovec *iov, size_t *total)
{
	int n = 0;

	if (s->part && s->part_size < s->part->size)
		iov[n++] = (struct iovec){ (char *)s->part->word + s->part_size, s->part->size - s->part_size };
	if (s->part && part_bulk_missing(s))
		iov[n++] = (struct iovec){ s->part->bulk->data + s->part_bulk, part_bulk_missing(s) };
	iov[n++] = (struct iovec){ s->in + s->in_size, s->ahead - s->in_size };
	*total = 0;
	for (int i = 0; i < n; i++)
		*total += iov[i].iov_len;
	return n;
}

/* `n` bytes have come into what room() gave. */
static void account(struct stream *s, size_t n)
{
	if (s->part) {
		size_t words = s->part->size - s->part_size < n ? s->part->size - s->part_size : n;
		size_t bulk = part_bulk_missing(s) < n - words ? part_bulk_missing(s) : n - words;

		s->part_size += words;
		s->part_bulk += bulk;
		n -= words + bulk;
		complete(s);
	}
	s->in_size += n;
}

/* One receive and what it brought. 1: there may be more; 0: drained; -1: broken, *why says so. */
static int receive(struct stream *s, const char **why)
{
	struct iovec iov[3];
	size_t total;
	ssize_t n = s->transport->receive(s, iov, room(s, iov, &total));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		*why = s->trouble[0] ? s->trouble : n ? strerror(errno) : NULL; /* NULL: the peer closed it */
		s->garbage = s->trouble[0];
		return -1;
	}
	atomic_fetch_add_explicit(&s->bytes_in, n, memory_order_relaxed);
	account(s, n);
	s->garbage = !parse(s, why);
	return s->garbage ? -1 : (size_t)n == total;
}

static bool reads(const struct stream *s)
{
	return (!s->paused && (!s->queued_max || s->queued <= s->queued_max)) || s->send_waits_for_read;
}

static bool may_read(struct stream *s)
{
	bool yes;

	pthread_mutex_lock(&s->lock);
	yes = reads(s);
	pthread_mutex_unlock(&s->lock);
	return yes;
}

static struct record *next_came(struct stream *s)
{
	struct record *r = s->came;

	s->came = r->next;
	s->came_bytes -= bytes_of(r);
	if (!s->came)
		s->came_end = &s->came;
	return r;
}

/* A few receives bring hundreds of short records, and any of them may be one too many for who gets them: the others wait. Of who has hung up all is
 * delivered, for it will not come again, and behind it is the end. */
static void deliver(struct stream *s)
{
	struct record *r;

	while (s->came && (s->hung_up || may_read(s))) {
		r = next_came(s);
		s->got(s, r);
	}
}

/* One turn: what a few receives bring, and not much more than TURN_BYTES, is delivered before more is taken, however fast the peer sends. */
static int read_turn(struct stream *s)
{
	const char *why = NULL;
	int more = 1;

	for (int i = 0; more > 0 && i < ROUNDS && s->came_bytes < TURN_BYTES; i++)
		more = receive(s, &why);
	deliver(s);
	if (more < 0 && !s->dead) {
		s->dead = true;
		s->broken(s, why);
	}
	return more;
}

/* ---- sending; all with the lock held ---- */

static uint32_t wanted(struct stream *s)
{
	bool out = (s->first && !s->send_waits_for_read) || s->unsent;

	return (reads(s) ? EPOLLIN : 0) | (out || (s->held && reads(s)) ? EPOLLOUT : 0);
}

static void rewatch(struct stream *s)
{
	if (s->watched)
		shard_rewatch(&s->watch, wanted(s));
}

static void count_queued(struct stream *s, size_t more)
{
	s->queued += more;
	if (s->queued_together)
		atomic_fetch_add(s->queued_together, more);
}

/* After each call that may have sent: what the transport holds waits for the socket, too. */
static void count_unsent(struct stream *s)
{
	size_t now = s->transport->unsent ? s->transport->unsent(s) : 0;

	count_queued(s, now - s->unsent);
	s->unsent = now;
}

static int pieces(const struct outgoing *o, struct iovec *iov)
{
	size_t skip = o->sent;
	int n = 0;

	iov[n++] = (struct iovec){ (char *)o->head, o->size };
	for (unsigned i = 0; i < o->count; i++)
		iov[n++] = (struct iovec){ o->buffer[i]->data, o->buffer[i]->size };
	for (int i = 0; i < n && skip; i++) {
		size_t part = skip < iov[i].iov_len ? skip : iov[i].iov_len;

		iov[i].iov_base = (char *)iov[i].iov_base + part;
		iov[i].iov_len -= part;
		skip -= part;
	}
	return n;
}

static void outgoing_free(struct outgoing *o)
{
	for (unsigned i = 0; i < o->count; i++)
		buffer_unref(o->buffer[i]);
	free(o);
}

/* Number of bytes sent, 0 when the socket is full, or -1. */
static ssize_t send_some(struct stream *s, const struct iovec *iov, int count)
{
	ssize_t n = s->transport->send(s, iov, count);

	count_unsent(s);
	if (n >= 0) {
		atomic_fetch_add_explicit(&s->bytes_out, n, memory_order_relaxed);
		return n;
	}
	if (errno == EAGAIN || errno == EINTR)
		return 0;
	s->open = false;
	shutdown(s->watch.fd, SHUT_RDWR); /* the loop finds it broken */
	return -1;
}

static void flush(struct stream *s)
{
	struct iovec iov[1 + COMPOUND_MAX];
	struct outgoing *o;
	ssize_t n;

	if (s->open && !s->first && s->unsent)
		send_some(s, NULL, 0);
	while (s->open && (o = s->first)) {
		n = send_some(s, iov, pieces(o, iov));
		if (n < 0)
			break;
		o->sent += n;
		count_queued(s, -(size_t)n);
		if (o->sent < o->total)
			break;
		s->first = o->next;
		if (!s->first)
			s->last = NULL;
		outgoing_free(o);
	}
	rewatch(s);
}

static int enqueue(struct stream *s, const void *head, uint32_t size, struct buffer *const *buffers, unsigned count,
		   size_t sent, size_t total)
{
	struct outgoing *o = malloc(sizeof(*o) + size);

	if (!o) {
		s->open = false;
		shutdown(s->watch.fd, SHUT_RDWR);
		return -ENOTCONN;
	}
	*o = (struct outgoing){ .sent = sent, .total = total, .size = size, .count = count };
	memcpy(o->head, head, size);
	for (unsigned i = 0; i < count; i++)
		o->buffer[i] = buffer_ref(buffers[i]);
	if (s->last)
		s->last->next = o;
	else
		s->first = o;
	s->last = o;
	count_queued(s, total - sent);
	rewatch(s);
	return 0;
}

static int send_record(struct stream *s, const void *head, uint32_t size, struct buffer *const *buffers, unsigned count,
		       size_t total)
{
	struct iovec iov[1 + COMPOUND_MAX] = { { (void *)head, size } };
	ssize_t n = 0;

	if (!s->open)
		return -ENOTCONN;
	for (unsigned i = 0; i < count; i++)
		iov[1 + i] = (struct iovec){ buffers[i]->data, buffers[i]->size };
	if (!s->first)
		n = send_some(s, iov, 1 + count);
	if (n < 0)
		return -ENOTCONN;
	if ((size_t)n < total)
		return enqueue(s, head, size, buffers, count, n, total);
	if (s->unsent)
		rewatch(s);
	return 0;
}

int stream_send(struct stream *s, void *head, uint32_t size, struct buffer *const *buffers, unsigned count)
{
	size_t total = size;
	uint32_t mark;
	int err;

	for (unsigned i = 0; i < count; i++)
		total += buffers[i]->size;
	mark = htonl((uint32_t)(total - 4) | LAST_FRAGMENT);
	memcpy(head, &mark, 4);
	pthread_mutex_lock(&s->lock);
	err = send_record(s, head, size, buffers, count, total);
	pthread_mutex_unlock(&s->lock);
	return err;
}

/* ---- life ---- */

static bool has_pending(struct stream *s)
{
	return s->transport->pending && s->transport->pending(s);
}

/* What no event tells of can be taken. */
static bool is_held(struct stream *s)
{
	bool held;

	pthread_mutex_lock(&s->lock);
	held = s->held && reads(s);
	pthread_mutex_unlock(&s->lock);
	return held;
}

/* It goes on with an event that is there at once (EPOLLOUT), or when it is not paused any more. */
static void hold(struct stream *s, bool on)
{
	pthread_mutex_lock(&s->lock);
	if (s->held != on) {
		s->held = on;
		rewatch(s);
	}
	pthread_mutex_unlock(&s->lock);
}

/* Reading may write, too: a handshake does. */
static void watch_unsent(struct stream *s)
{
	if (!s->transport->unsent)
		return;
	pthread_mutex_lock(&s->lock);
	count_unsent(s);
	if (s->unsent)
		rewatch(s);
	pthread_mutex_unlock(&s->lock);
}

/* What came before is delivered first; while that waits nothing more is taken. What the transport holds is taken in some turns more; after that
 * other streams have theirs. */
static void read_ready(struct stream *s)
{
	int more = 1;

	deliver(s);
	if (!s->dead && (s->hung_up || (!s->came && may_read(s))))
		more = read_turn(s);
	for (int i = 0; more > 0 && !s->dead && !s->came && i < TURNS && has_pending(s) && may_read(s); i++)
		more = read_turn(s);
	if (!s->dead && (s->came || s->held || s->transport->pending))
		hold(s, s->came || (more > 0 && has_pending(s)));
	if (!s->dead)
		watch_unsent(s);
}

/* What who was refused still sends. */
static void drop(struct stream *s)
{
	char ignored[4096];
	ssize_t n = recv(s->watch.fd, ignored, sizeof(ignored), MSG_DONTWAIT);
	bool over;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	pthread_mutex_lock(&s->lock);
	over = n <= 0 || (size_t)n >= s->lingers;
	s->lingers -= over ? s->lingers : (size_t)n;
	pthread_mutex_unlock(&s->lock);
	if (over)
		s->broken(s, NULL);
}

static void ready(struct watch *w, uint32_t events)
{
	struct stream *s = (struct stream *)w;

	if (s->lingers) {
		drop(s);
		return;
	}
	if (s->dead)
		return;
	s->hung_up = events & (EPOLLHUP | EPOLLERR);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP) || is_held(s))
		read_ready(s);
	if (s->dead)
		return;
	pthread_mutex_lock(&s->lock);
	if (events & EPOLLOUT || (s->first && s->send_waits_for_read)) {
		s->send_waits_for_read = false;
		flush(s);
	}
	pthread_mutex_unlock(&s->lock);
}

int stream_open(struct stream *s, const struct transport *t, int fd, uint32_t max_size, uint32_t max_bulk)
{
	memset(s, 0, sizeof(*s));
	s->watch = (struct watch){ .fd = fd, .ready = ready };
	s->transport = t;
	s->max_size = max_size;
	s->max_bulk = max_bulk;
	s->ahead = AHEAD;
	s->came_end = &s->came;
	s->in = malloc(AHEAD);
	pthread_mutex_init(&s->lock, NULL);
	s->open = s->in;
	if (!s->in)
		t->close(s);
	return s->in ? 0 : -ENOMEM;
}

int stream_watch(struct stream *s, struct shard *shard)
{
	int err;

	pthread_mutex_lock(&s->lock);
	err = shard_watch(shard, &s->watch, wanted(s));
	s->watched = !err;
	pthread_mutex_unlock(&s->lock);
	return err;
}

void stream_unwatch(struct stream *s)
{
	pthread_mutex_lock(&s->lock);
	if (s->watched)
		shard_unwatch(&s->watch);
	s->watched = false;
	pthread_mutex_unlock(&s->lock);
}

void stream_pause(struct stream *s, bool on)
{
	pthread_mutex_lock(&s->lock);
	s->paused = on;
	if (s->open)
		rewatch(s);
	pthread_mutex_unlock(&s->lock);
}

size_t stream_queued(struct stream *s)
{
	size_t queued;

	pthread_mutex_lock(&s->lock);
	queued = s->queued;
	pthread_mutex_unlock(&s->lock);
	return queued;
}

void stream_count_queued(struct stream *s, atomic_size_t *together)
{
	pthread_mutex_lock(&s->lock);
	s->queued_together = together;
	atomic_fetch_add(together, s->queued);
	pthread_mutex_unlock(&s->lock);
}

bool stream_linger(struct stream *s)
{
	bool yes;

	pthread_mutex_lock(&s->lock);
	yes = s->alerted;
	if (yes) {
		s->alerted = false;
		s->open = false;
		s->lingers = LINGER;
		shutdown(s->watch.fd, SHUT_WR);
		if (s->watched)
			shard_rewatch(&s->watch, EPOLLIN);
	}
	pthread_mutex_unlock(&s->lock);
	return yes;
}

void stream_kill(struct stream *s)
{
	pthread_mutex_lock(&s->lock);
	if (s->open || s->lingers)
		shutdown(s->watch.fd, SHUT_RDWR);
	pthread_mutex_unlock(&s->lock);
}

void stream_close(struct stream *s)
{
	struct outgoing *o;

	stream_unwatch(s);
	pthread_mutex_lock(&s->lock);
	s->open = false;
	s->dead = true;
	s->lingers = 0;
	s->transport->close(s);
	while ((o = s->first)) {
		s->first = o->next;
		outgoing_free(o);
	}
	s->last = NULL;
	count_queued(s, -s->queued);
	s->unsent = 0;
	pthread_mutex_unlock(&s->lock);
	record_free(s->part);
	s->part = NULL;
	while (s->came)
		record_free(next_came(s));
	free(s->in);
	s->in = NULL;
}

/* ---- headers ---- */

static uint32_t header(void *head, const uint32_t *words, unsigned count)
{
	uint32_t *to = head;

	for (unsigned i = 0; i < count; i++)
		to[1 + i] = htonl(words[i]);
	return 4 * (1 + count);
}

uint32_t call_header(void *head, uint32_t xid, uint32_t procedure, uint32_t bulk_size)
{
	const uint32_t words[CALL_BODY] = { xid, 0, 2, WIRE_PROGRAM, WIRE_VERSION, procedure, 0, 0, 0, 0, bulk_size };

	return header(head, words, CALL_BODY);
}

uint32_t reply_header(void *head, uint32_t xid, uint32_t bulk_size)
{
	const uint32_t words[REPLY_BODY] = { xid, 1, 0, 0, 0, 0, bulk_size };

	return header(head, words, REPLY_BODY);
}

void header_bulk(void *head, uint32_t bulk_size)
{
	uint32_t *to = head;

	to[to[1 + WORD_TYPE] ? REPLY_BODY : CALL_BODY] = htonl(bulk_size);
}
