#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the core costs, measured by `micro`, and what a core encrypts, by `sealing`, of a build directory (default: $STRATUS_BUILD):
# `sh tests/bench/micro.sh [BUILD_DIR] [--check]`, after `make check TESTS=` there.
BUILD=${STRATUS_BUILD:-.}
[ ! -d "${1:-}" ] || { BUILD=$1; shift; }
status=0
STRATUS_XLATOR_PATH=$BUILD/xlators:$BUILD/tests/bench "$BUILD/tests/bench/micro" "$@" || status=1
"$BUILD/tests/bench/sealing" "$@" || status=1
exit $status
