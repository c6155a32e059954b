/* SPDX-License-Identifier: Apache-2.0 */
/* What the members answered to a change, and what that means for it. */
#include <errno.h>

#include "change.h"

/* A reason that tells of the member, not of the request. */
static bool blames_member(int err)
{
	return err == -EIO || err == -ENOTCONN || err == -ETIMEDOUT || err == -ENOMEM || err == -ESTALE || err == -EROFS ||
	       err == -ENODEV || err == -ENXIO || err == -ENFILE || err == -EMFILE || err == -EPROTO || err == -EBADF ||
	       err == -ECANCELED;
}

static void sort_answer(struct answers *s, int member, int err)
{
	unsigned bit = 1u << member;

	if (!err) {
		s->done |= bit;
	} else if (err == -EVIEW) {
		s->view |= bit;
	} else if (err == -ERECOVERING) {
		s->soon |= bit;
	} else if (err == -EOVERLIMIT) {
		s->over |= bit;
	} else if (err == -EASKFIRST) {
		s->asks |= bit;
	} else if (err == -ENOSPC || err == -ENOROOM || err == -EDQUOT) {
		s->full |= bit;
		s->error = err == -ENOROOM ? -ENOSPC : err;
	} else if (err == -EUNSYNCED) {
		s->suspect |= bit;
		s->error = -EIO;
	} else if (blames_member(err)) {
		s->suspect |= bit;
		s->error = s->error && err != -EROFS ? s->error : err;
	} else {
		s->other |= bit;
		s->first = s->first ? s->first : err;
	}
}

bool afr_quorum_without(const struct view *v, unsigned gone)
{
	struct view less = *v;

	for (int i = 0; i < v->members; i++)
		if (gone >> i & 1)
			less.state[i] = MEMBER_OUT;
	return view_has_quorum(&less);
}

/* All refuse with the same error, which is not that they can't be reached. Who was not asked, for it has no name for the object any more, would have said ESTALE as others do. */
int answers_same_error(const struct view *v, struct fan *f)
{
	int err = 0;

	for (int i = 0; i < v->members; i++) {
		int status = fan_result(f, i)->status == -ENAMELESS ? -ESTALE : fan_result(f, i)->status;

		if (v->state[i] != MEMBER_IN)
			continue;
		if (!status || (err && status != err) || status == -ENOTCONN || status == -ETIMEDOUT || status == -ECANCELED)
			return 0;
		err = status;
	}
	return err;
}

/* Members that copied, but not alike: what they copied from differs, after a power cut of all that took some of it. (An arbiter copies nothing.) */
static bool copies_differ(const struct view *v, struct fan *f, const struct note *n, unsigned done)
{
	const struct member_result *first = NULL;

	for (int i = 0; n->fop == FOP_copy_range && i < v->members; i++) {
		const struct member_result *r = fan_result(f, i);

		if (!(done >> i & 1) || v->state[i] != MEMBER_IN || r->status || i == v->arbiter)
			continue;
		if (first && r->out.copy_range.copied != first->out.copy_range.copied)
			return true;
		first = r;
	}
	return false;
}

/* The first member decides: where it refused nobody is to have done it, and what others have done all the same is undone. But it is not told to be refused before that: the first
 * may leave, and then what another has done stays. */
static enum outcome weigh_limit(const struct view *v, struct answers *s)
{
	int first = view_first(v);
	bool refused = first >= 0 && s->over >> first & 1;

	if (s->over &&
	    ((!s->done && !s->full) || (refused && MUTANT("refused-is-clean")))) /* the first may have found another reason */
		return ALIKE;
	s->error = s->first = -EDQUOT;
	if (!refused && s->full)
		return afr_quorum_without(v, s->full) ? SUSPECT : FAILED;
	return s->over ? DIFFER : AGAIN;
}

static enum outcome weigh(const struct view *v, struct fan *f, const struct note *n, struct answers *s)
{
	unsigned bad = s->suspect | s->full;

	if (s->view || s->soon)
		return AGAIN;
	if (!bad && !s->other && copies_differ(v, f, n, s->done)) {
		s->first = -EIO;
		return DIFFER;
	}
	if (!s->suspect && (s->over || s->asks))
		return weigh_limit(v, s);
	if (!bad && !s->other)
		return s->done ? DONE : ALIKE;
	if (MUTANT("done-by-one") && s->done)
		return DONE;
	if (answers_same_error(v, f) || (!s->done && !bad)) /* done nowhere: whoever is right, nothing has happened */
		return ALIKE;
	if (s->error == -EROFS && !s->done && !s->other)
		return FAILED;
	if (bad)
		return afr_quorum_without(v, bad) || (!s->full && s->error != -EROFS) ? SUSPECT : FAILED;
	return DIFFER;
}

/* A member that is BACK could not do it: what it touches is pending there from now on. */
static int skip(struct afr *a, int member, const struct view *v, const struct note *n)
{
	struct pack p = { 0 };

	pack_u64(&p, v->epoch);
	for (unsigned i = 0; i < n->objects; i++)
		if (n->object[i].kind != NOTE_NEW ||
		    voucher_known(a, &n->object[i].gfid)) /* else healing its directory brings it */
			pack_named(a, &p, &n->object[i].gfid);
	return afr_verb(a, member, REPLICA_SKIP, NULL, &p, clock_ns() + a->member_timeout_ms * 1000000, NULL);
}

/* A member that did the change says that no name leads to its object. */
static bool has_no_name(struct afr *a, const struct view *v, struct fan *f, struct inode *inode)
{
	struct blob links = { 0 };
	struct unpack u;
	bool none = false;

	for (int i = 0; i < v->members; i++) {
		if (!fan_result(f, i)->asked || fan_result(f, i)->status)
			continue;
		if (afr_verb(a, i, REPLICA_LINKS, inode, NULL, clock_ns() + a->member_timeout_ms * 1000000, &links))
			continue;
		u = unpack_blob(&links);
		none = !unpack_u32(&u) && !u.failed;
		break;
	}
	free(links.bytes);
	return none;
}

/* It may have lost its name since the member was asked: that it could not be found there does not mean that nobody has it open there. */
static int nameless_at(struct afr *a, const struct view *v, struct fan *f, int member, const struct note *n)
{
	cleanup_inode struct inode *inode = inode_find(a->x->inodes, &n->object[0].gfid);
	int err;

	if (!inode || !has_no_name(a, v, f, inode))
		return -ESTALE;
	err = object_absent(a, inode, member);
	return err == -ENOENT ? -ENAMELESS : err;
}

/* A copy that was not done where its target is, or may be: the source has no name any more, and is not there; or it is, and pending, where
 * nobody was asked about the target. */
static bool lacks_source(struct afr *a, const struct view *v, int member, const struct note *n, int err)
{
	bool back = v->state[member] == MEMBER_BACK;
	cleanup_inode struct inode *to = NULL;

	if (n->fop != FOP_copy_range || MUTANT("copy-of-nothing"))
		return false;
	if (err != -ENAMELESS && err != -ESTALE && (err != -EPENDING || !back))
		return false;
	to = inode_find(a->x->inodes, &n->object[0].gfid);
	return to && (back || object_resolve(a, to, member) != -ENOENT);
}

/* That it can't be found there was seen without regard to the view: in a later one, what the others did in this one may be undone by now. */
static int still_in(struct afr *a, const struct view *v, int member)
{
	struct pack p = { 0 };

	pack_u64(&p, v->epoch);
	pack_u64(&p, 0); /* no change: only whether the member is in that epoch */
	return afr_verb(a, member, REPLICA_OUTCOME, NULL, &p, clock_ns() + a->member_timeout_ms * 1000000, NULL);
}

static int status_at(struct afr *a, const struct view *v, struct fan *f, int member, const struct note *n)
{
	int err = fan_result(f, member)->status;

	if (lacks_source(a, v, member, n, err))
		return v->state[member] == MEMBER_BACK ? skip(a, member, v, n) : -ESTALE;
	if (err == -ESTALE && n->object[0].kind != NOTE_NAME)
		err = nameless_at(a, v, f, member, n);
	/* What has no name any more can't be found by a member that joined since: nothing is lost there, save that it can't get one. */
	if (err == -ENAMELESS && (n->fop == FOP_link || n->object[0].kind == NOTE_NAME)) /* a directory that is gone */
		return -ENOENT;
	if (err == -ENAMELESS && v->state[member] == MEMBER_IN)
		return still_in(a, v, member);
	if (err == -EPENDING || err == -ENAMELESS)
		return 0;
	if (v->state[member] == MEMBER_BACK && err && err != -EVIEW && err != -ERECOVERING)
		return skip(a, member, v, n);
	return err;
}

/* A file without a name that this member does not have, and no other did the change. */
static bool gone_at(const struct view *v, struct fan *f, int member, const struct note *n)
{
	int err = fan_result(f, member)->status;

	if ((err != -ENAMELESS && err != -ESTALE) || n->object[0].kind == NOTE_NAME)
		return false;
	for (int i = 0; i < v->members; i++)
		if (fan_result(f, i)->asked && !fan_result(f, i)->status)
			return false;
	return true;
}

/* It did it, or some of it, or is doing it yet. */
bool answer_may_be_done(int err)
{
	return !err || err == -ENOSPC || err == -EDQUOT || (blames_member(err) && err != -EROFS);
}

/* A member that is BACK, after those that are IN. If they refused what it may have done, for it has not everything yet, it must be healed
 * there. */
static void sort_back(struct afr *a, const struct view *v, struct fan *f, int member, const struct note *n, struct answers *s)
{
	int err = fan_result(f, member)->status;

	if (s->done)
		err = status_at(a, v, f, member, n);
	else if (err == -EVIEW || err == -ERECOVERING)
		;
	else if (answer_may_be_done(err) && !s->view && !s->soon)
		err = skip(a, member, v, n);
	else
		err = 0;
	if (s->done || err)
		sort_answer(s, member, err);
}

enum outcome answers_judge(struct afr *a, const struct view *v, struct fan *f, const struct note *n, struct answers *s)
{
	*s = (struct answers){ 0 };
	for (unsigned k = 0; k < v->members; k++) {
		int i = v->order[k];

		if (v->state[i] != MEMBER_IN)
			continue;
		if (!gone_at(v, f, i, n))
			sort_answer(s, i, status_at(a, v, f, i, n));
	}
	for (int i = 0; i < v->members; i++)
		if (v->state[i] == MEMBER_BACK)
			sort_back(a, v, f, i, n, s);
	return weigh(v, f, n, s);
}
