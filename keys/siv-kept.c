/* SPDX-License-Identifier: Apache-2.0 */
/* SIV (RFC 5297, 2.4 and 2.6) of OpenSSL's AES, with contexts that keep their key: OpenSSL's own SIV must be set up anew for each text, which takes
 * ten times as long as sealing a name. */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "siv.h"

enum { B = 16 };

struct context { /* for one thread at a time */
	struct context *next;
	EVP_CIPHER_CTX *mac, *counter;
};

struct siv {
	const uint8_t *key;
	uint8_t whole[B], padded[B], begin[B]; /* CMAC's two subkeys; twice CMAC(0), with which S2V begins */
	pthread_mutex_t lock;		       /* guards the list */
	struct context *free;
};

/* ---- contexts ---- */

static void context_free(struct context *c)
{
	EVP_CIPHER_CTX_free(c->mac);
	EVP_CIPHER_CTX_free(c->counter);
	free(c);
}

static struct context *context_make(const uint8_t key[SIV_KEY])
{
	struct context *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->mac = EVP_CIPHER_CTX_new();
	c->counter = EVP_CIPHER_CTX_new();
	if (c->mac && c->counter && EVP_EncryptInit_ex(c->mac, EVP_aes_256_ecb(), NULL, key, NULL) > 0 &&
	    EVP_CIPHER_CTX_set_padding(c->mac, 0) > 0 &&
	    EVP_EncryptInit_ex(c->counter, EVP_aes_256_ctr(), NULL, key + SIV_KEY / 2, NULL) > 0)
		return c;
	context_free(c);
	return NULL;
}

static struct context *take(struct siv *s)
{
	struct context *c;

	pthread_mutex_lock(&s->lock);
	c = s->free;
	if (c)
		s->free = c->next;
	pthread_mutex_unlock(&s->lock);
	return c ? c : context_make(s->key);
}

static void give(struct siv *s, struct context *c)
{
	pthread_mutex_lock(&s->lock);
	c->next = s->free;
	s->free = c;
	pthread_mutex_unlock(&s->lock);
}

/* ---- S2V ---- */

static bool block(struct context *c, const uint8_t in[B], uint8_t out[B])
{
	int n;

	return EVP_EncryptUpdate(c->mac, out, &n, in, B) > 0 && n == B;
}

static void mix(uint8_t to[B], const uint8_t *with, size_t size)
{
	for (size_t i = 0; i < size; i++)
		to[i] ^= with[i];
}

/* Times x in the field of CMAC. */
static void twice(uint8_t at[B])
{
	uint8_t carry = at[0] >> 7;

	for (int i = 0; i < B - 1; i++)
		at[i] = (uint8_t)(at[i] << 1 | at[i + 1] >> 7);
	at[B - 1] = (uint8_t)(at[B - 1] << 1 ^ (carry ? 0x87 : 0));
}

static bool chain(struct context *c, uint8_t sum[B], const uint8_t with[B])
{
	mix(sum, with, B);
	return block(c, sum, sum);
}

/* CMAC (RFC 4493) of `size` bytes, at least one, of which the last ones (a whole block, if there are so many) are combined with `end` first.
 * Nothing that is made of the key stays on the stack. */
static bool mac(struct siv *s, struct context *c, const uint8_t *bytes, size_t size, const uint8_t end[B], uint8_t out[B])
{
	uint8_t sum[B] = { 0 }, last[2 * B] = { 0 };
	size_t before = size > B ? (size - B - 1) / B * B : 0, rest = size - before; /* rest: 1 to 2 blocks */
	bool done = true;

	for (size_t at = 0; at < before && done; at += B)
		done = chain(c, sum, bytes + at);
	memcpy(last, bytes + before, rest);
	if (rest >= B)
		mix(last + rest - B, end, B);
	if (rest > B) {
		done = done && chain(c, sum, last);
		memmove(last, last + B, B);
		rest -= B;
	}
	if (rest < B)
		last[rest] = 0x80;
	mix(last, rest < B ? s->padded : s->whole, B);
	mix(sum, last, B);
	done = done && block(c, sum, out);
	OPENSSL_cleanse(sum, sizeof(sum));
	OPENSSL_cleanse(last, sizeof(last));
	return done;
}

/* Of a text that is shorter than a block. sum: of what was before it. */
static bool mac_short(struct siv *s, struct context *c, const void *plain, size_t size, uint8_t sum[B], uint8_t tag[B])
{
	static const uint8_t nothing[B];
	uint8_t text[B] = { 0 };

	twice(sum);
	memcpy(text, plain, size);
	text[size] = 0x80;
	mix(sum, text, B);
	OPENSSL_cleanse(text, sizeof(text));
	return mac(s, c, sum, B, nothing, tag);
}

static bool s2v(struct siv *s, struct context *c, const void *data, size_t data_size, const void *plain, size_t size,
		uint8_t tag[B])
{
	static const uint8_t nothing[B];
	uint8_t sum[B], one[B] = { 0 };
	bool done = mac(s, c, data, data_size, nothing, one);

	memcpy(sum, s->begin, B);
	mix(sum, one, B);
	done = done && (size >= B ? mac(s, c, plain, size, sum, tag) : mac_short(s, c, plain, size, sum, tag));
	OPENSSL_cleanse(sum, sizeof(sum));
	OPENSSL_cleanse(one, sizeof(one));
	return done;
}

static bool count(struct context *c, const uint8_t tag[B], const void *from, size_t size, uint8_t *to)
{
	uint8_t start[B];
	int n;

	memcpy(start, tag, B);
	start[8] &= 0x7f;
	start[12] &= 0x7f;
	return EVP_EncryptInit_ex(c->counter, NULL, NULL, NULL, start) > 0 &&
	       EVP_EncryptUpdate(c->counter, to, &n, from, (int)size) > 0;
}

/* ---- sealing ---- */

static bool prepare(struct siv *s, struct context *c)
{
	static const uint8_t zeros[B];

	if (!block(c, zeros, s->whole))
		return false;
	twice(s->whole);
	memcpy(s->padded, s->whole, B);
	twice(s->padded);
	if (!mac(s, c, zeros, B, zeros, s->begin))
		return false;
	twice(s->begin);
	return true;
}

struct siv *siv_keep(const uint8_t key[SIV_KEY])
{
	struct siv *s = calloc(1, sizeof(*s));
	struct context *c = s ? context_make(key) : NULL;

	if (!c) {
		free(s);
		return NULL;
	}
	s->key = key;
	pthread_mutex_init(&s->lock, NULL);
	give(s, c);
	if (prepare(s, c))
		return s;
	siv_drop(s);
	return NULL;
}

void siv_drop(struct siv *s)
{
	struct context *c;

	if (!s)
		return;
	while ((c = s->free)) {
		s->free = c->next;
		context_free(c);
	}
	pthread_mutex_destroy(&s->lock);
	OPENSSL_cleanse(s, sizeof(*s));
	free(s);
}

int siv_kept_seal(struct siv *s, const void *data, size_t data_size, const void *plain, size_t size, uint8_t *out)
{
	struct context *c = take(s);
	bool done;

	if (!c)
		return -ENOMEM;
	done = s2v(s, c, data, data_size, plain, size, out) && count(c, out, plain, size, out + SIV_TAG);
	give(s, c);
	return done ? 0 : -EIO;
}

int siv_kept_open(struct siv *s, const void *data, size_t data_size, const uint8_t *sealed, size_t size, uint8_t *out)
{
	struct context *c = size > SIV_TAG ? take(s) : NULL;
	uint8_t tag[B];
	bool fits;

	if (!c)
		return size > SIV_TAG ? -ENOMEM : -EBADMSG;
	size -= SIV_TAG;
	fits = count(c, sealed, sealed + SIV_TAG, size, out) && s2v(s, c, data, data_size, out, size, tag) &&
	       !CRYPTO_memcmp(tag, sealed, SIV_TAG);
	give(s, c);
	if (!fits)
		OPENSSL_cleanse(out, size);
	return fits ? 0 : -EBADMSG;
}
