# smelt_libomp_program(NAME SOURCE): a C program over LLVM's OpenMP runtime, where clang and that are installed. By hand, as a
# build has one C compiler.
find_program(SMELT_CLANG NAMES clang-14 clang-19 clang-18 clang)

function(smelt_libomp_program name source)
  if(NOT SMELT_CLANG)
    return()
  endif()
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  execute_process(COMMAND ${SMELT_CLANG} -fopenmp ${source} -lm -o ${CMAKE_CURRENT_BINARY_DIR}/probe
    RESULT_VARIABLE no_libomp OUTPUT_QUIET ERROR_QUIET)
  if(no_libomp EQUAL 0)
    set(program ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name})
    add_custom_command(OUTPUT ${program}
      COMMAND ${SMELT_CLANG} -std=c11 -O3 -Wall -fopenmp ${source} -lm -o ${program}
      DEPENDS ${source} COMMENT "Building ${name} with ${SMELT_CLANG}")
    add_custom_target(build_${name} ALL DEPENDS ${program})
  endif()
endfunction()
