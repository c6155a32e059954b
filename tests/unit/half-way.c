/* SPDX-License-Identifier: Apache-2.0 */
#include "half-way.h"

/* ---- what is there ---- */

bool there(const char *path)
{
	return !tree_getattr(&tree, path, &(struct attr){ 0 });
}

static char *inside(const char *path, char in[80])
{
	if (snprintf(in, 80, "%s/in", path) >= 80)
		abort();
	return in;
}

int put_directory(const char *path, const char *text)
{
	char in[80];
	int err = tree_mkdir(&tree, path, 0755);

	return err || !*text ? err : put(inside(path, in), text);
}

static bool directory_says(const char *path, const char *text)
{
	char in[80];
	struct attr a;

	if (tree_getattr(&tree, path, &a) || !S_ISDIR(a.mode))
		return false;
	return *text ? reads(inside(path, in), text) : !there(inside(path, in));
}

bool says(const char *path, const char *what)
{
	if (what && *what == '/')
		return directory_says(path, what + 1);
	return what ? reads(path, what) && links(path) == 1 : !there(path);
}

void clear_away(const char *path)
{
	char in[80];

	if (tree_unlink(&tree, path) == -EISDIR) {
		tree_unlink(&tree, inside(path, in));
		tree_rmdir(&tree, path);
	}
}

bool nothing_is_under_way(void)
{
	for (int i = 0; i < tries_of(10); i++) {
		if (!census().work)
			return true;
		task_sleep_ms(10);
	}
	return false;
}

/* ---- the names of a scene ---- */

struct stage {
	char a[80], b[80];
	const char *c, *top[2];
};

static void set_up(const struct scene *s, struct stage *to)
{
	int first = (int)gone;
	const char *a = name_at(first, s->below ? "p" : "a"), *b = name_at(s->beside ? first : first + 1, s->below ? "q" : "b");

	to->top[0] = a;
	to->top[1] = b;
	to->c = name_at(first + 2, "c");
	if (s->below) {
		CHECK_INT(tree_mkdir(&tree, a, 0755), 0);
		CHECK_INT(tree_mkdir(&tree, b, 0755), 0);
	}
	snprintf(to->a, sizeof(to->a), "%s%s", a, s->below ? "/a" : "");
	snprintf(to->b, sizeof(to->b), "%s%s", b, s->below ? "/b" : "");
	CHECK_INT(s->build(to->a, to->b, to->c), 0);
}

static void tear_down(const struct scene *s, const struct stage *from)
{
	clear_away(from->a);
	clear_away(from->b);
	for (int i = 0; i < 2 && s->below; i++)
		CHECK_INT(tree_rmdir(&tree, from->top[i]), 0);
}

static int perform(const struct scene *s, const struct stage *at)
{
	if (s->makes)
		return tree_mkdir(&tree, at->a, 0755);
	return s->removes ? tree_rmdir(&tree, at->a) : tree_rename(&tree, at->a, at->b, s->flags);
}

static bool is_done(const struct scene *s, const char *a, const char *b)
{
	if (s->removes || s->makes)
		return says(a, s->removes ? NULL : "/");
	return says(b, s->from) && says(a, s->flags & RENAME_EXCHANGE ? s->to : NULL);
}

/* By others, who wait for the marks, or by the sweep. */
bool gets_whole(const struct scene *s, const char *a, const char *b, bool *done)
{
	for (int i = 0; i < tries_of(10); i++) {
		*done = is_done(s, a, b);
		if (*done || (says(a, s->from) && (s->removes || s->makes || says(b, s->to))))
			return true;
		task_sleep_ms(10); /* an arrival that waits has two links for a while */
	}
	return false;
}

/* ---- plays ---- */

/* Cut off after so many messages; *sent: how many there would have been. */
static void cut_at(const struct scene *s, unsigned messages, bool done, unsigned *sent)
{
	struct stage at;
	bool moved;
	int err;

	set_up(s, &at);
	cut_after(messages, done);
	err = perform(s, &at);
	*sent = cut_end();
	CHECK(gets_whole(s, at.a, at.b, &moved));
	CHECK(moved || err);
	tear_down(s, &at);
}

static void play_cuts(const struct scene *s, bool done)
{
	const unsigned step = moment_step(1);
	unsigned at = first_moment(1), sent = 0;

	do {
		cut_at(s, at, done, &sent);
		if (failures)
			fprintf(stderr, "%s, after %u messages%s\n", s->what, at,
				done ? ", and one that was not answered" : "");
		at += step;
	} while (!failures && sent > at - step);
	CHECK(at > (s->makes ? 5 : 10));
	CHECK(settles(0));
}

void play_dying(const struct scene *scenes, unsigned count)
{
	for (unsigned i = 0; i < count && !failures; i++)
		for (int done = 0; done < 2 && !failures; done++)
			play_cuts(&scenes[i], done);
}

void play_again(const struct scene *scenes, unsigned count)
{
	for (const struct scene *s = scenes; s < scenes + count && !failures; s++) {
		struct stage at;

		set_up(s, &at);
		ask_again();
		CHECK_INT(perform(s, &at), 0);
		cut_end();
		CHECK(is_done(s, at.a, at.b));
		CHECK(nothing_is_under_way());
		tear_down(s, &at);
		if (failures)
			fprintf(stderr, "%s\n", s->what);
	}
	CHECK(settles(0));
}

/* Nobody died; and if it was not done, it can be done. */
static void lose_at(const struct scene *s, unsigned messages, unsigned *sent)
{
	struct stage at;
	bool moved;
	int err;

	set_up(s, &at);
	lose_answer(messages);
	err = perform(s, &at);
	*sent = cut_end();
	CHECK(gets_whole(s, at.a, at.b, &moved));
	CHECK(moved || err);
	if (!moved)
		CHECK_INT(perform(s, &at), 0);
	CHECK(nothing_is_under_way());
	CHECK(is_done(s, at.a, at.b));
	tear_down(s, &at);
}

void play_lost_answers(const struct scene *scenes, unsigned count)
{
	for (unsigned i = 0; i < count && !failures; i++) {
		const unsigned step = moment_step(1);
		unsigned at = first_moment(1), sent = 0;

		do {
			lose_at(&scenes[i], at, &sent);
			if (failures)
				fprintf(stderr, "%s, the answer of message %u\n", scenes[i].what, at + 1);
			at += step;
		} while (!failures && sent > at - step);
		CHECK(at > (scenes[i].makes ? 5 : 10));
		CHECK(settles(0));
	}
}

/* ---- who is slow ---- */

struct slowly {
	const struct scene *scene;
	struct stage at;
	unsigned messages, sent;
	int err;
	atomic_bool over;
};

static void perform_slowly(void *arg)
{
	struct slowly *s = arg;

	stay_before(s->messages);
	s->err = perform(s->scene, &s->at);
	s->sent = cut_end();
	s->over = true;
}

/* It is as far as that, and then nobody hears of it until the sweep has ended what it began. */
static void slow_at(const struct scene *scene, unsigned messages, unsigned *sent)
{
	struct slowly s = { .scene = scene, .messages = messages };

	set_up(scene, &s.at);
	CHECK_INT(task_spawn(NULL, perform_slowly, &s), 0);
	while (!stays() && !s.over)
		task_sleep_ms(1);
	CHECK(nothing_is_under_way());
	stay_no_more();
	while (!s.over)
		task_sleep_ms(1);
	*sent = s.sent;
	CHECK_INT(s.err, 0);
	CHECK(is_done(scene, s.at.a, s.at.b));
	CHECK(nothing_is_under_way());
	tear_down(scene, &s.at);
}

void play_slow(const struct scene *scenes, unsigned count)
{
	for (unsigned i = 0; i < count && !failures; i++) {
		const unsigned step = moment_step(1);
		unsigned at = first_moment(1), sent = 0;

		do {
			slow_at(&scenes[i], at, &sent);
			if (failures)
				fprintf(stderr, "%s, slow after %u messages\n", scenes[i].what, at);
			at += step;
		} while (!failures && sent > at - step);
		CHECK(at > 10);
		CHECK(settles(0));
	}
}
