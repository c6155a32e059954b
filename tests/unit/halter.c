/* SPDX-License-Identifier: Apache-2.0 */
#include "halter.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void must(bool done, const char *what)
{
	if (done)
		return;
	perror(what);
	abort();
}

static struct sockaddr_in local(int port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static void take_in(struct halter *h)
{
	struct sockaddr_in to = local(h->server_port);
	int fd = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	for (int i = 0; i < HALTER_PAIRS; i++) {
		struct halter_pair *p = &h->pair[i];

		if (p->fd[UP] >= 0)
			continue;
		p->fd[UP] = fd;
		p->fd[DOWN] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		p->passed = false;
		if (connect(p->fd[DOWN], (struct sockaddr *)&to, sizeof(to)))
			shutdown(fd, SHUT_RDWR);
		atomic_fetch_add(&h->accepted, 1);
		return;
	}
	close(fd);
}

static void part(struct halter_pair *p)
{
	close(p->fd[UP]);
	close(p->fd[DOWN]);
	p->fd[UP] = p->fd[DOWN] = -1;
}

/* fd[UP] is where bytes for the server come from. */
static void pass(struct halter *h, struct halter_pair *p, int way)
{
	bool keep = atomic_load(&h->keep[way]) && (way == DOWN || p->passed);
	char bytes[4096];
	ssize_t n = p->fd[way] < 0 ? -1 : recv(p->fd[way], bytes, sizeof(bytes), MSG_DONTWAIT | (keep ? MSG_PEEK : 0));

	if (!n) {
		part(p);
	} else if (n > 0 && keep) {
		atomic_store(&h->keeps, true);
	} else if (n > 0) {
		p->passed = true;
		if (send(p->fd[!way], bytes, n, MSG_NOSIGNAL) != n)
			part(p);
	}
}

static void *run(void *arg)
{
	struct halter *h = arg;

	while (!atomic_load(&h->stopping)) {
		take_in(h);
		for (int i = 0; i < HALTER_PAIRS; i++)
			for (int way = UP; way <= DOWN && !atomic_load(&h->pair[i].deaf); way++)
				pass(h, &h->pair[i], way);
		usleep(1000);
	}
	return NULL;
}

void halter_start(struct halter *h, int server_port)
{
	struct sockaddr_in at = local(0);
	socklen_t size = sizeof(at);

	memset(h, 0, sizeof(*h));
	h->server_port = server_port;
	for (int i = 0; i < HALTER_PAIRS; i++)
		h->pair[i].fd[UP] = h->pair[i].fd[DOWN] = -1;
	h->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	must(!bind(h->listener, (struct sockaddr *)&at, size) && !listen(h->listener, 16), "listen");
	must(!getsockname(h->listener, (struct sockaddr *)&at, &size), "getsockname");
	h->port = ntohs(at.sin_port);
	must(!pthread_create(&h->thread, NULL, run, h), "pthread_create");
}

void halter_stop(struct halter *h)
{
	atomic_store(&h->stopping, true);
	pthread_join(h->thread, NULL);
	for (int i = 0; i < HALTER_PAIRS; i++)
		if (h->pair[i].fd[UP] >= 0)
			part(&h->pair[i]);
	close(h->listener);
}
