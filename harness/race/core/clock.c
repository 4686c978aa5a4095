/* Vector clocks with one lane's exception an entry (clock.h). */
#include "clock.h"

#include <stdlib.h>

enum { VECTOR = 16 };

static u64 words(const Knowledge *k) { return (u64)(PLANES * 3 + k->rows) * k->n; }

Knowledge *knowledge_new(u32 components, u32 rows) {
  u32 n = (components + VECTOR - 1) / VECTOR * VECTOR;
  Knowledge *k = calloc(1, sizeof *k + (u64)(PLANES * 3 + rows) * n * sizeof(u32));
  if (!k) return NULL;
  k->n = n;
  k->rows = rows;
  return k;
}

void knowledge_copy(Knowledge *to, const Knowledge *from) {
  memcpy(to->entry, from->entry, words(from) * sizeof(u32));
}

void knowledge_clear(Knowledge *k) { memset(k->entry, 0, words(k) * sizeof(u32)); }

static void join_plane(u32 *restrict a, const u32 *restrict b, u32 n) {
  u32 *restrict one = a + n, *restrict lane = a + 2 * n;
  for (u32 c = 0; c < n; c++) {
    u32 all = a[c] > b[c] ? a[c] : b[c];
    u32 x = one[c] > all ? one[c] : 0, y = b[n + c] > all ? b[n + c] : 0;
    u32 least = x < y ? x : y, most = x < y ? y : x;
    u32 at = x < y ? b[2 * n + c] : lane[c];
    /* two lanes, of which only one can be kept */
    u32 lost = lane[c] != b[2 * n + c] ? least : 0;
    a[c] = lost > all ? lost : all;
    one[c] = most;
    lane[c] = at;
  }
}

static void join_row(u32 *restrict a, const u32 *restrict b, u32 n) {
  for (u32 c = 0; c < n; c++) a[c] = a[c] > b[c] ? a[c] : b[c];
}

void knowledge_join(Knowledge *to, const Knowledge *from) {
  for (u32 p = 0; p < PLANES; p++)
    join_plane(clock_all(to, p), from->entry + p * 3 * from->n, to->n);
  if (to->rows)
    join_row(clock_row(to, ROW_ISSUED), from->entry + PLANES * 3 * from->n, ROW_READY * to->n);
}

int knowledge_covers(const Knowledge *to, const Knowledge *from) {
  u32 n = to->n, news = 0;
  for (u32 p = 0; p < PLANES; p++) {
    const u32 *a = to->entry + p * 3 * n, *b = from->entry + p * 3 * n;
    for (u32 c = 0; c < n; c++) {
      u32 one = a[2 * n + c] == b[2 * n + c] && a[n + c] > a[c] ? a[n + c] : a[c];
      news |= (u32)(b[c] > a[c]) | (u32)(b[n + c] > one);
    }
  }
  const u32 *a = to->entry + PLANES * 3 * n, *b = from->entry + PLANES * 3 * n;
  for (u32 c = 0; c < (to->rows ? ROW_READY * n : 0); c++) news |= (u32)(b[c] > a[c]);
  return !news;
}

void knowledge_fence(Knowledge *k, u32 plane) {
  join_plane(clock_all(k, plane), clock_all(k, PLANE_ORDER), k->n);
}

void knowledge_raise(Knowledge *k, u32 plane, u32 c, u32 clock, u32 lane) {
  u32 *all = clock_all(k, plane) + c, *one = clock_one(k, plane) + c;
  u32 *at = clock_lane(k, plane) + c;
  if (lane == ANY_LANE) {
    if (clock > *all) *all = clock;
  } else if (clock > *all) {
    if (*one > *all && *at != lane) { /* as in a join */
      u32 least = *one < clock ? *one : clock;
      *all = least;
    }
    if (clock >= *one) {
      *one = clock;
      *at = lane;
    }
  }
}
