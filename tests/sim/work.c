/* SPDX-License-Identifier: Apache-2.0 */
/* What the clients do: operations on few names and files, so that they collide. Each one is written into the history. */
#include <fcntl.h>
#include <linux/falloc.h>

#include "away.h"
#include "born.h"
#include "work.h"

enum { WORKERS_MAX = CLIENTS_MAX * 4, LIMIT_S = 60 };

struct work work;

uint64_t pick(uint64_t limit)
{
	return chance_below(CHANCE_WORK, limit);
}

static void be_born_with(struct request *rq, enum fop fop, const void *in)
{
	const struct gfid *g = fop == FOP_create    ? &((const struct create_in *)in)->gfid
			       : fop == FOP_mkdir   ? &((const struct mkdir_in *)in)->gfid
			       : fop == FOP_symlink ? &((const struct symlink_in *)in)->gfid
						    : NULL;

	if (g && (g->bytes[0] & 1 || plan.subvolumes > 1))
		born_attach(rq, &(struct born_xattr){ BIRTHMARK, g->bytes, sizeof(g->bytes) }, 1);
}

int call(struct worker *w, enum fop fop, const void *in, void *out)
{
	struct request rq;
	int err;

	request_init(&rq, w->graph, 0);
	rq.group_count = 0;
	be_born_with(&rq, fop, in);
	if (w->place)
		place_attach(&rq, w->place);
	w->fop = fop;
	w->since_ns = sim_now();
	err = fop_call(&rq, w->graph->top, fop, in, out);
	w->fop = 0;
	request_finish(&rq);
	if (err == -EIO && plan.liar && !plan.faults)
		sim_fail("%s fails, though nothing is wrong but that another tenant's client lies", fop_name(fop));
	return err;
}

struct operation *begin(struct worker *w, enum what what)
{
	w->current = operation_begin(what, w->number);
	work.left -= work.left > 0;
	return w->current;
}

int end(struct worker *w, int err)
{
	struct operation *o = w->current;

	w->current = NULL;
	operation_end(o, err);
	return err;
}

/* ---- what a worker remembers ---- */

void keep_object(struct worker *w, struct inode *inode)
{
	struct inode **at = &w->object[pick(OBJECTS_KEPT)];

	inode_unref(*at);
	*at = inode_ref(inode);
}

void release(struct worker *w, struct file *file)
{
	struct release_in in = { .file = file };
	struct release_out out = { 0 };

	call(w, FOP_release, &in, &out);
	file_unref(file);
}

void keep_file(struct worker *w, struct file *file)
{
	unsigned at = (unsigned)pick(FILES_KEPT);
	struct file *old = w->file[at];

	w->file[at] = file;
	if (old)
		release(w, old);
}

struct inode *some_object(struct worker *w, mode_t type)
{
	unsigned from = (unsigned)pick(OBJECTS_KEPT);

	for (unsigned i = 0; i < OBJECTS_KEPT; i++) {
		struct inode *o = w->object[(from + i) % OBJECTS_KEPT];

		if (o && (!type || o->type == type))
			return o;
	}
	return NULL;
}

/* ---- what the kernel believes ---- */

enum { LOOKS = 12, PAUSE_MS = 120 };

/* Looks at a name, and at what it leads to, again and again for a second or so: most of it the kernel answers. Does not count as work. */
static void do_watch(struct worker *w)
{
	cleanup_inode struct inode *dir = some_directory(w);
	unsigned name = some_name();

	if (pick(100) < 30)
		list_directory(w, dir);
	for (unsigned i = 0; i < LOOKS && work.left; i++) {
		cleanup_inode struct inode *found = NULL;

		work.left++;
		if (!lookup(w, dir, name, &found) && !S_ISLNK(found->type) && pick(2)) {
			work.left += work.left > 0;
			stat_object(w, found);
		}
		task_sleep_ms(pick(PAUSE_MS));
	}
}

/* ---- how many names a file has ---- */

enum { COUNTS = 4, BETWEEN_MS = 8 };

static void do_count(struct worker *w)
{
	struct inode *object = some_object(w, S_IFREG);

	if (!object || !pick(3)) {
		do_link(w);
		return;
	}
	inode_ref(object);
	for (unsigned i = 0; i < COUNTS && work.left; i++) {
		work.left++; /* does not count as work */
		stat_object(w, object);
		task_sleep_ms(pick(BETWEEN_MS));
	}
	inode_unref(object);
}

/* ---- workers ---- */

static const struct {
	void (*run)(struct worker *);
	unsigned weight;
} doings[] = { { do_lookup, 12 }, { do_create, 13 }, { do_mkdir, 2 }, { do_symlink, 2 },  { do_unlink, 7 },
	       { do_rmdir, 2 },	  { do_rename, 8 },  { do_link, 5 },  { do_readdir, 4 },  { do_write, 18 },
	       { do_append, 4 },  { do_read, 14 },   { do_fsync, 3 }, { do_truncate, 4 }, { do_chmod, 3 },
	       { do_stat, 6 },	  { do_xattr, 10 },  { do_copy, 5 },  { do_allocate, 3 } };

/* What makes and ends pointers. */
static void do_with_pointers(struct worker *w)
{
	static void (*const what[])(struct worker *) = { do_create, do_link, do_link, do_rename, do_rename, do_unlink };

	what[pick(sizeof(what) / sizeof(*what))](w);
}

static void do_something(struct worker *w)
{
	unsigned total = 0, at;

	if (plan.kernel && pick(100) < 15) {
		do_watch(w);
		return;
	}
	if (plan.subvolumes > 1 && pick(100) < 25) {
		do_with_pointers(w);
		return;
	}
	if (plan.layout && pick(100) < 30) {
		do_count(w);
		return;
	}
	for (size_t i = 0; i < sizeof(doings) / sizeof(*doings); i++)
		total += doings[i].weight;
	at = (unsigned)pick(total);
	for (size_t i = 0;; i++) {
		if (at < doings[i].weight) {
			doings[i].run(w);
			return;
		}
		at -= doings[i].weight;
	}
}

/* Bursts, with rests in between, so that the work lasts as long as the faults do. */
static void rest(void)
{
	uint64_t mean_ms = 12000 * plan.clients * plan.tasks / plan.operations;
	uint64_t r = pick(100);

	if (r < 50)
		return;
	task_sleep_ms(r < 80 ? pick(4) : pick(10 * mean_ms));
}

static void worker_run(void *arg)
{
	struct worker *w = arg;

	w->root = inode_get(w->graph->inodes, &gfid_root, S_IFDIR);
	if (w->keeps)
		keeper_run(w);
	while (work.left) {
		do_something(w);
		rest();
	}
	for (unsigned i = 0; i < FILES_KEPT; i++)
		if (w->file[i])
			release(w, w->file[i]);
	w->ended = true;
	work.running--;
}

static void begin_worker(struct node *n, bool keeps)
{
	struct worker *w = calloc(1, sizeof(*w));

	w->node = n;
	w->life = n->life;
	w->keeps = keeps;
	w->graph = n->graph;
	w->number = work.workers;
	work.worker[work.workers++] = w;
	work.running++;
	task_spawn(n->shard, worker_run, w);
}

/* The client's graph has started. */
void work_client_up(struct node *n)
{
	for (unsigned i = 0; work.begun && work.left && i < plan.tasks + plan.lossy; i++)
		begin_worker(n, i == plan.tasks);
}

void work_client_died(struct node *n)
{
	for (unsigned i = 0; i < work.workers; i++) {
		struct worker *w = work.worker[i];

		if (w->node != n || w->life != n->life || w->ended)
			continue;
		w->ended = true;
		w->fop = 0;
		work.running--;
	}
}

void work_begin(void)
{
	work.begun = true;
	work.left = plan.operations;
	work.quorum_since = sim_now();
	for (unsigned i = 0; i < plan.clients; i++)
		work_client_up(node_client(i));
}

bool work_done(void)
{
	return !work.left && !work.running;
}

void work_watch(void)
{
	uint64_t now = sim_now(),
		 limit = LIMIT_S * S * (plan.kernel ? plan.tasks : 1); /* a directory is changed by one at a time */
	char text[512];

	if (!world_quorum())
		work.quorum_since = now;
	for (unsigned i = 0; i < work.workers; i++) {
		const struct worker *w = work.worker[i];
		uint64_t since = w->since_ns > work.quorum_since ? w->since_ns : work.quorum_since;

		if (!w->fop || now - since < limit)
			continue;
		snprintf(text, sizeof(text), "%s of worker %u", fop_name(w->fop), w->number);
		if (w->current)
			operation_print(w->current, text, sizeof(text));
		sim_fail("no end of %s within %d s, though a quorum is healthy and connected", text, (int)(limit / S));
	}
}

/* ---- the end ---- */

static void read_all(struct worker *w, struct inode *dir, unsigned depth);

static void read_object(struct worker *w, struct inode *object, unsigned depth)
{
	struct open_in in = { .inode = object, .flags = O_RDONLY };
	struct open_out out = { 0 };
	int err = S_ISLNK(object->type) ? 0 : stat_object(w, object);

	for (unsigned x = 0; x < 2 && !err; x++) {
		err = get_xattr(w, object, x);
		err = err == -ENODATA ? 0 : err;
	}
	if (!err && S_ISREG(object->type))
		err = call(w, FOP_open, &in, &out);
	if (!err && S_ISREG(object->type)) {
		err = read_file(w, out.file);
		release(w, out.file);
	}
	if (err && plan.stack != STACK_NAIVE) /* which is to be found wrong in a better way */
		sim_fail("what is there in the end can't be read: %s", strerror(-err));
	else if (S_ISDIR(object->type) && depth < 8)
		read_all(w, object, depth + 1);
}

static void read_all(struct worker *w, struct inode *dir, unsigned depth)
{
	for (unsigned n = 0; n < NAMES && !sim_failure(); n++) {
		struct inode *found = NULL;
		int err = lookup(w, dir, n, &found);

		if (err && err != -ENOENT && !(err == -EIO && plan.lossy) && plan.stack != STACK_NAIVE)
			sim_fail("names can't be looked up in the end: %s", strerror(-err));
		else if (found)
			read_object(w, found, depth);
		inode_unref(found);
	}
	if (!sim_failure() && list_directory(w, dir) && plan.stack != STACK_NAIVE)
		sim_fail("a directory can't be listed in the end");
}

static void final_run(void *arg)
{
	struct worker *w = arg;
	unsigned from = operations_count();

	w->root = inode_get(w->graph->inodes, &gfid_root, S_IFDIR);
	kernel_asks = true;
	read_all(w, w->root, 0);
	if (plan.lossy && !sim_failure())
		keepers_check(w);
	for (; operation_at(from); from++)
		operation_at(from)->final = true;
	work.final_done = true;
}

void work_final_reads(void)
{
	struct node *n = node_client((unsigned)chance_below(CHANCE_WORK, plan.clients));
	struct worker *w = calloc(1, sizeof(*w));
	uint64_t until = sim_now() + LIMIT_S * S;

	w->node = n;
	w->life = n->life;
	w->graph = n->graph;
	w->number = work.workers;
	work.worker[work.workers++] = w;
	task_spawn(n->shard, final_run, w);
	while (!work.final_done && !sim_failure() && sim_now() < until)
		task_sleep_ms(10);
	if (!work.final_done)
		sim_fail("the final reads do not end");
}
