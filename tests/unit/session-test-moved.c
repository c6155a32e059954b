/* SPDX-License-Identifier: Apache-2.0 */
/* What protocol/client tells of its brick: a graph that takes another's place, whether it is up or down, and as it is in the end; and the log, where nobody waits for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "session-test.h"

/* ---- who is above in the new graph ---- */

static atomic_int told, last; /* how often; the event that it was told last, and has done with */
static atomic_bool goes;      /* the brick, as soon as it is told to be up, before that is done with */

static bool is_down(void)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	bool down;

	client->top->type->dump(client->top, f);
	fclose(f);
	down = strstr(text, "brick: down");
	free(text);
	return down;
}

static void wait_until_down(void)
{
	for (int i = 0; !is_down() && i < 30000; i++)
		usleep(1000);
	assert_true(is_down());
}

static void witness_notify(struct xlator *x, struct xlator *from, const struct event *e)
{
	(void)x;
	(void)from;
	if (e->kind == EVENT_CHILD_UP && atomic_exchange(&goes, false)) {
		stop(&server);
		wait_until_down();
		for (int i = 0; !atomic_load(&told) && i < 30000; i++)
			usleep(1000); /* until that was told, before this is done with */
	}
	atomic_store(&last, e->kind);
	atomic_fetch_add(&told, 1);
}

static const struct xlator_type witness_type = { .name = "witness", .notify = witness_notify };
static struct xlator witness = { .type = &witness_type, .name = "witness" }, *witnesses[] = { &witness };

/* (The keeper may still be telling of what came before, to whom it found above: ThreadSanitizer is not to mind this.) */
__attribute__((no_sanitize_thread)) static void with_a_witness(void (*fn)(void))
{
	struct xlator *top, **parent;

	start_server("");
	start_client("");
	top = client->top;
	parent = top->parent;
	top->parent = witnesses;
	top->parents = 1;
	fn();
	top->parent = parent;
	top->parents = 0;
	stop(&client);
	stop(&server);
}

static void announce(void)
{
	atomic_store(&told, 0);
	atomic_store(&last, -1);
	client->top->type->announce(client->top);
}

/* ---- what holds ---- */

static void tell_both(void)
{
	announce();
	assert_int_equal(atomic_load(&last), EVENT_CHILD_UP);
	stop(&server);
	wait_until_down();
	for (int i = 0; atomic_load(&last) != EVENT_CHILD_DOWN && i < 30000; i++)
		usleep(1000);
	announce();
	assert_int_equal(atomic_load(&told), 1);
	assert_int_equal(atomic_load(&last), EVENT_CHILD_DOWN);
}

/* Only the old graph may have been told that it went. */
void a_graph_that_begins_is_told_that_a_brick_is_down(void **test)
{
	(void)test;
	with_a_witness(tell_both);
}

static void tell_late(void)
{
	atomic_store(&goes, true);
	announce();
	assert_int_equal(atomic_load(&goes), false);
	assert_int_equal(atomic_load(&last), EVENT_CHILD_DOWN);
}

void a_brick_that_goes_while_it_is_told_to_be_up_is_told_to_be_down(void **test)
{
	(void)test;
	with_a_witness(tell_late);
}

/* ---- the log ---- */

static bool is_told(const char *path, const char *what)
{
	char line[512];
	FILE *f = fopen(path, "re");
	bool yes = false;

	while (f && !yes && fgets(line, sizeof(line), f))
		yes = strstr(line, what);
	if (f)
		fclose(f);
	return yes;
}

/* Its start tells nobody, for that succeeds. */
void who_does_not_wait_for_a_brick_tells_why_it_is_not_reached(void **test)
{
	char path[] = "/tmp/session-test-log-XXXXXX";
	int fd = mkstemp(path);

	(void)test;
	assert_true(fd >= 0);
	close(fd);
	start_server("");
	stop(&server); /* nobody is at its port */
	assert_int_equal(log_open(path), 0);
	start_client(" option wait-for-brick on\n");
	for (int i = 0; !is_told(path, "trying again") && i < 30000; i++)
		usleep(1000);
	assert_true(is_told(path, "trying again"));
	log_open("/dev/stderr");
	stop(&client);
	unlink(path);
}
