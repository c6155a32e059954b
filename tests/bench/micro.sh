#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the core costs, measured by `micro` of a build directory (default: $STRATUS_BUILD):
# `sh tests/bench/micro.sh [BUILD_DIR] [--check]`, after `make check TESTS=` there.
BUILD=${STRATUS_BUILD:-.}
[ ! -d "${1:-}" ] || { BUILD=$1; shift; }
STRATUS_XLATOR_PATH=$BUILD/xlators:$BUILD/tests/bench exec "$BUILD/tests/bench/micro" "$@"
