/* SPDX-License-Identifier: Apache-2.0 */
/* Subvolumes that leave, and those that come in their places: whoever stays keeps its number, its bricks' names and its set's. */
#include "volgen-test.h"

#define SETS(began) "volume: v\nid: " IDS(9) "\nreplica: 2\n" began "servers: {a: {host: h}}\n" SIX

static void read_spec(const char *text, struct spec *s)
{
	struct problem p = { "" };
	int err = spec_parse(text, strlen(text), "x.yaml", s, &p);

	assert_string_equal(p.text, "");
	assert_int_equal(err, 0);
}

/* As it is printed and read. */
static void reread(struct spec *s)
{
	char *text = spec_text(s);

	spec_free(s);
	read_spec(text, s);
	free(text);
}

static void client_of(const struct spec *s, struct volgen_files *files, struct volfile *v)
{
	struct problem p = { "" };

	assert_int_equal(volgen(s, NULL, files, &p), 0);
	parse(files, "client-v.vol", v);
}

static bool has_file(const struct volgen_files *files, const char *name)
{
	bool found = false;

	for (size_t i = 0; i < files->count; i++)
		found |= !strcmp(files->file[i].name, name);
	return found;
}

static bool has_option(const struct volfile *v, const char *volume, const char *option)
{
	bool found = false;

	for (size_t i = 0; i < v->volumes; i++)
		for (size_t k = 0; k < v->volume[i].options; k++)
			found |= !strcmp(v->volume[i].name, volume) && !strcmp(v->volume[i].option[k].name, option);
	return found;
}

static void leaves(struct spec *s, size_t number)
{
	struct problem p = { "" };
	char *name[2] = { NULL };
	size_t set = spec_set_size(s);

	for (size_t i = 0; i < set; i++)
		assert_true(asprintf(&name[i], "brick%zu", number * set + i) > 0);
	assert_int_equal(spec_let_leave(s, (const char *const *)name, set, &p), 0);
	for (size_t i = 0; i < set; i++)
		free(name[i]);
	reread(s);
	assert_true(s->leaving);
	assert_int_equal(s->leaver, number);
}

static void goes(struct spec *s, size_t number)
{
	leaves(s, number);
	spec_take_out(s);
	reread(s);
	assert_false(s->leaving);
}

static void refuses(const struct spec *s, const char *const *bricks, size_t count, int err, const char *sentence)
{
	struct problem p = { "" };
	struct spec copy;

	spec_copy(s, &copy);
	assert_int_equal(spec_let_leave(&copy, bricks, count, &p), err);
	assert_non_null(strstr(p.text, sentence));
	assert_false(copy.leaving);
	spec_free(&copy);
}

static void what_cannot_leave_is_one_sentence(void **state)
{
	static const char *const half[] = { "brick5" }, *const over_two[] = { "brick1", "brick2" },
				 *const four[] = { "brick2", "brick3", "brick4", "brick5" }, *const strange[] = { "brick6" },
				 *const all[] = { "brick0", "brick1", "brick2", "brick3", "brick4", "brick5" };
	struct spec s;

	(void)state;
	read_spec(SETS(""), &s);
	refuses(&s, half, 1, -EINVAL, "brick4 to brick5 of volume v are one: name all of them");
	refuses(&s, over_two, 2, -EINVAL, "brick0 to brick1 of volume v are one");
	refuses(&s, four, 4, -ENOTSUP, "one replica set at a time, and these are of 2");
	refuses(&s, strange, 1, -ENOENT, "has no brick 'brick6'");
	refuses(&s, all, 6, -EINVAL, "has no other bricks");
	goes(&s, 1);
	refuses(&s, (const char *const[]){ "brick2", "brick3" }, 2, -ENOENT, "has no brick 'brick2'");
	goes(&s, 0);
	refuses(&s, (const char *const[]){ "brick4", "brick5" }, 2, -EINVAL, "has no other bricks");
	spec_free(&s);
}

static void any_set_leaves_and_the_others_keep_their_numbers(void **state)
{
	struct volgen_files files;
	struct volfile v;
	struct spec s;

	(void)state;
	read_spec(SETS(""), &s);
	leaves(&s, 1);
	client_of(&s, &files, &v);
	assert_string_equal(value(&v, "dht", "leaving"), "1");
	volfile_free(&v);
	parse(&files, "server-a.vol", &v);
	assert_string_equal(value(&v, "brick2-layout", "leaving"), "on");
	assert_string_equal(value(&v, "brick3-layout", "leaving"), "on");
	assert_false(has_option(&v, "brick4-layout", "leaving"));
	volfile_free(&v);
	volgen_free(&files);
	spec_take_out(&s);
	reread(&s);
	assert_int_equal(spec_subvolumes(&s), 2);
	assert_int_equal(spec_places(&s), 3);
	assert_int_equal(spec_numbers(&s), 5);
	client_of(&s, &files, &v);
	has(&v, "absent1", "cluster/absent");
	has(&v, "afr2", "cluster/afr");
	assert_string_equal(value(&v, "client4", "remote-subvolume"), "brick4");
	assert_string_equal(value(&v, "dht", "initial"), "1");
	assert_false(has_option(&v, "dht", "leaving"));
	volfile_free(&v);
	parse(&files, "server-a.vol", &v);
	assert_string_equal(value(&v, "brick5-layout", "subvolume"), "2");
	assert_string_equal(value(&v, "brick5-layout", "initial"), "1");
	assert_int_equal(v.volume[v.volumes - 1].subvolumes, 4);
	volfile_free(&v);
	assert_true(has_file(&files, "coordinator-v:0.vol") && has_file(&files, "coordinator-v:2.vol"));
	assert_false(has_file(&files, "coordinator-v:1.vol"));
	volgen_free(&files);
	spec_free(&s);
}

static void the_last_one_leaves_as_an_older_server_reads_it(void **state)
{
	struct spec s;
	char *text;

	(void)state;
	read_spec(HEAD SERVER SIX, &s);
	leaves(&s, 5);
	text = spec_text(&s);
	assert_non_null(strstr(text, "\nleaving: true\n"));
	free(text);
	spec_take_out(&s);
	text = spec_text(&s);
	assert_null(strstr(text, "gone"));
	assert_null(strstr(text, "began-at"));
	assert_non_null(strstr(text, "\nbegan-with: 5\n"));
	free(text);
	spec_free(&s);
}

/* What is implied names none whose number is free. */
static void the_beginning_is_of_those_that_stay(void **state)
{
	struct volgen_files files;
	struct volfile v;
	struct spec s;

	(void)state;
	read_spec(HEAD SERVER SIX, &s);
	goes(&s, 0);
	assert_int_equal(s.began, 5);
	assert_int_equal(s.began_at, 1);
	client_of(&s, &files, &v);
	has(&v, "absent0", "cluster/absent");
	assert_string_equal(value(&v, "dht", "initial"), "5");
	assert_string_equal(value(&v, "dht", "initial-from"), "1");
	volfile_free(&v);
	parse(&files, "server-a.vol", &v);
	assert_string_equal(value(&v, "brick3-layout", "initial-from"), "1");
	assert_string_equal(value(&v, "brick3-layout", "subvolume"), "3");
	volfile_free(&v);
	volgen_free(&files);
	goes(&s, 2); /* before it: one. Behind it: three */
	assert_int_equal(s.began, 3);
	assert_int_equal(s.began_at, 3);
	goes(&s, 1); /* not of them */
	assert_int_equal(s.began, 3);
	assert_int_equal(s.began_at, 3);
	goes(&s, 5);
	goes(&s, 3);
	assert_int_equal(s.began, 1);
	assert_int_equal(s.began_at, 4);
	assert_int_equal(spec_numbers(&s), 1 << 4);
	spec_free(&s);
}

static void when_all_of_the_beginning_have_left_another_is(void **state)
{
	struct spec s;

	(void)state;
	read_spec(HEAD SERVER SIX "began-with: 1\n", &s);
	goes(&s, 3);
	assert_int_equal(s.began, 1);
	assert_false(s.says_began_at);
	goes(&s, 0);
	assert_int_equal(s.began, 1);
	assert_int_equal(s.began_at, 1);
	spec_free(&s);
}

/* One that began alone has none in its name; what comes there later is another one. */
static void a_set_keeps_its_name(void **state)
{
	static const char *const two[] = { "a:/d7", "a:/d8" };
	struct problem p = { "" };
	struct spec s;
	char *name;

	(void)state;
	read_spec(SETS("began-with: 1\n"), &s);
	assert_true(spec_has_no_number(&s, 0));
	goes(&s, 1);
	assert_true(spec_has_no_number(&s, 0));
	goes(&s, 0);
	assert_int_equal(spec_add_bricks(&s, two, 2, &p), 0);
	reread(&s);
	name = spec_set_name(&s, 0);
	assert_string_equal(name, "v:0");
	free(name);
	spec_free(&s);
	read_spec(SETS("began-with: 3\n"), &s);
	goes(&s, 2);
	goes(&s, 1);
	assert_int_equal(s.began, 1);
	assert_false(spec_has_no_number(&s, 0));
	spec_free(&s);
}

static void what_comes_takes_free_places_first(void **state)
{
	static const char *const four[] = { "a:/d7", "a:/d8", "a:/d9", "a:/d10" };
	struct problem p = { "" };
	struct spec s;

	(void)state;
	read_spec(SETS(""), &s);
	goes(&s, 1);
	assert_int_equal(spec_add_bricks(&s, four, 4, &p), 0);
	reread(&s);
	assert_int_equal(spec_places(&s), 4);
	assert_int_equal(spec_subvolumes(&s), 4);
	assert_string_equal(s.brick[2].directory, "/d7");
	assert_string_equal(s.brick[3].directory, "/d8");
	assert_string_equal(s.brick[4].directory, "/d5");
	assert_string_equal(s.brick[7].directory, "/d10");
	assert_int_equal(s.began, 1); /* the new one had no names from the beginning */
	spec_free(&s);
}

static void those_without_names_go_at_once_from_any_place(void **state)
{
	struct problem p = { "" };
	struct spec s;

	(void)state;
	read_spec(HEAD SERVER SIX "began-with: 1\n", &s);
	assert_int_equal(spec_remove_bricks(&s, (const char *const[]){ "brick5", "brick2", "brick4" }, 3, &p), 0);
	reread(&s);
	assert_int_equal(spec_numbers(&s), 1 | 2 | 8);
	assert_int_equal(spec_places(&s), 4);
	assert_int_equal(s.began, 1);
	spec_free(&s);
}

static void places_are_no_bricks_of_tenants(void **state)
{
	struct volgen_files files;
	struct volfile v;
	struct spec s;

	(void)state;
	comes_back(HEAD SERVER GAP BY_TLS "began-with: 1\nbegan-at: 2\ntenants:\n" TENANTS);
	read_spec(HEAD
		  "servers: {a: {host: h}, b: {host: i}}\nbricks:\n  - gone: true\n  - {server: b, directory: /d, id: " IDS(
			  2) "}\n" BRICK_AT(3) BY_TLS "began-with: 2\nbegan-at: 1\ntenants:\n" TENANTS,
		  &s);
	assert_int_equal(spec_servers_of_bricks(&s), 2);
	client_of(&s, &files, &v);
	volfile_free(&v);
	parse(&files, "server-a.vol", &v);
	assert_string_equal(value(&v, "brick2-usage", "pool-bricks"), "1");
	assert_string_equal(value(&v, "brick2-usage", "pool-servers"), "2");
	volfile_free(&v);
	volgen_free(&files);
	spec_free(&s);
	read_spec(HEAD SERVER "replica: 2\nbricks:\n" BRICK_AT(1) BRICK_AT(2) "  - gone: true\n  - gone: true\n" BRICK_AT(3)
			  BRICK_AT(4) BY_TLS "began-with: 1\nbegan-at: 2\ntenants:\n" TENANTS,
		  &s);
	client_of(&s, &files, &v);
	volfile_free(&v);
	parse(&files, "server-a.vol", &v);
	assert_string_equal(value(&v, "brick4-usage", "pool-sets"), "2");
	assert_string_equal(value(&v, "brick4-usage", "set"), IDS(9) ".2");
	volfile_free(&v);
	volgen_free(&files);
	spec_free(&s);
}

int subvolumes_of_specifications(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_cannot_leave_is_one_sentence),
		cmocka_unit_test(any_set_leaves_and_the_others_keep_their_numbers),
		cmocka_unit_test(the_last_one_leaves_as_an_older_server_reads_it),
		cmocka_unit_test(the_beginning_is_of_those_that_stay),
		cmocka_unit_test(when_all_of_the_beginning_have_left_another_is),
		cmocka_unit_test(a_set_keeps_its_name),
		cmocka_unit_test(what_comes_takes_free_places_first),
		cmocka_unit_test(those_without_names_go_at_once_from_any_place),
		cmocka_unit_test(places_are_no_bricks_of_tenants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
