/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are moved to another subvolume while they are in use. Where one was it answers EMOVED; its stub says where it is, and by which name it can be found
 * there as long as somebody has the stub open. Who had it open opens it there, as root, for his rights were looked at when he opened it first. */
#include "dht.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* In the slot of an open file: where it was opened, and then where anew. All of it stays as long as the file does: others may be using it. */
struct followed {
	int child;	 /* -1: nobody knows it by that any more */
	bool assumed;	 /* a graph that had no such slot has opened it: so it should be there */
	struct file *at; /* a reference; NULL: the file itself */
	struct followed *before;
};

/* As root, of whatever is meant. Not 0: no memory. */
static int own_request(struct request *own, struct dht *d, const struct request *rq)
{
	request_init(own, d->x->graph, 0);
	own->group_count = 0;
	own->deadline_ns = rq && rq->deadline_ns ? rq->deadline_ns : clock_ns() + 10000000000u;
	return place_say(own, d, &(struct place){ 0 });
}

/* ---- where a file is ---- */

static int find_kept(struct request *rq, struct dht *d, const struct pointer *p, struct inode *inode)
{
	cleanup_inode struct inode *dir = NULL, *found = NULL;
	char name[HIDDEN_NAME];
	int err = work_dir(rq, d, (int)p->subvolume, work_of(&p->mover), false, &dir);

	if (!err)
		err = hidden_find(rq, d, (int)p->subvolume, dir, kept_name(&p->mover, name), &found);
	if (err)
		return err == -ENOENT ? -ESTALE : err;
	return found == inode ? 0 : -ESTALE;
}

static int follow_one(struct request *rq, struct dht *d, struct inode *inode)
{
	struct pointer p;
	int child, err = subvolume_of(rq, d, inode, &child);

	if (!err)
		err = stub_read(rq, d, child, inode, &p);
	if (err) /* it is not moved any more: that was undone, or the copy has become the file */
		return err == -ENODATA ? 0 : err == -ENOENT ? -ESTALE : err;
	if (gfid_is_null(&p.mover)) { /* a copy that has not become the file yet */
		place_moved(d, inode, (int)p.subvolume);
		return -EAGAIN;
	}
	err = find_kept(rq, d, &p, inode);
	if (!err)
		place_moved(d, inode, (int)p.subvolume);
	return err;
}

static struct inode *named_by(const struct field *f, const void *in)
{
	const void *at = (const char *)in + f->offset;
	struct inode *inode = NULL;

	if (f->kind == FIELD_INODE)
		inode = *(struct inode *const *)at;
	else if (f->kind == FIELD_FILE && *(struct file *const *)at)
		inode = (*(struct file *const *)at)->inode;
	return inode && !S_ISDIR(inode->type) ? inode : NULL;
}

int follow_moved(struct request *rq, struct dht *d, enum fop fop, const void *in, int err)
{
	struct request own;
	bool files = false;
	int result = own_request(&own, d, rq);

	for (const struct field *f = fop_info[fop].in; f->name && !result; f++) {
		struct inode *inode = named_by(f, in);

		files |= inode != NULL;
		if (inode)
			result = follow_one(&own, d, inode);
	}
	request_finish(&own);
	if (!result && !files) {
		log_error(d->x, NULL,
			  "%s: refused by the brick's layout (%d): this client knows less of layouts than the volume uses",
			  fop_info[fop].name, -err);
		return -EIO;
	}
	return result;
}

static int answer_at(struct request *rq, struct dht *d, struct inode *inode, int child)
{
	struct getattr_in in = { .inode = inode };
	struct getattr_out out = { 0 };

	return getattr_on(rq, d->x->child[child], &in, &out);
}

/* What is down is not asked: those who list many names would wait for each. */
int place_now(struct dht *d, struct inode *inode, int known, int child)
{
	struct request own;
	int err = own_request(&own, d, NULL), there;

	if (!err)
		err = present_of(d) >> known & 1 ? answer_at(&own, d, inode, known) : -ENOTCONN;
	there = !err ? answer_at(&own, d, inode, child) : 0;
	request_finish(&own);
	return err ? child : there ? known : -EEXIST;
}

/* ---- open files ---- */

static struct followed *followed_new(int child, struct file *at, struct followed *before)
{
	struct followed *f = malloc(sizeof(*f));

	if (f)
		*f = (struct followed){ .child = child, .at = at, .before = before };
	return f;
}

static void note(struct dht *d, struct file *file, int child, bool assumed)
{
	struct followed *f = file && S_ISREG(file->inode->type) ? followed_new(child, NULL, NULL) : NULL;

	if (!f)
		return;
	f->assumed = assumed;
	if (file_slot_set(file, d->x, f))
		free(f);
}

void note_opened(struct dht *d, struct file *file, int child)
{
	note(d, file, child, false);
}

void followed_free(void *slot)
{
	struct followed *f = slot, *next;

	for (; f; f = next) {
		next = f->before;
		file_unref(f->at);
		free(f);
	}
}

/* A replica set opens what it does not know; a brick knows it by the client that has opened it, which another graph may share. */
static bool is_known_at(const struct xlator *x, const struct xlator *old, int child)
{
	return child >= 0 && child < x->children && child < old->children &&
	       (x->child[child] == old->child[child] || x->child[child]->children);
}

void followed_inherit(const struct xlator *x, const struct xlator *old, void *slot)
{
	struct dht *before = old->private;

	pthread_mutex_lock(&before->lock);
	for (struct followed *f = slot; f; f = f->before)
		if (!is_known_at(x, old, f->child))
			f->child = -1;
	pthread_mutex_unlock(&before->lock);
}

/* It was moved between the graph that has opened it and this one. */
bool files_were_elsewhere(struct dht *d, enum fop fop, const void *in)
{
	bool any = false;

	for (const struct field *f = fop_info[fop].in; f->name; f++) {
		struct file *file = f->kind == FIELD_FILE ? *(struct file *const *)((const char *)in + f->offset) : NULL;
		struct followed *first = file && S_ISREG(file->inode->type) ? file_slot(file, d->x) : NULL;

		if (!first)
			continue;
		pthread_mutex_lock(&d->lock);
		if (first->assumed)
			first->child = -1;
		first->assumed = false;
		any |= first->child < 0; /* or another request has found that out just now */
		pthread_mutex_unlock(&d->lock);
	}
	return any;
}

/* The newest is behind the first, which the slot has. */
static struct followed *newest(struct dht *d, struct followed *first)
{
	struct followed *f;

	pthread_mutex_lock(&d->lock);
	f = first->before ? first->before : first;
	pthread_mutex_unlock(&d->lock);
	return f;
}

static void let_go(struct request *rq, struct dht *d, int child, struct file *file)
{
	struct release_in in = { .file = file };
	struct release_out out = { 0 };

	release_on(rq, d->x->child[child], &in, &out);
	file_unref(file);
}

static int open_anew(struct dht *d, const struct request *rq, struct file *file, int child, struct file **at)
{
	struct open_in in = { .inode = file->inode, .flags = file->flags & ~(uint32_t)(O_CREAT | O_EXCL | O_TRUNC) };
	struct open_out out = { 0 };
	struct request own;
	int err = own_request(&own, d, rq);

	if (!err)
		err = open_on(&own, d->x->child[child], &in, &out);
	request_finish(&own);
	*at = out.file;
	return err;
}

static int follow_file(struct request *rq, struct dht *d, struct followed *first, struct file *file, int child,
		       struct file **at)
{
	struct followed *f;
	int err = open_anew(d, rq, file, child, at);

	if (err)
		return err;
	f = followed_new(child, *at, NULL);
	if (!f) {
		let_go(rq, d, child, *at);
		return -ENOMEM;
	}
	pthread_mutex_lock(&d->lock);
	if (!first->before || first->before->child != child) {
		f->before = first->before;
		first->before = f;
		f = NULL;
	} else {
		*at = first->before->at; /* another was faster */
	}
	pthread_mutex_unlock(&d->lock);
	if (f)
		let_go(rq, d, child, f->at);
	free(f);
	return 0;
}

/* *at: what that subvolume knows the file by. Who closes a file loses his locks of it, also those that he has by another open file: so that is told where the file
 * is now. -EXDEV: it can't be. */
static int file_at(struct request *rq, struct dht *d, enum fop fop, struct file *file, int child, struct file **at)
{
	struct followed *first = file_slot(file, d->x), *f;
	int err;

	*at = file;
	if (!first) { /* one that had no subvolumes has opened it; or it is used in an older graph still */
		note(d, file, child, true);
		return 0;
	}
	f = newest(d, first);
	if (f->child == child) {
		*at = f->at ? f->at : file;
		return 0;
	}
	err = follow_file(rq, d, first, file, child, at);
	return err && fop == FOP_flush ? -EXDEV : err;
}

int files_at(struct request *rq, struct dht *d, enum fop fop, const void **in, void *room, int child)
{
	int err = 0;

	for (const struct field *f = fop_info[fop].in; f->name && !err; f++) {
		struct file *file = f->kind == FIELD_FILE ? *(struct file *const *)((const char *)*in + f->offset) : NULL, *at;

		if (!file || !S_ISREG(file->inode->type))
			continue;
		err = file_at(rq, d, fop, file, child, &at);
		if (err || at == file)
			continue;
		if (*in != room)
			memcpy(room, *in, fop_info[fop].in_size);
		*in = room;
		*(struct file **)((char *)room + f->offset) = at;
	}
	return err;
}

int follow_release(struct request *rq, struct dht *d, struct file *file)
{
	struct release_in in = { .file = file };
	struct release_out out = { 0 };
	struct followed *first = file_slot(file, d->x);
	int err = place_say_newest(rq, d);

	if (err)
		return err;
	for (struct followed *f = newest(d, first); f && f->at; f = f->before)
		if (f->child >= 0)
			release_on(rq, d->x->child[f->child], &(struct release_in){ .file = f->at }, &out);
	return first->child < 0 ? 0 : release_on(rq, d->x->child[first->child], &in, &out);
}
