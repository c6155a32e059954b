/* SPDX-License-Identifier: Apache-2.0 */
/* What the translators of a mount tell of where an object is (libcore/location.h), as JSON. */
#ifndef STRATUS_FOUND_H
#define STRATUS_FOUND_H
#include <jansson.h>

/* A new object of what they have told, which is changed by that: gfid, names, and subvolumes (subvolume, name, of, weights, by_hash, bricks). */
json_t *found_read(char *text, size_t size);
/* Why it is where it is, one sentence or several. malloc'ed. */
char *found_why(const json_t *found);
/* A string of any bytes; those that are no UTF-8 become "?". */
json_t *found_text(const char *bytes);
#endif
