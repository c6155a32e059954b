/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what translators tell of where an object is, and puts into words why it is there. */
#include "found.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "location.h"
#include "path.h"

json_t *found_text(const char *bytes)
{
	json_t *text = json_string(bytes);
	char *copy;

	if (text)
		return text;
	copy = path_format("%s", bytes);
	for (char *at = copy; *at; at++)
		if ((unsigned char)*at >= 0x80)
			*at = '?';
	text = json_string(copy);
	free(copy);
	return text;
}

/* ---- reading ---- */

struct reading {
	json_t *found, *subvolume, *brick; /* borrowed; the last two are what a line is about, or NULL */
};

static json_t *list_in(json_t *object, const char *name)
{
	json_t *list = json_object_get(object, name);

	if (list)
		return list;
	list = json_array();
	json_object_set_new(object, name, list);
	return list;
}

static json_t *begin(json_t *list)
{
	json_t *object = json_object();

	json_array_append_new(list, object);
	return object;
}

/* A number, then the rest. */
static json_int_t number_of(char *value, char **rest)
{
	json_int_t number = strtoll(value, rest, 10);

	*rest += **rest == ' ';
	return number;
}

static void begin_subvolume(struct reading *r, json_int_t number, const char *name)
{
	r->subvolume = begin(list_in(r->found, "subvolumes"));
	r->brick = NULL;
	json_object_set_new(r->subvolume, "subvolume", json_integer(number));
	json_object_set_new(r->subvolume, "name", name ? found_text(name) : json_null());
	json_object_set_new(r->subvolume, "of", json_integer(1));
	list_in(r->subvolume, "bricks");
}

static json_t *the_subvolume(struct reading *r)
{
	if (!r->subvolume) /* a volume that has no cluster/dht */
		begin_subvolume(r, 0, NULL);
	return r->subvolume;
}

static void begin_brick(struct reading *r)
{
	r->brick = begin(list_in(the_subvolume(r), "bricks"));
	json_object_set_new(r->brick, "has_it", json_false());
	json_object_set_new(r->brick, "answers", json_true());
}

static json_t *the_brick(struct reading *r)
{
	if (!r->brick)
		begin_brick(r);
	return r->brick;
}

static void read_member(struct reading *r, char *value)
{
	char *state;
	json_int_t number = number_of(value, &state);

	begin_brick(r);
	json_object_set_new(r->brick, "member", json_integer(number));
	json_object_set_new(r->brick, "state", found_text(state));
	json_object_set_new(r->brick, "arbiter", json_false());
}

static void read_brick(struct reading *r, const char *value)
{
	if (!r->brick || json_object_get(r->brick, "client"))
		begin_brick(r);
	json_object_set_new(r->brick, "client", found_text(value));
}

/* What the brick does. Errors of ours that no application sees are all for a moment (request.h). */
static const char *why_not(int err)
{
	switch (err) {
	case ENOTCONN:
	case ETIMEDOUT:
		return "does not answer";
	case ENOENT:
	case ESTALE:
		return "does not have it";
	case ENODATA:
	case EOPNOTSUPP:
		return "does not tell: its server is of an older version";
	default:
		return error_is_ours(err) ? "can't tell just now" : strerror(err);
	}
}

static void read_error(struct reading *r, const char *value)
{
	int err = atoi(value);
	bool silent = err == ENOTCONN || err == ETIMEDOUT;

	json_object_set_new(the_brick(r), "error", json_string(why_not(err)));
	if (silent)
		json_object_set_new(r->brick, "answers", json_false());
}

static void read_name(struct reading *r, char *value)
{
	char *hash = value, *owner = strchr(value, ' '), *name;
	json_int_t number;

	if (!owner)
		return;
	*owner++ = '\0';
	number = number_of(owner, &name);
	json_array_append_new(list_in(the_subvolume(r), "by_hash"),
			      json_pack("{s:o, s:s, s:I}", "name", found_text(name), "hash", hash, "subvolume", number));
}

static void read_weights(struct reading *r, char *value)
{
	json_t *list = list_in(the_subvolume(r), "weights");

	while (*value)
		json_array_append_new(list, json_integer(number_of(value, &value)));
}

static void read_gfid(struct reading *r, const char *value)
{
	json_object_set_new(r->found, "gfid", json_string(value));
	json_object_set_new(the_brick(r), "has_it", json_true());
}

static void read_line(struct reading *r, const char *key, char *value)
{
	char *rest;
	json_int_t number;

	if (!strcmp(key, "subvolume")) {
		number = number_of(value, &rest);
		begin_subvolume(r, number, rest);
	} else if (!strcmp(key, "member")) {
		read_member(r, value);
	} else if (!strcmp(key, "brick")) {
		read_brick(r, value);
	} else if (!strcmp(key, "error")) {
		read_error(r, value);
	} else if (!strcmp(key, "name")) {
		read_name(r, value);
	} else if (!strcmp(key, "weights")) {
		read_weights(r, value);
	} else if (!strcmp(key, "gfid")) {
		read_gfid(r, value);
	} else if (!strcmp(key, "of")) {
		json_object_set_new(the_subvolume(r), key, json_integer(atoll(value)));
	} else if (!strcmp(key, "names")) {
		json_object_set_new(r->found, key, json_integer(atoll(value)));
	} else if (!strcmp(key, "port")) {
		json_object_set_new(the_brick(r), key, json_integer(atoll(value)));
	} else if (!strcmp(key, "away")) {
		json_object_set_new(the_subvolume(r), key, json_true());
	} else if (!strcmp(key, "arbiter")) {
		json_object_set_new(the_brick(r), key, json_true());
	} else if (!strcmp(key, "path") && *value == '/') {
		json_array_append_new(list_in(the_brick(r), "paths"), found_text(value));
	} else if (!strcmp(key, "serves")) {
		json_object_set_new(the_brick(r), "brick", found_text(value));
	} else { /* host, id, directory; what a later version tells */
		json_object_set_new(the_brick(r), key, found_text(value));
	}
}

json_t *found_read(char *text, size_t size)
{
	struct reading r = { json_object(), NULL, NULL };
	const char *key;
	char *at = text, *value;

	while ((value = location_next(&at, text + size, &key)))
		read_line(&r, key, value);
	list_in(r.found, "subvolumes");
	return r.found;
}

/* ---- why ---- */

static bool equal_weights(const json_t *weights)
{
	for (size_t i = 1; i < json_array_size(weights); i++)
		if (!json_equal(json_array_get(weights, 0), json_array_get(weights, i)))
			return false;
	return true;
}

static char *weights_text(const json_t *subvolume)
{
	json_t *weights = json_object_get(subvolume, "weights"), *one;
	bool equal = equal_weights(weights);
	char *text = path_format("%s", equal ? "equal weights" : "the weights"), *longer;
	size_t i;

	if (equal)
		return text;
	json_array_foreach(weights, i, one)
	{
		longer = path_format("%s %" JSON_INTEGER_FORMAT, text, json_integer_value(one));
		free(text);
		text = longer;
	}
	return text;
}

/* Is it the name itself, or is the object below it? */
static bool is_path(const json_t *subvolume, const char *name)
{
	json_t *brick, *path;
	size_t i, k;

	json_array_foreach(json_object_get(subvolume, "bricks"), i, brick)
	{
		json_array_foreach(json_object_get(brick, "paths"), k, path)
		{
			if (!strcmp(json_string_value(path) + 1, name))
				return true;
		}
	}
	return false;
}

static char *why_name(const json_t *subvolume, const json_t *by_hash)
{
	cleanup_path char *name = path_shown(json_text(by_hash, "name"));
	bool itself = is_path(subvolume, json_text(by_hash, "name"));
	json_int_t owner = json_number(by_hash, "subvolume"), here = json_number(subvolume, "subvolume");

	return path_format("%s %s, which hashes to subvolume %" JSON_INTEGER_FORMAT " (%s)%s",
			   itself ? "its name in the root is" : "it is below the top-level directory", name, owner,
			   json_text(by_hash, "hash"), owner == here ? "" : ": it is not where it belongs");
}

/* Of a file whose names are all elsewhere, or some of them. */
static char *why_away(const json_t *subvolume)
{
	bool others = json_array_size(json_object_get(subvolume, "by_hash"));

	return path_format(
		"%s elsewhere, at the subvolume of %s directory, where a pointer leads here: it was linked there, or made while there "
		"was little room%s",
		others ? "one of its names is" : "its name is", others ? "that one's" : "its", others ? "; the other: " : "");
}

static char *why_hash(const json_t *subvolume)
{
	cleanup_path char *weights = weights_text(subvolume);
	char *text = path_format("%s", ""), *longer;
	json_t *one;
	size_t i;

	json_array_foreach(json_object_get(subvolume, "by_hash"), i, one)
	{
		cleanup_path char *name = why_name(subvolume, one);

		longer = path_format("%s%s%s", text, *text ? "; " : "", name);
		free(text);
		text = longer;
	}
	longer =
		*text ? path_format("%s; the %" JSON_INTEGER_FORMAT " subvolumes have %s", text, json_number(subvolume, "of"),
				    weights)
		      : path_format(
				"by the hash of its name in the root, or of the one that it is below; which that is was not told");
	free(text);
	return longer;
}

char *found_why(const json_t *found)
{
	json_t *subvolumes = json_object_get(found, "subvolumes"), *first = json_array_get(subvolumes, 0);

	if (json_number(first, "of") == 1)
		return path_format("the volume has a single subvolume");
	if (json_array_size(subvolumes) > 1)
		return path_format("the root is at all subvolumes");
	if (json_object_get(first, "away")) {
		cleanup_path char *away = why_away(first), *rest = why_hash(first);

		return path_format("%s%s", away, json_array_size(json_object_get(first, "by_hash")) ? rest : "");
	}
	return why_hash(first);
}
