/* SPDX-License-Identifier: Apache-2.0 */
/* The network of the simulator: connections that carry messages late, in another order, or not at all (then the connection breaks). */
#include "sim.h"

struct weather weather;

static struct {
	bool cut[NODES_MAX][NODES_MAX];
	struct message *held[NODES_MAX][NODES_MAX];
	struct connection *connections;
	uint64_t numbers, messages;
} net;

enum { NEAR_NS = 20000, FAR_NS = 250000, MESSAGES_MAX = 300000 /* for each subvolume */ };

static unsigned index_of(const struct node *n)
{
	return (unsigned)(n - node);
}

static struct node *sender(const struct message *m)
{
	return m->to_server ? m->connection->client : m->connection->brick;
}

uint64_t net_messages(void)
{
	return net.messages;
}

/* ---- delivery ---- */

static bool open_for(const struct message *m)
{
	const struct connection *c = m->connection;

	if (m->to->life != m->life || !m->to->shard)
		return false;
	return m->to_server ? c->brick_open && !c->broken : c->client_open && !c->broken;
}

static void message_free(struct message *m)
{
	buffer_unref(m->bulk);
	free(m);
}

static void deliver(void *arg)
{
	struct message *m = arg;
	unsigned from = index_of(sender(m)), to = index_of(m->to);

	if (!open_for(m)) {
		message_free(m);
		return;
	}
	if (net.cut[from][to]) {
		m->next = net.held[from][to];
		net.held[from][to] = m;
		return;
	}
	trace_mix(m->id << 4 | m->kind);
	if (++net.messages == MESSAGES_MAX * (uint64_t)plan.subvolumes *
				      (plan_leaves() ? 3 : 1)) /* who empties one walks all trees again and again */
		sim_fail("%llu messages: something asks again and again", (unsigned long long)net.messages);
	if (m->to_server)
		server_got(m);
	else
		client_got(m);
	message_free(m);
}

static void post(struct message *m, uint64_t delay_ns)
{
	if (open_for(m))
		sim_after(m->to, delay_ns, deliver, m);
	else
		message_free(m);
}

static uint64_t travel_ns(void)
{
	uint64_t ns = chance_between(CHANCE_NET, NEAR_NS, FAR_NS);

	if (chance_of(CHANCE_NET, weather.late))
		ns += chance_below(CHANCE_NET, weather.late_ns);
	return ns;
}

static void holding_ends(void *arg)
{
	(void)arg;
	weather.held--;
}

static uint64_t held_ns(struct connection *c, bool to_server, uint32_t kind, uint64_t id)
{
	if (!c->held_ns || c->held_id != id || kind != (to_server ? MESSAGE_CALL : MESSAGE_REPLY) ||
	    c->holds_answer == to_server)
		return 0;
	trace("%s %llu between %s and %s is held up for %llu ms", to_server ? "call" : "the answer to", (unsigned long long)id,
	      c->client->name, c->brick->name, (unsigned long long)(c->held_ns / MS));
	return c->held_ns;
}

void message_send(struct connection *c, bool to_server, uint32_t kind, uint64_t id, const void *bytes, uint32_t size,
		  struct buffer *bulk)
{
	struct message *m = malloc(sizeof(*m) + size);

	memset(m, 0, sizeof(*m));
	m->connection = c;
	m->to_server = to_server;
	m->to = to_server ? c->brick : c->client;
	m->life = to_server ? c->brick_life : c->client_life;
	m->kind = kind;
	m->id = id;
	m->size = size;
	m->bulk = bulk;
	if (size)
		memcpy(m->bytes, bytes, size);
	if (chance_of(CHANCE_NET, weather.lost)) {
		trace("message %u of connection %llu lost", kind, (unsigned long long)c->number);
		connection_break(c);
	}
	post(m, travel_ns() + grow_travel_ns(c->client) + held_ns(c, to_server, kind, id));
}

/* ---- connections ---- */

struct connection *connection_create(struct remote *remote, struct node *client, struct node *brick)
{
	struct connection *c = calloc(1, sizeof(*c));

	c->number = ++net.numbers;
	c->remote = remote;
	c->client = client;
	c->brick = brick;
	c->client_life = client->life;
	c->brick_life = brick->life;
	c->client_open = c->brick_open = true;
	c->next = net.connections;
	net.connections = c;
	return c;
}

static void brick_hears(void *arg)
{
	struct connection *c = arg;

	if (c->brick_open && c->brick->life == c->brick_life) {
		c->brick_open = false;
		server_lost(c);
	}
}

static void client_hears(void *arg)
{
	struct connection *c = arg;

	if (c->client_open && c->client->life == c->client_life) {
		c->client_open = false;
		client_lost(c);
	}
}

static void tell(struct connection *c, bool client, bool brick, uint64_t at_most_ns)
{
	if (client && c->client->life == c->client_life)
		sim_after(c->client, chance_between(CHANCE_NET, FAR_NS, at_most_ns), client_hears, c);
	if (brick && c->brick->life == c->brick_life)
		sim_after(c->brick, chance_between(CHANCE_NET, FAR_NS, at_most_ns), brick_hears, c);
}

void connection_break(struct connection *c)
{
	if (c->broken)
		return;
	c->broken = true;
	tell(c, true, true, 100 * MS);
}

void net_node_down(struct node *n, bool silent)
{
	for (struct connection *c = net.connections; c; c = c->next) {
		if ((c->client != n && c->brick != n) || c->broken)
			continue;
		c->broken = true;
		tell(c, c->brick == n, c->client == n, silent ? NOTICE_DEATH_S * S : 2 * MS);
	}
}

/* ---- links ---- */

bool link_is_cut(const struct node *from, const struct node *to)
{
	return net.cut[index_of(from)][index_of(to)];
}

/* Pings find out, unless the link is mended before. */
static void pinged_out(void *arg)
{
	struct connection *c = arg;

	if (!c->broken && (link_is_cut(c->client, c->brick) || link_is_cut(c->brick, c->client))) {
		trace("connection %llu between %s and %s gets no answer", (unsigned long long)c->number, c->client->name,
		      c->brick->name);
		c->broken = true;
		tell(c, true, true, 3 * S);
	}
}

static void release(unsigned from, unsigned to)
{
	struct message *m, *next;

	for (m = net.held[from][to]; m; m = next) {
		next = m->next;
		post(m, chance_below(CHANCE_NET, S));
	}
	net.held[from][to] = NULL;
}

void link_cut(const struct node *from, const struct node *to, bool cut)
{
	bool *now = &net.cut[index_of(from)][index_of(to)];

	if (*now == cut)
		return;
	*now = cut;
	if (!cut) {
		release(index_of(from), index_of(to));
		return;
	}
	for (struct connection *c = net.connections; c; c = c->next)
		if (!c->broken && ((c->client == from && c->brick == to) || (c->client == to && c->brick == from)))
			sim_after(&node[0], chance_between(CHANCE_NET, S, 6 * S), pinged_out, c);
}

struct cut {
	struct node *a, *b;
};

static void cut_ends(void *arg)
{
	struct cut *cut = arg;

	link_cut(cut->a, cut->b, false);
	link_cut(cut->b, cut->a, false);
	weather.held--;
	free(cut);
}

static void cut_for(struct node *a, struct node *b, uint64_t ns)
{
	struct cut *cut = malloc(sizeof(*cut));

	*cut = (struct cut){ a, b };
	link_cut(a, b, true);
	link_cut(b, a, true);
	trace("cut: %s and %s for %llu ms", a->name, b->name, (unsigned long long)(ns / MS));
	sim_after(&node[0], ns, cut_ends, cut);
}

void net_hold(struct connection *c, uint64_t id)
{
	enum { LEAST = 2, MOST = 40, LONGEST_S = 12 };
	uint64_t ns = plan.sweep_ms * MS * chance_between(CHANCE_FAULT, LEAST, MOST);
	uint64_t way = chance_below(CHANCE_FAULT, 3);

	ns = ns < LONGEST_S * S ? ns : LONGEST_S * S;
	weather.held++;
	if (way == 2 && !link_is_cut(c->client, c->brick) && !link_is_cut(c->brick, c->client)) {
		cut_for(c->client, c->brick, ns);
		return;
	}
	c->held_id = id;
	c->held_ns = ns;
	c->holds_answer = way == 1;
	sim_after(&node[0], ns + S, holding_ends, NULL);
}

void links_heal(void)
{
	for (unsigned a = 0; a < nodes; a++)
		for (unsigned b = 0; b < nodes; b++)
			link_cut(&node[a], &node[b], false);
}
