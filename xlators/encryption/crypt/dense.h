/* SPDX-License-Identifier: Apache-2.0 */
/* What makes long names fit: UTF-8 in 7.2 bits for each of its bytes, and sealed bytes as a text of almost all bytes that a name may have
 * (doc/crypt.md, "Long names"). Functions of bytes, without keys. */
#ifndef STRATUS_CRYPT_DENSE_H
#define STRATUS_CRYPT_DENSE_H
#include <stddef.h>
#include <stdint.h>

enum {
	DENSE_TEXT_MAX = 255,  /* bytes of a text that can be packed, and of digits */
	DENSE_BYTES_MAX = 252, /* bytes that can be packed, and written as digits */
};

/* Packed, of at most 230 bytes: how many. -EBADMSG: it is no UTF-8 (RFC 3629), or longer than DENSE_TEXT_MAX. */
int dense_pack(const char *text, size_t length, uint8_t bytes[DENSE_BYTES_MAX]);
/* The way back, with a NUL. -EBADMSG: nothing is packed so. */
int dense_unpack(const uint8_t *bytes, size_t size, char text[DENSE_TEXT_MAX + 1]);

/* So many digits for so many bytes; no two sizes have the same. */
static inline size_t dense_digits(size_t bytes)
{
	return (bytes * 1028 + 999) / 1000;
}
static inline size_t dense_bytes(size_t digits)
{
	return digits * 1000 / 1028;
}
/* dense_digits(size) of them, and a NUL; size: 1 to DENSE_BYTES_MAX, and the digits must fit. */
void dense_write(const uint8_t *bytes, size_t size, char *text);
/* How many bytes the digits are; -EBADMSG: dense_write does not write such. */
int dense_read(const char *text, size_t digits, uint8_t bytes[DENSE_BYTES_MAX]);
#endif
