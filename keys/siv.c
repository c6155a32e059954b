/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSSL's SIV takes its text in one piece, wants the tag before it opens, and passes over additional data that are empty (CVE-2023-2975). */
#include "siv.h"

#include <assert.h>
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>

static EVP_CIPHER *cipher;

static void fetch(void)
{
	cipher = EVP_CIPHER_fetch(NULL, "AES-256-SIV", NULL);
}

static const EVP_CIPHER *siv_cipher(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fetch);
	return cipher;
}

int siv_seal(const uint8_t key[SIV_KEY], const void *data, size_t data_size, const void *plain, size_t size, uint8_t *out)
{
	EVP_CIPHER_CTX *c = siv_cipher() ? EVP_CIPHER_CTX_new() : NULL;
	int n, done;

	assert(size && data_size);
	if (!c)
		return -ENOMEM;
	done = EVP_EncryptInit_ex(c, siv_cipher(), NULL, key, NULL) > 0 &&
	       EVP_EncryptUpdate(c, NULL, &n, data, (int)data_size) > 0 &&
	       EVP_EncryptUpdate(c, out + SIV_TAG, &n, plain, (int)size) > 0 && EVP_EncryptFinal_ex(c, out + SIV_TAG, &n) > 0 &&
	       EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, SIV_TAG, out) > 0;
	EVP_CIPHER_CTX_free(c);
	return done ? 0 : -EIO;
}

int siv_open(const uint8_t key[SIV_KEY], const void *data, size_t data_size, const uint8_t *sealed, size_t size, uint8_t *out)
{
	EVP_CIPHER_CTX *c;
	int n, done;

	assert(data_size);
	if (size <= SIV_TAG)
		return -EBADMSG;
	c = siv_cipher() ? EVP_CIPHER_CTX_new() : NULL;
	if (!c)
		return -ENOMEM;
	done = EVP_DecryptInit_ex(c, siv_cipher(), NULL, key, NULL) > 0 &&
	       EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, SIV_TAG, (void *)sealed) > 0 &&
	       EVP_DecryptUpdate(c, NULL, &n, data, (int)data_size) > 0 &&
	       EVP_DecryptUpdate(c, out, &n, sealed + SIV_TAG, (int)(size - SIV_TAG)) > 0 &&
	       EVP_DecryptFinal_ex(c, out, &n) > 0;
	EVP_CIPHER_CTX_free(c);
	return done ? 0 : -EBADMSG;
}

int key_derive(const void *key, size_t key_size, const void *bytes, size_t size, uint8_t out[SIV_KEY])
{
	unsigned n = SIV_KEY;

	return HMAC(EVP_sha512(), key, (int)key_size, bytes, size, out, &n) ? 0 : -EIO;
}
