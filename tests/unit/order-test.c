/* SPDX-License-Identifier: Apache-2.0 */
/* Which file systems keep the order of names (features/replica): the test is the kernel that tells. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "order.h"

enum { EXT = 0xEF53, XFS = 0x58465342, TMPFS = 0x01021994, BTRFS = (int)0x9123683E };

static long type;	    /* of each file system */
static const char *journal; /* what journal_task says; NULL: there is no such file */
static const char *device;  /* where /sys/dev/block/... leads to; NULL: there is none */
static char file[96];	    /* has what `journal` is */

int fstatfs(int fd, struct statfs *s)
{
	(void)fd;
	memset(s, 0, sizeof(*s));
	s->f_type = type;
	return 0;
}

ssize_t readlink(const char *path, char *to, size_t size)
{
	char wanted[64];
	struct stat st;

	assert_int_equal(stat("/", &st), 0);
	snprintf(wanted, sizeof(wanted), "/sys/dev/block/%u:%u", major(st.st_dev), minor(st.st_dev));
	if (strcmp(path, wanted) || !device) {
		errno = ENOENT;
		return -1;
	}
	size = strlen(device) < size ? strlen(device) : size;
	memcpy(to, device, size);
	return (ssize_t)size;
}

int open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list more;

	va_start(more, flags);
	if (flags & O_CREAT)
		mode = va_arg(more, mode_t);
	va_end(more);
	if (!strncmp(path, "/sys/", 5)) {
		if (!journal || strcmp(path, "/sys/fs/ext4/loop7/journal_task")) {
			errno = ENOENT;
			return -1;
		}
		path = file;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static bool ordered(long of, const char *says, const char *at)
{
	int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), out;
	bool yes;

	type = of;
	journal = says;
	device = at;
	out = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (says)
		assert_int_equal(write(out, says, strlen(says)), strlen(says));
	close(out);
	yes = names_are_ordered(fd);
	close(fd);
	return yes;
}

#define LOOP "../../devices/virtual/block/loop7"

static void on_ext4_names_are_ordered_where_it_has_a_journal(void **state)
{
	(void)state;
	assert_true(ordered(EXT, "4711\n", LOOP));
	assert_false(ordered(EXT, "<none>\n", LOOP));
	assert_false(ordered(EXT, "", LOOP));
	assert_false(ordered(EXT, NULL, LOOP)); /* ext2, or a kernel that does not tell */
	assert_false(ordered(EXT, "4711\n", NULL));
	assert_false(ordered(EXT, "4711\n", "loop7"));
	assert_false(ordered(EXT, "4711\n", "../../devices/virtual/block/loop8"));
}

static void on_others_by_their_kind(void **state)
{
	(void)state;
	assert_true(ordered(XFS, NULL, NULL));
	assert_true(ordered(TMPFS, NULL, NULL));
	assert_false(ordered(BTRFS, "4711\n", LOOP));
}

static int start(void **state)
{
	static char directory[64];

	(void)state;
	test_directory(directory, sizeof(directory), "order-test");
	snprintf(file, sizeof(file), "%s/journal_task", directory);
	*state = directory;
	return 0;
}

static int stop(void **state)
{
	return test_remove(*state);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(on_ext4_names_are_ordered_where_it_has_a_journal),
		cmocka_unit_test(on_others_by_their_kind),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
