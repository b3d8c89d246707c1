#!/bin/sh
# Boots a virtual machine with a given NUMA layout (QEMU's software emulation, no privileges) and
# runs one program in it, library-complete in an initramfs, with the layout on its command line:
#
#   run_guest.sh CACHE_DIR PROGRAM PACKAGES NUMA_NODES CORES SMT MB_PER_NODE [key=value]...
#
# CORES are per package, SMT is threads per core. From the environment: GUEST_MEMORY_NODES more NUMA nodes of memory alone;
# the last GUEST_BARE_NODES of those with PUs have no memory; GUEST_PRELOAD, a library, is /preload.so there. What the program prints goes to stdout. Exit status: 0
# if its last word is `GUEST PASS`, 77 if this machine cannot run the test, else 1.
set -eu

cache=$1 program=$2 packages=$3 nodes=$4 cores=$5 smt=$6 mb=$7
shift 7
time_limit_s=${GUEST_TIME_LIMIT_S:-400}
memory_nodes=${GUEST_MEMORY_NODES:-0} bare_nodes=${GUEST_BARE_NODES:-0}

skip() { echo "SKIPPED: $*"; exit 77; }

# The kernel comes out of Debian's package, which is not installed, and is kept in CACHE_DIR.
fetch_kernel() {
  mkdir -p "$cache"
  [ -s "$cache/vmlinuz" ] && return
  command -v apt-get >/dev/null && command -v dpkg >/dev/null || skip "needs apt-get and dpkg for a kernel image"
  package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[^ ]*\)$/\1/p')
  [ -n "$package" ] || skip "apt knows no package linux-image-cloud-amd64 (run apt-get update)"
  work=$(mktemp -d "$cache/kernel.XXXXXX")
  (cd "$work" && apt-get download -qq "$package" 2>"$work/log" && dpkg -x ./*.deb tree) ||
    skip "no kernel image: $(tail -n 1 "$work/log")"
  mv "$work"/tree/boot/vmlinuz-* "$cache/vmlinuz"
  rm -rf "$work"
}

# Busybox, the program, the libraries it names, and an init that runs it.
pack_initramfs() {
  tree=$1/tree
  mkdir -p "$tree/bin" "$tree/proc" "$tree/sys" "$tree/dev" "$tree/tmp"
  cp "$(command -v busybox)" "$tree/bin/busybox"
  ln -s busybox "$tree/bin/sh"
  cp "$program" "$tree/guest_program"
  ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$tree$(dirname "$library")"
    cp -L "$library" "$tree$library"
  done
  [ -z "${GUEST_PRELOAD:-}" ] || cp -L "$GUEST_PRELOAD" "$tree/preload.so"
  cat >"$tree/init" <<'END'
#!/bin/busybox sh
echo
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
/bin/busybox mkdir -p /dev/shm
/bin/busybox mount -t tmpfs tmpfs /dev/shm
/bin/busybox mount -t tmpfs tmpfs /tmp
if HOME=/tmp /guest_program; then echo "GUEST PASS"; else echo "GUEST FAIL"; fi
/bin/busybox sync
/bin/busybox poweroff -f
END
  chmod +x "$tree/init"
  (cd "$tree" && find . | cpio -o -H newc --quiet | gzip -1) >"$1/initramfs.gz"
}

# The -smp, -object, -numa arguments: PUs are dealt to the NUMA nodes in order; 10 from a node to
# itself, 16 to another one of its package, 21 further away.
layout_arguments() {
  pus=$((packages * cores * smt))
  per_node=$((pus / nodes)) per_package=$((nodes / packages))
  all_nodes=$((nodes + memory_nodes))
  printf '%s\n' -smp "$pus,sockets=$packages,cores=$cores,threads=$smt" -m "$(((all_nodes - bare_nodes) * mb))M"
  node=0
  while [ $node -lt $all_nodes ]; do
    options="nodeid=$node"
    [ $node -ge $nodes ] || options="$options,cpus=$((node * per_node))-$((node * per_node + per_node - 1))"
    if [ $node -lt $((nodes - bare_nodes)) ] || [ $node -ge $nodes ]; then
      printf '%s\n' -object "memory-backend-ram,id=m$node,size=${mb}M"
      options="$options,memdev=m$node"
    fi
    printf '%s\n' -numa "node,$options"
    node=$((node + 1))
  done
  node=0
  while [ $node -lt $all_nodes ]; do
    other=$((node + 1))
    while [ $other -lt $all_nodes ]; do
      value=21
      [ $((node / per_package)) -ne $((other / per_package)) ] || value=16
      printf '%s\n' -numa "dist,src=$node,dst=$other,val=$value"
      other=$((other + 1))
    done
    node=$((node + 1))
  done
}

for tool in qemu-system-x86_64 busybox cpio gzip ldd timeout; do
  command -v $tool >/dev/null || skip "$tool is not installed (packages qemu-system-x86 busybox-static cpio)"
done
[ "$(uname -m)" = x86_64 ] || skip "the guest's program is built for x86_64"
fetch_kernel
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
pack_initramfs "$scratch"
# One host thread takes turns on all virtual PUs and moves on at each PAUSE, so that ranks which spin
# for each other do not burn time slices that the guest knows nothing of.
# shellcheck disable=SC2046  # one word per line, none with blanks
timeout "$time_limit_s" qemu-system-x86_64 -accel tcg,thread=single -cpu max,vendor=GenuineIntel $(layout_arguments) \
  -kernel "$cache/vmlinuz" -initrd "$scratch/initramfs.gz" -nic none -nographic -no-reboot \
  -append "console=ttyS0 quiet panic=-1 mitigations=off packages=$packages numa_nodes=$nodes cores=$cores smt=$smt mb=$mb memory_nodes=$memory_nodes bare_nodes=$bare_nodes $*" \
  </dev/null >"$scratch/console" 2>&1 || echo "qemu ended with status $? (124: time limit of $time_limit_s s)"
tr -d '\r' <"$scratch/console" | tail -n 200
tr -d '\r' <"$scratch/console" | grep -q '^GUEST PASS$' || exit 1
