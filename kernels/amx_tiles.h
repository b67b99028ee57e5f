/* AMX tile configuration: eight tiles, each with 16 rows of 64 bytes. */
#ifndef EITP_AMX_TILES_H
#define EITP_AMX_TILES_H

#include "kernels/kernels.h"

/* Operand of LDTILECFG. */
typedef struct eitp__amx_tiles {
    uint8_t palette, start_row, reserved[14];
    uint16_t columns[16]; /* bytes per row */
    uint8_t rows[16];
} eitp__amx_tiles;

/* Constant because GCC 12's intrinsic declares only the first eight of these 64 bytes as read. */
EITP__UNUSED static const eitp__amx_tiles eitp__amx_whole_tiles = {
    1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

#endif
