/* SPDX-License-Identifier: Apache-2.0 */
/* test/cut: one task is cut off from all that lies below instances of this, after so many messages, as if its client had died there; or for one
 * message only. Or a brick loses with its power what it was asked to make. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "location.h"
#include "xlator.h"

static struct {			    /* of all instances */
	_Atomic(struct task *) who; /* NULL: nobody */
	unsigned left, sent;
	bool done;     /* the last message that goes through gets no answer */
	bool once;     /* the others go through again */
	bool again;    /* each change is asked for twice, as by a client that has lost its session with the answer */
	unsigned ends; /* the records of so many intents that are to be opened next were ended by others */
	bool fences;   /* who takes a record over is taken over at once, and can set one mark */
	char forgets; /* the next thing of that kind is lost: 'a', an anchor; 'i', 'd', that a record became that; 'k', the name that a copy keeps; 'p', that a directory was put away; 's', that an anchor has become a stub's kept name */
	char at; /* messages are counted until the next rename from a name of that kind, which is the one that counts: 'c', a copy */
	atomic_bool holds, held;   /* that message waits until others have been at work; it does so now */
	atomic_bool yields;	   /* between messages other tasks go on */
	atomic_bool locked;	   /* there is another member, which tells of a lock */
	atomic_bool unreadable;	   /* directories, but for the root */
	atomic_uint changes, most; /* of all tasks; after so many the client is dead. 0: it lives */
} cut;

static int forget_link(struct request *rq, struct xlator *x, const struct loc *loc)
{
	struct unlink_in in = { .loc = *loc };
	struct unlink_out out = { 0 };

	return unlink_on(rq, x->child[0], &in, &out);
}

static int forget_rename(struct request *rq, struct xlator *x, const struct rename_in *done)
{
	struct rename_in in = { .from = done->to, .to = done->from, .flags = done->flags };
	struct rename_out out = { 0 };

	return rename_on(rq, x->child[0], &in, &out);
}

static bool is_forgotten(enum fop fop, const void *in)
{
	const char *name = fop == FOP_link     ? ((const struct link_in *)in)->loc.name
			   : fop == FOP_rename ? ((const struct rename_in *)in)->to.name
					       : "";

	if (cut.forgets == 'p') /* d.GFID; a record has its attempt behind that */
		return name[0] == 'd' && name[1] == '.' && !strchr(name + 2, '.');
	return cut.forgets && name[0] == cut.forgets && name[1] == '.';
}

/* From here on it is as if it had been told to stay, or to cut off, before this message. */
static void count_from_here(enum fop fop, const void *in)
{
	const struct rename_in *renamed = in;

	if (!cut.at || fop != FOP_rename || renamed->from.name[0] != cut.at || renamed->from.name[1] != '.')
		return;
	cut.at = '\0';
	cut.left = cut.sent;
}

static int forget(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	int err = fop_pass(rq, x, fop, in, out);

	cut.forgets = '\0';
	if (err)
		return err;
	return fop == FOP_link ? forget_link(rq, x, &((const struct link_in *)in)->loc) : forget_rename(rq, x, in);
}

static bool is_record_renamed(enum fop fop, const void *in)
{
	const struct rename_in *to = in;

	return fop == FOP_rename && to->from.name[1] == '.' && strchr("piu", to->from.name[0]) && to->to.name[0] != 'w';
}

/* As if others had ended it: they have taken no step, and marks that are set yet are none of theirs. */
static int end_record(struct request *rq, struct xlator *x, const struct rename_in *in)
{
	struct unlink_in record = { .loc = in->from };
	struct unlink_out ignored = { 0 };

	cut.ends--;
	unlink_on(rq, x->child[0], &record, &ignored);
	return -ENOENT;
}

/* As if another had taken it over as well, a later attempt. */
static int fence(struct request *rq, struct xlator *x, const struct rename_in *in, struct rename_out *out)
{
	int err = rename_on(rq, x->child[0], in, out);
	struct rename_in later = { .from = in->to, .to = { .parent = in->to.parent } };
	struct rename_out ignored = { 0 };
	char name[NAME_MAX + 1];

	if (err)
		return err;
	snprintf(name, sizeof(name), "%.*s.9", (int)(strrchr(in->to.name, '.') - in->to.name), in->to.name);
	later.to.name = name;
	cut.fences = false;
	cut.left = cut.sent + 1;
	return rename_on(rq, x->child[0], &later, &ignored);
}

/* As a replica set does it that has two members. */
static int locate(struct request *rq, struct xlator *x, const struct getxattr_in *in, struct getxattr_out *out)
{
	int err = getxattr_on(rq, x->child[0], in, out);
	struct location to = { 0 };

	if (err)
		return err;
	location_line(&to, "member", "0 in");
	location_add(&to, &out->value);
	location_line(&to, "member", "1 in");
	location_line(&to, "locked", "1");
	fop_out_clear(FOP_getxattr, out);
	return location_end(&to, &out->value);
}

static void stay(void)
{
	cut.held = true;
	while (cut.holds)
		task_sleep_ms(1);
	cut.held = false;
	cut.left = UINT_MAX;
}

/* Of a client with all of its tasks: what it has read last is nothing that it leaves, so changes are counted, and those that are tried. */
static bool is_dead(enum fop fop)
{
	unsigned changes = fop_info[fop].flags & FOP_MUTATES ? cut.changes++ : cut.changes;

	return fop_info[fop].flags & FOP_MUTATES ? changes >= cut.most : changes > cut.most;
}

static int ask_again(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	int err = fop_pass(rq, x, fop, in, out);
	bool resent = rq->resent;

	if (err)
		return err;
	fop_out_clear((int)fop, out);
	memset(out, 0, fop_info[fop].out_size);
	rq->resent = true;
	err = fop_pass(rq, x, fop, in, out);
	rq->resent = resent;
	return err;
}

static int cut_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	bool mine = cut.who && task_self() == cut.who && fop != FOP_release;
	int err;

	if (cut.most && is_dead(fop))
		return -ENOTCONN;
	if (cut.yields)
		task_yield();
	if (cut.unreadable && fop == FOP_opendir && !gfid_equal(&((const struct opendir_in *)in)->inode->gfid, &gfid_root))
		return -EIO;
	if (cut.locked && fop == FOP_getxattr && is_location(((const struct getxattr_in *)in)->name))
		return locate(rq, x, in, out);
	if (!mine)
		return fop_pass(rq, x, fop, in, out);
	if (cut.again && fop_info[fop].flags & FOP_MUTATES)
		return ask_again(rq, x, fop, in, out);
	count_from_here(fop, in);
	if (cut.holds && cut.sent == cut.left)
		stay();
	if (is_forgotten(fop, in))
		return forget(rq, x, fop, in, out);
	if (cut.ends && is_record_renamed(fop, in))
		return end_record(rq, x, in);
	if (cut.fences && is_record_renamed(fop, in))
		return fence(rq, x, in, out);
	if (cut.sent++ < cut.left || (cut.once && cut.sent > cut.left + 1))
		return fop_pass(rq, x, fop, in, out);
	if (cut.sent != cut.left + 1 || !cut.done)
		return -ENOTCONN;
	err = fop_pass(rq, x, fop, in, out);
	if (!err) {
		fop_out_clear((int)fop, out);
		memset(out, 0, fop_info[fop].out_size);
	}
	return -ENOTCONN;
}

static int cut_command(struct xlator *x, int argc, char **argv, FILE *f)
{
	(void)x;
	if (argc != 2)
		return -EINVAL;
	if (!strcmp(argv[0], "yields")) {
		cut.yields = atoi(argv[1]);
		return 0;
	}
	if (!strcmp(argv[0], "held")) {
		fprintf(f, "%u", cut.held);
		return 0;
	}
	if (!strcmp(argv[0], "goes")) {
		cut.holds = false;
		return 0;
	}
	if (!strcmp(argv[0], "unreadable")) {
		cut.unreadable = atoi(argv[1]);
		return 0;
	}
	if (!strcmp(argv[0], "locked")) {
		cut.locked = atoi(argv[1]);
		return 0;
	}
	if (!strcmp(argv[0], "tried") || !strcmp(argv[0], "dies"))
		fprintf(f, "%u", cut.changes);
	if (!strcmp(argv[0], "tried"))
		return 0;
	if (!strcmp(argv[0], "dies")) {
		cut.changes = 0;
		cut.most = (unsigned)atoi(argv[1]);
		return 0;
	}
	if (!strcmp(argv[0], "at")) {
		cut.at = (char)atoi(argv[1]);
		cut.left = UINT_MAX;
		return 0;
	}
	fprintf(f, "%u", cut.sent);
	cut.at = '\0';
	cut.forgets = strcmp(argv[0], "forgets") ? '\0' : (char)atoi(argv[1]);
	cut.once = !strcmp(argv[0], "lost");
	cut.again = !strcmp(argv[0], "again");
	cut.done = cut.once || !strcmp(argv[0], "unanswered");
	cut.fences = !strcmp(argv[0], "fences");
	cut.ends = strcmp(argv[0], "ends") ? 0 : (unsigned)atoi(argv[1]);
	cut.holds = !strcmp(argv[0], "stays");
	cut.left = cut.forgets || cut.fences || cut.ends || cut.again ? UINT_MAX : (unsigned)atoi(argv[1]);
	cut.sent = 0;
	cut.who = strcmp(argv[0], "end") ? task_self() : NULL;
	return 0;
}

/* As if nobody else ever changed anything. */
static uint64_t cut_believe(struct xlator *x, struct inode *inode, enum believe what, uint64_t since)
{
	(void)x, (void)what, (void)since;
	return inode ? 1000 : clock_ns();
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "test/cut",
	.summary = "cuts a task off",
	.min_children = 1,
	.max_children = 1,
	.command = cut_command,
	.believe = cut_believe,
	.any = cut_any,
};
