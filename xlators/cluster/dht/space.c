/* SPDX-License-Identifier: Apache-2.0 */
/* Which subvolume has room for a new file: the one that has the name, unless it has less than min-free and others have more. Directories take with
 * them what will be made in them: so these lean away from a subvolume that is fuller than the others long before. */
#include "dht.h"

enum { PERCENT = 100 };
/* As old as what is known of the room may be: while all have much more than they should keep; else. */
#define LOOK_EACH_NS  2000000000u
#define LOOK_OFTEN_NS 200000000u
#define MUCH	      (1ull << 30)
#define LOOK_NS	      200000000u /* so long a create waits for it at most */

/* In percent, rounded down; what does not count them has enough. */
static unsigned share(uint64_t free, uint64_t all)
{
	return all ? (unsigned)((unsigned __int128)free * PERCENT / all) : PERCENT;
}

/* Bytes above those that it should keep. */
static uint64_t to_spare(const struct dht *d, const struct statfs *fs)
{
	double spare = (double)fs->bavail - (double)fs->blocks * d->min_free / PERCENT;

	return spare < 0 ? 0 : (uint64_t)spare * (fs->frsize ? fs->frsize : 1);
}

static void note_space(struct space *s, const struct statfs *fs)
{
	unsigned blocks = share(fs->bavail, fs->blocks), files = share(fs->ffree, fs->files);

	atomic_store(&s->blocks, blocks);
	atomic_store(&s->least, blocks < files ? blocks : files);
	atomic_store(&s->bytes, fs->bavail * (fs->frsize ? fs->frsize : 1));
	atomic_store(&s->known, true);
}

/* One of the callers looks, if what is known is old; the others take what there is. */
static void look(struct request *rq, struct dht *d)
{
	uint64_t now = clock_ns(), seen = atomic_load(&d->space_seen_ns), mask = 0, until = now + LOOK_NS;
	cleanup_inode struct inode *root = root_of(d);
	struct statfs_in in = { .inode = root };
	uint64_t each = atomic_load(&d->space_scarce) ? LOOK_OFTEN_NS : LOOK_EACH_NS;
	bool scarce = false;
	struct fanout *f;

	if ((seen && now - seen < each) || !root || !atomic_compare_exchange_strong(&d->space_seen_ns, &seen, now))
		return;
	mask = members_present(d) & ~leaving_of(d); /* nothing new is put there */
	f = fanout_start(rq, d->x, FOP_statfs, &in, mask);
	if (!f)
		return;
	fanout_wait(f, d->x->children, rq->deadline_ns && rq->deadline_ns < until ? rq->deadline_ns : until);
	for (int i = 0; i < d->x->children; i++) {
		int err;
		const struct statfs_out *out = mask >> i & 1 ? fanout_out(f, i, &err) : NULL;

		if (out)
			note_space(&d->space[i], &out->statfs);
		else
			atomic_store(&d->space[i].known, false);
		scarce |= out && to_spare(d, &out->statfs) < MUCH;
	}
	atomic_store(&d->space_scarce, scarce);
	fanout_drop(f);
}

/* Of those with enough, each as often as it has room. -1: none has. */
static int choose(struct dht *d, int owner, const struct gfid *gfid)
{
	uint64_t sum = 0, at;

	for (int pass = 0; pass < 2; pass++) {
		at = sum ? gfid_ino(gfid) % sum : 0;
		for (int i = 0; i < d->x->children; i++) {
			const struct space *s = &d->space[i];
			uint64_t mib = atomic_load(&s->bytes) >> 20;

			if (i == owner || !atomic_load(&s->known) || atomic_load(&s->least) < d->min_free)
				continue;
			if (!pass)
				sum += mib + 1;
			else if (at <= mib)
				return i;
			else
				at -= mib + 1;
		}
	}
	return -1;
}

int place_for_new(struct request *rq, struct dht *d, int owner, const struct gfid *gfid)
{
	int other;

	if (d->min_free <= 0)
		return owner;
	look(rq, d);
	if (!atomic_load(&d->space[owner].known) || atomic_load(&d->space[owner].blocks) >= d->min_free)
		return owner;
	other = choose(d, owner, gfid);
	return other < 0 ? owner : other;
}

int place_when_full(struct request *rq, struct dht *d, int owner, const struct gfid *gfid)
{
	if (d->min_free <= 0)
		return -1;
	look(rq, d);
	atomic_store(&d->space[owner].blocks, 0);
	return choose(d, owner, gfid);
}

/* Of blocks or inodes, whichever is less, in points of a hundred; the mean of all that are known. */
static double mean_free(struct dht *d)
{
	unsigned sum = 0, count = 0;

	for (int i = 0; i < d->x->children; i++) {
		const struct space *s = &d->space[i];

		sum += atomic_load(&s->known) ? atomic_load(&s->least) : 0;
		count += atomic_load(&s->known);
	}
	return count ? (double)sum / count : 0;
}

static bool is_fuller(struct dht *d, int owner)
{
	const struct space *s = &d->space[owner];

	return d->lean > 0 && atomic_load(&s->known) && atomic_load(&s->least) + d->lean < mean_free(d);
}

int place_for_directory(struct request *rq, struct dht *d, int owner, const struct gfid *gfid)
{
	int other = -1;

	if (d->lean <= 0 && d->scatter <= 0)
		return owner;
	look(rq, d);
	if (is_fuller(d, owner) || (d->scatter > 0 && gfid_ino(gfid) / SUBVOLUMES_MAX % (uint64_t)d->scatter == 0))
		other = choose(d, owner, gfid);
	return other < 0 ? owner : other;
}
