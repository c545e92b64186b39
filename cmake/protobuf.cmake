# protobuf, of which the messages of gRPC and of config.pbtxt are: the library penstock_protobuf.
#
# It becomes a part of libpenstock.so, whose version script hides it: where a process has two libprotobuf in sight of
# each other, messages of one name end it. Debian's archive was not made for shared libraries, so it is compiled from
# the sources that tools/install_protobuf.py has put down, which go with protoc of the same version. Without them, and
# in builds for sanitizers, which load no other, it is the system's shared library.
find_program(PENSTOCK_PROTOC protoc REQUIRED)
add_library(penstock_protobuf INTERFACE)
set(version 3.21.12)
execute_process(COMMAND ${PENSTOCK_PROTOC} --version OUTPUT_VARIABLE protoc)
set(folder "")
if(PENSTOCK_SANITIZE OR PENSTOCK_BUILD_FUZZ)
elseif(protoc MATCHES " ${version}\n")
  penstock_installed_sources(folder protobuf "protobuf ${version}")
else()
  message(STATUS "protobuf: protoc is not of version ${version}; the system's library is used")
endif()
if(NOT folder)
  pkg_check_modules(protobuf REQUIRED IMPORTED_TARGET protobuf)
  target_link_libraries(penstock_protobuf INTERFACE PkgConfig::protobuf)
  return()
endif()
file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/google/*.cc)
add_library(penstock_protobuf_part STATIC ${sources})
target_include_directories(penstock_protobuf_part SYSTEM PUBLIC ${folder})
target_compile_definitions(penstock_protobuf_part PRIVATE HAVE_PTHREAD)
# Its warnings are its makers'.
target_compile_options(penstock_protobuf_part PRIVATE -w)
penstock_small(penstock_protobuf_part)
# Its headers cost more than its code: together the files compile in half the time. Two define names that others of
# a unit have as well, and some end without undefining the macros of port_def.inc.
set_source_files_properties(${folder}/google/protobuf/extension_set_heavy.cc
                            ${folder}/google/protobuf/generated_message_reflection.cc
                            PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
set_target_properties(penstock_protobuf_part PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 13
  UNITY_BUILD_CODE_AFTER_INCLUDE
  "#ifdef PROTOBUF_NAMESPACE\n#include <google/protobuf/port_undef.inc>\n#endif")
target_link_libraries(penstock_protobuf_part PUBLIC Threads::Threads)
target_link_libraries(penstock_protobuf INTERFACE penstock_protobuf_part)
