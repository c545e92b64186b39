// The penstock program: libpenstock.so is all of it but the editing of lines.
#include "program_entry.h"

int main(int argc, char** argv) {
  const penstock::cli::ProgramParts parts = {.terminal_lines = penstock::cli::NewTerminalLines};
  return penstock_program(argc, argv, &parts);
}
