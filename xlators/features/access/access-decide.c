/* SPDX-License-Identifier: Apache-2.0 */
/* The decisions about one object, as Linux makes them (fs/namei.c, fs/attr.c, fs/xattr.c, fs/posix_acl.c of Linux 6). */
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <linux/xattr.h>
#include <sys/sysmacros.h>

#include "access.h"
#include "location.h"
#include "quota.h"

bool is_root(const struct request *rq)
{
	return request_is_root(rq);
}

/* ---- permission bits ---- */

struct group_class { /* what the entries for groups say, with those apart of which membership isn't known */
	bool member, granted;
	bool unknown_grants, unknown_refuses;
	int error; /* why it isn't known */
};

static void ask_group(struct request *rq, struct group_class *g, gid_t gid, bool grants)
{
	int member = request_in_group(rq, gid);

	if (member < 0) {
		g->error = member;
		*(grants ? &g->unknown_grants : &g->unknown_refuses) = true;
	} else if (member) {
		g->member = true;
		g->granted |= grants;
	}
}

/* One matching group that grants is enough; a match without one is a refusal; no match leaves it to the others. The groups
 * that aren't known are asked for only if the answer depends on them. */
static int group_verdict(const struct group_class *g, bool other_grants)
{
	if (g->granted)
		return 0;
	if (g->unknown_grants && (g->member || !other_grants))
		return g->error;
	if (g->unknown_refuses && !g->member && other_grants)
		return g->error;
	return !g->member && other_grants ? 0 : -EACCES;
}

static bool allows(unsigned perm, unsigned want)
{
	return (perm & want) == want;
}

/* Each group once, and whether some entry about it grants; until one does that the caller is in. */
static void ask_groups(struct request *rq, const struct facts *f, unsigned mask, unsigned want, struct group_class *g)
{
	for (uint32_t i = f->first_group, next; i < f->entries && !g->granted; i = next) {
		bool grants = false;

		for (next = i; next < f->entries && f->entry[next].id == f->entry[i].id; next++)
			grants |= allows(f->entry[next].perm & mask, want);
		ask_group(rq, g, f->entry[i].id, grants);
	}
}

static unsigned acl_mask(const struct facts *f)
{
	for (uint32_t i = 0; i < f->first_group; i++)
		if (f->entry[i].tag == ACL_MASK)
			return f->entry[i].perm;
	return 7;
}

static int decide_acl(struct request *rq, const struct facts *f, unsigned want)
{
	struct group_class g = { 0 };
	unsigned mask = acl_mask(f), other = 0;

	for (uint32_t i = 0; i < f->first_group; i++) {
		const struct acl_entry *e = &f->entry[i];

		if (e->tag == ACL_USER && e->id == rq->uid)
			return allows(e->perm & mask, want) ? 0 : -EACCES;
		if (e->tag == ACL_OTHER)
			other = e->perm;
	}
	ask_groups(rq, f, mask, want, &g);
	return group_verdict(&g, allows(other, want));
}

static int decide_mode(struct request *rq, const struct facts *f, unsigned want)
{
	struct group_class g = { 0 };

	if (want & (f->mode ^ f->mode >> 3))
		ask_group(rq, &g, f->gid, allows(f->mode >> 3, want));
	return group_verdict(&g, allows(f->mode, want));
}

/* Setuid, or setgid that means what it says (without group execution it is a mark of old mandatory locks). */
bool has_privilege(const struct facts *f)
{
	return f->mode & S_ISUID || (f->mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP);
}

/* CAP_DAC_OVERRIDE: all, but a file must be executable for someone. */
static int decide_root(struct request *rq, struct xlator *x, struct inode *inode, unsigned want)
{
	cleanup_facts struct facts *f = NULL;
	int err;

	if (!(want & MAY_EXEC) || S_ISDIR(inode->type))
		return 0;
	f = facts_get(rq, x, inode, &err);
	if (!f)
		return err;
	return f->mode & 0111 ? 0 : -EACCES;
}

int decide(struct request *rq, struct xlator *x, struct inode *inode, unsigned want)
{
	cleanup_facts struct facts *f = NULL, *full = NULL;
	int err;

	if (is_root(rq))
		return decide_root(rq, x, inode, want);
	f = facts_get(rq, x, inode, &err);
	if (!f)
		return err;
	if (f->uid == rq->uid)
		return allows(f->mode >> 6, want) ? 0 : -EACCES;
	if (!(f->mode & 070) || S_ISLNK(f->mode)) /* no bit in the mask: Linux doesn't look at the ACL either */
		return decide_mode(rq, f, want);
	full = facts_get_acl(rq, x, inode, &err);
	if (!full)
		return err;
	return full->entries ? decide_acl(rq, full, want) : decide_mode(rq, full, want);
}

int decide_owner(struct request *rq, struct xlator *x, struct inode *inode)
{
	cleanup_facts struct facts *f = NULL;
	int err;

	if (is_root(rq))
		return 0;
	f = facts_get(rq, x, inode, &err);
	if (!f)
		return err;
	return f->uid == rq->uid ? 0 : -EPERM;
}

int decide_open(struct request *rq, struct xlator *x, struct inode *inode, uint32_t flags)
{
	static const unsigned wants[] = { MAY_READ, MAY_WRITE, MAY_READ | MAY_WRITE, MAY_READ | MAY_WRITE };
	unsigned want = wants[flags & O_ACCMODE];
	int err;

	if (flags & OPEN_FOR_EXEC && want == MAY_READ)
		want = MAY_EXEC;
	if (flags & O_TRUNC)
		want |= MAY_WRITE;
	if (S_ISDIR(inode->type) && want & MAY_WRITE)
		return -EISDIR;
	err = decide(rq, x, inode, want);
	if (!err && flags & O_NOATIME)
		err = decide_owner(rq, x, inode);
	return err;
}

/* ---- attributes ---- */

static int decide_size(struct request *rq, struct xlator *x, const struct setattr_in *in)
{
	if (in->file)
		return writable(in->file) ? 0 : -EINVAL;
	if (!S_ISREG(in->inode->type))
		return S_ISDIR(in->inode->type) ? -EISDIR : -EINVAL;
	return decide(rq, x, in->inode, MAY_WRITE);
}

static int decide_chown(struct request *rq, const struct facts *f, const struct setattr *set)
{
	int member;

	if (set->valid & SET_UID && (f->uid != rq->uid || set->uid != f->uid))
		return -EPERM;
	if (!(set->valid & SET_GID))
		return 0;
	if (f->uid != rq->uid)
		return -EPERM;
	if (set->gid == f->gid)
		return 0;
	member = request_in_group(rq, set->gid);
	return member < 0 ? member : member ? 0 : -EPERM;
}

/* chmod by one who isn't in the object's group drops setgid silently. */
static int decide_chmod(struct request *rq, const struct facts *f, struct setattr *set)
{
	int member;

	if (f->uid != rq->uid)
		return -EPERM;
	if (!(set->mode & S_ISGID))
		return 0;
	member = request_in_group(rq, set->valid & SET_GID ? set->gid : f->gid);
	if (member < 0)
		return member;
	if (!member)
		set->mode &= ~S_ISGID;
	return 0;
}

/* Times of one's own choice are for the owner; "now" also for who may write. */
static int decide_times(struct request *rq, struct xlator *x, const struct facts *f, const struct setattr_in *in)
{
	uint32_t valid = in->set.valid;
	bool to_now = valid & (SET_ATIME_NOW | SET_MTIME_NOW) && !(valid & (SET_ATIME | SET_MTIME));

	if (f->uid == rq->uid || !(valid & (SET_ATIME | SET_MTIME | SET_ATIME_NOW | SET_MTIME_NOW)))
		return 0;
	if (valid & SET_SIZE && to_now) /* what writing does anyway, and that was decided */
		return 0;
	if (to_now && (valid & SET_ATIME_NOW) && (valid & SET_MTIME_NOW))
		return in->file && writable(in->file) ? 0 : decide(rq, x, in->inode, MAY_WRITE);
	return -EPERM;
}

/* An open file that writes may set its mtime to now: a client's kernel does so for mmap and buffered writes. */
static bool write_time(const struct setattr_in *in)
{
	return in->file && writable(in->file) && !(in->set.valid & ~(SET_MTIME_NOW | SET_SIZE | SET_KILL_PRIV));
}

/* Setuid and setgid alone are to go: like a chmod, and like a write, of which the kernel may say so before. */
static int decide_kill(struct request *rq, struct xlator *x, const struct facts *f, struct inode *inode)
{
	int err = f->uid == rq->uid || !has_privilege(f) ? 0 : decide(rq, x, inode, MAY_WRITE);

	return err == -EACCES ? -EPERM : err;
}

int decide_setattr(struct request *rq, struct xlator *x, const struct setattr_in *in, struct setattr *set)
{
	cleanup_facts struct facts *f = NULL;
	int err = 0;

	if (in->file && in->file->inode != in->inode)
		return -EINVAL; /* what the file may is judged, the inode is changed */
	if (set->valid & SET_SIZE)
		err = decide_size(rq, x, in);
	if (err || is_root(rq))
		return err;
	f = facts_get(rq, x, in->inode, &err);
	if (!f)
		return err;
	if (set->valid & SET_SIZE && has_privilege(f))
		set->valid |= SET_KILL_PRIV;
	if (write_time(in))
		return 0;
	if (set->valid == SET_KILL_PRIV)
		return decide_kill(rq, x, f, in->inode);
	if (set->valid & (SET_UID | SET_GID))
		err = decide_chown(rq, f, set);
	if (!err && set->valid & SET_MODE)
		err = decide_chmod(rq, f, set);
	return err ? err : decide_times(rq, x, f, in);
}

/* ---- extended attributes ---- */

static bool begins(const char *name, const char *prefix)
{
	return !strncmp(name, prefix, strlen(prefix));
}

bool acl_name(const char *name)
{
	return !strcmp(name, XATTR_NAME_POSIX_ACL_ACCESS) || !strcmp(name, XATTR_NAME_POSIX_ACL_DEFAULT);
}

static bool internal(const char *name)
{
	return begins(name, "trusted.stratus") || begins(name, "trusted.sfs");
}

static bool security_known(const char *name)
{
	static const char *const names[] = { "capability", "selinux", "ima", "evm" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name + strlen("security."), names[i]))
			return true;
	return false;
}

static bool has_user_xattrs(const struct inode *inode)
{
	return S_ISREG(inode->type) || S_ISDIR(inode->type);
}

int decide_getxattr(struct request *rq, struct xlator *x, struct inode *inode, const char *name)
{
	if (begins(name, "trusted."))
		return is_root(rq) && !internal(name) ? 0 : -ENODATA;
	if (begins(name, "security."))
		return security_known(name) ? 0 : -ENODATA;
	if (begins(name, "system."))
		return acl_name(name) || is_location(name) || is_quota(name) ? 0 : -EOPNOTSUPP;
	if (!begins(name, "user."))
		return -EOPNOTSUPP;
	return has_user_xattrs(inode) ? decide(rq, x, inode, MAY_READ) : -ENODATA;
}

static int decide_set_user(struct request *rq, struct xlator *x, struct inode *inode)
{
	cleanup_facts struct facts *f = NULL;
	int err;

	if (!has_user_xattrs(inode))
		return -EPERM;
	if (S_ISDIR(inode->type) && !is_root(rq)) {
		f = facts_get(rq, x, inode, &err);
		if (!f)
			return err;
		if (f->mode & S_ISVTX && f->uid != rq->uid)
			return -EPERM;
	}
	return decide(rq, x, inode, MAY_WRITE);
}

int decide_setxattr(struct request *rq, struct xlator *x, struct inode *inode, const char *name)
{
	if (begins(name, "trusted."))
		return is_root(rq) && !internal(name) ? 0 : -EPERM;
	if (begins(name, "security."))
		return !is_root(rq) ? -EPERM : security_known(name) ? 0 : -EOPNOTSUPP;
	if (is_quota(name)) /* features/usage knows who may, if it is there */
		return is_root(rq) ? 0 : -EPERM;
	if (begins(name, "system."))
		return acl_name(name) ? decide_owner(rq, x, inode) : -EOPNOTSUPP;
	if (!begins(name, "user."))
		return -EOPNOTSUPP;
	return decide_set_user(rq, x, inode);
}

/* ---- making objects ---- */

/* What cluster/dht says of an object is its own doing, whoever the user is for whom it makes it. Else as for setxattr, by its owner. */
int decide_born(const struct request *rq)
{
	struct born born;
	int err = born_of(rq, &born);

	for (unsigned i = 0; i < born.count && !err; i++) {
		const char *name = born.xattr[i].name;

		if (begins(name, "trusted.dht.") || begins(name, "user."))
			continue;
		if (begins(name, "trusted."))
			err = is_root(rq) && !internal(name) ? 0 : -EPERM;
		else if (begins(name, "security."))
			err = !is_root(rq) ? -EPERM : security_known(name) ? 0 : -EOPNOTSUPP;
		else
			err = -EOPNOTSUPP;
	}
	return err;
}

int decide_mknod(const struct request *rq, mode_t mode, uint64_t rdev)
{
	bool whiteout = S_ISCHR(mode) && rdev == 0;

	return (S_ISCHR(mode) || S_ISBLK(mode)) && !whiteout && !is_root(rq) ? -EPERM : 0;
}

int create_mode(struct request *rq, struct xlator *x, struct inode *parent, mode_t mode, uint32_t *result)
{
	cleanup_facts struct facts *f = NULL;
	int member, err;

	*result = mode;
	if (is_root(rq) || (mode & (S_ISGID | S_IXGRP)) != (S_ISGID | S_IXGRP))
		return 0;
	f = facts_get(rq, x, parent, &err);
	if (!f)
		return err;
	if (!(f->mode & S_ISGID))
		return 0;
	member = request_in_group(rq, f->gid);
	if (member < 0)
		return member;
	if (!member)
		*result = mode & ~S_ISGID;
	return 0;
}
