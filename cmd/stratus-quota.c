/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus quota`: how much a directory of a mount may have (doc/usage.md, "Quotas of directories"). It is told by, and to, the bricks as an extended attribute (libcore/quota.h). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "command.h"
#include "found.h"
#include "json.h"
#include "location.h"
#include "mounted.h"
#include "path.h"
#include "quota.h"
#include "verbs.h"

enum { KEY_BYTES = 1000, KEY_INODES };

struct arguments {
	struct words words;
	bool json, has_bytes, has_inodes;
	uint64_t bytes, inodes;
};

/* ---- asking ---- */

struct limited { /* a directory with a limit */
	json_int_t number, bytes, inodes, bytes_limit, inodes_limit;
	bool exact;
	char *path; /* in the volume; "" if it was not told */
	char *id;   /* by which an access point names it, on several bricks; else "" */
};

static void take_text(char **to, char *text)
{
	free(*to);
	*to = text;
}

static void take_line(struct limited *l, const char *key, const char *value)
{
	const struct {
		const char *key;
		json_int_t *number;
	} numbers[] = { { "number", &l->number },
			{ "bytes", &l->bytes },
			{ "inodes", &l->inodes },
			{ "bytes-limit", &l->bytes_limit },
			{ "inodes-limit", &l->inodes_limit } };

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (!strcmp(key, numbers[i].key))
			*numbers[i].number = strtoll(value, NULL, 10);
	if (!strcmp(key, "exact"))
		l->exact = !strcmp(value, "yes");
	if (!strcmp(key, "path") && !*l->path)
		take_text(&l->path, path_format("%s", value));
	if (!strcmp(key, "id") && strchr(value, '.'))
		take_text(&l->id, path_format("@%s", value));
}

static void limited_free(struct limited *l)
{
	free(l->path);
	free(l->id);
}

/* 0 or -errno. limited_free in both cases. */
static int ask(const char *path, const char *name, struct limited *l)
{
	char *text = malloc(LOCATION_MAX), *at = text;
	ssize_t n = text ? lgetxattr(path, name, text, LOCATION_MAX) : -1;
	int err = n < 0 ? -errno : 0;
	const char *key;
	char *value;

	*l = (struct limited){ .path = path_format("%s", ""), .id = path_format("%s", "") };
	while (!err && (value = location_next(&at, text + n, &key)))
		take_line(l, key, value);
	free(text);
	return err;
}

static int need_ours(const char *path, struct problem *p)
{
	cleanup_mounted struct mounted m = { NULL, NULL };
	cleanup_path char *shown = path_shown(path);
	int err = mounted_at(path, &m);

	if (err)
		return problem_set(p, -err, "can't look at %s: %s", shown, strerror(-err));
	return mounted_is_ours(&m)
		       ? 0
		       : problem_set(p, EINVAL, "%s is not on a mount of StratusFS: `stratus ps` lists those", shown);
}

static int say_why_not(const char *path, int err, struct problem *p)
{
	cleanup_path char *shown = path_shown(path);

	switch (-err) {
	case EPERM:
	case EACCES:
		return problem_set(
			p, -err,
			"you may not: this is for root at a mount with the certificate of the tenant's administrator "
			"(URI:stratus:tenant/NAME/admin), or where there are no tenants for root");
	case ENOTDIR:
		return problem_set(p, -err, "%s is no directory", shown);
	case ENOTEMPTY:
		return problem_set(p, -err,
				   "%s is not empty: make a new directory, set its quota, then move into it what is there",
				   shown);
	case EEXIST:
		return problem_set(
			p, -err,
			"%s is in a directory that has a quota: `stratus quota show` tells which, and there is none inside another",
			shown);
	case EDQUOT:
		return problem_set(
			p, -err,
			"too many directories have a quota (256 of a tenant in a replica set), or the tenant is at its own limit: "
			"`stratus quota list`, `df`");
	case EBUSY:
		return problem_set(
			p, -err,
			"%s is being moved to another brick: try again later, or ask your provider when that ends (`stratus rebalance status` tells him)",
			shown);
	case ENOTCONN:
		return problem_set(
			p, -err,
			"not all bricks can be reached: try again later, or ask your provider when they are up (`stratus status` tells him)");
	case ENOSPC:
		return problem_set(
			p, -err,
			"too many directories have a quota (256 of a tenant at a brick): `stratus quota list` shows them; or the brick is full: ask your provider for room");
	case ENODATA:
		return problem_set(p, -err, "%s has no quota of its own: `stratus quota show` tells which one holds it", shown);
	case EINVAL:
		return problem_set(
			p, -err,
			"%s can't have a quota of its own: it is the root, whose limit your provider sets: ask for another one (`stratus tenant resize`)",
			shown);
	case EOPNOTSUPP:
		return problem_set(p, -err,
				   "the volume keeps no accounts (it has no tenants), or its servers are of an older version");
	default:
		return problem_set(p, -err, "%s: %s", shown, strerror(-err));
	}
}

/* ---- telling ---- */

static json_t *as_json(const struct limited *l)
{
	json_t *one = json_pack("{s:I, s:I, s:I, s:I, s:b}", "bytes", l->bytes, "inodes", l->inodes, "bytes_limit",
				l->bytes_limit, "inodes_limit", l->inodes_limit, "exact", l->exact);

	json_object_set_new(one, "directory", found_text(l->path));
	json_object_set_new(one, "id", *l->id ? json_string(l->id) : json_null());
	return one;
}

static void print_head(void)
{
	printf("%20s %20s %12s %12s %s\n", "BYTES", "OF BYTES", "INODES", "OF INODES", "DIRECTORY");
}

static char *limit_text(json_int_t limit)
{
	return limit ? path_format("%" JSON_INTEGER_FORMAT, limit) : path_format("%s", "none");
}

static void print_one(const struct limited *l, bool with_id)
{
	cleanup_path char *bytes = limit_text(l->bytes_limit), *inodes = limit_text(l->inodes_limit),
			  *shown = path_shown(*l->path ? l->path : "?");

	printf("%20" JSON_INTEGER_FORMAT " %20s %12" JSON_INTEGER_FORMAT " %12s %s%s\n", l->bytes, bytes, l->inodes, inodes,
	       shown, l->exact ? "" : " (being recounted)");
	if (with_id && *l->id)
		printf("for `stratus access create` it is %s\n", l->id);
}

/* ---- the verbs ---- */

static const char *directory_of(const struct arguments *a)
{
	return a->words.word[1];
}

/* What is not said stays; of a directory that has no limit yet it is none. */
static int fill_in(const struct arguments *a, uint64_t *bytes, uint64_t *inodes)
{
	struct limited l;
	int err = a->has_bytes && a->has_inodes ? -ENODATA : ask(directory_of(a), QUOTA_XATTR, &l);

	*bytes = a->bytes;
	*inodes = a->inodes;
	if (a->has_bytes && a->has_inodes)
		return 0;
	if (!err && !a->has_bytes)
		*bytes = (uint64_t)l.bytes_limit;
	if (!err && !a->has_inodes)
		*inodes = (uint64_t)l.inodes_limit;
	limited_free(&l);
	return err == -ENODATA ? 0 : err;
}

static int quota_set(const struct arguments *a, struct problem *p)
{
	cleanup_path char *value = NULL;
	uint64_t bytes, inodes;
	int err = need_ours(directory_of(a), p);

	if (err)
		return err;
	if (!a->has_bytes && !a->has_inodes)
		return problem_set(p, EINVAL, "say what it may have: --bytes SIZE, --inodes NUMBER (0: no limit)");
	err = fill_in(a, &bytes, &inodes);
	value = path_format("%" PRIu64 " %" PRIu64, bytes, inodes);
	if (!err && setxattr(directory_of(a), QUOTA_XATTR, value, strlen(value), 0))
		err = -errno;
	return err ? say_why_not(directory_of(a), err, p) : 0;
}

static int quota_remove(const struct arguments *a, struct problem *p)
{
	int err = need_ours(directory_of(a), p);

	if (err)
		return err;
	err = removexattr(directory_of(a), QUOTA_XATTR) ? -errno : 0;
	if (err == -ENOTEMPTY)
		return problem_set(p, -err,
				   "in a replica set a quota is taken away from an empty directory only: lift it with "
				   "`stratus quota set --bytes 0 --inodes 0`, or move what is there into another one first");
	return err ? say_why_not(directory_of(a), err, p) : 0;
}

static int quota_show(const struct arguments *a, struct problem *p)
{
	struct limited l;
	json_t *json;
	int err = need_ours(directory_of(a), p);

	if (err)
		return err;
	err = ask(directory_of(a), QUOTA_XATTR, &l);
	if (err == -ENODATA) {
		cleanup_path char *shown = path_shown(directory_of(a));

		err = problem_set(p, ENODATA, "%s has no quota, and is in no directory that has one", shown);
	} else if (err) {
		err = say_why_not(directory_of(a), err, p);
	} else if (a->json) {
		json = as_json(&l);
		json_show(json);
		json_decref(json);
	} else {
		print_head();
		print_one(&l, true);
	}
	limited_free(&l);
	return err;
}

static int quota_list(const struct arguments *a, struct problem *p)
{
	json_t *all = json_array();
	json_int_t next = 0;
	int err = need_ours(directory_of(a), p);
	bool more = !err;

	if (more && !a->json)
		print_head();
	while (more) {
		cleanup_path char *name = path_format("%s.%" JSON_INTEGER_FORMAT, QUOTA_XATTR, next);
		struct limited l;

		err = ask(directory_of(a), name, &l);
		more = !err && l.number >= next;
		next = l.number + 1;
		if (more && !a->json)
			print_one(&l, false);
		if (more)
			json_array_append_new(all, as_json(&l));
		limited_free(&l);
	}
	if (err == -ENODATA)
		err = 0;
	else if (err < 0 && !*p->text)
		err = say_why_not(directory_of(a), err, p);
	if (!err && a->json)
		json_show(all);
	json_decref(all);
	return err;
}

/* ---- the command ---- */

static error_t option(int key, char *value, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'j':
		a->json = true;
		return 0;
	case KEY_BYTES:
		a->has_bytes = true;
		if (amount_take(value, &a->bytes))
			argp_error(state, "'%s' is no size: write 500M, 20G, 1T, a number of bytes, or 0 for no limit", value);
		return 0;
	case KEY_INODES:
		a->has_inodes = true;
		if (amount_take(value, &a->inodes))
			argp_error(state, "'%s' is no number of files: write 100000, 5M, or 0 for no limit", value);
		return 0;
	default:
		return words_take(&a->words, key, value, state);
	}
}

int command_quota(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "bytes", KEY_BYTES, "SIZE", 0,
		  "With set: it and all below it may have so many bytes (500M, 20G, 1T; 0: no limit)", 0 },
		{ "inodes", KEY_INODES, "NUMBER", 0, "With set: so many files, directories and links (0: no limit)", 0 },
		{ "json", 'j', NULL, 0, "With show, list: print JSON", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		options,
		option,
		"set DIR\nshow DIR\nlist DIR\nremove DIR",
		"How much a directory of a mount may have, with all below it: for tenants' administrators inside their trees. `set` gives a directory that is "
		"empty a quota, or changes that of one that has it (what is not said stays). Files can't be renamed or linked into or out of it "
		"then (mv(1) copies), and none below it has a quota of its own. `show` tells which quota holds what is named, and what is used of it; `list` tells all of "
		"the tenant on whose mount DIR is. `remove` takes the quota away, not the files. doc/usage.md has more.",
		NULL,
		NULL,
		NULL,
	};
	static const struct verb verbs[] = {
		{ "set", 2, 2, WITH_QUOTA, quota_set },
		{ "show", 2, 2, WITH_JSON, quota_show },
		{ "list", 2, 2, WITH_JSON, quota_list },
		{ "remove", 2, 2, 0, quota_remove },
		{ 0 },
	};
	const char *word[2];
	struct arguments a = { .words = { word, 1, 2, 0 } };

	arguments_parse(&argp, argc, argv, 0, NULL, &a);
	return verbs_run(argv[0], verbs, a.words.word[0], a.words.count,
			 (a.json ? WITH_JSON : 0) | (a.has_bytes || a.has_inodes ? WITH_QUOTA : 0), &a);
}
