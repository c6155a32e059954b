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
	int err = share_add_file(s);

	if (err)
		return err;
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
	if (err)
		share_remove_files(s, 1);
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
	if (file)
		share_remove_files(s, 1);
	file_unref(file);
}

static void drop_files(struct session *s)
{
	struct open_file *file;
	uint32_t room, files;

	pthread_mutex_lock(&s->lock);
	file = s->file;
	room = s->files_room;
	files = s->files;
	s->file = NULL;
	s->files = s->files_room = s->free_file = 0;
	pthread_mutex_unlock(&s->lock);
	for (uint32_t i = 0; i < room; i++)
		file_unref(file[i].file);
	share_remove_files(s, files);
	free(file);
}

/* ---- life ---- */

static bool is_tenant(const struct guest *guest)
{
	return identity_is_tenants(&guest->who);
}

/* One that has come by an access point has a directory for a root, and keeps it whatever its path leads to meanwhile. */
static bool is_confined(const struct guest *guest)
{
	return guest->who.kind == IDENTITY_ACCESS;
}

static void set_alone(struct session *s, uint64_t since_ns)
{
	s->alone_since_ns = since_ns;
	atomic_store(&s->client.alone_since_ns, since_ns);
}

/* ---- the table; with server.lock held ---- */

static struct session **place_of(struct server *server, const struct client *client)
{
	return &server->placed[((uintptr_t)client >> 8) % SESSION_PLACES];
}

struct session *session_of(struct server *server, const struct client *client)
{
	struct session *s = *place_of(server, client);

	while (s && &s->client != client)
		s = s->next_placed;
	return s;
}

static void enlist(struct server *server, struct session *s)
{
	struct session **place = place_of(server, &s->client);

	s->next = server->sessions;
	server->sessions = s;
	s->next_placed = *place;
	*place = s;
	server->session_count++;
}

static void unlist(struct session *s)
{
	struct session **at = &s->server->sessions;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	at = place_of(s->server, &s->client);
	while (*at != s)
		at = &(*at)->next_placed;
	*at = s->next_placed;
	s->server->session_count--;
}

static struct session *session_create(struct server *server, struct xlator *subvolume, const struct wire_hello *h,
				      const struct guest *guest)
{
	struct share *share = is_tenant(guest) ? share_of(server, guest->who.name) : NULL;
	struct session *s = share || !is_tenant(guest) ? calloc(1, sizeof(*s)) : NULL;

	if (!s)
		return NULL;
	memcpy(s->client.id, h->client_id, sizeof(s->client.id));
	memcpy(s->secret, h->secret, sizeof(s->secret));
	s->client.incarnation = clock_wall_ns();
	s->guest = *guest;
	s->guest.inode = is_confined(guest) ? inode_ref(guest->inode)
					    : NULL; /* what he has in place of a root is not forgotten meanwhile */
	s->client.identity = *s->guest.identity ? s->guest.identity : NULL;
	s->client.acts_for = guest->acts_for;
	s->client.root = guest->root;
	atomic_store(&s->client.refs, 1);
	atomic_store(&s->refs, 1); /* the table's */
	set_alone(s, clock_ns());  /* its first connection may come to nothing */
	s->server = server;
	s->share = share;
	s->subvolume = subvolume;
	pthread_mutex_init(&s->lock, NULL);
	enlist(server, s);
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
	inode_unref(s->guest.inode);
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

static bool is_welcome(const struct session *s)
{
	struct xlator *gate = gate_of(s->subvolume);

	return !gate || gate->type->admit(gate, &s->client, NULL, NULL) != -EACCES;
}

/* With its lock held. */
static void cut(struct session *s)
{
	for (unsigned i = 0; i < WIRE_CHANNELS; i++)
		if (s->channel[i] && s->channel[i]->connection)
			stream_kill(&s->channel[i]->connection->stream);
}

/* Sessions that are over: without a connection for too long, or no longer welcome (they are cut off first). */
void sessions_sweep(struct server *server)
{
	uint64_t timeout = server->session_timeout_ms * 1000000;

	pthread_mutex_lock(&server->lock);
	for (struct session *s = server->sessions; s && !atomic_load(&server->stopping); s = s->next) {
		pthread_mutex_lock(&s->lock);
		/* The time is read under the lock: it may be alone only since this loop began. */
		bool welcome = s->ending || is_welcome(s);

		if (!welcome)
			cut(s);
		if (!s->ending && (!welcome || (s->alone_since_ns && clock_ns() - s->alone_since_ns > timeout))) {
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
			set_alone(s, clock_ns());
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

struct xlator *gate_of(struct xlator *x)
{
	while (x && !x->type->admit)
		x = x->children ? x->child[0] : NULL;
	return x;
}

/* Who vouches to the other members of a replica set. */
static struct xlator *voucher_of(struct xlator *x)
{
	while (x && !x->type->vouch)
		x = x->children ? x->child[0] : NULL;
	return x;
}

/* The text of an option that is never changed live. Not of x->given: that is replaced as a whole when any other option changes. */
static const char *fixed_text(const struct xlator *x, const char *name)
{
	const struct option *o = option_find(x->type->options, name);
	const char *text = NULL;

	if (o && o->kind == OPTION_STRING && !o->live)
		memcpy(&text, (const char *)x->private + o->offset, sizeof(text));
	return text ? text : "";
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
	else if (!id_fits(fixed_text(leaf, "volume-id"), h->volume_id.volume_id_val, h->volume_id.volume_id_len))
		problem_set(p, EINVAL, "this brick belongs to volume %s, not %.*s; check volume-id",
			    fixed_text(leaf, "volume-id"), (int)h->volume_id.volume_id_len, h->volume_id.volume_id_val);
	else if (!id_fits(fixed_text(leaf, "brick-id"), h->brick_id.brick_id_val, h->brick_id.brick_id_len))
		problem_set(p, EINVAL, "this is brick %s, not %.*s; check brick-id", fixed_text(leaf, "brick-id"),
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

/* For whom he says that he acts; said twice, or of another size, or of nobody, it makes no sense. */
static int take_acts_for(const struct wire_hello *h, struct guest *guest, struct problem *p)
{
	bool said = false;

	for (uint32_t i = 0; i < h->extensions.extensions_len; i++) {
		const struct wire_extension *e = &h->extensions.extensions_val[i];

		if (e->type != EXTENSION_ACTS_FOR)
			continue;
		if (said || e->revision != 1 || e->bytes.bytes_len != sizeof(guest->acts_for))
			return problem_set(p, EINVAL, "HELLO says in a way that makes no sense for which tenant it is");
		memcpy(&guest->acts_for, e->bytes.bytes_val, sizeof(guest->acts_for));
		said = true;
	}
	return said && gfid_is_null(&guest->acts_for)
		       ? problem_set(p, EINVAL, "HELLO says in a way that makes no sense for which tenant it is")
		       : 0;
}

static bool is_provider(const struct guest *guest)
{
	return guest->who.kind == IDENTITY_SERVER;
}

static bool takes_over(struct session *s, unsigned channel)
{
	bool yes;

	pthread_mutex_lock(&s->lock);
	yes = s->channel[channel] && s->channel[channel]->connection;
	pthread_mutex_unlock(&s->lock);
	return yes;
}

/* With server.lock held. What a tenant has, by whichever of its certificates, and may not have more of than `most` each. */
static bool has_its_share(struct server *server, const char *tenant, uint64_t most, bool new_session)
{
	uint64_t sessions = 0, connections = 0;

	for (struct session *s = server->sessions; s; s = s->next) {
		if (!is_tenant(&s->guest) || strcmp(s->guest.who.name, tenant))
			continue;
		sessions++;
		pthread_mutex_lock(&s->lock);
		connections += s->connections;
		pthread_mutex_unlock(&s->lock);
	}
	return connections >= most || (new_session && sessions >= most);
}

static bool same_guest(const struct guest *a, const struct guest *b)
{
	return !strcmp(a->identity, b->identity) && gfid_equal(&a->acts_for, &b->acts_for);
}

/* With server.lock held. Of a session that is there, or of a new one (NULL). */
static int check_room(struct server *server, struct session *s, unsigned channel, const struct guest *guest, struct problem *p)
{
	uint64_t most = server->max_connections, of_one = server->max_connections_of_one;
	uint64_t more = is_provider(guest) ? server_reserve(server) : 0;

	if (server->connection_count > most + more)
		return problem_set(p, EAGAIN, "there are as many connections as max-connections allows");
	if (!s && server->session_count >= most + more)
		return problem_set(p, EAGAIN, "there are as many sessions as max-connections allows");
	if (is_tenant(guest) && !(s && takes_over(s, channel)) &&
	    has_its_share(server, guest->who.name, of_one ? of_one : (most + 3) / 4, !s))
		return problem_set(p, EAGAIN,
				   "stratus:tenant/%s has as many connections or sessions as max-connections-of-one allows",
				   guest->who.name);
	return 0;
}

/* With server.lock held. */
static struct session *find_session(struct server *server, struct xlator *x, const struct wire_hello *h,
				    const struct guest *guest, struct problem *p)
{
	struct session *s = server->sessions;

	while (s && (s->subvolume != x || memcmp(s->client.id, h->client_id, sizeof(s->client.id))))
		s = s->next;
	if (s && (!same_secret(s->secret, h->secret) || !same_guest(&s->guest, guest)))
		return problem_set(p, EACCES, "another client has this client id"), NULL;
	if (s && is_confined(guest) &&
	    !gfid_equal(&s->guest.root, &guest->root)) /* both came at once, and it was moved in between */
		return problem_set(p, EAGAIN, "the session has another directory; try again"), NULL;
	if (check_room(server, s, h->channel, guest, p))
		return NULL;
	if (s)
		return s;
	s = session_create(server, x, h, guest);
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
	set_alone(s, 0);
	c->channel = h->channel;
	c->session = s;
	if (s->share)
		stream_count_queued(&c->stream, &s->share->queued);
	atomic_fetch_add(&s->refs, 1);
}

static struct session *attach(struct connection *c, struct xlator *x, const struct wire_hello *h, const struct guest *guest,
			      struct problem *p)
{
	struct server *server = c->server;
	struct connection *old = NULL;
	struct session *s = NULL;

	pthread_mutex_lock(&server->lock);
	if (c->closed)
		problem_set(p, ENOTCONN, "the connection is gone");
	else
		s = find_session(server, x, h, guest, p);
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

/* The handshake went by the files of its beginning, and while it lasted no sweep knew the certificate. From here on each does. */
static int identify(struct connection *c, struct guest *guest, struct problem *p)
{
	int err = c->server->tls ? stream_identity(&c->stream, guest->identity, sizeof(guest->identity)) : -ENOENT;

	if (c->server->tls && stream_is_refused(&c->stream, c->server->tls))
		return problem_set(
			p, EAGAIN,
			"by the files of TLS as they are now the certificate was revoked, has expired, or must be checked anew");
	if (err)
		*guest->identity = 0;
	identity_parse(guest->identity, &guest->who); /* it was when it was read */
	return !err || err == -ENOENT
		       ? 0
		       : problem_set(p, EACCES,
				     "the certificate names its owner (stratus:...) twice, or in a way that makes no sense");
}

/* A tenant gets a part, and here nobody cuts one off. */
static int admit_to_all(struct connection *c, struct guest *guest, struct problem *p)
{
	if (!gfid_is_null(&guest->acts_for))
		return problem_set(p, EACCES, "this brick's volume is not for tenants: nobody acts for one here");
	if (is_tenant(guest))
		return problem_set(p, EACCES,
				   "%s may not use this brick: its volume is not for tenants; mount one that has this tenant",
				   guest->identity);
	guest->inode = inode_get(c->server->x->inodes, &gfid_root, S_IFDIR);
	return guest->inode ? 0 : -ENOMEM;
}

/* Of the session that this is one more connection of: zeros, if there is none, or it is somebody else's, or over: the next begins with what its path leads to. */
static struct gfid root_before(struct server *server, struct xlator *x, const struct wire_hello *h, const struct guest *guest)
{
	struct gfid root = { { 0 } };

	pthread_mutex_lock(&server->lock);
	for (struct session *s = server->sessions; s; s = s->next)
		if (s->subvolume == x && !memcmp(s->client.id, h->client_id, sizeof(s->client.id)) &&
		    same_secret(s->secret, h->secret) && same_guest(&s->guest, guest)) {
			pthread_mutex_lock(&s->lock);
			root = s->ending ? root : s->guest.root;
			pthread_mutex_unlock(&s->lock);
		}
	pthread_mutex_unlock(&server->lock);
	return root;
}

/* Finds out who has come, and what he may have. */
static int admit(struct connection *c, struct xlator *x, const struct wire_hello *h, struct guest *guest, struct problem *p)
{
	struct xlator *gate = gate_of(x);
	struct client client = { .name = c->peer };
	int err = identify(c, guest, p);

	if (err)
		return err;
	client.identity = *guest->identity ? guest->identity : NULL;
	client.acts_for = guest->acts_for;
	if (is_confined(guest))
		client.root = root_before(c->server, x, h, guest);
	if (!gate)
		err = admit_to_all(c, guest, p);
	else
		err = gate->type->admit(gate, &client, &guest->inode, &guest->bearer);
	if (!err && !gfid_is_null(&guest->bearer.tenant) &&
	    !(leaf_of(x)->type->tenant_handle && leaf_of(x)->type->tenant_from_handle))
		err = -EOPNOTSUPP;
	if (err == -EACCES && gate)
		return problem_set(p, EACCES,
				   "%s may not use this brick: check its certificate, and that the tenant is not suspended",
				   client.identity ? client.identity : "a client without an identity");
	if (err == -ENOENT && guest->who.kind == IDENTITY_ACCESS)
		return problem_set(p, ENOENT,
				   "the directory of access point %s is not there: who made the access point may make it",
				   guest->who.access);
	if (!err)
		guest->root = guest->inode->gfid;
	if (!err && !gfid_is_null(&guest->bearer.tenant))
		guest->set = voucher_of(x);
	return err && !p->text[0] ? problem_set(p, -err, "the brick can't be used: %s", strerror(-err)) : err;
}

static int root_handle(struct xlator *x, const struct guest *guest, struct wire_welcome *w)
{
	uint32_t size = WIRE_HANDLE_MAX;
	int err = -ENOMEM;

	w->root.handle.wire_inode_val = malloc(WIRE_HANDLE_MAX);
	if (w->root.handle.wire_inode_val)
		err = server_put_inode(leaf_of(x), guest, guest->inode, (uint8_t *)w->root.handle.wire_inode_val, &size);
	w->root.handle.wire_inode_len = size;
	memcpy(w->root.gfid.bytes, gfid_root.bytes, sizeof(gfid_root.bytes));
	w->root.type = S_IFDIR;
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

/* Unless it is paused by now, as much is being done for its session. */
static void begin_reading(struct connection *c)
{
	const struct session_channel *ch;

	pthread_mutex_lock(&c->session->lock);
	ch = c->session->channel[c->channel];
	if (ch->connection != c || !ch->paused)
		stream_pause(&c->stream, false);
	pthread_mutex_unlock(&c->session->lock);
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
		connection_drop(c, "out of memory");
	else
		begin_reading(c);
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
	struct guest guest = { "" };
	int err = x ? take_acts_for(h, &guest, &p) : 0;

	if (x && !err)
		err = admit(c, x, h, &guest, &p);
	if (x && !err)
		err = root_handle(x, &guest, &w);
	if (err && !p.text[0])
		problem_set(&p, -err, "the brick can't be used: %s", strerror(-err));
	if (!p.text[0])
		s = attach(c, x, h, &guest, &p);
	if (s) {
		w.incarnation = s->client.incarnation;
		connection_ref(c);
		while (shard_call(c->shard, leave, c))
			sched_yield();
	}
	answer(c, &p, &w);
	free(w.root.handle.wire_inode_val);
	inode_unref(guest.inode);
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
