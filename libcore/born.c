/* SPDX-License-Identifier: Apache-2.0 */
/* BORN_WITH in bytes: u8 count (1 to 8); for each u8 length of the name, the name and a NUL, u16 size (big-endian), the value. */
#include "born.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE_MAX = 255 };

static bool has_name(const struct born_xattr *x, unsigned n, const char *name)
{
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(x[i].name, name))
			return true;
	return false;
}

/* ---- to bytes ---- */

static int put(uint8_t *bytes, size_t *used, const struct born_xattr *x)
{
	size_t length = strlen(x->name), need = 1 + length + 1 + 2 + x->size;
	uint8_t *at = bytes + *used;

	if (!length || length > NAME_SIZE_MAX)
		return -EINVAL;
	if (need > BORN_BYTES_MAX - *used)
		return -E2BIG;
	*at++ = (uint8_t)length;
	memcpy(at, x->name, length + 1);
	at += length + 1;
	*at++ = (uint8_t)(x->size >> 8);
	*at++ = (uint8_t)x->size;
	if (x->size)
		memcpy(at, x->value, x->size);
	*used += need;
	return 0;
}

int born_attach(struct request *rq, const struct born_xattr *x, unsigned n)
{
	uint8_t bytes[BORN_BYTES_MAX];
	size_t used = 1;
	int err = n <= BORN_MAX ? 0 : -EINVAL;

	for (unsigned i = 0; i < n && !err; i++)
		err = has_name(x, i, x[i].name) ? -EINVAL : put(bytes, &used, &x[i]);
	if (err)
		return err;
	bytes[0] = (uint8_t)n;
	request_retract(rq, BORN_EXTENSION);
	return n ? request_extend(&rq->extensions, BORN_EXTENSION, BORN_EXTENSION_VERSION, true, bytes, (uint32_t)used) : 0;
}

/* ---- and back ---- */

static int get(const uint8_t **at, const uint8_t *end, struct born *b)
{
	struct born_xattr *x = &b->xattr[b->count];
	size_t length = *at < end ? *(*at)++ : 0;

	if (!length || (size_t)(end - *at) < length + 3 || memchr(*at, 0, length + 1) != *at + length)
		return -EINVAL;
	x->name = (const char *)*at;
	*at += length + 1;
	x->size = (uint32_t)((*at)[0] << 8 | (*at)[1]);
	*at += 2;
	if (x->size > (size_t)(end - *at) || has_name(b->xattr, b->count, x->name))
		return -EINVAL;
	x->value = *at;
	*at += x->size;
	b->count++;
	return 0;
}

static int decode(const struct extension *e, struct born *b)
{
	const uint8_t *at = e->bytes, *end = at + e->size;
	unsigned count = at < end ? *at++ : 0;
	int err = count && count <= BORN_MAX && e->size <= BORN_BYTES_MAX ? 0 : -EINVAL;

	while (!err && b->count < count)
		err = get(&at, end, b);
	return err ? err : at == end ? 0 : -EINVAL;
}

int born_of(const struct request *rq, struct born *b)
{
	const struct extension *e = request_extension(rq, BORN_EXTENSION);
	int err;

	b->count = 0;
	if (!e)
		return 0;
	if (e->version != BORN_EXTENSION_VERSION)
		return -EOPNOTSUPP;
	if (request_extended_twice(e))
		return -EINVAL; /* who would judge the one, and who set the other? */
	err = decode(e, b);
	if (err)
		b->count = 0;
	return err;
}

uint64_t born_bytes(const struct born *b)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < b->count; i++)
		sum += strlen(b->xattr[i].name) + b->xattr[i].size;
	return sum;
}
