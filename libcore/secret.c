/* SPDX-License-Identifier: Apache-2.0 */
/* Whole pages for each secret: they are few, and locking and dumping go by pages. */
#include "secret.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

void secret_hide_process(void)
{
	static const struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0);
}

struct named {
	char *name;
	void *bytes;
	size_t size;
	struct named *next;
};
static struct named *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t whole_pages(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (size + page - 1) / page * page;
}

void *secret_alloc_somewhere(size_t size, bool *locked)
{
	size_t room = whole_pages(size ? size : 1);
	void *at = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	*locked = !mlock(at, room);
	madvise(at, room, MADV_DONTDUMP);
	return at;
}

void *secret_alloc(size_t size)
{
	bool locked;
	void *at = secret_alloc_somewhere(size, &locked);

	if (!at || locked)
		return at;
	secret_free(at, size);
	return NULL;
}

void secret_wipe(void *at, size_t size)
{
	explicit_bzero(at, size);
}

void secret_free(void *at, size_t size)
{
	if (!at)
		return;
	secret_wipe(at, size);
	munmap(at, whole_pages(size ? size : 1));
}

static struct named **find(const char *name)
{
	struct named **at = &all;

	while (*at && strcmp((*at)->name, name))
		at = &(*at)->next;
	return at;
}

static void forget(struct named **at)
{
	struct named *gone = *at;

	*at = gone->next;
	secret_free(gone->bytes, gone->size);
	free(gone->name);
	free(gone);
}

static struct named *copy_of(const char *name, const void *bytes, size_t size)
{
	struct named *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	*n = (struct named){ .name = strdup(name), .bytes = secret_alloc(size), .size = size };
	if (n->name && n->bytes) {
		memcpy(n->bytes, bytes, size);
		return n;
	}
	secret_free(n->bytes, size);
	free(n->name);
	free(n);
	return NULL;
}

int secret_put(const char *name, const void *bytes, size_t size)
{
	struct named *n = bytes ? copy_of(name, bytes, size) : NULL;
	struct named **at;

	if (bytes && !n)
		return -ENOMEM;
	pthread_mutex_lock(&lock);
	at = find(name);
	if (*at)
		forget(at);
	if (n) {
		n->next = all;
		all = n;
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

void *secret_get(const char *name, size_t *size)
{
	void *copy = NULL;
	struct named *n;

	pthread_mutex_lock(&lock);
	n = *find(name);
	if (n && (copy = secret_alloc(n->size))) {
		memcpy(copy, n->bytes, n->size);
		*size = n->size;
	}
	pthread_mutex_unlock(&lock);
	return copy;
}
