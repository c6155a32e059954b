/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what one server reads of another: greetings, the answer of who refuses, and messages of libraft. What is taken libraft must be able to read: here it is read as libraft does, which believes
 * all numbers, from memory that has not a byte more. */
#include "fuzz.h"

#include <endian.h>
#include <raft.h>
#include <stdbool.h>
#include <string.h>

#include "raft-frame.h"
#include "raft-greeting.h"

enum { WORD = 8, PER_ENTRY = 16 };

static void *copy_of(const void *bytes, size_t size)
{
	void *copy = malloc(size);

	if (size)
		memcpy(copy, bytes, size);
	return copy;
}

/* ---- greetings ---- */

static void try_again(const struct hello *h, bool tls)
{
	uint8_t bytes[HELLO_MAX];
	size_t size = hello_encode(h, tls, bytes);
	struct hello again;

	MUST(size <= HELLO_MAX && hello_wants(bytes, size, tls) == size);
	MUST(hello_decode(bytes, size, tls, &again));
	MUST(again.id == h->id && !strcmp(again.address, h->address) && !memcmp(&again.card, &h->card, sizeof again.card));
}

static void try_hello(const uint8_t *bytes, size_t size, bool tls)
{
	size_t have = 0, wanted;
	uint8_t *text;
	struct hello h;

	while ((wanted = hello_wants(bytes, have, tls)) > have) {
		MUST(wanted <= HELLO_MAX);
		if (wanted > size)
			return;
		have = wanted;
	}
	if (!wanted)
		return;
	MUST(wanted == have);
	text = copy_of(bytes, have);
	if (hello_decode(text, have, tls, &h)) {
		MUST(h.id && address_is_fine(h.address));
		try_again(&h, tls);
	}
	free(text);
}

static void try_answer(const uint8_t *bytes, size_t size)
{
	uint8_t again[ANSWER_BYTES];
	struct answer a;

	if (size < ANSWER_BYTES || !answer_decode(bytes, &a))
		return;
	MUST(a.why > REFUSED_NOT && a.why < REFUSALS);
	answer_encode(&a, again);
	MUST(!memcmp(again, bytes, sizeof again));
}

static void try_address(const uint8_t *bytes, size_t size)
{
	struct hello h = { .id = 1, .card.given = true };
	char *text = malloc(size + 1);

	memcpy(text, bytes, size);
	text[size] = '\0';
	if (address_is_fine(text)) {
		MUST(strlen(text) < ADDRESS_MAX);
		strcpy(h.address, text);
		try_again(&h, false);
		try_again(&h, true);
	}
	free(text);
}

/* ---- messages, as libraft reads them ---- */

static volatile uint64_t last_read; /* or the compiler would leave the reading out */

static uint64_t next_word(const uint8_t **at)
{
	uint64_t word;

	memcpy(&word, *at, sizeof word);
	*at += sizeof word;
	last_read = word;
	return le64toh(word);
}

static void read_members(const uint8_t *at, size_t size)
{
	const uint8_t *begin = at;
	uint64_t count;

	MUST(*at++ == 1);
	count = next_word(&at);
	MUST(count && count < 1000);
	while (count--) {
		MUST(next_word(&at));
		MUST(at < begin + size && memchr(at, '\0', size - (size_t)(at - begin)));
		at += strlen((const char *)at) + 1;
		MUST(*at++ <= RAFT_SPARE);
	}
	MUST(at <= begin + size);
}

static void read_entries(const uint8_t *at, const struct frame *f)
{
	uint64_t bytes = 0;
	unsigned count;

	for (unsigned i = 0; i < 4; i++)
		next_word(&at);
	count = (unsigned)next_word(&at);
	for (unsigned i = 0; i < count; i++, at += PER_ENTRY) {
		uint32_t size;

		memcpy(&size, at + 12, sizeof size);
		MUST(at[8] == RAFT_COMMAND || at[8] == RAFT_BARRIER || at[8] == RAFT_CHANGE);
		MUST(size && size % WORD == 0); /* libraft does not count what it would pad it with */
		bytes += size;
	}
	MUST(bytes == f->payload);
}

static void read_snapshot(const uint8_t *at, const struct frame *f)
{
	uint8_t *members;
	uint64_t size;

	for (unsigned i = 0; i < 4; i++)
		next_word(&at);
	size = next_word(&at);
	members = copy_of(at, size);
	read_members(members, size);
	free(members);
	at += size;
	MUST(next_word(&at) == f->payload && f->payload);
}

static void read_words(const uint8_t *at, const struct frame *f, unsigned least)
{
	unsigned words = f->header > least * WORD ? least + 1 : least;

	MUST(!f->payload);
	while (words--)
		next_word(&at);
}

static void read_as_libraft(const uint8_t *header, const struct frame *f)
{
	switch (f->type) {
	case RAFT_IO_APPEND_ENTRIES:
		read_entries(header, f);
		break;
	case RAFT_IO_INSTALL_SNAPSHOT:
		read_snapshot(header, f);
		break;
	case RAFT_IO_REQUEST_VOTE:
		read_words(header, f, 4);
		break;
	case RAFT_IO_REQUEST_VOTE_RESULT:
		read_words(header, f, 2);
		break;
	default:
		MUST(f->type == RAFT_IO_APPEND_ENTRIES_RESULT || f->type == RAFT_IO_TIMEOUT_NOW);
		read_words(header, f, 3);
	}
}

/* One message behind the other; one that can't be ends it. */
static void try_messages(const uint8_t *at, size_t left)
{
	while (left >= FRAME_PREAMBLE) {
		struct frame f;
		uint8_t *header;
		bool is_wrong = frame_begin(&f, at);

		at += FRAME_PREAMBLE;
		left -= FRAME_PREAMBLE;
		if (is_wrong || f.header > left)
			return;
		header = copy_of(at, f.header);
		is_wrong = frame_header(&f, header);
		if (!is_wrong)
			read_as_libraft(header, &f);
		free(header);
		at += f.header;
		left -= f.header;
		if (is_wrong || f.payload > left)
			return;
		at += f.payload;
		left -= (size_t)f.payload;
	}
}

/* Of an entry. */
static void try_members(const uint8_t *bytes, size_t size)
{
	uint8_t *text = copy_of(bytes, size);

	if (!frame_configuration(text, size))
		read_members(text, size);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	if (!size)
		return -1;
	switch (bytes[0]) {
	case RAFT_FUZZ_HELLO:
	case RAFT_FUZZ_HELLO_TLS:
		try_hello(bytes + 1, size - 1, bytes[0] == RAFT_FUZZ_HELLO_TLS);
		break;
	case RAFT_FUZZ_ANSWER:
		try_answer(bytes + 1, size - 1);
		break;
	case RAFT_FUZZ_ADDRESS:
		try_address(bytes + 1, size - 1);
		break;
	case RAFT_FUZZ_MEMBERS:
		try_members(bytes + 1, size - 1);
		break;
	case RAFT_FUZZ_MESSAGES:
		try_messages(bytes + 1, size - 1);
		break;
	default:
		return -1;
	}
	return 0;
}
