# SPDX-License-Identifier: Apache-2.0
"""Hostile clients of access points at the members of a replica set: web (/point) and docs (/docs, which only reads) say to features/replica what names objects of the tenant that are not below
their directories, with what is theirs and what is his. It prints what one was given, or kept from another.

   set-points.py PORT,PORT... DIRECTORY SEED OWN_ID FOREIGN_ID [SECRET...]    see member.py; OWN_ID is of the tenant whose access points they are
"""
import os
import time

from member import *

EROFS, LOCATION = 30, b"system.stratus.location"
EVENT_SIZE = 116  # of one that shows no object
RENAMED = b"moved"


def patiently(ask):
    """Asked again while the view is not served: a member says so for a moment that got no processor for a while."""
    for _ in range(1200):
        answer = ask()
        if answer[0] not in (EVIEW, ERECOVERING):
            break
        time.sleep(0.1)
    return answer


def granted(members, named):
    """What each answers to ACQUIRE, once one of them grants it: after a view that takes a moment."""
    for _ in range(1200):
        answers = [member.acquire_once(named)[0] for member in members]
        if 0 in answers:
            break
        time.sleep(0.1)
        for member in members:
            member.attach()
    return answers


def of(member, *path):
    """Gfid and handle of what is there."""
    handle = member.root
    for name in path:
        status, results = patiently(lambda: member.call(LOOKUP, loc(handle, name)))
        expect(f"{member.who}'s lookup of {path}", status, 0)
        handle = handle_in(results)
    return results[:16], handle


def same_as_unknown(who, what, gfid, vouchers):
    for voucher in vouchers:
        ask_unknown = dict(verbs_naming(who, os.urandom(16), os.urandom(VOUCHER)))
        for verb, say in verbs_naming(who, gfid, voucher):
            answer, unknown = say(), ask_unknown[verb]()
            if answer != unknown:
                wrong(f"{verb} of {what} by {who.who}: {answer}, of one that nobody has: {unknown}")


def own_root(web):
    """By the name of all roots the access point's directory is meant, never the tenant's root."""
    status, results = patiently(lambda: web.call(REPLICA, words(DIRECTORY) + opaque(b"") + opaque(ROOT + bytes(VOUCHER))))
    expect("DIRECTORY of the root", status, 0)
    if status == 0:
        handle = handle_in(results)
        expect("its gfid", results[:16], ROOT)
        expect("what is not in it", patiently(lambda: web.lookup(b"private", handle))[0], ENOENT)
        expect("what is in it", patiently(lambda: web.lookup(b"page", handle))[0], 0)
    for what, say in ("LINKS", lambda: web.say(LINKS, inode=web.root)), ("NAMES", lambda: web.say(NAMES, ROOT + bytes(VOUCHER))):
        status, names = patiently(say)
        if status != EXDEV and names != words(0):
            wrong(f"{what} of the root: {status} {names.hex()}")


def outside(tenant, web, docs):
    """What the tenant has elsewhere, and what he has of the directory himself."""
    for path in (b"private",), (b"private", b"secret"), (b"point",), (b"point", b"page"), (b"docs", b"text"):
        gfid, handle = of(tenant, *path)
        own = of(web, b"shared")[1]
        if path != (b"point",):  # by its gfid a client may name what it has for a root: nothing is told by that
            same_as_unknown(web, path, gfid, (handle[-VOUCHER:], own[-VOUCHER:], web.root[-VOUCHER:], bytes(VOUCHER), os.urandom(VOUCHER)))
        for shown in handle, handle[:-VOUCHER] + own[-VOUCHER:]:
            expect(f"LINKS of {path}", web.say(LINKS, inode=shown)[0], ESTALE)
            expect(f"a lookup of {path}", web.call(LOOKUP, loc(inode=shown))[0], ESTALE)
            expect(f"a lookup in {path}", web.call(LOOKUP, loc(shown, b"secret"))[0], ESTALE)
    same_as_unknown(web, "the tenant's root", OWN_ID, (tenant.root[-VOUCHER:], web.root[-VOUCHER:], bytes(VOUCHER)))
    for gfid in LIMBO, TENANTS, FOREIGN_ID:
        if gfid != TENANTS:  # the rename token, which is the tenant's
            same_as_unknown(web, gfid.hex(), gfid, (bytes(VOUCHER), web.root[-VOUCHER:]))
    gfid, handle = of(web, b"page")
    for by in tenant, docs:
        same_as_unknown(by, "web's page", gfid, (handle[-VOUCHER:],))
        expect(f"web's handle by {by.who}", by.say(LINKS, inode=handle)[0], ESTALE)


def names(web):
    """Of an object only those that are below the directory: of the second name of `shared`, and of where `moved` is, nothing is told."""
    gfid, handle = of(web, b"shared")
    only = words(1) + ROOT + bytes([6]) + b"shared"
    expect("LINKS of a file with a name elsewhere", patiently(lambda: web.say(LINKS, inode=handle)), (0, only))
    expect("NAMES of it", patiently(lambda: web.say(NAMES, gfid + handle[-VOUCHER:])), (0, only))
    gfid, handle = of(web, b"below", b"deep")
    expect("LINKS of a file below", patiently(lambda: web.say(LINKS, inode=handle))[0], 0)
    for path in (b"shared",), (b"page",), (b"below", b"deep"), (b"below",):
        status, told = web.call(GETXATTR, opaque(of(web, *path)[1]) + opaque(LOCATION))
        if status == 0 and (b"private" in told or b"/point" in told):
            wrong(f"where {path} is: {told}")


def moved_out(web):
    """A directory, a file in it, and a file that the tenant has moved elsewhere since."""
    for gfid, handle in web.kept:
        for what, say in ("LINKS", lambda: web.say(LINKS, inode=handle)), ("NAMES", lambda: web.say(NAMES, gfid + handle[-VOUCHER:])):
            status, told = patiently(say)
            if status not in (EXDEV, ENOENT) or told:
                wrong(f"{what} of what was moved out: {status} {told}")
        status, told = web.call(GETXATTR, opaque(handle) + opaque(LOCATION))
        if b"private" in told:
            wrong(f"where what was moved out is: {told}")


def border(tenant, web):
    """rename and link with a handle of the tenant's: ESTALE; and names that lead out are none."""
    private = of(tenant, b"private")[1]
    for what, fop, arguments in (("rename out", RENAME, loc(web.root, b"page") + loc(private, b"page") + words(0)),
                                 ("rename in", RENAME, loc(private, b"secret") + loc(web.root, b"secret") + words(0)),
                                 ("link out", LINK, opaque(of(web, b"page")[1]) + loc(private, b"page")),
                                 ("link in", LINK, opaque(of(tenant, b"private", b"secret")[1]) + loc(web.root, b"secret"))):
        expect(what, web.change(fop, arguments), ESTALE)
    for name in b"..", b".", b"../private", b"/private":
        expect(f"lookup of {name}", web.lookup(name)[0], EINVAL, None)


def sessions(tenant, web, docs):
    for by, whose in (web, tenant), (tenant, web), (docs, web), (web, docs):
        expect(f"{whose.who}'s session at the set by {by.who}", by.say(ATTACH, whose.session)[0], EACCES)


def reading(docs):
    named = ROOT + bytes(VOUCHER)
    expect("a token to change, by one that reads", docs.acquire(named)[0], EROFS)
    expect("a token to rename, by one that reads", docs.acquire(TENANTS + bytes(VOUCHER))[0], EROFS)
    for verb in TRY, SHARE:
        expect("a token to read, by one that reads", docs.say_of(verb, named)[0], EROFS)
    expect("SKIP, by one that reads", docs.say(SKIP, longs(docs.epoch) + named)[0], EROFS)
    expect("mkdir, by one that reads", docs.change(MKDIR, loc(docs.root, b"new") + os.urandom(16) + words(0o777, 0)), EROFS)
    expect("LINKS, by one that reads", patiently(lambda: docs.say(LINKS, inode=of(docs, b"text")[1]))[0], 0)


def tokens(tenants, webs):
    """The root of one is a directory of the other's: one token. The tenant's own root is another one."""
    for _ in range(20):
        answers = granted(webs, ROOT + bytes(VOUCHER))
        expect("members that grant the token of the directory", answers.count(0), 1)
        at, before = answers.index(0) if 0 in answers else 0, [member.epoch for member in tenants + webs]
        gfid, handle = of(tenants[at], b"point")
        status = tenants[at].acquire(gfid + handle[-VOUCHER:])[0]
        for member in tenants + webs:
            member.attach()
        if set(before) == {member.epoch for member in tenants + webs}: # else it was lost in between
            break
    expect("the token of the same directory, for the tenant", status, ERECOVERING)
    webs[at].release(ROOT)
    expect("members that grant the token of the tenant's root", granted(tenants, ROOT + bytes(VOUCHER)).count(0), 1)
    expect("members that grant that of the directory meanwhile", granted(webs, ROOT + bytes(VOUCHER)).count(0), 1)
    for member in tenants + webs:
        member.release(ROOT)


def the_same_directory(web, number):
    """One more connection of a session gets the directory that the session has, wherever its path leads by now (the script has put another there)."""
    wire.stage(PORTS[number], sys.argv[2], SECRETS)
    wire.brick = web.brick
    more = Client("web", web.id, web.secret, channel=1)
    expect("one more connection", more.refused, 0)
    expect("what is in the directory", patiently(lambda: more.lookup(b"page"))[0], 0)
    expect("one that is put in its place", patiently(lambda: more.lookup(b"other"))[0], ENOENT)


def settling(tenant, web):
    """Who looks at what a change of web's concerns waits until that is settled, and web hears that he does: nothing of what he looked for, or where."""
    for number in range(50):
        del web.events[:]
        expect("a directory that stays unsettled", web.change(MKDIR, loc(web.root, b"unsettled-%d-%d" % (int(web.port), number)) + os.urandom(16) + words(0o777, 0)), 0)
        Client.call(tenant, LOOKUP, loc(tenant.root, b"point"))
        web.call(GETATTR, opaque(web.root) + bytes(8))
        for event in web.events:
            if OWN_ID in event or tenant.root in event or len(event) > EVENT_SIZE:
                wrong(f"web hears of more than that somebody waits: {event.hex()}")
        if web.events: # else it was settled by a view before he looked
            return
    wrong("nobody tells web that his change is waited for")


tenants, webs, docses = ([Member(who, i) for i in range(len(PORTS))] for who in ("acme", "web", "docs"))
if any(who.refused for who in tenants + webs + docses):
    wrong(f"who is let in: {[(who.who, who.refused) for who in tenants + webs + docses]}")
    done()
for tenant, web, docs in zip(tenants, webs, docses):
    expect("the root's gfid", web.gfid, ROOT)
    own_root(web)
    names(web)
    outside(tenant, web, docs)
    border(tenant, web)
    sessions(tenant, web, docs)
    reading(docs)
    web.kept = [of(web, RENAMED), of(web, RENAMED, b"inside"), of(web, b"moved-file")]
tokens(tenants, webs)
for tenant, web in zip(tenants, webs):
    settling(tenant, web)
print("move", flush=True)
sys.stdin.readline()
for number, web in enumerate(webs):
    moved_out(web)
    the_same_directory(web, number)
done()
