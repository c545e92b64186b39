# penstock_protos(NAME [FILES file...] [DEPS library...])
#
# Makes the library penstock_NAME of .proto files of src/, or of such as were made in the folder of
# the build. Files are named as they import each other, from src/ on ("grpc/health.proto"); their
# headers are included the same way, as <grpc/health.pb.h>. What protoc writes is compiled without
# our warnings. Services of them are descriptors alone, which reflection shows.
set(PENSTOCK_PROTOS ${PROJECT_BINARY_DIR}/protos)
file(MAKE_DIRECTORY ${PENSTOCK_PROTOS}/grpc)
# The older name of server reflection is the same under another package.
file(READ ${PROJECT_SOURCE_DIR}/src/grpc/reflection.proto text)
string(REPLACE "package grpc.reflection.v1;" "package grpc.reflection.v1alpha;" text "${text}")
file(CONFIGURE OUTPUT ${PENSTOCK_PROTOS}/grpc/reflection_v1alpha.proto CONTENT "${text}" @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/grpc/reflection.proto)

function(penstock_protos name)
  cmake_parse_arguments(ARG "" "" "FILES;DEPS" ${ARGN})
  set(sources)
  foreach(file ${ARG_FILES})
    string(REGEX REPLACE "\\.proto$" "" stem ${file})
    set(made ${PENSTOCK_PROTOS}/${stem}.pb.cc ${PENSTOCK_PROTOS}/${stem}.pb.h)
    set(from ${PROJECT_SOURCE_DIR}/src)
    if(NOT EXISTS ${from}/${file})
      set(from ${PENSTOCK_PROTOS})
    endif()
    add_custom_command(
      OUTPUT ${made}
      COMMAND ${PENSTOCK_PROTOC} -I ${from} --cpp_out=${PENSTOCK_PROTOS} ${file}
      DEPENDS ${from}/${file}
      COMMENT "protoc ${file}" VERBATIM)
    list(APPEND sources ${made})
  endforeach()
  add_library(penstock_${name} STATIC ${sources})
  target_compile_options(penstock_${name} PRIVATE -w)
  penstock_small(penstock_${name})
  target_include_directories(penstock_${name} SYSTEM PUBLIC ${PENSTOCK_PROTOS})
  list(TRANSFORM ARG_DEPS PREPEND penstock_ OUTPUT_VARIABLE deps)
  target_link_libraries(penstock_${name} PUBLIC ${deps} penstock_protobuf)
endfunction()
