/* SPDX-License-Identifier: Apache-2.0 */
/* heal-test: what another heal, or the member itself, does between two steps of a heal; and what a heal lacks that no list told of. */
#include "heal-test.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* Before such a call somebody else gets in, once; and how often such an object was made. */
static struct {
	struct xlator *member;
	struct gfid object; /* a lookup of that without a name, */
	const char *name;   /* or of that name */
	void (*fn)(void);
	struct gfid made;
	unsigned makes;
	struct gfid synced; /* such an object: when it was synced last, and when a name was last moved, in calls */
	unsigned calls, moved_at, synced_at;
} race;

__attribute__((visibility("default"))) void test_gets_in(struct xlator *, enum fop, const void *in);

static bool is_awaited(const struct lookup_in *in)
{
	if (race.name)
		return in->loc.name && !strcmp(in->loc.name, race.name);
	return !in->loc.name && gfid_equal(&in->loc.inode->gfid, &race.object);
}

void test_gets_in(struct xlator *x, enum fop fop, const void *in)
{
	void (*fn)(void) = race.fn;

	if (x != race.member)
		return;
	race.calls++;
	if (fop == FOP_rename)
		race.moved_at = race.calls;
	if (fop == FOP_fsync && gfid_equal(&((const struct fsync_in *)in)->file->inode->gfid, &race.synced))
		race.synced_at = race.calls;
	race.makes += fop == FOP_mkdir && gfid_equal(&((const struct mkdir_in *)in)->gfid, &race.made);
	if (fop != FOP_lookup || !fn || !is_awaited(in))
		return;
	race.fn = NULL;
	fn();
}

/* ---- steps ---- */

static struct gfid make_at(unsigned members, int kind, const char *path)
{
	static struct change c;

	c = (struct change){ .kind = kind, .number = 0755 };
	snprintf(c.a, sizeof(c.a), "%s", path);
	gfid_create(&c.gfid);
	change_clock += 1000000007;
	for (int i = 0; i < MEMBERS; i++)
		if (members >> i & 1 && change_at(i, &c))
			FAIL("can't make %s at %d", path, i);
	tree.time_ns = 1;
	return c.gfid;
}

static void do_at(int at, int kind, const char *a, const char *b)
{
	static struct change c;

	c = (struct change){ .kind = kind };
	snprintf(c.a, sizeof(c.a), "%s", a);
	snprintf(c.b, sizeof(c.b), "%s", b);
	if (change_at(at, &c))
		FAIL("can't change %s at %d", a, at);
	tree.time_ns = 1;
}

static int heal_it(const struct gfid *gfid)
{
	struct request rq;
	int err = heal_request(&heal, &rq);

	err = err ? err : heal_object(&heal, &rq, gfid, 0, 1, 0, UINT64_MAX);
	heal_request_end(&rq);
	return err;
}

static bool is_at(int at, const char *path)
{
	struct attr a;

	tree.at = member[at];
	return !tree_getattr(&tree, path, &a);
}

static void expect(bool holds, const char *what)
{
	if (!holds)
		FAIL("it does not hold: %s", what);
}

/* ---- races ---- */

static struct gfid old_parent;

static void heal_old_parent(void)
{
	expect(!heal_it(&old_parent), "the old parent is healed");
}

/* It has another parent at 0. Whoever heals that has asked where it stands at 1 when the heal of its old parent takes it away there. */
void race_directory_goes_to_the_limbo(void *arg)
{
	struct gfid parent, moved;

	(void)arg;
	old_parent = make_at(7, MKDIR, "old");
	parent = make_at(7, MKDIR, "new");
	moved = make_at(7, MKDIR, "old/moved");
	make_at(7, FILE_, "old/moved/file");
	do_at(0, RENAME, "old/moved", "new/moved");
	race.member = member[1];
	race.name = NULL;
	race.object = old_parent;
	race.made = moved;
	race.makes = 0;
	race.fn = heal_old_parent;
	expect(!heal_it(&parent), "the new parent is healed");
	expect(!race.fn, "the other heal got in");
	expect(!race.makes, "the directory is not made anew");
	expect(is_at(1, "new/moved/file") && !is_at(1, "old/moved"), "the directory has its place");
	race.member = NULL;
}

static void give_away(void)
{
	do_at(1, RENAME, "d/other", "d/changes");
	change_begin(1);
	tree.time_ns = 0;
}

/* A name that must go stands for another object by the time when it is moved: it is looked at again, and holds up no other name. */
void race_name_changes_hands(void *arg)
{
	struct gfid directory;

	(void)arg;
	directory = make_at(7, MKDIR, "d");
	make_at(2, FILE_, "d/changes");
	make_at(2, FILE_, "d/goes");
	make_at(2, FILE_, "d/other");
	make_at(1, FILE_, "d/comes");
	race.member = member[1];
	race.name = "changes";
	race.fn = give_away;
	expect(heal_it(&directory) == -EAGAIN, "a name that changed hands is looked at again");
	expect(!race.fn, "somebody got in");
	expect(is_at(1, "d/changes"), "what was not listed was left where it is");
	expect(!is_at(1, "d/goes"), "what must go, goes");
	expect(is_at(1, "d/comes"), "what is to come, comes");
	for (int i = 0; i < 3 && heal_it(&directory) == -EAGAIN; i++)
		;
	expect(!is_at(1, "d/changes"), "it goes the next time");
	race.member = NULL;
}

/* ---- directories that no list told of ---- */

static struct {
	struct gfid gfid[8];
	unsigned count;
} missed;

static int note_missed(void *arg, const struct gfid *directory)
{
	(void)arg;
	if (missed.count < 8)
		missed.gfid[missed.count++] = *directory;
	return 0;
}

static bool is_missed(const struct gfid *directory)
{
	for (unsigned i = 0; i < missed.count; i++)
		if (gfid_equal(&missed.gfid[i], directory))
			return true;
	return false;
}

static void look_for_missed(void)
{
	struct request rq;
	int err = heal_request(&heal, &rq);

	missed.count = 0;
	err = err ? err : heal_missed(&heal, &rq, 0, 1, note_missed, NULL);
	heal_request_end(&rq);
	expect(!err, "what lies in the limbo is looked for");
}

/* Of a rename only the directory that lost the name is healed: what is in the limbo then is found where the other member has it, and where that must be
 * made first, those above it, too. What nobody has any more is not. */
void missed_directories_are_told(void *arg)
{
	struct gfid old, new, made, below;

	(void)arg;
	old = make_at(7, MKDIR, "old");
	new = make_at(7, MKDIR, "new");
	make_at(7, FILE_, "old/file");
	make_at(7, FILE_, "old/gone");
	do_at(0, UNLINK, "old/gone", "");
	expect(!heal_it(&old), "the directory is healed");
	look_for_missed();
	expect(!missed.count, "what was removed is not missed");
	do_at(0, RENAME, "old/file", "new/file");
	expect(!heal_it(&old) && !is_at(1, "old/file"), "the old name is healed");
	look_for_missed();
	expect(missed.count == 1 && is_missed(&new), "the directory that has the file is missed");
	expect(!heal_it(&new) && is_at(1, "new/file"), "it gets the file");
	look_for_missed();
	expect(!missed.count, "nothing is missed any more");
	made = make_at(1, MKDIR, "made");
	below = make_at(1, MKDIR, "made/below");
	do_at(0, RENAME, "new/file", "made/below/file");
	expect(!heal_it(&new), "the name is healed once more");
	look_for_missed();
	expect(is_missed(&below) && is_missed(&made) && is_missed(&gfid_root), "all is missed that leads to the file");
	expect(!heal_it(&gfid_root) && !heal_it(&made) && !heal_it(&below), "they are made");
	expect(is_at(1, "made/below/file"), "the file is in its place");
}

/* ---- what a member lacks ---- */

static int look_for_lacking(const struct gfid *gfid)
{
	struct request rq;
	int err = heal_request(&heal, &rq);

	missed.count = 0;
	err = err ? err : heal_lacking(&heal, &rq, gfid, 0, 1, note_missed, NULL);
	heal_request_end(&rq);
	return err;
}

/* A member that lacks the directory of a name, or of a file, is told from one that has it; and which directories it must get, from the first that it has. */
void lacking_directories_are_told(void *arg)
{
	struct gfid upper, lower, file, both;
	struct request rq;

	(void)arg;
	both = make_at(7, MKDIR, "both");
	make_at(7, FILE_, "both/file");
	upper = make_at(1, MKDIR, "both/upper");
	lower = make_at(1, MKDIR, "both/upper/lower");
	file = make_at(1, FILE_, "both/upper/lower/file");
	expect(!look_for_lacking(&both) && !missed.count, "what is there is not lacking");
	expect(!look_for_lacking(&lower) && missed.count == 3, "it lacks the directory, and the one above it");
	expect(is_missed(&lower) && is_missed(&upper) && is_missed(&both), "up to that which it has");
	expect(!look_for_lacking(&file) && missed.count == 3 && is_missed(&lower), "so it lacks the file");
	expect(!heal_request(&heal, &rq), "a request");
	expect(heal_name(&heal, &rq, &upper, "lower", 0, 1) == -ESRCH, "a name in what it lacks");
	heal_request_end(&rq);
	expect(!heal_it(&both) && !heal_it(&upper) && !heal_it(&lower), "they are made");
	expect(is_at(1, "both/upper/lower/file"), "the file is there");
	expect(!look_for_lacking(&file) && !missed.count, "nothing is lacking any more");
}

/* ---- what a recovery takes ---- */

static bool synced_after_move(void)
{
	bool early = race.synced_at;
	struct request rq;
	int failed, err = heal_request(&heal, &rq);

	err = err ? err : heal_sync(&heal, &rq, &failed);
	heal_request_end(&rq);
	return !err && !early && race.moved_at && race.synced_at > race.moved_at;
}

static void recovery_begins(void)
{
	race.moved_at = race.synced_at = 0;
	heal.syncs = true;
}

static int recover_name(const struct gfid *directory, const char *name)
{
	struct request rq;
	int err = heal_request(&heal, &rq);

	err = err ? err : heal_name(&heal, &rq, directory, name, 0, 1);
	heal_request_end(&rq);
	return err;
}

/* A name that is taken from a directory must not be back after a power cut, when others have seen that it has gone. But it is not synced before all of the recovery is done: what
 * is made there is not whole until then. */
void what_is_taken_is_synced(void *arg)
{
	struct gfid directory, other;

	(void)arg;
	directory = make_at(7, MKDIR, "d");
	other = make_at(7, MKDIR, "other");
	for (const char *name = "abc"; *name; name++)
		make_at(6, FILE_, (char[]){ 'd', '/', *name, '\0' });
	make_at(7, MKDIR, "d/moves");
	do_at(0, RENAME, "d/moves", "other/moved");
	race.member = member[1];
	race.synced = directory;
	expect(!recover_name(&directory, "a") && !is_at(1, "d/a"), "the name goes");
	expect(!synced_after_move(), "nothing is synced for one that comes back");
	recovery_begins();
	expect(!recover_name(&directory, "b") && !is_at(1, "d/b"), "the name goes in a recovery");
	expect(synced_after_move(), "which syncs the directory in the end");
	recovery_begins();
	expect(!recover_name(&other, "moved") && !is_at(1, "d/moves"), "a directory gets another place");
	expect(synced_after_move(), "the one that had it is synced");
	recovery_begins();
	expect(!heal_it(&directory) && !is_at(1, "d/c"), "all names are made equal");
	expect(synced_after_move(), "and on disk");
	recovery_begins();
	expect(!heal_it(&directory) && !synced_after_move() && !race.synced_at, "where nothing was taken nothing is synced");
	recovery_begins();
	heal.cold = true;
	expect(!heal_it(&directory), "after a start of all members");
	synced_after_move();
	expect(race.synced_at, "it is synced in any case");
	heal.cold = false;
	race.member = NULL;
}
