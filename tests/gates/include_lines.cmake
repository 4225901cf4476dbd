# cmake -DCOMPILER=g++ -DINCLUDE=dir -DHEADER=... -DMOST=n -P include_lines.cmake
# Fails when the preprocessed header has more than MOST non-blank lines.
execute_process(
  COMMAND ${COMPILER} -std=c++20 -E -P -I${INCLUDE} -x c++ -include ${HEADER} /dev/null
  OUTPUT_VARIABLE text RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${HEADER} does not preprocess")
endif()
string(REPLACE ";" "" text "${text}")
string(REGEX REPLACE "[^\n]*[^ \t\n][^\n]*\n" "x" marks "${text}")
string(REGEX REPLACE "[^x]" "" marks "${marks}")
string(LENGTH "${marks}" lines)
message("${HEADER}: ${lines} lines, at most ${MOST}")
if(lines GREATER MOST OR lines LESS 1000)
  message(FATAL_ERROR "${HEADER} brings ${lines} lines; the gate is ${MOST}: a gate moves with a measured reason in the commit")
endif()
