/* SPDX-License-Identifier: Apache-2.0 */
/* Between the generated table and the graph: who handles a fop, and the typed call itself. */
#ifndef STRATUS_FOP_DISPATCH_H
#define STRATUS_FOP_DISPATCH_H
#include "xlator.h"
int fop_dispatch(struct request *, struct xlator *, enum fop, const void *in, void *out);
bool fop_handled(const struct xlator_type *, enum fop);
#endif
