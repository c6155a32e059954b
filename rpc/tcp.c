/* SPDX-License-Identifier: Apache-2.0 */
/* TCP sockets: the plain transport, addresses, listening and connecting. */
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stream.h"

static ssize_t tcp_receive(struct stream *s, const struct iovec *iov, int count)
{
	struct msghdr m = { .msg_iov = (struct iovec *)iov, .msg_iovlen = count };

	atomic_fetch_add_explicit(&s->receives, 1, memory_order_relaxed);
	return recvmsg(s->watch.fd, &m, MSG_DONTWAIT);
}

static ssize_t tcp_send(struct stream *s, const struct iovec *iov, int count)
{
	struct msghdr m = { .msg_iov = (struct iovec *)iov, .msg_iovlen = count };

	atomic_fetch_add_explicit(&s->sends, 1, memory_order_relaxed);
	return sendmsg(s->watch.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void tcp_close(struct stream *s)
{
	close(s->watch.fd);
	s->watch.fd = -1;
}

const struct transport transport_tcp = { "tcp", tcp_receive, tcp_send, tcp_close };

/* getaddrinfo would take the low 16 bits of a larger number. */
static bool port_fits(const char *port)
{
	return strspn(port, "0123456789") != strlen(port) || (strlen(port) < 6 && atoi(port) < 65536);
}

int tcp_resolve(const char *host, const char *port, bool passive, struct addrinfo **list, struct problem *p)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = passive ? AI_PASSIVE : 0 };
	int err;

	if (!port_fits(port))
		return problem_set(p, EINVAL, "port \"%s\" is not between 0 and 65535", port);
	err = getaddrinfo(host && *host ? host : NULL, port, &hints, list);
	if (!err)
		return 0;
	return problem_set(p, EINVAL, "no address for \"%s\", port \"%s\": %s; check the name", host ? host : "", port,
			   err == EAI_SYSTEM ? strerror(errno) : gai_strerror(err));
}

/* A peer whose machine is gone is noticed after SILENCE_S: the server must give its locks to others some day. */
enum { IDLE_S = 15, PROBE_S = 5, SILENCE_S = 30 };

void tcp_tune(int fd)
{
	int one = 1, idle = IDLE_S, probe = PROBE_S, probes = (SILENCE_S - IDLE_S) / PROBE_S;
	unsigned silence_ms = SILENCE_S * 1000;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &probe, sizeof(probe));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof(silence_ms));
}

int tcp_connect(const struct addrinfo *a)
{
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	tcp_tune(fd);
	if (!connect(fd, a->ai_addr, a->ai_addrlen) || errno == EINPROGRESS)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int tcp_bind(const struct addrinfo *a)
{
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1, err;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (a->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (!bind(fd, a->ai_addr, a->ai_addrlen))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

void tcp_name(int fd, bool peer, char *text, size_t size)
{
	struct sockaddr_storage a;
	socklen_t length = sizeof(a);
	char host[64], port[16];

	if ((peer ? getpeername : getsockname)(fd, (struct sockaddr *)&a, &length) ||
	    getnameinfo((struct sockaddr *)&a, length, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
		snprintf(text, size, "?");
	else
		snprintf(text, size, a.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}
