/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the file system of a directory brings changes of names to the disk in the order in which they were made. */
#ifndef STRATUS_ORDER_H
#define STRATUS_ORDER_H
#include <stdbool.h>

bool names_are_ordered(int directory_fd); /* false also where that is not known */
#endif
