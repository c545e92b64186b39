#include "version.h"

#include <fmt/core.h>
#include <hiredis.h>
#include <nghttp2/nghttp2.h>
#include <openssl/crypto.h>
#include <xxhash.h>
#include <zlib.h>
#include <zstd.h>

#include <boost/version.hpp>
#include <cstdio>

#include "cli/command_line.h"
#include "cpu/dispatch.h"
#include "json/json_writer.h"

namespace penstock::cli {
namespace {

// 10200 as "1.2.0".
std::string Dotted(unsigned number) {
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

std::string VersionJson() {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  json.Field("version", PENSTOCK_VERSION);
#ifdef __clang__
  json.Field("compiler", "clang " __clang_version__);
#else
  json.Field("compiler", "g++ " __VERSION__);
#endif
  json.Field("architecture", PENSTOCK_ARCHITECTURE);
  const auto kernels = cpu::DefaultKernels();
  json.Field("isa", kernels.ok() ? (*kernels)->name : "");
  json.Key("libraries").BeginObject();
  json.Field("boost", Dotted(BOOST_VERSION / 100000 * 10000 + BOOST_VERSION / 100 % 1000 * 100 +
                             BOOST_VERSION % 100));
  json.Field("fmt", Dotted(FMT_VERSION));
  json.Field("hiredis", fmt::format("{}.{}.{}", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH));
  json.Field("nghttp2", nghttp2_version(0)->version_str);
  json.Field("openssl", OpenSSL_version(OPENSSL_VERSION_STRING));
  json.Field("xxhash", Dotted(XXH_versionNumber()));
  json.Field("zlib", zlibVersion());
  json.Field("zstd", ZSTD_versionString());
  json.EndObject();
  json.EndObject();
  return text;
}

}  // namespace

int RunVersion(const std::string& program, const std::vector<std::string>& args) {
  if (args.empty()) {
    std::printf("%s " PENSTOCK_VERSION "\n", program.c_str());
    return kExitOk;
  }
  if (args.size() == 1 && (args[0] == "--help" || args[0] == "-h")) {
    std::printf("%s version [--json]: the version; with --json that of its libraries, too\n",
                program.c_str());
    return kExitOk;
  }
  if (args.size() != 1 || args[0] != "--json") {
    std::fprintf(stderr, "%s: version takes --json or nothing\n", program.c_str());
    return kExitUsage;
  }
  std::printf("%s\n", VersionJson().c_str());
  return kExitOk;
}

}  // namespace penstock::cli
