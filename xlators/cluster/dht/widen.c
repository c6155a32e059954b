/* SPDX-License-Identifier: Apache-2.0 */
/* Gives directories that have grown large more subvolumes ("Widening" in doc/distribution.md): bricks tell which these are, shards are made where names are to come
 * to, then it goes on as for the root when a subvolume has come (rebalance.c). What it is at stands in `work` of the directory's home, g.GFID, so that who comes
 * after it goes on: a symbolic link whose target is the directory's path, for a brick that was restarted knows no directory by its gfid alone. */
#include "rebalance.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "born.h"

enum { QUEUE_MAX = 4096, POLL_MS = 2000, LOOK_EACH = 30 };
#define WIDEN_NS 60000000000u

struct growing {
	struct gfid gfid;
	int child;		  /* who tells of it */
	unsigned want;		  /* members; 0: twice as many as now */
	bool begun;		  /* there is a record, at that subvolume */
	struct patience patience; /* with who is about to remove it, and may have died */
};
struct queue {
	struct growing at[QUEUE_MAX];
	unsigned count;
};

/* ---- which directories ---- */

static void queue_add(struct queue *q, const struct growing *g)
{
	for (unsigned i = 0; i < q->count; i++)
		if (gfid_equal(&q->at[i].gfid, &g->gfid)) {
			if (g->begun) { /* the record is there */
				q->at[i].begun = true;
				q->at[i].child = g->child;
			}
			return;
		}
	if (q->count < QUEUE_MAX) /* it is told again when it has grown, or by its record */
		q->at[q->count++] = *g;
}

static void ask_for_candidates(struct rebalance *r, struct queue *q, int child)
{
	cleanup_inode struct inode *root = root_of(r->d);
	struct getxattr_in in = { .inode = root, .name = DHT_CANDIDATES_XATTR };
	struct getxattr_out out = { 0 };
	struct growing g = { .child = child };
	struct request rq;
	int err;

	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = root ? place_say_newest(&rq, r->d) : -ENOMEM;
	if (!err)
		err = getxattr_on(&rq, r->d->x->child[child], &in, &out);
	for (size_t at = 0; !err && at + sizeof(g.gfid) <= out.value.size; at += sizeof(g.gfid)) {
		memcpy(&g.gfid, (const char *)out.value.bytes + at, sizeof(g.gfid));
		queue_add(q, &g);
	}
	fop_out_clear(FOP_getxattr, &out);
	request_finish(&rq);
}

int growing_parse(const char *name, struct gfid *gfid)
{
	return strncmp(name, "g.", 2) != 0 ? -EINVAL : gfid_parse(name + 2, gfid);
}

struct records {
	struct queue *queue;
	int child;
};

static void meet(struct request *rq, void *arg, struct inode *dir, const struct dirents *list)
{
	struct records *s = arg;

	(void)rq, (void)dir;
	for (uint32_t i = 0; i < list->count; i++) {
		struct growing g = { .child = s->child, .begun = true };

		if (!growing_parse(list->entry[i].name, &g.gfid))
			queue_add(s->queue, &g);
	}
}

static void look_for_records(struct rebalance *r, struct queue *q, int child)
{
	struct records s = { q, child };

	for (unsigned i = 0; i < WORK_DIRS && !rebalance_stops(r); i++) {
		struct request rq;

		rebalance_ask(r, &rq, REBALANCE_ASK_NS);
		work_list(&rq, r->d, child, i, meet, &s);
		request_finish(&rq);
	}
}

/* ---- the record ---- */

static const char *record_name(const struct gfid *gfid, char name[HIDDEN_NAME])
{
	char text[GFID_TEXT];

	snprintf(name, HIDDEN_NAME, "g.%s", gfid_text(gfid, text));
	return name;
}

static int record_at(struct request *rq, struct rebalance *r, const struct gfid *gfid, int child, bool makes,
		     char name[HIDDEN_NAME], struct loc *loc, struct inode **dir)
{
	int err = work_dir(rq, r->d, child, work_of(gfid), makes, dir);

	*loc = (struct loc){ .parent = *dir, .name = record_name(gfid, name) };
	return err;
}

static int record_write(struct request *rq, struct rebalance *r, int home)
{
	cleanup_inode struct inode *dir = NULL;
	struct side s = { .child = home, .parent = r->dir->gfid };
	struct symlink_in in = { .target = s.path };
	struct symlink_out out = { 0 };
	char name[HIDDEN_NAME];
	int err = side_find_path(rq, r->d, &s, r->dir);

	if (!err)
		err = record_at(rq, r, &r->dir->gfid, home, true, name, &in.loc, &dir);
	if (!s.path[0])
		in.target = (char *)"-"; /* it is too long: it is found by its gfid, or when it has grown again */
	gfid_create(&in.gfid);
	if (!err)
		err = symlink_on(rq, r->d->x->child[home], &in, &out);
	fop_out_clear(FOP_symlink, &out);
	if (err == -ESTALE)
		hidden_forget(r->d, home);
	return err == -EEXIST ? 0 : err;
}

static int record_path(struct request *rq, struct rebalance *r, const struct growing *g, char path[SIDE_PATH])
{
	cleanup_inode struct inode *dir = NULL;
	struct lookup_in look = { 0 };
	struct lookup_out found = { 0 };
	struct readlink_in in = { 0 };
	struct readlink_out out = { 0 };
	char name[HIDDEN_NAME];
	int err = record_at(rq, r, &g->gfid, g->child, false, name, &look.loc, &dir);

	if (!err)
		err = lookup_on(rq, r->d->x->child[g->child], &look, &found);
	in.inode = found.inode;
	if (!err)
		err = readlink_on(rq, r->d->x->child[g->child], &in, &out);
	if (!err && strlen(out.target) < SIDE_PATH)
		memcpy(path, out.target, strlen(out.target) + 1);
	fop_out_clear(FOP_readlink, &out);
	fop_out_clear(FOP_lookup, &found);
	return err;
}

static int record_remove(struct request *rq, struct rebalance *r, const struct gfid *gfid, int child)
{
	cleanup_inode struct inode *dir = NULL;
	struct unlink_in in = { 0 };
	struct unlink_out out = { 0 };
	char name[HIDDEN_NAME];
	int err = record_at(rq, r, gfid, child, false, name, &in.loc, &dir);

	if (!err)
		err = unlink_on(rq, r->d->x->child[child], &in, &out);
	return err == -ENOENT ? 0 : err;
}

/* ---- the directory ---- */

/* What is told of may be one of our own, which clients have no names for: -ESTALE. While the brick can't tell nothing is done. */
static int check_not_ours(struct request *rq, struct rebalance *r, const struct gfid *gfid, int child)
{
	char path[PATH_MAX];
	static const char hidden[] = "/" DHT_HIDDEN;
	static const char away[] = "/" DHT_HIDDEN "/away/";

	int err = path_at(rq, r->d, child, gfid, path);

	if (err || strncmp(path, hidden, sizeof(hidden) - 1) != 0 ||
	    (path[sizeof(hidden) - 1] && path[sizeof(hidden) - 1] != '/'))
		return err == -EXDEV ? -ESTALE : err;
	return strncmp(path, away, sizeof(away) - 1) != 0 || strlen(path) < sizeof(away) - 1 + 5 ||
			       strncmp(path + sizeof(away) - 1 + 2, "/d.", 3) != 0
		       ? -ESTALE
		       : 0;
}

/* As the brick knows it, or by the path that the record says; or it has been put away since, and the brick was restarted. */
int directory_at(struct request *rq, struct dht *d, const struct side *s, struct inode **dir)
{
	struct aim aim = { .gfid = s->parent, .child = s->child, .dir = true };
	struct lookup_out out = { 0 };
	int err = side_find(rq, d, s, dir);

	if (err != -ESTALE)
		return err;
	inode_unref(*dir);
	*dir = NULL;
	err = look_at_anchor(rq, d, &aim, &out);
	if (!err)
		*dir = inode_ref(out.inode);
	fop_out_clear(FOP_lookup, &out);
	return err == -ENOENT ? -ESTALE : err;
}

/* A reference in r->dir, as its home has it. -ESTALE: nobody knows of it (any more). */
static int find(struct request *rq, struct rebalance *r, const struct growing *g, int *home)
{
	cleanup_inode struct inode *there = NULL;
	struct side s = { .child = g->child, .parent = g->gfid };
	int err = place_say_newest(rq, r->d);

	if (!err && g->begun)
		err = record_path(rq, r, g, s.path);
	if (!err)
		err = directory_at(rq, r->d, &s, &r->dir);
	*home = g->child;
	if (!err)
		err = home_of_shard(rq, r->d, r->dir, home);
	if (err || *home == g->child)
		return err ? err : note_place(r->d, r->dir, *home, true);
	s = (struct side){ .child = *home, .parent = g->gfid };
	there = r->dir; /* kept until then, so that what is known by both stays one */
	r->dir = NULL;
	err = directory_at(rq, r->d, &s, &r->dir);
	return err ? err : note_place(r->d, r->dir, *home, true);
}

int directory_find(struct request *rq, struct rebalance *r, const struct gfid *gfid, int child, int *home)
{
	return find(rq, r, &(struct growing){ .gfid = *gfid, .child = child }, home);
}

/* ---- shards ---- */

static int make_shard(struct request *rq, struct rebalance *r, int home, int child)
{
	cleanup_inode struct inode *away = NULL;
	struct aim aim = { .gfid = r->dir->gfid, .child = child, .dir = true };
	uint8_t bytes[PARENT_SIZE];
	struct born_xattr x = { DHT_PARENT_XATTR, bytes, PARENT_SIZE };
	struct mkdir_in in = { .gfid = r->dir->gfid, .mode = 0700 };
	struct mkdir_out out = { 0 };
	struct lookup_out found = { 0 };
	char name[HIDDEN_NAME];
	int err = away_dir(rq, r->d, child, &aim.gfid, true, &away);

	parent_encode(&(struct parent){ 2, (uint32_t)home, r->dir->gfid },
		      bytes); /* 1 is what was made for its pointer (away.c) */
	in.loc = (struct loc){ .parent = away, .name = anchor_name(&aim, name) };
	if (!err)
		err = born_attach(rq, &x, 1);
	if (!err)
		err = mkdir_on(rq, r->d->x->child[child], &in, &out);
	born_attach(rq, NULL, 0);
	fop_out_clear(FOP_mkdir, &out);
	if (err == -EEXIST)
		err = look_at_anchor(rq, r->d, &aim, &found); /* so that it can be named */
	fop_out_clear(FOP_lookup, &found);
	if (err == -ESTALE)
		hidden_forget(r->d, child);
	return err;
}

int make_shards(struct request *rq, struct rebalance *r, const struct layout *l)
{
	int err = 0;

	for (unsigned i = 0; i < l->count && !err; i++) {
		int child = (int)l->member[i].id;

		if (!l->member[i].weight)
			err = make_shard(rq, r, home_until(l), child);
		if (err)
			rebalance_problem(r, err, "a large directory can't be given to %s: %s", subvolume_name(r, child),
					  error_text(err));
	}
	return err;
}

void shard_drop(struct request *rq, struct dht *d, const struct gfid *gfid, int child, int home)
{
	cleanup_inode struct inode *away = NULL;
	struct aim aim = { .gfid = *gfid, .child = child, .dir = true };
	char name[HIDDEN_NAME];
	struct rmdir_in in = { .loc = { .name = anchor_name(&aim, name) } };
	struct lookup_out found = { 0 };
	struct layout named;
	int at = child;

	if (look_at_anchor(rq, d, &aim, &found))
		return;
	if (!home_of_shard(rq, d, found.inode, &at) && at == home && layout_at(rq, d, child, found.inode, &named) == -ENODATA &&
	    !away_dir(rq, d, child, gfid, false, &away)) {
		in.loc.parent = away;
		rmdir_on(rq, d->x->child[child], &in, &(struct rmdir_out){ 0 });
	}
	fop_out_clear(FOP_lookup, &found);
}

/* Those that no layout names: the directory went before one did. */
static void drop_shards(struct request *rq, struct rebalance *r, const struct gfid *gfid, int home)
{
	for (int i = 0; i < r->d->x->children; i++)
		if (i != home && has_subvolume(r->d, (uint64_t)i))
			shard_drop(rq, r->d, gfid, i, home);
}

/* ---- its next layout ---- */

/* By the best that have a part of the root, and are there. false: there are none. */
static bool grow(struct rebalance *r, struct layout *l, unsigned want)
{
	struct layout_member pool[SUBVOLUMES_MAX], more[SUBVOLUMES_MAX];
	uint64_t present = members_present(r->d) & ~leaving_of(r->d);
	unsigned n = 0, index[SUBVOLUMES_MAX], found;

	for (int i = 0; i < r->d->x->children; i++)
		if (present >> i & 1 && !layout_find(l, (uint32_t)i))
			pool[n++] = (struct layout_member){ .id = (uint32_t)i, .weight = l->member[0].weight };
	want = want > l->count ? want - l->count : 0;
	found = members_rank(pool, n, layout_key_object(&r->dir->gfid), want < n ? want : n, index);
	for (unsigned i = 0; i < found; i++)
		more[i] = (struct layout_member){ .id = pool[index[i]].id, .weight = pool[index[i]].weight };
	return found && !layout_grow(l, more, found);
}

static int begin(struct rebalance *r, const struct layout *l)
{
	struct request rq;
	int err;

	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = place_say_in(&rq, r->d, r->dir);
	if (!err)
		err = record_write(&rq, r, (int)l->home);
	if (!err)
		err = make_shards(&rq, r, l);
	request_finish(&rq);
	if (!err)
		err = copy_shards(r, l);
	return err ? err : layout_write(r, l);
}

/* From where it stands: 1: it is as it is to be. */
static int step(struct rebalance *r, struct growing *g, int home)
{
	const struct spread *now = NULL;
	struct layout l;
	int err = layout_now(r, &now);

	if (err)
		return err;
	if (now)
		l = now->layout;
	else
		layout_single(&l, (uint32_t)home);
	if (l.moving)
		g->want = g->want ? g->want : l.count;
	if (l.moving)
		return move_and_settle(r, &l);
	g->want = g->want ? g->want : g->begun && now ? l.count : 2 * l.count;
	return grow(r, &l, g->want) ? begin(r, &l) : 1;
}

/* It may go meanwhile: nobody looks for its shards then but who made them. */
static int end(struct rebalance *r, const struct growing *g, int home, bool gone)
{
	struct request rq;
	int err;

	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = place_say_newest(&rq, r->d);
	if (!err && gone)
		drop_shards(&rq, r, &g->gfid, home);
	if (!err)
		err = record_remove(&rq, r, &g->gfid, home);
	request_finish(&rq);
	return err;
}

/* 0: it has been widened, or can't be; -errno: to be tried again. */
static int widen(struct rebalance *r, struct growing *g)
{
	struct request rq;
	int home, err;

	rebalance_ask(r, &rq, WIDEN_NS);
	err = place_say_newest(&rq, r->d);
	if (!err && !g->begun)
		err = check_not_ours(&rq, r, &g->gfid, g->child);
	if (!err)
		err = find(&rq, r, g, &home);
	request_finish(&rq);
	if (err)
		return err == -ESTALE && !g->begun ? 0 : err;
	while (!rebalance_stops(r) && !(err = step(r, g, home)))
		rebalance_no_problem(r);
	if (err == -EAGAIN)
		wait_for_marks(r, home, &g->patience);
	if (err == -ESTALE && !directory_has_gone(r, home))
		err = rebalance_problem(r, -EIO, "a shard of a wide directory is not there: `stratus fsck` tells which");
	if (err > 0 || err == -ESTALE)
		return end(r, g, home, err == -ESTALE);
	return rebalance_stops(r) ? -ECANCELED : err;
}

static void work_off(struct rebalance *r, struct queue *q)
{
	unsigned kept = 0, i;

	for (i = 0; i < q->count && !rebalance_stops(r); i++) {
		struct growing g = q->at[i];
		int err = widen(r, &g);

		inode_unref(r->dir);
		r->dir = NULL;
		if (!err)
			rebalance_count(r, 1, 0);
		else
			q->at[kept++] = g;
	}
	memmove(&q->at[kept], &q->at[i], (q->count - i) * sizeof(*q->at));
	q->count = kept + q->count - i;
}

static void look(struct rebalance *r, struct queue *q, unsigned round)
{
	uint64_t present = members_present(r->d);

	for (int i = 0; i < r->d->x->children && !rebalance_stops(r); i++) {
		if (!(present >> i & 1))
			continue;
		ask_for_candidates(r, q, i);
		if (round % LOOK_EACH == 0)
			look_for_records(r, q, i);
	}
}

void widen_once(struct dht *d)
{
	struct rebalance *r = calloc(1, sizeof(*r));
	struct queue *q = calloc(1, sizeof(*q));

	if (r && q) {
		pthread_mutex_init(&r->lock, NULL);
		r->d = d;
		look(r, q, 0);
		work_off(r, q);
		pthread_mutex_destroy(&r->lock);
	}
	free(q);
	free(r);
}

void widen_run(struct rebalance *r)
{
	struct queue *q = calloc(1, sizeof(*q));
	uint64_t pause_ms = r->d->sweep_ms < POLL_MS ? r->d->sweep_ms : POLL_MS;

	for (unsigned round = 0; q && !rebalance_stops(r); round++) {
		look(r, q, round);
		work_off(r, q);
		rebalance_pause(r, pause_ms);
	}
	free(q);
}
