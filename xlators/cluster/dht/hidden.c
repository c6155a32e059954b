/* SPDX-License-Identifier: Apache-2.0 */
/* What of a subvolume no mount shows: directories for objects that have their names elsewhere, and for pointers that have no name just now. */
#include "dht.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORK_AT = AWAY_DIRS, DIRS = AWAY_DIRS + WORK_DIRS };
struct hidden { /* of one subvolume; references, NULL: not known yet */
	struct inode *dir[DIRS];
};

/* ---- as whom ---- */

struct who become_root(struct request *rq)
{
	struct who user = { rq->uid, rq->gid, rq->group_count };

	rq->uid = 0;
	rq->gid = 0;
	rq->group_count = 0;
	return user;
}

void become(struct request *rq, struct who who)
{
	rq->uid = who.uid;
	rq->gid = who.gid;
	rq->group_count = who.group_count;
}

/* ---- names ---- */

/* The pointer's first: bricks note long names by their beginnings, and one object may have many anchors. */
const char *anchor_name(const struct aim *aim, char name[HIDDEN_NAME])
{
	char gfid[GFID_TEXT], pgfid[GFID_TEXT];

	if (aim->dir)
		snprintf(name, HIDDEN_NAME, "d.%s", gfid_text(&aim->gfid, gfid));
	else
		snprintf(name, HIDDEN_NAME, "a.%s.%s", gfid_text(&aim->pgfid, pgfid), gfid_text(&aim->gfid, gfid));
	return name;
}

const char *work_name(enum work work, const struct gfid *pgfid, char name[HIDDEN_NAME])
{
	char text[GFID_TEXT];

	snprintf(name, HIDDEN_NAME, "%s.%s", work == WORK_NEW ? "new" : "del", gfid_text(pgfid, text));
	return name;
}

const char *end_name(const struct gfid *pgfid, char name[HIDDEN_NAME])
{
	char text[GFID_TEXT], own[GFID_TEXT];
	struct gfid fresh;

	if (MUTANT("end-again"))
		fresh = *pgfid;
	else
		gfid_create(&fresh);
	snprintf(name, HIDDEN_NAME, "end.%s.%s", gfid_text(pgfid, text), gfid_text(&fresh, own));
	return name;
}

int work_parse(const char *name, struct gfid *pgfid)
{
	char text[GFID_TEXT];

	if (strncmp(name, "new.", 4) != 0 && strncmp(name, "del.", 4) != 0 && strncmp(name, "end.", 4) != 0)
		return -EINVAL;
	snprintf(text, sizeof(text), "%s", name + 4);
	return gfid_parse(text, pgfid);
}

/* ---- the directories ---- */

static struct inode *known(struct dht *d, int child, unsigned at)
{
	struct inode *dir;

	pthread_mutex_lock(&d->lock);
	dir = d->hidden[child] && d->hidden[child]->dir[at] ? inode_ref(d->hidden[child]->dir[at]) : NULL;
	pthread_mutex_unlock(&d->lock);
	return dir;
}

static void remember(struct dht *d, int child, unsigned at, struct inode *dir)
{
	pthread_mutex_lock(&d->lock);
	if (!d->hidden[child])
		d->hidden[child] = calloc(1, sizeof(*d->hidden[child]));
	if (d->hidden[child] && !d->hidden[child]->dir[at])
		d->hidden[child]->dir[at] = inode_ref(dir);
	pthread_mutex_unlock(&d->lock);
}

void hidden_forget(struct dht *d, int child)
{
	struct hidden *h;

	pthread_mutex_lock(&d->lock);
	h = d->hidden[child];
	d->hidden[child] = NULL;
	pthread_mutex_unlock(&d->lock);
	for (unsigned i = 0; h && i < DIRS; i++)
		inode_unref(h->dir[i]);
	free(h);
}

static int look(struct request *rq, struct xlator *child, struct inode *parent, const char *name, struct inode **dir)
{
	struct lookup_in in = { .loc = { .parent = parent, .name = name } };
	struct lookup_out out = { 0 };
	int err = lookup_on(rq, child, &in, &out);

	if (!err && !S_ISDIR(out.attr.mode))
		err = -ENOTDIR;
	if (!err)
		*dir = inode_ref(out.inode);
	fop_out_clear(FOP_lookup, &out);
	return err;
}

static int drop_acl(struct request *rq, struct xlator *child, struct inode *dir, const char *name)
{
	struct removexattr_in in = { .inode = dir, .name = name };
	struct removexattr_out out = { 0 };
	int err = removexattr_on(rq, child, &in, &out);

	return err == -ENODATA || err == -EOPNOTSUPP ? 0 : err;
}

/* It has come by the root's default ACL, and would hand that on to all that is put away: who may do what is decided where the name is. */
static int open_up(struct request *rq, struct xlator *child, struct inode *dir)
{
	struct setattr_in in = { .inode = dir, .set = { .valid = SET_MODE, .mode = 0777 } };
	struct setattr_out out = { 0 };
	int err = drop_acl(rq, child, dir, "system.posix_acl_default");

	if (!err)
		err = drop_acl(rq, child, dir, "system.posix_acl_access");
	return err ? err : setattr_on(rq, child, &in, &out);
}

static int make(struct request *rq, struct xlator *child, struct inode *parent, const char *name, struct inode **dir)
{
	struct mkdir_in in = { .loc = { .parent = parent, .name = name }, .mode = 0777 };
	struct mkdir_out out = { 0 };
	int err;

	gfid_create(&in.gfid);
	err = mkdir_on(rq, child, &in, &out);
	if (!err)
		*dir = inode_ref(out.inode);
	fop_out_clear(FOP_mkdir, &out);
	return err == -EEXIST ? look(rq, child, parent, name, dir) : err;
}

/* The next directory of a way down; the one before is given back. `makes`: those that are missing are made. */
static int step(struct request *rq, struct xlator *child, struct inode **dir, const char *name, bool makes)
{
	struct inode *next = NULL;
	int err = look(rq, child, *dir, name, &next);

	if (err == -ENOENT && makes)
		err = make(rq, child, *dir, name, &next);
	inode_unref(*dir);
	*dir = next;
	return err;
}

static int first_step(struct request *rq, struct dht *d, int child, struct inode **dir, bool makes)
{
	int err = step(rq, d->x->child[child], dir, DHT_HIDDEN, makes);

	if (!err)
		atomic_fetch_or(&d->has_hidden, 1ull << child);
	return err;
}

/* Whoever makes something in the first makes sure of its mode: who made that may have died before. */
static int second_step(struct request *rq, struct xlator *child, struct inode **dir, const char *name, bool makes)
{
	struct inode *next = NULL;
	int err = look(rq, child, *dir, name, &next);

	inode_unref(next);
	if (err == -ENOENT && makes)
		err = open_up(rq, child, *dir);
	return err ? err : step(rq, child, dir, name, makes);
}

static int walk(struct request *rq, struct dht *d, int child, unsigned at, bool makes, struct inode **dir)
{
	bool away = at < WORK_AT;
	char last[8];
	int err;

	snprintf(last, sizeof(last), away ? "%02x" : "%x", away ? at : at - WORK_AT);
	*dir = root_of(d);
	if (!*dir)
		return -ENOMEM;
	err = first_step(rq, d, child, dir, makes);
	if (!err)
		err = second_step(rq, d->x->child[child], dir, away ? "away" : "work", makes);
	if (!err)
		err = step(rq, d->x->child[child], dir, last, makes);
	return err;
}

static int find(struct request *rq, struct dht *d, int child, unsigned at, bool makes, struct inode **dir)
{
	struct who user;
	int err;

	*dir = known(d, child, at);
	if (*dir)
		return 0;
	user = become_root(rq);
	err = walk(rq, d, child, at, makes, dir);
	become(rq, user);
	if (!err)
		remember(d, child, at, *dir);
	return err;
}

int away_dir(struct request *rq, struct dht *d, int child, const struct gfid *gfid, bool makes, struct inode **dir)
{
	return find(rq, d, child, gfid->bytes[0], makes, dir);
}

int work_dir(struct request *rq, struct dht *d, int child, unsigned number, bool makes, struct inode **dir)
{
	return find(rq, d, child, WORK_AT + number % WORK_DIRS, makes, dir);
}
