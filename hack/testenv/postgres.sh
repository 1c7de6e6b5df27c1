#!/usr/bin/env bash
# Makes sure that PostgreSQL's server programs are on this machine and prints their directory. It starts no server: tests
# and demo make clusters of their own.
#
# Where there are none, root gets them from Debian's package, without the cluster that the package would make; everybody
# else is told the line to run, with exit code 2.
set -euo pipefail

testenv=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=hack/testenv/stage.sh
. "$testenv/stage.sh"

# find_binaries looks where the Go package postgres looks: the newest of Debian's versions, then PATH.
find_binaries() {
	local dir postgres
	for dir in $(printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV); do
		if [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ]; then
			echo "$dir"
			return
		fi
	done
	postgres=$(command -v postgres) || return
	dir=$(dirname "$(readlink -f "$postgres")")
	[ -x "$dir/initdb" ] && echo "$dir"
}

if find_binaries; then
	exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
	echo "PostgreSQL's server programs are missing; install them with: sudo apt-get install postgresql" >&2
	exit 2
fi

export DEBIAN_FRONTEND=noninteractive
# The package reads every file there before it makes a cluster; this one is for this installation only.
settings=/etc/postgresql-common/createcluster.d/pgflow-operator.conf
mkdir -p "$(dirname "$settings")"
trap 'rm -f "$settings"' EXIT
echo "create_main_cluster = false" >"$settings"

stage "apt-get update" apt-get -q update >&2
stage "apt-get install postgresql" apt-get -qy install --no-install-recommends postgresql >&2
find_binaries
