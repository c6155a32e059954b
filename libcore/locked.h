/* SPDX-License-Identifier: Apache-2.0 */
/* What features/locks tells of a file to those above it on the brick: "1" if somebody has a lock of it, waits for one, or may get back one that he had before the
 * brick was started anew; else "0". Read as an extended attribute, which no file has. */
#ifndef STRATUS_LOCKED_H
#define STRATUS_LOCKED_H
#define LOCKED_XATTR "trusted.dht.locked"
#endif
