/* SPDX-License-Identifier: Apache-2.0 */
/* The scrub: every object of the tree is compared between the members, under its token, file data by checksums that the bricks
 * compute. A member that differs is told with the object's path; to repair it, it takes the way of a member that comes back, with
 * what differs as its pending list, so nobody reads a half-healed object. */
#include "coordinator.h"

enum { DEPTH_MAX = 64, TRIES = 20, AGAIN_MS = 20 };
#define OWED_NS	    1000000000ull
#define OWED_MAX_NS 3600000000000ull

struct todo {
	struct inode *inode, *parent; /* references: so that the members need not look for them */
	struct todo *next;
	char name[]; /* in the parent */
};
struct scrubbing {
	struct coordinator *c;
	struct heal look; /* changes nothing */
	struct view view;
	int truth;
	bool owed; /* what the members' power left may differ */
	struct todo *todo;
	uint64_t next_ns; /* when the rate lets the next object be looked at */
};

static bool stops(void *scrubbing)
{
	const struct scrubbing *s = scrubbing;
	bool stop;

	pthread_mutex_lock(&s->c->lock);
	stop = s->c->scrub.stop || s->c->view.epoch != s->view.epoch;
	pthread_mutex_unlock(&s->c->lock);
	return stop || atomic_load(&s->c->stopping);
}

/* ---- what is told ---- */

enum { PATH_SIZE = 1024 };

/* One step up: the object's first name at the member, and who has it. False: it can't tell. */
static bool name_of(struct scrubbing *s, struct request *rq, struct gfid *g, char name[256])
{
	struct replica_out out = { 0 };
	struct pack p = { 0 };
	struct unpack u;
	uint8_t length;
	bool told;

	pack_gfid(&p, g);
	told = !heal_verb(&s->look, rq, s->truth, REPLICA_FIND, NULL, &p, &out);
	u = unpack_blob(&out.data);
	told = told && unpack_u32(&u);
	*g = unpack_gfid(&u);
	length = unpack_u8(&u);
	unpack_bytes(&u, name, length);
	name[length] = '\0';
	fop_out_clear(FOP_replica, &out);
	return told && !u.failed;
}

/* A path of the object, by what the member tells; it begins with "?" where it can't, and is cut in front if it is long. */
static void path_of(struct scrubbing *s, struct request *rq, const struct gfid *g, char path[PATH_SIZE])
{
	size_t at = PATH_SIZE - 1, length;
	struct gfid above = *g;
	char name[256];

	path[at] = '\0';
	for (int depth = 0; depth < DEPTH_MAX && !gfid_equal(&above, &gfid_root); depth++) {
		bool told = name_of(s, rq, &above, name);

		length = told ? strlen(name) : 1;
		if (length + 1 > at)
			break;
		at -= length;
		memcpy(path + at, told ? name : "?", length);
		path[--at] = '/';
		if (!told)
			break;
	}
	if (!path[at])
		path[--at] = '/';
	memmove(path, path + at, PATH_SIZE - at);
}

/* With the lock held. */
static void keep(struct scrub *all, struct inode *inode)
{
	size_t room = all->kept_room ? 2 * all->kept_room : 64;
	struct inode **grown;

	if (all->kepts == all->kept_room) {
		grown = realloc(all->kept, room * sizeof(*grown));
		if (!grown)
			return;
		all->kept = grown;
		all->kept_room = room;
	}
	all->kept[all->kepts++] = inode_ref(inode);
}

static void tell(struct scrubbing *s, struct request *rq, const struct gfid *g, int member)
{
	cleanup_inode struct inode *inode = inode_find(s->c->x->inodes, g);
	struct gfid_list *differs = &s->c->member[member].differs;
	struct scrub *all = &s->c->scrub;
	char path[PATH_SIZE], text[GFID_TEXT];

	path_of(s, rq, g, path);
	log_warning(s->c->x, NULL, "scrub: %s (%s) differs on member %d", path, gfid_text(g, text), member);
	pthread_mutex_lock(&s->c->lock);
	all->differences++;
	if (all->findings < FINDINGS_MAX)
		all->finding[all->findings++] = (struct finding){ member, strdup(path) };
	if (all->repairs && list_add(differs, g))
		differs->all = true; /* memory is short, and nothing may be left out */
	s->c->member[member].added |= all->repairs;
	if (all->repairs && inode)
		keep(all, inode);
	pthread_mutex_unlock(&s->c->lock);
}

/* ---- one object ---- */

struct compared {
	struct gfid gfid;
	uint64_t piece; /* bytes that are compared at once */
	uint64_t at;	/* the piece of a file's data that is compared now */
	bool more;	/* there is one behind it */
	unsigned told;	/* members of which it was told that they differ */
	bool vote;	/* the first may be wrong about it */
};

/* A piece of it. 0: the same; -EUCLEAN: they differ. */
static int compare(struct scrubbing *s, struct request *rq, struct compared *o, int a, int b)
{
	int err = -EAGAIN;
	bool more = false;

	for (int i = 0; i < TRIES && err == -EAGAIN; i++) {
		if (i)
			task_sleep_ms(AGAIN_MS);
		err = heal_piece(&s->look, rq, &o->gfid, a, b, o->at, o->piece, &more);
	}
	o->more |= more;
	return err == -ENOENT ? 0 : err;
}

/* Where most differ from the first, it is the first that is wrong: its disk may be bad. But each member's names are those of one moment before its
 * power failed, and a recovery has made some names of the others those of the first. Of a file that was renamed between the moments the others'
 * name went then; where most are right about the rest its other name, at the first, would go, too. */
static int judge(struct scrubbing *s, struct request *rq, struct compared *o)
{
	unsigned differ = 0, members = view_mask(&s->view, MEMBER_IN) & ~(1u << s->truth);
	int err = 0, other;

	o->more = false;
	for (int i = 0; i < s->c->members && !err; i++) {
		if (!(members >> i & 1))
			continue;
		err = compare(s, rq, o, s->truth, i);
		differ |= err == -EUCLEAN ? 1u << i : 0;
		err = err == -EUCLEAN ? 0 : err;
	}
	if (err || !differ)
		return err;
	other = __builtin_ctz(differ);
	if (o->vote && differ == members && __builtin_popcount(differ) > 1 && other != s->c->heal.arbiter &&
	    !compare(s, rq, o, other, __builtin_ctz(differ & (differ - 1))))
		differ = 1u << s->truth;
	for (int i = 0; i < s->c->members; i++)
		if (differ >> i & 1 & ~(o->told >> i))
			tell(s, rq, &o->gfid, i);
	o->told |= differ;
	return 0;
}

/* ---- the walk ---- */

static int add(struct scrubbing *s, struct inode *inode, struct inode *parent, const char *name)
{
	struct todo *t = malloc(sizeof(*t) + strlen(name) + 1);

	if (!t)
		return -ENOMEM;
	*t = (struct todo){ inode_ref(inode), parent ? inode_ref(parent) : NULL, s->todo };
	memcpy(t->name, name, strlen(name) + 1);
	s->todo = t;
	return 0;
}

static void drop(struct todo *t)
{
	inode_unref(t->inode);
	inode_unref(t->parent);
	free(t);
}

struct listing {
	struct scrubbing *s;
	struct inode *directory;
};

static int add_child(void *listing, const struct dirent_plus *e)
{
	struct listing *l = listing;

	return !gfid_equal(&e->gfid, &gfid_limbo) ? add(l->s, e->inode, l->directory, e->name) : 0;
}

static int add_children(struct scrubbing *s, struct request *rq, struct inode *directory)
{
	struct listing l = { s, directory };

	return heal_list(&s->look, rq, s->truth, directory, add_child, &l);
}

static void keep_pace(struct scrubbing *s)
{
	uint64_t now = clock_ns(), rate = (uint64_t)s->c->scrub_rate, each = rate ? 1000000000 / rate : 0;

	s->next_ns = s->next_ns > now - 100000000 ? s->next_ns : now;
	s->next_ns += each;
	if (s->next_ns > now + 1000000)
		task_sleep_ms((s->next_ns - now) / 1000000);
}

/* Under its token, which goes back after each piece: who writes to a large file waits for no more than that. */
static int visit_piece(struct scrubbing *s, struct request *rq, struct todo *t, struct compared *o)
{
	int err = session_acquire(s->c, &s->view, &o->gfid, stops, s);

	if (err)
		return err;
	if (t->parent && !o->at)
		err = heal_show(&s->look, rq, t->parent, t->name, &o->gfid, view_mask(&s->view, MEMBER_IN));
	if (!err)
		err = judge(s, rq, o);
	session_release(s->c, &s->view, &o->gfid);
	o->at += o->piece;
	return err;
}

static int visit(struct scrubbing *s, struct todo *t)
{
	struct compared o = { .gfid = t->inode->gfid, .piece = s->c->heal_piece };
	bool names = S_ISDIR(t->inode->type);
	struct request rq;
	int err = heal_request(&s->look, &rq), below = 0;

	o.vote = !names || !s->owed || MUTANT("most-are-right");
	do {
		err = err ? err : visit_piece(s, &rq, t, &o);
	} while (!err && o.more && !stops(s));
	if (!err && o.more)
		err = -ECANCELED;
	if (names) /* also if it could not be compared itself */
		below = add_children(s, &rq, t->inode);
	heal_request_end(&rq);
	return err ? err : below;
}

static int walk(struct scrubbing *s)
{
	cleanup_inode struct inode *root = inode_get(s->c->x->inodes, &gfid_root, S_IFDIR);
	struct todo *t;
	int err = root ? session_attach(s->c, &s->view) : -ENOMEM;

	if (!err)
		err = add(s, root, NULL, "");
	while (!err && (t = s->todo) && !stops(s)) {
		int one;

		s->todo = t->next;
		one = visit(s, t);
		if (one == -EVIEW || one == -ENOTCONN || one == -ETIMEDOUT || one == -ENOMEM || one == -ECANCELED)
			err = one;
		pthread_mutex_lock(&s->c->lock);
		s->c->scrub.objects++;
		s->c->scrub.errors += one != 0;
		pthread_mutex_unlock(&s->c->lock);
		drop(t);
		keep_pace(s);
	}
	if (!err && s->todo)
		err = -ECANCELED;
	while ((t = s->todo)) {
		s->todo = t->next;
		drop(t);
	}
	return err;
}

static bool all_in(const struct coordinator *c, const struct view *v)
{
	return view_mask(v, MEMBER_IN) == (1u << c->members) - 1;
}

/* With the lock held. What can't be read will not be readable a second later; and each time the whole tree is looked at. */
static void pause_longer(struct coordinator *c, bool in_vain)
{
	uint64_t longer = c->owed_pause_ns * 2 < OWED_MAX_NS ? c->owed_pause_ns * 2 : OWED_MAX_NS;

	c->owed_pause_ns = in_vain && c->owed_pause_ns ? longer : OWED_NS;
}

static bool differs(const struct coordinator *c, int i)
{
	return c->member[i].differs.count || c->member[i].differs.all;
}

/* With the lock held. The others get the names of the first before it gets anything from them: while it is healed another is the first. A later
 * scrub finds again what is wrong about its files. And if it is the first no more, nothing counts by which others differ from it. */
static void first_comes_last(struct scrubbing *s)
{
	struct coordinator *c = s->c;
	bool others = false, still_first = view_first(&c->view) == s->truth;

	for (int i = 0; i < c->members; i++)
		others |= i != s->truth && differs(c, i);
	for (int i = 0; i < c->members && s->owed; i++) {
		if ((still_first && (i != s->truth || !others)) || c->member[i].differs.all)
			continue;
		list_free(&c->member[i].differs);
		c->member[i].added = false;
	}
}

/* Members that differ are healed; the view changes for it. */
static void finish(struct scrubbing *s, int err)
{
	struct coordinator *c = s->c;

	pthread_mutex_lock(&c->lock);
	first_comes_last(s);
	for (int i = 0; i < c->members; i++)
		c->member[i].demote |= differs(c, i);
	c->scrub.running = false;
	c->scrub.look = NULL;
	if (s->owed && !err && !c->scrub.differences && all_in(c, &s->view))
		c->compared_epoch = s->view.epoch;
	c->owed.scrub &= err || c->scrub.errors || c->scrub.differences || !c->scrub.repairs || !all_in(c, &s->view);
	c->owed.unlisted &= c->owed.scrub;
	pause_longer(c, !err && c->scrub.errors && !c->scrub.differences);
	c->scrub.status = err;
	c->scrub.ended_ns = clock_ns();
	task_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	log_info(c->x, NULL, "scrub: %llu objects, %llu differences, %llu not compared%s", (unsigned long long)c->scrub.objects,
		 (unsigned long long)c->scrub.differences, (unsigned long long)c->scrub.errors,
		 err ? " (it was interrupted)" : "");
}

static void scrub_task(void *arg)
{
	struct coordinator *c = arg;
	struct scrubbing s = { .c = c, .look = { .x = c->x, .arbiter = c->heal.arbiter, .look = true } };

	pthread_mutex_lock(&c->lock);
	s.view = c->view;
	s.owed = c->owed.scrub;
	c->scrub.look = &s.look;
	atomic_store(&s.look.halt, c->scrub.stop || atomic_load(&c->stopping));
	pthread_mutex_unlock(&c->lock);
	memcpy(s.look.secret, c->heal.secret, sizeof(s.look.secret));
	atomic_store(&s.look.epoch, s.view.epoch);
	s.truth = view_first(&s.view);
	finish(&s, s.truth < 0 ? -EROFS : walk(&s));
	coordinator_task_ends(c);
}

int scrub_start(struct coordinator *c, bool repair)
{
	struct scrub last = { 0 };
	int err = 0;

	pthread_mutex_lock(&c->lock);
	if (c->scrub.running)
		err = -EALREADY;
	else if (!c->view.epoch)
		err = -EAGAIN;
	if (!err) {
		last = c->scrub;
		c->scrub = (struct scrub){ .running = true, .repairs = repair, .started_ns = clock_ns() };
	}
	pthread_mutex_unlock(&c->lock);
	scrub_free(&last);
	if (!err && (err = coordinator_spawn(c, scrub_task, c))) {
		pthread_mutex_lock(&c->lock);
		c->scrub.running = false;
		pthread_mutex_unlock(&c->lock);
	}
	return err;
}

/* Another view interrupts it, and it begins anew; who was away is looked at when it is IN again. */
void scrub_owed(struct coordinator *c)
{
	bool start;

	pthread_mutex_lock(&c->lock);
	start = c->owed.scrub && c->view.epoch && all_in(c, &c->view) && !c->unrecovered && !c->scrub.running &&
		clock_ns() > c->scrub.ended_ns + c->owed_pause_ns;
	pthread_mutex_unlock(&c->lock);
	if (start && scrub_start(c, true))
		log_warning(c->x, NULL, "the scrub that should follow can't be started");
}

void scrub_stop(struct coordinator *c)
{
	pthread_mutex_lock(&c->lock);
	c->owed.scrub = c->owed.unlisted = false;
	pthread_mutex_unlock(&c->lock);
	scrub_halt(c);
}

void scrub_halt(struct coordinator *c)
{
	pthread_mutex_lock(&c->lock);
	c->scrub.stop = true;
	if (c->scrub.look)
		atomic_store(&c->scrub.look->halt, true);
	pthread_mutex_unlock(&c->lock);
}

void scrub_free(struct scrub *s)
{
	for (unsigned i = 0; i < s->findings; i++)
		free(s->finding[i].path);
	for (size_t i = 0; i < s->kepts; i++)
		inode_unref(s->kept[i]);
	free(s->kept);
	*s = (struct scrub){ 0 };
}
