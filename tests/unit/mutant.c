/* SPDX-License-Identifier: Apache-2.0 */
/* Lets a unit test run on translators that are compiled with their mutants: $STRATUS_MUTANT names the one that is chosen. Preloaded by
 * tests/sim/mutants.sh. */
#include <stdlib.h>
#include <string.h>

#include "mutant.h"

void mutants_found(const struct mutant *from, const struct mutant *to)
{
	(void)from, (void)to;
}

bool mutant_is_chosen(const struct mutant *m)
{
	const char *chosen = getenv("STRATUS_MUTANT");

	return chosen && !strcmp(chosen, m->name);
}
