/* SPDX-License-Identifier: Apache-2.0 */
/* Where an object is on the brick: the paths that lead to it, each looked at before it is told. */
#include <limits.h>

#include "location.h"
#include "posix.h"

enum { PATHS_MAX = 8192 }; /* bytes of paths, after the first */
struct paths {
	struct xlator *x;
	uint64_t ino;
	struct hold top_hold; /* of the directory that is the root of all for who asks */
	bool has_top;
	struct location *to;
	char top[PATH_MAX], path[PATH_MAX]; /* of that directory; of what is looked at, from there */
	char first[PATH_MAX];		    /* that was told */
	size_t told;			    /* bytes */
};

/* From the directory that is the root of all for who asks, which is "". The kernel knows the way to each directory that is open, and to a file mostly. */
static bool kernel_path(struct paths *p, const struct hold *h)
{
	struct hold_path link;
	ssize_t n = readlink(hold_path(&p->top_hold, &link), p->top, sizeof(p->top));
	ssize_t m = readlink(hold_path(h, &link), p->path, sizeof(p->path) - 1);

	if (n <= 0 || m < n || memcmp(p->path, p->top, (size_t)n))
		return false;
	p->path[m] = '\0';
	if (n == 1) /* the brick is the root of all */
		n = 0;
	memmove(p->path, p->path + n, (size_t)(m - n) + 1);
	return !*p->path || *p->path == '/';
}

static bool leads_there(const struct paths *p)
{
	const char *path = p->path[0] && p->path[1] ? p->path + 1 : ".";
	struct stat st;

	return !fstatat(p->top_hold.fd, path, &st, AT_SYMLINK_NOFOLLOW) && st.st_ino == p->ino;
}

static void tell_path(struct paths *p)
{
	size_t length = strlen(p->path);

	if (!strcmp(p->path, p->first) || (p->told && p->told + length > PATHS_MAX) || !leads_there(p))
		return;
	if (!p->told)
		memcpy(p->first, p->path, length + 1);
	p->told += length + 1;
	location_line(p->to, "path", "%s", length ? p->path : "/");
}

static void tell_link(struct paths *p, const struct hold *h, const struct identity_link *link)
{
	cleanup_inode struct inode *parent = inode_find(p->x->inodes, &link->parent);
	cleanup_hold struct hold directory = HOLD_NONE;
	char name[256];
	size_t length;

	if (!parent || hold_inode(p->x, parent, &directory) || !kernel_path(p, &directory) ||
	    !link_name_whole(p->x, h, p->ino, link, name))
		return;
	length = strlen(p->path) == 1 ? 0 : strlen(p->path);
	if (length + 1 + strlen(name) >= sizeof(p->path))
		return;
	p->path[length] = '/';
	strcpy(p->path + length + 1, name);
	tell_path(p);
}

/* The names in the identity are looked for only where the kernel does not know all: that may read a whole directory. */
static void tell_paths(struct paths *p, const struct hold *h, uint32_t names)
{
	struct identity_link link;
	struct identity identity;

	if (kernel_path(p, h))
		tell_path(p);
	if ((p->told && names == 1) || identity_read(h, &identity))
		return;
	for (size_t at = 0; identity_next(&identity, &at, &link);)
		tell_link(p, h, &link);
}

/* Of a file with several names a user knows the one that he came by, and others may be in directories that he can't search. Where on the
 * server the brick is, is for its administrators. */
static void tell(struct request *rq, struct paths *p, const struct inode *inode, const struct hold *h, const struct statx *st)
{
	uint32_t names = S_ISDIR(st->stx_mode) && st->stx_nlink ? 1 : st->stx_nlink;
	char gfid[GFID_TEXT];

	location_line(p->to, "gfid", "%s", gfid_text(request_gfid(rq, &inode->gfid), gfid));
	location_line(p->to, "names", "%u", names);
	if (!rq->uid && !request_is_tenants(rq))
		location_line(p->to, "directory", "%s", brick_of(p->x)->directory);
	if (p->has_top && (names == 1 || (names && request_is_root(rq))))
		tell_paths(p, h, names);
}

/* No top: nobody has been at the root of who asks for long. Then no path is told. */
static void hold_top(struct request *rq, struct paths *p)
{
	cleanup_inode struct inode *root = request_is_tenants(rq) ? inode_find(p->x->inodes, request_top(rq)) : NULL;

	if (!request_is_tenants(rq))
		p->top_hold = (struct hold){ .fd = brick_of(p->x)->root_fd, .lent = true };
	p->has_top = !request_is_tenants(rq) || (root && !hold_inode(p->x, root, &p->top_hold));
}

/* features/layout asks for directories by gfids that a client says: of what is not below his own root a tenant is told nothing. */
static bool is_hidden(struct request *rq, struct paths *p, const struct inode *inode, const struct hold *h)
{
	return request_is_tenants(rq) && S_ISDIR(inode->type) && (p->has_top ? !kernel_path(p, h) : request_is_confined(rq));
}

static int locate(struct request *rq, struct paths *p, struct inode *inode)
{
	cleanup_hold struct hold h = HOLD_NONE;
	struct statx st;
	int err = hold_inode(p->x, inode, &h);

	if (!err)
		err = hold_stat(&h, &st);
	if (err)
		return err;
	task_blocks();
	hold_top(rq, p);
	p->ino = st.stx_ino;
	if (is_hidden(rq, p, inode, &h))
		err = -ESTALE;
	else
		tell(rq, p, inode, &h, &st);
	hold_end(&p->top_hold);
	return err;
}

int posix_location(struct request *rq, struct xlator *x, struct inode *inode, struct blob *value)
{
	struct location to = { 0 };
	struct paths *p = calloc(1, sizeof(*p));
	int err = p ? 0 : -ENOMEM;

	if (!err) {
		*p = (struct paths){ .x = x, .to = &to, .first = "?", .top_hold = HOLD_NONE };
		err = locate(rq, p, inode);
	}
	free(p);
	return err ? err : location_end(&to, value);
}
