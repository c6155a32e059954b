/* SPDX-License-Identifier: Apache-2.0 */
/* The format of encryption/crypt as functions. With the argument `vectors` it prints known answers, for crypt-vectors.py to check by means of
 * another implementation. */
#include "test.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "crypt.h"
#include "dense.h"
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
	return cipher_load() || crypt_keys_derive(keys, masters) || crypt_keys_keep(keys);
}

static int tear_down(void **state)
{
	(void)state;
	crypt_keys_drop(keys);
	secret_free(masters, sizeof(*masters));
	secret_free(keys, sizeof(*keys));
	cipher_unload();
	return 0;
}

static void sizes_go_to_the_brick_and_back(void **state)
{
	(void)state;
	assert_int_equal(size_on_brick(0), 0);
	assert_int_equal(size_on_brick(1), SEAL + 1);
	assert_int_equal(size_on_brick(BLOCK), PAGE);
	assert_int_equal(size_on_brick(BLOCK + 1), PAGE + SEAL + 1);
	assert_int_equal(size_of_contents(PAGE + SEAL), BLOCK); /* within a seal: nothing */
	for (uint64_t size = 0; size < 200 * BLOCK; size += size % 7 ? 511 : 1)
		assert_int_equal(size_of_contents(size_on_brick(size)), size);
	for (uint64_t before = 0, on_brick = 0; on_brick < 140 * PAGE;
	     on_brick += 10) { /* any length means something, and more is not less */
		assert_true(size_of_contents(on_brick) >= before);
		before = size_of_contents(on_brick);
	}
}

/* What the largest file is on the brick is a file there, too, and what a brick may say overflows nothing. */
static void the_largest_sizes_do_not_overflow(void **state)
{
	(void)state;
	for (uint64_t size = 1ull << SIZE_MAX_BITS, i = 0; i < 3 * BLOCK; i++, size--) {
		assert_true(size_on_brick(size) <= INT64_MAX);
		assert_int_equal(size_of_contents(size_on_brick(size)), size);
	}
	assert_true(size_of_contents(UINT64_MAX) > size_of_contents(UINT64_MAX - PAGE));
	assert_true(size_of_contents(UINT64_MAX) < UINT64_MAX);
}

static void a_page_fits_one_place_and_length_only(void **state)
{
	struct file_key f = { .cipher = CIPHER_AES_256_GCM, .epoch = 1, .id = id, .number = 2000 }, other = f;
	struct seal s = { .length = BLOCK };
	static uint8_t plain[BLOCK], page[PAGE], back[BLOCK], one;

	(void)state;
	other.number++;
	other.epoch++;
	assert_int_equal(page_seal(&f, 5, &s, plain, page), 0);
	assert_int_equal(page_open(&f, 5, page, PAGE, back), BLOCK);
	assert_int_equal(page_open(&f, 6, page, PAGE, back), -EBADMSG);
	assert_int_equal(page_open(&other, 5, page, PAGE, back), -EBADMSG);
	assert_int_equal(page_open(&f, 5, page, PAGE - 1, back), -EBADMSG);
	assert_int_equal(page_open(&f, 5, page, SEAL + 1, back), -EBADMSG);
	assert_int_equal(page_open(&f, 5, page, SEAL, back), 0);
	for (size_t i = 0; i < PAGE * 8; i += i < SEAL * 8 ? 1 : 509) {
		one = (uint8_t)(1 << i % 8);
		page[i / 8] ^= one;
		assert_int_equal(page_open(&f, 5, page, PAGE, back), -EBADMSG);
		page[i / 8] ^= one;
	}
	s = (struct seal){ .length = 100 };
	assert_int_equal(page_seal(&f, 5, &s, plain, page), 0);
	assert_int_equal(page_open(&f, 5, page, SEAL + 100, back), 100);
	assert_int_equal(page_open(&f, 5, page, SEAL + 101, back), -EBADMSG);
	s.flags = SEAL_SHRUNK;
	memset(plain, 7, 100);
	assert_int_equal(page_seal(&f, 5, &s, plain, page), 0);
	assert_int_equal(page_open(&f, 5, page, SEAL + 100, back), 100);
	assert_int_equal(page_open(&f, 5, page, SEAL + 99, back), -EBADMSG);
	assert_int_equal(page_open(&f, 5, page, PAGE, back), BLOCK);
	assert_true(back[99] == 7 && back[100] == 0 && back[BLOCK - 1] == 0);
	memset(plain, 0, 100);
}

/* Of the format before: told apart from what was changed. */
static void a_header_of_another_version_is_named(void **state)
{
	struct file_key f = { .cipher = CIPHER_AES_256_GCM, .id = id, .epoch = 1 }, back;
	uint8_t bytes[HEADER_SIZE];
	const char *why = NULL;

	(void)state;
	assert_int_equal(header_encode(keys, &f, bytes), 0);
	bytes[4] = 1;
	assert_int_equal(header_decode(keys, &id, bytes, HEADER_SIZE, &back, &why), -EREMOTEIO);
	assert_non_null(strstr(why, "another version of the format"));
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
				 i / 8 == 4					? -EREMOTEIO
				 : bytes[11] > 2 && bytes[11] <= KEYFILE_EPOCHS ? -ENOKEY
										: -EBADMSG);
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
	char name[NAME_ROOM], sealed[NAME_ROOM], again[NAME_ROOM], longest[NAME_MAX_BYTES + 2];
	struct gfid other = id;

	(void)state;
	other.bytes[15]++;
	for (size_t length = 1; length <= NAME_MAX_BYTES; length++) {
		memset(longest, 'x', length);
		longest[length] = '\0';
		assert_int_equal(name_seal(keys, &id, longest, sealed), 0);
		assert_true(strlen(sealed) <= 255 && !strchr(sealed, '/') && sealed[0] != '.');
		assert_int_equal(length > NAME_SHORT_MAX, sealed[0] == '~');
		assert_int_equal(name_open(keys, &id, sealed, name), 0);
		assert_string_equal(name, longest);
		assert_int_equal(name_open(keys, &other, sealed, name), -EBADMSG);
		assert_int_equal(name_seal(keys, &other, longest, again), 0);
		assert_string_not_equal(sealed, again);
		sealed[strlen(sealed) - 1] ^= 1; /* also where only bits that are left over change */
		assert_int_equal(name_open(keys, &id, sealed, name), -EBADMSG);
	}
	longest[NAME_MAX_BYTES] = 'x';
	longest[NAME_MAX_BYTES + 1] = '\0';
	assert_int_equal(name_seal(keys, &id, longest, sealed), -ENAMETOOLONG);
	assert_int_equal(name_seal(keys, &id, "", sealed), -EINVAL);
	assert_int_equal(name_open(keys, &id, "", name), -EBADMSG);
	assert_int_equal(name_open(keys, &id, "not base64!", name), -EBADMSG);
	assert_int_equal(name_most(255), 255);
	assert_int_equal(name_most(143), 91); /* 107 bytes, 16 of them the tag */
	assert_int_equal(name_most(20), 0);
}

/* ---- long names ---- */

static uint32_t chance(uint64_t *state, uint32_t below)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33) % below;
}

/* Of so many bytes, most of them of characters with `width` bytes: such as they come, or those that cost most. */
static void fill_utf8(uint64_t *state, unsigned width, bool dearest, size_t length, char *text)
{
	static const uint32_t first[] = { 1, 0x80, 0x800, 0x10000 }, past[] = { 0x80, 0x800, 0x10000, 0x110000 };
	static const uint8_t mark[] = { 0, 0xc0, 0xe0, 0xf0 };
	size_t at = 0;

	while (at < length) {
		unsigned more = at + width > length || (!dearest && !chance(state, 4)) ? 0 : width - 1;
		uint32_t code = dearest ? past[more] - 1 : first[more] + chance(state, past[more] - first[more]);

		if ((code >= 0xd800 && code <= 0xdfff) || code == '/')
			continue;
		for (unsigned i = more; i > 0; i--, code >>= 6)
			text[at + i] = (char)(0x80 | (code & 0x3f));
		text[at] = (char)(mark[more] | code);
		at += more + 1;
	}
	text[length] = '\0';
}

static void comes_back(const char *name)
{
	char sealed[NAME_ROOM], back[NAME_ROOM];

	assert_int_equal(name_seal(keys, &id, name, sealed), 0);
	assert_true(strlen(sealed) <= 255 && !strchr(sealed, '/'));
	assert_int_equal(name_open(keys, &id, sealed, back), 0);
	assert_string_equal(back, name);
}

static void xattr_name_comes_back(const char *name)
{
	char sealed[NAME_ROOM], back[NAME_ROOM];

	assert_int_equal(xattr_name_seal(keys, &id, name, sealed), 0);
	assert_true(strlen(sealed) <= 255 && !strncmp(sealed, SEALED_XATTR, strlen(SEALED_XATTR)));
	assert_int_equal(xattr_name_open(keys, &id, sealed, back), 0);
	assert_string_equal(back, name);
}

static void all_utf8_fits_up_to_255_bytes(void **state)
{
	char name[NAME_ROOM] = "user.";
	uint64_t seed = 1;

	(void)state;
	for (unsigned i = 0; i < 8000; i++) {
		size_t length = i < 1000 ? NAME_MAX_BYTES : NAME_SHORT_MAX + chance(&seed, NAME_MAX_BYTES - NAME_SHORT_MAX + 1);

		fill_utf8(&seed, i % 4 + 1, i % 8 < 4, length, name);
		comes_back(name);
		memcpy(name, "user.", 5);
		fill_utf8(&seed, i % 4 + 1, i % 8 < 4, length - 5, name + 5);
		xattr_name_comes_back(name);
	}
}

static void what_is_no_utf8_fits_up_to_231_bytes(void **state)
{
	static const char *const wrong[] = { "\xff",	 "\xc0\xaf",	    "\xed\xa0\x80", "\xf4\x90\x80\x80",
					     "\xe2\x82", "\x80\x80\x80\x80" };
	char name[NAME_ROOM], sealed[NAME_ROOM], xattr[NAME_ROOM];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		for (size_t length = NAME_SHORT_MAX - 5; length <= NAME_MAX_BYTES; length++) {
			memset(name, 'x', length);
			strcpy(name + length - strlen(wrong[i]), wrong[i]);
			if (length > 231)
				assert_int_equal(name_seal(keys, &id, name, sealed), -ENAMETOOLONG);
			else
				comes_back(name);
		}
	memcpy(xattr, "user.", 5);
	memset(xattr + 5, 0xff, 250);
	xattr[5 + 226] = '\0';
	assert_int_equal(xattr_name_seal(keys, &id, xattr, sealed), -ENAMETOOLONG);
	xattr[5 + 225] = '\0';
	xattr_name_comes_back(xattr);
}

/* A change of any digit, the other form, less or more. */
static void long_texts_are_refused_when_changed(void **state)
{
	char name[NAME_ROOM], sealed[NAME_ROOM], back[NAME_ROOM], changed[NAME_ROOM];

	(void)state;
	memset(name, 'x', 200);
	name[200] = '\0';
	assert_int_equal(name_seal(keys, &id, name, sealed), 0);
	for (size_t i = 0; sealed[i]; i++) {
		strcpy(changed, sealed);
		changed[i] ^= changed[i] == '.' || changed[i] == '0' ? 2 : 1; /* not to be a '/' */
		assert_int_equal(name_open(keys, &id, changed, back), -EBADMSG);
		memcpy(changed, sealed, i);
		changed[i] = '\0';
		assert_int_equal(name_open(keys, &id, changed, back), -EBADMSG);
	}
	strcpy(changed, sealed);
	changed[0] = '=';
	assert_int_equal(name_open(keys, &id, changed, back), -EBADMSG);
	strcpy(changed, sealed);
	strcat(changed, "!");
	assert_int_equal(name_open(keys, &id, changed, back), -EBADMSG);
}

/* The bytes of a short name may happen to be those of a long one that is packed: its seal, written as a long one's, must not show that. */
static void a_short_seal_is_no_long_one(void **state)
{
	char wanted[NAME_ROOM], short_name[NAME_ROOM], text[NAME_ROOM], back[NAME_ROOM];
	uint8_t packed[DENSE_BYTES_MAX], raw[NAME_ROOM];
	uint64_t seed = 1;
	int size;

	(void)state;
	do {
		fill_utf8(&seed, 1, false, 190, wanted);
		size = dense_pack(wanted, 190, packed);
		assert_in_range(size, 1, NAME_SHORT_MAX);
	} while (memchr(packed, 0, (size_t)size) || memchr(packed, '/', (size_t)size));
	memcpy(short_name, packed, (size_t)size);
	short_name[size] = '\0';
	comes_back(short_name); /* it can be made */
	assert_int_equal(siv_seal(keys->name, id.bytes, 16, short_name, (size_t)size, raw), 0);
	for (int form = 0; form < 2; form++) {
		text[0] = "~="[form];
		dense_write(raw, (size_t)size + 16, text + 1);
		assert_int_equal(name_open(keys, &id, text, back), -EBADMSG);
	}
}

/* What another program would have to seal for it: two texts for one name, or a name that can't be. */
static void only_one_long_text_is_right(void **state)
{
	static const struct {
		char form;
		const char *bytes;
		size_t size;
	} wrong[] = { { '=', "short", 5 }, { '~', "\1", 1 }, { '~', "\0\1", 2 } };
	uint8_t data[17], raw[NAME_ROOM + 16], packed[DENSE_BYTES_MAX];
	char name[NAME_ROOM], text[NAME_ROOM];

	(void)state;
	memcpy(data, id.bytes, 16);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		data[16] = (uint8_t)(text[0] = wrong[i].form);
		assert_int_equal(siv_seal(keys->name, data, 17, wrong[i].bytes, wrong[i].size, raw), 0);
		dense_write(raw, wrong[i].size + 16, text + 1);
		assert_int_equal(name_open(keys, &id, text, name), -EBADMSG);
	}
	memset(name, 'x', 230);
	data[16] = (uint8_t)(text[0] = '='); /* UTF-8, not packed */
	assert_int_equal(siv_seal(keys->name, data, 17, name, 230, raw), 0);
	dense_write(raw, 246, text + 1);
	assert_int_equal(name_open(keys, &id, text, name), -EBADMSG);
	name[0] = (char)0xff; /* no UTF-8, and no name */
	name[200] = '\0';
	assert_int_equal(siv_seal(keys->name, data, 17, name, 230, raw), 0);
	dense_write(raw, 246, text + 1);
	assert_int_equal(name_open(keys, &id, text, name), -EBADMSG);
	memset(packed, 0xff, sizeof(packed)); /* more characters than a name has */
	assert_int_equal(dense_unpack(packed, 240, name), -EBADMSG);
}

static void digits_and_bytes_are_one_to_one(void **state)
{
	uint8_t bytes[DENSE_BYTES_MAX], back[DENSE_BYTES_MAX];
	char text[NAME_ROOM], again[NAME_ROOM];
	uint64_t seed = 5;

	(void)state;
	for (size_t size = 1; dense_digits(size) <= 255; size++)
		for (int fill = 0; fill < 6; fill++) {
			for (size_t i = 0; i < size; i++)
				bytes[i] = (uint8_t)(fill < 2 ? 255 * fill : (int)chance(&seed, 256));
			dense_write(bytes, size, text);
			assert_int_equal(strlen(text), dense_digits(size));
			assert_int_equal(dense_read(text, strlen(text), back), size);
			assert_memory_equal(back, bytes, size);
		}
	for (size_t digits = 0; digits <= 255; digits++)
		for (int fill = 0; fill < 4; fill++) { /* any text is refused, or the only one of its bytes */
			int size;

			for (size_t i = 0; i < digits; i++)
				text[i] = (char)(fill ? 1 + chance(&seed, fill == 1 ? 255 : 0x7e) : 0xff);
			text[digits] = '\0';
			size = dense_read(text, digits, back);
			if (size < 0)
				continue;
			dense_write(back, (size_t)size, again);
			assert_string_equal(again, text);
		}
	assert_int_equal(dense_read("\xff\xff\xff", 3, back), -EBADMSG); /* more than two bytes hold */
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
	struct seal s = { .nonce = { 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2 }, .length = 100, .flags = SEAL_SHRUNK };
	uint8_t plain[100], page[SEAL + 100], header[HEADER_SIZE];

	for (unsigned i = 0; i < 100; i++)
		plain[i] = (uint8_t)(i * 3);
	memset(f.key, cipher, sizeof(f.key));
	page_seal(&f, 77, &s, plain, page);
	header_encode(keys, &f, header);
	printf("cipher %u\n", cipher);
	print_bytes("file-key", f.key, sizeof(f.key));
	print_bytes("header", header, sizeof(header));
	print_bytes("plain", plain, sizeof(plain));
	print_bytes("page", page, sizeof(page));
	printf("block 77 %llu %llu\n", (unsigned long long)page_at(77), (unsigned long long)size_on_brick(77 * BLOCK + 100));
}

/* Of any bytes; as hexadecimal digits. */
static void print_long(const char *name)
{
	char text[NAME_ROOM], xattr[NAME_ROOM] = "user.";

	print_bytes("long", name, strlen(name));
	name_seal(keys, &id, name, text);
	print_bytes("long-name", text, strlen(text));
	strncat(xattr, name, 220);
	xattr_name_seal(keys, &id, xattr, text);
	print_bytes("long-xattr-name", text, strlen(text));
}

static void print_long_names(void)
{
	char name[NAME_ROOM];
	uint64_t seed = 3;

	for (unsigned width = 1; width <= 4; width++) {
		fill_utf8(&seed, width, false, NAME_MAX_BYTES, name);
		print_long(name);
		fill_utf8(&seed, width, true, NAME_SHORT_MAX + 60, name);
		print_long(name);
	}
	memset(name, 0xff, 231);
	name[231] = '\0';
	print_long(name);
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
	print_long_names();
	print_blocks(CIPHER_AES_256_GCM);
	print_blocks(CIPHER_CHACHA20_POLY1305);
}

/* OpenSSL's own SIV judges. */
static void what_is_kept_for_a_key_seals_the_same(void **state)
{
	enum { MOST = 70 };
	uint8_t data[MOST], plain[MOST], sealed[MOST + SIV_TAG], kept[MOST + SIV_TAG], back[MOST];
	struct siv *s = siv_keep(keys->target);

	(void)state;
	assert_non_null(s);
	for (size_t i = 0; i < MOST; i++) {
		data[i] = (uint8_t)(i * 7 + 1);
		plain[i] = (uint8_t)(i * i + 3);
	}
	for (size_t n = 1; n <= MOST; n++)
		for (size_t size = 1; size <= MOST; size++) {
			assert_int_equal(siv_seal(keys->target, data, n, plain, size, sealed), 0);
			assert_int_equal(siv_kept_seal(s, data, n, plain, size, kept), 0);
			assert_memory_equal(kept, sealed, size + SIV_TAG);
			assert_int_equal(siv_kept_open(s, data, n, sealed, size + SIV_TAG, back), 0);
			assert_memory_equal(back, plain, size);
			sealed[(n + size * 5) % (size + SIV_TAG)] ^= 1;
			assert_int_equal(siv_kept_open(s, data, n, sealed, size + SIV_TAG, back), -EBADMSG);
		}
	assert_int_equal(siv_kept_open(s, data, 1, sealed, SIV_TAG, back), -EBADMSG);
	siv_drop(s);
}

/* ---- what stays on the stack ---- */

enum { STACK = 1 << 20, SIV_BLOCK = 16 };
struct opening {
	struct siv *s;
	const uint8_t *sealed;
	int err;
};

/* Deep down, so that the end of the thread does not write over what has stayed there. */
static int open_deep_down(const struct opening *o, int more)
{
	volatile uint8_t above[1024];
	uint8_t back[SIV_BLOCK];

	above[0] = 0;
	return (more ? open_deep_down(o, more - 1)
		     : siv_kept_open(o->s, "additional data.", SIV_BLOCK, o->sealed, SIV_BLOCK + SIV_TAG, back)) +
	       above[0];
}

static void *open_task(void *arg)
{
	struct opening *o = arg;

	o->err = open_deep_down(o, 100);
	return NULL;
}

static void cmac(const uint8_t key[SIV_KEY], const void *bytes, uint8_t sum[SIV_BLOCK])
{
	EVP_MAC *mac = EVP_MAC_fetch(NULL, "CMAC", NULL);
	EVP_MAC_CTX *c = EVP_MAC_CTX_new(mac);
	char cipher[] = "AES-256-CBC";
	OSSL_PARAM with[] = { OSSL_PARAM_construct_utf8_string("cipher", cipher, 0), OSSL_PARAM_END };
	size_t n;

	assert_true(EVP_MAC_init(c, key, SIV_KEY / 2, with) && EVP_MAC_update(c, bytes, SIV_BLOCK) &&
		    EVP_MAC_final(c, sum, &n, SIV_BLOCK));
	EVP_MAC_CTX_free(c);
	EVP_MAC_free(mac);
}

static void twice(uint8_t at[SIV_BLOCK])
{
	uint8_t carry = at[0] >> 7;

	for (int i = 0; i < SIV_BLOCK; i++)
		at[i] = (uint8_t)(at[i] << 1 | (i + 1 < SIV_BLOCK ? at[i + 1] >> 7 : 0));
	at[SIV_BLOCK - 1] ^= carry ? 0x87 : 0;
}

static void mix(uint8_t to[SIV_BLOCK], const void *with)
{
	for (int i = 0; i < SIV_BLOCK; i++)
		to[i] ^= ((const uint8_t *)with)[i];
}

/* RFC 5297, 2.4: the sum that the text is combined with, and what that makes of it. */
static void nothing_made_of_the_key_stays_on_the_stack(void **state)
{
	static const char zeros[SIV_BLOCK], plain[] = "sixteen bytes :)";
	uint8_t *stack = aligned_alloc(4096, STACK), sealed[SIV_BLOCK + SIV_TAG], sum[SIV_BLOCK], data[SIV_BLOCK],
		text[SIV_BLOCK];
	struct opening o = { siv_keep(keys->target), sealed, -1 };
	pthread_attr_t attr;
	pthread_t thread;

	(void)state;
	memset(stack, 0, STACK);
	assert_int_equal(siv_kept_seal(o.s, "additional data.", SIV_BLOCK, plain, SIV_BLOCK, sealed), 0);
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstack(&attr, stack, STACK), 0);
	assert_int_equal(pthread_create(&thread, &attr, open_task, &o), 0);
	pthread_join(thread, NULL);
	assert_int_equal(o.err, 0);
	cmac(keys->target, zeros, sum);
	twice(sum);
	cmac(keys->target, "additional data.", data);
	mix(sum, data);
	memcpy(text, plain, SIV_BLOCK);
	mix(text, sum);
	assert_null(memmem(stack, STACK, data, SIV_BLOCK));
	assert_null(memmem(stack, STACK, sum, SIV_BLOCK));
	assert_null(memmem(stack, STACK, text, SIV_BLOCK));
	pthread_attr_destroy(&attr);
	siv_drop(o.s);
	free(stack);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_kept_for_a_key_seals_the_same),
		cmocka_unit_test(nothing_made_of_the_key_stays_on_the_stack),
		cmocka_unit_test(sizes_go_to_the_brick_and_back),
		cmocka_unit_test(the_largest_sizes_do_not_overflow),
		cmocka_unit_test(a_page_fits_one_place_and_length_only),
		cmocka_unit_test(a_header_of_another_version_is_named),
		cmocka_unit_test(headers_fit_one_file_only),
		cmocka_unit_test(names_have_one_text_in_one_directory),
		cmocka_unit_test(all_utf8_fits_up_to_255_bytes),
		cmocka_unit_test(what_is_no_utf8_fits_up_to_231_bytes),
		cmocka_unit_test(long_texts_are_refused_when_changed),
		cmocka_unit_test(a_short_seal_is_no_long_one),
		cmocka_unit_test(only_one_long_text_is_right),
		cmocka_unit_test(digits_and_bytes_are_one_to_one),
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
