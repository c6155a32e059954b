/* SPDX-License-Identifier: Apache-2.0 */
/* What requests say that names stand for, and what it depends on who has them: in sticky directories, and where directories get other parents. What is done
 * is done to that, and only if it was judged. */
#include "access-test.h"
#include "test-tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static const struct caller root = { 0 }, mallory = { .uid = 1001, .gid = 2001 };

/* A directory of root's where all may make names, with two files and a directory of mallory's, and one file of root's. */
static void scene(struct tree *t)
{
	struct setattr sticky = { .valid = SET_MODE, .mode = 01777 };

	caller_become(t, &root);
	CHECK(!tree_mkdir(t, "s", 0777) && !tree_setattr(t, "s", &sticky));
	CHECK(!tree_put(t, "s/theirs", "theirs"));
	caller_become(t, &mallory);
	CHECK(!tree_put(t, "s/own", "own") && !tree_put(t, "s/other", "other") && !tree_mkdir(t, "s/dir", 0700));
}

static void scene_ends(struct tree *t)
{
	static const char *const names[] = { "s/theirs", "s/own", "s/other", "s/new" };

	caller_become(t, &root);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		tree_unlink(t, names[i]);
	tree_rmdir(t, "s/dir");
	CHECK(!tree_rmdir(t, "s"));
}

static struct inode *object(struct tree *t, const char *path)
{
	struct inode *inode = NULL;

	CHECK(!tree_walk(t, path, &inode));
	return inode;
}

static bool stands_for(struct tree *t, const char *path, const struct inode *inode)
{
	struct inode *now = NULL;
	bool same = !tree_walk(t, path, &now) && now == inode;

	inode_unref(now);
	return same;
}

/* ---- asking ---- */

struct asked {
	enum fop fop;
	const char *name, *to;
	struct inode *is, *to_is; /* what the request says; borrowed */
	uint32_t flags;
	bool resent;
	/* for a task of its own */
	struct tree *t;
	int err;
	atomic_bool done;
};

static int ask_rename(struct request *rq, const struct asked *a)
{
	struct rename_in in = { .flags = a->flags };
	struct rename_out out;
	int err = tree_loc(a->t, a->name, &in.from);

	if (!err)
		err = tree_loc(a->t, a->to, &in.to);
	in.from.inode = a->is;
	in.to.inode = a->to_is;
	if (!err)
		err = rename_on(rq, a->t->at, &in, &out);
	inode_unref(in.from.parent);
	inode_unref(in.to.parent);
	return err;
}

static int ask_remove(struct request *rq, const struct asked *a)
{
	struct unlink_in in = { { 0 } };
	struct unlink_out out;
	int err = tree_loc(a->t, a->name, &in.loc);

	in.loc.inode = a->is;
	if (!err)
		err = fop_call(rq, a->t->at, a->fop, &in, &out);
	inode_unref(in.loc.parent);
	return err;
}

static void ask_job(void *arg)
{
	struct asked *a = arg;
	struct request rq;

	request_init(&rq, a->t->graph, 0);
	rq.uid = mallory.uid;
	rq.gid = mallory.gid;
	rq.group_count = 0;
	rq.resent = a->resent;
	a->err = a->fop == FOP_rename ? ask_rename(&rq, a) : ask_remove(&rq, a);
	request_finish(&rq);
	a->done = true;
}

static int ask(struct tree *t, struct asked a)
{
	a.t = t;
	ask_job(&a);
	return a.err;
}

/* ---- what is said ---- */

static void expect_what_is_said(struct tree *t)
{
	struct inode *own = object(t, "s/own"), *other = object(t, "s/other"), *theirs = object(t, "s/theirs");
	struct inode *dir = object(t, "s/dir");

	CHECK(ask(t, (struct asked){ FOP_unlink, "s/own", .is = other }) == -ESTALE);
	CHECK(ask(t, (struct asked){ FOP_unlink, "s/own", .is = theirs }) == -ESTALE);
	CHECK(ask(t, (struct asked){ FOP_unlink, "s/theirs", .is = own }) == -ESTALE);
	CHECK(ask(t, (struct asked){ FOP_rmdir, "s/dir", .is = own }) == -ESTALE);
	CHECK(ask(t, (struct asked){ FOP_unlink, "s/new", .is = own }) == -ENOENT);
	CHECK(ask(t, (struct asked){ FOP_rename, "s/own", "s/new", .is = other }) == -ESTALE);
	CHECK(ask(t, (struct asked){ FOP_rename, "s/own", "s/new", .to_is = other }) == -ESTALE);
	CHECK(ask(t, (struct asked){ FOP_rename, "s/own", "s/other", .to_is = dir }) == -ESTALE);
	CHECK(ask(t, (struct asked){ FOP_rename, "s/new", "s/other", .is = own }) == -ENOENT);
	CHECK(stands_for(t, "s/own", own) && stands_for(t, "s/other", other) && stands_for(t, "s/theirs", theirs));
	CHECK(!ask(t, (struct asked){ FOP_rename, "s/own", "s/other", .is = own, .to_is = other }));
	CHECK(!ask(t, (struct asked){ FOP_unlink, "s/other", .is = own }));
	CHECK(!ask(t, (struct asked){ FOP_rmdir, "s/dir", .is = dir }));
	inode_unref(own);
	inode_unref(other);
	inode_unref(theirs);
	inode_unref(dir);
}

void what_is_said_counts(void *tree)
{
	scene(tree);
	expect_what_is_said(tree);
	scene_ends(tree);
}

/* ---- sent once more ---- */

static void expect_done_once(struct tree *t)
{
	struct inode *own = object(t, "s/own"), *other = object(t, "s/other"), *theirs = object(t, "s/theirs");
	struct asked exchange = { FOP_rename, "s/own", "s/other", own, other, RENAME_EXCHANGE };
	struct asked unlink = { FOP_unlink, "s/own", .is = other }, rename = { FOP_rename, "s/other", "s/new", .is = own };

	CHECK(!ask(t, exchange) && stands_for(t, "s/own", other) && stands_for(t, "s/other", own));
	exchange.resent = true;
	CHECK(!ask(t, exchange) && stands_for(t, "s/own", other) && stands_for(t, "s/other", own));
	/* The names are another's by the time that the request comes again. */
	CHECK(!ask(t, unlink) && !ask(t, rename));
	unlink.resent = rename.resent = true;
	CHECK(!ask(t, unlink) && !ask(t, rename));
	caller_become(t, &root);
	CHECK(!tree_put(t, "s/own", "again") && !tree_put(t, "s/other", "again"));
	CHECK(!ask(t, unlink) && !ask(t, rename) && stands_for(t, "s/new", own));
	CHECK(!tree_unlink(t, "s/own") && !tree_unlink(t, "s/other"));
	/* That it was sent before gives no right. */
	CHECK(!tree_put(t, "s/own", "own") &&
	      !tree_setattr(t, "s/own", &(struct setattr){ .valid = SET_UID, .uid = mallory.uid }));
	CHECK(ask(t, (struct asked){ FOP_unlink, "s/own", .is = theirs, .resent = true }) == -EPERM);
	CHECK(ask(t, (struct asked){ FOP_rename, "s/own", "s/other", .is = theirs, .resent = true }) == -EPERM);
	CHECK(ask(t, (struct asked){ FOP_rename, "s/own", "s/new", .to_is = theirs, .resent = true }) == -EPERM);
	CHECK(ask(t, (struct asked){ FOP_unlink, "s/theirs", .resent = true }) == -EPERM);
	inode_unref(own);
	inode_unref(other);
	inode_unref(theirs);
}

void sent_again_is_done_once(void *tree)
{
	scene(tree);
	expect_done_once(tree);
	scene_ends(tree);
}

/* Nothing has the old name, and what has the new one is said to have been moved there, where nobody is judged: it might be moved back, and on, from the old name. */
void what_was_moved_before_is_judged(void *tree)
{
	struct tree *t = tree;

	scene(t);
	caller_become(t, &root);
	CHECK(!tree_mkdir(t, "open", 0777) && !tree_link(t, "s/theirs", "open/theirs") && !tree_mkdir(t, "open/dir", 0755));
	CHECK(ask(t, (struct asked){ FOP_rename, "s/new", "open/theirs", .resent = true }) == -EPERM);
	CHECK(ask(t, (struct asked){ FOP_rename, "s/new", "open/dir", .resent = true }) == -EPERM);
	CHECK(!tree_mkdir(t, "other", 0777));
	CHECK(ask(t, (struct asked){ FOP_rename, "other/new", "open/dir", .resent = true }) == -EACCES);
	CHECK(!ask(t, (struct asked){ FOP_rename, "other/new", "open/theirs", .resent = true }));
	scene_ends(t);
}

/* ---- names that come between the judgement and the deed ---- */

static bool hold_tell(struct tree *t, const char *word, const char *what)
{
	char *argv[] = { (char *)word, (char *)what, NULL }, *text = NULL;
	struct xlator *x = tree_find(t, "hold");
	size_t size;
	FILE *f = open_memstream(&text, &size);
	bool parked;

	x->type->command(x, what ? 2 : 1, argv, f);
	fclose(f);
	parked = strstr(text, "parked: ");
	free(text);
	return parked;
}

/* Until it is at the child, or is answered. */
static bool parks(struct tree *t, struct asked *a)
{
	bool parked = false;

	hold_tell(t, "hold", "unlink,rmdir,rename");
	task_spawn(NULL, ask_job, a);
	for (int i = 0; i < 5000 && !parked && !a->done; i++) {
		task_sleep_ms(1);
		parked = hold_tell(t, "list", NULL);
	}
	return parked;
}

static void let_go(struct tree *t, struct asked *a)
{
	hold_tell(t, "hold", "none");
	hold_tell(t, "release", "all");
	while (!a->done)
		task_sleep_ms(1);
}

/* Without the name there is nothing to ask the child for. */
static void expect_not_asked(struct tree *t, struct asked a)
{
	a.t = t;
	CHECK(!parks(t, &a));
	let_go(t, &a);
	CHECK(a.err == -ENOENT);
}

/* It is at the child when root makes the name that was not there. */
static void expect_spared(struct tree *t, struct asked a)
{
	struct inode *made;

	a.t = t;
	CHECK(parks(t, &a));
	caller_become(t, &root);
	CHECK(!tree_put(t, a.name, "made"));
	made = object(t, a.name);
	let_go(t, &a);
	CHECK(!a.err && stands_for(t, a.name, made));
	CHECK(!tree_unlink(t, a.name));
	inode_unref(made);
}

void who_comes_between_is_spared(void *tree)
{
	scene(tree);
	expect_not_asked(tree, (struct asked){ FOP_unlink, "s/new" });
	expect_not_asked(tree, (struct asked){ FOP_rmdir, "s/new" });
	expect_not_asked(tree, (struct asked){ FOP_rename, "s/new", "s/own" });
	expect_not_asked(tree, (struct asked){ FOP_rename, "s/own", "s/new", .flags = RENAME_EXCHANGE });
	expect_not_asked(tree, (struct asked){ FOP_rename, "s/new", "s/none", .resent = true });
	expect_spared(tree, (struct asked){ FOP_unlink, "s/new", .resent = true });
	expect_spared(tree, (struct asked){ FOP_rename, "s/new", "s/own", .resent = true });
	scene_ends(tree);
}

/* ---- names that change hands in between ---- */

static void expect_next_removed(struct tree *t)
{
	struct asked a = { FOP_unlink, "s/own", .t = t };

	CHECK(parks(t, &a));
	hold_tell(t, "hold", "none");
	CHECK(!tree_rename(t, "s/other", "s/own", 0));
	let_go(t, &a);
	CHECK(!a.err && tree_access(t, "s/own", F_OK) == -ENOENT);
}

static void expect_not_moved(struct tree *t, uint32_t flags)
{
	struct asked a = { FOP_rename, "p/mine", flags ? "q/also" : "q/new", .flags = flags, .t = t };
	struct inode *theirs = object(t, "p/theirs");

	CHECK(parks(t, &a));
	hold_tell(t, "hold", "none");
	CHECK(!tree_rename(t, "p/mine", "p/aside", 0) && !tree_rename(t, "p/theirs", "p/mine", 0));
	let_go(t, &a);
	CHECK(a.err == -EACCES && stands_for(t, "p/mine", theirs));
	CHECK(!tree_rename(t, "p/mine", "p/theirs", 0) && !tree_rename(t, "p/aside", "p/mine", 0));
	inode_unref(theirs);
}

static void parents(struct tree *t)
{
	caller_become(t, &root);
	CHECK(!tree_mkdir(t, "p", 0777) && !tree_mkdir(t, "q", 0777) && !tree_mkdir(t, "p/theirs", 0755));
	caller_become(t, &mallory);
	CHECK(!tree_mkdir(t, "p/mine", 0700) && !tree_mkdir(t, "q/also", 0700));
}

void what_comes_is_judged(void *tree)
{
	scene(tree);
	expect_next_removed(tree);
	scene_ends(tree);
	parents(tree);
	expect_not_moved(tree, 0);
	expect_not_moved(tree, RENAME_EXCHANGE);
}
