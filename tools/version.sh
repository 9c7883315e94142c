#!/bin/sh
# Prints the version of this tree. If HEAD has the tag of a release, v0.3.0 or v0.3.0-rc.1, that is 0.3.0 or 0.3.0-rc.1, else the
# version in the file VERSION with the commit: 0.3.0-dev+1a2b3c4d5e6f. If a file that git tracks was changed, it ends with `dirty`.
#
# All other tags are ignored: tags come with a fetch from any fork, and the version is part of shell commands. Without git, as
# in the source archive of a release, the file VERSION has the whole version.
set -eu
cd "$(dirname "$0")/.."
version=$(cat VERSION)
commit=$([ -e .git ] && git rev-parse --short=12 HEAD 2>/dev/null) || {
	echo "$version"
	exit
}
# A release comes before its candidates if one commit has the tags of both.
tag=$(git -c versionsort.suffix=- tag --points-at HEAD --sort=-version:refname |
	LC_ALL=C grep -xE 'v(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?' | head -n 1) || true
build=
if [ -n "$tag" ]; then
	version=${tag#v}
else
	build=$commit
fi
if [ -n "$(git status --porcelain --untracked-files=no)" ]; then
	build=${build:+$build.}dirty
fi
echo "$version${build:++$build}"
