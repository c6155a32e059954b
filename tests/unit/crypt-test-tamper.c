/* SPDX-License-Identifier: Apache-2.0 */
/* A provider changes what it keeps: nothing wrong is ever read. Whole blocks cut off at the end are not seen (doc/crypt.md says so). */
#include "crypt-test.h"

#include "log.h"

enum { BLOCKS = 70, SIZE = BLOCKS * BLOCK - 1000, ROOM = (BLOCKS + 4) * PAGE };

struct victim {
	struct bed *bed;
	struct chance chance;
	struct gfid gfid, other;
	struct model contents, elsewhere;
	uint8_t whole[ROOM], foreign[ROOM], changed[ROOM];
	size_t size, changed_size, foreign_size;
};

static int make(struct bed *bed, const char *name, const struct model *m, struct gfid *gfid, uint8_t *raw, size_t *size)
{
	struct file *file;
	int err = tree_create(&bed->a, name, O_RDWR | O_EXCL, 0644, &file);

	if (err)
		return err;
	err = tree_write(&bed->a, file, 0, m->bytes, m->size);
	if (!err)
		err = tree_write(&bed->a, file, 5000, m->bytes + 5000, 20000);
	*gfid = file->inode->gfid;
	*size = ROOM;
	tree_release(&bed->a, file);
	return err ? err : raw_read(bed, gfid, raw, size);
}

static void flip(struct victim *v)
{
	v->changed[chance(&v->chance, v->size)] ^= (uint8_t)(1 << chance(&v->chance, 8));
}

static void swap(uint8_t *a, uint8_t *b, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		uint8_t kept = a[i];

		a[i] = b[i];
		b[i] = kept;
	}
}

/* With their seals. */
static void swap_blocks(struct victim *v)
{
	uint64_t a = chance(&v->chance, BLOCKS - 1), b = chance(&v->chance, BLOCKS - 1);

	swap(v->changed + page_at(a), v->changed + page_at(b), a == b ? 0 : PAGE);
}

static void take_foreign_block(struct victim *v)
{
	uint64_t a = chance(&v->chance, BLOCKS - 1);

	memcpy(v->changed + page_at(a), v->foreign + page_at(a), PAGE);
}

static void take_foreign_contents(struct victim *v)
{
	memcpy(v->changed, v->foreign, v->foreign_size);
}

static void cut_tail(struct victim *v)
{
	v->changed_size = v->size - 1 - chance(&v->chance, v->size - 1);
}

static void lengthen_tail(struct victim *v)
{
	v->changed_size = v->size + 1 + chance(&v->chance, 999);
}

static void zero_block(struct victim *v)
{
	uint64_t a = chance(&v->chance, BLOCKS - 1);
	size_t begin = chance(&v->chance, 2) ? SEAL : 0;

	memset(v->changed + page_at(a) + begin, 0, PAGE - begin);
}

static void write_noise(struct victim *v)
{
	size_t at = chance(&v->chance, v->size - 1), size = 1 + chance(&v->chance, v->size - at);

	fill(&v->chance, v->changed + at, size < 5000 ? size : 5000);
}

/* EIO, or the truth; and if less of it, then whole blocks. */
static bool is_refused_or_true(struct victim *v, struct file *file, uint64_t offset, size_t want)
{
	struct buffer *data = NULL;
	size_t size = 0;
	int err = tree_read(&v->bed->b, file, offset, want, &data);
	const void *bytes = err ? NULL : buffer_bytes(data, &size);
	size_t there = v->contents.size - offset < want ? v->contents.size - offset : want;
	bool right = err == -EIO || (!err && size <= there && !memcmp(bytes, v->contents.bytes + offset, size) &&
				     (size == there || (offset + size) % BLOCK == 0 || !size));

	if (!right)
		fprintf(stderr, "%zu bytes at %llu: %s, %zu bytes\n", want, (unsigned long long)offset, strerror(-err), size);
	buffer_unref(data);
	return right;
}

typedef void edit(struct victim *);
static edit *const edits[] = { flip,	 flip,		swap_blocks, take_foreign_block, take_foreign_contents,
			       cut_tail, lengthen_tail, zero_block,  write_noise };

static bool one_edit(struct victim *v, struct file *file, unsigned number)
{
	unsigned kind = (unsigned)chance(&v->chance, sizeof(edits) / sizeof(*edits));
	bool right;

	memcpy(v->changed, v->whole, ROOM);
	v->changed_size = v->size;
	edits[kind](v);
	right = !raw_write(v->bed, &v->gfid, v->changed, v->changed_size);
	if (number % 16 == 0)
		right = right && is_refused_or_true(v, file, 0, SIZE + 5000);
	for (int i = 0; i < 4; i++)
		right = right && is_refused_or_true(v, file, chance(&v->chance, SIZE), 1 + chance(&v->chance, 10000));
	right = right && is_refused_or_true(v, file, SIZE - 4000, 8000);
	if (!right)
		fprintf(stderr, "edit %u, of kind %u\n", number, kind);
	return right;
}

static int victim_make(struct victim *v)
{
	int err;

	v->contents.size = v->elsewhere.size = SIZE;
	fill(&v->chance, v->contents.bytes, SIZE);
	fill(&v->chance, v->elsewhere.bytes, SIZE);
	err = make(v->bed, "victim", &v->contents, &v->gfid, v->whole, &v->size);
	return err ? err : make(v->bed, "other", &v->elsewhere, &v->other, v->foreign, &v->foreign_size);
}

static void edit_often(struct victim *v)
{
	struct file *file;

	CHECK_INT(victim_make(v), 0);
	CHECK_INT(tree_open_file(&v->bed->b, "victim", O_RDONLY, &file), 0);
	CHECK_INT(is_refused_or_true(v, file, 0, SIZE), true);
	for (unsigned i = 0; i < 10000; i++)
		CHECK_INT(one_edit(v, file, i), true);
	CHECK_INT(raw_write(v->bed, &v->gfid, v->whole, v->size), 0);
	CHECK_INT(is_refused_or_true(v, file, 0, SIZE), true);
	tree_release(&v->bed->b, file);
}

void tampering_is_refused(void *bed)
{
	struct victim *v = calloc(1, sizeof(*v));

	v->bed = bed;
	v->chance.state = seed_of_run(3);
	log_open("/dev/null");
	edit_often(v);
	log_open("/dev/stderr");
	free(v);
}

/* ---- headers ---- */

static int get_header(struct victim *v, const struct gfid *gfid, uint8_t *bytes)
{
	cleanup_inode struct inode *inode = inode_get(v->bed->brick.graph->inodes, gfid, S_IFREG);
	struct getxattr_in in = { .inode = inode, .name = (char *)HEADER_XATTR };
	struct getxattr_out out = { 0 };
	int err = tree_call(&v->bed->brick, v->bed->brick.at, FOP_getxattr, &in, &out);

	if (!err)
		memcpy(bytes, out.value.bytes, HEADER_SIZE);
	fop_out_clear(FOP_getxattr, &out);
	return err;
}

/* The node that knew the right header goes with the last reference to its inode. */
static void is_refused(struct victim *v, const uint8_t *header, size_t size)
{
	struct buffer *data = NULL;
	struct file *file;

	CHECK_INT(raw_header(v->bed, &v->gfid, header, size), 0);
	CHECK_INT(tree_open_file(&v->bed->b, "victim", O_RDWR, &file), 0);
	CHECK_INT(tree_read(&v->bed->b, file, 0, 100, &data), -EIO);
	CHECK_INT(tree_write(&v->bed->b, file, 10, "x", 1), -EIO);
	tree_release(&v->bed->b, file);
	task_sleep_ms(60); /* until the lock was given back: that keeps the inode */
}

static void try_headers(struct victim *v)
{
	uint8_t right[HEADER_SIZE], foreign[HEADER_SIZE], changed[HEADER_SIZE];

	CHECK_INT(victim_make(v), 0);
	task_sleep_ms(100);
	CHECK_INT(get_header(v, &v->gfid, right), 0);
	CHECK_INT(get_header(v, &v->other, foreign), 0);
	is_refused(v, foreign, HEADER_SIZE);
	is_refused(v, right, HEADER_SIZE - 1);
	is_refused(v, right, 0);
	for (unsigned i = 0; i < HEADER_SIZE && !failures; i += i < 12 ? 1 : 7) {
		memcpy(changed, right, HEADER_SIZE);
		changed[i] ^= i == 5 ? 3 : 1; /* version, cipher, flags, epoch: what a downgrade would change */
		is_refused(v, changed, HEADER_SIZE);
	}
	CHECK_INT(raw_header(v->bed, &v->gfid, right, HEADER_SIZE), 0);
}

void foreign_headers_are_refused(void *bed)
{
	struct victim *v = calloc(1, sizeof(*v));

	v->bed = bed;
	v->chance.state = 5;
	log_open("/dev/null");
	try_headers(v);
	log_open("/dev/stderr");
	free(v);
}

/* A mount that knows the file's key looks at the header again for a block of zeros. What it finds is told as at first: with a line, and as EIO, or
 * ENOKEY if the header may be right. */
static void reads_as(struct victim *v, struct file *file, const uint8_t *header, int err, unsigned refused)
{
	struct buffer *data = NULL;
	unsigned before = bed_refused(v->bed);

	CHECK_INT(raw_header(v->bed, &v->gfid, header, HEADER_SIZE), 0);
	CHECK_INT(tree_read(&v->bed->a, file, 3 * BLOCK, 100, &data), err);
	CHECK_INT(bed_refused(v->bed) - before, refused);
	buffer_unref(data);
}

static void try_later_headers(struct victim *v)
{
	uint8_t right[HEADER_SIZE], changed[HEADER_SIZE];
	struct file *file;

	CHECK_INT(victim_make(v), 0);
	CHECK_INT(get_header(v, &v->gfid, right), 0);
	CHECK_INT(tree_open_file(&v->bed->a, "victim", O_RDONLY, &file), 0);
	memset(v->whole + page_at(3), 0, PAGE);
	CHECK_INT(raw_write(v->bed, &v->gfid, v->whole, v->size), 0);
	memcpy(changed, right, HEADER_SIZE);
	changed[4] = 1; /* the version before */
	reads_as(v, file, changed, -EIO, 1);
	memcpy(changed, right, HEADER_SIZE);
	changed[11] = 60; /* the epoch */
	reads_as(v, file, changed, -ENOKEY, 0);
	reads_as(v, file, right, -EIO, 1);
	tree_release(&v->bed->a, file);
}

void a_header_that_changes_later_is_told(void *bed)
{
	struct victim *v = calloc(1, sizeof(*v));

	v->bed = bed;
	v->chance.state = 5;
	log_open("/dev/null");
	try_later_headers(v);
	log_open("/dev/stderr");
	free(v);
}

/* ---- the format before ---- */

static int cut(struct victim *v, struct file *file, uint64_t size)
{
	struct deed d = { .kind = DEED_TRUNCATE, .offset = size };

	return deed_do(&v->bed->b, file, &d);
}

/* Nobody has files of that format but who has made them with what was never released: they stay as they are. */
static void is_refused_and_kept(struct victim *v, const char *name, const struct gfid *gfid)
{
	uint8_t header[HEADER_SIZE], after[HEADER_SIZE];
	struct buffer *data = NULL;
	struct file *file;
	size_t size = ROOM, now = ROOM;

	CHECK_INT(get_header(v, gfid, header), 0);
	header[4] = 1;
	CHECK_INT(raw_header(v->bed, gfid, header, HEADER_SIZE), 0);
	CHECK_INT(raw_read(v->bed, gfid, v->whole, &size), 0);
	CHECK_INT(tree_open_file(&v->bed->b, name, O_RDWR, &file), 0);
	CHECK_INT(tree_read(&v->bed->b, file, 0, 100, &data), -EIO);
	CHECK_INT(tree_write(&v->bed->b, file, 0, v->contents.bytes, 2 * BLOCK), -EIO);
	CHECK_INT(cut(v, file, 0), -EIO);
	CHECK_INT(cut(v, file, 100), -EIO);
	CHECK_INT(cut(v, file, SIZE + 5000), -EIO);
	for (int kind = DEED_PUNCH; kind < DEEDS; kind++)
		CHECK_INT(deed_do(&v->bed->b, file, &(struct deed){ .kind = kind, .offset = 4, .size = 3 * BLOCK }), -EIO);
	tree_release(&v->bed->b, file);
	CHECK_INT(tree_open_file(&v->bed->b, name, O_RDWR | O_TRUNC, &file), -EIO);
	CHECK_INT(raw_read(v->bed, gfid, v->changed, &now), 0);
	CHECK_INT(now == size && !memcmp(v->changed, v->whole, size), true);
	CHECK_INT(get_header(v, gfid, after), 0);
	CHECK_INT(memcmp(header, after, HEADER_SIZE), 0);
}

void the_format_before_is_refused_and_kept(void *bed)
{
	struct victim *v = calloc(1, sizeof(*v));
	struct file *file;

	v->bed = bed;
	v->chance.state = 5;
	log_open("/dev/null");
	CHECK_INT(victim_make(v), 0);
	is_refused_and_kept(v, "victim", &v->gfid);
	CHECK_INT(tree_create(&v->bed->a, "empty", O_RDWR | O_EXCL, 0644, &file), 0);
	v->other = file->inode->gfid;
	tree_release(&v->bed->a, file);
	is_refused_and_kept(v, "empty", &v->other);
	log_open("/dev/stderr");
	free(v);
}

/* A write that ends in a block that was changed: the parts before it are written, the log and the count tell of it, and the next write is EIO. */
void tampering_behind_a_part_is_told(void *arg)
{
	enum { END = 450 }; /* the first MiB is by itself, and with its beginning a page is opened */
	static uint8_t bytes[END * BLOCK + 10], raw[(END + 1) * PAGE];
	struct bed *bed = arg;
	struct write_in in = { 0 };
	struct write_out out = { 0 };
	size_t size = sizeof(raw);

	log_open("/dev/null");
	CHECK_INT(tree_create(&bed->b, "behind", O_RDWR | O_EXCL, 0644, &in.file), 0);
	CHECK_INT(tree_write(&bed->b, in.file, 0, bytes, sizeof(bytes)), 0);
	CHECK_INT(raw_read(bed, &in.file->inode->gfid, raw, &size), 0);
	raw[page_at(END) + SEAL] ^= 1;
	CHECK_INT(raw_write(bed, &in.file->inode->gfid, raw, size), 0);
	in.data = buffer_from(bytes, sizeof(bytes) - 2);
	in.offset = 1;
	CHECK_INT(tree_call(&bed->a, bed->a.at, FOP_write, &in, &out), 0);
	CHECK_INT(out.written > 0 && out.written < END * BLOCK, true);
	CHECK_INT(bed_refused(bed), 1);
	CHECK_INT(tree_write(&bed->a, in.file, END * BLOCK, bytes, 1), -EIO);
	CHECK_INT(bed_refused(bed), 2);
	buffer_unref(in.data);
	tree_release(&bed->a, in.file);
	log_open("/dev/stderr");
}
