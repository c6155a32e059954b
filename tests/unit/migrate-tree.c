/* SPDX-License-Identifier: Apache-2.0 */
#include "migrate-tree.h"

char told[256];
const char *other_name;

int bring(const char *name)
{
	char *argv[] = { (char *)"bring", (char *)name };
	FILE *f = fmemopen(told, sizeof(told), "w");
	struct xlator *x = tree_find(&tree, "dht");
	int err = x->type->command(x, 2, argv, f);

	fclose(f);
	return err;
}

bool brings(const char *name, const char *what)
{
	int err = bring(name);
	bool yes;

	for (int i = 0; i < tries_of(10) && !err && !strncmp(told, "busy", 4);
	     i++) { /* somebody who ends what another left is at it */
		task_sleep_ms(10);
		err = bring(name);
	}
	yes = !err && !strncmp(told, what, strlen(what));

	if (!yes)
		fprintf(stderr, "bring %s: %s, %s", name, strerror(-err), told);
	return yes;
}

void perform(void *arg)
{
	struct deed *d = arg;

	d->err = d->perform(d->b);
	d->over = true;
}

int unlink_it(const char *b)
{
	return tree_unlink(&tree, b);
}

int rename_it(const char *b)
{
	return tree_rename(&tree, b, other_name, 0);
}

int link_it(const char *b)
{
	return tree_link(&tree, b, other_name);
}

/* Which volume is called is for one task at a time: from `begun` on it is the other one's to choose. */
static void stay_and_bring(void *arg)
{
	struct late *l = arg;

	stay_before(l->messages);
	if (l->kind)
		count_from_rename_of(l->kind);
	l->begun = true;
	l->deed.err = bring(l->deed.b);
	l->deed.over = true;
}

static bool begin(struct late *l)
{
	if (task_spawn(NULL, stay_and_bring, l)) /* (it may be over before this is told) */
		abort();
	while (!l->begun)
		task_sleep_ms(1);
	while (!stays() && !l->deed.over)
		task_sleep_ms(1);
	return !l->deed.over;
}

bool bring_late(struct late *l, const char *name, unsigned messages)
{
	*l = (struct late){ .messages = messages, .deed = { .b = name } };
	return begin(l);
}

bool bring_late_at(struct late *l, const char *name, char kind)
{
	*l = (struct late){ .kind = kind, .deed = { .b = name } };
	return begin(l);
}

void bring_ends(struct late *l)
{
	stay_no_more();
	while (!l->deed.over)
		task_sleep_ms(1);
	cut_end();
}
