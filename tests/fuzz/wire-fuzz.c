/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the decoders of all that crosses the wire inside a record. What is taken is encoded and decoded again, and
 * must then be encoded to the same bytes; so must a deep copy of it. */
#include "fuzz.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "message.h"

enum { OBJECTS = 9, ROOM = 256 << 10, LAPS = 3 };

struct input { /* each part in memory of its own, so that a sanitizer sees a read behind the end */
	enum fuzz_kind kind;
	int fop;
	void *words;
	uint32_t size;
	struct buffer *bulk;
};

struct encoded {
	uint32_t size, bulk_size;
	uint32_t words[ROOM / 4];
	char bulk[ROOM];
};

static struct inode_table *table;
static struct inode *inodes[OBJECTS];
static struct file *files[OBJECTS];
static struct encoded laps[LAPS], copied;

/* ---- the side: it knows a few objects, by a byte of the handle, and whatever the peer tells of ---- */

/* As wire-values.c has them: one size for each, so that what is encoded again has the size of what came in. */
static uint32_t handle_size(const uint8_t *gfid)
{
	return 16 + gfid[15] % OBJECTS * 7;
}

static int put_inode(struct codec *c, struct inode *inode, uint8_t *handle, uint32_t *size)
{
	(void)c;
	memset(handle, 0x5a, *size);
	memcpy(handle, inode->gfid.bytes, 16);
	*size = handle_size(inode->gfid.bytes);
	return 0;
}

static int take_inode(struct codec *c, const uint8_t *handle, uint32_t size, struct inode **inode)
{
	(void)c;
	if (size < 16 || size != handle_size(handle))
		return -ESTALE;
	*inode = inode_ref(inodes[handle[15] % OBJECTS]);
	return 0;
}

static int make_inode(struct codec *c, const struct gfid *gfid, uint32_t type, const uint8_t *handle, uint32_t size,
		      struct inode **inode)
{
	(void)c;
	MUST(size && size <= WIRE_HANDLE_MAX && handle);
	*inode = size == handle_size(gfid->bytes) ? inode_get(table, gfid, type) : NULL;
	return *inode ? 0 : -EIO;
}

static int put_file(struct codec *c, struct file *file, uint64_t *number)
{
	(void)c;
	*number = 1;
	for (int i = 0; i < OBJECTS; i++)
		if (files[i] == file)
			*number = i + 1;
	return 0;
}

static int take_file(struct codec *c, uint64_t number, struct file **file)
{
	(void)c;
	MUST(number);
	*file = file_ref(files[(number - 1) % OBJECTS]);
	return 0;
}

static int make_file(struct codec *c, uint64_t number, struct inode *inode, uint32_t flags, struct file **file)
{
	(void)c;
	MUST(number && inode);
	*file = file_create(inode, flags);
	return *file ? 0 : -ENOMEM;
}

static const struct codec_ops ops = { put_inode, take_inode, make_inode, put_file, take_file, put_file, make_file };

/* ---- one message of any kind ---- */

struct value {
	struct request request;
	uint32_t flags;
	int status;
	struct extension *extensions;
	bool has_in, has_out; /* decoded, to be cleared */
	union fop_in in;
	union fop_out out;
	uint32_t event;
	struct inode *inode;
	struct lock lock;
};

static const union fop_in *asked; /* what the result answers */
static union fop_in asked_in;

static int code_event(struct codec *c, struct value *v)
{
	bool ok = xdr_u_int(&c->xdr, &v->event) && codec_new_inode(c, &v->inode) && codec_lock(c, &v->lock);

	return ok ? 0 : c->error ? c->error : -EBADMSG;
}

static int code_args(struct codec *c, int fop, struct value *v)
{
	int err = codec_args(c, fop, &v->in);

	v->has_in = !err;
	return err;
}

static int code_result(struct codec *c, int fop, struct value *v)
{
	int err = codec_result(c, fop, asked, &v->out);

	v->has_out = !err;
	return err;
}

static int code(struct codec *c, enum fuzz_kind kind, int fop, struct value *v)
{
	int err;

	switch (kind) {
	case FUZZ_ARGS:
		return code_args(c, fop, v);
	case FUZZ_RESULT:
		return code_result(c, fop, v);
	case FUZZ_CALL:
		err = call_head(c, &v->request, &v->flags);
		return err ? err : code_args(c, fop, v);
	case FUZZ_ANSWER:
		err = reply_head(c, &v->status, &v->extensions);
		return err || v->status ? err : code_result(c, fop, v);
	default:
		return code_event(c, v);
	}
}

static void value_free(struct value *v, int fop)
{
	if (v->has_in)
		fop_in_clear(fop, &v->in);
	if (v->has_out)
		fop_out_clear(fop, &v->out);
	extensions_free(&v->extensions);
	inode_unref(v->inode);
	request_finish(&v->request);
}

static int decode(const struct input *in, struct value *v)
{
	struct codec c;
	int err;

	memset(v, 0, sizeof(*v));
	request_init(&v->request, NULL, 5);
	codec_init(&c, XDR_DECODE, in->words, in->size, &ops, NULL);
	c.bulk = in->bulk;
	err = code(&c, in->kind, in->fop, v);
	v->request.deadline_ns = 0; /* it would be encoded as what is left of it just then */
	if (!err)
		err = codec_end(&c);
	MUST(err <= 0);
	return err;
}

static void encode(const struct input *in, struct value *v, struct encoded *to)
{
	struct codec c;

	codec_init(&c, XDR_ENCODE, to->words, ROOM, &ops, NULL);
	MUST(!code(&c, in->kind, in->fop, v)); /* what fits into an input fits here */
	to->size = codec_used(&c);
	to->bulk_size = 0;
	for (unsigned i = 0; i < c.buffers; i++) {
		memcpy(to->bulk + to->bulk_size, c.buffer[i]->data, c.buffer[i]->size);
		to->bulk_size += c.buffer[i]->size;
	}
	MUST(to->bulk_size == c.bulk_size);
}

static void same(const struct encoded *a, const struct encoded *b)
{
	MUST(a->size == b->size && !memcmp(a->words, b->words, a->size));
	MUST(a->bulk_size == b->bulk_size && !memcmp(a->bulk, b->bulk, a->bulk_size));
}

static void copy_is_the_same(const struct input *in, const struct value *v)
{
	struct value copy = { .has_in = v->has_in, .has_out = v->has_out };
	char text[300];

	request_init(&copy.request, NULL, 5);
	if (v->has_in) {
		MUST(!fop_in_copy(in->fop, &copy.in, &v->in));
		fop_in_print(in->fop, &copy.in, text, sizeof(text));
	} else {
		MUST(!fop_out_copy(in->fop, &copy.out, &v->out));
		fop_out_print(in->fop, &copy.out, text, sizeof(text));
	}
	encode(in, &copy, &copied);
	same(&copied, &laps[0]);
	value_free(&copy, in->fop);
}

/* Encodes what was decoded, and decodes that again: LAPS times. Each turns the list of extensions round. */
static void laps_run(const struct input *first)
{
	bool plain = first->kind == FUZZ_ARGS || first->kind == FUZZ_RESULT;
	struct input in = *first;
	static struct value v;

	for (int lap = 0; lap < LAPS; lap++) {
		int err = decode(&in, &v);

		if (lap)
			MUST(!err);
		if (!err)
			encode(&in, &v, &laps[lap]);
		if (!err && !lap && plain)
			copy_is_the_same(&in, &v);
		value_free(&v, in.fop);
		if (lap)
			buffer_unref(in.bulk);
		if (err)
			return;
		in.words = laps[lap].words;
		in.size = laps[lap].size;
		in.bulk = laps[lap].bulk_size ? buffer_from(laps[lap].bulk, laps[lap].bulk_size) : NULL;
	}
	buffer_unref(in.bulk);
	MUST(laps[0].size == first->size); /* nothing was lost */
	same(&laps[0], &laps[plain ? 1 : 2]);
}

/* ---- rpcgen's messages ---- */

static void session_message(const void *bytes, size_t size, xdrproc_t proc, void *message, size_t message_size)
{
	struct record *r;
	uint32_t used = 0;

	for (int lap = 0; lap < 2; lap++) {
		bool good;

		r = calloc(1, sizeof(*r) + size);
		r->size = size;
		memcpy(r->word, bytes, size);
		memset(message, 0, message_size);
		good = decode_record(r, 0, proc, message);
		free(r);
		MUST(good || !lap);
		if (!good)
			return;
		used = encode_call(laps[lap].words, ROOM, 1, WIRE_NULL, proc, message);
		MUST(used);
		xdr_free(proc, message);
		laps[lap].size = used;
		laps[lap].bulk_size = 0;
		bytes = (char *)laps[lap].words + 4 * (1 + CALL_BODY);
		size = used - 4 * (1 + CALL_BODY);
	}
	laps[0].words[0] = laps[1].words[0] = 0; /* room for the mark */
	same(&laps[0], &laps[1]);
}

static void rpcgen_message(const struct input *in)
{
	struct wire_hello hello;
	struct wire_welcome welcome;
	struct wire_cancel cancel;

	if (in->kind == FUZZ_HELLO)
		session_message(in->words, in->size, (xdrproc_t)xdr_wire_hello, &hello, sizeof(hello));
	else if (in->kind == FUZZ_WELCOME)
		session_message(in->words, in->size, (xdrproc_t)xdr_wire_welcome, &welcome, sizeof(welcome));
	else
		session_message(in->words, in->size, (xdrproc_t)xdr_wire_cancel, &cancel, sizeof(cancel));
}

/* ---- the input ---- */

static void *piece(const uint8_t **at, size_t *left, size_t size, uint32_t *got)
{
	void *copy;

	*got = size < *left ? size : *left;
	copy = malloc(*got);
	if (*got)
		memcpy(copy, *at, *got);
	*at += *got;
	*left -= *got;
	return copy;
}

static struct buffer *bulk(const void *bytes, size_t size)
{
	return size ? buffer_from(bytes, size) : NULL;
}

/* The arguments that a result needs. False: there are none. */
static bool ask(const struct input *in, void *words, uint32_t size, struct buffer *b)
{
	struct codec c;

	memset(&asked_in, 0, sizeof(asked_in));
	codec_init(&c, XDR_DECODE, words, size, &ops, NULL);
	c.bulk = b;
	asked = &asked_in;
	return !codec_args(&c, in->fop, &asked_in);
}

static void message(const struct input *in, void *args, uint32_t args_size, struct buffer *args_bulk)
{
	bool result = in->kind == FUZZ_RESULT || in->kind == FUZZ_ANSWER;

	if (in->kind == FUZZ_HELLO || in->kind == FUZZ_WELCOME || in->kind == FUZZ_CANCEL) {
		rpcgen_message(in);
		return;
	}
	if (result && !ask(in, args, args_size, args_bulk))
		return;
	laps_run(in);
	if (result)
		fop_in_clear(in->fop, &asked_in);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	table = inode_table_create();
	for (int i = 0; i < OBJECTS; i++) {
		struct gfid g = { { 7, [15] = i } };

		inodes[i] = inode_get(table, &g, i % 2 ? S_IFREG : S_IFDIR);
		files[i] = file_create(inodes[i], O_RDWR);
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const uint8_t *at = bytes + FUZZ_AT_BODY;
	size_t left = size - FUZZ_AT_BODY, whole;
	uint32_t args_size, args_bulk_size, bulk_size;
	void *args, *args_bulk_bytes, *bulk_bytes;
	struct buffer *args_bulk;
	struct input in;

	if (size < FUZZ_AT_BODY)
		return -1;
	in.kind = bytes[0] % FUZZ_KINDS;
	in.fop = 1 + bytes[1] % (FOP_COUNT - 1);
	args = piece(&at, &left, fuzz_u16(bytes + FUZZ_AT_ARGS), &args_size);
	args_bulk_bytes = piece(&at, &left, fuzz_u16(bytes + FUZZ_AT_ARGS_BULK), &args_bulk_size);
	whole = fuzz_u16(bytes + FUZZ_AT_BULK);
	in.words = piece(&at, &left, whole < left ? left - whole : 0, &in.size);
	bulk_bytes = piece(&at, &left, left, &bulk_size);
	args_bulk = bulk(args_bulk_bytes, args_bulk_size);
	in.bulk = bulk(bulk_bytes, bulk_size);
	message(&in, args, args_size, args_bulk);
	MUST(inode_table_count(table) == OBJECTS); /* nothing holds on to what the peer told of */
	buffer_unref(args_bulk);
	buffer_unref(in.bulk);
	free(args);
	free(args_bulk_bytes);
	free(in.words);
	free(bulk_bytes);
	return 0;
}
