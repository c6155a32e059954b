#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A tenant's soft limit is for what all replica sets of a volume have together: above it is told by all servers, with one time, and once in the logs, whoever decides in a set is killed meanwhile; that
# outlives kill -9 of all; after the grace nothing grows in either set, though what is there is little, and though another member decides; what is removed in one set lets the other grow; members stay
# equal. Lifted, a limit leaves nothing.
# limit: 900 s
. "$(dirname "$0")/lib.sh"
need_root
need_stack
scratch
cd "$SCRATCH"
STACK=$SCRATCH
. "$TOP/tests/mount/tenants-cluster.sh"
SOFT=$((32 << 20)) TELLERS=$SERVER_NAMES

start_for acme
apply_on_sets
lead tenant create photos acme --soft-quota $SOFT >/dev/null 2>err || fail "tenant create: $(cat err)"
wait_until 30 known || fail "not all bricks hear of the tenant"
A=$SCRATCH/a
start_mount "$A" "$SERVERS:/photos" --tls-dir "$SCRATCH/acme"

# ---- a file in each set ----
AT_0='' AT_1=''
for ((n = 0; n < 100 && (${#AT_0} == 0 || ${#AT_1} == 0); n++)); do
	: >"$A/name$n" || fail "a small file"
	if [ -e "s0-alpha/tenants/acme/name$n" ]; then AT_0=name$n; else AT_1=name$n; fi
done
[ -n "$AT_0" ] && [ -n "$AT_1" ] || fail "all names are in one set"
wait_until 60 whole || fail "the sets are not whole: $(status_of_heal)"

# ---- what is told ----
write $AT_0 20 || fail "20 MiB"
is_told 0 || fail "20 MiB are above the limit, in one set: $(tells)"
write $AT_1 20 || fail "20 MiB more"
wait_until 60 is_above || fail "40 MiB in two sets are not above 32 MiB: $(tells)"
for name in $SERVER_NAMES; do wait_until 60 says 'above its soft limit of bytes for' on "$name" tenant info photos acme || fail "tenant info of $name: $(on "$name" tenant info photos acme)"; done
wait_until 30 once 1 || fail "the logs say so $(lines 'more than its soft limit') times"

# ---- whoever is killed, it goes on; so after all were ----
goes_on() { # WHEN
	wait_until 90 write $AT_1 20 || fail "$1 nothing can be written"
	wait_until 60 is_told "$SINCE" || fail "above since $SINCE, and $1: $(tells)"
	once 1 || fail "$1 the logs say it $(lines 'more than its soft limit') times"
	alike "$1"
}
for name in $SERVER_NAMES; do # each has decided in some view by then
	kill_hard "${PID[$name]}" "stratusd $name"
	wait_until 90 write $AT_0 20 || fail "without $name nothing can be written"
	start_server "$name"
	goes_on "after kill -9 of $name"
done
kill_all
goes_on "after kill -9 of all"

# ---- less, in the other set ----
truncate -s 0 "$A/$AT_0"
wait_until 60 is_told 0 || fail "20 MiB are above 32 MiB: $(tells)"
wait_until 30 less 1 || fail "the logs do not say that there is less again"

# ---- the grace is over ----
write $AT_0 20 || fail "20 MiB"
wait_until 60 is_above || fail "40 MiB in two sets are not above 32 MiB again: $(tells)"
resize --grace 2s
in_both() { refused $AT_0 && refused $AT_1; }
wait_until 60 in_both || fail "after the grace it grows"
is_told "$SINCE" || fail "refused, and not above since $SINCE: $(tells)"
wait_until 30 shown || fail "df shows $(size size), of which $(size avail) are free"
echo x >"$A/$AT_1.same" 2>/dev/null && fail "a file more"
printf x | dd of="$A/$AT_1" conv=notrunc 2>/dev/null || fail "what is there can't be overwritten"
for name in $SERVER_NAMES; do # while it is away, and when it is back
	kill_hard "${PID[$name]}" "stratusd $name"
	in_both || fail "without $name it grows"
	start_server "$name"
	in_both || fail "it grows, with $name back"
	wait_until 60 whole || fail "the sets are not whole: $(status_of_heal)"
	is_told "$SINCE" || fail "above since $SINCE, and after kill -9 of $name: $(tells)"
done
kill_all
for ((n = 0; n < 3; n++)); do in_both || fail "after kill -9 of all it grows again"; done
wait_until 60 is_told "$SINCE" || fail "above since $SINCE, and after kill -9 of all: $(tells)"
alike "after the grace"

# ---- less again: in one set, for the other ----
rm "$A/$AT_0"
grows() { write $AT_1 21; }
wait_until 60 grows || fail "after something was removed nothing grows in the other set"
wait_until 60 is_told 0 || fail "still above: $(tells)"
alike "when there is less"

# ---- lifted, and given again, below a hard one ----
resize --grace 1h
wait_until 60 write $AT_1 40 || fail "40 MiB"
wait_until 60 is_above || fail "40 MiB are not above 32 MiB"
resize --soft-quota 0 --grace 0
wait_until 60 is_told 0 || fail "above a limit that was lifted: $(tells)"
wait_until 60 write $AT_1 44 || fail "without a limit"
resize --quota 64M --soft-quota 56M --grace 1h
wait_until 60 write big 14 || fail "14 MiB, of 64 MiB"
wait_until 60 is_above || fail "58 MiB are not above 56 MiB"
beyond() { ! write big 40; }
wait_until 60 beyond || fail "more than the hard limit"
alike "in the end"
pass
