/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of fops: none is done twice. Each channel has numbered slots; a slot knows its last call, and keeps the answer until
 * the slot's next call shows that the client has it. */
#include <fcntl.h>
#include <unistd.h>

#include "server.h"

enum { SMALL_REPLY = 1536, SEQUENCE_BITS = 32 - WIRE_SLOT_BITS };

/* ---- slots; with session.lock held ---- */

struct slot *slot_of(struct session_channel *ch, uint32_t slot)
{
	if (slot < WIRE_SLOTS)
		return &ch->slot[slot];
	if (slot >= WIRE_SLOTS + WIRE_WAIT_SLOTS)
		return NULL;
	if (!ch->wait_slot)
		ch->wait_slot = calloc(WIRE_WAIT_SLOTS, sizeof(*ch->wait_slot));
	return ch->wait_slot ? &ch->wait_slot[slot - WIRE_SLOTS] : NULL;
}

void slot_drop_kept(struct session *s, struct slot *slot)
{
	struct kept *k = slot->kept;

	if (!k)
		return;
	s->kept_bytes -= k->size;
	for (unsigned i = 0; i < k->buffers; i++) {
		s->kept_bytes -= k->buffer[i]->size;
		buffer_unref(k->buffer[i]);
	}
	free(k);
	slot->kept = NULL;
}

/* Answers that must not be made twice: of what changes something, even when doing it twice is doing it once, for another
 * client's change may lie between. */
static bool keeps(int fop)
{
	unsigned flags = fop_info[fop].flags;

	return !(flags & FOP_IDEMPOTENT) || flags & FOP_MUTATES || fop == FOP_release || fop == FOP_flush;
}

static void keep(struct session *s, struct slot *slot, const char *head, uint32_t size, const struct codec *c)
{
	struct kept *k = malloc(sizeof(*k) + size);

	if (!k)
		return;
	k->size = size;
	k->buffers = c->buffers;
	memcpy(k->head, head, size);
	s->kept_bytes += size;
	for (unsigned i = 0; i < k->buffers; i++) {
		k->buffer[i] = buffer_ref(c->buffer[i]);
		s->kept_bytes += k->buffer[i]->size;
	}
	slot->kept = k;
}

static bool is_later(uint32_t xid, uint32_t than)
{
	uint32_t ahead = ((xid >> WIRE_SLOT_BITS) - (than >> WIRE_SLOT_BITS)) & ((1u << SEQUENCE_BITS) - 1);

	return ahead && ahead < 1u << (SEQUENCE_BITS - 1);
}

/* ---- arrival, on the loop ---- */

void answer_status(struct connection *c, uint32_t xid, int status)
{
	char head[64] __attribute__((aligned(8)));
	uint32_t size = encode_reply(head, sizeof(head), xid, status, NULL, NULL, NULL);

	stream_send(&c->stream, head, size, NULL, 0);
}

/* It came before. True if there is nothing more to do. */
static bool duplicate(struct session *s, struct slot *slot, struct connection *c, int fop, struct connection **old)
{
	s->duplicates++;
	if (slot->work) { /* the answer goes to the new connection */
		*old = slot->work->connection;
		slot->work->connection = connection_ref(c);
		return true;
	}
	if (slot->kept) {
		stream_send(&c->stream, slot->kept->head, slot->kept->size, slot->kept->buffer, slot->kept->buffers);
		return true;
	}
	if (!keeps(fop))
		return false;
	answer_status(c, slot->xid, slot->refused ? slot->refused : -EIO); /* done, but no memory to keep the answer */
	return true;
}

/* 0, or the status with which it is refused. */
static int admit(struct session *s, int fop, bool waits, size_t bytes)
{
	if (waits && (s->waiting >= WIRE_WAIT_SLOTS || !share_may_wait(s, bytes)))
		return -ENOLCK;
	return keeps(fop) && s->kept_bytes > KEPT_MAX ? -ENOMEM : 0;
}

static void pause_channel(struct session *s, struct session_channel *ch)
{
	if (ch->paused || (!s->crowded && s->running < RUNNING_MAX && s->bytes < BYTES_MAX && !share_is_full(s)))
		return;
	ch->paused = true;
	s->paused++;
	stream_pause(&ch->connection->stream, true);
}

static void pause_all(struct session *s)
{
	for (unsigned i = 0; i < WIRE_CHANNELS; i++)
		if (s->channel[i] && s->channel[i]->connection)
			pause_channel(s, s->channel[i]);
}

void resume_channels(struct session *s)
{
	if (!s->paused || s->crowded || s->running > RUNNING_MAX * 3 / 4 || s->bytes > BYTES_MAX * 3ul / 4 || share_is_busy(s))
		return;
	for (unsigned i = 0; i < WIRE_CHANNELS; i++) {
		struct session_channel *ch = s->channel[i];

		if (!ch || !ch->paused)
			continue;
		ch->paused = false;
		s->paused--;
		stream_pause(&ch->connection->stream, false);
	}
}

/* Some may be paused that have nothing under way themselves. */
static void resume_tenant(struct session *s)
{
	if (!share_may_resume(s))
		return;
	pthread_mutex_lock(&s->server->lock);
	for (struct session *i = s->server->sessions; i; i = i->next)
		if (i->share == s->share) {
			pthread_mutex_lock(&i->lock);
			resume_channels(i);
			pthread_mutex_unlock(&i->lock);
		}
	pthread_mutex_unlock(&s->server->lock);
}

/* It has no answer until somebody else does something, or at once: its kind tells no more. */
static bool may_last(const struct work *w)
{
	return fop_info[w->fop].flags & FOP_WAITS;
}

static size_t record_bytes(const struct record *r)
{
	return r->size + (r->bulk ? r->bulk->size : 0);
}

static struct work *work_create(struct session *s, struct connection *c, struct slot *slot, struct record *rec, int fop,
				bool waits)
{
	struct work *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->session = s;
	w->connection = connection_ref(c);
	w->slot = slot;
	w->record = rec;
	w->fop = fop;
	w->xid = record_word(rec, WORD_XID);
	w->waits = waits;
	w->next = s->works;
	w->link = &s->works;
	if (w->next)
		w->next->link = &w->next;
	s->works = w;
	atomic_fetch_add(&s->refs, 1);
	*(w->waits ? &s->waiting : &s->running) += 1;
	s->bytes += record_bytes(rec);
	share_begin(s, w->waits, record_bytes(rec));
	s->requests++;
	slot->work = w;
	return w;
}

/* Decides under session.lock what becomes of a call. The work to be done, or NULL (*why: it is garbage). */
static struct work *take(struct session *s, struct connection *c, struct record *rec, struct connection **old, const char **why)
{
	uint32_t xid = record_word(rec, WORD_XID), at = xid & ((1 << WIRE_SLOT_BITS) - 1);
	int fop = record_word(rec, CALL_PROCEDURE) - WIRE_FOP, status;
	bool waits = at >= WIRE_SLOTS;
	struct session_channel *ch = s->channel[c->channel];
	struct work *w = NULL;
	struct slot *slot;

	/* What an older connection still brings is not done; nor is what it brought that has hung up, if it was not to be read from. */
	if (s->ending || ch->connection != c || (ch->paused && c->stream.hung_up))
		return NULL;
	slot = slot_of(ch, at);
	*why = "a call in a slot that does not exist";
	if (!slot || (waits && !(fop_info[fop].flags & FOP_WAITS)))
		return NULL;
	*why = NULL;
	if (slot->used && slot->xid == xid) {
		if (duplicate(s, slot, c, fop, old))
			return NULL;
	} else if (slot->used && !is_later(xid, slot->xid)) {
		*why = "a call that is older than the last one of its slot";
		return NULL;
	}
	if (slot->work)
		slot->work->slot = NULL; /* given up by the client */
	slot->work = NULL;
	slot_drop_kept(s, slot);
	slot->used = true;
	slot->xid = xid;
	status = admit(s, fop, waits, record_bytes(rec));
	if (!status && !(w = work_create(s, c, slot, rec, fop, waits)))
		status = -ENOMEM;
	slot->refused = status;
	if (status)
		answer_status(c, xid, status);
	else
		pause_channel(s, ch);
	return w;
}

static void work_run(void *);
static void finish(struct work *, char *head, uint32_t size, const struct codec *);

static void fail(struct work *w, int status)
{
	char head[64] __attribute__((aligned(8)));
	uint32_t size = encode_reply(head, sizeof(head), w->xid, status, NULL, NULL, NULL);
	struct codec none = { 0 };

	finish(w, head, size, &none);
}

void work_arrived(struct connection *c, struct record *rec)
{
	struct connection *old = NULL;
	const char *why = NULL;
	struct work *w;

	pthread_mutex_lock(&c->session->lock);
	w = take(c->session, c, rec, &old, &why);
	pthread_mutex_unlock(&c->session->lock);
	connection_unref(old);
	if (why)
		connection_refuse(c, why);
	if (!w)
		record_free(rec);
	else if (task_run_now(c->shard, work_run, w)) {
		fail(w, -EAGAIN);
		session_unref(c->session);
	}
}

static void cancel_one(struct work *w)
{
	w->cancelled = true;
	if (w->task)
		task_cancel(w->task);
}

/* By its slot: a client may have thousands that wait, and cancel as often as it likes, on the loop. */
void work_cancel(struct session *s, unsigned channel, uint32_t xid)
{
	uint32_t at = xid & ((1u << WIRE_SLOT_BITS) - 1);
	struct session_channel *ch;
	struct slot *slot;

	pthread_mutex_lock(&s->lock);
	ch = s->channel[channel];
	slot = ch && (at < WIRE_SLOTS || ch->wait_slot) ? slot_of(ch, at) : NULL;
	if (slot && slot->work && slot->work->xid == xid)
		cancel_one(slot->work);
	pthread_mutex_unlock(&s->lock);
}

void works_cancel(struct session *s)
{
	pthread_mutex_lock(&s->lock);
	for (struct work *w = s->works; w; w = w->next)
		cancel_one(w);
	pthread_mutex_unlock(&s->lock);
}

/* At the stop: not all of it could be asked for again (see append_unsure). */
static void hurry(struct work *w)
{
	atomic_store(&w->held->hurry, true);
	task_wake(w->task);
}

void works_cancel_waiting(struct session *s)
{
	pthread_mutex_lock(&s->lock);
	for (struct work *w = s->works; w; w = w->next)
		if (may_last(w))
			cancel_one(w);
		else if (w->held)
			hurry(w);
	pthread_mutex_unlock(&s->lock);
}

/* ---- codec ---- */

struct doing { /* what the codec's callbacks need */
	struct session *session;
	struct xlator *leaf;
	uint64_t number; /* of the last file taken */
};

/* In a set the voucher is the end of the handle: what is before it is for this brick, the voucher is for all. */
static int put_voucher(const struct guest *g, const struct inode *inode, uint8_t *handle, size_t room, size_t *size)
{
	if (*size + VOUCHER_SIZE > room)
		return -ENOBUFS;
	*size += VOUCHER_SIZE;
	return g->set->type->vouch(g->set, &g->bearer, &inode->gfid, handle + *size - VOUCHER_SIZE);
}

int server_put_inode(struct xlator *leaf, const struct guest *g, struct inode *inode, uint8_t *handle, uint32_t *size)
{
	size_t room = *size, used = room;
	int err = gfid_is_null(&g->bearer.tenant) ? leaf->type->inode_handle(leaf, inode, handle, &used)
						  : leaf->type->tenant_handle(leaf, &g->bearer, inode, handle, &used);

	if (!err && g->set)
		err = put_voucher(g, inode, handle, room, &used);
	*size = used;
	return err;
}

static int put_inode(struct codec *c, struct inode *inode, uint8_t *handle, uint32_t *size)
{
	struct doing *d = c->owner;

	return server_put_inode(d->leaf, &d->session->guest, inode, handle, size);
}

static void tell_gfid(struct codec *c, struct gfid *gfid)
{
	struct doing *d = c->owner;

	if (gfid_equal(gfid, &d->session->guest.root))
		*gfid = gfid_root;
}

static int take_inode(struct codec *c, const uint8_t *handle, uint32_t size, struct inode **inode)
{
	struct doing *d = c->owner;
	const struct bearer *bearer = &d->session->guest.bearer;

	if (d->session->guest.set)
		size -= size < VOUCHER_SIZE ? size : VOUCHER_SIZE;
	if (!gfid_is_null(&bearer->tenant))
		return d->leaf->type->tenant_from_handle(d->leaf, bearer, handle, size, inode);
	return d->leaf->type->inode_from_handle(d->leaf, handle, size, inode);
}

static int take_file(struct codec *c, uint64_t number, struct file **file)
{
	struct doing *d = c->owner;

	d->number = number;
	return session_find_file(d->session, number, file);
}

static int add_file(struct codec *c, struct file *file, uint64_t *number)
{
	return session_add_file(((struct doing *)c->owner)->session, file, number);
}

static const struct codec_ops server_codec = {
	.put_inode = put_inode, .tell_gfid = tell_gfid, .take_inode = take_inode, .take_file = take_file, .add_file = add_file
};

/* ---- doing it, in a task ---- */

static void unlink_work(struct work *w)
{
	struct session *s = w->session;

	*w->link = w->next;
	if (w->next)
		w->next->link = w->link;
	*(w->waits ? &s->waiting : &s->running) -= 1;
	s->bytes -= record_bytes(w->record);
	share_end(s, w->waits, record_bytes(w->record));
}

/* Keeps the answer if need be, sends it, and ends the work. size 0: there is no answer. */
static void finish(struct work *w, char *head, uint32_t size, const struct codec *c)
{
	struct session *s = w->session;

	pthread_mutex_lock(&s->lock);
	if (w->unanswered)
		size = 0;
	if (w->slot) {
		w->slot->work = NULL;
		if (size && keeps(w->fop))
			keep(s, w->slot, head, size, c);
	}
	unlink_work(w);
	resume_channels(s);
	pthread_mutex_unlock(&s->lock);
	resume_tenant(s);
	if (size && !(may_last(w) && w->cancelled && atomic_load(&s->server->stopping))) /* those are asked again */
		stream_send(&w->connection->stream, head, size, c->buffer, c->buffers);
	record_free(w->record);
	connection_unref(w->connection);
	free(w);
}

static void add_trace(struct request *rq)
{
	uint64_t ns = htobe64(clock_ns() - rq->born_ns);

	if (request_extension(rq, EXTENSION_TRACE))
		request_extend(&rq->reply_extensions, EXTENSION_TRACE, 1, false, &ns, sizeof(ns));
}

static uint32_t encode_into(struct work *w, struct doing *d, struct request *rq, int *status, const void *in, void *out,
			    char *head, uint32_t room, struct codec *c)
{
	uint32_t at = reply_header(head, w->xid, 0);
	int err;

	codec_init(c, XDR_ENCODE, head + at, room - at, &server_codec, d);
	err = reply_head(c, status, &rq->reply_extensions);
	if (!err && !*status)
		err = codec_result(c, w->fop, in, out);
	if (err) {
		*status = err;
		return 0;
	}
	header_bulk(head, c->bulk_size);
	return at + codec_used(c);
}

/* Room for the answer: only listings and compounds may be large, but for long xattrs and links, which are encoded again. */
static uint32_t reply_room(int fop, const void *in)
{
	uint64_t room = SMALL_REPLY;

	if (fop == FOP_readdir)
		room = 8192 + 5ull * ((const struct readdir_in *)in)->size;
	else if (fop == FOP_compound)
		room = WIRE_XDR_MAX;
	return room < WIRE_XDR_MAX ? room : WIRE_XDR_MAX;
}

static void reply(struct work *w, struct doing *d, struct request *rq, int status, const void *in, void *out)
{
	char small[SMALL_REPLY] __attribute__((aligned(8))), *large = NULL;
	uint32_t room = reply_room(w->fop, in), size = 0;
	struct codec c;
	int given = status;

	add_trace(rq);
	if (status < -ELAST || status > 0)
		given = status = -EIO;
	if (room == SMALL_REPLY)
		size = encode_into(w, d, rq, &status, in, out, small, room, &c);
	if (!size && (room > SMALL_REPLY || status == -EMSGSIZE)) {
		status = given;
		large = malloc(room = room > SMALL_REPLY ? room : WIRE_XDR_MAX);
		size = large ? encode_into(w, d, rq, &status, in, out, large, room, &c) : 0;
	}
	if (size)
		finish(w, large ? large : small, size, &c);
	else
		fail(w, large || room == SMALL_REPLY ? status : -ENOMEM);
	free(large);
}

static bool append_unsure(const struct request *rq, int fop, const void *in)
{
	return rq->resent && fop == FOP_write && ((const struct write_in *)in)->flags & WRITE_APPEND;
}

/* Their numbers go with them. */
static void forget_released(struct session *s, const struct compound_in *in, const struct compound_out *out)
{
	const struct file *last = NULL;

	for (uint32_t i = 0; i < out->results.count && !out->results.result[i].status; i++) {
		const struct step *step = &in->steps.step[i];

		if (step->fop == FOP_open)
			last = ((const struct open_out *)out->results.result[i].out)->file;
		else if (step->fop == FOP_create)
			last = ((const struct create_out *)out->results.result[i].out)->file;
		else if (step->fop == FOP_release)
			session_forget_file(s, ((const struct release_in *)step->in)->file ?: last);
	}
}

/* ---- the memory of answers ---- */

/* Bulk data, and what else may be long. */
static size_t will_read(int fop, const void *in)
{
	const struct compound_in *compound = in;
	size_t bytes = 0;

	if (fop == FOP_readdir)
		return reply_room(fop, in);
	if (fop == FOP_getxattr || fop == FOP_listxattr)
		return WIRE_BLOB_MAX;
	if (fop == FOP_read)
		return ((const struct read_in *)in)->size;
	for (uint32_t i = 0; fop == FOP_compound && i < compound->steps.count; i++)
		bytes += will_read(compound->steps.step[i].fop, compound->steps.step[i].in);
	return bytes;
}

static size_t queued_for(struct work *w)
{
	size_t queued;

	pthread_mutex_lock(&w->session->lock);
	queued = stream_queued(&w->connection->stream);
	pthread_mutex_unlock(&w->session->lock);
	return queued;
}

static bool has_reply_room(struct work *w, size_t bytes)
{
	size_t here = atomic_load(&w->session->replying) + queued_for(w), all = atomic_load(&w->session->server->replying);

	return (!here || here + bytes <= REPLIES_MAX) && (!all || all + bytes <= REPLIES_ALL_MAX) &&
	       share_has_reply_room(w->session, bytes);
}

static void count_replying(struct session *s, size_t bytes)
{
	atomic_fetch_add(&s->replying, bytes);
	share_count_replying(s, bytes);
	atomic_fetch_add(&s->server->replying, bytes);
}

/* Who asks for much and does not take the answers waits; the longer, the less often it is looked at, for there may be thousands.
 * -ECANCELED when the session ends. */
static int take_reply_room(struct work *w, size_t bytes)
{
	int err = 0;

	for (unsigned ms = 1; !err && !has_reply_room(w, bytes); ms = ms < 64 ? 2 * ms : ms) {
		err = task_sleep_ms(ms);
		if (!err && atomic_load(&w->session->server->stopping)) {
			w->unanswered = true; /* who takes his answers a byte at a time keeps no server from stopping */
			err = -ECANCELED;
		}
	}
	if (!err)
		count_replying(w->session, bytes);
	return err;
}

struct call {		   /* what is known of a request when a translator tells that it holds it back */
	struct request rq; /* first */
	struct work *work;
	size_t replying;
};

/* Where nothing is made yet, no room for it is kept from others. A session that is crowded is not read from until all that is held back of it has gone on. */
static void work_held(struct request *rq, bool on, bool crowded)
{
	struct call *c = (struct call *)rq;
	struct work *w = c->work;
	struct session *s = w->session;

	atomic_fetch_add(&s->server->replying, on ? -c->replying : c->replying);
	pthread_mutex_lock(&s->lock);
	w->held = on ? rq : NULL;
	s->held += on ? 1 : -1;
	s->crowded = s->held && (s->crowded || crowded);
	if (on && atomic_load(&s->server->stopping))
		atomic_store(&rq->hurry, true);
	if (crowded)
		pause_all(s);
	resume_channels(s);
	pthread_mutex_unlock(&s->lock);
}

static void do_fop(struct work *w, struct doing *d, struct call *call, void *in)
{
	struct request *rq = &call->rq;
	size_t bytes = will_read(w->fop, in);
	int fop = w->fop, err = 0;
	union fop_out out;

	memset(&out, 0, fop_info[fop].out_size);
	if (bytes >= REPLY_COUNTS)
		err = take_reply_room(w, bytes);
	if (err)
		bytes = 0;
	call->replying = bytes >= REPLY_COUNTS ? bytes : 0;
	if (!err && append_unsure(rq, fop, in))
		err = -EIO;
	if (!err)
		err = fop_call(rq, d->session->subvolume, fop, in, &out);
	if (fop == FOP_release)
		session_remove_file(d->session, d->number);
	reply(w, d, rq, err, in, &out); /* w is gone */
	if (bytes >= REPLY_COUNTS)
		count_replying(d->session, -bytes);
	if (!err && fop == FOP_compound)
		forget_released(d->session, in, (struct compound_out *)&out);
	if (!err)
		fop_out_clear(fop, &out);
}

static uint64_t id_of(const struct record *r)
{
	return r->size < 4 * (CALL_BODY + 2) ? 0 : (uint64_t)record_word(r, CALL_BODY) << 32 | record_word(r, CALL_BODY + 1);
}

static void begin(struct work *w)
{
	pthread_mutex_lock(&w->session->lock);
	w->task = task_self();
	if (w->cancelled)
		task_cancel(w->task);
	pthread_mutex_unlock(&w->session->lock);
}

static int decode(struct work *w, struct doing *d, struct request *rq, void *in)
{
	struct record *r = w->record;
	uint64_t id = rq->id;
	uint32_t flags = 0;
	struct codec c;
	int err;

	codec_init(&c, XDR_DECODE, r->word + CALL_BODY, r->size - 4 * CALL_BODY, &server_codec, d);
	c.bulk = r->bulk;
	err = call_head(&c, rq, &flags);
	rq->id = id; /* zero was replaced */
	rq->resent = flags & WIRE_SESSION_LOST;
	if (!err)
		err = codec_args(&c, w->fop, in);
	if (err)
		return err;
	err = codec_end(&c);
	if (err)
		fop_in_clear(w->fop, in);
	return err;
}

/* It would keep a place that all else is to go on in. */
static bool waits_in_others_place(const struct work *w, const void *in)
{
	const struct setlk_in *set = in;

	return w->fop == FOP_setlk && !w->waits && set->lock.wait && set->lock.type != F_UNLCK;
}

static void work_run(void *arg)
{
	struct work *w = arg;
	struct session *s = w->session;
	struct server *server = s->server;
	struct doing d = { s, leaf_of(s->subvolume), 0 };
	struct call call; /* all of it need not be cleared */
	struct request *rq = &call.rq;
	union fop_in in;
	int err;

	atomic_fetch_add(&server->tasks, 1);
	begin(w);
	call.work = w;
	request_init(rq, server->x->graph, id_of(w->record));
	rq->client = &s->client;
	rq->held = work_held;
	memset(&in, 0, fop_info[w->fop].in_size);
	err = decode(w, &d, rq, &in);
	if (!err && waits_in_others_place(w, &in)) {
		fop_in_clear(w->fop, &in);
		err = -ENOLCK;
	}
	if (!err) {
		int fop = w->fop;

		do_fop(w, &d, &call, &in);
		fop_in_clear(fop, &in);
	} else {
		struct connection *c;

		pthread_mutex_lock(&w->session->lock); /* a duplicate may bring another one just now */
		c = connection_ref(w->connection);
		pthread_mutex_unlock(&w->session->lock);
		fail(w, err == -EBADMSG ? -EIO : err);
		if (err == -EBADMSG)
			connection_refuse(c, "a malformed call");
		connection_unref(c);
	}
	request_finish(rq);
	session_unref(s);
	atomic_fetch_add_explicit(&server->requests, 1, memory_order_relaxed);
	atomic_fetch_sub(&server->tasks, 1);
}

/* ---- events ---- */

/* Others' questions make recalls, as many as they like, and have who has not settled asked for it. Who leaves more of what it is sent unread than its answers may be is told of none:
 * tokens and settling are asked for again, and leases run out. */
static bool takes_event(const struct session *s, struct stream *to, uint32_t kind)
{
	return kind == EVENT_VIEW || (stream_queued(to) <= REPLIES_MAX && share_has_reply_room(s, 0));
}

static void tell_session(struct session *s, uint32_t kind, void *head, uint32_t size)
{
	pthread_mutex_lock(&s->lock);
	for (unsigned i = 0; i < WIRE_CHANNELS; i++)
		if (s->channel[i] && s->channel[i]->connection) {
			struct stream *to = &s->channel[i]->connection->stream;

			if (takes_event(s, to, kind))
				stream_send(to, head, size, NULL, 0);
			break;
		}
	pthread_mutex_unlock(&s->lock);
}

/* The root of a session is called as all roots are. */
static void tell_recalled(struct codec *c, struct event *e)
{
	struct gfid gfid = event_gfid(e);

	tell_gfid(c, &gfid);
	event_set_gfid(e, &gfid);
}

static void tell(struct session *s, struct xlator *leaf, const struct event *e)
{
	char head[512] __attribute__((aligned(8)));
	struct doing d = { s, leaf, 0 };
	uint32_t at = call_header(head, 0, WIRE_EVENT, 0), kind = e->kind;
	struct event its = *e;
	struct codec c;

	codec_init(&c, XDR_ENCODE, head + at, sizeof(head) - at, &server_codec, &d);
	if (kind == EVENT_RECALL)
		tell_recalled(&c, &its);
	if (xdr_u_int(&c.xdr, &kind) && codec_new_inode(&c, &its.inode) && codec_lock(&c, &its.lock))
		tell_session(s, kind, head, at + codec_used(&c));
}

/* What is for all is not for tenants: it tells of objects that may be another's. */
static void tell_all(struct server *server, const struct xlator *from, struct xlator *leaf, const struct event *e)
{
	for (struct session *s = server->sessions; s; s = s->next)
		if (s->subvolume == from && gfid_is_null(&s->guest.bearer.tenant))
			tell(s, leaf, e);
}

void server_tell(struct server *server, struct xlator *from, const struct event *e)
{
	struct xlator *leaf = leaf_of(from);
	struct session *one;

	if (!leaf)
		return;
	pthread_mutex_lock(&server->lock);
	one = e->client ? session_of(server, e->client) : NULL;
	if (one && one->subvolume == from)
		tell(one, leaf, e);
	if (!e->client)
		tell_all(server, from, leaf, e);
	pthread_mutex_unlock(&server->lock);
}
