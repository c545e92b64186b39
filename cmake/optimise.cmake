# What a request's time depends on is compiled for speed (-O3: modules named FAST); commands, downloads,
# measurements and libraries like protobuf for size: which saves a third of their code and a fifth of
# the time to compile it.
# penstock_small(target) says so of a target. bench/guard.py compares the speed of two builds.
function(penstock_small target)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE -Os)
  endif()
endfunction()

# What nothing calls is left out, which is most of protobuf.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT PENSTOCK_SANITIZE)
  add_compile_options(-ffunction-sections)
  add_link_options(-Wl,--gc-sections)
endif()
