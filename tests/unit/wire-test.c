/* SPDX-License-Identifier: Apache-2.0 */
/* The wire codec says what rpcgen's code says, and refuses everything else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "born.h"
#include "held.h"
#include "fops.h"
#include "message.h"
#include "wire-values.h"

enum { ROUNDS = 60, ROOM = 1 << 20 };

static char *ours, *theirs; /* each starts with the fop's number: what rpcgen's union has before the arguments */

struct message {
	int fop;
	bool result;
	union fop_in in;
	union fop_out out;
	uint32_t size; /* of what is at ours + 4 */
	struct buffer *bulk;
};

/* Everything that the message's buffers hold, as it would come in. */
static struct buffer *gather(const struct codec *c)
{
	struct buffer *bulk = c->bulk_size ? buffer_create(c->bulk_size) : NULL;
	size_t at = 0;

	for (unsigned i = 0; i < c->buffers; i++) {
		memcpy(bulk->data + at, c->buffer[i]->data, c->buffer[i]->size);
		at += c->buffer[i]->size;
	}
	return bulk;
}

static void encode(struct message *m, char *to)
{
	struct codec c;
	int err;

	codec_init(&c, XDR_ENCODE, to + 4, ROOM - 4, &wire_values_ops, NULL);
	err = m->result ? codec_result(&c, m->fop, &m->in, &m->out) : codec_args(&c, m->fop, &m->in);
	assert_int_equal(err, 0);
	m->size = codec_used(&c);
	*(uint32_t *)to = htonl(m->fop);
	buffer_unref(m->bulk);
	m->bulk = gather(&c);
}

static void message_make(struct message *m, int fop, bool result)
{
	memset(m, 0, sizeof(*m));
	m->fop = fop;
	m->result = result;
	wire_random_in(fop, &m->in);
	if (result)
		wire_random_out(fop, &m->in, &m->out);
	encode(m, ours);
}

static void message_free(struct message *m)
{
	fop_in_clear(m->fop, &m->in);
	if (m->result)
		fop_out_clear(m->fop, &m->out);
	buffer_unref(m->bulk);
}

static int decode(const struct message *m, char *from, uint32_t size, union fop_in *in, union fop_out *out)
{
	struct codec c;
	int err;

	memset(in, 0, sizeof(*in));
	memset(out, 0, sizeof(*out));
	codec_init(&c, XDR_DECODE, from, size, &wire_values_ops, NULL);
	c.bulk = m->bulk;
	err = m->result ? codec_result(&c, m->fop, &m->in, out) : codec_args(&c, m->fop, in);
	if (!err && (err = codec_end(&c))) {
		if (m->result)
			fop_out_clear(m->fop, out);
		else
			fop_in_clear(m->fop, in);
	}
	return err;
}

static void decoded_free(const struct message *m, union fop_in *in, union fop_out *out)
{
	if (m->result)
		fop_out_clear(m->fop, out);
	else
		fop_in_clear(m->fop, in);
}

static void each_message(void (*check)(struct message *))
{
	for (int fop = 1; fop < FOP_COUNT; fop++)
		for (int result = 0; result < 2; result++)
			for (int i = 0; i < ROUNDS; i++) {
				struct message m;

				message_make(&m, fop, result);
				check(&m);
				message_free(&m);
			}
}

/* ---- the properties ---- */

static xdrproc_t rpcgen_proc(const struct message *m)
{
	if (m->fop == FOP_compound)
		return m->result ? (xdrproc_t)xdr_compound_res : (xdrproc_t)xdr_compound_args;
	return m->result ? (xdrproc_t)xdr_wire_step_res : (xdrproc_t)xdr_wire_step_args;
}

static void same_as_rpcgen(struct message *m)
{
	uint32_t skip = m->fop == FOP_compound ? 4 : 0, size = m->size + 4 - skip;
	union {
		wire_step_args args;
		wire_step_res res;
		compound_args compound_args;
		compound_res compound_res;
	} value = { 0 };
	XDR xdr;

	xdrmem_create(&xdr, ours + skip, size, XDR_DECODE);
	assert_true(rpcgen_proc(m)(&xdr, &value));
	assert_int_equal(xdr_getpos(&xdr), size);
	xdrmem_create(&xdr, theirs + skip, ROOM - skip, XDR_ENCODE);
	assert_true(rpcgen_proc(m)(&xdr, &value));
	assert_int_equal(xdr_getpos(&xdr), size);
	assert_memory_equal(ours + skip, theirs + skip, size);
	xdr_free(rpcgen_proc(m), &value);
}

static void codec_and_rpcgen_make_the_same_bytes(void **test)
{
	(void)test;
	each_message(same_as_rpcgen);
}

static void comes_back(struct message *m)
{
	struct message copy = *m;
	uint32_t size = m->size;

	assert_int_equal(decode(m, ours + 4, m->size, &copy.in, &copy.out), 0);
	if (m->result)
		copy.in = m->in;
	copy.bulk = NULL;
	encode(&copy, theirs);
	assert_int_equal(copy.size, size);
	assert_memory_equal(ours, theirs, size + 4);
	assert_int_equal(copy.bulk ? copy.bulk->size : 0, m->bulk ? m->bulk->size : 0);
	if (m->bulk)
		assert_memory_equal(copy.bulk->data, m->bulk->data, m->bulk->size);
	buffer_unref(copy.bulk);
	decoded_free(m, &copy.in, &copy.out);
}

static void what_is_encoded_comes_back_the_same(void **test)
{
	(void)test;
	each_message(comes_back);
}

static void refused_when_cut(struct message *m)
{
	union fop_in in;
	union fop_out out;
	/* exact memory, so that a sanitizer sees a read behind the end */
	for (uint32_t size = 0; size < m->size; size += 1 + size / 200) {
		char *exact = malloc(size + 1);

		memcpy(exact, ours + 4, size);
		assert_int_not_equal(decode(m, exact, size, &in, &out), 0);
		free(exact);
	}
}

static void truncated_messages_are_refused(void **test)
{
	(void)test;
	each_message(refused_when_cut);
}

static void survives_lies(struct message *m)
{
	static const uint32_t lies[] = { 0xffffffff, 0x7fffffff, 0x80000000, 65537, 0 };
	union fop_in in;
	union fop_out out;

	for (uint32_t at = 0; at < m->size; at += 4 * (1 + wire_random() % (1 + m->size / 100))) {
		uint32_t was, lie = htonl(lies[wire_random() % 5]);

		memcpy(&was, ours + 4 + at, 4);
		memcpy(ours + 4 + at, &lie, 4);
		if (!decode(m, ours + 4, m->size, &in, &out))
			decoded_free(m, &in, &out);
		memcpy(ours + 4 + at, &was, 4);
	}
}

static void hostile_counts_and_numbers_do_no_harm(void **test)
{
	(void)test;
	each_message(survives_lies);
}

/* Replaces a 4-byte word's worth of a name in an encoded lookup. */
static int lookup_with(const char *name, uint32_t size)
{
	struct message m = { .fop = FOP_lookup };
	union fop_in in;
	union fop_out out;
	int err;

	wire_random_in(FOP_lookup, &m.in);
	free((char *)m.in.lookup.loc.name);
	m.in.lookup.loc.name = memset(calloc(1, size + 1), 'x', size);
	encode(&m, ours);
	memcpy(ours + 4 + m.size - ((size + 3) & ~3u), name, size);
	err = decode(&m, ours + 4, m.size, &in, &out);
	if (!err)
		decoded_free(&m, &in, &out);
	message_free(&m);
	return err;
}

static void names_are_checked(void **test)
{
	(void)test;
	assert_int_equal(lookup_with("abcde", 5), 0);
	assert_int_not_equal(lookup_with("ab\0de", 5), 0);
	assert_int_not_equal(lookup_with("ab/de", 5), 0);
	assert_int_not_equal(lookup_with(".", 1), 0);
	assert_int_not_equal(lookup_with("..", 2), 0);
}

static int decode_read_of(uint32_t size)
{
	struct message m;
	union fop_in in;
	union fop_out out;
	int err;

	message_make(&m, FOP_read, false);
	m.in.read.size = size;
	encode(&m, ours);
	err = decode(&m, ours + 4, m.size, &in, &out);
	if (!err)
		decoded_free(&m, &in, &out);
	message_free(&m);
	return err;
}

/* What encryption/crypt makes of 1 MiB, wherever it begins: 260 pages with 4064 bytes of contents each. */
static void a_message_brings_260_pages(void **test)
{
	struct message m;
	union fop_in in;
	union fop_out out;

	(void)test;
	assert_true((4063 + (1 << 20) + 4063) / 4064 * 4096 <= WIRE_BULK_MAX);
	assert_int_equal(decode_read_of(WIRE_BULK_MAX), 0);
	assert_int_not_equal(decode_read_of(WIRE_BULK_MAX + 1), 0);
	message_make(&m, FOP_write, false);
	buffer_unref(m.in.write.data);
	m.in.write.data = buffer_create(WIRE_BULK_MAX);
	memset(m.in.write.data->data, 7, WIRE_BULK_MAX);
	encode(&m, ours);
	assert_int_equal(decode(&m, ours + 4, m.size, &in, &out), 0);
	decoded_free(&m, &in, &out);
	message_free(&m);
}

static void bulk_must_be_what_was_announced(void **test)
{
	struct message m;
	union fop_in in;
	union fop_out out;

	(void)test;
	message_make(&m, FOP_write, false);
	m.bulk->size--;
	assert_int_equal(decode(&m, ours + 4, m.size, &in, &out), -EBADMSG);
	m.bulk->size++;
	assert_int_equal(decode(&m, ours + 4, m.size, &in, &out), 0);
	decoded_free(&m, &in, &out);
	message_free(&m);
}

static void objects_can_be_left_out_only_in_compounds(void **test)
{
	struct message m = { .fop = FOP_opendir };
	union fop_in in;
	union fop_out out;

	(void)test;
	encode(&m, ours);
	assert_int_equal(decode(&m, ours + 4, m.size, &in, &out), -EINVAL);
	message_free(&m);
	m = (struct message){ .fop = FOP_read };
	encode(&m, ours);
	assert_int_equal(decode(&m, ours + 4, m.size, &in, &out), -EINVAL);
	message_free(&m);
}

static int lookup_of(bool parent, bool name, bool inode)
{
	struct message m = { .fop = FOP_lookup };
	union fop_in in;
	union fop_out out;
	int err;

	wire_random_in(FOP_lookup, &m.in);
	if (!inode || !m.in.lookup.loc.inode) {
		inode_unref(m.in.lookup.loc.inode);
		m.in.lookup.loc.inode = inode ? inode_ref(m.in.lookup.loc.parent) : NULL;
	}
	if (!parent) {
		inode_unref(m.in.lookup.loc.parent);
		m.in.lookup.loc.parent = NULL;
	}
	if (!name) {
		free((char *)m.in.lookup.loc.name);
		m.in.lookup.loc.name = NULL;
	}
	encode(&m, ours);
	err = decode(&m, ours + 4, m.size, &in, &out);
	if (!err)
		decoded_free(&m, &in, &out);
	message_free(&m);
	return err;
}

static void a_name_is_looked_up_in_a_directory(void **test)
{
	(void)test;
	assert_int_equal(lookup_of(true, true, false), 0);
	assert_int_equal(lookup_of(true, true, true), 0);
	assert_int_equal(lookup_of(false, false, true), 0);
	assert_int_equal(lookup_of(false, true, true), -EINVAL);
	assert_int_equal(lookup_of(false, true, false), -EINVAL);
	assert_int_equal(lookup_of(true, false, false), -EINVAL);
}

static void heads_come_back_the_same(void **test)
{
	struct request a, b;
	uint32_t flags = WIRE_RESENT, got = 0;
	struct codec c;

	(void)test;
	request_init(&a, NULL, 5);
	request_init(&b, NULL, 5);
	a.uid = 1000;
	a.gid = 100;
	a.lock_owner = 77;
	a.group_count = 3;
	a.groups = calloc(3, sizeof(gid_t));
	a.groups[2] = 9;
	request_extend(&a.extensions, EXTENSION_TRACE, 1, true, "abc", 3);
	codec_init(&c, XDR_ENCODE, ours, ROOM, NULL, NULL);
	assert_int_equal(call_head(&c, &a, &flags), 0);
	codec_init(&c, XDR_DECODE, ours, codec_used(&c), NULL, NULL);
	assert_int_equal(call_head(&c, &b, &got), 0);
	assert_int_equal(codec_end(&c), 0);
	assert_int_equal(got, flags);
	assert_int_equal(b.uid, 1000);
	assert_int_equal(b.gid, 100);
	assert_int_equal(b.lock_owner, 77);
	assert_int_equal(b.group_count, 3);
	assert_int_equal(b.groups[2], 9);
	assert_memory_equal(request_extension(&b, EXTENSION_TRACE)->bytes, "abc", 3);
	request_finish(&a);
	request_finish(&b);
}

static void unknown_critical_extensions_fail_the_request(void **test)
{
	struct request a, b;
	uint32_t flags = 0;
	struct codec c;

	(void)test;
	for (int critical = 0; critical < 2; critical++) {
		request_init(&a, NULL, 5);
		request_init(&b, NULL, 5);
		request_extend(&a.extensions, 54321, 1, critical, "abc", 3);
		codec_init(&c, XDR_ENCODE, ours, ROOM, NULL, NULL);
		assert_int_equal(call_head(&c, &a, &flags), 0);
		codec_init(&c, XDR_DECODE, ours, codec_used(&c), NULL, NULL);
		assert_int_equal(call_head(&c, &b, &flags), critical ? -EOPNOTSUPP : 0);
		request_finish(&a);
		request_finish(&b);
	}
}

/* ---- BORN_WITH ---- */

static int born_bytes_of(const void *bytes, uint32_t size, struct born *b)
{
	struct request rq;
	uint8_t *exact = malloc(size ? size : 1); /* so that a sanitizer sees a read behind the end */
	int err;

	request_init(&rq, NULL, 5);
	memcpy(exact, bytes, size);
	assert_int_equal(request_extend(&rq.extensions, BORN_EXTENSION, BORN_EXTENSION_VERSION, true, exact, size), 0);
	err = born_of(&rq, b);
	for (unsigned i = 0; i < b->count; i++)
		assert_true(strlen(b->xattr[i].name) - 1 < 255 && b->xattr[i].size <= size);
	request_finish(&rq);
	free(exact);
	return err;
}

static void what_is_born_with_crosses_the_wire(void **test)
{
	static const char value[3000];
	char longest[256] = { 0 };
	struct born_xattr x[BORN_MAX] = { { "trusted.dht.a", "\0b", 2 }, { "b", NULL, 0 }, { "c", value, 3000 } };
	struct request a, b;
	uint32_t flags = 0;
	struct codec c;
	struct born born;

	(void)test;
	memset(longest, 'x', 255);
	x[3].name = longest;
	request_init(&a, NULL, 5);
	request_init(&b, NULL, 5);
	assert_int_equal(born_of(&a, &born), 0);
	assert_int_equal(born.count, 0);
	assert_int_equal(born_attach(&a, x, 1), 0);
	assert_int_equal(born_attach(&a, x, 4), 0); /* takes the place of the first */
	codec_init(&c, XDR_ENCODE, ours, ROOM, NULL, NULL);
	assert_int_equal(call_head(&c, &a, &flags), 0);
	codec_init(&c, XDR_DECODE, ours, codec_used(&c), NULL, NULL);
	assert_int_equal(call_head(&c, &b, &flags), 0);
	assert_int_equal(born_of(&b, &born), 0);
	assert_int_equal(born.count, 4);
	for (unsigned i = 0; i < 4; i++) {
		assert_string_equal(born.xattr[i].name, x[i].name);
		assert_int_equal(born.xattr[i].size, x[i].size);
		if (x[i].size)
			assert_memory_equal(born.xattr[i].value, x[i].value, x[i].size);
	}
	assert_int_equal(born_bytes(&born), 13 + 2 + 1 + 1 + 3000 + 255);
	assert_int_equal(born_attach(&a, NULL, 0), 0);
	assert_null(a.extensions);
	request_finish(&a);
	request_finish(&b);
}

static void what_cannot_be_born_with_is_not_sent(void **test)
{
	static const char value[70000];
	char too_long[257] = { 0 };
	struct born_xattr x[BORN_MAX + 1] = { { "a", "v", 1 } };
	struct request rq;

	(void)test;
	memset(too_long, 'x', 256);
	request_init(&rq, NULL, 5);
	for (unsigned i = 0; i <= BORN_MAX; i++)
		x[i] = (struct born_xattr){ i % 2 ? "a" : "b", "v", 1 };
	assert_int_equal(born_attach(&rq, x, 3), -EINVAL);
	assert_int_equal(born_attach(&rq, x, BORN_MAX + 1), -EINVAL);
	assert_int_equal(born_attach(&rq, &(struct born_xattr){ "", "v", 1 }, 1), -EINVAL);
	assert_int_equal(born_attach(&rq, &(struct born_xattr){ too_long, "v", 1 }, 1), -EINVAL);
	assert_int_equal(born_attach(&rq, &(struct born_xattr){ "a", value, BORN_BYTES_MAX - 5 }, 1), -E2BIG);
	assert_int_equal(born_attach(&rq, &(struct born_xattr){ "a", value, sizeof(value) }, 1), -E2BIG);
	assert_null(rq.extensions);
	assert_int_equal(born_attach(&rq, &(struct born_xattr){ "a", value, BORN_BYTES_MAX - 6 }, 1), 0);
	request_finish(&rq);
}

static void hostile_births_are_refused(void **test)
{
	static const char good[] = "\2\3a.b\0\0\1v\1c\0\0\0";
	static const struct {
		const char *bytes;
		uint32_t size;
	} bad[] = {
		{ "\0", 1 },			/* none */
		{ "\1\0\0\0\0", 5 },		/* no name */
		{ "\1\3a.b!\0\1v", 8 },		/* no NUL */
		{ "\1\3a\0b\0\0\1v", 9 },	/* one in the name */
		{ "\2\1a\0\0\0\1a\0\0\0", 11 }, /* twice */
		{ "\1\1a\0\0\0x", 7 },		/* more behind it */
		{ "\1\1a\0\377\377x", 7 },	/* the value ends after the bytes */
		{ "\1\377a\0\0\0", 6 },		/* the name does */
		{ "\11\1a\0\0\0\1b\0\0\0\1c\0\0\0\1d\0\0\0\1e\0\0\0\1f\0\0\0\1g\0\0\0\1h\0\0\0\1i\0\0\0", 46 },
	};
	uint8_t noise[64];
	struct request rq;
	struct born b;

	(void)test;
	assert_int_equal(born_bytes_of(good, sizeof(good) - 1, &b), 0);
	assert_int_equal(b.count, 2);
	for (uint32_t size = 0; size < sizeof(good) - 1; size++)
		assert_int_equal(born_bytes_of(good, size, &b), -EINVAL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(born_bytes_of(bad[i].bytes, bad[i].size, &b), -EINVAL);
		assert_int_equal(b.count, 0);
	}
	for (int round = 0; round < 100000; round++) {
		uint32_t size = (uint32_t)random() % sizeof(noise);

		for (uint32_t i = 0; i < size; i++)
			noise[i] = (uint8_t)(random() % 4);
		born_bytes_of(noise, size, &b);
	}
	request_init(&rq, NULL, 5); /* another version; two of them */
	request_extend(&rq.extensions, BORN_EXTENSION, 2, true, good, sizeof(good) - 1);
	assert_int_equal(born_of(&rq, &b), -EOPNOTSUPP);
	extensions_free(&rq.extensions);
	for (int i = 0; i < 2; i++) {
		request_extend(&rq.extensions, EXTENSION_TRACE, 1, false, NULL, 0);
		request_extend(&rq.extensions, BORN_EXTENSION, BORN_EXTENSION_VERSION, true, good, sizeof(good) - 1);
		assert_int_equal(born_of(&rq, &b), i ? -EINVAL : 0);
	}
	request_finish(&rq);
}

static void what_a_lock_is_for_comes_back_the_same(void **test)
{
	const struct held_mark said = { 0x0123456789abcdef, 5, UINT64_MAX, 0xfedcba98 };
	struct held_mark told;
	struct request a, b;
	struct codec c;
	uint32_t flags = 0;

	(void)test;
	request_init(&a, NULL, 5);
	request_init(&b, NULL, 6);
	assert_int_equal(held_of(&b, &told), 0);
	assert_int_equal(held_attach(&a, &(struct held_mark){ 1, 2, 3, 4 }), 0);
	assert_int_equal(held_attach(&a, &said), 0); /* takes the place of the first */
	assert_false(a.extensions->critical);
	codec_init(&c, XDR_ENCODE, ours, ROOM, NULL, NULL);
	assert_int_equal(call_head(&c, &a, &flags), 0);
	codec_init(&c, XDR_DECODE, ours, codec_used(&c), NULL, NULL);
	assert_int_equal(call_head(&c, &b, &flags), 0);
	assert_int_equal(held_of(&b, &told), 1);
	assert_true(told.owner == said.owner && told.start == said.start && told.end == said.end && told.pid == said.pid);
	held_detach(&a);
	assert_null(a.extensions);
	request_finish(&a);
	request_finish(&b);
}

static void hostile_marks_are_refused(void **test)
{
	static const uint8_t good[29] = { [7] = 1, [15] = 2, [23] = 2, [27] = 4 }, backwards[28] = { [15] = 3, [23] = 2 };
	struct held_mark m;
	struct request rq;

	(void)test;
	request_init(&rq, NULL, 5);
	for (uint32_t size = 0; size <= sizeof(good); size++) {
		request_extend(&rq.extensions, HELD_EXTENSION, HELD_EXTENSION_VERSION, size % 2, good, size);
		assert_int_equal(held_of(&rq, &m), size == 28 ? 1 : -EINVAL);
		extensions_free(&rq.extensions);
	}
	assert_true(m.owner == 1 && m.start == 2 && m.end == 2 && m.pid == 4);
	request_extend(&rq.extensions, HELD_EXTENSION, HELD_EXTENSION_VERSION, false, backwards, 28);
	assert_int_equal(held_of(&rq, &m), -EINVAL);
	extensions_free(&rq.extensions);
	request_extend(&rq.extensions, HELD_EXTENSION, HELD_EXTENSION_VERSION + 1, false, good, 28);
	assert_int_equal(held_of(&rq, &m), -EOPNOTSUPP);
	extensions_free(&rq.extensions);
	for (int i = 0; i < 2; i++) {
		request_extend(&rq.extensions, EXTENSION_TRACE, 1, false, NULL, 0);
		request_extend(&rq.extensions, HELD_EXTENSION, HELD_EXTENSION_VERSION, false, good, 28);
		assert_int_equal(held_of(&rq, &m), i ? -EINVAL : 1);
	}
	request_finish(&rq);
}

static int begin(void **test)
{
	(void)test;
	ours = aligned_alloc(8, ROOM);
	theirs = aligned_alloc(8, ROOM);
	wire_values_init(1);
	return 0;
}

static int end(void **test)
{
	(void)test;
	wire_values_finish();
	free(ours);
	free(theirs);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codec_and_rpcgen_make_the_same_bytes),
		cmocka_unit_test(what_is_encoded_comes_back_the_same),
		cmocka_unit_test(truncated_messages_are_refused),
		cmocka_unit_test(hostile_counts_and_numbers_do_no_harm),
		cmocka_unit_test(names_are_checked),
		cmocka_unit_test(bulk_must_be_what_was_announced),
		cmocka_unit_test(a_message_brings_260_pages),
		cmocka_unit_test(objects_can_be_left_out_only_in_compounds),
		cmocka_unit_test(a_name_is_looked_up_in_a_directory),
		cmocka_unit_test(heads_come_back_the_same),
		cmocka_unit_test(unknown_critical_extensions_fail_the_request),
		cmocka_unit_test(what_a_lock_is_for_comes_back_the_same),
		cmocka_unit_test(hostile_marks_are_refused),
		cmocka_unit_test(what_is_born_with_crosses_the_wire),
		cmocka_unit_test(what_cannot_be_born_with_is_not_sent),
		cmocka_unit_test(hostile_births_are_refused),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
