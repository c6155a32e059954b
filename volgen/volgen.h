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
	bool gone; /* only keeps the place of one that has left, so that others keep their numbers: it has nothing else */
	unsigned line;
};
struct spec_options { /* for all volumes of one type */
	char *type;
	struct option_value *option;
	size_t options;
	unsigned line;
};
enum spec_transport { SPEC_TRANSPORT_OPEN /* not said: TCP, if no options say otherwise */, SPEC_TCP, SPEC_TLS };
struct spec_tls { /* absolute paths, on each machine its own files; all NULL unless the transport is TLS */
	char *certificate, *key, *authorities;
	char *revoked; /* may be NULL */
};
struct spec_list {
	char **item;
	size_t count;
};
enum spec_tenant_state { SPEC_TENANT_ACTIVE, SPEC_TENANT_SUSPENDED, SPEC_TENANT_DELETED, SPEC_TENANT_STATES };
#define SPEC_ACCESS_ANY UINT32_MAX
struct spec_access { /* an access point: doc/tenants.md */
	struct gfid id;
	char *directory;   /* from the tenant's root: "/", "/a/b" */
	unsigned uid, gid; /* as whom its clients act; SPEC_ACCESS_ANY: as whom they say */
	bool read_only;
	uint64_t expires; /* seconds since the epoch; 0: never */
	unsigned line;
};
struct spec_tenant { /* doc/tenants.md */
	char *name;
	struct gfid id;
	unsigned base, count; /* its user and group ids on the bricks */
	enum spec_tenant_state state;
	uint64_t bytes, inodes;		  /* it may have so many on all bricks together; 0: as it likes */
	uint64_t soft_bytes, soft_inodes; /* more than that is noted and told; 0: nothing is */
	uint64_t grace;			  /* seconds for which it may have more than that; 0: for ever */
	uint64_t ops, bandwidth;	  /* it may use so many, and so many bytes, in a second on each brick; 0: as it likes */
	uint64_t weight;		  /* of its share; 0: 1 */
	struct spec_access *access;
	size_t accesses;
	unsigned line;
};
struct spec {
	char *path; /* for messages */
	char *volume;
	struct gfid id;
	unsigned replica;   /* bricks of a set, which follow each other in the list; 0: each brick stands for itself */
	bool arbiter;	    /* the last brick of each set holds no file data */
	unsigned began;	    /* with how many subvolumes; 0: not said, so with those that there are */
	unsigned began_at;  /* the first of them */
	bool says_began_at; /* one of those that it began with has left; from then on each set is called by its number */
	bool leaving;	    /* a subvolume is to go, and is being emptied */
	size_t leaver;	    /* its number; of no meaning unless one is leaving */
	struct spec_server *server;
	size_t servers;
	struct spec_brick *brick;
	size_t bricks;
	struct spec_options *by_type;
	size_t types;
	struct spec_list client_translators, server_translators; /* from the bottom up */
	bool has_server_translators;
	enum spec_transport transport;
	struct spec_tls tls;
	bool stopped;	  /* stratusd does not serve it */
	bool has_tenants; /* from its creation, though it may have none yet */
	struct spec_tenant *tenant;
	size_t tenants;
	unsigned tenant_base; /* the first id that no tenant ever had */
};
enum { SPEC_MAX = 8 << 20, SPEC_PORT = 24007, SPEC_REPLICA_MAX = 8, SPEC_SUBVOLUMES_MAX = 64, SPEC_BRICKS_MAX = 512 };
enum { SPEC_TENANTS_MAX = 16384, SPEC_TENANT_BASE = 65536, SPEC_TENANT_IDS = 65536 };
#define SPEC_TENANT_END UINT64_C(0xfffffffe) /* beyond their last id: the two that are left mean "nobody" and "unchanged" */

/* -EINVAL and a sentence with file and line. What it made is freed by spec_free, also after an error. */
int spec_parse(const char *text, size_t size, const char *path, struct spec *, struct problem *);
int spec_read(const char *path, struct spec *, struct problem *);
void spec_free(struct spec *);
void spec_copy(const struct spec *from, struct spec *); /* freed by spec_free, too */
/* A specification with fresh ids, one brick for each HOST:DIRECTORY ([ADDRESS]:DIRECTORY for IPv6); checked as if read. */
struct spec_form {
	unsigned port; /* of all servers; 0: the usual one */
	unsigned replica;
	bool arbiter, tenants;
	bool growable; /* of a volume with tenants and one brick: others can be added; it has no leases and no access points */
	const char *tls; /* directory of the files of TLS, as `stratus cert issue` writes them; NULL: no TLS */
};
int spec_init(const char *volume, const char *const *bricks, size_t count, const struct spec_form *, struct spec *,
	      struct problem *);
/* Changes by hand: what comes out is to be printed and read again, which checks it. */
/* `old`: "brickN" or SERVER:/DIRECTORY; `new` gets a fresh id. If that brick has that server and directory already nothing is changed, but with `new_disk`: 1; so, too, if
 * there is no brick `old` any more, but `new` is one. *number: of the brick. */
int spec_replace_brick(struct spec *, const char *old, const char *new, bool new_disk, size_t *number, struct problem *);
/* Whole subvolumes, of bricks with fresh ids: in places of those that have left, then at the end. */
int spec_add_bricks(struct spec *, const char *const *bricks, size_t count, struct problem *);
/* *numbers: a mask of the subvolumes that these are, in any order, named as in spec_replace_brick; not all that there are. */
int spec_name_subvolumes(const struct spec *, const char *const *bricks, size_t count, uint64_t *numbers, struct problem *);
/* Those, which have no names. */
int spec_remove_bricks(struct spec *, const char *const *bricks, size_t count, struct problem *);
/* Those bricks, which are one subvolume, are to go when it has been emptied. */
int spec_let_leave(struct spec *, const char *const *bricks, size_t count, struct problem *);
/* It has been: the specification without it. */
void spec_take_out(struct spec *);
/* What `began-with` and `began-at` are without a subvolume. */
void spec_shorten_beginning(struct spec *, size_t number);
void spec_set_option(struct spec *, const char *type, const char *name, const char *value); /* NULL: removes it */
void spec_name_server(struct spec *, const char *name);					    /* if there is only one */
void spec_print(const struct spec *, FILE *);
/* spec-transport.c */
/* A sentence, malloc'ed, if a server listens without TLS where others may reach it; else NULL. */
char *spec_warning(const struct spec *);
size_t spec_servers_of_bricks(const struct spec *); /* at how many servers there are bricks */
/* Limits of tenants are held by allotments of several servers (doc/usage.md). */
bool spec_has_allotments(const struct spec *);
/* Whether an option is given to all volumes of the type; its value, or NULL. */
const char *spec_option(const struct spec *, const char *type, const char *name);
bool spec_has_tls(const struct spec *); /* bricks are reached by TLS only */
int spec_check_transport(const struct spec *, struct problem *);
void spec_print_transport(const struct spec *, FILE *);
void spec_set_tls(struct spec *, const char *directory); /* with the files that `stratus cert issue` writes there */
void spec_print_scalar(const char *text, FILE *);	 /* of spec.c: in YAML's quotes */
char *spec_text(const struct spec *);			 /* the same; malloc'ed, or NULL */
unsigned spec_brick_port(const struct spec_brick *);
/* ---- spec-subvolumes.c ---- */
int spec_check_subvolumes(struct spec *, struct problem *); /* for spec.c */
/* A subvolume is a set, or a brick that stands for itself. It has a number: its place in the list. */
size_t spec_places(const struct spec *); /* numbers that there are, also of those that have left */
bool spec_has_subvolume(const struct spec *, size_t number);
uint64_t spec_numbers(const struct spec *);  /* a mask of those that are there */
uint64_t spec_staying(const struct spec *);  /* the same, without the one that leaves */
size_t spec_subvolumes(const struct spec *); /* how many are there */
size_t spec_set_size(const struct spec *);   /* bricks of a subvolume */
/* With how many of them the volume began: what the root's layout is as long as none is written. */
size_t spec_began_with(const struct spec *);
/* Names are spread over several, or may be one day: those that began with one before `began-with` was written down of all never are, nor those with tenants that have one. */
bool spec_is_spread(const struct spec *);
/* Its bricks tell clients what they may believe (features/lease): replica sets do that by themselves. */
bool spec_has_leases(const struct spec *);
/* The first one where there was one: what stands over it keeps its name when others come. */
bool spec_has_no_number(const struct spec *, size_t number);
/* What a replica set is called, in the register and by people: VOLUME:NUMBER, or VOLUME if it has no number. malloc'ed. */
char *spec_set_name(const struct spec *, size_t number);

/* ---- spec-tenants.c ---- */
struct spec_tenant *spec_tenant_find(const struct spec *, const char *name);
const char *spec_tenant_state(const struct spec_tenant *);
int spec_tenant_state_parse(const char *text); /* or -EINVAL */
/* For spec.c: what must hold, and what follows; printing; freeing. */
int spec_check_tenants(struct spec *, struct problem *);
void spec_print_tenants(const struct spec *, FILE *);
void spec_free_tenants(struct spec *);
#define SPEC_HEAD "# A StratusFS volume;" /* with which spec_print() begins */
/* spec-written.c, for spec.c: takes the tenants out of a text that was written by spec_print(), and gives the rest of it, malloc'ed; NULL: nothing was taken, for the text
 * differs from what that writes, or has none. */
char *spec_take_written(const char *text, size_t size, struct spec *, size_t *rest);
/* What must hold between a specification and the one before it: ids and names are never used again. */
int spec_check_tenants_change(const struct spec *, const struct spec *before, struct problem *);
/* The tenant, if there is none yet. count 0: as many ids as usual. */
int spec_create_tenant(struct spec *, const char *name, uint32_t count, struct problem *);
int spec_set_tenant(struct spec *, const char *name, enum spec_tenant_state, struct problem *);
struct spec_limits { /* of a tenant: what is not given stays as it is */
	bool has_bytes, has_inodes, has_soft_bytes, has_soft_inodes, has_grace, has_ops, has_bandwidth, has_weight;
	uint64_t bytes, inodes, soft_bytes, soft_inodes, grace, ops, bandwidth, weight;
};
enum {
	SPEC_WEIGHT_MAX = 1000,
	SPEC_BANDWIDTH_MIN = 64 << 10 /* as features/throttle takes them */,
	SPEC_GRACE_MAX = 10 * 366 * 86400
};
int spec_resize_tenant(struct spec *, const char *name, const struct spec_limits *, struct problem *);
char *spec_tenant_table(const struct spec *);	 /* as features/cloud takes them; malloc'ed */
char *spec_tenant_accounts(const struct spec *); /* as features/usage does */
char *spec_tenant_shares(const struct spec *);	 /* as features/throttle does */

/* ---- spec-access.c ---- */
enum { SPEC_ACCESS_OF_ONE = 64, SPEC_ACCESS_MAX = 4096, SPEC_ACCESS_DIRECTORY_MAX = 255 };
struct spec_access *spec_access_find(const struct spec_tenant *, const struct gfid *id);
bool spec_access_has_expired(const struct spec_access *, uint64_t now); /* seconds since the epoch */
/* For spec.c and spec-tenants.c, as those for tenants; for what is printed: a path with %xx for what words and quotes can't have (word.h), malloc'ed. */
int spec_check_access(const struct spec *, struct problem *);
int spec_check_access_change(const struct spec_tenant *now, const struct spec_tenant *before, struct problem *);
void spec_print_access(const struct spec_tenant *, FILE *);
void spec_free_access(struct spec_tenant *);
char *spec_access_path(const char *directory);
/* A new one with the directory, ids, mode and end of `like`, and a fresh id. */
int spec_create_access(struct spec *, const char *tenant, const struct spec_access *like, struct gfid *id, struct problem *);
int spec_revoke_access(struct spec *, const char *tenant, const struct gfid *id, struct problem *);
char *spec_access_table(const struct spec *); /* as features/cloud takes them; malloc'ed */

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
/* A word of a volfile's grammar: in quotes where the parser would read something else without. */
void volgen_print_word(const char *text, FILE *);
struct volfile;
/* The volfile of a server with features/cloud above each brick that it offers. */
int volgen_filter_cloud(const struct volfile *, const char *tenants, FILE *, struct problem *);
#define VOLGEN_STATE "/var/lib/stratus"
/* `state`: where coordinators keep their views and the volume's secret; NULL: VOLGEN_STATE. */
int volgen(const struct spec *, const char *state, struct volgen_files *, struct problem *);
/* The volfile of clients that one brick of a volume without replicas shows all that they may see (access points over several bricks): the same, without cluster/dht. malloc'ed. */
int volgen_one_brick(const struct spec *, size_t number, char **text, struct problem *);
/* The text of the first of that kind, for the caller to free; NULL: there is none (any more). */
char *volgen_take(struct volgen_files *, enum volgen_kind);
void volgen_free(struct volgen_files *);
#endif
