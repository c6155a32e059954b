/* SPDX-License-Identifier: Apache-2.0 */
/* A specification becomes the volfiles it describes; a wrong one becomes a sentence with its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>

#include "graph.h"
#include "volgen.h"

#define IDS(n) "00000000-0000-4000-8000-00000000000" #n
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

static void make(const char *text, struct volgen_files *files)
{
	struct problem p = { "" };
	struct spec s;
	int err = spec_parse(text, strlen(text), "x.yaml", &s, &p);

	if (!err)
		err = volgen(&s, files, &p);
	assert_string_equal(p.text, "");
	assert_int_equal(err, 0);
	spec_free(&s);
}

static void parse(const struct volgen_files *files, const char *name, struct volfile *v)
{
	struct problem p = { "" };

	for (size_t i = 0; i < files->count; i++)
		if (!strcmp(files->file[i].name, name)) {
			assert_int_equal(volfile_parse(files->file[i].text, strlen(files->file[i].text), name, v, &p), 0);
			return;
		}
	fail_msg("no file %s was made", name);
}

static const char *value(const struct volfile *v, const char *volume, const char *option)
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
	assert_int_equal(files.count, 5);
	parse(&files, "server-alpha.vol", &v);
	assert_int_equal(v.volumes, 9);
	assert_string_equal(v.volume[8].type, "protocol/server");
	assert_int_equal(v.volume[8].subvolumes, 2);
	assert_string_equal(v.volume[8].subvolume[0], "brick0");
	assert_string_equal(v.volume[8].subvolume[1], "brick2");
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

static void a_client_names_its_brick_and_carries_its_translators(void **state)
{
	static const char *const types[] = { "protocol/client", "debug/trace", "debug/io-stats", "mount/fuse" };
	struct volgen_files files;
	struct volfile v;

	(void)state;
	make(two_servers, &files);
	parse(&files, "client-vol-1.vol", &v);
	assert_int_equal(v.volumes, 4);
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(v.volume[i].type, types[i]);
	assert_string_equal(v.volume[3].subvolume[0], v.volume[2].name);
	assert_string_equal(value(&v, "client1", "remote-host"), "2001:db8::1");
	assert_string_equal(value(&v, "client1", "remote-subvolume"), "brick1");
	assert_string_equal(value(&v, "client1", "max-wait"), "5s");
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

static void a_printed_specification_reads_back_the_same(void **state)
{
	struct problem p = { "" };
	char *once = NULL, *twice = NULL;
	struct spec s;
	size_t size;
	FILE *to;

	(void)state;
	assert_int_equal(spec_parse(two_servers, strlen(two_servers), "x", &s, &p), 0);
	to = open_memstream(&once, &size);
	spec_print(&s, to);
	fclose(to);
	spec_free(&s);
	assert_int_equal(spec_parse(once, size, "x", &s, &p), 0);
	to = open_memstream(&twice, &size);
	spec_print(&s, to);
	fclose(to);
	assert_string_equal(once, twice);
	spec_free(&s);
	free(once);
	free(twice);
}

static void init_chooses_fresh_ids(void **state)
{
	static const char *const bricks[] = { "a.example:/b0", "a.example:/b1", "[2001:db8::2]:/b2" };
	struct problem p = { "" };
	struct spec s, t;

	(void)state;
	assert_int_equal(spec_init("vol", bricks, 3, 0, &s, &p), 0);
	assert_int_equal(spec_init("vol", bricks, 3, 7, &t, &p), 0);
	assert_int_equal(s.servers, 2);
	assert_string_equal(s.brick[2].server->host, "2001:db8::2");
	assert_int_equal(s.server[0].port, SPEC_PORT);
	assert_int_equal(t.server[0].port, 7);
	assert_false(gfid_equal(&s.id, &t.id));
	assert_false(gfid_equal(&s.brick[0].id, &s.brick[1].id));
	spec_free(&s);
	spec_free(&t);
}

#define HEAD   "volume: v\nid: " IDS(9) "\n"
#define SERVER "servers: {a: {host: h}}\n"
#define BRICK  "bricks: [{server: a, directory: /d, id: " IDS(1) "}]\n"
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
	{ "volume: &a [*a]\n", "x.yaml:1" },
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
			err = volgen(&s, &files, &p);
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
		cmocka_unit_test(a_client_names_its_brick_and_carries_its_translators),
		cmocka_unit_test(the_same_specification_gives_the_same_bytes),
		cmocka_unit_test(a_printed_specification_reads_back_the_same),
		cmocka_unit_test(init_chooses_fresh_ids),
		cmocka_unit_test(a_wrong_specification_is_one_sentence_with_its_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
