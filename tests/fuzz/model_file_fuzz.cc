// The model.toml of a model in a repository. What it sets must be what its keys may be, and what is
// refused must be told with the file.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "../../apps/model_file.h"
#include "base/status.h"
#include "cli/config_file.h"
#include "fuzz_util.h"

namespace penstock {
namespace {

// A file without a name, with this text.
const std::string& FileWith(const uint8_t* data, size_t size) {
  static const int file = ::memfd_create("model.toml", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  PENSTOCK_CHECK(::ftruncate(file, 0) == 0);
  PENSTOCK_CHECK(::pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  return path;
}

void CheckOptions(const runtime::ModelOptions& options) {
  for (const auto list :
       {&runtime::ModelOptions::tasks, &runtime::ModelOptions::contexts,
        &runtime::ModelOptions::max_batch_sizes, &runtime::ModelOptions::dtypes,
        &runtime::ModelOptions::int8_keep, &runtime::ModelOptions::poolings,
        &runtime::ModelOptions::chat_templates, &runtime::ModelOptions::keep_alives,
        &runtime::ModelOptions::temperatures, &runtime::ModelOptions::top_ks,
        &runtime::ModelOptions::top_ps, &runtime::ModelOptions::min_ps,
        &runtime::ModelOptions::repetition_penalties, &runtime::ModelOptions::max_tokens_defaults,
        &runtime::ModelOptions::pin_models}) {
    const std::vector<std::string>& values = options.*list;
    PENSTOCK_CHECK(values.empty() || (values.size() == 1 && !values[0].empty()));
  }
  PENSTOCK_CHECK(options.served_names.at(0) == "model");
  for (const std::string& name : options.served_names) {
    PENSTOCK_CHECK(!name.empty() && name.find_first_of(",=") == std::string::npos);
  }
  PENSTOCK_CHECK(options.pin_models.empty() || options.pin_models[0] == "model");
}

// The same values, each written as a text, are the same file.
void CheckAgain(const std::string& text) {
  const auto file = cli::ParseConfig(text, "f");
  if (!file.ok()) return;
  PENSTOCK_CHECK(std::is_sorted(file->entries.begin(), file->entries.end(),
                                [](const auto& a, const auto& b) { return a.line < b.line; }));
  std::string written;
  for (const cli::ConfigEntry& entry : file->entries) {
    if (!entry.table.empty()) return;
    written += cli::TomlString(entry.key) + " = [";
    for (const std::string& value : entry.values) written += cli::TomlString(value) + ", ";
    written += "]\n";
  }
  const auto again = cli::ParseConfig(written, "f");
  PENSTOCK_CHECK(again.ok() && again->entries.size() == file->entries.size());
  for (size_t i = 0; i < again->entries.size(); ++i) {
    PENSTOCK_CHECK(again->entries[i].key == file->entries[i].key);
    PENSTOCK_CHECK(again->entries[i].values == file->entries[i].values);
  }
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const std::string& path = FileWith(data, size);
  runtime::ModelOptions options;
  options.served_names = {"model"};
  const Status status = cli::ReadModelFile(path, &options);
  if (status.ok()) {
    CheckOptions(options);
  } else {
    PENSTOCK_CHECK(status.message().find(path) != std::string::npos);
  }
  CheckAgain(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}

PENSTOCK_FUZZ_MUTATE_WITH(penstock::fuzz::MutateText)
