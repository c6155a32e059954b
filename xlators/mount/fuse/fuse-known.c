/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of files that were looked at lately: attributes, and the contents of small ones. Compilers and interpreters ask for the same headers
 * and modules time and again; as long as a translator below vouches that nobody has changed them (believe_ms), they are answered here.
 *
 * All that is known of a file is as of one moment, `since`. What the mount itself changes ends it, as it ends any belief; only of plain writes that go
 * one after the other the content is changed here, too, and is as of the moment after the write: nobody else changed it between the two if whoever vouches did so all
 * along (`taught`), and nothing else was changed from here (`recasts`): no other write was under way at any time of it, whether followed or not, for each is counted
 * with the inode before it is looked what is known, until it is done (node_state.writing, .writes).
 *
 * Attributes change through names, too: so they hold as long as the directory's names do, and no name was taken away, or added, through this mount. The time of access is that of
 * when they were asked for; what is read here does not change it. */
#include <sys/stat.h>

#include "fuse-internal.h"

enum { CONTENT_MAX = 64 * 1024, CONTENTS_MAX = 4 << 20, UNUSED_MS = 2000 };

static struct known *slot_of(struct mount *m, const struct gfid *gfid)
{
	return &m->knowledge.file[gfid_hash(gfid) % KNOWN_FILES];
}

/* With the lock held. */
static void content_drop(struct knowledge *all, struct known *k)
{
	all->content -= k->content ? k->attr.size : 0;
	buffer_unref(k->content);
	k->content = NULL;
}

static void known_drop(struct knowledge *all, struct known *k)
{
	content_drop(all, k);
	*k = (struct known){ 0 };
}

/* Takes the buffer over. */
static void content_set(struct knowledge *all, struct known *k, struct buffer *content, size_t size)
{
	content_drop(all, k);
	k->attr.size = size;
	k->content = content;
	all->content += content ? size : 0;
}

/* With a reference on the content; .since is 0 if nothing is known. */
static struct known known_copy(struct ask *a, const struct inode *inode)
{
	struct knowledge *all = &a->mount->knowledge;
	struct known copy = { 0 };
	pthread_mutex_lock(&all->lock);
	struct known *k = slot_of(a->mount, &inode->gfid);
	if (k->since && gfid_equal(&k->gfid, &inode->gfid)) {
		k->used_ns = clock_ns();
		copy = *k;
		if (copy.content)
			buffer_ref(copy.content);
	}
	pthread_mutex_unlock(&all->lock);
	return copy;
}

static struct gfid *by_name(struct mount *m, const struct gfid *directory, const char *name)
{
	uint64_t hash = gfid_hash(directory);
	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) *
		       0x100000001b3; /* FNV-1a; who has another's hash takes its place, no more */
	return &m->knowledge.by_name[hash % KNOWN_FILES];
}

static bool unchanged(struct ask *a, struct inode *inode, const struct known *k)
{
	return k->since && believed(a, inode, BELIEVE_ATTR, k->since) &&
	       (k->taught == k->since || believed(a, inode, BELIEVE_NAME, k->taught));
}

static bool still_named(struct ask *a, const struct known *k)
{
	cleanup_inode struct inode *directory = inode_find(a->mount->root->table, &k->directory);
	return directory && k->renames == atomic_load(&a->mount->knowledge.renames) &&
	       believed(a, directory, BELIEVE_NAME, k->named);
}

/* ---- attributes ---- */

static void store(struct ask *a, struct inode *inode, const struct known *new)
{
	struct knowledge *all = &a->mount->knowledge;
	struct known old = known_copy(a, inode);
	bool same = unchanged(a, inode, &old);
	pthread_mutex_lock(&all->lock);
	struct known *k = slot_of(a->mount, &inode->gfid);
	bool keep = same && k->since == old.since && k->content == old.content && gfid_equal(&k->gfid, &inode->gfid) &&
		    !k->writing && new->since >= old.since &&new->attr.size == old.attr.size;
	if (!gfid_equal(&k->gfid, &inode->gfid) || k->since <= new->since) {
		known_drop(all, k);
		*k = *new;
		if (keep && old.content)
			content_set(all, k, buffer_ref(old.content), old.attr.size);
		if (k->name[0])
			*by_name(a->mount, &k->directory, k->name) = k->gfid;
	}
	pthread_mutex_unlock(&all->lock);
	buffer_unref(old.content);
}

/* Not of what has other names, through which it may be changed. */
static bool of_one_name(const struct attr *attr)
{
	return S_ISDIR(attr->mode) || (S_ISREG(attr->mode) && attr->nlink == 1);
}

static void known_found(struct ask *a, struct inode *directory, const char *name, struct inode *inode, const struct attr *attr,
			uint64_t since, bool made)
{
	struct known k = { .gfid = inode->gfid,
			   .since = since,
			   .taught = since,
			   .unasked = made,
			   .attr = *attr,
			   .directory = directory->gfid,
			   .named = since,
			   .renames = a->renames,
			   .used_ns = clock_ns() };
	if (strlen(name) < sizeof(k.name))
		strcpy(k.name, name);
	if (since && of_one_name(attr))
		store(a, inode, &k);
}

void known_attr(struct ask *a, struct inode *directory, const char *name, struct inode *inode, const struct attr *attr,
		uint64_t since)
{
	known_found(a, directory, name, inode, attr, since, false);
}

void known_made(struct ask *a, const struct loc *loc, struct inode *inode, const struct attr *attr, uint64_t since)
{
	known_found(a, loc->parent, loc->name, inode, attr, since, true);
}

void known_again(struct ask *a, struct inode *inode, const struct attr *attr, uint64_t since)
{
	struct known k = known_copy(a, inode);
	buffer_unref(k.content);
	if (!since || !k.since || k.renames != a->renames || k.writing || !of_one_name(attr))
		return;
	k.since = k.taught = since;
	k.attr = *attr;
	k.size_only = k.unasked = false;
	k.content = NULL;
	store(a, inode, &k);
}

static bool after(struct time a, struct time b)
{
	return a.sec > b.sec || (a.sec == b.sec && a.nsec > b.nsec);
}

/* By the rule of relatime: the next read changes it. Others read, too, and are not seen. In an empty file there is nothing to read. */
static bool access_pending(const struct attr *attr)
{
	return S_ISREG(attr->mode) && attr->size > 0 && !(after(attr->atime, attr->mtime) && after(attr->atime, attr->ctime));
}

/* Who looks at what he has just made may be one that reads between his writes, as assemblers do; others only write. Reads of what was kept of these the brick
 * would not hear of, so it would be asked for their time of access again and again. */
static void asked(struct mount *m, const struct known *copy)
{
	struct knowledge *all = &m->knowledge;
	pthread_mutex_lock(&all->lock);
	struct known *k = slot_of(m, &copy->gfid);
	if (k->since == copy->since && gfid_equal(&k->gfid, &copy->gfid))
		k->unasked = false;
	pthread_mutex_unlock(&all->lock);
}

bool known_getattr(struct ask *a, struct inode *inode, struct attr *attr)
{
	struct known k = known_copy(a, inode);
	buffer_unref(k.content);
	if (!k.since || k.size_only || access_pending(&k.attr) || !still_named(a, &k) || !unchanged(a, inode, &k))
		return false;
	if (k.unasked)
		asked(a->mount, &k);
	atomic_fetch_add(&a->mount->knowledge.looks, 1);
	*attr = k.attr;
	return true;
}

/* Each is told as of its own moment: the name may have been found long before its attributes were asked for anew. */
struct inode *known_lookup(struct ask *a, struct inode *directory, const char *name, struct attr *attr, uint64_t *since)
{
	struct knowledge *all = &a->mount->knowledge;
	pthread_mutex_lock(&all->lock);
	struct gfid gfid = *by_name(a->mount, &directory->gfid, name);
	pthread_mutex_unlock(&all->lock);
	cleanup_inode struct inode *inode = inode_find(directory->table, &gfid);
	struct known k = { 0 };
	if (inode)
		k = known_copy(a, inode);
	buffer_unref(k.content);
	if (!k.since || !gfid_equal(&k.directory, &directory->gfid) || strcmp(k.name, name) != 0 || k.size_only ||
	    access_pending(&k.attr) || !believe_searchable(a, directory) || !still_named(a, &k) || !unchanged(a, inode, &k))
		return NULL;
	atomic_fetch_add(&all->names, 1);
	*attr = k.attr;
	if (k.unasked)
		asked(a->mount, &k);
	*since = k.named;
	a->asked = k.since;
	return inode_ref(inode);
}

/* ---- contents ---- */

struct buffer *known_read(struct ask *a, struct inode *inode, uint64_t offset, uint32_t size)
{
	struct known k = known_copy(a, inode);
	struct buffer *part = NULL;
	if (k.content && offset <= k.attr.size && unchanged(a, inode, &k)) {
		uint64_t rest = k.attr.size - offset;
		part = buffer_slice(k.content, offset, rest < size ? rest : size);
	}
	buffer_unref(k.content);
	if (part)
		atomic_fetch_add(&a->mount->knowledge.reads, 1);
	return part;
}

/* A write that waits somewhere below is not seen by who vouches, so what is read beside it is not kept. */
struct reading known_reading(struct ask *a, struct inode *inode, uint64_t offset, uint32_t size)
{
	struct node_state *s = node_state(a->mount, inode);
	struct reading none = { 0 }, r = { .writes = s ? atomic_load(&s->writes) : 0 };
	if (!s || atomic_load(&s->writing))
		return none;
	struct known k = known_copy(a, inode);
	bool all = offset == 0 && k.attr.size > 0 && k.attr.size <= size && k.attr.size <= CONTENT_MAX;
	buffer_unref(k.content);
	r.since = k.since;
	return all && !k.content && unchanged(a, inode, &k) ? r : none;
}

void known_content(struct ask *a, struct inode *inode, const struct reading *r, const void *bytes, size_t size)
{
	struct knowledge *all = &a->mount->knowledge;
	struct node_state *s = node_state(a->mount, inode);
	struct known now = known_copy(a, inode);
	uint64_t since = r->since;
	bool good = now.since == since && now.attr.size == size && !now.content && unchanged(a, inode, &now);
	struct buffer *content = good ? buffer_from(bytes, size) : NULL;
	buffer_unref(now.content);
	if (!content)
		return;
	pthread_mutex_lock(&all->lock);
	struct known *k = slot_of(a->mount, &inode->gfid);
	good = k->since == since && gfid_equal(&k->gfid, &inode->gfid) && !k->content && !k->writing &&
	       atomic_load(&s->writes) == r->writes && all->content + size <= CONTENTS_MAX;
	if (good)
		content_set(all, k, buffer_ref(content), size);
	pthread_mutex_unlock(&all->lock);
	buffer_unref(content);
	if (good)
		keep_sweep(a->mount);
}

/* ---- what is written ---- */

void known_recast_begins(struct mount *m, bool does)
{
	if (!does)
		return;
	atomic_fetch_add(&m->knowledge.recasting, 1);
	atomic_fetch_add(&m->knowledge.recasts, 1);
}

void known_recast_ends(struct mount *m, bool does)
{
	if (does)
		atomic_fetch_sub(&m->knowledge.recasting, 1);
}

void known_rename(struct mount *m)
{
	atomic_fetch_add(&m->knowledge.renames, 1);
}

static bool can_follow(const struct known *k, const struct write_in *in)
{
	return !k->unasked && (k->content || k->attr.size == 0) && !(in->flags & WRITE_APPEND) && in->offset <= CONTENT_MAX &&
	       in->offset + in->data->size <= CONTENT_MAX && in->data->size > 0;
}

/* What is looked at first is what has the last word: each change that begins later is seen in it. */
static struct known copy_to_follow(struct ask *a, struct inode *inode)
{
	struct knowledge *all = &a->mount->knowledge;
	struct node_state *s = node_state(a->mount, inode);
	unsigned others = atomic_fetch_add(&s->writing, 1);
	unsigned long number = atomic_fetch_add(&s->writes, 1) + 1;
	unsigned long recasts = atomic_load(&all->recasts);
	bool alone = !others && atomic_load(&all->recasting) == 0;
	struct known old = known_copy(a, inode);
	old.recasts = recasts;
	old.number = number;
	if (!alone || !unchanged(a, inode, &old))
		old.since = 0;
	return old;
}

struct known known_write_begins(struct ask *a, const struct write_in *in)
{
	struct knowledge *all = &a->mount->knowledge;
	struct inode *inode = in->file->inode;
	struct known old = copy_to_follow(a, inode);
	bool follow = old.since && can_follow(&old, in);
	pthread_mutex_lock(&all->lock);
	struct known *k = slot_of(a->mount, &inode->gfid);
	bool known = k->since && gfid_equal(&k->gfid, &inode->gfid);
	follow &= known && k->since == old.since && !k->writing;
	if (follow)
		k->writing = old.writing = ++all->writes;
	else if (known)
		known_drop(all, k);
	pthread_mutex_unlock(&all->lock);
	if (follow)
		return old;
	buffer_unref(old.content);
	return (struct known){ 0 };
}

/* A new buffer: who reads the old one at this moment has it whole. */
static struct buffer *with_write(const struct known *old, const struct write_in *in, size_t *size)
{
	size_t end = in->offset + in->data->size;
	*size = end > old->attr.size ? end : old->attr.size;
	struct buffer *new = buffer_create(*size);
	if (!new)
		return NULL;
	size_t before, written;
	const void *from = old->content ? buffer_bytes(old->content, &before) : NULL;
	char *to = buffer_bytes(new, &written);
	memset(to, 0, *size);
	if (from)
		memcpy(to, from, old->attr.size);
	const void *data = buffer_bytes(in->data, &written);
	memcpy(to + in->offset, data, written);
	return new;
}

static void follow(struct ask *a, struct known *old, const struct write_in *in, uint32_t written)
{
	struct knowledge *all = &a->mount->knowledge;
	struct inode *inode = in->file->inode;
	uint64_t since = ask_moment(a);
	size_t size = 0;
	bool good = since && written == in->data->size && believed(a, inode, BELIEVE_NAME, old->taught) &&
		    atomic_load(&all->recasting) == 0 && atomic_load(&all->recasts) == old->recasts &&
		    atomic_load(&node_state(a->mount, inode)->writes) == old->number;
	struct buffer *content = good ? with_write(old, in, &size) : NULL;
	pthread_mutex_lock(&all->lock);
	struct known *k = slot_of(a->mount, &inode->gfid);
	bool mine = k->writing == old->writing && gfid_equal(&k->gfid, &inode->gfid);
	if (mine && (!content || all->content + size > CONTENTS_MAX)) {
		known_drop(all, k);
	} else if (mine) {
		content_set(all, k, buffer_ref(content), size);
		k->since = since;
		k->size_only = true;
		k->writing = 0;
	}
	pthread_mutex_unlock(&all->lock);
	buffer_unref(content);
	buffer_unref(old->content);
	if (mine && content)
		keep_sweep(a->mount);
}

void known_written(struct ask *a, struct known *old, const struct write_in *in, uint32_t written)
{
	if (old->since)
		follow(a, old, in, written);
	atomic_fetch_sub(&node_state(a->mount, in->file->inode)->writing, 1);
}

/* ---- the end ---- */

bool known_sweep(struct mount *m)
{
	struct knowledge *all = &m->knowledge;
	uint64_t now = clock_ns();
	pthread_mutex_lock(&all->lock);
	for (unsigned i = 0; i < KNOWN_FILES && all->content; i++)
		if (all->file[i].content && now > all->file[i].used_ns + UNUSED_MS * 1000000ul && !all->file[i].writing)
			known_drop(all, &all->file[i]);
	bool left = all->content > 0;
	pthread_mutex_unlock(&all->lock);
	return left;
}

void known_forget(struct mount *m)
{
	struct knowledge *all = &m->knowledge;
	pthread_mutex_lock(&all->lock);
	for (unsigned i = 0; all->file && i < KNOWN_FILES; i++)
		known_drop(all, &all->file[i]);
	pthread_mutex_unlock(&all->lock);
}

void known_end(struct mount *m)
{
	known_forget(m);
	free(m->knowledge.file);
	free(m->knowledge.by_name);
	m->knowledge.file = NULL;
	m->knowledge.by_name = NULL;
}
