/* SPDX-License-Identifier: Apache-2.0 */
/* What a commit of a volume changes in the cluster's store: documents of several kinds, all at once or none. */
#ifndef STRATUS_CLUSTER_CHANGES_H
#define STRATUS_CLUSTER_CHANGES_H
#include <stdbool.h>

#include "volgen.h"
#include "store.h"

struct changes { /* begins as zeros */
	struct store_change *change;
	size_t count;
	bool failed; /* memory is short */
};
/* The malloc'ed key is taken; what the value points to must stay until the commit. NULL: removes the document. */
void documents_add(struct changes *, char *key, uint64_t version, const struct blob *value);
/* The document KIND/NAME, whatever version it has now. */
void documents_set(struct changes *, const char *kind, const char *name, const struct blob *to);
void documents_remove(struct changes *, const char *kind, const char *name); /* if it is there */
char *view_key(const struct spec *, size_t set); /* of the view of that set, as its coordinator calls it. malloc'ed */
void documents_remove_view(struct changes *, const struct spec *, size_t set); /* of the coordinator of that set */
void documents_note_limits(struct changes *, const struct spec *, const struct spec *before); /* allotments that begin anew */
void documents_forget_limits(struct changes *, const struct spec *);			      /* all allotments of the volume */
/* -errno of store_commit, or -ENOMEM. */
int documents_commit(const struct changes *);
void documents_free(struct changes *);
#endif
