/* SPDX-License-Identifier: Apache-2.0 */
/* HELD in bytes: u64 owner, u64 first and last byte, u32 pid; all big-endian. */
#include "held.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

enum { HELD_SIZE = 28 };

int held_attach(struct request *rq, const struct held_mark *m)
{
	uint64_t words[3] = { htobe64(m->owner), htobe64(m->start), htobe64(m->end) };
	uint32_t pid = htobe32(m->pid);
	uint8_t bytes[HELD_SIZE];

	memcpy(bytes, words, sizeof(words));
	memcpy(bytes + sizeof(words), &pid, sizeof(pid));
	held_detach(rq);
	/* Optional: bricks that don't know it do what they did before there was one. */
	return request_extend(&rq->extensions, HELD_EXTENSION, HELD_EXTENSION_VERSION, false, bytes, sizeof(bytes));
}

void held_detach(struct request *rq)
{
	request_retract(rq, HELD_EXTENSION);
}

int held_of(const struct request *rq, struct held_mark *m)
{
	const struct extension *e = request_extension(rq, HELD_EXTENSION);
	uint64_t words[3];
	uint32_t pid;

	if (!e)
		return 0;
	if (e->version != HELD_EXTENSION_VERSION)
		return -EOPNOTSUPP;
	if (e->size != HELD_SIZE || request_extended_twice(e))
		return -EINVAL;
	memcpy(words, e->bytes, sizeof(words));
	memcpy(&pid, (const uint8_t *)e->bytes + sizeof(words), sizeof(pid));
	*m = (struct held_mark){ be64toh(words[0]), be64toh(words[1]), be64toh(words[2]), be32toh(pid) };
	return m->start <= m->end ? 1 : -EINVAL;
}
