/* SPDX-License-Identifier: Apache-2.0 */
/* What cluster/dht and features/layout say to each other: the extension PLACE, the errors that answer it, and the xattrs of shards and
 * pointers (doc/distribution.md). */
#ifndef STRATUS_PLACE_H
#define STRATUS_PLACE_H
#include "request.h"

#ifdef STRATUS_MUTANTS /* in tests/sim only: a deliberate mistake, if it is the chosen one */
#include "mutant.h"
#else
#define MUTANT(name) false
#endif

/* Errors that no application sees; only who sends PLACE gets them. */
enum {
	ELAYOUT = 4120,	 /* the shard has another version than PLACE says, or the name does not belong there */
	EPOINTER = 4121, /* a name leads to a pointer, which is not to be treated as the object */
	EWIDE = 4122,	 /* other shards of the directory must take part */
	EMOVED = 4123,	 /* the object is at another subvolume: this is a pointer */
	EMARKED = 4124,	 /* an intent holds the name; or names in the directory that is to go */
	EFENCED = 4125,	 /* the intent that PLACE tells of holds the name no more: somebody else ends it */
};

/* In the root of each subvolume, for what has no name there of its own; it belongs to no layout. */
#define DHT_HIDDEN ".stratus.dht"
/* All xattrs of cluster/dht begin so. */
#define DHT_XATTR	  "trusted.dht."
#define DHT_LAYOUT_XATTR  "trusted.dht.layout"
#define DHT_POINTER_XATTR "trusted.dht.pointer"
#define DHT_INTENT_XATTR  "trusted.dht.intent" /* only cluster/dht reads it */

enum { PLACE_EXTENSION = 6, PLACE_EXTENSION_VERSION = 5 };
enum {
	PLACE_POINTER = 1, /* where it meets a pointer, that itself is meant, not what it leads to */
	PLACE_SHARD = 2,   /* the shard alone is meant: who asks sees to the others */
	PLACE_HERE =
		4, /* the name is meant as it stands there, whether it belongs there or not: of who looks at all subvolumes (fsck) */
};
struct place {
	uint32_t flags;
	/* Versions of layouts, each with its directory (null: none). By directory, for translators between may ask for the names of one request in
	 * any order. That of a directory which is not named here is 0. */
	struct gfid directory[2];
	uint64_t version[2];
	bool by_position; /* of a client that says version 3: of the directories of the first name and of the second (rename), whichever these are */
	bool moves_pointers; /* of one that says version 4 or less: it renames what has a name without a look at whether that is a pointer */
	/* What must have these names when it is done (unlink, rename), else ESTALE; null: anything may. A loc's inode does not do: replica sets
	 * drop it where a member has forgotten the object. */
	struct gfid expected[2];
	/* The intent that this is a step of (null: none), and which try to end it: what it does it may do as long as its marks stand. */
	struct gfid intent;
	uint32_t attempt;
};
/* -ENOMEM, with what was said before as it was. Takes the place of that. `by_position` and `moves_pointers` are not sent. */
int place_attach(struct request *, const struct place *);
/* 1: there is one; 0: none. It may have come from anywhere: -EINVAL if it makes no sense, -EOPNOTSUPP of another version or with flags that
 * are not known. */
int place_of(const struct request *, struct place *);
/* Does it say a version of that directory at all (0, too, is one)? */
bool place_names(const struct place *, const struct gfid *directory);
/* What it says of that directory, in which the request has its first name (0), or the second (1). */
uint64_t place_version(const struct place *, const struct gfid *directory, int name);

/* Where a pointer leads: on disk u8 1, u32 subvolume, gfid. Of a stub, which is left of a file that was moved: u8 2, and the id of the intent that moved it
 * behind that: by work/k.ID others find the file there. */
struct pointer {
	uint32_t subvolume;
	struct gfid gfid, mover; /* mover: null, it is no stub */
};
enum { POINTER_SIZE = 21, STUB_SIZE = 37 };
void pointer_encode(const struct pointer *, uint8_t bytes[POINTER_SIZE]);
void stub_encode(const struct pointer *, uint8_t bytes[STUB_SIZE]);
int pointer_decode(const void *bytes, size_t size, struct pointer *); /* -EINVAL */

/* On a directory that is away: below which one it is. On disk u8 1, u64 turn, u32 subvolume, gfid. It is replaced by a later turn only, so that what a
 * client says late does no harm. */
#define DHT_PARENT_XATTR "trusted.dht.parent"
struct parent {
	uint64_t turn;
	uint32_t subvolume;
	struct gfid gfid;
};
enum { PARENT_SIZE = 29 };
void parent_encode(const struct parent *, uint8_t bytes[PARENT_SIZE]);
int parent_decode(const void *bytes, size_t size, struct parent *); /* -EINVAL */

/* On the root of a subvolume, while another one is being emptied: which. On disk u8 1, u32 subvolume. */
#define DHT_LEAVES_XATTR "trusted.dht.leaves"
enum { LEAVES_SIZE = 5 };
void leaves_encode(uint32_t subvolume, uint8_t bytes[LEAVES_SIZE]);
int leaves_decode(const void *bytes, size_t size, uint32_t *subvolume); /* -EINVAL */

/* Read from the root of a subvolume, with PLACE: where the directory of that gfid stands there, as for LOCATION_XATTR (location.h). For who has not
 * come to it by names. */
#define DHT_PATH_XATTR "trusted.dht.path."

/* Read from a directory, with PLACE, as root: how many names in it are marked, a number that rises when such a mark is set or removed, and who
 * counts. If it is the same text twice, with none, there was none all the time between. */
#define DHT_MARKS_XATTR "trusted.dht.marks"
enum { MARKS_TEXT = 96 };

/* Read from the root of a subvolume, with PLACE, as root: how the intent of that id ended which others had taken over from its owner, one byte, the letter of its
 * record's last name (d or s: decided; u: nothing of it was done). ENODATA: the brick does not know it, or no more, or was started anew since. */
#define DHT_ENDED_XATTR "trusted.dht.ended."

/* On a file that was moved: it has a name more, work/k.ID, as long as its stub may be open; features/layout does not count that, as long as it is there. As a stub, with
 * the ID, but that it leads to the stub. (By clients of the version before as a pointer: then a name is not counted as long as this is there.) */
#define DHT_KEPT_XATTR "trusted.dht.kept"
/* The directories of `work`, by number and by what a name in it tells; and that name. */
enum { WORK_DIRS = 16, HIDDEN_NAME = 80 };
static inline unsigned work_of(const struct gfid *gfid)
{
	return gfid->bytes[0] % WORK_DIRS;
}
const char *kept_name(const struct gfid *mover, char name[HIDDEN_NAME]);

/* Read from a file, with PLACE, as root: a number that rises with each change of it, who counts, 1 if it has locks, or somebody waits for one, or may get back one that
 * he had (else 0), and how often it is open. Whoever hears the first two twice knows that nothing was changed in between. */
#define DHT_CHANGES_XATTR "trusted.dht.changes"
enum { CHANGES_TEXT = 112 };
/* How often it is open at a member of the set, and whether it is locked as above: lines of what it tells of its location (location.h). */
#define OPENED_LINE "opened"
#define LOCKED_LINE "locked"
/* Read from the root of a subvolume, with PLACE, as root: gfids of directories of which that subvolume's part has grown large, CANDIDATES_MAX at most, 16 bytes each. They
 * are told once. */
#define DHT_CANDIDATES_XATTR "trusted.dht.candidates"
enum { CANDIDATES_MAX = 64 };

/* A lock on a name, on disk: an xattr of the directory (of its shard) for each name that an intent holds, called by the name's hash.
 * The value: u8 1, gfid that is the intent's id, u32 attempt, u32 subvolume where the intent lies. */
#define DHT_MARK_XATTR "trusted.dht.m."
/* Marks that are of no name (nothing can be called so): of what only one intent of the volume may do at a time, give a directory another parent, in the
 * root of the first subvolume; of a directory that is to go, or a file that is being moved, in that itself; of a directory at several subvolumes that is to go, in all
 * its shards: no name comes to be there any more. */
#define MARK_MOVES "/moves"
#define MARK_GOES  "/goes"
#define MARK_DYING "/dying"
struct mark {
	uint64_t hash;
	struct gfid intent;
	uint32_t attempt, subvolume;
};
enum { MARK_SIZE = 25, MARK_NAME = 32, MARKS_MAX = 16 }; /* at most so many of one directory: xattrs have little room */
/* A mark in a directory of `away` that holds all anchors of one object: no such name comes or goes, nor is it looked up, but by who has that mark. (Who says PLACE_POINTER
 * may look.) Anchors are called a.PGFID.GFID, and so is nothing else. */
enum { ANCHORS_NAME = 40 };
const char *anchors_mark(const struct gfid *object, char name[ANCHORS_NAME]);
int anchor_parse(const char *name, struct gfid *pointer, struct gfid *object); /* -EINVAL: it is none */
uint64_t mark_hash(const char *name);
const char *mark_name(uint64_t hash, char xattr[MARK_NAME]);
bool is_mark(const char *xattr, uint64_t *hash);
void mark_encode(const struct mark *, uint8_t bytes[MARK_SIZE]);
int mark_decode(const void *bytes, size_t size, struct mark *); /* all but the hash. -EINVAL */
#endif
