// One HTTP/2 connection, plain or TLS: an Http2Session and its socket. Internal to the connection
// layer.
//
// One read and one write are under way at a time. Nothing is read while the client has too much to
// take (Http2Session::WantsRead); a write that gives nothing to the kernel for write_timeout ends
// the connection. Its streams go to IoThread::http2_handler, or as requests to IoThread::handler
// (http2_requests.h).
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <memory>
#include <string>

#include "http/connection.h"

namespace penstock::http {

// Takes over a socket that was counted in `thread->open_count` and in OnConnections; nothing is
// under way on it, and `read` is what was read of it. Throws std::bad_alloc, and then the socket is
// closed, but not counted out.
template <typename Stream>
std::shared_ptr<Connection> MakeHttp2Connection(Stream stream, std::shared_ptr<IoThread> thread,
                                                std::string remote, std::string read);

extern template std::shared_ptr<Connection> MakeHttp2Connection(boost::asio::ip::tcp::socket,
                                                                std::shared_ptr<IoThread>,
                                                                std::string, std::string);
extern template std::shared_ptr<Connection> MakeHttp2Connection(
    boost::asio::ssl::stream<boost::asio::ip::tcp::socket>, std::shared_ptr<IoThread>, std::string,
    std::string);

}  // namespace penstock::http
