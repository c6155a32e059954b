/* SPDX-License-Identifier: Apache-2.0 */
/* Inodes and open files as the kernel numbers them: a node id is an inode's address, a file handle a handle's. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "fuse-internal.h"

/* What stat(2) recommends as a buffer: each read or write is a round trip, so programs that use stdio shall make few. */
enum { BLOCK_SIZE = 128 * 1024 };

struct inode *node(const struct mount *m, uint64_t nodeid)
{
	return nodeid == FUSE_ROOT_ID ? m->root : (struct inode *)(uintptr_t)nodeid;
}

uint64_t node_id(const struct mount *m, const struct inode *inode)
{
	return inode == m->root ? FUSE_ROOT_ID : (uintptr_t)inode;
}

/* One reference stands for all that the kernel was told; it comes with the first and goes with the last. */
void node_remember(struct mount *m, struct inode *inode)
{
	if (inode == m->root || atomic_fetch_add(&inode->nlookup, 1) > 0)
		return;
	inode_ref(inode);
	atomic_fetch_add(&m->known, 1);
}

void node_forget(struct mount *m, struct inode *inode, uint64_t nlookup)
{
	struct node_state *s = node_state(m, inode);
	if (inode == m->root || nlookup == 0)
		return;
	if (s && atomic_load(&inode->nlookup) != nlookup) /* it had let go of it when it was told of it anew */
		atomic_store(&s->new_ns, clock_ns());
	if (atomic_fetch_sub(&inode->nlookup, nlookup) != nlookup)
		return;
	atomic_fetch_sub(&m->known, 1);
	keep_forget(m, inode);
	inode_unref(inode);
}

static void forget_all_of(struct inode *inode, void *arg)
{
	node_forget(arg, inode, atomic_load(&inode->nlookup));
}

void nodes_forget_all(struct mount *m, struct inode_table *inodes)
{
	inode_table_each(inodes, forget_all_of, m);
}

/* What the mount, not one of its graphs, knows of an inode. Made when it is first needed, freed by forget_inode (fuse.c). */
struct node_state *node_state_make(struct mount *m, struct inode *inode)
{
	struct node_state *s = inode_slot(inode, &m->anchor);
	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	int err = s ? inode_slot_set(inode, &m->anchor, s) : -ENOMEM;
	if (!err)
		return s;
	free(s);
	return err == -EEXIST ? inode_slot(inode, &m->anchor) : NULL;
}

struct node_state *node_state(struct mount *m, struct inode *inode)
{
	return inode_slot(inode, &m->anchor);
}

struct handle *handle_create(struct mount *m, struct file *file)
{
	struct handle *h = calloc(1, sizeof(*h));
	struct node_state *s = h ? node_state_make(m, file->inode) : NULL;
	if (!s) {
		free(h);
		file_unref(file);
		return NULL;
	}
	h->file = file;
	atomic_fetch_add(&s->opens, 1);
	pthread_mutex_lock(&m->handles_lock);
	h->next = m->handles;
	if (h->next)
		h->next->prev = h;
	m->handles = h;
	pthread_mutex_unlock(&m->handles_lock);
	return h;
}

bool opened_to_write(struct mount *m, const struct inode *inode)
{
	bool yes = false;

	pthread_mutex_lock(&m->handles_lock);
	for (const struct handle *h = m->handles; h && !yes; h = h->next)
		yes = h->file->inode == inode && (h->file->flags & O_ACCMODE) != O_RDONLY;
	pthread_mutex_unlock(&m->handles_lock);
	return yes;
}

void handle_destroy(struct mount *m, struct handle *h)
{
	pthread_mutex_lock(&m->handles_lock);
	*(h->prev ? &h->prev->next : &m->handles) = h->next;
	if (h->next)
		h->next->prev = h->prev;
	pthread_mutex_unlock(&m->handles_lock);
	listing_let_go(m, h);
	atomic_fetch_sub(&node_state(m, h->file->inode)->opens, 1);
	file_unref(h->file);
	free(h);
}

void attr_fill(struct fuse_attr *to, const struct attr *from)
{
	*to = (struct fuse_attr){
		.ino = gfid_ino(&from->gfid),
		.size = from->size,
		.blocks = from->blocks,
		.atime = from->atime.sec,
		.mtime = from->mtime.sec,
		.ctime = from->ctime.sec,
		.atimensec = from->atime.nsec,
		.mtimensec = from->mtime.nsec,
		.ctimensec = from->ctime.nsec,
		.mode = from->mode,
		.nlink = from->nlink,
		.uid = from->uid,
		.gid = from->gid,
		.rdev = from->rdev,
		.blksize = S_ISREG(from->mode) ? BLOCK_SIZE : from->blksize,
	};
}

void statx_fill(struct fuse_statx *to, const struct attr *from)
{
	struct fuse_attr same;
	bool birth = from->btime.sec || from->btime.nsec; /* else whoever told the attributes does not know it */

	attr_fill(&same, from);
	*to = (struct fuse_statx){
		.mask = STATX_BASIC_STATS | (birth ? STATX_BTIME : 0),
		.blksize = same.blksize,
		.nlink = same.nlink,
		.uid = same.uid,
		.gid = same.gid,
		.mode = same.mode,
		.ino = same.ino,
		.size = same.size,
		.blocks = same.blocks,
		.atime = { same.atime, same.atimensec },
		.btime = { from->btime.sec, from->btime.nsec },
		.ctime = { same.ctime, same.ctimensec },
		.mtime = { same.mtime, same.mtimensec },
		.rdev_major = major(from->rdev),
		.rdev_minor = minor(from->rdev),
	};
}

/* What a LOOKUP tells is good for the stat(2) that it belongs to: without it the kernel would ask for the attributes again at
 * once. The kernel counts in ticks, so "1 ns" lasts for one or two. In that time nobody may see attributes that another client
 * has changed, so it is given only where each look is a LOOKUP again: not to open files (opening one takes it back), and not to
 * directories (a process may be in it), not with a name that is believed, or where another name of it may be. */
void entry_keep_for_now(struct ask *a, struct fuse_entry_out *entry, struct inode *inode)
{
	const struct node_state *s = node_state(a->mount, inode);
	if (entry->entry_valid || entry->entry_valid_nsec || (a->mount->believes && entry->attr.nlink != 1))
		return;
	if (!entry->attr_valid && !entry->attr_valid_nsec && !S_ISDIR(inode->type) && (!s || atomic_load(&s->opens) == 0))
		entry->attr_valid_nsec = 1;
}

void entry_fill(const struct ask *a, struct fuse_entry_out *to, const struct inode *inode, const struct attr *attr)
{
	const struct fuse_private *p = ask_options(a);
	*to = (struct fuse_entry_out){ 0 };
	if (!inode)
		return;
	to->nodeid = node_id(a->mount, inode);
	to->entry_valid = p->entry_timeout_ms / 1000;
	to->entry_valid_nsec = p->entry_timeout_ms % 1000 * 1000000;
	to->attr_valid = p->attribute_timeout_ms / 1000;
	to->attr_valid_nsec = p->attribute_timeout_ms % 1000 * 1000000;
	attr_fill(&to->attr, attr);
}
