// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Histograms as charts. A recording's buckets grow in steps, so their counts cannot be compared
// with each other: they are spread over bins of equal width on the log axis, and drawn as the share
// of all values in each bin.

import type { Chart, Marker } from './chart';
import type { Histogram } from './recording';
import { format } from './units';

const bins = 72;

interface Edges {
    low: number;
    high: number;
}

/** The span of all histograms, on the log axis; zeros count as the smallest unit. */
function span(histograms: Histogram[]): Edges {
    const lows = histograms.map((h) => Math.max(1, h.buckets[0]?.[0] ?? 1));
    const highs = histograms.map((h) => Math.max(2, h.buckets[h.buckets.length - 1]?.[1] ?? 2));
    return { low: Math.log(Math.min(...lows)), high: Math.log(Math.max(...highs)) };
}

function shares(histogram: Histogram, { low, high }: Edges): number[] {
    const width = (high - low) / bins;
    const counts = new Array<number>(bins).fill(0);
    for (const [from, to, count] of histogram.buckets) {
        const start = Math.log(Math.max(1, from));
        const end = Math.max(Math.log(Math.max(1, to)), start + 1e-9);
        const first = Math.max(0, Math.min(bins - 1, Math.floor((start - low) / width)));
        const last = Math.max(first, Math.min(bins - 1, Math.ceil((end - low) / width) - 1));
        for (let bin = first; bin <= last; bin++) {
            const overlap =
                Math.min(end, low + (bin + 1) * width) - Math.max(start, low + bin * width);
            const part = first === last ? 1 : Math.max(0, overlap) / (end - start);
            counts[bin] = counts[bin]! + count * part;
        }
    }
    const total = counts.reduce((a, b) => a + b, 0);
    return counts.map((c) => (total === 0 ? 0 : c / total));
}

/** The value below which a share of the counts lies: the middle of its bucket. */
export function quantile(histogram: Histogram, q: number): number | null {
    const total = histogram.buckets.reduce((sum, [, , count]) => sum + count, 0);
    if (total === 0) return null;
    let seen = 0;
    for (const [low, high, count] of histogram.buckets) {
        seen += count;
        if (seen >= q * total)
            return Math.min(Math.max((low + high) / 2, histogram.min ?? 0), histogram.max ?? high);
    }
    return histogram.max;
}

function markers(histogram: Histogram): Marker[] {
    return [
        [0.5, 'p50'],
        [0.9, 'p90'],
        [0.99, 'p99'],
        [0.999, 'p99.9'],
    ].flatMap(([q, name]) => {
        const at = quantile(histogram, q as number);
        return at === null ? [] : [{ at, label: `${name} ${format(at, histogram.unit)}` }];
    });
}

/** Histograms of one unit over each other; the percentiles are those of the first. */
export function histogramChart(title: string, histograms: Histogram[]): Chart {
    const first = histograms[0]!;
    const edges = span(histograms);
    const width = (edges.high - edges.low) / bins;
    const x = Array.from({ length: bins + 1 }, (_, i) => Math.exp(edges.low + i * width));
    return {
        title,
        help:
            histograms.length > 1
                ? `How many took how long: the higher, the more. Percentiles are those of “${first.title}”. Log scale: each step is a factor.`
                : 'How many took how long: the higher, the more. Two hills are two kinds of operations, or a cache. Log scale: each step is a factor.',
        x,
        xUnit: first.unit,
        xLabel: 'from',
        xLog: true,
        unit: 'ratio',
        style: 'steps',
        lines: histograms.map((h) => ({ label: h.title, values: [...shares(h, edges), 0] })),
        markers: markers(first),
    };
}
