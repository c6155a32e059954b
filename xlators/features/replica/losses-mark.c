/* SPDX-License-Identifier: Apache-2.0 */
/* The file `lost` in the state directory, by which a process that is started anew knows what the disk has lost: of which objects, or that it may be any. What can't be
 * read to its end is of any, and so is an empty one. It is written beside, made durable and renamed. A disk without room takes no new file, but a spare one can be renamed. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs.h"

#define MARK  "lost"
#define NEW   "lost.new"
#define SPARE "lost.spare" /* what is in it counts for nothing */
#define HEAD  "stratus lost 1\n"
#define ANY   "any\n"
#define TAIL  "end\n"

enum { TEXT_MAX = sizeof(HEAD) + 2 * LOST_KEPT * GFID_TEXT + sizeof(TAIL) };

/* ---- its text ---- */

static void put_list(FILE *to, const struct losses *l, const struct losses *but)
{
	char text[GFID_TEXT];

	for (unsigned i = 0; i < l->count; i++)
		if (!but || !losses_have(but, &l->gfid[i]))
			fprintf(to, "%s\n", gfid_text(&l->gfid[i], text));
}

/* With the lock held. What the caller frees, or NULL: no memory. */
static char *text_of(const struct member *m, bool *any)
{
	unsigned count = m->lost.count + m->in_doubt.count; /* those that are in both count twice */
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	*any = m->lost.count > LOST_KEPT || m->in_doubt.count > LOST_KEPT;
	if (!to)
		return NULL;
	fputs(HEAD, to);
	if (*any) {
		fputs(ANY, to);
	} else if (count) {
		put_list(to, &m->lost, NULL);
		put_list(to, &m->in_doubt, &m->lost);
	}
	fputs(TAIL, to);
	if (fclose(to)) {
		free(text);
		return NULL;
	}
	return text;
}

/* What makes no sense is of any. */
static void take_text(struct losses *l, const char *at)
{
	struct gfid g;
	char line[GFID_TEXT] = "";

	*l = (struct losses){ .count = LOST_KEPT + 1 };
	if (strncmp(at, HEAD, strlen(HEAD)))
		return;
	at += strlen(HEAD);
	for (l->count = 0; strlen(at) > GFID_TEXT - 1 && at[GFID_TEXT - 1] == '\n'; at += GFID_TEXT) {
		memcpy(line, at, GFID_TEXT - 1);
		if (gfid_parse(line, &g))
			break;
		losses_add(l, &g);
	}
	if (strcmp(at, TAIL))
		l->count = LOST_KEPT + 1;
}

/* ---- the file ---- */

/* 0, -errno, or errno: it may not be durable. */
static int write_new(struct member *m, const char *text)
{
	int fd = openat(m->index.directory_fd, NEW, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), err = 0;
	ssize_t size = (ssize_t)strlen(text), done = fd < 0 ? -1 : write(fd, text, (size_t)size);

	if (done != size)
		err = done < 0 ? -errno : -ENOSPC;
	else if (fsync(fd))
		err = errno;
	if (fd >= 0)
		close(fd);
	return err;
}

/* It takes the place of what is there, too, if it is whole and only may not be durable: a process that follows reads it all the same, unless the power goes. *there: it has. */
static int write_mark(struct member *m, const char *text, bool *there)
{
	int at = m->index.directory_fd, err = write_new(m, text);

	if (err < 0)
		return err;
	if (renameat(at, NEW, at, MARK))
		return -errno;
	*there = true;
	return err ? -err : fsync(at) ? -errno : 0;
}

/* One that is there becomes an empty one, in its place. */
static int use(struct member *m, const char *name)
{
	int at = m->index.directory_fd, fd = openat(at, name, O_WRONLY | O_TRUNC | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	close(fd);
	if (renameat(at, name, at, MARK) || fsync(at))
		return -errno;
	return 0;
}

static int unmark(struct member *m)
{
	int at = m->index.directory_fd;

	return renameat(at, MARK, at, SPARE) && errno != ENOENT ? -errno : 0;
}

/* As the member was when the text was made. *any: what the file says now. */
static int change_mark(struct member *m, bool on, const char *text, bool *any)
{
	bool there = false;
	int err;

	task_blocks();
	if (!on)
		return unmark(m);
	err = text ? write_mark(m, text, &there) : -ENOMEM;
	if (!there && (!use(m, SPARE) || !use(m, MARK))) {
		*any = true;
		err = 0;
	}
	return err;
}

/* Once, until it succeeds or fails otherwise: each sync that is refused tries it. */
static void say(struct member *m, bool on, int err, int before)
{
	if (err && err != before)
		log_error(m->x, NULL, "can't %s %s/" MARK ", by which the next process knows what the disk has lost: %s",
			  on ? "write" : "remove", m->state_dir, error_text(err));
}

/* One at a time, and who comes meanwhile waits. */
void losses_mark(struct member *m)
{
	int err = 0;

	pthread_mutex_lock(&m->lock);
	while (m->marking)
		task_cond_wait(&m->marked, &m->lock, NO_DEADLINE);
	while (!err && m->mark_done != m->mark_wanted && !MUTANT("mark-no-loss")) {
		uint64_t wanted = m->mark_wanted;
		bool on = m->unsynced, any = false, is_said = on && m->mark_is_of_any;
		char *text = on && !is_said ? text_of(m, &any) : NULL;
		int before = m->mark_error;

		m->marking = true;
		pthread_mutex_unlock(&m->lock);
		err = is_said ? 0 : change_mark(m, on, text, &any);
		say(m, on, err, before);
		free(text);
		pthread_mutex_lock(&m->lock);
		m->marking = false;
		m->mark_error = err;
		m->mark_done = err ? m->mark_done : wanted;
		m->mark_is_of_any = err ? m->mark_is_of_any : on && (any || is_said);
		task_cond_broadcast(&m->marked);
	}
	pthread_mutex_unlock(&m->lock);
}

/* ---- at the start ---- */

static void read_mark(struct member *m, int fd)
{
	char text[TEXT_MAX + 1];
	ssize_t got = read(fd, text, TEXT_MAX);

	text[got < 0 ? 0 : got] = '\0';
	take_text(&m->lost, text);
	m->mark_is_of_any = m->lost.count > LOST_KEPT;
}

void losses_begin(struct member *m)
{
	int fd = openat(m->index.directory_fd, MARK, O_RDONLY | O_CLOEXEC);

	m->unsynced = fd >= 0 || errno != ENOENT;
	if (fd >= 0)
		read_mark(m, fd);
	else if (m->unsynced)
		m->lost.count = LOST_KEPT + 1;
	if (m->unsynced)
		log_error(
			m->x, NULL,
			"the disk has not kept all that was written to it before the start, of %s: the member is to be healed",
			m->lost.count > LOST_KEPT ? "whatever file" : "the files in " MARK);
	if (fd >= 0)
		close(fd);
	fd = openat(m->index.directory_fd, SPARE, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
}
