/* SPDX-License-Identifier: Apache-2.0 */
/* Inodes and open files as the brick names them, and how they get into a session that was made anew. */
#include <fcntl.h>
#include <sys/stat.h>

#include "client.h"

/* ---- inodes ---- */

struct remote_inode *remote_inode(struct remote *r, struct inode *inode, const uint8_t *handle, uint32_t size)
{
	struct remote_inode *i = inode_slot(inode, r->x), *new;

	while (!i) {
		new = calloc(1, sizeof(*new));
		if (!new)
			return NULL;
		pthread_mutex_init(&new->lock, NULL);
		memcpy(new->handle, handle, size);
		new->size = size;
		switch (inode_slot_set(inode, r->x, new)) {
		case 0:
			return new;
		case -EEXIST:
			free(new);
			i = inode_slot(inode, r->x);
			break;
		default:
			free(new);
			return NULL;
		}
	}
	pthread_mutex_lock(&i->lock);
	if (i->size != size || memcmp(i->handle, handle, size)) {
		memcpy(i->handle, handle, size);
		i->size = size;
	}
	pthread_mutex_unlock(&i->lock);
	return i;
}

/* The root's handle comes with each connection: on another disk in the brick's place it is another. */
struct remote_inode *remote_inode_of(struct remote *r, struct inode *inode)
{
	struct remote_inode *i = inode_slot(inode, r->x);
	uint8_t handle[WIRE_HANDLE_MAX];
	uint32_t size;

	if (!gfid_equal(&inode->gfid, &gfid_root))
		return i;
	pthread_mutex_lock(&r->lock);
	size = r->root_size;
	memcpy(handle, r->root_handle, size);
	pthread_mutex_unlock(&r->lock);
	return remote_inode(r, inode, handle, size);
}

int remote_voucher(struct xlator *x, struct inode *inode, uint8_t voucher[VOUCHER_SIZE])
{
	struct remote *r = x->private;
	struct remote_inode *i = gfid_equal(&inode->gfid, &gfid_root) ? remote_inode_of(r, inode) : inode_slot(inode, x);
	int err = -ENODATA;

	if (!i)
		return err;
	pthread_mutex_lock(&i->lock);
	if (i->size >= VOUCHER_SIZE) {
		memcpy(voucher, i->handle + i->size - VOUCHER_SIZE, VOUCHER_SIZE);
		err = 0;
	}
	pthread_mutex_unlock(&i->lock);
	return err;
}

static void note_size(struct remote *r, struct inode *inode, uint64_t size, bool exact)
{
	struct remote_inode *i = S_ISREG(inode->type) ? remote_inode_of(r, inode) : NULL;

	if (!i)
		return;
	pthread_mutex_lock(&i->lock);
	if (exact || !i->end_known || size > i->end)
		i->end = size;
	i->end_known = true;
	pthread_mutex_unlock(&i->lock);
}

void remote_note_size(struct remote *r, int fop, const void *in, const void *out)
{
	const struct lookup_out *lookup = out;
	const struct create_out *create = out;
	const struct getattr_in *getattr = in;
	const struct write_in *write = in;
	const struct write_out *written = out;

	if (fop == FOP_lookup)
		note_size(r, lookup->inode, lookup->attr.size, true);
	else if (fop == FOP_create)
		note_size(r, create->inode, create->attr.size, true);
	else if (fop == FOP_getattr)
		note_size(r, getattr->file ? getattr->file->inode : getattr->inode,
			  ((const struct getattr_out *)out)->attr.size, true);
	else if (fop == FOP_write)
		note_size(r, write->file->inode, written->offset + written->written, write->flags & WRITE_APPEND);
}

bool remote_size(struct remote *r, struct inode *inode, uint64_t *size)
{
	struct remote_inode *i = remote_inode_of(r, inode);
	bool known;

	if (!i)
		return false;
	pthread_mutex_lock(&i->lock);
	known = i->end_known;
	*size = i->end;
	pthread_mutex_unlock(&i->lock);
	return known;
}

void remote_inode_free(struct remote_inode *i)
{
	held_free(i->held);
	pthread_mutex_destroy(&i->lock);
	free(i);
}

uint64_t remote_session(struct remote *r)
{
	uint64_t incarnation;

	pthread_mutex_lock(&r->lock);
	incarnation = r->recovering;
	pthread_mutex_unlock(&r->lock);
	return incarnation;
}

/* ---- files ---- */

int remote_file_add(struct remote *r, struct file *file, uint64_t number, uint64_t incarnation)
{
	struct remote_file *f = calloc(1, sizeof(*f));
	int err;

	if (!f)
		return -ENOMEM;
	f->file = file;
	f->number = number;
	f->incarnation = incarnation;
	err = file_slot_set(file, r->x, f);
	if (err) {
		free(f);
		return err;
	}
	pthread_mutex_lock(&r->lock);
	f->next = r->files;
	f->link = &r->files;
	if (f->next)
		f->next->link = &f->next;
	r->files = f;
	pthread_mutex_unlock(&r->lock);
	return 0;
}

void remote_file_remove(struct remote *r, struct remote_file *f)
{
	struct remote_inode *i = remote_inode_of(r, f->file->inode);

	pthread_mutex_lock(&r->lock);
	*f->link = f->next;
	if (f->next)
		f->next->link = f->link;
	pthread_mutex_unlock(&r->lock);
	if (i)
		held_drop_file(i, f->file);
	free(f);
}

static bool holds(struct remote *r, struct remote_file *f, uint64_t incarnation)
{
	bool yes;

	pthread_mutex_lock(&r->lock);
	yes = f->stale || f->incarnation == incarnation;
	pthread_mutex_unlock(&r->lock);
	return yes;
}

static int call(struct remote *r, struct channel *early, struct request *rq, int fop, const void *in, void *out)
{
	return early ? channel_call_early(early, rq, fop, in, out) : remote_call(r, rq, fop, in, out);
}

/* Opens it again by its handle; the answer's file object only brings the number. */
static int open_again(struct remote *r, struct channel *early, struct file *file, struct remote_file *got)
{
	bool directory = S_ISDIR(file->inode->type);
	struct open_in in = { file->inode, file->flags & ~(O_CREAT | O_EXCL | O_TRUNC) };
	struct opendir_in in_dir = { file->inode };
	union fop_out out = { 0 };
	struct remote_file *f;
	struct request rq;
	int err;

	request_init(&rq, r->x->graph, 0);
	rq.group_count = 0;
	err = call(r, early, &rq, directory ? FOP_opendir : FOP_open, directory ? (void *)&in_dir : &in, &out);
	request_finish(&rq);
	if (err)
		return err;
	_Static_assert(offsetof(struct open_out, file) == offsetof(struct opendir_out, file), "one way to get the file");
	f = file_slot(out.open.file, r->x);
	*got = *f;
	file_unref(out.open.file);
	return 0;
}

static bool passing(int err)
{
	return err == -ENOTCONN || err == -ECANCELED || err == -ETIMEDOUT || err == -ENOMEM;
}

static int reopen(struct remote *r, struct channel *early, struct file *file, uint64_t incarnation)
{
	struct remote_file *f = file_slot(file, r->x);
	struct remote_file got = { .incarnation = incarnation };
	char text[GFID_TEXT];
	int err;

	if (holds(r, f, incarnation))
		return 0;
	err = open_again(r, early, file, &got);
	if (passing(err))
		return err;
	pthread_mutex_lock(&r->lock);
	f->number = got.number;
	f->incarnation = got.incarnation;
	f->stale = err;
	r->stale_files += err != 0;
	pthread_mutex_unlock(&r->lock);
	if (!err)
		return 0;
	log_warning(r->x, NULL, "open file %s could not be opened again after the brick's restart: %s; it answers ESTALE",
		    gfid_text(&file->inode->gfid, text), error_text(err));
	event_up(r->x, &(struct event){ .kind = EVENT_STALE_FILE, .inode = file->inode });
	return 0;
}

int remote_file_reopen(struct remote *r, struct channel *early, struct file *file, uint64_t incarnation)
{
	int err;

	if (early) /* without the lock: who holds it may be waiting for us */
		return reopen(r, early, file, incarnation);
	err = task_lock(&r->reopening, NO_DEADLINE);
	if (err)
		return err;
	err = reopen(r, NULL, file, incarnation);
	task_unlock(&r->reopening);
	return err;
}

/* ---- recovery ---- */

/* One lock through this file that is not yet known in the session. It is taken through no other: its release gives the lock back, as it did in the
 * session before. */
static bool next_lost_lock(struct remote_inode *i, const struct file *file, uint64_t incarnation, struct lock *l)
{
	bool found = false;

	pthread_mutex_lock(&i->lock);
	for (struct held_lock *h = i->held; h && !found; h = h->next) {
		if (h->incarnation == incarnation || h->file != file)
			continue;
		*l = h->lock;
		found = true;
	}
	pthread_mutex_unlock(&i->lock);
	return found;
}

static void lock_lost(struct remote *r, struct file *file, const struct lock *l, int err)
{
	struct event e = { .kind = EVENT_LOCK_LOST, .inode = file->inode, .lock = *l };
	char text[GFID_TEXT];

	pthread_mutex_lock(&r->lock);
	r->lost_locks++;
	pthread_mutex_unlock(&r->lock);
	log_warning(r->x, NULL, "a lock on %s was lost: the brick did not grant it again: %s",
		    gfid_text(&file->inode->gfid, text), error_text(err));
	event_up(r->x, &e); /* before requests go on; the brick's own event may come long after */
}

static int reclaim(struct remote *r, struct channel *ch, struct file *file, const struct lock *l, uint64_t incarnation)
{
	struct setlk_in in = { file, *l };
	struct remote_inode *i = remote_inode_of(r, file->inode);
	struct setlk_out out = { 0 };
	struct lock gone = *l;
	struct request rq;
	int err;

	in.lock.reclaim = 1;
	request_init(&rq, r->x->graph, 0);
	rq.group_count = 0;
	rq.lock_owner = l->owner;
	err = channel_call_early(ch, &rq, FOP_setlk, &in, &out);
	request_finish(&rq);
	if (passing(err))
		return err;
	gone.type = F_UNLCK;
	if (err)
		lock_lost(r, file, l, err);
	return held_set(i, file, err ? &gone : l, incarnation);
}

static int recover_file(struct remote *r, struct channel *ch, struct file *file, uint64_t incarnation)
{
	struct remote_inode *i = remote_inode_of(r, file->inode);
	struct remote_file *f = file_slot(file, r->x);
	struct lock l;
	int err = remote_file_reopen(r, ch, file, incarnation);

	while (!err && i && next_lost_lock(i, file, incarnation, &l)) {
		if (!f->stale) {
			err = reclaim(r, ch, file, &l, incarnation);
			continue;
		}
		lock_lost(r, file, &l, -ESTALE);
		l.type = F_UNLCK;
		err = held_set(i, file, &l, incarnation);
	}
	return err;
}

/* A reference, unless the last one has just gone and the destructor is waiting for remote.lock. */
static bool still_used(struct file *file)
{
	unsigned refs = atomic_load(&file->refs);

	while (refs)
		if (atomic_compare_exchange_weak(&file->refs, &refs, refs + 1))
			return true;
	return false;
}

static struct file **open_files(struct remote *r, size_t *count)
{
	struct file **list;
	size_t n = 0;

	pthread_mutex_lock(&r->lock);
	for (struct remote_file *f = r->files; f; f = f->next)
		n++;
	list = calloc(n + 1, sizeof(*list));
	*count = 0;
	for (struct remote_file *f = r->files; f && list; f = f->next)
		if (still_used(f->file))
			list[(*count)++] = f->file;
	pthread_mutex_unlock(&r->lock);
	return list;
}

/* The one whose opening had no answer is first (see channel_call_early). */
static int recover_unsure(struct remote *r, struct channel *ch, uint64_t incarnation)
{
	struct file *file = ch->unsure.file;
	int err;

	if (!file)
		return 0;
	err = recover_file(r, ch, file, incarnation);
	if (err && ch->unsure.xid)
		return err;
	memset(&ch->unsure, 0, sizeof(ch->unsure)); /* it may have gone without a call */
	file_unref(file);
	return err;
}

bool remote_is_unsure(struct remote *r, const struct channel *besides)
{
	bool yes = false;

	for (unsigned i = 0; i < r->channels; i++) {
		const struct channel *ch = &r->channel[i];

		yes |= ch != besides && ch->unsure.xid && ch->unsure.incarnation == besides->incarnation;
	}
	return yes;
}

static void forget_unsure(struct remote *r)
{
	for (unsigned i = 0; i < r->channels; i++) {
		struct channel *ch = &r->channel[i];

		file_unref(ch->unsure.file);
		memset(&ch->unsure, 0, sizeof(ch->unsure));
	}
}

int remote_recover(struct remote *r, struct channel *ch)
{
	uint64_t incarnation = ch->incarnation;
	struct file **file;
	size_t count;
	int err;

	pthread_mutex_lock(&r->lock);
	r->recovering = incarnation; /* before the files are listed: see client_setlk */
	pthread_mutex_unlock(&r->lock);
	file = open_files(r, &count);
	err = file ? recover_unsure(r, ch, incarnation) : -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		if (!err) {
			err = recover_file(r, ch, file[i], incarnation);
			if (err && ch->unsure.xid)
				ch->unsure.file = file_ref(file[i]);
		}
		file_unref(file[i]);
	}
	free(file);
	if (!err)
		forget_unsure(r);
	if (!err && count)
		log_info(r->x, NULL, "the brick has a new session: %zu open files and their locks were brought into it", count);
	return err;
}
