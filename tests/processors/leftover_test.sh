#!/bin/sh
# leftover passes on the status and the signals of what it runs, and nothing that it runs is left behind.
set -eu
leftover=$(dirname "$0")/leftover
fail() { echo "leftover_test: $*" >&2; exit 1; }

status=0
"$leftover" sh -c 'exit 7' || status=$?
[ $status = 7 ] || fail "status $status, not 7"
status=0
"$leftover" sh -c 'kill -KILL $$' || status=$?
[ $status = 137 ] || fail "status $status of a killed command, not 137"
status=0
"$leftover" no-such-command 2>/dev/null || status=$?
[ $status = 127 ] || fail "status $status of a command that is not there, not 127"
status=0
"$leftover" --no-such-option 2>/dev/null || status=$?
[ $status = 2 ] || fail "status $status of an unknown option, not 2"

# Its own session, of the least weight; else niced.
ours=$(cat /proc/self/autogroup 2>/dev/null) || ours=""
its=$("$leftover" cat /proc/self/autogroup 2>/dev/null) || its=""
if [ -n "$ours" ]; then
  [ "${its%% *}" != "${ours%% *}" ] && [ "${its##* }" = 19 ] || fail "'$its' beside '$ours'"
fi

# Ended from outside, it ends what it runs, whole.
left=$(mktemp)
trap 'rm -f "$left"' EXIT
"$leftover" sh -c 'sleep 300 & echo $! >"$0"; wait' "$left" &
until [ -s "$left" ]; do sleep 0.05; done
kill -TERM $!
status=0
wait $! || status=$?
[ $status = 143 ] || fail "status $status after SIGTERM, not 143"
while kill -0 "$(cat "$left")" 2>/dev/null; do
  [ "$(sed 's/.*) //; s/ .*//' "/proc/$(cat "$left")/stat" 2>/dev/null || echo Z)" != Z ] || break  # nobody waits for it here
  sleep 0.05
done
