/* SPDX-License-Identifier: Apache-2.0 */
/* Documents: found, changed, written as bytes and read again. */
#include "state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t store_size_max = STORE_SIZE_MAX;
static const char magic[] = "stratus store 1\n";

static bool key_is_fine(const char *key)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	size_t kind = strspn(key, fine), name = key[kind] == '/' ? strspn(key + kind + 1, fine) : 0;

	return kind && name && !key[kind + 1 + name] && kind + 1 + name < STORE_KEY_MAX;
}

/* Where it is, or where it would stand. */
static size_t place(const struct state *s, const char *key)
{
	size_t low = 0, high = s->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (strcmp(s->document[middle].key, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct document *state_find(const struct state *s, const char *key)
{
	size_t at = place(s, key);

	return at < s->count && !strcmp(s->document[at].key, key) ? &s->document[at] : NULL;
}

static int blob_copy(struct blob *to, const void *bytes, size_t size)
{
	to->bytes = malloc(size + 1);
	if (!to->bytes)
		return -ENOMEM;
	if (size)
		memcpy(to->bytes, bytes, size);
	((char *)to->bytes)[size] = '\0';
	to->size = size;
	return 0;
}

/* A document that is not there yet; its place in the array. */
static int insert(struct state *s, const char *key, struct document **made)
{
	size_t at = place(s, key);
	struct document *grown = realloc(s->document, (s->count + 1) * sizeof *grown);
	char *copy = strdup(key);

	if (grown)
		s->document = grown;
	if (!grown || !copy) {
		free(copy);
		return -ENOMEM;
	}
	memmove(grown + at + 1, grown + at, (s->count - at) * sizeof *grown);
	grown[at] = (struct document){ .key = copy, .gone = true };
	s->count++;
	*made = &grown[at];
	return 0;
}

static int put(struct state *s, const struct store_change *c)
{
	struct document *d = (struct document *)state_find(s, c->key);
	struct blob value = { 0 };
	int err = c->value ? blob_copy(&value, c->value->bytes, c->value->size) : 0;

	if (!err && !d)
		err = insert(s, c->key, &d);
	if (err) {
		free(value.bytes);
		return err;
	}
	free(d->value.bytes);
	d->value = value;
	d->gone = !c->value;
	d->version++;
	return 0;
}

static int check(const struct state *s, const struct store_change *change, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct document *d;

		if (!key_is_fine(change[i].key) || (change[i].value && change[i].value->size > STORE_VALUE_MAX))
			return -EINVAL;
		for (size_t before = 0; before < i; before++)
			if (!strcmp(change[before].key, change[i].key))
				return -EINVAL;
		d = state_find(s, change[i].key);
		if (change[i].version != (d ? d->version : 0))
			return -ESTALE;
	}
	return 0;
}

int state_copy(const struct state *from, struct state *to)
{
	*to = (struct state){ .index = from->index };
	to->document = calloc(from->count + 1, sizeof *to->document);
	if (!to->document)
		return -ENOMEM;
	for (; to->count < from->count; to->count++) {
		const struct document *d = &from->document[to->count];
		struct document *copy = &to->document[to->count];

		*copy = (struct document){ .key = strdup(d->key), .version = d->version, .gone = d->gone };
		if (!copy->key || blob_copy(&copy->value, d->value.bytes, d->value.size)) {
			free(copy->key);
			state_free(to);
			return -ENOMEM;
		}
	}
	return 0;
}

/* At most so many bytes are those of state_encode(). */
static size_t size_of(const struct state *s)
{
	enum { LINE = sizeof "document  18446744073709551615 4294967295\n\n" };
	size_t size = 256;

	for (size_t i = 0; i < s->count; i++)
		size += LINE + strlen(s->document[i].key) + s->document[i].value.size;
	return size;
}

int state_apply(struct state *s, const struct store_change *change, size_t count)
{
	struct state next;
	int err = check(s, change, count);

	if (!err)
		err = state_copy(s, &next);
	if (err)
		return err;
	for (size_t i = 0; i < count && !err; i++)
		err = put(&next, &change[i]);
	if (!err && size_of(&next) > store_size_max && size_of(&next) > size_of(s))
		err = -E2BIG;
	if (err) {
		state_free(&next);
		return err;
	}
	next.index++;
	state_free(s);
	*s = next;
	return 0;
}

void state_free(struct state *s)
{
	for (size_t i = 0; i < s->count; i++) {
		free(s->document[i].key);
		free(s->document[i].value.bytes);
	}
	free(s->document);
	*s = (struct state){ 0 };
}

/* ---- bytes ---- */

/* FNV-1a (Fowler, Noll, Vo), 64 bits: finds what a disk has spoilt; nobody is expected to forge it. */
static uint64_t checksum(const void *bytes, size_t size)
{
	uint64_t sum = 0xcbf29ce484222325;

	for (const unsigned char *at = bytes; size--; at++)
		sum = (sum ^ *at) * 0x100000001b3;
	return sum;
}

static void encode_document(FILE *to, const char *key, uint64_t version, const struct blob *value)
{
	fprintf(to, "%s %s %" PRIu64 " %u\n", value ? "document" : "gone", key, version, value ? (unsigned)value->size : 0);
	if (value)
		fwrite(value->bytes, 1, value->size, to);
	fputc('\n', to);
}

int state_encode(const struct state *s, struct blob *out)
{
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		return -ENOMEM;
	fprintf(to, "%sindex %" PRIu64 " documents %zu\n", magic, s->index, s->count);
	for (size_t i = 0; i < s->count; i++) {
		const struct document *d = &s->document[i];

		encode_document(to, d->key, d->version, d->gone ? NULL : &d->value);
	}
	fflush(to);
	fprintf(to, "sum %016" PRIx64 "\n", checksum(text, size));
	if (fclose(to)) {
		free(text);
		return -ENOMEM;
	}
	if (size > STORE_SIZE_MAX) {
		free(text);
		return -E2BIG;
	}
	*out = (struct blob){ .size = size, .bytes = text };
	return 0;
}

enum { SUM_LINE = 4 + 16 + 1 };

static int decode_document(const char **at, const char *end, struct document *d)
{
	char word[16], key[STORE_KEY_MAX];
	const char *newline = memchr(*at, '\n', end - *at);
	unsigned size;
	int used = 0;

	if (!newline || sscanf(*at, "%15s %127s %" SCNu64 " %u%n", word, key, &d->version, &size, &used) != 4)
		return -EINVAL;
	d->gone = !strcmp(word, "gone");
	if (*at + used != newline || !key_is_fine(key) || (!d->gone && strcmp(word, "document")) || size > STORE_VALUE_MAX ||
	    size >= (size_t)(end - newline - 1) || newline[1 + size] != '\n' || (d->gone && size) || !d->version)
		return -EINVAL;
	d->key = strdup(key);
	if (!d->key)
		return -ENOMEM;
	*at = newline + 1 + size + 1;
	return blob_copy(&d->value, newline + 1, size);
}

static int decode_documents(const char *at, const char *end, size_t count, struct state *s)
{
	int err = 0;

	s->document = calloc(count + 1, sizeof *s->document);
	if (!s->document)
		return -ENOMEM;
	while (!err && s->count < count) {
		err = decode_document(&at, end, &s->document[s->count++]);
		if (!err && s->count > 1 && strcmp(s->document[s->count - 2].key, s->document[s->count - 1].key) >= 0)
			err = -EINVAL;
	}
	return err ? err : at == end ? 0 : -EINVAL;
}

static void sum_line(const void *bytes, size_t size, char line[SUM_LINE + 1])
{
	snprintf(line, SUM_LINE + 1, "sum %016" PRIx64 "\n", checksum(bytes, size));
}

/* The text ends with a NUL: blob_copy() has put one there. */
static int decode_text(const char *text, size_t size, struct state *s)
{
	const char *end = text + size - SUM_LINE;
	char line[SUM_LINE + 1];
	size_t count;
	int used = 0;

	if (size < sizeof magic - 1 + SUM_LINE || memcmp(text, magic, sizeof magic - 1))
		return -EINVAL;
	sum_line(text, end - text, line);
	if (memcmp(end, line, SUM_LINE))
		return -EINVAL;
	text += sizeof magic - 1;
	if (sscanf(text, "index %" SCNu64 " documents %zu%n", &s->index, &count, &used) != 2 || text[used] != '\n' ||
	    count > size)
		return -EINVAL;
	return decode_documents(text + used + 1, end, count, s);
}

int state_decode(const void *bytes, size_t size, struct state *s)
{
	struct blob copy;
	int err = blob_copy(&copy, bytes, size);

	*s = (struct state){ 0 };
	if (!err)
		err = decode_text(copy.bytes, size, s);
	if (err)
		state_free(s);
	free(copy.bytes);
	return err;
}

/* ---- changes ---- */

enum { CHANGES_MAX = 128 };

int changes_encode(const struct store_change *change, size_t count, struct blob *out)
{
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);

	if (!to || count > CHANGES_MAX) { /* who applies it would refuse it */
		if (to)
			fclose(to);
		free(text);
		return to ? -E2BIG : -ENOMEM;
	}
	fprintf(to, "changes %zu\n", count);
	for (size_t i = 0; i < count; i++)
		encode_document(to, change[i].key, change[i].version + 1, change[i].value);
	if (fclose(to)) {
		free(text);
		return -ENOMEM;
	}
	*out = (struct blob){ .size = size, .bytes = text };
	return 0;
}

void changes_free(struct store_change *change, size_t count)
{
	for (size_t i = 0; change && i < count; i++) {
		if (change[i].value)
			free(change[i].value->bytes);
		free((void *)change[i].value);
		free((void *)change[i].key);
	}
	free(change);
}

static int take_change(struct document *d, struct store_change *c)
{
	struct blob *value = d->gone ? NULL : malloc(sizeof *value);

	if (!d->gone && !value)
		return -ENOMEM;
	if (value)
		*value = d->value;
	else
		free(d->value.bytes);
	*c = (struct store_change){ d->key, d->version - 1, value };
	return 0;
}

/* The text ends with a NUL. */
static int decode_changes(const char *text, size_t size, struct store_change **made, size_t *count)
{
	const char *end = text + size;
	size_t wanted;
	int used = 0, err = 0;

	if (sscanf(text, "changes %zu%n", &wanted, &used) != 1 || text[used] != '\n' || !wanted || wanted > CHANGES_MAX)
		return -EINVAL;
	*made = calloc(wanted, sizeof **made);
	if (!*made)
		return -ENOMEM;
	for (text += used + 1; *count < wanted && !err;) {
		struct document d = { 0 };

		err = decode_document(&text, end, &d);
		if (!err)
			err = take_change(&d, &(*made)[*count]);
		if (err) {
			free(d.key);
			free(d.value.bytes);
		} else {
			++*count;
		}
	}
	return err ? err : text == end ? 0 : -EINVAL;
}

int changes_decode(const void *bytes, size_t size, struct store_change **made, size_t *count)
{
	struct blob copy;
	int err;

	while (size && !((const char *)bytes)[size - 1])
		size--; /* a log may want whole words */
	err = blob_copy(&copy, bytes, size);
	*made = NULL;
	*count = 0;
	if (!err)
		err = decode_changes(copy.bytes, size, made, count);
	if (err) {
		changes_free(*made, *count);
		*made = NULL;
		*count = 0;
	}
	free(copy.bytes);
	return err;
}
