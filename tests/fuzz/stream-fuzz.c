/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the framing of records. What comes in is sent back record by record, so what goes out must be what came in, to
 * the last record that was complete; and how the bytes were cut into pieces, in and out, must make no difference. */
#include "fuzz.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "stream.h"

enum { FLOW_MAX = 256 << 10, IN_ROOM = 16384 };

static char flow[FLOW_MAX], back[FLOW_MAX]; /* the bytes of the connection, and what was sent back */
static size_t piece[1 << 13], pieces, flow_size;

struct peer {
	struct stream stream;
	bool cut; /* in pieces, or as much as the stream takes */
	size_t at, in_piece, next_piece, back_size;
	uint32_t random;
	bool broken;
	const char *why;
};

static size_t offered(struct peer *p)
{
	return p->cut ? p->in_piece : flow_size - p->at;
}

static ssize_t receive(struct stream *s, const struct iovec *iov, int count)
{
	struct peer *p = (struct peer *)s;
	size_t some = offered(p), total = 0, done = 0;

	for (int i = 0; i < count; i++)
		total += iov[i].iov_len;
	MUST(total > 0);
	MUST((char *)iov[count - 1].iov_base >= s->in &&
	     (char *)iov[count - 1].iov_base + iov[count - 1].iov_len <= s->in + IN_ROOM);
	if (p->at == flow_size)
		return 0;
	if (!some) {
		errno = EAGAIN;
		return -1;
	}
	for (int i = 0; i < count && done < some; i++) {
		size_t n = iov[i].iov_len < some - done ? iov[i].iov_len : some - done;

		memcpy(iov[i].iov_base, flow + p->at + done, n);
		done += n;
	}
	p->at += done;
	p->in_piece -= p->cut ? done : 0;
	return done;
}

/* How much the socket takes this time. */
static size_t taken(struct peer *p)
{
	p->random = p->random * 1664525 + 1013904223;
	return p->cut ? (p->random >> 24 & 3) ? p->random >> 16 & 63 : p->random >> 16 : FLOW_MAX;
}

static ssize_t send_back(struct stream *s, const struct iovec *iov, int count)
{
	struct peer *p = (struct peer *)s;
	size_t some = taken(p), done = 0;

	for (int i = 0; i < count && done < some; i++) {
		size_t n = iov[i].iov_len < some - done ? iov[i].iov_len : some - done;

		MUST(p->back_size + n <= flow_size);
		memcpy(back + p->back_size, iov[i].iov_base, n);
		p->back_size += n;
		done += n;
	}
	if (done)
		return done;
	errno = EAGAIN;
	return -1;
}

static void shut(struct stream *s)
{
	(void)s;
}

static const struct transport transport = { "fuzz", receive, send_back, shut };

static void got(struct stream *s, struct record *r)
{
	char *head = malloc(4 + r->size);

	MUST(r->size >= 4 * REPLY_BODY && r->size <= s->max_size && r->size % 4 == 0);
	MUST(!r->bulk || (r->bulk->size && r->bulk->size <= s->max_bulk));
	memcpy(head + 4, r->word, r->size);
	MUST(!stream_send(s, head, 4 + r->size, &r->bulk, r->bulk ? 1 : 0));
	free(head);
	record_free(r);
}

static void broken(struct stream *s, const char *why)
{
	struct peer *p = (struct peer *)s;

	MUST(!p->broken);
	p->broken = true;
	p->why = why;
}

static void run(struct peer *p, unsigned flags, unsigned seed, bool cut)
{
	bool greeting = flags & STREAM_GREETING;
	struct stream *s = &p->stream;

	memset(p, 0, sizeof(*p));
	MUST(!stream_open(s, &transport, -1, greeting ? WIRE_GREETING_MAX : WIRE_XDR_MAX, greeting ? 0 : WIRE_BULK_MAX));
	s->got = got;
	s->broken = broken;
	p->cut = cut;
	p->random = seed;
	while (!p->broken) {
		if (cut && !p->in_piece)
			p->in_piece = p->next_piece < pieces ? piece[p->next_piece++] : 0;
		s->watch.ready(&s->watch, EPOLLIN | (seed & 1 ? EPOLLOUT : 0));
	}
	s->dead = false; /* the peer still takes what it is owed */
	while (s->first)
		s->watch.ready(&s->watch, EPOLLOUT);
	MUST(!memcmp(flow, back, p->back_size));
	MUST(s->garbage == (p->why != NULL));
	MUST(!s->queued);
	stream_close(s);
}

/* Makes the flow and its pieces. */
static void unpack(const uint8_t *at, const uint8_t *end)
{
	flow_size = pieces = 0;
	while (end - at >= 2 && pieces < sizeof(piece) / sizeof(*piece)) {
		unsigned mark = fuzz_u16(at);
		bool filler = mark & STREAM_FILLER;
		size_t n = filler ? (mark & ~STREAM_FILLER) * STREAM_FILLER_UNIT : mark, room = FLOW_MAX - flow_size;

		at += 2;
		if (!filler && n > (size_t)(end - at))
			n = end - at;
		n = n < room ? n : room;
		if (filler) {
			memset(flow + flow_size, 0x5a, n);
		} else {
			memcpy(flow + flow_size, at, n);
			at += n;
		}
		flow_size += n;
		piece[pieces++] = n;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct peer whole, cut;

	if (size < STREAM_AT_PIECES)
		return -1;
	unpack(bytes + STREAM_AT_PIECES, bytes + size);
	run(&whole, bytes[0], bytes[1], false);
	run(&cut, bytes[0], bytes[1], true);
	MUST(whole.back_size == cut.back_size);
	MUST(whole.why == cut.why);
	return 0;
}
