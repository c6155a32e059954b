/* SPDX-License-Identifier: Apache-2.0 */
/* Where objects are: their names, and how they are found by their gfids. */
#include "verbs.h"

#include "location.h"

/* It has no name, and not only none that the leaf can tell (long ones it may not know whole). */
static int has_no_name(struct request *rq, struct member *m, struct inode *inode, bool *none)
{
	struct getattr_in in = { .inode = inode };
	struct getattr_out out = { 0 };
	int err = getattr_on(rq, m->x->child[0], &in, &out);

	*none = !err && !out.attr.nlink;
	return err;
}

static int links_of(struct request *rq, struct member *m, struct inode *inode, struct blob *links)
{
	int err = m->leaf->type->inode_links(m->leaf, inode, links);
	struct unpack u = unpack_blob(links);
	bool none = false;

	if (err || unpack_u32(&u))
		return err;
	err = has_no_name(rq, m, inode, &none);
	return err ? err : none ? 0 : -EXDEV;
}

/* The leaf tells who is confined only where what is below his own directory is: of a directory elsewhere -ESTALE, and no path. */
static int where(struct asked *a, struct inode *inode, struct blob *lines)
{
	struct getxattr_in in = { .inode = inode, .name = LOCATION_XATTR };
	struct getxattr_out out = { 0 };
	int err = getxattr_on(a->rq, a->m->x->child[0], &in, &out);

	if (!err) {
		*lines = out.value;
		out.value = (struct blob){ 0 };
	}
	fop_out_clear(FOP_getxattr, &out);
	return err;
}

static bool has(const struct blob *lines, const char *words)
{
	return lines->size && memmem(lines->bytes, lines->size, words, strlen(words));
}

/* The brick knows a way to it from there, and there is no other: how many names are listed does not say that (IDENTITY_MAX of storage/posix). */
static bool is_all_below(const struct blob *lines)
{
	return has(lines, "\nnames 1\n") && has(lines, "\npath ");
}

/* The directory is below that of the access point by which who asks has come. Of one that nobody has in use here only the object's own path can tell, if this
 * is its one name. */
static bool is_below(struct asked *a, const struct gfid *directory, struct inode *object, uint32_t names)
{
	cleanup_inode struct inode *found = inode_find(a->m->x->inodes, directory);
	struct blob lines = { 0 };
	bool below = (found || names == 1) && !where(a, found ? found : object, &lines) && (found || is_all_below(&lines));

	free(lines.bytes);
	return below;
}

/* What is in the directory that who asks has for a root is for him, and so is what is below it. */
static bool is_for(struct asked *a, const struct gfid *parent, struct inode *object, uint32_t names)
{
	if (gfid_equal(parent, &gfid_limbo) || gfid_equal(parent, &gfid_tenants))
		return false;
	return !request_is_confined(a->rq) || gfid_equal(parent, request_top(a->rq)) ||
	       (!gfid_equal(&object->gfid, request_top(a->rq)) && is_below(a, parent, object, names));
}

/* Of names that are in no directory of the tenant's he is not told: those of his root, and in the limbo; nor one who has a part of his tree of those that are
 * not in that part. 0 or -EXDEV: there are only such. */
static int pack_tenants_links(struct asked *a, struct inode *object, const struct blob *links)
{
	struct unpack u = unpack_blob(links);
	uint32_t count = unpack_u32(&u), told = 0;
	struct pack names = { 0 };

	for (uint32_t i = 0; i < count && !u.failed; i++) {
		struct gfid parent = unpack_gfid(&u);
		uint8_t length = unpack_u8(&u);
		char name[UINT8_MAX];

		unpack_bytes(&u, name, length);
		if (u.failed || !is_for(a, &parent, object, count))
			continue;
		pack_gfid(&names, request_gfid(a->rq, &parent));
		pack_u8(&names, length);
		pack_bytes(&names, name, length);
		told++;
	}
	pack_u32(&a->answer, told);
	pack_bytes(&a->answer, names.bytes, names.size);
	a->answer.failed |= names.failed;
	pack_free(&names);
	return count && !told ? -EXDEV : 0;
}

/* -EXDEV: it has names, but none is told. */
int verb_links(struct asked *a, struct inode *inode)
{
	struct blob links = { 0 };
	int err;

	if (!inode || !a->m->leaf || !a->m->leaf->type->inode_links)
		return -EINVAL;
	err = links_of(a->rq, a->m, inode, &links);
	if (!err && request_is_tenants(a->rq))
		err = pack_tenants_links(a, inode, &links);
	else if (!err)
		pack_bytes(&a->answer, links.bytes, links.size);
	free(links.bytes);
	return err;
}

/* The object, if it is in use here and no name leads to it. -EXDEV: one does. */
int find_nameless(struct request *rq, struct member *m, const struct gfid *g, struct inode **found)
{
	cleanup_inode struct inode *inode = inode_find(m->x->inodes, g);
	struct blob links = { 0 };
	struct unpack u;
	int err;

	if (!inode || !m->leaf->type->inode_links)
		return -ENOENT;
	err = links_of(rq, m, inode, &links);
	u = unpack_blob(&links);
	if (!err && unpack_u32(&u))
		err = -EXDEV;
	free(links.bytes);
	if (!err)
		*found = inode_ref(inode);
	return err == -ESTALE ? -ENOENT : err;
}

/* It has lost its name elsewhere, and will here. Until then it is not lost to those who have it open, but a member that is BACK need not
 * hear of it. */
static int named_yet(struct member *m, const struct gfid *g)
{
	int err = -ERECOVERING;

	pthread_mutex_lock(&m->lock);
	if (member_state(m) == MEMBER_BACK) {
		err = member_add_pending(m, g);
		err = err ? err : -EPENDING;
	}
	pthread_mutex_unlock(&m->lock);
	return err;
}

/* A client that has such an object open elsewhere can't find it here by a name. Whoever knows the gfid had it open, or may. */
int verb_find_unlinked(struct asked *a)
{
	struct gfid g;
	bool dead;
	int err = verb_gfid(a, &g);

	if (err)
		return err == -EINVAL ? -ENOENT : err;
	pthread_mutex_lock(&a->m->lock);
	dead = member_dead(a->m, &g);
	pthread_mutex_unlock(&a->m->lock);
	err = dead ? -ENOENT : find_nameless(a->rq, a->m, &g, &a->out->inode);
	return err == -EXDEV ? named_yet(a->m, &g) : err;
}

/* In memory, or by the handle that the index keeps. */
static int find(struct asked *a, struct inode **found)
{
	struct gfid g;
	uint8_t handle[INDEX_HANDLE_MAX];
	const struct index_entry *e;
	struct member *m = a->m;
	int err = verb_gfid(a, &g);
	size_t size = 0;
	bool dead;

	*found = NULL;
	if (err)
		return err == -EINVAL ? -ENOENT : err;
	pthread_mutex_lock(&m->lock);
	dead = member_dead(m, &g);
	pthread_mutex_unlock(&m->lock);
	*found = dead ? NULL : inode_find(m->x->inodes, &g);
	if (dead || *found)
		return *found ? 0 : -ENOENT;
	pthread_mutex_lock(&m->lock);
	e = index_find(&m->index, &g);
	if (e && e->handle) {
		size = e->handle_size;
		memcpy(handle, e->handle, size);
	}
	pthread_mutex_unlock(&m->lock);
	return size && m->leaf->type->inode_from_handle ? m->leaf->type->inode_from_handle(m->leaf, handle, size, found)
							: -ENOENT;
}

int verb_find(struct asked *a)
{
	int err = find(a, &a->out->inode);

	if (!err)
		err = verb_links(a, a->out->inode);
	if (err == -EXDEV) {
		pack_free(&a->answer);
		pack_u32(&a->answer, 0);
		err = 0;
	}
	if (err) {
		inode_unref(a->out->inode);
		a->out->inode = NULL;
	}
	return err == -ESTALE ? -ENOENT : err;
}

/* A client has it open elsewhere, and others have renamed it. */
int verb_names(struct asked *a)
{
	cleanup_inode struct inode *found = NULL;
	int err = find(a, &found);

	if (!err)
		err = verb_links(a, found);
	return err == -ESTALE ? -ENOENT : err;
}

/* A voucher shows that some member has told him of an object with that gfid: of one that he has made with a gfid that he knew, maybe, or of what was below his
 * directory at a member that had been away. He is given a handle only of what is below it here, and now. */
static int may_be_given(struct asked *a, struct inode *inode)
{
	struct blob lines = { 0 };
	int err = request_is_confined(a->rq) ? where(a, inode, &lines) : 0;

	free(lines.bytes);
	return err == -ESTALE ? -ENOENT : err;
}

/* The way up from what a client has a handle of. */
int verb_find_directory(struct asked *a)
{
	int err = verb_find(a);

	if (err)
		return err;
	err = S_ISDIR(a->out->inode->type) ? may_be_given(a, a->out->inode) : -ENOENT;
	if (!err)
		return 0;
	inode_unref(a->out->inode);
	a->out->inode = NULL;
	return err;
}
