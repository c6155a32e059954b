/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads the lines in which translators tell where an object is. */
#include "location.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

static void append(struct location *l, const void *bytes, size_t size)
{
	char *longer = l->failed ? NULL : realloc(l->text, l->size + size + 1);

	if (!longer) {
		l->failed = true;
		return;
	}
	memcpy(longer + l->size, bytes, size);
	l->text = longer;
	l->size += size;
}

static void append_escaped(struct location *l, const char *value)
{
	for (; *value; value++) {
		char escaped[4];

		if ((unsigned char)*value >= ' ' && *value != 0x7f && *value != '%')
			append(l, value, 1);
		else
			append(l, escaped, (size_t)snprintf(escaped, sizeof(escaped), "%%%02X", (unsigned char)*value));
	}
}

void location_line(struct location *l, const char *key, const char *format, ...)
{
	char *value;
	va_list args;

	va_start(args, format);
	if (vasprintf(&value, format, args) < 0) {
		value = NULL;
		l->failed = true;
	}
	va_end(args);
	if (!value)
		return;
	append(l, key, strlen(key));
	append(l, " ", 1);
	append_escaped(l, value);
	append(l, "\n", 1);
	free(value);
}

void location_add(struct location *l, const struct blob *part)
{
	if (part->size)
		append(l, part->bytes, part->size);
}

int location_end(struct location *l, struct blob *value)
{
	char *text = l->text;
	size_t size = l->size;

	l->text = NULL;
	if (l->failed) {
		free(text);
		return -ENOMEM;
	}
	if (size > LOCATION_MAX)
		for (size = LOCATION_MAX; size && text[size - 1] != '\n';)
			size--;
	*value = (struct blob){ (uint32_t)size, text };
	return 0;
}

/* ---- reading ---- */

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++) {
		int high = *from == '%' ? digit(from[1]) : -1, low = high < 0 ? -1 : digit(from[2]);

		*to++ = low < 0 ? *from : (char)(high << 4 | low);
		from += low < 0 ? 0 : 2;
	}
	*to = '\0';
}

char *location_next(char **at, const char *end, const char **key)
{
	char *line = *at, *last = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL, *value;

	if (!last)
		return NULL;
	*last = '\0';
	*at = last + 1;
	*key = line;
	value = strchr(line, ' ');
	if (!value)
		return last; /* an empty one */
	*value++ = '\0';
	unescape(value);
	return value;
}
