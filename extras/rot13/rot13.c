/* SPDX-License-Identifier: Apache-2.0 */
/* encryption/rot13: rotates letters by thirteen on their way to and from the brick. An example, not a protection. */
#include <xlator.h>

struct rot13 {
	bool rotate_read, rotate_write;
};

static const struct option options[] = {
	{ "rotate-read", OPTION_BOOL, OPTION_AT(struct rot13, rotate_read), "on", "rotate what is read", .live = true },
	{ "rotate-write", OPTION_BOOL, OPTION_AT(struct rot13, rotate_write), "on", "rotate what is written", .live = true },
	{ NULL },
};

static void rotate(struct buffer *data)
{
	size_t size;
	char *s = buffer_bytes(data, &size);

	for (size_t i = 0; i < size; i++) {
		if (s[i] >= 'a' && s[i] <= 'z')
			s[i] = 'a' + (s[i] - 'a' + 13) % 26;
		else if (s[i] >= 'A' && s[i] <= 'Z')
			s[i] = 'A' + (s[i] - 'A' + 13) % 26;
	}
}

/* Bytes may be shared with a cache below, so they are never changed in place: the answer gets a copy. */
static int rot13_read(struct request *rq, struct xlator *x, const struct read_in *in, struct read_out *out)
{
	const struct rot13 *p = x->private;
	int err = read_on(rq, x->child[0], in, out);
	struct buffer *copy;

	if (err || !p->rotate_read)
		return err;
	copy = buffer_copy(out->data);
	buffer_unref(out->data);
	out->data = copy;
	if (!copy)
		return -ENOMEM;
	rotate(copy);
	return 0;
}

static int rot13_write(struct request *rq, struct xlator *x, const struct write_in *in, struct write_out *out)
{
	const struct rot13 *p = x->private;
	struct write_in rotated = *in;
	cleanup_buffer struct buffer *copy = NULL;

	if (!p->rotate_write)
		return write_on(rq, x->child[0], in, out);
	copy = buffer_copy(in->data);
	if (!copy)
		return -ENOMEM;
	rotate(copy);
	rotated.data = copy;
	return write_on(rq, x->child[0], &rotated, out);
}

/* The steps of a compound would go past the two above: what can't be rotated is refused. */
static int rot13_compound(struct request *rq, struct xlator *x, const struct compound_in *in, struct compound_out *out)
{
	for (uint32_t i = 0; i < in->steps.count; i++)
		if (in->steps.step[i].fop == FOP_read || in->steps.step[i].fop == FOP_write)
			return -EOPNOTSUPP;
	return compound_on(rq, x->child[0], in, out);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "encryption/rot13",
	.summary = "rotates letters by thirteen",
	.options = options,
	.private_size = sizeof(struct rot13),
	.min_children = 1,
	.max_children = 1,
	.read = rot13_read,
	.write = rot13_write,
	.compound = rot13_compound,
};
