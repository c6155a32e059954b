/* SPDX-License-Identifier: Apache-2.0 */
/* sim/server: what protocol/server does for the brick below it: sessions, their files, calls that are done once, events. */
#include <endian.h>

#include "message.h"
#include "sim.h"

enum { FILES_MAX = 1024 };

struct work { /* a call, being done or done */
	struct session *session;
	struct message *call, *reply; /* reply: kept, once done */
	struct task *task;
	bool done, cancelled, keep;
	struct work *next;
};
struct session {
	struct client client; /* first */
	char name[32];
	struct server *server;
	struct connection *connection; /* NULL: alone */
	struct file *file[FILES_MAX];
	uint32_t turn[FILES_MAX];
	struct work *works;
	unsigned running, alone; /* alone: counts the times it was left */
	bool ending;
	struct session *next;
};
struct server {
	uint64_t session_timeout_ms;
	struct xlator *x, *leaf;
	struct node *self;
	struct session *sessions;
	uint64_t incarnations;
};

static const struct option options[] = { { "session-timeout", OPTION_DURATION, OPTION_AT(struct server, session_timeout_ms),
					   "10s", "as in protocol/server" },
					 { NULL } };

static uint8_t scratch[WIRE_XDR_MAX + 8] __attribute__((aligned(8)));

/* ---- codec ---- */

struct doing {
	struct session *session;
	struct xlator *leaf;
	uint64_t number;
};

static int put_inode(struct codec *c, struct inode *inode, uint8_t *handle, uint32_t *size)
{
	struct xlator *leaf = ((struct doing *)c->owner)->leaf;
	size_t room = *size;
	int err = leaf->type->inode_handle(leaf, inode, handle, &room);

	*size = (uint32_t)room;
	return err;
}

static int take_inode(struct codec *c, const uint8_t *handle, uint32_t size, struct inode **inode)
{
	struct xlator *leaf = ((struct doing *)c->owner)->leaf;

	return leaf->type->inode_from_handle(leaf, handle, size, inode);
}

static int take_file(struct codec *c, uint64_t number, struct file **file)
{
	struct doing *d = c->owner;
	uint32_t at = (uint32_t)number - 1;

	d->number = number;
	if (at >= FILES_MAX || !d->session->file[at] || d->session->turn[at] != number >> 32)
		return -EBADF;
	*file = file_ref(d->session->file[at]);
	return 0;
}

static int add_file(struct codec *c, struct file *file, uint64_t *number)
{
	struct session *s = ((struct doing *)c->owner)->session;

	for (uint32_t i = 0; i < FILES_MAX; i++)
		if (!s->file[i]) {
			s->file[i] = file_ref(file);
			*number = (uint64_t)s->turn[i] << 32 | (i + 1);
			return 0;
		}
	return -ENFILE;
}

static void remove_file(struct session *s, uint64_t number)
{
	uint32_t at = (uint32_t)number - 1;

	if (at >= FILES_MAX || !s->file[at] || s->turn[at] != number >> 32)
		return;
	file_unref(s->file[at]);
	s->file[at] = NULL;
	s->turn[at]++;
}

static const struct codec_ops server_codec = {
	.put_inode = put_inode, .take_inode = take_inode, .take_file = take_file, .add_file = add_file
};

/* ---- a call: see protocol/server/work.c, whose rules these are ---- */

static bool keeps(int fop)
{
	unsigned flags = fop_info[fop].flags;

	return !(flags & FOP_IDEMPOTENT) || flags & FOP_MUTATES || fop == FOP_release || fop == FOP_flush;
}

static struct message *message_copy(const struct message *m)
{
	struct message *copy = malloc(sizeof(*m) + m->size);

	memcpy(copy, m, sizeof(*m) + m->size);
	copy->bulk = m->bulk ? buffer_ref(m->bulk) : NULL;
	return copy;
}

static void send_reply(struct session *s, const struct message *m)
{
	if (s->connection && s->connection->brick_open)
		message_send(s->connection, false, MESSAGE_REPLY, m->id, m->bytes, m->size,
			     m->bulk ? buffer_ref(m->bulk) : NULL);
}

static struct message *message_of(uint64_t id, uint32_t size, struct buffer *bulk)
{
	struct message *m = calloc(1, sizeof(*m) + size);

	m->id = id;
	m->size = size;
	m->bulk = bulk;
	memcpy(m->bytes, scratch, size);
	return m;
}

static struct message *encode(struct doing *d, struct request *rq, uint64_t id, int fop, int status, const void *in, void *out)
{
	struct codec c;
	int err;

	if (status < -ELAST || status > 0)
		status = -EIO;
	codec_init(&c, XDR_ENCODE, scratch, WIRE_XDR_MAX, &server_codec, d);
	err = reply_head(&c, &status, &rq->reply_extensions);
	if (!err && !status)
		err = codec_result(&c, fop, in, out);
	if (err) {
		c.buffers = 0;
		codec_init(&c, XDR_ENCODE, scratch, WIRE_XDR_MAX, &server_codec, d);
		reply_head(&c, &err, &rq->reply_extensions);
	}
	return message_of(id, codec_used(&c), c.buffers ? buffer_copy(c.buffer[0]) : NULL);
}

static struct message *do_fop(struct work *w, struct doing *d, struct request *rq, int fop, void *in)
{
	struct message *reply;
	union fop_out out;
	int err;

	memset(&out, 0, fop_info[fop].out_size);
	if (rq->resent && fop == FOP_write && ((const struct write_in *)in)->flags & WRITE_APPEND)
		err = -EIO;
	else
		err = fop_call(rq, d->session->server->x->child[0], fop, in, &out);
	if (fop == FOP_release)
		remove_file(d->session, d->number);
	reply = encode(d, rq, w->call->id, fop, err, in, &out);
	if (!err)
		fop_out_clear(fop, &out);
	return reply;
}

static int decode(struct work *w, struct doing *d, struct request *rq, int fop, void *in)
{
	uint64_t id = rq->id;
	uint32_t flags = 0;
	struct codec c;
	int err;

	codec_init(&c, XDR_DECODE, w->call->bytes + 16, w->call->size - 16, &server_codec, d);
	c.bulk = w->call->bulk;
	err = call_head(&c, rq, &flags);
	rq->id = id; /* it is in a list by its number */
	rq->resent = flags & WIRE_SESSION_LOST;
	return err ? err : codec_args(&c, fop, in);
}

static void session_finish(struct session *);

static void work_run(void *arg)
{
	struct work *w = arg;
	struct session *s = w->session;
	struct doing d = { s, s->server->leaf, 0 };
	struct message *reply;
	struct request rq;
	union fop_in in;
	uint64_t id;
	uint32_t fop;
	int err;

	memcpy(&fop, w->call->bytes, 4);
	w->task = task_self();
	if (w->cancelled)
		task_cancel(w->task);
	memcpy(&id, w->call->bytes + 16, 8); /* what call_head begins with */
	request_init(&rq, s->server->x->graph, be64toh(id));
	rq.client = &s->client;
	memset(&in, 0, fop_info[fop].in_size);
	err = decode(w, &d, &rq, (int)fop, &in);
	if (err == -EBADMSG)
		sim_fail("a call of %s makes no sense to the brick", fop_name((int)fop));
	reply = err ? encode(&d, &rq, w->call->id, (int)fop, err, &in, NULL) : do_fop(w, &d, &rq, (int)fop, &in);
	if (!err)
		fop_in_clear((int)fop, &in);
	request_finish(&rq);
	w->task = NULL;
	w->done = true;
	w->reply = reply;
	buffer_unref(w->call->bulk);
	free(w->call);
	w->call = NULL;
	send_reply(s, reply);
	s->running--;
	if (s->ending && !s->running)
		session_finish(s);
}

static void drop_kept(struct session *s, uint64_t before)
{
	struct work **at = &s->works, *w;

	while ((w = *at)) {
		if (!w->done || w->reply->id >= before) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		buffer_unref(w->reply->bulk);
		free(w->reply);
		free(w);
	}
}

static unsigned counts[FOP_COUNT], counts_from[NODES_MAX];

void server_print_counts(FILE *to)
{
	for (int fop = 1; fop < FOP_COUNT; fop++)
		if (counts[fop])
			fprintf(to, " %s %u", fop_name(fop), counts[fop]);
	for (unsigned i = 0; i < nodes; i++)
		if (counts_from[i])
			fprintf(to, ", from %s %u", node[i].name, counts_from[i]);
	fputc('\n', to);
}

static void got_call(struct session *s, struct message *m)
{
	struct work *w;
	uint64_t oldest;
	uint32_t fop;

	memcpy(&fop, m->bytes, 4);
	memcpy(&oldest, m->bytes + 8, 8);
	counts[fop]++;
	counts_from[m->connection->client - node]++;
	drop_kept(s, oldest);
	w = s->works;
	while (w && (w->done ? w->reply->id : w->call->id) != m->id)
		w = w->next;
	if (w && !w->done)
		return; /* the answer goes to the connection that there is then */
	if (w && w->keep) {
		send_reply(s, w->reply);
		return;
	}
	if (!w) {
		w = calloc(1, sizeof(*w));
		w->next = s->works;
		s->works = w;
	} else {
		buffer_unref(w->reply->bulk);
		free(w->reply);
	}
	*w = (struct work){ .session = s, .call = message_copy(m), .keep = keeps((int)fop), .next = w->next };
	s->running++;
	task_spawn(NULL, work_run, w);
}

static void got_cancel(struct session *s, uint64_t id)
{
	for (struct work *w = s->works; w; w = w->next)
		if (!w->done && w->call->id == id) {
			w->cancelled = true;
			if (w->task)
				task_cancel(w->task);
		}
}

/* ---- sessions ---- */

static void tell_gone(struct xlator *x, const struct client *client)
{
	if (x->type->client_gone)
		x->type->client_gone(x, client);
	for (int i = 0; i < x->children; i++)
		tell_gone(x->child[i], client);
}

static void gone(void *arg)
{
	struct session *s = arg;

	tell_gone(s->server->x->child[0], &s->client);
	for (uint32_t i = 0; i < FILES_MAX; i++)
		file_unref(s->file[i]);
	trace("session of %s ended", s->name);
}

static void session_finish(struct session *s)
{
	struct session **at = &s->server->sessions;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	task_spawn(NULL, gone, s);
}

static void session_end(struct session *s)
{
	s->ending = true;
	for (struct work *w = s->works; w; w = w->next)
		if (!w->done) {
			w->cancelled = true;
			if (w->task)
				task_cancel(w->task);
		}
	if (!s->running)
		session_finish(s);
}

struct sweep {
	struct session *session;
	unsigned alone;
};

static void sweep(void *arg)
{
	struct sweep sw = *(struct sweep *)arg;

	free(arg);
	if (!sw.session->connection && sw.session->alone == sw.alone && !sw.session->ending)
		session_end(sw.session);
}

void server_lost(struct connection *c)
{
	struct session *s = c->session;
	struct sweep *sw;

	if (!s || s->connection != c)
		return;
	s->connection = NULL;
	atomic_store(&s->client.alone_since_ns, clock_ns());
	sw = malloc(sizeof(*sw));
	*sw = (struct sweep){ s, ++s->alone };
	sim_after(s->server->self, s->server->session_timeout_ms * MS, sweep, sw);
}

/* As its certificate says. */
static const char *identity_of(const struct node *n)
{
	if (!plan.tenants)
		return NULL;
	return n->kind != NODE_CLIENT ? "stratus:server" : n == node_liar() ? "stratus:tenant/globex" : "stratus:tenant/acme";
}

static struct session *session_of(struct server *server, const struct message *m)
{
	struct session *s = server->sessions;

	while (s && memcmp(s->client.id, m->bytes, sizeof(s->client.id)))
		s = s->next;
	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	memcpy(s->client.id, m->bytes, sizeof(s->client.id));
	s->client.incarnation = chance(CHANCE_RANDOM) | 1;
	s->client.name = s->name;
	snprintf(s->name, sizeof(s->name), "%s", m->connection->client->name);
	s->client.identity = identity_of(m->connection->client);
	atomic_store(&s->client.refs, 1);
	s->server = server;
	s->next = server->sessions;
	server->sessions = s;
	return s;
}

static void greet(struct server *server, struct message *m)
{
	struct session *s = session_of(server, m);
	struct inode *root = inode_get(server->x->inodes, &gfid_root, S_IFDIR);
	size_t size = WIRE_HANDLE_MAX;
	uint8_t bytes[8 + WIRE_HANDLE_MAX];
	int err = server->leaf->type->inode_handle(server->leaf, root, bytes + 8, &size);

	inode_unref(root);
	if (err || s->ending) { /* asked again by and by */
		message_send(m->connection, false, MESSAGE_REFUSED, 0, NULL, 0, NULL);
		return;
	}
	if (s->connection)
		s->connection->brick_open = false;
	s->connection = m->connection;
	atomic_store(&s->client.alone_since_ns, 0);
	s->alone++;
	m->connection->session = s;
	memcpy(bytes, &s->client.incarnation, 8);
	message_send(m->connection, false, MESSAGE_WELCOME, 0, bytes, 8 + (uint32_t)size, NULL);
}

void server_got(struct message *m)
{
	struct server *server = m->to->server;
	struct session *s = m->connection->session;

	if (!server || !m->to->ready) {
		message_send(m->connection, false, MESSAGE_REFUSED, 0, NULL, 0, NULL);
	} else if (m->kind == MESSAGE_HELLO) {
		greet(server, m);
	} else if (s && s->connection == m->connection && !s->ending) {
		if (m->kind == MESSAGE_CALL)
			got_call(s, m);
		else
			got_cancel(s, m->id);
	}
}

/* ---- the translator ---- */

static struct xlator *leaf_of(struct xlator *x)
{
	while (!x->type->inode_handle && x->children)
		x = x->child[0];
	return x;
}

static int server_start(struct xlator *x, struct problem *p)
{
	struct server *server = x->private;

	(void)p;
	server->x = x;
	server->leaf = leaf_of(x);
	server->self = node_self();
	server->self->server = server;
	return 0;
}

static void server_notify(struct xlator *x, struct xlator *from, const struct event *e)
{
	struct server *server = x->private;
	struct doing d = { NULL, leaf_of(from), 0 };
	uint32_t kind = e->kind;
	struct inode *inode = e->inode;
	struct lock lock = e->lock;
	struct codec c;

	codec_init(&c, XDR_ENCODE, scratch, WIRE_XDR_MAX, &server_codec, &d);
	if (!xdr_u_int(&c.xdr, &kind) || !codec_new_inode(&c, &inode) || !codec_lock(&c, &lock))
		return;
	for (struct session *s = server->sessions; s; s = s->next)
		if ((!e->client || e->client == &s->client) && s->connection && s->connection->brick_open)
			message_send(s->connection, false, MESSAGE_EVENT, 0, scratch, codec_used(&c), NULL);
}

const struct xlator_type sim_server_type = {
	.api = STRATUS_API_VERSION,
	.name = "sim/server",
	.summary = "gives a brick to other simulated machines",
	.options = options,
	.private_size = sizeof(struct server),
	.min_children = 1,
	.max_children = 1,
	.start = server_start,
	.notify = server_notify,
};
