/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts the -o options of a mount and puts them into the volfile's top volume. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>

#include "module.h"
#include "mount-options.h"
#include "path.h"
#include "tls-dir.h"

static const char *const for_mount8[] = { "defaults", "rw",    "auto",	"noauto", "nofail", "_netdev", "user", "users",
					  "nouser",   "owner", "group", "x-*",	  "X-*",    "comment", NULL };
static const char *const for_kernel[] = { "suid",     "nosuid",	     "dev",	 "nodev",      "exec",	      "noexec",
					  "atime",    "noatime",     "relatime", "norelatime", "strictatime", "nostrictatime",
					  "diratime", "nodiratime",  "lazytime", "nolazytime", "sync",	      "async",
					  "dirsync",  "nosymfollow", NULL };

static bool listed(const char *const *list, const char *name)
{
	for (; *list; list++)
		if (!fnmatch(*list, name, 0))
			return true;
	return false;
}

static struct option_value *find_given(struct option_value *list, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(list[i].name, name))
			return &list[i];
	return NULL;
}

/* The later of two values counts. */
static int put(struct option_value **list, size_t *count, const char *name, const char *value)
{
	struct option_value *o = find_given(*list, *count, name);

	if (o) {
		free(o->value);
		o->value = path_format("%s", value);
		return 0;
	}
	o = realloc(*list, (*count + 1) * sizeof *o);
	if (!o)
		return -ENOMEM;
	*list = o;
	o[(*count)++] = (struct option_value){ path_format("%s", name), path_format("%s", value), 0 };
	return 0;
}

static int put_for_kernel(struct mount_options *m, const char *name)
{
	struct option_value *o = find_given(m->given, m->count, "mount-options");
	cleanup_path char *value = path_format("%s%s%s", o ? o->value : "", o ? "," : "", name);

	return put(&m->given, &m->count, "mount-options", value);
}

static int unknown(const struct xlator_type *fuse, const char *name, struct problem *p)
{
	const char *names[64] = { "allow_other", "log",	   "log-level", "tls-dir", "nosuid",
				  "nodev",	 "noexec", "noatime",	"key",	   "key-secret" };
	const char *nearest;
	size_t count = 10;

	for (const struct option *o = fuse->options; o->name && count < 63; o++)
		names[count++] = o->name;
	nearest = nearest_name(name, names);
	return problem_set(p, EINVAL,
			   "mount option '%s' is not known%s%s%s; `stratus xlator help mount/fuse` names those there are", name,
			   nearest ? ": did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

/* An option of mount/fuse itself: '_' is as good as '-', and a switch needs no value. */
static int put_for_fuse(struct mount_options *m, const struct option *o, const char *value, struct problem *p)
{
	if (!value && (o->kind == OPTION_BOOL || (o->kind == OPTION_ENUM && strstr(o->choices, "on"))))
		value = "on";
	if (!value)
		return problem_set(p, EINVAL, "mount option '%s' needs a value: %s=...", o->name, o->name);
	return put(&m->given, &m->count, o->name, value);
}

static const struct option *find_option(const struct xlator_type *fuse, const char *name)
{
	cleanup_path char *copy = path_format("%s", strcmp(name, "ro") ? name : "readonly");
	const struct option *o;

	for (char *c = copy; *c; c++)
		if (*c == '_')
			*c = '-';
	o = option_find(fuse->options, copy);
	return o || strcmp(name, "ro") ? o : option_find(fuse->options, "read-only");
}

static int take(struct mount_options *m, const struct xlator_type *fuse, char *name, bool sloppy, struct problem *p)
{
	char *value = strchr(name, '=');
	const struct option *o;

	if (value)
		*value++ = '\0';
	if (!*name || listed(for_mount8, name))
		return 0;
	if (value && (!strcmp(name, "log") || !strcmp(name, "log-level"))) {
		char **to = strcmp(name, "log") ? &m->log_level : &m->log;

		free(*to);
		*to = strcmp(name, "log") ? path_format("%s", value) : path_absolute(value);
		return 0;
	}
	if (value && !strcmp(name, "tls-dir")) {
		tls_dir_use(value);
		return 0;
	}
	if (value && (!strcmp(name, "key") || !strcmp(name, "key-secret"))) {
		char **to = strcmp(name, "key") ? &m->key_secret : &m->key;

		free(*to);
		*to = path_absolute(value);
		return 0;
	}
	o = find_option(fuse, name);
	if (o)
		return put_for_fuse(m, o, value, p);
	if (listed(for_kernel, name) && option_find(fuse->options, "mount-options"))
		return put_for_kernel(m, name);
	return sloppy ? 0 : unknown(fuse, name, p);
}

int mount_options_parse(struct mount_options *m, const char *text, bool sloppy, struct problem *p)
{
	const struct xlator_type *fuse = NULL;
	cleanup_path char *copy = path_format("%s", text);
	int err = module_load("mount/fuse", &fuse, p);
	char *save;

	for (char *name = strtok_r(copy, ",", &save); name && !err; name = strtok_r(NULL, ",", &save))
		err = take(m, fuse, name, sloppy, p);
	return err;
}

static int add_top(struct volfile *v)
{
	const char *below = v->volume[v->volumes - 1].name, *name = "mount";
	struct volfile_volume *grown, *top;

	for (size_t i = 0; i < v->volumes; i++)
		if (!strcmp(v->volume[i].name, name))
			name = "mount-of-command-line";
	grown = realloc(v->volume, (v->volumes + 1) * sizeof *grown);
	if (!grown)
		return -ENOMEM;
	v->volume = grown;
	top = &grown[v->volumes++];
	*top = (struct volfile_volume){ .name = path_format("%s", name),
					.type = path_format("mount/fuse"),
					.subvolume = calloc(1, sizeof(char *)),
					.line = 0 };
	if (!top->subvolume)
		return -ENOMEM;
	top->subvolume[0] = path_format("%s", below);
	top->subvolumes = 1;
	return 0;
}

int mount_options_apply(const struct mount_options *m, const char *directory, struct volfile *v, struct problem *p)
{
	struct volfile_volume *top = &v->volume[v->volumes - 1];
	int err = 0;

	if (!strcmp(top->type, "protocol/server"))
		return problem_set(p, EINVAL,
				   "%s is the volfile of a server: `stratusd %s` serves it; mount the client's volfile",
				   v->path, v->path);
	if (strcmp(top->type, "mount/fuse"))
		err = add_top(v);
	top = &v->volume[v->volumes - 1];
	if (!err)
		err = put(&top->option, &top->options, "mountpoint", directory);
	for (size_t i = 0; i < m->count && !err; i++)
		err = put(&top->option, &top->options, m->given[i].name, m->given[i].value);
	return err ? problem_set(p, -err, "%s: %s", v->path, strerror(-err)) : 0;
}

void mount_options_free(struct mount_options *m)
{
	for (size_t i = 0; i < m->count; i++) {
		free(m->given[i].name);
		free(m->given[i].value);
	}
	free(m->given);
	free(m->log);
	free(m->log_level);
	free(m->key);
	free(m->key_secret);
}
