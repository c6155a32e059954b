/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of encryption/crypt share. doc/crypt.md has the format and the reasons. */
#ifndef STRATUS_CRYPT_H
#define STRATUS_CRYPT_H
#include <pthread.h>
#include <stdatomic.h>

#include "format.h"
#include "xlator.h"

struct key_page;
struct known;
struct tail;

struct crypt {
	char *key_file, *secret_file;
	int64_t cipher; /* index of the choice: enum CIPHER_* less 1 */
	bool ordered;
	uint64_t hold_ms;
	struct crypt_keys *keys; /* locked memory */
	uint64_t owner;		 /* of this instance's locks at the bricks: random, so that two graphs of one mount differ */
	pthread_mutex_t lock;	 /* guards what follows; short */
	struct key_page *pages;	 /* where the files' keys are */
	struct file_key *free_key;
	unsigned unlocked; /* pages that could not be locked */
	bool told_unlocked;
	unsigned tenders; /* tasks that give brick locks back */
	bool stopping;
	pthread_mutex_t known_lock; /* guards what follows; short */
	struct known **known;
	atomic_uint_fast64_t nodes, holds; /* so many there have been */
	atomic_uint_fast64_t refused, hidden, locks, reread, asked, unread, unordered;
};
static inline struct crypt *crypt_of(const struct xlator *x)
{
	return x->private;
}

enum { KEYS_BEFORE = 3 };
/* What is known of a regular file. */
struct node {
	pthread_mutex_t lock; /* guards the pointers to the keys */
	struct file_key *key; /* NULL: not known yet */
	struct file_key *older
		[KEYS_BEFORE]; /* what was the key before another mount gave the empty file one: somebody may be using it */
	atomic_bool born;      /* this mount has made the file, with the key, and has not written it yet */
	atomic_bool sparse;    /* its header says so */
	atomic_bool lost;      /* the brick gave our lock up, or may have */
	uint64_t born_at;      /* the moment (believe_ms) before this mount has made it */
	uint64_t number;       /* which node it is */
	atomic_uint_fast64_t told_ns; /* when the log was last told what is wrong with it */
	/* Who changes the file has the turn among the tasks of this mount; the lock at the brick, which keeps other mounts out, stays over
	 * several turns. All below belongs to who has the turn. */
	struct task_lock turn;
	struct file *through; /* the lock is held through it; NULL: it is not held */
	struct client *client;
	uint64_t held_ns, used_ns;
	bool tended, size_known, owed; /* owed: the brick has not answered that it has the lock back */
	uint64_t size;		       /* of the contents, while the lock is held */
	uint64_t hold;		       /* which time it is that the lock is held */
	bool fresh; /* while it is held: all that is in the file was written since it was empty, and nobody has asked to make it durable */
	struct tail *tail; /* while it is held: contents of the block in which the last write ended; NULL */
};

/* A block's contents, as they are on the brick. */
struct tail {
	uint64_t block;
	char plain[BLOCK];
};
enum { KNOWN_NOT = 255, KNOWN_SMALL = 2 }; /* a file with no more groups is forgotten with the lock */
/* The slots of a group on the brick, and which of them fits. */
struct known {
	uint64_t node, group, hold;
	uint8_t which[GROUP]; /* 0, 1; KNOWN_NOT: the block's slots are not known */
	uint8_t pairs[GROUP * SLOT_PAIR];
};

/* One request's work on one file. */
struct op {
	struct request *rq;
	struct xlator *x;
	struct crypt *c;
	struct inode *inode;
	struct node *n;
	struct file *file; /* for reading; for writing too, if it changes something */
	const char *why;   /* what was wrong with what the brick has said, and in which block */
	uint64_t where;
	bool turn; /* it has the turn */
	bool again; /* it failed for what has changed meanwhile (the lock was lost, the key is another one): once more from the beginning */
};

static inline struct op op_on(struct request *rq, struct xlator *x, struct inode *inode, struct node *n)
{
	return (struct op){ .rq = rq, .x = x, .c = crypt_of(x), .inode = inode, .n = n };
}

/* ---- aside.c ---- */
/* A part of a request that is done while its task does something else. */
struct aside {
	struct op o; /* its own, with a copy of the request */
	int (*fn)(struct op *, void *arg);
	void *arg;
	struct task *caller;
	pthread_mutex_t lock; /* guards what follows */
	struct task *task;    /* while it runs */
	bool done, cancelled;
	int err;
};
/* Begins fn(a copy of *o, arg), which runs as soon as the caller waits, or yields; without memory, at once. It must not give the turn, nor change
 * what belongs to it. Each is ended, in any order, before what it uses goes. */
void aside_start(struct aside *, const struct op *, int (*fn)(struct op *, void *arg), void *arg);
/* Waits for it and gives what it has returned; why it failed goes to *o. -ECANCELED: a cancel came meanwhile, which it was told. */
int aside_end(struct aside *, struct op *);

/* ---- cipher.c: blocks ---- */
int cipher_load(void);
void cipher_unload(void);
/* s->length, flags and nonce are given; makes the tag. 0, -EIO. */
int block_seal(const struct file_key *, uint64_t block, struct slot_value *s, const void *plain, void *to);
int block_open(const struct file_key *, uint64_t block, const struct slot_value *s, const void *from, void *to); /* -EBADMSG */

/* ---- node.c ---- */
struct node *node_of(struct xlator *, struct inode *); /* NULL: no memory */
void node_forget(struct xlator *, struct inode *, void *slot);
struct file_key *key_take(struct crypt *); /* a place for one, in locked memory as long as there is some; NULL */
void key_give(struct crypt *, struct file_key *);
void keys_free(struct crypt *);
/* The node takes over the key, as the one that counts. -EBADMSG: it had too many. */
int node_set_key(struct crypt *, struct node *, struct file_key *);
/* The file's key, from its header if it is not known. -EBADMSG and o->why: there is none that is right. -ENOKEY: not with the master keys that
 * this mount has. */
int node_key(struct op *, const struct file_key **);
/* The same for who has the turn: an empty file gets a header if it has none that is right. */
int node_key_or_new(struct op *, const struct file_key **);
/* Holes are allowed from now on, for all mounts. By who has the turn. */
int node_allow_holes(struct op *);
/* Key and flags as the header says now. */
int node_reload(struct op *, const struct file_key **);
/* -EBADMSG becomes -EIO, with a line that names file and reason, once a second for each file; so has -ENOKEY a line. */
int tampered(struct op *, int err);

/* The root's rights for what the translator does for itself. */
struct who {
	uid_t uid;
	gid_t gid;
};
struct who become_root(struct request *);
void become(struct request *, struct who);

/* ---- known.c ---- */
void known_finish(struct crypt *);
void known_forget_small(struct crypt *, const struct node *);

/* ---- hold.c: turns and locks ---- */
int turn_take(struct op *);
void turn_give(struct op *);
/* The same for a reader that has found what does not fit: nobody changes the file meanwhile. */
int turn_take_reading(struct op *, bool *locked);
void turn_give_reading(struct op *, bool locked);
/* Around each message that changes something, by who has the turn. -ESTALE: the lock is lost, and others may be at it. What is under way is not
 * cancelled: it might come to the brick after the lock was given back. */
int change_begin(struct op *);
void change_end(void);
int turn_size(struct op *, uint64_t *size); /* of the contents */
void turn_forget_size(struct op *);	    /* ask again next time */
void turn_begin_anew(struct op *); /* what is known of contents and slots is not sure any more: somebody cuts, or punches */
int crypt_fsync(struct request *, struct xlator *, const struct fsync_in *, struct fsync_out *);
void hold_file_closes(struct request *, struct xlator *, struct file *);
bool hold_lost(struct xlator *, const struct event *); /* true: it was about a lock of ours, and nobody above need hear */
void hold_stop(struct xlator *);
uint64_t hold_owner(const struct crypt *, const struct inode *);
int crypt_setlk(struct request *, struct xlator *, const struct setlk_in *, struct setlk_out *);
int crypt_getlk(struct request *, struct xlator *, const struct getlk_in *, struct getlk_out *);

/* ---- read.c ---- */
struct piece { /* blocks, as they are on the brick; perhaps of several groups */
	uint64_t first;
	unsigned count;
	struct buffer *data, *slots; /* the second: of the first group, where the data begin behind them */
	uint64_t at;		     /* where the data begin */
	unsigned apart;		     /* slots that a message of their own brings */
	struct aside aside;	     /* while it is being read beside others */
};
struct found {
	int slot; /* the one that fits; -1: it is a hole, or not there, or nothing fits */
	uint8_t serial;
};
enum { PIECE_BLOCKS = 256, SPREAD = 16 }; /* blocks: of a piece at most; that are worth a core's while */
/* As many of the blocks as one message brings: p->count; if it can't be all, then up to the end of a group, if it can. Nothing is read yet. */
void piece_plan(uint64_t first, unsigned count, struct piece *);
int piece_read(struct op *, struct piece *);
int read_sealed(struct op *, uint64_t offset, size_t size, struct buffer **data); /* as it is on the brick */
/* Of several that go side by side. What was started is ended, whatever the others say, and cleared. */
void piece_start(struct op *, struct piece *);
int piece_end(struct op *, struct piece *);
void piece_clear(struct piece *);
const uint8_t *piece_pair(const struct piece *, unsigned at); /* its slots; NULL: they are not there */
/* What needs nobody's help, on whatever thread. -EBADMSG: no slot fits. */
int piece_open(const struct file_key *, const struct piece *, unsigned at, void *to, struct found *);
/* Bytes of block `at` (from first on) into to[BLOCK]; how many the block has. -EBADMSG, o->why. */
int piece_block(struct op *, const struct file_key *, const struct piece *, unsigned at, void *to, struct found *);
/* The same for who has the turn, where the file has that size: 0. -EREMOTEIO: the block has another length than that. */
int piece_block_of(struct op *, const struct file_key *, const struct piece *, unsigned at, uint64_t size, void *to,
		   struct found *);
int crypt_read(struct request *, struct xlator *, const struct read_in *, struct read_out *);
int crypt_seek(struct request *, struct xlator *, const struct seek_in *, struct seek_out *);

/* ---- write.c: all by who has the turn ---- */
/* Bytes to the file, beyond its end too. -errno, or the number of those that were written. */
ssize_t write_bytes(struct op *, uint64_t offset, const void *bytes, size_t size, uint32_t flags);
int write_zeros(struct op *, uint64_t offset, uint64_t size);			 /* within one block */
int write_sealed(struct op *, uint64_t offset, struct buffer *, uint32_t flags); /* to the brick, all of it */
int make_durable(struct op *); /* what is replaced may be durable: so the new slots must be, before the blocks are */
int crypt_write(struct request *, struct xlator *, const struct write_in *, struct write_out *);

/* ---- resize.c ---- */
int crypt_setattr(struct request *, struct xlator *, const struct setattr_in *, struct setattr_out *);
int crypt_fallocate(struct request *, struct xlator *, const struct fallocate_in *, struct fallocate_out *);
/* The length of the file on the brick, by who has the turn. */
int set_size(struct op *, uint64_t size);
/* open(2) with O_TRUNC; *attr as it is then. */
int truncate_opened(struct request *, struct xlator *, struct inode *, struct file *, struct attr *);

/* ---- open.c ---- */
/* A file that reads and writes, for one that only writes; borrowed. */
int file_for_both(struct request *, struct xlator *, struct file *, struct file **both);
/* One more, opened with the root's rights; the caller closes it. */
int open_own(struct request *, struct xlator *, struct inode *, struct file **);
void close_own(struct request *, struct xlator *, struct file *);
int crypt_open(struct request *, struct xlator *, const struct open_in *, struct open_out *);
int crypt_create(struct request *, struct xlator *, const struct create_in *, struct create_out *);
int crypt_mknod(struct request *, struct xlator *, const struct mknod_in *, struct mknod_out *);
int crypt_release(struct request *, struct xlator *, const struct release_in *, struct release_out *);
void crypt_forget_file(struct xlator *, struct file *, void *slot);

/* ---- names.c ---- */
void attr_translate(struct attr *); /* sizes of contents, not of what is on the brick */
struct sealed_loc {
	struct loc loc;
	char name[NAME_ROOM];
};
int loc_seal(struct xlator *, const struct loc *, struct sealed_loc *);
int crypt_lookup(struct request *, struct xlator *, const struct lookup_in *, struct lookup_out *);
int crypt_getattr(struct request *, struct xlator *, const struct getattr_in *, struct getattr_out *);
int crypt_readlink(struct request *, struct xlator *, const struct readlink_in *, struct readlink_out *);
int crypt_mkdir(struct request *, struct xlator *, const struct mkdir_in *, struct mkdir_out *);
int crypt_symlink(struct request *, struct xlator *, const struct symlink_in *, struct symlink_out *);
int crypt_unlink(struct request *, struct xlator *, const struct unlink_in *, struct unlink_out *);
int crypt_rmdir(struct request *, struct xlator *, const struct rmdir_in *, struct rmdir_out *);
int crypt_rename(struct request *, struct xlator *, const struct rename_in *, struct rename_out *);
int crypt_link(struct request *, struct xlator *, const struct link_in *, struct link_out *);
int crypt_readdir(struct request *, struct xlator *, const struct readdir_in *, struct readdir_out *);
int crypt_statfs(struct request *, struct xlator *, const struct statfs_in *, struct statfs_out *);

/* ---- xattr.c ---- */
int crypt_setxattr(struct request *, struct xlator *, const struct setxattr_in *, struct setxattr_out *);
int crypt_getxattr(struct request *, struct xlator *, const struct getxattr_in *, struct getxattr_out *);
int crypt_listxattr(struct request *, struct xlator *, const struct listxattr_in *, struct listxattr_out *);
int crypt_removexattr(struct request *, struct xlator *, const struct removexattr_in *, struct removexattr_out *);
#endif
