/* SPDX-License-Identifier: Apache-2.0 */
/* stratus-graph-run VOLFILE SCRIPT: runs a script of file operations on a graph in this process and checks the answers. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tree.h"

static const char help[] =
	"Usage: stratus-graph-run VOLFILE SCRIPT\n"
	"Runs a script of file operations on a graph, in this process, without a mount or a server.\n\n"
	"One command in a line; \"...\" keeps words together, # begins a comment. The lines \"> TEXT\" below a command are what it\n"
	"must print, \"! ENAME\" is the error it must fail with; a command without them must succeed, and is free to print.\n"
	"Exit status: 0 all was as the script says, 1 something was not, 2 the script can't be run.\n\n"
	"  mkdir PATH [MODE]   create PATH [MODE]   mv FROM TO          rm PATH       rmdir PATH\n"
	"  ln OLD PATH         symlink TARGET PATH  readlink PATH       ls PATH       stat PATH\n"
	"  read PATH           write PATH OFFSET TEXT                   truncate PATH SIZE\n"
	"  chmod PATH MODE     chown PATH UID GID   access PATH rwx\n"
	"  setxattr PATH NAME VALUE                 getxattr PATH NAME  removexattr PATH NAME\n"
	"  at VOLUME                  call this translator from here on (at first: the top)\n"
	"  as UID GID [GROUP...]      be this user from here on (at first: root)\n"
	"  set VOLUME OPTION VALUE    change a live option\n"
	"  ctl VOLUME WORDS...        give the translator a command\n";

enum { WORDS = 16 };
struct script {
	struct tree tree;
	gid_t groups[WORDS];
	const char *path;
	FILE *file;
	char *line; /* the one being read, without its end */
	size_t room;
	unsigned number;
	bool ahead; /* line was read but not used */
	unsigned failures;
};
struct command {
	const char *name;
	int least, most; /* words after the name */
	int (*run)(struct script *, char **word, FILE *out);
};

static mode_t mode_or(const char *text, mode_t preset)
{
	return text ? strtoul(text, NULL, 8) : preset;
}

static int run_mkdir(struct script *s, char **w, FILE *out)
{
	(void)out;
	return tree_mkdir(&s->tree, w[1], mode_or(w[2], 0755));
}

static int run_create(struct script *s, char **w, FILE *out)
{
	(void)out;
	return tree_create(&s->tree, w[1], O_RDWR | O_EXCL, mode_or(w[2], 0644), NULL);
}

static int run_write(struct script *s, char **w, FILE *out)
{
	struct file *file;
	int err = tree_open_file(&s->tree, w[1], O_WRONLY, &file);

	(void)out;
	if (err)
		return err;
	err = tree_write(&s->tree, file, strtoull(w[2], NULL, 0), w[3], strlen(w[3]));
	tree_release(&s->tree, file);
	return err;
}

static int run_read(struct script *s, char **w, FILE *out)
{
	struct buffer *data = NULL;
	struct file *file;
	int err = tree_open_file(&s->tree, w[1], O_RDONLY, &file);

	if (err)
		return err;
	err = tree_read(&s->tree, file, 0, 65536, &data);
	if (!err)
		fprintf(out, "%.*s\n", (int)data->size, data->data);
	buffer_unref(data);
	tree_release(&s->tree, file);
	return err;
}

static int run_truncate(struct script *s, char **w, FILE *out)
{
	(void)out;
	return tree_setattr(&s->tree, w[1], &(struct setattr){ .valid = SET_SIZE, .size = strtoull(w[2], NULL, 0) });
}

static int run_stat(struct script *s, char **w, FILE *out)
{
	struct attr a;
	int err = tree_getattr(&s->tree, w[1], &a);

	if (!err)
		fprintf(out, "%06o %u:%u links %u size %llu\n", a.mode, a.uid, a.gid, a.nlink, (unsigned long long)a.size);
	return err;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct dirent_plus *)a)->name, ((const struct dirent_plus *)b)->name);
}

static int run_ls(struct script *s, char **w, FILE *out)
{
	struct readdir_out all = { 0 };
	struct file *dir;
	int err = tree_opendir(&s->tree, w[1], &dir);

	if (err)
		return err;
	err = tree_readdir(&s->tree, dir, &all.entries);
	if (all.entries.count)
		qsort(all.entries.entry, all.entries.count, sizeof(*all.entries.entry), by_name);
	for (uint32_t i = 0; !err && i < all.entries.count; i++)
		fprintf(out, "%s\n", all.entries.entry[i].name);
	fop_out_clear(FOP_readdir, &all);
	tree_release(&s->tree, dir);
	return err;
}

static int run_rm(struct script *s, char **w, FILE *out)
{
	(void)out;
	return tree_unlink(&s->tree, w[1]);
}

static int run_rmdir(struct script *s, char **w, FILE *out)
{
	(void)out;
	return tree_rmdir(&s->tree, w[1]);
}

static int run_mv(struct script *s, char **w, FILE *out)
{
	(void)out;
	return tree_rename(&s->tree, w[1], w[2], 0);
}

static int run_ln(struct script *s, char **w, FILE *out)
{
	(void)out;
	return tree_link(&s->tree, w[1], w[2]);
}

static int run_symlink(struct script *s, char **w, FILE *out)
{
	(void)out;
	return tree_symlink(&s->tree, w[1], w[2]);
}

static int run_readlink(struct script *s, char **w, FILE *out)
{
	char *target = NULL;
	int err = tree_readlink(&s->tree, w[1], &target);

	if (!err)
		fprintf(out, "%s\n", target);
	free(target);
	return err;
}

static int run_access(struct script *s, char **w, FILE *out)
{
	int mask = (strchr(w[2], 'r') ? R_OK : 0) | (strchr(w[2], 'w') ? W_OK : 0) | (strchr(w[2], 'x') ? X_OK : 0);

	(void)out;
	return tree_access(&s->tree, w[1], mask);
}

static int run_chmod(struct script *s, char **w, FILE *out)
{
	(void)out;
	return tree_setattr(&s->tree, w[1], &(struct setattr){ .valid = SET_MODE, .mode = mode_or(w[2], 0) });
}

static int run_chown(struct script *s, char **w, FILE *out)
{
	(void)out;
	return tree_setattr(&s->tree, w[1],
			    &(struct setattr){ .valid = SET_UID | SET_GID, .uid = atoi(w[2]), .gid = atoi(w[3]) });
}

static int run_setxattr(struct script *s, char **w, FILE *out)
{
	(void)out;
	return tree_setxattr(&s->tree, w[1], w[2], w[3], strlen(w[3]), 0);
}

static int run_getxattr(struct script *s, char **w, FILE *out)
{
	struct blob value = { 0 };
	int err = tree_getxattr(&s->tree, w[1], w[2], &value);

	if (!err)
		fprintf(out, "%.*s\n", (int)value.size, (const char *)value.bytes);
	free(value.bytes);
	return err;
}

static int run_removexattr(struct script *s, char **w, FILE *out)
{
	(void)out;
	return tree_removexattr(&s->tree, w[1], w[2]);
}

static int run_at(struct script *s, char **w, FILE *out)
{
	(void)out;
	s->tree.at = tree_find(&s->tree, w[1]);
	return 0;
}

static int run_as(struct script *s, char **w, FILE *out)
{
	int count = 0;

	(void)out;
	s->tree.uid = atoi(w[1]);
	s->tree.gid = atoi(w[2]);
	for (; w[3 + count]; count++)
		s->groups[count] = atoi(w[3 + count]);
	s->tree.groups = s->groups;
	s->tree.group_count = count;
	return 0;
}

static int run_set(struct script *s, char **w, FILE *out)
{
	struct xlator *x = tree_find(&s->tree, w[1]);
	struct problem problem = { "" };
	char who[256];
	int err;

	snprintf(who, sizeof(who), "volume %s (%s)", x->name, x->type->name);
	err = option_change(x->type->options, x->private, who, w[2], w[3], &problem);
	if (err)
		fprintf(out, "%s\n", problem.text);
	else if (x->type->reconfigure)
		x->type->reconfigure(x, option_find(x->type->options, w[2]));
	return err;
}

static int run_ctl(struct script *s, char **w, FILE *out)
{
	struct xlator *x = tree_find(&s->tree, w[1]);
	long before = ftell(out);
	int words = 0, err;

	while (w[2 + words])
		words++;
	if (!x->type->command) {
		fprintf(out, "volume %s (%s) takes no commands\n", x->name, x->type->name);
		return -ENOTSUP;
	}
	err = x->type->command(x, words, w + 2, out);
	if (err && ftell(out) == before)
		fprintf(out, "volume %s (%s) does not take the command %s\n", x->name, x->type->name, w[2]);
	return err;
}

static const struct command commands[] = {
	{ "mkdir", 1, 2, run_mkdir },
	{ "create", 1, 2, run_create },
	{ "write", 3, 3, run_write },
	{ "read", 1, 1, run_read },
	{ "truncate", 2, 2, run_truncate },
	{ "stat", 1, 1, run_stat },
	{ "ls", 1, 1, run_ls },
	{ "rm", 1, 1, run_rm },
	{ "rmdir", 1, 1, run_rmdir },
	{ "mv", 2, 2, run_mv },
	{ "ln", 2, 2, run_ln },
	{ "symlink", 2, 2, run_symlink },
	{ "readlink", 1, 1, run_readlink },
	{ "access", 2, 2, run_access },
	{ "chmod", 2, 2, run_chmod },
	{ "chown", 3, 3, run_chown },
	{ "setxattr", 3, 3, run_setxattr },
	{ "getxattr", 2, 2, run_getxattr },
	{ "removexattr", 2, 2, run_removexattr },
	{ "at", 1, 1, run_at },
	{ "as", 2, WORDS - 2, run_as },
	{ "set", 3, 3, run_set },
	{ "ctl", 2, WORDS - 2, run_ctl },
};

/* ---- the script ---- */

static bool next_line(struct script *s)
{
	ssize_t n;

	if (s->ahead) {
		s->ahead = false;
		return true;
	}
	n = getline(&s->line, &s->room, s->file);
	if (n < 0)
		return false;
	if (n && s->line[n - 1] == '\n')
		s->line[n - 1] = '\0';
	s->number++;
	return true;
}

static void fail(struct script *s, unsigned line, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void fail(struct script *s, unsigned line, const char *format, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%u: ", s->path, line);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	s->failures++;
}

/* Words are separated by blanks; "..." keeps them together. */
static int split(char *line, char *word[WORDS + 1])
{
	int count = 0;

	while (count < WORDS) {
		line += strspn(line, " \t");
		if (!*line)
			break;
		word[count++] = line + (*line == '"');
		line += *line == '"' ? 1 + strcspn(line + 1, "\"") : strcspn(line, " \t");
		if (*line)
			*line++ = '\0';
	}
	word[count] = NULL;
	return count;
}

enum { COMMANDS = sizeof(commands) / sizeof(*commands) };

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static void fail_unknown(struct script *s, const char *name)
{
	const char *names[COMMANDS + 1] = { NULL }, *nearest;

	for (size_t i = 0; i < COMMANDS; i++)
		names[i] = commands[i].name;
	nearest = nearest_name(name, names);
	fail(s, s->number, "there is no command %s%s%s; --help lists them", name, nearest ? ": did you mean " : "",
	     nearest ? nearest : "");
}

static bool has_dots(const char *path)
{
	for (; *path; path += strcspn(path, "/"), path += *path == '/') {
		size_t length = strcspn(path, "/");

		if (length && length <= 2 && !strncmp(path, "..", length))
			return true;
	}
	return false;
}

/* Why a path makes no sense to a translator: in a mount the kernel would have seen to that. */
static void explain(char **word, FILE *out)
{
	for (; *word; word++)
		if (has_dots(*word)) {
			fprintf(out, "paths begin at the root, which is /, and have no . or .. in them: %s\n", *word);
			return;
		}
}

/* Compares with the lines "> " and "! " that follow. */
static void check(struct script *s, unsigned line, int err, char *text)
{
	const char *wanted = NULL;
	bool any = false;
	char *said;

	while (next_line(s)) {
		if (s->line[0] == '>') {
			said = strsep(&text, "\n");
			if (!said || strcmp(said, s->line + (s->line[1] == ' ' ? 2 : 1)))
				fail(s, s->number, said ? "it said \"%s\" instead" : "it said no more", said);
			any = true;
		} else if (s->line[0] == '!') {
			wanted = s->line + 1 + strspn(s->line + 1, " ");
			if (!err || strcmp(wanted, strerrorname_np(-err) ? strerrorname_np(-err) : ""))
				fail(s, s->number, "it gave %s", err ? error_text(err) : "no error");
		} else {
			s->ahead = true;
			break;
		}
	}
	if (err && !wanted)
		fail(s, line, "%s%s%.*s", error_text(err), text && *text ? ": " : "", text ? (int)strcspn(text, "\n") : 0,
		     text ? text : "");
	else if (any && text && *text)
		fail(s, line, "it also said \"%s\"", text);
	else if (!any && text)
		fputs(text, stdout);
}

static void run_line(struct script *s)
{
	unsigned line = s->number;
	char *word[WORDS + 1], *text = NULL;
	size_t size = 0;
	int words = split(s->line, word), err;
	const struct command *c = words && *word[0] != '#' ? find(word[0]) : NULL;
	FILE *out;

	if (!words || *word[0] == '#')
		return;
	if (!c) {
		fail_unknown(s, word[0]);
		return;
	}
	if (words - 1 < c->least || words - 1 > c->most) {
		fail(s, line, "%s is followed by %d words, not by %d to %d; --help says which", c->name, words - 1, c->least,
		     c->most);
		return;
	}
	out = open_memstream(&text, &size);
	err = c->run(s, word, out);
	if (err == -EINVAL)
		explain(word + 1, out);
	fclose(out);
	check(s, line, err, text);
	free(text);
}

static void run(void *arg)
{
	struct script *s = arg;

	while (next_line(s))
		run_line(s);
}

static char *read_all(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = NULL;
	size_t room = 0;

	if (!f || (getdelim(&text, &room, '\0', f) < 0 && !feof(f))) {
		fprintf(stderr, "can't read %s: %s\n", path, strerror(errno));
		exit(2);
	}
	if (ftell(f) == 0) { /* the parser says what is missing */
		free(text);
		text = strdup("");
	}
	fclose(f);
	return text;
}

int main(int argc, char **argv)
{
	struct script s = { 0 };
	struct problem problem = { "" };
	char *volfile;

	if (argc == 2 && !strcmp(argv[1], "--help"))
		return fputs(help, stdout) < 0;
	if (argc != 3) {
		fputs("usage: stratus-graph-run VOLFILE SCRIPT (or --help)\n", stderr);
		return 2;
	}
	volfile = read_all(argv[1]);
	s.path = argv[2];
	s.file = fopen(argv[2], "r");
	if (!s.file) {
		fprintf(stderr, "can't read %s: %s\n", argv[2], strerror(errno));
		return 2;
	}
	if (runtime_start(1, 0) || tree_open_named(&s.tree, argv[1], volfile, &problem)) {
		fprintf(stderr, "%s\n", *problem.text ? problem.text : strerror(errno));
		return 2;
	}
	task_call(run, &s);
	tree_close(&s.tree);
	runtime_stop();
	fclose(s.file);
	free(s.line);
	free(volfile);
	return s.failures ? 1 : 0;
}
