/* SPDX-License-Identifier: Apache-2.0 */
/* What stands around a fop on the wire, and the messages of sessions. */
#ifndef STRATUS_MESSAGE_H
#define STRATUS_MESSAGE_H
#include "codec.h"
#include "stream.h"

/* The head of a call, to and from the request. Decoding keeps ids, groups, extensions and deadline in it.
 * Unknown critical extensions: -EOPNOTSUPP. 0, -EBADMSG, -EMSGSIZE, -ENOMEM. */
int call_head(struct codec *, struct request *, uint32_t *flags);
/* Status and extensions (those of the reply, `list`). */
int reply_head(struct codec *, int *status, struct extension **list);

enum extension_type {
#define EXTENSION(name, number, critical, summary) EXTENSION_##name = number,
#include "extension.def"
#undef EXTENSION
};
bool extension_known(uint32_t type);

/* rpcgen's types, whole messages of a few hundred bytes. Encodes after a header that is made here; bytes in all, or 0.
 * A NULL proc: no body. */
uint32_t encode_call(void *head, uint32_t room, uint32_t xid, uint32_t procedure, xdrproc_t, void *message);
uint32_t encode_reply(void *head, uint32_t room, uint32_t xid, int status, struct extension *, xdrproc_t, void *message);
/* Decodes the whole rest of a record from word `at`; free with xdr_free. False: garbage (nothing to free). */
bool decode_record(struct record *, unsigned at, xdrproc_t, void *message);
/* One message out of a stream that is being decoded. False: garbage; what was decoded until then is in it (xdr_free). */
bool decode_message(XDR *, xdrproc_t, void *message);
#endif
