/* SPDX-License-Identifier: Apache-2.0 */
/* Members that lack a directory: a client can't do there what it does at others, and where such a member must stay for the quorum it would try
 * until it gives up. What the coordinator finds to be so, by asking the member, the next view makes equal. */
#include "coordinator.h"

enum { AGAIN_NS = 500000000, TIMES_LONGER = 10 };

struct looking {
	struct coordinator *c;
	struct view view;
	int truth, member; /* that is asked */
	struct request *rq;
	struct lack found[LACKS_MAX];
	unsigned count;
};

/* ---- what is found ---- */

static bool is_found(const struct looking *l, const struct gfid *directory)
{
	for (unsigned i = 0; i < l->count; i++)
		if (gfid_equal(&l->found[i].directory->gfid, directory))
			return true;
	return false;
}

/* With a reference, so that the first knows it by its gfid until it has been made equal. */
static int is_lacking(void *looking, const struct gfid *directory)
{
	struct looking *l = looking;
	struct inode *inode = NULL;
	int err;

	if (l->count == LACKS_MAX || is_found(l, directory))
		return 0;
	err = heal_find(&l->c->lacking.look, l->rq, directory, -1, l->truth, &inode);
	if (!err)
		l->found[l->count++] = (struct lack){ l->member, inode };
	return err == -ENOENT ? 0 : err;
}

/* Of a change that the first has done: what must be there for it at the others. */
static int look_at(struct looking *l, const struct note *n)
{
	int err = 0;

	for (l->member = 0; l->member < l->view.members; l->member++) {
		if (l->member == l->truth || l->view.state[l->member] != MEMBER_IN)
			continue;
		for (unsigned i = 0; i < n->objects && !err; i++)
			if (n->object[i].kind != NOTE_NEW && !note_only_names(n, i))
				err = heal_lacking(&l->c->lacking.look, l->rq, &n->object[i].gfid, l->truth, l->member,
						   is_lacking, l);
	}
	return err;
}

static int ask_repeated(struct looking *l, struct blob *answer)
{
	struct replica_out out = { 0 };
	int err = heal_verb(&l->c->lacking.look, l->rq, l->truth, REPLICA_REPEATED, NULL, NULL, &out);

	*answer = out.data;
	out.data = (struct blob){ 0 };
	fop_out_clear(FOP_replica, &out);
	return err;
}

static int look(struct looking *l)
{
	struct blob answer = { 0 };
	struct unpack u;
	int err = ask_repeated(l, &answer);

	u = unpack_blob(&answer);
	while (!err && unpack_more(&u)) {
		struct note n;

		unpack_note(&u, &n);
		err = u.failed ? -EPROTO : look_at(l, &n);
	}
	free(answer.bytes);
	return err;
}

/* With the lock held. What was found in the view that is there yet, and may be made equal. */
static void keep_found(struct looking *l)
{
	struct lacking *all = &l->c->lacking;
	uint64_t now = clock_ns();

	for (unsigned i = 0; i < l->count; i++) {
		struct gfid *g = &l->found[i].directory->gfid;

		if (l->c->view.epoch != l->view.epoch || all->count == LACKS_MAX || !lacking_may_take(&all->limit, g, now))
			continue;
		lacking_take(&all->limit, g, now);
		all->found[all->count++] = l->found[i];
		l->found[i].directory = NULL;
	}
}

static int look_once(struct looking *l)
{
	struct heal *h = &l->c->lacking.look;
	struct request rq;
	int err;

	l->rq = &rq;
	l->truth = view_first(&l->view);
	atomic_store(&h->epoch, l->view.epoch);
	err = heal_request(h, &rq);
	if (!err)
		err = l->truth < 0 ? -EROFS : look(l);
	heal_request_end(&rq);
	return err;
}

static void look_task(void *arg)
{
	struct coordinator *c = arg;
	struct looking l = { .c = c };
	uint64_t began = clock_ns(), pause;
	int err;

	pthread_mutex_lock(&c->lock);
	l.view = c->view;
	pthread_mutex_unlock(&c->lock);
	err = look_once(&l);
	if (err)
		log_debug(c->x, NULL, "what members lack is not known: %s", strerror(-err));
	pause = (clock_ns() - began) * TIMES_LONGER;
	pthread_mutex_lock(&c->lock);
	keep_found(&l);
	c->lacking.next_ns = clock_ns() + (pause > AGAIN_NS ? pause : AGAIN_NS);
	c->lacking.looking = false;
	task_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < l.count; i++)
		inode_unref(l.found[i].directory);
	coordinator_task_ends(c);
}

/* Clients send changes again that the first has done: others refuse them, can't be reached, or lack what is changed. Whoever tells of the last is
 * not believed: it is looked for. */
void lacking_look(struct coordinator *c)
{
	bool start;
	int first;

	pthread_mutex_lock(&c->lock);
	first = view_first(&c->view);
	start = c->view.epoch && first >= 0 && !c->unrecovered && !c->lacking.looking && clock_ns() >= c->lacking.next_ns &&
		c->member[first].last.epoch == c->view.epoch && c->member[first].last.repeated;
	c->lacking.looking |= start;
	pthread_mutex_unlock(&c->lock);
	if (!start || !coordinator_spawn(c, look_task, c))
		return;
	pthread_mutex_lock(&c->lock);
	c->lacking.looking = false;
	pthread_mutex_unlock(&c->lock);
}

/* ---- what becomes of it ---- */

bool lacking_is_due(const struct coordinator *c)
{
	return c->lacking.count && lacking_may_view(&c->lacking.limit, clock_ns());
}

/* Into the recovery of the view that comes. What led to the directory is in no index, so there may be more of the kind: a scrub is owed. */
void lacking_take_all(struct coordinator *c, const struct view *next)
{
	struct lack found[LACKS_MAX];
	unsigned count = 0;

	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < c->lacking.count; i++) {
		if (next->state[c->lacking.found[i].member] == MEMBER_IN) {
			found[count++] = c->lacking.found[i];
			continue;
		}
		inode_unref(c->lacking.found[i].directory);
	}
	c->lacking.count = 0;
	c->owed.scrub |= count;
	c->owed.unlisted |= count;
	if (count)
		lacking_view(&c->lacking.limit, clock_ns());
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < count; i++) {
		char text[GFID_TEXT];

		log_warning(c->x, NULL, "member %d lacks what directory %s has, and no list tells of it: it is made equal",
			    found[i].member, gfid_text(&found[i].directory->gfid, text));
		missed_add(c, &found[i].directory->gfid, found[i].directory); /* no memory: it is found once more */
		inode_unref(found[i].directory);
	}
}

void lacking_forget(struct coordinator *c)
{
	for (unsigned i = 0; i < c->lacking.count; i++)
		inode_unref(c->lacking.found[i].directory);
	c->lacking.count = 0;
}
