#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The same as tenants-move.sh where names are spread over replica sets: one comes, and leaves again, while tenants work and the server that has all members is killed.
# limit: 1800 s
MEMBERS=2 exec "$(dirname "$0")/tenants-move.sh"
