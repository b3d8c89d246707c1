# smelt_room(NAME ... SOURCES ... USES rooms... LIBS libraries... TESTS files... [SHARDS n] [BATCH n] [APART files...])
#
# A room becomes an object library (room_NAME_objects, for the installed library), a static
# library (room_NAME, for tests) and, with TESTS, one GoogleTest program smelt_NAME_test. The files APART are compiled
# by themselves where many files are as one (CMAKE_UNITY_BUILD): they have names of their own in common with others, or
# are what a preload library needs of the room, so that it takes no more of libsmelt.a. BATCH: at most so many files of
# the room are compiled as one, so that a change of one of them compiles in seconds.

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
if(SMELT_BREAK_ORDERING)
  target_compile_definitions(smelt_flags INTERFACE SMELT_BREAK_${SMELT_BREAK_ORDERING})
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

function(smelt_room)
  cmake_parse_arguments(ROOM "" "NAME;SHARDS;BATCH" "SOURCES;USES;LIBS;TESTS;APART" ${ARGN})
  set_source_files_properties(${ROOM_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  add_library(room_${ROOM_NAME}_objects OBJECT ${ROOM_SOURCES})
  # Whoever links libsmelt.a can leave out what is not called.
  target_compile_options(room_${ROOM_NAME}_objects PRIVATE -ffunction-sections -fdata-sections)
  if(ROOM_BATCH)
    set_target_properties(room_${ROOM_NAME}_objects PROPERTIES UNITY_BUILD_BATCH_SIZE ${ROOM_BATCH})
  endif()
  target_link_libraries(room_${ROOM_NAME}_objects PRIVATE smelt_flags Threads::Threads ${ROOM_LIBS})
  add_library(room_${ROOM_NAME} STATIC $<TARGET_OBJECTS:room_${ROOM_NAME}_objects>)
  target_link_libraries(room_${ROOM_NAME} PUBLIC smelt_flags Threads::Threads ${ROOM_LIBS})
  foreach(used ${ROOM_USES})
    target_link_libraries(room_${ROOM_NAME} PUBLIC room_${used})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY SMELT_ROOMS ${ROOM_NAME})
  if(SMELT_TESTS AND ROOM_TESTS)
    smelt_test(smelt_${ROOM_NAME}_test SHARDS ${ROOM_SHARDS} SOURCES ${ROOM_TESTS} LIBS room_${ROOM_NAME})
  endif()
endfunction()

# smelt_test(name [SHARDS n] [TIMEOUT s] SOURCES ... LIBS ...): a GoogleTest program, registered as one CTest test, or as n
# of about as many test cases each, which may run at the same time. Its own code is compiled in a hurry; what it tests is
# not.
function(smelt_test name)
  cmake_parse_arguments(TEST "" "SHARDS;TIMEOUT" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_compile_options(${name} PRIVATE $<IF:$<CONFIG:Release>,-O1,-O0>)
  target_link_libraries(${name} PRIVATE ${TEST_LIBS} smelt_flags GTest::gtest_main GTest::gmock)
  smelt_test_headers(${name})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 900)
  endif()
  if(NOT TEST_SHARDS)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${TEST_TIMEOUT})
    return()
  endif()
  foreach(shard RANGE 1 ${TEST_SHARDS})
    math(EXPR index "${shard} - 1")
    add_test(NAME ${name}_${shard} COMMAND ${name})
    set_tests_properties(${name}_${shard} PROPERTIES TIMEOUT ${TEST_TIMEOUT}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${TEST_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# smelt_test_headers(target): what all tests include is parsed once, in a program that does nothing else.
function(smelt_test_headers target)
  if(NOT TARGET smelt_test_headers)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/smelt_test_headers.cpp CONTENT "int main() {}\n")
    add_executable(smelt_test_headers EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/smelt_test_headers.cpp)
    target_compile_options(smelt_test_headers PRIVATE $<IF:$<CONFIG:Release>,-O1,-O0>)
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
