#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The template and the example build outside of the tree, against what is installed, and load; rot13 rotates.
. "$(dirname "$0")/../mount/lib.sh"
[ -x "$STRATUS_BIN/stratus-graph-run" ] || skip "no $STRATUS_BIN/stratus-graph-run: run ./bootstrap build, or set STRATUS_BIN"
CC=${CC:-cc}
need pkg-config "${CC%% *}" # it may be "ccache gcc"
scratch
export PKG_CONFIG_PATH=$STRATUS_BIN/../lib/pkgconfig PATH=$STRATUS_BIN:$PATH
unset STRATUS_XLATOR_PATH

for name in template rot13; do
	cp -r "$TOP/extras/$name" "$SCRATCH/$name"
	make -s -C "$SCRATCH/$name" CFLAGS="-O2 -g -Werror" >"$SCRATCH/$name.log" 2>&1 || fail "$name doesn't build"
	make -s -C "$SCRATCH/$name" check >"$SCRATCH/$name.log" 2>&1 || fail "$name: make check"
done

# ---- what a slip says: the file that it is in, what is missing in the library ----
cd "$SCRATCH"
says() { # PATTERN WORDS...
	local pattern=$1 status=0
	shift
	STRATUS_XLATOR_PATH=$SCRATCH/slip stratus-graph-run "$@" >out 2>&1 || status=$?
	[ "$status" != 0 ] && grep -q -- "$pattern" out || fail "'$pattern' is not in what it says, status $status: $(cat out)"
}
library() { # NAME SED: encryption/NAME
	mkdir -p slip/encryption
	sed "$2; s,encryption/rot13\",encryption/$1\"," rot13/rot13.c >"$1.c"
	# shellcheck disable=SC2046,SC2086
	$CC -std=gnu11 -fPIC $(pkg-config --cflags stratus) -shared -o "slip/encryption/$1.so" "$1.c" $(pkg-config --libs stratus)
	printf 'volume memory\n    type debug/memory\nend-volume\nvolume slip\n    type encryption/%s\n    subvolumes memory\nend-volume\n' "$1" >"$1.vol"
}
echo "create x" >x.graph
library unmarked '/^XLATOR_MODULE/d'
says 'unmarked.so is no translator: it lacks the line XLATOR_MODULE' unmarked.vol x.graph
library nameless 's/struct xlator_type xlator_type/struct xlator_type its_type/'
says 'nameless.so is no translator: it lacks a variable xlator_type' nameless.vol x.graph
library good ''
sed 's/subvolumes memory/subvolumes memry/' good.vol >wired.vol
says 'wired.vol:6: no volume above this line is called "memry"' wired.vol x.graph
sed -n '4,$p' good.vol >below.vol
sed -n 1,3p good.vol >>below.vol
says 'below.vol:3: no volume above this line is called "memory": it stands below, in line 5' below.vol x.graph
says "can't read nowhere.graph" good.vol nowhere.graph
: >empty.vol
says 'empty.vol: no volume in it' empty.vol x.graph

# ---- what a script can't do says why, and in which line ----
in_script() { # PATTERN COMMAND
	printf '# a line before\n%s\n' "$2" >one.graph
	says "^one.graph:2: .*$1" good.vol one.graph
}
in_script 'volume slip (encryption/good) has no option "rotate-raed"; did you mean "rotate-read"?' 'set slip rotate-raed off'
in_script 'volume memory (debug/memory) has no option "x"' 'set memory x off'
in_script 'paths begin at the root, which is /, and have no . or .. in them: \.$' 'ls .'
in_script 'volume slip (encryption/good) takes no commands' 'ctl slip bogus'
in_script 'ctl is followed by 1 words, not by 2 to' 'ctl bogus'
in_script 'there is no command raed: did you mean read' 'raed x'

# ---- and so does a translator that gives nothing: it is named, and nobody crashes ----
library empty 's/int err = read_on(rq, x->child\[0\], in, out);/int err = 0;/; s/if (err || !p->rotate_read)/if (!err || !p->rotate_read)/'
printf 'create x\nwrite x 0 text\nread x\n! EIO\n' >empty.graph
STRATUS_XLATOR_PATH=$SCRATCH/slip stratus-graph-run empty.vol empty.graph 2>out || fail "no EIO of an empty answer: $(cat out)"
grep -q 'encryption/empty has returned 0 to read without the data' out || fail "who gave an empty answer is not named: $(cat out)"
pass
