/* SPDX-License-Identifier: Apache-2.0 */
/* Views, notes, and how they are packed; the secret. */
#include "replica.h"
#include "dht/place.h"

#include <ctype.h>
#include <endian.h>
#include <fcntl.h>
#include <unistd.h>

const struct gfid gfid_limbo = { { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3 } };
const struct gfid gfid_tenants = { { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2 } };
const struct gfid gfid_rename_token = { { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2 } };

/* ---- views ---- */

unsigned view_mask(const struct view *v, enum member_state at_least)
{
	unsigned mask = 0;

	for (unsigned i = 0; i < v->members; i++)
		if (v->state[i] >= at_least)
			mask |= 1u << i;
	return mask;
}

uint8_t gfid_spread(const struct gfid *g)
{
	return g->bytes[15] ^ g->bytes[7];
}

int view_granter(const struct view *v, const struct gfid *gfid)
{
	uint8_t spread = v->tenant && gfid_equal(gfid, &gfid_root) ? v->root : gfid_spread(gfid);
	unsigned mask = view_mask(v, MEMBER_IN), count = (unsigned)__builtin_popcount(mask);
	unsigned nth = count ? spread % count : 0;

	for (int i = 0; i < v->members; i++)
		if (mask >> i & 1 && !nth--)
			return i;
	return -1;
}

int view_first(const struct view *v)
{
	for (unsigned k = 0; k < v->members; k++)
		if (v->state[v->order[k]] == MEMBER_IN && v->order[k] != v->arbiter)
			return v->order[k];
	return -1;
}

bool view_has_quorum(const struct view *v)
{
	unsigned in = (unsigned)__builtin_popcount(view_mask(v, MEMBER_IN));

	return in >= (v->members == 2 ? 1 : v->members / 2 + 1u) && view_first(v) >= 0;
}

/* ---- packing ---- */

static uint8_t *more(struct pack *p, size_t size)
{
	uint8_t *grown;
	uint32_t room = p->room ? p->room : 256;

	if (p->failed)
		return NULL;
	while (room < p->size + size)
		room *= 2;
	if (room != p->room) {
		grown = realloc(p->bytes, room);
		if (!grown) {
			p->failed = true;
			return NULL;
		}
		p->bytes = grown;
		p->room = room;
	}
	p->size += size;
	return p->bytes + p->size - size;
}

void pack_bytes(struct pack *p, const void *bytes, size_t size)
{
	uint8_t *to = more(p, size);

	if (to && size)
		memcpy(to, bytes, size);
}

void pack_u8(struct pack *p, uint8_t v)
{
	pack_bytes(p, &v, 1);
}

void pack_u32(struct pack *p, uint32_t v)
{
	v = htobe32(v);
	pack_bytes(p, &v, 4);
}

void pack_u64(struct pack *p, uint64_t v)
{
	v = htobe64(v);
	pack_bytes(p, &v, 8);
}

void pack_gfid(struct pack *p, const struct gfid *g)
{
	pack_bytes(p, g->bytes, sizeof(g->bytes));
}

int pack_end(struct pack *p, struct blob *b)
{
	if (p->failed) {
		pack_free(p);
		return -ENOMEM;
	}
	b->bytes = p->bytes;
	b->size = p->size;
	*p = (struct pack){ 0 };
	return 0;
}

void pack_free(struct pack *p)
{
	free(p->bytes);
	*p = (struct pack){ 0 };
}

struct unpack unpack_blob(const struct blob *b)
{
	const uint8_t *at = b->bytes;

	return (struct unpack){ at, b->size ? at + b->size : at, false };
}

void unpack_bytes(struct unpack *u, void *to, size_t size)
{
	if (u->failed || (size_t)(u->end - u->at) < size) {
		u->failed = true;
		memset(to, 0, size);
		return;
	}
	if (!size)
		return;
	memcpy(to, u->at, size);
	u->at += size;
}

uint8_t unpack_u8(struct unpack *u)
{
	uint8_t v;

	unpack_bytes(u, &v, 1);
	return v;
}

uint32_t unpack_u32(struct unpack *u)
{
	uint32_t v;

	unpack_bytes(u, &v, 4);
	return be32toh(v);
}

uint64_t unpack_u64(struct unpack *u)
{
	uint64_t v;

	unpack_bytes(u, &v, 8);
	return be64toh(v);
}

struct gfid unpack_gfid(struct unpack *u)
{
	struct gfid g;

	unpack_bytes(u, g.bytes, sizeof(g.bytes));
	return g;
}

bool unpack_more(const struct unpack *u)
{
	return !u->failed && u->at < u->end;
}

/* ---- what is packed ---- */

void pack_view(struct pack *p, const struct view *v)
{
	pack_u64(p, v->epoch);
	pack_u8(p, v->members);
	pack_u8(p, v->arbiter);
	for (unsigned i = 0; i < v->members; i++) {
		pack_u8(p, v->state[i]);
		pack_u8(p, v->order[i]);
		pack_u64(p, v->incarnation[i]);
		pack_u64(p, v->disk[i]);
	}
}

void unpack_view(struct unpack *u, struct view *v)
{
	unsigned seen = 0;

	*v = (struct view){ .epoch = unpack_u64(u) };
	v->members = unpack_u8(u);
	v->arbiter = unpack_u8(u);
	if (v->members > REPLICAS_MAX || v->arbiter > REPLICAS_MAX)
		u->failed = true;
	for (unsigned i = 0; i < v->members && !u->failed; i++) {
		v->state[i] = unpack_u8(u);
		v->order[i] = unpack_u8(u);
		v->incarnation[i] = unpack_u64(u);
		v->disk[i] = unpack_u64(u);
		if (v->state[i] > MEMBER_IN || v->order[i] >= v->members)
			u->failed = true;
		else
			seen |= 1u << v->order[i];
	}
	if (seen != (1u << v->members) - 1)
		u->failed = true;
	if (u->failed)
		*v = (struct view){ 0 };
}

void pack_reply_view(struct pack *p, const struct reply_view *r)
{
	pack_view(p, &r->view);
	pack_u8(p, r->serving);
	pack_u8(p, r->writable);
	if (!r->view.tenant)
		return;
	pack_u8(p, r->view.tenant);
	pack_u8(p, r->view.root);
}

void unpack_reply_view(struct unpack *u, struct reply_view *r)
{
	unpack_view(u, &r->view);
	r->serving = unpack_u8(u);
	r->writable = unpack_u8(u);
	r->view.tenant = unpack_more(u) && unpack_u8(u);
	r->view.root = r->view.tenant ? unpack_u8(u) : 0;
}

void pack_lease_call(struct pack *p, const struct lease_call *c)
{
	pack_u64(p, c->epoch);
	pack_u64(p, c->clock);
	pack_u64(p, c->lease_ns);
	pack_u64(p, c->generation);
	pack_u64(p, c->prune);
	pack_u8(p, c->writable);
	pack_u8(p, c->unproven);
	pack_u8(p, c->changes_wait);
	pack_u8(p, c->needed);
}

void unpack_lease_call(struct unpack *u, struct lease_call *c)
{
	c->epoch = unpack_u64(u);
	c->clock = unpack_u64(u);
	c->lease_ns = unpack_u64(u);
	c->generation = unpack_u64(u);
	c->prune = unpack_u64(u);
	c->writable = unpack_u8(u);
	c->unproven = unpack_more(u) && unpack_u8(u); /* a coordinator from before that does not say it */
	c->changes_wait = unpack_more(u) && unpack_u8(u);
	c->needed = unpack_more(u) && unpack_u8(u);
}

void pack_lease_reply(struct pack *p, const struct lease_reply *r)
{
	pack_u64(p, r->clock);
	pack_u64(p, r->incarnation);
	pack_u64(p, r->disk);
	pack_u64(p, r->epoch);
	pack_u64(p, r->generation);
	pack_u64(p, r->synced);
	pack_u32(p, r->suspects);
	for (unsigned i = 0; i < REPLICAS_MAX; i++)
		pack_u32(p, r->reason[i]);
	pack_u32(p, r->orphans);
	pack_u32(p, r->stuck);
	pack_u64(p, r->pending);
	pack_u64(p, r->index);
	pack_u64(p, r->notes);
	pack_u64(p, r->tokens);
	pack_u64(p, r->space);
	pack_u64(p, r->free);
	pack_u64(p, r->boot);
	pack_u32(p, r->tenants_left);
	pack_u32(p, r->doubted);
	pack_u32(p, r->failures);
	for (unsigned i = 0; i < r->failures; i++) {
		pack_bytes(p, r->failure[i].session, sizeof(r->failure[i].session));
		pack_u64(p, r->failure[i].sequence);
	}
	pack_u32(p, r->repeated);
	pack_u32(p, r->departing);
	pack_u64(p, r->unnamed);
	pack_u32(p, r->unsynced);
	pack_u32(p, r->leaving);
}

void unpack_lease_reply(struct unpack *u, struct lease_reply *r)
{
	r->clock = unpack_u64(u);
	r->incarnation = unpack_u64(u);
	r->disk = unpack_u64(u);
	r->epoch = unpack_u64(u);
	r->generation = unpack_u64(u);
	r->synced = unpack_u64(u);
	r->suspects = unpack_u32(u);
	for (unsigned i = 0; i < REPLICAS_MAX; i++)
		r->reason[i] = unpack_u32(u);
	r->orphans = unpack_u32(u);
	r->stuck = unpack_u32(u);
	r->pending = unpack_u64(u);
	r->index = unpack_u64(u);
	r->notes = unpack_u64(u);
	r->tokens = unpack_u64(u);
	r->space = unpack_u64(u);
	r->free = unpack_u64(u);
	r->boot = unpack_more(u) ? unpack_u64(u) : 0;
	r->tenants_left = unpack_more(u) ? unpack_u32(u) : 0;
	r->doubted = unpack_more(u) ? unpack_u32(u) : 0;
	r->failures = unpack_more(u) ? unpack_u32(u) : 0;
	if (r->failures > FAILURES_TOLD) {
		u->failed = true;
		r->failures = 0;
	}
	for (unsigned i = 0; i < r->failures; i++) {
		unpack_bytes(u, r->failure[i].session, sizeof(r->failure[i].session));
		r->failure[i].sequence = unpack_u64(u);
	}
	r->repeated = unpack_more(u) ? unpack_u32(u) : 0;
	r->departing = unpack_more(u) ? unpack_u32(u) : 0;
	r->unnamed = unpack_more(u) ? unpack_u64(u) : UINT64_MAX;
	r->unsynced = unpack_more(u) ? unpack_u32(u) : 0;
	r->leaving = unpack_more(u) ? unpack_u32(u) : 0;
}

void pack_note(struct pack *p, const struct note *n)
{
	pack_bytes(p, n->session, sizeof(n->session));
	pack_u64(p, n->sequence);
	pack_u32(p, n->fop);
	pack_u32(p, (uint32_t)n->status);
	pack_u64(p, n->value);
	pack_u8(p, n->resolved | n->tenants << 1);
	pack_u8(p, n->objects);
	for (unsigned i = 0; i < n->objects; i++) {
		const struct note_object *o = &n->object[i];
		size_t length = o->kind == NOTE_NAME ? strlen(o->name) : 0;

		pack_u8(p, o->kind);
		pack_gfid(p, &o->gfid);
		if (o->kind == NOTE_DATA) {
			pack_u64(p, o->start);
			pack_u64(p, o->end);
		}
		pack_u8(p, length);
		pack_bytes(p, o->name, length);
	}
}

void unpack_note(struct unpack *u, struct note *n)
{
	uint8_t flags;

	memset(n, 0, offsetof(struct note, object));
	unpack_bytes(u, n->session, sizeof(n->session));
	n->sequence = unpack_u64(u);
	n->fop = unpack_u32(u);
	n->status = (int32_t)unpack_u32(u);
	n->value = unpack_u64(u);
	flags = unpack_u8(u);
	n->resolved = flags & 1;
	n->tenants = flags & 2;
	n->objects = unpack_u8(u);
	if (n->objects > NOTE_OBJECTS || !n->fop || n->fop >= FOP_COUNT)
		u->failed = true;
	for (unsigned i = 0; i < n->objects && !u->failed; i++) {
		struct note_object *o = &n->object[i];
		size_t length;

		o->kind = unpack_u8(u);
		o->gfid = unpack_gfid(u);
		o->start = o->kind == NOTE_DATA ? unpack_u64(u) : 0;
		o->end = o->kind == NOTE_DATA ? unpack_u64(u) : 0;
		length = unpack_u8(u);
		unpack_bytes(u, o->name, length);
		o->name[length] = '\0';
		if (o->kind < NOTE_DATA || o->kind > NOTE_NEW || (o->kind == NOTE_NAME && name_check(o->name)))
			u->failed = true;
	}
	if (u->failed)
		n->objects = 0;
}

/* ---- the stamp ---- */

uint64_t session_tag(const uint8_t session[16])
{
	uint64_t tag;

	memcpy(&tag, session, sizeof(tag));
	return be64toh(tag) | 1;
}

bool session_is_nobody(const uint8_t session[16])
{
	static const uint8_t nobody[16];

	return !memcmp(session, nobody, sizeof(nobody));
}

int stamp_attach(struct request *rq, const struct replica_stamp *s)
{
	uint64_t words[6] = { htobe64(s->epoch), htobe64(s->sequence), htobe64(s->settled),
			      htobe64(s->time),	 htobe64(s->flags),    htobe64(s->session) };

	for (struct extension *e = rq->extensions; e; e = e->next)
		if (e->type == REPLICA_EXTENSION && e->size == sizeof(words)) {
			memcpy(e->bytes, words, sizeof(words));
			return 0;
		}
	return request_extend(&rq->extensions, REPLICA_EXTENSION, REPLICA_EXTENSION_VERSION, true, words, sizeof(words));
}

bool stamp_of(const struct request *rq, struct replica_stamp *s)
{
	const struct extension *e = request_extension(rq, REPLICA_EXTENSION);
	uint64_t words[6];

	if (!e || e->version != REPLICA_EXTENSION_VERSION || e->size != sizeof(words))
		return false;
	memcpy(words, e->bytes, sizeof(words));
	*s = (struct replica_stamp){ be64toh(words[0]), be64toh(words[1]),	     be64toh(words[2]),
				     be64toh(words[3]), (uint32_t)be64toh(words[4]), be64toh(words[5]) };
	return true;
}

void granted_attach(struct request *rq)
{
	request_extend(&rq->reply_extensions, REPLICA_EXTENSION, REPLICA_EXTENSION_VERSION, false, NULL, 0);
}

bool granted_of(const struct request *rq)
{
	const struct extension *e = rq->reply_extensions;

	while (e && e->type != REPLICA_EXTENSION)
		e = e->next;
	return e;
}

/* ---- notes ---- */

bool note_same(const struct note *a, const struct note *b)
{
	return a->sequence == b->sequence && !memcmp(a->session, b->session, sizeof(a->session));
}

bool note_alike(const struct note *a, const struct note *b, bool for_arbiter)
{
	if (!note_same(a, b) || a->fop != b->fop || a->objects != b->objects)
		return false;
	for (unsigned i = 0; i < a->objects; i++) {
		const struct note_object *x = &a->object[i], *y = &b->object[i];

		if (x->kind != y->kind || !gfid_equal(&x->gfid, &y->gfid) || (x->kind == NOTE_NAME && strcmp(x->name, y->name)))
			return false;
		if (x->kind == NOTE_DATA && !for_arbiter && (x->start != y->start || x->end != y->end))
			return false;
	}
	return true;
}

static struct note_object *add(struct note *n, enum note_kind kind, const struct gfid *gfid)
{
	struct note_object *o = &n->object[n->objects++];

	o->kind = kind;
	o->gfid = *gfid;
	o->start = o->end = 0;
	o->name[0] = '\0';
	return o;
}

static void add_data(struct note *n, const struct inode *inode, uint64_t start, uint64_t size)
{
	struct note_object *o = add(n, NOTE_DATA, &inode->gfid);

	o->start = start;
	o->end = size > UINT64_MAX - start ? UINT64_MAX : start + size;
}

static void add_name(struct note *n, const struct loc *loc)
{
	struct note_object *o;

	if (!loc->parent || !loc->name)
		return;
	o = add(n, NOTE_NAME, &loc->parent->gfid);
	snprintf(o->name, sizeof(o->name), "%s", loc->name);
}

static void note_setattr(const struct setattr_in *in, struct note *n)
{
	const struct inode *inode = in->file ? in->file->inode : in->inode;

	add(n, NOTE_META, &inode->gfid);
	if (in->set.valid & SET_SIZE)
		add_data(n, inode, 0, UINT64_MAX);
}

static void note_made(const struct loc *loc, const struct gfid *gfid, struct note *n)
{
	add_name(n, loc);
	add(n, NOTE_NEW, gfid);
}

int note_of(enum fop fop, const void *in, struct note *n)
{
	const union {
		struct setattr_in setattr;
		struct mknod_in mknod;
		struct mkdir_in mkdir;
		struct symlink_in symlink;
		struct unlink_in unlink;
		struct rmdir_in rmdir;
		struct rename_in rename;
		struct link_in link;
		struct create_in create;
		struct write_in write;
		struct setxattr_in setxattr;
		struct removexattr_in removexattr;
		struct fallocate_in fallocate;
		struct copy_range_in copy_range;
	} *u = in;

	n->fop = fop;
	n->objects = 0;
	n->value = 0;
	n->resolved = n->tenants = false;
	switch ((int)fop) {
	case FOP_setattr:
		note_setattr(&u->setattr, n);
		return 0;
	case FOP_mknod:
		note_made(&u->mknod.loc, &u->mknod.gfid, n);
		return 0;
	case FOP_mkdir:
		note_made(&u->mkdir.loc, &u->mkdir.gfid, n);
		return 0;
	case FOP_symlink:
		note_made(&u->symlink.loc, &u->symlink.gfid, n);
		return 0;
	case FOP_create:
		note_made(&u->create.loc, &u->create.gfid, n);
		return 0;
	case FOP_unlink:
		add_name(n, &u->unlink.loc);
		return 0;
	case FOP_rmdir:
		add_name(n, &u->rmdir.loc);
		return 0;
	case FOP_link:
		add_name(n, &u->link.loc);
		if (u->link.inode)
			add(n, NOTE_META, &u->link.inode->gfid);
		return 0;
	case FOP_rename:
		add_name(n, &u->rename.from);
		add_name(n, &u->rename.to);
		return 0;
	case FOP_write:
		add_data(n, u->write.file->inode, u->write.offset, u->write.data ? u->write.data->size : 0);
		return 0;
	case FOP_setxattr:
		add(n, NOTE_META, &u->setxattr.inode->gfid);
		return 0;
	case FOP_removexattr:
		add(n, NOTE_META, &u->removexattr.inode->gfid);
		return 0;
	case FOP_fallocate:
		add_data(n, u->fallocate.file->inode, u->fallocate.offset, UINT64_MAX);
		return 0;
	case FOP_copy_range:
		add_data(n, u->copy_range.to->inode, u->copy_range.to_offset, u->copy_range.length);
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

/* rmdir is not among them: who removes a directory has its token. */
static bool takes_names(const struct note *n)
{
	return n->fop == FOP_unlink || n->fop == FOP_rename;
}

void note_expect(struct note *n, const struct request *rq)
{
	struct place p;

	if (!takes_names(n) || place_of(rq, &p) <= 0)
		return;
	for (int i = 0; i < 2 && n->objects < NOTE_OBJECTS; i++)
		if (!gfid_is_null(&p.expected[i]))
			add(n, NOTE_META, &p.expected[i]);
}

bool note_only_names(const struct note *n, unsigned object)
{
	return takes_names(n) && n->object[object].kind == NOTE_META;
}

bool note_hides(const struct note *n)
{
	unsigned names = 0, told = 0;

	if (session_is_nobody(n->session)) /* after a cold start: whole directories are made equal */
		return true;
	for (unsigned i = 0; i < n->objects; i++) {
		names += n->object[i].kind == NOTE_NAME;
		told += n->object[i].kind == NOTE_META;
	}
	return (takes_names(n) || n->fop == FOP_rmdir) && told < names;
}

/* ---- the secret ---- */

int secret_read(const char *path, uint8_t secret[REPLICA_SECRET_SIZE], struct problem *p)
{
	char text[2 * REPLICA_SECRET_SIZE + 1] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd < 0)
		return problem_set(p, errno, "can't open the secret-file %s: %s", path, strerror(errno));
	close(fd);
	for (unsigned i = 0; i < REPLICA_SECRET_SIZE && got == sizeof(text) - 1; i++) {
		unsigned byte;

		if (!isxdigit((unsigned char)text[2 * i]) || !isxdigit((unsigned char)text[2 * i + 1]) ||
		    sscanf(text + 2 * i, "%2x", &byte) != 1)
			got = -1;
		else
			secret[i] = byte;
	}
	return got == sizeof(text) - 1 ? 0
				       : problem_set(p, EINVAL, "the secret-file %s must have %d hexadecimal digits", path,
						     2 * REPLICA_SECRET_SIZE);
}
