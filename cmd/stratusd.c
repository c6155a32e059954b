/* SPDX-License-Identifier: Apache-2.0 */
/* The server: serves the bricks of one or many volfiles in one process. */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "certificates.h"
#include "cluster.h"
#include "command.h"
#include "config.h"
#include "facts.h"
#include "graph.h"
#include "log.h"
#include "path.h"
#include "reload.h"
#include "service.h"
#include "task.h"
#include "tls-dir.h"
#include "tls.h"

struct served {
	char *path;
	struct volfile started; /* what the graph was made from */
	struct volfile live;	/* the text whose live options are in force */
	struct graph *graph;
	bool running;
};

static struct served *served;
static size_t served_count;
static pthread_mutex_t served_lock = PTHREAD_MUTEX_INITIALIZER; /* a reload against a dump; never held across a wait */
static bool check_only;
static struct service service = { .program = "stratusd", .log_name = "stratusd" };

static struct cluster_config cluster;
static bool with_tls; /* --tls-dir */

enum { KEY_STATE = 1000, KEY_NAME, KEY_LISTEN, KEY_PEERS, KEY_JOIN, KEY_TLS };
static const struct argp_option options[] = {
	{ "check", 'c', NULL, 0, "Load and check the volfiles, start nothing", 0 },
	{ "state", KEY_STATE, "DIR", 0,
	  "Serve the volumes of the cluster store in DIR instead of volfiles; `stratus volume` and `stratus apply` change them",
	  0 },
	{ "name", KEY_NAME, "SERVER", 0, "With --state: what specifications call this server (its host name)", 0 },
	{ "cluster", KEY_PEERS, "ADDRESS:PORT", 0,
	  "With --state: share the store with other servers, which reach this one there (a network that only servers are on)",
	  0 },
	{ "join", KEY_JOIN, NULL, 0, "With --cluster: begin no cluster, wait until `stratus server add` takes this server in",
	  0 },
	{ "tls-dir", KEY_TLS, "DIR", 0,
	  "With --state: TLS for what servers and mounts say to each other about the cluster, by cert.pem, key.pem, ca.pem and crl.pem in DIR "
	  "(STRATUS_TLS_DIR)",
	  0 },
	{ "listen", KEY_LISTEN, "ADDRESS:PORT", 0, "With --state: where mounts get their volfiles ([::]:24006)", 0 },
	{ 0 },
};

static error_t option(int key, char *value, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &service;
		return 0;
	case 'c':
		check_only = true;
		return 0;
	case KEY_STATE:
		cluster.state = value;
		return 0;
	case KEY_NAME:
		cluster.name = value;
		return 0;
	case KEY_LISTEN:
		cluster.listen = value;
		return 0;
	case KEY_PEERS:
		cluster.peers = value;
		return 0;
	case KEY_TLS:
		tls_dir_use(value);
		with_tls = true;
		return 0;
	case KEY_JOIN:
		cluster.join = true;
		return 0;
	case ARGP_KEY_ARG:
		served = realloc(served, (served_count + 1) * sizeof *served);
		served[served_count++] = (struct served){ .path = path_absolute(value) };
		return 0;
	case ARGP_KEY_END:
		if (!served_count && !cluster.state)
			argp_error(state, "name at least one volfile (`stratus volgen` writes them), or --state DIR");
		if (cluster.state ? served_count || check_only : cluster.name || cluster.listen || cluster.peers || with_tls)
			argp_error(
				state,
				"--state goes with --name, --listen, --cluster and --tls-dir, and without volfiles and --check");
		if (cluster.join && !cluster.peers)
			argp_error(state, "--join goes with --cluster");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* What works without anybody above it. */
static bool is_front(const char *type)
{
	return !strcmp(type, "protocol/server") || !strcmp(type, "cluster/coordinator");
}

static int load(struct served *s, struct problem *p)
{
	const struct volfile_volume *top;
	int err = volfile_read(s->path, &s->started, p);

	if (!err)
		err = volfile_read(s->path, &s->live, p);
	if (err)
		return err;
	top = &s->started.volume[s->started.volumes - 1];
	if (!is_front(top->type))
		return problem_set(p, EINVAL,
				   "%s: the last volume, '%s', is of type %s, but stratusd serves graphs that end in "
				   "protocol/server or cluster/coordinator; `stratus mount` takes those of clients",
				   s->path, top->name, top->type);
	return graph_create(&s->started, NULL, NULL, &s->graph, p);
}

static int load_all(struct problem *p)
{
	int err = 0;

	for (size_t i = 0; i < served_count && !err; i++)
		err = load(&served[i], p);
	return err;
}

static int start_all(struct problem *p)
{
	for (size_t i = 0; i < served_count; i++) {
		int err = graph_start(served[i].graph, p);

		if (err)
			return err;
		served[i].running = true;
		log_info(NULL, NULL, "serving %s", served[i].path);
	}
	return 0;
}

static void stop_all(void)
{
	for (size_t i = served_count; i-- > 0;)
		if (served[i].running)
			graph_stop(served[i].graph);
}

static void free_all(void)
{
	for (size_t i = served_count; i-- > 0;) {
		if (served[i].graph)
			graph_destroy(served[i].graph);
		volfile_free(&served[i].started);
		volfile_free(&served[i].live);
		free(served[i].path);
	}
	free(served);
}

static void each_graph(void (*fn)(struct graph *, void *), void *arg)
{
	pthread_mutex_lock(&served_lock);
	for (size_t i = 0; i < served_count; i++)
		fn(served[i].graph, arg);
	pthread_mutex_unlock(&served_lock);
}

static void info(FILE *to)
{
	const char **paths = calloc(served_count, sizeof *paths);
	struct graph **graphs = calloc(served_count, sizeof *graphs);

	for (size_t i = 0; paths && graphs && i < served_count; i++) {
		paths[i] = served[i].path;
		graphs[i] = served[i].graph;
	}
	if (paths && graphs) {
		fact_strings(to, "volfiles", paths, served_count);
		fact_volumes(to, graphs, served_count);
	}
	free(paths);
	free(graphs);
}

static int reload(struct problem *p)
{
	int err = 0;

	pthread_mutex_lock(&served_lock);
	for (size_t i = 0; i < served_count; i++) {
		int one = reload_live_options(served[i].graph, &served[i].started, &served[i].live, p);

		err = err ? err : one;
	}
	pthread_mutex_unlock(&served_lock);
	return err;
}

static const struct control_handler handler = {
	.program = "stratusd",
	.each_graph = each_graph,
	.info = info,
	.reload = reload,
	.stop = service_stop,
};

static void run_until_stopped(const struct control_handler *h, const char *tls_directory)
{
	certificates_watch(h, tls_directory);
	service_run(&service, h);
	certificates_unwatch();
}

static int serve(struct problem *p)
{
	int err = start_all(p);

	if (!err)
		err = control_start(&handler, p);
	if (!err) {
		err = service_ready(&service, p);
		if (!err)
			run_until_stopped(&handler, NULL);
		control_stop();
	}
	stop_all();
	return err;
}

static const struct control_handler cluster_handler = {
	.program = "stratusd",
	.each_graph = cluster_each_graph,
	.info = cluster_info,
	.reload = cluster_reload,
	.stop = service_stop,
	.command = cluster_command,
};

/* In the foreground the log is there, too. */
static void say(const char *sentence)
{
	if (!service.foreground)
		fprintf(stderr, "stratusd: %s\n", sentence);
}

static void look_at_key(const char *file)
{
	struct stat st;
	cleanup_path char *sentence = NULL;

	if (stat(file, &st) || !(st.st_mode & (S_IRWXO | S_IWGRP)))
		return;
	sentence = path_format("others than its owner may use %s, and say that they are this server: chmod 600 it", file);
	log_warning(NULL, NULL, "%s", sentence);
	say(sentence);
}

/* ADDRESS of ADDRESS:PORT, without the brackets of IPv6. */
static char *host_of(const char *address)
{
	const char *colon = strrchr(address, ':');
	size_t size = colon ? (size_t)(colon - address) : strlen(address);

	if (size > 1 && *address == '[' && address[size - 1] == ']')
		return path_format("%.*s", (int)size - 2, address + 1);
	return path_format("%.*s", (int)size, address);
}

/* By what nobody else would take it for this server nothing would be served, and nobody told. A server that has begun before is not kept from its bricks by the time. */
static int open_tls(struct tls_dir *d, struct problem *p)
{
	cleanup_path char *host = cluster.peers ? host_of(cluster.peers) : NULL;
	int err = tls_dir_open(tls_dir_wanted(), d, p);

	if (!err)
		err = certificates_check_server(d->certificate, host, p);
	if (err == -EKEYEXPIRED && !host) { /* what needs no certificate is served as before */
		log_warning(NULL, NULL, "%s", p->text);
		say(p->text);
		*p = (struct problem){ 0 };
		err = 0;
	}
	if (!err)
		look_at_key(d->key);
	return err;
}

/* It is tried again: what is missing may come. */
static void tell_unserved(void)
{
	char *text = cluster_unserved(), *save;

	for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save))
		say(line);
	free(text);
}

static int serve_cluster(struct problem *p)
{
	struct tls_dir d = { NULL };
	struct tls_files tls;
	int err = service_open_log(&service, p);

	if (!err && tls_dir_wanted())
		err = open_tls(&d, p);
	if (err) {
		tls_dir_free(&d);
		return err;
	}
	tls = (struct tls_files){ d.certificate, d.key, d.authorities, d.revoked, true };
	cluster.tls = d.key ? &tls : NULL;
	err = cluster_start(&cluster, p);
	tls_dir_free(&d);
	cluster.tls = NULL;
	if (!err)
		err = control_start(&cluster_handler, p);
	if (!err) {
		tell_unserved();
		err = service_ready(&service, p);
		if (!err)
			run_until_stopped(&cluster_handler, tls_dir_wanted());
		control_stop();
	}
	cluster_stop();
	return err;
}

static int serve_volfiles(struct problem *p)
{
	int err = load_all(p);

	if (!err && !check_only)
		err = service_open_log(&service, p);
	if (!err && !check_only)
		err = serve(p);
	free_all();
	return err;
}

/* The bricks hold many files open. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static int run(struct problem *p)
{
	int err;

	raise_file_limit();

	service.foreground |= check_only;
	err = service_begin(&service, p);
	if (err)
		return err;
	err = runtime_start(0, 0);
	if (err)
		return problem_set(p, -err, "can't start the event loops: %s", strerror(-err));
	err = cluster.state ? serve_cluster(p) : serve_volfiles(p);
	runtime_stop();
	service_end(&service);
	return err;
}

int main(int argc, char **argv)
{
	static const struct argp_child children[] = { { &service_argp, 0, "", 0 }, { 0 } };
	static const struct argp argp = {
		options,
		option,
		"VOLFILE...\n--state DIR",
		"Serves the bricks of one or many volfiles, or the volumes of a cluster store. Returns when all of them are served; the exit status is 0 "
		"then, 1 if something failed, 2 if the command line is wrong. What of a cluster store can't be served yet, as a brick whose disk is not mounted, is told on stderr, and tried again; "
		"a certificate in --tls-dir that is no server's, is not valid now, or has not the address of --cluster in it, is a failure. SIGHUP reads live options again, SIGUSR1 writes a "
		"dump, "
		"SIGTERM stops.",
		children,
		NULL,
		NULL,
	};
	struct problem p = { "" };

	argp_program_version = PACKAGE_STRING;
	argp_err_exit_status = 2;
	arguments_parse(&argp, argc, argv, 0, NULL, NULL);
	if (run(&p))
		return problem_print("stratusd", &p);
	if (check_only)
		puts("no problem found");
	return 0;
}
