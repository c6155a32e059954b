/* SPDX-License-Identifier: Apache-2.0 */
/* A message is (libraft 0.15 to 0.18; little-endian words, later releases add some at the end of a header):
 *
 *   type, size of the header
 *   the header:
 *     AppendEntries       term, index and term before, committed index, number of entries; for each its term, kind (1 byte, 3 unused), size (4 bytes)
 *     ...Result           term, rejected, last index
 *     RequestVote         term, candidate, last index, last term (flags)
 *     ...Result           term, granted (flags)
 *     InstallSnapshot     term, last index, last term, index of the configuration, its size, the configuration, size of the data
 *     TimeoutNow          term, last index, last term
 *   the payload: entries, or the data of a snapshot
 *
 * A configuration: 1 (1 byte), number of members (8 bytes), for each its id (8 bytes), address with a NUL, role (1 byte); zeros up to a whole word. */
#include "raft-frame.h"

#include <endian.h>
#include <raft.h>
#include <string.h>

#include "store.h"

enum { WORD = 8, ENTRIES_AT = 5 * WORD, PER_ENTRY = 2 * WORD, LATER_WORDS = 8, MEMBERS_MAX = 64, ADDRESS_SIZE = 64, FORM = 1 };
#define PAYLOAD_MAX  ((uint64_t)1 << 30)
#define POSITION_MAX ((uint64_t)1 << 62) /* terms and indexes: libraft counts on from there */

static uint64_t word_at(const uint8_t *from)
{
	uint64_t word;

	memcpy(&word, from, sizeof word);
	return le64toh(word);
}

static size_t least_size(unsigned type)
{
	static const uint8_t words[] = {
		[RAFT_IO_APPEND_ENTRIES] = 5,	   [RAFT_IO_APPEND_ENTRIES_RESULT] = 3, [RAFT_IO_REQUEST_VOTE] = 4,
		[RAFT_IO_REQUEST_VOTE_RESULT] = 2, [RAFT_IO_INSTALL_SNAPSHOT] = 6,	[RAFT_IO_TIMEOUT_NOW] = 3
	};

	return (size_t)words[type] * WORD;
}

const char *frame_begin(struct frame *f, const uint8_t preamble[FRAME_PREAMBLE])
{
	uint64_t type = word_at(preamble), size = word_at(preamble + WORD);

	*f = (struct frame){ .type = (unsigned)type };
	if (type < RAFT_IO_APPEND_ENTRIES || type > RAFT_IO_TIMEOUT_NOW)
		return "a message of no known type";
	if (size < least_size(f->type) || size > FRAME_HEADER_MAX || size % WORD) /* libraft reads whole words */
		return "a message of a size that can't be";
	f->header = (uint32_t)size;
	return NULL;
}

static const char *check_positions(const uint8_t *header, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (word_at(header + (size_t)i * WORD) > POSITION_MAX)
			return "a term or index that can't be";
	return NULL;
}

static const char *check_entries(struct frame *f, const uint8_t *header)
{
	uint64_t term = word_at(header), before = word_at(header + 2 * WORD), count = word_at(header + 4 * WORD);
	const uint8_t *at = header + ENTRIES_AT;

	if (count > (f->header - ENTRIES_AT) / PER_ENTRY || f->header - ENTRIES_AT - count * PER_ENTRY > LATER_WORDS * WORD)
		return "a number of entries that does not fit the message";
	for (uint64_t i = 0; i < count; i++, at += PER_ENTRY) {
		uint64_t of = word_at(at), kind = at[WORD], size = word_at(at + WORD) >> 32;

		if (of < before || of > term || !of)
			return "entries whose terms can't be";
		if (kind < RAFT_COMMAND || kind > RAFT_CHANGE || !size || size % WORD)
			return "an entry that can't be";
		before = of;
		f->payload += size;
	}
	return f->payload > PAYLOAD_MAX ? "entries that are too large" : NULL;
}

/* The list of members can be of an entry behind the snapshot: of one that was restarted libraft (0.15) takes the last list in the log, which may not have been committed when the snapshot was made. */
static const char *check_snapshot(struct frame *f, const uint8_t *header)
{
	uint64_t last = word_at(header + WORD), members_since = word_at(header + 3 * WORD), size = word_at(header + 4 * WORD);
	const char *wrong;

	if (!last || !word_at(header + 2 * WORD) || !members_since)
		return "a snapshot whose indexes can't be";
	if (size > f->header - ENTRIES_AT - WORD || size % WORD)
		return "a snapshot whose members do not fit the message";
	wrong = frame_configuration(header + ENTRIES_AT, size);
	if (wrong)
		return wrong;
	f->payload = word_at(header + ENTRIES_AT + size);
	return !f->payload || f->payload % WORD || f->payload > STORE_SIZE_MAX + WORD ? "a snapshot of a size that can't be"
										      : NULL;
}

const char *frame_header(struct frame *f, const uint8_t *header)
{
	const char *wrong = NULL;

	switch (f->type) {
	case RAFT_IO_APPEND_ENTRIES:
		wrong = check_positions(header, 4);
		return wrong ? wrong : check_entries(f, header);
	case RAFT_IO_INSTALL_SNAPSHOT:
		wrong = check_positions(header, 4);
		return wrong ? wrong : check_snapshot(f, header);
	case RAFT_IO_REQUEST_VOTE:
		wrong = check_positions(header + 2 * WORD, 2);
		return wrong ? wrong : check_positions(header, 1);
	case RAFT_IO_REQUEST_VOTE_RESULT:
		return check_positions(header, 1);
	default:
		return check_positions(header, 3);
	}
}

struct member_of {
	uint64_t id;
	const char *address;
};

static bool is_there(const struct member_of *m, size_t count, uint64_t id, const char *address)
{
	for (size_t i = 0; i < count; i++)
		if (m[i].id == id || !strcmp(m[i].address, address))
			return true;
	return false;
}

const char *frame_configuration(const void *bytes, size_t size)
{
	static const char wrong[] = "members that can't be";
	const uint8_t *at = bytes, *end = at + size;
	struct member_of member[MEMBERS_MAX];
	uint64_t count;

	if (size < 1 + WORD || *at != FORM)
		return wrong;
	count = word_at(at + 1);
	at += 1 + WORD;
	if (!count || count > MEMBERS_MAX)
		return wrong;
	for (uint64_t i = 0; i < count; i++) {
		size_t left = (size_t)(end - at), length = left > WORD ? strnlen((const char *)at + WORD, left - WORD) : left;

		if (left < WORD + length + 2 || length >= ADDRESS_SIZE || !word_at(at) || at[WORD + length + 1] > RAFT_SPARE)
			return wrong;
		member[i] = (struct member_of){ word_at(at), (const char *)at + WORD };
		if (is_there(member, i, member[i].id, member[i].address))
			return wrong;
		at += WORD + length + 2;
	}
	return NULL;
}
