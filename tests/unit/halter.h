/* SPDX-License-Identifier: Apache-2.0 */
/* A hand between two ends of TCP on this machine, which lets bytes through or keeps them: so a handshake lasts as long as a test wants. */
#ifndef STRATUS_TEST_HALTER_H
#define STRATUS_TEST_HALTER_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { UP, DOWN, HALTER_PAIRS = 16 }; /* to the server, to who has dialled */
struct halter {
	int listener, port, server_port;
	atomic_bool keep[2]; /* UP: all but the first bytes of a connection; DOWN: all */
	atomic_bool keeps;   /* some wait */
	atomic_uint accepted;
	atomic_bool stopping;
	pthread_t thread;
	struct halter_pair {
		int fd[2];
		bool passed;
		atomic_bool deaf; /* nothing passes either way, nor is it seen that an end has closed it */
	} pair[HALTER_PAIRS];
};
void halter_start(struct halter *, int server_port);
void halter_stop(struct halter *);
#endif
