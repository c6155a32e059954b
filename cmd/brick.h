/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of a brick: made once, known by a mark in the server's state, given the secret of its set. */
#ifndef STRATUS_BRICK_H
#define STRATUS_BRICK_H
#include "volgen.h"

enum { SECRET_DIGITS = 64 };

/* Before it is committed: the directory can be written to and nothing else is in it, or it can be made. Nothing is changed. */
int brick_check_new(const struct spec_brick *, struct problem *);
/* It was served before, by this server or another: it has a format. */
bool brick_was_served(const struct spec_brick *);
/* Before the brick is served. Makes the directory if it was never served before; if it was, but is not a brick any more (its disk
 * is not mounted, or is another), says so: -ENODEV. secret: NULL for a brick that is in no set. */
int brick_prepare(const struct spec_brick *, const char *state, const char *secret, struct problem *);
/* After it was served: from now on it must be there. */
int brick_mark(const struct spec_brick *, const char *state, struct problem *);
/* A secret of SECRET_DIGITS hexadecimal digits, from the system's random numbers. */
int secret_create(char secret[SECRET_DIGITS + 1], struct problem *);
/* A file that only its owner reads, replaced as a whole if it says something else. */
int secret_write(const char *path, const char *secret, struct problem *);
#endif
