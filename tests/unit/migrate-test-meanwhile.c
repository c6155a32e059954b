/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: a file is brought home, and others remove, rename or link its name meanwhile, or have looked at it just before. */
#include "migrate-test.h"

#include "place.h"

/* ---- names meanwhile ---- */

/* What was given up leaves no such mark, nor does what was brought at its new place; a stub keeps its mark. (A write would end it, but only after
 * a while.) */
static bool is_frozen(const char *path)
{
	char mark[MARK_NAME];
	struct inode *inode = NULL;
	bool yes = tree_walk(&tree, path, &inode);

	mark_name(mark_hash(MARK_GOES), mark);
	for (int i = 0; i < SUBVOLUMES && !yes; i++)
		yes = has_xattr(i, inode, mark) && !has_xattr(i, inode, DHT_POINTER_XATTR);
	inode_unref(inode);
	return yes;
}

/* As many messages before the other begins as there are in all. */
MOVES(its_name_is_used_meanwhile, SWEEPS)
{
	static int (*const deeds[])(const char *) = { unlink_it, rename_it, link_it };

	others_go_on(true);
	for (int i = (int)first_moment(1); i < 60 && !failures; i += (int)moment_step(1)) {
		const char *b = put_away("text");
		struct deed d = { .perform = deeds[i % 3], .b = b };

		other_name = name_at(i % 4, "o");
		at("second");
		CHECK_INT(task_spawn(NULL, perform, &d), 0);
		for (int k = 0; k < i; k++)
			task_yield();
		CHECK_INT(bring(b), 0);
		while (!d.over)
			task_sleep_ms(1);
		CHECK_INT(d.err, 0);
		CHECK(i % 3 == 0 || !is_frozen(other_name));
		CHECK(i % 3 == 0 ? links(b) == 0 : reads(other_name, "text"));
		CHECK(i % 3 != 1 || links(b) == 0);
		CHECK(i % 3 != 2 || (links(b) == 2 && same_file(b, other_name)));
		tree_unlink(&tree, b);
		tree_unlink(&tree, other_name);
		at("dht");
		CHECK(settles(0));
		if (failures)
			fprintf(stderr, "deed %d\n", i);
	}
	others_go_on(false);
}

/* Nobody takes who brings it for dead, nor ends what he has begun. */
#define PATIENT                                                                                                                \
	"volume patient\n type cluster/dht\n option lean 0\n option initial 4\n option sweep-interval 1h\n"                    \
	" subvolumes e0 e1 e2 e3\nend-volume\n"

/* Another renames it as it stands after so many messages; or waits, and does so when it has been brought. */
static void rename_between(unsigned messages, bool *between)
{
	enum { WAITS_MS = 50 };
	const char *b = put_away("text");
	struct deed d = { .perform = rename_it, .b = b };
	struct late l;

	other_name = name_at(2, "o");
	*between = bring_late(&l, b, messages);
	at("patient");
	CHECK_INT(task_spawn(NULL, perform, &d), 0);
	for (int ms = 0; ms < WAITS_MS && !d.over; ms++)
		task_sleep_ms(1);
	bring_ends(&l);
	while (!d.over)
		task_sleep_ms(1);
	CHECK_INT(d.err, 0);
	CHECK_INT(links(b), 0);
	CHECK(reads(other_name, "text"));
	CHECK_INT(tree_unlink(&tree, other_name), 0);
	at("dht");
}

static void renamed_between_(void *arg __attribute__((unused)))
{
	unsigned messages = first_moment(1);
	bool between = true;

	for (; !failures && between; messages += moment_step(1)) {
		rename_between(messages, &between);
		if (failures)
			fprintf(stderr, "after %u messages\n", messages);
	}
	CHECK(messages > 30);
}

/* From when it is frozen until it has become a stub its name is marked: who would rename it waits. Else he would find a stub where he has begun with the file, and fail. */
static void its_name_is_renamed_before_it_is_brought_or_after(void **state)
{
	(void)state;
	more_volumes = PATIENT;
	run(renamed_between_, "option sweep-interval 1h", "64M");
	more_volumes = "";
}

/* ---- who has looked just before ---- */

static void tell_hold(const char *word, const char *what)
{
	struct xlator *x = tree_find(&tree, "h0");
	char *argv[] = { (char *)word, (char *)what, NULL };
	FILE *f = fopen("/dev/null", "w");

	x->type->command(x, what ? 2 : 1, argv, f);
	fclose(f);
}

static bool is_held(void)
{
	struct xlator *x = tree_find(&tree, "h0");
	char *argv[] = { (char *)"list", NULL }, *text = NULL;
	bool yes = false;
	size_t size;

	for (int i = 0; i < tries_of(2) && !yes; i++) {
		FILE *f = open_memstream(&text, &size);

		x->type->command(x, 1, argv, f);
		fclose(f);
		yes = strstr(text, "parked: ");
		free(text);
		task_sleep_ms(2);
	}
	return yes;
}

/* From where the name is he has come to where the file was, and there it is moved, or was: by one who dies after so many messages. */
static bool goes_on(struct deed *d, const char *fop, unsigned messages)
{
	const char *b = d->b;

	tell_hold("hold", fop);
	at("slow");
	if (task_spawn(NULL, perform, d) || !is_held())
		return false;
	at("dht");
	cut_after(messages, false);
	bring(b);
	cut_end();
	at("slow");
	tell_hold("hold", "none");
	tell_hold("release", "all");
	while (!d->over)
		task_sleep_ms(1);
	if (d->err)
		fprintf(stderr, "%u messages: %s\n", messages, strerror(-d->err));
	at("dht");
	return !d->err;
}

static int look_at_it(const char *b)
{
	struct attr a;

	return tree_getattr(&tree, b, &a);
}

MOVES(an_empty_file_is_found_while_it_is_moved, SWEEPS)
{
	unsigned sent = 0;

	cut_at(1000, false, &sent);
	for (unsigned i = 0; i < 18 && !failures; i++) {
		const char *b = put_away("");
		struct deed d = { .perform = look_at_it, .b = b };

		CHECK(goes_on(&d, "lookup", sent - i));
		CHECK(is_whole(b, ""));
		CHECK_INT(tree_unlink(&tree, b), 0);
		CHECK(settles(0));
	}
}

MOVES(what_was_moved_since_it_was_looked_at_is_renamed, SWEEPS)
{
	const char *b = put_away("text");
	struct deed d = { .perform = rename_it, .b = b };

	other_name = name_at(2, "o");
	CHECK(goes_on(&d, "link", 1000));
	CHECK(is_whole(other_name, "text"));
}

/* Name and file were at one subvolume; as long as somebody has it open, the stub stays there. */
MOVES(what_was_moved_since_it_was_looked_at_gets_a_link, SWEEPS)
{
	const char *b = put_away("text");
	struct deed d = { .perform = link_it, .b = b };
	struct file *file = NULL;

	other_name = name_at(0, "o");
	CHECK_INT(tree_open_file(&tree, b, O_RDONLY, &file), 0);
	CHECK(goes_on(&d, "link", 1000));
	CHECK(reads(b, "text") && links(b) == 2 && same_file(b, other_name));
	tree_release(&tree, file);
	CHECK(settles(1));
}

const struct CMUnitTest meanwhile[] = {
	cmocka_unit_test(its_name_is_used_meanwhile),
	cmocka_unit_test(its_name_is_renamed_before_it_is_brought_or_after),
	cmocka_unit_test(an_empty_file_is_found_while_it_is_moved),
	cmocka_unit_test(what_was_moved_since_it_was_looked_at_is_renamed),
	cmocka_unit_test(what_was_moved_since_it_was_looked_at_gets_a_link),
};
const unsigned meanwhile_count = sizeof(meanwhile) / sizeof(meanwhile[0]);
