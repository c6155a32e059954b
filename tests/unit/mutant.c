/* SPDX-License-Identifier: Apache-2.0 */
/* Lets a unit test run on translators that are compiled with their mutants: $STRATUS_MUTANT names the one that is chosen, $STRATUS_TEST (a pattern) the
 * only test that is run. Preloaded by tests/sim/mutants.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mutant.h"

__attribute__((constructor)) static void choose_test(void)
{
	const char *pattern = getenv("STRATUS_TEST");

	if (pattern)
		cmocka_set_test_filter(pattern);
}

void mutants_found(const struct mutant *from, const struct mutant *to)
{
	(void)from, (void)to;
}

bool mutant_is_chosen(const struct mutant *m)
{
	const char *chosen = getenv("STRATUS_MUTANT");

	return chosen && !strcmp(chosen, m->name);
}
