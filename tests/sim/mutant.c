/* SPDX-License-Identifier: Apache-2.0 */
/* Which mutants there are, and which one has been chosen. */
#include "mutant.h"
#include "sim.h"

enum { MUTANTS_MAX = 256 };
static struct {
	const char *name[MUTANTS_MAX], *chosen;
	unsigned count, spread; /* from there on they are of several subvolumes */
} mutants;

void mutants_found(const struct mutant *from, const struct mutant *to)
{
	for (const struct mutant *m = from; m < to; m++) {
		unsigned i = 0;

		while (i < mutants.count && strcmp(mutants.name[i], m->name))
			i++;
		if (i == mutants.count && i < MUTANTS_MAX)
			mutants.name[mutants.count++] = m->name;
	}
}

bool mutant_is_chosen(const struct mutant *m)
{
	return mutants.chosen && !strcmp(mutants.chosen, m->name);
}

const char *mutant_chosen(void)
{
	return mutants.chosen;
}

int mutant_choose(const char *name)
{
	mutants.chosen = NULL;
	if (!name)
		return 0;
	for (unsigned i = 0; i < mutants.count; i++)
		if (!strcmp(mutants.name[i], name)) {
			mutants.chosen = mutants.name[i];
			return 0;
		}
	return -ENOENT;
}

void mutants_spread(void)
{
	mutants.spread = mutants.count;
}

/* Those called bear-... are of one party, and the others must bear them: there is nothing to find. */
void mutants_list(FILE *to, bool spread)
{
	for (unsigned i = spread ? mutants.spread : 0; i < (spread ? mutants.count : mutants.spread); i++)
		if (strncmp(mutants.name[i], "bear-", 5))
			fprintf(to, "%s\n", mutants.name[i]);
}
