/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be healed in heal-test: a list of objects, as the bricks' indexes would have it; and healing all of it. */
#include "heal-test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TASKS_MAX = 3, RETRIES = 20, AT_ONCE = 50 };

unsigned faults;

struct queued {
	struct gfid gfid;
	struct inode *kept, *parent; /* as long as they are in memory, members that forget everything are asked by handle */
	bool listed;		     /* what it names is queued */
};
static struct {
	pthread_mutex_t lock;
	struct queued *entry;
	size_t count, room;
	_Atomic unsigned running, retries;
	bool walk; /* children of each directory are to be healed, too */
} queue = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void enqueue(const struct gfid *gfid, struct inode *parent, bool listed)
{
	pthread_mutex_lock(&queue.lock);
	for (size_t i = 0; i < queue.count; i++)
		if (gfid_equal(&queue.entry[i].gfid, gfid)) {
			pthread_mutex_unlock(&queue.lock);
			return;
		}
	if (queue.count == queue.room) {
		queue.room = queue.room * 2 + 64;
		queue.entry = realloc(queue.entry, queue.room * sizeof(*queue.entry));
	}
	queue.entry[queue.count++] =
		(struct queued){ *gfid, inode_find(tree.graph->inodes, gfid), parent ? inode_ref(parent) : NULL, listed };
	pthread_mutex_unlock(&queue.lock);
}

void queue_add_below(const struct gfid *gfid, struct inode *parent)
{
	enqueue(gfid, parent, false);
}

void queue_add(const struct gfid *gfid)
{
	queue_add_below(gfid, NULL);
}

static void forget(struct queued *q)
{
	inode_unref(q->kept);
	inode_unref(q->parent);
}

static bool dequeue(struct queued *q, unsigned turn)
{
	bool got;

	pthread_mutex_lock(&queue.lock);
	got = queue.count;
	if (got) {
		size_t i = turn % queue.count;

		*q = queue.entry[i];
		queue.entry[i] = queue.entry[--queue.count];
	}
	pthread_mutex_unlock(&queue.lock);
	return got;
}

static struct gfid *noted;
static size_t noted_count;

void queue_begin(bool walk)
{
	queue.count = 0;
	queue.walk = walk;
	noted_count = 0;
	noted = NULL;
}

void queue_note(void)
{
	noted = calloc(queue.count + 1, sizeof(*noted));
	for (noted_count = 0; noted_count < queue.count; noted_count++) {
		noted[noted_count] = queue.entry[noted_count].gfid;
		forget(&queue.entry[noted_count]);
	}
	queue.count = 0;
}

void queue_drop(void)
{
	while (queue.count)
		forget(&queue.entry[--queue.count]);
}

void queue_end(void)
{
	free(noted);
}

void queue_finish(void)
{
	free(queue.entry);
}

/* ---- healing ---- */

static int found(struct heal *h, int to, const struct gfid *gfid)
{
	(void)h, (void)to;
	if (names.on)
		FAIL("found was called");
	queue_add(gfid);
	return 0;
}
struct heal heal = { .secret[31] = 's', .epoch = 7, .arbiter = -1, .found = found };

static void enqueue_children(struct request *rq, const struct gfid *gfid)
{
	cleanup_inode struct inode *inode = inode_find(tree.graph->inodes, gfid);
	struct opendir_in in = { .inode = inode };
	struct opendir_out out = { 0 };

	rq->time_ns = 1; /* the test's own doing, which never fails */
	if (!inode || !S_ISDIR(inode->type) || opendir_on(rq, member[0], &in, &out))
		return;
	struct readdir_in rin = { .file = out.file, .size = 100 << 20, .flags = READDIR_PLUS };
	struct readdir_out rout = { 0 };

	do {
		if (readdir_on(rq, member[0], &rin, &rout))
			break;
		for (uint32_t i = 0; i < rout.entries.count; i++) {
			rin.offset = rout.entries.entry[i].next_offset;
			if (rout.entries.entry[i].inode && strcmp(rout.entries.entry[i].name, LIMBO) != 0)
				queue_add_below(&rout.entries.entry[i].gfid, inode);
		}
		bool end = rout.entries.end;

		fop_out_clear(FOP_readdir, &rout);
		if (end)
			break;
	} while (true);
	struct release_in release = { .file = out.file };
	struct release_out released = { 0 };

	release_on(rq, member[0], &release, &released);
	fop_out_clear(FOP_opendir, &out);
}

/* What the directory waits for may be below it, so that is healed meanwhile (as list_early() of the coordinator has it). */
static void put_back(struct request *rq, struct queued *q)
{
	if (queue.walk && !q->listed) {
		enqueue_children(rq, &q->gfid);
		rq->time_ns = 0;
		q->listed = true;
	}
	enqueue(&q->gfid, q->parent, q->listed);
}

static void fail_every(unsigned every)
{
	char word[] = "fail-every", number[16], *words[] = { word, number };

	snprintf(number, sizeof(number), "%u", every);
	for (int i = 0; i < MEMBERS; i++)
		member[i]->type->command(member[i], 2, words, stderr);
}

static void heal_some(void *arg)
{
	int to = *(int *)arg;
	struct request rq;
	struct queued q;

	if (heal_request(&heal, &rq))
		failures++;
	for (unsigned turn = (unsigned)(seed * 2654435761u); !failures && dequeue(&q, turn); turn = turn * 1103515245 + 12345) {
		int err = heal_object(&heal, &rq, &q.gfid, 0, to, 0, UINT64_MAX);
		char text[GFID_TEXT];

		if (getenv("HEAL_TALK"))
			fprintf(stderr, "%s at %d: %d\n", gfid_text(&q.gfid, text), to, err);
		if (err == -ESRCH) /* found() tells of it */
			err = 0;
		if (err == -ENOTCONN && faults) {
			enqueue(&q.gfid, q.parent, q.listed);
		} else if (err == -EAGAIN || err == -EEXIST || (err == -EIO && on_disk)) {
			put_back(&rq, &q);
			queue.retries++;
			if (queue.retries > RETRIES * (queue.count + 100))
				FAIL("healing %s at %d again and again: %s", gfid_text(&q.gfid, text), to, strerror(-err));
			task_sleep_ms(queue.retries /
				      AT_ONCE); /* what it waits for may be another task's, whose disk is slow */
		} else if (err && err != -ENOENT) {
			FAIL("healing %s at %d: %s", gfid_text(&q.gfid, text), to, strerror(-err));
		} else if (queue.walk) {
			enqueue_children(&rq, &q.gfid);
			rq.time_ns = 0;
		}
		forget(&q);
	}
	heal_request_end(&rq);
	queue.running--;
}

static void purge(int to)
{
	struct request rq;
	int err = heal_request(&heal, &rq);

	if (!err)
		err = heal_purge_limbo(&heal, &rq, to);
	for (int i = 0; i < 10000 && err == -ENOTCONN && faults; i++)
		err = heal_purge_limbo(&heal, &rq, to);
	if (err)
		FAIL("purging the limbo of %d: %s", to, strerror(-err));
	heal_request_end(&rq);
}

/* ---- a heal that does not end, and is undone ---- */

unsigned undo_after;

static int is_undone(void *arg, const struct gfid *directory, const char *name)
{
	(void)arg;
	return gfid_equal(directory, &gfid_limbo) || !*name ? -EIO : 0;
}

static void undo(int at)
{
	struct request rq;
	int err = heal_request(&heal, &rq);

	if (!err)
		err = heal_undo(&heal, &rq, at, is_undone, NULL);
	if (err)
		FAIL("undoing a heal of %d: %s", at, strerror(-err));
	heal_request_end(&rq);
}

void queue_heal_some_and_undo(void *arg)
{
	struct request rq;
	int to = 1;

	(void)arg;
	heal.logs = true;
	if (heal_request(&heal, &rq))
		failures++;
	for (size_t i = 0; i < noted_count && i < undo_after; i++) {
		int err = heal_whole(&heal, &rq, &noted[(i * 7 + seed) % noted_count], 0, to);

		if (err && err != -ENOENT && err != -EAGAIN && err != -EEXIST && err != -ESRCH)
			FAIL("healing at %d: %s", to, strerror(-err));
	}
	heal_request_end(&rq);
	heal.logs = false;
	undo(to);
	purge(to);
}

/* Each name of the notes, in an order by chance; again while some wait for others. */
static void heal_names(int to)
{
	struct request rq;
	int tries = 0, waiting = 1;

	if (heal_request(&heal, &rq))
		failures++;
	for (size_t i = names.count; i > 1; i--) {
		size_t other = chance((uint32_t)i);
		struct name_note swap = names.note[i - 1];

		names.note[i - 1] = names.note[other];
		names.note[other] = swap;
	}
	while (waiting && !failures) {
		waiting = 0;
		for (size_t i = 0; i < names.count; i++) {
			int err = heal_name(&heal, &rq, &names.note[i].directory, names.note[i].name, 0, to);

			waiting += err == -EAGAIN;
			if (err && err != -EAGAIN && err != -ENOENT && err != -ESRCH)
				FAIL("healing the name %s at %d: %s", names.note[i].name, to, strerror(-err));
		}
		if (tries++ > 20)
			FAIL("names wait for each other");
	}
	heal_request_end(&rq);
}

void queue_heal_all(void *arg)
{
	unsigned tasks = 1 + (unsigned)(seed % TASKS_MAX);

	(void)arg;
	queue.retries = 0;
	fail_every(faults);
	for (int to = 1; to < MEMBERS && !failures; to++) {
		for (size_t i = 0; i < noted_count && !queue.walk; i++)
			queue_add(&noted[i]);
		if (queue.walk) {
			queue_add(&gfid_root);
			if (heal_keep_links(&heal))
				failures++;
		}
		if (names.on)
			heal_names(to);
		queue.running = tasks;
		for (unsigned i = 1; i < tasks; i++)
			if (task_spawn(NULL, heal_some, &to))
				queue.running--;
		heal_some(&to);
		while (queue.running)
			task_sleep_ms(1);
		queue_drop();
		if (!failures)
			purge(to);
		heal_forget_links(&heal);
		fail_every(to == MEMBERS - 1 ? 0 : faults);
	}
}
