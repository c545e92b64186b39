# XGrammar, by which answers hold to a schema (src/grammar/): the library penstock_xgrammar from the sources that
# tools/install_xgrammar.py has put down. Without them there is no such target, and requests for constrained answers
# are refused.
penstock_installed_sources(folder xgrammar "xgrammar 0.2.8")
set(PENSTOCK_HAVE_XGRAMMAR OFF)
if(NOT folder)
  return()
endif()
set(PENSTOCK_HAVE_XGRAMMAR ON)
file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/cpp/*.cc)
add_library(penstock_xgrammar STATIC ${sources})
target_include_directories(penstock_xgrammar SYSTEM PUBLIC ${folder}/include ${folder}/3rdparty/picojson
                           ${folder}/3rdparty/dlpack/include)
# Its log goes to our functions (grammar/xgrammar_log.cc). Its warnings are its makers'.
target_compile_definitions(penstock_xgrammar PUBLIC XGRAMMAR_LOG_CUSTOMIZE=1 XGRAMMAR_ENABLE_CPPTRACE=0
                           XGRAMMAR_ENABLE_INTERNAL_CHECK=0)
set_target_properties(penstock_xgrammar PROPERTIES CXX_STANDARD 17)
target_compile_options(penstock_xgrammar PRIVATE -w)
target_link_libraries(penstock_xgrammar PUBLIC Threads::Threads)
