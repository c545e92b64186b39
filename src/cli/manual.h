// Manual pages in roff (man(7)), made from what --help prints.
#pragma once

#include <string>
#include <vector>

namespace penstock::cli {

struct ManualPage {
  std::string name;  // "penstock-bench-http"
  std::string text;
};

// The pages of penstock itself, of penstock bench, and of every command and benchmark.
std::vector<ManualPage> ManualPages();

}  // namespace penstock::cli
