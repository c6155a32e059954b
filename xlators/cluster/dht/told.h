/* SPDX-License-Identifier: Apache-2.0 */
/* Which names a listing has told, so that none is told again where it is moved to. */
#ifndef STRATUS_DHT_TOLD_H
#define STRATUS_DHT_TOLD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct told_name;
/* A table, at most half full, by hashes of the names; all but the seed are zeros at first. Who chooses names must not know the seed, or he hides one by another. */
struct told {
	struct told_name *name;
	size_t count, room;
	uint64_t last; /* the highest number in it */
	uint64_t seed;
};

/* `number`: of the place after it; `pass`: in which it was told. -ENOMEM. */
int told_note(struct told *, const char *name, uint64_t number, int pass);
/* In another pass: in the same one it may be told again, to who goes back. */
bool told_elsewhere(const struct told *, const char *name, int pass);
/* Who goes back reads again what came after that place. -ENOMEM: some of what came before it is forgotten, too. */
int told_forget_after(struct told *, uint64_t number);
void told_free(struct told *);
#endif
