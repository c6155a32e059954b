/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps out who belongs to another cluster, who has lost what a voter must not lose, and messages that can't be: libraft was built without its assertions, and goes on with what they exclude. */
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "raft-frame.h"
#include "raft-shared.h"
#include "raft-wire.h"

enum { WARN_S = 60, TROUBLE_S = 10 };
enum { IMPOSSIBLE = 2 * REFUSALS, ALONE }; /* of warned_ns[], behind what is told of refusals */

static void drop(struct raft_message *m)
{
	if (m->type == RAFT_IO_APPEND_ENTRIES && m->append_entries.n_entries) {
		raft_free(m->append_entries.entries[0].batch);
		raft_free(m->append_entries.entries);
	} else if (m->type == RAFT_IO_INSTALL_SNAPSHOT) {
		raft_configuration_close(&m->install_snapshot.conf);
		raft_free(m->install_snapshot.data.base);
	}
}

static bool is_request(const struct raft_message *m)
{
	return m->type == RAFT_IO_APPEND_ENTRIES || m->type == RAFT_IO_REQUEST_VOTE || m->type == RAFT_IO_INSTALL_SNAPSHOT ||
	       m->type == RAFT_IO_TIMEOUT_NOW;
}

/* The only member of a cluster: nobody else can lead it, nor be elected without its vote. Who thinks otherwise was removed, or has another cluster, in which there is a server of this name: with another
 * --state, or it is one that is being added and was not started with --join. What that one sends must not be taken, least of all by libraft, which would take its entries for
 * its own. (With --join it may be that the log, which begins with a cluster of this server, is on its way.) */
static bool is_strange(const struct shared *l, const struct raft_message *m)
{
	const struct raft_configuration *c = &l->raft.configuration;

	return !l->joins && c->n == 1 && c->servers[0].id == l->id && m->server_id != l->id && is_request(m);
}

/* ---- telling ---- */

/* The log once a minute, the status as long as it goes on. */
static void __attribute__((format(printf, 3, 4))) tell(struct shared *l, unsigned kind, const char *format, ...)
{
	char text[sizeof l->trouble];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	pthread_mutex_lock(&l->lock);
	strcpy(l->trouble, text);
	l->trouble_ns = now_ns();
	pthread_mutex_unlock(&l->lock);
	if (l->warned_ns[kind] && l->warned_ns[kind] + WARN_S * 1000000000ull > now_ns())
		return;
	l->warned_ns[kind] = now_ns();
	log_error(NULL, NULL, "%s", text);
}

bool shared_trouble(struct store *s, char *text, size_t size)
{
	struct shared *l = s->log;
	bool is_there;

	pthread_mutex_lock(&l->lock);
	is_there = l->trouble_ns && l->trouble_ns + TROUBLE_S * 1000000000ull > now_ns();
	snprintf(text, size, "%s", is_there ? l->trouble : "");
	pthread_mutex_unlock(&l->lock);
	return is_there;
}

/* Of it or this one: which, and where its log was. */
#define LOST                                                                                                                                             \
	"start %s with the right --state; if that is lost, `stratus server remove --keep-bricks` it on the one that leads, empty its %s, start it with " \
	"--join, then `stratus server add` it"
static const char elsewhere[] = "directory `raft`";

static void tell_refused(struct shared *l, enum refusal why, const char *address)
{
	switch (why) {
	case REFUSED_CLUSTER:
		tell(l, why,
		     "the server at %s takes this one, %s, for a member of its cluster, but this one is of another cluster, that in %s, and takes nothing from it: if that is the "
		     "wrong directory, start this one with the right --state; if this one is to be added there, stop it, empty %s, and start it with --join; if that one was "
		     "removed, stop it",
		     address, l->name, l->directory, l->directory);
		break;
	case REFUSED_CALLED_LOST:
		tell(l, why,
		     "the server at %s takes this one, %s, for a member that votes, but there is no log in %s, and who has forgotten what it voted must not vote: " LOST,
		     address, l->name, l->directory, "this one", l->directory);
		break;
	case REFUSED_CALLER_LOST:
		tell(l, why,
		     "the server at %s is a member that votes, but has no log any more, and who has forgotten what it voted must not vote: " LOST,
		     address, "that one", elsewhere);
		break;
	default:
		tell(l, why, "the server at %s has the name of this one, %s: start each with its own --name", address, l->name);
	}
}

/* The other side of it. */
static void told(void *arg, raft_id called, const char *address, const struct answer *a)
{
	struct shared *l = arg;
	unsigned kind = REFUSALS + a->why;

	(void)called;
	switch (a->why) {
	case REFUSED_CLUSTER:
		tell(l, kind,
		     "the server at %s takes nothing from this one, %s, for it is of another cluster: if it was started with the wrong --state, or without --join before it was added, "
		     "start it with the right one, or with an empty one and --join; if it is a member whose --state is lost, `stratus server remove --keep-bricks` it first",
		     address, l->name);
		break;
	case REFUSED_CALLED_LOST:
		tell(l, kind, "the server at %s is a member that votes, but has no log any more, and takes nothing: " LOST,
		     address, "that one", elsewhere);
		break;
	case REFUSED_CALLER_LOST:
		tell(l, kind, "this server, %s, is a member that votes for the one at %s, but there is no log in %s: " LOST,
		     l->name, address, l->directory, "it", l->directory);
		break;
	default:
		tell(l, kind, "the server at %s has the name of this one, %s: start each with its own --name", address,
		     l->name);
	}
}

/* ---- greetings ---- */

static bool is_voter(const struct shared *l, raft_id id)
{
	const struct raft_configuration *c = &l->raft.configuration;

	for (unsigned i = 0; i < c->n; i++)
		if (c->servers[i].id == id)
			return c->servers[i].role == RAFT_VOTER;
	return false;
}

static bool is_empty(struct shared *l)
{
	return !raft_last_index(&l->raft);
}

static void own_card(void *arg, raft_id called, struct card *c)
{
	struct shared *l = arg;

	*c = (struct card){ .given = !l->is_old };
	if (l->is_old)
		return;
	*c = (struct card){ .given = true, .is_empty = is_empty(l), .takes_for_voter = is_voter(l, called) };
	memcpy(c->cluster, l->cluster, sizeof c->cluster);
}

static bool is_of_another(const struct shared *l, const struct card *c)
{
	return cluster_id_is_set(l->cluster) && cluster_id_is_set(c->cluster) && memcmp(l->cluster, c->cluster, CLUSTER_ID);
}

/* A voter has had a log before it became one, and who takes it for one knows that. So one that has none has lost it, with its vote in the election that may be going on, and with what it has acknowledged: it
 * neither says anything as that voter nor is told anything, until it was removed and added. */
static enum refusal judge(struct shared *l, const struct hello *h)
{
	if (h->id == l->id)
		return REFUSED_NAME;
	if (is_of_another(l, &h->card))
		return REFUSED_CLUSTER;
	if (h->card.is_empty && is_voter(l, h->id))
		return REFUSED_CALLER_LOST;
	return h->card.takes_for_voter && is_empty(l) ? REFUSED_CALLED_LOST : REFUSED_NOT;
}

static enum refusal greeted(void *arg, const struct hello *h)
{
	struct shared *l = arg;
	enum refusal why = l->is_old ? REFUSED_NOT : judge(l, h);

	if (why)
		tell_refused(l, why, h->address);
	return why;
}

/* One that waits to be taken in is of the cluster of the first who leads it: it notes that before it takes anything. */
static bool passes(void *arg, const struct card *c, unsigned type)
{
	struct shared *l = arg;
	bool feeds = type == RAFT_IO_APPEND_ENTRIES || type == RAFT_IO_INSTALL_SNAPSHOT;

	if (l->is_old)
		return true;
	if (feeds && !is_of_another(l, c))
		l->silent_ticks = 0;
	if (feeds && is_empty(l) && !cluster_id_is_set(l->cluster) && cluster_id_is_set(c->cluster) &&
	    cluster_take(l, c->cluster))
		return false;
	return !is_of_another(l, c);
}

static void own_cluster(void *arg, uint8_t id[CLUSTER_ID])
{
	struct shared *l = arg;

	memcpy(id, l->cluster, CLUSTER_ID);
}

const struct wire_peers strangers_peers = {
	.card = own_card, .greeted = greeted, .passes = passes, .told = told, .cluster = own_cluster
};

/* ---- messages ---- */

static const char *check_entries(const struct shared *l, const struct raft_append_entries *a)
{
	if (!a->prev_log_index && a->n_entries && l->raft.log.offset) /* libraft would put them behind what it has */
		return "entries that were committed long ago";
	for (unsigned i = 0; i < a->n_entries; i++)
		if (a->entries[i].type == RAFT_CHANGE && frame_configuration(a->entries[i].buf.base, a->entries[i].buf.len))
			return "a list of members that can't be";
	return NULL;
}

/* Who leads may not know yet that this one has it, and waits to hear so. Libraft does not look into such a snapshot. */
static bool has_already(struct shared *l, const struct raft_install_snapshot *s)
{
	return s->last_index <= l->raft.log.snapshot.last_index ||
	       (s->last_term && log_term_of(l, s->last_index) >= s->last_term);
}

/* Libraft would write it in place of the log, and only then find that it can't be read. */
static const char *check_snapshot(struct shared *l, const struct raft_install_snapshot *s)
{
	const char *text = s->data.base, *wrong = NULL;
	size_t size = s->data.len;
	uint8_t id[CLUSTER_ID];
	struct state state;

	if (has_already(l, s))
		return NULL;
	if (s->last_index < raft_last_applied(&l->raft)) /* and what has been applied is not what is before it */
		return "a snapshot that is older than what this one has";
	while (size && !text[size - 1])
		size--;
	if (state_decode(text, size, &state))
		return "a snapshot that is damaged";
	if (cluster_id_is_set(l->cluster) && cluster_of_state(&state, id) && memcmp(id, l->cluster, CLUSTER_ID))
		wrong = "a snapshot of another cluster";
	state_free(&state);
	return wrong;
}

/* Two can't lead in one term. */
static bool is_rival(struct shared *l, raft_term term)
{
	return raft_state(&l->raft) == RAFT_LEADER && term == l->raft.current_term;
}

const char *strangers_judge(struct shared *l, const struct raft_message *m)
{
	if (m->type == RAFT_IO_APPEND_ENTRIES)
		return is_rival(l, m->append_entries.term) ? "that it leads, as this one does"
							   : check_entries(l, &m->append_entries);
	if (m->type == RAFT_IO_INSTALL_SNAPSHOT)
		return is_rival(l, m->install_snapshot.term) ? "that it leads, as this one does"
							     : check_snapshot(l, &m->install_snapshot);
	return NULL;
}

static void received(struct raft_io *io, struct raft_message *m)
{
	struct raft *raft = io->data;
	struct shared *l = raft->data;
	const char *wrong;

	if (is_strange(l, m)) {
		tell(l, ALONE,
		     "the server at %s takes this one, %s, for a member of its cluster, but this one is the only member of the cluster in %s, and takes nothing from it: if that is the wrong "
		     "directory, start this one with the right --state; if this one is to be added there, stop it, empty %s, and start it with --join; if that one was removed, stop it",
		     m->server_address, l->name, l->directory, l->directory);
		drop(m);
		return;
	}
	members_keep(l);
	wrong = strangers_judge(l, m);
	if (!wrong && m->type == RAFT_IO_APPEND_ENTRIES && !members_take_back(l, &m->append_entries)) {
		drop(m);
		return;
	}
	if (!wrong) {
		l->receive(io, m);
		return;
	}
	tell(l, IMPOSSIBLE,
	     "the server at %s sends this one, %s, %s: it was not taken. Is it of another cluster, with a member of this name? Start each with its own --state",
	     m->server_address, l->name, wrong);
	drop(m);
}

/* In place of the backend's: what it receives comes by here. */
static int start_io(struct raft_io *io, unsigned msecs, raft_io_tick_cb ticks, raft_io_recv_cb receive)
{
	struct raft *raft = io->data;
	struct shared *l = raft->data;

	l->receive = receive;
	return l->start_io(io, msecs, ticks, received);
}

void strangers_watch(struct shared *l)
{
	l->start_io = l->io.start;
	l->io.start = start_io;
}
