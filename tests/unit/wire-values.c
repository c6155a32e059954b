/* SPDX-License-Identifier: Apache-2.0 */
/* Random arguments and results of fops, field by field, so that a new fop or field is covered without a change here. */
#include "wire-values.h"

#include <fcntl.h>
#include <sys/stat.h>

static struct inode_table *table;
static struct inode *inodes[WIRE_OBJECTS];
static struct file *files[WIRE_OBJECTS];
static uint64_t state;

uint64_t wire_random(void)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (state ^ state >> 29) >> 3;
}

void wire_values_init(unsigned seed)
{
	state = seed;
	table = inode_table_create();
	for (int i = 0; i < WIRE_OBJECTS; i++) {
		struct gfid g = { { 7, [15] = i + 1 } };

		inodes[i] = inode_get(table, &g, i % 2 ? S_IFDIR : S_IFREG);
		files[i] = file_create(inodes[i], O_RDWR);
	}
}

void wire_values_finish(void)
{
	for (int i = 0; i < WIRE_OBJECTS; i++) {
		file_unref(files[i]);
		inode_unref(inodes[i]);
	}
	inode_table_destroy(table);
}

static struct inode *some_inode(void)
{
	return inode_ref(inodes[wire_random() % WIRE_OBJECTS]);
}

static char *some_string(size_t max)
{
	size_t size = 1 + wire_random() % max;
	char *s = malloc(size + 1);

	for (size_t i = 0; i < size; i++)
		s[i] = 'a' + wire_random() % 26;
	s[size] = 0;
	return s;
}

static void some_bytes(void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		((char *)bytes)[i] = wire_random();
}

static struct buffer *some_buffer(void)
{
	struct buffer *b = buffer_create(1 + wire_random() % 300);

	some_bytes(b->data, b->size);
	return b;
}

static void some_attr(struct attr *a)
{
	some_bytes(a, sizeof(*a));
	a->mode = S_IFREG | (wire_random() & 07777);
}

static void some_dirents(struct dirents *d)
{
	d->count = wire_random() % 5;
	d->end = wire_random() % 2;
	d->entry = calloc(d->count + 1, sizeof(*d->entry));
	for (uint32_t i = 0; i < d->count; i++) {
		struct dirent_plus *e = &d->entry[i];

		e->next_offset = wire_random();
		e->name = some_string(255);
		e->type = S_IFREG;
		if (wire_random() % 2) {
			e->inode = some_inode();
			some_attr(&e->attr);
			e->gfid = e->attr.gfid = e->inode->gfid;
			e->attr.mode = e->inode->type;
		}
	}
}

static void some_steps(struct steps *s)
{
	s->count = wire_random() % (COMPOUND_MAX + 1);
	s->step = calloc(s->count + 1, sizeof(*s->step));
	for (uint32_t i = 0; i < s->count; i++) {
		struct step *t = &s->step[i];

		t->fop = 1 + wire_random() % (FOP_COUNT - 1);
		if (t->fop == FOP_compound)
			t->fop = FOP_getattr;
		t->condition.kind = wire_random() % (IF_ABSENT + 1);
		t->condition.size = wire_random();
		if (wire_random() % 2) {
			t->condition.inode = some_inode();
			t->condition.name = some_string(30);
			t->condition.value.size = 5;
			t->condition.value.bytes = some_string(5);
			t->condition.value.size = strlen(t->condition.value.bytes);
		}
		t->in = calloc(1, fop_info[t->fop].in_size);
		wire_random_in(t->fop, t->in);
	}
}

static void some_results(struct results *r, const struct steps *s)
{
	r->count = s->count;
	r->result = calloc(r->count + 1, sizeof(*r->result));
	for (uint32_t i = 0; i < r->count; i++) {
		r->result[i].fop = s->step[i].fop;
		if (i + 1 == r->count && wire_random() % 2) {
			r->result[i].status = -ENOENT;
			break;
		}
		r->result[i].out = calloc(1, fop_info[s->step[i].fop].out_size);
		wire_random_out(s->step[i].fop, s->step[i].in, r->result[i].out);
	}
}

static void some_field(enum field_kind kind, void *at, const void *in)
{
	struct loc *l = at;
	struct blob *b = at;

	switch (kind) {
	case FIELD_LOC:
		l->parent = some_inode();
		l->inode = wire_random() % 2 ? some_inode() : NULL;
		l->name = some_string(255);
		break;
	case FIELD_INODE:
		*(struct inode **)at = some_inode();
		break;
	case FIELD_FILE:
		*(struct file **)at = file_ref(files[wire_random() % WIRE_OBJECTS]);
		break;
	case FIELD_U32:
	case FIELD_MODE:
		*(uint32_t *)at = wire_random() % 60000;
		break;
	case FIELD_U64:
		*(uint64_t *)at = wire_random();
		break;
	case FIELD_GFID:
		some_bytes(at, sizeof(struct gfid));
		break;
	case FIELD_STRING:
		*(char **)at = some_string(1000);
		break;
	case FIELD_BLOB:
		b->size = 1 + wire_random() % 3000;
		b->bytes = malloc(b->size);
		some_bytes(b->bytes, b->size);
		break;
	case FIELD_ATTR:
		some_attr(at);
		break;
	case FIELD_SETATTR:
		some_bytes(at, sizeof(struct setattr));
		break;
	case FIELD_BUFFER:
		*(struct buffer **)at = some_buffer();
		break;
	case FIELD_DIRENTS:
		some_dirents(at);
		break;
	case FIELD_STATFS:
		some_bytes(at, sizeof(struct statfs));
		break;
	case FIELD_LOCK:
		some_bytes(at, sizeof(struct lock));
		((struct lock *)at)->wait = 0;
		break;
	case FIELD_STEPS:
		some_steps(at);
		break;
	case FIELD_RESULTS:
		some_results(at, &((const struct compound_in *)in)->steps);
		break;
	}
}

void wire_random_in(int fop, void *in)
{
	memset(in, 0, fop_info[fop].in_size);
	for (const struct field *f = fop_info[fop].in; f->name; f++)
		some_field(f->kind, (char *)in + f->offset, NULL);
}

void wire_random_out(int fop, const void *in, void *out)
{
	memset(out, 0, fop_info[fop].out_size);
	for (const struct field *f = fop_info[fop].out; f->name; f++)
		some_field(f->kind, (char *)out + f->offset, in);
}

/* ---- the side: a handle is the gfid, as long as its last byte says ---- */

static int put_inode(struct codec *c, struct inode *inode, uint8_t *handle, uint32_t *size)
{
	(void)c;
	memset(handle, 0x5a, *size);
	memcpy(handle, inode->gfid.bytes, 16);
	*size = 16 + inode->gfid.bytes[15] * 7;
	return 0;
}

static struct inode *find(const uint8_t *gfid)
{
	for (int i = 0; i < WIRE_OBJECTS; i++)
		if (!memcmp(inodes[i]->gfid.bytes, gfid, 16))
			return inodes[i];
	return NULL;
}

static int take_inode(struct codec *c, const uint8_t *handle, uint32_t size, struct inode **inode)
{
	struct inode *found = size < 16 ? NULL : find(handle);

	(void)c;
	if (!found)
		return -ESTALE;
	*inode = inode_ref(found);
	return 0;
}

static int make_inode(struct codec *c, const struct gfid *gfid, uint32_t type, const uint8_t *handle, uint32_t size,
		      struct inode **inode)
{
	struct inode *found = find(gfid->bytes);

	if (!found || found->type != type)
		return -EIO;
	return take_inode(c, handle, size, inode);
}

static int put_file(struct codec *c, struct file *file, uint64_t *number)
{
	(void)c;
	for (*number = 1; files[*number - 1] != file; ++*number)
		;
	return 0;
}

static int take_file(struct codec *c, uint64_t number, struct file **file)
{
	(void)c;
	if (number > WIRE_OBJECTS)
		return -EBADF;
	*file = file_ref(files[number - 1]);
	return 0;
}

static int make_file(struct codec *c, uint64_t number, struct inode *inode, uint32_t flags, struct file **file)
{
	(void)inode;
	(void)flags;
	return take_file(c, number, file);
}

const struct codec_ops wire_values_ops = { put_inode, take_inode, make_inode, put_file, take_file, put_file, make_file };
