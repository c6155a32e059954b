/* SPDX-License-Identifier: Apache-2.0 */
/* protocol/server: offers the bricks below it to clients on the network. */
#include <time.h>

#include "server.h"

#define AT(field) OPTION_AT(struct server, field)
static const struct option options[] = {
	{ "listen", OPTION_STRING, AT(listen), "127.0.0.1:24007",
	  "HOST:PORT, several apart by commas; host * is every address, port 0 any free port" },
	{ "transport", OPTION_ENUM, AT(transport), "tcp",
	  "tls: TLS 1.3; clients must show a certificate of tls-authorities. tcp: whoever reaches the port may claim to be anybody",
	  .choices = "tcp|tls" },
	{ "tls-certificate", OPTION_STRING, AT(certificate), "",
	  "PEM file: the server's certificate, then those it was signed by" },
	{ "tls-key", OPTION_STRING, AT(key), "", "PEM file: its private key, not encrypted" },
	{ "tls-authorities", OPTION_STRING, AT(authorities), "", "PEM file: who may have signed a client's certificate" },
	{ "tls-revoked", OPTION_STRING, AT(revoked), "",
	  "PEM file: their lists of revoked certificates (empty: none is revoked); read again, as the others are, when it has changed" },
	{ "port-file", OPTION_STRING, AT(port_file), "", "a file that gets the number of the first port (empty: none)" },
	{ "max-connections", OPTION_INT, AT(max_connections), "4096", "connections, and sessions, at one time", 1, 1000000,
	  .live = true },
	{ "max-connections-of-one", OPTION_INT, AT(max_connections_of_one), "0",
	  "connections, and sessions, of one tenant's certificates at one time; 0: a quarter of max-connections", 0, 1000000,
	  .live = true },
	{ "max-files-of-one", OPTION_INT, AT(max_files_of_one), "0",
	  "files and directories that one tenant's clients may have open at one time; 0: a quarter of the descriptors that the process may have",
	  0, 100000000, .live = true },
	{ "max-handshakes", OPTION_INT, AT(max_handshakes), "1024",
	  "connections that have not greeted yet, at one time; of more the oldest is closed", 1, 1000000, .live = true },
	{ "handshake-timeout", OPTION_DURATION, AT(handshake_timeout_ms), "10s", "a connection must greet within this time",
	  100, 3600000, .live = true },
	{ "session-timeout", OPTION_DURATION, AT(session_timeout_ms), "60s",
	  "a session without connections ends after this time: its locks and files are gone", 1000, 86400000, .live = true },
	{ "busy-poll", OPTION_INT, AT(busy_poll_us), "500",
	  "up to so many microseconds the process looks for more work before it sleeps, while calls come fast; 0: never", 0,
	  10000, .live = true },
	{ NULL }
};

static int server_init(struct xlator *x, struct problem *p)
{
	struct server *s = x->private;

	s->x = x;
	pthread_mutex_init(&s->lock, NULL);
	for (int i = 0; i < x->children; i++)
		if (!leaf_of(x->child[i]))
			return problem_set(p, EINVAL, "volume %s: there is no brick (storage/posix) below %s", x->name,
					   x->child[i]->name);
	if (s->transport) {
		s->tls = tls_create(&(struct tls_files){ s->certificate, s->key, s->authorities, s->revoked }, true, p);
		return s->tls ? 0 : -EINVAL;
	}
	return 0;
}

static void rest_ms(unsigned ms)
{
	struct timespec t = { 0, ms * 1000000 };

	if (task_self())
		task_sleep_ms(ms);
	else
		nanosleep(&t, NULL);
}

/* Calls being done. Those that wait for other clients are told to give up: their clients ask again. */
static unsigned doing(struct server *s)
{
	unsigned count = 0;

	pthread_mutex_lock(&s->lock);
	for (struct session *i = s->sessions; i; i = i->next) {
		pthread_mutex_lock(&i->lock);
		count += i->running + i->waiting;
		pthread_mutex_unlock(&i->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return count;
}

static void stop_sessions(struct server *s)
{
	pthread_mutex_lock(&s->lock);
	for (struct session *i = s->sessions; i; i = i->next) {
		pthread_mutex_lock(&i->lock);
		i->ending = true; /* nothing more is begun */
		pthread_mutex_unlock(&i->lock);
	}
	pthread_mutex_unlock(&s->lock);
}

static void kill_connections(struct server *s)
{
	pthread_mutex_lock(&s->lock);
	for (struct connection *c = s->connections; c; c = c->next)
		stream_kill(&c->stream);
	pthread_mutex_unlock(&s->lock);
}

static void cancel_waiting(struct server *s)
{
	pthread_mutex_lock(&s->lock);
	for (struct session *i = s->sessions; i; i = i->next)
		works_cancel_waiting(i);
	pthread_mutex_unlock(&s->lock);
}

static void server_stop(struct xlator *x)
{
	struct server *s = x->private;

	atomic_store(&s->stopping, true);
	if (s->listener)
		listeners_stop(s);
	stop_sessions(s);
	cancel_waiting(s);
	while (doing(s))
		rest_ms(1);
	kill_connections(s);
	while (atomic_load(&s->tasks))
		rest_ms(1);
	sessions_free(s);
	atomic_store(&s->stopping, false);
	free(s->listener);
	s->listener = NULL;
}

static int server_claim(struct xlator *x, struct problem *p)
{
	return listeners_claim(x->private, p);
}

static int server_start(struct xlator *x, struct problem *p)
{
	struct server *s = x->private;

	runtime_busy_poll(s->busy_poll_us * 1000);
	return listeners_start(s, p);
}

static void server_reconfigure(struct xlator *x, const struct option *option)
{
	struct server *s = x->private;

	if (!strcmp(option->name, "busy-poll"))
		runtime_busy_poll(s->busy_poll_us * 1000);
}

static void server_finish(struct xlator *x)
{
	struct server *s = x->private;

	tls_destroy(s->tls);
	shares_free(s);
	pthread_mutex_destroy(&s->lock);
}

static void server_notify(struct xlator *x, struct xlator *from, const struct event *e)
{
	struct server *s = x->private;

	/* Who has lost a lock learns it from the answer to its reclaim. He may ask for such answers as fast as he likes, and read nothing. */
	if (s->listener && !atomic_load(&s->stopping) && e->kind != EVENT_LOCK_LOST)
		server_tell(s, from, e);
}

/* ---- for people ---- */

static void dump_session(struct session *s, FILE *f)
{
	pthread_mutex_lock(&s->lock);
	fprintf(f,
		"  session: %s, %s, %s, subvolume %s, connections %u, running %u, waiting %u, held back %u, files %u, requests %llu, "
		"duplicates %llu, kept bytes %zu%s\n",
		s->client.name ? s->client.name : "?", s->client.identity ? s->client.identity : "without identity",
		s->origin ? s->origin : "of unknown origin", s->subvolume->name, s->connections, s->running, s->waiting,
		s->held, s->files, (unsigned long long)s->requests, (unsigned long long)s->duplicates, s->kept_bytes,
		s->ending ? ", ending" : "");
	pthread_mutex_unlock(&s->lock);
}

static void dump_connection(struct connection *c, FILE *f)
{
	struct stream *st = &c->stream;
	size_t queued;

	pthread_mutex_lock(&st->lock);
	queued = st->queued;
	pthread_mutex_unlock(&st->lock);
	fprintf(f, "  connection: %s, channel %u, %s, bytes in %llu, bytes out %llu, receives %llu, sends %llu, queued %zu\n",
		c->peer, c->channel, c->welcome ? "up" : "greeting", (unsigned long long)atomic_load(&st->bytes_in),
		(unsigned long long)atomic_load(&st->bytes_out), (unsigned long long)atomic_load(&st->receives),
		(unsigned long long)atomic_load(&st->sends), queued);
}

static void server_dump(struct xlator *x, FILE *f)
{
	struct server *s = x->private;

	pthread_mutex_lock(&s->lock);
	for (unsigned i = 0; i < s->listeners; i++)
		fprintf(f, "  listening: %s\n", s->listener[i].name);
	fprintf(f,
		"  requests: %llu\n  accepted: %llu\n  rejected: %llu\n  garbage: %llu\n  handshakes expired: %llu\n"
		"  handshakes crowded out: %llu\n  channels taken over: %llu\n",
		(unsigned long long)atomic_load(&s->requests), (unsigned long long)s->accepted, (unsigned long long)s->rejected,
		(unsigned long long)s->garbage, (unsigned long long)s->expired, (unsigned long long)s->crowded,
		(unsigned long long)s->stale_channels);
	share_dump(s, f);
	for (struct session *i = s->sessions; i; i = i->next)
		dump_session(i, f);
	for (struct connection *c = s->connections; c; c = c->next)
		dump_connection(c, f);
	pthread_mutex_unlock(&s->lock);
}

static int server_command(struct xlator *x, int argc, char **argv, FILE *f)
{
	if (argc != 1 || strcmp(argv[0], "drop-connections")) {
		fprintf(f, "volume %s takes the command drop-connections\n", x->name);
		return -EINVAL;
	}
	kill_connections(x->private);
	fprintf(f, "connections dropped\n");
	return 0;
}

const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.front = true,
	.name = "protocol/server",
	.summary = "offers bricks to clients on the network",
	.options = options,
	.private_size = sizeof(struct server),
	.min_children = 1,
	.max_children = -1,
	.init = server_init,
	.claim = server_claim,
	.start = server_start,
	.stop = server_stop,
	.reconfigure = server_reconfigure,
	.finish = server_finish,
	.notify = server_notify,
	.dump = server_dump,
	.command = server_command,
};
XLATOR_MODULE
