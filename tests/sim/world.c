/* SPDX-License-Identifier: Apache-2.0 */
/* The machines of a run: what their graphs are, how they start, crash and come back; and the course of the whole. */
#include <sys/stat.h>
#include <unistd.h>

#include "away.h"
#include "disk.h"
#include "history.h"
#include "leaf.h"

struct node node[NODES_MAX];
unsigned nodes;
struct plan plan;
static char run_directory[128];
static bool script_done;

enum { FORM_S = 60, WORK_S = 900, HEAL_S = 300, QUIET_S = 15, LIMIT_S = 3000 };

struct node *node_brick(unsigned i)
{
	return &node[1 + i];
}

struct node *node_coordinator(unsigned subvolume)
{
	return &node[1 + bricks_count() + subvolume];
}

struct node *node_client(unsigned i)
{
	return &node[1 + bricks_count() + plan.subvolumes + i];
}

unsigned bricks_count(void)
{
	return plan.subvolumes * plan.members;
}

unsigned subvolume_of(unsigned brick)
{
	return brick / plan.members;
}

bool is_replicated(void)
{
	return plan.stack == STACK_REPLICA && plan.members > 1;
}

/* ---- volfiles ---- */

static void put_clients(FILE *to, unsigned subvolume)
{
	for (unsigned i = subvolume * plan.members; i < (subvolume + 1) * plan.members; i++)
		fprintf(to, "volume client%u\n type sim/client\n option brick %u\nend-volume\n", i, i);
}

static void put_set(FILE *to, const char *type, unsigned subvolume)
{
	put_clients(to, subvolume);
	fprintf(to, "volume set%u\n type %s\n", subvolume, type);
	if (!strcmp(type, "cluster/coordinator"))
		fprintf(to,
			" option state-file %s/%s/view\n option secret-file %s/secret\n option sync-interval %us\n option heal-piece %u\n",
			run_directory, node_coordinator(subvolume)->name, run_directory, plan.sync_s,
			plan.sync_s & 1 ? 2 * BLOCK : 1u << 20); /* files have some blocks */
	if (plan.arbiter && strncmp(type, "sim/", 4))
		fprintf(to, " option arbiter on\n");
	fprintf(to, " subvolumes");
	for (unsigned i = subvolume * plan.members; i < (subvolume + 1) * plan.members; i++)
		fprintf(to, " client%u", i);
	fprintf(to, "\nend-volume\n");
}

/* What a client has below its kernel. */
static void put_volume(FILE *to, const struct node *n)
{
	for (unsigned i = 0; i < plan.subvolumes; i++)
		if (plan.members == 1)
			put_clients(to, i);
		else
			put_set(to, plan.stack == STACK_REPLICA ? "cluster/afr" : "sim/naive", i);
	if (plan.subvolumes == 1)
		return;
	fprintf(to,
		"volume distribute\n type cluster/dht\n option sweep-interval %ums\n option scatter %u\n option initial %u\n",
		plan.sweep_ms, plan.scatter, plan.initial);
	if (grow_knows(n))
		fprintf(to, " option leaving %d\n", plan.leaver);
	if (plan.weighed >= 0) {
		fputs(" option weights ", to);
		for (unsigned i = 0; i < plan.subvolumes; i++)
			fprintf(to, "%s%d", i ? "," : "", (int)i == plan.weighed ? WEIGHT : 1);
		fputc('\n', to);
	}
	fputs(" subvolumes", to);
	for (unsigned i = 0; i < plan.subvolumes; i++)
		fprintf(to, plan.members == 1 ? " client%u" : " set%u", i);
	fprintf(to, "\nend-volume\n");
}

static void put_brick(FILE *to, unsigned number)
{
	const char *top = "disk";

	if (plan.posix)
		leaf_volfile(to, number);
	else
		fprintf(to, "volume disk\n type sim/disk\n option member %u\n option state-dir %s/brick%u\nend-volume\n",
			number, run_directory, number);
	if (plan.limit) {
		limit_put(to, number);
		top = "usage";
	}
	if (plan.subvolumes > 1 || plan.layout) {
		fprintf(to,
			"volume layout\n type features/layout\n option subvolume %u\n option initial %u\n option widen-at %u\n option reopen-time 1s\n option leaving %s\n subvolumes %s\nend-volume\n",
			subvolume_of(number), plan.subvolumes > 1 ? plan.initial : 0, plan.widen_at,
			grow_knows(node_brick(number)) ? "on" : "off", top);
		top = "layout";
	}
	if (is_replicated()) {
		fprintf(to,
			"volume replica\n type features/replica\n option member %u\n option state-dir %s/brick%u\n"
			" option secret-file %s/secret\n subvolumes %s\nend-volume\n",
			number % plan.members, run_directory, number, run_directory, top);
		top = "replica";
	}
	fprintf(to, "volume server\n type sim/server\n subvolumes %s\nend-volume\n", top);
}

static char *volfile_of(const struct node *n)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (n->kind == NODE_BRICK)
		put_brick(to, n->number);
	else if (n->kind == NODE_COORDINATOR)
		put_set(to, "cluster/coordinator", n->number);
	else
		put_volume(to, n);
	if (n->kind == NODE_CLIENT && plan.kernel && n != node_rebalancer() && n != node_liar())
		fprintf(to, "volume kernel\n type sim/kernel\n subvolumes %s\nend-volume\n",
			plan.subvolumes > 1 ? "distribute" : "set0");
	fclose(to);
	return text;
}

/* ---- starting and crashing ---- */

static void start_run(void *arg)
{
	struct node *n = arg;
	struct volfile file = { 0 };
	struct problem p = { "" };
	struct graph *graph = NULL;
	char *text = volfile_of(n);
	int err = volfile_parse(text, strlen(text), n->name, &file, &p);

	if (!err)
		err = graph_create(&file, NULL, NULL, &graph, &p);
	n->graph = graph;
	if (!err)
		err = graph_start(graph, &p);
	volfile_free(&file);
	free(text);
	if (err) {
		sim_fail("%s can't start: %s", n->name, p.text[0] ? p.text : strerror(-err));
		return;
	}
	n->ready = true;
	trace("up");
	if (n->kind == NODE_CLIENT && n != node_rebalancer() && n != node_liar())
		work_client_up(n);
	grow_node_up(n);
}

int node_start(struct node *n)
{
	if (n->kind == NODE_COORDINATOR && !is_replicated())
		return 0;
	shard_begin(n);
	n->start_ns = sim_now();
	n->mono_skew = (int64_t)chance_below(CHANCE_ORDER, 100000 * S);
	return task_spawn(n->shard, start_run, n);
}

static void retire_run(void *arg)
{
	struct node *n = arg;

	n->retired = n->ready && graph_retire(n->graph);
}

void node_retire(struct node *n)
{
	if (n->shard)
		task_spawn(n->shard, retire_run, n);
}

static char *state_directory(const struct node *n, char path[160])
{
	snprintf(path, 160, "%s/%s", run_directory, n->name);
	return path;
}

/* A real directory loses nothing when the power goes: all had been written back. */
static void crash_disk(unsigned member, bool power)
{
	if (plan.posix)
		leaf_crash(member);
	else if (power)
		disk_power_cut(disk_of(member));
	else
		disk_forget_orphans(disk_of(member));
}

void node_crash(struct node *n, bool power)
{
	char path[160];

	if (!n->shard)
		return;
	trace("%s %s", n->name, power ? "loses its power" : "is killed");
	if (n->kind == NODE_CLIENT)
		work_client_died(n);
	n->ready = n->retired = false;
	n->server = NULL;
	n->crash_points = 0;
	n->crash_in_change = n->crash_in_away = false;
	shard_end(n);
	net_node_down(n, power);
	files_crash(state_directory(n, path));
	if (n->kind == NODE_BRICK && plan.members == 1 && plan.subvolumes > 1)
		nemesis_single_died(power ? NOTICE_DEATH_S * S : 10 * MS);
	if (n->kind == NODE_BRICK)
		crash_disk(n->number, power);
	if (power)
		files_power_cut(path);
	if (power && n->kind == NODE_BRICK && !plan.posix)
		files_cut_names(path, disk_survived(disk_of(n->number)));
	n->boot += power;
}

void node_wipe(struct node *n)
{
	char path[160];

	files_remove(state_directory(n, path));
	mkdir(path, 0700);
	if (plan.posix && n->kind == NODE_BRICK)
		leaf_replace(n->number);
	else if (n->kind == NODE_BRICK)
		disk_replace(disk_of(n->number));
}

static void add_node(enum node_kind kind, unsigned number, const char *name)
{
	struct node *n = &node[nodes++];

	*n = (struct node){ .kind = kind, .number = number };
	snprintf(n->name, sizeof(n->name),
		 kind == NODE_WORLD || (kind == NODE_COORDINATOR && plan.subvolumes == 1) ? "%s" : "%s%u", name, number);
	if (kind == NODE_WORLD)
		return;
	n->drift_ppm = (int64_t)chance_below(CHANCE_ORDER, 40001) - 20000;
	n->wall_skew = (int64_t)chance_below(CHANCE_ORDER, 2 * S) - (int64_t)S;
}

static void make_nodes(void)
{
	char path[160];

	add_node(NODE_WORLD, 0, "world");
	for (unsigned i = 0; i < bricks_count(); i++)
		add_node(NODE_BRICK, i, "brick");
	for (unsigned i = 0; i < plan.subvolumes; i++)
		add_node(NODE_COORDINATOR, i, "coordinator");
	for (unsigned i = 0; i < plan.clients; i++)
		add_node(NODE_CLIENT, i, "client");
	if (plan_moves())
		add_node(NODE_CLIENT, plan.clients, "rebalancer");
	if (plan.liar)
		add_node(NODE_CLIENT, plan.clients + plan_moves(), "liar");
	for (unsigned i = 1; i < nodes; i++)
		mkdir(state_directory(&node[i], path), 0700);
	for (unsigned i = 0; i < bricks_count(); i++) {
		disk_create(i);
		if (plan.posix)
			leaf_create(i);
	}
}

static void make_secret(void)
{
	char path[160];
	FILE *to;

	snprintf(path, sizeof(path), "%s/secret", run_directory);
	to = fopen(path, "w");
	chmod(path, 0600);
	for (unsigned i = 0; i < 64; i++)
		fputc("0123456789abcdef"[chance_below(CHANCE_RANDOM, 16)], to);
	fputc('\n', to);
	fclose(to);
}

/* ---- how it is ---- */

static struct node *member_of(unsigned subvolume, unsigned i)
{
	return node_brick(subvolume * plan.members + i);
}

static bool hurt(const struct node *brick)
{
	const struct disk_faults *f = disk_faults(disk_of(brick->number));

	if (!brick->ready || f->slow_ns || f->eio || f->loses || f->full || f->stuck_until > sim_now())
		return true;
	if (plan.losses && disk_lacks(disk_of(brick->number)))
		return true;
	for (unsigned i = 1; i < nodes; i++)
		if (link_is_cut(&node[i], brick) || link_is_cut(brick, &node[i]))
			return true;
	return false;
}

static bool quorum_of(unsigned subvolume)
{
	unsigned well = 0;

	for (unsigned i = 0; i < plan.members; i++)
		well += !hurt(member_of(subvolume, i));
	if (is_replicated() && !node_coordinator(subvolume)->ready)
		return false;
	return well >= (is_replicated() && plan.members > 2 ? plan.members / 2 + 1 : plan.members);
}

bool world_quorum(void)
{
	for (unsigned i = 0; i < plan.subvolumes; i++)
		if (!quorum_of(i))
			return false;
	return !weather.lost && !weather.late && !weather.held && !grow_stalls();
}

struct question {
	unsigned subvolume;
	bool answered, clean, few, aloud;
	uint32_t in; /* members that are, in the view */
};

/* On the coordinator's loop. Its words: "member 0  in    answers  pending 0". */
static void ask_coordinator(void *arg)
{
	struct question *q = arg;
	struct xlator *x = node_coordinator(q->subvolume)->graph->top;
	char *words[] = { (char *)"status" }, *text = NULL, *rest, *line;
	unsigned well = 0;
	bool busy = false;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	int err = x->type->command(x, 1, words, to);

	fclose(to);
	if (q->aloud && verbose)
		fputs(text, stderr);
	rest = text;
	while (!err && (line = strsep(&rest, "\n"))) {
		if (!strncmp(line, "member ", 7) && strstr(line, "  in "))
			q->in |= 1u << atoi(line + 7);
		q->few |= !strncmp(line, "view ", 5) && strstr(line, "), read only");
		busy |= !strcmp(line, "a scrub is running") || strstr(line, "is to be healed") ||
			strstr(line, "a recovery is owed");
		busy |= plan.members == 2 && strstr(line, "view is being changed"); /* one of them may be left alone */
		well += !strncmp(line, "member ", 7) && strstr(line, "  in ") && strstr(line, "  answers") &&
			strstr(line, "  pending 0");
	}
	free(text);
	q->clean = well == plan.members && !busy;
	q->answered = true;
}

/* What it says in *said. False: it does not answer. */
static bool coordinator_says(unsigned subvolume, bool aloud, struct question *said)
{
	struct question *q;
	bool answered;

	*said = (struct question){ 0 };
	if (!node_coordinator(subvolume)->ready)
		return false;
	q = calloc(1, sizeof(*q));
	q->subvolume = subvolume;
	q->aloud = aloud;
	sim_after(node_coordinator(subvolume), 0, ask_coordinator, q);
	for (int i = 0; i < 3 && !q->answered; i++)
		task_sleep_ms(1);
	answered = q->answered;
	*said = *q;
	if (answered) /* else it may still come */
		free(q);
	return answered;
}

static bool coordinator_says_clean(unsigned subvolume, bool aloud)
{
	struct question said;

	return coordinator_says(subvolume, aloud, &said) && said.clean;
}

bool world_few(unsigned subvolume)
{
	struct question said;

	return !coordinator_says(subvolume, false, &said) || said.few;
}

bool world_is_in(const struct node *brick)
{
	struct question said;

	return !coordinator_says(subvolume_of(brick->number), false, &said) || said.in >> brick->number % plan.members & 1;
}

bool world_quiet(void)
{
	for (unsigned i = 0; i < bricks_count(); i++)
		if (!node_brick(i)->ready)
			return false;
	for (unsigned i = 0; i < plan.subvolumes; i++)
		if (!coordinator_says_clean(i, false))
			return false;
	return true;
}

bool world_clean(unsigned subvolume)
{
	for (unsigned i = 0; i < plan.members; i++) { /* the coordinator may not know yet that it has been away */
		const struct node *n = member_of(subvolume, i);

		if (hurt(n) || (n->life > 1 && sim_now() - n->start_ns < NOTICE_S * S))
			return false;
	}
	return !is_replicated() || coordinator_says_clean(subvolume, false);
}

/* ---- the course of a run: a task of the world ---- */

static bool all_clean(void)
{
	for (unsigned i = 0; i < plan.subvolumes; i++)
		if (!world_clean(i))
			return false;
	return true;
}

static bool wait_clean(unsigned seconds)
{
	uint64_t until = sim_now() + seconds * S;

	while (!all_clean() && sim_now() < until && !sim_failure())
		task_sleep_ms(100);
	return all_clean();
}

static void start_all(void)
{
	for (unsigned i = 1; i < nodes; i++) {
		node_start(&node[i]);
		task_sleep_ms(chance_below(CHANCE_ORDER, 20));
	}
	for (unsigned i = 0; i < plan.clients; i++)
		while (!node_client(i)->ready && !sim_failure())
			task_sleep_ms(5);
}

static void end_faults(void)
{
	weather = (struct weather){ 0 };
	links_heal();
	for (unsigned i = 0; i < bricks_count(); i++)
		*disk_faults(disk_of(i)) = (struct disk_faults){ 0 };
	for (unsigned i = 1; i < nodes; i++) {
		node[i].crash_points = 0;
		if (!node[i].shard)
			node_start(&node[i]);
	}
}

static void say_lacking(unsigned brick)
{
	const struct disk_object *o = disk_lacks(disk_of(brick));
	char text[GFID_TEXT];

	if (o)
		sim_fail("the disk of brick %u has lost some of %.8s, and nobody has mended it %d s after the faults ended",
			 brick, gfid_text(&o->attr.gfid, text), HEAL_S);
}

static void say_unclean(void)
{
	for (unsigned i = 0; i < plan.subvolumes && is_replicated(); i++)
		coordinator_says_clean(i, true);
	for (unsigned i = 0; i < bricks_count(); i++)
		say_lacking(i);
	sim_fail("not all members are IN and healed %d s after the faults ended", HEAL_S);
}

static void take_room(void)
{
	for (unsigned i = 0; i < bricks_count(); i++)
		disk_faults(disk_of(i))->low = plan.scarce >> subvolume_of(i) & 1;
}

static void script(void *arg)
{
	uint64_t until;

	(void)arg;
	start_all();
	if (!wait_clean(FORM_S))
		sim_fail("the set does not form within %d s", FORM_S);
	liar_begin();
	trace("the work begins");
	take_room();
	work_begin();
	nemesis_begin();
	grow_begin();
	until = sim_now() + WORK_S * S;
	while (!(work_done() && nemesis_done()) && !sim_failure()) {
		task_sleep_ms(200);
		work_watch();
		if (sim_now() > until)
			sim_fail("the work does not end within %d s", WORK_S);
	}
	liar_end();
	trace("the work is done");
	end_faults();
	task_sleep_ms(QUIET_S * 1000);
	if (!sim_failure() && !wait_clean(HEAL_S))
		say_unclean();
	if (!sim_failure())
		grow_end();
	if (plan.subvolumes > 1 && !sim_failure())
		task_sleep_ms(away_sweep_ms());
	if (!sim_failure())
		limit_end();
	if (!sim_failure())
		work_final_reads();
	/* What the liar has left makes a view when its pause is over: perhaps a recovery is under way just now. */
	for (unsigned s = 0; plan.liar && s < HEAL_S && !sim_failure() && disks_have_limbos(); s++)
		task_sleep_ms(1000);
	trace("the end");
	script_done = true;
}

static bool is_done(void)
{
	return script_done;
}

void world_run(const char *directory)
{
	snprintf(run_directory, sizeof(run_directory), "%s", directory);
	plan.directory = run_directory;
	files_begin(directory);
	make_nodes();
	make_secret();
	shard_begin(&node[0]);
	task_spawn(node[0].shard, script, NULL);
	if (!sim_run(is_done, LIMIT_S * S) && !sim_failure())
		sim_fail("the run does not end");
	if (verbose)
		server_print_counts(stderr);
	if (plan.posix && !sim_failure())
		leaf_check_all();
	for (unsigned i = 0; i < bricks_count() && verbose; i++)
		disk_print(disk_of(i), stderr);
	if (!sim_failure() && plan.stack == STACK_REPLICA)
		check_replicas();
	if (!sim_failure())
		check_limit();
	if (!sim_failure() && plan.subvolumes > 1)
		check_away();
	if (!sim_failure())
		check_grown();
	if (!sim_failure())
		check_left();
	if (!sim_failure())
		check_history();
}
