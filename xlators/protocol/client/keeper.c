/* SPDX-License-Identifier: Apache-2.0 */
/* Each channel's keeper: a task that connects, greets, recovers, pings, and does so again when the connection is lost. */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"

enum { CONNECT_S = 5, GREET_S = 10, PAUSE_FIRST_MS = 50, PAUSE_MAX_MS = 1000 };

static uint64_t in_ms(uint64_t ms)
{
	return clock_ns() + ms * 1000000;
}

static bool stopping(const struct remote *r)
{
	return atomic_load(&r->stopping);
}

static int fail(struct channel *ch, bool refused, const char *format, const char *detail)
{
	struct remote *r = ch->remote;
	struct problem told = { "" };
	char at[300];

	snprintf(at, sizeof(at), "%s port %lld", r->remote_host, (long long)r->remote_port);
	pthread_mutex_lock(&r->lock);
	r->problem.text[0] = 0;
	problem_set(&r->problem, refused ? EINVAL : ENOTCONN, format, at, detail);
	r->refused = refused;
	r->attempts++;
	/* At the start it is told by client_start(), unless that does not wait for the brick. */
	if ((r->connects || r->wait_for_brick) && !stopping(r) && reasons_new(&r->reasons, r->problem.text))
		told = r->problem;
	pthread_mutex_unlock(&r->lock);
	if (told.text[0])
		log_warning(r->x, NULL, "%s; trying again", told.text);
	return -ENOTCONN;
}

/* ---- connecting ---- */

static void connect_ready(struct watch *w, uint32_t events)
{
	struct channel *ch = (struct channel *)((char *)w - offsetof(struct channel, connecting));

	(void)events;
	pthread_mutex_lock(&ch->lock);
	ch->connected = true;
	pthread_mutex_unlock(&ch->lock);
	task_wake(ch->keeper);
}

static bool flag(struct channel *ch, const bool *which)
{
	bool on;

	pthread_mutex_lock(&ch->lock);
	on = *which;
	pthread_mutex_unlock(&ch->lock);
	return on;
}

static void turn_done(void *arg)
{
	struct channel *ch = arg;

	pthread_mutex_lock(&ch->lock);
	ch->turned = true;
	task_wake(ch->keeper); /* with the lock: the channel may go as soon as this is seen */
	pthread_mutex_unlock(&ch->lock);
}

/* Has fn called on the loop, which ends with turn_done. What was unwatched before it will not be called any more. */
static void on_loop(struct channel *ch, task_fn *fn)
{
	ch->turned = false;
	while (shard_call(ch->shard, fn, ch))
		task_sleep_ms(1);
	while (!flag(ch, &ch->turned))
		task_wait(NO_DEADLINE);
}

/* Each channel goes through all of them by itself: by what others have tried it could come to the same one again and again. One that was good is tried again. */
static const struct addrinfo *next_address(struct channel *ch)
{
	if (ch->address && !ch->was_up)
		ch->address = ch->address->ai_next;
	ch->was_up = false;
	if (!ch->address)
		ch->address = ch->remote->address;
	return ch->address;
}

/* A connected descriptor, or -errno. */
static int connect_socket(struct channel *ch)
{
	int fd = tcp_connect(next_address(ch)), err = 0;
	uint64_t deadline = in_ms(CONNECT_S * 1000);
	socklen_t size = sizeof(err);

	if (fd < 0)
		return fd;
	ch->connected = false;
	ch->connecting = (struct watch){ .fd = fd, .ready = connect_ready };
	err = shard_watch(ch->shard, &ch->connecting, EPOLLOUT);
	while (!err && !flag(ch, &ch->connected) && !stopping(ch->remote))
		err = task_wait(deadline);
	shard_unwatch(&ch->connecting);
	if (!err && getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size))
		err = errno_now();
	err = err > 0 ? -err : err;
	on_loop(ch, turn_done);
	if (!err && stopping(ch->remote))
		err = -ECANCELED;
	if (err)
		close(fd);
	return err ? err : fd;
}

/* ---- what comes in beside answers ---- */

struct news {
	struct remote *remote;
	struct record *record;
};

/* A reference of the brick's event to an object, and the event itself, go up. */
static void tell_news(void *arg)
{
	struct news *news = arg;
	struct remote *r = news->remote;
	struct record *rec = news->record;
	struct event e = { 0 };
	uint32_t kind = EVENT_KINDS;
	struct codec c;

	codec_init(&c, XDR_DECODE, rec->word + CALL_BODY, rec->size - 4 * CALL_BODY, NULL, NULL);
	if (xdr_u_int(&c.xdr, &kind) && kind < EVENT_KINDS && !remote_decode_inode(r, &c, &e.inode) &&
	    codec_lock(&c, &e.lock)) {
		e.kind = kind;
		/* Of a lock that is lost the answer to its reclaim has told; this may come when it has been taken again. */
		if (kind != EVENT_LOCK_LOST)
			event_up(r->x, &e);
	}
	inode_unref(e.inode);
	record_free(rec);
	free(news);
	atomic_fetch_sub(&r->keepers, 1);
}

static bool keep_news(struct channel *ch, struct record *rec)
{
	struct news *news = malloc(sizeof(*news));

	if (!news)
		return false;
	*news = (struct news){ ch->remote, rec };
	atomic_fetch_add(&ch->remote->keepers, 1);
	if (!task_spawn(ch->shard, tell_news, news))
		return true;
	atomic_fetch_sub(&ch->remote->keepers, 1);
	free(news);
	return false;
}

static bool keep_answer(struct channel *ch, struct record *rec)
{
	bool keep;

	pthread_mutex_lock(&ch->lock);
	keep = !ch->answer;
	if (keep)
		ch->answer = rec;
	pthread_mutex_unlock(&ch->lock);
	if (keep)
		task_wake(ch->keeper);
	return keep;
}

static void got(struct stream *s, struct record *rec)
{
	struct channel *ch = (struct channel *)s;
	uint32_t xid = record_word(rec, WORD_XID);
	bool kept;

	__atomic_store_n(&ch->heard, true, __ATOMIC_RELAXED);
	if (!record_word(rec, WORD_TYPE))
		kept = record_word(rec, CALL_PROCEDURE) == WIRE_EVENT && keep_news(ch, rec);
	else if (xid == XID_HELLO || xid == XID_GOODBYE)
		kept = keep_answer(ch, rec);
	else
		kept = channel_answer(ch, rec);
	if (!kept)
		record_free(rec);
}

static void broken(struct stream *s, const char *why)
{
	struct channel *ch = (struct channel *)s;

	pthread_mutex_lock(&ch->lock);
	ch->lost = true;
	ch->lost_why = why ? why : "the brick closed it";
	pthread_mutex_unlock(&ch->lock);
	task_wake(ch->keeper);
}

/* ---- greeting ---- */

static int send_message(struct channel *ch, uint32_t xid, uint32_t procedure, xdrproc_t proc, void *message)
{
	char head[WIRE_GREETING_MAX] __attribute__((aligned(8)));
	uint32_t size = encode_call(head, sizeof(head), xid, procedure, proc, message);

	return size ? stream_send(&ch->stream, head, size, NULL, 0) : -EMSGSIZE;
}

/* The answer to what was sent last, or NULL when the connection was lost or time is up. */
static struct record *await_answer(struct channel *ch, uint64_t deadline)
{
	struct record *rec;
	bool lost;
	int err = 0;

	for (;;) {
		pthread_mutex_lock(&ch->lock);
		rec = ch->answer;
		ch->answer = NULL;
		lost = ch->lost;
		pthread_mutex_unlock(&ch->lock);
		if (rec || lost || err)
			return rec;
		err = task_wait(deadline);
	}
}

static int send_hello(struct channel *ch)
{
	struct remote *r = ch->remote;
	char host[64] = "", origin[128];
	struct wire_extension e[2] = { { .type = EXTENSION_ORIGIN, .revision = 1 },
				       { .type = EXTENSION_ACTS_FOR, .revision = 1, .critical = true } };
	struct wire_hello hello = { .channel = ch->number, .generation = ch->generation };

	gethostname(host, sizeof(host) - 1);
	snprintf(origin, sizeof(origin), "%s (process %d, %s)", host, (int)getpid(), program_invocation_short_name);
	e[0].bytes.bytes_len = strlen(origin);
	e[0].bytes.bytes_val = origin;
	e[1].bytes.bytes_len = sizeof(r->acts_for.bytes);
	e[1].bytes.bytes_val = (char *)r->acts_for.bytes;
	hello.subvolume.subvolume_len = strlen(r->remote_subvolume);
	hello.subvolume.subvolume_val = r->remote_subvolume;
	hello.volume_id.volume_id_len = strlen(r->volume_id);
	hello.volume_id.volume_id_val = r->volume_id;
	hello.brick_id.brick_id_len = strlen(r->brick_id);
	hello.brick_id.brick_id_val = r->brick_id;
	memcpy(hello.client_id, r->client_id, sizeof(r->client_id));
	memcpy(hello.secret, r->secret, sizeof(r->secret));
	hello.extensions.extensions_len = gfid_is_null(&r->acts_for) ? 1 : 2;
	hello.extensions.extensions_val = e;
	return send_message(ch, XID_HELLO, WIRE_HELLO, (xdrproc_t)xdr_wire_hello, &hello);
}

/* What the brick can't do just now, for its disk or its server. Who may not come is refused for good. */
static bool may_pass(int status)
{
	bool by_disk = status == -EROFS || status == -EIO;

	return by_disk || status == -EAGAIN || status == -ENOMEM || status == -ESTALE || status == -ENOTCONN;
}

static int refusal(struct channel *ch, int status, const struct extension *e)
{
	char text[400];

	while (e && e->type != EXTENSION_REASON)
		e = e->next;
	if (e)
		snprintf(text, sizeof(text), "%.*s", (int)e->size, (const char *)e->bytes);
	else
		snprintf(text, sizeof(text), "%s", strerror(-status));
	return fail(ch, !may_pass(status), "the brick at %s refuses us: %s", text);
}

static int keep_root(struct remote *r, struct channel *ch, struct wire_welcome *w)
{
	pthread_mutex_lock(&r->lock);
	r->root_size = w->root.handle.wire_inode_len;
	memcpy(r->root_handle, w->root.handle.wire_inode_val, r->root_size);
	pthread_mutex_unlock(&r->lock);
	ch->incarnation = w->incarnation;
	return 0;
}

static int read_welcome(struct channel *ch, struct record *rec)
{
	struct extension *extensions = NULL;
	struct wire_welcome w = { 0 };
	int status = 0, err;
	struct codec c;

	codec_init(&c, XDR_DECODE, rec->word + REPLY_BODY, rec->size - 4 * REPLY_BODY, NULL, NULL);
	err = reply_head(&c, &status, &extensions);
	if (!err && status)
		err = refusal(ch, status, extensions);
	else if (err || !decode_message(&c.xdr, (xdrproc_t)xdr_wire_welcome, &w) || !w.incarnation)
		err = fail(ch, true, "what answers at %s is no StratusFS server%s", "");
	else
		err = keep_root(ch->remote, ch, &w);
	xdr_free((xdrproc_t)xdr_wire_welcome, &w);
	extensions_free(&extensions);
	return err;
}

static int greet(struct channel *ch)
{
	struct record *rec;
	int err = send_hello(ch);

	rec = err && err != -ENOTCONN ? NULL : await_answer(ch, in_ms(GREET_S * 1000)); /* -ENOTCONN: the loop will find why */
	if (!rec && flag(ch, &ch->lost))
		return fail(ch, false,
			    "the server at %s did not answer our greeting: %s; is it stratusd, with the same transport?",
			    ch->lost_why);
	if (!rec)
		return fail(ch, false, "the server at %s does not answer our greeting%s; is it stratusd?", "");
	err = read_welcome(ch, rec);
	record_free(rec);
	return err;
}

/* ---- states ---- */

static void set_state(struct channel *ch, enum channel_state state)
{
	pthread_mutex_lock(&ch->lock);
	if (ch->state != state)
		channel_set_state(ch, state);
	pthread_mutex_unlock(&ch->lock);
}

/* So that others need not wait for the end of the grace period. */
static int say_reclaimed(struct channel *ch)
{
	return send_message(ch, XID_RECLAIMED, WIRE_RECLAIMED, NULL, NULL);
}

static int recover_locked(struct channel *ch)
{
	struct remote *r = ch->remote;
	int err;

	if (r->recovered == ch->incarnation)
		return 0;
	if (remote_is_unsure(r, ch))
		return fail(ch, false, "the brick at %s waits for the connection on which files were being reopened%s", "");
	set_state(ch, CHANNEL_RECOVERING);
	err = remote_recover(r, ch);
	if (!err && r->recovered)
		err = say_reclaimed(ch);
	pthread_mutex_lock(&r->lock);
	r->sessions_lost += !err && r->recovered;
	r->recovered = err ? r->recovered : ch->incarnation;
	r->recovering = r->recovered; /* what came to nothing may have been a session that is over already */
	pthread_mutex_unlock(&r->lock);
	return err ? fail(ch, false, "the brick at %s was lost again while files were reopened%s", "") : 0;
}

/* Files and locks, once per session, whichever channel is first. */
static int recover(struct channel *ch)
{
	struct remote *r = ch->remote;
	int err = task_lock(&r->recovery, NO_DEADLINE);

	if (err)
		return err;
	err = recover_locked(ch);
	task_unlock(&r->recovery);
	return err;
}

static void count_up(struct remote *r, int by)
{
	struct event e = { .kind = by > 0 ? EVENT_CHILD_UP : EVENT_CHILD_DOWN };
	bool changed;

	pthread_mutex_lock(&r->lock);
	changed = r->up == (by > 0 ? 0 : 1);
	r->up += by;
	r->connects += by > 0;
	if (by > 0)
		r->reasons.count = 0;
	pthread_mutex_unlock(&r->lock);
	if (!changed)
		return;
	if (by > 0)
		log_info(r->x, NULL, "connected to %s port %lld", r->remote_host, (long long)r->remote_port);
	event_up(r->x, &e);
}

static int open_stream(struct channel *ch, int fd)
{
	int err;

	pthread_mutex_lock(&ch->lock);
	err = stream_open(&ch->stream, ch->remote->tls ? &transport_tls : &transport_tcp, fd, WIRE_XDR_MAX, WIRE_BULK_MAX);
	if (!err && ch->remote->tls) {
		err = tls_begin(&ch->stream, ch->remote->tls, ch->remote->remote_host);
		if (err)
			stream_close(&ch->stream);
	}
	ch->stream.got = got;
	ch->stream.broken = broken;
	ch->lost = false;
	ch->lost_why = NULL;
	ch->generation++;
	record_free(ch->answer);
	ch->answer = NULL;
	if (!err)
		channel_set_state(ch, CHANNEL_GREETING);
	pthread_mutex_unlock(&ch->lock);
	return err ? err : stream_watch(&ch->stream, ch->shard);
}

/* The handshake went by the files of its beginning, and while it lasted drop_refused() did not know the certificate. */
static int check_server(struct channel *ch)
{
	struct tls *tls = ch->remote->tls;

	if (!tls || !stream_is_refused(&ch->stream, tls))
		return 0;
	return fail(
		ch, false,
		"the server at %s was left: by the files of TLS as they are now its certificate was revoked, has expired, or "
		"must be checked anew%s",
		"");
}

static int connect_channel(struct channel *ch)
{
	int fd = connect_socket(ch), err;

	if (fd < 0)
		return fail(ch, false, "can't connect to the brick at %s: %s; is stratusd running there?", strerror(-fd));
	err = open_stream(ch, fd);
	if (!err)
		err = greet(ch);
	if (!err)
		err = check_server(ch);
	return err ? err : recover(ch);
}

static void close_stream(void *arg)
{
	struct channel *ch = arg;

	pthread_mutex_lock(&ch->lock);
	stream_close(&ch->stream);
	pthread_mutex_unlock(&ch->lock);
	turn_done(ch);
}

static void disconnect(struct channel *ch)
{
	bool down;

	pthread_mutex_lock(&ch->lock);
	down = ch->state == CHANNEL_DOWN;
	if (!down) {
		channel_set_state(ch, CHANNEL_DOWN);
		ch->bytes_in += atomic_load(&ch->stream.bytes_in);
		ch->bytes_out += atomic_load(&ch->stream.bytes_out);
	}
	pthread_mutex_unlock(&ch->lock);
	if (down)
		return;
	on_loop(ch, close_stream);
	on_loop(ch, turn_done);
}

/* ---- while it lasts ---- */

static int ping(struct channel *ch)
{
	return send_message(ch, XID_PING, WIRE_PING, NULL, NULL);
}

/* Every interval in which nothing came is followed by a ping, and that by an answer, or the connection is given up. */
static void serve(struct channel *ch)
{
	struct remote *r = ch->remote;
	bool pinged = false;

	while (!flag(ch, &ch->lost) && !stopping(r)) {
		int err = task_wait(in_ms(pinged ? r->ping_timeout_ms : r->ping_interval_ms));

		if (err != -ETIMEDOUT)
			continue;
		if (__atomic_exchange_n(&ch->heard, false, __ATOMIC_RELAXED)) {
			pinged = false;
			continue;
		}
		if (pinged)
			break;
		pinged = !ping(ch);
	}
	if (stopping(r))
		return;
	log_warning(r->x, NULL, "connection %u to %s port %lld lost: %s; requests wait for it", ch->number, r->remote_host,
		    (long long)r->remote_port, flag(ch, &ch->lost) ? ch->lost_why : "no answer to a ping");
}

static void say_goodbye(struct channel *ch)
{
	if (ch->number || ch->state != CHANNEL_UP)
		return;
	if (!send_message(ch, XID_GOODBYE, WIRE_GOODBYE, NULL, NULL))
		record_free(await_answer(ch, in_ms(1000)));
}

static void pause_for(struct channel *ch, uint64_t ms)
{
	uint64_t until = in_ms(ms);

	while (!stopping(ch->remote) && task_wait(until) != -ETIMEDOUT)
		;
}

static void session(struct channel *ch, uint64_t *pause_ms)
{
	bool up = !connect_channel(ch);

	if (up) {
		set_state(ch, CHANNEL_UP);
		ch->was_up = true;
		count_up(ch->remote, 1);
		*pause_ms = PAUSE_FIRST_MS / 2;
		serve(ch);
		if (stopping(ch->remote))
			say_goodbye(ch);
	}
	disconnect(ch);
	if (up)
		count_up(ch->remote, -1);
}

void keeper_run(void *arg)
{
	struct channel *ch = arg;
	uint64_t pause_ms = PAUSE_FIRST_MS / 2;

	atomic_store(&ch->keeper, task_self());
	while (!stopping(ch->remote)) {
		session(ch, &pause_ms);
		if (stopping(ch->remote))
			break;
		pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
		pause_for(ch, pause_ms);
	}
	atomic_fetch_sub(&ch->remote->keepers, 1);
}

/* ---- certificates ---- */

enum { GUARD_MS = 1000 };

static void drop_refused(struct remote *r)
{
	for (unsigned i = 0; i < r->channels; i++) {
		struct channel *ch = &r->channel[i];
		bool refused;

		pthread_mutex_lock(&ch->lock);
		refused = ch->state != CHANNEL_DOWN && stream_is_refused(&ch->stream, r->tls);
		pthread_mutex_unlock(&ch->lock);
		if (!refused)
			continue;
		log_warning(
			r->x, NULL,
			"connection %u to %s port %lld dropped: by the files of TLS as they are now the server's certificate was "
			"revoked, has expired, or must be checked anew",
			i, r->remote_host, (long long)r->remote_port);
		channel_kill(ch);
	}
}

/* A server that was revoked is left at once. */
void guard_run(void *arg)
{
	struct remote *r = arg;
	uint64_t generation = tls_look(r->tls);

	atomic_store(&r->guard, task_self());
	while (!stopping(r)) {
		uint64_t now = tls_look(r->tls);

		if (now != generation)
			drop_refused(r);
		generation = now;
		task_wait(in_ms(GUARD_MS));
	}
	atomic_store(&r->guard, NULL);
	atomic_fetch_sub(&r->keepers, 1);
}
