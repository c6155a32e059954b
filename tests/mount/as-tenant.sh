#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What passes on a mount passes for a tenant, too: other tests, each with a brick for tenants, over TLS (tenancy.sh).
# limit: 900 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/runs.sh"
need_root
need_stack
need openssl
LIMIT=300
as_tenant() { # TEST WORDS...: only these, unless LONG=1
	local test=$1
	shift
	sample "$@"
	run_one "$test" env TENANT=acme "${VARIABLES[@]}" "$TOP/tests/mount/$test.sh" "${ARGUMENTS[@]}"
}
as_tenant basics
as_tenant unprivileged
as_tenant two-mounts MOUNTS_ROUNDS=50
as_tenant pjdfstest chown chmod mknod
runs_end
