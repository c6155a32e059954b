/* SPDX-License-Identifier: Apache-2.0 */
/* The committed specifications as they were read last: each is read once, though many ask for it and it may be long. A copy is good for one version of the store's document,
 * which that one has only once; so nobody has to be told when it changes. Nothing of it is on the disk. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"
#include "inode.h"
#include "log.h"
#include "path.h"
#include "store.h"

struct committed {
	struct spec spec; /* first: what is lent is this */
	uint64_t version;
	atomic_uint users; /* the list is one */
	struct committed *next;
	/* Guarded by the lock. */
	struct volgen_files files; /* made by who committed it, for who puts it into effect */
	char *client;		   /* the clients' volfile; NULL: nobody has asked for it yet */
};
static struct committed *list;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void cluster_spec_release(const struct spec *s)
{
	struct committed *c = (struct committed *)s;

	if (!c || atomic_fetch_sub(&c->users, 1) > 1)
		return;
	spec_free(&c->spec);
	volgen_free(&c->files);
	free(c->client);
	free(c);
}

/* ---- the list; with the lock held ---- */

static struct committed **place_of(const char *volume)
{
	struct committed **at = &list;

	while (*at && strcmp((*at)->spec.volume, volume))
		at = &(*at)->next;
	return at;
}

static void drop(const char *volume)
{
	struct committed **at = place_of(volume), *old = *at;

	if (!old)
		return;
	*at = old->next;
	cluster_spec_release(&old->spec);
}

/* One that is older than what is there is for who has read it. */
static void keep(struct committed *c)
{
	const struct committed *now = *place_of(c->spec.volume);

	if (now && now->version > c->version)
		return;
	drop(c->spec.volume);
	atomic_fetch_add(&c->users, 1);
	c->next = list;
	list = c;
}

static const struct spec *find(const char *volume, uint64_t version)
{
	struct committed *c = *place_of(volume);

	if (!c || c->version != version)
		return NULL;
	atomic_fetch_add(&c->users, 1);
	return &c->spec;
}

/* ---- reading ---- */

static int read_it(const char *volume, const struct spec **spec, uint64_t *version, struct problem *p)
{
	cleanup_path char *path = path_format("volume %s", volume);
	struct committed *c = calloc(1, sizeof *c);
	struct blob text = { 0 };
	int err = c ? cluster_spec_text(volume, &text, version, p) : -ENOMEM;

	if (!err)
		err = spec_parse(text.bytes, text.size, path, &c->spec, p);
	free(text.bytes);
	if (!err && strcmp(c->spec.volume, volume))
		err = problem_set(p, EINVAL, "what the store has as volume %s is the specification of %s", volume,
				  c->spec.volume);
	pthread_mutex_lock(&lock);
	if (err == -ENOENT)
		drop(volume);
	if (!err) {
		c->version = *version;
		atomic_store(&c->users, 1);
		keep(c);
	}
	pthread_mutex_unlock(&lock);
	if (err && c)
		spec_free(&c->spec);
	if (err)
		free(c);
	else
		*spec = &c->spec;
	return err;
}

int cluster_spec(const char *volume, const struct spec **spec, uint64_t *version, struct problem *p)
{
	cleanup_path char *key = path_format("volume/%s", volume);

	*version = store_version(cluster_store(), key);
	pthread_mutex_lock(&lock);
	*spec = *version ? find(volume, *version) : NULL;
	pthread_mutex_unlock(&lock);
	return *spec ? 0 : read_it(volume, spec, version, p);
}

void cluster_spec_committed(struct spec *s, uint64_t version, struct volgen_files *files)
{
	struct committed *c = calloc(1, sizeof *c);

	if (!c) /* it will be read */
		return;
	c->spec = *s;
	*s = (struct spec){ 0 };
	c->version = version;
	c->files = *files;
	*files = (struct volgen_files){ 0 };
	c->client = volgen_take(&c->files, VOLGEN_CLIENT);
	atomic_store(&c->users, 1);
	pthread_mutex_lock(&lock);
	keep(c);
	pthread_mutex_unlock(&lock);
	cluster_spec_release(&c->spec);
}

void cluster_specs_forget(void)
{
	pthread_mutex_lock(&lock);
	while (list)
		drop(list->spec.volume);
	pthread_mutex_unlock(&lock);
}

/* ---- what is made of it ---- */

int cluster_spec_files(const struct spec *s, struct volgen_files *files, struct problem *p)
{
	struct committed *c = (struct committed *)s;

	pthread_mutex_lock(&lock);
	*files = c->files; /* without the clients' */
	c->files = (struct volgen_files){ 0 };
	pthread_mutex_unlock(&lock);
	return files->count ? 0 : volgen(s, cluster_state(), files, p);
}

int cluster_spec_client(const struct spec *s, char **text, struct problem *p)
{
	struct committed *c = (struct committed *)s;
	struct volgen_files files = { 0 };
	int err;

	pthread_mutex_lock(&lock);
	*text = c->client ? strdup(c->client) : NULL;
	pthread_mutex_unlock(&lock);
	if (*text)
		return 0;
	err = volgen(s, cluster_state(), &files, p);
	*text = err ? NULL : volgen_take(&files, VOLGEN_CLIENT);
	volgen_free(&files);
	pthread_mutex_lock(&lock);
	if (!err && !c->client)
		c->client = strdup(*text);
	pthread_mutex_unlock(&lock);
	return err;
}
