/* SPDX-License-Identifier: Apache-2.0 */
/* Vouchers: by which a tenant's session shows to one member of a set that another has told it of an object. A handle is of one brick, and what is
 * asked by a gfid is asked where there is none yet. doc/tenants.md, T8. */
#include <endian.h>
#include <inttypes.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>

#include "member.h"

/* Keyed BLAKE2s (RFC 7693), cut to 16 bytes by its parameter block, with the volume's secret as the key, over this word, the number of the set if it is not
 * the first, the tenant's id, that of his access point if he came by one, and the gfid. */
static const char word[] = "voucher";

static bool begun(struct member *m)
{
	uint32_t set = htobe32((uint32_t)m->set);

	return EVP_MAC_update(m->voucher, (const unsigned char *)word, sizeof(word)) &&
	       (!set || EVP_MAC_update(m->voucher, (const unsigned char *)&set, sizeof(set)));
}

int voucher_begin(struct member *m, struct problem *p)
{
	size_t size = VOUCHER_SIZE;
	OSSL_PARAM parameters[] = { OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size), OSSL_PARAM_construct_end() };
	EVP_MAC *mac = EVP_MAC_fetch(NULL, "BLAKE2SMAC", NULL);

	EVP_MAC_CTX_free(m->voucher); /* of the start before */
	m->voucher = mac ? EVP_MAC_CTX_new(mac) : NULL;
	EVP_MAC_free(mac);
	if (m->voucher && EVP_MAC_init(m->voucher, m->secret, sizeof(m->secret), parameters) && begun(m))
		return 0;
	return problem_set(p, ENOTSUP, "OpenSSL here has no BLAKE2SMAC: its default provider is needed");
}

static bool owned(EVP_MAC_CTX *context, const struct bearer *b)
{
	return EVP_MAC_update(context, b->tenant.bytes, sizeof(b->tenant.bytes)) &&
	       (gfid_is_null(&b->access) || EVP_MAC_update(context, b->access.bytes, sizeof(b->access.bytes)));
}

int voucher_make(struct xlator *x, const struct bearer *b, const struct gfid *g, uint8_t voucher[VOUCHER_SIZE])
{
	EVP_MAC_CTX *context = EVP_MAC_CTX_dup(member_of(x)->voucher);
	size_t length = 0;
	bool done = context && owned(context, b) && EVP_MAC_update(context, g->bytes, sizeof(g->bytes)) &&
		    EVP_MAC_final(context, voucher, &length, VOUCHER_SIZE) && length == VOUCHER_SIZE;

	EVP_MAC_CTX_free(context);
	return done ? 0 : -ENOMEM;
}

/* ---- the number of a directory's limit ---- */

/* What makes the change another one than all others, and the object it is of. */
struct limit_of {
	struct gfid tree, directory;
	uint8_t session[16];
	uint64_t sequence; /* big-endian */
	char word[8];
};

/* Keyed as a voucher is, over its word and the set's number as there, and more than a voucher has behind that: so it is none. */
static int number_of(struct member *m, const struct limit_of *of, uint64_t *number)
{
	EVP_MAC_CTX *context = EVP_MAC_CTX_dup(m->voucher);
	uint8_t whole[VOUCHER_SIZE];
	uint64_t begins;
	size_t length = 0;
	bool done = context && EVP_MAC_update(context, (const unsigned char *)of, sizeof(*of)) &&
		    EVP_MAC_final(context, whole, &length, sizeof(whole)) && length == sizeof(whole);

	EVP_MAC_CTX_free(context);
	if (!done)
		return -ENOMEM;
	memcpy(&begins, whole, sizeof(begins));
	*number = (be64toh(begins) ^ (MUTANT("own-limit-number") ? m->number : 0)) & INT64_MAX;
	*number += !*number;
	return 0;
}

int limit_set(struct request *rq, struct xlator *x, const struct replica_stamp *stamp, const struct setxattr_in *in,
	      struct setxattr_out *out)
{
	struct member *m = member_of(x);
	struct limit_of of = {
		.tree = rq->tree, .directory = in->inode->gfid, .sequence = htobe64(stamp->sequence), .word = "limit"
	};
	struct setxattr_in with = *in;
	const struct session *s;
	uint64_t number;
	char text[80];
	int err = 0;

	if (in->value.size > sizeof(text) - sizeof(" 0123456789abcdef"))
		return -EINVAL;
	pthread_mutex_lock(&m->lock);
	s = session_of(m, rq);
	if (s)
		memcpy(of.session, s->id, sizeof(of.session));
	pthread_mutex_unlock(&m->lock);
	err = s ? number_of(m, &of, &number) : -EVIEW;
	if (err)
		return err;
	memcpy(text, in->value.bytes, in->value.size);
	with.value.bytes = text;
	with.value.size += (uint32_t)snprintf(text + in->value.size, sizeof(text) - in->value.size, " %016" PRIx64, number);
	return setxattr_on(rq, x->child[0], &with, out);
}

bool voucher_is_good(struct member *m, const struct request *rq, const struct gfid *g, const uint8_t voucher[VOUCHER_SIZE])
{
	struct bearer b = { rq->tree, rq->access };
	uint8_t right[VOUCHER_SIZE];

	return !voucher_make(m->x, &b, g, right) && !CRYPTO_memcmp(right, voucher, VOUCHER_SIZE);
}
