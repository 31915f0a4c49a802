#!/usr/bin/env bash
# Make .venv hold what requirements/KIND.lock says, and this package in development mode; do nothing if it already does.
#
#   tools/venv.sh base|dev|learn PYTHON
#
# learn is dev with torch (2.4 GB to download, 4.6 GB on disk), which lint and tests of training need.
# PYTHON makes the venv when there is none. What is installed is remembered by the content of the locks, so a second run
# costs nothing and a changed lock is noticed. Two runs at once wait for each other.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=$1
python=$2

venv=.venv
stamps=$venv/.stowplan
bin=$venv/bin

stamp_of() { cat "$@" | sha256sum | cut -d' ' -f1; }
is_stamped() { [[ -f $stamps/$1 && $(< "$stamps/$1") == "$2" ]]; }

make_venv() {
    if [[ -z $python ]]; then
        echo "Stowplan needs Python 3.11 or newer; none was found. Install one, or name it: make PYTHON=/path/to/python" >&2
        exit 1
    fi
    if ! "$python" -c 'import ensurepip, venv' 2> /dev/null; then
        if [[ $(id -u) == 0 ]] && command -v apt-get > /dev/null; then
            echo "installing python3-venv, which $python lacks"
            apt-get update -qq
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv > /dev/null
        else
            echo "$python cannot make virtual environments; install them (Debian: apt-get install python3-venv)" >&2
            exit 1
        fi
    fi
    "$python" -m venv "$venv"
}

pip() { "$bin/python" -m pip --quiet --disable-pip-version-check --no-input "$@"; }

exec 9> .venv.lock
flock 9
if ! "$bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then
    rm -rf "$venv"
    make_venv
fi
mkdir -p "$stamps"

plain=${kind/learn/dev}
locks=(requirements/build.lock "requirements/$plain.lock")
wanted=$(stamp_of "${locks[@]}")
everything=$(stamp_of requirements/build.lock requirements/dev.lock) # holds all of base too
if ! is_stamped "$plain" "$wanted" && ! is_stamped dev "$everything"; then
    for lock in "${locks[@]}"; do
        echo "installing $lock into $venv"
        pip install --require-hashes --requirement "$lock"
    done
    echo "$wanted" > "$stamps/$plain"
fi
learning=$(stamp_of requirements/build.lock requirements/dev.lock requirements/learn.lock)
if [[ $kind == learn ]] && ! is_stamped learn "$learning"; then
    echo "installing requirements/learn.lock into $venv"
    # uv, because it fetches and unpacks at once and keeps one copy on disk: pip takes several times as long.
    # The lock is complete but for two that are left out on purpose (tools/lock.sh), so nothing is resolved again.
    "$bin/uv" pip install --quiet --python "$bin/python" --require-hashes --no-deps --requirement requirements/learn.lock
    echo "$learning" > "$stamps/learn"
fi

package=$(stamp_of pyproject.toml src/stowplan/__init__.py)
if ! is_stamped package "$package"; then
    pip install --no-deps --no-build-isolation --editable .
    echo "$package" > "$stamps/package"
fi
