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

/* SETXATTR as it comes without FUSE_SETXATTR_EXT. */
struct fuse_setxattr_head {
	uint32_t size, flags;
};
#endif
