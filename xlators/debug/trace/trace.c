/* SPDX-License-Identifier: Apache-2.0 */
/* debug/trace: writes one line for each chosen fop that goes down and one for its answer, to the log or to a file. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "fop-set.h"
#include "xlator.h"

struct trace {
	char *fops, *file;
	_Atomic uint64_t set;
	int fd; /* of the file, or -1: the log at level trace */
};
#define LINE_MAX_BYTES 2048

static const struct option options[] = {
	{ "fops", OPTION_STRING, OPTION_AT(struct trace, fops), "all", "which fops: names, all, none, mutating, reading, -NAME",
	  .live = true, .check = fop_set_check },
	{ "file", OPTION_STRING, OPTION_AT(struct trace, file), "", "append to this file instead of the log (absolute path)" },
	{ NULL },
};

static bool wanted(const struct trace *p, enum fop fop)
{
	return fop_set_has(p->set, fop) && (p->fd >= 0 || log_threshold >= LOG_TRACE);
}

/* A line goes out in one write(2) to a file opened for appending, so lines of several threads never mix. */
static void put(struct xlator *x, const struct request *rq, const char *format, ...)
{
	const struct trace *p = x->private;
	char line[LINE_MAX_BYTES];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(line, sizeof(line) - 1, format, ap);
	va_end(ap);
	if (p->fd < 0) {
		log_at(LOG_TRACE, x, rq, "%s", line);
		return;
	}
	if ((size_t)n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n] = '\n';
	if (write(p->fd, line, n + 1) < 0) {
		/* A trace that can't be written must not fail what it watches. */
	}
}

static int trace_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	char text[LINE_MAX_BYTES - 128];
	uint64_t begin;
	int err;

	if (!wanted(x->private, fop))
		return fop_pass(rq, x, fop, in, out);
	fop_in_print(fop, in, text, sizeof(text));
	put(x, rq, "%s rq=%llx uid=%u > %s", x->name, (unsigned long long)rq->id, rq->uid, text);
	begin = clock_ns();
	err = fop_pass(rq, x, fop, in, out);
	begin = clock_ns() - begin;
	if (err)
		snprintf(text, sizeof(text), "%s failed: %s", fop_name(fop), strerror(-err));
	else
		fop_out_print(fop, out, text, sizeof(text));
	put(x, rq, "%s rq=%llx us=%llu < %s", x->name, (unsigned long long)rq->id, (unsigned long long)begin / 1000, text);
	return err;
}

static int trace_init(struct xlator *x, struct problem *problem)
{
	struct trace *p = x->private;
	uint64_t set;
	int err = fop_set_parse(p->fops, &set, problem);

	p->fd = -1;
	p->set = set;
	if (!err && *p->file && *p->file != '/')
		err = problem_set(problem, EINVAL, "%s: option file must be an absolute path, not \"%s\"", x->name, p->file);
	return err;
}

static int trace_start(struct xlator *x, struct problem *problem)
{
	struct trace *p = x->private;

	if (!*p->file)
		return 0;
	p->fd = open(p->file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (p->fd < 0)
		return problem_set(problem, errno, "%s: can't append to %s: %s", x->name, p->file, strerror(errno));
	return 0;
}

static void trace_stop(struct xlator *x)
{
	struct trace *p = x->private;

	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

static void trace_reconfigure(struct xlator *x, const struct option *option)
{
	struct trace *p = x->private;

	(void)option;
	fop_set_change(p->fops, &p->set, x);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "debug/trace",
	.summary = "writes a line for each fop and its answer",
	.options = options,
	.private_size = sizeof(struct trace),
	.min_children = 1,
	.max_children = 1,
	.init = trace_init,
	.start = trace_start,
	.stop = trace_stop,
	.reconfigure = trace_reconfigure,
	.any = trace_any,
};
