// StartRecord: which lines of a batch are under way, in a file beside it, so that after a crash it
// is known which may have caused it. One thread.
//
// A line is written before it is begun, and again when it comes back without an answer. What a
// process leaves there that ends without a word was under way then; one that ends in order leaves
// what it found.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

namespace penstock::jobs {

class StartRecord {
 public:
  // Reads what is at `path`. A file that cannot be read or written counts as empty: it only keeps a
  // line from being run once too often.
  explicit StartRecord(std::string path);
  // Leaves what was found.
  ~StartRecord();
  StartRecord(const StartRecord&) = delete;
  StartRecord& operator=(const StartRecord&) = delete;

  // How many processes ended while the line was under way.
  int CrashesOf(int64_t line) const;
  // The line has an answer: what was found of it goes.
  void Forget(int64_t line) { found_.erase(line); }
  void Begin(int64_t line) { Write(line); }
  // It is to be begun again later.
  void Return(int64_t line) { Write(-line); }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void Write(int64_t number);
  void Rewrite();

  const std::string path_;
  std::map<int64_t, int> found_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace penstock::jobs
