/* SPDX-License-Identifier: Apache-2.0 */
/* Mounting and unmounting (by libfuse, which knows fusermount3), the INIT handshake, and the end of a mount. */
#define FUSE_USE_VERSION 35
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "fuse-internal.h"

enum { BACKGROUND_MAX = 256, READ_AHEAD_KB = 1024, DRAIN_STEP_MS = 20, DRAIN_GRACE_MS = 1000 };
/* Not FUSE_ASYNC_DIO: with it the kernel sends the pieces of one large write at the same time, and those of an append would be
 * appended in the order in which they arrive. */
static const uint64_t features_wanted = FUSE_ASYNC_READ | FUSE_POSIX_LOCKS | FUSE_ATOMIC_O_TRUNC | FUSE_BIG_WRITES |
					FUSE_DONT_MASK | FUSE_FLOCK_LOCKS | FUSE_AUTO_INVAL_DATA | FUSE_PARALLEL_DIROPS |
					FUSE_HANDLE_KILLPRIV_V2 | FUSE_MAX_PAGES | FUSE_INIT_EXT | FUSE_DIRECT_IO_ALLOW_MMAP;

/* ---- what libfuse says ---- */
static _Thread_local char complaint[256];

/* One sentence may come in several pieces. */
static void listen_to(enum fuse_log_level level, const char *format, va_list args)
{
	size_t used = strlen(complaint);
	(void)level;
	vsnprintf(complaint + used, sizeof(complaint) - used, format, args);
	complaint[strcspn(complaint, "\n")] = 0;
}

static const char *reason(void)
{
	return complaint[0] ? complaint : strerror(errno);
}

/* ---- INIT ---- */
static void agree(struct mount *m, const struct xlator *x, const struct fuse_init_in *in)
{
	const struct fuse_private *p = x->private;
	uint64_t offered = in->flags | (in->flags & FUSE_INIT_EXT ? (uint64_t)in->flags2 << 32 : 0);
	bool cached = p->attribute_timeout_ms > 0 && p->entry_timeout_ms > 0;
	/* What readdirplus tells is of use only if the kernel may believe it for a while. */
	m->believes = in->minor >= NOTIFY_INC_EPOCH_MINOR && moment_now(x->child[0]);
	m->features = offered & (features_wanted | (cached ? FUSE_DO_READDIRPLUS : 0) |
				 (m->believes ? FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO : 0));
	m->minor = in->minor < FUSE_KERNEL_MINOR_VERSION ? in->minor : FUSE_KERNEL_MINOR_VERSION;
	/* Direct I/O without the means for shared mmap would break programs: then the page cache, checked at each open and read. */
	if (p->data_cache == DATA_CACHE_OFF && m->features & FUSE_DIRECT_IO_ALLOW_MMAP)
		m->open_flags = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES;
}

static ssize_t read_init(int fd, void *bytes, size_t size)
{
	ssize_t n;
	do
		n = read(fd, bytes, size);
	while (n < 0 && (errno == EINTR || errno == EAGAIN));
	return n;
}

/* The kernel queued INIT when it mounted; nothing else comes before the answer. */
static int handshake(struct mount *m, const struct xlator *x, struct problem *problem)
{
	cleanup_buffer struct buffer *got = buffer_create(FUSE_MIN_READ_BUFFER);
	if (!got)
		return problem_set(problem, ENOMEM, "out of memory");
	const struct fuse_in_header *head = (const void *)got->data;
	const struct fuse_init_in *in = (const void *)(head + 1);
	if (read_init(m->fd, got->data, got->size) < (ssize_t)(sizeof(*head) + 16) || head->opcode != FUSE_INIT)
		return problem_set(problem, EIO, "the kernel did not greet the new mount at %s: %s", m->path, strerror(errno));
	if (in->major != FUSE_KERNEL_VERSION || in->minor < FUSE_OLDEST_MINOR)
		return problem_set(problem, EPROTO, "the kernel speaks FUSE %u.%u; needed is %d.%d (Linux 5.4) or newer",
				   in->major, in->minor, FUSE_KERNEL_VERSION, FUSE_OLDEST_MINOR);
	agree(m, x, in);
	struct {
		struct fuse_out_header head;
		struct fuse_init_out init;
	} out = {
		.head = { .len = sizeof(out), .unique = head->unique },
		.init = { .major = FUSE_KERNEL_VERSION,
			  .minor = m->minor,
			  .max_readahead = in->max_readahead,
			  .flags = m->features,
			  .flags2 = m->features >> 32,
			  .max_background = BACKGROUND_MAX,
			  .congestion_threshold = BACKGROUND_MAX * 3 / 4,
			  .max_write = m->max_write,
			  .time_gran = 1,
			  .max_pages = (m->max_write + sysconf(_SC_PAGESIZE) - 1) / sysconf(_SC_PAGESIZE) },
	};
	if (write(m->fd, &out, sizeof(out)) < 0)
		return problem_set(problem, errno, "the kernel did not take the answer to INIT: %s", strerror(errno));
	return 0;
}

/* ---- mounting ---- */
static char *options_text(const struct fuse_private *p)
{
	bool others = p->allow_other == ALLOW_OTHER_ON || (p->allow_other == ALLOW_OTHER_AUTO && geteuid() == 0);
	bool more = p->mount_options && p->mount_options[0];
	char *text;
	int n = asprintf(&text, "fsname=%s,subtype=stratus%s%s%s%s%s", p->fsname, others ? ",allow_other" : "",
			 p->default_permissions ? ",default_permissions" : "", p->readonly ? ",ro" : "", more ? "," : "",
			 more ? p->mount_options : "");
	return n < 0 ? NULL : text;
}

static const char *advice(void)
{
	return geteuid() == 0 ? ""
			      : "; ordinary users need fusermount3 (package fuse3), /dev/fuse with mode 0666, and a directory "
				"of their own";
}

static int kernel_mount(struct mount *m, const struct fuse_private *p, struct problem *problem)
{
	static const struct fuse_lowlevel_ops none;
	char *text = options_text(p), name[] = "stratus", o[] = "-o";
	char *argv[] = { name, o, text, NULL };
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);
	if (!text)
		return problem_set(problem, ENOMEM, "out of memory");
	fuse_set_log_func(listen_to);
	complaint[0] = 0;
	m->session = fuse_session_new(&args, &none, sizeof(none), m);
	fuse_opt_free_args(&args);
	free(text);
	if (!m->session)
		return problem_set(problem, EINVAL, "wrong mount-options: %s", reason());
	errno = 0;
	if (fuse_session_mount(m->session, m->path) != 0)
		return problem_set(problem, errno ? errno : EIO, "cannot mount at %s: %s%s", m->path, reason(), advice());
	m->fd = fuse_session_fd(m->session);
	return 0;
}

/* Big buffered reads come as 128 KiB until the mount's read-ahead is raised; only root may. */
static void raise_read_ahead(const struct mount *m)
{
	struct statx st;
	char path[64];
	if (statx(AT_FDCWD, m->path, AT_STATX_DONT_SYNC, 0, &st) != 0) /* without asking ourselves */
		return;
	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb", st.stx_dev_major, st.stx_dev_minor);
	FILE *f = fopen(path, "we");
	if (!f)
		return;
	fprintf(f, "%d\n", READ_AHEAD_KB);
	fclose(f);
}

static int mount_init(struct mount *m, struct xlator *x, struct problem *problem)
{
	const struct fuse_private *p = x->private;
	m->fd = -1;
	m->path = strdup(p->mountpoint);
	m->root = inode_get(x->inodes, &gfid_root, S_IFDIR);
	m->max_write = p->max_write;
	m->anchor.type = x->type;
	m->anchor.name = m->path;
	m->client.name = "local";
	m->client.incarnation = 1;
	atomic_init(&m->client.refs, 1);
	struct gfid id;
	gfid_create(&id);
	memcpy(m->client.id, id.bytes, sizeof(m->client.id));
	for (struct bucket *b = m->bucket; b < m->bucket + BUCKETS; b++)
		pthread_mutex_init(&b->lock, NULL);
	pthread_mutex_init(&m->handles_lock, NULL);
	pthread_mutex_init(&m->kept_lock, NULL);
	pthread_mutex_init(&m->told_lock, NULL);
	pthread_mutex_init(&m->keep.lock, NULL);
	pthread_mutex_init(&m->knowledge.lock, NULL);
	pthread_mutex_init(&m->names.lock, NULL);
	m->knowledge.file = calloc(KNOWN_FILES, sizeof(struct known));
	m->knowledge.by_name = calloc(KNOWN_FILES, sizeof(struct gfid));
	pthread_mutex_init(&m->watch_lock, NULL);
	return m->path && m->root && m->knowledge.file && m->knowledge.by_name ? 0
									       : problem_set(problem, ENOMEM, "out of memory");
}

int mount_create(struct xlator *x, struct problem *problem)
{
	struct mount *m = calloc(1, sizeof(*m));
	if (!m)
		return problem_set(problem, ENOMEM, "out of memory");
	int err = mount_init(m, x, problem);
	if (!err)
		err = kernel_mount(m, x->private, problem);
	if (!err)
		err = handshake(m, x, problem);
	if (!err)
		err = devices_open(m, x, problem);
	if (!err)
		mount_publish(m, x); /* before anything is told that may be to be taken back */
	if (!err && (err = devices_watch(m)) != 0)
		problem_set(problem, -err, "cannot watch /dev/fuse: %s", strerror(-err));
	if (err) {
		mount_retire(x);
		mount_destroy(m);
		return err;
	}
	raise_read_ahead(m);
	return 0;
}

/* ---- the end ---- */
/* Requests get a moment to end by themselves, then they are cancelled. Files that are still open lose us: the kernel answers
 * for them with ENOTCONN. */
static void drain(struct mount *m)
{
	struct timespec step = { .tv_nsec = DRAIN_STEP_MS * 1000000 };
	for (unsigned waited = 0; atomic_load(&m->users) > 0; waited += DRAIN_STEP_MS) {
		if (waited >= DRAIN_GRACE_MS)
			asks_cancel(m);
		nanosleep(&step, NULL);
	}
}

/* The shards serve while the kernel unmounts: it may have to write back pages of a shared mapping. */
static void destroy(struct mount *m)
{
	if (m->session) {
		fuse_session_unmount(m->session);
		fuse_session_destroy(m->session);
	}
	if (m->device) {
		devices_unwatch(m);
		atomic_store(&m->gone, true);
		mount_ends(m);
		drain(m);
		devices_close(m);
	}
	while (m->handles)
		handle_destroy(m, m->handles);
	listings_forget(m);
	keep_end(m);
	known_end(m);
	names_forget(m);
	if (m->root) {
		nodes_forget_all(m, m->root->table);
		slots_purge(m->root->table, &m->anchor);
	}
	inode_unref(m->root);
	free(m->path);
	free(m);
}

struct errand {
	struct mount *mount;
	struct task *task;
	atomic_bool done;
};

static void *run_errand(void *arg)
{
	struct errand *e = arg;
	struct task *task = e->task;
	destroy(e->mount);
	atomic_store(&e->done, true);
	task_wake(task);
	return NULL;
}

/* Unmounting blocks on requests that our own shards serve, so a task lets a thread do it. */
void mount_destroy(struct mount *m)
{
	struct errand e = { .mount = m, .task = task_self() };
	pthread_t thread;
	if (!e.task || pthread_create(&thread, NULL, run_errand, &e) != 0) {
		destroy(m);
		return;
	}
	task_shield(true);
	while (!atomic_load(&e.done))
		task_wait(NO_DEADLINE);
	task_shield(false);
	pthread_join(thread, NULL);
}
