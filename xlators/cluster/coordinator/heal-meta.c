/* SPDX-License-Identifier: Apache-2.0 */
/* Owner, mode, extended attributes and times. */
#include "heal-internal.h"

static int set(struct pair *p, const struct setattr *s)
{
	struct setattr_in in = { .inode = p->inode, .set = *s };
	struct setattr_out out = { 0 };

	p->changed = true;
	return heal_call(p->h, p->rq, p->to, FOP_setattr, &in, &out);
}

static bool same_times(const struct pair *p)
{
	/* Reading changes atime at one member: that is no difference. */
	return !p->changed && same_time(&p->source.mtime, &p->target.mtime) &&
	       (p->h->look || same_time(&p->source.atime, &p->target.atime));
}

int pair_times(struct pair *p)
{
	struct setattr s = { .valid = SET_ATIME | SET_MTIME, .atime = p->source.atime, .mtime = p->source.mtime };

	return same_times(p) ? 0 : set(p, &s);
}

int birth_heal(struct pair *p, struct inode *inode, const struct time *from, const struct time *to)
{
	struct setattr_in in = { .inode = inode, .set = { .valid = SET_BIRTH } };
	struct setattr_out out = { 0 };

	if (same_time(from, to) || gfid_equal(&inode->gfid, &gfid_root)) /* each brick was made at its time */
		return 0;
	return heal_call_at(p->h, p->rq, p->to, FOP_setattr, &in, &out, from);
}

/* ---- extended attributes ---- */

/* The next name of a list, NULL at its end. */
static const char *next_name(const struct blob *names, const char *name)
{
	const char *end = names->size ? (const char *)names->bytes + names->size : NULL;

	name = name ? name + strlen(name) + 1 : names->bytes;
	return name && name < end && memchr(name, 0, (size_t)(end - name)) ? name : NULL;
}

static bool has_name(const struct blob *names, const char *name)
{
	const char *n = NULL;

	while ((n = next_name(names, n)))
		if (!strcmp(n, name))
			return true;
	return false;
}

static int list(struct pair *p, int at, struct listxattr_out *out)
{
	struct listxattr_in in = { .inode = p->inode };
	int err = heal_call(p->h, p->rq, at, FOP_listxattr, &in, out);

	return err == -EOPNOTSUPP ? 0 : err;
}

static int drop(struct pair *p, const char *name)
{
	struct removexattr_in in = { .inode = p->inode, .name = name };
	struct removexattr_out out = { 0 };
	int err = heal_call(p->h, p->rq, p->to, FOP_removexattr, &in, &out);

	p->changed = true;
	return err == -ENODATA ? 0 : err;
}

static int get(struct pair *p, int at, const char *name, struct getxattr_out *out)
{
	struct getxattr_in in = { .inode = p->inode, .name = name };

	return heal_call(p->h, p->rq, at, FOP_getxattr, &in, out);
}

/* The target has just this value? 1, 0, -errno. */
static int has_value(struct pair *p, const char *name, const struct blob *value)
{
	struct getxattr_out out = { 0 };
	int err = get(p, p->to, name, &out), same;

	if (err)
		return err == -ENODATA ? 0 : err;
	same = out.value.size == value->size && (!value->size || !memcmp(out.value.bytes, value->bytes, value->size));
	fop_out_clear(FOP_getxattr, &out);
	return same;
}

static int copy(struct pair *p, const char *name, bool is_there)
{
	struct getxattr_out value = { 0 };
	struct setxattr_out done = { 0 };
	int same, err = get(p, p->from, name, &value);

	if (err)
		return err == -ENODATA ? 0 : err;
	same = is_there ? has_value(p, name, &value.value) : 0;
	if (!same) {
		struct setxattr_in in = { .inode = p->inode, .name = name, .value = value.value };

		p->changed = true;
		err = heal_call(p->h, p->rq, p->to, FOP_setxattr, &in, &done);
	}
	fop_out_clear(FOP_getxattr, &value);
	return same < 0 ? same : err;
}

static int heal_lists(struct pair *p, const struct blob *source, const struct blob *target)
{
	const char *name = NULL;
	int err = 0;

	while (!err && (name = next_name(target, name))) /* first, for the room */
		if (!has_name(source, name))
			err = drop(p, name);
	for (name = NULL; !err && (name = next_name(source, name));)
		err = copy(p, name, has_name(target, name));
	return err;
}

static int heal_xattrs(struct pair *p)
{
	struct listxattr_out source = { 0 }, target = { 0 };
	int err = list(p, p->from, &source);

	if (!err)
		err = list(p, p->to, &target);
	if (!err)
		err = heal_lists(p, &source.names, &target.names);
	fop_out_clear(FOP_listxattr, &source);
	fop_out_clear(FOP_listxattr, &target);
	return err;
}

/* ---- all ---- */

static int heal_owner(struct pair *p)
{
	struct setattr s = { .valid = SET_UID | SET_GID, .uid = p->source.uid, .gid = p->source.gid };

	return p->source.uid == p->target.uid && p->source.gid == p->target.gid ? 0 : set(p, &s);
}

/* The owner first: a new one takes setuid, setgid and capabilities away. The mode after ACLs, which change it. */
int pair_meta(struct pair *p)
{
	struct setattr s = { .valid = SET_ATIME | SET_MTIME | (S_ISLNK(p->inode->type) ? 0 : SET_MODE),
			     .mode = p->source.mode & 07777,
			     .atime = p->source.atime,
			     .mtime = p->source.mtime };
	int err = birth_heal(p, p->inode, &p->source.btime, &p->target.btime);

	if (!err)
		err = heal_owner(p);
	if (!err)
		err = heal_xattrs(p);
	if (err)
		return err;
	return same_times(p) && p->source.mode == p->target.mode ? 0 : set(p, &s);
}
