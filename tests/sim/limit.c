/* SPDX-License-Identifier: Apache-2.0 */
/* With --limit: all that is in the volume is one account's, which has a small limit. In the end no member has more than that, and each is charged what is on its disk, as
 * is counted here. */
#include <inttypes.h>

#include "disk.h"

enum { UNIT = 4096, FURTHER = 512 };

/* Changes no chance that a run without it has. */
void limit_plan(void)
{
	static const unsigned near[] = { UNIT, UNIT, 4 * UNIT, 1 << 20 };

	plan.limit = (6 + (unsigned)chance_below(CHANCE_LIMIT, 12)) * 2 * UNIT;
	plan.limit_inodes = chance_below(CHANCE_LIMIT, 3) ? 0 : 6 + (unsigned)chance_below(CHANCE_LIMIT, 8);
	plan.near = near[chance_below(CHANCE_LIMIT, sizeof(near) / sizeof(*near))];
	plan.arbiter = false;
}

void limit_plan_quotas(void)
{
	plan.quotas = true;
	plan.limit *= 4;
	plan.limit_inodes *= 4;
}

void limit_put(FILE *to, unsigned brick)
{
	fprintf(to,
		"volume usage\n type features/usage\n option ledger %s/usage%u\n option set all\n option near %u\n option accounts \"all 0 65536 %u %u\"\n"
		" subvolumes disk\nend-volume\n",
		plan.directory, brick, plan.near, plan.limit, plan.limit_inodes);
}

struct sum {
	uint64_t bytes, inodes;
};

static uint64_t bytes_of(const struct disk_object *o)
{
	const struct attr *a = &o->attr;
	uint64_t length = S_ISDIR(a->mode) ? UNIT : a->size, xattrs = 0;

	for (const struct disk_pair *x = o->xattr; x; x = x->next) {
		uint64_t reserved = 0;

		xattrs += strlen(x->name) + x->value.size;
		for (uint32_t i = 0; !strcmp(x->name, "trusted.usage.end") && i < x->value.size; i++)
			reserved = reserved << 8 | ((const uint8_t *)x->value.bytes)[i];
		length = reserved > length ? reserved : length;
	}
	return (length + UNIT - 1) / UNIT * UNIT + UNIT + (xattrs > UNIT ? xattrs - UNIT : 0) +
	       (S_ISDIR(a->mode) ? 0 : (a->nlink - 1) * FURTHER);
}

static void count(struct disk_object *o, void *arg)
{
	struct sum *s = arg;

	if (!o->attr.nlink)
		return;
	s->bytes += bytes_of(o);
	s->inodes++;
}

/* What stands behind that word; UINT64_MAX: it does not. */
static uint64_t number_after(const char *text, const char *word)
{
	const char *at = text ? strstr(text, word) : NULL;

	return at ? strtoull(at + strlen(word), NULL, 10) : UINT64_MAX;
}

/* Of the account, in what its features/usage tells. */
static uint64_t told(const char *text, const char *word)
{
	return number_after(strstr(text, "\"account\": \"all\""), word);
}

static char *ask(const struct node *n, const char *word)
{
	struct xlator *x = n->graph->top;
	char *words[] = { (char *)word }, *text = NULL;
	size_t size;
	FILE *to;

	while (x->children && strcmp(x->type->name, "features/usage"))
		x = x->child[0];
	to = open_memstream(&text, &size);
	if (x->type->command(x, 1, words, to))
		sim_fail("%s does not understand %s", n->name, word);
	fclose(to);
	return text;
}

static bool is_exact(const char *text)
{
	return strstr(text, "\"exact\": true");
}

/* On the brick's loop. A disk that failed in a look leaves it inexact until it has recounted, which it may be about to do later. */
static void look_after(void *arg)
{
	const struct node *n = arg;
	char *text = ask(n, "reading");

	if (!is_exact(text))
		free(ask(n, "recount"));
	free(text);
}

static bool all_exact(void)
{
	bool exact = true;

	for (unsigned i = 0; i < bricks_count() && exact; i++) {
		char *text = ask(node_brick(i), "reading");

		exact = is_exact(text);
		free(text);
	}
	return exact;
}

void limit_end(void)
{
	enum { RECOUNT_S = 60 };

	for (unsigned i = 0; plan.limit && i < bricks_count(); i++)
		sim_after(node_brick(i), 0, look_after, node_brick(i));
	for (unsigned s = 0; plan.limit && s < RECOUNT_S && (!s || !all_exact()); s++)
		task_sleep_ms(1000);
}

static void check_brick(unsigned number)
{
	char *text = ask(node_brick(number), "reading");
	struct sum sum = { 0 };

	disk_each(disk_of(number), count, &sum);
	if (!is_exact(text))
		sim_fail("brick %u is not exact in the end", number);
	else if (!disk_has_dropped(number) &&
		 (told(text, "\"bytes\": ") != sum.bytes || told(text, "\"inodes\": ") != sum.inodes))
		sim_fail("brick %u has %" PRIu64 " bytes and %" PRIu64 " inodes, and is charged %" PRIu64 " and %" PRIu64,
			 number, sum.bytes, sum.inodes, told(text, "\"bytes\": "), told(text, "\"inodes\": "));
	else if (sum.bytes > plan.limit || (plan.limit_inodes && sum.inodes > plan.limit_inodes))
		sim_fail("brick %u is above the limit: %" PRIu64 " bytes of %u, %" PRIu64 " inodes of %u", number, sum.bytes,
			 plan.limit, sum.inodes, plan.limit_inodes);
	free(text);
}

/* ---- limits of directories ---- */

struct tag {
	uint64_t id, bytes, inodes; /* the limits */
	bool top;
};

static uint64_t number_at(const struct blob *value, uint32_t at)
{
	uint64_t n = 0;

	for (uint32_t i = at; i < at + 8; i++)
		n = n << 8 | ((const uint8_t *)value->bytes)[i];
	return n;
}

static struct tag tag_of(const struct disk_object *o)
{
	struct tag t = { 0 };

	for (const struct disk_pair *x = o->xattr; x; x = x->next) {
		if (strcmp(x->name, "trusted.usage.quota") != 0)
			continue;
		t.id = number_at(&x->value, 0);
		t.top = x->value.size == 24;
		if (t.top)
			t.bytes = number_at(&x->value, 8), t.inodes = number_at(&x->value, 16);
	}
	return t;
}

struct tree {
	struct disk *disk;
	unsigned brick;
	uint64_t id; /* whose sum it is */
	struct sum sum;
	char *told;
};

static void count_tagged(struct disk_object *o, void *arg)
{
	struct tree *t = arg;

	if (tag_of(o).id == t->id)
		count(o, &t->sum);
}

/* What is in it has its tag, or is a directory that has a limit of its own where there is none. */
static void check_names(const struct disk_object *o, const struct tree *t, uint64_t id)
{
	for (const struct disk_entry *e = o->entry; e; e = e->next) {
		const struct disk_object *in = disk_find(t->disk, &e->gfid);
		struct tag tag = in ? tag_of(in) : (struct tag){ 0 };

		if (in && tag.id != id && (id || !tag.top))
			sim_fail("brick %u: %s has the tag %" PRIx64 ", its directory %" PRIx64, t->brick, e->name, tag.id, id);
	}
}

static void check_directory(struct disk_object *o, void *arg)
{
	struct tree *t = arg;
	struct tag tag = tag_of(o);
	struct sum *s = &t->sum;
	char word[64];
	const char *at;

	if (!S_ISDIR(o->attr.mode) || !o->attr.nlink || sim_failure())
		return;
	check_names(o, t, tag.id);
	if (!tag.top)
		return;
	t->id = tag.id;
	*s = (struct sum){ 0 };
	disk_each(t->disk, count_tagged, t);
	snprintf(word, sizeof(word), "\"directory\": %" PRIu64 ",", tag.id);
	at = strstr(t->told, word);
	if (!at)
		sim_fail("brick %u does not know of the limit %" PRIx64, t->brick, tag.id);
	else if (number_after(at, "\"bytes\": ") != s->bytes || number_after(at, "\"inodes\": ") != s->inodes)
		sim_fail("brick %u: a directory has %" PRIu64 " bytes and %" PRIu64 " inodes, and is charged %.100s", t->brick,
			 s->bytes, s->inodes, at);
	else if ((tag.bytes && s->bytes > tag.bytes) || (tag.inodes && s->inodes > tag.inodes))
		sim_fail("brick %u: a directory is above its limit: %" PRIu64 " bytes of %" PRIu64 ", %" PRIu64
			 " inodes of %" PRIu64,
			 t->brick, s->bytes, tag.bytes, s->inodes, tag.inodes);
}

static void check_directories(unsigned number)
{
	struct tree t = { .disk = disk_of(number), .brick = number, .told = ask(node_brick(number), "reading") };

	if (!disk_has_dropped(number))
		disk_each(t.disk, check_directory, &t);
	free(t.told);
}

void check_limit(void)
{
	for (unsigned i = 0; plan.limit && i < bricks_count() && !sim_failure(); i++) {
		check_brick(i);
		if (plan.quotas && !sim_failure())
			check_directories(i);
	}
}
