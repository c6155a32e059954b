/* SPDX-License-Identifier: Apache-2.0 */
/* Finds translators in STRATUS_XLATOR_PATH and the built-in directory, and reads their tables. */
#include <glob.h>
#include <stdio.h>

#include "graph.h"
#include "module.h"
#include "path.h"

static char *search_path(void)
{
	const char *extra = getenv("STRATUS_XLATOR_PATH");

	return path_format("%s%s%s", extra ? extra : "", extra && *extra ? ":" : "", XLATOR_DIR);
}

static void name_nearest(const char *type, struct problem *p)
{
	char **names = module_names();
	const char *nearest = names ? nearest_name(type, (const char *const *)names) : NULL;

	problem_set(p, ENOENT, "there is no translator '%s'%s%s%s; `stratus xlator list` names all there are", type,
		    nearest ? ": did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
	module_names_free(names);
}

static bool known(const char *type)
{
	char **names = module_names();
	bool found = false;

	for (char **n = names; n && *n; n++)
		found |= !strcmp(*n, type);
	module_names_free(names);
	return found;
}

const struct xlator_type *module_load(const char *type, struct problem *p)
{
	struct problem why = { "" };
	const struct xlator_type *found = NULL;

	if (!xlator_type_load(type, &found, &why))
		return found;
	if (known(type)) /* directories are looked through for what is wrong only */
		problem_set(p, ENOENT, "%s", why.text);
	else
		name_nearest(type, p);
	return NULL;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "DIR/debug/trace.so" and "DIR/debug/trace/.libs/trace.so": the two names that follow DIR. */
static char *type_of(const char *file, size_t directory)
{
	const char *kind = file + directory + 1, *name = strchr(kind, '/') + 1;

	return path_format("%.*s", (int)(name - kind + (ptrdiff_t)strcspn(name, "./")), kind);
}

static void collect(const char *directory, unsigned layout, char ***names, size_t *count)
{
	static const char *const patterns[] = { "*/*.so", "*/*/.libs/*.so", "*/*/*.so" };
	cleanup_path char *pattern = path_format("%s/%s", directory, patterns[layout]);
	glob_t found;

	if (glob(pattern, 0, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char **grown = realloc(*names, (*count + 2) * sizeof *grown);

		if (!grown)
			break;
		*names = grown;
		grown[(*count)++] = type_of(found.gl_pathv[i], strlen(directory));
		grown[*count] = NULL;
	}
	globfree(&found);
}

char **module_names(void)
{
	cleanup_path char *path = search_path();
	char *save, **names = calloc(1, sizeof *names);
	size_t count = 0, kept = 0;

	for (char *d = strtok_r(path, ":", &save); d; d = strtok_r(NULL, ":", &save))
		for (unsigned i = 0; i < 3; i++)
			collect(d, i, &names, &count);
	if (!names)
		return NULL;
	qsort(names, count, sizeof *names, by_name);
	for (size_t i = 0; i < count; i++) {
		if (kept && !strcmp(names[kept - 1], names[i]))
			free(names[i]);
		else
			names[kept++] = names[i];
	}
	names[kept] = NULL;
	return names;
}

void module_names_free(char **names)
{
	for (char **n = names; n && *n; n++)
		free(*n);
	free(names);
}
