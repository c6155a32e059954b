# SPDX-License-Identifier: Apache-2.0
# For scripts that have read lib.sh: how many messages something costs the mount $LOOKER.

messages() { facts "$LOOKER" | sed -n 's/.*: up, requests \([0-9]*\), .*/\1/p' | awk '{n += $1} END {print n + 0}'; }
# What it costs at last: the tokens come meanwhile, and a machine that is busy forgets in between what it believed.
costs_at_most() { # MESSAGES COMMAND...
	local most=$1 before
	shift
	before=$(messages)
	"$@" >/dev/null || return 1
	LEAST=$(($(messages) - before < LEAST ? $(messages) - before : LEAST))
	[ "$LEAST" -le "$most" ]
}
await() { # MESSAGES WHAT COMMAND...
	local most=$1 what=$2
	shift 2
	LEAST=1000000
	wait_until 120 costs_at_most "$most" "$@" || fail "$what takes $LEAST messages, not $most or less"
	say "$what: $LEAST messages"
}
