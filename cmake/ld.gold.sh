#!/bin/sh
# The linker gold, without its warnings about what AddressSanitizer's runtime lists and keeps to itself: 130 per program.
said=$(ld.gold "$@" 2>&1)
status=$?
[ -z "$said" ] || printf '%s\n' "$said" | grep -v "Cannot export local symbol '__asan_" >&2
exit $status
