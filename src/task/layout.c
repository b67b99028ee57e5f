#include "task/layout.h"

EITP__PRIVATE eitp__layout eitp__layout_plain(int64_t samples, int64_t rows) {
    eitp__layout layout;
    layout.samples = layout.micro_batch = samples;
    layout.rows = rows;
    layout.group = 1;
    layout.rows_vary = 0;
    layout.joined = 1;
    return layout;
}

EITP__PRIVATE int64_t eitp__layout_align(const eitp__layout *layout, int64_t row) {
    return (row + layout->group - 1) / layout->group * layout->group;
}

EITP__PRIVATE int64_t eitp__layout_stride(const eitp__layout *layout) {
    return eitp__layout_align(layout, layout->micro_batch * layout->rows);
}

EITP__PRIVATE int64_t eitp__layout_gap(const eitp__layout *layout) {
    return layout->rows_vary ? layout->group - 1 : eitp__layout_stride(layout) - layout->micro_batch * layout->rows;
}

EITP__PRIVATE int64_t eitp__layout_rows(const eitp__layout *layout, int64_t count) {
    const int64_t before = count ? (count - 1) / layout->micro_batch : 0; /* micro-batches before the last */
    return before * eitp__layout_stride(layout) + (count - before * layout->micro_batch) * layout->rows;
}

EITP__PRIVATE int64_t eitp__layout_index(const eitp__layout *layout, int64_t sample) {
    return sample / layout->micro_batch * eitp__layout_align(layout, layout->micro_batch) +
           sample % layout->micro_batch;
}

EITP__PRIVATE int64_t eitp__layout_indices(const eitp__layout *layout) {
    return eitp__layout_index(layout, layout->samples - 1) + 1;
}

EITP__PRIVATE int64_t eitp__layout_groups(const eitp__layout *layout) {
    return (layout->samples + layout->joined - 1) / layout->joined;
}

EITP__PRIVATE int64_t eitp__layout_sequences(const eitp__layout *layout) {
    return layout->samples + (eitp__layout_gap(layout) ? (layout->samples - 1) / layout->micro_batch : 0);
}

EITP__PRIVATE int64_t eitp__layout_split_sequences(const eitp__layout *layout) {
    return eitp__layout_sequences(layout) + layout->samples;
}

EITP__PRIVATE int64_t eitp__layout_max_sequence_rows(const eitp__layout *layout) {
    const int64_t gap = eitp__layout_gap(layout);
    return gap > layout->rows ? gap : layout->rows;
}
