// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Where the labels of a chart's markers stand, in rows above the plot, so that none lies over another
// and no marker's line runs through the label of its neighbour.

export interface Label {
    /** Where its marker is, and how wide its text is, in pixels. */
    at: number;
    width: number;
}

export interface LabelPlace {
    start: number;
    /** 0 is the row next to the plot. */
    row: number;
}

/** From the right to the left: each beside its line, in the lowest row that is free. */
export function labelPlaces(labels: Label[], left: number, right: number, gap = 4): LabelPlace[] {
    const placed: (LabelPlace & Label)[] = [];
    const order = labels.map((label, index) => ({ label, index })).sort((a, b) => b.label.at - a.label.at);
    const result: LabelPlace[] = [];
    for (const { label, index } of order) {
        const start = Math.max(left, Math.min(label.at + gap, right - label.width));
        const end = start + label.width;
        const above = placed.map((other) => {
            const over = start < other.start + other.width + gap && other.start < end + gap;
            const crossed = other.at >= start - gap && other.at <= end + gap;
            return over || crossed ? other.row + 1 : 0;
        });
        const place = { start, row: Math.max(0, ...above) };
        placed.push({ ...label, ...place });
        result[index] = place;
    }
    return result;
}
