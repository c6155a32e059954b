/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the volfiles of a specification, checks them against the translators' tables, writes them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "module.h"
#include "path.h"
#include "volfiles.h"

static int check_volume(const struct volfile_volume *v, const char *path, struct problem *p)
{
	const struct xlator_type *t;
	struct option_value values[260];
	char who[256];
	const struct option_owner owner = { .who = who, .file = path };
	void *scratch;
	int err = module_load(v->type, &t, p);

	if (err)
		return err;
	for (size_t i = 0; i < v->options; i++)
		values[i] = (struct option_value){ v->option[i].name, v->option[i].value,
						   0 }; /* its line is not one of the specification */
	values[v->options] = (struct option_value){ (char *)"mountpoint", (char *)"/", 0 }; /* `stratus mount` gives it */
	snprintf(who, sizeof who, "volume %.100s (%.100s)", v->name, v->type);
	scratch = calloc(1, t->private_size + 1);
	err = scratch ? options_apply(t->options, scratch, &owner, values, v->options + !strcmp(v->type, "mount/fuse"), p)
		      : -ENOMEM;
	if (!err)
		options_free(t->options, scratch);
	free(scratch);
	return err;
}

static int check_file(const struct volgen_file *f, const char *path, struct problem *p)
{
	struct volfile v;
	int err = volfile_parse(f->text, strlen(f->text), f->name, &v, p);

	for (size_t i = 0; !err && i < v.volumes; i++)
		if (v.volume[i].options < 256)
			err = check_volume(&v.volume[i], path, p);
	volfile_free(&v);
	return err;
}

int volfiles_of(const struct spec *spec, const char *state, struct volgen_files *files, struct problem *p)
{
	int err = volgen(spec, state, files, p);

	for (size_t i = 0; i < files->count && !err; i++)
		err = check_file(&files->file[i], spec->path, p);
	if (err)
		volgen_free(files);
	return err;
}

int volfiles_write(const struct volgen_files *files, const char *directory, struct problem *p)
{
	int err = 0;

	if (!path_is_directory(directory))
		return problem_set(p, ENOTDIR, "%s is not a directory: create it, or name another with --out", directory);
	for (size_t i = 0; i < files->count && !err; i++) {
		cleanup_path char *path = path_format("%s/%s", directory, files->file[i].name);

		err = path_write(path, files->file[i].text, strlen(files->file[i].text), p);
	}
	return err;
}
