#include "sample/stop_strings.h"

#include <algorithm>

#include "sample/sampling_options.h"
#include "unicode/utf8.h"

namespace penstock::sample {

Status CheckStopStrings(std::span<const std::string> stops) {
  if (stops.size() > kStopStringsMax) {
    return Status::InvalidArgument("'stop' has " + std::to_string(stops.size()) +
                                       " entries; at most " + std::to_string(kStopStringsMax) +
                                       " are allowed",
                                   "stop");
  }
  for (size_t i = 0; i < stops.size(); ++i) {
    const std::string field = "stop[" + std::to_string(i) + "]";
    if (stops[i].empty() || stops[i].size() > kStopStringBytesMax) {
      return Status::InvalidArgument("'" + field + "' must have between 1 and " +
                                         std::to_string(kStopStringBytesMax) + " bytes, has " +
                                         std::to_string(stops[i].size()),
                                     field);
    }
    if (!IsValidUtf8(stops[i])) {
      return Status::InvalidArgument("'" + field + "' must be UTF-8", field);
    }
  }
  return Status::Ok();
}

Expected<StopStrings> StopStrings::Make(std::span<const std::string> stops, bool include_stop) {
  PENSTOCK_RETURN_IF_ERROR(CheckStopStrings(stops));
  StopStrings made;
  made.include_stop_ = include_stop;
  size_t longest = 0;
  for (const std::string& stop : stops) {
    Pattern pattern{stop, std::vector<uint32_t>(stop.size(), 0), 0};
    for (size_t i = 1, k = 0; i < stop.size(); ++i) {
      while (k > 0 && stop[i] != stop[k]) k = pattern.border[k - 1];
      k += stop[i] == stop[k];
      pattern.border[i] = static_cast<uint32_t>(k);
    }
    longest = std::max(longest, stop.size());
    made.patterns_.push_back(std::move(pattern));
  }
  made.held_.reserve(longest + kTokenBytes + 4);
  return made;
}

bool StopStrings::Advance(char byte, bool may_end) {
  for (size_t i = 0; i < patterns_.size(); ++i) {
    Pattern& p = patterns_[i];
    while (p.state > 0 && p.text[p.state] != byte) p.state = p.border[p.state - 1];
    p.state += p.text[p.state] == byte;
    if (p.state < p.text.size()) continue;
    if (!may_end) {
      p.state = p.border[p.state - 1];
      continue;
    }
    if (matched_ < 0 || p.state > patterns_[static_cast<size_t>(matched_)].text.size()) {
      matched_ = static_cast<int>(i);
    }
  }
  return matched_ >= 0;
}

void StopStrings::Release(size_t count, std::string* out) {
  size_t done = 0;
  while (done < count) {
    size_t valid = 0, bad = 0;
    const std::string_view rest = std::string_view(held_).substr(done, count - done);
    const unicode::Utf8Tail tail = unicode::ScanUtf8(rest, &valid, &bad);
    out->append(rest.substr(0, valid));
    done += valid;
    if (tail != unicode::Utf8Tail::kInvalid) break;
    unicode::AppendUtf8(unicode::kReplacementChar, out);
    done += bad;
  }
  held_.erase(0, done);
}

bool StopStrings::Push(std::string_view bytes, std::string* out, bool may_end) {
  for (const char byte : bytes) {
    held_.push_back(byte);
    if (!Advance(byte, may_end)) continue;
    if (!include_stop_) {
      held_.resize(held_.size() - patterns_[static_cast<size_t>(matched_)].text.size());
    }
    Finish(out);
    return true;
  }
  size_t open = 0;  // bytes at the end that may belong to a stop string
  for (const Pattern& p : patterns_) open = std::max(open, p.state);
  Release(held_.size() - open, out);
  return false;
}

void StopStrings::Finish(std::string* out) {
  unicode::AppendSanitizedUtf8(held_, out);
  held_.clear();
}

}  // namespace penstock::sample
