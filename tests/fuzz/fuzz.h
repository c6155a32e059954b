/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzzers share with the program that makes their corpus: the shape of their inputs. */
#ifndef STRATUS_FUZZ_H
#define STRATUS_FUZZ_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* A property that does not hold ends the fuzzer, which keeps the input. */
#define MUST(condition)                                                                                                        \
	do {                                                                                                                   \
		if (!(condition)) {                                                                                            \
			fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, __func__, #condition);                  \
			abort();                                                                                               \
		}                                                                                                              \
	} while (0)

/* Wire: kind, fop, three sizes of 16 bits (big-endian), then the arguments' bytes, the arguments' bulk, the message,
 * its bulk. The arguments are there where the message is a result: who decodes it knows what was asked. */
enum fuzz_kind {
	FUZZ_ARGS,
	FUZZ_RESULT,
	FUZZ_CALL,
	FUZZ_ANSWER,
	FUZZ_HELLO,
	FUZZ_WELCOME,
	FUZZ_CANCEL,
	FUZZ_EVENT,
	FUZZ_KINDS
};
enum { FUZZ_AT_ARGS = 2, FUZZ_AT_ARGS_BULK = 4, FUZZ_AT_BULK = 6, FUZZ_AT_BODY = 8 };

/* Stream: flags, a seed for how much a send takes, then pieces, each of which comes in one readiness of the socket: 16
 * bits (big-endian), the number of bytes that follow; or with the highest bit set, how many times 16 bytes of filler
 * come. */
enum { STREAM_GREETING = 1, STREAM_AT_PIECES = 2, STREAM_FILLER = 0x8000, STREAM_FILLER_UNIT = 16 };

/* Raft: the kind, then the bytes. */
enum raft_fuzz_kind {
	RAFT_FUZZ_HELLO,
	RAFT_FUZZ_HELLO_TLS,
	RAFT_FUZZ_ANSWER,
	RAFT_FUZZ_ADDRESS,
	RAFT_FUZZ_MEMBERS,
	RAFT_FUZZ_MESSAGES
};

static inline unsigned fuzz_u16(const uint8_t *at)
{
	return at[0] << 8 | at[1];
}
#endif
