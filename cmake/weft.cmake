# Helpers of the build: one library per top-level folder, one test program per folder of tests/.

# Warnings are errors in weft's own code; packages are system headers.
add_library(weft_options INTERFACE)
target_compile_options(weft_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Werror
  $<$<CXX_COMPILER_ID:GNU>:-Wno-error=maybe-uninitialized>
  -fno-fast-math -ffp-contract=off)
if(CMAKE_UNITY_BUILD)
  # to the compiler, a source that is included is a header, and its unnamed namespace suspicious
  target_compile_options(weft_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  # g++ 12 needs sibling calls for deep chains of coroutines when it does not optimise
  target_compile_options(weft_options INTERFACE -Og -foptimize-sibling-calls)
  target_compile_definitions(weft_options INTERFACE WEFT_POISON=1)
endif()
if(WEFT_SANITIZE)
  target_compile_options(weft_options INTERFACE
    -fsanitize=${WEFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE})
  target_compile_definitions(weft_options INTERFACE WEFT_POISON=1)
endif()

# `#include <weft/actors/pipeline.h>` in the tree as after installation.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/include)
if(NOT EXISTS ${CMAKE_BINARY_DIR}/include/weft)
  file(CREATE_LINK ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/include/weft SYMBOLIC)
endif()

# With CMAKE_UNITY_BUILD (the presets release, asan and tsan) a folder's sources are compiled some twelve at a time: most of
# a source's compile time is its headers. So two sources of a top-level folder cannot give one name to different things
# of their unnamed namespaces. The preset debug compiles each source by itself, which is quicker after a small change and
# shows a forgotten include.
set(weft_unity_size 12)
function(weft_unity folder sources)
  list(LENGTH sources count)
  math(EXPR units "(${count} + ${weft_unity_size} - 1) / ${weft_unity_size}")
  set(number 0)
  foreach(source IN LISTS sources)
    math(EXPR unit "${number} * ${units} / ${count} + 1")
    math(EXPR number "${number} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${unit})
  endforeach()
  set_target_properties(weft_${folder} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()

# weft_library(FOLDER): target weft_FOLDER (alias weft::FOLDER) of all sources below FOLDER.
# Dependencies are added in cmake/dependencies.cmake, by weft_depends(FOLDER ...).
function(weft_library folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/cuda/|/kernels/|/main\\.cpp$")
  if(NOT sources)
    add_library(weft_${folder} INTERFACE)
    set(scope INTERFACE)
  else()
    add_library(weft_${folder} STATIC ${sources})
    weft_unity(${folder} "${sources}")
    target_compile_options(weft_${folder} PRIVATE $<$<CONFIG:Release>:${weft_${folder}_optimisation}>)
    target_link_libraries(weft_${folder} PRIVATE $<BUILD_INTERFACE:weft_options>)
    set(scope PUBLIC)
  endif()
  add_library(weft::${folder} ALIAS weft_${folder})
  set_target_properties(weft_${folder} PROPERTIES EXPORT_NAME ${folder} OUTPUT_NAME weft_${folder})
  target_compile_features(weft_${folder} ${scope} cxx_std_20)
  target_include_directories(weft_${folder} ${scope}
    $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}/include> $<INSTALL_INTERFACE:include>)
  target_link_libraries(weft_${folder} ${scope} ${weft_${folder}_links})
  if(scope STREQUAL PUBLIC AND weft_${folder}_private)
    foreach(link IN LISTS weft_${folder}_private)
      target_link_libraries(weft_${folder} PRIVATE ${link})
    endforeach()
  endif()
  set_property(GLOBAL APPEND PROPERTY WEFT_LIBRARIES weft_${folder})
endfunction()

# weft_test(FOLDER LIBRARIES...): program FOLDER_tests of tests/FOLDER/*_test.cpp, each test known to ctest.
function(weft_test folder)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${folder}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${folder}_tests ${sources})
  target_link_libraries(${folder}_tests PRIVATE weft_options weft_test_options weft_test_support ${ARGN} GTest::gmock GTest::gtest_main)
  # Headers are most of a test's compile time; every program shares one precompiled set.
  if(TARGET weft_test_headers)
    target_precompile_headers(${folder}_tests REUSE_FROM weft_test_headers)
  endif()
  # One variable only: gtest_discover_tests breaks lists. `./weft test` sets the others as well.
  set(environment "UCX_ERROR_SIGNALS=")
  if(WEFT_SANITIZE MATCHES "thread")
    # UCX's memory hooks take a lock while a thread ends; the thread sanitizer crashes in that
    set(environment "UCX_MEM_MMAP_HOOK_MODE=none")
  endif()
  gtest_discover_tests(${folder}_tests TEST_PREFIX "${folder}." DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${folder}" TIMEOUT 300 ENVIRONMENT "${environment}")
endfunction()
