#!/bin/sh
# usage: run.sh FUZZER NAME [SECONDS [CORPUS]]     a fuzzing run that starts from corpus/NAME
# Its findings stay in the directory CORPUS, if one is given. The limits show that memory is bounded by the size of the
# file: neither a single allocation nor all together may exceed a fixed multiple of an input.
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
