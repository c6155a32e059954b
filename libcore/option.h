/* SPDX-License-Identifier: Apache-2.0 */
/* Typed options of translators: parsing, bounds, defaults, --help, the man page and live change come from one table. */
#ifndef STRATUS_OPTION_H
#define STRATUS_OPTION_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct problem;

enum option_kind {
	OPTION_BOOL,	 /* bool            on|off|yes|no|true|false */
	OPTION_INT,	 /* int64_t         bounds min..max */
	OPTION_SIZE,	 /* uint64_t bytes  4096, 64K, 1M, 2G */
	OPTION_DURATION, /* uint64_t ms     500ms, 30s (or plain 30), 5m, 1h */
	OPTION_PERCENT,	 /* double          0..100, "12.5" or "12.5%" */
	OPTION_STRING,	 /* char *          */
	OPTION_PATH,	 /* char *          absolute */
	OPTION_ENUM,	 /* int64_t         index in choices */
};

struct option {
	const char *name; /* as written in a volfile: "max-wait" */
	enum option_kind kind;
	size_t offset;	    /* in the translator's private struct */
	const char *preset; /* NULL: must be given */
	const char *help;
	int64_t min, max;    /* INT, SIZE, DURATION; both 0: no bounds */
	const char *choices; /* ENUM: "a|b|c" */
	bool live;	     /* may change while running (the field is read afresh on each use; 8-byte fields change whole) */
};
#define OPTION_AT(type, field) offsetof(type, field)

struct option_value { /* a name and its text, as a volfile gives it */
	char *name, *value;
	unsigned line; /* in the volfile, 0 if from elsewhere */
};

/* Fills the fields of `private` from the presets and the given values. -EINVAL with the sentence in *problem (unknown
 * option: names the nearest known one). `who` is for the sentence ("volume brick (storage/posix)"). */
int options_apply(const struct option *table, void *private, const char *who, const struct option_value *values, size_t count,
		  struct problem *);
/* Checks and changes one live option. */
int option_change(const struct option *table, void *private, const char *who, const char *name, const char *value,
		  struct problem *);
/* Text of the current value, into at most size bytes. */
void option_print(const struct option *, const void *private, char *text, size_t size);
void options_free(const struct option *table, void *private);
const struct option *option_find(const struct option *table, const char *name);
/* The known name that looks most like `name`, or NULL: names is NULL-ended. */
const char *nearest_name(const char *name, const char *const *names);
#endif
