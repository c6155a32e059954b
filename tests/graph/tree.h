/* SPDX-License-Identifier: Apache-2.0 */
/* A graph in this process, used by path: for tests that need neither a mount nor a server. */
#ifndef TREE_H
#define TREE_H
#include <sys/types.h>

#include "graph.h"

struct tree {
	struct graph *graph;
	struct xlator *at;	 /* whom to call: the top, unless told otherwise */
	const struct gfid *root; /* where paths begin; NULL: at the graph's root */
	struct gfid admitted;	 /* by tree_become() */
	uid_t uid;
	gid_t gid;
	const gid_t *groups;
	int group_count; /* -1: not known, as when a server was not told */
	struct client *client;
	uint64_t time_ns; /* of the requests */
};

/* Loads and starts the volfile's text as root. -errno and a sentence. Needs a runtime that runs; not from a task. */
int tree_open(struct tree *, const char *volfile, struct problem *);
int tree_open_named(struct tree *, const char *path, const char *volfile, struct problem *); /* problems name it */
void tree_close(struct tree *);
struct xlator *tree_find(struct tree *, const char *volume); /* never NULL: exits with a sentence */

struct bearer;
/* From here on the tree is that client's, as the user `id`, and paths begin at what the translator admits him to. */
int tree_become(struct tree *, struct xlator *admits, struct client *, uint32_t id, struct bearer *);

/* Runs a fop of the tree's user, below. From a task. */
int tree_call(struct tree *, struct xlator *at, enum fop, const void *in, void *out);
/* The inode at the path, by lookups from the root; a reference. */
int tree_walk(struct tree *, const char *path, struct inode **);
/* The parent and the last name. The caller gives back loc->parent. loc->name points into the path. */
int tree_loc(struct tree *, const char *path, struct loc *);

/* What one would do through a mount. All from a task; 0 or -errno. */
int tree_mkdir(struct tree *, const char *path, mode_t mode);
int tree_mknod(struct tree *, const char *path, mode_t mode, dev_t dev);
int tree_symlink(struct tree *, const char *target, const char *path);
int tree_link(struct tree *, const char *old, const char *path);
int tree_unlink(struct tree *, const char *path);
int tree_rmdir(struct tree *, const char *path);
int tree_rename(struct tree *, const char *from, const char *to, unsigned flags);
int tree_create(struct tree *, const char *path, int flags, mode_t mode, struct file **); /* file may be NULL */
int tree_put(struct tree *, const char *path, const char *text);			  /* a new file */
int tree_open_file(struct tree *, const char *path, int flags, struct file **);		  /* file may be NULL */
int tree_opendir(struct tree *, const char *path, struct file **);			  /* file may be NULL */
void tree_release(struct tree *, struct file *);
int tree_getattr(struct tree *, const char *path, struct attr *);
int tree_setattr(struct tree *, const char *path, const struct setattr *);
int tree_access(struct tree *, const char *path, int mask);
int tree_readlink(struct tree *, const char *path, char **target);
int tree_setxattr(struct tree *, const char *path, const char *name, const void *value, size_t size, int flags);
int tree_getxattr(struct tree *, const char *path, const char *name, struct blob *value);
int tree_removexattr(struct tree *, const char *path, const char *name);
int tree_write(struct tree *, struct file *, uint64_t offset, const void *bytes, size_t size);
int tree_read(struct tree *, struct file *, uint64_t offset, size_t size, struct buffer **);
int tree_readdir(struct tree *, struct file *, struct dirents *); /* all of it; fop_out_clear as a readdir_out */
#endif
