// Requests of HTTP over HTTP/2: takes the streams of a connection to the thread's HttpHandler, with
// the same checks, limits, times and answers as HTTP/1.1 (connection.cc). Internal to the
// connection layer.
//
//   kBody -> kWaiting -> kSending             the answer is on its way whole
//                    \-> kStreaming -> kSending    it is sent as it is made (stream.h)
#pragma once

#include <memory>

#include "http/io_thread.h"
#include "http2/http2_handler.h"

namespace penstock::http {

// For connections of `thread`, which has a handler.
std::unique_ptr<http2::Http2Handler> MakeHttp2Requests(std::shared_ptr<IoThread> thread);

}  // namespace penstock::http
