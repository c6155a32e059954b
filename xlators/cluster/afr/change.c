/* SPDX-License-Identifier: Apache-2.0 */
/* Changes: spans, tokens, the call to all members, and what becomes of it when they do not agree. */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>

#include "change.h"
#include "held.h"

enum { ATTEMPTS_ALIKE = 5, CREATE_TRIES = 20, SEEN_TRIES = 5 };
enum { MEANT_NS = 1000000000 };
#define TOLD_AGAIN_NS 10000000000ul
enum { SOON_TRIES = 4, LATER_MS = 300 };

static void changing_clear(struct changing *c)
{
	for (int i = 0; i < 2; i++)
		inode_unref_at(&c->plan.expected[i]);
}
#define cleanup_changing __attribute__((cleanup(changing_clear)))

/* ---- tokens ---- */

static void unpin(struct afr *a, struct plan *p, unsigned count)
{
	while (count-- > 0)
		token_unpin(a, p->object[count]);
}

static void unpin_all(struct afr *a, struct plan *p)
{
	unpin(a, p, p->objects);
	if (p->rename_token)
		token_unpin(a, &a->rename_token);
}

static int pin_all(struct afr *a, struct plan *p, uint64_t epoch, uint64_t deadline)
{
	int err = p->rename_token ? token_pin(a, &a->rename_token, epoch, deadline) : 0;

	if (err)
		return err;
	for (unsigned i = 0; i < p->objects; i++) {
		err = token_pin(a, p->object[i], epoch, deadline);
		if (err) {
			unpin(a, p, i);
			if (p->rename_token)
				token_unpin(a, &a->rename_token);
			return err;
		}
	}
	return 0;
}

/* ---- who is left out ---- */

/* What waits for a member that is full, or can't be reached, asks it several times a second: the log hears of it once in a while. */
static bool is_to_be_told(struct afr *a, int member, int err)
{
	struct suspicion *s = &a->suspicion[member];
	uint64_t now = clock_ns();
	bool yes;

	pthread_mutex_lock(&a->lock);
	yes = !s->told_ns || s->err != err || now > s->told_ns + TOLD_AGAIN_NS;
	if (yes)
		*s = (struct suspicion){ now, err };
	pthread_mutex_unlock(&a->lock);
	return yes;
}

void afr_suspect(struct afr *a, const struct view *v, unsigned members, int err)
{
	struct pack p = { 0 };

	for (int i = 0; i < v->members; i++)
		if (members >> i & 1 && is_to_be_told(a, i, err))
			log_warning(a->x, NULL, "member %d did not do what others did (%s): it is reported", i,
				    strerror(err ? -err : EIO));
	pack_u64(&p, v->epoch);
	pack_u32(&p, members);
	pack_u32(&p, (uint32_t)-err);
	afr_tell(a, view_mask(v, MEMBER_BACK) & ~members, REPLICA_SUSPECT, &p);
	pack_free(&p);
	pthread_mutex_lock(&a->lock);
	a->suspected++;
	pthread_mutex_unlock(&a->lock);
}

void afr_leave_view(struct afr *a, uint64_t epoch, uint64_t deadline)
{
	uint64_t until = clock_ns() + 300000000;
	struct view v;

	until = until < deadline ? until : deadline;
	while (clock_ns() < until) {
		afr_view_stale(a, epoch);
		if (afr_view(a, until, &v) || v.epoch != epoch)
			return;
		task_sleep_ms(SOON_MS * 2);
	}
}

/* ---- the change ---- */

static void mark_retrying(struct changing *c, bool on)
{
	if (c->retrying == on)
		return;
	c->retrying = on;
	for (unsigned i = 0; i < c->plan.spans; i++) {
		struct object *o = c->plan.spanned[i];

		pthread_mutex_lock(&o->lock);
		o->retrying += on ? 1 : -1;
		pthread_mutex_unlock(&o->lock);
		task_cond_broadcast(&o->changed);
	}
	if (!c->plan.rename_token)
		return;
	pthread_mutex_lock(&c->a->rename_token.lock);
	c->a->rename_token.retrying += on ? 1 : -1;
	pthread_mutex_unlock(&c->a->rename_token.lock);
}

void changing_collect(struct changing *c, const struct view *v, struct fan *f)
{
	for (int i = 0; i < v->members; i++) {
		struct member_result *r = fan_result(f, i);

		if (!r->asked || r->status || !r->done)
			continue;
		c->collect[i] = r->out.create.file;
		r->out.create.file = NULL;
	}
}

static bool looks_first(const struct changing *c);

int changing_take(struct changing *c, const struct view *v, struct fan *f, unsigned done)
{
	unsigned good = 0;
	int from;

	for (int i = 0; i < v->members; i++) /* who skipped it, or can't find the object, has nothing to tell */
		if (done >> i & 1 && !fan_result(f, i)->status)
			good |= 1u << i;
	from = afr_reader(c->a, v, NULL, false, ~good);
	if (from < 0)
		return looks_first(c) ? -EIO : -ESTALE; /* by ESTALE the kernel would do it once more */
	memcpy(c->out, &fan_result(f, from)->out, fop_info[c->fop].out_size);
	memset(&fan_result(f, from)->out, 0, fop_info[c->fop].out_size);
	return 0;
}

/* Of what was made, with the granter's answer; not if something was asked back meanwhile: it may have been this, and is given back. */
static void take_token(struct changing *c, const struct view *v, struct fan *f)
{
	const struct note_object *made = &c->note.object[c->note.objects - 1];
	cleanup_inode struct inode *inode = NULL;
	uint64_t given = 0;
	int granter;
	bool quiet;

	if (!c->note.objects || made->kind != NOTE_NEW)
		return;
	pthread_mutex_lock(&c->a->lock);
	quiet = c->a->recalled == c->recalled;
	pthread_mutex_unlock(&c->a->lock);
	granter = quiet ? view_granter(v, &made->gfid) : -1;
	if (granter >= 0 && fan_result(f, granter)->granted)
		inode = inode_find(c->a->x->inodes, &made->gfid);
	if (inode)
		given = token_given(c->a, inode, v->epoch);
	if (given && c->tries == 1 && !c->rq->moment) /* nobody else has found it yet: who would, waits for this change */
		c->rq->moment = given;
}

/* The object is recovered, then it is tried again; the error in the end. */
static int differ(struct changing *c, const struct view *v, const struct answers *s)
{
	struct pack p = { 0 };

	log_warning(c->a->x, c->rq, "members disagree about %s (%s at some): the object is recovered", fop_name(c->fop),
		    strerror(-s->first));
	if (++c->differed >= ATTEMPTS_ALIKE)
		return s->first;
	pack_u64(&p, v->epoch);
	pack_u64(&p, c->flight->sequence);
	afr_tell(c->a, view_mask(v, MEMBER_BACK), REPLICA_FAILED, &p);
	pack_free(&p);
	afr_leave_view(c->a, v->epoch, c->deadline);
	return 0;
}

/* So ESTALE tells that the name stands for something else, or nothing. */
static bool says_what_goes(const struct changing *c)
{
	return c->fop == FOP_rmdir || (c->note.objects && note_only_names(&c->note, c->note.objects - 1));
}

static bool makes(const struct changing *c)
{
	return c->fop == FOP_create || c->fop == FOP_mknod || c->fop == FOP_mkdir || c->fop == FOP_symlink;
}

/* By ESTALE a member says that a name stands for something else than was meant, that an object is gone, or the directory in which something was to be named: it has looked at that
 * before it did anything. */
static bool looks_first(const struct changing *c)
{
	return says_what_goes(c) || makes(c) || c->fop == FOP_link || c->fop == FOP_rename;
}

/* All say so: there is nothing to recover. */
static bool all_refuse(const struct changing *c, const struct view *v, struct fan *f, int err)
{
	return err == -ESTALE && looks_first(c) && answers_same_error(v, f) == -ESTALE;
}

/* Whoever waits sends all of it with each try, a write its data: so where it takes long, as while a recovery is owed, it is tried less and less often. Else
 * those that wait would take from the members what they need to come to an end with it. */
static unsigned pause_ms(struct changing *c, const struct answers *s)
{
	unsigned more;

	c->not_yet = s->view || !s->soon ? 0 : c->not_yet + 1;
	more = c->not_yet > SOON_TRIES ? c->not_yet - SOON_TRIES : 0;
	return more > 4 || (SOON_MS << more) > LATER_MS ? LATER_MS : SOON_MS << more;
}

/* A member that could not write it durably may not be able to do so any more, and then each write that others do would have to be recovered: from now on that is looked at first. */
static void note_unsynced(const struct changing *c, const struct view *v, struct fan *f)
{
	struct file *file = c->fop == FOP_write ? ((const struct write_in *)c->in)->file : NULL;

	if (!file || !(file->flags & O_DSYNC))
		return;
	for (int i = 0; i < v->members; i++) {
		int err = fan_result(f, i)->asked ? fan_result(f, i)->status : 0;

		if (v->state[i] == MEMBER_IN && (err == -EUNSYNCED || err == -EIO || err == -EROFS))
			file_unsynced(c->a, file, true);
	}
}

/* One round to all members. *over: no more attempts. */
static int round_of(struct changing *c, const struct view *v, bool *over)
{
	struct replica_stamp stamp = { v->epoch,
				       c->flight->sequence,
				       flights_settled(c->a),
				       MUTANT("new-time") ? clock_wall_ns() : c->time,
				       REPLICA_ROOM | REPLICA_UNSYNCED | (c->in_doubt ? REPLICA_DOUBT : 0),
				       session_tag(c->a->session) };
	struct answers s;
	struct fan *f;
	int err = 0;

	pthread_mutex_lock(&c->a->lock);
	c->recalled = c->a->recalled;
	pthread_mutex_unlock(&c->a->lock);
	f = fan_call(c->a, c->rq, limit_asks(c, v), c->fop, c->in, &stamp);
	if (!f)
		return -ENOMEM;
	c->sent = v->epoch;
	limit_decided(c, v, f, &stamp);
	lock_refused(c, v, f);
	note_unsynced(c, v, f);
	switch (answers_judge(c->a, v, f, &c->note, &s)) {
	case DONE:
		if (c->collect)
			changing_collect(c, v, f);
		take_token(c, v, f);
		err = changing_take(c, v, f, s.done);
		*over = true;
		break;
	case ALIKE:
		err = s.over ? s.first ? s.first : -EDQUOT : answers_same_error(v, f);
		err = err ? err : s.first ? s.first : -ESTALE;
		if (c->in_doubt && (err == -ENOENT || err == -EEXIST || err == -ENODATA || (looks_first(c) && err == -ESTALE)))
			err = -EIO; /* perhaps it was this change that made it so */
		c->clean = s.over || (err != -EROFS && !answer_may_be_done(err)) || all_refuse(c, v, f, err);
		if (err == -ENOROOM || err == -EUNSYNCED) {
			c->clean &= !c->in_doubt;
			err = err == -ENOROOM ? -ENOSPC : -EIO;
		}
		*over = true;
		break;
	case AGAIN:
		if (s.view)
			afr_view_stale(c->a, v->epoch);
		task_sleep_ms(pause_ms(c, &s));
		break;
	case SUSPECT:
		afr_suspect(c->a, v, s.suspect | s.full, s.error);
		afr_leave_view(c->a, v->epoch, c->deadline);
		break;
	case FAILED:
		err = s.error ? s.error : -EIO;
		*over = true;
		break;
	case DIFFER:
		err = differ(c, v, &s);
		*over = err;
		break;
	}
	fan_free(f);
	return err;
}

/* A change that failed may be done at some members: they must hear of it before it counts as settled. */
static void end_flight(struct changing *c, int err, uint64_t epoch)
{
	if (!c->flight)
		return;
	if (!err || c->clean) {
		flight_end(c->a, c->flight);
		free(c->flight);
	} else {
		flight_abandon(c->a, c->flight, epoch);
	}
	c->flight = NULL;
}

static int start_flight(struct changing *c)
{
	if (c->flight)
		return 0;
	c->flight = calloc(1, sizeof(*c->flight));
	if (!c->flight)
		return -ENOMEM;
	flight_begin(c->a, c->flight);
	c->time = clock_wall_ns(); /* later than that of all that it waited for */
	spans_sent(c->plan.spanned, c->plan.span, c->plan.spans, true);
	return 0;
}

static int place_append(struct changing *c);

static void let_go(struct changing *c)
{
	if (c->pinned)
		unpin_all(c->a, &c->plan);
	c->pinned = 0;
}

/* Tokens are kept until all members have answered, however often it is sent: else somebody else's change comes in between at some. */
static int hold(struct changing *c, uint64_t epoch)
{
	int err;

	if (c->pinned == epoch)
		return 0;
	let_go(c);
	err = pin_all(c->a, &c->plan, epoch, c->deadline);
	c->pinned = err ? 0 : epoch;
	return err;
}

/* It may be done, or yet be done in another view: what is believed of it may not hold. */
static void doubt(struct changing *c)
{
	for (unsigned i = 0; i < c->plan.objects; i++)
		afr_doubt(c->a, c->plan.object[i]);
}

/* What stands under the name now, or NULL. */
static int look_up(struct request *rq, struct xlator *x, const struct loc *loc, struct inode **inode)
{
	struct lookup_in in = { .loc = { .parent = loc->parent, .name = loc->name } };
	struct lookup_out out = { 0 };
	int err = afr_read(rq, x, FOP_lookup, &in, &out);

	*inode = err ? NULL : inode_ref(out.inode);
	fop_out_clear(FOP_lookup, &out);
	return err == -ENOENT ? 0 : err;
}

/* While it is not sent, or known not to be done, this client's own reads need not wait for it. */
void changing_under_way(struct changing *c, bool yes)
{
	if (!c->flight)
		return;
	mark_retrying(c, yes);
	spans_sent(c->plan.spanned, c->plan.span, c->plan.spans, yes);
}

/* Not for long, as others want the tokens: another change of this client may wait for one of them, and the lookup for that change. */
static int look_under_tokens(struct changing *c, const struct meant *m, struct inode **now)
{
	uint64_t before = c->rq->deadline_ns, soon = clock_ns() + MEANT_NS;
	int err;

	c->rq->deadline_ns = before && before < soon ? before : soon;
	err = look_up(c->rq, c->a->x, m->loc, now);
	c->rq->deadline_ns = before;
	return (err == -EIO || err == -ETIMEDOUT) && clock_ns() < c->deadline ? -EAGAIN : err;
}

/* With the tokens held nobody else changes it any more. What was seen there under the token costs nothing. -EAGAIN: they are given back, and it is to be tried again. */
static int check_meant(struct changing *c)
{
	int err = 0;

	if (!c->meant[0].loc)
		return 0;
	changing_under_way(c, false);
	for (unsigned i = 0; i < 2 && c->meant[i].loc && !err; i++) {
		const struct meant *m = &c->meant[i];
		cleanup_inode struct inode *now = NULL;

		if (m->inode && directory_stands(c->a, m->loc, m->inode))
			continue;
		err = look_under_tokens(c, m, &now);
		c->other = !err && now != m->inode;
		err = c->other ? c->in_doubt ? -EIO : -ESTALE : err;
	}
	if (err == -EAGAIN) {
		let_go(c);
		task_sleep_ms(SOON_MS);
		return err;
	}
	c->other &= !c->in_doubt;
	c->clean = err && !c->in_doubt;
	if (!err)
		changing_under_way(c, true);
	return err;
}

/* A member that is IN would refuse it, and others would do it. */
static int check_lock(struct changing *c, const struct view *v)
{
	if (!lock_given_up(c->a, c->rq, c->fop, c->in, view_mask(v, MEMBER_IN)))
		return 0;
	c->clean = !c->in_doubt;
	return -ENOTHELD;
}

static int attempt(struct changing *c, struct view *v, bool *over)
{
	int err = afr_view(c->a, c->deadline, v);

	if (err)
		return err;
	if (c->sent && c->sent != v->epoch && !c->doubted) { /* others see it as soon as it is settled */
		c->doubted = true;
		doubt(c);
	}
	/* What the answer tells of what was made must not be changed by others between finding that it is done and telling it. */
	if (c->sent && c->sent != v->epoch && !makes(c) && !MUTANT("send-blindly"))
		return earlier(c, v, over);
	err = hold(c, v->epoch);
	if (err == -EVIEW || err == -ENOTCONN || err == -ETIMEDOUT) { /* the granter, or the view, is another by now */
		afr_view_stale(c->a, v->epoch);
		task_sleep_ms(SOON_MS);
		return 0;
	}
	if (err)
		return err == -ERECOVERING ? -EIO : err;
	if (c->sent && c->sent != v->epoch && !MUTANT("send-blindly"))
		return earlier(c, v, over);
	if (!c->sent)
		err = check_meant(c);
	if (err == -EAGAIN)
		return 0;
	if (!err && !c->sent)
		err = check_lock(c, v);
	if (!err && c->append && !c->flight)
		err = place_append(c);
	if (!err)
		err = start_flight(c);
	if (!err)
		err = round_of(c, v, over);
	if (MUTANT("unpin-between"))
		let_go(c);
	return err;
}

static int run(struct changing *c)
{
	struct view v = { 0 };
	bool over = false, undone;
	int err = 0;

	while (!err && !over) {
		if (c->tries++) {
			mark_retrying(
				c, c->flight); /* if nothing is sent reads need not wait, such as those for an append's place */
			pthread_mutex_lock(&c->a->lock);
			c->a->retries++;
			pthread_mutex_unlock(&c->a->lock);
		}
		if (clock_ns() >= c->deadline)
			err = -EIO;
		else
			err = attempt(c, &v, &over);
	}
	undone = err && (c->tries > 1 || !c->clean);
	end_flight(c, err, v.epoch);
	if (undone) /* members know of it now: who reads from here on sees nothing of it, and who did before asks again */
		spans_undone(c->a, c->plan.spanned, c->plan.spans);
	let_go(c);
	mark_retrying(c, false);
	return err;
}

static void changing_init(struct changing *c, struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	memset(c, 0, offsetof(struct changing, note));
	c->flight = NULL;
	c->pinned = c->sent = c->time = 0;
	c->in_doubt = false;
	c->tries = c->differed = c->not_yet = 0;
	c->retrying = c->clean = c->doubted = false;
	c->append = NULL;
	c->collect = NULL;
	c->meant[0].loc = c->meant[1].loc = NULL;
	c->other = false;
	c->a = afr_of(x);
	c->rq = rq;
	c->fop = fop;
	c->in = in;
	c->out = out;
	c->deadline = afr_deadline(c->a, rq);
	note_of(fop, in, &c->note);
	note_expect(&c->note, rq);
}

static void size_unknown(struct afr *a, struct inode *inode)
{
	struct object *o = object_of(a, inode);

	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	o->size_known = false;
	pthread_mutex_unlock(&o->lock);
}

static void wrote(struct afr *a, struct inode *inode, uint64_t end)
{
	struct object *o = object_of(a, inode);

	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	if (end > o->size)
		o->size = end;
	pthread_mutex_unlock(&o->lock);
}

/* Where the file ends now, before the next append is placed. */
static void note_size(const struct changing *c, int err)
{
	const struct setattr_in *set = c->in;
	const struct write_out *written = c->out;

	switch ((int)c->fop) {
	case FOP_write:
		if (err)
			size_unknown(c->a, ((const struct write_in *)c->in)->file->inode);
		else
			wrote(c->a, ((const struct write_in *)c->in)->file->inode, written->offset + written->written);
		break;
	case FOP_setattr:
		size_unknown(c->a, set->file ? set->file->inode : set->inode);
		break;
	case FOP_fallocate:
		size_unknown(c->a, ((const struct fallocate_in *)c->in)->file->inode);
		break;
	case FOP_copy_range:
		size_unknown(c->a, ((const struct copy_range_in *)c->in)->to->inode);
		break;
	default:
		break;
	}
}

static int change(struct changing *c)
{
	int err = spans_lock(c->plan.spanned, c->plan.span, c->plan.spans, c->deadline);

	if (err)
		return err;
	err = run(c);
	note_size(c, err);
	if (err && !c->clean)
		doubt(c);
	spans_unlock(c->plan.spanned, c->plan.span, c->plan.spans);
	return err;
}

int afr_change(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	cleanup_changing struct changing c;
	int err;

	changing_init(&c, rq, x, fop, in, out);
	err = plan_change(&c);
	return err ? err : change(&c);
}

/* ---- writes ---- */

/* Where the file ends: as remembered while the token is held, else asked for. The caller has the whole file as its span. */
static int size_of(struct afr *a, struct request *rq, struct file *file, uint64_t *size)
{
	struct object *o = object_of(a, file->inode);
	struct getattr_in in = { file->inode, file };
	struct getattr_out out = { 0 };
	bool known;
	int err;

	if (!o)
		return -ENOMEM;
	pthread_mutex_lock(&o->lock);
	known = o->size_known && o->token == TOKEN_HELD;
	*size = o->size;
	pthread_mutex_unlock(&o->lock);
	if (known)
		return 0;
	err = afr_read(rq, a->x, FOP_getattr, &in, &out);
	if (err)
		return err;
	*size = out.attr.size;
	pthread_mutex_lock(&o->lock);
	o->size = out.attr.size;
	o->size_known = o->token == TOKEN_HELD;
	pthread_mutex_unlock(&o->lock);
	return 0;
}

/* An append is a write at the end, which is known, for nobody else changes the file while its token is here. */
static int place_append(struct changing *c)
{
	int err;

	c->placed = *c->append;
	c->placed.flags &= ~(uint32_t)WRITE_APPEND;
	err = size_of(c->a, c->rq, c->append->file, &c->placed.offset);
	c->in = &c->placed;
	note_of(FOP_write, &c->placed, &c->note);
	return err;
}

int afr_write(struct request *rq, struct xlator *x, const struct write_in *in, struct write_out *out)
{
	struct changing c;
	int err = afr_sync_doubtful(rq, x, in->file);

	if (err)
		return err;
	if (!(in->flags & WRITE_APPEND))
		return afr_change(rq, x, FOP_write, in, out);
	changing_init(&c, rq, x, FOP_write, in, out);
	c.append = in;
	err = plan_all(c.a, &c.plan, in->file->inode);
	return err ? err : change(&c);
}

/* ---- copies ---- */

/* So much at once: each member must be done with it within member-timeout. */
enum { COPY_MOST = 16 << 20 };

/* -EXDEV: to be copied by reading and writing. That is what remains when a file without a name is to be copied, and a member that has
 * joined since does not have it. */
static int source_everywhere(struct afr *a, const struct request *rq, struct file *from)
{
	struct view v;
	int err = afr_view(a, afr_deadline(a, rq), &v);

	for (int i = 0; i < v.members && !err; i++) {
		struct file *its = NULL;

		if (v.state[i] == MEMBER_IN && atomic_load(&a->up) >> i & 1 && file_at(a, from, i, &its) == -ENOENT)
			err = -EXDEV;
		file_unref(its);
	}
	return err;
}

int afr_copy_range(struct request *rq, struct xlator *x, const struct copy_range_in *in, struct copy_range_out *out)
{
	struct copy_range_in part = *in;
	int err = source_everywhere(afr_of(x), rq, in->from);

	if (part.length > COPY_MOST)
		part.length = COPY_MOST;
	return err ? err : afr_change(rq, x, FOP_copy_range, &part, out);
}

/* ---- names of directories ---- */

/* What stands under the name is what the members must find there, too: else they refuse (ESTALE). *other: it was another when the tokens were held. */
static int remove_seen(struct request *rq, struct xlator *x, const struct rmdir_in *in, struct rmdir_out *out, bool *other)
{
	cleanup_inode struct inode *victim = directory_known(afr_of(x), &in->loc);
	struct rmdir_in exact = *in;
	struct changing c;
	int err = victim ? 0 : look_up(rq, x, &in->loc, &victim);

	if (err || !victim)
		return err ? err : -ENOENT;
	exact.loc.inode = victim;
	changing_init(&c, rq, x, FOP_rmdir, &exact, out);
	c.meant[0] = (struct meant){ &exact.loc, victim };
	err = plan_name(c.a, &c.plan, &in->loc);
	if (!err && S_ISDIR(victim->type))
		err = plan_all(c.a, &c.plan, victim);
	if (err)
		return err;
	err = change(&c);
	*other = c.other;
	directory_changed(c.a, &in->loc);
	return err;
}

int afr_rmdir(struct request *rq, struct xlator *x, const struct rmdir_in *in, struct rmdir_out *out)
{
	bool other = true;
	int err = in->loc.parent && in->loc.name ? 0 : -EINVAL;

	for (int i = 0; i < SEEN_TRIES && !err && other; i++) {
		other = false;
		err = remove_seen(rq, x, in, out, &other);
		err = other ? 0 : err;
	}
	return other ? -ESTALE : err;
}

/* A directory that goes to another parent waits for all other such renames, so that no circle comes about; one that is replaced
 * must not get an entry at the same moment. *other: as above. */
static int rename_seen(struct request *rq, struct xlator *x, const struct rename_in *in, struct rename_out *out, bool *other)
{
	cleanup_inode struct inode *moved = NULL, *victim = NULL;
	bool exchange = in->flags & RENAME_EXCHANGE;
	int err = look_up(rq, x, &in->from, &moved);

	if (!err && moved && (S_ISDIR(moved->type) || exchange))
		err = look_up(rq, x, &in->to, &victim);
	if (err || !moved)
		return err ? err : -ENOENT;
	cleanup_changing struct changing c;

	changing_init(&c, rq, x, FOP_rename, in, out);
	err = plan_change(&c);
	if (!err && victim && S_ISDIR(victim->type) && victim != moved)
		err = plan_all(c.a, &c.plan, victim);
	c.plan.rename_token = in->from.parent != in->to.parent && (S_ISDIR(moved->type) || (victim && S_ISDIR(victim->type)));
	if (err)
		return err;
	if (S_ISDIR(moved->type) || exchange) {
		c.meant[0] = (struct meant){ &in->from, moved };
		c.meant[1] = (struct meant){ &in->to, victim };
	}
	err = change(&c);
	*other = c.other;
	directory_changed(c.a, &in->from);
	directory_changed(c.a, &in->to);
	if (!err)
		object_named(c.a, moved, in->to.parent, in->to.name);
	if (!err && exchange)
		object_named(c.a, victim, in->from.parent, in->from.name);
	return err;
}

int afr_rename(struct request *rq, struct xlator *x, const struct rename_in *in, struct rename_out *out)
{
	bool other = true;
	int err = 0;

	for (int i = 0; i < SEEN_TRIES && !err && other; i++) {
		other = false;
		err = rename_seen(rq, x, in, out, &other);
		err = other ? 0 : err;
	}
	return other ? -ESTALE : err;
}

/* ---- create ---- */

/* The name may be there already: then it is opened, and truncated if need be. */
static int open_existing(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	struct lookup_in find = { .loc = { .parent = in->loc.parent, .name = in->loc.name } };
	struct lookup_out found = { 0 };
	struct open_out opened = { 0 };
	struct open_in open;
	int err = afr_read(rq, x, FOP_lookup, &find, &found);

	if (err)
		return err;
	open = (struct open_in){ found.inode, in->flags & ~(uint32_t)(O_CREAT | O_EXCL) };
	err = S_ISREG(found.inode->type) ? afr_open(rq, x, &open, &opened) : S_ISDIR(found.inode->type) ? -EISDIR : -ENXIO;
	if (!err) {
		*out = (struct create_out){ found.inode, opened.file, found.attr };
		if (in->flags & O_TRUNC)
			out->attr.size = 0;
		return 0;
	}
	fop_out_clear(FOP_lookup, &found);
	return err;
}

static int create_new(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	struct file *files[REPLICAS_MAX] = { NULL };
	struct create_in exclusive = *in;
	struct changing c;
	int err;

	exclusive.flags = (in->flags & ~(uint32_t)O_TRUNC) | O_CREAT | O_EXCL;
	changing_init(&c, rq, x, FOP_create, &exclusive, out);
	c.collect = files;
	err = plan_of(c.a, FOP_create, in, &c.plan);
	if (!err)
		err = change(&c);
	if (err) { /* it may have been made, without anything to show for it */
		files_close(c.a, rq, files);
		return err;
	}
	out->file = opened_create(c.a, out->inode, in->flags & ~(uint32_t)(O_CREAT | O_EXCL | O_TRUNC), files);
	if (out->file)
		return 0;
	fop_out_clear(FOP_create, out);
	return -ENOMEM;
}

/* What is there may be removed by somebody else before it is opened: then it is made after all. */
static int create(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	int err = create_new(rq, x, in, out);

	for (int i = 0; i < CREATE_TRIES && err == -EEXIST && !(in->flags & O_EXCL); i++) {
		err = open_existing(rq, x, in, out);
		if (err == -ENOENT || err == -ESTALE)
			err = create_new(rq, x, in, out);
	}
	return err;
}

/* Who may make nothing more may still open what is there. */
int afr_create(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	int err = create(rq, x, in, out);

	return err == -EDQUOT && !(in->flags & O_EXCL) && !open_existing(rq, x, in, out) ? 0 : err;
}
