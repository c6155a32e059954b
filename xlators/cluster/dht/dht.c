/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: one tree over several subvolumes. The root is at all of them, and a name in it at the one that the layout chooses; whatever is
 * below is where its directory is (doc/distribution.md, step 2). Here is how an operation is done there. */
#include "dht.h"

#include <stdlib.h>

#include "location.h"
#include "quota.h"

static const struct option options[] = {
	{ "log-size", OPTION_INT, OPTION_AT(struct dht, log_size), "65536",
	  "places (24 bytes, and 8 to 16 in a table) that each open root remembers for seekdir(3) before it keeps fewer of the older ones",
	  256, 1 << 24 },
	{ "min-free", OPTION_PERCENT, OPTION_AT(struct dht, min_free), "5",
	  "a subvolume with less of its blocks free gets no new files, as long as others have more; 0: each takes what there is",
	  .live = true },
	{ "lean", OPTION_PERCENT, OPTION_AT(struct dht, lean), "2",
	  "a subvolume of which so many points more are used than of all in the mean gets no new directories; 0: as long as it has room",
	  .live = true },
	{ "scatter", OPTION_INT, OPTION_AT(struct dht, scatter), "0",
	  "one new directory in so many is made elsewhere than its name belongs; 0: none", 0, 1 << 20, .live = true },
	{ "initial", OPTION_INT, OPTION_AT(struct dht, initial), "0",
	  "how many subvolumes, from initial-from, the volume began with: they have the names until the volume's layout says otherwise; 0: all",
	  0, SUBVOLUMES_MAX },
	{ "initial-from", OPTION_INT, OPTION_AT(struct dht, initial_from), "0",
	  "the first of these: another one than 0 where that has left the volume", 0, SUBVOLUMES_MAX - 1 },
	{ "leaving", OPTION_INT, OPTION_AT(struct dht, leaving), "-1",
	  "the subvolume, by its number from 0, that is to leave the volume: nothing new is put there, and a rebalance moves what it has to the others; -1: none",
	  -1, SUBVOLUMES_MAX - 1 },
	{ "weights", OPTION_STRING, OPTION_AT(struct dht, weights), "",
	  "shares of the names of the root that a rebalance gives to the subvolumes, in their order: numbers from 1 to 1000 with commas between, as 1,1,2; empty: as they are" },
	{ "rate", OPTION_SIZE, OPTION_AT(struct dht, rate), "0",
	  "bytes a second that a rebalance copies at most; 0: as fast as it can", .live = true },
	{ "parallel", OPTION_INT, OPTION_AT(struct dht, parallel), "4", "files that a rebalance copies at a time", 1, 64,
	  .live = true },
	{ "sweep-interval", OPTION_DURATION, OPTION_AT(struct dht, sweep_ms), "10s",
	  "how often to look for what died clients began with files that are elsewhere than their names", 10, 86400000,
	  .live = true },
	{ NULL },
};

/* ---- names of what may be elsewhere ---- */

static int make_away(struct request *rq, struct dht *d, enum fop fop, const void *in, void *out, int owner, int *child)
{
	int err = *child == owner ? -EOPNOTSUPP : away_make(rq, d, fop, in, out, owner, child);

	if (err == -EXDEV && !MUTANT("tell-border")) /* what the directory's limit holds is at the directory's brick */
		err = -EOPNOTSUPP;
	if (!err)
		atomic_fetch_add(&d->put_away, 1);
	else
		*child = owner;
	return err;
}

static int make_file(struct request *rq, struct dht *d, enum fop fop, const void *in, void *out, int *child)
{
	const struct gfid *gfid =
		fop == FOP_create ? &((const struct create_in *)in)->gfid : &((const struct mknod_in *)in)->gfid;
	bool opens = fop == FOP_create && !(((const struct create_in *)in)->flags & O_EXCL);
	int owner = *child, err;

	*child = place_for_new(rq, d, owner, gfid);
	err = make_away(rq, d, fop, in, out, owner, child);
	if (err != -EOPNOTSUPP && !(err == -EEXIST && opens))
		return err;
	err = fop_call(rq, d->x->child[owner], fop, in, out);
	if (err != -ENOSPC)
		return err;
	*child = place_when_full(rq, d, owner, gfid);
	*child = *child < 0 ? owner : *child;
	err = make_away(rq, d, fop, in, out, owner, child);
	return err == -EOPNOTSUPP ? -ENOSPC : err;
}

static int make_directory(struct request *rq, struct dht *d, const struct mkdir_in *in, struct mkdir_out *out, int *child)
{
	int owner = *child, err;

	*child = place_for_directory(rq, d, owner, &in->gfid);
	err = make_away(rq, d, FOP_mkdir, in, out, owner, child);
	return err == -EOPNOTSUPP ? mkdir_on(rq, d->x->child[owner], in, out) : err;
}

/* As the subvolume that has the name does it; *child: where the object is that comes of it. */
static int call_by_name(struct request *rq, struct dht *d, enum fop fop, const void *in, void *out, int *child)
{
	switch ((int)fop) {
	case FOP_lookup:
		return away_lookup(rq, d, in, out, child);
	case FOP_create:
		return make_file(rq, d, fop, in, out, child);
	case FOP_mkdir:
		return make_directory(rq, d, in, out, child);
	case FOP_mknod:
		if (S_ISREG(((const struct mknod_in *)in)->mode))
			return make_file(rq, d, fop, in, out, child);
		break;
	case FOP_rename:
		if (((const struct rename_in *)in)->flags & RENAME_EXCHANGE) /* done once more it would be undone */
			return away_rename(rq, d, in, *child);
		break;
	default:
		break;
	}
	return fop_call(rq, d->x->child[*child], fop, in, out);
}

/* What was there may go, and come again. */
static int open_or_make(struct request *rq, struct dht *d, const struct create_in *in, struct create_out *out, int *child)
{
	enum { TRIES = 16 };
	int owner = *child, err = -EPOINTER;
	bool pointer = true, nothing = false;

	for (int tries = 0; tries < TRIES && (pointer || nothing); tries++) {
		bool opens = pointer;

		*child = owner;
		err = opens ? away_open(rq, d, in, out, child) : make_file(rq, d, FOP_create, in, out, child);
		pointer = err == -EPOINTER || err == -EMOVED;
		nothing = err == -ENOENT || (err == -ESTALE && !opens);
	}
	return err;
}

/* A name led to a pointer. */
static int by_pointer(struct request *rq, struct dht *d, enum fop fop, const void *in, void *out, int *child)
{
	switch ((int)fop) {
	case FOP_create:
		return open_or_make(rq, d, in, out, child);
	case FOP_unlink:
		return away_unlink(rq, d, in, *child);
	case FOP_rename:
		return away_rename(rq, d, in, *child);
	case FOP_rmdir:
		return rmdir_away(rq, d, in, *child);
	default:
		return -EIO;
	}
}

/* A file that the operation is about is at another subvolume by now. */
static bool is_moved(enum fop fop, int err)
{
	return (err == -EMOVED && fop != FOP_create) || (err == -EPOINTER && fop == FOP_link);
}

/* What bricks tell this client, and no application sees. */
static int for_applications(struct dht *d, enum fop fop, int err)
{
	if (is_moved(fop, err))
		return err;
	if (err != -EPOINTER && err != -EMOVED && err != -EWIDE && err != -EFENCED)
		return err;
	log_error(d->x, NULL, "%s: refused by the brick's layout (%d): this client knows less of layouts than the volume uses",
		  fop_info[fop].name, -err);
	return -EIO;
}

static int noted(struct dht *d, enum fop fop, void *out, int owner, int child)
{
	int err;

	if (child != owner)
		atomic_fetch_add(&d->followed, 1);
	err = note_out(d, fop, out, child, child != owner);
	if (!err && fop == FOP_open)
		note_opened(d, ((struct open_out *)out)->file, child);
	if (!err && fop == FOP_create)
		note_opened(d, ((struct create_out *)out)->file, child);
	if (err) {
		fop_out_clear((int)fop, out);
		memset(out, 0, fop_info[fop].out_size);
	}
	return err;
}

int open_at(struct request *rq, struct dht *d, const struct create_in *in, struct create_out *out, int owner)
{
	int child = owner, err = away_open(rq, d, in, out, &child);

	return err ? for_applications(d, FOP_create, err) : noted(d, FOP_create, out, owner, child);
}

/* Who opens a directory will list it, and ask whether that holds: by then the subvolume's word is here. */
static void ask_for_word(struct dht *d, enum fop fop, int child)
{
	enum { ASKED_LATELY_NS = 1000000000 };

	if (fop == FOP_opendir && clock_ns() < atomic_load(&d->asked_ns) + ASKED_LATELY_NS)
		moment_now(d->x->child[child]);
}

int call_at(struct request *rq, struct dht *d, enum fop fop, const void *in, void *out, int owner)
{
	int child = owner, err;

	ask_for_word(d, fop, owner);
	err = call_by_name(rq, d, fop, in, out, &child);
	if ((err == -EPOINTER && !is_moved(fop, err)) ||
	    (err == -EMOVED && fop == FOP_create)) /* replica sets open what is there */
		err = by_pointer(rq, d, fop, in, out, &child);
	if (err == -EWIDE && fop == FOP_rename) /* of directories, which this subvolume alone can't judge */
		err = rename_across(rq, d, in, (int[]){ owner, owner });
	if (err == -EWIDE && fop == FOP_rmdir)
		err = rmdir_away(rq, d, in, owner);
	if (err == -EWIDE) /* it is of a directory that is known to be whole */
		err = -ELAYOUT;
	return err ? for_applications(d, fop, err) : noted(d, fop, out, owner, child);
}

/* link(2): the name belongs to one subvolume, the object is at another. */
static int link_across(struct request *rq, struct dht *d, const struct link_in *in, struct link_out *out)
{
	struct route name = { rq, d, ANY }, object = { rq, d, ANY };
	int err = route_loc(&name, &in->loc, FOP_link);

	if (!err)
		err = route_inode(&object, in->inode);
	if (err)
		return err;
	err = away_link(rq, d, in, out, name.child, object.child);
	if (!err)
		note_place(d, in->inode, object.child, true);
	return for_applications(d, FOP_link, err);
}

int call_across(struct request *rq, struct dht *d, const struct rename_in *in, const int child[2])
{
	return for_applications(d, FOP_rename, rename_across(rq, d, in, child));
}

static int renamed(struct request *rq, struct dht *d, const struct rename_in *in)
{
	int child[2];
	int err = subvolume_of_name(rq, d, &in->from, FOP_rename, &child[0]);

	if (!err)
		err = subvolume_of_name(rq, d, &in->to, FOP_rename, &child[1]);
	return err ? err : call_across(rq, d, in, child);
}

/* Not all of it is at one subvolume. */
static int across(struct request *rq, struct dht *d, enum fop fop, const void *in, void *out)
{
	int err = fop == FOP_link ? link_across(rq, d, in, out) : fop == FOP_rename ? renamed(rq, d, in) : -EXDEV;

	atomic_fetch_add(&d->across, err == -EXDEV);
	return err;
}

/* Files may have been opened elsewhere. */
static int call_with_files(struct request *rq, struct dht *d, enum fop fop, const void *in, void *out, int child)
{
	char room[IN_ROOM] __attribute__((aligned(16)));
	const void *given = in;
	int err = files_at(rq, d, fop, &in, room, child);

	if (!err)
		err = call_at(rq, d, fop, in, out, child);
	if (err == -EBADF && files_were_elsewhere(d, fop, given)) {
		in = given;
		err = files_at(rq, d, fop, &in, room, child);
		err = err ? err : call_at(rq, d, fop, in, out, child);
	}
	return err == -EXDEV && fop == FOP_flush ? 0 : err;
}

static int call_once(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct route r = { rq, x->private, ANY };
	struct inode *object;
	int err;

	if (fop == FOP_compound || fop == FOP_replica) /* nobody above sends them */
		return -EOPNOTSUPP;
	err = place_say_for(rq, r.d, fop, in);
	if (!err && (err = call_moving(rq, r.d, fop, in, out)) != NOT_MOVING)
		return err;
	object = err >= 0 ? object_asked(fop, in) : NULL;
	if (object && spread_said(rq, r.d, object))
		return shards_fop(rq, r.d, object, fop, in, out);
	if (err >= 0)
		err = route(&r, fop, in);
	if (err == -EXDEV)
		return across(rq, r.d, fop, in, out);
	if (err)
		return err;
	if (r.child == ANY) /* nothing is named, or the root alone */
		return shards_fop(rq, r.d, NULL, fop, in, out);
	return answer_completed(rq, r.d, fop, in, out, call_with_files(rq, r.d, fop, in, out, r.child));
}

/* A name that is being renamed over two subvolumes is neither there nor gone: one waits. */
static int call_waiting(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	enum { WAIT_MS = 30000 };
	uint64_t deadline_ns = rq->deadline_ns;
	struct patience p = { 0 };
	bool followed = false;
	int err, waited = 0;

	while (((err = call_once(rq, x, fop, in, out)) == -EMARKED || is_moved(fop, err)) && !waited) {
		if (!rq->deadline_ns)
			rq->deadline_ns = clock_ns() + WAIT_MS * 1000000ull;
		if (err != -EMARKED)
			waited = follow_moved(rq, x->private, fop, in, err);
		if (err == -EMARKED || waited == -EAGAIN || (!waited && followed))
			waited = marks_wait(rq, x->private, &p, fop, in);
		followed = err != -EMARKED;
	}
	rq->deadline_ns = deadline_ns;
	return err == -EMARKED || is_moved(fop, err) ? waited : err;
}

/* What was placed by one layout and not found by the next may have been moved in between. */
static int call_by_layout(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct learning before;
	int err;

	do {
		learning_begin(x->private, &before, fop, in);
		err = call_waiting(rq, x, fop, in, out);
	} while (err == -ENOENT && learning_has_learnt(x->private, &before));
	return err;
}

int dht_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct learning l;
	int err, none = 0;

	learning_begin(x->private, &l, fop, in);
	while ((err = call_by_layout(rq, x, fop, in, out)) == -ELAYOUT && !none)
		none = layout_learn(rq, x->private, &l);
	return err == -ELAYOUT ? none : err;
}

/* ---- what those above may believe ---- */

/* The names of a directory, its mode and ACL are changed where it is, however its own name leads to it. Links to a file, which its attributes count, are made and
 * removed under directories that this client does not know. */
static bool changes_behind_pointers(struct dht *d, struct inode *inode)
{
	return !S_ISDIR(inode->type) && known_away(d, inode);
}

/* What is at several is believed as far as all vouch for it. */
static uint64_t believed_at(struct dht *d, struct inode *inode, enum believe what, uint64_t since)
{
	const struct spread *s = spread_in(d, inode);
	uint64_t least = UINT64_MAX;
	int child = s ? -1 : place_known(d, inode);

	if (child >= 0)
		return believe_ms(d->x->child[child], inode, what, since);
	if (!s)
		return 0;
	for (int i = 0; i < d->x->children && least; i++) {
		uint64_t ms;

		if (!(s->members >> i & 1))
			continue;
		ms = believe_ms(d->x->child[i], inode, what, since);
		least = ms < least ? ms : least;
	}
	return least;
}

/* Moments are the same for all subvolumes of a process (cluster/afr, features/believe). Where it is is looked at before whether it has moved. */
static uint64_t dht_believe(struct xlator *x, struct inode *inode, enum believe what, uint64_t since)
{
	struct dht *d = x->private;
	uint64_t ms;

	if (!inode) {
		atomic_store(&d->asked_ns, clock_ns());
		return moment_of(d);
	}
	if (changes_behind_pointers(d, inode))
		return 0;
	ms = believed_at(d, inode, what, since);
	return since > atomic_load(moved_of(d, inode)) ? ms : 0;
}

/* ---- events, set-up ---- */

static void child_changed(struct xlator *x, const struct xlator *from, bool up)
{
	struct dht *d = x->private;
	uint64_t bit = 0, before;
	struct event e = { .kind = up ? EVENT_CHILD_UP : EVENT_CHILD_DOWN };

	for (int i = 0; i < x->children; i++)
		bit |= x->child[i] == from ? 1ull << i : 0;
	before = up ? atomic_fetch_and(&d->down, ~bit) : atomic_fetch_or(&d->down, bit);
	if (up)
		log_info(x, NULL, "%s is reachable", from->name);
	else
		log_warning(x, NULL, "%s is not reachable: what is there is missing until it comes back", from->name);
	if (up ? before == all_of(d) : (before | bit) == all_of(d))
		event_up(x, &e);
}

static void dht_notify(struct xlator *x, struct xlator *from, const struct event *e)
{
	if (e->kind == EVENT_CHILD_UP || e->kind == EVENT_CHILD_DOWN)
		child_changed(x, from, e->kind == EVENT_CHILD_UP);
	else
		event_up(x, e);
}

/* Those that have the names at first have not left. */
static int check_initial(const struct dht *d, struct problem *p)
{
	int64_t end = d->initial ? d->initial_from + d->initial : d->x->children;

	for (int64_t i = d->initial_from; i < end; i++)
		if (!has_subvolume(d, (uint64_t)i))
			return problem_set(
				p, EINVAL,
				"volume %s: options initial and initial-from name subvolume %lld, and there is none of that number: they are to name some that there are",
				d->x->name, (long long)i);
	return end > d->initial_from
		       ? 0
		       : problem_set(p, EINVAL, "volume %s: option initial-from is %lld, and there are only %d subvolumes",
				     d->x->name, (long long)d->initial_from, d->x->children);
}

/* "1,2,1": of the first ones; there may be some of subvolumes that are still to come. */
static int read_weights(struct dht *d, struct problem *p)
{
	enum { MOST = 1000 };
	const char *at = d->weights;
	bool good = true;

	for (int i = 0; good && at && *at; i++) {
		char *end;
		unsigned long weight = strtoul(at, &end, 10);

		good = i < SUBVOLUMES_MAX && *at >= '0' && *at <= '9' && weight >= 1 && weight <= MOST &&
		       (!*end || (*end == ',' && end[1]));
		if (good)
			d->weight[i] = (uint16_t)weight;
		at = *end ? end + 1 : end;
	}
	return good ? 0
		    : problem_set(
			      p, EINVAL,
			      "volume %s: option weights is \"%s\": write a number from 1 to %d for each subvolume, %d at most, with commas between, as 1,1,2",
			      d->x->name, d->weights, MOST, SUBVOLUMES_MAX);
}

static int dht_init(struct xlator *x, struct problem *p)
{
	struct dht *d = x->private;

	int err;

	d->x = x;
	for (int i = 0; i < x->children; i++)
		d->absent |= strcmp(x->child[i]->type->name, "cluster/absent") ? 0 : 1ull << i;
	err = check_initial(d, p);
	if (!err && has_leaver(d) && (!has_subvolume(d, (uint64_t)d->leaving) || !(all_of(d) & ~leaving_of(d))))
		err = problem_set(
			p, EINVAL,
			"volume %s: option leaving is %lld, and there is no such subvolume, or no other: set it to -1", x->name,
			(long long)d->leaving);
	if (!err)
		err = read_weights(d, p);
	if (err)
		return err;
	pthread_mutex_init(&d->lock, NULL);
	atomic_store(&d->down, all_of(d)); /* nobody has said yet that it is up */
	return spread_start(d) ? problem_set(p, ENOMEM, "volume %s: no memory", x->name) : 0;
}

static int dht_start(struct xlator *x, struct problem *p)
{
	int err = sweep_start(x->private);

	return err ? problem_set(p, -err, "volume %s: no memory", x->name) : 0;
}

static void forget_hidden(struct xlator *x)
{
	for (int i = 0; i < x->children; i++)
		hidden_forget(x->private, i);
}

static void dht_stop(struct xlator *x)
{
	rebalance_stop(x->private);
	sweep_stop(x->private);
	forget_hidden(x);
}

static void dht_finish(struct xlator *x)
{
	struct dht *d = x->private;

	forget_hidden(x);
	rebalance_free(d);
	spreads_free(&d->root);
	pthread_mutex_destroy(&d->lock);
}

static void dht_forget_inode(struct xlator *x, struct inode *inode, void *slot)
{
	(void)x, (void)inode;
	shards_free(in_slot(slot)); /* else it is a number */
}

static void dht_forget_file(struct xlator *x, struct file *file, void *slot)
{
	(void)x;
	if (S_ISREG(file->inode->type))
		followed_free(slot);
	else
		wide_free(slot);
}

/* What is open goes on as it was opened. */
static bool dht_inherit_file(struct xlator *x, const struct xlator *old, struct file *file, void *slot)
{
	if (S_ISDIR(file->inode->type))
		wide_inherit(x, old, slot);
	else if (S_ISREG(file->inode->type))
		followed_inherit(x, old, slot);
	else
		return false;
	return true;
}

static void dht_dump(struct xlator *x, FILE *f)
{
	struct dht *d = x->private;

	for (int i = 0; i < x->children; i++)
		fprintf(f, "  subvolume %d: %s%s%s%s\n", i, x->child[i]->name,
			has_subvolume(d, (uint64_t)i) ? "" : ", has left the volume",
			atomic_load(&d->down) >> i & 1 ? ", down" : "", is_member(d, i) ? "" : ", not in the root's layout");
	fprintf(f, "  version of the root's layout: %llu\n", (unsigned long long)spread_of(d)->layout.version);
	fprintf(f, "  renamed over two subvolumes: %llu\n", (unsigned long long)atomic_load(&d->renamed_across));
	fprintf(f, "  refused, for they were over several subvolumes: %llu\n", (unsigned long long)atomic_load(&d->across));
	fprintf(f, "  files made elsewhere than their names: %llu\n", (unsigned long long)atomic_load(&d->put_away));
	fprintf(f, "  operations that went by a pointer: %llu\n", (unsigned long long)atomic_load(&d->followed));
	fprintf(f, "  files brought home: %llu\n", (unsigned long long)atomic_load(&d->brought));
	fprintf(f, "  renames taken over: %llu\n", (unsigned long long)atomic_load(&d->taken_over));
	fprintf(f, "  ended for clients that died: %llu\n", (unsigned long long)atomic_load(&d->ended));
}

/* "bring NAME": the file of that name of the root is brought home. "locate NAME": where that name of the root is to be. "fsck ...": see fsck.h. "rebalance ...": rebalance.c. */
static int dht_command(struct xlator *x, int argc, char **argv, FILE *f)
{
	int owner;

	if (argc && !strcmp(argv[0], "fsck"))
		return fsck_command(x->private, argc - 1, argv + 1, f);
	if (argc && !strcmp(argv[0], "rebalance"))
		return rebalance_command(x->private, argc - 1, argv + 1, f);
	if (argc == 2 && !strcmp(argv[0], "bring") && !name_check(argv[1]))
		return bring_command(x->private, argv[1], f);
	if (argc != 2 || strcmp(argv[0], "locate") || name_check(argv[1])) {
		fprintf(f, "volume %s takes the commands locate NAME, bring NAME, rebalance ... and fsck ...\n", x->name);
		return -EINVAL;
	}
	owner = root_owner(x->private, argv[1]);
	if (!has_subvolume(x->private, (uint64_t)owner))
		return -EIO;
	fprintf(f, "%s\n", x->child[owner]->name);
	return 0;
}

/* What is said below of shards and pointers is nothing of the object that the mount shows: there it is as on a file system that does not know such xattrs. So
 * who copies all that is listed copies none, and who sets one hears that it can't be kept. */
static bool is_ours(const char *name)
{
	return !strncmp(name, DHT_XATTR, sizeof(DHT_XATTR) - 1);
}

static int dht_setxattr(struct request *rq, struct xlator *x, const struct setxattr_in *in, struct setxattr_out *out)
{
	return is_ours(in->name) ? -EOPNOTSUPP : dht_any(rq, x, FOP_setxattr, in, out);
}

static int dht_getxattr(struct request *rq, struct xlator *x, const struct getxattr_in *in, struct getxattr_out *out)
{
	if (is_ours(in->name))
		return -ENODATA;
	if (is_quota(in->name))
		return dht_quota(rq, x, in, out);
	return is_location(in->name) ? dht_location(rq, x->private, in, out) : dht_any(rq, x, FOP_getxattr, in, out);
}

static int dht_removexattr(struct request *rq, struct xlator *x, const struct removexattr_in *in, struct removexattr_out *out)
{
	return is_ours(in->name) ? -ENODATA : dht_any(rq, x, FOP_removexattr, in, out);
}

static bool is_not_ours(const void *arg, const char *name)
{
	(void)arg;
	return !is_ours(name);
}

static int dht_listxattr(struct request *rq, struct xlator *x, const struct listxattr_in *in, struct listxattr_out *out)
{
	int err = dht_any(rq, x, FOP_listxattr, in, out);

	if (!err)
		blob_keep_names(&out->names, is_not_ours, NULL);
	return err;
}

/* The bricks can't tell of a listing whom it was meant for: by another volume's file it would be a shorter list. */
static int dht_opendir(struct request *rq, struct xlator *x, const struct opendir_in *in, struct opendir_out *out)
{
	int err = is_root(in->inode) ? layout_check(rq, x->private, false) : 0;

	return err ? err : dht_any(rq, x, FOP_opendir, in, out);
}

static int dht_release(struct request *rq, struct xlator *x, const struct release_in *in, struct release_out *out)
{
	if (S_ISREG(in->file->inode->type) && file_slot(in->file, x))
		return follow_release(rq, x->private, in->file);
	return is_spread(x->private, in->file->inode) ? wide_release(rq, x->private, in->file)
						      : dht_any(rq, x, FOP_release, in, out);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "cluster/dht",
	.summary = "one tree over several subvolumes",
	.options = options,
	.private_size = sizeof(struct dht),
	.min_children = 1,
	.max_children = SUBVOLUMES_MAX,
	.init = dht_init,
	.start = dht_start,
	.stop = dht_stop,
	.finish = dht_finish,
	.notify = dht_notify,
	.forget_inode = dht_forget_inode,
	.forget_file = dht_forget_file,
	.inherit_file = dht_inherit_file,
	.dump = dht_dump,
	.command = dht_command,
	.believe = dht_believe,
	.any = dht_any,
	.opendir = dht_opendir,
	.release = dht_release,
	.statfs = dht_statfs,
	.setxattr = dht_setxattr,
	.getxattr = dht_getxattr,
	.listxattr = dht_listxattr,
	.removexattr = dht_removexattr,
};
