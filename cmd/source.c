/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches volfiles by HTTP (cmd/cluster-http.c serves them). */
#include "source.h"

#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "graph.h"
#include "log.h"
#include "path.h"
#include "tls-dir.h"

enum { SERVERS = 64, PORT = 24006, CONNECT_S = 5, ANSWER_S = 15, POLL_S = 45, TEXT_MAX = 1 << 20, SENTENCE_MAX = 512 };

struct source {
	char *server[SERVERS]; /* "host:port" */
	size_t servers, last;  /* the one that answered */
	char *volume;
	struct tls_dir tls; /* all NULL: in the clear */
	CURLM *multi;
	atomic_bool cancelled;
};

/* ---- names ---- */

bool source_is_one(const char *text)
{
	return *text != '/' && *text != '.' && *text != ':' && strstr(text, ":/");
}

/* The end of the host in "HOST", "HOST:PORT", "[ADDRESS]:PORT". */
static char *host_end(char *server)
{
	char *bracket = *server == '[' ? strchr(server, ']') : NULL;

	return bracket ? bracket + 1 : server + strcspn(server, ":");
}

static int check_server(char *server, struct problem *p)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.[]:%";
	char *end = host_end(server);
	unsigned long port = *end == ':' ? strtoul(end + 1, &end, 10) : PORT;

	if (end == server || *end || port < 1 || port > 65535 || strspn(server, fine) != strlen(server))
		return problem_set(p, EINVAL, "'%s' is no server: write HOST or HOST:PORT", server);
	return 0;
}

/* A server without a port has that of the next one that has one. */
static void give_ports(struct source *s)
{
	char *port = path_format("%d", PORT);

	for (size_t i = s->servers; i-- > 0;) {
		char *end = host_end(s->server[i]), *whole;

		if (*end == ':') {
			free(port);
			port = path_format("%s", end + 1);
			continue;
		}
		whole = path_format("%s:%s", s->server[i], port);
		free(s->server[i]);
		s->server[i] = whole;
	}
	free(port);
}

static int take_servers(struct source *s, char *list, struct problem *p)
{
	char *save;
	int err = 0;

	for (char *one = strtok_r(list, ",", &save); one && !err; one = strtok_r(NULL, ",", &save)) {
		if (s->servers == SERVERS)
			return problem_set(p, EINVAL, "more than %d servers", SERVERS);
		err = check_server(one, p);
		s->server[s->servers++] = path_format("%s", one);
	}
	if (!err && !s->servers)
		return problem_set(p, EINVAL, "no server is named: write SERVER:/VOLUME");
	give_ports(s);
	return err;
}

static int take_volume(struct source *s, const char *text, struct problem *p)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	size_t length = strspn(text, fine);

	s->volume = path_format("%.*s", (int)length, text);
	return length && length <= 64 && !text[length]
		       ? 0
		       : problem_set(p, EINVAL, "'/%s' is no volume: write SERVER:/VOLUME", text);
}

int source_create(const char *text, struct source **made, struct problem *p)
{
	cleanup_path char *copy = path_format("%s", text);
	char *at = strstr(copy, ":/");
	struct source *s = calloc(1, sizeof *s);
	int err = s ? 0 : -ENOMEM;

	if (!err)
		err = take_volume(s, at + 2, p);
	*at = '\0';
	if (!err)
		err = take_servers(s, copy, p);
	if (!err && tls_dir_wanted())
		err = tls_dir_open(tls_dir_wanted(), &s->tls, p);
	if (!err && (curl_global_init(CURL_GLOBAL_DEFAULT) || !(s->multi = curl_multi_init())))
		err = problem_set(p, ENOMEM, "libcurl can't be set up");
	if (err)
		source_destroy(s);
	else
		*made = s;
	return err;
}

void source_destroy(struct source *s)
{
	if (!s)
		return;
	curl_multi_cleanup(s->multi);
	tls_dir_free(&s->tls);
	for (size_t i = 0; i < s->servers; i++)
		free(s->server[i]);
	free(s->volume);
	free(s);
}

void source_cancel(struct source *s)
{
	atomic_store(&s->cancelled, true);
	curl_multi_wakeup(s->multi);
}

int source_rest(struct source *s, unsigned seconds)
{
	for (unsigned i = 0; i < seconds && !atomic_load(&s->cancelled); i++)
		curl_multi_poll(s->multi, NULL, 0, 1000, NULL);
	return atomic_load(&s->cancelled) ? -ECANCELED : 0;
}

/* ---- one request ---- */

struct answer {
	FILE *to;
	size_t size;
	uint64_t version;
};

static size_t take_body(char *bytes, size_t one, size_t count, void *arg)
{
	struct answer *a = arg;

	a->size += one * count;
	return a->size > TEXT_MAX ? 0 : fwrite(bytes, one, count, a->to);
}

static size_t take_header(char *line, size_t one, size_t count, void *arg)
{
	static const char name[] = "X-Stratus-Version:";
	struct answer *a = arg;
	char text[64];

	snprintf(text, sizeof text, "%.*s", (int)(one * count), line);
	if (!strncasecmp(text, name, strlen(name)))
		a->version = strtoull(text + strlen(name), NULL, 10);
	return one * count;
}

/* Until it is done, or cancelled. */
static CURLcode perform(struct source *s, CURL *easy)
{
	CURLcode code = CURLE_ABORTED_BY_CALLBACK;
	CURLMsg *message;
	int running = 1, left;

	if (curl_multi_add_handle(s->multi, easy))
		return CURLE_OUT_OF_MEMORY;
	while (running && !atomic_load(&s->cancelled)) {
		if (curl_multi_perform(s->multi, &running))
			break;
		if (running)
			curl_multi_poll(s->multi, NULL, 0, 1000, NULL);
	}
	while ((message = curl_multi_info_read(s->multi, &left)))
		if (message->msg == CURLMSG_DONE)
			code = message->data.result;
	curl_multi_remove_handle(s->multi, easy);
	return code;
}

/* The files are read for each connection. */
void source_set_tls(void *easy, const struct tls_dir *tls)
{
	curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_3);
	curl_easy_setopt(easy, CURLOPT_SSLCERT, tls->certificate);
	curl_easy_setopt(easy, CURLOPT_SSLKEY, tls->key);
	curl_easy_setopt(easy, CURLOPT_CAINFO, tls->authorities);
	curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	if (!access(tls->revoked, F_OK)) /* there may be none yet */
		curl_easy_setopt(easy, CURLOPT_CRLFILE, tls->revoked);
}

static void set_options(CURL *easy, const char *url, bool polls, char *reason, struct answer *a)
{
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* these are our own servers */
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)(polls ? POLL_S : ANSWER_S));
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, reason);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, a);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, a);
}

/* ---- what is no answer ---- */

/* Another program, or one in between, says what it likes, to whomever. */
static bool is_stratusds(CURL *easy)
{
	struct curl_header *header;

	return !curl_easy_header(easy, SOURCE_SENTENCE_HEADER, 0, CURLH_HEADER, -1, &header);
}

char *source_sentence(void *easy, char *body, size_t size)
{
	if (!body || size > SENTENCE_MAX || !is_stratusds(easy))
		return NULL;
	body[strcspn(body, "\n")] = '\0';
	for (char *at = body; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	return *body ? body : NULL;
}

int source_is_strange(const char *server, long status, struct problem *p)
{
	return problem_set(
		p, ENOTCONN,
		"what listens at %s is no stratusd, or an older one that refuses (HTTP status %ld): name the port of its "
		"--listen, or look into the log there",
		server, status);
}

/* What libcurl says of an alert has numbers and names of OpenSSL's in it. */
bool source_is_refused(const struct tls_dir *tls, const char *server, const char *reason, struct problem *p)
{
	static const char *const alerts[] = { "certificate revoked", "certificate expired", "unknown ca", "bad certificate" };
	const char *said = strstr(reason, "alert ");

	for (size_t i = 0; said && i < sizeof alerts / sizeof *alerts; i++)
		if (strstr(said, alerts[i])) {
			problem_set(p, EACCES, "%s refuses the certificate %s (alert %s): have another one issued", server,
				    tls->certificate, alerts[i]);
			return true;
		}
	return false;
}

void source_keep(struct problem *kept, const struct problem *one)
{
	if (one->text[0] && kept->error != EACCES)
		*kept = *one;
}

static int no_answer(const struct source *s, const char *server, const char *reason, struct problem *p)
{
	if (s->tls.key && source_is_refused(&s->tls, server, reason, p))
		return -ENOTCONN;
	return problem_set(p, ENOTCONN, "no answer from %s: %s; does stratusd run there with --state%s?", server, reason,
			   s->tls.key ? ", and with --tls-dir" : ", and without --tls-dir (if with it, name yours)");
}

/* What the server has said: -ENOTCONN if it is no answer, so that another may be asked. So is what one says that has not heard yet
 * what another has told us. */
static int judge(CURL *easy, const char *server, uint64_t after, const struct answer *a, char *text, struct problem *p)
{
	const char *sentence;
	long status = 0;

	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	if (a->version && a->version < after)
		return problem_set(p, ENOTCONN, "%s lags behind: it has version %" PRIu64 ", and %" PRIu64 " is known", server,
				   a->version, after);
	if (status == 200 && a->version)
		return 0;
	if (status == 304)
		return -EAGAIN;
	sentence = status >= 400 ? source_sentence(easy, text, a->size) : NULL;
	if (!sentence)
		return source_is_strange(server, status, p);
	problem_set(p, EACCES, "%s says: %s", server, sentence);
	return status == 409 ? -EBUSY : status == 404 && !after ? -ENOENT : -ENOTCONN;
}

static char *path_of(const struct source *s, const char *server, uint64_t after)
{
	cleanup_path char *wait = after ? path_format("?after=%" PRIu64, after) : path_format("%s", "");

	return path_format("%s://%s/v1/volume/%s/client%s", s->tls.key ? "https" : "http", server, s->volume, wait);
}

static int ask(struct source *s, const char *server, uint64_t after, char **text, uint64_t *version, struct problem *p)
{
	cleanup_path char *url = path_of(s, server, after);
	char reason[CURL_ERROR_SIZE] = "";
	struct answer a = { 0 };
	CURL *easy = curl_easy_init();
	CURLcode code;
	size_t size;
	int err;

	*text = NULL;
	a.to = easy ? open_memstream(text, &size) : NULL;
	if (!a.to) {
		curl_easy_cleanup(easy);
		return -ENOMEM;
	}
	set_options(easy, url, after != 0, reason, &a);
	if (s->tls.key)
		source_set_tls(easy, &s->tls);
	code = perform(s, easy);
	fclose(a.to);
	if (atomic_load(&s->cancelled))
		err = -ECANCELED;
	else if (code)
		err = no_answer(s, server, *reason ? reason : curl_easy_strerror(code), p);
	else
		err = judge(easy, server, after, &a, *text, p);
	curl_easy_cleanup(easy);
	*version = a.version;
	if (err) {
		free(*text);
		*text = NULL;
	}
	return err;
}

int source_fetch(struct source *s, uint64_t after, char **text, uint64_t *version, struct problem *p)
{
	struct problem kept = { "" };
	int err = -ENOTCONN;

	for (size_t i = 0; i < s->servers && err == -ENOTCONN; i++) {
		struct problem one = { "" };
		size_t which = (s->last + i) % s->servers;

		err = ask(s, s->server[which], after, text, version, &one);
		if (err == -ENOTCONN) {
			source_keep(&kept, &one);
		} else {
			s->last = which;
			kept = one;
		}
	}
	return kept.text[0] ? problem_set(p, -err, "%s", kept.text) : err;
}

/* ---- what came ---- */

int source_check(const struct volfile *v, struct problem *p)
{
	static const char *const types[] = { "storage/", "protocol/server", "cluster/coordinator", "features/replica" };
	static const char *const options[] = { "file",	      "port-file", "state-dir", "state-file",
					       "secret-file", "directory", "ledger",	"record" };

	for (size_t i = 0; i < v->volumes; i++) {
		const struct volfile_volume *volume = &v->volume[i];

		for (size_t k = 0; k < sizeof types / sizeof *types; k++)
			if (!strncmp(volume->type, types[k], strlen(types[k])))
				return problem_set(p, EPERM,
						   "%s: the servers' volfile has a volume of type %s, which a mount takes only "
						   "from a file",
						   v->path, volume->type);
		if (!strcmp(volume->type, "mount/fuse") && i + 1 < v->volumes)
			return problem_set(
				p, EPERM,
				"%s: the servers' volfile has a second mount, %s, which a mount takes only from a file",
				v->path, volume->name);
		for (size_t o = 0; o < volume->options; o++)
			for (size_t k = 0; k < sizeof options / sizeof *options; k++)
				if (!strcmp(volume->option[o].name, options[k]))
					return problem_set(
						p, EPERM,
						"%s: the servers' volfile gives %s the option %s, which a mount takes "
						"only from a file",
						v->path, volume->name, options[k]);
	}
	return 0;
}
