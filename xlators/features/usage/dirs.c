/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of directories: set on one that is empty, so that all that comes to be below it is born with its tag, and told. What has the tag gets no name outside, and
 * what has another none inside (usage.c): so by the object alone it is known whose limit holds it. */
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "born.h"
#include "location.h"
#include "quota.h"
#include "usage.h"

bool is_own_xattr(const char *name)
{
	return !strncmp(name, OWN_XATTR, strlen(OWN_XATTR));
}

bool leads_elsewhere(const char *name)
{
	return !strcmp(name, "trusted.dht.pointer") || !strcmp(name, "trusted.dht.layout");
}

/* ---- what is born below ---- */

int dirs_born(struct request *rq, uint64_t id, bool *changed)
{
	uint64_t big = htobe64(id);
	struct born_xattr with[BORN_MAX + 1];
	struct born born;
	int err = born_of(rq, &born);

	*changed = false;
	for (unsigned i = 0; i < born.count && !err; i++) {
		with[i] = born.xattr[i];
		err = is_own_xattr(with[i].name) ? -EPERM : id && leads_elsewhere(with[i].name) ? -EXDEV : 0;
	}
	if (err || !id)
		return err;
	with[born.count] = (struct born_xattr){ DIR_XATTR, &big, sizeof(big) };
	err = born_attach(rq, with, born.count + 1);
	*changed = !err;
	return err;
}

void dirs_unborn(struct request *rq)
{
	struct born born;

	if (!born_of(rq, &born) && born.count)
		born_attach(rq, born.xattr, born.count - 1);
}

/* ---- setting ---- */

/* What tenants' own administrators may, and on volumes without tenants root. */
static bool may_administer(const struct request *rq)
{
	return request_is_tenants(rq) ? request_is_tenants_admin(rq) && rq->uid == rq->root : !rq->uid;
}

static int take_number(const char **at, const char *end, int64_t *n)
{
	uint64_t sum = 0;
	const char *from = *at;

	for (; *at < end && isdigit((unsigned char)**at); ++*at) {
		sum = sum * 10 + (uint64_t)(**at - '0');
		if (sum > LENGTH_MAX)
			return -EINVAL;
	}
	*n = (int64_t)sum;
	return *at == from ? -EINVAL : 0;
}

static int take_next(const char **at, const char *end, int64_t *n)
{
	return *at == end || *(*at)++ != ' ' ? -EINVAL : take_number(at, end, n);
}

/* In a replica set features/replica has added the number that all members give the limit, 16 digits. */
static int take_id(const char **at, const char *end, uint64_t *id)
{
	char text[17] = { 0 }, *last;

	if (end - *at != sizeof(text) || *(*at)++ != ' ')
		return -EINVAL;
	memcpy(text, *at, sizeof(text) - 1);
	*at = end;
	*id = strtoull(text, &last, 16);
	return *last || !*id || *id > INT64_MAX ? -EINVAL : 0;
}

static int take_limit(const struct usage *u, const struct blob *value, struct dir *d)
{
	const char *at = value->bytes, *end = at + value->size;
	uint64_t id = 0;
	int err = take_number(&at, end, &d->limit.bytes);

	if (!err)
		err = take_next(&at, end, &d->limit.inodes);
	if (!err && u->replicated)
		err = take_id(&at, end, &id);
	d->id = id;
	return err || at != end ? -EINVAL : 0;
}

static bool is_some_root(const struct request *rq, const struct inode *inode)
{
	return gfid_equal(&inode->gfid, &gfid_root) || (request_is_tenants(rq) && gfid_equal(&inode->gfid, &rq->tree));
}

static bool has_entries(const struct dirents *d)
{
	for (uint32_t i = 0; i < d->count; i++)
		if (strcmp(d->entry[i].name, ".") != 0 && strcmp(d->entry[i].name, "..") != 0)
			return true;
	return false;
}

/* All of it is read: a batch may have nothing but "." in it. */
static int read_entries(struct request *rq, struct xlator *x, struct file *file)
{
	struct readdir_in in = { .file = file, .size = 4096 };
	int err = 0;
	bool end = false;

	while (!err && !end) {
		struct readdir_out out = { 0 };

		err = readdir_on(rq, x->child[0], &in, &out);
		end = out.entries.end || !out.entries.count;
		if (!err && has_entries(&out.entries))
			err = -ENOTEMPTY;
		if (!end)
			in.offset = out.entries.entry[out.entries.count - 1].next_offset;
		fop_out_clear(FOP_readdir, &out);
	}
	return err;
}

static int make_durable(struct request *rq, struct xlator *x, struct file *file)
{
	struct fsync_in in = { .file = file };
	struct fsync_out out = { 0 };

	return fsync_on(rq, x->child[0], &in, &out);
}

static int with_open(struct request *rq, struct xlator *x, struct inode *dir,
		     int (*fn)(struct request *, struct xlator *, struct file *))
{
	struct opendir_in in = { .inode = dir };
	struct opendir_out out = { 0 };
	struct release_in release = { 0 };
	struct release_out released = { 0 };
	int err = opendir_on(rq, x->child[0], &in, &out);

	if (err)
		return err;
	err = fn(rq, x, out.file);
	release.file = out.file;
	release_on(rq, x->child[0], &release, &released);
	file_unref(out.file);
	return err;
}

static int write_tag(struct request *rq, struct xlator *x, struct inode *inode, uint64_t id, struct amount limit)
{
	uint64_t part[3] = { htobe64(id), htobe64((uint64_t)limit.bytes), htobe64((uint64_t)limit.inodes) };
	struct setxattr_in in = { .inode = inode, .name = DIR_XATTR, .value = { sizeof(part), part } };
	struct setxattr_out out = { 0 };
	int err = setxattr_on(rq, x->child[0], &in, &out);

	return err ? err : with_open(rq, x, inode, make_durable);
}

static int erase_tag(struct request *rq, struct xlator *x, struct inode *inode)
{
	struct removexattr_in in = { .inode = inode, .name = DIR_XATTR };
	struct removexattr_out out = { 0 };

	return removexattr_on(rq, x->child[0], &in, &out);
}

/* The row comes first and goes last: a tag that has no row would count for nothing, and a row without its directory is dropped at the next start. */
static int add(struct request *rq, struct xlator *x, struct inode *inode, struct charge *c, const struct dir *of)
{
	struct ledger *l = &usage_of(x)->ledger;
	struct dir d = { .id = of->id, .limit = of->limit, .account = charge_row(c) };
	int err = with_open(rq, x, inode, read_entries);

	if (!d.id)
		d.id = ledger_dir_new();
	d.handle_size = usage_handle(x, inode, d.handle);
	if (!err && !d.handle_size)
		err = -ESTALE;
	if (!err && (rq->limits == LIMITS_FIRST || rq->limits == LIMITS_DECIDED))
		err = ledger_dir_room(l, d.account, rq->limits) ? -EOVERLIMIT : 0;
	if (!err)
		err = ledger_dir_add(l, &d);
	if (err)
		return err;
	err = ledger_sync(l);
	if (!err)
		err = write_tag(rq, x, inode, d.id, d.limit);
	if (err) {
		erase_tag(rq, x, inode);
		ledger_dir_gone(l, d.id);
	}
	return err;
}

static int change_limit(struct request *rq, struct xlator *x, struct inode *inode, uint64_t id, struct amount limit)
{
	int err = write_tag(rq, x, inode, id, limit);

	if (!err)
		ledger_dir_limit(&usage_of(x)->ledger, id, limit);
	return err;
}

/* Nobody else changes the directory: what is empty stays so until it has its tag. */
static int set_alone(struct request *rq, struct xlator *x, struct inode *inode, struct charge *c, const struct dir *d)
{
	struct extent then = charge_extent(c);
	uint64_t id = charge_dir_now(x, c);
	struct claim claim;
	int err;

	if (id)
		return then.is_top ? change_limit(rq, x, inode, id, d->limit) : -EEXIST;
	then.xattrs += sizeof(DIR_XATTR) + 3 * sizeof(uint64_t);
	err = claim_growth(rq, x, c, &then, &claim);
	if (!err)
		err = add(rq, x, inode, c, d);
	if (charge_relearn(rq, x, inode, c) && !err)
		recount_owe(x);
	claim_end(x, &claim);
	return err;
}

static int administer(struct request *rq, struct xlator *x, const struct inode *inode)
{
	if (usage_of(x)->replicated && (rq->limits == LIMITS_ALONE || rq->limits == LIMITS_HEAL))
		return -EPERM; /* only what all members are asked for makes their tags alike */
	if (!may_administer(rq))
		return -EPERM;
	if (!S_ISDIR(inode->type))
		return -ENOTDIR;
	return is_some_root(rq, inode) ? -EINVAL : 0;
}

int dirs_set(struct request *rq, struct xlator *x, const struct setxattr_in *in)
{
	struct dir d = { .id = 0 };
	struct charge *c;
	uint64_t id;
	int err = strcmp(in->name, QUOTA_XATTR) ? -EOPNOTSUPP : administer(rq, x, in->inode);

	if (!err)
		err = take_limit(usage_of(x), &in->value, &d);
	if (!err && rq->limits == LIMITS_ASK) /* how many there may be, and the room for it, the first member decides */
		err = -EASKFIRST;
	if (!err)
		err = charge_begin_alone(rq, x, in->inode, &c);
	if (err)
		return err;
	err = set_alone(rq, x, in->inode, c, &d);
	charge_end(rq, x, in->inode, c);
	if (!charge_dir(rq, x, in->inode, &id))
		ledger_dir_settled(&usage_of(x)->ledger, id);
	return err;
}

int dirs_remove(struct request *rq, struct xlator *x, const struct removexattr_in *in)
{
	struct ledger *l = &usage_of(x)->ledger;
	struct inode *inode = in->inode;
	struct charge *c;
	uint64_t id;
	int err = strcmp(in->name, QUOTA_XATTR) ? -EOPNOTSUPP : administer(rq, x, inode);

	if (!err)
		err = charge_begin_alone(rq, x, inode, &c);
	if (err)
		return err;
	id = charge_dir_now(x, c);
	if (!id || !charge_extent(c).is_top)
		err = -ENODATA;
	if (!err && usage_of(x)->replicated) /* else members would have to agree which tags count for nothing */
		err = with_open(rq, x, inode, read_entries);
	if (!err)
		err = erase_tag(rq, x, inode);
	if (!err && !usage_of(x)->replicated)
		ledger_dir_drop(l, id);
	if (!err) {
		with_open(rq, x, inode, make_durable); /* else a power cut may bring it back */
		ledger_sync(l);
	}
	if (charge_relearn(rq, x, inode, c) && !err)
		recount_owe(x);
	charge_end(rq, x, inode, c);
	if (!err && usage_of(x)->replicated)
		ledger_dir_gone(l, id);
	return err;
}

/* ---- replica sets: whoever makes members equal ---- */

static int write_healed(struct request *rq, struct xlator *x, struct inode *inode, const struct blob *value)
{
	struct setxattr_in set = { .inode = inode, .name = DIR_XATTR };
	struct setxattr_out done = { 0 };

	if (!value)
		return erase_tag(rq, x, inode);
	set.value = *value;
	return setxattr_on(rq, x->child[0], &set, &done);
}

/* What it was charged to before it is charged to no more when it has ended, so a directory that has lost its limit goes after that. What gets a tag needs a row: charge.c sees to that. */
int dirs_heal(struct request *rq, struct xlator *x, struct inode *inode, const struct blob *value)
{
	struct ledger *l = &usage_of(x)->ledger;
	struct extent before, after;
	struct charge *c;
	int err = value && value->size != sizeof(uint64_t) && value->size != 3 * sizeof(uint64_t) ? -EINVAL : 0;

	if (!err)
		err = charge_begin_alone(rq, x, inode, &c);
	if (err)
		return err;
	before = charge_extent(c);
	err = write_healed(rq, x, inode, value);
	if (charge_relearn(rq, x, inode, c) && !err)
		recount_owe(x);
	after = charge_extent(c);
	dirs_met(x, inode, &after, charge_row(c));
	if (after.is_top)
		ledger_dir_limit(l, after.dir, after.limit);
	charge_end(rq, x, inode, c);
	if (before.is_top && (!after.is_top || after.dir != before.dir))
		ledger_dir_gone(l, before.dir);
	if (after.is_top)
		ledger_dir_settled(l, after.dir);
	return err;
}

/* ---- telling ---- */

static int find_dir(struct xlator *x, const struct dir *d, struct inode **inode)
{
	struct xlator *leaf = usage_leaf(x);

	if (!d->handle_size)
		return -ESTALE;
	return d->handle_size > sizeof(d->handle) ? -EIO
						  : leaf->type->inode_from_handle(leaf, d->handle, d->handle_size, inode);
}

/* False: of who asks it has none. */
static bool tell_path(struct request *rq, struct xlator *x, const struct dir *d, struct location *to)
{
	bool told = false;
	struct inode *inode = NULL;
	struct getxattr_in in = { .name = LOCATION_XATTR };
	struct getxattr_out out = { 0 };
	const char *key;
	char *at, *value;

	if (find_dir(x, d, &inode))
		return false;
	in.inode = inode;
	if (!getxattr_on(rq, x->child[0], &in, &out)) {
		at = out.value.bytes;
		while ((value = location_next(&at, (char *)out.value.bytes + out.value.size, &key)))
			if (!strcmp(key, "path")) {
				location_line(to, "path", "%s", value);
				told = true;
			}
	}
	fop_out_clear(FOP_getxattr, &out);
	inode_unref(inode);
	return told;
}

static int tell(struct request *rq, struct xlator *x, const struct dir *d, struct amount used, struct location *to,
		struct blob *value)
{
	location_line(to, "bytes", "%" PRId64, used.bytes);
	location_line(to, "inodes", "%" PRId64, used.inodes);
	location_line(to, "bytes-limit", "%" PRId64, d->limit.bytes);
	location_line(to, "inodes-limit", "%" PRId64, d->limit.inodes);
	location_line(to, "exact", "%s", ledger_owes(&usage_of(x)->ledger) ? "no" : "yes");
	location_line(to, "id", "%016" PRIx64, d->id);
	if (!tell_path(rq, x, d, to) && request_is_confined(rq)) { /* it is above what he sees, and so is what else it holds */
		free(to->text);
		return -ENODATA;
	}
	return location_end(to, value);
}

bool dirs_is_seen(struct request *rq, struct xlator *x, const struct dir *d)
{
	struct location to = { 0 };
	bool seen = !request_is_confined(rq) || tell_path(rq, x, d, &to);

	free(to.text);
	return seen;
}

/* A tenant has his own only. */
static bool is_theirs(const struct request *rq, struct ledger *l, const struct dir *d)
{
	return !request_is_tenants(rq) || d->account == ledger_row(l, rq->root);
}

static int tell_next(struct request *rq, struct xlator *x, const char *from, struct blob *value)
{
	struct ledger *l = &usage_of(x)->ledger;
	struct location to = { 0 };
	struct amount used;
	struct dir d;
	char *end;
	unsigned long number = strtoul(from, &end, 10);
	uint32_t next = number < DIRS_MAX ? (uint32_t)number : DIRS_MAX;

	if (!may_administer(rq))
		return -EPERM;
	if (!isdigit((unsigned char)*from) || *end)
		return -EOPNOTSUPP;
	while (ledger_dir_next(l, &next, &d, &used)) {
		if (!d.handle_size || !is_theirs(rq, l, &d))
			continue;
		location_line(&to, "number", "%" PRIu32, next - 1);
		return tell(rq, x, &d, used, &to, value);
	}
	return -ENODATA;
}

int dirs_tell(struct request *rq, struct xlator *x, const struct getxattr_in *in, struct blob *value)
{
	const char *more = in->name + strlen(QUOTA_XATTR);
	struct location to = { 0 };
	struct amount used;
	struct dir d;
	uint64_t id;
	int err;

	if (*more)
		return tell_next(rq, x, more + 1, value);
	err = charge_dir(rq, x, in->inode, &id);
	if (!err && !ledger_dir_read(&usage_of(x)->ledger, id, &d, &used))
		err = -ENODATA;
	return err ? err : tell(rq, x, &d, used, &to, value);
}

/* By its number, for the process itself: it looks for the directory of an access point. */
int dirs_find(struct request *rq, struct xlator *x, const struct getxattr_in *in, struct blob *value)
{
	struct ledger *l = &usage_of(x)->ledger;
	const char *number = in->name + strlen(QUOTA_DIRECTORY_XATTR);
	struct extent e = { 0 };
	struct inode *inode = NULL;
	struct amount used;
	struct dir d;
	int err = rq->client || !request_is_tenants(rq) ? -ENODATA : 0;

	if (!err && !ledger_dir_read(l, strtoull(number, NULL, 16), &d, &used))
		err = ledger_dirs_known(l) ? -ENODATA : -EAGAIN;
	if (!err && !is_theirs(rq, l, &d))
		err = -ENODATA;
	if (!err)
		err = find_dir(x, &d, &inode);
	if (!err)
		err = charge_look(rq, x, inode, &e);
	inode_unref(inode);
	if (!err && (!e.is_top || e.dir != d.id))
		err = -ENODATA;
	if (err)
		return err == -ESTALE || err == -ENOENT ? -ENODATA : err;
	value->bytes = malloc(d.handle_size);
	value->size = d.handle_size;
	if (!value->bytes)
		return -ENOMEM;
	memcpy(value->bytes, d.handle, d.handle_size);
	return 0;
}

void dirs_print(struct xlator *x, FILE *out, bool json)
{
	struct ledger *l = &usage_of(x)->ledger;
	const char *before = json ? "[" : "";
	struct amount used;
	struct dir d;

	if (!json)
		fprintf(out, "%-20s %20s %12s %20s %12s\n", "DIRECTORY", "BYTES", "INODES", "OF BYTES", "OF INODES");
	for (uint32_t number = 0; ledger_dir_next(l, &number, &d, &used); before = json ? ", " : "")
		fprintf(out,
			json ? "%s{\"directory\": %" PRIu64 ", \"bytes\": %" PRId64 ", \"inodes\": %" PRId64
			       ", \"bytes_limit\": %" PRId64 ", \"inodes_limit\": %" PRId64 "}"
			     : "%s%-20" PRIu64 " %20" PRId64 " %12" PRId64 " %20" PRId64 " %12" PRId64 "\n",
			before, (uint64_t)d.id, used.bytes, used.inodes, d.limit.bytes, d.limit.inodes);
	if (json)
		fprintf(out, "%s]\n", *before == '[' ? before : "");
}

/* ---- a ledger that does not know all, or that another process has left ---- */

void dirs_met(struct xlator *x, struct inode *inode, const struct extent *e, uint32_t account)
{
	struct ledger *l = &usage_of(x)->ledger;
	struct dir d = { .id = e->dir, .limit = e->limit, .account = account };
	int err = 0;

	if (!e->dir || (!usage_of(x)->replicated && (!e->is_top || ledger_dirs_known(l))))
		return;
	if (e->is_top) {
		d.handle_size = usage_handle(x, inode, d.handle);
		err = d.handle_size ? ledger_dir_add(l, &d) : -ESTALE;
		ledger_dir_settled(l, e->dir);
	} else {
		err = ledger_dir_need(l, e->dir, account);
	}
	if (err)
		log_error(x, NULL, "a directory's limit is lost: too many directories have one");
}

/* Of what can't be looked at just now the row stays. */
static void check(struct request *rq, struct xlator *x, const struct dir *d)
{
	struct ledger *l = &usage_of(x)->ledger;
	struct inode *inode = NULL;
	struct extent e = { 0 };
	int err = d->handle_size ? find_dir(x, d, &inode) : -ENOENT;

	if (!err)
		err = charge_look(rq, x, inode, &e);
	if (err == -ESTALE || err == -ENOENT || (!err && (!e.is_top || e.dir != d->id)))
		ledger_dir_gone(l, d->id);
	else if (!err)
		ledger_dir_limit(l, d->id, e.limit);
	inode_unref(inode);
}

void dirs_check(struct request *rq, struct xlator *x)
{
	struct amount used;
	struct dir d;

	for (uint32_t number = 0; ledger_dir_next(&usage_of(x)->ledger, &number, &d, &used);)
		check(rq, x, &d);
}
