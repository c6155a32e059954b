/* SPDX-License-Identifier: Apache-2.0 */
/* protocol/client: a brick on another machine, as the leaf of a client's graph. */
#include <fcntl.h>
#include <time.h>

#include "client.h"
#include "location.h"

/* Until a start is given up; and while the first attempt still runs, as with a server that has much to do, and nothing can begin without it. */
enum { START_MS = 3000, FIRST_ATTEMPT_MS = 10000 };

#define AT(field) OPTION_AT(struct remote, field)
static const struct option options[] = {
	{ "remote-host", OPTION_STRING, AT(remote_host), NULL, "name or address of the server" },
	{ "remote-port", OPTION_INT, AT(remote_port), "24007", "its port", 1, 65535 },
	{ "remote-subvolume", OPTION_STRING, AT(remote_subvolume), NULL, "name of the volume in the server's volfile" },
	{ "volume-id", OPTION_STRING, AT(volume_id), "", "the brick must be of this volume (empty: any)" },
	{ "brick-id", OPTION_STRING, AT(brick_id), "", "the brick must be this one (empty: any)" },
	{ "acts-for", OPTION_STRING, AT(acts_for_text), "",
	  "id of a tenant: only what it has is seen, as its root sees it, to move names and files between bricks; for certificates of stratus:server" },
	{ "transport", OPTION_ENUM, AT(transport), "tcp", "tls: TLS 1.3, with certificates on both sides",
	  .choices = "tcp|tls" },
	{ "tls-certificate", OPTION_STRING, AT(certificate), "", "PEM file: our certificate, then those it was signed by" },
	{ "tls-key", OPTION_STRING, AT(key), "", "PEM file: its private key, not encrypted" },
	{ "tls-authorities", OPTION_STRING, AT(authorities), "",
	  "PEM file: who may have signed the server's certificate, which must be for remote-host" },
	{ "tls-revoked", OPTION_STRING, AT(revoked), "",
	  "PEM file: their lists of revoked certificates (empty: none is revoked); read again, as the others are, when it has changed" },
	{ "tls-revoked-may-lack", OPTION_BOOL, AT(may_lack_list), "off",
	  "there may be no file tls-revoked yet: none is revoked until it comes" },
	{ "max-wait", OPTION_DURATION, AT(max_wait_ms), "30s",
	  "requests wait this long for a brick that can't be reached, then fail with ENOTCONN", 0, 86400000, .live = true },
	{ "ping-interval", OPTION_DURATION, AT(ping_interval_ms), "10s",
	  "ask whether the brick lives after this long a silence", 100, 3600000, .live = true },
	{ "ping-timeout", OPTION_DURATION, AT(ping_timeout_ms), "30s",
	  "give the connection up when it does not answer for this long", 100, 3600000, .live = true },
	{ "wait-for-brick", OPTION_BOOL, AT(wait_for_brick), "off", "start even if the brick can't be reached yet" },
	{ "start-wait", OPTION_DURATION, AT(start_wait_ms), "3s",
	  "with wait-for-brick: the start waits so long at most for a brick that says nothing at all", 0, 60000 },
	{ NULL }
};

static int client_init(struct xlator *x, struct problem *p)
{
	struct remote *r = x->private;
	struct gfid id;

	r->x = x;
	pthread_mutex_init(&r->lock, NULL);
	gfid_create(&id);
	memcpy(r->client_id, id.bytes, sizeof(r->client_id));
	gfid_create(&id);
	memcpy(r->secret, id.bytes, sizeof(r->secret));
	if (strlen(r->remote_subvolume) > 255 || strlen(r->volume_id) > 64 || strlen(r->brick_id) > 64)
		return problem_set(p, EINVAL, "volume %s: remote-subvolume, volume-id or brick-id is too long", x->name);
	if (*r->acts_for_text && (gfid_parse(r->acts_for_text, &r->acts_for) || gfid_is_null(&r->acts_for)))
		return problem_set(p, EINVAL, "volume %s: option acts-for: \"%s\" is no tenant's id", x->name,
				   r->acts_for_text);
	if (r->transport) {
		r->tls = tls_create(&(struct tls_files){ r->certificate, r->key, r->authorities, r->revoked, r->may_lack_list },
				    false, p);
		return r->tls ? 0 : -EINVAL;
	}
	return 0;
}

static void rest_ms(unsigned ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	if (task_self())
		task_sleep_ms(ms);
	else
		nanosleep(&t, NULL);
}

/* 1: up; 0: not yet; -1: no use in waiting. *tried: attempts that failed. */
static int progress(struct remote *r, unsigned *tried)
{
	int state;

	pthread_mutex_lock(&r->lock);
	state = r->up ? 1 : r->refused ? -1 : 0;
	*tried = r->attempts;
	pthread_mutex_unlock(&r->lock);
	return state;
}

static int await_brick(struct remote *r, struct problem *p)
{
	uint64_t began = clock_ns(), most_ms = r->wait_for_brick ? r->start_wait_ms : FIRST_ATTEMPT_MS;
	unsigned tried;
	int state;

	while (!(state = progress(r, &tried)) && clock_ns() < began + most_ms * 1000000 && !(tried && r->wait_for_brick)) {
		most_ms = tried ? START_MS : most_ms;
		rest_ms(2);
	}
	if (state > 0 || (!state && r->wait_for_brick))
		return 0;
	pthread_mutex_lock(&r->lock);
	problem_set(p, ENOTCONN, "volume %s: %s", r->x->name,
		    r->problem.text[0] ? r->problem.text : "the brick does not answer; check remote-host and remote-port");
	pthread_mutex_unlock(&r->lock);
	return -ENOTCONN;
}

/* For a channel that is down, and stays so: for one of the others the keeper does it. */
static void wake_waiting(struct channel *ch)
{
	pthread_mutex_lock(&ch->lock);
	if (ch->state == CHANNEL_DOWN)
		channel_set_state(ch, CHANNEL_DOWN);
	pthread_mutex_unlock(&ch->lock);
}

static void client_stop(struct xlator *x)
{
	struct remote *r = x->private;
	struct task *guard;

	atomic_store(&r->stopping, true);
	guard = atomic_load(&r->guard);
	if (guard)
		task_wake(guard);
	for (unsigned i = 0; i < r->channels; i++) {
		struct task *keeper = atomic_load(&r->channel[i].keeper);

		if (keeper)
			task_wake(keeper);
		wake_waiting(&r->channel[i]);
	}
	while (atomic_load(&r->keepers))
		rest_ms(1);
	for (unsigned i = 0; i < r->channels; i++)
		channel_finish(&r->channel[i]);
	free(r->channel);
	r->channel = NULL;
	r->channels = 0;
	if (r->address)
		freeaddrinfo(r->address);
	r->address = NULL;
	atomic_store(&r->stopping, false);
	r->recovered = r->recovering = 0;
	r->attempts = 0;
	r->refused = false;
}

static int spawn(struct remote *r, struct shard *shard, void (*fn)(void *), void *arg)
{
	int err;

	atomic_fetch_add(&r->keepers, 1);
	err = task_spawn(shard, fn, arg);
	if (err)
		atomic_fetch_sub(&r->keepers, 1);
	return err;
}

static int start_channels(struct remote *r)
{
	int err = 0;

	r->channels = runtime_shards() < WIRE_CHANNELS ? runtime_shards() : WIRE_CHANNELS;
	r->channel = calloc(r->channels, sizeof(*r->channel));
	if (!r->channel) {
		r->channels = 0;
		return -ENOMEM;
	}
	for (unsigned i = 0; i < r->channels; i++)
		if (channel_init(&r->channel[i], r, i))
			return -ENOMEM;
	for (unsigned i = 0; i < r->channels && !err; i++)
		err = spawn(r, r->channel[i].shard, keeper_run, &r->channel[i]);
	if (!err && r->tls)
		err = spawn(r, r->channel[0].shard, guard_run, r);
	return err;
}

static int client_start(struct xlator *x, struct problem *p)
{
	struct remote *r = x->private;
	char port[16];
	int err;

	snprintf(port, sizeof(port), "%d", (int)r->remote_port);
	err = tcp_resolve(r->remote_host, port, false, &r->address, p);
	if (err)
		return err;
	err = start_channels(r);
	if (err)
		problem_set(p, -err, "volume %s: %s", x->name, strerror(-err));
	else
		err = await_brick(r, p);
	if (err)
		client_stop(x);
	return err;
}

static void client_finish(struct xlator *x)
{
	struct remote *r = x->private;

	tls_destroy(r->tls);
	pthread_mutex_destroy(&r->lock);
}

/* ---- fops ---- */

static bool is_stale(struct remote *r, const struct remote_file *f)
{
	bool stale;

	pthread_mutex_lock(&r->lock);
	stale = f && f->stale;
	pthread_mutex_unlock(&r->lock);
	return stale;
}

/* If the brick was lost before the lock was noted, recovery did not know of it: the lock is asked for again. Without memory for
 * the note the lock is held all the same; only a restart of the brick would lose it. */
static int client_setlk(struct request *rq, struct xlator *x, const struct setlk_in *in, struct setlk_out *out)
{
	struct remote *r = x->private;
	struct remote_inode *i = remote_inode_of(r, in->file->inode);
	uint64_t session = 0;
	int err;

	do {
		err = remote_call_in(r, rq, FOP_setlk, in, out, &session);
		if (!err && i && held_set(i, in->file, &in->lock, session))
			log_warning(x, rq, "out of memory: a lock would not survive a restart of the brick");
	} while (!err && session != remote_session(r));
	if (!err && i && is_stale(r, file_slot(in->file, x))) /* released meanwhile, before this was noted */
		held_drop_file(i, in->file);
	return err;
}

static int client_flush(struct request *rq, struct xlator *x, const struct flush_in *in, struct flush_out *out)
{
	struct remote *r = x->private;
	struct remote_inode *i = remote_inode_of(r, in->file->inode);
	int err = remote_call(r, rq, FOP_flush, in, out);

	if (i)
		held_drop_owner(i, in->owner);
	return err;
}

enum { RELEASE_AGAIN_MS = 500 };

struct releasing {
	struct remote *remote;
	struct file *file; /* reference */
};

/* A number of an earlier session needs no release: it went with it. */
static bool is_gone(struct remote *r, const struct remote_file *f)
{
	bool gone;

	pthread_mutex_lock(&r->lock);
	gone = f->stale || (r->up && f->incarnation != r->recovered && f->incarnation != r->recovering);
	pthread_mutex_unlock(&r->lock);
	return gone;
}

/* A lock may have been granted through it, and noted, while it was being released. (What is noted later finds it stale.) */
static void is_released(struct remote *r, struct file *file)
{
	struct remote_file *f = file_slot(file, r->x);
	struct remote_inode *i = remote_inode_of(r, file->inode);

	pthread_mutex_lock(&r->lock);
	f->stale = true;
	pthread_mutex_unlock(&r->lock);
	if (i)
		held_drop_file(i, file);
}

static bool unanswered(int err)
{
	return err == -ENOTCONN || err == -ETIMEDOUT || err == -ECANCELED || err == -ENOMEM;
}

static void release_again(void *arg)
{
	struct releasing *l = arg;
	struct remote *r = l->remote;
	struct remote_file *f = file_slot(l->file, r->x);
	struct release_in in = { .file = l->file };
	struct release_out out = { 0 };
	int err = -ENOTCONN;

	while (unanswered(err) && !atomic_load(&r->stopping) && !is_gone(r, f)) {
		struct request rq;

		task_sleep_ms(RELEASE_AGAIN_MS);
		request_init(&rq, r->x->graph, 0);
		rq.group_count = 0;
		err = remote_call(r, &rq, FOP_release, &in, &out);
		request_finish(&rq);
	}
	is_released(r, l->file);
	file_unref(l->file);
	free(l);
	atomic_fetch_sub(&r->keepers, 1);
}

/* The brick has it open yet, and what is locked through it, for as long as the session lasts: so it is told until it has heard. False: no memory. */
static bool release_later(struct remote *r, struct file *file)
{
	struct releasing *l = malloc(sizeof(*l));

	if (!l)
		return false;
	*l = (struct releasing){ r, file_ref(file) };
	if (!spawn(r, NULL, release_again, l))
		return true;
	file_unref(file);
	free(l);
	return false;
}

static int client_release(struct request *rq, struct xlator *x, const struct release_in *in, struct release_out *out)
{
	struct remote *r = x->private;
	struct remote_file *f = file_slot(in->file, x);
	struct remote_inode *i = remote_inode_of(r, in->file->inode);
	int err = 0;

	if (!f)
		return 0;
	if (i) /* before: if the brick restarts meanwhile they are not taken again for a file that nobody has any more */
		held_drop_file(i, in->file);
	if (!is_gone(r, f))
		err = remote_call(r, rq, FOP_release, in, out);
	if (!unanswered(err) || atomic_load(&r->stopping) || !release_later(r, in->file))
		is_released(r, in->file);
	return 0;
}

/* ---- where an object is ---- */

/* Who asks wants to know what can't be reached, and not to wait for it. */
#define LOCATION_NS 5000000000ull

static int ask_location(struct remote *r, struct request *rq, const struct getxattr_in *in, struct getxattr_out *out)
{
	uint64_t before = rq->deadline_ns, own = clock_ns() + LOCATION_NS;
	bool up;
	int err;

	pthread_mutex_lock(&r->lock);
	up = r->up;
	pthread_mutex_unlock(&r->lock);
	if (!up)
		return -ENOTCONN;
	rq->deadline_ns = before && before < own ? before : own;
	err = remote_call(r, rq, FOP_getxattr, in, out);
	rq->deadline_ns = before;
	return err;
}

/* Only what a brick has to tell: the rest is for those on this side. */
static void add_heard(struct location *to, const struct blob *heard)
{
	static const char *const keys[] = { "gfid", "names", "directory", "path", "opened", "locked" };
	char *at = heard->bytes, *value;
	const char *key;

	while ((value = location_next(&at, (char *)heard->bytes + heard->size, &key)))
		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
			if (!strcmp(key, keys[i]))
				location_line(to, key, "%s", value);
}

/* There is an answer whatever the brick says: which one it is. */
static int client_location(struct request *rq, struct remote *r, const struct getxattr_in *in, struct getxattr_out *out)
{
	struct getxattr_out heard = { 0 };
	struct location to = { 0 };
	int err = ask_location(r, rq, in, &heard);

	if (err == -ECANCELED || err == -ERESTARTGRAPH)
		return err;
	location_line(&to, "brick", "%s", r->x->name);
	location_line(&to, "host", "%s", r->remote_host);
	location_line(&to, "port", "%d", (int)r->remote_port);
	location_line(&to, "serves", "%s", r->remote_subvolume);
	if (*r->brick_id)
		location_line(&to, "id", "%s", r->brick_id);
	if (err)
		location_line(&to, "error", "%d", -err);
	else
		add_heard(&to, &heard.value);
	fop_out_clear(FOP_getxattr, &heard);
	return location_end(&to, &out->value);
}

static int client_getxattr(struct request *rq, struct xlator *x, const struct getxattr_in *in, struct getxattr_out *out)
{
	return is_location(in->name) ? client_location(rq, x->private, in, out)
				     : remote_call(x->private, rq, FOP_getxattr, in, out);
}

static int client_rename(struct request *rq, struct xlator *x, const struct rename_in *in, struct rename_out *out)
{
	return exchange_is_unsaid(rq, in) ? exchange_names(x->private, rq, in, out)
					  : remote_call(x->private, rq, FOP_rename, in, out);
}

static int client_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	int err = remote_call(x->private, rq, fop, in, out);

	if (!err)
		remote_note_size(x->private, fop, in, out);
	return err;
}

static void client_forget_inode(struct xlator *x, struct inode *inode, void *slot)
{
	(void)x;
	(void)inode;
	remote_inode_free(slot);
}

static void client_forget_file(struct xlator *x, struct file *file, void *slot)
{
	(void)file;
	remote_file_remove(x->private, slot);
}

/* ---- for people ---- */

static const char *state_name(enum channel_state s)
{
	static const char *const names[] = { "down", "greeting", "recovering", "up" };

	return names[s];
}

static void dump_channel(struct channel *ch, FILE *f)
{
	unsigned flying = 0;

	pthread_mutex_lock(&ch->lock);
	for (unsigned i = 0; i < WIRE_SLOTS; i++)
		flying += ch->slot[i].call != NULL;
	fprintf(f,
		"  channel %u: %s, requests %llu, resent %llu, in flight %u, waiting %u, cancels %llu, bytes out %llu, bytes in %llu, "
		"sends %llu, receives %llu\n",
		ch->number, state_name(ch->state), (unsigned long long)ch->requests, (unsigned long long)ch->resent, flying,
		channel_waiting(ch), (unsigned long long)ch->cancels,
		(unsigned long long)(ch->bytes_out + (ch->state ? atomic_load(&ch->stream.bytes_out) : 0)),
		(unsigned long long)(ch->bytes_in + (ch->state ? atomic_load(&ch->stream.bytes_in) : 0)),
		(unsigned long long)atomic_load(&ch->stream.sends), (unsigned long long)atomic_load(&ch->stream.receives));
	pthread_mutex_unlock(&ch->lock);
}

static void client_dump(struct xlator *x, FILE *f)
{
	struct remote *r = x->private;
	unsigned files = 0;

	for (unsigned i = 0; i < r->channels; i++)
		dump_channel(&r->channel[i], f);
	pthread_mutex_lock(&r->lock);
	for (struct remote_file *i = r->files; i; i = i->next)
		files++;
	fprintf(f, "  brick: %s\n  session: %016llx\n  open files: %u\n", r->up ? "up" : "down",
		(unsigned long long)r->recovered, files);
	fprintf(f, "  connects: %llu\n  sessions lost: %llu\n  stale files: %llu\n  lost locks: %llu\n",
		(unsigned long long)r->connects, (unsigned long long)r->sessions_lost, (unsigned long long)r->stale_files,
		(unsigned long long)r->lost_locks);
	if (r->tls)
		fprintf(f, "  certificates changed: %llu\n", (unsigned long long)tls_generation(r->tls));
	if (!r->up && r->problem.text[0])
		fprintf(f, "  problem: %s\n", r->problem.text);
	pthread_mutex_unlock(&r->lock);
}

static bool is_up(struct remote *r)
{
	bool up;

	pthread_mutex_lock(&r->lock);
	up = r->up;
	pthread_mutex_unlock(&r->lock);
	return up;
}

/* Also that it is down: since the new graph heard that it is up, the old one alone may have been told that it went. And what changes meanwhile may be told
 * before this is. */
static void client_announce(struct xlator *x)
{
	struct remote *r = x->private;
	bool up;

	do {
		up = is_up(r);
		event_up(x, &(struct event){ .kind = up ? EVENT_CHILD_UP : EVENT_CHILD_DOWN });
	} while (up != is_up(r));
}

static int client_command(struct xlator *x, int argc, char **argv, FILE *f)
{
	struct remote *r = x->private;

	if (argc != 1 || strcmp(argv[0], "drop-connections")) {
		fprintf(f, "volume %s takes the command drop-connections\n", x->name);
		return -EINVAL;
	}
	for (unsigned i = 0; i < r->channels; i++)
		channel_kill(&r->channel[i]);
	fprintf(f, "%u connections dropped\n", r->channels);
	return 0;
}

const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.shareable = true,
	.announce = client_announce,
	.name = "protocol/client",
	.summary = "a brick on another machine",
	.options = options,
	.private_size = sizeof(struct remote),
	.init = client_init,
	.start = client_start,
	.stop = client_stop,
	.finish = client_finish,
	.forget_inode = client_forget_inode,
	.forget_file = client_forget_file,
	.dump = client_dump,
	.command = client_command,
	.voucher = remote_voucher,
	.any = client_any,
	.getxattr = client_getxattr,
	.rename = client_rename,
	.setlk = client_setlk,
	.flush = client_flush,
	.release = client_release,
};
XLATOR_MODULE
