/* SPDX-License-Identifier: Apache-2.0 */
/* The index: which objects changed since which generation. doc/disk-format.md has the format of its files. */
#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "member.h"
#include "order.h"

enum { RECORD_HEAD = 16 + 4 + 1, RECORD_MAX = RECORD_HEAD + INDEX_HANDLE_MAX };

/* ---- in memory ---- */

static size_t bucket_of(const struct index *i, const struct gfid *g)
{
	return gfid_hash(g) & (i->buckets - 1);
}

static struct index_entry *find(const struct index *i, const struct gfid *g)
{
	if (!i->buckets)
		return NULL;
	for (uint32_t at = i->bucket[bucket_of(i, g)]; at; at = i->entry[at - 1].next)
		if (gfid_equal(&i->entry[at - 1].gfid, g))
			return &i->entry[at - 1];
	return NULL;
}

const struct index_entry *index_find(const struct index *i, const struct gfid *g)
{
	return find(i, g);
}

static void rehash(struct index *i)
{
	memset(i->bucket, 0, i->buckets * sizeof(*i->bucket));
	for (size_t k = 0; k < i->count; k++) {
		uint32_t *at = &i->bucket[bucket_of(i, &i->entry[k].gfid)];

		i->entry[k].next = *at;
		*at = k + 1;
	}
}

static int grow(struct index *i)
{
	size_t room = i->room ? 2 * i->room : 256;
	struct index_entry *entry = realloc(i->entry, room * sizeof(*entry));
	uint32_t *bucket;

	if (!entry)
		return -ENOMEM;
	i->entry = entry;
	bucket = realloc(i->bucket, room * sizeof(*bucket));
	if (!bucket)
		return -ENOMEM;
	i->bucket = bucket;
	i->room = i->buckets = room;
	rehash(i);
	return 0;
}

static struct index_entry *add(struct index *i, const struct gfid *g)
{
	struct index_entry *e;
	uint32_t *at;

	if (i->count == i->room && grow(i))
		return NULL;
	at = &i->bucket[bucket_of(i, g)];
	e = &i->entry[i->count++];
	*e = (struct index_entry){ .gfid = *g, .next = *at };
	*at = i->count;
	return e;
}

static void set_handle(struct index_entry *e, const void *handle, size_t size)
{
	uint8_t *copy = size ? realloc(e->handle, size) : NULL;

	if (!copy)
		return;
	memcpy(copy, handle, size);
	e->handle = copy;
	e->handle_size = size;
}

static void forget_all(struct index *i)
{
	for (size_t k = 0; k < i->count; k++)
		free(i->entry[k].handle);
	i->count = 0;
	if (i->buckets)
		memset(i->bucket, 0, i->buckets * sizeof(*i->bucket));
}

/* ---- on disk ---- */

static int file_name(uint64_t generation, char text[32])
{
	return snprintf(text, 32, "index.%llu", (unsigned long long)generation);
}

static bool generation_of(const char *name, uint64_t *generation)
{
	char *end;

	if (strncmp(name, "index.", 6))
		return false;
	*generation = strtoull(name + 6, &end, 10);
	return end > name + 6 && !*end;
}

/* In a generation that an older version has begun it stays without, and so it does where there is no room. *fd: -1, without; then *unnamed is up to which generation. */
static int open_names(const struct index *i, const char *file, int *fd, uint64_t *unnamed)
{
	bool begun = !faccessat(i->directory_fd, file, F_OK, 0), ordered = names_are_ordered(i->directory_fd);
	int err = ordered && (!begun || names_exist(i, i->generation)) ? names_open(i, i->generation, !begun) : -ENOSPC;

	*fd = err < 0 ? -1 : err;
	*unnamed = err >= 0 ? 0 : ordered ? i->generation : UINT64_MAX;
	return err >= 0 || err == -ENOSPC || err == -EDQUOT ? 0 : err; /* else what is there would look as if it told of all */
}

static void take_names(struct index *i, int fd, uint64_t unnamed)
{
	if (i->names_fd >= 0)
		close(i->names_fd);
	i->names_fd = fd;
	i->unnamed = i->unnamed < unnamed ? unnamed : i->unnamed;
}

/* The names first: where they are missing, so is all that was changed in that generation. */
static int open_file(struct index *i)
{
	char name[32];
	uint64_t unnamed;
	off_t length;
	int fd, names, err;

	file_name(i->generation, name);
	err = open_names(i, name, &names, &unnamed);
	if (err)
		return err;
	fd = openat(i->directory_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	length = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	if (length < 0) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		if (names >= 0)
			close(names);
		return err;
	}
	if (i->file_fd >= 0)
		close(i->file_fd);
	i->file_fd = fd;
	i->length = length;
	take_names(i, names, unnamed);
	return 0;
}

static size_t make_record(const struct index_entry *e, uint8_t record[RECORD_MAX])
{
	uint32_t type = htobe32(e->type);

	memcpy(record, e->gfid.bytes, 16);
	memcpy(record + 16, &type, 4);
	record[20] = e->handle_size;
	if (e->handle)
		memcpy(record + RECORD_HEAD, e->handle, e->handle_size);
	return RECORD_HEAD + e->handle_size;
}

static int read_record(struct index *i, uint64_t generation, const uint8_t *record)
{
	struct index_entry *e;
	struct gfid g;
	uint32_t type;

	memcpy(g.bytes, record, 16);
	memcpy(&type, record + 16, 4);
	e = find(i, &g);
	if (!e)
		e = add(i, &g);
	if (!e) /* the list would lack it, and look whole */
		return -ENOMEM;
	e->type = be32toh(type);
	if (generation >= e->generation) /* files come in any order: the last handle is the one that holds */
		set_handle(e, record + RECORD_HEAD, record[20]);
	e->generation = generation > e->generation ? generation : e->generation;
	return 0;
}

int index_load_named(struct index *i, const struct gfid *g, uint64_t generation, const uint8_t *handle, size_t size)
{
	struct index_entry *e = find(i, g);

	if (!e)
		e = add(i, g);
	if (!e)
		return -ENOMEM;
	e->type = S_IFDIR;
	if (!e->handle || generation > e->generation) /* of the same generation a record may have a newer one */
		set_handle(e, handle, size);
	e->generation = generation > e->generation ? generation : e->generation;
	e->named = generation > e->named ? generation : e->named;
	return 0;
}

/* A record that was cut at the end is one whose change was not begun: it goes, for more may follow it. */
static int load_file(struct index *i, const char *name, uint64_t generation)
{
	int fd = openat(i->directory_fd, name, O_RDWR | O_CLOEXEC);
	struct stat st;
	uint8_t *text = NULL;
	ssize_t got = -1, at = 0;
	int err = 0;

	if (fd >= 0 && !fstat(fd, &st) && (text = malloc((size_t)st.st_size + 1)))
		got = read(fd, text, (size_t)st.st_size);
	while (!err && at + RECORD_HEAD <= got && at + RECORD_HEAD + text[at + 20] <= got) {
		err = read_record(i, generation, text + at);
		at += RECORD_HEAD + text[at + 20];
	}
	if (!err && at < got && ftruncate(fd, at))
		got = -1;
	if (fd >= 0)
		close(fd);
	free(text);
	return got < 0 ? -EIO : err;
}

static int write_state(struct index *i, uint64_t synced, uint64_t floor)
{
	char text[128];
	int size = snprintf(text, sizeof(text), "stratus index 1\ndisk %016llx\nsynced %llu\nfloor %llu\n",
			    (unsigned long long)i->disk, (unsigned long long)synced, (unsigned long long)floor);
	int fd = openat(i->directory_fd, "state.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int err = fd < 0 ? -errno : 0;

	if (!err && write(fd, text, (size_t)size) != size)
		err = -EIO;
	if (!err && fsync(fd))
		err = -errno;
	if (fd >= 0)
		close(fd);
	if (!err && renameat(i->directory_fd, "state.new", i->directory_fd, "state"))
		err = -errno;
	if (!err && fsync(i->directory_fd))
		err = -errno;
	return err;
}

/* An empty disk, as far as the set is concerned: it must be told from the one that was there before. */
static int new_state(struct index *i, struct problem *p)
{
	struct gfid random;
	int err;

	gfid_create(&random);
	memcpy(&i->disk, random.bytes, sizeof(i->disk));
	err = write_state(i, i->synced, i->floor);
	return err ? problem_set(p, -err, "can't write to %s: %s", i->directory, strerror(-err)) : 0;
}

static int read_state(struct index *i, struct problem *p)
{
	char text[129] = "";
	unsigned long long disk, synced, floor;
	int fd = openat(i->directory_fd, "state", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (fd < 0 && errno == ENOENT)
		return new_state(i, p);
	if (got < 0 || sscanf(text, "stratus index 1\ndisk %llx\nsynced %llu\nfloor %llu\n", &disk, &synced, &floor) != 3)
		return problem_set(
			p, EIO,
			"%s/state can't be read or makes no sense: remove the directory, and the brick is healed as a "
			"whole",
			i->directory);
	i->disk = disk;
	i->synced = synced;
	i->floor = floor;
	return 0;
}

static int load_files(struct index *i, struct problem *p)
{
	int fd = dup(i->directory_fd), err = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	uint64_t generation;

	if (!d)
		return problem_set(p, errno, "can't list %s: %s", i->directory, strerror(errno));
	while (!err) {
		bool file;

		errno = 0;
		e = readdir(d);
		if (!e) {
			err = errno ? problem_set(p, errno, "can't list %s: %s", i->directory, strerror(errno)) : 0;
			break;
		}
		file = generation_of(e->d_name, &generation);
		if (!file && !names_generation(e->d_name, &generation))
			continue;
		err = file ? load_file(i, e->d_name, generation) : names_load(i, generation);
		i->generation = generation > i->generation ? generation : i->generation;
		if (file && generation > i->synced && generation > i->unnamed && !names_exist(i, generation))
			i->unnamed = generation;
		if (err)
			problem_set(p, EIO, "can't read %s/%s: %s", i->directory, e->d_name, strerror(-err));
	}
	closedir(d);
	return err;
}

int index_open(struct index *i, const char *directory, struct problem *p)
{
	int err;

	*i = (struct index){ .directory = strdup(directory),
			     .directory_fd = -1,
			     .file_fd = -1,
			     .names_fd = -1,
			     .writing = PTHREAD_MUTEX_INITIALIZER };
	if (mkdir(directory, 0700) && errno != EEXIST)
		return problem_set(p, errno, "can't make the directory %s: %s", directory, strerror(errno));
	i->directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (i->directory_fd < 0)
		return problem_set(p, errno, "can't open %s: %s", directory, strerror(errno));
	err = read_state(i, p);
	if (!err)
		err = load_files(i, p);
	i->generation = i->generation > i->synced ? i->generation : i->synced;
	i->generation = i->generation ? i->generation
				      : 1; /* a new disk has synced generation 0: what is changed now comes after that */
	if (!err && (err = open_file(i)))
		problem_set(p, -err, "can't write to %s: %s", directory, strerror(-err));
	return err;
}

void index_close(struct index *i)
{
	forget_all(i);
	free(i->entry);
	free(i->bucket);
	free(i->directory);
	if (i->file_fd >= 0)
		close(i->file_fd);
	if (i->names_fd >= 0)
		close(i->names_fd);
	if (i->directory_fd >= 0)
		close(i->directory_fd);
	*i = (struct index){ .directory_fd = -1, .file_fd = -1, .names_fd = -1 };
}

/* ---- changes ---- */

/* More objects than a list is good for: from now on the other members are compared as a whole. */
static int overflow(struct index *i)
{
	int err;

	log_warning(NULL, NULL, "more than %d objects changed while a member was away: it will be healed as a whole",
		    INDEX_ENTRIES_MAX);
	forget_all(i);
	pthread_mutex_lock(&i->writing);
	i->floor = i->generation;
	err = write_state(i, i->synced, i->floor);
	pthread_mutex_unlock(&i->writing);
	return err;
}

static int append(struct index *i, const struct index_entry *e)
{
	uint8_t record[RECORD_MAX];
	size_t size = make_record(e, record);
	ssize_t done = pwrite(i->file_fd, record, size, i->length);

	if (done == (ssize_t)size) {
		i->length += done;
		return 0;
	}
	done = done < 0 ? -errno : -ENOSPC;
	if (ftruncate(i->file_fd, i->length)) /* a part that stays is written over by the next */
		log_warning(NULL, NULL, "%s: a record that was cut can't be removed: %s", i->directory, strerror(errno));
	return done;
}

static void note_handle(struct index_entry *e, struct xlator *leaf, struct inode *inode)
{
	uint8_t handle[HANDLE_SIZE_MAX];
	size_t size = sizeof(handle);

	if (leaf && inode && leaf->type->inode_handle && !leaf->type->inode_handle(leaf, inode, handle, &size) &&
	    size <= INDEX_HANDLE_MAX)
		set_handle(e, handle, size);
}

int index_touch(struct index *i, const struct gfid *g, uint32_t type, struct xlator *leaf, struct inode *inode)
{
	struct index_entry *e = find(i, g);
	uint64_t before = e ? e->generation : 0;
	int err;

	if (e && e->generation == i->generation && (e->handle || !inode))
		return 0;
	if (!e && i->count >= INDEX_ENTRIES_MAX && (err = overflow(i)))
		return err;
	if (!e && !(e = add(i, g)))
		return -ENOMEM;
	e->generation = i->generation;
	e->type = type ? type : e->type;
	note_handle(e, leaf, inode);
	err = MUTANT("index-in-memory") ? 0 : append(i, e);
	if (err)
		e->generation = before;
	return err;
}

int index_made(struct index *i, const struct gfid *g, uint32_t type, struct xlator *leaf, struct inode *inode)
{
	struct index_entry *e = find(i, g);

	if (e) {
		free(e->handle);
		e->handle = NULL;
		e->handle_size = 0;
	}
	return index_touch(i, g, type, leaf, inode);
}

int index_names_change(struct index *i, const struct gfid *g)
{
	struct index_entry *e = find(i, g);

	return e ? names_add(i, e) : 0;
}

int index_begin(struct index *i, uint64_t generation)
{
	uint64_t before = i->generation;
	int err;

	i->generation = generation;
	err = open_file(i);
	if (err)
		i->generation = before;
	return err;
}

int index_distrust(struct index *i)
{
	int err;

	pthread_mutex_lock(&i->writing);
	i->distrusted++;
	i->synced = 0;
	err = write_state(i, 0, i->floor);
	pthread_mutex_unlock(&i->writing);
	return err;
}

struct index_state index_plan(struct index *i, uint64_t synced, uint64_t floor)
{
	struct index_state s = { i->synced, i->floor, i->generation, 0 };

	pthread_mutex_lock(&i->writing);
	s.distrusted = i->distrusted;
	pthread_mutex_unlock(&i->writing);
	if (synced > s.synced)
		s.synced = synced;
	if (floor > s.floor && floor < i->generation)
		s.floor = floor;
	return s;
}

/* The list may have been given up meanwhile, so that more is missing. */
int index_store(struct index *i, const struct index_state *s)
{
	int err;

	pthread_mutex_lock(&i->writing);
	err = s->distrusted != i->distrusted ? -ECANCELED
					     : write_state(i, s->synced, s->floor > i->floor ? s->floor : i->floor);
	pthread_mutex_unlock(&i->writing);
	return err;
}

static void compact(struct index *i)
{
	size_t left = 0;

	for (size_t k = 0; k < i->count; k++) {
		if (i->entry[k].generation <= i->floor)
			free(i->entry[k].handle);
		else
			i->entry[left++] = i->entry[k];
	}
	i->count = left;
	i->compactions++;
	if (i->buckets)
		rehash(i);
}

void index_apply(struct index *i, const struct index_state *s)
{
	if (s->distrusted == i->distrusted)
		i->synced = s->synced;
	if (s->floor <= i->floor)
		return;
	i->floor = s->floor;
	compact(i);
}

void index_remove_files(struct index *i, const struct index_state *s)
{
	int fd = dup(i->directory_fd);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	uint64_t its;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return;
	}
	rewinddir(d);
	while ((e = readdir(d))) {
		if (generation_of(e->d_name, &its) && its <= s->floor && its < s->generation)
			unlinkat(i->directory_fd, e->d_name, 0);
		else if (names_generation(e->d_name, &its) && its <= s->synced && its < s->generation)
			names_remove(i, its); /* all of the file is on disk */
	}
	closedir(d);
}
