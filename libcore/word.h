/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as words of options and specifications: what may not stand there is written %xx, two digits of 0 to f. And what stands for a path. */
#ifndef STRATUS_WORD_H
#define STRATUS_WORD_H
#include <stdbool.h>
#include <stdint.h>

/* Each %xx becomes its byte, in place. -EINVAL: a % is followed by something else, or means a NUL; then the text is of no use. */
int word_decode(char *text);
/* "/", or "/NAME/NAME" of names that a directory may have: not empty, ".", "..", or too long. */
bool word_is_directory(const char *path);

/* "@BRICK.NUMBER": the directory whose limit has this number, which is never given again, at that brick (`stratus quota show` tells both): decimal, and 16 digits of 0 to f. */
struct word_limit {
	uint32_t brick;
	uint64_t number;
};
bool word_is_limit(const char *text, struct word_limit *);
#endif
