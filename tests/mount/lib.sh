# SPDX-License-Identifier: Apache-2.0
# What the tests on a real mount share: one brick, one server and mounts of it, each a process, all gone afterwards.
#
#   . "$(dirname "$0")/../mount/lib.sh"
#   scratch; start_stack "$SCRATCH"; ... "$MNT" ...; pass
#
# $STRATUS_BIN is the directory of `stratus` (default: build/install/bin of the tree), $STRATUS_SBIN that of `stratusd`.
# $LONG=1 asks for the full length where a test runs a sample otherwise. $SEED repeats a run. $TEST_TMP is where the
# scratch directory is made (default /var/tmp: it must lie on a disk file system that has extended attributes).
set -euo pipefail
export LC_ALL=C

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
STRATUS_BIN=${STRATUS_BIN:-$TOP/build/install/bin}
STRATUS_SBIN=${STRATUS_SBIN:-$STRATUS_BIN/../sbin}
STRATUS=$STRATUS_BIN/stratus
STRATUSD=$STRATUS_SBIN/stratusd
LONG=${LONG:-0}
SEED=${SEED:-$(( (RANDOM << 15) | RANDOM ))}
TEST=$(basename "$0" .sh)

SCRATCH=
declare -A PIDS=()   # process id -> what it is; by note()
declare -A BORN=()   # process id -> when it was started, as it is in /proc
declare -a MOUNTS=() # directories to unmount; those below $SCRATCH are anyway
AT_EXIT=             # a function that is called first when the test ends; what it returns changes nothing

# note PID WHAT: it is ours, and is to end with the test, be it a child or one that went to the background. When it has ended by itself (bash asks for its children's status at once) its number
# is the next test's to have: so from now on kill() and gone() look at when it was started, too. Who has seen it end says `unset "PIDS[PID]"`.
note() {
	birth_of "$1"
	PIDS[$1]=$2 BORN[$1]=${STARTED:-before}
}
# Sets $STARTED: in ticks since the machine was started (proc(5): the 22nd of its stat, of which the second may have blanks); nothing if there is no such process.
birth_of() {
	local text=
	{ IFS= read -r -d '' text <"/proc/$1/stat"; } 2>/dev/null || :
	read -r -d '' -a text <<<"${text##*)}" || :
	STARTED=${text[19]-}
}
# still PID: nobody else has the number of one that was noted.
still() {
	[ -n "${PIDS[$1]+noted}" ] || return 0
	birth_of "$1"
	[ "${BORN[$1]}" = "$STARTED" ]
}
# The shell's, but for processes that were noted and whose numbers others have: to it they are not there.
kill() {
	local word words=() pids=() other=0
	for word; do
		if [[ ! $word =~ ^[0-9]+$ ]]; then
			words+=("$word")
		elif still "$word"; then
			pids+=("$word")
		else
			other=1
			echo "$TEST: kill: ${PIDS[$word]} (process $word) is not there any more" >&2
		fi
	done
	[ ${#pids[@]} -gt 0 ] || [ "$other" = 0 ] || return 1
	builtin kill "${words[@]}" "${pids[@]}" && [ "$other" = 0 ]
}

say() { printf '%s: %s\n' "$TEST" "$*"; }
pass() { say "passed"; exit 0; }
skip() { say "skipped: $*"; exit 77; }
leave_out() { printf '[  SKIPPED ] %s: %s\n' "$TEST" "$*"; } # a part of the test, counted by run.sh
fail() { # in one line, whatever was asked for the reason: of a failure often only lines that say so are kept
	local why=${*//[[:space:]]/ }
	while [[ $why == *"  "* ]]; do why=${why//  / }; done
	printf '%s: FAILED: %s\n' "$TEST" "$why" >&2
	show_logs >&2
	show_errors >&2
	printf '%s: FAILED: %s\n' "$TEST" "$why" >&2 # again: often only the end of what was printed is kept
	exit 1
}
show_errors() { # the last that each process calls an error
	local log
	[ -n "$SCRATCH" ] || return 0
	for log in "$SCRATCH"/*.log "$SCRATCH"/*/*.log; do
		[ ! -f "$log" ] || grep -h '^[^ ]* error ' "$log" | tail -n 3 || :
	done
}
show_logs() {
	local log pid status
	[ -n "$SCRATCH" ] || return 0
	for pid in "${!PIDS[@]}"; do # one that went by itself may have left no other trace
		kill -0 "$pid" 2>/dev/null && continue
		status=0
		wait "$pid" || status=$?
		printf -- '--- %s has ended, status %d\n' "${PIDS[$pid]}" "$status"
	done
	for log in "$SCRATCH"/*.log "$SCRATCH"/*/*.log; do
		[ -s "$log" ] || continue
		printf -- '--- the end of %s\n' "${log#"$SCRATCH"/}"
		tail -n 25 "$log"
	done
}

need_root() { [ "$(id -u)" = 0 ] || skip "needs root"; }
need_stack() {
	[ -c /dev/fuse ] || skip "needs /dev/fuse"
	[ -x "$STRATUS" ] || skip "no $STRATUS: run ./bootstrap build, or set STRATUS_BIN"
	[ -x "$STRATUSD" ] || skip "no $STRATUSD: run ./bootstrap build, or set STRATUS_SBIN"
}
need() {
	local program
	for program; do command -v "$program" >/dev/null || skip "needs the program $program"; done
}

# REPLICA=3 (or 2; 3a: with an arbiter) gives each test that starts a stack one of so many bricks, each with a server of its own, and a
# coordinator; ONE_DOWN=1 kills the server of the second before the test begins. See replica.sh.
# SPREAD=4 spreads it over so many bricks, or sets of REPLICA; see spread.sh.
REPLICA=${REPLICA:-1}
ONE_DOWN=${ONE_DOWN:-0}
SPREAD=${SPREAD:-1}
# TENANT=NAME makes the test a tenant of its one brick. See tenancy.sh.
TENANT=${TENANT-}
# CRYPT=1 encrypts: each mount has the key $STACK/key, which is made by the first.
CRYPT=${CRYPT:-0}
key_words() {
	[ "$CRYPT" = 1 ] || return 0
	[ -e "$STACK/key" ] || {
		head -c 64 /dev/urandom >"$STACK/key.secret"
		"$STRATUS" key init --new-secret-file "$STACK/key.secret" "$STACK/key" >&2
	}
	echo "--key=$STACK/key --secret-file=$STACK/key.secret"
}

# Makes $SCRATCH, which goes when the test ends; so do the mounts and processes of this library.
scratch() {
	SCRATCH=$(realpath "$(mktemp -d "${TEST_TMP:-/var/tmp}/stratus-XXXXXX")")
	chmod 755 "$SCRATCH"
	export STRATUS_RUN=$SCRATCH/run
	mkdir "$STRATUS_RUN"
	trap cleanup EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
}
cleanup() {
	local status=$? dir
	trap '' INT TERM HUP
	set +eu
	[ -z "$AT_EXIT" ] || "$AT_EXIT"
	end_processes mount # first: who asks a mount that does not answer does not either
	for dir in "${MOUNTS[@]}" "$SCRATCH"; do unmount_below "$dir"; done
	end_processes
	[ "$KEEP" = 1 ] && say "kept $SCRATCH" || rm -rf --one-file-system "$SCRATCH"
	exit "$status"
}
# unmount_below DIR: and DIR. By the kernel's list: a mount whose process hangs does not answer stat.
unmount_below() {
	local dir
	while read -r dir; do
		printf -v dir '%b' "$dir" # \040 is a space
		timeout 10 umount "$dir" 2>/dev/null || umount -l "$dir" 2>/dev/null
	done < <(TOP_DIR=$1 awk '$2 == ENVIRON["TOP_DIR"] || index($2, ENVIRON["TOP_DIR"] "/") == 1 {print $2}' /proc/self/mounts | tac)
}
# end_processes [WHAT]: those whose name begins so, or all: 5 seconds for them together.
end_processes() {
	local pid pids=()
	for pid in "${!PIDS[@]}"; do
		[ "${PIDS[$pid]#"${1-}"}" = "${PIDS[$pid]}" ] && [ -n "${1-}" ] && continue
		if still "$pid"; then pids+=("$pid"); else unset "PIDS[$pid]"; fi
	done
	[ ${#pids[@]} -gt 0 ] || return 0
	kill "${pids[@]}" 2>/dev/null
	poll 5 gone "${pids[@]}" || kill -9 "${pids[@]}" 2>/dev/null
	wait "${pids[@]}" 2>/dev/null
	for pid in "${pids[@]}"; do unset "PIDS[$pid]"; done
}
KEEP=${KEEP:-0}

gone() { # PID...: all of them
	local pid
	for pid; do [ ! -e "/proc/$pid" ] || ! still "$pid" || [ "$(proc_state "$pid")" = Z ] || return 1; done
}
proc_state() { sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null || true; }
# wait_until SECONDS COMMAND...: polls a condition; false if it did not come true in time. No limit is shorter than $PATIENCE seconds: what comes
# true costs nothing by it, and a machine with much else to do is no reason to fail. What must be quick is told by a `timeout`.
PATIENCE=${PATIENCE:-120}
wait_until() {
	local seconds=$(( $1 > PATIENCE ? $1 : PATIENCE ))
	shift
	poll "$seconds" "$@"
}
# poll SECONDS COMMAND...: the same, with just this limit; for what goes on, too, if it does not come true.
poll() {
	local end=$(( $(now_ms) + $1 * 1000 ))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$(now_ms)" -lt "$end" ] || return 1
		sleep 0.02
	done
}
# With -q it would end at the first line that matches: who has more to write then fails, and so does the pipe (pipefail). So it reads all.
grep() {
	local first=${1-}
	[[ $first =~ ^-[a-zA-Z]*q[a-zA-Z]*$ ]] || { command grep "$@"; return; }
	first=${first//q/}
	shift
	if [ "$first" = - ]; then command grep "$@" >/dev/null; else command grep "$first" "$@" >/dev/null; fi
}
# says PATTERN COMMAND...: a condition, as what is told may be told of a moment before.
says() {
	local pattern=$1
	shift
	grep -q -e "$pattern" < <("$@" 2>&1)
}
# In the group of the test: what ends the test at its time limit ends this, too.
timeout() { command timeout --foreground "$@"; }
now_ms() { local t=${EPOCHREALTIME/[^0-9]/}; echo $(( t / 1000 )); }
# json EXPRESSION: of python, where d is the JSON on standard input.
json() { python3 -c "import json,sys; d = json.load(sys.stdin); print($1)"; }
uuid() { cat /proc/sys/kernel/random/uuid; }
# Below the range from which the kernel picks ports by itself, so that no connection sits on it when a server restarts. Each is given once.
free_port() {
	local port
	mkdir -p "$SCRATCH/.ports"
	while :; do
		port=$(( 20000 + (RANDOM << 15 | RANDOM) % 10000 ))
		port_open "$port" || ! mkdir "$SCRATCH/.ports/$port" 2>/dev/null || { echo "$port"; return; }
	done
}
port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

rss_kib() { awk '/^VmRSS/ {print $2}' "/proc/$1/status"; }
fd_count() { ls "/proc/$1/fd" | wc -l; }
# Everything a process says about itself, as `stratus dump` prints it.
facts() { "$STRATUS" dump "$1"; }

# ---- the stack ----

# write_server_volfile FILE BRICKDIR PORT VOLUME_ID BRICK_ID: the list of lock holders is kept in `state` beside the file.
write_server_volfile() {
	mkdir -p "$(dirname "$1")/state"
	cat >"$1" <<-END
	volume posix
	    type storage/posix
	    option directory $2
	    option volume-id $4
	    option brick-id $5
	end-volume

	volume locks
	    type features/locks
	    option state-dir $(dirname "$1")/state
	    subvolumes posix
	end-volume

	volume access
	    type features/access
	    subvolumes locks
	end-volume

	volume server
	    type protocol/server
	    option listen 127.0.0.1:$3
	    subvolumes access
	end-volume
	END
	[ -z "$TENANT" ] || tenant_server "$1"
}
# write_client_volfile FILE PORT VOLUME_ID BRICK_ID ["NAME VALUE" options of the client...] [+TYPE translators above it...]
write_client_volfile() {
	local file=$1 port=$2 volume=$3 brick=$4 option below=brick0 number=0
	shift 4
	{
		printf 'volume brick0\n    type protocol/client\n    option remote-host 127.0.0.1\n'
		printf '    option remote-port %s\n    option remote-subvolume access\n' "$port"
		printf '    option volume-id %s\n    option brick-id %s\n' "$volume" "$brick"
		for option; do
			[ "${option#+}" != "$option" ] || printf '    option %s\n' "$option"
		done
		printf 'end-volume\n\n'
		for option; do
			[ "${option#+}" != "$option" ] || continue
			number=$((number + 1))
			printf 'volume extra%s\n    type %s\n    subvolumes %s\nend-volume\n\n' "$number" "${option#+}" "$below"
			below=extra$number
		done
		printf 'volume fuse\n    type mount/fuse\n    subvolumes %s\nend-volume\n' "$below"
	} >"$file.new"
	[ -z "$TENANT" ] || tenant_tls "$file.new" protocol/client client
	mv "$file.new" "$file"
}

# start_stack DIR ["NAME VALUE"|+TYPE...]: brick in DIR/brick, mount on DIR/mnt; sets $BRICK $MNT $PORT $BRICK_PID $MOUNT_PID.
start_stack() {
	local dir=$1
	shift
	if [ "$SPREAD" != 1 ]; then
		start_spread "$dir" "$@"
		return
	elif [ "$REPLICA" != 1 ]; then
		start_replicas "$dir" "$@"
		return
	fi
	BRICK=$dir/brick MNT=$dir/mnt SERVER_VOL=$dir/server.vol CLIENT_VOL=$dir/client.vol STACK=$dir
	PORT=$(free_port) VOLUME_ID=$(uuid) BRICK_ID=$(uuid)
	mkdir -p "$BRICK" "$MNT"
	write_server_volfile "$SERVER_VOL" "$BRICK" "$PORT" "$VOLUME_ID" "$BRICK_ID"
	write_client_volfile "$CLIENT_VOL" "$PORT" "$VOLUME_ID" "$BRICK_ID" "$@"
	start_brick
	start_mount "$MNT"
	MOUNT_PID=$LAST_PID
	[ -z "$TENANT" ] || BRICK=$BRICK/tenants/$TENANT
}
start_brick() {
	"$STRATUSD" --foreground "$SERVER_VOL" >>"$STACK/stratusd.log" 2>&1 &
	BRICK_PID=$!
	note "$BRICK_PID" stratusd
	wait_until 20 answers_or_gone "$BRICK_PID" "$PORT" || fail "stratusd does not listen on port $PORT"
	gone "$BRICK_PID" && fail "stratusd has ended at its start"
	return 0
}
answers_or_gone() { gone "$1" || port_open "$2"; }
# start_mount DIR [VOLFILE [OPTIONS...]]: one more client. Sets $LAST_PID.
start_mount() {
	local dir=$1 volfile=${2:-$CLIENT_VOL} key
	shift; [ $# -eq 0 ] || shift
	mkdir -p "$dir"
	key=$(key_words)
	# shellcheck disable=SC2086
	"$STRATUS" mount --foreground $key "$@" "$volfile" "$dir" >>"$STACK/mount-$(basename "$dir").log" 2>&1 &
	LAST_PID=$!
	note "$LAST_PID" "mount $dir"
	MOUNTS+=("$dir")
	wait_until 20 mounted_or_gone "$LAST_PID" "$dir" || fail "$dir is not mounted"
	gone "$LAST_PID" && fail "the mount of $dir has ended at its start"
	timeout 100 stat "$dir/." >/dev/null || fail "$dir does not answer"
}
mounted_or_gone() { gone "$1" || mountpoint -q "$2"; }
stop_mount() { # DIR PID
	umount "$1" || fail "can't unmount $1"
	await_end "$2" "the process of $1" "after umount"
}
stop_process() { # PID WHAT
	kill "$1"
	await_end "$1" "$2" "on SIGTERM"
}
stacks() { # PID: what its threads do, if gdb is here
	! command -v gdb >/dev/null || timeout 60 gdb -p "$1" -batch -ex "thread apply all bt 16" 2>/dev/null | grep -E '^(Thread|#)'
}
await_end() { # PID WHAT WHY
	local status=0
	wait_until 20 gone "$1" || { stacks "$1" >&2; fail "$2 does not end $3"; }
	wait "$1" || status=$?
	unset "PIDS[$1]"
	[ "$status" -eq 0 ] || fail "$2 ended with status $status"
}
stop_brick() { stop_process "$BRICK_PID" stratusd; }
stop_stack() {
	[ "$SPREAD" = 1 ] || end_moving
	stop_mount "$MNT" "$MOUNT_PID"
	if [ "$SPREAD" != 1 ]; then
		stop_spread
		return
	elif [ "$REPLICA" != 1 ]; then
		stop_replicas
		return
	fi
	stop_brick
}
# kill_hard PID WHAT: a process of this shell, which has to be alive until then.
kill_hard() {
	local status=0
	kill -9 "$1"
	wait "$1" 2>/dev/null || status=$?
	unset "PIDS[$1]"
	[ "$status" = 137 ] || fail "$2 had ended with status $status before it was killed"
}
kill_brick() { kill_hard "$BRICK_PID" "stratusd of the brick"; }
restart_brick() {
	kill_brick
	start_brick
}

if [ "$SPREAD" != 1 ]; then
	. "$TOP/tests/mount/spread.sh"
elif [ "$REPLICA" != 1 ]; then
	. "$TOP/tests/mount/replica.sh"
fi
[ -z "$TENANT" ] || . "$TOP/tests/mount/tenancy.sh"

# ---- a disk of its own for $BRICK: $SCRATCH/disk, with a file system ----

disk_on() { mount -o "loop$1" "$SCRATCH/disk" "$BRICK"; } # [,OPTIONS]
disk_is_free() { [ -z "$(losetup -j "$SCRATCH/disk")" ]; }
# A test beside this one that has mounts of its own began with a copy of ours: while that lasts the file system goes on, and who mounts it gets the same, shut down as it may be.
disk_off() {
	umount "$BRICK" || fail "can't unmount $BRICK"
	wait_until 60 disk_is_free || fail "somebody keeps $SCRATCH/disk mounted"
}
# Its power goes: what has not been written yet, the log too, is lost.
disk_dies() {
	python3 - "$BRICK" <<-'END'
	import fcntl, os, struct, sys
	fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack("I", 2)) # FS_IOC_SHUTDOWN, no flush of the log
	END
	disk_off
}
