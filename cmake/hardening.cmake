# Hardening, which makes a bug harder to exploit: canaries before return addresses, checked copies
# into buffers of known size, and a table of imported functions that is read-only once the program
# runs. Only in optimised builds without sanitizers, which check more and do not go with it. Without
# -fcf-protection: Linux does not enforce marked jump targets in programs, and the marks are
# instructions in every function. tests/e2e/test_binary.py reads the properties off the program.
option(PENSTOCK_HARDEN "Build with stack protector, _FORTIFY_SOURCE and full RELRO" ON)
if(PENSTOCK_HARDEN AND NOT PENSTOCK_SANITIZE AND CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo|MinSizeRel)$")
  # Distributions may define another level.
  add_compile_options(-fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
  add_link_options(-Wl,-z,relro,-z,now -Wl,-z,noexecstack)
endif()
