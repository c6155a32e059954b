/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of files: their keys, from the headers. */
#include "crypt.h"

#include "secret.h"

/* ---- keys in locked memory, or where there is none ---- */

enum { PAGE_BYTES = 4096 };
union key_place {
	struct file_key key;
	union key_place *next; /* free */
};
struct key_page {
	struct key_page *next;
	void *bytes;
};

static int add_page(struct crypt *c)
{
	struct key_page *page = malloc(sizeof(*page));
	bool locked = true;
	union key_place *place = page ? secret_alloc_somewhere(PAGE_BYTES, &locked) : NULL;

	if (!place) {
		free(page);
		return -ENOMEM;
	}
	*page = (struct key_page){ c->pages, place };
	c->pages = page;
	c->unlocked += !locked;
	for (size_t i = 0; i < PAGE_BYTES / sizeof(*place); i++) {
		place[i].next = (union key_place *)c->free_key;
		c->free_key = &place[i].key;
	}
	return 0;
}

/* Of two files' keys neither is worth more than the other: so once the limit is reached work goes on. The master keys are locked. */
static void tell_unlocked(void)
{
	log_warning(
		NULL, NULL,
		"there is no more locked memory for the keys of files (RLIMIT_MEMLOCK): further ones may be paged out to swap; "
		"raise the limit (ulimit -l), or encrypt swap");
}

struct file_key *key_take(struct crypt *c)
{
	union key_place *place = NULL;
	bool first;

	pthread_mutex_lock(&c->lock);
	if (c->free_key || !add_page(c)) {
		place = (union key_place *)c->free_key;
		c->free_key = (struct file_key *)place->next;
	}
	first = c->unlocked && !c->told_unlocked;
	c->told_unlocked |= first;
	pthread_mutex_unlock(&c->lock);
	if (first)
		tell_unlocked();
	if (place)
		memset(place, 0, sizeof(*place));
	return (struct file_key *)place;
}

void key_give(struct crypt *c, struct file_key *key)
{
	union key_place *place = (union key_place *)key;

	if (!key)
		return;
	secret_wipe(key, sizeof(*key));
	pthread_mutex_lock(&c->lock);
	place->next = (union key_place *)c->free_key;
	c->free_key = key;
	pthread_mutex_unlock(&c->lock);
}

void keys_free(struct crypt *c)
{
	while (c->pages) {
		struct key_page *page = c->pages;

		c->pages = page->next;
		secret_free(page->bytes, PAGE_BYTES);
		free(page);
	}
	c->free_key = NULL;
}

/* ---- nodes ---- */

static void node_free(struct crypt *c, struct node *n)
{
	free(n->tail);
	key_give(c, n->key);
	for (unsigned i = 0; i < KEYS_BEFORE; i++)
		key_give(c, n->older[i]);
	pthread_mutex_destroy(&n->lock);
	free(n);
}

struct node *node_of(struct xlator *x, struct inode *inode)
{
	struct node *n = inode_slot(inode, x);

	if (n)
		return n;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	pthread_mutex_init(&n->lock, NULL);
	if (!inode_slot_set(inode, x, n))
		return n;
	node_free(crypt_of(x), n);
	return inode_slot(inode, x);
}

void node_forget(struct xlator *x, struct inode *inode, void *slot)
{
	(void)inode;
	node_free(crypt_of(x), slot);
}

static bool same_key(const struct file_key *a, const struct file_key *b)
{
	return a && a->cipher == b->cipher && a->epoch == b->epoch && !memcmp(a->key, b->key, sizeof(a->key));
}

/* Where the key is that was the right one before, or there is room for it. */
static struct file_key **place_before(struct node *n, const struct file_key *key)
{
	for (unsigned i = 0; i < KEYS_BEFORE; i++)
		if (!n->older[i] || same_key(n->older[i], key))
			return &n->older[i];
	return NULL;
}

/* Of the same key only the flags count, and they only rise. *key: what is left over. */
static int adopt(struct node *n, struct file_key **key)
{
	struct file_key **place = place_before(n, *key), *old = n->key;

	if (same_key(n->key, *key)) {
		if ((*key)->flags & HEADER_SPARSE)
			atomic_store(&n->sparse, true);
		return 0;
	}
	if (n->key && !place)
		return -EBADMSG;
	atomic_store(&n->sparse, (*key)->flags & HEADER_SPARSE);
	n->key = old && *place ? *place : *key;
	if (n->key == *key)
		*key = NULL;
	if (old)
		*place = old;
	return 0;
}

int node_set_key(struct crypt *c, struct node *n, struct file_key *key)
{
	int err;

	pthread_mutex_lock(&n->lock);
	err = adopt(n, &key);
	pthread_mutex_unlock(&n->lock);
	key_give(c, key);
	return err;
}

const struct file_key *node_known_key(struct node *n)
{
	const struct file_key *key;

	pthread_mutex_lock(&n->lock);
	key = n->key;
	pthread_mutex_unlock(&n->lock);
	return key;
}

/* ---- who asks ---- */

struct who become_root(struct request *rq)
{
	struct who was = { rq->uid, rq->gid };

	rq->uid = 0;
	rq->gid = 0;
	return was;
}

void become(struct request *rq, struct who who)
{
	rq->uid = who.uid;
	rq->gid = who.gid;
}

/* Once a second for each file. */
static bool may_tell(struct node *n)
{
	if (clock_ns() - atomic_load(&n->told_ns) < 1000000000)
		return false;
	atomic_store(&n->told_ns, clock_ns());
	return true;
}

int tampered(struct op *o, int err)
{
	char gfid[GFID_TEXT];

	if (err == -ENOKEY && may_tell(o->n))
		log_error(
			o->x, o->rq,
			"file %s is of a later master key than %s had when it was unlocked (`stratus key rotate`): mount anew with what it is now",
			gfid_text(&o->inode->gfid, gfid), o->c->key_file);
	if (err != -EBADMSG && err != -EREMOTEIO)
		return err;
	atomic_fetch_add(&o->c->refused, 1);
	if (may_tell(o->n))
		log_error(o->x, o->rq,
			  "file %s, block %llu: %s: the bricks do not have what was written, so it is refused (EIO)",
			  gfid_text(&o->inode->gfid, gfid), (unsigned long long)o->where,
			  o->why ? o->why : "it does not fit its seal");
	return -EIO;
}

/* ---- headers ---- */

static int header_read(struct op *o, struct file_key *key)
{
	struct getxattr_in in = { .inode = o->inode, .name = (char *)HEADER_XATTR };
	struct getxattr_out out = { 0 };
	struct who was = become_root(o->rq);
	int err = getxattr_on(o->rq, o->x->child[0], &in, &out);

	become(o->rq, was);
	o->where = 0;
	if (!err)
		err = header_decode(o->c->keys, &o->inode->gfid, out.value.bytes, out.value.size, key, &o->why);
	else if (err == -ENODATA) {
		o->why = "it has no header";
		err = -EBADMSG;
	}
	fop_out_clear(FOP_getxattr, &out);
	return err;
}

static int header_write(struct op *o, const struct file_key *key)
{
	uint8_t bytes[HEADER_SIZE];
	struct setxattr_in in = { .inode = o->inode, .name = (char *)HEADER_XATTR, .value = { HEADER_SIZE, bytes } };
	struct setxattr_out out = { 0 };
	struct who was;
	int err = header_encode(o->c->keys, key, bytes);

	if (!err)
		err = change_begin(o);
	if (err)
		return err;
	was = become_root(o->rq);
	err = setxattr_on(o->rq, o->x->child[0], &in, &out);
	become(o->rq, was);
	return change_end(o, err);
}

/* A key for the node, which takes it over; as the one that counts. */
static int use_key(struct op *o, struct file_key *fresh, const struct file_key **key)
{
	int err = node_set_key(o->c, o->n, fresh);

	*key = node_known_key(o->n);
	if (err)
		o->why = "its header changes again and again";
	return err;
}

int node_reload(struct op *o, const struct file_key **key)
{
	struct file_key *fresh = key_take(o->c);
	int err = fresh ? header_read(o, fresh) : -ENOMEM;

	if (!err)
		return use_key(o, fresh, key);
	key_give(o->c, fresh);
	return err;
}

int node_key(struct op *o, const struct file_key **key)
{
	*key = node_known_key(o->n);
	return *key ? 0 : node_reload(o, key);
}

static int key_new(struct op *o, const struct file_key **key)
{
	struct file_key *fresh = key_take(o->c);
	int err;

	if (!fresh)
		return -ENOMEM;
	fresh->id = o->inode->gfid;
	fresh->cipher = (uint8_t)(o->c->cipher + 1);
	err = file_key_create(o->c->keys, fresh);
	if (!err)
		err = header_write(o, fresh);
	if (!err)
		return use_key(o, fresh, key);
	key_give(o->c, fresh);
	return err;
}

/* cluster/dht may make a file with another gfid than it was asked for, which its header does not fit then. Such a file gets another one while it
 * is empty, by whichever mount writes it first: so what is known of an empty file's key is looked at again. */
int node_key_or_new(struct op *o, const struct file_key **key)
{
	uint64_t size;
	int err = turn_size(o, &size);

	if (err)
		return err;
	if (!size && !atomic_exchange(&o->n->born, false))
		err = node_reload(o, key);
	else
		err = node_key(o, key);
	return err == -EBADMSG && !size ? key_new(o, key) : err;
}

int node_allow_holes(struct op *o)
{
	const struct file_key *key;
	struct file_key *copy;
	int err = atomic_load(&o->n->sparse) ? 0 : node_key_or_new(o, &key);

	if (err || atomic_load(&o->n->sparse))
		return err;
	copy = key_take(o->c);
	if (!copy)
		return -ENOMEM;
	*copy = *key;
	copy->flags |= HEADER_SPARSE;
	err = header_write(o, copy);
	key_give(o->c, copy);
	if (!err)
		atomic_store(&o->n->sparse, true);
	return err;
}
