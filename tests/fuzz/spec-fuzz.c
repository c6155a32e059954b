/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the specification of a volume: one that is taken must come back the same when printed and parsed again, and
 * the volfiles that are made of it must be ones that the volfile parser takes. */
#include "fuzz.h"

#include <string.h>

#include "graph.h"
#include "volgen.h"

static char *print(const struct spec *s)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	spec_print(s, to);
	fclose(to);
	return text;
}

static void comes_back(const struct spec *s)
{
	struct problem p = { { 0 } };
	struct spec again;
	char *first = print(s), *second;

	MUST(!spec_parse(first, strlen(first), "again", &again, &p));
	second = print(&again);
	MUST(!strcmp(first, second));
	free(first);
	free(second);
	spec_free(&again);
}

static void volfiles_are_good(const struct spec *s)
{
	struct volgen_files files;
	struct problem p = { { 0 } };

	if (volgen(s, NULL, &files, &p)) {
		MUST(p.text[0] && !files.count);
		return;
	}
	for (size_t i = 0; i < files.count; i++) {
		struct volfile v;

		MUST(!volfile_parse(files.file[i].text, strlen(files.file[i].text), files.file[i].name, &v, &p));
		volfile_free(&v);
	}
	volgen_free(&files);
}

/* What is read line by line (volgen/spec-written.c) is what YAML says: with another first line nothing is. */
static void reads_the_same(char *text, size_t size, int err, const struct spec *s, const struct problem *p)
{
	struct problem other = { { 0 } };
	struct spec again;
	char *one, *two;

	if (size < strlen(SPEC_HEAD) || memcmp(text, SPEC_HEAD, strlen(SPEC_HEAD)))
		return;
	text[2] = 'a';
	MUST(spec_parse(text, size, "fuzz.yaml", &again, &other) == err);
	MUST(!strcmp(p->text, other.text));
	if (!err) {
		one = print(s);
		two = print(&again);
		MUST(!strcmp(one, two));
		free(one);
		free(two);
	}
	spec_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	char *text = malloc(size + 1); /* its own, so that a sanitizer sees a read behind the end */
	struct problem p = { { 0 } };
	struct spec s;
	int err;

	memcpy(text, bytes, size);
	err = spec_parse(text, size, "fuzz.yaml", &s, &p);
	reads_the_same(text, size, err, &s, &p);
	if (err) {
		MUST(p.text[0]);
	} else {
		comes_back(&s);
		volfiles_are_good(&s);
	}
	spec_free(&s);
	free(text);
	return 0;
}
