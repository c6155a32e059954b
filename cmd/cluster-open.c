/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a server that starts: that it is of the kind, and of the server, that it should be. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster.h"
#include "path.h"
#include "store.h"

char *cluster_host_name(void)
{
	char name[256] = "";

	gethostname(name, sizeof name - 1);
	name[strcspn(name, ".")] = '\0';
	return path_format("%s", *name ? name : "server");
}

/* A store that was one server's is not shared by itself, nor the other way round. */
static int check_kind(const char *alone, const char *shared, bool peers, struct problem *p)
{
	if (peers && !access(alone, F_OK))
		return problem_set(
			p, EEXIST,
			"%s is the store of one server, which can't become a shared one in this version: leave --cluster "
			"out, or name another --state",
			alone);
	if (!peers && !access(shared, F_OK))
		return problem_set(p, EEXIST, "%s is a store that servers share: give this server's --cluster ADDRESS:PORT",
				   shared);
	return 0;
}

/* The store knows its server, and specifications their bricks, by this name. */
static int check_name(const char *state, const char *name, struct problem *p)
{
	cleanup_path char *path = path_format("%s/name", state), *text = path_format("%s\n", name);
	char found[512] = "";
	FILE *file = fopen(path, "re");
	bool read;

	if (!file && errno != ENOENT)
		return problem_set(p, errno, "can't read %s: %m", path);
	if (!file)
		return path_write(path, text, strlen(text), p);
	read = fgets(found, sizeof found, file);
	fclose(file);
	found[strcspn(found, "\n")] = '\0';
	if (read && !strcmp(found, name))
		return 0;
	return problem_set(
		p, EINVAL,
		"%s is the state of server '%s', and this one is called '%s' (has the host's name changed?): start it with "
		"--name %s",
		state, found, name, found);
}

int cluster_open_store(const struct cluster_config *c, const char *state, const char *name, struct store **store,
		       struct problem *p)
{
	cleanup_path char *alone = path_format("%s/store", state), *shared = path_format("%s/raft", state);
	int err;

	path_make_parents(alone);
	chmod(state, 0700);
	err = check_kind(alone, shared, c->peers != NULL, p);
	if (!err)
		err = check_name(state, name, p);
	if (err)
		return err;
	return c->peers ? store_open_shared(shared, name, c->peers, c->join, c->tls, store, p) : store_open(alone, store, p);
}
