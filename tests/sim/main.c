/* SPDX-License-Identifier: Apache-2.0 */
/* tests/sim/sim: runs seeds, each in a process of its own. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "away.h"
#include "leaf.h"
#include "module.h"

static const char help[] =
	"Usage: sim [OPTION...]\n"
	"Runs the replicated stack on a simulated clock, network and disk. One seed is one run, which replays exactly.\n\n"
	"  --seeds FROM-TO    these seeds (1-100), each in a process of its own; one line for each that fails\n"
	"  --seed N           one seed, with all that happens on standard error\n"
	"  --calls            with --seed: also what clients ask bricks\n"
	"  --quiet            with --seed: only the outcome\n"
	"  --jobs N           so many processes at a time (1)\n"
	"  --keep-going       do not stop at the tenth failure\n"
	"  --members N, --arbiter, --clients N, --tasks N, --ops N, --faults N, --gentle, --wild   instead of what the seed says\n"
	"  --subvolumes N     2 or 3 (0: as the seed says) of 1 to 3 members each below cluster/dht, or 1: none (1)\n"
	"  --widen N          directories of N names grow wide (0: none)\n"
	"  --grow, --no-grow  some of the subvolumes come while there is work; all are there from the beginning; else half of the seeds grow\n"
	"  --weigh            one of the subvolumes, whichever, is to have three times its share of the names\n"
	"  --shrink           one of the subvolumes, whichever, leaves the volume while there is work, and none comes\n"
	"  --kernel, --no-kernel   clients with a kernel that believes what it may; without; else every other seed has it\n"
	"  --only FAULT,...   only these kinds of faults\n"
	"  --stack replica|single|naive   what is tested; the last two test the simulator: the second must be found wrong\n"
	"  --leaf model|posix what the bricks stand on: a simulated disk, or the real storage/posix on a real directory (as root)\n"
	"  --scratch DIR      where these directories are made; else on a tmpfs of the run's own\n"
	"  --tenants          clients are a tenant's: what they say of members is not believed\n"
	"  --liar             the same, and one more client, of another tenant, lies\n"
	"  --layout           bricks with features/layout; clients say what the names stand for that they take; link counts are checked\n"
	"  --limit            all is one account's, which has a small limit (features/usage): in the end no member has more\n"
	"  --quotas           the same, and directories get limits of their own\n"
	"  --losses           disks may lose what they have taken, and tell it once\n"
	"  --mutant NAME      with this deliberate mistake\n"
	"  --list-mutants (with --subvolumes: theirs), --list-faults\n"
	"  --expect-failure   succeed as soon as a seed fails (mutants)\n"
	"  --ignore-unlinked  do not check the contents of what has no name in the end\n"
	"  --twice            run each seed twice; it fails if the traces differ\n\n"
	"Exit status: 0 no seed failed, 1 one did, 2 usage.\n";

enum { HANG_S = 60, REPORT_MAX = 700, FAILURES_SHOWN = 10 };
struct options {
	uint64_t from, to;
	unsigned jobs, subvolumes, members, clients, tasks, operations, faults;
	unsigned widen_at;
	int arbiter, wild, kernel, grows;
	enum stack stack;
	const char *scratch;
	bool tenants, liar, posix, layout, limit, quotas, losses, shrinks, weighs, single, quiet, keep_going, expect_failure,
		twice, ignore_unlinked;
};
static struct options options = {
	.from = 1, .to = 100, .jobs = 1, .subvolumes = 1, .arbiter = -1, .wild = -1, .kernel = -1, .grows = -1
};

struct report { /* from the child */
	uint64_t seed, hash, virtual_ns, messages;
	unsigned operations, faults, undecided, pointers, away, ends, late, renames, moved, grown, left, kills, shards;
	bool failed, finished;
	char text[REPORT_MAX];
};
struct child {
	pid_t pid;
	int pipe;
	uint64_t seed;
	char directory[128];
	bool again;
};

static uint64_t real_ns(void)
{
	struct timespec t;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec;
}

/* ---- a run ---- */

/* Chosen after all else: so the rest of a seed is what it is without. */
static void spread_plan(void)
{
	static const unsigned sweep_ms[] = { 30, 300, 300, 1000 };
	unsigned form = (unsigned)chance_below(CHANCE_FAULT, 4);

	plan.subvolumes = options.subvolumes ? options.subvolumes : 2 + (unsigned)chance_below(CHANCE_FAULT, 2);
	plan.members = options.members ? options.members : form < 2 ? form + 1 : 3;
	plan.arbiter = plan.members == 3 && (options.arbiter >= 0 ? options.arbiter : plan.arbiter);
	plan.cut_all = false; /* see lossy */
	plan.sweep_ms = sweep_ms[chance_below(CHANCE_FAULT, 4)];
	if (chance_below(CHANCE_FAULT, 2))
		plan.scarce = (unsigned)chance_below(CHANCE_FAULT, 1u << plan.subvolumes);
	plan.scatter = plan.seed % 3 ? 2 : 0; /* one directory in two is elsewhere than its name */
	plan.lossy = chance_below(CHANCE_FAULT, 3) == 0 || nemesis_cuts_sets();
	grow_plan(options.grows, options.shrinks, options.weighs);
	plan.widen_at = options.widen_at;
}

static void make_plan(uint64_t seed)
{
	enum chance_stream c = CHANCE_FAULT;
	unsigned form = (unsigned)chance_below(c, 100);

	plan = (struct plan){ .seed = seed, .members = 3, .stack = options.stack, .leaver = -1, .weighed = -1 };
	if (form < 15)
		plan.members = 2;
	else if (form < 25)
		plan.members = 4 + (unsigned)chance_below(c, 2);
	else
		plan.arbiter = form < 40;
	plan.clients = 2 + (chance_below(c, 4) == 0);
	plan.tasks = 1 + (unsigned)chance_below(c, 3);
	plan.operations = (unsigned)chance_between(c, 210, 260);
	plan.faults = (unsigned)chance_between(c, 5, 8);
	plan.wild = chance_below(c, 100) < 15;
	plan.cut_all = chance_below(c, 100) < 3;
	plan.sync_s = (unsigned)chance_between(c, 1, 10);
	if (options.members)
		plan.members = options.members;
	if (options.arbiter >= 0 || plan.members != 3)
		plan.arbiter = options.arbiter > 0;
	if (options.clients)
		plan.clients = options.clients;
	if (options.tasks)
		plan.tasks = options.tasks;
	if (options.operations)
		plan.operations = options.operations;
	if (options.faults != UINT32_MAX)
		plan.faults = options.faults;
	if (options.wild >= 0)
		plan.wild = options.wild;
	plan.posix = options.posix;
	plan.layout = options.layout && plan.stack == STACK_REPLICA;
	plan.tenants = (options.tenants || options.liar) && plan.stack == STACK_REPLICA;
	plan.liar = options.liar && plan.stack == STACK_REPLICA && options.subvolumes == 1;
	plan.ignore_unlinked = options.ignore_unlinked;
	plan.kernel = plan.stack == STACK_REPLICA && (options.kernel >= 0 ? options.kernel : (int)(seed & 1));
	if (plan.stack == STACK_SINGLE)
		plan.members = 1;
	if (plan.stack != STACK_REPLICA)
		plan.arbiter = plan.cut_all = false;
	plan.subvolumes = plan.initial = 1;
	if (options.subvolumes != 1)
		spread_plan();
	else if ((options.limit || options.quotas) && is_replicated())
		limit_plan();
	plan.losses = options.losses;
	if (options.quotas && plan.limit)
		limit_plan_quotas();
}

static void run_seed(uint64_t seed, const char *directory, struct report *r)
{
	chance_begin(seed);
	make_plan(seed);
	if (verbose)
		fprintf(stderr,
			"seed %llu: %u x %u members%s (%u subvolumes at first; %d leaves), %u clients with %u tasks, %u operations, %u faults%s%s%s\n",
			(unsigned long long)seed, plan.subvolumes, plan.members, plan.arbiter ? " (arbiter)" : "", plan.initial,
			plan.leaver, plan.clients, plan.tasks, plan.operations, plan.faults, plan.wild ? ", wild" : "",
			plan.cut_all ? ", power cut of all" : "", plan.kernel ? ", kernels that believe" : "");
	world_run(directory);
	*r = (struct report){ .seed = seed,
			      .hash = trace_hash(),
			      .virtual_ns = sim_now() - S,
			      .messages = net_messages(),
			      .operations = operations_count(),
			      .faults = nemesis_faults(),
			      .undecided = check_undecided(),
			      .shards = away_shards(),
			      .grown = plan_moves() && !plan_leaves(),
			      .left = plan_leaves(),
			      .moved = grow_moved(),
			      .kills = grow_kills(),
			      .failed = sim_failure(),
			      .finished = true };
	away_counts(&r->pointers, &r->away, &r->ends, &r->late, &r->renames);
	if (sim_failure())
		snprintf(r->text, sizeof(r->text), "%s", sim_failure());
}

/* Goes away with the process, however that ends; and numbers its inodes alike in each run. Where it can't be had storage/posix says what it needs. */
static void mount_own(const char *directory)
{
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("stratus-sim", directory, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOATIME, "size=256m,mode=0700"))
		fprintf(stderr, "sim: no tmpfs of its own: %s\n", strerror(errno));
}

static uint64_t used_ns(void)
{
	struct timespec t;

	syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec;
}

/* A machine that has much else to do is no reason: who still gets on has so much time of a processor. */
static void look_whether_it_hangs(int number)
{
	static uint64_t before;
	uint64_t used = used_ns();

	if (used > HANG_S * S || used < before + 10 * MS) {
		signal(number, SIG_DFL);
		raise(number);
		return;
	}
	before = used;
	alarm(HANG_S);
}

static void child_main(uint64_t seed, const char *directory, int to)
{
	struct report r = { .seed = seed };

	signal(SIGALRM, look_whether_it_hangs);
	alarm(HANG_S);
	if (!verbose) {
		log_threshold = LOG_ERROR;
		dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
	}
	if (options.posix && !options.scratch)
		mount_own(directory);
	run_seed(seed, directory, &r);
	if (syscall(SYS_write, to, &r, sizeof(r)) != sizeof(r))
		_exit(3);
	_exit(0);
}

static int child_start(struct child *c, uint64_t seed)
{
	int ends[2];

	c->seed = seed;
	snprintf(c->directory, sizeof(c->directory), "%s/stratus-sim.XXXXXX", options.scratch ? options.scratch : "/dev/shm");
	if (!mkdtemp(c->directory) || pipe(ends))
		return -errno;
	fflush(NULL);
	c->pid = fork();
	if (!c->pid) {
		close(ends[0]);
		child_main(seed, c->directory, ends[1]);
	}
	close(ends[1]);
	c->pipe = ends[0];
	return c->pid < 0 ? -errno : 0;
}

static void child_end(struct child *c, int status, struct report *r)
{
	ssize_t n = read(c->pipe, r, sizeof(*r));

	close(c->pipe);
	if (files_remove(c->directory))
		perror(c->directory);
	c->pid = 0;
	if (n == sizeof(*r) && r->finished)
		return;
	*r = (struct report){ .seed = c->seed, .failed = true };
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		snprintf(r->text, sizeof(r->text), "no end after %d s: something spins, or waits for a mutex", HANG_S);
	else if (WIFSIGNALED(status))
		snprintf(r->text, sizeof(r->text), "died by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(r->text, sizeof(r->text), "ended with status %d", WEXITSTATUS(status));
}

/* ---- many ---- */

static struct {
	uint64_t runs, failures, operations, faults, undecided, pointers, away, ends, late, renames, moved, grown, left,
		unmoved, kills, shards, virtual_ns, messages, first_hash;
	bool stop;
} total;

static void say_failure(const struct report *r)
{
	printf("seed %llu: %s\n", (unsigned long long)r->seed, r->text);
	fflush(stdout);
}

/* A mutant is found only where all is well without it. */
static bool good_without_mutant(uint64_t seed)
{
	const char *mutant = mutant_chosen();
	struct child c = { 0 };
	struct report r;
	int status;

	mutant_choose(NULL);
	if (child_start(&c, seed))
		return false;
	waitpid(c.pid, &status, 0);
	child_end(&c, status, &r);
	mutant_choose(mutant);
	return !r.failed;
}

static void count(const struct report *r)
{
	total.runs++;
	total.operations += r->operations;
	total.faults += r->faults;
	total.undecided += r->undecided;
	total.pointers += r->pointers;
	total.away += r->away;
	total.ends += r->ends;
	total.late += r->late;
	total.renames += r->renames;
	total.grown += r->grown;
	total.moved += r->moved;
	total.left += r->left;
	total.unmoved += (r->grown || r->left) && !r->moved;
	total.kills += r->kills;
	total.shards += r->shards;
	total.virtual_ns += r->virtual_ns;
	total.messages += r->messages;
	if (!r->failed || (options.expect_failure && mutant_chosen() && !good_without_mutant(r->seed)))
		return;
	total.failures++;
	if (!options.expect_failure || total.failures == 1)
		say_failure(r);
	if (options.expect_failure || (total.failures >= FAILURES_SHOWN && !options.keep_going))
		total.stop = true;
}

static struct child *child_of(struct child *child, pid_t pid)
{
	while (child->pid != pid)
		child++;
	return child;
}

/* With --twice: the second run must be the first again; whether it is good is not asked. */
static void compare_runs(struct child *c, struct report *r, struct report *first)
{
	if (!c->again) {
		*first = *r;
		c->again = true;
		child_start(c, r->seed);
		return;
	}
	c->again = false;
	r->failed = !r->hash || r->hash != first->hash;
	snprintf(r->text, sizeof(r->text), "two runs differ: trace %016llx and %016llx", (unsigned long long)first->hash,
		 (unsigned long long)r->hash);
	count(r);
}

static void run_many(void)
{
	struct child *child = calloc(options.jobs, sizeof(*child));
	struct report *first = calloc(options.jobs, sizeof(*first)), r;
	uint64_t next = options.from;
	unsigned running = 0;
	int status;

	while (running || (next <= options.to && !total.stop)) {
		if (running < options.jobs && next <= options.to && !total.stop) {
			if (child_start(child_of(child, 0), next++)) {
				perror("can't start a run");
				exit(2);
			}
			running++;
			continue;
		}
		pid_t pid = wait(&status);
		struct child *c = child_of(child, pid);

		child_end(c, status, &r);
		if (options.twice)
			compare_runs(c, &r, &first[c - child]);
		else
			count(&r);
		running -= !c->pid;
	}
	free(first);
	free(child);
}

/* The options that a seed depends on are given again. */
static void say_how(char **argv)
{
	static const char *const left_out[] = { "--seeds", "--jobs" };

	printf("to see one: %s --seed N", argv[0]);
	for (int i = 1; argv[i]; i++) {
		if (!strcmp(argv[i], left_out[0]) || !strcmp(argv[i], left_out[1]))
			i++;
		else if (strcmp(argv[i], "--keep-going") && strcmp(argv[i], "--twice"))
			printf(strchr(argv[i], ' ') ? " '%s'" : " %s", argv[i]);
	}
	putchar('\n');
}

static int summary(uint64_t begin, char **argv)
{
	double seconds = (double)(real_ns() - begin) / 1e9;

	if (total.failures && !options.expect_failure)
		say_how(argv);
	printf("%llu runs, %llu failed, %llu operations, %llu faults, %llu messages, %.0f virtual s in %.1f s: %.0f runs a minute",
	       (unsigned long long)total.runs, (unsigned long long)total.failures, (unsigned long long)total.operations,
	       (unsigned long long)total.faults, (unsigned long long)total.messages, (double)total.virtual_ns / 1e9, seconds,
	       seconds > 0 ? (double)total.runs * 60 / seconds : 0);
	printf("%s%s", mutant_chosen() ? ", mutant " : "", mutant_chosen() ? mutant_chosen() : "");
	if (options.subvolumes != 1)
		printf(", %llu pointers made (%llu of files made away), %llu ended by sweeps, %llu left for fsck, %llu renames across decided",
		       (unsigned long long)total.pointers, (unsigned long long)total.away, (unsigned long long)total.ends,
		       (unsigned long long)total.late, (unsigned long long)total.renames);
	if (total.grown)
		printf(", %llu volumes that grew (%llu of them without moving anything), %llu names moved, %llu rebalancers killed",
		       (unsigned long long)total.grown, (unsigned long long)total.unmoved, (unsigned long long)total.moved,
		       (unsigned long long)total.kills);
	if (total.left)
		printf(", %llu subvolumes that left (%llu of them without moving anything), %llu names moved, %llu rebalancers killed",
		       (unsigned long long)total.left, (unsigned long long)total.unmoved, (unsigned long long)total.moved,
		       (unsigned long long)total.kills);
	if (options.widen_at)
		printf(", %llu more parts of wide directories in the end", (unsigned long long)total.shards);
	if (total.undecided)
		printf(", %llu searches given up", (unsigned long long)total.undecided);
	putchar('\n');
	if (options.expect_failure)
		return total.failures ? 0 : 1;
	return total.failures ? 1 : 0;
}

static int run_one_seed(void)
{
	struct child c = { 0 };
	struct report r;
	int status;

	verbose = !options.quiet;
	log_threshold = LOG_INFO;
	if (child_start(&c, options.from))
		return 2;
	waitpid(c.pid, &status, 0);
	child_end(&c, status, &r);
	printf("seed %llu: %s (trace %016llx, %u operations, %u faults, %llu messages, %.1f virtual s)\n",
	       (unsigned long long)r.seed, r.failed ? r.text : "good", (unsigned long long)r.hash, r.operations, r.faults,
	       (unsigned long long)r.messages, (double)r.virtual_ns / 1e9);
	if (options.subvolumes != 1)
		printf("%u pointers made (%u of files made away), %u ended by sweeps, %u left for fsck, %u renames across decided\n",
		       r.pointers, r.away, r.ends, r.late, r.renames);
	if (r.grown)
		printf("the volume grew: %u names moved, %u rebalancers killed\n", r.moved, r.kills);
	if (r.left)
		printf("a subvolume left: %u names moved, %u rebalancers killed\n", r.moved, r.kills);
	return r.failed;
}

/* ---- the command line ---- */

static int usage(const char *what)
{
	fprintf(stderr, "sim: %s; see --help\n", what);
	exit(2);
}

static bool flag(const char *arg)
{
	static const struct {
		const char *name;
		bool *at;
	} flags[] = { { "--quiet", &options.quiet },
		      { "--calls", &verbose_calls },
		      { "--keep-going", &options.keep_going },
		      { "--expect-failure", &options.expect_failure },
		      { "--twice", &options.twice },
		      { "--layout", &options.layout },
		      { "--limit", &options.limit },
		      { "--losses", &options.losses },
		      { "--quotas", &options.quotas },
		      { "--shrink", &options.shrinks },
		      { "--weigh", &options.weighs },
		      { "--tenants", &options.tenants },
		      { "--liar", &options.liar },
		      { "--ignore-unlinked", &options.ignore_unlinked } };

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (!strcmp(arg, flags[i].name))
			return *flags[i].at = true;
	if (!strcmp(arg, "--arbiter"))
		return options.arbiter = 1, true;
	if (!strcmp(arg, "--wild"))
		return options.wild = 1, true;
	if (!strcmp(arg, "--kernel"))
		return options.kernel = 1, true;
	if (!strcmp(arg, "--no-kernel"))
		return options.kernel = 0, true;
	if (!strcmp(arg, "--grow"))
		return options.grows = 1, true;
	if (!strcmp(arg, "--no-grow"))
		return options.grows = 0, true;
	if (!strcmp(arg, "--gentle"))
		return options.wild = 0, true;
	return false;
}

static bool number(const char *arg, const char *value)
{
	static const struct {
		const char *name;
		unsigned *at, least, most;
	} numbers[] = { { "--jobs", &options.jobs, 1, 256 },
			{ "--subvolumes", &options.subvolumes, 0, SUBVOLUMES_MAX },
			{ "--members", &options.members, 1, BRICKS_MAX - 1 },
			{ "--widen", &options.widen_at, 0, 1000 },
			{ "--clients", &options.clients, 1, CLIENTS_MAX },
			{ "--tasks", &options.tasks, 1, 4 },
			{ "--ops", &options.operations, 1, 2000 },
			{ "--faults", &options.faults, 0, 100 } };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		unsigned long v;

		if (strcmp(arg, numbers[i].name))
			continue;
		v = strtoul(value, NULL, 10);
		if (v < numbers[i].least || v > numbers[i].most)
			usage("a number is out of its bounds");
		*numbers[i].at = (unsigned)v;
		return true;
	}
	return false;
}

static bool word(const char *arg, const char *value)
{
	char *end;

	if (!strcmp(arg, "--seeds")) {
		options.from = strtoull(value, &end, 10);
		options.to = *end == '-' ? strtoull(end + 1, NULL, 10) : options.from;
	} else if (!strcmp(arg, "--seed")) {
		options.from = options.to = strtoull(value, NULL, 10);
		options.single = true;
	} else if (!strcmp(arg, "--stack")) {
		options.stack = !strcmp(value, "single") ? STACK_SINGLE : !strcmp(value, "naive") ? STACK_NAIVE : STACK_REPLICA;
	} else if (!strcmp(arg, "--leaf")) {
		options.posix = !strcmp(value, "posix");
		if (!options.posix && strcmp(value, "model"))
			usage("a leaf is model or posix");
	} else if (!strcmp(arg, "--scratch")) {
		options.scratch = value;
	} else if (!strcmp(arg, "--mutant")) {
		if (mutant_choose(value))
			usage("there is no such mutant");
	} else if (!strcmp(arg, "--only")) {
		if (nemesis_restrict(value))
			usage("there is no such fault");
	} else {
		return false;
	}
	return true;
}

static void load(const char *type, bool needed)
{
	const struct xlator_type *found;
	struct problem p = { "" };

	if (module_load(type, &found, &p) && needed) {
		fprintf(stderr, "sim: %s (STRATUS_XLATOR_PATH?)\n", p.text);
		exit(2);
	}
}

/* Addresses must not differ from run to run. */
static void fix_addresses(char **argv)
{
	int now = personality(0xffffffff);

	if (now == -1 || now & ADDR_NO_RANDOMIZE || personality((unsigned long)now | ADDR_NO_RANDOMIZE) == -1)
		return;
	execv("/proc/self/exe", argv);
}

static void set_path(void)
{
	static char exe[4000], path[8300];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (getenv("STRATUS_XLATOR_PATH") || n < 0)
		return;
	exe[n] = '\0';
	slash = strstr(exe, "/tests/sim/");
	if (!slash)
		return;
	*slash = '\0';
	snprintf(path, sizeof(path), "%s/tests/sim/xlators:%s/xlators", exe, exe);
	setenv("STRATUS_XLATOR_PATH", path, 1);
}

int main(int argc, char **argv)
{
	static const char *const types[] = { "sim/client", "sim/server", "sim/disk", "sim/shaky", "sim/naive" };
	static const char *const tested[] = { "cluster/afr", "features/replica", "cluster/coordinator", "storage/posix",
					      "features/usage" };
	static const char *const spread[] = { "cluster/dht", "features/layout" };
	uint64_t begin = real_ns();

	fix_addresses(argv);
	gfid_hash_key((const uint64_t[2]){ 1, 2 }); /* tables have the same order in each run */
	set_path();
	options.faults = UINT32_MAX;
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		load(types[i], true);
	for (size_t i = 0; i < sizeof(tested) / sizeof(*tested); i++)
		load(tested[i], false);
	mutants_spread();
	for (size_t i = 0; i < sizeof(spread) / sizeof(*spread); i++)
		load(spread[i], false);
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help"))
			return fputs(help, stdout) < 0;
		if (!strcmp(argv[i], "--list-mutants"))
			return mutants_list(stdout, options.subvolumes != 1), 0;
		if (!strcmp(argv[i], "--list-faults"))
			return nemesis_names(stdout), putchar('\n'), 0;
		if (flag(argv[i]))
			continue;
		if (i + 1 == argc || (!number(argv[i], argv[i + 1]) && !word(argv[i], argv[i + 1])))
			usage(argv[i]);
		i++;
	}
	if (options.subvolumes == 1 ? options.members == 1
				    : options.members > BRICKS_MAX / SUBVOLUMES_MAX || options.stack != STACK_REPLICA)
		usage("so many members go with another number of subvolumes, or of the replica stack");
	if (options.single && !options.twice)
		return run_one_seed();
	run_many();
	return summary(begin, argv);
}
