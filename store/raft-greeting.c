/* SPDX-License-Identifier: Apache-2.0 */
/* Greetings as bytes. Every byte of them is hostile. An older release reads the address up to its first NUL, in both forms, so what stands behind it is not seen there. */
#include "raft-greeting.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = 8, FORM = 1 /* libraft's */, IS_EMPTY = 1, TAKES_FOR_VOTER = 2 };
static const char tls_magic[WORD] = "stratus1", card_magic[WORD] = "stratusC", answer_magic[WORD] = "stratusR";

static void put(uint8_t *to, uint64_t word)
{
	word = htole64(word);
	memcpy(to, &word, sizeof word);
}

static uint64_t get(const uint8_t *from)
{
	uint64_t word;

	memcpy(&word, from, sizeof word);
	return le64toh(word);
}

bool cluster_id_is_set(const uint8_t id[CLUSTER_ID])
{
	static const uint8_t none[CLUSTER_ID];

	return memcmp(id, none, CLUSTER_ID);
}

bool address_is_fine(const char *address)
{
	const char *colon = strrchr(address, ':');
	char host[INET_ADDRSTRLEN] = "", again[INET_ADDRSTRLEN + sizeof ":65535"];
	struct in_addr ip;
	unsigned long port = colon ? strtoul(colon + 1, NULL, 10) : 0;

	if (!port || port > 65535 || colon - address >= INET_ADDRSTRLEN)
		return false;
	memcpy(host, address, colon - address);
	if (inet_pton(AF_INET, host, &ip) != 1)
		return false;
	inet_ntop(AF_INET, &ip, host, sizeof host);
	snprintf(again, sizeof again, "%s:%lu", host, port);
	return !strcmp(again, address);
}

static void card_encode(const struct card *c, uint8_t to[CARD_BYTES])
{
	memcpy(to, card_magic, WORD);
	memcpy(to + WORD, c->cluster, CLUSTER_ID);
	put(to + WORD + CLUSTER_ID, (c->is_empty ? IS_EMPTY : 0) | (c->takes_for_voter ? TAKES_FOR_VOTER : 0));
}

static void card_decode(const uint8_t from[CARD_BYTES], struct card *c)
{
	uint64_t flags = get(from + WORD + CLUSTER_ID);

	*c = (struct card){ .given = !memcmp(from, card_magic, WORD) };
	if (!c->given)
		return;
	memcpy(c->cluster, from + WORD, CLUSTER_ID);
	c->is_empty = flags & IS_EMPTY;
	c->takes_for_voter = flags & TAKES_FOR_VOTER;
}

/* The card ends with a word that is zero but for the flags, so the last byte of the whole is the NUL that older releases look for. */
size_t hello_encode(const struct hello *h, bool tls, uint8_t to[HELLO_MAX])
{
	size_t begin = tls ? 2 * WORD : HELLO_FIRST, end = begin + ADDRESS_MAX + CARD_BYTES;

	memset(to, 0, HELLO_MAX);
	if (tls) {
		memcpy(to, tls_magic, WORD);
	} else {
		put(to, FORM);
		put(to + 2 * WORD, end - begin);
	}
	put(to + WORD, h->id);
	memcpy(to + begin, h->address, strnlen(h->address, ADDRESS_MAX - 1));
	if (h->card.given)
		card_encode(&h->card, to + begin + ADDRESS_MAX);
	return end;
}

size_t hello_wants(const uint8_t *from, size_t have, bool tls)
{
	uint64_t address;

	if (tls)
		return HELLO_TLS;
	if (have < HELLO_FIRST)
		return HELLO_FIRST;
	address = get(from + 2 * WORD);
	return get(from) == FORM && address && address <= HELLO_MAX - HELLO_FIRST ? HELLO_FIRST + (size_t)address : 0;
}

bool hello_decode(const uint8_t *from, size_t size, bool tls, struct hello *h)
{
	size_t begin = tls ? 2 * WORD : HELLO_FIRST, length;

	*h = (struct hello){ .id = 0 };
	if (size < begin + 1 || (tls && (size != HELLO_TLS || memcmp(from, tls_magic, WORD) || from[size - 1])))
		return false;
	h->id = get(from + WORD);
	length = strnlen((const char *)from + begin, size - begin);
	if (!h->id || length == size - begin || length >= ADDRESS_MAX)
		return false;
	memcpy(h->address, from + begin, length + 1);
	if (size >= begin + length + 1 + CARD_BYTES)
		card_decode(from + size - CARD_BYTES, &h->card);
	return address_is_fine(h->address);
}

void answer_encode(const struct answer *a, uint8_t to[ANSWER_BYTES])
{
	memcpy(to, answer_magic, WORD);
	put(to + WORD, a->why);
	memcpy(to + 2 * WORD, a->cluster, CLUSTER_ID);
}

bool answer_decode(const uint8_t from[ANSWER_BYTES], struct answer *a)
{
	uint64_t why = get(from + WORD);

	if (memcmp(from, answer_magic, WORD) || why == REFUSED_NOT || why >= REFUSALS)
		return false;
	a->why = (enum refusal)why;
	memcpy(a->cluster, from + 2 * WORD, CLUSTER_ID);
	return true;
}
