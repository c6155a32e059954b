/* SPDX-License-Identifier: Apache-2.0 */
/* features/layout: directories with so many names here that they are to be at more subvolumes. Names are counted when so many were made since the last time that
 * there could be `widen-at`; not more often than after an eighth of that, so a name costs the reading of eight names at most. Who widens asks for what was found
 * (cluster/dht, widen.c); if he loses it, the directory is found again when it has grown by another eighth. */
#include "shard.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { PART = 8, BATCH = 64 << 10 };

static unsigned least(const struct checks *c)
{
	return c->widen_at > PART ? (unsigned)(c->widen_at / PART) : 1;
}

/* Up to `most`. */
static int count_in(struct request *rq, struct xlator *child, struct file *file, int64_t most, int64_t *count)
{
	struct readdir_in in = { .file = file, .size = BATCH };
	bool end = false;
	int err = 0;

	while (!err && !end && *count < most) {
		struct readdir_out out = { 0 };

		err = readdir_on(rq, child, &in, &out);
		end = err || out.entries.end || !out.entries.count;
		*count += err ? 0 : out.entries.count;
		if (!err && out.entries.count)
			in.offset = out.entries.entry[out.entries.count - 1].next_offset;
		fop_out_clear(FOP_readdir, &out);
	}
	return err;
}

static int count_names(struct request *rq, struct xlator *child, struct inode *directory, int64_t most, int64_t *count)
{
	struct opendir_in in = { .inode = directory };
	struct opendir_out out = { 0 };
	struct release_out released = { 0 };
	uid_t uid = rq->uid;
	int err;

	*count = 0;
	rq->uid = 0;
	err = opendir_on(rq, child, &in, &out);
	if (!err) {
		err = count_in(rq, child, out.file, most, count);
		release_on(rq, child, &(struct release_in){ .file = out.file }, &released);
	}
	rq->uid = uid;
	file_unref(out.file);
	return err;
}

/* With the lock held. If there is no room the oldest goes: it will be counted again. */
static void add(struct grown *g, const struct gfid *gfid)
{
	for (unsigned i = 0; i < g->candidates; i++)
		if (gfid_equal(&g->candidate[i], gfid))
			return;
	if (g->candidates == CANDIDATES_MAX) {
		g->candidates--;
		memmove(&g->candidate[0], &g->candidate[1], g->candidates * sizeof(*gfid));
	}
	g->candidate[g->candidates++] = *gfid;
}

/* With the lock held. */
static struct made *made_in(struct grown *g, const struct gfid *gfid, unsigned at_first)
{
	struct made *m = &g->made[gfid_hash(gfid) % MADE];

	if (!gfid_equal(&m->gfid, gfid))
		*m = (struct made){ .gfid = *gfid, .allowed = at_first };
	return m;
}

/* One more name; it is time to count them. */
static bool is_time(struct checks *c, const struct gfid *gfid)
{
	struct made *m;
	bool yes;

	pthread_mutex_lock(&c->grown.lock);
	m = made_in(&c->grown, gfid, least(c));
	yes = ++m->names >= m->allowed;
	if (yes)
		m->names = 0;
	pthread_mutex_unlock(&c->grown.lock);
	return yes;
}

static void note_count(struct checks *c, const struct gfid *gfid, int64_t count)
{
	unsigned more = count < c->widen_at ? (unsigned)(c->widen_at - count) : 0;

	pthread_mutex_lock(&c->grown.lock);
	made_in(&c->grown, gfid, 0)->allowed = more > least(c) ? more : least(c);
	if (count >= c->widen_at)
		add(&c->grown, gfid);
	pthread_mutex_unlock(&c->grown.lock);
}

void grown_count(struct request *rq, struct xlator *x, struct inode *directory)
{
	struct checks *c = x->private;
	int64_t count;

	if (!c->widen_at || !c->grown.made || request_is_tenants(rq) || gfid_equal(&directory->gfid, &gfid_root) ||
	    !is_time(c, &directory->gfid))
		return;
	if (!count_names(rq, x->child[0], directory, c->widen_at, &count))
		note_count(c, &directory->gfid, count);
}

void grown_init(struct grown *g)
{
	pthread_mutex_init(&g->lock, NULL);
	g->made = calloc(MADE, sizeof(*g->made));
}

void grown_finish(struct grown *g)
{
	pthread_mutex_destroy(&g->lock);
	free(g->made);
}

bool asks_candidates(const struct request *rq, enum fop fop, const void *in)
{
	const struct getxattr_in *get = in;

	return fop == FOP_getxattr && get->inode && is_top(rq, get->inode) && get->name &&
	       !strcmp(get->name, DHT_CANDIDATES_XATTR);
}

int candidates_tell(struct request *rq, struct xlator *x, struct getxattr_out *out)
{
	struct grown *g = &((struct checks *)x->private)->grown;
	int err = for_the_brick(rq);

	if (err)
		return err;
	out->value.bytes = malloc(sizeof(g->candidate));
	if (!out->value.bytes)
		return -ENOMEM;
	pthread_mutex_lock(&g->lock);
	out->value.size = g->candidates * (uint32_t)sizeof(g->candidate[0]);
	memcpy(out->value.bytes, g->candidate, out->value.size);
	g->candidates = 0;
	pthread_mutex_unlock(&g->lock);
	return 0;
}
