/* SPDX-License-Identifier: Apache-2.0 */
/* Two slots, written in turn, each within a sector: a crash leaves one of them whole.
 *
 *   0  "stratusM"
 *   8  the index, little-endian
 *  16  FNV-1a (64 bits) of these 16 bytes */
#include "raft-mark.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "log.h"

enum { SLOTS = 2, SLOT_STEP = 4096 };
static const char magic[8] = "stratusM";
struct slot {
	char magic[8];
	uint64_t index, check;
};

static uint64_t check_of(const struct slot *s)
{
	const unsigned char *byte = (const unsigned char *)s;
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < offsetof(struct slot, check); i++)
		hash = (hash ^ byte[i]) * 0x100000001b3;
	return hash;
}

static bool slot_read(int fd, unsigned number, uint64_t *index, bool *empty)
{
	static const struct slot zero;
	struct slot s = { "", 0, 0 };
	ssize_t got = pread(fd, &s, sizeof s, (off_t)number * SLOT_STEP);

	*empty = got >= 0 && !memcmp(&s, &zero, sizeof s);
	*index = le64toh(s.index);
	return got == sizeof s && !memcmp(s.magic, magic, sizeof magic) && le64toh(s.check) == check_of(&s);
}

static int slot_write(int fd, unsigned number, uint64_t index)
{
	struct slot s = { .index = htole64(index) };
	ssize_t put;

	memcpy(s.magic, magic, sizeof magic);
	s.check = htole64(check_of(&s));
	put = pwrite(fd, &s, sizeof s, (off_t)number * SLOT_STEP);
	if (put < 0 || fdatasync(fd))
		return -errno;
	return put == sizeof s ? 0 : -EIO;
}

/* False: neither slot can be read, and that is not because none was ever written. */
static bool slots_read(int fd, uint64_t *index, unsigned *slot)
{
	bool found = false, all_empty = true;

	*index = 0;
	*slot = 0;
	for (unsigned i = 0; i < SLOTS; i++) {
		uint64_t said;
		bool empty, good = slot_read(fd, i, &said, &empty);

		all_empty &= empty;
		if (!good || (found && said <= *index))
			continue;
		found = true;
		*index = said;
		*slot = i;
	}
	return found || all_empty;
}

int raft_mark_read(int directory, uint64_t *index, struct problem *p)
{
	int fd = openat(directory, "mark", O_RDONLY | O_CLOEXEC);
	unsigned slot;
	bool good;

	*index = 0;
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return problem_set(p, errno, "mark, which says how long the log is, can't be opened: %m");
	good = slots_read(fd, index, &slot);
	close(fd);
	return good ? 0 : problem_set(p, EINVAL, "mark, which says how long the log is, does not fit its checksums");
}

int raft_mark_open(struct raft_mark *m, int directory, struct problem *p)
{
	m->fd = openat(directory, "mark", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (m->fd < 0 || fsync(directory))
		return problem_set(p, errno, "the file `mark` of a shared store can't be made: %m");
	slots_read(m->fd, &m->index, &m->slot);
	return 0;
}

static void write_next(uv_work_t *work)
{
	struct raft_mark *m = work->data;

	m->err = slot_write(m->fd, !m->slot, m->next);
}

/* It is told once, and no more is written: the store needs none of it, it only finds damage better with it. */
static void note_written(struct raft_mark *m)
{
	if (m->err) {
		log_warning(NULL, NULL, "the mark of the shared store's log can't be written (%s): see to the disk",
			    strerror(-m->err));
		close(m->fd);
		m->fd = -1;
		return;
	}
	m->slot = !m->slot;
	m->index = m->next;
}

static void written(uv_work_t *work, int status)
{
	struct raft_mark *m = work->data;

	m->busy = false;
	if (!status)
		note_written(m);
}

void raft_mark_raise(struct raft_mark *m, uv_loop_t *loop, uint64_t index)
{
	if (m->fd < 0 || m->busy || index <= m->index)
		return;
	m->next = index;
	m->work.data = m;
	m->busy = !uv_queue_work(loop, &m->work, write_next, written);
}

void raft_mark_close(struct raft_mark *m, uint64_t index)
{
	if (m->fd < 0)
		return;
	m->next = index;
	if (index > m->index)
		m->err = slot_write(m->fd, !m->slot, index);
	if (m->err)
		log_warning(NULL, NULL, "the mark of the shared store's log can't be written (%s): see to the disk",
			    strerror(-m->err));
	close(m->fd);
	m->fd = -1;
}
