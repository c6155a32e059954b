/* SPDX-License-Identifier: Apache-2.0 */
/* Key files: whoever knows the secret of a slot gets the master keys, nobody else does, and damage is noticed. */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "keyfile.h"
#include "secret.h"

static struct problem p;

static void each_slot_opens_the_same_keys(void **state)
{
	struct keyfile k;
	struct masters *made, *opened;
	char code[KEYFILE_CODE];
	uint8_t bytes[20];

	(void)state;
	assert_int_equal(keyfile_create(&k, &made, &p), 0);
	assert_int_equal(recovery_code(code), 0);
	assert_int_equal(recovery_parse(code, bytes), 0);
	assert_int_equal(keyfile_add(&k, made, SLOT_PASSPHRASE, "pass", "open sesame", 11, &p), 0);
	assert_int_equal(keyfile_add(&k, made, SLOT_KEYFILE, "file", "raw bytes", 9, &p), 0);
	assert_int_equal(keyfile_add(&k, made, SLOT_RECOVERY, "paper", bytes, sizeof(bytes), &p), 0);
	assert_int_equal(keyfile_add(&k, made, SLOT_KEYFILE, "file", "other", 5, &p), -EEXIST);
	assert_int_equal(keyfile_unlock(&k, SLOT_PASSPHRASE, "open sesame", 11, &opened, &p), 0);
	assert_memory_equal(opened, made, sizeof(*made));
	secret_free(opened, sizeof(*opened));
	assert_int_equal(keyfile_unlock(&k, SLOT_RECOVERY, bytes, sizeof(bytes), &opened, &p), 0);
	assert_memory_equal(opened, made, sizeof(*made));
	secret_free(opened, sizeof(*opened));
	assert_int_equal(keyfile_unlock(&k, SLOT_KEYFILE, "raw bytes", 9, &opened, &p), 0);
	secret_free(opened, sizeof(*opened));
	p = (struct problem){ "" };
	assert_int_equal(keyfile_unlock(&k, SLOT_KEYFILE, "raw bites", 9, &opened, &p), -EKEYREJECTED);
	assert_non_null(strstr(p.text, "opens no slot"));
	assert_int_equal(keyfile_remove(&k, "file", &p), 0);
	assert_int_equal(keyfile_unlock(&k, SLOT_KEYFILE, "raw bytes", 9, &opened, &p), -EKEYREJECTED);
	secret_free(made, sizeof(*made));
}

static void rotation_keeps_the_old_keys(void **state)
{
	struct keyfile k;
	struct masters *made, *opened;

	(void)state;
	assert_int_equal(keyfile_create(&k, &made, &p), 0);
	assert_int_equal(keyfile_add(&k, made, SLOT_KEYFILE, "file", "raw", 3, &p), 0);
	for (unsigned i = 2; i <= KEYFILE_EPOCHS; i++)
		assert_int_equal(keyfile_rotate(&k, made, &p), 0);
	assert_int_equal(keyfile_rotate(&k, made, &p), -ENOSPC);
	assert_int_equal(keyfile_unlock(&k, SLOT_KEYFILE, "raw", 3, &opened, &p), 0);
	assert_int_equal(opened->count, KEYFILE_EPOCHS);
	assert_memory_equal(opened, made, sizeof(*made));
	secret_free(opened, sizeof(*opened));
	secret_free(made, sizeof(*made));
}

/* Every bit of the file counts. */
static void a_changed_file_opens_nothing(void **state)
{
	char directory[64], path[80], *bytes;
	static struct keyfile k, again;
	struct masters *made, *opened;
	struct stat st;
	size_t size;
	FILE *f;

	(void)state;
	test_directory(directory, sizeof(directory), "keyfile-test");
	snprintf(path, sizeof(path), "%s/key", directory);
	assert_int_equal(keyfile_create(&k, &made, &p), 0);
	assert_int_equal(keyfile_add(&k, made, SLOT_KEYFILE, "file", "raw", 3, &p), 0);
	secret_free(made, sizeof(*made));
	assert_int_equal(keyfile_write(path, &k, true, &p), 0);
	assert_int_equal(keyfile_write(path, &k, true, &p), -EEXIST);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	size = (size_t)st.st_size;
	bytes = malloc(size + 1);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fread(bytes, 1, size, f), size);
	fclose(f);
	assert_int_equal(keyfile_decode((uint8_t *)bytes, size, &again), 0);
	assert_memory_equal(&again, &k, sizeof(k));
	for (size_t i = 0; i < size; i++) {
		bytes[i] ^= 1;
		if (!keyfile_decode((uint8_t *)bytes, size, &again))
			assert_true(keyfile_unlock(&again, 0, "raw", 3, &opened, &p) < 0);
		bytes[i] ^= 1;
		assert_int_equal(keyfile_decode((uint8_t *)bytes, i, &again), -EINVAL);
	}
	assert_int_equal(keyfile_decode((uint8_t *)bytes, size + 1, &again), -EINVAL);
	free(bytes);
	remove(path);
	remove(directory);
}

static void codes_are_read_as_people_type_them(void **state)
{
	char code[KEYFILE_CODE], typed[64];
	uint8_t bytes[20], again[20];
	char *to = typed;

	(void)state;
	assert_int_equal(recovery_code(code), 0);
	assert_int_equal(strlen(code), KEYFILE_CODE - 1);
	assert_int_equal(recovery_parse(code, bytes), 0);
	for (const char *c = code; *c; c++)
		if (*c != '-')
			*to++ = *c >= 'A' && *c <= 'Z' ? (char)(*c + 32) : *c;
	*to = '\0';
	assert_int_equal(recovery_parse(typed, again), 0);
	assert_memory_equal(bytes, again, sizeof(bytes));
	to[-1] = '\0';
	assert_int_equal(recovery_parse(typed, again), -EINVAL);
	assert_int_equal(recovery_parse("U", again), -EINVAL);
}

static void secrets_are_copies(void **state)
{
	size_t size = 0;
	char *copy;

	(void)state;
	assert_null(secret_get("nobody", &size));
	assert_int_equal(secret_put("name", "first", 6), 0);
	assert_int_equal(secret_put("name", "second", 7), 0);
	copy = secret_get("name", &size);
	assert_int_equal(size, 7);
	assert_string_equal(copy, "second");
	secret_free(copy, size);
	assert_int_equal(secret_put("name", NULL, 0), 0);
	assert_null(secret_get("name", &size));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_slot_opens_the_same_keys),
		cmocka_unit_test(rotation_keeps_the_old_keys),
		cmocka_unit_test(a_changed_file_opens_nothing),
		cmocka_unit_test(codes_are_read_as_people_type_them),
		cmocka_unit_test(secrets_are_copies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
