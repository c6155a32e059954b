/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of calls and replies, and the session messages. */
#include "message.h"

#include "born.h"
#include "held.h"

#define ENCODING(c) ((c)->xdr.x_op == XDR_ENCODE)

static int outcome(const struct codec *c, bool ok)
{
	if (c->error)
		return c->error;
	return ok ? 0 : ENCODING(c) ? -EMSGSIZE : -EBADMSG;
}

_Static_assert((int)EXTENSION_BORN_WITH == BORN_EXTENSION && (int)EXTENSION_HELD == HELD_EXTENSION,
	       "the numbers are on the wire");

bool extension_known(uint32_t type)
{
	switch (type) {
#define EXTENSION(name, number, critical, summary) case number:
#include "extension.def"
#undef EXTENSION
		return true;
	}
	return false;
}

static int unknown_critical(const struct extension *e)
{
	for (; e; e = e->next)
		if (e->critical && !extension_known(e->type))
			return -EOPNOTSUPP;
	return 0;
}

static bool decode_groups(struct codec *c, struct request *rq)
{
	uint32_t known = 0, count = 0;

	if (!xdr_u_int(&c->xdr, &known) || known > 1)
		return false;
	if (!known)
		return true;
	if (!xdr_u_int(&c->xdr, &count) || count > WIRE_GROUPS_MAX || count > (c->limit - codec_used(c)) / 4)
		return false;
	rq->groups = malloc((count + 1) * sizeof(gid_t));
	if (!rq->groups)
		return c->error = -ENOMEM, false;
	rq->group_count = count;
	for (uint32_t i = 0; i < count; i++)
		if (!xdr_u_int(&c->xdr, &rq->groups[i]))
			return false;
	return true;
}

static bool encode_groups(struct codec *c, struct request *rq)
{
	uint32_t known = rq->group_count >= 0, count = known ? rq->group_count : 0;

	if (count > WIRE_GROUPS_MAX)
		count = WIRE_GROUPS_MAX;
	if (!xdr_u_int(&c->xdr, &known))
		return false;
	if (!known)
		return true;
	if (!xdr_u_int(&c->xdr, &count))
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (!xdr_u_int(&c->xdr, &rq->groups[i]))
			return false;
	return true;
}

static uint32_t time_left_ms(const struct request *rq)
{
	uint64_t now = rq->deadline_ns ? clock_ns() : 0, ms;

	if (!rq->deadline_ns)
		return 0;
	ms = rq->deadline_ns > now ? (rq->deadline_ns - now) / 1000000 + 1 : 1;
	return ms < UINT32_MAX ? ms : UINT32_MAX;
}

int call_head(struct codec *c, struct request *rq, uint32_t *flags)
{
	uint32_t left_ms = ENCODING(c) ? time_left_ms(rq) : 0;
	bool ok = xdr_uint64_t(&c->xdr, &rq->id) && xdr_u_int(&c->xdr, flags) && xdr_u_int(&c->xdr, &rq->uid) &&
		  xdr_u_int(&c->xdr, &rq->gid) && (ENCODING(c) ? encode_groups : decode_groups)(c, rq) &&
		  xdr_uint64_t(&c->xdr, &rq->lock_owner) && xdr_u_int(&c->xdr, &left_ms) &&
		  codec_extensions(c, &rq->extensions);

	if (!ENCODING(c) && left_ms)
		rq->deadline_ns = rq->born_ns + left_ms * 1000000ull;
	if (!ok || c->error)
		return outcome(c, ok);
	return ENCODING(c) ? 0 : unknown_critical(rq->extensions);
}

int reply_head(struct codec *c, int *status, struct extension **list)
{
	bool ok = xdr_int(&c->xdr, status) && *status <= 0 && *status >= -ELAST && codec_extensions(c, list);

	return outcome(c, ok);
}

uint32_t encode_call(void *head, uint32_t size, uint32_t xid, uint32_t procedure, xdrproc_t proc, void *message)
{
	uint32_t at = call_header(head, xid, procedure, 0);
	XDR xdr;

	xdrmem_create(&xdr, (char *)head + at, size - at, XDR_ENCODE);
	return !proc || proc(&xdr, message) ? at + xdr_getpos(&xdr) : 0;
}

uint32_t encode_reply(void *head, uint32_t size, uint32_t xid, int status, struct extension *e, xdrproc_t proc, void *message)
{
	uint32_t at = reply_header(head, xid, 0);
	struct codec c;

	codec_init(&c, XDR_ENCODE, (char *)head + at, size - at, NULL, NULL);
	if (reply_head(&c, &status, &e) || (!status && proc && !proc(&c.xdr, message)))
		return 0;
	return at + codec_used(&c);
}

bool decode_message(XDR *xdr, xdrproc_t proc, void *message)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* libtirpc decodes padding into a static variable */
	bool good;

	pthread_mutex_lock(&lock);
	good = proc(xdr, message);
	pthread_mutex_unlock(&lock);
	return good;
}

bool decode_record(struct record *r, unsigned at, xdrproc_t proc, void *message)
{
	XDR xdr;

	if (r->size < 4 * at || r->bulk)
		return false;
	xdrmem_create(&xdr, (char *)(r->word + at), r->size - 4 * at, XDR_DECODE);
	if (decode_message(&xdr, proc, message) && xdr_getpos(&xdr) == r->size - 4 * at)
		return true;
	xdr_free(proc, message);
	return false;
}
