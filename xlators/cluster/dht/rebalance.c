/* SPDX-License-Identifier: Apache-2.0 */
/* Gives the subvolumes that came to the volume their part of the root's names ("Adding a subvolume, in detail" in doc/distribution.md): writes the layout in
 * which names are moved, moves them, and writes the one in which they have been. What it knows is on the disks of the bricks: so who is killed is gone
 * on for by the next one, and two at once do no harm. No data are moved: what had a name stays where it is, behind a pointer. */
#include "dht.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "location.h"

enum { STEP_MS = 1000, PAUSE_MS = 20, PROBLEM = 512 };
#define ASK_NS	 30000000000u
#define MOVE_NS	 60000000000u
#define CLOSE_NS 5000000000u
#define STOP_NS	 5000000000u

enum rebalance_state { IDLE, RUNNING, DONE, STOPPED };
static const char *const state_names[] = { "idle", "running", "done", "stopped" };

struct rebalance {
	struct dht *d;
	pthread_mutex_t lock; /* guards what follows */
	struct task_cond changed;
	enum rebalance_state state;
	bool stopping, hurry; /* hurry: the graph is to end */
	unsigned waiters;     /* for its end */
	struct task *task;
	const char *step;
	uint64_t moved, left;
	char problem[PROBLEM];
};

/* ---- what status tells ---- */

static void set_step(struct rebalance *r, const char *step)
{
	pthread_mutex_lock(&r->lock);
	r->step = step;
	pthread_mutex_unlock(&r->lock);
}

static void count(struct rebalance *r, uint64_t moved, uint64_t left)
{
	pthread_mutex_lock(&r->lock);
	r->moved += moved;
	r->left = left;
	pthread_mutex_unlock(&r->lock);
}

static int problem(struct rebalance *r, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* What it waits for; returns err. It is told in the log once. */
static int problem(struct rebalance *r, int err, const char *format, ...)
{
	char text[PROBLEM];
	va_list args;
	bool is_new;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	pthread_mutex_lock(&r->lock);
	is_new = strcmp(text, r->problem) != 0;
	memcpy(r->problem, text, sizeof(text));
	pthread_mutex_unlock(&r->lock);
	if (is_new)
		log_warning(r->d->x, NULL, "rebalance: %s", text);
	return err;
}

static void no_problem(struct rebalance *r)
{
	pthread_mutex_lock(&r->lock);
	r->problem[0] = '\0';
	pthread_mutex_unlock(&r->lock);
}

static bool stops(struct rebalance *r)
{
	bool stopping;

	pthread_mutex_lock(&r->lock);
	stopping = r->stopping;
	pthread_mutex_unlock(&r->lock);
	return stopping;
}

/* false: it is to stop. */
static bool pause_for(struct rebalance *r, uint64_t ms)
{
	uint64_t until = clock_ns() + ms * 1000000;
	bool stopping;

	pthread_mutex_lock(&r->lock);
	while (!r->stopping && clock_ns() < until)
		task_cond_wait(&r->changed, &r->lock, until);
	stopping = r->stopping;
	pthread_mutex_unlock(&r->lock);
	return !stopping;
}

/* ---- requests, as root ---- */

static void ask_begin(struct rebalance *r, struct request *rq, uint64_t ns)
{
	request_init(rq, r->d->x->graph, 0);
	rq->group_count = 0;
	rq->deadline_ns = clock_ns() + ns;
}

static const char *name_of(const struct rebalance *r, int child)
{
	return r->d->x->child[child]->name;
}

/* ---- the root of one that comes ---- */

static int copy_acl(struct request *rq, struct inode *root, struct xlator *from, struct xlator *to, const char *name)
{
	struct getxattr_in get = { .inode = root, .name = name };
	struct getxattr_out got = { 0 };
	struct setxattr_in set = { .inode = root, .name = name };
	struct setxattr_out done = { 0 };
	struct removexattr_in none = { .inode = root, .name = name };
	struct removexattr_out none_done = { 0 };
	int err = getxattr_on(rq, from, &get, &got);

	if (err == -EOPNOTSUPP)
		return 0;
	set.value = got.value;
	if (!err)
		err = setxattr_on(rq, to, &set, &done);
	else if (err == -ENODATA)
		err = removexattr_on(rq, to, &none, &none_done);
	fop_out_clear(FOP_getxattr, &got);
	return err == -ENODATA || err == -EOPNOTSUPP ? 0 : err;
}

/* Owner, mode and ACL as the home has them. */
static int copy_root_once(struct request *rq, struct rebalance *r, int home, int child, struct attr *copied)
{
	cleanup_inode struct inode *root = root_of(r->d);
	struct xlator *from = r->d->x->child[home], *to = r->d->x->child[child];
	struct getattr_in get = { .inode = root };
	struct getattr_out got = { 0 };
	struct setattr_in set = { .inode = root };
	struct setattr_out done = { 0 };
	int err = root ? place_say(rq, r->d, &(struct place){ .flags = PLACE_SHARD }) : -ENOMEM;

	if (!err)
		err = getattr_on(rq, from, &get, &got);
	if (!err)
		err = copy_acl(rq, root, from, to, "system.posix_acl_access");
	if (!err)
		err = copy_acl(rq, root, from, to, "system.posix_acl_default");
	set.set.valid = SET_MODE | SET_UID | SET_GID;
	set.set.mode = got.attr.mode & 07777;
	set.set.uid = got.attr.uid;
	set.set.gid = got.attr.gid;
	*copied = got.attr;
	return err ? err : setattr_on(rq, to, &set, &done);
}

static bool same_rights(const struct attr *a, const struct attr *b)
{
	return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid;
}

/* Until it is still so: who changes them meanwhile may have been here before us. */
static int copy_root(struct request *rq, struct rebalance *r, int home, int child)
{
	enum { TRIES = 16 };
	struct attr before = { 0 }, now = { 0 };
	int err = copy_root_once(rq, r, home, child, &now);

	for (int tries = 0; tries < TRIES && !err && !(tries && same_rights(&before, &now)); tries++) {
		before = now;
		err = copy_root_once(rq, r, home, child, &now);
	}
	return err;
}

static int copy_roots(struct rebalance *r, const struct layout *l)
{
	int err = 0;

	for (unsigned i = 0; i < l->count && !err; i++) {
		struct request rq;

		if (l->member[i].weight || !l->member[i].next)
			continue;
		ask_begin(r, &rq, ASK_NS);
		err = copy_root(&rq, r, (int)l->home, (int)l->member[i].id);
		request_finish(&rq);
		if (err)
			problem(r, err, "the root's owner, mode and ACL can't be given to %s: %s",
				name_of(r, (int)l->member[i].id), strerror(-err));
	}
	return err;
}

/* ---- layouts ---- */

/* At all of the mask at once. -EAGAIN: one has a later one. */
static int write_at(struct rebalance *r, const struct layout *l, uint64_t mask)
{
	cleanup_inode struct inode *root = root_of(r->d);
	uint8_t bytes[LAYOUT_SIZE_MAX];
	struct setxattr_in in = { .inode = root,
				  .name = DHT_LAYOUT_XATTR,
				  .value = { (uint32_t)layout_encode(l, bytes), bytes } };
	struct fanout *f = NULL;
	struct request rq;
	int err;

	ask_begin(r, &rq, ASK_NS);
	err = root ? place_say(&rq, r->d, &(struct place){ 0 }) : -ENOMEM;
	if (!err)
		f = fanout_start(&rq, r->d->x, FOP_setxattr, &in, mask);
	err = f ? 0 : -ENOMEM;
	if (f)
		fanout_wait(f, r->d->x->children, rq.deadline_ns);
	for (int i = 0; f && i < r->d->x->children; i++) {
		int one = 0;

		if (!(mask >> i & 1) || fanout_out(f, i, &one))
			continue;
		one = fanout_error(&rq, one);
		err = one == -EFENCED ? -EAGAIN
				      : problem(r, one, "%s does not take the new layout: %s", name_of(r, i), strerror(-one));
	}
	if (f)
		fanout_drop(f);
	request_finish(&rq);
	return err;
}

static uint64_t mask_of(const struct layout *l)
{
	uint64_t mask = 0;

	for (unsigned i = 0; i < l->count; i++)
		mask |= 1ull << l->member[i].id;
	return mask;
}

/* At the home first, so there is one that counts. All, or it is not 0. (Where names come to be may have it before all where they come from: who makes one there has
 * heard by the same version that it is not where it was.) */
static int write_everywhere(struct rebalance *r, const struct layout *l)
{
	uint64_t home = 1ull << l->home;
	int err = MUTANT("bear-home-last") ? write_at(r, l, mask_of(l) & ~home) : 0;

	err = err ? err : write_at(r, l, home);
	return err ? err : write_at(r, l, mask_of(l) & ~home);
}

/* ---- moving names ---- */

struct pass {
	struct rebalance *r;
	int child;
	uint64_t found;
	int err; /* of a name that can't be moved: the others are moved all the same */
};

/* Who holds the name may have died; and of one that nobody asks for nobody else would find that out. */
static int move_waiting(struct request *rq, struct rebalance *r, const char *name, struct owners o)
{
	cleanup_inode struct inode *root = root_of(r->d);
	struct lookup_in in = { .loc = { .parent = root, .name = name } };
	struct patience p = { 0 };
	int err = root ? 0 : -ENOMEM;

	do {
		if (!err || err == -EMARKED)
			err = place_say_newest(rq, r->d);
		if (!err)
			err = name_move(rq, r->d, name, o.from, o.to);
	} while (err == -EMARKED && !stops(r) && !marks_wait(rq, r->d, &p, FOP_lookup, &in));
	return err;
}

static const char *why(int err)
{
	return err == -EMARKED ? "it is being renamed" : strerror(-err);
}

/* Each file system has such a one in its root, which stays as long as it is empty. (`stratus fsck` of the volume uses that name, too.) */
static bool is_file_systems_own(struct pass *p, const char *name)
{
	cleanup_inode struct inode *root = root_of(p->r->d);
	struct lookup_in in = { .loc = { .parent = root, .name = name } };
	struct lookup_out out = { 0 };
	struct request rq;
	bool own = false;

	if (!root || strcmp(name, "lost+found") != 0)
		return false;
	ask_begin(p->r, &rq, ASK_NS);
	if (!place_say(&rq, p->r->d, &(struct place){ 0 }) && !lookup_on(&rq, p->r->d->x->child[p->child], &in, &out))
		own = S_ISDIR(out.attr.mode) && !(out.attr.flags & ATTR_POINTER) &&
		      !directory_is_empty(&rq, p->r->d, p->child, out.inode);
	fop_out_clear(FOP_lookup, &out);
	request_finish(&rq);
	return own;
}

static int move_one(struct pass *p, const char *name, struct owners o)
{
	struct rebalance *r = p->r;
	struct request rq;
	int err;

	ask_begin(r, &rq, MOVE_NS);
	err = move_waiting(&rq, r, name, o);
	request_finish(&rq);
	count(r, !err, p->found);
	if (err == -ELAYOUT) /* another one was faster */
		return -EAGAIN;
	if (err == -EEXIST && is_file_systems_own(p, name)) {
		p->found--;
		return 0;
	}
	if (err == -EEXIST)
		return problem(
			r, err,
			"\"%s\" is at %s and at %s: `stratus fsck` may tell which one is to stay; rename or remove the other",
			name, name_of(r, o.from), name_of(r, o.to));
	return err ? problem(r, err, "\"%s\" can't be moved from %s to %s: %s", name, name_of(r, o.from), name_of(r, o.to),
			     why(err))
		   : 0;
}

static void move_those_of(struct pass *p, const struct dirents *list)
{
	for (uint32_t i = 0; i < list->count && !stops(p->r); i++) {
		struct owners o = root_owners(p->r->d, list->entry[i].name);
		int err;

		if (o.from != p->child || o.to == p->child || !strcmp(list->entry[i].name, DHT_HIDDEN))
			continue;
		p->found++;
		err = move_one(p, list->entry[i].name, o);
		p->err = err ? err : p->err;
	}
}

static int read_batch(struct pass *p, struct file *file, uint64_t *offset, struct readdir_out *out)
{
	struct readdir_in in = { .file = file, .offset = *offset, .size = 64 << 10 };
	struct request rq;
	int err;

	ask_begin(p->r, &rq, ASK_NS);
	err = place_say(&rq, p->r->d, &(struct place){ 0 });
	if (!err)
		err = readdir_on(&rq, p->r->d->x->child[p->child], &in, out);
	request_finish(&rq);
	if (!err && out->entries.count)
		*offset = out->entries.entry[out->entries.count - 1].next_offset;
	return err;
}

static int open_root(struct pass *p, struct file **file)
{
	cleanup_inode struct inode *root = root_of(p->r->d);
	struct opendir_in in = { .inode = root };
	struct opendir_out out = { 0 };
	struct request rq;
	int err;

	ask_begin(p->r, &rq, ASK_NS);
	err = root ? place_say(&rq, p->r->d, &(struct place){ 0 }) : -ENOMEM;
	if (!err)
		err = opendir_on(&rq, p->r->d->x->child[p->child], &in, &out);
	request_finish(&rq);
	*file = out.file;
	return err;
}

static void close_root(struct pass *p, struct file *file)
{
	struct release_in in = { .file = file };
	struct release_out out = { 0 };
	struct request rq;

	ask_begin(p->r, &rq, CLOSE_NS);
	task_shield(true); /* it may have been cancelled */
	release_on(&rq, p->r->d->x->child[p->child], &in, &out);
	task_shield(false);
	request_finish(&rq);
	file_unref(file);
}

/* All names that stand there and are to be elsewhere. */
static int pass_over(struct pass *p)
{
	struct file *file;
	uint64_t offset = 0;
	bool end = false;
	int err = open_root(p, &file);

	if (err)
		return err;
	while (!err && !end && !stops(p->r)) {
		struct readdir_out out = { 0 };

		err = read_batch(p, file, &offset, &out);
		end = err || out.entries.end || !out.entries.count;
		if (!err)
			move_those_of(p, &out.entries);
		fop_out_clear(FOP_readdir, &out);
	}
	close_root(p, file);
	return err ? err : stops(p->r) ? -ECANCELED : p->err;
}

/* What the brick says of marks in the root: it is another text if any was set or removed since, or if it is another brick of the set that says it.
 * *none: there are none, but of what is no name. */
static int ask_marks(struct pass *p, char text[MARKS_TEXT], bool *none)
{
	cleanup_inode struct inode *root = root_of(p->r->d);
	struct getxattr_in in = { .inode = root, .name = DHT_MARKS_XATTR };
	struct getxattr_out out = { 0 };
	struct request rq;
	int err;

	ask_begin(p->r, &rq, ASK_NS);
	err = root ? place_say(&rq, p->r->d, &(struct place){ 0 }) : -ENOMEM;
	if (!err)
		err = getxattr_on(&rq, p->r->d->x->child[p->child], &in, &out);
	if (!err)
		snprintf(text, MARKS_TEXT, "%.*s", (int)out.value.size, (const char *)out.value.bytes);
	*none = !err && !strncmp(text, "0 ", 2);
	fop_out_clear(FOP_getxattr, &out);
	request_finish(&rq);
	return err;
}

/* Who set them may have died: of a name that nobody asks for nobody else would find that out. */
static void wait_for_marks(struct rebalance *r, int child, struct patience *patience)
{
	cleanup_inode struct inode *root = root_of(r->d);
	struct request rq;

	ask_begin(r, &rq, ASK_NS);
	if (root && !place_say(&rq, r->d, &(struct place){ 0 }))
		marks_wait_to_mark(&rq, r->d, patience, child, root);
	request_finish(&rq);
}

/* 0: no name that is to be elsewhere is there, or can come back. A name that is marked may not be listed, and come back when its intent is taken back: so
 * there must be none while the listing is read. -EAGAIN: not yet. */
static int clear_source(struct rebalance *r, int child, struct patience *patience)
{
	struct pass p = { .r = r, .child = child };
	char before[MARKS_TEXT], after[MARKS_TEXT];
	bool none, none_after;
	int err = ask_marks(&p, before, &none);

	if (!err)
		err = pass_over(&p);
	if (!err)
		err = ask_marks(&p, after, &none_after);
	if (err)
		return err;
	if (p.found)
		return -EAGAIN;
	if (!none)
		wait_for_marks(r, child, patience);
	return MUTANT("settle-marked") || (none && !strcmp(before, after)) ? 0 : -EAGAIN;
}

/* Of all of them: what is not there in one stays so. */
static int clear_sources(struct rebalance *r, const struct layout *l)
{
	int worst = 0;

	for (unsigned i = 0; i < l->count && !stops(r); i++) {
		struct patience patience = { 0 };
		int err;

		if (!layout_is_source(l, &l->member[i]))
			continue;
		do
			err = MUTANT("settle-early") ? 0 : clear_source(r, (int)l->member[i].id, &patience);
		while (err == -EAGAIN && pause_for(r, PAUSE_MS));
		worst = err ? err : worst;
	}
	return stops(r) ? -ECANCELED : worst;
}

/* ---- the whole ---- */

static int move_and_settle(struct rebalance *r, const struct layout *moving)
{
	struct layout l = *moving;
	int err = copy_roots(r, &l);

	if (err)
		return err;
	set_step(r, "moving");
	err = clear_sources(r, &l);
	if (err)
		return err;
	set_step(r, "settling");
	layout_settle(&l);
	return write_everywhere(r, &l);
}

/* From where it stands: 1: there is nothing to do. Else once more. */
static int go_on(struct rebalance *r)
{
	const struct spread *now;
	struct layout l;
	struct request rq;
	uint64_t least = 0;
	int silent = -1, err, written;

	ask_begin(r, &rq, ASK_NS);
	err = layout_ask_all(&rq, r->d, &least, &silent);
	request_finish(&rq);
	now = spread_of(r->d);
	l = now->layout;
	written = !now->lacks && l.version > least ? write_at(r, &l, mask_of(&l)) : 0; /* nobody waits for one that is down */
	if (err)
		return problem(r, err, "waiting for %s: %s",
			       silent < 0 ? "a volume file that has all subvolumes" : name_of(r, silent), strerror(-err));
	err = written;
	if (!err && l.moving)
		return move_and_settle(r, &l);
	if (err || !now->grows)
		return err ? err : 1;
	l = now->grown;
	set_step(r, "joining");
	err = copy_roots(r, &l);
	return err ? err : write_everywhere(r, &l);
}

static void rebalance_task(void *arg)
{
	struct rebalance *r = arg;
	int err = 0;

	pthread_mutex_lock(&r->lock);
	r->task = task_self();
	pthread_mutex_unlock(&r->lock);
	while (err <= 0 && !stops(r)) {
		err = go_on(r);
		if (err >= 0)
			no_problem(r);
		else
			pause_for(r, err == -EAGAIN ? PAUSE_MS : STEP_MS);
	}
	if (err > 0)
		log_info(r->d->x, NULL, "rebalance: the root's names are where they belong; %llu were moved",
			 (unsigned long long)r->moved);
	pthread_mutex_lock(&r->lock);
	r->state = err > 0 ? DONE : STOPPED;
	r->step = NULL;
	r->task = NULL;
	task_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock); /* it may be gone now */
}

/* ---- commands ---- */

static struct rebalance *rebalance_of(struct dht *d)
{
	struct rebalance *r, *new = calloc(1, sizeof(*new));

	pthread_mutex_lock(&d->lock);
	if (!d->rebalance && new) {
		pthread_mutex_init(&new->lock, NULL);
		new->d = d;
		d->rebalance = new;
		new = NULL;
	}
	r = d->rebalance;
	pthread_mutex_unlock(&d->lock);
	free(new);
	return r;
}

static int start(struct rebalance *r)
{
	int err = 0;

	pthread_mutex_lock(&r->lock);
	if (r->hurry || r->waiters)
		err = -ECANCELED;
	else if (r->state != RUNNING) {
		r->state = RUNNING;
		r->stopping = false;
		r->moved = r->left = 0;
		r->problem[0] = '\0';
		err = task_spawn(NULL, rebalance_task, r);
		r->state = err ? STOPPED : RUNNING;
	}
	pthread_mutex_unlock(&r->lock);
	return err;
}

static void wait_for_end(void *arg)
{
	struct rebalance *r = arg;
	uint64_t soon = clock_ns() + STOP_NS;

	pthread_mutex_lock(&r->lock);
	r->stopping = true;
	r->waiters++;
	task_cond_broadcast(&r->changed);
	while (!r->hurry && r->state == RUNNING && clock_ns() < soon)
		task_cond_wait(&r->changed, &r->lock, soon);
	if (r->task)
		task_cancel(r->task); /* what is down keeps nobody waiting: others end what it was at */
	while (r->state == RUNNING)
		task_cond_wait(&r->changed, &r->lock, NO_DEADLINE);
	r->waiters--;
	pthread_mutex_unlock(&r->lock);
}

static void stop(struct rebalance *r)
{
	if (task_self())
		wait_for_end(r);
	else
		task_call(wait_for_end, r);
}

static void tell(struct rebalance *r, FILE *to)
{
	struct location line = { 0 };
	struct blob text = { 0 };

	pthread_mutex_lock(&r->lock);
	fprintf(to, "state %s\n", state_names[r->state]);
	if (r->state == RUNNING && r->step)
		fprintf(to, "step %s\n", r->step);
	fprintf(to, "version %llu\n", (unsigned long long)spread_of(r->d)->layout.version);
	fprintf(to, "moved %llu\nleft %llu\n", (unsigned long long)r->moved, (unsigned long long)r->left);
	if (r->problem[0])
		location_line(&line, "problem", "%s", r->problem); /* a name may be in it */
	pthread_mutex_unlock(&r->lock);
	if (!location_end(&line, &text) && text.size)
		fwrite(text.bytes, 1, text.size, to);
	free(text.bytes);
}

int rebalance_command(struct dht *d, int argc, char **argv, FILE *to)
{
	struct rebalance *r = argc == 1 ? rebalance_of(d) : NULL;

	if (argc != 1)
		return -EINVAL;
	if (!r)
		return -ENOMEM;
	if (!strcmp(argv[0], "status"))
		tell(r, to);
	else if (!strcmp(argv[0], "start"))
		return start(r);
	else if (!strcmp(argv[0], "stop"))
		stop(r);
	else
		return -EINVAL;
	return 0;
}

void rebalance_stop(struct dht *d)
{
	struct rebalance *r;

	pthread_mutex_lock(&d->lock);
	r = d->rebalance;
	pthread_mutex_unlock(&d->lock);
	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->hurry = true;
	pthread_mutex_unlock(&r->lock);
	stop(r);
}

void rebalance_free(struct dht *d)
{
	if (!d->rebalance)
		return;
	pthread_mutex_destroy(&d->rebalance->lock);
	free(d->rebalance);
	d->rebalance = NULL;
}
