/* SPDX-License-Identifier: Apache-2.0 */
/* Options of translators: text to typed fields and back, with bounds, and help for misspelt names. */
#include "option.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "log.h"

const struct option *option_find(const struct option *table, const char *name)
{
	for (const struct option *o = table; o && o->name; o++)
		if (!strcmp(o->name, name))
			return o;
	return NULL;
}

/* Levenshtein's distance, for words of at most 63 letters. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[64];
	size_t na = strnlen(a, 63), nb = strnlen(b, 63);

	for (size_t j = 0; j <= nb; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= nb; j++) {
			unsigned change = diagonal + (a[i - 1] != b[j - 1]), least = row[j] < row[j - 1] ? row[j] : row[j - 1];

			diagonal = row[j];
			row[j] = change < least + 1 ? change : least + 1;
		}
	}
	return row[nb];
}

const char *nearest_name(const char *name, const char *const *names)
{
	unsigned best = (unsigned)strlen(name) / 3 + 2; /* one letter in three may be wrong */
	const char *nearest = NULL;

	for (; *names; names++) {
		unsigned d = distance(name, *names);

		if (d < best) {
			best = d;
			nearest = *names;
		}
	}
	return nearest;
}

static const char *nearest_option(const struct option *table, const char *name)
{
	const char *names[128];
	size_t n = 0;

	for (const struct option *o = table; o && o->name && n < 127; o++)
		names[n++] = o->name;
	names[n] = NULL;
	return nearest_name(name, names);
}

static int parse_bool(const char *text, bool *value)
{
	static const char *const yes[] = { "on", "yes", "true", "1" }, *const no[] = { "off", "no", "false", "0" };

	for (int i = 0; i < 4; i++) {
		if (!strcasecmp(text, yes[i]) || !strcasecmp(text, no[i])) {
			*value = !strcasecmp(text, yes[i]);
			return 0;
		}
	}
	return -EINVAL;
}

struct unit {
	const char *name;
	uint64_t factor;
};

static size_t digits(const char *text)
{
	return strspn(text, "0123456789");
}

/* strtod and its like take more for a number than people do: signs, blanks before it, hexadecimal, exponents, "inf". Where the decimal number ends, NULL if it is none. */
static char *end_of_number(const char *text)
{
	size_t whole = digits(text), part = whole && text[whole] == '.' ? 1 + digits(text + whole + 1) : 0;

	return whole && part != 1 ? (char *)text + whole + part : NULL;
}

static int parse_units(const char *text, const struct unit *units, uint64_t *value)
{
	char *end = end_of_number(text);
	double number;

	if (!end)
		return -EINVAL;
	errno = 0;
	*value = strtoull(text, NULL, 10);
	number = memchr(text, '.', (size_t)(end - text)) ? strtod(text, NULL) : (double)*value;
	if (errno)
		return -EINVAL;
	end += end[strspn(end, " ")] ? strspn(end, " ") : 0; /* before a unit */
	for (; units->name; units++)
		if (!strcasecmp(end, units->name)) {
			number *= (double)units->factor;
			if (number >= 9.2e18 || (number > 0 && number < 1)) /* 0 mostly has a meaning of its own */
				return -EINVAL;
			*value = number == (double)*value * (double)units->factor ? *value * units->factor : (uint64_t)number;
			return 0;
		}
	return -EINVAL;
}

static int parse_whole(const char *text, int64_t *value)
{
	const char *number = text + (*text == '-');
	size_t count = digits(number);

	errno = 0;
	*value = strtoll(text, NULL, 10);
	return errno || !count || number[count] ? -EINVAL : 0;
}

int percent_parse(const char *text, double *value)
{
	const char *end = end_of_number(text);

	*value = end ? strtod(text, NULL) : 0;
	return end && (!*end || !strcmp(end, "%")) ? 0 : -EINVAL;
}

static const struct unit sizes[] = { { "", 1 },
				     { "b", 1 },
				     { "k", 1 << 10 },
				     { "kib", 1 << 10 },
				     { "kb", 1 << 10 },
				     { "m", 1 << 20 },
				     { "mib", 1 << 20 },
				     { "mb", 1 << 20 },
				     { "g", 1 << 30 },
				     { "gib", 1 << 30 },
				     { "gb", 1 << 30 },
				     { "t", 1ull << 40 },
				     { "tib", 1ull << 40 },
				     { "tb", 1ull << 40 },
				     { "p", 1ull << 50 },
				     { "pib", 1ull << 50 },
				     { "pb", 1ull << 50 },
				     { NULL, 0 } };
static const struct unit durations[] = { { "ms", 1 },	   { "s", 1000 },    { "", 1000 },	{ "sec", 1000 }, { "m", 60000 },
					 { "min", 60000 }, { "h", 3600000 }, { "d", 86400000 }, { NULL, 0 } };

int size_parse(const char *text, uint64_t *bytes)
{
	return parse_units(text, sizes, bytes);
}

static int parse_choice(const char *text, const char *choices, int64_t *value)
{
	int64_t index = 0;

	for (const char *at = choices; *at; index++) {
		size_t length = strcspn(at, "|");

		if (strlen(text) == length && !strncasecmp(text, at, length)) {
			*value = index;
			return 0;
		}
		at += length + (at[length] == '|');
	}
	return -EINVAL;
}

static bool in_bounds(const struct option *o, double value)
{
	return (!o->min && !o->max) || (value >= (double)o->min && value <= (double)o->max);
}

union value {
	bool flag;
	int64_t number;
	uint64_t amount;
	double percent;
	char *text;
};

/* -EINVAL: not of the kind; -ERANGE: out of bounds. */
static int parse(const struct option *o, const char *text, union value *v)
{
	int err = 0;

	memset(v, 0, sizeof(*v));
	switch (o->kind) {
	case OPTION_BOOL:
		return parse_bool(text, &v->flag);
	case OPTION_INT:
		err = parse_whole(text, &v->number);
		return err ? err : in_bounds(o, (double)v->number) ? 0 : -ERANGE;
	case OPTION_SIZE:
	case OPTION_DURATION:
		err = parse_units(text, o->kind == OPTION_SIZE ? sizes : durations, &v->amount);
		if (!err && !in_bounds(o, (double)v->amount))
			err = -ERANGE;
		return err;
	case OPTION_PERCENT:
		err = percent_parse(text, &v->percent);
		return err ? err : v->percent <= 100 ? 0 : -ERANGE;
	case OPTION_ENUM:
		return parse_choice(text, o->choices, &v->number);
	case OPTION_PATH:
		if (*text && *text != '/')
			return -EINVAL;
		/* fall through */
	case OPTION_STRING:
		v->text = strdup(text);
		return v->text ? 0 : -ENOMEM;
	}
	return -EINVAL;
}

/* A text that a live option had. Somebody may be reading it, so it stays until its translator goes. */
struct past {
	const void *private;
	char *text;
	struct past *next;
};
static struct past *pasts;
static pthread_mutex_t pasts_lock = PTHREAD_MUTEX_INITIALIZER;

static void past_add(struct past *past, const void *private, char *text)
{
	past->private = private;
	past->text = text;
	pthread_mutex_lock(&pasts_lock);
	past->next = pasts;
	pasts = past;
	pthread_mutex_unlock(&pasts_lock);
}

static void pasts_free(const void *private)
{
	struct past **at = &pasts, *past;

	pthread_mutex_lock(&pasts_lock);
	while ((past = *at)) {
		if (past->private != private) {
			at = &past->next;
			continue;
		}
		*at = past->next;
		free(past->text);
		free(past);
	}
	pthread_mutex_unlock(&pasts_lock);
}

static bool is_text(const struct option *o)
{
	return o->kind == OPTION_STRING || o->kind == OPTION_PATH;
}

/* Returns the text that was there, for the caller to free or keep. A live option is read without a lock: who reads sees the old value or the
 * new one, which a thread sanitizer need not report. */
__attribute__((no_sanitize("thread"))) static char *store(const struct option *o, void *private, const union value *v)
{
	void *field = (char *)private + o->offset;
	char *old = NULL;

	switch (o->kind) {
	case OPTION_BOOL:
		__atomic_store_n((bool *)field, v->flag, __ATOMIC_RELAXED);
		break;
	case OPTION_INT:
	case OPTION_ENUM:
	case OPTION_SIZE:
	case OPTION_DURATION:
	case OPTION_PERCENT:
		__atomic_store_n((uint64_t *)field, v->amount, __ATOMIC_RELAXED);
		break;
	case OPTION_STRING:
	case OPTION_PATH:
		old = *(char **)field;
		__atomic_store_n((char **)field, v->text, __ATOMIC_RELEASE);
		break;
	}
	return old;
}

struct scale { /* from the largest unit down */
	const char *name;
	int64_t factor;
};

/* With the largest unit in which it is a whole number. */
static void print_scaled(int64_t value, const struct scale *s, char *text, size_t size)
{
	while (s->factor > 1 && (!value || value % s->factor))
		s++;
	snprintf(text, size, "%" PRId64 "%s", value / s->factor, s->name);
}

static void print_bound(const struct option *o, int64_t value, char *text, size_t size)
{
	static const struct scale bytes[] = {
		{ "T", 1ll << 40 }, { "G", 1 << 30 }, { "M", 1 << 20 }, { "K", 1 << 10 }, { "", 1 }
	};
	static const struct scale times[] = { { "d", 86400000 }, { "h", 3600000 }, { "m", 60000 }, { "s", 1000 }, { "ms", 1 } };
	static const struct scale plain[] = { { "", 1 } };

	print_scaled(value, o->kind == OPTION_SIZE ? bytes : o->kind == OPTION_DURATION ? times : plain, text, size);
}

static const char *wanted(const struct option *o, char *text, size_t size)
{
	static const char *const kinds[] = { "on or off",
					     "a whole number",
					     "a size such as 64K or 1M",
					     "a duration such as 500ms, 30s or 5m",
					     "a percentage from 0 to 100",
					     "a text",
					     "an absolute path",
					     "" };

	char least[32], most[32];

	print_bound(o, o->min, least, sizeof(least));
	print_bound(o, o->max, most, sizeof(most));
	if (o->kind == OPTION_ENUM)
		snprintf(text, size, "one of %s", o->choices);
	else if (o->min || o->max)
		snprintf(text, size, "%s, from %s to %s", kinds[o->kind], least, most);
	else
		snprintf(text, size, "%s", kinds[o->kind]);
	return text;
}

/* "FILE:LINE: ", as far as both are known. */
static const char *place(const struct option_owner *owner, unsigned line, char *text, size_t size)
{
	*text = 0;
	if (owner->file && line)
		snprintf(text, size, "%.200s:%u: ", owner->file, line);
	else if (owner->file)
		snprintf(text, size, "%.200s: ", owner->file);
	return text;
}

/* The text that was there is kept in `past`, or freed if that is NULL. */
static int apply(const struct option *o, void *private, const struct option_owner *owner, const char *text, unsigned line,
		 struct past *past, struct problem *p)
{
	char want[256], where[256], *old;
	struct problem why = { "" };
	union value v;
	int err = parse(o, text, &v);

	if (!err && o->check && o->check(text, &why)) {
		free(v.text);
		return problem_set(p, EINVAL, "%s%s: option %s can't be \"%.100s\": %s",
				   place(owner, line, where, sizeof(where)), owner->who, o->name, text, why.text);
	}
	if (err)
		return problem_set(p, EINVAL, "%s%s: option %s can't be \"%.100s\": give it %s",
				   place(owner, line, where, sizeof(where)), owner->who, o->name, text,
				   wanted(o, want, sizeof(want)));
	old = store(o, private, &v);
	if (past)
		past_add(past, private, old);
	else
		free(old);
	return 0;
}

static int unknown(const struct option *table, const struct option_owner *owner, const struct option_value *v,
		   struct problem *p)
{
	const char *near = nearest_option(table, v->name);
	char where[256], hint[100] = "";

	if (near)
		snprintf(hint, sizeof(hint), "; did you mean \"%s\"?", near);
	return problem_set(p, EINVAL, "%s%s has no option \"%.100s\"%s", place(owner, v->line, where, sizeof(where)),
			   owner->who, v->name, near ? hint : "; `stratus xlator help TYPE` lists those it has");
}

static bool given(const struct option *o, const struct option_value *values, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(values[i].name, o->name))
			return true;
	return false;
}

int options_apply(const struct option *table, void *private, const struct option_owner *owner,
		  const struct option_value *values, size_t count, struct problem *p)
{
	char where[256];
	int err = 0;

	for (const struct option *o = table; o && o->name && !err; o++)
		if (o->preset)
			err = apply(o, private, owner, o->preset, owner->line, NULL, p);
	for (size_t i = 0; i < count && !err; i++) {
		const struct option *o = option_find(table, values[i].name);

		err = o ? apply(o, private, owner, values[i].value, values[i].line, NULL, p)
			: unknown(table, owner, &values[i], p);
	}
	for (const struct option *o = table; o && o->name && !err; o++)
		if (!o->preset && !given(o, values, count))
			err = problem_set(p, EINVAL, "%s%s needs the option \"%s\": %s",
					  place(owner, owner->line, where, sizeof(where)), owner->who, o->name, o->help);
	return err;
}

int option_change(const struct option *table, void *private, const char *who, const char *name, const char *value,
		  struct problem *p)
{
	const struct option_value v = { (char *)name, (char *)value, 0 };
	const struct option_owner owner = { .who = who };
	const struct option *o = option_find(table, name);
	struct past *past = NULL;
	int err;

	if (!o)
		return unknown(table, &owner, &v, p);
	if (!o->live)
		return problem_set(p, EPERM,
				   "%s: option %s can't change while running; change the volfile and restart or reload", who,
				   name);
	if (is_text(o) && !o->parsed && !(past = malloc(sizeof(*past))))
		return problem_set(p, ENOMEM, "%s: option %s: no memory", who, name);
	err = apply(o, private, &owner, value, 0, past, p);
	if (err)
		free(past);
	return err;
}

void option_print(const struct option *o, const void *private, char *text, size_t size)
{
	const void *field = (const char *)private + o->offset;
	const char *at = o->choices;

	switch (o->kind) {
	case OPTION_BOOL:
		snprintf(text, size, "%s", *(const bool *)field ? "on" : "off");
		break;
	case OPTION_INT:
		snprintf(text, size, "%" PRId64, *(const int64_t *)field);
		break;
	case OPTION_SIZE:
		snprintf(text, size, "%" PRIu64, *(const uint64_t *)field);
		break;
	case OPTION_DURATION:
		snprintf(text, size, "%" PRIu64 "ms", *(const uint64_t *)field);
		break;
	case OPTION_PERCENT:
		snprintf(text, size, "%g%%", *(const double *)field);
		break;
	case OPTION_STRING:
	case OPTION_PATH:
		snprintf(text, size, "%s", *(char *const *)field ? *(char *const *)field : "");
		break;
	case OPTION_ENUM:
		for (int64_t i = *(const int64_t *)field; i > 0; i--)
			at = strchr(at, '|') + 1;
		snprintf(text, size, "%.*s", (int)strcspn(at, "|"), at);
		break;
	}
}

void options_free(const struct option *table, void *private)
{
	for (const struct option *o = table; o && o->name; o++)
		if (is_text(o)) {
			char **field = (char **)((char *)private + o->offset);

			free(*field);
			*field = NULL;
		}
	pasts_free(private);
}
