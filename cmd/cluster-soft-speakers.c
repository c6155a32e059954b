/* SPDX-License-Identifier: Apache-2.0 */
/* See cluster-soft-speakers.h. */
#include "cluster-soft-speakers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"
#include "fop.h"
#include "register.h"

enum { SPEAKERS_MAX = 4096 }; /* sets of all volumes with tenants, and servers: as many as allotments have */
static struct {
	struct speaker at[SPEAKERS_MAX];
	size_t count;
} all;

/* A set that has no view (any more) has nobody who decides. */
static void look_at_view(struct speaker *s)
{
	struct blob value = { 0 };

	if (!*s->view || store_version(cluster_store(), s->view) == s->version)
		return;
	if (store_get(cluster_store(), s->view, &value, &s->version) || register_view_epoch(&value, &s->unit.epoch))
		s->unit.epoch = 0;
	free(value.bytes);
}

struct speaker *speaker_find(const char *name)
{
	for (size_t i = 0; i < all.count; i++)
		if (!strcmp(all.at[i].name, name)) {
			look_at_view(&all.at[i]);
			return &all.at[i];
		}
	return NULL;
}

struct speaker *speaker_need(const char *name, const char *view)
{
	struct speaker *s = speaker_find(name);

	if (!s && all.count < SPEAKERS_MAX && *name && strlen(name) <= ALLOT_UNIT_NAME) {
		s = &all.at[all.count++];
		*s = (struct speaker){ .upto = 0 };
		snprintf(s->name, sizeof s->name, "%s", name);
	}
	if (s && strcmp(s->view, view) != 0) {
		snprintf(s->view, sizeof s->view, "%s", view);
		s->version = s->unit.epoch = 0;
	}
	if (s)
		look_at_view(s);
	return s;
}

bool speaker_decides(const struct speaker *s, uint64_t term)
{
	return !*s->view == !term && soft_decides(&s->unit, term);
}

void speakers_decided(void)
{
	for (size_t i = 0; i < all.count; i++)
		all.at[i].upto = all.at[i].unit.upto;
}

void speakers_forget(void)
{
	all.count = 0;
}
