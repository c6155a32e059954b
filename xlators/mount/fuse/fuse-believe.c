/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel may believe without asking, where a translator below says that nobody else changes it (believe_ms): names, attributes,
 * that there is no ACL.
 *
 * It is taken back by two notifications: one ends the belief in all names, of all directories; one that in the attributes of an inode. A
 * LOOKUP that is under way when they come is covered, for the kernel notes when it was asked; so are the attributes of an inode that
 * it has already. Those of an inode that is new to it are not: so the name by which they are reached is looked up again, if they may be on
 * their way. Where that is of no use (listings, whose names count as new when they are taken in; files that are made and opened at once,
 * whose attributes are looked at without a name) the translator below waits a moment before it says that all is over.
 *
 * Below a name that it believes the kernel does not ask whether the caller may search the directory. So names are believed only where
 * everybody may. */
#include "fuse-internal.h"

enum { SEARCH_BITS = 0111, READ_BITS = 0444, BELIEVE_MOST_MS = 2000, TELL_AGAIN_MS = 400 };
#define ON_ITS_WAY_NS 2000000000ul /* an answer is taken in within that time */

/* Not while an older graph has requests: what they change from here the translators of this one don't see. */
static bool may_believe(const struct ask *a)
{
	return a->mount->believes && ask_options(a)->believe && atomic_load(&a->mount->older_graphs) == 0;
}

uint64_t ask_moment(const struct ask *a)
{
	return may_believe(a) ? moment_now(ask_child(a)) : 0;
}

static uint64_t vouched_ms(const struct ask *a, struct inode *inode, enum believe what, uint64_t since)
{
	return may_believe(a) ? believe_ms(ask_child(a), inode, what, since) : 0;
}

bool believed(const struct ask *a, struct inode *inode, enum believe what, uint64_t since)
{
	return vouched_ms(a, inode, what, since) > 0;
}

enum { SIZE_IS_NOTED = 1 }; /* no moment is that early */

/* One at a time. Of two sizes of one moment both hold, and are the same, or none does. */
static void note_size(struct node_state *s, uint64_t size, uint64_t since)
{
	unsigned long before = atomic_load(&s->sized);
	if (before == SIZE_IS_NOTED || !atomic_compare_exchange_strong(&s->sized, &before, SIZE_IS_NOTED))
		return;
	atomic_store(&s->size, size);
	atomic_store(&s->sized, since);
}

/* Of what attributes tell. */
static struct node_state *learn(struct ask *a, struct inode *inode, const struct attr *attr, uint64_t since)
{
	struct node_state *s = since ? node_state_make(a->mount, inode) : NULL;
	bool plain = attr->flags & ATTR_NO_ACL;
	if (!s)
		return NULL;
	atomic_store(&s->plain, plain ? since : 0);
	atomic_store(&s->searchable, plain && (attr->mode & SEARCH_BITS) == SEARCH_BITS ? since : 0);
	atomic_store(&s->readable, plain && (attr->mode & READ_BITS) == READ_BITS ? since : 0);
	atomic_store(&s->asked, since);
	if (S_ISREG(attr->mode))
		note_size(s, attr->size, since);
	return s;
}

/* The brick is asked once, and again when somebody may have changed it. */
static bool searchable(struct ask *a, struct inode *directory)
{
	struct node_state *s = node_state_make(a->mount, directory);
	struct getattr_in in = { .inode = directory };
	struct getattr_out out = { 0 };
	uint64_t since = ask_moment(a);
	if (!s)
		return false;
	if (!believed(a, directory, BELIEVE_META, atomic_load(&s->asked))) {
		if (getattr_on(&a->rq, ask_child(a), &in, &out) != 0)
			return false;
		learn(a, directory, &out.attr, since);
	}
	return believe_searchable(a, directory);
}

/* Names of it may have been told. */
static bool was_searchable(struct mount *m, struct inode *directory)
{
	struct node_state *s = node_state(m, directory);
	return s && atomic_load(&s->searchable) != 0;
}

/* That nobody believes more of it from now on is seen to by believe_ms. */
void search_denied(struct ask *a, struct inode *directory)
{
	if (a->mount->believes && S_ISDIR(directory->type) && was_searchable(a->mount, directory))
		notify_names(a->device);
}

void mode_set(struct ask *a, struct inode *inode, mode_t mode)
{
	if ((mode & SEARCH_BITS) != SEARCH_BITS)
		search_denied(a, inode);
}

void name_moved(struct ask *a, struct inode *from, struct inode *to)
{
	if (from == to || believe_searchable(a, to))
		return;
	search_denied(a, from);
}

static void tell(uint64_t *seconds, uint32_t *ns, uint64_t ms)
{
	if (*seconds * 1000 + *ns / 1000000 >= ms)
		return;
	*seconds = ms / 1000;
	*ns = ms % 1000 * 1000000;
}

static enum believe as_attributes(const struct ask *a)
{
	bool late = a->head.opcode == FUSE_CREATE || a->head.opcode == FUSE_READDIRPLUS;
	return late ? BELIEVE_ATTR_LATE : BELIEVE_ATTR;
}

/* Not of directories: a process may be in one, and look at it without a name. Not of what has other names, through which it may be
 * changed. Nor of what runs as another user: a write takes that away at the brick, and the kernel, which leaves that to it, would not look again. */
static void believe_attributes(struct ask *a, struct fuse_entry_out *out, struct inode *inode, const struct attr *attr,
			       struct node_state *s, uint64_t since)
{
	unsigned long count = atomic_load(&a->mount->disbelieved);
	bool may = s && !S_ISDIR(attr->mode) && attr->nlink == 1 && !(attr->mode & (S_ISUID | S_ISGID));
	if (may) { /* before it is asked whether they hold */
		atomic_store(&s->told_ns, clock_ns());
		if (atomic_load(&inode->nlookup) == 0)
			atomic_store(&s->new_ns, clock_ns());
	}
	uint64_t ms = may ? vouched_ms(a, inode, as_attributes(a), since) : 0;
	if (s) {
		atomic_store(&s->told, ms ? since : 0);
		atomic_store(&s->told_count, count);
	}
	tell(&out->attr_valid, &out->attr_valid_nsec, ms < BELIEVE_MOST_MS ? ms : BELIEVE_MOST_MS);
}

void believe_listed(struct ask *a, struct fuse_entry_out *out, struct inode *inode, const struct attr *attr, uint64_t since,
		    uint64_t ms)
{
	struct node_state *s = learn(a, inode, attr, since);
	believe_attributes(a, out, inode, attr, s, since);
	tell(&out->entry_valid, &out->entry_valid_nsec, ms);
}

bool believe_worth(struct ask *a, struct inode *inode, const struct attr *attr, uint64_t since)
{
	const struct node_state *s = node_state(a->mount, inode);
	if (!s || S_ISDIR(attr->mode) || attr->nlink != 1)
		return false;
	bool told = atomic_load(&s->told) && atomic_load(&s->told_count) == atomic_load(&a->mount->disbelieved);
	if (told && atomic_load(&inode->nlookup) > 0 && clock_ns() < atomic_load(&s->told_ns) + TELL_AGAIN_MS * 1000000ul)
		return false;
	return believed(a, inode, BELIEVE_ATTR, since);
}

/* What may take a round trip comes first: what is to be believed is told at once when it is known to hold. */
void believe_entry(struct ask *a, struct fuse_entry_out *out, const struct loc *loc, struct inode *inode,
		   const struct attr *attr, uint64_t since)
{
	struct inode *directory = loc->parent;
	uint64_t asked = a->asked ? a->asked : since;
	struct node_state *s = inode && attr ? learn(a, inode, attr, asked) : NULL;
	bool names = believed(a, directory, BELIEVE_NAME, since) && searchable(a, directory);
	uint64_t ms = vouched_ms(a, directory, BELIEVE_NAME, since);
	if (!ms)
		return;
	if (inode && attr)
		believe_attributes(a, out, inode, attr, s, asked);
	if (names && inode && attr && !a->asked) /* else it is known already */
		known_attr(a, directory, loc->name, inode, attr, since);
	if (names)
		tell(&out->entry_valid, &out->entry_valid_nsec, ms);
}

void believe_made(struct ask *a, const struct loc *loc, struct inode *inode, const struct attr *attr, uint64_t moment)
{
	if (!moment || !believed(a, loc->parent, BELIEVE_NAME, moment) || !believe_searchable(a, loc->parent))
		return;
	learn(a, inode, attr, moment);
	known_made(a, loc, inode, attr, moment);
}

uint64_t believe_listing(struct ask *a, struct inode *directory, uint64_t since)
{
	return since && searchable(a, directory) ? vouched_ms(a, directory, BELIEVE_NAMES, since) : 0;
}

bool believe_plain(struct ask *a, struct inode *inode)
{
	struct node_state *s = node_state(a->mount, inode);
	return s && believed(a, inode, BELIEVE_META, atomic_load(&s->plain));
}

bool believe_told(const struct ask *a, struct inode *inode)
{
	struct node_state *s = node_state(a->mount, inode);
	return s && atomic_load(&s->told_count) == atomic_load(&a->mount->disbelieved) &&
	       believed(a, inode, BELIEVE_ATTR, atomic_load(&s->told));
}

bool believe_searchable(struct ask *a, struct inode *directory)
{
	struct node_state *s = node_state(a->mount, directory);
	return s && believed(a, directory, BELIEVE_META, atomic_load(&s->searchable));
}

bool believe_readable(struct ask *a, struct inode *inode)
{
	struct node_state *s = node_state(a->mount, inode);
	return s && believed(a, inode, BELIEVE_META, atomic_load(&s->readable));
}

/* Who reads to the end reads once more, to hear that it is the end. A size changes by what is done to the file itself, so it holds, other than what the kernel is told of attributes,
 * whatever becomes of its names. */
bool believe_end(struct ask *a, struct inode *inode, uint64_t offset)
{
	struct node_state *s = node_state(a->mount, inode);
	uint64_t since = s ? atomic_load(&s->sized) : 0;
	if (since <= SIZE_IS_NOTED || offset < atomic_load(&s->size) || atomic_load(&s->sized) != since)
		return false;
	return ask_moment(a) && believed(a, inode, BELIEVE_ATTR, since);
}

static bool told_lately(struct mount *m, struct inode *inode)
{
	struct node_state *s = node_state(m, inode);
	uint64_t told_ns = s ? atomic_load(&s->told_ns) : 0;
	return told_ns && clock_ns() < told_ns + BELIEVE_MOST_MS * 1000000ul + ON_ITS_WAY_NS;
}

/* Attributes of open files are looked at without a name. The lock keeps the inodes. */
static void disbelieve_open(struct mount *m)
{
	pthread_mutex_lock(&m->handles_lock);
	for (const struct handle *h = m->handles; h; h = h->next)
		if (told_lately(m, h->file->inode))
			notify_attributes(m->device, node_id(m, h->file->inode));
	pthread_mutex_unlock(&m->handles_lock);
}

/* Perhaps the kernel was told of it, and has not got it yet. */
static bool on_its_way(struct mount *m, struct inode *inode)
{
	struct node_state *s = node_state(m, inode);
	uint64_t new_ns = s ? atomic_load(&s->new_ns) : 0;
	return new_ns && clock_ns() < new_ns + ON_ITS_WAY_NS;
}

/* All that is kept, and not only doubted. */
void forget_all(struct mount *m)
{
	keep_forget(m, NULL);
	known_forget(m);
	names_forget(m);
	listings_forget(m);
}

void disbelieve(struct mount *m, struct inode *inode)
{
	bool file = inode && !S_ISDIR(inode->type);
	if (!m->believes || atomic_load(&m->gone))
		return;
	atomic_fetch_add(&m->disbelieved, 1);
	if (!inode || file)
		keep_forget(m, inode);
	if (inode && (inode == m->root || atomic_load(&inode->nlookup) > 0))
		notify_attributes(m->device, node_id(m, inode));
	if (!file || on_its_way(m, inode))
		notify_names(m->device);
	if (!file)
		disbelieve_open(m);
}
