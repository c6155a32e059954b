/* SPDX-License-Identifier: Apache-2.0 */
/* protocol/server's parts: listeners, connections, sessions with their channels, slots and files, and calls being done. */
#ifndef STRATUS_PROTOCOL_SERVER_H
#define STRATUS_PROTOCOL_SERVER_H
#include "identity.h"
#include "message.h"
#include "tls.h"

/* Lock order: server.lock, then session.lock, then stream.lock. None is held over a wait. */

enum { RUNNING_MAX = 256, BYTES_MAX = 64 << 20, FILES_MAX = 65536, KEPT_MAX = 32 << 20 };
/* Bulk data of answers that are being made, or wait for the socket: of one session, and (the former) of the whole server. */
enum { REPLIES_MAX = 32 << 20, REPLIES_ALL_MAX = 512 << 20, REPLY_COUNTS = 64 << 10 /* smaller ones don't count */ };

struct server;
struct session;
struct share;
struct work;

struct connection {
	struct stream stream; /* first: its callbacks find the connection */
	struct server *server;
	struct session *session; /* NULL before HELLO; set once, a reference */
	unsigned channel;
	struct shard *shard;
	atomic_uint refs;
	bool welcome;		  /* HELLO is done */
	bool closed, crowded_out; /* guarded by server.lock; crowded_out: closed for a newer one */
	atomic_bool refused;
	atomic_bool ending, reclaiming; /* a task for GOODBYE, for RECLAIMED, is under way: one is enough */
	uint32_t goodbye_xid;
	uint64_t born_ns;
	char peer[64];
	struct connection *next, **link; /* in server.connections; guarded by server.lock */
	struct record *hello;
};

struct kept { /* a reply, until the client shows that it has it */
	uint32_t size;
	unsigned buffers;
	struct buffer *buffer[COMPOUND_MAX];
	char head[];
};
struct slot {
	uint32_t xid;
	bool used;
	struct work *work; /* being done */
	struct kept *kept; /* done; NULL: doing it again does no harm, or: */
	int refused;	   /* not done, for this reason */
};
struct session_channel {
	struct connection *connection; /* a reference */
	uint64_t generation;
	bool paused; /* not read from: too much is being done */
	struct slot slot[WIRE_SLOTS], *wait_slot;
};
struct open_file {
	struct file *file;
	uint32_t turn; /* high half of the number: an old number never finds a new file */
	uint32_t next_free;
};
/* Whom a connection comes from, as its certificate says, and what that one gets. */
struct guest {
	char identity[IDENTITY_TEXT]; /* "": nobody has vouched for him */
	struct identity who;	      /* the same */
	struct bearer bearer;	      /* whom his handles are bound to */
	struct gfid acts_for;	      /* as struct client */
	struct gfid root;	      /* what he knows as gfid_root */
	struct inode *inode;	      /* the same; a reference */
	struct xlator *set; /* a tenant's, in a replica set: who vouches for what he is told of (vouch()); else NULL */
};
/* Of all sessions of one tenant. */
struct share {
	char tenant[IDENTITY_NAME + 1];
	struct server *server;
	struct share *next; /* in server.shares; guarded by server.lock */
	atomic_uint running, waiting, files;
	atomic_size_t bytes, waiting_bytes; /* of the records of calls */
	atomic_size_t replying, queued;	    /* of answers: being made, not fetched yet */
	atomic_bool pausing;		    /* channels may be paused for the sum of them */
};
struct session {
	struct client client; /* first: request.client points here */
	struct share *share;  /* NULL: of no tenant */
	struct guest guest;   /* without the inode, but of an access point's */
	uint8_t secret[16];
	struct server *server;
	struct xlator *subvolume;
	char *origin;
	atomic_uint refs;	     /* connections, works, the table */
	atomic_size_t replying;	     /* bytes of bulk data in answers that are being made */
	struct session *next;	     /* in server.sessions; guarded by server.lock */
	struct session *next_placed; /* in server.placed; the same */
	pthread_mutex_t lock;	     /* guards what follows */
	bool ending;
	bool crowded; /* calls are held back, as are many more of the same tenant: nothing is read until these have gone on */
	uint64_t
		alone_since_ns; /* without a connection; 0: has one, or its end has begun. client.alone_since_ns is for others to see */
	unsigned connections;
	struct session_channel *channel[WIRE_CHANNELS];
	struct open_file *file;
	uint32_t files, files_room, free_file; /* free_file: index + 1 */
	unsigned running, waiting;	       /* calls; waiting: those of FOP_WAITS */
	unsigned held;			       /* of those that run: calls that a translator holds back */
	unsigned paused;		       /* channels */
	size_t bytes, kept_bytes;
	struct work *works;
	uint64_t requests, duplicates;
};

struct work {			       /* a call being done */
	struct session *session;       /* reference */
	struct connection *connection; /* reference; where the answer goes: a newer one after a resend */
	struct slot *slot;	       /* NULL once the client has given it another call */
	struct record *record;
	int fop;
	uint32_t xid;
	struct task *task;		   /* guarded by session.lock like the rest below */
	bool cancelled, waits, unanswered; /* waits: in a place of those that may; unanswered: it is to be asked for again */
	struct request *held;		   /* while a translator holds it back */
	struct work *next, **link;
};

struct listener {
	struct watch watch;
	struct server *server;
	char name[64];
	bool watched;
};
enum { SESSION_PLACES = 1024 };
struct server {
	/* options */
	char *listen, *port_file, *certificate, *key, *authorities, *revoked;
	int64_t transport; /* 1: TLS */
	int64_t max_connections, max_connections_of_one, max_files_of_one, max_handshakes, busy_poll_us;
	uint64_t handshake_timeout_ms, session_timeout_ms;

	struct xlator *x;
	struct tls *tls;
	uint64_t tls_generation; /* of tls_look(), that the connections were held against; the sweep's */
	struct listener *listener;
	unsigned listeners;
	struct timer sweep;
	atomic_bool stopping;
	atomic_uint tasks;    /* of ours, that stop waits for */
	pthread_mutex_t lock; /* guards what follows */
	struct connection *connections;
	struct session *sessions;
	struct session *placed[SESSION_PLACES]; /* the same, by the address of its client */
	struct share *shares;
	unsigned connection_count, session_count;
	bool full_logged;
	uint64_t accepted, rejected, garbage, expired, crowded, stale_channels;
	atomic_uint_fast64_t requests, bytes_in, bytes_out;
	atomic_size_t replying; /* as in the sessions, of all */
	atomic_uint waiting;	/* the same */
};

/* Places beyond max_connections, which only the provider's own processes may keep. Who that is only TLS can tell. */
static inline uint64_t server_reserve(const struct server *s)
{
	return s->tls ? ((uint64_t)s->max_connections + 15) / 16 : 0;
}

/* connection.c */
int listeners_claim(struct server *, struct problem *); /* binds; none is left bound when it fails */
int listeners_start(struct server *, struct problem *);
void listeners_stop(struct server *);
void connection_unref(struct connection *);
struct connection *connection_ref(struct connection *);
void connection_refuse(struct connection *, const char *why); /* logs once, closes */
void connection_drop(struct connection *, const char *why);   /* the same, on its loop, of one that is not watched */

/* session.c */
void session_greet(void *connection); /* a task: HELLO */
void session_unref(struct session *);
struct session *session_of(struct server *, const struct client *); /* with server.lock held; NULL: it is gone */
void session_detach(struct session *, struct connection *);	    /* the connection is lost */
void session_end(struct session *);				    /* in a task: for good */
void session_reclaimed(struct session *); /* in a task: the client asks for no more of its old locks */
void sessions_sweep(struct server *);
void sessions_free(struct server *);
int session_add_file(struct session *, struct file *, uint64_t *number); /* takes its own reference */
int session_find_file(struct session *, uint64_t number, struct file **);
void session_remove_file(struct session *, uint64_t number);
void session_forget_file(struct session *, const struct file *);
struct xlator *leaf_of(struct xlator *);
struct xlator *gate_of(struct xlator *); /* who decides what clients may be there; NULL: all may */

/* share.c */
struct share *share_of(struct server *, const char *tenant); /* with server.lock held; NULL: no memory */
void shares_free(struct server *);
void share_begin(struct session *, bool waits, size_t bytes); /* a call */
void share_end(struct session *, bool waits, size_t bytes);
bool share_may_wait(const struct session *, size_t bytes);
bool share_is_full(const struct session *);    /* no more calls are to be read */
bool share_is_busy(const struct session *);    /* nor those again that were not */
bool share_may_resume(const struct session *); /* true to one who ends a call: for all channels of the tenant */
void share_count_replying(const struct session *, size_t bytes);
bool share_has_reply_room(const struct session *, size_t bytes);
int share_add_file(const struct session *); /* -ENFILE */
void share_remove_files(const struct session *, unsigned count);
void share_dump(const struct server *, FILE *);

/* work.c */
void answer_status(struct connection *, uint32_t xid, int status);
void work_arrived(struct connection *, struct record *); /* on the loop: a fop */
void work_cancel(struct session *, unsigned channel, uint32_t xid);
void works_cancel(struct session *);
void works_cancel_waiting(struct session *);
void resume_channels(struct session *); /* with session.lock held: those that may be read from again */
struct slot *slot_of(struct session_channel *, uint32_t slot);
void slot_drop_kept(struct session *, struct slot *);
int server_put_inode(struct xlator *leaf, const struct guest *, struct inode *, uint8_t *handle, uint32_t *size);
void server_tell(struct server *, struct xlator *from, const struct event *);
#endif
