/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out whether a port is free by binding to it. */
#include "port.h"

#include <arpa/inet.h>
#include <unistd.h>

bool port_is_free(uint32_t address, unsigned port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(address) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is_free;

	if (fd < 0)
		return false;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	is_free = !bind(fd, (struct sockaddr *)&a, sizeof a);
	close(fd);
	return is_free;
}
