/* SPDX-License-Identifier: Apache-2.0 */
/* The format of encryption/crypt as functions. With the argument `vectors` it prints known answers, for crypt-vectors.py to check by means of
 * another implementation. */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "crypt.h"
#include "secret.h"
#include "siv.h"

static struct crypt_keys *keys;
static struct masters *masters;
static const struct gfid id = { { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 } };

static int set_up(void **state)
{
	(void)state;
	masters = secret_alloc(sizeof(*masters));
	keys = secret_alloc(sizeof(*keys));
	masters->count = 2;
	for (unsigned i = 0; i < KEYFILE_MASTER; i++) {
		masters->key[0][i] = (uint8_t)i;
		masters->key[1][i] = (uint8_t)(255 - i);
	}
	return cipher_load() || crypt_keys_derive(keys, masters);
}

static int tear_down(void **state)
{
	(void)state;
	secret_free(masters, sizeof(*masters));
	secret_free(keys, sizeof(*keys));
	cipher_unload();
	return 0;
}

static void sizes_go_to_the_brick_and_back(void **state)
{
	(void)state;
	assert_int_equal(size_on_brick(0), 0);
	assert_int_equal(size_on_brick(1), BLOCK + 1);
	assert_int_equal(size_on_brick(GROUP * BLOCK), (GROUP + 1) * BLOCK);
	assert_int_equal(size_on_brick(GROUP * BLOCK + 1), (GROUP + 2) * BLOCK + 1);
	for (uint64_t size = 0; size < 3 * GROUP * BLOCK; size += size % 7 ? 511 : 1)
		assert_int_equal(size_of_contents(size_on_brick(size)), size);
	for (uint64_t before = 0, on_brick = 0; on_brick < 140 * BLOCK;
	     on_brick += 100) { /* any length means something, and more is not less */
		assert_true(size_of_contents(on_brick) >= before);
		before = size_of_contents(on_brick);
	}
}

static void headers_fit_one_file_only(void **state)
{
	struct file_key f = { .cipher = CIPHER_AES_256_GCM, .flags = HEADER_SPARSE, .id = id }, back;
	struct gfid other = id;
	uint8_t bytes[HEADER_SIZE];
	const char *why;

	(void)state;
	assert_int_equal(file_key_create(keys, &f), 0);
	assert_int_equal(f.epoch, 2);
	assert_int_equal(header_encode(keys, &f, bytes), 0);
	assert_int_equal(header_decode(keys, &id, bytes, HEADER_SIZE, &back, &why), 0);
	assert_memory_equal(back.key, f.key, sizeof(f.key));
	assert_int_equal(back.flags, HEADER_SPARSE);
	other.bytes[0]++;
	assert_int_equal(header_decode(keys, &other, bytes, HEADER_SIZE, &back, &why), -EBADMSG);
	for (size_t i = 0; i < HEADER_SIZE * 8; i++) {
		bytes[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_int_equal(header_decode(keys, &id, bytes, HEADER_SIZE, &back, &why),
				 bytes[11] > 2 && bytes[11] <= KEYFILE_EPOCHS ? -ENOKEY : -EBADMSG);
		bytes[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_int_equal(header_decode(keys, &id, bytes, i / 8, &back, &why), -EBADMSG);
	}
	keys->epochs = 1; /* a key file from before the rotation */
	assert_int_equal(header_decode(keys, &id, bytes, HEADER_SIZE, &back, &why), -ENOKEY);
	assert_non_null(strstr(why, "master key"));
	keys->epochs = 2;
}

static void names_have_one_text_in_one_directory(void **state)
{
	char name[NAME_ROOM], sealed[NAME_ROOM], again[NAME_ROOM], longest[NAME_PLAIN_MAX + 2];
	struct gfid other = id;

	(void)state;
	other.bytes[15]++;
	for (size_t length = 1; length <= NAME_PLAIN_MAX; length++) {
		memset(longest, 'x', length);
		longest[length] = '\0';
		assert_int_equal(name_seal(keys, &id, longest, sealed), 0);
		assert_true(strlen(sealed) <= 255 && !strchr(sealed, '/') && !strchr(sealed, '.'));
		assert_int_equal(name_open(keys, &id, sealed, name), 0);
		assert_string_equal(name, longest);
		assert_int_equal(name_open(keys, &other, sealed, name), -EBADMSG);
		assert_int_equal(name_seal(keys, &other, longest, again), 0);
		assert_string_not_equal(sealed, again);
		sealed[strlen(sealed) - 1] ^= 1; /* also where only bits that are left over change */
		assert_int_equal(name_open(keys, &id, sealed, name), -EBADMSG);
	}
	longest[NAME_PLAIN_MAX] = 'x';
	longest[NAME_PLAIN_MAX + 1] = '\0';
	assert_int_equal(name_seal(keys, &id, longest, sealed), -ENAMETOOLONG);
	assert_int_equal(name_open(keys, &id, "", name), -EBADMSG);
	assert_int_equal(name_open(keys, &id, "not base64!", name), -EBADMSG);
}

static void targets_and_values_come_back(void **state)
{
	char *sealed, *target, longest[TARGET_PLAIN_MAX + 2];
	void *value, *plain;
	size_t size;

	(void)state;
	memset(longest, '/', sizeof(longest));
	longest[TARGET_PLAIN_MAX + 1] = '\0';
	assert_int_equal(target_seal(keys, &id, longest, &sealed), -ENAMETOOLONG);
	longest[TARGET_PLAIN_MAX] = '\0';
	assert_int_equal(target_seal(keys, &id, longest, &sealed), 0);
	assert_true(strlen(sealed) <= 4095);
	assert_int_equal(target_size(strlen(sealed)), TARGET_PLAIN_MAX);
	assert_int_equal(target_open(keys, &id, sealed, &target), 0);
	assert_string_equal(target, longest);
	free(target);
	sealed[5] ^= 1;
	assert_int_equal(target_open(keys, &id, sealed, &target), -EBADMSG);
	free(sealed);
	for (size_t n = 0; n < 50; n++) {
		assert_int_equal(xattr_value_seal(keys, &id, "user.a", longest, n, &value), 0);
		assert_int_equal(xattr_value_open(keys, &id, "user.a", value, n + XATTR_VALUE_MORE, &plain, &size), 0);
		assert_int_equal(size, n);
		assert_memory_equal(plain, longest, n);
		free(plain);
		assert_int_equal(xattr_value_open(keys, &id, "user.b", value, n + XATTR_VALUE_MORE, &plain, &size), -EBADMSG);
		free(value);
	}
}

static void a_mark_tells_the_key(void **state)
{
	uint8_t mark[MARK_SIZE];

	(void)state;
	assert_int_equal(mark_encode(keys, mark), 0);
	assert_int_equal(mark_decode(keys, mark, MARK_SIZE), 0);
	mark[MARK_SIZE - 1] ^= 1;
	assert_int_equal(mark_decode(keys, mark, MARK_SIZE), -EKEYREJECTED);
	assert_int_equal(mark_decode(keys, mark, 3), -EBADMSG);
}

/* ---- known answers ---- */

static void print_bytes(const char *what, const void *bytes, size_t size)
{
	printf("%s ", what);
	for (size_t i = 0; i < size; i++)
		printf("%02x", ((const uint8_t *)bytes)[i]);
	printf("\n");
}

static void print_blocks(uint8_t cipher)
{
	struct file_key f = { .cipher = cipher, .epoch = 2, .id = id, .number = 1000u + cipher };
	struct slot_value s = { .nonce = { 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2 }, .length = 100, .flags = 5 << 8 | SLOT_SHRUNK };
	uint8_t plain[100], sealed[100], slot[SLOT], header[HEADER_SIZE];

	for (unsigned i = 0; i < 100; i++)
		plain[i] = (uint8_t)(i * 3);
	memset(f.key, cipher, sizeof(f.key));
	block_seal(&f, 77, &s, plain, sealed);
	slot_encode(&s, slot);
	header_encode(keys, &f, header);
	printf("cipher %u\n", cipher);
	print_bytes("file-key", f.key, sizeof(f.key));
	print_bytes("header", header, sizeof(header));
	print_bytes("plain", plain, sizeof(plain));
	print_bytes("slot", slot, sizeof(slot));
	print_bytes("sealed", sealed, sizeof(sealed));
	printf("block 77 %llu %llu\n", (unsigned long long)slots_at(77), (unsigned long long)block_at(77));
}

static void print_vectors(void)
{
	char text[NAME_ROOM], *target;
	uint8_t mark[MARK_SIZE];
	void *value;

	print_bytes("master1", masters->key[0], KEYFILE_MASTER);
	print_bytes("master2", masters->key[1], KEYFILE_MASTER);
	print_bytes("id", id.bytes, 16);
	name_seal(keys, &id, "hello.txt", text);
	printf("name hello.txt %s\n", text);
	xattr_name_seal(keys, &id, "user.colour", text);
	printf("xattr-name user.colour %s\n", text);
	target_seal(keys, &id, "../over/there", &target);
	printf("target ../over/there %s\n", target);
	free(target);
	xattr_value_seal(keys, &id, "user.colour", "green", 5, &value);
	print_bytes("xattr-value", value, 5 + XATTR_VALUE_MORE);
	free(value);
	mark_encode(keys, mark);
	print_bytes("mark", mark, sizeof(mark));
	print_blocks(CIPHER_AES_256_GCM);
	print_blocks(CIPHER_CHACHA20_POLY1305);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_go_to_the_brick_and_back),
		cmocka_unit_test(headers_fit_one_file_only),
		cmocka_unit_test(names_have_one_text_in_one_directory),
		cmocka_unit_test(targets_and_values_come_back),
		cmocka_unit_test(a_mark_tells_the_key),
	};

	if (argc > 1 && !strcmp(argv[1], "vectors")) {
		int err = set_up(NULL);

		if (!err)
			print_vectors();
		tear_down(NULL);
		return err ? 1 : 0;
	}
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
