/* SPDX-License-Identifier: Apache-2.0 */
/* test/member: a member of a set whose view never changes but when it is told to: all are IN, but for one that may be BACK. It gives every token to who asks
 * for it. Commands, `NAME NUMBER`: see member_command. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "dht/place.h"
#include "replica.h"

struct member {
	int64_t members, back; /* at first */
	atomic_int back_now;
	atomic_int out;				      /* number of a member that is OUT; -1: none */
	atomic_uint fsyncs, lookups, getattrs, reads; /* that were answered */
	atomic_uint refused, releases, failed, acquires, lowers, opened, closed, setlks, asked, skips;
	atomic_uint attaching, attached; /* attaches: that wait for an answer, that had one */
	atomic_uint epoch;
	atomic_int recovering; /* opens that are still to be told so */
	atomic_bool refuses;   /* writes, and what gives a name, as in another view */
	atomic_bool did;       /* whatever was sent in an earlier view: it has a note of it */
	atomic_bool healed;    /* so it knows nothing of earlier views */
	atomic_bool ill;       /* its disk fails where a lock is asked for */
	atomic_bool unknowing; /* of each file through which a lock is asked for */
	atomic_bool deaf;      /* to what has failed: it can't be reached */
	atomic_bool silent;    /* when it is asked for the view, until it is told to speak, whatever the deadline */
	atomic_bool grants;    /* who makes a file has its token with the answer */
	atomic_bool nameless;  /* of all that is asked for: it has no name */
	atomic_bool renamed;   /* of all that is asked for: it is called "elsewhere", in the root */
	atomic_int lost;       /* so many syncs tell that the disk has not kept something */
	atomic_int looks;      /* the error of each lookup, or 0 */
	atomic_int tells;      /* the same of getattr */
	atomic_bool another;   /* stands for each name of which it is told what that is expected to be: it unlinks none */
	atomic_int
		limit; /* writes are answered with this error, and not done; 0: they are done. EASKFIRST: until the first has decided */
};
static const struct option options[] = {
	{ "members", OPTION_INT, OPTION_AT(struct member, members), NULL, "of the set", 2, REPLICAS_MAX },
	{ "back", OPTION_INT, OPTION_AT(struct member, back), "-1", "number of a member that is BACK; -1: none", -1,
	  REPLICAS_MAX },
	{ NULL },
};

static int view_now(const struct member *m, struct replica_out *out)
{
	struct reply_view r = { .serving = true, .writable = true };
	struct pack p = { 0 };

	r.view = (struct view){ .epoch = 1 + atomic_load(&m->epoch), .members = (uint8_t)m->members, .arbiter = REPLICAS_MAX };
	for (int i = 0; i < m->members; i++) {
		r.view.order[i] = (uint8_t)i;
		r.view.state[i] = i == atomic_load(&m->back_now) ? MEMBER_BACK
				  : i == atomic_load(&m->out)	 ? MEMBER_OUT
								 : MEMBER_IN;
		r.view.incarnation[i] = 1;
	}
	pack_reply_view(&p, &r);
	return pack_end(&p, &out->data);
}

/* Of any change. Without a note of it: it was not done, as who has been there all the time knows. */
static int outcome(const struct member *m, struct replica_out *out)
{
	struct pack p = { 0 };

	pack_u8(&p, atomic_load(&m->did) ? OUTCOME_DONE : OUTCOME_NONE);
	pack_u64(&p, 0);
	pack_u64(&p, atomic_load(&m->healed) ? 1 + atomic_load(&m->epoch) : 1);
	return pack_end(&p, &out->data);
}

/* Of all that is asked for: none, or that one in the root. */
static int names(struct replica_out *out, const char *name)
{
	struct pack p = { 0 };

	pack_u32(&p, name ? 1 : 0);
	if (name) {
		pack_gfid(&p, &gfid_root);
		pack_u8(&p, (uint8_t)strlen(name));
		pack_bytes(&p, name, strlen(name));
	}
	return pack_end(&p, &out->data);
}

static int attach(struct member *m, struct replica_out *out)
{
	atomic_fetch_add(&m->attaching, 1);
	task_shield(true);
	while (atomic_load(&m->silent))
		task_sleep_ms(1);
	task_shield(false);
	atomic_fetch_sub(&m->attaching, 1);
	atomic_fetch_add(&m->attached, 1);
	return view_now(m, out);
}

static int member_replica(struct request *rq, struct xlator *x, const struct replica_in *in, struct replica_out *out)
{
	struct member *m = x->private;
	bool nameless = atomic_load(&m->nameless);

	(void)rq;
	switch ((int)in->verb) {
	case REPLICA_RELEASE:
		atomic_fetch_add(&m->releases, 1);
		return 0;
	case REPLICA_FAILED:
		if (atomic_load(&m->deaf))
			return -ENOTCONN;
		atomic_fetch_add(&m->failed, 1);
		return 0;
	case REPLICA_ACQUIRE:
		atomic_fetch_add(&m->acquires, 1);
		return 0;
	case REPLICA_LOWER:
		atomic_fetch_add(&m->lowers, 1);
		return 0;
	case REPLICA_SKIP:
		atomic_fetch_add(&m->skips, 1);
		return 0;
	case REPLICA_DETACH:
	case REPLICA_SETTLE:
		return 0;
	case REPLICA_OUTCOME:
		return outcome(m, out);
	case REPLICA_ATTACH:
		return attach(m, out);
	case REPLICA_LINKS:
	case REPLICA_NAMES:
		return nameless ? names(out, NULL) : atomic_load(&m->renamed) ? names(out, "elsewhere") : -EOPNOTSUPP;
	case REPLICA_UNLINKED:
		return nameless ? -ENOENT : -EOPNOTSUPP;
	default:
		return -EOPNOTSUPP;
	}
}

static bool refuses(const struct member *m, enum fop fop)
{
	return atomic_load(&m->refuses) && (fop == FOP_write || fop == FOP_create || fop == FOP_mkdir || fop == FOP_link);
}

/* 0, or why it does not lock. */
static int locks(const struct member *m)
{
	return atomic_load(&m->ill) ? -EIO : atomic_load(&m->unknowing) ? -ESTALE : 0;
}

/* 0, or why it does not write: there is no room within some limit, or perhaps not. */
static int limits(const struct member *m, const struct request *rq, enum fop fop)
{
	int err = fop == FOP_write ? atomic_load(&m->limit) : 0;
	struct replica_stamp stamp;

	return err == EASKFIRST && stamp_of(rq, &stamp) && stamp.flags & REPLICA_DECIDED ? 0 : -err;
}

static bool is_asked(const struct request *rq)
{
	struct replica_stamp stamp;

	return stamp_of(rq, &stamp) && stamp.flags & REPLICA_ASK;
}

static int tell_created(struct request *rq, struct xlator *x, const struct lookup_out *found, struct create_out *out)
{
	struct open_in open = { .inode = found->inode, .flags = O_RDWR };
	struct open_out opened = { 0 };
	int err = fop_pass(rq, x, FOP_open, &open, &opened);

	if (!err)
		*out = (struct create_out){ .inode = inode_ref(found->inode), .file = opened.file, .attr = found->attr };
	return err;
}

/* What it has done is told by what stands under the name. */
static int tell(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	const struct loc *loc = fop == FOP_link ? &((const struct link_in *)in)->loc : in;
	struct lookup_in find = { .loc = { .parent = loc->parent, .name = loc->name } };
	struct lookup_out found = { 0 };
	struct member *m = x->private;
	int err = atomic_load(&m->did) ? fop_pass(rq, x, FOP_lookup, &find, &found) : -ENOTDONE;

	atomic_fetch_add(&m->asked, 1);
	if (err)
		return err;
	if (fop == FOP_create)
		err = tell_created(rq, x, &found, out);
	else if (fop == FOP_mkdir)
		*(struct mkdir_out *)out = (struct mkdir_out){ inode_ref(found.inode), found.attr };
	else
		*(struct link_out *)out = (struct link_out){ found.attr };
	fop_out_clear(FOP_lookup, &found);
	return err;
}

static int member_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct member *m = x->private;
	int err;

	if (is_asked(rq) && (fop == FOP_create || fop == FOP_mkdir || fop == FOP_link))
		return tell(rq, x, fop, in, out);
	if (fop == FOP_lookup && atomic_load(&m->looks))
		return -atomic_load(&m->looks);
	if (fop == FOP_getattr && atomic_load(&m->tells))
		return -atomic_load(&m->tells);
	if (fop == FOP_fsync)
		atomic_fetch_add(&m->fsyncs, 1);
	if (fop == FOP_fsync && atomic_load(&m->lost) > 0) {
		atomic_fetch_sub(&m->lost, 1);
		return -EIO;
	}
	if (fop == FOP_unlink && atomic_load(&m->another) && request_extension(rq, PLACE_EXTENSION))
		return -ESTALE;
	if (fop == FOP_open && atomic_load(&m->recovering) > 0) {
		atomic_fetch_sub(&m->recovering, 1);
		return -ERECOVERING;
	}
	err = refuses(m, fop) ? -EVIEW : fop == FOP_setlk ? locks(m) : limits(m, rq, fop);
	err = err ? err : fop_pass(rq, x, fop, in, out);
	if (refuses(m, fop)) { /* or since it came */
		atomic_fetch_add(&m->refused, 1);
		fop_out_clear((int)fop, out);
		memset(out, 0, fop_info[fop].out_size);
		return -EVIEW;
	}
	if (fop == FOP_create && !err && atomic_load(&m->grants))
		granted_attach(rq);
	if (fop == FOP_open && !err)
		atomic_fetch_add(&m->opened, 1);
	if (fop == FOP_release && !err)
		atomic_fetch_add(&m->closed, 1);
	if (fop == FOP_setlk)
		atomic_fetch_add(&m->setlks, 1);
	if (fop == FOP_read)
		atomic_fetch_add(&m->reads, 1);
	if (fop == FOP_getattr)
		atomic_fetch_add(&m->getattrs, 1);
	if (fop == FOP_lookup)
		atomic_fetch_add(&m->lookups, 1);
	return err;
}

static void member_dump(struct xlator *x, FILE *f)
{
	struct member *m = x->private;

	fprintf(f,
		"fsyncs: %u\nlookups: %u\ngetattrs: %u\nreads: %u\nrefused: %u\nreleases: %u\nfailed: %u\nacquires: %u\nlowers: %u\n"
		"opened: %u\nclosed: %u\nsetlks: %u\nasked: %u\nskips: %u\nattaching: %u\nattached: %u\n",
		atomic_load(&m->fsyncs), atomic_load(&m->lookups), atomic_load(&m->getattrs), atomic_load(&m->reads),
		atomic_load(&m->refused), atomic_load(&m->releases), atomic_load(&m->failed), atomic_load(&m->acquires),
		atomic_load(&m->lowers), atomic_load(&m->opened), atomic_load(&m->closed), atomic_load(&m->setlks),
		atomic_load(&m->asked), atomic_load(&m->skips), atomic_load(&m->attaching), atomic_load(&m->attached));
}

static int member_command(struct xlator *x, int argc, char **argv, FILE *f)
{
	struct member *m = x->private;

	(void)f;
	if (argc != 2)
		return -EINVAL;
	if (!strcmp(argv[0], "refuses"))
		atomic_store(&m->refuses, atoi(argv[1]));
	else if (!strcmp(argv[0], "did"))
		atomic_store(&m->did, atoi(argv[1]));
	else if (!strcmp(argv[0], "healed"))
		atomic_store(&m->healed, atoi(argv[1]));
	else if (!strcmp(argv[0], "silent"))
		atomic_store(&m->silent, atoi(argv[1]));
	else if (!strcmp(argv[0], "grants"))
		atomic_store(&m->grants, atoi(argv[1]));
	else if (!strcmp(argv[0], "nameless"))
		atomic_store(&m->nameless, atoi(argv[1]));
	else if (!strcmp(argv[0], "renamed"))
		atomic_store(&m->renamed, atoi(argv[1]));
	else if (!strcmp(argv[0], "lost"))
		atomic_store(&m->lost, atoi(argv[1]));
	else if (!strcmp(argv[0], "looks"))
		atomic_store(&m->looks, atoi(argv[1]));
	else if (!strcmp(argv[0], "tells"))
		atomic_store(&m->tells, atoi(argv[1]));
	else if (!strcmp(argv[0], "another"))
		atomic_store(&m->another, atoi(argv[1]));
	else if (!strcmp(argv[0], "recovering")) /* what the next so many opens are for */
		atomic_store(&m->recovering, atoi(argv[1]));
	else if (!strcmp(argv[0], "limit"))
		atomic_store(&m->limit, atoi(argv[1]));
	else if (!strcmp(argv[0], "ill"))
		atomic_store(&m->ill, atoi(argv[1]));
	else if (!strcmp(argv[0], "unknowing"))
		atomic_store(&m->unknowing, atoi(argv[1]));
	else if (!strcmp(argv[0], "deaf"))
		atomic_store(&m->deaf, atoi(argv[1]));
	else if (!strcmp(argv[0], "back"))
		atomic_store(&m->back_now, atoi(argv[1]));
	else if (!strcmp(argv[0], "out"))
		atomic_store(&m->out, atoi(argv[1]));
	else if (!strcmp(argv[0], "views")) /* so many more views than one there have been */
		atomic_store(&m->epoch, atoi(argv[1]));
	else
		return -EINVAL;
	return 0;
}

static int member_init(struct xlator *x, struct problem *p)
{
	struct member *m = x->private;

	(void)p;
	atomic_store(&m->out, -1);
	atomic_store(&m->back_now, (int)m->back);
	return 0;
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "test/member",
	.summary = "a member of a set that never changes",
	.options = options,
	.private_size = sizeof(struct member),
	.min_children = 1,
	.max_children = 1,
	.init = member_init,
	.any = member_any,
	.replica = member_replica,
	.dump = member_dump,
	.command = member_command,
};
