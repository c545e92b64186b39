#include "jobs/start_record.h"

#include <unistd.h>

#include <cinttypes>
#include <utility>

namespace penstock::jobs {

StartRecord::StartRecord(std::string path) : path_(std::move(path)) {
  if (std::unique_ptr<std::FILE, Close> file{std::fopen(path_.c_str(), "re")}) {
    // A line that was cut short by the crash tells a wrong number at worst.
    for (int64_t number = 0; std::fscanf(file.get(), "%" SCNd64, &number) == 1;) {
      if (number > 0) ++found_[number];
      const auto back = number < 0 ? found_.find(-number) : found_.end();
      if (back != found_.end() && --back->second <= 0) found_.erase(back);
    }
  }
  Rewrite();
}

StartRecord::~StartRecord() {
  Rewrite();
  file_.reset();
  if (found_.empty()) ::unlink(path_.c_str());
}

int StartRecord::CrashesOf(int64_t line) const {
  const auto found = found_.find(line);
  return found == found_.end() ? 0 : found->second;
}

void StartRecord::Rewrite() {
  file_.reset(std::fopen(path_.c_str(), "we"));
  for (const auto& [line, count] : found_) {
    for (int i = 0; i < count; ++i) Write(line);
  }
}

void StartRecord::Write(int64_t number) {
  if (file_ == nullptr) return;
  std::fprintf(file_.get(), "%" PRId64 "\n", number);
  std::fflush(file_.get());
}

}  // namespace penstock::jobs
