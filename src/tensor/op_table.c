/* The table of ops. */
#include "tensor/op_rules.h"

EITP__PRIVATE void eitp__fill_op_table(eitp__op_info *table) {
    static const struct {
        const char *name;
        void (*fill)(eitp__op_info *op);
    } entries[] = {
#define EITP__OP_LISTED(NAME, name, family) {#name, eitp__op_##name},
        EITP__OPS(EITP__OP_LISTED)
#undef EITP__OP_LISTED
    };
    for (size_t i = 0; i < EITP__COUNT(entries); i++) {
        table[i].name = entries[i].name;
        table[i].min_inputs = table[i].max_inputs = table[i].outputs = 1;
        entries[i].fill(&table[i]);
    }
}
