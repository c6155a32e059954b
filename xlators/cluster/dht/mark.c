/* SPDX-License-Identifier: Apache-2.0 */
/* Marks in bytes, and the names of their xattrs. */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "place.h"

enum { MARK_FORMAT = 1 };

const char *anchors_mark(const struct gfid *object, char name[ANCHORS_NAME])
{
	char text[GFID_TEXT];

	snprintf(name, ANCHORS_NAME, "/%s", gfid_text(object, text));
	return name;
}

int anchor_parse(const char *name, struct gfid *pointer, struct gfid *object)
{
	enum { FIRST = 2, SECOND = FIRST + GFID_TEXT };
	char first[GFID_TEXT];

	if (name[0] != 'a' || name[1] != '.' || strlen(name) != SECOND + GFID_TEXT - 1 || name[SECOND - 1] != '.')
		return -EINVAL;
	memcpy(first, name + FIRST, GFID_TEXT - 1);
	first[GFID_TEXT - 1] = '\0';
	return gfid_parse(first, pointer) ? -EINVAL : gfid_parse(name + SECOND, object);
}

uint64_t mark_hash(const char *name)
{
	return XXH3_64bits(name, strlen(name));
}

const char *mark_name(uint64_t hash, char xattr[MARK_NAME])
{
	snprintf(xattr, MARK_NAME, DHT_MARK_XATTR "%016" PRIx64, hash);
	return xattr;
}

bool is_mark(const char *xattr, uint64_t *hash)
{
	char again[MARK_NAME];

	if (strncmp(xattr, DHT_MARK_XATTR, sizeof(DHT_MARK_XATTR) - 1) != 0)
		return false;
	*hash = strtoull(xattr + sizeof(DHT_MARK_XATTR) - 1, NULL, 16);
	return !strcmp(xattr, mark_name(*hash, again));
}

void mark_encode(const struct mark *m, uint8_t bytes[MARK_SIZE])
{
	uint32_t attempt = htobe32(m->attempt), subvolume = htobe32(m->subvolume);

	bytes[0] = MARK_FORMAT;
	memcpy(bytes + 1, m->intent.bytes, 16);
	memcpy(bytes + 17, &attempt, 4);
	memcpy(bytes + 21, &subvolume, 4);
}

int mark_decode(const void *bytes, size_t size, struct mark *m)
{
	const uint8_t *at = bytes;

	if (size != MARK_SIZE || at[0] != MARK_FORMAT)
		return -EINVAL;
	memcpy(m->intent.bytes, at + 1, 16);
	memcpy(&m->attempt, at + 17, 4);
	memcpy(&m->subvolume, at + 21, 4);
	m->attempt = be32toh(m->attempt);
	m->subvolume = be32toh(m->subvolume);
	return 0;
}
