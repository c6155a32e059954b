/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus mount` and mount.stratus: the process behind a mount point. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "certificates.h"
#include "command.h"
#include "facts.h"
#include "graph.h"
#include "mount-options.h"
#include "mounted.h"
#include "path.h"
#include "sealed.h"
#include "secret.h"
#include "service.h"
#include "source.h"
#include "task.h"
#include "tls-dir.h"
#include "unlock.h"

static struct {
	struct mount_options options;
	char *volfile, *directory, *log_name;
	struct graph *graph;
	pthread_mutex_t lock; /* a graph switch against a dump */
	struct service service;
	struct source *source; /* NULL: the volfile is a file */
	pthread_mutex_t order; /* one switch at a time, and what it leaves; taken before lock */
	char *text;	       /* from the source: the volfile that the graph was made from */
	uint64_t version;
	pthread_t follower;
	bool follows, sloppy, fake, verbose;
	char *key; /* the key file; NULL: nothing is encrypted */
	struct unlock unlock;
	struct problem problem; /* of an option, found while the command line is read */
} mount = { .lock = PTHREAD_MUTEX_INITIALIZER, .order = PTHREAD_MUTEX_INITIALIZER, .service = { .program = "mount" } };

enum { KEY_KEY = 1000, KEY_TLS };

static void take_options(const char *text)
{
	mount_options_parse(&mount.options, text, mount.sloppy, &mount.problem);
}

static void info(FILE *to)
{
	fact_string(to, "mountpoint", mount.directory);
	fact_string(to, "volfile", mount.volfile);
	pthread_mutex_lock(&mount.lock);
	fact_volumes(to, &mount.graph, 1);
	pthread_mutex_unlock(&mount.lock);
}

static void each_graph(void (*fn)(struct graph *, void *), void *arg)
{
	pthread_mutex_lock(&mount.lock);
	if (mount.graph)
		fn(mount.graph, arg);
	pthread_mutex_unlock(&mount.lock);
}

static void unmounted(struct graph *g)
{
	(void)g;
	service_stop();
}

/* From the file, or from the text that a source gave. */
static int read_volfile(const char *text, struct volfile *v, struct problem *p)
{
	int err = text ? volfile_parse(text, strlen(text), mount.volfile, v, p) : volfile_read(mount.volfile, v, p);

	if (!err && text)
		err = source_check(v, p);
	if (!err)
		err = tls_dir_apply(v, p);
	if (!err && mount.key)
		sealed_options(v);
	if (!err)
		err = mount_options_apply(&mount.options, mount.directory, v, p);
	return err || !mount.key ? err : sealed_graph(v, mount.key, p);
}

/* If only live options differ in what the servers say, these change in place. A file is asked to be read again by somebody,
 * who then wants a new graph. */
static int switch_to(const char *text, struct problem *p)
{
	struct volfile v = { 0 };
	int err = read_volfile(text, &v, p), done;

	if (!err) {
		pthread_mutex_lock(&mount.lock);
		done = text ? graph_reconfigure(mount.graph, &v, p) : 0;
		err = done ? (done < 0 ? done : 0) : graph_switch(&mount.graph, &v, p);
		mount.graph->on_unmount = unmounted;
		pthread_mutex_unlock(&mount.lock);
	}
	volfile_free(&v);
	return err;
}

/* ---- volfiles that come from the servers ---- */

enum { REST_S = 2, REST_MAX_S = 30 };

/* Takes the text. */
static int take_over(char *text, uint64_t version, struct problem *p)
{
	int err = 0;

	pthread_mutex_lock(&mount.order);
	if (version < mount.version)
		err = problem_set(p, ESTALE,
				  "the server that has answered lags behind: it has version %" PRIu64 ", and the mount %" PRIu64
				  "; try again",
				  version, mount.version);
	else if (strcmp(text, mount.text))
		err = switch_to(text, p);
	if (!err) {
		if (strcmp(text, mount.text))
			log_info(NULL, NULL, "switched to version %" PRIu64 " of the volume", version);
		mount.version = version;
		free(mount.text);
		mount.text = text;
	} else {
		free(text);
	}
	pthread_mutex_unlock(&mount.order);
	return err;
}

/* Asks once, beside the thread that follows. */
static int reload_source(struct problem *p)
{
	struct source *s = NULL;
	uint64_t version;
	char *text;
	int err = source_create(mount.volfile, &s, p);

	if (!err)
		err = source_fetch(s, 0, &text, &version, p);
	if (!err)
		err = take_over(text, version, p);
	source_destroy(s);
	return err;
}

static int reload(struct problem *p)
{
	return mount.source ? reload_source(p) : switch_to(NULL, p);
}

static uint64_t version_now(void)
{
	uint64_t version;

	pthread_mutex_lock(&mount.order);
	version = mount.version;
	pthread_mutex_unlock(&mount.order);
	return version;
}

/* Waits for changes until the source is cancelled. What fails is tried again, more and more rarely. */
static void *follow(void *arg)
{
	struct reasons reasons = { { 0 } };
	unsigned rest_s = REST_S;

	(void)arg;
	for (;;) {
		struct problem p = { "" };
		uint64_t version;
		char *text;
		int err = source_fetch(mount.source, version_now(), &text, &version, &p);

		if (err == -ECANCELED)
			return NULL;
		if (!err)
			err = take_over(text, version, &p);
		if (!err || err == -EAGAIN) {
			rest_s = REST_S;
			reasons.count = 0;
			continue;
		}
		if (reasons_new(&reasons, p.text))
			log_warning(NULL, NULL, "the mount goes on as it is, but can't follow changes of the volume: %s",
				    p.text);
		if (source_rest(mount.source, rest_s))
			return NULL;
		rest_s = rest_s * 2 < REST_MAX_S ? rest_s * 2 : REST_MAX_S;
	}
}

static void start_following(void)
{
	mount.follows = mount.source && !pthread_create(&mount.follower, NULL, follow, NULL);
	if (mount.source && !mount.follows)
		log_error(NULL, NULL, "no thread to follow changes of the volume: mount it again after one");
}

static void stop_following(void)
{
	if (!mount.follows)
		return;
	source_cancel(mount.source);
	pthread_join(mount.follower, NULL);
	mount.follows = false;
}

static const struct control_handler handler = {
	.program = "mount",
	.each_graph = each_graph,
	.info = info,
	.reload = reload,
	.stop = service_stop,
};

/* A second one would hide the first, which nobody could unmount by its name alone. */
static int check_free(struct problem *p)
{
	cleanup_path char *directory = realpath(mount.directory, NULL);
	cleanup_mounted struct mounted on = { NULL, NULL };

	if (!directory || mounted_at(directory, &on) || !mounted_is_ours(&on) || strcmp(on.point, directory))
		return 0;
	return problem_set(p, EBUSY, "%s is a mount of StratusFS already: `stratus umount %s` first, or take another directory",
			   mount.directory, mount.directory);
}

static int check_directory(struct problem *p)
{
	struct stat st;

	if (stat(mount.directory, &st))
		return errno == ENOTCONN
			       ? problem_set(p, ENOTCONN, "%s is a mount whose process is gone: run `stratus umount %s` first",
					     mount.directory, mount.directory)
			       : problem_set(p, errno, "the mount point %s can't be used: %m; create it first",
					     mount.directory);
	if (!S_ISDIR(st.st_mode))
		return problem_set(p, ENOTDIR, "the mount point %s is not a directory", mount.directory);
	return check_free(p);
}

static int create(struct problem *p)
{
	struct volfile v = { 0 };
	int err = check_directory(p);

	if (!err && mount.source)
		err = source_fetch(mount.source, 0, &mount.text, &mount.version, p);
	if (!err)
		err = read_volfile(mount.text, &v, p);
	if (!err)
		err = graph_create(&v, NULL, NULL, &mount.graph, p);
	volfile_free(&v);
	if (!err)
		mount.graph->on_unmount = unmounted;
	return err;
}

/* The kernel asks for the root: the answer shows that the bricks are reached. This thread serves nothing and may wait.
 * Without an answer the mount stays all the same: protocol/client has refused to start, unless it was told to wait. */
static void wait_until_usable(void)
{
	struct stat st;
	const char *why = stat(mount.directory, &st) ? strerror(errno) : NULL;

	if (!why)
		return;
	log_warning(NULL, NULL, "%s is mounted but does not answer yet: %s", mount.directory, why);
	if (!mount.service.foreground)
		fprintf(stderr,
			"stratus mount: %s is mounted but does not answer yet (%s): its log %s may say why; a brick may not be "
			"served, the certificate may be refused, or the tenant suspended\n",
			mount.directory, why, mount.service.log);
}

static int serve(struct problem *p)
{
	int err = control_start(&handler, p);

	if (err)
		return err;
	wait_until_usable();
	if (mount.verbose)
		printf("%s is mounted on %s\n", mount.volfile, mount.directory);
	err = service_ready(&mount.service, p);
	if (!err) {
		start_following();
		certificates_watch(&handler, tls_dir_wanted());
		service_run(&mount.service, &handler);
		certificates_unwatch();
		stop_following();
	}
	control_stop();
	return err;
}

static void lock_as_much_as_allowed(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_MEMLOCK, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_MEMLOCK, &limit);
	}
}

/* The translator finds them in this process's memory. */
static int unlock_keys(struct problem *p)
{
	struct masters *m = NULL;
	struct keyfile k;
	int err = keyfile_read(mount.key, &k, p);

	lock_as_much_as_allowed();
	if (!err)
		err = unlock_open(&mount.unlock, &k, &m, p);
	unlock_end(&mount.unlock);
	if (err)
		return err;
	err = secret_put(mount.key, m, sizeof(*m));
	secret_free(m, sizeof(*m));
	return err ? problem_set(p, -err, "no locked memory for keys: raise the limit (ulimit -l)") : 0;
}

/* The terminal is there before the process goes to the background, locked memory is kept only afterwards. */
static int begin(struct problem *p)
{
	int err = mount.key ? unlock_ask(&mount.unlock, mount.key, p) : 0;

	if (!err)
		err = service_begin(&mount.service, p);
	return err || !mount.key ? err : unlock_keys(p);
}

static int run(struct problem *p)
{
	int err = mount.problem.text[0] ? problem_set(p, EINVAL, "%s", mount.problem.text) : begin(p);

	if (err)
		return err;
	err = runtime_start(0, RUNTIME_NEVER_BLOCKS);
	if (err)
		return problem_set(p, -err, "can't start the event loops: %s", strerror(-err));
	err = create(p);
	if (!err && !mount.fake)
		err = service_open_log(&mount.service, p);
	if (!err && !mount.fake) {
		err = graph_start(mount.graph, p);
		if (!err) {
			err = serve(p);
			graph_stop(mount.graph);
		}
	}
	if (mount.graph)
		graph_destroy(mount.graph);
	runtime_stop();
	return err;
}

static char *log_name(const char *directory)
{
	char *name = path_format("mount%s", directory);

	for (char *c = name; *c; c++)
		if (*c == '/')
			*c = '-';
	return name;
}

static int mount_run(const char *program, const char *volfile, const char *directory)
{
	struct problem p = { "" };
	enum log_level level;
	char *real = realpath(directory, NULL);
	int status;

	if (!source_is_one(volfile) && strchr(volfile, ':') && access(volfile, F_OK))
		problem_set(&mount.problem, ENOENT, "there is no volfile %s; a volume of a server is written SERVER:/VOLUME",
			    volfile);
	mount.volfile = source_is_one(volfile) ? path_format("%s", volfile) : path_absolute(volfile);
	if (source_is_one(volfile))
		source_create(volfile, &mount.source, &mount.problem);
	mount.directory = real ? real : path_absolute(directory);
	if (mount.options.key && !mount.key)
		mount.key = path_absolute(mount.options.key);
	if (mount.options.key_secret && !mount.unlock.secret_file)
		mount.unlock.secret_file = mount.options.key_secret;
	mount.service.log_name = mount.log_name = log_name(mount.directory);
	if (mount.options.log && !mount.service.log)
		mount.service.log = path_format("%s", mount.options.log);
	if (mount.options.log_level && log_level_parse(mount.options.log_level, &level))
		problem_set(&mount.problem, EINVAL, "log level '%s' is none of error, warning, info, debug, trace",
			    mount.options.log_level);
	else if (mount.options.log_level)
		log_set_level(level);
	status = run(&p) ? problem_print(program, &p) : 0;
	service_end(&mount.service);
	mount_options_free(&mount.options);
	unlock_end(&mount.unlock);
	if (mount.key)
		secret_put(mount.key, NULL, 0);
	free(mount.key);
	source_destroy(mount.source);
	free(mount.text);
	free(mount.volfile);
	free(mount.directory);
	free(mount.log_name);
	return status;
}

static error_t command_option(int key, char *value, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &mount.service;
		state->child_inputs[1] = &mount.unlock;
		return 0;
	case KEY_KEY:
		mount.key = path_absolute(value);
		return 0;
	case 'o':
		take_options(value);
		return 0;
	case KEY_TLS:
		tls_dir_use(value);
		return 0;
	default:
		return words_take(state->input, key, value, state);
	}
}

int command_mount(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "options", 'o', "OPTS", 0,
		  "Mount options with commas between: those of mount/fuse (`stratus xlator help mount/fuse`), "
		  "ro, allow_other, nosuid, nodev, noexec, noatime ...",
		  0 },
		{ "tls-dir", KEY_TLS, "DIR", 0,
		  "Only by TLS, with cert.pem, key.pem, ca.pem and crl.pem in DIR (STRATUS_TLS_DIR; -o tls-dir=DIR)", 0 },
		{ "key", KEY_KEY, "KEYFILE", 0,
		  "Encrypt with the keys of KEYFILE (`stratus key`): contents and names leave this machine only so", 0 },
		{ 0 },
	};
	static const struct argp_child children[] = { { &service_argp, 0, "", 0 }, { &unlock_argp, 0, "", 0 }, { 0 } };
	static const struct argp argp = {
		options,
		command_option,
		"SERVER[,SERVER...][:PORT]:/VOLUME DIRECTORY\nVOLFILE DIRECTORY",
		"Mounts a volume: one of a cluster, whose volfile comes from the servers (the first that answers), and whose "
		"changes the mount follows; or that of a client's volfile. Returns when the mount is usable. SIGHUP, or `stratus reload "
		"DIRECTORY`, reads the "
		"volfile again and switches to its graph; SIGUSR1 writes a dump; unmounting ends the process.",
		children,
		NULL,
		NULL,
	};
	const char *word[2];
	struct words words = { word, 2, 2, 0 };

	arguments_parse(&argp, argc, argv, 0, NULL, &words);
	return mount_run("stratus mount", word[0], word[1]);
}

static error_t helper_option(int key, char *value, struct argp_state *state)
{
	switch (key) {
	case 's':
		mount.sloppy = true;
		return 0;
	case 'f':
		mount.fake = true;
		mount.service.foreground = true;
		return 0;
	case 'v':
		mount.verbose = true;
		return 0;
	case 'n':
	case 't':
		return 0;
	case 'o':
		take_options(value);
		return 0;
	default:
		return words_take(state->input, key, value, state);
	}
}

int mount_helper(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ NULL, 'o', "OPTS", 0, "Mount options with commas between, as in fstab", 0 },
		{ NULL, 's', NULL, 0, "Pass over mount options that are not known (before -o)", 0 },
		{ NULL, 'f', NULL, 0, "Check everything, mount nothing", 0 },
		{ NULL, 'n', NULL, 0, "Does nothing: there is no mtab to leave alone", 0 },
		{ NULL, 't', "TYPE", 0, "Does nothing: the type is stratus", 0 },
		{ NULL, 'v', NULL, 0, "Say what was done", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		options,
		helper_option,
		"SERVER[,SERVER...][:PORT]:/VOLUME DIRECTORY\nVOLFILE DIRECTORY",
		"Mounts a StratusFS volume for mount(8). A line for fstab:\n"
		"alpha,beta:/photos /mnt stratus defaults,_netdev 0 0",
		NULL,
		NULL,
		NULL,
	};
	const char *word[2];
	struct words words = { word, 2, 2, 0 };

	arguments_parse(&argp, argc, argv, 0, NULL, &words);
	return mount_run("mount.stratus", word[0], word[1]);
}
