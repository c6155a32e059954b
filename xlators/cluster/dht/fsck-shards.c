/* SPDX-License-Identifier: Apache-2.0 */
/* Directories at several subvolumes: the layout at home names all shards, and each is there. */
#include "fsck.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* As the brick has it; *l of version 0: none. */
static int read_layout(struct fsck *f, int child, struct inode *dir, struct layout *l)
{
	struct getxattr_in in = { .inode = dir, .name = DHT_LAYOUT_XATTR };
	struct getxattr_out out = { 0 };
	int err = getxattr_on(f->rq, f->d->x->child[child], &in, &out);

	*l = (struct layout){ .version = 0 };
	if (!err && layout_decode(out.value.bytes, out.value.size, l))
		err = -EIO;
	fop_out_clear(FOP_getxattr, &out);
	return err == -ENODATA || err == -EOPNOTSUPP ? 0 : err;
}

int fsck_say_layout(struct fsck *f, int child, struct inode *dir)
{
	struct layout l;
	struct place p;
	int err = is_root(dir) ? 0 : read_layout(f, child, dir, &l);

	if (err || is_root(dir) || !l.version)
		return err;
	err = place_of(f->rq, &p);
	if (err < 0)
		return err;
	p.directory[1] = dir->gfid;
	p.version[1] = l.version;
	return place_attach(f->rq, &p);
}

static int add(struct fsck *f, const struct broad *b)
{
	struct broad *more = realloc(f->broad, (f->broads + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	f->broad = more;
	f->broad[f->broads++] = *b;
	return 0;
}

int shards_meet(struct fsck *f, const struct spot *s)
{
	struct broad b = { .gfid = s->entry->inode->gfid, .home = s->child };
	struct layout l;
	int err;

	if (!(s->entry->attr.flags & ATTR_WIDE))
		return 0;
	err = fsck_ask(f);
	if (!err)
		err = read_layout(f, s->child, s->entry->inode, &l);
	if (err == -ESTALE || err == -ENOENT)
		return 0;
	if (err || !l.version || l.home != (uint32_t)s->child) /* it is a shard: the one at home tells of it */
		return err;
	for (unsigned i = 0; i < l.count; i++)
		if (has_subvolume(f->d, l.member[i].id))
			b.shards |= 1ull << l.member[i].id;
	return add(f, &b);
}

int shards_grow(struct fsck *f, const struct gfid *gfid)
{
	return add(f, &(struct broad){ .gfid = *gfid, .home = -1, .shards = UINT64_MAX });
}

static bool is_named(const struct fsck *f, const struct away *a)
{
	for (size_t i = 0; i < f->broads; i++)
		if (gfid_equal(&f->broad[i].gfid, &a->gfid) && f->broad[i].shards >> a->child & 1 &&
		    f->broad[i].home != a->child)
			return true;
	return false;
}

static int judge_there(struct fsck *f, const struct broad *b)
{
	int err = 0;

	for (int i = 0; i < f->d->x->children && !err && b->home >= 0; i++) {
		struct away a = { .gfid = b->gfid, .pgfid = b->gfid, .child = (uint8_t)i, .directory = true };
		struct suspect s = { .trouble = TROUBLE_SHARD, .child = i, .own = b->gfid, .type = S_IFDIR };
		struct aim aim = { .gfid = b->gfid, .pgfid = b->gfid, .child = i };
		char path[AWAY_PATH];
		const struct away *known = away_find(f, &b->gfid, i);

		if (i == b->home || !(b->shards >> i & 1) || (known && known->child == i))
			continue;
		err = look_where_it_leads(f, &aim, true);
		s.mark.hash = SHARD_MISSING;
		if (!err)
			err = suspect_add(f, s, strdup(away_path(&a, path)));
		err = err > 0 ? 0 : err;
	}
	return err;
}

int judge_shards(struct fsck *f)
{
	int err = 0;

	for (size_t i = 0; i < f->aways; i++)
		f->away[i].seen |= f->away[i].directory && is_named(f, &f->away[i]);
	for (size_t i = 0; i < f->broads && !err; i++)
		err = judge_there(f, &f->broad[i]);
	return err;
}

/* Another subvolume by what it says. */
static int is_born_as_shard(struct fsck *f, int child, struct inode *dir, int *home)
{
	struct getxattr_in in = { .inode = dir, .name = DHT_PARENT_XATTR };
	struct getxattr_out out = { 0 };
	struct parent p;
	int err = fsck_ask(f);

	if (!err)
		err = getxattr_on(f->rq, f->d->x->child[child], &in, &out);
	*home = !err && !parent_decode(out.value.bytes, out.value.size, &p) && gfid_equal(&p.gfid, &dir->gfid)
			? (int)p.subvolume
			: -1;
	fop_out_clear(FOP_getxattr, &out);
	return err == -ENODATA ? 0 : err;
}

static bool is_emptied(const struct fsck *f, int child)
{
	return child >= 0 && child < SUBVOLUMES_MAX && f->emptied >> child & 1 && !MUTANT("judge-what-moves");
}

/* While a subvolume is emptied ("Taking a subvolume out, in detail" in doc/distribution.md) what was at home there may be at home here soon, or is already: until its pointer
 * has been led here it says itself that its home is there, and may be as empty as a part that nobody needs. And what is left there itself has a layout, by which it leads on. */
static bool is_in_motion(const struct fsck *f, int child, int home, const struct layout *l)
{
	return is_emptied(f, home) || (is_emptied(f, child) && (home < 0 || l->version));
}

/* A directory in `away` without a pointer may be a shard that nobody names: whoever made it, or removed the others, died. Or it was at home there until its subvolume was to
 * leave: when that is taken back what is left of it stays, and whoever removes the directory does not know of it. */
int is_shard(struct fsck *f, int child, struct inode *dir, bool *yes, bool *moves)
{
	struct layout l = { .version = 0 };
	int home, err = is_born_as_shard(f, child, dir, &home);

	if (!err)
		err = fsck_ask(f);
	if (!err)
		err = read_layout(f, child, dir, &l);
	*yes = !err && (home >= 0 || (l.version && l.home != (uint32_t)child));
	*moves = !err && is_in_motion(f, child, home, &l);
	return err == -ENOENT || err == -ESTALE ? 0 : err;
}
