/* SPDX-License-Identifier: Apache-2.0 */
#include "graph-of.h"

#include <string.h>

#include "test.h"

struct graph *graph_of(const char *text, struct problem *p)
{
	struct volfile file = { 0 };
	struct graph *g = NULL;

	p->text[0] = 0;
	assert_int_equal(volfile_parse(text, strlen(text), "test", &file, p), 0);
	if (graph_create(&file, NULL, NULL, &g, p))
		g = NULL;
	volfile_free(&file);
	if (g && graph_start(g, p)) {
		graph_destroy(g);
		g = NULL;
	}
	return g;
}
