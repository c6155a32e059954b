/* SPDX-License-Identifier: Apache-2.0 */
/* Libraft sends who does not answer within a tenth of a second all entries that it lacks, again and again, also while the last ones are still on their way: of large documents these would be
 * more than a connection carries, and memory would fill with them. So no more entries are sent to who has not got the last ones; libraft takes that for a connection that is not there, and tries again. */
#include <stdlib.h>

#include "raft-shared.h"

enum { LARGE = 1 << 20 };

struct sending {
	struct raft_io_send request; /* the backend's */
	struct raft_io_send *theirs;
	struct shared *log;
	raft_id to;
};

static size_t bytes_of(const struct raft_message *m)
{
	size_t bytes = 0;

	for (unsigned i = 0; m->type == RAFT_IO_APPEND_ENTRIES && i < m->append_entries.n_entries; i++)
		bytes += m->append_entries.entries[i].buf.len;
	return bytes;
}

/* NULL: to nobody. */
static struct busy *find(struct shared *l, raft_id id)
{
	for (size_t i = 0; i < MEMBERS; i++)
		if (l->busy[i].requests && l->busy[i].id == id)
			return &l->busy[i];
	return NULL;
}

static struct busy *find_unused(struct shared *l)
{
	for (size_t i = 0; i < MEMBERS; i++)
		if (!l->busy[i].requests)
			return &l->busy[i];
	return NULL;
}

static void sent(struct raft_io_send *request, int status)
{
	struct sending *s = request->data;
	struct busy *b = find(s->log, s->to);
	struct raft_io_send *theirs = s->theirs;

	if (b)
		b->requests--;
	free(s);
	if (theirs->cb)
		theirs->cb(theirs, status);
}

static int send_large(struct shared *l, struct raft_io_send *request, const struct raft_message *m)
{
	struct busy *b = find_unused(l);
	struct sending *s = b ? malloc(sizeof *s) : NULL;
	int status;

	if (!s)
		return RAFT_NOCONNECTION;
	*s = (struct sending){ .request.data = s, .theirs = request, .log = l, .to = m->server_id };
	*b = (struct busy){ m->server_id, 1 };
	status = l->send_io(&l->io, &s->request, m, sent);
	if (!status)
		return 0;
	b->requests = 0;
	free(s);
	return status;
}

static int send_message(struct raft_io *io, struct raft_io_send *request, const struct raft_message *m, raft_io_send_cb cb)
{
	struct raft *raft = io->data;
	struct shared *l = raft->data;
	size_t bytes = bytes_of(m);

	if (bytes && find(l, m->server_id))
		return RAFT_NOCONNECTION;
	if (bytes < LARGE)
		return l->send_io(io, request, m, cb);
	request->cb = cb;
	return send_large(l, request, m);
}

void send_bound(struct shared *l)
{
	l->send_io = l->io.send;
	l->io.send = send_message;
}
