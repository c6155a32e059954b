/* SPDX-License-Identifier: Apache-2.0 */
/* The inode table, and open files. */
#include "inode.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <string.h>

#include "xlator.h"

enum { BUCKETS_MIN = 1024, TELL_MAX = 8 };

struct inode_table {
	pthread_mutex_t lock; /* guards all below; short */
	struct inode **bucket;
	size_t buckets, count;
	struct inode *idle_first, *idle_last; /* refs 0; least recently used first */
	size_t idle, keep;
};

/* Held for reading from the moment when an object leaves its table until its slots are gone; slots_purge() takes it for
 * writing once, to know that no destructor of the translator that goes is under way. (Readers may nest: glibc's default.) */
extern pthread_rwlock_t slots_leaving;
void slots_destroy_inode(struct inode *);
void slots_destroy_file(struct file *);

struct inode_table *inode_table_create(void)
{
	struct inode_table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	pthread_mutex_init(&t->lock, NULL);
	t->buckets = BUCKETS_MIN;
	t->bucket = calloc(t->buckets, sizeof(*t->bucket));
	if (!t->bucket) {
		free(t);
		return NULL;
	}
	return t;
}

static struct inode **bucket_of(struct inode_table *t, const struct gfid *g)
{
	return &t->bucket[gfid_hash(g) & (t->buckets - 1)];
}

static void grow(struct inode_table *t)
{
	struct inode **old = t->bucket, *inode, *next;
	size_t buckets = t->buckets;

	t->bucket = calloc(2 * buckets, sizeof(*t->bucket));
	if (!t->bucket) {
		t->bucket = old;
		return;
	}
	t->buckets = 2 * buckets;
	for (size_t i = 0; i < buckets; i++)
		for (inode = old[i]; inode; inode = next) {
			struct inode **b = bucket_of(t, &inode->gfid);
			next = inode->next;
			inode->next = *b;
			*b = inode;
		}
	free(old);
}

static void idle_remove(struct inode_table *t, struct inode *i)
{
	if (i->idle_prev)
		i->idle_prev->idle_next = i->idle_next;
	else
		t->idle_first = i->idle_next;
	if (i->idle_next)
		i->idle_next->idle_prev = i->idle_prev;
	else
		t->idle_last = i->idle_prev;
	i->idle_next = i->idle_prev = NULL;
	i->idle = false;
	t->idle--;
}

static void idle_add(struct inode_table *t, struct inode *i)
{
	i->idle_prev = t->idle_last;
	if (t->idle_last)
		t->idle_last->idle_next = i;
	else
		t->idle_first = i;
	t->idle_last = i;
	i->idle = true;
	t->idle++;
}

static void bucket_remove(struct inode_table *t, struct inode *i)
{
	struct inode **at = bucket_of(t, &i->gfid);

	while (*at != i)
		at = &(*at)->next;
	*at = i->next;
	t->count--;
}

static void destroy(struct inode *i)
{
	slots_destroy_inode(i);
	pthread_mutex_destroy(&i->lock);
	free(i);
}

/* Takes out as many idle inodes as are too many; linked by idle_next. Called with the lock held. */
static struct inode *take_surplus(struct inode_table *t)
{
	struct inode *surplus = NULL, *i;

	while (t->idle > t->keep || (t->idle && t->idle_last->unkept)) {
		i = t->idle_last->unkept ? t->idle_last : t->idle_first;
		idle_remove(t, i);
		bucket_remove(t, i);
		i->idle_next = surplus;
		surplus = i;
	}
	return surplus;
}

static void destroy_all(struct inode *i)
{
	struct inode *next;

	for (; i; i = next) {
		next = i->idle_next;
		destroy(i);
	}
}

void inode_table_keep(struct inode_table *t, size_t count)
{
	struct inode *surplus;

	pthread_rwlock_rdlock(&slots_leaving);
	pthread_mutex_lock(&t->lock);
	t->keep = count;
	surplus = take_surplus(t);
	pthread_mutex_unlock(&t->lock);
	destroy_all(surplus);
	pthread_rwlock_unlock(&slots_leaving);
}

/* Called with the lock held. */
static struct inode *find(struct inode_table *t, const struct gfid *g)
{
	struct inode *i = *bucket_of(t, g);

	while (i && !gfid_equal(&i->gfid, g))
		i = i->next;
	if (i && atomic_fetch_add(&i->refs, 1) == 0 && i->idle)
		idle_remove(t, i);
	return i;
}

struct inode *inode_find(struct inode_table *t, const struct gfid *g)
{
	struct inode *i;

	pthread_mutex_lock(&t->lock);
	i = find(t, g);
	pthread_mutex_unlock(&t->lock);
	return i;
}

static bool agree(struct inode *i, mode_t type)
{
	mode_t known = 0;

	return atomic_compare_exchange_strong(&i->type, &known, type) || known == type;
}

struct inode *inode_get(struct inode_table *t, const struct gfid *g, mode_t type)
{
	struct inode *i;

	pthread_mutex_lock(&t->lock);
	i = find(t, g);
	if (!i && (i = calloc(1, sizeof(*i)))) {
		struct inode **b;

		if (t->count >= t->buckets)
			grow(t);
		b = bucket_of(t, g);
		i->gfid = *g;
		atomic_init(&i->type, type & S_IFMT);
		atomic_init(&i->refs, 1);
		pthread_mutex_init(&i->lock, NULL);
		i->table = t;
		i->next = *b;
		*b = i;
		t->count++;
	}
	pthread_mutex_unlock(&t->lock);
	type &= S_IFMT;
	if (i && type && !agree(i, type)) {
		inode_unref(i);
		return NULL;
	}
	return i;
}

struct inode *inode_ref(struct inode *i)
{
	unsigned before = atomic_fetch_add(&i->refs, 1);

	assert(before > 0);
	return i;
}

void inode_unref(struct inode *i)
{
	struct inode_table *t;
	struct inode *surplus = NULL;
	unsigned refs;

	if (!i)
		return;
	t = i->table;
	refs = atomic_load(&i->refs);
	while (refs > 1)
		if (atomic_compare_exchange_weak(&i->refs, &refs, refs - 1))
			return;
	pthread_rwlock_rdlock(&slots_leaving);
	pthread_mutex_lock(&t->lock);
	if (atomic_fetch_sub(&i->refs, 1) == 1) {
		idle_add(t, i);
		surplus = take_surplus(t);
	}
	pthread_mutex_unlock(&t->lock);
	destroy_all(surplus);
	pthread_rwlock_unlock(&slots_leaving);
}

void inode_unkeep(struct inode *i)
{
	pthread_mutex_lock(&i->table->lock);
	i->unkept = true;
	pthread_mutex_unlock(&i->table->lock);
}

void inode_unref_at(struct inode **i)
{
	inode_unref(*i);
	*i = NULL;
}

size_t inode_table_count(struct inode_table *t)
{
	size_t count;

	pthread_mutex_lock(&t->lock);
	count = t->count;
	pthread_mutex_unlock(&t->lock);
	return count;
}

static struct inode **all_inodes(struct inode_table *t, size_t *count)
{
	struct inode **list;

	pthread_mutex_lock(&t->lock);
	list = malloc((t->count + 1) * sizeof(*list));
	*count = 0;
	for (size_t b = 0; list && b < t->buckets; b++)
		for (struct inode *i = t->bucket[b]; i; i = i->next) {
			if (atomic_fetch_add(&i->refs, 1) == 0)
				idle_remove(t, i);
			list[(*count)++] = i;
		}
	pthread_mutex_unlock(&t->lock);
	return list;
}

void inode_table_each(struct inode_table *t, void (*fn)(struct inode *, void *), void *arg)
{
	size_t count;
	struct inode **list = all_inodes(t, &count);

	for (size_t i = 0; i < count; i++) {
		fn(list[i], arg);
		inode_unref(list[i]);
	}
	free(list);
}

/* ---- open files ---- */

static struct {
	pthread_mutex_t lock;
	struct file *first;
	size_t count;
	uint64_t last_number;
} files = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct file *file_create(struct inode *inode, uint32_t flags)
{
	struct file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->inode = inode_ref(inode);
	f->flags = flags;
	atomic_init(&f->refs, 1);
	pthread_mutex_init(&f->lock, NULL);
	pthread_mutex_lock(&files.lock);
	f->number = ++files.last_number;
	f->next = files.first;
	if (f->next)
		f->next->prev = f;
	files.first = f;
	files.count++;
	pthread_mutex_unlock(&files.lock);
	return f;
}

struct file *file_ref(struct file *f)
{
	unsigned before = atomic_fetch_add(&f->refs, 1);

	assert(before > 0);
	return f;
}

struct file *file_ref_live(struct file *f)
{
	unsigned refs = atomic_load(&f->refs);

	while (refs)
		if (atomic_compare_exchange_weak(&f->refs, &refs, refs + 1))
			return f;
	return NULL;
}

void file_unref(struct file *f)
{
	unsigned refs;

	if (!f)
		return;
	refs = atomic_load(&f->refs);
	while (refs > 1)
		if (atomic_compare_exchange_weak(&f->refs, &refs, refs - 1))
			return;
	pthread_rwlock_rdlock(&slots_leaving);
	pthread_mutex_lock(&files.lock); /* files_each may take a new reference only under this lock */
	if (atomic_fetch_sub(&f->refs, 1) != 1) {
		pthread_mutex_unlock(&files.lock);
		pthread_rwlock_unlock(&slots_leaving);
		return;
	}
	if (f->prev)
		f->prev->next = f->next;
	else
		files.first = f->next;
	if (f->next)
		f->next->prev = f->prev;
	files.count--;
	pthread_mutex_unlock(&files.lock);
	slots_destroy_file(f);
	pthread_rwlock_unlock(&slots_leaving);
	inode_unref(f->inode);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

void file_unref_at(struct file **f)
{
	file_unref(*f);
	*f = NULL;
}

size_t file_count(void)
{
	size_t count;

	pthread_mutex_lock(&files.lock);
	count = files.count;
	pthread_mutex_unlock(&files.lock);
	return count;
}

void files_each(void (*fn)(struct file *, void *), void *arg)
{
	struct file **list;
	size_t count = 0;

	pthread_mutex_lock(&files.lock);
	list = malloc((files.count + 1) * sizeof(*list));
	for (struct file *f = list ? files.first : NULL; f; f = f->next)
		list[count++] = file_ref(f);
	pthread_mutex_unlock(&files.lock);
	for (size_t i = 0; i < count; i++) {
		fn(list[i], arg);
		file_unref(list[i]);
	}
	free(list);
}

/* ---- the end of a table ---- */

static void tell_inodes(const struct inode_table *t)
{
	char text[GFID_TEXT];
	unsigned told = 0;

	log_error(NULL, NULL,
		  "%zu inodes are still held though all that could hold them has ended; these are, for example:", t->count);
	for (size_t b = 0; b < t->buckets; b++)
		for (const struct inode *i = t->bucket[b]; i && told < TELL_MAX; i = i->next, told++)
			log_error(NULL, NULL, "inode %s of type %o has %u references", gfid_text(&i->gfid, text),
				  (unsigned)atomic_load(&i->type), atomic_load(&i->refs));
}

static void tell_files(const struct inode_table *t)
{
	char text[GFID_TEXT];
	unsigned told = 0;

	pthread_mutex_lock(&files.lock);
	for (const struct file *f = files.first; f && told < TELL_MAX; f = f->next) {
		if (f->inode->table != t)
			continue;
		told++;
		log_error(NULL, NULL, "file %llu, of inode %s, has %u references: it holds its inode, too",
			  (unsigned long long)f->number, gfid_text(&f->inode->gfid, text), atomic_load(&f->refs));
	}
	pthread_mutex_unlock(&files.lock);
}

void inode_table_destroy(struct inode_table *t)
{
	if (!t)
		return;
	inode_table_keep(t, 0);
	if (t->count) {
		tell_inodes(t);
		tell_files(t);
	}
	assert(t->count == 0);
	pthread_mutex_destroy(&t->lock);
	free(t->bucket);
	free(t);
}
