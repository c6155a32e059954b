/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket: a thread that answers one command at a time. */
#include "control.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "graph.h"

enum { LINE_MAX_BYTES = 4096, WORDS = 64, NO_FD_US = 100000 };

static struct {
	struct control_handler handler;
	char path[256];
	int listener;
	pthread_t thread;
	bool running;
} control = { .listener = -1 };

const char *control_rundir(void)
{
	static char dir[200];
	const char *given = getenv("STRATUS_RUN"), *user = getenv("XDG_RUNTIME_DIR");

	if (given && *given)
		snprintf(dir, sizeof(dir), "%s", given);
	else if (!geteuid())
		snprintf(dir, sizeof(dir), "/run/stratus");
	else if (user && *user)
		snprintf(dir, sizeof(dir), "%s/stratus", user);
	else
		snprintf(dir, sizeof(dir), "/tmp/stratus-%u", (unsigned)geteuid());
	mkdir(dir, 0700);
	return dir;
}

static void print_request(const struct request *rq, void *arg)
{
	FILE *out = arg;
	unsigned depth = atomic_load_explicit(&rq->depth, memory_order_acquire);

	if (!depth)
		return; /* its owner still writes into it, or is done with it */
	fprintf(out, "request %" PRIx64 " uid %u pid %d age %" PRIu64 " ms:", rq->id, rq->uid, (int)rq->pid,
		(clock_ns() - rq->born_ns) / 1000000);
	for (unsigned i = 0; i < depth && i < TRAIL_MAX; i++) {
		const struct xlator *x = atomic_load_explicit(&rq->trail[i].at, memory_order_relaxed);

		fprintf(out, " %s.%s", x->name, fop_name(atomic_load_explicit(&rq->trail[i].fop, memory_order_relaxed)));
	}
	fputc('\n', out);
}

static void dump_graph(struct graph *g, void *out)
{
	graph_dump(g, out);
}

void control_dump(FILE *out)
{
	struct runtime_stats s;

	runtime_stats(&s);
	fprintf(out, "program %s pid %d log-level %s\n", control.handler.program, (int)getpid(),
		log_level_name(log_get_level()));
	fprintf(out,
		"tasks live %" PRIu64 " peak %" PRIu64 " total %" PRIu64 " switches %" PRIu64 " takeovers %" PRIu64
		" stacks %" PRIu64 " not polled for lack of CPUs %" PRIu64 "\n",
		s.tasks_live, s.tasks_peak, s.tasks_total, s.switches, s.takeovers, s.stacks, s.not_polled);
	fprintf(out, "memory buffers %zu files %zu requests %zu\n", buffer_pool_bytes(), file_count(), requests_in_flight());
	control.handler.each_graph(dump_graph, out);
	requests_each(print_request, out);
}

/* ---- commands ---- */

/* Something to do with the volume of that name, while its graph can't go. */
struct visit {
	const char *name;
	int (*act)(struct xlator *, int words, char **word, FILE *out, struct problem *);
	int words;
	char **word;
	FILE *out;
	struct problem *p;
	bool found;
	int err;
};

/* "NAME", or "GRAPH:NAME". */
static struct xlator *find_in(struct graph *g, const char *name)
{
	const char *colon = strrchr(name, ':');
	size_t length = colon ? (size_t)(colon - name) : 0;
	struct xlator *x = graph_find(g, name);

	if (!x && colon && strlen(g->path) == length && !strncmp(g->path, name, length))
		x = graph_find(g, colon + 1);
	return x;
}

static void visit_one(struct visit *v, struct xlator *x)
{
	v->found = true;
	v->err = v->act(x, v->words, v->word, v->out, v->p);
}

/* "KIND/NAME": all of that type, in all graphs, until one fails. */
static void visit_type(struct visit *v, struct graph *g)
{
	for (size_t i = 0; i < g->count && !v->err; i++)
		if (!strcmp(g->xlator[i]->type->name, v->name))
			visit_one(v, g->xlator[i]);
}

static void visit_in(struct graph *g, void *arg)
{
	struct visit *v = arg;
	struct xlator *x = v->found ? NULL : find_in(g, v->name);

	if (x)
		visit_one(v, x);
	else if (strchr(v->name, '/'))
		visit_type(v, g);
}

static int visit(struct visit *v)
{
	control.handler.each_graph(visit_in, v);
	return v->found
		       ? v->err
		       : problem_set(v->p, ENOENT, "there is no volume %s in this process; `stratus dump` lists them", v->name);
}

static int change_option(struct xlator *x, int words, char **word, FILE *out, struct problem *p)
{
	const struct option *o;
	char who[256];
	int err;

	(void)words, (void)out;
	snprintf(who, sizeof(who), "volume %s (%s)", x->name, x->type->name);
	err = option_change(x->type->options, x->private, who, word[2], word[3], p);
	if (err)
		return err;
	o = option_find(x->type->options, word[2]);
	if (x->type->reconfigure)
		x->type->reconfigure(x, o);
	log_info(x, NULL, "option %s is now %s", word[2], word[3]);
	return 0;
}

static int set_option(int words, char **word, struct problem *p)
{
	if (words < 3)
		return problem_set(p, EINVAL, "set takes a volume, an option and a value");
	for (int i = 4; i < words; i++)
		word[i][-1] = ' '; /* the value goes to the end of the line */
	if (words == 3)
		word[3] = (char *)"";
	return visit(&(struct visit){ .name = word[1], .act = change_option, .words = words, .word = word, .p = p });
}

/* Closes what was written to memory. Half of an answer would pass for all of it. */
static bool ends_whole(FILE *f)
{
	bool whole = !ferror(f);

	return !fclose(f) && whole;
}

static int run_command(struct xlator *x, int words, char **word, FILE *out, struct problem *p)
{
	char *text = NULL;
	size_t size = 0;
	FILE *own;
	int err;

	if (!x->type->command)
		return problem_set(p, ENOTSUP, "volume %s (%s) takes no commands", x->name, x->type->name);
	own = open_memstream(&text, &size);
	if (!own)
		return problem_set(p, ENOMEM, "out of memory");
	err = x->type->command(x, words - 2, word + 2, own);
	if (!ends_whole(own)) {
		free(text);
		return problem_set(p, ENOMEM, "out of memory");
	}
	if (!err)
		fwrite(text, 1, size, out);
	else if (size) /* it says itself why */
		problem_set(p, -err, "%.*s", (int)strcspn(text, "\n"), text);
	else
		problem_set(p, -err, "volume %s (%s) does not take the command %s: %s", x->name, x->type->name, word[2],
			    error_text(err));
	free(text);
	return err;
}

static int command_xlator(int words, char **word, FILE *out, struct problem *p)
{
	if (words < 3)
		return problem_set(p, EINVAL, "ctl takes a volume and a command");
	return visit(&(struct visit){ .name = word[1], .act = run_command, .words = words, .word = word, .out = out, .p = p });
}

static int log_level(int words, char **word, FILE *out, struct problem *p)
{
	enum log_level level;

	if (words > 1) {
		if (log_level_parse(word[1], &level))
			return problem_set(p, EINVAL, "%s is no log level: take error, warning, info, debug or trace", word[1]);
		log_set_level(level);
	}
	fprintf(out, "%s\n", log_level_name(log_get_level()));
	return 0;
}

static int run_own(int words, char **word, const char *body, FILE *out, struct problem *p)
{
	bool known = false;
	int err = 0;

	if (words && control.handler.command)
		err = control.handler.command(words, word, body, out, &known, p);
	return known ? err : problem_set(p, EINVAL, "the command \"%.60s\" is not known", words ? word[0] : "");
}

static int run(int words, char **word, const char *body, FILE *out, struct problem *p)
{
	const char *c = words ? word[0] : "";

	if (!strcmp(c, "ping"))
		return 0;
	if (!strcmp(c, "info")) {
		fprintf(out, "{\"program\": \"%s\", \"pid\": %d", control.handler.program, (int)getpid());
		if (control.handler.info)
			control.handler.info(out);
		fprintf(out, "}\n");
		return 0;
	}
	if (!strcmp(c, "dump")) {
		control_dump(out);
		return 0;
	}
	if (!strcmp(c, "log-level"))
		return log_level(words, word, out, p);
	if (!strcmp(c, "set"))
		return set_option(words, word, p);
	if (!strcmp(c, "ctl"))
		return command_xlator(words, word, out, p);
	if (!strcmp(c, "reload") && control.handler.reload)
		return control.handler.reload(p);
	if (!strcmp(c, "stop") && control.handler.stop) {
		control.handler.stop();
		return 0;
	}
	return run_own(words, word, body, out, p);
}

/* Sockets here have a timeout, and what waits at one of these ends with EINTR when its process was stopped and goes on, though no signal is handled (signal(7)). So all of it is
 * read and written again. */
static ssize_t read_some(void *fd, char *to, size_t size)
{
	return TEMP_FAILURE_RETRY(read((int)(intptr_t)fd, to, size));
}

/* All of it, or an error: of a short write fopencookie(3) does not write the rest. */
static ssize_t write_all(void *fd, const char *from, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = TEMP_FAILURE_RETRY(write((int)(intptr_t)fd, from + done, size - done));

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* Its end does not close the socket. */
static FILE *stream_on(int fd, const char *mode)
{
	return fopencookie((void *)(intptr_t)fd, mode, (cookie_io_functions_t){ .read = read_some, .write = write_all });
}

/* What follows the line: `have` bytes of it have come with the line. */
static char *read_body(int fd, const char *size_word, const char *first, size_t have, struct problem *p)
{
	char *end;
	unsigned long size = strtoul(size_word, &end, 10);
	char *body = *end || size > CONTROL_BODY_MAX ? NULL : malloc(size + 1);

	if (!body) {
		problem_set(p, EFBIG, "what follows the command is too large: at most %d bytes", CONTROL_BODY_MAX);
		return NULL;
	}
	have = have < size ? have : size;
	memcpy(body, first, have);
	while (have < size) {
		ssize_t n = read_some((void *)(intptr_t)fd, body + have, size - have);

		if (n <= 0) {
			free(body);
			problem_set(p, EPIPE, "only %zu of %lu bytes came after the command", have, size);
			return NULL;
		}
		have += (size_t)n;
	}
	body[size] = 0;
	return body;
}

static void answer(int fd)
{
	char line[LINE_MAX_BYTES + 1], *word[WORDS], *save = NULL, *text = NULL, *body = NULL;
	size_t size = 0, text_size = 0, length;
	int words = 0, err;
	struct problem p = { 0 };
	FILE *out, *reply;
	bool whole;

	while (size < LINE_MAX_BYTES && !memchr(line, '\n', size)) {
		ssize_t n = read_some((void *)(intptr_t)fd, line + size, LINE_MAX_BYTES - size);
		if (n <= 0)
			break;
		size += (size_t)n;
	}
	line[size] = 0;
	length = strcspn(line, "\n");
	line[length] = 0;
	for (char *w = strtok_r(line, " ", &save); w && words < WORDS; w = strtok_r(NULL, " ", &save))
		word[words++] = w;
	if (words && word[words - 1][0] == '+')
		body = read_body(fd, word[--words] + 1, line + length + 1, size > length ? size - length - 1 : 0, &p);
	out = open_memstream(&text, &text_size);
	reply = stream_on(fd, "w");
	if (out && reply) {
		err = p.text[0] ? -EINVAL : run(words, word, body, out, &p);
		whole = ends_whole(out);
		out = NULL;
		if (!err && !whole)
			err = problem_set(&p, ENOMEM, "out of memory");
		if (err)
			fprintf(reply, "error %s\n", p.text[0] ? p.text : error_text(err));
		else
			fprintf(reply, "ok\n%s", text);
	}
	if (out)
		fclose(out);
	if (reply)
		fclose(reply);
	free(text);
	free(body);
}

static void *serve(void *arg)
{
	struct timeval limit = { .tv_sec = 5 };

	(void)arg;
	for (;;) {
		int fd = accept4(control.listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0 && (errno == EINVAL || errno == EBADF))
			return NULL; /* control_stop() has shut it down */
		if (fd < 0 && errno != EINTR && errno != ECONNABORTED)
			usleep(NO_FD_US); /* no descriptor, or no memory, is free just now */
		if (fd < 0)
			continue;
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
		answer(fd);
		close(fd);
	}
}

int control_rundir_check(struct problem *p)
{
	const char *dir = control_rundir();
	struct stat st;

	if (lstat(dir, &st))
		return problem_set(p, errno, "the run directory %s is not there: %m; set STRATUS_RUN to a directory of yours",
				   dir);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022)
		return problem_set(
			p, EPERM,
			"the run directory %s is not yours alone, so who answers there may be anybody: set STRATUS_RUN "
			"to a directory that you own and only you can write to",
			dir);
	return 0;
}

int control_start(const struct control_handler *handler, struct problem *p)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *dir = control_rundir();
	int refused = control_rundir_check(p);

	if (refused)
		return refused;
	control.handler = *handler;
	if ((size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s-%d.sock~", dir, handler->program,
			     (int)getpid()) >= sizeof(address.sun_path))
		return problem_set(p, ENAMETOOLONG,
				   "the run directory %s is too long for a socket: set STRATUS_RUN to a shorter one", dir);
	snprintf(control.path, sizeof(control.path), "%.*s", (int)strlen(address.sun_path) - 1, address.sun_path);
	unlink(address.sun_path);
	control.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* It gets its name when it answers: one that refuses is taken for a dead process's, and removed. */
	if (control.listener < 0 || bind(control.listener, (struct sockaddr *)&address, sizeof(address)) ||
	    chmod(address.sun_path, 0600) || listen(control.listener, 16) || rename(address.sun_path, control.path)) {
		int err = errno;

		close(control.listener);
		unlink(address.sun_path);
		control.listener = -1;
		return problem_set(p, err, "the control socket %s can't be made: %s; set STRATUS_RUN to a directory of yours",
				   control.path, strerror(err));
	}
	if (pthread_create(&control.thread, NULL, serve, NULL))
		return problem_set(p, EAGAIN, "no thread for the control socket: the process limit is reached");
	control.running = true;
	return 0;
}

void control_stop(void)
{
	if (!control.running)
		return;
	control.running = false;
	shutdown(control.listener, SHUT_RDWR);
	pthread_join(control.thread, NULL);
	close(control.listener);
	unlink(control.path);
}

char *control_owner(const char *path, int *pid)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, *dash = strrchr(name, '-');
	int end = 0;

	if (!dash || sscanf(dash, "-%d.sock%n", pid, &end) != 1 || !end || dash[end])
		return NULL;
	return strndup(name, (size_t)(dash - name));
}

static int no_answer(const char *path, struct problem *p)
{
	int pid;
	char *program = control_owner(path, &pid);
	int err = program ? problem_set(p, ETIMEDOUT, "process %d (%s) does not answer; see its log", pid, program)
			  : problem_set(p, ETIMEDOUT, "the process at %s does not answer; see its log", path);

	free(program);
	return err;
}

static int connect_to(const char *path, unsigned limit_s, struct problem *p)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = limit_s };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), err;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (fd >= 0 && !TEMP_FAILURE_RETRY(connect(fd, (struct sockaddr *)&address, sizeof(address))))
		return fd;
	err = errno;
	if (fd >= 0)
		close(fd);
	if (err == EAGAIN) /* as many wait for it as can */
		return no_answer(path, p);
	return problem_set(p, err, "no StratusFS process answers at %s: %s", path, strerror(err));
}

/* "error SENTENCE\n" */
static int take_error(char *line, struct problem *p)
{
	line[strcspn(line, "\n")] = '\0';
	return problem_set(p, EINVAL, "%s", line + (strncmp(line, "error ", 6) ? 0 : 6));
}

int control_send(const char *path, const char *line, const char *body, unsigned limit_s, FILE *out, struct problem *p)
{
	int fd = connect_to(path, limit_s, p), err = 0;
	char first[600];
	size_t n;
	FILE *in, *ask;

	if (fd < 0)
		return fd;
	ask = stream_on(fd, "w");
	if (ask && body)
		fprintf(ask, "%s +%zu\n%s", line, strlen(body), body);
	else if (ask)
		fprintf(ask, "%s\n", line);
	if (ask)
		fclose(ask);
	shutdown(fd, SHUT_WR);
	in = stream_on(fd, "r");
	errno = 0;
	if (!in || !fgets(first, sizeof(first), in))
		err = errno == EAGAIN
			      ? no_answer(path, p)
			      : problem_set(p, EPIPE, "the process at %s closed the connection without an answer; see its log",
					    path);
	else if (strcmp(first, "ok\n"))
		err = take_error(first, p);
	while (!err && (n = fread(first, 1, sizeof(first), in)))
		fwrite(first, 1, n, out);
	if (!err && ferror(in))
		err = no_answer(path, p);
	if (in)
		fclose(in);
	close(fd);
	return err;
}
