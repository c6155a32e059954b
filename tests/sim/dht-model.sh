#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The rules of doc/distribution.md hold in all interleavings, and breaking any of them is noticed.
# limit: 900 s, 900 s with LONG=1
exec python3 "$(dirname "$0")/dht-model.py" --mutants
