/* SPDX-License-Identifier: Apache-2.0 */
/* debug/null: does nothing at all; the linker of graphs takes it out of every path, so it costs nothing. */
#include "xlator.h"

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "debug/null",
	.summary = "passes every operation on unchanged",
	.min_children = 1,
	.max_children = 1,
};
