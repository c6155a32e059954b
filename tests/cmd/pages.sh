#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The README names all pages of doc/, and each link of a page leads to a file, or a heading, that is there.
. "$(dirname "$0")/../mount/lib.sh"
need python3

cd "$TOP"
for page in doc/*.md; do
	grep -q "($page)" README.md || fail "README.md does not name $page: add it under \"Pages\""
done
python3 - README.md doc/*.md xlators/*/*/*.md extras/*/*.md tests/*/*.md <<-'END' || fail "links lead nowhere"
	import os, re, sys

	def headings(page):
	    """As they are in links: small letters, no signs, hyphens for spaces."""
	    return [re.sub(r"[^\w\- ]", "", line).strip().lower().replace(" ", "-") for line in re.findall(r"^#+ (.*)$", open(page).read(), re.M)]

	wrong = 0
	for page in filter(os.path.exists, sys.argv[1:]):
	    for path, _, heading in re.findall(r"\]\(([^)#\s]*)(#([^)\s]*))?\)", open(page).read()):
	        if "://" in path:
	            continue
	        to = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
	        if not os.path.exists(to) or heading and heading not in headings(to):
	            print(f"{page}: {path}{'#' + heading if heading else ''} leads nowhere")
	            wrong = 1
	sys.exit(wrong)
END
pass
