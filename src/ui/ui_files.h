// The web page's files, ready to be sent. They are part of the program and never change, so all
// requests share them.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace penstock::ui {

inline constexpr std::string_view kUiPage = "index.html";

struct UiFile {
  std::string name;          // "app.js"
  const char* content_type;  // of its ending
  std::string_view text;
  std::string gzip;  // the same, packed; empty where it would not be smaller
  std::string etag;  // with its quotes; of the content
};

// All of them; packed at the first call. Any thread.
std::span<const UiFile> UiFiles();
// Null: there is no such file.
const UiFile* FindUiFile(std::string_view name);

}  // namespace penstock::ui
