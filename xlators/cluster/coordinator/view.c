/* SPDX-License-Identifier: Apache-2.0 */
/* Who belongs to the set: what to change, and how it is changed. */
#include "coordinator.h"

enum { WAIT_MIN_NS = 1000000000, GFIDS_IN_ONE = 3000, REASONS = 160 };
#define WAIT_MAX_NS 150000000000ull
enum { SAME_AGAIN_NS = 200000000 }; /* between views that change no member */

/* ---- lists of objects that may differ ---- */

int list_add(struct gfid_list *l, const struct gfid *g)
{
	if (l->count == l->room) {
		size_t room = l->room ? 2 * l->room : 1024;
		struct gfid *grown = realloc(l->gfid, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		l->gfid = grown;
		l->room = room;
	}
	l->gfid[l->count++] = *g;
	return 0;
}

/* Adds the one to the other. Where memory is short, the other tells of all. */
static void list_add_all(struct gfid_list *to, const struct gfid_list *from)
{
	to->all |= from->all;
	for (size_t i = 0; i < from->count && !to->all; i++)
		to->all = list_add(to, &from->gfid[i]) != 0;
}

void list_free(struct gfid_list *l)
{
	free(l->gfid);
	*l = (struct gfid_list){ 0 };
}

/* What changed at the member after that generation; l->all: it does not know of all that did. */
static int list_index(struct coordinator *c, int member, uint64_t above, struct gfid_list *l)
{
	uint64_t cursor = 0;

	do {
		struct blob answer = { 0 };
		struct pack p = { 0 };
		struct unpack u;
		int err;

		pack_u64(&p, above);
		pack_u64(&p, cursor);
		err = ask_member(c, member, REPLICA_INDEX, &p, &answer, clock_ns() + coordinator_lease_ns(c));
		if (err)
			return err;
		u = unpack_blob(&answer);
		l->all |= unpack_u8(&u);
		cursor = unpack_u64(&u);
		while (unpack_more(&u) && !err) {
			struct gfid g = unpack_gfid(&u);

			unpack_u32(&u);
			err = u.failed ? -EPROTO : list_add(l, &g);
		}
		free(answer.bytes);
		if (err)
			return err;
	} while (cursor);
	return 0;
}

/* ---- notes ---- */

static struct union_note *union_find(struct coordinator *c, const struct note *n)
{
	struct union_note *u = c->notes;

	while (u && !note_same(&u->note, n))
		u = u->next;
	return u;
}

/* Done is final. What was resolved as not done may have been done again since, and then a member that the client did not reach that
 * time still tells of the old attempt. */
static void union_resolved(struct note *all, const struct note *n)
{
	if (n->resolved && !n->status) {
		all->resolved = true;
		all->status = 0;
		all->value = n->value;
	} else if (!n->resolved && all->status) {
		all->resolved = false;
	}
}

static int union_add(struct coordinator *c, int member, const struct note *n)
{
	struct union_note *u = union_find(c, n);

	if (!u) {
		u = calloc(1, sizeof(*u));
		if (!u)
			return -ENOMEM;
		u->note = *n;
		for (int i = 0; i < REPLICAS_MAX; i++)
			u->status[i] = NOTE_UNKNOWN;
		u->next = c->notes;
		c->notes = u;
	}
	union_resolved(&u->note, n);
	if (!n->status && !u->note.resolved && n->value > u->note.value) /* an arbiter writes nothing */
		u->note.value = n->value;
	u->has[member] = true;
	u->status[member] = n->status;
	return 0;
}

static int collect_notes(struct coordinator *c, int member)
{
	uint64_t from = 0;

	for (;;) {
		struct blob answer = { 0 };
		struct pack p = { 0 };
		struct unpack u;
		int err;

		pack_u64(&p, from);
		err = ask_member(c, member, REPLICA_NOTES, &p, &answer, clock_ns() + coordinator_lease_ns(c));
		if (err)
			return err;
		u = unpack_blob(&answer);
		if (!unpack_more(&u)) {
			free(answer.bytes);
			return 0;
		}
		while (unpack_more(&u) && !err) {
			struct note n;

			unpack_note(&u, &n);
			err = u.failed ? -EPROTO : union_add(c, member, &n);
			from++;
		}
		free(answer.bytes);
		if (err)
			return err;
	}
}

/* A member that was started anew may have done any of them, and has forgotten. */
static void union_forgotten(struct coordinator *c, int member)
{
	for (struct union_note *u = c->notes; u && !MUTANT("trust-the-forgetful"); u = u->next) {
		if (u->has[member])
			continue;
		u->has[member] = true;
		u->status[member] = -EIO;
	}
}

void notes_free(struct coordinator *c)
{
	while (c->notes) {
		struct union_note *u = c->notes;

		c->notes = u->next;
		free(u);
	}
}

/* All of an object is to be made equal: as a note of nobody's. */
static int note_whole(struct coordinator *c, const struct gfid *g, uint64_t number)
{
	struct union_note *u = calloc(1, sizeof(*u));

	if (!u)
		return -ENOMEM;
	u->note.sequence = number;
	u->note.fop = FOP_setattr;
	u->note.status = NOTE_UNKNOWN;
	u->note.objects = 1;
	u->note.object[0].kind = NOTE_NEW;
	u->note.object[0].gfid = *g;
	u->next = c->notes;
	c->notes = u;
	return 0;
}

static int compare_gfids(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct gfid));
}

static void sort_unique(struct gfid_list *l)
{
	size_t left = 0;

	if (l->count)
		qsort(l->gfid, l->count, sizeof(*l->gfid), compare_gfids);
	for (size_t i = 0; i < l->count; i++)
		if (!left || memcmp(&l->gfid[left - 1], &l->gfid[i], sizeof(*l->gfid)))
			l->gfid[left++] = l->gfid[i];
	l->count = left;
}

/* After all members went down together: what changed since the last common sync. */
static int notes_of_indexes(struct coordinator *c, const struct view *next)
{
	struct gfid_list l = { 0 };
	uint64_t least = UINT64_MAX;
	int err = 0;

	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->members; i++)
		if (next->state[i] == MEMBER_IN && c->member[i].last.synced < least)
			least = c->member[i].last.synced;
	pthread_mutex_unlock(&c->lock);
	for (int i = 0; i < c->members && !err; i++)
		if (next->state[i] == MEMBER_IN)
			err = list_index(c, i, least, &l);
	sort_unique(&l);
	if (l.all)
		log_warning(
			c->x, NULL,
			"not all is known that changed before the members went down: they may differ until the scrub that follows is done");
	for (size_t i = 0; i < l.count && !err; i++)
		err = note_whole(c, &l.gfid[i], i + 1);
	free(l.gfid);
	return err;
}

/* ---- sending lists ---- */

static int send_notes(struct coordinator *c, unsigned mask)
{
	const struct union_note *u = c->notes;

	while (u) {
		struct pack p = { 0 };
		unsigned good;

		for (; u && p.size < REPLICA_BLOB_MAX - 4096; u = u->next)
			pack_note(&p, &u->note);
		good = p.failed ? 0 : tell_members(c, mask, REPLICA_ADD_NOTES, &p, coordinator_lease_ns(c));
		pack_free(&p);
		if (good != mask)
			return -EIO;
	}
	return 0;
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

/* How long a member that goes again and again has to wait. */
static uint64_t longer(uint64_t wait_ns)
{
	return wait_ns * 2 < WAIT_MIN_NS ? WAIT_MIN_NS : wait_ns < WAIT_MAX_NS ? wait_ns * 2 : wait_ns;
}

/* ---- the change ---- */

struct changing {
	struct coordinator *c;
	struct view before, *next;
	bool cold;
	unsigned stay;	  /* members that will be IN or BACK */
	unsigned coming;  /* those that will be BACK anew */
	unsigned demoted; /* of these, who was IN, and what it lacks is known */
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

static int count_pending(struct coordinator *c, int member, bool *any)
{
	struct blob answer = { 0 };
	struct pack p = { 0 };
	struct unpack u;
	int err;

	pack_u64(&p, 0);
	err = ask_member(c, member, REPLICA_PENDING, &p, &answer, clock_ns() + coordinator_lease_ns(c));
	u = unpack_blob(&answer);
	if (!err) {
		*any = unpack_u64(&u) != 0;
		*any |= unpack_u8(&u) != 0;
		err = u.failed ? -EPROTO : 0;
	}
	free(answer.bytes);
	return err;
}

/* Who was to become IN may have skipped something between its healing and the freeze: then it stays BACK. */
static int check_promoted(struct changing *v)
{
	for (int i = 0; i < v->c->members; i++) {
		bool any = false;
		int err;

		if (v->before.state[i] != MEMBER_BACK || v->next->state[i] != MEMBER_IN)
			continue;
		err = count_pending(v->c, i, &any);
		if (err)
			return blame(v->c, i, "tell what is pending", err);
		if (any)
			v->next->state[i] = MEMBER_BACK;
	}
	return 0;
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
	int err = 0;

	notes_free(c);
	for (int i = 0; i < c->members && !err; i++)
		if (v->stay >> i & 1 && v->before.state[i] != MEMBER_OUT && !(MUTANT("notes-of-one") && i)) {
			err = collect_notes(c, i);
			if (err)
				blame(c, i, "tell its notes", err);
		}
	for (int i = 0; i < c->members && !err; i++)
		if (v->next->state[i] == MEMBER_IN && v->before.incarnation[i] != v->next->incarnation[i])
			union_forgotten(c, i);
	if (!err && v->cold)
		err = notes_of_indexes(c, v->next);
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
	bool owes;
	int err;

	pthread_mutex_lock(&c->lock);
	owes = c->owes_scrub;
	pthread_mutex_unlock(&c->lock);
	err = MUTANT("no-store") ? 0 : register_write(c, v->next, owes, c->version);

	if (err) {
		log_warning(c->x, NULL, "the new view could not be stored: %s", strerror(-err));
		pthread_mutex_lock(&c->lock);
		c->deposed = true; /* whether it was stored or not: read it again */
		pthread_mutex_unlock(&c->lock);
		return err;
	}
	c->version++;
	c->stored = v->next->epoch;
	c->stored_owes = owes;
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

static int activate(struct changing *v)
{
	struct coordinator *c = v->c;
	struct pack p = { 0 };
	unsigned good;
	int err = MUTANT("no-notes") ? 0 : send_notes(c, v->stay);

	for (int i = 0; i < c->members && !err; i++)
		if (v->coming >> i & 1) {
			sort_unique(&v->pending[i]);
			err = send_pending(c, i, &v->pending[i]);
			if (err)
				blame(c, i, "take the list of what it lacks", err);
		}
	if (err)
		return err;
	pack_view(&p, v->next);
	good = tell_members(c, v->stay, REPLICA_ACTIVATE, &p, coordinator_lease_ns(c));
	pack_free(&p);
	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->members; i++) {
		struct remote_member *m = &c->member[i];

		m->leaving = m->stepped_down = m->healthy = false;
		if (v->next->state[i] == MEMBER_IN && v->before.state[i] != MEMBER_IN)
			is_healed(m);
		if (v->next->state[i] == MEMBER_OUT && v->before.state[i] != MEMBER_OUT)
			m->out_since_ns = clock_ns();
		if (v->next->state[i] == MEMBER_OUT)
			m->broken = false;
		if (v->next->state[i] != MEMBER_IN)
			m->demote = false;
		if (good >> i & 1)
			m->last.epoch = v->next->epoch;
		m->last.suspects = m->last.orphans = m->last.stuck = 0;
		m->hurry = true;
	}
	c->view = *v->next;
	c->writable = view_has_quorum(v->next);
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

static void changing_init(struct changing *v, struct coordinator *c, struct view *next, const struct view *before, bool cold)
{
	*v = (struct changing){ .c = c, .before = *before, .next = next, .cold = cold };
	v->stay = view_mask(next, MEMBER_BACK);
	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->members; i++) {
		struct remote_member *m = &c->member[i];

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

	if (!err && !MUTANT("no-freeze"))
		err = freeze(v);
	if (!err)
		err = check_promoted(v);
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
		m->wait_ns = longer(m->wait_ns);
	}
	c->failed_epoch = epoch;
	pthread_mutex_unlock(&c->lock);
	atomic_store(&c->heal.epoch, before->epoch);
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
	pthread_mutex_unlock(&c->lock);
	atomic_store(&c->heal.epoch, next->epoch);
	changing_init(&v, c, next, &before, cold);
	err = steps(&v);
	changing_free(&v);
	if (err) {
		log_warning(c->x, NULL, "no view %llu (%s): %s", (unsigned long long)next->epoch, why, strerror(-err));
		give_up(c, &before, next->epoch);
		return err;
	}
	log_info(c->x, NULL, "view %llu: %s (o: out, b: back, I: in): %s", (unsigned long long)next->epoch,
		 describe(next, text), why);
	return 0;
}

/* ---- what to change ---- */

struct decision {
	struct view base, next;
	bool cold, changed;
	char why[REASONS];
};

static void reason(struct decision *d, int member, const char *text)
{
	if (!d->why[0])
		snprintf(d->why, sizeof(d->why), member < 0 ? "%s" : "%s: member %d", text, member);
	d->changed = true;
}

static uint32_t suspects(const struct coordinator *c)
{
	uint32_t mask = 0;

	for (int i = 0; i < c->members; i++)
		if (c->view.epoch && c->view.state[i] == MEMBER_IN && c->member[i].last.epoch == c->view.epoch)
			mask |= c->member[i].last.suspects;
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

/* Why it should not stay, if the others can do without it. */
static const char *unwanted(const struct coordinator *c, int i, uint32_t suspected)
{
	if (c->member[i].broken)
		return "it did not do its part";
	return suspected >> i & 1 ? "a client could not change something there" : NULL;
}

static void drop_unwanted(struct coordinator *c, struct decision *d)
{
	uint32_t suspected = suspects(c);

	for (int i = 0; i < c->members; i++) {
		const char *why = d->next.state[i] == MEMBER_OUT ? NULL : unwanted(c, i, suspected);
		struct view v = d->next;

		if (!why)
			continue;
		c->member[i].broken = false; /* it is tried once more, if it has to stay */
		v.state[i] = MEMBER_OUT;
		if (d->next.state[i] == MEMBER_IN && !view_has_quorum(&v))
			continue;
		d->next = v;
		reason(d, i, why);
	}
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

static bool all_kept_running(const struct view *base, const struct view *v)
{
	for (int i = 0; i < v->members; i++)
		if (v->state[i] == MEMBER_IN && v->incarnation[i] != base->incarnation[i])
			return false;
	return true;
}

/* All that are IN by the stored view and answer, whatever became of their processes. If they are less than a quorum, and the others' disks
 * are lost, they heal the others; until these have everything the set can only be read. */
static bool try_cold(const struct coordinator *c, struct decision *d)
{
	bool waited = clock_ns() > c->quorum_lost_ns + c->cold_wait_ms * 1000000, all = true;
	struct view v = d->base;

	for (int i = 0; i < c->members; i++) {
		bool live = member_live(c, i);

		all &= live || v.state[i] != MEMBER_IN;
		if (v.state[i] != MEMBER_IN || !live || c->member[i].last.disk != d->base.disk[i])
			v.state[i] = MEMBER_OUT;
		else
			v.incarnation[i] = c->member[i].last.incarnation;
	}
	if (!rest_is_replaced(c, &d->base, &v) && (!view_has_quorum(&v) || !(all || waited)))
		return false;
	d->next = v;
	d->cold |= !all_kept_running(&d->base, &v);
	return true;
}

/* Who kept running knows the most: it comes first. */
static void order_cold(const struct coordinator *c, struct decision *d)
{
	uint8_t order[REPLICAS_MAX];
	unsigned at = 0;

	for (int round = 0; round < 2; round++)
		for (unsigned k = 0; k < d->base.members; k++) {
			int i = d->base.order[k];
			bool kept = c->member[i].known && c->member[i].last.incarnation == d->base.incarnation[i];

			if (kept == !round)
				order[at++] = i;
		}
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

		if (d->base.state[i] != MEMBER_OUT || !member_live(c, i) || clock_ns() < m->out_since_ns + m->wait_ns)
			continue;
		d->next.state[i] = MEMBER_BACK;
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

		if (d->next.state[i] != MEMBER_IN || !c->member[i].demote)
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
	for (int i = 0; i < c->members; i++) {
		const struct lease_reply *r = &c->member[i].last;

		if (c->view.epoch && c->view.state[i] != MEMBER_OUT && r->epoch == c->view.epoch && (r->orphans || r->stuck) &&
		    clock_ns() > c->last_view_ns + SAME_AGAIN_NS)
			reason(d, -1, r->orphans ? "changes were left half done" : "a client does not give a token back");
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

int view_begin(struct coordinator *c, int first)
{
	struct view v = { .members = (uint8_t)c->members, .epoch = 1 };
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
		c->owes_scrub = true;
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

	if (!c->view.epoch || clock_ns() < c->last_view_ns + WAIT_MIN_NS)
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
	d->changed = true;
	snprintf(d->why, sizeof(d->why), "members that failed are tried again, for without them there are too few");
	return true;
}

/* A view of less than a quorum, whose others were replaced, goes on so until they are healed. */
static bool keeps_all_in(const struct decision *d)
{
	for (int i = 0; i < d->base.members; i++)
		if (d->base.state[i] == MEMBER_IN && d->next.state[i] != MEMBER_IN)
			return false;
	return true;
}

/* A coordinator before this one stored a view of members that had all been started anew, and did not get to telling them: what it was
 * to recover is not known to them. */
static bool began_cold(const struct coordinator *c, const struct decision *d)
{
	for (int i = 0; i < c->members; i++)
		if (d->base.state[i] == MEMBER_IN && member_live(c, i) && !c->member[i].last.epoch &&
		    c->member[i].last.incarnation == d->base.incarnation[i])
			return true;
	return false;
}

/* With the lock held. True: there is something to change. */
static bool consider(struct coordinator *c, struct decision *d)
{
	bool quorum;

	d->base = c->view.epoch ? c->view : c->base;
	d->base.arbiter = c->arbiter ? 2 : REPLICAS_MAX;
	d->next = d->base;
	if (!d->base.epoch)
		return first_view(c, d);
	if (awaits_answers(c, d))
		return false;
	if (!c->view.epoch) {
		reason(d, -1, "the coordinator was started");
		d->cold = began_cold(c, d);
	}
	drop_unfit(c, d);
	quorum = view_has_quorum(&d->next);
	if (quorum || !c->quorum_lost_ns)
		c->quorum_lost_ns = quorum ? 0 : clock_ns();
	if (!quorum) {
		if (c->writable)
			log_warning(c->x, NULL, "too few members: the set can only be read until others are back (%s)", d->why);
		c->writable = false;
	}
	if (!quorum && !keeps_all_in(d)) {
		if (try_again(c, d))
			return true;
		if (!try_cold(c, d))
			return false;
		order_cold(c, d);
		snprintf(d->why, sizeof(d->why), "so many went down that those in the last view begin anew");
	}
	c->writable |= c->view.epoch && quorum;
	take_back(c, d);
	promote(c, d);
	demote(c, d);
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
		if (m->last.incarnation != d->base.incarnation[i] || !member_live(c, i))
			m->wait_ns = 0; /* it was down: that is no fault of its disk or its links */
		else if (clock_ns() > was_out_ns[i] + 600000000000ull)
			m->wait_ns = WAIT_MIN_NS;
		else
			m->wait_ns = longer(m->wait_ns);
	}
}

void decide(struct coordinator *c)
{
	uint64_t was_out_ns[REPLICAS_MAX] = { 0 };
	struct decision d = { 0 };
	bool go;

	pthread_mutex_lock(&c->lock);
	go = consider(c, &d) && !c->deposed;
	for (int i = 0; i < c->members; i++)
		was_out_ns[i] = c->member[i].out_since_ns;
	c->owes_scrub |= go && d.cold; /* stored with the view */
	pthread_mutex_unlock(&c->lock);
	if (!go)
		return;
	if (view_change(c, &d.next, d.cold, d.why)) {
		task_sleep_ms(c->heartbeat_ms);
		return;
	}
	pthread_mutex_lock(&c->lock);
	note_leaving(c, &d, was_out_ns);
	pthread_mutex_unlock(&c->lock);
	if (!recover(c) && d.cold && scrub_start(c, true))
		log_warning(c->x, NULL, "the scrub that should follow can't be started");
}
