/* SPDX-License-Identifier: Apache-2.0 */
/* How the view is changed, step by step (doc/replication.md). */
#include "coordinator.h"

enum { GFIDS_IN_ONE = 3000 };
#define HOLD_NS 5000000000ull /* is asked again, and whoever stops the coordinator waits so long for it */
enum { SLOW_FIRSTS = 4 };     /* what is left to write becomes less each time */

#define GO_ON_NS      3000000000ull  /* as in features/replica */
#define GO_ON_MOST_NS 12000000000ull /* all other changes wait so long */

struct changing {
	struct coordinator *c;
	uint64_t began_ns;
	struct view before, *next;
	bool cold;
	unsigned stay;	  /* members that will be IN or BACK */
	unsigned coming;  /* those that will be BACK anew */
	unsigned demoted; /* of these, who was IN, and what it lacks is known */
	unsigned returns; /* members that were away and will be IN: they have not heard what was told meanwhile */
	unsigned
		unsure; /* members that will be IN, where the truth was started anew: it may have done what they have not heard of */
	struct gfid_list pending[REPLICAS_MAX];
};

static int blame(struct coordinator *c, int member, const char *what, int err)
{
	log_warning(c->x, NULL, "member %d did not %s: %s", member, what, strerror(err < 0 ? -err : EIO));
	pthread_mutex_lock(&c->lock);
	c->member[member].broken = true;
	pthread_mutex_unlock(&c->lock);
	return err < 0 ? err : -EIO;
}

static int blame_rest(struct coordinator *c, unsigned asked, unsigned good, const char *what)
{
	int err = 0;

	for (int i = 0; i < c->members; i++)
		if (asked >> i & 1 && !(good >> i & 1))
			err = blame(c, i, what, -EIO);
	return err;
}

static int send_pending(struct coordinator *c, int member, const struct gfid_list *l)
{
	size_t at = 0;

	do {
		struct pack p = { 0 };
		int err;

		pack_u8(&p, l->all);
		for (unsigned n = 0; at < l->count && n < GFIDS_IN_ONE && !l->all; n++)
			pack_gfid(&p, &l->gfid[at++]);
		err = tell_member(c, member, REPLICA_ADD_PENDING, &p);
		if (err)
			return err;
	} while (at < l->count && !l->all);
	return 0;
}

/* What the members that come back may lack: `recent`: only what changed of late. */
static int list_pending(struct changing *v, bool recent)
{
	struct coordinator *c = v->c;

	for (int to = 0; to < c->members; to++) {
		uint64_t above;

		if (!(v->coming >> to & 1) || v->pending[to].all || v->demoted >> to & 1)
			continue;
		pthread_mutex_lock(&c->lock);
		above = c->member[to].last.synced;
		if (recent && c->generation > above + 3)
			above = c->generation - 3;
		pthread_mutex_unlock(&c->lock);
		for (int from = 0; from < c->members; from++) {
			int err = (from == to && !MUTANT("not-its-own-index")) ||
						  (from != to && v->next->state[from] == MEMBER_IN)
					  ? list_index(c, from, above, &v->pending[to])
					  : 0;

			if (err)
				return blame(c, from, "list what changed", err);
		}
	}
	return 0;
}

static int freeze(struct changing *v)
{
	struct pack p = { 0 };
	unsigned good;

	pack_view(&p, v->next); /* a member that has been started anew since does not belong there, though it would answer */
	good = tell_members(v->c, v->stay, REPLICA_FREEZE, &p, coordinator_lease_ns(v->c) + 1000000000);
	pack_free(&p);
	return blame_rest(v->c, v->stay, good, "stop taking changes");
}

/* Who was to become IN may have skipped something between its healing and the freeze: then it stays BACK. */
static int check_promoted(struct changing *v)
{
	for (int i = 0; i < v->c->members; i++) {
		struct blob answer = { 0 };
		uint64_t count;
		bool all;
		int err;

		if (v->before.state[i] != MEMBER_BACK || v->next->state[i] != MEMBER_IN)
			continue;
		err = pending_ask(v->c, i, &count, &all, &answer, NULL);
		free(answer.bytes);
		if (err)
			return blame(v->c, i, "tell what is pending", err);
		if (count || all)
			v->next->state[i] = MEMBER_BACK;
	}
	return 0;
}

/* Without a quorum the view will not hold what those that are away have: what members that go on have must not be lost by a power cut. */
static int sync_few(struct changing *v)
{
	unsigned in = view_mask(v->next, MEMBER_IN), good;
	struct pack nothing = { 0 };

	if (view_has_quorum(v->next) || !view_has_quorum(&v->before) || MUTANT("few-unsynced"))
		return 0;
	good = tell_members(v->c, in, REPLICA_SYNC, &nothing, SYNC_NS);
	return blame_rest(v->c, in, good, "sync its disk");
}

/* That process, and not one that was started since and lacks what had not been synced. */
static int sync_process(struct coordinator *c, int member, uint64_t incarnation, uint64_t within_ns)
{
	struct pack p = { 0 };

	pack_u64(&p, incarnation);
	return ask_member(c, member, REPLICA_SYNC, &p, NULL, clock_ns() + within_ns);
}

/* And not the way to it, nor that it is slow. */
static bool is_of_the_disk(int err)
{
	return err && err != -ENOTCONN && err != -ETIMEDOUT && err != -ECANCELED && err != -EVIEW;
}

/* Until the recovery has ended nobody else has everything. So what it has is to outlive its machine, too: then it is the truth of the next recovery. If its disk
 * fails at that, it is so only as long as its machine runs. */
static int sync_first(struct changing *v)
{
	struct coordinator *c = v->c;
	int first = view_first(v->next), err = 0;
	bool owed, hangs;

	pthread_mutex_lock(&c->lock);
	owed = c->owed.recovery;
	pthread_mutex_unlock(&c->lock);
	if (owed && first >= 0 && !MUTANT("first-unsynced"))
		err = sync_process(c, first, v->next->incarnation[first], SYNC_NS);
	if (err)
		log_warning(c->x, NULL, "member %d did not sync its disk: %s", first, strerror(-err));
	pthread_mutex_lock(&c->lock);
	if (!owed)
		c->failed_syncs = 0;
	else if (is_of_the_disk(
			 err)) /* the kernel tells once what it could not write, and the next sync succeeds without that */
		c->failed_syncs |= 1u << first;
	c->owed.held = owed && !err && !c->goes_on && !(c->failed_syncs >> first & 1 && !MUTANT("synced-at-last"));
	pthread_mutex_unlock(&c->lock);
	c->slow_firsts = err == -ETIMEDOUT ? c->slow_firsts + 1 : 0;
	hangs = err == -ETIMEDOUT && c->slow_firsts % SLOW_FIRSTS == 0; /* its disk will not do it: as if that had failed */
	return err == -ENOTCONN || (err == -ETIMEDOUT && !hangs) || err == -ECANCELED || err == -EVIEW ? err : 0;
}

/* Until those that leave can't believe any more that they belong. */
static int wait_leases(struct changing *v)
{
	struct coordinator *c = v->c;
	int err = 0;

	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->members; i++) {
		struct remote_member *m = &c->member[i];
		bool leaves = v->before.state[i] >= MEMBER_BACK && v->next->state[i] == MEMBER_OUT;

		m->leaving = leaves;
		m->hurry |= leaves;
		task_cond_broadcast(&c->changed);
		while (leaves && !m->stepped_down && clock_ns() < m->lease_end_ns && !atomic_load(&c->stopping))
			task_cond_wait(&c->changed, &c->lock, m->lease_end_ns);
	}
	if (atomic_load(&c->stopping))
		err = -ECANCELED;
	pthread_mutex_unlock(&c->lock);
	return err;
}

static int gather(struct changing *v)
{
	struct coordinator *c = v->c;
	unsigned knew = view_mask(&v->before, MEMBER_BACK) | v->before.away;
	int failed = 0, err = 0;

	notes_free(c);
	for (int i = 0; i < c->members && !err; i++)
		if (v->stay & knew & 1u << i && !(MUTANT("notes-of-one") && i)) {
			err = notes_collect(c, i);
			if (err)
				blame(c, i, "tell its notes", err);
		}
	for (int i = 0; i < c->members && !err; i++)
		if (v->next->state[i] == MEMBER_IN && v->before.incarnation[i] != v->next->incarnation[i])
			notes_forgotten(c, i);
	if (!err && v->returns)
		notes_of_away(c, view_mask(v->next, MEMBER_IN) & ~v->returns);
	if (!err && v->cold) {
		err = notes_of_indexes(c, v->next, &failed);
		if (err)
			blame(c, failed, "list what changed", err);
	}
	err = err ? err : notes_of_missed(c, v->next);
	return err ? err : list_pending(v, true);
}

/* A member that turned out to differ, where no index tells of it: if it is started anew before it is healed, all of it must be. */
static int distrust(struct changing *v)
{
	struct pack nothing = { 0 };
	unsigned good = v->demoted ? tell_members(v->c, v->demoted, REPLICA_DISTRUST, &nothing, coordinator_lease_ns(v->c)) : 0;

	return blame_rest(v->c, v->demoted, good, "note that it is to be healed");
}

static int store(struct changing *v)
{
	struct coordinator *c = v->c;
	struct owed owed;
	bool goes_on;
	int err;

	pthread_mutex_lock(&c->lock);
	owed = c->owed;
	goes_on = c->goes_on;
	pthread_mutex_unlock(&c->lock);
	if ((view_has_quorum(v->next) && (!owed.recovery || goes_on)) || MUTANT("forget-away"))
		v->next->away = 0; /* from now on there may be changes without them */
	err = MUTANT("no-store") ? 0 : register_write(c, v->next, owed, c->version);

	if (err) {
		log_warning(c->x, NULL, "the new view could not be stored: %s", error_text(err));
		pthread_mutex_lock(&c->lock);
		c->deposed = true; /* whether it was stored or not: read it again */
		pthread_mutex_unlock(&c->lock);
		return err;
	}
	c->version++;
	c->stored = v->next->epoch;
	c->stored_owed = owed;
	return 0;
}

/* What was added while it was healed, which then did not take that in, is healed from now on. */
static void is_healed(struct remote_member *m)
{
	if (m->added)
		m->demote = true;
	else
		list_free(&m->differs);
}

/* What each member does of itself. */
static bool all_anew(const struct changing *v)
{
	for (int i = 0; i < v->c->members; i++)
		if (v->next->state[i] == MEMBER_IN && v->before.incarnation[i] == v->next->incarnation[i])
			return false;
	return v->cold;
}

/* A view that comes before clients had the time that they need after a start of all members anew gives them that time once more: in the one before, a member was missing perhaps.
 * Members that are new in it are told, too. */
static bool goes_on_anew(const struct changing *v)
{
	struct coordinator *c = v->c;
	uint64_t now = clock_ns();
	bool anew = all_anew(v);
	bool more = !anew && v->began_ns < c->go_on_ns + coordinator_lease_ns(c) && now < c->go_on_end_ns;

	if (anew)
		c->go_on_end_ns = now + GO_ON_MOST_NS;
	if (anew || more)
		c->go_on_ns = now + GO_ON_NS;
	return more && !MUTANT("go-on-once");
}

static int activate(struct changing *v)
{
	struct coordinator *c = v->c;
	struct pack p = { 0 };
	unsigned good;
	int err = MUTANT("no-notes") ? 0 : blame_rest(c, v->stay, notes_send(c, v->stay), "take the notes");

	for (int i = 0; i < c->members && !err; i++)
		if (v->coming >> i & 1) {
			list_sort_unique(&v->pending[i]);
			err = send_pending(c, i, &v->pending[i]);
			if (err)
				blame(c, i, "take the list of what it lacks", err);
		}
	if (err)
		return err;
	pack_view(&p, v->next);
	pack_u32(&p, v->returns | v->unsure);
	pack_u8(&p, goes_on_anew(v));
	pack_u32(&p, v->coming & ~v->demoted);
	good = tell_members(c, v->stay, REPLICA_ACTIVATE, &p, coordinator_lease_ns(c));
	pack_free(&p);
	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->members; i++) {
		struct remote_member *m = &c->member[i];

		m->leaving = m->stepped_down = m->healthy = false;
		if (v->next->state[i] == MEMBER_IN && v->before.state[i] == MEMBER_BACK)
			is_healed(m);
		else if (v->next->state[i] == MEMBER_IN &&
			 v->before.state[i] == MEMBER_OUT) /* it was away: that is yet to be healed */
			m->demote = m->differs.all || m->differs.count;
		if (v->next->state[i] == MEMBER_OUT && v->before.state[i] != MEMBER_OUT)
			m->out_since_ns = clock_ns();
		if (v->next->state[i] == MEMBER_OUT)
			m->broken = false;
		if (v->next->state[i] != MEMBER_IN)
			m->demote = false;
		if (good >> i & 1)
			m->last.epoch = v->next->epoch;
		m->last.suspects = m->last.orphans = m->last.stuck = m->last.tenants_left = m->last.repeated =
			m->last.departing = m->last.unsynced = 0;
		m->failed = false;
		m->hurry = true;
	}
	c->view = *v->next;
	tell_writable(c, view_has_quorum(v->next));
	c->last_view_ns = clock_ns();
	c->views++;
	task_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	blame_rest(c, v->stay, good, "take the new view");
	return 0;
}

static void changing_free(struct changing *v)
{
	for (int i = 0; i < REPLICAS_MAX; i++)
		list_free(&v->pending[i]);
}

/* It is to be BACK, and does not know yet what it lacks. The view before may have been stored by a coordinator that ended before the
 * member was told. */
static bool comes_back(const struct changing *v, int i)
{
	return v->next->state[i] == MEMBER_BACK &&
	       (v->before.state[i] != MEMBER_BACK || v->c->member[i].last.epoch != v->before.epoch);
}

/* What it had done the others can't tell then, though they kept running: it may never have come to them. */
static bool truth_forgot(const struct view *before, const struct view *next)
{
	int first = view_first(next);

	return first >= 0 && before->incarnation[first] != next->incarnation[first] && !MUTANT("trust-who-ran");
}

static void changing_init(struct changing *v, struct coordinator *c, struct view *next, const struct view *before, bool cold)
{
	*v = (struct changing){ .c = c, .began_ns = clock_ns(), .before = *before, .next = next, .cold = cold };
	v->stay = view_mask(next, MEMBER_BACK);
	v->returns = view_mask(next, MEMBER_IN) & before->away;
	v->unsure = cold && truth_forgot(before, next) ? view_mask(next, MEMBER_IN) : 0;
	pthread_mutex_lock(&c->lock);
	if (cold && !c->view.epoch && c->stored_owed.recovery && view_first(next) >= 0)
		/* the coordinator that stored it may not have told the members: any but the first may be one that was away */
		v->returns |= view_mask(next, MEMBER_IN) & ~(1u << view_first(next));
	for (int i = 0; i < c->members; i++) {
		struct remote_member *m = &c->member[i];

		/* It did not take the view in which it would have been told so. */
		if (c->owed.recovery && c->view.epoch && next->state[i] == MEMBER_IN && m->last.epoch != before->epoch)
			v->unsure |= 1u << i;
		if (!comes_back(v, i))
			continue;
		v->coming |= 1u << i;
		if (before->state[i] == MEMBER_IN && m->demote)
			v->demoted |= 1u << i;
		m->added = false;
		list_add_all(&v->pending[i], &m->differs); /* kept until it is IN, for it may go and come meanwhile */
	}
	pthread_mutex_unlock(&c->lock);
}

static int steps(struct changing *v)
{
	int err = list_pending(v, false);

	if (!err)
		err = sync_few(v); /* the most of it while it is still served */
	if (!err && !MUTANT("no-freeze"))
		err = freeze(v);
	if (!err)
		err = check_promoted(v);
	if (!err)
		err = sync_few(v);
	if (!err)
		err = sync_first(v);
	if (!err && !MUTANT("no-lease-wait"))
		err = wait_leases(v);
	if (!err)
		err = gather(v);
	if (!err)
		err = distrust(v);
	if (!err)
		err = store(v);
	return err ? err : activate(v);
}

static const char *describe(const struct view *v, char text[64])
{
	static const char letters[] = "obI";

	for (int i = 0; i < v->members; i++)
		text[i] = letters[v->state[i]];
	text[v->members] = '\0';
	return text;
}

/* Members may be frozen by now: another view of the same members must follow. Who was to come in and failed tries later. */
static void give_up(struct coordinator *c, const struct view *before, uint64_t epoch)
{
	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->members; i++) {
		struct remote_member *m = &c->member[i];

		m->leaving = m->stepped_down = false;
		if (before->state[i] != MEMBER_OUT || !m->broken)
			continue;
		m->broken = false;
		m->out_since_ns = clock_ns();
		member_waits_longer(m);
	}
	c->failed_epoch = epoch;
	pthread_mutex_unlock(&c->lock);
	atomic_store(&c->heal.epoch, before->epoch);
}

/* Of the processes that the view is for. With the lock held. */
static void note_boots(const struct coordinator *c, struct view *next)
{
	for (int i = 0; i < c->members; i++)
		if (c->member[i].known && c->member[i].last.incarnation == next->incarnation[i])
			next->boot[i] = c->member[i].last.boot;
}

/* ---- while there is no view to come ---- */

static void hold_task(void *arg)
{
	struct remote_member *m = arg;
	struct coordinator *c = m->c;
	uint64_t epoch, incarnation;
	int err;

	pthread_mutex_lock(&c->lock);
	epoch = m->holding_epoch;
	incarnation = c->view.incarnation[m->number];
	pthread_mutex_unlock(&c->lock);
	err = sync_process(c, m->number, incarnation, HOLD_NS);
	pthread_mutex_lock(&c->lock);
	if (is_of_the_disk(err))
		m->hold_again_ns = clock_ns() + SYNC_NS;
	err = err ? err : c->view.epoch != epoch ? -EVIEW : 0; /* there was a view after all, in which there were changes */
	m->holding = false;
	if (!err)
		m->held_epoch = epoch;
	pthread_mutex_unlock(&c->lock);
	coordinator_task_ends(c);
}

/* It was needed for whatever is acknowledged in this view, and does not belong to it any more. */
static bool has_gone(const struct coordinator *c, int i)
{
	const struct remote_member *m = &c->member[i];

	if (c->view.state[i] != MEMBER_IN)
		return false;
	if (m->known && m->last.incarnation != c->view.incarnation[i])
		return true;
	return !member_live(c, i) && clock_ns() >= m->lease_end_ns;
}

static bool is_to_hold(const struct coordinator *c, int i)
{
	const struct remote_member *m = &c->member[i];

	return c->view.state[i] == MEMBER_IN && member_live(c, i) && m->last.incarnation == c->view.incarnation[i] &&
	       m->held_epoch != c->view.epoch && !m->holding && clock_ns() >= m->hold_again_ns && !MUTANT("few-wait-unsynced");
}

void few_hold(struct coordinator *c)
{
	for (int i = 0; i < c->members; i++) {
		struct remote_member *m = &c->member[i];
		bool gone = false;

		pthread_mutex_lock(&c->lock);
		for (int k = 0; k < c->members && c->view.epoch; k++)
			gone |= has_gone(c, k);
		gone &= is_to_hold(c, i);
		m->holding |= gone;
		if (gone)
			m->holding_epoch = c->view.epoch;
		pthread_mutex_unlock(&c->lock);
		if (gone && coordinator_spawn(c, hold_task, m)) {
			pthread_mutex_lock(&c->lock);
			m->holding = false;
			pthread_mutex_unlock(&c->lock);
		}
	}
}

int view_change(struct coordinator *c, struct view *next, bool cold, const char *why)
{
	struct changing v;
	struct view before;
	char text[64];
	int err;

	healers_stop(c);
	pthread_mutex_lock(&c->lock);
	before = c->view.epoch ? c->view : *next;
	if (!c->view.epoch)
		before = c->base;
	next->epoch = (c->stored > before.epoch ? c->stored : before.epoch) + 1;
	snprintf(c->why, sizeof(c->why), "%s", why);
	note_boots(c, next);
	pthread_mutex_unlock(&c->lock);
	atomic_store(&c->heal.epoch, next->epoch);
	changing_init(&v, c, next, &before, cold);
	err = steps(&v);
	changing_free(&v);
	if (err) {
		log_warning(c->x, NULL, "no view %llu (%s): %s", (unsigned long long)next->epoch, why, error_text(err));
		give_up(c, &before, next->epoch);
		return err;
	}
	log_info(c->x, NULL, "view %llu: %s (o: out, b: back, I: in): %s", (unsigned long long)next->epoch,
		 describe(next, text), why);
	return 0;
}
