/* SPDX-License-Identifier: Apache-2.0 */
/* Which cluster this server is of: an id, 16 random bytes. It is made when a cluster begins, and committed as the document cluster/id, which can be made only once; a leader whose store has none, for it is
 * of an older release, makes one. Each server keeps what it has learnt in the file `cluster` beside the log, for it has to say it before it knows again what was committed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "log.h"
#include "raft-shared.h"
#include "raft-wire.h"

enum { DIGITS = 2 * CLUSTER_ID };
static const char key[] = "cluster/id";

char *cluster_text(const uint8_t id[CLUSTER_ID], char text[DIGITS + 1])
{
	for (unsigned i = 0; i < CLUSTER_ID; i++)
		snprintf(text + (size_t)2 * i, 3, "%02x", id[i]);
	return text;
}

static bool parse(const char *text, size_t size, uint8_t id[CLUSTER_ID])
{
	if (size < DIGITS || strspn(text, "0123456789abcdef") < DIGITS)
		return false;
	for (unsigned i = 0; i < CLUSTER_ID; i++)
		sscanf(text + (size_t)2 * i, "%2hhx", &id[i]);
	return cluster_id_is_set(id);
}

/* ---- the file ---- */

static bool has_log(int directory)
{
	int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;
	bool found = !list; /* it is looked at again when it is open */

	while (list && !found && (d = readdir(list)))
		found = !strncmp(d->d_name, "open-", strlen("open-")) ||
			!strncmp(d->d_name, "snapshot-", strlen("snapshot-")) || strspn(d->d_name, "0123456789");
	if (list)
		closedir(list);
	else if (fd >= 0)
		close(fd);
	return found;
}

int cluster_load(struct shared *l, struct problem *p)
{
	char text[DIGITS + 2] = "";
	ssize_t got;
	int fd;

	if (!has_log(l->claimed))
		unlinkat(l->claimed, "cluster", 0);
	fd = openat(l->claimed, "cluster", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return problem_set(p, errno, "%s/cluster, which says of which cluster this server is, can't be opened: %m",
				   l->directory);
	got = read(fd, text, sizeof text - 1);
	close(fd);
	return got > 0 && parse(text, (size_t)got, l->cluster)
		       ? 0
		       : problem_set(
				 p, EINVAL,
				 "%s/cluster, which says of which cluster this server is, is damaged: remove it, and it is learnt again from the log",
				 l->directory);
}

static int put_file(int directory, const uint8_t id[CLUSTER_ID])
{
	char text[DIGITS + 2];
	int fd = openat(directory, "cluster.new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600), err = 0;

	if (fd < 0)
		return -errno;
	cluster_text(id, text);
	text[DIGITS] = '\n';
	if (write(fd, text, DIGITS + 1) != DIGITS + 1 || fsync(fd))
		err = errno ? -errno : -EIO;
	close(fd);
	if (!err && (renameat(directory, "cluster.new", directory, "cluster") || fsync(directory)))
		err = -errno;
	return err;
}

int cluster_take(struct shared *l, const uint8_t id[CLUSTER_ID])
{
	int err = memcmp(l->cluster, id, CLUSTER_ID) ? put_file(l->claimed, id) : 0;

	if (err)
		log_error(
			NULL, NULL,
			"the file `cluster` in %s, which says of which cluster this server is, can't be written (%s): see to the disk",
			l->directory, strerror(-err));
	else
		memcpy(l->cluster, id, CLUSTER_ID);
	return err;
}

static void forget(struct shared *l)
{
	unlinkat(l->claimed, "cluster", 0);
	memset(l->cluster, 0, sizeof l->cluster);
}

/* It may have waited to be taken in by another one. */
void cluster_forget_if_empty(struct shared *l)
{
	if (!raft_last_index(&l->raft) && cluster_id_is_set(l->cluster))
		forget(l);
}

/* Ticks, not time: between two of them all that has come was read. */
enum { SILENT_TICKS = 30 };

void cluster_forget_if_silent(struct shared *l)
{
	bool waits = !raft_last_index(&l->raft) && cluster_id_is_set(l->cluster);

	l->silent_ticks = waits && !raft_wire_brings(&l->transport, l->cluster) ? l->silent_ticks + 1 : 0;
	if (l->silent_ticks < SILENT_TICKS)
		return;
	log_info(NULL, NULL, "the cluster that has called this server is not heard any more: it waits to be taken in by any");
	l->silent_ticks = 0;
	forget(l);
}

static int make(uint8_t id[CLUSTER_ID])
{
	do {
		if (getrandom(id, CLUSTER_ID, 0) != CLUSTER_ID)
			return -EIO;
	} while (!cluster_id_is_set(id));
	return 0;
}

int cluster_begin(struct shared *l, struct problem *p)
{
	uint8_t id[CLUSTER_ID];
	int err = l->is_old ? 0 : make(id);

	if (!err && !l->is_old)
		err = cluster_take(l, id);
	return err ? problem_set(p, -err, "the id of a new cluster can't be written to %s: %s", l->directory, strerror(-err))
		   : 0;
}

/* ---- the document ---- */

bool cluster_of_state(const struct state *s, uint8_t id[CLUSTER_ID])
{
	const struct document *d = state_find(s, key);

	return d && !d->gone && parse(d->value.bytes, d->value.size, id);
}

void cluster_learn(struct shared *l)
{
	uint8_t id[CLUSTER_ID];
	bool known;

	if (l->is_old || l->cluster_is_committed)
		return;
	pthread_mutex_lock(&l->store->lock);
	known = cluster_of_state(&l->store->state, id);
	pthread_mutex_unlock(&l->store->lock);
	if (!known)
		return;
	l->cluster_is_committed = true;
	if (cluster_id_is_set(l->cluster) && memcmp(l->cluster, id, CLUSTER_ID))
		log_warning(NULL, NULL, "the file `cluster` in %s was of another cluster than the log: the log counts",
			    l->directory);
	if (cluster_take(l, id)) /* so, too, where the file can't be written */
		memcpy(l->cluster, id, sizeof l->cluster);
}

enum { PROPOSE_AGAIN_S = 5 };

static void proposed(struct raft_apply *request, int status, void *result)
{
	struct shared *l = request->data;

	(void)status, (void)result;
	l->cluster_is_proposed = false; /* who leads then tries again if it was not committed */
	l->cluster_refused_ns = now_ns();
}

void cluster_propose(struct shared *l)
{
	uint8_t id[CLUSTER_ID];
	char digits[DIGITS + 1];
	struct blob value = { .size = DIGITS, .bytes = digits }, text = { 0 };
	struct raft_buffer entry = { NULL, 0 };

	if (l->is_old || l->cluster_is_committed || l->cluster_is_proposed)
		return;
	if (l->cluster_refused_ns && now_ns() < l->cluster_refused_ns + PROPOSE_AGAIN_S * 1000000000ull)
		return;
	memcpy(id, l->cluster, sizeof id);
	if (!cluster_id_is_set(id) && make(id))
		return;
	cluster_text(id, digits);
	if (changes_encode(&(struct store_change){ key, 0, &value }, 1, &text))
		return;
	entry.len = (text.size + 7) / 8 * 8;
	entry.base = raft_calloc(1, entry.len);
	if (entry.base)
		memcpy(entry.base, text.bytes, text.size);
	free(text.bytes);
	l->proposal.data = l;
	l->cluster_is_proposed = entry.base && !raft_apply(&l->raft, &l->proposal, &entry, 1, proposed);
	if (!l->cluster_is_proposed)
		raft_free(entry.base);
}
