// OpenAI's files and batches. Where the server has no folder for them, each answers 404.
//
// Work that touches the disk, or waits for such work, runs on a worker.
#include <algorithm>

#include "batch_api/batch_runner.h"
#include "dialects/shared/answer.h"
#include "dialects/shared/file_sender.h"
#include "dialects/shared/query.h"
#include "dialects/shared/rows.h"
#include "jobs/multipart.h"
#include "json/json_writer.h"

namespace penstock::dialects {
namespace {

using batch_api::BatchRunner;
using serving::About;
using serving::PrintError;
using serving::Route;
using serving::RouteCall;

constexpr int64_t kListMax = 10'000;
constexpr size_t kMetadataMax = 16;  // pairs
constexpr size_t kMetadataBytesMax = 16 << 10;

Status NoFolder() {
  return Status::NotFound("this server has no files and batches; it does with --batch-folder DIR");
}

// Runs `work`, which gets the BatchRunner and gives the body of the answer, on a worker. `bytes`:
// that it reads or writes.
template <typename Work>
void OnWorker(const RouteCall& call, size_t bytes, Work work) {
  BatchRunner* const runner = call.batches;
  if (runner == nullptr) return call.Fail(NoFolder());
  const Status taken = call.service->RunOnWorker(
      call.request->context.priority, std::max(bytes, api::Service::kLongWorkBytes),
      [runner, respond = call.respond, request = call.request, error_body = call.route->error_body,
       work = std::move(work)] {
        http::HttpResponse response;
        try {
          Expected<std::string> body = work(runner);
          if (body.ok()) {
            response.body = *std::move(body);
          } else {
            response = PrintError(error_body, body.status(), request->id);
          }
        } catch (...) {
          response = PrintError(error_body, ExceptionStatus(), request->id);
        }
        respond.Send(std::move(response));
      });
  if (!taken.ok()) call.Fail(taken);
}

void WriteFile(const jobs::StoredFile& file, JsonWriter* json) {
  json->BeginObject().Field("id", file.id).Field("object", "file").Field("bytes", file.bytes);
  json->Field("created_at", file.created_unix_s).Field("filename", file.filename);
  json->Field("purpose", file.purpose).Field("status", "processed").EndObject();
}

std::string PrintFile(const jobs::StoredFile& file) {
  std::string out;
  JsonWriter json(&out);
  WriteFile(file, &json);
  return out;
}

std::string PrintBatch(const jobs::Batch& batch) {
  std::string out;
  JsonWriter json(&out);
  jobs::WriteBatch(batch, &json);
  return out;
}

std::string PrintDeleted(const std::string& id) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Field("id", id).Field("object", "file").Field("deleted", true).EndObject();
  return out;
}

// A page of a list: what is behind the entry `after`, at most `limit`.
template <typename Item, typename Write>
std::string PrintPage(const std::vector<Item>& items, const std::string& after, int64_t limit,
                      Write write) {
  size_t begin = 0;
  if (!after.empty()) {
    while (begin < items.size() && items[begin].id != after) ++begin;
    begin = std::min(begin + 1, items.size());
  }
  const size_t end = begin + std::min(static_cast<size_t>(limit), items.size() - begin);
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Field("object", "list").Key("data").BeginArray();
  for (size_t i = begin; i < end; ++i) write(items[i], &json);
  json.EndArray();
  if (begin < end) json.Field("first_id", items[begin].id).Field("last_id", items[end - 1].id);
  json.Field("has_more", end < items.size()).EndObject();
  return out;
}

// --- Files --------------------------------------------------------------------------------------

// No byte of a form is parsed as JSON.
size_t NoJson(const http::HttpRequest& request, size_t body_bytes) {
  (void)request;
  (void)body_bytes;
  return 0;
}

// A form with "purpose" and "file".
Expected<std::string> AddFile(BatchRunner* runner, const http::HttpRequest& request,
                              const std::string& body) {
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<jobs::FormPart> parts,
                            jobs::ParseForm(request.Header("content-type"), body));
  jobs::StoredFile file;
  file.owner = runner->OwnerOf(request);
  const jobs::FormPart* content = nullptr;
  for (jobs::FormPart& part : parts) {
    if (part.name == "purpose") file.purpose = part.content.substr(0, 64);
    if (part.name == "file") content = &part;
  }
  if (content == nullptr) return Status::InvalidArgument("'file' is missing", "file");
  if (file.purpose != "batch") {
    return Status::InvalidArgument("'purpose' must be \"batch\"", "purpose");
  }
  file.filename = content->filename;
  PENSTOCK_ASSIGN_OR_RETURN(const jobs::StoredFile added,
                            runner->files().Add(std::move(file), content->content));
  return PrintFile(added);
}

void Upload(const RouteCall& call) {
  auto body = std::make_shared<const std::string>(call.TakeBody());
  OnWorker(call, body->size(), [request = call.request, body](BatchRunner* runner) {
    return AddFile(runner, *request, *body);
  });
}

// "?owner=gone": files of keys that are gone, for administrators. kInvalidArgument: another owner,
// or not asked by an administrator.
Expected<bool> AsksForGone(const BatchRunner& runner, const http::HttpRequest& request) {
  const std::string owner = QueryValue(request.target, "owner");
  if (owner.empty()) return false;
  if (owner != "gone") {
    return Status::InvalidArgument("'owner' can be gone: files of keys that are gone", "owner");
  }
  if (runner.IsAdmin(request)) return true;
  return Status::InvalidArgument(
      "files of keys that are gone are for administrators (--admin-api-key)", "owner");
}

void ListFiles(const RouteCall& call) {
  const auto limit = QueryInt(call.request->target, "limit", kListMax, 1, kListMax);
  if (!limit.ok()) return call.Fail(limit.status());
  const std::string order = QueryValue(call.request->target, "order");
  if (!order.empty() && order != "asc" && order != "desc") {
    return call.Fail(Status::InvalidArgument("'order' must be asc or desc", "order"));
  }
  const bool oldest_first = order == "asc";
  OnWorker(call, 0,
           [request = call.request, limit = *limit,
            oldest_first](BatchRunner* runner) -> Expected<std::string> {
             const std::string& target = request->target;
             PENSTOCK_ASSIGN_OR_RETURN(const bool gone, AsksForGone(*runner, *request));
             auto files = gone ? runner->FilesOfGoneKeys()
                               : runner->files().List(runner->OwnerOf(*request),
                                                      QueryValue(target, "purpose"));
             if (oldest_first) std::reverse(files.begin(), files.end());
             return PrintPage(files, QueryValue(target, "after"), limit, WriteFile);
           });
}

void GetFile(const RouteCall& call) {
  OnWorker(call, 0,
           [id = call.PathPart(0),
            request = call.request](BatchRunner* runner) -> Expected<std::string> {
             PENSTOCK_ASSIGN_OR_RETURN(const jobs::StoredFile file,
                                       runner->files().Get(id, runner->OwnerOf(*request)));
             return PrintFile(file);
           });
}

void GetFileContent(const RouteCall& call) {
  BatchRunner* const runner = call.batches;
  if (runner == nullptr) return call.Fail(NoFolder());
  const Status taken = call.service->RunOnWorker(
      call.request->context.priority, api::Service::kLongWorkBytes,
      [call, runner, id = call.PathPart(0)] {
        try {
          const auto file = runner->files().Get(id, runner->OwnerOf(*call.request));
          if (!file.ok()) return call.Fail(file.status());
          SendFile(call, runner->files().PathOf(id), file->bytes, "application/jsonl");
        } catch (...) {
          call.Fail(ExceptionStatus());
        }
      });
  if (!taken.ok()) call.Fail(taken);
}

void DeleteFile(const RouteCall& call) {
  OnWorker(call, 0,
           [id = call.PathPart(0),
            request = call.request](BatchRunner* runner) -> Expected<std::string> {
             PENSTOCK_ASSIGN_OR_RETURN(const bool gone, AsksForGone(*runner, *request));
             std::string owner = gone ? "gone" : runner->OwnerOf(*request);
             if (gone) {
               for (const jobs::StoredFile& file : runner->FilesOfGoneKeys()) {
                 if (file.id == id) owner = file.owner;
               }
             }
             PENSTOCK_RETURN_IF_ERROR(runner->RemoveFile(id, owner));
             return PrintDeleted(id);
           });
}

// --- Batches ------------------------------------------------------------------------------------

Expected<jobs::Batch> ParseBatch(const JsonObject& object) {
  jobs::Batch batch;
  PENSTOCK_ASSIGN_OR_RETURN(batch.input_file_id,
                            object.GetString("input_file_id", api::kNameBytesMax));
  PENSTOCK_ASSIGN_OR_RETURN(batch.endpoint, object.GetString("endpoint", api::kNameBytesMax));
  if (!BatchRunner::Takes(batch.endpoint)) {
    return Status::InvalidArgument(
        "'endpoint' must be /v1/embeddings, /v1/chat/completions, /v1/completions or /v1/responses",
        "endpoint");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::string window, object.GetString("completion_window"));
  if (window != "24h") {
    return Status::InvalidArgument("'completion_window' must be \"24h\"", "completion_window");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto metadata, object.GetStringMapOrEmpty("metadata"));
  if (metadata.empty()) return batch;
  batch.metadata = object.Find("metadata")->Text();
  if (metadata.size() > kMetadataMax || batch.metadata.size() > kMetadataBytesMax) {
    return Status::InvalidArgument("'metadata' may have 16 pairs and 16 KiB", "metadata");
  }
  return batch;
}

void CreateBatch(const RouteCall& call) {
  if (call.batches == nullptr) return call.Fail(NoFolder());
  const auto body = RequestBody::Parse(call.body);
  if (!body.ok()) return call.Fail(body.status());
  auto batch = ParseBatch(body->object());
  if (!batch.ok()) return call.Fail(batch.status());
  OnWorker(call, 0,
           [batch = *std::move(batch),
            request = call.request](BatchRunner* runner) -> Expected<std::string> {
             jobs::Batch owned = batch;
             owned.owner = runner->OwnerOf(*request);
             PENSTOCK_ASSIGN_OR_RETURN(const jobs::Batch added, runner->Submit(std::move(owned)));
             return PrintBatch(added);
           });
}

void ListBatches(const RouteCall& call) {
  const auto limit = QueryInt(call.request->target, "limit", 20, 1, 100);
  if (!limit.ok()) return call.Fail(limit.status());
  OnWorker(call, 0, [request = call.request, limit = *limit](BatchRunner* runner) {
    const auto batches = runner->batches().List(runner->OwnerOf(*request));
    return Expected(
        PrintPage(batches, QueryValue(request->target, "after"), limit, jobs::WriteBatch));
  });
}

// Answers with the batch of the path as `ask` has it.
template <typename Ask>
void AnswerBatch(const RouteCall& call, Ask ask) {
  OnWorker(call, 0,
           [ask, id = call.PathPart(0),
            request = call.request](BatchRunner* runner) -> Expected<std::string> {
             PENSTOCK_ASSIGN_OR_RETURN(const jobs::Batch batch,
                                       ask(runner, id, runner->OwnerOf(*request)));
             return PrintBatch(batch);
           });
}

void GetBatch(const RouteCall& call) {
  AnswerBatch(call, [](BatchRunner* runner, const std::string& id, const std::string& owner) {
    return runner->batches().Get(id, owner);
  });
}

void CancelBatch(const RouteCall& call) {
  AnswerBatch(call, [](BatchRunner* runner, const std::string& id, const std::string& owner) {
    return runner->Cancel(id, owner);
  });
}

constexpr Route kBatchesRoutes[] = {
    {"POST", "/v1/files", kOpenAiErrors, Upload,
     About("Uploads the input of a batch", "FileForm", "File").RequestType("multipart/form-data"),
     frontend::RouteFor::kUsers, NoJson},
    {"GET", "/v1/files", kOpenAiErrors, ListFiles,
     About("The files, the newest first", nullptr, "Files")},
    {"GET", "/v1/files/{id}", kOpenAiErrors, GetFile, About("One file", nullptr, "File")},
    {"DELETE", "/v1/files/{id}", kOpenAiErrors, DeleteFile,
     About("Deletes a file", nullptr, "FileDeleted")},
    {"GET", "/v1/files/{id}/content", kOpenAiErrors, GetFileContent,
     About("The bytes of a file", nullptr, "FileContent").AnswerType("application/jsonl")},
    {"POST", "/v1/batches", kOpenAiErrors, CreateBatch,
     About("Runs the requests of a file, as bulk work", "BatchRequest", "Batch")},
    {"GET", "/v1/batches", kOpenAiErrors, ListBatches,
     About("The batches, the newest first", nullptr, "Batches")},
    {"GET", "/v1/batches/{id}", kOpenAiErrors, GetBatch, About("One batch", nullptr, "Batch")},
    {"POST", "/v1/batches/{id}/cancel", kOpenAiErrors, CancelBatch,
     About("Ends a batch", nullptr, "Batch")},
};

}  // namespace

std::span<const serving::Route> BatchRoutes() { return kBatchesRoutes; }

}  // namespace penstock::dialects
