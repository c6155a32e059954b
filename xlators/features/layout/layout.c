/* SPDX-License-Identifier: Apache-2.0 */
/* features/layout: refuses what a client does by an old layout, or to a pointer as if that were the object; says which is which in
 * attributes. Requests without PLACE pass: they are heal's, or of a client that spreads no names (its volume has no `began-with`). */
#include <stdio.h>

#include "location.h"
#include "quota.h"
#include "shard.h"

static const struct option options[] = {
	{ "subvolume", OPTION_INT, OPTION_AT(struct checks, subvolume), NULL,
	  "number of this subvolume in layouts and pointers: its place among those of cluster/dht, from 0", 0, UINT32_MAX },
	{ "initial", OPTION_INT, OPTION_AT(struct checks, initial), "0",
	  "how many subvolumes the volume began with: names of the root that belong to another of these are refused while the root has no layout on disk; 0: "
	  "they are not judged then",
	  0, LAYOUT_MEMBERS_MAX },
	{ "initial-from", OPTION_INT, OPTION_AT(struct checks, initial_from), "0",
	  "the first of these: another one than 0 where that has left the volume", 0, UINT32_MAX - LAYOUT_MEMBERS_MAX },
	{ "widen-at", OPTION_INT, OPTION_AT(struct checks, widen_at), "0",
	  "names of a directory at this subvolume at which it is told to who asks for such as are to be at more of them; 0: none is",
	  0, 1 << 30 },
	{ "leaving", OPTION_BOOL, OPTION_AT(struct checks, leaving), "off",
	  "this subvolume is to leave the volume: no object is put away here that was made for a name elsewhere",
	  .live = true },
	{ "reopen-time", OPTION_DURATION, OPTION_AT(struct checks, reopen_ms), "30s",
	  "for so long after the start what is left of files that were moved stays, for clients may open again what they had open before",
	  .live = true },
	{ NULL },
};

static bool is_ours(const char *name)
{
	return name && !strncmp(name, DHT_XATTR, sizeof(DHT_XATTR) - 1);
}

static bool is_acl(const char *name)
{
	return name && !strncmp(name, "system.posix_acl_", 17);
}

/* ---- what passes alone ---- */

/* Whose xattr of ours is changed; NULL: none is. */
static struct inode *changed_by(enum fop fop, const void *in)
{
	const struct setxattr_in *set = in;
	const struct removexattr_in *remove = in;

	if (fop == FOP_setxattr)
		return is_ours(set->name) ? set->inode : NULL;
	return fop == FOP_removexattr && is_ours(remove->name) ? remove->inode : NULL;
}

/* Nobody needs it, and what it changes might be known here. */
static bool steps_change_ours(const struct steps *s)
{
	for (uint32_t i = 0; i < s->count; i++) {
		const struct step *step = &s->step[i];

		if (step->in && step->fop == FOP_setxattr && is_ours(((const struct setxattr_in *)step->in)->name))
			return true;
		if (step->in && step->fop == FOP_removexattr && is_ours(((const struct removexattr_in *)step->in)->name))
			return true;
	}
	return false;
}

/* What is made may have the gfid of something that was here before. */
static void forget_made(struct xlator *x, enum fop fop, const void *out)
{
	const struct results *r = &((const struct compound_out *)out)->results;

	switch ((int)fop) {
	case FOP_create:
	case FOP_mknod:
	case FOP_mkdir:
	case FOP_symlink:
		known_forget(x, *(struct inode *const *)out); /* all four have it first */
		break;
	case FOP_compound:
		for (uint32_t i = 0; i < r->count; i++)
			if (r->result[i].out && r->result[i].fop != FOP_compound)
				forget_made(x, r->result[i].fop, r->result[i].out);
		break;
	default:
		break;
	}
}

/* Whoever opens it: who was connected before the brick was started anew does so, too. */
static void note_opened(struct xlator *x, enum fop fop, const void *out)
{
	if (fop == FOP_open)
		file_opened(x, ((const struct open_out *)out)->file);
	else if (fop == FOP_create)
		file_opened(x, ((const struct create_out *)out)->file);
}

/* ---- objects ---- */

/* The object that the request is about; NULL: none, or all pass. */
static struct inode *object_of(enum fop fop, const void *in)
{
	if (fop == FOP_release || fop == FOP_flush || fop == FOP_statfs || fop == FOP_lookup)
		return NULL;
	for (const struct field *f = fop_info[fop].in; f->name; f++) {
		const void *at = (const char *)in + f->offset;

		if (f->kind == FIELD_INODE && *(struct inode *const *)at)
			return *(struct inode *const *)at;
		if (f->kind == FIELD_FILE && *(struct file *const *)at)
			return (*(struct file *const *)at)->inode;
	}
	return NULL;
}

/* It would make the shards differ in what they must have in common. */
static bool for_all_shards(enum fop fop, const void *in)
{
	if (fop == FOP_setattr)
		return ((const struct setattr_in *)in)->set.valid & (SET_MODE | SET_UID | SET_GID);
	if (fop == FOP_setxattr)
		return is_acl(((const struct setxattr_in *)in)->name);
	return fop == FOP_removexattr && is_acl(((const struct removexattr_in *)in)->name);
}

/* They are at the home, which is another one by a later layout. */
static bool is_users(const char *name)
{
	return name && (is_quota(name) || !strncmp(name, "user.", 5) || !strncmp(name, "security.", 9) ||
			(!strncmp(name, "trusted.", 8) && !is_ours(name)));
}

static bool asks_home(enum fop fop, const void *in)
{
	switch ((int)fop) {
	case FOP_setxattr:
		return is_users(((const struct setxattr_in *)in)->name);
	case FOP_getxattr:
		return is_users(((const struct getxattr_in *)in)->name);
	case FOP_removexattr:
		return is_users(((const struct removexattr_in *)in)->name);
	default:
		return fop == FOP_listxattr;
	}
}

/* What all shards have in common, and the home tells of all. */
static bool asks_common(enum fop fop, const void *in)
{
	return fop == FOP_getattr || fop == FOP_access ||
	       (fop == FOP_getxattr && is_acl(((const struct getxattr_in *)in)->name));
}

/* Who knows an older layout than this shard, which is not the home, may take it for that, and it is told of no change any more if it has left. (Who said nothing of the
 * directory is of a version that does not ask.) */
static bool knows_less(const struct request *rq, const struct checks *c, const struct place *place, const struct inode *dir,
		       const struct facts *f)
{
	return place_names(place, request_gfid(rq, &dir->gfid)) && f->home != (uint32_t)c->subvolume &&
	       place_version(place, request_gfid(rq, &dir->gfid), 0) < f->version;
}

/* A listing is of all shards, and so is such a change. (But one that is no shard yet is given what the others have.) The directory's own xattrs are being copied to where its
 * home is to be as long as that has no layout: who knows of one that makes it the home waits for that. */
static bool judged_by_version(enum fop fop, const void *in, const struct facts *f, uint64_t said)
{
	if (fop == FOP_opendir || fop == FOP_readdir)
		return true;
	return asks_home(fop, in) ? f->version || (said && !MUTANT("trust-newcomer")) : f->version && for_all_shards(fop, in);
}

static int judge_object(struct request *rq, struct xlator *x, const struct place *place, enum fop fop, const void *in,
			struct inode *inode)
{
	uint64_t said = place_version(place, request_gfid(rq, &inode->gfid), 0);
	struct facts f;
	int err = facts_of(rq, x, inode, NULL, &f);

	if (!err && f.points && !(place->flags & PLACE_POINTER) && !MUTANT("use-pointers"))
		err = -EMOVED;
	if (!err && f.wide && for_all_shards(fop, in) && !(place->flags & PLACE_SHARD))
		err = -EWIDE;
	if (!err && judged_by_version(fop, in, &f, said) && !(place->flags & PLACE_HERE) && said != f.version)
		err = -ELAYOUT;
	if (!err && f.version && asks_common(fop, in) && !(place->flags & (PLACE_HERE | PLACE_SHARD)) &&
	    knows_less(rq, x->private, place, inode, &f))
		err = -ELAYOUT;
	return err;
}

static bool sets_quota(enum fop fop, const void *in)
{
	return fop == FOP_setxattr && is_quota(((const struct setxattr_in *)in)->name);
}

/* Inside its gate. Who has marked names in the directory may have one to put back, which a limit would refuse; and what a limit holds is at one brick. -EBUSY: it is at
 * others, or about to be. */
static int is_whole_here(struct request *rq, struct xlator *x, struct inode *dir, struct known *k)
{
	const struct checks *c = x->private;
	int err = known_locked(rq, x, dir, k);
	const struct layout *l;

	if (err)
		return err;
	l = k->layout;
	if (k->marks && !MUTANT("limit-marked"))
		err = -EMARKED;
	else if (l && (l->moving || l->count != 1 || l->member[0].id != c->subvolume))
		err = -EBUSY;
	pthread_mutex_unlock(&k->lock);
	return err;
}

/* Inside its gate: when the directory has got another layout nothing is changed by the one before. */
static int home_change(struct request *rq, struct xlator *x, const struct place *place, enum fop fop, const void *in, void *out,
		       struct inode *dir)
{
	struct known *k = known_of(x, dir);
	int err = k ? known_enter(k, rq->deadline_ns) : -ENOMEM;

	if (err)
		return err;
	err = judge_object(rq, x, place, fop, in, dir);
	if (!err && sets_quota(fop, in))
		err = is_whole_here(rq, x, dir, k);
	if (!err)
		err = fop_call(rq, x->child[0], fop, in, out);
	known_leave(k);
	return refused(x, err);
}

static int object_judge(struct request *rq, struct xlator *x, const struct place *place, enum fop fop, const void *in,
			void *out)
{
	const struct copy_range_in *copy = in;
	struct inode *inode = object_of(fop, in);
	struct inode *changed = file_changed(fop, in);
	bool at_home = inode && S_ISDIR(inode->type) && fop_info[fop].flags & FOP_MUTATES && asks_home(fop, in);
	int err = at_home ? 0 : inode ? judge_object(rq, x, place, fop, in, inode) : 0;

	if (at_home)
		return home_change(rq, x, place, fop, in, out, inode);
	if (!err && changed)
		return refused(x, file_change(rq, x, place, fop, in, out, changed));
	if (!err && fop == FOP_copy_range)
		err = judge_object(rq, x, place, fop, in, copy->to->inode);
	return err ? refused(x, err) : fop_call(rq, x->child[0], fop, in, out);
}

/* ---- what answers say ---- */

static int mark_surely(struct request *rq, struct xlator *x, struct inode *inode, struct attr *attr, bool surely)
{
	struct facts f;
	int err = facts_of(rq, x, inode, surely ? NULL : attr, &f);

	if (err)
		return err;
	if (f.points && request_is_confined(rq)) /* he is told nothing of where the object is */
		return -EREMOTE;
	attr->flags |= (f.wide || f.shard) && !request_is_confined(rq) ? ATTR_WIDE : 0;
	if (f.kept)
		kept_leave_out(rq, x, inode, &f, attr);
	if (!f.points)
		return 0;
	attr->flags |= ATTR_POINTER;
	attr->gfid = f.pointer.gfid;
	attr->rdev = f.pointer.subvolume;
	return 0;
}

static int mark(struct request *rq, struct xlator *x, struct inode *inode, struct attr *attr)
{
	return mark_surely(rq, x, inode, attr, false);
}

/* Of one that makes no sense, or can't be read, only the name is told, for the rest may be a pointer's, so that the others are told; who looks it up
 * gets the error. */
static void mark_entries(struct request *rq, struct xlator *x, struct dirents *list)
{
	for (uint32_t i = 0; i < list->count; i++) {
		struct dirent_plus *e = &list->entry[i];

		if (!e->inode || !mark(rq, x, e->inode, &e->attr))
			continue;
		inode_unref(e->inode);
		e->inode = NULL;
		if (!MUTANT("list-unjudged"))
			e->gfid = (struct gfid){ { 0 } };
		e->attr = (struct attr){ 0 };
	}
}

static int mark_answer(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	const struct getattr_in *asked = in; /* a setattr_in begins the same */
	struct lookup_out *found = out;	     /* as what made something gives it, but for create */
	struct create_out *created = out;

	switch ((int)fop) {
	case FOP_lookup:
		return mark_surely(rq, x, found->inode, &found->attr, !names_fop(fop, in));
	case FOP_getattr:
		return mark(rq, x, asked->inode ? asked->inode : asked->file->inode, &((struct getattr_out *)out)->attr);
	case FOP_readdir:
		mark_entries(rq, x, &((struct readdir_out *)out)->entries);
		return 0;
	/* It is done: what can't be said of it is not an error. */
	case FOP_setattr:
		mark(rq, x, asked->inode ? asked->inode : asked->file->inode, &((struct setattr_out *)out)->attr);
		return 0;
	case FOP_link:
		mark(rq, x, ((const struct link_in *)in)->inode, &((struct link_out *)out)->attr);
		return 0;
	case FOP_create:
		mark(rq, x, created->inode, &created->attr);
		return 0;
	case FOP_mknod:
	case FOP_mkdir:
	case FOP_symlink:
		mark(rq, x, found->inode, &found->attr);
		return 0;
	default:
		return 0;
	}
}

/* In the directory that a name has come to. */
static void count_made(struct request *rq, struct xlator *x, enum fop fop, const void *in)
{
	const struct rename_in *rename = in;

	if (fop == FOP_create || fop == FOP_mknod || fop == FOP_mkdir || fop == FOP_symlink)
		grown_count(rq, x, ((const struct loc *)in)->parent); /* all four have it first */
	else if (fop == FOP_link)
		grown_count(rq, x, ((const struct link_in *)in)->loc.parent);
	else if (fop == FOP_rename && rename->from.parent != rename->to.parent)
		grown_count(rq, x, rename->to.parent);
}

static int placed_once(struct request *rq, struct xlator *x, const struct place *place, enum fop fop, const void *in, void *out)
{
	int err = names_fop(fop, in) ? names_judge(rq, x, place, fop, in, out) : object_judge(rq, x, place, fop, in, out);

	if (err)
		return err;
	forget_made(x, fop, out);
	note_opened(x, fop, out);
	count_made(rq, x, fop, in);
	err = mark_answer(rq, x, fop, in, out);
	if (err) {
		fop_out_clear((int)fop, out);
		memset(out, 0, fop_info[fop].out_size);
	}
	return err;
}

/* What has the name may go while its xattrs are read. */
static int placed(struct request *rq, struct xlator *x, const struct place *place, enum fop fop, const void *in, void *out)
{
	enum { TRIES = 16 };
	bool by_name = fop == FOP_lookup && names_fop(fop, in) && !((const struct lookup_in *)in)->loc.inode;
	int err = -ESTALE;

	for (int tries = 0; err == -ESTALE && tries < (by_name ? TRIES : 1); tries++)
		err = placed_once(rq, x, place, fop, in, out);
	return err;
}

static int location_tell(struct request *rq, struct xlator *x, const struct place *place, const struct getxattr_in *in,
			 struct getxattr_out *out)
{
	int err = placed(rq, x, place, FOP_getxattr, in, out);

	if (err || !S_ISREG(in->inode->type))
		return err;
	err = file_tell(rq, x, in->inode, &out->value);
	if (err)
		fop_out_clear(FOP_getxattr, out);
	return err;
}

static int unjudged(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct inode *file = file_changed(fop, in);
	int err = fop_call(rq, x->child[0], fop, in, out);

	if (file)
		file_counted(x, file);
	if (err)
		return err;
	forget_made(x, fop, out);
	note_opened(x, fop, out);
	return 0;
}

static int as_told(int err)
{
	switch (-err) {
	case ELAYOUT:
	case EPOINTER:
	case EWIDE:
	case EMOVED:
	case EFENCED:
		return -EREMOTE;
	default:
		return err;
	}
}

/* A client of an access point has no cluster/dht: this brick has all that he sees, and what is elsewhere all the same (a limit was taken away just now) is not shown. A name that
 * an intent holds is EMARKED, which features/cloud waits for: here he would keep a place below features/throttle from others meanwhile. */
static int guest_asks(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	const struct place place = { .flags = PLACE_HERE };

	return as_told(fop == FOP_compound ? -EOPNOTSUPP : placed(rq, x, &place, fop, in, out));
}

static int layout_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct inode *changed = changed_by(fop, in);
	struct place place;
	int has = place_of(rq, &place), err = 0;

	if (has >= 0 && request_is_tenants(rq))
		err = tenant_may_say(rq, has ? &place : NULL, fop, in);
	if (has < 0 || err)
		return has < 0 ? has : refused(x, err);
	if (request_is_confined(rq))
		return has || changed ? -EPERM : guest_asks(rq, x, fop, in, out);
	if (changed)
		return refused(x, change_alone(rq, x, has ? &place : NULL, fop, changed, in, out));
	if (fop == FOP_compound && steps_change_ours(&((const struct compound_in *)in)->steps))
		return -EPERM;
	if (fop == FOP_compound && has) /* of which step would it be? */
		return -EOPNOTSUPP;
	if (has && fop == FOP_getxattr && is_location(((const struct getxattr_in *)in)->name))
		return location_tell(rq, x, &place, in, out);
	if (has && asks_path(rq, fop, in))
		return path_tell(rq, x, in, out);
	if (has && asks_marks(fop, in))
		return marks_tell(rq, x, in, out);
	if (has && asks_ended(rq, fop, in))
		return ended_tell(rq, x, in, out);
	if (has && asks_candidates(rq, fop, in))
		return candidates_tell(rq, x, out);
	if (has && asks_changes(fop, in))
		return changes_tell(rq, x, in, out);
	if (has && fop == FOP_unlink)
		ended_note(rq, x, &place, in);
	if (has)
		return placed(rq, x, &place, fop, in, out);
	return unjudged(rq, x, fop, in, out);
}

static int layout_init(struct xlator *x, struct problem *p)
{
	struct checks *c = x->private;

	(void)p;
	gfid_create(&c->self);
	grown_init(&c->grown);
	pthread_mutex_init(&c->ended.lock, NULL);
	c->started_ns = clock_ns();
	if (c->initial)
		layout_implied(&c->implied, (uint32_t)c->initial_from, (unsigned)c->initial);
	return 0;
}

static void layout_finish(struct xlator *x)
{
	struct checks *c = x->private;

	grown_finish(&c->grown);
	pthread_mutex_destroy(&c->ended.lock);
}

static void layout_forget_inode(struct xlator *x, struct inode *inode, void *slot)
{
	(void)x, (void)inode;
	known_free(slot);
}

static void layout_forget_file(struct xlator *x, struct file *file, void *slot)
{
	(void)slot; /* that it was counted */
	file_closed(x, file);
}

static void layout_dump(struct xlator *x, FILE *f)
{
	const struct checks *c = x->private;

	fprintf(f, "  refused, by another layout or elsewhere: %llu\n", (unsigned long long)c->elsewhere);
	fprintf(f, "  refused, for a name leads to a pointer: %llu\n", (unsigned long long)c->pointers);
	fprintf(f, "  refused, for there are more shards: %llu\n", (unsigned long long)c->wide);
	fprintf(f, "  refused, for the object is elsewhere: %llu\n", (unsigned long long)c->moved);
	fprintf(f, "  refused, for an intent holds the name: %llu\n", (unsigned long long)c->marked);
	fprintf(f, "  changes of layouts, pointers, marks: %llu\n", (unsigned long long)c->changes);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "features/layout",
	.summary = "holds clients of cluster/dht to the layouts on disk",
	.options = options,
	.private_size = sizeof(struct checks),
	.min_children = 1,
	.max_children = 1,
	.init = layout_init,
	.finish = layout_finish,
	.forget_inode = layout_forget_inode,
	.forget_file = layout_forget_file,
	.dump = layout_dump,
	.any = layout_any,
};
