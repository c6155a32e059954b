/* SPDX-License-Identifier: Apache-2.0 */
/* See remote.h. */
#include "remote.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "identity.h"
#include "log.h"
#include "path.h"
#include "source.h"
#include "tls-dir.h"

enum { PORT = 24006, CONNECT_S = 5, ANSWER_S = 60, TEXT_MAX = 4 << 20, KEY_SERVER = 3000, KEY_TLS };

/* ---- options ---- */

static error_t option(int key, char *value, struct argp_state *state)
{
	struct remote *r = state->input;

	switch (key) {
	case KEY_SERVER:
		r->servers = value;
		return 0;
	case KEY_TLS:
		tls_dir_use(value);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ "server", KEY_SERVER, "HOST[:PORT][,HOST...]", 0,
	  "Ask the stratusd of these servers over the network, as the tenant's administrator", 0 },
	{ "tls-dir", KEY_TLS, "DIR", 0,
	  "With --server: whose certificate is cert.pem in this directory, with key.pem, ca.pem and crl.pem (or STRATUS_TLS_DIR)",
	  0 },
	{ 0 },
};
const struct argp remote_argp = { options, option, NULL, NULL, NULL, NULL, NULL };

char *remote_path(const char *volume, const char *tenant, const char *more, struct problem *p)
{
	const char *wrong = !identity_is_name(volume, strlen(volume))	? volume
			    : !identity_is_name(tenant, strlen(tenant)) ? tenant
									: NULL;

	if (!wrong)
		return path_format("/v1/volume/%s/tenant/%s%s", volume, tenant, more);
	problem_set(p, EINVAL, "'%.80s' is no name", wrong);
	return NULL;
}

/* ---- one request ---- */

struct text {
	char *bytes;
	size_t size;
};

static size_t take(char *bytes, size_t one, size_t count, void *arg)
{
	struct text *t = arg;
	size_t size = one * count;
	char *grown = t->size + size > TEXT_MAX ? NULL : realloc(t->bytes, t->size + size + 1);

	if (!grown)
		return 0;
	memcpy(grown + t->size, bytes, size);
	t->bytes = grown;
	t->size += size;
	t->bytes[t->size] = '\0';
	return size;
}

static void set_options(CURL *easy, const char *url, const char *method, const char *body, char *reason, struct text *t)
{
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https");
	curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* these are our own servers */
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)ANSWER_S);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, reason);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
	if (body)
		curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, body);
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
}

/* -ENOTCONN: another server may know more. */
static int judge(CURL *easy, const char *server, struct text *t, json_t **answer, struct problem *p)
{
	const char *sentence;
	long status = 0;

	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	if (status < 300) {
		*answer = t->bytes ? json_loads(t->bytes, JSON_DECODE_ANY, NULL) : NULL;
		return *answer ? 0
			       : problem_set(p, EPROTO,
					     "%s has answered something else than JSON: it may be of another version", server);
	}
	sentence = status >= 400 ? source_sentence(easy, t->bytes, t->size) : NULL;
	if (!sentence)
		return source_is_strange(server, status, p);
	problem_set(p, EACCES, "%s says: %s", server, sentence);
	return status == 503 ? -ENOTCONN : status == 404 ? -ENOENT : status == 403 ? -EACCES : -EINVAL;
}

static int no_answer(const struct tls_dir *tls, const char *server, const char *reason, struct problem *p)
{
	if (source_is_refused(tls, server, reason, p))
		return -ENOTCONN;
	return problem_set(p, ENOTCONN, "no answer from %s: %s; does stratusd run there with --state and --tls-dir?", server,
			   reason);
}

static int ask_one(const char *server, const char *method, const char *path, const char *body, json_t **answer,
		   struct problem *p)
{
	bool has_port = strchr(*server == '[' ? strchr(server, ']') ?: server : server, ':');
	cleanup_path char *url =
		has_port ? path_format("https://%s%s", server, path) : path_format("https://%s:%d%s", server, PORT, path);
	char reason[CURL_ERROR_SIZE] = "";
	struct text t = { NULL, 0 };
	struct tls_dir tls;
	CURL *easy;
	CURLcode code;
	int err;

	err = tls_dir_open(tls_dir_wanted(), &tls, p);
	if (err)
		return err;
	easy = curl_easy_init();
	if (!easy) {
		tls_dir_free(&tls);
		return -ENOMEM;
	}
	set_options(easy, url, method, body, reason, &t);
	source_set_tls(easy, &tls);
	code = curl_easy_perform(easy);
	err = code ? no_answer(&tls, server, *reason ? reason : curl_easy_strerror(code), p)
		   : judge(easy, server, &t, answer, p);
	curl_easy_cleanup(easy);
	tls_dir_free(&tls);
	free(t.bytes);
	return err;
}

/* ---- several servers ---- */

static int check(const struct remote *r, struct problem *p)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.[]:,";

	if (!tls_dir_wanted())
		return problem_set(p, EINVAL,
				   "--server needs a certificate: say where with --tls-dir DIR (or STRATUS_TLS_DIR)");
	if (!*r->servers || strspn(r->servers, fine) != strlen(r->servers))
		return problem_set(p, EINVAL, "'%.200s' are no servers: write HOST or HOST:PORT, commas between several",
				   r->servers);
	return 0;
}

int remote_ask(const struct remote *r, const char *method, const char *path, const json_t *body, json_t **answer,
	       struct problem *p)
{
	cleanup_path char *list = path_format("%s", r->servers);
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL, *rest = list, *one;
	struct problem kept = { "" };
	int err = check(r, p);

	*answer = NULL;
	if (!err)
		err = -ENOTCONN;
	while (err == -ENOTCONN && (one = strsep(&rest, ","))) {
		struct problem now = { "" };

		if (!*one)
			continue;
		err = ask_one(one, method, path, text, answer, &now);
		if (err == -ENOTCONN)
			source_keep(&kept, &now);
		else
			kept = now;
	}
	free(text);
	return err ? problem_set(p, -err, "%s", kept.text[0] ? kept.text : "no server answers") : 0;
}

int remote_collect(const struct remote *r, const char *path, json_t **list, struct problem *p)
{
	cleanup_path char *copy = path_format("%s", r->servers);
	char *rest = copy, *one;
	struct problem kept = { "" };
	int err = check(r, p);

	*list = json_array();
	while (!p->text[0] && (one = strsep(&rest, ","))) {
		struct problem now = { "" };
		json_t *part = NULL;
		int failed = *one ? ask_one(one, "GET", path, NULL, &part, &now) : 0;

		if (part)
			json_array_extend(*list, part);
		json_decref(part);
		source_keep(&kept, &now);
		err = failed ? failed : err;
	}
	return err ? problem_set(p, -err, "%s", kept.text[0] ? kept.text : "no server answers") : 0;
}
