/* SPDX-License-Identifier: Apache-2.0 */
/* The identity xattr: who an object is and under which names it stands (doc/disk-format.md). */
#include <endian.h>
#include <sys/xattr.h>

#include "posix.h"

/* version (1)  flags (1)  gfid (16)  birth, ns since the epoch (8), then for each link:
 * parent gfid (16)  length of the name (1)  bytes of it that follow (1)  those bytes.  Numbers are big-endian.
 *
 * ext4 keeps 68 bytes of it in an inode of 256 bytes; more costs a block for each file. So the name of an object's only
 * link is cut where it would pass that: its length and beginning still tell it apart, and its parent is known. */
enum { VERSION = 1, MORE_LINKS = 1, AT_FLAGS = 1, AT_GFID = 2, AT_BIRTH = 18, AT_LINKS = 26 };
enum { LINK_HEAD = 18, IN_INODE = 68 };

void identity_gfid(const struct identity *id, struct gfid *gfid)
{
	memcpy(gfid->bytes, id->bytes + AT_GFID, 16);
}

struct time identity_birth(const struct identity *id)
{
	uint64_t ns;

	memcpy(&ns, id->bytes + AT_BIRTH, 8);
	ns = be64toh(ns);
	return (struct time){ (int64_t)(ns / 1000000000), (uint32_t)(ns % 1000000000) };
}

static void put_birth(struct identity *id, struct time birth)
{
	uint64_t ns = htobe64(time_ns(birth));

	memcpy(id->bytes + AT_BIRTH, &ns, 8);
}

void identity_make(struct identity *id, const struct gfid *gfid, struct time birth)
{
	struct gfid copy = *gfid;

	id->bytes[0] = VERSION;
	id->bytes[AT_FLAGS] = 0;
	memcpy(id->bytes + AT_GFID, copy.bytes, 16);
	put_birth(id, birth);
	id->size = AT_LINKS;
}

static size_t link_size(const uint8_t *link)
{
	return LINK_HEAD + link[17];
}

unsigned identity_links(const struct identity *id)
{
	unsigned count = 0;

	for (size_t at = AT_LINKS; at < id->size; at += link_size(id->bytes + at))
		count++;
	return count;
}

/* Where the link is, or 0. A cut name counts when no whole one fits. */
static size_t find_link(const struct identity *id, const struct gfid *parent, const char *name)
{
	size_t length = strlen(name), cut = 0;

	for (size_t at = AT_LINKS; at < id->size; at += link_size(id->bytes + at)) {
		const uint8_t *link = id->bytes + at;

		if (memcmp(link, parent->bytes, 16) || link[16] != length || memcmp(link + LINK_HEAD, name, link[17]))
			continue;
		if (link[17] == length)
			return at;
		cut = at;
	}
	return cut;
}

bool identity_next(const struct identity *id, size_t *at, struct identity_link *link)
{
	const uint8_t *bytes = id->bytes + (*at ? *at : AT_LINKS);

	if (bytes >= id->bytes + id->size)
		return false;
	memcpy(link->parent.bytes, bytes, 16);
	link->length = bytes[16];
	link->kept = bytes[17];
	link->name = bytes + LINK_HEAD;
	*at = (size_t)(bytes - id->bytes) + link_size(bytes);
	return true;
}

bool identity_has(const struct identity *id, const struct gfid *parent, const char *name)
{
	return find_link(id, parent, name) != 0;
}

bool identity_is_full(const struct identity *id)
{
	return id->bytes[AT_FLAGS] & MORE_LINKS;
}

static void append(struct identity *id, const struct gfid *parent, const char *name)
{
	size_t length = strlen(name), kept = length;
	bool only = id->size == AT_LINKS;
	uint8_t *link = id->bytes + id->size;

	if (only && AT_LINKS + LINK_HEAD + length > IN_INODE)
		kept = IN_INODE - AT_LINKS - LINK_HEAD;
	if (id->size + LINK_HEAD + kept > IDENTITY_MAX) {
		id->bytes[AT_FLAGS] |= MORE_LINKS;
		return;
	}
	memcpy(link, parent->bytes, 16);
	link[16] = (uint8_t)length;
	link[17] = (uint8_t)kept;
	memcpy(link + LINK_HEAD, name, kept);
	id->size += LINK_HEAD + kept;
}

void identity_add(struct identity *id, const struct gfid *parent, const char *name)
{
	if (!find_link(id, parent, name))
		append(id, parent, name);
}

void identity_forget_links(struct identity *id)
{
	struct time birth = identity_birth(id);
	struct gfid gfid;

	identity_gfid(id, &gfid);
	identity_make(id, &gfid, birth);
}

/* The only link that is left gives back what it needs beyond its share. */
static void trim(struct identity *id)
{
	uint8_t *link = id->bytes + AT_LINKS;

	if (id->size > IN_INODE && AT_LINKS + link_size(link) == id->size) {
		link[17] = IN_INODE - AT_LINKS - LINK_HEAD;
		id->size = IN_INODE;
	}
}

bool identity_remove(struct identity *id, const struct gfid *parent, const char *name)
{
	size_t at = find_link(id, parent, name), size;

	if (!at)
		return false;
	size = link_size(id->bytes + at);
	memmove(id->bytes + at, id->bytes + at + size, id->size - at - size);
	id->size -= size;
	trim(id);
	return true;
}

static bool sound(const struct identity *id)
{
	struct gfid gfid;
	size_t at = AT_LINKS;

	if (id->size < AT_LINKS || id->bytes[0] != VERSION)
		return false;
	while (at + LINK_HEAD <= id->size && id->bytes[at + 17] <= id->bytes[at + 16])
		at += link_size(id->bytes + at);
	identity_gfid(id, &gfid);
	return at == id->size && !gfid_is_null(&gfid);
}

int identity_read(const struct hold *h, struct identity *id)
{
	ssize_t n = hold_getxattr(h, IDENTITY_XATTR, id->bytes, sizeof id->bytes);

	if (n == -ERANGE)
		return -EIO;
	if (n < 0)
		return (int)n;
	id->size = (size_t)n;
	return sound(id) ? 0 : -EIO;
}

int identity_write(const struct hold *h, const struct identity *id, int flags)
{
	return hold_setxattr(h, IDENTITY_XATTR, id->bytes, id->size, flags);
}

static unsigned names_of(const struct statx *st)
{
	return S_ISDIR(st->stx_mode) ? 1 : st->stx_nlink;
}

/* A name that is listed may be new all the same, if the object has more of them than are listed. */
static bool is_noted(const struct identity *id, const struct statx *st, const struct link_name *added, enum noting noting)
{
	return identity_has(id, added->parent, added->name) &&
	       (noting == NOTE_AGAIN || identity_is_full(id) || identity_links(id) >= names_of(st));
}

/* An object whose list is empty is taken for one without a name. So the last name that is listed stays when others go on without being listed:
 * after a crash it may be the other of two that read alike; a lookup by another name puts it right. */
static bool may_go(const struct identity *id, const struct link_name *added)
{
	return added || identity_links(id) > 1;
}

/* Its only name is this one: what was listed before has gone. */
static void only(struct identity *id, const struct link_name *name)
{
	identity_forget_links(id);
	append(id, name->parent, name->name);
}

/* 1: the name to be removed stays. */
static int change(const struct hold *h, const struct link_name *removed, const struct link_name *added, enum noting noting)
{
	struct identity id;
	struct statx st;
	int err = identity_read(h, &id);
	bool changed;

	if (!err)
		err = hold_stat(h, &st);
	if (err)
		return err;
	if (removed && !may_go(&id, added))
		return identity_has(&id, removed->parent, removed->name);
	changed = removed && identity_remove(&id, removed->parent, removed->name);
	if (added && !is_noted(&id, &st, added, noting)) {
		append(&id, added->parent, added->name);
		changed = true;
	}
	if (added && identity_links(&id) > 1 && names_of(&st) == 1) {
		only(&id, added);
		changed = true;
	}
	if (identity_is_full(&id) && identity_links(&id) >= names_of(&st)) {
		id.bytes[AT_FLAGS] &= (uint8_t)~MORE_LINKS;
		changed = true;
	}
	return changed ? identity_write(h, &id, XATTR_REPLACE) : 0;
}

int identity_note(struct xlator *x, const struct hold *h, const struct link_name *removed, const struct link_name *added,
		  enum noting noting)
{
	struct statx st;
	int err = hold_stat(h, &st);

	if (!err) {
		pthread_mutex_t *lock = &brick_of(x)->identity_lock[st.stx_ino % MUTEXES];

		pthread_mutex_lock(lock);
		err = change(h, removed, added, noting);
		pthread_mutex_unlock(lock);
	}
	return err == -ENODATA ? 0 : err;
}

void identity_change(struct xlator *x, struct request *rq, const struct hold *h, const struct link_name *removed,
		     const struct link_name *added, enum noting noting)
{
	const struct link_name *name = added ? added : removed;
	int err = identity_note(x, h, removed, added, noting);

	if (err < 0)
		log_warning(x, rq, "can't note the new names of an object (\"%s\"): %s; a lookup will", name ? name->name : "",
			    strerror(-err));
}

int identity_set_birth(struct xlator *x, const struct hold *h, struct time birth)
{
	struct identity id;
	struct statx st;
	int err = hold_stat(h, &st);

	if (!err) {
		pthread_mutex_t *lock = &brick_of(x)->identity_lock[st.stx_ino % MUTEXES];

		pthread_mutex_lock(lock);
		err = identity_read(h, &id);
		put_birth(&id, birth);
		if (!err)
			err = identity_write(h, &id, XATTR_REPLACE);
		pthread_mutex_unlock(lock);
	}
	return err;
}

bool internal_xattr(const char *name)
{
	return !strncmp(name, IDENTITY_XATTR, strlen(IDENTITY_XATTR)) || !strncmp(name, "trusted.stratus", 15);
}
