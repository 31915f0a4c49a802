#!/usr/bin/env bash
# Resolve requirements/*.lock from pyproject.toml. One version per package for every Python from 3.11 on, each with its
# hashes; no address of a registry is written. Extra arguments go to uv (for example: --upgrade-package numpy).
#
#   tools/lock.sh UV [ARGUMENT…]
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$1
shift

compile() { # LOCK ARGUMENT… — what is in LOCK already stays at its version unless told to upgrade
    local lock=requirements/$1.lock
    shift
    "$uv" pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" --output-file "$lock" "$@" \
        > /dev/null
    echo "$lock: $(grep -c '^[a-z].*==' "$lock") packages"
}

compile base pyproject.toml "$@"
compile serve --group serve --constraints requirements/base.lock "$@"
compile dev pyproject.toml --group dev --constraints requirements/base.lock "$@"
compile build --group build --constraints requirements/dev.lock "$@"
# What the tests of training take. torch from the registry is built for CUDA and needs its libraries to load; the two left
# out are loaded only for kernels that torch compiles and for linear algebra on a GPU, and are a third of the size.
compile learn pyproject.toml --extra learn --constraints requirements/dev.lock \
    --no-emit-package triton --no-emit-package nvidia-cusolver "$@"
if grep -nE '://|--(extra-)?index-url|--find-links' requirements/*.lock; then
    echo "the lines above name a host; a lock must not" >&2
    exit 1
fi
