/* SPDX-License-Identifier: Apache-2.0 */
/* A subvolume that leaves the volume: its bricks hear of it, some soon and some late; and in the end nothing is there, and nothing leads there. */
#include "away.h"
#include "disk.h"
#include "layout.h"
#include "place.h"
#include "work.h"

enum { LATE_MS = 3000 };

/* ---- who hears of it ---- */

static void tell_brick(void *arg)
{
	struct node *n = arg;
	struct xlator *x = n->ready ? graph_find(n->graph, "layout") : NULL;
	struct problem p = { "" };

	if (x && option_change(x->type->options, x->private, x->name, "leaving", "on", &p))
		sim_fail("%s does not take that it leaves: %s", n->name, p.text);
}

void leave_tell_bricks(void)
{
	bool late = chance_below(CHANCE_GROW, 2);

	for (unsigned i = 0; plan_leaves() && i < bricks_count(); i++)
		if ((int)subvolume_of(i) == plan.leaver && node_brick(i)->shard)
			sim_after(node_brick(i), late ? chance_below(CHANCE_GROW, LATE_MS) * MS : 0, tell_brick, node_brick(i));
}

/* ---- names that the power left without what they led to ---- */

enum { DEPTH_MAX = 6 };

static void remove_lost_in(struct request *rq, struct xlator *x, struct inode *dir, unsigned depth);

static void look_for_lost(struct request *rq, struct xlator *x, struct inode *dir, const char *name, unsigned depth)
{
	struct lookup_in in = { .loc = { .parent = dir, .name = (char *)name } };
	struct lookup_out out = { 0 };
	struct unlink_in remove = { .loc = in.loc };
	struct unlink_out removed = { 0 };
	int err = lookup_on(rq, x, &in, &out);

	if (!err && S_ISDIR(out.attr.mode))
		remove_lost_in(rq, x, out.inode, depth + 1);
	if (err == -EIO)
		trace("%s leads to nothing, and is removed: %d", name, unlink_on(rq, x, &remove, &removed));
	fop_out_clear(FOP_lookup, &out);
}

static void remove_lost_in(struct request *rq, struct xlator *x, struct inode *dir, unsigned depth)
{
	char name[32];

	for (unsigned i = 0; i < NAMES && depth < DEPTH_MAX; i++)
		look_for_lost(rq, x, dir, names[i], depth);
	for (unsigned i = 0; depth < DEPTH_MAX && keepers_name(i, name); i++)
		look_for_lost(rq, x, dir, name, DEPTH_MAX);
}

void leave_remove_lost(struct node *n)
{
	struct inode *root = inode_get(n->graph->inodes, &gfid_root, S_IFDIR);
	struct request rq;

	request_init(&rq, n->graph, 0);
	remove_lost_in(&rq, graph_find(n->graph, "distribute"), root, 0);
	request_finish(&rq);
	inode_unref(root);
}

/* ---- what there is in the end ---- */

static const struct blob *xattr_of(const struct disk_object *o, const char *name)
{
	const struct disk_pair *x = o->xattr;

	while (x && strcmp(x->name, name))
		x = x->next;
	return x ? &x->value : NULL;
}

static bool leads_there(const struct disk_object *o, const char *xattr, size_t at)
{
	const struct blob *value = xattr_of(o, xattr);

	return value && value->size > at && ((const uint8_t *)value->bytes)[at] == (uint8_t)plan.leaver;
}

static bool names_leaver(const struct disk_object *o)
{
	const struct blob *value = xattr_of(o, DHT_LAYOUT_XATTR);
	struct layout l;

	return value && !layout_decode(value->bytes, value->size, &l) && (l.moving || layout_find(&l, (uint32_t)plan.leaver));
}

/* At another subvolume. What the power took at the one that leaves may be led to still, as it was before. */
static void check_other(struct disk_object *o, void *arg)
{
	unsigned brick = *(const unsigned *)arg;
	char text[GFID_TEXT];
	const char *why = !o->attr.nlink			 ? NULL /* who has it open keeps it */
			  : names_leaver(o)			 ? "has a layout with it"
			  : nemesis_cut_all()			 ? NULL
			  : leads_there(o, DHT_POINTER_XATTR, 4) ? "leads there"
			  : leads_there(o, DHT_PARENT_XATTR, 12) ? "says that its name is there"
								 : NULL;

	if (why && !sim_failure())
		sim_fail("subvolume %d has left, and %.8s at brick%u %s", plan.leaver, gfid_text(&o->attr.gfid, text), brick,
			 why);
}

static void check_leaver(struct disk *d, const struct disk_entry *e, unsigned brick)
{
	const struct disk_object *o = disk_find(d, &e->gfid);

	if (!o || !S_ISDIR(o->attr.mode) || o->entry || names_leaver(o) || !xattr_of(o, DHT_LAYOUT_XATTR))
		sim_fail("brick%u of subvolume %d, which has left, has %s still", brick, plan.leaver, e->name);
}

/* Below .stratus.dht: away/XX/d.GFID that are empty, and nothing in work. */
static void check_below(struct disk *d, const struct disk_object *dir, unsigned depth, unsigned brick)
{
	for (const struct disk_entry *e = dir->entry; e && !sim_failure(); e = e->next)
		if (depth == 2)
			check_leaver(d, e, brick);
		else
			check_below(d, disk_find(d, &e->gfid), depth + 1, brick);
}

void check_left(void)
{
	for (unsigned i = 0; plan_leaves() && i < bricks_count() && !sim_failure(); i++) {
		struct disk *d = disk_of(i);
		const struct disk_entry *e = disk_find(d, &gfid_root)->entry;

		if ((int)subvolume_of(i) != plan.leaver)
			disk_each(d, check_other, &i);
		for (; e && (int)subvolume_of(i) == plan.leaver; e = e->next)
			check_below(d, disk_find(d, &e->gfid), 0, i);
	}
}
