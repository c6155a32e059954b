/* SPDX-License-Identifier: Apache-2.0 */
/* With several subvolumes: what bricks are asked to make is noted, for a file that is made away has another gfid than its caller chose; and in the
 * end each pointer must have its anchor, each anchor its pointer, and each object as many names as it has links (see cluster/dht). */
#include <fcntl.h>

#include "away.h"
#include "born.h"
#include "disk.h"
#include "history.h"
#include "place.h"

enum { NOTED_MAX = 4096, FOUND_MAX = 1024, NAME_TEXT = 80, HIDDEN_DEPTH = 3 };
#define HIDDEN	"/.stratus.dht"
#define POINTER "trusted.dht.pointer"
#define MARK	"trusted.dht.m."

struct noted {
	struct gfid gfid, birth; /* of the object; that its maker chose */
};
struct pointing { /* what was first done with a pointer */
	struct gfid gfid;
	uint64_t anchored, ended; /* sim_events; 0: not yet */
	struct gfid intent;	  /* with which it was to come, or null */
};
static struct {
	struct noted object[NOTED_MAX];
	struct pointing pointer[NOTED_MAX];
	char ended[NOTED_MAX][NAME_TEXT];
	struct gfid undone[NOTED_MAX]; /* intents */
	unsigned objects, pointers, ends, undones, late, lost, begun, decided, steps;
} noted;

/* ---- what is made ---- */

static void note_object(const struct gfid *gfid, const struct gfid *birth)
{
	for (unsigned i = 0; i < noted.objects; i++)
		if (gfid_equal(&noted.object[i].gfid, gfid))
			return;
	if (noted.objects < NOTED_MAX)
		noted.object[noted.objects++] = (struct noted){ *gfid, *birth };
}

static struct pointing *pointing(const struct gfid *gfid)
{
	for (unsigned i = 0; i < noted.pointers; i++)
		if (gfid_equal(&noted.pointer[i].gfid, gfid))
			return &noted.pointer[i];
	return NULL;
}

/* PREFIX.GFID.NUMBER */
static bool intent_named(const char *name, const char *prefix, struct gfid *intent)
{
	char text[GFID_TEXT];

	if (!name || strncmp(name, prefix, strlen(prefix)) != 0)
		return false;
	snprintf(text, sizeof(text), "%s", name + strlen(prefix));
	return !gfid_parse(text, intent);
}

static void note_pointer(const struct gfid *gfid, const char *name)
{
	struct pointing *p = &noted.pointer[noted.pointers];

	if (pointing(gfid) || noted.pointers == NOTED_MAX)
		return;
	*p = (struct pointing){ .gfid = *gfid };
	if (!intent_named(name, "w.", &p->intent))
		p->intent = (struct gfid){ 0 };
	noted.pointers++;
}

static void note_undone(const char *name)
{
	if (noted.undones < NOTED_MAX && intent_named(name, "u.", &noted.undone[noted.undones]))
		noted.undones++;
}

static bool was_undone(const struct gfid *intent)
{
	for (unsigned i = 0; i < noted.undones; i++)
		if (gfid_equal(&noted.undone[i], intent))
			return true;
	return false;
}

/* NULL: it is not the name of such a thing. */
static struct pointing *pointing_named(const char *name, const char *prefix)
{
	char text[GFID_TEXT];
	struct gfid gfid;

	if (strncmp(name, prefix, strlen(prefix)))
		return NULL;
	snprintf(text, sizeof(text), "%s", name + strlen(prefix));
	return gfid_parse(text, &gfid) ? NULL : pointing(&gfid);
}

static void note_anchor(const char *name)
{
	struct pointing *p = pointing_named(name, "a.");

	if (p && !p->anchored)
		p->anchored = sim_events();
}

static void note_end(const char *name)
{
	struct pointing *p = pointing_named(name, "end.");

	if (p && !p->ended)
		p->ended = sim_events();
	for (unsigned i = 0; i < noted.ends; i++)
		if (!strcmp(noted.ended[i], name))
			return;
	if (noted.ends < NOTED_MAX)
		snprintf(noted.ended[noted.ends++], NAME_TEXT, "%s", name);
}

static const char *new_name(enum fop fop, const void *in)
{
	return fop == FOP_create  ? ((const struct create_in *)in)->loc.name
	       : fop == FOP_mknod ? ((const struct mknod_in *)in)->loc.name
	       : fop == FOP_link  ? ((const struct link_in *)in)->loc.name
				  : NULL;
}

static const char *name_made(enum fop fop, const void *in)
{
	return fop == FOP_symlink ? ((const struct symlink_in *)in)->loc.name : new_name(fop, in);
}

static const struct gfid *made_gfid(enum fop fop, const void *in)
{
	switch ((int)fop) {
	case FOP_create:
		return &((const struct create_in *)in)->gfid;
	case FOP_mknod:
		return &((const struct mknod_in *)in)->gfid;
	case FOP_mkdir:
		return &((const struct mkdir_in *)in)->gfid;
	case FOP_symlink:
		return &((const struct symlink_in *)in)->gfid;
	default:
		return NULL;
	}
}

/* c.GFID, k.ID, s.ID */
static bool is_of_move(const struct loc *loc)
{
	return loc->name && strchr("cks", loc->name[0]) && loc->name[1] == '.' && strlen(loc->name) == 2 + GFID_TEXT - 1;
}

/* Of a file that is brought home: a step, but for its data. */
static bool is_step_of_move(enum fop fop, const void *in)
{
	const struct setxattr_in *set = in; /* a removexattr_in begins the same */

	if (fop == FOP_setxattr || fop == FOP_removexattr)
		return !strcmp(set->name, POINTER);
	for (const struct field *f = fop_info[fop].in; f->name && fop != FOP_lookup; f++)
		if (f->kind == FIELD_LOC && is_of_move((const struct loc *)((const char *)in + f->offset)))
			return true;
	return false;
}

void away_note(struct request *rq, enum fop fop, const void *in)
{
	const struct gfid *gfid = made_gfid(fop, in);
	struct born born;

	if (plan.subvolumes == 1)
		return;
	noted.steps += is_step_of_move(fop, in);
	if (fop == FOP_rename && !strncmp(((const struct rename_in *)in)->to.name, "end.", 4))
		note_end(((const struct rename_in *)in)->to.name);
	if (fop == FOP_rename)
		note_undone(((const struct rename_in *)in)->to.name);
	if (fop == FOP_rename && !strncmp(((const struct rename_in *)in)->to.name, "d.", 2) &&
	    !strncmp(((const struct rename_in *)in)->from.name, "i.", 2) && !rq->resent)
		noted.decided++;
	if (new_name(fop, in))
		note_anchor(new_name(fop, in));
	if (fop == FOP_mknod && !strncmp(new_name(fop, in), "p.", 2))
		noted.begun++;
	if (!gfid || born_of(rq, &born))
		return;
	for (unsigned i = 0; i < born.count; i++) {
		struct gfid birth;

		if (!strcmp(born.xattr[i].name, POINTER))
			note_pointer(gfid, name_made(fop, in));
		if (strcmp(born.xattr[i].name, BIRTHMARK) || born.xattr[i].size != sizeof(birth.bytes))
			continue;
		memcpy(birth.bytes, born.xattr[i].value, sizeof(birth.bytes));
		if (!gfid_equal(&birth, gfid))
			note_object(gfid, &birth);
	}
}

unsigned away_begun(void)
{
	return noted.begun;
}

unsigned away_steps(void)
{
	return noted.steps;
}

static bool is_ours(const struct loc *loc)
{
	static const char *const prefix[] = { "new.", "del.", "end.", "a.", "p.", "i.", "d.", "s.", "u.", "w." };

	for (unsigned i = 0; loc->name && i < sizeof(prefix) / sizeof(*prefix); i++)
		if (!strncmp(loc->name, prefix[i], strlen(prefix[i])))
			return true;
	return false;
}

static bool is_mark_of(int fop, const void *in)
{
	const char *name = fop == FOP_setxattr	    ? ((const struct setxattr_in *)in)->name
			   : fop == FOP_removexattr ? ((const struct removexattr_in *)in)->name
						    : "";

	return !strncmp(name, MARK, strlen(MARK));
}

bool away_concerns(int fop, const void *in)
{
	if (is_mark_of(fop, in))
		return true;
	for (const struct field *f = fop_info[fop].in; f->name; f++)
		if (f->kind == FIELD_LOC && is_ours((const struct loc *)((const char *)in + f->offset)))
			return true;
	return false;
}

bool away_refuses(struct request *rq, enum fop fop, const void *in)
{
	struct born born;

	if (rq->resent || (fop != FOP_create && fop != FOP_mknod && fop != FOP_mkdir && fop != FOP_symlink))
		return false;
	if (fop == FOP_create && !(((const struct create_in *)in)->flags & O_EXCL))
		return false; /* what is there may be opened */
	return !born_of(rq, &born) && !(born.count == 1 && !strcmp(born.xattr[0].name, POINTER));
}

void away_room(struct statfs *s, const struct disk_faults *f)
{
	if (f->low)
		s->bfree = s->bavail = s->blocks / 100;
	if (f->floor)
		s->bfree = s->bavail = 0;
}

struct gfid away_birth(const struct gfid *gfid)
{
	for (unsigned i = 0; i < noted.objects; i++)
		if (gfid_equal(&noted.object[i].gfid, gfid))
			return noted.object[i].birth;
	return *gfid;
}

void away_counts(unsigned *pointers, unsigned *objects, unsigned *ends, unsigned *late, unsigned *renames)
{
	*pointers = noted.pointers;
	*objects = noted.objects;
	*ends = noted.ends;
	*late = noted.late;
	*renames = noted.decided; /* at each member of a set */
}

/* ---- what there is in the end ---- */

struct found {
	struct gfid object, pointer; /* of a directory's anchor there is no pointer's */
	struct gfid parent; /* the directory in which it stands; of a directory's anchor what that says its pointer stands in */
	unsigned subvolume, where; /* where the object is, or should be; where the pointer is, or as that says */
	mode_t type;
	bool empty;	/* of a directory's anchor */
	bool ending;	/* a pointer that somebody ends */
	bool stub, met; /* an anchor of what is left of a file that was moved with several names; its pointer was met */
	unsigned next;	/* where that is by now */
	char path[128];
};
struct named {
	struct gfid gfid;
	unsigned subvolume, names;
};
static struct {
	struct found pointer[FOUND_MAX], anchor[FOUND_MAX];
	struct named object[FOUND_MAX];
	char kept[2][FOUND_MAX][GFID_TEXT]; /* ids of movers: of stubs, and of the names of what was moved */
	unsigned keeps[2];
	unsigned pointers, anchors, objects, shards;
} found;

unsigned away_shards(void)
{
	return found.shards;
}

static const struct disk_pair *xattr_of(const struct disk_object *o, const char *name)
{
	const struct disk_pair *x = o->xattr;

	while (x && strcmp(x->name, name))
		x = x->next;
	return x;
}

bool away_is_pointer(const struct disk_object *o)
{
	const struct disk_pair *x = xattr_of(o, POINTER);

	return x && x->value.size != STUB_SIZE; /* a stub is what it was */
}

static bool is_stub(const struct disk_object *o)
{
	const struct disk_pair *x = xattr_of(o, POINTER);

	return x && x->value.size == STUB_SIZE;
}

bool away_is_hidden(const char *path)
{
	return plan.subvolumes > 1 && !strncmp(path, HIDDEN, strlen(HIDDEN));
}

/* The part of a wide directory that is not at home: it says itself, and has no pointer. */
bool away_is_shard(const struct disk_object *o, const char *path)
{
	const struct disk_pair *x = S_ISDIR(o->attr.mode) && away_is_hidden(path) ? xattr_of(o, "trusted.dht.parent") : NULL;

	return x && x->value.size == 29 && !memcmp((uint8_t *)x->value.bytes + 13, o->attr.gfid.bytes, 16);
}

/* What leave.c checks: an empty directory at the subvolume that has left, which nobody asks any more. Its directory may have been removed before it heard where that went. */
static bool was_left_behind(const struct disk_object *o, unsigned subvolume, const char *path)
{
	return plan_leaves() && (int)subvolume == plan.leaver && S_ISDIR(o->attr.mode) && away_is_hidden(path) && !o->entry &&
	       xattr_of(o, DHT_LAYOUT_XATTR);
}

bool away_is_frame(const char *path)
{
	unsigned depth = 0;

	for (const char *at = path; *at; at++)
		depth += *at == '/';
	return away_is_hidden(path) && depth <= HIDDEN_DEPTH;
}

static void count_name(const struct gfid *gfid, unsigned subvolume, const char *path)
{
	unsigned i = 0;

	while (i < found.objects && !gfid_equal(&found.object[i].gfid, gfid))
		i++;
	if (i == FOUND_MAX) {
		sim_fail("too many objects for the checker");
		return;
	}
	if (i == found.objects)
		found.object[found.objects++] = (struct named){ *gfid, subvolume, 0 };
	found.object[i].names++;
	if (found.object[i].subvolume != subvolume)
		sim_fail("%s is at subvolume %u and at %u", path, found.object[i].subvolume, subvolume);
}

static void add_pointer(const struct disk_object *o, const struct gfid *parent, unsigned subvolume, const char *path)
{
	const struct disk_pair *x = xattr_of(o, POINTER);
	struct found *f = &found.pointer[found.pointers++];

	*f = (struct found){ .pointer = o->attr.gfid, .type = o->attr.mode & S_IFMT, .parent = *parent, .where = subvolume };
	snprintf(f->path, sizeof(f->path), "%u:%.100s", subvolume, path);
	if (x->value.size != 21) {
		sim_fail("%s is a pointer that makes no sense", f->path);
		return;
	}
	f->subvolume = ((uint8_t *)x->value.bytes)[4];
	memcpy(f->object.bytes, (uint8_t *)x->value.bytes + 5, 16);
}

/* d.GFID. It says below which directory its pointer is: u8 1, u64, u32 subvolume, gfid. */
static void add_directory(const struct disk_object *o, unsigned subvolume, const char *path)
{
	const struct disk_pair *x = xattr_of(o, "trusted.dht.parent");
	struct found *f = &found.anchor[found.anchors++];
	char text[GFID_TEXT];

	*f = (struct found){ .subvolume = subvolume, .object = o->attr.gfid, .type = S_IFDIR, .empty = !o->entry };
	snprintf(f->path, sizeof(f->path), "%u:%.100s", subvolume, path);
	if (strcmp(strrchr(path, '/') + 3, gfid_text(&o->attr.gfid, text)))
		sim_fail("%s is another directory", f->path);
	else if (!x || x->value.size != 29)
		sim_fail("%s does not say where its pointer is", f->path);
	else {
		f->where = ((uint8_t *)x->value.bytes)[12];
		memcpy(f->parent.bytes, (uint8_t *)x->value.bytes + 13, 16);
	}
}

/* a.PGFID.GFID */
static void add_anchor(const struct disk_object *o, unsigned subvolume, const char *path)
{
	struct found *f = &found.anchor[found.anchors++];
	const struct disk_pair *x = xattr_of(o, POINTER);
	const char *name = strrchr(path, '/') + 1;
	char text[GFID_TEXT];

	*f = (struct found){ .subvolume = subvolume, .object = o->attr.gfid, .type = o->attr.mode & S_IFMT };
	f->stub = x && x->value.size == STUB_SIZE;
	f->next = f->stub ? ((uint8_t *)x->value.bytes)[4] : 0;
	snprintf(f->path, sizeof(f->path), "%u:%.100s", subvolume, path);
	snprintf(text, sizeof(text), "%s", name + 2);
	if (strlen(name) != 2 * GFID_TEXT + 1 || gfid_parse(text, &f->pointer))
		sim_fail("%s is no anchor", f->path);
	else if (gfid_parse(name + 2 + GFID_TEXT, &f->object) || !gfid_equal(&f->object, &o->attr.gfid))
		sim_fail("%s is another object", f->path);
}

/* The power took the name of a directory, whose contents another subvolume has on disk: nobody can end that by removing them. */
static bool is_of_lost_name(const struct disk_object *o, const char *path)
{
	return nemesis_cut_all() && S_ISDIR(o->attr.mode) && !strncmp(strrchr(path, '/'), "/end.", 5) && xattr_of(o, POINTER);
}

/* Of a file that was moved, as long as somebody has its stub open. */
static bool is_kept(const struct disk_object *o, const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	const struct disk_pair *x = xattr_of(o, POINTER);
	bool stub = *name == 's';

	if (strncmp(path, HIDDEN "/work/", strlen(HIDDEN) + 6) || strlen(name) != 2 + GFID_TEXT - 1 || (!stub && *name != 'k'))
		return false;
	if (stub != (x && x->value.size == STUB_SIZE) || found.keeps[stub] == FOUND_MAX)
		return false;
	snprintf(found.kept[stub][found.keeps[stub]++], GFID_TEXT, "%s", name + 2);
	return true;
}

static bool is_among(bool stub, const char *id)
{
	for (unsigned i = 0; i < found.keeps[stub]; i++)
		if (!strcmp(found.kept[stub][i], id))
			return true;
	return false;
}

static void check_kept(void)
{
	for (int stub = 0; stub < 2; stub++)
		for (unsigned i = 0; i < found.keeps[stub]; i++)
			if (!is_among(!stub, found.kept[stub][i]) && !sim_failure())
				sim_fail("%c.%s is left alone", stub ? 's' : 'k', found.kept[stub][i]);
}

static void look_at(const struct disk_object *o, const struct gfid *parent, unsigned subvolume, unsigned depth,
		    const char *path)
{
	if (away_is_shard(o, path) || was_left_behind(o, subvolume, path)) {
		found.shards++;
		return;
	}
	if (found.pointers == FOUND_MAX || found.anchors == FOUND_MAX)
		sim_fail("too many pointers for the checker");
	else if (is_kept(o, path)) {
		if (!xattr_of(o, POINTER))
			count_name(&o->attr.gfid, subvolume, path);
		return;
	} else if (!strncmp(path, HIDDEN "/work/", strlen(HIDDEN) + 6) && is_of_lost_name(o, path)) {
		add_pointer(o, parent, subvolume, path);
		found.pointer[found.pointers - 1].ending = true;
	} else if (!strncmp(path, HIDDEN "/work/", strlen(HIDDEN) + 6))
		sim_fail("subvolume %u: %s is still under way", subvolume, path);
	else if (away_is_hidden(path) && depth == HIDDEN_DEPTH)
		S_ISDIR(o->attr.mode) ? add_directory(o, subvolume, path) : add_anchor(o, subvolume, path);
	else if (xattr_of(o, POINTER))
		add_pointer(o, parent, subvolume, path);
	if (!sim_failure() && !is_stub(o))
		count_name(&o->attr.gfid, subvolume, path);
}

/* Who has looked up all names has met them all, but for one that was set by somebody slow where the name had been. Those of no name are met by who wants the same. */
static void check_marks(const struct disk_object *o, unsigned subvolume, const char *path)
{
	char goes[MARK_NAME], moves[MARK_NAME];

	mark_name(mark_hash(MARK_GOES), goes);
	mark_name(mark_hash(MARK_MOVES), moves);
	for (const struct disk_pair *x = o->xattr; x; x = x->next)
		if (!strncmp(x->name, MARK, strlen(MARK)) && strcmp(x->name, goes) && strcmp(x->name, moves) &&
		    !(gfid_equal(&o->attr.gfid, &gfid_root) && grow_has_left(x->name, subvolume)))
			sim_fail("subvolume %u: a name in %s is marked for ever", subvolume, path);
}

static void walk(struct disk *d, const struct disk_object *dir, unsigned subvolume, unsigned depth, const char *path)
{
	char below[512];

	for (const struct disk_entry *e = dir->entry; e && !sim_failure(); e = e->next) {
		const struct disk_object *o = disk_find(d, &e->gfid);

		snprintf(below, sizeof(below), "%s/%s", path, e->name);
		if (!o)
			sim_fail("a name without an object: %s", below);
		else if (!away_is_frame(below))
			look_at(o, &dir->attr.gfid, subvolume, depth, below);
		if (o && !sim_failure())
			check_marks(o, subvolume, below);
		if (o && S_ISDIR(o->attr.mode))
			walk(d, o, subvolume, depth + 1, below);
	}
}

/* Of a directory there is one anchor, and one pointer. */
static const struct found *same_of(const struct found *list, unsigned count, const struct found *f)
{
	const struct found *same = NULL;

	for (unsigned i = 0; i < count; i++) {
		if (list[i].stub || !gfid_equal(&list[i].object, &f->object) ||
		    (!S_ISDIR(f->type) && !gfid_equal(&list[i].pointer, &f->pointer)))
			continue;
		if (same && S_ISDIR(f->type))
			sim_fail("%s and %s are of one directory", same->path, list[i].path);
		same = &list[i];
	}
	return same;
}

/* What is left where the pointer leads, if the file was moved, leads on to where that is. */
static void lead_on(struct found *pointer)
{
	for (unsigned i = 0; i < found.anchors; i++) {
		struct found *a = &found.anchor[i];

		if (!a->stub || a->subvolume != pointer->subvolume || !gfid_equal(&a->object, &pointer->object) ||
		    !gfid_equal(&a->pointer, &pointer->pointer))
			continue;
		a->met = true;
		pointer->subvolume = a->next;
		return;
	}
}

static void check_pair(const struct found *pointer, const struct found *anchor)
{
	if (anchor->subvolume != pointer->subvolume || anchor->type != pointer->type)
		sim_fail("%s leads to subvolume %u, and %s is there", pointer->path, pointer->subvolume, anchor->path);
	else if (S_ISDIR(pointer->type) && (anchor->where != pointer->where || !gfid_equal(&anchor->parent, &pointer->parent)))
		sim_fail("%s says that its pointer is elsewhere than %s", anchor->path, pointer->path);
}

/* Who made it had stood still for longer than a sweep takes, and died then: that is left for fsck. */
static bool is_late(const struct found *anchor)
{
	const struct pointing *p = pointing(&anchor->pointer);
	bool late =
		S_ISDIR(anchor->type) ? anchor->empty : p && ((p->ended && p->anchored > p->ended) || was_undone(&p->intent));
	bool yes = nemesis_cut_all() || (late && nemesis_client_died());

	noted.late += yes;
	return yes;
}

static void check_pairs(void)
{
	for (unsigned i = 0; i < found.pointers; i++) {
		struct found *p = &found.pointer[i];
		const struct found *a = same_of(found.anchor, found.anchors, p);

		lead_on(p);
		if (p->ending && (!a || a->empty))
			sim_fail("%s is still under way", p->path);
		else if (p->ending) /* left for fsck */
			noted.late++;
		else if (!a && nemesis_cut_all()) /* a file that was never synced, or removed: see keep.c for others */
			noted.lost++;
		else if (!a)
			sim_fail("%s leads to nothing", p->path);
		else
			check_pair(p, a);
	}
	for (unsigned i = 0; i < found.anchors; i++)
		if (!(found.anchor[i].stub ? found.anchor[i].met
					   : same_of(found.pointer, found.pointers, &found.anchor[i]) != NULL) &&
		    !is_late(&found.anchor[i]))
			sim_fail("nothing leads to %s", found.anchor[i].path);
}

static void check_links(void)
{
	for (unsigned i = 0; i < found.objects; i++) {
		const struct named *n = &found.object[i];
		const struct disk_object *o = disk_find(disk_of(n->subvolume * plan.members), &n->gfid);
		char text[GFID_TEXT];

		if (!S_ISDIR(o->attr.mode) && o->attr.nlink != n->names)
			sim_fail("%.8s has %u names and %u links", gfid_text(&n->gfid, text), n->names, o->attr.nlink);
	}
}

/* The first member of each set: the others are equal to it. */
void check_away(void)
{
	memset(&found, 0, sizeof(found));
	for (unsigned i = 0; i < plan.subvolumes && !sim_failure(); i++) {
		struct disk *d = disk_of(i * plan.members);

		check_marks(disk_find(d, &gfid_root), i, "/");
		walk(d, disk_find(d, &gfid_root), i, 0, "");
	}
	if (!sim_failure())
		check_pairs();
	if (!sim_failure())
		check_links();
	check_kept();
}
