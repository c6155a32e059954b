/* SPDX-License-Identifier: Apache-2.0 */
/* The volfile service: HTTP for mounts and for whoever watches, who may only read, and for tenants' administrators (cluster-tenant.c).
 *
 *   GET /v1/volume/NAME/client[?brick=N][&after=VERSION]   the client's volfile; X-Stratus-Version says of which version. With
 *       `after`, the answer waits until there is a later version, and is 304 if there is none after 30 s.
 *   GET /v1/status                                         what `stratus status --json` prints
 *   POST /v1/allotments                                    between servers: cluster-allot.h
 *   GET /v1/allotments?after=NUMBER                        too: waits until there is something to hear
 *   GET /metrics                                           what tenants are charged here, and when certificates end, for Prometheus */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cluster-allot.h"
#include "cluster-tenant.h"
#include "cluster.h"
#include "identity.h"
#include "log.h"
#include "metrics.h"
#include "path.h"
#include "source.h"
#include "store.h"
#include "task.h"
#include "tunnel.h"
#include "word.h"

enum {
	POLL_MS = 30000,
	LOOK_MS = 1000,
	THREADS = 2,
	CONNECTIONS = 4096,
	CONNECTIONS_OF_ONE = 512,
	CONNECTION_S = 60,
	STATUSES = 16,
	WISHES = 64, /* of tenants' administrators, that wait */
	WISHES_OF_ONE = 4,
	BODY_MAX = 4096
};

/* One request, from its first line until its answer has left. */
struct ask {
	struct MHD_Connection *connection;
	char volume[72];
	uint64_t after, until_ns;
	uint64_t brick;
	bool waits;	  /* `after` was given */
	bool listens;	  /* for allotments */
	bool names_brick; /* `brick` was */
	bool ripe;	  /* has waited long enough */
	bool asked;	  /* for what is told, which is this text, or NULL */
	bool of_metrics;  /* it is these, and not the status */
	char *told;
	char tenant[IDENTITY_NAME + 1]; /* by whose administrator it is asked; of these: */
	char *method, *url, *body;
	size_t body_size;
	bool body_too_long;
	unsigned status; /* of what is told */
	struct ask *next;
};

static struct {
	struct MHD_Daemon *daemon;
	char address[300];
	pthread_mutex_t lock; /* asks that are suspended, and stopping */
	struct ask *waiting;
	struct ask *asking;    /* for the status, or metrics */
	unsigned statuses;     /* that are asked for and not told yet */
	pthread_cond_t wanted; /* one is asked for, or stopping */
	struct ask *wish;      /* of administrators, in the order in which they came */
	pthread_cond_t wished;
	pthread_t notifier, teller, manager;
	bool notifying, telling, managing, stopping;
	struct tunnels *tunnels; /* NULL: in the clear */
	pthread_mutex_t peers_lock;
	char **peer; /* by descriptor: who it is */
	size_t peers;
} http = { .lock = PTHREAD_MUTEX_INITIALIZER,
	   .wanted = PTHREAD_COND_INITIALIZER,
	   .wished = PTHREAD_COND_INITIALIZER,
	   .peers_lock = PTHREAD_MUTEX_INITIALIZER };

const char *cluster_http_address(void)
{
	return http.address;
}

bool cluster_http_has_tls(void)
{
	return http.tunnels;
}

/* ---- answers ---- */

static enum MHD_Result answer(struct ask *a, unsigned status, const char *type, char *text, uint64_t version)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
	enum MHD_Result done;
	char number[24];

	if (!r) {
		free(text);
		return MHD_NO;
	}
	MHD_add_response_header(r, "Content-Type", type);
	MHD_add_response_header(r, "Cache-Control", "no-store");
	if (version) {
		snprintf(number, sizeof number, "%" PRIu64, version);
		MHD_add_response_header(r, "X-Stratus-Version", number);
	}
	if (status >= MHD_HTTP_BAD_REQUEST)
		MHD_add_response_header(r, SOURCE_SENTENCE_HEADER, "1");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(r, "Allow", "GET, HEAD");
	done = MHD_queue_response(a->connection, status, r);
	MHD_destroy_response(r);
	return done;
}

static enum MHD_Result refuse(struct ask *a, unsigned status, const char *sentence)
{
	return answer(a, status, "text/plain; charset=utf-8", path_format("%s\n", sentence), 0);
}

/* ---- the status, and metrics ---- */

/* A thread of its own finds it out: it waits for graphs that start and stop, and for disks, and mounts must not wait with it. */

static void write_metrics(FILE *to)
{
	json_t *certificates = cluster_certificates();

	metrics_write(cluster_each_graph, certificates, to);
	json_decref(certificates);
}

static char *text_of(void (*write)(FILE *))
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		return NULL;
	write(to);
	fclose(to);
	return text;
}

static bool wants(const struct ask *list, bool metrics)
{
	while (list && list->of_metrics != metrics)
		list = list->next;
	return list;
}

/* With the lock held. */
static void give(struct ask *list, const char *status, const char *metrics)
{
	while (list) {
		struct ask *a = list;
		const char *text = a->of_metrics ? metrics : status;

		list = a->next;
		a->told = text ? strdup(text) : NULL;
		http.statuses--;
		MHD_resume_connection(a->connection);
	}
}

static void *tell(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&http.lock);
	while (!http.stopping) {
		struct ask *list = http.asking;
		char *status, *metrics;

		if (!list) {
			pthread_cond_wait(&http.wanted, &http.lock);
			continue;
		}
		http.asking = NULL;
		pthread_mutex_unlock(&http.lock);
		status = wants(list, false) ? text_of(cluster_status) : NULL;
		metrics = wants(list, true) ? text_of(write_metrics) : NULL;
		pthread_mutex_lock(&http.lock);
		give(list, status, metrics);
		free(status);
		free(metrics);
	}
	give(http.asking, NULL, NULL);
	http.asking = NULL;
	pthread_mutex_unlock(&http.lock);
	return NULL;
}

static bool ask_status(struct ask *a)
{
	bool may;

	pthread_mutex_lock(&http.lock);
	may = !http.stopping && http.statuses < STATUSES;
	if (may) {
		a->asked = true;
		a->next = http.asking;
		http.asking = a;
		http.statuses++;
		MHD_suspend_connection(a->connection);
		pthread_cond_signal(&http.wanted);
	}
	pthread_mutex_unlock(&http.lock);
	return may;
}

static enum MHD_Result answer_told(struct ask *a, bool metrics)
{
	char *text;

	a->of_metrics = metrics;
	if (!a->asked && ask_status(a))
		return MHD_YES;
	text = a->told;
	a->told = NULL;
	return text ? answer(a, MHD_HTTP_OK, metrics ? METRICS_TYPE : "application/json", text, 0)
		    : refuse(a, MHD_HTTP_SERVICE_UNAVAILABLE,
			     "the status can't be told just now: others wait for it, perhaps for a disk that does not answer");
}

/* ---- what tenants' administrators ask for ---- */

/* A thread of its own does it, one after the other: it waits for the store, and neither mounts nor the status must wait with it. */
static void *manage(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&http.lock);
	while (!http.stopping) {
		struct ask *a = http.wish;

		if (!a) {
			pthread_cond_wait(&http.wished, &http.lock);
			continue;
		}
		http.wish = a->next;
		pthread_mutex_unlock(&http.lock);
		a->status = cluster_tenant_answer(a->tenant, a->method, a->url, a->body, &a->told);
		pthread_mutex_lock(&http.lock);
		MHD_resume_connection(a->connection);
	}
	for (struct ask *a = http.wish; a; a = a->next)
		MHD_resume_connection(a->connection);
	http.wish = NULL;
	pthread_mutex_unlock(&http.lock);
	return NULL;
}

/* With the lock held: where one more of that tenant is to stand, or NULL: there are too many. */
static struct ask **end_of_line(const char *tenant)
{
	struct ask **at = &http.wish;
	unsigned all = 0, own = 0;

	for (; *at; at = &(*at)->next) {
		all++;
		own += !strcmp((*at)->tenant, tenant);
	}
	return all < WISHES && own < WISHES_OF_ONE ? at : NULL;
}

static bool stand_in_line(struct ask *a)
{
	struct ask **end;

	pthread_mutex_lock(&http.lock);
	end = http.stopping ? NULL : end_of_line(a->tenant);
	if (end) {
		a->asked = true;
		a->next = NULL;
		*end = a;
		MHD_suspend_connection(a->connection);
		pthread_cond_signal(&http.wished);
	}
	pthread_mutex_unlock(&http.lock);
	return end;
}

static enum MHD_Result answer_administrator(struct ask *a, const struct identity *who, const char *method, const char *url)
{
	char *text = a->told;

	if (who->kind != IDENTITY_TENANT_ADMIN)
		return refuse(a, MHD_HTTP_FORBIDDEN,
			      "this is for a tenant's administrator: show a certificate of stratus:tenant/NAME/admin");
	if (a->body_too_long)
		return refuse(a, MHD_HTTP_CONTENT_TOO_LARGE, "that is longer than anything that can be asked for");
	if (!a->asked) {
		snprintf(a->tenant, sizeof a->tenant, "%s", who->name);
		a->method = strdup(method);
		a->url = strdup(url);
		if (a->method && a->url && stand_in_line(a))
			return MHD_YES;
	}
	a->told = NULL;
	if (!text)
		return refuse(a, MHD_HTTP_SERVICE_UNAVAILABLE, "too much is asked for just now: try again in a while");
	return answer(a, a->status, a->status < 400 ? "application/json" : "text/plain; charset=utf-8", text, 0);
}

/* ---- volfiles ---- */

/* The volume is there, and no later than the asker has it. */
static bool nothing_new(const struct ask *a)
{
	const struct spec *s;
	struct problem ignored = { "" };
	uint64_t version;
	int err;

	if (a->listens)
		return allotments_news() == a->after;
	err = cluster_spec(a->volume, &s, &version, &ignored);
	cluster_spec_release(s);
	return !err && version <= a->after;
}

/* By the certificate; nobody: it has none, or there is no TLS. (The tunnels refuse those that make no sense.) */
static struct identity identity_of(struct MHD_Connection *c)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct identity who = { IDENTITY_NOBODY, "", "" };

	if (!http.tunnels || !info)
		return who;
	pthread_mutex_lock(&http.peers_lock);
	if ((size_t)info->connect_fd < http.peers)
		identity_parse(http.peer[info->connect_fd], &who);
	pthread_mutex_unlock(&http.peers_lock);
	return who;
}

/* At which brick the client has all that he may see, if his access point says that. */
static bool has_one_brick(const struct identity *who, const struct spec *s, struct word_limit *limit)
{
	const struct spec_tenant *t = who->kind == IDENTITY_ACCESS ? spec_tenant_find(s, who->name) : NULL;
	const struct spec_access *a;
	struct gfid id;

	if (!t || gfid_parse(who->access, &id))
		return false;
	a = spec_access_find(t, &id);
	return a && word_is_limit(a->directory, limit);
}

static void client_text(const struct ask *a, const struct spec *s, char **text, struct problem *p)
{
	struct identity who = identity_of(a->connection);
	struct word_limit limit;

	if (!has_one_brick(&who, s, &limit) && who.kind == IDENTITY_ACCESS && spec_is_spread(s))
		problem_set(p, EACCES, "there is no such access point of volume %s any more", s->volume);
	else if (!has_one_brick(&who, s, &limit))
		cluster_spec_client(s, text, p);
	else if (!spec_has_subvolume(s, limit.brick))
		problem_set(p, ENOENT,
			    "the brick where the access point's directory was has left volume %s: ask for another access point",
			    s->volume);
	else
		volgen_one_brick(s, limit.brick, text, p);
}

static enum MHD_Result answer_spec(struct ask *a, const struct spec *s, uint64_t version)
{
	struct problem p = { "" };
	char *text = NULL;

	if (s->stopped)
		problem_set(&p, EAGAIN, "volume %s is stopped: `stratus volume start %s` starts it", s->volume, s->volume);
	else if (a->names_brick &&
		 s->bricks > 1) /* by a client of a version in which bricks without replicas were mounted one by one */
		problem_set(&p, EINVAL, "volume %s is mounted as a whole, as SERVER:/%s", s->volume, s->volume);
	else
		client_text(a, s, &text, &p);
	return text ? answer(a, MHD_HTTP_OK, "text/plain; charset=utf-8", text, version) : refuse(a, MHD_HTTP_CONFLICT, p.text);
}

static enum MHD_Result answer_client(struct ask *a)
{
	struct problem p = { "" };
	const struct spec *s;
	uint64_t version;
	enum MHD_Result done;
	int err = cluster_spec(a->volume, &s, &version, &p);

	if (err)
		done = refuse(a, err == -ENOENT ? MHD_HTTP_NOT_FOUND : MHD_HTTP_INTERNAL_SERVER_ERROR, p.text);
	else if (a->waits && version <= a->after)
		done = answer(a, MHD_HTTP_NOT_MODIFIED, "text/plain; charset=utf-8", path_format("%s", ""), version);
	else
		done = answer_spec(a, s, version);
	cluster_spec_release(s);
	return done;
}

/* ---- waiting ---- */

/* False: it needs no waiting. The connection is suspended under the lock, so it can't be woken before. */
static bool park(struct ask *a)
{
	pthread_mutex_lock(&http.lock);
	if (a->ripe || http.stopping || !nothing_new(a)) {
		pthread_mutex_unlock(&http.lock);
		return false;
	}
	a->until_ns = clock_ns() + POLL_MS * 1000000ull;
	a->next = http.waiting;
	http.waiting = a;
	MHD_suspend_connection(a->connection);
	pthread_mutex_unlock(&http.lock);
	return true;
}

static void wake_ripe(bool all)
{
	uint64_t now = clock_ns();

	pthread_mutex_lock(&http.lock);
	for (struct ask **at = &http.waiting; *at;) {
		struct ask *a = *at;

		if (!all && now < a->until_ns && nothing_new(a)) {
			at = &a->next;
			continue;
		}
		*at = a->next;
		a->ripe = true;
		MHD_resume_connection(a->connection);
	}
	pthread_mutex_unlock(&http.lock);
}

void cluster_http_wake_listeners(void)
{
	pthread_mutex_lock(&http.lock);
	for (struct ask **at = &http.waiting; *at;) {
		struct ask *a = *at;

		if (!a->listens || nothing_new(a)) {
			at = &a->next;
			continue;
		}
		*at = a->next;
		a->ripe = true;
		MHD_resume_connection(a->connection);
	}
	pthread_mutex_unlock(&http.lock);
}

static void *notify(void *arg)
{
	uint64_t index = 0;
	bool stopping = false;

	(void)arg;
	while (!stopping) {
		index = store_wait(cluster_store(), index, LOOK_MS);
		pthread_mutex_lock(&http.lock);
		stopping = http.stopping;
		pthread_mutex_unlock(&http.lock);
		wake_ripe(stopping);
	}
	return NULL;
}

/* ---- requests ---- */

/* "/v1/volume/NAME/client": NAME into the request. */
static bool is_client(const char *url, struct ask *a)
{
	static const char begin[] = "/v1/volume/";
	size_t length;

	if (strncmp(url, begin, strlen(begin)))
		return false;
	url += strlen(begin);
	length = strcspn(url, "/");
	if (!length || length >= sizeof a->volume || strcmp(url + length, "/client"))
		return false;
	memcpy(a->volume, url, length);
	a->volume[length] = '\0';
	return true;
}

/* False: it is given, and no number. */
static bool take_number(struct MHD_Connection *c, const char *name, bool *given, uint64_t *number)
{
	const char *text = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, name);

	*given = text != NULL;
	*number = text ? strtoull(text, NULL, 10) : 0;
	return !text || (*text && strlen(text) < 20 && !text[strspn(text, "0123456789")]);
}

/* It names all volumes, bricks and servers. */
static bool may_see_status(struct MHD_Connection *c)
{
	enum identity_kind kind = identity_of(c).kind;

	return !http.tunnels || kind == IDENTITY_ADMIN || kind == IDENTITY_SERVER;
}

static bool has_access(const struct spec_tenant *t, const struct identity *who)
{
	const struct spec_access *a;
	struct gfid id;

	if (gfid_parse(who->access, &id))
		return false;
	a = spec_access_find(t, &id);
	return a && !spec_access_has_expired(a, (uint64_t)time(NULL));
}

/* Tenants may of the volumes that have them. Of others they don't learn whether there are any. */
static bool may_see_volume(struct MHD_Connection *c, const char *volume)
{
	struct identity who = identity_of(c);
	const struct spec_tenant *t = NULL;
	struct problem ignored = { "" };
	const struct spec *s;
	uint64_t version;
	bool may;

	if (!identity_is_tenants(&who))
		return true;
	if (!cluster_spec(volume, &s, &version, &ignored))
		t = spec_tenant_find(s, who.name);
	may = t && t->state != SPEC_TENANT_DELETED && (who.kind != IDENTITY_ACCESS || has_access(t, &who));
	cluster_spec_release(s);
	return may;
}

static bool is_allotments(const char *url)
{
	return !strcmp(url, "/v1/allotments");
}

static enum MHD_Result answer_listener(struct ask *a)
{
	uint64_t news;

	a->listens = true;
	if (!take_number(a->connection, "after", &a->waits, &a->after) || !a->waits)
		return refuse(a, MHD_HTTP_BAD_REQUEST, "'after' is a decimal number: what was heard last, or 0");
	if (a->after && park(a))
		return MHD_YES;
	news = allotments_news();
	return news ? answer(a, MHD_HTTP_OK, "application/json", path_format("{\"news\": %" PRIu64 "}\n", news), 0)
		    : refuse(a, MHD_HTTP_SERVICE_UNAVAILABLE, "another server leads, or none");
}

static enum MHD_Result answer_server(struct ask *a, const struct identity *who, const char *method)
{
	char *text;
	bool bad;

	if (who->kind != IDENTITY_SERVER)
		return refuse(a, MHD_HTTP_FORBIDDEN, "this is between servers: show a certificate of stratus:server");
	if (!strcmp(method, "GET"))
		return answer_listener(a);
	if (strcmp(method, "POST"))
		return refuse(a, MHD_HTTP_METHOD_NOT_ALLOWED, "allotments are asked for by POST, and listened for by GET");
	if (a->body_too_long)
		return refuse(a, MHD_HTTP_CONTENT_TOO_LARGE, "that is longer than anything that can be said of allotments");
	text = allotments_answer(a->body ? a->body : "", &bad);
	if (bad)
		return refuse(a, MHD_HTTP_BAD_REQUEST, "that says nothing of allotments");
	return text ? answer(a, MHD_HTTP_OK, "application/json", text, 0)
		    : refuse(a, MHD_HTTP_SERVICE_UNAVAILABLE, "another server leads, or none");
}

static void take_body(struct ask *a, const char *upload, size_t size, size_t max)
{
	char *grown = a->body_size + size > max ? NULL : realloc(a->body, a->body_size + size + 1);

	if (!grown) {
		a->body_too_long = true;
		return;
	}
	memcpy(grown + a->body_size, upload, size);
	a->body = grown;
	a->body_size += size;
	a->body[a->body_size] = '\0';
}

static enum MHD_Result handle(void *arg, struct MHD_Connection *c, const char *url, const char *method, const char *version,
			      const char *upload, size_t *upload_size, void **state)
{
	struct ask *a = *state;
	struct identity who;

	(void)arg, (void)version;
	if (!a) { /* the header is there */
		*state = a = calloc(1, sizeof *a);
		if (a)
			a->connection = c;
		return a ? MHD_YES : MHD_NO;
	}
	who = identity_of(c);
	if (*upload_size) {
		if (who.kind == IDENTITY_TENANT_ADMIN) /* others but servers are asked for none */
			take_body(a, upload, *upload_size, BODY_MAX);
		else if (who.kind == IDENTITY_SERVER && is_allotments(url))
			take_body(a, upload, *upload_size, ALLOTMENTS_SAID_MAX);
		*upload_size = 0;
		return MHD_YES;
	}
	if (is_allotments(url))
		return answer_server(a, &who, method);
	if (cluster_tenant_has(url))
		return answer_administrator(a, &who, method, url);
	if (strcmp(method, "GET") && strcmp(method, "HEAD"))
		return refuse(a, MHD_HTTP_METHOD_NOT_ALLOWED, "this service only reads: use the command stratus on a server");
	if (!strcmp(url, "/v1/status") || !strcmp(url, "/metrics"))
		return may_see_status(c)
			       ? answer_told(a, !strcmp(url, "/metrics"))
			       : refuse(a, MHD_HTTP_FORBIDDEN,
					"the status is for administrators and servers: show a certificate of stratus:admin");
	if (!is_client(url, a))
		return refuse(a, MHD_HTTP_NOT_FOUND, "there are /v1/status, /metrics and /v1/volume/NAME/client");
	if (!may_see_volume(c, a->volume))
		return refuse(
			a, MHD_HTTP_FORBIDDEN,
			"a tenant's certificate is good for the volumes that have this tenant, and no others: check the name of the volume");
	if (!take_number(c, "after", &a->waits, &a->after) || !take_number(c, "brick", &a->names_brick, &a->brick))
		return refuse(a, MHD_HTTP_BAD_REQUEST, "'after' and 'brick' are decimal numbers");
	return a->waits && park(a) ? MHD_YES : answer_client(a);
}

static void completed(void *arg, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode code)
{
	struct ask *a = *state;

	(void)arg, (void)c, (void)code;
	if (a) {
		free(a->told);
		free(a->method);
		free(a->url);
		free(a->body);
	}
	free(a); /* nobody waits with it: a suspended connection is not completed */
	*state = NULL;
}

/* ---- TLS ---- */

/* libmicrohttpd's own TLS is GnuTLS, which would judge certificates in its own way, and could not read the files again; so it gets the plain ends
 * of tunnels. A descriptor is known here before the daemon has it. */
static bool note_peer(int fd, const char *identity)
{
	char *copy = strdup(identity), **grown = http.peer;

	pthread_mutex_lock(&http.peers_lock);
	if ((size_t)fd >= http.peers && copy) {
		grown = realloc(http.peer, ((size_t)fd + 1) * sizeof *grown);
		if (grown) {
			memset(grown + http.peers, 0, ((size_t)fd + 1 - http.peers) * sizeof *grown);
			http.peer = grown;
			http.peers = (size_t)fd + 1;
		}
	}
	if (copy && grown) {
		free(http.peer[fd]);
		http.peer[fd] = copy;
	}
	pthread_mutex_unlock(&http.peers_lock);
	if (!grown)
		free(copy);
	return copy && grown;
}

static void accepted(void *arg, int fd, const struct tunnel_peer *peer)
{
	(void)arg;
	if (!note_peer(fd, peer->identity))
		close(fd);
	else
		MHD_add_connection(http.daemon, fd, (const struct sockaddr *)&peer->address, peer->size);
}

/* ---- start and stop ---- */

static int listen_on(const struct addrinfo *a)
{
	int one = 1, zero = 0, err, fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (a->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
	if (!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, 256))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* "ADDRESS:PORT", "[ADDRESS]:PORT"; "" in place of ADDRESS: all. */
static int make_listener(const char *address, struct problem *p)
{
	cleanup_path char *copy = path_format("%s", address);
	char *colon = strrchr(copy, ':'), *host = copy;
	struct addrinfo hints = { .ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM }, *list;
	int fd, err;

	if (!colon)
		return problem_set(p, EINVAL, "'%s' is no address to listen on: write ADDRESS:PORT", address);
	*colon = '\0';
	if (*host == '[' && colon > host && colon[-1] == ']') {
		host++;
		colon[-1] = '\0';
	}
	err = getaddrinfo(*host ? host : NULL, colon + 1, &hints, &list);
	if (err)
		return problem_set(p, EINVAL, "'%s' is no address to listen on: %s", address, gai_strerror(err));
	fd = listen_on(list);
	for (struct addrinfo *a = list->ai_next; a && fd < 0; a = a->ai_next)
		fd = listen_on(a);
	freeaddrinfo(list);
	return fd < 0 ? problem_set(p, -fd, "can't listen on %s: %s; stop what listens there, or name another with --listen",
				    address, strerror(-fd))
		      : fd;
}

/* Of the descriptors that this process may have, at most a quarter: the others are the bricks'. A tunnel has three. */
static unsigned connection_limit(void)
{
	rlim_t share = http.tunnels ? 12 : 4;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / share > CONNECTIONS)
		return CONNECTIONS;
	return (unsigned)(limit.rlim_cur / share);
}

static struct MHD_Daemon *start_daemon(int fd)
{
	unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;

	return MHD_start_daemon(flags | (fd < 0 ? MHD_USE_NO_LISTEN_SOCKET : 0), 0, NULL, NULL, handle, NULL,
				MHD_OPTION_THREAD_POOL_SIZE, THREADS, MHD_OPTION_CONNECTION_LIMIT, connection_limit(),
				MHD_OPTION_PER_IP_CONNECTION_LIMIT, CONNECTIONS_OF_ONE, MHD_OPTION_CONNECTION_TIMEOUT,
				CONNECTION_S, MHD_OPTION_NOTIFY_COMPLETED, completed, NULL,
				fd < 0 ? MHD_OPTION_END : MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_END);
}

/* Takes the descriptor. */
static int start_service(int fd, const struct tls_files *tls, struct problem *p)
{
	if (tls && !(http.tunnels = tunnels_create(tls, p))) {
		close(fd);
		return -EINVAL;
	}
	http.daemon = start_daemon(tls ? -1 : fd);
	if (!http.daemon) {
		close(fd);
		return problem_set(p, EAGAIN,
				   "the volfile service can't start: the limit of processes or open files is reached");
	}
	if (tls) {
		fcntl(fd, F_SETFL, O_NONBLOCK);
		tunnels_listen(http.tunnels, fd, accepted, NULL);
	}
	return 0;
}

int cluster_http_start(const char *address, const struct tls_files *tls, struct problem *p)
{
	int fd, err;

	if (address)
		snprintf(http.address, sizeof http.address, "%s", address);
	else
		snprintf(http.address, sizeof http.address, "[::]:%d", CLUSTER_PORT);
	fd = make_listener(http.address, p);
	if (fd < 0 && !address) { /* a kernel without IPv6 */
		snprintf(http.address, sizeof http.address, "0.0.0.0:%d", CLUSTER_PORT);
		*p = (struct problem){ "" };
		fd = make_listener(http.address, p);
	}
	if (fd < 0)
		return fd;
	http.stopping = false;
	err = start_service(fd, tls, p);
	if (err)
		return err;
	http.notifying = !pthread_create(&http.notifier, NULL, notify, NULL);
	http.telling = !pthread_create(&http.teller, NULL, tell, NULL);
	http.managing = !pthread_create(&http.manager, NULL, manage, NULL);
	if (http.notifying && http.telling && http.managing)
		return 0;
	cluster_http_stop();
	return problem_set(p, EAGAIN, "no thread for the volfile service: the process limit is reached");
}

void cluster_http_stop(void)
{
	pthread_mutex_lock(&http.lock);
	http.stopping = true;
	pthread_cond_signal(&http.wanted);
	pthread_cond_signal(&http.wished);
	pthread_mutex_unlock(&http.lock);
	if (http.managing) {
		pthread_join(http.manager, NULL);
		http.managing = false;
		cluster_tenant_finish();
	}
	if (http.telling) {
		pthread_join(http.teller, NULL);
		http.telling = false;
	}
	if (http.notifying) { /* the caller has called store_wake() */
		pthread_join(http.notifier, NULL);
		http.notifying = false;
	}
	tunnels_destroy(http.tunnels); /* before the daemon that they give connections to */
	http.tunnels = NULL;
	if (http.daemon)
		MHD_stop_daemon(http.daemon);
	http.daemon = NULL;
	for (size_t i = 0; i < http.peers; i++)
		free(http.peer[i]);
	free(http.peer);
	http.peer = NULL;
	http.peers = 0;
}
