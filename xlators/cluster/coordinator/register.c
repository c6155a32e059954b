/* SPDX-License-Identifier: Apache-2.0 */
/* Where the view is kept, and what is owed: in the cluster's register if this process has one, else in a file of its own. */
#include <fcntl.h>
#include <libgen.h>
#include <unistd.h>

#include "coordinator.h"
#include "register.h"

enum { VALUE_MAX = 4096 };
enum { OWED_SCRUB = 1, OWED_RECOVERY = 2, OWED_HELD = 4, OWED_LISTED = 8 /* a version before this does not say so */ };

static int decode(const struct coordinator *c, const struct blob *value, struct view *v, struct owed *owed)
{
	struct unpack u = unpack_blob(value);
	uint32_t magic = unpack_u32(&u);
	uint8_t flags;

	unpack_view(&u, v);
	flags = unpack_more(&u) ? unpack_u8(&u) : 0; /* the first ones had no such byte, and no boots */
	*owed = (struct owed){ flags & OWED_SCRUB, flags & OWED_RECOVERY, flags & OWED_HELD,
			       .unlisted = flags & OWED_SCRUB && !(flags & OWED_LISTED) };
	for (unsigned i = 0; i < v->members; i++)
		v->boot[i] = unpack_more(&u) ? unpack_u64(&u) : 0;
	v->away = unpack_more(&u) ? unpack_u32(&u) : 0;
	return magic != REGISTER_VIEW || u.failed || v->members != c->members ? -EINVAL : 0;
}

static int encode(const struct view *v, struct owed owed, struct blob *value)
{
	struct pack p = { 0 };

	pack_u32(&p, REGISTER_VIEW);
	pack_view(&p, v);
	pack_u8(&p, (owed.scrub ? OWED_SCRUB : 0) | (owed.recovery ? OWED_RECOVERY : 0) |
			    (owed.recovery && owed.held ? OWED_HELD : 0) | (owed.scrub && !owed.unlisted ? OWED_LISTED : 0));
	for (unsigned i = 0; i < v->members; i++)
		pack_u64(&p, v->boot[i]);
	pack_u32(&p, v->away);
	return pack_end(&p, value);
}

/* ---- the cluster's ---- */

/* "view/VOLUME"; of a set that is called VOLUME:NUMBER, "view.NUMBER/VOLUME", for keys have no colons. */
static void key_of(const struct coordinator *c, char key[128])
{
	int length = (int)strcspn(c->volume, ":");
	const char *number = c->volume[length] ? c->volume + length + 1 : "";

	snprintf(key, 128, "view%s%s/%.*s", *number ? "." : "", number, length, c->volume);
}

static int cluster_read(struct coordinator *c, const struct cluster_register *r, struct view *v, struct owed *owed,
			uint64_t *version)
{
	struct blob value = { 0 };
	char key[128];
	int err;

	key_of(c, key);
	task_blocks();
	err = r->get(key, &value, version);
	if (!err)
		err = decode(c, &value, v, owed);
	free(value.bytes);
	return err;
}

static int cluster_write(struct coordinator *c, const struct cluster_register *r, const struct view *v, struct owed owed,
			 uint64_t version)
{
	struct blob value = { 0 };
	char key[128];
	int err = encode(v, owed, &value);

	if (err)
		return err;
	key_of(c, key);
	task_blocks();
	err = r->replace(key, version, &value);
	free(value.bytes);
	return err;
}

/* ---- a file: for one coordinator ---- */

static int file_read(struct coordinator *c, struct view *v, struct owed *owed)
{
	uint8_t bytes[VALUE_MAX];
	struct blob value = { 0, bytes };
	int fd = open(c->state_file, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return -errno_now();
	got = read(fd, bytes, sizeof(bytes));
	close(fd);
	value.size = got < 0 ? 0 : (uint32_t)got;
	return got < 0 ? -EIO : decode(c, &value, v, owed);
}

static int sync_directory(const char *path)
{
	char *copy = strdup(path);
	int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int err = fd < 0 || fsync(fd) ? -EIO : 0;

	if (fd >= 0)
		close(fd);
	free(copy);
	return err;
}

/* Of all processes that were given this file one at a time changes it; until the descriptor is closed. */
static int file_lock(const struct coordinator *c)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s.lock", c->state_file);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0 && !fcntl(fd, F_SETLKW, &whole))
		return fd;
	if (fd >= 0)
		close(fd);
	return -EIO;
}

/* A second stratusd with the same volfile must not store the epoch that this one stores, too. */
static int file_is_ours(struct coordinator *c)
{
	struct view v = { 0 };
	struct owed owed;
	int err = file_read(c, &v, &owed);

	return err == -ENOENT ? 0 : err ? err : v.epoch == c->stored ? 0 : -ESTALE;
}

static int file_replace(struct coordinator *c, const struct blob *value)
{
	char path[4096];
	int fd, err = 0;

	snprintf(path, sizeof(path), "%s.new", c->state_file);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, value->bytes, value->size) != (ssize_t)value->size || fsync(fd))
		err = -EIO;
	if (fd >= 0)
		close(fd);
	if (!err && rename(path, c->state_file))
		err = -EIO;
	return err ? err : sync_directory(c->state_file);
}

static int file_write(struct coordinator *c, const struct view *v, struct owed owed)
{
	struct blob value = { 0 };
	int err = encode(v, owed, &value), lock;

	if (err)
		return err;
	task_blocks();
	lock = file_lock(c);
	err = lock < 0 ? lock : file_is_ours(c);
	if (!err)
		err = file_replace(c, &value);
	if (lock >= 0)
		close(lock);
	free(value.bytes);
	return err;
}

int register_read(struct coordinator *c, struct view *v, struct owed *owed, uint64_t *version)
{
	const struct cluster_register *r = cluster_register_get();

	*version = 0;
	return r ? cluster_read(c, r, v, owed, version) : file_read(c, v, owed);
}

int register_write(struct coordinator *c, const struct view *v, struct owed owed, uint64_t version)
{
	const struct cluster_register *r = cluster_register_get();

	return r ? cluster_write(c, r, v, owed, version) : file_write(c, v, owed);
}

const char *register_place(const struct coordinator *c)
{
	return cluster_register_get() ? "the cluster store" : c->state_file;
}

bool register_leads(void)
{
	const struct cluster_register *r = cluster_register_get();

	return !r || !r->leads || r->leads();
}

uint64_t register_handover_ns(void)
{
	const struct cluster_register *r = cluster_register_get();

	return r ? r->handover_ns : 0;
}
