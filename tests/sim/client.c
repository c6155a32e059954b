/* SPDX-License-Identifier: Apache-2.0 */
/* sim/client: a brick on another machine, as protocol/client shows it, over the simulated network. */
#include <fcntl.h>

#include "away.h"
#include "message.h"
#include "sim.h"

enum { START_S = 3, CANCEL_WAIT_S = 10, HELLO_S = 1, PAUSE_FIRST_MS = 50, PAUSE_MAX_MS = 1000 };

struct handle {
	uint32_t size;
	uint8_t bytes[WIRE_HANDLE_MAX];
};
struct remote_file {
	struct remote_file *next, **link;
	struct file *file;
	uint64_t number, incarnation;
	bool stale;
};
enum state { DOWN, GREETING, RECOVERING, UP };
struct call {
	struct remote *remote;
	struct request *rq;
	int fop;
	const void *in;
	struct task *task;
	uint64_t id, incarnation, give_up_ns, current;
	struct message *reply;
	struct file *outdated;
	uint32_t flags;
	bool early, cancelled, lost, flying;
	struct call *next;
};
struct remote {
	int64_t brick;
	uint64_t max_wait_ms;
	bool wait_for_brick;

	struct xlator *x;
	struct node *self, *to;
	uint8_t client_id[16];
	enum state state;
	struct connection *connection;
	struct task *keeper;
	uint64_t incarnation, last_id;
	bool ever_recovered, answered;
	struct handle root;
	struct call *calls;
	struct remote_file *files;
	struct task_lock reopening;
};

static const struct option options[] = {
	{ "brick", OPTION_INT, OPTION_AT(struct remote, brick), NULL, "number of the brick's node", 0, BRICKS_MAX },
	{ "max-wait", OPTION_DURATION, OPTION_AT(struct remote, max_wait_ms), "5s", "as in protocol/client", 0, 86400000 },
	{ "wait-for-brick", OPTION_BOOL, OPTION_AT(struct remote, wait_for_brick), "on", "as in protocol/client" },
	{ NULL }
};

static uint8_t scratch[WIRE_XDR_MAX + 8] __attribute__((aligned(8)));

/* ---- codec ---- */

static struct remote *remote_of(struct codec *c)
{
	return ((struct call *)c->owner)->remote;
}

static int set_handle(struct remote *r, struct inode *inode, const void *bytes, uint32_t size)
{
	struct handle *h = inode_slot(inode, r->x);

	if (!h) {
		h = calloc(1, sizeof(*h));
		inode_slot_set(inode, r->x, h);
	}
	h->size = size;
	memcpy(h->bytes, bytes, size);
	return 0;
}

static int put_inode(struct codec *c, struct inode *inode, uint8_t *bytes, uint32_t *size)
{
	struct remote *r = remote_of(c);
	const struct handle *h = inode_slot(inode, r->x);

	if (gfid_equal(&inode->gfid, &gfid_root)) /* another disk has another */
		h = &r->root;
	if (!h || !h->size)
		return -ESTALE;
	memcpy(bytes, h->bytes, h->size);
	*size = h->size;
	return 0;
}

static int make_inode(struct codec *c, const struct gfid *gfid, uint32_t type, const uint8_t *bytes, uint32_t size,
		      struct inode **inode)
{
	struct remote *r = remote_of(c);

	*inode = inode_get(r->x->inodes, gfid, type);
	return *inode ? set_handle(r, *inode, bytes, size) : -EIO;
}

static int put_file(struct codec *c, struct file *file, uint64_t *number)
{
	struct call *call = c->owner;
	struct remote_file *f = file_slot(file, call->remote->x);

	if (!f)
		return -EBADF;
	*number = f->number;
	if (f->stale)
		return -ESTALE;
	if (f->incarnation == call->remote->incarnation)
		return 0;
	call->outdated = file;
	call->current = call->remote->incarnation;
	return -EUNATCH;
}

static int make_file(struct codec *c, uint64_t number, struct inode *inode, uint32_t flags, struct file **file)
{
	struct call *call = c->owner;
	struct remote *r = call->remote;
	struct remote_file *f = calloc(1, sizeof(*f));

	*file = file_create(inode, flags);
	*f = (struct remote_file){ r->files, &r->files, *file, number, call->incarnation, false };
	if (f->next)
		f->next->link = &f->next;
	r->files = f;
	return file_slot_set(*file, r->x, f);
}

static const struct codec_ops client_codec = {
	.put_inode = put_inode, .make_inode = make_inode, .put_file = put_file, .make_file = make_file
};

/* ---- calls: see protocol/client/channel.c, whose rules these are ---- */

static void wake_all(struct remote *r)
{
	for (struct call *c = r->calls; c; c = c->next)
		task_wake(c->task);
}

static void set_state(struct remote *r, enum state state)
{
	r->state = state;
	for (struct call *c = r->calls; c && state == DOWN; c = c->next)
		if (c->flying) {
			c->flying = false;
			c->lost = true;
		}
	wake_all(r);
}

static bool usable(const struct remote *r, const struct call *call)
{
	return r->state == UP || (call->early && r->state == RECOVERING);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

static uint64_t own_deadline(const struct call *call)
{
	return fop_info[call->fop].flags & FOP_WAITS ? NO_DEADLINE : call->rq->deadline_ns;
}

static int wait_usable(struct remote *r, struct call *call)
{
	int err = 0;

	while (!err && !usable(r, call)) {
		if (call->early)
			return -ENOTCONN;
		if (!call->give_up_ns)
			call->give_up_ns = clock_ns() + r->max_wait_ms * MS;
		err = task_wait(earlier(own_deadline(call), call->give_up_ns));
		if (err == -ETIMEDOUT && !usable(r, call))
			err = -ENOTCONN;
	}
	return err;
}

static bool appends(int fop, const void *in)
{
	return fop == FOP_write && ((const struct write_in *)in)->flags & WRITE_APPEND;
}

/* The bulk part, as one buffer of its own. */
static struct buffer *gather(const struct codec *c)
{
	struct buffer *all = c->bulk_size ? buffer_create(c->bulk_size) : NULL;
	size_t at = 0;

	for (unsigned i = 0; i < c->buffers; i++) {
		memcpy(all->data + at, c->buffer[i]->data, c->buffer[i]->size);
		at += c->buffer[i]->size;
	}
	return all;
}

/* Answers to calls before this one need not be kept by the brick. */
static uint64_t oldest_call(const struct remote *r)
{
	uint64_t oldest = UINT64_MAX;

	for (const struct call *c = r->calls; c; c = c->next)
		oldest = c->id < oldest ? c->id : oldest;
	return oldest;
}

static int send_call(struct remote *r, struct call *call)
{
	struct codec c;
	uint64_t oldest = oldest_call(r);
	uint32_t fop = (uint32_t)call->fop;
	int err;

	if (call->incarnation) {
		call->flags |= WIRE_RESENT;
		if (call->incarnation != r->incarnation) {
			call->flags |= WIRE_SESSION_LOST;
			if (appends(call->fop, call->in))
				return -EIO; /* protocol/client may find out that it was not done; nobody counts on that */
		}
	} else if (call->rq->resent) {
		call->flags |= WIRE_SESSION_LOST;
	}
	memcpy(scratch, &fop, 4);
	memcpy(scratch + 8, &oldest, 8);
	codec_init(&c, XDR_ENCODE, scratch + 16, WIRE_XDR_MAX - 16, &client_codec, call);
	err = call_head(&c, call->rq, &call->flags);
	if (!err)
		err = codec_args(&c, call->fop, (void *)call->in);
	if (err)
		return err;
	call->incarnation = r->incarnation;
	call->lost = false;
	call->flying = true;
	call->give_up_ns = 0;
	if (r->self->hold_points && away_concerns(call->fop, call->in) && !--r->self->hold_points)
		net_hold(r->connection, call->id);
	message_send(r->connection, true, MESSAGE_CALL, call->id, scratch, 16 + codec_used(&c), gather(&c));
	return 0;
}

static void send_cancel(struct remote *r, struct call *call)
{
	if (r->connection && call->flying)
		message_send(r->connection, true, MESSAGE_CANCEL, call->id, NULL, 0, NULL);
}

static int wait_reply(struct remote *r, struct call *call)
{
	uint64_t deadline = own_deadline(call);
	int err = 0;

	while (!call->reply && !call->lost && !err) {
		err = task_wait(deadline);
		if (err == -ECANCELED && !call->cancelled) {
			call->cancelled = true;
			task_shield(true);
			send_cancel(r, call);
			deadline = clock_ns() + CANCEL_WAIT_S * S;
			err = 0;
		}
	}
	if (call->reply)
		return 0;
	if (err == -ETIMEDOUT && !call->cancelled)
		send_cancel(r, call);
	return err ? call->cancelled ? -ECANCELED : err : -EAGAIN;
}

static int exchange(struct remote *r, struct call *call)
{
	int err = -EAGAIN;

	while (err == -EAGAIN) {
		err = wait_usable(r, call);
		if (!err)
			err = send_call(r, call);
		if (!err)
			err = wait_reply(r, call);
	}
	call->flying = false;
	return err;
}

static int decode(struct call *call, void *out)
{
	struct message *m = call->reply;
	struct codec c;
	int status = 0, err;

	codec_init(&c, XDR_DECODE, m->bytes, m->size, &client_codec, call);
	c.bulk = m->bulk;
	err = reply_head(&c, &status, &call->rq->reply_extensions);
	if (!err && status)
		return status;
	if (!err)
		err = codec_result(&c, call->fop, call->in, out);
	if (err == -EBADMSG)
		sim_fail("the brick's answer to %s makes no sense", fop_name(call->fop));
	return err;
}

static int remote_call(struct remote *, struct request *, int fop, const void *in, void *out, bool early, uint64_t *session);

static int open_again(struct remote *r, bool early, struct file *file, uint64_t *number, uint64_t *session)
{
	bool directory = S_ISDIR(file->inode->type);
	struct open_in in = { file->inode, file->flags & ~(uint32_t)(O_CREAT | O_EXCL | O_TRUNC) };
	struct opendir_in in_dir = { file->inode };
	union fop_out out = { 0 };
	struct request rq;
	int err;

	request_init(&rq, r->x->graph, 0);
	rq.group_count = 0;
	err = remote_call(r, &rq, directory ? FOP_opendir : FOP_open, directory ? (void *)&in_dir : &in, &out, early, session);
	request_finish(&rq);
	if (err)
		return err;
	*number = ((struct remote_file *)file_slot(out.open.file, r->x))->number;
	file_unref(out.open.file);
	return 0;
}

static bool passing(int err)
{
	return err == -ENOTCONN || err == -ECANCELED || err == -ETIMEDOUT || err == -ENOMEM;
}

static int reopen(struct remote *r, bool early, struct file *file, uint64_t incarnation)
{
	struct remote_file *f = file_slot(file, r->x);
	uint64_t number = 0, session = incarnation;
	int err;

	if (f->stale || f->incarnation == incarnation)
		return 0;
	err = open_again(r, early, file, &number, &session);
	if (passing(err))
		return err;
	f->number = number;
	f->incarnation = session;
	f->stale = err;
	if (err)
		event_up(r->x, &(struct event){ .kind = EVENT_STALE_FILE, .inode = file->inode });
	return 0;
}

static int reopen_alone(struct remote *r, struct call *call)
{
	int err;

	if (call->early)
		return reopen(r, true, call->outdated, call->current);
	err = task_lock(&r->reopening, NO_DEADLINE);
	if (err)
		return err;
	err = reopen(r, false, call->outdated, call->current);
	task_unlock(&r->reopening);
	return err;
}

static void unlist(struct call *call)
{
	struct call **at = &call->remote->calls;

	while (*at != call)
		at = &(*at)->next;
	*at = call->next;
}

static void call_crash_point(const struct remote *r, int fop, const void *in)
{
	if (!r->self->crash_in_away || away_concerns(fop, in))
		crash_point();
}

static void tell(const struct remote *r, const struct request *rq, int fop, const void *in, int err)
{
	char text[400];

	if (!verbose || !verbose_calls || fop == FOP_statfs || fop == FOP_replica)
		return;
	fop_in_print(fop, in, text, sizeof(text));
	fprintf(stderr, "%10.6f %s to %s: %llu %s(%s)%s = %d\n", (double)(sim_now() - S) / (double)S, r->self->name,
		r->to->name, (unsigned long long)rq->id, fop_name(fop), text, rq->resent ? " again" : "", err);
}

static int remote_call(struct remote *r, struct request *rq, int fop, const void *in, void *out, bool early, uint64_t *session)
{
	struct call call = { .remote = r, .rq = rq, .fop = fop, .in = in, .task = task_self(), .early = early };
	int err;

	call_crash_point(r, fop, in);
	call.id = ++r->last_id;
	call.next = r->calls;
	r->calls = &call;
	while ((err = exchange(r, &call)) == -EUNATCH) {
		err = reopen_alone(r, &call);
		if (err)
			break;
	}
	unlist(&call);
	if (!err)
		err = decode(&call, out);
	if (err == -ENODATA && call.flags & WIRE_SESSION_LOST && fop == FOP_removexattr)
		err = 0;
	if (session)
		*session = call.incarnation;
	if (call.reply) {
		buffer_unref(call.reply->bulk);
		free(call.reply);
	}
	if (call.cancelled)
		task_shield(false);
	tell(r, rq, fop, in, err);
	call_crash_point(r, fop, in);
	return err;
}

/* ---- connecting ---- */

static int recover_files(struct remote *r)
{
	struct file *list[1024];
	unsigned count = 0;
	int err = 0;

	for (struct remote_file *f = r->files; f && count < 1024; f = f->next)
		if (f->file->refs)
			list[count++] = file_ref(f->file);
	for (unsigned i = 0; i < count; i++) {
		if (!err)
			err = reopen(r, true, list[i], r->incarnation);
		file_unref(list[i]);
	}
	return err;
}

static bool connect_once(struct remote *r)
{
	uint64_t before = r->incarnation, until = clock_ns() + HELLO_S * S;

	r->connection = connection_create(r, r->self, r->to);
	set_state(r, GREETING);
	r->answered = false;
	message_send(r->connection, true, MESSAGE_HELLO, 0, r->client_id, sizeof(r->client_id), NULL);
	while (r->connection && r->state == GREETING)
		if (task_wait(until) == -ETIMEDOUT)
			break;
	r->answered = true;
	if (!r->connection || r->state != RECOVERING)
		return false;
	if (before && before != r->incarnation && recover_files(r))
		return false;
	return r->connection && r->state == RECOVERING;
}

static void disconnect(struct remote *r)
{
	struct connection *c = r->connection;

	r->connection = NULL;
	if (c && c->client_open) {
		c->client_open = false;
		connection_break(c);
	}
	if (r->state != DOWN)
		set_state(r, DOWN);
}

static void keeper_run(void *arg)
{
	struct remote *r = arg;
	uint64_t pause = PAUSE_FIRST_MS;

	r->keeper = task_self();
	for (;;) {
		bool up = connect_once(r);

		if (up) {
			trace("connected to %s, incarnation %llu", r->to->name, (unsigned long long)r->incarnation);
			pause = PAUSE_FIRST_MS;
			set_state(r, UP);
			event_up(r->x, &(struct event){ .kind = EVENT_CHILD_UP });
			while (r->state == UP)
				task_wait(NO_DEADLINE);
		}
		disconnect(r);
		if (up) {
			trace("connection to %s lost", r->to->name);
			event_up(r->x, &(struct event){ .kind = EVENT_CHILD_DOWN });
		}
		task_sleep_ms(chance_between(CHANCE_NET, pause / 2, pause));
		pause = pause * 2 < PAUSE_MAX_MS ? pause * 2 : PAUSE_MAX_MS;
	}
}

/* ---- what comes in, on the loop ---- */

void client_lost(struct connection *c)
{
	struct remote *r = c->remote;

	if (r->connection != c)
		return;
	r->connection = NULL;
	set_state(r, DOWN);
	task_wake(r->keeper);
}

static void got_welcome(struct remote *r, struct message *m)
{
	uint64_t incarnation;

	memcpy(&incarnation, m->bytes, 8);
	r->incarnation = incarnation;
	r->root.size = m->size - 8;
	memcpy(r->root.bytes, m->bytes + 8, r->root.size);
	set_state(r, RECOVERING);
	task_wake(r->keeper);
}

static void got_reply(struct remote *r, struct message *m)
{
	struct call *call = r->calls;

	while (call && call->id != m->id)
		call = call->next;
	if (!call || !call->flying)
		return;
	call->reply = malloc(sizeof(*m) + m->size);
	memcpy(call->reply, m, sizeof(*m) + m->size);
	call->reply->bulk = m->bulk ? buffer_ref(m->bulk) : NULL;
	call->flying = false;
	task_wake(call->task);
}

static void got_event(struct remote *r, struct message *m)
{
	struct call none = { .remote = r };
	struct event e = { 0 };
	struct codec c;
	uint32_t kind;

	codec_init(&c, XDR_DECODE, m->bytes, m->size, &client_codec, &none);
	if (!xdr_u_int(&c.xdr, &kind) || !codec_new_inode(&c, &e.inode) || !codec_lock(&c, &e.lock))
		return;
	e.kind = kind;
	event_up(r->x, &e);
	inode_unref(e.inode);
}

void client_got(struct message *m)
{
	struct remote *r = m->connection->remote;

	if (r->connection != m->connection)
		return;
	switch (m->kind) {
	case MESSAGE_WELCOME:
		if (r->state == GREETING)
			got_welcome(r, m);
		break;
	case MESSAGE_REPLY:
		got_reply(r, m);
		break;
	case MESSAGE_EVENT:
		if (r->state == UP)
			got_event(r, m);
		break;
	case MESSAGE_REFUSED:
		client_lost(m->connection);
		break;
	}
}

/* ---- the translator ---- */

static int client_init(struct xlator *x, struct problem *p)
{
	struct remote *r = x->private;
	struct gfid id;

	(void)p;
	gfid_create(&id);
	memcpy(r->client_id, id.bytes, sizeof(r->client_id));
	r->x = x;
	return 0;
}

static int client_start(struct xlator *x, struct problem *p)
{
	struct remote *r = x->private;
	uint64_t until = clock_ns() + START_S * S;
	int err;

	r->self = node_self();
	r->to = node_brick((unsigned)r->brick);
	err = task_spawn(NULL, keeper_run, r);
	while (!err && r->state != UP && clock_ns() < until && !(r->wait_for_brick && r->answered))
		task_sleep_ms(2);
	if (!err && r->state != UP && !r->wait_for_brick)
		return problem_set(p, ENOTCONN, "volume %s: the brick does not answer", x->name);
	return err;
}

static int client_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	return remote_call(x->private, rq, (int)fop, in, out, false, NULL);
}

static int client_release(struct request *rq, struct xlator *x, const struct release_in *in, struct release_out *out)
{
	struct remote *r = x->private;
	struct remote_file *f = file_slot(in->file, x);

	if (f && !f->stale && !(r->state == UP && f->incarnation != r->incarnation))
		remote_call(r, rq, FOP_release, in, out, false, NULL);
	if (f)
		f->stale = true;
	return 0;
}

static void client_forget_inode(struct xlator *x, struct inode *inode, void *slot)
{
	(void)x, (void)inode;
	free(slot);
}

static void client_forget_file(struct xlator *x, struct file *file, void *slot)
{
	struct remote_file *f = slot;

	(void)x, (void)file;
	*f->link = f->next;
	if (f->next)
		f->next->link = f->link;
	free(f);
}

const struct xlator_type sim_client_type = {
	.api = STRATUS_API_VERSION,
	.name = "sim/client",
	.summary = "a brick on another simulated machine",
	.options = options,
	.private_size = sizeof(struct remote),
	.init = client_init,
	.start = client_start,
	.forget_inode = client_forget_inode,
	.forget_file = client_forget_file,
	.any = client_any,
	.release = client_release,
};
