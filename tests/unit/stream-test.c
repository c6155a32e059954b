/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: two ends that both have much to say do not wait for each other; who pauses gets nothing more, and later all of it. */
#include "test.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "stream.h"

enum { BULK = 1 << 20, LARGE = 32, SHORT = 100, BOUND = 4 << 20, HEAD = 4 * (1 + CALL_BODY) };

struct end {
	struct stream stream;  /* first */
	struct buffer *answer; /* to each record; NULL: none */
	atomic_uint pause_at;  /* after so many records; 0: never */
	atomic_uint got, broken;
	atomic_size_t most_queued;
};

/* ---- on the loop ---- */

static void got(struct stream *s, struct record *r)
{
	char head[RECORD_HEAD_MAX];
	struct end *e = (struct end *)s;
	unsigned n = atomic_load(&e->got) + 1;

	record_free(r);
	if (e->answer) {
		stream_send(s, head, call_header(head, n, 1, BULK), &e->answer, 1);
		if (stream_queued(s) > atomic_load(&e->most_queued))
			atomic_store(&e->most_queued, stream_queued(s));
	}
	if (n == e->pause_at)
		stream_pause(s, true);
	atomic_store(&e->got, n);
}

static void broken(struct stream *s, const char *why)
{
	(void)why;
	atomic_fetch_add(&((struct end *)s)->broken, 1);
	stream_unwatch(s);
}

static void watch(void *arg)
{
	stream_watch(arg, shard_self());
}

static void leave(void *arg)
{
	stream_close(arg);
}

static void mark(void *arg)
{
	atomic_store((atomic_bool *)arg, true);
}

/* fn(arg), and all that the loop had begun before, is done. */
static void on_loop(task_fn *fn, void *arg)
{
	atomic_bool done = false;

	if (fn)
		assert_int_equal(shard_call(runtime_shard(0), fn, arg), 0);
	assert_int_equal(shard_call(runtime_shard(0), mark, &done), 0);
	assert_true(EVENTUALLY(atomic_load(&done)));
}

/* ---- ends ---- */

static void connect_ends(int fd[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
}

static void begin(struct end *e, int fd)
{
	memset(e, 0, sizeof(*e));
	assert_int_equal(stream_open(&e->stream, &transport_tcp, fd, WIRE_XDR_MAX, WIRE_BULK_MAX), 0);
	e->stream.got = got;
	e->stream.broken = broken;
}

static void end(struct end *e)
{
	on_loop(leave, &e->stream);
	on_loop(NULL, NULL);
	if (e->answer)
		buffer_unref(e->answer);
	pthread_mutex_destroy(&e->stream.lock);
}

static struct buffer *megabyte(void)
{
	struct buffer *b = buffer_create(BULK);

	assert_non_null(b);
	memset(b->data, 'x', BULK);
	return b;
}

static void say_much(struct end *e)
{
	struct buffer *bulk = megabyte();
	char head[RECORD_HEAD_MAX];

	for (unsigned i = 0; i < LARGE; i++)
		assert_int_equal(stream_send(&e->stream, head, call_header(head, i, 1, BULK), &bulk, 1), 0);
	buffer_unref(bulk);
}

/* Short records, all with one write, so one receive brings them. */
static void say_many(int fd)
{
	char bytes[SHORT * HEAD];

	for (unsigned i = 0; i < SHORT; i++) {
		uint32_t mark = htonl((HEAD - 4) | 1u << 31);

		assert_int_equal(call_header(bytes + i * HEAD, i, 1, 0), HEAD);
		memcpy(bytes + i * HEAD, &mark, sizeof(mark));
	}
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
}

/* ---- the tests ---- */

static void who_asks_reads_while_much_of_its_own_waits(void **state)
{
	struct end asks, serves;
	int fd[2];

	(void)state;
	connect_ends(fd);
	begin(&asks, fd[0]);
	begin(&serves, fd[1]);
	serves.stream.queued_max = BOUND;
	say_much(&asks);
	say_much(&serves);
	assert_true(stream_queued(&asks.stream) > BOUND && stream_queued(&serves.stream) > BOUND);
	on_loop(watch, &asks.stream);
	on_loop(watch, &serves.stream);
	assert_true(EVENTUALLY(atomic_load(&asks.got) == LARGE && atomic_load(&serves.got) == LARGE));
	end(&asks);
	end(&serves);
}

static void what_came_with_one_receive_waits_while_it_is_paused(void **state)
{
	struct end e;
	int fd[2];

	(void)state;
	connect_ends(fd);
	begin(&e, fd[0]);
	e.pause_at = 1;
	say_many(fd[1]);
	on_loop(watch, &e.stream);
	for (unsigned i = 1; i < SHORT; i++) {
		assert_true(EVENTUALLY(atomic_load(&e.got) == i));
		on_loop(NULL, NULL);
		assert_int_equal(atomic_load(&e.got), i);
		e.pause_at = i + 1;
		stream_pause(&e.stream, false); /* no more comes, so no event tells of what is here */
	}
	assert_true(EVENTUALLY(atomic_load(&e.got) == SHORT));
	end(&e);
	close(fd[1]);
}

static void who_pauses_with_the_last_that_waited_is_not_read_from(void **state)
{
	enum { READ = SHORT * HEAD };
	struct end e;
	int fd[2];

	(void)state;
	connect_ends(fd);
	begin(&e, fd[0]);
	e.pause_at = 1;
	say_many(fd[1]);
	on_loop(watch, &e.stream);
	assert_true(EVENTUALLY(atomic_load(&e.got) == 1));
	say_many(fd[1]);
	e.pause_at = SHORT;
	stream_pause(&e.stream, false);
	assert_true(EVENTUALLY(atomic_load(&e.got) == SHORT));
	on_loop(NULL, NULL);
	assert_int_equal(atomic_load(&e.stream.bytes_in), READ);
	stream_pause(&e.stream, false);
	assert_true(EVENTUALLY(atomic_load(&e.got) == 2 * SHORT));
	end(&e);
	close(fd[1]);
}

static void fetch(int fd, size_t bytes)
{
	static char room[1 << 16];
	ssize_t n;

	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	while (bytes) {
		n = read(fd, room, bytes < sizeof(room) ? bytes : sizeof(room));
		assert_true(n > 0);
		bytes -= n;
	}
}

static void who_leaves_its_answers_unread_is_not_answered_on_and_on(void **state)
{
	struct end e;
	int fd[2];

	(void)state;
	connect_ends(fd);
	begin(&e, fd[0]);
	e.answer = megabyte();
	e.stream.queued_max = BOUND;
	say_many(fd[1]);
	on_loop(watch, &e.stream);
	assert_true(EVENTUALLY(stream_queued(&e.stream) > BOUND));
	on_loop(NULL, NULL);
	assert_true(atomic_load(&e.got) < SHORT);
	fetch(fd[1], (size_t)SHORT * (HEAD + BULK));
	assert_true(EVENTUALLY(atomic_load(&e.got) == SHORT));
	assert_true(atomic_load(&e.most_queued) <= BOUND + BULK + HEAD);
	end(&e);
	close(fd[1]);
}

static void the_end_is_seen_though_something_waits(void **state)
{
	struct end e;
	int fd[2];

	(void)state;
	connect_ends(fd);
	begin(&e, fd[0]);
	e.pause_at = 3;
	say_many(fd[1]);
	on_loop(watch, &e.stream);
	assert_true(EVENTUALLY(atomic_load(&e.got) == 3));
	close(fd[1]);
	assert_true(EVENTUALLY(atomic_load(&e.broken) == 1));
	assert_int_equal(atomic_load(&e.got), SHORT); /* what needs no answer is done, too */
	end(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_asks_reads_while_much_of_its_own_waits),
		cmocka_unit_test(what_came_with_one_receive_waits_while_it_is_paused),
		cmocka_unit_test(who_pauses_with_the_last_that_waited_is_not_read_from),
		cmocka_unit_test(who_leaves_its_answers_unread_is_not_answered_on_and_on),
		cmocka_unit_test(the_end_is_seen_though_something_waits),
	};
	int failed;

	if (runtime_start(1, RUNTIME_NEVER_BLOCKS))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	runtime_stop();
	return failed;
}
