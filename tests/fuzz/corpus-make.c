/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the corpus of the wire and stream fuzzers: `corpus-make DIR`, where DIR has the folders wire and stream. Each
 * message of the protocol once as the encoder makes it, and then what a hostile peer would send. The same bytes each
 * time. */
#include "fuzz.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "message.h"
#include "wire-values.h"

enum { ROOM = 1 << 20, FILE_ROOM = 4095, TRIES = 60 };

struct text { /* bytes of a message and of its bulk */
	uint32_t size, bulk_size;
	uint32_t words[ROOM / 4];
	char bulk[ROOM];
};
static struct text args, body;
static const char *folder;

static void save(const char *kind, const char *name, const void *bytes, size_t size)
{
	char path[4096];
	FILE *to;

	snprintf(path, sizeof(path), "%s/%s/%s", folder, kind, name);
	to = fopen(path, "w");
	if (!to || fwrite(bytes, 1, size, to) != size || fclose(to)) {
		perror(path);
		exit(1);
	}
}

/* ---- wire ---- */

static void put_u16(uint8_t *at, unsigned value)
{
	at[0] = value >> 8;
	at[1] = value;
}

static void save_wire(const char *name, enum fuzz_kind kind, int fop)
{
	static uint8_t file[FUZZ_AT_BODY + 4 * ROOM];
	uint8_t *at = file + FUZZ_AT_BODY;

	file[0] = kind;
	file[1] = fop ? fop - 1 : 0;
	put_u16(file + FUZZ_AT_ARGS, args.size);
	put_u16(file + FUZZ_AT_ARGS_BULK, args.bulk_size);
	put_u16(file + FUZZ_AT_BULK, body.bulk_size);
	at = (uint8_t *)mempcpy(at, args.words, args.size);
	at = (uint8_t *)mempcpy(at, args.bulk, args.bulk_size);
	at = (uint8_t *)mempcpy(at, body.words, body.size);
	at = (uint8_t *)mempcpy(at, body.bulk, body.bulk_size);
	save("wire", name, file, at - file);
}

static void finish(struct text *t, const struct codec *c)
{
	t->size = codec_used((struct codec *)c);
	t->bulk_size = 0;
	for (unsigned i = 0; i < c->buffers; i++) {
		memcpy(t->bulk + t->bulk_size, c->buffer[i]->data, c->buffer[i]->size);
		t->bulk_size += c->buffer[i]->size;
	}
}

static void encode_args(struct text *t, int fop, void *in)
{
	struct codec c;

	codec_init(&c, XDR_ENCODE, t->words, ROOM, &wire_values_ops, NULL);
	MUST(!codec_args(&c, fop, in));
	finish(t, &c);
}

/* A head, then the result. */
static void encode_result(struct text *t, int fop, const void *in, void *out, const int *status)
{
	struct extension *reason = NULL;
	struct codec c;
	int code = status ? *status : 0;

	codec_init(&c, XDR_ENCODE, t->words, ROOM, &wire_values_ops, NULL);
	if (status) {
		request_extend(&reason, EXTENSION_REASON, 1, false, "because", 7);
		MUST(!reply_head(&c, &code, &reason));
		extensions_free(&reason);
	}
	if (!code)
		MUST(!codec_result(&c, fop, in, out));
	finish(t, &c);
}

static void encode_call_of(struct text *t, int fop, void *in)
{
	uint32_t flags = WIRE_RESENT;
	struct request rq;
	struct codec c;

	request_init(&rq, NULL, 5);
	rq.uid = 1000;
	rq.gid = 100;
	rq.group_count = 2;
	rq.groups = calloc(2, sizeof(gid_t));
	rq.deadline_ns = UINT64_MAX; /* so that the bytes are the same each time */
	request_extend(&rq.extensions, EXTENSION_TRACE, 1, true, NULL, 0);
	request_extend(&rq.extensions, 54321, 1, false, "abc", 3);
	codec_init(&c, XDR_ENCODE, t->words, ROOM, &wire_values_ops, NULL);
	MUST(!call_head(&c, &rq, &flags) && !codec_args(&c, fop, in));
	finish(t, &c);
	request_finish(&rq);
}

static void clear(struct text *t)
{
	t->size = t->bulk_size = 0;
}

/* Arguments and result of the fop, of the size wanted, with more than one step if it has steps. */
static bool make(int fop, union fop_in *in, union fop_out *out)
{
	wire_random_in(fop, in);
	wire_random_out(fop, in, out);
	encode_args(&args, fop, in);
	encode_result(&body, fop, in, out, NULL);
	if (args.size + args.bulk_size + body.size + body.bulk_size < FILE_ROOM - 200 &&
	    (fop != FOP_compound || in->compound.steps.count > 1))
		return true;
	fop_in_clear(fop, in);
	fop_out_clear(fop, out);
	return false;
}

static void save_fop(int fop)
{
	static const int fine = 0, failed = -ENOENT;
	static union fop_in in;
	static union fop_out out;
	char name[64];
	int i = 0;

	while (!make(fop, &in, &out))
		MUST(i++ < TRIES * TRIES);
	snprintf(name, sizeof(name), "%s-result", fop_name(fop));
	save_wire(name, FUZZ_RESULT, fop);
	if (fop == FOP_create || fop == FOP_read) {
		encode_result(&body, fop, &in, &out, &fine);
		save_wire(fop == FOP_read ? "answer-read" : "answer-create", FUZZ_ANSWER, fop);
		encode_result(&body, fop, &in, &out, &failed);
		save_wire(fop == FOP_read ? "answer-failed" : "answer-no-file", FUZZ_ANSWER, fop);
	}
	body = args;
	clear(&args);
	snprintf(name, sizeof(name), "%s-args", fop_name(fop));
	save_wire(name, FUZZ_ARGS, fop);
	if (fop == FOP_write || fop == FOP_lookup) {
		encode_call_of(&body, fop, &in);
		save_wire(fop == FOP_write ? "call-write" : "call-lookup", FUZZ_CALL, fop);
	}
	fop_in_clear(fop, &in);
	fop_out_clear(fop, &out);
}

static void save_session(void)
{
	struct wire_extension origin = { .type = EXTENSION_ORIGIN, .revision = 1, .bytes = { 4, (char *)"test" } };
	struct wire_hello hello = { .subvolume = { 6, (char *)"brick0" },
				    .volume_id = { 16, (char *)"0123456789abcdef" },
				    .brick_id = { 16, (char *)"fedcba9876543210" },
				    .channel = 3,
				    .generation = 9,
				    .extensions = { 1, &origin } };
	struct wire_welcome welcome = { .incarnation = 77,
					.root = { .type = S_IFDIR, .handle = { 20, (char *)"a handle of 20 bytes" } } };
	struct wire_cancel cancel = { 8193 };
	const struct {
		const char *name;
		enum fuzz_kind kind;
		xdrproc_t proc;
		void *message;
	} all[] = { { "hello", FUZZ_HELLO, (xdrproc_t)xdr_wire_hello, &hello },
		    { "welcome", FUZZ_WELCOME, (xdrproc_t)xdr_wire_welcome, &welcome },
		    { "cancel", FUZZ_CANCEL, (xdrproc_t)xdr_wire_cancel, &cancel } };

	clear(&args);
	clear(&body);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		XDR xdr;
		char name[64];

		xdrmem_create(&xdr, (char *)body.words, ROOM, XDR_ENCODE);
		MUST(all[i].proc(&xdr, all[i].message));
		body.size = xdr_getpos(&xdr);
		save_wire(all[i].name, all[i].kind, 0);
		body.size -= 4;
		snprintf(name, sizeof(name), "hostile-%s-cut", all[i].name);
		save_wire(name, all[i].kind, 0);
		body.size += 8;
		snprintf(name, sizeof(name), "hostile-%s-more", all[i].name);
		save_wire(name, all[i].kind, 0);
		body.words[0] = htonl(0xfffffffc);
		snprintf(name, sizeof(name), "hostile-%s-size", all[i].name);
		save_wire(name, all[i].kind, 0);
	}
}

static void save_event(void)
{
	static union fop_in in;
	struct inode *inode;
	struct lock lock = { .end = UINT64_MAX, .owner = 5 };
	struct codec c;
	uint32_t kind = 1;

	wire_random_in(FOP_getattr, &in);
	for (int i = 0; i < 2; i++) {
		inode = i ? NULL : in.getattr.inode;
		codec_init(&c, XDR_ENCODE, body.words, ROOM, &wire_values_ops, NULL);
		MUST(xdr_u_int(&c.xdr, &kind) && codec_new_inode(&c, &inode) && codec_lock(&c, &lock));
		finish(&body, &c);
		save_wire(i ? "event-no-inode" : "event", FUZZ_EVENT, 0);
	}
	fop_in_clear(FOP_getattr, &in);
}

/* Messages of words as a hostile peer writes them; H is a handle that the fuzzer's side knows. */
#define H		  16, 0x07000000, 0, 0, 0
#define NO_LOC		  0, 0, 0
#define CONDITION(kind)	  kind, 0, NO_LOC, 0, 0, 0, 0
#define LOOKUP(name)	  CONDITION(0), FOP_lookup, H, 0, 1, name
#define WORD4(a, b, c, d) ((uint32_t)(a) << 24 | (b) << 16 | (c) << 8 | (d))
static const struct hostile {
	const char *name;
	int kind, fop;
	unsigned args_words, words, bulk;
	uint32_t word[64];
} hostile[] = {
	{ "empty", FUZZ_ARGS, FOP_lookup, 0, 0, 0, { 0 } },
	{ "handle-4g", FUZZ_ARGS, FOP_getattr, 0, 2, 0, { 0xffffffff, 0 } },
	{ "handle-129", FUZZ_ARGS, FOP_getattr, 0, 40, 0, { 129 } },
	{ "handle-wraps", FUZZ_ARGS, FOP_getattr, 0, 3, 0, { 0xfffffffd, 1, 2 } },
	{ "handle-padding-cut", FUZZ_ARGS, FOP_getattr, 0, 2, 0, { 5, 0 } },
	{ "name-slash", FUZZ_ARGS, FOP_unlink, 0, 8, 0, { H, 0, 3, WORD4('a', '/', 'b', 0) } },
	{ "name-nul", FUZZ_ARGS, FOP_unlink, 0, 8, 0, { H, 0, 3, WORD4('a', 0, 'b', 0) } },
	{ "name-dotdot", FUZZ_ARGS, FOP_unlink, 0, 8, 0, { H, 0, 2, WORD4('.', '.', 0, 0) } },
	{ "name-utf8", FUZZ_ARGS, FOP_unlink, 0, 8, 0, { H, 0, 4, WORD4(0xc0, 0xaf, 0xff, 0xfe) } },
	{ "name-padding", FUZZ_ARGS, FOP_unlink, 0, 8, 0, { H, 0, 1, WORD4('a', 1, 2, 3) } },
	{ "name-256", FUZZ_ARGS, FOP_unlink, 0, 60, 0, { H, 0, 256 } },
	{ "string-4g", FUZZ_ARGS, FOP_getxattr, 0, 8, 0, { H, 0xffffffff, 0, 0 } },
	{ "string-4097", FUZZ_ARGS, FOP_getxattr, 0, 8, 0, { H, 4097, 0, 0 } },
	{ "blob-64k", FUZZ_ARGS, FOP_setxattr, 0, 9, 0, { H, 1, WORD4('u', 0, 0, 0), 65536, 0 } },
	{ "gfid-null", FUZZ_ARGS, FOP_mkdir, 0, 14, 0, { H, 0, 1, WORD4('a', 0, 0, 0), 0, 0, 0, 0, 0, 0 } },
	{ "file-0", FUZZ_ARGS, FOP_read, 0, 5, 0, { 0, 0, 0, 0, 4096 } },
	{ "read-4g", FUZZ_ARGS, FOP_read, 0, 5, 0, { 0, 1, 0, 0, 0xffffffff } },
	{ "write-no-bulk", FUZZ_ARGS, FOP_write, 0, 6, 0, { 0, 1, 0, 0, 0, 8 } },
	{ "write-bulk-left", FUZZ_ARGS, FOP_write, 0, 7, 4, { 0, 1, 0, 0, 0, 3, 0x61626364 } },
	{ "steps-17", FUZZ_ARGS, FOP_compound, 0, 40, 0, { 17 } },
	{ "steps-4g", FUZZ_ARGS, FOP_compound, 0, 2, 0, { 0xffffffff, 0 } },
	{ "steps-none", FUZZ_ARGS, FOP_compound, 0, 1, 0, { 0 } },
	{ "step-compound", FUZZ_ARGS, FOP_compound, 0, 12, 0, { 1, CONDITION(0), FOP_compound, 1 } },
	{ "step-fop-0", FUZZ_ARGS, FOP_compound, 0, 11, 0, { 1, CONDITION(0), 0 } },
	{ "step-fop-4g", FUZZ_ARGS, FOP_compound, 0, 11, 0, { 1, CONDITION(0), 0xffffffff } },
	{ "step-condition", FUZZ_ARGS, FOP_compound, 0, 11, 0, { 1, CONDITION(9), FOP_release } },
	{ "step-waits",
	  FUZZ_ARGS,
	  FOP_compound,
	  0,
	  26,
	  0,
	  { 1, CONDITION(0), FOP_setlk, 0, 1, 0, 1, 0, 0, 0, 9, 0, 1, 2, 1, 0 } },
	{ "step-of-nothing", FUZZ_ARGS, FOP_compound, 0, 14, 0, { 1, CONDITION(0), FOP_unlink, 0, 0, 1, WORD4('a', 0, 0, 0) } },
	{ "steps-reads",
	  FUZZ_ARGS,
	  FOP_compound,
	  0,
	  31,
	  0,
	  { 2, CONDITION(0), FOP_read, 0, 1, 0, 0, 900000, CONDITION(0), FOP_read, 0, 1, 0, 0, 900000 } },
	{ "results-more", FUZZ_RESULT, FOP_compound, 19, 3, 0, { 1, LOOKUP(WORD4('a', 0, 0, 0)), 2, -2u, -2u } },
	{ "results-other", FUZZ_RESULT, FOP_compound, 19, 3, 0, { 1, LOOKUP(WORD4('a', 0, 0, 0)), 1, 0, FOP_write } },
	{ "results-status", FUZZ_RESULT, FOP_compound, 19, 2, 0, { 1, LOOKUP(WORD4('a', 0, 0, 0)), 1, 5 } },
	{ "inode-type", FUZZ_RESULT, FOP_lookup, 8, 10, 0, { H, 0, 1, WORD4('a', 0, 0, 0), 1, 2, 3, 4, 0xffffffff, H } },
	{ "inode-no-handle", FUZZ_RESULT, FOP_lookup, 8, 6, 0, { H, 0, 1, WORD4('a', 0, 0, 0), 1, 2, 3, 4, S_IFREG, 0 } },
	{ "inode-null", FUZZ_RESULT, FOP_lookup, 8, 6, 0, { H, 0, 1, WORD4('a', 0, 0, 0), 0, 0, 0, 0, 0, 0 } },
	{ "file-none", FUZZ_RESULT, FOP_open, 6, 2, 0, { H, 0, 0, 0 } },
	{ "entries-4g", FUZZ_RESULT, FOP_readdir, 6, 20, 0, { 0, 1, 0, 0, 4096, 1, 0xffffffff } },
	{ "entries-16384", FUZZ_RESULT, FOP_readdir, 6, 20, 0, { 0, 1, 0, 0, 4096, 1, 16384 } },
	{ "entry-name",
	  FUZZ_RESULT,
	  FOP_readdir,
	  6,
	  13,
	  0,
	  { 0, 1, 0, 0, 4096, 1, 1, 0, 1, 0, 0, 0, 0, S_IFREG, 3, WORD4('a', '/', 'b', 0), 0, 0, 1 } },
	{ "data-no-bulk", FUZZ_RESULT, FOP_read, 5, 1, 0, { 0, 1, 0, 0, 4096, 4096 } },
	{ "groups-4g", FUZZ_CALL, FOP_release, 0, 12, 0, { 0, 5, 0, 1, 1, 1, 0xffffffff } },
	{ "groups-65537", FUZZ_CALL, FOP_release, 0, 12, 0, { 0, 5, 0, 1, 1, 1, 65537 } },
	{ "groups-bool", FUZZ_CALL, FOP_release, 0, 12, 0, { 0, 5, 0, 1, 1, 2, 0 } },
	{ "extensions-9", FUZZ_CALL, FOP_release, 0, 30, 0, { 0, 5, 0, 1, 1, 0, 0, 0, 0, 9 } },
	{ "extension-4g", FUZZ_CALL, FOP_release, 0, 14, 0, { 0, 5, 0, 1, 1, 0, 0, 0, 0, 1, 3, 1, 0, 0xffffffff } },
	{ "extension-critical", FUZZ_CALL, FOP_release, 0, 16, 0, { 0, 5, 0, 1, 1, 0, 0, 0, 0, 1, 999, 1, 1, 0, 0, 1 } },
	{ "time-4g", FUZZ_CALL, FOP_release, 0, 12, 0, { 0, 5, 0, 1, 1, 0, 0, 0, 0xffffffff, 0, 0, 1 } },
	{ "status-positive", FUZZ_ANSWER, FOP_release, 2, 2, 0, { 0, 1, 5, 0 } },
	{ "status-low", FUZZ_ANSWER, FOP_release, 2, 2, 0, { 0, 1, 0x80000000, 0 } },
	{ "event-handle", FUZZ_EVENT, 1, 0, 8, 0, { 1, 0, 0, 0, 0, 0, 129, 0 } },
};

static void save_hostile(const struct hostile *h)
{
	char name[64];

	clear(&args);
	clear(&body);
	for (unsigned i = 0; i < h->args_words; i++)
		args.words[i] = htonl(h->word[i]);
	for (unsigned i = 0; i < h->words; i++)
		body.words[i] = htonl(h->word[h->args_words + i]);
	args.size = 4 * h->args_words;
	body.size = 4 * h->words;
	body.bulk_size = h->bulk; /* its last bytes */
	body.size -= h->bulk;
	memcpy(body.bulk, (char *)body.words + body.size, h->bulk);
	snprintf(name, sizeof(name), "hostile-%s", h->name);
	save_wire(name, h->kind, h->fop);
}

/* ---- stream ---- */

static uint8_t flow[FILE_ROOM];
static size_t used;

static void begin_stream(unsigned flags)
{
	memset(flow, 0, sizeof(flow));
	flow[0] = flags;
	flow[1] = 7;
	used = STREAM_AT_PIECES;
}

static void add_piece(const void *bytes, unsigned size)
{
	MUST(used + 2 + size <= sizeof(flow));
	put_u16(flow + used, size);
	memcpy(flow + used + 2, bytes, size);
	used += 2 + size;
}

static void add_filler(unsigned units)
{
	put_u16(flow + used, STREAM_FILLER | units);
	used += 2;
}

/* A record's head with mark; `more` bytes of words and bulk follow it. */
static unsigned head(uint32_t *to, bool reply, uint32_t more, uint32_t bulk)
{
	uint32_t size = reply ? reply_header(to, 8192, bulk) : call_header(to, 8192, WIRE_FOP + FOP_write, bulk);

	to[0] = htonl((size - 4 + more + bulk) | 0x80000000);
	return size;
}

static void save_good_streams(void)
{
	uint32_t w[64] = { 0 };
	unsigned size;

	begin_stream(STREAM_GREETING);
	size = head(w, false, 40, 0);
	add_piece(w, size + 40);
	save("stream", "one-call", flow, used);
	begin_stream(0);
	size = head(w, true, 0, 0);
	for (int i = 0; i < 20; i++)
		add_piece(w, size);
	save("stream", "replies", flow, used);
	begin_stream(0);
	for (unsigned i = 0; i < size; i++)
		add_piece((char *)w + i, 1);
	add_piece(w, size - 2);
	add_piece((char *)w + size - 2, 2);
	save("stream", "byte-by-byte", flow, used);
	begin_stream(0);
	size = head(w, false, 8, 20);
	memset(w + size / 4, 'b', 28);
	for (int i = 0; i < 3; i++)
		add_piece(w, size + 28);
	save("stream", "small-bulk", flow, used);
	begin_stream(0);
	size = head(w, false, 16, 65536);
	for (int i = 0; i < 2; i++) {
		add_piece(w, size + 16);
		add_filler(65536 / 2 / STREAM_FILLER_UNIT);
		add_filler(65536 / 2 / STREAM_FILLER_UNIT);
	}
	size = head(w, true, 4, 3);
	add_piece(w, size + 7);
	save("stream", "large-bulk", flow, used);
	begin_stream(0);
	size = head(w, true, 65536, 0);
	add_piece(w, size);
	add_filler(65536 / STREAM_FILLER_UNIT);
	add_piece(w, size - 10);
	save("stream", "long-reply", flow, used);
}

static void save_bad_streams(void)
{
	static const struct {
		const char *name;
		unsigned flags, at; /* which word is changed, to what */
		uint32_t word;
	} all[] = { { "not-last", 0, 0, 0x60 },
		    { "4g", 0, 0, 0xffffffff },
		    { "size-0", 0, 0, 0x80000000 },
		    { "size-24", 0, 0, 0x80000018 },
		    { "size-odd", 0, 0, 0x80000051 },
		    { "greeting-5000", STREAM_GREETING, 0, 0x80001388 },
		    { "greeting-bulk", STREAM_GREETING, 11, 4 },
		    { "type-2", 0, 2, 2 },
		    { "rpc-3", 0, 3, 3 },
		    { "program", 0, 4, 100003 },
		    { "version", 0, 5, 2 },
		    { "credentials", 0, 7, 1 },
		    { "verifier-size", 0, 10, 400 },
		    { "bulk-4g", 0, 11, 0xffffffff },
		    { "bulk-more-than-record", 0, 11, 40 },
		    { "bulk-max", 0, 11, WIRE_BULK_MAX + 1 },
		    { "http", 0, 0, 0x47455420 } };
	char name[64];

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		uint32_t w[64] = { 0 };
		unsigned size = head(w, false, 36, 0);

		begin_stream(all[i].flags);
		add_piece(w, size + 36);
		w[all[i].at] = htonl(all[i].word);
		add_piece(w, size + 36);
		snprintf(name, sizeof(name), "hostile-%s", all[i].name);
		save("stream", name, flow, used);
	}
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: %s DIRECTORY (with wire and stream in it)\n", *argv);
		return 2;
	}
	folder = argv[1];
	wire_values_init(3);
	for (int fop = 1; fop < FOP_COUNT; fop++)
		save_fop(fop);
	save_session();
	save_event();
	for (size_t i = 0; i < sizeof(hostile) / sizeof(*hostile); i++)
		save_hostile(&hostile[i]);
	save_good_streams();
	save_bad_streams();
	wire_values_finish();
	return 0;
}
