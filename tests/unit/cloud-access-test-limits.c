/* SPDX-License-Identifier: Apache-2.0 */
/* Access points where a volume has several bricks (doc/tenants.md, A8): their directory is one that has a limit, found by the number of that; their clients have no cluster/dht, and
 * are told of nothing that is elsewhere. */
#include "cloud-access-test.h"

#include "born.h"
#include "location.h"
#include "place.h"
#include "quota.h"

#define GRAPH                                                                                                                  \
	"volume posix\ntype storage/posix\noption directory %s\noption volume-id 11111111-2222-3333-4444-555555555555\n"       \
	"option brick-id 11111111-2222-3333-4444-666666666666\nend-volume\n"                                                   \
	"volume usage\ntype features/usage\noption ledger %s.ledger\n"                                                         \
	"option accounts \"acme 65536 65536 0 %d, globex 131072 65536\"\n"                                                     \
	"option pool 11111111-2222-3333-4444-555555555555\nsubvolumes posix\nend-volume\n"                                     \
	"volume locks\ntype features/locks\noption grace-period 0\nsubvolumes usage\nend-volume\n"                             \
	"volume access\ntype features/access\nsubvolumes locks\nend-volume\n"                                                  \
	"volume layout\ntype features/layout\noption subvolume 0\noption initial 2\nsubvolumes access\nend-volume\n"           \
	"volume fails\ntype debug/error-gen\noption fops getxattr\noption percent 0\nsubvolumes layout\nend-volume\n"          \
	"volume hold\ntype debug/hold\nsubvolumes fails\nend-volume\n"                                                         \
	"volume cloud\ntype features/cloud\n%soption tenants \"" BOTH "\"\nsubvolumes hold\nend-volume\n"
#define BOTH TENANTS("active") ", globex aaaaaaaa-0000-4000-8000-000000000002 131072 65536 active"

#define WEB   "cccccccc-0000-4000-8000-000000000001"
#define PATH  "cccccccc-0000-4000-8000-000000000002"
#define THEFT "cccccccc-0000-4000-8000-000000000003"

struct client site_web = { .identity = "stratus:tenant/acme/access/" WEB, .name = "web", .id = { 10 } };
static struct client path = { .identity = "stratus:tenant/acme/access/" PATH, .name = "path", .id = { 11 } },
		     theft = { .identity = "stratus:tenant/globex/access/" THEFT, .name = "theft", .id = { 12 } },
		     globex = { .identity = "stratus:tenant/globex", .name = "globex", .id = { 13 } };

static const struct place nothing = { .flags = PLACE_POINTER | PLACE_HERE };

static void with_limit(int inodes, const char *options, void (*fn)(void *))
{
	struct problem p = { "" };
	struct tree t;
	char text[2048], ledger[80];

	if (geteuid())
		skip();
	failures = 0;
	test_directory(dir, sizeof(dir), "cloud-access-test");
	umask(0);
	snprintf(ledger, sizeof(ledger), "%s.ledger", dir);
	snprintf(text, sizeof(text), GRAPH, dir, dir, inodes, options);
	if (tree_open(&t, text, &p))
		fail_msg("%s", p.text);
	cloud = tree_find(&t, "cloud");
	leaf = tree_find(&t, "posix");
	task_call(fn, &t);
	tree_close(&t);
	test_remove(dir);
	unlink(ledger);
	assert_int_equal(failures, 0);
}

void on_bricks(const char *options, void (*fn)(void *))
{
	with_limit(0, options, fn);
}

/* ---- as a client with cluster/dht, and as one that says what it likes ---- */

static int say(struct tree *t, const struct place *place, const struct born_xattr *born, enum fop fop, const void *in,
	       void *out)
{
	struct request rq;
	int err = 0;

	request_init(&rq, t->graph, 0);
	rq.client = t->client;
	rq.uid = t->uid;
	rq.gid = t->gid;
	rq.group_count = 0;
	if (place)
		err = place_attach(&rq, place);
	if (!err && born)
		err = born_attach(&rq, born, 1);
	if (!err)
		err = fop_call(&rq, t->at, fop, in, out);
	request_finish(&rq);
	return err;
}

static int set(struct tree *t, const struct place *place, const char *at, const char *name, const void *bytes, uint32_t size)
{
	cleanup_inode struct inode *inode = NULL;
	struct setxattr_in in = { .name = name, .value = { size, (void *)bytes } };
	struct setxattr_out out = { 0 };
	int err = tree_walk(t, at, &inode);

	in.inode = inode;
	return err ? err : say(t, place, NULL, FOP_setxattr, &in, &out);
}

static int unset(struct tree *t, const struct place *place, const char *at, const char *name)
{
	cleanup_inode struct inode *inode = NULL;
	struct removexattr_in in = { .name = name };
	struct removexattr_out out = { 0 };
	int err = tree_walk(t, at, &inode);

	in.inode = inode;
	return err ? err : say(t, place, NULL, FOP_removexattr, &in, &out);
}

static int get(struct tree *t, const char *at, const char *name)
{
	struct blob value = { 0 };
	int err = tree_getxattr(t, at, name, &value);

	free(value.bytes);
	return err;
}

/* ---- a directory with a limit, and an access point of it ---- */

static uint64_t limit_of(struct tree *t, const char *at)
{
	struct blob value = { 0 };
	uint64_t number = 0;
	const char *key;
	char *line, *next;

	failures += tree_getxattr(t, at, QUOTA_XATTR, &value) != 0;
	next = value.bytes;
	while (next && (line = location_next(&next, (char *)value.bytes + value.size, &key)))
		if (!strcmp(key, "id"))
			number = strtoull(line, NULL, 16);
	free(value.bytes);
	failures += !number;
	return number;
}

static char points[512];
void furnish_site(struct tree *t)
{
	CHECK_INT(become(t, &admin, 0), 0);
	CHECK_INT(tree_mkdir(t, "private", 0777), 0);
	CHECK_INT(tree_put(t, "private/secret", "s"), 0);
	CHECK_INT(tree_mkdir(t, "site", 0777), 0);
	CHECK_INT(tree_setxattr(t, "site", QUOTA_XATTR, "0 0", 3, 0), 0);
	CHECK_INT(tree_put(t, "site/page", "page"), 0);
	snprintf(points, sizeof(points),
		 "acme " WEB " - - rw 0 @0.%016llx, acme " PATH " - - rw 0 /site, globex " THEFT " - - rw 0 @0.%016llx",
		 (unsigned long long)limit_of(t, "site"), (unsigned long long)limit_of(t, "site"));
	CHECK_INT(change("access", points), 0);
}

static void is_found(void *arg)
{
	struct tree *t = arg;
	struct attr a;

	furnish_site(t);
	CHECK_INT(become(t, &path, 0), -EACCES); /* over several bricks it leads nowhere */
	CHECK_INT(become(t, &globex, 0), 0);
	CHECK_INT(become(t, &theft, 0), -ENOENT);
	CHECK_INT(become(t, &site_web, 0), 0);
	CHECK_INT(tree_getattr(t, "page", &a), 0);
	CHECK_INT(tree_getattr(t, "private", &a), -ENOENT);
	CHECK_INT(tree_getattr(t, "..", &a), -EINVAL);
	CHECK_INT(tree_put(t, "made", "m"), 0);
	CHECK_INT(tree_mkdir(t, "below", 0777), 0);
	CHECK_INT(tree_rename(t, "made", "below/made", 0), 0);
	CHECK_INT(become(t, &admin, 0), 0);
	CHECK_INT(tree_getattr(t, "site/below/made", &a), 0);
	CHECK_INT(tree_rename(t, "site", "private/elsewhere", 0), 0);
	CHECK_INT(tree_mkdir(t, "site", 0777), 0); /* it is not that, whatever it is called */
	CHECK_INT(become(t, &site_web, 0), 0);
	CHECK_INT(tree_getattr(t, "below/made", &a), 0);
	CHECK_INT(become(t, &admin, 0), 0);
	CHECK_INT(tree_unlink(t, "private/elsewhere/below/made"), 0);
	CHECK_INT(tree_rmdir(t, "private/elsewhere/below"), 0);
	CHECK_INT(tree_unlink(t, "private/elsewhere/page"), 0);
	CHECK_INT(tree_rmdir(t, "private/elsewhere"), 0);
	CHECK_INT(become(t, &site_web, 0), -ENOENT);
}

void over_several_bricks_the_limit_tells_which_directory_it_is(void **state)
{
	(void)state;
	on_bricks("option spread on\n", is_found);
}

/* ---- what is said and asked ---- */

static void says_nothing_of_bricks(void *arg)
{
	static const char *const ours[] = { DHT_POINTER_XATTR,
					    DHT_LAYOUT_XATTR,
					    DHT_PARENT_XATTR,
					    DHT_LEAVES_XATTR,
					    DHT_KEPT_XATTR,
					    DHT_INTENT_XATTR,
					    DHT_MARKS_XATTR,
					    DHT_CHANGES_XATTR,
					    DHT_CANDIDATES_XATTR,
					    DHT_PATH_XATTR WEB,
					    "trusted.dht.m.0123456789abcdef",
					    QUOTA_DIRECTORY_XATTR "0123456789abcdef",
					    "trusted.usage.quota" };
	struct tree *t = arg;
	uint8_t bytes[POINTER_SIZE];
	const struct born_xattr born = { DHT_POINTER_XATTR, bytes, sizeof(bytes) };
	cleanup_inode struct inode *top = NULL;
	struct lookup_in look = { .loc = { .name = "page" } };
	struct lookup_out found = { 0 };
	struct mkdir_in make = { .loc = { .name = "born" }, .mode = 0755 };
	struct mkdir_out made = { 0 };
	struct getattr_in of = { 0 };
	struct step step = { .fop = FOP_getattr, .in = &of };
	struct compound_in compound = { .steps = { 1, &step } };
	struct compound_out done = { 0 };

	furnish_site(t);
	CHECK_INT(become(t, &site_web, 0), 0);
	CHECK_INT(tree_walk(t, "", &top), 0);
	look.loc.parent = make.loc.parent = of.inode = top;
	pointer_encode(&(struct pointer){ .subvolume = 1, .gfid = { { 7 } } }, bytes);
	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
		for (int k = 0; k < 2; k++) {
			const char *at = k ? "page" : "";

			CHECK_INT(get(t, at, ours[i]), -ENODATA);
			CHECK_INT(set(t, NULL, at, ours[i], bytes, sizeof(bytes)), -EPERM);
			CHECK_INT(tree_removexattr(t, at, ours[i]), -EPERM);
		}
	CHECK_INT(get(t, "", LOCATION_XATTR), -EOPNOTSUPP);
	CHECK_INT(get(t, "page", LOCATION_XATTR), -EOPNOTSUPP);
	CHECK_INT(say(t, &nothing, NULL, FOP_lookup, &look, &found), -EOPNOTSUPP);
	CHECK_INT(say(t, &(struct place){ 0 }, NULL, FOP_lookup, &look, &found), -EOPNOTSUPP);
	gfid_create(&make.gfid);
	CHECK_INT(say(t, NULL, &born, FOP_mkdir, &make, &made), -EPERM);
	CHECK_INT(say(t, NULL, NULL, FOP_compound, &compound, &done), -EOPNOTSUPP);
	CHECK_INT(tree_removexattr(t, "", QUOTA_XATTR), -EPERM);
	CHECK_INT(tree_setxattr(t, "", QUOTA_XATTR, "1 1", 3, 0), -EPERM);
	CHECK_INT(get(t, "", QUOTA_XATTR), 0); /* it is his directory's */
	CHECK_INT(get(t, "", QUOTA_XATTR ".0"), -EPERM);
}

void by_one_nothing_is_said_or_asked_of_bricks(void **state)
{
	(void)state;
	on_bricks("option spread on\n", says_nothing_of_bricks);
}

/* ---- the limit is taken away ---- */

static void ends_with_it(void *arg)
{
	struct tree *t = arg;
	struct attr a;

	furnish_site(t);
	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_removexattr(t, "site", QUOTA_XATTR), -EPERM);
	CHECK_INT(become(t, &site_web, 0), 0);
	CHECK_INT(become(t, &admin, 7), 0); /* not root: it stays, and so does who is there */
	CHECK_INT(tree_removexattr(t, "site", QUOTA_XATTR), -EPERM);
	t->client = &site_web;
	t->root = &site_web.root;
	t->uid = t->gid = 0;
	CHECK_INT(tree_getattr(t, "page", &a), 0);
	CHECK_INT(become(t, &admin, 0), 0);
	CHECK_INT(tree_removexattr(t, "site", QUOTA_XATTR), 0);
	t->client = &site_web;
	t->root = &site_web.root;
	CHECK_INT(tree_getattr(t, "page", &a), -EACCES);
	CHECK_INT(cloud->type->admit(cloud, &site_web, NULL, NULL), -EACCES);
	CHECK_INT(change("access", points), 0);
	CHECK_INT(tree_getattr(t, "page", &a), -EACCES); /* who tells the brick of it again does not know */
	CHECK_INT(change("access", ""), 0);
	CHECK_INT(change("access", points), 0);
	CHECK_INT(become(t, &site_web, 0), -ENOENT); /* nor does it come back as another one */
	CHECK_INT(become(t, &admin, 0), 0);
	CHECK_INT(tree_getattr(t, "site/page", &a), 0);
}

void it_ends_when_the_limit_is_taken_away(void **state)
{
	(void)state;
	on_bricks("option spread on\n", ends_with_it);
}

struct remover {
	struct tree tree;
	struct gfid root;
	atomic_int err;
};

static void removes(void *arg)
{
	struct remover *r = arg;

	atomic_store(&r->err, tree_removexattr(&r->tree, "site", QUOTA_XATTR));
}

/* hold WORD [ARGUMENT]: what it says. */
static bool hold_says(struct tree *t, char *word, char *argument, const char *wanted)
{
	struct xlator *hold = tree_find(t, "hold");
	char *words[] = { word, argument }, *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	bool yes;

	hold->type->command(hold, argument ? 2 : 1, words, f);
	fclose(f);
	yes = strstr(text, wanted);
	free(text);
	return yes;
}

/* Who is not root may ask for it, and will be refused: meanwhile nobody is cut off. */
static void goes_on_while_others_ask(void *arg)
{
	enum { RUNS = 1 };
	struct tree *t = arg;
	struct remover r = { .err = RUNS };
	struct attr a;

	furnish_site(t);
	CHECK_INT(become(t, &site_web, 0), 0);
	CHECK_INT(become(t, &admin, 7), 0);
	CHECK_INT(tree_getattr(t, "site", &a), 0);
	r.tree = *t;
	r.root = admin.root;
	r.tree.root = &r.root;
	hold_says(t, "hold", "removexattr", "");
	CHECK_INT(task_spawn(NULL, removes, &r), 0);
	while (!hold_says(t, "list", NULL, "removexattr") && atomic_load(&r.err) == RUNS)
		task_sleep_ms(1);
	t->client = &site_web;
	t->root = &site_web.root;
	t->uid = t->gid = 0;
	CHECK_INT(tree_getattr(t, "page", &a), 0);
	CHECK_INT(cloud->type->admit(cloud, &site_web, NULL, NULL), 0);
	hold_says(t, "hold", "none", "");
	hold_says(t, "release", "all", "");
	while (atomic_load(&r.err) == RUNS)
		task_sleep_ms(1);
	CHECK_INT(atomic_load(&r.err), -EPERM);
}

void nobody_is_cut_off_by_who_may_not_take_the_limit_away(void **state)
{
	(void)state;
	on_bricks("option spread on\n", goes_on_while_others_ask);
}

/* ---- what is elsewhere all the same ---- */

static void make_pointer(struct tree *t, const char *at)
{
	uint8_t bytes[POINTER_SIZE];

	pointer_encode(&(struct pointer){ .subvolume = 1, .gfid = { { 0xab, 0xcd } } }, bytes);
	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(set(t, &nothing, at, DHT_POINTER_XATTR, bytes, sizeof(bytes)), 0);
}

static bool tells_nothing(const struct attr *a, const struct gfid *gfid)
{
	return !a->flags && gfid->bytes[0] != 0xab && a->gfid.bytes[0] != 0xab;
}

static void lists_names_only(struct tree *t, struct inode *top)
{
	struct file *f;
	struct readdir_in in = { .size = 65536, .flags = READDIR_PLUS };
	struct readdir_out out = { 0 };
	unsigned told = 0;

	CHECK_INT(tree_opendir(t, "", &f), 0);
	in.file = f;
	CHECK_INT(say(t, NULL, NULL, FOP_readdir, &in, &out), 0);
	for (uint32_t i = 0; i < out.entries.count; i++) {
		const struct dirent_plus *e = &out.entries.entry[i];
		bool is_pointer = !strcmp(e->name, "empty") || !strcmp(e->name, "dir");

		told += is_pointer;
		CHECK(is_pointer ? !e->inode && tells_nothing(&e->attr, &e->gfid)
				 : e->inode != NULL || !strcmp(e->name, ".") || !strcmp(e->name, ".."));
	}
	CHECK_INT(told, 2);
	fop_out_clear(FOP_readdir, &out);
	tree_release(t, f);
	for (int i = 0; i < 2; i++) {
		struct lookup_in look = { .loc = { .parent = top, .name = i ? "dir" : "empty" } };
		struct lookup_out found = { 0 };

		CHECK_INT(say(t, NULL, NULL, FOP_lookup, &look, &found), -EREMOTE);
		CHECK(!found.inode && tells_nothing(&found.attr, &found.attr.gfid));
	}
}

static void leads_nowhere(void *arg)
{
	static const struct setattr mode = { .valid = SET_MODE, .mode = 0700 };
	struct tree *t = arg;
	cleanup_inode struct inode *empty = NULL, *top = NULL;
	struct link_in link = { .loc = { .name = "linked" } };
	struct link_out linked = { 0 };
	struct getattr_in of = { 0 };
	struct getattr_out told = { 0 };
	struct open_in open = { .flags = O_RDWR };
	struct open_out opened = { 0 };
	struct attr a;

	furnish_site(t);
	CHECK_INT(become(t, &site_web, 0), 0);
	CHECK_INT(tree_mkdir(t, "dir", 0777), 0);
	CHECK_INT(tree_put(t, "other", "o"), 0);
	CHECK_INT(tree_create(t, "empty", O_RDWR | O_CREAT, 0644, NULL), 0); /* as pointers are */
	CHECK_INT(tree_walk(t, "empty", &empty), 0);
	CHECK_INT(tree_walk(t, "", &top), 0);
	CHECK_INT(become(t, &server, 0), 0); /* it is not the tenant's administrator: nobody is cut off */
	CHECK_INT(tree_removexattr(t, "tenants/acme/site", QUOTA_XATTR), 0);
	make_pointer(t, "site/empty");
	make_pointer(t, "site/dir");
	t->client = &site_web;
	t->root = &site_web.root;
	lists_names_only(t, top);
	CHECK_INT(tree_getattr(t, "empty", &a), -EREMOTE);
	CHECK_INT(tree_getattr(t, "dir", &a), -EREMOTE);
	CHECK_INT(tree_getattr(t, "dir/x", &a), -EREMOTE);
	CHECK_INT(tree_unlink(t, "empty"), -EREMOTE);
	CHECK_INT(tree_rmdir(t, "dir"), -EREMOTE);
	CHECK_INT(tree_rename(t, "empty", "again", 0), -EREMOTE);
	CHECK_INT(tree_rename(t, "other", "empty", 0), -EREMOTE);
	CHECK_INT(tree_rename(t, "other", "empty", 2), -EREMOTE);
	CHECK_INT(tree_create(t, "empty", O_RDWR | O_CREAT | O_TRUNC, 0644, NULL), -EREMOTE);
	of.inode = open.inode = link.inode = empty; /* by what he had before */
	link.loc.parent = top;
	CHECK_INT(say(t, NULL, NULL, FOP_getattr, &of, &told), -EREMOTE);
	CHECK_INT(say(t, NULL, NULL, FOP_open, &open, &opened), -EREMOTE);
	CHECK_INT(say(t, NULL, NULL, FOP_link, &link, &linked), -EREMOTE);
	CHECK_INT(say(t, NULL, NULL, FOP_setattr, &(struct setattr_in){ .inode = empty, .set = mode },
		      &(struct setattr_out){ 0 }),
		  -EREMOTE);
	CHECK_INT(tree_put(t, "new", "n"), 0); /* the others are as they were */
	CHECK_INT(tree_unlink(t, "other"), 0);
}

void what_is_elsewhere_is_not_shown(void **state)
{
	(void)state;
	on_bricks("option spread on\n", leads_nowhere);
}

/* ---- a name that an intent holds ---- */

struct waiter {
	struct tree tree;
	struct gfid root;
	atomic_int err;
};

static void unlinks(void *arg)
{
	struct waiter *w = arg;

	atomic_store(&w->err, tree_unlink(&w->tree, "page"));
}

static void is_waited_for(void *arg)
{
	enum { RUNS = 1 };
	struct place place = nothing;
	struct tree *t = arg;
	struct mark mark = { .hash = mark_hash("page"), .attempt = 1 };
	struct waiter w = { .err = RUNS };
	char name[MARK_NAME];
	uint8_t bytes[MARK_SIZE];
	struct attr a;

	furnish_site(t);
	CHECK_INT(become(t, &site_web, 0), 0);
	w.tree = *t;
	w.root = site_web.root;
	w.tree.root = &w.root;
	gfid_create(&mark.intent);
	mark_encode(&mark, bytes);
	place.intent = mark.intent;
	place.attempt = 1;
	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(set(t, &place, "site", mark_name(mark.hash, name), bytes, sizeof(bytes)), 0);
	CHECK_INT(task_spawn(NULL, unlinks, &w), 0);
	task_sleep_ms(20);
	CHECK_INT(atomic_load(&w.err), RUNS);
	CHECK_INT(unset(t, &place, "site", name), 0);
	while (atomic_load(&w.err) == RUNS)
		task_sleep_ms(1);
	CHECK_INT(atomic_load(&w.err), 0);
	CHECK_INT(tree_getattr(t, "site/page", &a), -ENOENT);
}

/* Who waits keeps nobody's place below (of features/throttle), and is judged anew. */
static void is_waited_for_above(void *arg)
{
	enum { RUNS = 1 };
	struct place place = nothing;
	struct tree *t = arg;
	struct mark mark = { .hash = mark_hash("page"), .attempt = 1 };
	struct waiter w = { .err = RUNS };
	char name[MARK_NAME];
	uint8_t bytes[MARK_SIZE];

	furnish_site(t);
	CHECK_INT(become(t, &site_web, 0), 0);
	w.tree = *t;
	w.root = site_web.root;
	w.tree.root = &w.root;
	gfid_create(&mark.intent);
	mark_encode(&mark, bytes);
	place.intent = mark.intent;
	place.attempt = 1;
	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(set(t, &place, "site", mark_name(mark.hash, name), bytes, sizeof(bytes)), 0);
	hold_says(t, "hold", "unlink", "");
	CHECK_INT(task_spawn(NULL, unlinks, &w), 0);
	while (!hold_says(t, "list", NULL, "unlink") && atomic_load(&w.err) == RUNS)
		task_sleep_ms(1);
	hold_says(t, "release", "1", "");
	/* It has come back, and come again. */
	while (!hold_says(t, "list", NULL, "unlink") && atomic_load(&w.err) == RUNS)
		task_sleep_ms(1);
	CHECK_INT(atomic_load(&w.err), RUNS);
	CHECK_INT(change("access", ""), 0);
	hold_says(t, "hold", "none", "");
	hold_says(t, "release", "all", "");
	while (atomic_load(&w.err) == RUNS)
		task_sleep_ms(1);
	CHECK_INT(atomic_load(&w.err), -EACCES);
}

void who_waits_for_a_name_is_judged_anew(void **state)
{
	(void)state;
	on_bricks("option spread on\n", is_waited_for_above);
}

void a_name_that_an_intent_holds_is_waited_for(void **state)
{
	(void)state;
	on_bricks("option spread on\n", is_waited_for);
}

/* ---- of what is above him ---- */

static int room_in(struct tree *t, const char *at, struct statfs *room)
{
	cleanup_inode struct inode *inode = NULL;
	struct statfs_in in = { 0 };
	struct statfs_out out = { 0 };
	int err = tree_walk(t, at, &inode);

	in.inode = inode;
	if (!err)
		err = say(t, NULL, NULL, FOP_statfs, &in, &out);
	*room = out.statfs;
	return err;
}

static void hears_of_his_own_only(void *arg)
{
	struct tree *t = arg;
	struct statfs all, his;

	CHECK_INT(become(t, &admin, 0), 0);
	CHECK_INT(tree_mkdir(t, "site", 0777), 0);
	CHECK_INT(tree_setxattr(t, "site", QUOTA_XATTR, "4194304 100", 11, 0), 0);
	CHECK_INT(tree_mkdir(t, "site/below", 0777), 0);
	CHECK_INT(tree_put(t, "site/below/page", "p"), 0);
	CHECK_INT(room_in(t, "site", &all), 0);
	CHECK_INT(all.blocks * all.frsize, 4194304);
	CHECK_INT(all.files, 100);
	CHECK(all.bfree < all.blocks && all.ffree < all.files);
	CHECK_INT(change("access", "acme " PATH " - - rw 0 /site/below"), 0);
	CHECK_INT(become(t, &path, 0), 0);
	CHECK_INT(get(t, "", QUOTA_XATTR), -ENODATA);
	CHECK_INT(get(t, "page", QUOTA_XATTR), -ENODATA);
	CHECK_INT(room_in(t, "page", &his), 0); /* what he may have yet, and nothing of what there is */
	CHECK(his.bavail == all.bavail && his.ffree == all.ffree);
	CHECK(his.blocks == his.bavail && his.bfree == his.bavail && his.files == his.ffree);
	CHECK_INT(change("access", "acme " PATH " - - rw 0 /site"), 0);
	CHECK_INT(become(t, &path, 0), 0);
	CHECK_INT(room_in(t, "below/page", &his), 0);
	CHECK(his.blocks == all.blocks && his.files == all.files && his.bavail == all.bavail);
	CHECK_INT(get(t, "below/page", QUOTA_XATTR), 0);
}

void what_a_limit_above_its_directory_holds_is_not_told(void **state)
{
	(void)state;
	on_bricks("", hears_of_his_own_only);
}

/* ---- of the tenant's own limit ---- */

enum { INODES = 64 }; /* of which some are kept free for what is put aside */

static void puts_nothing_aside(void *arg)
{
	struct tree *t = arg;
	char name[16];
	int err = 0;

	furnish_site(t);
	CHECK_INT(become(t, &site_web, 0), 0);
	for (int i = 0; i < INODES && !err; i++) {
		snprintf(name, sizeof(name), "file%d", i);
		err = tree_create(t, name, O_RDWR | O_CREAT, 0644, NULL);
	}
	CHECK_INT(err, -EDQUOT);
	CHECK_INT(tree_create(t, "ff", O_RDWR | O_CREAT, 0644, NULL), -EDQUOT); /* as one of these is called */
	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_create(t, "site/ff", O_RDWR | O_CREAT, 0644, NULL), 0);
}

void what_is_kept_free_for_clients_that_spread_is_not_for_it(void **state)
{
	(void)state;
	with_limit(INODES, "option spread on\n", puts_nothing_aside);
}

static void not_in_sets(void *arg)
{
	struct tree *t = arg;

	CHECK_INT(change("access", "acme " WEB " - - rw 0 @0.0123456789abcdef, acme " PATH " - - rw 0 /site"), 0);
	CHECK_INT(become(t, &site_web, 0), -EACCES);
	CHECK_INT(become(t, &path, 0), -EACCES);
}

void there_are_none_on_several_sets(void **state)
{
	(void)state;
	on_bricks("option spread on\noption replicas on\n", not_in_sets);
}
