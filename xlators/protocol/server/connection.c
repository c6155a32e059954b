/* SPDX-License-Identifier: Apache-2.0 */
/* Listening, accepting, and what a connection's loop does with records before and after HELLO. */
#include <fcntl.h>
#include <netdb.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server.h"

enum { ACCEPTS = 16, BACKLOG = 1024, QUEUED_MAX = 4 << 20 };

struct connection *connection_ref(struct connection *c)
{
	atomic_fetch_add(&c->refs, 1);
	return c;
}

void connection_unref(struct connection *c)
{
	if (!c || atomic_fetch_sub(&c->refs, 1) > 1)
		return;
	if (c->session)
		session_unref(c->session);
	record_free(c->hello);
	pthread_mutex_destroy(&c->stream.lock);
	atomic_fetch_sub(&c->server->tasks, 1);
	free(c);
}

/* ---- the end of a connection ---- */

static void forget(struct connection *c)
{
	struct server *s = c->server;

	pthread_mutex_lock(&s->lock);
	c->closed = true;
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	s->connection_count--;
	pthread_mutex_unlock(&s->lock);
}

static void turned(void *arg)
{
	connection_unref(arg);
}

/* On its loop. The list's reference goes after one more turn, when no event can be under way. */
static void close_connection(struct connection *c)
{
	atomic_fetch_add(&c->server->bytes_in, atomic_load(&c->stream.bytes_in));
	atomic_fetch_add(&c->server->bytes_out, atomic_load(&c->stream.bytes_out));
	stream_close(&c->stream);
	forget(c);
	if (c->session)
		session_detach(c->session, c);
	if (shard_call(c->shard, turned, c))
		log_error(c->server->x, NULL, "out of memory: a closed connection is kept");
}

static bool complain(struct connection *c, const char *why)
{
	struct server *s = c->server;

	if (atomic_exchange(&c->refused, true))
		return false;
	pthread_mutex_lock(&s->lock);
	s->garbage++;
	pthread_mutex_unlock(&s->lock);
	log_warning(s->x, NULL, "connection from %s closed: %s", c->peer, why);
	return true;
}

void connection_refuse(struct connection *c, const char *why)
{
	if (complain(c, why))
		stream_kill(&c->stream);
}

void connection_drop(struct connection *c, const char *why)
{
	complain(c, why);
	close_connection(c);
}

/* Who was refused in the handshake is given the time to read why, within the limits of those who have not greeted. */
static void broken(struct stream *st, const char *why)
{
	struct connection *c = (struct connection *)st;

	if (st->garbage)
		complain(c, why);
	if (c->welcome || !stream_linger(st))
		close_connection(c);
}

/* ---- records ---- */

static void greeting(struct connection *c, struct record *rec)
{
	const char *why = record_word(rec, CALL_PROCEDURE) != WIRE_HELLO || c->hello || c->session
				  ? "the first call is not HELLO"
			  : c->stream.came ? "more came with HELLO"
					   : NULL;

	if (why) {
		record_free(rec);
		connection_refuse(c, why);
		return;
	}
	c->hello = rec;
	stream_pause(&c->stream, true);
	connection_ref(c);
	if (task_run_now(c->shard, session_greet, c)) {
		connection_unref(c);
		connection_refuse(c, "out of memory");
	}
}

static void answer_empty(struct connection *c, uint32_t xid)
{
	answer_status(c, xid, 0);
}

static void goodbye(void *arg)
{
	struct connection *c = arg;

	session_end(c->session);
	answer_empty(c, c->goodbye_xid);
	atomic_store(&c->ending, false);
	stream_pause(&c->stream, false); /* to see the client close it; calls that still come are not done */
	connection_unref(c);
}

static void reclaimed(void *arg)
{
	struct connection *c = arg;

	atomic_store(&c->reclaiming, false); /* what comes from now on is said after what is done here */
	session_reclaimed(c->session);
	connection_unref(c);
}

static void got_goodbye(struct connection *c, uint32_t xid)
{
	if (atomic_exchange(&c->ending, true))
		return;
	c->goodbye_xid = xid;
	stream_pause(&c->stream, true);
	connection_ref(c);
	if (task_spawn(c->shard, goodbye, c)) {
		atomic_store(&c->ending, false);
		connection_unref(c);
	}
}

/* Without memory for it others wait until the end of the grace period. */
static void got_reclaimed(struct connection *c)
{
	if (atomic_exchange(&c->reclaiming, true))
		return;
	connection_ref(c);
	if (task_spawn(c->shard, reclaimed, c)) {
		atomic_store(&c->reclaiming, false);
		connection_unref(c);
	}
}

static void got_cancel(struct connection *c, struct record *rec)
{
	struct wire_cancel cancel;

	if (decode_record(rec, CALL_BODY, (xdrproc_t)xdr_wire_cancel, &cancel))
		work_cancel(c->session, c->channel, cancel.xid);
	else
		connection_refuse(c, "a malformed CANCEL");
}

static void got_call(struct connection *c, struct record *rec)
{
	uint32_t procedure = record_word(rec, CALL_PROCEDURE), xid = record_word(rec, WORD_XID);

	if (procedure > WIRE_FOP && procedure < WIRE_FOP + FOP_COUNT) {
		work_arrived(c, rec);
		return;
	}
	switch (procedure) {
	case WIRE_NULL:
	case WIRE_PING:
		answer_empty(c, xid);
		break;
	case WIRE_HELLO:
		connection_refuse(c, "a second HELLO");
		break;
	case WIRE_CANCEL:
		got_cancel(c, rec);
		break;
	case WIRE_GOODBYE:
		got_goodbye(c, xid);
		break;
	case WIRE_RECLAIMED:
		got_reclaimed(c);
		break;
	default: /* of a later version, perhaps */
		answer_status(c, xid, -EOPNOTSUPP);
	}
	record_free(rec);
}

static void got(struct stream *st, struct record *rec)
{
	struct connection *c = (struct connection *)st;

	if (atomic_load(&c->refused)) {
		record_free(rec);
	} else if (record_word(rec, WORD_TYPE)) {
		record_free(rec);
		connection_refuse(c, "an answer that nobody asked for");
	} else if (c->welcome) {
		got_call(c, rec);
	} else if (record_word(rec, CALL_PROCEDURE) == WIRE_NULL && !c->hello) {
		answer_empty(c, record_word(rec, WORD_XID));
		record_free(rec);
	} else {
		greeting(c, rec);
	}
}

/* ---- accepting ---- */

static struct connection *connection_create(struct server *s, int fd)
{
	struct connection *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return NULL;
	}
	if (stream_open(&c->stream, s->tls ? &transport_tls : &transport_tcp, fd, WIRE_GREETING_MAX, 0)) {
		free(c);
		return NULL;
	}
	if (s->tls && tls_begin(&c->stream, s->tls, NULL)) {
		stream_close(&c->stream);
		free(c);
		return NULL;
	}
	c->stream.got = got;
	c->stream.broken = broken;
	c->stream.queued_max = QUEUED_MAX;
	c->server = s;
	c->shard = shard_self();
	c->born_ns = clock_ns();
	atomic_store(&c->refs, 1);
	tcp_tune(fd);
	tcp_name(fd, true, c->peer, sizeof(c->peer));
	atomic_fetch_add(&s->tasks, 1);
	pthread_mutex_lock(&s->lock);
	c->next = s->connections;
	c->link = &s->connections;
	if (c->next)
		c->next->link = &c->next;
	s->connections = c;
	s->connection_count++;
	s->accepted++;
	pthread_mutex_unlock(&s->lock);
	return c;
}

static bool has_room(struct server *s)
{
	bool room, say;

	pthread_mutex_lock(&s->lock);
	room = s->connection_count < (uint64_t)s->max_connections + server_reserve(s);
	say = !room && !s->full_logged;
	s->full_logged = !room;
	s->rejected += !room;
	pthread_mutex_unlock(&s->lock);
	if (say)
		log_warning(s->x, NULL, "more than max-connections %lld: new ones are refused", (long long)s->max_connections);
	return room;
}

/* Who means it has greeted long before so many others have come. */
static void make_way(struct server *s)
{
	struct connection *oldest = NULL;
	uint64_t greeting = 0;

	pthread_mutex_lock(&s->lock);
	if (s->connection_count >= (uint64_t)s->max_handshakes)
		for (struct connection *c = s->connections; c; c = c->next) /* the newest is the first */
			if (!c->welcome && !c->crowded_out) {
				greeting++;
				oldest = c;
			}
	if (oldest && greeting >= (uint64_t)s->max_handshakes) {
		s->crowded++;
		oldest->crowded_out = true;
		atomic_store(&oldest->refused, true);
		stream_kill(&oldest->stream);
	}
	pthread_mutex_unlock(&s->lock);
}

static void accept_ready(struct watch *w, uint32_t events)
{
	struct listener *l = (struct listener *)w;
	struct connection *c;

	(void)events;
	for (int i = 0; i < ACCEPTS; i++) {
		int fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
			log_warning(l->server->x, NULL, "can't accept: %s; trying again in a second", strerror(errno));
			shard_unwatch(w); /* the sweep watches it again */
			l->watched = false;
		}
		if (fd < 0)
			return;
		if (!has_room(l->server)) {
			close(fd);
			continue;
		}
		make_way(l->server);
		c = connection_create(l->server, fd);
		if (c && stream_watch(&c->stream, c->shard))
			close_connection(c);
	}
}

/* ---- listening ---- */

/* Splits "host:port", "[v6]:port", ":port" in place. */
static int split(char *text, char **host, char **port)
{
	char *colon = strrchr(text, ':');

	if (!colon || !colon[1])
		return -EINVAL;
	*colon = 0;
	*host = text;
	*port = colon + 1;
	if (*text == '[' && colon[-1] == ']') {
		colon[-1] = 0;
		*host = text + 1;
	}
	return 0;
}

static int bind_to(struct server *s, const struct addrinfo *a)
{
	struct listener *more = realloc(s->listener, (s->listeners + 1) * sizeof(*more)), *l;
	int fd;

	if (!more)
		return -ENOMEM;
	s->listener = more;
	fd = tcp_bind(a);
	if (fd < 0)
		return fd;
	l = &s->listener[s->listeners++];
	*l = (struct listener){ .watch = { .fd = fd, .ready = accept_ready }, .server = s };
	tcp_name(fd, false, l->name, sizeof(l->name));
	return 0;
}

/* A machine without IPv6, say, has no such address although the name has one. */
static bool no_such_address(int err)
{
	return err == -EAFNOSUPPORT || err == -EADDRNOTAVAIL;
}

/* All addresses of the list; one of them, if the kernel is to choose the port. */
static int bind_to_each(struct server *s, const struct addrinfo *list, bool any_port)
{
	unsigned before = s->listeners;
	int err = 0, missing = -EADDRNOTAVAIL;

	for (const struct addrinfo *a = list; a && !err && !(any_port && s->listeners > before); a = a->ai_next) {
		err = bind_to(s, a);
		if (no_such_address(err)) {
			missing = err;
			err = 0;
		}
	}
	return err ? err : s->listeners > before ? 0 : missing;
}

/* Debian gives a host's own name the address 127.0.1.1. */
static bool all_local(const struct addrinfo *list)
{
	for (; list; list = list->ai_next) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)list->ai_addr;
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)list->ai_addr;

		if (list->ai_family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 != 127
					       : !IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr))
			return false;
	}
	return true;
}

static int claim_address(struct server *s, char *text, struct problem *p)
{
	char *host, *port, name[128];
	struct addrinfo *list;
	int err;

	snprintf(name, sizeof(name), "%s", text);
	if (split(text, &host, &port))
		return problem_set(p, EINVAL, "volume %s: option listen: \"%s\" is not HOST:PORT", s->x->name, name);
	err = tcp_resolve(strcmp(host, "*") ? host : "", port, true, &list, p);
	if (err)
		return err;
	err = bind_to_each(s, list, !strcmp(port, "0"));
	if (!err && strspn(host, "0123456789.:[]") != strlen(host) && strcmp(host, "localhost") && all_local(list))
		log_warning(
			s->x, NULL,
			"%s is an address of this machine alone (see /etc/hosts), so no other can connect: give the server another "
			"address to listen on, or correct /etc/hosts",
			name);
	freeaddrinfo(list);
	if (err == -EADDRINUSE)
		return problem_set(p, EADDRINUSE,
				   "volume %s: %s is in use by another program; stop that or choose another port", s->x->name,
				   name);
	return err ? problem_set(p, -err, "volume %s: can't listen on %s: %s", s->x->name, name, strerror(-err)) : 0;
}

static void close_listeners(struct server *s)
{
	while (s->listeners)
		close(s->listener[--s->listeners].watch.fd);
}

static int write_port_file(struct server *s, struct problem *p)
{
	const char *colon = strrchr(s->listener[0].name, ':');
	char temporary[4096 + 8];
	bool ok;
	int fd;

	if (!*s->port_file)
		return 0;
	snprintf(temporary, sizeof(temporary), "%s.new", s->port_file);
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		  0644); /* the umask may be 0 (storage/posix) */
	ok = fd >= 0 && dprintf(fd, "%s\n", colon + 1) > 0;
	if (fd >= 0 && close(fd))
		ok = false;
	if (ok && !rename(temporary, s->port_file))
		return 0;
	return problem_set(p, errno ? errno : EIO, "volume %s: can't write port-file %s: %s", s->x->name, s->port_file,
			   strerror(errno));
}

/* Those whose certificates are good no more go at once; by the authorities that are in force now they may come back. */
static void sweep_refused(struct server *s)
{
	uint64_t generation = tls_look(s->tls);
	unsigned count = 0;

	if (generation == s->tls_generation)
		return;
	s->tls_generation = generation;
	pthread_mutex_lock(&s->lock);
	for (struct connection *c = s->connections; c; c = c->next)
		if (stream_is_refused(&c->stream, s->tls)) {
			stream_kill(&c->stream);
			count++;
		}
	pthread_mutex_unlock(&s->lock);
	if (count)
		log_warning(
			s->x, NULL,
			"%u connections closed: by the files of TLS as they are now their certificates were revoked, have expired, or "
			"must be checked anew",
			count);
}

static void sweep(void *arg)
{
	struct server *s = arg;
	uint64_t now = clock_ns();

	pthread_mutex_lock(&s->lock);
	for (struct connection *c = s->connections; c; c = c->next) {
		if (c->welcome || now - c->born_ns < s->handshake_timeout_ms * 1000000)
			continue;
		s->expired++;
		stream_kill(&c->stream);
	}
	pthread_mutex_unlock(&s->lock);
	if (s->tls)
		sweep_refused(s);
	sessions_sweep(s);
	for (unsigned i = 0; i < s->listeners && !atomic_load(&s->stopping); i++)
		if (!s->listener[i].watched)
			s->listener[i].watched = !shard_watch(shard_self(), &s->listener[i].watch, EPOLLIN);
	if (!atomic_load(&s->stopping))
		timer_set(shard_self(), &s->sweep, clock_ns() + 1000000000);
}

static void begin(void *arg)
{
	struct server *s = arg;

	s->sweep = (struct timer){ .fn = sweep, .arg = s };
	sweep(s);
	atomic_fetch_sub(&s->tasks, 1);
}

int listeners_claim(struct server *s, struct problem *p)
{
	char *text = strdup(s->listen), *rest = text, *part;
	int err = 0;

	if (!text)
		err = -ENOMEM;
	while (!err && (part = strsep(&rest, ", \t")))
		if (*part)
			err = claim_address(s, part, p);
	free(text);
	if (!err && !s->listeners)
		err = problem_set(p, EINVAL, "volume %s: option listen names no address", s->x->name);
	if (err) { /* it is not stopped then, having not started */
		close_listeners(s);
		free(s->listener);
		s->listener = NULL;
	}
	return err;
}

static int listen_on(struct server *s, const struct listener *l, struct problem *p)
{
	if (!listen(l->watch.fd, BACKLOG))
		return 0;
	return problem_set(p, errno, "volume %s: can't listen on %s: %s", s->x->name, l->name, strerror(errno));
}

int listeners_start(struct server *s, struct problem *p)
{
	int err = 0;

	for (unsigned i = 0; i < s->listeners && !err; i++)
		err = listen_on(s, &s->listener[i], p);
	if (!err)
		err = write_port_file(s, p);
	if (err)
		return err;
	for (unsigned i = 0; i < s->listeners; i++)
		log_info(s->x, NULL, "listening on %s", s->listener[i].name);
	atomic_fetch_add(&s->tasks, 1);
	err = shard_call(runtime_shard(0), begin, s);
	if (err)
		atomic_fetch_sub(&s->tasks, 1);
	return err;
}

static void unlisten(void *arg)
{
	struct server *s = arg;

	timer_cancel(&s->sweep);
	for (unsigned i = 0; i < s->listeners; i++)
		if (s->listener[i].watched)
			shard_unwatch(&s->listener[i].watch);
	close_listeners(s);
	atomic_fetch_sub(&s->tasks, 1);
}

void listeners_stop(struct server *s)
{
	atomic_fetch_add(&s->tasks, 1);
	while (shard_call(runtime_shard(0), unlisten, s))
		sched_yield();
}
