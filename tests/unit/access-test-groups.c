/* SPDX-License-Identifier: Apache-2.0 */
/* ACLs of many groups, asked about by users of many: features/access, which sorts both, must answer as a walk through both does. */
#include "access-test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENTRIES_MAX = 8000, GROUPS_MAX = 65536 }; /* of an xattr of 64 KiB; of a request */
enum { USER = 1001, OWNER = 1002 };

struct entry {
	uint16_t tag, perm;
	uint32_t id;
};
struct puzzle {
	gid_t owner_group, gid;
	uint32_t base, range; /* of all numbers of groups */
	int groups, entries;
	gid_t group[GROUPS_MAX];
	struct {
		uint32_t version;
		struct entry entry[ENTRIES_MAX + 6];
	} acl;
};

/* ---- the walk ---- */

static bool member(const struct puzzle *p, gid_t gid)
{
	if (gid == p->gid)
		return true;
	for (int i = 0; i < p->groups; i++)
		if (p->group[i] == gid)
			return true;
	return false;
}

static bool is_group(const struct entry *e)
{
	return e->tag == ACL_GROUP_OBJ || e->tag == ACL_GROUP;
}

static gid_t group_of(const struct puzzle *p, const struct entry *e)
{
	return e->tag == ACL_GROUP_OBJ ? p->owner_group : e->id;
}

static const struct entry *find(const struct puzzle *p, uint16_t tag, uint32_t id)
{
	for (int i = 0; i < p->entries; i++)
		if (p->acl.entry[i].tag == tag && p->acl.entry[i].id == id)
			return &p->acl.entry[i];
	return NULL;
}

static bool grants(const struct puzzle *p, const struct entry *e, int want)
{
	const struct entry *mask = find(p, ACL_MASK, -1);

	return (e->perm & mask->perm & want) == want;
}

static bool others_may(const struct puzzle *p, int want)
{
	return (find(p, ACL_OTHER, -1)->perm & want) == want;
}

static int walk(const struct puzzle *p, int want)
{
	const struct entry *user = find(p, ACL_USER, USER);
	bool found = false;

	if (user)
		return grants(p, user, want) ? 0 : -EACCES;
	for (int i = 0; i < p->entries; i++) {
		const struct entry *e = &p->acl.entry[i];

		if (!is_group(e) || !member(p, group_of(p, e)))
			continue;
		if (grants(p, e, want))
			return 0;
		found = true;
	}
	return !found && others_may(p, want) ? 0 : -EACCES;
}

static bool some_grants(const struct puzzle *p, gid_t gid, int want)
{
	for (int i = 0; i < p->entries; i++) {
		const struct entry *e = &p->acl.entry[i];

		if (is_group(e) && group_of(p, e) == gid && grants(p, e, want))
			return true;
	}
	return false;
}

/* Of a caller of whom the gid alone is known: his groups are needed if with some he may, and with others not. */
static int walk_unknown(const struct puzzle *p, int want)
{
	bool found = false, may = others_may(p, want), may_not = !may;

	if (find(p, ACL_USER, USER))
		return walk(p, want);
	for (int i = 0; i < p->entries; i++)
		found |= is_group(&p->acl.entry[i]) && group_of(p, &p->acl.entry[i]) == p->gid;
	if (found && some_grants(p, p->gid, want))
		return 0;
	if (found)
		may = false, may_not = true;
	for (int i = 0; i < p->entries; i++) {
		const struct entry *e = &p->acl.entry[i];

		if (is_group(e))
			*(some_grants(p, group_of(p, e), want) ? &may : &may_not) = true;
	}
	return may && may_not ? -ENEEDGROUPS : may ? 0 : -EACCES;
}

/* ---- puzzles ---- */

static gid_t any_group(const struct puzzle *p)
{
	return p->base + dice(p->range);
}

static void add(struct puzzle *p, uint16_t tag, unsigned perm, uint32_t id)
{
	p->acl.entry[p->entries++] = (struct entry){ tag, perm, id };
}

/* From numbers that are mostly shared to such as hardly ever are; also those that are negative as an int. Few bits: else all are granted. */
static void puzzle_any(struct puzzle *p, int entries, int groups)
{
	unsigned few = dice(8);

	p->range = (unsigned[]){ 16, 1000, 1000000, 200000000 }[dice(4)];
	p->base = dice(2) ? 3000 : 0x80000000 - p->range / 2;
	p->owner_group = any_group(p);
	p->gid = any_group(p);
	p->groups = groups;
	for (int i = 0; i < groups; i++)
		p->group[i] = any_group(p);
	p->acl.version = 2;
	p->entries = 0;
	add(p, ACL_USER_OBJ, dice(8), -1);
	add(p, ACL_USER, dice(8), dice(8) ? USER + 5 : USER);
	add(p, ACL_GROUP_OBJ, dice(8), -1);
	for (int i = 0; i < entries; i++)
		add(p, ACL_GROUP, dice(8) & few, any_group(p));
	add(p, ACL_MASK, dice(3) ? 7 : dice(8), -1);
	add(p, ACL_OTHER, dice(8), -1);
}

static void puzzle_set(struct tree *t, const struct puzzle *p)
{
	struct setattr set = { .valid = SET_MODE | SET_UID | SET_GID, .mode = 0070, .uid = OWNER, .gid = p->owner_group };

	t->uid = 0;
	CHECK(!tree_setattr(t, "f", &set));
	CHECK(!tree_setxattr(t, "f", "system.posix_acl_access", &p->acl, 4 + p->entries * sizeof(struct entry), 0));
}

static void expect(struct tree *t, const struct puzzle *p, struct inode *inode, int want, int expected)
{
	struct access_in in = { .inode = inode, .mask = want };
	struct access_out out = { 0 };
	int err = tree_call(t, t->at, FOP_access, &in, &out);

	if (err == expected)
		return;
	fprintf(stderr, "%d entries, of %d groups (%s), numbers of %u, asked for %d: a walk says %d, access says %d\n",
		p->entries, p->groups, t->group_count < 0 ? "unknown" : "known", p->range, want, expected, err);
	failures++;
}

static void compare(struct tree *t, struct inode *inode, int entries, int groups)
{
	static struct puzzle p;
	int want = 1 + dice(7);

	puzzle_any(&p, entries, groups);
	puzzle_set(t, &p);
	t->uid = USER;
	t->gid = p.gid;
	t->groups = p.group;
	t->group_count = p.groups;
	expect(t, &p, inode, want, walk(&p, want));
	t->group_count = -1;
	if (entries < 1000) /* the walk is of entries by entries */
		expect(t, &p, inode, want, walk_unknown(&p, want));
}

/* One request that asks often: its groups are walked at first, and then sorted, which loses none. */
static void ask_request(struct tree *t, int groups)
{
	static struct puzzle p;
	struct request rq;

	puzzle_any(&p, 0, groups);
	request_init(&rq, t->graph, 0);
	rq.gid = p.gid;
	CHECK(request_in_group(&rq, p.gid) == 1);
	CHECK(request_in_group(&rq, p.gid + 1) == -ENEEDGROUPS);
	rq.groups = malloc((groups + 1) * sizeof(gid_t));
	memcpy(rq.groups, p.group, groups * sizeof(gid_t));
	rq.group_count = groups;
	for (int i = 0; i < 100; i++) {
		gid_t gid = groups && dice(2) ? p.group[dice(groups)] : any_group(&p);

		CHECK(request_in_group(&rq, gid) == member(&p, gid));
	}
	CHECK(rq.group_count == groups);
	request_finish(&rq);
}

void groups_like_a_walk(void *arg)
{
	struct tree *t = arg;
	struct inode *inode;

	t->uid = 0;
	CHECK(!tree_create(t, "f", O_RDWR, 0640, NULL));
	CHECK(!tree_walk(t, "f", &inode));
	for (int i = 0; i < 500; i++)
		ask_request(t, i % 5 ? dice(20) : dice(3000));
	for (int i = 0; i < 2000; i++)
		compare(t, inode, dice(20), dice(20));
	for (int i = 0; i < 200; i++)
		compare(t, inode, dice(300), dice(3000));
	for (int i = 0; i < 3; i++)
		compare(t, inode, ENTRIES_MAX - dice(100), GROUPS_MAX - dice(100));
	inode_unref(inode);
}
