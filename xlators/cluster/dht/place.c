/* SPDX-License-Identifier: Apache-2.0 */
/* PLACE in bytes: u32 flags, u64 version, u64 version of the second directory, gfid of the first name, of the second, of the intent, u32
 * attempt; pointers, and parents. All big-endian. */
#include "place.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE_SIZE = 72, PLACE_SIZE_2 = 52, FLAGS_KNOWN = PLACE_POINTER | PLACE_SHARD, POINTER_FORMAT = 1, PARENT_FORMAT = 1 };

int place_attach(struct request *rq, const struct place *p)
{
	uint32_t flags = htobe32(p->flags), attempt = htobe32(p->attempt);
	uint64_t version[2] = { htobe64(p->version[0]), htobe64(p->version[1]) };
	uint8_t bytes[PLACE_SIZE];

	memcpy(bytes, &flags, 4);
	memcpy(bytes + 4, version, 16);
	memcpy(bytes + 20, p->expected[0].bytes, 16);
	memcpy(bytes + 36, p->expected[1].bytes, 16);
	memcpy(bytes + 52, p->intent.bytes, 16);
	memcpy(bytes + 68, &attempt, 4);
	for (struct extension *e = rq->extensions; e; e = e->next)
		if (e->type == PLACE_EXTENSION && e->size == sizeof(bytes)) { /* that can't fail */
			memcpy(e->bytes, bytes, sizeof(bytes));
			return 0;
		}
	return request_extend(&rq->extensions, PLACE_EXTENSION, PLACE_EXTENSION_VERSION, true, bytes, sizeof(bytes));
}

int place_of(const struct request *rq, struct place *p)
{
	const struct extension *e = request_extension(rq, PLACE_EXTENSION);
	uint64_t version[2];

	*p = (struct place){ 0 };
	if (!e)
		return 0;
	if (e->version != PLACE_EXTENSION_VERSION && e->version != 2)
		return -EOPNOTSUPP;
	if (request_extended_twice(e) || e->size != (e->version == 2 ? PLACE_SIZE_2 : PLACE_SIZE))
		return -EINVAL;
	memcpy(&p->flags, e->bytes, 4);
	memcpy(version, (const uint8_t *)e->bytes + 4, 16);
	p->flags = be32toh(p->flags);
	p->version[0] = be64toh(version[0]);
	p->version[1] = be64toh(version[1]);
	memcpy(p->expected[0].bytes, (const uint8_t *)e->bytes + 20, 16);
	memcpy(p->expected[1].bytes, (const uint8_t *)e->bytes + 36, 16);
	if (e->version > 2) { /* of 2 are clients from before there were intents */
		memcpy(p->intent.bytes, (const uint8_t *)e->bytes + 52, 16);
		memcpy(&p->attempt, (const uint8_t *)e->bytes + 68, 4);
		p->attempt = be32toh(p->attempt);
	}
	return p->flags & ~FLAGS_KNOWN ? -EOPNOTSUPP : 1;
}

void pointer_encode(const struct pointer *p, uint8_t bytes[POINTER_SIZE])
{
	uint32_t subvolume = htobe32(p->subvolume);

	bytes[0] = POINTER_FORMAT;
	memcpy(bytes + 1, &subvolume, 4);
	memcpy(bytes + 5, p->gfid.bytes, 16);
}

int pointer_decode(const void *bytes, size_t size, struct pointer *p)
{
	const uint8_t *at = bytes;

	if (size != POINTER_SIZE || at[0] != POINTER_FORMAT)
		return -EINVAL;
	memcpy(&p->subvolume, at + 1, 4);
	p->subvolume = be32toh(p->subvolume);
	memcpy(p->gfid.bytes, at + 5, 16);
	return gfid_is_null(&p->gfid) || gfid_equal(&p->gfid, &gfid_root) ? -EINVAL : 0;
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
