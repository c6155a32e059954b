/* SPDX-License-Identifier: Apache-2.0 */
/* What a fop's arguments and results look like on the wire, both ways, from the field tables of fops.def. */
#ifndef STRATUS_CODEC_H
#define STRATUS_CODEC_H
#include <rpc/rpc.h>

#include "wire.h"
#include "xlator.h"

struct codec;
/* What a side does with the objects of a fop. Each returns 0 or -errno. A side leaves out what it never needs. */
struct codec_ops {
	int (*put_inode)(struct codec *, struct inode *, uint8_t *handle, uint32_t *size); /* size: room, then use */
	int (*take_inode)(struct codec *, const uint8_t *handle, uint32_t size, struct inode **);
	int (*make_inode)(struct codec *, const struct gfid *, uint32_t type, const uint8_t *handle, uint32_t size,
			  struct inode **);
	int (*put_file)(struct codec *, struct file *, uint64_t *number);
	int (*take_file)(struct codec *, uint64_t number, struct file **);
	int (*add_file)(struct codec *, struct file *, uint64_t *number); /* one that the fop opened */
	int (*make_file)(struct codec *, uint64_t number, struct inode *, uint32_t flags, struct file **);
	void (*tell_gfid)(struct codec *, struct gfid *); /* in results, optional: what the peer knows the object by */
};

struct codec {
	XDR xdr;
	uint32_t limit; /* bytes of the stream */
	const struct codec_ops *ops;
	void *owner;
	int error;		      /* the first that happened; 0 with a failed primitive: too short */
	bool step;		      /* inside a compound */
	bool given_inode, given_file; /* an earlier step gave one */
	/* decoding: what followed the XDR part, and how much of it has been claimed */
	struct buffer *bulk;
	size_t claimed;
	/* encoding: what will follow it (borrowed) */
	struct buffer *buffer[COMPOUND_MAX];
	unsigned buffers;
	size_t bulk_size;
	struct inode *opened; /* results at the client: of what the next file is (borrowed) */
	uint32_t flags;	      /* and how it was opened */
};

/* `bytes` is aligned to 4. */
void codec_init(struct codec *, enum xdr_op, void *bytes, uint32_t size, const struct codec_ops *, void *owner);
static inline uint32_t codec_used(struct codec *c)
{
	return xdr_getpos(&c->xdr);
}
/* Each encodes or decodes, as codec_init said. 0; -EMSGSIZE: no room; -EBADMSG: not what it must be (the peer is broken or
 * hostile); or what codec_ops said. A failed decoding leaves nothing behind. Decoded args are cleared by fop_in_clear. */
int codec_args(struct codec *, int fop, void *in);
/* `in` is what was asked. */
int codec_result(struct codec *, int fop, const void *in, void *out);
/* The decoder must have used all it was given. 0 or -EBADMSG. */
int codec_end(struct codec *);

bool codec_extensions(struct codec *, struct extension **);
bool codec_new_inode(struct codec *, struct inode **); /* NULL: none */
bool codec_lock(struct codec *, struct lock *);

/* Storage for the arguments or results of any fop. */
union fop_in {
#define X(op) struct op##_in op;
	FOPS(X)
#undef X
};
union fop_out {
#define X(op) struct op##_out op;
	FOPS(X)
#undef X
};
#endif
