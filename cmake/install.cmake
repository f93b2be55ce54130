# `cmake --install`: the program, static libraries, headers under include/weft, and the package `weft` with the target
# weft::weft, which brings all; its parts are weft::base, weft::tensor, weft::scheduling, weft::transport, weft::actors,
# weft::model, weft::training.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(weft_all INTERFACE)
add_library(weft::weft ALIAS weft_all)
set_target_properties(weft_all PROPERTIES EXPORT_NAME weft)
target_link_libraries(weft_all INTERFACE weft::training)
install(TARGETS weft_all EXPORT weft_targets)

set(weft_installed base tensor scheduling transport actors model training)
foreach(folder IN LISTS weft_installed)
  install(TARGETS weft_${folder} EXPORT weft_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft/${folder}
    FILES_MATCHING PATTERN "*.h")
endforeach()
if(TARGET weft_program)
  install(TARGETS weft_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(weft_package ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weft_targets NAMESPACE weft:: FILE weft-targets.cmake DESTINATION ${weft_package})
file(WRITE ${CMAKE_BINARY_DIR}/weft-config.cmake [[
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(fmt)
find_dependency(spdlog)
find_dependency(nlohmann_json)
find_dependency(OpenSSL COMPONENTS Crypto)
find_dependency(yaml-cpp)
if(NOT TARGET ucx::ucp) # UCX's package cannot be asked for twice
  find_dependency(ucx)
endif()
include(${CMAKE_CURRENT_LIST_DIR}/weft-targets.cmake)
]])
write_basic_package_version_file(${CMAKE_BINARY_DIR}/weft-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/weft-config.cmake ${CMAKE_BINARY_DIR}/weft-config-version.cmake
  DESTINATION ${weft_package})
