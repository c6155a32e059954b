/* SPDX-License-Identifier: Apache-2.0 */
/* Real bricks: their directories, and sim/shaky, which gives storage/posix below it the time and the errors that sim/disk has by itself. */
#include <fcntl.h>
#include <sys/stat.h>

#include "away.h"
#include "leaf.h"

enum { QUICK_NS = 5000, COMMON_NS = 150000, WAIT_NS = 20000000 };

/* ---- directories ---- */

char *leaf_path(unsigned member, char path[LEAF_PATH])
{
	snprintf(path, LEAF_PATH, "%s/disk%u", plan.directory, member);
	return path;
}

static bool hurt[BRICKS_MAX];

void leaf_hurt(unsigned member)
{
	hurt[member] = true;
}

/* Its times are those of the model's root, the same on all bricks. */
void leaf_create(unsigned member)
{
	struct timespec t[2] = { { .tv_sec = 1700000000 }, { .tv_sec = 1700000000 } };
	char path[LEAF_PATH];

	if (mkdir(leaf_path(member, path), 0755) || chmod(path, 0755) || utimensat(AT_FDCWD, path, t, 0))
		sim_fail("can't make %s: %s", path, strerror(errno));
}

void leaf_replace(unsigned member)
{
	char path[LEAF_PATH];

	files_remove(leaf_path(member, path));
	hurt[member] = false;
	leaf_create(member);
}

void leaf_crash(unsigned member)
{
	char path[LEAF_PATH];

	leaf_hurt(member);
	files_crash(leaf_path(member, path));
}

bool leaf_owns(const char *path)
{
	size_t length = strlen(plan.directory);

	return plan.posix && !strncmp(path, plan.directory, length) && !strncmp(path + length, "/disk", 5);
}

static void put_posix(FILE *to, unsigned member)
{
	static const unsigned kept[] = { 0, 3, 16384 }; /* of what is forgotten the identity must tell */
	char path[LEAF_PATH];

	fprintf(to,
		"volume posix\n type storage/posix\n option directory %s\n option free-space-floor 0\n option inodes-kept %u\n"
		" option volume-id 6d6a1f70-0d3c-4c1d-9a65-3d1a7c1f4b01\n"
		" option brick-id 0f0e0d0c-0b0a-4908-8706-05040302010%u\nend-volume\n",
		leaf_path(member, path), kept[plan.seed / 2 % 3], member);
}

void leaf_volfile(FILE *to, unsigned member)
{
	put_posix(to, member);
	fprintf(to, "volume disk\n type sim/shaky\n option member %u\n subvolumes posix\nend-volume\n", member);
}

/* ---- at the end ---- */

static bool looked_up;

static void look_up_run(void *arg)
{
	const struct node *n = arg;
	struct volfile file = { 0 };
	struct problem p = { "" };
	struct graph *graph = NULL;
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	int err;

	put_posix(to, n->number);
	fclose(to);
	err = volfile_parse(text, size, n->name, &file, &p);
	if (!err)
		err = graph_create(&file, NULL, NULL, &graph, &p);
	if (!err)
		err = graph_start(graph, &p);
	if (err)
		sim_fail("%s can't start in the end: %s", n->name, p.text);
	else
		leaf_look_up_all(n->number, graph);
	volfile_free(&file);
	free(text);
	looked_up = true;
}

static bool is_looked_up(void)
{
	return looked_up;
}

static void check_one(struct node *n)
{
	if (!hurt[n->number])
		leaf_check(n->number);
	looked_up = false;
	shard_begin(n);
	task_spawn(n->shard, look_up_run, n);
	sim_run(is_looked_up, sim_now() + 10 * S);
	shard_end(n);
	leaf_crash(n->number);
	if (!sim_failure())
		leaf_check(n->number);
}

void leaf_check_all(void)
{
	bool were[BRICKS_MAX];

	memcpy(were, hurt, sizeof(were));
	for (unsigned i = 0; i < bricks_count(); i++)
		node_crash(node_brick(i), false);
	memcpy(hurt, were, sizeof(were));
	for (unsigned i = 0; i < bricks_count() && !sim_failure(); i++)
		check_one(node_brick(i));
	for (unsigned i = 0; i < bricks_count(); i++)
		leaf_scan(i);
}

/* ---- time and errors ---- */

struct shaky {
	int64_t member;
	struct disk *disk;
};
static const struct option options[] = {
	{ "member", OPTION_INT, OPTION_AT(struct shaky, member), NULL, "which disk", 0, BRICKS_MAX }, { NULL }
};

/* A shielded sleep: disks are not cancelled. */
void leaf_spend(uint64_t ns)
{
	uint64_t until = clock_ns() + ns;

	task_shield(true);
	while (task_wait(until) != -ETIMEDOUT)
		;
	task_shield(false);
}

void leaf_latency(struct disk *d)
{
	const struct disk_faults *f = disk_faults(d);
	uint64_t ns = chance_between(CHANCE_DISK, QUICK_NS, COMMON_NS);

	if (f->slow_ns)
		ns += chance_below(CHANCE_DISK, f->slow_ns);
	leaf_spend(ns);
	while (f->stuck_until > sim_now())
		leaf_spend(WAIT_NS);
	crash_point();
}

int leaf_sync(void)
{
	struct disk *d = disk_of(node_self()->number);

	leaf_latency(d);
	return chance_of(CHANCE_DISK, disk_faults(d)->eio) ? -EIO : 0;
}

/* EIO comes before the deed as well as after it. */
static int shaky_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct shaky *p = x->private;
	bool broken, after;
	int err;

	leaf_latency(p->disk);
	if (fop == FOP_access) /* a real brick has features/access above the leaf, and all here is done by root */
		return 0;
	broken = chance_of(CHANCE_DISK, disk_faults(p->disk)->eio);
	after = broken && chance_below(CHANCE_DISK, 2);
	if (broken && !after)
		return -EIO;
	if (disk_faults(p->disk)->floor && away_refuses(rq, fop, in))
		return -ENOSPC;
	if (fop == FOP_access)
		return 0; /* as features/access */
	err = fop_pass(rq, x, fop, in, out);
	if (!err)
		away_note(rq, fop, in);
	if (!err && fop == FOP_statfs)
		away_room(&((struct statfs_out *)out)->statfs, disk_faults(p->disk));
	crash_point();
	if (chance_below(CHANCE_DISK, 2))
		leaf_latency(p->disk);
	if (!after)
		return err;
	if (!err)
		fop_out_clear((int)fop, out);
	return -EIO;
}

static int shaky_init(struct xlator *x, struct problem *problem)
{
	struct shaky *p = x->private;

	(void)problem;
	p->disk = disk_of((unsigned)p->member);
	return p->disk ? 0 : -ENODEV;
}

const struct xlator_type sim_shaky_type = { .api = STRATUS_API_VERSION,
					    .name = "sim/shaky",
					    .summary = "gives the leaf below it a simulated disk's time and errors",
					    .options = options,
					    .private_size = sizeof(struct shaky),
					    .min_children = 1,
					    .max_children = 1,
					    .init = shaky_init,
					    .any = shaky_any };
