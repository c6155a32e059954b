/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of cluster-test. */
#ifndef STRATUS_CLUSTER_TEST_H
#define STRATUS_CLUSTER_TEST_H
#include "test.h"

#include "volgen.h"

/* A volume of three subvolumes, of which the first leaves, with so many tenants, t0, t1, ... in the order of their ids. */
void spec_make(struct spec *, size_t tenants);

void whose_old_records_are_waited_for_is_not_put_off(void **state);
void who_gets_no_further_makes_room_and_ends_all_the_same(void **state);
void who_could_not_be_begun_is_waited_for_no_longer(void **state);
#endif
