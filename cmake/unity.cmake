# penstock_group(OUT NAME BASE files...)
#
# Puts the .cc files of a library together, ten to a unit that the compiler reads: headers are parsed
# and templates compiled once for all of them, which more than halves the processor time of a cold
# build. OUT becomes the list of units, each in the build folder and with its files included by their
# names from BASE on, so that a compile cache serves every clone.
#
# Files of one library thus share their unnamed namespaces: a name in one is there once. Off
# (-DPENSTOCK_UNITY=OFF, and in the debug preset) each file is compiled by itself, which is quicker
# after a change to a single file.
option(PENSTOCK_UNITY "Compile the files of a library ten at a time" ON)
set(PENSTOCK_UNIT_FILES 10)
if(PENSTOCK_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Takes a class of an included file for one of a header.
  add_compile_options(-Wno-subobject-linkage)
endif()

function(penstock_group out name base)
  list(LENGTH ARGN count)
  if(NOT PENSTOCK_UNITY OR count LESS 2)
    set(${out} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  list(SORT ARGN)
  math(EXPR units "(${count} + ${PENSTOCK_UNIT_FILES} - 1) / ${PENSTOCK_UNIT_FILES}")
  set(made)
  math(EXPR last "${units} - 1")
  foreach(unit RANGE ${last})
    math(EXPR begin "${unit} * ${count} / ${units}")
    math(EXPR size "(${unit} + 1) * ${count} / ${units} - ${begin}")
    list(SUBLIST ARGN ${begin} ${size} part)
    set(text)
    foreach(file ${part})
      file(RELATIVE_PATH relative ${base} ${file})
      string(APPEND text "#include \"${relative}\"\n")
    endforeach()
    set(path ${PROJECT_BINARY_DIR}/units/${name}_${unit}.cc)
    file(CONFIGURE OUTPUT ${path} CONTENT "${text}" @ONLY)
    list(APPEND made ${path})
  endforeach()
  set(${out} ${made} PARENT_SCOPE)
endfunction()
