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
	OPTION_INT,	 /* int64_t         decimal; bounds min..max */
	OPTION_SIZE,	 /* uint64_t bytes  4096, 64K, 1.5M, 2 GiB */
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
	bool live;	     /* may change while running, see below */
	bool parsed;	     /* a live text that only init and reconfigure read */
	/* STRING, PATH: more that the text must be; -EINVAL, with why it can't be that, and what to do. So a wrong one is refused also while it runs, when reconfigure can't do so. */
	int (*check)(const char *text, struct problem *why);
};
#define OPTION_AT(type, field) offsetof(type, field)

/* A live field is read afresh on each use, without a lock: one sees the old value or the new one, never half of each. Of a live text one takes the
 * pointer once (`const char *text = p->text;`) and uses that. It stays good until the translator is destroyed, whatever the option becomes, for
 * each text that it had is kept. Where texts are long or change often, let `reconfigure` make of the text what the fops need, and set `parsed`:
 * then an old text is freed at the next change, and fops must not read the field. */

struct option_value { /* a name and its text, as a volfile gives it */
	char *name, *value;
	unsigned line; /* in the volfile, 0 if from elsewhere */
};

struct option_owner {	  /* for sentences about its options */
	const char *who;  /* "volume brick (storage/posix)" */
	const char *file; /* the volfile; NULL: none, and lines mean nothing */
	unsigned line;	  /* of the volume, in that file; 0: not known */
};

/* Fills the fields of `private` from the presets and the given values. -EINVAL with the sentence in *problem (unknown
 * option: names the nearest known one), after FILE:LINE if these are known. Before anybody reads the fields: a text is freed as another takes its place. */
int options_apply(const struct option *table, void *private, const struct option_owner *, const struct option_value *values,
		  size_t count, struct problem *);
/* Checks and changes one live option. Not for two at a time in one translator. */
int option_change(const struct option *table, void *private, const char *who, const char *name, const char *value,
		  struct problem *);
/* Text of the current value, into at most size bytes. */
void option_print(const struct option *, const void *private, char *text, size_t size);
void options_free(const struct option *table, void *private); /* with the texts that were kept */
/* What OPTION_SIZE and OPTION_PERCENT take, for texts that may be one or the other. -EINVAL: it is none. */
int size_parse(const char *text, uint64_t *bytes);
int percent_parse(const char *text, double *percent); /* it may be above 100 */
const struct option *option_find(const struct option *table, const char *name);
/* The known name that looks most like `name`, or NULL: names is NULL-ended. */
const char *nearest_name(const char *name, const char *const *names);
#endif
