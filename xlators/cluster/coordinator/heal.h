/* SPDX-License-Identifier: Apache-2.0 */
/* Makes one member's copy of an object equal to another's. The caller sees to it that nobody changes the object meanwhile (it holds
 * the token, or the object is in recovery). See doc/replication.md. */
#ifndef STRATUS_HEAL_H
#define STRATUS_HEAL_H
#include "replica.h"

struct heal {
	struct xlator *x; /* its children are the members */
	uint8_t secret[REPLICA_SECRET_SIZE];
	atomic_uint_fast64_t epoch; /* of the messages; a brick that has another refuses them */
	int arbiter;		    /* member without file data, or -1 */
	bool cold;  /* all were started anew: what has another place than it should may have other contents, too */
	bool look;  /* change nothing: what would have to be changed is -EUCLEAN */
	bool logs;  /* what names stood for is logged at the member before they change: see heal_undo() */
	bool syncs; /* heal_sync() is to sync directories that a name was taken from; after a start of all members each that is made equal, at both */
	bool logs_made; /* also where nothing was, and an object is made anew: whoever comes to it before it is whole takes it for what it is not */
	atomic_bool halt;		/* end soon: what would be asked of a member is -ECANCELED, but to close what is open */
	atomic_uint_fast64_t bandwidth; /* bytes copied in a second, at most; 0: as fast as it goes */
	/* By heal_object of a directory: it names the object anew on member `to`, so that is to be healed too, by and by. Called before it
	 * is named there (changes that come for it are then skipped), and again once it is: who healed it in between found nothing.
	 * What is new is made without contents. The inode is in memory at that moment (inode_find), and who keeps a reference until
	 * the object is healed spares the brick the search. */
	int (*found)(struct heal *, int to, const struct gfid *);
	atomic_uint failed;		     /* mask of members that gave -EIO; cleared by who wants to know */
	atomic_uint_fast64_t objects, bytes; /* healed: looked at, and copied */
	atomic_uint_fast64_t paid_until_ns;  /* see bandwidth */
	/* For a walk through a whole tree: references on all files with several names that were seen, given back by
	 * heal_forget_links(). Without them a brick that has forgotten such a file gets it twice, and not one with two names. */
	struct kept_links *links;   /* made by heal_keep_links(); NULL: none are kept */
	pthread_mutex_t links_lock; /* short */
	unsigned moving;	    /* mask of members at which a task moves a name; guarded by links_lock */
	struct task_cond moved;
	struct placing *placing; /* what is just being placed at some member; guarded by links_lock */
	struct to_sync *to_sync; /* see syncs; guarded by links_lock */
};

/* A request of the coordinator's own: uid 0, with the stamp REPLICA_HEAL. Ended by heal_request_end, also after -ENOMEM. */
int heal_request(struct heal *, struct request *);
void heal_request_end(struct request *);
/* A verb to one member: secret and epoch are put before `more` (which is freed, and may be NULL). *out is the caller's. */
int heal_verb(struct heal *, struct request *, int member, enum replica_verb, struct inode *, struct pack *more,
	      struct replica_out *out);

/* What heal_verb sends, to be sent by other means; in->data.bytes is the caller's. */
int heal_verb_in(struct heal *, enum replica_verb, struct inode *, struct pack *more, struct replica_in *in);

/* The object as member `at` has it: an inode that can be used there. By FIND, else along the names that member `from` tells (from
 * may be -1). -ENOENT: the member does not have it. */
int heal_find(struct heal *, struct request *, const struct gfid *, int from, int at, struct inode **);
/* Lets the members in the mask know the object by its name, so that they find it: for a walk from the root down. Who does not have it
 * there is left alone. 0; -errno only where nothing was learned because a member did not answer. */
int heal_show(struct heal *, struct request *, struct inode *directory, const char *name, const struct gfid *,
	      unsigned members);
/* The member knows it, and it has a name there that is not in the limbo, nor in a tree that lies there. True if that can't be told. */
bool heal_named(struct heal *, struct request *, const struct gfid *, int at);
/* The member has it, and can't tell under which name: nobody has looked at the directory that names it since the member was started. */
bool heal_adrift(struct heal *, struct request *, const struct gfid *, int at);
/* The same, or it is open there and has no name any more. */
bool heal_knows(struct heal *, struct request *, const struct gfid *, int from, int at);
/* Owner, mode, times, xattrs, and: a file's bytes from start to end (UINT64_MAX: all) and its length; a directory's names.
 * -ESRCH: `to` does not have it (it is told to found() when it is named there anew; but if it is there, and only gets another name, its
 * data are what they were); -ENOENT: `from` does not have it any more (then nothing is to be done); -EAGAIN: what is healed elsewhere stands in the way, or was at it, so try again later; -errno. */
int heal_object(struct heal *, struct request *, const struct gfid *, int from, int to, uint64_t start, uint64_t end);
/* The same for `length` bytes of a file's data. *more: it has bytes behind them. -EAGAIN, too, while `to` does not have it: who heals
 * takes nothing off the list that was not found. */
int heal_piece(struct heal *, struct request *, const struct gfid *, int from, int to, uint64_t start, uint64_t length,
	       bool *more);
/* The same for all of the object, with the contents of what a directory names anew, without found(). -ESRCH: `to` does not have it, or
 * not where it can be found: its directory there names it later, perhaps. */
int heal_whole(struct heal *, struct request *, const struct gfid *, int from, int to);
/* What the name stands for in that directory: the same object, or nothing, as at `from`. An object that is new at `to` is made with
 * all its contents, without found(). The directory's own times are set, too. -ESRCH: `to` does not have the
 * directory; else as heal_object. */
int heal_name(struct heal *, struct request *, const struct gfid *directory, const char *name, int from, int to);
/* Each entry of the member's directory, with its inode. Ends with the first error of `each`, which it returns. 0
 * also if the directory has gone. */
int heal_list(struct heal *, struct request *, int at, struct inode *directory,
	      int (*each)(void *arg, const struct dirent_plus *), void *arg);
/* Each directory that names it at `at`, which knows them then. Ends with the first error of `each`, which it returns. 0 also if there is none. */
int heal_above(struct heal *, struct request *, const struct gfid *, int at, int (*each)(void *arg, struct inode *directory),
	       void *arg);
/* Each directory that names at `from` what lies in the limbo of `to`, and those above it that `to` lacks: they must be healed, too, before the limbo is
 * purged. Where something lies there all of the tree at `from` is looked through; it knows the former by their gfids as long as this goes on. Ends with the first error of `each`,
 * which it returns. */
int heal_missed(struct heal *, struct request *, int from, int to, int (*each)(void *arg, const struct gfid *directory),
		void *arg);
/* Each directory that must be healed so that `to` finds this object where `from` has it: the object itself if it is a directory, else those that name
 * it, and those above as far as `to` lacks them. None if `to` has it, or `from` does not. Ends with the first error of `each`, which it returns. */
int heal_lacking(struct heal *, struct request *, const struct gfid *, int from, int to,
		 int (*each)(void *arg, const struct gfid *directory), void *arg);
/* What was moved out of the way for good: deletes it. */
int heal_purge_limbo(struct heal *, struct request *, int at);
/* Where a log is: each of its names stands again for what it did before that log was begun (nothing, too, if logs_made was set when
 * something was made there), and the log is ended. `each` is called for each of them before the first is changed; what it returns ends it, unless 0. */
int heal_undo(struct heal *, struct request *, int at, int (*each)(void *arg, const struct gfid *directory, const char *name),
	      void *arg);
/* What the log tells is not wanted any more; 0 if there is none. Then the limbo may be purged. */
int heal_end_log(struct heal *, struct request *, int at);
/* What was taken since `syncs` was set is on disk at all members; then that is not set any more. *failed: the member that could not, after an error. */
int heal_sync(struct heal *, struct request *, int *failed);
/* Without that. */
void heal_forget_sync(struct heal *);
int heal_keep_links(
	struct heal
		*); /* before the first heal of a walk; -ENOMEM, and then heal_forget_links() is not due. Walks share them */
void heal_forget_links(struct heal *);
#endif
