/* SPDX-License-Identifier: Apache-2.0 */
/* Where an object is: what the translators on the way to it tell of that, each its part. They answer together as the value of an extended
 * attribute that no brick has: getxattr(2) asks for it, listxattr(2) does not name it, and nobody can set it. So whoever has got to the
 * object may ask, on a mount as well.
 *
 * The value is lines of a key, a blank and a value, in which control characters and '%' are %XX. A translator with several children writes a line that
 * tells of which, then what that one told:
 *
 *   subvolume N NAME    cluster/dht: what follows is of this one
 *   of N                how many subvolumes there are
 *   weights W...        of all of them
 *   name HASH N NAME    the name, in the root, that the object is or is below; the subvolume that has it by its hash
 *   away yes            a pointer at another subvolume has (one of) its names
 *   member N STATE      cluster/afr: what follows is of this one; in, back, out, or unknown
 *   arbiter yes         it holds no data
 *   brick NAME          protocol/client: as its volume is called; then host, port, serves (the volume there), id (of the brick)
 *   error ERRNO         it could not be asked, or does not have the object
 *   gfid GFID           storage/posix
 *   names N             that the object has there
 *   directory PATH      of the brick; for root only
 *   opened N            features/layout, to cluster/dht: how often the file is open there
 *   locked N            1: somebody has a lock of it there, waits for one, or may get back one that he had
 *   path PATH           from there; of several names for root only, and as many as there is room for
 */
#ifndef STRATUS_LOCATION_H
#define STRATUS_LOCATION_H
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "fop.h"

#define LOCATION_XATTR "system.stratus.location"
enum { LOCATION_MAX = 60000 }; /* bytes of a value */

static inline bool is_location(const char *name)
{
	return name && !strcmp(name, LOCATION_XATTR);
}

/* A value that is being written: all zeros at first. */
struct location {
	char *text;
	size_t size;
	bool failed; /* memory was short: location_end says so */
};
void location_line(struct location *, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));
void location_add(struct location *, const struct blob *part); /* what a child told */
/* Ends it; the value is the caller's to free. What is over LOCATION_MAX is left out, by whole lines. -ENOMEM. */
int location_end(struct location *, struct blob *value);

/* The value of the next line, in place, which changes the text; NULL: that was the last. *at goes from text to `end`. */
char *location_next(char **at, const char *end, const char **key);
#endif
