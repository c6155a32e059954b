/* SPDX-License-Identifier: Apache-2.0 */
/* What the member's disk has taken and could not keep. The kernel tells it once, and syncs without it from then on: so it is remembered here until the member has been healed, and
 * by a file in the state directory for a process that follows (losses-mark.c; doc/replication.md). */
#include "verbs.h"

#include <fcntl.h>

bool losses_have(const struct losses *l, const struct gfid *g)
{
	for (unsigned i = 0; i < l->count && i < LOST_KEPT; i++)
		if (gfid_equal(&l->gfid[i], g))
			return true;
	return l->count > LOST_KEPT;
}

bool losses_add(struct losses *l, const struct gfid *g)
{
	if (losses_have(l, g))
		return false;
	if (l->count < LOST_KEPT)
		l->gfid[l->count++] = *g;
	else
		l->count = LOST_KEPT + 1;
	return true;
}

/* ---- what is synced just now ---- */

static struct sync_queue *queue_of(struct member *m, const struct gfid *g)
{
	return &m->syncs[gfid_hash(g) % SYNC_QUEUES];
}

static void sync_begins(struct member *m, struct file_sync *s)
{
	struct sync_queue *q = queue_of(m, &s->gfid);

	pthread_mutex_lock(&m->lock);
	s->number = ++m->syncs_begun;
	s->before = q->last;
	*(q->last ? &q->last->next : &q->first) = s;
	q->last = s;
	pthread_mutex_unlock(&m->lock);
}

static void leave(struct sync_queue *q, struct file_sync *s)
{
	*(s->before ? &s->before->next : &q->first) = s->next;
	*(s->next ? &s->next->before : &q->last) = s->before;
	if (q->waits)
		task_cond_broadcast(&q->over);
}

static bool others_sync(const struct sync_queue *q, const struct gfid *g, uint64_t until)
{
	for (const struct file_sync *s = q->first; s && s->number <= until; s = s->next)
		if (gfid_equal(&s->gfid, g))
			return true;
	return false;
}

/* With the lock held; what it was told has been noted. Of two syncs of one open file the kernel tells one: who was told nothing waits until the others have been told. */
static int sync_ends(struct member *m, struct file_sync *s, int err, uint64_t deadline_ns)
{
	struct sync_queue *q = queue_of(m, &s->gfid);
	uint64_t until = m->syncs_begun;

	leave(q, s);
	q->waits++;
	if (s->note)
		s->note->waits = true;
	while (!err && others_sync(q, &s->gfid, until) && !MUTANT("judge-at-once"))
		err = task_cond_wait(&q->over, &m->lock, deadline_ns);
	q->waits--;
	if (s->note)
		s->note->waits = false;
	return err;
}

/* ---- all of the disk ---- */

/* With the lock held. The kernel does not say of what that was. Who has one of these open here is told by it; the next process opens them anew, and knows only what it finds here.
 * Whatever is not listed has been on the disk as a whole. */
static void note_doubt(struct member *m)
{
	const struct index *x = &m->index;

	if (x->floor > x->synced)
		m->in_doubt.count = LOST_KEPT + 1;
	for (size_t i = 0; i < x->count && m->in_doubt.count <= LOST_KEPT; i++)
		if (x->entry[i].generation > x->synced && (!x->entry[i].type || S_ISREG(x->entry[i].type)))
			losses_add(&m->in_doubt, &x->entry[i].gfid);
	m->mark_wanted++;
}

/* Of two at the same time the kernel tells one, as with a file. They are of the gfid that no object has. */
int member_sync(struct member *m, bool *whole)
{
	struct file_sync s = { .number = 0 };
	int err;

	sync_begins(m, &s);
	err = m->leaf->type->sync(m->leaf);
	pthread_mutex_lock(&m->lock);
	if (disk_lost_something(err) && !m->unsynced)
		log_error(m->x, NULL, "the disk has not kept all that was written (%s): the member is to be healed",
			  error_text(err));
	m->unsynced |= disk_lost_something(err);
	if (disk_lost_something(err))
		note_doubt(m);
	if (sync_ends(m, &s, err, NO_DEADLINE) && !err)
		err = -ECANCELED;
	*whole = !m->unsynced || MUTANT("forget-lost");
	pthread_mutex_unlock(&m->lock);
	losses_mark(m);
	return err;
}

static void task_ends(struct member *m)
{
	pthread_mutex_lock(&m->lock);
	m->tasks--;
	task_cond_broadcast(&m->event);
	pthread_mutex_unlock(&m->lock);
}

static void hear_losses(void *arg)
{
	bool whole;

	member_sync(arg, &whole);
	task_ends(arg);
}

static void unmark(void *arg)
{
	losses_mark(arg);
	task_ends(arg);
}

static void begin_task(struct member *m, void (*fn)(void *))
{
	if (m->stopping)
		return;
	m->tasks++;
	if (task_spawn(NULL, fn, m))
		m->tasks--;
}

void losses_forget(struct member *m)
{
	m->mark_wanted += m->unsynced;
	m->unsynced = false;
	m->lost.count = m->in_doubt.count = 0;
	if (m->mark_done != m->mark_wanted)
		begin_task(m, unmark);
}

/* ---- one file ---- */

static void note_lost(struct member *m, const struct gfid *g)
{
	if (!m->unsynced)
		begin_task(m, hear_losses); /* of all the others now, and not again when it has been healed */
	m->mark_wanted += !m->unsynced;
	m->unsynced = true;
	m->mark_wanted += losses_add(&m->lost, g);
}

/* Not with the lock held. `lost`: what it was told is of a disk that has lost something. `before`: what was told before counts, too. */
static int judge(struct member *m, struct request *rq, struct file_sync *s, int err, bool lost, bool before)
{
	pthread_mutex_lock(&m->lock);
	if (lost)
		note_lost(m, &s->gfid);
	err = sync_ends(m, s, err, rq->deadline_ns ? rq->deadline_ns : NO_DEADLINE);
	if (!err && before && losses_have(&m->lost, &s->gfid) && !MUTANT("forget-lost"))
		err = -EIO;
	pthread_mutex_unlock(&m->lock);
	losses_mark(m);
	return err;
}

int member_fsync(struct member *m, struct request *rq, const struct fsync_in *in, struct fsync_out *out)
{
	struct file_sync s = { .gfid = in->file->inode->gfid };
	int err;

	sync_begins(m, &s);
	err = fop_call(rq, m->x->child[0], FOP_fsync, in, out);
	return judge(m, rq, &s, err, disk_lost_something(err), true);
}

int member_heal_fsync(struct member *m, struct request *rq, const struct fsync_in *in, struct fsync_out *out)
{
	struct file_sync s = { .gfid = in->file->inode->gfid };
	bool names = S_ISDIR(in->file->inode->type);
	int err;

	sync_begins(m, &s);
	err = fop_call(rq, m->x->child[0], FOP_fsync, in, out);
	return judge(m, rq, &s, err, disk_lost_something(err), !names);
}

/* Some of it may be there, and the others may have it: what became of it here nobody knows (EIO). */
int member_write_durably(struct member *m, struct request *rq, struct kept_note *note, const struct write_in *in,
			 struct write_out *out)
{
	struct file_sync s = { .gfid = in->file->inode->gfid, .note = note };
	int err, judged;

	sync_begins(m, &s);
	err = fop_call(rq, m->x->child[0], FOP_write, in, out);
	task_shield(true); /* it is done: that nobody waits for it any more is no failure of the disk */
	judged = judge(m, rq, &s, err, err == -EIO || err == -EROFS, true);
	task_shield(false);
	return err ? err : judged;
}
