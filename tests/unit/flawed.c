/* SPDX-License-Identifier: Apache-2.0 */
/* test/flawed: a module whose table has the flaw that $FLAW names. */
#include "xlator.h"

struct flawed {
	int64_t number;
	bool flag;
};

static char name[] = "test/flawed";
static struct option options[] = {
	{ "number", OPTION_INT, OPTION_AT(struct flawed, number), "1", "a number" },
	{ "flag", OPTION_BOOL, OPTION_AT(struct flawed, flag), "on", "a switch" },
	{ NULL },
};

/* In place of XLATOR_MODULE, to be another one. */
unsigned xlator_api_version __attribute__((visibility("default"))) = STRATUS_API_VERSION;

__attribute__((constructor)) static void flaw(void)
{
	const char *which = getenv("FLAW");

	if (!which)
		return;
	if (!strcmp(which, "version"))
		xlator_api_version = 77;
	if (!strcmp(which, "name"))
		name[5] = 'F';
	if (!strcmp(which, "twice"))
		options[1].name = options[0].name;
	if (!strcmp(which, "choices"))
		options[0].kind = OPTION_ENUM;
	if (!strcmp(which, "size"))
		options[1].kind = OPTION_INT; /* seven bytes more */
	if (!strcmp(which, "outside"))
		options[1].offset = sizeof(struct flawed);
}

const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = name,
	.options = options,
	.private_size = offsetof(struct flawed, flag) + 1,
};
