/* SPDX-License-Identifier: Apache-2.0 */
/* A specification becomes the volfiles it describes; a wrong one becomes a sentence with its line. */
#include "volgen-test.h"

static const char two_servers[] =
	"volume: vol\n"
	"id: " IDS(9) "\n"
		      "servers:\n"
		      "  alpha: {host: 192.0.2.1, port: 7000}\n"
		      "  beta:\n"
		      "    host: \"2001:db8::1\"\n"
		      "    listen: \"::\"\n"
		      "bricks:\n"
		      "  - {server: alpha, directory: /srv/b0, id: " IDS(
			      1) "}\n"
				 "  - {server: beta, directory: \"/srv/b 1/\", id: " IDS(
					 2) "}\n"
					    "  - {server: alpha, directory: /srv/b2, id: " IDS(
						    3) "}\n"
						       "client-translators: [debug/trace, debug/io-stats]\n"
						       "options:\n"
						       "  protocol/client:\n"
						       "    max-wait: 5s\n";

void make(const char *text, struct volgen_files *files)
{
	struct problem p = { "" };
	struct spec s;
	int err = spec_parse(text, strlen(text), "x.yaml", &s, &p);

	if (!err)
		err = volgen(&s, NULL, files, &p);
	assert_string_equal(p.text, "");
	assert_int_equal(err, 0);
	spec_free(&s);
}

void parse(const struct volgen_files *files, const char *name, struct volfile *v)
{
	struct problem p = { "" };

	for (size_t i = 0; i < files->count; i++)
		if (!strcmp(files->file[i].name, name)) {
			assert_int_equal(volfile_parse(files->file[i].text, strlen(files->file[i].text), name, v, &p), 0);
			return;
		}
	fail_msg("no file %s was made", name);
}

const char *value(const struct volfile *v, const char *volume, const char *option)
{
	for (size_t i = 0; i < v->volumes; i++)
		for (size_t k = 0; k < v->volume[i].options; k++)
			if (!strcmp(v->volume[i].name, volume) && !strcmp(v->volume[i].option[k].name, option))
				return v->volume[i].option[k].value;
	fail_msg("volume %s has no option %s", volume, option);
	return NULL;
}

static void each_server_serves_its_own_bricks(void **state)
{
	struct volgen_files files;
	struct volfile v;

	(void)state;
	make(two_servers, &files);
	assert_int_equal(files.count, 3);
	parse(&files, "server-alpha.vol", &v);
	assert_int_equal(v.volumes, 13);
	assert_string_equal(v.volume[12].type, "protocol/server");
	assert_int_equal(v.volume[12].subvolumes, 2);
	assert_string_equal(v.volume[12].subvolume[0], "brick0");
	assert_string_equal(v.volume[12].subvolume[1], "brick2");
	assert_string_equal(value(&v, "brick2-layout", "subvolume"), "2");
	assert_string_equal(value(&v, "brick2-layout", "initial"), "3");
	assert_string_equal(value(&v, "brick2", "record"), "/srv/b2/.stratus/leases");
	assert_string_equal(value(&v, "server", "listen"), "192.0.2.1:7000");
	assert_string_equal(value(&v, "brick2-posix", "directory"), "/srv/b2");
	assert_string_equal(value(&v, "brick2-posix", "brick-id"), IDS(3));
	assert_string_equal(value(&v, "brick2-posix", "volume-id"), IDS(9));
	volfile_free(&v);
	volgen_free(&files);
}

static void blanks_and_addresses_survive_the_volfile(void **state)
{
	struct volgen_files files;
	struct volfile v;

	(void)state;
	make(two_servers, &files);
	parse(&files, "server-beta.vol", &v);
	assert_string_equal(value(&v, "server", "listen"), "[::]:24007");
	assert_string_equal(value(&v, "brick1-posix", "directory"), "/srv/b 1");
	volfile_free(&v);
	volgen_free(&files);
}

static void a_client_has_all_bricks_and_carries_its_translators(void **state)
{
	static const char *const types[] = { "protocol/client", "features/believe", "protocol/client", "features/believe",
					     "protocol/client", "features/believe", "cluster/dht",     "debug/trace",
					     "debug/io-stats",	"mount/fuse" };
	struct volgen_files files;
	struct volfile v;

	(void)state;
	make(two_servers, &files);
	parse(&files, "client-vol.vol", &v);
	assert_int_equal(v.volumes, 10);
	for (size_t i = 0; i < 10; i++)
		assert_string_equal(v.volume[i].type, types[i]);
	assert_string_equal(v.volume[6].name, "dht");
	assert_int_equal(v.volume[6].options, 0); /* the volume never grew: as it was before that could be */
	assert_int_equal(v.volume[6].subvolumes, 3);
	assert_string_equal(v.volume[6].subvolume[2], "client2");
	for (size_t i = 7; i < 10; i++)
		assert_string_equal(v.volume[i].subvolume[0], v.volume[i - 1].name);
	assert_string_equal(value(&v, "connection1", "remote-host"), "2001:db8::1");
	assert_string_equal(value(&v, "connection1", "remote-subvolume"), "brick1");
	assert_string_equal(value(&v, "connection1", "max-wait"), "5s");
	volfile_free(&v);
	volgen_free(&files);
}

static void a_replica_set_has_one_client_and_a_coordinator(void **state)
{
	struct volgen_files files;
	struct volfile v;

	(void)state;
	make(SET("") "client-translators: [debug/trace]\n", &files);
	assert_int_equal(files.count, 5);
	parse(&files, "client-v.vol", &v);
	assert_int_equal(v.volumes, 6);
	assert_string_equal(v.volume[3].type, "cluster/afr");
	assert_int_equal(v.volume[3].options, 0);
	assert_int_equal(v.volume[3].subvolumes, 3);
	assert_string_equal(v.volume[3].subvolume[2], "client2");
	assert_string_equal(v.volume[4].subvolume[0], v.volume[3].name);
	assert_string_equal(value(&v, "client0", "max-wait"), "5s");
	assert_string_equal(value(&v, "client0", "wait-for-brick"), "on");
	volfile_free(&v);
	parse(&files, "coordinator-v.vol", &v);
	assert_int_equal(v.volumes, 4);
	assert_string_equal(v.volume[3].name, "coordinator");
	assert_string_equal(v.volume[3].type, "cluster/coordinator");
	assert_int_equal(v.volume[3].subvolumes, 3);
	assert_string_equal(value(&v, "client0", "start-wait"), "0");
	assert_string_equal(value(&v, "coordinator", "first-answer"), "3s");
	assert_string_equal(value(&v, "coordinator", "volume"), "v");
	assert_string_equal(value(&v, "coordinator", "state-file"), "/var/lib/stratus/v.view");
	assert_string_equal(value(&v, "coordinator", "secret-file"), "/var/lib/stratus/v.secret");
	volfile_free(&v);
	volgen_free(&files);
}

static void sets_follow_each_other_and_each_has_a_coordinator(void **state)
{
	static const char *const types[] = { "protocol/client", "protocol/client", "protocol/client", "cluster/afr",
					     "protocol/client", "protocol/client", "protocol/client", "cluster/afr",
					     "cluster/dht",	"mount/fuse" };
	struct volgen_files files;
	struct volfile v;

	(void)state;
	make("volume: v\nid: " IDS(9) "\nreplica: 3\narbiter: true\nservers: {a: {host: h}}\n" SIX, &files);
	assert_int_equal(files.count, 4);
	parse(&files, "client-v.vol", &v);
	assert_int_equal(v.volumes, 10);
	for (size_t i = 0; i < 10; i++)
		assert_string_equal(v.volume[i].type, types[i]);
	assert_string_equal(v.volume[8].subvolume[0], "afr0");
	assert_string_equal(v.volume[8].subvolume[1], "afr1");
	assert_string_equal(v.volume[7].subvolume[0], "client3");
	assert_string_equal(value(&v, "afr1", "arbiter"), "on");
	volfile_free(&v);
	parse(&files, "server-a.vol", &v);
	assert_string_equal(value(&v, "brick0", "member"), "0");
	assert_string_equal(value(&v, "brick4", "member"), "1");
	volfile_free(&v);
	parse(&files, "coordinator-v:1.vol", &v);
	assert_int_equal(v.volumes, 4);
	assert_string_equal(v.volume[3].name, "coordinator1");
	assert_string_equal(v.volume[3].subvolume[0], "client3");
	assert_string_equal(value(&v, "coordinator1", "volume"), "v:1");
	assert_string_equal(value(&v, "coordinator1", "state-file"), "/var/lib/stratus/v:1.view");
	assert_string_equal(value(&v, "coordinator1", "secret-file"), "/var/lib/stratus/v.secret");
	volfile_free(&v);
	volgen_free(&files);
}

/* A subvolume that came later has no part of the implied layout: bricks and clients must be told the same number. */
static void bricks_and_clients_know_with_how_many_the_volume_began(void **state)
{
	struct volgen_files files;
	struct volfile v;

	(void)state;
	make("volume: v\nid: " IDS(9) "\nreplica: 2\nbegan-with: 2\nservers: {a: {host: h}}\n" SIX, &files);
	parse(&files, "server-a.vol", &v);
	assert_string_equal(value(&v, "brick0-layout", "initial"), "2");
	assert_string_equal(value(&v, "brick5-layout", "initial"), "2");
	assert_string_equal(value(&v, "brick5-layout", "subvolume"), "2");
	volfile_free(&v);
	parse(&files, "client-v.vol", &v);
	assert_string_equal(value(&v, "dht", "initial"), "2");
	volfile_free(&v);
	volgen_free(&files);
}

#define BEGAN_WITH_ONE "volume: v\nid: " IDS(9) "\nreplica: 3\nbegan-with: 1\nservers: {a: {host: h}}\n"
#define THREE	       "bricks:\n" BRICK_AT(1) BRICK_AT(2) BRICK_AT(3)

/* What stands over the first set keeps its name, and its bricks what they have. */
void has(const struct volfile *v, const char *volume, const char *type)
{
	for (size_t i = 0; i < v->volumes; i++)
		if (!strcmp(v->volume[i].name, volume)) {
			assert_string_equal(v->volume[i].type, type);
			return;
		}
	fail_msg("there is no %s", volume);
}

static void one_that_began_with_one_set_can_get_others(void **state)
{
	struct volgen_files one = { 0 }, two = { 0 };
	struct volfile v;

	(void)state;
	make(BEGAN_WITH_ONE THREE, &one);
	parse(&one, "client-v.vol", &v);
	has(&v, "dht", "cluster/dht");
	has(&v, "afr", "cluster/afr");
	volfile_free(&v);
	parse(&one, "coordinator-v.vol", &v);
	assert_string_equal(value(&v, "coordinator", "volume"), "v");
	volfile_free(&v);
	make(BEGAN_WITH_ONE SIX, &two);
	parse(&two, "client-v.vol", &v);
	assert_string_equal(value(&v, "dht", "initial"), "1");
	has(&v, "afr", "cluster/afr");
	has(&v, "afr1", "cluster/afr");
	volfile_free(&v);
	parse(&two, "server-a.vol", &v);
	assert_string_equal(value(&v, "brick0-layout", "initial"), "1");
	assert_string_equal(value(&v, "brick5-layout", "subvolume"), "1");
	volfile_free(&v);
	parse(&two, "coordinator-v:1.vol", &v);
	assert_string_equal(value(&v, "coordinator1", "volume"), "v:1");
	volfile_free(&v);
	volgen_free(&one);
	volgen_free(&two);
}

static void bricks_are_added_as_whole_sets_at_the_end(void **state)
{
	static const char *const bricks[] = { "a:/d7", "b.example:/d8" };
	static const char text[] = "volume: v\nid: " IDS(9) "\nreplica: 2\nservers: {a: {host: h}}\n" SIX;
	struct problem p = { "" };
	struct spec s;

	(void)state;
	assert_int_equal(spec_parse(text, strlen(text), "x.yaml", &s, &p), 0);
	assert_int_equal(spec_add_bricks(&s, bricks, 1, &p), -EINVAL);
	assert_non_null(strstr(p.text, "sets of 2 bricks (replica: 2), and 1 would be added"));
	assert_int_equal(s.bricks, 6);
	assert_int_equal(spec_add_bricks(&s, bricks, 2, &p), 0);
	assert_int_equal(s.bricks, 8);
	assert_string_equal(s.brick[5].directory, "/d6");
	assert_string_equal(s.brick[6].directory, "/d7");
	assert_string_equal(s.brick[7].server_name, "b.example");
	assert_false(gfid_equal(&s.brick[6].id, &s.brick[7].id));
	spec_free(&s);
}

static void a_brick_with_a_port_of_its_own_has_a_volfile_of_its_own(void **state)
{
	struct volgen_files files;
	struct volfile v;

	(void)state;
	make("volume: v\nid: " IDS(9) "\nservers: {a: {host: h}}\nbricks:\n  - {server: a, directory: /d, id: " IDS(
		     1) "}\n  - {server: a, directory: /e, port: 7000, id: " IDS(2) "}\n",
	     &files);
	assert_int_equal(files.count, 3);
	parse(&files, "server-a.vol", &v);
	assert_string_equal(v.volume[v.volumes - 1].subvolume[0], "brick0");
	assert_int_equal(v.volume[v.volumes - 1].subvolumes, 1);
	volfile_free(&v);
	parse(&files, "server-a-7000.vol", &v);
	assert_string_equal(v.volume[v.volumes - 1].subvolume[0], "brick1");
	assert_string_equal(value(&v, "server", "listen"), "h:7000");
	volfile_free(&v);
	parse(&files, "client-v.vol", &v);
	assert_string_equal(value(&v, "connection1", "remote-port"), "7000");
	volfile_free(&v);
	volgen_free(&files);
}

static void the_replica_translator_is_the_top_of_its_brick(void **state)
{
	struct volgen_files files;
	struct volfile v;

	(void)state;
	make(SET("arbiter: true\n") "server-translators: [debug/trace, debug/io-stats]\n", &files);
	parse(&files, "server-c.vol", &v);
	assert_int_equal(v.volumes, 7);
	assert_string_equal(v.volume[5].name, "brick2");
	assert_string_equal(v.volume[5].type, "features/replica");
	assert_string_equal(v.volume[5].subvolume[0], v.volume[4].name);
	assert_string_equal(value(&v, "brick2", "member"), "2");
	assert_string_equal(value(&v, "brick2", "state-dir"), "/d/.stratus/replica");
	assert_string_equal(value(&v, "brick2", "secret-file"), "/d/.stratus/secret");
	volfile_free(&v);
	parse(&files, "client-v.vol", &v);
	assert_string_equal(value(&v, "afr", "arbiter"), "on");
	volfile_free(&v);
	volgen_free(&files);
}

static void an_option_given_comes_before_the_short_wait_of_a_set(void **state)
{
	struct volgen_files files;
	struct volfile v;

	(void)state;
	make(SET("") "options: {protocol/client: {max-wait: 9s}}\n", &files);
	parse(&files, "client-v.vol", &v);
	assert_int_equal(v.volume[0].options, 7);
	assert_string_equal(value(&v, "client0", "max-wait"), "9s");
	volfile_free(&v);
	volgen_free(&files);
}

static void the_same_specification_gives_the_same_bytes(void **state)
{
	struct volgen_files a, b;

	(void)state;
	make(two_servers, &a);
	make(two_servers, &b);
	for (size_t i = 0; i < a.count; i++)
		assert_string_equal(a.file[i].text, b.file[i].text);
	volgen_free(&a);
	volgen_free(&b);
}

void comes_back(const char *text)
{
	struct problem p = { "" };
	char *once = NULL, *twice = NULL;
	struct spec s, copy;
	size_t size;
	FILE *to;

	assert_int_equal(spec_parse(text, strlen(text), "x", &s, &p), 0);
	to = open_memstream(&once, &size);
	spec_print(&s, to);
	fclose(to);
	spec_free(&s);
	assert_int_equal(spec_parse(once, size, "x", &s, &p), 0);
	spec_copy(&s, &copy);
	spec_free(&s);
	to = open_memstream(&twice, &size);
	spec_print(&copy, to);
	fclose(to);
	assert_string_equal(once, twice);
	spec_free(&copy);
	free(once);
	free(twice);
}

static void a_printed_specification_and_a_copy_read_back_the_same(void **state)
{
	(void)state;
	comes_back(two_servers);
	comes_back(SET("transport: tls\ntls: {certificate: /t/c, key: \"/t/k y\", authorities: /t/a, revoked: /t/r}\n"));
	comes_back(SET("transport: tcp\n"));
	comes_back(SET("arbiter: true\nstopped: true\n"));
	comes_back("volume: v\nid: " IDS(9) "\nreplica: 2\nbegan-with: 2\nservers: {a: {host: h}}\n" SIX);
	comes_back(HEAD SERVER "bricks: [{server: a, directory: /d, port: 7, id: " IDS(1) "}]\n");
}

/* Each volume that sends or listens, in each file, has the transport and its files. */
static void tls_is_everywhere(void **state)
{
	static const char *const options[][2] = { { "transport", "tls" },
						  { "tls-certificate", "/t/c" },
						  { "tls-key", "/t/k" },
						  { "tls-authorities", "/t/a" },
						  { "tls-revoked", "/t/r" } };
	struct volgen_files files;
	unsigned ends = 0;

	(void)state;
	make(SET("transport: tls\ntls: {certificate: /t/c, key: /t/k, authorities: /t/a, revoked: /t/r}\n"), &files);
	for (size_t i = 0; i < files.count; i++) {
		struct volfile v;

		parse(&files, files.file[i].name, &v);
		for (size_t k = 0; k < v.volumes; k++)
			if (!strncmp(v.volume[k].type, "protocol/", 9)) {
				ends++;
				for (size_t o = 0; o < 5; o++)
					assert_string_equal(value(&v, v.volume[k].name, options[o][0]), options[o][1]);
			}
		volfile_free(&v);
	}
	assert_int_equal(ends, 3 + 3 + 3); /* bricks, the client's, the coordinator's */
	volgen_free(&files);
}

static char *warning(const char *text)
{
	struct problem p = { "" };
	struct spec s;
	char *said;

	assert_int_equal(spec_parse(text, strlen(text), "x.yaml", &s, &p), 0);
	said = spec_warning(&s);
	spec_free(&s);
	return said;
}

static void an_open_port_without_tls_is_warned_of(void **state)
{
	static const char *const fine[] = { HEAD "servers: {a: {host: 127.0.0.1}}\n" BRICK,
					    HEAD "servers: {a: {host: h, listen: \"::1\"}}\n" BRICK,
					    HEAD SERVER BRICK "transport: tls\n" TLS,
					    HEAD SERVER BRICK "options: {protocol/server: {transport: tls}}\n" };
	static const char *const open[] = { HEAD SERVER BRICK, HEAD SERVER BRICK "transport: tcp\n",
					    HEAD "servers: {a: {host: 127.0.0.1, listen: 0.0.0.0}}\n" BRICK };

	(void)state;
	for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
		assert_null(warning(fine[i]));
	for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
		char *said = warning(open[i]);

		assert_non_null(strstr(said, "volume v has no TLS, and server a listens on"));
		free(said);
	}
}

static void init_chooses_fresh_ids(void **state)
{
	static const char *const bricks[] = { "a.example:/b0", "a.example:/b1", "[2001:db8::2]:/b2" };
	struct problem p = { "" };
	struct spec s, t, u;

	(void)state;
	assert_int_equal(spec_init("vol", bricks, 3, &(struct spec_form){ 0 }, &s, &p), 0);
	assert_int_equal(spec_init("vol", bricks, 3, &(struct spec_form){ .port = 7 }, &t, &p), 0);
	assert_int_equal(spec_init("vol", bricks, 3, &(struct spec_form){ .replica = 3, .arbiter = true }, &u, &p), 0);
	assert_int_equal(u.replica, 3);
	assert_true(u.arbiter);
	spec_free(&u);
	assert_int_equal(s.servers, 2);
	assert_string_equal(s.brick[2].server->host, "2001:db8::2");
	assert_int_equal(s.server[0].port, SPEC_PORT);
	assert_int_equal(t.server[0].port, 7);
	assert_false(gfid_equal(&s.id, &t.id));
	assert_false(gfid_equal(&s.brick[0].id, &s.brick[1].id));
	spec_free(&s);
	spec_free(&t);
}

static const struct {
	const char *text, *says;
} wrong[] = {
	{ "", "empty" },
	{ "a: [", "x.yaml:2: this is not YAML" },
	{ "- volume\n", "x.yaml:1: a specification takes a mapping" },
	{ "volume: v\n", "'id' is missing" },
	{ HEAD, "no server" },
	{ HEAD SERVER, "no brick" },
	{ HEAD "serves: {}\n", "x.yaml:3: 'serves' means nothing here: did you mean 'servers'?" },
	{ HEAD "volume: w\n", "x.yaml:3: 'volume' is given twice" },
	{ "volume: a/b\n", "x.yaml:1: 'a/b' is no name" },
	{ "volume: [a]\n", "x.yaml:1: expected one value" },
	{ "volume: v\nid: 12\n", "x.yaml:2: '12' is no id" },
	{ HEAD "servers:\n  a:\n    port: 70000\n", "x.yaml:5: '70000' is no port" },
	{ HEAD "servers:\n  a:\n    host: \"a b\"\n", "x.yaml:5: 'a b' is neither" },
	{ HEAD SERVER "bricks:\n  - server: a\n    directory: d\n", "x.yaml:6: the directory 'd' must be an absolute path" },
	{ HEAD SERVER "bricks:\n  - server: a\n    directory: /d/x/../e\n",
	  "x.yaml:6: the directory '/d/x/../e' must be written without" },
	{ HEAD SERVER "bricks:\n  - server: a\n    directory: /d//e\n",
	  "x.yaml:6: the directory '/d//e' must be written without" },
	{ HEAD SERVER "bricks:\n  - server: a\n    directory: /d\n", "x.yaml:5: this brick has no 'id'" },
	{ HEAD SERVER "bricks: [{server: b, directory: /d, id: " IDS(1) "}]\n", "x.yaml:4: the brick is on server 'b'" },
	{ HEAD SERVER "bricks: [{server: a, directory: /d, id: " IDS(9) "}]\n",
	  "x.yaml:4: the brick has the id of the volume" },
	{ HEAD SERVER
	  "bricks:\n  - {server: a, directory: /d, id: " IDS(1) "}\n  - {server: a, directory: /e, id: " IDS(1) "}\n",
	  "x.yaml:6: the brick has the same id as that in line 5" },
	{ HEAD SERVER
	  "bricks:\n  - {server: a, directory: /d, id: " IDS(1) "}\n  - {server: a, directory: /d/, id: " IDS(2) "}\n",
	  "x.yaml:6: the brick has the same server and directory" },
	{ HEAD SERVER BRICK "client-translators: [trace]\n", "x.yaml:5: 'trace' is no translator" },
	{ HEAD SERVER BRICK "client-translators: debug/trace\n", "x.yaml:5: 'client-translators' takes a list" },
	{ HEAD SERVER BRICK "options:\n  debug/trace: {fops: all}\n",
	  "x.yaml:6: there are options for debug/trace, but no such" },
	{ HEAD SERVER BRICK "options:\n  storage/posix: {directory: /e}\n",
	  "x.yaml:6: option directory of storage/posix follows" },
	{ HEAD SERVER BRICK "options:\n  storage/posix: {a: \"x\\ny\"}\n", "x.yaml:6: control characters" },
	{ HEAD SERVER BRICK "options:\n  storage/posix: {a: [1]}\n", "x.yaml:6: expected one value" },
	{ HEAD SERVER BRICK "replica: 1\n", "x.yaml:5: '1' is no number of replicas" },
	{ HEAD SERVER BRICK "replica: x\n", "x.yaml:5: 'x' is no number of replicas" },
	{ HEAD SERVER BRICK "replica: 2\n", "'replica: 2' needs 2 bricks, not 1" },
	{ HEAD SERVER BRICK "arbiter: yes\n", "x.yaml:5: 'yes' is neither 'true' nor 'false'" },
	{ HEAD SERVER BRICK "arbiter: true\n", "'arbiter: true' needs 'replica: 3'" },
	{ SET("") "options:\n  features/replica: {member: 1}\n", "option member of features/replica follows" },
	{ HEAD SERVER BRICK "began-with: 0\n", "x.yaml:5: '0' is no number of subvolumes" },
	{ HEAD SERVER BRICK "began-with: x\n", "x.yaml:5: 'x' is no number of subvolumes" },
	{ HEAD SERVER BRICK "leaving: true\n", "the volume has no other" },
	{ HEAD SERVER BRICK "leaving: 64\n", "x.yaml:5: '64' is no number of a subvolume" },
	{ HEAD SERVER BRICK "leaving: maybe\n", "x.yaml:5: 'maybe' is neither 'true' nor 'false'" },
	{ HEAD SERVER SIX "leaving: 6\n", "'leaving: 6' names a subvolume that the volume does not have" },
	{ HEAD SERVER GAP "began-with: 1\nleaving: 1\n", "'leaving: 1' names a subvolume that the volume does not have" },
	{ HEAD SERVER GAP, "a brick is 'gone: true', and 'began-with' is not said" },
	{ HEAD SERVER GAP "began-with: 2\n",
	  "'began-with: 2' and 'began-at: 0' name subvolume 1, which the volume does not have" },
	{ HEAD SERVER GAP "began-with: 1\nbegan-at: 2\nreplica: 3\n",
	  "bricks 0 to 2 are one replica set, and some are 'gone: true'" },
	{ HEAD SERVER GAP "began-with: 1\nbegan-at: x\n", "'x' is no number of a subvolume" },
	{ HEAD SERVER BRICK "began-at: 0\n", "'began-at' needs 'began-with'" },
	{ HEAD SERVER GAP "  - gone: true\nbegan-with: 1\n", "x.yaml:8: the last in the list is 'gone: true'" },
	{ HEAD SERVER "bricks:\n  - {gone: true, server: a}\n",
	  "x.yaml:5: 'gone: true' keeps the place of a brick that has left" },
	{ HEAD SERVER "bricks:\n  - gone: true\n", "x.yaml:5: the last in the list is 'gone: true'" },
	{ HEAD SERVER SIX "options:\n  cluster/dht: {initial-from: 1}\n", "option initial-from of cluster/dht follows" },
	{ HEAD SERVER BRICK "began-with: 2\n", "'began-with: 2' says more than the volume has: 1" },
	{ SET("began-with: 3\n"), "'began-with: 3' says more than the volume has: 1 replica sets" },
	{ HEAD SERVER SIX "options:\n  cluster/dht: {initial: 6}\n", "option initial of cluster/dht follows" },
	{ HEAD SERVER BRICK "transport: udp\n", "x.yaml:5: 'udp' is no transport" },
	{ HEAD SERVER BRICK "transport: tls\n", "'transport: tls' needs 'tls'" },
	{ HEAD SERVER BRICK TLS, "'tls' goes with 'transport: tls'" },
	{ HEAD SERVER BRICK "transport: tcp\n" TLS, "'tls' goes with 'transport: tls'" },
	{ HEAD SERVER BRICK "transport: tls\ntls: {certificate: /c, key: k}\n",
	  "x.yaml:6: the file 'k' must be named by an absolute" },
	{ HEAD SERVER BRICK "transport: tls\ntls: {certificate: /c, authorities: /k}\n", "x.yaml:6: 'tls' has no 'key'" },
	{ HEAD SERVER BRICK "transport: tls\ntls: {certificate: /c, kay: /k}\n", "did you mean 'key'" },
	{ HEAD SERVER BRICK "transport: tls\n" TLS "options: {protocol/client: {tls-key: /x}}\n",
	  "option tls-key of protocol/client follows from 'transport'" },
	{ HEAD SERVER BRICK "transport: tcp\noptions: {protocol/server: {transport: tls}}\n",
	  "option transport of protocol/server follows from 'transport'" },
	{ "volume: &a [*a]\n", "x.yaml:1" },
	{ HEAD SERVER BRICK "tenants:\n" TENANTS, "told apart by their certificates" },
	{ HEAD SERVER BRICK "tenant-base: 65536\n", "'tenant-base' needs 'tenants'" },
	{ HEAD SERVER "replica: 3\narbiter: true\nbricks:\n" BRICK_AT(1) BRICK_AT(2) BRICK_AT(3) "tenants: []\n",
	  "has no arbiter in this version" },
	{ HEAD SERVER SIX "tenants: []\ntransport: tls\n" TLS "options: {features/layout: {widen-at: 8192}}\n",
	  "directories of tenants are at one brick each" },
	{ HEAD SERVER BRICK "tenants:\n" TENANT("a/b", 5, "base: 65536, count: 1"), "x.yaml:6: 'a/b' is no name" },
	{ HEAD SERVER BRICK "tenants:\n" TENANT("a", 5, "base: 65535, count: 1"), "x.yaml:6: the ids of tenant 'a' must lie" },
	{ HEAD SERVER BRICK "tenants:\n" TENANT("a", 5, "base: 4294967293, count: 2"),
	  "x.yaml:6: the ids of tenant 'a' must lie" },
	{ HEAD SERVER BRICK "tenants:\n" TENANT("a", 5, "count: 2"), "x.yaml:6: this tenant has no 'base'" },
	{ HEAD SERVER BRICK "tenants:\n" TENANT("a", 5, "base: 65536, count: 1, state: gone"), "x.yaml:6: 'gone' is no state" },
	{ HEAD SERVER BRICK "tenants:\n" TENANT("a", 5, "base: 65536, count: 1, ops: many"), "x.yaml:6: 'many' is no limit" },
	{ HEAD SERVER BRICK "tenants:\n" TENANT("a", 5, "base: 65536, count: 1, bytes: 5, soft-bytes: 6"),
	  "x.yaml:6: the soft limit of bytes of tenant 'a' is more than its limit, which is 5" },
	{ HEAD SERVER BRICK "tenants:\n" TENANT("a", 5, "base: 65536, count: 1, inodes: 5, soft-inodes: 6"),
	  "x.yaml:6: the soft limit of inodes of tenant 'a'" },
	{ HEAD SERVER BRICK "tenants:\n" TENANT("a", 5, "base: 65536, count: 1, grace: 60"),
	  "x.yaml:6: the time of grace of tenant 'a' is for more than a soft limit" },
	{ HEAD SERVER BRICK "tenants:\n" TENANT("a", 5, "base: 65536, count: 1, weight: 1001"),
	  "x.yaml:6: the weight of tenant 'a'" },
	{ HEAD SERVER BRICK "tenants:\n" TENANT("a", 5, "base: 65536, count: 1, bandwidth: 65535"),
	  "x.yaml:6: the bandwidth of tenant 'a'" },
	{ HEAD SERVER BRICK "tenants:\n" TENANTS TENANT("c", 7, "base: 131081, count: 1"),
	  "x.yaml:8: tenants 'c' and 'globex' have" },
	{ HEAD SERVER BRICK "tenants:\n" TENANTS TENANT("acme", 7, "base: 231081, count: 1"),
	  "x.yaml:8: there is a tenant 'acme'" },
	{ HEAD SERVER BRICK "tenants:\n" TENANTS TENANT("c", 6, "base: 231081, count: 1"),
	  "x.yaml:8: tenant 'c' has the id of 'globex'" },
	{ HEAD SERVER BRICK "tenants:\n" TENANTS "tenant-base: 131080\n", "x.yaml:7: the ids of tenant 'globex' go beyond" },
};

static void a_wrong_specification_is_one_sentence_with_its_line(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct volgen_files files = { 0 };
		struct problem p = { "" };
		struct spec s;
		int err = spec_parse(wrong[i].text, strlen(wrong[i].text), "x.yaml", &s, &p);

		if (!err)
			err = volgen(&s, NULL, &files, &p);
		if (err != -EINVAL || !strstr(p.text, wrong[i].says))
			fail_msg("%s\ngave %d: %s\ninstead of: %s", wrong[i].text, err, p.text, wrong[i].says);
		assert_int_equal(files.count, 0);
		spec_free(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_server_serves_its_own_bricks),
		cmocka_unit_test(blanks_and_addresses_survive_the_volfile),
		cmocka_unit_test(a_client_has_all_bricks_and_carries_its_translators),
		cmocka_unit_test(sets_follow_each_other_and_each_has_a_coordinator),
		cmocka_unit_test(a_replica_set_has_one_client_and_a_coordinator),
		cmocka_unit_test(bricks_and_clients_know_with_how_many_the_volume_began),
		cmocka_unit_test(one_that_began_with_one_set_can_get_others),
		cmocka_unit_test(bricks_are_added_as_whole_sets_at_the_end),
		cmocka_unit_test(a_brick_with_a_port_of_its_own_has_a_volfile_of_its_own),
		cmocka_unit_test(the_replica_translator_is_the_top_of_its_brick),
		cmocka_unit_test(an_option_given_comes_before_the_short_wait_of_a_set),
		cmocka_unit_test(the_same_specification_gives_the_same_bytes),
		cmocka_unit_test(a_printed_specification_and_a_copy_read_back_the_same),
		cmocka_unit_test(tls_is_everywhere),
		cmocka_unit_test(an_open_port_without_tls_is_warned_of),
		cmocka_unit_test(init_chooses_fresh_ids),
		cmocka_unit_test(a_wrong_specification_is_one_sentence_with_its_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) + tenants_of_specifications() + access_of_specifications() +
	       subvolumes_of_specifications();
}
