#!/usr/bin/env bash
# Install the system packages that some tests and benchmarks compare with. Where they are missing and cannot be installed,
# say what will be skipped and go on: the tests themselves skip with the same reason.
set -euo pipefail

declare -A needed_for=(
    [python3-simgrid]="the physics compared with SimGrid from Python"
    [libsimgrid-dev]="the speed compared with SimGrid's C++ engine"
    [g++]="the speed compared with SimGrid's C++ engine"
    [chromium]="the HTML report opened in a browser"
    [postgresql]="the history on PostgreSQL"
    [iproute2]="the test cluster"
    [containerd]="real nodes of the test cluster"
    [runc]="real nodes of the test cluster"
    [containernetworking-plugins]="real nodes of the test cluster"
    [busybox-static]="images of the test cluster"
    [gcc]="images of the test cluster"
    [libc6-dev]="images of the test cluster"
    [debootstrap]="the image of Stowplan in the test cluster"
)

is_installed() { [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2> /dev/null) == installed ]]; }

is_present() { # by package, or by what the package brings
    case $1 in
        g++ | gcc | chromium) command -v "$1" > /dev/null ;;
        *) command -v dpkg-query > /dev/null && is_installed "$1" ;;
    esac
}

missing=()
for package in "${!needed_for[@]}"; do
    is_present "$package" || missing+=("$package")
done
[[ ${#missing[@]} == 0 ]] && exit 0

if [[ $(id -u) == 0 ]] && command -v apt-get > /dev/null; then
    echo "installing ${missing[*]}"
    # Nothing that a package brings is started: tests start their own, and a machine's owner decides about services.
    if [[ ! -e /usr/sbin/policy-rc.d ]]; then
        printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
        chmod +x /usr/sbin/policy-rc.d
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    apt-get update -qq || true # an old package list may still do; the install below tells
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null || true
fi
for package in "${missing[@]}"; do
    is_present "$package" || echo "not installed: $package; skipped without it: ${needed_for[$package]}"
done
