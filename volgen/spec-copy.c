/* SPDX-License-Identifier: Apache-2.0 */
/* A specification that is shared is not changed; a copy of it is. */
#include <stdlib.h>
#include <string.h>

#include "path.h"
#include "volgen.h"

static char *text_copy(const char *text)
{
	return text ? path_format("%s", text) : NULL;
}

/* Of so many elements, as they are: what they point to is the caller's to copy. */
static void *array_copy(const void *array, size_t count, size_t size)
{
	void *copy = count ? malloc(count * size) : NULL;

	if (count && !copy)
		abort(); /* as spec_grow */
	return count ? memcpy(copy, array, count * size) : NULL;
}

static struct spec_list list_copy(const struct spec_list *l)
{
	struct spec_list copy = { array_copy(l->item, l->count, sizeof(*l->item)), l->count };

	for (size_t i = 0; i < copy.count; i++)
		copy.item[i] = text_copy(copy.item[i]);
	return copy;
}

static void copy_servers(struct spec *s)
{
	s->server = array_copy(s->server, s->servers, sizeof(*s->server));
	for (size_t i = 0; i < s->servers; i++) {
		s->server[i].name = text_copy(s->server[i].name);
		s->server[i].host = text_copy(s->server[i].host);
		s->server[i].listen = text_copy(s->server[i].listen);
	}
}

/* After the servers, one of which each is of. */
static void copy_bricks(struct spec *s, const struct spec *from)
{
	s->brick = array_copy(s->brick, s->bricks, sizeof(*s->brick));
	for (size_t i = 0; i < s->bricks; i++) {
		struct spec_brick *b = &s->brick[i];

		b->server_name = text_copy(b->server_name);
		b->directory = text_copy(b->directory);
		b->server = b->server ? s->server + (b->server - from->server) : NULL;
	}
}

static void copy_options(struct spec *s)
{
	s->by_type = array_copy(s->by_type, s->types, sizeof(*s->by_type));
	for (size_t i = 0; i < s->types; i++) {
		struct spec_options *o = &s->by_type[i];

		o->type = text_copy(o->type);
		o->option = array_copy(o->option, o->options, sizeof(*o->option));
		for (size_t k = 0; k < o->options; k++) {
			o->option[k].name = text_copy(o->option[k].name);
			o->option[k].value = text_copy(o->option[k].value);
		}
	}
}

static void copy_tenants(struct spec *s)
{
	s->tenant = array_copy(s->tenant, s->tenants, sizeof(*s->tenant));
	for (size_t i = 0; i < s->tenants; i++) {
		struct spec_tenant *t = &s->tenant[i];

		t->name = text_copy(t->name);
		t->access = array_copy(t->access, t->accesses, sizeof(*t->access));
		for (size_t k = 0; k < t->accesses; k++)
			t->access[k].directory = text_copy(t->access[k].directory);
	}
}

void spec_copy(const struct spec *from, struct spec *s)
{
	*s = *from;
	s->path = text_copy(s->path);
	s->volume = text_copy(s->volume);
	s->tls.certificate = text_copy(s->tls.certificate);
	s->tls.key = text_copy(s->tls.key);
	s->tls.authorities = text_copy(s->tls.authorities);
	s->tls.revoked = text_copy(s->tls.revoked);
	s->client_translators = list_copy(&s->client_translators);
	s->server_translators = list_copy(&s->server_translators);
	copy_servers(s);
	copy_bricks(s, from);
	copy_options(s);
	copy_tenants(s);
}
