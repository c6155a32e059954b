/* SPDX-License-Identifier: Apache-2.0 */
/* What holds for every fop: calling down the graph, copying and clearing arguments and results by their field tables. */
#include "fop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fop-dispatch.h"
#include "log.h"

const char *fop_name(int fop)
{
	return fop > 0 && fop < FOP_COUNT ? fop_info[fop].name : "?";
}

int fop_by_name(const char *name)
{
	for (int fop = 1; fop < FOP_COUNT; fop++)
		if (!strcmp(name, fop_info[fop].name))
			return fop;
	return -1;
}

/* ---- the call, and what must come of it ---- */

/* Those that can't succeed without a pointer, which is the first that they give: callers use it unasked. */
#define GIVES(op, member) (offsetof(struct op##_out, member) ? 0 : 1ull << FOP_##op)
static const uint64_t gives = GIVES(lookup, inode) | GIVES(readlink, target) | GIVES(mknod, inode) | GIVES(mkdir, inode) |
			      GIVES(symlink, inode) | GIVES(create, inode) | GIVES(open, file) | GIVES(read, data) |
			      GIVES(opendir, file);

static inline bool is_whole(enum fop fop, void *const *out)
{
	return !(gives >> fop & 1) || (out[0] && (fop != FOP_create || ((const struct create_out *)(const void *)out)->file));
}

/* Told once for each fop of a translator. */
__attribute__((cold, noinline)) static int break_contract(const struct request *rq, struct xlator *x, enum fop fop, int err,
							  void *out)
{
	uint64_t bit = 1ull << fop;
	bool told = atomic_fetch_or(&x->broken, bit) & bit;

	if (!told && err > 0)
		log_error(x, rq, "%s has returned %d to %s, which is neither 0 nor -errno: the caller gets EIO", x->type->name,
			  err, fop_name((int)fop));
	else if (!told)
		log_error(x, rq, "%s has returned 0 to %s without the %s%s in `out`: the caller gets EIO", x->type->name,
			  fop_name((int)fop), fop_info[fop].out->name, fop == FOP_create ? " or the file" : "");
	fop_out_clear((int)fop, out);
	return -EIO;
}

int fop_call(struct request *rq, struct xlator *to, enum fop fop, const void *in, void *out)
{
	struct xlator *x = to->handler[fop];
	unsigned depth = atomic_load_explicit(&rq->depth, memory_order_relaxed);
	int err;

	if (depth < TRAIL_MAX) {
		atomic_store_explicit(&rq->trail[depth].at, x, memory_order_relaxed);
		atomic_store_explicit(&rq->trail[depth].fop, fop, memory_order_relaxed);
	}
	atomic_store_explicit(&rq->depth, depth + 1, memory_order_release);
	err = fop_dispatch(rq, x, fop, in, out);
	atomic_store_explicit(&rq->depth, depth, memory_order_release);
	if (__builtin_expect(err >= 0 && (err || !is_whole(fop, out)), 0))
		return break_contract(rq, x, fop, err, out);
	return err;
}

int name_check(const char *name)
{
	size_t length = strnlen(name, 256);

	if (length > 255)
		return -ENAMETOOLONG;
	if (!length || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
		return -EINVAL;
	return 0;
}

const char *blob_next_name(const struct blob *names, const char *at)
{
	const char *all = names->bytes;
	size_t start = at ? (size_t)(at - all) + strlen(at) + 1 : 0;

	return start < names->size && memchr(all + start, 0, names->size - start) ? all + start : NULL;
}

void blob_keep_names(struct blob *names, bool (*keep)(const void *arg, const char *name), const void *arg)
{
	const char *at = blob_next_name(names, NULL), *next;
	char *to = names->bytes;
	size_t kept = 0;

	for (; at; at = next) {
		size_t size = strlen(at) + 1;

		next = blob_next_name(names, at);
		if (!keep(arg, at))
			continue;
		memmove(to + kept, at, size);
		kept += size;
	}
	names->size = (uint32_t)kept;
}

/* ---- copies ---- */

static int copy_string(char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return from && !*to ? -ENOMEM : 0;
}

static int copy_blob(struct blob *to, const struct blob *from)
{
	*to = (struct blob){ from->size, malloc(from->size + 1) };
	if (!to->bytes)
		return -ENOMEM;
	if (from->size)
		memcpy(to->bytes, from->bytes, from->size);
	return 0;
}

static int copy_loc(struct loc *to, const struct loc *from)
{
	*to = (struct loc){ from->parent ? inode_ref(from->parent) : NULL, from->inode ? inode_ref(from->inode) : NULL, NULL };
	return copy_string((char **)&to->name, from->name);
}

static void clear_loc(struct loc *l)
{
	inode_unref(l->parent);
	inode_unref(l->inode);
	free((char *)l->name);
}

static int copy_dirents(struct dirents *to, const struct dirents *from)
{
	int err = 0;

	*to = (struct dirents){ 0, from->end, calloc(from->count + 1, sizeof(*to->entry)) };
	if (!to->entry)
		return -ENOMEM;
	for (; to->count < from->count && !err; to->count++) {
		struct dirent_plus *e = &to->entry[to->count];

		*e = from->entry[to->count];
		if (e->inode)
			inode_ref(e->inode);
		err = copy_string(&e->name, from->entry[to->count].name);
	}
	return err;
}

static void clear_dirents(struct dirents *d)
{
	for (uint32_t i = 0; i < d->count; i++) {
		free(d->entry[i].name);
		inode_unref(d->entry[i].inode);
	}
	free(d->entry);
}

static int copy_condition(struct condition *to, const struct condition *from)
{
	int err;

	*to = (struct condition){ .kind = from->kind,
				  .size = from->size,
				  .inode = from->inode ? inode_ref(from->inode) : NULL };
	err = copy_loc(&to->loc, &from->loc);
	if (!err)
		err = copy_string(&to->name, from->name);
	return err ? err : copy_blob(&to->value, &from->value);
}

static int copy_steps(struct steps *to, const struct steps *from)
{
	int err = 0;

	*to = (struct steps){ 0, calloc(from->count + 1, sizeof(*to->step)) };
	if (!to->step)
		return -ENOMEM;
	for (; to->count < from->count && !err; to->count++) {
		const struct step *s = &from->step[to->count];
		struct step *t = &to->step[to->count];

		t->fop = s->fop;
		err = copy_condition(&t->condition, &s->condition);
		t->in = calloc(1, fop_info[s->fop].in_size);
		if (!t->in)
			err = -ENOMEM;
		if (!err)
			err = fop_in_copy((int)s->fop, t->in, s->in);
	}
	return err;
}

static void clear_steps(struct steps *s)
{
	for (uint32_t i = 0; i < s->count; i++) {
		struct step *t = &s->step[i];

		inode_unref(t->condition.inode);
		clear_loc(&t->condition.loc);
		free(t->condition.name);
		free(t->condition.value.bytes);
		if (t->in)
			fop_in_clear((int)t->fop, t->in);
		free(t->in);
	}
	free(s->step);
}

static int copy_results(struct results *to, const struct results *from)
{
	int err = 0;

	*to = (struct results){ 0, calloc(from->count + 1, sizeof(*to->result)) };
	if (!to->result)
		return -ENOMEM;
	for (; to->count < from->count && !err; to->count++) {
		const struct result *r = &from->result[to->count];
		struct result *t = &to->result[to->count];

		*t = (struct result){ r->fop, r->status, r->out ? calloc(1, fop_info[r->fop].out_size) : NULL };
		if (r->out && !t->out)
			err = -ENOMEM;
		else if (r->out)
			err = fop_out_copy((int)r->fop, t->out, r->out);
	}
	return err;
}

static void clear_results(struct results *r)
{
	for (uint32_t i = 0; i < r->count; i++) {
		if (r->result[i].out)
			fop_out_clear((int)r->result[i].fop, r->result[i].out);
		free(r->result[i].out);
	}
	free(r->result);
}

static size_t plain_size(enum field_kind kind)
{
	switch (kind) {
	case FIELD_U32:
	case FIELD_MODE:
		return sizeof(uint32_t);
	case FIELD_U64:
		return sizeof(uint64_t);
	case FIELD_GFID:
		return sizeof(struct gfid);
	case FIELD_ATTR:
		return sizeof(struct attr);
	case FIELD_SETATTR:
		return sizeof(struct setattr);
	case FIELD_STATFS:
		return sizeof(struct statfs);
	case FIELD_LOCK:
		return sizeof(struct lock);
	default:
		return 0;
	}
}

static int copy_field(enum field_kind kind, void *to, const void *from)
{
	switch (kind) {
	case FIELD_LOC:
		return copy_loc(to, from);
	case FIELD_INODE:
		*(struct inode **)to = *(struct inode *const *)from ? inode_ref(*(struct inode *const *)from) : NULL;
		return 0;
	case FIELD_FILE:
		*(struct file **)to = *(struct file *const *)from ? file_ref(*(struct file *const *)from) : NULL;
		return 0;
	case FIELD_BUFFER:
		*(struct buffer **)to = *(struct buffer *const *)from ? buffer_ref(*(struct buffer *const *)from) : NULL;
		return 0;
	case FIELD_STRING:
		return copy_string(to, *(char *const *)from);
	case FIELD_BLOB:
		return copy_blob(to, from);
	case FIELD_DIRENTS:
		return copy_dirents(to, from);
	case FIELD_STEPS:
		return copy_steps(to, from);
	case FIELD_RESULTS:
		return copy_results(to, from);
	default:
		memcpy(to, from, plain_size(kind));
		return 0;
	}
}

static void clear_field(enum field_kind kind, void *at)
{
	switch (kind) {
	case FIELD_LOC:
		clear_loc(at);
		break;
	case FIELD_INODE:
		inode_unref(*(struct inode **)at);
		break;
	case FIELD_FILE:
		file_unref(*(struct file **)at);
		break;
	case FIELD_BUFFER:
		buffer_unref(*(struct buffer **)at);
		break;
	case FIELD_STRING:
		free(*(char **)at);
		break;
	case FIELD_BLOB:
		free(((struct blob *)at)->bytes);
		break;
	case FIELD_DIRENTS:
		clear_dirents(at);
		break;
	case FIELD_STEPS:
		clear_steps(at);
		break;
	case FIELD_RESULTS:
		clear_results(at);
		break;
	default:
		break;
	}
}

static void clear_all(const struct field *f, void *at, size_t size)
{
	for (; f->name; f++)
		clear_field(f->kind, (char *)at + f->offset);
	memset(at, 0, size);
}

static int copy_all(const struct field *fields, void *to, const void *from, size_t size)
{
	int err = 0;

	memset(to, 0, size);
	for (const struct field *f = fields; f->name && !err; f++)
		err = copy_field(f->kind, (char *)to + f->offset, (const char *)from + f->offset);
	if (err)
		clear_all(fields, to, size);
	return err;
}

int fop_in_copy(int fop, void *to, const void *from)
{
	return copy_all(fop_info[fop].in, to, from, fop_info[fop].in_size);
}

int fop_out_copy(int fop, void *to, const void *from)
{
	return copy_all(fop_info[fop].out, to, from, fop_info[fop].out_size);
}

void fop_in_clear(int fop, void *in)
{
	clear_all(fop_info[fop].in, in, fop_info[fop].in_size);
}

void fop_out_clear(int fop, void *out)
{
	clear_all(fop_info[fop].out, out, fop_info[fop].out_size);
}
