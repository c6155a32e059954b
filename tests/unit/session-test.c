/* SPDX-License-Identifier: Apache-2.0 */
/* protocol/client and protocol/server over TCP on this machine: nothing is done twice, whatever becomes of the connections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph-of.h"
#include "halter.h"
#include "session-test.h"
#include "stream.h"
#include "test.h"

struct leaf *disk;
struct graph *server, *client;
static int port, way;

/* ---- graphs ---- */

void start_server(const char *more)
{
	char text[2048], path[] = "/tmp/session-test-XXXXXX";
	struct problem p;
	FILE *f;
	int fd = mkstemp(path);

	snprintf(
		text, sizeof(text),
		"volume brick\n type test/leaf\n option volume-id 11111111-2222-3333-4444-555555555555\nend-volume\n"
		"volume server\n type protocol/server\n option listen 127.0.0.1:%d\n option port-file %s\n%s subvolumes brick\n"
		"end-volume\n",
		port, path, more);
	server = graph_of(text, &p);
	if (!server)
		fail_msg("%s", p.text);
	f = fdopen(fd, "r");
	fclose(f);
	f = fopen(path, "r");
	assert_int_equal(fscanf(f, "%d", &port), 1);
	fclose(f);
	unlink(path);
}

static struct graph *client_graph(const char *more, struct problem *p)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "volume c\n type protocol/client\n option remote-host 127.0.0.1\n option remote-port %d\n%s"
		 "end-volume\n",
		 way ? way : port, more);
	return graph_of(text, p);
}

void dial_by_way_of(int other)
{
	way = other;
}

int server_port(void)
{
	return port;
}

void start_client(const char *more)
{
	char options[512];
	struct problem p;

	snprintf(options, sizeof(options), " option remote-subvolume brick\n%s", more);
	client = client_graph(options, &p);
	if (!client)
		fail_msg("%s", p.text);
}

void stop(struct graph **g)
{
	if (*g) {
		graph_stop(*g);
		graph_destroy(*g);
	}
	*g = NULL;
}

void command(struct graph *g, const char *what)
{
	char *words[] = { (char *)what };
	FILE *null = fopen("/dev/null", "w");

	assert_int_equal(g->top->type->command(g->top, 1, words, null), 0);
	fclose(null);
}

/* The n-th number after `key` in the dump of a graph's top, added up over all lines. */
unsigned long counter(struct graph *g, const char *key)
{
	unsigned long sum = 0;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	g->top->type->dump(g->top, f);
	fclose(f);
	for (char *at = text; (at = strstr(at, key)); at += strlen(key))
		sum += strtoul(at + strlen(key), NULL, 10);
	free(text);
	return sum;
}

/* ---- requests ---- */

static struct inode *root(void)
{
	return inode_get(client->inodes, &gfid_root, S_IFDIR);
}

struct file *create(const char *name)
{
	struct inode *dir = root();
	struct create_in in = { .loc = { dir, NULL, name }, .flags = O_RDWR | O_CREAT, .mode = 0644 };
	struct create_out out = { 0 };
	struct file *file;

	gfid_create(&in.gfid);
	assert_int_equal(CALL(create, &in, &out), 0);
	file = file_ref(out.file);
	fop_out_clear(FOP_create, &out);
	inode_unref(dir);
	return file;
}

void release(struct file *file)
{
	struct release_in in = { file };
	struct release_out out;

	assert_int_equal(CALL(release, &in, &out), 0);
	file_unref(file);
}

struct file *open_again(struct file *file)
{
	struct open_in in = { file->inode, O_RDWR };
	struct open_out out = { 0 };

	assert_int_equal(CALL(open, &in, &out), 0);
	return out.file;
}

int write_file(struct file *file, uint64_t offset, const char *bytes, size_t size, uint32_t flags)
{
	struct write_in in = { file, offset, flags, buffer_from(bytes, size) };
	struct write_out out = { 0 };
	int err = CALL(write, &in, &out);

	buffer_unref(in.data);
	return err ? err : (int)out.written;
}

int remove_file(const char *name)
{
	struct inode *dir = root();
	struct unlink_in in = { { dir, NULL, name } };
	struct unlink_out out;
	int err = CALL(unlink, &in, &out);

	inode_unref(dir);
	return err;
}

int lock(struct file *file, uint64_t owner, uint32_t type, bool wait)
{
	struct setlk_in in = { file, { LOCK_POSIX, type, 0, UINT64_MAX, owner, 1, wait, 0 } };
	struct setlk_out out;

	return CALL(setlk, &in, &out);
}

int stat_root(void)
{
	struct inode *dir = root();
	struct getattr_in in = { dir, NULL };
	struct getattr_out out = { 0 };
	int err = CALL(getattr, &in, &out);

	inode_unref(dir);
	return err;
}

static void run_aside(void *arg)
{
	struct aside *a = arg;

	a->task = task_self();
	atomic_store(&a->begun, true);
	a->fn(a->arg);
	atomic_store(&a->done, true);
}

void start_aside(struct aside *a)
{
	assert_int_equal(task_spawn(NULL, run_aside, a), 0);
}

void start_aside_at(unsigned shard, struct aside *a)
{
	assert_int_equal(task_spawn(runtime_shard(shard), run_aside, a), 0);
}

void both(void (*body)(void *))
{
	start_server("");
	start_client("");
	task_call(body, NULL);
	stop(&client);
	stop(&server);
}

/* ---- the plain path ---- */

static void plain(void *arg)
{
	struct file *file = create("plain");
	char *bytes = malloc(1 << 20);
	struct read_in in = { file, 0, 1 << 20 };
	struct read_out out = { 0 };

	(void)arg;
	for (int i = 0; i < 1 << 20; i++)
		bytes[i] = i * 7 / 5;
	for (size_t size = 1; size <= 1 << 20; size = size * 3 < 1 << 20 || size == 1 << 20 ? size * 3 : 1 << 20) {
		assert_int_equal(write_file(file, 0, bytes, size, 0), size);
		in.size = size;
		assert_int_equal(CALL(read, &in, &out), 0);
		assert_int_equal(out.data->size, size);
		assert_memory_equal(out.data->data, bytes, size);
		assert_int_equal((uintptr_t)out.data->data % 4096, 0);
		fop_out_clear(FOP_read, &out);
	}
	in.offset = 5 << 20;
	assert_int_equal(CALL(read, &in, &out), 0);
	assert_int_equal(out.data->size, 0);
	fop_out_clear(FOP_read, &out);
	release(file);
	assert_int_equal(remove_file("plain"), 0);
	free(bytes);
}

static void data_goes_out_and_comes_back(void **test)
{
	(void)test;
	both(plain);
}

static void list(void *arg)
{
	struct inode *dir = root();
	struct opendir_in open = { dir };
	struct opendir_out opened = { 0 };
	struct readdir_in in = { .size = 65536, .flags = READDIR_PLUS };
	struct readdir_out out = { 0 };
	struct lookup_in look = { { dir, NULL, "b" } };
	struct lookup_out found = { 0 };

	(void)arg;
	release(create("a"));
	release(create("b"));
	assert_int_equal(CALL(opendir, &open, &opened), 0);
	in.file = opened.file;
	assert_int_equal(CALL(readdir, &in, &out), 0);
	assert_int_equal(out.entries.count, 2);
	assert_true(out.entries.end);
	assert_string_equal(out.entries.entry[1].name, "b");
	assert_int_equal(CALL(lookup, &look, &found), 0);
	assert_ptr_equal(found.inode, out.entries.entry[1].inode);
	fop_out_clear(FOP_lookup, &found);
	fop_out_clear(FOP_readdir, &out);
	release(file_ref(opened.file));
	fop_out_clear(FOP_opendir, &opened);
	assert_int_equal(remove_file("a"), 0);
	assert_int_equal(remove_file("b"), 0);
	assert_int_equal(remove_file("b"), -ENOENT);
	inode_unref(dir);
}

static void directories_are_listed_with_their_objects(void **test)
{
	(void)test;
	both(list);
}

static void count_calls(void *arg)
{
	enum { CALLS = 500 };
	unsigned long sends, receives;

	(void)arg;
	for (int i = 0; i < 10; i++)
		assert_int_equal(stat_root(), 0);
	sends = counter(client, "sends ") + counter(server, "sends ");
	receives = counter(client, "receives ") + counter(server, "receives ");
	for (int i = 0; i < CALLS; i++)
		assert_int_equal(stat_root(), 0);
	assert_in_range(counter(client, "sends ") + counter(server, "sends ") - sends, 2 * CALLS, 2 * CALLS + 20);
	assert_in_range(counter(client, "receives ") + counter(server, "receives ") - receives, 2 * CALLS, 2 * CALLS + 20);
}

static void a_call_is_one_send_and_one_receive_on_each_side(void **test)
{
	(void)test;
	both(count_calls);
}

static int load_groups(struct request *rq, gid_t **groups)
{
	(void)rq;
	*groups = calloc(3, sizeof(gid_t));
	return 3;
}

static void groups(void *arg)
{
	struct inode *dir = root();
	struct access_in in = { dir, R_OK };
	struct access_out out;
	struct request rq;

	(void)arg;
	request_init(&rq, client, 0);
	rq.load_groups = load_groups;
	assert_int_equal(access_on(&rq, client->top, &in, &out), 0);
	assert_int_equal(atomic_load(&disk->groups), 3);
	request_finish(&rq);
	inode_unref(dir);
}

static void groups_are_sent_when_the_brick_asks(void **test)
{
	(void)test;
	both(groups);
}

/* ---- lost connections ---- */

static void dropper(void *arg)
{
	atomic_bool *stop_it = arg;

	while (!atomic_load(stop_it)) {
		command(client, "drop-connections");
		task_sleep_ms(70);
		command(server, "drop-connections");
		task_sleep_ms(70);
	}
}

static void append_much(void *arg)
{
	enum { APPENDS = 1000 };
	struct file *file = create("log");
	unsigned before = atomic_load(&disk->appends);
	atomic_bool stop_it = false;
	struct aside drop = { .fn = dropper, .arg = &stop_it };
	struct getattr_in in = { file->inode, file };
	struct getattr_out out = { 0 };

	(void)arg;
	start_aside(&drop);
	for (int i = 0; i < APPENDS; i++) {
		assert_int_equal(write_file(file, 0, "0123456789", 10, WRITE_APPEND), 10);
		if (i % (APPENDS / 5) == 0) /* the brick has answered, so there is a connection: wait until that is lost too */
			UNTIL(counter(client, "connects: ") > 1ul + i / (APPENDS / 5));
	}
	atomic_store(&stop_it, true);
	UNTIL(atomic_load(&drop.done));
	assert_int_equal(CALL(getattr, &in, &out), 0);
	assert_int_equal(out.attr.size, APPENDS * 10);
	assert_int_equal(atomic_load(&disk->appends) - before, APPENDS);
	assert_true(counter(client, "connects: ") > 3);
	release(file);
	assert_int_equal(remove_file("log"), 0);
}

static void appends_happen_once_over_lost_connections(void **test)
{
	(void)test;
	both(append_much);
}

static void write_once(void *arg)
{
	assert_int_equal(write_file(arg, 0, "x", 1, 0), 1);
}

static void resend(void *arg)
{
	struct file *file = create("held");
	struct aside w = { .fn = write_once, .arg = file };
	unsigned before = atomic_load(&disk->writes);

	(void)arg;
	atomic_store(&disk->hold, true);
	start_aside(&w);
	UNTIL(atomic_load(&disk->writes) == before + 1);
	for (int i = 1; i <= 3; i++) {
		command(client, "drop-connections");
		UNTIL(counter(server, "duplicates ") == (unsigned)i);
	}
	assert_false(atomic_load(&w.done));
	atomic_store(&disk->hold, false);
	UNTIL(atomic_load(&w.done));
	assert_int_equal(atomic_load(&disk->writes), before + 1);
	release(file);
	assert_int_equal(remove_file("held"), 0);
}

static void a_call_in_progress_is_not_run_again(void **test)
{
	(void)test;
	both(resend);
}

/* ---- waiting locks ---- */

static void wait_for_lock(void *arg)
{
	assert_int_equal(lock(arg, 2, F_WRLCK, true), -ECANCELED);
}

static void cancel(void *arg)
{
	struct file *file = create("locked");
	struct aside waiter = { .fn = wait_for_lock, .arg = file };

	(void)arg;
	assert_int_equal(lock(file, 1, F_WRLCK, false), 0);
	start_aside(&waiter);
	UNTIL(atomic_load(&disk->lock_waits) == 1);
	command(client, "drop-connections"); /* it waits on over this */
	UNTIL(counter(server, "duplicates ") >= 1);
	task_cancel(waiter.task);
	UNTIL(atomic_load(&waiter.done));
	assert_int_equal(atomic_load(&disk->lock_waits), 0);
	assert_int_equal(lock(file, 1, F_UNLCK, false), 0);
	assert_int_equal(lock(file, 3, F_WRLCK, false), 0);
	assert_int_equal(lock(file, 3, F_UNLCK, false), 0);
	release(file);
	assert_int_equal(remove_file("locked"), 0);
}

static void a_waiting_lock_is_cancelled_at_the_brick(void **test)
{
	(void)test;
	both(cancel);
}

/* ---- many at once ---- */

enum { CROWD = 4 * WIRE_SLOTS };
static atomic_uint stats_done;

static void stat_much(void *arg)
{
	for (int i = 0; i < 10; i++)
		assert_int_equal(stat_root(), 0);
	(void)arg;
	atomic_fetch_add(&stats_done, 1);
}

static void crowd(void *arg)
{
	(void)arg;
	atomic_store(&stats_done, 0);
	for (int i = 0; i < CROWD; i++)
		assert_int_equal(task_spawn(runtime_shard(i), stat_much, NULL), 0);
	UNTIL(atomic_load(&stats_done) == CROWD);
}

static void more_requests_than_slots_all_get_their_turn(void **test)
{
	(void)test;
	both(crowd);
}

/* ---- sessions, errors, garbage ---- */

static void leave_open(void *arg)
{
	struct file *file = create("open");

	(void)arg;
	file_unref(file); /* without a release */
}

static void a_session_ends_with_its_client(void **test)
{
	unsigned gone = atomic_load(&disk->gone);

	(void)test;
	start_server("");
	start_client("");
	task_call(leave_open, NULL);
	stop(&client);
	assert_int_equal(atomic_load(&disk->gone), gone + 1);
	assert_int_equal(counter(server, "connections "), 0);
	start_client("");
	stop(&client);
	stop(&server);
	for (int i = 0; i < LEAF_OBJECTS; i++)
		assert_int_equal(disk->object[i].opens, 0);
}

static void expect_problem(const char *options, const char *words)
{
	struct problem p;
	struct graph *g = client_graph(options, &p);

	assert_null(g);
	if (!strstr(p.text, words))
		fail_msg("\"%s\" is not in: %s", words, p.text);
}

static void mistakes_are_named_in_a_sentence(void **test)
{
	int right = port;

	(void)test;
	start_server("");
	expect_problem(" option remote-subvolume nobody\n", "no subvolume \"nobody\"");
	expect_problem(" option remote-subvolume brick\n option volume-id 99999999-2222-3333-4444-555555555555\n",
		       "belongs to volume");
	right = port;
	stop(&server);
	expect_problem(" option remote-subvolume brick\n", "is stratusd running there?");
	port = right;
}

static int dial(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval patience = { 5, 0 };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

static void send_garbage(unsigned seed)
{
	uint32_t words[64], junk = seed * 2654435761u;
	int fd = dial();
	char c;

	for (int i = 0; i < 64; i++)
		words[i] = junk = junk * 1664525 + 1013904223;
	call_header(words, seed, seed % 200, seed % 3 ? 0 : junk);
	words[0] = htonl((seed % 5 ? 0x80000000 : 0) | (seed % 7 ? sizeof(words) - 4 : junk));
	send(fd, words, sizeof(words), MSG_NOSIGNAL);
	if (seed % 2)
		shutdown(fd, SHUT_WR);
	while (recv(fd, &c, 1, seed % 2 ? 0 : MSG_DONTWAIT) > 0)
		;
	close(fd);
}

static void still_there(void *arg)
{
	(void)arg;
	assert_int_equal(stat_root(), 0);
}

static void garbage_does_no_harm(void **test)
{
	(void)test;
	start_server(" option handshake-timeout 200ms\n");
	start_client("");
	for (unsigned seed = 1; seed < 400; seed++)
		send_garbage(seed);
	task_call(still_there, NULL);
	stop(&client);
	stop(&server);
}

static void a_caller_who_does_not_greet_is_sent_away(void **test)
{
	char c;
	int fd;

	(void)test;
	start_server(" option handshake-timeout 100ms\n");
	fd = dial();
	assert_int_equal(recv(fd, &c, 1, 0), 0);
	close(fd);
	stop(&server);
}

static void rpc_null_is_answered(void **test)
{
	uint32_t words[16], answer[16];
	uint32_t size;
	int fd;

	(void)test;
	start_server("");
	fd = dial();
	size = call_header(words, 7, WIRE_NULL, 0);
	words[0] = htonl(0x80000000 | (size - 4));
	assert_int_equal(send(fd, words, size, 0), size);
	assert_true(recv(fd, answer, sizeof(answer), 0) >= 28);
	assert_int_equal(ntohl(answer[1]), 7);
	assert_int_equal(ntohl(answer[2]), 1);
	close(fd);
	stop(&server);
}

/* What the client does not take is counted where it waits. More than there may be, until no more comes. */
static unsigned long recall_much(void)
{
	enum { RECALLS = 50000, ROUNDS = 40 };
	struct event e = { .kind = EVENT_RECALL };
	unsigned long before, now = 0;
	int rounds = 0;

	do {
		before = now;
		for (int i = 0; i < RECALLS; i++)
			event_up(server->top->child[0], &e);
		now = counter(server, "queued ");
	} while (++rounds < ROUNDS && (!before || now > before));
	assert_true(rounds < ROUNDS);
	return now;
}

static void leave_unread(void *arg)
{
	struct halter *h = arg;

	assert_int_equal(stat_root(), 0);
	atomic_store(&h->keep[DOWN], true);
	assert_in_range(recall_much(), 32 << 20, 33 << 20); /* as much as of answers */
}

static void recalls_that_nobody_takes_do_not_pile_up(void **test)
{
	struct halter h;

	(void)test;
	start_server("");
	halter_start(&h, port);
	dial_by_way_of(h.port);
	start_client("");
	dial_by_way_of(0);
	task_call(leave_unread, &h);
	halter_stop(&h);
	stop(&client);
	stop(&server);
}

static int begin(void **test)
{
	void *library;

	(void)test;
	setenv("CMOCKA_TEST_ABORT", "1", 1); /* a failed assertion in a task must not longjmp to another stack */
	setenv("STRATUS_XLATOR_PATH", "xlators:tests/unit", 0);
	library = dlopen("tests/unit/test/leaf/.libs/leaf.so", RTLD_NOW); /* kept: the leaf's memory is the disk */
	if (!library)
		fprintf(stderr, "%s\n", dlerror());
	disk = library ? dlsym(library, "leaf") : NULL;
	return disk ? runtime_start(2, 0) : -1;
}

static int end(void **test)
{
	(void)test;
	runtime_stop();
	for (int i = 0; i < LEAF_OBJECTS; i++)
		free(disk->object[i].data);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_goes_out_and_comes_back),
		cmocka_unit_test(directories_are_listed_with_their_objects),
		cmocka_unit_test(a_call_is_one_send_and_one_receive_on_each_side),
		cmocka_unit_test(groups_are_sent_when_the_brick_asks),
		cmocka_unit_test(appends_happen_once_over_lost_connections),
		cmocka_unit_test(a_call_in_progress_is_not_run_again),
		cmocka_unit_test(files_and_locks_survive_a_restart_of_the_brick),
		cmocka_unit_test(who_is_refused_a_reclaim_hears_it_in_the_answer_only),
		cmocka_unit_test(a_lock_is_told_to_be_lost_before_requests_go_on),
		cmocka_unit_test(a_lock_goes_with_the_file_that_it_was_taken_through),
		cmocka_unit_test(an_append_over_a_restart_is_an_error),
		cmocka_unit_test(an_exchange_over_a_restart_is_done_once),
		cmocka_unit_test(a_release_that_has_no_answer_is_sent_until_it_has_one),
		cmocka_unit_test(a_lock_that_is_granted_through_what_was_released_is_not_kept),
		cmocka_unit_test(a_connection_lost_while_files_are_opened_again_is_made_again),
		cmocka_unit_test(a_connection_on_which_files_are_not_opened_again_in_time_is_made_again),
		cmocka_unit_test(a_client_stops_while_the_brick_does_not_open_its_files_again),
		cmocka_unit_test(who_does_not_wait_for_a_brick_tells_why_it_is_not_reached),
		cmocka_unit_test(a_file_is_open_once_in_a_session_that_one_channel_has_not_heard_of),
		cmocka_unit_test(a_session_of_a_crowd_is_not_read_until_what_is_held_goes_on),
		cmocka_unit_test(what_is_held_back_is_done_when_the_server_stops),
		cmocka_unit_test(a_lock_is_given_back_while_as_many_wait_as_may),
		cmocka_unit_test(a_graph_that_begins_is_told_that_a_brick_is_down),
		cmocka_unit_test(a_brick_that_goes_while_it_is_told_to_be_up_is_told_to_be_down),
		cmocka_unit_test(requests_wait_for_the_brick_up_to_max_wait),
		cmocka_unit_test(a_waiting_lock_is_cancelled_at_the_brick),
		cmocka_unit_test(more_requests_than_slots_all_get_their_turn),
		cmocka_unit_test(a_session_ends_with_its_client),
		cmocka_unit_test(recalls_that_nobody_takes_do_not_pile_up),
		cmocka_unit_test(mistakes_are_named_in_a_sentence),
		cmocka_unit_test(garbage_does_no_harm),
		cmocka_unit_test(a_caller_who_does_not_greet_is_sent_away),
		cmocka_unit_test(rpc_null_is_answered),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
