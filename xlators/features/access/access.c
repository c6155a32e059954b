/* SPDX-License-Identifier: Apache-2.0 */
/* features/access: the one judge of permissions on a brick; what it lets through, the leaf does as root. */
#include "access.h"

#include <fcntl.h>
#include <sys/xattr.h>

enum { TRIES = 16 }; /* where others change the name meanwhile */

/* ---- names ---- */

static int access_lookup(struct request *rq, struct xlator *x, const struct lookup_in *in, struct lookup_out *out)
{
	struct access *p = x->private;
	uint64_t changes = p->changes;
	int err = in->loc.name ? decide_search(rq, x, &in->loc) : 0;

	if (!err)
		err = lookup_on(rq, x->child[0], in, out);
	if (!err)
		facts_learn(x, out->inode, &out->attr, changes);
	return err;
}

static int access_mknod(struct request *rq, struct xlator *x, const struct mknod_in *in, struct mknod_out *out)
{
	struct mknod_in changed = *in;
	int err = decide_enter(rq, x, &in->loc);

	if (!err)
		err = decide_born(rq);
	if (!err)
		err = decide_mknod(rq, in->mode, in->rdev);
	if (!err)
		err = create_mode(rq, x, in->loc.parent, in->mode, &changed.mode);
	return err ? err : mknod_on(rq, x->child[0], &changed, out);
}

static int access_mkdir(struct request *rq, struct xlator *x, const struct mkdir_in *in, struct mkdir_out *out)
{
	struct mkdir_in changed = *in;
	int err = decide_enter(rq, x, &in->loc);

	if (!err)
		err = decide_born(rq);
	changed.mode &= 01777; /* setgid comes from the parent alone */
	return err ? err : mkdir_on(rq, x->child[0], &changed, out);
}

static int access_symlink(struct request *rq, struct xlator *x, const struct symlink_in *in, struct symlink_out *out)
{
	int err = decide_enter(rq, x, &in->loc);

	if (!err)
		err = decide_born(rq);
	return err ? err : symlink_on(rq, x->child[0], in, out);
}

static int access_link(struct request *rq, struct xlator *x, const struct link_in *in, struct link_out *out)
{
	int err = decide_link(rq, x, in->inode, &in->loc);

	return err ? err : link_on(rq, x->child[0], in, out);
}

/* What was judged is what goes. A request that does not say what that is means the name, whatever that stands for by then. */
static int remove_judged(struct request *rq, struct xlator *x, enum fop fop, const struct unlink_in *in, void *out)
{
	cleanup_inode struct inode *judged = NULL;
	struct unlink_in exact = *in;
	int err = decide_remove(rq, x, &in->loc, &judged);

	exact.loc.inode = judged ? judged : in->loc.inode;
	return err == -ENOENT && rq->resent ? 0 : err ? err : fop_call(rq, x->child[0], fop, &exact, out);
}

static int remove_name(struct request *rq, struct xlator *x, enum fop fop, const struct unlink_in *in, void *out)
{
	int err = -ESTALE;

	for (int tries = 0; err == -ESTALE && tries < TRIES; tries++) {
		err = remove_judged(rq, x, fop, in, out);
		if (in->loc.inode)
			break;
	}
	return err;
}

static int access_unlink(struct request *rq, struct xlator *x, const struct unlink_in *in, struct unlink_out *out)
{
	return remove_name(rq, x, FOP_unlink, in, out);
}

static int access_rmdir(struct request *rq, struct xlator *x, const struct rmdir_in *in, struct rmdir_out *out)
{
	return remove_name(rq, x, FOP_rmdir, &(struct unlink_in){ .loc = in->loc }, out);
}

static int rename_judged(struct request *rq, struct xlator *x, const struct rename_in *in, struct rename_out *out)
{
	struct renamed who = { 0 };
	struct rename_in exact = *in;
	bool only_new;
	int err = decide_rename(rq, x, in, &who);

	exact.from.inode = who.from ? who.from : in->from.inode;
	exact.to.inode = who.to ? who.to : in->to.inode;
	only_new = who.to_new && !(in->flags & RENAME_NOREPLACE);
	exact.flags |= who.to_new ? RENAME_NOREPLACE : 0;
	if (!err)
		err = rename_on(rq, x->child[0], &exact, out);
	inode_unref(who.from);
	inode_unref(who.to);
	return err == -EEXIST && only_new ? -ESTALE : err; /* the name has come since */
}

static int access_rename(struct request *rq, struct xlator *x, const struct rename_in *in, struct rename_out *out)
{
	int err = -ESTALE;

	for (int tries = 0; err == -ESTALE && tries < TRIES; tries++) {
		err = rename_judged(rq, x, in, out);
		if (in->from.inode || in->to.inode)
			break;
	}
	return err;
}

/* ---- opening ---- */

/* Truncating takes privileges away; the leaf, being root, would keep them. */
static int open_truncated(struct request *rq, struct xlator *x, const struct open_in *in, struct open_out *out)
{
	struct open_in untouched = { .inode = in->inode, .flags = in->flags & ~O_TRUNC };
	struct setattr_in set = { .inode = in->inode, .set = { .valid = SET_SIZE | SET_KILL_PRIV } };
	struct setattr_out attr;
	int err = open_on(rq, x->child[0], &untouched, out);

	if (err)
		return err;
	set.file = out->file;
	err = setattr_on(rq, x->child[0], &set, &attr);
	facts_forget(x, in->inode);
	if (err)
		fop_out_clear(FOP_open, out);
	return err;
}

static int open_existing(struct request *rq, struct xlator *x, const struct open_in *in, struct open_out *out)
{
	cleanup_facts struct facts *f = NULL;
	int err;

	if (!(in->flags & O_TRUNC) || is_root(rq))
		return open_on(rq, x->child[0], in, out);
	f = facts_get(rq, x, in->inode, &err);
	if (!f)
		return err;
	return has_privilege(f) ? open_truncated(rq, x, in, out) : open_on(rq, x->child[0], in, out);
}

static int access_open(struct request *rq, struct xlator *x, const struct open_in *in, struct open_out *out)
{
	int err = decide_open(rq, x, in->inode, in->flags);

	return err ? err : open_existing(rq, x, in, out);
}

static int access_opendir(struct request *rq, struct xlator *x, const struct opendir_in *in, struct opendir_out *out)
{
	int err = S_ISDIR(in->inode->type) ? decide(rq, x, in->inode, MAY_READ) : -ENOTDIR;

	return err ? err : opendir_on(rq, x->child[0], in, out);
}

static int create_new(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	struct access *p = x->private;
	struct create_in changed = *in;
	uint64_t changes = p->changes;
	int err = create_mode(rq, x, in->loc.parent, in->mode, &changed.mode);

	changed.flags |= O_EXCL;
	if (!err)
		err = create_on(rq, x->child[0], &changed, out);
	if (!err)
		facts_learn(x, out->inode, &out->attr, changes);
	return err;
}

/* Opens what has the name, which is judged like any other open. */
static int create_open(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	struct lookup_in look = { .loc = { .parent = in->loc.parent, .name = in->loc.name } };
	struct lookup_out found = { 0 };
	struct open_in open = { .flags = in->flags & ~O_CREAT };
	struct open_out opened = { 0 };
	struct getattr_in attr = { 0 };
	struct getattr_out fresh;
	int err = access_lookup(rq, x, &look, &found);

	if (err)
		return err;
	open.inode = attr.inode = found.inode;
	err = S_ISREG(found.inode->type) ? access_open(rq, x, &open, &opened) : S_ISDIR(found.inode->type) ? -EISDIR : -ESTALE;
	if (!err && in->flags & O_TRUNC && !getattr_on(rq, x->child[0], &attr, &fresh))
		found.attr = fresh.attr;
	if (err)
		fop_out_clear(FOP_lookup, &found);
	else
		*out = (struct create_out){ .inode = found.inode, .file = opened.file, .attr = found.attr };
	return err;
}

/* The leaf is only ever asked to make a new file: if it opened an existing one, that could be one nobody has judged. */
static int access_create(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	int err = decide_search(rq, x, &in->loc), may_enter;

	if (!err)
		err = decide_born(rq);
	if (err)
		return err;
	may_enter = decide(rq, x, in->loc.parent, MAY_WRITE | MAY_EXEC);
	if (may_enter && may_enter != -EACCES)
		return may_enter;
	if (in->flags & O_EXCL) {
		err = decide_enter(rq, x, &in->loc);
		return err ? err : create_new(rq, x, in, out);
	}
	for (int tries = 0; tries < TRIES; tries++) { /* others may make and remove the name meanwhile */
		err = may_enter ? -EEXIST : create_new(rq, x, in, out);
		if (err == -EEXIST)
			err = create_open(rq, x, in, out);
		if (err != -ENOENT)
			return err;
		if (may_enter)
			return may_enter;
	}
	return err;
}

/* ---- open files: what they were opened for ---- */

static int access_read(struct request *rq, struct xlator *x, const struct read_in *in, struct read_out *out)
{
	return readable(in->file) ? read_on(rq, x->child[0], in, out) : -EBADF;
}

/* A hostile client doesn't ask for privileges to be dropped. What the cache says about them may be old only in their favour. */
bool must_drop_privilege(struct request *rq, struct xlator *x, struct inode *inode)
{
	cleanup_facts struct facts *f = NULL;
	int err;

	if (is_root(rq))
		return false;
	f = facts_get(rq, x, inode, &err);
	return !f || has_privilege(f);
}

static int access_write(struct request *rq, struct xlator *x, const struct write_in *in, struct write_out *out)
{
	struct write_in changed = *in;
	int err;

	if (!writable(in->file))
		return -EBADF;
	if (in->flags & WRITE_KILL_PRIV || !must_drop_privilege(rq, x, in->file->inode))
		return write_on(rq, x->child[0], in, out);
	changed.flags |= WRITE_KILL_PRIV;
	err = write_on(rq, x->child[0], &changed, out);
	facts_forget(x, in->file->inode);
	return err;
}

static int access_fallocate(struct request *rq, struct xlator *x, const struct fallocate_in *in, struct fallocate_out *out)
{
	return writable(in->file) ? fallocate_on(rq, x->child[0], in, out) : -EBADF;
}

static int access_copy_range(struct request *rq, struct xlator *x, const struct copy_range_in *in, struct copy_range_out *out)
{
	if (!readable(in->from) || !writable(in->to))
		return -EBADF;
	return copy_range_on(rq, x->child[0], in, out);
}

static int access_setlk(struct request *rq, struct xlator *x, const struct setlk_in *in, struct setlk_out *out)
{
	if (in->lock.kind == LOCK_POSIX &&
	    ((in->lock.type == F_RDLCK && !readable(in->file)) || (in->lock.type == F_WRLCK && !writable(in->file))))
		return -EBADF;
	return setlk_on(rq, x->child[0], in, out);
}

/* Who may list a directory but not search it gets its names only. */
static int access_readdir(struct request *rq, struct xlator *x, const struct readdir_in *in, struct readdir_out *out)
{
	struct readdir_in names = *in;
	int err = in->flags & READDIR_PLUS ? decide(rq, x, in->file->inode, MAY_EXEC) : 0;

	if (err && err != -EACCES)
		return err;
	if (err)
		names.flags &= ~READDIR_PLUS;
	return readdir_on(rq, x->child[0], &names, out);
}

/* ---- attributes ---- */

static int access_access(struct request *rq, struct xlator *x, const struct access_in *in, struct access_out *out)
{
	(void)out;
	if (in->mask & ~7)
		return -EINVAL;
	return decide(rq, x, in->inode, in->mask);
}

bool changes_facts(uint32_t valid)
{
	return valid & (SET_MODE | SET_UID | SET_GID | SET_KILL_PRIV);
}

static int access_setattr(struct request *rq, struct xlator *x, const struct setattr_in *in, struct setattr_out *out)
{
	struct setattr_in changed = *in;
	int err;

	if (!changed.inode)
		changed.inode = in->file->inode;
	err = decide_setattr(rq, x, &changed, &changed.set);
	if (err)
		return err;
	err = setattr_on(rq, x->child[0], &changed, out);
	if (changes_facts(changed.set.valid))
		facts_forget(x, changed.inode);
	return err;
}

/* An ACL set by one who isn't in the object's group drops setgid, like chmod. */
int drop_setgid(struct request *rq, struct xlator *x, struct inode *inode, const char *name)
{
	cleanup_facts struct facts *f = NULL;
	struct setattr_in set = { .inode = inode, .set.valid = SET_MODE };
	struct setattr_out attr;
	int member, err;

	if (is_root(rq) || strcmp(name, "system.posix_acl_access"))
		return 0;
	facts_forget(x, inode); /* writes of others may have taken privileges away, which are not to come back */
	f = facts_get(rq, x, inode, &err);
	if (!f || !(f->mode & S_ISGID))
		return f ? 0 : err;
	member = request_in_group(rq, f->gid);
	if (member)
		return member < 0 ? member : 0;
	set.set.mode = f->mode & 07777 & ~S_ISGID;
	err = setattr_on(rq, x->child[0], &set, &attr);
	facts_forget(x, inode);
	return err;
}

static int access_setxattr(struct request *rq, struct xlator *x, const struct setxattr_in *in, struct setxattr_out *out)
{
	int err = decide_setxattr(rq, x, in->inode, in->name);

	if (!err)
		err = drop_setgid(rq, x, in->inode, in->name);
	if (err)
		return err;
	err = setxattr_on(rq, x->child[0], in, out);
	if (acl_name(in->name))
		facts_forget(x, in->inode);
	return err;
}

static int access_removexattr(struct request *rq, struct xlator *x, const struct removexattr_in *in,
			      struct removexattr_out *out)
{
	int err = decide_setxattr(rq, x, in->inode, in->name);

	if (err)
		return err;
	err = removexattr_on(rq, x->child[0], in, out);
	if (acl_name(in->name))
		facts_forget(x, in->inode);
	return err;
}

static int access_getxattr(struct request *rq, struct xlator *x, const struct getxattr_in *in, struct getxattr_out *out)
{
	int err = decide_getxattr(rq, x, in->inode, in->name);

	return err ? err : getxattr_on(rq, x->child[0], in, out);
}

/* Names that the caller couldn't read because of their kind aren't shown. */
static bool hidden(const struct request *rq, const char *name)
{
	return !strncmp(name, "trusted.", 8) &&
	       (!is_root(rq) || !strncmp(name, "trusted.stratus", 15) || !strncmp(name, "trusted.sfs", 11));
}

void hide_names(const struct request *rq, struct blob *names)
{
	char *to = names->bytes, *end = to ? to + names->size : to;
	size_t length;

	for (char *from = to; from < end; from += length) {
		length = strnlen(from, end - from - 1) + 1;
		if (hidden(rq, from))
			continue;
		memmove(to, from, length);
		to += length;
	}
	names->size = to - (char *)names->bytes;
}

static int access_listxattr(struct request *rq, struct xlator *x, const struct listxattr_in *in, struct listxattr_out *out)
{
	int err = listxattr_on(rq, x->child[0], in, out);

	if (!err)
		hide_names(rq, &out->names);
	return err;
}

static void access_dump(struct xlator *x, FILE *f)
{
	const struct access *p = x->private;

	fprintf(f, "  asked-the-child: %llu\n  changes-seen: %llu\n", (unsigned long long)p->loads,
		(unsigned long long)p->changes);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "features/access",
	.summary = "decides who may do what, as Linux does",
	.private_size = sizeof(struct access),
	.min_children = 1,
	.max_children = 1,
	.forget_inode = access_forget_inode,
	.dump = access_dump,
	.lookup = access_lookup,
	.setattr = access_setattr,
	.access = access_access,
	.mknod = access_mknod,
	.mkdir = access_mkdir,
	.symlink = access_symlink,
	.unlink = access_unlink,
	.rmdir = access_rmdir,
	.rename = access_rename,
	.link = access_link,
	.create = access_create,
	.open = access_open,
	.read = access_read,
	.write = access_write,
	.opendir = access_opendir,
	.readdir = access_readdir,
	.setxattr = access_setxattr,
	.getxattr = access_getxattr,
	.listxattr = access_listxattr,
	.removexattr = access_removexattr,
	.fallocate = access_fallocate,
	.copy_range = access_copy_range,
	.setlk = access_setlk,
	.compound = access_compound,
};
