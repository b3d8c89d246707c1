#!/bin/sh
# Runs a command that boots a guest in which the test program fails. The command must run the program and report the
# failure. Exit status 77 (skipped) is passed on.
output=$("$@") && status=0 || status=$?
echo "$output"
[ "$status" = 77 ] && exit 77
[ "$status" = 1 ] && echo "$output" | grep -q '^GUEST FAIL$'
