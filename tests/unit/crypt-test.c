/* SPDX-License-Identifier: Apache-2.0 */
/* encryption/crypt over a brick in memory: a file is what a plain array of bytes would be, whatever is done to it, by one client or two. */
#include "crypt-test.h"

#include <sys/xattr.h>

#include "keyfile.h"
#include "secret.h"

int failures;

/* ---- the bed ---- */

static void make_keyfile(struct bed *bed)
{
	static struct keyfile k;
	struct masters *m;
	struct problem p = { "" };
	char path[128];
	FILE *f;

	test_directory(bed->directory, sizeof(bed->directory), "crypt-test");
	snprintf(path, sizeof(path), "%s/secret", bed->directory);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs("any bytes will do", f);
	fclose(f);
	assert_int_equal(keyfile_create(&k, &m, &p), 0);
	assert_int_equal(keyfile_add(&k, m, SLOT_KEYFILE, "test", "any bytes will do", 17, &p), 0);
	snprintf(path, sizeof(path), "%s/key", bed->directory);
	assert_int_equal(keyfile_write(path, &k, true, &p), 0);
	snprintf(path, sizeof(path), "%s/key-newer", bed->directory);
	assert_int_equal(keyfile_rotate(&k, m, &p), 0);
	assert_int_equal(keyfile_write(path, &k, true, &p), 0);
	secret_free(m, sizeof(*m));
}

static struct tree tree_at(const struct bed *bed, const char *volume)
{
	struct tree t = bed->a;

	t.at = tree_find(&t, volume);
	return t;
}

void bed_make(struct bed *bed, const char *options)
{
	struct problem p = { "" };
	char text[4096], crypt[1024];

	make_keyfile(bed);
	snprintf(crypt, sizeof(crypt), "type encryption/crypt\noption secret-file %s/secret\n%soption key-file %s/key",
		 bed->directory, options, bed->directory);
	snprintf(text, sizeof(text),
		 "volume memory\ntype debug/memory\nend-volume\n"
		 "volume locks\ntype features/locks\nsubvolumes memory\nend-volume\n"
		 "volume hold\ntype debug/hold\nsubvolumes locks\nend-volume\n"
		 "volume tear\ntype test/tear\nsubvolumes hold\nend-volume\n"
		 "volume lie\ntype test/lie\nsubvolumes tear\nend-volume\n"
		 "volume A\n%s\nsubvolumes lie\nend-volume\n"
		 "volume B\n%s\nsubvolumes locks\nend-volume\n"
		 "volume newer\n%s-newer\nsubvolumes locks\nend-volume\n"
		 "volume top\ntype test/tear\nsubvolumes A B newer\nend-volume\n",
		 crypt, crypt, crypt);
	if (tree_open(&bed->a, text, &p))
		fail_msg("%s", p.text);
	bed->client = (struct client){ .id = { 1 }, .incarnation = 1, .name = "A", .refs = 1 };
	bed->b = tree_at(bed, "B");
	bed->newer = tree_at(bed, "newer");
	bed->brick = tree_at(bed, "memory");
	bed->a.at = tree_find(&bed->a, "A");
	bed->a.client = &bed->client;
	bed->tear = tree_find(&bed->a, "tear");
	bed->lie = tree_find(&bed->a, "lie");
	bed->locks = tree_find(&bed->a, "locks");
}

void bed_end(struct bed *bed)
{
	char command[128];

	tree_close(&bed->a);
	snprintf(command, sizeof(command), "rm -r %s", bed->directory);
	assert_int_equal(system(command), 0);
}

static unsigned command(struct xlator *to, int argc, char **argv)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	unsigned sent;

	to->type->command(to, argc, argv, f);
	fclose(f);
	sent = (unsigned)atoi(text);
	free(text);
	return sent;
}

static unsigned dumped(struct bed *bed, const char *key)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	const char *at;
	unsigned number;

	bed->a.at->type->dump(bed->a.at, f);
	fclose(f);
	at = strstr(text, key);
	assert_non_null(at);
	number = (unsigned)atoi(at + strlen(key));
	free(text);
	return number;
}

unsigned bed_locks(struct bed *bed)
{
	return dumped(bed, "locks taken: ");
}

unsigned bed_refused(struct bed *bed)
{
	return dumped(bed, "refused as changed: ");
}

void bed_lie(struct bed *bed, const char *what, int value)
{
	char text[16], *argv[] = { (char *)what, text, NULL };

	snprintf(text, sizeof(text), "%d", value);
	command(bed->lie, 2, argv);
}

unsigned bed_count(struct bed *bed, const char *what)
{
	char *argv[] = { (char *)"count", (char *)what, NULL };

	return command(bed->lie, 2, argv);
}

void bed_cut(struct bed *bed, unsigned messages, unsigned pages)
{
	char left[16], most[16], *argv[] = { (char *)"cut", left, most, NULL };

	snprintf(left, sizeof(left), "%u", messages);
	snprintf(most, sizeof(most), "%u", pages);
	command(bed->tear, 3, argv);
}

unsigned bed_heal(struct bed *bed)
{
	char *argv[] = { (char *)"end", NULL };

	bed->locks->type->client_gone(bed->locks, &bed->client);
	bed->client.incarnation++;
	return command(bed->tear, 1, argv);
}

/* ---- chance ---- */

uint64_t chance(struct chance *c, uint64_t below)
{
	uint64_t z = c->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (z ^ z >> 31) % below;
}

uint64_t seed_of_run(uint64_t preset)
{
	const char *given = getenv("SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : preset;

	fprintf(stderr, "SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

void fill(struct chance *c, uint8_t *to, size_t size)
{
	for (size_t at = 0; at < size; at += 8) { /* eight at once: with a sanitizer each step is dear */
		uint64_t z = chance(c, UINT64_MAX) | 0x0101010101010101;

		memcpy(to + at, &z, size - at < 8 ? size - at : 8);
	}
}

void model_copy(struct model *to, const struct model *from)
{
	memcpy(to->bytes, from->bytes, from->size);
	if (to->size > from->size)
		memset(to->bytes + from->size, 0, to->size - from->size);
	to->size = from->size;
}

/* ---- deeds ---- */

/* Near the edges of blocks and of pages, where mistakes live. */
static uint64_t choose_offset(struct chance *c, uint64_t below)
{
	static const uint64_t units[] = { 1, 100, BLOCK, BLOCK, PAGE };
	uint64_t unit = units[chance(c, 5)], at = chance(c, below / unit + 1) * unit;

	if (chance(c, 3) == 0)
		at += chance(c, 3) - 1;
	return at < below ? at : below;
}

struct deed deed_choose(struct chance *c, const struct model *m)
{
	struct deed d = { .kind = (int)chance(c, DEEDS) };
	static const uint64_t sizes[] = { 6000, 6000, 300000, 1 << 20 };
	uint64_t most = sizes[chance(c, 4)];

	if (chance(c, 3) == 0)
		d.kind = DEED_WRITE;
	d.offset = choose_offset(c, chance(c, 4) ? m->size : BED_MOST - 1);
	if (d.kind == DEED_APPEND)
		d.offset = m->size;
	d.size = 1 + choose_offset(c, most);
	if (d.size > BED_MOST - d.offset)
		d.size = BED_MOST - d.offset;
	if (!d.size)
		d.kind = DEED_TRUNCATE;
	if (d.kind == DEED_WRITE || d.kind == DEED_APPEND) {
		d.bytes = malloc(d.size);
		fill(c, d.bytes, d.size);
	}
	return d;
}

const char *deed_name(const struct deed *d)
{
	static const char *const names[] = { "write", "append", "truncate", "punch", "zero", "allocate" };

	return names[d->kind];
}

static int append(struct tree *t, struct file *file, const struct deed *d)
{
	struct write_in in = { .file = file, .flags = WRITE_APPEND, .data = buffer_from(d->bytes, d->size) };
	struct write_out out = { 0 };
	int err = tree_call(t, t->at, FOP_write, &in, &out);

	buffer_unref(in.data);
	return err ? err : out.written == d->size && out.offset == d->offset ? 0 : -EIO;
}

static int truncate_to(struct tree *t, struct file *file, uint64_t size)
{
	struct setattr_in in = { .inode = file->inode, .file = file, .set = { .valid = SET_SIZE, .size = size } };
	struct setattr_out out = { 0 };
	int err = tree_call(t, t->at, FOP_setattr, &in, &out);

	return err ? err : out.attr.size == size ? 0 : -EIO;
}

int deed_do(struct tree *t, struct file *file, const struct deed *d)
{
	static const uint32_t modes[DEEDS] = {
		[DEED_PUNCH] = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, [DEED_ZERO] = FALLOC_FL_ZERO_RANGE
	};
	struct fallocate_in in = { .file = file, .mode = modes[d->kind], .offset = d->offset, .length = d->size };
	struct fallocate_out out = { 0 };

	switch (d->kind) {
	case DEED_WRITE:
		return tree_write(t, file, d->offset, d->bytes, d->size);
	case DEED_APPEND:
		return append(t, file, d);
	case DEED_TRUNCATE:
		return truncate_to(t, file, d->offset);
	default:
		return tree_call(t, t->at, FOP_fallocate, &in, &out);
	}
}

void deed_model(struct model *m, const struct deed *d)
{
	uint64_t end = d->offset + d->size, was = m->size;

	if (d->kind == DEED_TRUNCATE)
		m->size = d->offset;
	else if (end > m->size && d->kind != DEED_PUNCH)
		m->size = end;
	if (m->size < was)
		memset(m->bytes + m->size, 0, was - m->size);
	if (d->kind == DEED_WRITE || d->kind == DEED_APPEND)
		memcpy(m->bytes + d->offset, d->bytes, d->size);
	else if ((d->kind == DEED_PUNCH || d->kind == DEED_ZERO) && d->offset < m->size)
		memset(m->bytes + d->offset, 0, (end < m->size ? end : m->size) - d->offset);
}

/* ---- the brick's view ---- */

static int raw_open(struct bed *bed, const struct gfid *gfid, struct file **file)
{
	cleanup_inode struct inode *inode = inode_get(bed->brick.graph->inodes, gfid, S_IFREG);
	struct open_in in = { .inode = inode, .flags = O_RDWR };
	struct open_out out = { 0 };
	int err = tree_call(&bed->brick, bed->brick.at, FOP_open, &in, &out);

	*file = out.file;
	return err;
}

int raw_read(struct bed *bed, const struct gfid *gfid, uint8_t *to, size_t *size)
{
	struct buffer *data = NULL;
	struct file *file;
	int err = raw_open(bed, gfid, &file);

	if (err)
		return err;
	err = tree_read(&bed->brick, file, 0, *size, &data);
	if (!err) {
		const void *bytes = buffer_bytes(data, size);

		memcpy(to, bytes, *size);
	}
	buffer_unref(data);
	tree_release(&bed->brick, file);
	return err;
}

int raw_write(struct bed *bed, const struct gfid *gfid, const uint8_t *bytes, size_t size)
{
	struct file *file;
	int err = raw_open(bed, gfid, &file);

	if (err)
		return err;
	err = truncate_to(&bed->brick, file, size);
	if (!err && size)
		err = tree_write(&bed->brick, file, 0, bytes, size);
	tree_release(&bed->brick, file);
	return err;
}

int raw_header(struct bed *bed, const struct gfid *gfid, const void *bytes, size_t size)
{
	cleanup_inode struct inode *inode = inode_get(bed->brick.graph->inodes, gfid, S_IFREG);
	struct setxattr_in in = { .inode = inode, .name = (char *)HEADER_XATTR, .value = { (uint32_t)size, (void *)bytes } };
	struct setxattr_out out = { 0 };

	return tree_call(&bed->brick, bed->brick.at, FOP_setxattr, &in, &out);
}

/* ---- one client ---- */

static bool same(struct tree *t, struct file *file, const struct model *m, uint64_t offset, uint64_t size)
{
	struct buffer *data = NULL;
	size_t got = 0, want = offset < m->size ? m->size - offset : 0;
	int err = tree_read(t, file, offset, size, &data);
	const void *bytes = err ? NULL : buffer_bytes(data, &got);
	bool is = !err && got == (want < size ? want : size) && !memcmp(bytes, m->bytes + offset, got);

	if (!is)
		fprintf(stderr, "read of %llu at %llu: %s, %zu bytes of a file of %zu\n", (unsigned long long)size,
			(unsigned long long)offset, strerror(-err), got, m->size);
	buffer_unref(data);
	return is;
}

static bool same_size(struct tree *t, struct file *file, const struct model *m)
{
	struct getattr_in in = { .inode = file->inode, .file = file };
	struct getattr_out out = { 0 };

	return !tree_call(t, t->at, FOP_getattr, &in, &out) && out.attr.size == m->size;
}

static void a_file_is_as_the_model_says(void *arg)
{
	enum { ROUNDS = 400 };
	struct bed *bed = arg;
	struct chance c = { seed_of_run(1) };
	struct model *m = calloc(1, sizeof(*m));
	struct file *file, *other;

	CHECK_INT(tree_create(&bed->a, "file", O_RDWR | O_EXCL, 0644, &file), 0);
	CHECK_INT(tree_open_file(&bed->b, "file", O_RDONLY, &other), 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct deed d = deed_choose(&c, m);
		uint64_t offset = choose_offset(&c, BED_MOST), size = 1 + choose_offset(&c, 200000);

		CHECK_INT(deed_do(&bed->a, file, &d), 0);
		deed_model(m, &d);
		free(d.bytes);
		if (!same_size(&bed->a, file, m) || !same(&bed->a, file, m, offset, size) ||
		    !same(&bed->b, other, m, 0, BED_MOST)) {
			fprintf(stderr, "after %s of %llu at %llu, round %d\n", deed_name(&d), (unsigned long long)d.size,
				(unsigned long long)d.offset, i);
			failures++;
			return;
		}
	}
	tree_release(&bed->a, file);
	tree_release(&bed->b, other);
	free(m);
}

static void who_may_only_write_still_writes_parts_of_blocks(void *arg)
{
	struct bed *bed = arg;
	struct model *m = calloc(1, sizeof(*m));
	struct file *file;

	CHECK_INT(tree_create(&bed->a, "only", O_WRONLY | O_EXCL, 0644, &file), 0);
	CHECK_INT(tree_write(&bed->a, file, 0, "hello, world", 12), 0);
	CHECK_INT(tree_write(&bed->a, file, 7, "W", 1), 0);
	tree_release(&bed->a, file);
	memcpy(m->bytes, "hello, World", m->size = 12);
	CHECK_INT(tree_open_file(&bed->b, "only", O_RDONLY, &file), 0);
	CHECK_INT(same(&bed->b, file, m, 0, 100), true);
	tree_release(&bed->b, file);
	CHECK_INT(tree_open_file(&bed->b, "only", O_WRONLY | O_TRUNC, &file), 0);
	m->size = 0;
	CHECK_INT(same_size(&bed->b, file, m), true);
	tree_release(&bed->b, file);
	free(m);
}

/* What goes through a companion, too, is durable if the program's file was opened so. */
static void who_may_only_write_writes_durably(void *arg)
{
	static const int flags[] = { 0, O_DSYNC, O_SYNC };
	struct bed *bed = arg;
	struct tree *a = &bed->a;
	struct file *file;

	CHECK_INT(tree_create(a, "durable", O_RDWR | O_EXCL, 0644, &file), 0);
	tree_release(a, file);
	bed_lie(bed, "unreadable", 1);
	a->uid = 1000;
	for (int i = 0; i < 3; i++) {
		CHECK_INT(tree_open_file(a, "durable", O_RDWR, &file), -EACCES);
		CHECK_INT(tree_open_file(a, "durable", O_WRONLY | flags[i], &file), 0);
		bed_lie(bed, "synced", 0);
		bed_lie(bed, "writes", 0);
		CHECK_INT(tree_write(a, file, 5, "hello", 5), 0);
		CHECK_INT(bed_count(bed, "writes") > 0, true);
		CHECK_INT(bed_count(bed, "synced"), flags[i] ? bed_count(bed, "writes") : 0);
		tree_release(a, file);
	}
}

static int64_t seek(struct tree *t, struct file *file, uint64_t offset, uint32_t whence)
{
	struct seek_in in = { .file = file, .offset = offset, .whence = whence };
	struct seek_out out = { 0 };
	int err = tree_call(t, t->at, FOP_seek, &in, &out);

	return err ? err : (int64_t)out.offset;
}

static void seek_tells_places_in_the_contents(void *arg)
{
	struct bed *bed = arg;
	struct file *file;

	CHECK_INT(tree_create(&bed->a, "seek", O_RDWR | O_EXCL, 0644, &file), 0);
	CHECK_INT(seek(&bed->a, file, 0, SEEK_DATA), -ENXIO);
	CHECK_INT(tree_write(&bed->a, file, 300000, "x", 1), 0);
	CHECK_INT(seek(&bed->a, file, 299000, SEEK_DATA), 299000); /* debug/memory has no holes */
	CHECK_INT(seek(&bed->a, file, 5, SEEK_HOLE), 300001);
	CHECK_INT(seek(&bed->a, file, 300001, SEEK_HOLE), -ENXIO);
	tree_release(&bed->a, file);
}

/* What was written and made durable since it was asked last. */
static bool was_done(struct bed *bed, const char *order)
{
	char *argv[] = { (char *)"order", NULL }, *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	bool so;

	bed->tear->type->command(bed->tear, 1, argv, f);
	fclose(f);
	so = !strcmp(text, order);
	if (!so)
		fprintf(stderr, "done was %s, not %s\n", text, order);
	free(text);
	return so;
}

/* A page needs no other one beside it. Only the end of a file within a block waits until the block fits it. */
static void only_a_cut_within_a_block_waits_for_the_disk(void *arg)
{
	static const uint8_t bytes[600000];
	struct bed *bed = arg;
	struct file *file;

	CHECK_INT(tree_create(&bed->a, "order", O_RDWR | O_EXCL, 0644, &file), 0);
	CHECK_INT(tree_write(&bed->a, file, 0, bytes, sizeof(bytes)), 0);
	CHECK_INT(was_done(bed, "w"), true);
	CHECK_INT(tree_write(&bed->a, file, 5000, bytes, 3), 0);
	CHECK_INT(tree_write(&bed->a, file, 10, bytes, 590000), 0);
	CHECK_INT(was_done(bed, "ww"), true);
	CHECK_INT(truncate_to(&bed->a, file, 40 * BLOCK), 0);
	CHECK_INT(was_done(bed, ""), true);
	CHECK_INT(truncate_to(&bed->a, file, 30 * BLOCK + 1), 0);
	CHECK_INT(was_done(bed, "wf"), true);
	CHECK_INT(truncate_to(&bed->a, file, 50 * BLOCK + 1), 0);
	CHECK_INT(was_done(bed, "w"), true);
	CHECK_INT(truncate_to(&bed->a, file, 0), 0);
	CHECK_INT(was_done(bed, ""), true);
	tree_release(&bed->a, file);
}

/* ---- names and attributes ---- */

static int names_in(struct tree *t, const char *path, const char *wanted, bool *found)
{
	struct readdir_out all = { 0 };
	struct file *file;
	int err = tree_opendir(t, path, &file);

	*found = false;
	if (err)
		return err;
	err = tree_readdir(t, file, &all.entries);
	for (uint32_t i = 0; i < all.entries.count; i++)
		*found |= !strcmp(all.entries.entry[i].name, wanted);
	fop_out_clear(FOP_readdir, &all);
	tree_release(t, file);
	return err;
}

static void names_are_sealed_on_the_brick_and_plain_above(void *arg)
{
	struct bed *bed = arg;
	char longest[NAME_MAX_BYTES + 2];
	struct attr attr;
	bool found;

	CHECK_INT(tree_mkdir(&bed->a, "directory", 0755), 0);
	CHECK_INT(tree_mknod(&bed->a, "directory/name", S_IFREG | 0644, 0), 0);
	CHECK_INT(names_in(&bed->b, "directory", "name", &found), 0);
	CHECK_INT(found, true);
	CHECK_INT(names_in(&bed->brick, "", "directory", &found), 0);
	CHECK_INT(found, false);
	CHECK_INT(tree_getattr(&bed->brick, "directory", &attr), -ENOENT);
	CHECK_INT(tree_rename(&bed->b, "directory/name", "moved", 0), 0);
	CHECK_INT(tree_link(&bed->a, "moved", "directory/again"), 0);
	CHECK_INT(tree_getattr(&bed->b, "directory/again", &attr), 0);
	CHECK_INT(attr.nlink, 2);
	memset(longest, 'n', sizeof(longest));
	longest[NAME_MAX_BYTES + 1] = '\0';
	CHECK_INT(tree_mkdir(&bed->a, longest, 0755), -ENAMETOOLONG);
	longest[NAME_MAX_BYTES] = '\0';
	CHECK_INT(tree_mkdir(&bed->a, longest, 0755), 0);
	CHECK_INT(names_in(&bed->a, "", longest, &found), 0);
	CHECK_INT(found, true);
	CHECK_INT(tree_rmdir(&bed->b, longest), 0);
	CHECK_INT(tree_mkdir(&bed->brick, "foreign", 0755), 0); /* somebody else's, at the brick */
	CHECK_INT(names_in(&bed->a, "", "foreign", &found), 0);
	CHECK_INT(found, false);
	CHECK_INT(tree_rmdir(&bed->brick, "foreign"), 0);
}

static void links_and_attributes_are_sealed(void *arg)
{
	struct bed *bed = arg;
	struct attr attr;
	struct blob value = { 0 };
	char *target;

	CHECK_INT(tree_symlink(&bed->a, "../some/where", "link"), 0);
	CHECK_INT(tree_getattr(&bed->b, "link", &attr), 0);
	CHECK_INT(attr.size, 13);
	CHECK_INT(tree_readlink(&bed->b, "link", &target), 0);
	CHECK_INT(strcmp(target, "../some/where"), 0);
	free(target);
	CHECK_INT(tree_mknod(&bed->a, "attributes", S_IFREG | 0644, 0), 0);
	CHECK_INT(tree_setxattr(&bed->a, "attributes", "user.colour", "green", 5, XATTR_CREATE), 0);
	CHECK_INT(tree_setxattr(&bed->b, "attributes", "user.colour", "blue", 4, XATTR_CREATE), -EEXIST);
	CHECK_INT(tree_setxattr(&bed->b, "attributes", "user.empty", "", 0, 0), 0);
	CHECK_INT(tree_getxattr(&bed->b, "attributes", "user.colour", &value), 0);
	CHECK_INT(value.size == 5 && !memcmp(value.bytes, "green", 5), true);
	free(value.bytes);
	CHECK_INT(tree_getxattr(&bed->b, "attributes", "user.empty", &value), 0);
	CHECK_INT(value.size, 0);
	free(value.bytes);
	CHECK_INT(tree_getxattr(&bed->a, "attributes", HEADER_XATTR, &value), -ENODATA);
	CHECK_INT(tree_removexattr(&bed->a, "attributes", "user.colour"), 0);
	CHECK_INT(tree_getxattr(&bed->b, "attributes", "user.colour", &value), -ENODATA);
}

static void names_of_attributes_come_back_alone(void *arg)
{
	struct bed *bed = arg;
	struct listxattr_in in = { 0 };
	struct listxattr_out out = { 0 };
	bool fits;

	CHECK_INT(tree_mknod(&bed->a, "listed", S_IFREG | 0644, 0), 0);
	CHECK_INT(tree_setxattr(&bed->a, "listed", "user.one", "1", 1, 0), 0);
	CHECK_INT(tree_setxattr(&bed->brick, "attributes", "user.foreign", "x", 1, 0), -ENOENT);
	CHECK_INT(tree_walk(&bed->b, "listed", &in.inode), 0);
	CHECK_INT(tree_call(&bed->b, bed->b.at, FOP_listxattr, &in, &out), 0);
	fits = out.names.size == sizeof("user.one") && !memcmp(out.names.bytes, "user.one", sizeof("user.one"));
	fop_out_clear(FOP_listxattr, &out);
	inode_unref(in.inode);
	CHECK_INT(fits, true);
}

/* ---- two clients ---- */

struct writer {
	struct tree *tree;
	const char *path;
	uint64_t seed;
	int number;
	uint8_t last[8192];
	int result;
	atomic_bool done;
};

/* Its own bytes are every second one: each block has some of both. */
static void write_own_bytes(void *arg)
{
	struct writer *w = arg;
	struct chance c = { w->seed };
	struct file *file;

	w->result = tree_open_file(w->tree, w->path, O_RDWR, &file);
	for (int i = 0; i < 1500 && !w->result; i++) {
		size_t at = chance(&c, sizeof(w->last) / 2) * 2 + (size_t)w->number;

		fill(&c, &w->last[at], 1);
		w->result = tree_write(w->tree, file, at, &w->last[at], 1);
	}
	if (!w->result)
		tree_release(w->tree, file);
	w->done = true;
}

static void two_writers_lose_nothing(void *arg)
{
	struct bed *bed = arg;
	static const uint8_t zeros[8192];
	static struct writer w[2];
	struct buffer *data = NULL;
	struct file *file;
	size_t size;
	const uint8_t *bytes;

	CHECK_INT(tree_create(&bed->a, "both", O_RDWR | O_EXCL, 0644, &file), 0);
	CHECK_INT(tree_write(&bed->a, file, 0, zeros, sizeof(zeros)), 0);
	for (int i = 0; i < 2; i++) {
		w[i] = (struct writer){ .tree = i ? &bed->b : &bed->a, .number = i };
		w[i].path = "both";
		w[i].seed = seed_of_run(7) + (uint64_t)i;
		CHECK_INT(task_spawn(runtime_shard((unsigned)i % runtime_shards()), write_own_bytes, &w[i]), 0);
	}
	while (!w[0].done || !w[1].done)
		task_sleep_ms(1);
	CHECK_INT(w[0].result, 0);
	CHECK_INT(w[1].result, 0);
	CHECK_INT(tree_read(&bed->a, file, 0, sizeof(zeros), &data), 0);
	bytes = buffer_bytes(data, &size);
	CHECK_INT(size, sizeof(zeros));
	for (size_t i = 0; i < size; i++)
		CHECK_INT(bytes[i], w[i % 2].last[i]);
	buffer_unref(data);
	tree_release(&bed->a, file);
}

/* ---- locks of programs ---- */

static void a_lock_of_the_whole_file_does_not_stop_writing(void *arg)
{
	struct bed *bed = arg;
	struct setlk_in in = { .lock = { .kind = LOCK_POSIX, .type = F_WRLCK, .end = UINT64_MAX, .owner = 1 } };
	struct setlk_out out = { 0 };
	struct getlk_in get = { .lock = { .kind = LOCK_POSIX, .type = F_WRLCK, .start = 5, .end = 9, .owner = 2 } };
	struct getlk_out got = { 0 };
	struct file *file, *other;

	CHECK_INT(tree_create(&bed->a, "locked", O_RDWR | O_EXCL, 0644, &file), 0);
	CHECK_INT(tree_open_file(&bed->b, "locked", O_RDWR, &other), 0);
	in.file = file;
	CHECK_INT(tree_call(&bed->a, bed->a.at, FOP_setlk, &in, &out), 0);
	CHECK_INT(tree_write(&bed->b, other, 0, "x", 1), 0);
	get.file = other;
	CHECK_INT(tree_call(&bed->b, bed->b.at, FOP_getlk, &get, &got), 0);
	CHECK_INT(got.lock.type, F_WRLCK);
	CHECK_INT(got.lock.end == UINT64_MAX, true);
	tree_release(&bed->b, other);
	tree_release(&bed->a, file);
}

/* ---- running them ---- */

static void run_with(task_fn *fn, const char *options)
{
	struct bed bed;

	failures = 0;
	bed_make(&bed, options);
	assert_int_equal(task_call(fn, &bed), 0);
	bed_end(&bed);
	assert_int_equal(failures, 0);
}

#define ON_A_BED(name, fn, options)                                                                                            \
	static void name(void **state)                                                                                         \
	{                                                                                                                      \
		(void)state;                                                                                                   \
		run_with(fn, options);                                                                                         \
	}

ON_A_BED(contents, a_file_is_as_the_model_says, "")
ON_A_BED(contents_chacha, a_file_is_as_the_model_says, "option cipher chacha20-poly1305\noption hold 0\n")
ON_A_BED(write_only, who_may_only_write_still_writes_parts_of_blocks, "")
ON_A_BED(durable, who_may_only_write_writes_durably, "")
ON_A_BED(seeking, seek_tells_places_in_the_contents, "")
ON_A_BED(order, only_a_cut_within_a_block_waits_for_the_disk, "")
ON_A_BED(names, names_are_sealed_on_the_brick_and_plain_above, "")
ON_A_BED(attributes, links_and_attributes_are_sealed, "")
ON_A_BED(attribute_names, names_of_attributes_come_back_alone, "")
ON_A_BED(writers, two_writers_lose_nothing, "option hold 1ms\n")
ON_A_BED(locks, a_lock_of_the_whole_file_does_not_stop_writing, "")
ON_A_BED(epochs, who_lacks_an_epoch_changes_nothing, "")
ON_A_BED(holes, a_writer_learns_of_holes, "")
ON_A_BED(lost, a_lost_lock_is_taken_again, "")
ON_A_BED(lost_large, a_large_write_goes_on_when_the_lock_is_lost, "option hold 10s\n")
ON_A_BED(appended, an_append_leaves_what_others_append, "")
ON_A_BED(stuck, a_lock_does_not_stay, "")
ON_A_BED(closed, a_lock_goes_with_its_file, "")
ON_A_BED(deaf, a_cancel_that_is_taken_below_hangs_nobody, "")
ON_A_BED(lying, a_brick_that_lies_changes_nothing, "")
ON_A_BED(short_writes, a_short_write_counts_whole_blocks, "")
ON_A_BED(renewed, an_empty_file_may_get_another_key, "")
ON_A_BED(renewed_large, a_large_write_learns_of_another_key, "")
ON_A_BED(crashes, crash_leaves_old_or_new, "")
ON_A_BED(crashes_anew, crash_leaves_old_or_new, "option hold 0\n")
ON_A_BED(tampering, tampering_is_refused, "")
ON_A_BED(tampered_end, tampering_behind_a_part_is_told, "")
ON_A_BED(headers, foreign_headers_are_refused, "")
ON_A_BED(later_header, a_header_that_changes_later_is_told, "")
ON_A_BED(versions, the_format_before_is_refused_and_kept, "")
ON_A_BED(large, large_requests_take_few_messages, "option hold 10s\n")
ON_A_BED(long_names, long_names_do_all_that_short_ones_do, "")
ON_A_BED(long_xattrs, attributes_have_long_names, "")
ON_A_BED(long_lists, lists_have_room_for_plain_names, "")
ON_A_BED(names_cut, a_crash_leaves_one_of_the_names, "")
ON_A_BED(names_forged, a_provider_shows_no_wrong_long_name, "")
ON_A_BED(targets_forged, a_provider_shows_no_wrong_target, "")
ON_A_BED(attributes_forged, a_provider_shows_no_wrong_attribute, "")
ON_A_BED(late, a_late_write_undoes_nothing, "option hold 10s\n")
ON_A_BED(late_reclaimed, a_late_write_is_done_if_the_lock_was_reclaimed, "option hold 10s\n")
ON_A_BED(late_append, a_late_append_is_there_once, "option hold 10s\n")
ON_A_BED(given_up, what_was_given_up_does_not_come_later, "option hold 10s\n")
ON_A_BED(never_held, a_brick_that_knows_no_lock_is_given_up, "option hold 10s\n")

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(contents),
		cmocka_unit_test(contents_chacha),
		cmocka_unit_test(write_only),
		cmocka_unit_test(order),
		cmocka_unit_test(seeking),
		cmocka_unit_test(names),
		cmocka_unit_test(attributes),
		cmocka_unit_test(attribute_names),
		cmocka_unit_test(writers),
		cmocka_unit_test(locks),
		cmocka_unit_test(crashes),
		cmocka_unit_test(crashes_anew),
		cmocka_unit_test(tampering),
		cmocka_unit_test(holes),
		cmocka_unit_test(lost),
		cmocka_unit_test(stuck),
		cmocka_unit_test(deaf),
		cmocka_unit_test(lying),
		cmocka_unit_test(short_writes),
		cmocka_unit_test(headers),
		cmocka_unit_test(epochs),
		cmocka_unit_test(renewed),
		cmocka_unit_test(large),
		cmocka_unit_test(long_names),
		cmocka_unit_test(long_xattrs),
		cmocka_unit_test(names_cut),
		cmocka_unit_test(names_forged),
		cmocka_unit_test(versions),
		cmocka_unit_test(lost_large),
		cmocka_unit_test(tampered_end),
		cmocka_unit_test(durable),
		cmocka_unit_test(appended),
		cmocka_unit_test(renewed_large),
		cmocka_unit_test(late),
		cmocka_unit_test(late_reclaimed),
		cmocka_unit_test(given_up),
		cmocka_unit_test(late_append),
		cmocka_unit_test(never_held),
		cmocka_unit_test(closed),
		cmocka_unit_test(long_lists),
		cmocka_unit_test(later_header),
		cmocka_unit_test(targets_forged),
		cmocka_unit_test(attributes_forged),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop) + run_without_locked_memory();
}
