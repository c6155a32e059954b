/* SPDX-License-Identifier: Apache-2.0 */
/* The directories whose names have changed are on the list as names, too: what the power takes of a file's end it does not take of these, for the file system's journal
 * has them before the changes. See "Lists that the power does not take" in doc/replication.md. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "member.h"

#define PREFIX "names."

static void directory_name(uint64_t generation, char text[32])
{
	snprintf(text, 32, PREFIX "%llu", (unsigned long long)generation);
}

bool names_generation(const char *name, uint64_t *generation)
{
	char *end;

	if (strncmp(name, PREFIX, strlen(PREFIX)))
		return false;
	*generation = strtoull(name + strlen(PREFIX), &end, 10);
	return end > name + strlen(PREFIX) && !*end;
}

bool names_exist(const struct index *i, uint64_t generation)
{
	char name[32];

	directory_name(generation, name);
	return !faccessat(i->directory_fd, name, F_OK, 0);
}

int names_open(const struct index *i, uint64_t generation, bool make)
{
	char name[32];
	int fd;

	directory_name(generation, name);
	if (make && mkdirat(i->directory_fd, name, 0700) && errno != EEXIST)
		return -errno;
	fd = openat(i->directory_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* The handle, in what has no zeros: each is replaced by how far it is to the next (COBS, Cheshire and Baker 1999; none is longer than 254). ext4 keeps a target of up to 59 bytes in the
 * inode, and gives a longer one a block; its handles have 48. */
static void handle_text(const struct index_entry *e, char text[INDEX_HANDLE_MAX + 2])
{
	size_t last = 0, at = 1;

	for (unsigned k = 0; e->handle && k < e->handle_size; k++, at++) {
		text[at] = (char)e->handle[k];
		if (e->handle[k])
			continue;
		text[last] = (char)(at - last);
		last = at;
	}
	text[last] = (char)(at - last);
	text[at] = '\0';
}

/* 0: it is none. */
static size_t handle_parse(const char *text, uint8_t handle[INDEX_HANDLE_MAX])
{
	size_t size = 0, length = strlen(text);

	if (length > INDEX_HANDLE_MAX + 1)
		return 0;
	for (size_t at = 0; at < length;) {
		size_t next = at + (uint8_t)text[at];

		if (next > length)
			return 0;
		while (++at < next)
			handle[size++] = (uint8_t)text[at];
		if (at < length)
			handle[size++] = 0;
	}
	return size;
}

/* Where nothing has room for one more name, a removal must not need one. So this generation goes on without: as one that an older version has begun it tells that a power cut
 * may take directories from its list, also after that, for the file system's journal has this rename before the change. What is named for no generation is removed. */
static int give_up(struct index *i)
{
	char name[32], none[32];

	directory_name(i->generation, name);
	directory_name(0, none);
	names_remove(i, 0);
	if (renameat(i->directory_fd, name, i->directory_fd, none))
		return -errno;
	log_warning(
		NULL, NULL,
		"%s: no room for the name of a directory that changes: if the power of all members goes now a tree is walked",
		i->directory);
	close(i->names_fd);
	i->names_fd = -1;
	i->unnamed = i->unnamed < i->generation ? i->generation : i->unnamed;
	names_remove(i, 0);
	return 0;
}

int names_add(struct index *i, struct index_entry *e)
{
	char target[INDEX_HANDLE_MAX + 2], name[GFID_TEXT];

	if (i->names_fd < 0 || e->named == i->generation)
		return 0;
	handle_text(e, target);
	if (!MUTANT("unnamed") && symlinkat(target, i->names_fd, gfid_text(&e->gfid, name)) && errno != EEXIST)
		return errno == ENOSPC || errno == EDQUOT ? give_up(i) : -errno;
	e->named = i->generation;
	return 0;
}

/* Whatever it is that has the name: that it is there is what counts. */
static int load_one(struct index *i, int fd, const char *name, uint64_t generation)
{
	char target[INDEX_HANDLE_MAX + 2] = "";
	uint8_t handle[INDEX_HANDLE_MAX];
	struct gfid g;

	if (gfid_parse(name, &g))
		return 0;
	if (readlinkat(fd, name, target, sizeof(target) - 1) < 0)
		target[0] = '\0';
	return index_load_named(i, &g, generation, handle, handle_parse(target, handle));
}

static int each_name(const struct index *i, uint64_t generation, int (*each)(struct index *, int fd, const char *, uint64_t),
		     struct index *to)
{
	int fd = names_open(i, generation, false), err = fd < 0 ? fd : 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (fd >= 0 && !d) {
		close(fd);
		return -ENOMEM;
	}
	while (!err && d) {
		errno = 0;
		e = readdir(d);
		if (!e) {
			err = -errno; /* what can't be read must not look whole */
			break;
		}
		err = e->d_name[0] == '.' ? 0 : each(to, dirfd(d), e->d_name, generation);
	}
	if (d)
		closedir(d);
	return err;
}

int names_load(struct index *i, uint64_t generation)
{
	return each_name(i, generation, load_one, i);
}

static int remove_one(struct index *i, int fd, const char *name, uint64_t generation)
{
	(void)i, (void)generation;
	unlinkat(fd, name, 0);
	return 0;
}

void names_remove(const struct index *i, uint64_t generation)
{
	char name[32];

	each_name(i, generation, remove_one, NULL);
	directory_name(generation, name);
	unlinkat(i->directory_fd, name, AT_REMOVEDIR);
}
