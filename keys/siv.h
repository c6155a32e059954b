/* SPDX-License-Identifier: Apache-2.0 */
/* AES-256-SIV (RFC 5297) with one piece of additional data, and HMAC-SHA-512 as the derivation of keys. */
#ifndef STRATUS_SIV_H
#define STRATUS_SIV_H
#include <stddef.h>
#include <stdint.h>

enum { SIV_KEY = 64, SIV_TAG = 16 };

/* `out` gets the tag and then as many bytes as `plain` has. Neither the text nor the additional data may be empty. 0, -ENOMEM, -EIO. */
int siv_seal(const uint8_t key[SIV_KEY], const void *data, size_t data_size, const void *plain, size_t size, uint8_t *out);
/* The way back: size is that of the sealed text, of which SIV_TAG go. -EBADMSG: not sealed so. */
int siv_open(const uint8_t key[SIV_KEY], const void *data, size_t data_size, const uint8_t *sealed, size_t size, uint8_t *out);
/* The same for many texts under one key, by any threads at once: what is set up for the key stays (in ordinary memory, as OpenSSL's contexts are). The
 * key is borrowed until siv_drop. NULL: no memory. */
struct siv;
struct siv *siv_keep(const uint8_t key[SIV_KEY]);
void siv_drop(struct siv *); /* NULL is fine */
int siv_kept_seal(struct siv *, const void *data, size_t data_size, const void *plain, size_t size, uint8_t *out);
int siv_kept_open(struct siv *, const void *data, size_t data_size, const uint8_t *sealed, size_t size, uint8_t *out);
/* HMAC-SHA-512 of the bytes. 0, -EIO. */
int key_derive(const void *key, size_t key_size, const void *bytes, size_t size, uint8_t out[SIV_KEY]);
#endif
