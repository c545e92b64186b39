// The text of --help.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace penstock::cli {

std::string InCapitals(std::string text);  // of ASCII

// "-o, --output FILE"
std::string FlagTitle(const CLI::Option* option);
// What it does, with its default or that it is required; a line.
std::string FlagText(const CLI::Option* option);
// The title of a positional argument: "[FILES...]", or "SHELL" if it is required.
std::string PositionalTitle(const CLI::Option* option);

// `examples`: whole lines. `hidden`: names of groups, and flags without dashes, that only `all`
// shows.
std::string HelpText(const CLI::App& app, const std::string& examples,
                     const std::vector<std::string>& hidden, bool all);

}  // namespace penstock::cli
