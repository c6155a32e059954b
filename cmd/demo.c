/* SPDX-License-Identifier: Apache-2.0 */
/* Builds, starts and stops a whole cluster on this machine. Its server is known by the directory of its state, its mount by
 * its mount point. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster-client.h"
#include "control.h"
#include "demo.h"
#include "keyfile.h"
#include "log.h"
#include "path.h"
#include "port.h"
#include "secret.h"
#include "task.h"
#include "tree.h"

enum { STOP_SECONDS = 30, PORT = 24006, BRICKS = 3 };
static const char server_name[] = "local", volume[] = "demo";

char *demo_file(const struct demo *d, const char *name)
{
	return path_format("%s/%s", d->directory, name);
}

const struct process *demo_server(const struct demo *d)
{
	cleanup_path char *state = demo_file(d, "state");

	for (size_t i = 0; i < d->running.count; i++) {
		const char *said = json_string_value(json_object_get(d->running.one[i].info, "state"));

		if (said && !strcmp(said, state))
			return &d->running.one[i];
	}
	return NULL;
}

size_t demo_mounts(const struct demo *d)
{
	return d->spec.has_tenants ? d->spec.tenants : 1;
}

char *demo_mountpoint(const struct demo *d, size_t number)
{
	return d->spec.has_tenants ? path_format("%s/%s", d->mount, d->spec.tenant[number].name) : path_format("%s", d->mount);
}

const struct process *demo_mount(const struct demo *d, size_t number)
{
	cleanup_path char *directory = demo_mountpoint(d, number);

	for (size_t i = 0; i < d->running.count; i++) {
		const char *said = process_mountpoint(&d->running.one[i]);

		if (said && !strcmp(said, directory))
			return &d->running.one[i];
	}
	return NULL;
}

static bool is_mounted(const struct demo *d)
{
	for (size_t i = 0; i < demo_mounts(d); i++)
		if (demo_mount(d, i))
			return true;
	return false;
}

/* ---- programs ---- */

/* A program of ours, as installed beside the running one or as the build tree has them. */
static char *program(const char *name)
{
	char self[PATH_MAX], *path;
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	self[n > 0 ? n : 0] = '\0';
	if (n > 0)
		*strrchr(self, '/') = '\0';
	for (unsigned i = 0; i < 2; i++) {
		path = path_format("%s%s/%s", self, i ? "/../sbin" : "", name);
		if (!access(path, X_OK))
			return path;
		free(path);
	}
	return path_format("%s/%s", strcmp(name, "stratusd") ? BIN_DIR : SBIN_DIR, name);
}

/* Runs it with what the user sees as stderr; its sentence, if any, has been printed by then. */
static int run(char *const *argv, struct problem *p)
{
	int status = 0;
	pid_t child = fork();

	if (!child) {
		execv(argv[0], argv);
		_exit(127);
	}
	if (child < 0 || TEMP_FAILURE_RETRY(waitpid(child, &status, 0)) < 0)
		return problem_set(p, errno, "can't start %s: %m", argv[0]);
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return problem_set(p, ENOENT, "can't run %s: is StratusFS installed completely? (`./bootstrap build`)",
				   argv[0]);
	return problem_set(p, EIO, "%s has failed: it says above why", strrchr(argv[0], '/') + 1);
}

/* ---- opening and making ---- */

static int refresh(struct demo *d, struct problem *p)
{
	processes_free(&d->running);
	return processes_find(&d->running, p);
}

static char *usual_mount(void)
{
	const char *home = getenv("HOME");

	return geteuid() ? path_format("%s/stratus-demo", home && *home == '/' ? home : "/tmp")
			 : path_format("/mnt/stratus-demo");
}

static void remember(struct demo *d)
{
	cleanup_path char *path = demo_file(d, "demo.json");
	json_t *state = json_load_file(path, 0, NULL);
	const char *mount = json_string_value(json_object_get(state, "mount"));
	unsigned port = json_integer_value(json_object_get(state, "port"));

	d->mount = mount ? path_format("%s", mount) : usual_mount();
	d->port = port ? port : PORT;
	json_decref(state);
}

static int write_memory(const struct demo *d, struct problem *p)
{
	cleanup_path char *path = demo_file(d, "demo.json");
	json_t *state = json_pack("{s:s, s:i}", "mount", d->mount, "port", (int)d->port);
	char *text = json_dumps(state, 0);
	int err = text ? path_write(path, text, strlen(text), p) : -ENOMEM;

	json_decref(state);
	free(text);
	return err;
}

enum { DYING_MS = 5000 };

static bool store_is_taken(const struct demo *d)
{
	cleanup_path char *path = demo_file(d, "state/store/lock");
	int fd = open(path, O_RDWR | O_CLOEXEC);
	bool is_taken = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;

	if (fd >= 0)
		close(fd);
	return is_taken;
}

/* A stratusd that has the store but can't be asked: it has another run directory, or is another user's. One that was killed may have it for a moment
 * after its last answer. */
static int check_strangers(const struct demo *d, struct problem *p)
{
	if (demo_server(d))
		return 0;
	for (uint64_t end = clock_ns() + DYING_MS * 1000000ull; store_is_taken(d) && clock_ns() < end;)
		usleep(20000);
	if (!store_is_taken(d))
		return 0;
	return problem_set(
		p, EBUSY,
		"the server of the demo in %s runs, but does not answer in %s: set STRATUS_RUN as it was when the demo was "
		"started",
		d->directory, control_rundir());
}

int demo_open(struct demo *d, const char *directory, struct problem *p)
{
	char *real = realpath(directory, NULL);
	cleanup_path char *path = NULL;
	int err;

	*d = (struct demo){ .directory = real ? real : path_absolute(directory) };
	path = demo_file(d, "spec.yaml");
	if (access(path, F_OK))
		return problem_set(p, ENOENT, "there is no demo in %s: `stratus demo --dir %s` makes one", d->directory,
				   d->directory);
	remember(d);
	if (spec_read(path, &d->spec, p))
		return -EINVAL;
	if (spec_subvolumes(&d->spec) < spec_places(&d->spec))
		return problem_set(p, EINVAL, "%s says 'gone: true', and a demo keeps its bricks: take that out", path);
	err = refresh(d, p);
	return err ? err : check_strangers(d, p);
}

/* The wanted port or one soon after it. Not one that the kernel hands out by itself: while the server is down, a client
 * that knocks there again and again could be given the same port as its own, and would be connected to itself. */
static int free_port(unsigned *port, struct problem *p)
{
	for (unsigned tries = 0; tries < 500 && *port < 32768; tries++, ++*port)
		if (port_is_free(INADDR_LOOPBACK, *port))
			return 0;
	return problem_set(p, EADDRINUSE, "no free port between %d and %u on 127.0.0.1: stop what listens there", PORT, *port);
}

static int write_spec(const struct demo *d, struct problem *p)
{
	cleanup_path char *path = demo_file(d, "spec.yaml");
	cleanup_path char *text = spec_text(&d->spec);

	return text ? path_write(path, text, strlen(text), p) : -ENOMEM;
}

static int make_spec(struct demo *d, const struct demo_form *form, struct problem *p)
{
	char **list = calloc(form->bricks, sizeof *list);
	struct spec_form spec = { .replica = form->replica > 1 ? form->replica : 0, .tenants = form->tenants };
	int err = list ? 0 : -ENOMEM;

	for (unsigned i = 0; i < form->bricks && !err; i++)
		list[i] = path_format("127.0.0.1:%s/brick%u", d->directory, i);
	if (!err)
		err = spec_init(volume, (const char *const *)list, form->bricks, &spec, &d->spec, p);
	if (!err)
		spec_name_server(&d->spec, server_name);
	for (unsigned i = 0; list && i < form->bricks; i++)
		free(list[i]);
	free(list);
	return err;
}

/* But for what mkfs makes: it may be a disk of its own. */
static int check_empty(const char *directory, struct problem *p)
{
	DIR *list = opendir(directory);
	const struct dirent *e;
	bool is_empty = true;

	if (!list)
		return problem_set(p, errno, "can't read the directory %s: %m", directory);
	while ((e = readdir(list)))
		is_empty &= !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !strcmp(e->d_name, "lost+found");
	closedir(list);
	return is_empty ? 0
			: problem_set(p, ENOTEMPTY, "%s holds files but no demo: name an empty or new directory with --dir",
				      directory);
}

static int make_all(struct demo *d, const char *directory, const struct demo_form *form, struct problem *p)
{
	int err;
	char *real;

	path_make_parents(directory);
	err = path_make_directory(directory, 0755, p);
	if (!err)
		err = check_empty(directory, p);
	if (err)
		return err;
	real = realpath(directory, NULL);
	if (real) {
		free(d->directory);
		d->directory = real;
	}
	err = make_spec(d, form, p);
	if (!err && form->tenants)
		err = demo_make_tenants(d, form->tenants, p);
	if (!err) {
		cleanup_path char *log = demo_file(d, "log");

		err = path_make_directory(log, 0755, p);
	}
	return err ? err : write_spec(d, p); /* last: from here on it is a demo */
}

/* What is asked of a demo that is there already. */
static int check_form(const struct demo *d, const struct demo_form *form, struct problem *p)
{
	unsigned replica = d->spec.replica ? d->spec.replica : 1;

	if ((form->bricks && form->bricks != d->spec.bricks) || (form->replica && form->replica != replica))
		return problem_set(
			p, EINVAL,
			"the demo in %s has %zu brick%s, replica %u: leave --bricks and --replica out, or begin anew in "
			"another --dir",
			d->directory, d->spec.bricks, d->spec.bricks == 1 ? "" : "s", replica);
	return form->tenants ? demo_check_tenants(d, form->tenants, p) : 0;
}

/* Neither given: a replica set of three, or with tenants one brick. Only replicas given: so many bricks. Only bricks given: no replicas. */
static struct demo_form whole_form(const struct demo_form *form)
{
	struct demo_form whole = *form;

	whole.bricks = form->bricks ? form->bricks : form->replica ? form->replica : form->tenants ? 1 : BRICKS;
	whole.replica = form->replica ? form->replica : form->bricks || form->tenants ? 1 : BRICKS;
	return whole;
}

int demo_create(struct demo *d, const char *directory, const struct demo_form *form, struct problem *p)
{
	struct problem missing = { "" };
	struct demo_form whole = whole_form(form);
	int err = demo_open(d, directory, &missing);

	if (err && err != -ENOENT)
		return problem_set(p, -err, "%s", missing.text);
	if (!err) {
		err = check_form(d, form, p);
	} else {
		remember(d);
		err = make_all(d, d->directory, &whole, p);
		d->fresh = !err;
	}
	if (!err && form->mount) {
		cleanup_path char *absolute = path_absolute(form->mount);

		if (is_mounted(d) && strcmp(absolute, d->mount))
			return problem_set(p, EBUSY, "this demo is mounted at %s: `stratus demo stop` it first", d->mount);
		free(d->mount);
		d->mount = path_format("%s", absolute);
	}
	if (!err)
		err = write_memory(d, p);
	return err ? err : refresh(d, p);
}

void demo_close(struct demo *d)
{
	processes_free(&d->running);
	spec_free(&d->spec);
	free(d->directory);
	free(d->mount);
}

/* ---- starting ---- */

static int start_server(struct demo *d, struct problem *p)
{
	cleanup_path char *exe = program("stratusd"), *log = demo_file(d, "log/stratusd.log"), *state = demo_file(d, "state");
	cleanup_path char *listen = NULL, *tls = d->spec.has_tenants ? demo_file(d, "tls") : NULL;
	int err = free_port(&d->port, p);

	if (!err)
		err = write_memory(d, p);
	if (err)
		return err;
	listen = path_format("127.0.0.1:%u", d->port);
	err = run((char *[]){ exe, (char *)"--log", log, (char *)"--state", state, (char *)"--name", d->spec.server[0].name,
			      (char *)"--listen", listen, tls ? (char *)"--tls-dir" : NULL, tls, NULL },
		  p);
	return err ? err : refresh(d, p);
}

/* What was committed: written down, so that a stopped demo can be described. */
static int take_committed(struct demo *d, struct problem *p)
{
	const struct process *keeper = demo_server(d);
	struct spec s;
	uint64_t version;
	int err = keeper_get(keeper, d->spec.volume, &s, &version, p);

	if (err) {
		spec_free(&s);
		return err;
	}
	spec_free(&d->spec);
	d->spec = s;
	return write_spec(d, p);
}

/* The volume is made at the first start; later it is started if somebody has stopped it. */
static int commit(struct demo *d, struct problem *p)
{
	const struct process *keeper = demo_server(d);
	struct problem none = { "" };
	struct spec s;
	uint64_t version;
	json_t *answer = NULL;
	const char *problems;
	int err;

	if (!keeper)
		return problem_set(p, EIO, "the server has ended: see %s/log/stratusd.log", d->directory);
	err = keeper_get(keeper, d->spec.volume, &s, &version, &none);
	if (!err)
		s.stopped = false;
	err = keeper_commit(keeper, "any", COMMIT, err ? &d->spec : &s, &answer, p);
	spec_free(&s);
	problems = json_string_value(json_object_get(answer, "problems"));
	if (!err && problems && *problems)
		err = problem_set(p, EIO, "not all of the demo is served: %.*s", (int)strcspn(problems, "\n"), problems);
	json_decref(answer);
	return err ? err : take_committed(d, p);
}

/* A mount whose process was killed answers ENOTCONN until it is unmounted. */
static void clear_dead_mount(const char *directory)
{
	struct stat st;
	struct problem ignored = { "" };
	cleanup_path char *exe = program("stratus");
	char *argv[] = { exe, (char *)"umount", (char *)"--lazy", (char *)directory, NULL };

	if (stat(directory, &st) && errno == ENOTCONN)
		run(argv, &ignored);
}

/* What opens the key file lies beside it: it is for trying out, and the servers are on this machine anyway. */
static int make_key(const struct demo *d, struct problem *p)
{
	enum { SECRET = 64 };
	cleanup_path char *key = demo_file(d, "demo.key"), *secret = demo_file(d, "demo.secret");
	uint8_t bytes[SECRET];
	struct keyfile k;
	struct masters *m;
	int err = getrandom(bytes, SECRET, 0) == SECRET ? path_write_mode(secret, bytes, SECRET, 0600, p)
							: problem_set(p, EIO, "no random numbers");

	if (!err)
		err = keyfile_create(&k, &m, p);
	if (!err) {
		err = keyfile_add(&k, m, SLOT_KEYFILE, "demo", bytes, SECRET, p);
		secret_free(m, sizeof(*m));
	}
	secret_wipe(bytes, sizeof(bytes));
	return err ? err : keyfile_write(key, &k, true, p);
}

static bool has_key(const struct demo *d)
{
	cleanup_path char *key = demo_file(d, "demo.key");

	return !access(key, F_OK);
}

int demo_encrypt(struct demo *d, struct problem *p)
{
	if (has_key(d))
		return 0;
	if (!d->fresh)
		return problem_set(p, EEXIST,
				   "the demo in %s is not encrypted: `stratus demo stop --purge` it, or give another --dir",
				   d->directory);
	return make_key(d, p);
}

static int start_mount(struct demo *d, size_t number, struct problem *p)
{
	cleanup_path char *exe = program("stratus"), *log = path_format("%s/log/mount-%zu.log", d->directory, number);
	cleanup_path char *source = path_format("127.0.0.1:%u:/%s", d->port, d->spec.volume);
	cleanup_path char *directory = demo_mountpoint(d, number), *tls = demo_tls(d, number);
	cleanup_path char *key = demo_file(d, "demo.key"), *secret = demo_file(d, "demo.secret");
	char *argv[16] = { exe, (char *)"mount", (char *)"--log", log };
	int n = 4, err;

	clear_dead_mount(directory);
	path_make_parents(directory);
	err = path_make_directory(directory, 0755, p);
	if (err)
		return err;
	if (tls) {
		argv[n++] = (char *)"--tls-dir";
		argv[n++] = tls;
	}
	if (has_key(d)) {
		argv[n++] = (char *)"--key";
		argv[n++] = key;
		argv[n++] = (char *)"--secret-file";
		argv[n++] = secret;
	}
	argv[n++] = source;
	argv[n++] = directory;
	return run(argv, p);
}

/* Tenants that were suspended or deleted have none. */
static int start_mounts(struct demo *d, struct problem *p)
{
	int err = 0;

	for (size_t i = 0; i < demo_mounts(d) && !err; i++)
		if (!demo_mount(d, i) && (!d->spec.has_tenants || d->spec.tenant[i].state == SPEC_TENANT_ACTIVE))
			err = start_mount(d, i, p);
	return err;
}

int demo_start(struct demo *d, struct problem *p)
{
	struct problem ignored = { "" };
	int err = demo_server(d) ? 0 : start_server(d, p);

	if (!err)
		err = commit(d, p);
	if (!err)
		err = start_mounts(d, p);
	if (!err)
		return refresh(d, p);
	if (!refresh(d, &ignored))
		demo_stop(d, &ignored);
	return err;
}

/* ---- stopping ---- */

static int stop_mounts(struct demo *d, struct problem *p)
{
	cleanup_path char *exe = program("stratus");
	int err = 0;

	for (size_t i = 0; i < demo_mounts(d) && !err; i++) {
		cleanup_path char *directory = demo_mountpoint(d, i);
		char *argv[] = { exe, (char *)"umount", directory, NULL };

		if (demo_mount(d, i))
			err = run(argv, p);
		else
			clear_dead_mount(directory);
	}
	return err;
}

static int stop_server(struct demo *d, struct problem *p)
{
	const struct process *server = demo_server(d);
	char *answer = NULL;
	int err = server ? process_ask(server, "stop", &answer, p) : 0;

	free(answer);
	if (server && !err && process_wait(process_pid(server), STOP_SECONDS))
		err = problem_set(p, ETIMEDOUT, "the server, process %d, does not end: see %s/log/stratusd.log",
				  process_pid(server), d->directory);
	return err;
}

int demo_stop(struct demo *d, struct problem *p)
{
	int err = stop_mounts(d, p);

	if (!err)
		err = stop_server(d, p);
	return err ? err : refresh(d, p);
}

/* Of a demo's directory: what the demo has made there. */
#define SPEC "spec.yaml"
static bool is_ours(const char *name)
{
	static const char *const ours[] = { "state", "log", "demo.json", SPEC, "demo.key", "demo.secret", "ca", "tls" };
	const char *number = name + strlen("brick");

	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		if (!strcmp(name, ours[i]))
			return true;
	if (!strncmp(name, "tenant-", strlen("tenant-")))
		return true;
	if (!strncmp(name, TREE_REMOVED, strlen(TREE_REMOVED))) {
		const char *digits = name + strlen(TREE_REMOVED);

		return *digits && !digits[strspn(digits, "0123456789")];
	}
	return !strncmp(name, "brick", number - name) && *number && !number[strspn(number, "0123456789")];
}

static int is_ours_entry(const struct dirent *e)
{
	return is_ours(e->d_name);
}

static int remove_ours(const char *directory)
{
	struct dirent **entry;
	int top = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int count = top < 0 ? -1 : scandir(directory, &entry, is_ours_entry, NULL), err = count < 0 ? -errno : 0;

	for (int i = 0; i < count; i++)
		if (!err && strcmp(entry[i]->d_name, SPEC))
			err = tree_remove(top, entry[i]->d_name);
	if (count > 0 && !err && unlinkat(top, SPEC, 0) && errno != ENOENT) /* last: without it nobody knows of a demo here */
		err = -errno;
	for (int i = 0; i < count; i++)
		free(entry[i]);
	if (count >= 0)
		free(entry);
	if (top >= 0)
		close(top);
	return err;
}

int demo_purge(struct demo *d, struct problem *p)
{
	int err;

	for (size_t i = 0; i < demo_mounts(d); i++) {
		cleanup_path char *directory = demo_mountpoint(d, i);

		rmdir(directory);
	}
	rmdir(d->mount);
	err = remove_ours(d->directory);
	if (err)
		return problem_set(p, -err, "can't remove all of %s: %s", d->directory, strerror(-err));
	rmdir(d->directory); /* it stays if it is a disk, or has files of somebody else */
	return 0;
}
