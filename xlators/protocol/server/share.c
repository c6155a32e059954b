/* SPDX-License-Identifier: Apache-2.0 */
/* What all sessions of one tenant have together. The bounds of a session are no bound for who may begin a thousand of them: so there are bounds
 * for the sum, by which the rest of the server's tasks, descriptors and memory are left to others. */
#include <sys/resource.h>

#include "server.h"

enum {
	RUNNING_OF_ONE = 4096, /* calls; and so many that wait, which is what one session may have. Of tasks there are 65536 */
	BYTES_OF_ONE = 256 << 20,
	WAITING_BYTES_OF_ONE = 32 << 20,
	REPLIES_OF_ONE = 128 << 20,
	WAITING_OF_ALL = 32768,
};

/* It stays until the server is gone: there are as many as tenants. Called with server.lock held. */
struct share *share_of(struct server *server, const char *tenant)
{
	struct share *s = server->shares;

	while (s && strcmp(s->tenant, tenant))
		s = s->next;
	if (s || !(s = calloc(1, sizeof(*s))))
		return s;
	snprintf(s->tenant, sizeof(s->tenant), "%s", tenant);
	s->server = server;
	s->next = server->shares;
	server->shares = s;
	return s;
}

void shares_free(struct server *server)
{
	struct share *s;

	while ((s = server->shares)) {
		server->shares = s->next;
		free(s);
	}
}

/* ---- calls ---- */

void share_begin(struct session *s, bool waits, size_t bytes)
{
	struct share *h = s->share;

	if (waits)
		atomic_fetch_add(&s->server->waiting, 1);
	if (!h)
		return;
	atomic_fetch_add(waits ? &h->waiting : &h->running, 1);
	atomic_fetch_add(waits ? &h->waiting_bytes : &h->bytes, bytes);
}

void share_end(struct session *s, bool waits, size_t bytes)
{
	struct share *h = s->share;

	if (waits)
		atomic_fetch_sub(&s->server->waiting, 1);
	if (!h)
		return;
	atomic_fetch_sub(waits ? &h->waiting : &h->running, 1);
	atomic_fetch_sub(waits ? &h->waiting_bytes : &h->bytes, bytes);
}

bool share_may_wait(const struct session *s, size_t bytes)
{
	struct share *h = s->share;

	if (atomic_load(&s->server->waiting) >= WAITING_OF_ALL)
		return false;
	return !h ||
	       (atomic_load(&h->waiting) < WIRE_WAIT_SLOTS && atomic_load(&h->waiting_bytes) + bytes <= WAITING_BYTES_OF_ONE);
}

static bool more_than(struct share *h, unsigned quarters)
{
	return atomic_load(&h->running) >= RUNNING_OF_ONE / 4 * quarters ||
	       atomic_load(&h->bytes) >= BYTES_OF_ONE / 4 * quarters;
}

/* True: the channel is to be paused. The mark comes before the look: whoever ends a call after it sees the mark. */
bool share_is_full(const struct session *s)
{
	struct share *h = s->share;

	if (!h || !more_than(h, 4))
		return false;
	atomic_store(&h->pausing, true);
	return more_than(h, 4);
}

/* True: what is paused stays so. It is looked at again when less is being done. */
bool share_is_busy(const struct session *s)
{
	struct share *h = s->share;

	if (!h || !more_than(h, 3))
		return false;
	atomic_store(&h->pausing, true);
	return more_than(h, 3);
}

bool share_may_resume(const struct session *s)
{
	struct share *h = s->share;

	return h && atomic_load(&h->pausing) && !more_than(h, 3) && atomic_exchange(&h->pausing, false);
}

/* ---- answers ---- */

void share_count_replying(const struct session *s, size_t bytes)
{
	if (s->share)
		atomic_fetch_add(&s->share->replying, bytes);
}

bool share_has_reply_room(const struct session *s, size_t bytes)
{
	struct share *h = s->share;
	size_t sum = h ? atomic_load(&h->replying) + atomic_load(&h->queued) : 0;

	return !sum || sum + bytes <= REPLIES_OF_ONE;
}

/* ---- files ---- */

static uint64_t files_most(const struct server *s)
{
	struct rlimit limit;

	if (s->max_files_of_one)
		return (uint64_t)s->max_files_of_one;
	return getrlimit(RLIMIT_NOFILE, &limit) ? FILES_MAX : limit.rlim_cur / 4;
}

int share_add_file(const struct session *s)
{
	struct share *h = s->share;

	if (!h || atomic_fetch_add(&h->files, 1) < files_most(s->server))
		return 0;
	atomic_fetch_sub(&h->files, 1);
	return -ENFILE;
}

void share_remove_files(const struct session *s, unsigned count)
{
	if (s->share)
		atomic_fetch_sub(&s->share->files, count);
}

void share_dump(const struct server *server, FILE *f)
{
	for (struct share *h = server->shares; h; h = h->next)
		fprintf(f,
			"  share: stratus:tenant/%s, running %u, waiting %u, bytes %zu, files %u, replying %zu, queued %zu\n",
			h->tenant, atomic_load(&h->running), atomic_load(&h->waiting),
			atomic_load(&h->bytes) + atomic_load(&h->waiting_bytes), atomic_load(&h->files),
			atomic_load(&h->replying), atomic_load(&h->queued));
}
