/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator: the whole replicated stack in one process, on one thread, on a clock, a network and disks that are all made up from
 * one seed. See sim.md. */
#ifndef STRATUS_SIM_H
#define STRATUS_SIM_H
#include <stdbool.h>
#include <stdint.h>

#include "graph.h"
#include "xlator.h"

enum { BRICKS_MAX = 9, SUBVOLUMES_MAX = 3, CLIENTS_MAX = 6, NODES_MAX = 3 + BRICKS_MAX + SUBVOLUMES_MAX + CLIENTS_MAX };
#define MS 1000000ull
#define S  1000000000ull

/* ---- chance: streams of their own, so that a change of one thing leaves the others as they were ---- */
enum chance_stream {
	CHANCE_ORDER,
	CHANCE_NET,
	CHANCE_DISK,
	CHANCE_FAULT,
	CHANCE_WORK,
	CHANCE_RANDOM,
	CHANCE_GROW,
	CHANCE_LIMIT,
	CHANCE_LIES,
	STREAMS
};
void chance_begin(uint64_t seed);
uint64_t chance(enum chance_stream);
uint64_t chance_below(enum chance_stream, uint64_t limit);	     /* 0 .. limit - 1 */
uint64_t chance_between(enum chance_stream, uint64_t a, uint64_t b); /* a .. b */
bool chance_of(enum chance_stream, unsigned part_per_million);

/* ---- nodes: machines, each with a graph and a clock of its own ---- */
enum node_kind { NODE_WORLD, NODE_BRICK, NODE_COORDINATOR, NODE_CLIENT };
struct server;
struct layout;
struct node {
	enum node_kind kind;
	unsigned number; /* among its kind; bricks: those of one subvolume after those of the other */
	char name[16];
	struct shard *shard; /* of this life; NULL: down */
	unsigned life, boot; /* boot: how often it lost its power */
	uint64_t start_ns;
	bool powered, ready; /* ready: its graph has started */
	bool retired;	     /* see node_retire() */
	struct graph *graph;
	struct server *server; /* brick: what its sim/server has */
	int64_t mono_skew, wall_skew, drift_ppm;
	unsigned crash_points; /* it dies at this one, counted down; 0: not */
	unsigned
		hold_points; /* a client: this request that has to do with files that are away is held up, counted down; 0: none */
	bool crash_in_away;   /* only those count at which a client has to do with files that are away */
	bool crash_in_change; /* only those count at which storage/posix is about to change something */
};
extern struct node node[NODES_MAX];
extern unsigned nodes;
struct node *node_self(void); /* whose task or callback is running */
struct node *node_of_shard(const struct shard *);

/* ---- runtime.c ---- */
uint64_t sim_now(void);	   /* the world's time: ns since the run began */
uint64_t sim_events(void); /* counts what has been run: an order of all that happens */
/* A fresh shard for a node that starts. */
void shard_begin(struct node *);
/* Nothing of the node's runs ever again. */
void shard_end(struct node *);
/* Runs until `done` says so, or nothing can happen any more (false), or the world's time is past `limit_ns` (false). */
bool sim_run(bool (*done)(void), uint64_t limit_ns);
/* Calls fn(arg) on the node's loop after so long, if it lives the same life then. */
void sim_after(struct node *, uint64_t delay_ns, task_fn *fn, void *arg);
/* Here a machine may crash: if the node's count says so the running task never comes back. */
void crash_point(void);
void crash_point_change(void);			/* of a directory, by storage/posix */
void task_gone(void) __attribute__((noreturn)); /* the task's node has crashed: it ends here */

/* ---- the trace ---- */
extern bool verbose, verbose_calls;					   /* calls: those to bricks, too */
void trace(const char *format, ...) __attribute__((format(printf, 1, 2))); /* prints if verbose; always goes into the hash */
void trace_mix(uint64_t);						   /* into the hash only */
uint64_t trace_hash(void);
/* The run has failed: says why, once (the first counts). */
void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *sim_failure(void); /* NULL: none */

/* ---- net.c ---- */
struct weather { /* parts per million of the messages */
	unsigned lost, late;
	uint64_t late_ns; /* at most */
	unsigned held;	  /* so many messages, or links, are held up for long */
};
extern struct weather weather;
void link_cut(const struct node *from, const struct node *to, bool cut);
bool link_is_cut(const struct node *from, const struct node *to);
void links_heal(void);
enum { NOTICE_DEATH_S = 6 };
void net_node_down(struct node *, bool silent); /* its connections break; silent: the others hear it only by and by */
uint64_t net_messages(void);

struct message {
	struct timer timer;
	struct connection *connection;
	struct node *to;
	unsigned life; /* of the receiver */
	bool to_server;
	uint32_t kind, size;
	uint64_t id;
	struct buffer *bulk;
	struct message *next; /* held by a cut link */
	uint8_t bytes[] __attribute__((aligned(8)));
};
enum {
	MESSAGE_HELLO,
	MESSAGE_WELCOME,
	MESSAGE_CALL,
	MESSAGE_REPLY,
	MESSAGE_CANCEL,
	MESSAGE_EVENT,
	MESSAGE_REFUSED,
	MESSAGE_GONE
};
struct session;
struct remote;
struct connection {
	uint64_t number;
	struct node *client, *brick;
	unsigned client_life, brick_life;
	struct remote *remote;	 /* at the client */
	struct session *session; /* at the brick, once it has greeted */
	bool client_open, brick_open, broken;
	uint64_t held_id, held_ns; /* of this call either message is late */
	bool holds_answer;
	struct connection *next;
};
struct connection *connection_create(struct remote *, struct node *client, struct node *brick);
/* Takes over `bulk`. */
void message_send(struct connection *, bool to_server, uint32_t kind, uint64_t id, const void *bytes, uint32_t size,
		  struct buffer *bulk);
/* That call, which is about to be sent, or its answer, comes long after; or both sides are cut off that long. */
void net_hold(struct connection *, uint64_t id);
void connection_break(struct connection *); /* both sides hear of it, by and by */
/* client.c and server.c: on the receiver's loop */
void client_got(struct message *);
void client_lost(struct connection *);
void server_got(struct message *);
void server_lost(struct connection *);
void server_print_counts(FILE *); /* calls by fop */

/* ---- translators, whose modules in tests/sim/xlators only name these ---- */
extern const struct xlator_type sim_client_type, sim_server_type, sim_disk_type, sim_naive_type, sim_kernel_type;

/* ---- disk.c ---- */
struct disk;
struct disk_faults {
	uint64_t slow_ns;     /* each call takes up to this */
	uint64_t stuck_until; /* no call ends before */
	unsigned eio;	      /* parts per million */
	unsigned loses;	      /* the same, of what is to be written: it is in memory, and nobody is told but once */
	bool full;
	bool floor; /* no new objects but pointers (with --subvolumes) */
	bool low;   /* says that it has little room */
};
struct disk *disk_create(unsigned member);
struct disk *disk_of(unsigned member);
struct disk_faults *disk_faults(struct disk *);
void disk_forget_orphans(struct disk *);	/* after a crash: what has no name */
void disk_power_cut(struct disk *);		/* what was not synced may be lost */
uint64_t disk_transaction(const struct disk *); /* changes of names from now on are in this one, or a later one */
uint64_t disk_survived(const struct disk *);	/* of the last power cut: those before this one are there */
void disk_replace(struct disk *);		/* by an empty one */
void disk_print(struct disk *, FILE *);
bool disks_have_limbos(void); /* any brick */
int disk_sync(struct disk *); /* makes durable all that was done before. -EIO: but for what was lost since the last one */
const struct disk_object *disk_lacks(struct disk *); /* something that it has in memory only, for good */

/* ---- files.c: what translators keep in files of their own (indexes) is subject to power cuts, too ---- */
void files_begin(const char *directory); /* the run's */
void files_power_cut(const char *directory);
void files_named(int directory_fd, const char *name);		/* a symlink was made beside the disk */
void files_cut_names(const char *directory, uint64_t survived); /* of the disk: disk_survived() */
void files_crash(const char *directory);			/* closes what the dead process had open there */
int files_remove(const char *directory);			/* with all in it */
void files_synced(const char *directory);			/* all below it */
bool files_path(int fd, char path[4096]);			/* what it has open, if that is in the run's directory */

/* ---- world.c ---- */
enum stack { STACK_REPLICA, STACK_SINGLE, STACK_NAIVE };
enum { WEIGHT = 3 }; /* of plan.weighed */
struct plan {
	uint64_t seed;
	unsigned subvolumes, members, clients, tasks, operations, faults, sync_s;
	unsigned sweep_ms, scatter;
	unsigned initial;  /* subvolumes that the root's names are at in the beginning; fewer than all: the volume grows */
	int weighed;	   /* the subvolume that is to have three times its share of the names; -1: none */
	int leaver;	   /* the subvolume that is to leave the volume; -1: none */
	bool told;	   /* clients know of that from the beginning; else those that start when it has begun */
	unsigned widen_at; /* names with which a directory is large; 0: none is */
	unsigned scarce;   /* a mask of subvolumes that have little room until the faults end */
	bool arbiter, wild, cut_all, ignore_unlinked, kernel, posix; /* posix: the real leaf */
	bool lossy;			    /* with several subvolumes: all members of one may lose their power */
	bool tenants;			    /* clients are a tenant's, by their certificates */
	bool liar;			    /* one more, of another tenant, lies */
	bool layout;			    /* features/layout on the bricks, and clients that say what names stand for */
	unsigned limit, limit_inodes, near; /* of all that is in it, and features/usage's option near; limit 0: there is none */
	bool quotas;			    /* directories get limits of their own */
	bool losses;			    /* disks may lose what they have taken, and tell it once */
	enum stack stack;
	const char *directory;
};
extern struct plan plan;
extern bool kernel_asks; /* no name is believed: in the end each is looked up, so that whoever left a mark there is met */
void world_run(const char *directory); /* a whole run; sim_failure() tells */
int node_start(struct node *);
void node_retire(
	struct
	node *); /* it is told that it is going to end; `retired` says in a moment whether there is nothing left to wait for */
void node_crash(struct node *, bool power);
void node_wipe(struct node *); /* a brick's disk is replaced by an empty one, and what it keeps beside it goes, too */
struct node *node_brick(unsigned), *node_client(unsigned), *node_coordinator(unsigned subvolume);
unsigned bricks_count(void);
unsigned subvolume_of(unsigned brick);
bool is_replicated(void);		    /* bricks are members of replica sets */
bool world_few(unsigned subvolume);	    /* it says that the set can only be read, or says nothing */
bool world_is_in(const struct node *brick); /* by the view; or its coordinator says nothing */
bool world_clean(unsigned subvolume);	    /* its coordinator says that all members are IN and nothing is to be healed */
/* The same, whatever links there are to clients, and how long the bricks have been up. */
bool world_quiet(void);
bool world_quorum(void); /* enough bricks are up, connected and unhurt for operations to end */

/* ---- grow.c: a volume of which the last subvolumes come while there is work, or one of them leaves ---- */
bool plan_grows(void), plan_leaves(void);
bool plan_moves(void);		    /* either, or one is to have another weight */
struct node *node_rebalancer(void); /* a client of which nothing is asked but that; NULL: names stay where they are */
/* grows: 0, 1, or -1: as the seed says; leaves, weighs: one goes instead, or gets another weight */
void grow_plan(int grows, bool leaves, bool weighs);
bool grow_knows(const struct node *);	      /* it is told in its volfile that a subvolume leaves */
void grow_transition(struct layout *);	      /* by which names move */
bool grow_stalls(void);			      /* messages of all machines are late now and then */
uint64_t grow_travel_ns(const struct node *); /* what comes from there, or goes there, takes so much longer */
void grow_begin(void);			      /* spawns who has it begun, by and by */
void grow_node_up(struct node *);	      /* the first client widens large directories, too */
bool grow_moves(unsigned name, uint64_t from_ns, uint64_t to_ns); /* somebody may move that name of the root then */
bool grow_goes_on(void);					  /* begun, and not done as far as is known */
void grow_end(void);						  /* waits until it is done; else the run has failed */
bool grow_has_left(const char *mark, unsigned subvolume); /* a name of the root that belongs elsewhere by now has such a mark */
void check_grown(void);					  /* the disks */
unsigned grow_moved(void), grow_kills(void);		  /* names, as far as is known */

/* ---- leave.c ---- */
void leave_tell_bricks(void);	       /* by and by: those of the subvolume that leaves */
void leave_remove_lost(struct node *); /* a client: names that lead to nothing are removed */
void check_left(void);		       /* the disks: nothing is there, and nothing leads there */

/* ---- limit.c: one account that has a small limit ---- */
void limit_plan(void);
void limit_plan_quotas(void);		/* more room in all, less in directories */
void limit_put(FILE *, unsigned brick); /* the part of its volfile, above "disk" */
void limit_end(void);			/* waits until all are exact; in a task of the world's */
void check_limit(void);

/* ---- liar.c ---- */
struct node *node_liar(void); /* NULL: there is none */
void liar_begin(void), liar_end(void);
bool liar_owns(const char *path); /* of a disk: the top of its tree, in which the members may differ */
unsigned liar_lies(void);

/* ---- nemesis.c ---- */
enum { NOTICE_S = 3 };	  /* so long a brick may be away before the coordinator knows */
void nemesis_begin(void); /* spawns its task */
bool nemesis_done(void);
unsigned nemesis_faults(void);
bool nemesis_client_died(void); /* some did */
uint64_t nemesis_cut_all(void); /* when all members of a set last lost their power at once; 0: never */
bool nemesis_cut_between(uint64_t from_ns, uint64_t to_ns); /* all of some set lost their power then */
/* A brick that is a set by itself: the answers that it kept went with it. So long its clients may not know. */
void nemesis_single_died(uint64_t notice_ns);
bool nemesis_single_died_between(uint64_t from_ns, uint64_t to_ns);
bool nemesis_cuts_sets(void);		/* it was asked for */
int nemesis_restrict(const char *list); /* only these, by name, apart by commas */
void nemesis_names(FILE *);

/* ---- work.c ---- */
void work_begin(void);
bool work_done(void);
void work_client_up(struct node *), work_client_died(struct node *);
void work_final_reads(void); /* in a task of the world's: reads everything through a client, as part of the history */
void work_watch(void);	     /* an operation that takes too long is a failure */

/* ---- history.c, check.c ---- */
struct operation;
void check_history(void);
void check_replicas(void);
void check_away(void); /* away.c: with several subvolumes */
/* Between the two no client changes anything: what has some name on all disks the first time has one the second time. */
void named_remember(void);
void named_check(void);
unsigned check_undecided(void); /* searches that were given up */
unsigned operations_count(void);

/* ---- mutants ---- */
const char *mutant_chosen(void);
int mutant_choose(const char *name); /* NULL: none */
void mutants_spread(void);	     /* those that are found now are of several subvolumes */
void mutants_list(FILE *, bool spread);
#endif
