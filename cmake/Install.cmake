# cmake --install: headers, libraries, the smelt command, pkg-config and CMake package files.
# All of it may be moved to another prefix afterwards.
include(CMakePackageConfigHelpers)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/smelt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(TARGETS smelt_shared smelt_static EXPORT smelt-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/smelt)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/smelt-config.cmake.in
  ${PROJECT_BINARY_DIR}/smelt-config.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/smelt-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/smelt-config.cmake ${PROJECT_BINARY_DIR}/smelt-config-version.cmake
  DESTINATION ${package_dir})
install(EXPORT smelt-targets NAMESPACE smelt:: DESTINATION ${package_dir})

# From the directory of smelt.pc up to the prefix.
file(RELATIVE_PATH SMELT_PREFIX_FROM_PC /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" SMELT_PREFIX_FROM_PC "${SMELT_PREFIX_FROM_PC}")
# Not `Requires.private: hwloc`: what that file asks for is how to link hwloc itself statically.
list(JOIN HWLOC_LDFLAGS " " SMELT_PC_HWLOC)
configure_file(${PROJECT_SOURCE_DIR}/cmake/smelt.pc.in ${PROJECT_BINARY_DIR}/smelt.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/smelt.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
