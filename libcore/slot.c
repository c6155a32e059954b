/* SPDX-License-Identifier: Apache-2.0 */
/* Slots: what translators keep in inodes and files. A short list for each object: few translators keep anything. */
#include <errno.h>
#include <stdlib.h>

#include "xlator.h"

struct slot {
	const struct xlator *owner;
	void *value;
	struct slot *next;
};

extern pthread_rwlock_t slots_leaving; /* see inode.c */
pthread_rwlock_t slots_leaving = PTHREAD_RWLOCK_INITIALIZER;
void slots_destroy_inode(struct inode *);
void slots_destroy_file(struct file *);

static void *get(pthread_mutex_t *lock, struct slots *slots, const struct xlator *x)
{
	struct slot *s;
	void *value;

	pthread_mutex_lock(lock);
	for (s = slots->first; s && s->owner != x; s = s->next)
		;
	value = s ? s->value : NULL;
	pthread_mutex_unlock(lock);
	return value;
}

static int set(pthread_mutex_t *lock, struct slots *slots, const struct xlator *x, void *value)
{
	struct slot *fresh = malloc(sizeof(*fresh)), *s;

	if (!fresh)
		return -ENOMEM;
	pthread_mutex_lock(lock);
	for (s = slots->first; s && s->owner != x; s = s->next)
		;
	if (!s) {
		*fresh = (struct slot){ x, value, slots->first };
		slots->first = fresh;
	}
	pthread_mutex_unlock(lock);
	if (s)
		free(fresh);
	return s ? -EEXIST : 0;
}

static void *take(pthread_mutex_t *lock, struct slots *slots, const struct xlator *x)
{
	struct slot **at, *s;
	void *value;

	pthread_mutex_lock(lock);
	for (at = &slots->first; *at && (*at)->owner != x; at = &(*at)->next)
		;
	s = *at;
	if (s)
		*at = s->next;
	pthread_mutex_unlock(lock);
	value = s ? s->value : NULL;
	free(s);
	return value;
}

void *inode_slot(struct inode *i, const struct xlator *x)
{
	return get(&i->lock, &i->slots, x);
}

int inode_slot_set(struct inode *i, const struct xlator *x, void *value)
{
	return set(&i->lock, &i->slots, x, value);
}

void *inode_slot_take(struct inode *i, const struct xlator *x)
{
	return take(&i->lock, &i->slots, x);
}

void *file_slot(struct file *f, const struct xlator *x)
{
	return get(&f->lock, &f->slots, x);
}

int file_slot_set(struct file *f, const struct xlator *x, void *value)
{
	return set(&f->lock, &f->slots, x, value);
}

void *file_slot_take(struct file *f, const struct xlator *x)
{
	return take(&f->lock, &f->slots, x);
}

void slots_destroy_inode(struct inode *i)
{
	struct slot *s;

	while ((s = i->slots.first)) {
		i->slots.first = s->next;
		if (s->owner->type->forget_inode)
			s->owner->type->forget_inode((struct xlator *)s->owner, i, s->value);
		free(s);
	}
}

void slots_destroy_file(struct file *f)
{
	struct slot *s;

	while ((s = f->slots.first)) {
		f->slots.first = s->next;
		if (s->owner->type->forget_file)
			s->owner->type->forget_file((struct xlator *)s->owner, f, s->value);
		free(s);
	}
}

static void purge_inode(struct inode *i, void *arg)
{
	struct xlator *x = arg;
	void *value = inode_slot_take(i, x);

	if (value && x->type->forget_inode)
		x->type->forget_inode(x, i, value);
}

static void purge_file(struct file *f, void *arg)
{
	struct xlator *x = arg;
	void *value = file_slot_take(f, x);

	if (value && x->type->forget_file)
		x->type->forget_file(x, f, value);
}

struct succession {
	struct xlator *new;
	const struct xlator *old;
};

static void inherit(struct file *f, void *arg)
{
	const struct succession *s = arg;
	void *value = file_slot_take(f, s->old);

	if (!value || (s->new->type->inherit_file(s->new, s->old, f, value) && !file_slot_set(f, s->new, value)))
		return;
	if (file_slot_set(f, s->old, value) && s->old->type->forget_file)
		s->old->type->forget_file((struct xlator *)s->old, f, value);
}

void slots_inherit(struct xlator *x, const struct xlator *old)
{
	files_each(inherit, &(struct succession){ x, old });
}

static void await_leaving(void)
{
	pthread_rwlock_wrlock(&slots_leaving);
	pthread_rwlock_unlock(&slots_leaving);
}

/* Files first, and those too that somebody else lets go of just now: their destructors may look at the inode's slot. */
void slots_purge(struct inode_table *t, const struct xlator *x)
{
	files_each(purge_file, (void *)x);
	await_leaving();
	inode_table_each(t, purge_inode, (void *)x);
	await_leaving();
}
