/* SPDX-License-Identifier: Apache-2.0 */
/* A process that stays: the way into the background, its log, pid file and signals. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "path.h"
#include "service.h"

static const struct argp_option service_options[] = {
	{ "foreground", 'f', NULL, 0, "Stay in the foreground and log to stderr", 0 },
	{ "log", 'l', "FILE", 0, "Write the log to FILE", 0 },
	{ "log-level", 'L', "LEVEL", 0, "error, warning, info (as it is without this), debug or trace", 0 },
	{ "pid-file", 'p', "FILE", 0, "Write the process id to FILE once all is served", 0 },
	{ 0 },
};

static error_t service_option(int key, char *value, struct argp_state *state)
{
	struct service *s = state->input;
	enum log_level level;

	switch (key) {
	case 'f':
		s->foreground = true;
		return 0;
	case 'l':
		s->log = path_absolute(value);
		return 0;
	case 'p':
		s->pid_file = path_absolute(value);
		return 0;
	case 'L':
		if (log_level_parse(value, &level))
			argp_error(state, "log level '%s' is none of error, warning, info, debug, trace", value);
		log_set_level(level);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp service_argp = { service_options, service_option, NULL, NULL, NULL, NULL, NULL };

static void signals_of_service(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
	sigaddset(set, SIGUSR1);
}

/* The first process: stays until the other is ready or gone. */
static void wait_for_ready(const struct service *s, int pipe_end, pid_t child)
{
	int status = 0;
	char byte;

	if (TEMP_FAILURE_RETRY(read(pipe_end, &byte, 1)) == 1)
		_exit(0);
	TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status));
	fprintf(stderr, "%s: the process was ended by signal %d (%s) before it served anything: see its log\n", s->program,
		WTERMSIG(status), strsignal(WTERMSIG(status)));
	_exit(1);
}

int service_begin(struct service *s, struct problem *p)
{
	int ends[2];
	sigset_t set;
	pid_t child;

	s->ready = -1;
	log_program(s->program);
	signal(SIGPIPE, SIG_IGN);
	signals_of_service(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (s->foreground)
		return 0;
	if (pipe2(ends, O_CLOEXEC) || (child = fork()) < 0)
		return problem_set(p, errno, "can't go to the background: %m; free resources or use --foreground");
	if (child) {
		close(ends[1]);
		wait_for_ready(s, ends[0], child);
	}
	close(ends[0]);
	s->ready = ends[1];
	setsid();
	return 0;
}

/* Where logs lie when nobody says: a directory that the user may write. */
static char *log_default(const struct service *s)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (geteuid() == 0)
		return path_format("/var/log/stratus/%s.log", s->log_name);
	if (state && *state == '/')
		return path_format("%s/stratus/%s.log", state, s->log_name);
	return path_format("%s/.local/state/stratus/%s.log", home && *home ? home : "/tmp", s->log_name);
}

int service_open_log(struct service *s, struct problem *p)
{
	int err;

	if (!s->log && s->foreground)
		return 0;
	if (!s->log) {
		s->log = log_default(s);
		path_make_parents(s->log);
	}
	err = log_open(s->log);
	if (err)
		return problem_set(p, -err, "can't write the log %s: %s; name another file with --log", s->log, strerror(-err));
	return 0;
}

static int write_pid_file(const struct service *s, struct problem *p)
{
	char text[32];

	if (!s->pid_file)
		return 0;
	snprintf(text, sizeof text, "%d\n", getpid());
	return path_write(s->pid_file, text, strlen(text), p);
}

/* To a service manager that wants to know of the process that it has started itself (sd_notify(3)): a datagram to the socket that it names, of the file system or ("@") of none. */
static void notify(const struct service *s, const char *state)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	const char *name = getenv("NOTIFY_SOCKET");
	size_t length = name ? strlen(name) : 0;
	int fd;

	if (!s->foreground || !length || length >= sizeof to.sun_path)
		return;
	memcpy(to.sun_path, name, length);
	if (*name == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) < 0)
		log_warning(NULL, NULL, "the service manager can't be told \"%s\" by NOTIFY_SOCKET %s: %m", state, name);
	if (fd >= 0)
		close(fd);
}

int service_ready(struct service *s, struct problem *p)
{
	int err = write_pid_file(s, p), null;

	if (!err)
		notify(s, "READY=1");
	if (err || s->ready < 0)
		return err;
	fflush(stdout);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; null >= 0 && fd < 3; fd++)
		dup2(null, fd);
	close(null);
	if (chdir("/"))
		log_warning(NULL, NULL, "can't leave the working directory for /: %m");
	TEMP_FAILURE_RETRY(write(s->ready, "", 1));
	close(s->ready);
	s->ready = -1;
	return 0;
}

static void write_dump(const struct service *s)
{
	char *path = path_format("%s/%s-%d.dump", control_rundir(), s->program, getpid());
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		      0600); /* the umask may be 0 (storage/posix) */
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	if (file) {
		control_dump(file);
		fclose(file);
		log_info(NULL, NULL, "wrote the dump %s", path);
	} else {
		log_error(NULL, NULL, "can't write the dump %s: %m", path);
		if (fd >= 0)
			close(fd);
	}
	free(path);
}

static void reload(const struct control_handler *handler)
{
	struct problem p = { "" };

	log_reopen();
	if (!handler->reload(&p))
		log_info(NULL, NULL, "reloaded");
	else
		log_error(NULL, NULL, "reload: %s", p.text);
}

/* The name of a process, if it is still there; else, and if nothing may be read of it, "?". */
static void process_name(pid_t pid, char *name, size_t size)
{
	char *path = path_format("/proc/%d/comm", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : TEMP_FAILURE_RETRY(read(fd, name, size - 1));

	if (fd >= 0)
		close(fd);
	free(path);
	if (n <= 0)
		n = snprintf(name, size, "?");
	name[n] = '\0';
	name[strcspn(name, "\n")] = '\0';
}

/* Who ends one that others rely on is told, or nobody finds out why it went. */
static void log_ending(const siginfo_t *signal)
{
	char name[32];

	if (signal->si_code > 0) {
		log_info(NULL, NULL, "ended by signal %d from the kernel", signal->si_signo);
	} else if (signal->si_pid == getpid()) {
		log_info(NULL, NULL, "ended: it was unmounted, or asked to stop");
	} else {
		process_name(signal->si_pid, name, sizeof name);
		log_info(NULL, NULL, "ended by signal %d from process %d (%s) of user %u", signal->si_signo,
			 (int)signal->si_pid, name, (unsigned)signal->si_uid);
	}
}

void service_run(struct service *s, const struct control_handler *handler)
{
	siginfo_t signal;
	sigset_t set;

	signals_of_service(&set);
	for (;;) {
		int number = sigwaitinfo(&set, &signal);

		if (number == SIGTERM || number == SIGINT) {
			log_ending(&signal);
			notify(s, "STOPPING=1");
			return;
		}
		if (number == SIGHUP)
			reload(handler);
		if (number == SIGUSR1)
			write_dump(s);
	}
}

void service_stop(void)
{
	kill(getpid(), SIGTERM);
}

void service_end(struct service *s)
{
	if (s->pid_file)
		unlink(s->pid_file);
	free(s->pid_file);
	free(s->log);
}

int problem_print(const char *program, const struct problem *p)
{
	fprintf(stderr, "%s: %s\n", program, p->text[0] ? p->text : "failed without a reason: please report this");
	return 1;
}
