/* SPDX-License-Identifier: Apache-2.0 */
/* Names of objects for clients: the kernel's handle under a keyed MAC, so none can be forged or carried elsewhere. */
#include <endian.h>
#include <inttypes.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>

#include "posix.h"

/* On the wire, big-endian:  key id (4)  gfid (16)  handle type (4)  handle (size - 40)  MAC (16).
 * The MAC is keyed BLAKE2s (RFC 7693) cut to 16 bytes by its parameter block, over volume id, brick id, tenant uuid (zeros: of
 * no tenant), access point (zeros so far), and all that stands before it here. */
enum { MAC_SIZE = 16, AT_GFID = 4, AT_TYPE = 20, AT_HANDLE = 24, WIRE_LEAST = AT_HANDLE + MAC_SIZE };
_Static_assert(WIRE_LEAST + KERNEL_HANDLE_MAX <= HANDLE_SIZE_MAX, "a handle fits its place on the wire");

/* ---- keys: .stratus/keys ---- */

enum { KEYS_TEXT = 512 };
static const char keys_head[] = "stratus keys 1\n";

static void key_clear(struct key *k)
{
	EVP_MAC_CTX_free(k->started);
	OPENSSL_cleanse(k, sizeof *k);
}

static int key_begin(struct brick *b, struct key *k)
{
	size_t mac_size = MAC_SIZE;
	uint8_t place[32]; /* volume, brick */
	OSSL_PARAM parameters[] = { OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &mac_size), OSSL_PARAM_construct_end() };
	EVP_MAC *mac = EVP_MAC_fetch(NULL, "BLAKE2SMAC", NULL);

	k->started = mac ? EVP_MAC_CTX_new(mac) : NULL;
	EVP_MAC_free(mac);
	memcpy(place, b->volume.bytes, 16);
	memcpy(place + 16, b->id.bytes, 16);
	if (!k->started || !EVP_MAC_init(k->started, k->bytes, KEY_SIZE, parameters) ||
	    !EVP_MAC_update(k->started, place, sizeof place))
		return -ENOTSUP;
	return 0;
}

static size_t key_print(const struct key *k, char *text)
{
	size_t n = (size_t)sprintf(text, "%" PRIu32 " ", k->id);

	for (int i = 0; i < KEY_SIZE; i++)
		n += (size_t)sprintf(text + n, "%02x", k->bytes[i]);
	text[n++] = '\n';
	return n;
}

static int keys_write(struct brick *b, const struct key key[KEYS])
{
	char text[KEYS_TEXT];
	size_t n = strlen(strcpy(text, keys_head));

	for (int i = 0; i < KEYS; i++)
		if (key[i].id)
			n += key_print(&key[i], text + n);
	int err = format_put(b, "keys", text, n);

	OPENSSL_cleanse(text, sizeof text);
	return err;
}

static int key_parse(const char **text, struct key *k)
{
	int used = 0;
	unsigned byte;

	if (sscanf(*text, "%" SCNu32 " %n", &k->id, &used) != 1 || !used || !k->id)
		return -EINVAL;
	*text += used;
	for (int i = 0; i < KEY_SIZE; i++, *text += 2) {
		if (sscanf(*text, "%2x", &byte) != 1)
			return -EINVAL;
		k->bytes[i] = (uint8_t)byte;
	}
	return *(*text)++ == '\n' ? 0 : -EINVAL;
}

static int keys_parse(struct brick *b, const char *text)
{
	int i = 0;

	if (strncmp(text, keys_head, strlen(keys_head)))
		return -EINVAL;
	for (text += strlen(keys_head); *text && i < KEYS; i++)
		if (key_parse(&text, &b->key[i]))
			return -EINVAL;
	return i && !*text ? 0 : -EINVAL;
}

int keys_create(struct brick *b)
{
	struct key fresh[KEYS] = { { .id = 1 } };
	int err = RAND_bytes(fresh[0].bytes, KEY_SIZE) == 1 ? keys_write(b, fresh) : -EIO;

	OPENSSL_cleanse(fresh, sizeof fresh);
	return err;
}

int keys_open(struct brick *b, struct problem *problem)
{
	char text[KEYS_TEXT];
	int err = format_get(b, "keys", text, sizeof text);

	if (err >= 0)
		err = keys_parse(b, text);
	OPENSSL_cleanse(text, sizeof text);
	if (err)
		return problem_set(problem, -err, "can't use the keys in %s/" PRIVATE_DIRECTORY "/keys (%s): restore the file",
				   b->directory, strerror(-err));
	for (int i = 0; i < KEYS && !err; i++)
		if (b->key[i].id)
			err = key_begin(b, &b->key[i]);
	return err ? problem_set(problem, -err, "OpenSSL here has no BLAKE2SMAC: its default provider is needed") : 0;
}

int keys_rotate(struct brick *b)
{
	struct key fresh = { .id = b->key[0].id + 1 }, old;
	int err = RAND_bytes(fresh.bytes, KEY_SIZE) == 1 ? key_begin(b, &fresh) : -EIO;

	if (!err)
		err = keys_write(b, (struct key[KEYS]){ fresh, b->key[0] });
	if (err) {
		key_clear(&fresh);
		return err;
	}
	pthread_rwlock_wrlock(&b->key_lock);
	old = b->key[1];
	b->key[1] = b->key[0];
	b->key[0] = fresh;
	pthread_rwlock_unlock(&b->key_lock);
	key_clear(&old);
	return 0;
}

void keys_close(struct brick *b)
{
	for (int i = 0; i < KEYS; i++)
		key_clear(&b->key[i]);
}

/* ---- handles ---- */

static const struct bearer nobody; /* who is of no tenant */

/* The MAC over the first `size` bytes; false when the key is not (or no longer) known. */
static bool compute_mac(struct brick *b, const struct bearer *bearer, const uint8_t *wire, size_t size, uint32_t id,
			uint8_t mac[MAC_SIZE])
{
	uint8_t owner[2 * sizeof(struct gfid)];
	EVP_MAC_CTX *context = NULL;
	size_t length = 0;
	bool done;

	memcpy(owner, bearer->tenant.bytes, sizeof bearer->tenant.bytes);
	memcpy(owner + sizeof(struct gfid), bearer->access.bytes, sizeof bearer->access.bytes);
	pthread_rwlock_rdlock(&b->key_lock);
	for (int i = 0; i < KEYS && !context; i++)
		if (id && b->key[i].id == id)
			context = EVP_MAC_CTX_dup(b->key[i].started);
	pthread_rwlock_unlock(&b->key_lock);
	done = context && EVP_MAC_update(context, owner, sizeof owner) && EVP_MAC_update(context, wire, size) &&
	       EVP_MAC_final(context, mac, &length, MAC_SIZE) && length == MAC_SIZE;
	EVP_MAC_CTX_free(context);
	return done;
}

int posix_tenant_handle(struct xlator *x, const struct bearer *bearer, struct inode *inode, void *bytes, size_t *size)
{
	struct brick *b = brick_of(x);
	struct object *o = object_of(x, inode);
	uint8_t *wire = bytes;
	struct kernel_handle handle;

	if (!o)
		return -ESTALE;
	pthread_mutex_lock(&o->lock);
	handle = o->handle;
	pthread_mutex_unlock(&o->lock);
	if (*size < WIRE_LEAST + handle.size)
		return -ENOBUFS;
	pthread_rwlock_rdlock(&b->key_lock);
	uint32_t id = b->key[0].id;

	pthread_rwlock_unlock(&b->key_lock);
	uint32_t id_be = htobe32(id), type_be = htobe32((uint32_t)handle.type);

	memcpy(wire, &id_be, 4);
	memcpy(wire + AT_GFID, inode->gfid.bytes, 16);
	memcpy(wire + AT_TYPE, &type_be, 4);
	memcpy(wire + AT_HANDLE, handle.bytes, handle.size);
	*size = WIRE_LEAST + handle.size;
	return compute_mac(b, bearer, wire, *size - MAC_SIZE, id, wire + *size - MAC_SIZE) ? 0 : -ENOMEM;
}

int posix_inode_handle(struct xlator *x, struct inode *inode, void *bytes, size_t *size)
{
	return posix_tenant_handle(x, &nobody, inode, bytes, size);
}

static bool genuine(struct brick *b, const struct bearer *bearer, const uint8_t *wire, size_t size, struct gfid *gfid,
		    struct kernel_handle *handle)
{
	uint8_t mac[MAC_SIZE];
	uint32_t id, type;

	if (size < WIRE_LEAST || size > WIRE_LEAST + KERNEL_HANDLE_MAX)
		return false;
	memcpy(&id, wire, 4);
	memcpy(&type, wire + AT_TYPE, 4);
	memcpy(gfid->bytes, wire + AT_GFID, 16);
	handle->type = (int32_t)be32toh(type);
	handle->size = (uint32_t)(size - WIRE_LEAST);
	memcpy(handle->bytes, wire + AT_HANDLE, handle->size);
	return compute_mac(b, bearer, wire, size - MAC_SIZE, be32toh(id), mac) &&
	       !CRYPTO_memcmp(mac, wire + size - MAC_SIZE, MAC_SIZE);
}

/* In memory already, and the same object. */
static struct inode *find_known(struct xlator *x, const struct gfid *gfid, const struct kernel_handle *handle)
{
	struct inode *inode = inode_find(x->inodes, gfid);
	struct object *o = inode ? object_of(x, inode) : NULL;
	bool same = false;

	if (o) {
		pthread_mutex_lock(&o->lock);
		same = kernel_handles_equal(&o->handle, handle);
		pthread_mutex_unlock(&o->lock);
	}
	if (same)
		return inode;
	inode_unref(inode);
	return NULL;
}

/* Not seen since the brick was started: the object must still say that it is the one. If it can't be asked that does not mean it is gone. */
static int find_on_disk(struct xlator *x, const struct gfid *gfid, const struct kernel_handle *handle, struct inode **inode)
{
	cleanup_hold struct hold h = { .fd = kernel_handle_open(brick_of(x), handle, O_PATH), .path = true };
	struct identity identity;
	struct gfid found;
	struct statx st;
	int err = h.fd < 0 ? h.fd : hold_stat(&h, &st);

	if (!err)
		err = identity_read(&h, &identity);
	if (err)
		return err == -ENODATA ? -ESTALE : err;
	identity_gfid(&identity, &found);
	if (!gfid_equal(&found, gfid))
		return -ESTALE;
	err = object_attach(x, &h, &st, gfid, identity_birth(&identity), inode);
	return err == -EEXIST ? -ESTALE : err;
}

int posix_tenant_from_handle(struct xlator *x, const struct bearer *bearer, const void *bytes, size_t size,
			     struct inode **inode)
{
	struct kernel_handle handle;
	struct gfid gfid;

	*inode = NULL;
	if (!genuine(brick_of(x), bearer, bytes, size, &gfid, &handle)) {
		atomic_fetch_add(&brick_of(x)->forged, 1);
		return -ESTALE;
	}
	*inode = find_known(x, &gfid, &handle);
	return *inode ? 0 : find_on_disk(x, &gfid, &handle, inode);
}

int posix_inode_from_handle(struct xlator *x, const void *bytes, size_t size, struct inode **inode)
{
	return posix_tenant_from_handle(x, &nobody, bytes, size, inode);
}
