#include "data/gunzip.h"

#include <zlib.h>

#include <algorithm>

#include "core/error.h"

namespace sluice::data {

namespace {

constexpr int kGzipWindow = 15 + 16;  // zlib: the largest window, and a gzip header

/// zlib counts in 32 bits, so long inputs and outputs are handed over a piece at a time.
constexpr size_t kPiece = size_t{1} << 20;

struct Inflater : z_stream {
  Inflater() : z_stream{} { require<ResourceError>(inflateInit2(this, kGzipWindow) == Z_OK, "gunzip: no memory to unpack"); }
  ~Inflater() { inflateEnd(this); }
  Inflater(const Inflater&) = delete;
};

struct Unpacked {
  std::string bytes;
  size_t taken = 0;    ///< packed bytes
  bool ended = false;  ///< else `most_bytes` came first
};

void require_more(const std::string& name, std::string_view packed, const Unpacked& result) {
  require<DataError>(result.taken < packed.size(), name, ": the gzip file is cut off at byte ", result.taken, "; get it again");
}

Unpacked unpack(const std::string& name, std::string_view packed, size_t most_bytes) {
  Inflater inflater;
  Unpacked result;
  size_t made = 0;
  while (!result.ended) {
    if (made == result.bytes.size()) result.bytes.resize(std::min(most_bytes, made + std::max(kPiece, made / 2)));
    const size_t in = std::min(kPiece, packed.size() - result.taken), out = std::min(kPiece, result.bytes.size() - made);
    inflater.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + result.taken));
    inflater.next_out = reinterpret_cast<Bytef*>(result.bytes.data() + made);
    inflater.avail_in = static_cast<uInt>(in);
    inflater.avail_out = static_cast<uInt>(out);
    const int status = inflate(&inflater, Z_NO_FLUSH);
    result.taken += in - inflater.avail_in;
    made += out - inflater.avail_out;
    result.ended = status == Z_STREAM_END;
    require<DataError>(result.ended || status == Z_OK || status == Z_BUF_ERROR, name, ": the gzip file is damaged near byte ", result.taken,
                       ": ", inflater.msg ? inflater.msg : "bad data", "; get it again");
    if (status != Z_BUF_ERROR) continue;
    if (made == most_bytes) break;
    require_more(name, packed, result);
  }
  result.bytes.resize(made);
  return result;
}

}  // namespace

std::string gunzip(const std::string& name, std::string_view bytes, size_t most_bytes) {
  Unpacked result = unpack(name, bytes, most_bytes);
  if (!result.ended) require_more(name, bytes, result);
  require<DataError>(result.ended, name, ": unpacks to more than the ", most_bytes, " bytes that it should; is it the right file?");
  require<DataError>(result.taken == bytes.size(), name, ": ", bytes.size() - result.taken, " bytes follow the gzip file's end at byte ",
                     result.taken, "; get it again");
  return std::move(result.bytes);
}

std::string gunzip_start(const std::string& name, std::string_view bytes, size_t count) { return unpack(name, bytes, count).bytes; }

}  // namespace sluice::data
