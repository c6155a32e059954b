/* SPDX-License-Identifier: Apache-2.0 */
/* Deliberate mistakes: translators that are compiled with STRATUS_MUTANTS ask here whether to make one. */
#ifndef STRATUS_MUTANT_H
#define STRATUS_MUTANT_H
#include <stdbool.h>

struct mutant { /* one place in the code */
	const char *name;
};
bool mutant_is_chosen(const struct mutant *);
void mutants_found(const struct mutant *from, const struct mutant *to);

#define MUTANT(text)                                                                                                           \
	({                                                                                                                     \
		static const struct mutant mutant_here __attribute__((section("mutants"), used)) = { text };                   \
		mutant_is_chosen(&mutant_here);                                                                                \
	})

/* Each file tells of all places in its module. */
extern const struct mutant __start_mutants[] __attribute__((weak, visibility("hidden")));
extern const struct mutant __stop_mutants[] __attribute__((weak, visibility("hidden")));
__attribute__((constructor, unused)) static void mutants_tell(void)
{
	if (__start_mutants)
		mutants_found(__start_mutants, __stop_mutants);
}
#endif
