/* SPDX-License-Identifier: Apache-2.0 */
/* What may pass: changes that are stamped for this view, and reads (gate-reads.c). */
#include <fcntl.h>

#include "member.h"
#include "quota.h"

enum { COPY_MOST = 16 << 20 }; /* bytes, of a tenant's client */

/* ---- changes ---- */

static const struct gfid *made_gfid(enum fop fop, const void *in)
{
	return fop == FOP_create  ? &((const struct create_in *)in)->gfid
	       : fop == FOP_mknod ? &((const struct mknod_in *)in)->gfid
	       : fop == FOP_mkdir ? &((const struct mkdir_in *)in)->gfid
				  : &((const struct symlink_in *)in)->gfid;
}

static bool makes(enum fop fop)
{
	return fop == FOP_create || fop == FOP_mknod || fop == FOP_mkdir || fop == FOP_symlink;
}

static int open_made(struct request *rq, struct xlator *x, const struct create_in *in, const struct lookup_out *found,
		     struct create_out *out)
{
	struct open_in open = { found->inode, in->flags & ~(uint32_t)(O_CREAT | O_EXCL | O_TRUNC) };
	struct open_out opened = { 0 };
	int err = open_on(rq, x->child[0], &open, &opened);

	if (!err)
		*out = (struct create_out){ .inode = found->inode, .file = opened.file, .attr = found->attr };
	return err;
}

/* What was made may have been removed or renamed since, by others, even while this looks at it: so it is found, never made again. All
 * four have the loc first. */
static int answer_made(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	const struct loc *loc = in;
	struct lookup_in find = { .loc = { .parent = loc->parent, .name = loc->name } };
	struct lookup_out found = { 0 };
	int err = lookup_on(rq, x->child[0], &find, &found);

	if (!err && !gfid_equal(&found.inode->gfid, made_gfid(fop, in)))
		err = -ENOENT;
	if (!err && fop == FOP_create)
		err = open_made(rq, x, in, &found, out);
	else if (!err)
		*(struct mknod_out *)out = (struct mknod_out){ found.inode, found.attr }; /* the same for the other three */
	if (!err)
		return 0;
	fop_out_clear(FOP_lookup, &found);
	return -EIO; /* it was done, but there is nothing to show for it any more */
}

/* For a change that was done before, in this view or an earlier one: the answer, without doing it again. */
static int answer_done(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out, uint64_t value)
{
	const struct write_in *write = in;
	struct write_out *written = out;
	const struct setattr_in *set = in;
	const struct link_in *link = in;
	struct getattr_in ask = { 0 };

	switch ((int)fop) {
	case FOP_write:
		*written = (struct write_out){ value, write->offset };
		return 0;
	case FOP_copy_range:
		((struct copy_range_out *)out)->copied = value;
		return 0;
	case FOP_setattr:
		ask = (struct getattr_in){ set->inode, set->file };
		return getattr_on(rq, x->child[0], &ask, out);
	case FOP_link:
		ask.inode = link->inode;
		return getattr_on(rq, x->child[0], &ask, out);
	case FOP_create:
	case FOP_mknod:
	case FOP_mkdir:
	case FOP_symlink:
		return answer_made(rq, x, fop, in, out);
	default:
		return 0;
	}
}

static uint64_t value_of(enum fop fop, const void *out)
{
	if (fop == FOP_write)
		return ((const struct write_out *)out)->written;
	return fop == FOP_copy_range ? ((const struct copy_range_out *)out)->copied : 0;
}

/* What the change reads here, and others there: it must be the same at all, though the change leaves it as it is. */
static const struct gfid *source_of(enum fop fop, const void *in)
{
	return fop == FOP_copy_range ? &((const struct copy_range_in *)in)->from->inode->gfid : NULL;
}

static bool any_blocked(struct member *m, const struct note *n, const struct gfid *source)
{
	if (source && note_blocks(m, source))
		return true;
	for (unsigned i = 0; i < n->objects; i++)
		if (note_blocks(m, &n->object[i].gfid))
			return true;
	return false;
}

/* What changes one object only, by what it is told alone. */
static bool follows(const struct member *m, const struct note *n)
{
	switch ((int)n->fop) {
	case FOP_write:
	case FOP_fallocate:
	case FOP_setattr:
	case FOP_setxattr:
	case FOP_removexattr:
		return m->follows.count && gfid_set_has(&m->follows, &n->object[0].gfid);
	default:
		return false;
	}
}

/* The object must be here, and as it is elsewhere, for the change to do the same here. */
static bool must_be_right(const struct note *n, unsigned i)
{
	return n->object[i].kind != NOTE_NEW && !note_only_names(n, i);
}

/* A member that is BACK: what the change touches, or copies, is not there yet. */
static bool any_pending(struct member *m, const struct note *n, const struct gfid *source)
{
	if (source && (member_pending(m, source) || gfid_set_has(&m->unhealed, source)) && !MUTANT("copy-pending"))
		return true;
	if (follows(m, n))
		return false;
	for (unsigned i = 0; i < n->objects; i++)
		if (must_be_right(n, i) && member_pending(m, &n->object[i].gfid))
			return true;
	return false;
}

static int skip(struct member *m, const struct note *n)
{
	int err = 0;

	for (unsigned i = 0; i < n->objects && !err; i++)
		err = MUTANT("forget-skipped") ? 0 : member_add_pending(m, &n->object[i].gfid);
	m->skipped++;
	return err ? err : -EPENDING;
}

int touch(struct member *m, const struct note *n)
{
	int err = 0;

	for (unsigned i = 0; i < n->objects && !err; i++) {
		const struct note_object *o = &n->object[i];
		cleanup_inode struct inode *inode = inode_find(m->x->inodes, &o->gfid);

		err = index_touch(&m->index, &o->gfid, inode ? inode->type : 0, m->leaf, inode);
		if (!err && o->kind == NOTE_NAME)
			err = index_names_change(&m->index, &o->gfid);
	}
	return err;
}

void touch_made(struct member *m, enum fop fop, const void *out)
{
	struct inode *inode = fop == FOP_create	   ? ((const struct create_out *)out)->inode
			      : fop == FOP_mknod   ? ((const struct mknod_out *)out)->inode
			      : fop == FOP_mkdir   ? ((const struct mkdir_out *)out)->inode
			      : fop == FOP_symlink ? ((const struct symlink_out *)out)->inode
						   : NULL;

	if (inode)
		index_made(&m->index, &inode->gfid, inode->type, m->leaf, inode);
}

struct admitted {
	const struct gfid *durable; /* told: what is to be on the disk with the change; or NULL */
	struct kept_note *note;
	unsigned parity;
	enum limits_rule limits;
	bool done, in_doubt;
	uint64_t value;
};

static bool any_dead(const struct member *m, const struct note *n, const struct gfid *source)
{
	for (unsigned i = 0; i < n->objects; i++)
		if (must_be_right(n, i) && member_dead(m, &n->object[i].gfid))
			return true;
	return source && member_dead(m, source);
}

/* No name leads to it here, or it is not here any more. */
static bool is_nameless(struct request *rq, const struct member *m, const struct gfid *g)
{
	cleanup_inode struct inode *inode = inode_find(m->x->inodes, g);
	struct getattr_in in = { .inode = inode };
	struct getattr_out out = { 0 };
	int err = inode ? getattr_on(rq, m->x->child[0], &in, &out) : -EIO;

	return err == -ESTALE || err == -ENOENT || (!err && !out.attr.nlink);
}

/* With the lock held, but while it looks. A recovery may undo an unlink whose note does not say what had the name (note_hides). Then it makes that anew from the
 * truth's copy, and what had been done since to the one that is left here would be lost, though its client was told that it is done. */
static bool may_be_made_anew(struct member *m, struct request *rq, const struct replica_stamp *stamp, const struct note *n,
			     const struct gfid *source)
{
	bool any = false;

	if (!m->hidden || stamp->epoch != m->view.epoch || member_state(m) != MEMBER_IN)
		return false;
	pthread_mutex_unlock(&m->lock);
	if (source)
		any = is_nameless(rq, m, source);
	for (unsigned i = 0; i < n->objects && !any; i++)
		any = must_be_right(n, i) && is_nameless(rq, m, &n->object[i].gfid);
	pthread_mutex_lock(&m->lock);
	return any;
}

/* It was refused for a file that had been opened before its object was made anew. Its client has opened that once more since. */
static bool was_stale(const struct note *n)
{
	return n->status == -ESTALE &&
	       (n->fop == FOP_write || n->fop == FOP_fallocate || n->fop == FOP_copy_range || n->fop == FOP_setattr);
}

/* One member decides whether there is room within a limit, so that none does what others refuse (T11 in doc/tenants.md). It is the truth of a recovery, too. */
static enum limits_rule limits_here(const struct member *m, const struct replica_stamp *stamp)
{
	if (view_first(&m->view) == (int)m->number && !MUTANT("nobody-refuses"))
		return LIMITS_FIRST;
	return stamp->flags & REPLICA_DECIDED || MUTANT("nobody-refuses") ? LIMITS_DECIDED : LIMITS_ASK;
}

/* A new view waits for what is under way, and a member that is not done with it in time would be taken for broken. cluster/afr copies no more at once. */
static bool takes_long(const struct note *n)
{
	const struct note_object *o = &n->object[0];

	return n->fop == FOP_copy_range && n->objects && o->kind == NOTE_DATA && o->end - o->start > COPY_MOST;
}

/* What a change is to bring to the disk by itself. */
static const struct gfid *durable_of(enum fop fop, const void *in)
{
	const struct write_in *write = in;

	return fop == FOP_write && write->file->flags & O_DSYNC ? &write->file->inode->gfid : NULL;
}

/* With the lock held. It would be done, and fail all the same, so that members differ: each such write would have to be recovered. */
static bool is_in_vain(const struct member *m, const struct admitted *a)
{
	return a->durable && losses_have(&m->lost, a->durable) && !MUTANT("forget-lost") && !MUTANT("write-in-vain");
}

/* With the lock held. 0, or why not. `source`: what is copied from, or NULL. */
static int admit(struct member *m, struct request *rq, const struct replica_stamp *stamp, const struct note *n,
		 const struct gfid *source, struct admitted *a)
{
	bool anew = may_be_made_anew(m, rq, stamp, n, source);
	struct session *s = session_of(m, rq);
	struct kept_note *before;
	bool now = stamp->epoch == m->view.epoch || MUTANT("accept-old-epoch");
	int err = s && now && (!m->frozen || MUTANT("ignore-freeze")) ? member_serves(m, MEMBER_BACK) : -EVIEW;

	if (err)
		return err;
	session_settle(m, s, stamp->settled);
	if (stamp->sequence <= s->settled) /* nobody waits for it: it is late, and not the first of its kind */
		return -EVIEW;
	if (session_has_failed(m, s, stamp->sequence)) /* its client has given it up */
		return -EVIEW;
	before = MUTANT("forget-done") ? NULL : note_find(m, s, stamp->sequence);
	if (before && (before->recovering || (!before->resolved && (before->orphan || before->note.status == NOTE_UNKNOWN))))
		return -ERECOVERING;
	if (before && !before->resolved && before->note.status && !was_stale(&before->note))
		return before->note.status;
	if (before && !before->note.status) {
		a->done = true;
		a->value = before->note.value;
		before->repeated = !before->resolved;
		return 0;
	}
	if (stamp->flags & REPLICA_ASK)
		return -ENOTDONE;
	if (!m->writable)
		return m->changes_wait ? -ERECOVERING : -EROFS;
	if (s->tenant && takes_long(n))
		return -EINVAL;
	if (any_dead(m, n, source))
		return -ESTALE;
	if ((anew || any_blocked(m, n, source)) && !MUTANT("change-in-recovery"))
		return -ERECOVERING;
	if (member_state(m) == MEMBER_BACK && any_pending(m, n, source) && !MUTANT("change-pending"))
		return skip(m, n);
	if (is_in_vain(m, a))
		return stamp->flags & REPLICA_UNSYNCED ? -EUNSYNCED : -EIO;
	a->in_doubt = stamp->flags & REPLICA_DOUBT;
	if (before)
		note_remove(m, before);
	err = MUTANT("skip-index") ? 0 : touch(m, n);
	if (err)
		return err;
	if (s->notes >= NOTES_MAX || tenant_notes_full(m, s)) /* of a client that never settles */
		return -ERECOVERING;
	a->note = note_add(m, s, n);
	if (!a->note)
		return -ENOMEM;
	a->limits = limits_here(m, stamp);
	a->parity = m->index.generation & 1;
	m->running[a->parity]++;
	m->changes++;
	return 0;
}

/* While all is pending but what is known to be right: what was made here is. */
static void made_right(struct member *m, const struct note *n)
{
	for (unsigned i = 0; i < n->objects && m->all_pending; i++)
		if (n->object[i].kind == NOTE_NEW)
			gfid_set_add(&m->healed, &n->object[i].gfid);
}

/* What a recovery had undone is made again. */
static void made_alive(struct member *m, const struct note *n)
{
	for (unsigned i = 0; i < n->objects && m->dead.count; i++)
		if (n->object[i].kind == NOTE_NEW)
			gfid_set_remove(&m->dead, &n->object[i].gfid);
}

/* Nobody waits for it any more. What a member that is BACK did so late may lack what it was healed from. */
static void ended_late(struct member *m, struct kept_note *k)
{
	for (unsigned i = 0; i < k->note.objects && member_state(m) == MEMBER_BACK; i++)
		if (k->note.object[i].kind != NOTE_NEW)
			member_add_pending(m, &k->note.object[i].gfid);
	note_remove(m, k);
}

void no_longer_running(struct member *m, unsigned parity)
{
	m->running[parity]--;
	if (m->frozen || !m->running[parity])
		task_cond_broadcast(&m->event);
}

/* True if the session has the token of what it made. */
static bool ended(struct member *m, struct admitted *a, enum fop fop, const void *in, const void *out, int err)
{
	bool granted = false;

	pthread_mutex_lock(&m->lock);
	if (!err) {
		made_right(m, &a->note->note);
		made_alive(m, &a->note->note);
	}
	a->note->note.status = err;
	a->note->note.value = err ? 0 : value_of(fop, out);
	if (!err)
		touch_made(m, fop, out);
	if (!err && makes(fop) && !a->note->orphan)
		granted = token_grant_new(m, a->note->session, made_gfid(fop, in));
	note_keep_inodes(m, a->note);
	if (a->note->note.sequence <= a->note->session->settled && !a->note->orphan && !a->note->recovering)
		ended_late(m, a->note);
	else if ((err == -ENEEDGROUPS || err == -EASKFIRST) && !a->note->orphan && !a->note->recovering)
		note_remove(
			m,
			a->note); /* nothing was done: it is sent once more, with the groups, or when the first member has decided */
	no_longer_running(m, a->parity);
	pthread_mutex_unlock(&m->lock);
	return granted;
}

/* Copying ends early where the source ends, which is no failure. */
static bool copy_is_short(struct request *rq, struct xlator *x, const struct copy_range_in *in, uint64_t copied)
{
	struct getattr_in ask = { in->from->inode, in->from };
	struct getattr_out now = { 0 };

	if (copied >= in->length)
		return false;
	return getattr_on(rq, x->child[0], &ask, &now) || in->from_offset + copied < now.attr.size;
}

/* A disk that fills up, or breaks, in the midst of a change: other members may have taken more of it. */
static bool is_short(struct request *rq, struct xlator *x, enum fop fop, const void *in, const void *out)
{
	const struct buffer *data = fop == FOP_write ? ((const struct write_in *)in)->data : NULL;

	if (fop == FOP_copy_range)
		return copy_is_short(rq, x, in, ((const struct copy_range_out *)out)->copied);
	return data && ((const struct write_out *)out)->written < data->size;
}

/* By what features/cloud says; where there is none (in tests) by whose session it is. */
static bool is_confined(struct member *m, const struct request *rq)
{
	const struct session *s;
	bool yes = request_is_tenants(rq);

	pthread_mutex_lock(&m->lock);
	s = session_of(m, rq);
	yes |= s && s->tenant;
	pthread_mutex_unlock(&m->lock);
	return yes;
}

/* More than what is made takes at the most, with all that it is born with. */
enum { LEAST_ROOM = 1 << 20 };

/* By its own account the disk has no room for anything: then it is not for what a client asked of this member alone that there was none. Of the leaf: what is above it tells
 * a tenant of his quota. */
static bool disk_is_full(const struct member *m, struct request *rq)
{
	struct statfs_in in = { 0 };
	struct statfs_out out = { 0 };
	const struct statfs *s = &out.statfs;

	if (statfs_on(rq, m->leaf, &in, &out))
		return false;
	return s->bavail * s->frsize < LEAST_ROOM || (s->files && !s->ffree);
}

/* Of a client whose word would not be enough the member tells itself what its disk did not do. */
static void tell_failed(struct member *m, struct request *rq, const struct note *n, int err)
{
	struct session *s;
	bool full;

	if ((err != -EIO && err != -ENOSPC && err != -EROFS) || !is_confined(m, rq))
		return;
	full = err == -ENOSPC && disk_is_full(m, rq);
	pthread_mutex_lock(&m->lock);
	s = session_of(m, rq);
	if (s && s->tenant && m->writable)
		tenant_failed(s, n, err, full);
	pthread_mutex_unlock(&m->lock);
}

/* The name stands for that object here. */
static bool stands_for(struct request *rq, struct xlator *x, const struct loc *loc, const struct gfid *gfid)
{
	struct lookup_in in = { .loc = { .parent = loc->parent, .name = loc->name } };
	struct lookup_out out = { 0 };
	bool yes = !lookup_on(rq, x->child[0], &in, &out) && gfid_equal(&out.inode->gfid, gfid);

	fop_out_clear(FOP_lookup, &out);
	return yes;
}

/* What a client says that names stand for comes into the note, and who reads such an object waits for the note, whoever reads. So of one that is confined to a
 * tree only that counts which is so: by T2 of doc/tenants.md the object is in his tree then. Without the rest it is a change that does not say what it takes. */
static void drop_unfounded(struct request *rq, struct xlator *x, enum fop fop, const void *in, struct note *n)
{
	const struct rename_in *rename = in;
	const struct loc *loc[2] = { in, fop == FOP_rename ? &rename->to : NULL }; /* an unlink_in begins with it, too */
	unsigned kept = 0;

	for (unsigned i = 0; i < n->objects; i++) {
		bool founded = !note_only_names(n, i);

		for (unsigned k = 0; k < 2 && !founded; k++)
			founded = loc[k] && stands_for(rq, x, loc[k], &n->object[i].gfid);
		if (founded)
			n->object[kept++] = n->object[i];
	}
	n->objects = kept;
}

static int perform(struct request *rq, struct xlator *x, enum fop fop, const struct replica_stamp *stamp,
		   struct kept_note *note, const void *in, void *out)
{
	if (fop == FOP_setxattr && is_quota(((const struct setxattr_in *)in)->name))
		return limit_set(rq, x, stamp, in, out);
	if (durable_of(fop, in) && !MUTANT("write-unjudged"))
		return member_write_durably(member_of(x), rq, note, in, out);
	return fop_call(rq, x->child[0], fop, in, out);
}

#define ACLS "system.posix_acl_"
/* ENOSPC where nothing of the change was done, of which the leaf tells: then nobody needs to look what each member has of it. Not of what takes more than one call below. */
static bool left_untouched(const struct request *rq, enum fop fop, const void *in, int err)
{
	if (err != -ENOSPC || MUTANT("short-is-untouched"))
		return err == -ENOSPC;
	if (!rq->untouched || rq->made)
		return false;
	if (fop == FOP_setxattr) {
		const char *name = ((const struct setxattr_in *)in)->name;

		return !is_quota(name) && strncmp(name, ACLS, sizeof(ACLS) - 1) !=
						  0; /* for an ACL features/access may have taken setgid away first */
	}
	return fop == FOP_write || makes(fop);
}

static int change(struct request *rq, struct xlator *x, enum fop fop, const struct replica_stamp *stamp, const void *in,
		  void *out)
{
	struct member *m = member_of(x);
	struct admitted a = { .durable = durable_of(fop, in) };
	struct note n;
	unsigned objects;
	int err = note_of(fop, in, &n);

	if (err)
		return err;
	objects = n.objects;
	note_expect(&n, rq);
	if (n.objects > objects && is_confined(m, rq) && !MUTANT("believe-expected"))
		drop_unfounded(rq, x, fop, in, &n);
	n.sequence = stamp->sequence;
	n.status = NOTE_UNKNOWN;
	pthread_mutex_lock(&m->lock);
	err = admit(m, rq, stamp, &n, source_of(fop, in), &a);
	m->refused += err && err != -EPENDING;
	pthread_mutex_unlock(&m->lock);
	if (err) {
		tell_failed(m, rq, &n, err);
		return err;
	}
	rq->time_ns = MUTANT("own-time") ? 0 : stamp->time & ~TIME_KEPT;
	if (a.done)
		return answer_done(rq, x, fop, in, out, a.value);
	rq->resent |= a.in_doubt && makes(fop); /* who finds its own gfid has done it */
	rq->limits = a.limits;
	rq->untouched = rq->made = false;
	err = perform(rq, x, fop, stamp, a.note, in, out);
	if (!err && is_short(rq, x, fop, in, out) && !MUTANT("short-is-done")) {
		err = -ENOSPC;
		rq->untouched = false;
	}
	if (ended(m, &a, fop, in, out, err))
		granted_attach(rq);
	tell_failed(m, rq, &n, err);
	return stamp->flags & REPLICA_ROOM && left_untouched(rq, fop, in, err) ? -ENOROOM : err;
}

/* ---- the coordinator ---- */

/* It has proved it. */
static bool is_coordinator(const struct member *m, const struct request *rq)
{
	return rq->client && atomic_load(&m->coordinator) == rq->client;
}

/* What the coordinator removes for good may be open here still, and lacks what was done to it elsewhere. */
static int note_removed(struct request *rq, struct xlator *x, const struct loc *loc, struct gfid *added)
{
	struct lookup_in in = { .loc = { .parent = loc->parent, .name = loc->name } };
	struct lookup_out out = { 0 };
	struct member *m = member_of(x);
	int err = lookup_on(rq, x->child[0], &in, &out);

	if (err)
		return err;
	if (S_ISREG(out.attr.mode) && out.attr.nlink <= 1) {
		pthread_mutex_lock(&m->lock);
		err = gfid_set_add(&m->dead, &out.attr.gfid);
		pthread_mutex_unlock(&m->lock);
		*added = err > 0 ? out.attr.gfid : (struct gfid){ 0 };
	}
	fop_out_clear(FOP_lookup, &out);
	return err < 0 ? err : 0;
}

/* At a member that is IN it is a recovery that makes something, and till it has ended nobody gets to see, or changes, what may not be whole. */
static int made_by_heal(struct member *m, const struct note *n)
{
	for (unsigned i = 0; i < n->objects; i++) {
		if (n->object[i].kind != NOTE_NEW)
			continue;
		gfid_set_remove(&m->dead, &n->object[i].gfid);
		if (member_state(m) == MEMBER_IN && !MUTANT("show-half-made") &&
		    gfid_set_add(&m->half_made, &n->object[i].gfid) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* With the lock held. What the coordinator mends is under way as any change is: a new view waits for it, and then no more begins. */
static int heal_begins(struct member *m, const struct replica_stamp *stamp, const struct note *n, unsigned *parity)
{
	int err = stamp->epoch != m->view.epoch ? -EVIEW : 0;

	if (err || !n->objects)
		return err;
	err = m->frozen ? -EVIEW : touch(m, n);
	if (err == -EROFS || err == -EIO) /* of the list */
		suspect_self(m, err);
	if (!err)
		err = made_by_heal(m, n);
	if (err)
		return err;
	*parity = m->index.generation & 1;
	m->running[*parity]++;
	return 0;
}

/* After an error of the disk it may be gone all the same. */
static bool is_there(struct request *rq, struct xlator *x, const struct loc *loc, const struct gfid *gfid)
{
	struct lookup_in in = { .loc = { .parent = loc->parent, .name = loc->name } };
	struct lookup_out out = { 0 };
	bool there = !lookup_on(rq, x->child[0], &in, &out) && gfid_equal(&out.inode->gfid, gfid);

	fop_out_clear(FOP_lookup, &out);
	return there;
}

/* What gets a place is not removed, whatever an error of the disk made it look like. */
static void placed(struct member *m, enum fop fop, const void *in)
{
	const struct inode *inode = fop == FOP_rename ? ((const struct rename_in *)in)->from.inode
				    : fop == FOP_link ? ((const struct link_in *)in)->inode
						      : NULL;

	if (inode)
		gfid_set_remove(&m->dead, &inode->gfid);
}

static void heal_ends(struct member *m, enum fop fop, const void *in, const void *out, int err, unsigned parity,
		      const struct gfid *removed)
{
	pthread_mutex_lock(&m->lock);
	if (!err) {
		touch_made(m, fop, out);
		placed(m, fop, in);
	}
	if (err && !gfid_is_null(removed)) /* it is there yet */
		gfid_set_remove(&m->dead, removed);
	if (err == -EROFS)
		suspect_self(m, err);
	no_longer_running(m, parity);
	pthread_mutex_unlock(&m->lock);
}

static int heal(struct request *rq, struct xlator *x, enum fop fop, const struct replica_stamp *stamp, const void *in,
		void *out)
{
	struct member *m = member_of(x);
	struct gfid removed = { 0 };
	struct note n = { 0 };
	unsigned parity = 0;
	int err;

	if (note_of(fop, in, &n))
		n.objects = 0; /* it only looks */
	pthread_mutex_lock(&m->lock);
	err = heal_begins(m, stamp, &n, &parity);
	pthread_mutex_unlock(&m->lock);
	if (err)
		return err;
	rq->time_ns = stamp->time;
	rq->limits = MUTANT("refuse-heals") ? LIMITS_FIRST : LIMITS_HEAL;
	if (fop == FOP_unlink && !MUTANT("forget-removed"))
		err = note_removed(rq, x, in, &removed); /* what can't be looked at stays, and with it who heals */
	if (!err)
		err = fop == FOP_fsync && !MUTANT("heal-unjudged") ? member_heal_fsync(m, rq, in, out)
								   : fop_call(rq, x->child[0], fop, in, out);
	if (err && !gfid_is_null(&removed) && !is_there(rq, x, in, &removed))
		removed = (struct gfid){ 0 };
	if (n.objects)
		heal_ends(m, fop, in, out, err, parity, &removed);
	return err;
}

/* ---- what does neither ---- */

static bool passes(enum fop fop, const void *in)
{
	switch ((int)fop) {
	case FOP_open:
		return !(((const struct open_in *)in)->flags & O_TRUNC);
	case FOP_opendir:
	case FOP_release:
	case FOP_flush:
	case FOP_fsync:
	case FOP_setlk:
	case FOP_getlk:
	case FOP_statfs:
	case FOP_readlink:
		return true;
	default:
		return false;
	}
}

/* Opens, locks and syncs count only at a member that takes part. */
static int take_part(struct request *rq, struct xlator *x, enum fop fop, const struct replica_stamp *stamp, const void *in,
		     void *out)
{
	struct member *m = member_of(x);
	bool always = fop == FOP_release || fop == FOP_flush;
	int err = fop == FOP_fsync ? member_fsync(m, rq, in, out) : fop_call(rq, x->child[0], fop, in, out), serves;

	if (always)
		return err;
	pthread_mutex_lock(&m->lock);
	serves = member_serves(m, MEMBER_BACK);
	if (stamp->epoch && stamp->epoch != m->view.epoch)
		serves = -EVIEW;
	pthread_mutex_unlock(&m->lock);
	if (serves && !err) {
		fop_out_clear((int)fop, out);
		memset(out, 0, fop_info[fop].out_size);
	}
	return serves ? serves : err;
}

static bool names_hidden(enum fop fop, const void *in)
{
	const struct field *f = fop_info[fop].in;

	for (; f->name; f++)
		if (f->kind == FIELD_LOC && is_hidden_name((const struct loc *)((const char *)in + f->offset)))
			return true;
	return false;
}

int gate_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct member *m = member_of(x);
	struct replica_stamp stamp = { 0 };
	bool stamped = stamp_of(rq, &stamp);

	if (fop == FOP_replica)
		return member_verb(rq, x, in, out);
	if (stamped && stamp.flags & REPLICA_OWN)
		return rq->client ? -EPERM : own_call(rq, x, fop, &stamp, in, out);
	if (stamped && stamp.flags & REPLICA_HEAL)
		return is_coordinator(m, rq) ? heal(rq, x, fop, &stamp, in, out) : -EPERM;
	if (passes(fop, in))
		return take_part(rq, x, fop, &stamp, in, out);
	if (!(fop_info[fop].flags & FOP_MUTATES) && fop != FOP_open)
		return gate_read(rq, x, fop, in, out);
	if (!stamped || !stamp.sequence) /* compounds, and a client that has no cluster/afr */
		return -EOPNOTSUPP;
	return names_hidden(fop, in) ? -EPERM : change(rq, x, fop, &stamp, in, out);
}
