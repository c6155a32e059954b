/* SPDX-License-Identifier: Apache-2.0 */
/* A client of another tenant that lies to the members of a set, each by itself, past cluster/afr: it suspects who is well, says of changes that are done that
 * they failed, settles what was never sent, sends members different things, and gives nothing back. In a tree of its own, as features/cloud confines
 * it; what others have must not suffer, and no member may leave by it. */
#include <fcntl.h>
#include <stdio.h>

#include "dht/place.h"
#include "message.h"
#include "replica.h"
#include "sim.h"

enum { LIARS = 2, NAMED = 4, DEPTH = 2, DEADLINE_S = 3, PAUSE_MS = 60, TENANTS_AGAIN_S = 10, SPARE_VIEWS = 2 };
static const char tree[] = "lies", *const names[NAMED] = { "a", "b", "c", "d" };

struct lying { /* a task with a session */
	struct gfid session;
	uint64_t sequence;
	bool expects; /* of its next change of names it says that it takes what all have: the root */
};
static struct {
	struct node *node;
	struct graph *graph;
	struct xlator *afr;
	struct inode *top;
	struct lying task[LIARS];
	struct view view;
	uint64_t began_ns, first_epoch;
	unsigned running, lies;
	bool ends;
} liar;

static uint64_t pick(uint64_t limit)
{
	return chance_below(CHANCE_LIES, limit);
}

struct node *node_liar(void)
{
	return plan.liar ? &node[nodes - 1] : NULL;
}

unsigned liar_lies(void)
{
	return liar.lies;
}

/* ---- asking a member ---- */

static void begin(struct request *rq)
{
	request_init(rq, liar.graph, 0);
	rq->group_count = 0;
	rq->deadline_ns = clock_ns() + DEADLINE_S * S;
}

static int ask(struct lying *l, unsigned member, uint32_t verb, struct pack *p, struct replica_out *out)
{
	struct replica_in in = { .verb = verb };
	struct replica_stamp who = { .session = session_tag(l->session.bytes) };
	struct replica_out nothing = { 0 };
	struct request rq;
	int err = pack_end(p, &in.data);

	begin(&rq);
	if (!err)
		err = stamp_attach(&rq, &who);
	if (!err)
		err = fop_call(&rq, liar.afr->child[member], FOP_replica, &in, out ? out : &nothing);
	request_finish(&rq);
	free(in.data.bytes);
	if (!err && !out)
		fop_out_clear(FOP_replica, &nothing);
	return err;
}

static void say(struct lying *l, unsigned members, uint32_t verb, const struct pack *p)
{
	for (unsigned i = 0; i < plan.members; i++) {
		struct pack copy = { 0 };

		if (!(members >> i & 1))
			continue;
		pack_bytes(&copy, p->bytes, p->size);
		ask(l, i, verb, &copy, NULL);
	}
}

static int call(struct lying *l, unsigned member, uint64_t sequence, uint64_t settled, enum fop fop, const void *in, void *out)
{
	struct replica_stamp stamp = { .epoch = liar.view.epoch,
				       .sequence = sequence,
				       .settled = settled,
				       .time = clock_wall_ns() - pick(S),
				       .flags = sequence ? 0 : REPLICA_READ,
				       .session = session_tag(l->session.bytes) };
	struct request rq;
	int err;

	begin(&rq);
	err = stamp_attach(&rq, &stamp);
	if (!err && sequence && l->expects)
		err = place_attach(&rq, &(struct place){ .expected = { gfid_root, gfid_root } });
	if (!err)
		err = fop_call(&rq, liar.afr->child[member], fop, in, out);
	request_finish(&rq);
	return err;
}

/* ---- the view ---- */

/* Where nothing else happens no member leaves, and new views are few. */
static void look(const struct view *v)
{
	uint64_t most = 2 * ((sim_now() - liar.began_ns) / (TENANTS_AGAIN_S * S) + SPARE_VIEWS); /* each may need another */

	if (v->epoch > liar.view.epoch)
		liar.view = *v;
	if (plan.faults || !liar.first_epoch)
		return;
	if (view_mask(v, MEMBER_IN) != (1u << plan.members) - 1)
		sim_fail("a member has left the set by what a client said");
	if (v->epoch > liar.first_epoch + most)
		sim_fail("a client brings about %llu views in %llu s", (unsigned long long)(v->epoch - liar.first_epoch),
			 (unsigned long long)((sim_now() - liar.began_ns) / S));
}

static void attach(struct lying *l, unsigned member)
{
	struct replica_out out = { 0 };
	struct pack p = { 0 };
	struct reply_view r;
	struct unpack u;

	pack_bytes(&p, l->session.bytes, sizeof(l->session.bytes));
	if (ask(l, member, REPLICA_ATTACH, &p, &out))
		return;
	u = unpack_blob(&out.data);
	unpack_reply_view(&u, &r);
	if (!u.failed && r.serving)
		look(&r.view);
	fop_out_clear(FOP_replica, &out);
}

/* ---- lies about changes ---- */

static struct inode *find(struct lying *l, unsigned member, struct inode *parent, const char *name)
{
	struct lookup_in in = { .loc = { .parent = parent, .name = name } };
	struct lookup_out out = { 0 };
	struct inode *found;

	if (call(l, member, 0, 0, FOP_lookup, &in, &out))
		return NULL;
	found = inode_ref(out.inode);
	fop_out_clear(FOP_lookup, &out);
	return found;
}

static struct inode *find_tree(struct lying *l, unsigned member)
{
	cleanup_inode struct inode *root = inode_get(liar.graph->inodes, &gfid_root, S_IFDIR);

	return find(l, member, root, tree);
}

static void write_some(struct lying *l, unsigned member, uint64_t sequence, uint64_t settled, struct inode *inode)
{
	struct open_in open = { inode, O_RDWR };
	struct open_out opened = { 0 };
	struct release_out released = { 0 };
	struct release_in release;
	uint64_t value = chance(CHANCE_LIES);

	if (call(l, member, 0, 0, FOP_open, &open, &opened))
		return;
	if (pick(4)) {
		struct write_in in = { .file = opened.file,
				       .offset = pick(3) * 64,
				       .data = buffer_from(&value, sizeof(value)) };
		struct write_out out = { 0 };

		call(l, member, sequence, settled, FOP_write, &in, &out);
		buffer_unref(in.data);
	} else {
		struct fallocate_in in = { .file = opened.file, .length = pick(2) ? 64 : 1ull << 42 };
		struct fallocate_out out = { 0 };

		call(l, member, sequence, settled, FOP_fallocate, &in, &out);
	}
	release.file = opened.file;
	call(l, member, 0, 0, FOP_release, &release, &released);
	fop_out_clear(FOP_open, &opened);
}

static void name_some(struct lying *l, unsigned member, uint64_t sequence, uint64_t settled, const struct loc *loc)
{
	struct mknod_in node_in = { .loc = *loc, .mode = S_IFREG | 0644 };
	struct mkdir_in dir_in = { .loc = *loc, .mode = 0755 };
	struct unlink_in unlink_in = { .loc = *loc };
	struct rmdir_in rmdir_in = { .loc = *loc };
	struct rename_in rename_in = { .from = *loc, .to = { .parent = loc->parent, .name = names[pick(NAMED)] } };
	union fop_out out = { 0 };
	int err = 0;

	gfid_create(&node_in.gfid);
	gfid_create(&dir_in.gfid);
	switch (pick(6)) {
	case 0:
	case 1:
		err = call(l, member, sequence, settled, FOP_mknod, &node_in, &out);
		if (!err)
			fop_out_clear(FOP_mknod, &out);
		break;
	case 2:
		err = call(l, member, sequence, settled, FOP_mkdir, &dir_in, &out);
		if (!err)
			fop_out_clear(FOP_mkdir, &out);
		break;
	case 3:
		call(l, member, sequence, settled, FOP_unlink, &unlink_in, &out);
		break;
	case 4:
		call(l, member, sequence, settled, FOP_rmdir, &rmdir_in, &out);
		break;
	default:
		call(l, member, sequence, settled, FOP_rename, &rename_in, &out);
	}
}

/* One number, and something else at each member. */
static void change_at(struct lying *l, unsigned member, uint64_t sequence, uint64_t settled)
{
	struct inode *dir = find_tree(l, member), *inode = NULL;
	const char *name = names[pick(NAMED)];

	for (unsigned depth = 0; dir && depth < DEPTH; depth++) {
		inode_unref(inode);
		inode = find(l, member, dir, name);
		if (!inode || !S_ISDIR(inode->type) || pick(2))
			break;
		inode_unref(dir);
		dir = inode;
		inode = NULL;
		name = names[pick(NAMED)];
	}
	if (dir && inode && S_ISREG(inode->type) && pick(3))
		write_some(l, member, sequence, settled, inode);
	else if (dir)
		name_some(l, member, sequence, settled, &(struct loc){ .parent = dir, .name = name });
	inode_unref(inode);
	inode_unref(dir);
}

static unsigned some_members(void)
{
	return pick(2) ? (1u << plan.members) - 1 : 1 + (unsigned)pick((1u << plan.members) - 1);
}

static void change(struct lying *l)
{
	unsigned members = some_members();
	uint64_t sequence = ++l->sequence, settled = pick(3) ? 0 : sequence - 1;

	l->expects = !pick(4);
	for (unsigned i = 0; i < plan.members; i++)
		if (members >> i & 1)
			change_at(l, i, sequence, settled);
}

/* ---- lies about others ---- */

static void suspect(struct lying *l)
{
	static const uint32_t reasons[] = { EIO, ETIMEDOUT, ENOTCONN, ENOSPC };
	struct pack p = { 0 };

	pack_u64(&p, liar.view.epoch);
	pack_u32(&p, 1 + (uint32_t)pick((1u << plan.members) - 1));
	pack_u32(&p, reasons[pick(4)]);
	say(l, (1u << plan.members) - 1, REPLICA_SUSPECT, &p);
	pack_free(&p);
}

static void number(struct lying *l, uint32_t verb, uint64_t n)
{
	struct pack p = { 0 };

	pack_u64(&p, liar.view.epoch);
	pack_u64(&p, n);
	say(l, some_members(), verb, &p);
	pack_free(&p);
}

static void acquire(struct lying *l)
{
	unsigned at = (unsigned)pick(plan.members);
	cleanup_inode struct inode *dir = find_tree(l, at);
	cleanup_inode struct inode *inode = dir && pick(2) ? find(l, at, dir, names[pick(NAMED)]) : NULL;
	const struct gfid *g = inode ? &inode->gfid : dir && pick(2) ? &dir->gfid : &gfid_rename_token;
	struct pack p = { 0 };

	pack_u64(&p, liar.view.epoch);
	pack_u64(&p, clock_ns());
	pack_gfid(&p, g);
	pack_u8(&p, pick(2));
	if (view_granter(&liar.view, g) >= 0)
		ask(l, (unsigned)view_granter(&liar.view, g), REPLICA_ACQUIRE, &p, NULL);
	else
		pack_free(&p);
}

static void skip(struct lying *l)
{
	cleanup_inode struct inode *dir = find_tree(l, (unsigned)pick(plan.members));
	struct pack p = { 0 };

	pack_u64(&p, liar.view.epoch);
	if (dir)
		pack_gfid(&p, &dir->gfid);
	say(l, some_members(), REPLICA_SKIP, &p);
	pack_free(&p);
}

/* Leaves what it had: nobody will ever settle it. */
static void begin_anew(struct lying *l)
{
	gfid_create(&l->session);
	l->sequence = 0;
}

static void lie(struct lying *l)
{
	switch (pick(16)) {
	case 0:
	case 1:
		suspect(l);
		break;
	case 2:
	case 3:
		number(l, REPLICA_FAILED, pick(l->sequence + 3));
		break;
	case 4:
		number(l, REPLICA_SETTLE, l->sequence + pick(3));
		break;
	case 5:
		number(l, REPLICA_OUTCOME, pick(l->sequence + 3));
		break;
	case 6:
		number(l, REPLICA_BELIEVE, 0);
		break;
	case 7:
	case 8:
		acquire(l);
		break;
	case 9:
		skip(l);
		break;
	case 10:
		if (!pick(8))
			begin_anew(l);
		break;
	default:
		change(l);
	}
	liar.lies++;
}

/* ---- its life ---- */

static void lying_run(void *arg)
{
	struct lying *l = arg;

	while (!liar.ends) {
		for (unsigned i = 0; i < plan.members; i++)
			if (!liar.view.epoch || !pick(4))
				attach(l, i);
		if (liar.view.epoch)
			lie(l);
		task_sleep_ms(pick(PAUSE_MS));
	}
	liar.running--;
}

/* Its tree is made as an honest client makes it. */
static void begin_run(void *arg)
{
	cleanup_inode struct inode *root = inode_get(liar.graph->inodes, &gfid_root, S_IFDIR);
	struct mkdir_in in = { .loc = { .parent = root, .name = tree }, .mode = 0755 };
	struct mkdir_out out = { 0 };
	struct request rq;
	int err;

	(void)arg;
	gfid_create(&in.gfid);
	begin(&rq);
	rq.deadline_ns = 0;
	err = fop_call(&rq, liar.graph->top, FOP_mkdir, &in, &out);
	request_finish(&rq);
	if (err)
		sim_fail("the liar can't make its tree: %s", strerror(-err));
	else
		fop_out_clear(FOP_mkdir, &out);
	task_sleep_ms(1000); /* that change is settled, so no honest one is under way any more */
	for (unsigned i = 0; i < LIARS; i++) {
		gfid_create(&liar.task[i].session);
		attach(&liar.task[i], 0);
	}
	liar.began_ns = sim_now();
	liar.first_epoch = liar.view.epoch;
	for (unsigned i = 1; i < LIARS; i++)
		task_spawn(NULL, lying_run, &liar.task[i]);
	lying_run(&liar.task[0]);
}

void liar_begin(void)
{
	if (!plan.liar)
		return;
	liar.node = node_liar();
	while (!liar.node->ready && !sim_failure())
		task_sleep_ms(5);
	liar.graph = liar.node->graph;
	liar.afr = liar.graph->top;
	liar.running = LIARS;
	task_spawn(liar.node->shard, begin_run, NULL);
	while (!liar.first_epoch && !sim_failure())
		task_sleep_ms(20);
}

void liar_end(void)
{
	liar.ends = true;
	while (liar.running && !sim_failure())
		task_sleep_ms(20);
}

/* What it has told members apart stays so. */
bool liar_owns(const char *path)
{
	return plan.liar && *path == '/' && !strcmp(path + 1, tree);
}
