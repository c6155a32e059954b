/* SPDX-License-Identifier: Apache-2.0 */
/* What the member's disk has taken and could not keep. The kernel tells it once, and syncs without it from then on: so it is remembered here until the member has been healed, and
 * by a file in the state directory for a process that follows (doc/replication.md). */
#include <fcntl.h>
#include <unistd.h>

#include "verbs.h"

#define MARK "lost"

struct file_sync { /* under way, on the stack of its caller */
	struct gfid gfid;
	uint64_t number;
	struct file_sync *next;
};

/* ---- by the process that follows ---- */

static int mark(struct member *m, bool on)
{
	int fd;

	task_blocks();
	if (!on)
		return unlinkat(m->index.directory_fd, MARK, 0) && errno != ENOENT ? -errno : 0;
	fd = openat(m->index.directory_fd, MARK, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/* Not with the lock held. One at a time, and who comes meanwhile waits. What fails is tried again by who comes next. */
static void mark_as_is(struct member *m)
{
	int err = 0;

	pthread_mutex_lock(&m->lock);
	while (m->marking)
		task_cond_wait(&m->sync_over, &m->lock, NO_DEADLINE);
	while (!err && m->marked != m->unsynced && !MUTANT("mark-no-loss")) {
		bool on = m->unsynced;

		m->marking = true;
		pthread_mutex_unlock(&m->lock);
		err = mark(m, on);
		if (err)
			log_error(m->x, NULL,
				  "can't %s %s/" MARK ", by which the next process knows what the disk has lost: %s",
				  on ? "make" : "remove", m->state_dir, error_text(err));
		pthread_mutex_lock(&m->lock);
		m->marking = false;
		m->marked = err ? m->marked : on;
		task_cond_broadcast(&m->sync_over);
	}
	pthread_mutex_unlock(&m->lock);
}

void losses_begin(struct member *m)
{
	m->marked = m->unsynced = !faccessat(m->index.directory_fd, MARK, F_OK, 0);
	if (m->unsynced) {
		m->lost_count = LOST_KEPT + 1;
		log_error(m->x, NULL,
			  "the disk has not kept all that was written to it before the start: the member is to be healed");
	}
}

/* ---- all of the disk ---- */

int member_sync(struct member *m, bool *whole)
{
	int err = m->leaf->type->sync(m->leaf);

	pthread_mutex_lock(&m->lock);
	if (disk_lost_something(err) && !m->unsynced)
		log_error(m->x, NULL, "the disk has not kept all that was written (%s): the member is to be healed",
			  error_text(err));
	m->unsynced |= disk_lost_something(err);
	*whole = !m->unsynced || MUTANT("forget-lost");
	pthread_mutex_unlock(&m->lock);
	mark_as_is(m);
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
	mark_as_is(arg);
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
	m->unsynced = false;
	m->lost_count = 0;
	if (m->marked || m->marking)
		begin_task(m, unmark);
}

/* ---- one file ---- */

static bool has_lost(const struct member *m, const struct gfid *g)
{
	for (unsigned i = 0; i < m->lost_count && i < LOST_KEPT; i++)
		if (gfid_equal(&m->lost[i], g))
			return true;
	return m->lost_count > LOST_KEPT;
}

static void note_lost(struct member *m, const struct gfid *g)
{
	if (!m->unsynced)
		begin_task(m, hear_losses); /* of all the others now, and not again when it has been healed */
	m->unsynced = true;
	if (has_lost(m, g))
		return;
	if (m->lost_count < LOST_KEPT)
		m->lost[m->lost_count++] = *g;
	else
		m->lost_count = LOST_KEPT + 1;
}

static bool others_sync(const struct member *m, const struct gfid *g, uint64_t until)
{
	for (const struct file_sync *s = m->syncs; s; s = s->next)
		if (s->number <= until && gfid_equal(&s->gfid, g))
			return true;
	return false;
}

static void sync_begins(struct member *m, struct file_sync *s)
{
	pthread_mutex_lock(&m->lock);
	s->number = ++m->syncs_begun;
	s->next = m->syncs;
	m->syncs = s;
	pthread_mutex_unlock(&m->lock);
}

/* With the lock held. Of two syncs of one open file the kernel tells one: who was told nothing waits until the others have been told. */
static int sync_ends(struct member *m, struct file_sync *s, int err, uint64_t deadline_ns)
{
	uint64_t until = m->syncs_begun;
	struct file_sync **at = &m->syncs;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	if (disk_lost_something(err))
		note_lost(m, &s->gfid);
	if (m->sync_waits)
		task_cond_broadcast(&m->sync_over);
	m->sync_waits++;
	while (!err && others_sync(m, &s->gfid, until) && !MUTANT("judge-at-once"))
		err = task_cond_wait(&m->sync_over, &m->lock, deadline_ns);
	m->sync_waits--;
	return err ? err : has_lost(m, &s->gfid) && !MUTANT("forget-lost") ? -EIO : 0;
}

int member_fsync(struct member *m, struct request *rq, const struct fsync_in *in, struct fsync_out *out)
{
	struct file_sync s = { .gfid = in->file->inode->gfid };
	int err;

	sync_begins(m, &s);
	err = fop_call(rq, m->x->child[0], FOP_fsync, in, out);
	pthread_mutex_lock(&m->lock);
	err = sync_ends(m, &s, err, rq->deadline_ns ? rq->deadline_ns : NO_DEADLINE);
	pthread_mutex_unlock(&m->lock);
	mark_as_is(m);
	return err;
}
