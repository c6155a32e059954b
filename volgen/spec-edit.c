/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and changes specifications, for the commands that do so. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "path.h"
#include "volgen.h"

static const struct spec_server *known_server(const struct spec *s, const char *host)
{
	for (size_t i = 0; i < s->servers; i++)
		if (!strcmp(s->server[i].name, host) || !strcmp(s->server[i].host, host))
			return &s->server[i];
	return NULL;
}

static const struct spec_server *add_server(struct spec *s, const char *host, unsigned port)
{
	struct spec_server *server = spec_grow(&s->server, &s->servers, sizeof *server);
	char *name = path_format("%s", host);

	for (char *c = name; *c; c++)
		if (*c == ':' || *c == '%')
			*c = '-';
	if (*name == '-')
		*name = 'v';
	*server = (struct spec_server){
		.name = name, .host = path_format("%s", host), .port = port ? port : SPEC_PORT, .has_port = port != 0
	};
	return server;
}

/* "HOST:/directory", "[::1]:/directory"; HOST may be the name of a server, too. A brick with a fresh id, the last one. */
static int add_brick(struct spec *s, const char *text, unsigned port, struct problem *p)
{
	const char *at = strstr(text, ":/");
	const struct spec_server *server;
	struct spec_brick *brick;
	cleanup_path char *host = NULL;

	if (!at || at == text)
		return problem_set(p, EINVAL, "'%s' is no brick: write HOST:/DIRECTORY", text);
	host = path_format("%.*s", (int)(*text == '[' ? at - text - 2 : at - text), text + (*text == '['));
	server = known_server(s, host);
	if (!server)
		server = add_server(s, host, port);
	brick = spec_grow(&s->brick, &s->bricks, sizeof *brick);
	brick->server_name = path_format("%s", server->name);
	brick->directory = path_format("%s", at + 1);
	gfid_create(&brick->id);
	return 0;
}

/* What was made by hand is checked, and linked, as if it were read. */
static int reread(const struct spec *s, const char *path, struct spec *made, struct problem *p)
{
	cleanup_path char *text = spec_text(s);

	*made = (struct spec){ 0 };
	return text ? spec_parse(text, strlen(text), path, made, p) : -ENOMEM;
}

int spec_init(const char *volume, const char *const *bricks, size_t count, const struct spec_form *form, struct spec *made,
	      struct problem *p)
{
	struct spec s = { .volume = path_format("%s", volume),
			  .replica = form->replica,
			  .arbiter = form->arbiter,
			  .has_tenants = form->tenants };
	int err = 0;

	*made = (struct spec){ 0 };
	if (form->growable && !form->tenants)
		err = problem_set(p, EINVAL, "'growable' is for volumes with tenants: any other can have bricks added");
	gfid_create(&s.id);
	for (size_t i = 0; i < count && !err; i++)
		err = add_brick(&s, bricks[i], form->port, p);
	s.began = s.has_tenants && spec_subvolumes(&s) == 1 && !form->growable ? 0 : (unsigned)spec_subvolumes(&s);
	if (form->tls)
		spec_set_tls(&s, form->tls);
	if (!err)
		err = reread(&s, "the new specification", made, p);
	spec_free(&s);
	return err;
}

/* "brickN", or "SERVER:/DIRECTORY" (the server by name or host). */
static bool is_called(const struct spec_brick *b, size_t place, const char *text)
{
	cleanup_path char *number = path_format("brick%zu", place),
			  *by_name = path_format("%s:%s", b->server_name, b->directory);
	cleanup_path char *by_host =
		path_format(strchr(b->server->host, ':') ? "[%s]:%s" : "%s:%s", b->server->host, b->directory);

	return !strcmp(text, number) || !strcmp(text, by_name) || !strcmp(text, by_host);
}

static struct spec_brick *find_brick(const struct spec *s, const char *text)
{
	for (size_t i = 0; i < s->bricks; i++)
		if (!s->brick[i].gone && is_called(&s->brick[i], i, text))
			return &s->brick[i];
	return NULL;
}

int spec_replace_brick(struct spec *s, const char *old, const char *new, bool new_disk, size_t *number, struct problem *p)
{
	struct spec_brick *b = find_brick(s, old), *same = find_brick(s, new);
	int err = 0;

	if (!b && same && strstr(old, ":/") && !new_disk)
		b = same;
	if (!b)
		return problem_set(p, ENOENT, "volume %s has no brick '%s': name it brickN or SERVER:/DIRECTORY", s->volume,
				   old);
	*number = (size_t)(b - s->brick);
	if (b == same && !new_disk && strstr(new, ":/"))
		return 1;
	err = add_brick(s, new, 0, p);
	if (err)
		return err;
	b = &s->brick[*number];
	free(b->server_name);
	free(b->directory);
	*b = s->brick[--s->bricks];
	return 0;
}

/* ---- subvolumes that go ---- */

static int check_whole_sets(const struct spec *s, const bool *goes, uint64_t *numbers, struct problem *p)
{
	size_t set = spec_set_size(s);

	*numbers = 0;
	for (size_t i = 0; i < s->bricks; i++) {
		if (goes[i] != goes[i - i % set])
			return problem_set(
				p, EINVAL,
				"replica sets leave as a whole, and brick%zu to brick%zu of volume %s are one: name all of them",
				i - i % set, i - i % set + set - 1, s->volume);
		*numbers |= goes[i] ? UINT64_C(1) << i / set : 0;
	}
	return 0;
}

int spec_name_subvolumes(const struct spec *s, const char *const *bricks, size_t count, uint64_t *numbers, struct problem *p)
{
	bool goes[SPEC_BRICKS_MAX] = { false };
	int err;

	for (size_t i = 0; i < count; i++) {
		const struct spec_brick *b = find_brick(s, bricks[i]);

		if (!b)
			return problem_set(p, ENOENT, "volume %s has no brick '%s': name it brickN or SERVER:/DIRECTORY",
					   s->volume, bricks[i]);
		goes[b - s->brick] = true;
	}
	err = check_whole_sets(s, goes, numbers, p);
	if (!err && *numbers == spec_numbers(s))
		err = problem_set(p, EINVAL, "volume %s has no other bricks: `stratus volume delete` removes a volume",
				  s->volume);
	return err;
}

/* Its place is kept, unless it is the end of the list. */
static void drop(struct spec *s, size_t number)
{
	size_t set = spec_set_size(s);

	for (size_t i = number * set; i < (number + 1) * set; i++) {
		free(s->brick[i].server_name);
		free(s->brick[i].directory);
		s->brick[i] = (struct spec_brick){ .gone = true };
	}
	while (s->bricks && s->brick[s->bricks - 1].gone)
		s->bricks--;
}

int spec_remove_bricks(struct spec *s, const char *const *bricks, size_t count, struct problem *p)
{
	uint64_t numbers;
	int err = spec_name_subvolumes(s, bricks, count, &numbers, p);

	for (size_t i = spec_places(s); i-- && !err;)
		if (numbers >> i & 1)
			drop(s, i);
	return err;
}

int spec_let_leave(struct spec *s, const char *const *bricks, size_t count, struct problem *p)
{
	uint64_t numbers;
	int err = spec_name_subvolumes(s, bricks, count, &numbers, p);

	if (err)
		return err;
	if (numbers & (numbers - 1))
		return problem_set(p, ENOTSUP, "volume %s can give up one %s at a time, and these are of %d: name one",
				   s->volume, s->replica ? "replica set" : "brick", __builtin_popcountll(numbers));
	s->leaving = true;
	s->leaver = (size_t)__builtin_ctzll(numbers);
	return 0;
}

static size_t first_other(const struct spec *s, size_t number)
{
	size_t first = 0;

	while (first == number || !spec_has_subvolume(s, first))
		first++;
	return first;
}

/* What is implied as long as no layout is written must name none whose number is free, for that is another's one day, which has nothing: so what is left of
 * it behind the one that goes, or before it, whichever is more; or any other. */
void spec_shorten_beginning(struct spec *s, size_t number)
{
	size_t from = s->began_at, count = spec_began_with(s), before = number - from, after = from + count - number - 1;
	bool had_names = number >= from && number < from + count;

	if (had_names && count == 1) {
		from = first_other(s, number);
	} else if (had_names) {
		from = after > before ? number + 1 : from;
		count = after > before ? after : before;
	}
	/* Set 0 of a volume that began with it alone has no number in its name; one that has it keeps it. */
	s->says_began_at |= had_names && (from || (s->replica && spec_began_with(s) > 1 && count == 1));
	s->began = (unsigned)count;
	s->began_at = (unsigned)from;
}

void spec_take_out(struct spec *s)
{
	/* Also where it was not said: what is left has layouts, and pointers. */
	spec_shorten_beginning(s, s->leaver);
	drop(s, s->leaver);
	s->leaving = false;
}

/* The last one in the list comes where another has left, if one has. Sets leave as a whole, so one that comes has a place as a whole. */
static void fill_place(struct spec *s)
{
	size_t place = 0;

	while (!s->brick[place].gone && place + 1 < s->bricks)
		place++;
	if (s->brick[place].gone)
		s->brick[place] = s->brick[--s->bricks];
}

int spec_add_bricks(struct spec *s, const char *const *bricks, size_t count, struct problem *p)
{
	int err = 0;

	if (s->replica && count % s->replica)
		return problem_set(
			p, EINVAL,
			"volume %s consists of sets of %u bricks (replica: %u), and %zu would be added: name %u for each "
			"set, in their order",
			s->volume, s->replica, s->replica, count, s->replica);
	if (s->leaving)
		return problem_set(p, EBUSY,
				   "bricks of volume %s are leaving it: `stratus brick remove --cancel %s` keeps them, or "
				   "wait until they have left",
				   s->volume, s->volume);
	for (size_t i = 0; i < count && !err; i++) {
		err = add_brick(s, bricks[i], 0, p);
		if (!err)
			fill_place(s);
	}
	return err;
}

void spec_name_server(struct spec *s, const char *name)
{
	if (s->servers != 1)
		return;
	free(s->server[0].name);
	s->server[0].name = path_format("%s", name);
	for (size_t i = 0; i < s->bricks; i++) {
		free(s->brick[i].server_name);
		s->brick[i].server_name = s->brick[i].gone ? NULL : path_format("%s", name);
	}
}

/* ---- options ---- */

static struct spec_options *options_of(struct spec *s, const char *type)
{
	struct spec_options *o;

	for (size_t i = 0; i < s->types; i++)
		if (!strcmp(s->by_type[i].type, type))
			return &s->by_type[i];
	o = spec_grow(&s->by_type, &s->types, sizeof *o);
	o->type = path_format("%s", type);
	return o;
}

static void remove_option(struct spec *s, struct spec_options *o, size_t number)
{
	free(o->option[number].name);
	free(o->option[number].value);
	memmove(o->option + number, o->option + number + 1, (--o->options - number) * sizeof *o->option);
	if (o->options)
		return;
	free(o->option);
	free(o->type);
	*o = s->by_type[--s->types];
}

void spec_set_option(struct spec *s, const char *type, const char *name, const char *value)
{
	struct spec_options *o = options_of(s, type);
	struct option_value *at = NULL;

	for (size_t i = 0; i < o->options && !at; i++)
		if (!strcmp(o->option[i].name, name))
			at = &o->option[i];
	if (!at) {
		at = spec_grow(&o->option, &o->options, sizeof *at);
		*at = (struct option_value){ path_format("%s", name), path_format("%s", ""), 0 };
	}
	free(at->value);
	at->value = value ? path_format("%s", value) : NULL;
	if (!value)
		remove_option(s, o, at - o->option);
}
