/* SPDX-License-Identifier: Apache-2.0 */
/* features/layout: files, links and nodes that move to another subvolume ("Migration" in doc/distribution.md). Changes of one are counted in memory, so that who has
 * copied it knows whether it is as it was; while it has the mark MARK_GOES they wait; and what is left of it, a stub, says where it is. */
#include "shard.h"

#include <fcntl.h>

#include "location.h"
#include "locked.h"

struct inode *file_changed(enum fop fop, const void *in)
{
	struct inode *inode = NULL;

	switch ((int)fop) {
	case FOP_setattr:
	case FOP_setxattr:
	case FOP_removexattr:
	case FOP_open:
		inode = *(struct inode *const *)in; /* all four have it first */
		if (fop == FOP_open && !(((const struct open_in *)in)->flags & O_TRUNC))
			return NULL;
		if (!inode)
			inode = ((const struct setattr_in *)in)->file->inode;
		break;
	case FOP_write:
	case FOP_fallocate:
		inode = (*(struct file *const *)in)->inode; /* both have it first */
		break;
	case FOP_copy_range:
		inode = ((const struct copy_range_in *)in)->to->inode;
		break;
	case FOP_setlk:
		if (((const struct setlk_in *)in)->lock.type != F_UNLCK)
			inode = ((const struct setlk_in *)in)->file->inode;
		break;
	default:
		break;
	}
	return inode && !S_ISDIR(inode->type) ? inode : NULL;
}

static void count(struct xlator *x, struct known *k)
{
	struct checks *c = x->private;

	pthread_mutex_lock(&k->lock);
	k->version = atomic_fetch_add(&c->file_changes, 1) + 1;
	pthread_mutex_unlock(&k->lock);
}

void file_counted(struct xlator *x, struct inode *inode)
{
	struct known *k = inode_slot(inode, x);

	if (k)
		count(x, k);
}

/* Inside its gate: so it is not frozen, nor becomes a stub, while the operation is under way. */
static int judge(struct request *rq, struct xlator *x, const struct place *place, struct inode *inode)
{
	bool step = !gfid_is_null(&place->intent);
	struct facts f;
	int err = facts_of(rq, x, inode, NULL, &f);

	if (err)
		return err;
	if (f.points && !(place->flags & PLACE_POINTER))
		return -EMOVED;
	if (step)
		return f.goes && mark_is_of(&f.by, place) ? 0 : -EFENCED;
	return f.goes && !f.points && !MUTANT("thaw-early") ? -EMARKED : 0;
}

static void add_locker(struct known *k, int more)
{
	pthread_mutex_lock(&k->lock);
	k->lockers += (unsigned)more;
	pthread_mutex_unlock(&k->lock);
}

/* Who waits for a lock must not keep the gate: that he is there is counted. */
static int lock_file(struct request *rq, struct xlator *x, const struct setlk_in *in, struct setlk_out *out, struct known *k)
{
	int err;

	add_locker(k, 1);
	known_leave(k);
	err = setlk_on(rq, x->child[0], in, out);
	add_locker(k, -1);
	return err;
}

int file_change(struct request *rq, struct xlator *x, const struct place *place, enum fop fop, const void *in, void *out,
		struct inode *inode)
{
	struct known *k = known_of(x, inode);
	int err = k ? known_enter(k, rq->deadline_ns) : -ENOMEM;

	if (err)
		return err;
	err = judge(rq, x, place, inode);
	if (!err && fop == FOP_setlk)
		return lock_file(rq, x, in, out, k);
	if (!err) {
		err = fop_call(rq, x->child[0], fop, in, out);
		count(x, k); /* also if it failed: who knows */
	}
	known_leave(k);
	return err;
}

int stub_may_change(struct request *rq, struct xlator *x, const struct place *place, struct inode *inode, const void *in)
{
	const struct setxattr_in *set = in; /* a removexattr_in begins the same */
	struct facts f;
	int err;

	if (gfid_is_null(&place->intent) || S_ISDIR(inode->type) || strcmp(set->name, DHT_POINTER_XATTR) != 0)
		return 0;
	err = facts_of(rq, x, inode, NULL, &f);
	return err ? err : f.goes && mark_is_of(&f.by, place) ? 0 : -EFENCED;
}

/* ---- telling ---- */

bool asks_changes(enum fop fop, const void *in)
{
	const struct getxattr_in *get = in;

	return fop == FOP_getxattr && get->inode && !S_ISDIR(get->inode->type) && get->name &&
	       !strcmp(get->name, DHT_CHANGES_XATTR);
}

struct told {
	uint64_t version;
	bool locked;
	unsigned opened;
};

static int ask_locked(struct request *rq, struct xlator *x, struct inode *inode, bool *locked)
{
	struct blob value = { 0 };
	int err = read_xattr(rq, x, inode, LOCKED_XATTR, &value);

	*locked = !err && value.size && *(const char *)value.bytes != '0';
	free(value.bytes);
	return err == -ENODATA || err == -EOPNOTSUPP ? 0 : err;
}

/* Requests for locks that are under way are looked at first: what becomes of them after that features/locks tells. */
static int tell_file(struct request *rq, struct xlator *x, struct inode *inode, struct told *t)
{
	struct known *k = known_of(x, inode);
	bool locked;
	int err;

	if (!k)
		return -ENOMEM;
	pthread_mutex_lock(&k->lock);
	*t = (struct told){ k->version, k->lockers > 0, k->opened };
	pthread_mutex_unlock(&k->lock);
	err = ask_locked(rq, x, inode, &locked);
	t->locked |= locked;
	return err;
}

int changes_tell(struct request *rq, struct xlator *x, const struct getxattr_in *in, struct getxattr_out *out)
{
	struct checks *c = x->private;
	char self[GFID_TEXT], text[CHANGES_TEXT];
	struct told t;
	int err = for_the_brick(rq), size;

	if (!err)
		err = tell_file(rq, x, in->inode, &t);
	if (err)
		return err;
	size = snprintf(text, sizeof(text), "%llu %s %d %u", (unsigned long long)t.version, gfid_text(&c->self, self), t.locked,
			t.opened);
	out->value.bytes = strdup(text);
	out->value.size = (uint32_t)size;
	return out->value.bytes ? 0 : -ENOMEM;
}

int file_tell(struct request *rq, struct xlator *x, struct inode *inode, struct blob *told)
{
	const struct checks *c = x->private;
	struct location to = { 0 };
	struct told t;
	int err = tell_file(rq, x, inode, &t);

	if (err)
		return err;
	location_add(&to, told);
	location_line(&to, OPENED_LINE, "%u", t.opened + (clock_ns() < c->started_ns + c->reopen_ms * 1000000));
	location_line(&to, LOCKED_LINE, "%d", t.locked);
	free(told->bytes);
	*told = (struct blob){ 0 };
	return location_end(&to, told);
}

/* ---- open files ---- */

static void add_opened(struct xlator *x, struct inode *inode, int more)
{
	struct known *k = known_of(x, inode);

	if (!k)
		return;
	pthread_mutex_lock(&k->lock);
	k->opened += (unsigned)more;
	pthread_mutex_unlock(&k->lock);
}

void file_opened(struct xlator *x, struct file *file)
{
	if (file && S_ISREG(file->inode->type) && !file_slot_set(file, x, x->private))
		add_opened(x, file->inode, 1);
}

void file_closed(struct xlator *x, struct file *file)
{
	if (inode_slot(file->inode, x))
		add_opened(x, file->inode, -1);
}
