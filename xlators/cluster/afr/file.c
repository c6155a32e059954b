/* SPDX-License-Identifier: Apache-2.0 */
/* Open files: one of ours stands for one at each member, opened there when it is first needed. Listings. */
#include <fcntl.h>

#include "afr.h"

/* ---- the slot ---- */

static struct opened *opened_new(void)
{
	struct opened *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	pthread_mutex_init(&o->lock, NULL);
	o->lister = -1;
	return o;
}

/* A file of a graph that this one has taken the place of has none: it is opened at the members when it is used. */
struct opened *opened_of(struct afr *a, struct file *f)
{
	struct opened *o = file_slot(f, a->x);

	if (o)
		return o;
	o = opened_new();
	if (!o || !file_slot_set(f, a->x, o))
		return o;
	opened_free(o);
	return file_slot(f, a->x);
}

void opened_free(struct opened *o)
{
	for (int i = 0; i < REPLICAS_MAX; i++)
		file_unref(o->at[i]);
	free(o->seen);
	free(o->before);
	pthread_mutex_destroy(&o->lock);
	free(o);
}

struct file *opened_create(struct afr *a, struct inode *inode, uint32_t flags, struct file *const at[REPLICAS_MAX])
{
	struct file *f = file_create(inode, flags);
	struct opened *o = opened_new();

	if (f && o) {
		memcpy(o->at, at, sizeof(o->at));
		if (!file_slot_set(f, a->x, o))
			return f;
		opened_free(o);
	} else {
		if (o)
			opened_free(o);
		for (int i = 0; i < REPLICAS_MAX; i++)
			file_unref(at[i]);
	}
	file_unref(f);
	return NULL;
}

/* ---- at the members ---- */

/* Permission was given when the file was opened first. */
static int open_at(struct afr *a, struct file *f, int member, struct file **got)
{
	struct open_in in = { f->inode, f->flags & ~(uint32_t)(O_CREAT | O_EXCL | O_TRUNC) };
	struct opendir_in in_dir = { f->inode };
	struct opendir_out out_dir = { 0 };
	struct open_out out = { 0 };
	struct request rq;
	int err = object_resolve(a, f->inode, member);

	if (err)
		return err;
	own_request(a, &rq);
	if (S_ISDIR(f->inode->type))
		err = opendir_on(&rq, a->x->child[member], &in_dir, &out_dir);
	else
		err = open_on(&rq, a->x->child[member], &in, &out);
	request_finish(&rq);
	*got = S_ISDIR(f->inode->type) ? out_dir.file : out.file;
	return err;
}

unsigned opened_unlike(struct opened *o)
{
	unsigned mask;

	pthread_mutex_lock(&o->lock);
	mask = o->unlike;
	pthread_mutex_unlock(&o->lock);
	return mask;
}

void opened_set_unlike(struct opened *o, int member, bool is)
{
	pthread_mutex_lock(&o->lock);
	o->unlike = is ? o->unlike | 1u << member : o->unlike & ~(1u << member);
	pthread_mutex_unlock(&o->lock);
}

static struct file *file_known(struct opened *o, int member)
{
	struct file *f;

	pthread_mutex_lock(&o->lock);
	f = o->at[member] ? file_ref(o->at[member]) : NULL;
	pthread_mutex_unlock(&o->lock);
	return f;
}

/* Who closes the file closes what he finds: so what comes later is closed here, with the locks that it has been brought. */
static void close_late(struct afr *a, int member, struct file *at)
{
	struct release_in in = { at };
	struct release_out out = { 0 };
	struct request rq;

	own_request(a, &rq);
	release_on(&rq, a->x->child[member], &in, &out);
	request_finish(&rq);
}

static int open_anew(struct afr *a, struct file *f, int member, struct file **at)
{
	struct opened *o = opened_of(a, f);
	int err = open_at(a, f, member, at);
	bool closed;

	if (err)
		return err;
	pthread_mutex_lock(&o->lock);
	o->being_opened |= 1u << member;
	pthread_mutex_unlock(&o->lock);
	err = locks_bring(a, f, *at, member);
	pthread_mutex_lock(&o->lock);
	closed = o->closed;
	if (err != -ESTALE && !closed)
		o->at[member] = file_ref(*at);
	o->being_opened &= ~(1u << member);
	pthread_mutex_unlock(&o->lock);
	if (closed) { /* a branch of an earlier call, for which nobody waits any more */
		close_late(a, member, *at);
		return -EBADF;
	}
	if (!err && opened_unlike(o) >> member & 1) /* a lock was given back between: it may have been brought before that */
		err = locks_bring(a, f, *at, member);
	return err;
}

/* With `opening` held, so that *at can't get another file meanwhile. */
static int known_alike(struct afr *a, struct file *f, int member, struct file **at)
{
	struct opened *o = opened_of(a, f);
	int err = 0;

	*at = file_known(o, member);
	if (*at && opened_unlike(o) >> member & 1)
		err = locks_bring(a, f, *at, member);
	if (err == -ESTALE) { /* the member has been started anew, and does not know it by that file */
		file_forget(a, f, member, *at);
		file_unref(*at);
		*at = NULL;
		err = 0;
	}
	return err;
}

void file_alike(struct afr *a, struct file *f, int member)
{
	struct opened *o = opened_of(a, f);
	struct file *at;

	task_shield(true);
	task_lock(&o->opening, NO_DEADLINE);
	known_alike(a, f, member, &at);
	file_unref(at);
	task_unlock(&o->opening);
	task_shield(false);
}

int file_at(struct afr *a, struct file *f, int member, struct file **at)
{
	struct opened *o = opened_of(a, f);
	int err = 0;

	if (!o)
		return -EBADF;
	*at = file_known(o, member);
	if (*at && !(opened_unlike(o) >> member & 1))
		return 0;
	file_unref(*at);
	task_shield(true);
	task_lock(&o->opening, NO_DEADLINE);
	err = known_alike(a, f, member, at);
	if (!*at && !err)
		err = open_anew(a, f, member, at);
	if (err) {
		file_unref(*at);
		*at = NULL;
	}
	task_unlock(&o->opening);
	task_shield(false);
	return err;
}

void file_forget(struct afr *a, struct file *f, int member, const struct file *its)
{
	struct opened *o = opened_of(a, f);
	struct file *old = NULL;

	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	if (o->at[member] == its) {
		old = o->at[member];
		o->at[member] = NULL;
	}
	pthread_mutex_unlock(&o->lock);
	file_unref(old);
}

/* ---- open ---- */

static int truncate_opened(struct request *rq, struct xlator *x, struct file *f)
{
	bool writable = (f->flags & O_ACCMODE) != O_RDONLY;
	struct setattr_in in = { .inode = f->inode, .file = writable ? f : NULL, .set = { .valid = SET_SIZE | SET_KILL_PRIV } };
	struct setattr_out out = { 0 };
	int err = afr_change(rq, x, FOP_setattr, &in, &out);

	fop_out_clear(FOP_setattr, &out);
	return err;
}

/* To write, all members are needed, so they are asked at once. Who can't open it now is tried again when something is written. */
static int open_at_all(struct request *rq, struct xlator *x, const struct open_in *in, struct file *at[REPLICAS_MAX])
{
	struct afr *a = afr_of(x);
	int err = -EIO, opened = 0;
	struct fan *f;
	struct view v;

	err = afr_view(a, afr_deadline(a, rq), &v);
	if (err)
		return err;
	f = fan_call(a, rq, view_mask(&v, MEMBER_BACK), FOP_open, in, NULL);
	if (!f)
		return -ENOMEM;
	for (int i = 0; i < v.members; i++) {
		struct member_result *r = fan_result(f, i);

		if (!r->asked)
			continue;
		if (!r->status) {
			at[i] = r->out.open.file;
			r->out.open.file = NULL;
			opened += v.state[i] == MEMBER_IN;
		} else if (v.state[i] == MEMBER_IN) {
			err = r->status;
		}
	}
	fan_free(f);
	return opened ? 0 : err ? err : -EVIEW;
}

static void release_all(struct afr *a, struct request *rq, struct file *const at[REPLICAS_MAX])
{
	for (int i = 0; i < a->members; i++) {
		struct release_in in = { at[i] };
		struct release_out out = { 0 };

		if (at[i])
			release_on(rq, a->x->child[i], &in, &out);
	}
}

void files_close(struct afr *a, struct request *rq, struct file *const at[REPLICAS_MAX])
{
	release_all(a, rq, at);
	for (int i = 0; i < a->members; i++)
		file_unref(at[i]);
}

int afr_open(struct request *rq, struct xlator *x, const struct open_in *in, struct open_out *out)
{
	struct file *at[REPLICAS_MAX] = { NULL };
	struct afr *a = afr_of(x);
	struct open_in plain = { in->inode, in->flags & ~(uint32_t)(O_TRUNC | O_CREAT | O_EXCL) };
	struct open_out got = { 0 };
	int member, err = -EVIEW;

	if ((in->flags & O_ACCMODE) != O_RDONLY || in->flags & O_TRUNC)
		err = open_at_all(rq, x, &plain, at);
	if (afr_elsewhere(err)) { /* such as where a recovery is just beginning */
		err = afr_read_at(rq, x, FOP_open, &plain, &got, &member);
		if (!err && !at[member])
			at[member] = got.file;
		else
			file_unref(got.file);
	}
	if (err) { /* members that are BACK may have opened it */
		files_close(a, rq, at);
		return err == -ENAMELESS ? -ESTALE : err;
	}
	out->file = opened_create(a, in->inode, plain.flags, at);
	if (!out->file)
		return -ENOMEM;
	err = in->flags & O_TRUNC ? truncate_opened(rq, x, out->file) : 0;
	if (err) {
		struct release_in all = { out->file }; /* those, too, that truncating has opened */
		struct release_out nothing = { 0 };

		afr_release(rq, x, &all, &nothing);
		fop_out_clear(FOP_open, out);
	}
	return err;
}

int afr_opendir(struct request *rq, struct xlator *x, const struct opendir_in *in, struct opendir_out *out)
{
	struct file *at[REPLICAS_MAX] = { NULL };
	struct opendir_out got = { 0 };
	int member, err = afr_read_at(rq, x, FOP_opendir, in, &got, &member);

	if (err)
		return err;
	at[member] = got.file;
	out->file = opened_create(afr_of(x), in->inode, O_RDONLY | O_DIRECTORY, at);
	if (!out->file)
		return -ENOMEM;
	opened_of(afr_of(x), out->file)->lister = member;
	return 0;
}

int afr_release(struct request *rq, struct xlator *x, const struct release_in *in, struct release_out *out)
{
	struct opened *o = opened_of(afr_of(x), in->file);
	struct file *at[REPLICAS_MAX];

	(void)out;
	if (!o)
		return 0;
	pthread_mutex_lock(&o->lock);
	o->closed = true;
	for (int i = 0; i < REPLICAS_MAX; i++) /* a branch of an earlier call may still be under way, and forget one of them */
		at[i] = o->at[i] ? file_ref(o->at[i]) : NULL;
	pthread_mutex_unlock(&o->lock);
	locks_end(afr_of(x), in->file, o);
	files_close(afr_of(x), rq, at);
	return 0;
}

/* ---- fsync ---- */

/* What a member that is BACK can't find is pending there, and made durable when it is healed. */
static bool sync_counts(const struct view *v, int member, int status)
{
	if (!status || status == -ENAMELESS)
		return false;
	return v->state[member] == MEMBER_IN || (status != -ESTALE && status != -ENOENT);
}

/* The kernel tells once what a disk could not write, and then syncs without it. */
static bool is_of_the_disk(int err)
{
	return err == -EIO || err == -ENOSPC || err == -EDQUOT || err == -EROFS;
}

void file_unsynced(struct afr *a, struct file *file, bool yes)
{
	struct object *o = object_of(a, file->inode);

	if (o)
		atomic_store(&o->unsynced, yes);
}

/* Durable at every member that takes part, in one and the same view: also at those that are BACK, for they become IN as they are. One of which the disk has
 * lost something does not come to have it in that view. */
int afr_fsync(struct request *rq, struct xlator *x, const struct fsync_in *in, struct fsync_out *out)
{
	struct afr *a = afr_of(x);
	uint64_t deadline = afr_deadline(a, rq), lost = 0, told = 0; /* epochs */
	int err;

	(void)out;
	do {
		struct replica_stamp stamp = { 0 };
		unsigned bad = 0;
		struct view v;
		struct fan *f;

		err = afr_view(a, deadline, &v);
		if (err)
			return err;
		stamp.epoch = v.epoch;
		stamp.flags = REPLICA_READ;
		f = fan_call(a, rq, view_mask(&v, MUTANT("sync-only-in") ? MEMBER_IN : MEMBER_BACK), FOP_fsync, in, &stamp);
		if (!f)
			return -ENOMEM;
		for (int i = 0; i < v.members; i++) {
			int status = fan_result(f, i)->asked ? fan_result(f, i)->status : 0;

			if (!sync_counts(&v, i, status))
				continue;
			err = status;
			bad |= status == -EVIEW ? 0 : 1u << i;
			if (v.state[i] == MEMBER_IN && is_of_the_disk(status) && !MUTANT("forget-lost"))
				lost = v.epoch;
		}
		fan_free(f);
		if (!err && v.epoch == lost)
			err = -EIO;
		if (!err || v.epoch == lost)
			file_unsynced(a, in->file, err);
		if (!err)
			return 0;
		afr_view_stale(a, v.epoch);
		if (bad && (bad & view_mask(&v, MEMBER_IN)) == view_mask(&v, MEMBER_IN))
			return err;
		if (bad && told != v.epoch)
			afr_suspect(a, &v, bad, err);
		if (v.epoch == lost) {
			told = v.epoch; /* it goes on saying so */
			afr_leave_view(a, v.epoch, deadline);
		}
		err = task_sleep_ms(SOON_MS);
	} while (!err && clock_ns() < deadline);
	return err ? err : -EIO;
}

int afr_sync_written(struct request *rq, struct xlator *x, struct file *file)
{
	struct fsync_in in = { .file = file, .datasync = (file->flags & O_SYNC) != O_SYNC };
	struct fsync_out out;

	return file->flags & O_DSYNC ? afr_fsync(rq, x, &in, &out) : 0;
}

int afr_sync_doubtful(struct request *rq, struct xlator *x, struct file *file)
{
	struct object *o = object_of(afr_of(x), file->inode);

	return o && atomic_load(&o->unsynced) && !MUTANT("write-unlooked") ? afr_sync_written(rq, x, file) : 0;
}

/* ---- listings ---- */

/* Offsets are the cookies of the member that lists. Those of others differ: where another must go on, it begins anew and leaves out what was
 * returned before. */

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static bool seen_before(const struct opened *o, uint64_t hash)
{
	return bsearch(&hash, o->before, o->since, sizeof(hash), by_value);
}

/* What was returned until now, to be looked for. */
static int sort_seen(struct opened *o)
{
	uint64_t *hash = o->seen_count ? realloc(o->before, o->seen_count * sizeof(*hash)) : o->before;

	if (!hash && o->seen_count)
		return -ENOMEM;
	o->before = hash;
	o->since = o->seen_count;
	for (uint64_t i = 0; i < o->since; i++)
		hash[i] = o->seen[i].hash;
	if (o->since)
		qsort(hash, o->since, sizeof(*hash), by_value);
	return 0;
}

static int remember(struct opened *o, const struct dirent_plus *e)
{
	if (o->seen_count == o->seen_room) {
		uint64_t room = o->seen_room ? 2 * o->seen_room : 256;
		struct seen_entry *grown = realloc(o->seen, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		o->seen = grown;
		o->seen_room = room;
	}
	o->seen[o->seen_count++] = (struct seen_entry){ e->next_offset, name_hash(e->name) };
	return 0;
}

/* Leaves out what an earlier member gave. */
static int leave_out_seen(struct opened *o, struct dirents *d)
{
	uint32_t left = 0;
	int err = 0;

	for (uint32_t i = 0; i < d->count; i++) {
		struct dirent_plus *e = &d->entry[i];

		if (err || (o->since && seen_before(o, name_hash(e->name)))) {
			free(e->name);
			inode_unref(e->inode);
			continue;
		}
		err = remember(o, e);
		d->entry[left++] = *e;
	}
	d->count = left;
	return err;
}

/* The listing goes on after the entry that came with this offset. Normally it was the last one. What is not among those returned is a place that
 * the lister told before somebody went back: it knows it still, and if it fails there, its successor begins at the beginning. */
static void seek_to(struct opened *o, uint64_t offset)
{
	uint64_t n = offset ? o->seen_count : 0;

	while (n && o->seen[n - 1].cookie != offset)
		n--;
	if (!offset)
		o->since = 0;
	else if (n && n < o->since)
		o->lister = -1;
	o->seen_count = n ? n : o->since;
	o->cookie = n && n == o->since ? 0 : offset;
}

/* What was read before the tokens came is read again. It keeps the inodes meanwhile, with which the tokens would go. */
static int list_believed(struct afr *a, struct request *rq, int member, const struct readdir_in *in, struct readdir_out *out)
{
	int err = one_call(a, rq, member, FOP_readdir, in, out, NULL);
	struct readdir_out first = *out;

	if (err || !rq->moment || !(in->flags & READDIR_PLUS) || !afr_take_listed(a, in->file->inode, &first.entries))
		return err;
	memset(out, 0, sizeof(*out));
	rq->moment = afr_moment();
	err = one_call(a, rq, member, FOP_readdir, in, out, NULL);
	fop_out_clear(FOP_readdir, &first);
	return err;
}

static void drop_entries(struct readdir_out *out)
{
	fop_out_clear(FOP_readdir, out);
	memset(out, 0, sizeof(*out));
}

/* What is under way in an entry itself is no reason to wait: it comes without attributes, and whoever wants them looks it up. */
static void drop_unsettled(struct afr *a, struct dirents *d, uint64_t before)
{
	for (uint32_t i = 0; i < d->count; i++) {
		struct dirent_plus *e = &d->entry[i];
		struct object *o = e->inode ? inode_slot(e->inode, a->x) : NULL;

		if (!o || !spans_any(o, before))
			continue;
		inode_unref(e->inode);
		e->inode = NULL;
	}
}

/* As any read: see struct look. */
static int list_settled(struct afr *a, struct request *rq, int lister, const struct readdir_in *in, uint64_t deadline,
			struct readdir_out *out)
{
	struct look seen;
	int err;

	do {
		seen = look_at(a, in->file->inode, SPAN_ALL, 0, UINT64_MAX);
		err = list_believed(a, rq, lister, in, out);
		if (err)
			return err;
		err = look_holds(a, &seen, deadline);
		if (err)
			drop_entries(out);
		else
			drop_unsettled(a, &out->entries, seen.undone);
	} while (err == -EAGAIN && clock_ns() < deadline);
	return err == -EAGAIN ? -EIO : err;
}

static int list_once(struct afr *a, struct request *rq, const struct readdir_in *in, struct opened *o, uint64_t deadline,
		     struct readdir_out *out)
{
	struct readdir_in one = *in;
	uint64_t cookie = o->cookie;
	int err;

	do {
		bool end;

		one.offset = cookie;
		err = list_settled(a, rq, o->lister, &one, deadline, out);
		if (err)
			return err;
		end = out->entries.end || !out->entries.count;
		if (out->entries.count)
			cookie = out->entries.entry[out->entries.count - 1].next_offset;
		err = leave_out_seen(o, &out->entries);
		if (err || out->entries.count || end)
			break;
		drop_entries(out); /* all of it was returned before */
	} while (true);
	if (err)
		drop_entries(out);
	else
		o->cookie = cookie;
	return err;
}

static int choose_lister(struct afr *a, const struct view *v, struct opened *o, unsigned tried)
{
	int member = afr_reader(a, v, NULL, false, tried), err;

	if (member < 0)
		return -EAGAIN;
	err = sort_seen(o);
	if (err)
		return err;
	o->lister = member;
	o->cookie = 0;
	return 0;
}

static int list(struct afr *a, struct request *rq, const struct readdir_in *in, struct opened *o, struct readdir_out *out)
{
	uint64_t deadline = afr_deadline(a, rq), began = clock_ns();
	unsigned tried = 0, lost = 0;
	bool unproven = false;
	struct view v;
	int err;

	seek_to(o, in->offset);
	for (;;) {
		err = afr_view(a, deadline, &v);
		if (err)
			return err;
		if (o->lister < 0)
			err = choose_lister(a, &v, o, tried);
		if (!err)
			err = list_once(a, rq, in, o, deadline, out);
		if (err != -EVIEW && err != -ENOTCONN && err != -ETIMEDOUT && err != -EIO && err != -ESTALE && err != -EAGAIN &&
		    err != -ERECOVERING)
			return err;
		if (clock_ns() >= deadline)
			return err == -EAGAIN || err == -EVIEW || err == -ERECOVERING ? -EIO : err;
		if (err == -EVIEW)
			afr_view_stale(a, v.epoch);
		if (err == -ERECOVERING)
			afr_unproven(a, o->lister);
		unproven |= err == -ERECOVERING;
		lost |= o->lister >= 0 && (err == -ENOTCONN || err == -ETIMEDOUT) ? 1u << o->lister : 0;
		if (err == -EAGAIN && unproven && lost)
			afr_unread(a, &v, lost, began);
		if (err == -EAGAIN) {
			unproven = false;
			lost = 0;
		}
		tried = o->lister >= 0 && err != -EAGAIN ? tried | 1u << o->lister : 0;
		o->lister = -1;
		task_sleep_ms(SOON_MS);
	}
}

int afr_readdir(struct request *rq, struct xlator *x, const struct readdir_in *in, struct readdir_out *out)
{
	struct opened *o = opened_of(afr_of(x), in->file);
	int err;

	if (!o)
		return -EBADF;
	err = task_lock(&o->listing, NO_DEADLINE);
	if (err)
		return err;
	err = list(afr_of(x), rq, in, o, out);
	task_unlock(&o->listing);
	return err;
}
