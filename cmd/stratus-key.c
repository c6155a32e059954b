/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus key`: makes key files, and changes who can open them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "json.h"
#include "path.h"
#include "secret.h"
#include "service.h"
#include "unlock.h"
#include "verbs.h"

enum { KEY_NEW_FD = 1000, KEY_NEW_FILE, KEY_JSON };

struct arguments {
	struct words words;
	struct unlock unlock;
	const char *new_fd, *new_file;
	bool json;
};

static error_t option(int key, char *value, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->unlock;
		return 0;
	case KEY_NEW_FD:
		a->new_fd = value;
		return 0;
	case KEY_NEW_FILE:
		a->new_file = value;
		return 0;
	case KEY_JSON:
		a->json = true;
		return 0;
	default:
		return words_take(&a->words, key, value, state);
	}
}

static const char *file_of(const struct arguments *a)
{
	return a->words.word[1];
}
static const char *name_of(const struct arguments *a, const char *usual)
{
	return a->words.count > 2 ? a->words.word[2] : usual;
}

/* A slot for a new passphrase, or for the bytes of a file. */
static int add(const struct arguments *a, struct keyfile *k, const struct masters *m, enum slot_kind kind, const char *name,
	       struct problem *p)
{
	void *secret = secret_alloc(KEYFILE_SECRET_MAX);
	size_t size = 0;
	int err;

	if (!secret)
		return problem_set(p, ENOMEM, "no locked memory for keys: raise the limit (ulimit -l)");
	if (kind == SLOT_KEYFILE)
		err = a->new_file ? secret_file_read(a->new_file, secret, &size, p)
				  : problem_set(p, EINVAL, "which file's bytes are to open it? Say so with --new-secret-file");
	else
		err = passphrase_new(a->new_fd, secret, &size, p);
	if (!err)
		err = keyfile_add(k, m, kind, name, secret, size, p);
	secret_free(secret, KEYFILE_SECRET_MAX);
	return err;
}

static int init(const struct arguments *a, struct problem *p)
{
	struct keyfile k;
	struct masters *m;
	enum slot_kind kind = a->new_file ? SLOT_KEYFILE : SLOT_PASSPHRASE;
	int err;

	secret_hide_process();
	err = keyfile_create(&k, &m, p);
	if (err)
		return err;
	err = add(a, &k, m, kind, name_of(a, slot_kind_name(kind)), p);
	if (!err)
		err = keyfile_write(file_of(a), &k, true, p);
	secret_free(m, sizeof(*m));
	if (!err)
		printf("%s is a new key file. Keep a copy, and a recovery code (`stratus key recovery %s`): without them what it "
		       "encrypts is lost.\n",
		       file_of(a), file_of(a));
	return err;
}

static int open_file(const struct arguments *a, struct keyfile *k, struct masters **m, struct problem *p)
{
	struct unlock u = a->unlock;
	int err = keyfile_read(file_of(a), k, p);

	if (!err)
		err = unlock_ask(&u, file_of(a), p);
	if (!err)
		err = unlock_open(&u, k, m, p);
	unlock_end(&u);
	return err;
}

typedef int deed(const struct arguments *, struct keyfile *, struct masters *, struct problem *);

static int with_keys(const struct arguments *a, deed *fn, struct problem *p)
{
	struct keyfile k;
	struct masters *m;
	int err = open_file(a, &k, &m, p);

	if (err)
		return err;
	err = fn(a, &k, m, p);
	secret_free(m, sizeof(*m));
	return err;
}

/* Opens it, has it changed, and writes it back. Of two at once one waits, or what it has read would undo the other's change: a master key of which
 * only a mount knows is lost with it. */
static int change(const struct arguments *a, deed *fn, struct problem *p)
{
	int lock = keyfile_lock(file_of(a), p), err;

	if (lock < 0)
		return lock;
	err = with_keys(a, fn, p);
	close(lock);
	return err;
}

static int do_passphrase(const struct arguments *a, struct keyfile *k, struct masters *m, struct problem *p)
{
	int err = add(a, k, m, SLOT_PASSPHRASE, name_of(a, NULL), p);

	return err ? err : keyfile_write(file_of(a), k, false, p);
}

static int do_keyfile(const struct arguments *a, struct keyfile *k, struct masters *m, struct problem *p)
{
	int err = add(a, k, m, SLOT_KEYFILE, name_of(a, NULL), p);

	return err ? err : keyfile_write(file_of(a), k, false, p);
}

/* The code is shown once it is of use. */
static int do_recovery(const struct arguments *a, struct keyfile *k, struct masters *m, struct problem *p)
{
	char code[KEYFILE_CODE];
	uint8_t bytes[20];
	int err = recovery_code(code);

	if (err || recovery_parse(code, bytes))
		return problem_set(p, EIO, "no random numbers");
	err = keyfile_add(k, m, SLOT_RECOVERY, name_of(a, "recovery"), bytes, sizeof(bytes), p);
	if (!err)
		err = keyfile_write(file_of(a), k, false, p);
	if (!err)
		printf("%s\n", code);
	secret_wipe(code, sizeof(code));
	secret_wipe(bytes, sizeof(bytes));
	return err;
}

static int do_remove(const struct arguments *a, struct keyfile *k, struct masters *m, struct problem *p)
{
	int err = keyfile_remove(k, name_of(a, NULL), p);

	(void)m;
	return err ? err : keyfile_write(file_of(a), k, false, p);
}

static int do_rotate(const struct arguments *a, struct keyfile *k, struct masters *m, struct problem *p)
{
	int err = keyfile_rotate(k, m, p);

	if (!err)
		err = keyfile_write(file_of(a), k, false, p);
	if (!err)
		printf("master key %u is for files that are made from now on, by mounts that read %s anew\n", m->count,
		       file_of(a));
	return err;
}

static int add_passphrase(const struct arguments *a, struct problem *p)
{
	return change(a, do_passphrase, p);
}
static int add_keyfile(const struct arguments *a, struct problem *p)
{
	return change(a, do_keyfile, p);
}
static int recovery(const struct arguments *a, struct problem *p)
{
	return change(a, do_recovery, p);
}
static int remove_slot(const struct arguments *a, struct problem *p)
{
	return change(a, do_remove, p);
}
static int rotate(const struct arguments *a, struct problem *p)
{
	return change(a, do_rotate, p);
}

static void print_json(const struct keyfile *k, uint32_t epochs)
{
	json_t *slots = json_array(), *all;

	for (unsigned i = 0; i < k->slots; i++)
		json_array_append_new(slots, json_pack("{s:s, s:s}", "name", k->slot[i].name, "kind",
						       slot_kind_name(k->slot[i].kind)));
	all = json_pack("{s:i, s:o}", "master-keys", (int)epochs, "slots", slots);
	json_show(all);
	json_decref(all);
}

static int do_check(const struct arguments *a, struct keyfile *k, struct masters *m, struct problem *p)
{
	(void)p;
	if (a->json) {
		print_json(k, m->count);
		return 0;
	}
	printf("%s opens; it has %u master key%s\n", file_of(a), m->count, m->count == 1 ? "" : "s");
	for (unsigned i = 0; i < k->slots; i++)
		printf("  %-10s  %s\n", slot_kind_name(k->slot[i].kind), k->slot[i].name);
	return 0;
}

static int check(const struct arguments *a, struct problem *p)
{
	return with_keys(a, do_check, p);
}

int command_key(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "new-passphrase-fd", KEY_NEW_FD, "N", 0,
		  "With init and add-passphrase: read the new passphrase from descriptor N", 0 },
		{ "new-secret-file", KEY_NEW_FILE, "FILE", 0, "With init and add-keyfile: the bytes of FILE are to open it",
		  0 },
		{ "json", KEY_JSON, NULL, 0, "With check: print JSON", 0 },
		{ 0 },
	};
	static const struct argp_child children[] = { { &unlock_argp, 0, "", 0 }, { 0 } };
	static const struct argp argp = {
		options,
		option,
		"init KEYFILE [NAME]\nadd-passphrase KEYFILE NAME\nadd-keyfile KEYFILE NAME\nrecovery KEYFILE [NAME]\n"
		"remove KEYFILE NAME\nrotate KEYFILE\ncheck KEYFILE",
		"Makes a key file for `stratus mount --key`, and changes what opens it: up to 16 slots, each with a name, for "
		"passphrases, files and recovery codes. `rotate` adds a master key for files that are made from now on. Secrets are "
		"asked for on the terminal unless an option says from where they come.",
		children,
		NULL,
		NULL,
	};
	static const struct verb verbs[] = {
		{ "init", 2, 3, 0, init },
		{ "add-passphrase", 3, 3, 0, add_passphrase },
		{ "add-keyfile", 3, 3, 0, add_keyfile },
		{ "recovery", 2, 3, 0, recovery },
		{ "remove", 3, 3, 0, remove_slot },
		{ "rotate", 2, 2, 0, rotate },
		{ "check", 2, 2, 0, check },
		{ 0 },
	};
	const char *word[3];
	struct arguments a = { .words = { word, 1, 3, 0 } };

	arguments_parse(&argp, argc, argv, 0, NULL, &a);
	return verbs_run(argv[0], verbs, word[0], a.words.count, 0, &a);
}
