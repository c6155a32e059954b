/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and results of a tenant, in his form and in the brick's: ids, ACLs, and what he may not say. Fields of results are found by the
 * table of fops.def, so a fop that gets one more of a known kind is mapped, too. */
#include "cloud.h"
#include "lease.h"
#include "replica.h"

int id_in(struct cloud *c, const struct tenant *t, uint32_t *id)
{
	if (*id >= t->count) {
		atomic_fetch_add_explicit(&c->strange_ids, 1, memory_order_relaxed);
		return -EINVAL;
	}
	*id += t->base;
	return 0;
}

void id_out(struct cloud *c, const struct tenant *t, uint32_t *id)
{
	if (*id >= t->base && *id - t->base < t->count) {
		*id -= t->base;
		return;
	}
	atomic_fetch_add_explicit(&c->strange_ids, 1, memory_order_relaxed);
	*id = ID_NOBODY;
}

/* ---- the request ---- */

enum {
#define EXTENSION(name, number, critical, summary) EXTENSION_##name = number,
#include "extension.def"
#undef EXTENSION
};

/* The others are what the parts of a volume's own stack say to each other: no tenant has a use for them, whatever he calls critical. */
static bool is_for_tenants(const struct cloud *c, const struct guest *g, uint32_t type)
{
	return type == EXTENSION_TRACE || type == EXTENSION_BORN_WITH || type == EXTENSION_HELD ||
	       (g->spreads && type == EXTENSION_PLACE) || (c->replicas && type == EXTENSION_REPLICA);
}

static int extensions_in(const struct cloud *c, const struct guest *g, struct request *rq)
{
	const struct extension *e = rq->extensions;

	while (e) {
		if (is_for_tenants(c, g, e->type)) {
			e = e->next;
			continue;
		}
		if (e->critical)
			return -EOPNOTSUPP;
		request_retract(rq, e->type);
		e = rq->extensions;
	}
	return 0;
}

static int groups_in(struct cloud *c, const struct tenant *t, struct request *rq)
{
	for (int32_t i = 0; i < rq->group_count; i++)
		if (rq->groups[i] >= t->count) {
			atomic_fetch_add_explicit(&c->strange_ids, 1, memory_order_relaxed);
			return -EINVAL;
		}
	for (int32_t i = 0; i < rq->group_count; i++)
		rq->groups[i] += t->base;
	return 0;
}

int map_request(struct cloud *c, const struct guest *g, struct request *rq, struct asker *was)
{
	const struct tenant *t = &g->tenant;
	uint32_t uid = g->forced ? g->uid : rq->uid, gid = g->forced ? g->gid : rq->gid;
	int err = extensions_in(c, g, rq);

	*was = (struct asker){ rq->uid, rq->root,	 rq->gid,   rq->tree,	    rq->access,
			       rq->top, rq->administers, rq->moves, rq->group_count };
	if (!err)
		err = born_may(c, g->spreads, rq);
	if (!err)
		err = id_in(c, t, &uid);
	if (!err)
		err = id_in(c, t, &gid);
	if (!err && !g->forced)
		err = groups_in(c, t, rq);
	if (err)
		return err;
	if (g->forced)
		rq->group_count = 0; /* known, and none */
	rq->uid = uid;
	rq->gid = gid;
	rq->root = t->base;
	rq->tree = t->id;
	rq->access = g->access;
	rq->top = g->top;
	rq->administers = g->administers;
	rq->moves = g->moves;
	return 0;
}

void unmap_request(const struct guest *g, struct request *rq, const struct asker *was)
{
	for (int32_t i = 0; i < rq->group_count; i++)
		rq->groups[i] -= g->tenant.base;
	if (g->forced)
		rq->group_count = was->group_count;
	rq->uid = was->uid;
	rq->gid = was->gid;
	rq->root = was->root;
	rq->tree = was->tree;
	rq->access = was->access;
	rq->top = was->top;
	rq->administers = was->administers;
	rq->moves = was->moves;
}

/* ---- arguments ---- */

static int own(struct mapping *m, struct blob *value)
{
	void *copy = malloc(value->size);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, value->bytes, value->size);
	m->owned[m->count++] = value->bytes = copy;
	return 0;
}

static int acl_value(struct mapping *m, const char *name, struct blob *value)
{
	int err;

	if (!is_acl(name) || !value->size) /* of no size: the ACL is to go */
		return 0;
	err = own(m, value);
	return err ? err : acl_in(m->cloud, m->tenant, value->bytes, value->size);
}

/* Whose a file is whom the tenant does not have is not told to who moves it either: what he then makes is the tenant's, of its nobody, or its root if it has none. */
static int owner_in(struct mapping *m, uint32_t *id)
{
	if (m->moves && *id == ID_NOBODY && m->tenant->count <= ID_NOBODY)
		*id = 0;
	return id_in(m->cloud, m->tenant, id);
}

static int set_in(struct mapping *m, struct setattr_in *in)
{
	const struct inode *inode = in->inode ? in->inode : in->file ? in->file->inode : NULL;
	struct setattr *s = &in->set;
	int err = 0;

	if (s->valid & SET_UID)
		err = owner_in(m, &s->uid);
	if (!err && s->valid & SET_GID)
		err = owner_in(m, &s->gid);
	if (m->cloud->privileges && !m->moves && !(inode && S_ISDIR(inode->type)))
		s->mode &= ~(uint32_t)MASK_PRIVILEGES;
	return err;
}

/* What is to be born can't be what the brick itself has by that gfid. */
static int gfid_may(struct mapping *m, const struct gfid *gfid)
{
	bool brick = gfid_equal(gfid, &gfid_root) || gfid_equal(gfid, &gfid_tenants) || gfid_equal(gfid, &gfid_limbo);

	return brick || is_tenants_root(m->cloud, gfid) ? -EINVAL : 0;
}

static int mknod_in(struct mapping *m, struct mknod_in *in)
{
	if (m->cloud->devices && !m->moves && (S_ISCHR(in->mode) || S_ISBLK(in->mode)))
		return -EPERM;
	if (m->cloud->privileges && !m->moves)
		in->mode &= ~(uint32_t)MASK_PRIVILEGES;
	return gfid_may(m, &in->gfid);
}

static int create_in(struct mapping *m, struct create_in *in)
{
	if (m->cloud->privileges && !m->moves)
		in->mode &= ~(uint32_t)MASK_PRIVILEGES;
	return gfid_may(m, &in->gfid);
}

static int setxattr_in(struct mapping *m, struct setxattr_in *in)
{
	int err = in->name ? xattr_may_set(m->cloud, m->spreads, in->name) : -EINVAL;

	return err ? err : acl_value(m, in->name, &in->value);
}

static int condition_in(struct mapping *m, struct condition *c)
{
	int err;

	if (c->kind != IF_XATTR && c->kind != IF_NO_XATTR)
		return 0;
	err = c->name ? xattr_may_get(m->cloud, m->spreads, c->name) : -EINVAL;
	if (err)
		return -EPERM; /* whether there is one is not told either */
	return c->kind == IF_XATTR ? acl_value(m, c->name, &c->value) : 0;
}

struct mapped_steps {
	struct step step[COMPOUND_MAX];
	union any_in in[COMPOUND_MAX];
};

/* What a client may believe and has given up names nothing: recalls have numbers of the session's own. */
static int lease_may(const struct lease_in *in)
{
	return in->verb == LEASE_PROVE || in->verb == LEASE_RELEASED ? 0 : -EOPNOTSUPP;
}

static int compound_in(struct mapping *m, struct compound_in *in)
{
	struct mapped_steps *s = malloc(sizeof(*s));
	int err = s ? 0 : -ENOMEM;

	m->steps = s;
	if (!err && in->steps.count > COMPOUND_MAX)
		err = -EINVAL;
	for (uint32_t i = 0; !err && i < in->steps.count; i++) {
		s->step[i] = in->steps.step[i];
		if (s->step[i].fop == FOP_compound)
			return -EINVAL;
		err = condition_in(m, &s->step[i].condition);
		if (!err)
			err = map_in(m, (int)s->step[i].fop, s->step[i].in, &s->in[i]);
		s->step[i].in = &s->in[i];
	}
	in->steps.step = s ? s->step : NULL;
	return err;
}

static int name_may(const struct mapping *m, const char *name, int (*may)(const struct cloud *, bool spreads, const char *))
{
	return name ? may(m->cloud, m->spreads, name) : -EINVAL;
}

int map_in(struct mapping *m, int fop, const void *in, void *to)
{
	memcpy(to, in, fop_info[fop].in_size);
	switch (fop) {
	case FOP_setattr:
		return set_in(m, to);
	case FOP_mknod:
		return mknod_in(m, to);
	case FOP_mkdir:
		return gfid_may(m, &((struct mkdir_in *)to)->gfid);
	case FOP_symlink:
		return gfid_may(m, &((struct symlink_in *)to)->gfid);
	case FOP_create:
		return create_in(m, to);
	case FOP_setxattr:
		return setxattr_in(m, to);
	case FOP_getxattr:
		return name_may(m, ((struct getxattr_in *)to)->name, xattr_may_get);
	case FOP_removexattr:
		return name_may(m, ((struct removexattr_in *)to)->name, xattr_may_set);
	case FOP_compound:
		return compound_in(m, to);
	case FOP_lease:
		return lease_may(to);
	case FOP_replica: /* what is not for clients of a set is for the brick's own side */
		return m->cloud->replicas && ((const struct replica_in *)to)->verb < REPLICA_LEASE ? 0 : -EOPNOTSUPP;
	default:
		return 0;
	}
}

void mapping_end(struct mapping *m)
{
	for (unsigned i = 0; i < m->count; i++)
		free(m->owned[i]);
	free(m->steps);
}

/* ---- results ---- */

static void attr_out(struct cloud *c, const struct tenant *t, struct attr *a)
{
	id_out(c, t, &a->uid);
	id_out(c, t, &a->gid);
}

static void dirents_out(struct cloud *c, const struct tenant *t, struct dirents *d)
{
	for (uint32_t i = 0; i < d->count; i++)
		if (d->entry[i].inode)
			attr_out(c, t, &d->entry[i].attr);
}

static int results_out(struct cloud *c, const struct guest *g, const struct compound_in *in, struct results *r)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < r->count; i++)
		if (r->result[i].out)
			err = map_out(c, g, (int)r->result[i].fop, in->steps.step[i].in, r->result[i].out);
	return err;
}

int map_out(struct cloud *c, const struct guest *g, int fop, const void *in, void *out)
{
	const struct tenant *t = &g->tenant;
	int err = 0;

	for (const struct field *f = fop_info[fop].out; !err && f->name; f++) {
		void *at = (char *)out + f->offset;

		if (f->kind == FIELD_ATTR)
			attr_out(c, t, at);
		else if (f->kind == FIELD_DIRENTS)
			dirents_out(c, t, at);
		else if (f->kind == FIELD_RESULTS)
			err = results_out(c, g, in, at);
	}
	if (fop == FOP_listxattr)
		names_out(c, g->spreads, &((struct listxattr_out *)out)->names);
	if (fop == FOP_getxattr && is_acl(((const struct getxattr_in *)in)->name))
		err = acl_out(c, t, ((struct getxattr_out *)out)->value.bytes, ((struct getxattr_out *)out)->value.size);
	return err;
}
