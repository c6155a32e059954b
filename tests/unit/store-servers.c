/* SPDX-License-Identifier: Apache-2.0 */
#include "store-servers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ca.h"
#include "fop.h"
#include "log.h"
#include "path.h"

enum { PATIENCE_MS = 30000 };

struct server server[SERVERS];
bool use_tls;
static char top[48];

int listener(unsigned *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, size), 0);
	assert_int_equal(listen(fd, 1), 0);
	getsockname(fd, (struct sockaddr *)&a, &size);
	*port = ntohs(a.sin_port);
	return fd;
}

static unsigned free_port(void)
{
	unsigned port;

	close(listener(&port));
	return port;
}

void open_server(int i, bool join)
{
	struct problem p = { "" };
	struct server *s = &server[i];
	int err = store_open_shared(s->directory, s->name, s->address, join, use_tls ? &s->tls : NULL, &s->store, &p);

	assert_string_equal(p.text, "");
	assert_int_equal(err, 0);
}

void close_server(int i)
{
	store_close(server[i].store);
	server[i].store = NULL;
}

bool eventually(bool (*is_so)(void))
{
	for (int ms = 0; ms < PATIENCE_MS; ms += 20) {
		if (is_so())
			return true;
		usleep(20000);
	}
	return false;
}

int leader(void)
{
	for (int i = 0; i < SERVERS; i++)
		if (server[i].store && store_leads(server[i].store))
			return i;
	return -1;
}

bool somebody_leads(void)
{
	return leader() >= 0;
}

int commit(int i, uint64_t version, const char *value)
{
	struct blob b = { .size = strlen(value), .bytes = (void *)value };

	return store_replace(server[i].store, "volume/a", version, &b);
}

/* By whoever leads. On a busy machine another one may lead before it is done: then nobody knows whether it was (-EIO), and it is tried again. */
int commit_at_last(uint64_t version, const char *value)
{
	bool unknown = false;
	int err = -EREMOTE;

	for (int tries = 0; tries < 20 && (err == -EREMOTE || err == -EIO); tries++) {
		int first = eventually(somebody_leads) ? leader() : -1;

		err = first < 0 ? -EREMOTE : commit(first, version, value);
		unknown |= err == -EIO;
	}
	return err == -ESTALE && unknown ? 0 : err;
}

static uint64_t wanted_version;
static const char *wanted_value;

static bool all_have_it(void)
{
	bool all = true;

	for (int i = 0; i < SERVERS; i++) {
		struct blob b;
		uint64_t version;

		if (!server[i].store)
			continue;
		all &= !store_get(server[i].store, "volume/a", &b, &version) && version == wanted_version &&
		       !strcmp(b.bytes, wanted_value);
		free(b.bytes);
	}
	return all;
}

void reaches_all(uint64_t version, const char *value)
{
	wanted_version = version;
	wanted_value = value;
	assert_true(eventually(all_have_it));
}

int servers_begin(void **state)
{
	(void)state;
	test_directory(top, sizeof(top), "store-raft");
	for (int i = 0; i < SERVERS; i++) {
		struct server *s = &server[i];

		snprintf(s->name, sizeof s->name, "s%d", i);
		snprintf(s->directory, sizeof s->directory, "%s/%d", top, i);
		snprintf(s->address, sizeof s->address, "127.0.0.1:%u", free_port());
	}
	return 0;
}

int servers_end(void **state)
{
	char command[100];

	(void)state;
	for (int i = 0; i < SERVERS; i++)
		if (server[i].store)
			close_server(i);
	snprintf(command, sizeof command, "rm -rf %s", top);
	return system(command);
}

/* ---- with certificates ---- */

void certify(int i, struct subject *who)
{
	cleanup_path char *ca = path_format("%s/ca", top), *out = path_format("%s/tls%d", top, i);
	struct problem p = { "" };
	struct authority *a;
	struct pems pems;
	char serial[CA_SERIAL_TEXT];

	assert_int_equal(authority_open(ca, &a, &p), 0);
	assert_int_equal(authority_issue(a, who, 0, &pems, serial, &p), 0);
	assert_int_equal(authority_install(a, &pems, out, true, &p), 0);
	authority_close(a);
	pems_free(&pems);
	subject_free(who);
}

void certify_server(int i, const char *host)
{
	struct problem p = { "" };
	struct subject who;

	assert_int_equal(subject_server(&who, host, &p), 0);
	certify(i, &who);
}

int servers_begin_secure(void **state)
{
	struct problem p = { "" };
	cleanup_path char *ca = NULL;
	bool made;

	servers_begin(state);
	ca = path_format("%s/ca", top);
	assert_int_equal(authority_init(ca, "Test", 10, &made, &p), 0);
	for (int i = 0; i < SERVERS; i++) {
		certify_server(i, "127.0.0.1");
		server[i].tls =
			(struct tls_files){ path_format("%s/tls%d/cert.pem", top, i), path_format("%s/tls%d/key.pem", top, i),
					    path_format("%s/tls%d/ca.pem", top, i), path_format("%s/tls%d/crl.pem", top, i) };
	}
	use_tls = true;
	return 0;
}

int servers_end_secure(void **state)
{
	for (int i = 0; i < SERVERS; i++) {
		free((char *)server[i].tls.certificate);
		free((char *)server[i].tls.key);
		free((char *)server[i].tls.authorities);
		free((char *)server[i].tls.revoked);
	}
	use_tls = false;
	return servers_end(state);
}

void begin_three(void)
{
	struct problem p = { "" };

	open_server(0, false);
	assert_true(eventually(somebody_leads));
	for (int i = 1; i < SERVERS; i++) {
		open_server(i, true);
		if (store_add(server[0].store, server[i].name, server[i].address, &p))
			fail_msg("%s", p.text);
	}
}
