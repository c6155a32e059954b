/* SPDX-License-Identifier: Apache-2.0 */
/* Times that requests bring (request.time_ns): they take the place of those that the kernel has set. */
#include "posix.h"

static pthread_mutex_t *time_mutex(struct brick *b, const struct object *o)
{
	return &b->time_lock[o->gfid.bytes[15] % MUTEXES]; /* which stays, whatever becomes of the object meanwhile */
}

static struct timespec timespec_of(struct time t)
{
	return (struct timespec){ .tv_sec = t.sec, .tv_nsec = t.nsec };
}

int time_bring(struct request *rq, struct xlator *x, struct inode *inode, const struct hold *h)
{
	struct object *o = rq->time_ns ? object_of(x, inode) : NULL;
	struct timespec t[2] = { { .tv_nsec = UTIME_OMIT } };
	int err;

	if (!o) /* not ESTALE, of which others know that nothing was done */
		return rq->time_ns ? -EIO : 0;
	pthread_mutex_lock(time_mutex(brick_of(x), o));
	t[1] = timespec_of(change_time(&o->changed, rq, NULL));
	err = result(utimensat(h->fd, "", t, AT_EMPTY_PATH));
	pthread_mutex_unlock(time_mutex(brick_of(x), o));
	return err;
}

int time_bring_file(struct request *rq, struct xlator *x, struct file *file)
{
	struct hold h = { .fd = opened_of(x, file)->descriptor->fd, .lent = true };

	return time_bring(rq, x, file->inode, &h);
}

int time_birth(struct request *rq, const struct hold *made)
{
	struct timespec t = timespec_of(time_of_ns(rq->time_ns)), both[2] = { t, t };

	return rq->time_ns ? result(utimensat(made->fd, "", both, AT_EMPTY_PATH)) : 0;
}

void time_forget(struct xlator *x, struct object *o)
{
	pthread_mutex_lock(time_mutex(brick_of(x), o));
	o->changed = (struct change_time){ 0 };
	pthread_mutex_unlock(time_mutex(brick_of(x), o));
}

int time_be_born(struct request *rq, struct xlator *x, struct inode *inode, const struct hold *h)
{
	struct time birth = time_of_ns(rq->time_ns);
	struct object *o = object_of(x, inode);
	int err = o ? identity_set_birth(x, h, birth) : -ESTALE;

	if (!err)
		atomic_store(&o->birth, time_ns(birth));
	return err;
}

void time_born(struct request *rq, struct xlator *x, struct inode *inode)
{
	struct object *o = object_of(x, inode);

	pthread_mutex_lock(time_mutex(brick_of(x), o));
	if (!o->changed.known) /* somebody may have found and changed it already */
		change_time(&o->changed, rq, NULL);
	pthread_mutex_unlock(time_mutex(brick_of(x), o));
}

static int set_both(const struct hold *h, const struct setattr *s, const struct timespec *mtime)
{
	struct timespec t[2] = { { .tv_nsec = UTIME_OMIT }, *mtime };

	if (s->valid & (SET_ATIME | SET_ATIME_NOW))
		t[0] = timespec_of(s->atime);
	if (s->valid & SET_ATIME_NOW)
		t[0].tv_nsec = UTIME_NOW;
	return result(utimensat(h->fd, "", t, AT_EMPTY_PATH));
}

/* What was to be "now" is the time of the request, if it brings one. */
static struct setattr with_time(const struct request *rq, const struct setattr *s)
{
	struct setattr with = *s;

	if (rq->time_ns && s->valid & SET_ATIME_NOW) {
		with.atime = time_of_ns(rq->time_ns);
		with.valid = (with.valid | SET_ATIME) & ~(uint32_t)SET_ATIME_NOW;
	}
	if (rq->time_ns && s->valid & SET_MTIME_NOW) {
		with.mtime = time_of_ns(rq->time_ns);
		with.valid = (with.valid | SET_MTIME) & ~(uint32_t)SET_MTIME_NOW;
	}
	return with;
}

int time_set(struct request *rq, struct xlator *x, struct inode *inode, const struct setattr *set, const struct hold *h)
{
	struct object *o = object_of(x, inode);
	struct setattr s = with_time(rq, set);
	struct timespec mtime = { .tv_nsec = s.valid & SET_MTIME_NOW ? UTIME_NOW : UTIME_OMIT };
	bool resized = rq->time_ns && s.valid & SET_SIZE;
	int err;

	if ((s.valid & SET_ATIME && s.atime.nsec > 999999999) || (s.valid & SET_MTIME && s.mtime.nsec > 999999999))
		return -EINVAL;
	if (!o)
		return -ESTALE;
	pthread_mutex_lock(time_mutex(brick_of(x), o));
	if (!(s.valid & SET_MTIME_NOW) && (s.valid & SET_MTIME || resized))
		mtime = timespec_of(change_time(&o->changed, rq, s.valid & SET_MTIME ? &s.mtime : NULL));
	err = set_both(h, &s, &mtime);
	pthread_mutex_unlock(time_mutex(brick_of(x), o));
	return err;
}
