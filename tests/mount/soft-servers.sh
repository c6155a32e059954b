#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A tenant's soft limit is for what all servers of a volume have together: above it is told by both, with one time, and once in the logs; that outlives kill -9 of all; after the grace nothing grows at
# either, though what is there is little, whoever is killed; and what is removed at one server lets the other grow. A brick at a third server changes nothing; nor does a limit that is lifted leave anything.
# limit: 600 s
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need python3 curl
scratch
cd "$SCRATCH"
. "$TOP/tests/mount/cluster.sh"
SOFT=$((32 << 20))

"$STRATUS" ca init --dir ca >/dev/null
for name in alpha beta gamma; do "$STRATUS" cert issue --dir ca --server 127.0.0.1,localhost --out $name >/dev/null || fail "the certificate of $name"; done
"$STRATUS" cert issue --dir ca --tenant acme --out acme >/dev/null || fail "the certificate of acme"
start_three
cp -r alpha own
{
	printf 'volume: photos\nid: %s\ntransport: tls\ntls:\n' "$(uuid)"
	printf '  %s: %s/own/%s\n' certificate "$SCRATCH" cert.pem key "$SCRATCH" key.pem authorities "$SCRATCH" ca.pem revoked "$SCRATCH" crl.pem
	printf 'servers:\n'
	for name in alpha beta gamma; do printf '  %s: {host: 127.0.0.1}\n' $name; done
	printf 'tenants: []\ntenant-base: 65536\nbricks:\n'
	for i in 0 1 2 3; do
		printf '  - {server: %s, directory: %s/b%s, id: %s, port: %s}\n' "$([ $((i % 2)) = 0 ] && echo alpha || echo beta)" "$SCRATCH" $i "$(uuid)" "$(free_port)"
	done
	printf 'options:\n  protocol/client: {max-wait: 20s, ping-interval: 1s}\n'
} >photos.yaml
on alpha apply photos.yaml >/dev/null 2>err || fail "apply: $(cat err)"
on alpha tenant create photos acme --soft-quota $SOFT >/dev/null 2>err || fail "tenant create: $(cat err)"
A=$SCRATCH/a
mkdir a
MOUNTS+=("$A")
SERVERS=127.0.0.1:${HTTP[alpha]},127.0.0.1:${HTTP[beta]},127.0.0.1:${HTTP[gamma]}
mounted() { "$STRATUS" mount --log a.log --pid-file a.pid --tls-dir acme "$SERVERS:/photos" "$A" 2>err; }
wait_until 30 mounted || fail "not mounted: $(cat err)" # beta hears of the tenant a moment later
PIDS[$(cat a.pid)]="mount a"
LEADER=alpha
find_leader() { local name; for name in alpha beta gamma; do if leads $name; then LEADER=$name; return 0; fi; done; return 1; }
resize() { wait_until 30 find_leader || fail "nobody leads"; on $LEADER tenant resize photos acme "$@" >/dev/null 2>err || fail "tenant resize $*: $(cat err)"; }

# ---- a directory of each server's own ----
stands_at() { [ -e "b$2/tenants/acme/$1" ] || [ -e "b$3/tenants/acme/$1" ]; } # NAME BRICK BRICK
AT_ALPHA='' AT_BETA=''
for ((n = 0; n < 100 && (${#AT_ALPHA} == 0 || ${#AT_BETA} == 0); n++)); do
	: >"$A/name$n" || fail "a small file"
	if stands_at name$n 0 2; then AT_ALPHA=name$n; else AT_BETA=name$n; fi
done
[ -n "$AT_ALPHA" ] && [ -n "$AT_BETA" ] || fail "all names stand at one server"
write() { dd if=/dev/zero of="$A/$1" bs=1M count="$2" conv=notrunc 2>/dev/null; } # FILE MIB

# ---- what is told ----
told() { on "$1" usage --total --tenant acme --json | json "d[0]['accounts'][0]['bytes_over_since']"; }
is_told() { local name; for name in alpha beta; do [ "$(told $name)" = "$1" ] || return 1; done; }
is_above() { [ "$(told alpha)" -gt 0 ] && [ "$(told alpha)" = "$(told beta)" ]; }
lines() { cat alpha.log beta.log gamma.log | grep -c "$1"; }
write $AT_ALPHA 20 || fail "20 MiB"
is_told 0 || fail "20 MiB are above the limit, at one server: $(told alpha), $(told beta)"
write $AT_BETA 20 || fail "20 MiB more"
wait_until 60 is_above || fail "40 MiB at two servers are not above 32 MiB: $(told alpha), $(told beta)"
SINCE=$(told alpha)
for name in alpha beta; do wait_until 60 says 'above its soft limit of bytes for' on $name tenant info photos acme || fail "tenant info of $name: $(on $name tenant info photos acme)"; done
once() { [ "$(lines "acme has [0-9]* bytes at all servers, more than its soft limit of $SOFT")" = "$1" ]; }
wait_until 30 once 1 || fail "the logs say so $(lines 'more than its soft limit') times"

# ---- all are killed ----
kill_all() {
	for name in alpha beta gamma; do kill_hard "${PID[$name]}" "stratusd $name"; done
	for name in alpha beta gamma; do start_server $name; done
	wait_until 60 find_leader || fail "nobody leads"
}
kill_all
wait_until 60 write $AT_BETA 1 || fail "after kill -9 nothing can be written"
for name in alpha beta; do
	same() { [ "$(told $name)" = "$SINCE" ]; }
	wait_until 60 same || fail "above since $SINCE, and after kill -9 of all $name says: $(told $name)"
done
once 1 || fail "after kill -9 the logs say it $(lines 'more than its soft limit') times"

# ---- less, at the other server ----
truncate -s 0 "$A/$AT_ALPHA"
wait_until 60 is_told 0 || fail "20 MiB are above 32 MiB: $(told alpha), $(told beta)"
less() { [ "$(lines "acme has [0-9]* bytes at all servers, less than its soft limit of $SOFT again")" = 1 ]; }
wait_until 30 less || fail "the logs do not say that there is less again"

# ---- the grace is over ----
write $AT_ALPHA 20 || fail "20 MiB"
wait_until 60 is_above || fail "40 MiB at two servers are not above 32 MiB again: $(told alpha), $(told beta)"
resize --grace 2s
refused() { ! dd if=/dev/zero of="$A/$1" bs=4K count=1 oflag=append conv=notrunc 2>/dev/null; }
at_both() { refused $AT_ALPHA && refused $AT_BETA; }
wait_until 60 at_both || fail "after the grace it grows"
is_above || fail "refused, and not above: $(told alpha), $(told beta)"
size() { df -B1 --output="$1" "$A" | tail -n 1 | tr -d ' '; }
shown() { [ "$(size size)" -le $SOFT ] && [ "$(size size)" -ge $((SOFT - (1 << 20))) ] && [ "$(size avail)" = 0 ]; }
wait_until 30 shown || fail "df shows $(size size), of which $(size avail) are free"
echo x >"$A/$AT_BETA.same" 2>/dev/null && fail "a file more"
printf x | dd of="$A/$AT_BETA" conv=notrunc 2>/dev/null || fail "what is there can't be overwritten"
kill_hard "${PID[$LEADER]}" "stratusd $LEADER"
at_both || fail "it grows while nobody leads"
start_server "$LEADER"
wait_until 60 find_leader || fail "nobody leads"
kill_all
for ((n = 0; n < 5; n++)); do at_both || fail "after kill -9 it grows again"; done
wait_until 60 is_above || fail "after kill -9 it is not above: $(told alpha), $(told beta)"

# ---- a third server ----
SINCE=$(told alpha)
on $LEADER brick add photos gamma:"$SCRATCH/b4" >out 2>&1 || fail "brick add: $(cat out)"
at_both || fail "with a brick at a third server it grows"
is_above && [ "$(told alpha)" = "$SINCE" ] || fail "with a brick at a third server above since $(told alpha), not $SINCE"

# ---- less again: at one server, for the other ----
rm "$A/$AT_ALPHA"
grows() { write $AT_BETA 21; }
wait_until 60 grows || fail "after something was removed nothing grows at the other server"
wait_until 60 is_told 0 || fail "still above: $(told alpha), $(told beta)"
agrees() { for name in alpha beta gamma; do on $name usage verify --wait 30 >verified.$name 2>&1 || return 1; done; }
wait_until 60 agrees || fail "usage verify: $(cat verified.*)"

# ---- lifted, and given again, above a hard one ----
resize --grace 1h
wait_until 60 write $AT_BETA 40 || fail "40 MiB"
wait_until 60 is_above || fail "40 MiB are not above 32 MiB"
resize --soft-quota 0 --grace 0
wait_until 60 is_told 0 || fail "above a limit that was lifted: $(told alpha), $(told beta)"
wait_until 60 write $AT_BETA 44 || fail "without a limit"
resize --quota 64M --soft-quota 56M --grace 1h
wait_until 60 write big 8 || fail "8 MiB, of 64 MiB"
wait_until 60 write big 14 || fail "14 MiB, of 64 MiB"
wait_until 60 is_above || fail "58 MiB are not above 56 MiB"
beyond() { ! write big 40; }
wait_until 60 beyond || fail "more than the hard limit"
pass
