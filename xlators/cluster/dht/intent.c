/* SPDX-License-Identifier: Apache-2.0 */
/* Intents: what is to be done to two names at different subvolumes, written down where the first of them is, and the marks by which it holds
 * them (doc/distribution.md, Intents). The record is an empty file in `work` with the xattr trusted.dht.intent: u8 1, u8 sides (2), and for each
 * u32 subvolume, gfid of the directory, u8 what arrives, u32 its subvolume, gfid, gfid of the pointer, u8 length of the name, the name, u16 length of
 * the directory's path, the path as it was then. Of directories: u8 2, u8 sides (1 or 2), u8 1 if one gets another parent, and after the path of each u32 the
 * subvolume of the directory that goes, its gfid, gfid of the pointer to it. Of a file that is brought home: u8 3 (5: it has several names), u8 1, and its name, as in the first form. Of a wide
 * directory that goes: u8 4, as of directories, then u64 version of its layout, u8 how many shards, u32 the subvolume of each. */
#include "dht.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/xattr.h>

#include "born.h"

#define INTENT_XATTR DHT_INTENT_XATTR
enum { FORMAT = 1, FORMAT_DIRECTORIES = 2, FORMAT_FILE = 3, FORMAT_WIDE = 4, FORMAT_NAMES = 5, SIDES = 2, SIDE_FIXED = 96 };
enum { RECORD_MAX = 3 + SIDES * (SIDE_FIXED + NAME_MAX + SIDE_PATH) + 9 + 4 * SUBVOLUMES_MAX };

/* ---- in bytes ---- */

static void put(uint8_t **at, const void *from, size_t size)
{
	memcpy(*at, from, size);
	*at += size;
}

static void put_number(uint8_t **at, int number)
{
	uint32_t n = htobe32((uint32_t)number);

	put(at, &n, 4);
}

static void put_byte(uint8_t **at, size_t byte)
{
	*(*at)++ = (uint8_t)byte;
}

static void encode_shards(const struct intent *it, uint8_t **at)
{
	uint64_t version = htobe64(it->version);

	put(at, &version, 8);
	put_byte(at, it->shards);
	for (unsigned i = 0; i < it->shards; i++)
		put_number(at, it->shard[i]);
}

static uint8_t format_of(const struct intent *it)
{
	if (it->of_file)
		return it->several ? FORMAT_NAMES : FORMAT_FILE;
	return it->shards ? FORMAT_WIDE : it->of_directories ? FORMAT_DIRECTORIES : FORMAT;
}

static uint32_t encode(const struct intent *it, uint8_t bytes[RECORD_MAX])
{
	uint8_t *at = bytes;

	put_byte(&at, format_of(it));
	put_byte(&at, (size_t)it->sides);
	if (it->of_directories)
		put_byte(&at, (size_t)it->moves);
	for (int i = 0; i < it->sides; i++) {
		const struct side *s = &it->side[i];

		put_number(&at, s->child);
		put(&at, s->parent.bytes, 16);
		put_byte(&at, s->arrival);
		put_number(&at, s->aim.child);
		put(&at, s->aim.gfid.bytes, 16);
		put(&at, s->aim.pgfid.bytes, 16);
		put_byte(&at, strlen(s->name));
		put(&at, s->name, strlen(s->name));
		put_byte(&at, strlen(s->path) >> 8);
		put_byte(&at, strlen(s->path) & 0xff);
		put(&at, s->path, strlen(s->path));
		if (!it->of_directories)
			continue;
		put_number(&at, s->goes.child);
		put(&at, s->goes.gfid.bytes, 16);
		put(&at, s->goes.pgfid.bytes, 16);
	}
	if (it->shards)
		encode_shards(it, &at);
	return (uint32_t)(at - bytes);
}

struct bytes {
	const uint8_t *at, *end;
	bool lacks; /* a number was met that may be a subvolume's, but of none that the graph has */
};

/* What is beyond the end is zero, and the end is before `at` then. */
static void take(struct bytes *b, void *to, size_t size)
{
	size_t left = b->at < b->end ? (size_t)(b->end - b->at) : 0;

	memset(to, 0, size);
	memcpy(to, b->at, size < left ? size : left);
	b->at = size <= left ? b->at + size : b->end + 1;
}

static int take_number(struct bytes *b)
{
	uint32_t n;

	take(b, &n, 4);
	return (int)be32toh(n);
}

static uint8_t take_byte(struct bytes *b)
{
	uint8_t byte;

	take(b, &byte, 1);
	return byte;
}

static bool child_is(const struct dht *d, struct bytes *b, int child)
{
	if (child < 0 || child >= SUBVOLUMES_MAX)
		return false;
	b->lacks |= !has_subvolume(d, (uint64_t)child);
	return true;
}

/* Where there is none all of it is zero: then the number is not that of a subvolume, and one with that number may have left. */
static bool aim_is(const struct dht *d, struct bytes *b, const struct aim *aim, bool needed)
{
	return (!needed && gfid_is_null(&aim->gfid)) || child_is(d, b, aim->child);
}

static bool decode_goes(const struct dht *d, struct bytes *b, struct side *s)
{
	s->goes.child = take_number(b);
	take(b, s->goes.gfid.bytes, 16);
	take(b, s->goes.pgfid.bytes, 16);
	s->goes.dir = true;
	return aim_is(d, b, &s->goes, false);
}

static bool decode_side(const struct dht *d, struct bytes *b, struct side *s, bool of_directories)
{
	size_t length;

	*s = (struct side){ .child = take_number(b) };
	take(b, s->parent.bytes, 16);
	s->arrival = take_byte(b);
	s->aim.child = take_number(b);
	take(b, s->aim.gfid.bytes, 16);
	take(b, s->aim.pgfid.bytes, 16);
	s->aim.dir = s->arrival == ARRIVES_DIRECTORY;
	take(b, s->name, take_byte(b));
	length = (size_t)take_byte(b) << 8;
	length |= take_byte(b);
	if (length >= sizeof(s->path))
		return false;
	take(b, s->path, length);
	if (of_directories && !decode_goes(d, b, s))
		return false;
	return child_is(d, b, s->child) && aim_is(d, b, &s->aim, s->arrival != ARRIVES_NOTHING) &&
	       s->arrival <= (of_directories ? ARRIVES_DIRECTORY : ARRIVES_LINK) && !name_check(s->name);
}

static bool decode_shards(const struct dht *d, struct bytes *b, struct intent *it)
{
	bool good;

	take(b, &it->version, 8);
	it->version = be64toh(it->version);
	it->shards = take_byte(b);
	good = it->shards && it->shards <= SUBVOLUMES_MAX && !gfid_is_null(&leaver(it)->gfid);
	for (unsigned i = 0; i < it->shards && good; i++) {
		it->shard[i] = take_number(b);
		good = child_is(d, b, it->shard[i]);
	}
	return good;
}

static int decode(const struct dht *d, const struct blob *value, struct intent *it)
{
	struct bytes b = { value->bytes, (const uint8_t *)value->bytes + value->size, false };
	uint8_t format = take_byte(&b);
	bool good = format >= FORMAT && format <= FORMAT_NAMES;

	it->of_directories = format == FORMAT_DIRECTORIES || format == FORMAT_WIDE;
	it->of_file = format == FORMAT_FILE || format == FORMAT_NAMES;
	it->several = format == FORMAT_NAMES;
	it->marked = 0;
	it->shards = 0;
	it->sides = take_byte(&b);
	good &= it->of_file ? it->sides == 1 : it->sides == SIDES || (it->of_directories && it->sides == 1);
	it->moves = it->of_directories ? take_byte(&b) : 0;
	good &= !it->moves || child_is(d, &b, it->moves - 1);
	for (int i = 0; i < it->sides && good; i++)
		good = decode_side(d, &b, &it->side[i], it->of_directories);
	if (good && format == FORMAT_WIDE)
		good = decode_shards(d, &b, it);
	if (it->of_file) {
		const struct side *s = &it->side[0];

		good &= s->arrival == ARRIVES_NOTHING && s->aim.child != s->child && !gfid_is_null(&s->aim.gfid);
	} else if (!it->of_directories) {
		good &= it->side[0].child != it->side[1].child;
	}
	if (!good || b.at != b.end)
		return -EINVAL;
	return b.lacks ? -ENXIO : 0;
}

/* ---- names in `work` ---- */

static const char *name_of(const struct intent *it, enum intent_state state, uint32_t attempt, char name[HIDDEN_NAME])
{
	char id[GFID_TEXT];

	snprintf(name, HIDDEN_NAME, "%c.%s.%" PRIu32, state, gfid_text(&it->id, id), attempt);
	return name;
}

const char *intent_name(const struct intent *it, char name[HIDDEN_NAME])
{
	return name_of(it, it->state, it->attempt, name);
}

int intent_parse(const char *name, struct intent *it)
{
	char id[GFID_TEXT], again[HIDDEN_NAME];
	size_t length = strlen(name);

	if (length < 2 + GFID_TEXT || !strchr("pidsu", *name) || name[1] != '.')
		return -EINVAL;
	snprintf(id, sizeof(id), "%s", name + 2);
	if (gfid_parse(id, &it->id))
		return -EINVAL;
	it->state = (enum intent_state) * name;
	it->attempt = (uint32_t)strtoul(name + 2 + GFID_TEXT, NULL, 10);
	return strcmp(name, intent_name(it, again)) ? -EINVAL : 0;
}

const char *side_name(const struct intent *it, int n, char name[HIDDEN_NAME])
{
	char id[GFID_TEXT];

	snprintf(name, HIDDEN_NAME, "w.%s.%d", gfid_text(&it->id, id), n);
	return name;
}

int waits_parse(const char *name, struct gfid *id)
{
	struct intent it = { .attempt = 0 };
	char text[GFID_TEXT], again[HIDDEN_NAME];

	if (strlen(name) < 2 + GFID_TEXT || name[0] != 'w')
		return -EINVAL;
	snprintf(text, sizeof(text), "%s", name + 2);
	if (gfid_parse(text, &it.id))
		return -EINVAL;
	*id = it.id;
	return strcmp(name, side_name(&it, atoi(name + 2 + GFID_TEXT), again)) ? -EINVAL : 0;
}

int side_dir(struct request *rq, struct dht *d, const struct intent *it, int n, struct inode **dir)
{
	return work_dir(rq, d, it->side[n].child, work_of(&it->id), true, dir);
}

/* ---- the record ---- */

int intent_write(struct request *rq, struct dht *d, struct intent *it)
{
	cleanup_inode struct inode *dir = NULL;
	struct who user = become_root(rq);
	uint8_t bytes[RECORD_MAX];
	struct born_xattr x = { INTENT_XATTR, bytes, encode(it, bytes) };
	struct mknod_in in = { .mode = S_IFREG };
	struct mknod_out out = { 0 };
	char name[HIDDEN_NAME];
	int err = side_dir(rq, d, it, 0, &dir);

	it->state = INTENT_PREPARED;
	it->attempt = 1;
	gfid_create(&it->file);
	in.gfid = it->file;
	in.loc = (struct loc){ .parent = dir, .name = intent_name(it, name) };
	if (!err)
		err = born_attach(rq, &x, 1);
	if (!err)
		err = mknod_on(rq, d->x->child[it->side[0].child], &in, &out);
	born_attach(rq, NULL, 0);
	fop_out_clear(FOP_mknod, &out);
	become(rq, user);
	if (err == -ESTALE)
		hidden_forget(d, it->side[0].child);
	return err;
}

int intent_read(struct request *rq, struct dht *d, int home, const char *name, struct intent *it)
{
	cleanup_inode struct inode *dir = NULL;
	struct lookup_in look = { 0 };
	struct lookup_out found = { 0 };
	struct getxattr_in in = { .name = INTENT_XATTR };
	struct getxattr_out out = { 0 };
	int err = intent_parse(name, it);

	if (!err)
		err = work_dir(rq, d, home, work_of(&it->id), false, &dir);
	look.loc = (struct loc){ .parent = dir, .name = name };
	if (!err)
		err = lookup_on(rq, d->x->child[home], &look, &found);
	in.inode = found.inode;
	if (!err)
		err = getxattr_on(rq, d->x->child[home], &in, &out);
	if (!err) {
		it->file = found.inode->gfid;
		err = decode(d, &out.value, it);
	}
	if ((!err || err == -ENXIO) && it->side[0].child != home)
		err = -EINVAL;
	fop_out_clear(FOP_getxattr, &out);
	fop_out_clear(FOP_lookup, &found);
	return err;
}

/* ---- which record there is ---- */

struct search {
	struct intent it;
	bool found;
};

static void meet(struct request *rq, void *arg, struct inode *dir, const struct dirents *list)
{
	struct search *s = arg;
	struct intent it;

	(void)rq, (void)dir;
	for (uint32_t i = 0; i < list->count; i++)
		if (!intent_parse(list->entry[i].name, &it) && gfid_equal(&it.id, &s->it.id)) {
			s->it = it;
			s->found = true;
		}
}

/* A listing may miss what gets another name meanwhile. */
int intent_find(struct request *rq, struct dht *d, int home, const struct gfid *id, struct intent *it)
{
	enum { LOOKS = 3 };
	struct search s = { .it.id = *id };
	struct who user = become_root(rq);
	int err = 0;

	for (int i = 0; i < LOOKS && !err && !s.found; i++)
		err = work_list(rq, d, home, work_of(id), meet, &s);
	become(rq, user);
	*it = s.it;
	return err ? err : s.found ? 0 : -ENOENT;
}

int intent_ended(struct request *rq, struct dht *d, int home, const struct gfid *id, enum intent_state *state)
{
	cleanup_inode struct inode *root = root_of(d);
	char text[GFID_TEXT], name[sizeof(DHT_ENDED_XATTR) + GFID_TEXT];
	struct getxattr_in in = { .inode = root, .name = name };
	struct getxattr_out out = { 0 };
	struct who user = become_root(rq);
	int err = root ? place_say(rq, d, &(struct place){ 0 }) : -ENOMEM;

	snprintf(name, sizeof(name), DHT_ENDED_XATTR "%s", gfid_text(id, text));
	if (!err)
		err = getxattr_on(rq, d->x->child[home], &in, &out);
	if (!err && (out.value.size != 1 || !memchr("dsu", *(const char *)out.value.bytes, 3)))
		err = -ENODATA;
	if (!err)
		*state = (enum intent_state) * (const char *)out.value.bytes;
	fop_out_clear(FOP_getxattr, &out);
	become(rq, user);
	return err;
}

int intent_stands(struct request *rq, struct dht *d, const struct intent *it)
{
	cleanup_inode struct inode *dir = NULL;
	char name[HIDDEN_NAME];
	struct lookup_in in = { 0 };
	struct lookup_out out = { 0 };
	struct who user = become_root(rq);
	int err = side_dir(rq, d, it, 0, &dir);

	in.loc = (struct loc){ .parent = dir, .name = intent_name(it, name) };
	if (!err)
		err = lookup_on(rq, d->x->child[it->side[0].child], &in, &out);
	if (!err && !gfid_equal(&out.inode->gfid, &it->file))
		err = -ENOENT;
	fop_out_clear(FOP_lookup, &out);
	become(rq, user);
	return err == -ENOENT ? -EFENCED : err;
}

/* One only can do it. -EFENCED: somebody else has done it before. */
static int record_rename(struct request *rq, struct dht *d, struct intent *it, enum intent_state state, uint32_t attempt)
{
	cleanup_inode struct inode *dir = NULL;
	char from[HIDDEN_NAME], to[HIDDEN_NAME];
	struct rename_in in = { .flags = RENAME_NOREPLACE };
	struct rename_out out = { 0 };
	struct who user = become_root(rq);
	int err = side_dir(rq, d, it, 0, &dir);

	in.from = (struct loc){ .parent = dir, .name = intent_name(it, from) };
	in.to = (struct loc){ .parent = dir, .name = name_of(it, state, attempt, to) };
	if (!err)
		err = place_say(rq, d, &(struct place){ .expected = { it->file } });
	if (!err)
		err = rename_on(rq, d->x->child[it->side[0].child], &in, &out);
	place_say(rq, d, &(struct place){ 0 });
	become(rq, user);
	if (err)
		return err == -ENOENT || err == -ESTALE ? -EFENCED : err;
	it->state = state;
	it->attempt = attempt;
	return 0;
}

int intent_becomes(struct request *rq, struct dht *d, struct intent *it, enum intent_state state)
{
	return record_rename(rq, d, it, state, it->attempt);
}

int intent_renew(struct request *rq, struct dht *d, struct intent *it)
{
	return record_rename(rq, d, it, it->state, it->attempt + 1);
}

int intent_take_over(struct request *rq, struct dht *d, struct intent *it)
{
	return record_rename(rq, d, it, it->state == INTENT_PREPARED ? INTENT_UNDONE : it->state, it->attempt + 1);
}

/* Null: whatever has that name. */
static int work_remove(struct request *rq, struct dht *d, const struct intent *it, int n, const char *name,
		       const struct gfid *gfid)
{
	cleanup_inode struct inode *dir = NULL;
	struct unlink_in in = { .loc = { .name = name } };
	struct unlink_out out = { 0 };
	struct who user = become_root(rq);
	int err = side_dir(rq, d, it, n, &dir);

	in.loc.parent = dir;
	if (!err)
		err = place_say(rq, d, &(struct place){ .flags = PLACE_POINTER, .expected = { *gfid } });
	if (!err)
		err = unlink_on(rq, d->x->child[it->side[n].child], &in, &out);
	if (err == -EISDIR)
		err = rmdir_on(rq, d->x->child[it->side[n].child], (const struct rmdir_in *)&in, (struct rmdir_out *)&out);
	place_say(rq, d, &(struct place){ 0 });
	become(rq, user);
	return err == -ENOENT ? 0 : err;
}

int intent_remove(struct request *rq, struct dht *d, const struct intent *it)
{
	char name[HIDDEN_NAME];

	return work_remove(rq, d, it, 0, intent_name(it, name), &(struct gfid){ { 0 } });
}

/* ---- marks ---- */

struct inode *side_parent(struct dht *d, const struct gfid *parent)
{
	return inode_get(d->x->inodes, parent, S_IFDIR);
}

struct mark_place mark_place(const struct intent *it, int n)
{
	if (n == SIDE_MOVES)
		return (struct mark_place){ it->moves - 1, gfid_root, MARK_MOVES };
	if (it->of_file && n == SIDE_GOES)
		return (struct mark_place){ it->side[0].aim.child, it->side[0].aim.gfid, MARK_GOES };
	if (n == SIDE_COPY)
		return (struct mark_place){ it->side[0].child, it->side[0].aim.gfid, MARK_GOES };
	if (n == SIDE_GOES)
		return (struct mark_place){ leaver(it)->child, leaver(it)->gfid, MARK_GOES };
	if (n >= SIDE_DYING)
		return (struct mark_place){ it->shard[n - SIDE_DYING], leaver(it)->gfid, MARK_DYING };
	return (struct mark_place){ it->side[n].child, it->side[n].parent, it->side[n].name };
}

/* Who has it: a directory, or what is brought home: of that the record tells no type, and with a wrong one nobody could look it up meanwhile. */
static struct inode *marked(struct dht *d, const struct intent *it, int n, const struct mark_place *at)
{
	mode_t type = it->of_file && n != 0 ? 0 : S_IFDIR;

	return inode_get(d->x->inodes, &at->parent, type);
}

/* That of a shard is compared with the version by which there are no others. */
static int say_shards(struct request *rq, const struct intent *it)
{
	struct place p = { .directory = { leaver(it)->gfid }, .version = { it->version } };

	return place_attach(rq, &p);
}

static int set_mark(struct request *rq, struct dht *d, const struct intent *it, int n, uint32_t flags)
{
	struct mark_place at = mark_place(it, n);
	cleanup_inode struct inode *parent = marked(d, it, n, &at);
	struct place before = { 0 };
	int err = parent ? place_of(rq, &before) : -ENOMEM;

	if (err >= 0)
		err = n < SIDE_DYING ? 0 : say_shards(rq, it);
	if (!err)
		err = mark_put(rq, d, it, at.child, parent, at.name, flags);
	if (n >= SIDE_DYING) {
		place_attach(rq, &before);
		place_say(rq, d, &(struct place){ 0 });
	}
	return err;
}

int mark_put(struct request *rq, struct dht *d, const struct intent *it, int child, struct inode *parent, const char *name,
	     uint32_t flags)
{
	struct mark m = { mark_hash(name), it->id, attempt_of(it), (uint32_t)it->side[0].child };
	uint8_t bytes[MARK_SIZE];
	char xattr[MARK_NAME];
	struct setxattr_in in = {
		.inode = parent, .name = mark_name(m.hash, xattr), .value = { MARK_SIZE, bytes }, .flags = flags
	};
	struct setxattr_out out = { 0 };
	struct who user = become_root(rq);
	int err = place_say(rq, d, &(struct place){ .intent = it->id, .attempt = attempt_of(it) });

	mark_encode(&m, bytes);
	if (!err)
		err = setxattr_on(rq, d->x->child[child], &in, &out);
	place_say(rq, d, &(struct place){ 0 });
	become(rq, user);
	return err;
}

int side_mark(struct request *rq, struct dht *d, const struct intent *it, int n)
{
	return set_mark(rq, d, it, n, 0);
}

int side_confirm(struct request *rq, struct dht *d, const struct intent *it, int n)
{
	return set_mark(rq, d, it, n, XATTR_REPLACE);
}

int mark_remove(struct request *rq, struct dht *d, int child, struct inode *parent, const struct mark *m)
{
	char xattr[MARK_NAME];
	struct removexattr_in in = { .inode = parent, .name = mark_name(m->hash, xattr) };
	struct removexattr_out out = { 0 };
	struct who user = become_root(rq);
	int err = place_say(rq, d, &(struct place){ .intent = m->intent, .attempt = m->attempt });

	if (!err)
		err = removexattr_on(rq, d->x->child[child], &in, &out);
	place_say(rq, d, &(struct place){ 0 });
	become(rq, user);
	return err == -ENODATA ? 0 : err;
}

int side_unmark(struct request *rq, struct dht *d, const struct intent *it, int n)
{
	struct mark_place at = mark_place(it, n);
	cleanup_inode struct inode *parent = marked(d, it, n, &at);
	struct mark m = { mark_hash(at.name), it->id, attempt_of(it), 0 };

	return parent ? mark_remove(rq, d, at.child, parent, &m) : -ENOMEM;
}

/* ---- steps ---- */

/* Says what that is: so it goes also if it has become a stub, by another name that it has; and who counts its names, as one who brings it does, waits until it has gone at
 * all members of a set (afr: ITS_NAMES). */
int waits_remove(struct request *rq, struct dht *d, const struct intent *it, int n, const struct gfid *gfid)
{
	char name[HIDDEN_NAME];
	struct standing now;
	int err = work_remove(rq, d, it, n, side_name(it, n, name), MUTANT("remove-untold") ? &(struct gfid){ { 0 } } : gfid);

	if (err != -ESTALE)
		return err;
	err = waits_look(rq, d, it, n, &now); /* others were sooner? */
	return err || gfid_is_null(&now.gfid) ? err : -ESTALE;
}

int side_step(struct request *rq, struct dht *d, const struct intent *it, int n, const struct step_in *s)
{
	cleanup_inode struct inode *dir = NULL, *parent = side_parent(d, &it->side[n].parent);
	char name[HIDDEN_NAME];
	struct loc here = { .parent = parent, .name = it->side[n].name };
	struct loc waits = { .name = side_name(it, n, name) };
	struct rename_in in = { .flags = gfid_is_null(&s->other) ? RENAME_NOREPLACE : RENAME_EXCHANGE };
	struct rename_out out = { 0 };
	struct place p = {
		.flags = PLACE_POINTER, .expected = { s->moved, s->other }, .intent = it->id, .attempt = attempt_of(it)
	};
	int err = parent ? side_dir(rq, d, it, n, &dir) : -ENOMEM;

	waits.parent = dir;
	in.from = s->arrives ? waits : here;
	in.to = s->arrives ? here : waits;
	if (!err)
		err = place_say(rq, d, &p);
	if (!err)
		err = rename_on(rq, d->x->child[it->side[n].child], &in, &out);
	place_say(rq, d, &(struct place){ 0 });
	return err;
}

/* Where the directory stands that is to go; `dir` is a reference. (One in place has its name still, if nothing replaces it.) */
static int place_of_leaver(struct request *rq, struct dht *d, const struct intent *it, char name[NAME_MAX + 1],
			   struct inode **dir)
{
	int n = it->sides - 1;

	if (gfid_is_null(&leaver(it)->pgfid) && !n) {
		snprintf(name, NAME_MAX + 1, "%s", it->side[n].name);
		*dir = side_parent(d, &it->side[n].parent);
		return *dir ? 0 : -ENOMEM;
	}
	if (gfid_is_null(&leaver(it)->pgfid)) {
		side_name(it, n, name);
		return side_dir(rq, d, it, n, dir);
	}
	anchor_name(leaver(it), name);
	return away_dir(rq, d, leaver(it)->child, &leaver(it)->gfid, false, dir);
}

int leaver_find(struct request *rq, struct dht *d, const struct intent *it, struct inode **dir)
{
	cleanup_inode struct inode *parent = side_parent(d, &it->side[it->sides - 1].parent), *work = NULL;
	struct place p = { .intent = it->id, .attempt = attempt_of(it) };
	char name[NAME_MAX + 1];
	struct lookup_in in[2] = { { .loc = { .name = name } },
				   { .loc = { .parent = parent, .name = it->side[it->sides - 1].name } } };
	bool away = !gfid_is_null(&leaver(it)->pgfid);
	int err = parent ? place_of_leaver(rq, d, it, name, &work) : -ENOMEM;

	*dir = NULL;
	in[0].loc.parent = work;
	for (int i = 0; i < (away ? 1 : 2) && !err && !*dir; i++) {
		struct lookup_out out = { 0 };

		err = place_say(rq, d, i || it->sides == 1 ? &p : &(struct place){ 0 });
		if (!err)
			err = lookup_on(rq, d->x->child[leaver(it)->child], &in[i], &out);
		if (!err && gfid_equal(&out.inode->gfid, &leaver(it)->gfid))
			*dir = inode_ref(out.inode);
		fop_out_clear(FOP_lookup, &out);
		/* its parent may have gone, too; and the name may be another intent's by now */
		err = err == -ENOENT || err == -ESTALE || err == -EFENCED ? 0 : err;
	}
	place_say(rq, d, &(struct place){ 0 });
	return err == -ENOENT ? 0 : err;
}

/* Its mark tells whether others have taken that back meanwhile. */
int leaver_remove(struct request *rq, struct dht *d, const struct intent *it)
{
	cleanup_inode struct inode *dir = NULL;
	struct place p = { .expected = { leaver(it)->gfid },
			   .intent = it->id,
			   .attempt = attempt_of(it),
			   .flags = it->shards ? PLACE_SHARD : 0 };
	char name[NAME_MAX + 1];
	struct rmdir_in in = { .loc = { .name = name } };
	struct rmdir_out out = { 0 };
	struct who user;
	int err;

	if (gfid_is_null(&leaver(it)->gfid))
		return 0;
	if (MUTANT("go-unmarked"))
		p = (struct place){ .expected = { leaver(it)->gfid } };
	user = become_root(rq);
	err = place_of_leaver(rq, d, it, name, &dir);
	in.loc.parent = dir;
	if (!err)
		err = place_say(rq, d, &p);
	if (!err)
		err = rmdir_on(rq, d->x->child[leaver(it)->child], &in, &out);
	place_say(rq, d, &(struct place){ 0 });
	become(rq, user);
	return err == -EEXIST ? -ENOTEMPTY : err;
}

int dying_find(struct request *rq, struct dht *d, const struct intent *it, int n, struct inode **dir)
{
	struct aim aim = { .gfid = leaver(it)->gfid, .child = it->shard[n - SIDE_DYING], .dir = true };
	struct lookup_out out = { 0 };
	int err;

	*dir = NULL;
	if (aim.child == leaver(it)->child)
		return leaver_find(rq, d, it, dir);
	err = look_at_anchor(rq, d, &aim, &out);
	if (!err)
		*dir = inode_ref(out.inode);
	fop_out_clear(FOP_lookup, &out);
	return err == -ENOENT || err == -ESTALE ? 0 : err;
}

static int shard_remove(struct request *rq, struct dht *d, const struct intent *it, int child)
{
	cleanup_inode struct inode *away = NULL;
	struct aim aim = { .gfid = leaver(it)->gfid, .child = child, .dir = true };
	char name[HIDDEN_NAME];
	struct rmdir_in in = { .loc = { .name = anchor_name(&aim, name) } };
	struct place p = { .flags = PLACE_SHARD, .expected = { aim.gfid }, .intent = it->id, .attempt = it->attempt };
	int err = away_dir(rq, d, child, &aim.gfid, false, &away);

	in.loc.parent = away;
	if (!err)
		err = place_say(rq, d, &p);
	if (!err)
		err = rmdir_on(rq, d->x->child[child], &in, &(struct rmdir_out){ 0 });
	place_say(rq, d, &(struct place){ 0 });
	return err == -ENOENT || err == -ESTALE ? 0 : err;
}

int shards_remove(struct request *rq, struct dht *d, const struct intent *it)
{
	int err = 0;

	for (unsigned i = 0; i < it->shards && !err; i++)
		if (it->shard[i] != leaver(it)->child)
			err = shard_remove(rq, d, it, it->shard[i]);
	return err;
}

int name_remove(struct request *rq, struct dht *d, const struct intent *it, int n, const struct gfid *gfid)
{
	cleanup_inode struct inode *parent = side_parent(d, &it->side[n].parent);
	struct unlink_in in = { .loc = { .parent = parent, .name = it->side[n].name } };
	struct unlink_out out = { 0 };
	struct place p = { .flags = PLACE_POINTER, .expected = { *gfid }, .intent = it->id, .attempt = attempt_of(it) };
	int err = parent ? place_say(rq, d, &p) : -ENOMEM;

	if (!err)
		err = unlink_on(rq, d->x->child[it->side[n].child], &in, &out);
	if (err == -EISDIR)
		err = rmdir_on(rq, d->x->child[it->side[n].child], (const struct rmdir_in *)&in, (struct rmdir_out *)&out);
	place_say(rq, d, &(struct place){ 0 });
	return err;
}

static int look_at(struct request *rq, struct dht *d, const struct intent *it, int n, const struct loc *loc,
		   const struct place *p, struct standing *s)
{
	struct lookup_in in = { .loc = *loc };
	struct lookup_out out = { 0 };
	int err = place_say(rq, d, p);

	if (!err)
		err = lookup_on(rq, d->x->child[it->side[n].child], &in, &out);
	if (!err) {
		s->gfid = out.inode->gfid;
		s->points = out.attr.flags & ATTR_POINTER;
		s->type = out.attr.mode & S_IFMT;
	}
	if (!err && s->points)
		err = aim_of(d, &out, &s->aim);
	fop_out_clear(FOP_lookup, &out);
	place_say(rq, d, &(struct place){ 0 });
	return err == -ENOENT ? 0 : err;
}

int waits_look(struct request *rq, struct dht *d, const struct intent *it, int n, struct standing *s)
{
	cleanup_inode struct inode *dir = NULL;
	char name[HIDDEN_NAME];
	struct loc loc = { .name = side_name(it, n, name) };
	int err = side_dir(rq, d, it, n, &dir);

	*s = (struct standing){ 0 };
	loc.parent = dir;
	return err ? err : look_at(rq, d, it, n, &loc, &(struct place){ 0 }, s);
}

int name_look(struct request *rq, struct dht *d, const struct intent *it, int n, struct standing *s)
{
	cleanup_inode struct inode *parent = side_parent(d, &it->side[n].parent);
	struct loc loc = { .parent = parent, .name = it->side[n].name };

	*s = (struct standing){ 0 };
	return parent ? look_at(rq, d, it, n, &loc, &(struct place){ .intent = it->id, .attempt = attempt_of(it) }, s)
		      : -ENOMEM;
}

static int anchor_stands(struct request *rq, struct dht *d, const struct aim *aim, bool *stands)
{
	struct lookup_out out = { 0 };
	int err = look_at_anchor(rq, d, aim, &out);

	fop_out_clear(FOP_lookup, &out);
	*stands = !err;
	return err == -ENOENT ? 0 : err;
}

/* It goes when the steps have been taken; of rmdir, which has none, while it still has the name. */
static bool may_have_gone(const struct intent *it, const struct standing *named, const struct standing *waits)
{
	const struct side *s = &it->side[it->sides - 1];

	if (it->sides == 1)
		return gfid_equal(&named->gfid, &s->goes.pgfid);
	return gfid_equal(&named->gfid, arrival_gfid(s)) && gfid_equal(&waits->gfid, &s->goes.pgfid);
}

/* Waiting first: what is taken back goes from there to the name, and nobody takes it from there any more. */
int leaver_has_gone(struct request *rq, struct dht *d, const struct intent *it, bool *gone)
{
	struct standing waits, named = { 0 };
	bool stands = false;
	int err;

	*gone = false;
	if (gfid_is_null(&leaver(it)->gfid) || it->shards)
		return 0;
	err = waits_look(rq, d, it, it->sides - 1, &waits);
	if (!err)
		err = name_look(rq, d, it, it->sides - 1, &named);
	if (err || !may_have_gone(it, &named, &waits))
		return err;
	if (!gfid_is_null(&leaver(it)->pgfid))
		err = anchor_stands(rq, d, leaver(it), &stands);
	*gone = !err && !stands;
	return err;
}
