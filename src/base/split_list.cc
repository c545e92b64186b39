#include "base/split_list.h"

#include <algorithm>
#include <utility>

namespace penstock {

std::string Trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t\r\n";
  const size_t from = text.find_first_not_of(kBlanks);
  if (from == std::string::npos) return "";
  return text.substr(from, text.find_last_not_of(kBlanks) - from + 1);
}

std::vector<std::string> SplitList(const std::string& text) {
  const bool lines = text.find('\n') != std::string::npos;
  std::vector<std::string> items;
  for (size_t from = 0; from <= text.size();) {
    const size_t end = std::min(text.find(lines ? '\n' : ',', from), text.size());
    std::string item = Trimmed(text.substr(from, end - from));
    if (!lines || !item.empty()) items.push_back(std::move(item));
    from = end + 1;
  }
  return items;
}

}  // namespace penstock
