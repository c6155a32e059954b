/* SPDX-License-Identifier: Apache-2.0 */
/* What a change touches: the objects whose tokens it needs, and the spans of them that it keeps from this client's other changes. */
#include "change.h"

enum {
	ITS_NAMES = 1
}; /* where other spans of names have the hash of one: of what is no directory, all names that lead to it */

static int plan_token(struct afr *a, struct plan *p, struct inode *inode)
{
	struct object *o = object_of(a, inode);
	unsigned at = 0;

	if (!o)
		return -ENOMEM;
	while (at < p->objects && memcmp(p->object[at]->inode->gfid.bytes, inode->gfid.bytes, 16) < 0)
		at++;
	if (at < p->objects && p->object[at] == o)
		return 0;
	memmove(&p->object[at + 1], &p->object[at], (p->objects - at) * sizeof(p->object[0]));
	p->object[at] = o;
	p->objects++;
	return 0;
}

/* Spans are locked in this order: by gfid, kind, start. Those of one object that collide become one. */
static int plan_span(struct afr *a, struct plan *p, struct inode *inode, enum span_kind kind, uint64_t start, uint64_t end)
{
	struct object *o = object_of(a, inode);
	unsigned at = 0;
	int order;

	if (!o)
		return -ENOMEM;
	while (at < p->spans) {
		order = memcmp(p->spanned[at]->inode->gfid.bytes, inode->gfid.bytes, 16);
		if (!order && (p->span[at].kind == SPAN_ALL || kind == SPAN_ALL ||
			       (p->span[at].kind == kind && p->span[at].start == start))) {
			if (kind == SPAN_ALL)
				p->span[at].kind = SPAN_ALL;
			p->span[at].end = end > p->span[at].end ? end : p->span[at].end;
			return 0;
		}
		if (order > 0 || (!order && p->span[at].start > start))
			break;
		at++;
	}
	memmove(&p->spanned[at + 1], &p->spanned[at], (p->spans - at) * sizeof(p->spanned[0]));
	memmove(&p->span[at + 1], &p->span[at], (p->spans - at) * sizeof(p->span[0]));
	p->spanned[at] = o;
	p->span[at] = (struct span){ kind, start, end, NULL };
	p->spans++;
	return 0;
}

uint64_t name_hash(const char *name)
{
	uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 0x100000001b3u;
	return h;
}

static int plan_data(struct afr *a, struct plan *p, struct inode *inode, uint64_t start, uint64_t size)
{
	int err = plan_token(a, p, inode);

	return err ? err : plan_span(a, p, inode, SPAN_DATA, start, size > UINT64_MAX - start ? UINT64_MAX : start + size);
}

int plan_all(struct afr *a, struct plan *p, struct inode *inode)
{
	int err = plan_token(a, p, inode);

	return err ? err : plan_span(a, p, inode, SPAN_ALL, 0, UINT64_MAX);
}

int plan_name(struct afr *a, struct plan *p, const struct loc *loc)
{
	uint64_t h;
	int err;

	if (!loc->parent || !loc->name)
		return -EINVAL;
	h = name_hash(loc->name);
	err = plan_token(a, p, loc->parent);
	return err ? err : plan_span(a, p, loc->parent, SPAN_NAME, h, h);
}

/* A write beyond what is copied may move the end of the source, at which copying ends. */
static int plan_copy(struct afr *a, struct plan *p, const struct copy_range_in *in)
{
	bool within = in->from->inode == in->to->inode;
	uint64_t from = within && in->to_offset < in->from_offset ? in->to_offset : in->from_offset;
	int err = plan_data(a, p, in->from->inode, from, UINT64_MAX);

	return err || within ? err : plan_data(a, p, in->to->inode, in->to_offset, in->length);
}

int plan_of(struct afr *a, enum fop fop, const void *in, struct plan *p)
{
	const struct setattr_in *setattr = in;
	const struct write_in *write = in;
	const struct fallocate_in *fallocate = in;
	const struct copy_range_in *copy = in;
	const struct link_in *link = in;
	int err;

	switch ((int)fop) {
	case FOP_setattr:
		return plan_all(a, p, setattr->file ? setattr->file->inode : setattr->inode);
	case FOP_setxattr:
		return plan_all(a, p, ((const struct setxattr_in *)in)->inode);
	case FOP_removexattr:
		return plan_all(a, p, ((const struct removexattr_in *)in)->inode);
	case FOP_write:
		return plan_data(a, p, write->file->inode, write->offset, write->data ? write->data->size : 0);
	case FOP_fallocate:
		return plan_data(a, p, fallocate->file->inode, fallocate->offset, UINT64_MAX);
	case FOP_copy_range:
		return plan_copy(a, p, copy);
	case FOP_link: /* its count of links changes: who has its token relies on knowing it */
		err = link->inode ? plan_all(a, p, link->inode) : 0;
		return err ? err : plan_name(a, p, &link->loc);
	case FOP_mknod:
		return plan_name(a, p, &((const struct mknod_in *)in)->loc);
	case FOP_mkdir:
		return plan_name(a, p, &((const struct mkdir_in *)in)->loc);
	case FOP_symlink:
		return plan_name(a, p, &((const struct symlink_in *)in)->loc);
	case FOP_create:
		return plan_name(a, p, &((const struct create_in *)in)->loc);
	case FOP_unlink:
		return plan_name(a, p, &((const struct unlink_in *)in)->loc);
	case FOP_rmdir:
		return plan_name(a, p, &((const struct rmdir_in *)in)->loc);
	case FOP_rename:
		err = plan_name(a, p, &((const struct rename_in *)in)->from);
		return err ? err : plan_name(a, p, &((const struct rename_in *)in)->to);
	default:
		return -EOPNOTSUPP;
	}
}

/* The names of what an unlink or rename takes them from. Their order is that of the directories; but who reads here how many there are must not count on
 * a change that has not been done by all yet. (What is not in memory nobody reads here: who says what goes has looked at it, and keeps it.) */
static int plan_expected(struct changing *c)
{
	unsigned count = 0;
	int err = 0;

	for (unsigned i = 0; i < c->note.objects && !err; i++) {
		struct inode *inode = note_only_names(&c->note, i) && !MUTANT("forget-its-names")
					      ? inode_find(c->a->x->inodes, &c->note.object[i].gfid)
					      : NULL;

		if (!inode)
			continue;
		c->plan.expected[count++] = inode;
		err = plan_span(c->a, &c->plan, inode, SPAN_NAME, ITS_NAMES, ITS_NAMES);
	}
	return err;
}

int plan_change(struct changing *c)
{
	int err = plan_of(c->a, c->fop, c->in, &c->plan);

	return err ? err : plan_expected(c);
}
