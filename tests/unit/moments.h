/* SPDX-License-Identifier: Apache-2.0 */
/* A test in which somebody dies after so many messages, or another comes, tries it after any number of them (each is a moment); one that takes long only after each `step`th. With
 * MOMENTS=FIRST/EVERY in the environment only each EVERYth of these is tried, from the FIRST on (0/2 and 1/2 are all together). With ThreadSanitizer, which is slow, and not there for
 * this, it is 0/8 if nothing is said. */
#ifndef STRATUS_TEST_MOMENTS_H
#define STRATUS_TEST_MOMENTS_H
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __SANITIZE_THREAD__
enum { MOMENTS_EACH = 8 };
#else
enum { MOMENTS_EACH = 1 };
#endif

struct moments {
	unsigned first, every;
};

static inline bool moments_are_told(void)
{
	const char *text = getenv("MOMENTS");

	return text && *text;
}

static inline struct moments moments_asked(void)
{
	static struct moments m; /* every: 0, not asked yet */

	if (m.every)
		return m;
	m = (struct moments){ 0, MOMENTS_EACH };
	if (!moments_are_told())
		return m;
	if (sscanf(getenv("MOMENTS"), "%u/%u", &m.first, &m.every) != 2 || m.first >= m.every) {
		fprintf(stderr, "MOMENTS=%s: write FIRST/EVERY, FIRST less than EVERY, as 0/2\n", getenv("MOMENTS"));
		abort();
	}
	printf("MOMENTS=%u/%u\n", m.first, m.every);
	return m;
}

static inline unsigned first_moment(unsigned step)
{
	return moments_asked().first * step;
}

static inline unsigned moment_step(unsigned step)
{
	return moments_asked().every * step;
}
#endif
