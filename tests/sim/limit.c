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

static void count(struct disk_object *o, void *arg)
{
	const struct attr *a = &o->attr;
	uint64_t length = S_ISDIR(a->mode) ? UNIT : a->size, xattrs = 0;
	struct sum *s = arg;

	if (!a->nlink)
		return;
	for (const struct disk_pair *x = o->xattr; x; x = x->next) {
		uint64_t reserved = 0;

		xattrs += strlen(x->name) + x->value.size;
		for (uint32_t i = 0; !strcmp(x->name, "trusted.usage.end") && i < x->value.size; i++)
			reserved = reserved << 8 | ((const uint8_t *)x->value.bytes)[i];
		length = reserved > length ? reserved : length;
	}
	s->bytes += (length + UNIT - 1) / UNIT * UNIT + UNIT + (xattrs > UNIT ? xattrs - UNIT : 0);
	s->bytes += S_ISDIR(a->mode) ? 0 : (a->nlink - 1) * FURTHER;
	s->inodes++;
}

/* What stands behind that word in what its features/usage tells; UINT64_MAX: it does not. */
static uint64_t told(const char *text, const char *word)
{
	const char *at = strstr(text, "\"account\": \"all\"");

	at = at ? strstr(at, word) : NULL;
	return at ? strtoull(at + strlen(word), NULL, 10) : UINT64_MAX;
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

/* On the brick's loop. A disk that failed in a look leaves it inexact, until somebody asks for a recount. */
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

void check_limit(void)
{
	for (unsigned i = 0; plan.limit && i < bricks_count() && !sim_failure(); i++)
		check_brick(i);
}
