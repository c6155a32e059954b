/* SPDX-License-Identifier: Apache-2.0 */
/* Access points where a volume has several bricks: what their clients may call things; and what becomes of them where their directory's limit can't be read. */
#include "cloud-access-test.h"

#include "place.h"
#include "quota.h"

static void tell(struct tree *t, const char *volume, const char *option, const char *value)
{
	struct xlator *x = tree_find(t, volume);
	struct problem p = { "" };

	CHECK_INT(option_change(x->type->options, x->private, "test", option, value, &p), 0);
	if (x->type->reconfigure)
		x->type->reconfigure(x, option_find(x->type->options, option));
}

/* ---- names ---- */

#define AWAY "a.dddddddd-0000-4000-8000-000000000001"

static void are_names(void *arg)
{
	struct tree *t = arg;
	struct attr a;

	furnish_site(t);
	CHECK_INT(become(t, &site_web, 0), 0);
	CHECK_INT(tree_mkdir(t, DHT_HIDDEN, 0777), 0);
	CHECK_INT(tree_mkdir(t, DHT_HIDDEN "/away", 0777), 0);
	CHECK_INT(tree_mkdir(t, "dir", 0777), 0);
	CHECK_INT(tree_rename(t, "dir", DHT_HIDDEN "/away/dir", 0), 0); /* it is no other tree */
	CHECK_INT(tree_getattr(t, DHT_HIDDEN "/away/dir", &a), 0);
	CHECK_INT(tree_rename(t, DHT_HIDDEN "/away/dir", "dir", 0), 0);
	tell(t, "layout", "leaving", "on");
	CHECK_INT(tree_put(t, AWAY, "x"), 0); /* it is not put away */
	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_create(t, "site/" AWAY "2", O_RDWR | O_CREAT, 0644, NULL), 0);
}

/* cluster/dht has names of its own; who comes by an access point has no part in that. */
void whatever_its_clients_call_something_is_a_name(void **state)
{
	(void)state;
	on_bricks("option spread on\n", are_names);
}

/* ---- a limit that can't be read ---- */

static void stays(void *arg)
{
	struct tree *t = arg;
	struct attr a;

	furnish_site(t);
	CHECK_INT(become(t, &site_web, 0), 0);
	CHECK_INT(become(t, &admin, 0), 0);
	tell(t, "fails", "percent", "100");
	CHECK_INT(tree_removexattr(t, "site", QUOTA_XATTR), -EIO);
	tell(t, "fails", "percent", "0");
	t->client = &site_web;
	t->root = &site_web.root;
	CHECK_INT(tree_getattr(t, "page", &a), 0);
	CHECK_INT(become(t, &site_web, 0), 0); /* it is still the directory's */
	CHECK_INT(become(t, &admin, 0), 0);
	CHECK_INT(tree_removexattr(t, "site", QUOTA_XATTR), 0);
	t->client = &site_web;
	t->root = &site_web.root;
	CHECK_INT(tree_getattr(t, "page", &a), -EACCES);
}

/* Whom to cut off is told by its number: who took it away without would leave guests in what may come to be at other bricks. */
void a_limit_that_can_not_be_read_is_not_taken_away(void **state)
{
	(void)state;
	on_bricks("option spread on\n", stays);
}
