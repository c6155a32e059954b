/* SPDX-License-Identifier: Apache-2.0 */
/* test/lie: a brick that lies, or loses its locks. What it does is told by a command, `NAME NUMBER`; `count NAME` prints a number. */
#include <fcntl.h>

#include <stdlib.h>

#include "held.h"
#include "xlator.h"

enum lie_kind {
	READ_EMPTY,  /* reads of blocks are answered with nothing */
	SIZE,	     /* so many bytes more than there are (or less) */
	SEEK,	     /* 1: each search ends where the file begins; 2: a hole where there is none */
	SHORT,	     /* the next write of more than so many bytes is cut there */
	NO_UNLOCK,   /* so many unlocks fail, as when the brick does not answer */
	DEAF,	     /* a lock that waits takes a cancel for itself, and fails otherwise */
	LOSE,	     /* after so many messages the lock is lost, once */
	STALE,	     /* and so many messages later a file of the inode is stale, which says nothing of the lock */
	UNPROTECTED, /* counts changes without the lock */
	UNLOCKS,     /* counts */
	READS,	     /* counts */
	WRITES,	     /* counts */
	SYNCED,	     /* counts writes through a file that was opened with O_DSYNC, or O_SYNC */
	GROWN,	     /* by so many bytes is the file longer once the lock is lost: `size` */
	UNREADABLE,  /* only root may open files to read */
	UNANSWERED,  /* so many writes are not answered: they come to the brick all the same */
	LATE,	     /* counts those that are on their way */
	NOT_HELD,    /* changes are answered so, always */
	TWICE, /* 1, 2: the next write is sent once more, which waits until this is 0; with 1 it was done before, too. 3: it waits */
	KINDS,
};
static const char *const names[KINDS] = { "read-empty", "size",	       "seek",	  "short",    "no-unlock", "deaf",   "lose",
					  "stale",	"unprotected", "unlocks", "reads",    "writes",	   "synced", "grown",
					  "unreadable", "unanswered",  "late",	  "not-held", "twice" };
struct lie {
	atomic_int value[KINDS];
	atomic_bool held;
	pthread_mutex_t guard; /* of what follows */
	struct lock lock;      /* the last that was taken */
};

static void tell(struct xlator *x, enum event_kind kind, struct inode *inode)
{
	struct lie *l = x->private;
	struct event e = { .kind = kind, .inode = inode };

	pthread_mutex_lock(&l->guard);
	e.lock = l->lock;
	pthread_mutex_unlock(&l->guard);
	event_up(x, &e);
}

static struct inode *inode_of(enum fop fop, const void *in)
{
	switch (fop) {
	case FOP_write:
		return ((const struct write_in *)in)->file->inode;
	case FOP_read:
		return ((const struct read_in *)in)->file->inode;
	case FOP_fsync:
		return ((const struct fsync_in *)in)->file->inode;
	case FOP_fallocate:
		return ((const struct fallocate_in *)in)->file->inode;
	case FOP_setlk:
		return ((const struct setlk_in *)in)->file->inode;
	case FOP_setattr:
		return ((const struct setattr_in *)in)->inode ?: ((const struct setattr_in *)in)->file->inode;
	case FOP_setxattr:
		return ((const struct setxattr_in *)in)->inode;
	default:
		return NULL;
	}
}

static bool counts_down(atomic_int *n)
{
	return atomic_load(n) > 0 && atomic_fetch_sub(n, 1) == 1;
}

static void lose(struct xlator *x, enum fop fop, const void *in)
{
	struct lie *l = x->private;
	struct inode *inode = inode_of(fop, in);

	if (inode && counts_down(&l->value[LOSE])) {
		atomic_store(&l->held, false);
		atomic_store(&l->value[SIZE], atomic_load(&l->value[GROWN]));
		tell(x, EVENT_LOCK_LOST, inode);
	}
	if (inode && counts_down(&l->value[STALE]))
		tell(x, EVENT_STALE_FILE, inode);
}

static int lie_setlk(struct request *rq, struct xlator *x, const struct setlk_in *in, struct setlk_out *out)
{
	struct lie *l = x->private;
	bool unlock = in->lock.type == F_UNLCK;
	int err;

	atomic_fetch_add(&l->value[UNLOCKS], unlock);
	if (unlock && atomic_load(&l->value[NO_UNLOCK]) > 0) {
		atomic_fetch_sub(&l->value[NO_UNLOCK], 1);
		return -ENOTCONN;
	}
	if (in->lock.wait && atomic_exchange(&l->value[DEAF], 0)) {
		while (task_wait(NO_DEADLINE) != -ECANCELED)
			;
		return -EIO;
	}
	err = setlk_on(rq, x->child[0], in, out);
	if (!err && in->lock.kind == LOCK_POSIX) {
		pthread_mutex_lock(&l->guard);
		l->lock = in->lock;
		pthread_mutex_unlock(&l->guard);
		atomic_store(&l->held, !unlock);
	}
	return err;
}

struct late {
	struct xlator *x;
	struct request *rq;
	struct write_in in;
};

static void write_late(void *arg)
{
	struct late *w = arg;
	struct lie *l = w->x->private;
	struct write_out out = { 0 };

	write_on(w->rq, w->x->child[0], &w->in, &out);
	request_free(w->rq);
	fop_in_clear(FOP_write, &w->in);
	atomic_fetch_sub(&l->value[LATE], 1);
	free(w);
}

static int lie_unanswered(struct request *rq, struct xlator *x, const struct write_in *in)
{
	struct lie *l = x->private;
	struct late *w = malloc(sizeof(*w));

	*w = (struct late){ .x = x, .rq = request_copy(rq) };
	fop_in_copy(FOP_write, &w->in, in);
	atomic_fetch_sub(&l->value[UNANSWERED], 1);
	atomic_fetch_add(&l->value[LATE], 1);
	task_spawn(NULL, write_late, w);
	return -ENOTCONN;
}

/* As protocol/client sends it in the next session, when it had no answer in the one before. */
static int lie_twice(struct request *rq, struct xlator *x, const struct write_in *in, struct write_out *out)
{
	struct lie *l = x->private;
	int err = atomic_load(&l->value[TWICE]) == 1 ? write_on(rq, x->child[0], in, out) : 0;

	atomic_store(&l->value[TWICE], 3);
	while (atomic_load(&l->value[TWICE]))
		task_sleep_ms(1);
	*out = (struct write_out){ 0 };
	return err ? err : write_on(rq, x->child[0], in, out);
}

static int lie_write(struct request *rq, struct xlator *x, const struct write_in *in, struct write_out *out)
{
	struct lie *l = x->private;
	struct write_in some = *in;
	int most = atomic_load(&l->value[SHORT]), err;

	if (atomic_load(&l->value[UNANSWERED]) > 0)
		return lie_unanswered(rq, x, in);
	if (atomic_load(&l->value[TWICE]))
		return lie_twice(rq, x, in, out);
	if (most <= 0 || in->data->size <= (size_t)most)
		return write_on(rq, x->child[0], in, out);
	atomic_store(&l->value[SHORT], 0);
	some.data = buffer_slice(in->data, 0, (size_t)most);
	err = write_on(rq, x->child[0], &some, out);
	buffer_unref(some.data);
	return err;
}

static int lie_read(struct request *rq, struct xlator *x, const struct read_in *in, struct read_out *out)
{
	struct lie *l = x->private;
	struct read_in less = *in;

	if (atomic_load(&l->value[READ_EMPTY]))
		less.offset = 1ull << 40;
	return read_on(rq, x->child[0], &less, out);
}

static int lie_getattr(struct request *rq, struct xlator *x, const struct getattr_in *in, struct getattr_out *out)
{
	struct lie *l = x->private;
	int err = getattr_on(rq, x->child[0], in, out);

	out->attr.size += (uint64_t)(int64_t)atomic_load(&l->value[SIZE]);
	return err;
}

static int lie_seek(struct request *rq, struct xlator *x, const struct seek_in *in, struct seek_out *out)
{
	struct lie *l = x->private;

	if (!atomic_load(&l->value[SEEK]))
		return seek_on(rq, x->child[0], in, out);
	out->offset = atomic_load(&l->value[SEEK]) == 1 ? 0 : in->offset + 8192;
	return 0;
}

static int lie_open(struct request *rq, struct xlator *x, const struct open_in *in, struct open_out *out)
{
	struct lie *l = x->private;

	if (atomic_load(&l->value[UNREADABLE]) && rq->uid && (in->flags & O_ACCMODE) != O_WRONLY)
		return -EACCES;
	return open_on(rq, x->child[0], in, out);
}

static int dispatch(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	switch (fop) {
	case FOP_open:
		return lie_open(rq, x, in, out);
	case FOP_setlk:
		return lie_setlk(rq, x, in, out);
	case FOP_write:
		return lie_write(rq, x, in, out);
	case FOP_read:
		return lie_read(rq, x, in, out);
	case FOP_getattr:
		return lie_getattr(rq, x, in, out);
	case FOP_seek:
		return lie_seek(rq, x, in, out);
	default:
		return fop_pass(rq, x, fop, in, out);
	}
}

static int lie_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct lie *l = x->private;
	bool changes = fop == FOP_write || fop == FOP_setattr || fop == FOP_fallocate || fop == FOP_setxattr;
	int err;

	atomic_fetch_add(&l->value[READS], fop == FOP_read);
	atomic_fetch_add(&l->value[WRITES], fop == FOP_write);
	atomic_fetch_add(&l->value[SYNCED], fop == FOP_write && ((const struct write_in *)in)->file->flags & O_DSYNC);
	if (changes && !atomic_load(&l->held))
		atomic_fetch_add(&l->value[UNPROTECTED], 1);
	err = changes && atomic_load(&l->value[NOT_HELD]) ? -ENOTHELD : dispatch(rq, x, fop, in, out);
	lose(x, fop, in);
	return err;
}

static int lie_init(struct xlator *x, struct problem *p)
{
	struct lie *l = x->private;

	(void)p;
	pthread_mutex_init(&l->guard, NULL);
	return 0;
}

static int lie_command(struct xlator *x, int argc, char **argv, FILE *f)
{
	struct lie *l = x->private;

	for (int i = 0; i < KINDS; i++)
		if (argc == 2 && !strcmp(argv[0], names[i]))
			atomic_store(&l->value[i], atoi(argv[1]));
		else if (argc == 2 && !strcmp(argv[0], "count") && !strcmp(argv[1], names[i]))
			fprintf(f, "%d", atomic_load(&l->value[i]));
	return 0;
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "test/lie",
	.summary = "a brick that lies",
	.private_size = sizeof(struct lie),
	.min_children = 1,
	.max_children = 1,
	.init = lie_init,
	.command = lie_command,
	.any = lie_any,
};
