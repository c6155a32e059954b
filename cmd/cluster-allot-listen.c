/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that waits for news of the leader: that somebody needs room, or is told what becomes of that. Without it what others need would be heard of when this server asks the next time, and who
 * is at his limit would wait so long for EDQUOT. Nothing but that depends on it. */
#include <curl/curl.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "allot.h"
#include "cluster-allot.h"
#include "cluster.h"
#include "json.h"
#include "log.h"
#include "path.h"
#include "source.h"
#include "store.h"
#include "tls-dir.h"

enum { RETRY_MS = 500, WAIT_S = 40, POLL_MS = 1000 };

static struct {
	pthread_t thread;
	bool running;
	atomic_bool ending;
	CURLM *multi;
	CURL *easy;
} listener;

static void note_pool(struct allot_pool *p, void *is)
{
	(void)p;
	*(bool *)is = true;
}

static bool perform(void)
{
	int running = 0, left;
	const CURLMsg *m;
	bool done = false;

	curl_multi_add_handle(listener.multi, listener.easy);
	do {
		curl_multi_perform(listener.multi, &running);
		if (running)
			curl_multi_poll(listener.multi, NULL, 0, POLL_MS, NULL);
	} while (running && !atomic_load(&listener.ending));
	while ((m = curl_multi_info_read(listener.multi, &left)))
		done |= m->msg == CURLMSG_DONE && !m->data.result;
	curl_multi_remove_handle(listener.multi, listener.easy);
	return done;
}

/* Waits until there is something newer than that; 0: nobody answers. */
static json_int_t ask(json_int_t news)
{
	cleanup_path char *server = cluster_leader_http();
	cleanup_path char *url =
		server ? path_format("https://%s/v1/allotments?after=%" JSON_INTEGER_FORMAT, server, news) : NULL;
	struct problem ignored = { "" };
	struct tls_dir tls;
	char *text = NULL;
	size_t size;
	json_t *told;
	FILE *to;

	if (!url || !tls_dir_wanted() || tls_dir_open(tls_dir_wanted(), &tls, &ignored))
		return 0;
	news = 0;
	to = open_memstream(&text, &size);
	if (to) {
		allotments_set_options(listener.easy, url, NULL, to, &tls);
		curl_easy_setopt(listener.easy, CURLOPT_TIMEOUT, (long)WAIT_S);
		if (!perform())
			size = 0;
		fclose(to);
		told = json_loads(text, 0, NULL);
		news = json_number(told, "news");
		json_decref(told);
	}
	free(text);
	tls_dir_free(&tls);
	return news;
}

static void rest(void)
{
	int unused;

	curl_multi_poll(listener.multi, NULL, 0, RETRY_MS, &unused);
}

static void *work(void *arg)
{
	json_int_t news = 0, last = 0;

	(void)arg;
	while (!atomic_load(&listener.ending)) {
		bool has_pools = false;

		allot_each_pool(note_pool, &has_pools);
		last = news;
		news = has_pools && !store_leads(cluster_store()) ? ask(news) : 0;
		if (!news)
			rest();
		else if (news != last)
			allotments_wake();
	}
	return NULL;
}

void allotments_listen(void)
{
	listener.multi = curl_multi_init();
	listener.easy = curl_easy_init();
	atomic_store(&listener.ending, false);
	listener.running = listener.multi && listener.easy && !pthread_create(&listener.thread, NULL, work, NULL);
	if (!listener.running)
		log_warning(NULL, NULL, "no thread waits for news of allotments: who is at his limit is told so later");
}

void allotments_listen_no_more(void)
{
	atomic_store(&listener.ending, true);
	if (listener.running) {
		curl_multi_wakeup(listener.multi);
		pthread_join(listener.thread, NULL);
	}
	listener.running = false;
	curl_easy_cleanup(listener.easy);
	curl_multi_cleanup(listener.multi);
	listener.easy = NULL;
	listener.multi = NULL;
}
