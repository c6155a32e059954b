/* SPDX-License-Identifier: Apache-2.0 */
/* Tunnels: one thread, one epoll descriptor. Bytes go both ways through a buffer each; who is slow is waited for. When one side has
 * ended, what is underway to the other is delivered, then both are closed: there are no half-open tunnels. */
#include "tunnel.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "log.h"
#include "tls-context.h"

enum {
	BUFFER = 16384,
	RECEIVED = 65536,
	ROUNDS = 16,
	EVENTS = 64,
	TICK_MS = 500,
	ACCEPTS = 16,
	BACKLOG = 256,
	HANDSHAKES = 256,
	LINGER = 65536
};
#define HANDSHAKE_NS 10000000000ull

struct tunnels;
struct end { /* what an event of epoll finds */
	int fd;
	uint32_t wanted; /* 0: not watched */
	struct tunnel *tunnel;
};
struct flow {
	char bytes[BUFFER];
	size_t from, to; /* what is in it */
	bool ended;	 /* no more will come */
};
enum state { CONNECTING, GREETING, OPEN };
struct tunnel {
	struct tunnel *next, **link;
	struct tunnels *all;
	struct end net, plain;
	SSL *ssl;
	char expired[TLS_TROUBLE]; /* see tls_session() */
	bool server;
	enum state state;
	bool wants_out; /* TLS has something to say and could not */
	bool more; /* the last turn was over before all was carried: TLS may have what has come, and the socket tells of it no more */
	bool refused;	/* told so; see linger() */
	size_t dropped; /* since then */
	bool dead;	/* freed when this turn is over */
	uint64_t born_ns;
	struct flow in, out; /* net to plain, plain to net */
	struct tunnel_peer peer;
	void (*connected)(void *arg, int fd, const struct tunnel_peer *, const char *why);
	void *arg;
};
struct tunnels {
	int poll;
	struct end wake, listener;
	struct tls *as_server, *as_client;
	uint64_t generation[2];
	void (*accepted)(void *arg, int fd, const struct tunnel_peer *);
	void *arg;
	pthread_t thread;
	bool running;
	bool rests;	      /* no descriptor for who comes: until the next sweep */
	struct tunnel *first; /* the newest first; the thread's own, as all above */
	unsigned greeting;
	pthread_mutex_t lock; /* guards what follows */
	struct tunnel *fresh; /* to be taken up by the thread */
	bool stopping;
};

/* ---- events ---- */

static void want(struct tunnels *a, struct end *e, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = e };
	int how = !e->wanted ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;

	if (e->fd < 0 || events == e->wanted)
		return;
	epoll_ctl(a->poll, how, e->fd, &event);
	e->wanted = events;
}

static bool is_empty(const struct flow *f)
{
	return f->from == f->to;
}

static void watch(struct tunnel *t)
{
	uint32_t net = t->wants_out ? EPOLLOUT : 0, plain = 0;

	if (t->state == CONNECTING)
		net = EPOLLOUT;
	else if (t->state == GREETING || (is_empty(&t->in) && !t->in.ended))
		net |= EPOLLIN;
	if (t->state == OPEN) {
		plain = is_empty(&t->in) && !t->more ? 0 : EPOLLOUT;
		if (is_empty(&t->out) && !t->out.ended)
			plain |= EPOLLIN;
	}
	want(t->all, &t->net, net);
	want(t->all, &t->plain, plain);
}

/* ---- the end ---- */

static void tell(struct tunnel *t, int fd, const char *why)
{
	if (t->connected)
		t->connected(t->arg, fd, &t->peer, why);
	t->connected = NULL;
}

static void tunnel_end(struct tunnel *t, const char *why)
{
	if (t->dead)
		return;
	t->dead = true;
	t->all->greeting -= t->state == GREETING;
	if (t->state == OPEN && SSL_is_init_finished(t->ssl))
		SSL_shutdown(t->ssl);
	ERR_clear_error();
	tell(t, -ECONNREFUSED, why);
	want(t->all, &t->net, 0);
	want(t->all, &t->plain, 0);
	close(t->net.fd);
	if (t->plain.fd >= 0)
		close(t->plain.fd);
	t->net.fd = t->plain.fd = -1;
}

static void sweep_dead(struct tunnels *a)
{
	for (struct tunnel *t = a->first, *next; t; t = next) {
		next = t->next;
		if (!t->dead)
			continue;
		*t->link = next;
		if (next)
			next->link = t->link;
		SSL_free(t->ssl);
		free(t);
	}
}

/* OpenSSL's verdict on a call that failed. 0: it is to be tried again; else a word. */
static const char *trouble(struct tunnel *t)
{
	int kind = SSL_get_error(t->ssl, 0), saved = errno;

	t->wants_out = kind == SSL_ERROR_WANT_WRITE;
	if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
		return NULL;
	if (kind == SSL_ERROR_SYSCALL && saved)
		return strerror(saved);
	if (kind == SSL_ERROR_SYSCALL || kind == SSL_ERROR_ZERO_RETURN)
		return "the other side has closed it";
	return tls_trouble(t->ssl);
}

/* ---- carrying ---- */

/* Each returns whether it has moved something. */
static bool fill_from_net(struct tunnel *t)
{
	struct flow *f = &t->in;
	size_t n;

	if (!is_empty(f) || f->ended)
		return false;
	ERR_clear_error();
	errno = 0;
	if (SSL_read_ex(t->ssl, f->bytes, BUFFER, &n)) {
		f->from = 0;
		f->to = n;
		return true;
	}
	f->ended = trouble(t) != NULL;
	return f->ended;
}

static bool fill_from_plain(struct tunnel *t)
{
	struct flow *f = &t->out;
	ssize_t n;

	if (!is_empty(f) || f->ended)
		return false;
	n = recv(t->plain.fd, f->bytes, BUFFER, 0);
	if (n > 0) {
		f->from = 0;
		f->to = n;
	} else {
		f->ended = !n || (errno != EAGAIN && errno != EINTR);
	}
	return n > 0 || f->ended;
}

static bool drain_to_plain(struct tunnel *t)
{
	struct flow *f = &t->in;
	ssize_t n;

	if (is_empty(f))
		return false;
	n = send(t->plain.fd, f->bytes + f->from, f->to - f->from, MSG_NOSIGNAL);
	if (n > 0)
		f->from += n;
	else if (errno != EAGAIN && errno != EINTR)
		tunnel_end(t, NULL);
	return n > 0;
}

static bool drain_to_net(struct tunnel *t)
{
	struct flow *f = &t->out;
	size_t n;

	if (is_empty(f))
		return false;
	ERR_clear_error();
	errno = 0;
	if (SSL_write_ex(t->ssl, f->bytes + f->from, f->to - f->from, &n)) {
		f->from += n;
		return true;
	}
	if (trouble(t))
		tunnel_end(t, NULL);
	return false;
}

static void carry(struct tunnel *t)
{
	bool moved = true;

	t->wants_out = false;
	for (int i = 0; i < ROUNDS && moved && !t->dead; i++) {
		moved = fill_from_net(t);
		moved |= drain_to_plain(t);
		if (!t->dead)
			moved |= fill_from_plain(t);
		if (!t->dead)
			moved |= drain_to_net(t);
	}
	t->more = moved;
	if (!t->dead && ((t->in.ended && is_empty(&t->in)) || (t->out.ended && is_empty(&t->out))))
		tunnel_end(t, NULL);
}

/* ---- beginning ---- */

static void open_plain(struct tunnel *t)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends)) {
		tunnel_end(t, strerror(errno));
		return;
	}
	t->all->greeting--;
	t->state = OPEN;
	t->plain.fd = ends[0];
	if (t->server)
		t->all->accepted(t->all->arg, ends[1], &t->peer);
	else
		tell(t, ends[1], NULL);
	carry(t);
}

/* Who is refused has said more already: see stream_linger(). sweep() ends it if nothing else does. */
static void linger(struct tunnel *t)
{
	char ignored[4096];
	ssize_t n = recv(t->net.fd, ignored, sizeof(ignored), 0);

	if (n > 0)
		t->dropped += n;
	if (t->dropped > LINGER || !n || (n < 0 && errno != EAGAIN && errno != EINTR))
		tunnel_end(t, NULL);
}

static void refuse(struct tunnel *t, const char *why)
{
	char name[64];

	if (!t->server) { /* who dialled is told */
		tunnel_end(t, why);
		return;
	}
	tcp_name(t->net.fd, true, name, sizeof(name));
	log_warning(NULL, NULL, "connection from %s closed: TLS: %s", name, why);
	if (t->state != GREETING) {
		tunnel_end(t, why);
		return;
	}
	t->refused = true;
	shutdown(t->net.fd, SHUT_WR);
	linger(t);
}

static const char no_more[] = "by the files as they are now the certificate was revoked, has expired, or must be checked anew";

/* What changed while the handshake lasted no sweep has asked about; from here on each does. */
static bool is_refused(struct tunnel *t)
{
	return tls_refuses(t->server ? t->all->as_server : t->all->as_client, t->ssl);
}

static void greet(struct tunnel *t)
{
	const char *why;
	int err;

	ERR_clear_error();
	errno = 0;
	if (SSL_do_handshake(t->ssl) != 1) {
		why = trouble(t);
		if (why)
			refuse(t, why);
		return;
	}
	err = tls_identity(t->ssl, t->peer.identity, sizeof(t->peer.identity));
	if (is_refused(t))
		refuse(t, no_more);
	else if (err == -EBADMSG)
		refuse(t, "its certificate has several identities, or one that is none");
	else
		open_plain(t);
}

static void begin_greeting(struct tunnel *t)
{
	t->state = GREETING;
	t->all->greeting++;
	t->born_ns = clock_ns();
	greet(t);
}

static void connect_ready(struct tunnel *t)
{
	int err = 0;
	socklen_t size = sizeof(err);

	getsockopt(t->net.fd, SOL_SOCKET, SO_ERROR, &err, &size);
	if (err)
		tunnel_end(t, strerror(err));
	else
		begin_greeting(t);
}

static void step(struct tunnel *t)
{
	if (t->dead)
		return;
	if (t->state == CONNECTING)
		connect_ready(t);
	else if (t->refused)
		linger(t);
	else if (t->state == GREETING)
		greet(t);
	else
		carry(t);
	if (!t->dead)
		watch(t);
}

static struct tunnel *tunnel_create(struct tunnels *a, struct tls *tls, int fd)
{
	struct tunnel *t = calloc(1, sizeof(*t));
	bool server = false;

	if (t)
		t->ssl = tls_session(tls, t->expired, &server);
	if (!t || !t->ssl || !SSL_set_fd(t->ssl, fd)) {
		if (t)
			SSL_free(t->ssl);
		free(t);
		return NULL;
	}
	/* Several records with one receive, where without it each takes two: one for its head. */
	SSL_set_read_ahead(t->ssl, 1);
	SSL_set_default_read_buffer_len(t->ssl, RECEIVED);
	t->server = server;
	t->all = a;
	t->net = (struct end){ .fd = fd, .tunnel = t };
	t->plain = (struct end){ .fd = -1, .tunnel = t };
	t->born_ns = clock_ns();
	if (server)
		SSL_set_accept_state(t->ssl);
	else
		SSL_set_connect_state(t->ssl);
	return t;
}

static void take_up(struct tunnels *a, struct tunnel *t)
{
	t->next = a->first;
	t->link = &a->first;
	if (t->next)
		t->next->link = &t->next;
	a->first = t;
}

/* ---- who comes ---- */

/* Who means it has greeted long before so many others have come. */
static void make_way(struct tunnels *a)
{
	struct tunnel *oldest = NULL;

	for (struct tunnel *t = a->first; a->greeting >= HANDSHAKES && t; t = t->next)
		if (!t->dead && t->server && t->state == GREETING)
			oldest = t;
	if (oldest)
		tunnel_end(oldest, "others came");
}

static void accept_some(struct tunnels *a)
{
	for (int i = 0; i < ACCEPTS; i++) {
		struct tunnel_peer peer = { .size = sizeof(peer.address) };
		int fd = accept4(a->listener.fd, (struct sockaddr *)&peer.address, &peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct tunnel *t;

		if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
			want(a, &a->listener, 0);
			a->rests = true;
		}
		if (fd < 0)
			return;
		make_way(a);
		t = tunnel_create(a, a->as_server, fd);
		if (!t) {
			close(fd);
			return;
		}
		tcp_tune(fd);
		t->peer = peer;
		take_up(a, t);
		begin_greeting(t);
		if (!t->dead)
			watch(t);
	}
}

/* ---- the thread ---- */

static void take_fresh(struct tunnels *a)
{
	struct tunnel *list;
	uint64_t count;

	(void)!read(a->wake.fd, &count, sizeof(count));
	pthread_mutex_lock(&a->lock);
	list = a->fresh;
	a->fresh = NULL;
	pthread_mutex_unlock(&a->lock);
	while (list) {
		struct tunnel *t = list;

		list = t->next;
		take_up(a, t);
		watch(t);
	}
}

static void sweep(struct tunnels *a)
{
	uint64_t generation[] = { tls_look(a->as_server), tls_look(a->as_client) }, now = clock_ns();
	bool changed = memcmp(generation, a->generation, sizeof(generation));

	memcpy(a->generation, generation, sizeof(generation));
	if (a->rests)
		want(a, &a->listener, EPOLLIN);
	a->rests = false;
	for (struct tunnel *t = a->first; t; t = t->next)
		if (!t->dead && t->state != OPEN && now - t->born_ns > HANDSHAKE_NS)
			tunnel_end(t, "no greeting in time");
		else if (!t->dead && t->state == OPEN && changed && is_refused(t))
			refuse(t, no_more);
}

static bool stopping(struct tunnels *a)
{
	bool yes;

	pthread_mutex_lock(&a->lock);
	yes = a->stopping;
	pthread_mutex_unlock(&a->lock);
	return yes;
}

static void *run(void *arg)
{
	struct tunnels *a = arg;
	uint64_t swept = clock_ns();

	while (!stopping(a)) {
		struct epoll_event event[EVENTS];
		int count = epoll_wait(a->poll, event, EVENTS, TICK_MS);

		for (int i = 0; i < count; i++) {
			struct end *e = event[i].data.ptr;

			if (e == &a->wake)
				take_fresh(a);
			else if (e == &a->listener)
				accept_some(a);
			else
				step(e->tunnel);
		}
		if (clock_ns() - swept > TICK_MS * 1000000ull) {
			swept = clock_ns();
			sweep(a);
		}
		sweep_dead(a);
	}
	return NULL;
}

/* ---- from other threads ---- */

static void wake(struct tunnels *a)
{
	uint64_t one = 1;

	(void)!write(a->wake.fd, &one, sizeof(one));
}

struct tunnels *tunnels_create(const struct tls_files *files, struct problem *p)
{
	struct tunnels *a = calloc(1, sizeof(*a));

	if (!a) {
		problem_set(p, ENOMEM, "out of memory");
		return NULL;
	}
	pthread_mutex_init(&a->lock, NULL);
	a->listener.fd = -1;
	a->poll = epoll_create1(EPOLL_CLOEXEC);
	a->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	a->as_server = tls_create(files, true, p);
	a->as_client = a->as_server ? tls_create(files, false, p) : NULL;
	if (a->as_client && (a->poll < 0 || a->wake.fd < 0))
		problem_set(p, EMFILE, "the limit of open files is reached");
	else if (a->as_client && pthread_create(&a->thread, NULL, run, a))
		problem_set(p, EAGAIN, "no thread for TLS: the process limit is reached");
	else if (a->as_client)
		a->running = true;
	if (a->running) {
		want(a, &a->wake, EPOLLIN);
		return a;
	}
	tunnels_destroy(a);
	return NULL;
}

void tunnels_destroy(struct tunnels *a)
{
	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	a->stopping = true;
	pthread_mutex_unlock(&a->lock);
	if (a->running) {
		wake(a);
		pthread_join(a->thread, NULL);
		take_fresh(a);
	}
	for (struct tunnel *t = a->first; t; t = t->next)
		tunnel_end(t, "this server stops");
	sweep_dead(a);
	if (a->listener.fd >= 0)
		close(a->listener.fd);
	if (a->wake.fd >= 0)
		close(a->wake.fd);
	if (a->poll >= 0)
		close(a->poll);
	tls_destroy(a->as_server);
	tls_destroy(a->as_client);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

int tunnels_listen(struct tunnels *a, int fd, void (*accepted)(void *arg, int fd, const struct tunnel_peer *), void *arg)
{
	a->accepted = accepted;
	a->arg = arg;
	a->listener.fd = fd;
	want(a, &a->listener, EPOLLIN); /* the thread reads what is above after this */
	return 0;
}

int tunnels_connect(struct tunnels *a, const struct sockaddr *address, socklen_t size, const char *host,
		    void (*connected)(void *arg, int fd, const struct tunnel_peer *, const char *why), void *arg)
{
	struct addrinfo info = { .ai_family = address->sa_family, .ai_addr = (struct sockaddr *)address, .ai_addrlen = size };
	int fd = tcp_connect(&info);
	struct tunnel *t = fd < 0 ? NULL : tunnel_create(a, a->as_client, fd);

	if (!t || !tls_expect_host(t->ssl, host)) {
		if (t)
			SSL_free(t->ssl);
		free(t);
		if (fd >= 0)
			close(fd);
		return fd < 0 ? fd : -ENOMEM;
	}
	t->connected = connected;
	t->arg = arg;
	pthread_mutex_lock(&a->lock);
	t->next = a->fresh;
	a->fresh = t;
	pthread_mutex_unlock(&a->lock);
	wake(a);
	return 0;
}
