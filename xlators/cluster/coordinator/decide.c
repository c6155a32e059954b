/* SPDX-License-Identifier: Apache-2.0 */
/* Who belongs to the set: what is to change, and why. */
#include <errno.h>
#include <time.h>

#include "coordinator.h"

enum { WAIT_MIN_NS = 1000000000, REASONS = 160 };
#define WAIT_MAX_NS 150000000000ull
#define GOES_ON_NS  60000000000ull	/* a recovery that has failed for so long may never come to its end by itself */
enum { SAME_AGAIN_NS = 200000000 };	/* between views that change no member */
#define TENANTS_AGAIN_NS 10000000000ull /* between those that are made for tenants' clients, of all of them together */

void member_waits_longer(struct remote_member *m)
{
	m->wait_ns = m->wait_ns * 2 < WAIT_MIN_NS ? WAIT_MIN_NS : m->wait_ns < WAIT_MAX_NS ? m->wait_ns * 2 : m->wait_ns;
}

struct decision {
	struct view base, next;
	bool changed;
	bool tenants; /* made for what tenants' clients have left */
	bool cold;    /* members that were away or have been started anew become IN: what changed of late is made equal */
	bool scrub;   /* of those that were started anew the indexes may lack something */
	char why[REASONS];
};

static void reason(struct decision *d, int member, const char *text)
{
	if (!d->why[0])
		snprintf(d->why, sizeof(d->why), member < 0 ? "%s" : "%s: member %d", text, member);
	d->changed = true;
}

/* Rather than what was said before. */
static void say(struct decision *d, const char *text)
{
	snprintf(d->why, sizeof(d->why), "%s", text);
	d->changed = true;
}

/* Of one that is BACK what it says of itself counts, too: whose disk takes no changes is never healed, and holds up who has no session there. */
static uint32_t suspects(const struct coordinator *c)
{
	uint32_t mask = 0;

	for (int i = 0; i < c->members; i++) {
		uint32_t told = c->member[i].last.suspects;

		if (!c->view.epoch || c->member[i].last.epoch != c->view.epoch)
			continue;
		if (c->view.state[i] == MEMBER_IN)
			mask |= told;
		else if (c->view.state[i] == MEMBER_BACK)
			mask |= told & 1u << i;
	}
	return mask;
}

/* Why the member can't stay, or NULL. */
static const char *unfit(const struct coordinator *c, const struct decision *d, int i)
{
	const struct remote_member *m = &c->member[i];

	if (!member_live(c, i))
		return "no answer";
	if (m->last.incarnation != d->base.incarnation[i])
		return "it was started anew";
	if (c->view.epoch && m->last.epoch != c->view.epoch)
		return "it lost the view";
	return NULL;
}

/* Who alone has everything went down before the others had been made equal to it: what they have does not count without it. */
static bool lacks_first(const struct coordinator *c, const struct decision *d)
{
	int first = c->owed.recovery ? view_first(&d->base) : -1;

	return first >= 0 && unfit(c, d, first);
}

/* All that are going to end, or none: where too few are left each has to come back before the set goes on, and none shall lack what the others did meanwhile. */
static bool can_spare_leaving(const struct coordinator *c, const struct decision *d)
{
	struct view v = d->next;

	for (int i = 0; i < c->members; i++)
		if (c->member[i].last.leaving)
			v.state[i] = MEMBER_OUT;
	return view_has_quorum(&v) || MUTANT("spare-one-by-one");
}

/* Why it should not stay, if the others can do without it. */
static const char *unwanted(const struct coordinator *c, const struct decision *d, int i, uint32_t suspected)
{
	if (c->member[i].broken)
		return "it did not do its part";
	if (c->owed.recovery && i == view_first(&d->base)) /* it alone has everything */
		return NULL;
	if (c->member[i].failed)
		return "its disk did not do what others did";
	if (c->member[i].last.leaving && can_spare_leaving(c, d))
		return "it is going to end";
	if (!(suspected >> i & 1))
		return NULL;
	if (!(c->member[i].last.suspects >> i & 1))
		return "a client could not change something there";
	return c->member[i].last.reason[i] == EROFS ? "its file system is read-only"
						    : "its disk does not take its list of changes";
}

/* What was acknowledged and not synced everywhere goes with it: so it is tried again, for it may just be slow. */
static bool is_spared(struct coordinator *c, const struct decision *d, int i)
{
	enum { FIRST_TRIES = 5 };

	if (!c->owed.recovery)
		c->spared = 0;
	if (!c->owed.recovery || i != view_first(&d->base) || c->spared >= FIRST_TRIES)
		return false;
	c->spared++;
	return true;
}

/* With all that others were being made equal to. */
static void tell_dropped(const struct coordinator *c, const struct decision *d, int i)
{
	if (c->owed.recovery && i == view_first(&d->base))
		log_warning(
			c->x, NULL,
			"member %d, to which the others were being made equal, fails at it: another one is the truth instead, and what was "
			"acknowledged but not synced may be lost",
			i);
}

static void drop_unwanted(struct coordinator *c, struct decision *d)
{
	uint32_t suspected = suspects(c);

	for (int i = 0; i < c->members; i++) {
		const char *why = d->next.state[i] == MEMBER_OUT ? NULL : unwanted(c, d, i, suspected);
		struct view v = d->next;

		if (!why)
			continue;
		c->member[i].broken = c->member[i].failed = false; /* it is tried once more, if it has to stay */
		v.state[i] = MEMBER_OUT;
		if ((d->next.state[i] == MEMBER_IN && !view_has_quorum(&v)) || is_spared(c, d, i))
			continue;
		tell_dropped(c, d, i);
		d->next = v;
		reason(d, i, why);
	}
	for (int i = 0; i < c->members; i++)
		c->member[i].needed = c->member[i].last.leaving && d->next.state[i] != MEMBER_OUT;
}

static void drop_unfit(struct coordinator *c, struct decision *d)
{
	for (int i = 0; i < c->members; i++) {
		const char *why = d->base.state[i] == MEMBER_OUT ? NULL : unfit(c, d, i);

		if (!why)
			continue;
		d->next.state[i] = MEMBER_OUT;
		reason(d, i, why);
	}
	drop_unwanted(c, d);
}

/* Who is missing in `v` is here with another disk: what it knew is gone for good, so there is nothing to wait for. */
static bool rest_is_replaced(const struct coordinator *c, const struct view *base, const struct view *v)
{
	for (int i = 0; i < c->members; i++)
		if (base->state[i] == MEMBER_IN && v->state[i] != MEMBER_IN &&
		    (!member_live(c, i) || c->member[i].last.disk == base->disk[i]))
			return false;
	return view_first(v) >= 0;
}

static bool keeps_all_in(const struct view *base, const struct view *next)
{
	for (int i = 0; i < base->members; i++)
		if (base->state[i] == MEMBER_IN && next->state[i] != MEMBER_IN)
			return false;
	return true;
}

static bool all_kept_running(const struct view *base, const struct view *v)
{
	for (int i = 0; i < v->members; i++)
		if (v->state[i] == MEMBER_IN && v->incarnation[i] != base->incarnation[i])
			return false;
	return true;
}

/* It had all that was acknowledged when there was a quorum last, and nothing has been since. */
static bool has_all(const struct view *v, int i)
{
	return v->state[i] == MEMBER_IN || v->away >> i & 1;
}

/* All that have everything by the stored view and answer, whatever became of their processes. If they are less than a quorum, but those
 * that were IN are there, or their disks are lost, they heal the others; until these have everything the set can only be read. */
static bool try_cold(const struct coordinator *c, struct decision *d)
{
	bool waited = clock_ns() > c->quorum_lost_ns + c->cold_wait_ms * 1000000, all = true, replaced;
	struct view v = d->base;

	for (int i = 0; i < c->members; i++) {
		bool live = member_live(c, i), same = c->member[i].last.disk == d->base.disk[i];

		bool had = has_all(&v, i);

		all &= live || !had;
		v.state[i] = had && live && same ? MEMBER_IN : MEMBER_OUT;
		if (live)
			v.away &= ~(1u << i); /* it is IN now, or what it had is lost */
		else if (had)
			v.away |= 1u << i; /* until something is acknowledged without it */
		if (v.state[i] == MEMBER_IN)
			v.incarnation[i] = c->member[i].last.incarnation;
	}
	replaced = rest_is_replaced(c, &d->base, &v);
	if (!replaced && (!view_has_quorum(&v) || !(all || waited)))
		return false;
	if (replaced && !keeps_all_in(&d->base, &v) && !(all || waited) && !MUTANT("replaced-at-once"))
		return false; /* what it had one may have, too, that was away */
	d->next = v;
	d->scrub |= !all_kept_running(&d->base, &v);
	d->cold |= d->scrub || (d->base.away & ~v.away);
	return true;
}

/* Those that are left go on without a quorum. Nothing can be changed in such a view; but it can be read, and who is not IN is healed, so that
 * there is a quorum again, perhaps without those that are missing now. These keep what they know for the time when they are back: the view
 * says so (`away`). They come back by a cold start, so a short absence is waited for. */
static bool try_few(const struct coordinator *c, struct decision *d)
{
	struct view v = d->next;

	if (clock_ns() <= c->quorum_lost_ns + c->cold_wait_ms * 1000000 || view_first(&v) < 0)
		return false;
	for (int i = 0; i < c->members; i++)
		if (d->base.state[i] == MEMBER_IN && v.state[i] != MEMBER_IN &&
		    (!member_live(c, i) || c->member[i].last.disk == d->base.disk[i]))
			v.away |= 1u << i;
	d->next = v;
	return true;
}

/* It takes what is there, and somebody to be healed, to make a quorum of them; or else there is no view at all that could be read. */
static bool few_are_of_use(const struct coordinator *c, const struct decision *d)
{
	struct view v = d->next;

	for (int i = 0; i < c->members; i++)
		if (member_live(c, i) && v.state[i] != MEMBER_IN && d->base.state[i] != MEMBER_IN)
			v.state[i] = MEMBER_IN;
	return !c->view.epoch || view_has_quorum(&v);
}

/* What the member has of what it had in the view. */
enum kept { KEPT_ALL, KEPT_CHANGES, KEPT_HELD, KEPT_SYNCED, KEPT_WAYS };

/* Whose process alone ended: the kernel has what was not synced, and the notes are gone. Whose machine did, or nobody knows: what was synced; that is all but what
 * was just under way, if it synced when nothing more could be acknowledged. */
static enum kept kept_by(const struct coordinator *c, const struct view *base, int i)
{
	const struct lease_reply *r = &c->member[i].last;

	if (c->member[i].known && r->incarnation == base->incarnation[i])
		return c->owed.recovery ? KEPT_CHANGES : KEPT_ALL;
	if (c->member[i].known && r->boot && r->boot == base->boot[i] && !MUTANT("cold-from-any"))
		return KEPT_CHANGES;
	return base->epoch && c->member[i].held_epoch == base->epoch && r->disk == base->disk[i] ? KEPT_HELD : KEPT_SYNCED;
}

/* Who was away lacks what the others recovered without it; these had synced what they had before that. */
static unsigned rank_by(const struct coordinator *c, const struct view *base, int i)
{
	return kept_by(c, base, i) + (base->state[i] == MEMBER_IN ? 0 : KEPT_WAYS);
}

/* The others were being made equal to the first, which has everything on its disk, and nothing has been acknowledged since. So it stays the truth; without it
 * one that was away, and whose machine kept running. What the others have had before, and what a broken off recovery has made of that, nobody knows. */
static unsigned rank_while_owed(const struct coordinator *c, const struct view *base, int i)
{
	bool kept = kept_by(c, base, i) < KEPT_SYNCED;

	if (i == view_first(base))
		return 0;
	if (base->state[i] == MEMBER_IN)
		return kept ? 2 : 3;
	return kept ? 1 : 4;
}

/* Who has the most comes first: the others are made equal to it. */
static void order_cold(const struct coordinator *c, struct decision *d)
{
	bool owed = c->owed.recovery && c->owed.held && !MUTANT("another-truth");
	uint8_t order[REPLICAS_MAX];
	unsigned at = 0;

	for (unsigned rank = 0; rank < 2 * KEPT_WAYS; rank++)
		for (unsigned k = 0; k < d->base.members; k++)
			if ((owed ? rank_while_owed : rank_by)(c, &d->base, d->base.order[k]) == rank)
				order[at++] = d->base.order[k];
	memcpy(d->next.order, order, at);
}

static void to_the_end(struct view *v, int member)
{
	unsigned left = 0;

	for (unsigned k = 0; k < v->members; k++)
		if (v->order[k] != member)
			v->order[left++] = v->order[k];
	v->order[left] = member;
}

static void take_back(const struct coordinator *c, struct decision *d)
{
	for (int i = 0; i < c->members; i++) {
		const struct remote_member *m = &c->member[i];

		if (d->base.state[i] != MEMBER_OUT || d->next.state[i] != MEMBER_OUT || !member_live(c, i) ||
		    (m->last.leaving && !MUTANT("take-back-leaving")) || clock_ns() < m->out_since_ns + m->wait_ns)
			continue;
		if (d->next.away >> i & 1 && d->base.disk[i] == m->last.disk) /* it has everything: it comes by a cold start */
			continue;
		d->next.state[i] = MEMBER_BACK;
		d->next.away &= ~(1u << i);
		d->next.incarnation[i] = m->last.incarnation;
		d->next.disk[i] = m->last.disk;
		to_the_end(&d->next, i);
		reason(d, i, "it is here again");
	}
}

static void promote(const struct coordinator *c, struct decision *d)
{
	for (int i = 0; i < c->members; i++) {
		if (d->next.state[i] != MEMBER_BACK || d->base.state[i] != MEMBER_BACK || !c->member[i].healthy)
			continue;
		d->next.state[i] = MEMBER_IN;
		reason(d, i, "it has everything again");
	}
}

/* Who was found to differ takes the way of one that comes back. */
static void demote(const struct coordinator *c, struct decision *d)
{
	for (int i = 0; i < c->members; i++) {
		struct view v = d->next;

		if (d->next.state[i] != MEMBER_IN || !c->member[i].demote || c->owed.recovery)
			continue;
		v.state[i] = MEMBER_BACK;
		if (!view_has_quorum(&v))
			continue;
		to_the_end(&v, i);
		d->next = v;
		reason(d, i, "it is to be healed");
	}
}

/* Changes of clients that are gone, or failed half done. */
static void tidy_up(const struct coordinator *c, struct decision *d)
{
	if (c->failed_epoch > c->view.epoch)
		reason(d, -1, "the last change of view failed half way");
	if (c->unrecovered && clock_ns() > c->last_view_ns + SAME_AGAIN_NS)
		reason(d, -1, "the recovery was interrupted");
	if (lacking_is_due(c) && clock_ns() > c->last_view_ns + SAME_AGAIN_NS)
		reason(d, -1, "a member lacks a directory that a change needs");
	for (int i = 0; i < c->members; i++) {
		const struct lease_reply *r = &c->member[i].last;

		if (c->view.epoch && c->view.state[i] != MEMBER_OUT && r->epoch == c->view.epoch && (r->orphans || r->stuck) &&
		    clock_ns() > c->last_view_ns + SAME_AGAIN_NS)
			reason(d, -1, r->orphans ? "changes were left half done" : "a client does not give a token back");
		if (c->view.epoch && c->view.state[i] != MEMBER_OUT && r->epoch == c->view.epoch && r->tenants_left &&
		    !departing_waits(c) && (!c->tenants_view_ns || clock_ns() > c->tenants_view_ns + TENANTS_AGAIN_NS)) {
			reason(d, -1, "a tenant's client left changes half done, or keeps a token");
			d->tenants = true;
		}
	}
}

/* Without the view nobody knows who was IN, and so has all that is acknowledged: a set of all that are here might make the others equal
 * to one that was away for long. (A disk that nothing has happened on is in generation 1.) */
static bool view_is_lost(struct coordinator *c)
{
	for (int i = 0; i < c->members && !c->lost; i++) {
		const struct lease_reply *r = &c->member[i].last;

		if (!r->epoch && !r->synced && !r->index && r->generation <= 1)
			continue;
		c->lost = true;
		snprintf(c->why, sizeof(c->why), "the view is lost: bring it back, or `begin` anew; see the log");
		log_error(
			c->x, NULL,
			"the view of this set is not in %s, but member %d was in one before: bring it back (is its file system "
			"mounted?) and restart stratusd; or, if it is gone for good, say which member has everything: "
			"`stratus ctl PROCESS %s begin NUMBER` heals the others from it as a whole",
			register_place(c), i, c->x->name);
	}
	return c->lost;
}

/* Members that were started anew have forgotten the epoch, but clients have not, and take no older view than they know: the time in
 * seconds is more than so many changes, one by one, can have led to. */
int view_begin(struct coordinator *c, int first)
{
	struct view v = { .members = (uint8_t)c->members, .epoch = (uint64_t)time(NULL) };
	unsigned at = 1;
	int err;

	pthread_mutex_lock(&c->lock);
	err = first == c->heal.arbiter ? -EINVAL : !c->lost ? -EALREADY : !member_live(c, first) ? -ENOTCONN : 0;
	v.state[first] = MEMBER_IN;
	v.order[0] = (uint8_t)first;
	for (int i = 0; i < c->members && !err; i++) {
		struct remote_member *m = &c->member[i];

		err = clock_ns() < m->lease_end_ns ? -EAGAIN : 0;
		v.epoch = m->last.epoch > v.epoch ? m->last.epoch : v.epoch; /* or those that still run refuse the next one */
		v.incarnation[i] = m->last.incarnation;
		v.disk[i] = m->last.disk;
		if (i != first)
			v.order[at++] = (uint8_t)i;
	}
	for (int i = 0; i < c->members && !err; i++)
		if (i != first)
			c->member[i].differs.all = c->member[i].added = true;
	if (!err) {
		c->base = v;
		c->owed.scrub = c->owed.unlisted = true;
		c->lost = false;
	}
	pthread_mutex_unlock(&c->lock);
	task_cond_broadcast(&c->changed);
	return err;
}

static bool first_view(struct coordinator *c, struct decision *d)
{
	bool all = true, waited = clock_ns() > c->started_ns + c->cold_wait_ms * 1000000;

	if (view_is_lost(c))
		return false;
	for (int i = 0; i < c->members; i++) {
		all &= member_live(c, i);
		d->next.state[i] = member_live(c, i) ? MEMBER_IN : MEMBER_OUT;
		d->next.incarnation[i] = c->member[i].last.incarnation;
		d->next.disk[i] = c->member[i].last.disk;
		d->next.order[i] = i;
	}
	snprintf(d->why, sizeof(d->why), "the first");
	return view_has_quorum(&d->next) && (all || waited);
}

/* A coordinator that has just been started, or stood still, does not leave out who had no time yet to answer. */
static bool awaits_answers(const struct coordinator *c, const struct decision *d)
{
	for (int i = 0; i < c->members; i++)
		if (d->base.state[i] != MEMBER_OUT && !member_live(c, i) && !member_silent(c, i))
			return true;
	return false;
}

/* Too few would be left, but only because some failed at what others could do: that may have passed, and without them nothing goes on. */
static bool try_again(struct coordinator *c, struct decision *d)
{
	struct view v = d->base;

	if (!c->view.epoch || clock_ns() < c->last_view_ns + WAIT_MIN_NS || lacks_first(c, d))
		return false;
	for (int i = 0; i < c->members; i++)
		if (!member_live(c, i) || c->member[i].last.incarnation != v.incarnation[i] ||
		    c->member[i].last.epoch != v.epoch)
			v.state[i] = MEMBER_OUT;
	if (!view_has_quorum(&v))
		return false;
	for (int i = 0; i < c->members; i++)
		c->member[i].broken = false;
	d->next = v;
	say(d, "members that failed are tried again, for without them there are too few");
	return true;
}

/* Somebody who has everything has come back to a view that has no quorum. */
static bool away_is_here(const struct coordinator *c, const struct decision *d)
{
	for (int i = 0; i < d->base.members; i++)
		if (d->base.away >> i & 1 && d->next.state[i] == MEMBER_OUT && member_live(c, i))
			return true;
	return false;
}

static bool begin_anew(struct coordinator *c, struct decision *d, const char *why)
{
	int first = c->owed.recovery ? view_first(&d->base) : -1;

	if (!try_cold(c, d))
		return false;
	order_cold(c, d);
	c->failing_ns = 0; /* this one may be another truth, or there is somebody more */
	for (int i = 0; i < c->members; i++)
		c->member[i].broken = false; /* what it did not do was for another view */
	say(d, why);
	if (first >= 0 && d->next.state[first] != MEMBER_IN && rank_while_owed(c, &d->base, view_first(&d->next)) > 1)
		log_warning(
			c->x, NULL,
			"member %d, to which the others were being made equal, is not back within cold-wait: member %d is the truth instead, "
			"and what was acknowledged but not synced may be lost",
			first, view_first(&d->next));
	return true;
}

/* There is no quorum. False: nothing can be done but to wait. */
static bool with_too_few(struct coordinator *c, struct decision *d)
{
	bool keeps = keeps_all_in(&d->base,
				  &d->next); /* a view of less than a quorum goes on so until others are healed, or are back */

	if (keeps && !away_is_here(c, d))
		return true;
	if (!keeps && try_again(c, d))
		return true;
	if (begin_anew(c, d,
		       keeps ? "who was away has everything" : "so many went down that those in the last view begin anew"))
		return true;
	if (keeps)
		return true;
	if (lacks_first(c, d) || !few_are_of_use(c, d) || !try_few(c, d))
		return false;
	say(d, "too few are left: it can only be read until others are healed or back");
	return true;
}

/* While a recovery is owed the first alone has everything: nothing is acknowledged that it may lose, or that whoever is the truth without it does not have.
 * Nor is anything until the register says that it is owed no more. */
void tell_writable(struct coordinator *c, bool quorum)
{
	bool known =
		c->goes_on && !c->owed.held && !c->stored_owed.held && !c->view.away; /* the register says what that means */
	bool owed = (c->owed.recovery || c->stored_owed.recovery) && !known && !MUTANT("change-while-owed");
	bool over = c->changes_wait && quorum && !owed;

	for (int i = 0; i < c->members; i++) /* who waits is told at once */
		c->member[i].hurry |= over;
	c->writable = c->view.epoch && quorum && !owed;
	c->changes_wait = c->view.epoch && quorum && owed;
	if (over)
		task_cond_broadcast(&c->changed);
}

/* One object that can't be made equal, at a member that can't be spared, must not keep the whole set from being changed, nor from healing who could take that
 * member's place: what is not in recovery is changed as if none were owed. So the first is not sure any more to have on its disk all that is acknowledged. */
static void look_whether_it_ends(struct coordinator *c)
{
	bool goes_on = c->owed.recovery && c->failing_ns && clock_ns() > c->failing_ns + GOES_ON_NS;

	if (goes_on && !c->goes_on)
		log_error(
			c->x, NULL,
			"the recovery has failed for a minute: what it is not about can be changed again; see above which member can't be made "
			"equal, and replace its disk");
	c->goes_on = goes_on;
}

static void tell_too_few(const struct coordinator *c, const struct decision *d)
{
	log_warning(c->x, NULL, "too few members: the set can only be read until others are back (%s)", d->why);
	if (lacks_first(c, d))
		log_warning(c->x, NULL,
			    "member %d alone has all that was acknowledged, until others have been made equal to it: start it",
			    view_first(&d->base));
}

/* With the lock held. True: there is something to change. */
static bool consider(struct coordinator *c, struct decision *d)
{
	bool quorum, news;

	d->base = c->view.epoch ? c->view : c->base;
	d->base.arbiter = c->arbiter ? 2 : REPLICAS_MAX;
	d->next = d->base;
	if (!d->base.epoch)
		return first_view(c, d);
	if (awaits_answers(c, d))
		return false;
	if (!c->view.epoch) {
		reason(d, -1, "the coordinator was started");
		d->cold = c->owed.recovery; /* the coordinator before this one may not have told the members what to recover */
	}
	drop_unfit(c, d);
	quorum = view_has_quorum(&d->next) && !lacks_first(c, d);
	news = !quorum && !c->quorum_lost_ns;
	if (quorum || !c->quorum_lost_ns)
		c->quorum_lost_ns = quorum ? 0 : clock_ns();
	if (news)
		tell_too_few(c, d);
	look_whether_it_ends(c);
	tell_writable(c, quorum);
	if (!quorum && !with_too_few(c, d))
		return false;
	if (quorum && c->owed.recovery && away_is_here(c, d)) /* the recovery has failed, and it may be what it takes */
		begin_anew(c, d, "who was away has everything");
	take_back(c, d);
	demote(c, d); /* first: who is promoted may turn out to lack something after the freeze */
	promote(c, d);
	tidy_up(c, d);
	return d->changed;
}

/* A member that goes again and again is taken back later each time. */
static void note_leaving(struct coordinator *c, const struct decision *d, const uint64_t was_out_ns[REPLICAS_MAX])
{
	for (int i = 0; i < c->members; i++) {
		struct remote_member *m = &c->member[i];

		if (d->base.state[i] == MEMBER_OUT || d->next.state[i] != MEMBER_OUT)
			continue;
		if (m->last.incarnation != d->base.incarnation[i] || !member_live(c, i) || m->last.leaving)
			m->wait_ns = 0; /* it was down, or goes: that is no fault of its disk or its links */
		else if (clock_ns() > was_out_ns[i] + 600000000000ull)
			m->wait_ns = WAIT_MIN_NS;
		else
			member_waits_longer(m);
	}
}

void decide(struct coordinator *c)
{
	uint64_t was_out_ns[REPLICAS_MAX] = { 0 };
	struct decision d = { 0 };
	struct owed owed;
	bool go;

	pthread_mutex_lock(&c->lock);
	go = consider(c, &d) && !c->deposed;
	c->deciding = go;
	for (int i = 0; i < c->members; i++)
		was_out_ns[i] = c->member[i].out_since_ns;
	owed = c->owed;
	c->owed.scrub |= go && d.scrub;
	c->owed.recovery |= go && d.cold;
	pthread_mutex_unlock(&c->lock);
	if (!go) {
		few_hold(c);
		return;
	}
	lacking_take_all(c, &d.next);
	if (view_change(c, &d.next, d.cold, d.why)) {
		pthread_mutex_lock(&c->lock);
		c->owed.recovery = owed.recovery;
		c->owed.held = owed.held;
		pthread_mutex_unlock(&c->lock);
		task_sleep_ms(c->heartbeat_ms);
		return;
	}
	pthread_mutex_lock(&c->lock);
	if (d.tenants)
		c->tenants_view_ns = clock_ns();
	if (view_has_quorum(&d.next) && !MUTANT("wait-once")) /* who goes from now on is waited for anew */
		c->quorum_lost_ns = 0;
	note_leaving(c, &d, was_out_ns);
	pthread_mutex_unlock(&c->lock);
	if (!recover(c) && d.scrub && scrub_start(c, true))
		log_warning(c->x, NULL, "the scrub that should follow can't be started");
	pthread_mutex_lock(&c->lock);
	c->deciding = false;
	pthread_mutex_unlock(&c->lock);
}

bool decided(struct coordinator *c)
{
	bool done = true;

	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->members; i++)
		done &= !c->member[i].last.leaving || c->view.state[i] == MEMBER_OUT || c->member[i].needed ||
			!member_live(c, i);
	done = (done || !c->view.epoch) && !c->deciding;
	pthread_mutex_unlock(&c->lock);
	return done || !register_leads();
}
