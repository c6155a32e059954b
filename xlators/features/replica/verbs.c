/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of the fop `replica`: what clients and the coordinator ask of a member. */
#include "verbs.h"

static struct gfid called_here(const struct asked *a, const struct gfid *g)
{
	return gfid_equal(g, &gfid_root) ? *request_top(a->rq) : *g;
}

struct gfid verb_gfid_held(struct asked *a)
{
	struct gfid g = unpack_gfid(&a->u);

	return called_here(a, &g);
}

/* The rename token has the gfid of a directory that is no tenant's. */
static bool needs_voucher(const struct asked *a, const struct gfid *said)
{
	return request_is_tenants(a->rq) && !gfid_equal(said, &gfid_root) &&
	       !(a->in->verb == REPLICA_ACQUIRE && gfid_equal(said, &gfid_rename_token));
}

int verb_gfid(struct asked *a, struct gfid *g)
{
	struct gfid said = unpack_gfid(&a->u);
	uint8_t voucher[VOUCHER_SIZE];

	*g = called_here(a, &said);
	if (request_is_tenants(a->rq))
		unpack_bytes(&a->u, voucher, sizeof(voucher));
	if (a->u.failed)
		return -EINVAL;
	return !needs_voucher(a, &said) || voucher_is_good(a->m, a->rq, g, voucher) ? 0 : -ESTALE;
}

static int from_client(struct asked *a)
{
	switch (a->in->verb) {
	case REPLICA_ATTACH:
		return verb_attach(a);
	case REPLICA_DETACH:
		return verb_detach(a);
	case REPLICA_ACQUIRE:
		return verb_acquire(a);
	case REPLICA_RELEASE:
		return verb_release(a);
	case REPLICA_SETTLE:
		return verb_settle(a);
	case REPLICA_LOWER:
		return verb_lower(a);
	case REPLICA_TRY:
		return verb_try(a);
	case REPLICA_SHARE:
		return verb_share(a);
	case REPLICA_BELIEVE:
		return verb_believe(a);
	case REPLICA_SUSPECT:
		return verb_suspect(a);
	case REPLICA_FAILED:
		return verb_failed(a);
	case REPLICA_LINKS:
		return verb_links(a, a->in->inode);
	case REPLICA_DIRECTORY:
		return verb_find_directory(a);
	case REPLICA_UNLINKED:
		return verb_find_unlinked(a);
	case REPLICA_NAMES:
		return verb_names(a);
	case REPLICA_OUTCOME:
		return verb_outcome(a);
	case REPLICA_SKIP:
		return verb_skip(a);
	default:
		return -EOPNOTSUPP;
	}
}

bool member_is_back(struct member *m)
{
	bool yes;

	pthread_mutex_lock(&m->lock);
	yes = member_state(m) == MEMBER_BACK;
	pthread_mutex_unlock(&m->lock);
	return yes;
}

/* If it says of which process, another does not answer for it. One that has lost something is not the truth for others, nor has it all again, if that is what it is asked for. */
static int verb_sync(struct asked *a)
{
	bool is_truth = unpack_more(&a->u), whole;
	int err;

	if (is_truth && unpack_u64(&a->u) != a->m->incarnation)
		return -EVIEW;
	if (MUTANT("heal-unsynced"))
		return 0;
	err = member_sync(a->m, &whole);
	if (!err && !whole && (is_truth || (member_is_back(a->m) && !MUTANT("healed-enough"))))
		err = -EIO;
	return err;
}

static int from_coordinator(struct asked *a, uint64_t epoch)
{
	switch (a->in->verb) {
	case REPLICA_LEASE:
		return verb_lease(a);
	case REPLICA_FREEZE:
		return verb_freeze(a, epoch);
	case REPLICA_NOTES:
		return verb_notes(a, epoch);
	case REPLICA_REPEATED:
		return verb_repeated(a, epoch);
	case REPLICA_ADD_NOTES:
		return verb_add_notes(a, epoch);
	case REPLICA_ADD_PENDING:
		return verb_add_pending(a, epoch);
	case REPLICA_ACTIVATE:
		return verb_activate(a, epoch);
	case REPLICA_RESOLVE:
		return verb_resolve(a, epoch);
	case REPLICA_INDEX:
		return verb_list_index(a);
	case REPLICA_PENDING:
		return verb_list_pending(a);
	case REPLICA_STRIKE:
		return verb_strike(a, epoch);
	case REPLICA_FIND:
		return verb_find(a);
	case REPLICA_LOSE:
		return verb_lose(a, epoch);
	case REPLICA_DISTRUST:
		return verb_distrust(a, epoch);
	case REPLICA_FOLLOW:
		return verb_follow(a, epoch);
	case REPLICA_SYNC:
		return verb_sync(a);
	case REPLICA_CHECKSUM:
		return verb_checksum(a);
	case REPLICA_DID:
		return verb_did(a);
	case REPLICA_DEPARTING:
		return verb_departing(a, epoch);
	case REPLICA_DEPART:
		return verb_depart(a, epoch);
	default:
		return -EOPNOTSUPP;
	}
}

/* Compares in a time that does not depend on where they differ. */
static bool secret_is(const struct member *m, const uint8_t given[REPLICA_SECRET_SIZE])
{
	uint8_t differs = 0;

	for (unsigned i = 0; i < REPLICA_SECRET_SIZE; i++)
		differs |= m->secret[i] ^ given[i];
	return !differs;
}

/* Who has a certificate that says otherwise is not believed, whatever secret it knows. Without TLS, or where certificates say nothing of the kind,
 * the secret is all there is. */
static bool may_coordinate(const struct client *c)
{
	return !c || !c->identity || !strcmp(c->identity, "stratus:server");
}

int member_verb(struct request *rq, struct xlator *x, const struct replica_in *in, struct replica_out *out)
{
	struct asked a = { rq, member_of(x), in, out, unpack_blob(&in->data), { 0 } };
	uint8_t secret[REPLICA_SECRET_SIZE];
	uint64_t epoch;
	int err;

	if (in->verb < REPLICA_LEASE) {
		err = from_client(&a);
	} else if (request_is_tenants(rq)) {
		return -EOPNOTSUPP;
	} else {
		unpack_bytes(&a.u, secret, sizeof(secret));
		epoch = unpack_u64(&a.u);
		if (a.u.failed || !secret_is(a.m, secret) || !may_coordinate(rq->client))
			return -EPERM;
		atomic_store(&a.m->coordinator, rq->client);
		err = from_coordinator(&a, epoch);
	}
	if (!err)
		err = pack_end(&a.answer, &out->data);
	if (err) {
		pack_free(&a.answer);
		fop_out_clear(FOP_replica, out);
	}
	return err;
}
