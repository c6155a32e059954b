/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a volfile with the one that a running graph was made from, and changes what may change while it runs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "reload.h"

static const struct volfile_volume *find_volume(const struct volfile *v, const char *name)
{
	for (size_t i = 0; i < v->volumes; i++)
		if (!strcmp(v->volume[i].name, name))
			return &v->volume[i];
	return NULL;
}

static const char *find_value(const struct volfile_volume *volume, const struct option *o)
{
	const char *value = o->preset;

	for (size_t i = 0; volume && i < volume->options; i++)
		if (!strcmp(volume->option[i].name, o->name))
			value = volume->option[i].value;
	return value;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool same_wiring(const struct volfile_volume *a, const struct volfile_volume *b)
{
	if (strcmp(a->name, b->name) || strcmp(a->type, b->type) || a->subvolumes != b->subvolumes)
		return false;
	for (size_t i = 0; i < a->subvolumes; i++)
		if (strcmp(a->subvolume[i], b->subvolume[i]))
			return false;
	return true;
}

static int check_wiring(const struct volfile *started, const struct volfile *fresh, struct problem *p)
{
	bool same = started->volumes == fresh->volumes;

	for (size_t i = 0; same && i < fresh->volumes; i++)
		same = same_wiring(&started->volume[i], &fresh->volume[i]);
	return same ? 0
		    : problem_set(p, EBUSY,
				  "%s: volumes were added, removed or wired otherwise, which needs a restart of "
				  "the process; nothing was changed",
				  fresh->path);
}

/* Options that no table knows are mistakes; those are found by a table's own check of all values together. */
static int check_options(struct xlator *x, const struct volfile_volume *volume, const char *file, struct problem *p)
{
	void *scratch = calloc(1, x->type->private_size + 1);
	char who[256];
	const struct option_owner owner = { who, file, volume->line };
	int err;

	snprintf(who, sizeof who, "volume %.100s (%.100s)", volume->name, volume->type);
	err = scratch ? options_apply(x->type->options, scratch, &owner, volume->option, volume->options, p) : -ENOMEM;

	if (!err)
		options_free(x->type->options, scratch);
	free(scratch);
	return err;
}

static int change(struct xlator *x, const struct option *o, const char *who, const char *value, struct problem *p)
{
	int err = option_change(x->type->options, x->private, who, o->name, value, p);

	if (!err && x->type->reconfigure)
		x->type->reconfigure(x, o);
	if (!err)
		log_info(x, NULL, "option %s is now %s", o->name, value);
	return err;
}

/* One translator's options; one that needs a restart is put into *restart. */
static int reload_volume(struct xlator *x, const struct volfile_volume *was, const struct volfile_volume *fresh,
			 const struct volfile_volume *started, const char *who, struct problem *restart, struct problem *p)
{
	for (const struct option *o = x->type->options; o && o->name; o++) {
		const char *value = find_value(fresh, o);
		int err = 0;

		if (o->live && value && !same_text(value, find_value(was, o)))
			err = change(x, o, who, value, p);
		else if (!o->live && !same_text(value, find_value(started, o)))
			problem_set(restart, EBUSY,
				    "%s: option %s can't change while the process runs: restart it to set it to '%s' "
				    "(options marked as live have changed)",
				    who, o->name, value ? value : "");
		if (err)
			return err;
	}
	return 0;
}

static void name_volume(char *who, size_t size, const struct volfile *v, const struct volfile_volume *volume)
{
	snprintf(who, size, "%s:%u: volume %s (%s)", v->path, volume->line, volume->name, volume->type);
}

static int check_all(struct graph *g, const struct volfile *started, const struct volfile *fresh, struct problem *p)
{
	int err = check_wiring(started, fresh, p);

	for (size_t i = 0; !err && i < fresh->volumes; i++) {
		struct xlator *x = graph_find(g, fresh->volume[i].name);

		err = x && x->type->options ? check_options(x, &fresh->volume[i], fresh->path, p) : 0;
	}
	return err;
}

int reload_live_options(struct graph *g, const struct volfile *started, struct volfile *live, struct problem *p)
{
	struct volfile fresh = { 0 };
	struct problem restart = { "" };
	char who[512];
	int err = volfile_read(started->path, &fresh, p);

	if (err)
		return err;
	err = check_all(g, started, &fresh, p);
	for (size_t i = 0; !err && i < fresh.volumes; i++) {
		const struct volfile_volume *volume = &fresh.volume[i];
		struct xlator *x = graph_find(g, volume->name);

		name_volume(who, sizeof who, &fresh, volume);
		if (x)
			err = reload_volume(x, find_volume(live, volume->name), volume, find_volume(started, volume->name), who,
					    &restart, p);
	}
	if (err) {
		volfile_free(&fresh);
		return err;
	}
	volfile_free(live);
	*live = fresh;
	return restart.text[0] ? problem_set(p, EBUSY, "%s", restart.text) : 0;
}
