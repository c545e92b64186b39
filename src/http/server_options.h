// ServerOptions: addresses, access, limits and timeouts of the HTTP server.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock::http {

// Each is a flag of `penstock serve`.
struct ServerOptions {
  std::string host =
      "127.0.0.1";         // --host: a name or an address; "0.0.0.0", "::" = every interface
  uint16_t port = 8080;    // --port; 0 = any free one, see Server::port()
  int32_t io_threads = 2;  // --io-threads, 1..256

  // --api-key, repeatable; none = no key is required. Guards all but health and readiness.
  std::vector<std::string> api_keys;
  // --bulk-api-key, repeatable: as api_keys; requests with such a key are bulk work.
  std::vector<std::string> bulk_api_keys;
  // --admin-api-key, repeatable: as api_keys; if any is set, resetting statistics and opening and
  // closing bulk runs require one.
  std::vector<std::string> admin_api_keys;
  // --api-key-file, --bulk-api-key-file, --admin-api-key-file, repeatable: one key a line (see
  // ApiKeys::AddFile). Read at start and by Server::Reload.
  std::vector<std::string> api_key_files;
  std::vector<std::string> bulk_api_key_files;
  std::vector<std::string> admin_api_key_files;
  // --admin-metrics: what shows how the server does (/metrics, /v1/stats, /v1/live, /v1/requests)
  // asks for a key of an administrator too.
  bool admin_metrics = false;
  bool shares_caches = false;  // --share-caches
  // Where keys are asked for, each has caches of its own, by a hash with this secret
  // (cache/cache_salt.h). "": all share them.
  std::string cache_secret;
  // --allowed-host, repeatable: see AllowedHosts. None = any host; without keys and on a loopback
  // address, only hosts that no stranger can own.
  std::vector<std::string> allowed_hosts;
  // --bulk-route, repeatable: paths of the route table; their requests are bulk work unless
  // X-Penstock-Priority says otherwise.
  std::vector<std::string> bulk_routes;
  // --cors-allow-origin, repeatable; "*" = any; none = no CORS headers.
  std::vector<std::string> cors_allow_origins;
  // --tls-cert, --tls-key: PEM files, chain first; both or neither.
  std::string tls_cert_file;
  std::string tls_key_file;
  // --tls-client-ca: PEM file of the authorities that sign clients' certificates; "" = clients need
  // none. Every connection must then show one.
  std::string tls_client_ca_file;
  std::string tls_min_version = "1.2";  // --tls-min-version: "1.2" or "1.3"

  int64_t body_bytes_max = 8 << 20;     // --max-body-bytes: else 413
  int32_t header_bytes_max = 16 << 10;  // --max-header-bytes: else 431
  int32_t connections_max = 4096;       // --max-connections: else 503 and closed

  // --request-timeout-ms: the longest time of a request; X-Request-Timeout-Ms can shorten it. 0 =
  // only that header limits it.
  std::chrono::milliseconds request_timeout{0};
  // --idle-timeout-ms: how long a kept-alive connection may be silent.
  std::chrono::milliseconds idle_timeout{75'000};
  // --read-timeout-ms: for the header, and again for the body, each from its first byte to its
  // last.
  std::chrono::milliseconds read_timeout{30'000};
  // --write-timeout-ms: longest time without the client taking any byte of an answer.
  std::chrono::milliseconds write_timeout{30'000};

  // --stream-start-timeout-ms: longest time from the request's first byte to the first part of a
  // streamed answer, else 503. 0 = request_timeout.
  std::chrono::milliseconds stream_start_timeout{0};
  // --max-stream-unread-bytes: bytes a stream buffers for a client that reads slowly. Work for the
  // stream pauses at this bound; a client that needs write_timeout or longer for a piece of a
  // quarter of it is dropped.
  int64_t stream_unread_bytes_max = 512 << 10;

  // --stream-ping-ms: a stream of events that was silent for so long gets a comment, which clients
  // skip; 0 = none.
  std::chrono::milliseconds stream_ping{10'000};

  // --batch-folder: where files and batches are kept; "" = there are none.
  std::string batch_folder;
  uint64_t batch_folder_bytes = 4ull << 30;  // --batch-folder-bytes: of its files

  // --stage-timers: times the stages of every request for /v1/stats, /metrics and the slow log.
  bool stage_timers = true;
  // --metrics-aliases vllm: /metrics and /metrics/router also have vLLM's names.
  bool vllm_metrics = false;
  // --slow-request-ms: requests that take longer are logged at level warn, a few a second at most.
  // 0 = none.
  std::chrono::milliseconds slow_request{1000};

  // --access-log: one line a request at level info; otherwise at level debug.
  bool access_log = false;

  // Whether routes ask for a key.
  bool AsksForKey() const {
    return !api_keys.empty() || !bulk_api_keys.empty() || !api_key_files.empty() ||
           !bulk_api_key_files.empty();
  }
  bool HasAdminKeys() const { return !admin_api_keys.empty() || !admin_api_key_files.empty(); }
};

}  // namespace penstock::http
