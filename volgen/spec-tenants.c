/* SPDX-License-Identifier: Apache-2.0 */
/* The tenants of a specification: what must hold for them, how they change, and how they are written for features/cloud. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "allot.h"
#include "log.h"
#include "path.h"
#include "volgen.h"

static const char *const states[SPEC_TENANT_STATES] = { "active", "suspended", "deleted" };

const char *spec_tenant_state(const struct spec_tenant *t)
{
	return states[t->state];
}

int spec_tenant_state_parse(const char *text)
{
	for (int i = 0; i < SPEC_TENANT_STATES; i++)
		if (!strcmp(text, states[i]))
			return i;
	return -EINVAL;
}

struct spec_tenant *spec_tenant_find(const struct spec *s, const char *name)
{
	for (size_t i = 0; i < s->tenants; i++)
		if (!strcmp(s->tenant[i].name, name))
			return &s->tenant[i];
	return NULL;
}

static uint64_t end_of(const struct spec_tenant *t)
{
	return (uint64_t)t->base + t->count;
}

/* ---- what must hold ---- */

#define bad(s, line, format, ...) problem_set(p, EINVAL, "%s:%u: " format, (s)->path, (line), ##__VA_ARGS__)

typedef int tenant_order(const void *, const void *); /* of pointers to tenants */

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct spec_tenant *const *)a)->name, (*(struct spec_tenant *const *)b)->name);
}

static int by_id(const void *a, const void *b)
{
	return memcmp(&(*(struct spec_tenant *const *)a)->id, &(*(struct spec_tenant *const *)b)->id, sizeof(struct gfid));
}

static int by_base(const void *a, const void *b)
{
	uint32_t x = (*(struct spec_tenant *const *)a)->base, y = (*(struct spec_tenant *const *)b)->base;

	return (x > y) - (x < y);
}

/* There may be many thousands. Freed by the caller. */
static struct spec_tenant **sorted(const struct spec *s, tenant_order *order)
{
	struct spec_tenant **list = malloc((s->tenants + 1) * sizeof(*list));

	if (!list)
		abort(); /* as spec_grow */
	for (size_t i = 0; i < s->tenants; i++)
		list[i] = &s->tenant[i];
	for (size_t i = 1; i < s->tenants; i++)
		if (order(&list[i - 1], &list[i]) > 0) { /* by some orders they mostly stand already */
			qsort(list, s->tenants, sizeof(*list), order);
			break;
		}
	return list;
}

static struct spec_tenant *find_sorted(struct spec_tenant **names, size_t count, const struct spec_tenant *like)
{
	struct spec_tenant **at = bsearch(&like, names, count, sizeof(*names), by_name);

	return at ? *at : NULL;
}

static int same_name(const struct spec *s, const struct spec_tenant *t, const struct spec_tenant *other, struct problem *p)
{
	if (strcmp(t->name, other->name))
		return 0;
	return bad(s, t->line, "there is a tenant '%s' in line %u: names are not used again, not after deletion either",
		   t->name, other->line);
}

static int same_id(const struct spec *s, const struct spec_tenant *t, const struct spec_tenant *other, struct problem *p)
{
	if (!gfid_equal(&t->id, &other->id))
		return 0;
	return bad(s, t->line, "tenant '%s' has the id of '%s': take a fresh one", t->name, other->name);
}

static int common_ids(const struct spec *s, const struct spec_tenant *t, const struct spec_tenant *other, struct problem *p)
{
	if (t->base >= end_of(other) || other->base >= end_of(t))
		return 0;
	return bad(s, t->line, "tenants '%s' and '%s' have user ids in common: ids are never used twice", t->name, other->name);
}

/* What no two may have shows between neighbours, in the right order. The later one of the file is told of. */
static int check_neighbours(const struct spec *s, tenant_order *order,
			    int (*check)(const struct spec *, const struct spec_tenant *, const struct spec_tenant *,
					 struct problem *),
			    struct problem *p)
{
	struct spec_tenant **list = sorted(s, order);
	int err = 0;

	for (size_t i = 1; i < s->tenants && !err; i++)
		err = list[i] > list[i - 1] ? check(s, list[i], list[i - 1], p) : check(s, list[i - 1], list[i], p);
	free(list);
	return err;
}

size_t spec_servers_of_bricks(const struct spec *s)
{
	size_t count = 0;

	for (size_t i = 0; i < s->bricks; i++) {
		size_t k = 0;

		while (s->brick[k].server != s->brick[i].server)
			k++;
		count += k == i && !s->brick[i].gone;
	}
	return count;
}

bool spec_has_allotments(const struct spec *s)
{
	return s->has_tenants && (s->replica ? spec_subvolumes(s) > 1 : spec_servers_of_bricks(s) > 1);
}

/* Each of which has an allotment. */
static size_t sharers(const struct spec *s)
{
	return s->replica ? spec_subvolumes(s) : spec_servers_of_bricks(s);
}

static int check_limits(const struct spec *s, const struct spec_tenant *t, struct problem *p)
{
	bool has = t->bytes || t->inodes || t->soft_bytes || t->soft_inodes;

	if (t->state == SPEC_TENANT_DELETED)
		return 0;
	if (has && spec_has_allotments(s) && sharers(s) > ALLOT_UNITS_MAX)
		return bad(
			s, t->line,
			"tenant '%s' can't have a limit of bytes or inodes: at most %d %s agree on one, and the volume has %zu",
			t->name, ALLOT_UNITS_MAX, s->replica ? "replica sets" : "servers", sharers(s));
	return 0;
}

static int check_soft(const struct spec *s, const struct spec_tenant *t, struct problem *p)
{
	bool bytes = t->bytes && t->soft_bytes > t->bytes, inodes = t->inodes && t->soft_inodes > t->inodes;

	if (bytes || inodes)
		return bad(s, t->line,
			   "the soft limit of %s of tenant '%s' is more than its limit, which is %" PRIu64
			   ": one that tells before is less",
			   bytes ? "bytes" : "inodes", t->name, bytes ? t->bytes : t->inodes);
	if (t->grace && !t->soft_bytes && !t->soft_inodes)
		return bad(s, t->line, "the time of grace of tenant '%s' is for more than a soft limit, and it has none",
			   t->name);
	if (t->grace > SPEC_GRACE_MAX)
		return bad(s, t->line, "the time of grace of tenant '%s' is more than 10 years: 0 is for ever", t->name);
	return 0;
}

static int check_tenant(const struct spec *s, const struct spec_tenant *t, struct problem *p)
{
	if (t->base < SPEC_TENANT_BASE || end_of(t) > SPEC_TENANT_END)
		return bad(s, t->line, "the ids of tenant '%s' must lie between %u and %" PRIu64, t->name, SPEC_TENANT_BASE,
			   SPEC_TENANT_END - 1);
	if (s->tenant_base && end_of(t) > s->tenant_base)
		return bad(s, t->line,
			   "the ids of tenant '%s' go beyond 'tenant-base: %u', the first that was never given: raise it",
			   t->name, s->tenant_base);
	if (t->weight > SPEC_WEIGHT_MAX)
		return bad(s, t->line, "the weight of tenant '%s' is more than %d", t->name, SPEC_WEIGHT_MAX);
	if (t->bandwidth && t->bandwidth < SPEC_BANDWIDTH_MIN)
		return bad(s, t->line,
			   "the bandwidth of tenant '%s' is less than %d bytes in a second: give it more, or 0 for no limit",
			   t->name, SPEC_BANDWIDTH_MIN);
	return check_soft(s, t, p) ? -EINVAL : check_limits(s, t, p);
}

int spec_check_tenants(struct spec *s, struct problem *p)
{
	uint64_t end = SPEC_TENANT_BASE;
	int err = 0;

	if (!s->has_tenants)
		return s->tenant_base ? bad(s, 1, "'tenant-base' needs 'tenants'") : 0;
	if (s->arbiter) /* it stores no contents, so it could not charge for them, and would be first at times */
		return bad(
			s, 1,
			"a volume with tenants has no arbiter in this version: take 'replica: 3' with three bricks for data, or 'replica: 2'");
	if (s->tenants > SPEC_TENANTS_MAX)
		return bad(s, 1, "more than %d tenants: a second volume can have others", SPEC_TENANTS_MAX);
	for (size_t i = 0; i < s->tenants && !err; i++) {
		err = check_tenant(s, &s->tenant[i], p);
		end = end_of(&s->tenant[i]) > end ? end_of(&s->tenant[i]) : end;
	}
	if (!err)
		err = check_neighbours(s, by_name, same_name, p);
	if (!err)
		err = check_neighbours(s, by_id, same_id, p);
	if (!err)
		err = check_neighbours(s, by_base, common_ids, p);
	if (!err)
		err = spec_check_access(s, p);
	if (!err && !s->tenant_base)
		s->tenant_base = (uint32_t)end;
	return err;
}

static int check_kept(const struct spec *s, const struct spec_tenant *t, const struct spec_tenant *now, struct problem *p)
{
	if (!now)
		return problem_set(
			p, EINVAL,
			"tenant %s of volume %s is missing: one that goes is 'state: deleted', and stays in the list", t->name,
			s->volume);
	if (!gfid_equal(&t->id, &now->id) || t->base != now->base || t->count != now->count)
		return problem_set(p, EINVAL, "tenant %s of volume %s has another id, base or count: these never change",
				   t->name, s->volume);
	if (t->state == SPEC_TENANT_DELETED && now->state != SPEC_TENANT_DELETED)
		return problem_set(p, EINVAL,
				   "tenant %s of volume %s is deleted, and can't come back: create one of another name",
				   t->name, s->volume);
	return spec_check_access_change(now, t, p);
}

int spec_check_tenants_change(const struct spec *s, const struct spec *before, struct problem *p)
{
	struct spec_tenant **now, **then;
	int err = 0;

	if (s->has_tenants != before->has_tenants)
		return problem_set(p, ENOTSUP, "volume %s %s: `stratus volume create --tenants` makes one with tenants",
				   s->volume,
				   before->has_tenants ? "has tenants, and keeps them"
						       : "was created without tenants, and can't get any");
	if (s->tenant_base < before->tenant_base)
		return problem_set(p, EINVAL, "'tenant-base' of volume %s can't fall below %u: ids are never used again",
				   s->volume, before->tenant_base);
	now = sorted(s, by_name);
	then = sorted(before, by_name);
	for (size_t i = 0; i < before->tenants && !err; i++)
		err = check_kept(s, &before->tenant[i], find_sorted(now, s->tenants, &before->tenant[i]), p);
	for (size_t i = 0; i < s->tenants && !err; i++)
		if (s->tenant[i].base < before->tenant_base && !find_sorted(then, before->tenants, &s->tenant[i]))
			err = problem_set(
				p, EINVAL,
				"tenant %s of volume %s would get ids that may have been another's: its base must be %u or more",
				s->tenant[i].name, s->volume, before->tenant_base);
	free(now);
	free(then);
	return err;
}

/* ---- changes ---- */

int spec_create_tenant(struct spec *s, const char *name, uint32_t count, struct problem *p)
{
	struct spec_tenant *t = spec_tenant_find(s, name);

	if (!s->has_tenants)
		return problem_set(
			p, ENOTSUP,
			"volume %s was created without tenants: `stratus volume create --tenants` makes one with them",
			s->volume);
	if (t && t->state == SPEC_TENANT_DELETED)
		return problem_set(p, EEXIST, "there was a tenant %s, whose certificates may live on: take another name", name);
	if (t && count && count != t->count)
		return problem_set(p, EEXIST, "there is a tenant %s with %u ids, which never change", name, t->count);
	if (t)
		return 0;
	count = count ? count : SPEC_TENANT_IDS;
	if ((uint64_t)s->tenant_base + count > SPEC_TENANT_END)
		return problem_set(p, ENOSPC, "volume %s has only %" PRIu64 " user ids left that were never given", s->volume,
				   SPEC_TENANT_END - s->tenant_base);
	t = spec_grow(&s->tenant, &s->tenants, sizeof *t);
	*t = (struct spec_tenant){ .name = path_format("%s", name), .base = s->tenant_base, .count = count };
	gfid_create(&t->id);
	s->tenant_base += count;
	return 0;
}

int spec_set_tenant(struct spec *s, const char *name, enum spec_tenant_state state, struct problem *p)
{
	struct spec_tenant *t = spec_tenant_find(s, name);

	if (!t)
		return problem_set(p, ENOENT, "volume %s has no tenant '%s': `stratus tenant list %s` shows them", s->volume,
				   name, s->volume);
	if (t->state == SPEC_TENANT_DELETED && state != SPEC_TENANT_DELETED)
		return problem_set(p, ENOENT, "tenant %s is deleted", name);
	t->state = state;
	if (state == SPEC_TENANT_DELETED)
		spec_free_access(t);
	return 0;
}

int spec_resize_tenant(struct spec *s, const char *name, const struct spec_limits *l, struct problem *p)
{
	struct spec_tenant *t = spec_tenant_find(s, name);

	if (!t || t->state == SPEC_TENANT_DELETED)
		return problem_set(p, ENOENT, "volume %s has no tenant '%s': `stratus tenant list %s` shows them", s->volume,
				   name, s->volume);
	t->bytes = l->has_bytes ? l->bytes : t->bytes;
	t->inodes = l->has_inodes ? l->inodes : t->inodes;
	t->soft_bytes = l->has_soft_bytes ? l->soft_bytes : t->soft_bytes;
	t->soft_inodes = l->has_soft_inodes ? l->soft_inodes : t->soft_inodes;
	t->grace = l->has_grace ? l->grace : t->soft_bytes || t->soft_inodes ? t->grace : 0;
	t->ops = l->has_ops ? l->ops : t->ops;
	t->bandwidth = l->has_bandwidth ? l->bandwidth : t->bandwidth;
	t->weight = l->has_weight ? l->weight : t->weight;
	return 0;
}

/* ---- writing ---- */

static void print_limit(const char *name, uint64_t limit, FILE *to)
{
	if (limit)
		fprintf(to, "    %s: %" PRIu64 "\n", name, limit);
}

void spec_print_tenants(const struct spec *s, FILE *to)
{
	char id[GFID_TEXT];

	if (!s->has_tenants)
		return;
	fprintf(to, "tenants:%s\n", s->tenants ? "" : " []");
	for (size_t i = 0; i < s->tenants; i++) {
		const struct spec_tenant *t = &s->tenant[i];

		fprintf(to, "  - name: \"%s\"\n    id: %s\n    base: %u\n    count: %u\n", t->name, gfid_text(&t->id, id),
			t->base, t->count);
		if (t->state != SPEC_TENANT_ACTIVE)
			fprintf(to, "    state: %s\n", spec_tenant_state(t));
		print_limit("bytes", t->bytes, to);
		print_limit("inodes", t->inodes, to);
		print_limit("soft-bytes", t->soft_bytes, to);
		print_limit("soft-inodes", t->soft_inodes, to);
		print_limit("grace", t->grace, to);
		print_limit("ops", t->ops, to);
		print_limit("bandwidth", t->bandwidth, to);
		print_limit("weight", t->weight, to);
		spec_print_access(t, to);
	}
	if (s->tenant_base)
		fprintf(to, "tenant-base: %u\n", s->tenant_base);
}

char *spec_tenant_table(const struct spec *s)
{
	char *text = NULL, id[GFID_TEXT];
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		abort(); /* a few bytes, in a tool */
	for (size_t i = 0; i < s->tenants; i++)
		fprintf(to, "%s%s %s %u %u %s", i ? ", " : "", s->tenant[i].name, gfid_text(&s->tenant[i].id, id),
			s->tenant[i].base, s->tenant[i].count, spec_tenant_state(&s->tenant[i]));
	fclose(to);
	return text;
}

/* Deleted ones, too, until their files are gone. */
char *spec_tenant_accounts(const struct spec *s)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		abort(); /* as above */
	for (size_t i = 0; i < s->tenants; i++) {
		const struct spec_tenant *t = &s->tenant[i];

		fprintf(to, "%s%s %u %u", i ? ", " : "", t->name, t->base, t->count);
		if (t->bytes || t->inodes || t->soft_bytes || t->soft_inodes)
			fprintf(to, " %" PRIu64 " %" PRIu64, t->bytes, t->inodes);
		if (t->soft_bytes || t->soft_inodes)
			fprintf(to, " %" PRIu64 " %" PRIu64, t->soft_bytes, t->soft_inodes);
		if (t->grace)
			fprintf(to, " %" PRIu64, t->grace);
	}
	fclose(to);
	return text;
}

/* Deleted ones have no clients. */
char *spec_tenant_shares(const struct spec *s)
{
	char *text = NULL;
	size_t size;
	const char *comma = "";
	FILE *to = open_memstream(&text, &size);

	if (!to)
		abort(); /* as above */
	for (size_t i = 0; i < s->tenants; i++) {
		const struct spec_tenant *t = &s->tenant[i];

		if (t->state == SPEC_TENANT_DELETED)
			continue;
		fprintf(to, "%s%s %u", comma, t->name, t->base);
		if (t->ops || t->bandwidth || t->weight)
			fprintf(to, " %" PRIu64 " %" PRIu64 " %" PRIu64, t->ops, t->bandwidth, t->weight ? t->weight : 1);
		comma = ", ";
	}
	fclose(to);
	return text;
}

void spec_free_tenants(struct spec *s)
{
	for (size_t i = 0; i < s->tenants; i++) {
		free(s->tenant[i].name);
		spec_free_access(&s->tenant[i]);
	}
	free(s->tenant);
}
