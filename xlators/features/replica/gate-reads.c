/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of what is not under way: who looks at what may yet be undone waits until it is settled. */
#include <fcntl.h>

#include "member.h"

/* What a read looked at: an object, or a name in a directory. */
struct seen {
	const struct gfid *gfid;
	const char *name;
};

static unsigned looked_at(enum fop fop, const void *in, const void *out, struct seen seen[2])
{
	const struct lookup_in *lookup = in;
	const struct lookup_out *found = out;
	const struct getattr_in *getattr = in;
	const struct file *file = NULL;

	switch ((int)fop) {
	case FOP_lookup:
		if (!lookup->loc.name) {
			seen[0] = (struct seen){ &lookup->loc.inode->gfid, NULL };
			return 1;
		}
		seen[0] = (struct seen){ &lookup->loc.parent->gfid, lookup->loc.name };
		if (!found->inode)
			return 1;
		seen[1] = (struct seen){ &found->inode->gfid, NULL };
		return 2;
	case FOP_getattr:
		seen[0].gfid = getattr->file ? &getattr->file->inode->gfid : &getattr->inode->gfid;
		break;
	case FOP_access:
		seen[0].gfid = &((const struct access_in *)in)->inode->gfid;
		break;
	case FOP_getxattr:
		seen[0].gfid = &((const struct getxattr_in *)in)->inode->gfid;
		break;
	case FOP_listxattr:
		seen[0].gfid = &((const struct listxattr_in *)in)->inode->gfid;
		break;
	case FOP_read:
		file = ((const struct read_in *)in)->file;
		break;
	case FOP_readdir:
		file = ((const struct readdir_in *)in)->file;
		break;
	case FOP_seek:
		file = ((const struct seek_in *)in)->file;
		break;
	default:
		return 0;
	}
	if (file)
		seen[0].gfid = &file->inode->gfid;
	seen[0].name = NULL;
	return 1;
}

/* Whose changes the reader knows of. Which of several on one connection reads (a change of graphs) reads do not say: then all are foreign. */
static struct session *reader(struct member *m, const struct request *rq)
{
	struct session *s = session_of(m, rq);

	for (const struct session *other = s ? s->next : NULL; other; other = other->next)
		if (other->client == s->client)
			return NULL;
	return s;
}

/* A note of somebody else's change on what was read. */
static struct kept_note *foreign(struct member *m, const struct request *rq, const struct seen *seen, unsigned count)
{
	struct session *s = reader(m, rq);
	struct kept_note *k = NULL;

	for (unsigned i = 0; i < count && !k; i++)
		k = note_on(m, seen[i].gfid, seen[i].name, s);
	return k;
}

static bool any_half_made(struct member *m, const struct seen *seen, unsigned count)
{
	for (unsigned i = 0; i < count && m->half_made.count; i++)
		if (gfid_set_has(&m->half_made, seen[i].gfid))
			return true;
	return false;
}

/* Attributes of entries that are being changed are left out: the caller looks them up, and waits there. */
static void drop_unsettled(struct member *m, const struct request *rq, struct dirents *d)
{
	struct session *s = reader(m, rq);

	for (uint32_t i = 0; i < d->count; i++) {
		struct dirent_plus *e = &d->entry[i];

		if (!e->inode || (!note_on(m, &e->inode->gfid, NULL, s) && !gfid_set_has(&m->half_made, &e->inode->gfid)))
			continue;
		inode_unref(e->inode);
		e->inode = NULL;
	}
}

/* With the lock held. 0: what was read holds; -EAGAIN: read again. The event names nothing: on the way to its client each inode becomes a handle, and
 * what was read, or the directory in which that was looked for, need be none that this client may have. */
static int wait_settled(struct member *m, struct kept_note *k, uint64_t until)
{
	struct event e = { .kind = EVENT_SETTLE, .client = k->session->client };
	int err;

	if (clock_ns() >= until)
		return -EVIEW;
	m->waits++;
	k->session->asked_ns = k->session->asked_ns ? k->session->asked_ns : clock_ns();
	if (e.client) {
		pthread_mutex_unlock(&m->lock);
		event_up(m->x, &e);
		pthread_mutex_lock(&m->lock);
	}
	err = atomic_load(&m->noted) ? task_cond_wait(&m->event, &m->lock, clock_ns() + SETTLE_ASK_NS) : 0;
	return err == -ECANCELED ? err : -EAGAIN;
}

/* The same for what a recovery is making. */
static int wait_recovered(struct member *m, uint64_t until)
{
	if (clock_ns() >= until)
		return -EVIEW;
	m->waits++;
	return task_cond_wait(&m->event, &m->lock, clock_ns() + SETTLE_ASK_NS) == -ECANCELED ? -ECANCELED : -EAGAIN;
}

/* Hides the directory in which the coordinator keeps what it moves out of the way. */
bool is_hidden_name(const struct loc *loc)
{
	return loc->parent && loc->name && gfid_equal(&loc->parent->gfid, &gfid_root) && !strcmp(loc->name, LIMBO);
}

static void hide_entries(const struct readdir_in *in, struct dirents *d)
{
	uint32_t left = 0;

	if (!gfid_equal(&in->file->inode->gfid, &gfid_root))
		return;
	for (uint32_t i = 0; i < d->count; i++) {
		struct dirent_plus *e = &d->entry[i];

		if (strcmp(e->name, LIMBO)) {
			d->entry[left++] = *e;
			continue;
		}
		free(e->name);
		inode_unref(e->inode);
	}
	d->count = left;
}

/* After the read: does what it found hold? */
static int verdict(struct member *m, struct request *rq, enum fop fop, const void *in, void *out, bool knows, uint64_t until)
{
	struct seen seen[2];
	unsigned count = looked_at(fop, in, out, seen);
	struct kept_note *k;
	cleanup_member struct member *locked = member_locked(m->x);
	int err;

	err = knows ? 0 : member_serves(locked, MUTANT("read-at-back") ? MEMBER_BACK : MEMBER_IN);
	if (!err && !knows && m->unproven)
		err = -ERECOVERING;
	for (unsigned i = 0; i < count && !err; i++)
		err = member_dead(m, seen[i].gfid) ? -ESTALE : knows && note_recovering(m, seen[i].gfid) ? -ERECOVERING : 0;
	if (err || knows)
		return err;
	if (any_half_made(m, seen, count))
		return wait_recovered(m, until);
	if (!atomic_load(&m->noted) && !m->half_made.count)
		return 0;
	k = MUTANT("read-unsettled") ? NULL : foreign(m, rq, seen, count);
	if (k)
		return wait_settled(m, k, until);
	if (fop == FOP_readdir)
		drop_unsettled(m, rq, &((struct readdir_out *)out)->entries);
	return 0;
}

/* It is looked at once more afterwards. */
static bool is_unproven(struct member *m)
{
	if (!atomic_load(&m->unproven))
		return false;
	cleanup_member struct member *locked = member_locked(m->x);

	return !member_serves(locked, MEMBER_IN);
}

int gate_read(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	uint64_t until = clock_ns() + READ_WAIT_NS;
	struct replica_stamp stamp;
	bool knows = stamp_of(rq, &stamp) && stamp.flags & REPLICA_READ;
	struct member *m = member_of(x);
	int status, err;

	if (fop == FOP_lookup && is_hidden_name(&((const struct lookup_in *)in)->loc))
		return -ENOENT;
	do {
		if (!knows && is_unproven(m))
			return -ERECOVERING;
		status = fop_call(rq, x->child[0], fop, in, out);
		if (!status && fop == FOP_readdir)
			hide_entries(in, &((struct readdir_out *)out)->entries);
		err = verdict(m, rq, fop, in, out, knows, until);
		if (err && !status)
			fop_out_clear((int)fop, out);
		if (err)
			memset(out, 0, fop_info[fop].out_size);
	} while (err == -EAGAIN);
	return err ? err : status;
}
