/* SPDX-License-Identifier: Apache-2.0 */
/* Inside features/access: what is known of objects, and the decisions that are made from it. */
#ifndef ACCESS_H
#define ACCESS_H
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

#include "born.h"
#include "xlator.h"

enum { MAY_EXEC = 1, MAY_WRITE = 2, MAY_READ = 4 }; /* the bits of access(2) and of a mode */
enum { OPEN_FOR_EXEC = 040 };			    /* the kernel's FMODE_EXEC among the flags of an open file */

struct acl_entry {
	uint16_t tag, perm;
	uint32_t id;
};
struct facts { /* never changed once made, so it is read without a lock */
	atomic_uint refs;
	uint32_t mode, uid, gid;
	bool acl_known;
	uint32_t entries; /* of the ACL; 0: none */
	/* The entry from which on they are about groups, sorted by these, the object's own (ACL_GROUP_OBJ) with its number as id: so those
	 * about one group, of which there may be several, are next to each other. The others are as they came. */
	uint32_t first_group;
	struct acl_entry entry[];
};
struct access {
	atomic_uint_fast64_t changes; /* rises with each change of any object's facts */
	atomic_uint_fast64_t loads;   /* the child was asked for attributes */
};

/* ---- access-facts.c ---- */
/* What is known of the object, asked from the child if need be; a reference, or NULL with the error in *err. */
struct facts *facts_get(struct request *, struct xlator *, struct inode *, int *err);
struct facts *facts_get_acl(struct request *, struct xlator *, struct inode *, int *err); /* with its ACL */
void facts_unref(struct facts *);
static inline void facts_unref_at(struct facts **f)
{
	facts_unref(*f);
}
#define cleanup_facts __attribute__((cleanup(facts_unref_at)))
/* The child gave these attributes; `changes` is p->changes from before it was asked: if it has risen they may be old. */
void facts_learn(struct xlator *, struct inode *, const struct attr *, uint64_t changes);
void facts_forget(struct xlator *, struct inode *); /* after each change, whether it succeeded or not */
void access_forget_inode(struct xlator *, struct inode *, void *slot);

/* ---- access-decide.c: 0, -EACCES, -EPERM, -ENEEDGROUPS or what went wrong ---- */
bool is_root(const struct request *);
int decide(struct request *, struct xlator *, struct inode *, unsigned want);
/* 0 if the caller owns the object (or is root), else -EPERM. */
int decide_owner(struct request *, struct xlator *, struct inode *);
int decide_open(struct request *, struct xlator *, struct inode *, uint32_t flags);
int decide_setattr(struct request *, struct xlator *, const struct setattr_in *, struct setattr *set);
int decide_getxattr(struct request *, struct xlator *, struct inode *, const char *name);
int decide_setxattr(struct request *, struct xlator *, struct inode *, const char *name); /* and removexattr */
int decide_born(const struct request *); /* what it asks a new object to be born with */
int decide_mknod(const struct request *, mode_t mode, uint64_t rdev);
bool has_privilege(const struct facts *);
bool acl_name(const char *xattr);
/* The mode for an object to be made in the directory: without setgid where the caller isn't in the group it would get. */
int create_mode(struct request *, struct xlator *, struct inode *parent, mode_t mode, uint32_t *result);

/* ---- access-names.c ---- */
int decide_search(struct request *, struct xlator *, const struct loc *);
int decide_enter(struct request *, struct xlator *, const struct loc *);		/* make the name */
int decide_source(struct request *, struct xlator *, struct inode *);			/* give it one more name, wherever */
int decide_link(struct request *, struct xlator *, struct inode *, const struct loc *); /* both */
/* Take it away. *judged: a reference, if it depended on the object (in a sticky directory): that one it must be. -ESTALE: it is another than the
 * request says. */
int decide_remove(struct request *, struct xlator *, const struct loc *, struct inode **judged);
struct renamed {		 /* the same for both names */
	struct inode *from, *to; /* references, or NULL: it did not depend on these */
	bool to_new;		 /* there was nothing, and there must be nothing */
};
int decide_rename(struct request *, struct xlator *, const struct rename_in *, struct renamed *);
bool readable(const struct file *);
bool writable(const struct file *);

/* ---- access.c, for the steps of compound too ---- */
bool must_drop_privilege(struct request *, struct xlator *, struct inode *);
int drop_setgid(struct request *, struct xlator *, struct inode *, const char *xattr);
bool changes_facts(uint32_t valid); /* of a setattr */
void hide_names(const struct request *,
		struct blob *names); /* those that the caller couldn't read because of their kind, of a list of xattrs */

/* ---- access-compound.c ---- */
int access_compound(struct request *, struct xlator *, const struct compound_in *, struct compound_out *);
#endif
