/* SPDX-License-Identifier: Apache-2.0 */
/* The record of all operations. */
#include "history.h"

const char *names[NAMES] = { "d0", "d1", "f0", "f1", "f2", "f3" };
const char *const what_text[OPS] = { "lookup",	"make",	 "open",     "unlink",	 "rmdir",	"link",	    "rename",
				     "readdir", "write", "append",   "truncate", "copy",	"allocate", "read",
				     "stat",	"chmod", "setxattr", "getxattr", "removexattr", "fsync" };

static struct {
	struct operation **at;
	unsigned count, room;
	uint64_t events;
} history;

struct operation *operation_begin(enum what what, unsigned worker)
{
	struct operation *o = calloc(1, sizeof(*o));

	if (history.count == history.room) {
		history.room = history.room ? 2 * history.room : 512;
		history.at = realloc(history.at, history.room * sizeof(*history.at));
	}
	o->what = what;
	o->number = history.count;
	o->worker = worker;
	o->call = ++history.events;
	o->ret = UINT64_MAX;
	o->call_ns = sim_now();
	history.at[history.count++] = o;
	return o;
}

void operation_end(struct operation *o, int err)
{
	char text[512];

	o->err = err;
	o->ret = ++history.events;
	o->ret_ns = sim_now();
	operation_print(o, text, sizeof(text));
	trace("%s", text);
}

struct operation *operation_at(unsigned number)
{
	return number < history.count ? history.at[number] : NULL;
}

unsigned operations_count(void)
{
	return history.count;
}

static bool definite(int err)
{
	switch (-err) {
	case ENOENT:
	case EEXIST:
	case ENOTDIR:
	case EISDIR:
	case ENOTEMPTY:
	case EINVAL:
	case ENODATA:
	case EPERM:
	case ELOOP:
	case EDQUOT: /* nothing of it is left */
	case EXDEV:
		return true;
	default:
		return false;
	}
}

bool operation_may_repeat(const struct operation *o)
{
	bool by_name = o->what >= OP_MAKE && o->what <= OP_RENAME;

	return (by_name || o->what == OP_REMOVEXATTR) && nemesis_single_died_between(o->call_ns, o->ret_ns);
}

bool operation_unknown(const struct operation *o)
{
	return o->ret == UINT64_MAX || (o->err && !definite(o->err)) || operation_may_repeat(o);
}

bool operation_changes(const struct operation *o)
{
	switch (o->what) {
	case OP_LOOKUP:
	case OP_READDIR:
	case OP_READ:
	case OP_STAT:
	case OP_GETXATTR:
	case OP_FSYNC:
		return false;
	default:
		return true;
	}
}

static const char *short_gfid(const struct gfid *g, char text[16])
{
	if (gfid_is_null(g))
		snprintf(text, 16, "-");
	else if (gfid_equal(g, &gfid_root))
		snprintf(text, 16, "root");
	else
		snprintf(text, 16, "%02x%02x%02x%02x", g->bytes[0], g->bytes[1], g->bytes[2], g->bytes[3]);
	return text;
}

static size_t print_names(const struct operation *o, char *to, size_t size)
{
	char a[16], b[16], c[16], d[16];

	switch (o->what) {
	case OP_RENAME:
		return (size_t)snprintf(to, size, "%s/%s to %s/%s", short_gfid(&o->dir, a), names[o->name],
					short_gfid(&o->dir2, b), names[o->name2]);
	case OP_READDIR:
		return (size_t)snprintf(to, size, "%s", short_gfid(&o->dir, a));
	case OP_LOOKUP:
	case OP_MAKE:
	case OP_OPEN:
	case OP_UNLINK:
	case OP_RMDIR:
	case OP_LINK:
		return (size_t)snprintf(to, size, "%s/%s %s%s%s%s", short_gfid(&o->dir, a), names[o->name],
					short_gfid(&o->object, b), S_ISDIR(o->type) ? " dir" : "",
					o->what == OP_OPEN ? " found " : "",
					o->what == OP_OPEN ? short_gfid(&o->found[0], d) : "");
	default:
		return (size_t)snprintf(to, size, "%s", short_gfid(&o->object, c));
	}
}

static void print_data(const struct operation *o, char *to, size_t size)
{
	char text[16];
	size_t n = 0;

	switch (o->what) {
	case OP_WRITE:
	case OP_APPEND:
		snprintf(to, size, " block %d value %llu", (int)o->block, (unsigned long long)o->value);
		break;
	case OP_TRUNCATE:
		snprintf(to, size, " to %u blocks", o->block);
		break;
	case OP_COPY:
		snprintf(to, size, " block %u, %u from %s block %u, copied %llu", o->block, o->blocks,
			 short_gfid(&o->from, text), o->from_block, (unsigned long long)o->size);
		break;
	case OP_ALLOCATE:
		snprintf(to, size, " block %u, %u, mode %llu", o->block, o->blocks, (unsigned long long)o->value);
		break;
	case OP_CHMOD:
	case OP_STAT:
		snprintf(to, size, " mode %llo size %llu links %u", (unsigned long long)o->value, (unsigned long long)o->size,
			 o->blocks);
		break;
	case OP_SETXATTR:
	case OP_GETXATTR:
	case OP_REMOVEXATTR:
		snprintf(to, size, " x%u value %llu", o->name, (unsigned long long)o->value);
		break;
	case OP_READ:
		n = (size_t)snprintf(to, size, " size %llu:", (unsigned long long)o->size);
		for (unsigned i = 0; i * BLOCK < o->size && i < BLOCKS_MAX && n < size; i++)
			n += (size_t)snprintf(to + n, size - n, " %llu", (unsigned long long)o->values[i]);
		break;
	case OP_READDIR:
		for (unsigned i = 0; i < NAMES && n < size; i++)
			n += (size_t)snprintf(to + n, size - n, " %s:%s", names[i], short_gfid(&o->found[i], text));
		break;
	default:
		*to = '\0';
	}
}

void operation_print(const struct operation *o, char *text, size_t size)
{
	size_t n = (size_t)snprintf(text, size, "#%u w%u %s ", o->number, o->worker, what_text[o->what]);

	n += print_names(o, text + n, size - n);
	print_data(o, text + n, size - n);
	n = strlen(text);
	if (o->ret == UINT64_MAX)
		snprintf(text + n, size - n, " = never (from %llu)", (unsigned long long)o->call);
	else
		snprintf(text + n, size - n, " = %s (%llu..%llu, %.3f ms)", o->err ? strerrorname_np(-o->err) ?: "?" : "ok",
			 (unsigned long long)o->call, (unsigned long long)o->ret, (double)(o->ret_ns - o->call_ns) / 1e6);
}
