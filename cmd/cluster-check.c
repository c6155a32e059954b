/* SPDX-License-Identifier: Apache-2.0 */
/* What a new specification must keep to before it is committed (doc/cluster.md, "What a commit keeps to"). */
#include "cluster-check.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "brick.h"
#include "cluster-rebalance.h"
#include "cluster.h"
#include "log.h"
#include "path.h"
#include "port.h"
#include "store.h"
#include "stream.h"
#include "volfiles.h"

/* Calls fn for each committed volume but the one called `except`, until it returns an error. */
static int each_other(const char *except, int (*fn)(const struct spec *other, void *arg, struct problem *), void *arg,
		      struct problem *p)
{
	char **keys = store_keys(cluster_store(), "volume/");
	int err = keys ? 0 : -ENOMEM;

	for (char **key = keys; key && *key && !err; key++) {
		const char *name = strchr(*key, '/') + 1;
		struct problem ignored = { "" };
		const struct spec *other;
		uint64_t version;

		if (!strcmp(name, except))
			continue;
		if (!cluster_spec(name, &other, &version, &ignored))
			err = fn(other, arg, p);
		cluster_spec_release(other);
	}
	free(keys);
	return err;
}

/* ---- ports: one for each brick that was given none, and it stays ---- */

struct port_use {
	const char *server;
	unsigned port;
	bool used;
};

static int note_port(const struct spec *s, void *arg, struct problem *p)
{
	struct port_use *use = arg;

	(void)p;
	for (size_t i = 0; i < s->bricks; i++)
		use->used |= !s->brick[i].gone && !strcmp(s->brick[i].server->name, use->server) &&
			     spec_brick_port(&s->brick[i]) == use->port;
	return 0;
}

static bool needs_port(const struct spec_brick *b)
{
	return !b->gone && !b->port && !b->server->has_port;
}

/* Above the volume service's port, below those that the kernel hands out by itself. */
static int choose_port(const struct spec *s, struct spec_brick *b, struct problem *p)
{
	for (unsigned port = SPEC_PORT; port < 32768; port++) {
		struct port_use use = { b->server->name, port, false };

		for (size_t i = 0; i < s->bricks; i++)
			use.used |= s->brick[i].server == b->server && !needs_port(&s->brick[i]) &&
				    spec_brick_port(&s->brick[i]) == port;
		each_other(s->volume, note_port, &use, p);
		if (use.used || (!strcmp(use.server, cluster_name()) && !port_is_free(INADDR_ANY, port)))
			continue;
		b->port = port;
		return 0;
	}
	return problem_set(p, EADDRINUSE, "server %s has no free port between %d and 32767: write one into the specification",
			   b->server->name, SPEC_PORT);
}

static int choose_ports(struct spec *s, const struct spec *before, struct problem *p)
{
	int err = 0;

	for (size_t i = 0; i < s->bricks; i++)
		for (size_t k = 0; k < before->bricks; k++)
			if (needs_port(&s->brick[i]) && gfid_equal(&s->brick[i].id, &before->brick[k].id))
				s->brick[i].port = before->brick[k].port;
	for (size_t i = 0; i < s->bricks && !err; i++)
		if (needs_port(&s->brick[i]))
			err = choose_port(s, &s->brick[i], p);
	return err;
}

/* ---- what must hold ---- */

static int check_servers(const struct spec *s, struct problem *p)
{
	for (size_t i = 0; i < s->bricks; i++) /* a server that has no brick any more may have left the cluster */
		if (!s->brick[i].gone && !cluster_has_server(s->brick[i].server->name))
			return problem_set(
				p, EINVAL,
				"server '%s' is not of this cluster: `stratus status` names those that are, `stratus "
				"server add` adds one",
				s->brick[i].server->name);
	return 0;
}

/* One is the other, or lies in it. */
static bool overlap(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b), least = n < m ? n : m;

	return !strncmp(a, b, least) && (n == m || (n < m ? b : a)[least] == '/' || (n < m ? a : b)[least - 1] == '/');
}

static int check_brick(const struct spec_brick *a, const char *volume, const struct spec *other, const struct spec_brick *b,
		       struct problem *p)
{
	if (a->gone || b->gone)
		return 0;
	if (gfid_equal(&a->id, &b->id))
		return problem_set(p, EEXIST, "a brick of volume %s has the id of one of %s: take fresh ids", volume,
				   other->volume);
	if (strcmp(a->server->name, b->server->name))
		return 0;
	if (overlap(a->directory, b->directory))
		return problem_set(p, EEXIST, "the brick %s:%s overlaps with %s of volume %s: give each its own directory",
				   a->server->name, a->directory, b->directory, other->volume);
	if (strcmp(volume, other->volume) && spec_brick_port(a) == spec_brick_port(b))
		return problem_set(p, EADDRINUSE, "port %u of server %s serves volume %s: take another, or leave it out",
				   spec_brick_port(a), a->server->name, other->volume);
	return 0;
}

static int check_against(const struct spec *other, void *arg, struct problem *p)
{
	const struct spec *s = arg;
	int err = 0;

	if (gfid_equal(&s->id, &other->id))
		return problem_set(p, EEXIST, "volume %s has the id of volume %s: take a fresh one from uuidgen", s->volume,
				   other->volume);
	for (size_t i = 0; i < s->bricks && !err; i++)
		for (size_t k = 0; k < other->bricks && !err; k++)
			err = check_brick(&s->brick[i], s->volume, other, &other->brick[k], p);
	return err;
}

static int check_own_bricks(const struct spec *s, struct problem *p)
{
	int err = 0;

	for (size_t i = 0; i < s->bricks && !err; i++)
		for (size_t k = 0; k < i && !err; k++)
			err = check_brick(&s->brick[i], s->volume, s, &s->brick[k], p);
	return err;
}

/* A brick that is known by its id must stay where it is. */
static int check_moved(const struct spec *s, const struct spec *before, struct problem *p)
{
	for (size_t i = 0; i < s->bricks; i++)
		for (size_t k = 0; k < before->bricks; k++) {
			const struct spec_brick *now = &s->brick[i], *then = &before->brick[k];

			if (now->gone || !gfid_equal(&now->id, &then->id))
				continue;
			if (i != k)
				return problem_set(p, EINVAL, "brick %s has another place in the list: keep their order",
						   now->directory);
			if (strcmp(now->server_name, then->server_name))
				return problem_set(
					p, EINVAL,
					"brick %s can't move to another server: replace it (`stratus brick replace`)",
					then->directory);
		}
	return 0;
}

static int cannot_grow(const struct spec *before, struct problem *p)
{
	if (before->has_tenants)
		return problem_set(
			p, ENOTSUP,
			"volume %s has tenants and was created with one %s that is not to have others beside it: a new volume of several, or "
			"created with --growable, can grow",
			before->volume, before->replica ? "replica set" : "brick");
	return problem_set(
		p, ENOTSUP,
		"volume %s was created, with one %s, by a version in which such volumes could not grow: create a new one, and "
		"copy the files",
		before->volume, before->replica ? "replica set" : "brick");
}

/* New bricks, in places of others that have left or at the end. */
static int check_added(const struct spec *before, size_t replaced, struct problem *p)
{
	if (replaced)
		return problem_set(
			p, EINVAL,
			"a brick of volume %s would be replaced, and others added, at once: replace it and let it heal, then "
			"add",
			before->volume);
	if (!spec_is_spread(before))
		return cannot_grow(before, p);
	if (before->leaving)
		return problem_set(p, EBUSY,
				   "bricks of volume %s are leaving it: `stratus brick remove --cancel %s` keeps them, or "
				   "wait until they have left",
				   before->volume, before->volume);
	return cluster_rebalance_check(before->volume, p);
}

/* It begins when nothing else moves names, and may be taken back at any time. */
static int check_leaving(const struct spec *s, const struct spec *before, struct problem *p)
{
	int err;

	if (s->leaving && before->leaving && s->leaver != before->leaver)
		return problem_set(
			p, EBUSY,
			"other bricks of volume %s are leaving it: `stratus brick remove --cancel %s` keeps them, or wait until they have "
			"left",
			s->volume, s->volume);
	if (!s->leaving || before->leaving)
		return 0;
	if (spec_numbers(s) != spec_numbers(before))
		return problem_set(p, EINVAL, "bricks of volume %s would come, and others leave, at once: one after the other",
				   s->volume);
	if (!spec_is_spread(before))
		return cannot_grow(before, p);
	err = cluster_rebalance_check(s->volume, p);
	return !err && cluster_rebalance_pending(before) ? cluster_rebalance_must_end(s->volume, p) : err;
}

/* Before names have moved to them they hold nothing, nor when they have been emptied. */
static int check_removed(const struct spec *before, uint64_t went, size_t fresh, struct problem *p)
{
	if (fresh)
		return problem_set(p, EINVAL,
				   "bricks of volume %s would be replaced, and others removed, at once: one after the other",
				   before->volume);
	return cluster_rebalance_check_removal(before, went, p);
}

/* Where it was a volume of one subvolume that did not say so, mounts may still be there that know nothing of layouts. (Of bricks at other servers nobody
 * knows here.) */
static bool may_have_old_mounts(const struct spec *s)
{
	if (spec_subvolumes(s) > 1)
		return false;
	for (size_t i = 0; i < s->bricks; i++)
		if (!s->brick[i].gone && !strcmp(s->brick[i].server_name, cluster_name()) && brick_was_served(&s->brick[i]))
			return true;
	return false;
}

/* With how many subvolumes a volume began is noted when it is created, and stays; those that an older version created have it noted when they grow, but
 * for those with one: their bricks and mounts do not know of layouts. 0: not noted. */
static size_t noted_beginning(const struct spec *s, const struct spec *before)
{
	if (!before->volume &&
	    s->has_tenants) /* with one brick it is made without cluster/dht, for access points, if it does not say otherwise */
		return spec_subvolumes(s) > 1 ? spec_subvolumes(s) : 0;
	if (!before->volume)
		return may_have_old_mounts(s) ? 0 : spec_subvolumes(s);
	if (before->began)
		return before->began;
	return s->bricks > before->bricks && spec_is_spread(before) ? spec_began_with(before) : 0;
}

static int keep_beginning(struct spec *s, const struct spec *before, struct problem *p)
{
	struct spec kept = *before; /* for its numbers */
	size_t began;

	if (before->volume && before->leaving && !spec_has_subvolume(s, before->leaver))
		spec_shorten_beginning(&kept, before->leaver);
	began = before->volume ? spec_began_with(&kept) : 0;
	if (began && s->began && !spec_is_spread(before))
		return cannot_grow(before, p);
	if (began && s->began && (s->began != began || s->began_at != kept.began_at))
		return problem_set(
			p, EINVAL,
			"volume %s began with %zu subvolumes, from %u on, and 'began-with: %u' (or 'began-at: %u') says otherwise: leave it as it was",
			s->volume, began, kept.began_at, s->began, s->began_at);
	if (!s->began)
		s->began = (unsigned)noted_beginning(s, &kept);
	if (before->volume) {
		s->began_at = kept.began_at;
		s->says_began_at = kept.says_began_at;
	}
	return 0;
}

static bool is_replaced(const struct spec *s, const struct spec *before, size_t i)
{
	size_t set = spec_set_size(s);

	return spec_has_subvolume(s, i / set) && spec_has_subvolume(before, i / set) &&
	       !gfid_equal(&s->brick[i].id, &before->brick[i].id);
}

/* Bricks that others have replaced, in subvolumes that stay. */
static size_t count_replaced(const struct spec *s, const struct spec *before)
{
	size_t count = 0;

	for (size_t i = 0; i < s->bricks; i++)
		count += is_replaced(s, before, i);
	return count;
}

static int check_replaced(const struct spec *s, const struct spec *before, struct problem *p)
{
	int err = 0;

	for (size_t i = 0; i < s->bricks && !err; i++)
		if (is_replaced(s, before, i))
			err = cluster_check_replaced(before, i, p);
	return err;
}

/* What a volume that holds data can't change into. */
static int check_change(const struct spec *s, const struct spec *before, struct problem *p)
{
	uint64_t came = spec_numbers(s) & ~spec_numbers(before), went = spec_numbers(before) & ~spec_numbers(s);
	size_t fresh;
	int err;

	if (!gfid_equal(&s->id, &before->id))
		return problem_set(p, EEXIST,
				   "there is a volume %s with another id: take another name, or delete that one first",
				   s->volume);
	if (s->replica != before->replica || s->arbiter != before->arbiter)
		return problem_set(
			p, ENOTSUP,
			"'replica' and 'arbiter' of a volume can't change in this version: make a new volume with them, and "
			"copy the files");
	err = check_moved(s, before, p);
	if (!err)
		err = spec_check_tenants_change(s, before, p);
	if (err)
		return err;
	fresh = count_replaced(s, before);
	if (fresh && !s->replica)
		return problem_set(p, EINVAL, "volume %s has its data on this brick only: it can't be replaced", s->volume);
	if (fresh > 1)
		return problem_set(p, EINVAL,
				   "%zu bricks of volume %s would be new at once: replace one, let it heal, then the next",
				   fresh, s->volume);
	err = check_leaving(s, before, p);
	if (err)
		return err;
	if (came && went)
		return problem_set(p, EINVAL, "bricks of volume %s would come, and others go, at once: one after the other",
				   s->volume);
	if (went)
		return check_removed(before, went, fresh, p);
	return came ? check_added(before, fresh, p) : 0;
}

/* Servers believe of allotments what a server's certificate says. */
static int check_shared_limits(const struct spec *s, struct problem *p)
{
	if (!spec_has_allotments(s) || spec_servers_of_bricks(s) == 1 || cluster_http_has_tls())
		return 0;
	for (size_t i = 0; i < s->tenants; i++)
		if (s->tenant[i].bytes || s->tenant[i].inodes || s->tenant[i].soft_bytes || s->tenant[i].soft_inodes)
			return problem_set(
				p, EINVAL,
				"tenant '%s' of volume %s can't have a limit of bytes or inodes: with bricks at several servers these agree on it by TLS, so start "
				"each stratusd with --tls-dir",
				s->tenant[i].name, s->volume);
	return 0;
}

static bool is_here(const struct spec_brick *b)
{
	return !b->gone && !strcmp(b->server_name, cluster_name());
}

static bool is_new(const struct spec *s, const struct spec *before, size_t i)
{
	return i >= before->bricks || before->brick[i].gone || !gfid_equal(&s->brick[i].id, &before->brick[i].id);
}

static int check_tls_file(const char *path, const char *before, struct problem *p)
{
	if (!path || (before && !strcmp(path, before)) || !access(path, R_OK))
		return 0;
	return problem_set(p, errno, "can't read %s: %m; `stratus cert issue --out DIR` makes the files of --tls-dir DIR",
			   path);
}

static int check_tls(const struct spec_tls *now, const struct spec_tls *before, struct problem *p)
{
	int err = check_tls_file(now->certificate, before->certificate, p);

	if (!err)
		err = check_tls_file(now->key, before->key, p);
	return err ? err : check_tls_file(now->authorities, before->authorities, p);
}

static const char *host_of(const struct spec *s, const struct spec *before, size_t i)
{
	bool is_known = before->volume && !before->stopped && !is_new(s, before, i) &&
			!strcmp(before->brick[i].server->host, s->brick[i].server->host);

	return s->brick[i].gone || is_known ? NULL : s->brick[i].server->host;
}

/* Of what is to run from now on: nothing can be told a server that has no address. */
static int check_hosts(const struct spec *s, const struct spec *before, struct problem *p)
{
	for (size_t i = 0; i < s->bricks && !s->stopped; i++) {
		const char *host = host_of(s, before, i);
		struct addrinfo *list = NULL;
		struct problem why = { "" };

		if (host && tcp_resolve(host, "0", false, &list, &why))
			return problem_set(p, EINVAL, "server %s of volume %s: %s, or write its `host` into the specification",
					   s->brick[i].server->name, s->volume, why.text);
		if (list)
			freeaddrinfo(list);
	}
	return 0;
}

/* What is committed can't be taken back: so what this server is to serve is looked at before. */
static int check_fresh(const struct spec *s, const struct spec *before, struct problem *p)
{
	bool any = false;
	int err = 0;

	for (size_t i = 0; i < s->bricks && !err; i++) {
		any |= is_here(&s->brick[i]);
		if (is_here(&s->brick[i]) && is_new(s, before, i))
			err = brick_check_new(&s->brick[i], p);
	}
	return err || !any ? err : check_tls(&s->tls, &before->tls, p);
}

int cluster_check(struct spec *s, const struct spec *before, bool force, struct volgen_files *files, struct problem *p)
{
	int err = check_servers(s, p);

	if (!err && before->volume)
		err = check_change(s, before, p);
	if (!err)
		err = keep_beginning(s, before, p);
	if (!err)
		err = choose_ports(s, before, p);
	if (!err)
		err = check_own_bricks(s, p);
	if (!err)
		err = each_other(s->volume, check_against, s, p);
	if (!err)
		err = check_fresh(s, before, p);
	if (!err)
		err = check_hosts(s, before, p);
	if (!err)
		err = check_shared_limits(s, p);
	if (!err && before->volume && !force)
		err = check_replaced(s, before, p);
	if (!err)
		err = volfiles_of(s, cluster_state(), files, p);
	return err;
}
