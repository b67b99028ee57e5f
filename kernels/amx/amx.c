/* The bf16 kernels for processors with AMX (tiles and bf16). */
#include "kernels/kernels.h"

EITP__PRIVATE void eitp__register_amx_kernels(eitp__kernel_table *table) {
    (void)table;
}
