#!/usr/bin/env bash
# Makes ready what building (`setup.sh build`) or testing (`setup.sh test`) needs, in .venv inside this folder.
# Nothing is done twice; a second run takes a moment. As root on a Debian-like system a missing python3-venv is
# installed; everywhere else the exact command to run is printed.
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:-build}
case $what in
build | test) ;;
*)
    echo "usage: scripts/setup.sh [build|test]" >&2
    exit 2
    ;;
esac

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
    say "$1"
    shift
    for line in "$@"; do printf '    %s\n' "$line" >&2; done
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

have cargo || fail "cargo is missing; install Rust first:" "https://rustup.rs"
have cc || fail "a C compiler is missing (the HDF5 library is built from its C source):" "apt-get install -y gcc libc6-dev"
have python3 || fail "python3 is missing:" "apt-get install -y python3"

# The bundled HDF5 asks for cmake 3.26.
modern_cmake() {
    have cmake || return 1
    local version major minor
    version=$(cmake --version | sed -n '1s/^cmake version //p')
    major=${version%%.*}
    minor=${version#*.}
    minor=${minor%%.*}
    [ "$major" -gt 3 ] 2>/dev/null || { [ "$major" -eq 3 ] && [ "$minor" -ge 26 ]; } 2>/dev/null
}

lists=()
modern_cmake || lists+=(scripts/requirements-build.txt)
[ "$what" = build ] || lists+=(scripts/requirements-test.txt)
if [ ${#lists[@]} -eq 0 ]; then
    say "nothing to do: $(cmake --version | head -n 1)"
    exit 0
fi

python=.venv/bin/python
if ! { [ -x "$python" ] && "$python" -m pip --version >/dev/null 2>&1; }; then
    rm -rf .venv
    if ! python3 -m venv .venv >/dev/null 2>&1; then
        rm -rf .venv
        if have apt-get && [ "$(id -u)" -eq 0 ]; then
            say "python3 has no venv module; installing python3-venv"
            { apt-get update -qq &&
                DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv; } \
                >/dev/null 2>&1 ||
                fail "apt-get failed; run this to see why and try again:" "apt-get update && apt-get install -y python3-venv"
            python3 -m venv .venv
        elif have apt-get; then
            fail "python3 has no venv module; run this and try again:" "sudo apt-get install -y python3-venv"
        else
            fail "python3 cannot make a virtual environment (python3 -m venv .venv); install its venv and pip modules"
        fi
    fi
fi

# One mark for each list and its contents, so that a changed list is installed again.
for list in "${lists[@]}"; do
    mark=.venv/.done-$(basename "$list" .txt)-$(cksum <"$list" | tr ' ' -)
    [ -e "$mark" ] && continue
    say "installing $list into .venv"
    "$python" -m pip install --quiet --disable-pip-version-check --only-binary :all: -r "$list"
    touch "$mark"
done
say "ready"
