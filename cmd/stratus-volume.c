/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus apply`, `volume`, `brick`, `server`: change what the cluster has agreed on. Each change is made to the committed
 * specification and committed in its place, unless somebody else was faster. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "brick-wait.h"
#include "cluster-client.h"
#include "command.h"
#include "difference.h"
#include "json.h"
#include "path.h"
#include "service.h"
#include "verbs.h"

enum { KEY_DRY = 1000, KEY_START, KEY_CANCEL, KEY_KEEP, KEY_FORCE, KEY_NEW_DISK, WORDS = 1024 };

struct arguments {
	struct words words;
	struct ask_form ask;
	struct spec_form form;
	bool dry_run, start, cancel, keep_bricks, force, new_disk;
	uint64_t with_names; /* a mask: subvolumes that have names, or may have */
	bool *have_none;     /* what was removed has none */
	bool is_awaited;     /* what is not served at once will be waited for */
	char **replacement;  /* SERVER:/DIRECTORY of the brick that replaces another */
};

static error_t option(int key, char *value, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->ask;
		if (state->root_argp->children[1].argp)
			state->child_inputs[1] = &a->form;
		return 0;
	case KEY_DRY:
		a->dry_run = true;
		return 0;
	case KEY_START:
		a->start = true;
		return 0;
	case KEY_CANCEL:
		a->cancel = true;
		return 0;
	case KEY_KEEP:
		a->keep_bricks = true;
		return 0;
	case KEY_FORCE:
		a->force = true;
		return 0;
	case KEY_NEW_DISK:
		a->new_disk = true;
		return 0;
	default:
		return words_take(&a->words, key, value, state);
	}
}

#define DRY_OPTION                                                                                                             \
	{                                                                                                                      \
		"dry-run", KEY_DRY, NULL, 0, "Check it and show the difference, change nothing", 0                             \
	}
static const struct argp_child ask_child[] = { { &ask_argp, 0, NULL, 0 }, { 0 } };

static int run_verb(const char *program, const struct verb *verbs, const struct arguments *a)
{
	unsigned given = (a->dry_run ? WITH_DRY_RUN : 0) | (a->form.replica ? WITH_REPLICA : 0) |
			 (a->form.arbiter ? WITH_ARBITER : 0) | (a->form.tenants || a->form.growable ? WITH_TENANTS : 0) |
			 (a->form.tls ? WITH_TLS : 0) | (a->start ? WITH_START : 0) | (a->cancel ? WITH_CANCEL : 0) |
			 (a->keep_bricks ? WITH_KEEP : 0) | (a->force ? WITH_FORCE : 0) | (a->new_disk ? WITH_NEW_DISK : 0);

	return verbs_run(program, verbs, a->words.word[0], a->words.count, given, a);
}

/* ---- what a commit says ---- */

static void print_plain(const struct arguments *a, const json_t *answer)
{
	const char *volume = json_text(answer, "volume"), *before = json_text(answer, "before");
	size_t changed = difference_print(before, json_text(answer, "after"), stdout);

	if (!changed)
		printf("volume %s: nothing differs\n", volume);
	else if (a->dry_run)
		printf("volume %s: this would be %s; nothing was changed\n", volume, *before ? "changed" : "new");
	else
		printf("volume %s: version %" JSON_INTEGER_FORMAT " committed\n", volume,
		       json_integer_value(json_object_get(answer, "version")));
}

/* The change holds, but something of it could not be put into effect: that is a failure of the command, too. */
static int conclude(const struct arguments *a, const json_t *answer, struct problem *p)
{
	const char *problems = json_text(answer, "problems");

	if (a->ask.json) {
		json_show(answer);
	} else {
		print_plain(a, answer);
	}
	if (!*problems || a->is_awaited)
		return 0;
	return keeper_judge(answer, p);
}

static int commit(const struct arguments *a, const struct process *keeper, const char *version, const struct spec *s,
		  struct problem *p)
{
	enum commit_form form = (a->dry_run ? COMMIT_DRY : COMMIT) + (a->force ? COMMIT_FORCE : 0);
	json_t *answer = NULL;
	int err = keeper_commit(keeper, version, form, s, &answer, p);

	if (!err)
		err = conclude(a, answer, p);
	json_decref(answer);
	return err;
}

/* Gets the specification, lets `change` change it, commits it. */
static int edit(const struct arguments *a, const char *volume,
		int (*change)(struct spec *, const struct arguments *, struct problem *), struct problem *p)
{
	struct process keeper = { 0 };
	struct spec s = { 0 };
	uint64_t version = 0;
	int err = keeper_find(a->ask.stratusd, &keeper, p);

	if (!err)
		err = keeper_get(&keeper, volume, &s, &version, p);
	if (!err)
		err = change(&s, a, p);
	if (!err) {
		cleanup_path char *number = path_format("%" PRIu64, version);

		err = commit(a, &keeper, number, &s, p);
	}
	spec_free(&s);
	process_free(&keeper);
	return err;
}

/* ---- apply ---- */

static int apply(const struct arguments *a, struct problem *p)
{
	struct process keeper = { 0 };
	struct spec s = { 0 };
	int err = spec_read(a->words.word[0], &s, p);

	if (!err)
		err = keeper_find(a->ask.stratusd, &keeper, p);
	if (!err)
		err = commit(a, &keeper, "any", &s, p);
	if (!err)
		warn_of("stratus apply", &s);
	spec_free(&s);
	process_free(&keeper);
	return err;
}

int command_apply(int argc, char **argv)
{
	static const struct argp_option options[] = {
		DRY_OPTION,
		{ "force", KEY_FORCE, NULL, 0,
		  "Also if it replaces a brick whose files no other brick of its set has: what only that one has is given up",
		  0 },
		{ 0 },
	};
	static const struct argp argp = {
		options,
		option,
		"SPEC",
		"Checks a specification (doc/volfile.md) and commits it to the cluster store: the volume is made, or changed "
		"to what it says. Returns when this server serves its part; the others follow (`stratus status` there tells).",
		ask_child,
		NULL,
		NULL,
	};
	const char *word[1];
	struct arguments a = { .words = { word, 1, 1, 0 } };
	struct problem p = { "" };

	arguments_parse(&argp, argc, argv, 0, NULL, &a);
	return apply(&a, &p) ? problem_print(argv[0], &p) : 0;
}

/* ---- volume ---- */

static int volume_create(const struct arguments *a, struct problem *p)
{
	struct process keeper = { 0 };
	struct spec s = { 0 };
	int err = keeper_find(a->ask.stratusd, &keeper, p);

	if (!err)
		err = spec_init(a->words.word[1], a->words.word + 2, a->words.count - 2, &a->form, &s, p);
	if (!err) {
		if (s.servers == 1 && !keeper_knows(&keeper, s.server[0].name)) /* an address of this server */
			spec_name_server(&s, keeper_server(&keeper));
		s.stopped = !a->start;
		err = commit(a, &keeper, "new", &s, p);
	}
	if (!err && !a->ask.json && !a->start && !a->dry_run)
		printf("`stratus volume start %s` starts it\n", s.volume);
	if (!err)
		warn_of("stratus volume", &s);
	spec_free(&s);
	process_free(&keeper);
	return err;
}

static int print_list(const struct process *keeper, const struct arguments *a, struct problem *p)
{
	json_t *list = NULL, *one;
	size_t i;
	int err = keeper_ask(keeper, "cluster list", NULL, &list, p);

	if (err)
		return err;
	json_array_foreach(list, i, one) if (!a->ask.json) puts(json_string_value(one));
	if (a->ask.json) {
		json_show(list);
	} else if (!json_array_size(list)) {
		puts("there is no volume yet: `stratus volume create` makes one");
	}
	json_decref(list);
	return 0;
}

static int print_one(const struct process *keeper, const struct arguments *a, struct problem *p)
{
	cleanup_path char *line = path_format("cluster get %s", a->words.word[1]);
	json_t *answer = NULL;
	int err = keeper_ask(keeper, line, NULL, &answer, p);

	if (err)
		return err;
	if (a->ask.json) {
		json_show(answer);
	} else {
		printf("# version %" JSON_INTEGER_FORMAT "\n%s", json_integer_value(json_object_get(answer, "version")),
		       json_text(answer, "text"));
	}
	json_decref(answer);
	return 0;
}

static int volume_info(const struct arguments *a, struct problem *p)
{
	struct process keeper = { 0 };
	int err = keeper_find(a->ask.stratusd, &keeper, p);

	if (!err)
		err = a->words.count > 1 ? print_one(&keeper, a, p) : print_list(&keeper, a, p);
	process_free(&keeper);
	return err;
}

static int set_started(struct spec *s, const struct arguments *a, struct problem *p)
{
	(void)a, (void)p;
	s->stopped = false;
	return 0;
}

static int set_stopped(struct spec *s, const struct arguments *a, struct problem *p)
{
	(void)a, (void)p;
	s->stopped = true;
	return 0;
}

static int volume_start(const struct arguments *a, struct problem *p)
{
	return edit(a, a->words.word[1], set_started, p);
}

static int volume_stop(const struct arguments *a, struct problem *p)
{
	return edit(a, a->words.word[1], set_stopped, p);
}

static int volume_delete(const struct arguments *a, struct problem *p)
{
	struct process keeper = { 0 };
	cleanup_path char *line = path_format("cluster delete %s any", a->words.word[1]);
	json_t *answer = NULL;
	int err = keeper_find(a->ask.stratusd, &keeper, p);

	if (!err)
		err = keeper_ask(&keeper, line, NULL, &answer, p);
	if (!err && a->ask.json)
		printf("{\"volume\": \"%s\", \"deleted\": true}\n", a->words.word[1]);
	else if (!err)
		printf("volume %s is deleted; the data stay in the directories of its bricks\n", a->words.word[1]);
	json_decref(answer);
	process_free(&keeper);
	return err;
}

/* set VOLUME TYPE OPTION [VALUE] */
static int set_option(struct spec *s, const struct arguments *a, struct problem *p)
{
	(void)p;
	spec_set_option(s, a->words.word[2], a->words.word[3], a->words.count > 4 ? a->words.word[4] : NULL);
	return 0;
}

static int volume_set(const struct arguments *a, struct problem *p)
{
	return edit(a, a->words.word[1], set_option, p);
}

/* ---- brick ---- */

static int replace_brick(struct spec *s, const struct arguments *a, struct problem *p)
{
	const struct spec_brick *b;
	size_t number;
	int already = spec_replace_brick(s, a->words.word[2], a->words.word[3], a->new_disk, &number, p);

	if (already < 0)
		return already;
	b = &s->brick[number];
	*a->replacement = path_format("%s:%s", b->server_name, b->directory);
	if (already && !a->ask.json)
		printf("brick%zu is that already\n", number);
	return 0;
}

static int await_brick(const struct arguments *a, const char *brick, struct problem *p)
{
	struct process keeper = { 0 };
	int err;

	if (!a->ask.json)
		printf("committed; waiting until %s is in service (ctrl-C ends only the waiting)\n", brick);
	fflush(stdout); /* who ends the waiting is to have seen what was done */
	err = keeper_find(a->ask.stratusd, &keeper, p);
	if (!err)
		err = brick_wait(&keeper, "stratus brick", a->words.word[1], brick, p);
	process_free(&keeper);
	return err;
}

static int brick_replace(const struct arguments *a, struct problem *p)
{
	struct arguments patient = *a;
	cleanup_path char *brick = NULL;
	int err;

	patient.is_awaited = true;
	patient.replacement = &brick;
	err = edit(&patient, a->words.word[1], replace_brick, p);
	return err || a->dry_run ? err : await_brick(a, brick, p);
}

static int add_bricks(struct spec *s, const struct arguments *a, struct problem *p)
{
	return spec_add_bricks(s, a->words.word + 2, (size_t)a->words.count - 2, p);
}

static int brick_add(const struct arguments *a, struct problem *p)
{
	int err = edit(a, a->words.word[1], add_bricks, p);

	if (!err && !a->ask.json && !a->dry_run)
		printf("when `stratus status` shows as many clients there as at the other bricks, `stratus rebalance start %s` moves names there\n",
		       a->words.word[1]);
	return err;
}

static int remove_bricks(struct spec *s, const struct arguments *a, struct problem *p)
{
	const char *const *bricks = a->words.word + 2;
	size_t count = (size_t)a->words.count - 2;
	uint64_t numbers;
	int err = spec_name_subvolumes(s, bricks, count, &numbers, p);

	if (err)
		return err;
	*a->have_none = !s->leaving && !(numbers & a->with_names);
	return *a->have_none ? spec_remove_bricks(s, bricks, count, p) : spec_let_leave(s, bricks, count, p);
}

static int keep_bricks(struct spec *s, const struct arguments *a, struct problem *p)
{
	(void)a;
	if (!s->leaving)
		return problem_set(p, EINVAL, "no bricks of volume %s are leaving it: there is nothing to cancel", s->volume);
	s->leaving = false;
	return 0;
}

/* *numbers: a mask of the subvolumes over which names are spread. As long as they move all may have some. */
static int look_for_names(const struct arguments *a, uint64_t *numbers, struct problem *p)
{
	cleanup_path char *line = path_format("cluster rebalance status %s", a->words.word[1]);
	struct process keeper = { 0 };
	json_t *answer = NULL, *one;
	int err = keeper_find(a->ask.stratusd, &keeper, p);
	size_t i;

	if (!err)
		err = keeper_ask(&keeper, line, NULL, &answer, p);
	*numbers = json_is_array(json_object_get(answer, "numbers")) ? 0 : UINT64_MAX;
	json_array_foreach(json_object_get(answer, "numbers"), i, one) *numbers |= UINT64_C(1)
										   << (json_integer_value(one) & 63);
	json_decref(answer);
	process_free(&keeper);
	return err;
}

static void tell_what_follows(const struct arguments *a)
{
	const char *volume = a->words.word[1];

	if (a->ask.json || a->dry_run)
		return;
	if (a->cancel)
		printf("they stay, and get their part of the names again; `stratus rebalance status %s` tells how far that is\n",
		       volume);
	else if (!*a->have_none)
		printf("names and files move to the other bricks now, and these are taken out when they are empty: `stratus rebalance status "
		       "%s` tells how far that is, `stratus brick remove --cancel %s` keeps them\n",
		       volume, volume);
}

static int brick_remove(const struct arguments *a, struct problem *p)
{
	struct arguments known = *a;
	bool have_none = false;
	int err;

	if (a->cancel != (a->words.count == 2))
		return problem_set(p, EINVAL,
				   a->cancel ? "remove --cancel takes a volume only"
					     : "remove takes a volume and bricks of it, or --cancel and a volume");
	known.have_none = &have_none;
	err = look_for_names(a, &known.with_names, p);
	if (!err)
		err = edit(&known, a->words.word[1], a->cancel ? keep_bricks : remove_bricks, p);
	if (!err)
		tell_what_follows(&known);
	return err;
}

/* ---- server ---- */

static int server_ask(const struct arguments *a, const char *line, const char *done, struct problem *p)
{
	struct process keeper = { 0 };
	json_t *answer = NULL;
	int err = keeper_find(a->ask.stratusd, &keeper, p);

	if (!err)
		err = keeper_ask(&keeper, line, NULL, &answer, p);
	if (!err && a->ask.json)
		printf("{\"server\": \"%s\", \"%s\": true}\n", a->words.word[1], done);
	else if (!err)
		printf("server %s is %s\n", a->words.word[1], done);
	json_decref(answer);
	process_free(&keeper);
	return err;
}

static void print_servers(const json_t *list)
{
	json_t *s;
	size_t i;

	printf("%-16s %-22s %-8s %s\n", "SERVER", "ADDRESS", "STATE", "ROLE");
	json_array_foreach(list, i, s)
	{
		const char *role = json_is_true(json_object_get(s, "leads")) ? "leads" : "";

		if (json_is_false(json_object_get(s, "votes")))
			role = "does not vote yet";
		printf("%-16s %-22s %-8s %s\n", json_text(s, "name"),
		       json_object_get(s, "address") ? json_text(s, "address") : "alone", json_text(s, "state"), role);
	}
}

static int server_list(const struct arguments *a, struct problem *p)
{
	struct process keeper = { 0 };
	json_t *all = NULL;
	int err = keeper_find(a->ask.stratusd, &keeper, p);

	if (!err)
		err = keeper_ask(&keeper, "cluster status", NULL, &all, p);
	if (!err && a->ask.json)
		json_show(json_object_get(all, "servers"));
	else if (!err)
		print_servers(json_object_get(all, "servers"));
	json_decref(all);
	process_free(&keeper);
	return err;
}

static int server_add(const struct arguments *a, struct problem *p)
{
	cleanup_path char *line = path_format("cluster add-server %s %s", a->words.word[1], a->words.word[2]);

	return server_ask(a, line, "added", p);
}

static int server_remove(const struct arguments *a, struct problem *p)
{
	cleanup_path char *line =
		path_format("cluster remove-server %s%s", a->words.word[1], a->keep_bricks ? " keep-bricks" : "");

	return server_ask(a, line, "removed", p);
}

/* ---- verbs ---- */

int command_volume(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "start", KEY_START, NULL, 0, "With create: start it at once", 0 },
		{ "dry-run", KEY_DRY, NULL, 0,
		  "With create, start, stop, set: check it and show the difference, change nothing", 0 },
		{ 0 },
	};
	static const struct argp_child children[] = { { &ask_argp, 0, NULL, 0 }, { &form_argp, 0, "With create:", 1 }, { 0 } };
	static const struct argp argp = {
		options,
		option,
		"create VOLUME SERVER:/DIRECTORY...\nlist\ninfo [VOLUME]\nstart VOLUME\nstop VOLUME\ndelete VOLUME\nset VOLUME "
		"TYPE OPTION [VALUE]",
		"Makes, shows and changes volumes. `list` prints their names, `info` the committed specification of one. `set` "
		"gives an option to all translators of a type, or takes it away again when no value is named. `delete` leaves the "
		"bricks' directories as they are.",
		children,
		NULL,
		NULL,
	};
	static const struct verb verbs[] = {
		{ "create", 3, WORDS, WITH_DRY_RUN | WITH_REPLICA | WITH_ARBITER | WITH_TENANTS | WITH_START | WITH_TLS,
		  volume_create },
		{ "list", 1, 1, 0, volume_info },
		{ "info", 1, 2, 0, volume_info },
		{ "start", 2, 2, WITH_DRY_RUN, volume_start },
		{ "stop", 2, 2, WITH_DRY_RUN, volume_stop },
		{ "delete", 2, 2, 0, volume_delete },
		{ "set", 4, 5, WITH_DRY_RUN, volume_set },
		{ 0 },
	};
	static const char *word[WORDS];
	struct arguments a = { .words = { word, 1, WORDS, 0 } };

	arguments_parse(&argp, argc, argv, 0, NULL, &a);
	return run_verb(argv[0], verbs, &a);
}

int command_brick(int argc, char **argv)
{
	static const struct argp_option options[] = {
		DRY_OPTION,
		{ "cancel", KEY_CANCEL, NULL, 0, "With remove: bricks that are leaving the volume stay", 0 },
		{ "force", KEY_FORCE, NULL, 0,
		  "With replace: also if no other brick of the set is known to have all files; what only the old one has is given up",
		  0 },
		{ "new-disk", KEY_NEW_DISK, NULL, 0,
		  "With replace by the same directory: the old disk is gone, and an empty one is mounted there", 0 },
		{ 0 }
	};
	static const struct argp argp = {
		options,
		option,
		"replace VOLUME BRICK SERVER:/DIRECTORY\nadd VOLUME SERVER:/DIRECTORY...\nremove VOLUME BRICK...\nremove --cancel VOLUME",
		"Changes the bricks of a volume. `replace` puts an empty directory in place of a brick (brickN, or "
		"SERVER:/DIRECTORY) of a replica set, which is then healed; mounts follow. It returns when the new brick is in service. It is refused while no other brick of the set has all files, or "
		"another one is still to be healed (`stratus heal status`). `add` gives a volume more bricks, "
		"whole replica sets; `stratus rebalance` then moves names there. `remove` has a brick (or replica set, all of "
		"it) emptied while the volume is in use, and takes it out when nothing is left there; `stratus rebalance status` tells how far "
		"that is. The others keep their numbers, and what is added later takes that of one that has left. What was added and never got "
		"names goes at once.",
		ask_child,
		NULL,
		NULL,
	};
	static const struct verb verbs[] = {
		{ "replace", 4, 4, WITH_DRY_RUN | WITH_FORCE | WITH_NEW_DISK, brick_replace },
		{ "add", 3, WORDS, WITH_DRY_RUN, brick_add },
		{ "remove", 2, WORDS, WITH_DRY_RUN | WITH_CANCEL, brick_remove },
		{ 0 },
	};
	static const char *word[WORDS];
	struct arguments a = { .words = { word, 1, WORDS, 0 } };

	arguments_parse(&argp, argc, argv, 0, NULL, &a);
	return run_verb(argv[0], verbs, &a);
}

int command_server(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "keep-bricks", KEY_KEEP, NULL, 0,
		  "With remove: its bricks stay where they are, for it is added again (doc/cluster.md, \"A damaged log\")", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		options,
		option,
		"list\nadd SERVER ADDRESS:PORT\nremove [--keep-bricks] SERVER",
		"Shows and changes which servers keep the cluster store. `add` and `remove` go one at a time, on the server that leads. `add` takes in one that runs as "
		"`stratusd --state DIR --name SERVER --cluster ADDRESS:PORT --join`; `remove` lets one go that has no bricks.",
		ask_child,
		NULL,
		NULL,
	};
	static const struct verb verbs[] = { { "list", 1, 1, 0, server_list },
					     { "add", 3, 3, 0, server_add },
					     { "remove", 2, 2, WITH_KEEP, server_remove },
					     { 0 } };
	const char *word[3];
	struct arguments a = { .words = { word, 1, 3, 0 } };

	arguments_parse(&argp, argc, argv, 0, NULL, &a);
	return run_verb(argv[0], verbs, &a);
}
