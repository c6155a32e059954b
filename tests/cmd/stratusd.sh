#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# stratusd: the exit status tells whether all is served; a failure changes nothing; signals do what the page says.
. "$(dirname "$0")/../mount/lib.sh"
need_root
[ -x "$STRATUSD" ] || skip "no $STRATUSD: run ./bootstrap build, or set STRATUS_SBIN"
scratch
cd "$SCRATCH"
mkdir brick
PORT=$(free_port) V=$(uuid) B=$(uuid)
write_server_volfile "$SCRATCH/a.vol" "$SCRATCH/brick" "$PORT" "$V" "$B"
status=0
"$STRATUS" usage 2>err || status=$?
[ "$status" = 1 ] && grep -q 'no stratusd runs here' err || fail "usage without a stratusd: status $status, $(cat err)"
refused() { # WORDS... : stratusd says them and ends with 1
	local status=0
	timeout 300 "$STRATUSD" --log "$SCRATCH/never.log" --pid-file "$SCRATCH/never.pid" "${files[@]}" 2>err || status=$?
	[ "$status" = 1 ] || fail "status $status instead of 1 for ${files[*]}: $(cat err)"
	[ "$(wc -l <err)" = 1 ] || fail "not one sentence: $(cat err)"
	grep -q -- "$1" err || fail "'$1' is not in: $(cat err)"
	[ ! -e never.pid ] || fail "a pid file of a process that serves nothing"
}

# nothing is started by a check, and nothing made
"$STRATUSD" --check a.vol >/dev/null
[ -z "$(ls -A brick)" ] || fail "--check has changed the brick: $(ls -A brick)"
files=(nowhere.vol); refused 'nowhere.vol'
sed 's/listen/lisen/' a.vol >bad.vol; files=(bad.vol); refused 'listen'
sed 's,storage/posix,storage/posx,' a.vol >bad.vol; files=(bad.vol); refused 'posx'
sed 's,option directory .*,option directory /nonexistent/brick,' a.vol >bad.vol; files=(bad.vol); refused '/nonexistent/brick'
write_client_volfile client.vol "$PORT" "$V" "$B"; files=(client.vol); refused 'stratus mount'
files=(a.vol bad.vol); refused '/nonexistent/brick'
[ -z "$(ls -A brick)" ] || fail "a process that could not serve has changed the brick: $(ls -A brick)"

# returns when it serves
"$STRATUSD" --log "$SCRATCH/d.log" --pid-file "$SCRATCH/d.pid" a.vol
PID=$(cat d.pid)
note "$PID" stratusd
port_open "$PORT" || fail "stratusd has returned but does not listen"
files=(a.vol); refused "$PORT\|served"
"$STRATUS" ps | grep -q "$PID .*a.vol" || fail "stratus ps does not show it"
[ "$("$STRATUS" ps --json | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["pid"])')" = "$PID" ] || fail "status --json"

# one that is stopped holds up nobody, and it is told what is wrong with it
"$STRATUSD" --foreground --state "$SCRATCH/other-state" --name other --listen "127.0.0.1:$(free_port)" >other.log 2>&1 &
OTHER=$!
note "$OTHER" stratusd
wait_until 20 "$STRATUS" status || fail "the other stratusd does not answer"
kill -STOP "$OTHER"
timeout 300 "$STRATUS" ps >out || fail "stratus ps waits for a stopped process"
grep -q "$OTHER *stratusd *does not answer" out && grep -q "$PID .*a.vol" out || fail "stratus ps: $(cat out)"
[ "$(timeout 300 "$STRATUS" ps --json | json '[p.get("answers", True) for p in d if p["pid"] == '"$OTHER"']')" = "[False]" ] || fail "ps --json"
timeout 300 "$STRATUS" log-level "$PID" >/dev/null || fail "a process that runs can't be asked"
for words in status "dump $OTHER" "volume info"; do
	# shellcheck disable=SC2086
	! timeout 300 "$STRATUS" $words 2>err || fail "a stopped process has answered"
	grep -q "process $OTHER (stratusd) does not answer; see its log" err || fail "stratus $words says: $(cat err)"
done
! timeout 300 "$STRATUS" usage >out 2>err || fail "usage without a stopped process succeeds"
grep -q "stratusd $OTHER does not answer: what is charged at its bricks is missing" err || fail "stratus usage says: $(cat err)"
kill -CONT "$OTHER"
"$STRATUS" volume info photos >out 2>&1 || true
[ "$(wc -l <out)" = 1 ] || fail "what stratusd refuses is told in more than a line: $(cat -A out)"
stop_process "$OTHER" "the other stratusd"

timeout 600 python3 "$TOP/tests/cmd/stopped.py" "$STRATUS" "$STRATUS_RUN" "$PID" || fail "who was stopped for a moment does not hear the rest"

# live options change, others are named
"$STRATUS" log-level "$PID" debug >/dev/null
[ "$("$STRATUS" log-level "$PID")" = debug ] || fail "the log level did not change"
cp a.vol good.vol
sed -i "s/127.0.0.1:$PORT/127.0.0.1:1/" a.vol
! "$STRATUS" reload "$PID" 2>err || fail "a new listen address was taken over without a restart"
grep -q 'restart' err || fail "the next step is not named: $(cat err)"
echo nonsense >>a.vol
! "$STRATUS" reload "$PID" 2>err || fail "a wrong volfile was taken over"
cp good.vol a.vol
"$STRATUS" reload "$PID" || fail "reload of the same volfile"
live=$("$STRATUS" xlator help protocol/server --json |
	python3 -c 'import json,sys; print(next((o["name"] + " " + str(o["min"] + 1) for o in json.load(sys.stdin)["options"] if o["live"] and o["kind"] == "number"), ""))')
if [ -n "$live" ]; then
	sed -i "s/type protocol.server/&\n    option $live/" a.vol
	"$STRATUS" reload "$PID" || fail "reload of a live option"
	grep -q "option ${live% *}: ${live#* }" < <("$STRATUS" dump "$PID") || fail "the live option $live was not changed"
	cp good.vol a.vol
	kill -HUP "$PID"
	wait_until 10 eval "! '$STRATUS' dump $PID | grep -q 'option ${live% *}: ${live#* }'" || fail "SIGHUP did not take it back"
fi
kill -USR1 "$PID"
wait_until 10 grep -q 'volume posix' "$STRATUS_RUN/stratusd-$PID.dump" || fail "SIGUSR1 has written no dump"

mv d.log d.log.1
kill -HUP "$PID"
wait_until 10 test -s d.log || fail "SIGHUP has not reopened the log"
kill "$PID"
wait_until 20 gone "$PID" || fail "stratusd does not end on SIGTERM"
grep -q "ended by signal 15 from process $$ ($(cat "/proc/$$/comm")) of user $(id -u)\$" d.log || fail "who has ended it is not told: $(cat d.log)"
unset "PIDS[$PID]"
[ ! -e d.pid ] || fail "the pid file stays"
[ -z "$(ls "$STRATUS_RUN"/*.sock 2>/dev/null)" ] || fail "the control socket stays"

# ---- of a cluster store: by a certificate that nobody would take for a server's it does not begin; what is not served is told ----
need openssl python3
DAY=86400 LISTEN=127.0.0.1:$(free_port) CLUSTER=127.0.0.1:$(free_port)
made() { python3 "$TOP/tests/cmd/ending.py" "$@" 2>made.err || fail "no certificate $1: $(cat made.err)"; }
"$STRATUS" ca init --dir ca --days 3000 >/dev/null
made own ca stratus:server 127.0.0.1 -$DAY $((300 * DAY))
made client ca stratus:client/a "" -$DAY $((300 * DAY))
made old ca stratus:server 127.0.0.1 -$((20 * DAY)) -$DAY
made early ca stratus:server 127.0.0.1 $DAY $((300 * DAY))
made elsewhere ca stratus:server 10.9.9.9 -$DAY $((300 * DAY))
for name in own client old early elsewhere; do cp ca/crl.pem $name/ && chmod 600 $name/key.pem; done
files=(--state "$SCRATCH/state" --name alpha --listen "$LISTEN" --cluster "$CLUSTER" --tls-dir)
for pair in 'client:is no certificate of a server' 'old:has expired' 'early:is not valid yet' 'elsewhere:127.0.0.1 is not in the certificate'; do
	own=("${files[@]}")
	files+=("$SCRATCH/${pair%%:*}")
	refused "${pair#*:}"
	files=("${own[@]}")
done
begin() { # DIRECTORY: stratusd with its certificate; what it says is in err
	"$STRATUSD" --log "$SCRATCH/c.log" --pid-file "$SCRATCH/c.pid" --state "$SCRATCH/state" --name alpha --listen "$LISTEN" --tls-dir "$1" 2>err || fail "it does not begin: $(cat err)"
	PID=$(cat c.pid)
	note "$PID" stratusd
}
ends() { # it is not our child
	kill "$PID"
	wait_until 20 gone "$PID" || fail "stratusd does not end on SIGTERM"
	unset "PIDS[$PID]"
}
begin own
[ ! -s err ] || fail "it says: $(cat err)"
"$STRATUS" volume create photos --start --tls-dir "$SCRATCH/own" 127.0.0.1:"$SCRATCH/b0" >/dev/null
"$STRATUS" volume create plain --start 127.0.0.1:"$SCRATCH/b1" >/dev/null
ends
begin old
grep -q 'has expired' err || fail "it does not tell that its certificate has expired: $(cat err)"
grep -q 'has expired' c.log || fail "its log does not tell that its certificate has expired"
ends
mv b1 b1-away
mv own/crl.pem crl.pem
chmod 644 own/key.pem
begin own
grep -q "^stratusd: not all of volume plain is served: .*b1 was a brick, but is none now" err || fail "a disk that is missing is not told: $(cat err)"
grep -q "^stratusd: not all of volume photos is served: .*crl.pem" err || fail "a list that is missing is not told: $(cat err)"
grep -q "^stratusd: others than its owner may use $SCRATCH/own/key.pem" err || fail "a key that others may read is not told: $(cat err)"
[ "$(wc -l <err)" = 3 ] || fail "it says: $(cat err)"
ends
pass
