/* SPDX-License-Identifier: Apache-2.0 */
/* That client and subvolumes have one layout of the root: a name is looked for, and made, only where the brick finds that it belongs. The
 * layout is written by the first who needs it, at the home and then at the subvolume that he comes to. It follows from the number of
 * subvolumes, so all write the same, and who is interrupted is gone on after by the next. */
#include "dht.h"

#include <sys/xattr.h>

enum { TRIES = 4 };
enum { UNWRITTEN = 1 }; /* there is none, and none can be written: what is full, or may only be read, goes on without */
#define ASK_NS 10000000000u

/* 0: the subvolume has this layout; -ENODATA: none yet; -EIO: another one. */
static int compare_at(struct request *rq, struct dht *d, struct inode *root, int child)
{
	struct getxattr_in in = { .inode = root, .name = DHT_LAYOUT_XATTR };
	struct getxattr_out out = { 0 };
	uint8_t ours[LAYOUT_SIZE_MAX];
	size_t size = layout_encode(&d->root, ours);
	int err = getxattr_on(rq, d->x->child[child], &in, &out);

	if (!err && (out.value.size != size || memcmp(out.value.bytes, ours, size))) {
		err = -EIO;
		if (!atomic_exchange(&d->disagrees, true))
			log_error(
				d->x, NULL,
				"%s belongs to a volume with other subvolumes than these %d: nothing is done in the root there; give the "
				"volume file of that volume",
				d->x->child[child]->name, d->x->children);
	}
	free(out.value.bytes);
	return err;
}

static int write_at(struct request *rq, struct dht *d, struct inode *root, int child)
{
	uint8_t ours[LAYOUT_SIZE_MAX];
	struct setxattr_in in = { .inode = root, .name = DHT_LAYOUT_XATTR, .flags = XATTR_CREATE };
	struct setxattr_out out = { 0 };
	int err = compare_at(rq, d, root, child);

	if (err != -ENODATA)
		return err;
	in.value = (struct blob){ (uint32_t)layout_encode(&d->root, ours), ours };
	err = setxattr_on(rq, d->x->child[child], &in, &out);
	if (err == -ENOSPC || err == -EDQUOT || err == -EROFS)
		return UNWRITTEN;
	return err == -EEXIST ? compare_at(rq, d, root, child) : err;
}

/* 0, UNWRITTEN, or -errno. As root, whoever it is for. */
static int agree(const struct request *for_rq, struct dht *d, int child)
{
	cleanup_inode struct inode *root = root_of(d);
	struct request rq;
	int err = root ? 0 : -ENOMEM;

	request_init(&rq, d->x->graph, 0);
	rq.group_count = 0;
	rq.deadline_ns = for_rq->deadline_ns ? for_rq->deadline_ns : clock_ns() + ASK_NS;
	if (!err && child != (int)d->root.home) /* that one's counts: it is the first to have it */
		err = compare_at(&rq, d, root, child) == -ENODATA ? write_at(&rq, d, root, (int)d->root.home) : 0;
	if (!err)
		err = write_at(&rq, d, root, child);
	request_finish(&rq);
	if (!err)
		atomic_fetch_or(&d->agreed, 1ull << child);
	return err;
}

/* Versions of the directories of its names; false: none is in the root, which alone may have a layout. */
static bool names_root(enum fop fop, const void *in, uint64_t version, struct place *p)
{
	bool any = false;
	int n = 0;

	for (const struct field *f = fop_info[fop].in; f->name; f++) {
		const struct loc *loc = (const struct loc *)((const char *)in + f->offset);
		bool here;

		if (f->kind != FIELD_LOC)
			continue;
		here = loc->name && is_root(loc->parent);
		p->version[n++] = here ? version : 0;
		any |= here;
	}
	return any;
}

static int not_its_place(struct dht *d, int child)
{
	if (!atomic_exchange(&d->disagrees, true))
		log_error(
			d->x, NULL,
			"%s does not take names that belong to it: it is another of the subvolumes than the volume file has in that place",
			d->x->child[child]->name);
	return -EIO;
}

int call_by_layout(struct request *rq, struct dht *d, int child, enum fop fop, const void *in, void *out)
{
	struct place p = { 0 };
	int err = 0;

	if (!names_root(fop, in, 0, &p))
		return fop_call(rq, d->x->child[child], fop, in, out);
	if (!(atomic_load(&d->agreed) >> child & 1)) /* two volumes' layouts may have the same version */
		err = agree(rq, d, child);
	for (int tries = 0; err >= 0 && tries < TRIES; tries++) {
		names_root(fop, in, err == UNWRITTEN ? 0 : d->root.version, &p);
		err = place_attach(rq, &p);
		if (!err)
			err = fop_call(rq, d->x->child[child], fop, in, out);
		place_detach(rq);
		if (err != -ELAYOUT)
			return err;
		err = agree(rq, d, child);
	}
	return err < 0 ? err : not_its_place(d, child);
}
