/* SPDX-License-Identifier: Apache-2.0 */
/* A volume that grows: its last subvolumes have no part of the root's names at first; in the midst of the work somebody gives them theirs, and dies at it. */
#include "away.h"
#include "disk.h"
#include "layout.h"
#include "place.h"
#include "work.h"

enum {
	LIMIT_S = 180,
	HELP_S = 20,
	ASK_MS = 100,
	LATE_S = 40,
	TRIES = 1000,
	STALLED_PPM = 50000,
	STALL_MS = 400,
	STALLS_S = 10,
	NAME_LENGTH = 24
};
static struct {
	struct node *node;
	uint64_t begin_ns, second_ns; /* after the work's begin; second: a client begins, too; 0: none does */
	bool begun;
	bool stalls; /* while names move, what goes to and from other machines is late now and then: a whole move comes between two requests */
	uint64_t far_ns;	       /* each message of the rebalancer takes up to so long: names are moving for longer */
	uint64_t from, to;	       /* events: when it was begun first, when it was done */
	unsigned moved, before;	       /* by the rebalancer that lives; by those that have died */
	char problem[400], stays[200]; /* stays: what a subvolume that leaves has still */
	char lost[24];		       /* a name that is being removed, for it leads to nothing; empty: none */
} grow;

bool plan_grows(void)
{
	return plan.initial < plan.subvolumes;
}

bool plan_leaves(void)
{
	return plan.leaver >= 0;
}

bool plan_moves(void)
{
	return plan_grows() || plan_leaves() || plan.weighed >= 0;
}

struct node *node_rebalancer(void)
{
	return plan_moves() ? &node[nodes - 1] : NULL;
}

bool grow_knows(const struct node *n)
{
	if (!plan_leaves())
		return false;
	if (n->kind == NODE_BRICK)
		return grow.begun && (int)subvolume_of(n->number) == plan.leaver;
	return n == node_rebalancer() || plan.told || grow.begun;
}

/* ---- which names ---- */

static bool moves(const struct layout *l, const char *name)
{
	uint64_t key = layout_key(&gfid_root, name);

	return layout_owner(l, key) != layout_owner_next(l, key);
}

void grow_transition(struct layout *l)
{
	struct layout_member more[SUBVOLUMES_MAX];
	unsigned n = 0;

	layout_implied(l, 0, plan.initial);
	if (plan_leaves()) {
		layout_shrink(l, &(uint32_t){ (uint32_t)plan.leaver }, 1, plan.leaver ? 0 : 1);
		return;
	}
	if (plan.weighed >= 0) {
		layout_weigh(l, (uint32_t)plan.weighed, WEIGHT);
		return;
	}
	for (unsigned i = plan.initial; i < plan.subvolumes; i++)
		more[n++] = (struct layout_member){ .id = i, .weight = l->member[0].weight };
	layout_grow(l, more, n);
}

/* At least two of them move, and one stays; mostly one of those moves that directories have. */
static void choose_names(void)
{
	static char text[NAMES][NAME_LENGTH];
	static const char *plain[NAMES];
	bool directory = chance_below(CHANCE_GROW, 4) > 0;
	struct layout l;

	memcpy(plain, names, sizeof(plain));
	grow_transition(&l);
	for (int tries = 0; tries < TRIES; tries++) {
		unsigned number = (unsigned)chance_below(CHANCE_GROW, 1000000), count = 0;

		for (unsigned i = 0; i < NAMES; i++) {
			snprintf(text[i], NAME_LENGTH, "%s-%u", plain[i], number);
			names[i] = text[i];
			count += moves(&l, text[i]);
		}
		if (count >= 2 && count < NAMES && (!directory || moves(&l, names[0]) || moves(&l, names[1])))
			return;
	}
}

void grow_plan(int grows, bool leaves, bool weighs)
{
	static const unsigned far_ms[] = { 0, 5, 20, 60 };
	bool says = chance_below(CHANCE_GROW, 2);

	plan.initial = plan.subvolumes;
	if (!leaves && !weighs && (grows >= 0 ? !grows : !says))
		return;
	if (weighs) {
		plan.weighed = (int)chance_below(CHANCE_GROW, plan.subvolumes);
	} else if (leaves) {
		plan.leaver = (int)chance_below(CHANCE_GROW, plan.subvolumes);
		plan.told = chance_below(CHANCE_GROW, 2);
	} else {
		plan.initial = plan.subvolumes == 3 && !chance_below(CHANCE_GROW, 4) ? 1 : plan.subvolumes - 1;
	}
	choose_names();
	/* At once; most often in the middle; sometimes when all is over. */
	grow.begin_ns = chance_below(CHANCE_GROW, 6)
				? chance_below(CHANCE_GROW, chance_below(CHANCE_GROW, 6) ? 10 * S : LATE_S * S)
				: 0;
	grow.far_ns = far_ms[chance_below(CHANCE_GROW, sizeof(far_ms) / sizeof(*far_ms))] * MS;
	grow.stalls = chance_below(CHANCE_GROW, 2);
	if (!chance_below(CHANCE_GROW, 4) && (!leaves || plan.told)) /* who does not know would give it its part again */
		grow.second_ns = 1 + chance_below(CHANCE_GROW, 12 * S);
}

/* ---- who does it ---- */

static struct xlator *dht_of(const struct node *n)
{
	return n->ready ? graph_find(n->graph, "distribute") : NULL;
}

static void start_on(void *arg)
{
	char *words[] = { (char *)"rebalance", (char *)"start" };
	struct xlator *x = dht_of(arg);
	int err = x ? x->type->command(x, 2, words, stderr) : 0;

	trace("rebalance start");
	grow.from = grow.from ? grow.from : sim_now();
	if (err)
		sim_fail("`rebalance start` says: %s", strerror(-err));
}

static void widen_on(void *arg)
{
	char *words[] = { (char *)"rebalance", (char *)"widen", (char *)"start" };
	struct xlator *x = dht_of(arg);
	int err = x ? x->type->command(x, 3, words, stderr) : 0;

	if (err)
		sim_fail("`rebalance widen start` says: %s", strerror(-err));
}

void grow_node_up(struct node *n)
{
	if (plan.widen_at && n == node_client(0))
		widen_on(n);
	if (n != node_rebalancer())
		return;
	grow.before += grow.moved;
	grow.moved = 0;
	if (grow.begun)
		start_on(n);
}

static bool is_done(void)
{
	return grow.to;
}

bool grow_moves(unsigned name, uint64_t from_ns, uint64_t to_ns)
{
	struct layout l;

	if (!plan_moves() || !grow.from || to_ns < grow.from || (is_done() && from_ns > grow.to))
		return false;
	grow_transition(&l);
	return moves(&l, names[name]);
}

static void note_line(const char *line)
{
	if (!strcmp(line, "state done"))
		grow.to = grow.to ? grow.to : sim_now();
	else if (!strncmp(line, "moved ", 6))
		grow.moved = (unsigned)strtoul(line + 6, NULL, 10);
	else if (!strncmp(line, "problem ", 8))
		snprintf(grow.problem, sizeof(grow.problem), "%s", line + 8);
	else if (!strncmp(line, "stays-", 6) && strcmp(strchr(line, ' '), " 0") != 0)
		snprintf(grow.stays + strlen(grow.stays), sizeof(grow.stays) - strlen(grow.stays), ", %s", line);
}

/* On the rebalancer's loop. */
static void ask_status(void *arg)
{
	struct xlator *x = dht_of(node_rebalancer());
	char *words[] = { (char *)"rebalance", (char *)"status" }, *text = NULL, *rest, *line;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	(void)arg;
	grow.problem[0] = grow.stays[0] = '\0';
	if (x)
		x->type->command(x, 2, words, to);
	fclose(to);
	rest = text;
	while ((line = strsep(&rest, "\n")))
		note_line(line);
	free(text);
}

/* Half of them begin in the middle of a rename over several subvolumes, if there is one soon: its names have been found by the layout before. */
static void wait_for_rename(void)
{
	enum { TRIES_MS = 3000 };
	unsigned before = away_begun();

	if (!chance_below(CHANCE_GROW, 2))
		return;
	for (int i = 0; i < TRIES_MS && away_begun() == before && !work_done(); i++)
		task_sleep_ms(1);
}

static void begin_at(uint64_t ns, struct node *n)
{
	while (sim_now() < ns && !work_done())
		task_sleep_ms(20);
	wait_for_rename();
	if (n == node_rebalancer()) {
		grow.begun = true;
		leave_tell_bricks();
	}
	if (n->ready)
		sim_after(n, 0, start_on, n);
}

static void second_run(void *arg)
{
	begin_at(*(uint64_t *)arg + grow.second_ns, node_client(0));
}

static void grow_run(void *arg)
{
	begin_at(*(uint64_t *)arg + grow.begin_ns, node_rebalancer());
	while (!is_done() && !sim_failure()) {
		task_sleep_ms(ASK_MS);
		if (node_rebalancer()->ready)
			sim_after(node_rebalancer(), 0, ask_status, NULL);
	}
	if (is_done())
		trace("rebalance done: %u moved", grow_moved());
}

bool grow_stalls(void)
{
	return grow.stalls && grow_goes_on() && sim_now() - grow.from < STALLS_S * S;
}

uint64_t grow_travel_ns(const struct node *n)
{
	if (n == node_rebalancer())
		return grow.far_ns ? chance_below(CHANCE_GROW, grow.far_ns) : 0;
	if (!grow_stalls() || !chance_of(CHANCE_GROW, STALLED_PPM))
		return 0;
	return chance_below(CHANCE_GROW, STALL_MS * MS);
}

void grow_begin(void)
{
	static uint64_t now;

	if (!plan_moves())
		return;
	now = sim_now();
	task_spawn(NULL, grow_run, &now);
	if (grow.second_ns)
		task_spawn(NULL, second_run, &now);
}

bool grow_goes_on(void)
{
	return plan_moves() && grow.begun && !is_done();
}

/* As an administrator does who has been told so. */
static void remove_lost(void *arg)
{
	struct node *n = arg;
	struct unlink_in in = { .loc.name = grow.lost };
	struct unlink_out out = { 0 };
	struct request rq;
	int err;

	in.loc.parent = inode_get(n->graph->inodes, &gfid_root, S_IFDIR);
	request_init(&rq, n->graph, 0);
	err = unlink_on(&rq, n->graph->top, &in, &out);
	request_finish(&rq);
	inode_unref(in.loc.parent);
	trace("rebalance: %s leads to nothing, and is removed: %d", grow.lost, err);
	grow.lost[0] = '\0';
}

/* Power cuts may take an anchor, or give a name back that was removed: the rebalancer waits until somebody removes the name. */
static void remove_what_is_lost(void)
{
	struct node *n = node_rebalancer();

	if (!plan.lossy || !n->ready || grow.lost[0] || !strstr(grow.problem, " leads to nothing: "))
		return;
	if (sscanf(grow.problem, "\"%23[^\"]", grow.lost) == 1)
		task_spawn(n->shard, remove_lost, n);
}

/* What was open before it was moved is waited for, and cluster/afr may leave something open at a member as long as the client lives: so mounts are made anew. */
static void close_all(void)
{
	for (unsigned i = 0; i < plan.clients; i++) {
		node_crash(node_client(i), false);
		node_start(node_client(i));
	}
}

static void run_fsck(void *arg)
{
	char *words[] = { (char *)"fsck", (char *)"repair" };
	struct xlator *x = dht_of(arg);
	FILE *to = fopen("/dev/null", "w");

	if (x)
		x->type->command(x, 2, words, verbose ? stderr : to);
	fclose(to);
	trace("fsck is done");
	if (x && plan.lossy)
		leave_remove_lost(arg);
}

static bool only_open(void)
{
	return !strncmp(grow.stays, ", stays-open ", 13) && !strchr(grow.stays + 1, ',');
}

/* As an administrator does who is told that it does not end: an anchor too many, which is left for fsck (away.c), is at who leaves, too. */
static void help(void)
{
	if (only_open())
		close_all();
	else if (nemesis_cut_all() || nemesis_client_died())
		task_spawn(node_client(0)->shard, run_fsck, node_client(0));
}

void grow_end(void)
{
	uint64_t until = sim_now() + LIMIT_S * S, patience = sim_now() + HELP_S * S;

	grow.far_ns = 0; /* who is slower than sweeps never moves anything */
	while (plan_moves() && !is_done() && !sim_failure() && sim_now() < until) {
		task_sleep_ms(ASK_MS);
		remove_what_is_lost();
		if (plan_leaves() && sim_now() > patience) {
			help();
			patience = sim_now() + HELP_S * S;
		}
	}
	if (plan_moves() && !is_done())
		sim_fail("the rebalancer did not end %d s after the faults: %s%s", LIMIT_S,
			 grow.problem[0] ? grow.problem : "it tells of no problem", grow.stays);
}

unsigned grow_moved(void)
{
	return grow.before + grow.moved;
}

unsigned grow_kills(void)
{
	return plan_moves() ? node_rebalancer()->life - 1 : 0;
}

/* ---- what there is in the end ---- */

static bool leaves(const struct layout *l, const char *name, const char *mark, unsigned subvolume)
{
	char text[MARK_NAME];
	uint64_t key = layout_key(&gfid_root, name);

	return !strcmp(mark_name(mark_hash(name), text), mark) && layout_owner_next(l, key)->id != subvolume &&
	       layout_owner(l, key)->id == subvolume;
}

bool grow_has_left(const char *mark, unsigned subvolume)
{
	struct layout l;
	bool has = false;
	char name[32];

	if (!plan_moves())
		return false;
	grow_transition(&l);
	for (unsigned i = 0; i < NAMES && !has; i++)
		has = leaves(&l, names[i], mark, subvolume);
	for (unsigned i = 0; !has && keepers_name(i, name); i++)
		has = leaves(&l, name, mark, subvolume);
	return has;
}

static const struct disk_pair *layout_of(const struct disk_object *root)
{
	const struct disk_pair *x = root->xattr;

	while (x && strcmp(x->name, DHT_LAYOUT_XATTR))
		x = x->next;
	return x;
}

static void check_layout(const struct disk_pair *x, const struct layout *want, unsigned brick)
{
	uint8_t bytes[LAYOUT_SIZE_MAX];

	if (!x)
		sim_fail("brick%u has no layout of the root", brick);
	else if (x->value.size != layout_encode(want, bytes) || memcmp(x->value.bytes, bytes, x->value.size))
		sim_fail("brick%u has another layout of the root than that in which all names have come", brick);
}

static void check_place(const struct layout *l, const char *name, unsigned brick)
{
	uint32_t owner = layout_owner(l, layout_key(&gfid_root, name))->id;

	if (strcmp(name, DHT_HIDDEN) != 0 && owner != subvolume_of(brick))
		sim_fail("brick%u has the name /%s, which belongs to subvolume %u", brick, name, owner);
}

void check_grown(void)
{
	struct layout l;

	if (!plan_moves())
		return;
	grow_transition(&l);
	layout_settle(&l);
	for (unsigned i = 0; i < bricks_count() && !sim_failure(); i++) {
		const struct disk_object *root = disk_find(disk_of(i), &gfid_root);

		if ((int)subvolume_of(i) != plan.leaver) /* which nobody asks any more */
			check_layout(layout_of(root), &l, i);
		for (const struct disk_entry *e = root->entry; e && !sim_failure(); e = e->next)
			check_place(&l, e->name, i);
	}
}
