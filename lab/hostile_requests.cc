#include "lab/hostile_requests.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace penstock::lab {
namespace {

using Manner = HostileManner;
using Right = HostileAnswer;

constexpr size_t kMiB = size_t{1} << 20;
// Below and above a server's default limit of bodies.
constexpr size_t kBodyBelow = 15 * kMiB / 2;
constexpr size_t kBodyAbove = 30 * kMiB;
// Three bytes that NFKC makes into 18 characters.
constexpr std::string_view kLigature = "\xEF\xB7\xBA";

std::string Repeat(std::string_view piece, size_t times) {
  std::string text;
  text.reserve(piece.size() * times);
  for (size_t i = 0; i < times; ++i) text += piece;
  return text;
}

// [item,item,...]
std::string ArrayOf(std::string_view item, size_t count) {
  std::string text = "[";
  text.reserve(count * (item.size() + 1) + 1);
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) text += ',';
    text += item;
  }
  return text + "]";
}

std::string Inputs(const std::string& array) { return "{\"inputs\":" + array + "}"; }
std::string IdRows(size_t rows, size_t ids) { return ArrayOf(ArrayOf("1", ids), rows); }
std::string Quoted(const std::string& text) { return "\"" + text + "\""; }

class Maker {
 public:
  explicit Maker(const load::HttpTarget& target)
      : host_(fmt::format("Host: {}:{}\r\n", target.host, target.port)) {
    if (!target.api_key.empty()) {
      key_ = fmt::format("Authorization: Bearer {}\r\n", target.api_key);
    }
  }

  // `headers`: whole lines.
  std::string Head(std::string_view path, std::string_view headers) const {
    return fmt::format("POST {} HTTP/1.1\r\n{}{}Content-Type: application/json\r\n{}\r\n", path,
                       host_, key_, headers);
  }
  std::string Post(std::string_view path, const std::string& body,
                   std::string_view headers = "") const {
    return Head(path, fmt::format("Content-Length: {}\r\n{}", body.size(), headers)) + body;
  }
  // `framed`: chunks as they go out.
  std::string Chunked(std::string_view framed) const {
    return Head("/embed", "Transfer-Encoding: chunked\r\n").append(framed);
  }
  std::string Get(std::string_view path) const {
    return fmt::format("GET {} HTTP/1.1\r\n{}{}\r\n", path, host_, key_);
  }
  // A request that is right but for these header lines.
  std::string WithLines(std::string_view lines) const {
    return Post("/embed", Inputs("\"a\""), lines);
  }
  const std::string& host() const { return host_; }
  const std::string& key() const { return key_; }

  void Add(const char* name, double weight, std::string bytes, Right right = Right::kAny,
           Manner manner = Manner::kAsk, int answers = 1) {
    made_.push_back({name, weight, std::move(bytes), manner, right, answers});
  }
  std::vector<HostileRequest> Take() { return std::move(made_); }

 private:
  std::string host_;
  std::string key_;
  std::vector<HostileRequest> made_;
};

void AddLargeBodies(Maker* make) {
  const std::string below = make->Post("/embed", EmptyTextsBody(kBodyBelow));
  const std::string above = make->Post("/embed", EmptyTextsBody(kBodyAbove));
  make->Add("empty texts, 7.5 MiB", 0.5, below, Right::kRefusal);
  make->Add("empty texts, 30 MiB", 0.4, above, Right::kRefusal);
  make->Add("empty texts, 16 MiB, POST /", 0.3, make->Post("/", EmptyTextsBody(16 * kMiB)),
            Right::kRefusal);
  make->Add("embed_all of 1900 x 8192 ids", 0.3,
            make->Post("/embed_all", Inputs(IdRows(1900, 8192))));
  make->Add("embed_all of 480 x 8192 ids", 0.3,
            make->Post("/embed_all", Inputs(IdRows(480, 8192))));
  const std::string ligatures = Quoted(Repeat(kLigature, 300'000));
  make->Add("tokenize 30 x 300,000 U+FDFA", 0.2,
            make->Post("/tokenize", Inputs(ArrayOf(ligatures, 30))));
  make->Add("decode 3.9 million ids", 0.3,
            make->Post("/decode", "{\"ids\":" + ArrayOf("1", kBodyBelow / 2) + "}"));
  make->Add("body in 200,000 chunks", 0.2,
            make->Chunked("B\r\n{\"inputs\":\"\r\n" + Repeat("1\r\na\r\n", 200'000) +
                          "2\r\n\"}\r\n0\r\n\r\n"),
            Right::kServed);
  make->Add("leaves in a body of 7.5 MiB", 0.3, below.substr(0, 6 * kMiB), Right::kAny,
            Manner::kLeaveInBody);
  make->Add("leaves in a body of 30 MiB", 0.3, above.substr(0, 16 * kMiB), Right::kAny,
            Manner::kLeaveInBody);
  make->Add("body of 7.5 MiB, last byte missing", 0.4, below.substr(0, below.size() - 1),
            Right::kRefusal);
  make->Add("idle after a body of 7.5 MiB", 0.5, below, Right::kRefusal, Manner::kStayIdle);
}

// Bulk, as an honest client would mark it: a request that may claim to be interactive rightly
// shares the capacity for interactive work.
void AddHeavyWork(Maker* make) {
  constexpr const char* kBulk = "X-Penstock-Priority: bulk\r\n";
  const auto text = [](size_t bytes) { return Quoted(Repeat("hydro ", bytes / 6)); };
  make->Add("embed_all of 256 x 256 ids", 0.2,
            make->Post("/embed_all", Inputs(IdRows(256, 256)), kBulk));
  make->Add("embed_all of 16 x 256 ids", 0.2,
            make->Post("/embed_all", Inputs(IdRows(16, 256)), kBulk));
  make->Add("tokenize 6 texts of 1 MB", 0.1,
            make->Post("/tokenize", Inputs(ArrayOf(text(1'000'000), 6)), kBulk));
  make->Add("tokenize 8 x 300,000 U+FDFA", 0.1,
            make->Post("/tokenize", Inputs(ArrayOf(Quoted(Repeat(kLigature, 300'000)), 8)), kBulk));
  const std::string big_answer = make->Post("/tokenize", Inputs(text(300'000)));
  make->Add("leaves in an answer of megabytes", 0.2, big_answer, Right::kServed,
            Manner::kLeaveInAnswer);
  make->Add("reads megabytes slowly", 0.1, big_answer, Right::kAny, Manner::kReadSlowly);
  make->Add("reads nothing of megabytes", 0.1, big_answer, Right::kAny, Manner::kReadNothing);
}

void AddHeldConnections(Maker* make) {
  make->Add("a byte of the header at a time", 0.8, make->Post("/embed", Inputs("\"a\"")),
            Right::kAny, Manner::kDrip);
  make->Add("silent connection", 0.2, "", Right::kAny, Manner::kStayIdle);
  make->Add("says it will send no more", 1.0, make->Post("/embed", Inputs("\"a\"")), Right::kAny,
            Manner::kHalfClose);
  make->Add("header and no body", 0.4, make->Head("/embed", "Content-Length: 100\r\n"),
            Right::kRefusal);
}

void AddBrokenFraming(Maker* make) {
  constexpr double kEach = 0.78;
  const auto refused = [make](const char* name, std::string bytes) {
    make->Add(name, kEach, std::move(bytes), Right::kRefusal);
  };
  const std::string body = "F\r\n{\"inputs\":\"ab\"}\r\n0\r\n\r\n";
  refused("chunk size zz", make->Chunked("zz\r\nab\r\n0\r\n\r\n"));
  refused("chunk size of 2^64", make->Chunked("10000000000000000\r\nab\r\n0\r\n\r\n"));
  refused("negative chunk size", make->Chunked("-1\r\nab\r\n0\r\n\r\n"));
  refused("chunk longer than it says", make->Chunked("2\r\n{\"inputs\":\"a\"}\r\n0\r\n\r\n"));
  // One request to a reader that ends chunk lines at CR LF, two to one that ends them at LF.
  refused(
      "line feed in a quoted chunk extension",
      make->Chunked("10\r\n{\"inputs\":\"abc\"}\r\n0;a=\"\nGET /v1/stats HTTP/1.1\nHost: a\n\n\""
                    "\r\n\r\n"));
  refused("length and chunks",
          make->Head("/embed", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n") + body);
  refused("two lengths",
          make->Head("/embed", "Content-Length: 5\r\nContent-Length: 6\r\n") + "{    }");
  refused("length of +6", make->Head("/embed", "Content-Length: +6\r\n") + "{    }");
  refused("length of 10^30",
          make->Head("/embed", "Content-Length: 1000000000000000000000000000000\r\n") + "{    }");
  refused("coding gzip, chunked",
          make->Head("/embed", "Transfer-Encoding: gzip, chunked\r\n") + body);
  make->Add("HTTP/1.0 with chunks", kEach,
            "POST /embed HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n" +
                make->key() + "\r\n" + body);
  refused("header of 64 KiB", make->WithLines("X-Long: " + Repeat("a", 65'536) + "\r\n"));
  refused("2,000 headers", make->WithLines(Repeat("X-Many: 123456\r\n", 2000)));
  refused("folded header", make->WithLines("X-Folded: a\r\n b\r\n"));
  refused("control byte in a header", make->WithLines(std::string_view("X-Control: a\0b\r\n", 16)));
  refused("no colon in a header", make->WithLines("X-Broken\r\n"));
  refused("no Host", "GET /info HTTP/1.1\r\n" + make->key() + "\r\n");
  refused("two Hosts", "GET /info HTTP/1.1\r\nHost: a\r\n" + make->host() + make->key() + "\r\n");
  refused("target of 32 KiB", make->Get("/" + Repeat("a", 32'768)));
  refused("version 9.9", "GET /livez HTTP/9.9\r\n" + make->host() + "\r\n");
  refused("no HTTP at all", Repeat("\x16\x03\x01\x02", 64) + "\r\n\r\n");
}

void AddBrokenBodies(Maker* make) {
  constexpr double kEach = 0.78;
  const auto refused = [make](const char* name, const std::string& body) {
    make->Add(name, kEach, make->Post("/embed", body), Right::kRefusal);
  };
  refused("100,000 arrays in each other", Repeat("[", 100'000));
  refused("100,000 objects in each other", Repeat("{\"a\":", 100'000));
  refused("arrays in arrays as inputs", Inputs(Repeat("[", 200) + Repeat("]", 200)));
  refused("NaN", Inputs("NaN"));
  refused("number of 1e999", Inputs("1e999"));
  refused("number of 100,000 digits", Inputs("[[" + Repeat("9", 100'000) + "]]"));
  refused("id of 1e30", Inputs("[[1e30]]"));
  refused("negative id", Inputs("[[-1]]"));
  refused("text that is not UTF-8", Inputs("\"a\xff\""));
  refused("half a surrogate pair", Inputs("\"\\ud800\""));
  refused("bytes after the end", Inputs("\"a\"") + "}");
  refused("no body", "");
  refused("1e30 dimensions", "{\"inputs\":\"a\",\"dimensions\":1e30}");
  refused("100,000 empty texts", Inputs(ArrayOf("\"\"", 100'000)));
  make->Add("no JSON by its type", kEach,
            fmt::format("POST /embed HTTP/1.1\r\n{}{}Content-Type: text/plain\r\nContent-Length: "
                        "14\r\n\r\n{{\"inputs\":\"a\"}}",
                        make->host(), make->key()));
  make->Add("unknown route", kEach, make->Post("/nothing", "{}"), Right::kRefusal);
  make->Add("wrong method", kEach, make->Get("/embed"), Right::kRefusal);
}

void AddPipelines(Maker* make) {
  const std::string one = make->Post("/embed", Inputs("\"a\""));
  make->Add("16 requests at once", 1, Repeat(one, 16), Right::kServed, Manner::kAsk, 16);
  make->Add("64 x /livez at once", 1, Repeat(make->Get("/livez"), 64), Right::kServed, Manner::kAsk,
            64);
  make->Add("a request, then garbage", 1, one + "garbage\r\n\r\n", Right::kAny, Manner::kAsk, 2);
}

}  // namespace

std::string EmptyTextsBody(size_t bytes) { return Inputs(ArrayOf("\"\"", bytes / 3)); }

std::vector<HostileRequest> MakeHostileRequests(const load::HttpTarget& target) {
  Maker make(target);
  AddLargeBodies(&make);
  AddHeavyWork(&make);
  AddHeldConnections(&make);
  AddBrokenFraming(&make);
  AddBrokenBodies(&make);
  AddPipelines(&make);
  return make.Take();
}

}  // namespace penstock::lab
