/* BuRR, bumped Ribbon retrieval, as a filter (Dillinger, Hübschle-Schneider, Sanders, Walzer: SEA
   2022, arXiv 2109.01892), written anew from the paper: a key's fingerprint is the sum, over GF(2),
   of some of the W rows from a slot on. There are fewer slots than keys; what does not fit in a
   bucket goes, from its left end, to the next layer (two bits a bucket say how much), and from the
   last into a standard Ribbon. Fingerprints of 8 or 16 bits. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t i64;
typedef uint64_t u64;
typedef uint16_t u16;
typedef uint8_t u8;

enum { LAYERS = 4 };

static u64 mix(u64 x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

#define W 64
#define ROW u64
#define B 128
#define N(name) burr64_##name
#include "burr.h"

#define W 128
#define ROW unsigned __int128
#define B 512
#define N(name) burr128_##name
#include "burr.h"
