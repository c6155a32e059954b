/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the tenants of a specification that spec_print() has written, of which there may be many thousands: line by line, since the YAML parser takes 20 times as long. Whatever is not
 * written just so is left to that one, with all that it has to say: so nothing is read here that it would read otherwise. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "path.h"
#include "volgen.h"
#include "word.h"

struct field {
	const char *key;
	size_t offset;
	uint64_t least, most;
	bool is_wide; /* a uint64_t */
};

struct line {
	const char *at, *end;
};

/* The next line, without its end. False: there are no more. */
static bool next_line(const char **at, const char *end, struct line *l)
{
	const char *newline = *at < end ? memchr(*at, '\n', (size_t)(end - *at)) : NULL;

	if (!newline)
		return false;
	*l = (struct line){ *at, newline };
	*at = newline + 1;
	return true;
}

static bool skip(struct line *l, const char *text)
{
	size_t size = strlen(text);

	if ((size_t)(l->end - l->at) < size || memcmp(l->at, text, size) != 0)
		return false;
	l->at += size;
	return true;
}

/* ---- one value ---- */

/* "NAME", of what is a name. */
static char *take_name(struct line *l)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	size_t length;

	if (!skip(l, "\"") || l->at == l->end || l->end[-1] != '"')
		return NULL;
	length = strspn(l->at, fine);
	if (!length || length > 64 || l->at + length + 1 != l->end || *l->at == '.' || *l->at == '-')
		return NULL;
	return path_format("%.*s", (int)length, l->at);
}

static bool take_id(struct line *l, struct gfid *id)
{
	char text[GFID_TEXT];

	if (l->end - l->at != sizeof text - 1)
		return false;
	memcpy(text, l->at, sizeof text - 1);
	text[sizeof text - 1] = '\0';
	return !gfid_parse(text, id) && !gfid_is_null(id) && !gfid_equal(id, &gfid_root);
}

static bool take_number(struct line *l, uint64_t least, uint64_t most, uint64_t *number)
{
	uint64_t n = 0;

	if (l->at == l->end || l->end - l->at > 19)
		return false;
	for (; l->at < l->end; l->at++) {
		if (*l->at < '0' || *l->at > '9')
			return false;
		n = 10 * n + (uint64_t)(*l->at - '0');
	}
	*number = n;
	return n >= least && n <= most;
}

static bool take_state(struct line *l, enum spec_tenant_state *state)
{
	cleanup_path char *text = path_format("%.*s", (int)(l->end - l->at), l->at);
	int found = spec_tenant_state_parse(text);

	*state = found < 0 ? SPEC_TENANT_ACTIVE : (enum spec_tenant_state)found;
	return found >= 0;
}

/* ---- one tenant ---- */

#define AT(member) offsetof(struct spec_tenant, member)
static const struct field fields[] = {
	{ "base: ", AT(base), 1, UINT32_MAX - 1, false },	{ "count: ", AT(count), 1, UINT32_MAX - 1, false },
	{ "bytes: ", AT(bytes), 1, INT64_MAX, true },		{ "inodes: ", AT(inodes), 1, INT64_MAX, true },
	{ "soft-bytes: ", AT(soft_bytes), 1, INT64_MAX, true }, { "soft-inodes: ", AT(soft_inodes), 1, INT64_MAX, true },
	{ "grace: ", AT(grace), 1, INT64_MAX, true },		{ "ops: ", AT(ops), 1, INT64_MAX, true },
	{ "bandwidth: ", AT(bandwidth), 1, INT64_MAX, true },	{ "weight: ", AT(weight), 1, INT64_MAX, true },
};
enum { FIELDS = sizeof fields / sizeof *fields };

/* False also if it was there before: 0 is not written. */
static bool take_field(struct line *l, const struct field *f, struct spec_tenant *t)
{
	char *to = (char *)t + f->offset;
	uint64_t number;

	if ((f->is_wide ? *(uint64_t *)to : *(unsigned *)to) || !take_number(l, f->least, f->most, &number))
		return false;
	if (f->is_wide)
		*(uint64_t *)to = number;
	else
		*(unsigned *)to = (unsigned)number;
	return true;
}

/* ---- its access points: '      - id: ID', then '        KEY: VALUE' ---- */

static char *take_directory(struct line *l)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+@=~%";
	char *path;
	size_t length;

	if (!skip(l, "\"") || l->at == l->end || l->end[-1] != '"')
		return NULL;
	length = strspn(l->at, fine);
	if (l->at + length + 1 != l->end)
		return NULL;
	path = path_format("%.*s", (int)length, l->at);
	if (!word_decode(path))
		return path;
	free(path);
	return NULL;
}

static bool take_user(struct line *l, unsigned *id)
{
	uint64_t number;

	if (*id != SPEC_ACCESS_ANY || !take_number(l, 0, UINT32_MAX - 1, &number))
		return false;
	*id = (unsigned)number;
	return true;
}

static bool take_access(struct line *l, struct spec_tenant *t, unsigned line)
{
	struct spec_access *a = t->accesses ? &t->access[t->accesses - 1] : NULL;

	if (skip(l, "- id: ")) {
		a = spec_grow(&t->access, &t->accesses, sizeof *a);
		a->uid = a->gid = SPEC_ACCESS_ANY;
		a->line = line;
		return take_id(l, &a->id);
	}
	if (!a || !skip(l, "  "))
		return false;
	if (skip(l, "directory: "))
		return !a->directory && (a->directory = take_directory(l));
	if (skip(l, "uid: "))
		return take_user(l, &a->uid);
	if (skip(l, "gid: "))
		return take_user(l, &a->gid);
	if (skip(l, "expires: "))
		return !a->expires && take_number(l, 1, INT64_MAX, &a->expires);
	return skip(l, "read-only: true") && l->at == l->end && !a->read_only && (a->read_only = true);
}

/* *within: the lines before were of the access points. */
static bool take_member(struct line *l, struct spec_tenant *t, bool *within, unsigned line)
{
	if (!skip(l, "    "))
		return false;
	if (*within && skip(l, "  "))
		return take_access(l, t, line);
	if (*within && !t->accesses)
		return false;
	*within = skip(l, "access:");
	if (*within)
		return !t->accesses && l->at == l->end;
	for (size_t i = 0; i < FIELDS; i++)
		if (skip(l, fields[i].key))
			return take_field(l, &fields[i], t);
	if (skip(l, "id: "))
		return gfid_is_null(&t->id) && take_id(l, &t->id);
	return skip(l, "state: ") && t->state == SPEC_TENANT_ACTIVE && take_state(l, &t->state);
}

static bool is_whole(const struct spec *s, bool within)
{
	const struct spec_tenant *t = s->tenants ? &s->tenant[s->tenants - 1] : NULL;

	return !t || (!gfid_is_null(&t->id) && t->base && t->count && (!within || t->accesses));
}

/* ---- all ---- */

static struct spec_tenant *add(struct spec *s, size_t *room)
{
	if (s->tenants == *room) {
		*room = *room ? 2 * *room : 16;
		s->tenant = realloc(s->tenant, *room * sizeof *s->tenant);
		if (!s->tenant)
			abort(); /* as spec_grow */
	}
	return memset(&s->tenant[s->tenants++], 0, sizeof *s->tenant);
}

/* Up to the first line that does not belong to them. */
static bool take_all(const char **at, const char *end, unsigned *number, struct spec *s)
{
	const char *next = *at;
	size_t room = 0;
	bool within = false;
	struct line l;

	for (; next_line(&next, end, &l) && l.at < l.end && *l.at == ' '; *at = next) {
		struct spec_tenant *t;

		++*number;
		if (!skip(&l, "  - name: ")) {
			if (!s->tenants || !take_member(&l, &s->tenant[s->tenants - 1], &within, *number))
				return false;
			continue;
		}
		if (!is_whole(s, within))
			return false;
		within = false;
		t = add(s, &room);
		t->line = *number;
		t->name = take_name(&l);
		if (!t->name)
			return false;
	}
	return s->tenants && is_whole(s, within) &&
	       (*at == end || (**at >= 'a' && **at <= 'z')); /* behind it there is another key, or nothing */
}

static unsigned lines_in(const char *at, const char *end)
{
	unsigned lines = 0;

	while (at < end && (at = memchr(at, '\n', (size_t)(end - at)))) {
		at++;
		lines++;
	}
	return lines;
}

/* With an empty list, and as many lines, in place of what is between `from` and `to`. */
static char *without(const char *text, const char *from, const char *to, const char *end, size_t *size)
{
	static const char empty[] = " []";
	unsigned lines = lines_in(from, to);
	size_t before = (size_t)(from - text), after = (size_t)(end - to);
	char *rest = malloc(before + sizeof empty + lines + after), *at = rest;

	if (!rest)
		abort(); /* as above */
	memcpy(at, text, before);
	at += before - 1; /* before the line's end */
	memcpy(at, empty, sizeof empty - 1);
	at += sizeof empty - 1;
	memset(at, '\n', lines + 1);
	at += lines + 1;
	memcpy(at, to, after);
	*size = (size_t)(at - rest) + after;
	return rest;
}

/* Whether nothing that begins in a line goes on in the next: no quote, list, mapping in braces, or block of text. Then what stands at the beginning of a line is what it looks
 * like. Of what is printed this holds. */
static bool ends_with_lines(const char *at, const char *end)
{
	bool quoted = false;
	int lists = 0;

	for (; at < end; at++) {
		unsigned char c = (unsigned char)*at;

		if (c == '\n' && (quoted || lists))
			return false;
		if (quoted) {
			at += c == '\\' && at + 1 < end && at[1] != '\n';
			quoted = c != '"';
			continue;
		}
		if (c != '\n' && (c < ' ' || c > '~' || strchr("'{|>&*!%@", c)))
			return false;
		quoted = c == '"';
		lists += (c == '[') - (c == ']');
	}
	return true;
}

char *spec_take_written(const char *text, size_t size, struct spec *s, size_t *rest)
{
	static const char head[] = "\ntenants:\n";
	const char *end = text + size, *from, *to;
	unsigned line;

	if (size < strlen(SPEC_HEAD) || memcmp(text, SPEC_HEAD, strlen(SPEC_HEAD)) != 0 || memchr(text, '\0', size))
		return NULL;
	from = memmem(text, size, head, strlen(head));
	if (!from)
		return NULL;
	from = to = from + strlen(head);
	if (!ends_with_lines(text, from))
		return NULL;
	line = lines_in(text, from);
	if (take_all(&to, end, &line, s))
		return without(text, from, to, end, rest);
	spec_free_tenants(s);
	s->tenant = NULL;
	s->tenants = 0;
	return NULL;
}
