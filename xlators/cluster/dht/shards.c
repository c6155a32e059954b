/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that are at several subvolumes, but the root, which always is: what is known of one is in its inode's slot, in the place of a number; and what one
 * subvolume answers of one is made what all of them say. */
#include "dht.h"

#include <stdlib.h>
#include <string.h>

/* ---- what is known ---- */

/* With the lock held. What was known of its place is in them. */
static int put_shards(struct dht *d, struct inode *inode, struct shards *s)
{
	int err;

	do {
		uintptr_t number = (uintptr_t)inode_slot_take(inode, d->x);

		atomic_store(&s->away, number & 1);
		err = inode_slot_set(inode, d->x, s);
	} while (err == -EEXIST);
	return err;
}

void shards_free(struct shards *s)
{
	if (!s)
		return;
	spreads_free(s);
	free(s);
}

int shards_make(struct dht *d, struct inode *inode, int home, const struct layout *l)
{
	struct shards *s;
	int known, err;

	if (shards_of(d, inode))
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	known = place_known(d, inode);
	atomic_store(&s->home, known < 0 ? home : known);
	atomic_store(&s->reached, 1ull << s->home);
	err = spread_adopt(d, s, l);
	pthread_mutex_lock(&d->lock);
	if (!err && !shards_of(d, inode)) {
		err = put_shards(d, inode, s);
		s = err ? s : NULL;
	}
	pthread_mutex_unlock(&d->lock);
	shards_free(s);
	return err;
}

/* A shard that is not at home says itself where that is. */
int home_of_shard(struct request *rq, struct dht *d, struct inode *dir, int *child)
{
	struct getxattr_in in = { .inode = dir, .name = DHT_PARENT_XATTR };
	struct getxattr_out out = { 0 };
	struct who user = become_root(rq);
	struct parent p;
	int err = getxattr_on(rq, d->x->child[*child], &in, &out);

	become(rq, user);
	if (!err && !parent_decode(out.value.bytes, out.value.size, &p) && gfid_equal(&p.gfid, &dir->gfid))
		*child = (int)p.subvolume;
	fop_out_clear(FOP_getxattr, &out);
	return has_subvolume(d, (uint64_t)*child) ? 0 : -EIO;
}

/* ---- what is asked of one, and is of all ---- */

/* What an operation is about that names no name. */
struct inode *object_asked(enum fop fop, const void *in)
{
	struct inode *object = NULL;

	for (const struct field *f = fop_info[fop].in; f->name; f++) {
		const void *at = (const char *)in + f->offset;
		const struct loc *loc = at;

		if (f->kind == FIELD_LOC && loc->parent && loc->name)
			return NULL;
		if (f->kind == FIELD_LOC && !object)
			object = loc->inode;
		else if (f->kind == FIELD_INODE && !object)
			object = *(struct inode *const *)at;
		else if (f->kind == FIELD_FILE && *(struct file *const *)at && !object)
			object = (*(struct file *const *)at)->inode;
	}
	return object;
}

/* What was asked named its parent, whose layout may be the newest while its own is not. */
static int complete_by_layout(struct request *rq, struct dht *d, struct inode *dir, struct attr *attr)
{
	enum { TRIES = 10 };
	int err = -ELAYOUT;

	for (int i = 0; i < TRIES && err == -ELAYOUT; i++) {
		err = i ? learn_newer(rq, d, dir) : 0;
		if (!err)
			err = place_say_in(rq, d, dir);
		if (!err)
			err = shards_getattr(rq, d, dir, attr);
	}
	return err;
}

/* The brick tells that a directory has more shards than the one that it was asked for: what is told of all of them is another thing. */
static int complete(struct request *rq, struct dht *d, enum fop fop, struct inode *dir, struct attr *attr)
{
	int err;

	if (!(attr->flags & ATTR_WIDE))
		return 0;
	err = learn_wide(rq, d, dir);
	if (err)
		return err;
	if (fop != FOP_lookup && !is_spread(d, dir)) { /* it was told so by a brick which others have not been told of yet */
		attr->flags &= ~(uint32_t)ATTR_WIDE;
		return 0;
	}
	return is_spread(d, dir) ? complete_by_layout(rq, d, dir, attr) : -ELAYOUT;
}

int answer_completed(struct request *rq, struct dht *d, enum fop fop, const void *in, void *out, int err)
{
	struct lookup_out *found = out;
	struct inode *object;

	if (err)
		return err;
	if (fop == FOP_lookup) {
		err = complete(rq, d, fop, found->inode, &found->attr);
	} else if (fop == FOP_getattr) {
		err = complete(rq, d, fop, object_asked(fop, in), &((struct getattr_out *)out)->attr);
	} else if (fop == FOP_setattr && ((struct setattr_out *)out)->attr.flags & ATTR_WIDE) {
		object = object_asked(fop, in); /* times: the others are to have them, too */
		err = learn_wide(rq, d, object);
		return err ? err : -ELAYOUT;
	} else if (fop == FOP_readdir) {
		object = object_asked(fop, in);
		whole_listed(d, in, &((struct readdir_out *)out)->entries, place_known(d, object));
	}
	if (err) {
		fop_out_clear((int)fop, out);
		memset(out, 0, fop_info[fop].out_size);
	}
	return err;
}
