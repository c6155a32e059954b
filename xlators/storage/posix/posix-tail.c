/* SPDX-License-Identifier: Apache-2.0 */
/* The last page of a file that encryption/crypt has sealed. It is replaced while the file grows, and a disk keeps page and length at two times: after a
 * power cut one of them may be of before. The page says how long it is, so the length goes by the page, old or new, before anybody sees the file. And a
 * file that grows by more pages gets its length when the page in which it ended is on the disk: doc/crypt.md, "Power cut at a brick". */
#include <sys/mman.h>

#include "posix.h"
#include "sealed.h"

static uint64_t page_begin(uint64_t size)
{
	return (size - 1) / SEALED_PAGE * SEALED_PAGE;
}

/* 1, 0; -errno: that can't be told. */
static int is_sealed(const struct hold *h)
{
	uint8_t header[SEALED_HEADER + 1];
	ssize_t n = hold_getxattr(h, SEALED_HEADER_XATTR, header, sizeof header);

	if (n < 0)
		return n == -ENODATA || n == -ERANGE || n == -EOPNOTSUPP ? 0 : (int)n;
	return sealed_header_is_known(header, n);
}

/* ---- what a power cut has left ---- */

static bool all_zeros(const uint8_t *bytes, size_t size)
{
	return !size || (!bytes[0] && !memcmp(bytes, bytes + 1, size - 1));
}

/* The page came to the disk whole, so what the file's length does not cover yet stands behind its end. The kernel shows that to who maps the file, and
 * to nobody else. mlock says what can't be read, where looking would be SIGBUS. */
static int map_page(int fd, uint64_t at, uint8_t page[SEALED_PAGE])
{
	void *map = mmap(NULL, SEALED_PAGE, PROT_READ, MAP_SHARED, fd, (off_t)at);
	int err;

	if (map == MAP_FAILED)
		return result(-1);
	err = result(mlock(map, SEALED_PAGE));
	if (!err)
		memcpy(page, map, SEALED_PAGE);
	munmap(map, SEALED_PAGE);
	return err;
}

/* 1: it is longer now. 0: what is missing is not there. */
static int lengthen(int fd, uint64_t at, size_t there, size_t size)
{
	uint8_t page[SEALED_PAGE];
	int err = map_page(fd, at, page);
	ssize_t n;

	if (err || all_zeros(page + there, size - there))
		return err;
	n = pwrite(fd, page, size, (off_t)at);
	return n < 0 ? result(n) : n == (ssize_t)size;
}

static int fit(const struct hold *h, uint64_t at, size_t there, size_t size, const struct statx *st)
{
	const struct timespec times[] = { { st->stx_atime.tv_sec, st->stx_atime.tv_nsec },
					  { st->stx_mtime.tv_sec, st->stx_mtime.tv_nsec } };
	struct hold_path path;
	cleanup_fd int fd = open(hold_path(h, &path), O_RDWR | O_CLOEXEC);
	int done = fd < 0 ? result(fd) : 0;

	if (!done)
		done = size > there ? lengthen(fd, at, there, size) : (result(ftruncate(fd, (off_t)(at + size))) ?: 1);
	if (done > 0)
		futimens(fd, times);
	return done;
}

/* What the last page says that there is of it; 0: nothing. */
static size_t size_by_page(const struct hold *h, uint64_t at)
{
	uint8_t seal[SEALED_SEAL];
	struct hold_path path;
	cleanup_fd int fd = open(hold_path(h, &path), O_RDONLY | O_CLOEXEC);

	return fd >= 0 && pread(fd, seal, sizeof seal, (off_t)at) == sizeof seal ? sealed_page_size(seal) : 0;
}

/* A tenant can make as many of such files as he likes, and have them looked at again and again: the log has one a second, and the dump has all. */
static bool may_tell(struct brick *b)
{
	enum { SECOND_NS = 1000000000 };
	uint64_t now = clock_ns();
	uint_fast64_t last = atomic_load(&b->tail_told_ns);

	return (!last || now - last >= SECOND_NS) && atomic_compare_exchange_strong(&b->tail_told_ns, &last, now);
}

static void tell(struct xlator *x, const struct gfid *gfid, size_t there, size_t size, int done)
{
	char text[GFID_TEXT];

	atomic_fetch_add(done > 0 ? &brick_of(x)->tails_mended : &brick_of(x)->tails_odd, 1);
	if (!may_tell(brick_of(x)))
		return;
	if (done > 0)
		log_info(
			x, NULL,
			"%s had %zu bytes of its last page, which says that it has %zu: the length is mended, as after a power cut",
			gfid_text(gfid, text), there, size);
	else
		log_warning(x, NULL, "%s has %zu bytes of its last page, which says that it has %zu, and can't be mended: %s",
			    gfid_text(gfid, text), there, size, done ? strerror(-done) : "they are not there");
}

bool tail_mend(struct xlator *x, const struct hold *h, const struct statx *seen, const struct gfid *gfid)
{
	struct statx st;
	uint64_t at;
	size_t there, size;
	int done;

	/* Since it was seen it may have been in memory, been changed, and been forgotten again. */
	if (!S_ISREG(seen->stx_mode) || !seen->stx_size || is_sealed(h) <= 0 || hold_stat(h, &st) || !st.stx_size)
		return false;
	at = page_begin(st.stx_size);
	there = st.stx_size - at;
	size = there > SEALED_SEAL ? size_by_page(h, at) : 0;
	if (!size || size == there)
		return false;
	done = fit(h, at, there, size, &st);
	tell(x, gfid, there, size, done);
	return done > 0;
}

/* ---- order ---- */

static void born_from(struct object *o, uint64_t page, uint64_t syncs)
{
	pthread_mutex_lock(&o->lock);
	o->born_from = page;
	o->born_syncs = syncs;
	pthread_mutex_unlock(&o->lock);
}

static bool young(struct brick *b, struct object *o, uint64_t page)
{
	bool is;

	pthread_mutex_lock(&o->lock);
	is = o->born_from != TAIL_OLD && o->born_syncs == atomic_load(&b->syncs) && page >= o->born_from;
	pthread_mutex_unlock(&o->lock);
	return is;
}

void tail_header_set(struct object *o, const char *name)
{
	if (o && !strcmp(name, SEALED_HEADER_XATTR))
		atomic_store(&o->tail, TAIL_ASK);
}

/* Asked once: a file of another kind pays for no more. */
static bool is_plain(struct object *o, const struct hold *h)
{
	int state = atomic_load(&o->tail);

	if (state != TAIL_UNKNOWN)
		return state == TAIL_PLAIN;
	return !is_sealed(h) && atomic_compare_exchange_strong(&o->tail, &state, TAIL_PLAIN);
}

/* A page that is younger than each sync was promised to nobody, and a file of another kind has none that matter. */
int tail_goes_first(struct xlator *x, struct inode *inode, const struct hold *h, uint64_t end, uint64_t *edge)
{
	struct brick *b = brick_of(x);
	struct object *o = object_of(x, inode);
	uint64_t syncs = atomic_load(&b->syncs);
	struct statx st;
	int err;

	if (!o || is_plain(o, h) || young(b, o, 0))
		return 0;
	err = hold_stat(h, &st);
	if (err)
		return err;
	*edge = st.stx_size ? page_begin(st.stx_size) + SEALED_PAGE : 0;
	if (*edge && end <= *edge)
		return 0;
	if (*edge && young(b, o, *edge / SEALED_PAGE - 1))
		return 0;
	if (*edge && is_sealed(h))
		return 1;
	born_from(o, 0, syncs);
	return 0;
}

/* Written, and not only on its way: what comes behind it is made durable with a flush of the disk's cache, which takes it along. */
int tail_first(struct xlator *x, struct inode *inode, int fd, uint64_t edge)
{
	struct brick *b = brick_of(x);
	uint64_t syncs = atomic_load(&b->syncs);
	int err;

	task_blocks();
	err = result(sync_file_range(fd, (off_t)(edge - SEALED_PAGE), SEALED_PAGE,
				     SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER));
	if (err)
		return err;
	atomic_fetch_add(&b->tails_first, 1);
	born_from(object_of(x, inode), edge / SEALED_PAGE, syncs);
	return 0;
}

void tail_synced(struct xlator *x, struct inode *inode)
{
	struct object *o = object_of(x, inode);

	if (o)
		born_from(o, TAIL_OLD, 0);
}
