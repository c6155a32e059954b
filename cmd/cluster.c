/* SPDX-License-Identifier: Apache-2.0 */
/* Compares what runs with what is committed, volume by volume, and starts and stops graphs until they agree.
 *
 * A unit is one graph: the bricks that share a port, or the coordinator of a replica set. Locks: `lock` covers the list of
 * volumes and their units, and is held while graphs start and stop; the store's locks are below it. The register's functions take
 * only those of the store, so a coordinator may commit a view while it is being stopped. */
#include "cluster.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "brick.h"
#include "certificates.h"
#include "cluster-allot.h"
#include "cluster-rebalance.h"
#include "config.h"
#include "disk.h"
#include "facts.h"
#include "json.h"
#include "log.h"
#include "path.h"
#include "register.h"
#include "store.h"
#include "tls-dir.h"

enum { RETRY_MS = 5000, FIRST_MS = 5000 };

struct unit {
	char *file, *text; /* the volfile: its name, which tells units of a volume apart, and its text */
	enum volgen_kind kind;
	size_t number;		/* of the set, if it is a coordinator */
	struct graph *graph;	/* NULL: not running */
	bool wanted, marked;	/* marked: see unit_mark() */
	struct problem problem; /* why it is not running */
};
struct volume {
	char *name;
	uint64_t version;
	const struct spec *spec; /* &none: it is not known */
	struct unit *unit;
	size_t units;
	bool wanted, understood; /* understood: `spec` is what is committed */
	bool settled, led;	 /* settled: the units are what `version` asks for, of a server that leads or (led) not */
	struct problem problem;
};

static const struct spec none;
static struct {
	char *state, *name;
	struct store *store;
	pthread_mutex_t lock;
	struct volume *volume;
	size_t volumes;
	const char *peers;
	pthread_t watcher;
	bool watching;
	atomic_bool ending;
	atomic_ullong reconciled; /* the index that was put into effect */
	atomic_bool led;	  /* and whether this server led then */
} cluster = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct store *cluster_store(void)
{
	return cluster.store;
}

const char *cluster_name(void)
{
	return cluster.name;
}

const char *cluster_state(void)
{
	return cluster.state;
}

int cluster_spec_text(const char *volume, struct blob *text, uint64_t *version, struct problem *p)
{
	cleanup_path char *key = path_format("volume/%s", volume);
	int err = store_get(cluster.store, key, text, version);

	if (err == -ENOENT)
		return problem_set(p, ENOENT, "there is no volume '%s' here: `stratus volume info` lists those there are",
				   volume);
	return err ? problem_set(p, -err, "the cluster store can't be read: %s; see stratusd's log", strerror(-err)) : 0;
}

/* ---- the register for translators ---- */

static int register_get(const char *key, struct blob *value, uint64_t *version)
{
	return store_get(cluster.store, key, value, version);
}

static int register_replace(const char *key, uint64_t version, const struct blob *value)
{
	return store_replace(cluster.store, key, version, value);
}

static bool register_leads(void)
{
	return store_leads(cluster.store);
}

/* The others may elect another an election's time (1 s) after they heard of the leader (sooner if it hands over, but then it does not count as leading any more); it may take twice that time and a tick until
 * it steps down, and what the store says of it may be 0.8 s old. */
static const struct cluster_register views = { register_get, register_replace, register_leads, 2000000000 };

/* ---- units ---- */

static bool is_ours(const struct spec_brick *b)
{
	return !strcmp(b->server->name, cluster.name);
}

/* Whether the brick is served by the unit: its volume stands in the unit's text. */
static bool serves(const struct unit *u, size_t brick)
{
	cleanup_path char *line = path_format("\nvolume brick%zu\n", brick);

	return u->kind == VOLGEN_SERVER && strstr(u->text, line);
}

static void unit_stop(struct unit *u)
{
	if (!u->graph)
		return;
	graph_stop(u->graph);
	graph_destroy(u->graph);
	u->graph = NULL;
}

static void unit_free(struct unit *u)
{
	unit_stop(u);
	free(u->file);
	free(u->text);
}

static int read_secret(const struct volume *v, char secret[SECRET_DIGITS + 1], struct problem *p)
{
	cleanup_path char *key = path_format("secret/%s", v->name);
	struct blob value;
	uint64_t version;
	int err = store_get(cluster.store, key, &value, &version);

	if (!err && value.size != SECRET_DIGITS)
		err = -EINVAL;
	if (!err)
		memcpy(secret, value.bytes, SECRET_DIGITS + 1);
	free(value.bytes);
	return err ? problem_set(p, -err, "the secret of volume %s is not in the store: delete the volume and create it anew",
				 v->name)
		   : 0;
}

/* The directories and secrets that a unit needs. */
static int unit_prepare(const struct volume *v, const struct unit *u, struct problem *p)
{
	cleanup_path char *file = path_format("%s/%s.secret", cluster.state, v->name);
	char secret[SECRET_DIGITS + 1];
	int err = v->spec->replica ? read_secret(v, secret, p) : 0;

	if (!err && u->kind == VOLGEN_COORDINATOR)
		return secret_write(file, secret, p);
	for (size_t i = 0; i < v->spec->bricks && !err; i++)
		if (serves(u, i))
			err = brick_prepare(&v->spec->brick[i], cluster.state, v->spec->replica ? secret : NULL, p);
	return err;
}

static int unit_run(struct volume *v, struct unit *u, struct problem *p)
{
	struct volfile file = { 0 };
	struct graph *g = NULL;
	int err = unit_prepare(v, u, p);

	if (!err)
		err = volfile_parse(u->text, strlen(u->text), v->name, &file, p);
	if (!err)
		err = graph_create(&file, NULL, NULL, &g, p);
	if (!err)
		err = graph_start(g, p);
	if (err)
		graph_destroy(g);
	else
		u->graph = g;
	volfile_free(&file);
	return err;
}

/* From now on an empty directory in the place of one of its bricks is no new brick. */
static int unit_mark(const struct volume *v, struct unit *u, struct problem *p)
{
	int err = 0;

	for (size_t i = 0; i < v->spec->bricks && !err; i++)
		if (serves(u, i))
			err = brick_mark(&v->spec->brick[i], cluster.state, p);
	u->marked = !err;
	return err;
}

static void unit_start(struct volume *v, struct unit *u)
{
	struct problem p = { "" };
	int err = u->graph ? 0 : unit_run(v, u, &p);

	if (!err)
		err = unit_mark(v, u, &p);
	if (!err)
		log_info(NULL, NULL, "serving volume %s: %s", v->name, u->file);
	else if (strcmp(p.text, u->problem.text)) /* once, not at each attempt */
		log_error(NULL, NULL, "volume %s: %s: %s", v->name, u->file, p.text[0] ? p.text : strerror(-err));
	if (err)
		problem_set(&p, -err, "%s", strerror(-err));
	u->problem = p;
}

/* Another text: live options change in place, for anything else the graph is made anew. */
static void unit_change(const struct volume *v, struct unit *u, char *text)
{
	struct problem ignored = { "" };
	struct volfile file = { 0 };
	int done = u->graph && !volfile_parse(text, strlen(text), v->name, &file, &ignored)
			   ? graph_reconfigure(u->graph, &file, &ignored)
			   : 0;

	if (done <= 0)
		unit_stop(u);
	volfile_free(&file);
	free(u->text);
	u->text = text;
}

/* Takes the file's name and text if the unit is new or differs. False: memory is short, and it must be tried again. */
static bool unit_want(struct volume *v, struct volgen_file *file)
{
	struct unit *u = NULL, *grown;

	for (size_t i = 0; i < v->units && !u; i++)
		if (!strcmp(v->unit[i].file, file->name))
			u = &v->unit[i];
	if (!u) {
		grown = realloc(v->unit, (v->units + 1) * sizeof *grown);
		if (!grown)
			return false;
		v->unit = grown;
		u = &grown[v->units++];
		*u = (struct unit){ .file = file->name, .text = file->text, .kind = file->kind, .number = file->number };
		file->name = file->text = NULL;
	} else if (strcmp(u->text, file->text)) {
		unit_change(v, u, file->text);
		file->text = NULL;
	}
	u->wanted = true;
	return true;
}

/* ---- volumes ---- */

static void volume_drop_unwanted(struct volume *v)
{
	size_t kept = 0;

	for (size_t i = 0; i < v->units; i++) /* the coordinator before the bricks */
		if (!v->unit[i].wanted && v->unit[i].kind == VOLGEN_COORDINATOR)
			unit_stop(&v->unit[i]);
	for (size_t i = 0; i < v->units; i++) {
		if (v->unit[i].wanted)
			v->unit[kept++] = v->unit[i];
		else
			unit_free(&v->unit[i]);
	}
	v->units = kept;
}

/* A specification may be long, and others change, too: what was put into effect is not made once more. */
static bool is_settled(const struct volume *v, bool leads)
{
	cleanup_path char *key = path_format("volume/%s", v->name);

	return v->settled && v->led == leads && store_version(cluster.store, key) == v->version;
}

static void volume_release_spec(struct volume *v)
{
	if (v->spec != &none)
		cluster_spec_release(v->spec);
	v->spec = &none;
}

/* What its specification asks of this server: its own bricks, and the coordinator if it leads. */
static void volume_want(struct volume *v, bool leads)
{
	struct volgen_files files = { 0 };
	int err;

	if (is_settled(v, leads)) /* who is not wanted was dropped then */
		return;
	for (size_t i = 0; i < v->units; i++)
		v->unit[i].wanted = false;
	v->settled = true;
	v->led = leads;
	volume_release_spec(v);
	v->problem = (struct problem){ "" };
	err = cluster_spec(v->name, &v->spec, &v->version, &v->problem);
	v->spec = err ? &none : v->spec;
	if (!err && !v->spec->stopped)
		err = cluster_spec_files(v->spec, &files, &v->problem);
	for (size_t i = 0; i < files.count; i++) {
		struct volgen_file *f = &files.file[i];

		if ((f->kind == VOLGEN_SERVER && !strcmp(v->spec->server[f->number].name, cluster.name)) ||
		    (f->kind == VOLGEN_COORDINATOR && leads))
			v->settled &= unit_want(v, f);
	}
	volgen_free(&files);
	v->understood = !err;
	v->settled &= v->understood;
	for (size_t i = 0; i < v->units && err; i++) /* what runs goes on */
		v->unit[i].wanted = v->unit[i].kind == VOLGEN_SERVER || leads;
}

static void volume_start(struct volume *v)
{
	static const enum volgen_kind order[] = { VOLGEN_SERVER, VOLGEN_COORDINATOR };

	if (!v->understood) /* nobody knows what its bricks' directories must be */
		return;
	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0; i < v->units; i++)
			if (v->unit[i].kind == order[k] && !(v->unit[i].graph && v->unit[i].marked))
				unit_start(v, &v->unit[i]);
}

static void volume_free(struct volume *v)
{
	for (size_t i = 0; i < v->units; i++)
		v->unit[i].wanted = false;
	volume_drop_unwanted(v);
	free(v->unit);
	volume_release_spec(v);
	free(v->name);
}

static struct volume *find_volume(const char *name)
{
	for (size_t i = 0; i < cluster.volumes; i++)
		if (!strcmp(cluster.volume[i].name, name))
			return &cluster.volume[i];
	return NULL;
}

static void volume_note(const char *name)
{
	struct volume *v = find_volume(name), *grown;

	if (!v) {
		grown = realloc(cluster.volume, (cluster.volumes + 1) * sizeof *grown);
		if (!grown)
			return;
		cluster.volume = grown;
		v = &grown[cluster.volumes++];
		*v = (struct volume){ .name = path_format("%s", name), .spec = &none };
	}
	v->wanted = true;
}

static void forget_volumes(void)
{
	size_t kept = 0;

	for (size_t i = 0; i < cluster.volumes; i++) {
		cleanup_path char *secret = path_format("%s/%s.secret", cluster.state, cluster.volume[i].name);

		if (cluster.volume[i].wanted) {
			cluster.volume[kept++] = cluster.volume[i];
			continue;
		}
		volume_free(&cluster.volume[i]);
		unlink(secret);
	}
	cluster.volumes = kept;
}

void cluster_reconcile(void)
{
	static const char prefix[] = "volume/";
	uint64_t index;
	bool leads;
	char **keys;

	if (!store_replayed(cluster.store)) /* later: watch() */
		return;
	pthread_mutex_lock(
		&cluster.lock); /* first: what was read before another's turn may be older than what that put into effect */
	index = store_index(cluster.store);
	leads = store_leads(cluster.store);
	keys = store_keys(cluster.store, prefix);
	if (!keys) {
		pthread_mutex_unlock(&cluster.lock);
		return;
	}
	atomic_store(&cluster.reconciled, index);
	atomic_store(&cluster.led, leads);
	for (size_t i = 0; i < cluster.volumes; i++)
		cluster.volume[i].wanted = false;
	for (char **key = keys; *key; key++)
		volume_note(*key + strlen(prefix));
	forget_volumes();
	for (size_t i = 0; i < cluster.volumes; i++) {
		volume_want(&cluster.volume[i], leads);
		volume_drop_unwanted(&cluster.volume[i]);
	}
	for (size_t i = 0; i < cluster.volumes; i++)
		volume_start(&cluster.volume[i]);
	pthread_mutex_unlock(&cluster.lock);
	free(keys);
}

/* ---- what is not served is tried again ---- */

static bool all_served(void)
{
	bool all = true;

	pthread_mutex_lock(&cluster.lock);
	for (size_t i = 0; i < cluster.volumes; i++)
		for (size_t k = 0; k < cluster.volume[i].units; k++)
			all &= cluster.volume[i].unit[k].graph && cluster.volume[i].unit[k].marked;
	pthread_mutex_unlock(&cluster.lock);
	return all;
}

/* Puts into effect what others commit, takes over and gives up the coordinators with the lead, and tries again what failed. */
static void *watch(void *arg)
{
	uint64_t index = atomic_load(&cluster.reconciled);

	(void)arg;
	while (!atomic_load(&cluster.ending)) {
		bool leads;

		index = store_wait(cluster.store, index, RETRY_MS);
		if (atomic_load(&cluster.ending))
			return NULL;
		allotments_wake(); /* somebody may have been given what is waited for */
		leads = store_leads(cluster.store);
		if (leads && cluster.peers)
			cluster_note_self(cluster.peers);
		cluster_commit_wait();
		if (index != atomic_load(&cluster.reconciled) || leads != atomic_load(&cluster.led) || !all_served())
			cluster_reconcile();
	}
	return NULL;
}

static void stop_watcher(void)
{
	atomic_store(&cluster.ending, true);
	if (cluster.store)
		store_wake(cluster.store);
	if (cluster.watching)
		pthread_join(cluster.watcher, NULL);
	cluster.watching = false;
}

/* ---- start and stop ---- */

/* A shared store knows what is committed when somebody leads; who can't find others goes on waiting in the background. What was known before is not gone back to: a tenant's
 * files would be nobody's, and be charged to nobody, by a specification that is older than that tenant. */
static void await_others(void)
{
	for (unsigned ms = 0;
	     ms < FIRST_MS && !store_leads(cluster.store) && !(store_index(cluster.store) && store_replayed(cluster.store));
	     ms += 20)
		usleep(20000);
}

int cluster_start(const struct cluster_config *c, struct problem *p)
{
	int err;

	cluster.state = path_absolute(c->state);
	cluster.name = c->name ? path_format("%s", c->name) : cluster_host_name();
	cluster.peers = c->peers;
	err = cluster_open_store(c, cluster.state, cluster.name, &cluster.store, p);
	if (err)
		return err;
	cluster_register_set(&views);
	if (c->peers && !c->join)
		await_others();
	cluster_reconcile();
	err = cluster_http_start(c->listen, c->tls, p);
	if (!err && pthread_create(&cluster.watcher, NULL, watch, NULL))
		return problem_set(p, EAGAIN, "no thread for the cluster: the process limit is reached");
	cluster.watching = !err;
	if (!err)
		err = allotments_start(p);
	return err ? err : movers_start(p);
}

static void stop_coordinators(void)
{
	for (size_t i = 0; i < cluster.volumes; i++)
		for (size_t k = 0; k < cluster.volume[i].units; k++)
			if (cluster.volume[i].unit[k].kind == VOLGEN_COORDINATOR)
				unit_stop(&cluster.volume[i].unit[k]);
}

void cluster_stop(void)
{
	stop_watcher();
	movers_stop(); /* while its bricks are there */
	cluster_http_stop();
	if (cluster.store) {
		cluster_leave();
		store_hand_over(cluster.store); /* who decides next finds its members as they were left */
	}
	allotments_stop(); /* until then its bricks serve, and may want room */
	stop_coordinators();
	cluster_register_set(NULL);
	store_close(
		cluster.store); /* before the bricks, whose disks may take long: if nobody has taken the lead, somebody can now */
	cluster.store = NULL;
	for (size_t i = 0; i < cluster.volumes; i++)
		volume_free(&cluster.volume[i]);
	free(cluster.volume);
	cluster.volume = NULL;
	cluster.volumes = 0;
	cluster_specs_forget();
	free(cluster.state);
	free(cluster.name);
}

/* ---- what is said of it ---- */

void cluster_each_graph(void (*fn)(struct graph *, void *), void *arg)
{
	pthread_mutex_lock(&cluster.lock);
	for (size_t i = 0; i < cluster.volumes; i++)
		for (size_t k = 0; k < cluster.volume[i].units; k++)
			if (cluster.volume[i].unit[k].graph)
				fn(cluster.volume[i].unit[k].graph, arg);
	pthread_mutex_unlock(&cluster.lock);
	movers_each_graph(fn, arg);
}

int cluster_reload(struct problem *p)
{
	(void)p;
	cluster_reconcile();
	return 0;
}

static void print_problem(FILE *to, const char *what, const struct problem *problem)
{
	if (problem->text[0])
		fprintf(to, "%s%s%s\n", what, *what ? ": " : "", problem->text);
}

char *cluster_problems(const char *volume)
{
	const struct volume *v;
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		return NULL;
	pthread_mutex_lock(&cluster.lock);
	v = find_volume(volume);
	if (v)
		print_problem(to, "", &v->problem);
	for (size_t i = 0; v && i < v->units; i++)
		print_problem(to, v->unit[i].file, &v->unit[i].problem);
	pthread_mutex_unlock(&cluster.lock);
	fclose(to);
	return text;
}

char *cluster_unserved(void)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		return NULL;
	pthread_mutex_lock(&cluster.lock);
	for (size_t i = 0; i < cluster.volumes; i++) {
		const struct volume *v = &cluster.volume[i];
		cleanup_path char *what = path_format("not all of volume %s is served", v->name);

		print_problem(to, what, &v->problem);
		for (size_t k = 0; k < v->units; k++)
			print_problem(to, what, &v->unit[k].problem);
	}
	pthread_mutex_unlock(&cluster.lock);
	fclose(to);
	return text;
}

/* "key: N" lines of a dump, added up; sessions and connections are counted by their lines. */
static unsigned count_lines(const char *text, const char *begin)
{
	unsigned count = 0;

	for (const char *at = strstr(text, begin); at; at = strstr(at + 1, begin))
		count++;
	return count;
}

/* Sessions of clients with a brick, as protocol/server tells them. */
static unsigned count_sessions(struct graph *g, size_t brick)
{
	cleanup_path char *wanted = path_format(", subvolume brick%zu,", brick);
	char *text = NULL;
	size_t size;
	unsigned count;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		return 0;
	if (g->top->type->dump)
		g->top->type->dump(g->top, to);
	fclose(to);
	count = count_lines(text, wanted);
	free(text);
	return count;
}

static const struct unit *unit_of(const struct volume *v, size_t brick)
{
	for (size_t i = 0; i < v->units; i++)
		if (serves(&v->unit[i], brick))
			return &v->unit[i];
	return NULL;
}

static json_t *brick_json(const struct volume *v, size_t number)
{
	const struct spec_brick *b = &v->spec->brick[number];
	const struct unit *u = unit_of(v, number);
	char id[GFID_TEXT];
	json_t *brick = json_pack("{s:s, s:s, s:s, s:s, s:i, s:s}", "name", "", "server", b->server->name, "directory",
				  b->directory, "id", gfid_text(&b->id, id), "port", (int)spec_brick_port(b), "state",
				  !is_ours(b)	     ? "elsewhere"
				  : u && u->graph    ? "serving"
				  : v->spec->stopped ? "stopped"
						     : "down");
	cleanup_path char *name = path_format("brick%zu", number);

	json_object_set_new(brick, "name", json_string(name));
	if (u && u->problem.text[0])
		json_object_set_new(brick, "problem", json_string(u->problem.text));
	if (u && u->graph)
		json_object_set_new(brick, "clients", json_integer(count_sessions(u->graph, number)));
	return brick;
}

/* What the coordinator says of the set: its view, and what is still to heal. */
static json_t *replica_json(const struct volume *v, size_t set)
{
	char *words[] = { (char *)"status", (char *)"--json", NULL }, *text = NULL;
	const struct unit *u = NULL;
	json_t *said;
	size_t size;
	FILE *to;

	for (size_t i = 0; i < v->units; i++)
		if (v->unit[i].kind == VOLGEN_COORDINATOR && v->unit[i].number == set)
			u = &v->unit[i];
	if (!u || !u->graph || !u->graph->top->type->command)
		return u && u->problem.text[0] ? json_pack("{s:s}", "problem", u->problem.text) : json_null();
	to = open_memstream(&text, &size);
	if (!to)
		return json_null();
	u->graph->top->type->command(u->graph->top, 2, words, to);
	fclose(to);
	said = json_loads(text, 0, NULL);
	free(text);
	return said ? said : json_null();
}

json_t *cluster_set_status(const char *volume, size_t set)
{
	const struct volume *v;
	json_t *said = NULL;

	pthread_mutex_lock(&cluster.lock);
	v = find_volume(volume);
	if (v)
		said = replica_json(v, set);
	pthread_mutex_unlock(&cluster.lock);
	if (json_object_get(said, "members"))
		return said;
	json_decref(said);
	return NULL;
}

static json_t *sets_json(const struct volume *v)
{
	json_t *sets = json_array();

	for (size_t i = 0; i < spec_places(v->spec); i++)
		if (spec_has_subvolume(v->spec, i))
			json_array_append_new(sets, replica_json(v, i));
	return sets;
}

static json_t *volume_json(const struct volume *v)
{
	char id[GFID_TEXT];
	json_t *bricks = json_array(), *all;

	for (size_t i = 0; i < v->spec->bricks; i++)
		if (!v->spec->brick[i].gone)
			json_array_append_new(bricks, brick_json(v, i));
	all = json_pack("{s:s, s:s, s:I, s:b, s:i, s:b, s:o}", "name", v->name, "id", gfid_text(&v->spec->id, id), "version",
			(json_int_t)v->version, "started", !v->spec->stopped, "replica",
			v->spec->replica ? (int)v->spec->replica : 1, "arbiter", v->spec->arbiter, "bricks", bricks);
	if (v->spec->replica && spec_places(v->spec) == 1)
		json_object_set_new(all, "set", replica_json(v, 0));
	else if (v->spec->replica)
		json_object_set_new(all, "sets", sets_json(v));
	if (v->spec->has_tenants)
		json_object_set_new(all, "tenants", json_true());
	if (v->understood && cluster_rebalance_pending(v->spec))
		json_object_set_new(all, "balanced", json_false());
	if (v->problem.text[0])
		json_object_set_new(all, "problem", json_string(v->problem.text));
	return all;
}

/* Without the lock: a disk that hangs holds up nobody but who asks (over HTTP: who asks for the status). */
static void add_space(json_t *volumes)
{
	json_t *volume, *brick;
	size_t i, k;

	json_array_foreach(volumes, i, volume) json_array_foreach(json_object_get(volume, "bricks"), k, brick)
	{
		const char *server = json_string_value(json_object_get(brick, "server"));
		struct statvfs fs;

		if (strcmp(server, cluster.name) || statvfs(json_string_value(json_object_get(brick, "directory")), &fs))
			continue;
		json_object_set_new(brick, "bytes-total", json_integer((json_int_t)fs.f_blocks * fs.f_frsize));
		json_object_set_new(brick, "bytes-free", json_integer((json_int_t)fs.f_bavail * fs.f_frsize));
		json_object_set_new(brick, "bytes-used", json_integer((json_int_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize));
		json_object_set_new(brick, "inodes-used", json_integer((json_int_t)(fs.f_files - fs.f_ffree)));
		json_object_set_new(brick, "inodes-free", json_integer((json_int_t)fs.f_favail));
		if (disk_is_read_only(json_text(brick, "directory")))
			json_object_set_new(brick, "read-only", json_true());
	}
}

/* Without the lock, too: who moves names has one of his own. */
static void add_rebalances(json_t *volumes)
{
	json_t *volume, *brief;
	size_t i;

	json_array_foreach(volumes, i,
			   volume) if ((brief = cluster_rebalance_brief(json_string_value(json_object_get(volume, "name")))))
		json_object_set_new(volume, "rebalance", brief);
}

json_t *cluster_certificates(void)
{
	return certificates_find(cluster_each_graph, cluster_http_has_tls() ? tls_dir_wanted() : NULL);
}

void cluster_status(FILE *to)
{
	json_t *volumes = json_array(), *servers = json_array(), *certificates, *all;
	char trouble[1024];

	pthread_mutex_lock(&cluster.lock);
	for (size_t i = 0; i < cluster.volumes; i++)
		json_array_append_new(volumes, volume_json(&cluster.volume[i]));
	pthread_mutex_unlock(&cluster.lock);
	add_space(volumes);
	add_rebalances(volumes);
	certificates = cluster_certificates();
	cluster_members_json(servers);
	if (!json_array_size(servers) && cluster.peers)
		json_array_append_new(servers, json_pack("{s:s, s:s, s:s, s:b, s:b}", "name", cluster.name, "address",
							 cluster.peers, "state", "waiting", "leads", false, "votes", false));
	else if (!json_array_size(servers)) /* not shared */
		json_array_append_new(servers, json_pack("{s:s, s:s}", "name", cluster.name, "state", "up"));
	all = json_pack("{s:{s:s, s:s, s:s, s:i}, s:o, s:I, s:o, s:o}", "self", "name", cluster.name, "listen",
			cluster_http_address(), "version", PACKAGE_VERSION, "pid", (int)getpid(), "servers", servers, "index",
			(json_int_t)store_index(cluster.store), "volumes", volumes, "certificates", certificates);
	if (store_trouble(cluster.store, trouble, sizeof trouble))
		json_object_set_new(all, "trouble", json_string(trouble));
	json_dumpf(all, to, JSON_INDENT(2));
	fputc('\n', to);
	json_decref(all);
}

static void name_xlators(struct graph *g, void *arg)
{
	for (size_t i = 0; i < g->count; i++) {
		cleanup_path char *name = path_format("%s:%s", g->path, g->xlator[i]->name);

		json_array_append_new(arg, json_pack("{s:s, s:s}", "name", name, "type", g->xlator[i]->type->name));
	}
}

static void list_servers(FILE *to)
{
	char **names = cluster_servers();
	size_t count = 0;

	while (names && names[count])
		count++;
	fact_strings(to, "servers", (const char *const *)names, count);
	free(names);
}

void cluster_info(FILE *to)
{
	json_t *all = json_array();

	fact_string(to, "server", cluster.name);
	fact_string(to, "state", cluster.state);
	fact_string(to, "listen", cluster_http_address());
	list_servers(to);
	fputs(", \"tenant-verbs\": true", to); /* an older one has no `cluster tenant` */
	cluster_each_graph(name_xlators, all);
	fputs(", \"volumes\": ", to);
	json_dumpf(all, to, 0);
	json_decref(all);
}
