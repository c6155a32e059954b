/* SPDX-License-Identifier: Apache-2.0 */
/* Where the files of TLS are in a directory. What they hold is judged by who uses them. */
#include "tls-dir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph.h"
#include "path.h"

static int check(const char *directory, const char *path, struct problem *p)
{
	if (!access(path, R_OK))
		return 0;
	if (errno == EACCES)
		return problem_set(p, EACCES, "--tls-dir %s: you may not read %s: do this as the user whose file that is",
				   directory, path);
	return problem_set(p, errno, "--tls-dir %s: can't read %s: %m; `stratus cert issue --out %s` writes it", directory,
			   path, directory);
}

int tls_dir_open(const char *directory, struct tls_dir *d, struct problem *p)
{
	cleanup_path char *whole = path_absolute(directory);
	int err;

	*d = (struct tls_dir){ path_format("%s/cert.pem", whole), path_format("%s/key.pem", whole),
			       path_format("%s/ca.pem", whole), path_format("%s/crl.pem", whole) };
	err = check(whole, d->certificate, p);
	if (!err)
		err = check(whole, d->key, p);
	if (!err)
		err = check(whole, d->authorities, p);
	if (err)
		tls_dir_free(d);
	return err;
}

void tls_dir_free(struct tls_dir *d)
{
	free(d->certificate);
	free(d->key);
	free(d->authorities);
	free(d->revoked);
	*d = (struct tls_dir){ NULL };
}

void tls_dir_use(const char *directory)
{
	cleanup_path char *whole = path_absolute(directory);

	setenv("STRATUS_TLS_DIR", whole, 1);
}

const char *tls_dir_wanted(void)
{
	const char *directory = getenv("STRATUS_TLS_DIR");

	if (directory && *directory && *directory != '/') { /* of where the program was started; it may go elsewhere */
		tls_dir_use(directory);
		directory = getenv("STRATUS_TLS_DIR");
	}
	return directory && *directory ? directory : NULL;
}

/* ---- volfiles ---- */

static struct option_value *find(struct volfile_volume *v, const char *name)
{
	for (size_t i = 0; i < v->options; i++)
		if (!strcmp(v->option[i].name, name))
			return &v->option[i];
	return NULL;
}

static int apply_to(struct volfile_volume *v, const char *path, const struct tls_dir *d, struct problem *p)
{
	const struct option_value *transport = find(v, "transport");
	int err;

	if (!transport || strcmp(transport->value, "tls"))
		return problem_set(
			p, EPERM,
			"%s: %s is to be reached without TLS, which --tls-dir forbids: give the volume's specification "
			"'transport: tls', or leave --tls-dir out",
			path, v->name);
	err = volfile_set_option(v, "tls-certificate", d->certificate);
	if (!err)
		err = volfile_set_option(v, "tls-key", d->key);
	if (!err)
		err = volfile_set_option(v, "tls-authorities", d->authorities);
	if (!err)
		err = volfile_set_option(v, "tls-revoked", d->revoked);
	return err ? err : volfile_set_option(v, "tls-revoked-may-lack", "on");
}

int tls_dir_apply(struct volfile *v, struct problem *p)
{
	struct tls_dir d;
	int err = tls_dir_wanted() ? tls_dir_open(tls_dir_wanted(), &d, p) : 0;

	if (err || !tls_dir_wanted())
		return err;
	for (size_t i = 0; i < v->volumes && !err; i++)
		if (!strcmp(v->volume[i].type, "protocol/client"))
			err = apply_to(&v->volume[i], v->path, &d, p);
	tls_dir_free(&d);
	return err;
}
