/* SPDX-License-Identifier: Apache-2.0 */
/* Listing the root: one subvolume after the other.
 *
 * A subvolume's cookies may take all the bits of an offset, so there is no room for its number beside them. Offsets are numbers of places
 * that an open root has been at: (subvolume, cookie), told from each other by a table. So who goes back by seekdir(3) comes to where he
 * was, whatever was made or removed meanwhile. Memory is bounded (`log-size`): of the older half of the places one in 64 is kept then, or
 * fewer, and who goes back to one that is not is brought there by counting entries from the one before it.
 *
 * While nothing changes the n-th entry is followed by place n, in whatever order places are come to: for a reader may have them from a
 * listing that another open root has read (mount/fuse keeps such for a while). */
#include "dht.h"

#include <xxhash.h>

struct spot {
	uint64_t number, cookie;
	uint32_t child;
	bool ends; /* nothing came after it in that subvolume */
};
/* A name that was told, and may come again at the subvolume to which it is moved. */
struct told_name {
	uint64_t key, number; /* a hash of it; the number of the place after it */
	int child;	      /* where it was told: there it may be told again, to who goes back */
};
struct wide {
	pthread_mutex_t lock;	/* guards all of it */
	struct told_name *told; /* a table by key; number 0: free */
	size_t tolds, told_room;
	uint64_t told_last; /* the highest number in it */
	struct file *at[SUBVOLUMES_MAX];
	struct spot *place; /* by rising number; the first is the start of the first subvolume */
	size_t count, room, most;
	size_t sorted; /* so many of them are by rising number: all, but while numbers are given */
	uint64_t next_number, stride;
	uint32_t *table; /* indexes of places by subvolume and cookie; twice `room`, 0: none (nobody looks for the first) */
};
enum { STRIDE = 64, ROOM = 128 };
#define CLOSE_NS 5000000000u

void wide_free(struct wide *w)
{
	for (int i = 0; i < SUBVOLUMES_MAX; i++)
		file_unref(w->at[i]);
	pthread_mutex_destroy(&w->lock);
	free(w->place);
	free(w->table);
	free(w->told);
	free(w);
}

static struct wide *wide_create(const struct dht *d)
{
	struct wide *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	pthread_mutex_init(&w->lock, NULL);
	w->most = (size_t)d->log_size;
	w->stride = STRIDE;
	w->room = ROOM;
	w->place = calloc(w->room, sizeof(*w->place));
	w->table = calloc(2 * w->room, sizeof(*w->table));
	w->count = w->sorted = w->next_number = 1;
	if (w->place && w->table)
		return w;
	wide_free(w);
	return NULL;
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

/* The last place that is known with that number or a lower one, and how many entries come between. */
static struct spot find(struct wide *w, uint64_t number, uint64_t *skip)
{
	struct spot p;

	pthread_mutex_lock(&w->lock);
	p = w->place[index_of(w, number)];
	pthread_mutex_unlock(&w->lock);
	*skip = number - p.number;
	return p;
}

/* ---- names that were told, and may be moved meanwhile ---- */

static struct told_name *told_cell(const struct wide *w, uint64_t key)
{
	size_t i = key % w->told_room;

	while (w->told[i].number && w->told[i].key != key)
		i = (i + 1) % w->told_room;
	return &w->told[i];
}

static int told_grow(struct wide *w)
{
	struct wide old = *w;

	w->told_room = old.told_room ? 2 * old.told_room : ROOM;
	w->told = calloc(w->told_room, sizeof(*w->told));
	if (!w->told) {
		w->told = old.told;
		w->told_room = old.told_room;
		return -ENOMEM;
	}
	for (size_t i = 0; i < old.told_room; i++)
		if (old.told[i].number)
			*told_cell(w, old.told[i].key) = old.told[i];
	free(old.told);
	return 0;
}

static int told_note(struct wide *w, uint64_t key, uint64_t number, int child)
{
	int err = 2 * w->tolds < w->told_room ? 0 : told_grow(w);
	struct told_name *t;

	if (err)
		return err;
	t = told_cell(w, key);
	w->tolds += !t->number;
	*t = (struct told_name){ key, number, child };
	w->told_last = number > w->told_last ? number : w->told_last;
	return 0;
}

/* Who goes back reads again what came after that place. */
static void told_forget_after(struct wide *w, uint64_t number)
{
	struct told_name *all = w->told;
	size_t room = w->told_room;

	if (w->told_last <= number)
		return;
	w->told = NULL;
	w->tolds = w->told_room = w->told_last = 0;
	for (size_t i = 0; i < room; i++)
		if (all[i].number && all[i].number <= number)
			told_note(w, all[i].key, all[i].number, all[i].child); /* without memory it is told twice */
	free(all);
}

static uint64_t told_hash(const char *name)
{
	return XXH3_64bits(name, strlen(name));
}

/* It may be told there, and then at another subvolume: names are moved, or will be when a subvolume that the layout lacks gets its part. */
static bool may_come_again(const struct spread *s, const char *name, uint32_t child)
{
	const struct layout *l = s->grows ? &s->grown : &s->layout;
	uint64_t key;

	if (!l->moving)
		return false;
	key = layout_key(&gfid_root, name);
	return layout_owner(l, key)->id == child && layout_owner_next(l, key)->id != child;
}

/* By another subvolume. */
static bool was_told(struct wide *w, const char *name, int child)
{
	const struct told_name *t;
	bool yes = false;

	pthread_mutex_lock(&w->lock);
	if (w->tolds && !MUTANT("forget-returned")) {
		t = told_cell(w, told_hash(name));
		yes = t->number && t->child != child;
	}
	pthread_mutex_unlock(&w->lock);
	return yes;
}

/* ---- open roots ---- */

/* A file that an older graph has opened has none yet. NULL: no memory. */
static struct wide *wide_of(struct dht *d, struct file *file)
{
	struct wide *w = file_slot(file, d->x);

	if (w)
		return w;
	w = wide_create(d);
	if (!w || !file_slot_set(file, d->x, w))
		return w;
	wide_free(w);
	return file_slot(file, d->x);
}

static struct file *known_at(struct wide *w, int child)
{
	struct file *file;

	pthread_mutex_lock(&w->lock);
	file = w->at[child];
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
	*at = known_at(w, child);
	if (*at)
		return 0;
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
static int open_present(struct request *rq, struct dht *d, struct inode *root, struct wide *w)
{
	struct opendir_in in = { .inode = root };
	uint64_t mask = members_present(d);
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

int root_opendir(struct request *rq, struct dht *d, struct opendir_out *out)
{
	cleanup_inode struct inode *root = root_of(d);
	struct wide *w = root ? wide_create(d) : NULL;
	int err = w ? open_present(rq, d, root, w) : -ENOMEM;

	if (!err) {
		out->file = file_create(root, O_RDONLY | O_DIRECTORY);
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

int root_release(struct request *rq, struct dht *d, struct file *file)
{
	struct wide *w = file_slot(file, d->x);

	for (int i = 0; w && i < d->x->children; i++) {
		struct file *at;

		pthread_mutex_lock(&w->lock);
		at = w->at[i];
		w->at[i] = NULL;
		pthread_mutex_unlock(&w->lock);
		let_go(rq, d->x->child[i], at);
	}
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
static void drop_strays(struct dht *d, struct wide *w, struct dirents *list, int child)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < list->count; i++) {
		struct dirent_plus *e = &list->entry[i];

		bool belongs = is_at_home(d, e->name, child) && strcmp(e->name, DHT_HIDDEN) != 0;

		if (belongs && !was_told(w, e->name, child)) {
			list->entry[kept++] = *e;
			continue;
		}
		if (!belongs && strcmp(e->name, DHT_HIDDEN) != 0 && !atomic_exchange(&d->strays, true))
			log_warning(
				d->x, NULL,
				"\"%s\" is in the root of %s, where it does not belong, and is not shown; there may be more",
				e->name, d->x->child[child]->name);
		free(e->name);
		inode_unref(e->inode);
	}
	list->count = kept;
}

/* The next one that has a part of the root, from that on; -1: none. */
static int next_part(struct dht *d, unsigned child)
{
	for (int i = (int)child; i < d->x->children; i++)
		if (is_member(d, i))
			return i;
	return -1;
}

/* After the last entry of a subvolume comes the first of the next. */
static int renumber(struct dht *d, struct wide *w, struct dirents *list, uint32_t child, uint64_t before)
{
	bool last = next_part(d, child + 1) < 0 && !spread_of(d)->lacks;
	const struct spread *s = spread_of(d);
	int err = 0;

	pthread_mutex_lock(&w->lock);
	/* a graph that has taken another's place numbers what follows as that one would have */
	w->next_number = before >= w->next_number ? before + 1 : w->next_number;
	for (uint32_t i = 0; i < list->count && !err; i++) {
		struct dirent_plus *e = &list->entry[i];
		struct spot p = { 0, e->next_offset, child, list->end && !last && i + 1 == list->count };

		err = note_place(d, e->inode, (int)child, false);
		if (!err)
			err = number_of(w, p, before, &e->next_offset);
		if (!err && may_come_again(s, e->name, child))
			err = told_note(w, told_hash(e->name), e->next_offset, (int)child);
		before = e->next_offset;
	}
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
	int err = wide_at(rq, d, in->file, (int)p->child, &at);
	uint64_t drop;

	one.file = at;
	if (!err)
		err = readdir_on(rq, d->x->child[p->child], &one, out);
	if (err)
		return unreached(err) ? -EIO : err;
	list->end |= !list->count;
	if (list->count)
		p->cookie = list->entry[list->count - 1].next_offset;
	drop_strays(d, w, list, (int)p->child);
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

/* One that has no part of the root any more is passed over. false: there is none after it. */
static bool come_to_part(struct dht *d, struct spot *p)
{
	int child = next_part(d, p->child);

	if (child >= 0 && (uint32_t)child != p->child)
		*p = (struct spot){ .child = (uint32_t)child };
	return child >= 0;
}

int root_readdir(struct request *rq, struct dht *d, const struct readdir_in *in, struct readdir_out *out)
{
	struct wide *w = wide_of(d, in->file);
	uint64_t skip;
	struct spot p;
	int err = 0;

	if (!w)
		return -ENOMEM;
	pthread_mutex_lock(&w->lock);
	told_forget_after(w, in->offset);
	pthread_mutex_unlock(&w->lock);
	p = find(w, in->offset, &skip);
	if (p.ends)
		p = (struct spot){ .child = p.child + 1 };
	while (come_to_part(d, &p)) {
		err = read_at(rq, d, w, in, &p, &skip, out);
		if (err || out->entries.count)
			break;
		if (out->entries.end)
			p = (struct spot){ .child = p.child + 1 };
		clear(out);
	}
	if (!err && !out->entries.count && spread_of(d)->lacks) /* that would be a shorter list */
		return subvolume_lacking(d);
	if (!err && !out->entries.count) {
		out->entries.end = true;
		return 0;
	}
	if (!err)
		err = renumber(d, w, &out->entries, p.child, in->offset);
	if (err)
		clear(out);
	return err;
}
