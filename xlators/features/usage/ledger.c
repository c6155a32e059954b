/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger: a file that is mapped, so that what the process has stored is there when it was killed. What a power cut leaves is not to be
 * trusted: the boot of the machine is noted, and another one means a recount, unless the last end was a clean one.
 *
 *   head | rows of bank 0 | rows of bank 1 | notes
 *
 * A change of the counters stores first what they are to become (absolute numbers), then does that: who finds it half done does it again. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "ledger-file.h"

/* ---- the file ---- */

static int map(struct ledger *l, const char *path, struct problem *p)
{
	off_t size;
	void *at;

	l->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (l->fd < 0)
		return problem_set(p, errno, "can't open the ledger %s: %s", path, strerror(errno));
	size = lseek(l->fd, 0, SEEK_END);
	if (size && size != sizeof(struct ledger_file) && size != LEDGER_SIZE_1)
		return problem_set(p, EINVAL, "%s is no ledger of this version: move it away, and all is counted anew", path);
	if (size != sizeof(struct ledger_file) && ftruncate(l->fd, sizeof(struct ledger_file)) < 0)
		return problem_set(p, errno, "can't make the ledger %s: %s", path, strerror(errno));
	at = mmap(NULL, sizeof(struct ledger_file), PROT_READ | PROT_WRITE, MAP_SHARED, l->fd, 0);
	if (at == MAP_FAILED)
		return problem_set(p, errno, "can't map the ledger %s: %s", path, strerror(errno));
	l->file = at;
	return 0;
}

/* A page that can't be written later, for the disk is full, would end the process: all that is ever used is there from the beginning. */
static int reserve(struct ledger *l, const char *path, struct problem *p)
{
	int err = posix_fallocate(l->fd, 0, sizeof(struct ledger_file));

	return err ? problem_set(p, err, "no room for the ledger %s (%zu bytes): %s", path, sizeof(struct ledger_file),
				 strerror(err))
		   : 0;
}

static bool makes_sense(const struct ledger_file *f)
{
	return (f->version == 1 || f->version == VERSION) && f->order == ORDER && f->bank < 2 && f->rows &&
	       f->rows <= ACCOUNTS_MAX;
}

static void begin_anew(struct ledger_file *f)
{
	memset(f, 0, sizeof(*f));
	memcpy(f->magic, MAGIC, sizeof(f->magic));
	f->version = VERSION;
	f->order = ORDER;
	f->rows = 1;
	f->owed = 1;
}

/* What version 1 had no room for is zeros: it knew of no directories with limits. */
static void become_current(struct ledger_file *f)
{
	if (f->version == VERSION)
		return;
	f->dirs_known = 1;
	f->version = VERSION;
}

static void finish_pending(struct ledger *l)
{
	struct ledger_file *f = l->file;
	const struct pending *p = &f->pending;
	const struct pending_dirs *d = &f->pending_dirs;

	for (int i = 0; i < 2; i++)
		if (p->row[i] < ACCOUNTS_MAX)
			f->row[f->bank][p->row[i]].amount = p->after[i];
	for (int i = 0; i < 2; i++)
		if (d->number[i] && d->number[i] <= DIRS_MAX)
			f->dir[d->number[i] - 1].amount[f->bank] = d->after[i];
	if (p->note >= 0 && p->note < NOTES) {
		f->note[p->note].row = p->note_row;
		f->note[p->note].charged = p->note_after;
		f->note_dir[p->note] = d->note_dir;
	}
	atomic_store(&f->half_done, 0);
}

static int take_up(struct ledger *l, const char *path, bool replicated, struct problem *p)
{
	static const char nothing[8];
	struct ledger_file *f = l->file;
	uint64_t boot = runtime_boot();

	if (!memcmp(f->magic, nothing, sizeof(nothing)))
		begin_anew(f);
	else if (memcmp(f->magic, MAGIC, sizeof(f->magic)) || !makes_sense(f))
		return problem_set(p, EINVAL, "%s is no ledger, or a damaged one: move it away, and all is counted anew", path);
	become_current(f);
	if (atomic_load(&f->half_done))
		finish_pending(l);
	if (f->replicated != replicated || (!f->clean && (!boot || f->boot != boot))) {
		f->owed = 1;
		f->dirs_known = 0;
		memset(f->note, 0, sizeof(f->note));
	}
	if (f->unnoted)
		f->owed = 1;
	f->unnoted = 0;
	f->replicated = replicated;
	f->boot = boot;
	f->clean = 0;
	return msync(f, sizeof(*f), MS_SYNC) ? problem_set(p, errno, "can't write the ledger %s: %s", path, strerror(errno))
					     : 0;
}

int ledger_open(struct ledger *l, const char *path, bool replicated, bool *owed, struct problem *p)
{
	int err;

	pthread_mutex_init(&l->lock, NULL);
	pthread_mutex_init(&l->soft_lock, NULL);
	l->file = NULL;
	l->opened_ns = clock_ns();
	l->hold = calloc(ROWS, sizeof(*l->hold));
	l->dir_place = calloc(DIR_PLACES, sizeof(*l->dir_place));
	err = l->hold && l->dir_place ? map(l, path, p) : problem_set(p, ENOMEM, "no memory for the accounts");
	if (!err)
		err = reserve(l, path, p);
	if (!err)
		err = take_up(l, path, replicated, p);
	if (err) {
		ledger_close(l, false);
		return err;
	}
	*owed = l->file->owed;
	dirs_index(l);
	return 0;
}

void ledger_close(struct ledger *l, bool clean)
{
	if (l->file && clean && !l->file->owed) {
		l->file->clean = 1;
		msync(l->file, sizeof(*l->file), MS_SYNC);
	}
	if (l->file)
		munmap(l->file, sizeof(*l->file));
	if (l->fd >= 0)
		close(l->fd);
	ranges_free(&l->ranges);
	free(l->hold);
	free(l->dir_place);
	l->hold = NULL;
	l->dir_place = NULL;
	l->file = NULL;
	l->fd = -1;
	pthread_mutex_destroy(&l->lock);
	pthread_mutex_destroy(&l->soft_lock);
}

/* ---- accounts ---- */

/* The row of that base; one that was never used, or has become free, if it has none. */
static int find_row(struct ledger_file *f, uint64_t base, uint32_t *row)
{
	for (uint32_t i = 1; i < f->rows; i++)
		if (f->row[f->bank][i].base == base) {
			*row = i;
			return 0;
		}
	if (f->rows == ACCOUNTS_MAX)
		return -ENOSPC;
	*row = f->rows;
	f->row[0][*row].base = f->row[1][*row].base = base;
	f->rows++;
	return 0;
}

static void take_limits(struct ledger *l, uint32_t row, const struct range *r)
{
	l->hold[row].limit = r->limit;
	l->hold[row].soft = r->soft;
	l->hold[row].grace = r->grace;
}

int ledger_ranges(struct ledger *l, struct ranges *r)
{
	int err = 0;

	pthread_mutex_lock(&l->lock);
	for (size_t i = 0, k = 0; i < r->count && !err; i++) { /* both by base */
		while (k < l->ranges.count && l->ranges.range[k].base < r->range[i].base)
			k++;
		if (k < l->ranges.count && l->ranges.range[k].base == r->range[i].base)
			r->range[i].row = l->ranges.range[k].row;
		else
			err = find_row(l->file, r->range[i].base, &r->range[i].row);
	}
	if (!err) {
		for (size_t i = 0; i < l->ranges.count; i++)
			take_limits(l, l->ranges.range[i].row, &(struct range){ .count = 0 });
		for (size_t i = 0; i < r->count; i++)
			take_limits(l, r->range[i].row, &r->range[i]);
		ranges_free(&l->ranges);
		l->ranges = *r;
		*r = (struct ranges){ 0 };
	}
	pthread_mutex_unlock(&l->lock);
	return err;
}

uint32_t ledger_row(struct ledger *l, uint32_t uid)
{
	const struct range *r;
	uint32_t row;

	pthread_mutex_lock(&l->lock);
	r = range_of(&l->ranges, uid);
	row = r ? r->row : 0;
	pthread_mutex_unlock(&l->lock);
	return row;
}

struct amount ledger_amount(struct ledger *l, uint32_t row)
{
	struct amount a;

	pthread_mutex_lock(&l->lock);
	a = plus(l->file->row[l->file->bank][row].amount, l->hold[row].orphans);
	pthread_mutex_unlock(&l->lock);
	return a;
}

/* ---- counters ---- */

static bool seen_add(struct seen *, const struct key *); /* true: it is new */

void ledger_begins(struct ledger *l, uint32_t row)
{
	atomic_fetch_add(&l->hold[row].begun, 1);
}

/* Of a recount: what is not in its sum yet comes in as it is now. */
static void count_move(struct ledger *l, const struct key *k, const struct entry *from, const struct entry *to)
{
	if (!atomic_load(&l->counting))
		return;
	if (!seen_add(&l->seen, k)) {
		l->sum[from->row] = minus(l->sum[from->row], kept(from));
		dirs_count(l, from->dir, minus((struct amount){ 0 }, kept(from)));
	}
	l->sum[to->row] = plus(l->sum[to->row], kept(to));
	dirs_count(l, to->dir, kept(to));
}

static void move_orphan(struct ledger *l, const struct entry *from, const struct entry *to)
{
	if (from->orphan)
		l->hold[from->row].orphans = minus(l->hold[from->row].orphans, from->amount);
	if (to->orphan)
		l->hold[to->row].orphans = plus(l->hold[to->row].orphans, to->amount);
	dirs_move_orphan(l, from, to);
}

void ledger_move(struct ledger *l, int note, const struct key *k, const struct entry *from, const struct entry *to)
{
	struct ledger_file *f = l->file;
	struct row *row;
	struct pending *p = &f->pending;

	pthread_mutex_lock(&l->lock);
	if (kept(to).inodes || to->orphan) /* one that nothing had may have been dropped just now */
		f->owed |= dirs_need(l, to->dir, to->row) != 0;
	row = f->row[f->bank];
	*p = (struct pending){ { from->row, to->row }, { minus(row[from->row].amount, kept(from)) }, note, to->row, kept(to) };
	p->after[1] = plus(from->row == to->row ? p->after[0] : row[to->row].amount, kept(to));
	f->pending_dirs = dirs_after(l, from, to);
	atomic_store(&f->half_done, 1);
	finish_pending(l);
	move_orphan(l, from, to);
	count_move(l, k, from, to);
	if (from->row != to->row) {
		ledger_begins(l, from->row);
		ledger_begins(l, to->row);
	}
	dirs_moved(l, from, to);
	pthread_mutex_unlock(&l->lock);
}

/* ---- notes ---- */

/* One whose object is not being changed: its charge is what the counters have. */
static bool steal(struct ledger *l, unsigned i)
{
	struct charge *c = l->owner[i];

	if (pthread_mutex_trylock(&c->lock))
		return false;
	if (c->users) {
		pthread_mutex_unlock(&c->lock);
		return false;
	}
	c->note = NO_NOTE;
	pthread_mutex_unlock(&c->lock);
	l->owner[i] = NULL;
	return true;
}

int ledger_note(struct ledger *l, struct charge *c, const struct note *what)
{
	int found = NO_NOTE;

	pthread_mutex_lock(&l->lock);
	for (unsigned tries = 0; tries < 2 * NOTES && found < 0; tries++) {
		unsigned i = l->hand++ % NOTES;

		if (!l->owner[i] || (tries >= NOTES && l->owner[i] != c && steal(l, i)))
			found = (int)i;
	}
	if (found >= 0) {
		struct note *n = &l->file->note[found];

		atomic_store(&n->state, NOTE_FREE);
		memcpy(&n->row, &what->row, sizeof(*n) - offsetof(struct note, row));
		l->file->note_dir[found] = c->dir;
		atomic_store(&n->state, what->state);
		l->owner[found] = c;
	}
	pthread_mutex_unlock(&l->lock);
	return found;
}

void ledger_unnote(struct ledger *l, int note)
{
	pthread_mutex_lock(&l->lock);
	atomic_store(&l->file->note[note].state, NOTE_FREE);
	l->owner[note] = NULL;
	pthread_mutex_unlock(&l->lock);
}

void ledger_note_born(struct ledger *l, int note, const struct note *what)
{
	struct note *n = &l->file->note[note];

	pthread_mutex_lock(&l->lock);
	memcpy(n->handle, what->handle, sizeof(n->handle));
	n->handle_size = what->handle_size;
	atomic_store(&n->state, NOTE_OBJECT);
	pthread_mutex_unlock(&l->lock);
}

struct note *ledger_notes(struct ledger *l)
{
	return l->file->note;
}

uint64_t ledger_note_dir(struct ledger *l, int note)
{
	return l->file->note_dir[note];
}

void ledger_unnoted(struct ledger *l, int more)
{
	pthread_mutex_lock(&l->lock);
	l->file->unnoted += (uint32_t)more;
	pthread_mutex_unlock(&l->lock);
}

void ledger_owe(struct ledger *l)
{
	pthread_mutex_lock(&l->lock);
	l->file->owed = 1;
	l->doubted = true;
	pthread_mutex_unlock(&l->lock);
}

bool ledger_owes(struct ledger *l)
{
	bool owed;

	pthread_mutex_lock(&l->lock);
	owed = l->file->owed;
	pthread_mutex_unlock(&l->lock);
	return owed;
}

uint64_t ledger_counted_at(struct ledger *l)
{
	uint64_t at;

	pthread_mutex_lock(&l->lock);
	at = l->file->counted_at;
	pthread_mutex_unlock(&l->lock);
	return at;
}

/* ---- readings, with which a count by somebody else is compared ---- */

static struct reading read_row(const struct ledger *l, const struct range *r)
{
	uint32_t row = r ? r->row : 0;

	return (struct reading){ .range = r ? *r : (struct range){ .name = "-" },
				 .row = row,
				 .amount = l->file->row[l->file->bank][row].amount,
				 .begun = atomic_load(&l->hold[row].begun) };
}

/* In whose note a change may be under way. Who holds a charge's lock may be about to begin one. */
static bool is_busy(struct ledger *l, unsigned note, uint32_t *row, uint64_t *dir)
{
	struct charge *c = l->owner[note];
	bool busy;

	*row = l->file->note[note].row;
	*dir = l->file->note_dir[note];
	if (!c || pthread_mutex_trylock(&c->lock))
		return c;
	*row = c->row;
	*dir = c->dir;
	busy = c->users;
	pthread_mutex_unlock(&c->lock);
	return busy;
}

/* What has no note may be of any account. */
static void mark_busy(struct ledger *l, struct reading *list, size_t count, bool *by_row)
{
	uint32_t row;
	uint64_t dir;

	for (unsigned note = 0; note < NOTES; note++)
		if (is_busy(l, note, &row, &dir)) {
			by_row[row] = true;
			by_row[dirs_row(l, dir)] |= dir != 0;
		}
	for (size_t i = 0; i < count; i++)
		list[i].busy |= l->file->unnoted || by_row[list[i].row];
}

/* The numbers are taken before what is under way is looked at: see ledger_begins. */
int ledger_read(struct ledger *l, struct reading **list, size_t *count)
{
	bool *by_row = calloc(ROWS, sizeof(*by_row));
	size_t accounts;
	int err = 0;

	pthread_mutex_lock(&l->lock);
	accounts = l->ranges.count + 1;
	*count = accounts + dirs_many(l);
	*list = malloc(*count * sizeof(**list));
	if (!*list || !by_row)
		err = -ENOMEM;
	for (size_t i = 0; i < accounts && !err; i++)
		(*list)[i] = read_row(l, i ? &l->ranges.range[i - 1] : NULL);
	if (!err)
		dirs_read(l, *list + accounts);
	if (!err)
		mark_busy(l, *list, *count, by_row);
	pthread_mutex_unlock(&l->lock);
	free(by_row);
	if (err) {
		free(*list);
		*list = NULL;
	}
	return err;
}

/* ---- recounts ---- */

static bool is_free(const struct key *k)
{
	return !k->high && !k->low;
}

/* Where it is, or would be. Never full. */
static struct key *seen_place(const struct seen *s, const struct key *k)
{
	size_t i = k->low & (s->size - 1);

	while (!is_free(&s->at[i]) && (s->at[i].high != k->high || s->at[i].low != k->low))
		i = (i + 1) & (s->size - 1);
	return &s->at[i];
}

static bool seen_grow(struct seen *s)
{
	struct seen more = { .size = s->size ? 2 * s->size : 1 << 12, .used = s->used };

	more.at = calloc(more.size, sizeof(*more.at));
	if (!more.at)
		return false;
	for (size_t i = 0; i < s->size; i++)
		if (!is_free(&s->at[i]))
			*seen_place(&more, &s->at[i]) = s->at[i];
	free(s->at);
	*s = more;
	return true;
}

static bool seen_add(struct seen *s, const struct key *k)
{
	struct key *place = s->failed || is_free(k) ? NULL : seen_place(s, k);

	if (!place || !is_free(place))
		return false;
	s->failed = 2 * (s->used + 1) > s->size && !seen_grow(s);
	if (s->failed)
		return false;
	*seen_place(s, k) = *k;
	s->used++;
	return true;
}

int ledger_count_begin(struct ledger *l)
{
	int err = 0;

	pthread_mutex_lock(&l->lock);
	l->sum = calloc(ROWS, sizeof(*l->sum));
	l->unmet = l->doubted = false;
	if (!l->sum || !seen_grow(&l->seen) || !seen_grow(&l->walked))
		err = -ENOMEM;
	l->counting = !err;
	if (!err)
		l->file->owed = 1; /* until it has ended: who is killed meanwhile begins again */
	pthread_mutex_unlock(&l->lock);
	if (err)
		ledger_count_end(l, false);
	return err;
}

void ledger_seen(struct ledger *l, const struct key *k, const struct entry *e)
{
	if (!atomic_load(&l->counting))
		return;
	pthread_mutex_lock(&l->lock);
	if (atomic_load(&l->counting) && seen_add(&l->seen, k)) {
		l->sum[e->row] = plus(l->sum[e->row], kept(e));
		dirs_count(l, e->dir, kept(e));
	}
	pthread_mutex_unlock(&l->lock);
}

bool ledger_walks(struct ledger *l, const struct key *k)
{
	bool is_new;

	pthread_mutex_lock(&l->lock);
	is_new = atomic_load(&l->counting) && seen_add(&l->walked, k);
	pthread_mutex_unlock(&l->lock);
	return is_new;
}

size_t ledger_seen_count(struct ledger *l)
{
	size_t n;

	pthread_mutex_lock(&l->lock);
	n = l->seen.used;
	pthread_mutex_unlock(&l->lock);
	return n;
}

bool ledger_count_end(struct ledger *l, bool whole)
{
	struct ledger_file *f = l->file;

	pthread_mutex_lock(&l->lock);
	whole = whole && l->counting && !l->doubted && !l->seen.failed && !l->walked.failed;
	if (whole) { /* all directories with a limit have been met; but what was met before them was charged to nobody */
		f->dirs_known = 1;
		whole = !l->unmet;
	}
	if (whole) {
		for (uint32_t i = 0; i < f->rows; i++)
			f->row[1 - f->bank][i].amount = l->sum[i];
		for (uint32_t i = 0; i < DIRS_MAX; i++)
			f->dir[i].amount[1 - f->bank] = l->sum[ACCOUNTS_MAX + i];
		atomic_thread_fence(memory_order_seq_cst);
		f->bank = 1 - f->bank;
		f->owed = 0;
		f->counted_at = (uint64_t)time(NULL);
	}
	l->counting = false;
	free(l->sum);
	free(l->seen.at);
	free(l->walked.at);
	l->sum = NULL;
	l->seen = l->walked = (struct seen){ 0 };
	pthread_mutex_unlock(&l->lock);
	return whole;
}
