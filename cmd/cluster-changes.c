/* SPDX-License-Identifier: Apache-2.0 */
/* See cluster-changes.h. */
#include "cluster-changes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-allot.h"
#include "cluster-soft.h"
#include "cluster.h"
#include "inode.h"
#include "path.h"

void documents_add(struct changes *c, char *key, uint64_t version, const struct blob *value)
{
	struct store_change *grown = realloc(c->change, (c->count + 1) * sizeof *grown);

	c->failed |= !grown || !key;
	if (c->failed) {
		c->change = grown ? grown : c->change;
		free(key);
		return;
	}
	c->change = grown;
	grown[c->count++] = (struct store_change){ key, version, value };
}

void documents_free(struct changes *c)
{
	for (size_t i = 0; i < c->count; i++)
		free((char *)c->change[i].key);
	free(c->change);
}

int documents_commit(const struct changes *c)
{
	return c->failed ? -ENOMEM : store_commit(cluster_store(), c->change, c->count);
}

/* Takes the key. */
static void remove_key(struct changes *c, char *key)
{
	struct blob value = { 0 };
	uint64_t version;

	if (store_get(cluster_store(), key, &value, &version))
		free(key);
	else
		documents_add(c, key, version, NULL);
	free(value.bytes);
}

void documents_remove(struct changes *c, const char *kind, const char *name)
{
	remove_key(c, path_format("%s/%s", kind, name));
}

/* Takes the key. */
static void set_key(struct changes *c, char *key, const struct blob *to)
{
	struct blob value = { 0 };
	uint64_t version;

	store_get(cluster_store(), key, &value, &version);
	free(value.bytes);
	documents_add(c, key, version, to);
}

void documents_set(struct changes *c, const char *kind, const char *name, const struct blob *to)
{
	set_key(c, path_format("%s/%s", kind, name), to);
}

/* Who was at one server, or in one replica set, had all of a limit. And a set that comes where there was another one of that number begins with views of small numbers. */
static bool begin_all_anew(const struct spec *s, const struct spec *before)
{
	return spec_has_allotments(s) != spec_has_allotments(before) || !s->replica != !before->replica ||
	       (s->replica && (spec_numbers(before) & ~spec_numbers(s)));
}

/* Who had no limit has grown as he liked: what was allotted before is true no more. An empty document says so, and has a version of its own, by which
 * what servers say of now is told from what they said before. It begins anew after all have said what there is (libcore/allot.h). */
static bool begins_anew(const struct spec_tenant *t, const struct spec_tenant *was)
{
	return !was->bytes != !t->bytes || !was->inodes != !t->inodes;
}

static bool has_soft(const struct spec_tenant *t)
{
	return t->soft_bytes || t->soft_inodes;
}

static const struct spec_tenant *find_before(const struct spec *s, const struct spec *before, size_t number)
{
	const struct spec_tenant *t = &s->tenant[number];

	if (number < before->tenants && !strcmp(before->tenant[number].name, t->name)) /* nearly always: there may be many */
		return &before->tenant[number];
	return spec_tenant_find(before, t->name);
}

/* A document of what was above a soft limit that was lifted says that nothing is, for there may be another one; the ledgers of a server that is away now may still say when that began. */
static void lift_soft(struct changes *c, const char *id, uint64_t base)
{
	static char nothing[] = "0 0 0\n";
	static const struct blob none = { .size = sizeof nothing - 1, .bytes = nothing };
	char *key = soft_key(id, base);

	if (key && store_version(cluster_store(), key))
		set_key(c, key, &none);
	else
		free(key);
}

/* What is above soft limits is told by each server of its own while all bricks are there. */
static void forget_soft(struct changes *c, const char *id)
{
	cleanup_path char *prefix = path_format("over/%s.", id);
	char **keys = store_keys(cluster_store(), prefix);

	for (char **key = keys; key && *key; key++)
		remove_key(c, path_format("%s", *key));
	free(keys);
}

void documents_note_limits(struct changes *c, const struct spec *s, const struct spec *before)
{
	static char line[] = "\n";
	static const struct blob empty = { .size = 1, .bytes = line };
	bool spread = spec_has_allotments(s) != spec_has_allotments(before), all = begin_all_anew(s, before);
	char id[GFID_TEXT];

	if (!spec_has_allotments(s) && !spec_has_allotments(before))
		return;
	gfid_text(&s->id, id);
	if (spread)
		forget_soft(c, id);
	for (size_t i = 0; i < s->tenants; i++) {
		const struct spec_tenant *t = &s->tenant[i], *was = find_before(s, before, i);

		if (was && (begins_anew(t, was) || (all && (t->bytes || t->inodes))))
			set_key(c, allotment_key(id, t->base), &empty);
		if (was && !spread && has_soft(was) && !has_soft(t))
			lift_soft(c, id, t->base);
	}
}

void documents_forget_limits(struct changes *c, const struct spec *s)
{
	char id[GFID_TEXT];
	cleanup_path char *prefix = path_format("allot/%s.", gfid_text(&s->id, id));
	char **keys = store_keys(cluster_store(), prefix);

	for (char **key = keys; key && *key; key++)
		remove_key(c, path_format("%s", *key));
	free(keys);
	forget_soft(c, id);
}

char *view_key(const struct spec *s, size_t set)
{
	return spec_has_no_number(s, set) ? path_format("view/%s", s->volume) : path_format("view.%zu/%s", set, s->volume);
}

void documents_remove_view(struct changes *c, const struct spec *s, size_t set)
{
	remove_key(c, view_key(s, set));
}
