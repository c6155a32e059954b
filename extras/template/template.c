/* SPDX-License-Identifier: Apache-2.0 */
/* features/template: a translator to begin with: it counts, in each open file, what is read through it. Replace this sentence. */
#include <stdio.h>
#include <xlator.h>

struct template
{ /* of one volume; filled from the options before init */
	bool enabled;
	_Atomic uint64_t files, bytes;
};

static const struct option options[] = {
	{ "enabled", OPTION_BOOL, OPTION_AT(struct template, enabled), "on", "count what is read", .live = true },
	{ NULL },
};

/* What this translator keeps in an open file. Nobody else sees it; forget_file below frees it. */
struct count {
	_Atomic uint64_t bytes;
};

static struct count *count_of(struct xlator *x, struct file *file)
{
	struct template *p = x->private;
	struct count *count = file_slot(file, x);

	if (count)
		return count;
	count = calloc(1, sizeof(*count));
	if (!count)
		return NULL;
	if (file_slot_set(file, x, count)) { /* another request was first, or memory is short */
		free(count);
		return file_slot(file, x);
	}
	p->files++;
	return count;
}

static void template_forget_file(struct xlator *x, struct file *file, void *slot)
{
	(void)x;
	(void)file;
	free(slot);
}

/* A fop: do something, pass it on, look at the answer. It may wait, and returns 0 or -errno. */
static int template_read(struct request *rq, struct xlator *x, const struct read_in *in, struct read_out *out)
{
	struct template *p = x->private;
	struct count *count;
	int err = read_on(rq, x->child[0], in, out);

	if (err || !p->enabled)
		return err;
	count = count_of(x, in->file);
	if (count)
		count->bytes += out->data->size;
	p->bytes += out->data->size;
	return 0;
}

/* Checks what the table of options can't, and takes resources. Errors are one sentence that names the cause. */
static int template_init(struct xlator *x, struct problem *problem)
{
	(void)x;
	(void)problem;
	return 0;
}

static void template_finish(struct xlator *x)
{
	(void)x;
}

static void template_dump(struct xlator *x, FILE *f)
{
	const struct template *p = x->private;

	fprintf(f, "  files: %llu\n  bytes: %llu\n", (unsigned long long)p->files, (unsigned long long)p->bytes);
}

/* stratus ctl PROCESS VOLUME show */
static int template_command(struct xlator *x, int argc, char **argv, FILE *f)
{
	if (argc != 1 || strcmp(argv[0], "show"))
		return -EINVAL;
	template_dump(x, f);
	return 0;
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "features/template",
	.summary = "counts what is read",
	.options = options,
	.private_size = sizeof(struct template),
	.min_children = 1,
	.max_children = 1,
	.init = template_init,
	.finish = template_finish,
	.forget_file = template_forget_file,
	.dump = template_dump,
	.command = template_command,
	.read = template_read,
};
