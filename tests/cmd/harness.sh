#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The tests' own machinery: what fails is counted, and a test that hits its time limit leaves no process and no mount.
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
unset MUST_RUN CHECK_DEADLINE TEST_LIMIT # of the run that this test is part of
scratch
cd "$SCRATCH"
LIB=$TOP/tests/mount/lib.sh
write_test() { # NAME: its lines are on standard input
	{ printf '#!/bin/bash\n. %s\n' "$LIB"; cat; } >"$1"
	chmod +x "$1"
}
runs() { # "PASSED FAILED SKIPPED" TEST...
	local want=$1
	shift
	: >results
	"$TOP/tests/run.sh" results "$@" >out 2>&1 || fail "run.sh itself fails: $(cat out)"
	[ "$(cat results)" = "$want" ] || fail "$* counts as $(cat results) instead of $want: $(cat out)"
}

# ---- a failure is one, whatever the test does at its end ----
write_test fails <<'END'
scratch
AT_EXIT=true
[ 1 = 2 ] || fail "they differ"
END
runs "0 1 0" ./fails
grep -q 'they differ' out || fail "the reason is not shown: $(cat out)"
# Of the closing lines alone it can be understood: all of the reason, and where the logs ended.
write_test tells <<'END'
scratch
seq -f 'line %g of the log' 30 >"$SCRATCH/some.log"
fail "they differ: {
  one
}"
END
rm -f results.failed
runs "0 1 0" ./tells
! "$TOP/tests/run.sh" results --summary >out || fail "a failure is none"
tr -s ' \n' ' ' <out | grep -q 'they differ: { one }' || fail "the end does not have the whole reason: $(cat out)"
grep -q 'line 30 of' out && ! grep -q 'line 20 of' out || fail "the end does not have the end of the log: $(cat out)"
write_test passes <<'END'
scratch
AT_EXIT=false
pass
END
runs "1 0 0" ./passes

! "$TOP/tests/run.sh" /dev/full ./passes >out 2>&1 || fail "a result that could not be written is lost: $(cat out)"

# ---- who has the number of a process that has ended is left alone; nobody evades that ----
write_test reused <<'END'
scratch
sleep 300 &
OTHER=$!
note "$OTHER" "what has ended long ago"
BORN[$OTHER]=1
gone "$OTHER" || fail "the process that has the number now is taken for ours"
! kill "$OTHER" 2>/dev/null || fail "the process that has the number now was sent a signal"
sleep 300 &
note $! ours
kill -0 $! || fail "ours is taken for another"
echo "$OTHER" >other
echo $! >ours
pass
END
runs "1 0 0" ./reused
gone "$(cat ours)" || fail "a process of a test goes on"
! gone "$(cat other)" || fail "a test has ended a process that was not its own"
kill "$(cat other)"
! grep -rnE --include='*.sh' 'PIDS\[[^]]*\]=' "$TOP/tests" | grep -v 'lib.sh:.*PIDS\[$1\]=$2' || fail "a script does not use note()"
! grep -nE '^[[:space:]]*(note|birth_of|still|kill|gone|end_processes)\(\)' "$TOP"/tests/*/*.sh | grep -v "^$LIB:" || fail "a script has a function of its own by the name of one that ends processes"

# ---- what can't run, where it must ----
write_test skips <<'END'
skip "not here"
END
runs "0 0 1" ./skips
MUST_RUN=1 runs "0 1 0" ./skips
grep -q 'must run here' out || fail "the reason is not shown: $(cat out)"
: >results
! "$TOP/tests/run.sh" results 2>out || fail "no test at all passes"
CHECK_DEADLINE=$(($(date +%s) - 1)) runs "0 1 0" ./passes
grep -q 'no time left' out || fail "the reason is not shown: $(cat out)"

write_test partly.sh <<'END'
leave_out "no such device"
pass
END
runs "1 0 1" ./partly.sh

# ---- limits ----
write_test slow.sh <<'END'
# limit: 1 s, 60 s with LONG=1
sleep 3
pass
END
LONG=0 runs "0 1 0" ./slow.sh
LONG=1 runs "1 0 0" ./slow.sh
LONG=1 TEST_LIMIT=1 runs "0 1 0" ./slow.sh
CHECK_DEADLINE=$(($(date +%s) + 2)) LONG=1 runs "0 1 0" ./slow.sh

# ---- a test that is stuck, with a mount whose server is stopped, and with a program that has a limit of its own ----
export TEST_TMP=$SCRATCH/inner
mkdir "$TEST_TMP"
write_test stuck <<'END'
scratch
start_stack "$SCRATCH"
mkdir "$SCRATCH/a b"
mount -t tmpfs none "$SCRATCH/a b"
kill -STOP "$BRICK_PID"
: >began
timeout --foreground 300 ls "$MNT" # in the test's group: bash looks at no signal that comes just before it waits
END
nothing_left() { # WHEN
	! grep -F "$TEST_TMP" /proc/self/mounts || fail "mounts are left $1"
	! left >/dev/null || fail "processes are left $1: $(left | xargs -I{} sh -c 'tr "\0" " " <{}')"
	[ -z "$(ls -A "$TEST_TMP")" ] || fail "files are left $1: $(ls -A "$TEST_TMP")"
}
left() { grep -alF "$TEST_TMP" /proc/[0-9]*/cmdline 2>/dev/null; }
AFTER=5
until [ -e began ]; do # on a busy machine it takes longer until it is stuck
	[ $((AFTER *= 2)) -le 320 ] || fail "it does not get to where it should be stuck: $(cat out)"
	TEST_LIMIT=$AFTER runs "0 1 0" ./stuck
done
grep -q "not done within $AFTER s" out || fail "it was not stuck where it should be: $(cat out)"
nothing_left "after the time limit"

# ---- two at once: each waits for the other ----
for i in 1 2; do
	write_test "meets$i" <<-END
	: >here$i
	wait_until 20 test -e here$((3 - i)) || fail "the other does not run"
	[ $i = 1 ] || fail "the second fails"
	pass
	END
done
: >results
"$TOP/tests/run.sh" results --jobs 2 ./meets1 ./meets2 ./passes >out 2>&1 || fail "run.sh itself fails: $(cat out)"
[ "$(sort results | uniq -c | tr -s ' \n' ' ')" = " 1 0 1 0 2 1 0 0 " ] || fail "two at once count as $(cat results): $(cat out)"

# ---- each with a loopback of its own, where the port of the test beside it is free; who is to be calm comes after them, and who is alone last ----
for i in 1 2; do
	write_test "listens$i.sh" <<-END
	python3 -c '
	import os, socket, time
	listening = socket.create_server(("127.0.0.1", 20000))
	open("listens$i", "w").close()
	while not (os.path.exists("listens1") and os.path.exists("listens2")): time.sleep(0.02)'
	: >done$i
	END
done
write_test alone.sh <<'END'
# alone: sees whether others run
[ -e done1 ] && [ -e done2 ] && [ -e calm1 ] && [ -e calm2 ] || fail "others have not ended"
pass
END
for i in 1 2; do # each waits for the other
	write_test "calm$i.sh" <<-END
	# calm: sees whether others run
	[ -e done1 ] && [ -e done2 ] || fail "others have not ended"
	: >calm$i
	wait_until 20 test -e calm$((3 - i)) || fail "the other does not run"
	pass
	END
done
: >results
TEST_LIMIT=200 "$TOP/tests/run.sh" results --jobs 2 --own-network ./alone.sh ./calm1.sh ./listens1.sh ./calm2.sh ./listens2.sh >out 2>&1 || fail "run.sh itself fails: $(cat out)"
[ "$(sort results | uniq -c | tr -s ' \n' ' ')" = " 5 1 0 0 " ] || fail "with a network of their own they count as $(cat results): $(cat out)"

# ---- the whole run is ended ----
for jobs in 1 2; do
	rm began
	"$TOP/tests/run.sh" results --jobs "$jobs" ./stuck >out 2>&1 &
	RUN=$!
	note "$RUN" run.sh
	wait_until 20 test -e began || fail "the test does not begin: $(cat out)"
	kill "$RUN"
	wait_until 30 gone "$RUN" || fail "run.sh goes on"
	nothing_left "after the run was ended"
done
pass
