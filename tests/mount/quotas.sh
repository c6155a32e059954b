# SPDX-License-Identifier: Apache-2.0
# For scripts that have read lib.sh: quotas of directories, as `stratus quota` and df(1) tell of them.

quota() { timeout 300 "$STRATUS" quota "$@"; }
refused() { # PATTERN QUOTA_WORDS...
	local pattern=$1 status=0
	shift
	quota "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" || status=$?
	[ "$status" = 1 ] || fail "status $status instead of 1 for quota $*: $(cat "$SCRATCH/out" "$SCRATCH/err")"
	grep -q -- "$pattern" "$SCRATCH/err" || fail "'$pattern' is not in: $(cat "$SCRATCH/err")"
}
used() { quota show "$1" --json | json 'd["'"$2"'"]'; } # DIRECTORY FIELD
size() { df -B1 --output=size "$1" | tail -n 1 | tr -d ' '; }
inodes() { df --output=itotal "$1" | tail -n 1 | tr -d ' '; }
