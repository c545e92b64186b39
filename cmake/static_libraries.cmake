# Libraries that become a part of ours, so that libpenstock.so and the program need few others.
#
# penstock_static_library(NAME PKG archive...): makes the target penstock_NAME of the archives, or of
# the shared libraries that pkg-config names for the package PKG where one of them is missing.
function(penstock_static_library name package)
  pkg_check_modules(${name} REQUIRED IMPORTED_TARGET ${package})
  add_library(penstock_${name} INTERFACE)
  set(found)
  foreach(archive ${ARGN})
    find_library(PENSTOCK_ARCHIVE_${archive} NAMES lib${archive}.a HINTS ${${name}_LIBRARY_DIRS})
    mark_as_advanced(PENSTOCK_ARCHIVE_${archive})
    list(APPEND found ${PENSTOCK_ARCHIVE_${archive}})
  endforeach()
  if(NOT found MATCHES "NOTFOUND")
    target_include_directories(penstock_${name} SYSTEM INTERFACE ${${name}_INCLUDE_DIRS})
    target_link_libraries(penstock_${name} INTERFACE ${found})
  else()
    target_link_libraries(penstock_${name} INTERFACE PkgConfig::${name})
  endif()
endfunction()

# penstock_own_runtime(TARGET): it carries the runtime of C++, so that it runs where that of the
# system is older. Exceptions pass through the shared libgcc. Sanitizers have a runtime of their own.
function(penstock_own_runtime target)
  if(NOT PENSTOCK_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_link_options(${target} PRIVATE -static-libstdc++)
  endif()
endfunction()
