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
static struct spec_brick *find_brick(struct spec *s, const char *text)
{
	for (size_t i = 0; i < s->bricks; i++) {
		const struct spec_brick *b = &s->brick[i];
		cleanup_path char *number = path_format("brick%zu", i),
				  *by_name = path_format("%s:%s", b->server_name, b->directory);
		cleanup_path char *by_host =
			path_format(strchr(b->server->host, ':') ? "[%s]:%s" : "%s:%s", b->server->host, b->directory);

		if (!strcmp(text, number) || !strcmp(text, by_name) || !strcmp(text, by_host))
			return &s->brick[i];
	}
	return NULL;
}

int spec_replace_brick(struct spec *s, const char *old, const char *new, struct problem *p)
{
	struct spec_brick *b = find_brick(s, old);
	size_t number = b ? (size_t)(b - s->brick) : 0;
	int err =
		b ? 0
		  : problem_set(p, ENOENT, "volume %s has no brick '%s': name it brickN or SERVER:/DIRECTORY", s->volume, old);

	if (!err)
		err = add_brick(s, new, 0, p);
	if (err)
		return err;
	b = &s->brick[number];
	free(b->server_name);
	free(b->directory);
	*b = s->brick[--s->bricks];
	return 0;
}

/* How many are left without these, which are to be the last ones. */
static int count_left(struct spec *s, const char *const *bricks, size_t count, size_t *left, struct problem *p)
{
	bool goes[SPEC_BRICKS_MAX] = { false };

	for (size_t i = 0; i < count; i++) {
		const struct spec_brick *b = find_brick(s, bricks[i]);

		if (!b)
			return problem_set(p, ENOENT, "volume %s has no brick '%s': name it brickN or SERVER:/DIRECTORY",
					   s->volume, bricks[i]);
		goes[b - s->brick] = true;
	}
	*left = s->bricks;
	while (*left > 0 && goes[*left - 1])
		--*left;
	if (!*left)
		return problem_set(p, EINVAL, "volume %s has no other bricks: `stratus volume delete` removes a volume",
				   s->volume);
	for (size_t i = 0; i < *left; i++)
		if (goes[i])
			return problem_set(
				p, ENOTSUP,
				"brick%zu of volume %s can't be removed in this version: only the subvolume that is the last in the list can be "
				"taken out, which is brick%zu%s",
				i, s->volume, s->bricks - (s->replica ? s->replica : 1),
				s->replica ? " and those after it" : "");
	return 0;
}

static void cut(struct spec *s, size_t left)
{
	for (size_t i = left; i < s->bricks; i++) {
		free(s->brick[i].server_name);
		free(s->brick[i].directory);
	}
	s->bricks = left;
}

int spec_remove_bricks(struct spec *s, const char *const *bricks, size_t count, struct problem *p)
{
	size_t left;
	int err = count_left(s, bricks, count, &left, p);

	if (!err)
		cut(s, left);
	return err;
}

int spec_let_leave(struct spec *s, const char *const *bricks, size_t count, struct problem *p)
{
	size_t set = s->replica ? s->replica : 1, left;
	int err = count_left(s, bricks, count, &left, p);

	if (err)
		return err;
	if (s->bricks - left != set)
		return problem_set(p, ENOTSUP,
				   "volume %s can give up one %s at a time, and these are %zu bricks: name the last %zu",
				   s->volume, s->replica ? "replica set" : "brick", s->bricks - left, set);
	if (s->replica && spec_subvolumes(s) == 2 && spec_began_with(s) > 1)
		return problem_set(p, ENOTSUP,
				   "volume %s began with %zu replica sets, and such a one keeps two of them in this version",
				   s->volume, spec_began_with(s));
	s->leaving = true;
	return 0;
}

void spec_take_out(struct spec *s)
{
	size_t set = s->replica ? s->replica : 1, left = spec_subvolumes(s) - 1, began = spec_began_with(s);

	cut(s, left * set);
	/* Also where it was not said: what is left has layouts, and pointers. And one that comes again must not take itself for one that was there first. */
	s->began = (unsigned)(began < left ? began : left);
	s->leaving = false;
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
		return problem_set(
			p, EBUSY,
			"the last bricks of volume %s are leaving it: `stratus brick remove --cancel %s` keeps them, or "
			"wait until they have left",
			s->volume, s->volume);
	for (size_t i = 0; i < count && !err; i++)
		err = add_brick(s, bricks[i], 0, p);
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
		s->brick[i].server_name = path_format("%s", name);
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
	struct option_value *at = o->option;

	while (at < o->option + o->options && strcmp(at->name, name))
		at++;
	if (at == o->option + o->options) {
		at = spec_grow(&o->option, &o->options, sizeof *at);
		*at = (struct option_value){ path_format("%s", name), path_format("%s", ""), 0 };
	}
	free(at->value);
	at->value = value ? path_format("%s", value) : NULL;
	if (!value)
		remove_option(s, o, at - o->option);
}
