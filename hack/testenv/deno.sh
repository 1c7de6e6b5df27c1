#!/usr/bin/env bash
# Provides the Deno that hack/testenv/deno pins and prints the path of its binary, for use as DENO.
#
# In this order: DENO where it is set and works; the cache; npm, by the lock file, so that what is installed is what was
# pinned (about 45 MB, once per version). The cache is outside the clone, by version:
# ${XDG_CACHE_HOME:-~/.cache}/pgflow-operator/deno. Progress goes to standard error.
set -euo pipefail

testenv=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=hack/testenv/stage.sh
. "$testenv/stage.sh"

if [ -n "${DENO:-}" ]; then
	if "$DENO" --version >/dev/null 2>&1; then
		echo "$DENO"
		exit 0
	fi
	echo "DENO=$DENO cannot be run; looking elsewhere" >&2
fi

pinned=$testenv/deno
version=$(sed -n 's/^ *"deno": "\([0-9.]*\)".*/\1/p' "$pinned/package.json")
digest=$(cat "$pinned/package.json" "$pinned/package-lock.json" | sha256sum | cut -c1-12)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/pgflow-operator/deno
installed=$cache/$version-$digest

# found prints the binary in a directory that npm has filled: there is one for this machine alone.
found() {
	local binary
	for binary in "$1"/node_modules/@deno/*/deno; do
		if [ -x "$binary" ]; then
			echo "$binary"
			return
		fi
	done
	return 1
}

if found "$installed"; then
	exit 0
fi
if ! command -v npm >/dev/null; then
	echo "npm is missing, which Deno $version comes from; install it (sudo apt-get install npm), or name a Deno with DENO=" >&2
	exit 2
fi

# One at a time: whoever comes second waits and finds the result.
mkdir -p "$cache"
exec 9>"$installed.lock"
flock -n 9 || stage "waiting for another run that provides Deno $version" flock 9
if found "$installed"; then
	exit 0
fi

# What an earlier run left that was killed; the lock says that nobody works there.
rm -rf "$installed" "$installed".tmp.*
work=$(mktemp -d "$installed.tmp.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp "$pinned/package.json" "$pinned/package-lock.json" "$work/"
# No scripts: the package's own only copies the binary to where npm expects it. The lock is not for npm's children.
stage "npm ci for Deno $version" \
	npm --prefix "$work" ci --ignore-scripts --no-audit --no-fund --loglevel=error --cache "$work/npm" >&2 9>&-
rm -rf "$work/npm"
if ! binary=$(found "$work") || ! "$binary" --version >/dev/null; then
	echo "npm installed no Deno that runs on this machine ($(uname -sm))" >&2
	exit 1
fi
# Whole or not at all, whatever ends this script.
mv "$work" "$installed"
found "$installed"
