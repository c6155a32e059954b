/* SPDX-License-Identifier: Apache-2.0 */
/* A change that was sent in an earlier view: what became of it is known at every member that is IN, for the recovery told them. So one
 * answer is enough, whatever has happened to the objects since; only if it was not done it is sent again. */
#include <fcntl.h>

#include "change.h"

#include "change-time.h"

struct told {
	enum note_outcome outcome;
	uint64_t value;
	uint64_t since; /* epoch from which on the member knows all */
};

static int ask(struct changing *c, const struct view *v, int member, struct told *t)
{
	struct blob answer = { 0 };
	struct pack p = { 0 };
	struct unpack u;
	int err;

	pack_u64(&p, v->epoch);
	pack_u64(&p, c->flight->sequence);
	err = afr_verb(c->a, member, REPLICA_OUTCOME, NULL, &p, clock_ns() + c->a->member_timeout_ms * 1000000, &answer);
	if (err)
		return err;
	u = unpack_blob(&answer);
	t->outcome = unpack_u8(&u);
	t->value = unpack_u64(&u);
	t->since = unpack_u64(&u);
	free(answer.bytes);
	return u.failed ? -EPROTO : 0;
}

/* Who has no note of it says so with certainty only if it took part when the change was sent: after all members were started anew nobody
 * can tell. */
static int ask_all(struct changing *c, const struct view *v, struct told *t)
{
	uint64_t since = UINT64_MAX;
	int err = 0;

	for (unsigned k = 0; k < v->members; k++) {
		int i = v->order[k], one;

		if (v->state[i] != MEMBER_IN)
			continue;
		one = ask(c, v, i, t);
		if (one == -EVIEW || one == -ERECOVERING)
			return one;
		if (!one && t->outcome == OUTCOME_NONE && t->since <= c->sent)
			t->outcome = OUTCOME_NOT_DONE;
		if (!one && t->outcome != OUTCOME_NONE)
			return 0;
		since = !one && t->since < since ? t->since : since;
		err = one ? one : err;
	}
	t->since = since;
	return err;
}

/* An arbiter does not know how long files are. */
static unsigned knowing(const struct afr *a, unsigned members)
{
	return a->arbiter_at < REPLICAS_MAX ? members & ~(1u << a->arbiter_at) : members;
}

/* What stands under the name, if it is that object. */
static int find(struct changing *c, const struct loc *loc, const struct gfid *gfid, struct lookup_out *out)
{
	struct lookup_in in = { .loc = { .parent = loc->parent, .name = loc->name } };
	int err = afr_read(c->rq, c->a->x, FOP_lookup, &in, out);

	if (!err && !gfid_equal(&out->inode->gfid, gfid)) {
		fop_out_clear(FOP_lookup, out);
		err = -ENOENT;
	}
	return err;
}

static uint32_t mode_made(const struct changing *c)
{
	const struct create_in *create = c->in;
	const struct mkdir_in *mkdir = c->in;
	const struct mknod_in *mknod = c->in;

	switch ((int)c->fop) {
	case FOP_create:
		return S_IFREG | (create->mode & 07777 & ~create->umask);
	case FOP_mkdir:
		return S_IFDIR | (mkdir->mode & 07777 & ~mkdir->umask);
	case FOP_symlink:
		return S_IFLNK | 0777;
	default:
		return mknod->mode & ~(mknod->umask & 07777);
	}
}

/* Of what is not there any more: as it was made. */
static struct attr attr_made(const struct changing *c, const struct gfid *gfid)
{
	struct time when = time_of_ns(c->time);

	return (struct attr){ .gfid = *gfid,
			      .mode = mode_made(c),
			      .nlink = c->fop == FOP_mkdir ? 2 : 1,
			      .uid = c->rq->uid,
			      .gid = c->rq->gid,
			      .blksize = 4096,
			      .atime = when,
			      .mtime = when,
			      .ctime = when,
			      .btime = when };
}

/* It can't be looked at just now. All else tells that the name, or the object, is another's business by now: it may be marked (cluster/dht), or have moved. */
static bool unseen(int err)
{
	return err == -EIO || err == -ENOTCONN || err == -ETIMEDOUT || err == -ECANCELED || err == -ENOMEM;
}

/* Under the name is something else by now, or nothing: others have renamed it since, or removed it, while this waited for the view. */
static int find_elsewhere(struct changing *c, const struct gfid *gfid, struct lookup_out *found)
{
	struct getattr_in in = { .inode = inode_get(c->a->x->inodes, gfid, mode_made(c) & S_IFMT) };
	struct getattr_out out = { 0 };
	int err = in.inode ? afr_read(c->rq, c->a->x, FOP_getattr, &in, &out) : -ENOMEM;

	if (err && !unseen(err)) {
		out.attr = attr_made(c, gfid);
		err = 0;
	}
	if (err)
		inode_unref(in.inode);
	else
		*found = (struct lookup_out){ .inode = in.inode, .attr = out.attr };
	return err;
}

static int find_made(struct changing *c)
{
	const struct mknod_in *in = c->in; /* what makes something begins with where, and with the gfid */
	struct lookup_out found = { 0 };
	int err = find(c, &in->loc, &in->gfid, &found);

	if (err && !unseen(err))
		err = find_elsewhere(c, &in->gfid, &found);
	if (err)
		return err;
	if (c->fop == FOP_create)
		*(struct create_out *)c->out = (struct create_out){ .inode = found.inode, .attr = found.attr };
	else
		*(struct mknod_out *)c->out = (struct mknod_out){ found.inode, found.attr }; /* as of mkdir and symlink */
	return 0;
}

static int find_linked(struct changing *c)
{
	const struct link_in *in = c->in;
	struct lookup_out found = { 0 };
	struct getattr_in ask = { .inode = in->inode };
	struct getattr_out out = { 0 };
	int err = find(c, &in->loc, &in->inode->gfid, &found);

	out.attr = found.attr;
	if (err && !unseen(err)) /* it may have another name */
		err = afr_read(c->rq, c->a->x, FOP_getattr, &ask, &out);
	if (err == -ESTALE || err == -ENOENT) { /* or none any more */
		out.attr = (struct attr){ .gfid = in->inode->gfid, .mode = in->inode->type };
		err = 0;
	}
	if (!err)
		((struct link_out *)c->out)->attr = out.attr;
	fop_out_clear(FOP_lookup, &found);
	return err;
}

static int find_set(struct changing *c)
{
	const struct setattr_in *set = c->in;
	struct getattr_in in = { set->inode ? set->inode : set->file->inode, set->file };
	struct getattr_out out = { 0 };
	int err = afr_read(c->rq, c->a->x, FOP_getattr, &in, &out);

	if (!err)
		((struct setattr_out *)c->out)->attr = out.attr;
	return err;
}

/* It is done, but nobody answers with what came of it: who did it has gone, and who is there was healed since, and has no note of how it came about; or others have renamed it, or
 * removed it. No other error than EIO: after ESTALE the kernel, after an older layout cluster/dht, would do it once more, and tell the program that somebody else was faster. */
static int look(struct changing *c)
{
	int err;

	changing_under_way(c, false); /* this reads what it changed itself */
	err = c->fop == FOP_setattr ? find_set(c) : c->fop == FOP_link ? find_linked(c) : find_made(c);
	if (err)
		log_warning(c->a->x, c->rq,
			    "%s was done in an earlier view, but ends with EIO: what came of it can't be looked at (%s)",
			    fop_name(c->fop), error_text(err));
	return err ? -EIO : 0;
}

/* The results that only the members have: of what there is now. */
static int fetch(struct changing *c, const struct view *v, bool *over)
{
	struct replica_stamp stamp = { v->epoch, c->flight->sequence, flights_settled(c->a),
				       c->time,	 REPLICA_ASK,	      session_tag(c->a->session) };
	struct fan *f = fan_call(c->a, c->rq, view_mask(v, MEMBER_IN), c->fop, c->in, &stamp);
	bool again = false;
	unsigned done = 0;
	int err = 0;

	if (!f)
		return -ENOMEM;
	for (int i = 0; i < v->members; i++) {
		int status = fan_result(f, i)->asked ? fan_result(f, i)->status : -ENOENT;

		done |= status ? 0 : 1u << i;
		again |= status == -EVIEW || status == -ERECOVERING || status == -ENOTCONN || status == -ETIMEDOUT;
	}
	if (done && c->collect)
		changing_collect(c, v, f);
	done = MUTANT("arbiter-tells") ? done : knowing(c->a, done);
	*over = done || !again;
	if (*over)
		err = done ? changing_take(c, v, f, done) : look(c);
	else
		task_sleep_ms(SOON_MS);
	fan_free(f);
	return err;
}

/* Where a recovery has done it, it is in memory alone. */
static int make_durable(struct changing *c, struct file *file)
{
	return !MUTANT("recovered-unsynced") && afr_sync_written(c->rq, c->a->x, file) ? -EIO : 0;
}

static int take(struct changing *c, const struct view *v, uint64_t value, bool *over)
{
	const struct write_in *write = c->in;
	const struct copy_range_in *copy = c->in;

	*over = true;
	switch ((int)c->fop) {
	case FOP_write:
		*(struct write_out *)c->out = (struct write_out){ (uint32_t)value, write->offset };
		return make_durable(c, write->file);
	case FOP_copy_range:
		((struct copy_range_out *)c->out)->copied = value;
		return make_durable(c, copy->to);
	case FOP_setattr:
	case FOP_link:
	case FOP_create:
	case FOP_mknod:
	case FOP_mkdir:
	case FOP_symlink:
		return fetch(c, v, over);
	default:
		return 0;
	}
}

/* It is not done. An append gets another place, for the file may end elsewhere by now. */
static int send_again(struct changing *c, enum note_outcome outcome)
{
	if (outcome == OUTCOME_NONE && c->append)
		return -EIO;
	c->in_doubt |= outcome == OUTCOME_NONE; /* of this try or of one before */
	c->sent = 0;
	c->time = clock_wall_ns();
	/* A member may have done it in the earlier view, and shown it to who waits now; and others may do something before it is done again. */
	if (!MUTANT("keep-seen"))
		spans_undone(c->a, c->plan.spanned, c->plan.spans);
	if (!c->append)
		return 0;
	flight_end(c->a, c->flight);
	free(c->flight);
	c->flight = NULL;
	spans_sent(c->plan.spanned, c->plan.span, c->plan.spans, false);
	return 0;
}

/* It may have been done, and others may have changed the same in a view between, of which nobody knows any more: what they did would be
 * undone if it were done once more. */
static bool others_went_on(const struct changing *c, const struct told *t)
{
	return t->outcome == OUTCOME_NONE && t->since > c->sent + 1;
}

int earlier(struct changing *c, const struct view *v, bool *over)
{
	struct told t = { 0 };
	int err = ask_all(c, v, &t);

	if (err == -EVIEW)
		afr_view_stale(c->a, v->epoch);
	if (err) {
		task_sleep_ms(SOON_MS);
		return 0;
	}
	if (t.outcome == OUTCOME_DONE)
		return take(c, v, t.value, over);
	*over = t.outcome == OUTCOME_UNKNOWN || others_went_on(c, &t);
	return *over ? -EIO : send_again(c, t.outcome);
}
