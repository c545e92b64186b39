// A whole server in which one allocation fails: the n-th after a request was sent, for every n
// until the request needs no more. Whatever fails, the request is answered or its connection
// closed, the server goes on, and nothing of the request stays behind.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <string_view>
#include <thread>

#include "api/service.h"
#include "base/eventually_test_util.h"
#include "base/failing_new.h"
#include "base/temp_folder_test_util.h"
#include "cpu/cpu_backend.h"
#include "engine/fake_engine.h"
#include "log/log.h"
#include "registry/registry.h"
#include "server/server.h"

namespace penstock::server {
namespace {

// A request by itself: sends, reads to the end of the connection, which it asks to be closed.
// Empty: closed without an answer. "timeout": neither.
std::string Ask(uint16_t port, const std::string& request) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const timeval limit{.tv_sec = 5, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) {
    std::string_view rest = request;
    while (!rest.empty()) {
      const ssize_t sent = send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;  // refused before it was read
      rest.remove_prefix(static_cast<size_t>(sent));
    }
    char block[16384];
    ssize_t got = 0;
    while ((got = recv(fd, block, sizeof block, 0)) > 0) answer.append(block, got);
    if (got < 0 && errno != ECONNRESET) answer = "timeout";
  }
  close(fd);
  return answer;
}

std::string Post(const std::string& path, const std::string& body) {
  return "POST " + path +
         " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
         "Content-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string Get(const std::string& path) {
  return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
}

std::string BodyOf(const std::string& answer) {
  const size_t at = answer.find("\r\n\r\n");
  return at == std::string::npos ? "" : answer.substr(at + 4);
}

// Events of several choices ("n") by choice: samples begin in one step or another, so how their
// events lie among each other says nothing. The order of each choice's own events stays.
std::string ByChoice(const std::string& events) {
  constexpr std::string_view kIndex = R"("choices":[{"index":)", kEnd = "\n\n";
  std::map<std::string, std::string> choices;
  std::string others;
  for (size_t at = 0; at < events.size();) {
    const size_t end = std::min(events.find(kEnd, at), events.size() - kEnd.size()) + kEnd.size();
    const std::string event = events.substr(at, end - at);
    const size_t index = event.find(kIndex);
    (index == std::string::npos ? others : choices[event.substr(index + kIndex.size(), 1)]) +=
        event;
    at = end;
  }
  std::string text;
  for (const auto& [index, lines] : choices) text += lines;
  return text + others;
}

// The body of an answer, less what differs from answer to answer: chunks, ids, times, what the
// cache had, and the order of events of several choices.
std::string Comparable(const std::string& answer) {
  std::string body = BodyOf(answer);
  if (answer.find("Transfer-Encoding: chunked") != std::string::npos) {
    std::string joined;
    for (size_t at = 0; at < body.size();) {
      const size_t line = body.find("\r\n", at);
      if (line == std::string::npos) break;
      const size_t size = std::stoul(body.substr(at, line - at), nullptr, 16);
      joined += body.substr(line + 2, size);
      at = line + size + 4;
    }
    body = joined;
  }
  static const std::regex kOwn(
      R"re("id":"(chat)?cmpl-[^"]*"|"created":\d+|"cached_tokens":\d+|"id":"call[^"]*"|"idle_s":[^,]*|"created_at":"[^"]*"|"[a-z_]*duration":\d+|"id":"[0-9a-f]{32}")re");
  body = std::regex_replace(body, kOwn, "");
  return body.starts_with("data: ") && body.ends_with("\n\n") ? ByChoice(body) : body;
}

class FailingAllocationTest : public testing::Test {
 protected:
  explicit FailingAllocationTest(std::unique_ptr<program::Backend> backend = nullptr)
      : backend_(std::move(backend)) {}
  void SetUp() override {
    InitLog({LogLevel::kOff, false});  // thousands of lines
  }
  void TearDown() override { InitLog({}); }

  void Start(api::ServiceOptions limits = {},
             double lead_s_max = sched::EncoderSchedulerOptions().lead_s_max) {
    for (const auto& [name, task] :
         {std::pair("embedder", families::ModelTask::kEmbedding),
          std::pair("reranker", families::ModelTask::kReranking),
          std::pair("classifier", families::ModelTask::kClassification)}) {
      engine::EncoderParts parts =
          engine::FakeParts(task, task == families::ModelTask::kReranking ? 1 : 3);
      parts.max_tokens = 4096;
      engine::EncoderEngineOptions options;
      options.name = name;
      options.scheduler.lead_s_max = lead_s_max;
      ASSERT_TRUE(registry_
                      .AddLoaded(std::make_unique<engine::EncoderEngine>(std::move(parts), options,
                                                                         &metrics_))
                      .ok());
    }
    Serve(limits);
  }
  void Serve(api::ServiceOptions limits) {
    limits.tokenization_workers = 2;
    service_ = std::make_unique<api::Service>(&registry_, limits, &metrics_);
    http::ServerOptions options;
    options.port = 0;
    options.slow_request = std::chrono::milliseconds(0);
    auto server = Server::Start(service_.get(), &metrics_, options);
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = *std::move(server);
  }

  void FailEveryRoute();
  // Fails allocation after allocation of `request`; how many there are.
  int64_t FailEach(const std::string& request, int64_t step = 1) {
    const std::string whole = Ask(server_->port(), request);
    const std::string right = Comparable(whole), status = whole.substr(0, 12);  // "HTTP/1.1 200"
    EXPECT_FALSE(right.empty());
    for (int64_t n = 1;; n += step) {
      std::string answer;
      bool failed = false;
      {
        const FailingNewElsewhere fail(n);
        answer = Ask(server_->port(), request);
        failed = fail.failed();
      }
      if (answer == "timeout") {
        ADD_FAILURE() << "no answer where allocation " << n << " fails: " << request.substr(0, 80);
        return n;
      }
      if (!answer.empty()) {
        EXPECT_TRUE(answer.starts_with(status) || answer.starts_with("HTTP/1.1 429") ||
                    answer.starts_with("HTTP/1.1 500") || answer.starts_with("HTTP/1.1 503"))
            << n << ": " << answer.substr(0, 400);
      }
      if (answer.starts_with(status) && Stable(request) && IsWhole(request, answer)) {
        EXPECT_EQ(Comparable(answer), right) << n;
      }
      if (n % (16 * step) == 1 || !failed) {
        const std::string after = Ask(server_->port(), request);
        EXPECT_TRUE(after.starts_with(status)) << n << ": " << after.substr(0, 400);
        if (Stable(request)) {
          EXPECT_EQ(Comparable(after), right) << n;
        }
      }
      if (!failed || HasNonfatalFailure()) return n;
    }
  }
  // Whether the answer to a request is the same each time.
  static bool Stable(const std::string& request) {
    return request.find("/v1/rerank") == std::string::npos &&
           request.find("/v1/classify") == std::string::npos &&
           request.find("/stats") == std::string::npos &&
           request.find("/metrics") == std::string::npos &&
           request.find("/v1/bulk") == std::string::npos;
  }
  // Lines and events may end early, as their reader sees: with an error, or without the end of the
  // body.
  static bool IsWhole(const std::string& request, const std::string& answer) {
    const bool streams = request.find("ndjson") != std::string::npos ||
                         request.find("_stream") != std::string::npos ||
                         request.find(R"("stream":true)") != std::string::npos;
    return !streams ||
           (answer.ends_with("0\r\n\r\n") && answer.find("\"error\"") == std::string::npos);
  }
  void ExpectNothingLeft() {
    ExpectShown({"penstock_requests_in_flight 0\n", "penstock_inflight_bytes 0\n",
                 "penstock_queue_rows{model=\"embedder\",lane=\"interactive\"} 0\n"});
  }
  // In /metrics. Threads let go of a request a moment after it was answered.
  void ExpectShown(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      EXPECT_TRUE(Eventually([&] {
        return BodyOf(Ask(server_->port(), Get("/metrics"))).find(line) != std::string::npos;
      })) << line;
    }
  }

  metrics::Metrics metrics_;
  const std::unique_ptr<program::Backend> backend_;
  registry::Registry registry_{backend_.get(), &metrics_};
  std::unique_ptr<api::Service> service_;
  std::unique_ptr<Server> server_;
};

void FailingAllocationTest::FailEveryRoute() {
  const std::string texts = R"(["t2 t3 t4", "t5", "t6 t7"])";
  for (const std::string& request : {
           Post("/v1/embeddings", R"({"model":"embedder","input":)" + texts + "}"),
           Post("/v1/embeddings", R"({"input":[[2,3],[4]],"encoding_format":"base64"})"),
           Post("/embed", R"({"inputs":)" + texts + "}"),
           Post("/v1/embeddings", R"({"output_dtype":"int8","input":)" + texts + "}"),
           Post("/v2/embed", R"({"embedding_types":["float","ubinary"],"texts":)" + texts + "}"),
           Post("/api/embed", R"({"model":"embedder","input":)" + texts + "}"),
           Post("/vertex", R"({"instances":[{"inputs":"t2"},{"inputs":["t3"]}]})"),
           Post("/embed_all", R"({"inputs":)" + texts + "}"),
           Post("/", R"({"inputs":)" + texts + "}"),
           Post("/similarity", R"({"inputs":{"source_sentence":"t2","sentences":["t3","t4"]}})"),
           Post("/rerank", R"({"query":"t2","texts":["t3","t4"],"return_text":true})"),
           Post("/v1/rerank", R"({"query":"t2","documents":["t3","t4"],"return_documents":true})"),
           Post("/predict", R"({"model":"classifier","inputs":[["t3"],["t4"]]})"),
           Post("/v1/classify", R"({"model":"classifier","input":["t3","t4"]})"),
           Post("/tokenize", R"({"inputs":)" + texts + "}"),
           Post("/decode", R"({"ids":[[2,3],[4]]})"),
           Get("/v1/models"),
           Get("/v1/models/embedder"),
           Get("/info"),
           Get("/"),
           Get("/livez"),
           Get("/readyz"),
           Get("/metrics"),
           Get("/v1/stats"),
       }) {
    const int64_t allocations = FailEach(request);
    EXPECT_GT(allocations, 5) << request;
    if (HasFatalFailure() || HasNonfatalFailure()) break;
  }
  ExpectNothingLeft();
}

TEST_F(FailingAllocationTest, EveryRoute) {
  Start();
  FailEveryRoute();
}

TEST_F(FailingAllocationTest, EveryRouteWhereAnExecutorRunsTheModel) {
  Start({}, 0);
  FailEveryRoute();
}

TEST_F(FailingAllocationTest, LargeBodiesAndAnswersOnWorkers) {
  Start();
  std::string ids = "2", padding(300 << 10, ' ');
  for (int i = 0; i < 3000; ++i) ids += ",3";
  FailEach(Post("/embed_all", "{" + padding + R"("inputs":[[)" + ids + "]]}"));
  ExpectNothingLeft();
}

TEST_F(FailingAllocationTest, AnswersInLines) {
  Start({}, 0);
  std::string texts = "\"t2\"";
  for (int i = 0; i < 150; ++i) texts += ",\"t3\"";
  std::string request = Post("/embed", "{\"inputs\":[" + texts + "]}");
  request.insert(request.find("Connection:"), "Accept: application/x-ndjson\r\n");
  EXPECT_GT(FailEach(request), 20);
  ExpectNothingLeft();
}

TEST_F(FailingAllocationTest, RequestsThatAreRefused) {
  Start({}, 0);
  for (const std::string& request : {
           Post("/embed", R"({"inputs":[[2,3],[999999]]})"),
           Post("/v1/embeddings", R"({"model":"embedder","input":["t2"],"dimensions":4000})"),
           Post("/v1/embeddings", R"({"model":"another","input":["t2"]})"),
       }) {
    EXPECT_GT(FailEach(request), 5) << request;
  }
  ExpectNothingLeft();
}

// The second part of a stream fails: what was sent before stays, and the error is its last line.
TEST_F(FailingAllocationTest, LinesThatEndInAnError) {
  Start({}, 0);
  std::string ids = "[2,3]";
  for (int i = 0; i < 150; ++i) ids += i == 100 ? ",[999999]" : ",[2,3]";
  std::string late = Post("/embed", "{\"inputs\":[" + ids + "]}");
  std::string refused = Post("/embed", R"({"inputs":[[999999]]})");
  for (std::string* request : {&late, &refused}) {
    request->insert(request->find("Connection:"), "Accept: application/x-ndjson\r\n");
    EXPECT_GT(FailEach(*request), 5);
  }
  ExpectNothingLeft();
}

TEST_F(FailingAllocationTest, ResultCache) {
  api::ServiceOptions limits;
  limits.result_cache_bytes = 1 << 20;
  Start(limits);
  // Row by row another text, so that there is something to compute each time.
  for (int i = 0; i < 40; ++i) {
    const std::string text = "t" + std::to_string(10 + i);
    FailEach(Post("/embed", R"({"inputs":[")" + text + R"(","t2",")" + text + R"("]})"), 1 + i * 3);
    if (HasNonfatalFailure()) break;
  }
  ExpectNothingLeft();
}

// A decoder of random weights that generates, with a template for chats.
class FailingTextTest : public FailingAllocationTest {
 protected:
  FailingTextTest() : FailingAllocationTest(*cpu::NewCpuBackend({2, false, ""})) {}

  void SetUp() override {
    FailingAllocationTest::SetUp();
    const TempFolder folder;
    std::filesystem::copy(PENSTOCK_GOLDEN_DIR "/decoders/llama", folder.path(),
                          std::filesystem::copy_options::recursive);
    folder.Write("chat_template.jinja",
                 "{% for message in messages %}<|turn|>{{ message.content }}<|end|>{% endfor %}"
                 "{# <think></think><tool_call>\"arguments\" #}");
    registry::ModelSpec spec;
    spec.name = "text";
    spec.reference = folder.text();
    spec.options.decoder.scheduler.sequences_max = 4;
    spec.options.decoder.scheduler.cost = {1e-3, 1e-3, 1e-3, 1e-5, 1e-9};
    ASSERT_TRUE(registry_.Add(spec).ok());
    registry_.StartLoading();
    const Status loaded = registry_.WaitLoaded();
    ASSERT_TRUE(loaded.ok()) << loaded.ToString();
    Serve({});
  }
  void FailEachOf(const std::string& path, const std::string& body) {
    EXPECT_GT(FailEach(Post(path, body)), 20) << path;
    ExpectShown({"penstock_requests_in_flight 0\n", "penstock_inflight_bytes 0\n",
                 "penstock_queue_rows{model=\"text\",lane=\"interactive\"} 0\n",
                 "penstock_generate_running{model=\"text\"} 0\n",
                 "penstock_generate_waiting{model=\"text\"} 0\n",
                 "penstock_kv_blocks_used{model=\"text\"} 0\n"});
  }

  static constexpr const char* kPlain = R"("temperature":0,"max_tokens":5,"ignore_eos":true)";
  static std::string Chat(const std::string& more) {
    return R"({"messages":[{"role":"user","content":"What is it?"}],)" + std::string(kPlain) +
           more + "}";
  }
  static std::string Text(const std::string& prompt, const std::string& more) {
    return "{\"prompt\":" + prompt + R"(,"n":2,)" + std::string(kPlain) + more + "}";
  }
  static constexpr const char* kTools =
      R"(,"logprobs":true,"top_logprobs":2,"tools":[{"type":"function","function":{"name":"f",)"
      R"("parameters":{"type":"object","properties":{"at":{"type":"string"}}}}}])";
};

TEST_F(FailingTextTest, ChatsWhole) { FailEachOf("/v1/chat/completions", Chat(kTools)); }

TEST_F(FailingTextTest, ChatsStreamed) {
  FailEachOf(
      "/v1/chat/completions",
      Chat(kTools + std::string(R"(,"stream":true,"stream_options":{"include_usage":true})")));
}

TEST_F(FailingTextTest, CompletionsWhole) {
  FailEachOf("/v1/completions", Text(R"(["abc","xyz"])", R"(,"echo":true)"));
}

TEST_F(FailingTextTest, CompletionsStreamed) {
  FailEachOf("/v1/completions", Text(R"("abc")", R"(,"logprobs":1,"stream":true)"));
}

TEST_F(FailingTextTest, Ollama) {
  const std::string options = R"("options":{"temperature":0,"num_predict":5,"ignore_eos":true})";
  for (const char* const stream : {"true", "false"}) {
    const std::string more = std::string(",\"stream\":") + stream + "," + options + "}";
    FailEachOf("/api/chat",
               R"({"model":"text","messages":[{"role":"user","content":"What is it?"}])" + more);
    FailEachOf("/api/generate", R"({"model":"text","prompt":"abc","raw":true)" + more);
  }
}

TEST_F(FailingTextTest, Cohere) {
  FailEachOf("/v2/chat", Chat(""));
  FailEachOf("/v2/chat", Chat(R"(,"stream":true)"));
}

TEST_F(FailingTextTest, PromptsScored) {
  for (const char* more :
       {R"(,"echo":true,"logprobs":2)", R"(,"echo":true,"logprobs":2,"stream":true)"}) {
    FailEachOf("/v1/completions", Text(R"("abc")", more));
  }
}

TEST_F(FailingTextTest, TextGenerationInference) {
  const std::string body = R"({"inputs":"abc","parameters":{"max_new_tokens":5,"details":true}})";
  FailEachOf("/generate", body);
  FailEachOf("/generate_stream", body);
  FailEachOf("/apply-template", R"({"messages":[{"role":"user","content":"What?"}]})");
}

// A tensor model that is built in.
class FailingTensorTest : public FailingAllocationTest {
 protected:
  FailingTensorTest() : FailingAllocationTest(*cpu::NewCpuBackend({2, false, ""})) {}

  void SetUp() override {
    FailingAllocationTest::SetUp();
    registry::ModelSpec spec;
    spec.name = "same";
    spec.reference = "builtin:identity?shape=-1";
    ASSERT_TRUE(registry_.Add(spec).ok());
    registry_.StartLoading();
    const Status loaded = registry_.WaitLoaded();
    ASSERT_TRUE(loaded.ok()) << loaded.ToString();
    Serve({});
  }
  void ExpectNothingLeft() { ExpectShown({"penstock_inflight_bytes 0\n"}); }

  // With `floats` as JSON, or behind it.
  static std::string Infer(size_t floats, bool binary) {
    std::string json = R"({"id":"1","inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,)" +
                       std::to_string(floats) + "],";
    if (binary) {
      json += R"("parameters":{"binary_data_size":)" + std::to_string(floats * 4) +
              R"(}}],"parameters":{"binary_data_output":true}})";
      std::string request =
          Post("/v2/models/same/infer", json + std::string(floats * sizeof(float), 'x'));
      request.insert(request.find("Connection:"),
                     "Inference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n");
      return request;
    }
    json += "\"data\":[1";
    for (size_t i = 1; i < floats; ++i) json += ",2";
    return Post("/v2/models/same/infer", json + "]}]}");
  }
};

TEST_F(FailingTensorTest, Inference) {
  for (const bool binary : {false, true}) EXPECT_GT(FailEach(Infer(3, binary)), 10);
  ExpectNothingLeft();
}

TEST_F(FailingTensorTest, AnswersPrintedOnWorkers) {
  EXPECT_GT(FailEach(Infer(6000, false)), 10);
  ExpectNothingLeft();
}

TEST_F(FailingTensorTest, WhatIsToldOfModels) {
  for (const std::string& request :
       {Get("/v2"), Get("/v2/health/ready"), Get("/v2/models/same"), Get("/v2/models/same/ready"),
        Get("/v2/models/same/config"), Get("/v2/models/same/stats"), Get("/v2/models/stats"),
        Post("/v2/repository/index", "{}"), Post("/v2/repository/models/same/load", "{}"),
        Get("/v2/models/nobody"), Get("/v2/logging"), Get("/v2/systemsharedmemory/status"),
        Post("/v2/models/same/infer", R"({"inputs":[{"name":"INPUT0"}]})")}) {
    EXPECT_GT(FailEach(request), 5) << request;
  }
  ExpectNothingLeft();
}

}  // namespace
}  // namespace penstock::server
