/* SPDX-License-Identifier: Apache-2.0 */
/* The log that servers share, by libraft and its libuv backend.
 *
 * One thread runs the loop, and all calls of libraft are made on it. Whoever wants something queues a job and waits; a job that
 * nobody waits for any more is freed when it is done. A change counts when it was applied here, which libraft does only with
 * what a majority has on disk. What the machine answers (-ESTALE, ...) is the same on each server, for the state is. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "log.h"
#include "raft-check.h"
#include "raft-shared.h"
#include "raft-wire.h"

enum { TICK_MS = 100 };
enum { MADE_LOOP = 1, MADE_WAKE, MADE_TICK, MADE_TRANSPORT, MADE_IO, MADE_RAFT };

bool store_is_old;

#ifdef __SANITIZE_THREAD__
/* libuv closes descriptors where the sanitizer does not see it, who then mistakes a number used again for the old one. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "called_from_lib:libuv.so\n";
}
#endif

/* FNV-1a, 64 bits, never 0: an id that each server finds for itself. */
uint64_t store_member_id(const char *name)
{
	uint64_t id = 0xcbf29ce484222325;

	for (; *name; name++)
		id = (id ^ (unsigned char)*name) * 0x100000001b3;
	return id ? id : 1;
}

/* ---- the loop ---- */

static void transport_close(struct shared *l)
{
	raft_wire_close(&l->transport);
}

static void raft_closed(struct raft *raft)
{
	struct shared *l = raft->data;

	raft_uv_close(&l->io);
	transport_close(l);
	uv_close((uv_handle_t *)&l->wake, NULL);
	uv_close((uv_handle_t *)&l->tick, NULL);
}

static void woken(uv_async_t *async)
{
	struct shared *l = async->data;
	bool closing;

	shared_start_jobs(l);
	pthread_mutex_lock(&l->lock);
	closing = l->closing;
	pthread_mutex_unlock(&l->lock);
	if (closing && !uv_is_closing((uv_handle_t *)async) && l->raft.close_cb == NULL) {
		shared_note_applied(l);
		raft_close(&l->raft, raft_closed);
	}
}

static void *run(void *arg)
{
	struct shared *l = arg;
	sigset_t pipe;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE); /* libuv writes to connections that others have closed */
	pthread_sigmask(SIG_BLOCK, &pipe, NULL);
	uv_run(&l->loop, UV_RUN_DEFAULT);
	return NULL;
}

/* What was opened when something failed, and the loop's thread does not run. */
static void release(struct shared *l)
{
	if (l->made >= MADE_RAFT) {
		raft_close(&l->raft, raft_closed);
	} else {
		if (l->made >= MADE_IO)
			raft_uv_close(&l->io);
		if (l->made >= MADE_TRANSPORT)
			transport_close(l);
		if (l->made >= MADE_TICK)
			uv_close((uv_handle_t *)&l->tick, NULL);
		if (l->made >= MADE_WAKE)
			uv_close((uv_handle_t *)&l->wake, NULL);
	}
	if (l->made >= MADE_LOOP) {
		uv_run(&l->loop, UV_RUN_DEFAULT);
		uv_loop_close(&l->loop);
	}
}

static void close_log(struct store *s)
{
	struct shared *l = s->log;

	if (l->running) {
		pthread_mutex_lock(&l->lock);
		l->closing = true;
		uv_async_send(&l->wake);
		pthread_mutex_unlock(&l->lock);
		pthread_join(l->thread, NULL);
		uv_loop_close(&l->loop);
	} else {
		release(l);
	}
	raft_mark_close(&l->mark, l->applied);
	raft_configuration_close(&l->committed);
	pthread_cond_destroy(&l->progress);
	pthread_mutex_destroy(&l->lock);
	if (l->claimed >= 0) /* last: until here the loop may write there */
		close(l->claimed);
	free(l->directory);
	free(l->name);
	free(l->address);
	free(l);
}

/* ---- opening ---- */

static const struct log_type shared_type = { .commit = shared_commit,
					     .close = close_log,
					     .leads = shared_leads,
					     .replayed = shared_replayed,
					     .hand_over = shared_hand_over,
					     .add = shared_add,
					     .remove = shared_remove,
					     .members = shared_members,
					     .trouble = shared_trouble };

/* A new store begins with this server alone; one that is there goes on. */
static int begin(struct shared *l, struct problem *p)
{
	struct raft_configuration alone;
	int err;

	raft_configuration_init(&alone);
	err = raft_configuration_add(&alone, l->id, l->address, RAFT_VOTER);
	if (!err)
		err = raft_bootstrap(&l->raft, &alone);
	raft_configuration_close(&alone);
	if (!err)
		return cluster_begin(l, p);
	if (err == RAFT_CANTBOOTSTRAP)
		return 0;
	return problem_set(p, EIO, "the shared store in %s can't be made: %s", l->directory, raft_errmsg(&l->raft));
}

/* `what` is wrong with it. Nothing is set aside or cut off: what was acknowledged would go with it, and nobody would know. */
static int damaged(struct shared *l, const char *what, struct problem *p)
{
	return problem_set(
		p, EINVAL,
		"the log of the shared store in %s is damaged, and no crash does that: %s; nothing was changed. If the other servers have the "
		"log: `stratus server remove --keep-bricks %s` on the one that leads, empty %s, start this one with --join, and "
		"`stratus server add %s %s` there; else see \"A damaged log\" in doc/cluster.md",
		l->directory, what, l->name, l->directory, l->name, l->address);
}

/* Before libraft reads it, which cuts off what it can't read. */
static int check_log(struct shared *l, struct problem *p)
{
	struct problem found = { "" };
	int err = raft_check(l->claimed, &found);

	if (err == -EINVAL || err == -EIO)
		return damaged(l, found.text, p);
	if (err)
		return problem_set(p, -err, "the log of the shared store in %s can't be looked at: %s", l->directory,
				   *found.text ? found.text : strerror(-err));
	return raft_mark_open(&l->mark, l->claimed, p);
}

static bool is_damage(int status)
{
	return status == RAFT_CORRUPT || status == RAFT_MALFORMED;
}

static int made(struct shared *l, int err)
{
	l->made += !err;
	return err;
}

static int set_up(struct shared *l, struct problem *p)
{
	struct wire_peers peers = strangers_peers;
	int err = made(l, uv_loop_init(&l->loop));

	peers.arg = l;

	if (!err)
		err = made(l, uv_async_init(&l->loop, &l->wake, woken));
	if (!err)
		err = made(l, uv_timer_init(&l->loop, &l->tick));
	if (!err)
		err = made(l, raft_wire_init(&l->transport, &l->loop, l->tls, &peers, p));
	if (!err)
		err = made(l, raft_uv_init(&l->io, &l->loop, l->directory, &l->transport));
	if (!err)
		raft_uv_set_auto_recovery(&l->io, false);
	strangers_watch(l);
	send_bound(l);
	if (!err)
		err = made(l, raft_init(&l->raft, &l->io, &l->fsm, l->id, l->address));
	if (is_damage(err) && *l->io.errmsg)
		return damaged(l, l->io.errmsg, p);
	if (err)
		return problem_set(p, EIO, "the shared store in %s can't be opened: %s", l->directory,
				   *l->io.errmsg ? l->io.errmsg : raft_strerror(err));
	l->raft.data = l->wake.data = l->tick.data = l;
	raft_set_pre_vote(&l->raft, true);
	machine_bound_log(l, 0);
	return 0;
}

/* Whoever opens a log ends the segments that he finds open: what a process that goes on writing to them acknowledges would be lost.
 * So before anything of it is read. */
static int claim(struct shared *l, struct problem *p)
{
	l->claimed = open(l->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->claimed < 0)
		return problem_set(p, errno, "can't open the directory %s: %m", l->directory);
	if (!flock(l->claimed, LOCK_EX | LOCK_NB))
		return 0;
	if (errno == EWOULDBLOCK)
		return problem_set(p, EBUSY,
				   "another process uses the store in %s: stop the other stratusd, or give this one another "
				   "directory",
				   l->directory);
	return problem_set(p, errno, "the directory %s can't be locked, as a store needs it: %m; put it on a local disk",
			   l->directory);
}

static int cant_start(struct shared *l, int status, struct problem *p)
{
	const char *reason = raft_errmsg(&l->raft);

	if (is_damage(status))
		return damaged(l, *reason ? reason : raft_strerror(status), p);
	return problem_set(p, EIO, "the shared store in %s can't start at %s: %s", l->directory, l->address,
			   *reason ? reason
				   : "does something else listen there, or is it no address of this machine? `ss -tlnp` tells");
}

static int start(struct shared *l, bool join, struct problem *p)
{
	int err = claim(l, p), status;

	if (!err)
		err = check_log(l, p);
	if (!err)
		err = cluster_load(l, p);
	if (!err)
		err = set_up(l, p);
	if (!err && !join)
		err = begin(l, p);
	if (!err && (status = raft_start(&l->raft)))
		err = cant_start(l, status, p);
	if (!err) {
		l->began_with = raft_last_index(&l->raft);
		cluster_forget_if_empty(l);
		shared_note_members(l);
	}
	if (!err)
		err = uv_timer_start(&l->tick, shared_tick, TICK_MS, TICK_MS) ? -EIO : 0;
	if (!err && pthread_create(&l->thread, NULL, run, l))
		err = problem_set(p, EAGAIN, "no thread for the store: the process limit is reached");
	l->running = !err;
	return err;
}

int store_open_shared(const char *directory, const char *name, const char *address, bool join, const struct tls_files *tls,
		      struct store **opened, struct problem *p)
{
	struct shared *l;
	struct store *s;
	pthread_condattr_t clock;
	int err = shared_check_address(address, p);

	if (!err)
		err = store_make_directory(directory, p);
	l = err ? NULL : calloc(1, sizeof *l);
	s = l ? store_create(&shared_type) : NULL;
	if (!s) {
		free(l);
		return err ? err : -ENOMEM;
	}
	s->log = l;
	l->store = s;
	l->last = &l->first;
	l->directory = strdup(directory);
	l->address = strdup(address);
	l->name = strdup(name);
	l->claimed = -1;
	l->mark.fd = -1;
	l->id = store_member_id(name);
	l->tls = tls;
	l->is_old = store_is_old;
	l->joins = join;
	machine_init(l);
	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&l->progress, &clock);
	pthread_condattr_destroy(&clock);
	err = l->directory && l->name && l->address ? start(l, join, p) : -ENOMEM;
	if (err)
		store_close(s);
	else
		*opened = s;
	return err;
}
