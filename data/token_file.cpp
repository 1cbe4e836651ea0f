#include "data/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/file/file.h"
#include "data/content_hash.h"

namespace sluice::data {

namespace fs = std::filesystem;

namespace {

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t width;
  int64_t count;
  int64_t vocabulary;
  char ids_hash[32];
  char header_hash[32];  ///< of the fields before it
};
static_assert(sizeof(Header) == 96);

constexpr char kMagic[9] = "SluiceTk";
constexpr uint32_t kVersion = 1;
constexpr int64_t kWidestShort = 65536;

std::string hash_of_header(const Header& header) { return Hash().add(&header, offsetof(Header, header_hash)).text(); }

bool equal(const char (&stored)[32], const std::string& hash) { return std::string_view(stored, 32) == hash; }

template <class T>
std::string packed(std::span<const int32_t> ids, int64_t vocabulary) {
  std::string bytes(sizeof(Header) + ids.size() * sizeof(T), '\0');
  char* out = bytes.data() + sizeof(Header);
  for (const int32_t id : ids) {
    require(id >= 0 && id < vocabulary, "tokens: needs ids 0..", vocabulary - 1, ", got ", id);
    const T narrow = static_cast<T>(id);
    std::memcpy(out, &narrow, sizeof narrow);
    out += sizeof narrow;
  }
  return bytes;
}

/// A file that is read where its bytes are wanted, and not mapped: what is cut off a mapped one ends the process by a signal.
class OpenTokenFile {
 public:
  explicit OpenTokenFile(const std::string& path) : path_(path), descriptor_(::open(path.c_str(), kToRead)) {
    require<DataError>(descriptor_ >= 0, path, ": cannot open the token file: ", std::strerror(errno));
    struct stat about {};
    const bool is_regular = ::fstat(descriptor_, &about) == 0 && S_ISREG(about.st_mode);
    if (!is_regular) ::close(descriptor_);
    require<DataError>(is_regular, path, ": needs a regular file, not a folder, pipe or device");
    bytes_ = about.st_size;
  }
  ~OpenTokenFile() { ::close(descriptor_); }
  OpenTokenFile(const OpenTokenFile&) = delete;
  OpenTokenFile& operator=(const OpenTokenFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t bytes() const { return bytes_; }

  void read(int64_t offset, void* into, size_t bytes) const {
    for (auto* rest = static_cast<char*>(into); bytes > 0;) {
      const ssize_t came = ::pread(descriptor_, rest, bytes, offset);
      if (came < 0 && errno == EINTR) continue;
      require<DataError>(came >= 0, path_, ": cannot read the token file: ", std::strerror(errno));
      require<DataError>(came > 0, path_, ": had ", bytes_, " bytes when it was opened, and has ", ::lseek(descriptor_, 0, SEEK_END),
                         " now; start again, it is made again from the text");
      rest += came;
      offset += came;
      bytes -= static_cast<size_t>(came);
    }
  }

 private:
  static constexpr int kToRead = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // does not wait for the writer of a pipe

  std::string path_;
  int descriptor_;
  int64_t bytes_ = 0;
};

constexpr int64_t kBlock = 1 << 20;

void check_file(const OpenTokenFile& file) {
  const std::string& path = file.path();
  const std::string cure = "; delete it, it is made again from the text";
  require<DataError>(file.bytes() >= int64_t{sizeof(Header)}, path, ": needs a token file, got only ", file.bytes(), " bytes", cure);
  Header header;
  file.read(0, &header, sizeof header);
  require<DataError>(std::memcmp(header.magic, kMagic, 8) == 0, path, ": is not a token file (its first bytes differ)", cure);
  require<DataError>(header.version == kVersion, path, ": needs version ", kVersion, ", got ", header.version, cure);
  const bool sound = equal(header.header_hash, hash_of_header(header)) && (header.width == 2 || header.width == 4) && header.count >= 0;
  require<DataError>(sound, path, ": the header is damaged (checksum)", cure);
  const int64_t bytes = file.bytes() - int64_t{sizeof(Header)};
  require<DataError>(bytes % header.width == 0 && bytes / header.width == header.count, path, ": needs ", header.count, " tokens of ",
                     header.width, " bytes, got ", bytes, " bytes", cure);
  Hash ids;
  std::string block;
  for (int64_t done = 0; done < bytes; done += kBlock) {
    block.resize(static_cast<size_t>(std::min(kBlock, bytes - done)));
    file.read(int64_t{sizeof(Header)} + done, block.data(), block.size());
    ids.add(block.data(), block.size());
  }
  require<DataError>(equal(header.ids_hash, ids.text()), path, ": the tokens are damaged (checksum)", cure);
}

}  // namespace

Tokens::Tokens(ReadAt read_at) : read_at_(std::move(read_at)) {
  Header header;
  read_at_(0, &header, sizeof header);
  width_ = header.width;
  size_ = header.count;
  vocabulary_ = header.vocabulary;
}

Tokens Tokens::of(std::span<const int32_t> ids, int64_t vocabulary) {
  const bool is_short = vocabulary <= kWidestShort;
  std::string image = is_short ? packed<uint16_t>(ids, vocabulary) : packed<uint32_t>(ids, vocabulary);
  Header header{{}, kVersion, is_short ? 2u : 4u, static_cast<int64_t>(ids.size()), vocabulary, {}, {}};
  std::memcpy(header.magic, kMagic, sizeof header.magic);
  hash_of(std::string_view(image).substr(sizeof(Header))).copy(header.ids_hash, sizeof header.ids_hash);
  hash_of_header(header).copy(header.header_hash, sizeof header.header_hash);
  std::memcpy(image.data(), &header, sizeof header);
  const auto shared = std::make_shared<const std::string>(std::move(image));
  return Tokens([shared](int64_t offset, void* into, size_t bytes) { std::memcpy(into, shared->data() + offset, bytes); });
}

Tokens Tokens::open(const std::string& path) {
  const auto file = std::make_shared<const OpenTokenFile>(path);
  check_file(*file);
  return Tokens([file](int64_t offset, void* into, size_t bytes) { file->read(offset, into, bytes); });
}

void Tokens::read(int64_t first, std::span<int32_t> ids) const {
  require(first >= 0 && static_cast<int64_t>(ids.size()) <= size_ - first, "tokens: needs a run within ", size_, " tokens, got ",
          ids.size(), " from ", first, " on");
  if (ids.empty()) return;
  // The narrow ids are at the end of the room for the wide ones, which are written from its beginning on and never reach an unread one.
  const size_t width = width_;
  char* const narrow = reinterpret_cast<char*>(ids.data() + ids.size()) - ids.size() * width;
  read_at_(int64_t{sizeof(Header)} + first * static_cast<int64_t>(width), narrow, ids.size() * width);
  for (size_t i = 0; i < ids.size() && width == sizeof(uint16_t); ++i) {
    uint16_t id;
    std::memcpy(&id, narrow + i * width, sizeof id);
    ids[i] = id;
  }
}

std::vector<int32_t> Tokens::run(int64_t begin, int64_t end) const {
  std::vector<int32_t> ids(static_cast<size_t>(std::max<int64_t>(0, end - begin)));
  read(begin, ids);
  return ids;
}

void Tokens::save(const std::string& path) const {
  write_atomically(path, [&](const fs::path& temporary) {
    FileWriter file(temporary);
    std::string block;
    const int64_t bytes = int64_t{sizeof(Header)} + size_ * static_cast<int64_t>(width_);
    for (int64_t done = 0; done < bytes; done += kBlock) {
      block.resize(static_cast<size_t>(std::min(kBlock, bytes - done)));
      read_at_(done, block.data(), block.size());
      file.write(block.data(), block.size());
    }
    file.finish();
  });
}

namespace {

/// What makes an empty line behind a text.
std::string separator_behind(const TextFile& text) { return text.text.ends_with('\n') ? "\n" : "\n\n"; }

Tokens encoded(const std::vector<TextFile>& texts, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  const auto add = [&](const std::string& text) {
    const auto more = tokenizer.encode(text);
    ids.insert(ids.end(), more.begin(), more.end());
  };
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) add(separator_behind(texts[i - 1]));
    add(texts[i].text);
  }
  return Tokens::of(ids, tokenizer.vocabulary());
}

}  // namespace

Tokens tokenize(const std::vector<TextFile>& texts, const Tokenizer& tokenizer, const std::string& cache_folder) {
  if (cache_folder.empty()) return encoded(texts, tokenizer);
  ContentHash hash;
  hash.add(tokenizer.serialized());
  for (const auto& text : texts) hash.add(text.text).add(separator_behind(text));
  const fs::path path = fs::path(cache_folder) / (hash.text() + ".tokens");
  try {
    if (fs::exists(path)) return Tokens::open(path);
  } catch (const DataError&) {
    // A damaged copy of what can be made again is no reason to stop.
  }
  encoded(texts, tokenizer).save(path);
  return Tokens::open(path);
}

}  // namespace sluice::data
