/* SPDX-License-Identifier: Apache-2.0 */
/* A client dies after each of its messages, and the last write stops at each page: what another one reads then is, block by block, what was there
 * before or what was to be there. */
#include "crypt-test.h"
#include "moments.h"

struct wreck {
	struct bed *bed;
	struct chance chance;
	struct model before, after;
	struct deed deed;
	unsigned messages, pages;
	bool large; /* a file that gets many blocks at once */
	char name[32];
};

/* Bytes behind the end of either are zeros there. */
static bool block_is(const struct model *m, const uint8_t *bytes, size_t at, size_t size)
{
	return !memcmp(m->bytes + at, bytes, size);
}

static bool size_is_between(const struct wreck *w, size_t size)
{
	size_t least = w->before.size < w->after.size ? w->before.size : w->after.size;
	size_t most = w->before.size + w->after.size - least;

	return size >= least && size <= most;
}

static void look(struct wreck *w)
{
	struct buffer *data = NULL;
	struct file *file;
	const uint8_t *bytes;
	size_t size;

	CHECK_INT(tree_open_file(&w->bed->b, w->name, O_RDWR, &file), 0);
	CHECK_INT(tree_read(&w->bed->b, file, 0, BED_MOST, &data), 0);
	bytes = buffer_bytes(data, &size);
	CHECK_INT(size_is_between(w, size), true);
	for (size_t at = 0; at < size; at += BLOCK) {
		size_t n = size - at < BLOCK ? size - at : BLOCK;

		CHECK_INT(block_is(&w->before, bytes + at, at, n) || block_is(&w->after, bytes + at, at, n), true);
	}
	buffer_unref(data);
	/* And it can be written on, from any state. */
	CHECK_INT(deed_do(&w->bed->b, file, &w->deed), w->deed.kind == DEED_APPEND && size != w->before.size ? -EIO : 0);
	tree_release(&w->bed->b, file);
}

/* Over what is there, or behind it. */
static struct deed large_write(struct chance *c, const struct model *m)
{
	struct deed d = { .kind = DEED_WRITE, .offset = chance(c, 2) ? m->size : 0, .size = 1 + chance(c, 9000) };

	if (m->size)
		d.size = BED_MOST - d.offset - chance(c, 5000);
	d.bytes = malloc(d.size);
	fill(c, d.bytes, d.size);
	return d;
}

static struct deed choose(const struct wreck *w, struct chance *c)
{
	return w->large ? large_write(c, &w->before) : deed_choose(c, &w->before);
}

/* A beginning of some deeds, the same each time; then one that is cut off. True: it was. */
static bool one(struct wreck *w, uint64_t seed)
{
	struct chance c = { seed };
	struct file *file;
	int err = tree_create(&w->bed->a, w->name, O_RDWR | O_EXCL, 0644, &file);
	bool cut;

	memset(w->before.bytes, 0, w->before.size);
	w->before.size = 0;
	for (int i = 0; i < (w->large ? 1 : 3) && !err; i++) {
		struct deed d = choose(w, &c);

		err = deed_do(&w->bed->a, file, &d);
		deed_model(&w->before, &d);
		free(d.bytes);
	}
	model_copy(&w->after, &w->before);
	w->deed = choose(w, &c);
	deed_model(&w->after, &w->deed);
	if (err)
		failures++;
	bed_cut(w->bed, w->messages, w->pages);
	deed_do(&w->bed->a, file, &w->deed);
	cut = bed_heal(w->bed) > w->messages;
	look(w);
	tree_release(&w->bed->a, file);
	if (tree_unlink(&w->bed->b, w->name))
		failures++;
	free(w->deed.bytes);
	return cut;
}

static void all_cuts(struct wreck *w, uint64_t seed)
{
	static const unsigned pages[] = { 0, 1, 2, 5, 40, 150 };
	bool cut = true;

	for (w->messages = 0; cut && !failures; w->messages += !failures) {
		cut = false;
		for (unsigned i = 0; i < sizeof(pages) / sizeof(*pages) && !failures; i++) {
			w->pages = pages[i];
			cut |= one(w, seed);
		}
	}
	if (failures)
		fprintf(stderr, "seed %llu: %s of %llu at %llu, a file of %zu, cut after %u messages and %u pages\n",
			(unsigned long long)seed, deed_name(&w->deed), (unsigned long long)w->deed.size,
			(unsigned long long)w->deed.offset, w->before.size, w->messages, w->pages);
}

void crash_leaves_old_or_new(void *arg)
{
	struct wreck *w = calloc(1, sizeof(*w));
	uint64_t seed = seed_of_run(100);

	w->bed = arg;
	strcpy(w->name, "wreck");
	for (uint64_t i = first_moment(1); i < 60 && !failures; i += moment_step(1))
		all_cuts(w, seed + i);
	w->large = true;
	for (uint64_t i = first_moment(1); i < 6 && !failures; i += moment_step(1))
		all_cuts(w, seed + i);
	free(w);
}
