/* SPDX-License-Identifier: Apache-2.0 */
#include "dht-tree.h"

#include "place.h"

struct tree tree;
int failures;
const char *more_volumes = "";
unsigned initial = SUBVOLUMES, widen_at = 8192, gone;

/* Those that have left keep their places. */
static int put_dht(char *text, size_t size, const char *options)
{
	int n = snprintf(text, size,
			 "volume left\n type cluster/absent\nend-volume\n"
			 "volume dht\n type cluster/dht\n option initial %u\n option initial-from %u\n %s\n%s subvolumes",
			 initial - gone, gone, options, strstr(options, "option lean") ? "" : " option lean 0\n");

	for (unsigned i = 0; i < SUBVOLUMES; i++)
		n += i < gone ? snprintf(text + n, size - (size_t)n, " left") : snprintf(text + n, size - (size_t)n, " c%u", i);
	return n;
}

void run(task_fn *fn, const char *options, const char *limit)
{
	struct problem problem = { "" };
	static char text[16384];
	int n = 0;

	for (int i = 0; i < SUBVOLUMES; i++)
		n += snprintf(
			text + n, sizeof(text) - n,
			"volume m%d\n type debug/memory\n option limit %s\nend-volume\n"
			"volume k%d\n type features/locks\n option grace-period 0\n subvolumes m%d\nend-volume\n"
			"volume l%d\n type features/layout\n option subvolume %d\n option initial %u\n option initial-from %u\n option widen-at %u\n option reopen-time 0\n subvolumes k%d\nend-volume\n"
			"volume e%d\n type debug/error-gen\n option percent 0\n option fops all,-release\n subvolumes l%d\nend-volume\n"
			"volume c%d\n type test/cut\n subvolumes e%d\nend-volume\n",
			i, limit, i, i, i, i, initial - gone, gone, widen_at, i, i, i, i, i);
	n += put_dht(text + n, sizeof(text) - n, options);
	snprintf(text + n, sizeof(text) - n, "\nend-volume\n%s", more_volumes);
	failures = 0;
	if (tree_open(&tree, text, &problem))
		fail_msg("%s", problem.text);
	at("dht");
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
	struct layout l = { .version = 1, .count = SUBVOLUMES - gone };

	for (unsigned i = gone; i < SUBVOLUMES; i++)
		l.member[i - gone] = (struct layout_member){ i, 1, 1 };
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

int put_layout(int child, const struct layout *l)
{
	uint8_t bytes[LAYOUT_SIZE_MAX];
	struct setxattr_in in = { .name = DHT_LAYOUT_XATTR, .value = { (uint32_t)layout_encode(l, bytes), bytes } };
	char volume[8];
	int err = tree_walk(&tree, "", &in.inode);

	snprintf(volume, sizeof(volume), "l%d", child);
	if (!err)
		err = tree_call(&tree, tree_find(&tree, volume), FOP_setxattr, &in, &(struct setxattr_out){ 0 });
	inode_unref(in.inode);
	return err;
}

/* ---- what is at the bricks ---- */

/* Left of a file that was moved, until nobody has it open any more. */
static bool is_kept(const char *name)
{
	return strlen(name) == 2 + GFID_TEXT - 1 && (*name == 's' || *name == 'k');
}

static void count_names(const char *path, unsigned *count, unsigned *kept)
{
	struct dirents list = { 0 };
	struct file *dir = NULL;

	if (tree_opendir(&tree, path, &dir))
		return;
	if (!tree_readdir(&tree, dir, &list))
		for (uint32_t i = 0; i < list.count; i++)
			++*(is_kept(list.entry[i].name) ? kept : count);
	fop_out_clear(FOP_readdir, &list);
	tree_release(&tree, dir);
}

struct census census(void)
{
	struct census c = { 0 };
	char volume[8], path[64];

	for (int i = 0; i < SUBVOLUMES; i++) {
		snprintf(volume, sizeof(volume), "m%d", i);
		at(volume);
		for (unsigned k = 0; k < 256; k++) {
			snprintf(path, sizeof(path), DHT_HIDDEN "/away/%02x", k);
			count_names(path, &c.anchors, &c.kept);
		}
		for (unsigned k = 0; k < 16; k++) {
			snprintf(path, sizeof(path), DHT_HIDDEN "/work/%x", k);
			count_names(path, &c.work, &c.kept);
		}
	}
	at("dht");
	return c;
}

bool settles(unsigned anchors)
{
	for (int i = 0; i < tries_of(10); i++) {
		struct census c = census();

		if (c.anchors == anchors && !c.work && !c.kept)
			return true;
		task_sleep_ms(10);
	}
	return false;
}

int put(const char *path, const char *text)
{
	struct file *file = NULL;
	int err = tree_create(&tree, path, O_RDWR | O_CREAT, 0644, &file);

	if (err)
		return err;
	err = tree_write(&tree, file, 0, text, strlen(text));
	tree_release(&tree, file);
	return err < 0 ? err : 0;
}

bool reads(const char *path, const char *text)
{
	struct buffer *data = NULL;
	struct file *file = NULL;
	bool yes;

	if (tree_open_file(&tree, path, O_RDONLY, &file))
		return false;
	yes = !tree_read(&tree, file, 0, 100, &data) && data->size == strlen(text) && !memcmp(data->data, text, data->size);
	buffer_unref(data);
	tree_release(&tree, file);
	return yes;
}

unsigned links(const char *path)
{
	struct attr a;

	return tree_getattr(&tree, path, &a) ? 0 : a.nlink;
}

bool same_file(const char *a, const char *b)
{
	struct attr of_a, of_b;

	return !tree_getattr(&tree, a, &of_a) && !tree_getattr(&tree, b, &of_b) && gfid_equal(&of_a.gfid, &of_b.gfid);
}

static int tell_cut(const char *what, unsigned messages)
{
	char number[16], answer[32] = "";
	char *argv[] = { (char *)what, number };
	FILE *f = fmemopen(answer, sizeof(answer), "w");
	struct xlator *cut = tree_find(&tree, "c0"); /* which volume is called is another task's to choose at that moment */

	snprintf(number, sizeof(number), "%u", messages);
	if (!f || cut->type->command(cut, 2, argv, f))
		abort();
	fclose(f);
	return atoi(answer);
}

void cut_after(unsigned messages, bool done)
{
	tell_cut(done ? "unanswered" : "unsent", messages);
}

void lose_answer(unsigned messages)
{
	tell_cut("lost", messages);
}

void ask_again(void)
{
	tell_cut("again", 1);
}

void stay_before(unsigned messages)
{
	tell_cut("stays", messages);
}

bool stays(void)
{
	return tell_cut("held", 0);
}

void stay_no_more(void)
{
	tell_cut("goes", 0);
}

void end_meanwhile(unsigned times)
{
	tell_cut("ends", times);
}

void fence_take_over(void)
{
	tell_cut("fences", 1);
}

void count_from_rename_of(char kind)
{
	tell_cut("at", (unsigned char)kind);
}

void forget(char kind)
{
	tell_cut("forgets", (unsigned char)kind);
}

unsigned cut_end(void)
{
	return (unsigned)tell_cut("end", 0);
}

void all_die_after(unsigned changes)
{
	tell_cut("dies", changes);
}

unsigned changes_tried(void)
{
	return (unsigned)tell_cut("tried", 0);
}

void directories_fail(bool yes)
{
	tell_cut("unreadable", yes);
}

void lock_elsewhere(bool yes)
{
	tell_cut("locked", yes);
}

void others_go_on(bool yes)
{
	tell_cut("yields", yes);
}

static void hold_command(const char *volume, int argc, char **argv, char *answer, size_t size)
{
	struct xlator *x = tree_find(&tree, volume);
	FILE *f = fmemopen(answer, size, "w");

	if (!f || x->type->command(x, argc, argv, f))
		abort();
	fclose(f);
}

void hold_tell(const char *volume, const char *command, const char *what)
{
	char answer[256], *argv[] = { (char *)command, (char *)what };

	hold_command(volume, 2, argv, answer, sizeof(answer));
}

bool hold_has(const char *volume, const char *fop)
{
	char answer[256] = "", *argv[] = { (char *)"list" };

	for (int tries = 0; tries < tries_of(5); tries++) {
		memset(answer, 0, sizeof(answer));
		hold_command(volume, 1, argv, answer, sizeof(answer));
		if (*answer && strstr(answer, fop))
			return true;
		task_sleep_ms(5);
	}
	return false;
}
