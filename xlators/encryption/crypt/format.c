/* SPDX-License-Identifier: Apache-2.0 */
/* The format's bytes. Integers are big-endian. What comes from a brick is decoded here, and believed only if its seal fits. */
#include "format.h"

#include <endian.h>
#include <errno.h>
#include <openssl/rand.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "dense.h"
#include "secret.h"
#include "siv.h"

static const char header_magic[] = "SFC1", mark_magic[] = "SFV1", mark_text[] = "stratus";

enum { MAGIC = 4, HEADER_HEAD = 12, MARK_HEAD = 8, FILE_KEY = 32, NONCE = 16, NAME_BYTES = 255, TARGET_TEXT = 4095 };

/* ---- keys ---- */

static int derive(const uint8_t *master, const char *label, uint8_t out[64])
{
	return key_derive(master, KEYFILE_MASTER, label, strlen(label), out);
}

int crypt_keys_derive(struct crypt_keys *k, const struct masters *m)
{
	int err = 0;

	k->epochs = m->count;
	for (uint32_t i = 0; i < m->count && !err; i++)
		err = derive(m->key[i], "stratus crypt 1 file key", k->wrap[i]);
	/* Of the first epoch for good: a name is found by its ciphertext, which must not change. */
	if (!err)
		err = derive(m->key[0], "stratus crypt 1 name", k->name);
	if (!err)
		err = derive(m->key[0], "stratus crypt 1 link target", k->target);
	if (!err)
		err = derive(m->key[0], "stratus crypt 1 xattr name", k->xattr_name);
	if (!err)
		err = derive(m->key[0], "stratus crypt 1 xattr value", k->xattr_value);
	return err ? err : derive(m->key[0], "stratus crypt 1 volume", k->mark);
}

int crypt_keys_keep(struct crypt_keys *k)
{
	k->names = siv_keep(k->name);
	k->files = siv_keep(k->wrap[k->epochs - 1]);
	if (k->names && k->files)
		return 0;
	crypt_keys_drop(k);
	return -ENOMEM;
}

void crypt_keys_drop(struct crypt_keys *k)
{
	siv_drop(k->names);
	siv_drop(k->files);
	k->names = k->files = NULL;
}

/* How a text is sealed: with what is kept for the key, if it is. */
struct sealer {
	const uint8_t *key;
	struct siv *kept;
};

static int seal(const struct sealer *s, const void *data, size_t data_size, const void *plain, size_t size, uint8_t *out)
{
	return s->kept ? siv_kept_seal(s->kept, data, data_size, plain, size, out)
		       : siv_seal(s->key, data, data_size, plain, size, out);
}

static int unseal(const struct sealer *s, const void *data, size_t data_size, const uint8_t *sealed, size_t size, uint8_t *out)
{
	return s->kept ? siv_kept_open(s->kept, data, data_size, sealed, size, out)
		       : siv_open(s->key, data, data_size, sealed, size, out);
}

/* ---- where things lie ---- */

uint64_t size_on_brick(uint64_t size)
{
	uint64_t rest = size % BLOCK;

	return page_at(size / BLOCK) + (rest ? SEAL + rest : 0);
}

/* What ends within a seal has nothing behind it. */
uint64_t size_of_contents(uint64_t on_brick)
{
	uint64_t rest = on_brick % PAGE;

	return on_brick / PAGE * BLOCK + (rest > SEAL ? rest - SEAL : 0);
}

/* ---- seals ---- */

static uint16_t get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void put16(uint8_t *at, uint16_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

void seal_decode(const uint8_t bytes[SEAL], struct seal *s)
{
	memcpy(s->nonce, bytes, sizeof(s->nonce));
	memcpy(s->tag, bytes + 12, sizeof(s->tag));
	s->length = get16(bytes + 28);
	s->flags = get16(bytes + 30);
	if (s->length > BLOCK)
		s->length = 0;
}

void seal_encode(const struct seal *s, uint8_t bytes[SEAL])
{
	memcpy(bytes, s->nonce, sizeof(s->nonce));
	memcpy(bytes + 12, s->tag, sizeof(s->tag));
	put16(bytes + 28, s->length);
	put16(bytes + 30, s->flags);
}

/* ---- headers ---- */

static atomic_uint_fast64_t key_number;

int file_key_create(const struct crypt_keys *k, struct file_key *f)
{
	f->epoch = k->epochs;
	f->number = atomic_fetch_add(&key_number, 1) + 1;
	return RAND_priv_bytes(f->key, sizeof(f->key)) > 0 ? 0 : -EIO;
}

static void header_data(const uint8_t head[HEADER_HEAD], const struct gfid *id, uint8_t data[HEADER_HEAD + 16])
{
	memcpy(data, head, HEADER_HEAD);
	memcpy(data + HEADER_HEAD, id->bytes, 16);
}

static struct sealer of_files(const struct crypt_keys *k, uint32_t epoch)
{
	return (struct sealer){ k->wrap[epoch - 1], epoch == k->epochs ? k->files : NULL };
}

int header_encode(const struct crypt_keys *k, const struct file_key *f, uint8_t bytes[HEADER_SIZE])
{
	struct sealer s = of_files(k, f->epoch);
	uint8_t data[HEADER_HEAD + 16];
	uint32_t epoch = htobe32(f->epoch);

	memcpy(bytes, header_magic, MAGIC);
	bytes[4] = FORMAT_VERSION;
	bytes[5] = f->cipher;
	bytes[6] = f->flags;
	bytes[7] = 0;
	memcpy(bytes + 8, &epoch, 4);
	header_data(bytes, &f->id, data);
	return seal(&s, data, sizeof(data), f->key, FILE_KEY, bytes + HEADER_HEAD);
}

static const char *header_wrong(const uint8_t *bytes, size_t size, uint32_t epoch)
{
	if (size != HEADER_SIZE || memcmp(bytes, header_magic, MAGIC) != 0)
		return "its header is none";
	if ((bytes[5] != CIPHER_AES_256_GCM && bytes[5] != CIPHER_CHACHA20_POLY1305) || bytes[6] & ~HEADER_SPARSE || bytes[7])
		return "its header names parameters that there are not";
	return !epoch || epoch > KEYFILE_EPOCHS ? "its header is of a master key that no key file can have" : NULL;
}

int header_decode(const struct crypt_keys *k, const struct gfid *id, const void *from, size_t size, struct file_key *f,
		  const char **why)
{
	const uint8_t *bytes = from;
	uint8_t data[HEADER_HEAD + 16];
	uint32_t epoch = 0;
	struct sealer s;
	int err;

	if (size == HEADER_SIZE && !memcmp(bytes, header_magic, MAGIC) && bytes[4] != FORMAT_VERSION) {
		*why = "its header is of another version of the format, which this release neither reads nor changes";
		return -EREMOTEIO;
	}
	if (size >= HEADER_HEAD)
		memcpy(&epoch, bytes + 8, 4);
	epoch = be32toh(epoch);
	*why = header_wrong(bytes, size, epoch);
	if (*why)
		return -EBADMSG;
	if (epoch > k->epochs) {
		*why = "its header is of a master key that this mount does not have";
		return -ENOKEY;
	}
	s = of_files(k, epoch);
	header_data(bytes, id, data);
	err = unseal(&s, data, sizeof(data), bytes + HEADER_HEAD, HEADER_SIZE - HEADER_HEAD, f->key);
	if (err) {
		*why = "its header was changed, or is that of another file";
		return err;
	}
	f->epoch = epoch;
	f->cipher = bytes[5];
	f->flags = bytes[6];
	f->id = *id;
	f->number = atomic_fetch_add(&key_number, 1) + 1;
	return 0;
}

int mark_encode(const struct crypt_keys *k, uint8_t bytes[MARK_SIZE])
{
	memset(bytes, 0, MARK_SIZE);
	memcpy(bytes, mark_magic, MAGIC);
	bytes[4] = MARK_VERSION;
	return siv_seal(k->mark, bytes, MARK_HEAD, mark_text, sizeof(mark_text), bytes + MARK_HEAD);
}

int mark_decode(const struct crypt_keys *k, const void *bytes, size_t size)
{
	uint8_t text[sizeof(mark_text)];

	if (size != MARK_SIZE || memcmp(bytes, mark_magic, MAGIC) != 0)
		return -EBADMSG;
	return siv_open(k->mark, bytes, MARK_HEAD, (const uint8_t *)bytes + MARK_HEAD, MARK_SIZE - MARK_HEAD, text)
		       ? -EKEYREJECTED
		       : 0;
}

/* ---- bytes as text ---- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static size_t text_size(size_t bytes)
{
	return (bytes * 4 + 2) / 3;
}

static size_t bytes_size(size_t text)
{
	return text * 3 / 4;
}

static void to_text(const uint8_t *bytes, size_t size, char *text)
{
	uint32_t kept = 0;
	unsigned bits = 0;

	for (size_t i = 0; i < size; i++) {
		kept = kept << 8 | bytes[i];
		for (bits += 8; bits >= 6; bits -= 6)
			*text++ = digits[kept >> (bits - 6) & 63];
	}
	if (bits)
		*text++ = digits[kept << (6 - bits) & 63];
	*text = '\0';
}

static int digit(char c)
{
	return c >= 'A' && c <= 'Z'   ? c - 'A'
	       : c >= 'a' && c <= 'z' ? c - 'a' + 26
	       : c >= '0' && c <= '9' ? c - '0' + 52
	       : c == '-'	      ? 62
	       : c == '_'	      ? 63
				      : -1;
}

/* Only as to_text writes it: bits that are left over are zeros, so that nothing has two texts. */
static int from_text(const char *text, size_t length, uint8_t *bytes)
{
	uint32_t kept = 0;
	unsigned bits = 0;

	if (length % 4 == 1)
		return -EBADMSG;
	for (size_t i = 0; i < length; i++) {
		int value = digit(text[i]);

		if (value < 0)
			return -EBADMSG;
		kept = kept << 6 | (uint32_t)value;
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			*bytes++ = (uint8_t)(kept >> bits);
		}
	}
	return kept & ((1u << bits) - 1) ? -EBADMSG : 0;
}

/* ---- names ---- */

/* How one kind of texts is sealed. */
struct manner {
	struct sealer with;
	const struct gfid *id;
	size_t most_short, most; /* bytes of a text in the short form, and at all */
	size_t room;		 /* of a sealed text, without its NUL */
};

static struct manner of_names(const struct crypt_keys *k, const struct gfid *directory)
{
	return (struct manner){ { k->name, k->names }, directory, NAME_SHORT_MAX, NAME_MAX_BYTES, NAME_MAX_BYTES };
}

static struct manner of_xattrs(const struct crypt_keys *k, const struct gfid *id)
{
	return (struct manner){
		{ k->xattr_name, NULL }, id, XATTR_SHORT_MAX, XATTR_PLAIN_MAX, NAME_MAX_BYTES + 1 - sizeof(SEALED_XATTR)
	};
}

/* The long form begins with what is no digit of the short one, and says how the plain text stands in it. That is sealed, too: else one text's
 * seal could be taken for another's. */
enum { FORM_PACKED = '~', FORM_BYTES = '=' };

static void long_data(const struct gfid *id, char form, uint8_t data[16 + 1])
{
	memcpy(data, id->bytes, 16);
	data[16] = (uint8_t)form;
}

static int long_seal(const struct manner *m, const char *plain, size_t length, char *text)
{
	uint8_t packed[DENSE_BYTES_MAX], sealed[DENSE_BYTES_MAX + SIV_TAG], data[16 + 1];
	int size = dense_pack(plain, length, packed), err;
	bool is_packed = size > 0;

	if (!is_packed)
		size = (int)length;
	if (length > m->most || 1 + dense_digits((size_t)size + SIV_TAG) > m->room)
		return -ENAMETOOLONG;
	text[0] = is_packed ? FORM_PACKED : FORM_BYTES;
	long_data(m->id, text[0], data);
	err = seal(&m->with, data, sizeof(data), is_packed ? (const void *)packed : plain, (size_t)size, sealed);
	if (!err)
		dense_write(sealed, (size_t)size + SIV_TAG, text + 1);
	return err;
}

/* As long_seal does it, so that nothing has two texts. */
static bool is_of_form(char form, const char *plain)
{
	uint8_t packed[DENSE_BYTES_MAX];

	return (form == FORM_PACKED) == (dense_pack(plain, strlen(plain), packed) > 0);
}

static int long_open(const struct manner *m, const char *text, size_t length, char plain[NAME_ROOM])
{
	uint8_t sealed[DENSE_BYTES_MAX], bytes[DENSE_BYTES_MAX], data[16 + 1];
	int size = length > m->room ? -EBADMSG : dense_read(text + 1, length - 1, sealed), err;

	if (size <= SIV_TAG)
		return -EBADMSG;
	long_data(m->id, text[0], data);
	err = unseal(&m->with, data, sizeof(data), sealed, (size_t)size, bytes);
	size -= SIV_TAG;
	if (!err && text[0] == FORM_PACKED) {
		err = dense_unpack(bytes, (size_t)size, plain);
	} else if (!err) {
		memcpy(plain, bytes, (size_t)size);
		plain[size] = '\0';
		err = memchr(plain, 0, (size_t)size) ? -EBADMSG : 0;
	}
	if (err)
		return err;
	return strlen(plain) > m->most_short && strlen(plain) <= m->most && is_of_form(text[0], plain) ? 0 : -EBADMSG;
}

static int text_seal(const struct manner *m, const char *plain, char *text)
{
	uint8_t bytes[NAME_BYTES];
	size_t length = strlen(plain);
	int err;

	if (length > m->most_short)
		return long_seal(m, plain, length, text);
	err = length ? seal(&m->with, m->id->bytes, 16, plain, length, bytes) : -EINVAL;
	if (!err)
		to_text(bytes, length + SIV_TAG, text);
	return err;
}

static int text_open(const struct manner *m, const char *text, char plain[NAME_ROOM])
{
	uint8_t bytes[NAME_BYTES];
	size_t length = strlen(text), size = bytes_size(length);
	int err;

	if (text[0] == FORM_PACKED || text[0] == FORM_BYTES)
		return long_open(m, text, length, plain);
	err = length > m->room || size <= SIV_TAG ? -EBADMSG : from_text(text, length, bytes);
	if (!err)
		err = unseal(&m->with, m->id->bytes, 16, bytes, size, (uint8_t *)plain);
	if (err)
		return err;
	plain[size - SIV_TAG] = '\0';
	return memchr(plain, 0, size - SIV_TAG) ? -EBADMSG : 0;
}

int name_seal(const struct crypt_keys *k, const struct gfid *directory, const char *name, char sealed[NAME_ROOM])
{
	struct manner m = of_names(k, directory);

	return text_seal(&m, name, sealed);
}

int name_open(const struct crypt_keys *k, const struct gfid *directory, const char *sealed, char name[NAME_ROOM])
{
	struct manner m = of_names(k, directory);

	return text_open(&m, sealed, name);
}

uint64_t name_most(uint64_t sealed)
{
	size_t bytes = sealed < NAME_MAX_BYTES ? bytes_size((size_t)sealed) : 0;

	return sealed >= NAME_MAX_BYTES ? NAME_MAX_BYTES : bytes > SIV_TAG ? bytes - SIV_TAG : 0;
}

int xattr_name_seal(const struct crypt_keys *k, const struct gfid *id, const char *name, char sealed[NAME_ROOM])
{
	struct manner m = of_xattrs(k, id);

	memcpy(sealed, SEALED_XATTR, sizeof(SEALED_XATTR) - 1);
	return text_seal(&m, name + 5, sealed + sizeof(SEALED_XATTR) - 1);
}

int xattr_name_open(const struct crypt_keys *k, const struct gfid *id, const char *sealed, char name[NAME_ROOM])
{
	struct manner m = of_xattrs(k, id);
	char plain[NAME_ROOM];
	int err = text_open(&m, sealed + sizeof(SEALED_XATTR) - 1, plain);

	if (!err) {
		memcpy(name, "user.", 5);
		memcpy(name + 5, plain, strlen(plain) + 1);
	}
	return err;
}

/* ---- targets of symbolic links ---- */

uint64_t target_size(uint64_t sealed_size)
{
	uint64_t bytes = bytes_size(sealed_size);

	return bytes > SIV_TAG ? bytes - SIV_TAG : 0;
}

int target_seal(const struct crypt_keys *k, const struct gfid *id, const char *target, char **sealed)
{
	uint8_t bytes[TARGET_PLAIN_MAX + SIV_TAG];
	size_t length = strlen(target);
	int err = !length		      ? -ENOENT
		  : length > TARGET_PLAIN_MAX ? -ENAMETOOLONG
					      : siv_seal(k->target, id->bytes, 16, target, length, bytes);

	if (err)
		return err;
	*sealed = malloc(text_size(length + SIV_TAG) + 1);
	if (!*sealed)
		return -ENOMEM;
	to_text(bytes, length + SIV_TAG, *sealed);
	return 0;
}

int target_open(const struct crypt_keys *k, const struct gfid *id, const char *sealed, char **target)
{
	uint8_t bytes[TARGET_PLAIN_MAX + SIV_TAG];
	size_t length = strlen(sealed), size = bytes_size(length);
	int err = length > TARGET_TEXT || size <= SIV_TAG || size > sizeof(bytes) ? -EBADMSG : from_text(sealed, length, bytes);
	char *plain = err ? NULL : malloc(size);

	if (!err && !plain)
		err = -ENOMEM;
	if (!err)
		err = siv_open(k->target, id->bytes, 16, bytes, size, (uint8_t *)plain);
	if (!err && memchr(plain, 0, size - SIV_TAG))
		err = -EBADMSG;
	if (err) {
		free(plain);
		return err;
	}
	plain[size - SIV_TAG] = '\0';
	*target = plain;
	return 0;
}

/* ---- values of extended attributes: nonce[16], then sealed: a 1, for nothing can't be sealed, and the value ---- */

static size_t value_data(const uint8_t nonce[NONCE], const struct gfid *id, const char *name,
			 uint8_t data[NONCE + 16 + NAME_ROOM])
{
	size_t length = strlen(name);

	memcpy(data, nonce, NONCE);
	memcpy(data + NONCE, id->bytes, 16);
	memcpy(data + NONCE + 16, name, length);
	return NONCE + 16 + length;
}

int xattr_value_seal(const struct crypt_keys *k, const struct gfid *id, const char *name, const void *value, size_t size,
		     void **sealed)
{
	uint8_t data[NONCE + 16 + NAME_ROOM], *plain = malloc(size + 1), *bytes = malloc(size + XATTR_VALUE_MORE);
	int err = plain && bytes ? RAND_bytes(bytes, NONCE) > 0 ? 0 : -EIO : -ENOMEM;

	if (!err) {
		plain[0] = 1;
		if (size)
			memcpy(plain + 1, value, size);
		err = siv_seal(k->xattr_value, data, value_data(bytes, id, name, data), plain, size + 1, bytes + NONCE);
		secret_wipe(plain, size + 1);
	}
	free(plain);
	if (err)
		free(bytes);
	else
		*sealed = bytes;
	return err;
}

int xattr_value_open(const struct crypt_keys *k, const struct gfid *id, const char *name, const void *sealed, size_t size,
		     void **value, size_t *value_size)
{
	uint8_t data[NONCE + 16 + NAME_ROOM], *plain = malloc(size + 1);
	int err = !plain ? -ENOMEM : size < XATTR_VALUE_MORE ? -EBADMSG : 0;

	if (!err)
		err = siv_open(k->xattr_value, data, value_data(sealed, id, name, data), (const uint8_t *)sealed + NONCE,
			       size - NONCE, plain);
	if (!err && plain[0] != 1)
		err = -EBADMSG;
	if (err) {
		free(plain);
		return err;
	}
	*value_size = size - XATTR_VALUE_MORE;
	memmove(plain, plain + 1, *value_size);
	*value = plain;
	return 0;
}
