/* SPDX-License-Identifier: Apache-2.0 */
/* Volfiles from servers that want the data of a mount with a key: they are refused, or all that the mount sends goes through encryption/crypt. */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "cmd/sealed.h" /* not libcore's */
#include "source.h"

#define BRICK			 "volume b\n type protocol/client\n option remote-host h\nend-volume\n"
#define MOUNT(name, below)	 "volume " name "\n type mount/fuse\n subvolumes " below "\nend-volume\n"
#define ABOVE(name, type, below) "volume " name "\n type " type "\n subvolumes " below "\nend-volume\n"

static int seal(const char *text, struct volfile *v, struct problem *p)
{
	if (volfile_parse(text, strlen(text), "theirs.vol", v, p))
		fail_msg("%s", p->text);
	sealed_options(v);
	return sealed_graph(v, "/home/me/key", p);
}

static void is_refused(const char *text, const char *sentence)
{
	struct volfile v = { 0 };
	struct problem p = { "" };

	assert_int_equal(seal(text, &v, &p), -EPERM);
	if (!strstr(p.text, sentence))
		fail_msg("it says: %s", p.text);
	volfile_free(&v);
}

static void what_could_pass_it_by_is_refused(void **state)
{
	(void)state;
	is_refused(BRICK, "its top is no mount/fuse");
	is_refused(BRICK ABOVE("m", "mount/other", "b"), "its top is no mount/fuse");
	is_refused(BRICK "volume c\n type protocol/client\nend-volume\n" MOUNT("m", "b c"), "over one volume");
	is_refused(BRICK MOUNT("side", "b") MOUNT("m", "b"), "could leave unencrypted");
	is_refused(BRICK MOUNT("side", "b") MOUNT("m", "side"), "could leave unencrypted");
	is_refused(BRICK ABOVE("side", "mount/other", "b") MOUNT("m", "b"), "could leave unencrypted");
	is_refused(BRICK ABOVE("side", "protocol/server", "b") MOUNT("m", "b"), "could leave unencrypted");
	is_refused(BRICK ABOVE("side", "cluster/coordinator", "b") MOUNT("m", "b"), "could leave unencrypted");
}

static void one_of_theirs_is_refused(void **state)
{
	(void)state;
	is_refused(BRICK ABOVE("theirs", "encryption/crypt", "b") MOUNT("m", "theirs"), "itself");
	is_refused(BRICK ABOVE("beside", "encryption/crypt", "b") MOUNT("m", "b"), "itself");
	is_refused(BRICK ABOVE("crypt-of-command-line", "debug/null", "b") MOUNT("m", "b"), "itself");
	is_refused(BRICK MOUNT("crypt-of-command-line", "b"), "itself");
}

static const char *option_of(const struct volfile_volume *one, const char *name)
{
	for (size_t i = 0; i < one->options; i++)
		if (!strcmp(one->option[i].name, name))
			return one->option[i].value;
	return NULL;
}

/* Also one with what nobody uses, and with options that a provider would like. */
static void all_else_goes_through_it(void **state)
{
	static const char text[] = BRICK ABOVE("n", "debug/null", "b")
		ABOVE("unused", "debug/null",
		      "b") "volume m\n type mount/fuse\n"
			   " option mount-options suid,dev\n option allow-other on\n subvolumes n\nend-volume\n";
	const struct volfile_volume *top, *crypt;
	struct volfile v = { 0 };
	struct problem p = { "" };

	(void)state;
	assert_int_equal(seal(text, &v, &p), 0);
	top = &v.volume[v.volumes - 1];
	crypt = top - 1;
	assert_int_equal(top->subvolumes, 1);
	assert_string_equal(top->subvolume[0], crypt->name);
	assert_string_equal(option_of(top, "mount-options"), "nosuid,nodev");
	assert_null(option_of(top, "allow-other"));
	assert_string_equal(crypt->type, "encryption/crypt");
	assert_int_equal(crypt->subvolumes, 1);
	assert_string_equal(crypt->subvolume[0], "n");
	assert_int_equal(crypt->options, 1);
	assert_string_equal(option_of(crypt, "key-file"), "/home/me/key");
	volfile_free(&v);
}

/* What is read or written on this machine: not at the servers' word. */
static void servers_name_no_files(void **state)
{
	static const char *const options[] = { "file", "ledger", "record", "secret-file", "state-dir", "directory" };
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		struct volfile v = { 0 };
		struct problem p = { "" };

		snprintf(text, sizeof(text),
			 BRICK "volume t\n type debug/any\n option %s /etc/passwd\n subvolumes b\nend-volume\n" MOUNT("m", "t"),
			 options[i]);
		assert_int_equal(volfile_parse(text, strlen(text), "theirs.vol", &v, &p), 0);
		assert_int_equal(source_check(&v, &p), -EPERM);
		volfile_free(&v);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_could_pass_it_by_is_refused),
		cmocka_unit_test(one_of_theirs_is_refused),
		cmocka_unit_test(all_else_goes_through_it),
		cmocka_unit_test(servers_name_no_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
