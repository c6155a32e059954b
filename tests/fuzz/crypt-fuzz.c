/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what encryption/crypt takes from bricks and files: headers, marks, slots, names, targets, attributes, key files. What opens must be sealed
 * so, and without a key nothing is. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "format.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static struct keyfile k;
	struct file_key f;
	struct slot_value s;
	const char *why;
	void *value;
	size_t value_size;

	keys.epochs = 3;
	MUST(header_decode(&keys, &id, bytes, size, &f, &why) < 0 && why);
	MUST(mark_decode(&keys, bytes, size) < 0);
	MUST(xattr_value_open(&keys, &id, "user.a", bytes, size, &value, &value_size) < 0);
	if (size >= SLOT) {
		slot_decode(bytes, &s);
		MUST(s.length <= BLOCK);
	}
	try_texts(bytes, size);
	if (!keyfile_decode(bytes, size, &k))
		MUST(k.slots && k.slots <= KEYFILE_SLOTS && k.body_size <= sizeof(k.body));
	return 0;
}
