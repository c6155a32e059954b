/* SPDX-License-Identifier: Apache-2.0 */
/* What unit tests share: cmocka with the headers it wants, and waiting for a condition with a limit. */
#ifndef STRATUS_TEST_H
#define STRATUS_TEST_H
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__has_feature) /* clang says so */
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

/* A new one, below $TMPDIR, else /var/tmp: a file system on disk, which has extended attributes. What a test that fails or is killed leaves there tests/run.sh removes. */
static inline void test_directory(char *path, size_t size, const char *name)
{
	const char *top = getenv("TMPDIR");

	snprintf(path, size, "%s/%s.XXXXXX", top && *top ? top : "/var/tmp", name);
	assert_non_null(mkdtemp(path));
}

static inline int test_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

/* With all that is in it. */
static inline int test_remove(const char *directory)
{
	return nftw(directory, test_remove_one, 64, FTW_DEPTH | FTW_PHYS);
}

/* True as soon as the condition holds; false if it does not within a minute, and more on a busy machine. Not on tasks. */
#define EVENTUALLY(condition)                                                                                                  \
	({                                                                                                                     \
		int tries_ = 0;                                                                                                \
		while (!(condition) && tries_++ < 600000)                                                                      \
			usleep(100);                                                                                           \
		tries_ < 600000;                                                                                               \
	})
#endif
