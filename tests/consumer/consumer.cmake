# cmake -DHOW=installed|subdirectory -DSOURCE=repo -DBUILD=its build -DWORK=scratch -DCOMPILER=c++ -DFLAGS=... -P consumer.cmake
# Builds and runs a user's project against the library.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    message(FATAL_ERROR "${ARGN}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
if(HOW STREQUAL "installed")
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
endif()
run(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer/${HOW} -B ${WORK}/build -G Ninja -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_FLAGS=${FLAGS}
    -DCMAKE_PREFIX_PATH=${WORK}/prefix -DKVBUDGET_SOURCE=${SOURCE})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer)
