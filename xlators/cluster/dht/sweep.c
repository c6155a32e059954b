/* SPDX-License-Identifier: Apache-2.0 */
/* Pointers that somebody was about to give a name, or has taken it from, and intents, of clients that died: now and then each client looks for some, and ends what
 * has stood there for long. Two who do it at once do no harm. */
#include "dht.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One directory at a time; what is in it is looked at again after a while. A living client needs some round trips for its work. */
enum { STALE_LOOKS = 3, SEEN_MAX = 256 };
enum { OWED_MAX = 256 };
#define LOOK_NS 10000000000u
#define END_NS	2000000000u

struct seen {
	char name[HIDDEN_NAME];
	bool still; /* at this look, too */
};
struct sweep {
	struct dht *d;
	int child;
	unsigned dir;
	bool records;	   /* of intents; nothing else */
	struct seen *seen; /* what stood there at the first look */
	unsigned count, looks;
};

struct owed {
	struct owed *next;
	struct intent it;
};

static bool stops(struct dht *d)
{
	bool yes;

	pthread_mutex_lock(&d->lock);
	yes = d->stopping;
	pthread_mutex_unlock(&d->lock);
	return yes;
}

/* False: it is over. */
static bool pause_for(struct dht *d, uint64_t ms)
{
	uint64_t until = clock_ns() + ms * 1000000;

	pthread_mutex_lock(&d->lock);
	while (!d->stopping && clock_ns() < until)
		if (task_cond_wait(&d->changed, &d->lock, until) == -ETIMEDOUT)
			break;
	pthread_mutex_unlock(&d->lock);
	return !stops(d);
}

static struct seen *was_seen(const struct sweep *s, const char *name)
{
	for (unsigned i = 0; i < s->count; i++)
		if (!strcmp(s->seen[i].name, name))
			return &s->seen[i];
	return NULL;
}

static bool is_record(const char *name)
{
	struct intent it;

	return !intent_parse(name, &it);
}

/* No subvolume has a record of it: its owner made this after others had ended it, or its removal was lost with the power of a brick, after the record had
 * gone at another. (A record that may have taken steps is on disk.) */
static bool is_of_no_intent(struct request *rq, struct dht *d, int child, const struct gfid *id)
{
	struct intent it;
	int err = knows_all(rq, d, child) ? -EIO : -ENOENT; /* it may be at one that this graph lacks */

	for (int i = 0; i < d->x->children && err == -ENOENT; i++)
		err = has_subvolume(d, (uint64_t)i) ? intent_find(rq, d, i, id, &it) : -ENOENT;
	return err == -ENOENT;
}

/* Just that object. Of directories only pointers, which are empty: what they lead to has another, or its name. */
static int remove_waiting(struct request *rq, struct dht *d, int child, struct inode *dir, const char *name, bool pointer)
{
	struct lookup_in look = { .loc = { .parent = dir, .name = name } };
	struct lookup_out found = { 0 };
	struct unlink_in in = { .loc = { .parent = dir, .name = name } };
	struct unlink_out out = { 0 };
	struct xlator *at = d->x->child[child];
	int err = lookup_on(rq, at, &look, &found);

	if (!err && S_ISDIR(found.attr.mode) && !pointer)
		err = -EISDIR;
	if (!err)
		err = place_say(rq, d,
				&(struct place){ .flags = pointer ? PLACE_POINTER : 0, .expected = { found.inode->gfid } });
	if (!err)
		err = S_ISDIR(found.attr.mode) ? rmdir_on(rq, at, (const struct rmdir_in *)&in, (struct rmdir_out *)&out)
					       : unlink_on(rq, at, &in, &out);
	place_say(rq, d, &(struct place){ 0 });
	fop_out_clear(FOP_lookup, &found);
	return err;
}

/* A file's pointer may have other names, or an anchor: it is ended as those are that have none. */
static int end_waiting(struct request *rq, struct dht *d, int child, struct inode *dir, const char *name, const struct gfid *id)
{
	cleanup_inode struct inode *pointer = NULL;
	struct aim aim;
	uint32_t nlink;
	int err;

	if (present_of(d) != all_of(d) || !is_of_no_intent(rq, d, child, id))
		return 1;
	err = pointer_look(rq, d, child, dir, name, &pointer, &nlink, &aim);
	if (!err && !aim.dir && (!is_stub(&aim) || MUTANT("fence-stubs"))) {
		err = away_fence(rq, d, child, dir, name, &aim);
		return err ? err : 1;
	}
	return !err || err == -EINVAL ? remove_waiting(rq, d, child, dir, name, !err) : err;
}

/* What leads to where nobody is must wait, and not the others for it. */
int work_end(struct request *rq, struct dht *d, int child, struct inode *dir, const char *name)
{
	cleanup_inode struct inode *pointer = NULL;
	struct gfid pgfid;
	struct aim aim;
	uint32_t nlink;
	struct intent it;
	int err;

	if (!intent_parse(name, &it))
		return intent_end(rq, d, child, name);
	err = work_parse(name, &pgfid);
	if (!err)
		err = pointer_look(rq, d, child, dir, name, &pointer, &nlink, &aim);
	if (!err && !gfid_equal(&pgfid, &aim.pgfid))
		err = -EINVAL;
	if (!err && !(present_of(d) >> aim.child & 1))
		err = -ENOTCONN;
	if (err)
		return err;
	switch (*name) {
	case 'n':
		return away_end_new(rq, d, child, &aim);
	case 'd':
		err = away_fence(rq, d, child, dir, name, &aim);
		return err ? err : 1;
	default:
		return away_end(rq, d, child, dir, name, &aim);
	}
}

static int end_one(struct request *rq, struct sweep *s, struct inode *dir, const char *name)
{
	struct gfid id;

	if (!kept_parse(name, &id) && !is_record(name))
		return kept_end(rq, s->d, s->child, dir, name);
	return waits_parse(name, &id) ? work_end(rq, s->d, s->child, dir, name)
				      : end_waiting(rq, s->d, s->child, dir, name, &id);
}

static void end_in_time(struct request *rq, struct sweep *s, struct inode *dir, const char *name)
{
	uint64_t deadline_ns = rq->deadline_ns;

	rq->deadline_ns = clock_ns() + (is_record(name) ? LOOK_NS : END_NS);
	atomic_fetch_add(&s->d->ended, !end_one(rq, s, dir, name));
	rq->deadline_ns = deadline_ns;
}

static bool to_be_ended(const char *name)
{
	struct gfid gfid;

	return !work_parse(name, &gfid) || !waits_parse(name, &gfid) || !kept_parse(name, &gfid) || is_record(name);
}

static void see(struct sweep *s, const char *name)
{
	struct seen *before = was_seen(s, name);

	if (!s->looks && !s->seen)
		s->seen = calloc(SEEN_MAX, sizeof(*s->seen));
	if (!s->looks && s->seen && s->count < SEEN_MAX)
		snprintf(s->seen[s->count++].name, HIDDEN_NAME, "%s", name);
	else if (s->looks && before)
		before->still = true;
}

/* The first look takes down what is there; the last ends what has been there since. */
static void meet(struct request *rq, void *arg, struct inode *dir, const struct dirents *list)
{
	struct sweep *s = arg;

	for (uint32_t i = 0; i < list->count && !stops(s->d); i++) {
		const char *name = list->entry[i].name;

		if (!to_be_ended(name) || (s->records && !is_record(name)))
			continue;
		if (MUTANT("sweep-young") || (s->looks == STALE_LOOKS - 1 && was_seen(s, name)))
			end_in_time(rq, s, dir, name);
		else
			see(s, name);
	}
}

static void keep_still_there(struct sweep *s)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < s->count; i++)
		if (s->seen[i].still) {
			s->seen[kept] = s->seen[i];
			s->seen[kept++].still = false;
		}
	s->count = kept;
}

static int read_all(struct request *rq, struct xlator *child, struct inode *dir, struct readdir_in in, meet_entries *met,
		    void *arg)
{
	bool end = false;
	int err = 0;

	while (!err && !end) {
		struct readdir_out out = { 0 };

		err = readdir_on(rq, child, &in, &out);
		end = err || out.entries.end || !out.entries.count;
		if (!err && out.entries.count) {
			in.offset = out.entries.entry[out.entries.count - 1].next_offset;
			met(rq, arg, dir, &out.entries);
		}
		fop_out_clear(FOP_readdir, &out);
	}
	return err;
}

int directory_list(struct request *rq, struct dht *d, int child, struct inode *dir, uint32_t flags, meet_entries *met,
		   void *arg)
{
	struct opendir_in in = { .inode = dir };
	struct opendir_out out = { 0 };
	struct release_out released = { 0 };
	uint64_t deadline_ns = rq->deadline_ns;
	int err = opendir_on(rq, d->x->child[child], &in, &out);

	if (err == -ESTALE)
		hidden_forget(d, child);
	if (err)
		return err;
	err = read_all(rq, d->x->child[child], dir, (struct readdir_in){ .file = out.file, .size = 64 << 10, .flags = flags },
		       met, arg);
	rq->deadline_ns = clock_ns() + END_NS;
	release_on(rq, d->x->child[child], &(struct release_in){ .file = out.file }, &released);
	rq->deadline_ns = deadline_ns;
	file_unref(out.file);
	return err;
}

int work_list(struct request *rq, struct dht *d, int child, unsigned number, meet_entries *met, void *arg)
{
	cleanup_inode struct inode *dir = NULL;
	int err = place_say_newest(rq, d);

	if (!err)
		err = work_dir(rq, d, child, number, false, &dir);
	return err ? err : directory_list(rq, d, child, dir, 0, met, arg);
}

int away_list(struct request *rq, struct dht *d, int child, unsigned number, uint32_t flags, meet_entries *met, void *arg)
{
	cleanup_inode struct inode *dir = NULL;
	struct gfid gfid = { { (uint8_t)number } };
	int err = place_say_newest(rq, d);

	if (!err)
		err = away_dir(rq, d, child, &gfid, false, &dir);
	return err ? err : directory_list(rq, d, child, dir, flags, met, arg);
}

/* Names of copies are marked there, by who may have been slow, and whose intent is not there any more: nobody else asks for them. */
static void sweep_marks(struct request *rq, struct sweep *s)
{
	cleanup_inode struct inode *dir = NULL;

	if (!work_dir(rq, s->d, s->child, s->dir, false, &dir))
		marks_sweep(rq, s->d, s->child, dir);
}

static int look_as_root(struct sweep *s)
{
	struct request rq;
	int err;

	request_init(&rq, s->d->x->graph, 0);
	rq.group_count = 0;
	rq.deadline_ns = clock_ns() + LOOK_NS;
	err = layout_check(&rq, s->d, false); /* by another volume's file it would end what is not ended there */
	if (!err)
		err = work_list(&rq, s->d, s->child, s->dir, meet, s);
	if (!err && !s->looks)
		sweep_marks(&rq, s);
	request_finish(&rq);
	return err;
}

/* One directory of one subvolume. */
static void sweep_dir(struct sweep *s)
{
	s->count = s->looks = 0;
	while (!stops(s->d) && !look_as_root(s) && s->count && ++s->looks < STALE_LOOKS)
		if (!pause_for(s->d, s->d->sweep_ms))
			return;
}

/* ---- all directories of all subvolumes at once, for who waits for that ---- */

static void sweeps_free(struct sweep *all, size_t count)
{
	for (size_t i = 0; all && i < count; i++)
		free(all[i].seen);
	free(all);
}

/* NULL: memory is short. */
static struct sweep *sweeps_make(struct dht *d, bool records, size_t *count)
{
	struct sweep *all = calloc((size_t)d->x->children * WORK_DIRS, sizeof(*all));

	*count = all ? (size_t)d->x->children * WORK_DIRS : 0;
	for (size_t i = 0; i < *count; i++)
		all[i] = (struct sweep){ .d = d, .child = (int)(i / WORK_DIRS), .dir = i % WORK_DIRS, .records = records };
	return all;
}

/* What can't be read now is looked at the next time. */
static void sweeps_look(struct sweep *all, size_t count, unsigned looks)
{
	for (size_t i = 0; i < count; i++) {
		struct sweep *s = &all[i];

		s->looks = looks;
		if ((!looks || s->count) && has_subvolume(s->d, (uint64_t)s->child) && !look_as_root(s) && looks &&
		    looks < STALE_LOOKS - 1)
			keep_still_there(s);
	}
}

int sweep_all(struct dht *d, bool (*pause)(void *arg, uint64_t ms), void *arg)
{
	size_t count;
	struct sweep *all = sweeps_make(d, false, &count);
	bool goes_on = all;

	for (unsigned looks = 0; looks < STALE_LOOKS && goes_on; looks++) {
		sweeps_look(all, count, looks);
		goes_on = looks + 1 == STALE_LOOKS || pause(arg, d->sweep_ms);
	}
	sweeps_free(all, count);
	return all ? 0 : -ENOMEM;
}

static bool any_is_left(const struct sweep *all, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (all[i].count)
			return true;
	return false;
}

/* Those of living clients are gone soon, so there is more than one look. */
int sweep_records(struct dht *d, bool (*pause)(void *arg, uint64_t ms), void *arg)
{
	enum { STEP_MS = 200 };
	uint64_t step = d->sweep_ms < STEP_MS ? d->sweep_ms : STEP_MS, waited = 0;
	size_t count;
	struct sweep *all = sweeps_make(d, true, &count);
	bool goes_on = all;

	if (all)
		sweeps_look(all, count, 0);
	while (goes_on && any_is_left(all, count) && waited < (STALE_LOOKS - 1) * d->sweep_ms) {
		goes_on = pause(arg, step);
		waited += step;
		sweeps_look(all, count, 1);
	}
	if (goes_on && any_is_left(all, count))
		sweeps_look(all, count, STALE_LOOKS - 1);
	sweeps_free(all, count);
	return all ? 0 : -ENOMEM;
}

/* ---- marks that were left over ---- */

/* NULL: there is none. The caller's, and the lock is held. */
static struct owed *take_oldest(struct dht *d)
{
	struct owed *first = d->owed;

	if (first) {
		d->owed = first->next;
		d->owed_count--;
	}
	return first;
}

static void owe(struct dht *d, struct owed *more)
{
	struct owed **end, *dropped = NULL;

	pthread_mutex_lock(&d->lock);
	if (d->owed_count == OWED_MAX)
		dropped = take_oldest(d);
	for (end = &d->owed; *end; end = &(*end)->next)
		;
	more->next = NULL;
	*end = more;
	d->owed_count++;
	pthread_mutex_unlock(&d->lock);
	free(dropped);
}

void marks_owe(struct dht *d, const struct intent *it)
{
	struct owed *more = malloc(sizeof(*more));

	if (!more)
		return;
	more->it = *it;
	owe(d, more);
}

static int drop_as_root(struct dht *d, const struct intent *it)
{
	struct request rq;
	int err;

	request_init(&rq, d->x->graph, 0);
	rq.group_count = 0;
	rq.deadline_ns = clock_ns() + END_NS;
	err = layout_check(&rq, d, false);
	if (!err)
		err = marks_drop_now(&rq, d, it);
	request_finish(&rq);
	return err;
}

/* One in each turn: they are few. */
static void sweep_owed(struct dht *d)
{
	struct owed *first;

	pthread_mutex_lock(&d->lock);
	first = take_oldest(d);
	pthread_mutex_unlock(&d->lock);
	if (first && drop_as_root(d, &first->it))
		owe(d, first);
	else
		free(first);
}

static void forget_owed(struct dht *d)
{
	struct owed *first;

	while ((first = take_oldest(d)))
		free(first);
}

/* ---- the task ---- */

static void sweep_task(void *arg)
{
	struct dht *d = arg;
	struct sweep s = { .d = d, .seen = malloc(SEEN_MAX * sizeof(struct seen)) };
	unsigned turn = 0;

	pthread_mutex_lock(&d->lock);
	d->sweeper = task_self();
	pthread_mutex_unlock(&d->lock);
	while (s.seen && pause_for(d, d->sweep_ms)) {
		s.child = (int)(turn % (unsigned)d->x->children);
		s.dir = turn / (unsigned)d->x->children % WORK_DIRS;
		turn++;
		sweep_owed(d);
		if (present_of(d) >> s.child & 1)
			sweep_dir(&s);
	}
	free(s.seen);
	pthread_mutex_lock(&d->lock);
	d->sweeping = false;
	d->sweeper = NULL;
	task_cond_broadcast(&d->changed);
	pthread_mutex_unlock(&d->lock);
}

int sweep_start(struct dht *d)
{
	int err;

	d->stopping = false;
	d->sweeping = true;
	err = task_spawn(NULL, sweep_task, d);
	d->sweeping = !err;
	return err;
}

static void wait_for_end(void *arg)
{
	struct dht *d = arg;

	pthread_mutex_lock(&d->lock);
	d->stopping = true;
	task_cond_broadcast(&d->changed);
	if (d->sweeper)
		task_cancel(d->sweeper); /* what is down keeps nobody waiting */
	while (d->sweeping)
		task_cond_wait(&d->changed, &d->lock, NO_DEADLINE);
	forget_owed(d);
	pthread_mutex_unlock(&d->lock);
}

void sweep_stop(struct dht *d)
{
	if (task_self())
		wait_for_end(d);
	else
		task_call(wait_for_end, d);
}
