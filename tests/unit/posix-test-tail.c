/* SPDX-License-Identifier: Apache-2.0 */
/* storage/posix: sealed files that grow while the power goes. What the brick asks of the kernel is noted; each state in which a disk may have kept that is
 * made, and looked at by a brick that starts with it. Seals here are what a brick can see of them, over bytes that are mixed with a nonce. */
#include "posix-test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sealed.h"

enum { BLOCK_SIZE = SEALED_PAGE - SEALED_SEAL, PAGES = 8, MOST = 64, TRIES = 20 };

/* ---- pages ---- */

/* What the file is to have: its bytes are the beginning of this, at any time. None is 0. */
static uint8_t text_at(uint64_t offset)
{
	return (uint8_t)(1 + (offset * 2654435761u >> 13) % 255);
}

static uint8_t mixed(uint8_t nonce, uint64_t offset)
{
	return (uint8_t)(nonce * 31 + offset * 7);
}

static uint8_t next_nonce(void)
{
	static uint8_t nonce;

	return ++nonce ? nonce : ++nonce;
}

static void seal(uint8_t *page, uint64_t block, size_t length, uint16_t flags)
{
	memset(page, next_nonce(), SEALED_SEAL - 4);
	page[28] = (uint8_t)(length >> 8), page[29] = (uint8_t)length;
	page[30] = (uint8_t)(flags >> 8), page[31] = (uint8_t)flags;
	for (size_t i = 0; i < length; i++)
		page[SEALED_SEAL + i] = text_at(block * BLOCK_SIZE + i) ^ mixed(page[0], i);
}

/* Does it fit its seal, and have what it is to have? */
static bool opens(const uint8_t *page, uint64_t block, size_t size)
{
	size_t length = (size_t)page[28] << 8 | page[29];

	if (size != SEALED_SEAL + length)
		return false;
	for (size_t i = 0; i < length; i++)
		if ((page[SEALED_SEAL + i] ^ mixed(page[0], i)) != text_at(block * BLOCK_SIZE + i))
			return false;
	return true;
}

static size_t on_brick(size_t size)
{
	return size / BLOCK_SIZE * SEALED_PAGE + (size % BLOCK_SIZE ? SEALED_SEAL + size % BLOCK_SIZE : 0);
}

/* ---- what the kernel is asked for ---- */

enum asked_kind { WROTE, CUT, SYNCED };
struct asked {
	enum asked_kind kind;
	uint64_t offset, size; /* CUT: the length */
	uint8_t *bytes;
};
static struct {
	atomic_bool on;
	ino_t ino;
	unsigned count;
	struct asked event[MOST];
} record;

static bool is_recorded(int fd)
{
	struct stat st;

	return atomic_load(&record.on) && !fstat(fd, &st) && st.st_ino == record.ino;
}

static void note(enum asked_kind kind, uint64_t offset, uint64_t size, const void *bytes)
{
	struct asked *e = &record.event[record.count++];

	*e = (struct asked){ .kind = kind, .offset = offset, .size = size, .bytes = bytes ? malloc(size) : NULL };
	if (bytes)
		memcpy(e->bytes, bytes, size);
}

static void forget_events(void)
{
	while (record.count)
		free(record.event[--record.count].bytes);
}

/* In the kernel's place, for the brick: modules look here first. */
#define IN_PLACE __attribute__((visibility("default")))
IN_PLACE ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
	if (is_recorded(fd))
		note(WROTE, (uint64_t)offset, size, bytes);
	return syscall(SYS_pwrite64, fd, bytes, size, offset);
}
IN_PLACE ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t offset)
{
	return pwrite(fd, bytes, size, offset);
}
IN_PLACE int truncate(const char *path, off_t size)
{
	struct stat st;

	if (atomic_load(&record.on) && !stat(path, &st) && st.st_ino == record.ino)
		note(CUT, 0, (uint64_t)size, NULL);
	return (int)syscall(SYS_truncate, path, size);
}
IN_PLACE int truncate64(const char *path, off64_t size)
{
	return truncate(path, size);
}
IN_PLACE int sync_file_range(int fd, off64_t offset, off64_t size, unsigned flags)
{
	if (is_recorded(fd))
		note(SYNCED, (uint64_t)offset, (uint64_t)size, NULL);
	return (int)syscall(SYS_sync_file_range, fd, offset, size, flags);
}
IN_PLACE int fdatasync(int fd)
{
	int err = (int)syscall(SYS_fdatasync, fd);

	if (!err && is_recorded(fd))
		note(SYNCED, 0, UINT64_MAX, NULL);
	return err;
}

/* ---- a file that grows ---- */

struct growing {
	struct inode *inode;
	struct file *file;
	size_t size; /* of the contents */
};

static void begin(struct growing *g)
{
	static const uint8_t header[SEALED_HEADER] = { 'S', 'F', 'C', '1', SEALED_VERSION };
	struct stat st;

	CHECK_INT(ask_make_file(root, "grows", &g->inode, &g->file), 0);
	CHECK_INT(setxattr(test_brick_path("grows"), SEALED_HEADER_XATTR, header, sizeof header, 0), 0);
	CHECK_INT(stat(test_brick_path("grows"), &st), 0);
	record.ino = st.st_ino;
	atomic_store(&record.on, true);
}

static void end(struct growing *g)
{
	atomic_store(&record.on, false);
	file_unref(g->file);
	inode_unref(g->inode);
}

/* As encryption/crypt does: the pages from that of the last byte on, in one message. */
static void grow_to(struct growing *g, size_t size)
{
	static uint8_t pages[PAGES * SEALED_PAGE];
	uint64_t first = g->size / BLOCK_SIZE, last = (size - 1) / BLOCK_SIZE;
	size_t bytes = on_brick(size) - first * SEALED_PAGE;
	REQUEST(q, 0);

	for (uint64_t b = first; b <= last; b++)
		seal(pages + (b - first) * SEALED_PAGE, b, b < last ? BLOCK_SIZE : size - last * BLOCK_SIZE, 0);
	CHECK_INT(ask_put(&q.r, g->file, first * SEALED_PAGE, 0, pages, bytes, NULL), (int)bytes);
	g->size = size;
}

/* By a hole. */
static void lengthen_to(struct growing *g, size_t size)
{
	REQUEST(q, 0);

	CHECK_INT(ask_set(&q.r, g->inode, &(struct setattr){ .valid = SET_SIZE, .size = on_brick(size) }), 0);
	g->size = size;
}

static void make_durable(struct growing *g)
{
	struct fsync_out out;
	REQUEST(q, 0);

	CHECK_INT(fsync_on(&q.r, brick, &(struct fsync_in){ .file = g->file, .datasync = 1 }, &out), 0);
}

/* ---- what a disk may have of it ---- */

struct version {
	unsigned event; /* by which it came; 0: it was durable, or is not there */
	bool there;
	uint8_t bytes[SEALED_PAGE];
};
struct disk {
	size_t durable; /* contents that a sync has promised */
	unsigned lengths, versions[PAGES];
	struct version page[PAGES][MOST];
	struct {
		unsigned event;
		uint64_t size;
	} length[MOST];
	unsigned events, synced_at[MOST]; /* the page of a SYNCED event, of one page */
	bool is_sync[MOST];
};

static void note_version(struct disk *d, unsigned event, uint64_t page, uint64_t at, const uint8_t *bytes, size_t size)
{
	struct version *v = &d->page[page][d->versions[page]];

	*v = v[-1];
	v->event = event;
	v->there = true;
	memcpy(v->bytes + at, bytes, size);
	d->versions[page]++;
}

static void note_length(struct disk *d, unsigned event, uint64_t size)
{
	d->length[d->lengths].event = event;
	d->length[d->lengths++].size = size;
}

static void note_write(struct disk *d, unsigned event, const struct asked *e)
{
	for (uint64_t done = 0; done < e->size;) {
		uint64_t at = (e->offset + done) % SEALED_PAGE, n = SEALED_PAGE - at;

		n = n < e->size - done ? n : e->size - done;
		note_version(d, event, (e->offset + done) / SEALED_PAGE, at, e->bytes + done, n);
		done += n;
	}
	if (e->offset + e->size > d->length[d->lengths - 1].size)
		note_length(d, event, e->offset + e->size);
}

/* Only the last of each is left. */
static void settle(struct disk *d)
{
	for (unsigned p = 0; p < PAGES; p++) {
		d->page[p][0] = d->page[p][d->versions[p] - 1];
		d->page[p][0].event = 0;
		d->versions[p] = 1;
	}
	d->length[0] = d->length[d->lengths - 1];
	d->length[0].event = 0;
	d->lengths = 1;
	memset(d->is_sync, 0, sizeof d->is_sync);
}

static struct disk *disk_of_events(void)
{
	struct disk *d = calloc(1, sizeof *d);

	d->lengths = 1;
	for (unsigned p = 0; p < PAGES; p++)
		d->versions[p] = 1;
	for (unsigned i = 0; i < record.count; i++) {
		const struct asked *e = &record.event[i];

		if (e->kind == WROTE)
			note_write(d, i + 1, e);
		else if (e->kind == CUT)
			note_length(d, i + 1, e->size);
		else if (e->size > SEALED_PAGE)
			settle(d);
		else
			d->is_sync[i + 1] = true, d->synced_at[i + 1] = (unsigned)(e->offset / SEALED_PAGE);
	}
	d->events = record.count;
	return d;
}

/* May the disk have this version of a page, with that length? A page that is new is on the disk before the file is longer by it: ext4 (data=ordered),
 * XFS and Btrfs see to that. */
static bool may_be(const struct disk *d, unsigned page, unsigned version, unsigned length, bool ordered)
{
	const struct version *v = &d->page[page][version];

	if (d->length[length].size <= (uint64_t)page * SEALED_PAGE)
		return !version; /* behind the end: any */
	if (!v->there)
		return d->versions[page] == 1; /* a hole */
	for (unsigned e = 1; ordered && e <= d->length[length].event; e++)
		if (d->is_sync[e] && d->synced_at[e] == page && v->event < e && version + 1 < d->versions[page] &&
		    v[1].event < e)
			return false;
	return true;
}

/* ---- each state, seen by a brick ---- */

struct state {
	const struct disk *d;
	unsigned length, version[PAGES];
	char name[32];
};

static void put_file(const struct state *s)
{
	static const uint8_t header[SEALED_HEADER] = { 'S', 'F', 'C', '1', SEALED_VERSION };
	uint64_t size = s->d->length[s->length].size;
	int fd = open(test_brick_path(s->name), O_RDWR | O_CREAT | O_EXCL, 0644);
	uint8_t *map;

	CHECK_INT(fd >= 0 && !ftruncate(fd, (off_t)size) && !fsetxattr(fd, SEALED_HEADER_XATTR, header, sizeof header, 0),
		  true);
	/* Also what is behind the end within the last page. */
	map = mmap(NULL, PAGES * SEALED_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK_INT(map != MAP_FAILED, true);
	for (unsigned p = 0; p < PAGES && p * (uint64_t)SEALED_PAGE < size; p++)
		if (s->d->page[p][s->version[p]].there)
			memcpy(map + p * SEALED_PAGE, s->d->page[p][s->version[p]].bytes, SEALED_PAGE);
	munmap(map, PAGES * SEALED_PAGE);
	close(fd);
}

static bool is_hole(const uint8_t *page)
{
	return !page[0] && !memcmp(page, page + 1, SEALED_PAGE - 1);
}

/* All pages open, and nothing is missing that was durable. */
static bool is_right(const char *name, size_t durable)
{
	static uint8_t bytes[PAGES * SEALED_PAGE];
	struct attr attr = { 0 };
	cleanup_inode struct inode *inode = NULL;
	int fd;
	ssize_t n;

	if (ask_find(root, name, &inode, &attr))
		return false;
	fd = open(test_brick_path(name), O_RDONLY);
	memset(bytes, 0, sizeof bytes);
	n = read(fd, bytes, sizeof bytes);
	close(fd);
	if (n != (ssize_t)attr.size || (size_t)n < on_brick(durable))
		return false;
	for (ssize_t at = 0; at < n; at += SEALED_PAGE) {
		size_t size = n - at < SEALED_PAGE ? (size_t)(n - at) : SEALED_PAGE;

		if (!is_hole(bytes + at) && !opens(bytes + at, (uint64_t)at / SEALED_PAGE, size))
			return false;
	}
	return true;
}

/* The kernel clears what is behind the end when it writes the page by itself: that is another state, and this one is made again. */
static bool looks_right(struct state *s, size_t durable)
{
	static unsigned number;
	bool right = false;

	for (unsigned i = 0; i < TRIES && !right; i++) {
		snprintf(s->name, sizeof s->name, "state-%u", number++);
		put_file(s);
		right = is_right(s->name, durable);
		unlink(test_brick_path(s->name));
	}
	return right;
}

/* The next choice of versions; false: that was all. */
static bool advance(struct state *s)
{
	for (unsigned p = 0; p < PAGES; p++) {
		if (++s->version[p] < s->d->versions[p])
			return true;
		s->version[p] = 0;
	}
	return ++s->length < s->d->lengths;
}

static bool is_possible(const struct state *s, bool ordered)
{
	for (unsigned p = 0; p < PAGES; p++)
		if (!may_be(s->d, p, s->version[p], s->length, ordered))
			return false;
	return true;
}

/* How many states there are, and how many are wrong. */
static unsigned look_at_all(size_t durable, bool ordered, unsigned *wrong)
{
	struct disk *d = disk_of_events();
	struct state s = { .d = d };
	unsigned states = 0;

	*wrong = 0;
	do {
		if (!is_possible(&s, ordered))
			continue;
		states++;
		*wrong += !looks_right(&s, durable);
	} while (advance(&s) && *wrong < 3);
	free(d);
	return states;
}

static void all_are_right(size_t durable, unsigned least)
{
	unsigned wrong, states = look_at_all(durable, true, &wrong);

	CHECK_INT(wrong, 0);
	CHECK_INT(states >= least, true);
	forget_events();
}

/* ---- the tests ---- */

PROPERTY(a_power_cut_leaves_a_last_page_old_or_new)
{
	static const size_t sizes[] = {
		1, 2, 15, 1000, 2000, BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 1000, BLOCK_SIZE + 3000
	};
	enum { N = sizeof sizes / sizeof *sizes };

	for (unsigned from = 0; from < N; from++) {
		struct growing g = { 0 };
		unsigned to = from + 4 < N ? from + 4 : N;

		begin(&g);
		grow_to(&g, sizes[from]);
		make_durable(&g);
		for (unsigned i = from + 1; i < to && (sizes[i] - 1) / BLOCK_SIZE == (sizes[from] - 1) / BLOCK_SIZE; i++)
			grow_to(&g, sizes[i]);
		end(&g);
		all_are_right(sizes[from], 1);
		CHECK_INT(ask_drop(root, "grows", false), 0);
	}
}

static void grow_over_the_end(struct growing *g)
{
	begin(g);
	grow_to(g, 1000);
	make_durable(g);
	grow_to(g, 2000);
	grow_to(g, 3 * BLOCK_SIZE + 500);
	grow_to(g, 3 * BLOCK_SIZE + 700);
	end(g);
}

PROPERTY(a_page_is_on_disk_before_its_file_grows_behind_it)
{
	struct growing g = { 0 };
	unsigned wrong;

	grow_over_the_end(&g);
	look_at_all(1000, false, &wrong);
	CHECK_INT(wrong > 0, true); /* were it not for the order */
	all_are_right(1000, 6);
}

PROPERTY(a_page_is_on_disk_before_its_file_grows_by_a_hole)
{
	struct growing g = { 0 };
	unsigned wrong;

	begin(&g);
	grow_to(&g, 1000);
	make_durable(&g);
	grow_to(&g, BLOCK_SIZE);
	lengthen_to(&g, 4 * BLOCK_SIZE);
	end(&g);
	look_at_all(1000, false, &wrong);
	CHECK_INT(wrong > 0, true);
	all_are_right(1000, 3);
}

/* How often a page was put on the disk before the file grew behind it. */
static unsigned firsts(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < record.count; i++)
		n += record.event[i].kind == SYNCED && record.event[i].size == SEALED_PAGE;
	return n;
}

PROPERTY(what_is_younger_than_a_sync_waits_for_no_disk)
{
	struct growing g = { 0 };

	begin(&g);
	grow_to(&g, 1000);
	grow_to(&g, 2 * BLOCK_SIZE + 1);
	grow_to(&g, 4 * BLOCK_SIZE + 1);
	CHECK_INT(firsts(), 0);
	make_durable(&g);
	grow_to(&g, 4 * BLOCK_SIZE + 2);
	CHECK_INT(firsts(), 0);
	grow_to(&g, 5 * BLOCK_SIZE + 2);
	CHECK_INT(firsts(), 1);
	grow_to(&g, 6 * BLOCK_SIZE + 2);
	CHECK_INT(firsts(), 1);
	CHECK_INT(brick->type->sync(brick), 0);
	grow_to(&g, 7 * BLOCK_SIZE + 2);
	CHECK_INT(firsts(), 2);
	end(&g);
	forget_events();
}

/* A file of `there` bytes, whose only page has that seal; behind its end there is nothing. */
static void put_odd(const char *name, size_t there, size_t length, uint16_t flags, const char *magic)
{
	uint8_t header[SEALED_HEADER] = { 0 }, page[SEALED_PAGE] = { 0 };
	int fd = open(test_brick_path(name), O_RDWR | O_CREAT | O_EXCL, 0644);

	memcpy(header, magic, 5);
	seal(page, 0, length < BLOCK_SIZE ? length : BLOCK_SIZE, flags);
	page[28] = (uint8_t)(length >> 8), page[29] = (uint8_t)length;
	CHECK_INT(fd >= 0 && !fsetxattr(fd, SEALED_HEADER_XATTR, header, sizeof header, 0), true);
	CHECK_INT((int)syscall(SYS_pwrite64, fd, page, there, 0) > 0 && !ftruncate(fd, (off_t)there), true);
	close(fd);
}

PROPERTY(what_no_power_cut_leaves_is_left_alone)
{
	static const struct {
		size_t there, length;
		uint16_t flags;
		const char *magic;
	} odd[] = {
		{ 2032, 2000, 0, "SFC1\2" },		 /* as it should be */
		{ 2032, 1000, SEALED_SHRUNK, "SFC1\2" }, /* on its way to be cut */
		{ 1032, 2000, 0, "SFC1\2" },		 /* torn, as by a full disk: nothing behind it */
		{ 2032, 1000, 0, "SFC1\3" },		 /* other formats */
		{ 2032, 1000, 0, "SFC2\2" },
		{ 2032, 0, 0, "SFC1\2" }, /* no seal */
		{ 2032, BLOCK_SIZE + 1, 0, "SFC1\2" },
		{ 20, 1000, 0, "SFC1\2" }, /* less than a seal */
	};

	for (unsigned i = 0; i < sizeof odd / sizeof *odd; i++) {
		struct attr attr = { 0 };
		char name[16];

		snprintf(name, sizeof name, "odd-%u", i);
		put_odd(name, odd[i].there, odd[i].length, odd[i].flags, odd[i].magic);
		CHECK_INT(ask_find(root, name, NULL, &attr), 0);
		CHECK_INT(attr.size, odd[i].there);
	}
}

/* ---- how much is written with one call ---- */

enum { LARGE = 1 << 20 };

/* So many calls, one behind the other. */
static void put_large(struct file *file, ino_t ino, uint64_t time_ns, uint64_t offset, const char *bytes, unsigned calls)
{
	REQUEST(q, 0);

	q.r.time_ns = time_ns;
	record.ino = ino;
	atomic_store(&record.on, true);
	CHECK_INT(ask_put(&q.r, file, offset, 0, bytes, LARGE, NULL), LARGE);
	atomic_store(&record.on, false);
	CHECK_INT(record.count, calls);
	for (uint64_t i = 0, end = offset; i < record.count; end += record.event[i++].size) {
		CHECK(record.event[i].kind == WROTE && record.event[i].offset == end);
		CHECK(!i || end % 4096 == 0); /* else what is not cached would be read for that */
	}
	forget_events();
}

static char *large(bool pages)
{
	char *bytes = malloc(LARGE);

	for (int i = 0; i < LARGE; i++)
		bytes[i] = (char)(pages ? i >> 12 : 'a');
	return bytes;
}

static bool has_large(struct file *file, uint64_t offset, const char *bytes)
{
	char *got = malloc(LARGE);
	bool yes = ask_get(file, offset, got, LARGE) == LARGE && !memcmp(bytes, got, LARGE);

	free(got);
	return yes;
}

static const uint64_t brought_ns = 1234567890123456789;

/* Changes of members of a set bring their time. Elsewhere nobody may come between. */
PROPERTY(large_writes_are_in_pieces_only_where_changes_are_ordered)
{
	cleanup_inode struct inode *f = NULL;
	cleanup_file struct file *file = NULL;
	char *same = large(false), *pages = large(true);
	struct stat st;

	CHECK_INT(ask_make_file(root, "f", &f, &file), 0);
	CHECK_INT(stat(test_brick_path("f"), &st), 0);
	put_large(file, st.st_ino, 0, 4096, same, 1);
	put_large(file, st.st_ino, brought_ns, 4096, pages, 4);
	CHECK(has_large(file, 4096, pages));
	free(same);
	free(pages);
}

PROPERTY(no_page_is_in_two_pieces)
{
	cleanup_inode struct inode *f = NULL;
	cleanup_file struct file *file = NULL;
	char *same = large(false), *pages = large(true);
	struct stat st;

	CHECK_INT(ask_make_file(root, "f", &f, &file), 0);
	CHECK_INT(stat(test_brick_path("f"), &st), 0);
	put_large(file, st.st_ino, 0, 0, same, 1); /* so that none of it is a last page */
	put_large(file, st.st_ino, 0, LARGE, same, 1);
	put_large(file, st.st_ino, brought_ns, 100, pages, 5);
	CHECK(has_large(file, 100, pages));
	free(same);
	free(pages);
}

/* Each call waits for the disk. */
PROPERTY(with_o_dsync_a_large_write_is_one_call)
{
	cleanup_inode struct inode *f = NULL;
	cleanup_file struct file *file = NULL;
	struct open_out durable = { 0 };
	char *pages = large(true);
	struct stat st;
	REQUEST(q, 0);

	CHECK_INT(ask_make_file(root, "f", &f, &file), 0);
	CHECK_INT(stat(test_brick_path("f"), &st), 0);
	CHECK_INT(open_on(&q.r, brick, &(struct open_in){ f, O_RDWR | O_DSYNC }, &durable), 0);
	put_large(durable.file, st.st_ino, brought_ns, 4096, pages, 1);
	CHECK(has_large(file, 4096, pages));
	fop_out_clear(FOP_open, &durable);
	free(pages);
}
