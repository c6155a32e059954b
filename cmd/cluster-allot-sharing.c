/* SPDX-License-Identifier: Apache-2.0 */
/* See cluster-allot-sharing.h. A specification may be long, so it is read when it has changed. */
#include "cluster-allot-sharing.h"

#include <stdlib.h>
#include <string.h>

#include "cluster-changes.h"
#include "cluster.h"
#include "log.h"
#include "path.h"
#include "register.h"
#include "store.h"

static struct {
	struct sharing **volume;
	size_t volumes;
} all;

static int by_base(const void *a, const void *b)
{
	const struct limit *x = a, *y = b;

	return (x->base > y->base) - (x->base < y->base);
}

/* As features/usage is told: see volgen. */
static void take_sets(struct sharing *v, const struct spec *s)
{
	for (size_t i = 0; i < spec_places(s) && v->units < ALLOT_UNITS_MAX; i++) {
		cleanup_path char *view = spec_has_subvolume(s, i) ? view_key(s, i) : NULL;

		if (!spec_has_subvolume(s, i))
			continue;
		snprintf(v->unit[v->units], sizeof v->unit[0], "%s.%zu", v->pool, i);
		snprintf(v->view[v->units++], sizeof v->view[0], "%s", view ? view : "");
	}
}

static void take_servers(struct sharing *v, const struct spec *s)
{
	for (size_t i = 0; i < s->bricks; i++) {
		size_t k = 0;

		if (s->brick[i].gone)
			continue;
		while (k < v->units && strcmp(v->unit[k], s->brick[i].server->name))
			k++;
		if (k == v->units && v->units < ALLOT_UNITS_MAX) {
			v->view[v->units][0] = '\0';
			snprintf(v->unit[v->units++], sizeof v->unit[0], "%s", s->brick[i].server->name);
		}
	}
}

static int soft_by_base(const void *a, const void *b)
{
	const struct soft_limit *x = a, *y = b;

	return (x->base > y->base) - (x->base < y->base);
}

static void take_soft(struct sharing *v, const struct spec *s)
{
	for (size_t i = 0; i < s->tenants; i++) {
		const struct spec_tenant *t = &s->tenant[i];
		struct soft_limit *soft = &v->soft[v->softs];

		if (!t->soft_bytes && !t->soft_inodes) /* one that is deleted is an account as others, until it is purged */
			continue;
		*soft = (struct soft_limit){ t->base, t->grace, { (int64_t)t->soft_bytes, (int64_t)t->soft_inodes }, "" };
		snprintf(soft->name, sizeof soft->name, "%s", t->name);
		v->softs++;
	}
	qsort(v->soft, v->softs, sizeof *v->soft, soft_by_base);
}

static void free_limits(struct sharing *v)
{
	free(v->limit);
	free(v->soft);
	v->limit = NULL;
	v->soft = NULL;
	v->limits = v->softs = 0;
}

static void take_spec(struct sharing *v, const struct spec *s)
{
	v->units = 0;
	memset(v->seen, 0, sizeof v->seen);
	gfid_text(&s->id, v->pool);
	free_limits(v);
	v->limit = calloc(s->tenants + 1, sizeof *v->limit);
	v->soft = calloc(s->tenants + 1, sizeof *v->soft);
	if (!spec_has_allotments(s) || !v->limit || !v->soft)
		return;
	if (s->replica)
		take_sets(v, s);
	else
		take_servers(v, s);
	for (size_t i = 0; i < s->tenants; i++)
		if (s->tenant[i].bytes || s->tenant[i].inodes)
			v->limit[v->limits++] = (struct limit){ s->tenant[i].base,
								{ (int64_t)s->tenant[i].bytes, (int64_t)s->tenant[i].inodes } };
	qsort(v->limit, v->limits, sizeof *v->limit, by_base);
	take_soft(v, s);
}

static struct sharing *need_volume(const char *name)
{
	struct sharing **grown, *v = NULL;

	for (size_t i = 0; i < all.volumes; i++)
		if (!strcmp(all.volume[i]->name, name))
			return all.volume[i];
	grown = realloc(all.volume, (all.volumes + 1) * sizeof *grown);
	all.volume = grown ? grown : all.volume;
	if (grown && (v = calloc(1, sizeof *v))) {
		snprintf(v->name, sizeof v->name, "%s", name);
		grown[all.volumes++] = v;
	}
	return v;
}

static void look_at_view(struct sharing *v, size_t unit)
{
	struct blob value = { 0 };
	uint64_t version;
	bool is_read;

	if (!*v->view[unit] || store_version(cluster_store(), v->view[unit]) == v->seen[unit].version)
		return;
	is_read = !store_get(cluster_store(), v->view[unit], &value, &version);
	if (!is_read || register_view_epoch(&value, &v->seen[unit].epoch))
		v->seen[unit].epoch = 0;
	v->seen[unit].version = is_read ? version : 0;
	free(value.bytes);
}

static void look_at_volume(const char *key)
{
	struct sharing *v = need_volume(strchr(key, '/') + 1);
	struct problem ignored = { "" };
	uint64_t version;
	const struct spec *s;

	if (!v)
		return;
	v->marked = true;
	if (store_version(cluster_store(), key) == v->version)
		return;
	if (!cluster_spec(v->name, &s, &version, &ignored)) {
		take_spec(v, s);
		v->version = version;
	}
	cluster_spec_release(s);
}

static void look_at_volumes(void)
{
	char **keys = store_keys(cluster_store(), "volume/");
	size_t kept = 0;

	if (!keys)
		return;
	for (size_t i = 0; i < all.volumes; i++)
		all.volume[i]->marked = false;
	for (char **key = keys; *key; key++)
		look_at_volume(*key);
	free(keys);
	for (size_t i = 0; i < all.volumes; i++) {
		if (all.volume[i]->marked) {
			all.volume[kept++] = all.volume[i];
			continue;
		}
		free_limits(all.volume[i]);
		free(all.volume[i]);
	}
	all.volumes = kept;
}

void sharing_look(void)
{
	look_at_volumes();
	for (size_t i = 0; i < all.volumes; i++)
		for (size_t k = 0; k < all.volume[i]->units; k++)
			look_at_view(all.volume[i], k);
}

const struct sharing *sharing_find(const char *pool)
{
	for (size_t i = 0; i < all.volumes; i++)
		if (!strcmp(all.volume[i]->pool, pool))
			return all.volume[i];
	return NULL;
}

static bool is_read(const struct sharing *v, const char *key)
{
	return store_version(cluster_store(), key) == v->version;
}

bool sharing_is_current(const struct sharing *v)
{
	cleanup_path char *key = path_format("volume/%s", v->name);

	return is_read(v, key);
}

static size_t place_of(const struct sharing *v, const char *name)
{
	size_t i = 0;

	while (i < v->units && strcmp(v->unit[i], name))
		i++;
	return i;
}

bool sharing_has(const struct sharing *v, const char *name)
{
	return place_of(v, name) < v->units;
}

bool sharing_epoch(const struct sharing *v, const char *name, uint64_t *epoch)
{
	size_t at = place_of(v, name);

	*epoch = at < v->units ? v->seen[at].epoch : 0;
	return at < v->units && (*epoch || !*v->view[at]);
}

void sharing_forget(void)
{
	for (size_t i = 0; i < all.volumes; i++) {
		free_limits(all.volume[i]);
		free(all.volume[i]);
	}
	free(all.volume);
	all.volume = NULL;
	all.volumes = 0;
}

void sharing_each(void (*fn)(const struct sharing *, void *), void *arg)
{
	for (size_t i = 0; i < all.volumes; i++)
		fn(all.volume[i], arg);
}

bool sharing_limit(const struct sharing *v, uint64_t base, struct amount *limit)
{
	struct limit wanted = { base, { 0 } }, *found = NULL;

	if (v->units)
		found = bsearch(&wanted, v->limit, v->limits, sizeof wanted, by_base);
	if (found)
		*limit = found->limit;
	return found;
}
