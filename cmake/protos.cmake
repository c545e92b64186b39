# penstock_protos(NAME [FILES file...] [DEPS library...])
#
# Makes the library penstock_NAME of .proto files of src/: messages, and with a `service` in them
# the code of gRPC. Files are named as they import each other, from src/ on ("grpc/health.proto");
# their headers are included the same way, as <grpc/health.pb.h>. What protoc writes is compiled
# without our warnings.
# Only what the program calls itself: what these need in turn is their own affair.
pkg_check_modules(grpcpp REQUIRED grpc++ protobuf)
set(PENSTOCK_GRPC_LIBS grpc++ grpc gpr protobuf absl_synchronization)
find_program(PENSTOCK_PROTOC protoc REQUIRED)
find_program(PENSTOCK_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)

function(penstock_protos name)
  cmake_parse_arguments(ARG "" "" "FILES;DEPS" ${ARGN})
  set(out ${PROJECT_BINARY_DIR}/protos)
  file(MAKE_DIRECTORY ${out})
  set(sources)
  foreach(file ${ARG_FILES})
    string(REGEX REPLACE "\\.proto$" "" stem ${file})
    set(made ${out}/${stem}.pb.cc ${out}/${stem}.pb.h)
    set(plugin)
    file(STRINGS ${PROJECT_SOURCE_DIR}/src/${file} services REGEX "^service ")
    if(services)
      list(APPEND made ${out}/${stem}.grpc.pb.cc ${out}/${stem}.grpc.pb.h)
      set(plugin --grpc_out=${out} --plugin=protoc-gen-grpc=${PENSTOCK_GRPC_PLUGIN})
    endif()
    add_custom_command(
      OUTPUT ${made}
      COMMAND ${PENSTOCK_PROTOC} -I ${PROJECT_SOURCE_DIR}/src --cpp_out=${out} ${plugin} ${file}
      DEPENDS ${PROJECT_SOURCE_DIR}/src/${file}
      COMMENT "protoc ${file}" VERBATIM)
    list(APPEND sources ${made})
  endforeach()
  add_library(penstock_${name} STATIC ${sources})
  target_compile_options(penstock_${name} PRIVATE -w)
  target_include_directories(penstock_${name} SYSTEM PUBLIC ${out})
  list(TRANSFORM ARG_DEPS PREPEND penstock_ OUTPUT_VARIABLE deps)
  target_link_libraries(penstock_${name} PUBLIC ${deps} ${PENSTOCK_GRPC_LIBS})
endfunction()
