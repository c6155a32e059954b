/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that have a limit of their own: each has a row in the ledger as an account has, found by the number that is the tag of all that is below it. One whose limit is
 * taken away leaves its tags behind, which no row has any more, and numbers are never given again. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "ledger-file.h"

/* ---- finding ---- */

static uint16_t *place_of(const struct ledger *l, uint64_t id)
{
	size_t i = id & (DIR_PLACES - 1);

	while (l->dir_place[i] && l->file->dir[l->dir_place[i] - 1].id != id)
		i = (i + 1) & (DIR_PLACES - 1);
	return &l->dir_place[i];
}

void dirs_index(struct ledger *l)
{
	memset(l->dir_place, 0, DIR_PLACES * sizeof(*l->dir_place));
	l->dirs = 0;
	for (unsigned i = 0; i < DIRS_MAX; i++)
		if (l->file->dir[i].id) {
			*place_of(l, l->file->dir[i].id) = (uint16_t)(i + 1);
			l->hold[ACCOUNTS_MAX + i].limit = l->file->dir[i].limit;
			l->dirs++;
		}
}

/* 1 and more; 0: there is none. */
static uint32_t number_of(const struct ledger *l, uint64_t id)
{
	return id ? *place_of(l, id) : 0;
}

uint32_t dirs_row(const struct ledger *l, uint64_t id)
{
	uint32_t number = number_of(l, id);

	return number ? ACCOUNTS_MAX + number - 1 : 0;
}

static struct hold *hold_of(struct ledger *l, uint64_t id)
{
	uint32_t row = dirs_row(l, id);

	return row ? &l->hold[row] : NULL;
}

static void begins(struct ledger *l, uint64_t id)
{
	struct hold *h = hold_of(l, id);

	if (h)
		atomic_fetch_add(&h->begun, 1);
}

static struct amount used_below(const struct ledger *l, uint32_t number)
{
	return plus(l->file->dir[number - 1].amount[l->file->bank], l->hold[ACCOUNTS_MAX + number - 1].orphans);
}

/* ---- what is charged ---- */

struct pending_dirs dirs_after(const struct ledger *l, const struct entry *from, const struct entry *to)
{
	const struct ledger_file *f = l->file;
	struct pending_dirs p = { { number_of(l, from->dir), number_of(l, to->dir) }, { { 0 } }, to->dir };

	if (p.number[0])
		p.after[0] = minus(f->dir[p.number[0] - 1].amount[f->bank], kept(from));
	if (p.number[1])
		p.after[1] = plus(p.number[0] == p.number[1] ? p.after[0] : f->dir[p.number[1] - 1].amount[f->bank], kept(to));
	return p;
}

void dirs_move_orphan(struct ledger *l, const struct entry *from, const struct entry *to)
{
	struct hold *was = from->orphan ? hold_of(l, from->dir) : NULL, *is = to->orphan ? hold_of(l, to->dir) : NULL;

	if (was)
		was->orphans = minus(was->orphans, from->amount);
	if (is)
		is->orphans = plus(is->orphans, to->amount);
}

void dirs_moved(struct ledger *l, const struct entry *from, const struct entry *to)
{
	if (from->dir == to->dir)
		return;
	begins(l, from->dir);
	begins(l, to->dir);
}

/* Of a tag that no row has nobody knows whether it is of a directory that is to be met yet. (In a replica set each has one.) */
void dirs_count(struct ledger *l, uint64_t id, struct amount more)
{
	uint32_t row = dirs_row(l, id);

	if (row)
		l->sum[row] = plus(l->sum[row], more);
	else if (id && (l->file->replicated || !l->file->dirs_known))
		l->unmet = true;
}

size_t dirs_many(const struct ledger *l)
{
	return l->dirs;
}

void dirs_read(const struct ledger *l, struct reading *list)
{
	for (uint32_t i = 0; i < DIRS_MAX; i++) {
		const struct dir *d = &l->file->dir[i];
		const struct hold *h = &l->hold[ACCOUNTS_MAX + i];

		if (d->id)
			*list++ = (struct reading){ .range.base = l->file->row[0][d->account % ACCOUNTS_MAX].base,
						    .dir = d->id,
						    .row = ACCOUNTS_MAX + i,
						    .amount = d->amount[l->file->bank],
						    .begun = atomic_load(&h->begun),
						    .busy = h->fresh };
	}
}

void ledger_dir_begins(struct ledger *l, uint64_t id)
{
	if (!id)
		return;
	pthread_mutex_lock(&l->lock);
	begins(l, id);
	pthread_mutex_unlock(&l->lock);
}

/* ---- limits ---- */

uint64_t ledger_dir_new(void)
{
	uint64_t id;

	while (getrandom(&id, sizeof(id), 0) != sizeof(id) || !(id & INT64_MAX))
		;
	return id & INT64_MAX; /* numbers of JSON have a sign */
}

static bool is_nothing(struct amount a)
{
	return !a.bytes && !a.inodes;
}

/* In a replica set: the directory is gone, and now all that was below it. */
static bool is_left_over(const struct ledger *l, uint32_t number)
{
	const struct dir *d = &l->file->dir[number - 1];
	const struct hold *h = &l->hold[ACCOUNTS_MAX + number - 1];

	return l->file->replicated && d->id && !d->handle_size && is_nothing(d->amount[l->file->bank]) &&
	       (!l->sum || is_nothing(l->sum[ACCOUNTS_MAX + number - 1])) && is_nothing(h->orphans) && is_nothing(h->claimed);
}

static void drop_left_over(struct ledger *l)
{
	bool any = false;

	for (uint32_t number = 1; number <= DIRS_MAX; number++)
		if (is_left_over(l, number)) {
			atomic_store(&l->file->dir[number - 1].id, 0);
			any = true;
		}
	if (any)
		dirs_index(l);
}

static unsigned of_account(const struct ledger *l, uint32_t account)
{
	unsigned many = 0;

	for (uint32_t i = 0; i < DIRS_MAX; i++)
		many += l->file->dir[i].id && l->file->dir[i].account == account;
	return many;
}

/* How many an account may have a replica set's first member decides, and nothing of what there is goes without a row. */
static int free_number(const struct ledger *l, uint32_t account, uint32_t *number)
{
	*number = 0;
	for (uint32_t i = 0; i < DIRS_MAX && !*number; i++)
		if (!l->file->dir[i].id)
			*number = i + 1;
	return !*number || (!l->file->replicated && of_account(l, account) >= DIRS_OF_ACCOUNT) ? -ENOSPC : 0;
}

/* With the lock held. The number is stored last: who is killed before has added nothing. */
static void take(struct ledger *l, uint32_t number, const struct dir *what)
{
	struct dir *d = &l->file->dir[number - 1];
	struct hold *h = &l->hold[ACCOUNTS_MAX + number - 1];

	h->limit = what->limit;
	h->claimed = h->orphans = (struct amount){ 0 };
	h->fresh = true;
	if (l->sum)
		l->sum[ACCOUNTS_MAX + number - 1] = (struct amount){ 0 };
	memcpy((char *)d + sizeof(d->id), (const char *)what + sizeof(d->id), sizeof(*d) - sizeof(d->id));
	memset(d->amount, 0, sizeof(d->amount));
	atomic_store(&d->id, what->id);
	*place_of(l, what->id) = (uint16_t)number;
	l->dirs++;
}

static int add(struct ledger *l, const struct dir *what)
{
	uint32_t number;
	int err = free_number(l, what->account, &number);

	if (err && l->file->replicated) {
		drop_left_over(l);
		err = free_number(l, what->account, &number);
	}
	if (!err)
		take(l, number, what);
	return err;
}

/* A row that was needed before its directory was met. What says that it has a handle is stored last. */
static void get_directory(struct ledger *l, uint32_t number, const struct dir *what)
{
	struct dir *d = &l->file->dir[number - 1];

	if (d->handle_size)
		return;
	d->account = what->account;
	d->limit = l->hold[ACCOUNTS_MAX + number - 1].limit = what->limit;
	memcpy(d->handle, what->handle, sizeof(d->handle));
	__atomic_store_n(&d->handle_size, what->handle_size, __ATOMIC_SEQ_CST);
}

int ledger_dir_add(struct ledger *l, const struct dir *what)
{
	uint32_t number;
	int err = 0;

	pthread_mutex_lock(&l->lock);
	number = number_of(l, what->id);
	if (!number)
		err = add(l, what);
	else if (l->file->replicated)
		get_directory(l, number, what);
	pthread_mutex_unlock(&l->lock);
	return err;
}

int dirs_need(struct ledger *l, uint64_t id, uint32_t account)
{
	const struct dir what = { .id = id, .account = account };
	uint32_t number;
	int err;

	if (!l->file->replicated || !id || number_of(l, id))
		return 0;
	err = add(l, &what);
	number = number_of(l, id);
	if (number)
		l->hold[ACCOUNTS_MAX + number - 1].fresh = false;
	return err;
}

int ledger_dir_need(struct ledger *l, uint64_t id, uint32_t account)
{
	int err;

	pthread_mutex_lock(&l->lock);
	err = dirs_need(l, id, account);
	pthread_mutex_unlock(&l->lock);
	return err;
}

int ledger_dir_room(struct ledger *l, uint32_t account, enum limits_rule rule)
{
	enum { SPARE = DIRS_MAX / 16 }; /* for what is brought to a member by healing */
	bool decided = rule == LIMITS_DECIDED;
	unsigned most = decided ? 2 * DIRS_OF_ACCOUNT : DIRS_OF_ACCOUNT;
	size_t all = decided ? DIRS_MAX : DIRS_MAX - SPARE;
	int err = 0;

	pthread_mutex_lock(&l->lock);
	if (of_account(l, account) >= most || l->dirs >= all)
		drop_left_over(l);
	if (of_account(l, account) >= most || l->dirs >= all)
		err = -EDQUOT;
	pthread_mutex_unlock(&l->lock);
	return err;
}

void ledger_dir_gone(struct ledger *l, uint64_t id)
{
	uint32_t number;

	if (!l->file->replicated) {
		ledger_dir_drop(l, id);
		return;
	}
	pthread_mutex_lock(&l->lock);
	number = number_of(l, id);
	if (number) {
		__atomic_store_n(&l->file->dir[number - 1].handle_size, 0, __ATOMIC_SEQ_CST);
		l->file->dir[number - 1].limit = l->hold[ACCOUNTS_MAX + number - 1].limit = (struct amount){ 0 };
		l->hold[ACCOUNTS_MAX + number - 1].fresh = false;
	}
	if (number && is_left_over(l, number)) {
		atomic_store(&l->file->dir[number - 1].id, 0);
		dirs_index(l);
	}
	pthread_mutex_unlock(&l->lock);
}

void ledger_dir_settled(struct ledger *l, uint64_t id)
{
	struct hold *h;

	pthread_mutex_lock(&l->lock);
	h = hold_of(l, id);
	if (h)
		h->fresh = false;
	pthread_mutex_unlock(&l->lock);
}

void ledger_dir_limit(struct ledger *l, uint64_t id, struct amount limit)
{
	uint32_t number;

	pthread_mutex_lock(&l->lock);
	number = number_of(l, id);
	if (number) {
		l->file->dir[number - 1].limit = limit;
		l->hold[ACCOUNTS_MAX + number - 1].limit = limit;
	}
	pthread_mutex_unlock(&l->lock);
}

void ledger_dir_drop(struct ledger *l, uint64_t id)
{
	uint32_t number;

	pthread_mutex_lock(&l->lock);
	number = number_of(l, id);
	if (number) {
		atomic_store(&l->file->dir[number - 1].id, 0);
		dirs_index(l);
	}
	pthread_mutex_unlock(&l->lock);
}

bool ledger_dir_lives(struct ledger *l, uint64_t id)
{
	bool lives;

	if (!id)
		return false;
	pthread_mutex_lock(&l->lock);
	lives = number_of(l, id) || !l->file->dirs_known || l->file->replicated;
	pthread_mutex_unlock(&l->lock);
	return lives;
}

size_t ledger_dirs(struct ledger *l)
{
	size_t many;

	pthread_mutex_lock(&l->lock);
	many = l->dirs;
	pthread_mutex_unlock(&l->lock);
	return many;
}

bool ledger_dirs_known(struct ledger *l)
{
	bool known;

	pthread_mutex_lock(&l->lock);
	known = l->file->dirs_known;
	pthread_mutex_unlock(&l->lock);
	return known;
}

bool ledger_dir_next(struct ledger *l, uint32_t *number, struct dir *copy, struct amount *used)
{
	bool found = false;

	pthread_mutex_lock(&l->lock);
	for (; !found && *number < DIRS_MAX; ++*number)
		if (l->file->dir[*number].id) {
			*copy = l->file->dir[*number];
			*used = used_below(l, *number + 1);
			found = true;
		}
	pthread_mutex_unlock(&l->lock);
	return found;
}

bool ledger_dir_read(struct ledger *l, uint64_t id, struct dir *copy, struct amount *used)
{
	uint32_t number;

	pthread_mutex_lock(&l->lock);
	number = number_of(l, id);
	if (number) {
		*copy = l->file->dir[number - 1];
		*used = used_below(l, number);
	}
	pthread_mutex_unlock(&l->lock);
	return number;
}

/* At a member of a set that does not decide (C9). */
static struct amount limit_by(const struct ledger *l, struct amount limit, enum limits_rule rule)
{
	if (rule == LIMITS_ASK)
		return limit_near(l, limit);
	return rule == LIMITS_DECIDED ? limit_beyond(l, limit) : limit;
}

int ledger_dir_claim(struct ledger *l, uint64_t id, struct amount more, enum limits_rule rule)
{
	uint32_t number;
	struct amount used, limit;
	struct hold *h;
	int err = 0;

	pthread_mutex_lock(&l->lock);
	number = number_of(l, id);
	if (number) {
		h = &l->hold[ACCOUNTS_MAX + number - 1];
		used = used_below(l, number);
		limit = limit_by(l, h->limit, rule);
		if (is_over(limit.bytes, used.bytes, h->claimed.bytes, more.bytes) ||
		    is_over(limit.inodes, used.inodes, h->claimed.inodes, more.inodes))
			err = rule == LIMITS_ASK ? -EASKFIRST : -EDQUOT;
		else
			h->claimed = plus(h->claimed, more);
	}
	pthread_mutex_unlock(&l->lock);
	return err;
}

/* The row may have gone, and with it what was claimed. */
void ledger_dir_unclaim(struct ledger *l, uint64_t id, struct amount more)
{
	struct hold *h;

	pthread_mutex_lock(&l->lock);
	h = hold_of(l, id);
	if (h)
		h->claimed = minus(h->claimed, more);
	pthread_mutex_unlock(&l->lock);
}

int ledger_sync(struct ledger *l)
{
	task_blocks();
	return msync(l->file, sizeof(*l->file), MS_SYNC) ? -errno : 0;
}
