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
	struct problem p = {{0}};
	struct spec again;
	char *first = print(s), *second;

	MUST(!spec_parse(first, strlen(first), "again", &again, &p));
	second = print(&again);
	MUST(!strcmp(first, second));
	free(first);
	free(second);
	spec_free(&again);
}

/* Two types whose volumes volgen() may give the same name: "debug/trace", "other/trace"; "a/b-2" beside two of "a/b".
 */
static bool alike(const char *a, const char *b)
{
	const char *name = strchr(a, '/'), *other = strchr(b, '/');

	return strcmp(a, b) && !strncmp(name, other, strcspn(name, "-")) && !strncmp(name, other, strcspn(other, "-"));
}

static bool any_alike(const struct spec_list *list, const char *const *fixed)
{
	for (size_t i = 0; i < list->count; i++) {
		for (size_t k = 0; fixed[k]; k++)
			if (alike(list->item[i], fixed[k]))
				return true;
		for (size_t k = 0; k < i; k++)
			if (alike(list->item[i], list->item[k]))
				return true;
	}
	return false;
}

/* Faults of volgen() that are known and not the parser's: types that are alike; a memcpy of NULL for
 * "server-translators: []". Who mends them removes this. */
static bool known_fault(const struct spec *s)
{
	static const char *const server[] = {"storage/posix", "features/locks", "features/access", NULL},
	                         *const none[] = {NULL};

	return (s->has_server_translators && !s->server_translators.count) || any_alike(&s->client_translators, none) ||
	       any_alike(&s->server_translators, server);
}

static void volfiles_are_good(const struct spec *s)
{
	struct volgen_files files;
	struct problem p = {{0}};

	if (known_fault(s))
		return;
	if (volgen(s, &files, &p)) {
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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	char *text = malloc(size + 1); /* its own, so that a sanitizer sees a read behind the end */
	struct problem p = {{0}};
	struct spec s;

	memcpy(text, bytes, size);
	if (spec_parse(text, size, "fuzz.yaml", &s, &p)) {
		MUST(p.text[0]);
	} else {
		comes_back(&s);
		volfiles_are_good(&s);
	}
	spec_free(&s);
	free(text);
	return 0;
}
