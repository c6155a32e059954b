/* SPDX-License-Identifier: Apache-2.0 */
/* Whom protocol/server lets in by TLS, and whom protocol/client takes for its server: also while files change and places are few. */
#include "test.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ca.h"
#include "graph-of.h"
#include "halter.h"
#include "log.h"
#include "message.h"
#include "path.h"
#include "test/gate/gate.h"

enum { PATIENCE_MS = 30000 };

static char top[64];
static int port;
static struct graph *server;

/* ---- certificates ---- */

static void certify(const char *kind, const char *name, const char *out)
{
	cleanup_path char *directory = path_format("%s/ca", top), *to = path_format("%s/%s", top, out);
	struct problem p = { "" };
	struct authority *a;
	struct subject s;
	struct pems pems;
	char serial[CA_SERIAL_TEXT];

	assert_int_equal(authority_open(directory, &a, &p), 0);
	if (!kind)
		assert_int_equal(subject_server(&s, "127.0.0.1", &p), 0);
	else if (!strcmp(kind, "access"))
		assert_int_equal(subject_access(&s, name, &p), 0);
	else
		assert_int_equal(subject_named(&s, kind, name, &p), 0);
	assert_int_equal(authority_issue(a, &s, 0, &pems, serial, &p), 0);
	assert_int_equal(authority_install(a, &pems, to, true, &p), 0);
	authority_close(a);
	pems_free(&pems);
	subject_free(&s);
}

/* Revokes the certificate of `whose`, and gives the list to `where`. */
static void revoke_at(const char *whose, const char *where)
{
	cleanup_path char *directory = path_format("%s/ca", top), *file = path_format("%s/%s/cert.pem", top, whose);
	cleanup_path char *copy = path_format("cp %s/ca/crl.pem %s/%s/crl.pem", top, top, where);
	struct problem p = { "" };
	struct authority *a;
	char serial[CA_SERIAL_TEXT];
	bool already;

	assert_int_equal(authority_open(directory, &a, &p), 0);
	assert_int_equal(authority_serial(a, file, serial, &p), 0);
	assert_int_equal(authority_revoke(a, serial, &already, &p), 0);
	authority_close(a);
	assert_int_equal(system(copy), 0);
}

/* ---- graphs ---- */

static char *tls_of(const char *who)
{
	return path_format(" option transport tls\n option tls-certificate %s/%s/cert.pem\n option tls-key %s/%s/key.pem\n"
			   " option tls-authorities %s/%s/ca.pem\n option tls-revoked %s/%s/crl.pem\n",
			   top, who, top, who, top, who, top, who);
}

static const char brick[] = "volume brick\n type test/leaf\nend-volume\n";
static const char brick_for_tenants[] = "volume disk\n type test/leaf\nend-volume\n"
					"volume brick\n type test/gate\n subvolumes disk\nend-volume\n";

static void start(const char *below, const char *tls, const char *more)
{
	cleanup_path char *path = path_format("%s/port", top);
	cleanup_path char *text = path_format("%svolume server\n type protocol/server\n option listen 127.0.0.1:0\n"
					      " option port-file %s\n%s%s subvolumes brick\nend-volume\n",
					      below, path, tls, more);
	struct problem p;
	FILE *f;

	server = graph_of(text, &p);
	if (!server)
		fail_msg("%s", p.text);
	f = fopen(path, "r");
	assert_int_equal(fscanf(f, "%d", &port), 1);
	fclose(f);
}

static void start_server(const char *below, const char *more)
{
	cleanup_path char *tls = tls_of("server");

	start(below, tls, more);
}

static struct graph *visit(const char *who, int at, const char *more, struct problem *p)
{
	cleanup_path char *tls = tls_of(who);
	cleanup_path char *text =
		path_format("volume c\n type protocol/client\n option remote-host 127.0.0.1\n option remote-port %d\n"
			    " option remote-subvolume brick\n%s%send-volume\n",
			    at, tls, more);

	return graph_of(text, p);
}

static struct graph *welcome(const char *who)
{
	struct problem p;
	struct graph *g = visit(who, port, "", &p);

	if (!g)
		fail_msg("%s: %s", who, p.text);
	return g;
}

/* One that goes on trying. */
static struct graph *caller(const char *who, int at)
{
	struct problem p;
	struct graph *g = visit(who, at, " option wait-for-brick on\n", &p);

	if (!g)
		fail_msg("%s: %s", who, p.text);
	return g;
}

static void leave(struct graph *g)
{
	graph_stop(g);
	graph_destroy(g);
}

static void dump_of(struct graph *g, char **text)
{
	size_t size;
	FILE *f = open_memstream(text, &size);

	g->top->type->dump(g->top, f);
	fclose(f);
}

static bool says(struct graph *g, const char *words)
{
	cleanup_path char *text = NULL;

	dump_of(g, &text);
	return strstr(text, words);
}

static void await_words(struct graph *g, const char *words)
{
	int ms = 0;

	while (!says(g, words) && ms++ < PATIENCE_MS)
		usleep(1000);
	if (!says(g, words))
		fail_msg("\"%s\" does not come true", words);
}

/* How often a client has seen that its certificates, or the list of those that are revoked, are others. */
static unsigned long changes_seen(struct graph *g)
{
	static const char words[] = "certificates changed: ";
	cleanup_path char *text = NULL;
	const char *at;

	dump_of(g, &text);
	at = strstr(text, words);
	assert_non_null(at);
	return strtoul(at + strlen(words), NULL, 10);
}

static void await_kept(struct halter *h)
{
	for (int ms = 0; !atomic_load(&h->keeps) && ms < PATIENCE_MS; ms++)
		usleep(1000);
	assert_true(atomic_load(&h->keeps));
}

/* The first connection, which was kept, led nowhere: others were tried after it. */
static void stays_out(struct graph *g, struct halter *h)
{
	for (int ms = 0; atomic_load(&h->accepted) < 3 && says(g, "connects: 0") && ms < PATIENCE_MS; ms++)
		usleep(1000);
	assert_true(says(g, "connects: 0"));
	assert_in_range(atomic_load(&h->accepted), 3, 1000);
}

/* ---- the tests ---- */

/* Bytes of that way wait while one end is revoked, as the other's list has it. */
static void is_revoked_meanwhile(int way, const char *whose, const char *list)
{
	struct halter h;
	struct graph *witness, *late;
	unsigned long before;

	start_server(brick, "");
	witness = welcome("client");
	halter_start(&h, port);
	atomic_store(&h.keep[way], true);
	late = caller("client", h.port);
	await_kept(&h);
	before = changes_seen(late);
	revoke_at(whose, list);
	await_words(witness, "brick: down"); /* who has read the list has looked at all */
	for (int ms = 0; way == DOWN && changes_seen(late) == before && ms < PATIENCE_MS; ms++)
		usleep(1000);
	atomic_store(&h.keep[way], false);
	stays_out(late, &h);
	leave(late);
	leave(witness);
	halter_stop(&h);
	leave(server);
}

static void a_client_that_is_revoked_during_its_handshake_stays_out(void **state)
{
	(void)state;
	is_revoked_meanwhile(UP, "client", "server");
}

static void a_server_that_is_revoked_during_its_handshake_is_left(void **state)
{
	(void)state;
	is_revoked_meanwhile(DOWN, "server", "client");
}

static void is_refused(const char *who, const char *words)
{
	struct problem p;

	assert_null(visit(who, port, "", &p));
	if (!strstr(p.text, words))
		fail_msg("%s is refused so: %s", who, p.text);
}

static void a_tenant_comes_in_only_where_it_is_given_its_part(void **state)
{
	struct graph *g;

	(void)state;
	certify("tenant", "acme", "acme");
	start_server(brick, "");
	g = welcome("client");
	is_refused("acme", "stratus:tenant/acme may not use this brick: its volume is not for tenants");
	leave(g);
	leave(server);
	start_server(brick_for_tenants, "");
	g = welcome("acme");
	leave(g);
	leave(server);
}

static void one_tenant_does_not_take_the_places_of_others(void **state)
{
	struct graph *first, *second, *other;

	(void)state;
	certify("tenant", "acme", "acme");
	certify("tenant", "globex", "globex");
	start_server(brick_for_tenants, " option max-connections 8\n");
	first = welcome("acme");
	second = welcome("acme");
	is_refused("acme", "stratus:tenant/acme has as many connections or sessions as max-connections-of-one allows");
	other = welcome("globex");
	leave(first);
	first = welcome("acme");
	leave(other);
	leave(second);
	leave(first);
	leave(server);
}

static void a_server_finds_a_place_when_clients_have_taken_all(void **state)
{
	struct graph *client[3], *provider;

	(void)state;
	start_server(brick, " option max-connections 3\n");
	for (int i = 0; i < 3; i++)
		client[i] = welcome("client");
	is_refused("client", "there are as many connections as max-connections allows");
	provider = welcome("server");
	leave(provider);
	for (int i = 0; i < 3; i++)
		leave(client[i]);
	leave(server);
}

/* Of its generation there can be no connection: it is refused when the session is there. */
static void say_hello_in_vain(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct wire_hello hello = { .generation = 0 };
	char head[WIRE_GREETING_MAX] __attribute__((aligned(8)));
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint32_t size;

	hello.subvolume.subvolume_val = "brick";
	hello.subvolume.subvolume_len = strlen("brick");
	size = encode_call(head, sizeof(head), 7, WIRE_HELLO, (xdrproc_t)xdr_wire_hello, &hello);
	*(uint32_t *)head = htonl(0x80000000 | (size - 4));
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(send(fd, head, size, 0), size);
	assert_true(recv(fd, head, sizeof(head), 0) > 0);
	close(fd);
}

static void a_session_whose_first_connection_is_refused_ends(void **state)
{
	(void)state;
	start(brick, "", " option session-timeout 3s\n");
	say_hello_in_vain();
	await_words(server, "session: ");
	await_words(server, "garbage: 1\n");
	for (int ms = 0; says(server, "session: ") && ms < PATIENCE_MS; ms++)
		usleep(1000);
	assert_false(says(server, "session: "));
	leave(server);
}

/* ---- who is confined to a directory ---- */

/* That the last who came has one for a root already. */
static bool is_told_root(struct gate *gate)
{
	bool is;

	pthread_mutex_lock(&gate->guard);
	is = !gfid_is_null(&gate->root);
	pthread_mutex_unlock(&gate->guard);
	return is;
}

static void await_more(struct gate *gate, unsigned than)
{
	for (int ms = 0; atomic_load(&gate->came) <= than && ms < PATIENCE_MS; ms++)
		usleep(1000);
	assert_true(atomic_load(&gate->came) > than);
}

static void drop_connections(struct graph *g)
{
	char *words[] = { (char *)"drop-connections" };
	FILE *null = fopen("/dev/null", "w");

	assert_int_equal(g->top->type->command(g->top, 1, words, null), 0);
	fclose(null);
}

struct asking {
	struct graph *graph;
	int err;
	atomic_bool done;
};

static void ask_for_root(void *arg)
{
	struct asking *a = arg;
	cleanup_inode struct inode *root = inode_get(a->graph->inodes, &gfid_root, S_IFDIR);
	struct getattr_in in = { .inode = root };
	struct getattr_out out = { 0 };
	struct request rq;

	request_init(&rq, a->graph, 0);
	a->err = getattr_on(&rq, a->graph->top, &in, &out);
	request_finish(&rq);
	atomic_store(&a->done, true);
}

/* One more connection of a session gets the directory that the session has; of one that is ending it does not: the next session gets what its path leads to by now. */
static void a_session_that_is_ending_passes_its_directory_to_none(void **state)
{
	struct asking asking = { .err = 1 };
	struct graph *g;
	struct gate *gate;
	unsigned came;

	(void)state;
	certify("access", "acme/cccccccc-0000-4000-8000-000000000001", "web");
	start_server(brick_for_tenants, "");
	gate = server->top->child[0]->private;
	g = asking.graph = welcome("web");
	assert_true(!is_told_root(gate));
	came = atomic_load(&gate->came);
	drop_connections(g);
	await_more(gate, came);
	assert_true(is_told_root(gate));
	await_words(g, "brick: up");
	atomic_store(&gate->holds, true);
	assert_int_equal(task_spawn(NULL, ask_for_root, &asking), 0);
	for (int ms = 0; !atomic_load(&gate->held) && ms < PATIENCE_MS; ms++)
		usleep(1000);
	assert_int_equal(atomic_load(&gate->held), 1);
	atomic_store(&gate->refuses, true);
	await_words(server, ", ending");
	await_more(gate, atomic_load(&gate->came) + 1); /* one may have come before */
	assert_true(!is_told_root(gate));
	assert_true(says(server, ", ending"));
	atomic_store(&gate->refuses, false);
	atomic_store(&gate->holds, false);
	for (int ms = 0; !atomic_load(&asking.done) && ms < PATIENCE_MS; ms++)
		usleep(1000);
	assert_int_equal(asking.err, 0);
	leave(g);
	leave(server);
}

static int set_up(void **state)
{
	cleanup_path char *directory = NULL;
	struct problem p = { "" };
	bool made;

	(void)state;
	test_directory(top, sizeof(top), "stratus-visitors");
	directory = path_format("%s/ca", top);
	assert_int_equal(authority_init(directory, "Test", 100, &made, &p), 0);
	certify(NULL, NULL, "server");
	certify("client", "one", "client");
	return 0;
}

static int tear_down(void **state)
{
	cleanup_path char *command = path_format("rm -rf %s", top);

	(void)state;
	return system(command);
}

static int begin(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);	     /* as in every process of StratusFS */
	setenv("CMOCKA_TEST_ABORT", "1", 1); /* graphs that nobody stops would keep the end from coming */
	setenv("STRATUS_XLATOR_PATH", "xlators:tests/unit", 0);
	log_set_level(LOG_ERROR);
	return runtime_start(1, 0);
}

static int end(void **state)
{
	(void)state;
	runtime_stop();
	return 0;
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_client_that_is_revoked_during_its_handshake_stays_out),
		TEST(a_server_that_is_revoked_during_its_handshake_is_left),
		TEST(a_tenant_comes_in_only_where_it_is_given_its_part),
		TEST(one_tenant_does_not_take_the_places_of_others),
		TEST(a_server_finds_a_place_when_clients_have_taken_all),
		TEST(a_session_whose_first_connection_is_refused_ends),
		TEST(a_session_that_is_ending_passes_its_directory_to_none),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
