/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that hold locks, their durable records, and the grace period after a restart in which they get them back.
 *
 * A record is an empty file in state-dir, named by the client's id in hex. It is durable before the first lock of the client
 * is granted and gone durably before a lock that the client lost is given to another: so who has a record after a crash has
 * lost nothing yet, and who has none may not reclaim. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "locks.h"

enum { ID_TEXT = 33 };

/* ---- clients ---- */

static struct lock_client *find(struct locks *p, const uint8_t id[16])
{
	struct lock_client *c = p->client;

	while (c && memcmp(c->id, id, sizeof(c->id)))
		c = c->next;
	return c;
}

static struct lock_client *add(struct locks *p, const uint8_t id[16])
{
	struct lock_client *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	memcpy(c->id, id, sizeof(c->id));
	c->next = p->client;
	p->client = c;
	return c;
}

static struct lock_tenant *tenant_of(struct locks *p, const char *name)
{
	struct lock_tenant *t = p->tenant;

	while (t && strcmp(t->name, name))
		t = t->next;
	if (t || !(t = calloc(1, sizeof(*t))))
		return t;
	snprintf(t->name, sizeof(t->name), "%s", name);
	t->next = p->tenant;
	return p->tenant = t;
}

void client_count(struct lock_client *c, int more)
{
	if (c->tenant)
		c->tenant->locks += (uint64_t)more;
}

/* Who a client is, and of which tenant, shows when it comes: its record does not tell, but then it holds nothing yet. What one of a tenant's certificates has locked is no
 * other one's: an access point may not take away what the tenant's own clients have. */
static bool belongs(struct locks *p, struct lock_client *c, const struct client *client)
{
	struct identity who;

	if (c->identity)
		return client && client->identity && !strcmp(c->identity, client->identity);
	if (!client || identity_parse(client->identity, &who) || !identity_is_tenants(&who))
		return true;
	c->identity = strdup(client->identity);
	c->tenant = c->identity ? tenant_of(p, who.name) : NULL;
	if (!c->tenant) {
		free(c->identity);
		c->identity = NULL; /* it is asked for again */
	}
	return c->tenant;
}

struct lock_client *client_get(struct locks *p, const struct client *client, bool make)
{
	static const uint8_t nobody[16]; /* the process itself */
	const uint8_t *id = client ? client->id : nobody;
	struct lock_client *c;

	locks_take(p);
	c = find(p, id);
	if (!c && make)
		c = add(p, id);
	if (c && make && !belongs(p, c, client)) /* another's id, or no memory: it gets no lock */
		c = NULL;
	if (c)
		c->users++;
	pthread_mutex_unlock(&p->lock);
	return c;
}

static void forget(struct locks *p, struct lock_client *c)
{
	struct lock_client **at = &p->client;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	free(c->identity);
	free(c);
}

void client_put(struct xlator *x, struct lock_client *c)
{
	struct locks *p = x->private;
	bool obsolete;

	if (!c)
		return;
	locks_take(p);
	obsolete = c->recorded && (c->ended || c->obsolete) && !c->locks && c->users == 1;
	pthread_mutex_unlock(&p->lock);
	if (obsolete)
		record_remove(x, c);
	locks_take(p);
	if (--c->users == 0 && !c->locks && !c->recorded && c->reclaim == NOT_EXPECTED)
		forget(p, c);
	pthread_mutex_unlock(&p->lock);
}

void client_free_all(struct locks *p)
{
	struct lock_tenant *t;

	while (p->client)
		forget(p, p->client);
	while ((t = p->tenant)) {
		p->tenant = t->next;
		free(t);
	}
}

/* ---- records ---- */

static const char *id_text(const uint8_t id[16], char text[ID_TEXT])
{
	for (int i = 0; i < 16; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
	return text;
}

static bool id_parse(const char *text, uint8_t id[16])
{
	if (strlen(text) != ID_TEXT - 1 || strspn(text, "0123456789abcdef") != ID_TEXT - 1)
		return false;
	for (int i = 0; i < 16; i++) {
		unsigned byte;

		sscanf(text + 2 * i, "%2x", &byte);
		id[i] = byte;
	}
	return true;
}

/* Makes or removes the file, durably. */
static int change_record(const char *dir_path, const char *name, bool make)
{
	int dir = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), file, err = 0;

	if (dir < 0)
		return -errno_now();
	if (make) {
		file = openat(dir, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (file < 0 || fsync(file))
			err = -errno_now();
		if (file >= 0)
			close(file);
	} else if (unlinkat(dir, name, 0) && errno_now() != ENOENT) {
		err = -errno_now();
	}
	if (!err && fsync(dir))
		err = -errno_now();
	close(dir);
	return err;
}

int record_write(struct xlator *x, struct lock_client *c)
{
	struct locks *p = x->private;
	char name[ID_TEXT];
	int err = 0;

	task_blocks();
	pthread_mutex_lock(&p->records);
	if (!c->recorded)
		err = change_record(p->state_dir, id_text(c->id, name), true);
	if (err)
		log_error(x, NULL, "can't record in %s that a client holds locks: %s; its lock is refused", p->state_dir,
			  strerror(-err));
	locks_take(p);
	c->recorded |= !err;
	pthread_mutex_unlock(&p->lock);
	pthread_mutex_unlock(&p->records);
	return err ? -ENOLCK : 0;
}

/* Of a session that has not ended. */
static bool holds_any(const struct locks *p, const struct lock_client *c)
{
	for (const struct lock_inode *at = c->locks ? p->inode : NULL; at; at = at->next)
		for (int kind = 0; kind < 2; kind++)
			for (const struct held *h = at->held[kind]; h; h = h->next)
				if (h->party.client == c && h->incarnation >= c->ended)
					return true;
	return false;
}

/* While this waits for its turn at the directory the client may have been given a lock, on the strength of the record that is there. */
void record_remove(struct xlator *x, struct lock_client *c)
{
	struct locks *p = x->private;
	char name[ID_TEXT];
	bool remove;
	int err;

	task_blocks();
	pthread_mutex_lock(&p->records);
	locks_take(p);
	remove = c->recorded && c->users == 1 && !holds_any(p, c);
	c->recorded &= !remove; /* before the file goes: a lock granted from now on writes it anew */
	pthread_mutex_unlock(&p->lock);
	err = remove ? change_record(p->state_dir, id_text(c->id, name), false) : 0;
	pthread_mutex_unlock(&p->records);
	if (err)
		log_warning(x, NULL, "can't remove the record %s/%s: %s; after a restart new locks will wait for it",
			    p->state_dir, name, strerror(-err));
}

/* ---- the grace period ---- */

static int expect(struct locks *p, const uint8_t id[16])
{
	struct lock_client *c = add(p, id);

	if (!c)
		return -ENOMEM;
	c->recorded = true;
	c->reclaim = EXPECTED;
	p->expected++;
	return 0;
}

static int read_records(struct locks *p, DIR *dir)
{
	const struct dirent *entry;
	uint8_t id[16];
	int err = 0;

	while (!err && (errno = 0, entry = readdir(dir)))
		if (!id_parse(entry->d_name, id))
			continue;
		else if (p->grace_ms)
			err = expect(p, id);
		else
			unlinkat(dirfd(dir), entry->d_name, 0); /* nobody is waited for */
	return err ? err : -errno;
}

int grace_start(struct xlator *x, struct problem *problem)
{
	struct locks *p = x->private;
	DIR *dir;
	int err;

	p->started_ns = clock_ns();
	if (!*p->state_dir)
		return 0;
	if (mkdir(p->state_dir, 0700) && errno != EEXIST)
		return problem_set(problem, errno, "%s: can't make state-dir %s: %s", x->name, p->state_dir, strerror(errno));
	dir = opendir(p->state_dir);
	if (!dir)
		return problem_set(problem, errno, "%s: can't read state-dir %s: %s", x->name, p->state_dir, strerror(errno));
	err = read_records(p, dir);
	closedir(dir);
	if (p->expected && p->grace_ms) {
		p->grace_end_ns = p->started_ns + p->grace_ms * 1000000;
		log_info(x, NULL, "%u clients held locks; for up to %llu s only they get locks", p->expected,
			 (unsigned long long)p->grace_ms / 1000);
	}
	return err ? problem_set(problem, -err, "%s: can't read state-dir %s: %s", x->name, p->state_dir, strerror(-err)) : 0;
}

static void end(struct locks *p)
{
	p->grace_end_ns = 0;
	p->sweeping = false;
	task_cond_broadcast(&p->grace_over);
}

void grace_note(struct locks *p, struct lock_client *c, bool reclaims)
{
	if (reclaims && c->reclaim == EXPECTED)
		c->reclaim = RECLAIMING;
	if (reclaims || c->reclaim != RECLAIMING)
		return;
	c->reclaim = NOT_EXPECTED;
	if (--p->expected == 0)
		end(p);
}

void grace_done(struct locks *p, struct lock_client *c)
{
	if (c->reclaim == NOT_EXPECTED)
		return;
	c->obsolete = true; /* unless it holds some */
	c->reclaim = RECLAIMING;
	grace_note(p, c, false);
}

/* Who never came back loses its record; the others keep theirs. */
static void sweep(struct xlator *x)
{
	struct locks *p = x->private;
	struct lock_client *c;

	do {
		locks_take(p);
		for (c = p->client; c && c->reclaim == NOT_EXPECTED; c = c->next)
			;
		if (c) {
			c->obsolete |= c->reclaim == EXPECTED;
			c->reclaim = NOT_EXPECTED;
			c->users++;
		}
		pthread_mutex_unlock(&p->lock);
		client_put(x, c);
	} while (c);
	locks_take(p);
	p->expected = 0;
	end(p);
	pthread_mutex_unlock(&p->lock);
	log_info(x, NULL, "the grace period is over");
}

static bool sooner(uint64_t a, uint64_t b)
{
	return a && (!b || a < b);
}

int grace_wait(struct xlator *x, uint64_t deadline_ns)
{
	struct locks *p = x->private;
	int err = 0;

	locks_take(p);
	while (!err && p->grace_end_ns) {
		uint64_t until = p->sweeping || sooner(deadline_ns, p->grace_end_ns) ? deadline_ns : p->grace_end_ns;

		if (!p->sweeping && clock_ns() >= p->grace_end_ns) {
			p->sweeping = true;
			pthread_mutex_unlock(&p->lock);
			sweep(x);
			locks_take(p);
			continue;
		}
		err = task_cond_wait(&p->grace_over, &p->lock, until);
		if (err == -ETIMEDOUT)
			err = until == deadline_ns ? -EAGAIN : 0;
	}
	pthread_mutex_unlock(&p->lock);
	return err;
}
