/* SPDX-License-Identifier: Apache-2.0 */
/* One kernel mount, many graphs: the mount stays, the graph below it is replaced while requests run.
 *
 * Each request takes the graph that is active when it begins and holds a reference (graph->requests) until it is answered. A new
 * graph takes the mount over in its start(): each descriptor's `top` is changed under the descriptor's lock. So a request either
 * took its reference before, and a->top shows it, or it takes the new graph. Then waits for locks in the old graph, which could
 * last for ever, are cancelled and asked again in the new one; everything else ends by itself. When graph->requests of the old
 * graph is 0, nothing will ever enter it again. */
#include "fuse-internal.h"

static pthread_mutex_t mounts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mount *mounts; /* those that may be used */

void ask_acquire(struct ask *a)
{
	pthread_mutex_lock(&a->device->lock);
	a->top = a->device->top;
	atomic_fetch_add(&a->top->graph->requests, 1);
	pthread_mutex_unlock(&a->device->lock);
}

void ask_release(struct ask *a)
{
	struct graph *graph = a->top->graph;
	a->top = NULL;
	atomic_fetch_sub(&graph->requests, 1); /* from here on it may go */
}

/* Called when an operation gave `err` and nothing was replied. */
bool ask_again(struct ask *a, int err)
{
	if (err != -ERESTARTGRAPH && err != -ECANCELED)
		return false;
	struct bucket *b = &a->mount->bucket[a->head.unique / 2 % BUCKETS];
	pthread_mutex_lock(&b->lock);
	bool again = !a->interrupted && (a->restart || err == -ERESTARTGRAPH);
	a->restart = false;
	pthread_mutex_unlock(&b->lock);
	return again;
}

static void waits_restart(struct mount *m, const struct xlator *now)
{
	for (struct bucket *b = m->bucket; b < m->bucket + BUCKETS; b++) {
		pthread_mutex_lock(&b->lock);
		for (struct ask *a = b->first; a; a = a->next) {
			pthread_mutex_lock(&a->device->lock);
			bool old = a->op->waits && a->top && a->top != now;
			pthread_mutex_unlock(&a->device->lock);
			if (!old)
				continue;
			a->restart = true;
			task_cancel(a->task);
		}
		pthread_mutex_unlock(&b->lock);
	}
}

static void top_set(struct mount *m, struct xlator *x)
{
	for (unsigned i = 0; i < m->devices; i++) {
		pthread_mutex_lock(&m->device[i].lock);
		m->device[i].top = x;
		pthread_mutex_unlock(&m->device[i].lock);
	}
}

struct mount *mount_take(struct xlator *x)
{
	struct fuse_private *p = x->private;
	pthread_mutex_lock(&mounts_lock);
	struct mount *m = mounts;
	while (m && (m->retired || strcmp(m->path, p->mountpoint) != 0 || m->root->table != x->inodes))
		m = m->next;
	p->mount = m;
	if (m) {
		atomic_fetch_add(&m->older_graphs, 1); /* until last_words() of the one before */
		top_set(m, x);
		waits_restart(m, x);
	}
	pthread_mutex_unlock(&mounts_lock);
	if (m)
		disbelieve(m, NULL);
	return m;
}

void mount_publish(struct mount *m, struct xlator *x)
{
	struct fuse_private *p = x->private;
	pthread_mutex_lock(&mounts_lock);
	m->next = mounts;
	mounts = m;
	p->mount = m;
	pthread_mutex_unlock(&mounts_lock);
}

static struct mount **place(const struct mount *m)
{
	struct mount **at = &mounts;
	while (*at && *at != m)
		at = &(*at)->next;
	return at;
}

struct mount *mount_retire(struct xlator *x)
{
	const struct fuse_private *p = x->private;
	pthread_mutex_lock(&mounts_lock);
	struct mount *m = *place(p->mount);
	bool served = m && m->device[0].top == x;
	if (served)
		m->retired = true;
	pthread_mutex_unlock(&mounts_lock);
	return served ? m : NULL;
}

struct mount *mount_use(struct xlator *x)
{
	const struct fuse_private *p = x->private;
	pthread_mutex_lock(&mounts_lock);
	struct mount *m = *place(p->mount);
	if (m)
		atomic_fetch_add(&m->users, 1);
	pthread_mutex_unlock(&mounts_lock);
	return m;
}

void mount_let_go(struct mount *m)
{
	atomic_fetch_sub(&m->users, 1);
}

void mount_ends(struct mount *m)
{
	pthread_mutex_lock(&mounts_lock);
	struct mount **at = place(m);
	if (*at)
		*at = m->next;
	pthread_mutex_unlock(&mounts_lock);
}

/* The kernel says that the mount is no more: the program shall stop. Told once. */
void unmounted(struct device *d)
{
	device_unwatch(d);
	if (atomic_exchange(&d->mount->gone, true))
		return;
	pthread_mutex_lock(&d->lock);
	struct graph *graph = d->top->graph;
	atomic_fetch_add(&graph->requests, 1);
	pthread_mutex_unlock(&d->lock);
	if (graph->on_unmount)
		graph->on_unmount(graph);
	atomic_fetch_sub(&graph->requests, 1);
}
