/* SPDX-License-Identifier: Apache-2.0 */
/* Which TCP ports of this machine are free. */
#ifndef STRATUS_PORT_H
#define STRATUS_PORT_H
#include <stdbool.h>
#include <stdint.h>

/* Whether one could listen there just now. `address`: INADDR_ANY, INADDR_LOOPBACK. */
bool port_is_free(uint32_t address, unsigned port);
#endif
