/* SPDX-License-Identifier: Apache-2.0 */
/* What one core seals and opens of contents in a second, as encryption/crypt does it: page after page, each with its seal, a nonce of its own and the
 * file's key, in the pieces of 172 pages in which a stream is written (MESSAGE_PAGES in parts).
 *
 *   sealing [--check]     prints GB/s of contents; --check: status 1 if less than half of the goal is reached (what else runs on the machine takes some of it)
 */
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "crypt.h"

enum { PAGES = 172, TIMES = 4, ROUNDS = 100, SEAL_NONCE = 12 };
#define GOAL 2.0 /* GB/s, of AES-256-GCM */

static char plain[PAGES * BLOCK], pages[PAGES * PAGE];

static void seal_all(const struct file_key *key)
{
	uint8_t nonces[PAGES * SEAL_NONCE];

	if (RAND_bytes(nonces, sizeof(nonces)) <= 0)
		abort();
	for (unsigned i = 0; i < PAGES; i++) {
		struct seal s = { .length = BLOCK };

		memcpy(s.nonce, nonces + i * (size_t)SEAL_NONCE, SEAL_NONCE);
		if (page_seal(key, i, &s, plain + i * (size_t)BLOCK, pages + page_at(i)))
			abort();
	}
}

static void open_all(const struct file_key *key)
{
	for (unsigned i = 0; i < PAGES; i++)
		if (page_open(key, i, pages + page_at(i), PAGE, plain + i * (size_t)BLOCK) != BLOCK)
			abort();
}

/* Of this thread, whoever else wants the core. */
static uint64_t spent_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* The best of the rounds: what disturbs only ever adds. */
static double best(void (*work)(const struct file_key *), const struct file_key *key)
{
	double most = 0;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t begin = spent_ns();
		double rate;

		for (int i = 0; i < TIMES; i++)
			work(key);
		rate = (double)TIMES * sizeof(plain) / (double)(spent_ns() - begin);
		most = rate > most ? rate : most;
	}
	return most;
}

static bool measure(uint8_t cipher, const char *name, double goal)
{
	struct file_key key = { .cipher = cipher, .epoch = 1, .number = cipher };
	double sealed, opened;

	if (RAND_bytes(key.key, sizeof(key.key)) <= 0)
		abort();
	sealed = best(seal_all, &key);
	opened = best(open_all, &key);
	printf("%-18s sealed %5.2f GB/s, opened %5.2f GB/s", name, sealed, opened);
	if (goal > 0)
		printf("   goal %.0f%s", goal, sealed < goal || opened < goal ? ": missed" : "");
	putchar('\n');
	return sealed < goal / 2 || opened < goal / 2;
}

int main(int argc, char **argv)
{
	bool bad;

	if (cipher_load())
		return 1;
	bad = measure(CIPHER_AES_256_GCM, "AES-256-GCM", GOAL);
	measure(CIPHER_CHACHA20_POLY1305, "ChaCha20-Poly1305", 0);
	return argc > 1 && !strcmp(argv[1], "--check") && bad;
}
