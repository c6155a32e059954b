/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/afr: keeps the same tree at several bricks. What it does is in the files beside; here is what it is. */

#include <ifaddrs.h>
#include <netdb.h>

#include "afr.h"

static const struct option options[] = {
	{ "read-policy", OPTION_ENUM, OPTION_AT(struct afr, policy), "local",
	  "who answers reads: local: a member on this machine, if there is one, else as hash; hash: file data spread by file; "
	  "least: file data from the member with the fewest requests under way",
	  .choices = "hash|local|least", .live = true },
	{ "arbiter", OPTION_BOOL, OPTION_AT(struct afr, arbiter), "off",
	  "the last member holds names and attributes, but no data" },
	{ "member-timeout", OPTION_DURATION, OPTION_AT(struct afr, member_timeout_ms), "4s",
	  "a member that does not answer for so long is reported, and left out", 100, 3600000, .live = true },
	{ "max-wait", OPTION_DURATION, OPTION_AT(struct afr, max_wait_ms), "30s",
	  "an operation that can't be done for so long fails (EIO)", 1000, 86400000, .live = true },
	{ NULL },
};

/* ---- which members are on this machine ---- */

static bool own_address(const char *host)
{
	char text[NI_MAXHOST];
	struct ifaddrs *list, *i;
	bool own = false;

	if (getifaddrs(&list))
		return false;
	for (i = list; i && !own; i = i->ifa_next) {
		socklen_t size;

		if (!i->ifa_addr || (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6))
			continue;
		size = i->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
		own = !getnameinfo(i->ifa_addr, size, text, sizeof(text), NULL, 0, NI_NUMERICHOST) && !strcmp(text, host);
	}
	freeifaddrs(list);
	return own;
}

static unsigned members_here(const struct xlator *x)
{
	unsigned mask = 0;

	for (int i = 0; i < x->children; i++)
		for (size_t k = 0; k < x->child[i]->given_count; k++) {
			const struct option_value *o = &x->child[i]->given[k];

			if (!strcmp(o->name, "remote-host") && (!strcmp(o->value, "localhost") || own_address(o->value)))
				mask |= 1u << i;
		}
	return mask;
}

static int afr_init(struct xlator *x, struct problem *p)
{
	struct afr *a = x->private;
	struct gfid id;

	if (a->arbiter && x->children != 3)
		return problem_set(p, EINVAL, "volume %s: an arbiter makes sense only as the last of three members, not of %d",
				   x->name, x->children);
	a->x = x;
	a->members = x->children;
	a->arbiter_at = a->arbiter ? 2 : REPLICAS_MAX;
	pthread_mutex_init(&a->lock, NULL);
	gfid_create(&id);
	memcpy(a->session, id.bytes, sizeof(a->session));
	a->flights.next = a->flights.prev = &a->flights;
	a->view.members = (uint8_t)x->children;
	atomic_store(&a->local, members_here(x));
	moments_begin();
	object_init(&a->rename_token, NULL);
	return 0;
}

static void end_session(void *arg)
{
	struct afr *a = arg;

	pthread_mutex_lock(&a->lock);
	while (a->tasks)
		task_cond_wait(&a->changed, &a->lock, NO_DEADLINE);
	pthread_mutex_unlock(&a->lock);
	afr_detach(a);
}

static void afr_stop(struct xlator *x)
{
	struct afr *a = x->private;

	pthread_mutex_lock(&a->lock);
	a->stopping = true;
	pthread_mutex_unlock(&a->lock);
	if (task_self())
		end_session(a);
	else
		task_call(end_session, a);
}

static void afr_finish(struct xlator *x)
{
	struct afr *a = x->private;

	free(a->leaving);
	free(a->lowering);
	pthread_mutex_destroy(&a->rename_token.lock);
	pthread_mutex_destroy(&a->lock);
}

/* ---- what members tell ---- */

static int child_number(const struct xlator *x, const struct xlator *from)
{
	for (int i = 0; i < x->children; i++)
		if (x->child[i] == from)
			return i;
	return -1;
}

void afr_child_changed(struct xlator *x, int child, bool connected)
{
	struct afr *a = x->private;
	bool up = connected && (!is_tenants(a) || root_agrees(a, child));
	unsigned bit = 1u << child, before = up ? atomic_fetch_or(&a->up, bit) : atomic_fetch_and(&a->up, ~bit);
	struct event e = { .kind = up ? EVENT_CHILD_UP : EVENT_CHILD_DOWN };

	pthread_mutex_lock(&a->lock);
	a->stale = true;
	a->gaps += !up;
	a->root_known &= up || before != bit;
	pthread_mutex_unlock(&a->lock);
	task_cond_broadcast(&a->changed);
	if (up ? !before : before == bit) /* the first came, or the last went */
		event_up(x, &e);
}

static void asked_back(struct afr *a, const struct event *e)
{
	struct gfid g = event_gfid(e);
	cleanup_inode struct inode *inode = NULL;
	struct object *o;

	if (e->lock.owner == RECALL_TO_SHARE) {
		token_lowered(a, &g);
		return;
	}
	pthread_mutex_lock(&a->lock);
	a->recalled++;
	pthread_mutex_unlock(&a->lock);
	if (gfid_equal(&g, &gfid_rename_token)) {
		token_recalled(a, &a->rename_token);
		return;
	}
	inode = inode_find(a->x->inodes, &g);
	o = inode ? object_of(a, inode) : NULL;
	if (o)
		token_recalled(a, o);
	else
		token_leaves(a, &g, 0);
}

static void afr_notify(struct xlator *x, struct xlator *from, const struct event *e)
{
	struct afr *a = x->private;
	int child = child_number(x, from);

	switch (e->kind) {
	case EVENT_CHILD_UP:
	case EVENT_CHILD_DOWN:
		afr_child_changed(x, child, e->kind == EVENT_CHILD_UP);
		break;
	case EVENT_RECALL:
		asked_back(a, e);
		break;
	case EVENT_SETTLE:
		afr_settle_now(a);
		break;
	case EVENT_VIEW:
		pthread_mutex_lock(&a->lock);
		a->stale = true;
		pthread_mutex_unlock(&a->lock);
		break;
	case EVENT_LOCK_LOST:
		lock_lost_at(a, child, e);
		break;
	case EVENT_STALE_FILE: /* one member's; the others have it */
		break;
	default:
		event_up(x, e);
	}
}

static void afr_forget_inode(struct xlator *x, struct inode *inode, void *slot)
{
	const struct object *o = slot;

	if (o->token == TOKEN_HELD)
		token_leaves(afr_of(x), &inode->gfid, o->epoch);
	object_free(slot);
}

static void afr_forget_file(struct xlator *x, struct file *file, void *slot)
{
	locks_end(afr_of(x), file, slot); /* also where it was not closed before */
	opened_free(slot);
}

struct noted {
	struct xlator *x;
	unsigned long locks;
};

static void count_locks(struct inode *inode, void *arg)
{
	struct noted *n = arg;
	struct object *o = inode_slot(inode, n->x);

	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	n->locks += o->helds;
	pthread_mutex_unlock(&o->lock);
}

static void afr_dump(struct xlator *x, FILE *f)
{
	static const char *const states[] = { "out", "back", "in" };
	struct afr *a = x->private;
	struct noted noted = { x, 0 };

	inode_table_each(x->inodes, count_locks, &noted);
	fprintf(f, "  locks noted: %lu\n", noted.locks);
	pthread_mutex_lock(&a->lock);
	fprintf(f, "  epoch: %llu%s\n", (unsigned long long)a->view.epoch, a->stale ? " (to be fetched)" : "");
	for (int i = 0; i < a->members; i++)
		fprintf(f, "  member %d: %s, %s, under way %d\n", i, states[a->view.state[i]],
			atomic_load(&a->up) >> i & 1 ? "connected" : "not connected", atomic_load(&a->outstanding[i]));
	fprintf(f,
		"  changes: %llu\n  sent again: %llu\n  tokens acquired: %llu\n  tokens returned: %llu\n  tokens shared: %llu\n  tokens asked back: %llu\n"
		"  members reported: %llu\n  failed half done: %llu\n  objects resolved: %llu\n  views: %llu\n",
		(unsigned long long)a->changes, (unsigned long long)a->retries, (unsigned long long)a->acquired,
		(unsigned long long)a->released, (unsigned long long)a->lowered, (unsigned long long)a->recalled,
		(unsigned long long)a->suspected, (unsigned long long)a->failed, (unsigned long long)a->resolves,
		(unsigned long long)a->views);
	pthread_mutex_unlock(&a->lock);
}

/* ---- operations ---- */

static int afr_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	if (fop == FOP_compound || fop == FOP_replica) /* nobody above sends them: see doc/replication.md */
		return -EOPNOTSUPP;
	return fop_info[fop].flags & FOP_MUTATES ? afr_change(rq, x, fop, in, out) : afr_read(rq, x, fop, in, out);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "cluster/afr",
	.summary = "the same tree at several bricks",
	.options = options,
	.private_size = sizeof(struct afr),
	.min_children = 2,
	.max_children = REPLICAS_MAX,
	.orders_locks = true,
	.init = afr_init,
	.stop = afr_stop,
	.finish = afr_finish,
	.notify = afr_notify,
	.forget_inode = afr_forget_inode,
	.forget_file = afr_forget_file,
	.dump = afr_dump,
	.believe = afr_believe,
	.any = afr_any,
	.getxattr = afr_getxattr,
	.statfs = afr_statfs,
	.write = afr_write,
	.copy_range = afr_copy_range,
	.rename = afr_rename,
	.rmdir = afr_rmdir,
	.create = afr_create,
	.open = afr_open,
	.opendir = afr_opendir,
	.release = afr_release,
	.flush = afr_flush,
	.fsync = afr_fsync,
	.setlk = afr_setlk,
	.readdir = afr_readdir,
};
