/* SPDX-License-Identifier: Apache-2.0 */
/* Decides when an end that comes is told. */
#include "ending.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "json.h"
#include "path.h"

bool ending_is_near(int64_t begins, int64_t ends, int64_t now)
{
	int64_t warned = ends - (int64_t)ENDING_DAYS * ENDING_DAY_S, half = begins + (ends - begins) / 2;

	return now >= (warned > half ? warned : half);
}

/* A clock that was set back makes no silence. */
bool ending_is_due(struct ending_told *t, int64_t begins, int64_t ends, int64_t now)
{
	bool ended = now >= ends, due;

	due = ending_is_near(begins, ends, now) &&
	      (!t->any || (ended && !t->ended) || now < t->last || now - t->last >= ENDING_DAY_S);
	t->ended = ended;
	if (due) {
		t->any = true;
		t->last = now;
	}
	return due;
}

static const char *noun(const json_t *one)
{
	return strcmp(json_text(one, "role"), "authority") ? "certificate" : "authority";
}

/* "in 12 days"; the last two days are told in hours, the last two hours in minutes. */
static char *distance(int64_t seconds)
{
	if (seconds >= 2 * ENDING_DAY_S)
		return path_format("%" PRId64 " days", seconds / ENDING_DAY_S);
	if (seconds >= 7200)
		return path_format("%" PRId64 " hours", seconds / 3600);
	return path_format("%" PRId64 " minutes", seconds / 60);
}

static const char *advice(const json_t *one, bool ended)
{
	if (!strcmp(json_text(one, "role"), "authority"))
		return ended ? ": no certificate of it counts any more; make another authority (doc/security.md tells how)"
			     : ", and with it each certificate of it: make another authority before (doc/security.md tells how)";
	return ended ? ": this process is refused until another one is put there"
		     : ": have another one issued and put it there before; it is used without a restart";
}

char *ending_sentence(const json_t *one, int64_t now)
{
	time_t ends = (time_t)json_number(one, "ends");
	bool ended = now >= ends;
	cleanup_path char *left = distance(ended ? now - ends : ends - now);
	char date[32] = "?";
	struct tm tm;

	if (*json_text(one, "problem"))
		return path_format("%s", json_text(one, "problem"));
	if (gmtime_r(&ends, &tm))
		strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &tm);
	return path_format("the %s %s %s on %s, %s%s%s%s", noun(one), json_text(one, "file"), ended ? "has ended" : "ends",
			   date, ended ? "" : "in ", left, ended ? " ago" : "",
			   json_is_true(json_object_get(one, "near")) ? advice(one, ended) : "");
}
