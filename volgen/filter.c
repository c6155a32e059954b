/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of volfiles: what is there comes out again, with a translator put in. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "path.h"
#include "volgen.h"

void volgen_print_word(const char *text, FILE *to)
{
	if (*text && !strpbrk(text, " \"") && *text != '#') {
		fputs(text, to);
		return;
	}
	fputc('"', to);
	while (*text) {
		const char *quote = strchrnul(text, '"'), *slash = memchr(text, '\\', (size_t)(quote - text));
		size_t plain =
			(size_t)((slash ? slash : quote) - text); /* strcspn() takes its time, and there may be megabytes */

		fwrite(text, 1, plain, to);
		text += plain;
		if (*text)
			fprintf(to, "\\%c", *text++);
	}
	fputc('"', to);
}

/* ---- cloud ---- */

static bool is_front(const struct volfile_volume *v)
{
	return !strcmp(v->type, "protocol/server");
}

static bool is_offered(const struct volfile *file, const char *name)
{
	for (size_t i = 0; i < file->volumes; i++)
		for (size_t k = 0; is_front(&file->volume[i]) && k < file->volume[i].subvolumes; k++)
			if (!strcmp(file->volume[i].subvolume[k], name))
				return true;
	return false;
}

/* Clients know a brick by the name of what is uppermost, which is features/cloud from now on. */
static char *name_below(const struct volfile *file, const char *name)
{
	return is_offered(file, name) ? path_format("%s-shared", name) : path_format("%s", name);
}

static void print_volume(const struct volfile *file, const struct volfile_volume *v, FILE *to)
{
	cleanup_path char *name = name_below(file, v->name);

	fprintf(to, "\nvolume %s\n    type %s\n", name, v->type);
	for (size_t i = 0; i < v->options; i++) {
		fprintf(to, "    option %s ", v->option[i].name);
		volgen_print_word(v->option[i].value, to);
		fputc('\n', to);
	}
	for (size_t i = 0; i < v->subvolumes; i++) {
		cleanup_path char *below = is_front(v) ? path_format("%s", v->subvolume[i]) : name_below(file, v->subvolume[i]);

		fprintf(to, "%s%s%s", i ? " " : "    subvolumes ", below, i + 1 == v->subvolumes ? "\n" : "");
	}
	fputs("end-volume\n", to);
}

static void print_cloud(const char *name, const char *tenants, FILE *to)
{
	fprintf(to, "\nvolume %s\n    type features/cloud\n    option tenants ", name);
	volgen_print_word(tenants, to);
	fprintf(to, "\n    subvolumes %s-shared\nend-volume\n", name);
}

static int check(const struct volfile *file, struct problem *p)
{
	size_t fronts = 0;

	for (size_t i = 0; i < file->volumes; i++) {
		cleanup_path char *below = name_below(file, file->volume[i].name);

		fronts += is_front(&file->volume[i]);
		if (!strcmp(file->volume[i].type, "features/cloud"))
			return problem_set(p, EEXIST, "%s: volume %s is features/cloud: it is there already", file->path,
					   file->volume[i].name);
		if (!strcmp(file->volume[i].type, "features/replica") || !strcmp(file->volume[i].type, "features/layout"))
			return problem_set(
				p, ENOTSUP,
				"%s: volume %s is %s: name the tenants in the specification instead, and have no replicas",
				file->path, file->volume[i].name, file->volume[i].type);
		for (size_t k = 0; is_offered(file, file->volume[i].name) && k < file->volumes; k++)
			if (!strcmp(file->volume[k].name, below))
				return problem_set(p, EEXIST, "%s: there is a volume %s already: give it another name",
						   file->path, below);
	}
	return fronts ? 0
		      : problem_set(p, EINVAL, "%s: there is no protocol/server: the filter takes the volfile of a server",
				    file->path);
}

int volgen_filter_cloud(const struct volfile *file, const char *tenants, FILE *to, struct problem *p)
{
	int err = check(file, p);

	if (err)
		return err;
	fputs("# Made by stratus volgen filter cloud.\n", to);
	for (size_t i = 0; i < file->volumes; i++) {
		const struct volfile_volume *v = &file->volume[i];

		print_volume(file, v, to);
		if (is_offered(file, v->name))
			print_cloud(v->name, tenants, to);
	}
	return 0;
}
