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
	bool yes = !err && !strncmp(told, what, strlen(what));

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
