#!/usr/bin/env bash
# Fetches the servers that the end-to-end tests run against, unless they are there:
#   redis-server    of the system, installed from Debian's packages when there is none
#   restate-server  of the npm package @restatedev/restate-server, into .tools/ at the repository's root
#   promtool        with prometheus of the system, as redis-server: checks the alerts of examples/observability
# RESTATE_VERSION chooses another restate-server than the pinned one. Runs again at no cost.
set -euo pipefail

readonly restate_version="${RESTATE_VERSION:-1.7.12}"
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly root

# What an end of the script, by an error too, must undo.
guard=""
staging=""
cleanup() {
	if [ -n "$guard" ]; then as_root rm -f "$guard"; fi
	if [ -n "$staging" ]; then rm -rf "$staging"; fi
}
trap cleanup EXIT

die() {
	echo "tools.sh: $*" >&2
	exit 1
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "root is needed for: $*"
	fi
}

# apt_install PACKAGE: installs one of Debian's packages without starting a service that it brings.
apt_install() {
	local policy=/usr/sbin/policy-rc.d
	command -v apt-get >/dev/null || die "$1 is missing and there is no apt-get: install $1 and run this again"
	echo "tools.sh: installing $1" >&2
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
		guard="$policy"
		as_root chmod 755 "$policy"
	fi
	as_root apt-get update -qq >&2 || die "apt-get update failed: $1 cannot be installed"
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null ||
		die "apt-get could not install $1"
	if [ -n "$guard" ]; then
		as_root rm -f "$guard"
		guard=""
	fi
}

# restate_binary DIRECTORY: where npm puts the server itself, rather than the Node.js wrapper around it.
restate_binary() {
	local system machine
	case "$(uname -s)" in
	Linux) system=linux ;;
	Darwin) system=darwin ;;
	*) die "there is no restate-server package for $(uname -s)" ;;
	esac
	case "$(uname -m)" in
	x86_64 | amd64) machine=x64 ;;
	aarch64 | arm64) machine=arm64 ;;
	*) die "there is no restate-server package for $(uname -m)" ;;
	esac
	echo "$1/node_modules/@restatedev/restate-server-$system-$machine/bin/restate-server"
}

# version_of BINARY: the first version number that it prints, or nothing. Variables that start with RESTATE_ would be
# read as configuration.
version_of() {
	env -u RESTATE_VERSION "$1" --version 2>/dev/null | grep -oE '[0-9]+\.[0-9]+\.[0-9]+[^ ]*' | head -n 1 || true
}

fetch_redis() {
	if ! command -v redis-server >/dev/null; then
		apt_install redis-server
		command -v redis-server >/dev/null || die "redis-server was installed but is not in PATH"
	fi
}

fetch_prometheus() {
	if ! command -v promtool >/dev/null; then
		apt_install prometheus
		command -v promtool >/dev/null || die "prometheus was installed but promtool is not in PATH"
	fi
}

fetch_restate() {
	local target="$root/.tools/restate-$restate_version" binary
	binary="$(restate_binary "$target")"
	mkdir -p "$root/.tools"
	echo '*' >"$root/.tools/.gitignore"
	if [ -x "$binary" ] && [ "$(version_of "$binary")" = "$restate_version" ]; then
		return
	fi
	command -v npm >/dev/null || apt_install npm
	command -v npm >/dev/null || die "npm is missing: install Node.js with npm and run this again"
	echo "tools.sh: fetching restate-server $restate_version" >&2
	# Staged beside its place, so that an interrupted download is never taken for a whole one.
	staging="$(mktemp -d "$root/.tools/.restate-XXXXXX")"
	npm install --prefix "$staging" --no-save --ignore-scripts --no-audit --no-fund --loglevel=error \
		"@restatedev/restate-server@$restate_version" >&2 ||
		die "npm could not install restate-server $restate_version"
	binary="$(restate_binary "$staging")"
	[ -x "$binary" ] || die "the npm package brought no restate-server for this machine"
	[ "$(version_of "$binary")" = "$restate_version" ] ||
		die "the restate-server of npm package version $restate_version does not run here"
	rm -rf "$target"
	chmod 755 "$staging"
	mv "$staging" "$target"
	staging=""
}

fetch_redis
fetch_prometheus
fetch_restate
redis_version="$(version_of "$(command -v redis-server)")"
[ -n "$redis_version" ] || die "redis-server does not tell its version"
promtool_version="$(version_of "$(command -v promtool)")"
[ -n "$promtool_version" ] || die "promtool does not tell its version"
echo "redis-server $redis_version"
echo "restate-server $restate_version"
echo "promtool $promtool_version"
