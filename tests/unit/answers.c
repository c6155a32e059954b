/* SPDX-License-Identifier: Apache-2.0 */
/* test/answers: above a leaf, answers those verbs of features/replica that healing needs. Fails now and then if told so. */
#include <fcntl.h>
#include <xxhash.h>

#include "replica.h"

enum { PIECE = 65536 };
struct answers {
	atomic_uint every, calls; /* each that many-th call of a heal fails, half of them when they are done; 0: none */
};

static bool fails(struct xlator *x)
{
	struct answers *a = x->private;
	unsigned every = atomic_load(&a->every);

	return every && atomic_fetch_add(&a->calls, 1) % every == every - 1;
}

static int answer_find(struct xlator *x, struct unpack *u, struct replica_out *out)
{
	struct gfid gfid = unpack_gfid(u);
	struct xlator *leaf = x->child[0];
	cleanup_inode struct inode *inode = inode_find(x->inodes, &gfid);
	int err = inode ? leaf->type->inode_links(leaf, inode, &out->data) : -ENOENT;

	if (err)
		return err == -ESTALE ? -ENOENT : err;
	out->inode = inode_ref(inode);
	return 0;
}

static int hash_file(struct request *rq, struct xlator *x, struct file *file, uint64_t at, uint64_t length, XXH3_state_t *state)
{
	int err = 0;

	while (length && !err) {
		struct read_in in = { .file = file, .offset = at, .size = length < PIECE ? (uint32_t)length : PIECE };
		struct read_out out = { 0 };
		const char *bytes;
		size_t size = 0;

		err = read_on(rq, x->child[0], &in, &out);
		bytes = err ? NULL : buffer_bytes(out.data, &size);
		XXH3_128bits_update(state, bytes, size);
		fop_out_clear(FOP_read, &out);
		if (!size)
			break;
		at += size;
		length -= size;
	}
	return err;
}

static int answer_checksum(struct request *rq, struct xlator *x, struct inode *inode, struct unpack *u, struct blob *sum)
{
	uint64_t offset = unpack_u64(u), length = unpack_u64(u);
	struct open_in in = { .inode = inode, .flags = O_RDONLY };
	struct open_out out = { 0 };
	XXH3_state_t *state = XXH3_createState();
	XXH128_canonical_t digest;
	int err = inode ? open_on(rq, x->child[0], &in, &out) : -EINVAL;

	XXH3_128bits_reset(state);
	if (!err)
		err = hash_file(rq, x, out.file, offset, length, state);
	XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(state));
	XXH3_freeState(state);
	if (out.file) {
		struct release_in release = { .file = out.file };
		struct release_out released = { 0 };

		release_on(rq, x->child[0], &release, &released);
	}
	fop_out_clear(FOP_open, &out);
	if (err)
		return err;
	*sum = (struct blob){ sizeof(digest), malloc(sizeof(digest)) };
	memcpy(sum->bytes, &digest, sizeof(digest));
	return 0;
}

static int answers_replica(struct request *rq, struct xlator *x, const struct replica_in *in, struct replica_out *out)
{
	struct unpack u = unpack_blob(&in->data);
	uint8_t secret[REPLICA_SECRET_SIZE];

	if (fails(x))
		return -ENOTCONN;
	unpack_bytes(&u, secret, sizeof(secret));
	if (unpack_u64(&u) != 7 || secret[31] != 's')
		return -EVIEW;
	switch (in->verb) {
	case REPLICA_FIND:
		return answer_find(x, &u, out);
	case REPLICA_LINKS:
		return in->inode ? x->child[0]->type->inode_links(x->child[0], in->inode, &out->data) : -EINVAL;
	case REPLICA_CHECKSUM:
		return answer_checksum(rq, x, in->inode, &u, &out->data);
	default:
		return -EOPNOTSUPP;
	}
}

static int pass(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	if (!fails(x))
		return fop_pass(rq, x, fop, in, out);
	if (rq->id & 1 && fop_info[fop].flags & FOP_MUTATES && !fop_pass(rq, x, fop, in, out))
		fop_out_clear((int)fop, out);
	return -ENOTCONN;
}

/* In the test's program, if it has one: before a call of a heal is done at that member. */
__attribute__((weak, visibility("default"))) void test_gets_in(struct xlator *member, enum fop, const void *in);

/* Every change carries the stamp of a heal, or comes from the test itself, which tells so by its time. */
static int answers_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct replica_stamp s = { 0 };
	int err;

	if (!rq->time_ns && fop_info[fop].flags & FOP_MUTATES && (!stamp_of(rq, &s) || s.epoch != 7 || s.flags != REPLICA_HEAL))
		return -EVIEW;
	if (rq->time_ns)
		return fop_pass(rq, x, fop, in, out);
	if (test_gets_in)
		test_gets_in(x, fop, in);
	rq->time_ns = s.time;
	err = pass(rq, x, fop, in, out);
	rq->time_ns = 0;
	return err;
}

/* fail-every N */
static int answers_command(struct xlator *x, int argc, char **argv, FILE *f)
{
	struct answers *a = x->private;

	(void)f;
	atomic_store(&a->every, argc == 2 ? (unsigned)atoi(argv[1]) : 0);
	return 0;
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "test/answers",
	.summary = "answer as features/replica would, for tests of healing",
	.private_size = sizeof(struct answers),
	.command = answers_command,
	.min_children = 1,
	.max_children = 1,
	.any = answers_any,
	.replica = answers_replica,
};
