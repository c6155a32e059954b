/* SPDX-License-Identifier: Apache-2.0 */
/* What is charged for an object: learnt before its first change, noted while it is changed, and settled by a look at what it has become.
 *
 * The counters have `charged` of each object, whether or not that is what the object is just now. A change begins by seeing to it that the object
 * is noted, and ends with a look: the difference goes to the counters. Looks are not ordered with changes of others, but with each other (`turn`), and
 * each change is followed by one: so the last look has seen all. */
#include <endian.h>
#include <errno.h>
#include <xxhash.h>

#include "usage.h"

enum { XATTRS_FREE = 4096 };

static uint64_t rounded(uint64_t bytes)
{
	return bytes > LENGTH_MAX ? LENGTH_MAX : (bytes + CHARGE_UNIT - 1) / CHARGE_UNIT * CHARGE_UNIT;
}

struct amount charge_amount(const struct extent *e)
{
	uint64_t bytes = rounded(e->size > e->reserved ? e->size : e->reserved) + CHARGE_UNIT;

	bytes += e->links * FURTHER_NAME;
	return (struct amount){ (int64_t)(bytes + (e->xattrs > XATTRS_FREE ? e->xattrs - XATTRS_FREE : 0)), 1 };
}

/* ---- what is learnt ---- */

static void take_tag(struct extent *e, const struct blob *value)
{
	uint64_t part[3];

	if (value->size != sizeof(part[0]) && value->size != sizeof(part))
		return;
	memcpy(part, value->bytes, value->size);
	e->dir = be64toh(part[0]);
	e->is_top = value->size == sizeof(part);
	if (e->is_top)
		e->limit = (struct amount){ (int64_t)be64toh(part[1]), (int64_t)be64toh(part[2]) };
}

static int xattr_size(struct request *rq, struct xlator *x, struct inode *inode, const char *name, struct extent *e)
{
	struct getxattr_in in = { .inode = inode, .name = name };
	struct getxattr_out out = { 0 };
	int err = getxattr_on(rq, x->child[0], &in, &out);

	if (err == -ENODATA) /* it went meanwhile */
		return 0;
	if (err)
		return err;
	e->xattrs += strlen(name) + out.value.size;
	if (!strcmp(name, DIR_XATTR))
		take_tag(e, &out.value);
	if (!strcmp(name, RESERVED_XATTR) && out.value.size == sizeof(e->reserved)) {
		memcpy(&e->reserved, out.value.bytes, sizeof(e->reserved));
		e->reserved = be64toh(e->reserved);
	}
	fop_out_clear(FOP_getxattr, &out);
	return 0;
}

/* Sets all but `size`. */
static int learn_xattrs(struct request *rq, struct xlator *x, struct inode *inode, struct extent *e)
{
	struct listxattr_in in = { .inode = inode };
	struct listxattr_out out = { 0 };
	int err = listxattr_on(rq, x->child[0], &in, &out);
	const char *name = out.names.bytes;

	*e = (struct extent){ .size = e->size, .links = e->links };
	if (err == -EOPNOTSUPP)
		err = 0;
	for (uint32_t at = 0; !err && at < out.names.size; at += strlen(name + at) + 1)
		err = xattr_size(rq, x, inode, name + at, e);
	fop_out_clear(FOP_listxattr, &out);
	return err;
}

static int look(struct request *rq, struct xlator *x, struct inode *inode, struct attr *a)
{
	struct getattr_in in = { .inode = inode };
	struct getattr_out out = { 0 };
	int err = getattr_on(rq, x->child[0], &in, &out);

	*a = out.attr;
	fop_out_clear(FOP_getattr, &out);
	return err;
}

/* How long a directory is depends on the file system, and on what was in it: copies of one differ in that. So in a replica set it is charged as an empty one, its names as far
 * as they are not paid for with the objects, which have one each. */
static void take_size(const struct xlator *x, struct extent *e, const struct attr *a)
{
	bool set = usage_of(x)->replicated, dir = S_ISDIR(a->mode);

	e->size = set && dir ? CHARGE_UNIT : a->size;
	e->links = set && !dir && a->nlink > 1 ? a->nlink - 1 : 0;
}

struct extent charge_extent(struct charge *c)
{
	struct extent e;

	pthread_mutex_lock(&c->lock);
	e = c->extent;
	pthread_mutex_unlock(&c->lock);
	return e;
}

static void take_key(struct charge *c, const uint8_t *handle, uint32_t size)
{
	XXH128_hash_t hash;

	if (!size || c->key.high || c->key.low)
		return;
	hash = XXH3_128bits(handle, size);
	c->key = (struct key){ hash.high64, hash.low64 | 1 };
}

static struct charge *slot_of(struct xlator *x, struct inode *inode)
{
	struct charge *c = inode_slot(inode, x);

	if (c)
		return c;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	pthread_mutex_init(&c->lock, NULL);
	c->gfid = inode->gfid;
	c->note = NO_NOTE;
	if (inode_slot_set(inode, x, c)) {
		pthread_mutex_destroy(&c->lock);
		free(c);
		c = inode_slot(inode, x);
	}
	return c;
}

/* What the counters have of an object that nobody has changed since it was last settled is what it is. */
static int learn(struct request *rq, struct xlator *x, struct inode *inode, struct charge *c)
{
	struct extent found = { 0 };
	struct attr a;
	bool known;
	uint64_t turn;
	int err;

	pthread_mutex_lock(&c->lock);
	known = c->known;
	turn = c->turn;
	pthread_mutex_unlock(&c->lock);
	if (known)
		return 0;
	err = look(rq, x, inode, &a);
	if (!err)
		err = learn_xattrs(rq, x, inode, &found);
	if (err)
		return err;
	pthread_mutex_lock(&c->lock);
	if (turn != c->turn && !c->known)
		err = -EAGAIN; /* somebody learnt, changed and removed it since the look */
	if (!err && !c->known) {
		take_size(x, &found, &a);
		c->extent = found;
		c->row = ledger_row(&usage_of(x)->ledger, a.uid);
		c->dir = found.dir;
		dirs_met(x, inode, &found, c->row);
		/* One without a name was settled as gone, and is open all the same. */
		c->charged = a.nlink ? charge_amount(&found) : (struct amount){ 0 };
		c->known = true;
		c->forgotten = false;
	}
	pthread_mutex_unlock(&c->lock);
	return err == -EAGAIN ? learn(rq, x, inode, c) : err;
}

int charge_relearn(struct request *rq, struct xlator *x, struct inode *inode, struct charge *c)
{
	struct extent found = { 0 };
	int err = learn_xattrs(rq, x, inode, &found);

	pthread_mutex_lock(&c->lock);
	found.size = c->extent.size;
	found.links = c->extent.links;
	if (!err)
		c->extent = found;
	c->doubtful |= err && err != -ESTALE && err != -ENOENT;
	pthread_mutex_unlock(&c->lock);
	return err;
}

/* ---- a change ---- */

/* With the charge's lock held. Without a note a crash in the middle of the change means a recount. */
static void take_note(struct xlator *x, struct charge *c, struct note *n)
{
	struct usage *u = usage_of(x);

	n->row = c->row;
	n->charged = c->orphan ? (struct amount){ 0 } : c->charged;
	n->gfid = c->gfid;
	c->note = n->handle_size || n->parent_size ? ledger_note(&u->ledger, c, n) : NO_NOTE;
	if (c->note >= 0)
		return;
	atomic_fetch_add(&u->unnoted, 1);
	c->unnoted++;
	ledger_unnoted(&u->ledger, 1);
}

enum how { WITH_OTHERS, ANOTHER, ALONE };

/* With the charge's lock held. What is just being made is not known by its handle yet: it is not changed before it is. */
static int wait_for_turn(struct request *rq, struct charge *c, enum how how)
{
	bool alone = how == ALONE;
	int err = 0;

	c->waiting += alone;
	while (!err && (c->alone || c->born || (alone ? c->users : how == WITH_OTHERS && c->waiting)))
		err = task_cond_wait(&c->changed, &c->lock, rq->deadline_ns);
	c->waiting -= alone;
	if (err || !c->known) /* who leaves without a turn ends nothing of which others would hear */
		task_cond_broadcast(&c->changed);
	return err;
}

/* Leaves it locked if it returns 0. -EAGAIN: it was forgotten, but is there. */
static int learn_and_wait(struct request *rq, struct xlator *x, struct inode *inode, struct charge *c, enum how how)
{
	int err = learn(rq, x, inode, c);

	if (err)
		return err;
	pthread_mutex_lock(&c->lock);
	err = wait_for_turn(rq, c, how);
	if (!err && !c->known)
		err = c->forgotten ? -EAGAIN : -ESTALE; /* it went while we waited */
	if (err)
		pthread_mutex_unlock(&c->lock);
	return err;
}

static int begin(struct request *rq, struct xlator *x, struct inode *inode, enum how how, struct charge **of)
{
	struct charge *c = slot_of(x, inode);
	struct note n = { .state = NOTE_OBJECT };
	int err;

	*of = NULL;
	if (!c)
		return -ENOMEM;
	do
		err = learn_and_wait(rq, x, inode, c, how);
	while (err == -EAGAIN);
	if (err)
		return err;
	c->users++;
	c->alone = how == ALONE;
	if (c->note < 0) {
		n.handle_size = usage_handle(x, inode, n.handle);
		take_key(c, n.handle, n.handle_size);
		take_note(x, c, &n);
	}
	ledger_begins(&usage_of(x)->ledger, c->row);
	ledger_dir_begins(&usage_of(x)->ledger, c->dir);
	ledger_seen(&usage_of(x)->ledger, &c->key, &(struct entry){ c->row, c->charged, c->orphan, c->dir });
	pthread_mutex_unlock(&c->lock);
	*of = c;
	return 0;
}

int charge_begin(struct request *rq, struct xlator *x, struct inode *inode, struct charge **of)
{
	return begin(rq, x, inode, WITH_OTHERS, of);
}

int charge_begin_another(struct request *rq, struct xlator *x, struct inode *inode, struct charge **of)
{
	return begin(rq, x, inode, ANOTHER, of);
}

int charge_begin_alone(struct request *rq, struct xlator *x, struct inode *inode, struct charge **of)
{
	return begin(rq, x, inode, ALONE, of);
}

/* With the charge's lock held. Others may find it, and make it longer, before it is settled: it is its maker's from the beginning. */
static void be_born(struct request *rq, struct xlator *x, const struct loc *loc, struct charge *c)
{
	struct note n = { .state = NOTE_BIRTH };

	c->known = c->born = true;
	c->extent = (struct extent){ 0 };
	c->charged = (struct amount){ 0 }; /* it may have been forgotten as doubtful: of that a recount gets rid */
	c->key = (struct key){ 0 };
	c->dir = 0; /* its parent's is busy with the parent */
	c->row = ledger_row(&usage_of(x)->ledger, rq->uid);
	n.parent_size = usage_handle(x, loc->parent, n.parent);
	snprintf(n.name, sizeof(n.name), "%s", loc->name);
	take_note(x, c, &n);
	c->users++;
	ledger_begins(&usage_of(x)->ledger, c->row);
}

static void settle(struct xlator *, struct charge *, const struct attr *);
static void forget_gone(struct xlator *, struct charge *);

int charge_begin_birth(struct request *rq, struct xlator *x, const struct loc *loc, const struct gfid *gfid, mode_t type,
		       struct inode **inode, struct charge **of)
{
	struct charge *c;
	int err = 0;

	*of = NULL;
	*inode = inode_get(x->inodes, gfid, type & S_IFMT);
	if (!*inode) /* it is known with another type */
		return -EEXIST;
	c = slot_of(x, *inode);
	if (!c)
		return -ENOMEM;
	pthread_mutex_lock(&c->lock);
	if (rq->limits == LIMITS_HEAL && c->known && c->orphan &&
	    !c->users) { /* made anew by a recovery while it is open: that one counts no more */
		settle(x, c, NULL);
		forget_gone(x, c);
	}
	if (c->known) /* what is open by that gfid, though it may have no name, would be charged to nobody */
		err = -EEXIST;
	else
		be_born(rq, x, loc, c);
	pthread_mutex_unlock(&c->lock);
	*of = err ? NULL : c;
	return err;
}

static void check_limits(struct xlator *x, const struct entry *was, const struct entry *is)
{
	soft_check(&usage_of(x)->ledger, x, is->row);
	if (was->row != is->row)
		soft_check(&usage_of(x)->ledger, x, was->row);
}

/* With the charge's lock held. NULL: it is gone. */
static void settle(struct xlator *x, struct charge *c, const struct attr *a)
{
	struct usage *u = usage_of(x);
	struct entry was = { c->row, c->charged, c->orphan, c->dir }, is = { c->row, { 0 }, false, c->dir };

	c->turn++;
	if (a)
		take_size(x, &c->extent, a);
	else
		c->extent.size = c->extent.links = 0;
	if (a)
		is = (struct entry){ ledger_row(&u->ledger, a->uid), charge_amount(&c->extent), !a->nlink, c->extent.dir };
	if (is.row != was.row || is.dir != was.dir || is.orphan != was.orphan || !amounts_equal(is.amount, was.amount) ||
	    atomic_load(&u->ledger.counting)) {
		ledger_move(&u->ledger, c->note, &c->key, &was, &is);
		atomic_fetch_add(&u->settled, 1);
		check_limits(x, &was, &is);
	}
	c->row = is.row;
	c->dir = is.dir;
	c->charged = is.amount;
	c->orphan = is.orphan;
}

static void unnote(struct xlator *x, struct charge *c)
{
	if (c->note >= 0)
		ledger_unnote(&usage_of(x)->ledger, c->note);
	c->note = NO_NOTE;
}

/* With the charge's lock held. Nobody knows what it is, and a recount is owed: before that it is learnt anew, and a note of what it was would be settled once more after it. */
static void forget_doubtful(struct xlator *x, struct charge *c)
{
	if (!c->doubtful || c->users || c->orphan)
		return;
	unnote(x, c);
	c->known = c->doubtful = false;
	c->forgotten = true;
	c->turn++;
}

/* One of those that have begun has ended; the note stays, for there may be more soon. */
static void one_ended(struct xlator *x, struct charge *c)
{
	c->users--;
	c->alone = false;
	forget_doubtful(x, c);
	task_cond_broadcast(&c->changed);
	if (c->users || !c->unnoted)
		return;
	ledger_unnoted(&usage_of(x)->ledger, -(int)c->unnoted);
	c->unnoted = 0;
}

/* What was made may get other names: from now on it is found by its handle. */
static void note_born(struct xlator *x, struct inode *inode, struct charge *c)
{
	struct note n = { .handle_size = 0 };

	if (!c->born)
		return;
	c->born = false;
	if (c->note < 0)
		return;
	n.handle_size = usage_handle(x, inode, n.handle);
	if (n.handle_size)
		ledger_note_born(&usage_of(x)->ledger, c->note, &n);
	else
		recount_owe(x);
}

/* It may be made again, by a request that comes again. */
static void forget_gone(struct xlator *x, struct charge *c)
{
	c->born = false;
	if (c->extent.is_top)
		ledger_dir_gone(&usage_of(x)->ledger, c->dir);
	if (c->users)
		return;
	unnote(x, c);
	c->known = c->forgotten = false;
}

/* A file without a name is charged while it is open. A directory without one can't hold anything. */
static bool is_gone(const struct inode *inode, const struct attr *a)
{
	return S_ISDIR(inode->type) && !a->nlink;
}

/* Looks until nobody has settled it in between, and leaves it locked. */
static int look_in_turn(struct request *rq, struct xlator *x, struct inode *inode, struct charge *c, struct attr *a)
{
	uint64_t turn;
	int err;

	for (;;) {
		pthread_mutex_lock(&c->lock);
		turn = c->turn;
		pthread_mutex_unlock(&c->lock);
		err = look(rq, x, inode, a);
		pthread_mutex_lock(&c->lock);
		if (turn == c->turn)
			break;
		pthread_mutex_unlock(&c->lock);
	}
	return !err && is_gone(inode, a) ? -ESTALE : err == -ENOENT ? -ESTALE : err;
}

/* It may have been born with attributes, and inherited ACLs. */
static int learn_born(struct request *rq, struct xlator *x, struct inode *inode, struct charge *c)
{
	bool born;

	pthread_mutex_lock(&c->lock);
	born = c->born;
	pthread_mutex_unlock(&c->lock);
	return born ? charge_relearn(rq, x, inode, c) : 0;
}

void charge_end(struct request *rq, struct xlator *x, struct inode *inode, struct charge *c)
{
	int learnt = learn_born(rq, x, inode, c), err;
	struct attr a = { 0 };

	err = look_in_turn(rq, x, inode, c, &a);
	if (err ? err != -ESTALE : learnt || (c->doubtful && !c->orphan)) { /* nobody knows what it is now: a disk that fails */
		recount_owe(x);
		c->doubtful = true;
	}
	if (!err) {
		uint8_t handle[HANDLE_SIZE_MAX];

		take_key(c, handle, c->key.low ? 0 : usage_handle(x, inode, handle));
		settle(x, c, &a);
		note_born(x, inode, c);
	} else if (err == -ESTALE) {
		settle(x, c, NULL);
	} else {
		c->born = false;
	}
	one_ended(x, c);
	if (err == -ESTALE)
		forget_gone(x, c);
	if (err == -ESTALE || c->orphan)
		inode_unkeep(inode); /* of what was never made, too; and an orphan is to be forgotten when nobody has it open */
	pthread_mutex_unlock(&c->lock);
}

void charge_end_unborn(struct xlator *x, struct inode *inode, struct charge *c)
{
	pthread_mutex_lock(&c->lock);
	settle(x, c, NULL);
	one_ended(x, c);
	forget_gone(x, c);
	c->forgotten = !c->known; /* what was there before by that gfid lives: who waits for it learns what it is */
	inode_unkeep(inode);
	pthread_mutex_unlock(&c->lock);
}

/* -EAGAIN: it was forgotten since it was learnt; or somebody said that he makes it, which has ended. That may be a birth with the gfid of what is there, and then nobody else
 * counts that. */
static int count(struct request *rq, struct xlator *x, struct inode *inode, struct charge *c)
{
	int err = learn(rq, x, inode, c);
	uint8_t handle[HANDLE_SIZE_MAX];
	struct attr a = { 0 };

	if (err)
		return err;
	err = look_in_turn(rq, x, inode, c, &a);
	if (!err && c->known && !c->born) {
		take_key(c, handle, c->key.low ? 0 : usage_handle(x, inode, handle));
		settle(x, c, &a);
	} else if (!err) {
		err = wait_for_turn(rq, c, ANOTHER);
		err = err ? err : -EAGAIN;
	}
	pthread_mutex_unlock(&c->lock);
	return err;
}

int charge_count(struct request *rq, struct xlator *x, struct inode *inode)
{
	struct charge *c = slot_of(x, inode);
	int err;

	if (!c)
		return -ENOMEM;
	do
		err = count(rq, x, inode, c);
	while (err == -EAGAIN);
	return err;
}

static uint64_t living(struct xlator *x, uint64_t id)
{
	return ledger_dir_lives(&usage_of(x)->ledger, id) ? id : 0;
}

int charge_dir(struct request *rq, struct xlator *x, struct inode *inode, uint64_t *id)
{
	struct charge *c = slot_of(x, inode);
	int err = c ? learn(rq, x, inode, c) : -ENOMEM;

	*id = 0;
	if (!err)
		*id = charge_dir_now(x, c);
	return err;
}

uint32_t charge_row(struct charge *c)
{
	uint32_t row;

	pthread_mutex_lock(&c->lock);
	row = c->row;
	pthread_mutex_unlock(&c->lock);
	return row;
}

uint64_t charge_dir_now(struct xlator *x, struct charge *c)
{
	uint64_t id;

	pthread_mutex_lock(&c->lock);
	id = c->dir;
	pthread_mutex_unlock(&c->lock);
	return living(x, id);
}

uint64_t charge_dir_outside(struct xlator *x, struct charge *c)
{
	return charge_extent(c).is_top ? 0 : charge_dir_now(x, c);
}

int charge_look(struct request *rq, struct xlator *x, struct inode *inode, struct extent *e)
{
	struct attr a;
	int err = look(rq, x, inode, &a);

	if (!err && !a.nlink)
		err = -ESTALE;
	return err ? err : learn_xattrs(rq, x, inode, e);
}

int charge_key(struct xlator *x, struct inode *inode, struct key *key)
{
	struct charge *c = inode_slot(inode, x);

	if (!c)
		return -ESTALE;
	pthread_mutex_lock(&c->lock);
	*key = c->key;
	pthread_mutex_unlock(&c->lock);
	return key->low ? 0 : -ESTALE;
}

void charge_end_unchanged(struct xlator *x, struct charge *c)
{
	pthread_mutex_lock(&c->lock);
	one_ended(x, c);
	pthread_mutex_unlock(&c->lock);
}

void charge_forget(struct xlator *x, struct inode *inode, void *slot)
{
	struct usage *u = usage_of(x);
	struct charge *c = slot;

	(void)inode;
	pthread_mutex_lock(&c->lock);
	if (c->orphan && u->ledger.file)
		settle(x, c, NULL);
	if (u->ledger.file)
		unnote(x, c);
	pthread_mutex_unlock(&c->lock);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* ---- after a crash ---- */

static int find_born(struct request *rq, struct xlator *x, struct inode *parent, const struct note *n, struct inode **inode)
{
	struct lookup_in in = { .loc = { .parent = parent, .name = n->name } };
	struct lookup_out out = { 0 };
	int err = lookup_on(rq, x->child[0], &in, &out);

	if (!err && !gfid_equal(&out.inode->gfid, &n->gfid))
		err = -ENOENT;
	if (!err)
		*inode = inode_ref(out.inode);
	fop_out_clear(FOP_lookup, &out);
	return err;
}

static int find_noted(struct request *rq, struct xlator *x, struct note *n, struct inode **inode)
{
	struct xlator *leaf = usage_leaf(x);
	struct inode *found = NULL;
	int err;

	n->name[sizeof(n->name) - 1] = '\0';
	if (n->handle_size > sizeof(n->handle) || n->parent_size > sizeof(n->parent))
		return -EIO;
	if (n->state == NOTE_OBJECT)
		return leaf->type->inode_from_handle(leaf, n->handle, n->handle_size, inode);
	err = leaf->type->inode_from_handle(leaf, n->parent, n->parent_size, &found);
	if (err)
		return err;
	err = name_check(n->name);
	if (!err)
		err = find_born(rq, x, found, n, inode);
	inode_unref(found);
	return err;
}

/* The object becomes known as it was charged, and is settled by a look. One that can't be looked at is counted with all others; its note goes, for after that it would be
 * settled once more. */
static int recover(struct request *rq, struct xlator *x, int number)
{
	struct usage *u = usage_of(x);
	struct note *n = &ledger_notes(&u->ledger)[number];
	cleanup_inode struct inode *inode = NULL;
	struct attr a = { 0 };
	struct extent found = { 0 };
	struct entry was = { n->row, n->charged, false, ledger_note_dir(&u->ledger, number) }, is = { n->row, { 0 }, false, 0 };
	int err = find_noted(rq, x, n, &inode);

	if (!err)
		err = look(rq, x, inode, &a);
	if (!err && !a.nlink)
		err = -ESTALE;
	if (!err)
		err = learn_xattrs(rq, x, inode, &found);
	if (err && err != -ESTALE && err != -ENOENT) {
		ledger_owe(&u->ledger);
		ledger_unnote(&u->ledger, number);
		return err;
	}
	take_size(x, &found, &a);
	if (!err)
		is = (struct entry){ ledger_row(&u->ledger, a.uid), charge_amount(&found), false, found.dir };
	if (!err)
		dirs_met(x, inode, &found, is.row);
	ledger_move(&u->ledger, number, &(struct key){ 0 }, &was, &is);
	ledger_unnote(&u->ledger, number);
	atomic_fetch_add(&u->recovered, 1);
	return 0;
}

int charges_recover(struct xlator *x)
{
	struct request rq;
	int err = 0;

	request_init(&rq, x->graph, 0);
	rq.group_count = 0;
	dirs_check(&rq, x);
	for (int i = 0; i < NOTES; i++)
		if (ledger_notes(&usage_of(x)->ledger)[i].state != NOTE_FREE && recover(&rq, x, i))
			err = -EIO;
	request_finish(&rq);
	return err;
}

void charges_forget(struct xlator *x)
{
	struct ledger *l = &usage_of(x)->ledger;

	ledger_owe(l); /* first: who is killed in between finds no note, and would take the counters for exact */
	for (int i = 0; i < NOTES; i++)
		if (ledger_notes(l)[i].state != NOTE_FREE)
			ledger_unnote(l, i);
}
