// ModelStore: models that clients add to a server and take away.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace penstock::api {

// How far a pull is.
struct PullProgress {
  std::string file;          // the one being downloaded
  uint64_t bytes_done = 0;   // of that file
  uint64_t bytes_total = 0;  // 0: not known
  bool checking = false;     // it is here, its digest is being computed
};

class ModelStore {
 public:
  // Called several times a second, on a thread of the store; false gives the pull up.
  using OnProgress = std::function<bool(const PullProgress&)>;
  // Called once, on the same thread, after the last OnProgress.
  using OnPulled = std::function<void(const Status&)>;

  virtual ~ModelStore() = default;

  // Downloads a model and serves it under the name that was asked for; the first request for it
  // loads it. Returns before that. Not OK, and `done` is not called:
  //   kInvalidArgument    not a reference to a model of the hub; local paths are not allowed
  //   kResourceExhausted  another model is being pulled
  // `done` gets these and others of the hub: kPayloadTooLarge for a model above the limit of bytes,
  // kCancelled where OnProgress gave it up; what was downloaded is kept for the next time.
  virtual Status Pull(const std::string& reference, OnProgress progress, OnPulled done) = 0;

  // The model is served no more, and its files are deleted. kNotFound: no such model;
  // kUnprocessable: it is not from the hub. Blocks on the disk.
  virtual Status Delete(const std::string& name) = 0;
};

}  // namespace penstock::api
