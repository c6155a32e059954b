/* SPDX-License-Identifier: Apache-2.0 */
/* While a subvolume is being emptied the roots of the others say which ("Another one than the last" in doc/distribution.md): for its names have left the root then, so no layout tells
 * of it, and a client whose graph lacks it would take the intents whose records are there for such as have gone. And whoever goes on after the removal was cancelled knows by
 * it where directories may have a layout that is half written. */
#include "rebalance.h"

#include <errno.h>
#include <stdlib.h>

/* ---- who may end what others left ---- */

int leaver_said(struct request *rq, struct dht *d, int child, int64_t *leaver)
{
	cleanup_inode struct inode *root = root_of(d);
	struct getxattr_in in = { .inode = root, .name = DHT_LEAVES_XATTR };
	struct getxattr_out out = { 0 };
	uint32_t number = 0;
	int err = root ? getxattr_on(rq, d->x->child[child], &in, &out) : -ENOMEM;

	if (!err)
		err = leaves_decode(out.value.bytes, out.value.size, &number);
	fop_out_clear(FOP_getxattr, &out);
	*leaver = err ? -1 : (int64_t)number;
	return err == -ENODATA || err == -EOPNOTSUPP ? 0 : err;
}

int leaver_is_known(struct request *rq, struct dht *d, int child)
{
	int64_t leaver;
	int err = leaver_said(rq, d, child, &leaver);

	if (err || leaver < 0 || has_subvolume(d, (uint64_t)leaver) || MUTANT("end-unknown"))
		return err;
	if (!atomic_exchange(&d->lacking_told, true))
		log_warning(
			d->x, NULL,
			"%s says that subvolume %lld leaves, which this volume file lacks: what others have left there is not ended "
			"from here; if it has left already, `stratus rebalance start` sets that right",
			d->x->child[child]->name, (long long)leaver);
	return -ENXIO;
}

/* The layout has it until its names have left the root, and has it again before the root says so no more: so one of the three answers tells. */
int knows_all(struct request *rq, struct dht *d, int child)
{
	int err = layout_check(rq, d, true);

	if (!err)
		err = leaver_is_known(rq, d, child);
	return err ? err : layout_check(rq, d, true);
}

/* ---- who empties it, or gives it names again ---- */

enum { NOBODY = -1, NONSENSE = -2 };

static int64_t number_in(const struct getxattr_out *out)
{
	uint32_t number;

	if (!out)
		return NOBODY;
	return leaves_decode(out->value.bytes, out->value.size, &number) ? NONSENSE : (int64_t)number;
}

/* By subvolume: whom it says. Also if one does not answer: then that is told, and the others are asked all the same. */
static int ask_all(struct rebalance *r, int64_t said[SUBVOLUMES_MAX])
{
	struct getxattr_in in = { .inode = r->dir, .name = DHT_LEAVES_XATTR };
	struct fanout *f = NULL;
	struct request rq;
	int err;

	for (int i = 0; i < SUBVOLUMES_MAX; i++)
		said[i] = NOBODY;
	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = place_say_newest(&rq, r->d);
	if (!err)
		f = fanout_start(&rq, r->d->x, FOP_getxattr, &in, all_of(r->d));
	err = f ? 0 : err ? err : -ENOMEM;
	if (f)
		fanout_wait(f, r->d->x->children, rq.deadline_ns);
	for (int i = 0; f && i < r->d->x->children; i++) {
		int one = 0;

		if (!(all_of(r->d) >> i & 1))
			continue;
		said[i] = number_in(fanout_out(f, i, &one));
		one = fanout_error(&rq, one);
		if (one && one != -ENODATA && one != -EOPNOTSUPP)
			err = rebalance_problem(r, one, "waiting for %s: %s", subvolume_name(r, i), error_text(one));
	}
	if (f)
		fanout_drop(f);
	request_finish(&rq);
	return err;
}

/* Of a brick of the version before, above which are tenants, nobody is told: it takes no such xattr. */
static int say(struct rebalance *r, int child, int64_t leaver)
{
	uint8_t bytes[LEAVES_SIZE];
	struct setxattr_in set = { .inode = r->dir, .name = DHT_LEAVES_XATTR, .value = { LEAVES_SIZE, bytes } };
	struct removexattr_in remove = { .inode = r->dir, .name = DHT_LEAVES_XATTR };
	struct setxattr_out was_set = { 0 };
	struct removexattr_out removed = { 0 };
	struct request rq;
	int err;

	leaves_encode((uint32_t)leaver, bytes);
	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = place_say_newest(&rq, r->d);
	if (!err)
		err = leaver == NOBODY ? removexattr_on(&rq, r->d->x->child[child], &remove, &removed)
				       : setxattr_on(&rq, r->d->x->child[child], &set, &was_set);
	request_finish(&rq);
	if (err && err != -ENODATA && err != -EPERM && err != -EOPNOTSUPP)
		return rebalance_problem(r, err, "%s can't be told who leaves: %s", subvolume_name(r, child), error_text(err));
	return 0;
}

static int say_to_all(struct rebalance *r, const int64_t said[SUBVOLUMES_MAX], int64_t leaver)
{
	int err = 0;

	for (int i = 0; i < r->d->x->children && !err; i++) {
		int64_t wanted = i == leaver ? NOBODY : leaver;

		if (has_subvolume(r->d, (uint64_t)i) && said[i] != wanted)
			err = say(r, i, wanted);
	}
	return err;
}

/* Of those that are to stay. */
static int complete_those(struct rebalance *r, const int64_t said[SUBVOLUMES_MAX])
{
	uint64_t done = 0;
	int err = 0;

	for (int i = 0; i < r->d->x->children && !MUTANT("leave-half-written"); i++) {
		int64_t leaver = said[i];
		int one;

		if (leaver < 0 || !has_subvolume(r->d, (uint64_t)leaver) || is_leaving(r->d, (int)leaver) || done >> leaver & 1)
			continue;
		done |= 1ull << leaver;
		one = complete_directories(r, (int)leaver);
		err = err ? err : one;
	}
	return err;
}

int leaver_say(struct rebalance *r)
{
	int64_t said[SUBVOLUMES_MAX];
	int err = ask_all(r, said);

	if (!err)
		err = complete_those(r, said);
	return err ? err : say_to_all(r, said, r->d->leaving);
}

int leaver_unsay(struct rebalance *r)
{
	int64_t said[SUBVOLUMES_MAX];
	int err = ask_all(r, said);

	return err ? err : say_to_all(r, said, NOBODY);
}

int leavers_complete(struct rebalance *r, bool unsay)
{
	int64_t said[SUBVOLUMES_MAX];
	int down = ask_all(r, said), err = complete_those(r, said); /* one that is down need not have a part of them */

	if (!err && unsay)
		return say_to_all(r, said, NOBODY); /* who is down hears of it the next time; nobody waits for that */
	return err ? err : down;
}
