/* SPDX-License-Identifier: Apache-2.0 */
/* One message at a time: its preamble and header are held back until they have been looked at, the payload is carried in pieces; the next piece is read when libraft has taken the last one. */
#include "raft-link.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log.h"
#include "raft-frame.h"

enum { PIECE = 512 << 10, WARN_S = 60, LINKS = 64, LINKS_OF_ONE = 4 };

struct link {
	struct link *next, **back;
	uv_pipe_t *outer, *inner; /* the network; libraft */
	struct hello hello;	  /* of who has called */
	const struct wire_peers *peers;
	struct frame frame;
	bool in_header;
	uint64_t payload; /* still to come */
	uint8_t *held;	  /* what is read */
	size_t size, have, wanted;
	uv_write_t write;
	bool writes, is_closed;
	bool spoke;	   /* a message, which was let pass */
	unsigned open;	   /* of its two ends */
	uint64_t heard_ns; /* when something came last */
	char ignored[8];
};

/* ---- pipes ---- */

static void free_pipe(uv_handle_t *handle)
{
	raft_free(handle);
}

void pipe_close(uv_pipe_t *pipe)
{
	if (pipe)
		uv_close((uv_handle_t *)pipe, free_pipe);
}

uv_pipe_t *pipe_open(uv_loop_t *loop, int fd)
{
	uv_pipe_t *pipe = raft_malloc(sizeof *pipe);

	if (!pipe || uv_pipe_init(loop, pipe, 0)) {
		raft_free(pipe);
		close(fd);
		return NULL;
	}
	if (!uv_pipe_open(pipe, fd))
		return pipe;
	close(fd);
	pipe_close(pipe);
	return NULL;
}

/* ---- closing ---- */

static void end_closed(uv_handle_t *handle)
{
	struct link *l = handle->data;

	raft_free(handle);
	if (--l->open)
		return;
	free(l->held);
	free(l);
}

void link_close(struct link *l)
{
	if (l->is_closed)
		return;
	l->is_closed = true;
	*l->back = l->next;
	if (l->next)
		l->next->back = l->back;
	uv_close((uv_handle_t *)l->outer, end_closed);
	uv_close((uv_handle_t *)l->inner, end_closed);
}

/* First who has said no more than who he claims to be. */
static bool goes_before(const struct link *l, const struct link *other)
{
	if (other && l->spoke != other->spoke)
		return !l->spoke;
	return !other || l->heard_ns < other->heard_ns;
}

/* A server has one connection to another. More are left of machines and networks that went away, or are not a server's. */
void links_make_way(struct link *list, uint64_t id)
{
	struct link *silent = NULL, *silent_one = NULL;
	unsigned all = 0, of_one = 0;

	for (struct link *l = list; l; l = l->next, all++) {
		if (goes_before(l, silent))
			silent = l;
		if (l->hello.id != id)
			continue;
		if (goes_before(l, silent_one))
			silent_one = l;
		of_one++;
	}
	if (of_one >= LINKS_OF_ONE)
		link_close(silent_one);
	else if (all >= LINKS)
		link_close(silent);
}

bool links_bring(const struct link *list, const uint8_t cluster[CLUSTER_ID])
{
	for (; list; list = list->next)
		if ((list->have || list->payload || list->writes) && !memcmp(list->hello.card.cluster, cluster, CLUSTER_ID))
			return true;
	return false;
}

static void refuse(struct link *l, const char *wrong)
{
	static uint64_t told_ms; /* there is one loop's thread that has connections in a process, but for tests */
	uint64_t now = uv_now(l->outer->loop);

	if (!told_ms || told_ms + WARN_S * 1000 < now) {
		told_ms = now;
		log_error(
			NULL, NULL,
			"the server at %s sends the shared store %s: its connection was closed. Is it a stratusd, and of a version that goes with this one?",
			l->hello.address, wrong);
	}
	link_close(l);
}

/* ---- carrying ---- */

static void expect_message(struct link *l)
{
	l->in_header = false;
	l->have = 0;
	l->wanted = FRAME_PREAMBLE;
}

static void expect_payload(struct link *l)
{
	l->have = 0;
	l->wanted = l->payload < PIECE ? (size_t)l->payload : PIECE;
	if (!l->payload)
		expect_message(l);
}

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
	struct link *l = handle->data;

	(void)suggested;
	if (l->size < l->wanted) {
		uint8_t *grown = realloc(l->held, l->wanted);

		if (!grown) {
			*room = uv_buf_init(NULL, 0);
			return;
		}
		l->held = grown;
		l->size = l->wanted;
	}
	*room = uv_buf_init((char *)l->held + l->have, (unsigned)(l->wanted - l->have));
}

static void heard(uv_stream_t *, ssize_t, const uv_buf_t *);

static void carried(uv_write_t *write, int status)
{
	struct link *l = write->data;

	l->writes = false;
	if (l->is_closed)
		return;
	expect_payload(l);
	if (status || uv_read_start((uv_stream_t *)l->outer, give_room, heard))
		link_close(l);
}

static void carry(struct link *l)
{
	uv_buf_t piece = uv_buf_init((char *)l->held, (unsigned)l->have);

	uv_read_stop((uv_stream_t *)l->outer);
	l->write.data = l;
	l->writes = !uv_write(&l->write, (uv_stream_t *)l->inner, &piece, 1, carried);
	if (!l->writes)
		link_close(l);
}

static void take_preamble(struct link *l)
{
	const char *wrong = frame_begin(&l->frame, l->held);

	if (wrong) {
		refuse(l, wrong);
		return;
	}
	l->in_header = true;
	l->wanted = FRAME_PREAMBLE + l->frame.header;
}

static void take_header(struct link *l)
{
	const char *wrong = frame_header(&l->frame, l->held + FRAME_PREAMBLE);

	if (wrong) {
		refuse(l, wrong);
		return;
	}
	if (!l->peers->passes(l->peers->arg, &l->hello.card, l->frame.type)) {
		link_close(l);
		return;
	}
	l->in_header = false;
	l->spoke = true;
	l->payload = l->frame.payload;
	carry(l);
}

static void heard(uv_stream_t *stream, ssize_t n, const uv_buf_t *room)
{
	struct link *l = stream->data;

	(void)room;
	if (n < 0) {
		link_close(l);
		return;
	}
	l->have += (size_t)n;
	l->heard_ns = uv_hrtime();
	if (l->have < l->wanted)
		return;
	if (l->payload) {
		l->payload -= l->have;
		carry(l);
	} else if (l->in_header) {
		take_header(l);
	} else {
		take_preamble(l);
	}
}

/* Libraft says nothing there: its end was closed. */
static void give_little(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
	struct link *l = handle->data;

	(void)suggested;
	*room = uv_buf_init(l->ignored, sizeof l->ignored);
}

static void inner_heard(uv_stream_t *stream, ssize_t n, const uv_buf_t *room)
{
	(void)room;
	if (n < 0)
		link_close(stream->data);
}

struct link *link_create(uv_pipe_t *outer, const struct hello *hello, const struct wire_peers *peers, struct link **list,
			 struct uv_stream_s **inner)
{
	struct link *l = calloc(1, sizeof *l);
	int end[2] = { -1, -1 };
	uv_pipe_t *theirs = NULL;

	const int room = 2 * PIECE;

	if (l && !socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, end)) {
		if (setsockopt(end[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room)) /* or as much as one may have */
			setsockopt(end[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
		l->inner = pipe_open(outer->loop, end[0]);
		theirs = pipe_open(outer->loop, end[1]);
	}
	if (!l || !l->inner || !theirs) {
		if (l)
			pipe_close(l->inner);
		free(l);
		pipe_close(theirs);
		pipe_close(outer);
		return NULL;
	}
	l->outer = outer;
	l->open = 2;
	l->hello = *hello;
	l->peers = peers;
	l->heard_ns = uv_hrtime();
	l->outer->data = l->inner->data = l;
	l->next = *list;
	l->back = list;
	if (l->next)
		l->next->back = &l->next;
	*list = l;
	expect_message(l);
	*inner = (struct uv_stream_s *)theirs;
	if (uv_read_start((uv_stream_t *)l->outer, give_room, heard) ||
	    uv_read_start((uv_stream_t *)l->inner, give_little, inner_heard))
		link_close(l); /* libraft finds its end closed */
	return l;
}
