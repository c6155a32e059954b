/* SPDX-License-Identifier: Apache-2.0 */
#include "mover-graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client-graph.h"
#include "json.h"
#include "location.h"

int mover_graph_create(const char *name, const char *text, const struct gfid *acts_for, struct graph **g, struct problem *p)
{
	struct volfile file = { 0 };
	int err = volfile_parse(text, strlen(text), name, &file, p);

	if (!err) {
		client_graph_drop_mount(&file);
		err = acts_for ? client_graph_act_for(&file, acts_for) : 0;
	}
	if (!err)
		err = graph_create(&file, NULL, NULL, g, p);
	volfile_free(&file);
	return err;
}

static int ask(struct graph *g, bool widens, const char *verb, FILE *to, struct problem *p)
{
	char *word[] = { (char *)"rebalance", widens ? (char *)"widen" : (char *)verb, (char *)verb, NULL };

	return client_graph_ask(client_graph_dht(g), 2 + widens, word, to, p);
}

int mover_graph_tell(struct graph *g, bool widens, const char *verb, struct problem *p)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	int err = to ? ask(g, widens, verb, to, p) : -ENOMEM;

	if (to)
		fclose(to);
	free(text);
	return err;
}

void mover_graph_end(struct graph *g, bool at_once)
{
	struct problem ignored = { "" };

	if (!at_once) {
		mover_graph_tell(g, true, "stop", &ignored);
		mover_graph_tell(g, false, "stop", &ignored);
	}
	graph_stop(g);
	graph_destroy(g);
}

/* ---- what it says ---- */

static bool is_number(const char *key)
{
	static const char *const numbers[] = {
		"version", "moved", "left", "files", "bytes", "copied", "failed", "seconds-left"
	};

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (!strcmp(key, numbers[i]))
			return true;
	return !strncmp(key, "skipped-", 8) || !strncmp(key, "stays-", 6);
}

/* Names in it may be of any bytes. */
static json_t *text_of(const char *value)
{
	json_t *text = json_string(value);

	return text ? text : json_string("something with a name that is no UTF-8, as the log tells");
}

static json_t *read_told(char *text, size_t size)
{
	json_t *told = json_object();
	char *at = text, *value;
	const char *key;

	while ((value = location_next(&at, text + size, &key)))
		if (!json_object_get(told, key))
			json_object_set_new(told, key, is_number(key) ? json_integer(atoll(value)) : text_of(value));
	return told;
}

json_t *mover_graph_ask(struct graph *g)
{
	struct problem p = { "" };
	char *text = NULL;
	json_t *told;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	int err = to ? ask(g, false, "status", to, &p) : problem_set(&p, ENOMEM, "out of memory");

	if (to)
		fclose(to);
	told = err ? json_pack("{s:s}", "problem", p.text) : read_told(text, size);
	free(text);
	return told;
}
