/* Penstock as a library: models in the process that loads it, without a server.
 *
 * C, so that any language can call it. A penstock_models holds models; a penstock_call is one request to
 * them. Handles may be used by any thread. Functions throw nothing, keep no state outside of their
 * handles but the log and whether models are downloaded, and return at once unless their comment says
 * that they wait. NULL where something is asked for is an error, not the end of the process.
 *
 * A guest in its process: the library installs no signal handler, sets no locale and no limit of the
 * process, and writes nothing to stderr unless `log-level` is set, for the whole process; so is
 * auto-pull. A process may end with models open. A file of a model must not be
 * truncated while it is open: as with any mapped file, that ends the process.
 *
 * Threads do not survive fork(). In the child every function but penstock_close, penstock_free and
 * penstock_error_free refuses a handle of the parent at once ("opened before fork").
 *
 *   penstock_error* error = NULL;
 *   penstock_models* models = penstock_open("{\"model\": \"./all-MiniLM-L6-v2\"}", &error);
 *   int64_t offsets[] = {0, 5, 12};
 *   penstock_texts texts = {"hellogoodbye", offsets, 2, 64};
 *   penstock_call* call = penstock_embed(models, &texts, NULL);
 *   penstock_view view;
 *   if (penstock_wait(call, -1) == PENSTOCK_ENDED && penstock_result(call, &view) == PENSTOCK_ENDED)
 *     use((const float*)view.data, view.rows, view.columns);
 *   penstock_free(call);
 *   penstock_close(models);
 */
#ifndef PENSTOCK_H
#define PENSTOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Functions are only ever added to version 1; a change that breaks callers raises it. */
#define PENSTOCK_ABI 1

typedef struct penstock_models penstock_models;
typedef struct penstock_call penstock_call;
typedef struct penstock_error penstock_error;

/* The states of a call. */
enum {
  PENSTOCK_ENDED = 0,   /* the result is whole, and it is no error */
  PENSTOCK_RUNNING = 1, /* nothing to take yet */
  PENSTOCK_PART = 2,    /* a part of a streamed answer can be taken */
  PENSTOCK_FAILED = -1  /* penstock_call_error says why */
};

/* Texts in UTF-8, end to end: text i is bytes[offsets[i]] to bytes[offsets[i + 1]]. The layout of an
 * Arrow column of strings. Read before the function returns; not kept. */
typedef struct penstock_texts {
  const char* bytes;
  const void* offsets; /* count + 1 numbers that do not fall */
  int64_t count;
  int32_t offset_bits; /* of each: 32 or 64 */
} penstock_texts;

/* A result; what it points at lies in memory of the call until that is freed, or its next part is
 * taken. The caller may write to the rows of embeddings. */
typedef struct penstock_view {
  const void* data; /* embeddings: float32 [rows, columns]; else the answer's body */
  int64_t bytes;
  int64_t rows, columns;    /* of embeddings */
  int32_t status;           /* of an answer, as HTTP numbers it: 200; 0 for embeddings */
  const char* content_type; /* of an answer: "application/json"; else NULL */
  const char* headers;      /* its further headers, lines "Retry-After: 1"; else NULL */
  const char*
      info; /* of embeddings, JSON: {"model", "prompt_tokens", "truncated": {...}}; else NULL */
} penstock_view;

/* PENSTOCK_ABI of the library; "0.1.0" of the library. */
uint32_t penstock_abi(void);
const char* penstock_version(void);

/* Makes models known. `options` is a JSON object whose keys are names of flags of `penstock serve`
 * without "--" ("model", "dtype", "threads", "keep-alive"); values are strings, numbers, booleans, or
 * arrays for flags that may be given again. A model is loaded by its first call, or by POST
 * /v1/models/load. NULL: *error, if not NULL, says why; free it. */
penstock_models* penstock_open(const char* options, penstock_error** error);
/* Cancels the calls under way, and waits until they have ended; their handles stay valid. */
void penstock_close(penstock_models* models);

/* Embeds texts. `request` is a JSON object with any of model, dimensions, normalize, prompt,
 * prompt_name, input_type ("query" or "document"), truncate, truncation_direction,
 * add_special_tokens, priority ("interactive" or "bulk"); NULL: none. 2^20 texts at most. Never
 * NULL, unless memory has run out: failures are those of the call. */
penstock_call* penstock_embed(penstock_models* models, const penstock_texts* texts,
                              const char* request);
/* Asks a route of the server (docs/API.md), without a server: "POST", "/v1/rerank". `headers` are
 * lines "Name: value" as HTTP has them, or NULL. The answer is read by penstock_result as a
 * whole, or part by part where the route streams. As penstock_embed. */
penstock_call* penstock_request(penstock_models* models, const char* method, const char* path,
                                const char* headers, const void* body, size_t bytes);

/* Waits until the call has something to take, at most timeout_ms (-1: for ever); its state. */
int penstock_wait(penstock_call* call, int64_t timeout_ms);
/* Takes the result, or the next part of a streamed answer; its state. PENSTOCK_PART: *view is a part
 * and more follow. PENSTOCK_ENDED: *view is the result, or what was left of it. Waits for nothing:
 * PENSTOCK_RUNNING leaves *view alone. One thread at a time. */
int penstock_result(penstock_call* call, penstock_view* view);
/* Asks the call to end early; it fails with "cancelled" unless it has ended already. */
void penstock_cancel(penstock_call* call);
/* Cancels the call if it runs. Results of it are gone. NULL is allowed. */
void penstock_free(penstock_call* call);
/* Why the call failed, until it is freed; NULL: it did not. */
const penstock_error* penstock_call_error(const penstock_call* call);

/* For event loops: a descriptor that is readable while penstock_next has a call to give. It belongs
 * to `models`. -1: it could not be made. Calls made before the first use of it are not told. */
int penstock_event_fd(penstock_models* models);
/* The next call that has something to take; NULL: none has. Each is given again whenever there is
 * more to take. */
penstock_call* penstock_next(penstock_models* models);

/* "invalid_argument", "not_found", "unavailable", "resource_exhausted", "cancelled", ... */
const char* penstock_error_code(const penstock_error* error);
const char* penstock_error_message(const penstock_error* error);
/* The option or field at fault, or "". */
const char* penstock_error_field(const penstock_error* error);
/* Seconds to wait before the same is tried again; 0: not said. */
int penstock_error_retry_after(const penstock_error* error);
/* Of penstock_open alone. NULL is allowed. */
void penstock_error_free(penstock_error* error);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
