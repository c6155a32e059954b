/* SPDX-License-Identifier: Apache-2.0 */
/* Healing: one member's copy of an object is made equal to another's, while nobody changes it. */
#include "heal-internal.h"

/* ---- asking a member ---- */

static int stamp(struct heal *h, struct request *rq, uint64_t time)
{
	struct replica_stamp s = { .epoch = atomic_load(&h->epoch), .time = time, .flags = REPLICA_HEAL };

	return stamp_attach(rq, &s);
}

int heal_request(struct heal *h, struct request *rq)
{
	request_init(rq, h->x->graph, 0);
	rq->uid = 0;
	rq->gid = 0;
	return stamp(h, rq, 0);
}

void heal_request_end(struct request *rq)
{
	request_finish(rq);
}

/* A member that has got a new session of ours believes in us when it has seen the secret. */
static int prove(struct heal *h, struct request *rq, int member)
{
	struct replica_out out = { 0 };
	struct pack cursor = { 0 };
	int err;

	pack_u64(&cursor, UINT64_MAX);
	err = heal_verb(h, rq, member, REPLICA_PENDING, NULL, &cursor, &out);
	fop_out_clear(FOP_replica, &out);
	return err;
}

static int call_now(struct heal *h, struct request *rq, int member, enum fop fop, const void *in, void *out, uint64_t time)
{
	int err = h->look && fop_info[fop].flags & FOP_MUTATES && fop != FOP_replica ? -EUCLEAN : stamp(h, rq, time);

	if (err)
		return err;
	extensions_free(&rq->reply_extensions);
	err = fop_call(rq, h->x->child[member], fop, in, out);
	if (err != -EPERM || fop == FOP_replica || prove(h, rq, member) || stamp(h, rq, time)) /* prove() has another time */
		return err;
	return fop_call(rq, h->x->child[member], fop, in, out);
}

/* A member that stands still must not stop us for good. */
static int call(struct heal *h, struct request *rq, int member, enum fop fop, const void *in, void *out, uint64_t time)
{
	uint64_t given = rq->deadline_ns;
	int err;

	if (atomic_load(&h->halt) && fop != FOP_replica && fop != FOP_release)
		return -ECANCELED;
	if (!given)
		rq->deadline_ns = clock_ns() + HEAL_CALL_NS;
	err = call_now(h, rq, member, fop, in, out, time);
	heal_note_failed(h, member, err);
	rq->deadline_ns = given;
	return err;
}

int heal_call(struct heal *h, struct request *rq, int member, enum fop fop, const void *in, void *out)
{
	return call(h, rq, member, fop, in, out, 0);
}

/* What requests can't tell (before 1970, after 2262) becomes 0. */
static uint64_t ns_of(const struct time *t)
{
	return t->sec > 0 && (uint64_t)t->sec < TIME_KEPT / 1000000000 ? (uint64_t)t->sec * 1000000000 + t->nsec : 0;
}

int heal_call_at(struct heal *h, struct request *rq, int member, enum fop fop, const void *in, void *out, const struct time *t)
{
	return call(h, rq, member, fop, in, out, ns_of(t));
}

int heal_call_kept(struct heal *h, struct request *rq, int member, enum fop fop, const void *in, void *out,
		   const struct time *t)
{
	return call(h, rq, member, fop, in, out, ns_of(t) | TIME_KEPT);
}

int heal_verb_in(struct heal *h, enum replica_verb verb, struct inode *inode, struct pack *more, struct replica_in *in)
{
	struct pack p = { 0 };

	*in = (struct replica_in){ .verb = verb, .inode = inode };
	pack_bytes(&p, h->secret, sizeof(h->secret));
	pack_u64(&p, atomic_load(&h->epoch));
	if (more) {
		p.failed |= more->failed;
		pack_bytes(&p, more->bytes, more->size);
		pack_free(more);
	}
	return pack_end(&p, &in->data);
}

int heal_verb(struct heal *h, struct request *rq, int member, enum replica_verb verb, struct inode *inode, struct pack *more,
	      struct replica_out *out)
{
	struct replica_in in;
	int err = heal_verb_in(h, verb, inode, more, &in);

	if (!err)
		err = heal_call(h, rq, member, FOP_replica, &in, out);
	free(in.data.bytes);
	return err;
}

/* ---- listings ---- */

static int list_open(struct heal *h, struct request *rq, int at, struct file *file, unsigned flags,
		     int (*each)(void *arg, struct dirent_plus *), void *arg)
{
	struct readdir_in in = { .file = file, .size = 256 << 10, .flags = flags & LIST_PLUS ? READDIR_PLUS : 0 };
	bool end = false;
	int err = 0;

	while (!err && !end) {
		struct readdir_out out = { 0 };

		err = heal_call(h, rq, at, FOP_readdir, &in, &out);
		for (uint32_t i = 0; i < out.entries.count && !err; i++) {
			in.offset = out.entries.entry[i].next_offset;
			err = each(arg, &out.entries.entry[i]);
		}
		end = out.entries.end || !out.entries.count;
		fop_out_clear(FOP_readdir, &out);
	}
	return err;
}

int directory_list(struct heal *h, struct request *rq, int at, struct inode *directory, unsigned flags,
		   int (*each)(void *arg, struct dirent_plus *), void *arg)
{
	struct opendir_in open = { directory };
	struct opendir_out opened = { 0 };
	struct release_out released = { 0 };
	struct release_in release;
	int err = heal_call(h, rq, at, FOP_opendir, &open, &opened);

	if (err)
		return is_gone(err) && flags & LIST_IF_THERE ? 0 : err;
	err = list_open(h, rq, at, opened.file, flags, each, arg);
	release = (struct release_in){ opened.file };
	heal_call(h, rq, at, FOP_release, &release, &released);
	fop_out_clear(FOP_opendir, &opened);
	return err;
}

struct whole_listing {
	struct heal *h;
	struct request *rq;
	int at;
	struct inode *directory;
	int (*each)(void *arg, const struct dirent_plus *);
	void *arg;
};

/* With the inode, though the listing may have left it out. */
static int whole_entry(void *listing, struct dirent_plus *e)
{
	struct whole_listing *l = listing;
	struct thing t = { 0 };
	int err = e->inode ? 0 : thing_lookup(l->h, l->rq, l->at, l->directory, e->name, &t);

	if (err)
		return err == -ENOENT ? 0 : err;
	if (!e->inode) {
		e->inode = t.inode;
		e->gfid = t.attr.gfid;
	}
	return l->each(l->arg, e);
}

int heal_list(struct heal *h, struct request *rq, int at, struct inode *directory,
	      int (*each)(void *arg, const struct dirent_plus *), void *arg)
{
	struct whole_listing l = { h, rq, at, directory, each, arg };

	return directory_list(h, rq, at, directory, LIST_PLUS | LIST_IF_THERE, whole_entry, &l);
}

int heal_show(struct heal *h, struct request *rq, struct inode *directory, const char *name, const struct gfid *gfid,
	      unsigned members)
{
	int err = 0;

	for (int i = 0; i < h->x->children && !err; i++) {
		cleanup_thing struct thing t = { 0 };

		if (!(members >> i & 1) || !thing_known(h, rq, gfid, i, &t))
			continue;
		thing_clear(&t);
		err = thing_lookup(h, rq, i, directory, name, &t);
		err = is_gone(err) || err == -ENOTDIR ? 0 : err;
	}
	return err;
}

/* ---- objects ---- */

static int pair_take(struct pair *p, const struct thing *source, const struct thing *target)
{
	if (source->inode != target->inode)
		return -EIO; /* a member lies about its type */
	p->inode = inode_ref(source->inode);
	p->source = source->attr;
	p->target = target->attr;
	return 0;
}

/* A file without a name can be made equal while it is open at both. */
static int pair_find_nameless(struct pair *p, const struct gfid *gfid)
{
	cleanup_thing struct thing source = { 0 }, target = { 0 };
	int err = p->h->look ? -ENOENT : thing_nameless(p->h, p->rq, gfid, p->from, &source);

	if (!err)
		err = thing_nameless(p->h, p->rq, gfid, p->to, &target);
	return err ? err : pair_take(p, &source, &target);
}

static int pair_find(struct pair *p, const struct gfid *gfid)
{
	cleanup_thing struct thing source = { 0 }, target = { 0 };
	int err = thing_find(p->h, p->rq, gfid, p->to, p->from, &source);

	if (!err)
		err = thing_find(p->h, p->rq, gfid, p->from, p->to, &target);
	else
		return is_gone(err) || err == -EAGAIN || err == -ENOLINK ? pair_find_nameless(p, gfid) : err;
	if (is_gone(err))
		return 0; /* who names it there anew tells of it then */
	if (err)
		return err == -ENOLINK ? -EAGAIN : err;
	return pair_take(p, &source, &target);
}

static void pair_clear(struct pair *p)
{
	inode_unref_at(&p->inode);
}
#define cleanup_pair __attribute__((cleanup(pair_clear)))

static bool has_data(const struct pair *p)
{
	return S_ISREG(p->inode->type) && p->from != p->h->arbiter && p->to != p->h->arbiter;
}

static int pair_all(struct pair *p, uint64_t start, uint64_t end)
{
	int err = 0;

	if (S_ISDIR(p->inode->type))
		err = pair_names(p);
	else if (has_data(p))
		err = pair_data(p, start, end);
	return err ? err : pair_meta(p);
}

/* Something was not found any more. Was it the object at `from`? Otherwise another heal was at it, or `to` lost it: to be tried
 * again. */
static int why_gone(struct pair *p, const struct gfid *gfid, int err)
{
	cleanup_thing struct thing source = { 0 };

	if (!is_gone(err) || !p->inode)
		return is_gone(err) ? -ENOENT : err;
	err = thing_known(p->h, p->rq, gfid, p->from, &source);
	return err ? err : -EAGAIN;
}

/* ---- files that are open and have no name ---- */

static int lose(struct pair *p, const struct gfid *gfid)
{
	struct replica_out out = { 0 };
	struct pack more = { 0 };
	int err;

	pack_gfid(&more, gfid);
	err = heal_verb(p->h, p->rq, p->to, REPLICA_LOSE, NULL, &more, &out);
	fop_out_clear(FOP_replica, &out);
	return err == -EOPNOTSUPP ? 0 : err;
}

static int nameless_equal(struct pair *p, const struct gfid *gfid, uint64_t start, uint64_t end)
{
	cleanup_thing struct thing source = { 0 }, target = { 0 };
	int err = thing_nameless(p->h, p->rq, gfid, p->to, &target);

	if (err)
		return err == -ENOENT ? 0 : err;
	err = thing_nameless(p->h, p->rq, gfid, p->from, &source);
	if (err)
		return err;
	if (source.inode != target.inode || !S_ISREG(source.inode->type))
		return -ENOENT;
	p->inode = inode_ref(source.inode);
	p->source = source.attr;
	p->target = target.attr;
	return pair_all(p, start, end);
}

/* `from` knows no name of it. If both have it open they are made equal; if only `to` has it that does not count. */
static int heal_nameless(struct heal *h, struct request *rq, const struct gfid *gfid, int from, int to, uint64_t start,
			 uint64_t end)
{
	cleanup_pair struct pair p = { .h = h, .rq = rq, .from = from, .to = to };
	int err = h->look ? 0 : nameless_equal(&p, gfid, start, end);

	if (is_gone(err))
		err = lose(&p, gfid);
	return err ? err : -ENOENT;
}

int heal_piece(struct heal *h, struct request *rq, const struct gfid *gfid, int from, int to, uint64_t start, uint64_t length,
	       bool *more)
{
	cleanup_pair struct pair p = { .h = h, .rq = rq, .from = from, .to = to };
	int err;

	*more = false;
	if (gfid_equal(gfid, &gfid_limbo))
		return 0;
	atomic_fetch_add(&h->objects, !start);
	err = pair_find(&p, gfid);
	if (!err && p.inode) {
		*more = has_data(&p) && length < p.source.size && start < p.source.size - length;
		err = pair_all(&p, start, *more ? start + length : UINT64_MAX);
	} else if (!err && !h->look) { /* its directory is healed before it, or a rename is under way that `to` has yet to do */
		err = -EAGAIN;
	}
	err = why_gone(&p, gfid, err);
	return err == -ENOENT ? heal_nameless(h, rq, gfid, from, to, start, UINT64_MAX) : err;
}

int heal_object(struct heal *h, struct request *rq, const struct gfid *gfid, int from, int to, uint64_t start, uint64_t end)
{
	cleanup_pair struct pair p = { .h = h, .rq = rq, .from = from, .to = to };
	int err;

	if (gfid_equal(gfid, &gfid_limbo))
		return 0;
	atomic_fetch_add(&h->objects, 1);
	err = pair_find(&p, gfid);
	if (!err)
		err = p.inode ? pair_all(&p, start, end) : -ESRCH;
	err = why_gone(&p, gfid, err);
	return err == -ENOENT ? heal_nameless(h, rq, gfid, from, to, start, end) : err;
}

bool heal_knows(struct heal *h, struct request *rq, const struct gfid *gfid, int from, int at)
{
	cleanup_inode struct inode *inode = NULL;
	cleanup_thing struct thing t = { 0 };

	return !heal_find(h, rq, gfid, from, at, &inode) || !thing_nameless(h, rq, gfid, at, &t);
}

/* ---- one name ---- */

enum { MADE_ROUNDS = 10, MADE_PAUSE_MS = 20 };

static int heal_one_made(struct pair *p, struct made_list *made, uint32_t i)
{
	cleanup_pair struct pair one = { .h = p->h, .rq = p->rq, .from = p->from, .to = p->to };
	struct gfid gfid = made->gfid[i];
	int err;

	one.made = made;
	err = pair_find(&one, &gfid);
	if (!err && one.inode)
		err = pair_all(&one, 0, UINT64_MAX);
	return is_gone(err) ? 0 : err;
}

/* What has just been made there is healed whole; what a directory among it names is made, too, and so on. One that waits for another heal does
 * not keep the rest from being healed: nobody else knows that they are empty. */
static int heal_made(struct pair *p, struct made_list *made)
{
	int err = 0, later = 0;

	for (uint32_t i = 0; i < made->count && !err; i++) {
		err = heal_one_made(p, made, i);
		for (int round = 0; err == -EAGAIN && round < MADE_ROUNDS; round++) {
			task_sleep_ms(MADE_PAUSE_MS);
			err = heal_one_made(p, made, i);
		}
		if (err == -EAGAIN) {
			later = err;
			err = 0;
		}
	}
	return err ? err : later;
}

int heal_whole(struct heal *h, struct request *rq, const struct gfid *gfid, int from, int to)
{
	struct made_list made = { 0 };
	cleanup_pair struct pair p = { .h = h, .rq = rq, .from = from, .to = to, .made = &made };
	int err;

	if (gfid_equal(gfid, &gfid_limbo))
		return 0;
	atomic_fetch_add(&h->objects, 1);
	err = pair_find(&p, gfid);
	if (!err)
		err = p.inode ? pair_all(&p, 0, UINT64_MAX) : -ESRCH;
	if (!err || err == -EAGAIN) { /* who tries again finds them there, and takes them to be whole */
		int rest = heal_made(&p, &made);

		err = rest ? rest : err;
	}
	free(made.gfid);
	err = why_gone(&p, gfid, err);
	return err == -ENOENT ? heal_nameless(h, rq, gfid, from, to, 0, UINT64_MAX) : err;
}

static int name_heal(struct pair *p, const char *name)
{
	cleanup_thing struct thing source = { 0 }, target = { 0 };
	int err = thing_lookup(p->h, p->rq, p->from, p->inode, name, &source);

	if (err && err != -ENOENT)
		return err;
	err = thing_lookup(p->h, p->rq, p->to, p->inode, name, &target);
	if (err && err != -ENOENT)
		return err;
	if (source.inode == target.inode)
		return 0;
	err = target.inode ? name_move_away(p, name, &target.attr.gfid) : 0;
	return err || !source.inode ? err : name_place(p, name);
}

int heal_name(struct heal *h, struct request *rq, const struct gfid *directory, const char *name, int from, int to)
{
	struct made_list made = { 0 };
	cleanup_pair struct pair p = { .h = h, .rq = rq, .from = from, .to = to, .made = &made };
	int err = name_check(name);

	if (!err)
		err = pair_find(&p, directory);
	if (!err && p.inode && !S_ISDIR(p.inode->type))
		err = -ENOTDIR;
	if (!err && p.inode) {
		err = pair_note_taken(&p, name_heal(&p, name));
		if (!err)
			err = heal_made(&p, &made);
		if (!err)
			err = pair_times(&p);
	} else if (!err) {
		err = -ESRCH;
	}
	free(made.gfid);
	return why_gone(&p, directory, err);
}
