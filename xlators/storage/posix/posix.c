/* SPDX-License-Identifier: Apache-2.0 */
/* storage/posix: stores a brick in a plain directory. Options, life cycle, free space; posix.md tells what holds. */
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include "posix.h"

static const struct option options[] = {
	{ "directory", OPTION_PATH, OPTION_AT(struct brick, directory), NULL, "the brick: a directory on ext4, XFS or Btrfs" },
	{ "volume-id", OPTION_STRING, OPTION_AT(struct brick, volume_text), NULL, "UUID of the volume" },
	{ "brick-id", OPTION_STRING, OPTION_AT(struct brick, brick_text), NULL, "UUID of this brick" },
	{ "format", OPTION_ENUM, OPTION_AT(struct brick, format), "auto",
	  "auto: an empty directory becomes a brick; never: it must be one", .choices = "auto|never" },
	{ "free-space-floor", OPTION_STRING, OPTION_AT(struct brick, floor_text), "1%",
	  "with less free space than this (size, or percent of the whole) creations and writes get ENOSPC" },
	{ "direct-io", OPTION_BOOL, OPTION_AT(struct brick, direct_io), "off",
	  "what a program reads and writes with O_DIRECT passes by the page cache of the brick, too, not only by that of its client",
	  .live = true },
	{ "inodes-kept", OPTION_INT, OPTION_AT(struct brick, inodes_kept), "16384",
	  "objects that stay known when nobody uses them (about 500 bytes each): a later request finds them without opening", 0,
	  10000000, .live = true },
	{ NULL },
};

static int floor_parse(struct brick *b, struct problem *problem)
{
	const char *text = b->floor_text;
	size_t length = strlen(text);
	int err;

	if (length && text[length - 1] == '%')
		err = percent_parse(text, &b->floor_percent) || b->floor_percent >= 100;
	else
		err = size_parse(text, &b->floor_bytes);
	return err ? problem_set(problem, EINVAL,
				 "free-space-floor \"%s\" is neither a size (10G) nor a percentage below 100 (1%%)", text)
		   : 0;
}

uint64_t brick_floor(const struct brick *b, uint64_t total_bytes)
{
	return b->floor_percent > 0 ? (uint64_t)(b->floor_percent / 100 * (double)total_bytes) : b->floor_bytes;
}

/* Where a set is full a recovery may have to make a name before anybody can remove something: until it has ended nothing is changed. */
static int room_to_heal(struct brick *b, int64_t cost)
{
	struct statvfs s;

	if (fstatvfs(b->root_fd, &s) < 0)
		return result(-1);
	return (int64_t)(s.f_bavail * s.f_frsize) - (int64_t)(brick_floor(b, s.f_blocks * s.f_frsize) / 2) >= cost ? 0
														   : -ENOSPC;
}

static int ask_room(struct brick *b, int64_t cost)
{
	struct statvfs s;

	if (fstatvfs(b->root_fd, &s) < 0)
		return result(-1);
	atomic_store(&b->room, (int64_t)(s.f_bavail * s.f_frsize) - (int64_t)brick_floor(b, s.f_blocks * s.f_frsize) - cost);
	atomic_store(&b->room_checked_ns, clock_ns());
	return atomic_load(&b->room) >= 0 ? 0 : -ENOSPC;
}

/* Asks the file system once a second, or when what it granted last time is used up; and each time for much, so that what many take at once does not overflow. */
int brick_room(struct brick *b, struct request *rq, uint64_t bytes)
{
	enum { SECOND_NS = 1000000000, MUCH = 1 << 30 };
	int64_t cost = bytes > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)bytes;
	unsigned tries = 0;
	int err;

	if (cost <= MUCH && atomic_fetch_sub(&b->room, cost) - cost >= 0 &&
	    clock_ns() - atomic_load(&b->room_checked_ns) < SECOND_NS)
		return 0;
	err = ask_room(b, cost);
	if (err == -ENOSPC && close_now(b, &tries)) /* what was removed a moment ago */
		err = ask_room(b, cost);
	if (err == -ENOSPC && rq->limits == LIMITS_HEAL)
		err = room_to_heal(b, cost);
	if (err == -ENOSPC) {
		atomic_fetch_add(&b->refused_full, 1);
		rq->untouched = true;
	}
	return err;
}

static int check_directory(struct brick *b, struct problem *problem)
{
	struct kernel_handle handle;
	cleanup_fd int fd = -1;
	int err;

	b->root_fd = open(b->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (b->root_fd < 0 && errno == ENOENT)
		return problem_set(problem, ENOENT, "the brick's directory %s does not exist: create it, or mount its disk",
				   b->directory);
	if (b->root_fd < 0)
		return problem_set(problem, errno, "can't open the brick's directory %s: %s", b->directory, strerror(errno));
	if (geteuid() != 0)
		return problem_set(problem, EPERM, "storage/posix must run as root: it keeps owners and trusted attributes");
	if (access("/proc/self/fd", X_OK) < 0)
		return problem_set(problem, ENOSYS, "/proc is not mounted: storage/posix needs /proc/self/fd");
	err = kernel_handle_root(b, &handle);
	if (err)
		return problem_set(problem, -err,
				   "the file system of %s has no file handles (name_to_handle_at: %s): use "
				   "ext4, XFS or Btrfs",
				   b->directory, strerror(-err));
	fd = kernel_handle_open(b, &handle, O_PATH);
	if (fd < 0)
		return problem_set(problem, -fd, "can't open by file handle in %s (%s): run with CAP_DAC_READ_SEARCH",
				   b->directory, strerror(-fd));
	if (fgetxattr(b->root_fd, IDENTITY_XATTR, NULL, 0) < 0 && errno == EOPNOTSUPP)
		return problem_set(problem, EOPNOTSUPP,
				   "the file system of %s has no extended attributes: use ext4, XFS or "
				   "Btrfs",
				   b->directory);
	return 0;
}

static int check(struct brick *b, struct problem *problem)
{
	bool fresh;

	if (gfid_parse(b->volume_text, &b->volume) < 0)
		return problem_set(problem, EINVAL, "volume-id \"%s\" is not a UUID", b->volume_text);
	if (gfid_parse(b->brick_text, &b->id) < 0)
		return problem_set(problem, EINVAL, "brick-id \"%s\" is not a UUID", b->brick_text);
	int err = floor_parse(b, problem);

	if (!err)
		err = check_directory(b, problem);
	return err ? err : format_check(b, &fresh, problem);
}

static void locks_init(struct brick *b)
{
	pthread_mutex_init(&b->cache.lock, NULL);
	pthread_rwlock_init(&b->key_lock, NULL);
	pthread_mutex_init(&b->compound_lock, NULL);
	for (int i = 0; i < INDEX_LOCKS; i++)
		pthread_mutex_init(&b->index.lock[i], NULL);
	for (int i = 0; i < MUTEXES; i++) {
		pthread_mutex_init(&b->name_lock[i], NULL);
		pthread_mutex_init(&b->identity_lock[i], NULL);
		pthread_mutex_init(&b->making_lock[i], NULL);
		pthread_mutex_init(&b->tail_lock[i], NULL);
		pthread_mutex_init(&b->time_lock[i], NULL);
	}
	for (int i = 0; i < GATES; i++)
		pthread_mutex_init(&b->gate[i].lock, NULL);
	closing_init(&b->closing);
}

static int posix_init(struct xlator *x, struct problem *problem)
{
	struct brick *b = brick_of(x);
	int err;

	b->root_fd = b->private_fd = b->staging_fd = b->lock_fd = -1;
	locks_init(b);
	err = check(b, problem);
	if (err)
		fd_close(&b->root_fd);
	return err;
}

static void posix_finish(struct xlator *x)
{
	fd_close(&brick_of(x)->root_fd);
}

/* The root's inode is kept for as long as the brick is served, so everybody finds it by its gfid. */
static int keep_root(struct xlator *x, struct problem *problem)
{
	struct brick *b = brick_of(x);
	struct hold root = { .fd = b->root_fd, .lent = true };
	struct identity identity;
	struct statx st;
	int err = identity_read(&root, &identity);

	if (!err)
		err = hold_stat(&root, &st);
	if (!err)
		err = object_attach(x, &root, &st, &gfid_root, identity_birth(&identity), &b->root);
	if (err)
		return problem_set(problem, -err, "the root of brick %s has no usable identity (%s)", b->directory,
				   strerror(-err));
	struct descriptor *d = descriptor_create(fcntl(b->root_fd, F_DUPFD_CLOEXEC, 3));

	if (!d)
		return problem_set(problem, ENOMEM, "no descriptor is left for brick %s", b->directory);
	object_opened(object_of(x, b->root), d);
	descriptor_unref(d);
	return 0;
}

static void posix_stop(struct xlator *x)
{
	struct brick *b = brick_of(x);

	if (b->root)
		object_closed(object_of(x, b->root));
	inode_unref_at(&b->root);
	closing_end(&b->closing);
	keys_close(b);
	format_close(b);
}

/* Bricks need descriptors: for open files, a quarter at most for directories, and an eighth for what was removed. */
static void plan_descriptors(struct brick *b)
{
	struct rlimit limit = { 1024, 1024 };

	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
		getrlimit(RLIMIT_NOFILE, &limit);
	}
	if (runtime_has_threads())
		b->closing.most = limit.rlim_cur / 8 < CLOSING_MAX ? (unsigned)(limit.rlim_cur / 8) : CLOSING_MAX;
	b->cache.places = limit.rlim_cur / 4 < DIRECTORY_CACHE ? (unsigned)(limit.rlim_cur / 4) + 1 : DIRECTORY_CACHE;
}

static int posix_start(struct xlator *x, struct problem *problem)
{
	struct brick *b = brick_of(x);
	int err;

	plan_descriptors(b);
	inode_table_keep(x->inodes, (size_t)b->inodes_kept);
	umask(0); /* modes come from the requests, whole */
	err = format_open(b, problem);
	if (!err)
		err = keys_open(b, problem);
	if (!err)
		err = keep_root(x, problem);
	if (err)
		posix_stop(x);
	return err;
}

static void posix_reconfigure(struct xlator *x, const struct option *o)
{
	if (!strcmp(o->name, "inodes-kept"))
		inode_table_keep(x->inodes, (size_t)brick_of(x)->inodes_kept);
}

static void posix_dump(struct xlator *x, FILE *out)
{
	struct brick *b = brick_of(x);
	struct statvfs s;

	fprintf(out, "  directory: %s\n  open files: %u\n  open directories: %u\n  cached directories: %u\n", b->directory,
		atomic_load(&b->open_files), atomic_load(&b->open_directories), b->cache.count);
	fprintf(out, "  removed, to be freed: %u\n", atomic_load(&b->closing.waiting));
	fprintf(out, "  opens: %llu\n  opened by handle: %llu\n", (unsigned long long)atomic_load(&b->opens),
		(unsigned long long)atomic_load(&b->handles_opened));
	fprintf(out, "  identities given: %llu\n  identities repaired: %llu\n", (unsigned long long)atomic_load(&b->adopted),
		(unsigned long long)atomic_load(&b->repaired));
	fprintf(out, "  handles refused: %llu\n  refused for lack of space: %llu\n",
		(unsigned long long)atomic_load(&b->forged), (unsigned long long)atomic_load(&b->refused_full));
	fprintf(out,
		"  sealed files whose length was mended: %llu\n  that could not be mended: %llu\n  last pages synced before their file grew: %llu\n",
		(unsigned long long)atomic_load(&b->tails_mended), (unsigned long long)atomic_load(&b->tails_odd),
		(unsigned long long)atomic_load(&b->tails_first));
	fprintf(out, "  key: %u\n", b->key[0].id);
	if (!fstatvfs(b->root_fd, &s))
		fprintf(out, "  free bytes: %llu\n  floor bytes: %llu\n", (unsigned long long)(s.f_bavail * s.f_frsize),
			(unsigned long long)brick_floor(b, s.f_blocks * s.f_frsize));
}

/* rotate-key: handles made before the last but one call are no longer taken. */
static int posix_command(struct xlator *x, int argc, char **argv, FILE *out)
{
	if (argc != 1 || strcmp(argv[0], "rotate-key")) {
		fprintf(out, "volume %s takes the command rotate-key\n", x->name);
		return -EINVAL;
	}
	int err = keys_rotate(brick_of(x));

	if (!err)
		fprintf(out, "key %u\n", brick_of(x)->key[0].id);
	return err;
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.shareable = true,
	.name = "storage/posix",
	.summary = "stores a brick in a plain directory",
	.options = options,
	.private_size = sizeof(struct brick),
	.init = posix_init,
	.start = posix_start,
	.stop = posix_stop,
	.finish = posix_finish,
	.reconfigure = posix_reconfigure,
	.forget_inode = object_forget,
	.forget_file = opened_forget,
	.dump = posix_dump,
	.command = posix_command,
	.inode_handle = posix_inode_handle,
	.inode_from_handle = posix_inode_from_handle,
	.tenant_handle = posix_tenant_handle,
	.tenant_from_handle = posix_tenant_from_handle,
	.sync = posix_sync,
	.reread = posix_reread,
	.inode_links = posix_inode_links,
	.lookup = brick_lookup,
	.getattr = brick_getattr,
	.setattr = brick_setattr,
	.readlink = brick_readlink,
	.mknod = brick_mknod,
	.mkdir = brick_mkdir,
	.symlink = brick_symlink,
	.unlink = brick_unlink,
	.rmdir = brick_rmdir,
	.rename = brick_rename,
	.link = brick_link,
	.create = brick_create,
	.open = brick_open,
	.read = brick_read,
	.write = brick_write,
	.flush = brick_flush,
	.release = brick_release,
	.fsync = brick_fsync,
	.opendir = brick_opendir,
	.readdir = brick_readdir,
	.statfs = brick_statfs,
	.setxattr = brick_setxattr,
	.getxattr = brick_getxattr,
	.listxattr = brick_listxattr,
	.removexattr = brick_removexattr,
	.seek = brick_seek,
	.fallocate = brick_fallocate,
	.copy_range = brick_copy_range,
	.compound = brick_compound,
};
