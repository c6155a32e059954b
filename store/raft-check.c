/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at the log before libraft does, which cuts an open segment off at the first entry that does not fit its checksum, whatever
 * comes behind it: right after a crash, wrong if the disk has damaged what was acknowledged (doc/cluster.md, "A damaged log").
 *
 * The files (libraft 0.15 to 0.18): `FIRST-LAST`, a closed segment, has just these entries; `open-N` is written to, in the order of N,
 * and is zeros behind its last entry; `snapshot-TERM-INDEX-TIME` and its `.meta`. A segment, in little-endian words:
 *
 *   1 format: 1; or 2, and then the index of the first entry
 *   then batches: CRC-32 of the header, CRC-32 of the data (4 bytes each); the header: how many entries, for each its term, kind (1 byte,
 *   3 unused), size (4 bytes); the data
 *
 * Each write begins with the block that the one before ended in, and the next one waits for it. So a crash damages batches of the last
 * write only, and there each sector is what was there (zeros) or what was to be. */
#include "raft-check.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "raft-mark.h"

enum { SECTOR = 512, WORD = 8, PREAMBLE = 2 * WORD, PER_ENTRY = 2 * WORD, NAME_BYTES = 128 };

struct segment {
	char name[NAME_BYTES];
	uint64_t first, last; /* of a closed one */
	uint64_t counter;     /* of an open one; 0: it is closed */
	bool is_unused;	      /* it is open, and no entry of it is whole */
};
struct files {
	struct segment *segment; /* closed ones by their entries, then the open ones */
	size_t segments, closed;
	uint64_t snapshot; /* what the newest one ends with; 0: there is none */
};
struct content {
	unsigned char *byte;
	size_t size;
};

/* ---- what is there ---- */

static int add_segment(struct files *f, const struct segment *s)
{
	struct segment *grown = realloc(f->segment, (f->segments + 1) * sizeof *grown);

	if (!grown)
		return -ENOMEM;
	f->segment = grown;
	f->segment[f->segments++] = *s;
	f->closed += !s->counter;
	return 0;
}

/* By an older version, and it may have been no more than a write that a power cut has torn. What went with it has gone since: who does not start for it brings nothing back. */
static int tell_of_what_was_put_aside(const char *name)
{
	log_warning(
		NULL, NULL,
		"%.80s in the directory of the shared store was put aside as damaged by an older version: this server may have forgotten then what "
		"it had acknowledged; look whether the specifications are as they should be, then move that file away",
		name);
	return 0;
}

static int note_file(struct files *f, int directory, const char *name, struct problem *p)
{
	unsigned long long a, b, c;
	struct segment s = { .counter = 0 };
	struct stat st;
	int end = 0;

	if (!strncmp(name, "corrupt-", strlen("corrupt-")))
		return tell_of_what_was_put_aside(name);
	snprintf(s.name, sizeof s.name, "%.100s", name);
	if (sscanf(name, "snapshot-%llu-%llu-%llu%n", &a, &b, &c, &end) == 3 && end && !name[end]) {
		char meta[NAME_BYTES];

		snprintf(meta, sizeof meta, "%.100s.meta",
			 name); /* without it, or empty: a crash, and libraft passes over it */
		if (!fstatat(directory, meta, &st, 0) && !fstatat(directory, name, &st, 0) && st.st_size && b > f->snapshot)
			f->snapshot = b;
		return 0;
	}
	if (sscanf(name, "open-%llu%n", &a, &end) == 1 && end && !name[end])
		s.counter = a;
	else if (sscanf(name, "%llu-%llu%n", &a, &b, &end) == 2 && end && !name[end])
		s.first = a, s.last = b;
	else
		return 0;
	return s.counter || s.first ? add_segment(f, &s) : problem_set(p, EINVAL, "%.80s is no segment's name", name);
}

static int in_order(const void *one, const void *other)
{
	const struct segment *a = one, *b = other;

	if (!a->counter != !b->counter)
		return a->counter ? 1 : -1;
	if (a->counter)
		return a->counter < b->counter ? -1 : 1;
	if (a->first != b->first)
		return a->first < b->first ? -1 : 1;
	return a->last < b->last ? -1 : 1;
}

static int list_files(struct files *f, int directory, struct problem *p)
{
	int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = 0;
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (!list) {
		err = problem_set(p, errno, "it can't be listed: %m");
		if (fd >= 0)
			close(fd);
		return err;
	}
	while (!err && (errno = 0, d = readdir(list)))
		err = note_file(f, directory, d->d_name, p);
	if (!err && errno)
		err = problem_set(p, errno, "it can't be listed: %m");
	closedir(list);
	if (f->segments)
		qsort(f->segment, f->segments, sizeof *f->segment, in_order);
	return err;
}

static int content_read(struct content *c, int directory, const char *name, struct problem *p)
{
	int fd = openat(directory, name, O_RDONLY | O_CLOEXEC), err = 0;
	struct stat st;

	*c = (struct content){ NULL, 0 };
	if (fd < 0 || fstat(fd, &st))
		err = problem_set(p, errno, "%s can't be opened: %m", name);
	if (!err) {
		c->byte = malloc((size_t)st.st_size + 1);
		err = c->byte ? 0 : -ENOMEM;
	}
	while (!err && c->size < (size_t)st.st_size) {
		ssize_t got = pread(fd, c->byte + c->size, (size_t)st.st_size - c->size, (off_t)c->size);

		if (got <= 0)
			err = problem_set(p, got ? errno : EIO, "%s can't be read at byte %zu: %s", name, c->size,
					  got ? strerror(errno) : "it ends there");
		else
			c->size += (size_t)got;
	}
	if (fd >= 0)
		close(fd);
	return err;
}

static bool is_zero(const struct content *c, size_t from, size_t to)
{
	const unsigned char *at = c->byte + from;

	to = to < c->size ? to : c->size;
	return from >= to || (!*at && !memcmp(at, at + 1, to - from - 1));
}

/* ---- batches ---- */

static uint64_t word_at(const struct content *c, size_t at)
{
	uint64_t word;

	memcpy(&word, c->byte + at, sizeof word);
	return le64toh(word);
}

static uint32_t half_at(const struct content *c, size_t at)
{
	uint32_t half;

	memcpy(&half, c->byte + at, sizeof half);
	return le32toh(half);
}

/* Of the polynomial of ISO 3309, the highest bit first; it begins with 0. */
static uint32_t crc32_of(const unsigned char *byte, size_t size)
{
	uint32_t table[256], crc = 0;

	for (uint32_t i = 0; i < 256; i++) {
		table[i] = i << 24;
		for (int k = 0; k < 8; k++)
			table[i] = table[i] << 1 ^ (table[i] >> 31 ? 0x04c11db7 : 0);
	}
	for (size_t i = 0; i < size; i++)
		crc = crc << 8 ^ table[crc >> 24 ^ byte[i]];
	return crc;
}

struct batch {
	size_t at, header_end, end; /* 0: that can't be known */
	uint64_t entries;
	const char *wrong; /* NULL: it is whole */
	bool cut;	   /* the file is too short for it */
};

static void read_batch(const struct content *c, size_t at, struct batch *b)
{
	size_t left = c->size - at, data = 0;

	*b = (struct batch){ .at = at, .wrong = "the file ends within an entry", .cut = true };
	if (left < PREAMBLE)
		return;
	b->cut = false;
	b->entries = word_at(c, at + WORD);
	if (!b->entries || b->entries > (left - PREAMBLE) / PER_ENTRY) {
		b->wrong = "there is no number of entries";
		return;
	}
	b->header_end = at + PREAMBLE + b->entries * PER_ENTRY;
	b->wrong = "a header does not fit its checksum";
	if (crc32_of(c->byte + at + WORD, b->header_end - at - WORD) != half_at(c, at))
		return;
	for (size_t e = at + PREAMBLE; e < b->header_end; e += PER_ENTRY)
		data += half_at(c, e + WORD + 4);
	b->wrong = "the file ends within an entry";
	b->cut = data > c->size - b->header_end;
	if (b->cut)
		return;
	b->end = b->header_end + data;
	b->wrong = "an entry does not fit its checksum";
	if (crc32_of(c->byte + b->header_end, data) == half_at(c, at + 4))
		b->wrong = NULL;
}

/* Has a crash left out a sector of it? Where the batch ends is not known if its header is among them: then up to what was written. */
static bool lacks_a_sector(const struct content *c, const struct batch *b)
{
	size_t end = b->end;

	if (!end) {
		for (end = c->size; end > b->at && !c->byte[end - 1];)
			end--;
		end = (end + SECTOR - 1) / SECTOR * SECTOR;
		end = end > b->header_end ? end : b->header_end;
		end = end > b->at + PREAMBLE ? end : b->at + PREAMBLE;
	}
	end = end < c->size ? end : c->size;
	for (size_t s = b->at; s < end; s = s / SECTOR * SECTOR + SECTOR)
		if (is_zero(c, s, s / SECTOR * SECTOR + SECTOR))
			return true;
	return false;
}

/* ---- segments ---- */

struct walked {
	uint64_t first, entries; /* first: of the second format; else 0 */
	size_t size;		 /* up to where the batches are whole */
	struct batch batch;	 /* what is behind them, if that is not only zeros; else wrong is NULL */
};

static int walk(const struct content *c, const char *name, struct walked *w, struct problem *p)
{
	uint64_t format = c->size < WORD ? 0 : word_at(c, 0);

	*w = (struct walked){ .entries = 0 };
	if (is_zero(c, 0, c->size))
		return 0;
	if (format != 1 && format != 2)
		return problem_set(p, EINVAL, "%s does not begin as a segment does", name);
	if (c->size < format * WORD)
		return problem_set(p, EINVAL, "%s ends within its header", name);
	w->first = format == 2 ? word_at(c, WORD) : 0;
	w->size = format * WORD;
	while (!is_zero(c, w->size, c->size)) {
		read_batch(c, w->size, &w->batch);
		if (w->batch.wrong)
			return 0;
		w->entries += w->batch.entries;
		w->size = w->batch.end;
	}
	return 0;
}

static int damaged(const struct segment *s, const struct batch *b, struct problem *p)
{
	return problem_set(p, EINVAL, "%s is damaged at byte %zu: %s", s->name, b->at, b->wrong);
}

static int check_closed(const struct segment *s, int directory, struct problem *p)
{
	struct content c;
	struct walked w;
	int err = content_read(&c, directory, s->name, p);

	if (!err)
		err = walk(&c, s->name, &w, p);
	if (!err && w.batch.wrong)
		err = damaged(s, &w.batch, p);
	if (!err && w.size != c.size)
		err = problem_set(p, EINVAL, "%s is damaged at byte %zu: there are zeros", s->name, w.size);
	if (!err && (s->last < s->first || w.entries != s->last - s->first + 1 || (w.first && w.first != s->first)))
		err = problem_set(p, EINVAL, "%s does not have the entries of its name", s->name);
	free(c.byte);
	return err;
}

/* *next: the index of the entry behind them. */
static int check_all_closed(const struct files *f, int directory, uint64_t *next, struct problem *p)
{
	uint64_t from = f->snapshot + 1; /* at the latest: what the snapshot does not have */
	size_t i = f->closed;
	int err = 0;

	*next = from;
	for (size_t k = 0; k < f->closed && !err; k++)
		err = check_closed(&f->segment[k], directory, p);
	if (err || !f->closed)
		return err;
	while (--i && f->segment[i - 1].last + 1 == f->segment[i].first)
		;
	if (f->segment[i].first > from)
		return problem_set(p, EINVAL, "the entries %" PRIu64 " to %" PRIu64 " are missing", from,
				   f->segment[i].first - 1);
	*next = f->segment[f->closed - 1].last + 1;
	return 0;
}

struct opened {
	uint64_t next, counter; /* of the last one that has entries */
	const char *torn;	/* the one that a crash may have torn */
	const char *blank;	/* one without entries */
};

/* The first write to a segment, of which a crash has left out the sector that the header is in. */
static bool lacks_its_header(const struct content *c)
{
	return c->size > SECTOR && is_zero(c, 0, SECTOR) && !is_zero(c, SECTOR, c->size);
}

static int check_open(struct segment *s, int directory, struct opened *o, struct problem *p)
{
	struct content c;
	struct walked w = { .entries = 0 };
	int err = content_read(&c, directory, s->name, p);

	if (!err && lacks_its_header(&c))
		c.size = 0; /* nothing of it was acknowledged, so it is as one that was only made */
	if (!err)
		err = walk(&c, s->name, &w, p);
	s->is_unused = !w.entries;
	if (!err && !w.size) {
		o->blank = o->blank ? o->blank : s->name;
	} else if (!err) {
		if (o->torn || o->blank)
			err = problem_set(p, EINVAL, "%s lacks entries, but %s has been written behind it",
					  o->torn ? o->torn : o->blank, s->name);
		else if (o->counter && s->counter != o->counter + 1)
			err = problem_set(p, EINVAL, "open-%" PRIu64 " is missing", o->counter + 1);
		else if (w.first && w.first != o->next)
			err = problem_set(p, EINVAL, "the entries %" PRIu64 " to %" PRIu64 ", before %s, are missing", o->next,
					  w.first - 1, s->name);
		else if (w.batch.wrong && (w.batch.cut || !lacks_a_sector(&c, &w.batch)))
			err = damaged(s, &w.batch, p);
		o->torn = w.batch.wrong ? s->name : NULL;
		o->counter = s->counter;
		o->next += w.entries;
	}
	free(c.byte);
	return err;
}

/* Libraft removes them, too, but stumbles first: over one without its header; and beside any of them over closed segments that end before a snapshot which was just
 * installed, for it would pass over these only if there were no open ones. */
static void remove_unused(const struct files *f, int directory)
{
	for (size_t i = f->closed; i < f->segments; i++)
		if (f->segment[i].is_unused)
			unlinkat(directory, f->segment[i].name, 0);
}

int raft_check(int directory, struct problem *p)
{
	struct files f = { .segment = NULL };
	struct opened o = { .counter = 0 };
	uint64_t mark = 0;
	int err = list_files(&f, directory, p);

	if (!err)
		err = raft_mark_read(directory, &mark, p);
	if (!err)
		err = check_all_closed(&f, directory, &o.next, p);
	for (size_t i = f.closed; i < f.segments && !err; i++)
		err = check_open(&f.segment[i], directory, &o, p);
	if (!err && (o.next ? o.next - 1 : 0) < mark && f.snapshot < mark)
		err = problem_set(p, EINVAL, "it ends with entry %" PRIu64 ", but went to %" PRIu64 " at least",
				  o.next > f.snapshot ? o.next - 1 : f.snapshot, mark);
	if (!err)
		remove_unused(&f, directory);
	free(f.segment);
	return err;
}
