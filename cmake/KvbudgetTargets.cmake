# kvbudget::kvbudget is the library: headers, C++20, nothing else.
# kvbudget::io adds what kvbudget/read/ and kvbudget/write/ include: {fmt} and nlohmann/json.
add_library(kvbudget INTERFACE)
add_library(kvbudget::kvbudget ALIAS kvbudget)
target_compile_features(kvbudget INTERFACE cxx_std_20)
target_include_directories(kvbudget INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:include>)

if(TARGET fmt::fmt AND TARGET nlohmann_json::nlohmann_json)
  add_library(kvbudget_io INTERFACE)
  add_library(kvbudget::io ALIAS kvbudget_io)
  target_link_libraries(kvbudget_io INTERFACE kvbudget::kvbudget fmt::fmt nlohmann_json::nlohmann_json)
endif()

# What our own builds are compiled with.
add_library(kvbudget_warnings INTERFACE)
target_compile_options(kvbudget_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow
  $<$<BOOL:${KVBUDGET_WARNINGS_AS_ERRORS}>:-Werror>)
