// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Metrics over the sizes: one value for each size, the median where a size ran several times.

import type { Chart } from './chart';
import { sizeLabel, type Recording, type Run } from './recording';

/** From this ratio on, sizes are taken to grow by factors rather than by steps. */
const factorRatio = 8;

export function sizesOf(recording: Recording): number[] {
    const sizes = recording.runs.map((r) => r.size).filter((s): s is number => s !== null);
    return [...new Set(sizes)].sort((a, b) => a - b);
}

export function median(values: number[]): number | null {
    if (values.length === 0) return null;
    const sorted = [...values].sort((a, b) => a - b);
    const middle = sorted.length >> 1;
    return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

type OfRun = (run: Run) => number | null | undefined;

export interface SizeLine {
    label: string;
    value: OfRun;
    /** The ends of the value's interval. */
    low?: OfRun;
    high?: OfRun;
    colour?: number;
    dashed?: boolean;
}

/** A chart over the sizes, or null where no size has a value. */
export function sizeChart(
    recording: Recording,
    title: string,
    unit: string,
    lines: SizeLine[],
    yScale: 'linear' | 'log' = 'linear',
    reading = '',
): Chart | null {
    const sizes = sizesOf(recording);
    const over = (value: OfRun) =>
        sizes.map((size) => {
            const values = recording.runs.filter((r) => r.size === size).map(value);
            return median(values.filter((v): v is number => typeof v === 'number'));
        });
    const drawn = lines
        .map(({ value, low, high, ...line }) => ({
            ...line,
            values: over(value),
            ...(low && high ? { low: over(low), high: over(high) } : {}),
        }))
        .filter((line) => line.values.some((v) => v !== null));
    if (drawn.length === 0) return null;
    const positive = drawn.every((l) => l.values.every((v) => v === null || v > 0));
    const first = sizes[0] ?? 0;
    const repeated = recording.runs.length > sizes.length;
    const notes = [
        reading,
        repeated && 'Median of the repetitions.',
        yScale === 'log' && positive && 'Log scale: each step is a factor.',
    ];
    const help = notes.filter(Boolean).join(' ');
    return {
        title,
        ...(help ? { help } : {}),
        x: sizes,
        xUnit: '1',
        xLabel: sizeLabel(recording),
        xTicks: sizes,
        xLog: first > 0 && sizes[sizes.length - 1]! >= factorRatio * first,
        unit,
        lines: drawn,
        yLog: yScale === 'log' && positive,
        style: 'points',
        sync: 'size',
    };
}
