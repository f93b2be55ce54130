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
run(${SCRATCH}/examples/mlp_regression)
set(threads "${output}")
run(${SCRATCH}/weft/bin/weft launch -n 3 -- ${SCRATCH}/examples/mlp_regression)
string(REPLACE "[rank 2] " "" output "${output}") # the launcher says whose line it is
if(NOT output STREQUAL threads)
  message(FATAL_ERROR "as processes:\n${output}${errors}\nas threads:\n${threads}")
endif()
file(REMOVE_RECURSE ${SCRATCH})
