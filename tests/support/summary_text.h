/* The complete text of a summary, for tests. A run writes it in parts. */
#ifndef EITP_SUPPORT_SUMMARY_TEXT_H
#define EITP_SUPPORT_SUMMARY_TEXT_H

static void summary_write_(const eitp__summary *summary, eitp__buffer *text) {
    eitp__buffer_clear(text);
    for (size_t part = 0; eitp__summary_write_part(summary, part, text); part++) {
    }
}

#endif
