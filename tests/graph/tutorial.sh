#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# doc/translator-tutorial.md is true: its blocks, in order, are files that are written and commands that succeed.
. "$(dirname "$0")/../mount/lib.sh"
[ -x "$STRATUS_BIN/stratus-graph-run" ] || skip "no $STRATUS_BIN/stratus-graph-run: run ./bootstrap build, or set STRATUS_BIN"
need pkg-config make "${CC:-cc}"
scratch
export PKG_CONFIG_PATH=$STRATUS_BIN/../lib/pkgconfig PATH=$STRATUS_BIN:$STRATUS_SBIN:$PATH
unset STRATUS_XLATOR_PATH
mounts=no
[ -c /dev/fuse ] && [ -x "$STRATUS" ] && mounts=yes

# ```LANGUAGE file=NAME: the file NAME.  ```sh run: commands.  ```sh mount: commands that need FUSE.  One shell runs them all.
awk -v mounts=$mounts '
	/^```$/ && inside { if (end != "") print end; inside = 0; next }
	/^```/ && !inside {
		inside = 1; end = ""; mute = 0
		if (match($0, /file=[^ ]+/)) { print "cat > " substr($0, RSTART + 5, RLENGTH - 5) " <<\"END-OF-BLOCK\""; end = "END-OF-BLOCK" }
		else if ($0 == "```sh mount") mute = mounts == "no"
		else if ($0 != "```sh run") { print "echo block without a meaning: " NR " >&2; exit 1"; mute = 1 }
		next
	}
	inside && !mute { print }
' "$TOP/doc/translator-tutorial.md" >"$SCRATCH/steps"
grep -q 'stratus-graph-run rot13.vol rotates.graph' "$SCRATCH/steps" || fail "the page's blocks were not found"

mkdir "$SCRATCH/work"
cd "$SCRATCH/work"
[ $mounts = no ] || MOUNTS+=("$SCRATCH/work/mnt")
CFLAGS=-Werror bash -eux "$SCRATCH/steps" >"$SCRATCH/steps.log" 2>&1 || fail "a step of the page fails"
grep -qx 'Uryyb, Jbeyq' "$SCRATCH/steps.log" || [ $mounts = no ] || fail "the mount doesn't rotate"
# What the page shows by itself is C that a translator may have.
# shellcheck disable=SC2046
${CC:-cc} -std=gnu11 -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags stratus) periodic.c || fail "periodic.c doesn't compile"
# The handlers of compounds and of belief, which the page shows by themselves, fit the rest.
sed -i -e '/^XLATOR_MODULE/e cat compound.c believe.c; echo' \
	-e 's/.*= rot13_write,/&\n.compound = rot13_compound,\n.believe = rot13_believe,\n.reconfigure = rot13_reconfigure,/' rot13.c
STRATUS_XLATOR_PATH=$PWD/build
export STRATUS_XLATOR_PATH
make -s CFLAGS=-Werror && stratus-graph-run rot13.vol rotates.graph || fail "not with the handlers of compounds and belief"
pass
