/* SPDX-License-Identifier: Apache-2.0 */
/* A demo for tenants: an authority of its own, which says who is who. All keys lie on this machine: it is for trying out. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ca.h"
#include "demo.h"
#include "log.h"
#include "path.h"

char *demo_tls(const struct demo *d, size_t mount)
{
	return d->spec.has_tenants ? path_format("%s/tenant-%s", d->directory, d->spec.tenant[mount].name) : NULL;
}

static int issue(struct authority *ca, const struct subject *whom, const char *directory, struct problem *p)
{
	char serial[CA_SERIAL_TEXT];
	struct pems pems = { 0 };
	int err = authority_issue(ca, whom, CA_DAYS, &pems, serial, p);

	if (!err)
		err = authority_install(ca, &pems, directory, true, p);
	pems_free(&pems);
	return err;
}

static int issue_server(const struct demo *d, struct authority *ca, struct problem *p)
{
	cleanup_path char *directory = demo_file(d, "tls");
	struct subject server = { 0 };
	int err = subject_server(&server, "127.0.0.1,localhost", p);

	if (!err)
		err = issue(ca, &server, directory, p);
	subject_free(&server);
	return err;
}

static int add_tenant(struct demo *d, struct authority *ca, const char *name, struct problem *p)
{
	cleanup_path char *directory = path_format("%s/tenant-%s", d->directory, name);
	struct subject tenant = { 0 };
	int err = subject_named(&tenant, "tenant", name, p);

	if (!err)
		err = issue(ca, &tenant, directory, p);
	if (!err)
		err = spec_create_tenant(&d->spec, name, 0, p);
	subject_free(&tenant);
	return err;
}

static int add_all(struct demo *d, struct authority *ca, const char *names, struct problem *p)
{
	cleanup_path char *copy = path_format("%s", names);
	char *rest = copy, *name;
	int err = issue_server(d, ca, p);

	while (!err && (name = strsep(&rest, ",")))
		err = add_tenant(d, ca, name, p);
	return err;
}

int demo_make_tenants(struct demo *d, const char *names, struct problem *p)
{
	cleanup_path char *directory = demo_file(d, "ca"), *tls = demo_file(d, "tls");
	struct authority *ca = NULL;
	bool made;
	/* A day more: what is issued a second later ends after it otherwise, and is refused. */
	int err = authority_init(directory, "the demo", CA_DAYS + 1, &made, p);

	if (!err)
		err = authority_open(directory, &ca, p);
	if (!err)
		err = add_all(d, ca, names, p);
	authority_close(ca);
	if (!err)
		spec_set_tls(&d->spec, tls);
	return err;
}

int demo_check_names(const char *names, struct problem *p)
{
	cleanup_path char *copy = path_format("%s", names);
	char *rest = copy, *name;
	int err = 0;

	while (!err && (name = strsep(&rest, ","))) {
		struct subject tenant = { 0 };

		err = subject_named(&tenant, "tenant", name, p);
		subject_free(&tenant);
	}
	return err;
}

int demo_check_tenants(const struct demo *d, const char *names, struct problem *p)
{
	cleanup_path char *copy = path_format("%s", names);
	char *rest = copy, *name;

	while ((name = strsep(&rest, ",")))
		if (!d->spec.has_tenants || !spec_tenant_find(&d->spec, name))
			return problem_set(
				p, EINVAL,
				"the demo in %s has no tenant '%s': leave --tenants out, or begin anew in another --dir",
				d->directory, name);
	return 0;
}
