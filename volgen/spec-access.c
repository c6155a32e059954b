/* SPDX-License-Identifier: Apache-2.0 */
/* The access points of a specification's tenants: what must hold for them, how they come and go, and how they are written for features/cloud. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "path.h"
#include "volgen.h"
#include "word.h"

enum { SENTENCE = 320 };
#define bad(s, line, format, ...) problem_set(p, EINVAL, "%s:%u: " format, (s)->path, (line), ##__VA_ARGS__)

/* ---- paths: in specifications and options they are of letters that mean nothing there; of all others %xx is written ---- */

char *spec_access_path(const char *directory)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+@=~";
	char *text = malloc(3 * strlen(directory) + 1), *to = text;

	if (!text)
		abort(); /* as spec_grow */
	for (; *directory; directory++)
		if (strchr(fine, *directory))
			*to++ = *directory;
		else
			to += sprintf(to, "%%%02x", (unsigned char)*directory);
	*to = '\0';
	return text;
}

/* Over several bricks no path tells where a directory is, and only what has a limit is at one of them, whole. */
static bool is_named_by_limit(const struct spec *s)
{
	return spec_is_spread(s);
}

static int check_directory(const struct spec *s, const char *directory, char why[SENTENCE])
{
	struct word_limit limit;

	if (!is_named_by_limit(s) && (strlen(directory) > SPEC_ACCESS_DIRECTORY_MAX || !word_is_directory(directory)))
		return snprintf(
			       why, SENTENCE,
			       "an access point's directory is written from the tenant's root, as /a/b, without '.' and '..', with %d "
			       "bytes at most",
			       SPEC_ACCESS_DIRECTORY_MAX),
		       -EINVAL;
	if (is_named_by_limit(s) && !word_is_limit(directory, &limit))
		return snprintf(
			       why, SENTENCE,
			       "volume %s spreads names over several bricks, or may: an access point's directory has a quota there, and is written as "
			       "@BRICK.NUMBER, which `stratus quota show DIRECTORY` tells",
			       s->volume),
		       -EINVAL;
	return 0;
}

static bool can_have_points(const struct spec *s)
{
	return !spec_is_spread(s) || !s->replica;
}

/* ---- what must hold ---- */

static int check_point(const struct spec *s, const struct spec_tenant *t, const struct spec_access *a, struct problem *p)
{
	char why[SENTENCE];

	if (!a->directory || gfid_is_null(&a->id))
		return bad(s, a->line, "this access point of tenant '%s' has no %s: `stratus access create` gives it one",
			   t->name, a->directory ? "'id'" : "'directory'");
	if (check_directory(s, a->directory, why))
		return bad(s, a->line, "%s", why);
	if ((a->uid == SPEC_ACCESS_ANY) != (a->gid == SPEC_ACCESS_ANY))
		return bad(s, a->line, "an access point has both a uid and a gid, or neither");
	if (a->uid != SPEC_ACCESS_ANY && (a->uid >= t->count || a->gid >= t->count))
		return bad(s, a->line, "tenant '%s' has the user and group ids 0 to %u", t->name, t->count - 1);
	return 0;
}

static int check_tenant(const struct spec *s, const struct spec_tenant *t, struct problem *p)
{
	int err = 0;

	if (!t->accesses)
		return 0;
	if (!can_have_points(s))
		return bad(
			s, t->access->line,
			"tenant '%s' can't have access points: in this version they are of volumes without replicas, or with one replica set that does not grow",
			t->name);
	if (t->accesses > SPEC_ACCESS_OF_ONE)
		return bad(s, t->access->line, "tenant '%s' has more than %d access points: revoke what is not needed", t->name,
			   SPEC_ACCESS_OF_ONE);
	for (size_t i = 0; i < t->accesses && !err; i++)
		err = check_point(s, t, &t->access[i], p);
	return err;
}

static int by_id(const void *a, const void *b)
{
	return memcmp(&(*(struct spec_access *const *)a)->id, &(*(struct spec_access *const *)b)->id, sizeof(struct gfid));
}

static int check_ids(const struct spec *s, size_t count, struct problem *p)
{
	struct spec_access **list = malloc((count + 1) * sizeof *list);
	size_t n = 0;
	int err = 0;

	if (!list)
		abort(); /* as above */
	for (size_t i = 0; i < s->tenants; i++)
		for (size_t k = 0; k < s->tenant[i].accesses; k++)
			list[n++] = &s->tenant[i].access[k];
	qsort(list, n, sizeof *list, by_id);
	for (size_t i = 1; i < n && !err; i++)
		if (gfid_equal(&list[i - 1]->id, &list[i]->id))
			err = bad(s, list[i]->line, "the access point in line %u has the same id: take a fresh one",
				  list[i - 1]->line);
	free(list);
	return err;
}

int spec_check_access(const struct spec *s, struct problem *p)
{
	size_t count = 0;
	int err = 0;

	for (size_t i = 0; i < s->tenants && !err; i++) {
		count += s->tenant[i].accesses;
		err = check_tenant(s, &s->tenant[i], p);
	}
	if (!err && count > SPEC_ACCESS_MAX)
		return bad(s, 1, "more than %d access points of all tenants together", SPEC_ACCESS_MAX);
	return err || count < 2 ? err : check_ids(s, count, p);
}

struct spec_access *spec_access_find(const struct spec_tenant *t, const struct gfid *id)
{
	for (size_t i = 0; i < t->accesses; i++)
		if (gfid_equal(&t->access[i].id, id))
			return &t->access[i];
	return NULL;
}

bool spec_access_has_expired(const struct spec_access *a, uint64_t now)
{
	return a->expires && a->expires <= now;
}

int spec_check_access_change(const struct spec_tenant *now, const struct spec_tenant *before, struct problem *p)
{
	char id[GFID_TEXT];

	for (size_t i = 0; i < before->accesses; i++) {
		const struct spec_access *a = &before->access[i], *b = spec_access_find(now, &a->id);

		if (b && (strcmp(a->directory, b->directory) || a->uid != b->uid || a->gid != b->gid ||
			  a->read_only != b->read_only || a->expires != b->expires))
			return problem_set(
				p, EINVAL,
				"access point %s of tenant %s would be another: they never change. Revoke it, and create one",
				gfid_text(&a->id, id), now->name);
	}
	return 0;
}

/* ---- changes ---- */

static struct spec_tenant *living(struct spec *s, const char *tenant, struct problem *p)
{
	struct spec_tenant *t = spec_tenant_find(s, tenant);

	if (t && t->state != SPEC_TENANT_DELETED)
		return t;
	problem_set(p, ENOENT, "volume %s has no tenant '%s'", s->volume, tenant);
	return NULL;
}

int spec_create_access(struct spec *s, const char *tenant, const struct spec_access *like, struct gfid *id, struct problem *p)
{
	struct spec_tenant *t = living(s, tenant, p);
	struct word_limit limit;
	struct spec_access *a;
	char why[SENTENCE];

	if (!t)
		return -ENOENT;
	if (!can_have_points(s))
		return problem_set(
			p, ENOTSUP,
			"volume %s spreads names over several replica sets, or may: in this version access points are of volumes without replicas, or "
			"with one replica set that was not made to grow",
			s->volume);
	if (t->accesses >= SPEC_ACCESS_OF_ONE)
		return problem_set(p, ENOSPC, "tenant %s has %d access points, which is as many as there may be: revoke one",
				   tenant, SPEC_ACCESS_OF_ONE);
	if (check_directory(s, like->directory, why))
		return problem_set(p, EINVAL, "%s", why);
	if (word_is_limit(like->directory, &limit) && !spec_has_subvolume(s, limit.brick)) /* later it may leave */
		return problem_set(p, EINVAL, "volume %s has no brick %u: `stratus quota show DIRECTORY` tells where it is",
				   s->volume, limit.brick);
	if ((like->uid == SPEC_ACCESS_ANY) != (like->gid == SPEC_ACCESS_ANY))
		return problem_set(p, EINVAL, "an access point has both a uid and a gid, or neither");
	if (like->uid != SPEC_ACCESS_ANY && (like->uid >= t->count || like->gid >= t->count))
		return problem_set(p, EINVAL, "tenant %s has the user and group ids 0 to %u", tenant, t->count - 1);
	a = spec_grow(&t->access, &t->accesses, sizeof *a);
	*a = *like;
	a->directory = path_format("%s", like->directory);
	gfid_create(&a->id);
	*id = a->id;
	return 0;
}

int spec_revoke_access(struct spec *s, const char *tenant, const struct gfid *id, struct problem *p)
{
	struct spec_tenant *t = living(s, tenant, p);
	struct spec_access *a = t ? spec_access_find(t, id) : NULL;
	char text[GFID_TEXT];

	if (!t)
		return -ENOENT;
	if (!a)
		return problem_set(p, ENOENT, "tenant %s has no access point %s", tenant, gfid_text(id, text));
	free(a->directory);
	t->accesses--;
	memmove(a, a + 1, (size_t)(t->access + t->accesses - a) * sizeof *a);
	return 0;
}

void spec_free_access(struct spec_tenant *t)
{
	for (size_t i = 0; i < t->accesses; i++)
		free(t->access[i].directory);
	free(t->access);
	t->access = NULL;
	t->accesses = 0;
}

/* ---- writing ---- */

void spec_print_access(const struct spec_tenant *t, FILE *to)
{
	char id[GFID_TEXT];

	if (t->accesses)
		fputs("    access:\n", to);
	for (size_t i = 0; i < t->accesses; i++) {
		const struct spec_access *a = &t->access[i];
		cleanup_path char *path = spec_access_path(a->directory);

		fprintf(to, "      - id: %s\n        directory: \"%s\"\n", gfid_text(&a->id, id), path);
		if (a->uid != SPEC_ACCESS_ANY)
			fprintf(to, "        uid: %u\n        gid: %u\n", a->uid, a->gid);
		if (a->read_only)
			fputs("        read-only: true\n", to);
		if (a->expires)
			fprintf(to, "        expires: %" PRIu64 "\n", a->expires);
	}
}

static void write_point(const struct spec_tenant *t, const struct spec_access *a, const char *comma, FILE *to)
{
	cleanup_path char *path = spec_access_path(a->directory);
	char id[GFID_TEXT];

	fprintf(to, "%s%s %s ", comma, t->name, gfid_text(&a->id, id));
	if (a->uid == SPEC_ACCESS_ANY)
		fputs("- -", to);
	else
		fprintf(to, "%u %u", a->uid, a->gid);
	fprintf(to, " %s %" PRIu64 " %s", a->read_only ? "ro" : "rw", a->expires, path);
}

char *spec_access_table(const struct spec *s)
{
	const char *comma = "";
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		abort(); /* as spec_tenant_table */
	for (size_t i = 0; i < s->tenants; i++)
		for (size_t k = 0; k < s->tenant[i].accesses; k++) {
			write_point(&s->tenant[i], &s->tenant[i].access[k], comma, to);
			comma = ", ";
		}
	fclose(to);
	return text;
}
