/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what encryption/crypt takes from bricks and files: headers, marks, pages, names, targets, attributes, key files. What opens must be sealed
 * so, and without a key nothing is. */
#include "fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "crypt.h"
#include "dense.h"

static struct crypt_keys keys;
static const struct gfid id = { { 1, 2, 3 } };

static void text_of(const uint8_t *bytes, size_t size, char *text, size_t room)
{
	size_t n = size < room - 1 ? size : room - 1;

	memcpy(text, bytes, n);
	text[n] = '\0';
}

static void try_texts(const uint8_t *bytes, size_t size)
{
	static char text[5000];
	char name[NAME_ROOM], *target;

	text_of(bytes, size, text, sizeof(text));
	MUST(name_open(&keys, &id, text, name) < 0);
	MUST(target_open(&keys, &id, text, &target) < 0);
	target_size(strlen(text));
	if (!strncmp(text, SEALED_XATTR, sizeof(SEALED_XATTR) - 1))
		MUST(xattr_name_open(&keys, &id, text, name) < 0);
}

/* What is taken for sealed bytes, written as digits: it does not open either. And what reads as digits is written so, and no other way. */
static void try_dense(const uint8_t *bytes, size_t size)
{
	char text[NAME_ROOM], again[NAME_ROOM], name[NAME_ROOM];
	uint8_t back[DENSE_BYTES_MAX];
	size_t n = size < 247 ? size : 247;

	if (!n)
		return;
	text[0] = bytes[0] & 1 ? '~' : '=';
	dense_write(bytes, n, text + 1);
	MUST(name_open(&keys, &id, text, name) < 0);
	MUST(dense_read(text + 1, strlen(text + 1), back) == (int)n && !memcmp(back, bytes, n));
	text_of(bytes, size, text, sizeof(text));
	if (dense_read(text, strlen(text), back) > 0) {
		dense_write(back, dense_bytes(strlen(text)), again);
		MUST(!strcmp(text, again));
	}
	if (!dense_unpack(bytes, size, name)) {
		MUST(dense_pack(name, strlen(name), back) == (int)size);
		MUST(!memcmp(back, bytes, size));
	}
}

/* As a name: what can be sealed opens to the same, and all can that is packed. */
static void try_name(const uint8_t *bytes, size_t size)
{
	char name[NAME_ROOM], sealed[NAME_ROOM], back[NAME_ROOM];
	uint8_t packed[DENSE_BYTES_MAX];
	int err;

	text_of(bytes, size, name, sizeof(name));
	err = name_seal(&keys, &id, name, sealed);
	MUST(!err || !*name || (err == -ENAMETOOLONG && dense_pack(name, strlen(name), packed) < 0));
	MUST(err || (strlen(sealed) <= NAME_MAX_BYTES && !strchr(sealed, '/')));
	MUST(err || (!name_open(&keys, &id, sealed, back) && !strcmp(name, back)));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static struct keyfile k;
	struct file_key f;
	static uint8_t plain[BLOCK];
	const struct file_key of_page = { .cipher = size % 2 ? CIPHER_AES_256_GCM : CIPHER_CHACHA20_POLY1305,
					  .number = 1 + size % 2 };
	const char *why;
	void *value;
	size_t value_size;

	if (!keys.epochs)
		MUST(!cipher_load());
	keys.epochs = 3;
	MUST(header_decode(&keys, &id, bytes, size, &f, &why) < 0 && why);
	MUST(mark_decode(&keys, bytes, size) < 0);
	MUST(xattr_value_open(&keys, &id, "user.a", bytes, size, &value, &value_size) < 0);
	MUST(page_open(&of_page, 1, bytes, size < PAGE ? size : PAGE, plain) == (size > SEAL ? -EBADMSG : 0));
	try_texts(bytes, size);
	try_dense(bytes, size);
	try_name(bytes, size);
	if (!keyfile_decode(bytes, size, &k))
		MUST(k.slots && k.slots <= KEYFILE_SLOTS && k.body_size <= sizeof(k.body));
	return 0;
}
