/* SPDX-License-Identifier: Apache-2.0 */
/* cmd/source.c: what is shown of an answer that is no volfile. The server is the test, and says what it likes. */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "log.h"
#include "source.h"

static const char *said;
static int listener;
static char server[32];

static void answer(int fd)
{
	char asked[4096];
	size_t have = 0;
	ssize_t got;

	do {
		got = read(fd, asked + have, sizeof(asked) - 1 - have);
		have += got > 0 ? (size_t)got : 0;
		asked[have] = '\0';
	} while (got > 0 && !strstr(asked, "\r\n\r\n"));
	assert_int_equal(write(fd, said, strlen(said)), strlen(said));
	close(fd);
}

static void *serve(void *arg)
{
	answer(accept(listener, NULL, NULL));
	return arg;
}

/* What comes of it, and the sentence that is shown. */
static int fetch(const char *what, struct problem *p)
{
	char name[64], *text = NULL;
	struct source *s = NULL;
	uint64_t version;
	pthread_t thread;
	int err;

	said = what;
	*p = (struct problem){ "" };
	pthread_create(&thread, NULL, serve, NULL);
	snprintf(name, sizeof(name), "%s:/photos", server);
	assert_int_equal(source_create(name, &s, p), 0);
	err = source_fetch(s, 0, &text, &version, p);
	source_destroy(s);
	free(text);
	pthread_join(thread, NULL);
	return err;
}

static int begin(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);

	(void)state;
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 8), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
	snprintf(server, sizeof(server), "127.0.0.1:%u", ntohs(at.sin_port));
	return 0;
}

static int end(void **state)
{
	(void)state;
	return close(listener);
}

static bool is_plain(const char *text)
{
	while (*text >= ' ' && *text <= '~')
		text++;
	return !*text;
}

static void what_stratusd_refuses_with_is_shown(void **state)
{
	struct problem p;

	(void)state;
	assert_int_equal(fetch("HTTP/1.1 404 No\r\nx-stratus-sentence: 1\r\nContent-Length: 22\r\n\r\nthere is no photos\nyes",
			       &p),
			 -ENOENT);
	assert_non_null(strstr(p.text, server));
	assert_non_null(strstr(p.text, "says: there is no photos"));
	assert_null(strstr(p.text, "yes"));
	assert_int_equal(fetch("HTTP/1.1 409 No\r\nX-Stratus-Sentence: 1\r\nContent-Length: 10\r\n\r\nit is busy", &p), -EBUSY);
}

static void another_programs_text_is_not_shown(void **state)
{
	static const char *const others[] = {
		"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 23\r\n\r\ncall this number at once",
		"HTTP/1.1 404 Not Found\r\nX-Stratus-Version: 7\r\nContent-Length: 23\r\n\r\ncall this number at once",
		"HTTP/1.1 404 Not Found\r\nX-Stratus-Sentences: 1\r\nContent-Length: 23\r\n\r\ncall this number at once",
	};
	struct problem p;

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		assert_int_equal(fetch(others[i], &p), -ENOTCONN); /* nor is it believed that there is no such volume */
		assert_null(strstr(p.text, "call"));
		assert_non_null(strstr(p.text, server));
		assert_non_null(strstr(p.text, "404"));
		assert_non_null(strstr(p.text, "--listen"));
	}
}

static void nothing_that_is_shown_moves_the_terminal(void **state)
{
	struct problem p;

	(void)state;
	assert_int_equal(fetch("HTTP/1.1 500 No\r\nX-Stratus-Sentence: 1\r\nContent-Length: 16\r\n\r\ngone \x1b[2J\x7f\xc2\x9b"
			       "2J\r\n",
			       &p),
			 -ENOTCONN);
	assert_non_null(strstr(p.text, "says: gone ?[2J"));
	assert_true(is_plain(p.text));
	fetch("\x1b[2J\r\n\r\n", &p); /* what libcurl says of it */
	assert_true(*p.text && is_plain(p.text));
	p = (struct problem){ "" };
	problem_set(&p, EINVAL, "photos:1: no key \"%s\"",
		    "a\x1b[2J\nb\xc2\x9b\xc3\xa4"); /* what a volfile of theirs may say */
	assert_string_equal(p.text, "photos:1: no key \"a?[2J?b??\xc3\xa4\"");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_stratusd_refuses_with_is_shown, begin, end),
		cmocka_unit_test_setup_teardown(another_programs_text_is_not_shown, begin, end),
		cmocka_unit_test_setup_teardown(nothing_that_is_shown_moves_the_terminal, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
