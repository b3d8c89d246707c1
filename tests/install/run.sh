#!/bin/sh
# Installs a build to a temporary prefix, moves the prefix, and builds and runs programs that know
# nothing but the installed tree:
#
#   run.sh BUILD_DIR C_COMPILER CMAKE GENERATOR
#
# C (C99) through pkg-config, against the shared and against the static library, and C++ through
# find_package(smelt), against both.
set -eu
build=$1 cc=$2 cmake=$3 generator=$4
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

check() { printf '%s\n' "--- $*"; "$@"; }
fail() { echo "FAILED: $*"; exit 1; }

"$cmake" --install "$build" --prefix "$scratch/first" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
prefix=$scratch/moved
mv "$scratch/first" "$prefix"
lib=$(dirname "$(find "$prefix" -name libsmelt.a)")
export PKG_CONFIG_PATH="$lib/pkgconfig"

# Headers and libraries, and no path of where they were built or first installed.
for file in include/smelt/smelt.h include/smelt/communicator.hpp bin/smelt; do
  [ -e "$prefix/$file" ] || fail "$file is not installed"
done
! grep -rlI -e "$scratch/first" -e "$build" "$prefix" || fail "a path of the building machine is in the files above"
[ -z "$(find "$prefix/include" -type f ! -path '*/smelt/*')" ] || fail "more than smelt's headers is installed"

# Nothing of the libraries inside is visible from the outside.
nm -D --defined-only "$lib/libsmelt.so" | cut -d' ' -f3 | grep -v -e '^smelt_' -e '^_ZN\?K\?5smelt' -e '^_ZT[SIV]N5smelt' \
  -e '^_ZNK5smelt' -e '^_Z.*5smelt' >"$scratch/leaks" || true
[ ! -s "$scratch/leaks" ] || { head "$scratch/leaks"; fail "libsmelt.so exports the symbols above"; }

# shellcheck disable=SC2046  # lists of flags
check "$cc" -std=c99 -pedantic -Wall -Wextra -Werror "$here/outside.c" -o "$scratch/c_shared" \
  $(pkg-config --cflags --libs smelt) -Wl,-rpath,"$lib"
check "$scratch/c_shared"
ldd "$scratch/c_shared" | grep -q "$lib/libsmelt.so" || fail "the shared library is not in use"

# A prefix with the static library alone.
mkdir "$scratch/static"
cp -r "$prefix/." "$scratch/static"
rm "$scratch/static/${lib#"$prefix/"}"/libsmelt.so*
export PKG_CONFIG_PATH="$scratch/static/${lib#"$prefix/"}/pkgconfig"
# shellcheck disable=SC2046
check "$cc" -std=c99 -Wall -Wextra -Werror "$here/outside.c" -o "$scratch/c_static" \
  $(pkg-config --static --cflags --libs smelt)
check "$scratch/c_static"
! ldd "$scratch/c_static" | grep -q libsmelt || fail "the static library is not in use"

check "$cmake" -G "$generator" -S "$here" -B "$scratch/outside" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_BUILD_TYPE=Release >"$scratch/log" || { cat "$scratch/log"; exit 1; }
"$cmake" --build "$scratch/outside" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
check "$scratch/outside/cpp_shared"
check "$scratch/outside/cpp_static"
ASAN_OPTIONS=detect_leaks=0 check "$scratch/outside/plugins"
check "$prefix/bin/smelt" --help >/dev/null

# The preload libraries are found beside the command.
"$prefix/bin/smelt" run --only pthread --json /bin/true >"$scratch/run.json"
grep -q "\"LD_PRELOAD\": \"$lib/libsmelt_pthread.so\"" "$scratch/run.json" || {
  cat "$scratch/run.json"
  fail "smelt run does not find its libraries"
}
echo "an installed smelt serves C and C++, shared and static"
