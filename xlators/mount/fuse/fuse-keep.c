/* SPDX-License-Identifier: Apache-2.0 */
/* Files that were read and closed stay open below for a moment, for who opens them next: programs open the same headers, scripts and modules time
 * and again, and each would be two messages.
 *
 * The next one gets such a file only if the brick would let it open it: everybody may read it, and that has not changed since (believe_ms). It must be
 * the same user, too, for a translator below may refuse one whatever the mode says. What a lock was set through is never kept. */
#include <fcntl.h>
#include <sys/stat.h>

#include "fuse-internal.h"

enum { KEPT_MS = 1000, SWEEP_MS = 100 };
enum { FOR_EXECUTION = 040 }; /* the kernel's __FMODE_EXEC */

/* An open that asks for nothing but the right to read. */
static bool plain_flags(uint32_t flags)
{
	return (flags & O_ACCMODE) == O_RDONLY && !(flags & (O_TRUNC | O_DIRECT | O_NOATIME | FOR_EXECUTION));
}

bool keep_worth(const struct inode *inode, uint32_t flags)
{
	return S_ISREG(inode->type) && plain_flags(flags);
}

/* With the lock held. */
static struct kept_file kept_remove(struct keep *k, unsigned i)
{
	struct kept_file taken = k->file[i];
	k->file[i] = k->file[--k->count];
	return taken;
}

/* ---- what has been kept for long ---- */

/* A task for each, which waits as long as those below do: who gave up would leave the file open at the brick; and a brick that is away keeps no
 * others from being released. */
struct releasing {
	struct mount *mount;
	struct file *file;
	struct task *task;
	struct releasing *next; /* in the mount's list */
};

static void begins(struct releasing *r)
{
	struct keep *k = &r->mount->keep;
	pthread_mutex_lock(&k->lock);
	r->task = task_self();
	r->next = k->releasing;
	k->releasing = r;
	pthread_mutex_unlock(&k->lock);
}

/* After it nobody cancels the task. */
static void ends(struct releasing *r)
{
	struct keep *k = &r->mount->keep;
	struct releasing **at = &k->releasing;
	pthread_mutex_lock(&k->lock);
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	pthread_mutex_unlock(&k->lock);
}

/* By who is no request of the kernel. The file goes before its graph may. */
static void release(void *arg)
{
	struct releasing *r = arg;
	struct mount *m = r->mount;
	struct device *d = &m->device[0];
	struct release_in in = { .file = r->file };
	struct release_out out = { 0 };
	struct request rq;
	begins(r);
	pthread_mutex_lock(&d->lock);
	struct xlator *top = d->top;
	atomic_fetch_add(&top->graph->requests, 1);
	pthread_mutex_unlock(&d->lock);
	request_init(&rq, top->graph, 0);
	rq.client = &m->client;
	rq.group_count = 0;
	release_on(&rq, top->child[0], &in, &out);
	request_finish(&rq);
	ends(r);
	file_unref(r->file);
	free(r);
	atomic_fetch_sub(&top->graph->requests, 1);
	atomic_fetch_sub(&m->users, 1);
}

/* Short of memory: the sweeper tries again. If there is no room for it either, the brick has it until this client goes. */
static void put_back(struct mount *m, struct file *file)
{
	struct keep *k = &m->keep;
	pthread_mutex_lock(&k->lock);
	bool room = k->count < KEPT_FILES;
	if (room)
		k->file[k->count++] = (struct kept_file){ .file = file };
	pthread_mutex_unlock(&k->lock);
	if (!room)
		file_unref(file);
}

/* Takes over the reference. False: it is kept still. */
static bool release_begin(struct mount *m, struct file *file)
{
	struct releasing *r = malloc(sizeof(*r));
	if (r)
		*r = (struct releasing){ .mount = m, .file = file };
	atomic_fetch_add(&m->users, 1);
	if (r && task_spawn(NULL, release, r) == 0)
		return true;
	atomic_fetch_sub(&m->users, 1);
	free(r);
	put_back(m, file);
	return false;
}

void keep_cancel(struct mount *m)
{
	pthread_mutex_lock(&m->keep.lock);
	for (struct releasing *r = m->keep.releasing; r; r = r->next)
		task_cancel(r->task);
	pthread_mutex_unlock(&m->keep.lock);
}

static struct file *take_old(struct keep *k)
{
	struct file *old = NULL;
	uint64_t now = clock_ns();
	pthread_mutex_lock(&k->lock);
	for (unsigned i = 0; i < k->count && !old; i++)
		if (k->file[i].until_ns <= now)
			old = kept_remove(k, i).file;
	pthread_mutex_unlock(&k->lock);
	return old;
}

/* Whether this is to be done again. */
static bool sweep_once(struct mount *m)
{
	struct keep *k = &m->keep;
	struct file *old;
	while (!atomic_load(&m->gone) && (old = take_old(k)) && release_begin(m, old))
		;
	pthread_mutex_lock(&k->lock);
	bool known = known_sweep(m); /* with the lock: who adds to it from here on finds that nobody sweeps */
	k->sweeping = (k->count || known) && !atomic_load(&m->gone);
	bool again = k->sweeping;
	pthread_mutex_unlock(&k->lock);
	return again;
}

static void sweep(void *arg)
{
	struct mount *m = arg;
	do
		task_sleep_ms(SWEEP_MS);
	while (sweep_once(m));
	atomic_fetch_sub(&m->users, 1);
}

void keep_sweep(struct mount *m)
{
	pthread_mutex_lock(&m->keep.lock);
	bool begin = !m->keep.sweeping;
	m->keep.sweeping = true;
	pthread_mutex_unlock(&m->keep.lock);
	if (!begin)
		return;
	atomic_fetch_add(&m->users, 1);
	if (task_spawn(NULL, sweep, m) == 0)
		return;
	atomic_fetch_sub(&m->users, 1);
	pthread_mutex_lock(&m->keep.lock);
	m->keep.sweeping = false;
	pthread_mutex_unlock(&m->keep.lock);
}

/* ---- what is opened again ---- */

static bool fits(const struct kept_file *f, const struct ask *a, const struct inode *inode, uint32_t flags)
{
	return f->file->inode == inode && f->flags == flags && f->uid == a->rq.uid && f->gid == a->rq.gid && f->until_ns;
}

static struct kept_file find(struct ask *a, const struct inode *inode, uint32_t flags)
{
	struct keep *k = &a->mount->keep;
	struct kept_file found = { 0 };
	pthread_mutex_lock(&k->lock);
	for (unsigned i = 0; i < k->count && !found.file; i++)
		if (fits(&k->file[i], a, inode, flags))
			found = kept_remove(k, i);
	pthread_mutex_unlock(&k->lock);
	return found;
}

struct file *keep_take(struct ask *a, struct inode *inode, uint32_t flags, uint64_t *since)
{
	struct kept_file found = { 0 };
	if (plain_flags(flags) && believe_readable(a, inode))
		found = find(a, inode, flags);
	if (!found.file)
		return NULL;
	*since = found.since;
	if (believed(a, inode, BELIEVE_META, found.since)) {
		atomic_fetch_add(&a->mount->keep.again, 1);
		return found.file;
	}
	if (!release_begin(a->mount, found.file))
		keep_sweep(a->mount);
	return NULL;
}

/* ---- what is closed ---- */

static unsigned oldest(const struct keep *k)
{
	unsigned least = 0;
	for (unsigned i = 1; i < k->count; i++)
		if (k->file[i].until_ns < k->file[least].until_ns)
			least = i;
	return least;
}

struct file *keep_put(struct ask *a, const struct handle *h)
{
	struct keep *k = &a->mount->keep;
	struct file *gone = NULL;
	if (!h->since || atomic_load(&h->locked) || atomic_load(&h->file->inode->nlookup) == 0 ||
	    !believed(a, h->file->inode, BELIEVE_META, h->since))
		return file_ref(h->file);
	pthread_mutex_lock(&k->lock);
	if (k->count == KEPT_FILES)
		gone = kept_remove(k, oldest(k)).file;
	k->file[k->count++] = (struct kept_file){ .file = file_ref(h->file),
						  .flags = h->flags,
						  .uid = h->uid,
						  .gid = h->gid,
						  .since = h->since,
						  .until_ns = clock_ns() + KEPT_MS * 1000000ul };
	pthread_mutex_unlock(&k->lock);
	keep_sweep(a->mount);
	return gone;
}

void keep_forget(struct mount *m, const struct inode *inode)
{
	pthread_mutex_lock(&m->keep.lock);
	for (unsigned i = 0; i < m->keep.count; i++)
		if (!inode || m->keep.file[i].file->inode == inode)
			m->keep.file[i].until_ns = 0;
	pthread_mutex_unlock(&m->keep.lock);
}

unsigned keep_count(struct mount *m)
{
	pthread_mutex_lock(&m->keep.lock);
	unsigned n = m->keep.count;
	pthread_mutex_unlock(&m->keep.lock);
	return n;
}

void keep_end(struct mount *m)
{
	while (m->keep.count)
		file_unref(m->keep.file[--m->keep.count].file);
}
