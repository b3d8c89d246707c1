#!/bin/sh
# usage: run.sh FUZZER SEED_WRITER [SECONDS]     a short fuzzing run on fresh seeds
set -eu
fuzzer=$1
seed_writer=$2
seconds=${3:-20}
corpus=$(mktemp -d)
trap 'rm -rf "$corpus"' EXIT
"$seed_writer" "$corpus"
"$fuzzer" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
  -artifact_prefix="${SMELT_FUZZ_ARTIFACTS:-./}" "$corpus"
