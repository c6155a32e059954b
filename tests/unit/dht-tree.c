/* SPDX-License-Identifier: Apache-2.0 */
#include "dht-tree.h"

struct tree tree;
int failures;

void run(task_fn *fn, const char *options, const char *limit)
{
	struct problem problem = { "" };
	char text[4096];
	int n = 0;

	for (int i = 0; i < SUBVOLUMES; i++)
		n += snprintf(
			text + n, sizeof(text) - n,
			"volume m%d\n type debug/memory\n option limit %s\nend-volume\n"
			"volume l%d\n type features/layout\n option subvolume %d\n subvolumes m%d\nend-volume\n"
			"volume e%d\n type debug/error-gen\n option percent 0\n option fops all,-release\n subvolumes l%d\nend-volume\n",
			i, limit, i, i, i, i, i);
	snprintf(text + n, sizeof(text) - n, "volume dht\n type cluster/dht\n %s\n subvolumes e0 e1 e2 e3\nend-volume\n",
		 options);
	failures = 0;
	if (tree_open(&tree, text, &problem))
		fail_msg("%s", problem.text);
	assert_int_equal(task_call(fn, NULL), 0);
	tree_close(&tree);
	assert_int_equal(failures, 0);
}

void at(const char *volume)
{
	tree.at = tree_find(&tree, volume);
}

void set_option(int child, const char *option, const char *value)
{
	struct problem problem = { "" };
	char name[8];
	struct xlator *x;

	snprintf(name, sizeof(name), "e%d", child);
	x = tree_find(&tree, name);
	if (option_change(x->type->options, x->private, x->name, option, value, &problem))
		abort();
	x->type->reconfigure(x, option_find(x->type->options, option));
}

void let_fail(int child, const char *fops, const char *why)
{
	set_option(child, "fops", fops);
	set_option(child, "errno", why);
	set_option(child, "percent", "100");
}

void let_work(int child)
{
	set_option(child, "percent", "0");
}

int holder(const char *path)
{
	char volume[8];
	struct attr a;
	int found = -1;

	for (int i = 0; i < SUBVOLUMES; i++) {
		snprintf(volume, sizeof(volume), "m%d", i);
		at(volume);
		if (!tree_getattr(&tree, path, &a))
			found = found == -1 ? i : -2;
	}
	at("dht");
	return found;
}

int owner(const char *name)
{
	struct layout l = { .version = 1, .count = SUBVOLUMES };

	for (unsigned i = 0; i < SUBVOLUMES; i++)
		l.member[i] = (struct layout_member){ i, 1, 1 };
	return (int)layout_owner(&l, layout_key(&gfid_root, name))->id;
}

const char *name_at(int child, const char *prefix)
{
	static char names[4][64];
	static unsigned next;
	char *name = names[next++ % 4];

	for (int i = 0; !i || owner(name) != child; i++)
		snprintf(name, 64, "%s%d", prefix, i);
	return name;
}
