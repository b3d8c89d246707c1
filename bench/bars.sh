#!/bin/sh
# All performance bars in one run: builds nothing, uses build/release. Arguments go to bars.py.
set -eu
cd "$(dirname "$0")/.."
exec python3 python/bars.py "$@"
