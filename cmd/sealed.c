/* SPDX-License-Identifier: Apache-2.0 */
/* The volfile comes from servers that are not trusted: what matters is made here, and what could undo it is refused. */
#include "sealed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"
#include "path.h"

static const char name[] = "crypt-of-command-line", type[] = "encryption/crypt";

/* What takes requests from programs or from others: whatever it is called, its table says so. One that can't be loaded makes no graph. */
static bool is_front(const char *kind)
{
	const struct xlator_type *found = NULL;
	struct problem p = { "" };

	return !strncmp(kind, "mount/", 6) || (!module_load(kind, &found, &p) && found->front);
}

static int check_one(const struct volfile *v, const struct volfile_volume *one, bool is_top, struct problem *p)
{
	if (!strcmp(one->type, type) || !strcmp(one->name, name))
		return problem_set(
			p, EPERM,
			"%s: it has %s (%s) itself, with options that this mount did not choose: with --key leave it out",
			v->path, one->name, one->type);
	if (!is_top && is_front(one->type))
		return problem_set(p, EPERM, "%s: below its mount it has %s (%s), through which data could leave unencrypted",
				   v->path, one->name, one->type);
	return 0;
}

static int check(const struct volfile *v, struct problem *p)
{
	const struct volfile_volume *top = &v->volume[v->volumes - 1];
	int err = 0;

	if (strcmp(top->type, "mount/fuse") != 0 || top->subvolumes != 1)
		return problem_set(p, EPERM, "%s: its top is no mount/fuse over one volume: with --key it is not mounted",
				   v->path);
	for (size_t i = 0; i < v->volumes && !err; i++)
		err = check_one(v, &v->volume[i], i + 1 == v->volumes, p);
	return err;
}

static int fill(struct volfile_volume *crypt, const char *key_file, char *below)
{
	*crypt = (struct volfile_volume){ .name = path_format("%s", name),
					  .type = path_format("%s", type),
					  .option = calloc(1, sizeof(*crypt->option)),
					  .subvolume = calloc(1, sizeof(char *)) };
	if (!crypt->option || !crypt->subvolume)
		return -ENOMEM;
	crypt->option[0] = (struct option_value){ path_format("key-file"), path_format("%s", key_file), 0 };
	crypt->options = 1;
	crypt->subvolume[0] = below;
	crypt->subvolumes = 1;
	return 0;
}

static void drop(struct volfile_volume *v, size_t i)
{
	free(v->option[i].name);
	free(v->option[i].value);
	memmove(&v->option[i], &v->option[i + 1], (--v->options - i) * sizeof(*v->option));
}

void sealed_options(struct volfile *v)
{
	struct volfile_volume *top = &v->volume[v->volumes - 1];

	for (size_t i = top->options; i-- > 0;)
		if (!strcmp(top->option[i].name, "mount-options") || !strcmp(top->option[i].name, "allow-other"))
			drop(top, i);
}

/* Before what the command line says, whose last word counts. */
static int restrict_mount(struct volfile_volume *top)
{
	struct option_value *grown;

	for (size_t i = 0; i < top->options; i++)
		if (!strcmp(top->option[i].name, "mount-options")) {
			char *given = top->option[i].value;

			top->option[i].value = path_format("nosuid,nodev,%s", given);
			free(given);
			return 0;
		}
	grown = realloc(top->option, (top->options + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	top->option = grown;
	grown[top->options++] = (struct option_value){ path_format("mount-options"), path_format("nosuid,nodev"), 0 };
	return 0;
}

int sealed_graph(struct volfile *v, const char *key_file, struct problem *p)
{
	int err = check(v, p);
	struct volfile_volume *grown = err ? NULL : realloc(v->volume, (v->volumes + 1) * sizeof(*grown)), *top;

	if (err)
		return err;
	if (!grown)
		return problem_set(p, ENOMEM, "not enough memory");
	v->volume = grown;
	grown[v->volumes] = grown[v->volumes - 1];
	top = &grown[v->volumes];
	err = restrict_mount(top) ?: fill(&grown[v->volumes - 1], key_file, top->subvolume[0]);
	v->volumes++;
	top->subvolume[0] = path_format("%s", name);
	return err ? problem_set(p, -err, "not enough memory") : 0;
}
