/* SPDX-License-Identifier: Apache-2.0 */
/* features/layout below features/cloud: its clients are tenants' machines, which nobody trusts. What they say of names and versions concerns their own tree; what is here
 * is what would concern others. doc/tenants.md has the list. */
#include "born.h"
#include "shard.h"

/* What is written is what cluster/dht writes: the others of ours are no tenant's. A mark is not born with what they make, but with the copies of who moves
 * files, and set with PLACE only, so there are MARKS_MAX of an object. */
static int value_check(const char *name, const void *bytes, size_t size)
{
	struct pointer pointer;
	struct layout layout;
	struct parent parent;
	uint32_t subvolume;
	struct mark mark;

	if (!strcmp(name, DHT_POINTER_XATTR) || !strcmp(name, DHT_KEPT_XATTR))
		return pointer_decode(bytes, size, &pointer);
	if (!strcmp(name, DHT_LAYOUT_XATTR))
		return layout_decode(bytes, size, &layout);
	if (!strcmp(name, DHT_PARENT_XATTR))
		return parent_decode(bytes, size, &parent);
	if (!strcmp(name, DHT_LEAVES_XATTR))
		return leaves_decode(bytes, size, &subvolume);
	if (is_mark(name, &mark.hash))
		return mark_decode(bytes, size, &mark);
	return strcmp(name, DHT_INTENT_XATTR) ? -EPERM : 0; /* bricks don't read intents */
}

static bool is_ours(const char *name)
{
	return !strncmp(name, DHT_XATTR, sizeof(DHT_XATTR) - 1);
}

static int xattr_check(const char *name, const void *bytes, size_t size)
{
	return is_ours(name) ? value_check(name, size ? bytes : "", size) : 0;
}

static bool makes(enum fop fop)
{
	return fop == FOP_create || fop == FOP_mknod || fop == FOP_mkdir || fop == FOP_symlink || fop == FOP_compound;
}

static int born_check(const struct request *rq)
{
	struct born born;
	uint64_t hash;
	int err = born_of(rq, &born);

	for (unsigned i = 0; i < born.count && !err; i++)
		err = (is_mark(born.xattr[i].name, &hash) && !request_is_movers(rq)) ||
				      (request_is_confined(rq) && is_ours(born.xattr[i].name))
			      ? -EPERM
			      : xattr_check(born.xattr[i].name, born.xattr[i].value, born.xattr[i].size);
	return err;
}

int tenant_may_say(struct request *rq, const struct place *place, enum fop fop, const void *in)
{
	const struct setxattr_in *set = in;
	const struct removexattr_in *remove = in;

	if (fop == FOP_removexattr)
		return place || !is_ours(remove->name) ? 0 : -EPERM;
	if (fop == FOP_setxattr)
		return place || !is_ours(set->name) ? xattr_check(set->name, set->value.bytes, set->value.size) : -EPERM;
	return makes(fop) ? born_check(rq) : 0;
}

int for_the_brick(const struct request *rq)
{
	if (request_is_movers(rq))
		return request_is_root(rq) ? 0 : -EPERM;
	return request_is_tenants(rq) ? -EOPNOTSUPP : rq->uid ? -EPERM : 0;
}
