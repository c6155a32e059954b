/* SPDX-License-Identifier: Apache-2.0 */
/* The last committed list of members. Where a later one is taken back, for another server leads that has not got it, libraft (0.15) looks for the committed one in the log, and reads at NULL if a
 * snapshot has taken its place there: after some hundred changes any. So a copy of it is kept here, and put back before libraft would look. */
#include "raft-shared.h"

static int copy(const struct raft_configuration *from, struct raft_configuration *to)
{
	int status = 0;

	raft_configuration_init(to);
	for (unsigned i = 0; i < from->n && !status; i++)
		status = raft_configuration_add(to, from->servers[i].id, from->servers[i].address, from->servers[i].role);
	if (status)
		raft_configuration_close(to);
	return status;
}

void members_keep(struct shared *l)
{
	struct raft *r = &l->raft;
	struct raft_configuration next;

	if (r->configuration_uncommitted_index <=
	    r->last_applied) /* libraft forgets it where it applies that entry, and none is applied that a snapshot brings */
		r->configuration_uncommitted_index = 0;
	if (r->configuration_uncommitted_index || r->configuration_index > r->commit_index ||
	    l->committed_since == r->configuration_index)
		return;
	if (copy(&l->raft.configuration, &next))
		return;
	raft_configuration_close(&l->committed);
	l->committed = next;
	l->committed_since = l->raft.configuration_index;
}

raft_term log_term_of(struct shared *l, raft_index i)
{
	const struct raft_log *g = &l->raft.log;

	if (i == g->snapshot.last_index)
		return g->snapshot.last_term;
	if (i <= g->offset || i > raft_last_index(&l->raft))
		return 0;
	return g->entries[(g->front + (size_t)(i - g->offset - 1)) % g->size].term;
}

/* As libraft finds it out: it takes back all from the first entry on that is not the same. */
static bool takes_back(struct shared *l, const struct raft_append_entries *a, raft_index entry)
{
	if (a->term < l->raft.current_term || (a->prev_log_index && log_term_of(l, a->prev_log_index) != a->prev_log_term))
		return false;
	for (raft_index i = 0; i < a->n_entries && a->prev_log_index + 1 + i <= entry; i++) {
		raft_term own = log_term_of(l, a->prev_log_index + 1 + i);

		if (own != a->entries[i].term)
			return own;
	}
	return false;
}

bool members_take_back(struct shared *l, const struct raft_append_entries *a)
{
	struct raft_configuration before;
	raft_index since = l->raft.configuration_index;

	if (!l->raft.configuration_uncommitted_index || since > l->raft.log.offset || since != l->committed_since ||
	    !takes_back(l, a, l->raft.configuration_uncommitted_index))
		return true;
	if (raft_state(&l->raft) == RAFT_LEADER || copy(&l->committed, &before))
		return false;
	raft_configuration_close(&l->raft.configuration);
	l->raft.configuration = before;
	l->raft.configuration_uncommitted_index = 0;
	return true;
}
