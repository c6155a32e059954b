/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the volfiles of a volume: the stack of each server, and that of the clients. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "path.h"
#include "volgen.h"

struct writer {
	const struct spec *spec;
	FILE *to; /* the file that is being written: its text */
	char *text;
	size_t size;
	bool *used; /* by index in spec->by_type */
};

/* What volgen writes itself: the same text for all volumes of a type would be wrong. */
static const char *const own[][2] = {
	{ "storage/posix", "directory" },	   { "storage/posix", "volume-id" },   { "storage/posix", "brick-id" },
	{ "features/locks", "state-dir" },	   { "protocol/server", "listen" },    { "protocol/client", "remote-host" },
	{ "protocol/client", "remote-port" },	   { "protocol/client", "volume-id" }, { "protocol/client", "brick-id" },
	{ "protocol/client", "remote-subvolume" }, { "mount/fuse", "mountpoint" },     { "mount/fuse", "fsname" },
};

/* A word of the volfile's grammar: in quotes where the parser would read something else without. */
static void print_word(const char *text, FILE *to)
{
	if (*text && !strpbrk(text, " \"") && *text != '#') {
		fputs(text, to);
		return;
	}
	fputc('"', to);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', to);
		fputc(*text, to);
	}
	fputc('"', to);
}

static void option(struct writer *w, const char *name, const char *value)
{
	fprintf(w->to, "    option %s ", name);
	print_word(value, w->to);
	fputc('\n', w->to);
}

static void begin(struct writer *w, const char *name, const char *type)
{
	fprintf(w->to, "\nvolume %s\n    type %s\n", name, type);
}

static void end(struct writer *w, const char *type, const char *below)
{
	for (size_t i = 0; i < w->spec->types; i++) {
		const struct spec_options *o = &w->spec->by_type[i];

		if (strcmp(o->type, type))
			continue;
		w->used[i] = true;
		for (size_t k = 0; k < o->options; k++)
			option(w, o->option[k].name, o->option[k].value);
	}
	if (below)
		fprintf(w->to, "    subvolumes %s\n", below);
	fputs("end-volume\n", w->to);
}

static const char *last_part(const char *type)
{
	return strchr(type, '/') + 1;
}

/* The name of the i-th translator of a stack; the uppermost is called as the stack. Types have no dots. */
static char *stack_name(const char *stack, const struct spec_list *types, size_t i)
{
	const char *name = last_part(types->item[i]);
	unsigned before = 0;

	for (size_t k = 0; k < i; k++)
		before += !strcmp(last_part(types->item[k]), name);
	if (i + 1 == types->count)
		return path_format("%s", stack);
	return before ? path_format("%s-%s.%u", stack, name, before + 1) : path_format("%s-%s", stack, name);
}

static void ids(struct writer *w, const struct spec_brick *b)
{
	char id[GFID_TEXT];

	option(w, "volume-id", gfid_text(&w->spec->id, id));
	option(w, "brick-id", gfid_text(&b->id, id));
}

static void brick_options(struct writer *w, const char *type, const struct spec_brick *b)
{
	cleanup_path char *state = path_format("%s/.stratus/locks", b->directory);

	if (!strcmp(type, "storage/posix")) {
		option(w, "directory", b->directory);
		ids(w, b);
	} else if (!strcmp(type, "features/locks")) {
		option(w, "state-dir", state);
	}
}

/* posix, locks, access, and what the specification puts above them. */
static void brick_stack(struct writer *w, const char *stack, const struct spec_brick *b)
{
	char *types[3 + 64] = { (char *)"storage/posix", (char *)"features/locks", (char *)"features/access",
				(char *)"debug/io-stats" };
	const struct spec_list *above = &w->spec->server_translators;
	struct spec_list list = { types, w->spec->has_server_translators ? 3 + above->count : 4 };
	cleanup_path char *below = NULL;

	if (above->count)
		memcpy(types + 3, above->item, above->count * sizeof *types);
	for (size_t i = 0; i < list.count; i++) {
		char *name = stack_name(stack, &list, i);

		begin(w, name, types[i]);
		brick_options(w, types[i], b);
		end(w, types[i], below);
		free(below);
		below = name;
	}
}

static char *listen_address(const struct spec_server *s)
{
	const char *address = s->listen ? s->listen : s->host;

	return path_format(strchr(address, ':') ? "[%s]:%u" : "%s:%u", address, s->port);
}

static void write_server(struct writer *w, const struct spec_server *server)
{
	cleanup_path char *stacks = path_format("%s", ""), *address = listen_address(server);

	for (size_t i = 0; i < w->spec->bricks; i++) {
		cleanup_path char *stack = path_format("brick%zu", i);
		char *more;

		if (w->spec->brick[i].server != server)
			continue;
		brick_stack(w, stack, &w->spec->brick[i]);
		more = path_format("%s%s%s", stacks, *stacks ? " " : "", stack);
		free(stacks);
		stacks = more;
	}
	begin(w, "server", "protocol/server");
	option(w, "listen", address);
	end(w, "protocol/server", stacks);
}

static void write_client(struct writer *w, size_t number)
{
	const struct spec_brick *b = &w->spec->brick[number];
	const struct spec_list *above = &w->spec->client_translators;
	cleanup_path char *brick = path_format("brick%zu", number), *port = path_format("%u", b->server->port);
	cleanup_path char *below = path_format("client%zu", number);

	begin(w, below, "protocol/client");
	option(w, "remote-host", b->server->host);
	option(w, "remote-port", port);
	option(w, "remote-subvolume", brick);
	ids(w, b);
	end(w, "protocol/client", NULL);
	for (size_t i = 0; i < above->count; i++) {
		char *name = stack_name("top", above, i);

		begin(w, name, above->item[i]);
		end(w, above->item[i], below);
		free(below);
		below = name;
	}
	begin(w, "mount", "mount/fuse");
	option(w, "fsname", w->spec->volume);
	end(w, "mount/fuse", below);
}

static void begin_file(struct writer *w)
{
	w->to = open_memstream(&w->text, &w->size);
	if (!w->to)
		abort(); /* a few bytes, in a tool */
	fprintf(w->to, "# Made by stratus volgen for the volume %s: change its specification, not this file.\n",
		w->spec->volume);
}

static void end_file(struct writer *w, struct volgen_files *files, char *name)
{
	struct volgen_file *grown = realloc(files->file, (files->count + 1) * sizeof *grown);

	if (!grown || fclose(w->to))
		abort(); /* as above */
	files->file = grown;
	grown[files->count++] = (struct volgen_file){ name, w->text };
}

static int check_options(const struct spec *s, struct problem *p)
{
	if (s->client_translators.count > 64 || s->server_translators.count > 64)
		return problem_set(p, EINVAL, "%s: more than 64 translators in one stack", s->path);
	for (size_t i = 0; i < s->types; i++)
		for (size_t k = 0; k < s->by_type[i].options; k++)
			for (size_t o = 0; o < sizeof own / sizeof *own; o++)
				if (!strcmp(own[o][0], s->by_type[i].type) && !strcmp(own[o][1], s->by_type[i].option[k].name))
					return problem_set(p, EINVAL,
							   "%s:%u: option %s of %s follows from the rest of the specification: "
							   "leave it out",
							   s->path, s->by_type[i].option[k].line, own[o][1], own[o][0]);
	return 0;
}

static int check_used(const struct writer *w, struct problem *p)
{
	for (size_t i = 0; i < w->spec->types; i++)
		if (!w->used[i])
			return problem_set(p, EINVAL,
					   "%s:%u: there are options for %s, but no such translator in any stack: add it to "
					   "client-translators or server-translators, or remove them",
					   w->spec->path, w->spec->by_type[i].line, w->spec->by_type[i].type);
	return 0;
}

static bool has_brick(const struct spec *s, const struct spec_server *server)
{
	for (size_t i = 0; i < s->bricks; i++)
		if (s->brick[i].server == server)
			return true;
	return false;
}

static void write_all(struct writer *w, struct volgen_files *files)
{
	const struct spec *s = w->spec;

	for (size_t i = 0; i < s->servers; i++) {
		if (!has_brick(s, &s->server[i]))
			continue;
		begin_file(w);
		write_server(w, &s->server[i]);
		end_file(w, files, path_format("server-%s.vol", s->server[i].name));
	}
	for (size_t i = 0; i < s->bricks; i++) {
		begin_file(w);
		write_client(w, i);
		end_file(w, files,
			 s->bricks == 1 ? path_format("client-%s.vol", s->volume)
					: path_format("client-%s-%zu.vol", s->volume, i));
	}
}

int volgen(const struct spec *s, struct volgen_files *files, struct problem *p)
{
	struct writer w = { .spec = s, .used = calloc(s->types + 1, sizeof *w.used) };
	int err = w.used ? check_options(s, p) : -ENOMEM;

	*files = (struct volgen_files){ 0 };
	if (!err)
		write_all(&w, files);
	if (!err)
		err = check_used(&w, p);
	if (err)
		volgen_free(files);
	free(w.used);
	return err;
}

void volgen_free(struct volgen_files *files)
{
	for (size_t i = 0; i < files->count; i++) {
		free(files->file[i].name);
		free(files->file[i].text);
	}
	free(files->file);
	*files = (struct volgen_files){ 0 };
}
