/* SPDX-License-Identifier: Apache-2.0 */
/* See word.h. */
#include "word.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int word_decode(char *text)
{
	char *to = text;

	for (; *text; to++) {
		if (*text != '%') {
			*to = *text++;
			continue;
		}
		if (digit(text[1]) < 0 || digit(text[2]) < 0)
			return -EINVAL;
		*to = (char)(digit(text[1]) << 4 | digit(text[2]));
		if (!*to)
			return -EINVAL;
		text += 3;
	}
	*to = '\0';
	return 0;
}

static bool is_dots(const char *name, size_t length)
{
	return *name == '.' && (length == 1 || (length == 2 && name[1] == '.'));
}

bool word_is_directory(const char *path)
{
	if (*path != '/')
		return false;
	if (!path[1])
		return true;
	while (*path) {
		size_t length = strcspn(++path, "/");

		if (!length || length > NAME_MAX || is_dots(path, length))
			return false;
		path += length;
	}
	return true;
}

bool word_is_limit(const char *text, struct word_limit *limit)
{
	enum { DIGITS = 16, BRICK_DIGITS = 5 };
	size_t length = *text == '@' ? strspn(text + 1, "0123456789") : 0;
	const char *number = text + 1 + length + 1;

	if (!length || length > BRICK_DIGITS || text[1 + length] != '.' || strlen(number) != DIGITS ||
	    strspn(number, "0123456789abcdef") != DIGITS)
		return false;
	limit->brick = (uint32_t)strtoul(text + 1, NULL, 10);
	limit->number = strtoull(number, NULL, 16);
	return limit->number != 0;
}
