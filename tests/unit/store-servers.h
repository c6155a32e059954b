/* SPDX-License-Identifier: Apache-2.0 */
/* Three servers that share a store, in one process. */
#ifndef STRATUS_STORE_SERVERS_H
#define STRATUS_STORE_SERVERS_H
#include "test.h"

#include "store.h"
#include "tls.h"

enum { SERVERS = 3 };
struct server {
	struct store *store; /* NULL: it is not open */
	char name[16], directory[64], address[32];
	struct tls_files tls;
};
struct subject;
extern struct server server[SERVERS];
extern bool use_tls;

#define TEST(f)	  cmocka_unit_test_setup_teardown(f, servers_begin, servers_end)
#define SECURE(f) cmocka_unit_test_setup_teardown(f, servers_begin_secure, servers_end_secure)
int listener(unsigned *port); /* at a port of 127.0.0.1 that nobody has */
void open_server(int i, bool join);
void close_server(int i);
bool eventually(bool (*is_so)(void)); /* false: not within half a minute */
int leader(void);		      /* -1: nobody */
bool somebody_leads(void);
int commit(int i, uint64_t version, const char *value);	 /* by that server, in place of that version of volume/a */
int commit_at_last(uint64_t version, const char *value); /* by whoever leads */
void reaches_all(uint64_t version, const char *value);	 /* all that are open have it */
int servers_begin(void **state);
int servers_end(void **state);
void certify(int i, struct subject *who); /* its files in `tls` */
void certify_server(int i, const char *host);
int servers_begin_secure(void **state);
int servers_end_secure(void **state);
void begin_three(void); /* the first leads, and has added the others */
#endif
