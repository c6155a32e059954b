/* SPDX-License-Identifier: Apache-2.0 */
/* Volfiles: text to volumes. The grammar is in doc/volfile.md. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph.h"

enum { TEXT_MAX = 64 << 20, VOLUMES_MAX = 4096, WORDS_MAX = 1024, OPTIONS_MAX = 256, WINDOW = 65536 };

struct parser {
	const char *at, *end, *path;
	unsigned line;
	struct volfile *v;
	struct volfile_volume *open; /* between volume and end-volume */
	struct problem *problem;
};

static int bad(struct parser *p, const char *what, const char *word)
{
	return problem_set(p->problem, EINVAL, "%s:%u: %s%s%.80s%s", p->path, p->line, what, word ? " \"" : "",
			   word ? word : "", word ? "\"" : "");
}

static void free_words(char **words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(words[i]);
}

/* How many bytes stand there for themselves: up to a quote or a backslash, or fewer. */
static size_t plain(const char *at, const char *end)
{
	size_t size = end - at < WINDOW ? (size_t)(end - at) : WINDOW;
	const char *quote = memchr(at, '"', size);
	const char *slash = memchr(at, '\\', quote ? (size_t)(quote - at) : size);

	return slash ? (size_t)(slash - at) : quote ? (size_t)(quote - at) : size;
}

/* Up to the closing quote, with \" and \\ as what they mean; or to the end, if there is none. There may be megabytes. */
static const char *take_quoted(const char *at, const char *end, char *to)
{
	while (at < end && *at != '"') {
		size_t size = plain(at, end);

		if (!size) { /* a backslash */
			at += at + 1 < end;
			size = 1;
		}
		memcpy(to, at, size);
		to += size;
		at += size;
	}
	*to = 0;
	return at;
}

/* Where the closing quote is, or the end. */
static const char *quote_end(const char *at, const char *end)
{
	while (at < end && *at != '"') {
		size_t size = plain(at, end);

		at += size ? size : at + 1 < end ? 2 : 1;
	}
	return at;
}

static const char *bare_end(const char *at, const char *end)
{
	while (at < end && !isspace((unsigned char)*at))
		at++;
	return at;
}

/* One word from `at`: bare, or in double quotes with \" and \\ inside. Returns where it ends; NULL when memory is short or a
 * quote is not closed (then *word is NULL). */
static const char *take_word(const char *at, const char *end, char **word)
{
	bool quoted = *at == '"';
	const char *until = quoted ? quote_end(at + 1, end) : bare_end(at, end);
	char *to = *word = malloc((size_t)(until - at) + 1); /* not the line's length: there are many words in it */

	if (!to)
		return NULL;
	if (!quoted) {
		memcpy(to, at, (size_t)(until - at));
		to[until - at] = 0;
		return until;
	}
	if (take_quoted(at + 1, end, to) < end)
		return until + 1;
	free(*word);
	*word = NULL;
	return NULL;
}

/* Splits one line into words; '#' begins a comment at the start of a word. Number of words, or -EINVAL. */
static int split(struct parser *p, const char *at, const char *end, char **words)
{
	int count = 0;

	for (;;) {
		while (at < end && isspace((unsigned char)*at))
			at++;
		if (at >= end || *at == '#')
			return count;
		if (count == WORDS_MAX) {
			free_words(words, (size_t)count);
			return bad(p, "too many words in one line", NULL);
		}
		at = take_word(at, end, &words[count]);
		if (!at) {
			free_words(words, (size_t)count);
			return bad(p, "a quote is opened here but not closed in the same line", NULL);
		}
		count++;
	}
}

static struct volfile_volume *find_volume(struct volfile *v, const char *name)
{
	for (size_t i = 0; i < v->volumes; i++)
		if (!strcmp(v->volume[i].name, name))
			return &v->volume[i];
	return NULL;
}

static int begin_volume(struct parser *p, char **words, int count)
{
	struct volfile_volume *grown;

	if (count != 2)
		return bad(p, "\"volume\" takes one name", NULL);
	if (p->open)
		return bad(p, "end-volume is missing before this line for volume", p->open->name);
	if (find_volume(p->v, words[1]))
		return bad(p, "there is already a volume called", words[1]);
	if (p->v->volumes == VOLUMES_MAX)
		return bad(p, "more than 4096 volumes", NULL);
	grown = realloc(p->v->volume, (p->v->volumes + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	p->v->volume = grown;
	p->open = &grown[p->v->volumes];
	*p->open = (struct volfile_volume){ .name = strdup(words[1]), .line = p->line };
	if (!p->open->name)
		return -ENOMEM;
	p->v->volumes++;
	return 0;
}

/* KIND/NAME and nothing else: it becomes the path of a file. */
static bool is_type(const char *word)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	size_t kind = strspn(word, fine), name = word[kind] == '/' ? strspn(word + kind + 1, fine) : 0;

	return kind && name && !word[kind + 1 + name];
}

static int set_type(struct parser *p, char **words, int count)
{
	if (count != 2 || !is_type(words[1]))
		return bad(p, "\"type\" takes one KIND/NAME, such as storage/posix", NULL);
	if (p->open->type)
		return bad(p, "a second \"type\" in volume", p->open->name);
	p->open->type = strdup(words[1]);
	return p->open->type ? 0 : -ENOMEM;
}

static char *join(char **words, int count)
{
	size_t size = 1;
	char *text;

	for (int i = 0; i < count; i++)
		size += strlen(words[i]) + 1;
	text = calloc(1, size);
	for (int i = 0; text && i < count; i++) {
		if (i)
			strcat(text, " ");
		strcat(text, words[i]);
	}
	return text;
}

static int add_option(struct parser *p, char **words, int count)
{
	struct volfile_volume *v = p->open;
	struct option_value *grown, *o;

	if (count < 3)
		return bad(p, "\"option\" takes a name and a value", NULL);
	for (size_t i = 0; i < v->options; i++)
		if (!strcmp(v->option[i].name, words[1]))
			return bad(p, "given twice in this volume: option", words[1]);
	if (v->options == OPTIONS_MAX)
		return bad(p, "more than 256 options in volume", v->name);
	grown = realloc(v->option, (v->options + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	v->option = grown;
	o = &grown[v->options];
	*o = (struct option_value){ strdup(words[1]), join(words + 2, count - 2), p->line };
	v->options++;
	return o->name && o->value ? 0 : -ENOMEM;
}

/* The line below this one that begins the volume of that name; 0: there is none. */
static unsigned line_below(const struct parser *p, const char *name)
{
	unsigned line = p->line;

	for (const char *at = p->at; (at = memchr(at, '\n', (size_t)(p->end - at)));) {
		const char *word, *end;

		line++;
		for (at++; at < p->end && (*at == ' ' || *at == '\t'); at++)
			;
		if (bare_end(at, p->end) - at != 6 || memcmp(at, "volume", 6) != 0)
			continue;
		for (word = at + 6; word < p->end && (*word == ' ' || *word == '\t'); word++)
			;
		end = bare_end(word, p->end);
		if ((size_t)(end - word) == strlen(name) && !memcmp(word, name, strlen(name)))
			return line;
	}
	return 0;
}

static int no_child(struct parser *p, const char *name)
{
	unsigned line = line_below(p, name);

	if (!strcmp(name, p->open->name))
		return bad(p, "a volume can't be its own subvolume:", name);
	if (!line)
		return bad(p, "no volume above this line is called", name);
	return problem_set(
		p->problem, EINVAL,
		"%s:%u: no volume above this line is called \"%.80s\": it stands below, in line %u, and what a volume names must come "
		"before it",
		p->path, p->line, name, line);
}

static int add_subvolumes(struct parser *p, char **words, int count)
{
	struct volfile_volume *v = p->open;

	if (count < 2)
		return bad(p, "\"subvolumes\" takes at least one name", NULL);
	if (v->subvolume)
		return bad(p, "a second \"subvolumes\" in volume", v->name);
	for (int i = 1; i < count; i++) {
		struct volfile_volume *child = find_volume(p->v, words[i]);

		if (!child || child == v)
			return no_child(p, words[i]);
	}
	v->subvolume = calloc((size_t)count - 1, sizeof(*v->subvolume));
	if (!v->subvolume)
		return -ENOMEM;
	for (; v->subvolumes < (size_t)count - 1; v->subvolumes++)
		if (!(v->subvolume[v->subvolumes] = strdup(words[v->subvolumes + 1])))
			return -ENOMEM;
	return 0;
}

static int end_volume(struct parser *p)
{
	if (!p->open->type)
		return bad(p, "\"type\" is missing in volume", p->open->name);
	p->open = NULL;
	return 0;
}

static int take_line(struct parser *p, char **words, int count)
{
	if (!strcmp(words[0], "volume"))
		return begin_volume(p, words, count);
	if (!p->open)
		return bad(p, "expected \"volume NAME\" before", words[0]);
	if (!strcmp(words[0], "type"))
		return set_type(p, words, count);
	if (!strcmp(words[0], "option"))
		return add_option(p, words, count);
	if (!strcmp(words[0], "subvolumes"))
		return add_subvolumes(p, words, count);
	if (!strcmp(words[0], "end-volume"))
		return end_volume(p);
	return bad(p, "expected type, option, subvolumes or end-volume, not", words[0]);
}

static int parse_lines(struct parser *p)
{
	char **words = malloc(WORDS_MAX * sizeof(*words));
	int err = words ? 0 : -ENOMEM;

	while (p->at < p->end && !err) {
		const char *end = memchr(p->at, '\n', (size_t)(p->end - p->at));
		int count;

		p->line++;
		if (!end)
			end = p->end;
		if (memchr(p->at, 0, (size_t)(end - p->at)))
			err = bad(p, "a NUL byte: this is not a text file", NULL);
		count = err ? err : split(p, p->at, end, words);
		err = count < 0 ? count : 0;
		if (count > 0) {
			err = take_line(p, words, count);
			free_words(words, (size_t)count);
		}
		p->at = end + 1;
	}
	free(words);
	if (!err && p->open)
		err = bad(p, "the file ends before end-volume of", p->open->name);
	if (!err && !p->v->volumes)
		err = problem_set(p->problem, EINVAL, "%s: no volume in it; see doc/volfile.md for the grammar", p->path);
	return err;
}

int volfile_parse(const char *text, size_t size, const char *path, struct volfile *v, struct problem *problem)
{
	struct parser p = { text, text + size, path, 0, v, NULL, problem };
	int err;

	*v = (struct volfile){ .path = strdup(path) };
	if (size > TEXT_MAX)
		err = problem_set(problem, EINVAL, "%s: larger than 64 MiB, so it can't be a volfile", path);
	else
		err = v->path ? parse_lines(&p) : -ENOMEM;
	if (err == -ENOMEM)
		problem_set(problem, ENOMEM, "%s: not enough memory to read it", path);
	if (err)
		volfile_free(v);
	return err;
}

int volfile_read(const char *path, struct volfile *v, struct problem *problem)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;
	struct stat st;
	char *text = NULL;
	size_t size = 0, room = 0;
	ssize_t n = 1;

	*v = (struct volfile){ 0 };
	if (fd < 0)
		return problem_set(problem, errno, "the volfile %s can't be opened: %s", path, strerror(errno));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > TEXT_MAX)
		err = problem_set(problem, EINVAL, "%s is not a volfile: give a text file of at most 64 MiB", path);
	room = err ? 0 : (size_t)st.st_size + 1;
	if (!err && !(text = malloc(room)))
		err = -ENOMEM;
	while (!err && n > 0 && size < room) {
		n = read(fd, text + size, room - size);
		if (n < 0)
			err = problem_set(problem, errno, "the volfile %s can't be read: %s", path, strerror(errno));
		else
			size += (size_t)n;
	}
	close(fd);
	if (!err && size == room)
		err = problem_set(problem, EAGAIN, "the volfile %s has grown while it was read: try again", path);
	if (!err)
		err = volfile_parse(text, size, path, v, problem);
	free(text);
	return err;
}

static struct option_value *find_option(struct volfile_volume *v, const char *name)
{
	for (size_t i = 0; i < v->options; i++)
		if (!strcmp(v->option[i].name, name))
			return &v->option[i];
	return NULL;
}

static int append_option(struct volfile_volume *v, const char *name, char *value)
{
	struct option_value *grown = realloc(v->option, (v->options + 1) * sizeof(*grown));
	char *copy = strdup(name);

	v->option = grown ? grown : v->option;
	if (!grown || !copy) {
		free(copy);
		free(value);
		return -ENOMEM;
	}
	grown[v->options++] = (struct option_value){ copy, value, 0 };
	return 0;
}

int volfile_set_option(struct volfile_volume *v, const char *name, const char *value)
{
	struct option_value *o = find_option(v, name);
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	if (!o)
		return append_option(v, name, copy);
	free(o->value);
	o->value = copy;
	return 0;
}

void volfile_free(struct volfile *v)
{
	for (size_t i = 0; i < v->volumes; i++) {
		struct volfile_volume *vol = &v->volume[i];

		for (size_t j = 0; j < vol->options; j++) {
			free(vol->option[j].name);
			free(vol->option[j].value);
		}
		free_words(vol->subvolume, vol->subvolumes);
		free(vol->option);
		free(vol->subvolume);
		free(vol->name);
		free(vol->type);
	}
	free(v->volume);
	free(v->path);
	*v = (struct volfile){ 0 };
}
