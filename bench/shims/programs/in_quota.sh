#!/bin/bash
# in_quota.sh PUS COMMAND...: as in a container that may use so many PUs' time. Needs the right to make a cgroup.
set -eu
[ $# -ge 2 ] || { echo "usage: in_quota.sh PUS COMMAND..." >&2; exit 2; }
name=smelt_quota_$$ limit=$(($1 * 100000)) group=""
shift
for top in /sys/fs/cgroup/cpu /sys/fs/cgroup; do
  [ -n "$group" ] || ! mkdir "$top/$name" 2>/dev/null || group=$top/$name
done
[ -n "$group" ] || { echo "in_quota.sh: no right to make a cgroup" >&2; exit 77; }
trap 'rmdir "$group"' EXIT
if [ -e "$group/cpu.max" ]; then
  echo "$limit 100000" >"$group/cpu.max"
else
  echo "$limit" >"$group/cpu.cfs_quota_us"
fi
status=0
(echo "$BASHPID" >"$group/cgroup.procs" && exec "$@") || status=$?
exit "$status"
