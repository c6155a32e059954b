/* SPDX-License-Identifier: Apache-2.0 */
/* What people ask of the coordinator. */
#include "coordinator.h"

static const char *const states[] = { "out", "back", "in" };

/* How many bytes the UTF-8 character has that begins here; 0: it is none. */
static unsigned utf8_length(const char *at)
{
	unsigned char c = (unsigned char)*at;
	unsigned length = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
	unsigned char second = length > 1 ? (unsigned char)at[1] : 0;

	for (unsigned i = 1; i < length; i++)
		if (((unsigned char)at[i] & 0xc0) != 0x80)
			return 0;
	if ((c == 0xe0 && second < 0xa0) || (c == 0xed && second > 0x9f) || (c == 0xf0 && second < 0x90) ||
	    (c == 0xf4 && second > 0x8f))
		return 0;
	return length;
}

/* As a JSON string. Bytes that are no UTF-8 become "?": JSON can't tell them. */
static void string_json(const char *at, FILE *f)
{
	unsigned length;

	fputc('"', f);
	for (at = at ? at : "?"; *at; at += length ? length : 1) {
		length = utf8_length(at);
		if (*at == '"' || *at == '\\')
			fprintf(f, "\\%c", *at);
		else if ((unsigned char)*at < 0x20)
			fprintf(f, "\\u%04x", (unsigned)*at);
		else
			fprintf(f, "%.*s", length ? (int)length : 1, length ? at : "?");
	}
	fputc('"', f);
}

/* Seconds until the member is healed at the pace so far; -1: not known. */
static long long eta(const struct remote_member *m)
{
	uint64_t spent = clock_ns() - m->heal_started_ns, left = m->heal_total - m->healed;

	if (!m->healing || !m->healed || m->heal_total < m->healed)
		return -1;
	return (long long)((double)spent / (double)m->healed * (double)left / 1e9);
}

static void print_pending(const struct lease_reply *r, FILE *f)
{
	if (r->pending == UINT64_MAX)
		fputs("all", f);
	else
		fprintf(f, "%llu", (unsigned long long)r->pending);
}

void coordinator_dump(struct xlator *x, FILE *f)
{
	struct coordinator *c = x->private;

	pthread_mutex_lock(&c->lock);
	fprintf(f,
		"  epoch: %llu\n  why: %s\n  writable: %s\n  generation: %llu\n  views made: %llu\n  changes recovered: %llu\n",
		(unsigned long long)c->view.epoch, c->why, c->writable ? "yes" : "no", (unsigned long long)c->generation,
		(unsigned long long)c->views, (unsigned long long)c->recovered);
	fprintf(f, "  tenants' clients let go: %llu\n", (unsigned long long)c->departures.freed);
	fprintf(f, "  objects healed: %llu\n  bytes healed: %llu\n", (unsigned long long)atomic_load(&c->heal.objects),
		(unsigned long long)atomic_load(&c->heal.bytes));
	for (int i = 0; i < c->members; i++) {
		const struct remote_member *m = &c->member[i];

		fprintf(f, "  member %d: %s, %s, synced %llu, index %llu, notes %llu, tokens %llu, pending ", i,
			states[c->view.state[i]], member_live(c, i) ? "answers" : "does not answer",
			(unsigned long long)m->last.synced, (unsigned long long)m->last.index,
			(unsigned long long)m->last.notes, (unsigned long long)m->last.tokens);
		print_pending(&m->last, f);
		fputc('\n', f);
	}
	pthread_mutex_unlock(&c->lock);
}

static void member_json(const struct coordinator *c, int i, FILE *f)
{
	const struct remote_member *m = &c->member[i];
	bool all = m->last.pending == UINT64_MAX;

	fprintf(f,
		"{\"member\":%d,\"state\":\"%s\",\"answers\":%s,\"pending\":%lld,\"all_pending\":%s,\"healing\":%s,\"healed\":%llu,"
		"\"to_heal\":%s,\"eta_seconds\":%lld,\"synced\":%llu,\"index\":%llu,\"bytes\":%llu,\"bytes_free\":%llu}",
		i, states[c->view.state[i]], member_live(c, i) ? "true" : "false", all ? -1 : (long long)m->last.pending,
		all ? "true" : "false", m->healing ? "true" : "false", (unsigned long long)m->healed,
		m->demote ? "true" : "false", eta(m), (unsigned long long)m->last.synced, (unsigned long long)m->last.index,
		(unsigned long long)m->last.space, (unsigned long long)m->last.free);
}

static void status_json(struct coordinator *c, FILE *f)
{
	fputs("{\"volume\":", f);
	string_json(c->volume, f);
	fprintf(f, ",\"epoch\":%llu,\"writable\":%s,\"changes_wait\":%s,\"why\":", (unsigned long long)c->view.epoch,
		c->writable ? "true" : "false", c->changes_wait ? "true" : "false");
	string_json(c->why, f);
	fprintf(f, ",\"scrub_owed\":%s,\"first\":%d", c->owed.scrub ? "true" : "false", view_first(&c->view));
	fprintf(f, ",\"recovery_owed\":%s,\"generation\":%llu,\"healed_objects\":%llu,\"healed_bytes\":%llu,\"members\":[",
		c->owed.recovery ? "true" : "false", (unsigned long long)c->generation,
		(unsigned long long)atomic_load(&c->heal.objects), (unsigned long long)atomic_load(&c->heal.bytes));
	for (int i = 0; i < c->members; i++) {
		if (i)
			fputc(',', f);
		member_json(c, i, f);
	}
	fputs("]}\n", f);
}

static void status_text(struct coordinator *c, FILE *f)
{
	int first = c->owed.recovery ? view_first(&c->view) : -1;

	fprintf(f, "view %llu (%s), %s\n", (unsigned long long)c->view.epoch, c->why,
		c->writable	  ? "writable"
		: c->changes_wait ? "changes wait until its members are equal"
				  : "read only");
	if (first >= 0)
		fprintf(f, "member %d alone has all that was acknowledged, until the others have been made equal to it%s\n",
			first, member_live(c, first) ? "" : ": start it");
	for (int i = 0; i < c->members; i++) {
		const struct remote_member *m = &c->member[i];

		fprintf(f, "member %d  %-4s  %s  pending ", i, states[c->view.state[i]],
			member_live(c, i) ? "answers" : "no answer");
		print_pending(&m->last, f);
		if (m->healing)
			fprintf(f, "  healed %llu", (unsigned long long)m->healed);
		if (m->demote)
			fputs("  is to be healed", f);
		if (eta(m) >= 0)
			fprintf(f, "  ready in about %lld s", eta(m));
		fputc('\n', f);
	}
	if (c->view.epoch && atomic_load(&c->heal.epoch) != c->view.epoch)
		fputs("the view is being changed\n", f);
	if (c->owed.recovery)
		fputs("a recovery is owed: who is in may differ until it is done\n", f);
	if (c->scrub.running)
		fputs("a scrub is running\n", f);
}

/* ---- scrub ---- */

static const char *scrub_state(const struct scrub *s)
{
	return s->running ? "running" : !s->started_ns ? "never" : s->status ? "interrupted" : "done";
}

static void scrub_status(struct coordinator *c, bool json, FILE *f)
{
	const struct scrub *s = &c->scrub;
	double seconds = s->started_ns ? (double)((s->running ? clock_ns() : s->ended_ns) - s->started_ns) / 1e9 : 0;

	if (!json) {
		fprintf(f, "scrub: %s, %llu objects in %.1f s, %llu differences, %llu could not be compared\n", scrub_state(s),
			(unsigned long long)s->objects, seconds, (unsigned long long)s->differences,
			(unsigned long long)s->errors);
		for (unsigned i = 0; i < s->findings; i++)
			fprintf(f, "member %d: %s\n", s->finding[i].member, s->finding[i].path);
		return;
	}
	fprintf(f,
		"{\"state\":\"%s\",\"objects\":%llu,\"seconds\":%.1f,\"differences\":%llu,\"errors\":%llu,\"repairs\":%s,\"findings\":[",
		scrub_state(s), (unsigned long long)s->objects, seconds, (unsigned long long)s->differences,
		(unsigned long long)s->errors, s->repairs ? "true" : "false");
	for (unsigned i = 0; i < s->findings; i++) {
		fprintf(f, "%s{\"member\":%d,\"path\":", i ? "," : "", s->finding[i].member);
		string_json(s->finding[i].path, f);
		fputc('}', f);
	}
	fputs("]}\n", f);
}

static int scrub_command(struct coordinator *c, int argc, char **argv, FILE *f)
{
	const char *word = argc > 1 ? argv[1] : "status";
	int err = 0;

	if (!strcmp(word, "start") || !strcmp(word, "check"))
		err = scrub_start(c, !strcmp(word, "start"));
	else if (!strcmp(word, "stop"))
		scrub_stop(c);
	else if (strcmp(word, "status") || argc > 3 || (argc == 3 && strcmp(argv[2], "--json")))
		return -EINVAL;
	if (err == -EALREADY)
		fputs("a scrub is running already\n", f);
	else if (err)
		fprintf(f, "the scrub can't start: %s\n", error_text(err));
	pthread_mutex_lock(&c->lock);
	scrub_status(c, argc == 3, f);
	pthread_mutex_unlock(&c->lock);
	return 0;
}

/* ---- heal ---- */

/* The member is healed as a whole, from the root down. */
static int heal_full(struct coordinator *c, const char *number, FILE *f)
{
	char *end;
	long i = strtol(number, &end, 10);
	bool in;

	if (*end || end == number || i < 0 || i >= c->members)
		return -EINVAL;
	pthread_mutex_lock(&c->lock);
	in = c->view.epoch && c->view.state[i] == MEMBER_IN;
	c->member[i].demote |= in;
	c->member[i].differs.all = c->member[i].added = true;
	pthread_mutex_unlock(&c->lock);
	task_cond_broadcast(&c->changed);
	fprintf(f,
		in ? "member %ld will be healed as a whole\n"
		   : "member %ld is not in the set just now: it will be healed as a whole when it comes back\n",
		i);
	return 0;
}

static int heal_command(struct coordinator *c, int argc, char **argv, FILE *f)
{
	if (argc == 3 && !strcmp(argv[1], "full"))
		return heal_full(c, argv[2], f);
	return -EINVAL;
}

static const char *why_not_begun(int err)
{
	switch (err) {
	case -EALREADY:
		return "the view is not lost: nothing is to be done";
	case -ENOTCONN:
		return "the member does not answer";
	case -EINVAL:
		return "an arbiter has no data";
	default:
		return "members may still serve in the view that was lost: try again in some seconds";
	}
}

static int begin_command(struct coordinator *c, const char *number, FILE *f)
{
	char *end;
	long i = strtol(number, &end, 10);
	int err;

	if (*end || end == number || i < 0 || i >= c->members)
		return -EINVAL;
	err = view_begin(c, (int)i);
	if (err)
		fprintf(f, "%s\n", why_not_begun(err));
	else
		fprintf(f, "the set begins anew from member %ld; the others will be healed as a whole\n", i);
	return err;
}

int coordinator_command(struct xlator *x, int argc, char **argv, FILE *f)
{
	struct coordinator *c = x->private;
	bool json = argc == 2 && !strcmp(argv[1], "--json");

	if (argc >= 1 && !strcmp(argv[0], "scrub"))
		return scrub_command(c, argc, argv, f);
	if (argc >= 1 && !strcmp(argv[0], "heal"))
		return heal_command(c, argc, argv, f);
	if (argc == 2 && !strcmp(argv[0], "begin"))
		return begin_command(c, argv[1], f);
	if (argc < 1 || strcmp(argv[0], "status") || (argc == 2 && !json) || argc > 2) {
		fprintf(f, "volume %s takes the commands status [--json], heal ..., scrub ... and begin NUMBER\n", x->name);
		return -EINVAL;
	}
	pthread_mutex_lock(&c->lock);
	if (json)
		status_json(c, f);
	else
		status_text(c, f);
	pthread_mutex_unlock(&c->lock);
	return 0;
}
