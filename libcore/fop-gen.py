#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes fop-types.h, fop-table.c and fops.x from fops.def:  fop-gen.py KIND fops.def > file"""
import sys

C_TYPE = {
    "loc": "struct loc {}", "inode": "struct inode *{}", "file": "struct file *{}", "u32": "uint32_t {}",
    "u64": "uint64_t {}", "mode": "uint32_t {}", "gfid": "struct gfid {}", "string": "char *{}",
    "blob": "struct blob {}", "attr": "struct attr {}", "setattr": "struct setattr {}", "buffer": "struct buffer *{}",
    "dirents": "struct dirents {}", "statfs": "struct statfs {}", "lock": "struct lock {}", "steps": "struct steps {}",
    "results": "struct results {}",
}
XDR_TYPE = {
    "loc": "wire_loc {}", "inode": "wire_inode {}", "file": "wire_file {}", "u32": "unsigned int {}",
    "u64": "unsigned hyper {}", "mode": "unsigned int {}", "gfid": "wire_gfid {}", "string": "wire_string {}",
    "blob": "wire_blob {}", "attr": "wire_attr {}", "setattr": "wire_setattr {}", "buffer": "unsigned int {}_size",
    "dirents": "wire_dirents {}", "statfs": "wire_statfs {}", "lock": "wire_lock {}", "steps": "wire_steps {}",
    "results": "wire_results {}",
}
XDR_OUT = {"inode": "wire_new_inode {}", "file": "wire_new_file {}"}


class Fop:
    def __init__(self, name, number, flags, summary):
        self.name, self.number, self.flags, self.summary = name, int(number), flags, summary
        self.fields = {"in": [], "out": []}


def parse(path):
    fops = []
    for at, line in enumerate(open(path), 1):
        words = line.split("#")[0].split(None, 4)
        if not words:
            continue
        if words[0] == "fop":
            fops.append(Fop(words[1], words[2], [] if words[3] == "-" else words[3].split(","), words[4].strip()))
        elif words[0] in ("in", "out") and words[1] in C_TYPE:
            words = line.split(None, 3)
            fops[-1].fields[words[0]].append((words[1], words[2], words[3].strip() if len(words) > 3 else ""))
        else:
            sys.exit(f"{path}:{at}: expected 'fop', 'in KIND' or 'out KIND'")
    numbers = [f.number for f in fops]
    if numbers != list(range(1, len(fops) + 1)):
        sys.exit(f"{path}: fop numbers must run from 1 without gaps")
    return fops


def struct(fop, side):
    lines = [f"struct {fop.name}_{side} {{"]
    for kind, name, note in fop.fields[side]:
        c = C_TYPE[kind].format(name)
        if side == "in" and kind == "string":
            c = "const " + c
        lines.append(f"\t{c};" + (f" /* {note} */" if note else ""))
    if not fop.fields[side]:
        lines.append("\tchar nothing;")
    return lines + ["};"]


def types(fops):
    print("/* Made by fop-gen.py from fops.def: do not edit. */\n/* clang-format off */")
    print("#define FOPS(X) " + " ".join(f"X({f.name})" for f in fops))
    print("enum fop {\n" + "".join(f"\tFOP_{f.name} = {f.number},\n" for f in fops) + f"\tFOP_COUNT = {len(fops) + 1}\n}};")
    for f in fops:
        print(f"\n/* {f.name}: {f.summary} */")
        print("\n".join(struct(f, "in") + struct(f, "out")))


def table(fops):
    print('/* Made by fop-gen.py from fops.def: do not edit. */\n/* clang-format off */\n#include "xlator.h"\n#include "fop-dispatch.h"\n')
    for f in fops:
        for side in ("in", "out"):
            print(f"static const struct field {f.name}_{side}_fields[] = {{")
            for kind, name, _ in f.fields[side]:
                print(f'\t{{ "{name}", FIELD_{kind.upper()}, offsetof(struct {f.name}_{side}, {name}) }},')
            print("\t{ NULL, 0, 0 },\n};")
    print("const struct fop_info fop_info[FOP_COUNT] = {")
    for f in fops:
        flags = " | ".join("FOP_" + x.upper() for x in f.flags) or "0"
        print(f'\t[FOP_{f.name}] = {{ "{f.name}", "{f.summary}", {flags},')
        print(f"\t\tsizeof(struct {f.name}_in), sizeof(struct {f.name}_out), {f.name}_in_fields, {f.name}_out_fields }},")
    print("};\n")
    print("/* The one place that knows how a fop number becomes a typed call. */")
    print("int fop_dispatch(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)\n{")
    print("\tconst struct xlator_type *t = x->type;\n\n\tswitch (fop) {")
    for f in fops:
        print(f"\tcase FOP_{f.name}: if (t->{f.name}) return t->{f.name}(rq, x, in, out); break;")
    print("\tcase FOP_COUNT: break;\n\t}\n\treturn t->any(rq, x, fop, in, out);\n}\n")
    print("bool fop_handled(const struct xlator_type *t, enum fop fop)\n{\n\tswitch (fop) {")
    for f in fops:
        print(f"\tcase FOP_{f.name}: return t->{f.name} || t->any;")
    print("\tcase FOP_COUNT: break;\n\t}\n\treturn false;\n}")


def xdr_struct(fop, side):
    fields = fop.fields[side]
    if not fields:
        return
    print(f"\nstruct {fop.name}_{'args' if side == 'in' else 'res'} {{")
    for kind, name, _ in fields:
        t = XDR_OUT.get(kind) if side == "out" else None
        print(f"\t{(t or XDR_TYPE[kind]).format(name)};")
    print("};")


def xdr_union(fops, name, side, ending):
    print(f"\nunion {name} switch (unsigned int fop) {{")
    for f in fops:
        print(f"case {f.number}:\n\t" + (f"{f.name}_{ending} {f.name};" if f.fields[side] else "void;"))
    print("};")


def xdr(fops):
    print("/* Made by fop-gen.py from fops.def: do not edit. The arguments and results of each fop on the wire; the types\n"
          " * wire_* are in wire.x. A buffer is its size here; its bytes follow the XDR part of the record. */")
    print('%#include "wire.h"')
    simple = [f for f in fops if f.name != "compound"]
    for f in simple:
        xdr_struct(f, "in")
        xdr_struct(f, "out")
    xdr_union(simple, "wire_step_args", "in", "args")
    xdr_union(simple, "wire_step_res", "out", "res")
    print("\nstruct wire_step {\n\twire_condition condition;\n\twire_step_args args;\n};")
    print("struct wire_steps {\n\twire_step step<WIRE_STEPS_MAX>;\n};")
    print("union wire_result switch (int status) {\ncase 0:\n\twire_step_res res;\ndefault:\n\tvoid;\n};")
    print("struct wire_results {\n\twire_result result<WIRE_STEPS_MAX>;\n};")
    for f in fops:
        if f not in simple:
            xdr_struct(f, "in")
            xdr_struct(f, "out")


def main():
    kinds = {"types": types, "table": table, "xdr": xdr}
    if len(sys.argv) != 3 or sys.argv[1] not in kinds:
        sys.exit("usage: fop-gen.py types|table|xdr fops.def")
    kinds[sys.argv[1]](parse(sys.argv[2]))


main()
