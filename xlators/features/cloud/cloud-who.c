/* SPDX-License-Identifier: Apache-2.0 */
/* To whom a session belongs. */
#include "cloud.h"

static int find(struct cloud *c, const char *name, struct tenant *copy)
{
	const struct tenant *found;

	pthread_rwlock_rdlock(&c->table_lock);
	found = table_find(&c->table, name);
	if (found)
		*copy = *found;
	pthread_rwlock_unlock(&c->table_lock);
	return found && copy->state == TENANT_ACTIVE ? 0 : -EACCES;
}

/* What a suspended tenant has is moved as what others have: only what is deleted is left to the purge. */
static int find_moved(struct cloud *c, const struct gfid *id, struct guest *g)
{
	const struct tenant *found = NULL;

	*g = (struct guest){ .moves = true, .spreads = c->spread };
	pthread_rwlock_rdlock(&c->table_lock);
	if (c->spread)
		found = table_find_owner(&c->table, id);
	if (found)
		g->tenant = *found;
	pthread_rwlock_unlock(&c->table_lock);
	return found && g->tenant.state != TENANT_DELETED ? 0 : -EACCES;
}

int whose(struct cloud *c, const struct client *client, struct guest *g)
{
	struct identity who;

	if (!client)
		return MAY_ALL; /* the process's own doings: from the network none comes without a client */
	if (identity_parse(client->identity, &who))
		return -EACCES;
	if (who.kind == IDENTITY_SERVER)
		return gfid_is_null(&client->acts_for) ? MAY_ALL : find_moved(c, &client->acts_for, g);
	if (!identity_is_tenants(&who) || !gfid_is_null(&client->acts_for))
		return -EACCES;
	*g = (struct guest){ .administers = who.kind == IDENTITY_TENANT_ADMIN,
			     .spreads = c->spread && who.kind != IDENTITY_ACCESS };
	if (who.kind == IDENTITY_ACCESS && point_find(c, &who, g))
		return -EACCES;
	g->top = client->root;
	return find(c, who.name, &g->tenant);
}

bool is_tenants_root(struct cloud *c, const struct gfid *gfid)
{
	bool found;

	pthread_rwlock_rdlock(&c->table_lock);
	found = table_find_owner(&c->table, gfid);
	pthread_rwlock_unlock(&c->table_lock);
	return found;
}
