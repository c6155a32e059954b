/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: linking, starting, events upward, and switching to another graph while requests run. */
#include "graph.h"

#include <assert.h>
#include <endian.h>
#include <unistd.h>

#include "fop-dispatch.h"
#include "module.h"

enum { STRAGGLERS_MS = 10000 };

/* Taken for writing while a switch rewires parents, for reading while an event climbs. */
static pthread_rwlock_t topology = PTHREAD_RWLOCK_INITIALIZER;
static atomic_uint last_number;

/* ---- building ---- */

static const char *who(const struct xlator *x, char text[256])
{
	snprintf(text, 256, "volume %.100s (%.100s)", x->name, x->type->name);
	return text;
}

static int copy_options(struct xlator *x, const struct volfile_volume *v)
{
	x->given = calloc(v->options + 1, sizeof(*x->given));
	if (!x->given)
		return -ENOMEM;
	for (; x->given_count < v->options; x->given_count++) {
		struct option_value *o = &x->given[x->given_count];

		*o = (struct option_value){ strdup(v->option[x->given_count].name), strdup(v->option[x->given_count].value),
					    v->option[x->given_count].line };
		if (!o->name || !o->value)
			return -ENOMEM;
	}
	return 0;
}

static void xlator_free(struct xlator *x)
{
	if (!x)
		return;
	if (x->private) {
		options_free(x->type->options, x->private);
		free(x->private);
	}
	for (size_t i = 0; i < x->given_count; i++) {
		free(x->given[i].name);
		free(x->given[i].value);
	}
	free(x->given);
	free(x->child);
	free(x->parent);
	free(x->name);
	free(x);
}

static int check_children(const struct xlator *x, const char *path, unsigned line, struct problem *p)
{
	int least = x->type->min_children, most = x->type->max_children;
	char name[256], takes[64] = "no subvolumes", has[64] = "has no line `subvolumes`";

	if (x->children >= least && (most < 0 || x->children <= most))
		return 0;
	if (most < 0)
		snprintf(takes, sizeof(takes), "%d or more subvolumes", least);
	else if (most > least)
		snprintf(takes, sizeof(takes), "%d to %d subvolumes", least, most);
	else if (most)
		snprintf(takes, sizeof(takes), "%d subvolume%s", most, most > 1 ? "s" : "");
	if (x->children)
		snprintf(has, sizeof(has), "its line `subvolumes` names %d", x->children);
	return problem_set(p, EINVAL, "%s:%u: %s takes %s, but %s", path, line, who(x, name), takes, has);
}

static int wire_children(struct graph *g, struct xlator *x, const struct volfile_volume *v)
{
	x->child = calloc(v->subvolumes + 1, sizeof(*x->child));
	if (!x->child)
		return -ENOMEM;
	for (size_t i = 0; i < v->subvolumes; i++) {
		x->child[i] = graph_find(g, v->subvolume[i]);
		assert(x->child[i]); /* the parser has seen to it */
		x->children++;
	}
	return 0;
}

static bool same_options(const struct xlator *x, const struct volfile_volume *v)
{
	if (x->given_count != v->options)
		return false;
	for (size_t i = 0; i < v->options; i++)
		if (strcmp(x->given[i].name, v->option[i].name) || strcmp(x->given[i].value, v->option[i].value))
			return false;
	return true;
}

/* The old graph's instance, if it can serve in the new graph as it is: a leaf that is the same to the letter. */
static struct xlator *find_same(struct graph *old, const struct volfile_volume *v)
{
	struct xlator *x = old ? graph_find(old, v->name) : NULL;

	if (x && x->type->shareable && !v->subvolumes && !x->children && !strcmp(x->type->name, v->type) && same_options(x, v))
		return x;
	return NULL;
}

static int add_xlator(struct graph *g, const struct volfile *file, const struct volfile_volume *v, struct graph *old,
		      struct problem *p)
{
	struct xlator *x = find_same(old, v);
	const struct xlator_type *type;
	struct problem why = { "" };
	char name[256];
	int err;

	if (x) {
		g->borrowed[g->count] = true;
		g->xlator[g->count++] = x;
		return 0;
	}
	err = module_load(v->type, &type, &why);
	if (err)
		return problem_set(p, -err, "%s:%u: volume %.100s: %s", file->path, v->line, v->name, why.text);
	x = calloc(1, sizeof(*x));
	if (!x)
		return -ENOMEM;
	g->xlator[g->count++] = x;
	x->type = type;
	x->graph = g;
	x->inodes = g->inodes;
	x->name = strdup(v->name);
	x->private = calloc(1, type->private_size + 1);
	if (!x->name || !x->private)
		return -ENOMEM;
	err = copy_options(x, v);
	if (!err)
		err = wire_children(g, x, v);
	if (!err)
		err = check_children(x, file->path, v->line, p);
	if (!err) {
		const struct option_owner owner = { who(x, name), file->path, v->line };

		err = options_apply(x->type->options, x->private, &owner, x->given, x->given_count, p);
	}
	return err;
}

/* The parents that x has in this graph. Called with topology held for writing, or before anybody else sees the graph. */
static int wire_parents(struct graph *g, struct xlator *x)
{
	struct xlator **parent = calloc(g->count + 1, sizeof(*parent));
	int parents = 0;

	if (!parent)
		return -ENOMEM;
	for (size_t i = 0; i < g->count; i++)
		for (int c = 0; c < g->xlator[i]->children; c++)
			if (g->xlator[i]->child[c] == x)
				parent[parents++] = g->xlator[i];
	free(x->parent);
	x->parent = parent;
	x->parents = parents;
	return 0;
}

static int unsupported(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	(void)rq, (void)x, (void)fop, (void)in, (void)out;
	return -EOPNOTSUPP;
}
static const struct xlator_type nobody_type = { .api = STRATUS_API_VERSION, .name = "nobody", .any = unsupported };
static struct xlator nobody = { .type = &nobody_type, .name = (char *)"nobody" };

/* Pass-through costs nothing at run time: for each fop the first that handles it is found here, once. */
static void link_handlers(struct xlator *x)
{
	for (enum fop op = 1; op < FOP_COUNT; op++) {
		struct xlator *t = x;

		while (!fop_handled(t->type, op) && t->children == 1)
			t = t->child[0];
		x->handler[op] = fop_handled(t->type, op) ? t : &nobody;
	}
}

static int check_gaps(const struct xlator *front, struct problem *p)
{
	char name[256];

	for (int c = 0; front->type->front && c < front->children; c++)
		for (enum fop op = 1; op < FOP_COUNT; op++)
			if (front->child[c]->handler[op] == &nobody && !(fop_info[op].flags & FOP_OPTIONAL))
				return problem_set(p, ENOSYS,
						   "below %s nobody handles %s: %s is missing, or put a translator that "
						   "does in between",
						   who(front->child[c], name), fop_name((int)op),
						   op == FOP_setlk || op == FOP_getlk ? "features/locks"
						   : op == FOP_access		      ? "features/access"
										      : "a leaf");
	return 0;
}

int graph_create(const struct volfile *file, struct inode_table *inodes, struct graph *old, struct graph **made,
		 struct problem *p)
{
	struct graph *g = calloc(1, sizeof(*g));
	char name[256];
	int err = 0;

	*made = NULL;
	if (!g)
		return -ENOMEM;
	g->number = atomic_fetch_add(&last_number, 1) + 1;
	g->owns_inodes = !inodes;
	g->inodes = inodes ? inodes : inode_table_create();
	g->xlator = calloc(file->volumes + 1, sizeof(*g->xlator));
	g->borrowed = calloc(file->volumes + 1, sizeof(*g->borrowed));
	g->path = strdup(file->path);
	if (!g->inodes || !g->xlator || !g->borrowed || !g->path)
		err = -ENOMEM;
	for (size_t i = 0; i < file->volumes && !err; i++)
		err = add_xlator(g, file, &file->volume[i], old, p);
	for (size_t i = 0; i < g->count && !err; i++) {
		if (g->borrowed[i])
			continue; /* requests run in it, and what is below it stays */
		err = wire_parents(g, g->xlator[i]);
		link_handlers(g->xlator[i]);
	}
	for (size_t i = 0; i < g->count && !err; i++)
		err = check_gaps(g->xlator[i], p);
	for (size_t i = 0; i < g->count && !err; i++) {
		struct xlator *x = g->xlator[i];

		if (g->borrowed[i])
			continue;
		err = x->type->init ? x->type->init(x, p) : 0;
		x->ready = !err;
		if (err)
			problem_set(p, -err, "%s can't be set up: %s", who(x, name), strerror(-err));
	}
	if (err) {
		problem_set(p, -err, "%s: %s", file->path, strerror(-err));
		graph_destroy(g);
		return err;
	}
	g->top = g->xlator[g->count - 1];
	*made = g;
	return 0;
}

static void stop_xlator(struct xlator *x)
{
	if (x->started && x->type->stop)
		x->type->stop(x);
	x->started = false;
}

bool graph_retire(struct graph *g)
{
	bool done = true;

	for (size_t i = g->count; i-- > 0;)
		if (!g->borrowed[i] && g->xlator[i]->started && g->xlator[i]->type->retire)
			done &= g->xlator[i]->type->retire(g->xlator[i]);
	return done;
}

void graph_stop(struct graph *g)
{
	for (size_t i = g->count; i-- > 0;)
		if (!g->borrowed[i])
			stop_xlator(g->xlator[i]);
}

static int claim_all(struct graph *g, struct problem *p)
{
	int err = 0;

	for (size_t i = 0; i < g->count && !err; i++) {
		struct xlator *x = g->xlator[i];

		if (g->borrowed[i] || !x->type->claim)
			continue;
		err = x->type->claim(x, p);
		x->started = !err;
	}
	return err;
}

/* What is borrowed still belongs to another graph, to whose translators its word goes. Who is above it in this one must know how it is, too, before those
 * above him start: some ask then what is below them. */
static _Thread_local struct xlator *listens;

static void hear_borrowed(const struct graph *g, struct xlator *x)
{
	listens = x;
	for (int c = 0; c < x->children; c++)
		if (x->child[c]->graph != g && x->child[c]->type->announce)
			x->child[c]->type->announce(x->child[c]);
	listens = NULL;
}

int graph_start(struct graph *g, struct problem *p)
{
	char name[256];
	int err = claim_all(g, p);

	for (size_t i = 0; i < g->count && !err; i++) {
		struct xlator *x = g->xlator[i];

		if (g->borrowed[i])
			continue;
		err = x->type->start ? x->type->start(x, p) : 0;
		x->started |= !err; /* or claimed */
		if (!err)
			hear_borrowed(g, x);
		if (err)
			problem_set(p, -err, "%s can't start: %s", who(x, name), strerror(-err));
	}
	if (err)
		graph_stop(g);
	return err;
}

/* Nobody waits any more for the branches of fan-outs that were left, but they hold what they were given until they have ended; that is soon
 * after graph_stop(). */
static void await_stragglers(const struct graph *g)
{
	for (int ms = 0; ms < STRAGGLERS_MS && atomic_load(&g->requests); ms++)
		usleep(1000);
}

void graph_destroy(struct graph *g)
{
	if (!g)
		return;
	await_stragglers(g);
	for (size_t i = g->count; i-- > 0;) {
		struct xlator *x = g->xlator[i];

		if (g->borrowed[i])
			continue;
		assert(!x->started);
		if (g->inodes)
			slots_purge(g->inodes, x);
		if (x->ready && x->type->finish)
			x->type->finish(x);
		xlator_free(x);
	}
	if (g->owns_inodes)
		inode_table_destroy(g->inodes);
	free(g->xlator);
	free(g->borrowed);
	free(g->path);
	free(g);
}

struct xlator *graph_find(struct graph *g, const char *name)
{
	for (size_t i = 0; i < g->count; i++)
		if (g->xlator[i]->name && !strcmp(g->xlator[i]->name, name))
			return g->xlator[i];
	return NULL;
}

/* ---- switching ---- */

/* What moved tells its new parents how it is. */
static void announce(struct graph *g, const bool *moved)
{
	for (size_t i = 0; i < g->count; i++)
		if (moved[i] && g->xlator[i]->type->announce)
			g->xlator[i]->type->announce(g->xlator[i]);
}

/* The new graph has started: what it borrowed is its own now, and marked in `moved`. */
static int take_over(struct graph *new, struct graph *old, bool *moved)
{
	int err = 0;

	pthread_rwlock_wrlock(&topology);
	for (size_t i = 0; i < new->count && !err; i++) {
		struct xlator *x = new->xlator[i];

		if (!new->borrowed[i])
			continue;
		err = wire_parents(new, x);
		for (size_t j = 0; j < old->count && !err; j++)
			if (old->xlator[j] == x)
				old->borrowed[j] = true;
		if (!err) {
			moved[i] = true;
			new->borrowed[i] = false;
			x->graph = new;
		}
	}
	pthread_rwlock_unlock(&topology);
	new->owns_inodes = old->owns_inodes;
	old->owns_inodes = false;
	return err;
}

/* What open files are to those that were made anew. */
static void hand_on(const struct graph *new, struct graph *old)
{
	for (size_t i = 0; i < new->count; i++) {
		struct xlator *x = new->xlator[i];
		const struct xlator *before = x->name ? graph_find(old, x->name) : NULL;

		if (x->type->inherit_file && before && before != x && before->type == x->type)
			slots_inherit(x, before);
	}
}

int graph_switch(struct graph **active, const struct volfile *file, struct problem *p)
{
	struct graph *old = *active, *new;
	int err = graph_create(file, old->inodes, old, &new, p);
	bool *moved;

	if (err)
		return err;
	new->on_unmount = old->on_unmount;
	moved = calloc(new->count, sizeof(*moved));
	err = moved ? graph_start(new, p) : -ENOMEM;
	if (err) {
		free(moved);
		graph_destroy(new);
		return err;
	}
	err = take_over(new, old, moved);
	hand_on(new, old);
	*active = new;
	announce(new, moved);
	free(moved);
	while (atomic_load(&old->requests))
		usleep(200);
	graph_stop(old);
	graph_destroy(old);
	return err;
}

/* 1 if the volumes have the same names, types and subvolumes in the same order. */
static bool same_shape(const struct graph *g, const struct volfile *file)
{
	if (g->count != file->volumes)
		return false;
	for (size_t i = 0; i < g->count; i++) {
		const struct xlator *x = g->xlator[i];
		const struct volfile_volume *v = &file->volume[i];

		if (strcmp(x->name, v->name) || strcmp(x->type->name, v->type) || (size_t)x->children != v->subvolumes)
			return false;
		for (int c = 0; c < x->children; c++)
			if (strcmp(x->child[c]->name, v->subvolume[c]))
				return false;
	}
	return true;
}

static const char *value_of(const struct option_value *values, size_t count, const char *name, const char *preset)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(values[i].name, name))
			return values[i].value;
	return preset;
}

static bool differs(const struct xlator *x, const struct volfile_volume *v, const struct option *o)
{
	const char *now = value_of(x->given, x->given_count, o->name, o->preset);
	const char *then = value_of(v->option, v->options, o->name, o->preset);

	return strcmp(now ? now : "", then ? then : "");
}

/* With `change` false only looks: 0 if a switch is needed. */
static int reconfigure(struct xlator *x, const struct volfile_volume *v, bool change, struct problem *p)
{
	char name[256];
	int err = 0;

	for (size_t i = 0; i < v->options; i++)
		if (!option_find(x->type->options, v->option[i].name))
			return 0; /* the switch will say what is wrong */
	for (const struct option *o = x->type->options; o && o->name && !err; o++) {
		if (!differs(x, v, o))
			continue;
		if (!o->live || !value_of(v->option, v->options, o->name, o->preset))
			return 0;
		if (change)
			err = option_change(x->type->options, x->private, who(x, name), o->name,
					    value_of(v->option, v->options, o->name, o->preset), p);
		if (change && !err && x->type->reconfigure)
			x->type->reconfigure(x, o);
	}
	if (change && !err) {
		struct xlator copy = { 0 };

		err = copy_options(&copy, v);
		for (size_t i = 0; i < x->given_count; i++) {
			free(x->given[i].name);
			free(x->given[i].value);
		}
		free(x->given);
		x->given = copy.given;
		x->given_count = copy.given_count;
	}
	return err ? err : 1;
}

int graph_reconfigure(struct graph *g, const struct volfile *file, struct problem *p)
{
	if (!same_shape(g, file))
		return 0;
	for (int change = 0; change < 2; change++)
		for (size_t i = 0; i < g->count; i++) {
			int done = reconfigure(g->xlator[i], &file->volume[i], change, p);

			if (done <= 0)
				return done;
		}
	return 1;
}

/* ---- events and facts ---- */

static void climb(struct xlator *from, const struct event *event);

static void hand_to(struct xlator *parent, struct xlator *from, const struct event *event)
{
	if (parent->type->notify)
		parent->type->notify(parent, from, event);
	else
		climb(parent, event);
}

static void climb(struct xlator *from, const struct event *event)
{
	for (int i = 0; i < from->parents; i++)
		hand_to(from->parent[i], from, event);
}

void event_set_gfid(struct event *e, const struct gfid *g)
{
	uint64_t words[2];

	memcpy(words, g->bytes, sizeof(words));
	e->lock.start = be64toh(words[0]);
	e->lock.end = be64toh(words[1]);
}

struct gfid event_gfid(const struct event *e)
{
	uint64_t words[2] = { htobe64(e->lock.start), htobe64(e->lock.end) };
	struct gfid g;

	memcpy(g.bytes, words, sizeof(g.bytes));
	return g;
}

void event_up(struct xlator *from, const struct event *event)
{
	pthread_rwlock_rdlock(&topology);
	if (listens && from->graph != listens->graph)
		hand_to(listens, from, event);
	else
		climb(from, event);
	pthread_rwlock_unlock(&topology);
}

static struct xlator *believer(struct xlator *x)
{
	while (!x->type->believe && x->children == 1)
		x = x->child[0];
	return x->type->believe ? x : NULL;
}

uint64_t believe_ms(struct xlator *to, struct inode *inode, enum believe what, uint64_t since)
{
	struct xlator *x = since ? believer(to) : NULL;

	return x ? x->type->believe(x, inode, what, since) : 0;
}

uint64_t moment_now(struct xlator *to)
{
	struct xlator *x = believer(to);

	return x ? x->type->believe(x, NULL, BELIEVE_ATTR, 0) : 0;
}

void graph_dump(struct graph *g, FILE *out)
{
	char text[1024];

	fprintf(out, "graph %u from %s: %zu inodes, %u requests\n", g->number, g->path, inode_table_count(g->inodes),
		atomic_load(&g->requests));
	for (size_t i = 0; i < g->count; i++) {
		struct xlator *x = g->xlator[i];

		fprintf(out, "volume %s %s%s\n", x->name, x->type->name, x == g->top ? " (top)" : "");
		for (const struct option *o = x->type->options; o && o->name; o++) {
			option_print(o, x->private, text, sizeof(text));
			fprintf(out, "  option %s: %s\n", o->name, text);
		}
		for (int c = 0; c < x->children; c++)
			fprintf(out, "  subvolume: %s\n", x->child[c]->name);
		if (x->type->dump)
			x->type->dump(x, out);
	}
}
