/* SPDX-License-Identifier: Apache-2.0 */
/* Without locked memory for the keys of more files work goes on, and the log says so once. */
#include "crypt-test.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "log.h"
#include "secret.h"

enum { FILES = 300 };

/* Of the threads that are started from here on: root's limit is none. */
static int may_not_lock(void **state)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	if (syscall(SYS_capget, &head, data))
		return -1;
	data[0].effective &= ~(1u << CAP_IPC_LOCK);
	return syscall(SYS_capset, &head, data) ? -1 : tasks_start(state);
}

static unsigned lines_with(const char *path, const char *text)
{
	char line[1024];
	unsigned found = 0;
	FILE *f = fopen(path, "r");

	while (f && fgets(line, sizeof(line), f))
		found += strstr(line, text) != NULL;
	if (f)
		fclose(f);
	return found;
}

static void work_in_many_files(struct bed *bed)
{
	static struct file *file[FILES];
	char name[16];

	for (int i = 0; i < FILES; i++) {
		struct buffer *data = NULL;
		size_t size;

		snprintf(name, sizeof(name), "many-%d", i);
		CHECK_INT(tree_create(&bed->a, name, O_RDWR | O_EXCL, 0644, &file[i]), 0);
		CHECK_INT(tree_write(&bed->a, file[i], 0, name, sizeof(name)), 0);
		CHECK_INT(tree_read(&bed->a, file[i], 0, 100, &data), 0);
		CHECK_INT(memcmp(buffer_bytes(data, &size), name, sizeof(name)), 0);
		buffer_unref(data);
	}
	for (int i = 0; i < FILES; i++)
		tree_release(&bed->a, file[i]);
}

static void without_locked_memory(void *arg)
{
	struct bed *bed = arg;
	struct rlimit usual, none = { 0, 0 };
	char path[128];
	void *page;

	getrlimit(RLIMIT_MEMLOCK, &usual);
	none.rlim_max = usual.rlim_max;
	snprintf(path, sizeof(path), "%s/log", bed->directory);
	log_open(path);
	setrlimit(RLIMIT_MEMLOCK, &none);
	page = secret_alloc(1); /* sanitizers leave mlock out */
	work_in_many_files(bed);
	setrlimit(RLIMIT_MEMLOCK, &usual);
	log_open("/dev/stderr");
	CHECK_INT(lines_with(path, "no more locked memory"), page ? 0 : 1);
	secret_free(page, 1);
}

static void keys_of_files_go_on_without_locked_memory(void **state)
{
	struct bed bed;

	(void)state;
	failures = 0;
	bed_make(&bed, "");
	assert_int_equal(task_call(without_locked_memory, &bed), 0);
	bed_end(&bed);
	assert_int_equal(failures, 0);
}

int run_without_locked_memory(void)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(keys_of_files_go_on_without_locked_memory) };

	return cmocka_run_group_tests(tests, may_not_lock, tasks_stop);
}
