#!/bin/sh
# usage: run.sh FUZZER NAME [SECONDS [CORPUS]]     a fuzzing run that starts from corpus/NAME
# What it finds stays in the directory CORPUS, if there is one. The limits prove that memory is bounded by the size of
# the file: no single allocation, and not all together, takes more than so many times an input.
set -eu
here=$(dirname "$0")
fuzzer=$1
name=$2
seconds=${3:-60}
found=${4:-}
if [ -z "$found" ]; then
  found=$(mktemp -d)
  trap 'rm -rf "$found"' EXIT
fi
dictionary=
[ ! -e "$here/dictionaries/$name.dict" ] || dictionary=-dict=$here/dictionaries/$name.dict
"$fuzzer" $dictionary -max_total_time="$seconds" -max_len=16384 -timeout=10 -rss_limit_mb=600 \
  -malloc_limit_mb=4 -print_final_stats=1 -verbosity=1 -artifact_prefix="${SMELT_FUZZ_ARTIFACTS:-./}" "$found" \
  "$here/corpus/$name"
