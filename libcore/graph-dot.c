/* SPDX-License-Identifier: Apache-2.0 */
/* A volfile as a drawing, in the language of graphviz. */
#include "graph.h"

static void quoted(const char *text, FILE *out)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

static const char *fill(const char *type)
{
	static const char *const kinds[][2] = { { "mount/", "#cfe8ff" },   { "protocol/", "#ffe3c2" },
						{ "storage/", "#d9f0d3" }, { "debug/", "#eeeeee" },
						{ "cluster/", "#e6d7f5" }, { "encryption/", "#f9d5d5" } };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strncmp(type, kinds[i][0], strlen(kinds[i][0])))
			return kinds[i][1];
	return "#fff8c9";
}

void graph_dot(const struct volfile *v, FILE *out)
{
	fputs("digraph volfile {\n\trankdir=TB;\n\tnode [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"];\n",
	      out);
	for (size_t i = 0; i < v->volumes; i++) {
		const struct volfile_volume *vol = &v->volume[i];
		char label[600];

		snprintf(label, sizeof(label), "%.255s\n%.255s", vol->name, vol->type);
		fputc('\t', out);
		quoted(vol->name, out);
		fputs(" [label=", out);
		quoted(label, out);
		fprintf(out, ", fillcolor=\"%s\"];\n", fill(vol->type));
		for (size_t j = 0; j < vol->subvolumes; j++) {
			fputc('\t', out);
			quoted(vol->name, out);
			fputs(" -> ", out);
			quoted(vol->subvolume[j], out);
			fputs(";\n", out);
		}
	}
	fputs("}\n", out);
}
