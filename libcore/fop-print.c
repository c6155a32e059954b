/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments and results of fops as one line of text, from their field tables. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "fop.h"

struct line {
	char *text;
	size_t size, used; /* used may pass size: what it would need */
};

static void add(struct line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct line *l, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(l->used < l->size ? l->text + l->used : NULL, l->used < l->size ? l->size - l->used : 0, format, args);
	va_end(args);
	if (n > 0)
		l->used += (size_t)n;
}

static void add_inode(struct line *l, const struct inode *i)
{
	char text[GFID_TEXT];

	add(l, "%s", i ? gfid_text(&i->gfid, text) : "-");
}

static void add_loc(struct line *l, const struct loc *loc)
{
	add_inode(l, loc->parent ? loc->parent : loc->inode);
	if (loc->name)
		add(l, "/\"%s\"", loc->name);
}

static void add_attr(struct line *l, const struct attr *a)
{
	char text[GFID_TEXT];

	add(l, "{%s mode=%o nlink=%u uid=%u gid=%u size=%" PRIu64 "}", gfid_text(&a->gfid, text), a->mode, a->nlink, a->uid,
	    a->gid, a->size);
}

static void add_lock(struct line *l, const struct lock *k)
{
	const char *type = k->type == F_RDLCK ? "read" : k->type == F_WRLCK ? "write" : "none";

	add(l, "{%s %s %" PRIu64 "-%" PRIu64 " owner=%" PRIx64 "%s%s}", k->kind == LOCK_FLOCK ? "flock" : "posix", type,
	    k->start, k->end, k->owner, k->wait ? " wait" : "", k->reclaim ? " reclaim" : "");
}

static void add_field(struct line *l, const struct field *f, const void *at)
{
	char text[GFID_TEXT];

	add(l, " %s=", f->name);
	switch (f->kind) {
	case FIELD_LOC:
		add_loc(l, at);
		break;
	case FIELD_INODE:
		add_inode(l, *(struct inode *const *)at);
		break;
	case FIELD_FILE:
		if (*(struct file *const *)at)
			add(l, "#%" PRIu64, (*(struct file *const *)at)->number);
		else
			add(l, "-");
		break;
	case FIELD_U32:
		add(l, "%u", *(const uint32_t *)at);
		break;
	case FIELD_U64:
		add(l, "%" PRIu64, *(const uint64_t *)at);
		break;
	case FIELD_MODE:
		add(l, "%o", *(const uint32_t *)at);
		break;
	case FIELD_GFID:
		add(l, "%s", gfid_text(at, text));
		break;
	case FIELD_STRING:
		add(l, "\"%s\"", *(char *const *)at ? *(char *const *)at : "");
		break;
	case FIELD_BLOB:
		add(l, "(%u bytes)", ((const struct blob *)at)->size);
		break;
	case FIELD_BUFFER:
		add(l, "(%zu bytes)", *(struct buffer *const *)at ? (*(struct buffer *const *)at)->size : 0);
		break;
	case FIELD_ATTR:
		add_attr(l, at);
		break;
	case FIELD_SETATTR:
		add(l, "{valid=%x mode=%o uid=%u gid=%u size=%" PRIu64 "}", ((const struct setattr *)at)->valid,
		    ((const struct setattr *)at)->mode, ((const struct setattr *)at)->uid, ((const struct setattr *)at)->gid,
		    ((const struct setattr *)at)->size);
		break;
	case FIELD_DIRENTS:
		add(l, "(%u entries%s)", ((const struct dirents *)at)->count, ((const struct dirents *)at)->end ? ", end" : "");
		break;
	case FIELD_STATFS:
		add(l, "{blocks=%" PRIu64 " free=%" PRIu64 "}", ((const struct statfs *)at)->blocks,
		    ((const struct statfs *)at)->bfree);
		break;
	case FIELD_LOCK:
		add_lock(l, at);
		break;
	case FIELD_STEPS:
		for (uint32_t i = 0; i < ((const struct steps *)at)->count; i++)
			add(l, "%s%s", i ? "," : "", fop_name((int)((const struct steps *)at)->step[i].fop));
		break;
	case FIELD_RESULTS:
		for (uint32_t i = 0; i < ((const struct results *)at)->count; i++)
			add(l, "%s%d", i ? "," : "", ((const struct results *)at)->result[i].status);
		break;
	}
}

static size_t print(int fop, const struct field *f, const void *at, char *text, size_t size)
{
	struct line l = { text, size, 0 };

	add(&l, "%s", fop_name(fop));
	for (; f->name; f++)
		add_field(&l, f, (const char *)at + f->offset);
	return l.used;
}

size_t fop_in_print(int fop, const void *in, char *text, size_t size)
{
	return print(fop, fop_info[fop].in, in, text, size);
}

size_t fop_out_print(int fop, const void *out, char *text, size_t size)
{
	return print(fop, fop_info[fop].out, out, text, size);
}
