/* SPDX-License-Identifier: Apache-2.0 */
/* stratusd with a cluster store: serves what the committed specifications say, and changes when they change. */
#ifndef STRATUS_CLUSTER_H
#define STRATUS_CLUSTER_H
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "graph.h"
#include "volgen.h"

struct blob;
struct store;
struct tls_files;
enum { CLUSTER_PORT = 24006 };
struct cluster_config {
	const char *state;	     /* directory of the store, secrets and marks */
	const char *name;	     /* of this server in the specifications; NULL: the host's */
	const char *listen;	     /* ADDRESS:PORT of the volfile service; NULL: all addresses, CLUSTER_PORT */
	const char *peers;	     /* ADDRESS:PORT where other servers reach the store; NULL: it is this server's alone */
	bool join;		     /* others will add this server */
	const struct tls_files *tls; /* for the store and the volfile service; NULL: both in the clear */
};
/* Opens the store, brings up what is committed (a volume that can't be served is logged, and tried again), and starts the
 * volfile service. */
int cluster_start(const struct cluster_config *, struct problem *);
void cluster_stop(void);

/* ---- for the control socket ---- */
void cluster_each_graph(void (*fn)(struct graph *, void *), void *arg);
void cluster_info(FILE *);	      /* volumes are named VOLUME:TRANSLATOR, as `stratus ctl` takes them */
int cluster_reload(struct problem *); /* tries again what could not be served */
int cluster_command(int words, char **word, const char *body, FILE *, bool *known, struct problem *);

/* ---- among the files of the cluster ---- */
struct store *cluster_store(void);
const char *cluster_name(void);
const char *cluster_state(void);
/* committed.c: the committed specification of a volume, shared: released in the end, never changed. -ENOENT and a sentence: there is no such volume. After an error it is NULL. */
int cluster_spec(const char *volume, const struct spec **, uint64_t *version, struct problem *);
void cluster_spec_release(const struct spec *); /* NULL is fine */
/* This is what was committed as that version: takes both over. */
void cluster_spec_committed(struct spec *, uint64_t version, struct volgen_files *);
/* Its volfiles, but perhaps for that of the clients, to be freed by the caller. */
int cluster_spec_files(const struct spec *, struct volgen_files *, struct problem *);
int cluster_spec_client(const struct spec *, char **text, struct problem *); /* that one; malloc'ed */
void cluster_specs_forget(void);					     /* nobody asks any more */
/* Its text, as it was printed when it was committed: text->bytes is malloc'ed, the caller's. */
int cluster_spec_text(const char *volume, struct blob *text, uint64_t *version, struct problem *);
/* Serves what is committed now: returns when graphs have started and stopped accordingly. */
void cluster_reconcile(void);
/* Commits what `change` makes of the specification of a volume, if anything, and serves it; again, when somebody else was faster. Besides what `change` says: -ENOENT, -EREMOTE, -ETIMEDOUT
 * (see store_commit()), -ESTALE. */
typedef int cluster_change(struct spec *, void *arg, struct problem *);
int cluster_edit(const char *volume, cluster_change *, void *arg, bool *changed, struct problem *);
/* A moment, in which who commits just now has handed on what it has read of that: it need not be read once more. */
void cluster_commit_wait(void);
/* Why parts of a volume are not served, a line each; "" if all are. malloc'ed. */
char *cluster_problems(const char *volume);
/* The same of all volumes, each line with the volume: what is not served here. */
char *cluster_unserved(void);
void cluster_status(FILE *); /* as JSON */
/* What the coordinator says of a replica set; NULL: it does not run here. */
json_t *cluster_set_status(const char *volume, size_t set);
json_t *cluster_certificates(void); /* certificates_find() of all that this server uses */

/* cluster-open.c */
char *cluster_host_name(void); /* what a server is called that was given no name; malloc'ed */
int cluster_open_store(const struct cluster_config *, const char *state, const char *name, struct store **, struct problem *);

void cluster_leave(void); /* cluster-leave.c: before the first graph is stopped for good, while all are reached */

/* cluster-servers.c */
bool cluster_has_server(const char *name);
char **cluster_servers(void);		    /* their names: see store_keys() */
int cluster_note_self(const char *address); /* when this server leads: it is in the list of servers */
char *cluster_leader_http(void);       /* ADDRESS:PORT of the volfile service of who leads; malloc'ed; NULL: it is not known */
void cluster_members_json(void *list); /* appends to a json_t array */
int cluster_server_command(int words, char **word, struct problem *);
int cluster_commit_problem(int err, struct problem *); /* the sentence for what store_commit() returned */

/* cluster-replace.c: -EBUSY and a sentence if this brick of a replica set is not to be taken out now, for others lack what it has, or may. -EREMOTE: that is known to who leads. */
int cluster_check_replaced(const struct spec *before, size_t brick, struct problem *);

/* cluster-rebalance.c */
int cluster_rebalance_command(int words, char **word, FILE *, struct problem *);
/* What `stratus rebalance status` tells: state, problem, leaving; NULL: nothing is under way, nor has failed. */
json_t *cluster_rebalance_brief(const char *volume);
bool cluster_rebalance_pending(const struct spec *); /* there are subvolumes without their part of the names */
/* A sentence if names of the volume are still to move, so that it can't get other subvolumes now. */
int cluster_rebalance_check(const char *volume, struct problem *);
/* Those may go at once, for no names are, or are to be, there. -EBUSY */
int cluster_rebalance_check_removal(const struct spec *, uint64_t went, struct problem *); /* a mask of subvolumes */
int cluster_rebalance_must_end(const char *volume, struct problem *);			   /* the sentence that says so */

int cluster_http_start(const char *address, const struct tls_files *, struct problem *);
void cluster_http_stop(void);
const char *cluster_http_address(void);
bool cluster_http_has_tls(void);
void cluster_http_wake_listeners(void); /* there is something new of allotments */
#endif
