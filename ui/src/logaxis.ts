// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// The range and the ticks of logarithmic axes.

const margin = 1.25;
/** More ticks than this are thinned out. */
const usual = 7;

/** A little more than the values need, so that no line runs along the frame. */
export function logRange(min: number | null, max: number | null): [number, number] {
    if (min === null || max === null || min <= 0) return [1, 10];
    return [min / margin, max * margin];
}

/** The values 1, 2 and 5 of each decade, or 1 and 3, or as many decades as there is room for. */
export function logTicks(min: number, max: number, most = usual): number[] {
    for (const steps of [[1, 2, 5], [1, 3], [1]]) {
        const ticks = decades(min, max).flatMap((decade) => steps.map((step) => step * decade));
        const inside = ticks.filter((tick) => tick >= min && tick <= max);
        if (inside.length <= Math.min(most, usual) && inside.length > 0) return inside;
    }
    const all = decades(min, max).filter((tick) => tick >= min && tick <= max);
    const every = Math.max(1, Math.ceil(all.length / Math.min(most, usual)));
    return all.filter((_, index) => index % every === 0);
}

function decades(min: number, max: number): number[] {
    const first = Math.floor(Math.log10(min));
    const last = Math.ceil(Math.log10(max));
    // Powers from text: 10 ** -7 is not exactly 1e-7.
    return Array.from({ length: last - first + 1 }, (_, i) => Number(`1e${first + i}`));
}
