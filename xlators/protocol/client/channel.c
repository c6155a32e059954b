/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on a channel: slots, encoding, waiting for the answer, sending again after the connection was lost. */
#include <fcntl.h>

#include "client.h"

enum { APPEND_UNSURE = EUCLEAN }; /* inside here: was it done in the session that is lost? */
/* EARLY_SLOT: nobody but the keeper uses it, one call after the other. All others may be taken by calls that wait for the keeper. */
enum { ROOM_FIRST = 4096, NO_SLOT = UINT32_MAX, EARLY_SLOT = WIRE_SLOTS - 1, CANCEL_WAIT_S = 10 };

struct call { /* on the stack of the task that makes it */
	struct channel *channel;
	struct request *rq;
	int fop;
	const void *in;
	struct task *task;
	struct call *next; /* in channel.waiting, or locks_waiting */
	bool queued, early, cancelled, lost;
	uint32_t slot, xid, flags;
	uint64_t incarnation; /* of the session it was last sent in; 0: not yet sent */
	uint64_t give_up_ns;  /* while there is no connection */
	uint64_t early_ns;    /* of an early one: when its connection is given up, as for a ping */
	struct record *reply;
	struct file *outdated; /* what kept it from being encoded: a file of an earlier session */
	uint64_t current;      /* and the session there is now */
};

/* ---- codec ---- */

static int put_inode(struct codec *c, struct inode *inode, uint8_t *handle, uint32_t *size)
{
	struct remote *r = ((struct call *)c->owner)->channel->remote;
	struct remote_inode *i = remote_inode_of(r, inode);

	if (!i)
		return -ESTALE; /* not looked up through this brick */
	pthread_mutex_lock(&i->lock);
	memcpy(handle, i->handle, i->size);
	*size = i->size;
	pthread_mutex_unlock(&i->lock);
	return 0;
}

static int make_inode(struct codec *c, const struct gfid *gfid, uint32_t type, const uint8_t *handle, uint32_t size,
		      struct inode **inode)
{
	struct remote *r = ((struct call *)c->owner)->channel->remote;

	*inode = inode_get(r->x->inodes, gfid, type);
	if (!*inode)
		return -EIO;
	if (remote_inode(r, *inode, handle, size))
		return 0;
	inode_unref(*inode);
	*inode = NULL;
	return -ENOMEM;
}

static int put_file(struct codec *c, struct file *file, uint64_t *number)
{
	struct call *call = c->owner;
	struct remote *r = call->channel->remote;
	struct remote_file *f = file_slot(file, r->x);
	int err = 0;

	if (!f)
		return -EBADF;
	pthread_mutex_lock(&r->lock);
	*number = f->number;
	if (f->stale)
		err = -ESTALE;
	else if (f->incarnation != call->channel->incarnation)
		err = -EUNATCH;
	pthread_mutex_unlock(&r->lock);
	if (err == -EUNATCH) {
		call->outdated = file;
		call->current = call->channel->incarnation;
	}
	return err;
}

static int make_file(struct codec *c, uint64_t number, struct inode *inode, uint32_t flags, struct file **file)
{
	struct call *call = c->owner;
	int err;

	*file = file_create(inode, flags);
	if (!*file)
		return -ENOMEM;
	err = remote_file_add(call->channel->remote, *file, number, call->incarnation);
	if (err) {
		file_unref(*file);
		*file = NULL;
	}
	return err;
}

const struct codec_ops client_codec = {
	.put_inode = put_inode, .make_inode = make_inode, .put_file = put_file, .make_file = make_file
};

/* ---- slots and waiting; with channel.lock held ---- */

static struct slot *slot_at(struct channel *ch, uint32_t slot)
{
	return slot < WIRE_SLOTS ? &ch->slot[slot] : &ch->wait_slot[slot - WIRE_SLOTS];
}

/* Neither a lock that is given back nor one that is tried waits for others, so neither has to wait for one of the places of those that do. After the brick has begun anew,
 * though, one that is tried has no answer before all clients are back; as it keeps a place so long, it takes one of those as long as there are any. */
enum lock_call { NO_LOCK, GIVEN_BACK, TRIED, WAITED_FOR };

static enum lock_call lock_call_of(const struct call *call)
{
	const struct setlk_in *set = call->in;

	if (call->fop != FOP_setlk)
		return NO_LOCK;
	return set->lock.type == F_UNLCK ? GIVEN_BACK : set->lock.wait ? WAITED_FOR : TRIED;
}

static struct call_queue *queue_of(struct channel *ch, const struct call *call)
{
	return lock_call_of(call) == WAITED_FOR ? &ch->locks_waiting : &ch->waiting;
}

static bool take_wait_slot(struct channel *ch, struct call *call)
{
	if (ch->wait_taken == WIRE_WAIT_SLOTS ||
	    (!ch->wait_slot && !(ch->wait_slot = calloc(WIRE_WAIT_SLOTS, sizeof(*ch->wait_slot)))))
		return false;
	for (unsigned i = 0; i < WIRE_WAIT_SLOTS; i++) {
		unsigned at = (ch->wait_hint + i) % WIRE_WAIT_SLOTS;

		if (ch->wait_slot[at].taken)
			continue;
		ch->wait_slot[at].taken = true;
		ch->wait_taken++;
		ch->wait_hint = at;
		call->slot = WIRE_SLOTS + at;
		return true;
	}
	return false;
}

static bool take_slot(struct channel *ch, struct call *call)
{
	if (call->slot != NO_SLOT)
		return true;
	if (call->early) {
		call->slot = EARLY_SLOT;
		return true;
	}
	if (lock_call_of(call) >= TRIED && take_wait_slot(ch, call))
		return true;
	if (lock_call_of(call) == WAITED_FOR || !ch->free_count)
		return false;
	call->slot = ch->free[--ch->free_count];
	return true;
}

/* A fresh xid for the slot: the brick takes it as the acknowledgement of the one before. */
static void number_call(struct channel *ch, struct call *call)
{
	call->xid = ++slot_at(ch, call->slot)->sequence << WIRE_SLOT_BITS | call->slot;
	call->flags = 0;
	call->incarnation = 0;
}

/* The brick, if it has done it, knows it by that number, and does not open the file twice. */
static bool number_as_before(struct channel *ch, struct call *call)
{
	uint32_t xid = ch->unsure.xid;

	ch->unsure.xid = 0;
	if (!xid || ch->unsure.incarnation != ch->incarnation)
		return false;
	call->xid = xid;
	call->flags = 0;
	call->incarnation = ch->incarnation;
	return true;
}

static void wake_first(struct channel *ch)
{
	struct call *first = ch->waiting.first, *lock = ch->locks_waiting.first;
	bool may_wait = ch->wait_taken < WIRE_WAIT_SLOTS;

	if (first && (ch->free_count || (may_wait && lock_call_of(first) == TRIED)))
		task_wake(first->task);
	if (lock && may_wait)
		task_wake(lock->task);
}

static void give_slot(struct channel *ch, struct call *call)
{
	if (call->slot == NO_SLOT)
		return;
	slot_at(ch, call->slot)->call = NULL;
	if (call->slot < EARLY_SLOT)
		ch->free[ch->free_count++] = call->slot;
	if (call->slot > EARLY_SLOT) {
		slot_at(ch, call->slot)->taken = false;
		ch->wait_taken--;
	}
	call->slot = NO_SLOT;
	wake_first(ch);
}

static void enqueue(struct channel *ch, struct call *call)
{
	struct call_queue *q = queue_of(ch, call);

	if (call->queued)
		return;
	call->next = NULL;
	call->queued = true;
	if (q->first)
		q->last->next = call;
	else
		q->first = call;
	q->last = call;
}

static void dequeue(struct channel *ch, struct call *call)
{
	struct call_queue *q = queue_of(ch, call);
	struct call **at = &q->first, *before = NULL;

	if (!call->queued)
		return;
	while (*at != call) { /* seldom: most leave as the first */
		before = *at;
		at = &before->next;
	}
	*at = call->next;
	if (q->last == call)
		q->last = before;
	call->queued = false;
	if (ch->state == CHANNEL_UP)
		wake_first(ch);
}

unsigned channel_waiting(const struct channel *ch)
{
	unsigned n = 0;

	for (const struct call *c = ch->waiting.first; c; c = c->next)
		n++;
	for (const struct call *c = ch->locks_waiting.first; c; c = c->next)
		n++;
	return n;
}

static void wake_all(const struct call_queue *q)
{
	for (struct call *c = q->first; c; c = c->next)
		task_wake(c->task);
}

void channel_set_state(struct channel *ch, enum channel_state state)
{
	ch->state = state;
	wake_all(&ch->waiting);
	wake_all(&ch->locks_waiting);
	if (state != CHANNEL_DOWN)
		return;
	for (unsigned i = 0; i < WIRE_SLOTS + (ch->wait_slot ? WIRE_WAIT_SLOTS : 0); i++) {
		struct slot *s = slot_at(ch, i);

		if (!s->call)
			continue;
		s->call->lost = true;
		task_wake(s->call->task);
		s->call = NULL;
	}
}

/* An early call is the keeper's own: nobody but this call itself takes the connection down, or sees that it is lost. */
static bool is_over(const struct channel *ch, const struct call *call)
{
	return call->early && (ch->lost || atomic_load(&ch->remote->stopping));
}

static bool usable(const struct channel *ch, const struct call *call)
{
	return ch->state == CHANNEL_UP || (call->early && ch->state == CHANNEL_RECOVERING && !is_over(ch, call));
}

static int wait_unlocked(struct channel *ch, uint64_t deadline)
{
	int err;

	pthread_mutex_unlock(&ch->lock);
	err = task_wait(deadline);
	pthread_mutex_lock(&ch->lock);
	return err;
}

static uint64_t own_deadline(const struct call *call)
{
	return fop_info[call->fop].flags & FOP_WAITS ? NO_DEADLINE : call->rq->deadline_ns;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

static bool my_turn(struct channel *ch, const struct call *call)
{
	const struct call_queue *q = queue_of(ch, call);

	return !q->first || q->first == call || call->slot != NO_SLOT || call->early;
}

/* A lock that was asked for may be held by now: only the brick can tell, so this is cancelled there. */
static bool cancel_later(struct call *call, int err)
{
	if (err != -ECANCELED || call->cancelled || !call->incarnation || !(fop_info[call->fop].flags & FOP_WAITS))
		return false;
	call->cancelled = true;
	task_shield(true);
	return true;
}

/* Until the channel is usable and the call has a slot. */
static int wait_usable(struct channel *ch, struct call *call)
{
	struct remote *r = ch->remote;
	int err = 0;

	while (!err) {
		bool up = usable(ch, call);
		uint64_t deadline = own_deadline(call);

		if (up && my_turn(ch, call) && take_slot(ch, call))
			break;
		if (call->early && !up)
			return -ENOTCONN;
		if (!up && !call->give_up_ns)
			call->give_up_ns = clock_ns() + r->max_wait_ms * 1000000;
		if (atomic_load(&r->stopping))
			err = -ENOTCONN;
		if (!up)
			deadline = earlier(deadline, call->give_up_ns);
		enqueue(ch, call);
		if (!err)
			err = wait_unlocked(ch, deadline);
		if (cancel_later(call, err))
			err = 0;
		if (err == -ETIMEDOUT && !usable(ch, call))
			err = -ENOTCONN;
	}
	dequeue(ch, call);
	return err;
}

/* ---- sending; with channel.lock held ---- */

static int encode_once(struct channel *ch, struct call *call, struct codec *c)
{
	uint32_t at = call_header(ch->scratch, call->xid, WIRE_FOP + call->fop, 0);
	int err;

	codec_init(c, XDR_ENCODE, ch->scratch + at, ch->room - at, &client_codec, call);
	err = call_head(c, call->rq, &call->flags);
	if (!err)
		err = codec_args(c, call->fop, (void *)call->in);
	header_bulk(ch->scratch, c->bulk_size);
	return err;
}

static int encode(struct channel *ch, struct call *call, struct codec *c)
{
	int err = encode_once(ch, call, c);
	char *more;

	while (err == -EMSGSIZE && ch->room < WIRE_XDR_MAX) {
		uint32_t room = ch->room * 4 < WIRE_XDR_MAX ? ch->room * 4 : WIRE_XDR_MAX;

		more = realloc(ch->scratch, room + 4);
		if (!more)
			return -ENOMEM;
		ch->scratch = more;
		ch->room = room;
		err = encode_once(ch, call, c);
	}
	return err;
}

static bool appends_one(int fop, const void *in)
{
	return fop == FOP_write && ((const struct write_in *)in)->flags & WRITE_APPEND;
}

static bool appends(int fop, const void *in)
{
	const struct compound_in *compound = in;

	for (uint32_t i = 0; fop == FOP_compound && i < compound->steps.count; i++)
		if (appends_one(compound->steps.step[i].fop, compound->steps.step[i].in))
			return true;
	return appends_one(fop, in);
}

static int send_cancel(struct channel *ch, uint32_t xid)
{
	char head[RECORD_HEAD_MAX + 16] __attribute__((aligned(8)));
	struct wire_cancel cancel = { xid };
	uint32_t size = encode_call(head, sizeof(head), XID_CANCEL, WIRE_CANCEL, (xdrproc_t)xdr_wire_cancel, &cancel);

	ch->cancels++;
	return stream_send(&ch->stream, head, size, NULL, 0);
}

static int send_call(struct channel *ch, struct call *call)
{
	struct codec c;
	int err;

	if (call->incarnation) {
		call->flags |= WIRE_RESENT;
		ch->resent++;
		if (call->incarnation != ch->incarnation) {
			call->flags |= WIRE_SESSION_LOST;
			if (appends(call->fop, call->in))
				return call->fop == FOP_write && !call->early ? -APPEND_UNSURE : -EIO;
			if (call->cancelled)
				return -ECANCELED;
		}
	} else if (call->rq->resent) {
		call->flags |= WIRE_SESSION_LOST;
	}
	err = encode(ch, call, &c);
	if (err)
		return err;
	call->incarnation = ch->incarnation;
	call->lost = false;
	call->give_up_ns = 0;
	slot_at(ch, call->slot)->call = call;
	ch->requests++;
	if (!stream_send(&ch->stream, ch->scratch, 4 * (1 + CALL_BODY) + codec_used(&c), c.buffer, c.buffers) &&
	    call->cancelled)
		send_cancel(ch, call->xid);
	return 0; /* when sending failed the loop finds the stream broken, and calls are sent again */
}

/* A cancel goes to the brick; what it answers is what happened. */
static void cancel(struct channel *ch, struct call *call)
{
	call->cancelled = true;
	task_shield(true);
	send_cancel(ch, call->xid);
}

static int wait_reply(struct channel *ch, struct call *call)
{
	uint64_t deadline = call->early ? call->early_ns : own_deadline(call);
	int err = 0;

	while (!call->reply && !call->lost && !err) {
		if (is_over(ch, call))
			return -ENOTCONN;
		err = wait_unlocked(ch, deadline);
		if (err == -ECANCELED && !call->cancelled) {
			cancel(ch, call);
			if (!(fop_info[call->fop].flags & FOP_WAITS))
				deadline = clock_ns() + CANCEL_WAIT_S * 1000000000ull;
			err = 0;
		}
	}
	if (call->reply)
		return 0;
	if (err == -ETIMEDOUT && call->early) { /* it is asked for again, by its number, but for a lock */
		if (call->fop == FOP_setlk)
			send_cancel(ch, call->xid);
		return -ENOTCONN;
	}
	if (err == -ETIMEDOUT && !call->cancelled)
		send_cancel(ch, call->xid);
	return err ? call->cancelled ? -ECANCELED : err : -EAGAIN;
}

/* Until there is a reply. -EUNATCH: call->outdated must be opened again first. */
static int exchange(struct channel *ch, struct call *call)
{
	int err = -EAGAIN;

	pthread_mutex_lock(&ch->lock);
	if (call->slot != NO_SLOT && call->reply) { /* the next question on the same slot */
		record_free(call->reply);
		call->reply = NULL;
		number_call(ch, call);
	}
	while (err == -EAGAIN) {
		bool fresh = call->slot == NO_SLOT;

		err = wait_usable(ch, call);
		if (err)
			break;
		if (fresh && !(call->early && number_as_before(ch, call)))
			number_call(ch, call);
		err = send_call(ch, call);
		if (!err)
			err = wait_reply(ch, call);
	}
	pthread_mutex_unlock(&ch->lock);
	return err;
}

/* ---- the answer ---- */

void channel_kill(struct channel *ch)
{
	pthread_mutex_lock(&ch->lock);
	if (ch->state != CHANNEL_DOWN)
		stream_kill(&ch->stream);
	pthread_mutex_unlock(&ch->lock);
}

int remote_decode_inode(struct remote *r, struct codec *c, struct inode **inode)
{
	struct call none = { .channel = &r->channel[0] };

	c->ops = &client_codec;
	c->owner = &none;
	return codec_new_inode(c, inode) ? 0 : c->error ? c->error : -EBADMSG;
}

static int decode(struct call *call, void *out)
{
	struct record *rec = call->reply;
	struct codec c;
	int status = 0, err;

	codec_init(&c, XDR_DECODE, rec->word + REPLY_BODY, rec->size - 4 * REPLY_BODY, &client_codec, call);
	c.bulk = rec->bulk;
	err = reply_head(&c, &status, &call->rq->reply_extensions);
	if (!err && status)
		return status;
	if (!err)
		err = codec_result(&c, call->fop, call->in, out);
	if (!err) {
		err = codec_end(&c);
		if (err)
			fop_out_clear(call->fop, out);
	}
	if (err != -EBADMSG)
		return err;
	log_warning(call->channel->remote->x, call->rq, "the brick's answer to %s makes no sense: connection closed",
		    fop_name(call->fop));
	channel_kill(call->channel);
	return -EIO;
}

/* The brick can't decide without the caller's groups. When nobody can tell them, the caller has none. */
static void load_groups(struct request *rq)
{
	const gid_t *groups;

	if (request_groups(rq, &groups) < 0)
		rq->group_count = 0;
}

/* The first try may have removed what the second does not find. */
static int forgive(const struct call *call, int err)
{
	bool again = call->flags & WIRE_SESSION_LOST;

	return again && call->fop == FOP_removexattr && err == -ENODATA ? 0 : err;
}

static int channel_call(struct channel *, struct request *, int fop, const void *in, void *out, bool early, uint64_t *session);

/* An append that the lost session may have done. If the file still ends where it did when we heard of it last, it was not, and
 * may be sent anew; else -EIO: nobody knows. */
static int check_append(struct call *call)
{
	const struct write_in *write = call->in;
	struct getattr_in in = { .inode = write->file->inode, .file = write->file };
	struct getattr_out now = { 0 };
	uint64_t before;
	int err;

	if (!remote_size(call->channel->remote, in.inode, &before))
		return -EIO;
	err = channel_call(call->channel, call->rq, FOP_getattr, &in, &now, false, NULL);
	if (err || now.attr.size != before)
		return err ? err : -EIO;
	call->incarnation = 0;
	call->flags = 0;
	return 0;
}

/* A file that is in another session than the channel: either it has to be opened again, or the brick has ended the channel's session, and its connection does not show that yet, but
 * another channel has been in a new one. Opened again then it would be open twice in that, and its release would leave what is locked through it the first time. */
static int catch_up(struct call *call)
{
	struct channel *ch = call->channel;
	bool over;

	pthread_mutex_lock(&ch->remote->lock);
	over = !call->early && call->current != ch->remote->recovering;
	pthread_mutex_unlock(&ch->remote->lock);
	if (!over)
		return remote_file_reopen(ch->remote, call->early ? ch : NULL, call->outdated, call->current);
	pthread_mutex_lock(&ch->lock);
	if (ch->state == CHANNEL_UP && ch->incarnation == call->current)
		stream_kill(&ch->stream);
	pthread_mutex_unlock(&ch->lock);
	return task_sleep_ms(1); /* until its keeper has seen that */
}

static int run(struct call *call, void *out)
{
	struct channel *ch = call->channel;
	bool asked = false;
	int err;

	for (;;) {
		err = exchange(ch, call);
		if (err == -EUNATCH) {
			err = catch_up(call);
			if (err)
				return err;
			continue;
		}
		if (err == -APPEND_UNSURE) {
			err = check_append(call);
			if (err)
				return err;
			continue;
		}
		if (!err)
			err = decode(call, out);
		if (err != -ENEEDGROUPS || asked)
			break;
		load_groups(call->rq);
		asked = true;
	}
	return err == -ENEEDGROUPS ? -EPERM : forgive(call, err);
}

static int channel_call(struct channel *ch, struct request *rq, int fop, const void *in, void *out, bool early,
			uint64_t *session)
{
	struct call call = {
		.channel = ch, .rq = rq, .fop = fop, .in = in, .task = task_self(), .slot = NO_SLOT, .early = early
	};
	int err;

	if (early)
		call.early_ns = clock_ns() + ch->remote->ping_timeout_ms * 1000000;
	err = run(&call, out);
	if (session)
		*session = call.incarnation;
	pthread_mutex_lock(&ch->lock);
	if (early && call.incarnation && !call.reply && !(fop_info[fop].flags & FOP_WAITS)) {
		ch->unsure.xid = call.xid;
		ch->unsure.incarnation = call.incarnation;
	}
	give_slot(ch, &call);
	pthread_mutex_unlock(&ch->lock);
	record_free(call.reply);
	if (call.cancelled)
		task_shield(false);
	return err;
}

int channel_call_early(struct channel *ch, struct request *rq, int fop, const void *in, void *out)
{
	return channel_call(ch, rq, fop, in, out, true, NULL);
}

int remote_call_in(struct remote *r, struct request *rq, int fop, const void *in, void *out, uint64_t *session)
{
	return channel_call(&r->channel[shard_number(shard_self()) % r->channels], rq, fop, in, out, false, session);
}

int remote_call(struct remote *r, struct request *rq, int fop, const void *in, void *out)
{
	return remote_call_in(r, rq, fop, in, out, NULL);
}

/* On the loop: an answer came. False: nobody waits for it any more. */
bool channel_answer(struct channel *ch, struct record *rec)
{
	uint32_t xid = record_word(rec, WORD_XID), slot = xid & ((1 << WIRE_SLOT_BITS) - 1);
	struct call *call = NULL;

	pthread_mutex_lock(&ch->lock);
	if (slot < WIRE_SLOTS + (ch->wait_slot ? WIRE_WAIT_SLOTS : 0))
		call = slot_at(ch, slot)->call;
	if (call && call->xid == xid) {
		slot_at(ch, slot)->call = NULL;
		call->reply = rec;
		task_wake(call->task);
	} else {
		call = NULL;
	}
	pthread_mutex_unlock(&ch->lock);
	return call;
}

/* ---- life ---- */

int channel_init(struct channel *ch, struct remote *r, unsigned number)
{
	ch->remote = r;
	ch->number = number;
	ch->shard = runtime_shard(number);
	ch->room = ROOM_FIRST;
	ch->scratch = malloc(ROOM_FIRST + 4);
	for (ch->free_count = 0; ch->free_count < EARLY_SLOT; ch->free_count++)
		ch->free[ch->free_count] = EARLY_SLOT - 1 - ch->free_count;
	pthread_mutex_init(&ch->lock, NULL);
	return ch->scratch ? 0 : -ENOMEM;
}

void channel_finish(struct channel *ch)
{
	record_free(ch->answer);
	file_unref(ch->unsure.file);
	free(ch->wait_slot);
	free(ch->scratch);
	pthread_mutex_destroy(&ch->lock);
}
