/* SPDX-License-Identifier: Apache-2.0 */
/* From the specification of a volume (YAML) to the volfiles of its servers and clients; doc/volfile.md describes both.
 */
#ifndef STRATUS_VOLGEN_H
#define STRATUS_VOLGEN_H
#include <stddef.h>
#include <stdio.h>

#include "inode.h"
#include "option.h"

struct spec_server {
	char *name, *host;
	char *listen;  /* address only; NULL: the host */
	unsigned port; /* of its bricks that have none of their own; SPEC_PORT unless given */
	bool has_port; /* given */
	unsigned line;
};
struct spec_brick {
	char *server_name, *directory;
	const struct spec_server *server;
	unsigned port; /* 0: the server's */
	struct gfid id;
	unsigned line;
};
struct spec_options { /* for all volumes of one type */
	char *type;
	struct option_value *option;
	size_t options;
	unsigned line;
};
struct spec_list {
	char **item;
	size_t count;
};
struct spec {
	char *path; /* for messages */
	char *volume;
	struct gfid id;
	unsigned replica; /* bricks of a set, which follow each other in the list; 0: each brick stands for itself */
	bool arbiter;	  /* the last brick of each set holds no file data */
	unsigned began;	  /* with how many subvolumes; 0: not said, so with those that there are */
	struct spec_server *server;
	size_t servers;
	struct spec_brick *brick;
	size_t bricks;
	struct spec_options *by_type;
	size_t types;
	struct spec_list client_translators, server_translators; /* from the bottom up */
	bool has_server_translators;
	bool stopped; /* stratusd does not serve it */
};
enum { SPEC_MAX = 1 << 20, SPEC_PORT = 24007, SPEC_REPLICA_MAX = 8, SPEC_SUBVOLUMES_MAX = 64, SPEC_BRICKS_MAX = 512 };

/* -EINVAL and a sentence with file and line. What it made is freed by spec_free, also after an error. */
int spec_parse(const char *text, size_t size, const char *path, struct spec *, struct problem *);
int spec_read(const char *path, struct spec *, struct problem *);
void spec_free(struct spec *);
/* A specification with fresh ids, one brick for each HOST:DIRECTORY ([ADDRESS]:DIRECTORY for IPv6); checked as if read. */
struct spec_form {
	unsigned port; /* of all servers; 0: the usual one */
	unsigned replica;
	bool arbiter;
};
int spec_init(const char *volume, const char *const *bricks, size_t count, const struct spec_form *, struct spec *,
	      struct problem *);
/* Changes by hand: what comes out is to be printed and read again, which checks it. */
/* `old`: "brickN" or SERVER:/DIRECTORY; `new` gets a fresh id. */
int spec_replace_brick(struct spec *, const char *old, const char *new, struct problem *);
/* Whole subvolumes at the end, of bricks with fresh ids. */
int spec_add_bricks(struct spec *, const char *const *bricks, size_t count, struct problem *);
/* The last ones, in any order, named as in spec_replace_brick. */
int spec_remove_bricks(struct spec *, const char *const *bricks, size_t count, struct problem *);
void spec_set_option(struct spec *, const char *type, const char *name, const char *value); /* NULL: removes it */
void spec_name_server(struct spec *, const char *name);					    /* if there is only one */
void spec_print(const struct spec *, FILE *);
char *spec_text(const struct spec *); /* the same; malloc'ed, or NULL */
unsigned spec_brick_port(const struct spec_brick *);
/* Over how many sets (or bricks that stand for themselves) names are spread. */
size_t spec_subvolumes(const struct spec *);
/* With how many of them the volume began: what the root's layout is as long as none is written. */
size_t spec_began_with(const struct spec *);
/* Names are spread over several, or may be one day: those that began with one before `began-with` was written down of all never are. */
bool spec_is_spread(const struct spec *);
/* The first one where there was one: what stands over it keeps its name when others come. */
bool spec_has_no_number(const struct spec *, size_t number);
/* What a replica set is called, in the register and by people: VOLUME:NUMBER, or VOLUME if it has no number. malloc'ed. */
char *spec_set_name(const struct spec *, size_t number);

enum volgen_kind { VOLGEN_SERVER, VOLGEN_CLIENT, VOLGEN_COORDINATOR };
/* For spec-edit.c: one more element at the end of an array, zeroed. */
void *spec_grow(void *array, size_t *count, size_t size);
const struct spec_server *spec_server_find(const struct spec *, const char *name);

struct volgen_file {
	char *name; /* server-NAME.vol, server-NAME-PORT.vol, client-VOLUME.vol, coordinator-SET.vol */
	char *text;
	enum volgen_kind kind;
	size_t number; /* the index of the server in the specification; of the set */
};
struct volgen_files {
	struct volgen_file *file;
	size_t count;
};
#define VOLGEN_STATE "/var/lib/stratus"
/* `state`: where coordinators keep their views and the volume's secret; NULL: VOLGEN_STATE. */
int volgen(const struct spec *, const char *state, struct volgen_files *, struct problem *);
/* The text of the first of that kind, for the caller to free; NULL: there is none (any more). */
char *volgen_take(struct volgen_files *, enum volgen_kind);
void volgen_free(struct volgen_files *);
#endif
