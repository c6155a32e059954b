/* SPDX-License-Identifier: Apache-2.0 */
/* mount/fuse, the top of a client graph: the kernel's requests become fops, and their results its answers. */
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "fuse-internal.h"

enum { TAKEN_MS = 20 };

#define AT(field) OPTION_AT(struct fuse_private, field)
static const struct option options[] = {
	{ "mountpoint", OPTION_PATH, AT(mountpoint), NULL, "directory to mount at; `stratus mount` sets it", 0, 0, NULL,
	  false },
	{ "fsname", OPTION_STRING, AT(fsname), "stratus", "what mount(8) and df(1) show as the source", 0, 0, NULL, false },
	{ "mount-options", OPTION_STRING, AT(mount_options), "",
	  "more options for the kernel, as for mount -o: nosuid,nodev,noexec,noatime,...", 0, 0, NULL, false },
	{ "allow-other", OPTION_ENUM, AT(allow_other), "auto",
	  "users other than the one who mounts may use the mount; auto: if that is root", 0, 0, "auto|on|off", false },
	{ "default-permissions", OPTION_BOOL, AT(default_permissions), "off",
	  "the kernel checks modes too (never ACLs); the brick decides in any case", 0, 0, NULL, false },
	{ "readonly", OPTION_BOOL, AT(readonly), "off", "mount read-only", 0, 0, NULL, false },
	{ "data-cache", OPTION_ENUM, AT(data_cache), "off",
	  "off: each read(2) asks the brick; auto: the kernel's page cache, checked against size and mtime", 0, 0, "off|auto",
	  false },
	{ "selinux", OPTION_BOOL, AT(selinux), "off",
	  "keep SELinux labels; off: ENOTSUP without a round trip, which tells ls -l not to ask for each file", 0, 0, NULL,
	  true },
	{ "acl", OPTION_BOOL, AT(acl), "on",
	  "show and change ACLs; off: ENOTSUP without asking, which tells ls -l not to ask for each file; bricks go by ACLs in any case",
	  0, 0, NULL, true },
	{ "attribute-timeout", OPTION_DURATION, AT(attribute_timeout_ms), "0",
	  "how long the kernel may believe attributes without asking", 0, 24 * 3600 * 1000, NULL, true },
	{ "entry-timeout", OPTION_DURATION, AT(entry_timeout_ms), "0", "how long the kernel may believe names without asking",
	  0, 24 * 3600 * 1000, NULL, true },
	{ "believe", OPTION_BOOL, AT(believe), "on",
	  "the kernel keeps what the graph vouches for, that nobody else changes it; off: it asks each time", 0, 0, NULL,
	  true },
	{ "request-timeout", OPTION_DURATION, AT(request_timeout_ms), "10m",
	  "a request that takes longer fails with ETIMEDOUT (waits for locks never do); 0: no limit", 0, 24 * 3600 * 1000, NULL,
	  true },
	{ "busy-poll", OPTION_INT, AT(busy_poll_us), "500",
	  "up to so many microseconds the process looks for more work before it sleeps, while requests come fast; 0: never", 0,
	  10000, NULL, true },
	{ "max-write", OPTION_SIZE, AT(max_write), "1M", "the largest request of the kernel", 8192, 1 << 20, NULL, false },
	{ 0 },
};

static int init(struct xlator *x, struct problem *problem)
{
	const struct fuse_private *p = x->private;
	if (p->max_write % 4096 != 0)
		return problem_set(problem, EINVAL, "max-write of %s must be a multiple of 4096", x->name);
	if (strpbrk(p->fsname, ",\\"))
		return problem_set(problem, EINVAL, "fsname of %s must have no comma and no backslash", x->name);
	return 0;
}

/* A mount point that can't be used is told before libfuse or the kernel find less clear words for it. */
static int check_mountpoint(const char *path, struct problem *problem)
{
	struct stat st;
	if (stat(path, &st) == 0)
		return S_ISDIR(st.st_mode) ? 0 : problem_set(problem, ENOTDIR, "the mount point %s is not a directory", path);
	int err = errno;
	if (err == ENOTCONN)
		return problem_set(problem, err, "a mount at %s was left behind by a process that died; run: umount %s", path,
				   path);
	return problem_set(problem, err, "cannot use the mount point %s: %s", path, strerror(err));
}

static void reconfigure(struct xlator *x, const struct option *option)
{
	const struct fuse_private *p = x->private;
	if (strcmp(option->name, "busy-poll") == 0)
		runtime_busy_poll(p->busy_poll_us * 1000);
}

static int start(struct xlator *x, struct problem *problem)
{
	struct fuse_private *p = x->private;
	runtime_busy_poll(p->busy_poll_us * 1000);
	int err = sealed_look(x, problem);
	if (err)
		return err;
	if (mount_take(x))
		return 0;
	err = check_mountpoint(p->mountpoint, problem);
	if (!err)
		err = mount_create(x, problem);
	if (err)
		return err;
	log_info(x, NULL, "mounted at %s: FUSE 7.%u, %u descriptor%s, %s", p->mountpoint, p->mount->minor,
		 p->mount->cloned ? p->mount->devices : 1, p->mount->cloned && p->mount->devices > 1 ? "s" : "",
		 p->mount->open_flags & FOPEN_DIRECT_IO ? "direct I/O" : "page cache");
	return 0;
}

/* What its last requests told is believed yet, and those below are about to give back the tokens that vouch for it. The kernel takes a
 * listing in some time after the answer, as if it were new then. */
static void last_words(struct xlator *x)
{
	struct timespec taken = { .tv_nsec = TAKEN_MS * 1000000 };
	struct mount *m = mount_use(x);
	if (!m)
		return;
	if (m->believes && task_self())
		task_sleep_ms(TAKEN_MS);
	else if (m->believes)
		nanosleep(&taken, NULL);
	forget_all(m);
	disbelieve(m, NULL);
	atomic_fetch_sub(&m->older_graphs, 1);
	mount_let_go(m);
}

/* A translator whose mount has gone over to a newer graph leaves it alone. */
static void stop(struct xlator *x)
{
	struct mount *m = mount_retire(x);
	if (m)
		mount_destroy(m);
	else
		last_words(x);
}

/* Only a mount's anchor keeps something in inodes. */
static void forget_inode(struct xlator *x, struct inode *inode, void *slot)
{
	(void)x, (void)inode;
	free(slot);
}

/* Translators below give tokens back while their graph ends. */
static void disbelieve_of(struct xlator *x, struct inode *inode)
{
	struct mount *m = mount_use(x);
	if (!m)
		return;
	disbelieve(m, inode);
	mount_let_go(m);
}

static void forget_kept(struct xlator *x, const struct inode *inode)
{
	struct mount *m = mount_use(x);
	if (!m)
		return;
	keep_forget(m, inode);
	mount_let_go(m);
}

static void notify(struct xlator *x, struct xlator *from, const struct event *event)
{
	char text[GFID_TEXT];
	const char *what = event->inode ? gfid_text(&event->inode->gfid, text) : "?";
	switch (event->kind) {
	case EVENT_DISBELIEVE:
		disbelieve_of(x, event->inode);
		break;
	case EVENT_CHILD_UP:
		log_info(x, NULL, "%s is reachable", from->name);
		break;
	case EVENT_CHILD_DOWN:
		log_warning(x, NULL, "%s is not reachable; requests wait for it", from->name);
		break;
	case EVENT_LOCK_LOST:
		log_warning(x, NULL, "%s gave up a lock on %s", from->name, what);
		break;
	case EVENT_STALE_FILE:
		forget_kept(x, event->inode);
		log_warning(x, NULL, "%s could not open %s again; its users get errors", from->name, what);
		break;
	default:
		break;
	}
}

static size_t handles_count(struct mount *m)
{
	size_t n = 0;
	pthread_mutex_lock(&m->handles_lock);
	for (const struct handle *h = m->handles; h; h = h->next)
		n++;
	pthread_mutex_unlock(&m->handles_lock);
	return n;
}

static void dump(struct xlator *x, FILE *out)
{
	struct mount *m = mount_use(x);
	uint64_t reads = 0, empty = 0;
	if (!m)
		return;
	for (unsigned i = 0; i < m->devices; i++) {
		reads += m->device[i].reads;
		empty += m->device[i].empty_reads;
	}
	fprintf(out, "  mount point: %s\n  active: %s\n", m->path, m->device[0].top == x ? "yes" : "no");
	fprintf(out, "  protocol: 7.%u, features 0x%llx\n", m->minor, (unsigned long long)m->features);
	fprintf(out, "  files: %s\n", m->open_flags & FOPEN_DIRECT_IO ? "direct I/O" : "page cache, checked");
	fprintf(out, "  descriptors: %u, %s\n", m->devices, m->cloned ? "cloned" : "one for all shards");
	fprintf(out, "  reads: %llu, for nothing: %llu\n", (unsigned long long)reads, (unsigned long long)empty);
	fprintf(out, "  requests: %lu\n", atomic_load(&m->asked));
	fprintf(out, "  listings used again: %lu\n", atomic_load(&m->listed_again));
	fprintf(out, "  opened again: %lu, kept open: %u\n", atomic_load(&m->keep.again), keep_count(m));
	fprintf(out, "  known files: names answered %lu, attributes answered %lu, reads %lu\n",
		atomic_load(&m->knowledge.names), atomic_load(&m->knowledge.looks), atomic_load(&m->knowledge.reads));
	fprintf(out, "  names known not to be there: %lu\n", atomic_load(&m->names.absent));
	fprintf(out, "  answered ESTALE: %lu\n", atomic_load(&m->stale));
	fprintf(out, "  under way: %u\n  inodes known to the kernel: %lu\n  open: %zu\n", atomic_load(&m->users),
		atomic_load(&m->known), handles_count(m));
	mount_let_go(m);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.front = true,
	.name = "mount/fuse",
	.summary = "the bridge to the kernel: a client graph becomes a directory tree",
	.options = options,
	.private_size = sizeof(struct fuse_private),
	.min_children = 1,
	.max_children = 1,
	.init = init,
	.start = start,
	.stop = stop,
	.reconfigure = reconfigure,
	.notify = notify,
	.forget_inode = forget_inode,
	.dump = dump,
};
