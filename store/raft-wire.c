/* SPDX-License-Identifier: Apache-2.0 */
/* libraft's connections. By TLS they go through tunnels (rpc/tunnel.h), which have a thread of their own; what it says goes to the loop's thread by a
 * list and uv_async_send(). The first bytes of a connection say who calls (raft-greeting.h). Libraft uses each in one direction only, from who calls; the other way goes
 * nothing, but why the one that is called refuses. */
#include "raft-wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "raft-link.h"
#include "stream.h"
#include "tunnel.h"

enum {
	CALLERS = 64, /* at most so many at a time who have not said yet who they are */
	REST_MS = 1000,
	WARN_S = 60
};
static const char server[] = "stratus:server";

struct wire;
struct news { /* who was called, or has called; by TLS it comes from the tunnels' thread */
	struct news *next;
	struct wire *wire;
	struct raft_uv_connect *dialled; /* NULL: somebody has called us */
	raft_uv_connect_cb cb;
	raft_id id;	  /* of who is called */
	int fd;		  /* or -errno */
	char address[64]; /* that is dialled */
};
struct caller { /* who has called and not said yet who it is */
	uv_pipe_t *pipe;
	struct wire *wire;
	struct caller *next, **link;
	uint8_t hello[HELLO_MAX];
	size_t have;
};
struct call { /* a connection that is being made without TLS */
	uv_poll_t poll;
	struct news *news;
	struct call *next, **link;
	int fd;
};
struct ear { /* hears why who was called refuses */
	uv_pipe_t *pipe;
	struct wire *wire;
	struct ear *next, **link;
	raft_id id;
	char address[64];
	uint8_t answer[ANSWER_BYTES];
	size_t have;
};
struct wire {
	struct raft_uv_transport *transport;
	uv_loop_t *loop;
	uv_async_t wake;
	uv_poll_t door;	  /* without TLS: who calls */
	uv_timer_t rest;  /* so long nobody is let in */
	int door_fd;	  /* -1: none */
	unsigned watches; /* of `wake`, `door` and `rest`: so many are open */
	struct tunnels *tunnels;
	bool secure;
	struct wire_peers peers;
	raft_id id;
	char address[64];
	char told[256];				  /* whom the last complaint was about */
	uint64_t stranger_ns, client_ns, door_ns; /* when one was told of last */
	struct caller *callers;
	struct call *calls;
	struct ear *ears;
	struct link *links;
	raft_uv_accept_cb accept;
	raft_uv_transport_close_cb closed;
	pthread_mutex_t lock; /* guards what follows */
	struct news *first, **last;
};

/* ---- from the tunnels ---- */

static void say(struct news *e)
{
	struct wire *s = e->wire;

	pthread_mutex_lock(&s->lock);
	*s->last = e;
	s->last = &e->next;
	pthread_mutex_unlock(&s->lock);
	uv_async_send(&s->wake);
}

static bool is_server(const struct tunnel_peer *peer)
{
	return !strcmp(peer->identity, server);
}

/* Once a minute: they may come at full speed. */
static bool is_to_be_told(uint64_t *told_ns)
{
	uint64_t now = uv_hrtime();

	if (*told_ns && *told_ns + WARN_S * 1000000000ull > now)
		return false;
	*told_ns = now;
	return true;
}

static void accepted(void *arg, int fd, const struct tunnel_peer *peer)
{
	struct wire *s = arg;
	struct news *e = is_server(peer) ? calloc(1, sizeof *e) : NULL;

	if (!e) {
		if (!is_server(peer) && is_to_be_told(&s->client_ns))
			log_warning(NULL, NULL, "a connection to the cluster store was closed: '%s' is not a server",
				    peer->identity);
		close(fd);
		return;
	}
	*e = (struct news){ .wire = s, .fd = fd };
	say(e);
}

/* libraft tries again each second: it is told once. */
static void note_dialled(struct news *e, const char *why)
{
	struct wire *s = e->wire;
	char said[sizeof s->told];

	snprintf(said, sizeof said, "%s %s", e->address, e->fd < 0 ? why : "");
	if (e->fd < 0 && strcmp(s->told, said)) {
		strcpy(s->told, said);
		log_warning(NULL, NULL, "the server of the cluster store at %s can't be reached: %s", e->address, why);
	} else if (e->fd >= 0) {
		s->told[0] = '\0';
	}
}

static void connected(void *arg, int fd, const struct tunnel_peer *peer, const char *why)
{
	struct news *e = arg;

	if (fd >= 0 && !is_server(peer)) {
		close(fd);
		fd = -EACCES;
		why = "its certificate is not a server's";
	}
	e->fd = fd;
	note_dialled(e, why);
	say(e);
}

/* ---- who was called ---- */

static void ear_free(struct ear *e)
{
	*e->link = e->next;
	if (e->next)
		e->next->link = e->link;
	pipe_close(e->pipe);
	free(e);
}

static void ear_room(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
	struct ear *e = handle->data;

	(void)suggested;
	*room = uv_buf_init((char *)e->answer + e->have, (unsigned)(sizeof e->answer - e->have));
}

static void ear_heard(uv_stream_t *stream, ssize_t n, const uv_buf_t *room)
{
	struct ear *e = stream->data;
	const struct wire_peers *peers = &e->wire->peers;
	struct answer answer;

	(void)room;
	e->have += n > 0 ? (size_t)n : 0;
	if (n >= 0 && e->have < sizeof e->answer)
		return;
	if (e->have == sizeof e->answer && answer_decode(e->answer, &answer))
		peers->told(peers->arg, e->id, e->address, &answer);
	ear_free(e);
}

/* What libraft writes to goes by a copy of the descriptor. Without an ear it is not heard why, no more. */
static void listen_to(struct wire *s, const struct news *n)
{
	struct ear *e = calloc(1, sizeof *e);
	int copy = e ? fcntl(n->fd, F_DUPFD_CLOEXEC, 0) : -1;

	if (e && copy >= 0)
		e->pipe = pipe_open(s->loop, copy);
	if (!e || !e->pipe) {
		free(e);
		return;
	}
	e->wire = s;
	e->id = n->id;
	memcpy(e->address, n->address, sizeof e->address);
	e->next = s->ears;
	e->link = &s->ears;
	if (e->next)
		e->next->link = &e->next;
	s->ears = e;
	e->pipe->data = e;
	if (uv_read_start((uv_stream_t *)e->pipe, ear_room, ear_heard))
		ear_free(e);
}

/* A fresh socket takes it whole. */
static bool say_hello(const struct wire *s, const struct news *n)
{
	struct hello h = { .id = s->id };
	uint8_t bytes[HELLO_MAX];
	size_t size;

	memcpy(h.address, s->address, sizeof h.address - 1);
	s->peers.card(s->peers.arg, n->id, &h.card);
	size = hello_encode(&h, s->secure, bytes);
	return send(n->fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size;
}

static void finish_dial(struct wire *s, struct news *e)
{
	uv_pipe_t *pipe = NULL;

	if (e->fd >= 0 && !s->closed && say_hello(s, e)) {
		listen_to(s, e);
		pipe = pipe_open(s->loop, e->fd);
	} else if (e->fd >= 0) {
		close(e->fd);
	}
	e->cb(e->dialled, (struct uv_stream_s *)pipe, pipe ? 0 : s->closed ? RAFT_CANCELED : RAFT_NOCONNECTION);
}

/* ---- who calls ---- */

static void caller_free(struct caller *c)
{
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	free(c);
}

static void hang_up(struct caller *c)
{
	pipe_close(c->pipe);
	caller_free(c);
}

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
	struct caller *c = handle->data;
	size_t wanted = hello_wants(c->hello, c->have, c->wire->secure);

	(void)suggested;
	*room = uv_buf_init((char *)c->hello + c->have, (unsigned)(wanted - c->have));
}

/* Older releases do not read it. */
static void answer_no(struct caller *c, enum refusal why)
{
	struct answer answer = { .why = why };
	uint8_t bytes[ANSWER_BYTES];
	uv_buf_t piece = uv_buf_init((char *)bytes, sizeof bytes);

	c->wire->peers.cluster(c->wire->peers.arg, answer.cluster);
	answer_encode(&answer, bytes);
	uv_try_write((uv_stream_t *)c->pipe, &piece, 1);
}

static void welcome(struct caller *c, const struct hello *hello)
{
	struct wire *s = c->wire;
	struct uv_stream_s *inner;
	uv_pipe_t *pipe = c->pipe;

	caller_free(c);
	links_make_way(s->links, hello->id);
	if (link_create(pipe, hello, &s->peers, &s->links, &inner))
		s->accept(s->transport, hello->id, hello->address, inner);
}

static void heard(uv_stream_t *stream, ssize_t n, const uv_buf_t *room)
{
	struct caller *c = stream->data;
	struct wire *s = c->wire;
	struct hello hello;
	enum refusal why;
	size_t wanted;

	(void)room;
	if (n < 0) {
		hang_up(c);
		return;
	}
	c->have += n;
	wanted = hello_wants(c->hello, c->have, s->secure);
	if (c->have < wanted)
		return;
	uv_read_stop(stream);
	if (!wanted || !hello_decode(c->hello, c->have, s->secure, &hello)) {
		if (is_to_be_told(&s->stranger_ns))
			log_warning(NULL, NULL, "a connection to the cluster store was closed: it speaks something else");
		hang_up(c);
		return;
	}
	why = s->peers.greeted(s->peers.arg, &hello);
	if (!why) {
		welcome(c, &hello);
		return;
	}
	answer_no(c, why);
	hang_up(c);
}

static void make_room(struct wire *s)
{
	struct caller *oldest = s->callers;
	unsigned count = 0;

	for (struct caller *c = s->callers; c; c = c->next, count++)
		oldest = c;
	if (count >= CALLERS)
		hang_up(oldest);
}

static void take_caller(struct wire *s, int fd)
{
	struct caller *c = s->closed ? NULL : calloc(1, sizeof *c);

	if (c)
		c->pipe = pipe_open(s->loop, fd);
	else
		close(fd);
	if (!c || !c->pipe) {
		free(c);
		return;
	}
	make_room(s);
	c->wire = s;
	c->next = s->callers;
	c->link = &s->callers;
	if (c->next)
		c->next->link = &c->next;
	s->callers = c;
	c->pipe->data = c;
	if (uv_read_start((uv_stream_t *)c->pipe, give_room, heard))
		hang_up(c);
}

static void take_events(struct wire *s)
{
	struct news *list;

	pthread_mutex_lock(&s->lock);
	list = s->first;
	s->first = NULL;
	s->last = &s->first;
	pthread_mutex_unlock(&s->lock);
	while (list) {
		struct news *e = list;

		list = e->next;
		if (e->dialled)
			finish_dial(s, e);
		else
			take_caller(s, e->fd);
		free(e);
	}
}

static void woken(uv_async_t *async)
{
	take_events(async->data);
}

/* ---- without TLS ---- */

static void knocked(uv_poll_t *, int, int);

static void rested(uv_timer_t *rest)
{
	struct wire *s = rest->data;

	uv_poll_start(&s->door, UV_READABLE, knocked);
}

/* Who waits at the door would wake the loop without an end. */
static void take_a_rest(struct wire *s, int err)
{
	if (err != EMFILE && err != ENFILE && err != ENOMEM && err != ENOBUFS)
		return;
	if (is_to_be_told(&s->door_ns))
		log_warning(NULL, NULL, "can't accept a connection to the cluster store: %s; trying again each second",
			    strerror(err));
	uv_poll_stop(&s->door);
	uv_timer_start(&s->rest, rested, REST_MS, 0);
}

static void knocked(uv_poll_t *door, int status, int events)
{
	struct wire *s = door->data;
	int fd;

	(void)events;
	if (status)
		return;
	fd = accept4(s->door_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		take_a_rest(s, errno);
		return;
	}
	tcp_tune(fd);
	take_caller(s, fd);
}

static int open_door(struct wire *s, int fd)
{
	if (uv_poll_init(s->loop, &s->door, fd)) {
		close(fd);
		return RAFT_IOERR;
	}
	uv_timer_init(s->loop, &s->rest);
	s->door_fd = fd;
	s->door.data = s->rest.data = s;
	s->watches += 2;
	return uv_poll_start(&s->door, UV_READABLE, knocked) ? RAFT_IOERR : 0;
}

static void call_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void end_call(struct call *c, int err)
{
	struct news *n = c->news;

	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	n->fd = err ? -err : c->fd;
	uv_close((uv_handle_t *)&c->poll, call_closed); /* libuv wants the descriptor for it */
	if (err)
		close(c->fd);
	finish_dial(n->wire, n);
	free(n);
}

static void answered(uv_poll_t *poll, int status, int events)
{
	struct call *c = poll->data;
	socklen_t size = sizeof(int);
	int err = status < 0 ? -status : 0;

	(void)events;
	if (!err && getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &size))
		err = errno;
	uv_poll_stop(poll);
	end_call(c, err);
}

/* 0: it takes `n`, and says how it ends later. */
static int begin_call(struct wire *s, const struct sockaddr_in *to, struct news *n)
{
	struct call *c = calloc(1, sizeof *c);
	int fd = c ? socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) : -1;

	if (fd >= 0)
		tcp_tune(fd);
	if (fd < 0 || (connect(fd, (const struct sockaddr *)to, sizeof *to) && errno != EINPROGRESS) ||
	    uv_poll_init(s->loop, &c->poll, fd)) {
		if (fd >= 0)
			close(fd);
		free(c);
		return RAFT_NOCONNECTION;
	}
	c->fd = fd;
	c->news = n;
	c->poll.data = c;
	c->next = s->calls;
	c->link = &s->calls;
	if (c->next)
		c->next->link = &c->next;
	s->calls = c;
	uv_poll_start(&c->poll, UV_WRITABLE, answered);
	return 0;
}

/* ---- what libraft calls ---- */

static int parse(const char *address, struct sockaddr_in *to, char host[INET_ADDRSTRLEN])
{
	const char *colon = strchr(address, ':');

	*to = (struct sockaddr_in){ .sin_family = AF_INET };
	if (!colon || (size_t)(colon - address) >= INET_ADDRSTRLEN)
		return RAFT_INVALID;
	memcpy(host, address, colon - address);
	host[colon - address] = '\0';
	to->sin_port = htons((uint16_t)atoi(colon + 1));
	return inet_pton(AF_INET, host, &to->sin_addr) == 1 ? 0 : RAFT_INVALID;
}

static int init(struct raft_uv_transport *t, raft_id id, const char *address)
{
	struct wire *s = t->impl;

	s->id = id;
	snprintf(s->address, sizeof s->address, "%s", address);
	return 0;
}

static int listen_(struct raft_uv_transport *t, raft_uv_accept_cb cb)
{
	struct wire *s = t->impl;
	struct sockaddr_in a;
	char host[INET_ADDRSTRLEN];
	int status = parse(s->address, &a, host), one = 1, fd;

	if (status)
		return status;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 64)) {
		snprintf(t->errmsg, sizeof t->errmsg, "can't listen on %s: %s", s->address, strerror(errno));
		if (fd >= 0)
			close(fd);
		return RAFT_IOERR;
	}
	s->accept = cb;
	return s->secure ? tunnels_listen(s->tunnels, fd, accepted, s) ? RAFT_IOERR : 0 : open_door(s, fd);
}

static int dial(struct raft_uv_transport *t, struct raft_uv_connect *request, raft_id id, const char *address,
		raft_uv_connect_cb cb)
{
	struct wire *s = t->impl;
	struct news *e = calloc(1, sizeof *e);
	struct sockaddr_in a;
	char host[INET_ADDRSTRLEN];
	int status = e ? parse(address, &a, host) : RAFT_NOMEM;

	if (!status) {
		*e = (struct news){ .wire = s, .dialled = request, .cb = cb, .id = id };
		snprintf(e->address, sizeof e->address, "%s", address);
		request->cb = cb;
		status = !s->secure ? begin_call(s, &a, e)
			 : tunnels_connect(s->tunnels, (struct sockaddr *)&a, sizeof a, host, connected, e) ? RAFT_NOCONNECTION
													    : 0;
		if (!status)
			return 0;
	}
	free(e);
	return status;
}

static void watch_closed(uv_handle_t *handle)
{
	struct wire *s = handle->data;

	if (handle == (uv_handle_t *)&s->door)
		close(s->door_fd);
	if (!--s->watches && s->closed)
		s->closed(s->transport);
}

static void close_(struct raft_uv_transport *t, raft_uv_transport_close_cb cb)
{
	struct wire *s = t->impl;

	s->closed = cb;
	tunnels_destroy(s->tunnels); /* whoever is being called is given up */
	s->tunnels = NULL;
	take_events(s);
	while (s->calls)
		end_call(s->calls, ECANCELED);
	while (s->callers)
		hang_up(s->callers);
	while (s->ears)
		ear_free(s->ears);
	while (s->links)
		link_close(s->links);
	if (s->door_fd >= 0) {
		uv_close((uv_handle_t *)&s->rest, watch_closed);
		uv_close((uv_handle_t *)&s->door, watch_closed);
	}
	uv_close((uv_handle_t *)&s->wake, watch_closed);
}

/* ---- for store/raft.c ---- */

int raft_wire_init(struct raft_uv_transport *t, struct uv_loop_s *loop, const struct tls_files *files,
		   const struct wire_peers *peers, struct problem *p)
{
	struct wire *s = calloc(1, sizeof *s);

	if (!s)
		return RAFT_NOMEM;
	s->secure = files;
	s->tunnels = files ? tunnels_create(files, p) : NULL;
	if ((files && !s->tunnels) || uv_async_init(loop, &s->wake, woken)) {
		tunnels_destroy(s->tunnels);
		free(s);
		return RAFT_INVALID;
	}
	s->watches = 1;
	s->door_fd = -1;
	s->wake.data = s;
	s->transport = t;
	s->loop = loop;
	s->peers = *peers;
	s->last = &s->first;
	pthread_mutex_init(&s->lock, NULL);
	*t = (struct raft_uv_transport){ .impl = s, .init = init, .listen = listen_, .connect = dial, .close = close_ };
	return 0;
}

bool raft_wire_brings(struct raft_uv_transport *t, const uint8_t cluster[CLUSTER_ID])
{
	const struct wire *s = t->impl;

	return links_bring(s->links, cluster);
}

static void free_late(uv_handle_t *handle)
{
	free(handle->data);
}

void raft_wire_close(struct raft_uv_transport *t)
{
	struct wire *s = t->impl;

	tunnels_destroy(s->tunnels);
	pthread_mutex_destroy(&s->lock);
	if (s->watches && !uv_is_closing((uv_handle_t *)&s->wake))
		uv_close((uv_handle_t *)&s->wake, free_late);
	else
		free(s);
}
