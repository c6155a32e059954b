/* SPDX-License-Identifier: Apache-2.0 */
/* Keepers: tasks whose files nobody else touches. Each knows where its files may be by what POSIX promises: what was synced (file and directories) before the
 * power went is there, a rename was done or not, and no file has two names, or none. They run in the seeds in which all members of a set may lose their
 * power, for there the history as a whole can't be explained by one order. */
#include <fcntl.h>

#include "work.h"

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2
#endif
enum { KEEPERS_MAX = 200, PLACES = 6, ROOT_PLACES = 3, FILES = 2, NOWHERE = 1 << PLACES, MAGIC = 0x6b656570 };

struct kept {
	struct gfid gfid;
	unsigned now, since; /* masks of places: where it may be; where it was since it was last synced */
	bool removed;	     /* since then, or perhaps: its last name may lead to nothing */
};
struct keeper {
	unsigned number;
	struct gfid dir;
	struct kept file[FILES];
	uint64_t known_ns;   /* what `now` says was so then */
	bool armed, unknown; /* unknown: nobody knows what became of its last operation */
};
static struct keeper keepers[KEEPERS_MAX];
static unsigned count;

/* ---- names ---- */

static const char *dir_name(const struct keeper *k, char name[32])
{
	snprintf(name, 32, "k%u", k->number);
	return name;
}

static struct loc at_place(const struct worker *w, const struct keeper *k, struct inode *dir, unsigned place, char name[32])
{
	if (place < ROOT_PLACES)
		snprintf(name, 32, "k%u-%u", k->number, place);
	else
		snprintf(name, 32, "%u", place);
	return (struct loc){ .parent = place < ROOT_PLACES ? w->root : dir, .name = name };
}

bool keepers_name(unsigned n, char name[32])
{
	unsigned place = n % (1 + ROOT_PLACES);

	if (n / (1 + ROOT_PLACES) >= count)
		return false;
	if (place == ROOT_PLACES)
		snprintf(name, 32, "k%u", n / (1 + ROOT_PLACES));
	else
		snprintf(name, 32, "k%u-%u", n / (1 + ROOT_PLACES), place);
	return true;
}

/* ---- calls ---- */

static int make_dir(struct worker *w, struct keeper *k, struct inode **dir)
{
	char name[32];
	struct mkdir_in in = { .loc = { .parent = w->root, .name = dir_name(k, name) }, .mode = 0755 };
	struct mkdir_out out = { 0 };
	int err;

	gfid_create(&in.gfid);
	err = call(w, FOP_mkdir, &in, &out);
	*dir = err ? NULL : inode_ref(out.inode);
	if (!err)
		k->dir = out.inode->gfid;
	fop_out_clear(FOP_mkdir, &out);
	return err;
}

static int sync_file(struct worker *w, struct file *file)
{
	struct fsync_in in = { .file = file };
	struct fsync_out out = { 0 };

	return call(w, FOP_fsync, &in, &out);
}

static int sync_dir(struct worker *w, struct inode *dir)
{
	struct opendir_in in = { .inode = dir };
	struct opendir_out out = { 0 };
	int err = call(w, FOP_opendir, &in, &out);

	if (err)
		return err;
	err = sync_file(w, out.file);
	release(w, out.file);
	return err;
}

static int write_mark(struct worker *w, struct file *file)
{
	uint64_t bytes = MAGIC;
	struct write_in in = { .file = file, .data = buffer_from(&bytes, sizeof(bytes)) };
	struct write_out out = { 0 };
	int err = call(w, FOP_write, &in, &out);

	buffer_unref(in.data);
	return err;
}

static int make_file(struct worker *w, struct keeper *k, struct inode *dir, unsigned n)
{
	unsigned place = n ? ROOT_PLACES : 0;
	char name[32];
	struct create_in in = { .loc = at_place(w, k, dir, place, name), .flags = O_RDWR | O_CREAT | O_EXCL, .mode = 0644 };
	struct create_out out = { 0 };
	int err;

	gfid_create(&in.gfid);
	err = call(w, FOP_create, &in, &out);
	if (err)
		return err;
	k->file[n] = (struct kept){ .gfid = out.inode->gfid, .now = 1u << place, .since = 1u << place };
	err = write_mark(w, out.file);
	if (!err)
		err = sync_file(w, out.file);
	release(w, file_ref(out.file));
	fop_out_clear(FOP_create, &out);
	return err;
}

/* ---- what is known ---- */

static bool is_cut_since(const struct keeper *k)
{
	return nemesis_cut_between(k->known_ns, sim_now());
}

static unsigned may_be_at(const struct keeper *k, const struct kept *f)
{
	return is_cut_since(k) || k->unknown ? f->since : f->now;
}

static void settle(struct keeper *k)
{
	for (unsigned n = 0; n < FILES; n++) {
		k->file[n].since = k->file[n].now;
		k->file[n].removed = false;
	}
	k->known_ns = sim_now();
}

/* After the power went somebody must have looked first what is synced now. */
static void sync_all(struct worker *w, struct keeper *k, struct inode *dir)
{
	if (!sync_dir(w, w->root) && !sync_dir(w, dir) && !is_cut_since(k))
		settle(k);
}

/* ---- looking ---- */

struct seen {
	unsigned at[FILES]; /* masks */
	unsigned nowhere;   /* places that lead to nothing */
	unsigned other;	    /* that have something else */
};

static int look_at(struct worker *w, const struct keeper *k, struct inode *dir, unsigned place, struct seen *s)
{
	char name[32];
	struct lookup_in in = { .loc = at_place(w, k, dir, place, name) };
	struct lookup_out out = { 0 };
	int err = call(w, FOP_lookup, &in, &out);
	bool known = false;

	for (unsigned n = 0; n < FILES && !err; n++)
		if (gfid_equal(&out.inode->gfid, &k->file[n].gfid)) {
			s->at[n] |= 1u << place;
			known = true;
		}
	s->other |= (!err && !known) << place;
	s->nowhere |= (unsigned)(err == -EIO) << place;
	fop_out_clear(FOP_lookup, &out);
	return err == -ENOENT || err == -EIO ? 0 : err;
}

static int look(struct worker *w, const struct keeper *k, struct inode *dir, struct seen *s)
{
	int err = 0;

	*s = (struct seen){ 0 };
	for (unsigned place = 0; place < PLACES && !err; place++)
		err = look_at(w, k, dir, place, s);
	return err;
}

static bool is_one(unsigned mask)
{
	return mask && !(mask & (mask - 1));
}

static void judge(const struct keeper *k, const struct seen *s)
{
	unsigned excused = 0;
	char text[GFID_TEXT];

	for (unsigned n = 0; n < FILES; n++) {
		const struct kept *f = &k->file[n];
		unsigned at = s->at[n], may = may_be_at(k, f);

		if (f->removed)
			excused |= may;
		if (!at && f->removed && may & s->nowhere)
			continue;
		if (!is_one(at ? at : NOWHERE) || !((at ? at : NOWHERE) & may))
			sim_fail("a file of keeper %u, %.8s, is at places %x, and may be at %x", k->number,
				 gfid_text(&f->gfid, text), at, may);
	}
	if (s->nowhere & ~excused)
		sim_fail("places %x of keeper %u can't be looked up", s->nowhere & ~excused, k->number);
	else if (s->other)
		sim_fail("places %x of keeper %u have what nobody put there", s->other, k->number);
}

/* While others are down, or under way, nothing is learned of them. */
static void look_meanwhile(struct worker *w, struct keeper *k, struct inode *dir)
{
	uint64_t began_ns = sim_now();
	struct seen s;

	if (is_cut_since(k) && !world_quiet())
		return; /* a set that begins anew may differ until it is scrubbed (doc/replication.md) */
	if (look(w, k, dir, &s) || s.nowhere || nemesis_cut_between(began_ns, sim_now()))
		return;
	judge(k, &s);
	k->known_ns = began_ns;
	for (unsigned n = 0; n < FILES; n++)
		k->file[n].now = s.at[n] ? s.at[n] : NOWHERE;
}

/* ---- moving ---- */

static unsigned place_of_mask(unsigned mask)
{
	unsigned place = 0;

	while (!(mask >> place & 1))
		place++;
	return place;
}

static unsigned some_free(const struct keeper *k)
{
	unsigned place = (unsigned)pick(PLACES), taken = k->file[0].now | k->file[1].now;

	while (taken >> place & 1)
		place = (place + 1) % PLACES;
	return place;
}

static void may_go(struct kept *f, unsigned to)
{
	f->now |= to;
	f->since |= to;
	f->removed |= to == NOWHERE;
}

/* If the power goes meanwhile the other file may be back at one of these places. Returns what it might be then, and could not be else. */
static unsigned may_be_hit(struct kept *other, unsigned from, unsigned to)
{
	unsigned more = other->since & (from | to) ? (from | to | NOWHERE) & ~other->since : 0;

	other->since |= more;
	other->removed |= more != 0;
	return more;
}

/* Or the file itself may be back where it is to go, and be replaced there by what is back at its place. The same. */
static unsigned may_be_replaced(struct kept *f, unsigned to)
{
	unsigned more = f->since & to ? NOWHERE & ~f->since : 0;

	f->since |= more;
	f->removed |= more != 0;
	return more;
}

/* Both are told of before it is asked for, for this task may die in it. */
static void move(struct worker *w, struct keeper *k, struct inode *dir, unsigned n, bool over, bool exchange)
{
	struct kept *f = &k->file[n], *other = &k->file[!n];
	unsigned from = place_of_mask(f->now), to = over ? place_of_mask(other->now) : some_free(k);
	char name[2][32];
	struct rename_in in = { .from = at_place(w, k, dir, from, name[0]),
				.to = at_place(w, k, dir, to, name[1]),
				.flags = over && exchange ? RENAME_EXCHANGE : 0 };
	struct rename_out out = { 0 };
	bool removed = other->removed, itself = f->removed;
	unsigned more, lost;
	int err;

	k->unknown = true;
	lost = over && exchange ? 0 : may_be_replaced(f, 1u << to);
	may_go(f, 1u << to);
	if (over)
		may_go(other, exchange ? 1u << from : NOWHERE);
	more = may_be_hit(other, 1u << from, 1u << to);
	err = call(w, FOP_rename, &in, &out);
	trace("keeper %u: file %u from %u to %u%s = %d", k->number, n, from, to,
	      !over	 ? ""
	      : exchange ? ", exchange"
			 : ", over",
	      err);
	if (err)
		return;
	k->unknown = false;
	f->now = 1u << to;
	if (!is_cut_since(k)) {
		f->since &= ~lost;
		f->removed = itself;
		other->since &= ~more;
		other->removed = removed || (over && !exchange);
	}
	if (over)
		other->now = exchange ? 1u << from : NOWHERE;
}

static void do_step(struct worker *w, struct keeper *k, struct inode *dir)
{
	bool both = is_one(k->file[0].now) && is_one(k->file[1].now) && !((k->file[0].now | k->file[1].now) & NOWHERE);
	unsigned n = (unsigned)pick(FILES), what = (unsigned)pick(100);

	if (what < 25)
		sync_all(w, k, dir);
	else if (what < 40)
		look_meanwhile(w, k, dir);
	else if (is_cut_since(k)) /* it is not known where they are */
		look_meanwhile(w, k, dir);
	else if (k->file[n].now != NOWHERE)
		move(w, k, dir, n, both && what > 80, what < 91);
}

/* Begins with two files that are on disk, or with nothing. */
static void arm(struct worker *w, struct keeper *k, struct inode **dir)
{
	uint64_t began_ns = sim_now();
	int err = make_dir(w, k, dir);

	for (unsigned n = 0; n < FILES && !err; n++)
		err = make_file(w, k, *dir, n);
	if (!err)
		err = sync_dir(w, w->root);
	if (!err)
		err = sync_dir(w, *dir);
	if (err || nemesis_cut_between(began_ns, sim_now()))
		return;
	settle(k);
	k->armed = true;
	trace("keeper %u begins", k->number);
}

static void keep(struct worker *w)
{
	struct keeper *k = &keepers[count];
	struct inode *dir = NULL;

	k->number = count++;
	arm(w, k, &dir);
	while (work.left && k->armed && !k->unknown) {
		do_step(w, k, dir);
		task_sleep_ms(pick(3) ? pick(20) : pick(1500));
	}
	inode_unref(dir);
}

void keeper_run(struct worker *w)
{
	while (work.left && count < KEEPERS_MAX) {
		keep(w);
		task_sleep_ms(pick(3000));
	}
}

/* ---- the end ---- */

static int find_dir(struct worker *w, const struct keeper *k, struct inode **dir)
{
	char name[32];
	struct lookup_in in = { .loc = { .parent = w->root, .name = dir_name(k, name) } };
	struct lookup_out out = { 0 };
	int err = call(w, FOP_lookup, &in, &out);

	if (!err && !gfid_equal(&out.inode->gfid, &k->dir))
		err = -ESTALE;
	*dir = err ? NULL : inode_ref(out.inode);
	fop_out_clear(FOP_lookup, &out);
	return err;
}

static int read_mark(struct worker *w, struct inode *inode)
{
	struct open_in open = { .inode = inode, .flags = O_RDONLY };
	struct open_out opened = { 0 };
	struct read_in in = { .size = 8 };
	struct read_out out = { 0 };
	uint64_t bytes = 0;
	int err = call(w, FOP_open, &open, &opened);

	if (err)
		return err;
	in.file = opened.file;
	err = call(w, FOP_read, &in, &out);
	if (!err && out.data && out.data->size == sizeof(bytes))
		memcpy(&bytes, out.data->data, sizeof(bytes));
	fop_out_clear(FOP_read, &out);
	release(w, opened.file);
	return err ? err : bytes == MAGIC ? 0 : -EILSEQ;
}

static int read_at(struct worker *w, const struct keeper *k, struct inode *dir, unsigned place)
{
	char name[32];
	struct lookup_in in = { .loc = at_place(w, k, dir, place, name) };
	struct lookup_out out = { 0 };
	int err = call(w, FOP_lookup, &in, &out);

	if (!err)
		err = read_mark(w, out.inode);
	fop_out_clear(FOP_lookup, &out);
	return err;
}

static void check_keeper(struct worker *w, const struct keeper *k)
{
	cleanup_inode struct inode *dir = NULL;
	struct seen s;
	int err = find_dir(w, k, &dir);

	if (!err)
		err = look(w, k, dir, &s);
	if (!err)
		judge(k, &s);
	for (unsigned n = 0; n < FILES && !err && !sim_failure(); n++)
		if (s.at[n])
			err = read_at(w, k, dir, place_of_mask(s.at[n]));
	if (err)
		sim_fail("what keeper %u has can't be read in the end: %s", k->number, strerror(-err));
}

void keepers_check(struct worker *w)
{
	for (unsigned i = 0; i < count && !sim_failure(); i++)
		if (keepers[i].armed)
			check_keeper(w, &keepers[i]);
}
