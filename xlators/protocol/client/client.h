/* SPDX-License-Identifier: Apache-2.0 */
/* protocol/client's parts: the remote brick, its channels (one connection per shard), open files and locks held there. */
#ifndef STRATUS_PROTOCOL_CLIENT_H
#define STRATUS_PROTOCOL_CLIENT_H
#include <netdb.h>

#include "message.h"
#include "tls.h"

/* Lock order: channel.lock, then remote.lock, then remote_inode.lock. None is held over a wait. */

struct held_lock { /* granted by the brick; taken again after it has restarted */
	struct held_lock *next;
	struct lock lock;
	const struct file *file; /* through which it was taken, and with which it goes; not a reference */
	uint64_t incarnation;	 /* of the session that it is known in */
};
struct remote_inode {
	pthread_mutex_t lock;
	uint32_t size;
	uint8_t handle[WIRE_HANDLE_MAX];
	struct held_lock *held;
	uint64_t end; /* the file's size as we heard of it last */
	bool end_known;
};
struct remote_file {
	struct remote_file *next, **link; /* in remote.files */
	struct file *file;		  /* whose slot this is */
	uint64_t number;		  /* at the server; guarded by remote.lock like the rest */
	uint64_t incarnation;		  /* of the session in which the number holds */
	bool stale;			  /* gone when the brick came back */
};

enum channel_state { CHANNEL_DOWN, CHANNEL_GREETING, CHANNEL_RECOVERING, CHANNEL_UP };
struct call;
struct slot {
	struct call *call; /* that waits for an answer, or NULL */
	uint32_t sequence;
	bool taken;
};
struct call_queue {
	struct call *first, *last;
};
struct remote;
struct channel {
	struct stream stream; /* first: its callbacks find the channel */
	struct watch connecting;
	struct remote *remote;
	unsigned number;
	const struct addrinfo *address; /* of remote.address, dialled last */
	bool was_up;			/* by that */
	struct shard *shard;
	struct task *_Atomic keeper; /* connects, greets, recovers, pings */
	pthread_mutex_t lock;	     /* guards what follows */
	enum channel_state state;
	uint64_t generation, incarnation;
	struct record *answer; /* to HELLO or GOODBYE */
	bool lost, heard, pinged, connected;
	const char *lost_why;
	struct slot slot[WIRE_SLOTS], *wait_slot;
	uint16_t free[WIRE_SLOTS];
	unsigned free_count, wait_hint, wait_taken;
	struct call_queue waiting,
		locks_waiting; /* for a connection or a slot, first come first; locks: those that may have to wait at the brick, too */
	char *scratch;	       /* requests are encoded here */
	uint32_t room;
	uint64_t requests, resent, cancels, bytes_in, bytes_out; /* bytes: of earlier connections */
	bool turned;
	/* What was asked early when the connection was lost, and has no answer: the brick may have opened the file. Of who holds remote.recovery. */
	struct {
		uint32_t xid; /* 0: nothing */
		uint64_t incarnation;
		struct file *file;
	} unsure;
};

struct remote {
	/* options */
	char *acts_for_text;  /* option */
	struct gfid acts_for; /* the same; zeros: nobody */
	char *remote_host, *remote_subvolume, *volume_id, *brick_id, *certificate, *key, *authorities, *revoked;
	int64_t remote_port, transport;
	uint64_t max_wait_ms, start_wait_ms, ping_interval_ms, ping_timeout_ms;
	bool wait_for_brick, may_lack_list;

	struct xlator *x;
	struct tls *tls;
	struct task *_Atomic guard; /* looks whether servers were revoked; with tls only */
	struct addrinfo *address;
	uint8_t client_id[16], secret[16];
	struct channel *channel;
	unsigned channels;
	atomic_bool stopping;
	atomic_uint keepers; /* tasks of ours that run: stop waits for them */
	struct task_lock recovery, reopening;
	pthread_mutex_t lock; /* guards what follows */
	struct remote_file *files;
	uint64_t recovering; /* incarnation of the session into which files and locks are being brought, or were */
	uint64_t recovered;  /* the same, once that is done */
	unsigned up, attempts;
	uint32_t root_size;
	uint8_t root_handle[WIRE_HANDLE_MAX];
	struct problem problem; /* why the last attempt failed */
	struct reasons reasons; /* those that were logged since the brick was reached last */
	bool refused;		/* by the server: no use in trying at start */
	uint64_t connects, sessions_lost, stale_files, lost_locks;
};

/* channel.c */
int channel_init(struct channel *, struct remote *, unsigned number);
void channel_finish(struct channel *);
/* Sends the request on this shard's channel and waits for its answer, over losses of the connection. */
int remote_call(struct remote *, struct request *, int fop, const void *in, void *out);
/* The same; *session is the incarnation of the session in which it was done. */
int remote_call_in(struct remote *, struct request *, int fop, const void *in, void *out, uint64_t *session);
/* The same on a channel that is just being made ready, by its keeper, which holds remote.recovery. -ENOTCONN as soon as the connection is lost. What was sent then, but for
 * a lock, is in channel.unsure, and in the same session the next early call has to be the same one. */
int channel_call_early(struct channel *, struct request *, int fop, const void *in, void *out);
void channel_set_state(struct channel *, enum channel_state); /* with the lock held; wakes who waits */
unsigned channel_waiting(const struct channel *); /* calls that are not sent yet, for the brick or a slot; with the lock held */
void channel_kill(struct channel *);		  /* as if the connection had been lost */
bool channel_answer(struct channel *, struct record *);
extern const struct codec_ops client_codec; /* the owner is a call; for others see remote_decode_inode */
int remote_decode_inode(struct remote *, struct codec *, struct inode **); /* an inode outside of a call */
enum {									   /* xids of what is not a fop */
       XID_SESSION = (1 << WIRE_SLOT_BITS) - 1,
       XID_HELLO = XID_SESSION | 1 << WIRE_SLOT_BITS,
       XID_PING = XID_SESSION | 2 << WIRE_SLOT_BITS,
       XID_GOODBYE = XID_SESSION | 3 << WIRE_SLOT_BITS,
       XID_CANCEL = XID_SESSION | 4 << WIRE_SLOT_BITS,
       XID_RECLAIMED = XID_SESSION | 5 << WIRE_SLOT_BITS
};

/* keeper.c */
void keeper_run(void *channel);
void guard_run(void *remote);

/* object.c: what the slots of inodes and files hold */
struct remote_inode *remote_inode(struct remote *, struct inode *, const uint8_t *handle, uint32_t size);
struct remote_inode *remote_inode_of(struct remote *, struct inode *); /* NULL: not known here; the root always is */
/* The end of the handle (voucher(), in a replica set for a tenant). */
int remote_voucher(struct xlator *, struct inode *, uint8_t voucher[VOUCHER_SIZE]);
/* What a reply tells of the size of a file. */
void remote_note_size(struct remote *, int fop, const void *in, const void *out);
bool remote_size(struct remote *, struct inode *, uint64_t *size); /* false: not heard of yet */
uint64_t remote_session(struct remote *); /* incarnation of the session that is recovered, or just being so */
void remote_inode_free(struct remote_inode *);
int remote_file_add(struct remote *, struct file *, uint64_t number, uint64_t incarnation);
void remote_file_remove(struct remote *, struct remote_file *);
/* Makes the file's number hold in the session of that incarnation. On the channel if given, else on this shard's. */
int remote_file_reopen(struct remote *, struct channel *early, struct file *, uint64_t incarnation);
/* Brings files and locks into a session that was made anew. */
int remote_recover(struct remote *, struct channel *);
/* Another channel has to go on with the recovery into this one's session: it alone can find out what it opened there. */
bool remote_is_unsure(struct remote *, const struct channel *besides);

/* exchange.c: RENAME_EXCHANGE of which nobody above has said what has the names, with two lookups for that. */
bool exchange_is_unsaid(const struct request *, const struct rename_in *);
int exchange_names(struct remote *, struct request *, const struct rename_in *, struct rename_out *);

/* held.c: locks that the brick has granted */
int held_set(struct remote_inode *, const struct file *, const struct lock *, uint64_t incarnation);
void held_drop_owner(struct remote_inode *, uint64_t owner);	 /* POSIX locks, at a flush */
void held_drop_file(struct remote_inode *, const struct file *); /* all through it, at the release */
void held_free(struct held_lock *);
#endif
