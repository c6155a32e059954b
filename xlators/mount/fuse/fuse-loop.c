/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors of /dev/fuse: one clone per shard where the kernel lets us, watched by the shard's loop. */
#include <fcntl.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fuse-internal.h"

/* A second read after a request finds one more waiting only under load, else it is a system call for nothing. So it is tried
 * while it keeps succeeding, and once in a while to find out. */
enum { BATCH = 16, HOPE_MAX = 8, HOPE_ENOUGH = 4, PROBE_EACH = 64 };

/* The kernel wakes whoever watches, all of them if none sleeps, and the requests of one program come one by one. So only the
 * first descriptor is always watched; when requests queue up before one, the next joins in, until it is woken in vain too often. */
enum { VAIN_MAX = 8, HELP_FROM = 2 };

static int watch(struct device *d)
{
	struct mount *m = d->mount;
	int err = 0;

	pthread_mutex_lock(&m->watch_lock);
	if (!atomic_load(&d->watched) && !m->unwatching) {
		d->watch.fd = d->fd;
		atomic_store(&d->watched, true);
		err = shard_watch(d->shard, &d->watch, EPOLLIN | EPOLLEXCLUSIVE);
		if (err)
			atomic_store(&d->watched, false);
	}
	pthread_mutex_unlock(&m->watch_lock);
	return err;
}

void device_unwatch(struct device *d)
{
	pthread_mutex_lock(&d->mount->watch_lock);
	if (atomic_exchange(&d->watched, false))
		shard_unwatch(&d->watch);
	pthread_mutex_unlock(&d->mount->watch_lock);
}

/* Requests queue up: one more shard may serve. */
static void call_for_help(struct mount *m)
{
	unsigned i = 1;

	while (i < m->devices && atomic_load(&m->device[i].watched))
		i++;
	if (i < m->devices)
		watch(&m->device[i]); /* without memory for it: the next time */
}

/* Was there a request when the device was woken? */
static void note_waking(struct device *d, bool some)
{
	if (d == d->mount->device)
		return;
	d->vain = some ? d->vain - (d->vain > 0) : d->vain + 1;
	if (d->vain < VAIN_MAX)
		return;
	d->vain = 0;
	device_unwatch(d);
}

static void forget_many(struct mount *m, const struct fuse_batch_forget_in *in, size_t size)
{
	const struct fuse_forget_one *one = (const void *)(in + 1);
	size_t room = (size - sizeof(*in)) / sizeof(*one);
	for (size_t i = 0; i < in->count && i < room; i++)
		node_forget(m, node(m, one[i].nodeid), one[i].nlookup);
}

/* True if it was one of those that need no task. */
static bool handle_at_once(struct device *d, const struct fuse_in_header *head, size_t size)
{
	const void *arg = head + 1;
	switch (head->opcode) {
	case FUSE_FORGET:
		node_forget(d->mount, node(d->mount, head->nodeid), ((const struct fuse_forget_in *)arg)->nlookup);
		return true;
	case FUSE_BATCH_FORGET:
		forget_many(d->mount, arg, size);
		return true;
	case FUSE_INTERRUPT:
		interrupt(d, ((const struct fuse_interrupt_in *)arg)->unique);
		return true;
	default:
		return false;
	}
}

/* The buffer is laid out so that the data of a WRITE begins on a page: the brick may write it with O_DIRECT. */
static ssize_t read_request(struct device *d)
{
	if (!d->buffer)
		d->buffer = buffer_create(DATA_AT + d->mount->max_write);
	if (!d->buffer)
		return -ENOMEM;
	ssize_t n = read(d->fd, d->buffer->base + DATA_AT - WRITE_HEAD, WRITE_HEAD + d->mount->max_write);
	return n < 0 ? -errno_now() : n;
}

/* 1: a request was read; 0: none waits. */
static int next_request(struct device *d)
{
	ssize_t n = read_request(d);
	atomic_store_explicit(&d->reads, d->reads + 1, memory_order_relaxed);
	ordered_after(d->mount);
	if (n == -ENODEV || n == -ECONNABORTED || n == -EBADF) {
		unmounted(d);
		return 0;
	}
	if (n == -EAGAIN)
		atomic_store_explicit(&d->empty_reads, d->empty_reads + 1, memory_order_relaxed);
	if (n == -ENOENT || n == -EINTR)
		return 1;			     /* interrupted before we had it */
	if (n < 0 && n != -EAGAIN && n != -ENOMEM) { /* and it would say so for ever */
		log_error(d->top, NULL, "the kernel can't be asked for requests: %s; the mount ends", strerror(-(int)n));
		unmounted(d);
	}
	if (n < (ssize_t)sizeof(struct fuse_in_header))
		return 0;
	const struct fuse_in_header *head = (const void *)(d->buffer->base + DATA_AT - WRITE_HEAD);
	size_t size = n - sizeof(*head);
	if (!handle_at_once(d, head, size))
		ask_start(d, head, size);
	return 1;
}

static void ready(struct watch *w, uint32_t events)
{
	struct device *d = (struct device *)w;
	(void)events;
	for (int i = 0; i < BATCH && atomic_load(&d->watched); i++) {
		bool tried = i > 0;
		if (tried && d->hope < HOPE_ENOUGH && d->reads % PROBE_EACH != 0)
			return;
		bool more = next_request(d) > 0;
		if (!tried)
			note_waking(d, more);
		else if (more && i == HELP_FROM)
			call_for_help(d->mount);
		if (tried)
			d->hope = !more ? 0 : d->hope < HOPE_MAX ? d->hope + 2 : d->hope;
		if (!more)
			return;
	}
}

static int clone_device(int fd)
{
	int clone = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	uint32_t of = fd;
	if (clone < 0)
		return -errno_now();
	if (ioctl(clone, FUSE_DEV_IOC_CLONE, &of) < 0) {
		int err = -errno_now();
		close(clone);
		return err;
	}
	return clone;
}

int devices_open(struct mount *m, struct xlator *top, struct problem *problem)
{
	m->devices = runtime_shards();
	m->device = calloc(m->devices, sizeof(*m->device));
	if (!m->device)
		return problem_set(problem, ENOMEM, "out of memory for %u descriptors", m->devices);
	m->cloned = true;
	for (unsigned i = 0; i < m->devices; i++) {
		struct device *d = &m->device[i];
		d->mount = m;
		d->shard = runtime_shard(i);
		d->top = top;
		pthread_mutex_init(&d->lock, NULL);
		d->fd = i == 0 || !m->cloned ? -1 : clone_device(m->fd);
		m->cloned = m->cloned && (i == 0 || d->fd >= 0);
		if (d->fd < 0) /* libfuse closes its own when it unmounts, while replies may still be on their way */
			d->fd = fcntl(m->fd, F_DUPFD_CLOEXEC, 3);
		if (d->fd < 0)
			return problem_set(problem, errno_now(), "cannot duplicate the descriptor of /dev/fuse: %s",
					   strerror(errno_now()));
		fcntl(d->fd, F_SETFL, O_NONBLOCK);
	}
	return 0;
}

int devices_watch(struct mount *m)
{
	for (unsigned i = 0; i < m->devices; i++) {
		m->device[i].watch.fd = m->device[i].fd;
		m->device[i].watch.ready = ready;
	}
	return watch(&m->device[0]);
}

struct detachment {
	struct device *device;
	sem_t done;
};

static void detach(void *arg)
{
	struct detachment *t = arg;
	device_unwatch(t->device);
	sem_post(&t->done);
}

void devices_unwatch(struct mount *m)
{
	pthread_mutex_lock(&m->watch_lock);
	m->unwatching = true;
	pthread_mutex_unlock(&m->watch_lock);
	for (unsigned i = 0; i < m->devices; i++) {
		struct detachment t = { .device = &m->device[i] };
		sem_init(&t.done, 0, 0);
		while (shard_call(t.device->shard, detach, &t) != 0)
			usleep(1000); /* short of memory for a moment */
		while (sem_wait(&t.done) != 0)
			;
		sem_destroy(&t.done);
	}
}

void devices_close(struct mount *m)
{
	for (unsigned i = 0; i < m->devices; i++) {
		struct device *d = &m->device[i];
		if (d->fd > 0)
			close(d->fd);
		buffer_unref(d->buffer);
		pthread_mutex_destroy(&d->lock);
	}
	free(m->device);
}
