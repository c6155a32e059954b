/* SPDX-License-Identifier: Apache-2.0 */
/* PLACE in bytes: u32 flags, twice gfid and u64 version of a directory, gfid of the first name, of the second, of the intent, u32 attempt; pointers, and
 * parents. All big-endian. */
#include "place.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	PLACE_SIZE = 104,
	PLACE_SIZE_3 = 72,
	PLACE_SIZE_2 = 52,
	POINTER_FORMAT = 1,
	STUB_FORMAT = 2,
	PARENT_FORMAT = 1,
	LEAVES_FORMAT = 1
};
enum { FLAGS_KNOWN_3 = PLACE_POINTER | PLACE_SHARD, FLAGS_KNOWN = FLAGS_KNOWN_3 | PLACE_HERE };

static uint8_t *put(uint8_t *at, const void *bytes, size_t size)
{
	memcpy(at, bytes, size);
	return at + size;
}

static void encode(const struct place *p, uint8_t bytes[PLACE_SIZE])
{
	uint32_t flags = htobe32(p->flags), attempt = htobe32(p->attempt);
	uint8_t *at = put(bytes, &flags, 4);

	for (int i = 0; i < 2; i++) {
		uint64_t version = htobe64(p->version[i]);

		at = put(at, p->directory[i].bytes, 16);
		at = put(at, &version, 8);
	}
	at = put(at, p->expected[0].bytes, 16);
	at = put(at, p->expected[1].bytes, 16);
	at = put(at, p->intent.bytes, 16);
	put(at, &attempt, 4);
}

int place_attach(struct request *rq, const struct place *p)
{
	uint8_t bytes[PLACE_SIZE];

	encode(p, bytes);
	for (struct extension *e = rq->extensions; e; e = e->next)
		if (e->type == PLACE_EXTENSION && e->size == sizeof(bytes)) { /* that can't fail */
			memcpy(e->bytes, bytes, sizeof(bytes));
			return 0;
		}
	return request_extend(&rq->extensions, PLACE_EXTENSION, PLACE_EXTENSION_VERSION, true, bytes, sizeof(bytes));
}

static const uint8_t *get(const uint8_t *at, void *to, size_t size)
{
	memcpy(to, at, size);
	return at + size;
}

static const uint8_t *get_version(const uint8_t *at, uint64_t *version)
{
	at = get(at, version, 8);
	*version = be64toh(*version);
	return at;
}

/* Of 2 are clients from before there were intents, of 3 those from before versions said of which directory they are, of 4 those that expect
 * pointers to be renamed as if they were files. */
static size_t size_of(uint32_t version)
{
	if (version < 2 || version > PLACE_EXTENSION_VERSION)
		return 0;
	return version == 2 ? PLACE_SIZE_2 : version == 3 ? PLACE_SIZE_3 : PLACE_SIZE;
}

static void decode(const uint8_t *at, uint32_t version, struct place *p)
{
	p->by_position = version < 4;
	p->moves_pointers = version < 5;
	at = get(at, &p->flags, 4);
	p->flags = be32toh(p->flags);
	for (int i = 0; i < 2; i++) {
		if (!p->by_position)
			at = get(at, p->directory[i].bytes, 16);
		at = get_version(at, &p->version[i]);
	}
	at = get(at, p->expected[0].bytes, 16);
	at = get(at, p->expected[1].bytes, 16);
	if (version == 2)
		return;
	at = get(at, p->intent.bytes, 16);
	get(at, &p->attempt, 4);
	p->attempt = be32toh(p->attempt);
}

/* Each version is of a directory, and there is one of each. */
static bool makes_sense(const struct place *p)
{
	if (p->by_position)
		return true;
	for (int i = 0; i < 2; i++)
		if (gfid_is_null(&p->directory[i]) && p->version[i])
			return false;
	return gfid_is_null(&p->directory[0]) || !gfid_equal(&p->directory[0], &p->directory[1]);
}

int place_of(const struct request *rq, struct place *p)
{
	const struct extension *e = request_extension(rq, PLACE_EXTENSION);

	*p = (struct place){ 0 };
	if (!e)
		return 0;
	if (!size_of(e->version))
		return -EOPNOTSUPP;
	if (request_extended_twice(e) || e->size != size_of(e->version))
		return -EINVAL;
	decode(e->bytes, e->version, p);
	if (p->flags & ~(uint32_t)(p->by_position ? FLAGS_KNOWN_3 : FLAGS_KNOWN))
		return -EOPNOTSUPP;
	return makes_sense(p) ? 1 : -EINVAL;
}

bool place_names(const struct place *p, const struct gfid *directory)
{
	return !p->by_position && (gfid_equal(&p->directory[0], directory) || gfid_equal(&p->directory[1], directory));
}

uint64_t place_version(const struct place *p, const struct gfid *directory, int name)
{
	if (p->by_position)
		return p->version[name];
	for (int i = 0; i < 2; i++)
		if (gfid_equal(&p->directory[i], directory))
			return p->version[i];
	return 0;
}

void pointer_encode(const struct pointer *p, uint8_t bytes[POINTER_SIZE])
{
	uint32_t subvolume = htobe32(p->subvolume);

	bytes[0] = POINTER_FORMAT;
	memcpy(bytes + 1, &subvolume, 4);
	memcpy(bytes + 5, p->gfid.bytes, 16);
}

void stub_encode(const struct pointer *p, uint8_t bytes[STUB_SIZE])
{
	pointer_encode(p, bytes);
	bytes[0] = STUB_FORMAT;
	memcpy(bytes + POINTER_SIZE, p->mover.bytes, 16);
}

int pointer_decode(const void *bytes, size_t size, struct pointer *p)
{
	const uint8_t *at = bytes;
	bool stub = size == STUB_SIZE && at[0] == STUB_FORMAT;

	if (!stub && (size != POINTER_SIZE || at[0] != POINTER_FORMAT))
		return -EINVAL;
	*p = (struct pointer){ 0 };
	if (stub)
		memcpy(p->mover.bytes, at + POINTER_SIZE, 16);
	memcpy(&p->subvolume, at + 1, 4);
	p->subvolume = be32toh(p->subvolume);
	memcpy(p->gfid.bytes, at + 5, 16);
	return gfid_is_null(&p->gfid) || gfid_equal(&p->gfid, &gfid_root) ? -EINVAL : 0;
}

const char *kept_name(const struct gfid *mover, char name[HIDDEN_NAME])
{
	char text[GFID_TEXT];

	snprintf(name, HIDDEN_NAME, "k.%s", gfid_text(mover, text));
	return name;
}

void parent_encode(const struct parent *p, uint8_t bytes[PARENT_SIZE])
{
	uint64_t turn = htobe64(p->turn);
	uint32_t subvolume = htobe32(p->subvolume);

	bytes[0] = PARENT_FORMAT;
	memcpy(bytes + 1, &turn, 8);
	memcpy(bytes + 9, &subvolume, 4);
	memcpy(bytes + 13, p->gfid.bytes, 16);
}

int parent_decode(const void *bytes, size_t size, struct parent *p)
{
	const uint8_t *at = bytes;

	if (size != PARENT_SIZE || at[0] != PARENT_FORMAT)
		return -EINVAL;
	memcpy(&p->turn, at + 1, 8);
	memcpy(&p->subvolume, at + 9, 4);
	memcpy(p->gfid.bytes, at + 13, 16);
	p->turn = be64toh(p->turn);
	p->subvolume = be32toh(p->subvolume);
	return 0;
}

void leaves_encode(uint32_t subvolume, uint8_t bytes[LEAVES_SIZE])
{
	uint32_t number = htobe32(subvolume);

	bytes[0] = LEAVES_FORMAT;
	memcpy(bytes + 1, &number, 4);
}

int leaves_decode(const void *bytes, size_t size, uint32_t *subvolume)
{
	const uint8_t *at = bytes;

	if (size != LEAVES_SIZE || at[0] != LEAVES_FORMAT)
		return -EINVAL;
	memcpy(subvolume, at + 1, 4);
	*subvolume = be32toh(*subvolume);
	return 0;
}
