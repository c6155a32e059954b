/* SPDX-License-Identifier: Apache-2.0 */
/* A brick under features/usage, and an independent count of what is on it. */
#include "usage-test.h"

#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

const uint32_t owner[OWNERS] = { 0, BASE_A + 7, BASE_B };
static const char *const account[OWNERS] = { "-", "acme", "globex" };

static char base[512];
struct tree tree;
int limit_bytes, limit_inodes;
int slow_ms;
const char *failing = "getattr";
bool in_set;
uint64_t seed;

/* ---- an independent count ---- */

static struct sums walked;
static ino_t linked[4096];
static int linked_count;

static bool counted_before(const struct stat *st)
{
	for (int i = 0; i < linked_count; i++)
		if (linked[i] == st->st_ino)
			return true;
	if (st->st_nlink > 1 && !S_ISDIR(st->st_mode))
		linked[linked_count++] = st->st_ino;
	return false;
}

/* What was found below each directory with a limit, by the tag. */
enum { TAGS = 1024 };
static struct {
	uint64_t tag;
	int64_t bytes, inodes;
} tagged[TAGS];

static void add_tagged(uint64_t tag, int64_t bytes)
{
	int i = 0;

	while (i < TAGS - 1 && tagged[i].tag && tagged[i].tag != tag)
		i++;
	tagged[i].tag = tag;
	tagged[i].bytes += bytes;
	tagged[i].inodes++;
}

static uint64_t xattrs_of(const char *path, uint64_t *end, uint64_t *tag)
{
	char names[8192], value[65536];
	ssize_t size = llistxattr(path, names, sizeof(names)), got;
	uint64_t sum = 0;

	*end = *tag = 0;
	for (char *at = names; size > 0 && at < names + size; at += strlen(at) + 1) {
		if (!strncmp(at, "trusted.sfs", 11) || !strncmp(at, "trusted.stratus", 15))
			continue;
		got = lgetxattr(path, at, value, sizeof(value));
		assert_true(got >= 0);
		sum += strlen(at) + (size_t)got;
		if (!strcmp(at, "trusted.usage.end"))
			for (int i = 0; i < 8; i++)
				*end = *end << 8 | (uint8_t)value[i];
		if (!strcmp(at, "trusted.usage.quota"))
			for (int i = 0; i < 8; i++)
				*tag = *tag << 8 | (uint8_t)value[i];
	}
	return sum;
}

static int count_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	int who = st->st_uid >= BASE_A && st->st_uid < BASE_A + COUNT	? 1
		  : st->st_uid >= BASE_B && st->st_uid < BASE_B + COUNT ? 2
									: 0;
	uint64_t end, xattrs, length, tag;
	int64_t bytes;

	(void)type;
	if (ftw->level == 1 && !strcmp(path + ftw->base, ".stratus"))
		return FTW_SKIP_SUBTREE;
	if (counted_before(st))
		return 0;
	xattrs = xattrs_of(path, &end, &tag);
	length = in_set && S_ISDIR(st->st_mode) ? 4096 : (uint64_t)st->st_size;
	length = length > end ? length : end;
	bytes = (int64_t)((length + 4095) / 4096 * 4096 + 4096 + (xattrs > 4096 ? xattrs - 4096 : 0));
	if (tag)
		add_tagged(tag, bytes);
	walked.bytes[who] += bytes;
	walked.inodes[who]++;
	return 0;
}

const char *path_in(const char *name)
{
	static __thread char text[4][1024];
	static __thread unsigned turn;
	char *t = text[turn++ % 4];

	snprintf(t, sizeof(text[0]), "%s/%s", base, name);
	return t;
}

struct sums walk(void)
{
	walked = (struct sums){ 0 };
	memset(tagged, 0, sizeof(tagged));
	linked_count = 0;
	assert_int_equal(nftw(path_in("brick"), count_one, 64, FTW_PHYS | FTW_ACTIONRETVAL), 0);
	return walked;
}

/* ---- what the translator says ---- */

int64_t number_after(const char *text, const char *name, const char *key)
{
	char what[64];
	const char *at;

	snprintf(what, sizeof(what), "\"account\": \"%s\"", name);
	at = strstr(text, what);
	assert_non_null(at);
	at = strstr(at, key);
	assert_non_null(at);
	return strtoll(at + strlen(key), NULL, 10);
}

void tell(const char *word, const char *more, char **text)
{
	struct xlator *x = tree_find(&tree, "usage");
	char *argv[] = { (char *)word, (char *)more };
	size_t size;
	FILE *f = open_memstream(text, &size);

	assert_int_equal(x->type->command(x, more ? 2 : 1, argv, f), 0);
	fclose(f);
}

bool is_exact(void)
{
	char *text;
	bool exact;

	tell("status", "--json", &text);
	exact = strstr(text, "\"exact\": true");
	free(text);
	return exact;
}

static void expect_equal_directories(void)
{
	static const char word[] = "{\"directory\": ";
	char *text, *at;

	tell("directories", "--json", &text);
	for (at = text; (at = strstr(at, word)); at += strlen(word)) {
		uint64_t tag = strtoull(at + strlen(word), NULL, 10);
		int64_t bytes = strtoll(strstr(at, "\"bytes\": ") + 9, NULL, 10),
			inodes = strtoll(strstr(at, "\"inodes\": ") + 10, NULL, 10);
		int i = 0;

		while (i < TAGS - 1 && tagged[i].tag && tagged[i].tag != tag)
			i++;
		if (bytes != tagged[i].bytes || inodes != tagged[i].inodes)
			fail_msg("seed %" PRIu64 ": directory %" PRIu64 ": charged %" PRId64 " bytes, %" PRId64
				 " inodes; there are %" PRId64 ", %" PRId64,
				 seed, tag, bytes, inodes, tagged[i].bytes, tagged[i].inodes);
	}
	free(text);
}

void expect_equal(void)
{
	struct sums sums = walk();
	char *text;

	tell("status", "--json", &text);
	for (int i = 0; i < OWNERS; i++) {
		int64_t bytes = number_after(text, account[i], "\"bytes\": "),
			inodes = number_after(text, account[i], "\"inodes\": ");

		if (bytes != sums.bytes[i] || inodes != sums.inodes[i])
			fail_msg("seed %" PRIu64 ": %s: charged %" PRId64 " bytes, %" PRId64 " inodes; there are %" PRId64
				 ", %" PRId64,
				 seed, account[i], bytes, inodes, sums.bytes[i], sums.inodes[i]);
	}
	free(text);
	expect_equal_directories();
}

/* ---- a brick ---- */

void open_tree(void)
{
	char text[4096];
	struct problem p = { 0 };

	snprintf(
		text, sizeof(text),
		"volume posix\n type storage/posix\n option directory %s/brick\n option free-space-floor 0\n"
		" option volume-id 6d6a1f70-0d3c-4c1d-9a65-3d1a7c1f4b01\n option brick-id 0f0e0d0c-0b0a-4908-8706-050403020100\n"
		"end-volume\nvolume delay\n type debug/delay-gen\n option fops readdir\n option delay %dms\n subvolumes posix\nend-volume\n"
		"volume fails\n type debug/error-gen\n option fops %s\n option percent 0\n subvolumes delay\nend-volume\n"
		"volume hold\n type debug/hold\n subvolumes fails\nend-volume\n"
		"volume usage\n type features/usage\n option ledger %s/ledger\n option accounts \"acme %d %d %d %d, globex %d %d\"\n"
		"%s subvolumes hold\nend-volume\n",
		base, slow_ms, failing, base, BASE_A, COUNT, limit_bytes, limit_inodes, BASE_B, COUNT,
		in_set ? " option set 11111111-2222-3333-4444-777777777777\n" : "");
	if (tree_open(&tree, text, &p))
		fail_msg("%s", p.text);
}

int setup(void **s)
{
	(void)s;
	if (geteuid())
		skip();
	assert_non_null(getcwd(base, sizeof(base) - 32));
	strcat(base, "/usage-test-XXXXXX");
	assert_non_null(mkdtemp(base));
	assert_int_equal(mkdir(path_in("brick"), 0755), 0);
	seed = getenv("USAGE_SEED") ? strtoull(getenv("USAGE_SEED"), NULL, 10)
				    : (uint64_t)time(NULL) << 16 ^ (uint64_t)getpid();
	return 0;
}

int teardown(void **s)
{
	(void)s;
	if (tree.graph) /* an assertion has failed; a recount that goes on would hold up the end of the group */
		tree_close(&tree);
	test_remove(base);
	return 0;
}

int change_one(struct tree *t, const char *directory, uint64_t *random)
{
	static const char bytes[40000];
	struct setattr set = { .valid = SET_SIZE };
	struct file *file = NULL;
	char name[64];
	int err;

	*random = *random * 6364136223846793005 + 1442695040888963407;
	snprintf(name, sizeof(name), "%s/f%u", directory, (unsigned)(*random >> 33) % 150);
	set.size = *random >> 40 & 0xffff;
	if (!(*random >> 20 & 15)) {
		tree_unlink(t, name);
		return 0;
	}
	if (!(*random >> 24 & 3)) {
		tree_setattr(t, name, &set);
		return 0;
	}
	err = tree_create(t, name, O_RDWR | (*random >> 28 & 7 ? 0 : O_TRUNC), 0644, &file);
	if (err)
		return err;
	err = tree_write(t, file, set.size, bytes, sizeof(bytes));
	tree_release(t, file);
	return err;
}

static void in_process(void (*work)(uint64_t random), uint64_t random)
{
	runtime_start(1, 0);
	open_tree();
	work(random);
	_exit(1);
}

static void look_at_it(void (*expect)(void))
{
	runtime_start(1, 0);
	open_tree();
	if (!EVENTUALLY(is_exact()))
		_exit(2);
	expect();
	tree_close(&tree);
	_exit(0);
}

void kill_at_work(int times, void (*work)(uint64_t random), void (*expect)(void))
{
	int status;
	pid_t child;

	for (int i = 0; i < times; i++) {
		child = fork();
		if (!child)
			in_process(work, seed + (uint64_t)i);
		usleep(20000 + (useconds_t)(seed >> i) % 60000);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	child = fork();
	if (!child)
		look_at_it(expect);
	waitpid(child, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

void hold_tell(const char *word, const char *what)
{
	char *argv[] = { (char *)word, (char *)what, NULL };
	FILE *f = fopen("/dev/null", "w");
	struct xlator *x = tree_find(&tree, "hold");

	assert_int_equal(x->type->command(x, what ? 2 : 1, argv, f), 0);
	fclose(f);
}

bool hold_has(int many)
{
	char *argv[] = { (char *)"list", NULL }, *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	struct xlator *x = tree_find(&tree, "hold");

	x->type->command(x, 1, argv, f);
	fclose(f);
	for (const char *at = text; (at = strstr(at, "parked: ")); at++)
		many--;
	free(text);
	return many <= 0;
}

/* As it is told by an option of debug/error-gen, which is below. */
void set_failure(const char *option, const char *value)
{
	struct xlator *x = tree_find(&tree, "fails");
	struct problem p = { 0 };

	assert_int_equal(option_change(x->type->options, x->private, x->name, option, value, &p), 0);
	x->type->reconfigure(x, option_find(x->type->options, option));
}

void grow(void *arg)
{
	struct file *file;

	assert_int_equal(tree_open_file(&tree, "/f", O_WRONLY | O_APPEND, &file), 0);
	assert_int_equal(tree_write(&tree, file, *(int *)arg, "0123456789abcdef", 16), 0);
	tree_release(&tree, file);
	*(int *)arg += 1 << 20;
}

int mkdir_as(const char *path, const struct gfid *gfid)
{
	struct mkdir_in in = { .gfid = *gfid, .mode = 0755 };
	struct mkdir_out out = { 0 };
	int err = tree_loc(&tree, path, &in.loc);

	if (!err)
		err = tree_call(&tree, tree.at, FOP_mkdir, &in, &out);
	fop_out_clear(FOP_mkdir, &out);
	inode_unref(in.loc.parent);
	return err;
}
