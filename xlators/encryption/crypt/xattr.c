/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes of users: names and values are sealed; the others (ACLs, capabilities) are for the brick to understand. */
#include "crypt.h"

static bool is_user(const char *name)
{
	return !strncmp(name, "user.", 5);
}

int crypt_setxattr(struct request *rq, struct xlator *x, const struct setxattr_in *in, struct setxattr_out *out)
{
	const struct crypt_keys *keys = crypt_of(x)->keys;
	struct setxattr_in below = *in;
	char name[NAME_ROOM];
	void *value = NULL;
	int err;

	if (!is_user(in->name))
		return setxattr_on(rq, x->child[0], in, out);
	err = in->value.size > UINT16_MAX - XATTR_VALUE_MORE ? -E2BIG : xattr_name_seal(keys, &in->inode->gfid, in->name, name);
	if (!err)
		err = xattr_value_seal(keys, &in->inode->gfid, in->name, in->value.bytes, in->value.size, &value);
	if (err)
		return err == -ENAMETOOLONG ? -ERANGE : err;
	below.name = name;
	below.value = (struct blob){ in->value.size + XATTR_VALUE_MORE, value };
	err = setxattr_on(rq, x->child[0], &below, out);
	free(value);
	return err;
}

static int open_value(struct request *rq, struct xlator *x, const struct getxattr_in *in, struct blob *value)
{
	char gfid[GFID_TEXT];
	void *plain;
	size_t size;
	int err = xattr_value_open(crypt_of(x)->keys, &in->inode->gfid, in->name, value->bytes, value->size, &plain, &size);

	free(value->bytes);
	*value = (struct blob){ 0 };
	if (err == -EBADMSG) {
		atomic_fetch_add(&crypt_of(x)->refused, 1);
		log_error(x, rq,
			  "%s: the value of an extended attribute was changed, or is from elsewhere: it is refused (EIO)",
			  gfid_text(&in->inode->gfid, gfid));
		return -EIO;
	}
	if (!err)
		*value = (struct blob){ (uint32_t)size, plain };
	return err;
}

int crypt_getxattr(struct request *rq, struct xlator *x, const struct getxattr_in *in, struct getxattr_out *out)
{
	struct getxattr_in below = *in;
	char name[NAME_ROOM];
	int err;

	if (!is_user(in->name))
		return getxattr_on(rq, x->child[0], in, out);
	err = xattr_name_seal(crypt_of(x)->keys, &in->inode->gfid, in->name, name);
	if (err)
		return err == -ENAMETOOLONG ? -ENODATA : err;
	below.name = name;
	err = getxattr_on(rq, x->child[0], &below, out);
	return err ? err : open_value(rq, x, in, &out->value);
}

int crypt_removexattr(struct request *rq, struct xlator *x, const struct removexattr_in *in, struct removexattr_out *out)
{
	struct removexattr_in below = *in;
	char name[NAME_ROOM];
	int err;

	if (!is_user(in->name))
		return removexattr_on(rq, x->child[0], in, out);
	err = xattr_name_seal(crypt_of(x)->keys, &in->inode->gfid, in->name, name);
	if (err)
		return err == -ENAMETOOLONG ? -ENODATA : err;
	below.name = name;
	return removexattr_on(rq, x->child[0], &below, out);
}

static bool is_sealed(const char *name)
{
	return !strncmp(name, SEALED_XATTR, sizeof(SEALED_XATTR) - 1);
}

/* Writes the plain name at `to`, unless it is one to hide. Where to go on. */
static char *open_name(struct xlator *x, const struct inode *inode, const char *name, char *to)
{
	char plain[NAME_ROOM];

	if (!is_user(name))
		return stpcpy(to, name) + 1;
	if (!is_sealed(name) || xattr_name_open(crypt_of(x)->keys, &inode->gfid, name, plain))
		return to;
	return stpcpy(to, plain) + 1;
}

/* The name behind it; NULL: it was the last, and what is not ended by a NUL is none. */
static const char *next_name(const char *name, const char *end)
{
	const char *nul = name < end ? memchr(name, 0, (size_t)(end - name)) : NULL;

	return nul ? nul + 1 : NULL;
}

/* A long one of characters of four bytes is longer plain than sealed. */
static size_t room_for_plain(const struct blob *names)
{
	const char *at = names->bytes, *end = at + names->size, *next;
	size_t room = names->size;

	for (; (next = next_name(at, end)); at = next)
		room += is_sealed(at) ? NAME_ROOM : 0;
	return room;
}

static int open_names(struct xlator *x, const struct inode *inode, struct blob *names)
{
	const char *at = names->bytes, *end = at + names->size, *next;
	char *plain = malloc(room_for_plain(names)), *to = plain;

	if (!plain)
		return -ENOMEM;
	for (; (next = next_name(at, end)); at = next)
		to = open_name(x, inode, at, to);
	free(names->bytes);
	*names = (struct blob){ (uint32_t)(to - plain), plain };
	return 0;
}

int crypt_listxattr(struct request *rq, struct xlator *x, const struct listxattr_in *in, struct listxattr_out *out)
{
	int err = listxattr_on(rq, x->child[0], in, out);

	if (!err && out->names.size)
		err = open_names(x, in->inode, &out->names);
	if (err)
		fop_out_clear(FOP_listxattr, out);
	return err;
}
