/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that read and change the cluster store: the commit of a new specification, which cluster-check.c has looked at.
 *
 *   cluster get VOLUME                       JSON: version, text of the specification
 *   cluster list                             JSON: names
 *   cluster commit any|new|VERSION [dry-run] [force] the specification follows; JSON: version, before, after, problems
 *   cluster commit any|new|VERSION brief     the same; JSON: version, changed, problems: a specification may be long
 *                                            force: a brick is replaced whatever the others of its set have
 *   cluster tenant VERB VOLUME               changes one tenant (tenant-json.h); JSON: changed, tenant, problems
 *   cluster delete VOLUME VERSION
 *   cluster status                           JSON
 *   cluster rebalance ...                    see cluster-rebalance.c
 *   cluster add-server ..., remove-server    see cluster-servers.c */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "brick.h"
#include "cluster-changes.h"
#include "cluster-check.h"
#include "cluster-rebalance.h"
#include "cluster.h"
#include "log.h"
#include "path.h"
#include "store.h"
#include "tenant-json.h"
#include "volfiles.h"

enum { EDITS = 5, WAIT_MS = 50 };

/* ---- commit ---- */

static int stale(const char *volume, struct problem *p)
{
	return problem_set(p, ESTALE, "volume %s was changed by somebody else in the meantime: look at it and try again",
			   volume);
}

/* Of a volume that had grown before this store knew it: whether names have moved nobody knows until `rebalance start` has asked the bricks. malloc'ed. */
static char *document_text(const struct spec *s, const char *state, uint64_t version)
{
	json_t *document = rebalance_document(state, spec_numbers(s), (json_int_t)version, NULL);
	char *text = json_dumps(document, JSON_COMPACT);

	json_decref(document);
	return text;
}

/* Or stays after all: then it gets its part of the names again. */
static bool begins_to_leave(const struct spec *s, const struct spec *before)
{
	return before->volume && s->leaving != before->leaving && spec_numbers(s) == spec_numbers(before);
}

static atomic_uint committing;

void cluster_commit_wait(void)
{
	for (unsigned ms = 0; ms < WAIT_MS && atomic_load(&committing); ms++)
		usleep(1000);
}

/* What is to be committed, after it was checked. */
struct proposal {
	struct spec spec;
	struct volgen_files files;
	char *text; /* as it is committed */
	bool force;
};

static void proposal_free(struct proposal *c)
{
	spec_free(&c->spec);
	volgen_free(&c->files);
	free(c->text);
}

static int proposal_check(struct proposal *c, const struct spec *before, struct problem *p)
{
	int err = cluster_check(&c->spec, before, c->force, &c->files, p);

	if (err)
		return err;
	c->text = spec_text(&c->spec);
	return c->text ? 0 : problem_set(p, ENOMEM, "not enough memory for the specification of volume %s", c->spec.volume);
}

/* The specification; for a new volume of sets its secret, which goes with it; and the views of sets that go do so, too, for one that is added later must not
 * wait for their members. */
static int commit(struct proposal *c, const struct spec *before, uint64_t version, struct problem *p)
{
	const struct spec *s = &c->spec;
	cleanup_path char *key = path_format("volume/%s", s->volume);
	char secret[SECRET_DIGITS + 1] = "";
	struct blob value = { .size = strlen(c->text), .bytes = c->text };
	struct blob hidden = { .size = SECRET_DIGITS, .bytes = secret }, rebalance;
	struct changes changes = { NULL };
	char *document = NULL;
	int err = 0;

	if (!err)
		documents_add(&changes, path_format("%s", key), version, &value);
	if (!err && !before->volume && s->replica) {
		documents_set(&changes, "secret", s->volume, &hidden);
		err = secret_create(secret, p);
	}
	if (!err && (begins_to_leave(s, before) || (!before->volume && spec_began_with(s) != spec_subvolumes(s)))) {
		document = document_text(s, before->volume ? "running" : "stopped", version + 1);
		rebalance = (struct blob){ .size = document ? strlen(document) : 0, .bytes = document };
		err = document ? 0 : -ENOMEM;
		if (!err)
			documents_set(&changes, "rebalance", s->volume, &rebalance);
	}
	for (size_t i = 0; !err && before->volume && s->replica && i < spec_places(before); i++)
		if (spec_has_subvolume(before, i) && !spec_has_subvolume(s, i))
			documents_remove_view(&changes, before, i);
	if (!err && before->volume)
		documents_note_limits(&changes, s, before);
	else if (!err) /* there may have been a volume with that id */
		documents_forget_limits(&changes, s);
	atomic_fetch_add(&committing, 1);
	if (!err)
		err = documents_commit(&changes);
	if (!err)
		cluster_spec_committed(&c->spec, version + 1, &c->files);
	atomic_fetch_sub(&committing, 1);
	documents_free(&changes);
	free(document);
	if (err == -ESTALE)
		return stale(key + strlen("volume/"), p);
	return cluster_commit_problem(err, p);
}

static int check_version(const char *wanted, const struct spec *before, uint64_t version, const char *volume, struct problem *p)
{
	char *end;

	if (!strcmp(wanted, "any"))
		return 0;
	if (!strcmp(wanted, "new"))
		return before->volume
			       ? problem_set(p, EEXIST, "there is a volume %s already: `stratus volume info %s` shows it",
					     volume, volume)
			       : 0;
	if (strtoull(wanted, &end, 10) != version || *end)
		return stale(volume, p);
	return 0;
}

struct form {
	const char *wanted; /* the version that it is to replace */
	bool dry_run, brief;
};

static void answer(const char *volume, const struct form *f, const char *before, const char *after, uint64_t version, FILE *out)
{
	cleanup_path char *problems = f->dry_run ? NULL : cluster_problems(volume);
	json_t *all = json_pack("{s:s, s:I, s:s}", "volume", volume, "version", (json_int_t)version, "problems",
				problems ? problems : "");

	if (f->brief) {
		json_object_set_new(all, "changed", json_boolean(strcmp(before, after)));
	} else {
		json_object_set_new(all, "before", json_string(before));
		json_object_set_new(all, "after", json_string(after));
	}
	json_dumpf(all, out, 0);
	json_decref(all);
}

static const struct spec no_spec;

static int commit_parsed(const struct form *f, struct proposal *c, FILE *out, struct problem *p)
{
	cleanup_path char *volume = path_format("%s", c->spec.volume), *text = NULL;
	struct problem none = { "" };
	const struct spec *held, *before;
	uint64_t version = 0;
	int err = cluster_spec(volume, &held, &version, &none);

	before = held ? held : &no_spec;
	text = held ? spec_text(held) : path_format("%s", "");
	if (err && err != -ENOENT)
		err = problem_set(p, -err, "%s", none.text);
	else
		err = check_version(f->wanted, before, version, volume, p);
	if (!err)
		err = proposal_check(c, before, p);
	if (!err && !text)
		err = problem_set(p, ENOMEM, "not enough memory for the specification of volume %s", volume);
	if (!err && !f->dry_run && strcmp(text, c->text)) {
		err = commit(c, before, version, p);
		version += !err;
	}
	if (!err && !f->dry_run)
		cluster_reconcile();
	if (!err)
		answer(volume, f, text, c->text, version, out);
	cluster_spec_release(held);
	return err;
}

/* What is printed is read again: so what is committed has been checked as if it came from outside. */
static int propose(const struct spec *edited, struct proposal *c, struct problem *p)
{
	cleanup_path char *text = spec_text(edited);

	return text ? spec_parse(text, strlen(text), "the specification", &c->spec, p) : -ENOMEM;
}

static int take_out(const struct spec *before, uint64_t version, struct problem *p)
{
	struct proposal c = { .text = NULL };
	int err = propose(before, &c, p);

	if (!err) {
		spec_take_out(&c.spec);
		err = proposal_check(&c, before, p);
	}
	if (!err)
		err = commit(&c, before, version, p);
	proposal_free(&c);
	return err;
}

int cluster_take_out(const char *volume, struct problem *p)
{
	const struct spec *before;
	uint64_t version;
	int err = cluster_spec(volume, &before, &version, p);

	if (!err && before->leaving)
		err = take_out(before, version, p);
	cluster_spec_release(before);
	return err;
}

/* Nothing is committed if nothing differs. */
static int edit_held(const struct spec *before, uint64_t version, cluster_change *change, void *arg, bool *changed,
		     struct problem *p)
{
	struct proposal c = { .text = NULL };
	cleanup_path char *text = spec_text(before);
	struct spec edited;
	int err;

	spec_copy(before, &edited);
	err = text ? change(&edited, arg, p) : -ENOMEM;
	if (!err)
		err = propose(&edited, &c, p);
	if (!err)
		err = proposal_check(&c, before, p);
	*changed = !err && strcmp(text, c.text);
	if (*changed)
		err = commit(&c, before, version, p);
	spec_free(&edited);
	proposal_free(&c);
	return err;
}

static int edit_once(const char *volume, cluster_change *change, void *arg, bool *changed, struct problem *p)
{
	const struct spec *before;
	uint64_t version;
	int err = cluster_spec(volume, &before, &version, p);

	if (!err)
		err = edit_held(before, version, change, arg, changed, p);
	cluster_spec_release(before);
	return err;
}

int cluster_edit(const char *volume, cluster_change *change, void *arg, bool *changed, struct problem *p)
{
	struct problem one = { "" };
	int err = -ESTALE;

	for (int tries = 0; err == -ESTALE && tries < EDITS; tries++) {
		one = (struct problem){ "" };
		err = edit_once(volume, change, arg, changed, &one);
	}
	if (!err)
		cluster_reconcile();
	return err ? problem_set(p, -err, "%s", one.text) : 0;
}

static int command_commit(int words, char **word, const char *body, FILE *out, struct problem *p)
{
	struct form f = { 0 };
	struct proposal c = { .text = NULL };
	bool known = words >= 3 && body;
	int err;

	for (int i = 3; i < words; i++) {
		f.dry_run |= !strcmp(word[i], "dry-run");
		f.brief |= !strcmp(word[i], "brief");
		c.force |= !strcmp(word[i], "force");
		known &= !strcmp(word[i], "dry-run") || !strcmp(word[i], "brief") || !strcmp(word[i], "force");
	}
	if (!known)
		return problem_set(p, EINVAL, "cluster commit takes a version and a specification");
	f.wanted = word[2];
	err = spec_parse(body, strlen(body), "the specification", &c.spec, p);
	if (!err)
		err = commit_parsed(&f, &c, out, p);
	proposal_free(&c);
	return err;
}

static json_t *tenant_told(const char *volume, const char *tenant, bool changed)
{
	cleanup_path char *problems = cluster_problems(volume);
	struct problem ignored = { "" };
	const struct spec *s;
	uint64_t version;
	const struct spec_tenant *t = cluster_spec(volume, &s, &version, &ignored) ? NULL : spec_tenant_find(s, tenant);
	json_t *all = json_pack("{s:b, s:s}", "changed", changed, "problems", problems ? problems : "");

	if (t)
		json_object_set_new(all, "tenant", tenant_json(s, t, true));
	cluster_spec_release(s);
	return all;
}

/* One tenant is changed here, and not a copy of the specification, which may be long, by who asks. */
static int command_tenant(char **word, const char *body, FILE *out, struct problem *p)
{
	struct tenant_edit e = { .verb = word[2] };
	json_t *limits = json_loads(body ? body : "{}", 0, NULL), *answer;
	bool changed = false;
	int err = tenant_edit_from_json(limits, &e, p);

	if (!err)
		err = cluster_edit(word[3], tenant_edit_spec, &e, &changed, p);
	answer = err ? NULL : tenant_told(word[3], e.name, changed);
	if (answer)
		json_dumpf(answer, out, 0);
	json_decref(answer);
	json_decref(limits);
	return err;
}

/* ---- the other commands ---- */

static int command_get(const char *volume, FILE *out, struct problem *p)
{
	struct blob text;
	uint64_t version;
	json_t *all;
	int err = cluster_spec_text(volume, &text, &version, p);

	if (err)
		return err;
	all = json_pack("{s:I, s:s}", "version", (json_int_t)version, "text", text.bytes);
	json_dumpf(all, out, 0);
	json_decref(all);
	free(text.bytes);
	return 0;
}

static int command_list(FILE *out)
{
	char **keys = store_keys(cluster_store(), "volume/");
	json_t *list = json_array();

	for (char **key = keys; key && *key; key++)
		json_array_append_new(list, json_string(strchr(*key, '/') + 1));
	json_dumpf(list, out, 0);
	json_decref(list);
	free(keys);
	return keys ? 0 : -ENOMEM;
}

/* The specification, the views of the sets, the secret, and what is noted of rebalancing go together. */
static int remove_all(const struct spec *s)
{
	struct changes c = { NULL };
	int err;

	documents_remove(&c, "volume", s->volume);
	documents_remove(&c, "secret", s->volume);
	documents_remove(&c, "rebalance", s->volume);
	for (size_t i = 0; s->replica && i < spec_places(s); i++)
		if (spec_has_subvolume(s, i))
			documents_remove_view(&c, s, i);
	documents_forget_limits(&c, s);
	err = documents_commit(&c);
	documents_free(&c);
	return err;
}

static int command_delete(const char *volume, const char *wanted, struct problem *p)
{
	const struct spec *s;
	uint64_t version;
	int err = cluster_spec(volume, &s, &version, p);

	if (!err && !s->stopped)
		err = problem_set(p, EBUSY, "volume %s is in use: `stratus volume stop %s` it first", volume, volume);
	if (!err)
		err = check_version(wanted, s, version, volume, p);
	if (err) {
		cluster_spec_release(s);
		return err;
	}
	err = remove_all(s);
	cluster_spec_release(s);
	if (err == -ESTALE)
		return stale(volume, p);
	if (err)
		return cluster_commit_problem(err, p);
	cluster_reconcile();
	return 0;
}

int cluster_command(int words, char **word, const char *body, FILE *out, bool *known, struct problem *p)
{
	const char *verb = words > 1 ? word[1] : "";

	*known = !strcmp(word[0], "cluster");
	if (!*known)
		return 0;
	if (!strcmp(verb, "commit"))
		return command_commit(words, word, body, out, p);
	if (!strcmp(verb, "tenant") && words == 4)
		return command_tenant(word, body, out, p);
	if (!strcmp(verb, "get") && words == 3)
		return command_get(word[2], out, p);
	if (!strcmp(verb, "list") && words == 2)
		return command_list(out);
	if (!strcmp(verb, "delete") && words == 4)
		return command_delete(word[2], word[3], p);
	if (!strcmp(verb, "add-server") || !strcmp(verb, "remove-server"))
		return cluster_server_command(words, word, p);
	if (!strcmp(verb, "rebalance"))
		return cluster_rebalance_command(words, word, out, p);
	if (!strcmp(verb, "status") && words == 2) {
		cluster_status(out);
		return 0;
	}
	return problem_set(p, EINVAL, "\"cluster %.60s\" is not known, or takes other words", verb);
}
