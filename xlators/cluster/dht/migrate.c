/* SPDX-License-Identifier: Apache-2.0 */
/* Brings a file (a link, a node) home: its data move from where it stands, behind a pointer, to the subvolume that has its name ("Migration" in doc/distribution.md), while it
 * is in use. First they are copied; then the name is marked and the file frozen, so that the copy becomes the same; then the file becomes a stub, which
 * decides; then the copy gets the name. Who dies at it leaves a record: others end it (migrate-end.c). */
#include "dht.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "born.h"

/* What has changed while it was copied is copied once more while nobody can change it, if it is not more than this. */
#define FROZEN_MOST (16u << 20)
#define STEPS_NS    60000000000u

/* What a brick says of the changes of a file: it counts them as long as it runs, and has the file in memory. */
struct counted {
	unsigned long long number;
	char by[GFID_TEXT];
	bool locked;
};
struct bringing {
	struct request *rq;
	struct dht *d;
	const struct loc *loc;
	const struct throttle *throttle;
	struct intent it;
	struct inode *file, *dir;      /* references: the file, which the copy is, too; the directory of the copy's name */
	struct anchors anchors;	       /* of one with several names, as long as it is held */
	struct attr attr;	       /* of the file */
	struct counted before, copied; /* of the file, and of the copy, when the copying began */
	uint64_t renewed_ns;
};

static struct side *side_of(struct bringing *b)
{
	return &b->it.side[0];
}

/* ---- what there is ---- */

static int read_counted(struct bringing *b, int child, struct counted *c)
{
	struct getxattr_in in = { .inode = b->file, .name = DHT_CHANGES_XATTR };
	struct getxattr_out out = { 0 };
	char text[CHANGES_TEXT];
	unsigned locked;
	int err = place_say(b->rq, b->d, &(struct place){ 0 });

	if (!err)
		err = getxattr_on(b->rq, b->d->x->child[child], &in, &out);
	if (!err)
		snprintf(text, sizeof(text), "%.*s", (int)out.value.size, (const char *)out.value.bytes);
	fop_out_clear(FOP_getxattr, &out);
	if (!err && sscanf(text, "%llu %36s %u", &c->number, c->by, &locked) != 3)
		err = -EOPNOTSUPP; /* a brick of before there was such a thing */
	if (err == -ENODATA)	   /* or before there was it of links and nodes */
		return S_ISREG(b->file->type) ? -EOPNOTSUPP : BRING_KIND;
	if (err)
		return err;
	c->locked = locked;
	return 0;
}

/* As it is there, whoever holds it. Links are added and removed meanwhile: of which kind it was is written down. BRING_LED: it is elsewhere by now. */
static int look_at_file(struct bringing *b)
{
	struct lookup_out out = { 0 };
	int err = mean_pointers(b->rq, b->d, true);

	if (!err)
		err = anchor_look(b->rq, b->d, &side_of(b)->aim, &out);
	mean_pointers(b->rq, b->d, false);
	if (!err && !b->file)
		b->file = inode_ref(out.inode);
	b->attr = out.attr;
	fop_out_clear(FOP_lookup, &out);
	if (err)
		return err == -ENOENT || err == -ESTALE ? BRING_BUSY : err;
	return b->attr.flags & ATTR_POINTER ? BRING_LED : 0;
}

/* All its names lead to it: else it is at home by one of them, or somebody is just giving it one. */
static int read_anchors(struct bringing *b)
{
	int err;

	anchors_clear(&b->anchors);
	err = anchors_read(b->rq, b->d, side_of(b)->aim.child, &side_of(b)->aim.gfid, &b->anchors);
	return err ? err : b->anchors.count != b->attr.nlink ? BRING_LINKS : 0;
}

static bool has_room(struct bringing *b)
{
	int owner = side_of(b)->child;
	uint64_t bytes;

	if (place_for_new(b->rq, b->d, owner, &b->file->gfid) != owner)
		return false;
	bytes = atomic_load(&b->d->space[owner].bytes);
	return !atomic_load(&b->d->space[owner].known) || bytes > 512 * b->attr.blocks;
}

/* What is known of the directory may be old: it is learnt, once for each that brings a file of it. */
static int find_name(struct bringing *b, struct inode **pointer, struct gfid *gfid, bool *dir)
{
	enum { TRIES = 3 };
	struct side *s = side_of(b);
	int err = -ELAYOUT;

	for (int tries = 0; err == -ELAYOUT && tries < TRIES; tries++) {
		if (tries && learn_there(b->rq, b->d, b->loc->parent, s->child))
			return err;
		err = place_say_in(b->rq, b->d, b->loc->parent);
		if (!err)
			err = look_at_name(b->rq, b->d, s->child, b->loc, pointer, &s->aim, gfid, dir);
	}
	return err;
}

static int find(struct bringing *b, int owner)
{
	cleanup_inode struct inode *pointer = NULL;
	struct side *s = side_of(b);
	struct gfid gfid;
	bool dir = false;
	int err;

	*s = (struct side){ .child = owner, .parent = b->loc->parent->gfid };
	snprintf(s->name, sizeof(s->name), "%s", b->loc->name);
	err = find_name(b, &pointer, &gfid, &dir);
	if (err == -ELAYOUT && !is_root(b->loc->parent)) /* its names are being moved; or nobody knows where it is at home */
		return BRING_WIDE;
	if (err == -EMARKED) /* perhaps by one who died, and of a name that nobody asks for */
		mark_end_left_over(b->rq, b->d, owner, b->loc->parent, mark_hash(s->name));
	if (err || !pointer || dir)
		return err == -ENOENT || !err ? BRING_NOTHING : err == -EMARKED ? BRING_BUSY : err;
	err = look_at_file(b); /* also beside the name: what is there may be what is left of a file that was moved */
	if (err)
		return err == BRING_LED ? name_lead(b->rq, b->d, b->loc, owner, pointer, &s->aim) : err;
	if (s->aim.child == owner || can_stay(b->d, s->aim.child))
		return BRING_NOTHING;
	if (kept_stays(b->rq, b->d, s->aim.child, b->file))
		return BRING_RECENT;
	b->it.several = b->attr.nlink != 1;
	err = b->it.several ? read_anchors(b) : 0;
	if (err)
		return err;
	if (!has_room(b))
		return BRING_FULL;
	err = read_counted(b, s->aim.child, &b->before);
	if (err || b->before.locked)
		return err ? err : BRING_LOCKED;
	return side_find_path(b->rq, b->d, s, b->loc->parent);
}

/* ---- the copy ---- */

/* Two copies of a file would be one object twice: who has the mark of the copy's name makes one. Who was taken over, and undone, before he had it, would make one that
 * nobody ends: so he looks. Who is taken over after that finds another attempt's mark there. And whoever had the mark before him may have brought the file. */
static int claim(struct bringing *b)
{
	const struct side *s = side_of(b);
	char name[HIDDEN_NAME];
	int err = work_dir(b->rq, b->d, s->child, work_of(&s->aim.gfid), true, &b->dir);

	copy_name(&s->aim.gfid, name);
	if (!err)
		err = mark_put(b->rq, b->d, &b->it, s->child, b->dir, name, 0);
	if (err == -EMARKED && !mark_end_left_over(b->rq, b->d, s->child, b->dir, mark_hash(name)))
		err = mark_put(b->rq, b->d, &b->it, s->child, b->dir, name, 0);
	if (!err)
		err = intent_stands(b->rq, b->d, &b->it);
	if (!err)
		err = look_at_file(b);
	return err == -EMARKED || err == -EFENCED || err == BRING_LED ? BRING_BUSY : err;
}

static int read_target(struct bringing *b, struct readlink_out *out)
{
	struct readlink_in in = { .inode = b->file };
	int err = place_say(b->rq, b->d, &(struct place){ 0 });

	return err ? err : readlink_on(b->rq, b->d->x->child[side_of(b)->aim.child], &in, out);
}

/* A link is made as what it is, for what it leads to never changes; a node, too. */
static int make_typed(struct bringing *b, const struct loc *loc, const struct readlink_out *target)
{
	struct mknod_in node = {
		.loc = *loc, .gfid = b->file->gfid, .mode = (b->attr.mode & S_IFMT) | 0600, .rdev = b->attr.rdev
	};
	struct symlink_in link = { .loc = *loc, .gfid = b->file->gfid, .target = target->target };
	struct xlator *child = b->d->x->child[side_of(b)->child];
	struct mknod_out out = { 0 }; /* a symlink_out is the same */
	int err = S_ISLNK(b->attr.mode) ? symlink_on(b->rq, child, &link, (struct symlink_out *)&out)
					: mknod_on(b->rq, child, &node, &out);

	fop_out_clear(FOP_mknod, &out);
	return err == -EEXIST ? BRING_BUSY : err;
}

/* Born as what is elsewhere: nobody takes it for the file, though it has its gfid. */
static int make_copy(struct bringing *b)
{
	const struct side *s = side_of(b);
	struct mark m = { mark_hash(MARK_GOES), b->it.id, attempt_of(&b->it), (uint32_t)s->child };
	struct pointer leads = { (uint32_t)s->aim.child, s->aim.gfid, b->it.id };
	uint8_t pointer[POINTER_SIZE], kept[STUB_SIZE], mark[MARK_SIZE];
	char name[HIDDEN_NAME], of_mark[MARK_NAME];
	struct born_xattr x[] = { { DHT_POINTER_XATTR, pointer, POINTER_SIZE },
				  { DHT_KEPT_XATTR, kept, STUB_SIZE },
				  { mark_name(m.hash, of_mark), mark, MARK_SIZE } };
	struct loc loc = { .parent = b->dir, .name = copy_name(&s->aim.gfid, name) };
	struct readlink_out target = { 0 };
	int err = S_ISLNK(b->attr.mode) ? read_target(b, &target) : 0;

	pointer_encode(&leads, pointer);
	stub_encode(&leads, kept);
	mark_encode(&m, mark);
	if (!err)
		err = born_attach(b->rq, x, 3);
	if (!err)
		err = place_say(b->rq, b->d,
				&(struct place){ .flags = PLACE_POINTER, .intent = b->it.id, .attempt = attempt_of(&b->it) });
	if (!err)
		err = make_typed(b, &loc, &target);
	born_attach(b->rq, NULL, 0);
	place_say(b->rq, b->d, &(struct place){ 0 });
	fop_out_clear(FOP_readlink, &target);
	return err;
}

/* For who has the file open where it is now: he finds it by that when it has been moved, and it stays as long as he has it. */
static int keep_name(struct bringing *b)
{
	cleanup_inode struct inode *dir = NULL;
	char name[HIDDEN_NAME];
	struct link_in in = { .inode = b->file, .loc = { .name = kept_name(&b->it.id, name) } };
	struct link_out out = { 0 };
	int err = work_dir(b->rq, b->d, side_of(b)->child, work_of(&b->it.id), true, &dir);

	in.loc.parent = dir;
	if (!err)
		err = mean_pointers(b->rq, b->d, true);
	if (!err)
		err = link_on(b->rq, b->d->x->child[side_of(b)->child], &in, &out);
	mean_pointers(b->rq, b->d, false);
	return err;
}

/* So that nobody takes the record for that of one who died. */
static int renew(struct bringing *b)
{
	uint64_t now = clock_ns();

	if (now < b->renewed_ns + b->d->sweep_ms * 500000)
		return 0;
	b->renewed_ns = now;
	b->rq->deadline_ns = now + STEPS_NS;
	return intent_renew(b->rq, b->d, &b->it);
}

static int pass(void *arg, uint64_t bytes)
{
	struct bringing *b = arg;
	int more, err;

	do {
		more = b->throttle ? b->throttle->pass(b->throttle->arg, bytes) : 0;
		err = more < 0 ? more : renew(b);
		bytes = 0;
	} while (more > 0 && !err);
	return err;
}

static int copy(struct bringing *b)
{
	struct throttle own = { pass, b };
	int err = claim(b);

	if (!err)
		err = make_copy(b);
	if (!err)
		err = keep_name(b);
	if (!err)
		err = read_counted(b, side_of(b)->child, &b->copied);
	b->renewed_ns = clock_ns();
	return err || !S_ISREG(b->file->type) ? err : copy_data(b->rq, b->d, &b->it, b->file, &own);
}

/* ---- nobody changes it ---- */

/* One who was slow may have frozen it after others had ended what he began; and nobody else may want to change it. */
static int freeze(struct bringing *b)
{
	int err = side_mark(b->rq, b->d, &b->it, SIDE_GOES);

	if (err == -EMARKED && !mark_end_left_over(b->rq, b->d, side_of(b)->aim.child, b->file, mark_hash(MARK_GOES)))
		err = side_mark(b->rq, b->d, &b->it, SIDE_GOES);
	return err;
}

/* The file is frozen only while its name is marked and stands for it: so its anchor stays, by which others find it to thaw it. */
static int hold(struct bringing *b)
{
	struct standing now;
	int err = MUTANT("stub-without-marks") ? 0 : side_mark(b->rq, b->d, &b->it, 0);

	if (!err)
		err = name_look(b->rq, b->d, &b->it, 0, &now);
	if (!err && !gfid_equal(&now.gfid, &side_of(b)->aim.pgfid))
		return BRING_BUSY;
	if (!err)
		err = freeze(b);
	if (!err && b->it.several)
		err = anchors_hold(b->rq, b->d, &b->it);
	if (err)
		return err == -EMARKED || err == -ESTALE || err == -ENOENT || err == -ELAYOUT ? BRING_BUSY : err;
	err = look_at_file(b);
	if (!err && b->it.several)
		err = read_anchors(b);
	else if (!err && b->attr.nlink != 1)
		err = BRING_LINKS;
	return err == BRING_LED || err == BRING_LINKS ? BRING_BUSY : err;
}

static int copy_again(struct bringing *b)
{
	int err = b->attr.size > FROZEN_MOST ? BRING_CHANGES : read_counted(b, side_of(b)->child, &b->copied);

	return err || !S_ISREG(b->file->type) ? err : copy_data(b->rq, b->d, &b->it, b->file, NULL);
}

/* Is the copy what the file is? */
static int compare(struct bringing *b)
{
	struct counted now;
	int at = side_of(b)->aim.child, err = read_counted(b, at, &now);

	if (err)
		return err;
	if (now.locked || (S_ISREG(b->file->type) && told_by_any(b->rq, b->d, at, b->file, LOCKED_LINE, true)))
		return BRING_LOCKED;
	return now.number == b->before.number && !strcmp(now.by, b->before.by) ? 0 : copy_again(b);
}

/* A brick that has lost its power since syncs what it has still, and says that it has synced all. */
static int is_kept(struct bringing *b, bool *yes)
{
	struct counted now;
	int err = read_counted(b, side_of(b)->child, &now);

	*yes = !err && !strcmp(now.by, b->copied.by);
	return err;
}

/* It was given before anybody counted: so it is looked at. 1: it had gone, and is given anew. */
static int keep_name_still(struct bringing *b)
{
	cleanup_inode struct inode *dir = NULL, *found = NULL;
	int err, child = side_of(b)->child;
	char name[HIDDEN_NAME];

	if (MUTANT("lose-kept-name"))
		return 0;
	err = work_dir(b->rq, b->d, child, work_of(&b->it.id), false, &dir);
	if (!err)
		err = hidden_find(b->rq, b->d, child, dir, kept_name(&b->it.id, name), &found);
	if (!err && found == b->file)
		return 0;
	if (err && err != -ENOENT && err != -ESTALE)
		return err;
	err = keep_name(b);
	return err ? err : 1;
}

static int complete(struct bringing *b)
{
	enum { TRIES = 3 };
	bool kept = false;
	int err = 0;

	for (int tries = 0; !err && !kept; tries++) {
		int anew = 0;

		if (tries)
			err = tries < TRIES ? copy_again(b) : BRING_CHANGES;
		if (!err)
			err = copy_rest(b->rq, b->d, &b->it, b->file);
		if (!err)
			err = is_kept(b, &kept);
		if (!err && kept)
			anew = keep_name_still(b);
		err = anew < 0 ? anew : err;
		kept &= !anew;
	}
	return err;
}

/* It has all of its anchors there, too. (If all members have lost their power since the copy was begun, nobody knows what each has kept of them.) */
static int arrive_with_names(struct bringing *b)
{
	bool kept = true;
	int err = MUTANT("move-one-name") ? 0 : anchors_copy(b->rq, b->d, &b->it, b->file, &b->anchors);

	if (!err)
		err = is_kept(b, &kept);
	return err ? err : kept ? 0 : BRING_CHANGES;
}

/* What the record says is on disk, and all that was done there before. */
static int arrive(struct bringing *b)
{
	int err = intent_becomes(b->rq, b->d, &b->it, INTENT_OPEN);

	if (!err && b->it.several)
		err = arrive_with_names(b);
	if (!err && !MUTANT("stub-without-marks"))
		err = side_confirm(b->rq, b->d, &b->it, 0);
	return err ? err : intent_stands(b->rq, b->d, &b->it);
}

/* ---- the whole ---- */

static void give_up(struct bringing *b)
{
	b->rq->deadline_ns = clock_ns() + STEPS_NS;
	if (!intent_becomes(b->rq, b->d, &b->it, INTENT_UNDONE))
		bring_undo(b->rq, b->d, &b->it);
	else /* others have ended it, and may have let go before this one marked */
		marks_drop(b->rq, b->d, &b->it);
}

/* Nobody knows whether it was decided, or somebody else has taken it over: as the file says. */
static int end_as_it_is(struct bringing *b, int err)
{
	char name[HIDDEN_NAME];
	struct standing now;
	struct intent it;

	b->rq->deadline_ns = clock_ns() + STEPS_NS;
	if (!intent_find(b->rq, b->d, side_of(b)->child, &b->it.id, &it))
		intent_end(b->rq, b->d, side_of(b)->child, intent_name(&it, name));
	place_say(b->rq, b->d, &(struct place){ 0 });
	b->it.id = (struct gfid){ { 0 } };
	if (name_look(b->rq, b->d, &b->it, 0, &now) || !gfid_equal(&now.gfid, &side_of(b)->aim.gfid))
		return err;
	return BROUGHT;
}

/* By another of its names others may have been sooner; and who was so slow that he seemed dead was taken over. */
static int why_not(int err)
{
	if (err == -ENOSPC || err == -EDQUOT)
		return BRING_FULL;
	return err == -EMOVED || err == -EPOINTER || err == -EFENCED ? BRING_BUSY : err;
}

static int carry_out(struct bringing *b)
{
	int err = intent_write(b->rq, b->d, &b->it);

	b->it.marked = b->it.attempt; /* renewing the record makes no other marks */
	if (err)
		return err;
	err = copy(b);
	b->rq->deadline_ns = clock_ns() + STEPS_NS;
	if (!err)
		err = renew(b); /* what follows takes less than a sweep */
	if (!err)
		err = hold(b);
	if (!err)
		err = compare(b);
	if (!err)
		err = complete(b);
	if (!err)
		err = arrive(b);
	if (err) {
		give_up(b);
		return why_not(err);
	}
	err = stub_set(b->rq, b->d, &b->it, b->file);
	if (!err)
		err = intent_becomes(b->rq, b->d, &b->it, INTENT_DECIDED);
	if (!err)
		err = bring_finish(b->rq, b->d, &b->it);
	if (err)
		err = why_not(end_as_it_is(b, err));
	return err ? err : b->anchors.count > 1 ? BROUGHT_NAMES : BROUGHT;
}

int file_bring(struct request *rq, struct dht *d, const struct loc *loc, int owner, const struct throttle *throttle,
	       uint64_t *bytes)
{
	struct bringing b = { .rq = rq, .d = d, .loc = loc, .throttle = throttle, .it = { .sides = 1, .of_file = true } };
	int err;

	gfid_create(&b.it.id);
	err = find(&b, owner);
	*bytes = 512 * b.attr.blocks;
	if (!err) {
		task_shield(true);
		rq->deadline_ns = clock_ns() + STEPS_NS;
		err = carry_out(&b);
		task_shield(false);
	}
	if (err == BROUGHT || err == BROUGHT_NAMES)
		atomic_fetch_add(&d->brought, 1);
	anchors_clear(&b.anchors);
	inode_unref(b.file);
	inode_unref(b.dir);
	return err;
}

/* ---- one that somebody asks for ---- */

struct bring_call {
	struct dht *d;
	const char *name;
	FILE *to;
	int err;
};

static void bring_asked(void *arg)
{
	static const char *const why[BRINGS] = { "brought",
						 "brought, and has other names",
						 "led to where it is",
						 "nothing to bring",
						 "of a kind that its brick does not move",
						 "at home by another of its names",
						 "locked",
						 "changing",
						 "moved recently",
						 "no room",
						 "busy",
						 "in a wide directory" };
	struct bring_call *c = arg;
	cleanup_inode struct inode *root = root_of(c->d);
	struct loc loc = { .parent = root, .name = c->name };
	int owner = root_owner(c->d, c->name);
	uint64_t bytes = 0;
	struct request rq;

	c->err = !root ? -ENOMEM : !has_subvolume(c->d, (uint64_t)owner) ? -EIO : 0;
	if (c->err)
		return;
	request_init(&rq, c->d->x->graph, 0);
	rq.group_count = 0;
	rq.deadline_ns = clock_ns() + 10000000000u;
	c->err = file_bring(&rq, c->d, &loc, owner, NULL, &bytes);
	request_finish(&rq);
	if (c->err >= 0)
		fprintf(c->to, "%s\n", why[c->err]);
}

int bring_command(struct dht *d, const char *name, FILE *to)
{
	struct bring_call c = { d, name, to, 0 };

	if (task_self())
		bring_asked(&c);
	else
		task_call(bring_asked, &c);
	return c.err < 0 ? c.err : 0;
}
