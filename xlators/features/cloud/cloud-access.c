/* SPDX-License-Identifier: Apache-2.0 */
/* Access points: parts of tenants' trees for whom the tenant lets in, as the option `access` gives them. What a client of one may is here, and what
 * becomes of his ids; that he stays below the directory is the work of handles (doc/tenants.md, A1). */
#include <fcntl.h>
#include <unistd.h>

#include "cloud.h"

#include "replica.h"
#include "rows.h"
#include "word.h"

enum { WORDS = 7 };

/* ---- reading ---- */

/* "-": the client says who it is. */
static int take_id(const char *text, bool *given, uint32_t *id)
{
	uint64_t number = 0;

	*given = strcmp(text, "-") != 0;
	if (*given && word_number(text, ID_LAST, &number))
		return -EINVAL;
	*id = (uint32_t)number;
	return 0;
}

static int take_words(char *const *word, struct point *one)
{
	struct word_limit limit = { 0 };
	bool has_uid, has_gid;

	if (!identity_is_name(word[0], strlen(word[0])) || gfid_parse(word[1], &one->id) || gfid_is_null(&one->id) ||
	    take_id(word[2], &has_uid, &one->uid) || take_id(word[3], &has_gid, &one->gid) || has_uid != has_gid ||
	    (strcmp(word[4], "rw") && strcmp(word[4], "ro")) || word_number(word[5], INT64_MAX, &one->expires) ||
	    word_decode(word[6]) || !(word_is_limit(word[6], &limit) || word_is_directory(word[6])))
		return -EINVAL;
	one->limit = limit.number;
	strcpy(one->tenant, word[0]);
	one->forced = has_uid;
	one->read_only = !strcmp(word[4], "ro");
	one->directory = strdup(word[6]);
	return one->directory ? 0 : -ENOMEM;
}

static int take_point(const struct words *r, struct point *one, struct problem *p)
{
	int err = r->count == WORDS ? take_words(r->word, one) : -EINVAL;

	return err ? problem_set(
			     p, -err,
			     "\"%.*s\" is no access point: write TENANT ID UID|- GID|- rw|ro EXPIRES /DIRECTORY (or @BRICK.NUMBER), with %%xx for "
			     "what words can't have",
			     words_shown(r), r->whole.at)
		   : 0;
}

static int by_id(const void *a, const void *b)
{
	return memcmp(&((const struct point *)a)->id, &((const struct point *)b)->id, sizeof(struct gfid));
}

static int check(struct points *all, struct problem *p)
{
	char id[GFID_TEXT];

	if (all->count)
		qsort(all->point, all->count, sizeof(*all->point), by_id);
	for (size_t i = 1; i < all->count; i++)
		if (!by_id(&all->point[i - 1], &all->point[i]))
			return problem_set(p, EINVAL, "there are two access points %s", gfid_text(&all->point[i].id, id));
	return 0;
}

int points_parse(const char *text, struct points *all, struct problem *p)
{
	struct rows rows = rows_of(text);
	size_t most = rows_count(rows);
	struct words r;
	int err = 0;

	*all = (struct points){ NULL, 0 };
	if (most > POINTS_MAX)
		err = problem_set(p, EINVAL, "more than %d access points", POINTS_MAX);
	else if (!(all->point = calloc(most, sizeof(*all->point))))
		err = problem_set(p, ENOMEM, "out of memory");
	while (!err && rows_next(&rows, &r))
		err = take_point(&r, &all->point[all->count++], p);
	if (!err)
		err = check(all, p);
	if (err)
		points_free(all);
	return err;
}

void points_free(struct points *all)
{
	for (size_t i = 0; i < all->count; i++)
		free(all->point[i].directory);
	free(all->point);
	*all = (struct points){ NULL, 0 };
}

/* ---- asking ---- */

/* With table_lock held. */
static const struct point *find(const struct cloud *c, const struct gfid *id)
{
	struct point key = { .id = *id };

	return c->points.count ? bsearch(&key, c->points.point, c->points.count, sizeof(key), by_id) : NULL;
}

/* On several bricks no path tells which directory it is, and only what a limit holds is at one of them, whole; several sets have no such limits. */
static bool is_usable(const struct cloud *c, const struct point *one)
{
	return one->limit ? c->spread && !c->replicas && !one->ending && !one->ended : !c->spread;
}

int point_find(struct cloud *c, const struct identity *who, struct guest *g)
{
	const struct point *found;
	struct gfid id;
	int err = -EACCES;

	if (gfid_parse(who->access, &id))
		return err;
	pthread_rwlock_rdlock(&c->table_lock);
	found = find(c, &id);
	if (found && is_usable(c, found) && !strcmp(found->tenant, who->name) &&
	    (!found->expires || clock_wall_ns() / 1000000000 < found->expires)) {
		g->access = id;
		g->forced = found->forced;
		g->read_only = found->read_only;
		g->uid = found->uid;
		g->gid = found->gid;
		err = 0;
	}
	pthread_rwlock_unlock(&c->table_lock);
	return err;
}

int point_directory(struct cloud *c, const struct gfid *id, char **directory, uint64_t *limit)
{
	const struct point *found;

	pthread_rwlock_rdlock(&c->table_lock);
	found = find(c, id);
	*directory = found ? strdup(found->directory) : NULL;
	*limit = found ? found->limit : 0;
	pthread_rwlock_unlock(&c->table_lock);
	return *directory ? 0 : found ? -ENOMEM : -EACCES;
}

void points_ending(struct cloud *c, uint64_t limit)
{
	pthread_rwlock_wrlock(&c->table_lock);
	for (size_t i = 0; i < c->points.count; i++)
		c->points.point[i].ending += c->points.point[i].limit == limit;
	pthread_rwlock_unlock(&c->table_lock);
}

/* One may have come meanwhile. */
void points_ended(struct cloud *c, uint64_t limit, bool was)
{
	pthread_rwlock_wrlock(&c->table_lock);
	for (size_t i = 0; i < c->points.count; i++) {
		struct point *one = &c->points.point[i];

		if (one->limit != limit)
			continue;
		one->ended |= was;
		one->ending -= one->ending > 0;
	}
	pthread_rwlock_unlock(&c->table_lock);
}

/* ---- what one that only reads may ---- */

static bool opens_to_write(uint32_t flags)
{
	return (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
}

/* A lock that keeps others from reading is one of who writes. */
static bool locks_to_write(const struct lock *lock)
{
	return lock->type != F_RDLCK && lock->type != F_UNLCK;
}

/* By them a client of a set reads, and is there; tokens, and what is said of changes, are not for him. Those to read (TRY, SHARE) would only keep for him what he has read, and he who
 * does not give them back would have those wait who write. */
static bool says_to_change(const struct replica_in *in)
{
	return in->verb == REPLICA_ACQUIRE || in->verb == REPLICA_TRY || in->verb == REPLICA_SHARE || in->verb == REPLICA_SKIP;
}

static bool compound_changes(const struct compound_in *in)
{
	for (uint32_t i = 0; i < in->steps.count; i++)
		if (in->steps.step[i].fop == FOP_compound || changes((int)in->steps.step[i].fop, in->steps.step[i].in))
			return true;
	return false;
}

bool changes(int fop, const void *in)
{
	switch (fop) {
	case FOP_access:
		return ((const struct access_in *)in)->mask & W_OK;
	case FOP_open:
		return opens_to_write(((const struct open_in *)in)->flags);
	case FOP_setlk:
		return locks_to_write(&((const struct setlk_in *)in)->lock);
	case FOP_compound:
		return compound_changes(in);
	case FOP_replica:
		return says_to_change(in);
	case FOP_fsync: /* of what others have written */
		return false;
	default:
		return fop_info[fop].flags & FOP_MUTATES;
	}
}

/* ---- for people ---- */

void points_print(struct cloud *c, FILE *f)
{
	char id[GFID_TEXT];

	pthread_rwlock_rdlock(&c->table_lock);
	for (size_t i = 0; i < c->points.count; i++) {
		const struct point *one = &c->points.point[i];

		fprintf(f, "%s %s ", one->tenant, gfid_text(&one->id, id));
		if (one->forced)
			fprintf(f, "%u %u", one->uid, one->gid);
		else
			fputs("- -", f);
		fprintf(f, " %s %llu %s\n", one->read_only ? "ro" : "rw", (unsigned long long)one->expires, one->directory);
	}
	pthread_rwlock_unlock(&c->table_lock);
}
