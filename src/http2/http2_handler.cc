#include "http2/http2_handler.h"

namespace penstock::http2 {

std::shared_ptr<Http2Receiver> Http2Handler::OnHeaderTooLarge(Http2Request /*request*/,
                                                              std::shared_ptr<Http2Answer> answer) {
  answer->SendHeaders({{":status", "431"}}, true);
  return nullptr;
}

}  // namespace penstock::http2
