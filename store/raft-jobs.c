/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of libraft, on its loop, by others who wait for it: commits, and changes of the members. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "raft-shared.h"

enum { WAIT_S = 15, JOIN_WAIT_S = 60, CONNECT_S = 3, HAND_OVER_S = 2 };

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

void shared_start_jobs(struct shared *l)
{
	struct job *j;

	pthread_mutex_lock(&l->lock);
	j = l->first;
	l->first = NULL;
	l->last = &l->first;
	pthread_mutex_unlock(&l->lock);
	while (j) {
		struct job *next = j->next;

		if (shared_is_broken(l))
			finish(j, -EIO);
		else
			j->start(j);
		j = next;
	}
}

/* ---- what is asked of libraft ---- */

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

int shared_commit(struct store *s, const struct store_change *change, size_t count)
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

/* Who leads and has not yet committed anything in its term may not change the members: an older change may be under way that the others commit after all (Ongaro, "bug in single-server membership
 * changes", raft-dev 2015). Libraft does not look. */
static bool may_change_members(struct job *j)
{
	j->request.change.data = j;
	if (shared_leads(j->log->store))
		return true;
	started(j, RAFT_NOTLEADER);
	return false;
}

/* Also when an election's time is over in which the heir has not taken the lead. */
static void transfer_done(struct raft_transfer *transfer)
{
	struct job *j = transfer->data;

	finish(j, raft_state(&j->log->raft) == RAFT_LEADER ? -ETIMEDOUT : 0);
}

/* Libraft would choose one that is down, if that has all entries. */
static void hand_over_start(struct job *j)
{
	struct shared *l = j->log;
	raft_id heir = shared_heir(l);
	int status = raft_state(&l->raft) != RAFT_LEADER ? RAFT_NOTLEADER : heir ? 0 : RAFT_NOTFOUND;

	if (!status) {
		l->transfer.data = j;
		status = raft_transfer(&l->raft, &l->transfer, heir, transfer_done);
	}
	started(j, status);
}

void shared_hand_over(struct store *s)
{
	struct shared *l = s->log;
	struct job *j = job_create(l, hand_over_start);
	int err;

	atomic_store(&l->retired, true);
	err = j ? job_run(j, HAND_OVER_S) : -ENOMEM;
	if (err && err != -EREMOTE)
		log_info(
			NULL, NULL,
			"no other server has taken the lead of the cluster yet: one is elected when this one has closed its store");
}

static void add_start(struct job *j)
{
	if (may_change_members(j))
		started(j, raft_add(&j->log->raft, &j->request.change, j->id, j->address, change_done));
}

static void promote_start(struct job *j)
{
	if (may_change_members(j))
		started(j, raft_assign(&j->log->raft, &j->request.change, j->id, RAFT_VOTER, change_done));
}

static void remove_start(struct job *j)
{
	if (may_change_members(j))
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

int shared_check_address(const char *address, struct problem *p)
{
	return address_is_fine(address)
		       ? 0
		       : problem_set(
				 p, EINVAL,
				 "'%s' is no address of the cluster's network: write it as IPv4 ADDRESS:PORT, without leading zeros",
				 address);
}

static bool is_connected(int fd, const struct sockaddr_in *to)
{
	struct pollfd wait = { .fd = fd, .events = POLLOUT };
	socklen_t size = sizeof(int);
	int err = EINPROGRESS;

	if (!connect(fd, (const struct sockaddr *)to, sizeof *to))
		return true;
	return errno == EINPROGRESS && TEMP_FAILURE_RETRY(poll(&wait, 1, CONNECT_S * 1000)) == 1 &&
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

static int tell_silent(struct store *s, const char *name, const char *address, bool is_out, struct problem *p)
{
	char trouble[1024];

	if (shared_trouble(s, trouble, sizeof trouble) && strstr(trouble, address))
		return problem_set(p, ETIMEDOUT, "server %s has not taken what the cluster has: %s; %s", name, trouble,
				   is_out ? "it was not added" : "it is a member that does not vote now");

	return problem_set(
		p, ETIMEDOUT,
		"server %s has not taken what the cluster has: does its stratusd listen at %s, under that name, and was it started with --join, and an empty --state? Its log "
		"tells; %s",
		name, address,
		is_out ? "it was not added"
		       : "it is a member that does not vote now: add it again, or `stratus server remove` it");
}

/* It has, or will have. Only who never said anything is taken for somebody else. */
static bool has_answered(struct shared *l, const char *name)
{
	bool yes = false;

	pthread_mutex_lock(&l->lock);
	for (size_t i = 0; i < l->members; i++)
		yes |= l->member[i].id == store_member_id(name) && (l->member[i].answered || l->member[i].votes);
	pthread_mutex_unlock(&l->lock);
	return yes;
}

/* First as one that only gets the log, so that the cluster goes on if it does not answer; it votes when it has caught up. A
 * member that is there already is only asked to vote, so a half-done addition can be repeated. One that was not there, and says nothing, is taken out again. */
int shared_add(struct store *s, const char *name, const char *address, struct problem *p)
{
	int err = shared_check_address(address, p), promoted;

	if (!err && !shared_leads(s))
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
	if (promoted == -EREMOTE || promoted == -EBUSY || err)
		return tell(err ? err : promoted, name, p);
	if (has_answered(s->log, name))
		return problem_set(
			p, ETIMEDOUT,
			"server %s has not caught up yet: it gets what the cluster has, and does not vote so far; give the command again until it is done",
			name);
	return tell_silent(s, name, address, !take_out(s->log, name), p);
}

int shared_remove(struct store *s, const char *name, struct problem *p)
{
	int err = change_member(s->log, remove_start, name, "", WAIT_S);

	return err ? tell(err, name, p) : 0;
}
