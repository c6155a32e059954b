/* SPDX-License-Identifier: Apache-2.0 */
/* features/usage: knows to the byte what is charged to each account on this brick. Stands right above the leaf, so that nothing passes by it. */
#include "usage.h"

#include "quota.h"

#include <endian.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>

enum { NEAR = 64 << 20 };

static const struct option options[] = {
	{ "ledger", OPTION_PATH, OPTION_AT(struct usage, ledger_path), NULL,
	  "the file of the counters, on the brick's own disk" },
	{ "accounts", OPTION_STRING, OPTION_AT(struct usage, accounts), "",
	  "\"NAME BASE COUNT [BYTES [INODES [SOFT_BYTES [SOFT_INODES [GRACE]]]]], ...\": to whom the objects of which user ids are charged, "
	  "how much each may have (0: no limit), above how much that is noted and told, and after how many seconds of that it may have no more; "
	  "all others are charged to nobody",
	  .live = true, .parsed = true },
	{ "pool", OPTION_STRING, OPTION_AT(struct usage, pool), "",
	  "the id of the volume, if it has several bricks: the limits of an account hold for all of them together, which this process must serve" },
	{ "pool-bricks", OPTION_INT, OPTION_AT(struct usage, pool_bricks), "1",
	  "how many of them are at this server: as long as one is not served here nothing grows that has a limit", 1, 512,
	  .live = true },
	{ "pool-servers", OPTION_INT, OPTION_AT(struct usage, pool_servers), "1",
	  "at how many servers it has bricks: if there are several each stays within what it is allotted of a limit, for which stratusd asks (doc/usage.md)",
	  1, 64, .live = true },
	{ "pool-sets", OPTION_INT, OPTION_AT(struct usage, pool_sets), "1",
	  "with `set`: how many replica sets the volume has: if there are several each stays within what it is allotted of a limit",
	  1, 512, .live = true },
	{ "set", OPTION_STRING, OPTION_AT(struct usage, set), "",
	  "the id of the replica set, if the brick is a member of one: what is charged is the same for equal copies, and the first member decides about limits" },
	{ "near", OPTION_SIZE, OPTION_AT(struct usage, near), "64M",
	  "in a set: so near to a limit, or a sixteenth of it if that is more, the first member is asked before others do what adds to the charge",
	  4096, 1ll << 50 },
	{ NULL },
};

uint32_t usage_handle(struct xlator *x, struct inode *inode, uint8_t handle[HANDLE_SIZE_MAX])
{
	struct xlator *leaf = usage_leaf(x);
	size_t size = HANDLE_SIZE_MAX;

	return leaf->type->inode_handle(leaf, inode, handle, &size) ? 0 : (uint32_t)size;
}

struct xlator *usage_leaf(struct xlator *x)
{
	while (!x->type->inode_handle && x->children)
		x = x->child[0];
	return x;
}

/* ---- the length of a file ---- */

static uint64_t end_of(uint64_t offset, uint64_t length)
{
	return offset > INT64_MAX - length ? INT64_MAX : offset + length;
}

/* What it is once it has been written up to there. */
static struct extent extent_to(struct charge *c, uint64_t end)
{
	struct extent e = charge_extent(c);

	e.size = end > e.size ? end : e.size;
	return e;
}

/* Where an append ends nobody knows before: each claims its own length, and what rounding may add. */
static int claim_write(struct request *rq, struct xlator *x, struct charge *c, const struct write_in *in, struct claim *claim)
{
	struct extent then = extent_to(c, end_of(in->offset, in->data->size));

	if (in->flags & WRITE_APPEND)
		return claim_more(rq, x, c, in->data->size + CHARGE_UNIT, false, claim);
	return claim_growth(rq, x, c, &then, claim);
}

/* Most writes change no length: then nobody need look. What others do to the length meanwhile they look at. */
static int usage_write(struct request *rq, struct xlator *x, const struct write_in *in, struct write_out *out)
{
	struct inode *inode = in->file->inode;
	struct claim claim;
	struct charge *c;
	int err = charge_begin(rq, x, inode, &c);

	if (err)
		return err;
	err = claim_write(rq, x, c, in, &claim);
	if (!err)
		err = write_on(rq, x->child[0], in, out);
	if (err || out->offset + out->written > charge_extent(c).size)
		charge_end(rq, x, inode, c);
	else
		charge_end_unchanged(x, c);
	claim_end(x, &claim);
	return err;
}

static int usage_copy_range(struct request *rq, struct xlator *x, const struct copy_range_in *in, struct copy_range_out *out)
{
	struct extent then;
	struct claim claim;
	struct charge *c;
	int err = charge_begin(rq, x, in->to->inode, &c);

	if (err)
		return err;
	then = extent_to(c, end_of(in->to_offset, in->length));
	err = claim_growth(rq, x, c, &then, &claim);
	if (!err)
		err = copy_range_on(rq, x->child[0], in, out);
	charge_end(rq, x, in->to->inode, c);
	claim_end(x, &claim);
	return err;
}

static int set_reserved(struct request *rq, struct xlator *x, struct inode *inode, struct charge *c, uint64_t end)
{
	uint64_t big = htobe64(end);
	struct setxattr_in set = { .inode = inode, .name = RESERVED_XATTR, .value = { sizeof(big), &big } };
	struct removexattr_in remove = { .inode = inode, .name = RESERVED_XATTR };
	struct setxattr_out set_out = { 0 };
	struct removexattr_out removed = { 0 };
	int err = end ? setxattr_on(rq, x->child[0], &set, &set_out) : removexattr_on(rq, x->child[0], &remove, &removed);

	if (err == -ENODATA)
		err = 0;
	return err ? err : charge_relearn(rq, x, inode, c);
}

static int usage_open(struct request *rq, struct xlator *x, const struct open_in *in, struct open_out *out)
{
	struct charge *c;
	int err;

	if (!(in->flags & O_TRUNC))
		return open_on(rq, x->child[0], in, out);
	err = charge_begin_alone(rq, x, in->inode, &c);
	if (err)
		return err;
	err = open_on(rq, x->child[0], in, out);
	if (!err && charge_extent(c).reserved)
		set_reserved(rq, x, in->inode, c, 0);
	charge_end(rq, x, in->inode, c);
	return err;
}

/* ---- what is reserved beyond the length ---- */

/* Whose it becomes must have room for all of it. */
static int claim_attributes(struct request *rq, struct xlator *x, struct charge *c, const struct setattr *set,
			    struct claim *claim)
{
	struct ledger *l = &usage_of(x)->ledger;
	struct extent then = charge_extent(c);
	uint32_t was = charge_row(c), row = set->valid & SET_UID ? ledger_row(l, set->uid) : was;

	if (set->valid & SET_SIZE)
		then.size = set->size;
	return row == was ? claim_growth(rq, x, c, &then, claim) : claim_given(rq, x, c, row, &then, claim);
}

/* Cut shorter, a file loses all that was reserved beyond its end; made longer, it keeps that. */
static int set_alone(struct request *rq, struct xlator *x, const struct setattr_in *in, struct setattr_out *out,
		     struct charge *c)
{
	struct inode *inode = in->inode ? in->inode : in->file->inode;
	struct extent before = charge_extent(c);
	int err = setattr_on(rq, x->child[0], in, out);

	if (!err && in->set.valid & SET_SIZE && in->set.size <= before.size && before.reserved)
		set_reserved(rq, x, inode, c, 0); /* a failure charges too much; the next cut tries again */
	return err;
}

int usage_setattr(struct request *rq, struct xlator *x, const struct setattr_in *in, struct setattr_out *out)
{
	struct inode *inode = in->inode ? in->inode : in->file->inode;
	struct claim claim;
	struct charge *c;
	int err;

	if (!(in->set.valid & (SET_SIZE | SET_UID)))
		return setattr_on(rq, x->child[0], in, out);
	err = charge_begin_alone(rq, x, inode, &c);
	if (err)
		return err;
	err = claim_attributes(rq, x, c, &in->set, &claim);
	if (!err)
		err = set_alone(rq, x, in, out, c);
	charge_end(rq, x, inode, c);
	claim_end(x, &claim);
	return err;
}

static int reserve(struct request *rq, struct xlator *x, const struct fallocate_in *in, struct fallocate_out *out,
		   struct charge *c)
{
	uint64_t end = in->offset + in->length, before = charge_extent(c).reserved;
	bool more = end > before;
	int err;

	if (end > LENGTH_MAX)
		return -EFBIG;
	err = more ? set_reserved(rq, x, in->file->inode, c, end) : 0;
	if (!err)
		err = fallocate_on(rq, x->child[0], in, out);
	if (more && (err == -EOPNOTSUPP || err == -EINVAL || err == -EFBIG)) /* else some of it may have been done */
		set_reserved(rq, x, in->file->inode, c, before);
	return err;
}

static bool reserves_beyond(const struct fallocate_in *in, struct charge *c)
{
	return in->mode & FALLOC_FL_KEEP_SIZE && !(in->mode & FALLOC_FL_PUNCH_HOLE) && in->length <= INT64_MAX &&
	       in->offset <= INT64_MAX - in->length && in->offset + in->length > charge_extent(c).size;
}

static int usage_fallocate(struct request *rq, struct xlator *x, const struct fallocate_in *in, struct fallocate_out *out)
{
	struct inode *inode = in->file->inode;
	struct claim claim;
	struct extent then;
	struct charge *c;
	int err = charge_begin_alone(rq, x, inode, &c);

	if (err)
		return err;
	then = charge_extent(c);
	if (in->mode & FALLOC_FL_INSERT_RANGE)
		then.size = end_of(then.size, in->length);
	else if (!(in->mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_COLLAPSE_RANGE)))
		then = extent_to(c, end_of(in->offset, in->length));
	then.xattrs += sizeof(RESERVED_XATTR) + sizeof(uint64_t);
	err = claim_growth(rq, x, c, &then, &claim);
	if (!err)
		err = reserves_beyond(in, c) ? reserve(rq, x, in, out, c) : fallocate_on(rq, x->child[0], in, out);
	charge_end(rq, x, inode, c);
	claim_end(x, &claim);
	return err;
}

/* ---- extended attributes ---- */

static int change_xattrs(struct request *rq, struct xlator *x, struct inode *inode, enum fop fop, const void *in, void *out,
			 uint64_t more, bool leads)
{
	struct extent then;
	struct claim claim;
	struct charge *c;
	int err = charge_begin_alone(rq, x, inode, &c);

	if (err)
		return err;
	then = charge_extent(c);
	then.xattrs += more;
	err = claim_growth(rq, x, c, &then, &claim);
	if (!err && leads && rq->limits != LIMITS_HEAL && charge_dir_now(x, c)) /* what a member has, others can be given */
		err = -EXDEV;
	if (!err)
		err = fop_call(rq, x->child[0], fop, in, out);
	if (charge_relearn(rq, x, inode, c) && !err)
		recount_owe(x);
	charge_end(rq, x, inode, c);
	claim_end(x, &claim);
	return err;
}

static bool is_tag(const char *name)
{
	return !strcmp(name, DIR_XATTR);
}

/* What is reserved is charged, and a tag says to what limit, so whoever makes copies equal sees both, and says them. */
static bool is_forbidden(const struct request *rq, const char *name)
{
	return is_own_xattr(name) && (rq->limits != LIMITS_HEAL || (strcmp(name, RESERVED_XATTR) != 0 && !is_tag(name)));
}

static int usage_setxattr(struct request *rq, struct xlator *x, const struct setxattr_in *in, struct setxattr_out *out)
{
	if (is_quota(in->name))
		return dirs_set(rq, x, in);
	if (is_forbidden(rq, in->name))
		return -EPERM;
	if (is_tag(in->name))
		return dirs_heal(rq, x, in->inode, &in->value);
	return change_xattrs(rq, x, in->inode, FOP_setxattr, in, out, strlen(in->name) + in->value.size,
			     leads_elsewhere(in->name));
}

static int usage_removexattr(struct request *rq, struct xlator *x, const struct removexattr_in *in, struct removexattr_out *out)
{
	if (is_quota(in->name))
		return dirs_remove(rq, x, in);
	if (is_forbidden(rq, in->name))
		return -EPERM;
	if (is_tag(in->name))
		return dirs_heal(rq, x, in->inode, NULL);
	return change_xattrs(rq, x, in->inode, FOP_removexattr, in, out, 0, false);
}

static int usage_getxattr(struct request *rq, struct xlator *x, const struct getxattr_in *in, struct getxattr_out *out)
{
	if (is_quota(in->name))
		return dirs_tell(rq, x, in, &out->value);
	if (!strncmp(in->name, QUOTA_DIRECTORY_XATTR, strlen(QUOTA_DIRECTORY_XATTR)))
		return dirs_find(rq, x, in, &out->value);
	return getxattr_on(rq, x->child[0], in, out);
}

/* Who copies all attributes of an object could not set these. */
static int usage_listxattr(struct request *rq, struct xlator *x, const struct listxattr_in *in, struct listxattr_out *out)
{
	int err = listxattr_on(rq, x->child[0], in, out);
	char *list = out->names.bytes;
	uint32_t kept = 0, length;

	for (uint32_t at = 0; !err && at < out->names.size; at += length) {
		length = (uint32_t)strlen(list + at) + 1;
		if (is_forbidden(rq, list + at))
			continue;
		memmove(list + kept, list + at, length);
		kept += length;
	}
	if (!err)
		out->names.size = kept;
	return err;
}

/* ---- compound ---- */

/* Several steps at one moment, of which a later one may use what an earlier one makes: nobody here can tell beforehand what they add. */
static int usage_compound(struct request *rq, struct xlator *x, const struct compound_in *in, struct compound_out *out)
{
	(void)rq, (void)x, (void)in, (void)out;
	return -EOPNOTSUPP;
}

/* ---- life ---- */

static int take_accounts(struct xlator *x, struct problem *p)
{
	struct usage *u = usage_of(x);
	struct ranges r = { 0 };
	int err = ranges_parse(u->accounts, &u->ledger.ranges, &r, p); /* nobody else changes these */

	if (err)
		return err;
	err = ledger_ranges(&u->ledger, &r);
	ranges_free(&r);
	return err ? problem_set(p, -err, "accounts: more than %d have been charged on this brick", ACCOUNTS_MAX - 1) : 0;
}

static void usage_reconfigure(struct xlator *x, const struct option *o)
{
	struct problem p = { 0 };
	bool is_pool = !strncmp(o->name, "pool-", 5);

	if (!strcmp(o->name, "pool-bricks"))
		pool_resize(&usage_of(x)->ledger, (unsigned)usage_of(x)->pool_bricks);
	if (!strcmp(o->name, "pool-servers"))
		pool_spread(&usage_of(x)->ledger, (unsigned)usage_of(x)->pool_servers);
	if (!strcmp(o->name, "pool-sets"))
		pool_spread(&usage_of(x)->ledger, (unsigned)usage_of(x)->pool_sets);
	if (is_pool &&
	    usage_of(x)->ledger.file) /* else who has a soft limit is known only after something else of his has changed */
		soft_check_all(&usage_of(x)->ledger, x);
	if (strcmp(o->name, "accounts") != 0 || !usage_of(x)->ledger.file)
		return;
	pool_doubt(&usage_of(x)->ledger);
	if (take_accounts(x, &p))
		log_error(x, NULL, "%s; the accounts stay as they were", p.text);
	else
		soft_check_all(&usage_of(x)->ledger, x);
}

static int usage_init(struct xlator *x, struct problem *p)
{
	struct usage *u = usage_of(x);
	struct ranges r;

	u->ledger.fd = -1;
	pthread_mutex_init(&u->lock, NULL);
	if (ranges_parse(u->accounts, NULL, &r, p))
		return -EINVAL;
	ranges_free(&r);
	if (!usage_leaf(x)->type->inode_handle || !usage_leaf(x)->type->inode_from_handle)
		return problem_set(p, EINVAL, "volume %s (features/usage) must stand above storage/posix", x->name);
	return 0;
}

struct recovering {
	struct xlator *x;
	int err;
};

static void recover_task(void *arg)
{
	struct recovering *r = arg;

	r->err = charges_recover(r->x);
}

static void recover(struct xlator *x, bool *owed)
{
	struct recovering r = { .x = x };

	if (task_self())
		recover_task(&r);
	else if (task_call(recover_task, &r)) {
		charges_forget(x);
		r.err = -ENOMEM;
	}
	if (r.err) {
		log_warning(x, NULL, "not all that was under way when the server ended can be looked at: all is counted anew");
		*owed = true;
	}
}

static int usage_start(struct xlator *x, struct problem *p)
{
	struct usage *u = usage_of(x);
	bool owed = false;
	int err;

	u->replicated = *u->set;
	err = ledger_open(&u->ledger, u->ledger_path, u->replicated, &owed, p);
	u->ledger.near = u->near;
	u->stopping = false;
	if (err)
		return err;
	err = take_accounts(x, p);
	if (!err && *u->pool)
		err = u->replicated ? pool_join_set(&u->ledger, u->pool, u->set)
				    : pool_join(&u->ledger, u->pool, (unsigned)u->pool_bricks);
	if (!err)
		pool_spread(&u->ledger, (unsigned)(u->replicated ? u->pool_sets : u->pool_servers));
	if (err) {
		ledger_close(&u->ledger, false);
		return err;
	}
	recover(x, &owed);
	soft_check_all(&usage_of(x)->ledger, x);
	if (owed)
		ledger_owe(&u->ledger);
	if (owed && recount_start(x))
		log_warning(x, NULL, "the recount that is needed could not be started: stratus ctl PROCESS %s recount",
			    x->name);
	return 0;
}

/* Files without a name go with the process that has them open. */
static void forget_orphan(struct inode *inode, void *arg)
{
	struct xlator *x = arg;
	void *c = inode_slot_take(inode, x);

	if (c)
		charge_forget(x, inode, c);
}

static void usage_stop(struct xlator *x)
{
	struct usage *u = usage_of(x);
	struct xlator *leaf = usage_leaf(x);

	if (!u->ledger.file)
		return;
	recount_stop(x);
	inode_table_each(x->inodes, forget_orphan, x);
	pool_leave(&u->ledger);
	ledger_close(&u->ledger, leaf->type->sync && !leaf->type->sync(leaf));
}

static void usage_decides(struct xlator *x, uint64_t epoch)
{
	pool_decides(&usage_of(x)->ledger, epoch);
}

static void usage_finish(struct xlator *x)
{
	pthread_mutex_destroy(&usage_of(x)->lock);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "features/usage",
	.summary = "counts what is charged to each account on this brick",
	.options = options,
	.private_size = sizeof(struct usage),
	.min_children = 1,
	.max_children = 1,
	.init = usage_init,
	.start = usage_start,
	.stop = usage_stop,
	.finish = usage_finish,
	.reconfigure = usage_reconfigure,
	.decides = usage_decides,
	.forget_inode = charge_forget,
	.dump = usage_dump,
	.command = usage_command,
	.setattr = usage_setattr,
	.mknod = usage_mknod,
	.mkdir = usage_mkdir,
	.symlink = usage_symlink,
	.unlink = usage_unlink,
	.rmdir = usage_rmdir,
	.rename = usage_rename,
	.link = usage_link,
	.create = usage_create,
	.open = usage_open,
	.write = usage_write,
	.setxattr = usage_setxattr,
	.getxattr = usage_getxattr,
	.listxattr = usage_listxattr,
	.removexattr = usage_removexattr,
	.fallocate = usage_fallocate,
	.copy_range = usage_copy_range,
	.compound = usage_compound,
	.statfs = usage_statfs,
};
