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
# Files that make the masks of tokens are compiled for speed; the others read and write grammars, once a schema.
set(masks ${sources})
list(FILTER masks INCLUDE REGEX
     "/(compiled_grammar|earley_parser|fsm|fsm_builder|grammar_compiler|grammar_functor|grammar_matcher|suffix_automata|tokenizer_info)\\.cc$")
list(REMOVE_ITEM sources ${masks})
add_library(penstock_xgrammar_forms OBJECT ${sources})
penstock_small(penstock_xgrammar_forms)
add_library(penstock_xgrammar STATIC ${masks} $<TARGET_OBJECTS:penstock_xgrammar_forms>)
# Its headers cost more than its code: together the files compile in half the time, but for one that defines a name
# of another.
set_source_files_properties(${folder}/cpp/converter_ext/minimax_m3.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
foreach(part penstock_xgrammar penstock_xgrammar_forms)
  target_include_directories(${part} SYSTEM PUBLIC ${folder}/include ${folder}/3rdparty/picojson
                             ${folder}/3rdparty/dlpack/include)
  # Its log goes to our functions (grammar/xgrammar_log.cc). Its warnings are its makers'.
  target_compile_definitions(${part} PUBLIC XGRAMMAR_LOG_CUSTOMIZE=1 XGRAMMAR_ENABLE_CPPTRACE=0
                             XGRAMMAR_ENABLE_INTERNAL_CHECK=0)
  set_target_properties(${part} PROPERTIES CXX_STANDARD 17 UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 5)
  target_compile_options(${part} PRIVATE -w)
endforeach()
target_link_libraries(penstock_xgrammar PUBLIC Threads::Threads)
