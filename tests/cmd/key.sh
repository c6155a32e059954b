#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `stratus key`: each slot opens the file, one that was removed does not, secrets come by descriptors, and the last slot stays.
. "$(dirname "$0")/../mount/lib.sh"
[ -x "$STRATUS" ] || skip "no $STRATUS: run ./bootstrap build, or set STRATUS_BIN"
need python3
scratch
cd "$SCRATCH"
key() { "$STRATUS" key "$@"; }
no() { # SENTENCE COMMAND...
	local sentence=$1 said
	shift
	said=$("$@" 2>&1) && fail "'$*' did not fail"
	grep -qF -- "$sentence" <<<"$said" || fail "'$*' says: $said"
}
key init --new-passphrase-fd 3 k 3<<<"one two three" >/dev/null || fail "no key file is made"
[ "$(stat -c %a k)" = 600 ] || fail "others may read the key file"
cp k before
no "is there already" key init --new-passphrase-fd 3 k 3<<<"other"
cmp k before || fail "a key file was overwritten"
no "opens no slot" key check --passphrase-fd 3 k 3<<<"one two four"
key check --passphrase-fd 3 k 3<<<"one two three" >/dev/null || fail "the passphrase does not open it"
mkdir credentials
echo "one two three" >credentials/stratus.passphrase
CREDENTIALS_DIRECTORY=$SCRATCH/credentials key check k >/dev/null || fail "the systemd credential does not open it"
head -c 64 /dev/urandom >bytes
echo short >few
no "has only 6 bytes" key add-keyfile --passphrase-fd 3 --new-secret-file few k file 3<<<"one two three"
key add-keyfile --passphrase-fd 3 --new-secret-file bytes k file 3<<<"one two three" || fail "no slot for a file"
key add-passphrase --secret-file bytes --new-passphrase-fd 3 k second 3<<<"another one" || fail "no second passphrase"
code=$(key recovery --secret-file bytes k) || fail "no recovery code"
grep -qE '^([A-Z0-9]{4}-){7}[A-Z0-9]{4}$' <<<"$code" || fail "that is no recovery code: $code"
key check --recovery-code --passphrase-fd 3 k 3<<<"${code,,}" >/dev/null || fail "the recovery code does not open it"
no "is no recovery code" key check --recovery-code --passphrase-fd 3 k 3<<<"nonsense"
key rotate --passphrase-fd 3 k 3<<<"another one" >/dev/null || fail "can't rotate"
slots=$(key check --json --secret-file bytes k | json '" ".join([s["kind"] + ":" + s["name"] for s in d["slots"]] + [str(d["master-keys"])])')
[ "$slots" = "passphrase:passphrase keyfile:file passphrase:second recovery:recovery 2" ] || fail "the slots are $slots"
for name in passphrase second recovery; do key remove --secret-file bytes k $name || fail "can't remove $name"; done
no "opens no slot" key check --passphrase-fd 3 k 3<<<"another one"
no "is the last slot" key remove --secret-file bytes k file
no "there is no slot" key remove --secret-file bytes k nobody
# ---- several at once, links, owners ----
pids=()
for i in 1 2 3 4 5 6; do key add-keyfile --secret-file bytes --new-secret-file bytes k "at-once-$i" & pids+=($!); done
for pid in "${pids[@]}"; do wait "$pid" || fail "of several changes at once one failed"; done
[ "$(key check --secret-file bytes k | grep -c at-once)" = 6 ] || fail "of several changes at once some are lost: $(key check --secret-file bytes k)"
mkdir real
mv k real/k && ln -s real/k k && chmod 640 real/k
key rotate --secret-file bytes k >/dev/null || fail "can't rotate behind a symbolic link"
[ -L k ] && [ "$(stat -c %a real/k)" = 640 ] || fail "a link was replaced, or the mode is lost: $(ls -l k real)"
key check --json --secret-file bytes real/k | grep -q '"master-keys": *3' || fail "the file behind the link was not changed"
for i in 1 2 3 4 5 6; do key remove --secret-file bytes k "at-once-$i" || fail "can't remove at-once-$i"; done
no "is the last slot" key remove --secret-file bytes k file
head -c 100 k >damaged
no "not a key file" key check --secret-file bytes damaged
no "there is no terminal" setsid "$STRATUS" key check k
# ---- who has keys in memory lets nobody but root look into it, and makes no core dump: the kernel gives its files in /proc to root then ----
NOBODY="setpriv --reuid=65534 --regid=65534 --clear-groups --"
is_hidden() { # PID
	[ "$(cat "/proc/$1/comm")" = stratus ] && [ "$(awk '/^Uid:/ {print $2}' "/proc/$1/status")" = 65534 ] && [ "$(stat -c %u "/proc/$1/environ")" = 0 ]
}
if [ "$(id -u)" = 0 ] && chmod 644 real/k && $NOBODY "$STRATUS" key --help >/dev/null 2>&1; then
	mkfifo secret
	exec 7<>secret
	for words in "check --passphrase-fd 7 k" "init --new-passphrase-fd 7 another"; do
		# shellcheck disable=SC2086
		$NOBODY "$STRATUS" key $words >"$SCRATCH/hidden.out" 2>&1 &
		wait_until 20 is_hidden $! || fail "others of the same user can read the memory of 'stratus key $words': $(cat "$SCRATCH/hidden.out")"
		kill $!
		wait $! 2>/dev/null || true
	done
	exec 7<&-
else
	leave_out "nobody else can run $STRATUS here: whether a process with keys is hidden"
fi
# ---- a prompt that is interrupted leaves the terminal as it was ----
KEYFILE=$PWD/k STRATUS=$STRATUS timeout 100 python3 - <<'END' || fail "an interrupted prompt leaves the terminal without echo, or does not end"
import os, pty, signal, sys, termios
echoes = lambda fd: bool(termios.tcgetattr(fd)[3] & termios.ECHO)
for key, number in (b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT), (None, signal.SIGTERM), (b"wrong\n", None):
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(os.environ["STRATUS"], ["stratus", "key", "check", os.environ["KEYFILE"]])
    said = b""
    while not said.endswith(b": "):
        said += os.read(fd, 1000)
    tty = os.open(os.readlink(f"/proc/{pid}/fd/0"), os.O_RDWR | os.O_NOCTTY)  # what is set outlives the process
    if echoes(tty):
        sys.exit("the prompt echoes")
    if key:
        os.write(fd, key)
    else:
        os.kill(pid, number)
    status = os.waitpid(pid, 0)[1]
    if not echoes(tty) or (number and os.WTERMSIG(status) != number) or (not number and os.WEXITSTATUS(status) == 0):
        sys.exit(f"{number}: status {status}, echo {echoes(tty)}")
    os.close(tty), os.close(fd)
END
pass
