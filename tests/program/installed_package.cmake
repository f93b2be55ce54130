# Installs weft into a scratch folder, builds the examples against it with find_package(weft), and runs them.
# Called by ctest: cmake -DBUILD=... -DSOURCE=... -DSCRATCH=... -P installed_package.cmake
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nended with ${status}:\n${output}${errors}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/weft)
run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE}/examples -B ${SCRATCH}/examples -DCMAKE_PREFIX_PATH=${SCRATCH}/weft
  -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${SCRATCH}/examples)
run(${SCRATCH}/examples/own_policy)
run(${SCRATCH}/examples/read_ahead)

# Two processes save, one rank goes on: the bits of a run that was never interrupted.
run(${SCRATCH}/weft/bin/weft launch -n 2 -- ${SCRATCH}/examples/save_and_resume ${SCRATCH}/saved 6 2)
run(${SCRATCH}/examples/save_and_resume ${SCRATCH}/saved 10 1)
set(resumed "${output}")
run(${SCRATCH}/examples/save_and_resume ${SCRATCH}/whole 10 2)
if(NOT output STREQUAL resumed)
  message(FATAL_ERROR "resumed:\n${resumed}\nin one go:\n${output}")
endif()
run(${SCRATCH}/weft/bin/weft checkpoint diff ${SCRATCH}/saved/step-00000010 ${SCRATCH}/whole/step-00000010)
run(${SCRATCH}/weft/bin/weft checkpoint verify ${SCRATCH}/saved/step-00000006)
run(${SCRATCH}/examples/mlp_regression)
set(threads "${output}")
run(${SCRATCH}/weft/bin/weft launch -n 3 -- ${SCRATCH}/examples/mlp_regression)
string(REPLACE "[rank 2] " "" output "${output}") # the launcher says whose line it is
if(NOT output STREQUAL threads)
  message(FATAL_ERROR "as processes:\n${output}${errors}\nas threads:\n${threads}")
endif()

# The program of docs/embedding.md, from the page itself.
foreach(block cpp:embedding.cpp cmake:CMakeLists.txt)
  string(REPLACE ":" ";" block ${block})
  list(GET block 0 language)
  list(GET block 1 file)
  run(awk "/^```/ {inside = ($0 == \"```${language}\")\nnext} inside" ${SOURCE}/docs/embedding.md)
  file(WRITE ${SCRATCH}/embedding/${file} "${output}")
endforeach()
run(${CMAKE_COMMAND} -G Ninja -S ${SCRATCH}/embedding -B ${SCRATCH}/embedding/build -DCMAKE_PREFIX_PATH=${SCRATCH}/weft
  -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${SCRATCH}/embedding/build)
run(${SCRATCH}/embedding/build/embedding ${SCRATCH}/threads)
run(${SCRATCH}/embedding/build/embedding ${SCRATCH}/threads) # goes on
set(threads "${output}")
run(${SCRATCH}/weft/bin/weft launch -n 2 -- ${SCRATCH}/embedding/build/embedding ${SCRATCH}/processes)
run(${SCRATCH}/weft/bin/weft launch -n 2 -- ${SCRATCH}/embedding/build/embedding ${SCRATCH}/processes)
string(REPLACE "[rank 1] " "" output "${output}")
if(NOT output STREQUAL threads)
  message(FATAL_ERROR "as processes:\n${output}${errors}\nas threads:\n${threads}")
endif()
file(REMOVE_RECURSE ${SCRATCH})
