/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of session-test share: a client and a server over TCP, and what a client asks. */
#ifndef SESSION_TEST_H
#define SESSION_TEST_H
#include "graph.h"
#include "test/leaf/leaf.h"

extern struct leaf *disk;
extern struct graph *server, *client;

void start_server(const char *more); /* at the port of the one before */
void start_client(const char *more);
void stop(struct graph **);
/* The n-th number after `key` in the dump of a graph's top, added up over all lines. */
unsigned long counter(struct graph *, const char *key);
/* A test whose body is a task: cmocka's longjmp must not cross stacks, so failures abort. */
void both(void (*body)(void *));

/* From a task. */
#define CALL(op, in_pointer, out_pointer)                                                                                      \
	({                                                                                                                     \
		struct request rq_;                                                                                            \
		request_init(&rq_, client, 0);                                                                                 \
		int err_ = op##_on(&rq_, client->top, in_pointer, out_pointer);                                                \
		request_finish(&rq_);                                                                                          \
		err_;                                                                                                          \
	})
struct file *create(const char *name);
void release(struct file *);
int write_file(struct file *, uint64_t offset, const char *bytes, size_t size, uint32_t flags);
int remove_file(const char *name);
struct file *open_again(struct file *);
int stat_root(void);
int lock(struct file *, uint64_t owner, uint32_t type, bool wait);
void command(struct graph *, const char *what);
/* Clients that start meanwhile dial there; 0: the server itself. */
void dial_by_way_of(int port);
int server_port(void);

/* Runs beside the caller's task; *done when it has ended. */
struct aside {
	void (*fn)(void *);
	void *arg;
	struct task *task;
	atomic_bool begun, done;
};
void start_aside(struct aside *);
void start_aside_at(unsigned shard, struct aside *);

#define UNTIL(condition)                                                                                                       \
	do {                                                                                                                   \
		for (int i_ = 0; !(condition) && i_ < 30000; i_++)                                                             \
			task_sleep_ms(1);                                                                                      \
		assert_true(condition);                                                                                        \
	} while (0)

/* session-test-lost.c */
void a_release_that_has_no_answer_is_sent_until_it_has_one(void **);
void a_file_is_open_once_in_a_session_that_one_channel_has_not_heard_of(void **);
void a_lock_that_is_granted_through_what_was_released_is_not_kept(void **);
void a_connection_lost_while_files_are_opened_again_is_made_again(void **);
void a_connection_on_which_files_are_not_opened_again_in_time_is_made_again(void **);
void a_client_stops_while_the_brick_does_not_open_its_files_again(void **);
/* session-test-held.c */
void a_session_of_a_crowd_is_not_read_until_what_is_held_goes_on(void **);
void what_is_held_back_is_done_when_the_server_stops(void **);
void a_lock_is_given_back_while_as_many_wait_as_may(void **);
/* session-test-restart.c */
void files_and_locks_survive_a_restart_of_the_brick(void **);
void a_lock_is_told_to_be_lost_before_requests_go_on(void **);
void who_is_refused_a_reclaim_hears_it_in_the_answer_only(void **);
void a_lock_goes_with_the_file_that_it_was_taken_through(void **);
void an_append_over_a_restart_is_an_error(void **);
void an_exchange_over_a_restart_is_done_once(void **);
void requests_wait_for_the_brick_up_to_max_wait(void **);
/* session-test-moved.c */
void a_graph_that_begins_is_told_that_a_brick_is_down(void **);
void a_brick_that_goes_while_it_is_told_to_be_up_is_told_to_be_down(void **);
void who_does_not_wait_for_a_brick_tells_why_it_is_not_reached(void **);
#endif
