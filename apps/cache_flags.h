// What the commands for the hub's cache have in common: pull, list, show and rm.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "hub/reference.h"

namespace penstock::cli {

// The references a command works on, as arguments.
Flag* AddReferences(CommandLine* line, std::vector<std::string>* references,
                    const std::string& description);
// Warnings of the hub go to stderr.
void LogWarnings();

// A reference of the hub: a local path is an error that says `why`.
Expected<hub::ModelReference> HubReference(const std::string& text, const std::string& why);

// Whether a text is a reference of the hub at all; else a failure of the command is a mistake in
// how it was called.
bool IsReference(const std::string& text);

// Rows of cells as a table with two spaces between columns; those in `right` are flush right.
std::string TableText(const std::vector<std::vector<std::string>>& rows,
                      const std::vector<size_t>& right);

// "90.9 MB"; "?" of 0.
std::string BytesText(uint64_t bytes);

}  // namespace penstock::cli
