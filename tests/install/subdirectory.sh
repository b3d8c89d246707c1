#!/bin/sh
# Configures a project that has smelt's source, without its history, in a folder of its own repository:
#
#   subdirectory.sh SOURCE_DIR CMAKE GENERATOR
#
# It gets the library without tests and benchmarks, and its own version is not taken for smelt's. Then smelt alone, without
# a build type: it is optimized.
set -eu
source=$1 cmake=$2 generator=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

cd "$scratch"
mkdir smelt
for part in CMakeLists.txt LICENSE bench cmake examples include src tests; do
  ln -s "$source/$part" "smelt/$part"
done
cp "$source/tests/install/outside.c" .
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(outside LANGUAGES C)
add_subdirectory(smelt)
foreach(kind smelt static)
  add_executable(outside_${kind} outside.c)
  target_link_libraries(outside_${kind} PRIVATE smelt::${kind})
endforeach()
END
if command -v git >/dev/null; then
  git init -q
  git -c user.name=outside -c user.email=outside@example.com commit -q --allow-empty -m outside
  git tag of-the-outside
fi
"$cmake" -G "$generator" -S . -B build -DCMAKE_BUILD_TYPE=Release >log 2>&1 || { cat log; fail "not configured"; }

for option in SMELT_TESTS SMELT_BENCH; do
  grep -q "^$option:BOOL=OFF" build/CMakeCache.txt || fail "$option is on"
done
! grep of-the-outside build/smelt/src/cli/generated/cli/version.hpp || fail "the version is that of the project around"

env -u CMAKE_BUILD_TYPE "$cmake" -G "$generator" -S smelt -B alone -DSMELT_TESTS=OFF -DSMELT_BENCH=OFF >log 2>&1 \
  || { cat log; fail "not configured"; }
grep -q '^CMAKE_BUILD_TYPE:STRING=Release' alone/CMakeCache.txt || fail "not optimized without a build type"
echo "smelt is part of another project"
