/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus tenant`: makes, shows, suspends and deletes the tenants of a volume (doc/tenants.md), in its committed specification. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "charged.h"
#include "cluster-client.h"
#include "command.h"
#include "difference.h"
#include "json.h"
#include "path.h"
#include "remote.h"
#include "service.h"
#include "tenant-json.h"
#include "verbs.h"

enum {
	KEY_DRY = 1000,
	KEY_IDS,
	KEY_BYTES,
	KEY_INODES,
	KEY_OPS,
	KEY_BANDWIDTH,
	KEY_WEIGHT,
	KEY_SOFT_BYTES,
	KEY_SOFT_INODES,
	KEY_GRACE
};

struct arguments {
	struct words words;
	struct ask_form ask;
	struct remote remote;
	bool dry_run;
	uint32_t ids; /* 0: as usual */
	struct spec_limits limits;
};

/* "7d", "12h", "30m", "90s", seconds; "none" is 0. */
static int take_duration(const char *text, uint64_t *seconds)
{
	static const char units[] = "smhd";
	static const uint64_t unit_s[] = { 1, 60, 3600, 86400 };
	char *end;
	unsigned long long number = strtoull(text, &end, 10);
	const char *unit = *end ? strchr(units, *end) : units;

	*seconds = 0;
	if (!strcmp(text, "none"))
		return 0;
	if (*text < '0' || *text > '9' || !unit || (*end && end[1]) || number > SPEC_GRACE_MAX / unit_s[unit - units])
		return -EINVAL;
	*seconds = number * unit_s[unit - units];
	return 0;
}

static void take_soft(struct spec_limits *l, int key, const char *value, struct argp_state *state)
{
	if (key == KEY_GRACE) {
		l->has_grace = true;
		if (take_duration(value, &l->grace))
			argp_error(state, "'%s' is no time of grace: write 7d, 12h, 30m, 90s, 10 years at most, or none",
				   value);
	} else if (key == KEY_SOFT_BYTES) {
		l->has_soft_bytes = true;
		if (amount_take(value, &l->soft_bytes))
			argp_error(state, "'%s' is no size: write 500M, 20G, 1T, a number of bytes, or 0 for no limit", value);
	} else {
		l->has_soft_inodes = true;
		if (amount_take(value, &l->soft_inodes))
			argp_error(state, "'%s' is no number of files: write 100000, 5M, or 0 for no limit", value);
	}
}

static void take_rate(struct spec_limits *l, int key, const char *value, struct argp_state *state)
{
	if (key == KEY_OPS) {
		l->has_ops = true;
		if (amount_take(value, &l->ops))
			argp_error(state, "'%s' is no number of operations: write 2000, 5K, or none", value);
	} else if (key == KEY_BANDWIDTH) {
		l->has_bandwidth = true;
		if (amount_take(value, &l->bandwidth) || (l->bandwidth && l->bandwidth < SPEC_BANDWIDTH_MIN))
			argp_error(state, "'%s' is no bandwidth: write bytes in a second, 64K or more (500K, 50M, 1G), or none",
				   value);
	} else {
		l->has_weight = true;
		if (amount_take(value, &l->weight) || l->weight > SPEC_WEIGHT_MAX || (!l->weight && strcmp(value, "none") != 0))
			argp_error(state, "'%s' is no weight: write a number from 1 to %d, or none", value, SPEC_WEIGHT_MAX);
	}
}

static error_t option(int key, char *value, struct argp_state *state)
{
	struct arguments *a = state->input;
	unsigned long long ids;
	char *end;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->ask;
		state->child_inputs[1] = &a->remote;
		return 0;
	case KEY_DRY:
		a->dry_run = true;
		return 0;
	case KEY_BYTES:
		a->limits.has_bytes = true;
		if (amount_take(value, &a->limits.bytes))
			argp_error(state, "'%s' is no size: write 500M, 20G, 1T, a number of bytes, or 0 for no limit", value);
		return 0;
	case KEY_INODES:
		a->limits.has_inodes = true;
		if (amount_take(value, &a->limits.inodes))
			argp_error(state, "'%s' is no number of files: write 100000, 5M, or 0 for no limit", value);
		return 0;
	case KEY_SOFT_BYTES:
	case KEY_SOFT_INODES:
	case KEY_GRACE:
		take_soft(&a->limits, key, value, state);
		return 0;
	case KEY_OPS:
	case KEY_BANDWIDTH:
	case KEY_WEIGHT:
		take_rate(&a->limits, key, value, state);
		return 0;
	case KEY_IDS:
		ids = strtoull(value, &end, 10);
		if (*end || *value < '0' || *value > '9' || !ids || ids >= SPEC_TENANT_END - SPEC_TENANT_BASE)
			argp_error(state, "'%s' is no number of user ids: %d are usual", value, SPEC_TENANT_IDS);
		a->ids = (uint32_t)ids;
		return 0;
	default:
		return words_take(&a->words, key, value, state);
	}
}

static const char *volume_of(const struct arguments *a)
{
	return a->words.word[1];
}

static const char *name_of(const struct arguments *a)
{
	return a->words.word[2];
}

/* ---- showing ---- */

/* "1.5 TiB", if it is so much that digits are hard to read. */
static const char *about(uint64_t bytes, char text[24])
{
	static const char units[] = "KMGTPE";
	double size = (double)bytes / 1024;
	int unit = 0;

	for (; size >= 1023.95 && units[unit + 1]; unit++)
		size /= 1024;
	if (bytes < 1024)
		return "";
	snprintf(text, 24, size == (double)(uint64_t)size ? " (%.0f %ciB)" : " (%.1f %ciB)", size, units[unit]);
	return text;
}

static void show_amounts(const struct spec_tenant *t)
{
	char text[24];

	if (t->bytes)
		printf("  it may have %" PRIu64 " bytes%s\n", t->bytes, about(t->bytes, text));
	if (t->inodes)
		printf("  it may have %" PRIu64 " files, directories and links\n", t->inodes);
	if (t->soft_bytes)
		printf("  it should not have more than %" PRIu64 " bytes%s\n", t->soft_bytes, about(t->soft_bytes, text));
	if (t->soft_inodes)
		printf("  it should not have more than %" PRIu64 " files, directories and links\n", t->soft_inodes);
	if (t->grace)
		printf("  with more than it should have for %" PRIu64 " s it may have no more\n", t->grace);
}

/* What this server's bricks tell; elsewhere they are asked there. */
static void show_charged(const json_t *charged)
{
	cleanup_path char *over = charged ? charged_over(charged) : NULL;

	if (charged)
		printf("  it has %" JSON_INTEGER_FORMAT " bytes and %" JSON_INTEGER_FORMAT
		       " files, directories and links%s%s%s\n",
		       json_number(charged, "bytes"), json_number(charged, "inodes"), *over ? ", " : "", over,
		       json_is_true(json_object_get(charged, "exact")) ? "" : " (not exact)");
}

/* Of one that was deleted: how far its removal is. What is charged is what is left. */
static void show_left(const json_t *charged)
{
	if (charged && json_number(charged, "inodes"))
		printf("  its files are being removed: %" JSON_INTEGER_FORMAT " bytes and %" JSON_INTEGER_FORMAT
		       " files, directories and links are left\n",
		       json_number(charged, "bytes"), json_number(charged, "inodes"));
	else if (charged)
		printf("  its files are removed from the bricks that this server serves, %" JSON_INTEGER_FORMAT
		       "; each server tells of its own\n",
		       json_number(charged, "bricks"));
}

static void show_rates(const struct spec_tenant *t)
{
	if (t->ops)
		printf("  it may use %" PRIu64 " operations in a second on each brick\n", t->ops);
	if (t->bandwidth)
		printf("  it may read and write %" PRIu64 " bytes in a second on each brick\n", t->bandwidth);
	if (t->weight)
		printf("  its share has the weight %" PRIu64 "\n", t->weight);
}

static void show(const struct arguments *a, const struct spec *s, const struct spec_tenant *t, const json_t *charged)
{
	char id[GFID_TEXT];

	if (a->ask.json) {
		json_t *one = tenant_json(s, t, true);
		cleanup_path char *identity = path_format("stratus:tenant/%s", t->name);

		json_object_set_new(one, "identity", json_string(identity));
		if (charged)
			json_object_set(one, "charged", (json_t *)charged);
		json_show(one);
		json_decref(one);
		return;
	}
	printf("tenant %s of volume %s: %s\n  id %s, user ids %u to %" PRIu64
	       " on the bricks\n  its certificates say URI:stratus:tenant/%s\n",
	       t->name, s->volume, spec_tenant_state(t), gfid_text(&t->id, id), t->base, (uint64_t)t->base + t->count - 1,
	       t->name);
	if (t->state == SPEC_TENANT_DELETED) {
		show_left(charged);
		return;
	}
	show_amounts(t);
	show_rates(t);
	show_charged(charged);
}

/* Limits only where there are some. */
static void show_line(const struct spec_tenant *t)
{
	printf("%-24s %-10s %10u %10u", t->name, spec_tenant_state(t), t->base, t->count);
	if (t->ops)
		printf("  ops %" PRIu64, t->ops);
	if (t->bandwidth)
		printf("  bandwidth %" PRIu64, t->bandwidth);
	if (t->weight)
		printf("  weight %" PRIu64, t->weight);
	putchar('\n');
}

static void show_all(const struct arguments *a, const struct spec *s)
{
	json_t *list = json_array();

	if (!a->ask.json && s->tenants)
		printf("%-24s %-10s %10s %10s  %s\n", "TENANT", "STATE", "FIRST ID", "IDS", "RATES");
	for (size_t i = 0; i < s->tenants; i++) {
		const struct spec_tenant *t = &s->tenant[i];

		if (a->ask.json)
			json_array_append_new(list, tenant_json(s, t, true));
		else
			show_line(t);
	}
	if (a->ask.json)
		json_show(list);
	else if (!s->tenants)
		printf("volume %s has no tenants\n", s->volume);
	json_decref(list);
}

/* With the committed specification. */
static int read_only(const struct arguments *a,
		     int (*fn)(const struct arguments *, const struct process *keeper, struct spec *, struct problem *),
		     struct problem *p)
{
	struct process keeper = { 0 };
	struct spec s = { 0 };
	uint64_t version;
	int err = keeper_find(a->ask.stratusd, &keeper, p);

	if (!err)
		err = keeper_get(&keeper, volume_of(a), &s, &version, p);
	if (!err)
		err = fn(a, &keeper, &s, p);
	spec_free(&s);
	process_free(&keeper);
	return err;
}

static int list(const struct arguments *a, const struct process *keeper, struct spec *s, struct problem *p)
{
	(void)keeper;
	if (!s->has_tenants)
		return problem_set(p, ENOENT, "volume %s was created without tenants", s->volume);
	show_all(a, s);
	return 0;
}

static int info(const struct arguments *a, const struct process *keeper, struct spec *s, struct problem *p)
{
	const struct spec_tenant *t = spec_tenant_find(s, name_of(a));
	json_t *charged;

	if (!t)
		return problem_set(p, ENOENT, "volume %s has no tenant '%s': `stratus tenant list %s` shows them", s->volume,
				   name_of(a), s->volume);
	charged = charged_to(keeper, s->volume, t->name);
	show(a, s, t, charged);
	json_decref(charged);
	return 0;
}

static int tenant_list(const struct arguments *a, struct problem *p)
{
	return read_only(a, list, p);
}

/* What stratusd tells the tenant's administrator. */
static void show_told(const json_t *o)
{
	struct spec_tenant t;

	tenant_from_json(o, &t);
	printf("tenant %s of volume %s: %s\n  user ids 0 to %" JSON_INTEGER_FORMAT "\n", json_text(o, "tenant"),
	       json_text(o, "volume"), json_text(o, "state"), json_number(o, "count") - 1);
	show_amounts(&t);
	show_rates(&t);
	show_charged(json_object_get(o, "charged"));
}

static int info_remotely(const struct arguments *a, struct problem *p)
{
	cleanup_path char *path = remote_path(volume_of(a), name_of(a), "", p);
	json_t *answer = NULL;
	int err = path ? remote_ask(&a->remote, "GET", path, NULL, &answer, p) : -EINVAL;

	if (!err && a->ask.json)
		json_show(answer);
	else if (!err)
		show_told(answer);
	json_decref(answer);
	return err;
}

static int tenant_info(const struct arguments *a, struct problem *p)
{
	return a->remote.servers ? info_remotely(a, p) : read_only(a, info, p);
}

/* ---- changing ---- */

static void tell(const struct arguments *a, const struct spec *s, const json_t *answer)
{
	if (a->dry_run && !a->ask.json) {
		difference_print(json_text(answer, "before"), json_text(answer, "after"), stdout);
		puts("nothing was changed");
		return;
	}
	if (!a->ask.json && !json_is_true(json_object_get(answer, "changed")))
		fputs("nothing differs: ", stdout);
	show(a, s, spec_tenant_find(s, name_of(a)), NULL);
}

static int commit(const struct arguments *a, const struct process *keeper, const struct spec *s, uint64_t version,
		  struct problem *p)
{
	cleanup_path char *number = path_format("%" PRIu64, version);
	json_t *answer = NULL;
	int err = keeper_commit(keeper, number, a->dry_run ? COMMIT_DRY : COMMIT_BRIEFLY, s, &answer, p);

	if (!err)
		tell(a, s, answer);
	if (!err)
		err = keeper_judge(answer, p);
	json_decref(answer);
	return err;
}

/* For what shows the difference, and with a stratusd of an older version. */
static int edit_copy(const struct arguments *a, const struct process *keeper, struct tenant_edit *e, struct problem *p)
{
	struct spec s = { 0 };
	uint64_t version = 0;
	int err = keeper_get(keeper, volume_of(a), &s, &version, p);

	if (!err)
		err = tenant_edit_spec(&s, e, p);
	if (!err)
		err = commit(a, keeper, &s, version, p);
	spec_free(&s);
	return err;
}

static void tell_edited(const struct arguments *a, const json_t *answer)
{
	const json_t *one = json_object_get(answer, "tenant");
	struct spec s = { .volume = (char *)volume_of(a) };
	struct spec_tenant t;

	if (tenant_from_json(one, &t)) /* somebody else has deleted the volume meanwhile */
		return;
	if (!a->ask.json && !json_is_true(json_object_get(answer, "changed")))
		fputs("nothing differs: ", stdout);
	show(a, &s, &t, NULL);
}

static int edit_there(const struct arguments *a, const struct process *keeper, const struct tenant_edit *e, struct problem *p)
{
	cleanup_path char *line = path_format("cluster tenant %s %s", e->verb, volume_of(a));
	json_t *limits = tenant_edit_json(e), *answer = NULL;
	char *body = limits ? json_dumps(limits, 0) : NULL;
	int err = body ? keeper_ask(keeper, line, body, &answer, p)
		       : problem_set(p, EINVAL, "the name of the tenant is no text in UTF-8");

	if (!err)
		tell_edited(a, answer);
	if (!err)
		err = keeper_judge(answer, p);
	json_decref(answer);
	json_decref(limits);
	free(body);
	return err;
}

static int edit(const struct arguments *a, const char *verb, struct problem *p)
{
	struct tenant_edit e = { verb, name_of(a), a->ids, a->limits };
	struct process keeper = { 0 };
	int err = keeper_find(a->ask.stratusd, &keeper, p);

	if (!err && !a->dry_run && json_is_true(json_object_get(keeper.info, "tenant-verbs")))
		err = edit_there(a, &keeper, &e, p);
	else if (!err)
		err = edit_copy(a, &keeper, &e, p);
	process_free(&keeper);
	return err;
}

static bool has_limits(const struct spec_limits *l)
{
	return l->has_bytes || l->has_inodes || l->has_soft_bytes || l->has_soft_inodes || l->has_grace || l->has_ops ||
	       l->has_bandwidth || l->has_weight;
}

static int tenant_create(const struct arguments *a, struct problem *p)
{
	return edit(a, "create", p);
}

static int tenant_resize(const struct arguments *a, struct problem *p)
{
	if (!has_limits(&a->limits))
		return problem_set(
			p, EINVAL,
			"say what it is to have: --quota SIZE, --inodes NUMBER, --soft-quota SIZE, --soft-inodes NUMBER, --grace TIME, --ops NUMBER, --bandwidth SIZE, --weight "
			"NUMBER (none: no limit)");
	return edit(a, "resize", p);
}

static int tenant_suspend(const struct arguments *a, struct problem *p)
{
	return edit(a, "suspend", p);
}

static int tenant_resume(const struct arguments *a, struct problem *p)
{
	return edit(a, "resume", p);
}

static int tenant_delete(const struct arguments *a, struct problem *p)
{
	return edit(a, "delete", p);
}

int command_tenant(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "dry-run", KEY_DRY, NULL, 0,
		  "With create, resize, suspend, resume, delete: check it and show the difference, change nothing", 0 },
		{ "ids", KEY_IDS, "NUMBER", 0, "With create: so many user and group ids (65536); they never change", 0 },
		{ "quota", KEY_BYTES, "SIZE", 0,
		  "With create, resize: it may have so many bytes on all bricks together, as `stratus usage` counts them (500M, 20G, 1T; 0: no limit)",
		  0 },
		{ "inodes", KEY_INODES, "NUMBER", 0, "With create, resize: so many files, directories and links (0: no limit)",
		  0 },
		{ "soft-quota", KEY_SOFT_BYTES, "SIZE", 0,
		  "With create, resize: more bytes than that are told of: by `stratus usage`, in the metrics, in the log (0: none are)",
		  0 },
		{ "soft-inodes", KEY_SOFT_INODES, "NUMBER", 0,
		  "With create, resize: more files, directories and links are told of (0: none are)", 0 },
		{ "grace", KEY_GRACE, "TIME", 0,
		  "With create, resize: when it has had more than a soft limit for so long (7d, 12h, 30m, 90s) it may have no more, until it has less "
		  "(none: for ever)",
		  0 },
		{ "ops", KEY_OPS, "NUMBER", 0,
		  "With create, resize: it may use so many operations in a second on each brick (none: no limit)", 0 },
		{ "bandwidth", KEY_BANDWIDTH, "SIZE", 0,
		  "With create, resize: it may read and write so many bytes in a second on each brick (500K, 50M, 1G; none: no limit)",
		  0 },
		{ "weight", KEY_WEIGHT, "NUMBER", 0,
		  "With create, resize: where several want more than the brick can do, it gets so many parts (1 to 1000; none: 1)",
		  0 },
		{ 0 },
	};
	static const struct argp_child children[] = { { &ask_argp, 0, NULL, 0 }, { &remote_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		options,
		option,
		"create VOLUME NAME\nlist VOLUME\ninfo VOLUME NAME\nresize VOLUME NAME\nsuspend VOLUME NAME\nresume VOLUME NAME\ndelete VOLUME NAME",
		"The tenants of a volume that was created with --tenants. Whose certificate says URI:stratus:tenant/NAME has a tree and user ids "
		"of its own. `create` of one that is there changes nothing but its limits, if they are given; `resize` changes those. "
		"`suspend` cuts its clients off until `resume`. `delete` does for good, "
		"and its files are removed in the background (`stratus dump` of the brick's stratusd shows how far that is); neither its name nor its ids "
		"are used again. With --server the tenant's administrator may ask for `info`, by a certificate of stratus:tenant/NAME/admin. doc/tenants.md has more.",
		children,
		NULL,
		NULL,
	};
	static const struct verb verbs[] = {
		{ "create", 3, 3, WITH_DRY_RUN | WITH_IDS | WITH_LIMITS, tenant_create },
		{ "resize", 3, 3, WITH_DRY_RUN | WITH_LIMITS, tenant_resize },
		{ "list", 2, 2, 0, tenant_list },
		{ "info", 3, 3, WITH_SERVER, tenant_info },
		{ "suspend", 3, 3, WITH_DRY_RUN, tenant_suspend },
		{ "resume", 3, 3, WITH_DRY_RUN, tenant_resume },
		{ "delete", 3, 3, WITH_DRY_RUN, tenant_delete },
		{ 0 },
	};
	const char *word[3];
	struct arguments a = { .words = { word, 1, 3, 0 } };

	arguments_parse(&argp, argc, argv, 0, NULL, &a);
	return verbs_run(argv[0], verbs, a.words.word[0], a.words.count,
			 (a.dry_run ? WITH_DRY_RUN : 0) | (a.ids ? WITH_IDS : 0) | (has_limits(&a.limits) ? WITH_LIMITS : 0) |
				 (a.remote.servers ? WITH_SERVER : 0),
			 &a);
}
