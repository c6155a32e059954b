/* SPDX-License-Identifier: Apache-2.0 */
/* argp, beside our struct option: the getopt.h that it includes has another one of that name. */
#ifndef STRATUS_ARGUMENTS_H
#define STRATUS_ARGUMENTS_H
#define option getopt_option
#include <argp.h>
#undef option
#endif
