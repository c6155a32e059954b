/* SPDX-License-Identifier: Apache-2.0 */
/* encryption/crypt: contents, names, link targets and users' attributes leave the client only sealed (doc/crypt.md). */
#include "crypt.h"

#include <fcntl.h>
#include <openssl/rand.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "secret.h"

static const struct option options[] = {
	{ "key-file", OPTION_STRING, OPTION_AT(struct crypt, key_file), NULL,
	  "the key file (`stratus key`): `stratus mount --key` says which, and unlocks it" },
	{ "secret-file", OPTION_STRING, OPTION_AT(struct crypt, secret_file), "",
	  "a file whose bytes open a slot of kind keyfile, where nobody has unlocked the key file before" },
	{ "cipher", OPTION_ENUM, OPTION_AT(struct crypt, cipher), "aes-256-gcm",
	  "for files that are made from now on; those that are there keep theirs", .choices = "aes-256-gcm|chacha20-poly1305" },
	{ "hold", OPTION_DURATION, OPTION_AT(struct crypt, hold_ms), "100ms",
	  "so long a file's lock is kept at the bricks at most while it is written again and again", .min = 0, .max = 10000,
	  .live = true },
	{ NULL },
};

/* ---- keys ---- */

static int read_secret(const char *path, void *bytes, size_t room, size_t *size, struct problem *p)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, bytes, room);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return problem_set(p, n ? errno : EINVAL, "%s can't be used to open the key file: %s", path,
				   n ? strerror(errno) : "it is empty");
	*size = (size_t)n;
	return 0;
}

static int unlock(const struct crypt *c, struct masters **m, struct problem *p)
{
	struct keyfile k;
	size_t size = 0;
	void *secret;
	int err = keyfile_read(c->key_file, &k, p);

	if (err)
		return err;
	if (!*c->secret_file)
		return problem_set(p, ENOKEY, "nobody has unlocked the key file %s: mount with `stratus mount --key %s`",
				   c->key_file, c->key_file);
	secret = secret_alloc(KEYFILE_SECRET_MAX);
	if (!secret)
		return problem_set(p, ENOMEM, "no locked memory for keys: raise the limit (ulimit -l)");
	err = read_secret(c->secret_file, secret, KEYFILE_SECRET_MAX, &size, p);
	if (!err)
		err = keyfile_unlock(&k, SLOT_KEYFILE, secret, size, m, p);
	secret_free(secret, KEYFILE_SECRET_MAX);
	return err;
}

static int find_keys(struct crypt *c, struct problem *p)
{
	size_t size = 0;
	struct masters *m = secret_get(c->key_file, &size);
	int err = m && size == sizeof(*m) ? 0 : unlock(c, &m, p);

	if (err)
		return err;
	c->keys = secret_alloc(sizeof(*c->keys));
	err = c->keys ? crypt_keys_derive(c->keys, m) : -ENOMEM;
	if (!err)
		err = crypt_keys_keep(c->keys);
	secret_free(m, sizeof(*m));
	return err ? problem_set(p, -err, "no keys can be derived: %s", error_text(err)) : 0;
}

/* ---- the volume ---- */

struct checking {
	struct xlator *x;
	struct problem *problem;
	int result;
};

/* But for what mkfs makes. */
static bool has_entries(const struct dirents *all)
{
	for (uint32_t i = 0; i < all->count; i++)
		if (strcmp(all->entry[i].name, "lost+found") != 0)
			return true;
	return false;
}

static int list_until_found(struct request *rq, struct xlator *x, struct file *file, bool *empty)
{
	struct readdir_in list = { .file = file, .size = 4096 };
	bool more = true;
	int err = 0;

	for (*empty = true; *empty && more && !err;) {
		struct readdir_out some = { 0 };
		uint32_t n;

		err = readdir_on(rq, x->child[0], &list, &some);
		n = err ? 0 : some.entries.count;
		*empty = !err && !has_entries(&some.entries);
		more = n && !some.entries.end;
		list.offset = n ? some.entries.entry[n - 1].next_offset : 0;
		fop_out_clear(FOP_readdir, &some);
	}
	return err;
}

static int is_empty(struct request *rq, struct xlator *x, struct inode *root, bool *empty)
{
	struct opendir_in open = { .inode = root };
	struct opendir_out opened = { 0 };
	int err = opendir_on(rq, x->child[0], &open, &opened);

	if (!err) {
		struct release_in close = { .file = opened.file };
		struct release_out closed = { 0 };

		err = list_until_found(rq, x, opened.file, empty);
		release_on(rq, x->child[0], &close, &closed);
	}
	fop_out_clear(FOP_opendir, &opened);
	return err;
}

static int mark_set(struct request *rq, struct xlator *x, struct inode *root)
{
	uint8_t mark[MARK_SIZE];
	struct setxattr_in in = {
		.inode = root, .name = (char *)MARK_XATTR, .value = { MARK_SIZE, mark }, .flags = XATTR_CREATE
	};
	struct setxattr_out out = { 0 };
	int err = mark_encode(crypt_of(x)->keys, mark);

	return err ? err : setxattr_on(rq, x->child[0], &in, &out);
}

/* The first mount with a key marks the volume, which must have nothing in it yet. */
static int mark_new(struct request *rq, struct xlator *x, struct inode *root, struct problem *p)
{
	bool empty = false;
	int err = is_empty(rq, x, root, &empty);

	if (!err && !empty)
		return problem_set(
			p, EEXIST,
			"the volume has files that are not encrypted: encryption begins with an empty volume; copy them into a new one");
	if (!err)
		err = mark_set(rq, x, root);
	if (err == -EEXIST)
		return err;
	return err ? problem_set(p, -err, "the volume can't be marked as encrypted: %s", error_text(err)) : 0;
}

static int mark_read(struct request *rq, struct xlator *x, struct inode *root, struct problem *p)
{
	struct getxattr_in in = { .inode = root, .name = (char *)MARK_XATTR };
	struct getxattr_out out = { 0 };
	int err = getxattr_on(rq, x->child[0], &in, &out);

	if (err == -ENODATA)
		return err;
	if (err)
		return problem_set(p, -err, "the volume can't be asked whether the key is the right one: %s", error_text(err));
	err = mark_decode(crypt_of(x)->keys, out.value.bytes, out.value.size);
	fop_out_clear(FOP_getxattr, &out);
	return !err ? 0
	       : err == -EKEYREJECTED
		       ? problem_set(p, EKEYREJECTED, "the volume is encrypted with another key than that of %s",
				     crypt_of(x)->key_file)
		       : problem_set(p, EIO, "what marks the volume as encrypted was changed: don't trust its servers");
}

/* Of two first mounts at once one sets the mark, and the other looks at it. */
static int mark_check(struct request *rq, struct xlator *x, struct inode *root, struct problem *p)
{
	int err = mark_read(rq, x, root, p);

	if (err == -ENODATA)
		err = mark_new(rq, x, root, p);
	return err == -EEXIST && !p->text[0] ? mark_read(rq, x, root, p) : err;
}

static void check_volume(void *arg)
{
	enum { CHECK_MS = 30000 };
	struct checking *c = arg;
	struct inode *root = inode_get(c->x->inodes, &gfid_root, S_IFDIR);
	struct lookup_in in = { .loc = { .inode = root } };
	struct lookup_out out = { 0 };
	struct request rq;
	int err;

	request_init(&rq, c->x->graph, 0);
	rq.group_count = 0;
	rq.deadline_ns = clock_ns() + CHECK_MS * 1000000ull;
	err = root ? lookup_on(&rq, c->x->child[0], &in, &out) : -ENOMEM;
	if (err)
		problem_set(c->problem, -err, "the volume can't be asked whether the key is the right one: %s",
			    error_text(err));
	c->result = err ? err : mark_check(&rq, c->x, root, c->problem);
	fop_out_clear(FOP_lookup, &out);
	request_finish(&rq);
	inode_unref(root);
}

static int crypt_start(struct xlator *x, struct problem *p)
{
	struct checking c = { x, p, 0 };

	crypt_of(x)->gives_first = hold_gives_first(x->child[0]);
	if (task_self())
		check_volume(&c);
	else if (task_call(check_volume, &c))
		return problem_set(p, ENOMEM, "%s: no task can be started", x->name);
	return c.result;
}

/* ---- life ---- */

static int crypt_init(struct xlator *x, struct problem *p)
{
	struct crypt *c = x->private;

	pthread_mutex_init(&c->lock, NULL);
	if (RAND_bytes((uint8_t *)&c->owner, sizeof(c->owner)) <= 0)
		return problem_set(p, EIO, "%s: no random numbers", x->name);
	return find_keys(c, p);
}

static void crypt_finish(struct xlator *x)
{
	struct crypt *c = x->private;

	if (c->keys)
		crypt_keys_drop(c->keys);
	secret_free(c->keys, sizeof(*c->keys));
	keys_free(c);
	pthread_mutex_destroy(&c->lock);
}

static void crypt_notify(struct xlator *x, struct xlator *from, const struct event *e)
{
	(void)from;
	if (!hold_lost(x, e))
		event_up(x, e);
}

static void crypt_dump(struct xlator *x, FILE *f)
{
	struct crypt *c = x->private;

	pthread_mutex_lock(&c->lock);
	fprintf(f, "  pages of keys that are not locked: %u\n", c->unlocked);
	pthread_mutex_unlock(&c->lock);
	fprintf(f, "  refused as changed: %llu\n  hidden names: %llu\n  locks taken: %llu\n  read again: %llu\n",
		(unsigned long long)atomic_load(&c->refused), (unsigned long long)atomic_load(&c->hidden),
		(unsigned long long)atomic_load(&c->locks), (unsigned long long)atomic_load(&c->reread));
	fprintf(f, "  lengths asked for: %llu\n  blocks read to change a part: %llu\n",
		(unsigned long long)atomic_load(&c->asked), (unsigned long long)atomic_load(&c->edges));
}

/* What neither brings data nor names. All else is refused, so that an operation that is added one day does not leave unsealed. */
static int crypt_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	switch (fop) {
	case FOP_access:
	case FOP_flush:
	case FOP_fsync:
	case FOP_opendir:
		return fop_pass(rq, x, fop, in, out);
	default:
		return -EOPNOTSUPP;
	}
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "encryption/crypt",
	.summary = "what leaves the client is encrypted",
	.options = options,
	.private_size = sizeof(struct crypt),
	.min_children = 1,
	.max_children = 1,
	.load = cipher_load,
	.unload = cipher_unload,
	.init = crypt_init,
	.start = crypt_start,
	.stop = hold_stop,
	.finish = crypt_finish,
	.notify = crypt_notify,
	.forget_inode = node_forget,
	.forget_file = crypt_forget_file,
	.dump = crypt_dump,
	.any = crypt_any,
	.lookup = crypt_lookup,
	.getattr = crypt_getattr,
	.setattr = crypt_setattr,
	.readlink = crypt_readlink,
	.mknod = crypt_mknod,
	.mkdir = crypt_mkdir,
	.symlink = crypt_symlink,
	.unlink = crypt_unlink,
	.rmdir = crypt_rmdir,
	.rename = crypt_rename,
	.link = crypt_link,
	.create = crypt_create,
	.open = crypt_open,
	.read = crypt_read,
	.write = crypt_write,
	.release = crypt_release,
	.readdir = crypt_readdir,
	.statfs = crypt_statfs,
	.setxattr = crypt_setxattr,
	.getxattr = crypt_getxattr,
	.listxattr = crypt_listxattr,
	.removexattr = crypt_removexattr,
	.seek = crypt_seek,
	.fallocate = crypt_fallocate,
	.getlk = crypt_getlk,
	.setlk = crypt_setlk,
};
