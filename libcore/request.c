/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: the list of those in flight, group lists, extensions. */
#include "request.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "task.h"

const char *error_text(int err)
{
	return error_is_ours(err) ? "it is being changed just now: try it again" : strerror(err < 0 ? -err : err);
}

enum { LISTS = 16 }; /* so that shards seldom meet */

static struct list {
	pthread_mutex_t lock;
	struct request *first;
	size_t count;
} lists[LISTS] = { [0 ... LISTS - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER } };
static atomic_uint_fast64_t last_id;

static struct list *list_of(const struct request *rq)
{
	return &lists[rq->id % LISTS];
}

static uint64_t new_id(void)
{
	uint64_t id = atomic_fetch_add(&last_id, 1);

	if (!id) { /* the upper half tells mounts apart in a server's log */
		struct gfid random;

		gfid_create(&random);
		memcpy(&id, random.bytes, 4);
		id <<= 32;
		atomic_fetch_add(&last_id, id);
	}
	return id + 1;
}

void request_init(struct request *rq, struct graph *graph, uint64_t id)
{
	struct list *l;

	memset(rq, 0, offsetof(struct request, trail)); /* the trail is valid up to depth */
	rq->id = id ? id : new_id();
	rq->graph = graph;
	rq->group_count = -1;
	rq->task = task_self();
	rq->born_ns = clock_ns();
	l = list_of(rq);
	pthread_mutex_lock(&l->lock);
	rq->next = l->first;
	if (rq->next)
		rq->next->prev = rq;
	l->first = rq;
	l->count++;
	pthread_mutex_unlock(&l->lock);
}

void request_finish(struct request *rq)
{
	struct list *l = list_of(rq);

	pthread_mutex_lock(&l->lock);
	if (rq->prev)
		rq->prev->next = rq->next;
	else
		l->first = rq->next;
	if (rq->next)
		rq->next->prev = rq->prev;
	l->count--;
	pthread_mutex_unlock(&l->lock);
	free(rq->groups);
	extensions_free(&rq->extensions);
	extensions_free(&rq->reply_extensions);
}

int request_groups(struct request *rq, const gid_t **groups)
{
	if (rq->group_count < 0) {
		gid_t *loaded = NULL;
		int count = rq->load_groups ? rq->load_groups(rq, &loaded) : -ENEEDGROUPS;

		if (count < 0)
			return count;
		rq->groups = loaded;
		rq->group_count = count;
	}
	*groups = rq->groups;
	return rq->group_count;
}

/* Few groups, or few questions, are walked: a sort costs as much as some ten walks. An ACL may ask thousands of times, of as many as
 * 65536 groups. The request is its task's alone and who copies it copies its groups, so they may be sorted in their place. */
enum { IN_GROUP_FEW = 8, IN_GROUP_WALKS = 8 };

static int by_gid(const void *a, const void *b)
{
	const gid_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static bool walk_groups(const gid_t *groups, int count, gid_t gid)
{
	for (int i = 0; i < count; i++)
		if (groups[i] == gid)
			return true;
	return false;
}

int request_in_group(struct request *rq, gid_t gid)
{
	const gid_t *groups;
	int count;

	if (rq->gid == gid)
		return 1;
	count = request_groups(rq, &groups);
	if (count < 0)
		return count;
	if (count <= IN_GROUP_FEW)
		return walk_groups(groups, count, gid);
	if (rq->groups_asked < IN_GROUP_WALKS) {
		if (++rq->groups_asked == IN_GROUP_WALKS)
			qsort(rq->groups, count, sizeof(gid_t), by_gid);
		return walk_groups(groups, count, gid);
	}
	return bsearch(&gid, groups, count, sizeof(gid_t), by_gid) != NULL;
}

const struct extension *request_extension(const struct request *rq, uint32_t type)
{
	const struct extension *e = rq->extensions;

	while (e && e->type != type)
		e = e->next;
	return e;
}

void request_retract(struct request *rq, uint32_t type)
{
	struct extension **at = &rq->extensions;

	while (*at) {
		struct extension *e = *at;

		if (e->type != type) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		free(e);
	}
}

bool request_extended_twice(const struct extension *e)
{
	const struct extension *other = e->next;

	while (other && other->type != e->type)
		other = other->next;
	return other;
}

int request_extend(struct extension **list, uint32_t type, uint32_t version, bool critical, const void *bytes, uint32_t size)
{
	struct extension *e = malloc(sizeof(*e) + size);

	if (!e)
		return -ENOMEM;
	*e = (struct extension){ type, version, critical, size, e + 1, *list };
	if (size)
		memcpy(e->bytes, bytes, size);
	*list = e;
	return 0;
}

void extensions_free(struct extension **list)
{
	struct extension *e;

	while ((e = *list)) {
		*list = e->next;
		free(e);
	}
}

struct request *request_copy(const struct request *rq)
{
	struct request *copy = malloc(sizeof(*copy));
	int err = 0;

	if (!copy)
		return NULL;
	request_init(copy, rq->graph, rq->id);
	copy->uid = rq->uid;
	copy->root = rq->root;
	copy->tree = rq->tree;
	copy->access = rq->access;
	copy->top = rq->top;
	copy->administers = rq->administers;
	copy->moves = rq->moves;
	copy->gid = rq->gid;
	copy->pid = rq->pid;
	copy->lock_owner = rq->lock_owner;
	copy->deadline_ns = rq->deadline_ns;
	copy->time_ns = rq->time_ns;
	copy->resent = rq->resent;
	copy->client = rq->client;
	copy->load_groups = rq->load_groups; /* uses only the pid */
	if (rq->group_count > 0) {
		copy->groups = malloc((size_t)rq->group_count * sizeof(gid_t));
		err = copy->groups ? 0 : -ENOMEM;
		if (!err)
			memcpy(copy->groups, rq->groups, (size_t)rq->group_count * sizeof(gid_t));
	}
	copy->group_count = rq->group_count;
	for (const struct extension *e = rq->extensions; e && !err; e = e->next)
		err = request_extend(&copy->extensions, e->type, e->version, e->critical, e->bytes, e->size);
	if (err) {
		request_free(copy);
		return NULL;
	}
	return copy;
}

void request_free(struct request *rq)
{
	request_finish(rq);
	free(rq);
}

void requests_each(void (*fn)(const struct request *, void *), void *arg)
{
	for (struct list *l = lists; l < lists + LISTS; l++) {
		pthread_mutex_lock(&l->lock);
		for (struct request *rq = l->first; rq; rq = rq->next)
			fn(rq, arg);
		pthread_mutex_unlock(&l->lock);
	}
}

size_t requests_in_flight(void)
{
	size_t count = 0;

	for (struct list *l = lists; l < lists + LISTS; l++) {
		pthread_mutex_lock(&l->lock);
		count += l->count;
		pthread_mutex_unlock(&l->lock);
	}
	return count;
}
