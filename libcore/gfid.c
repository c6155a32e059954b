/* SPDX-License-Identifier: Apache-2.0 */
/* Gfids: making, comparing, printing (RFC 4122 text form, version 4). */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "inode.h"

const struct gfid gfid_root = { { [15] = 1 } };

void gfid_create(struct gfid *g)
{
	static _Thread_local uint8_t stock[512];
	static _Thread_local size_t left;

	if (left < sizeof(g->bytes)) {
		if (getrandom(stock, sizeof(stock), 0) != sizeof(stock))
			abort(); /* the kernel promises up to 256 bytes at once, and more in practice once it is seeded */
		left = sizeof(stock);
	}
	left -= sizeof(g->bytes);
	memcpy(g->bytes, stock + left, sizeof(g->bytes));
	g->bytes[6] = (g->bytes[6] & 0x0f) | 0x40;
	g->bytes[8] = (g->bytes[8] & 0x3f) | 0x80;
}

bool gfid_equal(const struct gfid *a, const struct gfid *b)
{
	return !memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

bool gfid_is_null(const struct gfid *g)
{
	static const struct gfid null;

	return gfid_equal(g, &null);
}

const char *gfid_text(const struct gfid *g, char text[GFID_TEXT])
{
	static const char digits[] = "0123456789abcdef";
	char *at = text;

	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*at++ = '-';
		*at++ = digits[g->bytes[i] >> 4];
		*at++ = digits[g->bytes[i] & 15];
	}
	*at = 0;
	return text;
}

int gfid_parse(const char *text, struct gfid *g)
{
	struct gfid parsed;

	for (int i = 0; i < 16; i++) {
		char pair[3] = { 0 };

		if ((i == 4 || i == 6 || i == 8 || i == 10) && *text++ != '-')
			return -EINVAL;
		if (!isxdigit((unsigned char)text[0]) || !isxdigit((unsigned char)text[1]))
			return -EINVAL;
		memcpy(pair, text, 2);
		parsed.bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
		text += 2;
	}
	if (*text)
		return -EINVAL;
	*g = parsed;
	return 0;
}

uint64_t gfid_hash(const struct gfid *g)
{
	uint64_t h;

	memcpy(&h, g->bytes + 8, sizeof(h));
	return h * 0x9e3779b97f4a7c15u >> 20;
}

uint64_t gfid_ino(const struct gfid *g)
{
	uint64_t ino = 0;

	for (int i = 8; i < 16; i++)
		ino = ino << 8 | g->bytes[i];
	for (int i = 0; i < 8; i++)
		ino ^= (uint64_t)g->bytes[i] << (8 * i);
	return ino ? ino : 2;
}
