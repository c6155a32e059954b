/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's FUSE protocol, and what newer kernels know beyond the libc's <linux/fuse.h>. */
#ifndef FUSE_KERNEL_H
#define FUSE_KERNEL_H
#include <linux/fuse.h>

#ifndef FOPEN_PARALLEL_DIRECT_WRITES
#define FOPEN_PARALLEL_DIRECT_WRITES (1 << 6)
#endif
#ifndef FUSE_DIRECT_IO_ALLOW_MMAP
#define FUSE_DIRECT_IO_ALLOW_MMAP (1ULL << 36) /* Linux 6.6 */
#endif
enum { NOTIFY_INC_EPOCH = 8, NOTIFY_INC_EPOCH_MINOR = 44 }; /* Linux 6.16 */
enum { FUSE_OLDEST_MINOR = 31 };			    /* Linux 5.4; what newer ones offer is taken by feature test */

#if FUSE_KERNEL_MINOR_VERSION < 39 /* Linux 6.6 */
enum { FUSE_STATX = 52 };

struct fuse_sx_time {
	int64_t tv_sec;
	uint32_t tv_nsec;
	int32_t reserved;
};
struct fuse_statx { /* laid out as struct statx of statx(2) */
	uint32_t mask, blksize;
	uint64_t attributes;
	uint32_t nlink, uid, gid;
	uint16_t mode, spare;
	uint64_t ino, size, blocks, attributes_mask;
	struct fuse_sx_time atime, btime, ctime, mtime;
	uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
	uint64_t spares[14];
};
struct fuse_statx_in {
	uint32_t getattr_flags, reserved;
	uint64_t fh;
	uint32_t sx_flags, sx_mask;
};
struct fuse_statx_out {
	uint64_t attr_valid;
	uint32_t attr_valid_nsec, flags;
	uint64_t spare[2];
	struct fuse_statx stat;
};
#endif
_Static_assert(sizeof(struct fuse_statx_in) == 24 && sizeof(struct fuse_statx_out) == 288, "the kernel's ABI");

/* SETXATTR as it comes without FUSE_SETXATTR_EXT. */
struct fuse_setxattr_head {
	uint32_t size, flags;
};
#endif
