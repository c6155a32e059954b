/* SPDX-License-Identifier: Apache-2.0 */
/* Parses sets of fops for the options of translators that act on some of them. */
#include <errno.h>
#include <string.h>

#include "fop-set.h"
#include "fop.h"
#include "log.h"
#include "option.h"

_Static_assert(FOP_COUNT <= 64, "a set of fops is one word");

static const char *const group_names[] = { "all", "none", "mutating", "reading" };
enum { GROUPS = sizeof(group_names) / sizeof(*group_names) };

static uint64_t group(unsigned number)
{
	uint64_t set = 0;

	for (int fop = 1; fop < FOP_COUNT; fop++) {
		bool mutates = fop_info[fop].flags & FOP_MUTATES;

		if (number == 0 || (number == 2 && mutates) || (number == 3 && !mutates))
			set |= 1ULL << fop;
	}
	return set;
}

static int unknown(const char *word, struct problem *problem)
{
	const char *names[FOP_COUNT + GROUPS], *near;
	int count = 0;

	for (int fop = 1; fop < FOP_COUNT; fop++)
		names[count++] = fop_info[fop].name;
	for (unsigned i = 0; i < GROUPS; i++)
		names[count++] = group_names[i];
	names[count] = NULL;
	near = nearest_name(word, names);
	return near ? problem_set(problem, EINVAL, "there is no fop \"%s\"; did you mean \"%s\"?", word, near)
		    : problem_set(
			      problem, EINVAL,
			      "there is no fop \"%s\"; take names of fops, as read, write or mkdir, or one of all, none, mutating, reading",
			      word);
}

static int word_set(const char *word, uint64_t *set)
{
	int fop = fop_by_name(word);

	if (fop > 0) {
		*set = 1ULL << fop;
		return 0;
	}
	for (unsigned i = 0; i < GROUPS; i++) {
		if (!strcmp(word, group_names[i])) {
			*set = group(i);
			return 0;
		}
	}
	return -EINVAL;
}

int fop_set_parse(const char *text, uint64_t *set, struct problem *problem)
{
	uint64_t result = text[strspn(text, ", ")] == '-' ? group(0) : 0, part;
	size_t length;
	char word[64];

	for (; *text; text += length) {
		bool minus;

		text += strspn(text, ", ");
		minus = *text == '-';
		text += minus;
		length = strcspn(text, ", ");
		if (!length && minus)
			return problem_set(problem, EINVAL,
					   "a '-' names no fop; write the one to be left out right behind it, as -lookup");
		if (!length)
			continue;
		if (length >= sizeof(word))
			length = sizeof(word) - 1; /* no fop has so long a name */
		memcpy(word, text, length);
		word[length] = '\0';
		if (word_set(word, &part))
			return unknown(word, problem);
		result = minus ? result & ~part : result | part;
	}
	*set = result;
	return 0;
}

int fop_set_check(const char *text, struct problem *why)
{
	uint64_t set;

	return fop_set_parse(text, &set, why);
}

void fop_set_change(const char *text, _Atomic uint64_t *set, const struct xlator *x)
{
	struct problem problem = { "" };
	uint64_t changed;

	if (fop_set_parse(text, &changed, &problem))
		log_warning(x, NULL, "option fops stays as it was: %s", problem.text);
	else
		*set = changed;
}
