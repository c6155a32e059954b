/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: a client's connections, open files and end. */
#include <sys/stat.h>

#include "server.h"

/* ---- files ---- */

enum { FILES_FIRST = 64 };

/* With the lock held. */
static int grow_files(struct session *s)
{
	uint32_t room = s->files_room ? s->files_room * 2 : FILES_FIRST;
	struct open_file *more;

	if (s->files_room >= FILES_MAX)
		return -ENFILE;
	more = realloc(s->file, room * sizeof(*more));
	if (!more)
		return -ENOMEM;
	s->file = more;
	for (uint32_t i = room; i-- > s->files_room;) {
		more[i] = (struct open_file){ .turn = 0, .next_free = s->free_file };
		s->free_file = i + 1;
	}
	s->files_room = room;
	return 0;
}

int session_add_file(struct session *s, struct file *file, uint64_t *number)
{
	int err = 0;

	pthread_mutex_lock(&s->lock);
	if (!s->free_file)
		err = grow_files(s);
	if (!err) {
		uint32_t at = s->free_file - 1;

		s->free_file = s->file[at].next_free;
		s->file[at].file = file_ref(file);
		s->files++;
		*number = (uint64_t)s->file[at].turn << 32 | (at + 1);
	}
	pthread_mutex_unlock(&s->lock);
	return err;
}

static struct open_file *file_at(struct session *s, uint64_t number)
{
	uint32_t at = (uint32_t)number - 1;
	struct open_file *f = at < s->files_room ? &s->file[at] : NULL;

	return f && f->file && f->turn == number >> 32 ? f : NULL;
}

int session_find_file(struct session *s, uint64_t number, struct file **file)
{
	struct open_file *f;

	pthread_mutex_lock(&s->lock);
	f = file_at(s, number);
	*file = f ? file_ref(f->file) : NULL;
	pthread_mutex_unlock(&s->lock);
	return *file ? 0 : -EBADF;
}

/* Finds it by itself: for files that were released in the compound that opened them. */
void session_forget_file(struct session *s, const struct file *file)
{
	uint64_t number = 0;

	pthread_mutex_lock(&s->lock);
	for (uint32_t at = 0; at < s->files_room && !number; at++)
		if (s->file[at].file == file)
			number = (uint64_t)s->file[at].turn << 32 | (at + 1);
	pthread_mutex_unlock(&s->lock);
	if (number)
		session_remove_file(s, number);
}

void session_remove_file(struct session *s, uint64_t number)
{
	struct file *file = NULL;
	struct open_file *f;

	pthread_mutex_lock(&s->lock);
	f = file_at(s, number);
	if (f) {
		file = f->file;
		*f = (struct open_file){ .turn = f->turn + 1, .next_free = s->free_file };
		s->free_file = f - s->file + 1;
		s->files--;
	}
	pthread_mutex_unlock(&s->lock);
	file_unref(file);
}

static void drop_files(struct session *s)
{
	struct open_file *file;
	uint32_t room;

	pthread_mutex_lock(&s->lock);
	file = s->file;
	room = s->files_room;
	s->file = NULL;
	s->files = s->files_room = s->free_file = 0;
	pthread_mutex_unlock(&s->lock);
	for (uint32_t i = 0; i < room; i++)
		file_unref(file[i].file);
	free(file);
}

/* ---- life ---- */

static struct session *session_create(struct server *server, struct xlator *subvolume, const struct wire_hello *h)
{
	struct session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	memcpy(s->client.id, h->client_id, sizeof(s->client.id));
	memcpy(s->secret, h->secret, sizeof(s->secret));
	s->client.incarnation = clock_wall_ns();
	atomic_store(&s->client.refs, 1);
	atomic_store(&s->refs, 1); /* the table's */
	s->server = server;
	s->subvolume = subvolume;
	pthread_mutex_init(&s->lock, NULL);
	s->next = server->sessions;
	server->sessions = s;
	server->session_count++;
	return s;
}

static void slots_free(struct session *s, struct slot *slot, unsigned count)
{
	for (unsigned i = 0; slot && i < count; i++)
		slot_drop_kept(s, &slot[i]);
}

static void session_free(struct session *s)
{
	for (unsigned i = 0; i < WIRE_CHANNELS; i++) {
		struct session_channel *ch = s->channel[i];

		if (!ch)
			continue;
		slots_free(s, ch->slot, WIRE_SLOTS);
		slots_free(s, ch->wait_slot, WIRE_WAIT_SLOTS);
		free(ch->wait_slot);
		free(ch);
	}
	drop_files(s);
	pthread_mutex_destroy(&s->lock);
	free(s->origin);
	free((char *)s->client.name);
	free(s);
}

void session_unref(struct session *s)
{
	if (atomic_fetch_sub(&s->refs, 1) == 1)
		session_free(s);
}

/* With server.lock held. */
static void unlist(struct session *s)
{
	struct session **at = &s->server->sessions;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	s->server->session_count--;
}

static void tell_gone(struct xlator *x, const struct client *client)
{
	if (x->type->client_gone)
		x->type->client_gone(x, client);
	for (int i = 0; i < x->children; i++)
		tell_gone(x->child[i], client);
}

static void tell_reclaimed(struct xlator *x, const struct client *client)
{
	if (x->type->client_reclaimed)
		x->type->client_reclaimed(x, client);
	for (int i = 0; i < x->children; i++)
		tell_reclaimed(x->child[i], client);
}

void session_reclaimed(struct session *s)
{
	tell_reclaimed(s->subvolume, &s->client);
}

static bool busy(struct session *s)
{
	bool yes;

	pthread_mutex_lock(&s->lock);
	yes = s->works;
	pthread_mutex_unlock(&s->lock);
	return yes;
}

void session_end(struct session *s)
{
	struct server *server = s->server;
	bool first;

	pthread_mutex_lock(&s->lock);
	first = !s->ending;
	s->ending = true; /* from here on no call begins */
	pthread_mutex_unlock(&s->lock);
	if (!first)
		return;
	works_cancel(s);
	while (busy(s))
		task_sleep_ms(2);
	tell_gone(s->subvolume, &s->client);
	drop_files(s);
	pthread_mutex_lock(&server->lock);
	unlist(s);
	pthread_mutex_unlock(&server->lock);
	log_info(server->x, NULL, "session of %s ended", s->client.name ? s->client.name : "?");
	session_unref(s);
}

static void end_task(void *arg)
{
	struct session *s = arg;
	struct server *server = s->server;

	session_end(s);
	session_unref(s);
	atomic_fetch_sub(&server->tasks, 1);
}

void sessions_sweep(struct server *server)
{
	uint64_t timeout = server->session_timeout_ms * 1000000;

	pthread_mutex_lock(&server->lock);
	for (struct session *s = server->sessions; s && !atomic_load(&server->stopping); s = s->next) {
		pthread_mutex_lock(&s->lock);
		/* The time is read under the lock: it may be alone only since this loop began. */
		if (!s->ending && s->alone_since_ns && clock_ns() - s->alone_since_ns > timeout) {
			atomic_fetch_add(&s->refs, 1);
			atomic_fetch_add(&server->tasks, 1);
			if (task_spawn(NULL, end_task, s)) {
				atomic_fetch_sub(&s->refs, 1);
				atomic_fetch_sub(&server->tasks, 1);
			} else {
				s->alone_since_ns = 0; /* asked for once */
			}
		}
		pthread_mutex_unlock(&s->lock);
	}
	pthread_mutex_unlock(&server->lock);
}

/* At the server's stop: the sessions are not over; their clients will reclaim. */
void sessions_free(struct server *server)
{
	struct session *s;

	while ((s = server->sessions)) {
		unlist(s);
		session_unref(s);
	}
}

void session_detach(struct session *s, struct connection *c)
{
	struct session_channel *ch;
	bool ours;

	pthread_mutex_lock(&s->lock);
	ch = s->channel[c->channel];
	ours = ch->connection == c;
	if (ours) {
		ch->connection = NULL;
		s->paused -= ch->paused;
		ch->paused = false;
		if (!--s->connections)
			s->alone_since_ns = clock_ns();
	}
	pthread_mutex_unlock(&s->lock);
	if (ours)
		connection_unref(c);
}

/* ---- HELLO ---- */

struct xlator *leaf_of(struct xlator *x)
{
	while (!x->type->inode_handle && x->children)
		x = x->child[0];
	return x->type->inode_handle && x->type->inode_from_handle ? x : NULL;
}

static const char *given(const struct xlator *x, const char *option)
{
	for (size_t i = 0; i < x->given_count; i++)
		if (!strcmp(x->given[i].name, option))
			return x->given[i].value;
	return "";
}

static bool id_fits(const char *have, const char *wanted, uint32_t size)
{
	return !size || !*have || (strlen(have) == size && !strncasecmp(have, wanted, size));
}

static struct xlator *find_subvolume(struct server *server, const struct wire_hello *h)
{
	for (int i = 0; i < server->x->children; i++) {
		struct xlator *x = server->x->child[i];

		if (strlen(x->name) == h->subvolume.subvolume_len &&
		    !memcmp(x->name, h->subvolume.subvolume_val, h->subvolume.subvolume_len))
			return x;
	}
	return NULL;
}

/* The brick that is asked for, or NULL with the reason. */
static struct xlator *check_hello(struct server *server, const struct wire_hello *h, struct problem *p)
{
	struct xlator *x = find_subvolume(server, h), *leaf = x ? leaf_of(x) : NULL;

	if (!x)
		problem_set(p, ENOENT, "there is no subvolume \"%.*s\" here; check remote-subvolume",
			    (int)h->subvolume.subvolume_len, h->subvolume.subvolume_val);
	else if (!leaf)
		problem_set(p, EINVAL, "subvolume \"%s\" has no brick below it", x->name);
	else if (!id_fits(given(leaf, "volume-id"), h->volume_id.volume_id_val, h->volume_id.volume_id_len))
		problem_set(p, EINVAL, "this brick belongs to volume %s, not %.*s; check volume-id", given(leaf, "volume-id"),
			    (int)h->volume_id.volume_id_len, h->volume_id.volume_id_val);
	else if (!id_fits(given(leaf, "brick-id"), h->brick_id.brick_id_val, h->brick_id.brick_id_len))
		problem_set(p, EINVAL, "this is brick %s, not %.*s; check brick-id", given(leaf, "brick-id"),
			    (int)h->brick_id.brick_id_len, h->brick_id.brick_id_val);
	else if (h->channel >= WIRE_CHANNELS)
		problem_set(p, EINVAL, "channel %u is more than the %d allowed", h->channel, WIRE_CHANNELS);
	return p->text[0] ? NULL : x;
}

static bool same_secret(const uint8_t *a, const char *b)
{
	uint8_t differ = 0;

	for (int i = 0; i < 16; i++)
		differ |= a[i] ^ (uint8_t)b[i];
	return !differ;
}

static char *origin_of(const struct wire_hello *h)
{
	for (uint32_t i = 0; i < h->extensions.extensions_len; i++) {
		const struct wire_extension *e = &h->extensions.extensions_val[i];
		char *text;

		if (e->type != EXTENSION_ORIGIN)
			continue;
		text = strndup(e->bytes.bytes_val, e->bytes.bytes_len < 200 ? e->bytes.bytes_len : 200);
		for (char *c = text; c && *c; c++)
			if ((unsigned char)*c < ' ' || *c == 127)
				*c = '?';
		return text;
	}
	return NULL;
}

static bool critical_unknown(const struct wire_hello *h)
{
	for (uint32_t i = 0; i < h->extensions.extensions_len; i++)
		if (h->extensions.extensions_val[i].critical && !extension_known(h->extensions.extensions_val[i].type))
			return true;
	return false;
}

/* With server.lock held. */
static struct session *find_session(struct server *server, struct xlator *x, const struct wire_hello *h, struct problem *p)
{
	struct session *s = server->sessions;

	while (s && (s->subvolume != x || memcmp(s->client.id, h->client_id, sizeof(s->client.id))))
		s = s->next;
	if (s && !same_secret(s->secret, h->secret))
		return problem_set(p, EACCES, "another client has this client id"), NULL;
	if (s)
		return s;
	if (server->session_count >= (uint64_t)server->max_connections)
		return problem_set(p, EAGAIN, "there are as many sessions as max-connections allows"), NULL;
	s = session_create(server, x, h);
	if (!s)
		problem_set(p, ENOMEM, "out of memory");
	return s;
}

/* With both locks held. *old: the channel's earlier connection, which must not be read from any more. */
static void take_channel(struct session *s, struct connection *c, const struct wire_hello *h, struct connection **old,
			 struct problem *p)
{
	struct session_channel *ch = s->channel[h->channel];

	if (!ch)
		ch = s->channel[h->channel] = calloc(1, sizeof(*ch));
	if (!ch)
		problem_set(p, ENOMEM, "out of memory");
	else if (s->ending)
		problem_set(p, EAGAIN, "the session is being ended; try again");
	else if (h->generation <= ch->generation)
		problem_set(p, ESTALE, "a newer connection of the channel is here");
	if (p->text[0])
		return;
	*old = ch->connection;
	s->paused -= ch->paused;
	ch->paused = false;
	ch->connection = connection_ref(c);
	ch->generation = h->generation;
	s->connections += !*old;
	s->alone_since_ns = 0;
	c->channel = h->channel;
	c->session = s;
	atomic_fetch_add(&s->refs, 1);
}

static struct session *attach(struct connection *c, struct xlator *x, const struct wire_hello *h, struct problem *p)
{
	struct server *server = c->server;
	struct connection *old = NULL;
	struct session *s = NULL;

	pthread_mutex_lock(&server->lock);
	if (c->closed)
		problem_set(p, ENOTCONN, "the connection is gone");
	else
		s = find_session(server, x, h, p);
	if (s) {
		pthread_mutex_lock(&s->lock);
		if (!s->origin)
			s->origin = origin_of(h);
		if (!s->client.name)
			s->client.name = strdup(c->peer);
		take_channel(s, c, h, &old, p);
		server->stale_channels += old != NULL;
		pthread_mutex_unlock(&s->lock);
	}
	pthread_mutex_unlock(&server->lock);
	if (old) {
		stream_kill(&old->stream);
		connection_unref(old);
	}
	return p->text[0] ? NULL : s;
}

static int root_handle(struct server *server, struct xlator *x, struct wire_welcome *w)
{
	struct inode *root = inode_get(server->x->inodes, &gfid_root, S_IFDIR);
	uint32_t size = WIRE_HANDLE_MAX;
	int err = -ENOMEM;

	w->root.handle.wire_inode_val = malloc(WIRE_HANDLE_MAX);
	if (root && w->root.handle.wire_inode_val)
		err = server_put_inode(leaf_of(x), root, (uint8_t *)w->root.handle.wire_inode_val, &size);
	w->root.handle.wire_inode_len = size;
	memcpy(w->root.gfid.bytes, gfid_root.bytes, sizeof(gfid_root.bytes));
	w->root.type = S_IFDIR;
	inode_unref(root);
	return err;
}

static void answer(struct connection *c, const struct problem *p, struct wire_welcome *w)
{
	struct extension reason = { EXTENSION_REASON, 1, false, strlen(p->text), (char *)p->text, NULL };
	char head[1024] __attribute__((aligned(8)));
	bool refused = p->text[0];
	uint32_t size = encode_reply(head, sizeof(head), record_word(c->hello, WORD_XID), refused ? -p->error : 0,
				     refused ? &reason : NULL, (xdrproc_t)xdr_wire_welcome, w);

	stream_send(&c->stream, head, size, NULL, 0);
}

static void arrive(void *arg)
{
	struct connection *c = arg;

	c->stream.max_size = WIRE_XDR_MAX;
	c->stream.max_bulk = WIRE_BULK_MAX;
	pthread_mutex_lock(&c->server->lock);
	c->welcome = true;
	pthread_mutex_unlock(&c->server->lock);
	if (stream_watch(&c->stream, c->shard))
		connection_refuse(c, "out of memory"); /* swept with the session */
	else
		stream_pause(&c->stream, false);
	connection_unref(c);
}

/* On the loop that it leaves: from now on the channel's own shard reads from it. */
static void leave(void *arg)
{
	struct connection *c = arg;

	if (c->stream.dead) {
		connection_unref(c);
		return;
	}
	stream_unwatch(&c->stream);
	c->shard = runtime_shard(c->channel);
	while (shard_call(c->shard, arrive, c))
		sched_yield();
}

static void greet(struct connection *c, const struct wire_hello *h)
{
	struct problem p = { "" };
	struct wire_welcome w = { 0 };
	struct xlator *x = critical_unknown(h)
		? problem_set(&p, EOPNOTSUPP, "HELLO has a critical extension that is unknown here"),
		      NULL : check_hello(c->server, h, &p);
	struct session *s = NULL;
	int err = x ? root_handle(c->server, x, &w) : 0;

	if (err)
		problem_set(&p, -err, "the brick can't be used: %s", strerror(-err));
	if (!p.text[0])
		s = attach(c, x, h, &p);
	if (s) {
		w.incarnation = s->client.incarnation;
		connection_ref(c);
		while (shard_call(c->shard, leave, c))
			sched_yield();
	}
	answer(c, &p, &w);
	free(w.root.handle.wire_inode_val);
	if (!s)
		connection_refuse(c, p.text);
}

void session_greet(void *arg)
{
	struct connection *c = arg;
	struct wire_hello h = { 0 };

	if (decode_record(c->hello, CALL_BODY, (xdrproc_t)xdr_wire_hello, &h)) {
		greet(c, &h);
		xdr_free((xdrproc_t)xdr_wire_hello, &h);
	} else {
		connection_refuse(c, "a malformed HELLO");
	}
	connection_unref(c);
}
