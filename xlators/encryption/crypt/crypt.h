/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of encryption/crypt share. doc/crypt.md has the format and the reasons. */
#ifndef STRATUS_CRYPT_H
#define STRATUS_CRYPT_H
#include <pthread.h>
#include <stdatomic.h>

#include "format.h"
#include "xlator.h"

struct key_page;
struct tail;

struct crypt {
	char *key_file, *secret_file;
	int64_t cipher; /* index of the choice: enum CIPHER_* less 1 */
	uint64_t hold_ms;
	struct crypt_keys *keys; /* locked memory */
	uint64_t owner;		 /* of this instance's locks at the bricks: random, so that two graphs of one mount differ */
	pthread_mutex_t lock;	 /* guards what follows; short */
	struct key_page *pages;	 /* where the files' keys are */
	struct file_key *free_key;
	unsigned unlocked; /* pages that could not be locked */
	bool told_unlocked;
	bool gives_first; /* the brick's lock, before the file through which it is held is released: see orders_locks */
	unsigned tenders; /* tasks that give brick locks back */
	bool stopping;
	atomic_uint_fast64_t refused, hidden, locks, reread, asked, edges;
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
	atomic_bool
		unsure; /* a change under the lock was not answered: it may come to the brick yet, but not once the lock is given back */
	atomic_bool key_fits;	      /* since the lock was taken a block has been opened with the key */
	uint64_t born_at;	      /* the moment (believe_ms) before this mount has made it */
	atomic_uint_fast64_t told_ns; /* when the log was last told what is wrong with it */
	/* Who changes the file has the turn among the tasks of this mount; the lock at the brick, which keeps other mounts out, stays over
	 * several turns. All below belongs to who has the turn. */
	struct task_lock turn;
	struct file *through; /* the lock is held through it; NULL: it is not held */
	struct client *client;
	uint32_t
		turns; /* how often the lock was taken: its pid at the brick, by which late changes are told from those of now (held.h) */
	uint64_t held_ns, used_ns;
	bool tended, size_known, owed; /* owed: the brick has not answered that it has the lock back */
	uint64_t size;		       /* of the contents, while the lock is held */
	struct tail *tail;	       /* while it is held: contents of the block in which the last write ended; NULL */
};

/* A block's contents, as they are on the brick; zeros behind its end. */
struct tail {
	uint64_t block;
	char plain[BLOCK];
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
	bool queued; /* nobody else has the turn, and turn_take is still to come */
	bool turn;   /* it has the turn */
	bool refused; /* the brick has refused a change of it for the lock (ENOTHELD): in a session that is over it may have done it */
	bool again; /* it failed for what has changed meanwhile (the lock was lost, the key is another one): once more from the beginning */
};

enum { TURNS = 8 }; /* so often is a change tried that loses the lock each time */

/* Bytes of a block in a file of that size. */
static inline unsigned length_in(uint64_t block, uint64_t size)
{
	uint64_t begin = block * BLOCK, left = size > begin ? size - begin : 0;

	return left < BLOCK ? (unsigned)left : BLOCK;
}

static inline struct op op_on(struct request *rq, struct xlator *x, struct inode *inode, struct node *n)
{
	return (struct op){ .rq = rq, .x = x, .c = crypt_of(x), .inode = inode, .n = n };
}

/* ---- cipher.c: pages ---- */
int cipher_load(void);
void cipher_unload(void);
/* s->length, flags and nonce are given; makes the tag, and of s->length bytes the page: SEAL bytes more. 0, -EIO. */
int page_seal(const struct file_key *, uint64_t block, struct seal *s, const void *plain, void *to);
/* Of the page so many bytes are there: how many of contents that is, and them. -EBADMSG: they do not fit the seal. */
int page_open(const struct file_key *, uint64_t block, const void *page, size_t size, void *to);
bool seal_may_fit(const struct seal *, size_t contents);

/* ---- node.c ---- */
struct node *node_of(struct xlator *, struct inode *); /* NULL: no memory */
void node_forget(struct xlator *, struct inode *, void *slot);
struct file_key *key_take(struct crypt *); /* a place for one, in locked memory as long as there is some; NULL */
void key_give(struct crypt *, struct file_key *);
void keys_free(struct crypt *);
/* The node takes over the key, as the one that counts. -EBADMSG: it had too many. */
int node_set_key(struct crypt *, struct node *, struct file_key *);
const struct file_key *node_known_key(struct node *); /* NULL */
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

/* ---- hold.c: turns and locks ---- */
int turn_take(struct op *);
bool turn_take_now(struct op *); /* if nobody has it; turn_take must follow, and does not wait for others of this mount */
void turn_give(struct op *);
/* The same for a reader that has found what does not fit: nobody changes the file meanwhile. */
int turn_take_reading(struct op *, bool *locked);
void turn_give_reading(struct op *, bool locked);
/* Around each message that changes something, by who has the turn. It is marked, so that the brick does it only while it knows the lock. -ESTALE: the lock is
 * lost, and others may be at it. What is under way is not cancelled. */
int change_begin(struct op *);
int change_end(struct op *, int err);					 /* as the message ended: that, or -ESTALE */
int turn_size(struct op *, uint64_t *size);				 /* of the contents */
void turn_forget_size(struct op *);					 /* ask again next time */
void turn_forget_tail(struct op *);					 /* somebody cuts, or punches */
void hold_file_closes(struct request *, struct xlator *, struct file *); /* before it is released */
bool hold_gives_first(const struct xlator *below);
bool hold_lost(struct xlator *, const struct event *); /* true: it was about a lock of ours, and nobody above need hear */
void hold_stop(struct xlator *);
uint64_t hold_owner(const struct crypt *, const struct inode *);
int crypt_setlk(struct request *, struct xlator *, const struct setlk_in *, struct setlk_out *);
int crypt_getlk(struct request *, struct xlator *, const struct getlk_in *, struct getlk_out *);

/* ---- read.c ---- */
enum {
	MESSAGE_PAGES = 260, /* 1 MiB, wherever it begins, lies in so many (WIRE_BULK_MAX) */
	PART_PAGES = 86,     /* of a large request, on their way by themselves while others are sealed or opened */
	PARTS = MESSAGE_PAGES / PART_PAGES, /* so many at most */
	SPREAD = 16,			    /* pages that are worth a core's while */
};
struct pages { /* as they are on the brick, as far as they are there */
	uint64_t first;
	unsigned count;
	struct buffer *data;
};
int pages_read(struct op *, uint64_t first, unsigned count, struct pages *); /* the caller's then is p->data */
/* The contents of block `at` of the pages, by who has the turn, in a file of that size. -EBADMSG, -EREMOTEIO (it has another length than that), o->why. */
int block_get(struct op *, const struct file_key *, const struct pages *, unsigned at, uint64_t size, void *to);
int crypt_read(struct request *, struct xlator *, const struct read_in *, struct read_out *);
int crypt_seek(struct request *, struct xlator *, const struct seek_in *, struct seek_out *);

/* ---- write.c and change.c: all by who has the turn ---- */
int write_zeros(struct op *, uint64_t offset, uint64_t size);  /* within one block */
int write_pages(struct op *, uint64_t block, struct buffer *); /* as they are, to the brick: from that block on */
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
/* One more, opened with the root's rights, for both and with these flags; the caller closes it. */
int open_own(struct request *, struct xlator *, struct inode *, uint32_t flags, struct file **);
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
