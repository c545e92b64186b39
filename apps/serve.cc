// penstock serve: models behind HTTP and gRPC.
//
// The main thread waits for the end of loading and for signals; everything else happens on threads
// of the server, the service and the schedulers.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "access_flags.h"
#include "cache/cache_salt.h"
#include "cli/command_line.h"
#include "commands.h"
#include "default_models.h"
#include "grpc/grpc_server.h"
#include "log/log.h"
#include "log/log_writer.h"
#include "model_flags.h"
#include "os/memory.h"
#include "serve_flags.h"
#include "serve_report.h"
#include "server/server.h"
#include "service_manager.h"
#include "signals.h"

namespace penstock::cli {
namespace {

void WarnOfRunStages(const ServeFlags& flags) {
  if (flags.model.limits.run_stages == encode::RunStages::kAll) return;
  LogWarn("--run-stages: only a part of each request is worked on; answers are worthless");
}

// What clients reach the models through.
struct FrontEnds {
  std::unique_ptr<server::Server> http;
  std::unique_ptr<grpc::GrpcServer> grpc;  // null: not asked for

  // Both get the whole time. False: a batch did not end in it.
  bool Shutdown(std::chrono::milliseconds timeout) {
    std::thread other;
    if (grpc != nullptr) other = std::thread([&] { grpc->Shutdown(timeout); });
    const bool ended = http->Shutdown(timeout);
    if (other.joinable()) other.join();
    return ended;
  }
};

void Reload(FrontEnds* servers) {
  LogInfo("SIGHUP: reading the files of keys and certificate again");
  const bool http = servers->http->Reload().ok();
  const bool grpc = servers->grpc == nullptr || servers->grpc->Reload().ok();
  if (http && grpc) LogInfo("reloaded");
}

// Servers that share a Redis find each other's entries of the same key there, so they have one
// secret: that of the entries. Where it has none, whoever reads it can only test guesses of keys.
std::string CacheSecretFor(const ServeFlags& flags, const api::ServiceOptions& service) {
  if (flags.server.shares_caches) return "";
  if (!service.redis) return cache::NewCacheSecret();
  return "penstock caches" + service.redis_secret;
}

Expected<FrontEnds> StartFrontEnds(ServeFlags* given, runtime::LocalModels* models) {
  given->server.cache_secret = CacheSecretFor(*given, models->service->options());
  const ServeFlags& flags = *given;
  FrontEnds servers;
  // A client that sees the server ready finds all of it.
  models->service->HoldReadiness(true);
  PENSTOCK_ASSIGN_OR_RETURN(
      servers.http, server::Server::Start(models->service.get(), &models->metrics, flags.server));
  if (flags.grpc.port) {
    PENSTOCK_ASSIGN_OR_RETURN(
        servers.grpc,
        grpc::GrpcServer::Start(models->service.get(), &models->metrics, flags.server, flags.grpc,
                                servers.http->keys(), servers.http->slow_log(),
                                servers.http->all_connections()));
  }
  models->service->HoldReadiness(false);
  return servers;
}

// Waits for the end of loading, and ends the process on a signal before.
Status WaitLoaded(registry::Registry* registry, FrontEnds* servers, const Signals& signals) {
  const int done = eventfd(0, EFD_CLOEXEC);
  PENSTOCK_CHECK(done >= 0);
  Status loaded;
  std::thread waiter([&] {
    loaded = registry->WaitLoaded();
    const uint64_t one = 1;
    (void)!write(done, &one, sizeof one);
  });
  for (;;) {
    pollfd fds[2] = {{signals.fd(), POLLIN, 0}, {done, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[0].revents == 0) break;
    const int number = signals.Wait();
    if (number == SIGHUP) {
      Reload(servers);
      continue;
    }
    std::fprintf(stderr, "penstock serve: stopped before the models were loaded\n");
    // Loading cannot be interrupted, and nothing is lost with it.
    FlushLog();
    _exit(128 + number);
  }
  waiter.join();
  close(done);
  return loaded;
}

// For models to stop, where requests took all of the time.
constexpr std::chrono::milliseconds kStopTime{500};

void ShutDown(FrontEnds* servers, runtime::LocalModels* local, const Signals& signals,
              const ServeFlags& flags) {
  TellServiceManager("STOPPING=1");
  // A second signal ends the process at once.
  std::thread([fd = signals.fd()] {
    signalfd_siginfo info{};
    while (read(fd, &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == SIGHUP) continue;
      FlushLog();
      _exit(128 + static_cast<int>(info.ssi_signo));
    }
  }).detach();
  local->service->AnnounceStop();
  servers->http->AnnounceShutdown();
  if (flags.shutdown_delay_s > 0) {
    LogInfo("going to shut down; requests are taken for {} s more", flags.shutdown_delay_s);
    std::this_thread::sleep_for(std::chrono::seconds(flags.shutdown_delay_s));
  }
  LogInfo("shutting down; requests in flight have {} s to finish", flags.shutdown_timeout_s);
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::milliseconds timeout{flags.shutdown_timeout_s * 1000};
  if (!servers->Shutdown(timeout)) {
    LogWarn("a request of a batch was not ended in time; it is run again after a restart");
    FlushLog();
    // Its thread uses what destructors would take away. The batch's files are whole at any time.
    _exit(kExitFailure);
  }
  local->service->StopAccepting();
  const auto used = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  if (!local->service->Drain(std::max(timeout - used, std::chrono::milliseconds(1000)))) {
    LogWarn("some requests were not finished in time");
    FlushLog();
    // Destructors would wait for them.
    _exit(kExitFailure);
  }
  // A load goes on to its end, however long it takes; nothing waits for it, and nothing is lost.
  std::promise<void> stopped;
  std::thread stop([&] {
    local->registry->Stop();
    stopped.set_value();
  });
  const auto end = std::max(start + timeout, std::chrono::steady_clock::now() + kStopTime);
  if (stopped.get_future().wait_until(end) != std::future_status::ready) {
    LogInfo("stopped while a model was being loaded");
    FlushLog();
    _exit(kExitOk);
  }
  stop.join();
  LogInfo("stopped");
  FlushLog();
}

}  // namespace

int RunServe(const std::vector<std::string>& args) {
  CommandLine line(
      "serve", "Serve models over HTTP and gRPC.",
      "  penstock serve --model sentence-transformers/all-MiniLM-L6-v2\n"
      "  penstock serve --model ./embedder --model rank=./reranker --port 9000\n"
      "  penstock serve --model ./embedder --host 0.0.0.0 --api-key-file /run/secrets/keys\n"
      "  penstock serve --repository /srv/models\n"
      "  penstock serve --config /etc/penstock.toml\n");
  ServeFlags flags;
  AddServeFlags(&line, &flags);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  const Signals signals;  // before any thread
  if (const Status log = ApplyLogFlags(flags.model); !log.ok()) {
    return line.FailUsage("--log-level: " + log.message());
  }
  ReturnLargeBlocks();
  if (const Status fit = CheckServeFlags(flags); !fit.ok()) return line.FailUsage(fit.message());
  TakeNumbers(line.flags(), &flags);
  WarnOfRunStages(flags);

  FitConnections(&flags.server);
  flags.model.on_demand = true;
  flags.model.pull_by_request = flags.allow_pull || flags.server.HasAdminKeys();
  TakeServedDefaults(&flags.model, [&signals] { return !signals.IsPending(); });
  StartLogWriter();
  auto local = runtime::LocalModels::Start(flags.model);
  if (!local.ok()) {
    FlushLog();  // before what is printed beside the log
    return local.status().field().empty() ? line.Fail(local.status())
                                          : line.FailUsage(local.status().message());
  }
  runtime::LocalModels& models = **local;
  if (flags.accept_any_model) models.registry->AcceptAnyName();
  auto servers = StartFrontEnds(&flags, &models);
  if (!servers.ok()) {
    // Models may be loading still; their destructors would wait for that.
    std::fflush(nullptr);
    FlushLog();
    _exit(line.Fail(servers.status()));
  }
  WarnIfOpen(flags.server);
  const Status loaded = WaitLoaded(models.registry.get(), &*servers, signals);
  if (!loaded.ok()) {
    servers->Shutdown(std::chrono::milliseconds(0));
    models.service->StopAccepting();
    // Work of requests may use the front ends.
    const bool drained = models.service->Drain(std::chrono::seconds(1));
    FlushLog();
    if (!drained) _exit(line.Fail(loaded));
    return line.Fail(loaded);
  }
  if (flags.accept_any_model) WarnOfSharedTasks(models.service->Models());
  PrintReady(flags, *servers->http, servers->grpc.get(), *models.service);
  TellServiceManager("READY=1");
  while (signals.Wait() == SIGHUP) Reload(&*servers);
  ShutDown(&*servers, &models, signals, flags);
  return kExitOk;
}

}  // namespace penstock::cli
