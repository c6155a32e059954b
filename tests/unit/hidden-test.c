/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: names of what is being made and ended. */
#include "test.h"

#include <string.h>

#include "dht.h"

struct inode *root_of(struct dht *d) /* no brick is asked here */
{
	(void)d;
	return NULL;
}

/* Two that end the same do so under two names: who comes late must not meet, nor remove, what the other has there. */
static void each_end_has_a_name_of_its_own(void **state)
{
	struct gfid pgfid = { { 1, 2, 3 } }, parsed;
	char one[HIDDEN_NAME], other[HIDDEN_NAME];

	(void)state;
	end_name(&pgfid, one);
	end_name(&pgfid, other);
	assert_string_not_equal(one, other);
	assert_int_equal(work_parse(one, &parsed), 0);
	assert_true(gfid_equal(&parsed, &pgfid));
	assert_int_equal(work_parse(other, &parsed), 0);
	assert_true(gfid_equal(&parsed, &pgfid));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_end_has_a_name_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
