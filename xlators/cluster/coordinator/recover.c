/* SPDX-License-Identifier: Apache-2.0 */
/* After a change of view: what was under way is made equal at all members, and they are told which changes are done. */
#include <assert.h>

#include "coordinator.h"

enum { NAME_ROUNDS = 8 };

struct recovery {
	struct coordinator *c;
	int truth;
	struct view view;
	pthread_mutex_t lock; /* guards what follows */
	struct task_cond done;
	struct union_note *next;
	unsigned running;
	bool again;		    /* only what waits */
	bool last;		    /* nothing gets better by waiting any more */
	bool doubtful;		    /* something was not found that may be somewhere */
	unsigned bad;		    /* members that could not be made equal */
	unsigned undone;	    /* names of the truth */
	bool tenants;		    /* it failed at what a tenant's client has made */
	size_t missed;		    /* directories that were known to be missed when it began */
	struct union_note **client; /* notes of clients */
	size_t clients;
	int err;
};

/* Errors that leave open whether it was done. */
static bool is_vague(int status)
{
	return status == -EIO || status == -ETIMEDOUT || status == -ECANCELED || status == -ENOTCONN || status == -ENOMEM;
}

/* There was no room for it; or no name left of what was to get another one, for the unlink of the last came before the link there, and was answered. */
static bool can_not(const struct union_note *u, int member)
{
	int status = u->has[member] ? u->status[member] : 0;

	return status == -ENOSPC || status == -EDQUOT ||
	       (u->note.fop == FOP_link && status == -ENOENT && !MUTANT("link-nameless"));
}

/* How unfit the member is to be the truth. One that does not know itself whether it did a change is worst. If somebody could not do a
 * change, it is better than those that did it: they can undo it, but it can't do it. */
static unsigned unfitness(struct coordinator *c, int member)
{
	unsigned vague = 0, able = 0;

	for (const struct union_note *u = c->notes; u; u = u->next) {
		bool somebody_can_not = false;

		if (u->note.resolved)
			continue;
		for (int i = 0; i < c->members; i++)
			somebody_can_not |= can_not(u, i);
		vague += u->has[member] && is_vague(u->status[member]);
		able += somebody_can_not && !can_not(u, member);
	}
	return vague * 1000 + able;
}

/* The member that every other is made equal to: any that is IN has all that is acknowledged; the most senior of the fittest. But while a
 * recovery is owed only the first has it. */
static int choose_truth(struct coordinator *c, const struct view *v, bool only_first)
{
	int best = view_first(v);

	for (unsigned k = 0; k < v->members && best >= 0 && !only_first; k++) {
		int i = v->order[k];

		if (v->state[i] == MEMBER_IN && i != v->arbiter && unfitness(c, i) < unfitness(c, best))
			best = i;
	}
	return best;
}

/* Each of them once. *lacks: the member does not have a directory. */
static int each_name_to(struct recovery *r, struct request *rq, const struct note *n, int to, bool *lacks)
{
	int err = 0;

	*lacks = false;
	for (unsigned i = 0; i < n->objects && (!err || err == -EAGAIN); i++) {
		const struct note_object *o = &n->object[i];
		int one = o->kind == NOTE_NAME ? heal_name(&r->c->heal, rq, &o->gfid, o->name, r->truth, to) : 0;

		*lacks |= one == -ESRCH;
		err = one && one != -ENOENT && one != -ESRCH ? one : err;
	}
	return err;
}

/* Names may wait for each other, as those of a rename do. */
static int names_to(struct recovery *r, struct request *rq, const struct note *n, int to, bool *lacks)
{
	int err = -EAGAIN;

	for (int round = 0; round < NAME_ROUNDS && err == -EAGAIN; round++)
		err = each_name_to(r, rq, n, to, lacks);
	return err;
}

/* -ESRCH: the member lacks some of them, or the truth does not know yet where it has them; the others are equal. */
static int objects_to(struct recovery *r, struct request *rq, const struct union_note *u, int to)
{
	const struct note *n = &u->note;
	bool lacks = false;
	int err = 0;

	for (unsigned i = 0; i < n->objects && !err; i++) {
		const struct note_object *o = &n->object[i];
		bool whole = o->kind == NOTE_NEW;

		if (o->kind == NOTE_NAME || note_only_names(n, i))
			continue;
		err = whole ? heal_whole(&r->c->heal, rq, &o->gfid, u->truth, to)
			    : heal_object(&r->c->heal, rq, &o->gfid, u->truth, to, o->kind == NOTE_DATA ? o->start : 0,
					  o->kind == NOTE_DATA ? o->end : 0);
		lacks |= err == -ESRCH || (err == -ENOENT && whole && heal_adrift(&r->c->heal, rq, &o->gfid, to));
		err = err == -ENOENT || err == -ESRCH ? 0 : err;
	}
	return err || !lacks ? err : -ESRCH;
}

/* -ESRCH: as objects_to(), or it lacks a directory that a name is in. */
static int note_to(struct recovery *r, const struct union_note *u, int to)
{
	bool lacks = false;
	struct request rq;
	int err = heal_request(&r->c->heal, &rq);

	if (!err)
		err = names_to(r, &rq, &u->note, to, &lacks);
	if (!err)
		err = objects_to(r, &rq, u, to);
	heal_request_end(&rq);
	return !err && lacks ? -ESRCH : err;
}

/* Until what it waits for has been healed by another task. While there is other work to be done that comes first. */
static int again_to(struct recovery *r, const struct union_note *u, int to)
{
	int err = MUTANT("recover-nothing") ? 0 : note_to(r, u, to);

	for (int round = 0; round < NAME_ROUNDS && err == -EAGAIN && r->last; round++) {
		task_sleep_ms(20);
		err = note_to(r, u, to);
	}
	return err;
}

/* What the truth did: this becomes of it everywhere. -EIO: it does not know itself. */
static int outcome_of(const struct union_note *u)
{
	if (!u->has[u->truth])
		return -ECANCELED;
	return !u->status[u->truth] ? 0 : is_vague(u->status[u->truth]) ? -EIO : -ECANCELED;
}

/* The same for clients: what is not done may be there in part, where the truth had no more room. */
static int told_of(const struct union_note *u)
{
	int status = u->has[u->truth] ? u->status[u->truth] : 0, outcome = outcome_of(u);

	return outcome && (status == -ENOSPC || status == -EDQUOT) ? -ENOSPC : outcome;
}

/* And so much of it. */
static uint64_t value_of(const struct union_note *u)
{
	return u->has[u->truth] && !u->status[u->truth] ? u->value[u->truth] : u->note.value;
}

/* The member's own note says what it is by now; in case this recovery does not come to its end, and it is the truth of the next. */
static int say_status(struct recovery *r, const struct union_note *u, int to, int status)
{
	struct note n = u->note;
	struct pack p = { 0 };

	if (session_is_nobody(n.session))
		return 0;
	n.status = status;
	n.value = value_of(u);
	n.resolved = false;
	pack_note(&p, &n);
	return tell_member(r->c, to, REPLICA_RESOLVE, &p);
}

static bool did(const struct union_note *u, int member)
{
	return u->has[member] && !u->status[member];
}

static bool is_content(const struct note *n, unsigned object)
{
	return n->object[object].kind != NOTE_NAME && !note_only_names(n, object);
}

static bool is_of_one_object(const struct note *a, const struct note *b)
{
	for (unsigned i = 0; i < a->objects; i++)
		for (unsigned k = 0; k < b->objects && is_content(a, i); k++)
			if (is_content(b, k) && gfid_equal(&a->object[i].gfid, &b->object[k].gfid))
				return true;
	return false;
}

/* Who is made equal in what one note is about is so in all of that object: what only that member has done of it goes, what only the truth has done comes. So of such other
 * changes the member does not know either from then on, until each has had its turn. (Names are logged, of whatever directory they are: is_undone().) */
static int say_others(struct recovery *r, const struct union_note *u, int to)
{
	int err = 0;

	for (size_t i = 0; i < r->clients && !err && !MUTANT("spoil-others"); i++) {
		struct union_note *other = r->client[i];

		if (other == u || (other->equal | other->doubted) >> to & 1 || did(other, to) == did(other, u->truth) ||
		    !is_of_one_object(&u->note, &other->note))
			continue;
		err = say_status(r, other, to, -EIO);
		if (!err)
			other->doubted |= 1u << to;
	}
	return err;
}

/* A member must not be spoiled for the sake of one that is gone: whoever is left would know no more what was done. */
static int truth_answers(struct recovery *r, int truth)
{
	cleanup_inode struct inode *root = NULL;
	struct request rq;
	int err = heal_request(&r->c->heal, &rq);

	if (!err)
		err = heal_find(&r->c->heal, &rq, &gfid_root, -1, truth, &root);
	heal_request_end(&rq);
	return err;
}

static bool scrub_is_owed(struct recovery *r)
{
	bool owed;

	pthread_mutex_lock(&r->c->lock);
	owed = r->c->owed.scrub;
	pthread_mutex_unlock(&r->c->lock);
	return owed;
}

/* A directory that names it is on no list, since the power took what the lists said. So it waits for the scrub that is owed; until that has ended
 * nobody reads the member. */
static bool waits_for_scrub(struct recovery *r, int err)
{
	return err == -EAGAIN && r->last && scrub_is_owed(r);
}

/* That a member lacks a directory tells of lists that the power took. A tenant's client can bring that about by what it sends members, as often as it likes; so of
 * its changes it tells something only where a scrub is owed already. */
static bool is_doubtful(struct recovery *r, const struct union_note *u)
{
	return !u->note.tenants || scrub_is_owed(r) || MUTANT("scrub-for-liars");
}

/* ---- what no list told of ---- */

static int is_missed(void *recovery, const struct gfid *directory)
{
	struct recovery *r = recovery;
	cleanup_inode struct inode *inode = NULL;
	struct request rq;
	int err = heal_request(&r->c->heal, &rq);

	if (!err && !MUTANT("forget-missed"))
		heal_find(&r->c->heal, &rq, directory, -1, r->truth, &inode);
	heal_request_end(&rq);
	pthread_mutex_lock(&r->lock);
	err = err ? err : missed_add(r->c, directory, inode);
	pthread_mutex_unlock(&r->lock);
	return err;
}

static int tell_lacking(struct recovery *r, const struct note *n, int to)
{
	struct request rq;
	int err = heal_request(&r->c->heal, &rq);

	for (unsigned i = 0; i < n->objects && !err; i++)
		if (!note_only_names(n, i))
			err = heal_lacking(&r->c->heal, &rq, &n->object[i].gfid, r->truth, to, is_missed, r);
	heal_request_end(&rq);
	return err;
}

/* In the end: nothing that is known of gives the member what a client changed at the truth. True: the directories that lead to it are missed, so the
 * recovery begins anew. */
static bool lacks_directories(struct recovery *r, const struct union_note *u, int to, int *err)
{
	bool lacks;
	int failed;

	if (!r->last || (*err != -ESRCH && *err != -EAGAIN) || session_is_nobody(u->note.session) || MUTANT("leave-lacking") ||
	    !is_doubtful(r, u))
		return false;
	failed = tell_lacking(r, &u->note, to);
	*err = failed ? failed : *err;
	pthread_mutex_lock(&r->lock);
	lacks = !failed && r->c->missed.count > r->missed;
	r->doubtful |= lacks;
	pthread_mutex_unlock(&r->lock);
	return lacks;
}

/* *blamed: whose fault it is, if it fails. */
static int make_equal(struct recovery *r, const struct union_note *u, int to, int *blamed)
{
	int err = MUTANT("spoil-blindly") ? 0 : truth_answers(r, u->truth);

	*blamed = err ? u->truth : to;
	if (!err)
		err = say_status(r, u, to, -EIO);
	if (!err)
		err = say_others(r, u, to);
	if (!err)
		err = again_to(r, u, to);
	if (lacks_directories(r, u, to, &err))
		return 0; /* its note says as yet that it does not know */
	if (err == -ESRCH ||
	    waits_for_scrub(r, err)) { /* what names it is yet to be healed; in the end, nothing that is known of does */
		bool doubtful = r->last && is_doubtful(r, u);

		err = r->last ? 0 : -EAGAIN;
		pthread_mutex_lock(&r->lock);
		r->doubtful |= doubtful;
		pthread_mutex_unlock(&r->lock);
	}
	if (!err)
		err = say_status(r, u, to, outcome_of(u) == -ECANCELED ? -ENOTDONE : outcome_of(u));
	if (err == -EIO && atomic_load(&r->c->heal.failed) >> u->truth & 1)
		*blamed = u->truth; /* else the good ones would be dropped, it would stay the truth, and fail again */
	atomic_fetch_and(&r->c->heal.failed, ~(1u << to)); /* it may be the truth of another note, and only then it counts */
	return err;
}

/* A timeout may be any member's; but where the truth is blamed nobody else was asked. */
static bool may_be_anybodys(int err, bool truth)
{
	return err == -ENOTCONN || err == -EVIEW || (err == -ETIMEDOUT && !truth);
}

/* What a client can bring about that sent members different things: no fault of theirs. */
static bool is_of_its_making(const struct union_note *u, int err)
{
	switch (err) {
	case -EAGAIN:
	case -ESRCH:
	case -ENOENT:
	case -EEXIST:
	case -ENOTEMPTY:
	case -ENOTDIR:
	case -EISDIR:
	case -EINVAL:
	case -ELOOP:
	case -EMLINK:
		return u->note.tenants;
	default:
		return false;
	}
}

/* It may pass, as where a directory comes to its place by another note; else the set would never come to an end with it. Then the copies of that tenant's objects
 * differ until a scrub, and nobody knows what became of the change. */
enum { TENANTS_TRIES = 1 };

/* True: it is left as it is. */
static bool leave_unequal(struct recovery *r, const struct union_note *u, int to, int err)
{
	if (r->c->tenants_failed < TENANTS_TRIES || !is_of_its_making(u, err))
		return false;
	log_error(
		r->c->x, NULL,
		"member %d can't be made equal to member %d in what a tenant's client has changed: %s; the copies differ until a scrub",
		to, u->truth, error_text(err));
	return !say_status(r, u, to, -EIO);
}

static void recover_note(struct recovery *r, struct union_note *u)
{
	u->waits = false;
	for (int to = 0; to < r->view.members; to++) {
		int err, blamed;

		if (to == u->truth || r->view.state[to] != MEMBER_IN)
			continue;
		err = make_equal(r, u, to, &blamed);
		if (err == -EAGAIN && !r->last) {
			u->waits = true;
			continue;
		}
		if (!err)
			u->equal |= 1u << to;
		if (!err || leave_unequal(r, u, to, err))
			continue;
		log_warning(r->c->x, NULL, "member %d can't be made equal to member %d after a change of view: %s", to,
			    u->truth, error_text(err));
		pthread_mutex_lock(&r->lock);
		if (!may_be_anybodys(err, blamed == u->truth) && !is_of_its_making(u, err))
			r->bad |= 1u << blamed;
		r->tenants |= is_of_its_making(u, err);
		r->err = err;
		pthread_mutex_unlock(&r->lock);
	}
}

static struct union_note *next_note(struct recovery *r)
{
	struct union_note *u;

	pthread_mutex_lock(&r->lock);
	while (r->next && (r->next->note.resolved || (r->again && !r->next->waits)))
		r->next = r->next->next;
	u = r->err ? NULL : r->next;
	if (u)
		r->next = u->next;
	pthread_mutex_unlock(&r->lock);
	return u;
}

static void worker(void *arg)
{
	struct recovery *r = arg;
	struct union_note *u;

	while ((u = next_note(r)))
		recover_note(r, u);
	pthread_mutex_lock(&r->lock);
	r->running--;
	task_cond_broadcast(&r->done);
	pthread_mutex_unlock(&r->lock);
}

/* Notes of clients are few, and may be of the same objects: one after the other. Those of a cold start are each of another object. */
static void run(struct recovery *r, unsigned workers)
{
	for (unsigned i = 0; i < workers; i++) {
		pthread_mutex_lock(&r->lock);
		r->running++;
		pthread_mutex_unlock(&r->lock);
		if (task_spawn(NULL, worker, r)) {
			pthread_mutex_lock(&r->lock);
			r->err = --r->running ? r->err : -ENOMEM; /* others do the work */
			pthread_mutex_unlock(&r->lock);
		}
	}
	pthread_mutex_lock(&r->lock);
	while (r->running)
		task_cond_wait(&r->done, &r->lock, NO_DEADLINE);
	pthread_mutex_unlock(&r->lock);
}

static unsigned waiting(const struct coordinator *c)
{
	unsigned count = 0;

	for (const struct union_note *u = c->notes; u; u = u->next)
		count += u->waits;
	return count;
}

/* A directory may not be in its place before another note's names are. */
static void run_all(struct recovery *r, unsigned workers)
{
	unsigned left = ~0u, before;

	do {
		before = left;
		r->next = r->c->notes;
		run(r, workers);
		r->again = true;
		left = waiting(r->c);
	} while (!r->err && left && left < before);
	if (r->err || !left)
		return;
	r->last = true;
	r->next = r->c->notes;
	run(r, workers);
}

static bool has_names(const struct note *n)
{
	for (unsigned i = 0; i < n->objects; i++)
		if (n->object[i].kind == NOTE_NAME || n->object[i].kind == NOTE_NEW)
			return true;
	return false;
}

/* A file without a name is only where it was open then: if the truth is a member that does not have it, another that has it is. */
static int truth_of(struct recovery *r, struct request *rq, const struct union_note *u)
{
	const struct gfid *g = &u->note.object[0].gfid;
	struct heal *h = &r->c->heal;
	int best = r->truth;

	if (!u->note.objects || has_names(&u->note) || heal_knows(h, rq, g, -1, best))
		return best;
	for (unsigned k = 0; k < r->view.members; k++) {
		int i = r->view.order[k];

		if (i == r->truth || r->view.state[i] != MEMBER_IN || i == r->view.arbiter)
			continue;
		if (heal_knows(h, rq, g, i, r->truth))
			return r->truth;
		if (heal_knows(h, rq, g, -1, i) && (best == r->truth || (is_vague(u->status[best]) && !is_vague(u->status[i]))))
			best = i;
	}
	return best;
}

static int choose_truths(struct recovery *r)
{
	struct request rq;
	int err = heal_request(&r->c->heal, &rq);

	for (struct union_note *u = r->c->notes; u; u = u->next)
		u->truth = u->note.resolved || err ? r->truth : truth_of(r, &rq, u);
	heal_request_end(&rq);
	return err;
}

static int resolve(struct recovery *r)
{
	unsigned mask = view_mask(&r->view, MEMBER_BACK);
	struct union_note *u = r->c->notes;

	while (u) {
		struct pack p = { 0 };
		unsigned good;

		for (; u && p.size < REPLICA_BLOB_MAX - 4096; u = u->next) {
			if (u->note.resolved)
				continue;
			u->note.status = MUTANT("all-done") ? 0 : told_of(u);
			u->note.value = value_of(u);
			u->note.resolved = true;
			pack_note(&p, &u->note);
		}
		good = tell_members(r->c, mask, REPLICA_RESOLVE, &p, coordinator_lease_ns(r->c));
		pack_free(&p);
		if (good != mask)
			r->bad |= mask & ~good;
	}
	return r->bad ? -EIO : 0;
}

/* Before clients hear what became of their changes: who makes an object again that was undone finds its gfid free. */
static void purge(struct recovery *r)
{
	for (int i = 0; i < r->view.members; i++) {
		struct request rq;

		if (r->view.state[i] != MEMBER_IN)
			continue;
		if (!heal_request(&r->c->heal, &rq))
			heal_purge_limbo(&r->c->heal, &rq, i);
		heal_request_end(&rq);
	}
}

/* ---- an earlier recovery that did not end, from another truth ---- */

static int failed_at(struct recovery *r, int member, const char *what, int err)
{
	log_warning(r->c->x, NULL, "member %d could not %s: %s", member, what, error_text(err));
	if (!may_be_anybodys(err, false))
		r->bad |= 1u << member;
	return err;
}

static bool names_it(const struct note *n, const struct gfid *directory, const char *name)
{
	for (unsigned i = 0; i < n->objects; i++)
		if (n->object[i].kind == NOTE_NAME && gfid_equal(&n->object[i].gfid, directory) &&
		    !strcmp(n->object[i].name, name))
			return true;
	return false;
}

struct undoing {
	struct recovery *r;
	int member;
	unsigned names;
};

/* What the member noted of changes of that name it noted when they had been healed there. What it had done itself nobody knows any more. */
static int is_undone(void *undoing, const struct gfid *directory, const char *name)
{
	struct undoing *un = undoing;
	struct recovery *r = un->r;
	int err = 0;

	un->names++;
	for (struct union_note *u = r->c->notes; u && !err; u = u->next) {
		if (u->note.resolved || session_is_nobody(u->note.session) || !names_it(&u->note, directory, name))
			continue;
		u->has[un->member] = true;
		u->status[un->member] = -EIO;
		err = say_status(r, u, un->member, -EIO);
	}
	return err;
}

/* The member was being made equal to a truth, perhaps to one that is gone: what was moved out of the way there may have no other name yet, and what
 * was made may not be whole. So its names become again what they were before that. Of what is in its limbo then the truth has the original. */
static int undo_at(struct recovery *r, int member)
{
	struct undoing un = { r, member, 0 };
	struct request rq;
	int err = heal_request(&r->c->heal, &rq);

	if (!err)
		err = heal_undo(&r->c->heal, &rq, member, is_undone, &un);
	if (!err && un.names && member != r->truth)
		heal_purge_limbo(&r->c->heal, &rq, member);
	heal_request_end(&rq);
	if (un.names)
		log_warning(r->c->x, NULL, "%u names of member %d are again what they were before a recovery that did not end",
			    un.names, member);
	r->undone += member == r->truth ? un.names : 0;
	return err ? failed_at(r, member, "undo a recovery that did not end", err) : 0;
}

static int undo(struct recovery *r)
{
	int err = undo_at(r, r->truth);

	for (int i = 0; i < r->view.members && !err && !MUTANT("undo-truth-only"); i++)
		if (r->view.state[i] == MEMBER_IN && i != r->truth)
			err = undo_at(r, i);
	return err;
}

/* All are equal: from here on nothing is to be undone at any of them, whoever is the truth next. Before somebody changes what was recovered. */
static int end_logs(struct recovery *r)
{
	int err = 0;

	for (int i = 0; i < r->view.members && !err; i++) {
		struct request rq;

		if (r->view.state[i] != MEMBER_IN)
			continue;
		err = heal_request(&r->c->heal, &rq);
		if (!err)
			err = heal_end_log(&r->c->heal, &rq, i);
		heal_request_end(&rq);
		if (err)
			failed_at(r, i, "end the log of a recovery", err);
	}
	return err;
}

/* ---- what lies in a limbo, and no list told of it ---- */

static int find_missed_at(struct recovery *r, int member)
{
	struct request rq;
	int err = heal_request(&r->c->heal, &rq);

	if (!err)
		err = heal_missed(&r->c->heal, &rq, r->truth, member, is_missed, r);
	heal_request_end(&rq);
	return err ? failed_at(r, member, "tell what it lost in a recovery", err) : 0;
}

/* The power took what the lists said of some directories. What another directory lost to be like the truth's may have its name there, in one of these. It
 * must not be deleted: the member would lack what was synced there, and be the first of a later view. So the recovery begins anew, with these directories,
 * too, which nobody may change meanwhile. -EAGAIN. */
static int find_missed(struct recovery *r)
{
	size_t before = r->c->missed.count; /* more than r->missed, if a member turned out to lack some */
	struct owed owed;
	bool walks;
	int err = 0;

	pthread_mutex_lock(&r->c->lock);
	owed = r->c->owed;
	pthread_mutex_unlock(&r->c->lock);
	/* What was not found anywhere, though all on the lists is equal, tells that they lack something after all. */
	walks = owed.scrub && (owed.unlisted || r->doubtful || MUTANT("bear-walk"));
	for (int i = 0; i < r->view.members && walks && !err && !MUTANT("purge-blindly"); i++)
		if (r->view.state[i] == MEMBER_IN && i != r->truth)
			err = find_missed_at(r, i);
	assert(owed.unlisted || r->doubtful || r->c->missed.count == before); /* R12 */
	if (err || r->c->missed.count == r->missed)
		return err;
	log_info(r->c->x, NULL, "%zu directories more must be made equal: the recovery begins anew",
		 r->c->missed.count - r->missed);
	return -EAGAIN;
}

/* Before anybody looks there: nobody is to see that a name has gone which a power cut may bring back. */
static int sync_taken(struct recovery *r)
{
	struct request rq;
	int failed = r->truth, err = heal_request(&r->c->heal, &rq);

	if (!err)
		err = heal_sync(&r->c->heal, &rq, &failed);
	heal_request_end(&rq);
	return err ? failed_at(r, failed, "sync what a recovery has changed", err) : 0;
}

/* How many notes there are to recover. */
static unsigned count_notes(const struct coordinator *c, bool *cold)
{
	unsigned count = 0;

	for (const struct union_note *u = c->notes; u; u = u->next) {
		count += !u->note.resolved;
		*cold |= session_is_nobody(u->note.session);
	}
	return count;
}

/* Those of a cold start may be a million, each of another object. */
static int list_clients(struct recovery *r, unsigned count)
{
	r->client = calloc(count, sizeof(struct union_note *));
	if (!r->client)
		return -ENOMEM;
	for (struct union_note *u = r->c->notes; u; u = u->next) {
		u->equal = u->doubted = 0;
		if (!u->note.resolved && !session_is_nobody(u->note.session))
			r->client[r->clients++] = u;
	}
	return 0;
}

static void run_notes(struct recovery *r, unsigned count, bool cold)
{
	struct coordinator *c = r->c;

	log_info(c->x, NULL, "recovering %u changes that were under way, from member %d", count, r->truth);
	r->err = list_clients(r, count);
	if (!r->err)
		r->err = choose_truths(r);
	c->heal.logs = !MUTANT("no-log");
	c->heal.logs_made = c->heal.logs && !MUTANT("keep-half-made");
	c->heal.cold = cold;
	c->heal.syncs = true;
	run_all(r, cold ? (unsigned)c->heal_tasks : 1);
	c->heal.logs = c->heal.logs_made = c->heal.cold = false;
	free(r->client);
}

/* The bandwidth is not limited: clients wait for this. Nothing else uses c->heal now: healers are stopped, the scrub has its own. */
static void run_recovery(struct recovery *r, unsigned count, bool cold)
{
	struct coordinator *c = r->c;
	uint64_t bandwidth = atomic_exchange(&c->heal.bandwidth, 0);

	atomic_store(&c->heal.failed, 0);
	r->err = undo(r);
	if (!r->err && count)
		run_notes(r, count, cold);
	if (!r->err && count)
		r->err = find_missed(r);
	if (!r->err && count)
		r->err = sync_taken(r);
	heal_forget_sync(&c->heal);
	if (!r->err)
		r->err = end_logs(r);
	if (!r->err && count) {
		purge(r);
		r->err = resolve(r);
	}
	atomic_store(&c->heal.bandwidth, bandwidth);
}

int recover(struct coordinator *c)
{
	struct recovery r = { .c = c, .lock = PTHREAD_MUTEX_INITIALIZER, .missed = c->missed.count };
	bool cold = false, owed, doubtful;
	unsigned count = count_notes(c, &cold);

	pthread_mutex_lock(&c->lock);
	r.view = c->view;
	owed = c->owed.recovery;
	pthread_mutex_unlock(&c->lock);
	r.truth = choose_truth(c, &r.view, owed);
	if (r.truth < 0)
		count = 0;
	if (r.truth >= 0 && (count || owed)) /* else no earlier one has been left unfinished: its notes would be here */
		run_recovery(&r, count, cold);
	if (!r.err)
		missed_clear(c);
	c->tenants_failed = r.tenants ? c->tenants_failed + 1 : r.err ? c->tenants_failed : 0;
	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->members; i++)
		c->member[i].broken |= r.bad >> i & 1;
	c->unrecovered = r.err != 0;
	if (!r.err || c->missed.count > r.missed) /* it has ended, or has got further */
		c->failing_ns = 0;
	else if (!c->failing_ns)
		c->failing_ns = clock_ns();
	c->owed.recovery &= c->unrecovered || r.truth < 0;
	doubtful = r.doubtful || (r.undone && !count); /* the index that told what to compare was dropped */
	c->owed.scrub |= doubtful;
	c->owed.unlisted |= doubtful;
	c->recovered += count;
	pthread_mutex_unlock(&c->lock);
	return r.err;
}
