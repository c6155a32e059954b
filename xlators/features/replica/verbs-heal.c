/* SPDX-License-Identifier: Apache-2.0 */
/* What healing asks of a member: what is pending, what is struck off that list, checksums. */
#include <fcntl.h>
#include <xxhash.h>

#include "verbs.h"

enum { GFIDS_IN_ONE = 3000, PIECE = 1 << 20 };

int verb_list_index(struct asked *a)
{
	uint64_t above = unpack_u64(&a->u), cursor = unpack_u64(&a->u), at = cursor & UINT32_MAX;
	const struct index *i = &a->m->index;
	unsigned count = 0;
	struct pack list = { 0 };

	pthread_mutex_lock(&a->m->lock);
	if (cursor >> 32 != i->compactions) /* entries have moved: from the beginning, twice told is no harm */
		at = 0;
	for (; at < i->count && count < GFIDS_IN_ONE; at++) {
		if (i->entry[at].generation <= above)
			continue;
		pack_gfid(&list, &i->entry[at].gfid);
		pack_u32(&list, i->entry[at].type);
		count++;
	}
	pack_u8(&a->answer, above < i->floor);
	pack_u64(&a->answer, at < i->count ? (uint64_t)i->compactions << 32 | at : 0);
	pthread_mutex_unlock(&a->m->lock);
	pack_bytes(&a->answer, list.bytes, list.size);
	pack_free(&list);
	return 0;
}

int verb_list_pending(struct asked *a)
{
	size_t cursor = unpack_u64(&a->u);
	const struct gfid *g;

	pthread_mutex_lock(&a->m->lock);
	if (!cursor)
		gfid_set_free(&a->m->again);
	pack_u64(&a->answer, a->m->pending.count);
	pack_u8(&a->answer, a->m->all_pending);
	for (unsigned n = 0; n < GFIDS_IN_ONE && (g = gfid_set_next(&a->m->pending, &cursor)); n++)
		pack_gfid(&a->answer, g);
	pthread_mutex_unlock(&a->m->lock);
	return 0;
}

/* Those that are open here without a name were not healed: nobody gets to see them here any more. */
static int bury(struct request *rq, struct member *m, uint64_t epoch, struct unpack gfids)
{
	int err = 0;

	while (err >= 0 && unpack_more(&gfids)) {
		struct gfid g = unpack_gfid(&gfids);
		cleanup_inode struct inode *inode = NULL;

		err = find_nameless(rq, m, &g, &inode);
		if (err && err != -ENOENT && err != -EXDEV)
			return err;
		if (err || !S_ISREG(inode->type)) {
			err = 0;
			continue;
		}
		pthread_mutex_lock(&m->lock);
		err = epoch == m->view.epoch ? gfid_set_add(&m->dead, &g) : -EVIEW;
		pthread_mutex_unlock(&m->lock);
	}
	return err < 0 ? err : 0;
}

/* With the lock held. */
static int strike(struct member *m, const struct gfid *g, bool gone)
{
	int err = 0;

	if (!gone)
		gfid_set_remove(&m->unhealed, g);
	else
		err = gfid_set_add(&m->unhealed, g);
	if (err >= 0 && m->all_pending)
		err = gfid_set_add(&m->healed, g);
	if (err < 0)
		return err;
	gfid_set_remove(&m->pending, g);
	gfid_set_remove(&m->follows, g);
	return 0;
}

int verb_strike(struct asked *a, uint64_t epoch)
{
	uint8_t flags = unpack_u8(&a->u);
	struct member *m = a->m;
	int err = flags & STRIKE_GONE ? bury(a->rq, m, epoch, a->u) : 0;
	uint32_t kept = 0;

	if (err)
		return err;
	pthread_mutex_lock(&m->lock);
	if (epoch != m->view.epoch)
		err = -EVIEW;
	while (!err && unpack_more(&a->u)) {
		struct gfid g = unpack_gfid(&a->u);

		if (gfid_set_has(&m->again, &g) &&
		    !MUTANT("strike-anyway")) { /* a change was skipped while it was healed: once more */
			kept++;
			continue;
		}
		err = strike(m, &g, flags & STRIKE_GONE);
	}
	if (!err && flags & STRIKE_REST) {
		m->all_pending = false;
		gfid_set_free(&m->healed);
	}
	pthread_mutex_unlock(&m->lock);
	pack_u32(&a->answer, kept);
	return err;
}

int verb_follow(struct asked *a, uint64_t epoch)
{
	struct gfid g = unpack_gfid(&a->u);
	int err;

	if (a->u.failed)
		return -EINVAL;
	pthread_mutex_lock(&a->m->lock);
	err = epoch == a->m->view.epoch && member_state(a->m) == MEMBER_BACK ? gfid_set_add(&a->m->follows, &g) : -EVIEW;
	if (err >= 0)
		gfid_set_remove(&a->m->again, &g);
	pthread_mutex_unlock(&a->m->lock);
	return err < 0 ? err : 0;
}

static int hash_file(struct asked *a, struct file *file, uint64_t offset, uint64_t length)
{
	XXH3_state_t *state = XXH3_createState();
	XXH128_canonical_t canonical;
	int err = state ? 0 : -ENOMEM;

	if (state)
		XXH3_128bits_reset(state);
	while (!err && length) {
		struct read_in in = { file, offset, length < PIECE ? (uint32_t)length : PIECE };
		struct read_out out = { 0 };
		uint32_t got;

		err = read_on(a->rq, a->m->x->child[0], &in, &out);
		got = err || !out.data ? 0 : out.data->size;
		if (got)
			XXH3_128bits_update(state, out.data->data, got);
		fop_out_clear(FOP_read, &out);
		offset += got;
		length -= got;
		if (got < in.size)
			break;
	}
	if (!err) {
		XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
		pack_bytes(&a->answer, canonical.digest, sizeof(canonical.digest));
	}
	XXH3_freeState(state);
	return err;
}

int verb_checksum(struct asked *a)
{
	uint64_t offset = unpack_u64(&a->u), length = unpack_u64(&a->u);
	struct open_in in = { a->in->inode, O_RDONLY };
	struct open_out out = { 0 };
	struct release_in done;
	struct release_out nothing = { 0 };
	int err;

	if (!a->in->inode || a->u.failed)
		return -EINVAL;
	err = open_on(a->rq, a->m->x->child[0], &in, &out);
	if (err)
		return err;
	if (member_is_back(a->m) && a->m->leaf->type->reread &&
	    !MUTANT("heal-by-memory")) /* what a disk could not write is in memory yet, and looks equal */
		a->m->leaf->type->reread(a->m->leaf, out.file, offset, length);
	err = hash_file(a, out.file, offset, length);
	done.file = out.file;
	release_on(a->rq, a->m->x->child[0], &done, &nothing);
	fop_out_clear(FOP_open, &out);
	return err;
}

/* It is open here without a name, and no member that can be trusted has it: so what is left of it here may be out of date. */
int verb_lose(struct asked *a, uint64_t epoch)
{
	struct gfid g = unpack_gfid(&a->u);
	cleanup_inode struct inode *inode = NULL;
	int err = a->u.failed ? -ENOENT : find_nameless(a->rq, a->m, &g, &inode);

	if (err == -ENOENT || err == -EXDEV || (err && MUTANT("lose-perhaps")))
		return 0;
	if (err) /* it may be here, and without a name: to be told again */
		return err;
	pthread_mutex_lock(&a->m->lock);
	if (epoch == a->m->view.epoch)
		err = gfid_set_add(&a->m->dead, &g);
	else
		err = -EVIEW;
	pthread_mutex_unlock(&a->m->lock);
	return err < 0 ? err : 0;
}
