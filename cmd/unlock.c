/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets come by descriptors and terminals, never by the command line, which everybody can see. */
#include "unlock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "path.h"
#include "secret.h"

enum { KEY_PASSPHRASE_FD = 2000, KEY_SECRET_FILE, KEY_RECOVERY, SECRET_FILE_LEAST = 16 };

static const struct argp_option unlock_options[] = {
	{ "passphrase-fd", KEY_PASSPHRASE_FD, "N", 0,
	  "Read the passphrase (or recovery code) from descriptor N, up to a newline or its end", 0 },
	{ "secret-file", KEY_SECRET_FILE, "FILE", 0, "Open the key file with the bytes of FILE", 0 },
	{ "recovery-code", KEY_RECOVERY, NULL, 0, "Open the key file with a recovery code", 0 },
	{ 0 },
};

static error_t unlock_option(int key, char *value, struct argp_state *state)
{
	struct unlock *u = state->input;

	switch (key) {
	case KEY_PASSPHRASE_FD:
		u->passphrase_fd = value;
		return 0;
	case KEY_SECRET_FILE:
		u->secret_file = value;
		return 0;
	case KEY_RECOVERY:
		u->recovery = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp unlock_argp = { unlock_options, unlock_option, NULL, NULL, NULL, NULL, NULL };

/* ---- where secrets come from ---- */

static volatile sig_atomic_t caught; /* a signal, while a terminal is asked */

/* All of it, or a line. `open_to`: signals are let in only while nothing is there to read. */
static int read_some(int fd, char *secret, size_t *size, bool line, const sigset_t *open_to)
{
	struct pollfd some = { .fd = fd, .events = POLLIN };
	size_t used = 0;
	ssize_t n;

	while (used < KEYFILE_SECRET_MAX) {
		if (open_to && ppoll(&some, 1, NULL, open_to) < 0 && caught)
			return -EINTR;
		n = read(fd, secret + used, line ? 1 : KEYFILE_SECRET_MAX - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		if (line && secret[used] == '\n')
			break;
		used += (size_t)n;
	}
	*size = used;
	return 0;
}

static int from_descriptor(const char *text, void *secret, size_t *size, struct problem *p)
{
	char *end;
	long fd = strtol(text, &end, 10);
	int err = *text && !*end && fd >= 0 && fd < 1 << 20 ? read_some((int)fd, secret, size, true, NULL) : -EBADF;

	if (err)
		return problem_set(p, -err, "no passphrase can be read from descriptor '%s': %s", text, strerror(-err));
	return *size ? 0 : problem_set(p, EINVAL, "descriptor %s has no passphrase: it ended at once", text);
}

/* ---- terminals ---- */

static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
enum { ENDING = sizeof(ending) / sizeof(*ending) };

static void catch_one(int signal)
{
	caught = signal;
}

/* What would end the process waits until the terminal is as it was. */
static void hold_signals(struct sigaction was[ENDING], sigset_t *mask, sigset_t *open_to)
{
	const struct sigaction to = { .sa_handler = catch_one };
	sigset_t held;

	caught = 0;
	sigemptyset(&held);
	for (int i = 0; i < ENDING; i++)
		sigaddset(&held, ending[i]);
	sigaddset(&held, SIGTSTP); /* the shell would get a terminal without echo */
	sigprocmask(SIG_BLOCK, &held, mask);
	for (int i = 0; i < ENDING; i++) {
		sigaction(ending[i], NULL, &was[i]);
		if (was[i].sa_handler != SIG_IGN)
			sigaction(ending[i], &to, NULL);
	}
	*open_to = *mask;
	sigaddset(open_to, SIGTSTP);
}

static void let_signals_go(const struct sigaction was[ENDING], const sigset_t *mask)
{
	for (int i = 0; i < ENDING; i++)
		sigaction(ending[i], &was[i], NULL);
	if (caught)
		raise(caught);
	sigprocmask(SIG_SETMASK, mask, NULL); /* here the process ends, if it was to */
}

static int ask_silently(int fd, const struct termios *usual, const char *prompt, void *secret, size_t *size)
{
	struct termios silent = *usual;
	struct sigaction was[ENDING];
	sigset_t mask, open_to;
	int err;

	hold_signals(was, &mask, &open_to);
	silent.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
	tcsetattr(fd, TCSAFLUSH, &silent);
	dprintf(fd, "%s: ", prompt);
	err = read_some(fd, secret, size, true, &open_to);
	tcsetattr(fd, TCSAFLUSH, usual);
	dprintf(fd, "\n");
	let_signals_go(was, &mask);
	return err;
}

static int from_terminal(const char *prompt, void *secret, size_t *size, struct problem *p)
{
	struct termios usual;
	int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY), err;

	if (fd < 0 || tcgetattr(fd, &usual)) {
		if (fd >= 0)
			close(fd);
		return problem_set(
			p, ENOTTY,
			"there is no terminal to ask for a secret: use --passphrase-fd or --secret-file (in fstab the option key-secret=FILE)");
	}
	err = ask_silently(fd, &usual, prompt, secret, size);
	close(fd);
	if (err)
		return problem_set(p, -err, "the terminal can't be read: %s", strerror(-err));
	return *size ? 0 : problem_set(p, EINVAL, "nothing was typed: a secret has at least one letter");
}

static int from_file(const char *path, void *secret, size_t *size, struct problem *p)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int err = fd < 0 ? -errno : read_some(fd, secret, size, false, NULL);

	if (fd >= 0)
		close(fd);
	if (err)
		return problem_set(p, -err, "%s can't be read: %s", path, strerror(-err));
	return *size ? 0 : problem_set(p, EINVAL, "%s is empty: it protects nothing", path);
}

int secret_file_read(const char *path, void *secret, size_t *size, struct problem *p)
{
	int err = from_file(path, secret, size, p);

	if (!err && *size < SECRET_FILE_LEAST)
		return problem_set(p, EINVAL, "%s has only %zu bytes: take at least %d random ones (head -c 64 /dev/urandom)",
				   path, *size, SECRET_FILE_LEAST);
	return err;
}

/* systemd puts it there for a unit with LoadCredential=stratus.passphrase:... */
static char *credential(void)
{
	const char *directory = getenv("CREDENTIALS_DIRECTORY");
	char *path = directory ? path_format("%s/stratus.passphrase", directory) : NULL;

	if (path && access(path, R_OK)) {
		free(path);
		path = NULL;
	}
	return path;
}

static int from_credential(const char *path, char *secret, size_t *size, struct problem *p)
{
	int err = from_file(path, secret, size, p);

	if (!err && *size > 1 && secret[*size - 1] == '\n')
		--*size;
	return err;
}

/* ---- opening ---- */

static int get(struct unlock *u, const char *path, struct problem *p)
{
	cleanup_path char *given = u->passphrase_fd || u->secret_file || u->recovery ? NULL : credential();
	cleanup_path char *prompt = path_format("%s of %s", u->recovery ? "Recovery code" : "Passphrase", path);

	u->kind = u->secret_file ? SLOT_KEYFILE : u->recovery ? SLOT_RECOVERY : SLOT_PASSPHRASE;
	if (u->secret_file)
		return from_file(u->secret_file, u->secret, &u->size, p);
	if (u->passphrase_fd)
		return from_descriptor(u->passphrase_fd, u->secret, &u->size, p);
	if (given)
		return from_credential(given, u->secret, &u->size, p);
	return from_terminal(prompt, u->secret, &u->size, p);
}

static int decode_recovery(struct unlock *u, struct problem *p)
{
	uint8_t bytes[20];
	char text[128] = "";
	int err;

	if (u->size >= sizeof(text))
		return problem_set(p, EINVAL, "that is no recovery code: it is too long");
	memcpy(text, u->secret, u->size);
	err = recovery_parse(text, bytes);
	secret_wipe(text, sizeof(text));
	if (err)
		return problem_set(p, EINVAL, "that is no recovery code: it has 32 letters and digits, without I, L, O and U");
	memcpy(u->secret, bytes, sizeof(bytes));
	u->size = sizeof(bytes);
	secret_wipe(bytes, sizeof(bytes));
	return 0;
}

int unlock_ask(struct unlock *u, const char *path, struct problem *p)
{
	int err;

	secret_hide_process();
	u->secret = secret_alloc(KEYFILE_SECRET_MAX);
	if (!u->secret)
		return problem_set(p, ENOMEM, "no locked memory for keys: raise the limit (ulimit -l)");
	err = get(u, path, p);
	return !err && u->kind == SLOT_RECOVERY ? decode_recovery(u, p) : err;
}

int unlock_open(struct unlock *u, const struct keyfile *k, struct masters **m, struct problem *p)
{
	void *locked = secret_alloc(KEYFILE_SECRET_MAX);

	if (!locked)
		return problem_set(p, ENOMEM, "no locked memory for keys: raise the limit (ulimit -l)");
	memcpy(locked, u->secret, u->size);
	secret_free(u->secret, KEYFILE_SECRET_MAX);
	u->secret = locked;
	return keyfile_unlock(k, u->kind, u->secret, u->size, m, p);
}

void unlock_end(struct unlock *u)
{
	secret_free(u->secret, KEYFILE_SECRET_MAX);
	u->secret = NULL;
}

int passphrase_new(const char *fd, void *secret, size_t *size, struct problem *p)
{
	void *again = NULL;
	size_t length = 0;
	int err = fd ? from_descriptor(fd, secret, size, p) : from_terminal("New passphrase", secret, size, p);

	if (err || fd)
		return err;
	again = secret_alloc(KEYFILE_SECRET_MAX);
	err = again ? from_terminal("The same again", again, &length, p) : -ENOMEM;
	if (!err && (length != *size || memcmp(again, secret, length) != 0))
		err = problem_set(p, EINVAL, "the two passphrases differ: nothing was changed");
	secret_free(again, KEYFILE_SECRET_MAX);
	return err;
}
