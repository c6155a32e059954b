/* SPDX-License-Identifier: Apache-2.0 */
/* Inside features/cloud: the tenants of a brick, and what is put into another form on the way to their trees and back. */
#ifndef CLOUD_H
#define CLOUD_H
#include <pthread.h>

#include "identity.h"
#include "xlator.h"

enum {
	TENANT_NAME = 64,
	TENANTS_MAX = 16384,
	POINTS_MAX = 4096,    /* access points of all tenants */
	ID_FIRST = 65536,     /* no tenant has one of the server's own ids */
	ID_LAST = 0xfffffffd, /* the two above mean "nobody" here and there, and "unchanged" */
	ID_NOBODY = 65534,    /* what a tenant sees of who is not his */
	MASK_PRIVILEGES = 06000,
};
/* By their directory in the brick's root the trees of the tenants are found; each replica gives it this gfid: 15 zeros and a 2. */
#define TENANTS_DIRECTORY "tenants"

enum tenant_state { TENANT_ACTIVE, TENANT_SUSPENDED, TENANT_DELETED, TENANT_STATES };
struct tenant {
	struct gfid id;	      /* also the gfid of its root */
	uint32_t base, count; /* its id u is base + u here */
	uint8_t state;
	char name[TENANT_NAME + 1];
};
struct guest { /* of the tenant that he is of */
	struct tenant tenant;
	bool administers;
	bool moves;	    /* none of his clients: the provider's process that moves what he has */
	bool spreads;	    /* he has cluster/dht, and may say what that says */
	struct gfid access; /* the access point that he has come by; zeros: none. Of that: */
	struct gfid top;    /* the directory that he was given for a root */
	bool read_only;
	bool forced; /* whoever he says he is, he is: */
	uint32_t uid, gid;
};
struct point { /* an access point */
	struct gfid id;
	char tenant[TENANT_NAME + 1];
	char *directory; /* from the tenant's root: "/", "/a/b"; or "@BRICK.NUMBER" (word.h) */
	uint64_t limit;	 /* that number; 0: it is a path */
	bool ended;	 /* that limit was taken away */
	unsigned ending; /* or is just being, by so many requests */
	bool forced, read_only;
	uint32_t uid, gid;
	uint64_t expires; /* seconds since the epoch; 0: never */
};
struct points {
	struct point *point; /* by id */
	size_t count;
};
struct table {
	char *text;	       /* of which it was made; NULL: it was never */
	struct tenant *tenant; /* by name */
	struct owned {
		struct gfid id;
		size_t tenant; /* its place in the list above */
	} * owned;	       /* of all, by id */
	size_t count;
};

/* What the text of the option says: NAME ID BASE COUNT STATE, the next after a comma. -EINVAL and a sentence; -ENOMEM. Of one that differs in few rows from
 * that of `before` (or NULL) only these are read. */
int table_parse(const char *text, const struct table *before, struct table *, struct problem *);
void table_free(struct table *);
const struct tenant *table_find(const struct table *, const char *name);
const struct tenant *table_find_owner(const struct table *, const struct gfid *id); /* whose root it is */
const char *tenant_state_name(enum tenant_state);

struct purge { /* of deleted tenants; guarded by cloud.lock, but for the counter */
	bool running, again, stop;
	struct task *task;
	char name[TENANT_NAME + 1]; /* whose tree is being removed; "": none */
	atomic_uint_fast64_t removed;
};
struct cloud {
	char *tenants, *access, *security; /* options */
	int64_t privileges, devices;	   /* 0: stored, 1: not */
	bool spread;			   /* option: tenants' clients spread names over several bricks */
	bool replicas;			   /* option: the brick is of a replica set, and features/replica is below */

	pthread_rwlock_t table_lock;
	struct table table;
	struct points points;
	pthread_mutex_t lock;
	struct purge purge;
	atomic_uint_fast64_t refused;	  /* requests of those who may not */
	atomic_uint_fast64_t strange_ids; /* refused on the way in, or shown as 65534 */
};
enum { MAY_ALL = 1 };
/* Whose request it is: 0 with a copy of the tenant, MAY_ALL (the brick's own side: servers, and this process), or -EACCES. Who moves a tenant's files is in his tree as he is,
 * suspended or not. */
int whose(struct cloud *, const struct client *, struct guest *);
bool is_tenants_root(struct cloud *, const struct gfid *); /* of any tenant */

/* ---- cloud-access.c ---- */
/* What the text of the option says. -EINVAL and a sentence; -ENOMEM. */
int points_parse(const char *text, struct points *, struct problem *);
void points_free(struct points *);
void points_print(struct cloud *, FILE *);
/* By which access point the guest comes: 0, or -EACCES: there is none (any more). The tenant is for the caller to find. */
int point_find(struct cloud *, const struct identity *, struct guest *);
int point_directory(struct cloud *, const struct gfid *id, char **directory, uint64_t *limit); /* malloc'ed */
bool changes(int fop, const void *in); /* what one that only reads may not */
/* The limit by whose number access points name their directory is being taken away: until `points_ended` says that it was not they let nobody in, nor do anything for who is. */
void points_ending(struct cloud *, uint64_t limit);
void points_ended(struct cloud *, uint64_t limit, bool was);

/* ---- cloud-map.c: ids ---- */
int id_in(struct cloud *, const struct tenant *, uint32_t *id); /* -EINVAL: none of the tenant's */
void id_out(struct cloud *, const struct tenant *, uint32_t *id);

/* Arguments in their other form, which borrow from those that came; all zeros at first. */
struct mapping {
	struct cloud *cloud;
	const struct tenant *tenant;
	bool moves, spreads; /* struct guest */
	void *steps;
	void *owned[2 * COMPOUND_MAX]; /* values */
	unsigned count;
};
union any_in {
#define X(op) struct op##_in op;
	FOPS(X)
#undef X
};
/* `to` has room for the fop's arguments. 0, or why the tenant may not ask that. Ended by mapping_end in both cases. */
int map_in(struct mapping *, int fop, const void *in, void *to);
void mapping_end(struct mapping *);
/* In place. `in` is what the tenant asked. 0, or -errno with the results left for the caller to clear. */
int map_out(struct cloud *, const struct guest *, int fop, const void *in, void *out);
/* The ids and extensions of the request. It is the tenant's own again after unmap_request. */
struct asker {
	uid_t uid, root;
	gid_t gid;
	struct gfid tree, access, top;
	bool administers, moves;
	int32_t group_count;
};
int map_request(struct cloud *, const struct guest *, struct request *, struct asker *);
void unmap_request(const struct guest *, struct request *, const struct asker *);

/* ---- cloud-xattr.c ---- */
bool is_acl(const char *name);
/* spreads: struct guest. */
int xattr_may_get(const struct cloud *, bool spreads, const char *name); /* 0, -ENODATA, -EOPNOTSUPP */
int xattr_may_set(const struct cloud *, bool spreads, const char *name); /* 0, -EPERM, -EOPNOTSUPP */
int acl_in(struct cloud *, const struct tenant *, void *acl,
	   uint32_t size); /* -EINVAL: none, or of ids that the tenant has not */
int acl_out(struct cloud *, const struct tenant *, void *acl, uint32_t size); /* -EIO: none */
void names_out(const struct cloud *, bool spreads, struct blob *names);
int born_may(const struct cloud *, bool spreads, const struct request *);

/* ---- cloud-tree.c; in a task ---- */
/* For requests of this translator itself, which no client sent: a member of a set does them of its own accord, at a time that all members agree on. */
int own_begin(struct request *, struct xlator *);
/* The root of the tenant's tree, made if need be; a reference. */
int tree_root(struct xlator *, const struct tenant *, struct inode **);
/* A directory of it by its path ("/a/b"): what is there now, symbolic links are not followed. -ENOENT, -ENOTDIR. A reference. */
int tree_below(struct xlator *, const struct tenant *, const char *path, struct inode **);
/* That with the limit of this number, wherever it is. -ENOENT. A reference. */
int tree_limited(struct xlator *, const struct tenant *, uint64_t limit, struct inode **);
/* The directory of all trees; -ENOENT. A reference. */
int tree_all(struct request *, struct xlator *, struct inode **);
struct inode *brick_root(struct xlator *);

/* ---- cloud-purge.c ---- */
void purge_wake(struct xlator *); /* there may be deleted tenants whose trees are there */
void purge_stop(struct xlator *);
#endif
