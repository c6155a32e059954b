/* SPDX-License-Identifier: Apache-2.0 */
/* Reads certificates for their ends alone. Whether they are good is judged by who uses them (rpc/tls-context.c), who also says when they can't be used. */
#include "certificates.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control.h"
#include "ending.h"
#include "graph.h"
#include "json.h"
#include "log.h"
#include "path.h"

enum { CHAIN_MAX = 10, LOOK_S = 20 };

/* ---- one file ---- */

static int64_t seconds_of(const ASN1_TIME *time)
{
	struct tm tm;

	return ASN1_TIME_to_tm(time, &tm) == 1 ? timegm(&tm) : 0;
}

static int64_t end_of(const X509 *c)
{
	return seconds_of(X509_get0_notAfter(c));
}

/* All that the file has; NULL: none. */
static STACK_OF(X509) * read_all(const char *path)
{
	STACK_OF(X509) *all = sk_X509_new_null();
	BIO *file = BIO_new_file(path, "r");
	X509 *one;

	while (file && all && (one = PEM_read_bio_X509(file, NULL, NULL, NULL)))
		if (!sk_X509_push(all, one))
			X509_free(one);
	BIO_free(file);
	ERR_clear_error();
	if (sk_X509_num(all) > 0)
		return all;
	sk_X509_free(all);
	return NULL;
}

static void free_all(STACK_OF(X509) * all)
{
	sk_X509_pop_free(all, X509_free);
}

/* ---- who is above it ---- */

static bool has_signed(X509 *issuer, X509 *c)
{
	bool yes = X509_check_issued(issuer, c) == X509_V_OK && X509_verify(c, X509_get0_pubkey(issuer)) == 1;

	ERR_clear_error();
	return yes;
}

/* An authority may have been renewed with the same name and key: the one that lasts longer counts. */
static X509 *issuer_among(X509 *c, STACK_OF(X509) * list)
{
	X509 *best = NULL;

	for (int i = 0; i < sk_X509_num(list); i++) {
		X509 *one = sk_X509_value(list, i);

		if (one != c && has_signed(one, c) && (!best || end_of(one) > end_of(best)))
			best = one;
	}
	return best;
}

static X509 *first_to_end(STACK_OF(X509) * list)
{
	X509 *best = NULL;

	for (int i = 0; i < sk_X509_num(list); i++)
		if (!best || end_of(sk_X509_value(list, i)) < end_of(best))
			best = sk_X509_value(list, i);
	return best;
}

/* *in_own: it stands in the file of the certificate, between that and the authority. */
static X509 *authority_of(STACK_OF(X509) * own, STACK_OF(X509) * authorities, bool *in_own)
{
	X509 *at = sk_X509_value(own, 0), *best = NULL;

	*in_own = false;
	for (int i = 0; i < CHAIN_MAX && (!i || X509_check_issued(at, at) != X509_V_OK); i++) {
		X509 *trusted = issuer_among(at, authorities), *next = trusted ? trusted : issuer_among(at, own);

		if (!next)
			break;
		if (!best || end_of(next) < end_of(best)) {
			best = next;
			*in_own = !trusted;
		}
		at = next;
	}
	return best ? best : first_to_end(authorities);
}

/* ---- what is told ---- */

static void add(json_t *list, const char *role, const char *file, const X509 *c)
{
	int64_t begins = seconds_of(X509_get0_notBefore(c)), ends = end_of(c);

	json_array_append_new(list,
			      json_pack("{s:s, s:s, s:I, s:I, s:b}", "role", role, "file", file, "begins", (json_int_t)begins,
					"ends", (json_int_t)ends, "near", ending_is_near(begins, ends, time(NULL))));
}

static void add_problem(json_t *list, const char *role, const char *file)
{
	cleanup_path char *text = path_format("there is no certificate in %s that can be read", file);

	json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "role", role, "file", file, "problem", text));
}

/* Of several authorities in one file the one that ends first. */
static void add_authority(json_t *list, const char *file, const X509 *c)
{
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		if (strcmp(json_text(one, "role"), "authority") || strcmp(json_text(one, "file"), file))
			continue;
		if (json_integer_value(json_object_get(one, "ends")) <= end_of(c))
			return;
		json_array_remove(list, i);
		break;
	}
	add(list, "authority", file, c);
}

static bool has(const json_t *list, const char *role, const char *file)
{
	json_t *one;
	size_t i;

	json_array_foreach((json_t *)list, i,
			   one) if (!strcmp(json_text(one, "role"), role) && !strcmp(json_text(one, "file"), file)) return true;
	return false;
}

static void add_pair(json_t *list, const char *certificate, const char *authorities)
{
	STACK_OF(X509) *own = read_all(certificate), *trusted = read_all(authorities);
	bool in_own = false;
	X509 *authority = own && trusted ? authority_of(own, trusted, &in_own) : trusted ? first_to_end(trusted) : NULL;
	const char *file = in_own ? certificate : authorities;

	if (!has(list, "own", certificate)) {
		if (own)
			add(list, "own", certificate, sk_X509_value(own, 0));
		else
			add_problem(list, "own", certificate);
	}
	if (authority)
		add_authority(list, file, authority);
	else if (!has(list, "authority", file))
		add_problem(list, "authority", file);
	free_all(own);
	free_all(trusted);
}

/* ---- whether a server may go by it ---- */

static bool is_servers(X509 *c)
{
	static const char uri[] = "stratus:server";
	GENERAL_NAMES *names = X509_get_ext_d2i(c, NID_subject_alt_name, NULL, NULL);
	bool yes = false;

	for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

		yes |= name->type == GEN_URI && ASN1_STRING_length(name->d.uniformResourceIdentifier) == sizeof uri - 1 &&
		       !memcmp(ASN1_STRING_get0_data(name->d.uniformResourceIdentifier), uri, sizeof uri - 1);
	}
	GENERAL_NAMES_free(names);
	return yes;
}

static bool has_address(X509 *c, const char *host)
{
	return X509_check_ip_asc(c, host, 0) == 1 || X509_check_host(c, host, 0, 0, NULL) == 1;
}

static int judge_server(X509 *c, const char *file, const char *host, struct problem *p)
{
	int64_t now = time(NULL);

	if (host && !is_servers(c)) /* nobody asks for more than the address where there is no cluster */
		return problem_set(p, EINVAL, "%s is no certificate of a server: `stratus cert issue --server` makes one",
				   file);
	if (now < seconds_of(X509_get0_notBefore(c)))
		return problem_set(p, EKEYEXPIRED, "the certificate %s is not valid yet: is this machine's clock right?", file);
	if (now >= end_of(c))
		return problem_set(p, EKEYEXPIRED, "the certificate %s has expired: have another one issued", file);
	if (host && !has_address(c, host))
		return problem_set(
			p, EINVAL,
			"%s is not in the certificate %s, so other servers would refuse this one: have one issued with "
			"that address, or name another one with --cluster",
			host, file);
	return 0;
}

int certificates_check_server(const char *file, const char *host, struct problem *p)
{
	STACK_OF(X509) *all = read_all(file);
	int err = all ? judge_server(sk_X509_value(all, 0), file, host, p)
		      : problem_set(p, EINVAL, "there is no certificate in %s that can be read", file);

	ERR_clear_error();
	free_all(all);
	return err;
}

/* ---- whose files ---- */

static void note(json_t *pairs, const char *certificate, const char *authorities)
{
	json_t *pair = json_pack("[s, s]", certificate, authorities), *one;
	size_t i;

	json_array_foreach(pairs, i, one) if (json_equal(one, pair))
	{
		json_decref(pair);
		return;
	}
	json_array_append_new(pairs, pair); /* NULL is left out */
}

static const char *given(const struct xlator *x, const char *name)
{
	for (size_t i = 0; i < x->given_count; i++)
		if (!strcmp(x->given[i].name, name))
			return x->given[i].value;
	return "";
}

static void note_graph(struct graph *g, void *pairs)
{
	for (size_t i = 0; i < g->count; i++) {
		const char *certificate = given(g->xlator[i], "tls-certificate"),
			   *authorities = given(g->xlator[i], "tls-authorities");

		if (!strcmp(given(g->xlator[i], "transport"), "tls") && *certificate && *authorities)
			note(pairs, certificate, authorities);
	}
}

json_t *certificates_find(certificates_each_graph *each_graph, const char *directory)
{
	json_t *pairs = json_array(), *list = json_array(), *pair;
	size_t i;

	if (directory) {
		cleanup_path char *certificate = path_format("%s/cert.pem", directory);
		cleanup_path char *authorities = path_format("%s/ca.pem", directory);

		note(pairs, certificate, authorities);
	}
	each_graph(note_graph, pairs);
	json_array_foreach(pairs, i, pair)
		add_pair(list, json_string_value(json_array_get(pair, 0)), json_string_value(json_array_get(pair, 1)));
	json_decref(pairs);
	return list;
}

/* ---- the watch ---- */

struct told {
	char *what; /* role and file */
	struct ending_told told;
};
static struct {
	certificates_each_graph *each_graph;
	char *directory;
	struct told *told; /* the thread's own */
	size_t count;
	pthread_t thread;
	pthread_mutex_t lock; /* stopping */
	pthread_cond_t stop;
	bool runs, stopping;
} watch = { .lock = PTHREAD_MUTEX_INITIALIZER, .stop = PTHREAD_COND_INITIALIZER };

/* NULL: memory is short. */
static struct ending_told *told_of(const json_t *one)
{
	cleanup_path char *what = path_format("%s %s", json_text(one, "role"), json_text(one, "file"));
	struct told *grown;

	for (size_t i = 0; i < watch.count; i++)
		if (!strcmp(watch.told[i].what, what))
			return &watch.told[i].told;
	grown = realloc(watch.told, (watch.count + 1) * sizeof *grown);
	if (!grown)
		return NULL;
	watch.told = grown;
	grown[watch.count] = (struct told){ .what = path_format("%s", what) };
	return &grown[watch.count++].told;
}

static void warn_of(const json_t *one, int64_t now)
{
	struct ending_told *told = *json_text(one, "problem") ? NULL : told_of(one);
	int64_t ends = json_number(one, "ends");

	if (told && ending_is_due(told, json_number(one, "begins"), ends, now)) {
		cleanup_path char *sentence = ending_sentence(one, now);

		log_at(now < ends ? LOG_WARNING : LOG_ERROR, NULL, NULL, "%s", sentence);
	}
}

static void look(void)
{
	json_t *list = certificates_find(watch.each_graph, watch.directory), *one;
	size_t i;

	json_array_foreach(list, i, one) warn_of(one, time(NULL));
	json_decref(list);
}

static void *look_again_and_again(void *arg)
{
	struct timespec until;

	(void)arg;
	pthread_mutex_lock(&watch.lock);
	while (!watch.stopping) {
		pthread_mutex_unlock(&watch.lock);
		look();
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += LOOK_S;
		pthread_mutex_lock(&watch.lock);
		if (!watch.stopping)
			pthread_cond_timedwait(&watch.stop, &watch.lock, &until);
	}
	pthread_mutex_unlock(&watch.lock);
	return NULL;
}

void certificates_watch(const struct control_handler *handler, const char *directory)
{
	watch.each_graph = handler->each_graph;
	watch.directory = directory ? path_absolute(directory) : NULL;
	watch.runs = !pthread_create(&watch.thread, NULL, look_again_and_again, NULL);
	if (!watch.runs)
		log_error(NULL, NULL, "no thread that watches when certificates end: nobody will be warned");
}

void certificates_unwatch(void)
{
	if (watch.runs) {
		pthread_mutex_lock(&watch.lock);
		watch.stopping = true;
		pthread_cond_signal(&watch.stop);
		pthread_mutex_unlock(&watch.lock);
		pthread_join(watch.thread, NULL);
	}
	for (size_t i = 0; i < watch.count; i++)
		free(watch.told[i].what);
	free(watch.told);
	free(watch.directory);
}
