/* SPDX-License-Identifier: Apache-2.0 */
/* Faults: what happens to machines, disks and links while the clients work. */
#include "away.h"

enum fault {
	FAULT_KILL,
	FAULT_POWER,
	FAULT_CLIENT,
	FAULT_COORDINATOR,
	FAULT_LOST,
	FAULT_LATE,
	FAULT_PARTITION,
	FAULT_ONE_WAY,
	FAULT_CLIENT_LINK,
	FAULT_SLOW,
	FAULT_STUCK,
	FAULT_EIO,
	FAULT_FULL,
	FAULT_REPLACE,
	FAULT_CUT_ALL,
	FAULT_IN_TURN,
	FAULT_CUT_AGAIN,
	FAULT_LOW,
	FAULT_FLOOR,
	FAULT_KILL_SET,
	FAULT_CUT_SET,
	FAULT_HELD,
	FAULT_REBALANCER,
	FAULT_CUT_MOVE,
	FAULT_LOSES,
	FAULT_ENDS,
	FAULTS
};
static const struct {
	const char *name;
	unsigned weight; /* 0: only where it is asked for */
	bool brick;	 /* hurts one */
	bool loses;	 /* what the brick had */
	bool spread;	 /* of a whole subvolume, of several */
} faults[FAULTS] = {
	[FAULT_KILL] = { "kill -9", 14, true },
	[FAULT_POWER] = { "power cut", 10, true, true },
	[FAULT_CLIENT] = { "client crash", 10 },
	[FAULT_COORDINATOR] = { "coordinator crash", 10 },
	[FAULT_LOST] = { "lost messages", 10 },
	[FAULT_LATE] = { "late messages", 10 },
	[FAULT_PARTITION] = { "partition", 8, true },
	[FAULT_ONE_WAY] = { "partition one way", 6, true },
	[FAULT_CLIENT_LINK] = { "client's link", 8 },
	[FAULT_SLOW] = { "slow disk", 6, true },
	[FAULT_STUCK] = { "stuck disk", 5, true },
	[FAULT_EIO] = { "disk errors", 6, true },
	[FAULT_FULL] = { "full disk", 4, true },
	[FAULT_REPLACE] = { "replaced disk", 5, true, true },
	[FAULT_CUT_ALL] = { "power cut of all", 0, true, true },
	[FAULT_IN_TURN] = { "one after the other", 0, true, true },
	[FAULT_CUT_AGAIN] = { "power cut of all and one again", 0, true, true },
	[FAULT_LOW] = { "little room", 30, .spread = true },
	[FAULT_FLOOR] = { "room for pointers only", 12, .spread = true },
	[FAULT_KILL_SET] = { "kill -9 of a set", 8, true, .spread = true },
	[FAULT_CUT_SET] = { "power cut of a set", 20, true, true, .spread = true },
	[FAULT_HELD] = { "held requests", 24, .spread = true },
	[FAULT_REBALANCER] = { "rebalancer crash", 60, .spread = true },
	[FAULT_CUT_MOVE] = { "power cut in a move", 0, true, true, .spread = true },
	[FAULT_LOSES] = { "lost writes", 25, true },
	[FAULT_ENDS] = { "end in good order", 0, true },
};
enum { CUTS_MAX = 64 };
static struct {
	unsigned begun, under_way, hurting[SUBVOLUMES_MAX];
	bool client_died, done, only[FAULTS], restricted;
	uint64_t cut_ns[CUTS_MAX], all_cut_ns, died_ns[CUTS_MAX], noticed_ns[CUTS_MAX];
	unsigned cuts, deaths;
	uint64_t hurt_ns[SUBVOLUMES_MAX]; /* when a brick was last hurt */
	uint64_t storm_ns;		  /* when messages were last lost or late */
	unsigned lost, late;
} nemesis;

static uint64_t pick(uint64_t limit)
{
	return chance_below(CHANCE_FAULT, limit);
}

static void last_ms(uint64_t least, uint64_t most)
{
	task_sleep_ms(chance_between(CHANCE_FAULT, least, most));
}

/* All of what a subvolume has in memory goes: what was not synced is lost. */
static bool cuts_set(enum fault f)
{
	return f == FAULT_CUT_SET || f == FAULT_CUT_ALL || f == FAULT_CUT_MOVE || (f == FAULT_POWER && plan.members == 1);
}

int nemesis_restrict(const char *list)
{
	char *copy = strdup(list), *rest = copy, *word;
	int err = 0;

	nemesis.restricted = true;
	while (!err && (word = strsep(&rest, ","))) {
		err = -ENOENT;
		for (int f = 0; f < FAULTS; f++)
			if (!strcmp(faults[f].name, word)) {
				nemesis.only[f] = true;
				err = 0;
			}
	}
	free(copy);
	return err;
}

bool nemesis_cuts_sets(void)
{
	for (int f = 0; f < FAULTS; f++)
		if (nemesis.only[f] && cuts_set(f))
			return true;
	return false;
}

void nemesis_names(FILE *to)
{
	for (int f = 0; f < FAULTS; f++)
		fprintf(to, "%s%s", f ? ", " : "", faults[f].name);
}

/* ---- each kind, in a task of its own ---- */

static void die(struct node *n, bool power)
{
	if (!n->shard)
		return;
	if (power || pick(3) == 0) {
		node_crash(n, power);
	} else {
		n->crash_points = 1 + (unsigned)pick(60);
		n->crash_in_change = plan.posix && n->kind == NODE_BRICK && pick(2);
		n->crash_in_away = plan.subvolumes > 1 && n->kind == NODE_CLIENT && pick(2);
		if (n->crash_in_away)
			n->crash_points = 1 + (unsigned)pick(12);
		for (int i = 0; i < 40 && n->shard && n->crash_points; i++)
			task_sleep_ms(50);
		n->crash_points = 0;
		n->crash_in_change = n->crash_in_away = false;
		if (n->shard)
			node_crash(n, false);
	}
}

static void come_back(struct node *n)
{
	last_ms(100, pick(3) ? 2000 : 8000);
	if (!n->shard)
		node_start(n);
}

static void cut_links(struct node *n, enum node_kind kind, unsigned which, bool in, bool out, bool cut)
{
	for (unsigned i = 1; i < nodes; i++) {
		struct node *other = &node[i];

		if (other == n || (kind && other->kind != kind) || !(which >> other->number & 1))
			continue;
		if (in)
			link_cut(other, n, cut);
		if (out)
			link_cut(n, other, cut);
	}
}

static void partition(struct node *brick, bool one_way)
{
	static const enum node_kind kinds[] = { NODE_WORLD, NODE_CLIENT, NODE_COORDINATOR }; /* the first: all of them */
	enum node_kind kind = kinds[pick(4) ? 0 : 1 + pick(2)];
	bool in = !one_way || pick(2), out = !one_way || !in;

	trace("cut: links %s%s of %s to kind %d", in ? "in " : "", out ? "out" : "", brick->name, kind);
	cut_links(brick, kind, UINT32_MAX, in, out, true);
	last_ms(300, pick(2) ? 3000 : 12000);
	cut_links(brick, kind, UINT32_MAX, in, out, false);
	trace("mended: links of %s", brick->name);
}

static void client_link(void)
{
	struct node *n = node_client((unsigned)pick(plan.clients + plan_moves()));
	unsigned which = 1 + (unsigned)pick((1u << bricks_count()) - 1);
	bool one_way = pick(3) == 0;

	cut_links(n, NODE_BRICK, which, true, !one_way, true);
	last_ms(300, pick(2) ? 3000 : 15000);
	cut_links(n, NODE_BRICK, which, true, !one_way, false);
}

/* Up to three requests, at a step of what is done with files that are away, or their answers; longer than others wait before they take over. */
static void hold_requests(struct node *n)
{
	for (uint64_t more = 1 + pick(3); more; more--) {
		n->hold_points = 1 + (unsigned)pick(25);
		for (int i = 0; i < 60 && n->hold_points; i++)
			task_sleep_ms(50);
		n->hold_points = 0;
	}
	while (weather.held)
		task_sleep_ms(50);
	nemesis.storm_ns = sim_now();
}

static void replace_disk(struct node *n)
{
	node_crash(n, true);
	node_wipe(n);
	come_back(n);
}

static void note_cut(void)
{
	nemesis.all_cut_ns = sim_now();
	if (nemesis.cuts < CUTS_MAX)
		nemesis.cut_ns[nemesis.cuts++] = sim_now();
}

/* Half of the cuts come in the middle of a rename over several subvolumes, if there is one soon. */
static void wait_for_rename(void)
{
	enum { TRIES = 2000, LONG_MS = 25 };
	unsigned before = away_begun();
	bool waits = plan.subvolumes > 1 && pick(2);

	for (int i = 0; i < TRIES && waits && away_begun() == before; i++)
		task_sleep_ms(1);
	if (waits)
		task_sleep_ms(pick(LONG_MS));
}

/* At one of the steps with which a file is brought home, or just after it. */
static void wait_for_step(void)
{
	enum { TRIES = 10000, STEPS = 24, LONG_MS = 3 };
	unsigned until = away_steps() + 1 + (unsigned)pick(STEPS);

	for (int i = 0; i < TRIES && away_steps() < until; i++)
		task_sleep_ms(1);
	if (pick(2))
		task_sleep_ms(pick(LONG_MS));
}

/* Those bricks go at once, and come back one by one. */
static void bricks_die(unsigned from, unsigned count, bool power)
{
	if (power)
		note_cut();
	for (unsigned i = from; i < from + count; i++)
		if (node_brick(i)->shard)
			node_crash(node_brick(i), power);
	for (unsigned i = from; i < from + count; i++)
		come_back(node_brick(i));
}

static void cut_clients(bool cut)
{
	for (unsigned i = 0; i < plan.clients; i++)
		cut_links(node_client(i), NODE_BRICK, UINT32_MAX, true, true, cut);
}

/* One goes down once more while they recover, for longer than is waited for it, or not so long; no client sees anything before all is done. */
static void cut_all_again(struct node *n)
{
	int quiet = 0;

	note_cut();
	cut_clients(true);
	for (unsigned i = 0; i < bricks_count(); i++)
		if (node_brick(i)->shard)
			node_crash(node_brick(i), true);
	named_remember();
	for (unsigned i = 0; i < bricks_count(); i++)
		node_start(node_brick(i));
	n->crash_points = 1 + (unsigned)pick(250);
	for (int i = 0; i < 100 && n->shard; i++)
		task_sleep_ms(50);
	if (n->shard || pick(2))
		node_crash(n, true);
	last_ms(pick(3) ? 11000 : 100, 15000);
	node_start(n);
	for (int i = 0; i < 600 && quiet < 40; i++) { /* a scrub that is owed may begin a little later */
		quiet = world_quiet() ? quiet + 1 : 0;
		task_sleep_ms(100);
	}
	if (quiet == 40)
		named_check();
	cut_clients(false);
}

static void cut_off(struct node *n, bool cut)
{
	trace("%s: all links of %s", cut ? "cut" : "mended", n->name);
	cut_links(n, NODE_WORLD, UINT32_MAX, true, true, cut);
}

/* The one that is left, or the coordinator. If what the others have is not lost the disk may be: but not if clients read it alone, for what was under way
 * when the others went may be there only, and seen. */
static void third_dies(struct node *n, bool spared)
{
	bool loses = spared && n->kind == NODE_BRICK && pick(2);

	if (loses && pick(2) && !world_few(subvolume_of(n->number))) {
		replace_disk(n);
	} else {
		node_crash(n, loses);
		come_back(n);
	}
	last_ms(100, 10000);
}

/* So many after it in its set. */
static struct node *another(const struct node *brick, unsigned steps)
{
	unsigned subvolume = subvolume_of(brick->number);

	return node_brick(subvolume * plan.members + (brick->number % plan.members + steps) % plan.members);
}

/* The view has no place for it any more, or it is whole again: so nobody goes by what it has alone. */
static void wait_until_noticed(const struct node *n)
{
	unsigned subvolume = subvolume_of(n->number);

	while (world_is_in(n) && !world_clean(subvolume))
		task_sleep_ms(20);
}

/*
 * Of two members the second has alone what was not synced, from when the power of the first has gone, or a view is there without it, until that one is healed. So nothing could
 * save that if its own power goes; nor if the first, which the register has as IN yet, is to go on after `cold-wait` while the second is away. In one seed of
 * four these happen, and only what was synced is looked for; in the others they do not. *power: of the second.
 */
static void spare_second(const struct node *first, bool cut, bool *power)
{
	bool loses = plan.seed % 4 == 0;

	if (plan.members != 2)
		return;
	if (!loses && cut)
		wait_until_noticed(first);
	if (loses && (*power || (cut && world_is_in(first))))
		note_cut();
	*power &= loses;
}

/* While one that was away is healed another goes, for longer than is waited for it; and somebody else may be started anew meanwhile. (Beside an
 * arbiter nobody loses what was not synced.) */
static void in_turn(struct node *first)
{
	struct node *second = another(first, 1 + (unsigned)pick(plan.members - 1));
	struct node *other = pick(2) ? node_coordinator(subvolume_of(first->number)) : another(second, 1);
	bool linked = pick(2), power = !linked && !plan.arbiter && pick(2), cut = !plan.arbiter && pick(2);

	node_crash(first, cut);
	last_ms(500, 4000);
	node_start(first);
	last_ms(100, 2000);
	spare_second(first, cut, &power);
	if (linked)
		cut_off(second, true);
	else
		node_crash(second, power);
	last_ms(8000, 20000);
	if (pick(2))
		third_dies(other, !power && !plan.arbiter && other != first);
	if (linked)
		cut_off(second, false);
	else
		node_start(second);
}

/* As stratusd does when it is told to end; in some cases it is killed before it is done. */
static void end_in_order(struct node *brick)
{
	enum { LEAVE_MS = 3000, KILLED_MS = 400 };
	struct node *coordinator = pick(2) ? node_coordinator(subvolume_of(brick->number)) : NULL;
	uint64_t until = sim_now() + (pick(3) ? LEAVE_MS : pick(KILLED_MS)) * MS;
	unsigned in_a_row = 0;

	while (brick->shard && in_a_row < 2 && sim_now() < until) {
		node_retire(brick);
		if (coordinator)
			node_retire(coordinator);
		last_ms(1, 20);
		in_a_row = brick->retired && (!coordinator || coordinator->retired) ? in_a_row + 1 : 0;
	}
	if (coordinator)
		node_crash(coordinator, false);
	node_crash(brick, false);
	if (coordinator)
		come_back(coordinator);
	come_back(brick);
}

static void bad_disk(enum fault f, struct node *n)
{
	struct disk_faults *d = disk_faults(disk_of(n->number));

	if (f == FAULT_SLOW)
		d->slow_ns = chance_between(CHANCE_FAULT, 10 * MS, pick(2) ? 300 * MS : 3 * S);
	else if (f == FAULT_EIO)
		d->eio = (unsigned)chance_between(CHANCE_FAULT, 5000, 300000);
	else if (f == FAULT_FULL)
		d->full = true;
	else if (f == FAULT_LOSES)
		d->loses = (unsigned)chance_between(CHANCE_FAULT, 20000, pick(2) ? 200000 : 1000000);
	else
		d->stuck_until = sim_now() + chance_between(CHANCE_FAULT, S / 2, 15 * S);
	last_ms(1000, 6000);
	d->slow_ns = 0;
	d->eio = d->loses = 0;
	d->full = false;
	while (d->stuck_until > sim_now())
		task_sleep_ms(100);
}

/* Of a subvolume: new files go elsewhere. */
static void little_room(enum fault f, unsigned subvolume)
{
	bool floor = f == FAULT_FLOOR;

	for (int on = 1; on >= 0; on--) {
		for (unsigned i = subvolume * plan.members; i < (subvolume + 1) * plan.members; i++)
			*(floor ? &disk_faults(disk_of(i))->floor : &disk_faults(disk_of(i))->low) = on;
		if (on)
			last_ms(3000, 15000);
	}
}

static void bad_weather(enum fault f)
{
	if (f == FAULT_LOST) {
		nemesis.lost++;
		weather.lost = (unsigned)chance_between(CHANCE_FAULT, 200, 10000);
		last_ms(1000, 6000);
		if (!--nemesis.lost)
			weather.lost = 0;
	} else {
		nemesis.late++;
		weather.late = (unsigned)chance_between(CHANCE_FAULT, 5000, 200000);
		weather.late_ns = chance_between(CHANCE_FAULT, 5 * MS, pick(3) ? 300 * MS : 3 * S);
		last_ms(1000, 6000);
		if (!--nemesis.late)
			weather.late = 0;
	}
	nemesis.storm_ns = sim_now();
}

static void fault_do(enum fault f, struct node *brick)
{
	struct node *client = node_client((unsigned)pick(plan.clients));

	if (f == FAULT_HELD && grow_goes_on() && pick(2))
		client = node_rebalancer();
	switch (f) {
	case FAULT_KILL:
	case FAULT_POWER:
		wait_for_rename();
		if (f == FAULT_POWER && plan.members == 1)
			note_cut();
		die(brick, f == FAULT_POWER);
		come_back(brick);
		break;
	case FAULT_CLIENT:
		nemesis.client_died = true;
		die(client, pick(2));
		come_back(client);
		break;
	case FAULT_COORDINATOR:
		die(node_coordinator(subvolume_of(brick->number)), false);
		come_back(node_coordinator(subvolume_of(brick->number)));
		break;
	case FAULT_LOST:
	case FAULT_LATE:
		bad_weather(f);
		break;
	case FAULT_PARTITION:
	case FAULT_ONE_WAY:
		partition(brick, f == FAULT_ONE_WAY);
		break;
	case FAULT_CLIENT_LINK:
		client_link();
		break;
	case FAULT_REPLACE:
		replace_disk(brick);
		break;
	case FAULT_CUT_ALL:
		wait_for_rename();
		bricks_die(0, bricks_count(), true);
		break;
	case FAULT_CUT_MOVE:
		wait_for_step();
		bricks_die(subvolume_of(brick->number) * plan.members, plan.members, true);
		break;
	case FAULT_KILL_SET:
	case FAULT_CUT_SET:
		wait_for_rename();
		bricks_die(subvolume_of(brick->number) * plan.members, plan.members, f == FAULT_CUT_SET);
		break;
	case FAULT_HELD:
		hold_requests(client);
		break;
	case FAULT_REBALANCER:
		nemesis.client_died = true;
		die(node_rebalancer(), false);
		last_ms(1, pick(2) ? 30 : 3000); /* mostly before others have ended what it had begun */
		if (!node_rebalancer()->shard)
			node_start(node_rebalancer());
		break;
	case FAULT_ENDS:
		end_in_order(brick);
		break;
	case FAULT_IN_TURN:
		in_turn(brick);
		break;
	case FAULT_CUT_AGAIN:
		cut_all_again(pick(2) ? node_brick(0) : brick);
		break;
	case FAULT_LOW:
	case FAULT_FLOOR:
		little_room(f, subvolume_of(brick->number));
		break;
	default:
		bad_disk(f, brick);
	}
}

struct task_of {
	enum fault fault;
	struct node *brick;
};

static void fault_run(void *arg)
{
	struct task_of t = *(struct task_of *)arg;
	unsigned subvolume = subvolume_of(t.brick->number);

	free(arg);
	trace("FAULT %s%s%s", faults[t.fault].name, faults[t.fault].brick ? " of " : "",
	      faults[t.fault].brick ? t.brick->name : "");
	fault_do(t.fault, t.brick);
	trace("fault ends: %s", faults[t.fault].name);
	if (faults[t.fault].brick)
		nemesis.hurt_ns[subvolume] = sim_now();
	nemesis.hurting[subvolume] -= faults[t.fault].brick;
	nemesis.under_way--;
}

/* ---- which and when ---- */

/* In bad weather the coordinator may be about to leave out a member that is well: then another's disk is one too many. And it may not have
 * noticed that one was started anew: of two the other must not lose its power then. */
static bool is_calm(void)
{
	return !weather.lost && !weather.late && !weather.held && sim_now() - nemesis.storm_ns > NOTICE_S * S;
}

static bool is_clean(unsigned subvolume);

static bool all_are_clean(void)
{
	for (unsigned i = 0; i < plan.subvolumes; i++)
		if (!is_clean(i))
			return false;
	return true;
}

/* With sets of one member there are no replicas to be spared. */
static bool possible_of_one(enum fault f)
{
	switch (f) {
	case FAULT_KILL:
	case FAULT_KILL_SET:
	case FAULT_POWER:
	case FAULT_CUT_SET:
	case FAULT_CUT_ALL:
	case FAULT_CUT_MOVE:
	case FAULT_EIO:
	case FAULT_ONE_WAY:
	case FAULT_FULL:
		return plan.subvolumes > 1;
	default:
		return f == FAULT_SLOW || f == FAULT_STUCK || f == FAULT_PARTITION;
	}
}

static bool possible(enum fault f, bool clean)
{
	if ((nemesis.restricted && !nemesis.only[f]) || (faults[f].spread && plan.subvolumes == 1))
		return false;
	if (f == FAULT_LOSES && (!plan.losses || plan.members == 1))
		return false;
	if (f == FAULT_REBALANCER)
		return grow_goes_on();
	if (f == FAULT_CUT_MOVE && !nemesis.restricted)
		return false;
	if (plan.subvolumes > 1 && cuts_set(f))
		return plan.lossy && clean && is_calm() && (f != FAULT_CUT_ALL || all_are_clean());
	if (plan.members == 1 && (faults[f].brick || f == FAULT_COORDINATOR))
		return possible_of_one(f);
	if (plan.stack == STACK_NAIVE && f == FAULT_COORDINATOR)
		return false;
	if (f == FAULT_CUT_ALL && !nemesis.restricted)
		return false;
	if (faults[f].loses && (!clean || plan.members < 2))
		return false;
	if ((f == FAULT_REPLACE || (faults[f].loses && plan.members - plan.arbiter == 2)) && !is_calm())
		return false;
	return !faults[f].brick || clean || plan.wild;
}

static unsigned weight_of(enum fault f, bool clean)
{
	unsigned weight = faults[f].weight || !(nemesis.restricted || cuts_set(f)) ? faults[f].weight : 10;

	if (f == FAULT_CLIENT && plan.subvolumes > 1) /* who dies leaves something for sweeps */
		weight *= grow_goes_on() ? 6 : 3;
	return possible(f, clean) ? weight : 0;
}

static enum fault choose(bool clean)
{
	unsigned total = 0, at;

	for (int f = 0; f < FAULTS; f++)
		total += weight_of(f, clean);
	if (!total)
		return FAULTS;
	at = (unsigned)pick(total);
	for (int f = 0;; f++) {
		unsigned weight = weight_of(f, clean);

		if (at < weight)
			return f;
		at -= weight;
	}
}

static void strike(enum fault f, unsigned subvolume)
{
	struct task_of *t = malloc(sizeof(*t));

	*t = (struct task_of){ f, node_brick(subvolume * plan.members + (unsigned)pick(plan.members)) };
	nemesis.begun++;
	nemesis.under_way++;
	nemesis.hurting[subvolume] += faults[f].brick;
	task_spawn(NULL, fault_run, t);
}

/* All is well, and the coordinator has had the time to find out if it is not. */
static bool is_clean(unsigned subvolume)
{
	return !nemesis.hurting[subvolume] && sim_now() - nemesis.hurt_ns[subvolume] > NOTICE_S * S && world_clean(subvolume);
}

static void nemesis_run(void *arg)
{
	(void)arg;
	while (nemesis.begun < plan.faults) {
		bool waits = pick(2);
		unsigned subvolume = plan.subvolumes > 1 ? (unsigned)pick(plan.subvolumes) : 0;
		enum fault f;

		last_ms(50, 2500);
		/* A brick is hurt only when all the others of its set are well, but for the wild seeds. */
		for (int i = 0; waits && i < 400 && !is_clean(subvolume); i++)
			task_sleep_ms(50);
		f = choose(is_clean(subvolume));
		if (plan.cut_all && !nemesis.restricted && nemesis.begun == plan.faults / 2)
			f = FAULT_CUT_ALL;
		if (f < FAULTS)
			strike(f, subvolume);
		else if (nemesis.restricted)
			last_ms(100, 200);
	}
	while (nemesis.under_way)
		task_sleep_ms(50);
	nemesis.done = true;
}

void nemesis_begin(void)
{
	if (!plan.faults)
		nemesis.done = true;
	else
		task_spawn(NULL, nemesis_run, NULL);
}

bool nemesis_done(void)
{
	return nemesis.done;
}

bool nemesis_client_died(void)
{
	return nemesis.client_died;
}

unsigned nemesis_faults(void)
{
	return nemesis.begun;
}

uint64_t nemesis_cut_all(void)
{
	return nemesis.all_cut_ns;
}

void nemesis_single_died(uint64_t notice_ns)
{
	if (nemesis.deaths == CUTS_MAX)
		return;
	nemesis.died_ns[nemesis.deaths] = sim_now();
	nemesis.noticed_ns[nemesis.deaths++] = sim_now() + notice_ns;
}

bool nemesis_single_died_between(uint64_t from_ns, uint64_t to_ns)
{
	for (unsigned i = 0; i < nemesis.deaths; i++)
		if (nemesis.noticed_ns[i] >= from_ns && nemesis.died_ns[i] <= to_ns)
			return true;
	return false;
}

bool nemesis_cut_between(uint64_t from_ns, uint64_t to_ns)
{
	for (unsigned i = 0; i < nemesis.cuts; i++)
		if (nemesis.cut_ns[i] >= from_ns && nemesis.cut_ns[i] <= to_ns)
			return true;
	return false;
}
