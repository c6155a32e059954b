/* SPDX-License-Identifier: Apache-2.0 */
/* fsck of the volume: looks until what may be wrong has stood still, tells it, and puts it right; then looks again, until nothing is left that
 * can be. */
#include "fsck.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "location.h"

enum { LOOKS = 3, ROUNDS = 8 };
#define ASK_NS	   60000000000u
#define WAIT_MS	   10000
#define WAIT_MAX_S 3600

static const char *const trouble_names[] = {
	[TROUBLE_UNENDED] = "unended",
	[TROUBLE_WAITS] = "waits-without-intent",
	[TROUBLE_MARK] = "mark-without-intent",
	[TROUBLE_XATTR] = "senseless-xattr",
	[TROUBLE_POINTER] = "pointer-to-nothing",
	[TROUBLE_SHARD] = "shard",
	[TROUBLE_AWAY] = "away-without-pointer",
	[TROUBLE_STRAY] = "stray",
	[TROUBLE_TWICE] = "twice",
	[TROUBLE_UNKNOWN] = "unknown",
};

/* ---- asking ---- */

int fsck_problem(struct fsck *f, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (!f->problem && vasprintf(&f->problem, format, args) < 0)
		f->problem = NULL;
	va_end(args);
	return err;
}

/* Also one that was to leave, and does not any more, as long as what is left of that is set right: the roots say so. One that can't be asked may say it of any. */
static int learn_who_leaves(struct fsck *f)
{
	uint64_t emptied = 0;

	for (int i = 0; i < f->d->x->children; i++) {
		int64_t leaver = -1;
		int err = has_subvolume(f->d, (uint64_t)i) ? leaver_is_known(f->rq, f->d, i) : 0;

		if (err == -ENXIO)
			return fsck_problem(
				f, -EIO,
				"a subvolume leaves the volume that this volume file lacks: use the one that the volume has now");
		if (!err && has_subvolume(f->d, (uint64_t)i))
			err = leaver_said(f->rq, f->d, i, &leaver);
		emptied |= err ? UINT64_MAX : leaver >= 0 && has_subvolume(f->d, (uint64_t)leaver) ? 1ull << leaver : 0;
		emptied |= is_leaving(f->d, i) ? 1ull << i : 0;
	}
	f->emptied = emptied;
	return 0;
}

int fsck_same_layout(struct fsck *f)
{
	int err;

	f->rq->deadline_ns = clock_ns() + ASK_NS;
	err = layout_check(f->rq, f->d, true);
	if (err)
		return fsck_problem(
			f, err,
			"the bricks refuse names of the root: this volume file has other subvolumes, or in another order (see the log)");
	err = learn_who_leaves(f);
	if (err)
		return err;
	if (f->spread && f->spread != spread_of(f->d))
		return fsck_problem(f, -EAGAIN, "a subvolume is being given its part of the names meanwhile: run it again");
	f->spread = spread_of(f->d);
	return 0;
}

int fsck_ask(struct fsck *f)
{
	f->rq->deadline_ns = clock_ns() + ASK_NS;
	return place_say(f->rq, f->d, &(struct place){ .flags = PLACE_HERE });
}

int fsck_ask_pointers(struct fsck *f, const struct gfid *expected)
{
	struct place p = { .flags = PLACE_POINTER | PLACE_HERE };

	p.expected[0] = expected ? *expected : p.expected[0];
	f->rq->deadline_ns = clock_ns() + ASK_NS;
	return place_say(f->rq, f->d, &p);
}

void fsck_ask_raw(struct fsck *f)
{
	f->rq->deadline_ns = clock_ns() + ASK_NS;
	request_retract(f->rq, PLACE_EXTENSION);
}

int fsck_lookup(struct fsck *f, int child, struct inode *dir, const char *name, struct lookup_out *out)
{
	struct lookup_in in = { .loc = { .parent = dir, .name = name } };

	return lookup_on(f->rq, f->d->x->child[child], &in, out);
}

/* ---- looks ---- */

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int in_order(const void *a, const void *b)
{
	const struct suspect *x = a, *y = b;

	if (x->trouble != y->trouble)
		return x->trouble < y->trouble ? -1 : 1;
	return x->child != y->child ? x->child - y->child : strcmp(x->path, y->path);
}

/* Those of this look that were there before stay, as they are now. */
static int keep_those_before(struct fsck *f)
{
	size_t before = f->kept.count, count = 0;
	uint64_t *key = calloc(before + 1, sizeof(*key));

	if (!key)
		return -ENOMEM;
	for (size_t i = 0; i < before; i++)
		key[i] = f->kept.at[i].key;
	qsort(key, before, sizeof(*key), by_number);
	suspects_clear(&f->kept);
	for (size_t i = 0; i < f->now.count; i++) {
		struct suspect swapped = f->now.at[i];

		if (!bsearch(&swapped.key, key, before, sizeof(*key), by_number))
			continue;
		f->now.at[i] = f->now.at[count];
		f->now.at[count++] = swapped;
	}
	free(key);
	for (size_t i = count; i < f->now.count; i++) {
		free(f->now.at[i].path);
		free(f->now.at[i].more);
	}
	f->now.count = count;
	return 0;
}

static int keep(struct fsck *f)
{
	int err = f->looks ? keep_those_before(f) : 0;

	if (err)
		return err;
	f->kept = f->now;
	f->now = (struct suspects){ 0 };
	return 0;
}

/* A replica set that waits for a change of a client that died answers only when that is given up; what an intent holds is told when that has ended. */
static int look_patiently(struct fsck *f)
{
	enum { TRIES = 4 };
	int err = -EIO;

	for (int tries = 0; tries < TRIES && (err == -EIO || error_is_ours(err)); tries++) {
		if (error_is_ours(err))
			task_sleep_ms(f->wait_ms);
		free(f->problem);
		f->problem = NULL;
		err = fsck_look(f);
	}
	return err;
}

/* What is left in f->kept has stood still. */
static int look_some_times(struct fsck *f)
{
	int err = 0;

	suspects_clear(&f->kept);
	for (f->looks = 0; f->looks < LOOKS && !err; f->looks++) {
		if (f->looks && !f->kept.count && !f->incomplete)
			break;
		if (f->looks)
			task_sleep_ms(f->wait_ms);
		err = fsck_same_layout(f);
		if (err)
			return err;
		err = look_patiently(f);
		if (!err)
			err = keep(f);
	}
	err = err ? err : fsck_same_layout(f);
	if (err)
		return f->problem ? err : fsck_problem(f, err, "not all could be looked at: %s", error_text(err));
	if (f->kept.count)
		qsort(f->kept.at, f->kept.count, sizeof(*f->kept.at), in_order);
	else if (f->incomplete)
		return fsck_problem(f, -EBUSY, "names are held by a rename that goes on: run it again");
	return 0;
}

/* ---- telling ---- */

static const char *subvolume(const struct fsck *f, int child)
{
	return child >= 0 && has_subvolume(f->d, (uint64_t)child) ? f->d->x->child[child]->name
								  : "a subvolume that is not there";
}

static void says(const struct fsck *f, const struct suspect *s, struct location *to)
{
	char a[GFID_TEXT];
	const char *name = strrchr(s->path, '/') ? strrchr(s->path, '/') + 1 : s->path;

	switch (s->trouble) {
	case TROUBLE_UNENDED:
		location_line(to, "says", "was begun by a client that does not end it");
		break;
	case TROUBLE_WAITS:
		location_line(to, "says", "waits for a rename that is not under way");
		break;
	case TROUBLE_MARK:
		location_line(to, "says", "a name in it is marked by the intent %s, which is not there",
			      gfid_text(&s->mark.intent, a));
		break;
	case TROUBLE_XATTR:
		location_line(to, "says", "its xattr %s makes no sense", s->more);
		break;
	case TROUBLE_POINTER:
		location_line(to, "says", "leads to %s at %s, where no anchor of it stands", gfid_text(&s->aim.gfid, a),
			      subvolume(f, s->aim.child));
		break;
	case TROUBLE_SHARD:
		location_line(to, "says",
			      s->mark.hash == SHARD_MISSING ? "is a part of a wide directory that is not there"
							    : "no layout of a directory names this part of it");
		break;
	case TROUBLE_AWAY:
		location_line(to, "says", "no pointer leads to it%s",
			      gfid_equal(&s->own, &s->aim.gfid) ? "" : ", which stands for something else than it says");
		break;
	case TROUBLE_STRAY:
		location_line(to, "says", "the name belongs to %s, so nobody sees it here",
			      subvolume(f, root_owner(f->d, name)));
		break;
	case TROUBLE_TWICE:
		location_line(to, "says", "the same file is at %s, too, as /%s", subvolume(f, s->aim.child),
			      s->more ? s->more : "");
		break;
	default:
		location_line(to, "says", "is nothing that this version knows of");
		break;
	}
}

static void tell(struct fsck *f, const struct suspect *s, const char *done, const char *next)
{
	struct location to = { 0 };
	struct blob text = { 0 };
	char gfid[GFID_TEXT];

	location_line(&to, "finding", "%s", trouble_names[s->trouble]);
	location_line(&to, "subvolume", "%s", f->d->x->child[s->child]->name);
	location_line(&to, "path", "/%s", s->path);
	location_line(&to, "gfid", "%s", gfid_text(&s->own, gfid));
	says(f, s, &to);
	if (done || next)
		location_line(&to, done ? "done" : "next", "%s", done ? done : next);
	if (!location_end(&to, &text))
		fwrite(text.bytes, 1, text.size, f->to);
	free(text.bytes);
	if (done)
		log_info(f->d->x, NULL, "fsck: /%s at %s (%s, %s): %s", s->path, f->d->x->child[s->child]->name, gfid,
			 trouble_names[s->trouble], done);
}

static void tell_number(struct fsck *f, const char *what, uint64_t number)
{
	fprintf(f->to, "%s %llu\n", what, (unsigned long long)number);
}

/* ---- rounds ---- */

bool fsck_was_before(const struct fsck *f, const struct suspect *s)
{
	return f->befores && bsearch(&s->key, f->before, f->befores, sizeof(s->key), by_number);
}

/* A pointer may have been missed, for it was renamed to where the walk had been already. What would come of that is bad enough to look twice as
 * often. */
static int note_before(struct fsck *f)
{
	uint64_t *key = calloc(f->kept.count + 1, sizeof(*key));

	free(f->before);
	f->before = key;
	f->befores = 0;
	if (!key)
		return -ENOMEM;
	for (size_t i = 0; i < f->kept.count; i++)
		if (f->kept.at[i].trouble == TROUBLE_AWAY || f->kept.at[i].trouble == TROUBLE_SHARD)
			key[f->befores++] = f->kept.at[i].key;
	qsort(key, f->befores, sizeof(*key), by_number);
	return 0;
}

/* How many were put right, or half. */
static unsigned mend_all(struct fsck *f)
{
	unsigned mended = 0;

	for (size_t i = 0; i < f->kept.count; i++) {
		struct suspect *s = &f->kept.at[i];
		char *told = NULL;
		enum mended how = fsck_mend(f, s, &told);

		if (how == MEND_DONE)
			tell(f, s, told ? told : "it was put right", NULL);
		mended += how != MEND_LEFT;
		s->next = how == MEND_LEFT ? told : NULL;
		if (how != MEND_LEFT)
			free(told);
	}
	return mended;
}

static void tell_left(struct fsck *f)
{
	for (size_t i = 0; i < f->kept.count; i++)
		tell(f, &f->kept.at[i], NULL, f->kept.at[i].next);
}

static int rounds(struct fsck *f)
{
	int err = 0;

	for (unsigned i = 0; i < ROUNDS && !err; i++) {
		err = look_some_times(f);
		if (err || !f->kept.count || !f->repairs || !mend_all(f))
			break;
		err = note_before(f);
		if (!err && i == ROUNDS - 1)
			err = fsck_problem(f, -EBUSY,
					   "something new is found again and again: run it again when there is less to do");
	}
	if (!err)
		tell_left(f);
	return err;
}

static void tell_problem(struct fsck *f, int err)
{
	struct location to = { 0 };
	struct blob text = { 0 };

	location_line(&to, "problem", "%s", f->problem ? f->problem : error_text(err));
	if (!location_end(&to, &text))
		fwrite(text.bytes, 1, text.size, f->to);
	free(text.bytes);
}

static void tell_end(struct fsck *f, int err)
{
	if (err) {
		tell_problem(f, err);
		return;
	}
	tell_number(f, "directories", f->counts.directories);
	tell_number(f, "files", f->counts.files);
	tell_number(f, "pointers", f->counts.pointers);
	tell_number(f, "away", f->aways);
}

static void clear(struct fsck *f)
{
	suspects_clear(&f->now);
	suspects_clear(&f->kept);
	wanted_clear(f);
	free(f->away);
	free(f->broad);
	free(f->before);
	free(f->filter[0]);
	free(f->filter[1]);
	free(f->problem);
}

static void check(void *arg)
{
	struct fsck *f = arg;
	struct request rq;
	int err;

	request_init(&rq, f->d->x->graph, 0);
	rq.group_count = 0;
	f->rq = &rq;
	err = fsck_same_layout(f);
	if (!err)
		err = rounds(f);
	tell_end(f, err);
	request_finish(&rq);
}

static bool take_word(struct fsck *f, const char *word)
{
	char *end;

	if (!strcmp(word, "repair")) {
		f->repairs = true;
		return true;
	}
	if (strncmp(word, "wait=", 5) != 0)
		return false;
	f->wait_ms = strtoull(word + 5, &end, 10);
	return !*end && end > word + 5 && f->wait_ms <= WAIT_MAX_S * 1000;
}

int fsck_command(struct dht *d, int argc, char **argv, FILE *to)
{
	struct fsck f = { .d = d, .to = to, .wait_ms = WAIT_MS };
	int err = 0;

	for (int i = 0; i < argc; i++)
		if (!take_word(&f, argv[i]))
			return -EINVAL;
	if (task_self())
		check(&f);
	else
		err = task_call(check, &f);
	clear(&f);
	return err;
}
