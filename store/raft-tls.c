/* SPDX-License-Identifier: Apache-2.0 */
/* libraft's connections through tunnels (rpc/tunnel.h). Tunnels have a thread of their own; what it says goes to the loop's thread by a
 * list and uv_async_send(). The first bytes of a connection say who calls: see struct hello. */
#include "raft-tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "tunnel.h"

static const char server[] = "stratus:server";
static const char magic[8] = "stratus1";

struct hello { /* of who calls; integers are little-endian, as all that libraft sends */
	char magic[8];
	uint8_t id[8];
	char address[64]; /* NUL-padded, where it can be called itself */
};
struct secure;
struct news { /* from the tunnels' thread */
	struct news *next;
	struct secure *secure;
	struct raft_uv_connect *dialled; /* NULL: somebody has called us */
	raft_uv_connect_cb cb;
	int fd;		  /* or -errno */
	char address[64]; /* that is dialled */
};
struct caller { /* who has called and not said yet who it is */
	uv_pipe_t *pipe;
	struct secure *secure;
	struct caller *next, **link;
	struct hello hello;
	size_t have;
};
struct secure {
	struct raft_uv_transport *transport;
	uv_loop_t *loop;
	uv_async_t wake;
	bool watches; /* `wake` is open */
	struct tunnels *tunnels;
	raft_id id;
	char address[64];
	char told[256]; /* whom the last complaint was about */
	struct caller *callers;
	raft_uv_accept_cb accept;
	raft_uv_transport_close_cb closed;
	pthread_mutex_t lock; /* guards what follows */
	struct news *first, **last;
};

/* ---- from the tunnels ---- */

static void say(struct news *e)
{
	struct secure *s = e->secure;

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

static void accepted(void *arg, int fd, const struct tunnel_peer *peer)
{
	struct news *e = is_server(peer) ? calloc(1, sizeof *e) : NULL;

	if (!e) {
		if (!is_server(peer))
			log_warning(NULL, NULL, "a connection to the cluster store was closed: '%s' is not a server",
				    peer->identity);
		close(fd);
		return;
	}
	*e = (struct news){ .secure = arg, .fd = fd };
	say(e);
}

static void connected(void *arg, int fd, const struct tunnel_peer *peer, const char *why)
{
	struct news *e = arg;
	struct secure *s = e->secure;
	char said[sizeof s->told];

	if (fd >= 0 && !is_server(peer)) {
		close(fd);
		fd = -EACCES;
		why = "its certificate is not a server's";
	}
	e->fd = fd;
	snprintf(said, sizeof said, "%s %s", e->address, fd < 0 ? why : "");
	if (fd < 0 && strcmp(s->told, said)) { /* libraft tries again each second */
		strcpy(s->told, said);
		log_warning(NULL, NULL, "the server of the cluster store at %s can't be reached: %s", e->address, why);
	} else if (fd >= 0) {
		s->told[0] = '\0';
	}
	say(e);
}

/* ---- streams ---- */

static void pipe_closed(uv_handle_t *handle)
{
	raft_free(handle);
}

/* Takes the descriptor. */
static uv_pipe_t *open_pipe(struct secure *s, int fd)
{
	uv_pipe_t *pipe = raft_malloc(sizeof *pipe);

	if (!pipe || uv_pipe_init(s->loop, pipe, 0)) {
		raft_free(pipe);
		close(fd);
		return NULL;
	}
	if (!uv_pipe_open(pipe, fd))
		return pipe;
	close(fd);
	uv_close((uv_handle_t *)pipe, pipe_closed);
	return NULL;
}

static void write_id(uint8_t to[8], raft_id id)
{
	for (int i = 0; i < 8; i++)
		to[i] = (uint8_t)(id >> 8 * i);
}

static raft_id read_id(const uint8_t from[8])
{
	raft_id id = 0;

	for (int i = 0; i < 8; i++)
		id |= (raft_id)from[i] << 8 * i;
	return id;
}

/* A fresh socket takes it whole. */
static bool say_hello(const struct secure *s, int fd)
{
	struct hello h = { { 0 } };

	memcpy(h.magic, magic, sizeof magic);
	write_id(h.id, s->id);
	strcpy(h.address, s->address);
	return send(fd, &h, sizeof h, MSG_NOSIGNAL) == sizeof h;
}

static void finish_dial(struct secure *s, struct news *e)
{
	uv_pipe_t *pipe = NULL;

	if (e->fd >= 0 && !s->closed && say_hello(s, e->fd))
		pipe = open_pipe(s, e->fd);
	else if (e->fd >= 0)
		close(e->fd);
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
	uv_close((uv_handle_t *)c->pipe, pipe_closed);
	caller_free(c);
}

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
	struct caller *c = handle->data;

	(void)suggested;
	*room = uv_buf_init((char *)&c->hello + c->have, (unsigned)(sizeof c->hello - c->have));
}

static void heard(uv_stream_t *stream, ssize_t n, const uv_buf_t *room)
{
	struct caller *c = stream->data;
	struct secure *s = c->secure;

	(void)room;
	if (n < 0) {
		hang_up(c);
		return;
	}
	c->have += n;
	if (c->have < sizeof c->hello)
		return;
	uv_read_stop(stream);
	if (memcmp(c->hello.magic, magic, sizeof magic) || c->hello.address[sizeof c->hello.address - 1]) {
		log_warning(NULL, NULL, "a connection to the cluster store was closed: it speaks something else");
		hang_up(c);
		return;
	}
	stream->data = NULL;
	s->accept(s->transport, read_id(c->hello.id), c->hello.address, (struct uv_stream_s *)stream);
	caller_free(c);
}

static void take_caller(struct secure *s, int fd)
{
	struct caller *c = s->closed ? NULL : calloc(1, sizeof *c);

	if (c)
		c->pipe = open_pipe(s, fd);
	else
		close(fd);
	if (!c || !c->pipe) {
		free(c);
		return;
	}
	c->secure = s;
	c->next = s->callers;
	c->link = &s->callers;
	if (c->next)
		c->next->link = &c->next;
	s->callers = c;
	c->pipe->data = c;
	if (uv_read_start((uv_stream_t *)c->pipe, give_room, heard))
		hang_up(c);
}

static void take_events(struct secure *s)
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
	struct secure *s = t->impl;

	s->id = id;
	snprintf(s->address, sizeof s->address, "%s", address);
	return 0;
}

static int listen_(struct raft_uv_transport *t, raft_uv_accept_cb cb)
{
	struct secure *s = t->impl;
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
	return tunnels_listen(s->tunnels, fd, accepted, s) ? RAFT_IOERR : 0;
}

static int dial(struct raft_uv_transport *t, struct raft_uv_connect *request, raft_id id, const char *address,
		raft_uv_connect_cb cb)
{
	struct secure *s = t->impl;
	struct news *e = calloc(1, sizeof *e);
	struct sockaddr_in a;
	char host[INET_ADDRSTRLEN];
	int status = e ? parse(address, &a, host) : RAFT_NOMEM;

	(void)id;
	if (!status) {
		*e = (struct news){ .secure = s, .dialled = request, .cb = cb };
		snprintf(e->address, sizeof e->address, "%s", address);
		request->cb = cb;
		if (!tunnels_connect(s->tunnels, (struct sockaddr *)&a, sizeof a, host, connected, e))
			return 0;
		status = RAFT_NOCONNECTION;
	}
	free(e);
	return status;
}

static void wake_closed(uv_handle_t *handle)
{
	struct secure *s = handle->data;

	s->watches = false;
	if (s->closed)
		s->closed(s->transport);
}

static void close_(struct raft_uv_transport *t, raft_uv_transport_close_cb cb)
{
	struct secure *s = t->impl;

	s->closed = cb;
	tunnels_destroy(s->tunnels); /* whoever is being called is given up */
	s->tunnels = NULL;
	take_events(s);
	while (s->callers)
		hang_up(s->callers);
	uv_close((uv_handle_t *)&s->wake, wake_closed);
}

/* ---- for store/raft.c ---- */

int raft_tls_init(struct raft_uv_transport *t, struct uv_loop_s *loop, const struct tls_files *files, struct problem *p)
{
	struct secure *s = calloc(1, sizeof *s);

	if (!s)
		return RAFT_NOMEM;
	s->tunnels = tunnels_create(files, p);
	if (!s->tunnels || uv_async_init(loop, &s->wake, woken)) {
		tunnels_destroy(s->tunnels);
		free(s);
		return RAFT_INVALID;
	}
	s->watches = true;
	s->wake.data = s;
	s->transport = t;
	s->loop = loop;
	s->last = &s->first;
	pthread_mutex_init(&s->lock, NULL);
	*t = (struct raft_uv_transport){ .impl = s, .init = init, .listen = listen_, .connect = dial, .close = close_ };
	return 0;
}

static void free_late(uv_handle_t *handle)
{
	free(handle->data);
}

void raft_tls_close(struct raft_uv_transport *t)
{
	struct secure *s = t->impl;

	tunnels_destroy(s->tunnels);
	pthread_mutex_destroy(&s->lock);
	if (s->watches && !uv_is_closing((uv_handle_t *)&s->wake))
		uv_close((uv_handle_t *)&s->wake, free_late);
	else
		free(s);
}
