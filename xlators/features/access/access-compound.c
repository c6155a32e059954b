/* SPDX-License-Identifier: Apache-2.0 */
/* compound: every step is judged before the first is done, and what was judged is what will be done. Only bits that grant (set-uid,
 * set-gid) are taken away early, before a step that has to; they stay away if the compound then fails.
 *
 * A name that a step looks up is looked up here too, and the steps after it are given the inode that was found, so that nobody
 * can put another object in its place between the judgement and the deed. A step that is refused ends the compound like any
 * step that fails: those before it are done. */
#include <fcntl.h>

#include "access.h"

union any_in {
#define X(op) struct op##_in op;
	FOPS(X)
#undef X
};
enum how { AS_IS, NEW_ONLY, OPEN_INSTEAD }; /* a create without O_EXCL: the name was free, or it was not */
struct prepared {
	struct request *rq;
	struct xlator *x;
	struct step step[COMPOUND_MAX];
	union any_in in[COMPOUND_MAX];
	enum how how[COMPOUND_MAX];
	struct inode *hold[COMPOUND_MAX]; /* references on what was looked up */
	uint32_t count;			  /* steps to do */
	int refused;			  /* what the step after those is answered, 0 if there is none */
	/* what an inode or file that isn't given means at this point */
	struct inode *inode;
	bool made;   /* an object that a step will make; inode is NULL */
	bool opened; /* a file that a step will open */
	uint32_t made_mode, file_flags;
};

/* ---- filling in what is not given ---- */

static void complete_loc(const struct prepared *p, struct loc *loc)
{
	if (loc->name && !loc->parent)
		loc->parent = p->inode;
	else if (!loc->name && !loc->inode)
		loc->inode = p->inode;
}

static void complete(const struct prepared *p, int fop, void *in)
{
	for (const struct field *f = fop_info[fop].in; f->name; f++) {
		struct inode **inode = (void *)((char *)in + f->offset);

		if (f->kind == FIELD_LOC)
			complete_loc(p, (void *)inode);
		if (f->kind == FIELD_INODE && !*inode)
			*inode = p->inode;
	}
	if (fop == FOP_setattr && ((struct setattr_in *)in)->file)
		((struct setattr_in *)in)->inode = ((struct setattr_in *)in)->file->inode;
	if (fop == FOP_getattr && ((struct getattr_in *)in)->file)
		((struct getattr_in *)in)->inode = ((struct getattr_in *)in)->file->inode;
}

/* Is there something for each inode and file that isn't given? What comes from a client need not make sense. */
static bool resolved(const struct prepared *p, int fop, const void *in)
{
	bool either = fop == FOP_getattr || fop == FOP_setattr, any = false;

	for (const struct field *f = fop_info[fop].in; f->name; f++) {
		const void *at = (const char *)in + f->offset;
		const struct loc *loc = at;
		bool there = true;

		if (f->kind == FIELD_LOC)
			there = loc->parent || (loc->inode && !loc->name) || p->made;
		else if (f->kind == FIELD_INODE)
			there = *(struct inode *const *)at || p->made;
		else if (f->kind == FIELD_FILE)
			there = *(struct file *const *)at || p->opened;
		if (!there && !either)
			return false;
		any |= there && (f->kind == FIELD_INODE || f->kind == FIELD_FILE);
	}
	return any || !either;
}

/* The flags of the file that a step works on: its own, or those of the file that a step before it opens. */
static uint32_t flags_of(const struct prepared *p, const struct file *file)
{
	return file ? file->flags : p->file_flags;
}

static bool may_read(const struct prepared *p, const struct file *file)
{
	return (flags_of(p, file) & O_ACCMODE) != O_WRONLY;
}

static bool may_write(const struct prepared *p, const struct file *file)
{
	return (flags_of(p, file) & O_ACCMODE) != O_RDONLY;
}

/* ---- judging ---- */

/* On an object that the compound itself makes: the caller owns it. */
static int judge_bits(const struct prepared *p, unsigned want)
{
	return is_root(p->rq) || (p->made_mode >> 6 & want) == want ? 0 : -EACCES;
}

static int judge_setattr_made(const struct prepared *p, const struct setattr *set)
{
	if (is_root(p->rq))
		return 0;
	if (set->valid & (SET_UID | SET_GID) || (set->valid & SET_MODE && set->mode & S_ISGID))
		return -EOPNOTSUPP;
	return set->valid & SET_SIZE ? judge_bits(p, MAY_WRITE) : 0;
}

static int judge_xattr_made(const struct prepared *p, const char *name, bool set)
{
	if (!strncmp(name, "user.", 5))
		return judge_bits(p, set ? MAY_WRITE : MAY_READ);
	if (acl_name(name))
		return 0;
	return set ? decide_setxattr(p->rq, p->x, NULL, name) : decide_getxattr(p->rq, p->x, NULL, name);
}

static int judge_made(const struct prepared *p, int fop, const union any_in *in)
{
	static const unsigned wants[] = { MAY_READ, MAY_WRITE, MAY_READ | MAY_WRITE, MAY_READ | MAY_WRITE };
	int err;

	switch (fop) {
	case FOP_getattr:
	case FOP_readlink:
	case FOP_statfs:
	case FOP_listxattr:
		return 0;
	case FOP_setattr:
		return judge_setattr_made(p, &in->setattr.set);
	case FOP_open:
		return judge_bits(p, wants[in->open.flags & O_ACCMODE] | (in->open.flags & O_TRUNC ? MAY_WRITE : 0));
	case FOP_opendir:
		return judge_bits(p, MAY_READ);
	case FOP_getxattr:
		return judge_xattr_made(p, in->getxattr.name, false);
	case FOP_setxattr:
		return judge_xattr_made(p, in->setxattr.name, true);
	case FOP_removexattr:
		return judge_xattr_made(p, in->removexattr.name, true);
	case FOP_mknod:
		return decide_mknod(p->rq, in->mknod.mode, in->mknod.rdev) ? -EPERM : judge_bits(p, MAY_WRITE | MAY_EXEC);
	case FOP_link:
		err = in->link.inode ? decide_source(p->rq, p->x, in->link.inode) : 0;
		return err ? err : judge_bits(p, MAY_WRITE | MAY_EXEC);
	case FOP_mkdir:
	case FOP_symlink:
	case FOP_create:
		return judge_bits(p, MAY_WRITE | MAY_EXEC);
	default:
		return -EOPNOTSUPP;
	}
}

/* A create without O_EXCL becomes what it will be: the making of a new file, or the opening of one that has been judged. */
static int judge_create(struct prepared *p, uint32_t i, union any_in *in)
{
	struct loc *loc = &in->create.loc;
	struct lookup_in look = { .loc = { .parent = loc->parent, .name = loc->name } };
	struct lookup_out found = { 0 };
	uint32_t flags = in->create.flags;
	int err = decide_search(p->rq, p->x, loc);

	if (!err && !(flags & O_EXCL)) {
		err = lookup_on(p->rq, p->x->child[0], &look, &found);
		if (!err) {
			p->hold[i] = found.inode;
			p->how[i] = OPEN_INSTEAD;
			p->step[i].fop = FOP_open;
			in->open = (struct open_in){ .inode = found.inode, .flags = flags & ~O_CREAT };
			return S_ISDIR(found.inode->type) ? -EISDIR : decide_open(p->rq, p->x, found.inode, flags);
		}
		p->how[i] = NEW_ONLY;
		err = err == -ENOENT ? 0 : err;
	}
	if (!err)
		err = decide_enter(p->rq, p->x, loc);
	in->create.flags |= O_EXCL;
	return err ? err : create_mode(p->rq, p->x, loc->parent, in->create.mode, &in->create.mode);
}

static int judge_mknod(struct prepared *p, union any_in *in)
{
	int err = decide_enter(p->rq, p->x, &in->mknod.loc);

	if (!err)
		err = decide_mknod(p->rq, in->mknod.mode, in->mknod.rdev);
	return err ? err : create_mode(p->rq, p->x, in->mknod.loc.parent, in->mknod.mode, &in->mknod.mode);
}

static int judge_setxattr(struct prepared *p, struct inode *inode, const char *name)
{
	int err = decide_setxattr(p->rq, p->x, inode, name);

	return err ? err : drop_setgid(p->rq, p->x, inode, name);
}

static int judge_setattr(struct prepared *p, union any_in *in)
{
	struct setattr_in *set = &in->setattr;

	if (set->file && !set->inode)
		set->inode = set->file->inode;
	return decide_setattr(p->rq, p->x, set, &set->set);
}

static int judge_write(struct prepared *p, struct write_in *in)
{
	struct inode *inode = in->file ? in->file->inode : p->inode;

	if (!may_write(p, in->file))
		return -EBADF;
	if (inode && must_drop_privilege(p->rq, p->x, inode))
		in->flags |= WRITE_KILL_PRIV;
	return 0;
}

static int judge_rename(struct prepared *p, uint32_t i, struct rename_in *in)
{
	struct renamed who = { 0 };
	int err = in->from.parent && in->to.parent ? decide_rename(p->rq, p->x, in, &who) : -EOPNOTSUPP;

	if (!err && (who.to || who.to_new)) /* it could not be held to what was judged */
		err = -EOPNOTSUPP;
	p->hold[i] = who.from;
	in->from.inode = who.from ? who.from : in->from.inode;
	inode_unref(who.to);
	return err;
}

static int judge_remove(struct prepared *p, uint32_t i, struct loc *loc)
{
	int err = decide_remove(p->rq, p->x, loc, &p->hold[i]);

	loc->inode = p->hold[i] ? p->hold[i] : loc->inode;
	return err;
}

static int judge_known(struct prepared *p, uint32_t i, union any_in *in)
{
	struct request *rq = p->rq;
	struct xlator *x = p->x;

	switch (p->step[i].fop) {
	case FOP_lookup:
		return in->lookup.loc.name ? decide_search(rq, x, &in->lookup.loc) : 0;
	case FOP_setattr:
		return judge_setattr(p, in);
	case FOP_mknod:
		return judge_mknod(p, in);
	case FOP_mkdir:
		in->mkdir.mode &= 01777;
		return decide_enter(rq, x, &in->mkdir.loc);
	case FOP_symlink:
		return decide_enter(rq, x, &in->symlink.loc);
	case FOP_link:
		return in->link.inode ? decide_link(rq, x, in->link.inode, &in->link.loc) : decide_enter(rq, x, &in->link.loc);
	case FOP_unlink:
		return judge_remove(p, i, &in->unlink.loc);
	case FOP_rmdir:
		return judge_remove(p, i, &in->rmdir.loc);
	case FOP_rename:
		return judge_rename(p, i, &in->rename);
	case FOP_create:
		return judge_create(p, i, in);
	case FOP_open:
		return decide_open(rq, x, in->open.inode, in->open.flags);
	case FOP_opendir:
		return decide(rq, x, in->opendir.inode, MAY_READ);
	case FOP_setxattr:
		return judge_setxattr(p, in->setxattr.inode, in->setxattr.name);
	case FOP_removexattr:
		return judge_setxattr(p, in->removexattr.inode, in->removexattr.name);
	case FOP_getxattr:
		return decide_getxattr(rq, x, in->getxattr.inode, in->getxattr.name);
	default:
		return 0;
	}
}

/* Steps on open files are judged by what the file was opened for; the others have an object, known or about to be made. */
static int judge_file(struct prepared *p, int fop, union any_in *in)
{
	switch (fop) {
	case FOP_read:
		return may_read(p, in->read.file) ? 0 : -EBADF;
	case FOP_write:
		return judge_write(p, &in->write);
	case FOP_fallocate:
		return may_write(p, in->fallocate.file) ? 0 : -EBADF;
	case FOP_copy_range:
		return may_read(p, in->copy_range.from) && may_write(p, in->copy_range.to) ? 0 : -EBADF;
	case FOP_readdir: /* names only: what a listing may show of the objects is judged outside of compounds */
		in->readdir.flags &= ~READDIR_PLUS;
		return 0;
	case FOP_flush:
	case FOP_release:
	case FOP_fsync:
	case FOP_seek:
		return 0;
	default:
		return 1;
	}
}

/* Does the step's object still have to be made by a step before it? */
static bool on_made(const struct prepared *p, int fop, const void *in)
{
	for (const struct field *f = fop_info[fop].in; f->name && p->made; f++) {
		const struct loc *loc = (const void *)((const char *)in + f->offset);

		if (f->kind == FIELD_LOC && !loc->parent && !loc->inode)
			return true;
		if (f->kind == FIELD_INODE && !*(struct inode *const *)loc && fop != FOP_link)
			return true;
	}
	return false;
}

static int judge_condition(const struct prepared *p, struct condition *c)
{
	if (!c->inode)
		c->inode = p->inode;
	complete_loc(p, &c->loc);
	if (c->kind == IF_EXISTS || c->kind == IF_ABSENT)
		return c->loc.parent ? decide_search(p->rq, p->x, &c->loc) : judge_bits(p, MAY_EXEC);
	if (c->kind != IF_XATTR && c->kind != IF_NO_XATTR)
		return 0;
	if (!c->name)
		return -EINVAL;
	return c->inode ? decide_getxattr(p->rq, p->x, c->inode, c->name) : judge_xattr_made(p, c->name, false);
}

static int judge(struct prepared *p, uint32_t i)
{
	int fop = p->step[i].fop, err = judge_condition(p, &p->step[i].condition);

	if (err)
		return err;
	complete(p, fop, &p->in[i]);
	if (!resolved(p, fop, &p->in[i]))
		return -EINVAL;
	err = judge_file(p, fop, &p->in[i]);
	if (err <= 0)
		return err;
	return on_made(p, fop, &p->in[i]) ? judge_made(p, fop, &p->in[i]) : judge_known(p, i, &p->in[i]);
}

/* ---- going on to the next step ---- */

static void will_make(struct prepared *p, uint32_t mode, uint32_t umask)
{
	p->inode = NULL;
	p->made = true;
	p->made_mode = mode & ~umask;
}

static void will_open(struct prepared *p, struct inode *inode, uint32_t flags)
{
	p->inode = inode;
	p->made &= !inode;
	p->opened = true;
	p->file_flags = flags;
}

/* Looks the name up now. Without it the compound will end there, so no later step is needed (nor judged). */
static int will_look_up(struct prepared *p, uint32_t i)
{
	struct lookup_out out = { 0 };
	int err;

	if (!p->in[i].lookup.loc.name) {
		p->inode = p->in[i].lookup.loc.inode;
		return 0;
	}
	err = lookup_on(p->rq, p->x->child[0], &p->in[i].lookup, &out);
	p->inode = p->hold[i] = out.inode;
	p->made = false;
	return err;
}

static int advance(struct prepared *p, uint32_t i)
{
	const union any_in *in = &p->in[i];

	switch (p->step[i].fop) {
	case FOP_lookup:
		return will_look_up(p, i);
	case FOP_create:
		will_make(p, in->create.mode, in->create.umask);
		p->opened = true;
		p->file_flags = in->create.flags;
		return 0;
	case FOP_mkdir:
		will_make(p, in->mkdir.mode, in->mkdir.umask);
		return 0;
	case FOP_mknod:
		will_make(p, in->mknod.mode, in->mknod.umask);
		return 0;
	case FOP_symlink:
		will_make(p, 0777, 0);
		return 0;
	case FOP_open:
		will_open(p, in->open.inode, in->open.flags);
		return 0;
	case FOP_opendir:
		will_open(p, in->opendir.inode, O_RDONLY);
		return 0;
	default:
		return 0;
	}
}

static int prepare(struct prepared *p, const struct steps *steps)
{
	for (uint32_t i = 0; i < steps->count; i++) {
		int err;

		p->step[i] = steps->step[i];
		p->step[i].in = &p->in[i];
		memcpy(&p->in[i], steps->step[i].in, fop_info[p->step[i].fop].in_size);
		err = judge(p, i);
		if (err == -ENEEDGROUPS)
			return err;
		if (err) {
			p->refused = err;
			return 0;
		}
		p->count++;
		if (advance(p, i)) {
			p->refused = -EAGAIN; /* the name has come since: asked again, all will be judged */
			return 0;
		}
	}
	return 0;
}

/* ---- doing it ---- */

/* An open that truncates takes privileges away first: the leaf, being root, would keep them. */
static int strip(struct prepared *p, const struct open_in *in)
{
	cleanup_facts struct facts *f = NULL;
	struct setattr_in set = { .inode = in->inode, .set.valid = SET_MODE };
	struct setattr_out out;
	int err;

	if (!(in->flags & O_TRUNC) || !in->inode || is_root(p->rq))
		return 0;
	f = facts_get(p->rq, p->x, in->inode, &err);
	if (!f || !has_privilege(f))
		return f ? 0 : err;
	set.set.mode = f->mode & 01777;
	err = setattr_on(p->rq, p->x->child[0], &set, &out);
	facts_forget(p->x, in->inode);
	return err;
}

static void forget_changed(const struct prepared *p)
{
	for (uint32_t i = 0; i < p->count; i++) {
		const union any_in *in = &p->in[i];
		struct inode *changed = NULL;

		if (p->step[i].fop == FOP_setattr && changes_facts(in->setattr.set.valid))
			changed = in->setattr.inode;
		else if (p->step[i].fop == FOP_setxattr && acl_name(in->setxattr.name))
			changed = in->setxattr.inode;
		else if (p->step[i].fop == FOP_removexattr && acl_name(in->removexattr.name))
			changed = in->removexattr.inode;
		if (changed)
			facts_forget(p->x, changed);
	}
}

/* The answer to an open that stands for a create. */
static int as_create(struct prepared *p, uint32_t i, struct result *r)
{
	struct create_out *out = calloc(1, sizeof(*out));
	struct getattr_in in = { .inode = p->hold[i] };
	struct getattr_out attr;
	int err = out ? getattr_on(p->rq, p->x->child[0], &in, &attr) : -ENOMEM;

	if (!err) {
		*out = (struct create_out){ inode_ref(p->hold[i]), file_ref(((struct open_out *)r->out)->file), attr.attr };
		fop_out_clear(FOP_open, r->out);
		free(r->out);
		*r = (struct result){ .fop = FOP_create, .out = out };
		return 0;
	}
	free(out);
	return err;
}

static int answer_creates(struct prepared *p, struct results *results)
{
	int err = 0;

	for (uint32_t i = 0; i < results->count && !err; i++) {
		struct result *r = &results->result[i];

		if (p->how[i] == OPEN_INSTEAD && !r->status)
			err = as_create(p, i, r);
		else if (p->how[i] == OPEN_INSTEAD)
			r->fop = FOP_create;
		else if (p->how[i] == NEW_ONLY && r->status == -EEXIST)
			r->status = -EAGAIN; /* it was made just now: asked again, this will be an open */
	}
	return err;
}

static void hide_listed(const struct prepared *p, struct results *results)
{
	for (uint32_t i = 0; i < results->count; i++)
		if (results->result[i].fop == FOP_listxattr && !results->result[i].status)
			hide_names(p->rq, &((struct listxattr_out *)results->result[i].out)->names);
}

/* If all steps so far were done, the next is answered by its refusal. */
static int add_refusal(const struct prepared *p, uint32_t fop, struct results *results)
{
	struct result *more;

	if (!p->refused || (results->count && results->result[results->count - 1].status) || results->count != p->count)
		return 0;
	more = realloc(results->result, (results->count + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	results->result = more;
	more[results->count++] = (struct result){ .fop = fop, .status = p->refused };
	return 0;
}

static int run(struct prepared *p, const struct steps *steps, struct compound_out *out)
{
	struct compound_in in = { .steps = { p->count, p->step } };
	int err = 0;

	for (uint32_t i = 0; i < p->count && !err; i++)
		if (p->step[i].fop == FOP_open)
			err = strip(p, &p->in[i].open);
	if (!err && p->count)
		err = compound_on(p->rq, p->x->child[0], &in, out);
	forget_changed(p);
	if (!err)
		err = answer_creates(p, &out->results);
	if (!err)
		hide_listed(p, &out->results);
	if (!err)
		err = add_refusal(p, p->count < steps->count ? steps->step[p->count].fop : 0, &out->results);
	if (err)
		fop_out_clear(FOP_compound, out);
	return err;
}

static bool well_formed(const struct steps *steps)
{
	for (uint32_t i = 0; i < steps->count; i++) {
		uint32_t fop = steps->step[i].fop;

		if (!fop || fop >= FOP_COUNT || fop == FOP_compound || fop == FOP_access || !steps->step[i].in)
			return false;
	}
	return steps->count <= COMPOUND_MAX;
}

int access_compound(struct request *rq, struct xlator *x, const struct compound_in *in, struct compound_out *out)
{
	struct prepared *p;
	int err;

	if (!well_formed(&in->steps))
		return -EINVAL;
	if (request_extension(rq, BORN_EXTENSION)) /* of which step would it be? */
		return -EOPNOTSUPP;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->rq = rq;
	p->x = x;
	err = prepare(p, &in->steps);
	if (!err)
		err = run(p, &in->steps, out);
	for (int i = 0; i < COMPOUND_MAX; i++)
		inode_unref(p->hold[i]);
	free(p);
	return err;
}
