/* SPDX-License-Identifier: Apache-2.0 */
/* The table-driven codec of fops: one function per kind of field, which encodes or decodes as the stream says. All that
 * comes in is hostile: every count is held against its bound and against the bytes that are left before memory is taken. */
#include "codec.h"

#include <fcntl.h>
#include <sys/stat.h>

#define ENCODING(c) ((c)->xdr.x_op == XDR_ENCODE)

void codec_init(struct codec *c, enum xdr_op op, void *bytes, uint32_t size, const struct codec_ops *ops, void *owner)
{
	memset(c, 0, sizeof(*c));
	xdrmem_create(&c->xdr, bytes, size, op);
	c->limit = size;
	c->ops = ops;
	c->owner = owner;
}

static bool fail(struct codec *c, int error)
{
	if (!c->error)
		c->error = error;
	return false;
}

static bool check(struct codec *c, int error)
{
	return error ? fail(c, error) : true;
}

static uint32_t left(struct codec *c)
{
	return c->limit - xdr_getpos(&c->xdr);
}

static int outcome(struct codec *c, bool ok)
{
	if (ok && !c->error)
		return 0;
	return c->error ? c->error : ENCODING(c) ? -EMSGSIZE : -EBADMSG;
}

/* ---- scalars and bytes ---- */

static bool code_u32(struct codec *c, uint32_t *v)
{
	return xdr_u_int(&c->xdr, v);
}

static bool code_u64(struct codec *c, uint64_t *v)
{
	return xdr_uint64_t(&c->xdr, v);
}

static bool code_bool(struct codec *c, bool *v)
{
	uint32_t word = *v;

	if (!code_u32(c, &word) || word > 1)
		return false;
	*v = word;
	return true;
}

/* libtirpc's xdr_opaque decodes padding into a static variable, which threads would share. */
static bool code_opaque(struct codec *c, void *bytes, uint32_t size)
{
	const void *at;

	if (ENCODING(c))
		return xdr_opaque(&c->xdr, bytes, size);
	at = xdr_inline(&c->xdr, RNDUP(size));
	if (at && size)
		memcpy(bytes, at, size);
	return at;
}

static bool code_gfid(struct codec *c, struct gfid *g)
{
	return code_opaque(c, g->bytes, sizeof(g->bytes));
}

/* A length that is at most `max` and, when decoding, covered by what is left. */
static bool code_length(struct codec *c, uint32_t *size, uint32_t max)
{
	if (ENCODING(c) && *size > max)
		return fail(c, -EMSGSIZE);
	return code_u32(c, size) && *size <= max && (ENCODING(c) || *size <= left(c));
}

static bool code_bytes(struct codec *c, void **bytes, uint32_t *size, uint32_t max)
{
	if (!code_length(c, size, max))
		return *size = 0, false;
	if (!*size)
		return true;
	if (!ENCODING(c) && !(*bytes = malloc(*size)))
		return *size = 0, fail(c, -ENOMEM);
	return code_opaque(c, *bytes, *size);
}

/* NULL goes as "". With `optional` it comes back as NULL. */
static bool code_string(struct codec *c, char **s, uint32_t max, bool optional)
{
	uint32_t size = ENCODING(c) && *s ? strlen(*s) : 0;

	if (!code_length(c, &size, max))
		return false;
	if (ENCODING(c))
		return code_opaque(c, *s, size);
	if (!size && optional)
		return true;
	*s = calloc(1, size + 1);
	if (!*s)
		return fail(c, -ENOMEM);
	return code_opaque(c, *s, size) && strlen(*s) == size;
}

static bool code_blob(struct codec *c, struct blob *b)
{
	return code_bytes(c, &b->bytes, &b->size, WIRE_BLOB_MAX);
}

/* ---- objects ---- */

struct handle {
	uint32_t size;
	uint8_t bytes[WIRE_HANDLE_MAX];
};

static bool code_handle(struct codec *c, struct handle *h)
{
	return code_length(c, &h->size, WIRE_HANDLE_MAX) && code_opaque(c, h->bytes, h->size);
}

static int handle_of(struct codec *c, struct inode *inode, struct handle *h)
{
	h->size = inode ? sizeof(h->bytes) : 0;
	return inode ? c->ops->put_inode(c, inode, h->bytes, &h->size) : 0;
}

/* Of an object that there is, in results. */
static bool code_told(struct codec *c, struct gfid *g)
{
	struct gfid told = *g;

	if (ENCODING(c) && c->ops && c->ops->tell_gfid)
		c->ops->tell_gfid(c, &told);
	return ENCODING(c) ? code_gfid(c, &told) : code_gfid(c, g);
}

static bool code_inode(struct codec *c, struct inode **inode)
{
	struct handle h;

	if (ENCODING(c))
		return check(c, handle_of(c, *inode, &h)) && code_handle(c, &h);
	if (!code_handle(c, &h))
		return false;
	return !h.size || check(c, c->ops->take_inode(c, h.bytes, h.size, inode));
}

static bool known_type(uint32_t type)
{
	return type == S_IFREG || type == S_IFDIR || type == S_IFLNK || type == S_IFIFO || type == S_IFSOCK ||
	       type == S_IFCHR || type == S_IFBLK;
}

bool codec_new_inode(struct codec *c, struct inode **inode)
{
	struct gfid gfid = { { 0 } };
	uint32_t type = 0;
	struct handle h;

	if (ENCODING(c)) {
		gfid = *inode ? (*inode)->gfid : gfid;
		type = *inode ? (*inode)->type : 0;
		return check(c, handle_of(c, *inode, &h)) && code_told(c, &gfid) && code_u32(c, &type) && code_handle(c, &h);
	}
	if (!code_gfid(c, &gfid) || !code_u32(c, &type) || !code_handle(c, &h))
		return false;
	if (gfid_is_null(&gfid))
		return !h.size;
	return known_type(type) && h.size && check(c, c->ops->make_inode(c, &gfid, type, h.bytes, h.size, inode));
}

static bool code_file(struct codec *c, struct file **file)
{
	uint64_t number = 0;

	if (ENCODING(c))
		return (!*file || check(c, c->ops->put_file(c, *file, &number))) && code_u64(c, &number);
	if (!code_u64(c, &number))
		return false;
	return !number || check(c, c->ops->take_file(c, number, file));
}

static bool code_new_file(struct codec *c, struct file **file)
{
	uint64_t number = 0;

	if (ENCODING(c))
		return check(c, c->ops->add_file(c, *file, &number)) && code_u64(c, &number);
	if (!code_u64(c, &number) || !number || !c->opened)
		return false;
	return check(c, c->ops->make_file(c, number, c->opened, c->flags, file));
}

static bool code_loc(struct codec *c, struct loc *l)
{
	if (!code_inode(c, &l->parent) || !code_inode(c, &l->inode) || !code_string(c, (char **)&l->name, NAME_MAX, true))
		return false;
	return ENCODING(c) || !l->name || check(c, name_check(l->name));
}

static bool code_buffer(struct codec *c, struct buffer **b)
{
	uint32_t size = ENCODING(c) && *b ? (*b)->size : 0;

	if (ENCODING(c) && size > WIRE_BULK_MAX - c->bulk_size)
		return fail(c, -EMSGSIZE);
	if (!code_u32(c, &size))
		return false;
	if (ENCODING(c)) {
		c->bulk_size += size;
		if (size)
			c->buffer[c->buffers++] = *b;
		return true;
	}
	if (size > (c->bulk ? c->bulk->size - c->claimed : 0))
		return false;
	if (!size)
		*b = buffer_from("", 0);
	else if (size == c->bulk->size)
		*b = buffer_ref(c->bulk);
	else
		*b = buffer_slice(c->bulk, c->claimed, size);
	c->claimed += size;
	return *b || fail(c, -ENOMEM);
}

/* ---- plain structs ---- */

static bool code_time(struct codec *c, struct time *t)
{
	return xdr_int64_t(&c->xdr, &t->sec) && code_u32(c, &t->nsec);
}

/* One word: the mode takes the lower half. */
static bool code_mode_flags(struct codec *c, struct attr *a)
{
	uint32_t word = (a->mode & UINT16_MAX) | a->flags << 16;

	if (!code_u32(c, &word))
		return false;
	a->mode = word & UINT16_MAX;
	a->flags = word >> 16;
	return true;
}

static bool code_attr(struct codec *c, struct attr *a)
{
	return code_told(c, &a->gfid) && code_mode_flags(c, a) && code_u32(c, &a->nlink) && code_u32(c, &a->uid) &&
	       code_u32(c, &a->gid) && code_u64(c, &a->rdev) && code_u64(c, &a->size) && code_u64(c, &a->blocks) &&
	       code_u32(c, &a->blksize) && code_time(c, &a->atime) && code_time(c, &a->mtime) && code_time(c, &a->ctime) &&
	       code_time(c, &a->btime);
}

static bool code_setattr(struct codec *c, struct setattr *s)
{
	return code_u32(c, &s->valid) && code_u32(c, &s->mode) && code_u32(c, &s->uid) && code_u32(c, &s->gid) &&
	       code_u64(c, &s->size) && code_time(c, &s->atime) && code_time(c, &s->mtime);
}

static bool code_statfs(struct codec *c, struct statfs *s)
{
	return code_u64(c, &s->bsize) && code_u64(c, &s->frsize) && code_u64(c, &s->blocks) && code_u64(c, &s->bfree) &&
	       code_u64(c, &s->bavail) && code_u64(c, &s->files) && code_u64(c, &s->ffree) && code_u64(c, &s->namemax);
}

bool codec_lock(struct codec *c, struct lock *l)
{
	return code_u32(c, &l->kind) && code_u32(c, &l->type) && code_u64(c, &l->start) && code_u64(c, &l->end) &&
	       code_u64(c, &l->owner) && code_u32(c, &l->pid) && code_u32(c, &l->wait) && code_u32(c, &l->reclaim);
}

static bool encode_extensions(struct codec *c, const struct extension *first)
{
	uint32_t count = 0;

	for (const struct extension *e = first; e; e = e->next)
		count++;
	if (count > WIRE_EXTENSIONS_MAX)
		return fail(c, -EMSGSIZE);
	if (!code_u32(c, &count))
		return false;
	for (struct extension *e = (struct extension *)first; e; e = e->next)
		if (!code_u32(c, &e->type) || !code_u32(c, &e->version) || !code_bool(c, &e->critical) ||
		    !code_bytes(c, &e->bytes, &e->size, WIRE_EXTENSION_MAX))
			return false;
	return true;
}

bool codec_extensions(struct codec *c, struct extension **list)
{
	uint32_t count = 0;

	if (ENCODING(c))
		return encode_extensions(c, *list);
	if (!code_u32(c, &count) || count > WIRE_EXTENSIONS_MAX)
		return false;
	while (count--) {
		struct extension e = { 0 };
		const char *bytes = NULL;

		if (!code_u32(c, &e.type) || !code_u32(c, &e.version) || !code_bool(c, &e.critical) ||
		    !code_length(c, &e.size, WIRE_EXTENSION_MAX))
			return false;
		if (e.size && !(bytes = (const char *)xdr_inline(&c->xdr, RNDUP(e.size))))
			return false;
		if (!check(c, request_extend(list, e.type, e.version, e.critical, bytes, e.size)))
			return false;
	}
	return true;
}

/* ---- directory entries ---- */

static bool encode_entry(struct codec *c, struct dirent_plus *e)
{
	struct handle h = { 0 };
	struct gfid gfid = e->gfid;
	bool there;

	if (e->inode && handle_of(c, e->inode, &h))
		h.size = 0; /* it vanished */
	there = h.size;
	if (!there && e->attr.flags & ATTR_POINTER) /* which goes without attributes: what it leads to has the name */
		gfid = e->attr.gfid;
	return code_u64(c, &e->next_offset) && code_told(c, &gfid) && code_u32(c, &e->type) &&
	       code_string(c, &e->name, NAME_MAX, false) && code_handle(c, &h) && code_bool(c, &there) &&
	       (!there || code_attr(c, &e->attr));
}

/* "." and ".." are names here. */
static bool entry_name_good(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..") || !name_check(name);
}

static bool decode_entry(struct codec *c, struct dirent_plus *e)
{
	struct handle h;
	bool there = false;

	if (!code_u64(c, &e->next_offset) || !code_gfid(c, &e->gfid) || !code_u32(c, &e->type) ||
	    !code_string(c, &e->name, NAME_MAX, false) || !entry_name_good(e->name) || !code_handle(c, &h) ||
	    !code_bool(c, &there) || there != (h.size > 0))
		return false;
	if (!there)
		return true;
	return code_attr(c, &e->attr) && !gfid_is_null(&e->gfid) && known_type(e->attr.mode & S_IFMT) &&
	       check(c, c->ops->make_inode(c, &e->gfid, e->attr.mode & S_IFMT, h.bytes, h.size, &e->inode));
}

/* As many entries as there is room for; what is left over the client asks for again. */
static bool encode_dirents(struct codec *c, struct dirents *d)
{
	uint32_t start = xdr_getpos(&c->xdr), count = 0, end;
	bool last;

	if (!code_u32(c, &count))
		return false;
	while (count < d->count && count < WIRE_ENTRIES_MAX) {
		uint32_t before = xdr_getpos(&c->xdr);

		if (!encode_entry(c, &d->entry[count]) || left(c) < BYTES_PER_XDR_UNIT) {
			if (c->error || !count)
				return fail(c, -EMSGSIZE);
			xdr_setpos(&c->xdr, before);
			break;
		}
		count++;
	}
	last = d->end && count == d->count;
	end = xdr_getpos(&c->xdr);
	return xdr_setpos(&c->xdr, start) && code_u32(c, &count) && xdr_setpos(&c->xdr, end) && code_bool(c, &last);
}

static bool code_dirents(struct codec *c, struct dirents *d)
{
	enum { ENTRY_MIN = 8 + 16 + 4 + 4 + 4 + 4 };
	uint32_t count = 0;

	if (ENCODING(c))
		return encode_dirents(c, d);
	if (!code_u32(c, &count) || count > WIRE_ENTRIES_MAX || count > left(c) / ENTRY_MIN)
		return false;
	d->entry = count ? calloc(count, sizeof(*d->entry)) : NULL;
	if (count && !d->entry)
		return fail(c, -ENOMEM);
	for (; d->count < count; d->count++)
		if (!decode_entry(c, &d->entry[d->count]))
			return d->count++, false; /* what the entry already has is freed with the list */
	return code_bool(c, &d->end);
}

/* ---- fields, compounds ---- */

static bool code_steps(struct codec *, struct steps *);

static bool code_field(struct codec *c, const struct field *f, void *at)
{
	switch (f->kind) {
	case FIELD_LOC:
		return code_loc(c, at);
	case FIELD_INODE:
		return code_inode(c, at);
	case FIELD_FILE:
		return code_file(c, at);
	case FIELD_U32:
	case FIELD_MODE:
		return code_u32(c, at);
	case FIELD_U64:
		return code_u64(c, at);
	case FIELD_GFID:
		return code_gfid(c, at);
	case FIELD_STRING:
		return code_string(c, at, WIRE_STRING_MAX, false);
	case FIELD_BLOB:
		return code_blob(c, at);
	case FIELD_ATTR:
		return code_attr(c, at);
	case FIELD_SETATTR:
		return code_setattr(c, at);
	case FIELD_BUFFER:
		return code_buffer(c, at);
	case FIELD_DIRENTS:
		return code_dirents(c, at);
	case FIELD_STATFS:
		return code_statfs(c, at);
	case FIELD_LOCK:
		return codec_lock(c, at);
	case FIELD_STEPS:
		return code_steps(c, at);
	case FIELD_RESULTS:
		break; /* code_results: they need the steps */
	}
	return fail(c, -EPROTO);
}

/* What a request must say, that its types don't: objects that may be left out only where an earlier step gave them. */
static bool objects_there(struct codec *c, int fop, const struct field *f, const void *at)
{
	const struct loc *l = at;

	switch (f->kind) {
	case FIELD_LOC:
		if (fop == FOP_lookup && !l->name)
			return l->inode || c->given_inode;
		return l->name && (l->parent || c->given_inode);
	case FIELD_INODE:
		return *(struct inode *const *)at || c->given_inode || fop == FOP_replica;
	case FIELD_FILE:
		return *(struct file *const *)at || c->given_file || fop == FOP_getattr || fop == FOP_setattr;
	case FIELD_GFID:
		return !gfid_is_null(at);
	default:
		return true;
	}
}

static bool read_fits(struct codec *c, const struct read_in *in)
{
	c->bulk_size += in->size; /* of the answer */
	return in->size <= WIRE_BULK_MAX && c->bulk_size <= WIRE_BULK_MAX;
}

static bool code_args(struct codec *c, int fop, void *in)
{
	for (const struct field *f = fop_info[fop].in; f->name; f++) {
		void *at = (char *)in + f->offset;

		if (!code_field(c, f, at))
			return false;
		if (!ENCODING(c) && !objects_there(c, fop, f, at))
			return fail(c, -EINVAL);
	}
	return ENCODING(c) || fop != FOP_read || read_fits(c, in) || fail(c, -EINVAL);
}

static bool code_condition(struct codec *c, struct condition *k)
{
	return code_u32(c, &k->kind) && k->kind <= IF_ABSENT && code_inode(c, &k->inode) && code_loc(c, &k->loc) &&
	       code_u64(c, &k->size) && code_string(c, &k->name, WIRE_STRING_MAX, true) && code_blob(c, &k->value);
}

static bool step_allowed(const struct step *s)
{
	const struct setlk_in *lock = s->in;

	return s->fop != FOP_setlk || !lock->lock.wait;
}

static void note_given(struct codec *c, int fop)
{
	for (const struct field *f = fop_info[fop].out; f->name; f++) {
		c->given_inode |= f->kind == FIELD_INODE;
		c->given_file |= f->kind == FIELD_FILE;
	}
}

static bool code_step(struct codec *c, struct step *s)
{
	if (!code_condition(c, &s->condition) || !code_u32(c, &s->fop))
		return false;
	if (!s->fop || s->fop >= FOP_COUNT || s->fop == FOP_compound)
		return s->fop = 0, fail(c, -EINVAL);
	if (!ENCODING(c) && !(s->in = calloc(1, fop_info[s->fop].in_size)))
		return s->fop = 0, fail(c, -ENOMEM);
	if (!code_args(c, s->fop, s->in))
		return false;
	if (!step_allowed(s))
		return fail(c, -EINVAL);
	note_given(c, s->fop);
	return true;
}

static bool code_steps(struct codec *c, struct steps *steps)
{
	uint32_t count = steps->count;

	if (!code_u32(c, &count) || count > COMPOUND_MAX || c->step)
		return fail(c, -EINVAL);
	if (!ENCODING(c) && count && !(steps->step = calloc(count, sizeof(*steps->step))))
		return fail(c, -ENOMEM);
	c->step = true;
	for (steps->count = 0; steps->count < count;)
		if (!code_step(c, &steps->step[steps->count++]))
			return false;
	return true;
}

/* ---- results ---- */

static const void *field_at(const struct field *fields, enum field_kind kind, const void *base)
{
	for (const struct field *f = fields; f->name; f++)
		if (f->kind == kind)
			return (const char *)base + f->offset;
	return NULL;
}

/* Which inode a file in the results is of, and how it was opened. */
static void note_opened(struct codec *c, int fop, const void *in)
{
	struct inode *const *inode = field_at(fop_info[fop].in, FIELD_INODE, in);

	if (inode && *inode)
		c->opened = *inode;
	c->flags = fop == FOP_open     ? ((const struct open_in *)in)->flags
		   : fop == FOP_create ? ((const struct create_in *)in)->flags
				       : O_RDONLY | O_DIRECTORY;
}

static bool code_results(struct codec *, const struct steps *, struct results *);

static bool code_result(struct codec *c, int fop, const void *in, void *out)
{
	note_opened(c, fop, in);
	for (const struct field *f = fop_info[fop].out; f->name; f++) {
		void *at = (char *)out + f->offset;
		bool ok;

		if (f->kind == FIELD_INODE) {
			ok = codec_new_inode(c, at) && (*(struct inode **)at || fop == FOP_replica);
			c->opened = *(struct inode **)at;
		} else if (f->kind == FIELD_FILE) {
			ok = code_new_file(c, at);
		} else if (f->kind == FIELD_RESULTS) {
			ok = code_results(c, &((const struct compound_in *)in)->steps, at);
		} else {
			ok = code_field(c, f, at);
		}
		if (!ok)
			return false;
	}
	return true;
}

static bool code_one(struct codec *c, const struct step *s, struct result *r)
{
	uint32_t fop = s->fop;

	if (!xdr_int(&c->xdr, &r->status) || r->status > 0 || r->status < -ELAST)
		return false;
	r->fop = fop;
	if (r->status)
		return true;
	if (!code_u32(c, &fop) || fop != s->fop)
		return false;
	if (!ENCODING(c) && !(r->out = calloc(1, fop_info[fop].out_size)))
		return fail(c, -ENOMEM);
	return code_result(c, fop, s->in, r->out);
}

static bool code_results(struct codec *c, const struct steps *steps, struct results *results)
{
	uint32_t count = results->count;

	if (!code_u32(c, &count) || count > steps->count)
		return false;
	if (!ENCODING(c) && count && !(results->result = calloc(count, sizeof(*results->result))))
		return fail(c, -ENOMEM);
	for (results->count = 0; results->count < count; results->count++)
		if (!code_one(c, &steps->step[results->count], &results->result[results->count]))
			return results->count++, false;
	return true;
}

/* ---- the whole ---- */

int codec_args(struct codec *c, int fop, void *in)
{
	int err = outcome(c, code_args(c, fop, in));

	if (err && !ENCODING(c))
		fop_in_clear(fop, in);
	return err;
}

int codec_result(struct codec *c, int fop, const void *in, void *out)
{
	int err = outcome(c, code_result(c, fop, in, out));

	if (err && !ENCODING(c))
		fop_out_clear(fop, out);
	return err;
}

int codec_end(struct codec *c)
{
	return left(c) || c->claimed != (c->bulk ? c->bulk->size : 0) ? -EBADMSG : 0;
}
