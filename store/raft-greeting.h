/* SPDX-License-Identifier: Apache-2.0 */
/* The first bytes of a connection between servers, as bytes: who calls, of which cluster, and what the one that is called says if it refuses. doc/cluster.md has the format. */
#ifndef STRATUS_RAFT_GREETING_H
#define STRATUS_RAFT_GREETING_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CLUSTER_ID = 16,
	CARD_BYTES = 40,
	ANSWER_BYTES = 32,
	ADDRESS_MAX = 24,
	HELLO_TLS = 80,
	HELLO_FIRST = 24,
	HELLO_MAX = 256
};

/* What a caller says of itself; all zero: an older release, which says nothing. */
struct card {
	bool given;
	uint8_t cluster[CLUSTER_ID]; /* zeros: it has none yet */
	bool is_empty;		     /* its log has nothing */
	bool takes_for_voter;	     /* the one that it calls */
};
struct hello {
	uint64_t id;
	char address[ADDRESS_MAX];
	struct card card;
};
enum refusal { REFUSED_NOT, REFUSED_CLUSTER, REFUSED_CALLED_LOST, REFUSED_CALLER_LOST, REFUSED_NAME, REFUSALS };
struct answer {
	enum refusal why;
	uint8_t cluster[CLUSTER_ID]; /* of who refuses */
};

bool cluster_id_is_set(const uint8_t id[CLUSTER_ID]);
bool address_is_fine(
	const char *address); /* IPv4 ADDRESS:PORT, as it is printed: each address has one form, by which it is compared */
/* Within TLS: HELLO_TLS bytes. Else libraft's own greeting, with the card behind the address: the bytes, at most HELLO_MAX. */
size_t hello_encode(const struct hello *, bool tls, uint8_t to[HELLO_MAX]);
/* `have` bytes have come. How many there must be at least, HELLO_MAX at most; when that is `have` the greeting is there. 0: it is none. */
size_t hello_wants(const uint8_t *from, size_t have, bool tls);
bool hello_decode(const uint8_t *from, size_t size, bool tls, struct hello *); /* false: it is none */
void answer_encode(const struct answer *, uint8_t to[ANSWER_BYTES]);
bool answer_decode(const uint8_t from[ANSWER_BYTES], struct answer *);
#endif
