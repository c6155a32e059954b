/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong by the status of a cluster, for monitoring: `stratus status --check`. */
#ifndef STRATUS_STATUS_CHECK_H
#define STRATUS_STATUS_CHECK_H
#include <jansson.h>
#include <stdint.h>

/* `all`: what stratusd answers to "cluster status". A list of sentences, one for each thing that is wrong; it is empty if all is well, as far as that server knows: it alone knows the state of its own
 * bricks, and only the one that leads knows replica sets and other servers. full_percent: a file system that is so full is wrong. `version`: of who asks. */
json_t *status_check(const json_t *all, unsigned full_percent, const char *version, int64_t now);
#endif
