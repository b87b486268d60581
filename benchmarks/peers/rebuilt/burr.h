/* BuRR for one width of rows: W (bits), ROW (an unsigned type of so many), B (slots a bucket, a
   power of two), N(name). Included by filters.c once a width. */

typedef struct {
    i64 slots;  /* of W each a block */
    u64 starts; /* slots that a row may begin at: whole buckets */
    u64 seed;
    i64 bounds[4]; /* by a bucket's two bits: so many slots from its right end keep their keys */
    u8 *meta;      /* two bits a bucket; none in the last layer, which keeps all */
    ROW *solution; /* by block, then column: bit i of a word is row i of the block */
} N(Layer);

typedef struct {
    i64 bits, layers;
    N(Layer) layer[LAYERS];
} N(Burr);

typedef struct {
    ROW *rows;
    u16 *results;
} N(Band);

static inline u64 N(start)(const N(Layer) * l, u64 h) {
    return (u64)(((unsigned __int128)h * l->starts) >> 64);
}

/* From a hash whose high bits say where: which of the W slots from there, and the fingerprint. */
static inline ROW N(coefficients)(u64 h) {
    u64 x = h * 0xC28F82822B650BEDull;
    x ^= x >> 32;
#if W == 128
    u64 y = (h ^ 0x5851F42D4C957F2Dull) * 0xA24BAED4963EE407ull;
    return (((ROW)(y ^ (y >> 32)) << 64) | x) | 1;
#else
    return x | 1;
#endif
}
static inline u64 N(fingerprint)(u64 h, i64 bits) {
    return (h ^ (h << 21)) * 0x9FB21C651E98DF25ull >> (64 - bits);
}

static inline u64 N(parity)(ROW x) {
#if W == 128
    return (u64)__builtin_parityll((u64)x ^ (u64)(x >> 64));
#else
    return (u64)__builtin_parityll(x);
#endif
}
static inline i64 N(zeros)(ROW x) {
#if W == 128
    return (u64)x ? __builtin_ctzll((u64)x) : 64 + __builtin_ctzll((u64)(x >> 64));
#else
    return __builtin_ctzll(x);
#endif
}

/* Gauss on the fly: the slot that the equation takes, -1 where it says nothing new, -2 where it
   contradicts those that are there. */
static inline i64 N(add)(N(Band) * band, u64 at, ROW row, u64 result) {
    for (;;) {
        ROW there = band->rows[at];
        if (!there) {
            band->rows[at] = row, band->results[at] = (u16)result;
            return (i64)at;
        }
        row ^= there, result ^= band->results[at];
        if (!row) return result ? -2 : -1;
        i64 zeros = N(zeros)(row);
        at += (u64)zeros, row >>= zeros;
    }
}

static void N(substitute)(N(Layer) * l, const N(Band) * band, i64 bits) {
    ROW state[16] = {0};
    l->solution = malloc((size_t)(l->slots / W * bits) * sizeof(ROW));
    for (i64 block = l->slots / W - 1; block >= 0; block--) {
        for (i64 i = W - 1; i >= 0; i--) {
            ROW row = band->rows[block * W + i];
            u64 result = band->results[block * W + i];
            for (i64 j = 0; j < bits; j++) {
                ROW next = state[j] << 1;
                state[j] = next | (N(parity)(next & row) ^ (result >> j & 1));
            }
        }
        memcpy(l->solution + block * bits, state, (size_t)bits * sizeof(ROW));
    }
}

/* Hashes by bucket, and in each from the right to the left: sorted by where they begin. */
static void N(order)(const N(Layer) * l, const u64 *hashes, i64 n, u64 *sorted, i64 *ends) {
    i64 buckets = (i64)(l->starts / B);
    i64 *at = calloc((size_t)buckets + 1, 8);
    u64 *by_bucket = malloc(8 * (size_t)n + 8);
    for (i64 i = 0; i < n; i++) at[N(start)(l, hashes[i]) / B + 1]++;
    for (i64 b = 0; b < buckets; b++) at[b + 1] += at[b];
    for (i64 i = 0; i < n; i++) by_bucket[at[N(start)(l, hashes[i]) / B]++] = hashes[i];
    memcpy(ends, at, 8 * (size_t)buckets);
    for (i64 b = 0; b < buckets; b++) {
        i64 first = b ? ends[b - 1] : 0, within[B + 1] = {0};
        for (i64 i = first; i < ends[b]; i++) within[B - N(start)(l, by_bucket[i]) % B]++;
        for (i64 v = 0; v < B; v++) within[v + 1] += within[v];
        for (i64 i = first; i < ends[b]; i++)
            sorted[first + within[B - 1 - N(start)(l, by_bucket[i]) % B]++] = by_bucket[i];
    }
    free(by_bucket), free(at);
}

/* One layer of fewer slots than keys: those that do not fit are put to `left`; how many. */
static i64 N(bump)(N(Layer) * l, N(Band) * band, const u64 *sorted, const i64 *ends, i64 bits,
                   u64 *left) {
    i64 lost = 0, *taken = malloc(0), room = 0;
    for (i64 b = 0; b < (i64)(l->starts / B); b++) {
        i64 first = b ? ends[b - 1] : 0, group = first, meta = 3, last = 0;
        if (ends[b] - first > room) {
            room = 2 * (ends[b] - first);
            taken = realloc(taken, 8 * (size_t)room);
        }
        i64 i = first;
        for (; i < ends[b]; i++) {
            u64 start = N(start)(l, sorted[i]);
            i64 value = B - 1 - (i64)(start % B);
            i64 now = value >= l->bounds[2] ? 2 : value >= l->bounds[1] ? 1 : 0;
            if (now != last) last = now, group = i;
            taken[i - first] = N(add)(band, start, N(coefficients)(sorted[i]),
                                      N(fingerprint)(sorted[i], bits));
            if (taken[i - first] == -2) {
                meta = now;
                break;
            }
        }
        for (i64 j = group; meta < 3 && j < i; j++)
            if (taken[j - first] >= 0) {
                band->rows[taken[j - first]] = 0;
                band->results[taken[j - first]] = 0;
            }
        for (i64 j = group; meta < 3 && j < ends[b]; j++) left[lost++] = sorted[j];
        l->meta[b / 4] |= (u8)(meta << (b % 4 * 2));
    }
    free(taken);
    return lost;
}

static u64 N(next)(u64 h) { return mix(h ^ 0x6A09E667F3BCC909ull); }

N(Burr) * N(new)(const u64 *keys, i64 n, i64 bits, double load) {
    N(Burr) *f = calloc(1, sizeof *f);
    f->bits = bits;
    u64 *hashes = malloc(8 * (size_t)n + 8), *left = malloc(8 * (size_t)n + 8);
    u64 *sorted = malloc(8 * (size_t)n + 8);
    for (i64 i = 0; i < n; i++) hashes[i] = mix(keys[i]);
    for (f->layers = 0; n > 16 * B && f->layers < LAYERS - 1; f->layers++) {
        N(Layer) *l = &f->layer[f->layers];
        i64 buckets = (i64)((double)n * load / B + 0.5);
        double over = load - 1;
        l->starts = (u64)(buckets * B);
        l->slots = buckets * B + W;
        l->bounds[1] = (i64)((0.78 + 1.30 * over) * B) + 1;
        l->bounds[2] = (i64)((0.91 + 0.75 * over) * B) + 1;
        l->bounds[3] = B;
        l->meta = calloc((size_t)buckets / 4 + 1, 1);
        N(Band) band = {calloc((size_t)l->slots, sizeof(ROW)), calloc((size_t)l->slots, 2)};
        i64 *ends = malloc(8 * (size_t)buckets);
        N(order)(l, hashes, n, sorted, ends);
        n = N(bump)(l, &band, sorted, ends, bits, left);
        N(substitute)(l, &band, bits);
        free(band.rows), free(band.results), free(ends);
        for (i64 i = 0; i < n; i++) hashes[i] = N(next)(left[i]);
    }
    N(Layer) *l = &f->layer[f->layers++]; /* standard Ribbon: more slots, or others, until all fit */
    for (double slots = 1.06 * (double)n + W;; slots *= 1.02, l->seed++) {
        l->slots = ((i64)slots + 2 * W - 1) / W * W;
        l->starts = (u64)(l->slots - W); /* so that a row's second block is there */
        N(Band) band = {calloc((size_t)l->slots, sizeof(ROW)), calloc((size_t)l->slots, 2)};
        i64 i = 0;
        for (; i < n; i++) {
            u64 h = mix(hashes[i] + l->seed);
            if (N(add)(&band, N(start)(l, h), N(coefficients)(h), N(fingerprint)(h, bits)) == -2)
                break;
        }
        if (i == n) N(substitute)(l, &band, bits);
        free(band.rows), free(band.results);
        if (i == n) break;
    }
    free(hashes), free(left), free(sorted);
    return f;
}

void N(free)(N(Burr) * f) {
    for (i64 i = 0; i < f->layers; i++) free(f->layer[i].meta), free(f->layer[i].solution);
    free(f);
}

/* What a file of it would hold: solutions, two bits a bucket, and three numbers a layer. */
i64 N(bytes)(const N(Burr) * f) {
    i64 bytes = 16;
    for (i64 i = 0; i < f->layers; i++) {
        const N(Layer) *l = &f->layer[i];
        bytes += l->slots / 8 * f->bits + 24 + (l->meta ? (i64)(l->starts / B + 3) / 4 : 0);
    }
    return bytes;
}

static inline const N(Layer) * N(layer_of)(const N(Burr) * f, u64 *h) {
    const N(Layer) *l = f->layer;
    for (i64 last = f->layers - 1; last > 0; last--, l++) {
        u64 start = N(start)(l, *h), bucket = start / B;
        i64 meta = l->meta[bucket / 4] >> (bucket % 4 * 2) & 3;
        if (B - 1 - (i64)(start % B) < l->bounds[meta]) return l;
        *h = N(next)(*h);
    }
    *h = mix(*h + l->seed);
    return l;
}

static inline u8 N(found)(const ROW *at, u64 shift, u64 h, i64 bits) {
    ROW row = N(coefficients)(h), here = row << shift, there = shift ? row >> (W - shift) : 0;
    u64 wrong = 0, fingerprint = N(fingerprint)(h, bits);
    for (i64 j = 0; j < bits; j += 8) {
        for (i64 c = j; c < j + 8; c++)
            wrong |= N(parity)((at[c] & here) ^ (at[c + bits] & there)) ^ (fingerprint >> c & 1);
        if (wrong) return 0;
    }
    return 1;
}

void N(ask)(const N(Burr) * f, const u64 *keys, i64 n, u8 *found) {
    enum { AHEAD = 16 };
    const ROW *at[AHEAD];
    u64 hashes[AHEAD], shifts[AHEAD];
    for (i64 i = 0; i < n; i += AHEAD) {
        i64 width = n - i < AHEAD ? n - i : AHEAD;
        for (i64 j = 0; j < width; j++) {
            hashes[j] = mix(keys[i + j]);
            const N(Layer) *l = N(layer_of)(f, &hashes[j]);
            u64 start = N(start)(l, hashes[j]);
            at[j] = l->solution + (i64)(start / W) * f->bits, shifts[j] = start % W;
            for (i64 byte = 0; byte < 2 * f->bits * W / 8; byte += 64)
                __builtin_prefetch((const char *)at[j] + byte);
        }
        if (f->bits == 8)
            for (i64 j = 0; j < width; j++)
                found[i + j] = N(found)(at[j], shifts[j], hashes[j], 8);
        else
            for (i64 j = 0; j < width; j++)
                found[i + j] = N(found)(at[j], shifts[j], hashes[j], 16);
    }
}

#undef W
#undef ROW
#undef B
#undef N
