/* SPDX-License-Identifier: Apache-2.0 */
/* A port of 127.0.0.1 that nobody has just now. */
#ifndef STRATUS_FREE_PORT_H
#define STRATUS_FREE_PORT_H
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static inline unsigned free_port(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	int failed = fd < 0 || bind(fd, (struct sockaddr *)&a, size) || getsockname(fd, (struct sockaddr *)&a, &size);

	if (fd >= 0)
		close(fd);
	return failed ? 0 : ntohs(a.sin_port);
}
#endif
