/* SPDX-License-Identifier: Apache-2.0 */
/* What the members tell when the view changes: lists of objects that may differ, and the union of all notes. */
#include "coordinator.h"

/* ---- lists of objects that may differ ---- */

int list_add(struct gfid_list *l, const struct gfid *g)
{
	if (l->count == l->room) {
		size_t room = l->room ? 2 * l->room : 1024;
		struct gfid *grown = realloc(l->gfid, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		l->gfid = grown;
		l->room = room;
	}
	l->gfid[l->count++] = *g;
	return 0;
}

void list_add_all(struct gfid_list *to, const struct gfid_list *from)
{
	to->all |= from->all;
	for (size_t i = 0; i < from->count && !to->all; i++)
		to->all = list_add(to, &from->gfid[i]) != 0;
}

void list_free(struct gfid_list *l)
{
	free(l->gfid);
	*l = (struct gfid_list){ 0 };
}

int list_index(struct coordinator *c, int member, uint64_t above, struct gfid_list *l)
{
	uint64_t cursor = 0;

	do {
		struct blob answer = { 0 };
		struct pack p = { 0 };
		struct unpack u;
		int err;

		pack_u64(&p, above);
		pack_u64(&p, cursor);
		err = ask_member(c, member, REPLICA_INDEX, &p, &answer, clock_ns() + coordinator_lease_ns(c));
		if (err)
			return err;
		u = unpack_blob(&answer);
		l->all |= unpack_u8(&u);
		cursor = unpack_u64(&u);
		while (unpack_more(&u) && !err) {
			struct gfid g = unpack_gfid(&u);

			unpack_u32(&u);
			err = u.failed ? -EPROTO : list_add(l, &g);
		}
		free(answer.bytes);
		if (err)
			return err;
	} while (cursor);
	return 0;
}

/* ---- notes ---- */

static struct union_note **same_number(struct coordinator *c, const struct note *n)
{
	return &c->numbered[(session_tag(n->session) ^ n->sequence) % NUMBERED];
}

static struct union_note *union_find(struct coordinator *c, const struct note *n)
{
	struct union_note *u = *same_number(c, n);

	while (u && !note_same(&u->note, n))
		u = u->same_number;
	return u;
}

/* Done is final. What was resolved as not done may have been done again since, and then a member that the client did not reach that
 * time still tells of the old attempt. */
static void union_resolved(struct note *all, const struct note *n)
{
	if (n->resolved && !n->status) {
		all->resolved = true;
		all->status = 0;
		all->value = n->value;
	} else if (!n->resolved && all->status) {
		all->resolved = false;
	}
}

/* An arbiter is sent no data, so it notes none, or the last byte only. */
static void union_ranges(struct note *all, const struct note *n)
{
	for (unsigned i = 0; i < all->objects && i < n->objects; i++) {
		struct note_object *o = &all->object[i];

		if (o->kind != NOTE_DATA || n->object[i].kind != NOTE_DATA)
			continue;
		o->start = n->object[i].start < o->start ? n->object[i].start : o->start;
		o->end = n->object[i].end > o->end ? n->object[i].end : o->end;
	}
}

static int union_add(struct coordinator *c, int member, const struct note *n)
{
	struct union_note *u = union_find(c, n);

	if (!u) {
		u = calloc(1, sizeof(*u));
		if (!u)
			return -ENOMEM;
		u->note = *n;
		for (int i = 0; i < REPLICAS_MAX; i++)
			u->status[i] = NOTE_UNKNOWN;
		u->next = c->notes;
		c->notes = u;
		u->same_number = *same_number(c, n);
		*same_number(c, n) = u;
	}
	union_resolved(&u->note, n);
	union_ranges(&u->note, n);
	if (!n->status && !u->note.resolved && n->value > u->note.value) /* an arbiter writes nothing */
		u->note.value = n->value;
	u->note.tenants |= n->tenants;
	u->has[member] = true;
	u->value[member] = n->value;
	u->status[member] = n->resolved && n->status == -ECANCELED ? -ENOTDONE : n->status;
	return 0;
}

int notes_collect(struct coordinator *c, int member)
{
	uint64_t from = 0;

	for (;;) {
		struct blob answer = { 0 };
		struct pack p = { 0 };
		struct unpack u;
		int err;

		pack_u64(&p, from);
		err = ask_member(c, member, REPLICA_NOTES, &p, &answer, clock_ns() + coordinator_lease_ns(c));
		if (err)
			return err;
		u = unpack_blob(&answer);
		if (!unpack_more(&u)) {
			free(answer.bytes);
			return 0;
		}
		while (unpack_more(&u) && !err) {
			struct note n;

			unpack_note(&u, &n);
			err = u.failed ? -EPROTO : union_add(c, member, &n);
			from++;
		}
		free(answer.bytes);
		if (err)
			return err;
	}
}

/* A member that was started anew may have done any of them, and has forgotten. */
void notes_forgotten(struct coordinator *c, int member)
{
	for (struct union_note *u = c->notes; u && !MUTANT("trust-the-forgetful"); u = u->next) {
		if (u->has[member])
			continue;
		u->has[member] = true;
		u->status[member] = -EIO;
	}
}

/* What nobody of the others knows they may have done, and forgotten, for they may have been started anew since. That holds for what was
 * not done when those that were away heard of it last, too. */
void notes_of_away(struct coordinator *c, unsigned others)
{
	for (struct union_note *u = c->notes; u && !MUTANT("trust-the-away"); u = u->next) {
		bool known = false;

		for (int i = 0; i < c->members; i++)
			known |= others >> i & 1 && u->has[i];
		if (known || (u->note.resolved && !u->note.status))
			continue;
		u->note.resolved = false;
		for (int i = 0; i < c->members; i++)
			if (others >> i & 1) {
				u->has[i] = true;
				u->status[i] = -EIO;
			}
	}
}

void notes_free(struct coordinator *c)
{
	while (c->notes) {
		struct union_note *u = c->notes;

		c->notes = u->next;
		free(u);
	}
	memset(c->numbered, 0, sizeof(c->numbered));
}

/* All of an object is to be made equal: as a note of nobody's. */
static int note_whole(struct coordinator *c, const struct gfid *g, uint64_t number)
{
	struct union_note *u = calloc(1, sizeof(*u));

	if (!u)
		return -ENOMEM;
	u->note.sequence = number;
	u->note.fop = FOP_setattr;
	u->note.status = NOTE_UNKNOWN;
	u->note.objects = 1;
	u->note.object[0].kind = NOTE_NEW;
	u->note.object[0].gfid = *g;
	u->next = c->notes;
	c->notes = u;
	return 0;
}

static int compare_gfids(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct gfid));
}

void list_sort_unique(struct gfid_list *l)
{
	size_t left = 0;

	if (l->count)
		qsort(l->gfid, l->count, sizeof(*l->gfid), compare_gfids);
	for (size_t i = 0; i < l->count; i++)
		if (!left || memcmp(&l->gfid[left - 1], &l->gfid[i], sizeof(*l->gfid)))
			l->gfid[left++] = l->gfid[i];
	l->count = left;
}

/* With the lock held. Each directory whose names it has changed since that generation is on its list, whatever a power cut has taken. */
static bool lists_names(const struct coordinator *c, int i, uint64_t generation)
{
	return c->member[i].last.unnamed <= generation || MUTANT("trust-unnamed");
}

/* After all members went down together: what changed since the last common sync. */
int notes_of_indexes(struct coordinator *c, const struct view *next, int *failed)
{
	struct gfid_list l = { 0 };
	uint64_t least = UINT64_MAX;
	bool unlisted = false;
	int err = 0;

	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->members; i++)
		if (next->state[i] == MEMBER_IN && c->member[i].last.synced < least)
			least = c->member[i].last.synced;
	for (int i = 0; i < c->members; i++)
		unlisted |= next->state[i] == MEMBER_IN && !lists_names(c, i, least);
	c->owed.unlisted |= unlisted;
	pthread_mutex_unlock(&c->lock);
	for (int i = 0; i < c->members && !err; i++)
		if (next->state[i] == MEMBER_IN) {
			err = list_index(c, i, least, &l);
			*failed = i;
		}
	list_sort_unique(&l);
	if (l.all) {
		pthread_mutex_lock(&c->lock);
		c->owed.scrub = c->owed.unlisted = true;
		pthread_mutex_unlock(&c->lock);
		log_warning(
			c->x, NULL,
			"not all is known that changed before the members went down: they may differ until the scrub that follows is done");
	}
	for (size_t i = 0; i < l.count && !err; i++)
		err = note_whole(c, &l.gfid[i], (next->epoch << 32) + i + 1);
	free(l.gfid);
	return err;
}

/* Of all objects that are made equal as a whole, is it one? */
static bool is_whole(const struct coordinator *c, const struct gfid *g)
{
	for (const struct union_note *u = c->notes; u; u = u->next)
		if (session_is_nobody(u->note.session) && !u->note.resolved && gfid_equal(&u->note.object[0].gfid, g))
			return true;
	return false;
}

static bool is_missed(const struct coordinator *c, const struct gfid *directory)
{
	for (size_t i = 0; i < c->missed.count; i++)
		if (gfid_equal(&c->missed.gfid[i], directory))
			return true;
	return false;
}

int missed_add(struct coordinator *c, const struct gfid *directory, struct inode *inode)
{
	struct inode **kept;
	int err;

	if (is_missed(c, directory) || is_whole(c, directory))
		return 0;
	kept = realloc(c->missed_kept, (c->missed.count + 1) * sizeof(struct inode *));
	if (!kept)
		return -ENOMEM;
	c->missed_kept = kept;
	err = list_add(&c->missed, directory);
	if (!err)
		kept[c->missed.count - 1] = inode ? inode_ref(inode) : NULL;
	return err;
}

void missed_clear(struct coordinator *c)
{
	for (size_t i = 0; i < c->missed.count; i++)
		inode_unref(c->missed_kept[i]);
	free(c->missed_kept);
	c->missed_kept = NULL;
	list_free(&c->missed);
}

/* After the numbers of notes_of_indexes(). */
int notes_of_missed(struct coordinator *c, const struct view *next)
{
	int err = 0;

	for (size_t i = 0; i < c->missed.count && !err; i++)
		if (!is_whole(c, &c->missed.gfid[i]))
			err = note_whole(c, &c->missed.gfid[i], (next->epoch << 32) + (1u << 31) + i + 1);
	return err;
}

unsigned notes_send(struct coordinator *c, unsigned mask)
{
	const struct union_note *u = c->notes;
	unsigned all = mask;

	while (u && all) {
		struct pack p = { 0 };
		unsigned good;

		for (; u && p.size < REPLICA_BLOB_MAX - 4096; u = u->next)
			pack_note(&p, &u->note);
		good = p.failed ? 0 : tell_members(c, mask, REPLICA_ADD_NOTES, &p, coordinator_lease_ns(c));
		pack_free(&p);
		all &= good;
	}
	return all;
}
