/* SPDX-License-Identifier: Apache-2.0 */
/* The hard limit of an account. What a change may add at most is claimed before it is done, and the claim ends when it has been settled; claims and what is
 * charged are together never more than the limit. Where nobody can tell before how much it will be, more is claimed. */
#include <errno.h>

#include "usage.h"

/* Other bricks may be about to start. If one does not come nobody can tell that there is room. */
static int claim_of_pool(struct request *rq, struct xlator *x, uint32_t row, struct amount more, bool last)
{
	enum { WAIT_MS = 5000, STEP_MS = 10 };
	struct usage *u = usage_of(x);
	int err = ledger_claim(&u->ledger, row, more, last);

	for (int ms = 0; err == -EAGAIN && ms < WAIT_MS; ms += STEP_MS) {
		if (task_sleep_ms(STEP_MS) || (rq->deadline_ns && clock_ns() > rq->deadline_ns))
			return -EDQUOT;
		err = ledger_claim(&u->ledger, row, more, last);
	}
	if (err == -EAGAIN && !atomic_exchange(&u->lonely, true))
		log_error(x, NULL, "not all bricks of the volume are served by this process: nothing grows of who has a limit");
	return err == -EAGAIN ? -EDQUOT : err;
}

/* With what others add meanwhile: they have claims of their own. */
int claim_row(struct request *rq, struct xlator *x, uint32_t row, struct amount more, bool last, struct claim *c)
{
	struct usage *u = usage_of(x);
	int err;

	*c = (struct claim){ 0 };
	if ((more.bytes <= 0 && more.inodes <= 0) || !row || !ledger_row(&u->ledger, rq->uid))
		return 0;
	if (more.bytes < 0)
		more.bytes = 0;
	err = claim_of_pool(rq, x, row, more, last);
	if (err)
		atomic_fetch_add(&u->refused, 1);
	else
		*c = (struct claim){ row, more };
	return err;
}

int claim_growth(struct request *rq, struct xlator *x, struct charge *of, const struct extent *e, struct claim *c)
{
	struct amount then = charge_amount(e), now;
	uint32_t row;

	pthread_mutex_lock(&of->lock);
	row = of->row;
	now = of->charged;
	pthread_mutex_unlock(&of->lock);
	return claim_row(rq, x, row, (struct amount){ then.bytes - now.bytes, 0 }, false, c);
}

int claim_more(struct request *rq, struct xlator *x, struct charge *of, uint64_t bytes, bool last, struct claim *c)
{
	uint32_t row;

	pthread_mutex_lock(&of->lock);
	row = of->row;
	pthread_mutex_unlock(&of->lock);
	return claim_row(rq, x, row, (struct amount){ (int64_t)bytes, 0 }, last, c);
}

int claim_birth(struct request *rq, struct xlator *x, uint64_t size, uint64_t xattrs, bool last, struct claim *c)
{
	return claim_row(rq, x, ledger_row(&usage_of(x)->ledger, rq->uid),
			 charge_amount(&(struct extent){ .size = size, .xattrs = xattrs }), last, c);
}

static bool is_number(const char *name)
{
	size_t digits = strspn(name, "0123456789abcdef");

	return digits >= 1 && digits <= 2 && !name[digits];
}

bool is_put_aside(const char *name)
{
	size_t kind = strcspn(name, ".");
	char text[GFID_TEXT];
	struct gfid gfid;

	if (!strcmp(name, ".stratus.dht") || !strcmp(name, "away") || !strcmp(name, "work") || is_number(name))
		return true;
	snprintf(text, sizeof(text), "%s", name[kind] ? name + kind + 1 : "");
	return kind >= 1 && kind <= 3 && !gfid_parse(text, &gfid);
}

void claim_end(struct xlator *x, struct claim *c)
{
	if (c->amount.bytes || c->amount.inodes)
		ledger_unclaim(&usage_of(x)->ledger, c->row, c->amount);
	*c = (struct claim){ 0 };
}

static uint64_t not_below_0(int64_t n)
{
	return n > 0 ? (uint64_t)n : 0;
}

/* Who has a limit sees that as the size of the file system. */
int usage_statfs(struct request *rq, struct xlator *x, const struct statfs_in *in, struct statfs_out *out)
{
	struct amount limit, left, usable;
	struct statfs *s = &out->statfs;
	int err = statfs_on(rq, x->child[0], in, out);

	if (err || !ledger_left(&usage_of(x)->ledger, rq->uid, &limit, &left, &usable) || !s->frsize)
		return err;
	if (limit.bytes) {
		s->blocks = (uint64_t)limit.bytes / s->frsize;
		s->bfree = not_below_0(left.bytes) / s->frsize;
		usable.bytes = (int64_t)(not_below_0(usable.bytes) / s->frsize);
		if (s->bavail >
		    (uint64_t)usable.bytes) /* what is used is what is charged, though the brick be full of others' files */
			s->bavail = (uint64_t)usable.bytes;
	}
	if (limit.inodes) {
		s->files = (uint64_t)limit.inodes;
		s->ffree = not_below_0(left.inodes);
	}
	return 0;
}
