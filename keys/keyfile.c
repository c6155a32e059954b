/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a key file: magic[8]; u8 slots; each: u8 kind, u8 log_n, u16 0, name[32], salt[16], sealed[80]; u32 size of the body, the body. A
 * slot's `sealed` is SIV(what its secret gives, additional data: magic and the slot's bytes before it; the file key). The body is SIV(file key,
 * additional data: magic; u8 count, count master keys). Integers are big-endian. */
#include "keyfile.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "secret.h"
#include "siv.h"

enum {
	MAGIC = 8,
	SLOT_HEAD = 4 + KEYFILE_NAME + 16,
	SLOT_SIZE = SLOT_HEAD + 80,
	FILE_MAX = MAGIC + 1 + KEYFILE_SLOTS * SLOT_SIZE + 4 + sizeof(((struct keyfile *)0)->body),
	LOG_N = 16, /* 64 MiB and about 0.2 s for each try */
	LOG_N_MIN = 14,
	LOG_N_MAX = 20,
	CODE_BYTES = 20,
};
static const char magic[MAGIC + 1] = "SFSKEY\0\1";
static const char alphabet[] = "ABCDEFGHJKMNPQRSTVWXYZ0123456789"; /* without I, L, O, U: 32 of them */

const char *slot_kind_name(unsigned kind)
{
	static const char *const names[] = { "?", "passphrase", "keyfile", "recovery" };

	return kind < SLOT_KINDS ? names[kind] : names[0];
}

/* ---- bytes ---- */

static uint8_t *put_slot_head(uint8_t *at, const struct keyslot *s)
{
	*at++ = s->kind;
	*at++ = s->log_n;
	*at++ = 0;
	*at++ = 0;
	memcpy(at, s->name, KEYFILE_NAME);
	memcpy(at + KEYFILE_NAME, s->salt, sizeof(s->salt));
	return at + KEYFILE_NAME + sizeof(s->salt);
}

static size_t encode(const struct keyfile *k, uint8_t *bytes)
{
	uint8_t *at = bytes + MAGIC;
	uint32_t size = htobe32(k->body_size);

	memcpy(bytes, magic, MAGIC);
	*at++ = (uint8_t)k->slots;
	for (unsigned i = 0; i < k->slots; i++) {
		at = put_slot_head(at, &k->slot[i]);
		memcpy(at, k->slot[i].sealed, sizeof(k->slot[i].sealed));
		at += sizeof(k->slot[i].sealed);
	}
	memcpy(at, &size, 4);
	memcpy(at + 4, k->body, k->body_size);
	return (size_t)(at + 4 + k->body_size - bytes);
}

static bool slot_makes_sense(const struct keyslot *s)
{
	bool cost = s->kind == SLOT_PASSPHRASE ? s->log_n >= LOG_N_MIN && s->log_n <= LOG_N_MAX : !s->log_n;

	return s->kind && s->kind < SLOT_KINDS && cost && s->name[0] && memchr(s->name, 0, KEYFILE_NAME);
}

static int decode_slot(const uint8_t *at, struct keyslot *s)
{
	s->kind = at[0];
	s->log_n = at[1];
	memcpy(s->name, at + 4, KEYFILE_NAME);
	memcpy(s->salt, at + 4 + KEYFILE_NAME, sizeof(s->salt));
	memcpy(s->sealed, at + SLOT_HEAD, sizeof(s->sealed));
	return at[2] || at[3] || !slot_makes_sense(s) ? -EINVAL : 0;
}

int keyfile_decode(const uint8_t *bytes, size_t size, struct keyfile *k)
{
	const uint8_t *at = bytes + MAGIC + 1;
	int err = 0;

	memset(k, 0, sizeof(*k));
	if (size < MAGIC + 1 || memcmp(bytes, magic, MAGIC) != 0)
		return -EINVAL;
	k->slots = bytes[MAGIC];
	if (!k->slots || k->slots > KEYFILE_SLOTS || size < MAGIC + 1 + k->slots * (size_t)SLOT_SIZE + 4)
		return -EINVAL;
	for (unsigned i = 0; i < k->slots && !err; i++, at += SLOT_SIZE)
		err = decode_slot(at, &k->slot[i]);
	memcpy(&k->body_size, at, 4);
	k->body_size = be32toh(k->body_size);
	at += 4;
	if (err || k->body_size > sizeof(k->body) || k->body_size != (size_t)(bytes + size - at) || k->body_size <= SIV_TAG)
		return -EINVAL;
	memcpy(k->body, at, k->body_size);
	return 0;
}

/* ---- files ---- */

int keyfile_read(const char *path, struct keyfile *k, struct problem *p)
{
	uint8_t bytes[FILE_MAX + 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));
	int err = n < 0 ? errno : 0;

	if (fd >= 0)
		close(fd);
	if (err)
		return problem_set(p, err, "the key file %s can't be read: %s; `stratus key init %s` makes one", path,
				   strerror(err), path);
	if (keyfile_decode(bytes, (size_t)n, k))
		return problem_set(p, EINVAL, "%s is not a key file, or damaged: take a copy of it that you have kept", path);
	return 0;
}

static int write_all(int fd, const uint8_t *bytes, size_t size)
{
	while (size) {
		ssize_t n = write(fd, bytes, size);

		if (n < 0)
			return -errno;
		bytes += n;
		size -= (size_t)n;
	}
	return fsync(fd) ? -errno : 0;
}

static void sync_directory(const char *path)
{
	char *dir = strdup(path), *slash = dir ? strrchr(dir, '/') : NULL;
	int fd;

	if (slash)
		*(slash == dir ? slash + 1 : slash) = '\0';
	fd = dir ? open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
	free(dir);
}

/* Whoever has the file open: what is locked is the file that the path leads to, and not one that was replaced meanwhile. */
static bool is_at(int fd, const char *path)
{
	struct stat locked, there;

	return !fstat(fd, &locked) && !stat(path, &there) && locked.st_dev == there.st_dev && locked.st_ino == there.st_ino;
}

static int open_to_lock(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC); /* over NFS a lock needs that */

	return fd < 0 && (errno == EACCES || errno == EROFS) ? open(path, O_RDONLY | O_CLOEXEC) : fd;
}

int keyfile_lock(const char *path, struct problem *p)
{
	int fd = -1, err = 0;

	do {
		if (fd >= 0)
			close(fd);
		fd = open_to_lock(path);
		err = fd < 0 || flock(fd, LOCK_EX) ? errno : 0;
	} while (!err && !is_at(fd, path) && !access(path, F_OK));
	if (!err)
		return fd;
	if (fd >= 0)
		close(fd);
	return problem_set(p, err, "the key file %s can't be locked: %s; `stratus key init %s` makes one that is not there",
			   path, strerror(err), path);
}

/* Owner and mode of the file that is replaced. */
static int keep_owner(int fd, const char *path)
{
	struct stat was, now;

	if (stat(path, &was) || fstat(fd, &now))
		return -errno;
	if ((was.st_uid != now.st_uid || was.st_gid != now.st_gid) && fchown(fd, was.st_uid, was.st_gid))
		return -errno;
	return fchmod(fd, was.st_mode & 07777) ? -errno : 0;
}

static int replace(const char *path, const char *temporary, bool fresh)
{
	/* link(2) does not replace what is there */
	int err = fresh ? link(temporary, path) : rename(temporary, path);

	err = err ? -errno : 0;
	if (fresh || err)
		unlink(temporary);
	if (!err)
		sync_directory(path);
	return err;
}

static int write_beside(const char *path, const struct keyfile *k, bool fresh)
{
	uint8_t bytes[FILE_MAX];
	size_t size = encode(k, bytes);
	char *temporary = NULL;
	int fd, err;

	if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
		return -ENOMEM;
	fd = mkostemp(temporary, O_CLOEXEC); /* 0600 */
	err = fd < 0 ? -errno : 0;
	if (!err && !fresh)
		err = keep_owner(fd, path);
	if (!err)
		err = write_all(fd, bytes, size);
	if (fd >= 0)
		close(fd);
	if (!err)
		err = replace(path, temporary, fresh);
	else if (fd >= 0)
		unlink(temporary);
	free(temporary);
	return err;
}

int keyfile_write(const char *path, const struct keyfile *k, bool fresh, struct problem *p)
{
	char *file = fresh ? strdup(path) : realpath(path, NULL); /* a link to it stays */
	int err = file ? write_beside(file, k, fresh) : -errno;

	free(file);
	return !err ? 0
	       : err == -EEXIST
		       ? problem_set(p, EEXIST,
				     "%s is there already: who overwrites a key loses what it protects; name another file",
				     path)
		       : problem_set(p, -err, "the key file %s can't be written: %s", path, strerror(-err));
}

/* ---- slots ---- */

/* What opens the slot, from the secret. */
static int slot_key(const struct keyslot *s, const void *secret, size_t size, uint8_t key[SIV_KEY])
{
	enum { SCRYPT_R = 8, SCRYPT_P = 1 };

	if (s->kind != SLOT_PASSPHRASE)
		return key_derive(s->salt, sizeof(s->salt), secret, size, key);
	return EVP_PBE_scrypt(secret, size, s->salt, sizeof(s->salt), 1ull << s->log_n, SCRYPT_R, SCRYPT_P, 2ull << 30, key,
			      SIV_KEY) > 0
		       ? 0
		       : -ENOMEM;
}

static size_t slot_data(const struct keyslot *s, uint8_t *data)
{
	memcpy(data, magic, MAGIC);
	return (size_t)(put_slot_head(data + MAGIC, s) - data);
}

static int slot_open(const struct keyslot *s, const void *secret, size_t size, uint8_t file_key[SIV_KEY])
{
	uint8_t key[SIV_KEY], data[MAGIC + SLOT_HEAD];
	size_t n = slot_data(s, data);
	int err = slot_key(s, secret, size, key);

	if (!err)
		err = siv_open(key, data, n, s->sealed, sizeof(s->sealed), file_key);
	secret_wipe(key, sizeof(key));
	return err;
}

static int slot_seal(struct keyslot *s, const void *secret, size_t size, const uint8_t file_key[SIV_KEY])
{
	uint8_t key[SIV_KEY], data[MAGIC + SLOT_HEAD];
	size_t n = slot_data(s, data);
	int err = slot_key(s, secret, size, key);

	if (!err)
		err = siv_seal(key, data, n, file_key, SIV_KEY, s->sealed);
	secret_wipe(key, sizeof(key));
	return err;
}

/* ---- the body ---- */

static int seal_body(struct keyfile *k, const struct masters *m)
{
	size_t size = 1 + (size_t)m->count * KEYFILE_MASTER;
	uint8_t *plain = secret_alloc(size);
	int err;

	if (!plain)
		return -ENOMEM;
	plain[0] = (uint8_t)m->count;
	memcpy(plain + 1, m->key, size - 1);
	err = siv_seal(m->file_key, magic, MAGIC, plain, size, k->body);
	k->body_size = (uint32_t)size + SIV_TAG;
	secret_free(plain, size);
	return err;
}

static int open_body(const struct keyfile *k, struct masters *m)
{
	size_t size = k->body_size - SIV_TAG;
	uint8_t *plain = secret_alloc(size);
	int err = plain ? siv_open(m->file_key, magic, MAGIC, k->body, k->body_size, plain) : -ENOMEM;

	if (!err && (!plain[0] || plain[0] > KEYFILE_EPOCHS || size != 1 + (size_t)plain[0] * KEYFILE_MASTER))
		err = -EBADMSG;
	if (!err) {
		m->count = plain[0];
		memcpy(m->key, plain + 1, size - 1);
	}
	secret_free(plain, size);
	return err;
}

int keyfile_create(struct keyfile *k, struct masters **m, struct problem *p)
{
	struct masters *made = secret_alloc(sizeof(*made));
	int err;

	memset(k, 0, sizeof(*k));
	if (!made)
		return problem_set(p, ENOMEM, "no locked memory for keys: raise the limit (ulimit -l)");
	made->count = 1;
	err = RAND_priv_bytes(made->key[0], KEYFILE_MASTER) > 0 && RAND_priv_bytes(made->file_key, sizeof(made->file_key)) > 0
		      ? 0
		      : -EIO;
	if (!err)
		err = seal_body(k, made);
	if (err) {
		secret_free(made, sizeof(*made));
		return problem_set(p, -err, "no key can be made: %s", strerror(-err));
	}
	*m = made;
	return 0;
}

int keyfile_unlock(const struct keyfile *k, enum slot_kind kind, const void *secret, size_t size, struct masters **m,
		   struct problem *p)
{
	struct masters *opened = secret_alloc(sizeof(*opened));
	int err = -EBADMSG;

	if (!opened)
		return problem_set(p, ENOMEM, "no locked memory for keys: raise the limit (ulimit -l)");
	for (unsigned i = 0; i < k->slots && err == -EBADMSG; i++)
		if (!kind || k->slot[i].kind == kind)
			err = slot_open(&k->slot[i], secret, size, opened->file_key);
	if (!err)
		err = open_body(k, opened);
	if (!err) {
		*m = opened;
		return 0;
	}
	secret_free(opened, sizeof(*opened));
	return err == -EBADMSG ? problem_set(p, EKEYREJECTED,
					     "the %s opens no slot of the key file: it is wrong, or belongs to another one",
					     kind ? slot_kind_name(kind) : "secret")
			       : problem_set(p, -err, "the key file can't be opened: %s", strerror(-err));
}

static struct keyslot *find_slot(struct keyfile *k, const char *name)
{
	for (unsigned i = 0; i < k->slots; i++)
		if (!strcmp(k->slot[i].name, name))
			return &k->slot[i];
	return NULL;
}

int keyfile_add(struct keyfile *k, const struct masters *m, enum slot_kind kind, const char *name, const void *secret,
		size_t size, struct problem *p)
{
	struct keyslot *s = &k->slot[k->slots];
	int err;

	if (k->slots == KEYFILE_SLOTS)
		return problem_set(p, ENOSPC, "all %d slots are in use: remove one first", KEYFILE_SLOTS);
	if (!*name || strlen(name) >= KEYFILE_NAME)
		return problem_set(p, EINVAL, "a slot's name has 1 to %d bytes", KEYFILE_NAME - 1);
	if (find_slot(k, name))
		return problem_set(p, EEXIST, "there is a slot '%s' already: choose another name", name);
	*s = (struct keyslot){ .kind = (uint8_t)kind, .log_n = kind == SLOT_PASSPHRASE ? LOG_N : 0 };
	strcpy(s->name, name);
	err = RAND_bytes(s->salt, sizeof(s->salt)) > 0 ? slot_seal(s, secret, size, m->file_key) : -EIO;
	if (err)
		return problem_set(p, -err, "the slot can't be made: %s", strerror(-err));
	k->slots++;
	return 0;
}

int keyfile_remove(struct keyfile *k, const char *name, struct problem *p)
{
	struct keyslot *s = find_slot(k, name);

	if (!s)
		return problem_set(p, ENOENT, "there is no slot '%s': `stratus key check` lists them", name);
	if (k->slots == 1)
		return problem_set(p, EBUSY, "'%s' is the last slot: without it nobody could open the key file any more", name);
	memmove(s, s + 1, (size_t)(&k->slot[k->slots] - (s + 1)) * sizeof(*s));
	k->slots--;
	return 0;
}

int keyfile_rotate(struct keyfile *k, struct masters *m, struct problem *p)
{
	int err;

	if (m->count == KEYFILE_EPOCHS)
		return problem_set(p, ENOSPC, "the key file has %d master keys, which is all it can hold", KEYFILE_EPOCHS);
	err = RAND_priv_bytes(m->key[m->count], KEYFILE_MASTER) > 0 ? 0 : -EIO;
	if (err)
		return problem_set(p, EIO, "no random numbers");
	m->count++;
	err = seal_body(k, m);
	return err ? problem_set(p, -err, "the key file can't be sealed: %s", strerror(-err)) : 0;
}

/* ---- recovery codes: 160 bits in groups of four letters and digits ---- */

int recovery_code(char text[KEYFILE_CODE])
{
	uint8_t bytes[CODE_BYTES];
	char *at = text;

	if (RAND_priv_bytes(bytes, sizeof(bytes)) <= 0)
		return -EIO;
	for (unsigned i = 0; i < CODE_BYTES * 8 / 5; i++) {
		unsigned bit = i * 5, pair = bytes[bit / 8] << 8 | (bit / 8 + 1 < CODE_BYTES ? bytes[bit / 8 + 1] : 0);

		if (i && i % 4 == 0)
			*at++ = '-';
		*at++ = alphabet[pair >> (11 - bit % 8) & 31];
	}
	*at = '\0';
	secret_wipe(bytes, sizeof(bytes));
	return 0;
}

int recovery_parse(const char *text, uint8_t bytes[CODE_BYTES])
{
	unsigned n = 0;

	memset(bytes, 0, CODE_BYTES);
	for (; *text; text++) {
		const char *at = strchr(alphabet, *text >= 'a' && *text <= 'z' ? *text - 32 : *text);
		unsigned value, bit = n * 5;

		if (*text == '-' || *text == ' ')
			continue;
		if (!at || n == CODE_BYTES * 8 / 5)
			return -EINVAL;
		value = (unsigned)(at - alphabet) << (11 - bit % 8);
		bytes[bit / 8] |= (uint8_t)(value >> 8);
		if (bit / 8 + 1 < CODE_BYTES)
			bytes[bit / 8 + 1] |= (uint8_t)value;
		n++;
	}
	return n == CODE_BYTES * 8 / 5 ? 0 : -EINVAL;
}
