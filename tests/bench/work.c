/* SPDX-License-Identifier: Apache-2.0 */
/* The measured workloads of tests/bench/run: each call does one of them in a directory and prints "OPERATIONS NANOSECONDS". */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SMALL = 4096, LARGE = 1 << 20, PER_DIR = 1000, TREE_FILES = 25, TREE_HEADERS = 30 };

static uint64_t random_state;
static char *block; /* LARGE bytes, aligned, not all alike */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* xorshift64*: the same sequence on each file system. */
static uint64_t next_random(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * 0x2545f4914f6cdd1dull;
}

static void enter(const char *dir)
{
	if (chdir(dir))
		err(1, "%s", dir);
}

static int open_file(const char *name, int flags)
{
	int fd = open(name, flags | O_CLOEXEC, 0644);

	if (fd < 0)
		err(1, "open %s", name);
	return fd;
}

static void put(int fd, const void *bytes, size_t size, off_t offset)
{
	ssize_t n = pwrite(fd, bytes, size, offset);

	if (n < 0 || (size_t)n != size)
		err(1, "write of %zu bytes at %lld gave %zd", size, (long long)offset, n);
}

static void get(int fd, void *bytes, size_t size, off_t offset)
{
	ssize_t n = pread(fd, bytes, size, offset);

	if (n < 0 || (size_t)n != size)
		err(1, "read of %zu bytes at %lld gave %zd", size, (long long)offset, n);
}

static void small_name(char *name, size_t size, long i)
{
	snprintf(name, size, "d%03ld/f%06ld", i / PER_DIR, i);
}

static void make_file(const char *name, const void *bytes, size_t size)
{
	int fd = open_file(name, O_WRONLY | O_CREAT | O_EXCL);

	if (size)
		put(fd, bytes, size, 0);
	if (close(fd))
		err(1, "close %s", name);
}

static long create_small(long count)
{
	char name[64];

	for (long i = 0; i < count; i++) {
		small_name(name, sizeof name, i);
		if (i % PER_DIR == 0) {
			name[4] = 0;
			if (mkdir(name, 0755))
				err(1, "mkdir %s", name);
			name[4] = '/';
		}
		make_file(name, block, SMALL);
	}
	return count;
}

static long unlink_small(long count)
{
	char name[64];

	for (long i = 0; i < count; i++) {
		small_name(name, sizeof name, i);
		if (unlink(name))
			err(1, "unlink %s", name);
		if (i % PER_DIR == PER_DIR - 1 || i == count - 1) {
			name[4] = 0;
			if (rmdir(name))
				err(1, "rmdir %s", name);
		}
	}
	return count;
}

enum { FILES_IN_SMALL = 10 };

static long make_directories(long count)
{
	char name[64];

	for (long i = 0; i < count; i++) {
		snprintf(name, sizeof name, "d%06ld", i);
		if (mkdir(name, 0755))
			err(1, "mkdir %s", name);
	}
	return count;
}

static long fill_directories(long count)
{
	char name[64];

	for (long i = 0; i < count * FILES_IN_SMALL; i++) {
		snprintf(name, sizeof name, "d%06ld/f%ld", i / FILES_IN_SMALL, i % FILES_IN_SMALL);
		make_file(name, block, 0);
	}
	return count;
}

/* As `ls -l` does it: each name, and the attributes of each. */
static long list_directories(long count)
{
	struct dirent *e;
	struct stat st;
	char name[64];

	for (long i = 0; i < count; i++) {
		DIR *d;

		snprintf(name, sizeof name, "d%06ld", i);
		d = opendir(name);
		if (!d)
			err(1, "opendir %s", name);
		while ((e = readdir(d)))
			if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
				err(1, "stat %s/%s", name, e->d_name);
		closedir(d);
	}
	return count;
}

static long stat_small(long count)
{
	struct stat st;
	char name[64];

	for (long i = 0; i < count; i++) {
		snprintf(name, sizeof name, "f%06ld", (long)(next_random() % PER_DIR));
		if (stat(name, &st))
			err(1, "stat %s", name);
	}
	return count;
}

static long make_flat(long count)
{
	char name[64];

	for (long i = 0; i < count; i++) {
		snprintf(name, sizeof name, "f%06ld", i);
		make_file(name, block, 0);
	}
	return count;
}

static long make_big(long mib)
{
	int fd = open_file("big", O_WRONLY | O_CREAT | O_TRUNC);

	for (long i = 0; i < mib; i++)
		put(fd, block, LARGE, (off_t)i * LARGE);
	if (fsync(fd) || close(fd))
		err(1, "big");
	return mib;
}

static long random_blocks(long count, int flags)
{
	int fd = open_file("big", flags | O_DIRECT);
	off_t blocks = lseek(fd, 0, SEEK_END) / SMALL;

	for (long i = 0; i < count; i++) {
		off_t at = (off_t)(next_random() % blocks) * SMALL;

		if (flags == O_RDONLY)
			get(fd, block, SMALL, at);
		else
			put(fd, block, SMALL, at);
	}
	close(fd);
	return count;
}
static long random_read(long count)
{
	return random_blocks(count, O_RDONLY);
}
static long random_write(long count)
{
	return random_blocks(count, O_WRONLY);
}

static long read_big(int flags)
{
	int fd = open_file("big", O_RDONLY | flags);
	off_t size = lseek(fd, 0, SEEK_END);

	for (off_t at = 0; at < size; at += LARGE)
		get(fd, block, LARGE, at);
	close(fd);
	return size >> 20;
}
static long sequential_read(long unused)
{
	(void)unused;
	return read_big(0);
}
static long sequential_read_direct(long unused)
{
	(void)unused;
	return read_big(O_DIRECT);
}

static long write_big(long mib, int flags)
{
	int fd = open_file("new", O_WRONLY | O_CREAT | flags);

	for (long i = 0; i < mib; i++)
		put(fd, block, LARGE, (off_t)i * LARGE);
	if (close(fd))
		err(1, "close new");
	return mib;
}
static long sequential_write(long mib)
{
	return write_big(mib, 0);
}
static long sequential_write_direct(long mib)
{
	return write_big(mib, O_DIRECT);
}

/* The client's cached pages of "big" go; the brick's stay. */
static long forget_big(long unused)
{
	int fd = open_file("big", O_RDONLY);

	(void)unused;
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
	return 1;
}

/* ---- a tree like a kernel's: directories of C files that include shared headers ---- */

static int processes = 1;

static int source_text(char *text, size_t room, int dir, int file)
{
	int n = 0, padding = 500 + next_random() % 24000;

	for (int i = 0; i < 6; i++)
		n += snprintf(text + n, room - n, "#include \"h%d.h\"\n", (dir * 7 + file * 3 + i * 5) % TREE_HEADERS);
	n += snprintf(text + n, room - n, "int f_%d_%d(int x)\n{\n\treturn x * %d;\n}\n", dir, file, file + 1);
	for (; padding > 0; padding -= 64)
		n += snprintf(text + n, room - n, "/* %-56d */\n", padding);
	return n;
}

static void tree_dir_create(int dir)
{
	static char text[65536];
	char name[64];

	snprintf(name, sizeof name, "src%03d", dir);
	if (mkdir(name, 0755))
		err(1, "mkdir %s", name);
	for (int file = 0; file < TREE_FILES; file++) {
		snprintf(name, sizeof name, "src%03d/file%02d.c", dir, file);
		make_file(name, text, source_text(text, sizeof text, dir, file));
	}
}

static void read_file(const char *name)
{
	int fd = open_file(name, O_RDONLY);
	ssize_t n;

	while ((n = read(fd, block, 131072)) > 0)
		;
	if (n < 0)
		err(1, "read %s", name);
	close(fd);
}

/* Calls fn for each entry that isn't a dot. */
static void each_entry(const char *dir, void (*fn)(const char *path))
{
	char path[600];
	struct dirent *e;
	DIR *d = opendir(dir);

	if (!d)
		err(1, "opendir %s", dir);
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		fn(path);
	}
	closedir(d);
}

static void stat_and_read(const char *path)
{
	struct stat st;

	if (lstat(path, &st))
		err(1, "lstat %s", path);
	read_file(path);
}
static void tree_dir_read(int dir)
{
	char name[64];

	snprintf(name, sizeof name, "src%03d", dir);
	each_entry(name, stat_and_read);
}

static void remove_file(const char *path)
{
	if (unlink(path))
		err(1, "unlink %s", path);
}
static void tree_dir_delete(int dir)
{
	char name[64];

	snprintf(name, sizeof name, "src%03d", dir);
	each_entry(name, remove_file);
	if (rmdir(name))
		err(1, "rmdir %s", name);
}

static void remove_object(const char *path)
{
	size_t length = strlen(path);

	if (length > 2 && !strcmp(path + length - 2, ".o"))
		remove_file(path);
}
static void tree_dir_clean(int dir)
{
	char name[64];

	snprintf(name, sizeof name, "src%03d", dir);
	each_entry(name, remove_object);
}

/* Each of the processes takes every n-th directory. */
static long tree_each(long dirs, void (*fn)(int dir))
{
	int status, failed = 0;

	for (int p = 0; p < processes; p++) {
		pid_t pid = fork();

		if (pid < 0)
			err(1, "fork");
		if (pid)
			continue;
		for (int dir = p; dir < dirs; dir += processes) {
			random_state = 77 + dir;
			fn(dir);
		}
		_exit(0);
	}
	while (wait(&status) > 0)
		failed |= status;
	if (failed)
		errx(1, "a process of the tree failed");
	return dirs * TREE_FILES;
}

static void tree_makefile(long dirs)
{
	FILE *f = fopen("Makefile", "w");

	/* A third of the files are compiled: a kernel's configuration doesn't take all either. */
	fprintf(f, "OBJECTS =");
	for (int dir = 0; dir < dirs; dir++)
		for (int file = dir % 3; file < TREE_FILES; file += 3)
			fprintf(f, " src%03d/file%02d.o", dir, file);
	fprintf(f, "\nall: $(OBJECTS)\n%%.o: %%.c\n\t@cc -O0 -Iinclude -c -o $@ $<\n");
	if (fclose(f))
		err(1, "Makefile");
}

static long tree_create(long dirs)
{
	char name[64], text[4096];

	if (mkdir("include", 0755))
		err(1, "mkdir include");
	for (int i = 0; i < TREE_HEADERS; i++) {
		snprintf(name, sizeof name, "include/h%d.h", i);
		make_file(name, text,
			  snprintf(text, sizeof text, "#ifndef H%d\n#define H%d\n%s%sextern int v%d;\n#endif\n", i, i,
				   i ? "#include \"h0.h\"\n" : "", i > 1 ? "#include \"h1.h\"\n" : "", i));
	}
	tree_makefile(dirs);
	return tree_each(dirs, tree_dir_create);
}
static long tree_read(long dirs)
{
	return tree_each(dirs, tree_dir_read);
}
static long tree_clean(long dirs)
{
	return tree_each(dirs, tree_dir_clean);
}
static long tree_delete(long dirs)
{
	each_entry("include", remove_file);
	if (rmdir("include") || unlink("Makefile"))
		err(1, "include or Makefile");
	return tree_each(dirs, tree_dir_delete);
}
static long tree_compile(long dirs)
{
	char command[64];

	snprintf(command, sizeof command, "make -s -j%d all", processes);
	if (system(command))
		errx(1, "%s failed", command);
	return (dirs * TREE_FILES + 2) / 3;
}

static const struct {
	const char *name;
	long (*fn)(long count);
} workloads[] = {
	{ "create", create_small },
	{ "unlink", unlink_small },
	{ "stat", stat_small },
	{ "make-flat", make_flat },
	{ "mkdir", make_directories },
	{ "fill", fill_directories },
	{ "list", list_directories },
	{ "make-big", make_big },
	{ "forget-big", forget_big },
	{ "random-read", random_read },
	{ "random-write", random_write },
	{ "sequential-read", sequential_read },
	{ "sequential-write", sequential_write },
	{ "sequential-read-direct", sequential_read_direct },
	{ "sequential-write-direct", sequential_write_direct },
	{ "tree-create", tree_create },
	{ "tree-read", tree_read },
	{ "tree-compile", tree_compile },
	{ "tree-clean", tree_clean },
	{ "tree-delete", tree_delete },
};

int main(int argc, char **argv)
{
	if (argc < 4)
		errx(2, "usage: work WORKLOAD DIR COUNT [PROCESSES [SEED]]");
	processes = argc > 4 ? atoi(argv[4]) : 1;
	random_state = argc > 5 ? strtoull(argv[5], NULL, 10) : 1;
	block = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (block == MAP_FAILED)
		err(1, "mmap");
	for (size_t i = 0; i < LARGE; i += 8)
		*(uint64_t *)(block + i) = next_random();
	enter(argv[2]);
	for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
		if (!strcmp(argv[1], workloads[i].name)) {
			uint64_t begin = now_ns();
			long done = workloads[i].fn(atol(argv[3]));

			printf("%ld %llu\n", done, (unsigned long long)(now_ns() - begin));
			return 0;
		}
	errx(2, "unknown workload %s", argv[1]);
}
