# smelt_room(NAME ... SOURCES ... USES rooms... LIBS libraries... TESTS files... [SHARDS n] [BATCH n] [APART files...]
#            [TOGETHER files...] [COLD [HOT files...]] [TEST_PROCESSORS n] [TESTS_IN_COMPANY])
#
# A room becomes an object library (room_NAME_objects, for the installed library), a static
# library (room_NAME, for tests) and, with TESTS, one GoogleTest program smelt_NAME_test. The files APART are compiled
# by themselves where many files are as one (CMAKE_UNITY_BUILD): they have names of their own in common with others, or
# are what a preload library needs of the room, so that it takes no more of libsmelt.a. The files TOGETHER are compiled as
# one that no other file is part of. BATCH: at most so many files of
# the room are compiled as one, so that a change of one of them compiles in seconds. COLD: the room reads and writes text,
# or does what is done once; its compile time counts more than its speed. The files HOT are an exception to that.

# For what is compiled in a hurry: g++ needs a fifth less time than with -O1, and hardly more than with -O0. (The other
# options: it cannot use the common headers, which are optimized, without.)
include(CheckCXXCompilerFlag)
set(SMELT_COLD_OPTIONS -Og)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  check_cxx_compiler_flag(-munroll-only-small-loops SMELT_UNROLLS_ONLY_SMALL_LOOPS)
  if(SMELT_UNROLLS_ONLY_SMALL_LOOPS)
    list(APPEND SMELT_COLD_OPTIONS -munroll-only-small-loops -mvzeroupper)
  endif()
endif()

add_library(smelt_flags INTERFACE)
target_compile_options(smelt_flags INTERFACE -Wall -Wextra)
target_include_directories(smelt_flags INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
if(SMELT_SANITIZE)
  target_compile_options(smelt_flags INTERFACE -fsanitize=${SMELT_SANITIZE} -fno-omit-frame-pointer)
  target_compile_definitions(smelt_flags INTERFACE SMELT_SANITIZED)
  if(SMELT_SANITIZE MATCHES "undefined")
    target_compile_options(smelt_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
  target_link_options(smelt_flags INTERFACE -fsanitize=${SMELT_SANITIZE})
endif()

# smelt_clears_by_vectors(targets...): g++ clears structures of some 100 bytes, as calls are described by, with "rep stos",
# whose start takes as long as a short message.
function(smelt_clears_by_vectors)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    foreach(target ${ARGN})
      target_compile_options(${target} PRIVATE -mmemset-strategy=vector_loop:1024:noalign,libcall:-1:noalign)
    endforeach()
  endif()
endfunction()

# smelt_common_headers(target): what most files of the library include is parsed once for all targets that are compiled
# as position-independent code, with the options for the processor that this function gives them. (clang also wants all of
# them optimized, or none, and knows other options than those that make g++'s cold rooms alike.)
function(smelt_common_headers target)
  smelt_clears_by_vectors(${target})
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_BUILD_TYPE STREQUAL Release)
    return()
  endif()
  if(NOT TARGET smelt_common_headers)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/smelt_common_headers.cpp CONTENT "\n")
    add_library(smelt_common_headers OBJECT ${CMAKE_BINARY_DIR}/smelt_common_headers.cpp)
    target_link_libraries(smelt_common_headers PRIVATE smelt_flags Threads::Threads fmt::fmt-header-only)
    target_precompile_headers(smelt_common_headers PRIVATE <algorithm> <array> <atomic> <bit> <chrono> <cmath> <cstdint>
      <cstring> <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <random> <set>
      <span> <string> <string_view> <thread> <utility> <vector> <fmt/format.h>)
    smelt_clears_by_vectors(smelt_common_headers)
  endif()
  target_precompile_headers(${target} REUSE_FROM smelt_common_headers)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # for compiler caches
  endif()
endfunction()

# smelt_compile_together(target batch files...): where many files are as one, these are one of their own. The others
# that have no UNITY_GROUP make batches as they do elsewhere; an empty batch is as large as usual.
function(smelt_compile_together target batch)
  if(NOT batch)
    set(batch ${CMAKE_UNITY_BUILD_BATCH_SIZE})
  endif()
  if(NOT CMAKE_UNITY_BUILD OR NOT batch)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP together)
  get_target_property(others ${target} SOURCES)
  list(REMOVE_ITEM others ${ARGN})
  set(count 0)
  foreach(source ${others})
    math(EXPR group "${count} / ${batch}")
    get_source_file_property(apart ${source} SKIP_UNITY_BUILD_INCLUSION)
    get_source_file_property(grouped ${source} UNITY_GROUP)
    if(NOT apart AND NOT grouped)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
      math(EXPR count "${count} + 1")
    endif()
  endforeach()
endfunction()

function(smelt_room)
  cmake_parse_arguments(ROOM "COLD;TESTS_IN_COMPANY" "NAME;SHARDS;BATCH;TEST_PROCESSORS"
    "SOURCES;USES;LIBS;TESTS;APART;TOGETHER;HOT" ${ARGN})
  set_source_files_properties(${ROOM_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  add_library(room_${ROOM_NAME}_objects OBJECT ${ROOM_SOURCES})
  # Whoever links libsmelt.a can leave out what is not called.
  target_compile_options(room_${ROOM_NAME}_objects PRIVATE -ffunction-sections -fdata-sections)
  if(ROOM_TOGETHER)
    smelt_compile_together(room_${ROOM_NAME}_objects "${ROOM_BATCH}" ${ROOM_TOGETHER})
  elseif(ROOM_BATCH)
    set_target_properties(room_${ROOM_NAME}_objects PROPERTIES UNITY_BUILD_BATCH_SIZE ${ROOM_BATCH})
  endif()
  target_link_libraries(room_${ROOM_NAME}_objects PRIVATE smelt_flags Threads::Threads ${ROOM_LIBS})
  smelt_common_headers(room_${ROOM_NAME}_objects)
  if(ROOM_COLD)
    target_compile_options(room_${ROOM_NAME}_objects PRIVATE "$<$<CONFIG:Release>:${SMELT_COLD_OPTIONS}>")
    set_source_files_properties(${ROOM_HOT} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
  endif()
  add_library(room_${ROOM_NAME} STATIC $<TARGET_OBJECTS:room_${ROOM_NAME}_objects>)
  target_link_libraries(room_${ROOM_NAME} PUBLIC smelt_flags Threads::Threads ${ROOM_LIBS})
  foreach(used ${ROOM_USES})
    target_link_libraries(room_${ROOM_NAME} PUBLIC room_${used})
  endforeach()
  if(ROOM_COLD)
    set_property(GLOBAL APPEND PROPERTY SMELT_COLD_ROOMS ${ROOM_NAME})
  else()
    set_property(GLOBAL APPEND PROPERTY SMELT_ROOMS ${ROOM_NAME})
  endif()
  if(SMELT_TESTS AND ROOM_TESTS)
    set(company "")
    if(ROOM_TESTS_IN_COMPANY)
      set(company IN_COMPANY)
    endif()
    smelt_test(smelt_${ROOM_NAME}_test ${company} SHARDS ${ROOM_SHARDS} PROCESSORS ${ROOM_TEST_PROCESSORS}
      SOURCES ${ROOM_TESTS} LIBS room_${ROOM_NAME})
  endif()
endfunction()

# smelt_test(name [SHARDS n] [TIMEOUT s] [PROCESSORS n] [IN_COMPANY] SOURCES ... LIBS ...): a GoogleTest program, registered as one CTest
# test, or as n of about as many test cases each, which may run at the same time. PROCESSORS: how many it keeps busy; two
# by default, as most have ranks that wait for each other; those of one have the label one_processor. IN_COMPANY: it
# measures nothing, and sleeps for much of its time (of one processor: for nearly all of it); it has the label
# in_company. Its own code is compiled in a hurry; what it tests is not.
function(smelt_test name)
  cmake_parse_arguments(TEST "IN_COMPANY" "SHARDS;TIMEOUT;PROCESSORS" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_compile_options(${name} PRIVATE $<IF:$<CONFIG:Release>,-Og,-O0>)
  target_link_libraries(${name} PRIVATE ${TEST_LIBS} smelt_flags GTest::gtest_main GTest::gmock)
  smelt_test_headers(${name})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 900)
  endif()
  if(NOT TEST_PROCESSORS)
    set(TEST_PROCESSORS 2)
  endif()
  set(labels "")
  if(TEST_IN_COMPANY)
    set(labels in_company)
  elseif(TEST_PROCESSORS EQUAL 1)
    set(labels one_processor)
  endif()
  if(NOT TEST_SHARDS)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${TEST_TIMEOUT} PROCESSORS ${TEST_PROCESSORS} LABELS "${labels}")
    return()
  endif()
  foreach(shard RANGE 1 ${TEST_SHARDS})
    math(EXPR index "${shard} - 1")
    add_test(NAME ${name}_${shard} COMMAND ${name})
    set_tests_properties(${name}_${shard} PROPERTIES TIMEOUT ${TEST_TIMEOUT} PROCESSORS ${TEST_PROCESSORS}
      LABELS "${labels}" ENVIRONMENT "GTEST_TOTAL_SHARDS=${TEST_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# smelt_test_headers(target): what all tests include is parsed once, in a program that does nothing else.
function(smelt_test_headers target)
  if(NOT TARGET smelt_test_headers)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/smelt_test_headers.cpp CONTENT "int main() {}\n")
    add_executable(smelt_test_headers EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/smelt_test_headers.cpp)
    target_compile_options(smelt_test_headers PRIVATE $<IF:$<CONFIG:Release>,-Og,-O0>)
    target_link_libraries(smelt_test_headers PRIVATE smelt_flags Threads::Threads GTest::gtest GTest::gmock)
    target_precompile_headers(smelt_test_headers PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:<gmock/gmock.h$<ANGLE-R>>" "$<$<COMPILE_LANGUAGE:CXX>:<gtest/gtest.h$<ANGLE-R>>"
      "$<$<COMPILE_LANGUAGE:CXX>:<algorithm$<ANGLE-R>>" "$<$<COMPILE_LANGUAGE:CXX>:<filesystem$<ANGLE-R>>"
      "$<$<COMPILE_LANGUAGE:CXX>:<functional$<ANGLE-R>>" "$<$<COMPILE_LANGUAGE:CXX>:<random$<ANGLE-R>>"
      "$<$<COMPILE_LANGUAGE:CXX>:<thread$<ANGLE-R>>")
  endif()
  target_precompile_headers(${target} REUSE_FROM smelt_test_headers)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # for compiler caches
  endif()
endfunction()
