/* SPDX-License-Identifier: Apache-2.0 */
/* What comes from other servers as bytes: what libraft sends is taken, and what it can't bear is not. */
#include "test.h"

#include <endian.h>
#include <errno.h>
#include <raft.h>
#include <string.h>

#include "fop.h"
#include "log.h"
#include "raft-frame.h"
#include "raft-greeting.h"
#include "raft-shared.h"
#include "state.h"

enum { WORD = 8, WORDS = 32 };

/* ---- frames ---- */

static uint8_t bytes[WORDS * WORD];

static void put(unsigned at, uint64_t word)
{
	word = htole64(word);
	memcpy(bytes + (size_t)at * WORD, &word, sizeof word);
}

static const char *judged(uint64_t type, uint64_t size)
{
	struct frame f;
	const char *wrong;

	put(0, type);
	put(1, size);
	wrong = frame_begin(&f, bytes);
	return wrong ? wrong : frame_header(&f, bytes + FRAME_PREAMBLE);
}

/* Of one member. */
static const char *judged_snapshot(uint64_t last, uint64_t members_since)
{
	memset(bytes, 0, sizeof bytes);
	put(2, 7); /* the term */
	put(3, last);
	put(4, 6);
	put(5, members_since);
	put(6, 4 * WORD);
	bytes[7 * WORD] = bytes[7 * WORD + 1] = bytes[7 * WORD + 9] = 1;
	strcpy((char *)bytes + 7 * WORD + 17, "10.9.0.1:1");
	bytes[7 * WORD + 28] = 1;
	put(11, 64);
	return judged(RAFT_IO_INSTALL_SNAPSHOT, 10 * WORD);
}

/* Libraft 0.15 takes the last list of members in its log when it starts, and notes its index with the next snapshot, also where that ends before it. */
static void a_snapshot_may_have_members_of_a_later_entry(void **state)
{
	(void)state;
	assert_null(judged_snapshot(650, 700));
	assert_null(judged_snapshot(650, 1));
	assert_non_null(judged_snapshot(650, 0));
	assert_non_null(judged_snapshot(650, (uint64_t)1 << 63));
	assert_non_null(judged_snapshot(0, 1));
}

/* Libraft reads a word that is only begun as a whole one, beyond its memory. */
static void a_header_has_whole_words(void **state)
{
	(void)state;
	memset(bytes, 0, sizeof bytes);
	for (unsigned i = 2; i < 8; i++)
		put(i, 1);
	for (uint64_t more = 0; more < WORD; more++) {
		bool is_whole = !more;

		assert_int_equal(!judged(RAFT_IO_REQUEST_VOTE, 4 * WORD + more), is_whole);
		assert_int_equal(!judged(RAFT_IO_REQUEST_VOTE_RESULT, 2 * WORD + more), is_whole);
		assert_int_equal(!judged(RAFT_IO_TIMEOUT_NOW, 3 * WORD + more), is_whole);
	}
}

/* ---- addresses ---- */

/* What commands take is what others let greet, or a server that was added could not come. */
static void an_address_has_one_form_for_commands_and_greetings(void **state)
{
	static const char *const fine[] = { "10.9.0.1:24005", "127.0.0.1:1", "255.255.255.255:65535" };
	static const char *const wrong[] = { "10.9.0.1:024005",
					     "10.9.0.1:07000",
					     "010.9.0.1:24005",
					     "10.9.0.1:+24005",
					     "10.9.0.1: 24005",
					     " 10.9.0.1:24005",
					     "10.9.0.1:24005 ",
					     "10.9.0.1:0",
					     "10.9.0.1:65536",
					     "10.9.0.1:-1",
					     "10.9.0.1:",
					     "10.9.0.1",
					     "10.9.1:24005",
					     "10.9.0.1:18446744073709575621",
					     ":24005",
					     "[::1]:24005",
					     "",
					     "1:10.9.0.1:24005" };
	struct problem p = { "" };

	(void)state;
	for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
		assert_true(address_is_fine(fine[i]));
		assert_int_equal(shared_check_address(fine[i], &p), 0);
	}
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		if (address_is_fine(wrong[i]) || shared_check_address(wrong[i], &p) != -EINVAL)
			fail_msg("'%s' is taken", wrong[i]);
	}
}

/* ---- messages, as libraft has read them ---- */

/* What this server has: a snapshot up to 100, entries from 51 to 120, of term 4 from 111 on; up to 115 they are applied. */
static void has_a_log(struct shared *l)
{
	enum { SIZE = 128 };
	static struct raft_entry entry[SIZE];

	for (unsigned i = 0; i < SIZE; i++)
		entry[i].term = i < 60 ? 3 : 4;
	l->raft.log.entries = entry;
	l->raft.log.size = SIZE;
	l->raft.log.back = 70;
	l->raft.log.offset = 50;
	l->raft.log.snapshot.last_index = 100;
	l->raft.log.snapshot.last_term = 3;
	l->raft.last_applied = l->raft.commit_index = 115;
	assert_int_equal(raft_last_index(&l->raft), 120);
}

static const char *judged_install(struct shared *l, raft_index last, raft_term term, void *data, size_t size)
{
	struct raft_message m = { .type = RAFT_IO_INSTALL_SNAPSHOT };

	m.install_snapshot.last_index = last;
	m.install_snapshot.last_term = term;
	m.install_snapshot.data.base = data;
	m.install_snapshot.data.len = size;
	return strangers_judge(l, &m);
}

/* Who leads sends a follower nothing else until it has answered, which libraft does. What is in such a snapshot does not matter: nobody looks into it. */
static void a_snapshot_that_is_there_already_goes_to_libraft_to_be_answered(void **state)
{
	struct shared *l = calloc(1, sizeof *l);
	char nothing[8] = "", garbage[] = "garbage";
	struct state empty = { .count = 0 };
	struct blob text = { 0 };

	(void)state;
	has_a_log(l);
	assert_null(judged_install(l, 100, 3, nothing, sizeof nothing));
	assert_null(judged_install(l, 80, 3, nothing, sizeof nothing));
	assert_null(judged_install(l, 112, 4, nothing, sizeof nothing)); /* older than what was applied */
	assert_null(judged_install(l, 120, 4, nothing, sizeof nothing));
	assert_non_null(judged_install(l, 112, 5, nothing, sizeof nothing)); /* another one's */
	assert_non_null(judged_install(l, 121, 4, garbage, sizeof garbage));
	assert_int_equal(state_encode(&empty, &text), 0);
	assert_null(judged_install(l, 121, 4, text.bytes, text.size));
	free(text.bytes);
	free(l);
}

static void add_member(struct shared *l, raft_id id, const char *address)
{
	assert_int_equal(raft_configuration_add(&l->raft.configuration, id, address, RAFT_VOTER), 0);
}

/* Two members since an entry that a snapshot has replaced; a third by one at 118 that is not committed. */
static void has_a_third_member(struct shared *l)
{
	has_a_log(l);
	l->raft.state = RAFT_FOLLOWER;
	l->raft.current_term = 4;
	add_member(l, 1, "10.9.0.1:1");
	add_member(l, 2, "10.9.0.2:1");
	l->raft.configuration_index = 40;
	members_keep(l);
	add_member(l, 3, "10.9.0.3:1");
	l->raft.configuration_uncommitted_index = 118;
	members_keep(l);
}

/* How many members there are when libraft sees one entry behind that one; 0: it must not see it. */
static unsigned members_after(struct shared *l, raft_term term, raft_index before, raft_term of)
{
	struct raft_entry entry = { .term = of, .type = RAFT_COMMAND };
	struct raft_append_entries a = { .term = term, .prev_log_index = before, .prev_log_term = 4, .n_entries = 1 };

	a.entries = &entry;
	return members_take_back(l, &a) ? l->raft.configuration.n : 0;
}

/* Libraft would look for the list before it in the log, where it is not any more. */
static void members_that_are_taken_back_leave_those_before_them_also_where_the_log_has_them_no_more(void **state)
{
	struct shared *l = calloc(1, sizeof *l);

	(void)state;
	has_a_third_member(l);
	assert_int_equal(members_after(l, 4, 116, 4), 3); /* it has that one */
	assert_int_equal(members_after(l, 3, 116, 5), 3); /* from before this term */
	assert_int_equal(members_after(l, 5, 118, 5), 3); /* behind the list */
	assert_int_equal(members_after(l, 5, 120, 5), 3); /* a new one */
	l->raft.state = RAFT_LEADER;
	assert_int_equal(members_after(l, 5, 116, 5), 0);
	assert_int_equal(l->raft.configuration_uncommitted_index, 118);
	l->raft.state = RAFT_FOLLOWER;
	assert_int_equal(members_after(l, 5, 116, 5), 2);
	assert_int_equal(l->raft.configuration_uncommitted_index, 0);
	assert_int_equal(l->committed_since, 40);
	l->raft.configuration_index = 118; /* as libraft says after a start, of a list that nobody has committed */
	members_keep(l);
	assert_int_equal(l->committed_since, 40);
	l->raft.configuration_uncommitted_index = 114; /* that entry came in a snapshot */
	l->raft.configuration_index = 112;
	members_keep(l);
	assert_int_equal(l->committed_since, 112);
	raft_configuration_close(&l->raft.configuration);
	raft_configuration_close(&l->committed);
	free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_snapshot_may_have_members_of_a_later_entry),
		cmocka_unit_test(a_header_has_whole_words),
		cmocka_unit_test(a_snapshot_that_is_there_already_goes_to_libraft_to_be_answered),
		cmocka_unit_test(members_that_are_taken_back_leave_those_before_them_also_where_the_log_has_them_no_more),
		cmocka_unit_test(an_address_has_one_form_for_commands_and_greetings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
