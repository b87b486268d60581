/* Sketches of papers whose authors publish no package, written anew from what the papers and their
   experiments describe. Doubles and 64-bit hashes in, whole arrays at once; see __init__.py. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t i64;
typedef uint64_t u64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;

static u64 mix(u64 x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

static u64 drawn(u64 *state) { return mix(++*state); }
static double uniform(u64 *state) { return (double)(drawn(state) >> 11) * 0x1p-53; }

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sort_doubles(double *a, i64 n) { qsort(a, (size_t)n, sizeof *a, by_value); }

/* ---- SplineSketch (arXiv 2504.01206): k boundaries with counts, between which the number of values
   is read from monotone cubic splines. A full buffer is merged in; buckets whose error is estimated
   high, or whose count is, are halved, and neighbours with low errors are joined in their place.
   Two sketches are merged at the boundaries of both, where each says by its spline how many values
   it has, and neighbours are joined until k are left. */

typedef struct {
    i64 k, held, filled, room, n, epoch_end; /* held: boundaries, k but while two are merged */
    int ready;
    double factor, tiny;
    double *at, *was, *next, *buffer, *error, *joined;
    i64 *count, *sums;
    u8 *kept, *next_kept, *split, *join;
    i64 *order, *worst;
} Spline;

static const double *sort_by;
static int ascending(const void *a, const void *b) {
    double x = sort_by[*(const i64 *)a], y = sort_by[*(const i64 *)b];
    return (x > y) - (x < y);
}
static int descending(const void *a, const void *b) { return -ascending(a, b); }

Spline *spline_new(i64 k) {
    Spline *s = calloc(1, sizeof *s);
    s->k = s->held = k;
    s->room = 5 * k;
    s->epoch_end = 2 * s->room;
    s->factor = 3;
    s->tiny = INFINITY;
    s->buffer = malloc(8 * (size_t)s->room);
    size_t both = 2 * (size_t)k;
    double **columns[] = {&s->at, &s->was, &s->next, &s->error, &s->joined};
    for (int i = 0; i < 5; i++) *columns[i] = calloc(both, 8);
    s->count = calloc(both, 8), s->sums = calloc(both, 8);
    s->order = calloc(both, 8), s->worst = calloc(both, 8);
    u8 **flags[] = {&s->kept, &s->next_kept, &s->split, &s->join};
    for (int i = 0; i < 4; i++) *flags[i] = calloc(both + 1, 1);
    return s;
}

void spline_free(Spline *s) {
    void *all[] = {s->buffer, s->at, s->was, s->next, s->error, s->joined, s->count, s->sums,
                   s->order, s->worst, s->kept, s->next_kept, s->split, s->join, s};
    for (int i = 0; i < 15; i++) free(all[i]);
}

static double slope(double h0, double h1, double m0, double m1) {
    if (m0 <= 0 || m1 <= 0) return 0;
    double w0 = 2 * h1 + h0, w1 = h1 + 2 * h0;
    return (w0 + w1) / (w0 / m0 + w1 / m1);
}

/* Values up to x, which lies in bucket i (between at[i - 1] and at[i]). */
static double inside(const double *at, const i64 *sums, i64 k, i64 i, double x) {
    double left = i > 1 ? at[i - 2] : at[0] - 1, right = i < k - 1 ? at[i + 1] : at[k - 1] + 1;
    double y0 = i > 1 ? (double)sums[i - 2] : 0;
    double y1 = (double)sums[i - 1], y2 = (double)sums[i];
    double y3 = i < k - 1 ? (double)sums[i + 1] : y2;
    double h = at[i] - at[i - 1], h0 = at[i - 1] - left, h2 = right - at[i];
    double m = (y2 - y1) / h;
    double d1 = slope(h0, h, (y1 - y0) / h0, m), d2 = slope(h, h2, m, (y3 - y2) / h2);
    double t = (x - at[i - 1]) / h, u = 1 - t;
    return y1 * (1 + 2 * t) * u * u + d1 * h * t * u * u + y2 * t * t * (3 - 2 * t)
           - d2 * h * t * t * u;
}

static void take_in(Spline *s) {
    i64 bucket = 0;
    for (i64 i = 0; i < s->filled; i++) {
        while (bucket < s->k && s->at[bucket] < s->buffer[i]) bucket++;
        if (bucket == s->k) return;
        s->count[bucket]++;
    }
}

static int apart(const Spline *s, double a, double b) {
    double scale = fmax(fmax(fabs(a), fabs(b)), s->tiny == INFINITY ? 0 : s->tiny);
    return scale > 0 && fabs(a - b) / scale > 1e-8;
}

static double curved(double before_c, double before_l, double c, double l, double after_c,
                     double after_l) {
    double one = fabs(after_c / after_l - c / l) / (l + after_l);
    double two = fabs(c / l - before_c / before_l) / (l + before_l);
    return l * l * fmax(one, two);
}

static double length_of(const Spline *s, i64 i) {
    return i > 0 && i < s->held ? s->at[i] - s->at[i - 1] : 1;
}
static double count_of(const Spline *s, i64 i) { return i < s->held ? (double)s->count[i] : 0; }

static void estimate_errors(Spline *s) {
    s->error[0] = s->joined[0] = 0;
    for (i64 i = 1; i < s->held; i++) {
        s->error[i] = curved(count_of(s, i - 1), length_of(s, i - 1), count_of(s, i),
                             length_of(s, i), count_of(s, i + 1), length_of(s, i + 1));
        s->joined[i] = i + 1 < s->held
            ? curved(count_of(s, i - 1), length_of(s, i - 1), count_of(s, i) + count_of(s, i + 1),
                     length_of(s, i) + length_of(s, i + 1), count_of(s, i + 2), length_of(s, i + 2))
            : INFINITY;
    }
}

static void first_buckets(Spline *s) {
    i64 k = s->k, n = s->filled;
    for (i64 i = 0; i < k; i++) {
        i64 index = llround((double)i * (double)(n - 1) / (double)(k - 1));
        s->at[i] = s->buffer[index < n ? index : n - 1];
    }
    for (i64 i = 0; i < k;) { /* values that repeat: a boundary just below, the others just above */
        i64 j = i + 1;
        while (j < k && s->at[i] >= s->at[j] - fabs(s->at[j]) * 1e-9 - 1e-100) j++;
        if (j > i + 1) {
            double before = i > 0 ? s->at[i - 1] : s->at[0] - 1;
            double after = j < k ? s->at[j] : s->at[k - 1] + 1;
            s->at[i] -= (s->at[i] - before) * 1e-9;
            for (i64 m = i + 2; m < j; m++)
                s->at[m] = s->at[m - 1] + (after - s->at[m - 1]) * 1e-3 / (double)k;
        }
        i = j;
    }
    memset(s->count, 0, 8 * (size_t)k);
    memset(s->kept, 0, (size_t)k);
    take_in(s);
    s->ready = 1;
}

static void consolidate(Spline *s) {
    i64 k = s->k;
    if (!s->filled) return;
    sort_doubles(s->buffer, s->filled);
    if (!s->ready) {
        if (s->filled >= k) first_buckets(s), s->filled = 0;
        return;
    }
    if (s->n >= s->epoch_end) {
        memset(s->kept, 0, (size_t)k);
        s->epoch_end = (i64)(1.25 * (double)s->n);
        s->factor = 3;
    }
    for (i64 i = 0; i < s->filled; i++)
        if (s->buffer[i] != 0 && fabs(s->buffer[i]) < s->tiny) s->tiny = fabs(s->buffer[i]);
    i64 sum = 0;
    for (i64 i = 0; i < k; i++) s->was[i] = s->at[i], s->sums[i] = sum += s->count[i];
    take_in(s);
    double low = s->buffer[0], high = s->buffer[s->filled - 1];
    for (int round = 0; round < 200; round++) {
        double bound = s->factor * (double)s->n / (double)k;
        i64 splits = 0, joins = 0, can_join = 0, worst = 0, at_join = 0, at_split = 0;
        estimate_errors(s);
        memset(s->split, 0, (size_t)k + 1), memset(s->join, 0, (size_t)k + 1);
        for (i64 i = 1; i < k; i++) {
            int wide = apart(s, s->at[i], s->at[i - 1]);
            if (wide && (double)s->count[i] > 1.01 * bound) s->split[i] = 1, splits++;
            if (wide && (double)s->count[i] > 0.01 * bound) s->worst[worst++] = i;
            if (i < k - 1 && !s->kept[i] && (double)(s->count[i] + s->count[i + 1]) <= 0.75 * bound)
                s->order[can_join++] = i;
        }
        sort_by = s->joined, qsort(s->order, (size_t)can_join, 8, ascending);
        sort_by = s->error, qsort(s->worst, (size_t)worst, 8, descending);
        i64 ends = (low < s->at[0]) + (high > s->at[k - 1]), needed = splits + ends;
        for (; joins < needed && at_join < can_join; at_join++) {
            i64 i = s->order[at_join];
            if (!s->join[i] && !s->join[i - 1] && !s->join[i + 1] && !s->split[i]
                && !s->split[i + 1])
                s->join[i] = 1, joins++;
        }
        if (joins < needed) {
            s->factor *= 2;
            if (s->factor > 100) {
                memset(s->kept, 0, (size_t)k);
                s->epoch_end = (i64)(1.25 * (double)s->n);
                s->factor = 3;
            }
            continue;
        }
        while (at_join < can_join - k / 4 - 2 && at_split < worst) {
            i64 one = s->worst[at_split++], two = s->order[at_join++];
            if (s->error[one] <= 1.5 * s->joined[two]) break;
            if (!s->split[one] && one != two && one != two + 1 && !s->join[one] && !s->join[one - 1]
                && !s->join[two] && !s->join[two + 1] && !s->join[two - 1] && !s->split[two]
                && !s->split[two + 1])
                s->split[one] = s->join[two] = 1, splits++, joins++;
        }
        if (!splits && !joins && !ends) break;
        i64 made = 0;
        if (low < s->at[0]) s->next[0] = low, s->next_kept[0] = 0, made++;
        for (i64 i = 0; i < k; i++) {
            if (s->join[i]) continue;
            if (s->split[i]) {
                s->next[made] = 0.5 * (s->at[i] + s->at[i - 1]);
                if (made) s->next_kept[made - 1] = 1;
                s->next_kept[made++] = 1;
            }
            s->next[made] = s->at[i];
            s->next_kept[made++] = s->kept[i] || s->split[i];
        }
        if (high > s->at[k - 1] && made < k) s->next[made] = high, s->next_kept[made++] = 0;
        i64 before = 0, old = 0;
        for (i64 i = 0; i < k; i++) {
            double x = s->at[i] = s->next[i];
            s->kept[i] = s->next_kept[i];
            while (old < k - 1 && s->was[old] < x) old++;
            i64 all;
            if (s->was[old] <= x) all = s->sums[old];
            else all = old ? (i64)inside(s->was, s->sums, k, old, x) : 0;
            if (all < before) all = before;
            s->count[i] = all - before;
            before = all;
        }
        take_in(s);
    }
    s->filled = 0;
}

void spline_update(Spline *s, const double *values, i64 n) {
    for (i64 i = 0; i < n; i++) {
        s->buffer[s->filled++] = values[i];
        s->n++;
        if (s->filled == s->room) consolidate(s);
    }
}

static i64 up_to(const double *at, const i64 *sums, i64 k, i64 *bucket, double x) {
    while (*bucket < k && at[*bucket] < x) ++*bucket;
    if (*bucket == k) return sums[k - 1];
    if (at[*bucket] <= x) return sums[*bucket];
    return *bucket ? (i64)inside(at, sums, k, *bucket, x) : 0;
}

static void add_up(const Spline *s, i64 *sums) {
    i64 sum = 0;
    for (i64 i = 0; i < s->k; i++) sums[i] = sum += s->count[i];
}

void spline_merge(Spline *s, Spline *o) {
    consolidate(s), consolidate(o);
    i64 k = s->k;
    if (!o->ready) {
        spline_update(s, o->buffer, o->filled);
        return;
    }
    if (!s->ready) { /* what there is, few values, comes after the other's buckets */
        i64 few = s->filled;
        double *values = malloc(8 * (size_t)s->room);
        memcpy(values, s->buffer, 8 * (size_t)few);
        memcpy(s->at, o->at, 8 * (size_t)k), memcpy(s->count, o->count, 8 * (size_t)k);
        memset(s->kept, 0, (size_t)k);
        s->ready = 1, s->n = o->n, s->tiny = o->tiny, s->filled = 0;
        spline_update(s, values, few);
        free(values);
        return;
    }
    s->n += o->n, s->tiny = fmin(s->tiny, o->tiny);
    memcpy(s->was, s->at, 8 * (size_t)k);
    add_up(s, s->sums), add_up(o, o->sums);
    i64 mine = 0, theirs = 0, in_mine = 0, in_theirs = 0, before = 0;
    for (s->held = 0; mine < k || theirs < k; s->held++) {
        double x = theirs == k || (mine < k && s->was[mine] <= o->at[theirs]) ? s->was[mine]
                                                                               : o->at[theirs];
        while (mine < k && s->was[mine] <= x) mine++;
        while (theirs < k && o->at[theirs] <= x) theirs++;
        i64 all = up_to(s->was, s->sums, k, &in_mine, x) + up_to(o->at, o->sums, k, &in_theirs, x);
        if (all < before) all = before;
        s->at[s->held] = x, s->count[s->held] = all - before;
        before = all;
    }
    double bound = 0.75 * s->factor * (double)s->n / (double)k;
    while (s->held > k) {
        i64 can_join = 0, left = s->held - k, made = 0;
        estimate_errors(s);
        memset(s->join, 0, (size_t)s->held + 1);
        for (i64 i = 1; i < s->held - 1; i++)
            if ((double)(s->count[i] + s->count[i + 1]) <= bound) s->order[can_join++] = i;
        sort_by = s->joined, qsort(s->order, (size_t)can_join, 8, ascending);
        for (i64 at = 0; at < can_join && left; at++) {
            i64 i = s->order[at];
            if (!s->join[i - 1] && !s->join[i + 1]) s->join[i] = 1, left--;
        }
        if (left == s->held - k) bound *= 2;
        i64 more = 0;
        for (i64 i = 0; i < s->held; i++) {
            if (s->join[i]) {
                more = s->count[i];
                continue;
            }
            s->at[made] = s->at[i], s->count[made++] = s->count[i] + more;
            more = 0;
        }
        s->held = made;
    }
    memset(s->kept, 0, (size_t)k);
}

void spline_ask(Spline *s, const double *shares, i64 n, double *out) {
    consolidate(s);
    add_up(s, s->sums);
    for (i64 q = 0; q < n; q++) {
        double rank = shares[q] * (double)s->n;
        i64 i = 0;
        while (i < s->k - 1 && (double)s->sums[i] < rank) i++;
        double a = i ? s->at[i - 1] : s->at[0], b = s->at[i];
        for (int step = 0; i && step < 60; step++) {
            double x = 0.5 * (a + b);
            if (inside(s->at, s->sums, s->k, i, x) < rank) a = x;
            else b = x;
        }
        out[q] = b;
    }
}

/* ---- Cooled-KLL: buckets of seven counters with a guard hold what comes often, exactly; the rest,
   and what is driven out with its count, goes into a KLL. A tenth of the memory is for buckets. Its
   authors' program has no merge: here counters meet in their bucket, of which the largest stay, and
   levels as those of a KLL do. */

enum { COUNTERS = 7, LEVELS = 40 };

typedef struct {
    double value[COUNTERS];
    u32 count[COUNTERS];
    u32 guard;
} Hot;

typedef struct {
    i64 buckets, top, n, levels;
    Hot *hot;
    double *level[LEVELS];
    i64 size[LEVELS], room[LEVELS];
    u64 coins;
} Cooled;

static i64 level_room(const Cooled *s, i64 level) {
    double room = (double)s->top;
    for (i64 i = level; i < s->levels - 1; i++) room /= 1.4142;
    return room < 7 ? 7 : (i64)room;
}

Cooled *cooled_new(i64 bytes, i64 values, u64 seed) {
    Cooled *s = calloc(1, sizeof *s);
    s->buckets = bytes / 10 / (i64)sizeof(Hot);
    if (s->buckets < 1) s->buckets = 1;
    s->hot = calloc((size_t)s->buckets, sizeof(Hot));
    s->coins = seed;
    i64 items = (bytes - s->buckets * (i64)sizeof(Hot)) / 8;
    for (s->top = items; s->top > 8; s->top--) { /* the levels that so many values will need */
        i64 used = 0, holds = 0;
        for (s->levels = 1; s->levels < LEVELS && holds < values; s->levels++) {
            used = holds = 0;
            for (i64 i = 0; i < s->levels; i++) used += level_room(s, i), holds += level_room(s, i) << i;
        }
        if (used <= items) break;
    }
    s->levels--;
    for (i64 i = 0; i < LEVELS; i++) s->room[i] = 64, s->level[i] = malloc(64 * 8);
    return s;
}

void cooled_free(Cooled *s) {
    for (i64 i = 0; i < LEVELS; i++) free(s->level[i]);
    free(s->hot), free(s);
}

static void push(Cooled *s, i64 level, double value) {
    if (s->size[level] == s->room[level])
        s->level[level] = realloc(s->level[level], 8 * (size_t)(s->room[level] *= 2));
    s->level[level][s->size[level]++] = value;
}

static void compact(Cooled *s, i64 level) {
    for (; s->size[level] >= level_room(s, level); level++) {
        i64 n = s->size[level], odd = n & 1;
        if (level + 1 == s->levels) s->levels++;
        sort_doubles(s->level[level], n);
        i64 offset = (i64)(drawn(&s->coins) & 1);
        for (i64 i = 0; i + 1 < n; i += 2) push(s, level + 1, s->level[level][i + offset]);
        s->level[level][0] = s->level[level][n - 1];
        s->size[level] = odd;
    }
}

static void cool(Cooled *s, double value, u32 weight) {
    for (i64 level = s->levels - 1; level >= 0 && weight; level--)
        for (; weight >= 1u << level; weight -= 1u << level) compact(s, level), push(s, level, value);
}

void cooled_merge(Cooled *s, Cooled *o) {
    for (i64 b = 0; b < s->buckets; b++)
        for (int j = 0; j < COUNTERS && o->hot[b].count[j]; j++) {
            Hot *hot = &s->hot[b];
            double value = o->hot[b].value[j];
            u32 count = o->hot[b].count[j];
            int at = 0, least = 0;
            for (; at < COUNTERS && hot->count[at] && hot->value[at] != value; at++)
                if (hot->count[at] < hot->count[least]) least = at;
            if (at < COUNTERS) {
                hot->value[at] = value, hot->count[at] += count;
            } else if (count <= hot->count[least]) {
                cool(s, value, count);
            } else {
                cool(s, hot->value[least], hot->count[least]);
                hot->value[least] = value, hot->count[least] = count;
            }
        }
    if (s->levels < o->levels) s->levels = o->levels;
    for (i64 level = 0; level < o->levels; level++) {
        for (i64 i = 0; i < o->size[level]; i++) push(s, level, o->level[level][i]);
        compact(s, level);
    }
    s->n += o->n;
}

void cooled_update(Cooled *s, const double *values, i64 n) {
    for (i64 i = 0; i < n; i++) {
        u64 bits;
        memcpy(&bits, &values[i], 8);
        Hot *hot = &s->hot[mix(bits) % (u64)s->buckets];
        int least = 0, at = -1;
        for (int j = 0; j < COUNTERS; j++) {
            if (!hot->count[j] || hot->value[j] == values[i]) {
                at = j;
                break;
            }
            if (hot->count[j] < hot->count[least]) least = j;
        }
        s->n++;
        if (at >= 0) {
            hot->value[at] = values[i];
            hot->count[at]++;
        } else if (++hot->guard <= 16 * hot->count[least]) {
            cool(s, values[i], 1);
        } else {
            double out = hot->value[least];
            u32 weight = hot->count[least];
            hot->value[least] = values[i], hot->count[least] = 1, hot->guard = 0;
            cool(s, out, weight);
        }
    }
}

typedef struct {
    double value;
    i64 weight;
} Weighted;

static int by_weighted(const void *a, const void *b) { return by_value(a, b); }

void cooled_ask(Cooled *s, const double *shares, i64 n, double *out) {
    i64 all = s->buckets * COUNTERS;
    for (i64 i = 0; i < s->levels; i++) all += s->size[i];
    Weighted *items = malloc((size_t)all * sizeof *items);
    all = 0;
    for (i64 b = 0; b < s->buckets; b++)
        for (int j = 0; j < COUNTERS; j++)
            if (s->hot[b].count[j]) items[all++] = (Weighted){s->hot[b].value[j], s->hot[b].count[j]};
    for (i64 i = 0; i < s->levels; i++)
        for (i64 j = 0; j < s->size[i]; j++) items[all++] = (Weighted){s->level[i][j], (i64)1 << i};
    qsort(items, (size_t)all, sizeof *items, by_weighted);
    i64 at = 0, sum = items[0].weight;
    for (i64 q = 0; q < n; q++) { /* shares ascend */
        while (at < all - 1 && (double)sum < shares[q] * (double)s->n) sum += items[++at].weight;
        out[q] = items[at].value;
    }
    free(items);
}

/* ---- Cuckoo Heavy Keeper (arXiv 2412.12873): two tables of buckets, each with two heavy entries and a
   lobby; a fingerprint of 16 bits and a counter each. A lobby's counter decays as others come, and
   moves to the heavy ones once it reaches 16; who is driven out goes to its other bucket. */

enum { HEAVY = 2, PROMOTED = 16, KICKS = 10 };

typedef struct {
    u16 print[HEAVY + 1]; /* the lobby's last */
    u32 count[HEAVY];
    u16 lobby;
} Nest;

typedef struct {
    u64 mask, coins;
    double least; /* of the total: what a counter must have to be worth a kick */
    i64 total;
    Nest *table[2];
    double decay[PROMOTED + 1];
} Cuckoo;

Cuckoo *cuckoo_new(i64 bytes, double least, u64 seed) {
    Cuckoo *s = calloc(1, sizeof *s);
    u64 buckets = 1;
    while (2 * (buckets << 1) * sizeof(Nest) <= (u64)bytes) buckets <<= 1;
    s->mask = buckets - 1, s->least = least, s->coins = seed;
    for (int i = 0; i < 2; i++) s->table[i] = calloc(buckets, sizeof(Nest));
    for (int i = 0; i <= PROMOTED; i++) s->decay[i] = pow(1.08, -i);
    return s;
}

i64 cuckoo_bytes(const Cuckoo *s) { return 2 * (i64)(s->mask + 1) * (i64)sizeof(Nest); }
void cuckoo_free(Cuckoo *s) { free(s->table[0]), free(s->table[1]), free(s); }

static u64 other(const Cuckoo *s, u16 print, u64 at) { return (at ^ mix(print)) & s->mask; }

static void kick(Cuckoo *s, u16 print, u32 count, u64 at, int table) {
    for (int i = 0; i < KICKS && (double)count >= s->least * (double)s->total; i++) {
        at = other(s, print, at), table = 1 - table;
        Nest *nest = &s->table[table][at];
        int least = 0;
        for (int j = 0; j < HEAVY; j++) {
            if (!nest->count[j]) {
                nest->print[j] = print, nest->count[j] = count;
                return;
            }
            if (nest->count[j] < nest->count[least]) least = j;
        }
        u16 out = nest->print[least];
        u32 more = nest->count[least];
        nest->print[least] = print, nest->count[least] = count;
        print = out, count = more;
    }
}

static void keep(Cuckoo *s, u64 hash) {
    u16 print = (u16)(hash & 0xFFFF);
    u64 place[2] = {hash >> 32 & s->mask, 0};
    place[1] = other(s, print, place[0]);
    s->total++;
    int free_table = -1, free_slot = 0;
    for (int t = 0; t < 2; t++) {
        Nest *nest = &s->table[t][place[t]];
        for (int j = 0; j < HEAVY; j++) {
            if (nest->count[j] && nest->print[j] == print) {
                nest->count[j]++;
                return;
            }
            if (!nest->count[j] && free_table < 0) free_table = t, free_slot = j;
        }
    }
    if (free_table >= 0) {
        Nest *nest = &s->table[free_table][place[free_table]];
        nest->print[free_slot] = print, nest->count[free_slot] = 1;
        return;
    }
    for (int t = 0; t < 2; t++) {
        Nest *nest = &s->table[t][place[t]];
        if (!nest->lobby || nest->print[HEAVY] != print) continue;
        if (++nest->lobby < PROMOTED) return;
        int least = nest->count[0] <= nest->count[1] ? 0 : 1;
        u32 count = nest->count[least];
        if (count > nest->lobby
            && uniform(&s->coins)
                   >= (double)(nest->lobby - PROMOTED + 1) / (double)(count - PROMOTED + 1)) {
            nest->lobby = PROMOTED - 1;
            return;
        }
        u16 out = nest->print[least];
        nest->print[least] = print; /* with the count that stands there, as the paper has it */
        if (count < nest->lobby) nest->count[least] = nest->lobby;
        nest->lobby = 0;
        kick(s, out, count, place[t], t);
        return;
    }
    for (int t = 0; t < 2; t++) {
        Nest *nest = &s->table[t][place[t]];
        if (!nest->lobby) {
            nest->print[HEAVY] = print, nest->lobby = 1;
            return;
        }
    }
    int t = (int)(drawn(&s->coins) & 1);
    Nest *nest = &s->table[t][place[t]];
    if (uniform(&s->coins) < s->decay[nest->lobby] && !--nest->lobby)
        nest->print[HEAVY] = print, nest->lobby = 1;
}

void cuckoo_update(Cuckoo *s, const u64 *hashes, i64 n) {
    for (i64 i = 0; i < n; i++) keep(s, hashes[i]);
}

void cuckoo_ask(const Cuckoo *s, const u64 *hashes, i64 n, i64 *out) {
    for (i64 i = 0; i < n; i++) {
        u16 print = (u16)(hashes[i] & 0xFFFF);
        u64 place[2] = {hashes[i] >> 32 & s->mask, 0};
        place[1] = other(s, print, place[0]);
        out[i] = 0;
        for (int t = 0; t < 2; t++) {
            const Nest *nest = &s->table[t][place[t]];
            for (int j = 0; j < HEAVY; j++)
                if (nest->count[j] && nest->print[j] == print && nest->count[j] > out[i])
                    out[i] = nest->count[j];
            if (!out[i] && nest->lobby && nest->print[HEAVY] == print) out[i] = nest->lobby;
        }
    }
}

/* ---- MicroscopeSketch (KDD 2023): Count-Min cells that hold a ring of counters of 8 bits, one for each
   sub-window, in units of 2^zoom which the cell shares, and a shutter for what is below a unit. */

typedef struct {
    i64 rows, columns, panes, now;
    u8 *pixel;
    u8 *zoom;
    u32 *shutter;
    u64 coins;
} Microscope;

Microscope *microscope_new(i64 bytes, i64 rows, i64 panes, u64 seed) {
    Microscope *s = calloc(1, sizeof *s);
    s->rows = rows, s->panes = panes, s->coins = seed;
    s->columns = bytes / rows / (panes + 2 + 1 + 4);
    size_t cells = (size_t)(rows * s->columns);
    s->pixel = calloc(cells, (size_t)panes + 2);
    s->zoom = calloc(cells, 1), s->shutter = calloc(cells, 4);
    return s;
}

void microscope_free(Microscope *s) { free(s->pixel), free(s->zoom), free(s->shutter), free(s); }

static void credit(Microscope *s, i64 cell, i64 ring) {
    u8 *pixel = s->pixel + cell * (s->panes + 2);
    if (pixel[ring] < 255) {
        pixel[ring]++;
        return;
    }
    s->zoom[cell]++;
    for (i64 i = 0; i < s->panes + 2; i++)
        pixel[i] = i == ring ? 128 : (u8)(pixel[i] / 2 + (pixel[i] & (drawn(&s->coins) & 1)));
}

void microscope_update(Microscope *s, const u64 *hashes, i64 n) {
    i64 ring = s->now % (s->panes + 2);
    for (i64 i = 0; i < n; i++)
        for (i64 row = 0; row < s->rows; row++) {
            i64 cell = row * s->columns + (i64)(mix(hashes[i] + (u64)row) % (u64)s->columns);
            if (++s->shutter[cell] >> s->zoom[cell]) s->shutter[cell] = 0, credit(s, cell, ring);
        }
}

void microscope_next(Microscope *s) {
    i64 ring = s->now % (s->panes + 2), next = ++s->now % (s->panes + 2);
    for (i64 cell = 0; cell < s->rows * s->columns; cell++) {
        u8 *pixel = s->pixel + cell * (s->panes + 2);
        if (s->shutter[cell]
            && uniform(&s->coins) < (double)s->shutter[cell] / (double)(1ull << s->zoom[cell]))
            credit(s, cell, ring);
        s->shutter[cell] = 0;
        pixel[next] = 0;
        u8 most = 0;
        for (i64 i = 0; i < s->panes + 2; i++) most = pixel[i] > most ? pixel[i] : most;
        for (; s->zoom[cell] && most < 128; most *= 2) {
            s->zoom[cell]--;
            for (i64 i = 0; i < s->panes + 2; i++) pixel[i] *= 2;
        }
    }
}

/* The newest `panes` sub-windows, the one at hand included: the least of each over the rows. */
void microscope_ask(const Microscope *s, const u64 *hashes, i64 n, double *out) {
    for (i64 i = 0; i < n; i++) {
        out[i] = 0;
        for (i64 back = 0; back < s->panes && back <= s->now; back++) {
            i64 ring = (s->now - back) % (s->panes + 2);
            double least = INFINITY;
            for (i64 row = 0; row < s->rows; row++) {
                i64 cell = row * s->columns + (i64)(mix(hashes[i] + (u64)row) % (u64)s->columns);
                double found = (double)s->pixel[cell * (s->panes + 2) + ring];
                found = found * (double)(1ull << s->zoom[cell]) + (back ? 0 : s->shutter[cell]);
                least = fmin(least, found);
            }
            out[i] += least;
        }
    }
}

/* ---- MagnifierSketch (arXiv 2511.22070): one quantile of each key. A tower of small counters holds back
   keys until they came 40 times; then a bucket of seven keys with votes. Of each key, infinities are
   mixed in so that the quantile is the median, of which medians of medians are kept. */

enum { STEPS = 5, FIRST = 15, MIDDLE = 2, LAST = 11, SLOTS = 7, RARE = 40 };

typedef struct {
    u64 key;
    u32 came, votes, infinite, turn, size[STEPS];
    double first[FIRST], middle[STEPS - 2][MIDDLE], last[LAST];
} Lens;

typedef struct {
    u64 words, buckets, coins;
    double share, mixed;
    u8 *tower[3];
    Lens *lens;
} Magnifier;

Magnifier *magnifier_new(i64 bytes, double share, u64 seed) {
    Magnifier *s = calloc(1, sizeof *s);
    s->words = (u64)bytes / 30; /* a tenth, in three rows of as many bytes */
    s->buckets = (u64)bytes * 9 / 10 / sizeof(Lens) / SLOTS;
    s->coins = seed, s->share = share;
    s->mixed = share > 0.5 ? (2 * share - 1) / (2 * share) : (1 - 2 * share) / (2 * (1 - share));
    for (int i = 0; i < 3; i++) s->tower[i] = calloc(s->words, 1);
    s->lens = calloc(s->buckets * SLOTS, sizeof(Lens));
    return s;
}

void magnifier_free(Magnifier *s) {
    for (int i = 0; i < 3; i++) free(s->tower[i]);
    free(s->lens), free(s);
}

/* Counters of 2, 4 and 8 bits; the least of those that are not full. */
static int rare(Magnifier *s, u64 key) {
    u32 least = UINT32_MAX;
    u8 *byte[3], shift[3], most[3] = {2, 14, 254};
    for (int i = 0; i < 3; i++) {
        u64 bits = 2ull << i, each = 8 / bits, at = mix(key + (u64)i + 5) % (s->words * each);
        byte[i] = &s->tower[i][at / each], shift[i] = (u8)(at % each * bits);
        u32 value = *byte[i] >> shift[i] & ((1u << bits) - 1);
        if (value < most[i] && value < least) least = value;
    }
    if (least >= RARE) return 0;
    for (int i = 0; i < 3; i++) {
        u32 value = *byte[i] >> shift[i] & ((1u << (2u << i)) - 1);
        if (value < most[i]) *byte[i] = (u8)(*byte[i] + (1u << shift[i]));
    }
    return 1;
}

static void settle(Lens *lens, double value) { /* into the last eleven, in order */
    double *a = lens->last;
    u32 n = lens->size[STEPS - 1];
    if (n < LAST) {
        lens->size[STEPS - 1]++;
    } else if (lens->turn ^= 1) {
        if (value < a[0]) return;
        memmove(a, a + 1, 8 * (LAST - 1));
        n = LAST - 1;
    } else {
        if (value > a[LAST - 1]) return;
        n = LAST - 1;
    }
    u32 at = n;
    for (; at && a[at - 1] > value; at--) a[at] = a[at - 1];
    a[at] = value;
}

static void look(Magnifier *s, Lens *lens, double value) {
    lens->came++;
    lens->first[lens->size[0]++] = value;
    while (uniform(&s->coins) < s->mixed) lens->infinite++;
    u32 n = lens->size[0];
    if (n + lens->infinite < FIRST) return;
    sort_doubles(lens->first, n);
    i64 at = (i64)(n + lens->infinite) / 2 - (s->share < 0.5 ? (i64)lens->infinite : 0);
    value = at < 0 ? -INFINITY : at < (i64)n ? lens->first[at] : INFINITY;
    lens->size[0] = lens->infinite = 0;
    for (int step = 0; step < STEPS - 2; step++) { /* medians of three */
        double *two = lens->middle[step];
        u32 size = lens->size[step + 1]++;
        if (size < 2) {
            two[size] = value;
            return;
        }
        double low = fmin(two[0], two[1]), high = fmax(two[0], two[1]);
        value = value < low ? low : value > high ? high : value;
        lens->size[step + 1] = 0;
    }
    settle(lens, value);
}

void magnifier_update(Magnifier *s, const u64 *keys, const double *values, i64 n) {
    for (i64 i = 0; i < n; i++) {
        if (rare(s, keys[i])) continue;
        Lens *lens = s->lens + mix(keys[i]) % s->buckets * SLOTS, *least = lens;
        int j = 0;
        for (; j < SLOTS; j++) {
            if (!lens[j].came || lens[j].key == keys[i]) break;
            if (lens[j].came < least->came) least = &lens[j];
        }
        if (j < SLOTS) {
            lens[j].key = keys[i];
            look(s, &lens[j], values[i]);
        } else if (++least->votes >= 5.8 * least->came) {
            memset(least, 0, sizeof *least);
        }
    }
}

void magnifier_ask(const Magnifier *s, const u64 *keys, i64 n, double *out) {
    for (i64 i = 0; i < n; i++) {
        const Lens *lens = s->lens + mix(keys[i]) % s->buckets * SLOTS;
        out[i] = NAN;
        for (int j = 0; j < SLOTS; j++)
            if (lens[j].came && lens[j].key == keys[i] && lens[j].size[STEPS - 1])
                out[i] = lens[j].last[lens[j].size[STEPS - 1] / 2];
    }
}

/* ---- M4 (ICDE 2024) over DDSketch: four levels of buckets without keys, each key in two of each. A key
   moves on once both of its buckets of a level are full; an answer takes the smaller of each bin (MINIMUM)
   and adds the levels up (SUM). Level 0 counts to three. */

enum { TOP = 3, CHOICES = 2 };
static const u32 FULL[TOP + 1] = {3, UINT8_MAX, UINT16_MAX, UINT32_MAX};
static const double ALPHA[TOP + 1] = {0, 0.5, 0.5, 0.3};
static const int BINS[TOP + 1] = {0, 20, 20, 35};
static const double SHARE[TOP + 1] = {0.03, 0.60, 0.35, 0.02};

typedef struct {
    u64 buckets[TOP + 1];
    u32 *total[TOP + 1], *bin[TOP + 1];
} M4;

M4 *m4_new(i64 bytes) {
    M4 *s = calloc(1, sizeof *s);
    for (int level = 0; level <= TOP; level++) { /* a bin has 1, 2 or 4 bytes, and so has the total */
        double size = level ? (1 << (level - 1)) * (BINS[level] + 1) : 0.25;
        s->buckets[level] = (u64)((double)bytes * SHARE[level] / size);
        if (!s->buckets[level]) s->buckets[level] = 1;
        s->total[level] = calloc(s->buckets[level], 4);
        s->bin[level] = calloc(s->buckets[level] * (size_t)(BINS[level] ? BINS[level] : 1), 4);
    }
    return s;
}

void m4_free(M4 *s) {
    for (int level = 0; level <= TOP; level++) free(s->total[level]), free(s->bin[level]);
    free(s);
}

static u64 place_of(const M4 *s, u64 key, int level, int choice) {
    return mix(key + 131u * (u64)level + 17u * (u64)choice) % s->buckets[level];
}

static int bin_of(double value, int level) {
    double gamma = (1 + ALPHA[level]) / (1 - ALPHA[level]);
    int bin = value > 0 ? (int)ceil(log(value) / log(gamma)) : 0;
    return bin < 0 ? 0 : bin >= BINS[level] ? BINS[level] - 1 : bin;
}

void m4_update(M4 *s, const u64 *keys, const double *values, i64 n) {
    for (i64 i = 0; i < n; i++)
        for (int level = 0; level <= TOP; level++) {
            u64 at[CHOICES];
            int full = 0, empty = 0;
            for (int c = 0; c < CHOICES; c++) {
                at[c] = place_of(s, keys[i], level, c);
                full += s->total[level][at[c]] >= FULL[level];
                empty += !s->total[level][at[c]];
            }
            if (full && !empty) continue;
            for (int c = 0; c < CHOICES; c++) {
                if (s->total[level][at[c]] >= FULL[level] || (c && at[c] == at[0])) continue;
                s->total[level][at[c]]++;
                if (level) s->bin[level][at[c] * (u64)BINS[level] + (u64)bin_of(values[i], level)]++;
            }
            break;
        }
}

void m4_ask(const M4 *s, const u64 *keys, i64 n, double share, double *out) {
    for (i64 i = 0; i < n; i++) {
        double edge[96], weight[96], total = 0;
        int filled = 0;
        out[i] = NAN;
        for (int level = 1; level <= TOP; level++) {
            u64 at[CHOICES];
            int empty = 0, full = 0;
            for (int c = 0; c < CHOICES; c++) {
                at[c] = place_of(s, keys[i], level, c);
                empty += !s->total[level][at[c]];
                full += s->total[level][at[c]] >= FULL[level];
            }
            if (empty) break;
            double gamma = (1 + ALPHA[level]) / (1 - ALPHA[level]);
            for (int b = 0; b < BINS[level]; b++) {
                u32 one = s->bin[level][at[0] * (u64)BINS[level] + (u64)b];
                u32 two = s->bin[level][at[1] * (u64)BINS[level] + (u64)b];
                u32 least = one < two ? one : two;
                if (least) {
                    edge[filled] = 2 * pow(gamma, b) / (1 + gamma);
                    weight[filled++] = least, total += least;
                }
            }
            if (!full) break;
        }
        double sum = 0, last = -INFINITY;
        while (filled && sum < share * total) { /* the next in order of value */
            int next = -1;
            for (int b = 0; b < filled; b++)
                if (edge[b] > last && (next < 0 || edge[b] < edge[next])) next = b;
            if (next < 0) break;
            last = edge[next];
            for (int b = 0; b < filled; b++)
                if (edge[b] == last) sum += weight[b];
            out[i] = last;
        }
    }
}
