# The kernels of src/cuda for NVIDIA GPUs, as data in the program: compiled code for the
# architectures that are named here, and PTX, which a driver compiles, for those to come.
set(PENSTOCK_CUDA "auto" CACHE STRING "Kernels for NVIDIA GPUs: 'auto' (where nvcc is found), 'on' or 'off'")
set(data "$ENV{XDG_DATA_HOME}")
if(NOT data)
  set(data "$ENV{HOME}/.local/share")
endif()
# That of tools/install_cuda.py first.
find_program(PENSTOCK_NVCC nvcc HINTS ${data}/penstock/cuda/bin /usr/local/cuda/bin)
mark_as_advanced(PENSTOCK_NVCC)

# An older one knows neither C++20 nor all architectures.
if(PENSTOCK_NVCC)
  execute_process(COMMAND ${PENSTOCK_NVCC} --version OUTPUT_VARIABLE nvcc_version)
  if(NOT nvcc_version MATCHES "release (1[3-9]|[2-9][0-9])\\.")
    message(STATUS "${PENSTOCK_NVCC} is not of CUDA 13: no kernels for GPUs (tools/install_cuda.py)")
    unset(PENSTOCK_NVCC CACHE)
    unset(PENSTOCK_NVCC)
  endif()
endif()

set(cuda_images "")
if(PENSTOCK_CUDA STREQUAL "on" AND NOT PENSTOCK_NVCC)
  message(FATAL_ERROR "PENSTOCK_CUDA=on needs nvcc of CUDA 13: tools/install_cuda.py")
endif()
# Sanitizers and fuzz targets run kernels in the emulator alone.
if(NOT PENSTOCK_CUDA STREQUAL "off" AND PENSTOCK_NVCC AND NOT PENSTOCK_SANITIZE AND NOT PENSTOCK_BUILD_FUZZ)
  file(GLOB cuda_sources CONFIGURE_DEPENDS src/cuda/*-inl.h src/cuda/kernel_list.inc src/cuda/kernels.h src/cuda/simt.h)
  set(cuda_folder ${PROJECT_BINARY_DIR}/cuda)
  # name, compute capability, what it runs on besides (kernel_images.h)
  foreach(row "sm_80 8 0 kMinorsAbove" "sm_90a 9 0 kHere" "sm_120 12 0 kMinorsAbove" "compute_80 8 0 kAllAbove")
    separate_arguments(row)
    list(GET row 0 name)
    set(kind -cubin)
    if(name MATCHES "^compute_")
      set(kind -ptx)
    endif()
    set(image ${cuda_folder}/${name}.zst)
    add_custom_command(OUTPUT ${image}
      DEPENDS ${cuda_sources} src/cuda/kernels.cu src/program/op_kinds.h src/sample/draw_best.h
      COMMAND ${CMAKE_COMMAND} -E make_directory ${cuda_folder}
      COMMAND ${PENSTOCK_NVCC} -std=c++20 -O3 --fmad=false -arch=${name} ${kind} -I ${PROJECT_SOURCE_DIR}/src
              ${PROJECT_SOURCE_DIR}/src/cuda/kernels.cu -o ${cuda_folder}/${name}
      COMMAND ${CMAKE_COMMAND} -D IN=${cuda_folder}/${name} -D OUT=${image}
              -P ${PROJECT_SOURCE_DIR}/cmake/embed_kernels.cmake
      COMMENT "Compiling the kernels for ${name}" VERBATIM)
    list(APPEND cuda_images ${image})
    list(JOIN row " " row)
    list(APPEND cuda_rows "${row}")
  endforeach()
endif()

set(cuda_embedded ${PROJECT_BINARY_DIR}/kernel_images.cc)
add_custom_command(OUTPUT ${cuda_embedded} DEPENDS ${cuda_images} cmake/embed_kernels.cmake
                   COMMAND ${CMAKE_COMMAND} -D "OUT=${cuda_embedded}" -D "FILES=${cuda_images}" -D "ROWS=${cuda_rows}"
                           -P ${PROJECT_SOURCE_DIR}/cmake/embed_kernels.cmake VERBATIM)
target_sources(penstock_cuda PRIVATE ${cuda_embedded})

# A driver library whose GPU is emulated, for tests.
if(PENSTOCK_BUILD_TESTS)
  add_library(fake_cuda_driver SHARED tests/cuda/fake_driver.cc)
  target_link_libraries(fake_cuda_driver PRIVATE penstock_cuda)
  add_dependencies(cuda_test fake_cuda_driver)
endif()
