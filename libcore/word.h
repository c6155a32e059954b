/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as words of options and specifications: what may not stand there is written %xx, two digits of 0 to f. */
#ifndef STRATUS_WORD_H
#define STRATUS_WORD_H
#include <stdbool.h>

/* Each %xx becomes its byte, in place. -EINVAL: a % is followed by something else, or means a NUL; then the text is of no use. */
int word_decode(char *text);
/* "/", or "/NAME/NAME" of names that a directory may have: not empty, ".", "..", or too long. */
bool word_is_directory(const char *path);
#endif
