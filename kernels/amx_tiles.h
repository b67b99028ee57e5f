/* How the tiles of AMX are configured: all eight with 16 rows of 64 bytes. */
#ifndef EITP_AMX_TILES_H
#define EITP_AMX_TILES_H

#include "kernels/kernels.h"

/* What LDTILECFG reads. */
typedef struct eitp__amx_tiles {
    uint8_t palette, start_row, reserved[14];
    uint16_t columns[16]; /* bytes of a row */
    uint8_t rows[16];
} eitp__amx_tiles;

/* Constant, since the intrinsic of GCC 12 says of these 64 bytes only that it reads the first eight. */
EITP__UNUSED static const eitp__amx_tiles eitp__amx_whole_tiles = {
    1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

#endif
