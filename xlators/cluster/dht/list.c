/* SPDX-License-Identifier: Apache-2.0 */
/* Listing a directory that is at several subvolumes: one after the other, those that names come to behind those that they leave.
 *
 * A subvolume's cookies may take all the bits of an offset, so there is no room for its number beside them. Offsets are numbers of places
 * that an open root has been at: (subvolume, cookie), told from each other by a table. So who goes back by seekdir(3) comes to where he
 * was, whatever was made or removed meanwhile. Memory is bounded (`log-size`): of the older half of the places one in 64 is kept then, or
 * fewer, and who goes back to one that is not is brought there by counting entries from the one before it.
 *
 * While nothing changes the n-th entry is followed by place n, in whatever order places are come to: for a reader may have them from a
 * listing that another open root has read (mount/fuse keeps such for a while).
 *
 * A directory other than the root begins in one piece, and its offsets are that subvolume's own cookies. So the places of one that has grown wide have numbers that a
 * cookie is not likely to be (of 2^63, so many as such a directory has entries), and any other offset is a cookie of the home. What was told by cookies is remembered
 * from the first batch on, for the directory may grow wide before its end. */
#include "dht.h"
#include "told.h"

#include <xxhash.h>

struct spot {
	uint64_t number, cookie;
	uint32_t child;
	bool ends; /* nothing came after it in that subvolume */
};
struct wide {
	pthread_mutex_t lock; /* guards all of it */
	struct told told;
	bool told_all;	/* nothing was told that is not in it; else it has what may come again, as far as that was known */
	uint64_t begin; /* numbers begin there */
	/* Of one that was whole: where its listing has come to, by which subvolume's cookie; it has the file that was opened then. */
	bool whole, whole_ended, opened; /* opened: here, as one that is at several */
	int whole_at;
	uint64_t whole_next;
	int *order; /* passes, in which subvolumes are read: the subvolume, and AGAIN for each time that it was read before */
	size_t ordered, order_room;
	struct layout *seen; /* the layouts that it has gone by since it began, the last is the newest */
	size_t seen_count, seen_room;
	bool begun; /* something was told */
	struct file *at[SUBVOLUMES_MAX];
	struct spot *place; /* by rising number; the first is the start of the first subvolume */
	size_t count, room, most;
	size_t sorted; /* so many of them are by rising number: all, but while numbers are given */
	uint64_t next_number, stride;
	uint32_t *table; /* indexes of places by subvolume and cookie; twice `room`, 0: none (nobody looks for the first) */
};
enum { STRIDE = 64, ROOM = 128 };
enum { AGAIN = SUBVOLUMES_MAX };
#define NUMBERS_BEGIN (1ull << 62 | 0x2c4dULL << 32)
#define NUMBERS_COUNT (1ull << 32)
#define CLOSE_NS      5000000000u

void wide_free(struct wide *w)
{
	for (int i = 0; i < SUBVOLUMES_MAX; i++)
		file_unref(w->at[i]);
	pthread_mutex_destroy(&w->lock);
	free(w->place);
	free(w->table);
	free(w->order);
	free(w->seen);
	told_free(&w->told);
	free(w);
}

static struct wide *wide_create(const struct inode *dir)
{
	struct wide *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	pthread_mutex_init(&w->lock, NULL);
	w->begin = is_root(dir) ? 0 : NUMBERS_BEGIN;
	w->told.seed = gfid_hash(&dir->gfid);
	w->told_all = true;
	return w;
}

/* With the lock held. Who reads a directory that is whole needs none. */
static int begin_log(struct dht *d, struct wide *w)
{
	if (w->place)
		return 0;
	w->place = calloc(ROOM, sizeof(*w->place));
	w->table = calloc(2 * ROOM, sizeof(*w->table));
	if (!w->place || !w->table) {
		free(w->place);
		free(w->table);
		w->place = NULL;
		w->table = NULL;
		return -ENOMEM;
	}
	w->most = (size_t)d->log_size;
	w->stride = STRIDE;
	w->room = ROOM;
	w->count = w->sorted = 1;
	w->next_number = w->begin + 1;
	w->place[0] = (struct spot){ .number = w->begin, .child = (uint32_t)w->order[0] };
	return 0;
}

/* ---- passes ----
 *
 * A name that is there all the time must be met by some pass. While names are moved it stands where they come from, and then where they go to: whoever reads the
 * one, and when that has ended the other, meets it. So when a listing finds another layout than it has gone by, passes of all subvolumes are put to its end in
 * that order, and what was told is left out there. (Of the layouts before it, and what was moved then, nothing need be known. And none are put there if the last one
 * was that of a transition which has just ended: its own passes do.) */

static int put_last(struct wide *w, int pass)
{
	size_t room = w->order_room ? 2 * w->order_room : 16;
	int *more = w->ordered < w->order_room ? w->order : realloc(w->order, room * sizeof(*more));

	if (!more)
		return -ENOMEM;
	w->order_room = w->ordered < w->order_room ? w->order_room : room;
	w->order = more;
	w->order[w->ordered++] = pass;
	return 0;
}

/* How often it is in the order already. In the first order each is once. */
static int put_child(const struct dht *d, struct wide *w, uint32_t child)
{
	int times = 0;

	for (size_t i = 0; i < w->ordered; i++)
		times += w->order[i] % AGAIN == (int)child;
	if (!has_subvolume(d, child) || (times && !w->begun))
		return 0;
	return put_last(w, (int)child + AGAIN * times);
}

static int put_in_order(const struct dht *d, struct wide *w, const struct layout *l)
{
	int err = 0;

	for (int sinks = 0; sinks < 2; sinks++)
		for (unsigned i = 0; i < l->count && !err; i++)
			if ((l->moving && !layout_is_source(l, &l->member[i])) == (sinks != 0))
				err = put_child(d, w, l->member[i].id);
	return err;
}

/* First where all were when it was whole; what has come since begins at the end. */
static int put_first(const struct dht *d, struct wide *w, const struct layout *l)
{
	int err = 0;

	w->ordered = 0;
	if (w->whole)
		err = put_child(d, w, (uint32_t)w->whole_at);
	else if (w->begin && !(l->moving && !layout_find(l, l->home)->weight))
		err = put_child(d, w, l->home);
	return err ? err : put_in_order(d, w, l);
}

static int note_seen(struct wide *w, const struct layout *l)
{
	size_t room = w->seen_room ? 2 * w->seen_room : 1;
	struct layout *more = w->seen_count < w->seen_room ? w->seen : realloc(w->seen, room * sizeof(*more));

	if (!more)
		return -ENOMEM;
	w->seen_room = w->seen_count < w->seen_room ? w->seen_room : room;
	w->seen = more;
	w->seen[w->seen_count++] = *l;
	return 0;
}

/* With the lock held. -ELAYOUT: it has gone by a later one than is known in this graph, which has taken another's place. */
static int go_by(const struct dht *d, struct wide *w, const struct layout *l)
{
	const struct layout *last = w->seen_count ? &w->seen[w->seen_count - 1] : NULL;
	bool ends = last && last->moving && l->version == last->version + 1;
	int err;

	if (last && last->version == l->version)
		return 0;
	if (w->begun && last && last->version > l->version)
		return -ELAYOUT;
	if (!w->begun)
		w->seen_count = 0;
	err = w->begun ? ends ? 0 : put_in_order(d, w, l) : put_first(d, w, l);
	return err ? err : note_seen(w, l);
}

/* By some layout of those that it has gone by another one has the name, or had it: it may have been told there, or stood there when this one was read. */
static bool wanders(const struct wide *w, const struct inode *dir, const char *name, int child)
{
	uint64_t key = layout_key(&dir->gfid, name);

	for (size_t i = 0; i < w->seen_count; i++)
		if ((int)layout_owner(&w->seen[i], key)->id != child ||
		    (w->seen[i].moving && (int)layout_owner_next(&w->seen[i], key)->id != child))
			return true;
	return false;
}

/* ---- the log of places ---- */

/* Where it is in the table, or could be. */
static uint32_t *cell(const struct wide *w, uint32_t child, uint64_t cookie)
{
	size_t size = 2 * w->room, i;

	for (i = XXH3_64bits_withSeed(&cookie, sizeof(cookie), child) % size; w->table[i]; i = (i + 1) % size) {
		const struct spot *p = &w->place[w->table[i]];

		if (p->child == child && p->cookie == cookie)
			break;
	}
	return &w->table[i];
}

static void fill_table(struct wide *w)
{
	memset(w->table, 0, 2 * w->room * sizeof(*w->table));
	for (size_t i = 1; i < w->count; i++)
		*cell(w, w->place[i].child, w->place[i].cookie) = (uint32_t)i;
}

static int by_number(const void *a, const void *b)
{
	const struct spot *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

static void sort_places(struct wide *w)
{
	if (w->sorted < w->count) {
		qsort(w->place, w->count, sizeof(*w->place), by_number);
		fill_table(w);
	}
	w->sorted = w->count;
}

static size_t keep_each(struct wide *w, uint64_t stride, bool count_only)
{
	size_t half = w->count / 2, kept = 0;

	for (size_t i = 0; i < w->count; i++) {
		if (i < half && w->place[i].number % stride)
			continue;
		if (!count_only)
			w->place[kept] = w->place[i];
		kept++;
	}
	return kept;
}

static void thin(struct wide *w)
{
	sort_places(w);
	while (keep_each(w, w->stride, true) > w->most / 4 * 3)
		w->stride *= 2;
	w->count = w->sorted = keep_each(w, w->stride, false);
	fill_table(w);
}

static int grow(struct wide *w)
{
	size_t room = 2 * w->room;
	struct spot *place = realloc(w->place, room * sizeof(*place));
	uint32_t *table = place ? realloc(w->table, 2 * room * sizeof(*table)) : NULL;

	w->place = place ? place : w->place;
	w->table = table ? table : w->table;
	if (!table)
		return -ENOMEM;
	w->room = room;
	fill_table(w);
	return 0;
}

/* The index of the last place with that number or a lower one. */
static size_t index_of(const struct wide *w, uint64_t number)
{
	size_t low = 0, high = w->sorted;

	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (w->place[middle].number <= number)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* A number for a place that has none: what follows the one before it, if no other place has that. */
static uint64_t new_number(struct wide *w, uint64_t before)
{
	uint64_t number = before + 1;

	if (number < w->next_number && w->place[index_of(w, number)].number != number)
		return number;
	return w->next_number++;
}

/* The place that comes after the one with the number `before`. Its number is what it was when it was come to first. */
static int number_of(struct wide *w, struct spot p, uint64_t before, uint64_t *number)
{
	uint32_t *at = cell(w, p.child, p.cookie);
	int err = 0;

	if (*at) {
		w->place[*at].ends = p.ends;
		*number = w->place[*at].number;
		return 0;
	}
	if (before != w->place[w->count - 1].number)
		sort_places(w);
	if (w->count >= w->most)
		thin(w);
	else if (w->count == w->room)
		err = grow(w);
	if (err)
		return err;
	*number = p.number = new_number(w, before);
	if (w->sorted == w->count && w->place[w->count - 1].number < p.number)
		w->sorted++;
	*cell(w, p.child, p.cookie) = (uint32_t)w->count;
	w->place[w->count++] = p;
	return 0;
}

/* With the lock held. The last place that is known with that number or a lower one, and how many entries come between. */
static struct spot find(struct wide *w, uint64_t number, uint64_t *skip)
{
	struct spot p = w->place[index_of(w, number)];

	*skip = number - p.number;
	return p;
}

/* ---- names that were told, and may be moved meanwhile ---- */

/* It may be told there, and then at another subvolume: names are moved, or will be when a subvolume that the layout lacks gets its part. */
static bool goes_on(const struct layout *l, uint64_t key, uint32_t child)
{
	return l->moving && layout_owner(l, key)->id == child && layout_owner_next(l, key)->id != child;
}

static bool may_come_again(const struct spread *s, const struct inode *dir, const char *name, uint32_t child)
{
	uint64_t key;

	if (!s->grows && !s->shrinks && !s->weighs && !s->layout.moving)
		return false;
	key = layout_key(&dir->gfid, name);
	return goes_on(&s->layout, key, child) || (s->grows && goes_on(&s->grown, key, child)) ||
	       (s->shrinks && goes_on(&s->shrunk, key, child)) || (s->weighs && goes_on(&s->weighed, key, child));
}

/* In a pass of one that was read before only what that may have lacked then. */
static bool is_due(struct wide *w, const struct inode *dir, const char *name, int pass)
{
	bool due;

	pthread_mutex_lock(&w->lock);
	due = (!w->whole && w->seen_count == 1 &&
	       !w->seen[0].moving) || /* each name has been at one subvolume since it began */
	      (!told_elsewhere(&w->told, name, pass) && (pass < AGAIN || w->told_all || wanders(w, dir, name, pass % AGAIN)));
	pthread_mutex_unlock(&w->lock);
	return due;
}

/* With the lock held. All are noted until they are many; then those that may come again. */
static int note_told(struct dht *d, struct wide *w, const struct inode *dir, const struct dirent_plus *e, int pass)
{
	const struct spread *s = spread_in(d, dir);
	int child = pass % AGAIN;

	w->told_all &= w->told.count < (size_t)d->log_size;
	if (!w->told_all && !may_come_again(s, dir, e->name, (uint32_t)child) && !wanders(w, dir, e->name, child))
		return 0;
	return told_note(&w->told, e->name, e->next_offset, pass);
}

/* With the lock held. */
static void forget_after(struct wide *w, uint64_t number)
{
	w->told_all &= !told_forget_after(&w->told, number);
}

/* ---- open directories ---- */

/* A file that an older graph has opened has none yet. NULL: no memory. */
static struct wide *wide_of(struct dht *d, struct file *file)
{
	struct wide *w = file_slot(file, d->x);

	if (w)
		return w;
	w = wide_create(file->inode);
	if (!w || !file_slot_set(file, d->x, w))
		return w;
	wide_free(w);
	return file_slot(file, d->x);
}

static struct file *known_at(struct wide *w, struct file *whole, int child)
{
	struct file *file;

	pthread_mutex_lock(&w->lock);
	file = w->whole && w->whole_at == child ? whole : w->at[child];
	if (file)
		file_ref(file);
	pthread_mutex_unlock(&w->lock);
	return file;
}

static void let_go(struct request *rq, struct xlator *child, struct file *file)
{
	struct release_in in = { .file = file };
	struct release_out out = { 0 };

	if (!file)
		return;
	release_on(rq, child, &in, &out);
	file_unref(file);
}

int wide_at(struct request *rq, struct dht *d, struct file *file, int child, struct file **at)
{
	struct wide *w = wide_of(d, file);
	struct opendir_in in = { .inode = file->inode };
	struct opendir_out out = { 0 };
	bool ours;
	int err;

	if (!w)
		return -ENOMEM;
	*at = known_at(w, file, child);
	if (*at)
		return 0;
	err = shard_reach(rq, d, file->inode, child);
	if (!err)
		err = opendir_on(rq, d->x->child[child], &in, &out);
	if (err)
		return err;
	pthread_mutex_lock(&w->lock);
	ours = !w->at[child];
	if (ours)
		w->at[child] = out.file;
	*at = file_ref(w->at[child]);
	pthread_mutex_unlock(&w->lock);
	if (!ours)
		let_go(rq, d->x->child[child], out.file);
	return 0;
}

/* The listing was given up before it was opened there. */
static void close_late(struct xlator *x, int child, int err, const void *result)
{
	const struct opendir_out *out = result;
	struct release_in in = { .file = err ? NULL : out->file };
	struct release_out done = { 0 };
	struct request rq;

	if (!in.file)
		return;
	request_init(&rq, x->graph, 0);
	rq.group_count = 0;
	rq.deadline_ns = clock_ns() + CLOSE_NS;
	task_shield(true); /* it was cancelled */
	release_on(&rq, x->child[child], &in, &done);
	task_shield(false);
	request_finish(&rq);
}

/* Where it can't be reached it is opened when the listing comes there. */
static int open_present(struct request *rq, struct dht *d, struct inode *dir, struct wide *w)
{
	struct opendir_in in = { .inode = dir };
	uint64_t mask = members_present_in(d, dir);
	struct fanout *f = fanout_start(rq, d->x, FOP_opendir, &in, mask);
	int refused = 0, err = -ENOTCONN;

	if (!f)
		return -ENOMEM;
	fanout_wait(f, d->x->children, rq->deadline_ns);
	for (int i = 0; i < d->x->children; i++) {
		struct opendir_out out = { 0 };
		int one = mask >> i & 1 ? fanout_take(f, i, &out) : -ENOTCONN;

		w->at[i] = out.file;
		err = one && err ? one : 0;
		refused = one && !unreached(one) ? one : refused;
	}
	fanout_cancel(f);
	fanout_leave(f, close_late);
	return refused ? refused : fanout_error(rq, err);
}

int wide_opendir(struct request *rq, struct dht *d, struct inode *dir, struct opendir_out *out)
{
	struct wide *w = wide_create(dir);
	int err = w ? open_present(rq, d, dir, w) : -ENOMEM;

	if (!err) {
		w->opened = true;
		out->file = file_create(dir, O_RDONLY | O_DIRECTORY);
		err = out->file ? file_slot_set(out->file, d->x, w) : -ENOMEM;
	}
	if (!err)
		return 0;
	file_unref(out->file);
	out->file = NULL;
	for (int i = 0; w && i < d->x->children; i++) {
		let_go(rq, d->x->child[i], w->at[i]);
		w->at[i] = NULL;
	}
	if (w)
		wide_free(w);
	return err;
}

/* What was opened at subvolumes that are others now is opened anew when the listing comes there; its places stay what they are. */
static void close_gone(const struct dht *d, const struct xlator *old, struct wide *w)
{
	struct file *gone[SUBVOLUMES_MAX] = { NULL };

	pthread_mutex_lock(&w->lock);
	for (int i = 0; i < SUBVOLUMES_MAX; i++) {
		if (i < d->x->children && i < old->children && d->x->child[i] == old->child[i])
			continue;
		gone[i] = w->at[i];
		w->at[i] = NULL;
	}
	pthread_mutex_unlock(&w->lock);
	for (int i = 0; i < SUBVOLUMES_MAX; i++)
		file_unref(gone[i]);
}

void wide_inherit(const struct xlator *x, const struct xlator *old, void *slot)
{
	close_gone(x->private, old, slot);
}

int wide_release(struct request *rq, struct dht *d, struct file *file)
{
	struct wide *w = file_slot(file, d->x);
	struct release_in in = { .file = file };

	for (int i = 0; w && i < d->x->children; i++) {
		struct file *at;

		pthread_mutex_lock(&w->lock);
		at = w->at[i];
		w->at[i] = NULL;
		pthread_mutex_unlock(&w->lock);
		let_go(rq, d->x->child[i], at);
	}
	if (!is_root(file->inode) && !(w && w->opened)) /* it is that of one subvolume */
		release_on(rq, d->x->child[w && w->whole ? w->whole_at : shards_of(d, file->inode)->home], &in,
			   &(struct release_out){ 0 });
	return 0;
}

/* ---- reading ---- */

static void drop_first(struct dirents *list, uint64_t count)
{
	if (!count)
		return;
	for (uint64_t i = 0; i < count; i++) {
		free(list->entry[i].name);
		inode_unref(list->entry[i].inode);
	}
	list->count -= (uint32_t)count;
	memmove(list->entry, list->entry + count, list->count * sizeof(*list->entry));
}

/* What stands where its name does not belong nobody could look up: "lost+found" of each brick's own file system, copies made by hand. */
static void drop_strays(struct dht *d, struct wide *w, const struct inode *dir, struct dirents *list, int pass)
{
	int child = pass % AGAIN;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < list->count; i++) {
		struct dirent_plus *e = &list->entry[i];

		bool hidden = is_root(dir) && !strcmp(e->name, DHT_HIDDEN);
		bool belongs = is_at_home(d, dir, e->name, child) && !hidden;

		if (belongs && is_due(w, dir, e->name, pass)) {
			list->entry[kept++] = *e;
			continue;
		}
		if (!belongs && !hidden && !atomic_exchange(&d->strays, true))
			log_warning(
				d->x, NULL,
				"\"%s\" is in the root, or a wide directory, of %s, where it does not belong, and is not shown; there may be more",
				e->name, d->x->child[child]->name);
		free(e->name);
		inode_unref(e->inode);
	}
	list->count = kept;
}

/* The next one that has a part of the directory, after that; -1: none. */
static int part_after(struct wide *w, uint32_t child)
{
	int next = -1;

	pthread_mutex_lock(&w->lock);
	for (size_t i = 0; i + 1 < w->ordered && next < 0; i++)
		if (w->order[i] == (int)child)
			next = w->order[i + 1];
	pthread_mutex_unlock(&w->lock);
	return next;
}

/* After the last entry of a subvolume comes the first of the next. */
static int renumber(struct dht *d, struct wide *w, const struct inode *dir, struct dirents *list, uint32_t child,
		    uint64_t before)
{
	const struct spread *s = spread_in(d, dir);
	bool last = part_after(w, child) < 0 && !s->lacks;
	int err = 0;

	pthread_mutex_lock(&w->lock);
	/* a graph that has taken another's place numbers what follows as that one would have */
	w->next_number = before >= w->next_number ? before + 1 : w->next_number;
	for (uint32_t i = 0; i < list->count && !err; i++) {
		struct dirent_plus *e = &list->entry[i];
		struct spot p = { 0, e->next_offset, child, list->end && !last && i + 1 == list->count };

		err = note_place(d, e->inode, (int)child % AGAIN, false);
		if (!err)
			err = number_of(w, p, before, &e->next_offset);
		if (!err)
			err = note_told(d, w, dir, e, (int)child);
		before = e->next_offset;
	}
	w->begun = true;
	sort_places(w);
	pthread_mutex_unlock(&w->lock);
	list->end &= last;
	return err;
}

/* One batch of one subvolume, without what is to be skipped of it; the place moves on. */
static int read_at(struct request *rq, struct dht *d, struct wide *w, const struct readdir_in *in, struct spot *p,
		   uint64_t *skip, struct readdir_out *out)
{
	cleanup_file struct file *at = NULL;
	struct readdir_in one = { .offset = p->cookie, .size = in->size, .flags = in->flags };
	struct dirents *list = &out->entries;
	int child = (int)p->child % AGAIN, err = wide_at(rq, d, in->file, child, &at);
	uint64_t drop;

	one.file = at;
	if (!err)
		err = readdir_on(rq, d->x->child[child], &one, out);
	if (err)
		return unreached(err) ? -EIO : err;
	list->end |= !list->count;
	if (list->count)
		p->cookie = list->entry[list->count - 1].next_offset;
	drop_strays(d, w, in->file->inode, list, (int)p->child);
	away_entries(list);
	drop = *skip < list->count ? *skip : list->count;
	drop_first(list, drop);
	*skip -= drop;
	return 0;
}

static void clear(struct readdir_out *out)
{
	fop_out_clear(FOP_readdir, out);
	memset(out, 0, sizeof(*out));
}

static bool is_number(const struct wide *w, uint64_t offset)
{
	return !w->begin || offset - w->begin < NUMBERS_COUNT;
}

/* With the lock held. Where the listing goes on. What was told after that may be told again; if that is where it had come to when the directory was whole, or is on
 * from there, nothing was. */
static void come_to(struct wide *w, uint64_t offset, int home, struct spot *p, uint64_t *skip)
{
	int whole_at = w->whole ? w->whole_at : home;

	bool on = w->whole && offset == w->whole_next;

	*skip = 0;
	if (!offset && w->begin)
		offset = w->begin;
	else if (!is_number(w, offset)) {
		if (!on)
			forget_after(w, 0);
		*p = (struct spot){ .cookie = offset, .child = (uint32_t)whole_at, .ends = on && w->whole_ended };
		return;
	}
	forget_after(w, offset == w->begin ? 0 : offset);
	w->told_all |= offset == w->begin;
	*p = find(w, offset, skip);
}

/* *l: the layout by which it goes. */
static int begin_batch(struct dht *d, struct wide *w, const struct readdir_in *in, const struct layout **l, struct spot *p,
		       uint64_t *skip, uint64_t *before)
{
	const struct spread *s = spread_in(d, in->file->inode);
	int err;

	*l = &s->layout;
	pthread_mutex_lock(&w->lock);
	err = go_by(d, w, &s->layout);
	w->told_all &= w->begun || w->whole || !in->offset; /* else it was begun in another graph, or somebody seeks */
	if (!err)
		err = begin_log(d, w);
	if (!err && !w->begun)
		w->place[0].child = (uint32_t)w->order[0];
	if (!err) {
		come_to(w, in->offset, (int)s->layout.home, p, skip);
		p->ends |= !layout_find(&s->layout, p->child % AGAIN); /* it has no name of it any more */
		*before = !in->offset ? w->begin : is_number(w, in->offset) ? in->offset : w->next_number - 1;
	}
	pthread_mutex_unlock(&w->lock);
	return err;
}

/* To the first entry of the next part; false: there is none. */
static bool go_on(struct wide *w, const struct layout *l, struct spot *p)
{
	int child = part_after(w, p->child);

	while (child >= 0 && !layout_find(l, (uint32_t)child % AGAIN))
		child = part_after(w, (uint32_t)child);

	*p = (struct spot){ .child = (uint32_t)child };
	return child >= 0;
}

int wide_readdir(struct request *rq, struct dht *d, const struct readdir_in *in, struct readdir_out *out)
{
	struct wide *w = wide_of(d, in->file);
	const struct layout *l;
	uint64_t skip, before;
	struct spot p;
	bool more = true;
	int err = w ? begin_batch(d, w, in, &l, &p, &skip, &before) : -ENOMEM;

	if (err)
		return err;
	if (p.ends)
		more = go_on(w, l, &p);
	while (more) {
		err = read_at(rq, d, w, in, &p, &skip, out);
		if (err || out->entries.count)
			break;
		more = !out->entries.end || go_on(w, l, &p);
		clear(out);
	}
	if (!err && !out->entries.count && spread_in(d, in->file->inode)->lacks) /* that would be a shorter list */
		return subvolume_lacking(d);
	if (!err && !out->entries.count) {
		out->entries.end = true;
		return 0;
	}
	if (!err)
		err = renumber(d, w, in->file->inode, &out->entries, p.child, before);
	if (err)
		clear(out);
	return err;
}

/* ---- of a directory that is whole ---- */

/* Who goes elsewhere is told again, if names go from here, what he was told before. */
void whole_listed(struct dht *d, const struct readdir_in *in, const struct dirents *list, int child)
{
	struct wide *w = d->x->children > 1 ? wide_of(d, in->file) : NULL;

	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	if (in->offset != w->whole_next)
		forget_after(w, 0);
	w->told_all = !in->offset || (w->told_all && in->offset == w->whole_next);
	w->whole = true;
	w->whole_at = child;
	w->whole_next = list->count ? list->entry[list->count - 1].next_offset : in->offset;
	w->whole_ended = list->end || !list->count;
	for (uint32_t i = 0; i < list->count; i++)
		w->told_all &= !told_note(&w->told, list->entry[i].name, w->begin, child); /* without memory it is told twice */
	pthread_mutex_unlock(&w->lock);
}
