/* SPDX-License-Identifier: Apache-2.0 */
/* Soft limits over several servers, or replica sets: whatever is lost, overtaken, killed, or decided by another leader, a tenant ends to be above its limit only if at one moment all together had no
 * more (S3), and nothing grows after the grace where that is not known (S4); of a set nobody is heard but who decides in its view (S5); and when all are up again, all know what is so. `soft-test SEED`
 * runs one seed; the odd ones are of sets. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "soft.h"

enum { UNITS = 4, BAG = 16, STEPS = 6000, RUNS = 1000, BASE = 65536, SOFT = 1000, SOFT_INODES = 100, GRACE_S = 3 };

static const struct amount soft = { SOFT, SOFT_INODES };
static unsigned first_seed = 1, last_seed = RUNS, seed;
static uint64_t state, now_ms;

static unsigned below(unsigned n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)(state >> 11) % n;
}

static uint64_t now_s(void)
{
	return now_ms / 1000;
}

/* ---- the store ---- */

enum { VERSIONS = 20000 };
static struct {
	struct soft_doc doc;
	bool is;
} committed[VERSIONS];
static uint64_t version;
static uint64_t began_ms[2]; /* when it came to be above, by the store */
static bool was_no_more[2];  /* and then, at one moment, was not */

/* ---- servers ---- */

struct answer {
	uint64_t number, session, upto, tick, index, ask;
	bool is;
};
struct unit {
	struct amount taken;
	struct over ledger;
	struct soft_list list;
	uint64_t process, session, number, tick, view;
	uint64_t term;	  /* of who decides for a set */
	uint64_t sent_ms; /* of the message that is out; */
	bool is_out;
	struct answer answer, pending;
	uint64_t pending_ms;
};
struct message {
	size_t from;
	bool is_left_out;
	uint64_t term, process, session, number, tick;
	struct soft_said said;
	bool has_row;
};
static struct unit unit[UNITS];
/* Of sets: who decided in an earlier view, and does not know that it does so no more; and the view that the store has. */
static struct unit left_out[UNITS];
static uint64_t epoch[UNITS];
static bool is_cut_off[UNITS]; /* who decides now, from who leads; the one that was left out is not */
static bool of_sets;
static size_t units;
static struct message bag[BAG];
static size_t messages;

/* ---- who leads ---- */

static struct {
	struct soft_unit unit[UNITS];
	uint64_t upto[UNITS];
	struct soft_row row[UNITS];
	struct soft_sum sum;
	uint64_t tick;
} lead;
static uint64_t sessions;
static uint64_t clears;

static int64_t part(struct amount a, int which)
{
	return which ? a.inodes : a.bytes;
}

static uint32_t since(struct over o, int which)
{
	return which ? o.inodes : o.bytes;
}

static struct amount charged(void)
{
	struct amount sum = { 0 };

	for (size_t i = 0; i < units; i++)
		sum = amount_sum(sum, unit[i].taken);
	return sum;
}

static struct soft_own *own_of(struct unit *u)
{
	struct soft_own *own = soft_need(&u->list, BASE, u->taken, u->ledger);

	assert_non_null(own);
	return own;
}

static void note_moment(void)
{
	struct amount sum = charged();

	for (int k = 0; k < 2; k++)
		was_no_more[k] |= part(sum, k) <= part(soft, k);
}

/* ---- what happens ---- */

static bool grow(struct unit *u, struct amount more)
{
	if (soft_holds(&u->list, own_of(u), more, GRACE_S, now_ms * 1000000, now_s())) {
		own_of(u)->asked = ++u->list.asks;
		return false;
	}
	for (int k = 0; k < 2; k++)
		if (part(more, k) && began_ms[k] && now_ms >= began_ms[k] + GRACE_S * 1000)
			fail_msg("seed %u: %s grow at %llu ms, above the limit since %llu", seed, k ? "inodes" : "bytes",
				 (unsigned long long)now_ms, (unsigned long long)began_ms[k]);
	u->taken = amount_sum(u->taken, more);
	soft_note(own_of(u), u->taken);
	note_moment();
	return true;
}

static void shrink(struct unit *u, struct amount less)
{
	u->taken.bytes -= less.bytes < u->taken.bytes ? less.bytes : u->taken.bytes;
	u->taken.inodes -= less.inodes < u->taken.inodes ? less.inodes : u->taken.inodes;
	soft_note(own_of(u), u->taken);
	note_moment();
}

static void change(struct unit *u)
{
	struct amount some = { below(200), below(20) };
	struct unit *other = &unit[below((unsigned)units)];

	switch (below(5)) {
	case 0:
		grow(u, some);
		break;
	case 1:
		shrink(u, some);
		break;
	default: /* moved: there is never less of it */
		if (grow(u, some))
			shrink(other, some);
	}
}

/* One message after the other: the next one when it was answered, or given up. */
static void send_one(struct unit *u)
{
	bool is_left_out = u >= left_out && u < left_out + UNITS;
	struct message m = { .from = (size_t)(u - (is_left_out ? left_out : unit)),
			     .is_left_out = is_left_out,
			     .term = u->term,
			     .process = u->process,
			     .session = u->session,
			     .number = ++u->number,
			     .tick = u->tick };

	m.has_row = soft_say(own_of(u), m.number, &m.said);
	bag[messages < BAG ? messages++ : below(BAG)] = m;
	u->sent_ms = now_ms;
	u->is_out = true;
	u->answer.is = false;
}

static void look(struct unit *u, bool at_all)
{
	struct soft_own *own = own_of(u);

	u->view = at_all ? version : u->view + below((unsigned)(version - u->view) + 1);
	soft_apply(own, committed[u->view].is ? &committed[u->view].doc : NULL, u->view);
	u->ledger = own->over;
	if (!u->pending.is || u->view < u->pending.index)
		return;
	u->list.confirmed_ns = u->pending_ms * 1000000;
	if (u->pending.ask > own->answered && u->pending.ask <= own->asked)
		own->answered = u->pending.ask;
	u->pending.is = false;
}

static void hear_answer(struct unit *u)
{
	struct answer a = u->answer;

	if (!u->is_out || !a.is || a.number != u->number)
		return;
	u->is_out = u->answer.is = false;
	u->tick = a.tick;
	if (a.session != u->session) {
		u->session = a.session;
		u->pending.is = false;
		soft_unheard(own_of(u));
		return;
	}
	soft_heard(own_of(u), a.upto);
	if (u->pending.is || !a.session)
		return;
	u->pending = a;
	u->pending_ms = u->sent_ms;
}

/* In the next view another member decides, or one that did before; what it is charged is what was acknowledged, and what it knows of the store is about the same. */
static void next_view(struct unit *u)
{
	struct unit *old = &left_out[u - unit], next = { .taken = u->taken, .ledger = u->ledger, .view = u->view };

	if (below(2)) {
		next.list = old->list;
		old->list.at = NULL;
	} else {
		free(old->list.at);
	}
	*old = *u;
	next.process = ++sessions;
	next.term = ++epoch[u - unit];
	next.list.confirmed_ns = u->list.confirmed_ns;
	*u = next;
	soft_unheard(own_of(u));
	soft_note(own_of(u), u->taken);
	own_of(u)->over = u->ledger;
	is_cut_off[u - unit] = below(2);
}

static void crash(struct unit *u)
{
	uint64_t view = below(2) ? u->view : below((unsigned)u->view + 1);

	free(u->list.at);
	*u = (struct unit){ .taken = u->taken, .ledger = u->ledger, .view = view, .process = ++sessions };
}

/* ---- deciding ---- */

static void commit(const struct soft_doc *d)
{
	if (version == VERSIONS - 1)
		return;
	for (int k = 0; k < 2; k++) {
		bool was = committed[version].is && since(committed[version].doc.over, k), is = since(d->over, k);

		if (was && !is && !was_no_more[k])
			fail_msg(
				"seed %u, at %llu ms: it is told that there are no more %s than the limit, and there always were",
				seed, (unsigned long long)now_ms, k ? "inodes" : "bytes");
		if (is && !was)
			began_ms[k] = now_ms;
		clears += was && !is;
		began_ms[k] = is ? began_ms[k] : 0;
		was_no_more[k] &= is && was;
	}
	version++;
	committed[version].doc = *d;
	committed[version].is = true;
	note_moment();
}

static void judge(void)
{
	const struct soft_unit *list[UNITS];
	struct soft_doc d = committed[version].is ? committed[version].doc : (struct soft_doc){ 0 };

	for (size_t i = 0; i < units; i++) {
		lead.unit[i].epoch = epoch[i];
		list[i] = &lead.unit[i];
	}
	lead.sum.row = lead.row;
	if (soft_judge(&lead.sum, list, units, soft, lead.tick + 1, (uint32_t)now_s(), !version, &d))
		commit(&d);
	lead.tick++;
	for (size_t i = 0; i < units; i++)
		lead.upto[i] = lead.unit[i].upto;
}

static void deliver(void)
{
	size_t which = messages ? below((unsigned)messages) : 0;
	struct message m;
	struct unit *u;

	if (!messages)
		return;
	m = bag[which];
	if (below(4)) /* else it comes again */
		bag[which] = bag[--messages];
	if (!below(12) || (is_cut_off[m.from] && !m.is_left_out)) /* it is lost */
		return;
	u = m.is_left_out ? &left_out[m.from] : &unit[m.from];
	lead.unit[m.from].epoch = epoch[m.from];
	/* the answer is of what was known before */
	if (below(10) && m.number == u->number && m.process == u->process)
		u->answer = (struct answer){ .is = true,
					     .number = m.number,
					     .session = !of_sets || lead.unit[m.from].process == m.process
								? lead.unit[m.from].session
								: 0,
					     .upto = lead.upto[m.from],
					     .tick = lead.tick,
					     .index = version,
					     .ask = lead.row[m.from].answered };
	if (soft_hear(&lead.unit[m.from], m.term, m.process, m.session, m.number, m.tick, ++sessions) && m.has_row)
		soft_take(&lead.row[m.from], &lead.unit[m.from], &m.said, lead.tick + 1);
	if (below(4))
		judge();
}

/* It goes on as far as it knows, and counts less; nothing of that is acknowledged. */
static void go_on_left_out(struct unit *u)
{
	if (!u->term)
		return;
	u->taken = (struct amount){ u->taken.bytes / 2, u->taken.inodes / 2 };
	soft_note(own_of(u), u->taken);
	for (int i = 0; i < 4; i++) {
		if (!u->is_out || !below(3))
			send_one(u);
		deliver();
		hear_answer(u);
		look(u, false);
	}
}

/* The limit was lifted, and set again: who decides has seen both, and servers only what is so now. */
static void set_again(void)
{
	const struct soft_doc none = { .told = { false } };

	memset(lead.row, 0, sizeof(lead.row));
	memset(&lead.sum, 0, sizeof(lead.sum));
	was_no_more[0] = was_no_more[1] = true;
	commit(&none);
	for (size_t i = 0; i < units; i++)
		soft_renew(&lead.unit[i]);
}

static void step(void)
{
	struct unit *u = &unit[below((unsigned)units)];

	now_ms += below(50) ? below(20) : below(700);
	is_cut_off[u - unit] &= below(100) != 0;
	switch (below(12)) {
	case 0:
	case 1:
	case 2:
		change(u);
		break;
	case 3:
		if (!below(40))
			of_sets ? next_view(u) : crash(u);
		break;
	case 4:
		if (!below(60)) /* another one leads */
			memset(&lead, 0, sizeof(lead));
		break;
	case 5:
		if (!below(60))
			set_again();
		break;
	case 6:
		if (!u->is_out || !below(6))
			send_one(u);
		break;
	case 7:
	case 8:
		hear_answer(u);
		look(u, false);
		break;
	case 9:
		judge();
		break;
	case 10:
		go_on_left_out(&left_out[u - unit]);
		deliver();
		break;
	default:
		deliver();
	}
}

/* ---- all are up ---- */

static void settle(void)
{
	memset(is_cut_off, 0, sizeof(is_cut_off));
	messages = 0;
	for (int turn = 0; turn < 40; turn++) {
		for (size_t i = 0; i < units; i++) {
			send_one(&unit[i]);
			do
				deliver();
			while (messages);
			hear_answer(&unit[i]);
			look(&unit[i], true);
		}
		judge();
		now_ms += 10;
	}
}

static void all_know(const char *when)
{
	struct amount sum = charged();

	for (size_t i = 0; i < units; i++)
		for (int k = 0; k < 2; k++) {
			bool is = part(sum, k) > part(soft, k);

			if (is != (since(own_of(&unit[i])->over, k) != 0))
				fail_msg("seed %u, %s: there are %s%lld %s, and server %zu believes otherwise", seed, when,
					 is ? "more, " : "", (long long)part(sum, k), k ? "inodes" : "bytes", i);
		}
	for (size_t i = 0; i < units; i++)
		if (own_of(&unit[i])->asked > own_of(&unit[i])->answered)
			fail_msg("seed %u, %s: nobody answers server %zu", seed, when, i);
}

static void set_all(struct amount each)
{
	for (size_t i = 0; i < units; i++) {
		unit[i].taken = each;
		soft_note(own_of(&unit[i]), each);
	}
	note_moment();
}

static void run(void)
{
	state = seed * 0x9e3779b97f4a7c15u | 1;
	now_ms = 1000000;
	version = messages = 0;
	memset(committed, 0, sizeof(committed[0]));
	memset(&lead, 0, sizeof(lead));
	memset(began_ms, 0, sizeof(began_ms));
	memset(was_no_more, 0, sizeof(was_no_more));
	units = 2 + below(UNITS - 1);
	of_sets = seed % 2;
	for (size_t i = 0; i < UNITS; i++) {
		epoch[i] = of_sets;
		left_out[i] = (struct unit){ .term = 0 };
		unit[i] = (struct unit){ .process = ++sessions, .term = epoch[i] };
	}
	for (int i = 0; i < STEPS; i++)
		step();
	settle();
	all_know("in the end");
	set_again();
	settle();
	all_know("after the limit was set again");
	set_all((struct amount){ SOFT, 1 });
	settle();
	all_know("with more bytes");
	set_again();
	settle();
	all_know("with more bytes, after the limit was set again");
	set_all((struct amount){ 1, SOFT_INODES / units });
	settle();
	all_know("with no more");
	for (size_t i = 0; i < UNITS; i++) {
		free(unit[i].list.at);
		free(left_out[i].list.at);
	}
}

static void it_ends_to_be_above_only_if_there_was_a_moment_with_no_more(void **unused)
{
	(void)unused;
	print_message("seeds %u to %u\n", first_seed, last_seed);
	for (seed = first_seed; seed <= last_seed; seed++)
		run();
	print_message("it has ended %llu times\n", (unsigned long long)clears);
	assert_true(clears > last_seed - first_seed); /* else nothing was tried */
}

/* ---- the steps, one by one ---- */

static void a_document_is_printed_and_read(void **unused)
{
	static const char *const wrong[] = { "", "1 2", "1 2 4", "1 2 3 4", "x 0 0", "1 2 3 x" };
	struct soft_doc d = { { 17, 4000000000u }, { false, true } }, read;
	char text[SOFT_TEXT_MAX];

	(void)unused;
	assert_int_equal(soft_parse(text, soft_print(&d, text), &read), 0);
	assert_int_equal(read.over.bytes, 17);
	assert_int_equal(read.over.inodes, 4000000000u);
	assert_false(read.told[0]);
	assert_true(read.told[1]);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_not_equal(soft_parse(wrong[i], strlen(wrong[i]), &read), 0);
}

/* When all bricks were at one server that knew since when. */
static void since_when_goes_on_as_a_second_server_comes(void **unused)
{
	struct soft_list list = { NULL };
	struct soft_own *own = soft_need(&list, BASE, (struct amount){ SOFT + 1, 1 }, (struct over){ 77, 0 });
	struct soft_unit one = { 0 }, other = { 0 };
	const struct soft_unit *both[] = { &one, &other };
	struct soft_row row[2] = { { 0 } };
	struct soft_sum sum = { .row = row };
	struct soft_doc d = { { 0 } };
	struct soft_said s;

	(void)unused;
	assert_false(soft_hear(&one, 0, 1, 0, 1, 0, 5));
	assert_true(soft_say(own, 2, &s));
	soft_apply(own, NULL, 0); /* there is no document: that is not to be taken for an end */
	assert_int_equal(own->over.bytes, 77);
	assert_true(soft_hear(&one, 0, 1, 5, 2, 0, 6));
	soft_take(&row[0], &one, &s, 1);
	assert_true(soft_judge(&sum, both, 2, soft, 1, 1000, true, &d));
	assert_int_equal(d.over.bytes, 77);
	assert_true(d.told[0]);
	soft_apply(own, &d, 1);
	soft_heard(own, 2);
	assert_int_equal(own->over.bytes, 77);
	d = (struct soft_doc){ { 0 } }; /* and of who had a document before that is too old */
	assert_true(soft_judge(&sum, both, 2, soft, 2, 1000, false, &d));
	assert_int_equal(d.over.bytes, 1000);
	free(list.at);
}

/* S5: neither is heard nor counted who decided in a view that is no more. */
static void of_a_set_is_heard_who_decides_in_the_view_that_the_store_has(void **unused)
{
	struct soft_unit u = { .epoch = 3 };
	const struct soft_unit *one[] = { &u };
	struct soft_row row = { 0 };
	struct soft_sum sum = { .row = &row };
	struct soft_doc d = { { 7, 0 }, { true, false } };
	struct soft_said none = { .base = BASE };

	(void)unused;
	assert_false(soft_hear(&u, 2, 1, 0, 1, 0, 5));
	assert_false(soft_hear(&u, 4, 1, 0, 1, 0, 5)); /* our copy of the store is older: it comes again */
	assert_int_equal(u.session, 0);
	assert_false(soft_hear(&u, 3, 1, 0, 1, 0, 5));
	assert_true(soft_hear(&u, 3, 1, 5, 2, 0, 6));
	soft_take(&row, &u, &none, 1);
	soft_judge(&sum, one, 1, soft, 1, 1000, false, &d); /* begins to count */
	u.epoch = 4;
	assert_false(soft_hear(&u, 3, 1, 5, 3, 1, 6));
	u.heard = 1; /* as if it had been heard just before */
	soft_judge(&sum, one, 1, soft, 2, 1001, false, &d);
	assert_int_equal(d.over.bytes, 7);
	assert_int_equal(soft_total(&sum, one, 1).bytes, 0);
	assert_false(soft_hear(&u, 4, 9, 0, 1, 0, 8));
	assert_true(soft_hear(&u, 4, 9, 8, 2, 1, 8));
	soft_take(&row, &u, &none, 3);
	for (uint64_t tick = 3; tick < 6 && d.over.bytes; tick++) {
		soft_judge(&sum, one, 1, soft, tick, 1002, false, &d);
		assert_true(soft_hear(&u, 4, 9, 8, tick, tick, 8));
	}
	assert_int_equal(d.over.bytes, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_document_is_printed_and_read),
		cmocka_unit_test(since_when_goes_on_as_a_second_server_comes),
		cmocka_unit_test(of_a_set_is_heard_who_decides_in_the_view_that_the_store_has),
		cmocka_unit_test(it_ends_to_be_above_only_if_there_was_a_moment_with_no_more),
	};

	if (argc > 1)
		first_seed = last_seed = (unsigned)strtoul(argv[1], NULL, 10);
	if (argc > 2)
		last_seed = (unsigned)strtoul(argv[2], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
