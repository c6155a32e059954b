/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps out who belongs to another cluster. */
#include "log.h"
#include "raft-shared.h"

enum { WARN_S = 60 };

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

static void refuse(struct shared *l, const struct raft_message *m)
{
	if (l->warned_ns && l->warned_ns + WARN_S * 1000000000ull > now_ns())
		return;
	l->warned_ns = now_ns();
	log_error(
		NULL, NULL,
		"the server at %s takes this one, %s, for a member of its cluster, but this one is the only member of the cluster in %s, and takes nothing from it: if that is the wrong "
		"directory, start this one with the right --state; if this one is to be added there, stop it, empty %s, and start it with --join; if that one was removed, stop it",
		m->server_address, l->name, l->directory, l->directory);
}

static void received(struct raft_io *io, struct raft_message *m)
{
	struct raft *raft = io->data;
	struct shared *l = raft->data;

	if (!is_strange(l, m)) {
		l->receive(io, m);
		return;
	}
	refuse(l, m);
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
