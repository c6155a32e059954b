/* SPDX-License-Identifier: Apache-2.0 */
/* A connection that carries ONC RPC records, bulk data apart: what protocol/client and protocol/server both stand on. */
#ifndef STRATUS_STREAM_H
#define STRATUS_STREAM_H
#include <arpa/inet.h>
#include <stdatomic.h>
#include <sys/uio.h>

#include "wire.h"
#include "xlator.h"

/* A record that came in: its words from the xid to the end of the XDR part, and the bulk bytes. */
struct record {
	struct record *next;
	uint32_t size; /* of words, in bytes */
	struct buffer *bulk;
	uint32_t word[];
};
enum { /* words of a record, after the record mark */
       WORD_XID,
       WORD_TYPE,
       CALL_RPC_VERSION = 2,
       CALL_PROGRAM,
       CALL_VERSION,
       CALL_PROCEDURE,
       CALL_WORDS = 10,
       CALL_BODY = CALL_WORDS + 1,
       REPLY_WORDS = 6,
       REPLY_BODY = REPLY_WORDS + 1,
       RECORD_HEAD_MAX = 4 * (1 + CALL_BODY) /* with mark and bulk size */
};
static inline uint32_t record_word(const struct record *r, unsigned at)
{
	return ntohl(r->word[at]);
}
void record_free(struct record *);

/* How bytes get through: TCP now, others may follow. */
struct stream;
struct transport {
	const char *name;
	ssize_t (*receive)(struct stream *, const struct iovec *, int count); /* like readv on a non-blocking descriptor */
	ssize_t (*send)(struct stream *, const struct iovec *, int count);
	void (*close)(struct stream *);
	bool (*pending)(struct stream *); /* may be NULL: it holds bytes that the descriptor doesn't show any more */
	/* May be NULL. How many bytes it holds that it took, and the socket did not; the next send, of nothing too, goes on with them. With the lock held. */
	size_t (*unsent)(struct stream *);
};
extern const struct transport transport_tcp;

struct outgoing;
struct stream {
	struct watch watch;
	const struct transport *transport;
	/* Both are called on the shard's loop. got: a complete record, now the callee's. broken: nothing will come any more;
	 * called once (but see stream_linger); the callee has it closed (stream_close). */
	void (*got)(struct stream *, struct record *);
	void (*broken)(struct stream *, const char *why);
	/* Set by who serves: nothing more is taken while more than so many bytes wait for the socket, for the peer leaves its answers unread. 0: there
	 * is no such bound, as for who asks: with one at both ends each would wait for the other to read. */
	size_t queued_max;
	uint32_t max_size, max_bulk; /* bytes of a record: XDR part, bulk part; larger ones break the stream */
	/* reading; the loop's own */
	struct record *part;	       /* one that has begun */
	uint32_t part_size, part_bulk; /* bytes of it that are here */
	char *in;		       /* what has come of the next one's head */
	uint32_t in_size, ahead;
	struct record *came, **came_end; /* complete, and not delivered yet */
	size_t came_bytes;		 /* of these */
	bool dead, garbage, hung_up;	 /* garbage: that is why it broke; hung_up: the peer takes no answer any more */
	void *session;			 /* the transport's own */
	char expired[320];		 /* of the transport with TLS: see tls_session() */
	char trouble[336];		 /* the transport's word for an error that has no errno */
	bool alerted;			 /* and it has told the peer of it, as the last it says */
	uint32_t lingers;		 /* so many bytes more are dropped before it is closed */
	/* sending; guarded by lock */
	pthread_mutex_t lock;
	bool open, paused, watched;
	bool send_waits_for_read; /* the transport can't send before something has come */
	bool held;		  /* something has come that is not delivered, and no event will tell of it */
	struct outgoing *first, *last;
	size_t queued, unsent;		/* bytes that wait for the socket; those of them which the transport holds */
	atomic_size_t *queued_together; /* with other streams; NULL: nobody asks */
	atomic_uint_fast64_t bytes_in, bytes_out, receives, sends; /* the last two: system calls */
};

/* Takes over the descriptor (non-blocking). 0 or -ENOMEM (the descriptor is closed then too). */
int stream_open(struct stream *, const struct transport *, int fd, uint32_t max_size, uint32_t max_bulk);
/* Begins to read on this shard. May be called again after stream_unwatch, for another one. */
int stream_watch(struct stream *, struct shard *);
void stream_unwatch(struct stream *);
/* Sends a record: `head` (of `size` bytes) starts with room for the mark, which this fills in, and then the bulk. What the
 * socket does not take is queued. From any task or loop. 0 or -ENOTCONN. */
int stream_send(struct stream *, void *head, uint32_t size, struct buffer *const *buffers, unsigned count);
/* Bytes that wait for the socket to take them. */
size_t stream_queued(struct stream *);
/* From now on they are also in that sum, which is there until the stream is closed. */
void stream_count_queued(struct stream *, atomic_size_t *together);
/* No more is taken until it is called with false; called by `got`, that one was the last, but of who has hung up. */
void stream_pause(struct stream *, bool);
/* For `broken`: true if the transport has told the peer why this is its end. A socket that is closed with bytes unread, or to which more come,
 * is reset by the kernel, and a peer that hears of that first does not read what was said (RFC 9293, section 3.6.1; RFC 9112, section 9.6,
 * has the same of HTTP). So no more is sent, what comes is dropped, and `broken` is called once more when the peer has closed or
 * has sent too much; if neither comes the callee has to end it, by stream_kill(). */
bool stream_linger(struct stream *);
/* Makes the loop find the stream broken, soon; from any thread, while the memory lives. */
void stream_kill(struct stream *);
/* Stops watching and closes. On its loop. The memory may go after one more turn of the loop (shard_call). */
void stream_close(struct stream *);

/* Writes mark room, header and bulk size; returns their bytes: where the body begins. */
uint32_t call_header(void *head, uint32_t xid, uint32_t procedure, uint32_t bulk_size);
uint32_t reply_header(void *head, uint32_t xid, uint32_t bulk_size);
void header_bulk(void *head, uint32_t bulk_size); /* sets the bulk size later */

/* ---- TCP ---- */
struct addrinfo;
struct problem;
/* "host:port", ":port", "[::1]:port". 0 or -errno with a sentence; freeaddrinfo() the list. May block on DNS. */
int tcp_resolve(const char *host, const char *port, bool passive, struct addrinfo **, struct problem *);
int tcp_connect(const struct addrinfo *); /* begins; a descriptor or -errno */
int tcp_bind(const struct addrinfo *);	  /* for listen(2); a descriptor or -errno */
void tcp_tune(int fd);
void tcp_name(int fd, bool peer, char *text, size_t size); /* 127.0.0.1:24007 */
#endif
