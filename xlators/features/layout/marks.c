/* SPDX-License-Identifier: Apache-2.0 */
/* features/layout: names that intents hold (doc/distribution.md, Intents). */
#include "shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

bool changes_mark(enum fop fop, const void *in)
{
	const char *name =
		fop == FOP_setxattr ? ((const struct setxattr_in *)in)->name : ((const struct removexattr_in *)in)->name;
	uint64_t hash;

	return is_mark(name, &hash);
}

/* ---- reading ---- */

static int names_of(struct request *rq, struct xlator *x, struct inode *inode, struct blob *names)
{
	struct listxattr_in in = { .inode = inode };
	struct listxattr_out out = { 0 };
	uid_t uid = rq->uid;
	int err;

	rq->uid = 0;
	err = listxattr_on(rq, x->child[0], &in, &out);
	rq->uid = uid;
	*names = out.names;
	return err == -EOPNOTSUPP ? 0 : err;
}

static int add(struct known *k, const struct mark *m)
{
	struct mark *more = realloc(k->mark, (k->marks + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	k->mark = more;
	k->mark[k->marks++] = *m;
	return 0;
}

static int read_mark(struct request *rq, struct xlator *x, struct inode *inode, const char *name, struct mark *m)
{
	struct blob value = { 0 };
	int err = read_xattr(rq, x, inode, name, &value);

	if (!err && (!is_mark(name, &m->hash) || mark_decode(value.bytes, value.size, m))) {
		complain(x, inode, name);
		err = -EBADMSG;
	}
	free(value.bytes);
	return err;
}

int marks_read(struct request *rq, struct xlator *x, struct inode *inode, struct known *k, struct ours *has)
{
	struct blob names = { 0 };
	struct mark m;
	int err = names_of(rq, x, inode, &names);
	const char *at = NULL;

	*has = (struct ours){ 0 };
	while (!err && (at = blob_next_name(&names, at))) {
		has->layout |= !strcmp(at, DHT_LAYOUT_XATTR);
		has->pointer |= !strcmp(at, DHT_POINTER_XATTR);
		has->kept |= !strcmp(at, DHT_KEPT_XATTR);
		has->parent |= !strcmp(at, DHT_PARENT_XATTR);
		if (!is_mark(at, &m.hash))
			continue;
		err = read_mark(rq, x, inode, at, &m);
		if (!err)
			err = add(k, &m);
		else if (err == -EBADMSG)
			k->broken = -EIO;
		err = err == -ENODATA || err == -EBADMSG ? 0 : err;
	}
	free(names.bytes);
	return err;
}

/* ---- telling ---- */

bool asks_marks(enum fop fop, const void *in)
{
	const struct getxattr_in *get = in;

	return fop == FOP_getxattr && get->inode && S_ISDIR(get->inode->type) && get->name &&
	       !strcmp(get->name, DHT_MARKS_XATTR);
}

/* Nothing can be called so. */
static bool is_of_no_name(uint64_t hash)
{
	return hash == mark_hash(MARK_MOVES) || hash == mark_hash(MARK_GOES) || hash == mark_hash(MARK_DYING);
}

static unsigned names_marked(const struct known *k)
{
	unsigned n = 0;

	for (unsigned i = 0; i < k->marks; i++)
		n += !is_of_no_name(k->mark[i].hash);
	return n;
}

atomic_uint_fast64_t *mark_changes_of(struct checks *c, const struct gfid *directory)
{
	return &c->mark_changes[gfid_hash(directory) % COUNTERS];
}

/* Who asks has listed the names, and may make it final that one is not there: so that is on disk. */
static int sync_absences(struct request *rq, struct xlator *x, struct inode *inode)
{
	struct facts f;
	int err = facts_of(rq, x, inode, NULL, &f);

	return err || !f.moving ? err : taken_sync(rq, x, inode);
}

int marks_tell(struct request *rq, struct xlator *x, const struct getxattr_in *in, struct getxattr_out *out)
{
	struct checks *c = x->private;
	struct known *k = known_of(x, in->inode);
	char self[GFID_TEXT], text[MARKS_TEXT];
	int err = for_the_brick(rq), size;

	if (!err)
		err = sync_absences(rq, x, in->inode);
	if (!err)
		err = k ? known_locked(rq, x, in->inode, k) : -ENOMEM;

	if (err)
		return err;
	size = snprintf(text, sizeof(text), "%u %llu %s", names_marked(k),
			(unsigned long long)atomic_load(mark_changes_of(c, &in->inode->gfid)), gfid_text(&c->self, self));
	pthread_mutex_unlock(&k->lock);
	out->value.bytes = strdup(text);
	out->value.size = (uint32_t)size;
	return out->value.bytes ? 0 : -ENOMEM;
}

/* ---- judging ---- */

static bool of_intent(const struct mark *m, const struct place *p)
{
	return gfid_equal(&m->intent, &p->intent);
}

bool mark_is_of(const struct mark *m, const struct place *p)
{
	return of_intent(m, p) && (m->attempt == p->attempt || MUTANT("no-fence"));
}

static int judge_hash(const struct known *k, const struct place *p, uint64_t hash, bool *ours)
{
	bool step = !gfid_is_null(&p->intent);

	for (unsigned i = 0; i < k->marks; i++) {
		const struct mark *m = &k->mark[i];

		if (m->hash != hash)
			continue;
		if (!step)
			return MUTANT("pass-marks") ? 0 : -EMARKED;
		*ours = mark_is_of(m, p);
		return *ours ? 0 : -EFENCED;
	}
	return 0;
}

/* All anchors of an object may be held by one mark. Who means the anchor itself may look at it. */
static int judge_anchor(const struct known *k, const struct place *p, const char *name, bool looks, bool *ours)
{
	struct gfid pointer, object;
	char held[ANCHORS_NAME];

	if ((looks && p->flags & PLACE_POINTER) || anchor_parse(name, &pointer, &object) || MUTANT("free-anchors"))
		return 0;
	return judge_hash(k, p, mark_hash(anchors_mark(&object, held)), ours);
}

int mark_judge(const struct known *k, const struct place *p, const char *name, bool looks, bool *ours)
{
	int err = k->marks ? judge_hash(k, p, mark_hash(name), ours) : 0;

	return err || *ours || !k->marks ? err : judge_anchor(k, p, name, looks, ours);
}

bool is_dying(const struct known *k, const struct place *p)
{
	uint64_t hash = k->marks ? mark_hash(MARK_DYING) : 0;

	for (unsigned i = 0; i < k->marks; i++)
		if (k->mark[i].hash == hash && !mark_is_of(&k->mark[i], p))
			return true;
	return false;
}

/* ---- changes ---- */

/* In a directory that dies no name is marked, and it does not begin to die while one is: what an intent may have to put back is never missed. */
static int room_for_one_more(struct request *rq, struct xlator *x, struct inode *inode, uint64_t hash)
{
	struct known now = { 0 };
	struct ours ignored;
	int err = marks_read(rq, x, inode, &now, &ignored);

	if (!err && (now.marks >= MARKS_MAX || (hash == mark_hash(MARK_DYING) && now.marks)))
		err = -EMARKED;
	for (unsigned i = 0; i < now.marks && !err; i++)
		err = now.mark[i].hash == mark_hash(MARK_DYING) ? -EMARKED : 0;
	free(now.mark);
	return err;
}

/* The root's home has the mark of `/moves`, and another one when that has moved. (Who gives it another home waits for the mark where it was.) */
static int may_move(const struct checks *c, const struct facts *root)
{
	uint32_t home = root->version ? root->home : c->initial ? c->implied.home : (uint32_t)c->subvolume;

	return home != (uint32_t)c->subvolume && !MUTANT("move-anywhere") ? -ELAYOUT : 0;
}

/* Who begins an intent has found the names by a layout; who ends one takes nothing for granted. */
static int may_begin(struct request *rq, struct xlator *x, const struct place *p, struct inode *inode, uint64_t hash)
{
	struct facts f;
	int err = facts_of(rq, x, inode, NULL, &f);

	if (!err && p->attempt == 1 && hash == mark_hash(MARK_MOVES))
		err = may_move(x->private, &f);
	else if (!err && p->attempt == 1 && place_version(p, request_gfid(rq, &inode->gfid), 0) != f.version &&
		 !MUTANT("mark-any-version"))
		err = -ELAYOUT;
	if (!err && hash == mark_hash(MARK_DYING) && f.moving)
		err = -EMARKED; /* until all names are where they are to be */
	return err ? err : room_for_one_more(rq, x, inode, hash);
}

int mark_may_change(struct request *rq, struct xlator *x, const struct place *p, enum fop fop, struct inode *inode,
		    const void *in, bool *done)
{
	bool sets = fop == FOP_setxattr;
	const char *name = sets ? ((const struct setxattr_in *)in)->name : ((const struct removexattr_in *)in)->name;
	struct mark now;
	uint64_t hash = 0;
	int err = read_mark(rq, x, inode, name, &now);

	if (err == -ENODATA && sets && ((const struct setxattr_in *)in)->flags & XATTR_REPLACE)
		return -EFENCED; /* it was removed */
	if (err == -ENODATA) {
		*done = !sets; /* by an earlier try */
		is_mark(name, &hash);
		return sets ? may_begin(rq, x, p, inode, hash) : 0;
	}
	if (err)
		return err == -EBADMSG ? -EIO : err;
	if (!of_intent(&now, p))
		return sets ? -EMARKED : -EFENCED;
	return (sets ? now.attempt <= p->attempt : now.attempt == p->attempt) ? 0 : -EFENCED;
}

/* ---- intents that have ended ---- */

/* [dsu].ID.ATTEMPT. The owner's own attempt is the first: how that ends he knows. */
static bool was_taken_over(const char *record, struct gfid *id)
{
	char text[GFID_TEXT];
	size_t length = strlen(record);

	if (length < 2 + GFID_TEXT + 1 || !strchr("dsu", record[0]) || record[1] != '.' || record[1 + GFID_TEXT] != '.')
		return false;
	snprintf(text, sizeof(text), "%s", record + 2);
	return !gfid_parse(text, id) && strcmp(record + 2 + GFID_TEXT, "1") != 0;
}

/* Before it has gone: who does not find it any more hears of it. (And if it stays: what is decided, or undone, does not become anything else.) A user's own file may be
 * called so, too. */
void ended_note(struct request *rq, struct xlator *x, const struct place *place, const struct unlink_in *in)
{
	struct ended *e = &((struct checks *)x->private)->ended;
	struct gfid id;
	size_t at;

	if (!in->loc.name || !(place->flags & PLACE_POINTER) || !request_is_root(rq) || !was_taken_over(in->loc.name, &id))
		return;
	at = gfid_hash(&id) % ENDED;
	pthread_mutex_lock(&e->lock);
	e->intent[at].id = id;
	e->intent[at].top = *request_top(rq);
	e->intent[at].state = in->loc.name[0];
	pthread_mutex_unlock(&e->lock);
}

bool asks_ended(const struct request *rq, enum fop fop, const void *in)
{
	const struct getxattr_in *get = in;

	return fop == FOP_getxattr && get->inode && is_top(rq, get->inode) && get->name &&
	       !strncmp(get->name, DHT_ENDED_XATTR, sizeof(DHT_ENDED_XATTR) - 1);
}

int ended_tell(struct request *rq, struct xlator *x, const struct getxattr_in *in, struct getxattr_out *out)
{
	struct ended *e = &((struct checks *)x->private)->ended;
	struct gfid id;
	int err = gfid_parse(in->name + sizeof(DHT_ENDED_XATTR) - 1, &id);
	char state = '\0';
	size_t at;

	if (!err && !request_is_root(rq))
		err = -EPERM;
	if (err)
		return err;
	at = gfid_hash(&id) % ENDED;
	pthread_mutex_lock(&e->lock);
	if (gfid_equal(&e->intent[at].id, &id) && gfid_equal(&e->intent[at].top, request_top(rq)))
		state = e->intent[at].state;
	pthread_mutex_unlock(&e->lock);
	if (!state)
		return -ENODATA;
	out->value.bytes = malloc(1);
	if (!out->value.bytes)
		return -ENOMEM;
	out->value.size = 1;
	memcpy(out->value.bytes, &state, 1);
	return 0;
}
