/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of fops as an option names them: "all", "none", "mutating", "reading", "read,write", "all,-lookup,-getattr", "-lookup" (all others). */
#ifndef STRATUS_FOP_SET_H
#define STRATUS_FOP_SET_H
#include <stdbool.h>
#include <stdint.h>

struct problem;
struct xlator;
/* Bit i of the set is the fop with number i. -EINVAL, with a sentence that names the nearest known word. */
int fop_set_parse(const char *text, uint64_t *set, struct problem *);
/* The same, for the `check` of an option. */
int fop_set_check(const char *text, struct problem *);
/* For reconfigure(): the same, but a wrong text is logged and leaves the set as it was. */
void fop_set_change(const char *text, _Atomic uint64_t *set, const struct xlator *);
static inline bool fop_set_has(uint64_t set, int fop)
{
	return set >> fop & 1;
}
#endif
