/* SPDX-License-Identifier: Apache-2.0 */
/* The log that servers share, by libraft and its libuv backend.
 *
 * One thread runs the loop, and all calls of libraft are made on it. Whoever wants something queues a job and waits; a job that
 * nobody waits for any more is freed when it is done. A change counts when it was applied here, which libraft does only with
 * what a majority has on disk. What the machine answers (-ESTALE, ...) is the same on each server, for the state is. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <raft.h>
#include <raft/uv.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "backend.h"
#include "log.h"
#include "raft-check.h"
#include "raft-mark.h"
#include "raft-tls.h"

enum {
	TICK_MS = 100,
	STALE_MS = 800,
	SILENT_MS = 3000,
	WAIT_S = 15,
	JOIN_WAIT_S = 60,
	CONNECT_S = 3,
	WARN_S = 60,
	MEMBERS = 16
};
/* The log is in memory, too: large entries are kept in smaller numbers. */
enum { SNAPSHOT_AFTER = 512, SNAPSHOT_AFTER_LEAST = 16, LOG_BYTES = 64 << 20 };

enum { MADE_LOOP = 1, MADE_WAKE, MADE_TICK, MADE_TRANSPORT, MADE_IO, MADE_RAFT };

/* When a member was heard from last. */
struct heard {
	raft_id id;
	uint64_t ns;
};
struct shared;
struct job {
	struct shared *log;
	struct job *next;
	void (*start)(struct job *); /* on the loop; finish() ends it */
	union {
		struct raft_apply apply;
		struct raft_change change;
	} request;
	struct raft_buffer text; /* until libraft takes it */
	raft_id id;
	char address[64];
	int err, references;
	bool done;
};
struct shared {
	struct store *store;
	char *directory, *name, *address;
	const struct tls_files *tls; /* NULL: none; the caller's, while it is opened */
	bool secure, joins;
	raft_id id;
	uv_loop_t loop;
	uv_async_t wake;
	uv_timer_t tick;
	struct raft_uv_transport transport;
	struct raft_io io;
	struct raft_fsm fsm;
	struct raft raft;
	raft_index began_with; /* the end of the log when it was opened */
	struct raft_barrier barrier;
	bool barrier_pending, barrier_is_old, told; /* on the loop only */
	size_t entry_bytes;			    /* so, too: of the largest of late */
	int made;				    /* how far set_up() came */
	int claimed;				    /* the directory, locked: it is ours */
	struct raft_mark mark;			    /* on the loop only */
	raft_index applied;			    /* so, too: and on this disk */
	struct heard heard[MEMBERS];		    /* so, too: in the order of member[], as long as it leads */
	uint64_t warned_ns;			    /* so, too: of a stranger */
	int (*start_io)(struct raft_io *, unsigned, raft_io_tick_cb, raft_io_recv_cb); /* the backend's */
	raft_io_recv_cb receive;						       /* libraft's */
	bool listens; /* so, too: `heard` goes on from the tick before */
	pthread_t thread;
	bool running;
	pthread_mutex_t lock; /* below store.lock is none of these: never both */
	pthread_cond_t progress;
	struct job *first, **last;
	bool closing, leads, replayed;
	bool unproved;	    /* it stood still: whether it leads is asked anew */
	uint64_t ticked_ns; /* when the last tick was: what is known of the lead is from then */
	struct store_member member[MEMBERS];
	size_t members;
};

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

/* ---- the machine ---- */

/* How many entries there may be before a snapshot takes their place; half of them stay, for who was away. */
static void bound_log(struct shared *l, size_t bytes)
{
	size_t entries;

	l->entry_bytes -= l->entry_bytes / 64;
	l->entry_bytes = bytes > l->entry_bytes ? bytes : l->entry_bytes;
	entries = LOG_BYTES / (l->entry_bytes + 1);
	entries = entries > SNAPSHOT_AFTER ? SNAPSHOT_AFTER : entries < SNAPSHOT_AFTER_LEAST ? SNAPSHOT_AFTER_LEAST : entries;
	raft_set_snapshot_threshold(&l->raft, (unsigned)entries);
	raft_set_snapshot_trailing(&l->raft, (unsigned)entries / 2);
}

static int apply(struct raft_fsm *fsm, const struct raft_buffer *text, void **result)
{
	struct shared *l = fsm->data;
	struct store_change *change;
	size_t count;
	int err = changes_decode(text->base, text->len, &change, &count);

	if (!err) {
		pthread_mutex_lock(&l->store->lock);
		err = state_apply(&l->store->state, change, count);
		pthread_cond_broadcast(&l->store->changed);
		pthread_mutex_unlock(&l->store->lock);
		changes_free(change, count);
	}
	if (err == -ENOMEM) { /* to go on would make this server's state another than the others' */
		log_error(NULL, NULL,
			  "out of memory while the cluster's state was changed: this server's part of the store stops");
		return RAFT_NOMEM;
	}
	bound_log(l, text->len);
	*result = (void *)(intptr_t)err;
	return 0;
}

static int snapshot(struct raft_fsm *fsm, struct raft_buffer **buffers, unsigned *count)
{
	struct shared *l = fsm->data;
	struct blob text = { 0 };
	int err;

	pthread_mutex_lock(&l->store->lock);
	err = state_encode(&l->store->state, &text);
	pthread_mutex_unlock(&l->store->lock);
	*buffers = err ? NULL : raft_malloc(sizeof **buffers);
	if (!*buffers) {
		free(text.bytes);
		return RAFT_NOMEM;
	}
	(*buffers)->base = raft_calloc(1, (text.size + 7) / 8 * 8); /* the backend wants whole words */
	(*buffers)->len = (text.size + 7) / 8 * 8;
	*count = 1;
	if ((*buffers)->base)
		memcpy((*buffers)->base, text.bytes, text.size);
	else
		raft_free(*buffers);
	free(text.bytes);
	return (*buffers)->base ? 0 : RAFT_NOMEM;
}

static int restore(struct raft_fsm *fsm, struct raft_buffer *text)
{
	struct shared *l = fsm->data;
	struct state next;
	size_t size = text->len;

	while (size && !((char *)text->base)[size - 1])
		size--; /* what snapshot() has added */
	if (state_decode(text->base, size, &next))
		return RAFT_MALFORMED;
	store_publish(l->store, &next);
	raft_free(text->base);
	return 0;
}

/* ---- jobs ---- */

static void job_free(struct job *j)
{
	raft_free(j->text.base);
	free(j);
}

static void unref(struct job *j) /* with log.lock */
{
	if (!--j->references)
		job_free(j);
}

static void finish(struct job *j, int err)
{
	struct shared *l = j->log;

	pthread_mutex_lock(&l->lock);
	j->err = err;
	j->done = true;
	pthread_cond_broadcast(&l->progress);
	unref(j);
	pthread_mutex_unlock(&l->lock);
}

static int to_errno(int status)
{
	switch (status) {
	case 0:
		return 0;
	case RAFT_NOTLEADER:
		return -EREMOTE;
	case RAFT_NOMEM:
		return -ENOMEM;
	case RAFT_DUPLICATEID:
	case RAFT_DUPLICATEADDRESS:
		return -EEXIST;
	case RAFT_BADID:
	case RAFT_NOTFOUND:
		return -ENOENT;
	case RAFT_CANTCHANGE:
		return -EBUSY;
	default:
		return -EIO;
	}
}

static struct job *job_create(struct shared *l, void (*start)(struct job *))
{
	struct job *j = calloc(1, sizeof *j);

	if (j) {
		j->log = l;
		j->start = start;
		j->references = 2; /* who waits, and the loop */
	}
	return j;
}

/* Queues it and waits. -ETIMEDOUT: not known whether it will be done. */
static int job_run(struct job *j, unsigned seconds)
{
	struct shared *l = j->log;
	struct timespec until;
	int err = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += seconds;
	pthread_mutex_lock(&l->lock);
	if (l->closing) {
		j->references = 1;
		unref(j);
		pthread_mutex_unlock(&l->lock);
		return -EIO;
	}
	*l->last = j;
	l->last = &j->next;
	uv_async_send(&l->wake);
	while (!j->done && !err)
		err = pthread_cond_timedwait(&l->progress, &l->lock, &until);
	err = j->done ? j->err : -ETIMEDOUT;
	unref(j);
	pthread_mutex_unlock(&l->lock);
	return err;
}

/* ---- what is asked of libraft ---- */

static bool leads(struct store *s);

static void commit_done(struct raft_apply *request, int status, void *result)
{
	finish(request->data, status ? to_errno(status) : (int)(intptr_t)result);
}

static void commit_start(struct job *j)
{
	struct raft_buffer text = j->text;
	int status;

	j->request.apply.data = j;
	j->text.base = NULL;
	status = raft_apply(&j->log->raft, &j->request.apply, &text, 1, commit_done);
	if (!status)
		return;
	raft_free(text.base);
	finish(j, to_errno(status));
}

static int commit(struct store *s, const struct store_change *change, size_t count)
{
	struct job *j = job_create(s->log, commit_start);
	struct blob text = { 0 };
	int err = j ? changes_encode(change, count, &text) : -ENOMEM;

	if (!err) {
		j->text.len = (text.size + 7) / 8 * 8;
		j->text.base = raft_calloc(1, j->text.len);
		if (!j->text.base)
			err = -ENOMEM;
		else
			memcpy(j->text.base, text.bytes, text.size);
	}
	free(text.bytes);
	if (err) {
		if (j)
			job_free(j);
		return err;
	}
	return job_run(j, WAIT_S);
}

static void change_done(struct raft_change *request, int status)
{
	finish(request->data, to_errno(status));
}

static void started(struct job *j, int status)
{
	if (status)
		finish(j, to_errno(status));
}

static void add_start(struct job *j)
{
	j->request.change.data = j;
	started(j, raft_add(&j->log->raft, &j->request.change, j->id, j->address, change_done));
}

static void promote_start(struct job *j)
{
	j->request.change.data = j;
	started(j, raft_assign(&j->log->raft, &j->request.change, j->id, RAFT_VOTER, change_done));
}

static void remove_start(struct job *j)
{
	j->request.change.data = j;
	started(j, raft_remove(&j->log->raft, &j->request.change, j->id, change_done));
}

static int change_member(struct shared *l, void (*start)(struct job *), const char *name, const char *address, unsigned seconds)
{
	struct job *j = job_create(l, start);

	if (!j)
		return -ENOMEM;
	j->id = store_member_id(name);
	snprintf(j->address, sizeof j->address, "%s", address);
	return job_run(j, seconds);
}

static int tell(int err, const char *name, struct problem *p)
{
	switch (err) {
	case -EREMOTE:
		return problem_set(p, EREMOTE, "another server leads the cluster: `stratus status` names it; run this there");
	case -EEXIST:
		return problem_set(p, EEXIST, "server %s, or its address, is a member already", name);
	case -ENOENT:
		return problem_set(p, ENOENT, "server %s is no member of the cluster", name);
	case -EBUSY:
		return problem_set(p, EBUSY, "another change of the members is under way: try again when it has ended");
	default:
		return problem_set(p, -err, "the cluster has not agreed on it (%s): look at `stratus status`, then try again",
				   strerror(-err));
	}
}

static int check_address(const char *address, struct problem *p)
{
	const char *colon = strrchr(address, ':');
	char host[INET_ADDRSTRLEN] = "", *end;
	struct in_addr ignored;
	unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;

	if (colon && colon - address < INET_ADDRSTRLEN)
		memcpy(host, address, colon - address);
	if (inet_pton(AF_INET, host, &ignored) != 1 || !port || port > 65535 || *end)
		return problem_set(p, EINVAL, "'%s' is no address of the cluster's network: write it as IPv4 ADDRESS:PORT",
				   address);
	return 0;
}

static bool is_connected(int fd, const struct sockaddr_in *to)
{
	struct pollfd wait = { .fd = fd, .events = POLLOUT };
	socklen_t size = sizeof(int);
	int err = EINPROGRESS;

	if (!connect(fd, (const struct sockaddr *)to, sizeof *to))
		return true;
	return errno == EINPROGRESS && poll(&wait, 1, CONNECT_S * 1000) == 1 &&
	       !getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size) && !err;
}

/* `address` was checked. */
static int check_answers(const char *address, struct problem *p)
{
	const char *colon = strrchr(address, ':');
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10)) };
	char host[INET_ADDRSTRLEN] = "";
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool answers;

	if (fd < 0)
		return problem_set(p, errno, "no socket: %m");
	memcpy(host, address, colon - address);
	inet_pton(AF_INET, host, &to.sin_addr);
	answers = is_connected(fd, &to);
	close(fd);
	return answers ? 0
		       : problem_set(p, ECONNREFUSED,
				     "nothing answers at %s: start stratusd there, with `--cluster %s --join`, then add it",
				     address, address);
}

/* The change before may not have ended yet. */
static int take_out(struct shared *l, const char *name)
{
	int err = -EBUSY;

	for (unsigned s = 0; s < WAIT_S && err == -EBUSY; s++) {
		sleep(s > 0);
		err = change_member(l, remove_start, name, "", WAIT_S);
	}
	return err;
}

static int tell_silent(const char *name, const char *address, bool is_out, struct problem *p)
{
	return problem_set(
		p, ETIMEDOUT,
		"server %s has not taken what the cluster has: does its stratusd listen at %s, under that name, and was it started with --join, and an empty --state? Its log "
		"tells; %s",
		name, address,
		is_out ? "it was not added"
		       : "it is a member that does not vote now: add it again, or `stratus server remove` it");
}

/* First as one that only gets the log, so that the cluster goes on if it does not answer; it votes when it has caught up. A
 * member that is there already is only asked to vote, so a half-done addition can be repeated. One that was not there, and does not catch up, is taken out again. */
static int add(struct store *s, const char *name, const char *address, struct problem *p)
{
	int err = check_address(address, p), promoted;

	if (!err && !leads(s))
		return tell(-EREMOTE, name, p);
	if (!err)
		err = check_answers(address, p);
	if (err)
		return err;
	err = change_member(s->log, add_start, name, address, WAIT_S);
	if (err && err != -EEXIST)
		return tell(err, name, p);
	promoted = change_member(s->log, promote_start, name, address, JOIN_WAIT_S);
	if (!promoted)
		return 0;
	if (promoted == -EREMOTE || err)
		return tell(err ? err : promoted, name, p);
	return tell_silent(name, address, !take_out(s->log, name), p);
}

static int remove_member(struct store *s, const char *name, struct problem *p)
{
	int err = change_member(s->log, remove_start, name, "", WAIT_S);

	return err ? tell(err, name, p) : 0;
}

/* ---- who leads ---- */

/* libraft gives up when it can't write or apply: it takes part in nothing any more. */
static bool is_broken(struct shared *l)
{
	return raft_state(&l->raft) == RAFT_UNAVAILABLE && !l->raft.close_cb;
}

static void lead(struct shared *l, bool leads)
{
	bool changed;

	pthread_mutex_lock(&l->lock);
	changed = l->leads != leads;
	l->leads = leads;
	pthread_mutex_unlock(&l->lock);
	if (!changed)
		return;
	log_info(NULL, NULL, leads ? "this server leads the cluster now" : "this server does not lead the cluster any more");
	pthread_mutex_lock(&l->store->lock);
	l->store->turns++;
	pthread_cond_broadcast(&l->store->changed);
	pthread_mutex_unlock(&l->store->lock);
}

/* All that was committed before we led is applied now. */
static void caught_up(struct raft_barrier *request, int status)
{
	struct shared *l = request->data;

	l->barrier_pending = false;
	if (status || raft_state(&l->raft) != RAFT_LEADER || l->barrier_is_old)
		return;
	pthread_mutex_lock(&l->lock);
	l->unproved = false;
	pthread_mutex_unlock(&l->lock);
	lead(l, true);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* libraft says who has answered since it began to count, which it does anew each second: just then nobody has. Whoever was not known before may take its time. */
static void note_heard(struct shared *l)
{
	const struct raft_configuration *c = &l->raft.configuration;
	size_t count = c->n < MEMBERS ? c->n : MEMBERS;
	struct heard next[MEMBERS] = { 0 };

	for (size_t i = 0; i < count; i++) {
		next[i] = (struct heard){ c->servers[i].id, now_ns() };
		for (size_t k = 0; k < MEMBERS && l->listens && !l->raft.leader_state.progress[i].recent_recv; k++)
			if (l->heard[k].id == next[i].id)
				next[i].ns = l->heard[k].ns;
	}
	memcpy(l->heard, next, sizeof next);
	l->listens = true;
}

static void note_members(struct shared *l)
{
	const struct raft_configuration *c = &l->raft.configuration;
	bool is_leader = raft_state(&l->raft) == RAFT_LEADER;
	const char *address;
	raft_id leader;

	raft_leader(&l->raft, &leader, &address);
	if (is_leader)
		note_heard(l);
	else
		l->listens = false;
	pthread_mutex_lock(&l->lock);
	l->members = c->n < MEMBERS ? c->n : MEMBERS;
	for (size_t i = 0; i < l->members; i++) {
		const struct raft_server *from = &c->servers[i];
		struct store_member *m = &l->member[i];

		*m = (struct store_member){ .id = from->id, .leads = from->id == leader, .votes = from->role == RAFT_VOTER };
		m->up = from->id == l->id || m->leads || (is_leader && l->heard[i].ns + SILENT_MS * 1000000ull > now_ns());
		snprintf(m->address, sizeof m->address, "%s", from->address);
	}
	pthread_mutex_unlock(&l->lock);
}

/* With the lock held: what is known of the lead is from a moment ago. */
static bool is_fresh(const struct shared *l)
{
	return l->ticked_ns + STALE_MS * 1000000ull > now_ns();
}

/* A process that was stopped for a while may have been replaced meanwhile, and libraft notices only by and by. What a majority takes
 * from now on proves that it was not; what was sent before, and is answered now, does not. */
static void note_time(struct shared *l)
{
	pthread_mutex_lock(&l->lock);
	if (!is_fresh(l)) {
		l->unproved = true;
		l->barrier_is_old = true;
		l->listens = false;
	}
	l->ticked_ns = now_ns();
	pthread_mutex_unlock(&l->lock);
}

static bool leads(struct store *s)
{
	struct shared *l = s->log;
	bool yes;

	pthread_mutex_lock(&l->lock);
	yes = l->leads && !l->unproved && is_fresh(l);
	pthread_mutex_unlock(&l->lock);
	return yes;
}

/* What was at the end and is not committed may be taken back: then the log is shorter now. */
static void note_replayed(struct shared *l)
{
	raft_index end = raft_last_index(&l->raft);

	if (raft_last_applied(&l->raft) < (end < l->began_with ? end : l->began_with))
		return;
	pthread_mutex_lock(&l->lock);
	l->replayed = true;
	pthread_mutex_unlock(&l->lock);
	pthread_mutex_lock(&l->store->lock);
	l->store->turns++; /* for who waits */
	pthread_cond_broadcast(&l->store->changed);
	pthread_mutex_unlock(&l->store->lock);
}

static bool replayed(struct store *s)
{
	struct shared *l = s->log;
	bool yes;

	pthread_mutex_lock(&l->lock);
	yes = l->replayed;
	pthread_mutex_unlock(&l->lock);
	return yes;
}

/* What others have on disk may be applied before it is on this one. */
static void note_applied(struct shared *l)
{
	raft_index applied = raft_last_applied(&l->raft);

	applied = applied < l->raft.last_stored ? applied : l->raft.last_stored;
	l->applied = applied > l->applied ? applied : l->applied;
}

static void tick(uv_timer_t *timer)
{
	struct shared *l = timer->data;

	note_time(l);
	note_applied(l);
	raft_mark_raise(&l->mark, &l->loop, l->applied);
	if (!replayed(l->store))
		note_replayed(l);
	if (is_broken(l) && !l->told) {
		l->told = true;
		log_error(
			NULL, NULL,
			"this server's part of the shared store in %s has stopped: %s; see to the disk, then restart stratusd",
			l->directory, *raft_errmsg(&l->raft) ? raft_errmsg(&l->raft) : "libraft does not say why");
	}
	if (raft_state(&l->raft) != RAFT_LEADER) {
		lead(l, false);
	} else if (!store_leads(l->store) && !l->barrier_pending) {
		l->barrier.data = l;
		l->barrier_is_old = false;
		l->barrier_pending = !raft_barrier(&l->raft, &l->barrier, caught_up);
	}
	note_members(l);
}

static size_t members(struct store *s, struct store_member *member, size_t max)
{
	struct shared *l = s->log;
	size_t count;

	pthread_mutex_lock(&l->lock);
	count = l->members < max ? l->members : max;
	memcpy(member, l->member, count * sizeof *member);
	pthread_mutex_unlock(&l->lock);
	return count;
}

/* ---- the loop ---- */

static void transport_close(struct shared *l)
{
	if (l->secure)
		raft_tls_close(&l->transport);
	else
		raft_uv_tcp_close(&l->transport);
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
	struct job *j;
	bool closing;

	pthread_mutex_lock(&l->lock);
	j = l->first;
	l->first = NULL;
	l->last = &l->first;
	closing = l->closing;
	pthread_mutex_unlock(&l->lock);
	while (j) {
		struct job *next = j->next;

		if (is_broken(l))
			finish(j, -EIO);
		else
			j->start(j);
		j = next;
	}
	if (closing && !uv_is_closing((uv_handle_t *)async) && l->raft.close_cb == NULL) {
		note_applied(l);
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

static const struct log_type shared_type = { .commit = commit,
					     .close = close_log,
					     .leads = leads,
					     .replayed = replayed,
					     .add = add,
					     .remove = remove_member,
					     .members = members };

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
	if (!err || err == RAFT_CANTBOOTSTRAP)
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

/* ---- strangers ---- */

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

static int made(struct shared *l, int err)
{
	l->made += !err;
	return err;
}

static int set_up(struct shared *l, struct problem *p)
{
	int err = made(l, uv_loop_init(&l->loop));

	if (!err)
		err = made(l, uv_async_init(&l->loop, &l->wake, woken));
	if (!err)
		err = made(l, uv_timer_init(&l->loop, &l->tick));
	if (!err)
		err = made(l, l->secure ? raft_tls_init(&l->transport, &l->loop, l->tls, p)
					: raft_uv_tcp_init(&l->transport, &l->loop));
	if (!err)
		err = made(l, raft_uv_init(&l->io, &l->loop, l->directory, &l->transport));
	if (!err)
		raft_uv_set_auto_recovery(&l->io, false);
	l->start_io = l->io.start;
	l->io.start = start_io;
	if (!err)
		err = made(l, raft_init(&l->raft, &l->io, &l->fsm, l->id, l->address));
	if (is_damage(err) && *l->io.errmsg)
		return damaged(l, l->io.errmsg, p);
	if (err)
		return problem_set(p, EIO, "the shared store in %s can't be opened: %s", l->directory,
				   *l->io.errmsg ? l->io.errmsg : raft_strerror(err));
	l->raft.data = l->wake.data = l->tick.data = l;
	raft_set_pre_vote(&l->raft, true);
	bound_log(l, 0);
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
		err = set_up(l, p);
	if (!err && !join)
		err = begin(l, p);
	if (!err && (status = raft_start(&l->raft)))
		err = cant_start(l, status, p);
	if (!err) {
		l->began_with = raft_last_index(&l->raft);
		note_members(l);
	}
	if (!err)
		err = uv_timer_start(&l->tick, tick, TICK_MS, TICK_MS) ? -EIO : 0;
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
	int err = check_address(address, p);

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
	l->secure = tls;
	l->joins = join;
	l->fsm = (struct raft_fsm){ .version = 1, .data = l, .apply = apply, .snapshot = snapshot, .restore = restore };
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
