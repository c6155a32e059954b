/* SPDX-License-Identifier: Apache-2.0 */
/* Gfids: making, comparing, printing (RFC 4122 text form, version 4). */
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "inode.h"

const struct gfid gfid_root = { { [15] = 1 } };

/* Of more than 256 bytes a signal leaves the rest for another call, and before the kernel has been seeded it leaves all. */
static void fill_random(void *to, size_t size)
{
	uint8_t *at = to;

	while (size) {
		ssize_t got = getrandom(at, size, 0);

		if (got < 0 && errno != EINTR)
			abort();
		at += got < 0 ? 0 : got;
		size -= got < 0 ? 0 : (size_t)got;
	}
}

void gfid_create(struct gfid *g)
{
	static _Thread_local uint8_t stock[512];
	static _Thread_local size_t left;

	if (left < sizeof(g->bytes)) {
		fill_random(stock, sizeof(stock));
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

static int nibble(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int gfid_parse(const char *text, struct gfid *g)
{
	struct gfid parsed;

	for (int i = 0; i < 16; i++) {
		int high, low;

		if ((i == 4 || i == 6 || i == 8 || i == 10) && *text++ != '-')
			return -EINVAL;
		high = nibble(*text);
		low = high < 0 ? -1 : nibble(text[1]);
		if (low < 0)
			return -EINVAL;
		parsed.bytes[i] = (uint8_t)(high << 4 | low);
		text += 2;
	}
	if (*text)
		return -EINVAL;
	*g = parsed;
	return 0;
}

/* ---- for tables ----
 *
 * Clients choose the gfids of what they make, so whoever knew where one lands in a table could make all of his land in one place, and everybody
 * who asks for something there would walk along them. So each process has a key of its own. What is told by the hash (a table's order, say) is of
 * no use to anybody outside, for nothing that leaves the process goes by it. */

static struct {
	pthread_once_t once;
	uint64_t word[2];
} key = { .once = PTHREAD_ONCE_INIT };

static void make_key(void)
{
	fill_random(key.word, sizeof(key.word));
}

void gfid_hash_key(const uint64_t word[2])
{
	pthread_once(&key.once, make_key);
	memcpy(key.word, word, sizeof(key.word));
}

static uint64_t rotated(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotated(v[1], 13) ^ v[0];
	v[3] = rotated(v[3], 16) ^ v[2];
	v[0] = rotated(v[0], 32) + v[3];
	v[2] += v[1];
	v[3] = rotated(v[3], 21) ^ v[0];
	v[1] = rotated(v[1], 17) ^ v[2];
	v[2] = rotated(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_round(v);
	v[0] ^= word;
}

/* SipHash-1-3 (Aumasson and Bernstein, 2012) of the 16 bytes. */
uint64_t gfid_hash(const struct gfid *g)
{
	static const uint64_t length = sizeof(g->bytes);
	uint64_t half[2], v[4];

	pthread_once(&key.once, make_key);
	v[0] = key.word[0] ^ 0x736f6d6570736575;
	v[1] = key.word[1] ^ 0x646f72616e646f6d;
	v[2] = key.word[0] ^ 0x6c7967656e657261;
	v[3] = key.word[1] ^ 0x7465646279746573;
	memcpy(half, g->bytes, sizeof(half));
	sip_word(v, le64toh(half[0]));
	sip_word(v, le64toh(half[1]));
	sip_word(v, length << 56);
	v[2] ^= 0xff;
	for (int i = 0; i < 3; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
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
