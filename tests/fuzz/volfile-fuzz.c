/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the volfile parser: what it takes must come back the same when written and parsed again, and it is checked
 * against the translators' option tables. Graphs are made (never started) of translators whose making touches nothing
 * outside. */
#include "fuzz.h"

#include <string.h>

#include "graph.h"
#include "module.h"

static const char *const types[] = { "debug/null",	"debug/trace",
				     "debug/error-gen", "debug/delay-gen",
				     "debug/io-stats",	"debug/hold",
				     "debug/memory",	"features/access",
				     "features/locks",	"storage/posix",
				     "protocol/client", "protocol/server",
				     "mount/fuse",	NULL };
static const char *const harmless[] = { "debug/memory", "debug/null",	  "debug/error-gen", "debug/delay-gen",
					"debug/hold",	"debug/io-stats", "features/access", NULL };

static bool among(const char *name, const char *const *names)
{
	while (*names && strcmp(*names, name))
		names++;
	return *names;
}

static void print_word(FILE *to, const char *word)
{
	fputs(" \"", to);
	for (; *word; word++) {
		if (*word == '"' || *word == '\\')
			fputc('\\', to);
		fputc(*word, to);
	}
	fputc('"', to);
}

static void print_volume(FILE *to, const struct volfile_volume *v)
{
	fputs("volume", to);
	print_word(to, v->name);
	fputs("\ntype", to);
	print_word(to, v->type);
	for (size_t i = 0; i < v->options; i++) {
		fputs("\noption", to);
		print_word(to, v->option[i].name);
		print_word(to, v->option[i].value);
	}
	if (v->subvolumes)
		fputs("\nsubvolumes", to);
	for (size_t i = 0; i < v->subvolumes; i++)
		print_word(to, v->subvolume[i]);
	fputs("\nend-volume\n", to);
}

static void same_volume(const struct volfile_volume *a, const struct volfile_volume *b)
{
	MUST(!strcmp(a->name, b->name) && !strcmp(a->type, b->type));
	MUST(a->options == b->options && a->subvolumes == b->subvolumes);
	for (size_t i = 0; i < a->options; i++)
		MUST(!strcmp(a->option[i].name, b->option[i].name) && !strcmp(a->option[i].value, b->option[i].value));
	for (size_t i = 0; i < a->subvolumes; i++)
		MUST(!strcmp(a->subvolume[i], b->subvolume[i]));
}

static void comes_back(const struct volfile *v)
{
	struct problem p = { { 0 } };
	struct volfile again;
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	for (size_t i = 0; i < v->volumes; i++)
		print_volume(to, &v->volume[i]);
	fclose(to);
	MUST(!volfile_parse(text, size, "again", &again, &p));
	MUST(again.volumes == v->volumes);
	for (size_t i = 0; i < v->volumes; i++)
		same_volume(&v->volume[i], &again.volume[i]);
	volfile_free(&again);
	free(text);
}

static void drawn(const struct volfile *v)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	graph_dot(v, to);
	fclose(to);
	free(text);
}

static void options_checked(const struct volfile_volume *v)
{
	const struct xlator_type *type;
	struct problem p = { { 0 } };
	char text[256];
	void *private;

	if (!among(v->type, types) || module_load(v->type, &type, &p))
		return;
	private = calloc(1, type->private_size + 1);
	if (options_apply(type->options, private, &(struct option_owner){ v->name, "fuzz.vol", v->line }, v->option, v->options,
			  &p))
		MUST(p.text[0]);
	else
		for (const struct option *o = type->options; o && o->name; o++)
			option_print(o, private, text, sizeof(text));
	options_free(type->options, private);
	free(private);
}

static void graph_made(const struct volfile *v)
{
	struct problem p = { { 0 } };
	struct graph *g;

	for (size_t i = 0; i < v->volumes; i++)
		if (!among(v->volume[i].type, harmless))
			return;
	if (graph_create(v, NULL, NULL, &g, &p))
		MUST(p.text[0] && !g);
	else
		graph_destroy(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	char *text = malloc(size + 1); /* its own, so that a sanitizer sees a read behind the end */
	struct problem p = { { 0 } };
	struct volfile v;

	memcpy(text, bytes, size);
	if (volfile_parse(text, size, "fuzz.vol", &v, &p)) {
		MUST(p.text[0] && !v.volumes);
	} else {
		comes_back(&v);
		drawn(&v);
		for (size_t i = 0; i < v.volumes; i++)
			options_checked(&v.volume[i]);
		graph_made(&v);
		volfile_free(&v);
	}
	free(text);
	return 0;
}
