#include "data/token_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

Header header_of(std::string_view image) {
  Header header;
  std::memcpy(&header, image.data(), sizeof header);
  return header;
}

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

void check_image(const std::string& path, std::string_view image) {
  const std::string cure = "; delete it, it is made again from the text";
  require<DataError>(image.size() >= sizeof(Header), path, ": needs a token file, got only ", image.size(), " bytes", cure);
  const Header header = header_of(image);
  require<DataError>(std::memcmp(header.magic, kMagic, 8) == 0, path, ": is not a token file (its first bytes differ)", cure);
  require<DataError>(header.version == kVersion, path, ": needs version ", kVersion, ", got ", header.version, cure);
  const bool sound = equal(header.header_hash, hash_of_header(header)) && (header.width == 2 || header.width == 4) && header.count >= 0;
  require<DataError>(sound, path, ": the header is damaged (checksum)", cure);
  const std::string_view ids = image.substr(sizeof(Header));
  const auto count = static_cast<uint64_t>(header.count);
  require<DataError>(ids.size() % header.width == 0 && ids.size() / header.width == count, path, ": needs ", count, " tokens of ",
                     header.width, " bytes, got ", ids.size(), " bytes", cure);
  require<DataError>(equal(header.ids_hash, hash_of(ids)), path, ": the tokens are damaged (checksum)", cure);
}

/// A read-only mapping of a file that was opened; unmaps itself.
std::shared_ptr<const void> map_file(const std::string& path, int file, size_t size) {
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  require<ResourceError>(address != MAP_FAILED, path, ": cannot map ", size, " bytes: ", std::strerror(errno));
  return {address, [size](const void* mapped) { ::munmap(const_cast<void*>(mapped), size); }};
}

}  // namespace

Tokens::Tokens(std::shared_ptr<const void> owner, std::string_view image) : owner_(std::move(owner)), image_(image) {
  const Header header = header_of(image);
  ids_ = image.data() + sizeof(Header);
  width_ = static_cast<int>(header.width);
  size_ = header.count;
  vocabulary_ = header.vocabulary;
}

Tokens Tokens::of(std::span<const int32_t> ids, int64_t vocabulary) {
  const bool is_short = vocabulary <= kWidestShort;
  auto image = std::make_shared<std::string>(is_short ? packed<uint16_t>(ids, vocabulary) : packed<uint32_t>(ids, vocabulary));
  Header header{{}, kVersion, is_short ? 2u : 4u, static_cast<int64_t>(ids.size()), vocabulary, {}, {}};
  std::memcpy(header.magic, kMagic, sizeof header.magic);
  hash_of(std::string_view(*image).substr(sizeof(Header))).copy(header.ids_hash, sizeof header.ids_hash);
  hash_of_header(header).copy(header.header_hash, sizeof header.header_hash);
  std::memcpy(image->data(), &header, sizeof header);
  return Tokens(image, *image);
}

Tokens Tokens::open(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // does not wait for the writer of a pipe
  require<DataError>(file >= 0, path, ": cannot open the token file: ", std::strerror(errno));
  const std::shared_ptr<const void> closer(nullptr, [file](const void*) { ::close(file); });
  struct stat about {};
  const bool regular = ::fstat(file, &about) == 0 && S_ISREG(about.st_mode);
  require<DataError>(regular, path, ": needs a regular file, not a folder, pipe or device");
  const auto size = static_cast<size_t>(about.st_size);
  require<DataError>(size >= sizeof(Header), path, ": needs a token file, got only ", size, " bytes");
  auto mapping = map_file(path, file, size);
  const std::string_view image(static_cast<const char*>(mapping.get()), size);
  check_image(path, image);
  return Tokens(std::move(mapping), image);
}

void Tokens::save(const std::string& path) const { write_atomically(path, image_); }

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
