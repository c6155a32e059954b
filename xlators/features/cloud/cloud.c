/* SPDX-License-Identifier: Apache-2.0 */
/* features/cloud: one brick for many tenants. Each has a tree of his own, ids of his own, and sees nothing else. doc/tenants.md has the reasons. */
#include "cloud.h"
#include "location.h"
#include "place.h"
#include "quota.h"
#include "task.h"

#define AT(field) OPTION_AT(struct cloud, field)
static const struct option options[] = {
	{ "tenants", OPTION_STRING, AT(tenants), "",
	  "the tenants, apart by commas, each NAME ID BASE COUNT STATE: whose certificate says stratus:tenant/NAME has the tree whose "
	  "gfid is ID, with BASE + u in place of its user and group u, which is below COUNT; STATE is active, suspended or deleted",
	  .live = true, .parsed = true },
	{ "access", OPTION_STRING, AT(access), "",
	  "access points, apart by commas, each TENANT ID UID GID MODE EXPIRES DIRECTORY: whose certificate says stratus:tenant/TENANT/access/ID has "
	  "that directory of the tenant's tree, as /a/b with %xx for what words can't have, or, with `spread`, that with the limit of which `stratus quota show` tells @BRICK.NUMBER; all that it does it does as UID and GID (- and -: as it says), "
	  "MODE is rw or ro, EXPIRES in seconds since 1970 (0: never)",
	  .live = true, .parsed = true },
	{ "security-xattrs", OPTION_STRING, AT(security), "",
	  "names of extended attributes security.NAME that tenants have, apart by commas or blanks; the server's kernel may honour what they say" },
	{ "privileges", OPTION_ENUM, AT(privileges), "store",
	  "set-user-id and set-group-id bits of files. store: they are kept (a program run from the brick's own directory would have the tenant's ids); "
	  "drop: they are not",
	  .choices = "store|drop", .live = true },
	{ "devices", OPTION_ENUM, AT(devices), "store",
	  "device nodes. store: the root of a tenant can make them, and the server never opens them; refuse: EPERM",
	  .choices = "store|refuse", .live = true },
	{ "spread", OPTION_BOOL, AT(spread), "off",
	  "the volume has several bricks: tenants' clients have cluster/dht, and may say what that says to features/layout below, each of its own tree" },
	{ "replicas", OPTION_BOOL, AT(replicas), "off",
	  "the brick is one of a replica set: tenants' clients have cluster/afr, and may say what that says to features/replica below, each of its own tree" },
	{ NULL }
};

/* ---- requests ---- */

/* Others than its root will be refused: for them nobody is cut off. */
static bool ends_limit(const struct request *rq, const struct cloud *c, const struct guest *g, enum fop fop,
		       const union any_in *in)
{
	return c->spread && g->administers && rq->uid == rq->root && fop == FOP_removexattr &&
	       !strcmp(in->removexattr.name, QUOTA_XATTR);
}

/* The number of the limit that the directory has; 0: none. */
static int limit_of(struct request *rq, struct xlator *x, struct inode *inode, uint64_t *number)
{
	struct getxattr_in in = { .inode = inode, .name = QUOTA_XATTR };
	struct getxattr_out out = { 0 };
	const char *key;
	char *at, *value;
	int err = getxattr_on(rq, x->child[0], &in, &out);

	*number = 0;
	if (err)
		return err == -ENODATA ? 0 : err;
	at = out.value.bytes;
	while ((value = location_next(&at, (char *)out.value.bytes + out.value.size, &key)))
		if (!strcmp(key, "id"))
			*number = strtoull(value, NULL, 16);
	fop_out_clear(FOP_getxattr, &out);
	return 0;
}

/* Without its limit what is below a directory may come to be at other bricks: before that nobody is there any more by an access point. */
static int end_limit(struct request *rq, struct xlator *x, const struct removexattr_in *in, void *out)
{
	uint64_t limit;
	int err = limit_of(rq, x, in->inode, &limit);

	if (err)
		return err;
	if (limit)
		points_ending(x->private, limit);
	err = fop_call(rq, x->child[0], FOP_removexattr, in, out);
	if (limit)
		points_ended(x->private, limit, !err);
	return err;
}

static int ask(struct request *rq, struct xlator *x, const struct guest *g, enum fop fop, const void *in, void *out)
{
	struct cloud *c = x->private;
	struct mapping m = { .cloud = c, .tenant = &g->tenant, .moves = g->moves, .spreads = g->spreads };
	struct asker was;
	union any_in mapped;
	int err = g->read_only && changes(fop, in) ? -EROFS : 0;

	if (!err)
		err = map_request(c, g, rq, &was);
	if (err)
		return err;
	err = map_in(&m, fop, in, &mapped);
	if (!err && ends_limit(rq, c, g, fop, &mapped))
		err = end_limit(rq, x, &mapped.removexattr, out);
	else if (!err)
		err = fop_call(rq, x->child[0], fop, &mapped, out);
	mapping_end(&m);
	unmap_request(g, rq, &was);
	if (err)
		return err;
	err = map_out(c, g, fop, in, out);
	if (err)
		fop_out_clear(fop, out);
	return err;
}

/* A client of an access point knows of no intents: what one holds is waited for here, above features/throttle, where he keeps nobody's place. He may be let in no more meanwhile. */
static int ask_until_free(struct request *rq, struct xlator *x, struct guest *g, enum fop fop, const void *in, void *out)
{
	enum { LONGEST_MS = 50, WHOLE_MS = 5000 };
	unsigned waited = 0;
	int err = ask(rq, x, g, fop, in, out);

	for (unsigned ms = 1; err == -EMARKED && waited < WHOLE_MS; waited += ms, ms = ms < LONGEST_MS ? 2 * ms : ms) {
		if (task_sleep_ms(ms))
			return -ECANCELED;
		err = whose(x->private, rq->client, g);
		if (!err)
			err = ask(rq, x, g, fop, in, out);
	}
	return err == -EMARKED ? -EBUSY : err;
}

/* Over several bricks there is no tree that has all tenants' trees in it: each brick has a part of each, by itself. Who would take them for one, as a mount or `stratus
 * fsck` with a server's certificate, would see names that are everywhere, and move them. */
static bool is_misplaced(const struct cloud *c, const struct request *rq)
{
	return c->spread && request_extension(rq, PLACE_EXTENSION);
}

static int cloud_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct cloud *c = x->private;
	struct guest g;
	int who = whose(c, rq->client, &g);

	if (who == MAY_ALL && is_misplaced(c, rq))
		return -EOPNOTSUPP;
	if (who == MAY_ALL)
		return fop_pass(rq, x, fop, in, out);
	if (who) {
		atomic_fetch_add_explicit(&c->refused, 1, memory_order_relaxed);
		return who;
	}
	return gfid_is_null(&g.access) ? ask(rq, x, &g, fop, in, out) : ask_until_free(rq, x, &g, fop, in, out);
}

/* Which directory it is is found once for each session: who is here stays where he is. */
static int access_root(struct xlator *x, const struct guest *g, struct inode **root)
{
	char *directory;
	uint64_t limit;
	int err;

	if (!gfid_is_null(&g->top)) {
		*root = inode_get(x->inodes, &g->top, S_IFDIR);
		return *root ? 0 : -ENOMEM;
	}
	err = point_directory(x->private, &g->access, &directory, &limit);
	if (err)
		return err;
	err = limit ? tree_limited(x, &g->tenant, limit, root) : tree_below(x, &g->tenant, directory, root);
	if (err && err != -EAGAIN)
		log_warning(x, NULL, "the directory %s of an access point of tenant %s can't be shown: %s", directory,
			    g->tenant.name, error_text(err));
	free(directory);
	return err;
}

static int cloud_admit(struct xlator *x, const struct client *client, struct inode **root, struct bearer *bearer)
{
	struct guest g;
	int who = whose(x->private, client, &g);

	if (!root || who < 0)
		return who < 0 ? who : 0;
	if (who == MAY_ALL) {
		*bearer = (struct bearer){ .tenant = { { 0 } } };
		*root = brick_root(x);
		return *root ? 0 : -ENOMEM;
	}
	*bearer = (struct bearer){ g.tenant.id, g.access };
	return gfid_is_null(&g.access) ? tree_root(x, &g.tenant, root) : access_root(x, &g, root);
}

/* ---- life ---- */

static int take_table(struct cloud *c, struct problem *p)
{
	struct table fresh, old;
	int err = table_parse(c->tenants, &c->table, &fresh, p); /* nobody else changes it */

	if (err)
		return err;
	pthread_rwlock_wrlock(&c->table_lock);
	old = c->table;
	c->table = fresh;
	pthread_rwlock_unlock(&c->table_lock);
	table_free(&old);
	return 0;
}

/* What the new table has of what ended: the row says nothing of that. */
static void keep_ended(struct points *fresh, const struct points *old)
{
	for (size_t i = 0, k = 0; i < fresh->count; i++) { /* both by id */
		while (k < old->count && memcmp(&old->point[k].id, &fresh->point[i].id, sizeof(struct gfid)) < 0)
			k++;
		if (k == old->count || !gfid_equal(&old->point[k].id, &fresh->point[i].id) ||
		    old->point[k].limit != fresh->point[i].limit)
			continue;
		fresh->point[i].ended = old->point[k].ended;
		fresh->point[i].ending = old->point[k].ending;
	}
}

static int take_points(struct cloud *c, struct problem *p)
{
	struct points fresh, old;
	int err = points_parse(c->access, &fresh, p);

	if (err)
		return err;
	pthread_rwlock_wrlock(&c->table_lock);
	old = c->points;
	keep_ended(&fresh, &old);
	c->points = fresh;
	pthread_rwlock_unlock(&c->table_lock);
	points_free(&old);
	return 0;
}

static int cloud_init(struct xlator *x, struct problem *p)
{
	struct cloud *c = x->private;
	struct problem why = { "" };
	int err;

	pthread_rwlock_init(&c->table_lock, NULL);
	pthread_mutex_init(&c->lock, NULL);
	err = take_table(c, &why);
	if (err)
		return problem_set(p, -err, "volume %s: option tenants: %s", x->name, why.text);
	err = take_points(c, &why);
	if (err)
		table_free(&c->table); /* what has not begun is not finished */
	return err ? problem_set(p, -err, "volume %s: option access: %s", x->name, why.text) : 0;
}

static void cloud_finish(struct xlator *x)
{
	struct cloud *c = x->private;

	points_free(&c->points);
	table_free(&c->table);
	pthread_mutex_destroy(&c->lock);
	pthread_rwlock_destroy(&c->table_lock);
}

static int cloud_start(struct xlator *x, struct problem *p)
{
	(void)p;
	purge_wake(x);
	return 0;
}

/* What makes no sense changes nothing: who was suspended stays so. */
static void cloud_reconfigure(struct xlator *x, const struct option *option)
{
	struct problem p = { "" };

	if (!strcmp(option->name, "access") && take_points(x->private, &p))
		log_error(x, NULL, "the access points stay as they were: %s", p.text);
	if (strcmp(option->name, "tenants"))
		return;
	if (take_table(x->private, &p))
		log_error(x, NULL, "the tenants stay as they were: %s", p.text);
	else
		purge_wake(x);
}

/* ---- for people ---- */

static size_t in_state(struct cloud *c, enum tenant_state state)
{
	size_t n = 0;

	for (size_t i = 0; i < c->table.count; i++)
		n += c->table.tenant[i].state == state;
	return n;
}

static void print_purge(struct cloud *c, FILE *f)
{
	pthread_mutex_lock(&c->lock);
	fprintf(f, "  purging: %s\n  purged: %llu\n",
		c->purge.name[0]   ? c->purge.name
		: c->purge.running ? "looking"
				   : "nothing",
		(unsigned long long)atomic_load(&c->purge.removed));
	pthread_mutex_unlock(&c->lock);
}

static void cloud_dump(struct xlator *x, FILE *f)
{
	struct cloud *c = x->private;

	pthread_rwlock_rdlock(&c->table_lock);
	for (enum tenant_state s = 0; s < TENANT_STATES; s++)
		fprintf(f, "  %s: %zu\n", tenant_state_name(s), in_state(c, s));
	fprintf(f, "  access-points: %zu\n", c->points.count);
	pthread_rwlock_unlock(&c->table_lock);
	fprintf(f, "  refused: %llu\n  strange-ids: %llu\n", (unsigned long long)atomic_load(&c->refused),
		(unsigned long long)atomic_load(&c->strange_ids));
	print_purge(c, f);
}

static void print_tenants(struct cloud *c, FILE *f)
{
	char id[GFID_TEXT];

	pthread_rwlock_rdlock(&c->table_lock);
	for (size_t i = 0; i < c->table.count; i++) {
		const struct tenant *t = &c->table.tenant[i];

		fprintf(f, "%s %s %u %u %s\n", t->name, gfid_text(&t->id, id), t->base, t->count, tenant_state_name(t->state));
	}
	pthread_rwlock_unlock(&c->table_lock);
}

static int cloud_command(struct xlator *x, int argc, char **argv, FILE *f)
{
	if (argc == 1 && !strcmp(argv[0], "tenants")) {
		print_tenants(x->private, f);
	} else if (argc == 1 && !strcmp(argv[0], "access")) {
		points_print(x->private, f);
	} else if (argc == 1 && !strcmp(argv[0], "purge")) {
		purge_wake(x);
		print_purge(x->private, f);
	} else {
		fprintf(f, "volume %s takes the commands tenants, access and purge\n", x->name);
		return -EINVAL;
	}
	return 0;
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "features/cloud",
	.summary = "gives each tenant of a brick a tree and ids of its own",
	.options = options,
	.private_size = sizeof(struct cloud),
	.min_children = 1,
	.max_children = 1,
	.init = cloud_init,
	.start = cloud_start,
	.stop = purge_stop,
	.finish = cloud_finish,
	.reconfigure = cloud_reconfigure,
	.dump = cloud_dump,
	.command = cloud_command,
	.admit = cloud_admit,
	.any = cloud_any,
};
