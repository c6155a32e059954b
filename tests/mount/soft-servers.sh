#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A tenant's soft limit is for what all servers of a volume have together: above it is told by both, with one time, and once in the logs; that outlives kill -9 of all; after the grace nothing grows at
# either, though what is there is little, whoever is killed; and what is removed at one server lets the other grow. A brick at a third server changes nothing; nor does a limit that is lifted leave anything.
# limit: 900 s
. "$(dirname "$0")/lib.sh"
need_root
need_stack
scratch
cd "$SCRATCH"
. "$TOP/tests/mount/tenants-cluster.sh"
SOFT=$((32 << 20)) TELLERS="alpha beta"

start_for acme
apply_on_servers
lead tenant create photos acme --soft-quota $SOFT >/dev/null 2>err || fail "tenant create: $(cat err)"
A=$SCRATCH/a
mkdir a
MOUNTS+=("$A")
mounted() { "$STRATUS" mount --log a.log --pid-file a.pid --tls-dir acme "$SERVERS:/photos" "$A" 2>err; }
wait_until 30 mounted || fail "not mounted: $(cat err)" # beta hears of the tenant a moment later
note "$(cat a.pid)" "mount a"

# ---- a directory of each server's own ----
stands_at() { [ -e "b$2/tenants/acme/$1" ] || [ -e "b$3/tenants/acme/$1" ]; } # NAME BRICK BRICK
AT_ALPHA='' AT_BETA=''
for ((n = 0; n < 100 && (${#AT_ALPHA} == 0 || ${#AT_BETA} == 0); n++)); do
	: >"$A/name$n" || fail "a small file"
	if stands_at name$n 0 2; then AT_ALPHA=name$n; else AT_BETA=name$n; fi
done
[ -n "$AT_ALPHA" ] && [ -n "$AT_BETA" ] || fail "all names stand at one server"

# ---- what is told ----
write $AT_ALPHA 20 || fail "20 MiB"
is_told 0 || fail "20 MiB are above the limit, at one server: $(tells)"
write $AT_BETA 20 || fail "20 MiB more"
wait_until 60 is_above || fail "40 MiB at two servers are not above 32 MiB: $(tells)"
SINCE=$(told alpha)
for name in alpha beta; do wait_until 60 says 'above its soft limit of bytes for' on $name tenant info photos acme || fail "tenant info of $name: $(on $name tenant info photos acme)"; done
wait_until 30 once 1 || fail "the logs say so $(lines 'more than its soft limit') times"

# ---- all are killed ----
kill_all
wait_until 60 write $AT_BETA 1 || fail "after kill -9 nothing can be written"
for name in alpha beta; do
	same() { [ "$(told $name)" = "$SINCE" ]; }
	wait_until 60 same || fail "above since $SINCE, and after kill -9 of all $name says: $(told $name)"
done
once 1 || fail "after kill -9 the logs say it $(lines 'more than its soft limit') times"

# ---- less, at the other server ----
truncate -s 0 "$A/$AT_ALPHA"
wait_until 60 is_told 0 || fail "20 MiB are above 32 MiB: $(tells)"
wait_until 30 less 1 || fail "the logs do not say that there is less again"

# ---- the grace is over ----
write $AT_ALPHA 20 || fail "20 MiB"
wait_until 60 is_above || fail "40 MiB at two servers are not above 32 MiB again: $(tells)"
resize --grace 2s
at_both() { refused $AT_ALPHA && refused $AT_BETA; }
wait_until 60 at_both || fail "after the grace it grows"
is_above || fail "refused, and not above: $(tells)"
wait_until 30 shown || fail "df shows $(size size), of which $(size avail) are free"
echo x >"$A/$AT_BETA.same" 2>/dev/null && fail "a file more"
printf x | dd of="$A/$AT_BETA" conv=notrunc 2>/dev/null || fail "what is there can't be overwritten"
kill_hard "${PID[$LEADER]}" "stratusd $LEADER"
at_both || fail "it grows while nobody leads"
start_server "$LEADER"
wait_until 60 find_leader || fail "nobody leads"
kill_all
for ((n = 0; n < 5; n++)); do at_both || fail "after kill -9 it grows again"; done
wait_until 60 is_above || fail "after kill -9 it is not above: $(tells)"

# ---- a third server ----
SINCE=$(told alpha)
lead brick add photos gamma:"$SCRATCH/b4" >out 2>&1 || fail "brick add: $(cat out)"
at_both || fail "with a brick at a third server it grows"
is_told "$SINCE" || fail "with a brick at a third server above since $(tells), not $SINCE"

# ---- less again: at one server, for the other ----
rm "$A/$AT_ALPHA"
grows() { write $AT_BETA 21; }
wait_until 60 grows || fail "after something was removed nothing grows at the other server"
wait_until 60 is_told 0 || fail "still above: $(tells)"
wait_until 60 agrees || fail "usage verify: $(cat verified)"

# ---- lifted, and given again, above a hard one ----
resize --grace 1h
wait_until 60 write $AT_BETA 40 || fail "40 MiB"
wait_until 60 is_above || fail "40 MiB are not above 32 MiB"
resize --soft-quota 0 --grace 0
wait_until 60 is_told 0 || fail "above a limit that was lifted: $(tells)"
wait_until 60 write $AT_BETA 44 || fail "without a limit"
resize --quota 64M --soft-quota 56M --grace 1h
wait_until 60 write big 8 || fail "8 MiB, of 64 MiB"
wait_until 60 write big 14 || fail "14 MiB, of 64 MiB"
wait_until 60 is_above || fail "58 MiB are not above 56 MiB"
beyond() { ! write big 40; }
wait_until 60 beyond || fail "more than the hard limit"
pass
