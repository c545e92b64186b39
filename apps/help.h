// The text of --help.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace penstock {

// `hidden`: names of groups, and flags without dashes, that only `all` shows.
std::string HelpText(const CLI::App& app, const std::vector<std::string>& hidden, bool all);

}  // namespace penstock
