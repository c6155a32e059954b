/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes: which ones a tenant has, and the ids in POSIX ACLs. */
#include <endian.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <linux/xattr.h>

#include "born.h"
#include "cloud.h"
#include "location.h"
#include "place.h"
#include "quota.h"

static bool begins(const char *name, const char *prefix)
{
	return !strncmp(name, prefix, strlen(prefix));
}

bool is_acl(const char *name)
{
	return !strcmp(name, XATTR_NAME_POSIX_ACL_ACCESS) || !strcmp(name, XATTR_NAME_POSIX_ACL_DEFAULT);
}

/* `name` is after "security.". Words of the option are apart by blanks or commas. */
static bool listed(const char *list, const char *name)
{
	static const char apart[] = " ,\t";
	size_t length = strlen(name);

	for (list += strspn(list, apart); *list; list += strspn(list, apart)) {
		size_t word = strcspn(list, apart);

		if (word == length && !memcmp(list, name, length))
			return true;
		list += word;
	}
	return false;
}

static bool has(const struct cloud *c, bool spreads, const char *name)
{
	if (begins(name, XATTR_SECURITY_PREFIX))
		return listed(c->security, name + strlen(XATTR_SECURITY_PREFIX));
	return begins(name, XATTR_USER_PREFIX) || is_acl(name) || (spreads && begins(name, DHT_XATTR));
}

int xattr_may_get(const struct cloud *c, bool spreads, const char *name)
{
	if (has(c, spreads, name) || is_quota(name) || ((spreads || c->replicas) && is_location(name)))
		return 0;
	return begins(name, XATTR_TRUSTED_PREFIX) || begins(name, XATTR_SECURITY_PREFIX) ? -ENODATA : -EOPNOTSUPP;
}

int xattr_may_set(const struct cloud *c, bool spreads, const char *name)
{
	return has(c, spreads, name) || is_quota(name) ? 0 : begins(name, XATTR_TRUSTED_PREFIX) ? -EPERM : -EOPNOTSUPP;
}

void names_out(const struct cloud *c, bool spreads, struct blob *names)
{
	char *list = names->bytes;
	uint32_t kept = 0, length;

	for (uint32_t at = 0; at < names->size; at += length) {
		length = (uint32_t)strnlen(list + at, names->size - at) + 1;
		if (at + length > names->size || !has(c, spreads, list + at))
			continue;
		memmove(list + kept, list + at, length);
		kept += length;
	}
	names->size = kept;
}

/* Only what a tenant may set himself. An ACL can't be born with an object: it inherits that of its directory, which is in the brick's ids already. */
int born_may(const struct cloud *c, bool spreads, const struct request *rq)
{
	struct born born;
	int err = born_of(rq, &born);

	for (unsigned i = 0; !err && i < born.count; i++)
		err = is_acl(born.xattr[i].name) || is_quota(born.xattr[i].name)
			      ? -EOPNOTSUPP
			      : xattr_may_set(c, spreads, born.xattr[i].name);
	return err;
}

/* ---- ACLs: little-endian, as Linux has them in extended attributes ---- */

static struct posix_acl_xattr_entry *entries(void *acl, uint32_t size, size_t *count)
{
	const struct posix_acl_xattr_header *h = acl;

	if (size < sizeof(*h) || (size - sizeof(*h)) % sizeof(struct posix_acl_xattr_entry) ||
	    h->a_version != htole32(POSIX_ACL_XATTR_VERSION))
		return NULL;
	*count = (size - sizeof(*h)) / sizeof(struct posix_acl_xattr_entry);
	return (void *)((char *)acl + sizeof(*h));
}

static bool names_somebody(const struct posix_acl_xattr_entry *e)
{
	return e->e_tag == htole16(ACL_USER) || e->e_tag == htole16(ACL_GROUP);
}

int acl_in(struct cloud *c, const struct tenant *t, void *acl, uint32_t size)
{
	size_t count;
	struct posix_acl_xattr_entry *e = entries(acl, size, &count);
	int err = e ? 0 : -EINVAL;

	for (size_t i = 0; !err && i < count; i++) {
		uint32_t id = le32toh(e[i].e_id);

		if (!names_somebody(&e[i]))
			continue;
		err = id_in(c, t, &id);
		e[i].e_id = htole32(id);
	}
	return err;
}

int acl_out(struct cloud *c, const struct tenant *t, void *acl, uint32_t size)
{
	size_t count;
	struct posix_acl_xattr_entry *e = entries(acl, size, &count);

	for (size_t i = 0; e && i < count; i++) {
		uint32_t id = le32toh(e[i].e_id);

		if (!names_somebody(&e[i]))
			continue;
		id_out(c, t, &id);
		e[i].e_id = htole32(id);
	}
	return e ? 0 : -EIO;
}
