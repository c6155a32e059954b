/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks, sealed and opened by OpenSSL. Each thread keeps its contexts, and the key schedule while it works on the same file. */
#include <endian.h>
#include <openssl/evp.h>

#include "crypt.h"

enum { BLOCK_DATA = 36, CIPHERS = 2 };

struct context {
	EVP_CIPHER_CTX *c;
	uint64_t key; /* its number; 0: none */
};
struct thread {
	struct context way[CIPHERS][2]; /* by cipher; [1] seals */
};
static pthread_key_t of_thread;

static void thread_free(void *arg)
{
	struct thread *t = arg;

	for (int i = 0; i < CIPHERS * 2; i++)
		EVP_CIPHER_CTX_free(t->way[i / 2][i % 2].c);
	free(t);
}

int cipher_load(void)
{
	return -pthread_key_create(&of_thread, thread_free);
}

/* The threads of the runtime may live on: what they keep is lost then, not used. */
void cipher_unload(void)
{
	thread_free(pthread_getspecific(of_thread) ?: calloc(1, sizeof(struct thread)));
	pthread_setspecific(of_thread, NULL);
	pthread_key_delete(of_thread);
}

static struct thread *thread_self(void)
{
	struct thread *t = pthread_getspecific(of_thread);

	if (!t && (t = calloc(1, sizeof(*t))) && pthread_setspecific(of_thread, t)) {
		free(t);
		t = NULL;
	}
	return t;
}

static const EVP_CIPHER *type_of(const struct file_key *k)
{
	return k->cipher == CIPHER_AES_256_GCM ? EVP_aes_256_gcm() : EVP_chacha20_poly1305();
}

/* Set up for the key and the nonce; NULL when that fails. Nothing in here waits, so the thread stays the same. */
static EVP_CIPHER_CTX *set_up(const struct file_key *k, const uint8_t nonce[12], bool seals)
{
	struct thread *t = thread_self();
	struct context *at = t ? &t->way[k->cipher - 1][seals] : NULL;
	bool same;

	if (!at || !(at->c || (at->c = EVP_CIPHER_CTX_new())))
		return NULL;
	same = at->key == k->number;
	at->key = 0;
	if (EVP_CipherInit_ex(at->c, same ? NULL : type_of(k), NULL, same ? NULL : k->key, nonce, seals) <= 0)
		return NULL;
	at->key = k->number;
	return at->c;
}

/* u8 version, u8 cipher, u16 flags, u16 length, u16 0, u32 epoch, u64 block, the file's id. */
static void data_of(const struct file_key *k, uint64_t block, const struct seal *s, uint8_t data[BLOCK_DATA])
{
	uint16_t half[3] = { htobe16(s->flags), htobe16(s->length), 0 };
	uint32_t epoch = htobe32(k->epoch);

	block = htobe64(block);
	data[0] = FORMAT_VERSION;
	data[1] = k->cipher;
	memcpy(data + 2, half, sizeof(half));
	memcpy(data + 8, &epoch, 4);
	memcpy(data + 12, &block, 8);
	memcpy(data + 20, k->id.bytes, 16);
}

int page_seal(const struct file_key *k, uint64_t block, struct seal *s, const void *plain, void *to)
{
	EVP_CIPHER_CTX *c = set_up(k, s->nonce, true);
	uint8_t data[BLOCK_DATA], *sealed = (uint8_t *)to + SEAL;
	int n;

	data_of(k, block, s, data);
	if (!c || EVP_EncryptUpdate(c, NULL, &n, data, BLOCK_DATA) <= 0 ||
	    EVP_EncryptUpdate(c, sealed, &n, plain, s->length) <= 0 || EVP_EncryptFinal_ex(c, sealed + n, &n) <= 0 ||
	    EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, sizeof(s->tag), s->tag) <= 0)
		return -EIO;
	seal_encode(s, to);
	return 0;
}

static int contents_open(const struct file_key *k, uint64_t block, const struct seal *s, const uint8_t *from, void *to)
{
	EVP_CIPHER_CTX *c = set_up(k, s->nonce, false);
	uint8_t data[BLOCK_DATA];
	int n;

	if (!c)
		return -ENOMEM;
	data_of(k, block, s, data);
	return EVP_DecryptUpdate(c, NULL, &n, data, BLOCK_DATA) > 0 && EVP_DecryptUpdate(c, to, &n, from, s->length) > 0 &&
			       EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, sizeof(s->tag), (void *)s->tag) > 0 &&
			       EVP_DecryptFinal_ex(c, (uint8_t *)to + n, &n) > 0
		       ? 0
		       : -EBADMSG;
}

/* A seal may be for fewer bytes than there are only where a truncation has said that the rest does not count. */
bool seal_may_fit(const struct seal *s, size_t contents)
{
	return s->length && (s->length == contents || (s->length < contents && s->flags & SEAL_SHRUNK));
}

int page_open(const struct file_key *k, uint64_t block, const void *page, size_t size, void *to)
{
	size_t contents = size > SEAL ? size - SEAL : 0;
	struct seal s;
	int err;

	if (!contents)
		return 0;
	seal_decode(page, &s);
	err = seal_may_fit(&s, contents) ? contents_open(k, block, &s, (const uint8_t *)page + SEAL, to) : -EBADMSG;
	if (err)
		return err;
	memset((char *)to + s.length, 0, contents - s.length);
	return (int)contents;
}
