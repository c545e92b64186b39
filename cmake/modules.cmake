# Files that tell the thread sanitizer what others do (src/cuda/race_hooks.h), compiled without it.
set(PENSTOCK_TELLS_RACES "/cuda/(emulator|fiber|mma_model|race_hooks|warp_products)\\.cc$")

# penstock_module(NAME [FAST] [DEPS module...] [LIBS target...] [TEST_DEPS module...])
#
# Makes the library penstock_NAME of src/NAME/*.cc and src/NAME/FOLDER/*.cc; of the
# *_test.cc beside them the test program NAME_test; of each *_bench.cc the program of that name.
# FAST: compiled for speed; all others for size (cmake/optimise.cmake).
# Only isa_<level>.cc files are compiled for an instruction set: the one they name.
function(penstock_module name)
  cmake_parse_arguments(ARG "FAST" "" "DEPS;LIBS;TEST_DEPS" ${ARGN})
  set(dir ${PROJECT_SOURCE_DIR}/src/${name})
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cc ${dir}/*/*.cc)
  file(GLOB tests CONFIGURE_DEPENDS ${dir}/*_test.cc ${dir}/*/*_test.cc)
  file(GLOB benches CONFIGURE_DEPENDS ${dir}/*_bench.cc ${dir}/*/*_bench.cc)
  if(tests OR benches)
    list(REMOVE_ITEM sources ${tests} ${benches})
  endif()

  list(TRANSFORM ARG_DEPS PREPEND penstock_ OUTPUT_VARIABLE deps)
  if(sources)
    # Files with flags of their own are compiled by themselves, and toml++ for what it defines.
    set(own_flags "/(isa_[a-z0-9_]+|toml_library)\\.cc$")
    if(PENSTOCK_SANITIZE STREQUAL "thread")
      set(own_flags "${own_flags}|${PENSTOCK_TELLS_RACES}")
    endif()
    set(apart ${sources})
    list(FILTER apart INCLUDE REGEX "${own_flags}")
    set(together ${sources})
    list(FILTER together EXCLUDE REGEX "${own_flags}")
    penstock_group(units ${name} ${PROJECT_SOURCE_DIR}/src ${together})
    add_library(penstock_${name} STATIC ${units} ${apart})
    if(ARG_FAST)
      penstock_precompiled(penstock_${name} penstock_std)
    else()
      penstock_small(penstock_${name})
      penstock_precompiled(penstock_${name} penstock_small_std)
    endif()
    set(scope PUBLIC)
  else()
    add_library(penstock_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(penstock_${name} ${scope} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(penstock_${name} ${scope} ${deps} ${ARG_LIBS})

  # Aligned, so that the speed of a kernel does not depend on what is linked before it.
  set(avx2 -mavx2 -mfma -mf16c -falign-functions=64)
  # g++ 12 warns of its own _mm512_undefined_ps.
  set(avx512 ${avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512
      -Wno-maybe-uninitialized -Wno-uninitialized)
  set(isa_avx2 ${avx2})
  set(isa_avxvnni ${avx2} -mavxvnni)
  set(isa_avx512 ${avx512})
  set(isa_avx512vnni ${avx512} -mavx512vnni)
  set(isa_avx512bf16 ${avx512} -mavx512vnni -mavx512bf16)
  set(isa_amx ${isa_avx512bf16} -mamx-tile -mamx-int8 -mamx-bf16)
  set(isa_amx_emulated ${isa_avx512bf16})
  set(isa_i8mm -march=armv8.2-a+i8mm+bf16)
  # Slow at best, and the code of -O3 is twice as large.
  set(isa_scalar)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    list(APPEND isa_scalar -O2)
    list(APPEND isa_amx_emulated -O2)
  endif()
  # g++ 12.2 merges templates of kernels that are alike and takes the ranges of values of one for the
  # other: Q6_K in bf16 became 0.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    foreach(unit isa_scalar isa_neon isa_i8mm isa_avx2 isa_avxvnni isa_avx512 isa_avx512vnni
                 isa_avx512bf16 isa_amx isa_amx_emulated)
      list(APPEND ${unit} -fno-ipa-icf)
    endforeach()
  endif()
  # Kernels branch on shapes alone: counting what they cover teaches the fuzzer nothing. Sanitizers make
  # clang several times as slow there, so that only plain C++ keeps them all; AVX2 keeps ASan.
  if(PENSTOCK_BUILD_FUZZ)
    list(APPEND isa_scalar -fno-sanitize=fuzzer-no-link)
    list(APPEND isa_avx2 -fno-sanitize=fuzzer-no-link,undefined,float-cast-overflow)
    foreach(unit isa_avx512 isa_avx512vnni isa_avx512bf16 isa_amx_emulated)
      list(APPEND ${unit} -fno-sanitize=fuzzer-no-link,undefined,float-cast-overflow,address)
    endforeach()
  endif()
  foreach(source ${sources})
    get_filename_component(unit ${source} NAME_WE)
    # A minute each under the fuzzer's instrumentation, and others have their code.
    if(PENSTOCK_BUILD_FUZZ AND unit MATCHES "^isa_(avxvnni|amx)$")
      continue()
    endif()
    # The same of the thread sanitizer's. Threads share work alike in all sets: isa_avx2 shows it.
    if(PENSTOCK_SANITIZE STREQUAL "thread" AND unit MATCHES "^isa_(avx512|avxvnni|amx)")
      continue()
    endif()
    if(PENSTOCK_SANITIZE STREQUAL "thread" AND source MATCHES "${PENSTOCK_TELLS_RACES}")
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
                                  COMPILE_OPTIONS "-fno-sanitize=thread;-DPENSTOCK_TELLS_RACES")
    endif()
    if((unit MATCHES "^isa_(avx|amx)" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$") OR
       (unit MATCHES "^isa_(neon|i8mm)" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$") OR
       unit STREQUAL "isa_scalar")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${${unit}}"
                                  SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()

  if(tests AND PENSTOCK_BUILD_TESTS)
    list(TRANSFORM ARG_TEST_DEPS PREPEND penstock_ OUTPUT_VARIABLE test_deps)
    add_executable(${name}_test ${tests})
    penstock_precompiled(${name}_test penstock_test_std)
    target_link_libraries(${name}_test PRIVATE penstock_${name} ${test_deps} GTest::gtest_main GTest::gmock)
    # Relative, so that a compile cache serves every clone. Tests run in the root of the sources.
    target_compile_definitions(${name}_test PRIVATE
      PENSTOCK_SOURCE_DIR="." PENSTOCK_GOLDEN_DIR="./tests/golden")
    # An emulated processor is ten times as slow.
    set(timeout_s 600)
    if(CMAKE_CROSSCOMPILING)
      set(timeout_s 6000)
    endif()
    gtest_discover_tests(${name}_test TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST
                         WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} PROPERTIES TIMEOUT ${timeout_s})
  endif()
  if(benches AND PENSTOCK_BUILD_BENCHES)
    foreach(bench ${benches})
      get_filename_component(target ${bench} NAME_WE)
      add_executable(${target} ${bench})
      target_link_libraries(${target} PRIVATE penstock_${name} benchmark::benchmark)
    endforeach()
  endif()
endfunction()
