#!/bin/sh
# Every C and C++ file is as clang-format 14 writes it. Skipped (77) where that version is not installed.
cd "$1" || exit 1
command -v clang-format-14 > /dev/null || { echo "clang-format-14 is not installed"; exit 77; }
find src include bench tests examples -name '*.[ch]' -o -name '*.[ch]pp' | sort |
  xargs -P 2 -n 64 clang-format-14 --style=file --dry-run -Werror
