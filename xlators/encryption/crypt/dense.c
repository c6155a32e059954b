/* SPDX-License-Identifier: Apache-2.0 */
/* Texts and bytes as large numbers: each is read in one system of digits and written in another. */
#include "dense.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* ---- numbers ---- */

enum { LIMBS = 64 };
struct number {
	unsigned used;
	uint32_t limb[LIMBS]; /* the lowest first; the last that is used is not 0 */
};

static void append(struct number *n, uint32_t base, uint32_t digit)
{
	uint64_t carry = digit;

	for (unsigned i = 0; i < n->used; i++) {
		carry += (uint64_t)n->limb[i] * base;
		n->limb[i] = (uint32_t)carry;
		carry >>= 32;
	}
	if (carry) {
		assert(n->used < LIMBS);
		n->limb[n->used++] = (uint32_t)carry;
	}
}

/* The digit that was appended last. */
static uint32_t take(struct number *n, uint32_t base)
{
	uint64_t rest = 0;

	for (unsigned i = n->used; i-- > 0;) {
		rest = rest << 32 | n->limb[i];
		n->limb[i] = (uint32_t)(rest / base);
		rest %= base;
	}
	while (n->used && !n->limb[n->used - 1])
		n->used--;
	return (uint32_t)rest;
}

static size_t bytes_of(const struct number *n)
{
	size_t size = (size_t)n->used * 4;

	while (size && !(n->limb[(size - 1) / 4] >> (size - 1) % 4 * 8))
		size--;
	return size;
}

static void to_bytes(const struct number *n, uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		bytes[size - 1 - i] = i / 4 < n->used ? (uint8_t)(n->limb[i / 4] >> i % 4 * 8) : 0;
}

static void from_bytes(struct number *n, const uint8_t *bytes, size_t size)
{
	memset(n, 0, sizeof(*n));
	for (size_t i = 0; i < size; i++)
		n->limb[i / 4] |= (uint32_t)bytes[size - 1 - i] << i % 4 * 8;
	n->used = (unsigned)(size + 3) / 4;
	while (n->used && !n->limb[n->used - 1])
		n->used--;
}

/* ---- UTF-8 ---- */

/* Characters by how many bytes they have: each costs about 7.2 bits for a byte. */
enum { LEADS = 145 };
static const struct width {
	uint32_t first, past; /* code points */
	uint32_t lead, base;  /* of the digit in base LEADS, which comes out first, and the base of the one behind it */
} widths[] = {
	{ 0, 0x80, 0, 1 },
	{ 0x80, 0x800, 128, 148 },
	{ 0x800, 0x10000, 141, 21163 },
	{ 0x10000, 0x110000, 144, 1 << 20 },
};
enum { WIDTHS = 4 };

static bool is_character(uint32_t code, unsigned width)
{
	return code >= widths[width].first && code < widths[width].past && (code < 0xd800 || code > 0xdfff) && code;
}

static bool is_more(char byte)
{
	return ((uint8_t)byte & 0xc0) == 0x80;
}

/* The character that ends before `end`: how many bytes; 0: none does. */
static unsigned last_character(const char *text, size_t end, uint32_t *code)
{
	static const uint8_t mark[WIDTHS] = { 0, 0xc0, 0xe0, 0xf0 };
	unsigned more = 0;
	uint32_t lead;

	*code = 0;
	while (more < WIDTHS - 1 && more + 1 < end && is_more(text[end - 1 - more])) {
		*code |= ((uint32_t)text[end - 1 - more] & 0x3f) << 6 * more;
		more++;
	}
	lead = (uint8_t)text[end - 1 - more];
	if (more ? (lead ^ mark[more]) >> (6 - more) : lead >> 7)
		return 0;
	*code |= (more ? lead ^ mark[more] : lead) << 6 * more;
	return is_character(*code, more) ? more + 1 : 0;
}

static unsigned put_character(char *text, uint32_t code, unsigned width)
{
	static const uint8_t mark[WIDTHS] = { 0, 0xc0, 0xe0, 0xf0 };

	for (unsigned i = width; i > 0; i--) {
		text[i] = (char)(0x80 | (code & 0x3f));
		code >>= 6;
	}
	text[0] = (char)(mark[width] | code);
	return width + 1;
}

/* From the last character to the first, so that the first comes out first. No character is 0, which is the end therefore. */
int dense_pack(const char *text, size_t length, uint8_t bytes[DENSE_BYTES_MAX])
{
	struct number n = { 0 };
	size_t size;

	if (length > DENSE_TEXT_MAX)
		return -EBADMSG;
	while (length) {
		uint32_t code;
		unsigned took = last_character(text, length, &code);
		const struct width *w = &widths[took ? took - 1 : 0];

		if (!took)
			return -EBADMSG;
		if (w->base > 1)
			append(&n, w->base, (code - w->first) % w->base);
		append(&n, LEADS, w->lead + (code - w->first) / w->base);
		length -= took;
	}
	size = bytes_of(&n);
	to_bytes(&n, bytes, size);
	return (int)size;
}

static uint32_t take_character(struct number *n, unsigned *width)
{
	uint32_t lead = take(n, LEADS);

	for (*width = WIDTHS - 1; lead < widths[*width].lead; --*width)
		;
	lead -= widths[*width].lead;
	return widths[*width].first + lead * widths[*width].base + (*width ? take(n, widths[*width].base) : 0);
}

int dense_unpack(const uint8_t *bytes, size_t size, char text[DENSE_TEXT_MAX + 1])
{
	struct number n;
	size_t length = 0;

	if (size > DENSE_BYTES_MAX || !size || !bytes[0])
		return -EBADMSG;
	from_bytes(&n, bytes, size);
	while (n.used) {
		unsigned width;
		uint32_t code = take_character(&n, &width);

		if (!is_character(code, width) || length + width + 1 > DENSE_TEXT_MAX)
			return -EBADMSG;
		length += put_character(text + length, code, width);
	}
	text[length] = '\0';
	return 0;
}

/* ---- digits: what can be printed of ASCII, but for the blank and '/', and all that is not ASCII ---- */

enum { DIGITS = 221, AT_ONCE = 3, OF_ALL = DIGITS * DIGITS * DIGITS };

static char digit_of(uint32_t value)
{
	value += '!';
	value += value >= '/';
	return (char)(value >= 0x7f ? value + 1 : value);
}

static int value_of(char digit)
{
	int byte = (uint8_t)digit;

	if (byte < '!' || byte == '/' || byte == 0x7f)
		return -1;
	return byte - '!' - (byte > '/') - (byte > 0x7f);
}

void dense_write(const uint8_t *bytes, size_t size, char *text)
{
	size_t left = dense_digits(size);
	struct number n;

	from_bytes(&n, bytes, size);
	text[left] = '\0';
	while (left) {
		uint32_t some = take(&n, OF_ALL);

		for (unsigned i = 0; i < AT_ONCE && left; i++) {
			text[--left] = digit_of(some % DIGITS);
			some /= DIGITS;
		}
	}
}

int dense_read(const char *text, size_t digits, uint8_t bytes[DENSE_BYTES_MAX])
{
	size_t size = dense_bytes(digits);
	struct number n = { 0 };

	if (!size || digits > DENSE_TEXT_MAX || dense_digits(size) != digits)
		return -EBADMSG;
	for (size_t i = 0; i < digits; i++) {
		int value = value_of(text[i]);

		if (value < 0)
			return -EBADMSG;
		append(&n, DIGITS, (uint32_t)value);
	}
	if (bytes_of(&n) > size)
		return -EBADMSG;
	to_bytes(&n, bytes, size);
	return (int)size;
}
