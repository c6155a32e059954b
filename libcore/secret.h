/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for keys: locked, left out of core dumps, wiped when it is given back; and the keys that the process has unlocked, by name. */
#ifndef STRATUS_SECRET_H
#define STRATUS_SECRET_H
#include <stdbool.h>
#include <stddef.h>

/* Zeroed. NULL: no memory, or it can't be locked (RLIMIT_MEMLOCK). */
void *secret_alloc(size_t size);
/* Where it can't be locked: memory that may be paged out, *locked tells; else as above. */
void *secret_alloc_somewhere(size_t size, bool *locked);
void secret_free(void *, size_t size); /* wipes; NULL is fine */
void secret_wipe(void *, size_t size); /* the compiler does not leave it out */

/* For a process that has keys: it makes no core dump, not for a handler of dumps either, which RLIMIT_CORE does not stop, and who runs as the same
 * user can neither trace it nor read its memory. Root can. */
void secret_hide_process(void);

/* One program unlocks a key file, translators of the same process use what was in it. A copy is kept, until the process ends or `bytes` is
 * NULL. 0, -ENOMEM. */
int secret_put(const char *name, const void *bytes, size_t size);
/* A copy in locked memory, the caller's (secret_free); NULL: there is none of that name (or no memory). */
void *secret_get(const char *name, size_t *size);
#endif
