/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus locate`: on which bricks an object of a mount is, and why there. */
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "command.h"
#include "found.h"
#include "json.h"
#include "location.h"
#include "mounted.h"
#include "path.h"
#include "service.h"

/* ---- asking ---- */

/* 0 and what the mount tells of it, or -errno. */
static int ask(const char *path, json_t **found)
{
	char *text = malloc(LOCATION_MAX);
	ssize_t n = text ? lgetxattr(path, LOCATION_XATTR, text, LOCATION_MAX) : -1;
	int err = n < 0 ? -errno : 0;

	*found = err ? NULL : found_read(text, (size_t)n);
	free(text);
	return err;
}

static bool has_it(const json_t *brick, void *unused)
{
	(void)unused;
	return json_is_true(json_object_get(brick, "has_it"));
}

static bool has_path(const json_t *brick, void *unused)
{
	(void)unused;
	return json_array_size(json_object_get(brick, "paths"));
}

static bool is_silent(const json_t *brick, void *unused)
{
	(void)unused;
	return json_is_false(json_object_get(brick, "answers"));
}

/* Is a brick so? The first ends it. */
static bool bricks_any(const json_t *found, bool (*is)(const json_t *brick, void *arg), void *arg)
{
	json_t *subvolume, *brick;
	size_t i, k;

	json_array_foreach(json_object_get(found, "subvolumes"), i, subvolume)
	{
		json_array_foreach(json_object_get(subvolume, "bricks"), k, brick)
		{
			if (is(brick, arg))
				return true;
		}
	}
	return false;
}

/* A server that was started anew knows the way to a file only when it has seen its directory. */
static void ask_again(const char *path, json_t **found)
{
	cleanup_path char *copy = path_format("%s", path);
	json_t *directory = NULL, *again = NULL;

	if (!ask(dirname(copy), &directory) && !ask(path, &again)) {
		json_decref(*found);
		*found = again;
	}
	json_decref(directory);
}

/* ---- what can be wrong ---- */

/* For a sentence, in which the cause must have room behind it. */
static char *short_name(const char *path)
{
	enum { ROOM = 256 };
	char *shown = path_shown(path), *tail;
	size_t length = strlen(shown);

	if (length <= ROOM)
		return shown;
	tail = path_format("...%s", shown + length - ROOM);
	free(shown);
	return tail;
}

static char *brick_text(const json_t *brick)
{
	const char *name = json_text(brick, "brick");

	return path_format("%s at %s:%" JSON_INTEGER_FORMAT, *name ? name : "a brick", json_text(brick, "host"),
			   json_number(brick, "port"));
}

struct listed {
	char *text; /* or NULL */
	unsigned count;
};

static bool add_silent(const json_t *brick, void *arg)
{
	struct listed *silent = arg;
	cleanup_path char *before = NULL, *one = NULL;

	if (!is_silent(brick, NULL))
		return false;
	before = silent->text;
	one = brick_text(brick);
	silent->text = before ? path_format("%s, %s", before, one) : path_format("%s", one);
	silent->count++;
	return false;
}

/* False: all that are told of answer. */
static bool say_silent(const char *shown, const json_t *found, struct problem *p)
{
	struct listed silent = { NULL, 0 };

	bricks_any(found, add_silent, &silent);
	if (silent.count)
		problem_set(p, ENOTCONN, "can't reach %s: %s %s not answer; start stratusd there", shown, silent.text,
			    silent.count == 1 ? "does" : "do");
	free(silent.text);
	return silent.count;
}

/* Asks the root of the mount, which answers also while all its bricks are down. From "/" on: below that root each step may wait for one.
 * -ENOTCONN: there is nobody to ask. */
static int ask_mount(const char *path, json_t **found)
{
	cleanup_path char *above = path_absolute(path);
	int err = -EOPNOTSUPP;
	char *at = above;

	while (err && err != -ENOTCONN && *at) {
		char *next = strchrnul(at + 1, '/'), kept = *next;

		*next = '\0';
		err = ask(above, found);
		*next = kept;
		at = next;
	}
	return err;
}

static int say_unreached(const char *path, int err, struct problem *p)
{
	cleanup_path char *shown = short_name(path);
	json_t *found = NULL;
	int mount = ask_mount(path, &found);
	bool told = !mount && say_silent(shown, found, p);

	json_decref(found);
	if (told)
		return -p->error;
	if (mount == -ENOTCONN)
		return problem_set(p, ENOTCONN,
				   "can't reach %s: the process of its mount has ended; unmount it and mount it again", shown);
	return problem_set(p, -err, "can't reach %s: %s; the log of the mount tells more, and `stratus status` on a server",
			   shown, strerror(-err));
}

static int say_why_not(const char *path, int err, struct problem *p)
{
	cleanup_path char *shown = short_name(path);

	switch (-err) {
	case ENOENT:
	case ENOTDIR:
	case ENAMETOOLONG:
	case ELOOP:
		return problem_set(p, -err, "there is no %s (%s): check the name", shown, strerror(-err));
	case EACCES:
	case EPERM:
		return problem_set(p, -err, "you may not look at %s: ask as somebody who may search the directories above it",
				   shown);
	case ENOTCONN:
	case EIO:
	case ETIMEDOUT:
	case ESTALE:
		return say_unreached(path, err, p);
	case ENODATA:
	case EOPNOTSUPP:
		return problem_set(
			p, -err,
			"the mount of %s does not know where it is: a translator of it is of an older version, or made for tests",
			shown);
	default:
		return problem_set(p, -err, "can't locate %s: %s", shown, strerror(-err));
	}
}

static int say_nobody(const char *path, const json_t *found, struct problem *p)
{
	cleanup_path char *shown = short_name(path);

	if (say_silent(shown, found, p))
		return -p->error;
	return problem_set(p, ENOENT, "no brick that answers has %s: look whether it is still there, then ask again", shown);
}

static int locate(const char *path, json_t **found, struct problem *p)
{
	cleanup_mounted struct mounted m = { NULL, NULL };
	int err = mounted_at(path, &m);

	if (!err && !mounted_is_ours(&m)) {
		cleanup_path char *shown = short_name(path), *point = short_name(m.point ? m.point : "something unknown");

		return problem_set(p, EINVAL, "%s is on %s (%s), not on a mount of StratusFS: `stratus ps` lists those", shown,
				   point, m.type ? m.type : "?");
	}
	if (!err)
		err = ask(path, found);
	if (!err && json_number(*found, "names") == 1 && !bricks_any(*found, has_path, NULL))
		ask_again(path, found);
	if (err)
		return say_why_not(path, err, p);
	return bricks_any(*found, has_it, NULL) ? 0 : say_nobody(path, *found, p);
}

/* ---- printing ---- */

static void print_state(const json_t *brick)
{
	if (json_object_get(brick, "state"))
		printf(", %s", json_text(brick, "state"));
	if (json_is_true(json_object_get(brick, "arbiter")))
		fputs(", arbiter without data", stdout);
	if (!has_it(brick, NULL))
		printf(", %s", json_text(brick, "error"));
}

static void print_brick(const json_t *brick, json_int_t names)
{
	cleanup_path char *directory = path_shown(json_text(brick, "directory")), *text = brick_text(brick);
	json_t *path;
	size_t i;

	printf("    %s", text);
	print_state(brick);
	if (*directory)
		printf(", directory %s", directory);
	putchar('\n');
	json_array_foreach(json_object_get(brick, "paths"), i, path)
	{
		cleanup_path char *shown = path_shown(json_string_value(path));

		printf("      %s\n", shown);
	}
	if (has_it(brick, NULL) && !has_path(brick, NULL))
		printf("      its path was not told%s\n",
		       names > 1 ? ": of a file with several names that is for root only" : "");
}

static void print_found(const char *path, const json_t *found)
{
	cleanup_path char *shown = path_shown(path);
	json_t *subvolume, *brick;
	size_t i, k;

	printf("%s\n  gfid %s\n  %s\n", shown, json_text(found, "gfid"), json_text(found, "why"));
	json_array_foreach(json_object_get(found, "subvolumes"), i, subvolume)
	{
		if (*json_text(subvolume, "name"))
			printf("  subvolume %" JSON_INTEGER_FORMAT ", %s:\n", json_number(subvolume, "subvolume"),
			       json_text(subvolume, "name"));
		json_array_foreach(json_object_get(subvolume, "bricks"), k, brick)
			print_brick(brick, json_number(found, "names"));
	}
}

/* ---- the command ---- */

struct arguments {
	bool json;
	char **path;
	int paths;
};

/* What is to be told of it, a new object; *failed: the exit status, if it could not be located. */
static json_t *locate_next(const char *program, const char *path, int *failed)
{
	struct problem p = { "" };
	json_t *found = NULL;
	int err = locate(path, &found, &p);

	if (!found)
		found = json_object();
	json_object_set_new(found, "path", found_text(path));
	if (err) {
		*failed = problem_print(program, &p);
		json_object_set_new(found, "problem", found_text(p.text));
	} else {
		cleanup_path char *why = found_why(found);

		json_object_set_new(found, "why", found_text(why));
	}
	return found;
}

/* One by one as they are found; JSON at the end. */
static int locate_all(const struct arguments *a, const char *program)
{
	json_t *all = json_array();
	int failed = 0;

	for (int i = 0; i < a->paths; i++) {
		json_t *found = locate_next(program, a->path[i], &failed);

		if (!a->json && json_object_get(found, "why"))
			print_found(a->path[i], found);
		json_array_append_new(all, found);
	}
	if (a->json)
		json_show(all);
	json_decref(all);
	return failed;
}

static error_t option(int key, char *value, struct argp_state *state)
{
	struct arguments *a = state->input;

	(void)value;
	switch (key) {
	case 'j':
		a->json = true;
		return 0;
	case ARGP_KEY_ARGS: /* after the options */
		a->path = state->argv + state->next;
		a->paths = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no path is named");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int command_locate(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "json", 'j', NULL, 0, "Print JSON", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		options,
		option,
		"PATH...",
		"Tells of files and directories on a mount which bricks have them, under which path on each, and why they are there. Of a "
		"symbolic link it tells where the link itself is. Whoever may look at an object may ask.",
		NULL,
		NULL,
		NULL,
	};
	struct arguments a = { .json = false };

	arguments_parse(&argp, argc, argv, 0, NULL, &a);
	return locate_all(&a, argv[0]);
}
