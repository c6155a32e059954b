/* SPDX-License-Identifier: Apache-2.0 */
/* Finds translators in STRATUS_XLATOR_PATH and the built-in directory, loads them, and checks their tables. */
#include "module.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <unistd.h>

/* Loaded once, kept until the process ends. */
struct library {
	char *type_name;
	void *handle;
	const struct xlator_type *type;
	struct library *next;
};
static struct library *libraries;
static pthread_mutex_t libraries_lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((destructor)) static void unload_libraries(void)
{
	struct library *l;

	while ((l = libraries)) { /* not dlclose()d: leak checkers still want the names */
		libraries = l->next;
		if (l->type->unload)
			l->type->unload();
		free(l->type_name);
		free(l);
	}
}

/* Tries DIR/KIND/NAME.so (installed), then as the build tree has it. */
static bool module_path(const char *dir, size_t length, const char *type, char path[PATH_MAX])
{
	const char *base = strrchr(type, '/') + 1;
	const char *const forms[] = { "%.*s/%s.so", "%.*s/%s/.libs/%s.so", "%.*s/%s/%s.so", "%.*s/.libs/%s.so" };

	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		if (snprintf(path, PATH_MAX, forms[i], (int)length, dir, i == 3 ? base : type, base) < PATH_MAX &&
		    !access(path, R_OK))
			return true;
	}
	return false;
}

static bool find_module(const char *type, char path[PATH_MAX])
{
	const char *dirs = getenv("STRATUS_XLATOR_PATH");

	while (dirs && *dirs) {
		size_t length = strcspn(dirs, ":");

		if (length && module_path(dirs, length, type, path))
			return true;
		dirs += length + (dirs[length] == ':');
	}
	return module_path(XLATOR_DIR, strlen(XLATOR_DIR), type, path);
}

/* ---- which there are ---- */

static char *search_path(void)
{
	const char *extra = getenv("STRATUS_XLATOR_PATH");
	char *path;

	return asprintf(&path, "%s%s%s", extra ? extra : "", extra && *extra ? ":" : "", XLATOR_DIR) < 0 ? NULL : path;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "DIR/debug/trace.so" and "DIR/debug/trace/.libs/trace.so": the two names that follow DIR. */
static char *type_of(const char *file, size_t directory)
{
	const char *kind = file + directory + 1, *name = strchr(kind, '/') + 1;

	return strndup(kind, (size_t)(name - kind) + strcspn(name, "./"));
}

static void collect(const char *directory, unsigned layout, char ***names, size_t *count)
{
	static const char *const patterns[] = { "*/*.so", "*/*/.libs/*.so", "*/*/*.so" };
	char pattern[PATH_MAX];
	glob_t found;

	if (snprintf(pattern, sizeof(pattern), "%s/%s", directory, patterns[layout]) >= PATH_MAX ||
	    glob(pattern, 0, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char **grown = realloc(*names, (*count + 2) * sizeof *grown);

		if (!grown)
			break;
		*names = grown;
		grown[*count] = type_of(found.gl_pathv[i], strlen(directory));
		if (!grown[*count])
			break;
		grown[++*count] = NULL;
	}
	globfree(&found);
}

char **module_names(void)
{
	char *path = search_path(), *save, **names = calloc(1, sizeof *names);
	size_t count = 0, kept = 0;

	for (char *d = path ? strtok_r(path, ":", &save) : NULL; d; d = strtok_r(NULL, ":", &save))
		for (unsigned i = 0; i < 3; i++)
			collect(d, i, &names, &count);
	free(path);
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

/* ---- what a table must be, or it would do harm later ---- */

static size_t field_size(enum option_kind kind)
{
	return kind == OPTION_BOOL ? sizeof(bool) : kind == OPTION_STRING || kind == OPTION_PATH ? sizeof(char *) : 8;
}

static int check_option(const struct xlator_type *t, const struct option *o, const char *path, struct problem *p)
{
	size_t end = o->offset + field_size(o->kind);

	if (option_find(t->options, o->name) != o)
		return problem_set(p, ENOEXEC, "%s: its table has two options \"%s\"", path, o->name);
	if (o->kind == OPTION_ENUM && (!o->choices || !*o->choices))
		return problem_set(p, ENOEXEC, "%s: its option \"%s\" has no choices", path, o->name);
	if (end > t->private_size)
		return problem_set(
			p, ENOEXEC,
			"%s: its option \"%s\" ends at byte %zu of the private struct, but private_size is %zu: is that the size of "
			"the struct which has the field?",
			path, o->name, end, t->private_size);
	return 0;
}

static int check_type(const struct xlator_type *t, const char *type, const char *path, struct problem *p)
{
	int err = 0;

	if (!t->name || strcmp(t->name, type))
		return problem_set(p, ENOEXEC, "%s: its xlator_type has %s%s%s, but the file is where %s is looked for", path,
				   t->name ? "the name \"" : "no name", t->name ? t->name : "", t->name ? "\"" : "", type);
	for (const struct option *o = t->options; o && o->name && !err; o++)
		err = check_option(t, o, path, p);
	return err;
}

static int check_version(const unsigned *built, const struct xlator_type *t, const char *path, struct problem *p)
{
	unsigned version = *built != STRATUS_API_VERSION ? *built : t->api;

	if (version == STRATUS_API_VERSION)
		return 0;
	return problem_set(
		p, ENOEXEC,
		"%s is for API version %u, and this StratusFS has version %d: build it again against the installed headers",
		path, version, STRATUS_API_VERSION);
}

/* ---- loading ---- */

static int not_there(const char *type, struct problem *p)
{
	char **names = module_names();
	const char *nearest = names ? nearest_name(type, (const char *const *)names) : NULL;
	int err = problem_set(
		p, ENOENT,
		"there is no translator '%s' in %s, nor where STRATUS_XLATOR_PATH leads%s%s%s; `stratus xlator list` names all "
		"there are",
		type, XLATOR_DIR, nearest ? ": did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");

	module_names_free(names);
	return err;
}

static int open_library(const char *type, struct library *l, struct problem *p)
{
	char path[PATH_MAX];
	const unsigned *built;
	int err;

	if (!strchr(type, '/') || !find_module(type, path))
		return not_there(type, p);
	l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!l->handle)
		return problem_set(p, ENOEXEC, "the translator %s can't be loaded: %s", type, dlerror());
	built = dlsym(l->handle, "xlator_api_version");
	l->type = dlsym(l->handle, "xlator_type");
	if (!built || !l->type)
		err = problem_set(p, ENOEXEC, "%s is no translator: it lacks %s", path,
				  built ? "a variable xlator_type, not static"
					: "the line XLATOR_MODULE above its xlator_type");
	else
		err = check_version(built, l->type, path, p);
	if (!err)
		err = check_type(l->type, type, path, p);
	if (!err && l->type->load)
		err = l->type->load();
	if (err) {
		problem_set(p, -err, "the translator %s can't be loaded: %s", type, strerror(-err));
		dlclose(l->handle);
	}
	return err;
}

/* With the lock held. */
static int add_library(const char *type, const struct xlator_type **found, struct problem *p)
{
	struct library *l = calloc(1, sizeof(*l));
	int err = l && (l->type_name = strdup(type)) ? open_library(type, l, p) : problem_set(p, ENOMEM, "out of memory");

	if (err) {
		if (l)
			free(l->type_name);
		free(l);
		return err;
	}
	l->next = libraries;
	libraries = l;
	*found = l->type;
	return 0;
}

int module_load(const char *type, const struct xlator_type **found, struct problem *p)
{
	const struct library *l;
	int err = 0;

	pthread_mutex_lock(&libraries_lock);
	for (l = libraries; l && strcmp(l->type_name, type); l = l->next)
		;
	if (l)
		*found = l->type;
	else
		err = add_library(type, found, p);
	pthread_mutex_unlock(&libraries_lock);
	return err;
}
