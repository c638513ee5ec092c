#include "tests/support/sha256.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace moh {

namespace {

using Word = std::uint32_t;

/// The first 32 bits of the fraction of a root of the n-th prime; all in the range fit a long double.
Word root_bits(int n, int root) {
  int prime = 1;
  for (int count = 0; count <= n;) {
    ++prime;
    bool is_prime = true;
    for (int d = 2; d * d <= prime; ++d) is_prime = is_prime && prime % d != 0;
    count += is_prime ? 1 : 0;
  }
  const long double value =
      root == 2 ? std::sqrt(static_cast<long double>(prime)) : std::cbrt(static_cast<long double>(prime));
  return static_cast<Word>((value - std::floor(value)) * 4294967296.0L);
}

std::array<Word, 64> round_constants() {
  std::array<Word, 64> k;
  for (int i = 0; i < 64; ++i) k[static_cast<std::size_t>(i)] = root_bits(i, 3);
  return k;
}

void add_block(std::array<Word, 8>& hash, const std::uint8_t* block) {
  static const std::array<Word, 64> k = round_constants();
  std::array<Word, 64> w;
  for (std::size_t t = 0; t < 16; ++t) {
    w[t] = Word{block[4 * t]} << 24 | Word{block[4 * t + 1]} << 16 | Word{block[4 * t + 2]} << 8 |
           block[4 * t + 3];
  }
  for (std::size_t t = 16; t < 64; ++t) {
    const Word a = w[t - 15], b = w[t - 2];
    const Word s0 = std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3);
    const Word s1 = std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto v = hash;
  for (std::size_t t = 0; t < 64; ++t) {
    const Word s1 = std::rotr(v[4], 6) ^ std::rotr(v[4], 11) ^ std::rotr(v[4], 25);
    const Word s0 = std::rotr(v[0], 2) ^ std::rotr(v[0], 13) ^ std::rotr(v[0], 22);
    const Word t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[t] + w[t];
    const Word t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
    v = {t1 + t2, v[0], v[1], v[2], v[3] + t1, v[4], v[5], v[6]};
  }
  for (std::size_t i = 0; i < 8; ++i) hash[i] += v[i];
}

}  // namespace

std::string sha256_hex(std::span<const std::byte> bytes) {
  std::vector<std::uint8_t> padded(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) padded[i] = std::to_integer<std::uint8_t>(bytes[i]);
  padded.push_back(0x80);
  while (padded.size() % 64 != 56) padded.push_back(0);
  for (int i = 7; i >= 0; --i)
    padded.push_back(static_cast<std::uint8_t>(8 * std::uint64_t{bytes.size()} >> (8 * i)));

  std::array<Word, 8> hash;
  for (int i = 0; i < 8; ++i) hash[static_cast<std::size_t>(i)] = root_bits(i, 2);
  for (std::size_t at = 0; at < padded.size(); at += 64) add_block(hash, padded.data() + at);

  std::string hex;
  for (const Word word : hash) {
    for (int shift = 28; shift >= 0; shift -= 4) hex += "0123456789abcdef"[word >> shift & 15];
  }
  return hex;
}

}  // namespace moh
